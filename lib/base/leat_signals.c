/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Libraries below a driver install signal handlers when they are loaded or first used. For example,
 * some of libfabric's providers handle SIGINT and SIGTERM by ending the process, whether they are
 * used or not. Signal actions are the application's business, so leat_init() restores the previous
 * handlers. Until then some of the libraries' handlers would end the process, so the calling thread
 * blocks the signals of `kept` from leat_signals_save() to leat_signals_restore().
 */

#include "leat_log.h"
#include "leat_signals.h"

static const int signals[LEAT_SIGNALS] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGSEGV,
					   SIGBUS, SIGILL, SIGFPE,  SIGABRT };

/*
 * Signals blocked between save and restore: those that end a program cleanly. SIGQUIT is not
 * blocked, and still ends the program at once.
 */
static const int kept[] = { SIGHUP, SIGINT, SIGTERM };

void
leat_signals_save(struct leat_signals *s)
{
	sigset_t set;
	size_t i;

	(void)sigemptyset(&set);
	for (i = 0; i < RTE_DIM(kept); i++)
		(void)sigaddset(&set, kept[i]);
	s->masked = pthread_sigmask(SIG_BLOCK, &set, &s->mask) == 0;
	for (i = 0; i < RTE_DIM(signals); i++)
		s->saved[i] = sigaction(signals[i], NULL, &s->old[i]) == 0;
}

void
leat_signals_restore(const struct leat_signals *s)
{
	size_t i;

	for (i = 0; i < RTE_DIM(signals); i++) {
		if (s->saved[i] && sigaction(signals[i], &s->old[i], NULL) != 0)
			LEAT_LOG(WARNING, base, "the handler of signal %d could not be restored",
				 signals[i]);
	}
	if (s->masked && pthread_sigmask(SIG_SETMASK, &s->mask, NULL) != 0)
		LEAT_LOG(WARNING, base, "signals of the thread stay blocked");
}
