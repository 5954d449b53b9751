/* SPDX-License-Identifier: BSD-3-Clause */

/* A task from its spawn to its end. */

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <leat_error.h>

#include "debug.h"

/* Copy a name in printable form; NULL: no name. The watchdog may read `to` at the same time. */
static void
name_copy(char *to, const char *from)
{
	size_t i;

	for (i = 0; from != NULL && i < LEAT_TASK_NAME_MAX - 1 && from[i] != '\0'; i++) {
		char c = from[i];

		RLX_STORE(to[i], task_printable(c));
	}
	RLX_STORE(to[i], '\0');
}

static __rte_noinline struct leat_task *
refuse(struct leat_tasks *ts, int err)
{
	RLX_ADD(ts->refused, 1);
	rte_errno = err;
	return NULL;
}

/* Take a control block that no task has used before, and prepare its stack. */
static __rte_noinline struct leat_task *
new_block(struct leat_tasks *ts)
{
	uint32_t i = ts->nb_stacks;
	struct leat_task *t;

	if (i == ts->max_tasks) {
		leat_err(ENOMEM, "%s: spawn: there are %u tasks; see leat_tasks_conf.max_tasks",
			 leat_reactor_name(ts->reactor), i);
		return refuse(ts, ENOMEM);
	}
	if (task_stack_prepare(&ts->stacks, i) < 0)
		return refuse(ts, ENOMEM);
	ts->canaries = ts->stacks.nb_canaries != 0;
	t = &ts->blocks[i];
	t->ts = ts;
	t->index = i;
	t->stack_top = task_stack_top(&ts->stacks, i);
	t->next = NULL;
	RLX_STORE(ts->nb_stacks, i + 1);
	return t;
}

void
task_release(struct leat_tasks *ts, struct leat_task *t)
{
	ts->nb_done -= t->state == LEAT_TASK_DONE;
	RLX_STORE(t->state, LEAT_TASK_FREE);
	RLX_STORE(ts->nb_tasks, ts->nb_tasks - 1);
	t = task_debug_rest(ts, t);
	if (t == NULL)
		return;
	t->next = ts->free;
	ts->free = t;
}

void *
task_main(void *arg)
{
	struct leat_task *t = arg;
	struct leat_tasks *ts = t->ts;

	task_tools_enter(&t->tools);
	t->ret = t->fn(t->arg);
	task_debug_end(t);
	if (t->detached) {
		task_release(ts, t);
	} else {
		t->since = ts->now;
		RLX_STORE(t->state, LEAT_TASK_DONE);
		ts->nb_done++;
		if (t->joiner != NULL)
			task_wake(t->joiner, 0);
	}
	return task_switch_last(ts, t);
}

struct leat_task *
leat_task_spawn(struct leat_tasks *ts, const char *name, leat_task_fn fn, void *arg)
{
	const struct leat_task *parent = task_self();
	struct leat_task *t;

	if (unlikely(ts == NULL)) {
		leat_err(EINVAL, "spawn %s: no tasks: see leat_tasks_create(), leat_tasks_self()",
			 name != NULL ? name : "");
		return NULL;
	}
	if (unlikely(fn == NULL)) {
		leat_err(EINVAL, "%s: spawn %s: no function", leat_reactor_name(ts->reactor),
			 name != NULL ? name : "a task");
		return refuse(ts, EINVAL);
	}
	task_debug_thread(ts, "spawn", TASK_PLACE());
	t = ts->free;
	if (likely(t != NULL))
		ts->free = t->next;
	else if ((t = task_debug_rest_end(ts)) == NULL && (t = new_block(ts)) == NULL)
		return NULL;

	task_debug_joined(t, NULL);
	t->wait = NULL;
	t->cancel = ts->stopping ? TASK_CANCELLED : 0;
	t->masked = 0;
	t->detached = 0;
	t->ret = 0;
	t->fn = fn;
	t->arg = arg;
	t->joiner = NULL;
	RLX_STORE(ts->next_id, ts->next_id + 1);
	RLX_STORE(t->id, ts->next_id);
	t->parent = parent != NULL && parent->ts == ts ? parent->id : 0;
	t->deadline = LEAT_TASK_NO_DEADLINE;
	name_copy(t->name, name);
	t->scope = NULL;
	task_tools_begin(&t->tools, &ts->stacks, t->index);
	t->sp = NULL;
	RLX_STORE(ts->nb_tasks, ts->nb_tasks + 1);
	task_ready(ts, t);
	return t;
}

int
leat_task_detach(struct leat_task *task)
{
	/* No leat_err(): the caller still needs the message of the failed spawn. */
	if (unlikely(task == NULL))
		return -EINVAL;
	task_debug_thread(task->ts, "detach", TASK_PLACE());
	if (task->joiner != NULL)
		return leat_err(EBUSY, "detach %s: task %s waits for its end", leat_task_name(task),
				leat_task_name(task->joiner->task));
	if (task->state == LEAT_TASK_DONE)
		task_release(task->ts, task);
	else
		task->detached = 1;
	return 0;
}

int
leat_task_start(const char *name, leat_task_fn fn, void *arg)
{
	struct leat_tasks *ts = leat_tasks_self();
	struct leat_task *t;

	if (ts == NULL)
		return leat_err(EPERM, "start %s: not on the thread of a reactor with tasks",
				name != NULL ? name : "a task");
	t = leat_task_spawn(ts, name, fn, arg);
	if (t == NULL)
		return -rte_errno;
	t->detached = 1;
	return 0;
}

struct join_wait {
	struct task_wait w;
	struct leat_task *target;
};

static int
join_cancel(struct task_wait *w)
{
	container_of(w, struct join_wait, w)->target->joiner = NULL;
	task_wake(w, -ECANCELED);
	return 0;
}

static void
join_describe(const struct task_wait *w, char *text, size_t len)
{
	const struct leat_task *t = container_of(w, const struct join_wait, w)->target;

	snprintf(text, len, "%s (%" PRIu64 ")", leat_task_name(t), t->id);
}

static const struct task_wait_type join_type = {
	.name = "join",
	.cancel = join_cancel,
	.describe = join_describe,
};

static int
join_refused(const struct leat_task *task, const void *place)
{
	if (task->state == LEAT_TASK_FREE)
		task_debug_joined_twice(task, place);
	if (task == task_self())
		return leat_err(EDEADLK, "join: task %s waits for its own end",
				leat_task_name(task));
	if (task->joiner != NULL)
		return leat_err(EBUSY, "join %s: task %s waits for it already",
				leat_task_name(task), leat_task_name(task->joiner->task));
	return leat_err(EINVAL, "join %s: it is detached, or gone", leat_task_name(task));
}

int
leat_task_join(struct leat_task *task, int *ret)
{
	struct join_wait j;
	int err;

	if (unlikely(task == NULL))
		return -EINVAL;
	task_debug_thread(task->ts, "join", TASK_PLACE());
	if (unlikely(task == task_self() || task->joiner != NULL || task->detached ||
		     task->state == LEAT_TASK_FREE))
		return join_refused(task, TASK_PLACE());
	if (task->state != LEAT_TASK_DONE) {
		err = task_may_wait("join");
		if (unlikely(err < 0))
			return err;
		if (unlikely(task->ts != task_running))
			return leat_err(EPERM, "join %s: it runs on %s; see leat_reactor_call()",
					leat_task_name(task), leat_reactor_name(task->ts->reactor));
		task_wait_init(&j.w, &join_type);
		j.target = task;
		/* The pointer is cleared when the wait ends, below or by join_cancel(). */
		/* cppcheck-suppress autoVariables */
		task->joiner = &j.w;
		err = task_park(&j.w);
		if (unlikely(err < 0))
			return err;
		task->joiner = NULL;
	}
	if (ret != NULL)
		*ret = task->ret;
	task_debug_joined(task, TASK_PLACE());
	task_release(task->ts, task);
	return 0;
}

/* dladdr() finds exported symbols only, so static functions have no name. */
const char *
task_function_name(leat_task_fn fn)
{
	const void *addr;
	Dl_info info;

	memcpy(&addr, &fn, sizeof(addr));
	if (dladdr(addr, &info) == 0 || info.dli_saddr != addr || info.dli_sname == NULL)
		return TASK_UNNAMED;
	return info.dli_sname;
}

const char *
leat_task_name(const struct leat_task *task)
{
	if (task == NULL)
		return "";
	if (likely(task->name[0] != '\0'))
		return task->name;
	return task_function_name(task->scope != NULL ? task->branch_fn : task->fn);
}

void
leat_task_name_set(const char *name)
{
	struct leat_task *t = task_self();

	if (t != NULL)
		name_copy(t->name, name);
}

uint64_t
leat_task_id(const struct leat_task *task)
{
	return task != NULL ? task->id : 0;
}

struct leat_task_ref
leat_task_ref_make(struct leat_task *task)
{
	struct leat_task_ref ref = { .task = task, .id = leat_task_id(task) };

	return ref;
}

struct leat_task *
leat_task_ref_get(const struct leat_task_ref *ref)
{
	struct leat_task *t = ref->task;

	/* Blocks stay mapped, and a later task in the same block has another id. */
	if (t == NULL || t->state == LEAT_TASK_FREE || t->id != ref->id)
		return NULL;
	return t;
}

enum leat_task_state
leat_task_state(const struct leat_task *task)
{
	return task != NULL ? RLX_LOAD(task->state) : LEAT_TASK_FREE;
}

const char *
leat_task_state_name(unsigned int state)
{
	static const char *const names[] = {
		[LEAT_TASK_FREE] = "FREE",	 [LEAT_TASK_READY] = "READY",
		[LEAT_TASK_RUNNING] = "RUNNING", [LEAT_TASK_WAITING] = "WAITING",
		[LEAT_TASK_DONE] = "DONE",
	};

	return state < RTE_DIM(names) ? names[state] : "?";
}
