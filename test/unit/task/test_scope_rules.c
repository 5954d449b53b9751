/* SPDX-License-Identifier: BSD-3-Clause */

/* Rules 1 to 6 of doc/guide/cancel.md, one test each: which tasks get the signal of a cancel. */

#include "scope_test.h"

/* ---- rule 1: cancel is asynchronous: it never waits for branches to end ---- */

static int
rule_1(void *arg)
{
	struct leat_scope s;
	struct canceller c;
	struct worker w;

	(void)arg;
	leat_scope_init(&s);
	worker_start(&s, &w, 1);
	canceller_start(&s, &c, &w);
	assert_int_equal(leat_scope_wait(&s), 0);
	assert_int_equal(c.result, 0);
	assert_false(c.others_ended);
	assert_true(w.ended);
	assert_int_equal(w.ret, -ECANCELED);
	return 0;
}

/* ---- rule 2: the signal reaches each branch exactly once ---- */

#define MANY 8

static int
rule_2(void *arg)
{
	struct canceller c[2];
	struct worker w[MANY];
	struct leat_scope s;
	unsigned int i;

	(void)arg;
	leat_scope_init(&s);
	for (i = 0; i < MANY; i++)
		worker_start(&s, &w[i], 3);
	/* The second cancel comes too late to send another signal. */
	canceller_start(&s, &c[0], NULL);
	canceller_start(&s, &c[1], NULL);
	assert_int_equal(leat_scope_wait(&s), 0);
	for (i = 0; i < MANY; i++) {
		assert_true(w[i].cancelled);
		/*
		 * The signal was not sent twice: the operation was cancelled once. It was not lost:
		 * no further operation was started.
		 */
		assert_int_equal(w[i].h.posts, 1);
		assert_int_equal(w[i].h.cancels, 1);
		assert_int_equal(w[i].results[0], -ECANCELED);
		assert_int_equal(w[i].results[2], -ECANCELED);
	}
	return 0;
}

/*
 * ---- rule 3: the signal sets a flag and cancels the operation; it can be tested and masked ----
 */

struct rule_3 {
	struct leat_task_event go;
	struct hand h;
	bool before, after;
	int masked_wait, next_wait;
};

static int
rule_3_masked(void *arg)
{
	struct leat_task_mask_state mask, inner;
	struct rule_3 *r = arg;

	r->before = leat_task_cancelled();
	leat_task_mask(&mask);
	/* The cancel comes during this wait, which is masked: it does not cancel the operation. */
	r->masked_wait = leat_resource_run(&r->h.op, &hand);
	r->after = leat_task_cancelled();
	leat_task_mask(&inner);
	leat_task_unmask(&inner);
	/* Masks nest: after the unmask of `inner`, `mask` still holds. */
	assert_int_equal(leat_task_event_wait(&r->go), 0);
	leat_task_unmask(&mask);
	r->next_wait = leat_task_event_wait(&r->go);
	return 0;
}

static int
rule_3_cancel(void *arg)
{
	struct rule_3 *r = arg;

	task_test_yield();
	assert_int_equal(leat_scope_cancel_siblings(), 0);
	assert_int_equal(leat_resource_end(&r->h.op, 7), 0);
	leat_task_event_set(&r->go);
	return 0;
}

static int
rule_3(void *arg)
{
	struct rule_3 r = { .h.answer = LEAT_CANCEL_FREED };
	struct leat_scope s;

	(void)arg;
	leat_scope_init(&s);
	assert_int_equal(leat_scope_branch(&s, "masked", rule_3_masked, &r, NULL), 0);
	assert_int_equal(leat_scope_branch(&s, "cancel", rule_3_cancel, &r, NULL), 0);
	assert_int_equal(leat_scope_wait(&s), 0);
	assert_false(r.before);
	assert_true(r.after);
	assert_int_equal(r.h.cancels, 0);
	assert_int_equal(r.masked_wait, 7);
	/* The wait is refused although the event is set. */
	assert_int_equal(r.next_wait, -ECANCELED);
	return 0;
}

/* ---- rule 4: a post that finds the flag set starts nothing ---- */

struct rule_4 {
	struct hand h;
	struct leat_task_event ev;
	int resource, event, sleep, wait, branch;
	bool ran;
};

static int
rule_4_child(void *arg)
{
	((struct rule_4 *)arg)->ran = true;
	return 0;
}

static int
rule_4_late(void *arg)
{
	struct rule_4 *r = arg;
	struct leat_scope s;

	/* The task is between two operations when the cancel comes. */
	task_test_yield();
	task_test_yield();
	assert_true(leat_task_cancelled());
	r->resource = leat_resource_run(&r->h.op, &hand);
	r->event = leat_task_event_wait(&r->ev);
	r->sleep = leat_task_sleep(1);
	leat_scope_init(&s);
	r->branch = leat_scope_branch(&s, "child", rule_4_child, r, NULL);
	r->wait = leat_scope_wait(&s);
	return 0;
}

static int
rule_4(void *arg)
{
	struct rule_4 r = { .h.answer = LEAT_CANCEL_FREED };
	struct leat_scope s;
	struct canceller c;

	(void)arg;
	leat_task_event_set(&r.ev);
	leat_scope_init(&s);
	assert_int_equal(leat_scope_branch(&s, "late", rule_4_late, &r, NULL), 0);
	canceller_start(&s, &c, NULL);
	assert_int_equal(leat_scope_wait(&s), 0);
	assert_int_equal(c.result, 0);
	assert_int_equal(r.resource, -ECANCELED);
	assert_int_equal(r.h.posts, 0);
	assert_int_equal(r.event, -ECANCELED);
	assert_int_equal(r.sleep, -ECANCELED);
	assert_int_equal(r.branch, -ECANCELED);
	assert_int_equal(r.wait, -ECANCELED);
	assert_false(r.ran);
	return 0;
}

/* ---- rule 5: a cancel returns 0 when delivered, -EEXIST when another cancel was first ---- */

static int
rule_5(void *arg)
{
	struct canceller first, second;
	struct leat_scope s;
	struct nest n;

	(void)arg;
	/*
	 * In one turn three branches cancel: `first` and `second` in the scope s, then n.c in the
	 * scope of n. The signal of `first` reaches n's scope before n.c makes its call.
	 */
	leat_scope_init(&s);
	canceller_start(&s, &first, NULL);
	canceller_start(&s, &second, NULL);
	nest_start(&s, &n);
	assert_int_equal(leat_scope_wait(&s), 0);
	assert_int_equal(first.result, 0);
	assert_int_equal(second.result, -EEXIST);
	assert_int_equal(n.c.result, -EEXIST);
	assert_int_equal(n.w.h.cancels, 1);
	assert_int_equal(n.result, -ECANCELED);
	return 0;
}

/* A branch that cancels its siblings, then waits. */
struct stayer {
	struct leat_task_event cancelled_own;
	struct hand h;
	int cancel;
	int wait;
};

static int
stayer_main(void *arg)
{
	struct stayer *st = arg;

	task_test_yield();
	st->cancel = leat_scope_cancel_siblings();
	leat_task_event_set(&st->cancelled_own);
	st->wait = leat_resource_run(&st->h.op, &hand);
	return 0;
}

struct skipped {
	struct stayer stayer;
	struct worker stubborn; /* its operation can't be cancelled */
	int result;
};

static int
skipped_main(void *arg)
{
	struct skipped *k = arg;
	struct leat_scope s;

	leat_scope_init(&s);
	worker_start(&s, &k->stubborn, 1);
	k->stubborn.h.answer = LEAT_CANCEL_LATE;
	assert_int_equal(leat_scope_branch(&s, "stayer", stayer_main, &k->stayer, NULL), 0);
	k->result = leat_scope_wait(&s);
	return 0;
}

static int
skipping_canceller(void *arg)
{
	struct skipped *k = arg;

	assert_int_equal(leat_task_event_wait(&k->stayer.cancelled_own), 0);
	/*
	 * The scope of skipped_main() was cancelled before, by its own branch. This cancel, of the
	 * scope above it, is still delivered.
	 */
	assert_int_equal(leat_scope_cancel_siblings(), 0);
	assert_int_equal(leat_resource_end(&k->stubborn.h.op, 3), 0);
	return 0;
}

static int
rule_5_child_skipped(void *arg)
{
	struct skipped k = { .stayer.h.answer = LEAT_CANCEL_FREED };
	struct leat_scope s;

	(void)arg;
	leat_scope_init(&s);
	assert_int_equal(leat_scope_branch(&s, "skipped", skipped_main, &k, NULL), 0);
	assert_int_equal(leat_scope_branch(&s, "canceller", skipping_canceller, &k, NULL), 0);
	assert_int_equal(leat_scope_wait(&s), 0);
	assert_int_equal(k.stayer.cancel, 0);
	/* The stubborn branch is not cancelled a second time. */
	assert_int_equal(k.stubborn.h.cancels, 1);
	assert_int_equal(k.stubborn.ret, 3);
	/* The stayer's own cancel did not reach the stayer: only skipping_canceller()'s did. */
	assert_int_equal(k.stayer.wait, -ECANCELED);
	assert_int_equal(k.stayer.h.cancels, 1);
	assert_int_equal(k.result, 0);
	return 0;
}

/* ---- rule 6: the signal descends; it spares caller and parent; the next wait is clean ---- */

#define DEPTH 200

struct deep {
	unsigned int level;
	struct worker *bottom;
	int results[DEPTH];
};

static int
deep_main(void *arg)
{
	struct deep *d = arg;
	unsigned int level = d->level++;
	struct leat_scope s;

	leat_scope_init(&s);
	if (level + 1 < DEPTH)
		assert_int_equal(leat_scope_branch(&s, "deep", deep_main, d, NULL), 0);
	else
		worker_start(&s, d->bottom, 1);
	d->results[level] = leat_scope_wait(&s);
	return d->results[level];
}

/* Wait until all other tasks wait, then cancel them. */
static int
last_canceller(void *arg)
{
	struct deep *d = arg;

	while (d->bottom->h.posts == 0)
		task_test_yield();
	assert_int_equal(leat_scope_cancel_siblings(), 0);
	assert_false(leat_task_cancelled());
	return leat_task_sleep(1);
}

static int
rule_6(void *arg)
{
	struct worker bottom = { .res = NULL };
	struct deep d = { .bottom = &bottom };
	struct leat_scope s;
	unsigned int i;
	int caller;

	(void)arg;
	leat_scope_init(&s);
	assert_int_equal(leat_scope_branch(&s, "deep", deep_main, &d, NULL), 0);
	assert_int_equal(leat_scope_branch(&s, "last", last_canceller, &d, &caller), 0);
	assert_int_equal(leat_scope_wait(&s), 0);
	for (i = 0; i < DEPTH; i++)
		assert_int_equal(d.results[i], -ECANCELED);
	assert_int_equal(bottom.h.cancels, 1);
	assert_int_equal(caller, 0);
	assert_false(leat_task_cancelled());
	return 0;
}

static int
rule_6_retry_loop(void *arg)
{
	struct leat_scope s;
	struct canceller c;
	struct worker w;
	unsigned int i;

	(void)arg;
	for (i = 0; i < 100; i++) {
		leat_scope_init(&s);
		worker_start(&s, &w, 1);
		canceller_start(&s, &c, NULL);
		assert_int_equal(leat_scope_wait(&s), 0);
		assert_int_equal(c.result, 0);
		assert_int_equal(w.ret, -ECANCELED);
		assert_int_equal(w.h.posts, 1);
		assert_false(leat_task_cancelled());
		/* The wait after a cancelled one starts clean. */
		leat_scope_init(&s);
		worker_start(&s, &w, 0);
		assert_int_equal(leat_scope_wait(&s), 0);
		assert_false(w.cancelled);
	}
	return leat_task_sleep(1);
}

RULE(test_rule_1_cancel_does_not_wait, rule_1)
RULE(test_rule_2_exactly_once, rule_2)
RULE(test_rule_3_flag_and_mask, rule_3)
RULE(test_rule_4_post_is_refused, rule_4)
RULE(test_rule_5_eexist, rule_5)
RULE(test_rule_5_cancelled_child_is_skipped, rule_5_child_skipped)
RULE(test_rule_6_descends, rule_6)
RULE(test_rule_6_retry_loop_starts_clean, rule_6_retry_loop)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_rule_1_cancel_does_not_wait),
		TEST(test_rule_2_exactly_once),
		TEST(test_rule_3_flag_and_mask),
		TEST(test_rule_4_post_is_refused),
		TEST(test_rule_5_eexist),
		TEST(test_rule_5_cancelled_child_is_skipped),
		TEST(test_rule_6_descends),
		TEST(test_rule_6_retry_loop_starts_clean),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
