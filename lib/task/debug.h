/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TASK_DEBUG_H
#define TASK_DEBUG_H

/*
 * Mistakes of programs that debug builds (meson's option debug, off in release builds) report in
 * the log at once, with the task and the place of the call:
 *
 *     mistake                               how a call finds it
 *     call on a wrong thread                its thread is not the one that runs the reactor
 *     scope left without a wait             a held scope lies on the stack below the caller's
 *                                           frame: the function that declared it has returned
 *     task joined twice                     the second join finds a free control block: freed
 *                                           blocks are set aside before they are reused
 *     task ended with a locked mutex        the task still holds the mutex at its end
 *
 * Each task has a list of the scopes and mutexes that it holds. Release builds contain no
 * instruction of these checks. Calls return the same results in both builds.
 */

#include "task_pvt.h"

/* Kind of a held object. */
enum task_debug_kind {
	TASK_DEBUG_SCOPE, /* a scope with branches, not waited for yet */
	TASK_DEBUG_MUTEX, /* a locked mutex */
};

/* The place from which the function that contains this macro was called. */
#define TASK_PLACE() __builtin_return_address(0)

#ifdef LEAT_TASK_DEBUG

/* Report a call on a thread other than the one that runs ts; what: the call, e.g. "spawn". */
void task_debug_thread(const struct leat_tasks *ts, const char *what, const void *place);
/* Add an object to those that the task holds, unless it is held already. */
void task_debug_hold(struct leat_task *t, enum task_debug_kind kind, const void *what,
		     const char *name, const void *place);
/* Remove an object from those that the task holds. @return false: it was not held */
bool task_debug_drop(struct leat_task *t, const void *what);
/* Report that the calling task sets up a scope that it still holds. */
void task_debug_scope_init(const void *scope, const void *place);
/* Report all objects that a task holds at its end. */
void task_debug_end(struct leat_task *t);
/* Store where a task was joined. */
void task_debug_joined(struct leat_task *t, const void *place);
/* Report the join of a task whose control block is free. */
void task_debug_joined_twice(const struct leat_task *t, const void *place);

/*
 * Set a freed control block aside for a while, so that a second join finds it free.
 * @return a block that was set aside earlier and may be reused now; NULL: none
 */
static inline struct leat_task *
task_debug_rest(struct leat_tasks *ts, struct leat_task *t)
{
	uint32_t i = ts->nb_rested++ % TASK_DEBUG_REST;
	struct leat_task *old = ts->resting[i];

	ts->resting[i] = t;
	return old;
}

/* Take the block that was set aside first, when no other is free. @return NULL: none */
static inline struct leat_task *
task_debug_rest_end(struct leat_tasks *ts)
{
	uint32_t i;

	for (i = 0; i < TASK_DEBUG_REST; i++) {
		struct leat_task **p = &ts->resting[(ts->nb_rested + i) % TASK_DEBUG_REST];
		struct leat_task *t = *p;

		if (t != NULL) {
			*p = NULL;
			return t;
		}
	}
	return NULL;
}

#else

static inline void
task_debug_thread(const struct leat_tasks *ts, const char *what, const void *place)
{
	(void)ts;
	(void)what;
	(void)place;
}

static inline void
task_debug_hold(struct leat_task *t, enum task_debug_kind kind, const void *what, const char *name,
		const void *place)
{
	(void)t;
	(void)kind;
	(void)what;
	(void)name;
	(void)place;
}

static inline bool
task_debug_drop(struct leat_task *t, const void *what)
{
	(void)t;
	(void)what;
	return false;
}

static inline void
task_debug_scope_init(const void *scope, const void *place)
{
	(void)scope;
	(void)place;
}

static inline void
task_debug_end(struct leat_task *t)
{
	(void)t;
}

static inline void
task_debug_joined(struct leat_task *t, const void *place)
{
	(void)t;
	(void)place;
}

static inline void
task_debug_joined_twice(const struct leat_task *t, const void *place)
{
	(void)t;
	(void)place;
}

static inline struct leat_task *
task_debug_rest(struct leat_tasks *ts, struct leat_task *t)
{
	(void)ts;
	return t;
}

static inline struct leat_task *
task_debug_rest_end(struct leat_tasks *ts)
{
	(void)ts;
	return NULL;
}

#endif /* LEAT_TASK_DEBUG */

#endif /* TASK_DEBUG_H */
