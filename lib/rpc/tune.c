/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Settings and measurements of a context: rpc.toml. rpc_deadlines_run() serves them. The settings
 * are members of struct leat_rpc_conf; as there, 0 means the default.
 */

#include <rte_common.h>
#include <rte_errno.h>

#include "rpc_bulk.h"
#include "rpc_counters.h"
#include "rpc_pvt.h"

/* Settings, named as the members of struct leat_rpc_conf. */
#define SETTINGS(X)                                                                                \
	X(max_sessions)                                                                            \
	X(packet)                                                                                  \
	X(credits)                                                                                 \
	X(slots)                                                                                   \
	X(tx_packets)                                                                              \
	X(tickets)                                                                                 \
	X(max_msg)                                                                                 \
	X(large)                                                                                   \
	X(segments)                                                                                \
	X(segment)                                                                                 \
	X(bulk_grace_us)                                                                           \
	X(busy_us)                                                                                 \
	X(silence_us)                                                                              \
	X(idle_us)

static int
apply(void *arg, void *wanted, uint64_t changed)
{
	const struct rpc_tune_settings *want = wanted;
	struct leat_rpc *rpc = arg;
	struct leat_rpc_conf conf = { 0 };

	(void)changed;
	/* During leat_tune_add() do nothing: rpc_tune_add() copies the settings afterwards. */
	if (rpc->tune == NULL)
		return 0;
	conf.segment = want->segment;
	conf.bulk_grace_us = want->bulk_grace_us;
	conf.busy_us = want->busy_us;
	conf.silence_us = want->silence_us;
	conf.idle_us = want->idle_us;
	rpc_conf_times(rpc, &conf);
	return 0;
}

static void
report(void *arg, void *to)
{
	struct rpc_tune_report *rep = to;
	struct leat_rpc_stats s;
	unsigned int i;

	leat_rpc_stats_get(arg, &s);
#define COUNTER(name) rep->name = s.name;
	RPC_COUNTERS(COUNTER)
#undef COUNTER
	for (i = 0; i < LEAT_RPC_VIOLATIONS; i++)
		rep->violations += s.violations[i];
	rep->sessions = s.sessions;
	rep->deferred = s.tickets;
	rep->large_now = s.large;
	rep->transfers = s.transfers;
	rep->tx_packets_now = s.tx_packets;
	rep->memory = (int64_t)s.memory;
}

int
rpc_tune_add(struct leat_rpc *rpc, struct leat_rpc_conf *rpc_conf)
{
	const struct leat_tune_conf conf = {
		.schema = &rpc_tune_schema,
		.name = leat_ep_name(rpc->ep),
		.settings = &rpc->set,
		.apply = apply,
		.report = report,
		.report_on_owner = true,
		.arg = rpc,
	};

#define SETTING(name) rpc->set.name = rpc_conf->name;
	SETTINGS(SETTING)
#undef SETTING
	rpc->tune = leat_tune_add(&conf);
	if (rpc->tune == NULL)
		return -rte_errno;
#define SETTING(name) rpc_conf->name = rpc->set.name;
	SETTINGS(SETTING)
#undef SETTING
	return 0;
}
