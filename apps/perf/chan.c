/* SPDX-License-Identifier: BSD-3-Clause */

/* Receives, and control messages over the same endpoint as the data. */

#include <string.h>

#include "side.h"

void
perf_rx_repost(struct perf_side *s, struct leat_op **ops, uint32_t n)
{
	uint32_t i = 0;

	while (i < n) {
		uint16_t k = (uint16_t)RTE_MIN(n - i, (uint32_t)PERF_BURST_MAX);
		uint16_t got = perf_post(s, ops + i, k);

		i += got;
		if (unlikely(got < k))
			break;
	}
	/*
	 * The device has no room for the others: keep them for the next tick. If ops is rx_wait,
	 * they move to its start.
	 */
	for (; unlikely(i < n); i++)
		s->rx_wait[s->nb_rx_wait++] = ops[i];
}

void
perf_rx_post_all(struct perf_side *s)
{
	struct leat_op *op;
	uint32_t i;

	for (i = 0; i < s->nb_rx; i++) {
		op = &s->rx[i];
		perf_rx_repost(s, &op, 1);
	}
}

/* Yield after a poll that returned nothing, and tick if due. For use outside of measurements. */
static int
yield_and_tick(struct perf_side *s, uint16_t n)
{
	if (n == 0)
		sched_yield();
	return perf_due(s, rte_rdtsc());
}

int
perf_rx_recall(struct perf_side *s)
{
	uint32_t i, home = s->nb_rx_wait;
	struct leat_op *done[PERF_POLL];
	uint16_t j, n;
	int ret;

	s->nb_rx_wait = 0;
	for (i = 0; i < s->nb_rx; i++)
		(void)(s->msgs == NULL
			       ? leat_op_cancel(s->ep, &s->rx[i])
			       : perf_msg_cancel(s, &s->rx[i])); /* -ENOENT: it is not posted */
	perf_side_restart_timers(s);
	while (home < s->nb_rx) {
		n = perf_poll(s, done, RTE_DIM(done));
		for (j = 0; j < n; j++) {
			if (perf_is_recv(done[j])) {
				home++;
				if (done[j]->status == 0)
					return perf_fail(s, EPROTO,
							 "the other side sent a message between "
							 "two runs");
			} else {
				s->returned++;
				if (done[j]->status != 0)
					return perf_op_failed(s, done[j]);
			}
		}
		ret = yield_and_tick(s, n);
		if (ret < 0)
			return ret;
	}
	s->nb_rx = 0;
	return 0;
}

int
perf_chan_input(struct perf_side *s, struct leat_op *op)
{
	int ret;

	if (op->status != 0)
		return perf_op_failed(s, op);
	if (op->type != LEAT_OP_RECV || (op->oflags & LEAT_OP_F_WRITTEN) != 0)
		return perf_fail(s, EPROTO, "a %s of %" PRIu64 " B came where none was expected",
				 leat_op_type_name(op->type), op->len);
	if (s->ctl_full)
		return perf_fail(s, EPROTO, "two control messages at a time");
	ret = op->len > op->size ? -EPROTO : wire_decode(op->buf, op->len, &s->ctl);
	if (ret == -EPROTONOSUPPORT)
		return perf_fail(s, EPROTONOSUPPORT,
				 "the %s is a leat-perf of another version, whose protocol is not "
				 "this one's (%d)",
				 s->server ? "client" : "listener", WIRE_VERSION);
	if (ret < 0)
		return perf_fail(s, EPROTO,
				 "a message of %" PRIu64 " B came that is neither data (%" PRIu64
				 " B) nor a control message",
				 op->len, s->size);
	s->ctl_full = true;
	perf_rx_repost(s, &op, 1);
	return 0;
}

int
perf_chan_stray(struct perf_side *s)
{
	if (s->ctl.type == WIRE_REFUSED)
		return perf_fail(s, EREMOTEIO, "the listener gives up: %.200s", s->ctl.text);
	return perf_fail(s, EPROTO, "a control message came in the middle of a run");
}

int
perf_chan_poll(struct perf_side *s)
{
	struct leat_op *done[PERF_POLL];
	uint16_t i, n = perf_poll(s, done, RTE_DIM(done));
	int ret = 0;

	for (i = 0; i < n; i++) {
		if (perf_is_recv(done[i])) {
			ret = perf_chan_input(s, done[i]);
		} else {
			s->returned++;
			if (done[i]->status != 0)
				ret = perf_op_failed(s, done[i]);
		}
		if (ret < 0)
			return ret;
	}
	return yield_and_tick(s, n);
}

int
perf_chan_send(struct perf_side *s, const struct wire_msg *m)
{
	uint32_t idx = s->ctl_next;
	struct leat_op *op = &s->ctl_tx[idx];
	int ret;

	/* Wait for the sends of lib/msg: they may complete out of order with other sends. */
	if (s->msgs != NULL) {
		ret = perf_chan_drain(s);
		if (ret < 0)
			return ret;
	}
	/* This op carried the control message before the last: wait until it has completed. */
	while (s->returned < s->ctl_seq[idx]) {
		ret = perf_chan_poll(s);
		if (ret < 0)
			return ret;
	}
	op->peer = s->peer;
	op->size = s->ctl_len;
	wire_encode(m, op->buf, (uint32_t)op->size);
	while (perf_post(s, &op, 1) == 0) {
		ret = perf_chan_poll(s);
		if (ret < 0)
			return ret;
	}
	s->posted++;
	s->ctl_posted++;
	s->ctl_seq[idx] = s->posted;
	s->ctl_next = idx ^ 1;
	return 0;
}

int
perf_chan_wait(struct perf_side *s, struct wire_msg *m)
{
	int ret;

	perf_side_restart_timers(s);
	while (!s->ctl_full) {
		ret = perf_chan_poll(s);
		if (ret < 0)
			return ret;
	}
	*m = s->ctl;
	s->ctl_full = false;
	if (m->type == WIRE_REFUSED)
		return perf_fail(s, m->err > 0 ? m->err : EREMOTEIO, "the %s refuses: %.200s",
				 s->server ? "client" : "listener", m->text);
	return 0;
}

static int
exchange_cards(struct perf_side *s)
{
	struct wire_msg m = { .type = WIRE_HELLO, .card = s->card };
	int ret;

	if (!s->server) {
		ret = perf_chan_send(s, &m);
		if (ret < 0)
			return ret;
	}
	ret = perf_chan_wait(s, &m);
	if (ret < 0)
		return ret;
	if (m.type != WIRE_HELLO)
		return perf_fail(s, EPROTO, "a message before HELLO");
	s->other = m.card;
	if (!s->server)
		return 0;
	m.card = s->card;
	return perf_chan_send(s, &m);
}

int
perf_chan_hello(struct perf_side *s)
{
	char why[PERF_TEXT];
	int ret = exchange_cards(s);

	if (ret == 0 || ret == -EINTR)
		return ret;
	perf_side_find_cause(s);
	memcpy(why, s->why, sizeof(why));
	return perf_fail(s, -ret, "no word from a leat-perf of this version: %.200s", why);
}

int
perf_chan_drain(struct perf_side *s)
{
	int ret;

	perf_side_restart_timers(s);
	while (s->returned < s->posted) {
		ret = perf_chan_poll(s);
		if (ret < 0)
			return ret;
	}
	return 0;
}
