/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Waiting in an event loop. Each slot has an eventfd, which only the slot's participant reads: so a
 * value written to it stays until this participant arms again. Every participant holds descriptors
 * of all eventfds, because it must write to those of the participants that it notifies.
 *
 *     the loop                               a participant that commits (or makes room)
 *     arm: read the eventfd empty            mark -> COMMITTED
 *          own bit into sleepers             full fence
 *          full fence                        sleepers != 0?
 *          look again: no frame                  bits = sleepers, sleepers = 0
 *     poll the eventfd                           1 into the eventfd of each bit
 *
 * This is the protocol of wait.c, with the eventfd in place of the futex: if the loop's bit is
 * cleared before the loop polls, the loop's eventfd is written after the loop has emptied it, so
 * the poll returns at once.
 */

#include <fcntl.h>
#include <unistd.h>

#include "channel_pvt.h"

int
leat_channel_set_eventfds(struct leat_channel *ch, const int *fds, unsigned int n)
{
	struct chan_map *map = ch->map;
	unsigned int i;
	int ret, flags;

	if (ch->notify != LEAT_CHANNEL_NOTIFY_EVENTFD)
		return chan_err(EINVAL, "channel: eventfds, but it does not notify by them");
	if (n != ch->participants)
		return chan_err(EINVAL, "channel: %u eventfds for %u participants", n,
				ch->participants);
	if (atomic_load_explicit(&map->nb_efd, memory_order_relaxed) != 0)
		return chan_err(EBUSY, "channel: its eventfds are set already");
	for (i = 0; i < n; i++) {
		flags = fcntl(fds[i], F_GETFL);
		/* A writer must not block in an eventfd that another participant created. */
		map->efd[i] = flags < 0 || fcntl(fds[i], F_SETFL, flags | O_NONBLOCK) != 0
				      ? -1
				      : fcntl(fds[i], F_DUPFD_CLOEXEC, 0);
		if (map->efd[i] >= 0)
			continue;
		ret = chan_err(errno, "channel: eventfd %d: %m", fds[i]);
		while (i-- > 0)
			close(map->efd[i]);
		return ret;
	}
	/* release: publishes the descriptors; pairs with chan_wake_loops() of handles that join */
	atomic_store_explicit(&map->nb_efd, n, memory_order_release);
	return 0;
}

int
leat_channel_fd(const struct leat_channel *ch)
{
	if (ch->slot >= atomic_load_explicit(&ch->map->nb_efd, memory_order_acquire))
		return chan_err(EOPNOTSUPP, "channel: it has no eventfds: NOTIFY_EVENTFD, and "
					    "leat_channel_memfd() or leat_channel_set_eventfds()");
	return ch->map->efd[ch->slot];
}

void
chan_wake_loops(struct leat_channel *ch, uint64_t bits)
{
	uint32_t i, n = atomic_load_explicit(&ch->map->nb_efd, memory_order_acquire);
	uint64_t one = 1;

	for (i = 0; bits != 0 && i < n; i++, bits >>= 1) {
		/* EAGAIN: the eventfd's value is at its maximum, so it is readable anyway. */
		if ((bits & 1) != 0 && write(ch->map->efd[i], &one, sizeof(one)) < 0 &&
		    errno != EAGAIN)
			(void)chan_err(errno, "channel: write to the eventfd: %m");
	}
}

static void
disarm(struct leat_channel *ch)
{
	uint64_t bit = UINT64_C(1) << ch->slot;

	atomic_fetch_and_explicit(&ch->block->data.sleepers, ~bit, memory_order_acq_rel);
	atomic_fetch_and_explicit(&ch->block->room.sleepers, ~bit, memory_order_acq_rel);
}

/* Check for frames or room, as what says. @return the bits of what that are there, or -errno */
static int
look(struct leat_channel *ch, unsigned int what, uint32_t len)
{
	int ret, got = 0;

	if ((what & LEAT_CHANNEL_ARM_FRAMES) != 0) {
		ret = chan_ready(ch, true);
		if (ret < 0)
			return ret;
		got |= ret > 0 ? LEAT_CHANNEL_ARM_FRAMES : 0;
	}
	if ((what & LEAT_CHANNEL_ARM_ROOM) != 0) {
		ret = chan_room(ch, chan_frame_granules(len));
		/*
		 * After the end there is no room any more, but frames may still be returned: by
		 * readers that give them back, or by the recovery of dead readers.
		 */
		if (ret < 0 && (ret != -ESHUTDOWN || what == LEAT_CHANNEL_ARM_ROOM))
			return ret;
		got |= ret > 0 ? LEAT_CHANNEL_ARM_ROOM : 0;
	}
	return got;
}

int
leat_channel_arm(struct leat_channel *ch, unsigned int what, uint32_t len)
{
	uint64_t bit = UINT64_C(1) << ch->slot, n;
	int fd = leat_channel_fd(ch), ret;
	bool ended;

	if (ch->broken)
		return chan_err(EPROTO, "channel: corrupt (reported by an earlier call)");
	if (fd < 0)
		return fd;
	if (what == 0 || (what & ~(LEAT_CHANNEL_ARM_FRAMES | LEAT_CHANNEL_ARM_ROOM)) != 0)
		return chan_err(EINVAL, "channel: arm for %#x", what);
	if ((what & LEAT_CHANNEL_ARM_ROOM) != 0 && len > ch->max)
		return chan_err(EMSGSIZE, "channel: a frame of %u bytes, at most %u", len, ch->max);
	disarm(ch);
	/* Clear an earlier notification: look() below finds the frame or room that it announced. */
	if (read(fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
		return chan_err(errno, "channel: read from the eventfd: %m");
	do {
		ended = ch->ended;
		if ((what & LEAT_CHANNEL_ARM_FRAMES) != 0)
			atomic_fetch_or_explicit(&ch->block->data.sleepers, bit,
						 memory_order_acq_rel);
		/* At the END a reader is woken by other readers that make room: see wait.c. */
		if (ended || (what & LEAT_CHANNEL_ARM_ROOM) != 0)
			atomic_fetch_or_explicit(&ch->block->room.sleepers, bit,
						 memory_order_acq_rel);
		/*
		 * Full fence: the bits are stored before the marks are loaded. Pairs with
		 * chan_notify().
		 */
		atomic_thread_fence(memory_order_seq_cst);
		ret = look(ch, what, len);
	} while (ret == 0 && ended != ch->ended);
	if (ret != 0)
		disarm(ch);
	return ret;
}
