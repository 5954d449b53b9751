/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_COMMON_H
#define LEAT_COMMON_H

/**
 * @file
 * Definitions that all leat headers use. container_of() comes from rte_common.h, likely() and
 * unlikely() from rte_branch_prediction.h.
 */

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rte_branch_prediction.h>
#include <rte_common.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Marks a symbol that libleat exports; all other symbols are hidden. */
#define LEAT_API __attribute__((visibility("default")))

/** Bytes in a cache line: the unit in which hot structures are laid out. */
#define LEAT_CACHE_LINE 64

/** 128-bit unsigned integer, for products and sums of 64-bit values. */
__extension__ typedef unsigned __int128 leat_u128;

#ifdef __cplusplus
}
#endif

#endif /* LEAT_COMMON_H */
