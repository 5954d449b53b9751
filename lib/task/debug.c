/* SPDX-License-Identifier: BSD-3-Clause */

/* The checks of debug builds, see debug.h. */

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <leat_log.h>

#include "debug.h"

/*
 * Maximum number of lines that a process logs: a program that repeats a mistake must not fill the
 * disk.
 */
#define LINES_MAX 100

#define PLACE_MAX 256
#define NAME_MAX_HELD 32

/* A scope or mutex that a task holds. */
struct task_held {
	struct task_held *next;
	enum task_debug_kind kind;
	const void *what;  /* the object; never dereferenced, as its memory may be freed */
	const void *place; /* code address at which the task took it */
	char name[NAME_MAX_HELD];
};

static uint32_t lines;

/* Count a line of the log. @return false: too many, do not write it */
static bool
line_left(void)
{
	uint32_t n = __atomic_fetch_add(&lines, 1, __ATOMIC_RELAXED);

	if (n == LINES_MAX)
		LEAT_LOG(ERR, task, "there were %u such lines; no more are written", LINES_MAX);
	/* Keep the counter from wrapping around to 0. */
	if (n >= LINES_MAX)
		RLX_STORE(lines, LINES_MAX + 1);
	return n < LINES_MAX;
}

/* Format a place as "function+0x1b (object+0x11b)", for addr2line(1). */
static const char *
place_text(char text[PLACE_MAX], const void *place)
{
	uintptr_t ip = (uintptr_t)place;
	Dl_info info;

	/*
	 * Look up the byte before the return address: after a call that never returns, the address
	 * itself can be the first byte of the next function.
	 */
	if (dladdr((const char *)place - 1, &info) == 0 || info.dli_fname == NULL)
		snprintf(text, PLACE_MAX, "0x%" PRIxPTR, ip);
	else if (info.dli_sname == NULL)
		snprintf(text, PLACE_MAX, "%s+0x%" PRIxPTR, info.dli_fname,
			 ip - (uintptr_t)info.dli_fbase);
	else
		snprintf(text, PLACE_MAX, "%s+0x%" PRIxPTR " (%s+0x%" PRIxPTR ")", info.dli_sname,
			 ip - (uintptr_t)info.dli_saddr, info.dli_fname,
			 ip - (uintptr_t)info.dli_fbase);
	return text;
}

void
task_debug_thread(const struct leat_tasks *ts, const char *what, const void *place)
{
	const struct leat_task *self = task_self();
	char text[PLACE_MAX];

	if (likely(ts == task_running || leat_reactor_owned(ts->reactor)) || !line_left())
		return;
	LEAT_LOG(ERR, task,
		 "%s: wrong thread: %s, called at %s by %s, is for the thread of the reactor: see "
		 "leat_reactor_call()",
		 leat_reactor_name(ts->reactor), what, place_text(text, place),
		 self != NULL ? leat_task_name(self) : "no task");
}

static struct task_held **
held_find(struct leat_task *t, const void *what)
{
	struct task_held **p;

	for (p = &t->held; *p != NULL; p = &(*p)->next)
		if ((*p)->what == what)
			break;
	return p;
}

static void
held_remove(struct task_held **p)
{
	struct task_held *h = *p;

	*p = h->next;
	free(h);
}

void
task_debug_hold(struct leat_task *t, enum task_debug_kind kind, const void *what, const char *name,
		const void *place)
{
	struct task_held *h;

	if (*held_find(t, what) != NULL)
		return;
	h = malloc(sizeof(*h));
	/* Without memory this object is not checked. */
	if (h == NULL)
		return;
	h->kind = kind;
	h->what = what;
	h->place = place;
	snprintf(h->name, sizeof(h->name), "%s", name != NULL ? name : "");
	h->next = t->held;
	t->held = h;
}

bool
task_debug_drop(struct leat_task *t, const void *what)
{
	struct task_held **p = held_find(t, what);

	if (*p == NULL)
		return false;
	held_remove(p);
	return true;
}

static void
report_scope(const struct leat_task *t, const struct task_held *h, const char *how)
{
	char text[PLACE_MAX];

	if (line_left())
		LEAT_LOG(ERR, task,
			 "%s: task %s (%" PRIu64 ") %s without leat_scope_wait() for the branches "
			 "that it started at %s: these use memory that is gone",
			 leat_reactor_name(t->ts->reactor), leat_task_name(t), t->id, how,
			 place_text(text, h->place));
}

/* Tell whether a held scope is on the task's stack below frame: its function has returned. */
static bool
left_behind(const struct leat_task *t, const struct task_held *h, const void *frame)
{
	uintptr_t bottom = (uintptr_t)task_stack_bottom(&t->ts->stacks, t->index);
	uintptr_t what = (uintptr_t)h->what;

	return h->kind == TASK_DEBUG_SCOPE && what >= bottom && what < (uintptr_t)frame;
}

void
task_debug_frame(struct leat_task *t, const void *frame)
{
	struct task_held **p = &t->held;

	while (*p != NULL) {
		if (!left_behind(t, *p, frame)) {
			p = &(*p)->next;
			continue;
		}
		report_scope(t, *p, "returned from a function");
		held_remove(p);
	}
}

void
task_debug_scope_init(const void *scope, const void *place)
{
	struct leat_task *self = task_self();
	struct task_held **p;

	if (self == NULL)
		return;
	p = held_find(self, scope);
	if (*p != NULL) {
		char text[PLACE_MAX], how[PLACE_MAX + 64];

		snprintf(how, sizeof(how), "sets up a scope again, at %s,",
			 place_text(text, place));
		report_scope(self, *p, how);
		held_remove(p);
	}
	task_debug_frame(self, __builtin_frame_address(0));
}

void
task_debug_end(struct leat_task *t)
{
	while (t->held != NULL) {
		const struct task_held *h = t->held;
		char text[PLACE_MAX];

		if (h->kind == TASK_DEBUG_SCOPE)
			report_scope(t, h, "ended");
		else if (line_left())
			LEAT_LOG(ERR, task,
				 "%s: task %s (%" PRIu64 ") ended with mutex %s, which it locked "
				 "at %s: no task gets it any more",
				 leat_reactor_name(t->ts->reactor), leat_task_name(t), t->id,
				 h->name, place_text(text, h->place));
		held_remove(&t->held);
	}
}

void
task_debug_joined(struct leat_task *t, const void *place)
{
	t->joined_at = place;
}

void
task_debug_joined_twice(const struct leat_task *t, const void *place)
{
	char text[PLACE_MAX], first[PLACE_MAX];

	if (!line_left())
		return;
	if (t->joined_at != NULL)
		LEAT_LOG(ERR, task,
			 "%s: task %s (%" PRIu64 ") is joined twice: at %s, and before that at %s",
			 leat_reactor_name(t->ts->reactor), leat_task_name(t), t->id,
			 place_text(text, place), place_text(first, t->joined_at));
	else
		LEAT_LOG(ERR, task,
			 "%s: task %s (%" PRIu64
			 ") is joined at %s, but it was detached, and has ended",
			 leat_reactor_name(t->ts->reactor), leat_task_name(t), t->id,
			 place_text(text, place));
}
