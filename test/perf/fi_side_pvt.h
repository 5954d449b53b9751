/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FI_SIDE_PVT_H
#define FI_SIDE_PVT_H

/* State of the loops in fi_loop.h, and the messages of the processes to each other. */

#include <stdbool.h>
#include <stdint.h>

#include "fi_side.h"

#ifndef likely
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#endif

/* Maximum number of completions of a poll. */
#define FI_BURST 32
/* Empty polls between two looks at the clock. */
#define IDLE_POLLS (UINT32_C(1) << 16)
/* If no completion comes for this time, something hangs. */
#define STUCK_NS UINT64_C(20000000000)
/*
 * Time, ns, for which a loop rests after many empty polls. A loop with real-time priority can
 * starve the kernel thread that must deliver the message: yielding gives no CPU to a thread of
 * lower priority.
 */
#define REST_NS UINT64_C(20000)

struct fi_loop {
	void **free; /* send requests that are not in flight */
	uint32_t nb_free;
	uint32_t window;
	uint32_t got;	   /* receives that have completed and are not accounted for yet */
	uint32_t expected; /* messages of this measurement */
	uint32_t posted;   /* receives posted for these messages; at most `expected` */
	uint32_t idle;
	void *consumed; /* the receive to be posted again */
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
