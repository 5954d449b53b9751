/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_TUNE_CHANNEL_H
#define LEAT_TUNE_CHANNEL_H

/**
 * @file
 * Shows a channel of lib/channel among the objects of a process: `channel.NAME`.
 *
 * Thread rules: any thread.
 */

#include <leat_common.h>

#ifdef __cplusplus
extern "C" {
#endif

struct leat_tune_channel;

/**
 * Show a channel in shared memory by name. It may come later than this, and go; its state tells.
 * Nothing is asked of its participants.
 *
 * @param name
 *   As for leat_channel_create(): "/watch". Copied.
 * @return NULL with rte_errno, and leat_err_msg(): EINVAL: no name; ENOMEM
 */
LEAT_API struct leat_tune_channel *leat_tune_channel_add(const char *name);

/** Show it no more; NULL is allowed. */
LEAT_API void leat_tune_channel_del(struct leat_tune_channel *c);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_TUNE_CHANNEL_H */
