/* SPDX-License-Identifier: BSD-3-Clause */

/* Policies: which branch ends the others, which one wins, and the result of the wait. */

#include "scope_test.h"

#define LONG_US 1000000
#define BRANCHES 4
#define NONE (-ENOENT)

/* A branch that sleeps, and returns a given result. It never cancels its siblings. */
struct plan {
	unsigned int us;
	int ret;
	int got; /* result of its sleep */
};

static int
sleeps_and_returns(void *arg)
{
	struct plan *p = arg;

	p->got = leat_task_sleep(p->us);
	return p->got < 0 ? p->got : p->ret;
}

/* A branch that returns its result in spite of a cancel. */
static int
is_stubborn(void *arg)
{
	struct plan *p = arg;

	p->got = leat_task_sleep(p->us);
	return p->ret;
}

struct policy_case {
	const char *name;
	enum leat_scope_policy policy;
	struct plan plan[BRANCHES]; /* the branches; the first plan with us = 0 ends the list */
	unsigned int within;	    /* us; 0: no limit */
	int ret;		    /* result that leat_scope_wait() must have */
	int winner;
	int failure;
	int rets[BRANCHES];
};

/* Branches with their sleeps and results, and how their scope must end, per policy. */
static const struct policy_case cases[] = {
	{ "branches: none decides",
	  LEAT_SCOPE_BRANCHES,
	  { { .us = 1, .ret = 5 }, { .us = 2, .ret = -EIO }, { .us = 3, .ret = -EPIPE } },
	  0,
	  0,
	  NONE,
	  -EIO,
	  { 5, -EIO, -EPIPE } },
	{ "all",
	  LEAT_SCOPE_ALL,
	  { { .us = 3, .ret = 5 }, { .us = 2, .ret = 0 } },
	  0,
	  0,
	  NONE,
	  0,
	  { 5, 0 } },
	{ "all: the first failure in time is the result, and the others go on",
	  LEAT_SCOPE_ALL,
	  { { .us = 9, .ret = 5 }, { .us = 3, .ret = -EIO }, { .us = 2, .ret = -EPIPE } },
	  0,
	  -EPIPE,
	  NONE,
	  -EPIPE,
	  { 5, -EIO, -EPIPE } },
	{ "all: too late",
	  LEAT_SCOPE_ALL,
	  { { .us = 2, .ret = -EPIPE }, { .us = 100, .ret = 5 } },
	  10,
	  -ETIMEDOUT,
	  NONE,
	  -EPIPE,
	  { -EPIPE, -ECANCELED } },
	{ "first success",
	  LEAT_SCOPE_FIRST_SUCCESS,
	  { { .us = 9, .ret = 5 }, { .us = 2, .ret = -EIO }, { .us = 3, .ret = 7 } },
	  0,
	  2,
	  2,
	  -EIO,
	  { -ECANCELED, -EIO, 7 } },
	{ "first success: none",
	  LEAT_SCOPE_FIRST_SUCCESS,
	  { { .us = 9, .ret = -EIO }, { .us = 2, .ret = -EPIPE }, { .us = 3, .ret = -EIO } },
	  0,
	  -EPIPE,
	  NONE,
	  -EPIPE,
	  { -EIO, -EPIPE, -EIO } },
	{ "first success: too late",
	  LEAT_SCOPE_FIRST_SUCCESS,
	  { { .us = 2, .ret = -EPIPE }, { .us = 100, .ret = 5 } },
	  10,
	  -ETIMEDOUT,
	  NONE,
	  -EPIPE,
	  { -EPIPE, -ECANCELED } },
	{ "first success: in time",
	  LEAT_SCOPE_FIRST_SUCCESS,
	  { { .us = 100, .ret = 5 }, { .us = 2, .ret = 0 } },
	  10,
	  1,
	  1,
	  0,
	  { -ECANCELED, 0 } },
	{ "first failure",
	  LEAT_SCOPE_FIRST_FAILURE,
	  { { .us = 9, .ret = 5 }, { .us = 2, .ret = 6 }, { .us = 3, .ret = -EIO } },
	  0,
	  -EIO,
	  2,
	  -EIO,
	  { -ECANCELED, 6, -EIO } },
	{ "first failure: -ECANCELED of its own is one",
	  LEAT_SCOPE_FIRST_FAILURE,
	  { { .us = 9, .ret = 5 }, { .us = 3, .ret = -ECANCELED } },
	  0,
	  -ECANCELED,
	  1,
	  -ECANCELED,
	  { -ECANCELED, -ECANCELED } },
	{ "first failure: none",
	  LEAT_SCOPE_FIRST_FAILURE,
	  { { .us = 9, .ret = 5 }, { .us = 2, .ret = 6 } },
	  0,
	  0,
	  NONE,
	  0,
	  { 5, 6 } },
	{ "first failure: too late",
	  LEAT_SCOPE_FIRST_FAILURE,
	  { { .us = 9, .ret = 5 }, { .us = 100, .ret = 6 } },
	  10,
	  -ETIMEDOUT,
	  NONE,
	  0,
	  { 5, -ECANCELED } },
};

static void
check_case(struct leat_scope *s, const struct policy_case *c)
{
	struct plan plan[BRANCHES];
	int rets[BRANCHES], ret;
	const char *name;
	unsigned int i;

	print_message("%s\n", c->name);
	memcpy(plan, c->plan, sizeof(plan));
	assert_int_equal(leat_scope_policy_set(s, c->policy), 0);
	for (i = 0; i < BRANCHES && plan[i].us != 0; i++) {
		char text[2] = { (char)('a' + i), '\0' };

		assert_int_equal(leat_scope_branch(s, text, sleeps_and_returns, &plan[i], &rets[i]),
				 0);
	}
	ret = c->within != 0 ? leat_task_within(c->within, leat_scope_wait(s)) : leat_scope_wait(s);
	assert_int_equal(ret, c->ret);
	for (i = 0; i < BRANCHES && plan[i].us != 0; i++)
		assert_int_equal(rets[i], c->rets[i]);
	assert_int_equal(leat_scope_failure(s, NULL), c->failure);
	ret = 1000;
	assert_int_equal(leat_scope_winner(s, &name, &ret), c->winner);
	if (c->winner < 0) {
		assert_string_equal(name, "");
		assert_int_equal(ret, 1000);
	} else {
		assert_int_equal(name[0], 'a' + c->winner);
		assert_int_equal(ret, c->rets[c->winner]);
	}
	assert_false(leat_task_cancelled());
}

/* Run each case after each other case, in the same scope. */
static int
all_cases(void *arg)
{
	struct leat_scope s;
	unsigned int i, j;

	(void)arg;
	leat_scope_init(&s);
	for (i = 0; i < RTE_DIM(cases); i++)
		for (j = 0; j < RTE_DIM(cases); j++) {
			check_case(&s, &cases[i]);
			check_case(&s, &cases[j]);
		}
	return 0;
}

RULE(test_cases, all_cases)

/* A branch with a number of 2^31 or more does not count as one that decides. */
static int
late_branch(void *arg)
{
	struct plan p = { .us = 1, .ret = 3 };
	struct leat_scope s;

	(void)arg;
	leat_scope_init(&s);
	s.nb_started = s.nb_ended = UINT32_C(1) << 31;
	leat_scope_branch(&s, "late", sleeps_and_returns, &p, NULL);
	assert_int_equal(leat_scope_wait(&s), 0);
	assert_int_equal(leat_scope_winner(&s, NULL, NULL), -ENOENT);
	return 0;
}

RULE(test_late_branch, late_branch)

/* A policy stays, until it is changed between two rounds. */
static int
policy_stays(void *arg)
{
	struct plan p[2] = { { .us = 1, .ret = 3 }, { .us = LONG_US } };
	struct leat_scope s;
	unsigned int i;

	(void)arg;
	leat_scope_init(&s);
	assert_int_equal(leat_scope_policy_set(&s, (enum leat_scope_policy)4), -EINVAL);
	assert_int_equal(leat_scope_policy_set(&s, LEAT_SCOPE_FIRST_SUCCESS), 0);
	for (i = 0; i < 3; i++) {
		/* Without a branch there is no success. */
		assert_int_equal(leat_scope_wait(&s), -ENOENT);
		leat_scope_branch(&s, "long", sleeps_and_returns, &p[1], NULL);
		leat_scope_branch(&s, "short", sleeps_and_returns, &p[0], NULL);
		assert_int_equal(leat_scope_policy_set(&s, LEAT_SCOPE_ALL), -EBUSY);
		assert_int_equal(leat_scope_wait(&s), 1);
		assert_int_equal(p[1].got, -ECANCELED);
		assert_int_equal(leat_scope_failure(&s, NULL), 0);
	}
	/* The result of the last round is still available. */
	assert_int_equal(leat_scope_policy_set(&s, LEAT_SCOPE_BRANCHES), 0);
	assert_int_equal(leat_scope_winner(&s, NULL, NULL), 1);
	leat_scope_branch(&s, "short", sleeps_and_returns, &p[0], NULL);
	assert_int_equal(leat_scope_wait(&s), 0);
	assert_int_equal(leat_scope_winner(&s, NULL, NULL), -ENOENT);
	return 0;
}

RULE(test_policy_stays, policy_stays)

/* The first success counts, even of a branch that returns it although the scope was cancelled. */
static int
success_after_the_end(void *arg)
{
	struct plan p[2] = { { .us = LONG_US, .ret = 3 }, { .us = LONG_US, .ret = 4 } };
	struct leat_scope s;
	int rets[2];

	(void)arg;
	leat_scope_init(&s);
	assert_int_equal(leat_scope_policy_set(&s, LEAT_SCOPE_FIRST_SUCCESS), 0);
	leat_scope_branch(&s, "a", is_stubborn, &p[0], &rets[0]);
	leat_scope_branch(&s, "b", is_stubborn, &p[1], &rets[1]);
	assert_int_equal(leat_task_within(10, leat_scope_wait(&s)), 0);
	assert_int_equal(p[0].got, -ECANCELED);
	assert_int_equal(rets[0], 3);
	assert_int_equal(rets[1], 4);
	return 0;
}

RULE(test_success_after_the_end, success_after_the_end)

/* A branch may cancel its siblings under each policy; under LEAT_SCOPE_BRANCHES it then wins. */
static int
breaks(void *arg)
{
	assert_int_equal(leat_task_sleep(1), 0);
	leat_scope_break(*(int *)arg);
}

static int
break_under_policy(void *arg)
{
	/* By policy: the result of "breaks"; the result of the wait; the index of the winner. */
	static const struct {
		int ret, wait, winner;
	} expected[][2] = {
		[LEAT_SCOPE_BRANCHES] = { { 6, 0, 1 }, { -EIO, 0, 1 } },
		[LEAT_SCOPE_ALL] = { { 6, 0, NONE }, { -EIO, -EIO, NONE } },
		[LEAT_SCOPE_FIRST_SUCCESS] = { { 6, 1, 1 }, { -EIO, -EIO, NONE } },
		[LEAT_SCOPE_FIRST_FAILURE] = { { 6, 0, NONE }, { -EIO, -EIO, NONE } },
	};
	unsigned int policy, i;

	(void)arg;
	for (policy = 0; policy < RTE_DIM(expected); policy++)
		for (i = 0; i < 2; i++) {
			struct plan p = { .us = LONG_US };
			int ret = expected[policy][i].ret, got;
			struct leat_scope s;

			leat_scope_init(&s);
			leat_scope_policy_set(&s, (enum leat_scope_policy)policy);
			leat_scope_branch(&s, "long", sleeps_and_returns, &p, NULL);
			leat_scope_branch(&s, "breaks", breaks, &ret, NULL);
			assert_int_equal(leat_scope_wait(&s), expected[policy][i].wait);
			assert_int_equal(p.got, -ECANCELED);
			assert_int_equal(leat_scope_winner(&s, NULL, &got),
					 expected[policy][i].winner);
			if (expected[policy][i].winner >= 0)
				assert_int_equal(got, ret);
		}
	return 0;
}

RULE(test_break_under_policy, break_under_policy)

/*
 * leat_task_cancel() of one branch: its -ECANCELED counts as a failure under each policy that
 * regards failures.
 */
static int
one_is_singled_out(void *arg)
{
	/*
	 * By policy: the results of the wait, of leat_scope_winner(), and of the sleep of "other".
	 */
	static const struct {
		int wait, winner, cancels;
	} expected[] = {
		[LEAT_SCOPE_BRANCHES] = { 0, NONE, 0 },
		[LEAT_SCOPE_ALL] = { -ECANCELED, NONE, 0 },
		[LEAT_SCOPE_FIRST_SUCCESS] = { 1, 1, 0 },
		[LEAT_SCOPE_FIRST_FAILURE] = { -ECANCELED, 0, -ECANCELED },
	};
	unsigned int policy;

	(void)arg;
	for (policy = 0; policy < RTE_DIM(expected); policy++) {
		struct plan p = { .us = 10 };
		struct leat_scope s;
		struct worker w;

		leat_scope_init(&s);
		leat_scope_policy_set(&s, (enum leat_scope_policy)policy);
		worker_start(&s, &w, 1);
		leat_scope_branch(&s, "other", sleeps_and_returns, &p, NULL);
		assert_int_equal(leat_task_yield(), 0);
		assert_int_equal(leat_task_cancel(w.task), 0);
		assert_int_equal(leat_scope_wait(&s), expected[policy].wait);
		assert_int_equal(leat_scope_winner(&s, NULL, NULL), expected[policy].winner);
		assert_int_equal(p.got, expected[policy].cancels);
	}
	return 0;
}

RULE(test_one_is_singled_out, one_is_singled_out)

/* The cancel that a policy sends also reaches the branches of branches, each once. */
static int
policy_descends(void *arg)
{
	struct plan p = { .us = 1, .ret = 0 };
	struct leat_scope s;
	struct worker w;
	struct nest n;

	(void)arg;
	leat_scope_init(&s);
	leat_scope_policy_set(&s, LEAT_SCOPE_FIRST_SUCCESS);
	worker_start(&s, &w, 2);
	assert_int_equal(leat_scope_branch(&s, "nest", quiet_nest_main, &n, NULL), 0);
	leat_scope_branch(&s, "winner", sleeps_and_returns, &p, NULL);
	assert_int_equal(leat_scope_wait(&s), 2);
	assert_int_equal(w.h.cancels, 1);
	assert_int_equal(n.w.h.cancels, 1);
	assert_int_equal(n.result, -ECANCELED);
	return 0;
}

RULE(test_policy_descends, policy_descends)

/* A branch can't be started, and none has succeeded before: the wait returns -ENOMEM. */
static int
no_room(void *arg)
{
	struct plan p = { .us = LONG_US };
	struct leat_scope s;

	(void)arg;
	leat_scope_init(&s);
	leat_scope_policy_set(&s, LEAT_SCOPE_FIRST_SUCCESS);
	while (leat_scope_branch(&s, "fill", sleeps_and_returns, &p, NULL) == 0)
		;
	assert_int_equal(leat_scope_wait(&s), -ENOMEM);
	return 0;
}

RULE(test_no_room, no_room)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_cases),
		TEST(test_late_branch),
		TEST(test_policy_stays),
		TEST(test_success_after_the_end),
		TEST(test_break_under_policy),
		TEST(test_one_is_singled_out),
		TEST(test_policy_descends),
		TEST(test_no_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
