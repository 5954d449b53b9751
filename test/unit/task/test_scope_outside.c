/* SPDX-License-Identifier: BSD-3-Clause */

/* Cancels from outside a scope: leat_scope_cancel() and leat_task_cancel(). */

#include <pthread.h>

#include "scope_test.h"

#define LONG_US 1000000

/* ---- where a cancel comes from ---- */

enum from { PARENT, SIBLING_TASK, POLLER, TIMER, MESSAGE, BRANCH, GRANDCHILD, FROMS };

/* Cancels a scope or, if that is NULL, a task. */
struct outsider {
	struct leat_scope *s;
	struct leat_task *task;
	struct leat_timer timer;
	struct leat_poller *poller;
	int result;
};

static void
act(void *arg)
{
	struct outsider *o = arg;

	o->result = o->s != NULL ? leat_scope_cancel(o->s) : leat_task_cancel(o->task);
}

static int
act_in_task(void *arg)
{
	/* Let the tasks that are to be cancelled begin to wait. */
	assert_int_equal(leat_task_yield(), 0);
	assert_int_equal(leat_task_yield(), 0);
	act(arg);
	return 0;
}

static int
act_below(void *arg)
{
	struct leat_scope s;

	leat_scope_init(&s);
	assert_int_equal(leat_scope_branch(&s, "below", act_in_task, arg, NULL), 0);
	/* The branch cancelled this task, its parent, so the wait returns -ECANCELED. */
	assert_int_equal(leat_scope_wait(&s), -ECANCELED);
	assert_true(leat_task_cancelled());
	return -ECANCELED;
}

static int
act_in_poller(void *arg, uint64_t now)
{
	struct outsider *o = arg;

	(void)now;
	act(o);
	assert_int_equal(leat_poller_remove(o->poller), 0);
	return 0;
}

static void
act_in_timer(struct leat_timer *timer, void *arg, uint64_t now)
{
	(void)timer;
	(void)now;
	act(arg);
}

static void
outsider_start(struct outsider *o, enum from from, struct leat_scope *s)
{
	struct leat_reactor *r = leat_reactor_self();

	o->result = 1;
	switch (from) {
	case SIBLING_TASK:
		assert_int_equal(leat_task_start("outsider", act_in_task, o), 0);
		break;
	case POLLER:
		o->poller = leat_reactor_poller_add(r, "outsider", act_in_poller, o, 0);
		assert_non_null(o->poller);
		break;
	case TIMER:
		leat_timer_init(&o->timer, act_in_timer, o);
		leat_timer_start(r, &o->timer, 3);
		break;
	case MESSAGE:
		assert_int_equal(leat_reactor_call(r, act, o), 0);
		break;
	case BRANCH:
		assert_int_equal(leat_scope_branch(s, "own", act_in_task, o, NULL), 0);
		break;
	case GRANDCHILD:
		assert_int_equal(leat_scope_branch(s, "nest", act_below, o, NULL), 0);
		break;
	case PARENT:
	case FROMS:
		/* The branches are waiting when the cancel comes. */
		assert_int_equal(leat_task_sleep(5), 0);
		act(o);
		break;
	}
}

static int
scope_from_anywhere(void *arg)
{
	struct leat_scope s;
	unsigned int from, i;

	(void)arg;
	leat_scope_init(&s);
	for (from = 0; from < FROMS; from++) {
		struct outsider o = { .s = &s };
		struct worker w[2];
		struct nest n;

		for (i = 0; i < 2; i++)
			worker_start(&s, &w[i], 2);
		assert_int_equal(leat_scope_branch(&s, "nest", quiet_nest_main, &n, NULL), 0);
		outsider_start(&o, (enum from)from, &s);
		assert_int_equal(leat_scope_wait(&s), -ECANCELED);
		assert_int_equal(o.result, 0);
		for (i = 0; i < 2; i++) {
			assert_int_equal(w[i].h.posts, 1);
			assert_int_equal(w[i].h.cancels, 1);
			assert_int_equal(w[i].ret, -ECANCELED);
		}
		assert_int_equal(n.w.h.cancels, 1);
		assert_int_equal(n.result, -ECANCELED);
		assert_true(n.cancelled);
		/* The task that waits is not cancelled, and the scope can be used again. */
		assert_false(leat_task_cancelled());
		assert_int_equal(leat_scope_cancel(&s), -ESRCH);
		worker_start(&s, &w[0], 0);
		assert_int_equal(leat_scope_wait(&s), 0);
		assert_false(w[0].cancelled);
		assert_int_equal(leat_scope_winner(&s, NULL, NULL), -ENOENT);
		assert_int_equal(leat_task_sleep(1), 0);
	}
	return 0;
}

RULE(test_scope_from_anywhere, scope_from_anywhere)

/* ---- a scope at odd moments ---- */

static int
returns_at_once(void *arg)
{
	return arg != NULL ? -EIO : 0;
}

static int
scope_moments(void *arg)
{
	struct leat_scope s;
	struct worker w[2];

	(void)arg;
	assert_int_equal(leat_scope_cancel(NULL), -EINVAL);
	/* The cancel comes before the first branch: branches are born cancelled. */
	leat_scope_init(&s);
	assert_int_equal(leat_scope_cancel(&s), 0);
	assert_int_equal(leat_scope_cancel(&s), -EEXIST);
	worker_start(&s, &w[0], 1);
	assert_int_equal(leat_scope_wait(&s), -ECANCELED);
	assert_int_equal(w[0].h.posts, 0);
	assert_true(w[0].cancelled);
	/* A scope without any branch can be cancelled as well. */
	leat_scope_init(&s);
	assert_int_equal(leat_scope_cancel(&s), 0);
	assert_int_equal(leat_scope_wait(&s), -ECANCELED);
	/* The cancel reaches a branch that has not begun, and one that is added later. */
	worker_start(&s, &w[0], 1);
	assert_int_equal(leat_scope_cancel(&s), 0);
	worker_start(&s, &w[1], 1);
	assert_int_equal(leat_scope_wait(&s), -ECANCELED);
	assert_int_equal(w[0].h.posts + w[1].h.posts, 0);
	assert_true(w[0].cancelled && w[1].cancelled);
	/*
	 * The only branch has ended, but the task does not wait yet: the cancel is delivered, and
	 * is the result of the wait.
	 */
	assert_int_equal(leat_scope_branch(&s, "quick", returns_at_once, NULL, NULL), 0);
	assert_int_equal(leat_task_yield(), 0);
	assert_int_equal(leat_scope_cancel(&s), 0);
	assert_int_equal(leat_scope_wait(&s), -ECANCELED);
	return 0;
}

RULE(test_scope_moments, scope_moments)

/* Cancel the scope after its last branch has ended, before the parent runs. */
static int
late_cancel(void *arg)
{
	struct outsider *o = arg;

	act(o);
	return 0;
}

static int
scope_too_late(void *arg)
{
	struct leat_scope s;
	struct outsider o = { .s = &s };

	(void)arg;
	leat_scope_init(&s);
	assert_int_equal(leat_scope_branch(&s, "quick", returns_at_once, NULL, NULL), 0);
	assert_int_equal(leat_task_start("late", late_cancel, &o), 0);
	assert_int_equal(leat_scope_wait(&s), 0);
	/* late_cancel() ran after the branch "quick", and before this task. */
	assert_int_equal(o.result, -ESRCH);
	return 0;
}

RULE(test_scope_too_late, scope_too_late)

/* A branch cancels its siblings and goes on. A later cancel from outside reaches that branch. */
struct second {
	struct leat_scope s;
	int slept;
};

static int
cancels_and_sleeps(void *arg)
{
	struct second *c = arg;

	assert_int_equal(leat_scope_cancel_siblings(), 0);
	assert_false(leat_task_cancelled());
	c->slept = leat_task_sleep(LONG_US);
	return 0;
}

static int
cancel_after_a_branch(void *arg)
{
	struct outsider o;
	struct second c;
	struct worker w;
	const char *name;
	int ret = 1;

	(void)arg;
	leat_scope_init(&c.s);
	o.s = &c.s;
	worker_start(&c.s, &w, 1);
	assert_int_equal(leat_scope_branch(&c.s, "first", cancels_and_sleeps, &c, NULL), 0);
	outsider_start(&o, SIBLING_TASK, &c.s);
	/* The first cancel determines the result. */
	assert_int_equal(leat_scope_wait(&c.s), 0);
	assert_int_equal(o.result, -EEXIST);
	assert_int_equal(c.slept, -ECANCELED);
	assert_int_equal(w.h.cancels, 1);
	assert_int_equal(leat_scope_winner(&c.s, &name, &ret), 1);
	assert_string_equal(name, "task");
	assert_int_equal(ret, 0);
	return 0;
}

RULE(test_cancel_after_a_branch, cancel_after_a_branch)

/* A mask of the waiting task protects only that task: the branches are cancelled. */
static int
cancel_below_a_mask(void *arg)
{
	struct leat_task_mask_state mask;
	struct leat_scope s;
	struct outsider o = { .s = &s };
	struct worker w;

	(void)arg;
	leat_task_mask(&mask);
	leat_scope_init(&s);
	worker_start(&s, &w, 1);
	outsider_start(&o, TIMER, &s);
	assert_int_equal(leat_scope_wait(&s), -ECANCELED);
	assert_int_equal(w.h.cancels, 1);
	leat_task_unmask(&mask);
	return 0;
}

RULE(test_cancel_below_a_mask, cancel_below_a_mask)

/* ---- a task ---- */

struct session {
	struct nest n;
	int slept;
	bool masked;
};

static int
session_main(void *arg)
{
	struct session *ses = arg;
	struct leat_task_mask_state mask;

	if (ses->masked) {
		leat_task_mask(&mask);
		assert_int_equal(leat_task_sleep(20), 0);
		leat_task_unmask(&mask);
	} else {
		(void)quiet_nest_main(&ses->n);
	}
	ses->slept = leat_task_sleep(1);
	return 3;
}

static int
task_from_anywhere(void *arg)
{
	static const enum from froms[] = { PARENT, SIBLING_TASK, POLLER, TIMER, MESSAGE };
	unsigned int i;

	(void)arg;
	for (i = 0; i < 2 * RTE_DIM(froms); i++) {
		struct session ses = { .masked = i % 2 != 0 };
		struct outsider o = { .task = leat_task_spawn(leat_tasks_self(), "session",
							      session_main, &ses) };
		int ret = 0;

		assert_non_null(o.task);
		if (o.task == NULL)
			return -1;
		outsider_start(&o, froms[i / 2], NULL);
		if (o.result == 0)
			assert_int_equal(leat_task_cancel(o.task), -EEXIST);
		assert_int_equal(leat_task_join(o.task, &ret), 0);
		assert_int_equal(o.result, 0);
		assert_int_equal(ret, 3);
		assert_int_equal(ses.slept, -ECANCELED);
		if (ses.masked)
			continue;
		assert_int_equal(ses.n.result, -ECANCELED);
		assert_true(ses.n.cancelled);
		assert_true(ses.n.w.cancelled);
		assert_int_equal(ses.n.w.h.cancels, ses.n.w.h.posts);
	}
	return 0;
}

RULE(test_task_from_anywhere, task_from_anywhere)

/*
 * leat_task_cancel() refuses NULL; after a cancel of the calling task its waits are refused; a task
 * that has not begun still runs, cancelled from its start; a task that has ended gives -ESRCH.
 */
static int
cancels_itself(void *arg)
{
	(void)arg;
	assert_int_equal(leat_task_cancel(leat_task_current()), 0);
	assert_true(leat_task_cancelled());
	assert_int_equal(leat_task_sleep(1), -ECANCELED);
	return leat_task_cancel(leat_task_current());
}

static int
task_moments(void *arg)
{
	struct leat_tasks *ts = leat_tasks_self();
	struct leat_task *t;
	struct worker w = { .res = &hand, .h.answer = LEAT_CANCEL_FREED, .rounds = 1 };
	int ret = 0;

	(void)arg;
	assert_int_equal(leat_task_cancel(NULL), -EINVAL);
	t = leat_task_spawn(ts, "self", cancels_itself, NULL);
	assert_int_equal(leat_task_join(t, &ret), 0);
	assert_int_equal(ret, -EEXIST);

	t = leat_task_spawn(ts, "not begun", worker_main, &w);
	assert_int_equal(leat_task_cancel(t), 0);
	assert_int_equal(leat_task_join(t, &ret), 0);
	assert_int_equal(ret, -ECANCELED);
	assert_int_equal(w.h.posts, 0);

	t = leat_task_spawn(ts, "done", returns_at_once, NULL);
	assert_int_equal(leat_task_yield(), 0);
	assert_int_equal(leat_task_cancel(t), -ESRCH);
	assert_int_equal(leat_task_join(t, NULL), 0);
	return 0;
}

RULE(test_task_moments, task_moments)

/*
 * leat_task_cancel() reaches neither the task that the cancelled task joins, nor the siblings of a
 * cancelled branch.
 */
static int
joins(void *arg)
{
	return leat_task_join(arg, NULL);
}

static int
sleeps(void *arg)
{
	return leat_task_sleep((uintptr_t)arg);
}

static int
task_reach(void *arg)
{
	struct leat_tasks *ts = leat_tasks_self();
	struct leat_task *joined = leat_task_spawn(ts, "joined", sleeps, (void *)20);
	struct leat_task *joiner = leat_task_spawn(ts, "joiner", joins, joined);
	struct leat_scope s;
	struct worker w;
	int ret = 1;

	(void)arg;
	assert_int_equal(leat_task_yield(), 0);
	assert_int_equal(leat_task_cancel(joiner), 0);
	assert_int_equal(leat_task_join(joiner, &ret), 0);
	assert_int_equal(ret, -ECANCELED);
	assert_int_equal(leat_task_join(joined, &ret), 0);
	assert_int_equal(ret, 0);

	leat_scope_init(&s);
	worker_start(&s, &w, 1);
	assert_int_equal(leat_scope_branch(&s, "sleeps", sleeps, (void *)20, &ret), 0);
	assert_int_equal(leat_task_yield(), 0);
	assert_int_equal(leat_task_cancel(w.task), 0);
	assert_int_equal(leat_scope_wait(&s), 0);
	assert_int_equal(w.ret, -ECANCELED);
	assert_int_equal(ret, 0);
	assert_int_equal(leat_scope_failure(&s, NULL), 0);
	return 0;
}

RULE(test_task_reach, task_reach)

/* ---- references ---- */

static int
references(void *arg)
{
	const struct leat_task_ref none = leat_task_ref_make(NULL);
	struct leat_tasks *ts = leat_tasks_self();
	struct leat_task_ref ref, next;
	struct leat_task *t;

	(void)arg;
	assert_null(leat_task_ref_get(&none));
	t = leat_task_spawn(ts, "first", returns_at_once, NULL);
	ref = leat_task_ref_make(t);
	assert_ptr_equal(leat_task_ref_get(&ref), t);
	assert_int_equal(leat_task_yield(), 0);
	/* The task has ended and is not joined: the reference is still valid. */
	assert_ptr_equal(leat_task_ref_get(&ref), t);
	assert_int_equal(leat_task_join(t, NULL), 0);
	assert_null(leat_task_ref_get(&ref));
	assert_int_equal(leat_task_cancel(leat_task_ref_get(&ref)), -EINVAL);
	/*
	 * The next task gets the control block of the ended task, but `ref` still refers to no
	 * task.
	 */
	assert_ptr_equal(leat_task_spawn(ts, "second", sleeps, (void *)10), t);
	next = leat_task_ref_make(t);
	assert_null(leat_task_ref_get(&ref));
	assert_int_equal(leat_task_detach(t), 0);
	assert_int_equal(leat_task_cancel(leat_task_ref_get(&next)), 0);
	assert_int_equal(leat_task_yield(), 0);
	assert_int_equal(leat_task_yield(), 0);
	assert_null(leat_task_ref_get(&next));
	return 0;
}

RULE(test_references, references)

/* ---- the wrong thread ---- */

struct stranger {
	struct leat_scope *s;
	struct leat_task *task;
	int results[2];
	bool done;
};

static void *
other_thread(void *arg)
{
	struct stranger *st = arg;

	st->results[0] = leat_scope_cancel(st->s);
	st->results[1] = leat_task_cancel(st->task);
	__atomic_store_n(&st->done, true, __ATOMIC_RELEASE);
	return NULL;
}

static int
wrong_thread(void *arg)
{
	struct leat_scope s;
	struct stranger st = { .s = &s, .task = leat_task_current() };
	pthread_t thread;
	struct worker w;

	(void)arg;
	leat_scope_init(&s);
	worker_start(&s, &w, 0);
	assert_int_equal(pthread_create(&thread, NULL, other_thread, &st), 0);
	while (!__atomic_load_n(&st.done, __ATOMIC_ACQUIRE))
		assert_int_equal(leat_task_yield(), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(st.results[0], -EPERM);
	assert_int_equal(st.results[1], -EPERM);
	assert_int_equal(leat_scope_wait(&s), 0);
	assert_false(w.cancelled);
	return 0;
}

RULE(test_wrong_thread, wrong_thread)

/* Outside of tasks, no scope can be cancelled. */
static void
test_no_task(void **state)
{
	struct leat_scope s;

	(void)state;
	leat_scope_init(&s);
	assert_int_equal(leat_scope_cancel(&s), -EPERM);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_scope_from_anywhere),
		TEST(test_scope_moments),
		TEST(test_scope_too_late),
		TEST(test_cancel_after_a_branch),
		TEST(test_cancel_below_a_mask),
		TEST(test_task_from_anywhere),
		TEST(test_task_moments),
		TEST(test_task_reach),
		TEST(test_references),
		TEST(test_wrong_thread),
		TEST(test_no_task),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
