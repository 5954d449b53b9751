/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_ERROR_H
#define LEAT_ERROR_H

/**
 * @file
 * How leat reports failure: functions return 0 or a negative errno, constructors return NULL,
 * both set rte_errno to the positive errno, and leat_err_msg() returns the error in words.
 * The number is for the program, the words are for the person who reads its log.
 */

#include <rte_errno.h>

#include <leat_common.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Longest message kept, in bytes, without the terminating NUL; longer ones are cut. */
#define LEAT_ERR_MSG_MAX 255

/**
 * Set the calling thread's error.
 *
 * Stores the message for leat_err_msg() and sets rte_errno. The message should name operation,
 * device, peer and cause, and what to check. It may quote the previous message: passing
 * leat_err_msg() as an argument is allowed.
 *
 * @code
 *	return leat_err(ENODEV, "open %s: no such device; see --list-drivers", name);
 *
 *	leat_err(ENOMEM, "endpoint: can't allocate %zu B", len);
 *	return NULL;
 * @endcode
 *
 * @param err
 *   Positive errno. A negative one is taken as its absolute value, 0 as EINVAL.
 * @param fmt
 *   printf format without a newline.
 * @return
 *   -err. Any thread, at any time.
 */
LEAT_API int leat_err(int err, const char *fmt, ...) __rte_format_printf(2, 3) __rte_cold;

/**
 * Get the calling thread's last error message; "" if there was none. Success does not reset it.
 *
 * @return
 *   A string that stays valid until this thread's next leat_err() or its end. Never NULL.
 */
LEAT_API const char *leat_err_msg(void);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_ERROR_H */
