/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_SIGNALS_H
#define LEAT_SIGNALS_H

/**
 * @file
 * For leat's libraries and for drivers: keep the application's signal handlers while a library that
 * would install its own is loaded or used for the first time. Needs POSIX: with -std=c11 define
 * _POSIX_C_SOURCE.
 */

#include <signal.h>
#include <stdbool.h>

#include <leat_common.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Number of signals that libraries below a driver are known to handle. */
#define LEAT_SIGNALS 9

/** The application's handlers and the thread's mask. The fields are private. */
struct leat_signals {
	struct sigaction old[LEAT_SIGNALS]; /**< the application's handlers, one per signal */
	bool saved[LEAT_SIGNALS];	    /**< old has this signal's handler */
	sigset_t mask;			    /**< mask of the calling thread */
	bool masked;			    /**< the signals are blocked: mask is to be restored */
};

/**
 * Save the signal handlers, before a call that may install others.
 *
 * leat_signals_restore() restores them after the call. leat_init() does so around the loading of
 * plugins and the opening of devices. A handler that another thread installs in between is lost,
 * since handlers belong to the process.
 *
 * In between, SIGHUP, SIGINT and SIGTERM are blocked for the calling thread, because they are for
 * the application's handlers, not for those that the library has installed meanwhile. Threads that
 * the library starts inherit the mask, and never handle these signals. The same thread makes both
 * calls.
 */
LEAT_API void leat_signals_save(struct leat_signals *s);

/** Restore the handlers and the mask that leat_signals_save() found. On the same thread. */
LEAT_API void leat_signals_restore(const struct leat_signals *s);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_SIGNALS_H */
