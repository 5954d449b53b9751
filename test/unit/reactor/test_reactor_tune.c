/* SPDX-License-Identifier: BSD-3-Clause */

/* Settings and measurements of reactors, with a clock that stands still. */

#include <rte_common.h>

#include <leat_fabric.h>

#include "mock_driver.h"
#include "poller_tune.h"
#include "reactor_pvt.h"
#include "reactor_test.h"
#include "tune_drive.h"

/* Run a turn with housekeeping. */
static void
serve(struct leat_reactor *r)
{
	test_clock += 1 * MS;
	assert_true(leat_reactor_turn(r) >= 0);
}

static void
test_settings_of_the_program(void **state)
{
	struct leat_reactor_conf conf = { .housekeeping_turns = 100,
					  .messages = 5,
					  .events_us = 7,
					  .idle = { .policy = LEAT_IDLE_SLEEP,
						    .sleep_min_us = 20 } };
	const struct reactor_tune_settings *set;
	struct leat_reactor *r;

	(void)state;
	r = leat_reactor_create(&conf);
	assert_non_null(r);
	set = tune_current(r->tune);
	assert_int_equal(set->idle_policy, REACTOR_TUNE_IDLE_POLICY_SLEEP);
	assert_int_equal(set->spin_us, 50);
	assert_int_equal(set->sleep_min_us, 20);
	assert_int_equal(set->sleep_max_us, 250);
	assert_int_equal(set->housekeeping_turns, 128);
	assert_int_equal(set->housekeeping_us, 20);
	assert_int_equal(set->events_us, 7);
	assert_int_equal(set->messages, 8);
	assert_int_equal(set->max_pollers, 64);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

static void
test_settings_of_a_file(void **state)
{
	struct leat_reactor_conf conf = { .name = "r0", .max_pollers = 8 };
	struct test_poller t[3] = { 0 };
	struct leat_reactor *r;
	unsigned int i;

	(void)state;
	tune_file_begin("reactor.r0.max_pollers = 2\n"
			"reactor.*.messages = 3\n"
			"reactor.r0.idle_policy = pause\n"
			"reactor.other.events_us = 77\n");
	r = leat_reactor_create(&conf);
	assert_non_null(r);
	assert_int_equal(r->set.max_pollers, 2);
	assert_int_equal(r->set.messages, 4);
	assert_int_equal(r->set.events_us, 1000);
	for (i = 0; i < 2; i++)
		test_poller_add(r, &t[i], "p", 0);
	assert_null(leat_reactor_poller_add(r, "p", test_poller_fn, &t[2], 0));
	test_turns(r, 1);
	assert_int_equal(leat_reactor_idle_effective(r), LEAT_IDLE_PAUSE);
	assert_int_equal(leat_reactor_destroy(r), 0);
	tune_file_end();
}

static void
test_changes(void **state)
{
	struct leat_reactor *r = test_reactor("r");
	struct leat_idle_conf idle;

	(void)state;
	test_turns(r, 1);
	assert_int_equal(tune_ask(r->tune, "idle_policy", "pause", "spin_us", "9", NULL), 0);
	serve(r);
	assert_int_equal(tune_answer(r->tune), 0);
	leat_reactor_idle_get(r, &idle);
	assert_int_equal(idle.policy, LEAT_IDLE_PAUSE);
	assert_int_equal(idle.spin_us, 9);
	assert_int_equal(leat_reactor_idle_effective(r), LEAT_IDLE_PAUSE);

	/* housekeeping_turns is rounded to a power of 2. */
	assert_int_equal(tune_ask(r->tune, "housekeeping_turns", "1000", "housekeeping_us",
				  "1000000", NULL),
			 0);
	serve(r);
	assert_int_equal(tune_answer(r->tune), 0);
	assert_int_equal(r->set.housekeeping_turns, 1024);
	assert_int_equal(r->hk_mask, 1023);

	assert_int_equal(tune_ask(r->tune, "sleep_min_us", "30", "sleep_max_us", "40", NULL), 0);
	reactor_attn_kick(r->attn);
	test_turns(r, 1);
	assert_int_equal(tune_answer(r->tune), 0);
	leat_reactor_idle_get(r, &idle);
	assert_int_equal(idle.sleep_min_us, 30);
	assert_int_equal(idle.sleep_max_us, 40);

	assert_int_equal(tune_ask(r->tune, "sleep_min_us", "30", NULL), -EINVAL);
	assert_int_equal(tune_ask(r->tune, "sleep_min_us", "41", "sleep_max_us", "40", NULL),
			 -EINVAL);
	assert_int_equal(tune_ask(r->tune, "max_pollers", "3", NULL), -EPERM);
	assert_int_equal(tune_ask(r->tune, "ep_burst", "33", NULL), -ERANGE);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

/*
 * leat_reactor_idle_set() shows in the settings. An agent's change of a different setting,
 * requested before leat_reactor_idle_set() and served after it, does not undo it.
 */
static void
test_idle_set_shows(void **state)
{
	struct leat_idle_conf idle = { .policy = LEAT_IDLE_PAUSE, .spin_us = 3 };
	const struct reactor_tune_settings *set;
	struct leat_reactor *r = test_reactor("r");

	(void)state;
	test_turns(r, 1);
	assert_int_equal(leat_reactor_idle_set(r, &idle), 0);
	test_turns(r, 1);
	set = tune_current(r->tune);
	assert_int_equal(set->idle_policy, REACTOR_TUNE_IDLE_POLICY_PAUSE);
	assert_int_equal(set->spin_us, 3);

	assert_int_equal(tune_ask(r->tune, "events_us", "500", NULL), 0);
	idle.spin_us = 4;
	assert_int_equal(leat_reactor_idle_set(r, &idle), 0);
	serve(r);
	assert_int_equal(tune_answer(r->tune), 0);
	assert_int_equal(r->set.events_us, 500);
	assert_int_equal(r->set.spin_us, 4);
	leat_reactor_idle_get(r, &idle);
	assert_int_equal(idle.spin_us, 4);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

struct app {
	struct leat_ep *ep;
	struct leat_reactor *r;
	struct leat_poller *p;
	unsigned int calls, nb_ops, remove_after;
};

#define OPS 100

static struct leat_op ops[OPS];

static void
on_ops(void *arg, struct leat_ep *ep, struct leat_op **done, uint16_t n, uint64_t now)
{
	struct app *a = arg;

	(void)done;
	(void)now;
	a->calls++;
	a->nb_ops += n;
	if (a->calls != a->remove_after)
		return;
	assert_int_equal(leat_poller_remove(a->p), 0);
	assert_int_equal(leat_ep_close(ep, 0, NULL, NULL), 0);
	a->ep = NULL;
}

static void
app_init(struct app *a)
{
	struct leat_ep_conf conf = { .rx_depth = OPS };
	unsigned int i;

	memset(a, 0, sizeof(*a));
	memset(ops, 0, sizeof(ops));
	a->r = test_reactor("r");
	a->ep = leat_ep_create(leat_dev_get(0), &conf);
	assert_non_null(a->ep);
	a->p = leat_reactor_ep_add(a->r, a->ep, on_ops, NULL, a);
	assert_non_null(a->p);
	for (i = 0; i < OPS; i++) {
		struct leat_op *op = &ops[i];

		op->type = LEAT_OP_RECV;
		op->peer = LEAT_PEER_ANY;
		assert_int_equal(leat_ep_post(a->ep, &op, 1), 1);
	}
	test_turns(a->r, 1);
}

static void
complete(unsigned int n)
{
	while (n-- > 0)
		mock_finish(mock.ep, 0, 0, 8);
}

static void
app_end(struct app *a)
{
	assert_int_equal(leat_reactor_destroy(a->r), 0);
	if (a->ep != NULL)
		assert_int_equal(leat_ep_close(a->ep, 0, NULL, NULL), 0);
}

static void
test_bursts(void **state)
{
	struct app a;

	(void)state;
	app_init(&a);
	assert_int_equal(tune_ask(a.r->tune, "ep_burst", "10", "ep_budget", "3", NULL), 0);
	serve(a.r);
	assert_int_equal(tune_answer(a.r->tune), 0);
	complete(47);
	assert_int_equal(leat_reactor_turn(a.r), 1);
	assert_int_equal(a.calls, 3);
	assert_int_equal(a.nb_ops, 30);
	/* The second burst of this turn has 7 ops, less than ep_burst: no third one is polled. */
	assert_int_equal(leat_reactor_turn(a.r), 1);
	assert_int_equal(a.calls, 5);
	assert_int_equal(a.nb_ops, 47);
	/* A full burst with nothing after it is one call. */
	complete(10);
	assert_int_equal(leat_reactor_turn(a.r), 1);
	assert_int_equal(a.calls, 6);
	assert_int_equal(leat_reactor_turn(a.r), 0);
	app_end(&a);

	/* The endpoint is closed after its second burst. */
	app_init(&a);
	assert_int_equal(tune_ask(a.r->tune, "ep_burst", "10", "ep_budget", "16", NULL), 0);
	serve(a.r);
	assert_int_equal(tune_answer(a.r->tune), 0);
	complete(OPS);
	a.remove_after = 2;
	assert_int_equal(leat_reactor_turn(a.r), 1);
	assert_int_equal(a.calls, 2);
	assert_int_equal(a.nb_ops, 20);
	assert_null(a.ep);
	app_end(&a);
}

/* When events_us is shortened, the next look at events does not wait for the old interval. */
static void
test_events_interval(void **state)
{
	struct app a;
	unsigned int i, before;

	(void)state;
	app_init(&a);
	assert_int_equal(tune_ask(a.r->tune, "events_us", "1000000", NULL), 0);
	serve(a.r);
	assert_int_equal(tune_answer(a.r->tune), 0);
	test_turns(a.r, 1);
	before = mock.nb_progress;
	for (i = 0; i < 100; i++)
		serve(a.r);
	assert_int_equal(mock.nb_progress, before);
	assert_int_equal(leat_reactor_events_us(a.r), 1000000);

	assert_int_equal(tune_ask(a.r->tune, "events_us", "2000", NULL), 0);
	for (i = 0; i < 100; i++)
		serve(a.r);
	assert_int_equal(tune_answer(a.r->tune), 0);
	assert_in_range(mock.nb_progress - before, 49, 52);
	app_end(&a);
}

static struct {
	struct leat_reactor *r;
	struct reactor_tune_report first, second, asleep;
	bool look;
} hung;

/* A poller that takes a second. The reports are read here as another thread might read them. */
static int
hang(void *arg, uint64_t now)
{
	(void)arg;
	(void)now;
	if (!hung.look)
		return 0;
	hung.look = false;
	tune_report(hung.r->tune, &hung.first);
	test_clock += 1000 * MS;
	tune_report(hung.r->tune, &hung.second);
	RLX_STORE(hung.r->attn->word, ATTN_ASLEEP);
	tune_report(hung.r->tune, &hung.asleep);
	RLX_STORE(hung.r->attn->word, ATTN_NONE);
	return 1;
}

static void
test_report(void **state)
{
	struct reactor_tune_report rep;

	(void)state;
	memset(&hung, 0, sizeof(hung));
	hung.r = test_reactor("r");
	assert_non_null(leat_reactor_poller_add(hung.r, "stuck", hang, NULL, 0));
	tune_report(hung.r->tune, &rep);
	assert_int_equal(rep.state, REACTOR_TUNE_STATE_READY);
	assert_int_equal(rep.pollers, 1);
	assert_string_equal(rep.running, "nothing");
	test_turns(hung.r, 10);
	tune_report(hung.r->tune, &rep);
	assert_int_equal(rep.turns, 10);
	assert_int_equal(rep.state, REACTOR_TUNE_STATE_RUNNING);
	assert_int_equal(rep.idle_effective, REACTOR_TUNE_IDLE_EFFECTIVE_SPIN);
	/* The time between two turns of the program's own loop is not counted as a stall. */
	test_clock += 1000 * MS;
	tune_report(hung.r->tune, &rep);
	assert_int_equal(rep.stalled_ns, 0);
	test_turns(hung.r, 1);

	hung.look = true;
	test_turns(hung.r, 1);
	assert_string_equal(hung.first.running, "poller stuck");
	assert_int_equal(hung.first.stalled_ns, 0);
	assert_string_equal(hung.second.running, "poller stuck");
	assert_int_equal(hung.second.stalled_ns, leat_cycles_to_ns(1000 * MS));
	assert_int_equal(hung.asleep.stalled_ns, 0);
	tune_report(hung.r->tune, &rep);
	assert_int_equal(rep.busy_ns, leat_cycles_to_ns(1000 * MS));
	assert_int_equal(rep.turn_max_ns, leat_cycles_to_ns(1000 * MS));
	assert_int_equal(leat_reactor_destroy(hung.r), 0);
}

static void
test_rows(void **state)
{
	struct leat_reactor *r = test_reactor("r");
	char name[LEAT_TUNE_OBJECT_NAME_MAX];
	struct test_poller a = { .ret = 1, .cost = 1 * US }, b = { .ret = 0 };
	struct poller_tune_report rep;

	(void)state;
	test_poller_add(r, &a, "a", 0);
	test_poller_add(r, &b, "b", 0);
	test_turns(r, 10);
	assert_int_equal(tune_row(r->tune, 0, name, &rep), 1);
	assert_string_equal(name, "a");
	assert_int_equal(rep.runs, 10);
	assert_int_equal(rep.busy_runs, 10);
	assert_int_equal(rep.busy_ns, leat_cycles_to_ns(10 * US));
	assert_int_equal(rep.state, POLLER_TUNE_STATE_WAITING);
	assert_false(rep.endpoint);
	assert_int_equal(leat_poller_pause(b.p), 0);
	assert_int_equal(tune_row(r->tune, 1, name, &rep), 1);
	assert_string_equal(name, "b");
	assert_int_equal(rep.state, POLLER_TUNE_STATE_PAUSED);
	assert_int_equal(leat_poller_remove(a.p), 0);
	assert_int_equal(tune_row(r->tune, 0, name, &rep), 0);
	assert_int_equal(tune_row(r->tune, 63, name, &rep), 0);
	assert_int_equal(tune_row(r->tune, 64, name, &rep), -1);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_settings_of_the_program, test_clock_setup),
		cmocka_unit_test_setup(test_settings_of_a_file, test_clock_setup),
		cmocka_unit_test_setup(test_changes, test_clock_setup),
		cmocka_unit_test_setup(test_idle_set_shows, test_clock_setup),
		cmocka_unit_test_setup(test_bursts, test_clock_setup),
		cmocka_unit_test_setup(test_events_interval, test_clock_setup),
		cmocka_unit_test_setup(test_report, test_clock_setup),
		cmocka_unit_test_setup(test_rows, test_clock_setup),
	};

	return cmocka_run_group_tests(tests, test_mock_start, test_mock_stop);
}
