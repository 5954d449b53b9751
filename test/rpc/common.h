/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPC_TEST_COMMON_H
#define RPC_TEST_COMMON_H

/* Shared by the programs of test/rpc. */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <leat_error.h>
#include <leat_fabric.h>
#include <leat_rpc.h>
#include <leat_time.h>

#define PATIENCE_US 60000000

#define check(cond, ...)                                                                           \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, __VA_ARGS__);                                              \
			fprintf(stderr, "\n");                                                     \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* @return the reliable endpoint type if the last device has it, otherwise the datagram type */
static inline enum leat_ep_type
device_type(void)
{
	struct leat_dev_info info;

	check(leat_dev_info_get(leat_dev_get(leat_dev_count() - 1), &info) == 0, "info");
	return (info.ep_types & 1u << LEAT_EP_RELIABLE) != 0 ? LEAT_EP_RELIABLE : LEAT_EP_DATAGRAM;
}

/* Drive both ends with turn until the condition holds. */
#define wait_until(turn, cond)                                                                     \
	do {                                                                                       \
		uint64_t until_ = leat_now() + leat_us_to_cycles(PATIENCE_US);                     \
		while (!(cond)) {                                                                  \
			turn;                                                                      \
			check(leat_now() < until_, "%s:%d: waited in vain: %s", __FILE__,          \
			      __LINE__, #cond);                                                    \
		}                                                                                  \
	} while (0)

#endif /* RPC_TEST_COMMON_H */
