/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Waiting and waking.
 *
 *     who waits                              who commits (or makes room)
 *     s = seq                                mark -> COMMITTED
 *     my bit into who                        full fence
 *     full fence                             who != 0?
 *     look again: there is none                  bits = who, who = 0
 *     futex: sleep while seq == s                seq++, futex: wake all
 *
 * Either the fences have the writer see the bit, or the reader the mark. Bits are taken out by who wakes, all at
 * once, so those of the dead go with the next frame, and nothing is left to be counted wrong. A bit that was
 * taken out belongs to somebody who read seq before it was changed, and who will not sleep.
 * Who dies between taking the bits and waking delays the others until they look for the dead: check_ms.
 */

#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "channel_pvt.h"

#define NS_PER_S UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)
#define SLEEP_FIRST_NS 1000
#define SPINS 64 /* looks between two at the clock */

static uint64_t
now_ns(void)
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

	/* acq_rel: before seq; pairs with announce() */
	bits = atomic_exchange_explicit(&w->who, 0, memory_order_acq_rel);
	if (bits == 0 && !always)
		return;
	if (ch->notify == LEAT_CHANNEL_NOTIFY_EVENTFD) {
		uint64_t n = (uint64_t)__builtin_popcountll(bits);

		/* One for each. Full: then it is readable anyway. */
		if (n > 0 && write(ch->map->efd[room], &n, sizeof(n)) < 0 && errno != EAGAIN)
			(void)chan_err(errno, "channel: write to the eventfd: %m");
	} else {
		atomic_fetch_add_explicit(&w->seq, 1, memory_order_acq_rel);
		(void)syscall(SYS_futex, &w->seq, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
	}
	errno = saved;
}

/* What is waited for. */
struct want {
	bool room;
	uint32_t granules;
};

/* sleepy: if not, we sleep */
static int
ready(struct leat_channel *ch, const struct want *want, bool sleepy)
{
	if (ch->broken)
		return chan_err(EPROTO, "channel: corrupt, as was said before");
	return want->room ? chan_room(ch, want->granules) : chan_ready(ch, sleepy);
}

static void
sleep_ns(struct leat_channel *ch, struct chan_wait *w, uint32_t seq, bool room, uint64_t ns)
{
	struct timespec ts = timespec_of(ns);
	struct pollfd p;
	uint64_t one;

	if (ch->notify != LEAT_CHANNEL_NOTIFY_EVENTFD) {
		/* EINTR, EAGAIN, ETIMEDOUT: who called looks again. */
		(void)syscall(SYS_futex, &w->seq, FUTEX_WAIT, seq, &ts, NULL, 0);
		return;
	}
	p = (struct pollfd){ .fd = ch->map->efd[room], .events = POLLIN };
	/* If somebody else took what was meant for us, he has looked, too. */
	if (ppoll(&p, 1, &ts, NULL) == 1 && read(p.fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
		(void)chan_err(errno, "channel: read from the eventfd: %m");
}

/* Sleeps until notified, or so long. @return as ready() */
static int
sleep_notified(struct leat_channel *ch, const struct want *want, uint64_t ns)
{
	struct chan_wait *w = want->room ? &ch->block->room : &ch->block->data;
	uint64_t bit = UINT64_C(1) << ch->slot;
	uint32_t seq;
	int ret;

	/* acquire: before the bit */
	seq = atomic_load_explicit(&w->seq, memory_order_acquire);
	atomic_fetch_or_explicit(&w->who, bit, memory_order_acq_rel);
	/* Full fence: the bit is stored before the mark is read. Pairs with chan_notify(). */
	atomic_thread_fence(memory_order_seq_cst);
	ret = ready(ch, want, true);
	if (ret == 0)
		sleep_ns(ch, w, seq, want->room, ns);
	if ((atomic_load_explicit(&w->who, memory_order_relaxed) & bit) != 0)
		atomic_fetch_and_explicit(&w->who, ~bit, memory_order_acq_rel);
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

/* Gives the time away, at most ns. @return as ready() */
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
		(void)nanosleep(&ts, NULL); /* EINTR: who called looks again */
		*step = *step < NS_PER_MS / 2 ? 2 * *step : NS_PER_MS;
		return 0;
	}
	return 0;
}

static int
wait_for(struct leat_channel *ch, const struct want *want, uint64_t timeout_ns)
{
	enum leat_channel_wait_how how = ch->opts.wait;
	uint64_t check = ch->opts.check_ms * NS_PER_MS, step = SLEEP_FIRST_NS;
	uint64_t now, end, next;
	int ret;

	ret = ready(ch, want, false);
	if (ret != 0 || timeout_ns == 0)
		return ret < 0 ? ret : ret > 0 ? 0 : -ETIMEDOUT;
	if (how == LEAT_CHANNEL_WAIT_NOTIFY && ch->notify == LEAT_CHANNEL_NOTIFY_NONE)
		how = LEAT_CHANNEL_WAIT_SLEEP;
	now = now_ns();
	end = timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
	next = now + check;
	for (;;) {
		ret = idle(ch, want, how, &step, (end < next ? end : next) - now);
		if (ret == 0)
			ret = ready(ch, want, false);
		if (ret != 0)
			return ret < 0 ? ret : 0;
		now = now_ns();
		if (now >= end)
			return -ETIMEDOUT;
		if (now >= next) {
			ret = leat_channel_recover(ch);
			if (ret < 0)
				return ret;
			next = now + check;
		}
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
