/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Closing an endpoint.
 *
 *     OPEN --shutdown--> DRAINING --nothing in flight-----------------> SHUT --destroy-->
 *                            `------deadline--> ABORTING --nothing--'
 *
 * DRAINING: receives were cancelled, sends go on. ABORTING: the driver finishes every op.
 */

#include <inttypes.h>
#include <sched.h>
#include <string.h>

#include "fabric_pvt.h"
#include "leat_layer.h"

/* Time that an abort may take before leat_ep_close() reports that the device is stuck. */
#define ABORT_LIMIT_US (10 * 1000 * 1000)

uint16_t
leat_ep_closed_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n)
{
	RTE_SET_USED(ep);
	RTE_SET_USED(ops);
	RTE_SET_USED(n);
	rte_errno = ESHUTDOWN;
	return 0;
}

void
leat_ep_closed_poll(struct leat_ep *ep)
{
	RTE_SET_USED(ep);
}

const char *
leat_ep_inflight_str(const struct leat_ep *ep, char *buf, size_t len)
{
	uint32_t rx = ep->ctrl->conf.rx_depth - ep->rx_room;
	uint32_t i, named = 0, with = 0;
	size_t pos;
	int n;

	n = snprintf(buf, len, "%u ops in flight: %u receives, %u others", leat_ep_inflight(ep), rx,
		     leat_ep_inflight(ep) - rx);
	if (n < 0 || (size_t)n >= len)
		return buf;
	pos = (size_t)n;
	for (i = 0; i < ep->nb_peers; i++) {
		const struct leat_peer *p = &ep->peers[i];

		if (leat_peer_inflight(p) == 0)
			continue;
		with++;
		if (named == 3)
			continue;
		n = snprintf(buf + pos, len - pos, "%s%u to %s (peer %u)", named == 0 ? ": " : ", ",
			     leat_peer_inflight(p), leat_peer_addr(ep, p), i);
		if (n < 0 || (size_t)n >= len - pos)
			return buf;
		pos += (size_t)n;
		named++;
	}
	if (with > named)
		snprintf(buf + pos, len - pos, " and %u more peers", with - named);
	return buf;
}

int
leat_ep_shutdown(struct leat_ep *ep, uint64_t timeout_us)
{
	struct leat_ep_ctrl *c = ep->ctrl;
	uint64_t deadline = leat_time_add(leat_now(), leat_us_to_cycles(timeout_us));

	if (c->state != LEAT_EP_OPEN) {
		c->shut_deadline = RTE_MIN(c->shut_deadline, deadline);
		return leat_err(EALREADY, "%s: shutdown: it was asked for before", c->name);
	}
	LEAT_EP_STATE_SET(c, LEAT_EP_DRAINING);
	c->shut_deadline = deadline;
	leat_ep_post_set(ep, leat_ep_closed_post);
	ep->post_soon = NULL;
	c->driver->ep_quiesce(ep);
	return 0;
}

void
leat_ep_closing_step(struct leat_ep *ep, uint64_t now)
{
	struct leat_ep_ctrl *c = ep->ctrl;
	char what[256];

	if (c->state == LEAT_EP_DRAINING && leat_ep_inflight(ep) > 0 && now >= c->shut_deadline) {
		LEAT_LOG(WARNING, fabric,
			 "%s: closing endpoint %s: deadline passed with %s; aborting them",
			 leat_dev_name(ep->dev), c->name,
			 leat_ep_inflight_str(ep, what, sizeof(what)));
		LEAT_EP_STATE_SET(c, LEAT_EP_ABORTING);
		c->shut_status = -ETIMEDOUT;
		c->driver->ep_abort(ep);
	}
	if ((c->state == LEAT_EP_DRAINING || c->state == LEAT_EP_ABORTING) &&
	    leat_ep_inflight(ep) == 0) {
		LEAT_EP_STATE_SET(c, LEAT_EP_SHUT);
		c->shut_event = true;
		leat_ep_poll_set(ep, leat_ep_closed_poll);
	}
}

static uint16_t
poll_done(struct leat_ep *ep, void (*done)(struct leat_op *op, void *arg), void *arg)
{
	struct leat_op *ops[32];
	uint16_t i, n = leat_ep_poll(ep, ops, RTE_DIM(ops));

	for (i = 0; i < n && done != NULL; i++)
		done(ops[i], arg);
	return n;
}

int
leat_ep_stop(struct leat_ep *ep, uint64_t timeout_us, void (*done)(struct leat_op *op, void *arg),
	     void *arg)
{
	struct leat_ep_ctrl *c = ep->ctrl;
	uint64_t limit = leat_us_to_cycles(ABORT_LIMIT_US), aborted = 0;
	char what[128];

	/* -EALREADY: wait for the shutdown under way, at most until the earlier deadline. */
	(void)leat_ep_shutdown(ep, timeout_us);
	while (c->state != LEAT_EP_SHUT || ep->nb_ready > 0) {
		uint16_t n = poll_done(ep, done, arg);

		(void)leat_ep_events(ep, NULL, 0);
		if (c->state == LEAT_EP_ABORTING) {
			if (aborted == 0)
				aborted = leat_now();
			else if (leat_now() - aborted > limit)
				return leat_err(EBUSY,
						"%s: close: the device does not give back %s",
						c->name,
						leat_ep_inflight_str(ep, what, sizeof(what)));
		}
		if (n == 0)
			sched_yield();
	}
	return c->shut_status;
}

int
leat_ep_close(struct leat_ep *ep, uint64_t timeout_us, void (*done)(struct leat_op *op, void *arg),
	      void *arg)
{
	int status = leat_ep_stop(ep, timeout_us, done, arg);

	if (status == -EBUSY)
		return status;
	return leat_ep_destroy(ep) < 0 ? -rte_errno : status;
}
