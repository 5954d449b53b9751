/* SPDX-License-Identifier: BSD-3-Clause */

/* The rules of cancel (doc/guide/cancel.md), one test each: 7 to 11, what the signal does. */

#include "scope_test.h"

static const struct leat_resource stone = { .name = "stone", hand_post, NULL, NULL };

/* ---- rule 7: cancelling from a lonely branch is -EINVAL ---- */

static int
lonely_main(void *arg)
{
	*(int *)arg = leat_pcancel();
	return 0;
}

static int
rule_7(void *arg)
{
	struct leat_scope s;
	int lonely = 0;
	struct worker w;

	(void)arg;
	leat_scope_init(&s);
	worker_start(&s, &w, 1);
	assert_int_equal(leat_lonely("lonely", lonely_main, &lonely), 0);
	assert_int_equal(leat_task_yield(), 0);
	assert_int_equal(lonely, -EINVAL);
	assert_int_equal(w.h.posts, 1);
	/* A task that is no branch is none either. */
	assert_int_equal(leat_pcancel(), -EINVAL);
	/* Nobody was cancelled by either. */
	assert_int_equal(w.h.cancels, 0);
	assert_int_equal(leat_resource_end(&w.h.op, 0), 0);
	assert_int_equal(leat_pwait(&s), 0);
	assert_int_equal(w.ret, 0);
	return 0;
}

/* ---- rule 8: see test_resource.c too ---- */

static int
rule_8_cancel(void *arg)
{
	struct worker *w = arg;
	unsigned int i;

	assert_int_equal(leat_task_yield(), 0);
	/* What its cancel said is what comes, whatever the completion brings. */
	assert_int_equal(leat_pcancel(), 0);
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
	assert_int_equal(leat_pbranch(&s, "cancel", rule_8_cancel, w, NULL), 0);
	assert_int_equal(leat_pwait(&s), 0);
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

	assert_int_equal(leat_task_yield(), 0);
	assert_int_equal(leat_pcancel(), 0);
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
	assert_int_equal(leat_pbranch(&r.s, "cancelled", rule_9_cancelled, &r, NULL), 0);
	assert_int_equal(leat_pbranch(&r.s, "cancel", rule_9_cancel, &r, NULL), 0);
	assert_int_equal(leat_pwait(&r.s), 0);
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

	assert_int_equal(leat_task_yield(), 0);
	assert_int_equal(leat_pcancel(), 0);
	assert_int_equal(leat_task_yield(), 0);
	assert_int_equal(leat_task_yield(), 0);
	/* Its branch ends when it does. */
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
	assert_int_equal(leat_pbranch(&s, "cancel", rule_10_cancel, &w, NULL), 0);
	assert_int_equal(leat_pwait(&s), 0);
	assert_int_equal(w.results[0], 5);
	/* Its next post is refused. */
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
	assert_int_equal(leat_pbranch(&s, "branch", rule_11_branch, NULL, NULL), 0);
	canceller_start(&s, &c, NULL);
	assert_int_equal(leat_pwait(&s), 0);
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
	/* Promised, but the other side still writes to its buffer. */
	assert_false(ended);
	assert_int_equal(leat_task_state(task), LEAT_TASK_WAITING);
	assert_int_equal(leat_resource_end(&rule_11_hand.op, 0), 0);
	assert_int_equal(task_test_join(&t, task), 0);
	assert_true(ended);
	task_test_end(&t);
}

RULE(test_rule_7_lonely_einval, rule_7)
RULE(test_rule_8_one_of_them_wins, rule_8)
RULE(test_rule_9_born_cancelled, rule_9)
RULE(test_rule_10_not_cancellable, rule_10)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_rule_7_lonely_einval),	  TEST(test_rule_8_one_of_them_wins),
		TEST(test_rule_9_born_cancelled),	  TEST(test_rule_10_not_cancellable),
		TEST(test_rule_11_buffers_until_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
