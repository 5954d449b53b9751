/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ORDER_H
#define ORDER_H

/* What the first of two processes tells the second one, for the counterparts leat_fi.h and bare_fi.h alike. */

#include <stdint.h>

#define ORDER_LAT 1
#define ORDER_RATE 2

struct order {
	uint32_t op;
	uint32_t n; /* messages, warm-up included */
	uint32_t window;
	uint32_t pad;
	uint64_t size;
};

/* Nothing has come for that long: something hangs. */
#define ORDER_STUCK_NS UINT64_C(20000000000)

/*
 * For bench_rest() after many empty polls. With a real-time priority these may keep the kernel's thread from its CPU
 * that has the message to deliver; to yield is not enough for one of a lower priority.
 */
#define ORDER_REST_NS UINT64_C(20000)

#endif /* ORDER_H */
