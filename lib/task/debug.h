/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TASK_DEBUG_H
#define TASK_DEBUG_H

/*
 * Mistakes of programs that debug builds (meson's option debug, which release has not) name in the
 * log at once, with the task and the place of the call:
 *
 *     a call on another thread than the reactor's      task_debug_thread()
 *     a scope that was left without a wait             held; found below the caller's frame
 *     a task that is joined twice                      blocks rest before they are used again
 *     a mutex of a task that has ended                 held
 *
 * What is held is a list of the task's own. Release builds have none of it: not an instruction. The
 * results of calls are the same in both.
 */

#include "task_pvt.h"

/* Of what is held. */
enum task_debug_kind {
	TASK_DEBUG_SCOPE, /* branches were started in it */
	TASK_DEBUG_MUTEX, /* locked */
};

/* Where the function that this is written in was called. */
#define TASK_PLACE() __builtin_return_address(0)

#ifdef LEAT_TASK_DEBUG

/* May the calling thread do that with tasks of ts? what: "spawn". */
void task_debug_thread(const struct leat_tasks *ts, const char *what, const void *place);
/* The task has it from now on. Not twice: what is held already stays as it is. */
void task_debug_hold(struct leat_task *t, enum task_debug_kind kind, const void *what,
		     const char *name, const void *place);
/* It is not held any more, if it was. @return was it? */
bool task_debug_drop(struct leat_task *t, const void *what);
/* A scope is set up. */
void task_debug_scope_init(const void *scope, const void *place);
/* The task has ended. */
void task_debug_end(struct leat_task *t);
/* It was joined, and is gone. */
void task_debug_joined(struct leat_task *t, const void *place);
/* It is joined, and is gone already. */
void task_debug_joined_twice(const struct leat_task *t, const void *place);

/* A block is free. @return the one that may be used again instead; NULL: none */
static inline struct leat_task *
task_debug_rest(struct leat_tasks *ts, struct leat_task *t)
{
	uint32_t i = ts->nb_rested++ % TASK_DEBUG_REST;
	struct leat_task *old = ts->resting[i];

	ts->resting[i] = t;
	return old;
}

/* There are no others. @return the one that rests longest; NULL: none */
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
