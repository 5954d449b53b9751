/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RB_LEAD_H
#define RB_LEAD_H

/* Declarations for the leading task: lead.c, look.c, meet.c, and a file for each role. */

#include "bench.h"

/* Time for the other processes to leave after a run. */
#define RB_LEAVE_US (5 * RB_US)

/* A condition to wait for. @return true: it holds */
typedef bool (*rb_cond_fn)(struct rb_bench *b, const void *arg);

/* Return the time that is us microseconds from now, cycles. */
static inline uint64_t
rb_in(uint64_t us)
{
	return leat_time_add(leat_now(), leat_us_to_cycles(us));
}

/* ---- look.c ---- */

/*
 * Wait until cond holds, at most until `until` (cycles). Meanwhile react to ended sessions and
 * processes, and print progress. @return 0; -ETIMEDOUT; -ECANCELED: interrupted; -EIO: see b->why
 */
int rb_wait(struct rb_bench *b, rb_cond_fn cond, const void *arg, uint64_t until);
/* Mark a rank as lost: its process has ended, or is given up. No effect on a lost rank. */
void rb_rank_lost(struct rb_bench *b, uint16_t rank, const char *why);

/* ---- meet.c ---- */

/* Meet all ranks that are not lost. @return 0; -ECANCELED; other negative with b->why */
int rb_meet(struct rb_bench *b, enum rb_meet m, const struct rb_result *result, uint64_t until);

#endif /* RB_LEAD_H */
