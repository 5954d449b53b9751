/* SPDX-License-Identifier: BSD-3-Clause */

/* The loops of the serving side. */

#include "side.h"

/*
 * Check whether a control message has ended the phase. counted: SYNC, which may overtake tagged
 * messages and writes, ends the phase only when as many messages have arrived as it says were sent.
 */
static inline bool
over(const struct perf_side *s, bool counted)
{
	if (likely(!s->ctl_full))
		return false;
	return !counted || s->ctl.type != WIRE_SYNC || s->count >= s->ctl.count;
}

/* Check the immediate of a WRITE_IMM. Only WRITE_IMMs of the current window come, in any order. */
static void
check_imm(struct perf_side *s, const struct leat_op *op)
{
	uint64_t imm = perf_imm(s, op->imm), off = perf_imm(s, imm - s->checked);

	if ((op->oflags & LEAT_OP_F_IMM) == 0 || off >= s->run.window)
		perf_error_add(&s->errors, PERF_ERR_IMM, s->count, 0, perf_imm(s, s->checked), imm);
}

/* Answer the messages that have no answer yet, as many as there is room for. */
static inline void
send_pongs(struct perf_side *s, bool check)
{
	while (s->seq < s->count && perf_tx_room(s) > 0) {
		struct leat_op *op = s->txp[s->seq % s->nb_tx];

		if (check)
			(void)perf_tx_prepare(s, s->seq);
		if (unlikely(perf_post(s, &op, 1) == 0))
			break;
		s->posted++;
		s->seq++;
	}
}

/* Answer each message with one of the same size. */
static __rte_always_inline int
echo(struct perf_side *s, const bool imm, const bool check)
{
	struct leat_op *done[PERF_POLL], *rx[PERF_POLL];
	uint32_t nb_rx;
	int ret = 0;

	do {
		uint16_t i, n = perf_poll(s, done, PERF_POLL);

		if (n == 0) {
			ret = perf_idle(s);
			/* Send answers that found no room before. */
			if (unlikely(s->seq < s->count))
				send_pongs(s, check);
			continue;
		}
		nb_rx = 0;
		for (i = 0; i < n; i++) {
			struct leat_op *op = done[i];

			if (!perf_is_recv(op)) {
				s->returned++;
				if (unlikely(op->status != 0))
					return perf_op_failed(s, op);
			} else if (likely(perf_is_data(s, op, imm))) {
				if (check)
					perf_rx_verify(s, op, s->count, imm);
				rx[nb_rx++] = op;
				s->count++;
			} else {
				ret = perf_chan_input(s, op);
				if (ret < 0)
					return ret;
			}
		}
		send_pongs(s, check);
		/* The answers are under way: a tick delays no message now. */
		if (likely(nb_rx > 0)) {
			perf_rx_repost(s, rx, nb_rx);
			ret = perf_due(s, rte_rdtsc());
		}
	} while (likely(ret == 0) && !over(s, true));
	return ret;
}

/* Receive messages, or the notices of WRITE_IMMs, and send no answers. */
static __rte_always_inline int
sink(struct perf_side *s, const bool imm, const bool check)
{
	struct leat_op *done[PERF_POLL];
	uint32_t turns = 0;
	int ret = 0;

	do {
		uint16_t i, nb_rx = 0, n = perf_poll(s, done, PERF_POLL);

		for (i = 0; i < n; i++) {
			struct leat_op *op = done[i];

			if (likely(perf_is_recv(op) && perf_is_data(s, op, imm))) {
				if (check && imm)
					check_imm(s, op);
				else if (check)
					perf_rx_verify(s, op, s->count, false);
				done[nb_rx++] = op;
				s->count++;
			} else if (perf_is_recv(op)) {
				ret = perf_chan_input(s, op);
				if (ret < 0)
					return ret;
			} else {
				s->returned++;
				if (op->status != 0)
					return perf_op_failed(s, op);
			}
		}
		if (nb_rx > 0)
			perf_rx_repost(s, done, nb_rx);
		if (n == 0)
			ret = perf_idle(s);
		else if (unlikely(++turns % 64 == 0))
			ret = perf_due(s, rte_rdtsc());
	} while (likely(ret == 0) && !over(s, true));
	return ret;
}

/* Poll while the client reads, writes or changes memory: some providers need it for progress. */
static int
passive(struct perf_side *s)
{
	struct leat_op *done[PERF_POLL];
	uint32_t turns = 0;
	int ret = 0;

	do {
		uint16_t i, n = perf_poll(s, done, PERF_POLL);

		for (i = 0; i < n; i++) {
			if (perf_is_recv(done[i])) {
				ret = perf_chan_input(s, done[i]);
				if (ret < 0)
					return ret;
			} else {
				s->returned++;
				if (done[i]->status != 0)
					return perf_op_failed(s, done[i]);
			}
		}
		ret = n == 0 ? perf_idle(s) : 0;
		if (unlikely(++turns % 4096 == 0) && ret == 0)
			ret = perf_due(s, rte_rdtsc());
	} while (likely(ret == 0) && !over(s, false));
	return ret;
}

static int
serve_echo(struct perf_side *s)
{
	const struct perf_run *r = &s->run;

	if (r->op == LEAT_OP_WRITE_IMM)
		return r->check ? echo(s, true, true) : echo(s, true, false);
	return r->check ? echo(s, false, true) : echo(s, false, false);
}

static int
serve_sink(struct perf_side *s)
{
	const struct perf_run *r = &s->run;

	if (r->op == LEAT_OP_WRITE_IMM)
		return r->check ? sink(s, true, true) : sink(s, true, false);
	return r->check ? sink(s, false, true) : sink(s, false, false);
}

int
perf_serve(struct perf_side *s)
{
	const struct perf_run *r = &s->run;
	int ret;

	s->no_timeout = true;
	switch (r->op) {
	case LEAT_OP_SEND:
	case LEAT_OP_TSEND:
	case PERF_OP_MSG:
		ret = r->test == PERF_LAT ? serve_echo(s) : serve_sink(s);
		break;
	case LEAT_OP_WRITE_IMM:
		ret = r->test == PERF_LAT && !r->open ? serve_echo(s) : serve_sink(s);
		break;
	case LEAT_OP_WRITE:
		ret = r->test == PERF_LAT && !r->open ? perf_serve_write(s) : passive(s);
		break;
	default:
		ret = passive(s);
		break;
	}
	s->no_timeout = false;
	perf_side_restart_timers(s);
	return ret;
}
