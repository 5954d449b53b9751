/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FI_SIDE_PVT_H
#define FI_SIDE_PVT_H

/* What both sides' loops (fi_loop.h) keep, and what the processes tell one another. */

#include <stdbool.h>
#include <stdint.h>

#include "fi_side.h"

#ifndef likely
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#endif

/* Completions of a poll, at most. */
#define FI_BURST 32
/* Empty polls between two looks at the clock. */
#define IDLE_POLLS (UINT32_C(1) << 16)
/* Nothing has come for that long: something hangs. */
#define STUCK_NS UINT64_C(20000000000)
/*
 * For bench_rest() after many empty polls. With a real-time priority these may keep the kernel's
 * thread from its CPU that has the message to deliver; to yield is not enough for one of a lower
 * priority.
 */
#define REST_NS UINT64_C(20000)

struct fi_loop {
	void **free; /* send requests that are not in flight */
	uint32_t nb_free;
	uint32_t window;
	uint32_t got;	   /* receives that came back and were not looked at */
	uint32_t expected; /* messages of this measurement; */
	uint32_t posted;   /* receives for them; never more */
	uint32_t idle;
	void *consumed; /* receive to be posted again */
	uint64_t idle_since;
	int fd;
};

enum { ORDER_LAT = 1, ORDER_RATE };

struct order {
	uint32_t what;
	uint32_t n; /* messages, warm-up included */
	uint32_t window;
	uint32_t pad;
	uint64_t size;
};

#endif /* FI_SIDE_PVT_H */
