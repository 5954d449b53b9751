/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RB_LEAD_H
#define RB_LEAD_H

/* What the files of the leading task share: lead.c, look.c, meet.c, and those of the roles. */

#include "bench.h"

/* Is it so? */
typedef bool (*rb_cond_fn)(struct rb_bench *b, const void *arg);

/* A moment from now, cycles. */
static inline uint64_t
rb_in(uint64_t us)
{
	return leat_time_add(leat_now(), leat_us_to_cycles(us));
}

/* ---- look.c ---- */

/*
 * Waits until it is so, and looks after everything else meanwhile.
 * @return 0; -ETIMEDOUT; -ECANCELED: interrupted; -EIO: see b->why
 */
int rb_wait(struct rb_bench *b, rb_cond_fn cond, const void *arg, uint64_t until);
/* A process has ended, or is given up. Nothing if that is known. */
void rb_rank_lost(struct rb_bench *b, uint16_t rank, const char *why);

/* ---- meet.c ---- */

/* @return 0; -ECANCELED; or negative with b->why */
int rb_meet(struct rb_bench *b, enum rb_meet m, const struct rb_result *result, uint64_t until);

#endif /* RB_LEAD_H */
