/* SPDX-License-Identifier: BSD-3-Clause */

#include <rte_common.h>

#include "reactor_test.h"

static void
test_create_refuses(void **state)
{
	/* Configurations that are refused, and a word of the error message. */
	const struct {
		struct leat_reactor_conf conf;
		const char *word;
	} cases[] = {
		{ { .housekeeping_turns = 65537 }, "housekeeping_turns" },
		{ { .housekeeping_us = 1000001 }, "housekeeping_us" },
		{ { .events_us = 1000001 }, "events_us" },
		{ { .messages = (1 << 20) + 1 }, "messages" },
		{ { .idle.policy = LEAT_IDLE_POLICIES }, "policy" },
		{ { .idle = { .sleep_min_us = 5, .sleep_max_us = 4 } }, "sleep" },
		{ { .idle.sleep_max_us = 1000001 }, "sleep" },
	};
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(cases); i++) {
		rte_errno = 0;
		assert_null(leat_reactor_create(&cases[i].conf));
		assert_int_equal(rte_errno, EINVAL);
		assert_non_null(strstr(leat_err_msg(), cases[i].word));
	}
	assert_int_equal(leat_reactor_destroy(NULL), 0);
}

static void
test_ids_and_names(void **state)
{
	struct leat_reactor *r[LEAT_REACTOR_MAX], *again;
	struct leat_reactor_conf odd = { .name = "a \"b\"\\\n" };
	unsigned int i;

	(void)state;
	for (i = 0; i < LEAT_REACTOR_MAX; i++) {
		char name[32];

		r[i] = leat_reactor_create(NULL);
		assert_non_null(r[i]);
		assert_int_equal(leat_reactor_id(r[i]), i);
		snprintf(name, sizeof(name), "reactor%u", i);
		assert_string_equal(leat_reactor_name(r[i]), name);
	}
	assert_null(leat_reactor_create(NULL));
	assert_int_equal(rte_errno, ENOSPC);

	assert_int_equal(leat_reactor_destroy(r[7]), 0);
	again = leat_reactor_create(&odd);
	assert_non_null(again);
	assert_int_equal(leat_reactor_id(again), 7);
	assert_string_equal(leat_reactor_name(again), "a__b___");
	r[7] = again;
	for (i = 0; i < LEAT_REACTOR_MAX; i++)
		assert_int_equal(leat_reactor_destroy(r[i]), 0);
}

static void
test_turn_calls_all(void **state)
{
	struct leat_reactor *r = test_reactor("r");
	struct test_poller a = { .ret = 0, .cost = 10 }, b = { .ret = 0 };

	(void)state;
	test_poller_add(r, &a, "a", 0);
	test_poller_add(r, &b, "b", 0);
	assert_int_equal(leat_reactor_state(r), LEAT_REACTOR_READY);
	assert_int_equal(leat_reactor_turn(r), 0);
	assert_int_equal(leat_reactor_state(r), LEAT_REACTOR_RUNNING);
	b.ret = 5;
	assert_int_equal(leat_reactor_turn(r), 1);
	assert_int_equal(a.calls, 2);
	assert_int_equal(b.calls, 2);
	/* All pollers of a turn get the same timestamp. */
	assert_int_equal(a.now, b.now);
	assert_int_equal(a.now, 1000010);
	assert_null(leat_reactor_self());
	assert_int_equal(leat_reactor_destroy(r), 0);
}

static void
test_add_refuses(void **state)
{
	struct leat_reactor_conf conf = { .max_pollers = 2 };
	struct leat_reactor *r = leat_reactor_create(&conf);
	struct test_poller t[3] = { { 0 } };

	(void)state;
	assert_non_null(r);
	assert_null(leat_reactor_poller_add(r, NULL, test_poller_fn, &t[0], 0));
	assert_int_equal(rte_errno, EINVAL);
	assert_null(leat_reactor_poller_add(r, "x", NULL, &t[0], 0));
	assert_int_equal(rte_errno, EINVAL);
	assert_null(leat_reactor_ep_add(r, NULL, NULL, NULL, NULL));
	assert_int_equal(rte_errno, EINVAL);

	test_poller_add(r, &t[0], "0", 0);
	test_poller_add(r, &t[1], "1", 100);
	assert_null(leat_reactor_poller_add(r, "2", test_poller_fn, &t[2], 0));
	assert_int_equal(rte_errno, ENOSPC);
	assert_non_null(strstr(leat_err_msg(), "max_pollers"));
	/* A slot is free again as soon as its poller is removed. */
	assert_int_equal(leat_poller_remove(t[1].p), 0);
	test_poller_add(r, &t[2], "2", 0);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

static void
test_failed(void **state)
{
	struct leat_reactor *r = test_reactor("r");
	struct test_poller a = { .ret = -EIO }, b = { .ret = 0 }, c = { .ret = -ENODEV };

	(void)state;
	test_poller_add(r, &a, "a", 0);
	test_poller_add(r, &b, "b", 0);
	test_poller_add(r, &c, "c", 10);
	assert_int_equal(leat_poller_state(a.p), LEAT_POLLER_WAITING);
	assert_int_equal(leat_poller_error(a.p), 0);
	test_turns(r, 3);
	assert_int_equal(a.calls, 1);
	assert_int_equal(b.calls, 3);
	assert_int_equal(leat_poller_state(a.p), LEAT_POLLER_FAILED);
	assert_int_equal(leat_poller_error(a.p), -EIO);
	assert_int_equal(leat_poller_pause(a.p), -EALREADY);

	test_clock += 10 * US;
	test_turns(r, 2);
	test_clock += 50 * US;
	test_turns(r, 2);
	assert_int_equal(c.calls, 1);
	assert_int_equal(leat_poller_error(c.p), -ENODEV);

	a.ret = c.ret = 0;
	assert_int_equal(leat_poller_resume(a.p), 0);
	assert_int_equal(leat_poller_resume(c.p), 0);
	assert_int_equal(leat_poller_error(a.p), 0);
	test_clock += 10 * US;
	test_turns(r, 2);
	assert_int_equal(a.calls, 3);
	assert_int_equal(c.calls, 2);
	assert_int_equal(leat_poller_state(c.p), LEAT_POLLER_WAITING);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

static void
test_pause_resume(void **state)
{
	struct leat_reactor *r = test_reactor("r");
	struct test_poller t[4] = { { 0 } };
	unsigned int i;

	(void)state;
	for (i = 0; i < 4; i++)
		test_poller_add(r, &t[i], "t", i == 3 ? 20 : 0);
	test_turns(r, 1);
	assert_int_equal(leat_poller_resume(t[1].p), -EALREADY);
	assert_int_equal(leat_poller_pause(t[1].p), 0);
	assert_int_equal(leat_poller_pause(t[1].p), -EALREADY);
	assert_int_equal(leat_poller_pause(t[3].p), 0);
	assert_int_equal(leat_poller_state(t[1].p), LEAT_POLLER_PAUSED);
	for (i = 0; i < 5; i++) {
		test_clock += 20 * US;
		test_turns(r, 1);
	}
	assert_int_equal(t[0].calls, 6);
	assert_int_equal(t[1].calls, 1);
	assert_int_equal(t[2].calls, 6);
	assert_int_equal(t[3].calls, 0);
	assert_int_equal(leat_poller_resume(t[1].p), 0);
	assert_int_equal(leat_poller_resume(t[3].p), 0);
	/* Paused and resumed between two turns: the poller is still called once per turn. */
	assert_int_equal(leat_poller_pause(t[0].p), 0);
	assert_int_equal(leat_poller_resume(t[0].p), 0);
	test_clock += 20 * US;
	test_turns(r, 1);
	for (i = 0; i < 3; i++)
		assert_int_equal(t[i].calls, i == 1 ? 2 : 7);
	assert_int_equal(t[3].calls, 1);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

/* A poller whose callback changes pollers. */
struct meddler {
	struct leat_reactor *r;
	enum { REMOVE, PAUSE, PAUSE_RESUME, FAIL_AND_REMOVE, ADD } what;
	struct leat_poller *victim;
	struct test_poller added;
	unsigned int calls;
	bool running; /* the victim's state in the callback was LEAT_POLLER_RUNNING */
};

static int
meddle(void *arg, uint64_t now)
{
	struct meddler *m = arg;

	(void)now;
	m->calls++;
	assert_ptr_equal(leat_reactor_self(), m->r);
	if (m->calls > 1)
		return 0;
	m->running = leat_poller_state(m->victim) == LEAT_POLLER_RUNNING;
	switch (m->what) {
	case REMOVE:
		assert_int_equal(leat_poller_remove(m->victim), 0);
		break;
	case PAUSE:
		assert_int_equal(leat_poller_pause(m->victim), 0);
		break;
	case PAUSE_RESUME:
		assert_int_equal(leat_poller_pause(m->victim), 0);
		assert_int_equal(leat_poller_resume(m->victim), 0);
		break;
	case FAIL_AND_REMOVE:
		assert_int_equal(leat_poller_remove(m->victim), 0);
		return -EIO;
	case ADD:
		test_poller_add(m->r, &m->added, "added", 0);
		break;
	}
	return 0;
}

/*
 * The meddler is the second of three pollers, which are all called in each turn or all periodic. It
 * acts on the first poller, on itself, or on the third poller.
 */
static void
test_meddling(void **state)
{
	const uint64_t periods[] = { 0, 10 };
	unsigned int p, what, who;

	(void)state;
	for (p = 0; p < RTE_DIM(periods); p++)
		for (what = REMOVE; what <= ADD; what++)
			for (who = 0; who < 3; who++) {
				struct leat_reactor *r = test_reactor("r");
				struct meddler m = { .r = r, .what = what };
				struct test_poller t[2] = { { 0 } };
				struct leat_poller *handle[3];
				bool gone, self = who == 1;
				unsigned int i;

				test_poller_add(r, &t[0], "before", periods[p]);
				handle[0] = t[0].p;
				handle[1] = leat_reactor_poller_add(r, "meddler", meddle, &m,
								    periods[p]);
				assert_non_null(handle[1]);
				test_poller_add(r, &t[1], "after", periods[p]);
				handle[2] = t[1].p;
				m.victim = handle[who];

				for (i = 0; i < 4; i++) {
					test_clock += 10 * US;
					test_turns(r, 1);
				}
				assert_int_equal(m.running, self);
				gone = what != PAUSE_RESUME && what != ADD;
				/*
				 * A poller that failed and was not removed is not called again,
				 * either.
				 */
				assert_int_equal(m.calls,
						 (gone && self) || what == FAIL_AND_REMOVE ? 1 : 4);
				for (i = 0; i < 2; i++) {
					bool hit = gone && who == i * 2;

					/*
					 * Periodic pollers of one slot of the wheel have no order:
					 * a victim may be called before the meddler.
					 */
					if (hit)
						assert_in_range(t[i].calls, 0, 1);
					else if (what == PAUSE_RESUME && who == i * 2 && periods[p])
						assert_in_range(t[i].calls, 3, 4);
					else
						assert_int_equal(t[i].calls, 4);
					if (hit && periods[p] == 0)
						assert_int_equal(t[i].calls, i == 0);
				}
				if (what == ADD)
					assert_int_equal(m.added.calls, 3);
				assert_int_equal(leat_reactor_destroy(r), 0);
			}
}

/* Slots of removed pollers are used again, in a storm of adding and removing. */
static void
test_storm(void **state)
{
	struct leat_reactor *r = test_reactor("r");
	struct test_poller t[40];
	uint64_t seed = 4;
	unsigned int step, i;

	(void)state;
	memset(t, 0, sizeof(t));
	for (step = 0; step < 5000; step++) {
		i = (unsigned int)(test_random(&seed) % RTE_DIM(t));
		if (t[i].p == NULL) {
			test_poller_add(r, &t[i], "t", i % 3 == 0 ? 5 : 0);
		} else {
			assert_int_equal(leat_poller_remove(t[i].p), 0);
			t[i].p = NULL;
		}
		if (step % 3 != 0)
			continue;
		for (i = 0; i < RTE_DIM(t); i++)
			t[i].calls = 0;
		test_clock += 20 * US;
		test_turns(r, 1);
		for (i = 0; i < RTE_DIM(t); i++) {
			if (i % 3 != 0)
				assert_int_equal(t[i].calls, t[i].p != NULL);
			else
				assert_true(t[i].calls <= (t[i].p != NULL));
		}
	}
	assert_int_equal(leat_reactor_destroy(r), 0);
}

static void
test_accounting(void **state)
{
	struct leat_reactor *r = test_reactor("r");
	struct test_poller a = { .ret = 1, .cost = 100 }, b = { .ret = 0, .cost = 40 };
	struct test_poller c = { .ret = 1, .cost = 300 };
	struct leat_reactor_stats s;
	struct leat_poller_stats p;
	uint64_t start = test_clock;

	(void)state;
	test_poller_add(r, &a, "a", 0);
	test_poller_add(r, &b, "b", 0);
	test_poller_add(r, &c, "c", 50);
	test_turns(r, 1280);
	leat_reactor_stats_get(r, &s);
	assert_int_equal(s.turns, 1280);
	leat_poller_stats_get(a.p, &p);
	assert_int_equal(p.runs, 1280);
	assert_int_equal(p.busy_runs, 1280);
	assert_int_equal(p.busy_cycles, 128000);
	assert_int_equal(p.idle_cycles, 0);
	leat_poller_stats_get(b.p, &p);
	assert_int_equal(p.runs, 1280);
	assert_int_equal(p.busy_cycles, 0);
	/* The idle cycles of b are measured in some turns, and estimated for the others. */
	assert_in_range(p.idle_cycles, 1280 * 40 * 7 / 10, 1280 * 40);
	leat_poller_stats_get(c.p, &p);
	assert_true(p.runs > 0);
	assert_int_equal(p.busy_cycles, p.runs * 300);

	/* The reactor's cycles are exact and complete. */
	assert_int_equal(s.busy_cycles, 128000 + p.runs * 300);
	assert_int_equal(s.idle_cycles, 1280 * 40);
	assert_int_equal(s.sleep_cycles, 0);
	assert_int_equal(s.busy_cycles + s.idle_cycles + s.housekeeping_cycles, test_clock - start);
	assert_int_equal(s.turn_max_cycles, 440);
	leat_reactor_turn_max_reset(r);
	test_turns(r, 1);
	leat_reactor_stats_get(r, &s);
	assert_in_range(s.turn_max_cycles, 140, 440);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

/* The time of an idle poller that runs before a busy one is not counted as time of the busy one. */
static void
test_idle_before_busy(void **state)
{
	struct leat_reactor *r = test_reactor("r");
	struct test_poller a = { .ret = 0, .cost = 100 }, b = { .ret = 1, .cost = 1000 };
	struct leat_poller_stats p;
	uint64_t before;

	(void)state;
	test_poller_add(r, &a, "a", 0);
	test_poller_add(r, &b, "b", 0);
	test_turns(r, 64 * 20);
	leat_poller_stats_get(b.p, &p);
	before = p.busy_cycles;
	test_turns(r, 64);
	leat_poller_stats_get(b.p, &p);
	assert_in_range(p.busy_cycles - before, 64 * 1000, 64 * 1004);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

static void
test_period(void **state)
{
	struct leat_reactor *r = test_reactor("r");
	struct test_poller a = { .ret = 0 };
	unsigned int i;

	(void)state;
	test_poller_add(r, &a, "a", 100);
	test_turns(r, 200);
	assert_int_equal(a.calls, 0);
	for (i = 1; i <= 10; i++) {
		test_clock += 99 * US;
		assert_int_equal(leat_reactor_turn(r), 0);
		assert_int_equal(a.calls, i - 1);
		test_clock += 1 * US;
		assert_int_equal(leat_reactor_turn(r), 0);
		assert_int_equal(a.calls, i);
	}
	/* Missed calls are not made up for. */
	test_clock += 1000 * US;
	test_turns(r, 10);
	assert_int_equal(a.calls, 11);
	a.ret = 1;
	test_clock += 100 * US;
	assert_int_equal(leat_reactor_turn(r), 1);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

static void
test_state_names(void **state)
{
	(void)state;
	assert_string_equal(leat_poller_state_name(LEAT_POLLER_UNREGISTERED), "UNREGISTERED");
	assert_string_equal(leat_poller_state_name(LEAT_POLLER_WAITING), "WAITING");
	assert_string_equal(leat_poller_state_name(LEAT_POLLER_RUNNING), "RUNNING");
	assert_string_equal(leat_poller_state_name(LEAT_POLLER_PAUSED), "PAUSED");
	assert_string_equal(leat_poller_state_name(LEAT_POLLER_FAILED), "FAILED");
	assert_string_equal(leat_poller_state_name(99), "?");
}

#define CASE(f) cmocka_unit_test_setup(f, test_clock_setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_create_refuses),   CASE(test_ids_and_names), CASE(test_turn_calls_all),
		CASE(test_add_refuses),	     CASE(test_failed),	       CASE(test_pause_resume),
		CASE(test_meddling),	     CASE(test_storm),	       CASE(test_accounting),
		CASE(test_idle_before_busy), CASE(test_period),	       CASE(test_state_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
