/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A participant's slot: an attach claims it, a close frees it. recover.c frees the slots of dead
 * participants.
 */

#include <sched.h>

#include "lock.h"

/*
 * Claim a slot. One compare-and-swap is enough, since the word `owner` also tells how to find out
 * whether the owner lives.
 */
bool
chan_slot_claim(struct leat_channel *ch, uint32_t slot, uint64_t owner)
{
	uint64_t none = 0;

	/* acquire: pairs with the release of the owner that freed the slot */
	if (!atomic_compare_exchange_strong_explicit(&ch->block->slots[slot].owner, &none, owner,
						     memory_order_acq_rel, memory_order_relaxed))
		return false;
	ch->slot = slot;
	ch->owner = owner;
	return true;
}

/* Take a free slot for this process, by its pid and start time. @return 1; 0: no slot is free */
static int
take_by_pid(struct leat_channel *ch, uint64_t start)
{
	uint32_t i;

	for (i = 0; i < ch->participants; i++) {
		if (atomic_load_explicit(&ch->block->slots[i].owner, memory_order_relaxed) == 0 &&
		    chan_slot_claim(ch, i, chan_owner_by_pid(ch, i, start)))
			return 1;
	}
	return 0;
}

/* Without a lock: can other participants tell by its pid whether this process lives? */
static int
check_pid(const struct leat_channel *ch, int err, uint64_t *start)
{
	struct chan_ns ns = { .pid = ch->block->pid_ns, .time = ch->block->time_ns };

	if (chan_ns_same(chan_ns_self(), ns) && chan_start_self(start) == 0)
		return 0;
	return chan_err(EXDEV,
			"channel: dead participants can't be detected: %s%s, and it was created in "
			"another pid or time namespace, or /proc is that of another namespace",
			ch->map->fd < 0 ? "memory without a file" : "no lock on its file: ",
			ch->map->fd < 0 ? "" : strerror(err));
}

/* Recover dead participants until a slot is free. @return 1; 0: none is free; -errno */
static int
free_one(struct leat_channel *ch)
{
	uint32_t i;
	int ret;

	for (i = 0; i < ch->participants; i++) {
		ret = chan_recover_slot(ch, i);
		if (ret != 0)
			return ret;
		/* Another participant recovered the slot. */
		if (atomic_load_explicit(&ch->block->slots[i].owner, memory_order_relaxed) == 0)
			return 1;
	}
	return 0;
}

int
chan_slot_take(struct leat_channel *ch)
{
	bool by_pid = false;
	uint64_t start = 0;
	uint32_t turn;
	int ret;

	chan_process_self(&ch->process);
	ch->slot = LEAT_CHANNEL_PARTICIPANTS_MAX;
	for (turn = 0; turn < CHAN_TURNS; turn++) {
		ret = by_pid ? take_by_pid(ch, start) : chan_lock_take(ch);
		if (ret == 1) {
			if (!by_pid)
				chan_owner_describe(ch);
			return 0;
		}
		if (ret == -EAGAIN) {
			/* A leaving owner frees its slot first, and then drops its lock. */
			sched_yield();
			continue;
		}
		if (ret < 0) {
			ret = check_pid(ch, -ret, &start);
			if (ret != 0)
				return ret;
			by_pid = true;
			continue;
		}
		ret = free_one(ch);
		if (ret < 0)
			return ret;
		if (ret == 0)
			break;
	}
	return chan_err(EUSERS,
			"channel: all %u participants' places are taken by processes that live",
			ch->participants);
}

void
chan_slot_leave(struct leat_channel *ch)
{
	uint64_t bit = UINT64_C(1) << ch->slot, owner = ch->owner;

	atomic_fetch_and_explicit(&ch->block->data.sleepers, ~bit, memory_order_acq_rel);
	atomic_fetch_and_explicit(&ch->block->room.sleepers, ~bit, memory_order_acq_rel);
	/* release: pairs with chan_slot_claim() */
	atomic_compare_exchange_strong_explicit(&ch->block->slots[ch->slot].owner, &owner, 0,
						memory_order_acq_rel, memory_order_relaxed);
	chan_lock_drop(ch);
}
