/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CHANNEL_LOCK_H
#define CHANNEL_LOCK_H

/*
 * The lock of a participant, on its slot's byte of the block's file: lock.c says why it is one that
 * dies with it.
 */

#include "channel_pvt.h"

#define CHAN_LOCK_BYTES 4096

/*
 * Take a free slot, and its lock.
 * @return 1; 0: none is free; -EAGAIN: the lock of one that is free is held; other errnos: no lock
 * can be had
 */
int chan_lock_take(struct leat_channel *ch);
/* Not in the child of a fork, which has not got it. */
void chan_lock_drop(struct leat_channel *ch);
/* @return 1, 0, -errno: it can't be asked: the handle has no descriptor of the file */
int chan_lock_is_held(const struct leat_channel *ch, uint32_t slot);

#endif /* CHANNEL_LOCK_H */
