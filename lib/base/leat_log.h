/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_LOG_H
#define LEAT_LOG_H

/**
 * @file
 * Logging, through DPDK's rte_log: each part of leat has a dynamic log type "leat.<part>", so
 * EAL's --log-level selects what is shown, for example --log-level=leat.fabric:debug or
 * --log-level='leat.*:error'. The default level is INFO. Lines go where rte_log sends them
 * (standard error unless the application chose otherwise), never to standard output.
 */

#include <rte_log.h>

#include <leat_common.h>

#ifdef __cplusplus
extern "C" {
#endif

/** @name Log types, registered when libleat is loaded. */
/**@{*/
LEAT_API extern int leat_logtype_base;	     /**< "leat.base": what all parts share */
LEAT_API extern int leat_logtype_tune;	     /**< "leat.tune": settings and measurements */
LEAT_API extern int leat_logtype_rendezvous; /**< "leat.rendezvous": start of several processes */
LEAT_API extern int leat_logtype_exchange;   /**< "leat.exchange": exchange of addresses */
LEAT_API extern int leat_logtype_fabric;     /**< "leat.fabric": devices, endpoints and ops */
LEAT_API extern int leat_logtype_tags;	     /**< "leat.tags": the tag layer */
LEAT_API extern int leat_logtype_reactor;    /**< "leat.reactor": event loops */
LEAT_API extern int leat_logtype_task;	     /**< "leat.task": tasks and scopes */
LEAT_API extern int leat_logtype_msg;	     /**< "leat.msg": messages */
LEAT_API extern int leat_logtype_rpc;	     /**< "leat.rpc": requests and responses */
LEAT_API extern int leat_logtype_stream;     /**< "leat.stream": byte streams */
LEAT_API extern int leat_logtype_driver;     /**< "leat.driver": all drivers */
LEAT_API extern int leat_logtype_app;	     /**< "leat.app": programs */
/**@}*/

/**
 * Log one line: LEAT_LOG(ERR, fabric, "port %d is busy", port) gives
 * "leat/fabric: port 7 is busy\n".
 *
 * @param level
 *   ERR, WARNING, NOTICE, INFO or DEBUG (RTE_LOG_x without its prefix).
 * @param part
 *   base, tune, rendezvous, exchange, fabric, tags, reactor, task, msg, rpc, stream, driver or app.
 * @param ...
 *   A literal printf format without the newline, and its arguments.
 *
 * Any thread, at any time, also before rte_eal_init(). Not for the fast path.
 */
#define LEAT_LOG(level, part, ...)                                                                 \
	rte_log(RTE_LOG_##level, (uint32_t)leat_logtype_##part,                                    \
		RTE_FMT("leat/" #part ": " RTE_FMT_HEAD(__VA_ARGS__, ) "\n",                       \
			RTE_FMT_TAIL(__VA_ARGS__, )))

#ifdef __cplusplus
}
#endif

#endif /* LEAT_LOG_H */
