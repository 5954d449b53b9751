/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_THREAD_H
#define LEAT_THREAD_H

/**
 * @file
 * For leat's libraries and for drivers: helper threads for work that an lcore's loop must not wait
 * for.
 */

#include <leat_common.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Start a detached thread, for work that may block. It may run on any CPU, not only on the
 * caller's, where a loop may be spinning. All signals are blocked in it, since they are for the
 * application's threads. Any thread.
 * @return 0, or the negative of the errno of pthread_create(3)
 */
LEAT_API int leat_thread_start(void *(*fn)(void *arg), void *arg);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_THREAD_H */
