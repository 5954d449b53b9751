/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Latency in a closed loop: one message at a time.
 *
 *     t0 --ping--> ... --pong--> t1      sample: (t1 - t0) / 2; of READ and atomics t1 - t0
 *
 * The next t0 is t1; but after rare work (a tick, flushing samples) it is the time at which this
 * work has ended. The receive of a pong is posted again right after the next ping was sent, while
 * that ping is under way.
 */

#include <leat_histogram.h>

#include "side.h"

void
perf_samples_flush(struct perf_samples *sm)
{
	const struct perf_phase *ph = sm->ph;
	uint32_t i;

	for (i = 0; ph->hist != NULL && i < sm->n; i++) {
		uint64_t ns;

		/* Half of a round trip is rounded to the nearest ns. */
		if (ph->whole)
			ns = leat_cycles_to_ns(sm->cycles[i]);
		else
			ns = (leat_cycles_to_ns(sm->cycles[i] << 1) + 2) >> 2;
		leat_histogram_record(ph->hist, ns);
		leat_tune_histogram_add(ph->live, ns);
	}
	sm->n = 0;
}

void
perf_laps_end(struct perf_side *s, struct perf_samples *sm, uint64_t t1, uint64_t done)
{
	sm->ph->end = t1;
	sm->ph->done = done;
	s->seq += done;
	perf_samples_flush(sm);
}

/* Post a send; poll while there is no room. @return 0, or a negative errno */
static int
post_ping(struct perf_side *s, struct leat_op *ping)
{
	int ret;

	while (unlikely(perf_tx_room(s) == 0 || perf_post(s, &ping, 1) == 0)) {
		ret = perf_chan_poll(s);
		if (ret < 0)
			return ret;
		if (s->ctl_full)
			return perf_chan_stray(s);
	}
	s->posted++;
	return 0;
}

/* Handle polled ops. Set *rx to the pong's receive if it has completed. @return as post_ping() */
static __rte_always_inline int
handle_polled(struct perf_side *s, struct leat_op **done, uint16_t n, struct leat_op **rx,
	      const bool imm)
{
	uint16_t i;

	for (i = 0; i < n; i++) {
		if (!perf_is_recv(done[i])) {
			s->returned++;
			if (unlikely(done[i]->status != 0))
				return perf_op_failed(s, done[i]);
		} else if (likely(perf_is_data(s, done[i], imm) && *rx == NULL)) {
			*rx = done[i];
		} else {
			int err = perf_chan_input(s, done[i]);

			return err < 0 ? err : perf_chan_stray(s);
		}
	}
	return 0;
}

static __rte_always_inline int
pingpong(struct perf_side *s, struct perf_phase *ph, const bool imm, const bool check)
{
	struct perf_samples sm = { .ph = ph };
	struct leat_op *done[PERF_POLL], *rx = NULL, *last = NULL;
	uint32_t slot = (uint32_t)(s->seq % s->nb_tx);
	uint64_t i, t0, t1;
	int ret = 0;

	t1 = t0 = ph->start = rte_rdtsc();
	for (i = 0; ret == 0 && i < ph->n && t1 < ph->until; i++) {
		if (check)
			(void)perf_tx_prepare(s, s->seq + i);
		ret = post_ping(s, s->txp[slot]);
		if (unlikely(ret < 0))
			break;
		if (++slot == s->nb_tx)
			slot = 0;
		if (likely(last != NULL))
			perf_rx_repost(s, &last, 1);
		last = NULL;
		rx = NULL;
		do {
			uint16_t n = perf_poll(s, done, PERF_POLL);

			ret = likely(n > 0) ? handle_polled(s, done, n, &rx, imm) : perf_idle(s);
		} while (ret == 0 && rx == NULL);
		last = rx;
		if (unlikely(ret != 0))
			break;
		t1 = rte_rdtsc();
		if (check)
			perf_rx_verify(s, rx, s->seq + i, imm);
		ret = perf_lap(s, &sm, &t0, t1, check);
	}
	if (last != NULL)
		perf_rx_repost(s, &last, 1);
	perf_laps_end(s, &sm, t1, i);
	return ret;
}

int
perf_lat_pingpong(struct perf_side *s, struct perf_phase *ph)
{
	if (s->run.op == LEAT_OP_WRITE_IMM)
		return s->run.check ? pingpong(s, ph, true, true) : pingpong(s, ph, true, false);
	return s->run.check ? pingpong(s, ph, false, true) : pingpong(s, ph, false, false);
}

int
perf_lat_initiator(struct perf_side *s, struct perf_phase *ph)
{
	struct perf_samples sm = { .ph = ph };
	const bool check = s->run.check;
	struct leat_op *done[PERF_POLL], *rx = NULL;
	uint64_t i, want, t0, t1;
	int ret = 0;

	t1 = t0 = ph->start = rte_rdtsc();
	for (i = 0; ret == 0 && i < ph->n && t1 < ph->until; i++) {
		struct leat_op *op = s->txp[0];

		if (check)
			op = perf_tx_prepare(s, s->seq + i);
		ret = post_ping(s, op);
		if (unlikely(ret < 0))
			break;
		want = s->posted;
		do {
			uint16_t n = perf_poll(s, done, PERF_POLL);

			if (n == 0)
				ret = perf_idle(s);
			else
				ret = handle_polled(s, done, n, &rx, false);
			if (unlikely(rx != NULL))
				ret = perf_fail(s, EPROTO, "data came where none was expected");
		} while (ret == 0 && s->returned != want);
		if (unlikely(ret < 0))
			break;
		t1 = rte_rdtsc();
		if (check)
			perf_tx_verify(s, s->seq + i);
		ret = perf_lap(s, &sm, &t0, t1, check);
	}
	perf_laps_end(s, &sm, t1, i);
	return ret;
}
