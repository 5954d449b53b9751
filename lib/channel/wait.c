/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Waiting and waking.
 *
 *     a participant that waits               one that commits (or makes room)
 *     s = seq                                mark -> COMMITTED
 *     own bit into sleepers                  full fence
 *     full fence                             sleepers != 0?
 *     look again: no frame                       bits = sleepers, sleepers = 0
 *     futex: sleep while seq == s                seq++, futex: wake all
 *
 * The fences ensure that the writer sees the bit or the reader sees the mark. The participant that
 * wakes clears all bits at once, so a dead participant's bit is cleared with the next frame, and no
 * count can go wrong. A participant whose bit was cleared had read seq before seq changed, so it
 * wakes, or does not begin to sleep. A participant that dies between clearing the bits and
 * waking delays the sleepers until they check for dead participants: check_ms.
 *
 * At the end no frame is committed any more. But a frame that another reader holds may still become
 * RETURNED; or it is consumed, and then all frames are read. A reader that waits for either sets
 * its bit in the sleepers of frames and of room. A participant that makes room wakes the readers
 * whose bits are in both.
 */

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "channel_pvt.h"

#define NS_PER_S UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)
#define SLEEP_FIRST_NS 1000
#define SPINS 64 /* polls between two reads of the clock */

uint64_t
chan_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static struct timespec
timespec_of(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / NS_PER_S),
				  .tv_nsec = (long)(ns % NS_PER_S) };
}

void
chan_wake(struct leat_channel *ch, bool room, bool always)
{
	struct chan_wait *w = room ? &ch->block->room : &ch->block->data;
	int saved = errno;
	uint64_t bits;

	/* acq_rel: the bits are cleared before seq changes; pairs with sleep_notified() */
	bits = atomic_exchange_explicit(&w->sleepers, 0, memory_order_acq_rel);
	if (bits == 0 && !always)
		return;
	/* With eventfds, too, a participant that waits inside a call sleeps on the futex. */
	atomic_fetch_add_explicit(&w->seq, 1, memory_order_acq_rel);
	(void)syscall(SYS_futex, &w->seq, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
	if (ch->notify == LEAT_CHANNEL_NOTIFY_EVENTFD)
		chan_wake_loops(ch, bits);
	/*
	 * A reader whose bit is in both words waits for frames, at the end. acquire: the reader set
	 * the data bit first
	 */
	if (room &&
	    (bits & atomic_load_explicit(&ch->block->data.sleepers, memory_order_acquire)) != 0)
		chan_wake(ch, false, false);
	errno = saved;
}

/* What a participant waits for. */
struct want {
	bool room;
	uint32_t granules;
};

/*
 * Is there a frame or room? sleepy: the caller is about to sleep. @return 1; 0; -ESHUTDOWN, -EPROTO
 * as leat_channel_wait()
 */
static int
ready(struct leat_channel *ch, const struct want *want, bool sleepy)
{
	if (ch->broken)
		return chan_err(EPROTO, "channel: corrupt (reported by an earlier call)");
	return want->room ? chan_room(ch, want->granules) : chan_ready(ch, sleepy);
}

/* Sleep until notified, ns at most. @return as ready() */
static int
sleep_notified(struct leat_channel *ch, const struct want *want, uint64_t ns)
{
	struct chan_wait *w = want->room ? &ch->block->room : &ch->block->data;
	uint64_t bit = UINT64_C(1) << ch->slot;
	bool ended = !want->room && ch->ended;
	struct timespec ts;
	uint32_t seq;
	int ret;

	/* acquire: seq is loaded before the bit is set */
	seq = atomic_load_explicit(&w->seq, memory_order_acquire);
	atomic_fetch_or_explicit(&w->sleepers, bit, memory_order_acq_rel);
	/*
	 * At the end a reader waits for other readers to finish their frames, which makes room.
	 */
	if (ended)
		atomic_fetch_or_explicit(&ch->block->room.sleepers, bit, memory_order_acq_rel);
	/* Full fence: the bit is stored before the mark is loaded. Pairs with chan_notify(). */
	atomic_thread_fence(memory_order_seq_cst);
	ret = ready(ch, want, true);
	ts = timespec_of(ns);
	/*
	 * If ready() has found the END only now, the bit is not in the sleepers of room yet: do not
	 * sleep, since only the next call sets it there. EINTR, EAGAIN, ETIMEDOUT: the caller looks
	 * again.
	 */
	if (ret == 0 && ended == (!want->room && ch->ended))
		(void)syscall(SYS_futex, &w->seq, FUTEX_WAIT, seq, &ts, NULL, 0);
	if (ended)
		atomic_fetch_and_explicit(&ch->block->room.sleepers, ~bit, memory_order_acq_rel);
	if ((atomic_load_explicit(&w->sleepers, memory_order_relaxed) & bit) != 0)
		atomic_fetch_and_explicit(&w->sleepers, ~bit, memory_order_acq_rel);
	return ret;
}

static void
relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" : : : "memory");
#endif
}

/* Pause before the next poll, in the way `how`, for ns at most. @return as ready() */
static int
idle(struct leat_channel *ch, const struct want *want, enum leat_channel_wait_how how,
     uint64_t *step, uint64_t ns)
{
	struct timespec ts;
	unsigned int i;
	int ret = 0;

	switch (how) {
	case LEAT_CHANNEL_WAIT_NOTIFY:
		return sleep_notified(ch, want, ns);
	case LEAT_CHANNEL_WAIT_SPIN:
	case LEAT_CHANNEL_WAIT_PAUSE:
		for (i = 0; i < SPINS && ret == 0; i++) {
			if (how == LEAT_CHANNEL_WAIT_PAUSE)
				relax();
			ret = ready(ch, want, false);
		}
		return ret;
	case LEAT_CHANNEL_WAIT_YIELD:
		sched_yield();
		return 0;
	case LEAT_CHANNEL_WAIT_SLEEP:
		ret = ready(ch, want, true);
		if (ret != 0)
			return ret;
		ts = timespec_of(*step < ns ? *step : ns);
		(void)nanosleep(&ts, NULL); /* EINTR: the caller looks again */
		*step = *step < NS_PER_MS / 2 ? 2 * *step : NS_PER_MS;
		return 0;
	}
	return 0;
}

static int
wait_for(struct leat_channel *ch, const struct want *want, uint64_t timeout_ns)
{
	enum leat_channel_wait_how how = ch->opts.wait;
	uint64_t now, end, step = SLEEP_FIRST_NS;
	int ret;

	ret = ready(ch, want, false);
	if (ret == 0 && timeout_ns == 0 && chan_tick(ch) != 0)
		ret = ready(ch, want, false);
	else if (ret > 0 && chan_tick(ch) < 0)
		ret = -EPROTO;
	if (ret != 0 || timeout_ns == 0)
		return ret < 0 ? ret : ret > 0 ? 0 : -ETIMEDOUT;
	if (how == LEAT_CHANNEL_WAIT_NOTIFY && ch->notify == LEAT_CHANNEL_NOTIFY_NONE)
		how = LEAT_CHANNEL_WAIT_SLEEP;
	now = chan_now_ns();
	end = chan_end_ns(now, timeout_ns);
	for (;;) {
		/* check_at belongs to the handle, not to this call: so short waits add up. */
		if (now >= ch->check_at) {
			ret = leat_channel_recover(ch);
			if (ret < 0)
				return ret;
		}
		ret = idle(ch, want, how, &step, (end < ch->check_at ? end : ch->check_at) - now);
		if (ret == 0)
			ret = ready(ch, want, false);
		if (ret != 0)
			return ret < 0 ? ret : 0;
		now = chan_now_ns();
		if (now >= end)
			return -ETIMEDOUT;
	}
}

int
leat_channel_wait(struct leat_channel *ch, uint64_t timeout_ns)
{
	return wait_for(ch, &(struct want){ .room = false }, timeout_ns);
}

int
leat_channel_wait_room(struct leat_channel *ch, uint32_t len, uint64_t timeout_ns)
{
	if (len > leat_channel_max(ch))
		return chan_err(EMSGSIZE, "channel: a frame of %u bytes, at most %u", len,
				leat_channel_max(ch));
	return wait_for(ch, &(struct want){ .room = true, .granules = chan_frame_granules(len) },
			timeout_ns);
}
