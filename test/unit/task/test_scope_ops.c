/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Rules 7 to 11 of doc/guide/cancel.md, one test each: how the signal of a cancel affects
 * operations. Then the interface of resources (leat_resource.h).
 */

#include "scope_test.h"

static const struct leat_resource stone = { .name = "stone", hand_post, NULL, NULL };

/* ---- rule 7: cancelling from a detached task is -EINVAL ---- */

static int
detached_main(void *arg)
{
	*(int *)arg = leat_scope_cancel_siblings();
	return 0;
}

static int
rule_7(void *arg)
{
	struct leat_scope s;
	int detached = 0;
	struct worker w;

	(void)arg;
	leat_scope_init(&s);
	worker_start(&s, &w, 1);
	assert_int_equal(leat_task_start("detached", detached_main, &detached), 0);
	task_test_yield();
	assert_int_equal(detached, -EINVAL);
	assert_int_equal(w.h.posts, 1);
	/* A task that is not a branch can't cancel siblings, either. */
	assert_int_equal(leat_scope_cancel_siblings(), -EINVAL);
	/* Neither call cancelled any branch. */
	assert_int_equal(w.h.cancels, 0);
	assert_int_equal(leat_resource_end(&w.h.op, 0), 0);
	assert_int_equal(leat_scope_wait(&s), 0);
	assert_int_equal(w.ret, 0);
	return 0;
}

/*
 * ---- rule 8: an operation ends as its cancel function said; see test_resource_cancel(), too ----
 */

static int
rule_8_cancel(void *arg)
{
	struct worker *w = arg;
	unsigned int i;

	task_test_yield();
	/*
	 * The cancel ends only the operation whose cancel function returned LEAT_CANCEL_FREED; the
	 * first completion ends the others. Nothing ends an operation a second time.
	 */
	assert_int_equal(leat_scope_cancel_siblings(), 0);
	for (i = 0; i < 4; i++) {
		bool freed = w[i].h.answer == LEAT_CANCEL_FREED;

		assert_false(w[i].ended);
		assert_int_equal(leat_resource_end(&w[i].h.op, (int)i), freed ? -EALREADY : 0);
		assert_int_equal(leat_resource_end(&w[i].h.op, 9), -EALREADY);
		assert_int_equal(leat_resource_cancel(&w[i].h.op), -ENOENT);
	}
	return 0;
}

static int
rule_8(void *arg)
{
	static const enum leat_cancel answers[] = { LEAT_CANCEL_LATE, LEAT_CANCEL_FREED,
						    LEAT_CANCEL_WILL, LEAT_CANCEL_ASKED };
	struct leat_scope s;
	struct worker w[4];
	unsigned int i;

	(void)arg;
	leat_scope_init(&s);
	for (i = 0; i < 4; i++) {
		worker_start(&s, &w[i], 1);
		w[i].h.answer = answers[i];
	}
	assert_int_equal(leat_scope_branch(&s, "cancel", rule_8_cancel, w, NULL), 0);
	assert_int_equal(leat_scope_wait(&s), 0);
	assert_int_equal(w[0].ret, 0);
	assert_int_equal(w[1].ret, -ECANCELED);
	assert_int_equal(w[2].ret, -ECANCELED);
	assert_int_equal(w[3].ret, 3);
	return 0;
}

/* ---- rule 9: a branch created while its scope is being cancelled is born cancelled ---- */

struct rule_9 {
	struct leat_scope s;
	struct worker born[2];
	struct worker w;
};

static int
rule_9_cancel(void *arg)
{
	struct rule_9 *r = arg;

	task_test_yield();
	assert_int_equal(leat_scope_cancel_siblings(), 0);
	worker_start(&r->s, &r->born[0], 1);
	return 0;
}

static int
rule_9_cancelled(void *arg)
{
	struct rule_9 *r = arg;

	assert_int_equal(leat_task_sleep(1000000), -ECANCELED);
	worker_start(&r->s, &r->born[1], 1);
	return 0;
}

static int
rule_9(void *arg)
{
	struct rule_9 r;
	unsigned int i;

	(void)arg;
	leat_scope_init(&r.s);
	assert_int_equal(leat_scope_branch(&r.s, "cancelled", rule_9_cancelled, &r, NULL), 0);
	assert_int_equal(leat_scope_branch(&r.s, "cancel", rule_9_cancel, &r, NULL), 0);
	assert_int_equal(leat_scope_wait(&r.s), 0);
	for (i = 0; i < 2; i++) {
		assert_true(r.born[i].ended);
		assert_true(r.born[i].cancelled);
		assert_int_equal(r.born[i].h.posts, 0);
		assert_int_equal(r.born[i].ret, -ECANCELED);
	}
	return 0;
}

/* ---- rule 10: a resource that can't be cancelled ---- */

static int
rule_10_cancel(void *arg)
{
	struct worker *w = arg;

	task_test_yield();
	assert_int_equal(leat_scope_cancel_siblings(), 0);
	task_test_yield();
	task_test_yield();
	/* The branch ends when its operation does. */
	assert_false(w->ended);
	return leat_resource_end(&w->h.op, 5);
}

static int
rule_10(void *arg)
{
	struct leat_scope s;
	struct worker w;

	(void)arg;
	leat_scope_init(&s);
	worker_start(&s, &w, 2);
	w.res = &stone;
	assert_int_equal(leat_scope_branch(&s, "cancel", rule_10_cancel, &w, NULL), 0);
	assert_int_equal(leat_scope_wait(&s), 0);
	assert_int_equal(w.results[0], 5);
	/* The branch's next post is refused. */
	assert_int_equal(w.results[1], -ECANCELED);
	assert_int_equal(w.h.posts, 1);
	return 0;
}

/* ---- rule 11: the scope ends only after its cancelled operations ---- */

static struct hand rule_11_hand;

static int
rule_11_branch(void *arg)
{
	(void)arg;
	return leat_resource_run(&rule_11_hand.op, &hand);
}

static int
rule_11_main(void *arg)
{
	struct leat_scope s;
	struct canceller c;

	leat_scope_init(&s);
	assert_int_equal(leat_scope_branch(&s, "branch", rule_11_branch, NULL, NULL), 0);
	canceller_start(&s, &c, NULL);
	assert_int_equal(leat_scope_wait(&s), 0);
	*(bool *)arg = true;
	return 0;
}

static void
test_rule_11_buffers_until_the_end(void **state)
{
	struct leat_task *task;
	struct task_test t;
	bool ended = false;

	(void)state;
	task_test_begin(&t, NULL);
	rule_11_hand = (struct hand){ .answer = LEAT_CANCEL_WILL };
	task = task_test_spawn(&t, "main", rule_11_main, &ended);
	test_turns(t.r, 100);
	assert_int_equal(rule_11_hand.cancels, 1);
	/* LEAT_CANCEL_WILL promises an end; until it comes, the device may write to the buffer. */
	assert_false(ended);
	assert_int_equal(leat_task_state(task), LEAT_TASK_WAITING);
	assert_int_equal(leat_resource_end(&rule_11_hand.op, 0), 0);
	assert_int_equal(task_test_join(&t, task), 0);
	assert_true(ended);
	task_test_end(&t);
}

/* ---- what telemetry says of a task that waits in a resource ---- */

static void
hand_describe(const struct leat_resource_op *op, char *text, size_t len)
{
	snprintf(text, len, "posted %u times", container_of(op, const struct hand, op)->posts);
}

static const struct leat_resource speaking = { "speaking", hand_post, hand_cancel, hand_describe };

static void
test_resource_is_described(void **state)
{
	struct worker w = { .res = &speaking, .rounds = 1 };
	struct leat_task_info info;
	struct leat_task *task;
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	task = task_test_spawn(&t, "main", worker_main, &w);
	test_turns(t.r, 1);
	leat_task_info_get(task, &info);
	assert_string_equal(info.waits, "speaking posted 1 times");
	assert_int_equal(leat_resource_end(&w.h.op, 6), 0);
	assert_int_equal(task_test_join(&t, task), 6);

	w = (struct worker){ .res = &stone, .rounds = 1 };
	task = task_test_spawn(&t, "main", worker_main, &w);
	test_turns(t.r, 1);
	leat_task_info_get(task, &info);
	assert_string_equal(info.waits, "stone");
	/*
	 * `stone` has no cancel function, so a cancel does not end the wait: only
	 * leat_resource_end() does.
	 */
	assert_int_equal(leat_resource_cancel(&w.h.op), 0);
	assert_int_equal(leat_resource_cancel(&w.h.op), -EALREADY);
	assert_int_equal(leat_resource_end(&w.h.op, 7), 0);
	assert_int_equal(task_test_join(&t, task), 7);
	task_test_end(&t);
}

/*
 * leat_resource_cancel() of an operation whose task is not cancelled: what the resource's cancel
 * function returns decides the result of this call and that of the task's wait.
 */
static void
test_resource_cancel(void **state)
{
	static const struct {
		enum leat_cancel answer; /* what the cancel function returns */
		int says, result;	 /* results of leat_resource_cancel() and of the wait */
	} cases[] = {
		{ LEAT_CANCEL_LATE, 0, 1 },
		{ LEAT_CANCEL_FREED, 1, -ECANCELED },
		{ LEAT_CANCEL_WILL, 1, -ECANCELED },
		{ LEAT_CANCEL_ASKED, -EINPROGRESS, 1 },
	};
	struct leat_task *task;
	struct task_test t;
	unsigned int i;

	(void)state;
	task_test_begin(&t, NULL);
	for (i = 0; i < RTE_DIM(cases); i++) {
		struct worker w = { .res = &hand, .rounds = 1, .h.answer = cases[i].answer };

		task = task_test_spawn(&t, "main", worker_main, &w);
		test_turns(t.r, 1);
		assert_int_equal(leat_resource_cancel(&w.h.op), cases[i].says);
		(void)leat_resource_end(&w.h.op, 1);
		assert_int_equal(task_test_join(&t, task), cases[i].result);
		assert_int_equal(w.h.cancels, 1);
	}
	task_test_end(&t);
}

/* The operation ends in its post function, or the post function fails: the task does not wait. */
static int
post_ends(struct leat_resource_op *op)
{
	return leat_resource_end(op, 8);
}

static int
post_fails(struct leat_resource_op *op)
{
	(void)op;
	return -ENOBUFS;
}

static int
posts_at_once(void *arg)
{
	static const struct leat_resource ends = { .name = "ends", .post = post_ends };
	static const struct leat_resource fails = { .name = "fails", .post = post_fails };
	struct leat_resource_op op;

	(void)arg;
	assert_int_equal(leat_resource_run(&op, &ends), 8);
	assert_int_equal(leat_resource_end(&op, 9), -EALREADY);
	assert_int_equal(leat_resource_run(&op, &fails), -ENOBUFS);
	assert_int_equal(leat_resource_cancel(&op), -ENOENT);
	return 0;
}

RULE(test_resource_post_at_once, posts_at_once)
RULE(test_rule_7_detached_einval, rule_7)
RULE(test_rule_8_one_of_them_wins, rule_8)
RULE(test_rule_9_born_cancelled, rule_9)
RULE(test_rule_10_not_cancellable, rule_10)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_rule_7_detached_einval),
		TEST(test_rule_8_one_of_them_wins),
		TEST(test_rule_9_born_cancelled),
		TEST(test_rule_10_not_cancellable),
		TEST(test_rule_11_buffers_until_the_end),
		TEST(test_resource_is_described),
		TEST(test_resource_cancel),
		TEST(test_resource_post_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
