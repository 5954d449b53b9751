/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PAIR_H
#define PAIR_H

/*
 * Two threads that measure together: the first gives an order, both carry it out, the second
 * reports when its half is done.
 *
 *     first                              second
 *     pair_start(p, what) -- go -->      pair_wait(p) returns what
 *       its half                           its half
 *     pair_end(p)         <-- done --    pair_done(p)
 */

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench.h"

struct pair {
	uint32_t go __attribute__((aligned(128)));
	uint32_t what;
	uint64_t arg;
	uint32_t done __attribute__((aligned(128)));
	uint64_t pushed; /* bench_pushed_off() of the second thread */
	uint64_t before; /* sum of both threads' bench_pushed_off() at the start */
} __attribute__((aligned(128)));

/* An order: the second thread ends. */
#define PAIR_QUIT UINT32_MAX

/* The first thread gives an order. */
static inline void
pair_start(struct pair *p, uint32_t what, uint64_t arg)
{
	p->before = bench_pushed_off() + __atomic_load_n(&p->pushed, __ATOMIC_ACQUIRE);
	p->what = what;
	p->arg = arg;
	__atomic_store_n(&p->go, p->go + 1, __ATOMIC_RELEASE); /* pairs with pair_wait() */
}

/* The first thread waits for the second. @return whether one of the two was preempted */
static inline bool
pair_end(struct pair *p)
{
	/* pairs with pair_done() */
	while (__atomic_load_n(&p->done, __ATOMIC_ACQUIRE) != p->go)
		sched_yield();
	return bench_pushed_off() + p->pushed != p->before;
}

/* The second thread waits for an order. */
static inline uint32_t
pair_wait(struct pair *p)
{
	while (__atomic_load_n(&p->go, __ATOMIC_ACQUIRE) == p->done)
		sched_yield();
	return p->what;
}

/* The second thread reports that its half is done. */
static inline void
pair_done(struct pair *p)
{
	p->pushed = bench_pushed_off();
	__atomic_store_n(&p->done, p->go, __ATOMIC_RELEASE);
}

#endif /* PAIR_H */
