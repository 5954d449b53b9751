/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_SIGNALS_H
#define LEAT_SIGNALS_H

/**
 * @file
 * For leat's libraries and for drivers: the application's signal handlers, kept while a library is
 * loaded or used for the first time that would install its own.
 */

#include <signal.h>
#include <stdbool.h>

#include <leat_common.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Signals that libraries below a driver are known to take. */
#define LEAT_SIGNALS 9

/** What the application wants signals to do. */
struct leat_signals {
	struct sigaction old[LEAT_SIGNALS];
	bool saved[LEAT_SIGNALS];
	sigset_t mask; /**< of the thread */
	bool masked;
};

/**
 * Around a call that may install signal handlers: leat_signals_restore() puts back what
 * leat_signals_save() found. leat_init() does it around the loading of plugins and the opening of
 * devices. The handlers are the process's: what another thread changes in between is lost.
 *
 * SIGHUP, SIGINT and SIGTERM wait in between, as far as the calling thread would take them: they
 * are for the application's handlers, not for those that the library has installed meanwhile.
 * Threads that it starts inherit that, and never take them. The same thread calls both.
 */
LEAT_API void leat_signals_save(struct leat_signals *s);
LEAT_API void leat_signals_restore(const struct leat_signals *s);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_SIGNALS_H */
