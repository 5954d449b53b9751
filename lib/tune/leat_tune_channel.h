/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_TUNE_CHANNEL_H
#define LEAT_TUNE_CHANNEL_H

/**
 * @file
 * Channels in shared memory (leat_channel.h), shown to agents as objects `channel.NAME` of this
 * process.
 *
 * Thread rules: any thread.
 */

#include <leat_common.h>

#ifdef __cplusplus
extern "C" {
#endif

struct leat_tune_channel;

/**
 * Show agents a channel in shared memory. The channel need not exist yet, and may be removed. While
 * it does not exist, its measurement "state" is "absent". The state "unreadable" means that this
 * process can't open or map it, e.g. for lack of permission. This process only inspects the
 * channel: it does not attach, and the channel's writers and readers do nothing for this process.
 *
 * @param name
 *   As for leat_channel_create(): "/watch". Copied.
 * @return NULL with rte_errno, and leat_err_msg(): EINVAL: no name; ENOMEM
 */
LEAT_API struct leat_tune_channel *leat_tune_channel_add(const char *name);

/** Stop showing a channel; NULL is allowed. */
LEAT_API void leat_tune_channel_del(struct leat_tune_channel *c);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_TUNE_CHANNEL_H */
