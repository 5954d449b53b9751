/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Latency in an open loop: messages are due at fixed moments, answered or not.
 *
 *     due      |     |     |     |     |     |
 *     sent     x     x           xxx   x     x       a stall: two are sent late
 *     answered    a     a          a aa   a     a
 *     latency  ---   ---   --------            counted from the moment when it was due
 *
 * A closed loop would have sent nothing during the stall, and would have counted the stall once
 * (G. Tene calls that coordinated omission).
 *
 * The rate is a setting: a change sets the interval from the next message on. Messages that are not
 * answered yet were due by the old interval, which `before` keeps; a further change waits until all
 * of these are answered.
 *
 * The other side answers messages, in order; one-sided ops are measured until their completion.
 */

#include <leat_histogram.h>

#include "side.h"

/* A part of the schedule with one rate. */
struct piece {
	uint64_t first;	 /* number of the piece's first message */
	uint64_t start;	 /* cycles: when that message is due */
	double interval; /* cycles, exact */
};

struct schedule {
	struct piece now, before;
	double rate; /* messages/s of the piece `now` */
};

static inline uint64_t
due_at(const struct schedule *sc, uint64_t i)
{
	const struct piece *p = likely(i >= sc->now.first) ? &sc->now : &sc->before;

	/* Counted from p->start, so errors don't add up. A double is exact up to 2^53 cycles. */
	return p->start + (uint64_t)((double)(i - p->first) * p->interval);
}

/*
 * Return the time, cycles, by which all n messages of the phase must have been sent, including time
 * to catch up.
 */
static uint64_t
schedule_end(const struct schedule *sc, uint64_t n, uint64_t sent, uint64_t now)
{
	/* Limit span: n intervals may be more cycles than 64 bits hold. */
	uint64_t span =
		(uint64_t)RTE_MIN((double)(n - sent) * sc->now.interval, (double)(UINT64_MAX >> 2));

	/* To catch up, allow span once more, but at least 1 s. */
	return now + span + RTE_MAX(leat_hz(), span);
}

static void
schedule_change(struct schedule *sc, double rate, uint64_t sent, uint64_t now)
{
	double interval = (double)leat_hz() / rate;
	uint64_t next = due_at(sc, sent);

	sc->before = sc->now;
	sc->now = (struct piece){ .first = sent, .interval = interval };
	/* A higher rate must not wait for the end of a long interval of the old one. */
	sc->now.start = RTE_MIN(next, now + (uint64_t)RTE_MIN(interval, (double)(UINT64_MAX >> 2)));
	sc->rate = rate;
}

static inline void
record(const struct perf_phase *ph, uint64_t ns)
{
	leat_histogram_record(ph->hist, ns);
	leat_tune_histogram_add(ph->live, ns);
}

/* Handle polled ops. @return the number of messages that they answer, or a negative errno */
static int
answers(struct perf_side *s, struct perf_phase *ph, const struct schedule *sc,
	struct leat_op **done, uint16_t n, uint64_t answered, bool echo)
{
	uint64_t now = rte_rdtsc();
	struct leat_op *rx[PERF_POLL];
	uint32_t nb_rx = 0;
	uint16_t i;
	int got = 0, ret;

	for (i = 0; i < n; i++) {
		struct leat_op *op = done[i];
		bool recv = perf_is_recv(op);

		if (!recv) {
			s->returned++;
			if (op->status != 0)
				return perf_op_failed(s, op);
			/* With echo, a send is no answer; control messages have no answers. */
			if (echo || op < s->tx || op >= s->tx + s->nb_tx)
				continue;
		} else if (!echo || !perf_is_data(s, op, false)) {
			ret = perf_chan_input(s, op);
			if (ret < 0)
				return ret;
			return perf_chan_stray(s);
		}
		if (ph->hist != NULL)
			record(ph, leat_cycles_to_ns(now - due_at(sc, answered + (uint64_t)got)));
		if (s->run.check && echo)
			perf_rx_verify(s, op, s->seq + answered + (uint64_t)got, false);
		else if (s->run.check)
			perf_tx_verify(s, s->seq + answered + (uint64_t)got);
		if (recv)
			rx[nb_rx++] = op;
		got++;
	}
	if (nb_rx > 0)
		perf_rx_repost(s, rx, nb_rx);
	return got;
}

/* Send the messages that are due. @return how many were sent */
static uint64_t
send_due(struct perf_side *s, struct perf_phase *ph, const struct schedule *sc, uint64_t sent,
	 uint64_t answered)
{
	uint64_t late, now = rte_rdtsc(), first = sent;

	while (sent < ph->n && sent - answered < s->limit && perf_tx_room(s) > 0 &&
	       due_at(sc, sent) <= now) {
		struct leat_op *op = s->txp[(s->seq + sent) % s->nb_tx];

		if (s->run.check)
			(void)perf_tx_prepare(s, s->seq + sent);
		if (perf_post(s, &op, 1) == 0)
			break;
		s->posted++;
		late = now - due_at(sc, sent);
		if (late > (uint64_t)sc->now.interval)
			ph->late++;
		if (late > ph->late_max)
			ph->late_max = late;
		sent++;
	}
	return sent - first;
}

int
perf_openloop(struct perf_side *s, struct perf_phase *ph)
{
	bool echo = perf_is_message(s->run.op);
	struct schedule sc = { .rate = s->rate };
	uint64_t sent = 0, answered = 0, end, now;
	struct leat_op *done[PERF_POLL];
	int ret = 0;

	ph->rate = sc.rate;
	ph->start = rte_rdtsc();
	sc.now = (struct piece){ .start = ph->start, .interval = (double)leat_hz() / sc.rate };
	end = schedule_end(&sc, ph->n, 0, ph->start);
	while (answered < sent || sent < ph->n) {
		uint64_t k = send_due(s, ph, &sc, sent, answered);
		uint16_t n = perf_poll(s, done, PERF_POLL);

		sent += k;
		now = rte_rdtsc();
		if (n > 0) {
			ret = answers(s, ph, &sc, done, n, answered, echo);
			if (ret >= 0) {
				answered += (uint64_t)ret;
				ret = perf_due(s, now);
			}
		} else if (k == 0) {
			/* All messages are answered: a long wait for the next one is no timeout. */
			if (answered == sent)
				perf_side_restart_timeout(s, now);
			ret = perf_idle_awake(s);
		}
		if (ret < 0)
			break;
		leat_tune_serve(s->tune);
		if (unlikely(s->rate != sc.rate && answered >= sc.now.first)) {
			schedule_change(&sc, s->rate, sent, now);
			end = schedule_end(&sc, ph->n, sent, now);
			ph->rate = sc.rate;
		}
		if (now > end && sent < ph->n) {
			/* The rate is too high: give up the messages that are not sent yet. */
			ph->unsent += ph->n - sent;
			ph->n = sent;
		}
	}
	ph->end = rte_rdtsc();
	ph->done = answered;
	s->seq += sent;
	return ret;
}
