/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_MSG_REACTOR_H
#define LEAT_MSG_REACTOR_H

/**
 * @file
 * Message contexts driven by a reactor: one call replaces the application's own loop.
 *
 * @code
 *	static void on_done(void *arg, struct leat_msg_req **reqs, uint16_t n, uint64_t now);
 *	static void on_event(void *arg, const struct leat_msg_event *ev);
 *	static void on_ep_event(void *arg, struct leat_ep *ep, const struct leat_event *ev)
 *	{
 *		if (ev->type == LEAT_EV_CONNECT_REQ)
 *			... leat_msg_accept(m, ev, NULL)
 *	}
 *
 *	const struct leat_msg_reactor_conf conf = {
 *		.done = on_done, .event = on_event, .ep_event = on_ep_event, .arg = app,
 *	};
 *
 *	m = leat_msg_create(ep, NULL);
 *	ret = leat_msg_reactor_add(m, r, &conf);
 *	... leat_reactor_run(r) ...
 *	leat_reactor_destroy(r);
 *	leat_msg_destroy(m);
 *	leat_ep_destroy(ep);
 * @endcode
 *
 * The reactor polls the endpoint, takes its events, and drives the connections. It may block
 * (LEAT_IDLE_BLOCK) if the endpoint has a wait object.
 *
 * When the reactor stops, the connections are closed before the endpoint is shut down. The numbers
 * are fractions of the time from the stop to its deadline:
 *
 *     stop                                                                       its deadline
 *      | tasks end | sends go out              | disconnected     | shutdown      |
 *      0          1/4                         5/8                3/4              1
 *
 * Each step ends early when it has nothing left to do. The first step exists only if the reactor
 * has tasks: while they end they may still send, and close their connections. If sends are left at
 * the end of the second step, the stop reports them: "3 sends to 10.0.0.1:7000".
 *
 * Thread rules: as for pollers; callbacks run on the reactor's thread.
 */

#include <leat_common.h>
#include <leat_msg.h>
#include <leat_poller.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Maximum number of requests per call of leat_msg_done_fn. */
#define LEAT_MSG_BURST 32

/**
 * Handle requests that are done: 1 to LEAT_MSG_BURST, in the order of leat_msg_poll(). The
 * application owns them again, and may post them from this function.
 *
 * @param arg
 *   leat_msg_reactor_conf.arg.
 * @param reqs
 *   The requests.
 * @param n
 *   Number of requests.
 * @param now
 *   The turn's timestamp, cycles.
 */
typedef void (*leat_msg_done_fn)(void *arg, struct leat_msg_req **reqs, uint16_t n, uint64_t now);

/**
 * Handle an event of a connection. After LEAT_MSG_CLOSED, new connections may have the same
 * pointer; not before.
 */
typedef void (*leat_msg_event_fn)(void *arg, const struct leat_msg_event *ev);

/** Functions that a context calls while a reactor drives it. */
struct leat_msg_reactor_conf {
	leat_msg_done_fn done;	 /**< gets requests that are done; required */
	leat_msg_event_fn event; /**< gets events of connections; NULL: they are dropped */
	leat_ep_ops_fn ops;	 /**< gets the application's own ops; NULL: they are dropped */
	/**
	 * Gets those events of the endpoint that are the application's: CONNECT_REQ, SHUTDOWN, and
	 * events of peers that the application connected itself. NULL: they are dropped, and
	 * connection requests are rejected.
	 */
	leat_ep_event_fn ep_event;
	void *arg; /**< first argument of these functions */
};

/**
 * Attach a context to a reactor: from here on the reactor makes the calls that leat_msg.h asks of
 * an application's loop.
 *
 * The endpoint itself must not have been added with leat_reactor_ep_add(). Only one of its contexts
 * can be attached; ops of its other contexts come to conf.ops.
 *
 * @param m
 *   The context.
 * @param r
 *   The reactor.
 * @param conf
 *   Copied.
 * @return
 *   - 0
 *   - -EINVAL: conf.done is NULL
 *   - -EALREADY: the context is attached to a reactor
 *   - -ENOSPC, -EPERM: as leat_reactor_poller_add()
 *   - -ENOMEM
 */
LEAT_API int leat_msg_reactor_add(struct leat_msg *m, struct leat_reactor *r,
				  const struct leat_msg_reactor_conf *conf);

/**
 * Detach a context from its reactor. Connections stay open; the application drives the context.
 *
 * @return
 *   0; -ENOENT: the context is attached to no reactor; -EPERM: wrong thread; -EBUSY: called in one
 *   of the context's callbacks.
 */
LEAT_API int leat_msg_reactor_remove(struct leat_msg *m);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_MSG_REACTOR_H */
