/* SPDX-License-Identifier: BSD-3-Clause */

/* Drive an endpoint and its context where no poller of a reactor does it in each turn. */

#include <time.h>

#include <leat_rpc_task.h>

#include "bench.h"

#define NAP_US 200
#define SHUT_US RB_US

static void
events_take(struct leat_rpc *rpc, const struct leat_rpc_reactor_conf *on)
{
	struct leat_rpc_event ev;

	while (leat_rpc_events(rpc, &ev, 1) == 1) {
		if (on->event != NULL)
			on->event(on->arg, rpc, &ev);
		else if (ev.type == LEAT_RPC_ENDED)
			(void)leat_rpc_close(ev.session, 0);
	}
}

int
rb_drive(struct leat_ep *ep, struct leat_rpc *rpc, const struct leat_rpc_reactor_conf *on,
	 bool *shut)
{
	struct leat_op *ops[LEAT_EP_BURST];
	struct leat_event ev;
	int n;

	n = leat_ep_poll(ep, ops, LEAT_EP_BURST);
	if (rpc != NULL) {
		(void)leat_rpc_process(rpc, ops, (uint16_t)n);
		(void)leat_rpc_poll(rpc, NULL, 0);
	}
	while (leat_ep_events(ep, &ev, 1) == 1) {
		if (ev.type == LEAT_EV_SHUTDOWN)
			*shut = true;
		if (rpc == NULL)
			continue;
		if (ev.type != LEAT_EV_CONNECT_REQ)
			(void)leat_rpc_handle_event(rpc, &ev);
		else if (on->accept != NULL)
			on->accept(on->arg, rpc, &ev);
		n++;
	}
	if (rpc != NULL)
		events_take(rpc, on);
	return n;
}

void
rb_nap(void)
{
	struct timespec ts = { .tv_nsec = NAP_US * 1000 };

	if (leat_task_current() == NULL)
		(void)nanosleep(&ts, NULL);
	else if (leat_task_sleep(NAP_US) < 0) /* a cancelled task can't sleep, but can yield */
		(void)leat_task_yield();
}

int
rb_shut(struct leat_ep *ep, struct leat_rpc *rpc)
{
	static const struct leat_rpc_reactor_conf none;
	uint64_t end = leat_time_add(leat_now(), leat_us_to_cycles(2 * SHUT_US));
	bool shut = leat_ep_shutdown(ep, SHUT_US) < 0;
	int ret;

	while ((rb_drive(ep, rpc, &none, &shut) > 0 || !shut || leat_ep_inflight(ep) > 0) &&
	       leat_now() < end)
		rb_nap();
	ret = leat_rpc_destroy(rpc);
	return ret < 0 ? ret : leat_ep_destroy(ep);
}
