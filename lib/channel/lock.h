/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CHANNEL_LOCK_H
#define CHANNEL_LOCK_H

/*
 * The lock of a participant, on its slot's byte of the block's file. lock.c says why the lock lasts
 * exactly as long as the participant.
 */

#include "channel_pvt.h"

#define CHAN_LOCK_BYTES 4096

/*
 * Take a free slot, and its lock.
 * @return 1: taken; 0: no slot is free; -EAGAIN: a free slot's lock is still held; another -errno:
 * locks don't work
 */
int chan_lock_take(struct leat_channel *ch);
/* Drop the lock. Do not call this in the child of a fork, which does not have the mapping. */
void chan_lock_drop(struct leat_channel *ch);
/* Tell whether a slot's lock is held. @return 1; 0; -errno: unknown, e.g. without the file */
int chan_lock_is_held(const struct leat_channel *ch, uint32_t slot);
#endif /* CHANNEL_LOCK_H */
