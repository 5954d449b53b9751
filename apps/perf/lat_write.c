/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Ping-pong by WRITE: each side watches the last byte of its memory, as ib_write_lat does. The byte
 * counts the messages: 1, 2, ... 255, 1, ...
 *
 * Both sides keep polling their endpoints: some providers make progress only when polled.
 */

#include "side.h"

/* --check: the other bytes of a message may arrive this much later than its last byte. */
#define SETTLE_US PERF_US

static uint8_t
mark_of(uint64_t seq)
{
	return (uint8_t)(1 + seq % 255);
}

/* Poll once. @return 0; 1: a control message came; or a negative errno */
static __rte_always_inline int
poll_once(struct perf_side *s)
{
	struct leat_op *done[PERF_POLL];
	uint16_t i, n = leat_ep_poll(s->ep, done, PERF_POLL);
	int ret;

	for (i = 0; i < n; i++) {
		if (likely(!perf_is_recv(done[i]))) {
			s->returned++;
			if (unlikely(done[i]->status != 0))
				return perf_op_failed(s, done[i]);
		} else {
			ret = perf_chan_input(s, done[i]);
			if (ret < 0)
				return ret;
		}
	}
	if (unlikely(s->ctl_full))
		return 1;
	return n > 0 ? 0 : perf_idle_awake(s);
}

/* Wait for message seq. @return 0; 1: a control message came first; or a negative errno */
static __rte_always_inline int
await(struct perf_side *s, uint64_t seq)
{
	const uint8_t *last = s->remote + s->size - 1;
	uint8_t mark = mark_of(seq);
	int ret;

	/* acquire: the other bytes are read after this one */
	while (__atomic_load_n(last, __ATOMIC_ACQUIRE) != mark) {
		ret = poll_once(s);
		if (unlikely(ret != 0))
			return ret;
	}
	return 0;
}

/*
 * Verify message seq except its last byte. No device promises to write the last byte last: wait up
 * to SETTLE_US for the other bytes. The next message can't overwrite them, since the other side
 * sends it only after this side's answer.
 */
static int
check_memory(struct perf_side *s, uint64_t seq)
{
	uint64_t key = perf_key(s->run.seed, perf_dir_in(s), seq, s->size);
	uint64_t end = rte_rdtsc() + leat_us_to_cycles(SETTLE_US);
	int ret;

	while (perf_verify(s->remote, s->size - 1, key) >= 0 && rte_rdtsc() < end) {
		ret = poll_once(s);
		if (ret < 0)
			return ret;
	}
	perf_check(&s->errors, s->remote, s->size - 1, key, seq);
	return 0;
}

static int
write_out(struct perf_side *s, uint64_t seq)
{
	struct leat_op *op = s->txp[seq % s->nb_tx];
	int ret;

	while (unlikely(perf_tx_room(s) == 0)) {
		ret = poll_once(s);
		if (ret != 0)
			return ret;
	}
	if (s->run.check)
		(void)perf_tx_prepare(s, seq);
	((uint8_t *)op->buf)[s->size - 1] = mark_of(seq);
	while (unlikely(leat_ep_post(s->ep, &op, 1) == 0)) {
		ret = poll_once(s);
		if (ret != 0)
			return ret;
	}
	s->posted++;
	return 0;
}

int
perf_lat_write(struct perf_side *s, struct perf_phase *ph)
{
	struct perf_samples sm = { .ph = ph };
	const bool check = s->run.check;
	uint64_t i, t0, t1;
	int ret = 0;

	t1 = t0 = ph->start = rte_rdtsc();
	for (i = 0; ret == 0 && i < ph->n && t1 < ph->until; i++) {
		ret = write_out(s, s->seq + i);
		if (likely(ret == 0))
			ret = await(s, s->seq + i);
		if (unlikely(ret != 0))
			break;
		t1 = rte_rdtsc();
		if (check)
			ret = check_memory(s, s->seq + i);
		if (unlikely(ret != 0))
			break;
		ret = perf_lap(s, &sm, &t0, t1, check);
	}
	perf_laps_end(s, &sm, t1, i);
	return ret > 0 ? perf_chan_stray(s) : ret;
}

int
perf_serve_write(struct perf_side *s)
{
	int ret;

	for (;;) {
		ret = await(s, s->count);
		if (ret == 0 && s->run.check)
			ret = check_memory(s, s->count);
		if (ret == 0)
			ret = write_out(s, s->count);
		if (ret == 0) {
			s->count++;
			/* The answer is under way: a tick delays no message now. */
			ret = perf_due(s, rte_rdtsc());
		}
		if (unlikely(ret != 0))
			return ret < 0 ? ret : 0;
	}
}
