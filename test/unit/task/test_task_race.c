/* SPDX-License-Identifier: BSD-3-Clause */

/* leat_task_race() and leat_task_all(): which functions run, when, and the result. */

#include <leat_task_race.h>

#include "scope_test.h"

#define LONG_US 1000000
#define BRANCHES 4
#define NEVER UINT64_MAX

/* A function that sleeps, and returns a given result. It cancels nothing. */
struct plan {
	uint64_t us;
	int ret;
	uint64_t begun; /* us since the race began; NEVER: did not begin */
	uint64_t ended;
};

static uint64_t epoch;

static uint64_t
us_now(void)
{
	return (test_clock - epoch) / US;
}

static int
runs(void *arg)
{
	struct plan *p = arg;
	int ret = 0;

	p->begun = us_now();
	if (p->us > 0)
		ret = leat_task_sleep(p->us);
	p->ended = us_now();
	return ret < 0 ? ret : p->ret;
}

/*
 * A call of leat_task_race(), leat_task_all() or leat_task_run(): its functions (in), the result
 * and duration that it must have, and the result and begin of each function (out).
 */
struct race_case {
	const char *name;
	enum leat_scope_policy policy;
	struct {
		uint64_t after_us; /* when the function is due */
		uint64_t us;	   /* how long it sleeps */
		int ret;	   /* what it returns if its sleep was not cancelled */
	} in[BRANCHES];
	unsigned int n;	 /* number of functions */
	uint64_t within; /* us; 0: no limit */
	int ret;
	uint64_t took; /* us */
	struct {
		int ret;
		uint64_t begun;
	} out[BRANCHES];
};

#define RACE LEAT_SCOPE_FIRST_SUCCESS
#define ALL LEAT_SCOPE_ALL

/* clang-format off */
static const struct race_case cases[] = {
	{ "race: the first", RACE,
	  { { 0, 50, 4 }, { 0, 90, 5 } }, 2,
	  0, 0, 50, { { 4, 0 }, { -ECANCELED, 0 } } },
	{ "race: the second", RACE,
	  { { 0, 90, 4 }, { 0, 50, 5 } }, 2,
	  0, 1, 50, { { -ECANCELED, 0 }, { 5, 0 } } },
	{ "race: won before the second began", RACE,
	  { { 0, 0, 4 }, { 0, 50, 5 } }, 2,
	  0, 0, 0, { { 4, 0 }, { -ECANCELED, NEVER } } },
	{ "hedge: the first was fast enough", RACE,
	  { { 0, 50, 0 }, { 60, 50, 0 } }, 2,
	  0, 0, 50, { { 0, 0 }, { -ECANCELED, NEVER } } },
	{ "hedge: the second overtakes", RACE,
	  { { 0, 500, 0 }, { 60, 50, 0 } }, 2,
	  0, 1, 110, { { -ECANCELED, 0 }, { 0, 60 } } },
	{ "hedge: the first answers after all", RACE,
	  { { 0, 100, 0 }, { 60, 50, 0 } }, 2,
	  0, 0, 100, { { 0, 0 }, { -ECANCELED, 60 } } },
	{ "hedge: a failure starts the next at once", RACE,
	  { { 0, 10, -EIO }, { 60, 50, 0 }, { 200, 1, 0 } }, 3,
	  0, 1, 60, { { -EIO, 0 }, { 0, 10 }, { -ECANCELED, NEVER } } },
	{ "hedge: and only the next", RACE,
	  { { 0, 10, -EIO }, { 60, 500, 0 }, { 200, 10, 7 } }, 3,
	  0, 2, 210, { { -EIO, 0 }, { -ECANCELED, 10 }, { 7, 200 } } },
	{ "hedge: one failure after the other", RACE,
	  { { 0, 10, -EIO }, { 60, 10, -EPIPE }, { 200, 10, -ENOENT } }, 3,
	  0, -EIO, 30, { { -EIO, 0 }, { -EPIPE, 10 }, { -ENOENT, 20 } } },
	{ "hedge: all fail without waiting", RACE,
	  { { 0, 0, -EIO }, { 60, 0, -EPIPE }, { 200, 0, -ENOENT }, { 200, 0, -ENXIO } }, 4,
	  0, -EIO, 0, { { -EIO, 0 }, { -EPIPE, 0 }, { -ENOENT, 0 }, { -ENXIO, 0 } } },
	{ "hedge: none begins at once", RACE,
	  { { 40, 10, 0 }, { 60, 10, 0 } }, 2,
	  0, 0, 50, { { 0, 40 }, { -ECANCELED, NEVER } } },
	{ "hedge: too late", RACE,
	  { { 0, 500, 0 }, { 60, 500, 0 }, { 400, 1, 0 } }, 3,
	  100, -ETIMEDOUT, 100, { { -ECANCELED, 0 }, { -ECANCELED, 60 }, { -ECANCELED, NEVER } } },
	{ "hedge: too late for any", RACE,
	  { { 40, 10, 0 }, { 60, 10, 0 } }, 2,
	  20, -ETIMEDOUT, 20, { { -ECANCELED, NEVER }, { -ECANCELED, NEVER } } },
	{ "hedge: too late, after a failure", RACE,
	  { { 0, 10, -EIO }, { 60, 500, 0 } }, 2,
	  100, -ETIMEDOUT, 100, { { -EIO, 0 }, { -ECANCELED, 10 } } },
	{ "hedge: in time", RACE,
	  { { 0, 500, 0 }, { 60, 30, 0 } }, 2,
	  100, 1, 90, { { -ECANCELED, 0 }, { 0, 60 } } },
	{ "race: of one", RACE,
	  { { 0, 10, 3 } }, 1,
	  0, 0, 10, { { 3, 0 } } },
	{ "race: of none", RACE,
	  { { 0, 0, 0 } }, 0,
	  0, -ENOENT, 0, { { 0, NEVER } } },
	{ "race: the deadline had passed", RACE,
	  { { 0, 10, -EIO }, { 0, 10, 0 } }, 2,
	  NEVER, -ETIMEDOUT, 0, { { -ECANCELED, NEVER }, { -ECANCELED, NEVER } } },
	{ "all", ALL,
	  { { 0, 10, 3 }, { 20, 10, 4 }, { 20, 0, 0 } }, 3,
	  0, 0, 30, { { 3, 0 }, { 4, 20 }, { 0, 20 } } },
	{ "all: a failure ends nothing, and starts nothing early", ALL,
	  { { 0, 10, -EIO }, { 20, 30, 4 }, { 40, 0, -EPIPE } }, 3,
	  0, -EIO, 50, { { -EIO, 0 }, { 4, 20 }, { -EPIPE, 40 } } },
	{ "all: too late", ALL,
	  { { 0, 10, -EIO }, { 20, 500, 4 }, { 400, 0, 0 } }, 3,
	  100, -ETIMEDOUT, 100, { { -EIO, 0 }, { -ECANCELED, 20 }, { -ECANCELED, NEVER } } },
	{ "all: none", ALL,
	  { { 0, 0, 0 } }, 0,
	  0, 0, 0, { { 0, NEVER } } },
	{ "first failure", LEAT_SCOPE_FIRST_FAILURE,
	  { { 0, 10, 3 }, { 0, 500, 4 }, { 20, 10, -EIO }, { 40, 0, 0 } }, 4,
	  0, -EIO, 30,
	  { { 3, 0 }, { -ECANCELED, 0 }, { -EIO, 20 }, { -ECANCELED, NEVER } } },
	{ "branches", LEAT_SCOPE_BRANCHES,
	  { { 0, 10, -EIO }, { 20, 10, 4 } }, 2,
	  0, 0, 30, { { -EIO, 0 }, { 4, 20 } } },
};
/* clang-format on */

static int
run_case(const struct race_case *c, struct leat_task_branch *b)
{
	switch (c->policy) {
	case LEAT_SCOPE_FIRST_SUCCESS:
		return leat_task_race(b, c->n);
	case LEAT_SCOPE_ALL:
		return leat_task_all(b, c->n);
	case LEAT_SCOPE_BRANCHES:
	case LEAT_SCOPE_FIRST_FAILURE:
		break;
	}
	return leat_task_run(c->policy, b, c->n);
}

static void
check_case(const struct race_case *c)
{
	struct leat_task_branch b[BRANCHES];
	struct plan plan[BRANCHES];
	unsigned int i;
	uint64_t took;
	int ret;

	print_message("%s\n", c->name);
	memset(b, 0, sizeof(b));
	memset(plan, 0, sizeof(plan));
	for (i = 0; i < c->n; i++) {
		plan[i] = (struct plan){ c->in[i].us, c->in[i].ret, NEVER, NEVER };
		b[i] = (struct leat_task_branch){
			.fn = runs, .arg = &plan[i], .after_us = c->in[i].after_us, .ret = 99
		};
	}
	epoch = test_clock;
	if (c->within == 0)
		ret = run_case(c, b);
	else
		ret = leat_task_within(c->within != NEVER ? c->within : 0, run_case(c, b));
	took = us_now();
	assert_int_equal(ret, c->ret);
	for (i = 0; i < c->n; i++) {
		assert_int_equal(b[i].ret, c->out[i].ret);
		if (c->out[i].begun == NEVER)
			assert_true(plan[i].begun == NEVER);
		else
			assert_in_range(plan[i].begun, c->out[i].begun, c->out[i].begun + 4);
		/* All functions have ended. */
		assert_true((plan[i].begun == NEVER) == (plan[i].ended == NEVER));
	}
	assert_in_range(took, c->took, c->took + 10);
	assert_false(leat_task_cancelled());
}

static int
all_cases(void *arg)
{
	unsigned int i;

	(void)arg;
	for (i = 0; i < RTE_DIM(cases); i++)
		check_case(&cases[i]);
	return 0;
}

RULE(test_cases, all_cases)

/* ---- refused ---- */

static void
check_refused(struct leat_task_branch *b, unsigned int n, int err)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		b[i].ret = 99;
	assert_int_equal(leat_task_race(b, n), err);
	for (i = 0; i < n; i++)
		assert_int_equal(b[i].ret, -ECANCELED);
}

static int
refused(void *arg)
{
	struct plan p = { .begun = NEVER };
	struct leat_task_branch b[] = { { .fn = runs, .arg = &p, .after_us = 20 },
					{ .fn = runs, .arg = &p, .after_us = 10 } };

	(void)arg;
	check_refused(b, 2, -EINVAL);
	b[0].after_us = 0;
	b[1].fn = NULL;
	check_refused(b, 2, -EINVAL);
	b[1].fn = runs;
	assert_int_equal(leat_task_run((enum leat_scope_policy)4, b, 2), -EINVAL);
	assert_true(p.begun == NEVER);
	assert_int_equal(leat_task_race(b, 2), 0);
	return 0;
}

RULE(test_refused, refused)

static void
test_not_in_a_task(void **state)
{
	struct plan p = { .begun = NEVER };
	struct leat_task_branch b = { .fn = runs, .arg = &p };

	(void)state;
	check_refused(&b, 1, -EPERM);
	assert_true(p.begun == NEVER);
}

/* ---- no room for a task ---- */

static int
sleeps(void *arg)
{
	(void)arg;
	return leat_task_sleep(LONG_US);
}

/* max_tasks leaves room for one branch only. */
static int
no_room(void *arg)
{
	struct plan p[3] = { { .us = 20, .ret = 5 }, { .us = 5 }, { .us = 1, .ret = 6 } };
	struct leat_task_branch b[3];
	unsigned int i;

	(void)arg;
	for (i = 0; i < 3; i++)
		b[i] = (struct leat_task_branch){ .fn = runs, .arg = &p[i] };
	/* The race goes on with the function that could be started. */
	assert_int_equal(leat_task_race(b, 3), 0);
	assert_int_equal(b[0].ret, 5);
	assert_int_equal(b[1].ret, -ENOMEM);
	assert_int_equal(b[2].ret, -ENOMEM);
	/* A branch that is due later has no room, either. */
	b[1].after_us = b[2].after_us = 10;
	assert_int_equal(leat_task_race(b, 3), 0);
	assert_int_equal(b[1].ret, -ENOMEM);
	/* The only function that was started fails, so none can succeed any more. */
	p[0].ret = -EIO;
	assert_int_equal(leat_task_race(b, 3), -ENOMEM);
	assert_int_equal(b[0].ret, -EIO);
	/* leat_task_all() fails if one function can't be started. */
	p[0].ret = 5;
	assert_int_equal(leat_task_all(b, 3), -ENOMEM);
	assert_int_equal(b[0].ret, -ECANCELED);
	assert_int_equal(b[1].ret, -ENOMEM);
	assert_int_equal(b[2].ret, -ECANCELED);
	b[1].after_us = b[2].after_us = 0;
	assert_int_equal(leat_task_all(b, 3), -ENOMEM);
	return 0;
}

static int
no_room_for_any(void *arg)
{
	struct leat_task_branch b[2] = { { .fn = sleeps }, { .fn = sleeps, .after_us = 5 } };

	(void)arg;
	assert_int_equal(leat_task_race(b, 2), -ENOMEM);
	assert_int_equal(leat_task_all(b, 2), -ENOMEM);
	b[0].after_us = 5;
	assert_int_equal(leat_task_race(b, 2), -ENOMEM);
	assert_int_equal(b[0].ret, -ENOMEM);
	assert_int_equal(b[1].ret, -ENOMEM);
	assert_int_equal(leat_task_all(b, 2), -ENOMEM);
	return 0;
}

static void
test_no_room(void **state)
{
	struct leat_tasks_conf conf = { .max_tasks = 2 };
	struct task_test t;

	(void)state;
	task_test_begin(&t, &conf);
	assert_int_equal(task_test_join(&t, task_test_spawn(&t, "main", no_room, NULL)), 0);
	task_test_end(&t);
	conf.max_tasks = 1;
	task_test_begin(&t, &conf);
	assert_int_equal(task_test_join(&t, task_test_spawn(&t, "main", no_room_for_any, NULL)), 0);
	task_test_end(&t);
}

/* ---- cancelled from outside ---- */

struct outside {
	uint64_t after_us; /* due time of p[1], us; its low byte alone is that of p[0] */
	struct plan p[2];
	struct leat_task_branch b[2];
	int ret;
};

static int
race_of_two(void *arg)
{
	struct outside *o = arg;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		o->p[i] = (struct plan){ .us = LONG_US, .begun = NEVER };
		o->b[i] = (struct leat_task_branch){ .fn = runs, .arg = &o->p[i] };
	}
	o->b[0].after_us = o->after_us & 0xff;
	o->b[1].after_us = o->after_us;
	o->ret = leat_task_race(o->b, 2);
	return 0;
}

static int
cancelled(void *arg)
{
	/* What has begun before the cancel: p[0] and p[1]; p[0] alone; neither. */
	static const uint64_t after_us[] = { 0, 0x10000, 0x10080 };
	unsigned int i, j, in_scope;

	(void)arg;
	for (i = 0; i < 2 * RTE_DIM(after_us); i++) {
		struct outside o = { .after_us = after_us[i / 2] };
		struct leat_task *t = NULL;
		struct canceller c;
		struct leat_scope s;

		in_scope = i & 1;
		leat_scope_init(&s);
		if (in_scope != 0) {
			leat_scope_branch(&s, "race", race_of_two, &o, NULL);
			canceller_start(&s, &c, NULL);
			assert_int_equal(leat_scope_wait(&s), 0);
			assert_int_equal(c.result, 0);
		} else {
			t = leat_task_spawn(leat_tasks_self(), "race", race_of_two, &o);
			assert_int_equal(leat_task_yield(), 0);
			assert_int_equal(leat_task_cancel(t), 0);
			assert_int_equal(leat_task_join(t, NULL), 0);
		}
		assert_int_equal(o.ret, -ECANCELED);
		for (j = 0; j < 2; j++)
			assert_int_equal(o.b[j].ret, -ECANCELED);
		assert_true((o.p[0].begun == NEVER) == (i >= 4));
		assert_true((o.p[1].begun == NEVER) == (i >= 2));
	}
	return 0;
}

RULE(test_cancelled, cancelled)

/* The stop cancels the branch of p[0] before its parent: the branch's end must not start p[1]. */
static void
test_stop(void **state)
{
	struct outside o = { .after_us = 0x10000 };
	struct task_test t;
	struct leat_task *filler, *task;

	(void)state;
	task_test_begin(&t, NULL);
	/* The branch gets the filler's block, which comes before that of its parent. */
	filler = task_test_spawn(&t, "filler", sleeps, NULL);
	task = task_test_spawn(&t, "race", race_of_two, &o);
	assert_int_equal(leat_task_cancel(filler), 0);
	assert_int_equal(leat_task_detach(filler), 0);
	test_turns(t.r, 3);
	assert_true(o.p[1].begun == NEVER);
	leat_reactor_stop(t.r, 1000);
	assert_int_equal(test_turns_until_stopped(t.r), -ESHUTDOWN);
	assert_int_equal(leat_task_join(task, NULL), 0);
	assert_int_equal(o.ret, -ECANCELED);
	assert_true(o.p[1].begun == NEVER);
	task_test_end(&t);
}

/* ---- many ---- */

#define MANY 900

static int
many(void *arg)
{
	static struct leat_task_branch b[MANY];
	static struct plan p[MANY];
	unsigned int i;

	(void)arg;
	for (i = 0; i < MANY; i++) {
		p[i] = (struct plan){ .us = 10, .ret = (int)i, .begun = NEVER };
		b[i] = (struct leat_task_branch){ .fn = runs, .arg = &p[i], .after_us = i / 10 };
	}
	epoch = test_clock;
	assert_int_equal(leat_task_all(b, MANY), 0);
	for (i = 0; i < MANY; i++) {
		assert_int_equal(b[i].ret, i);
		assert_in_range(p[i].begun, i / 10, i / 10 + 20);
	}
	for (i = 0; i < MANY; i++)
		p[i].ret = -EIO;
	p[MANY - 1].ret = 0;
	assert_int_equal(leat_task_race(b, MANY), MANY - 1);
	return 0;
}

RULE(test_many, many)

/* A race whose functions are races. */
static int
inner_race(void *arg)
{
	struct plan *p = arg;
	struct leat_task_branch b[2] = { { .fn = runs, .arg = &p[0] },
					 { .fn = runs, .arg = &p[1], .after_us = 5 } };

	return leat_task_race(b, 2);
}

static int
nested(void *arg)
{
	struct plan p[2][2] = { { { .us = 300 }, { .us = 300, .begun = NEVER } },
				{ { .us = 300 }, { .us = 10, .begun = NEVER } } };
	struct leat_task_branch b[2] = { { .fn = inner_race, .arg = p[0] },
					 { .fn = inner_race, .arg = p[1] } };

	(void)arg;
	epoch = test_clock;
	assert_int_equal(leat_task_race(b, 2), 1);
	assert_int_equal(b[0].ret, -ECANCELED);
	assert_int_equal(b[1].ret, 1);
	assert_in_range(p[0][1].begun, 5, 9);
	assert_in_range(us_now(), 15, 30);
	return 0;
}

RULE(test_nested, nested)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_cases),   TEST(test_refused),	  TEST(test_not_in_a_task),
		TEST(test_no_room), TEST(test_cancelled), TEST(test_stop),
		TEST(test_many),    TEST(test_nested),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
