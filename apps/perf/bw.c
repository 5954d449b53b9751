/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Streaming: at most `limit` messages in flight, posted in bursts of `burst`. An agent can change
 * both by settings, which the loop applies in each tick and every TURNS turns.
 *
 *     txp   | 0 1 2 ... W-1 | 0 1 2 ... W-1 |     the ops twice, so that a burst is contiguous
 *                     head ^---burst---^          wherever it begins
 */

#include "side.h"

/* The loop reads the clock every TURNS turns. */
#define TURNS 64

static int
stray(struct perf_side *s, struct leat_op *op)
{
	int ret = perf_chan_input(s, op);

	return ret < 0 ? ret : perf_chan_stray(s);
}

static __rte_always_inline int
handle_polled(struct perf_side *s, struct leat_op **done, uint16_t n, uint64_t *back,
	      const bool check)
{
	uint16_t i;

	for (i = 0; i < n; i++) {
		if (unlikely(perf_is_recv(done[i])))
			return stray(s, done[i]);
		s->returned++;
		if (unlikely(done[i]->status != 0))
			return perf_op_failed(s, done[i]);
		if (check && done[i] == s->txp[*back % s->nb_tx])
			perf_tx_verify(s, (*back)++);
	}
	return 0;
}

static __rte_always_inline int
stream(struct perf_side *s, struct perf_phase *ph, const bool check)
{
	uint64_t n = ph->n, sent = 0, back = s->seq;
	uint32_t head = (uint32_t)(s->seq % s->nb_tx), turns = 0, j;
	struct leat_op *done[PERF_POLL];
	int ret = 0;

	ph->start = rte_rdtsc();
	while (sent < n || s->returned != s->posted) {
		uint32_t k = (uint32_t)RTE_MIN((uint64_t)s->burst, n - sent);
		uint16_t got = 0, nb;

		if (k > 0 && perf_tx_room(s) >= k) {
			for (j = 0; check && j < k; j++)
				(void)perf_tx_prepare(s, s->seq + sent + j);
			got = perf_post(s, &s->txp[head], (uint16_t)k);
			s->posted += got;
			sent += got;
			head += got;
			if (head >= s->nb_tx)
				head -= s->nb_tx;
		}
		nb = perf_poll(s, done, PERF_POLL);
		if (nb > 0)
			ret = handle_polled(s, done, nb, &back, check);
		else if (got == 0)
			ret = perf_idle(s);
		if (unlikely(++turns % TURNS == 0) && ret == 0) {
			uint64_t now = rte_rdtsc();

			leat_tune_serve(s->tune);
			if (now >= ph->until)
				n = sent;
			ret = perf_due(s, now);
		}
		if (unlikely(ret < 0))
			break;
	}
	ph->end = rte_rdtsc();
	/* After an interruption messages may still be in flight: don't count them as done. */
	ph->done = sent - RTE_MIN(sent, s->posted - s->returned);
	s->seq += sent;
	return ret;
}

int
perf_bw(struct perf_side *s, struct perf_phase *ph)
{
	return s->run.check ? stream(s, ph, true) : stream(s, ph, false);
}
