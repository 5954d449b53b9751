/* SPDX-License-Identifier: BSD-3-Clause */

/* The telemetry commands, asked as dpdk-telemetry.py asks them: over the process's UNIX socket. */

#include <pthread.h>
#include <sched.h>

#include <leat_fabric.h>

#include "reactor_test.h"
#include "telemetry_client.h"

static int sock = -1;

static const char *
ask(const char *cmd)
{
	return telemetry_ask(sock, cmd);
}

/*
 * Find the key with this value after `at`; if it is missing, print what is there instead.
 * @return its place, or NULL
 */
static const char *
find(const char *at, const char *key, const char *value)
{
	const char *found = telemetry_find(at, key, value);

	if (found == NULL)
		print_message("no %s: %s in %s\n", key, value, at);
	return found;
}

static void
test_list(void **state)
{
	struct leat_reactor *a, *b;

	(void)state;
	a = test_reactor("first");
	b = test_reactor("second");
	assert_non_null(find(ask("/leat/reactors"), "0", "\"first\""));
	assert_non_null(find(ask("/leat/reactors"), "1", "\"second\""));
	assert_int_equal(leat_reactor_destroy(a), 0);
	assert_null(find(ask("/leat/reactors"), "0", "\"first\""));
	assert_non_null(find(ask("/leat/reactors"), "1", "\"second\""));
	assert_int_equal(leat_reactor_destroy(b), 0);
}

static void
on_timer(struct leat_timer *timer, void *arg, uint64_t now)
{
	(void)timer;
	(void)arg;
	(void)now;
}

static void
nothing(void *arg)
{
	(void)arg;
}

static void
test_reactor_answer(void **state)
{
	struct leat_reactor *r = test_reactor("main");
	struct test_poller a = { .ret = 1, .cost = 100 }, b = { .ret = -EIO }, c = { 0 };
	struct leat_timer timer;
	const char *s, *p;

	(void)state;
	test_poller_add(r, &a, "busy", 0);
	test_poller_add(r, &b, "bad", 0);
	test_poller_add(r, &c, "slow", 250);
	assert_int_equal(leat_poller_pause(c.p), 0);
	leat_timer_init(&timer, on_timer, NULL);
	leat_timer_start(r, &timer, 1000);
	test_turns(r, 10);
	assert_int_equal(leat_reactor_call(r, nothing, NULL), 0);

	s = ask("/leat/reactor,0");
	assert_non_null(find(s, "id", "0"));
	assert_non_null(find(s, "name", "\"main\""));
	assert_non_null(find(s, "state", "\"RUNNING\""));
	assert_non_null(find(s, "idle_policy", "\"spin\""));
	assert_non_null(find(s, "idle_effective", "\"spin\""));
	assert_non_null(find(s, "hz", "1000000000"));
	assert_non_null(find(s, "turns", "10"));
	assert_non_null(find(s, "busy_cycles", "1000"));
	assert_non_null(find(s, "turn_max_ns", "100"));
	assert_non_null(find(s, "messages_waiting", "1"));
	assert_non_null(find(s, "timers_active", "1"));
	assert_non_null(find(s, "nb_pollers", "3"));
	p = find(s, "name", "\"busy\"");
	assert_non_null(p);
	assert_non_null(find(p, "state", "\"WAITING\""));
	assert_non_null(find(p, "runs", "10"));
	p = find(s, "name", "\"bad\"");
	assert_non_null(p);
	assert_non_null(find(p, "state", "\"FAILED\""));
	assert_non_null(find(p, "error", "-5"));
	p = find(s, "name", "\"slow\"");
	assert_non_null(p);
	assert_non_null(find(p, "state", "\"PAUSED\""));
	assert_non_null(find(p, "period_us", "250"));

	s = ask("/leat/reactor,0,2");
	assert_null(find(s, "name", "\"busy\""));
	assert_non_null(find(s, "name", "\"slow\""));
	s = ask("/leat/reactor,0,3");
	assert_null(strstr(s, "\"pollers\""));
	assert_int_equal(leat_reactor_destroy(r), 0);
}

static void
test_bad_questions(void **state)
{
	static const char *const bad[] = {
		"/leat/reactor",
		"/leat/reactor,",
		"/leat/reactor,x",
		"/leat/reactor,0x",
		"/leat/reactor,-1",
		"/leat/reactor,1",
		"/leat/reactor,0,",
		"/leat/reactor,0,1,2",
		"/leat/reactor,0,99999",
		"/leat/reactor,128",
		"/leat/reactor,18446744073709551616",
	};
	struct leat_reactor *r = test_reactor("r");
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(bad); i++)
		assert_non_null(strstr(ask(bad[i]), "null"));
	assert_null(strstr(ask("/leat/reactor,0"), "null"));
	assert_int_equal(leat_reactor_destroy(r), 0);
}

/* As many pollers as possible: the answer stays complete, and all pollers can be asked for. */
static void
test_many_pollers(void **state)
{
	struct leat_reactor_conf conf = { .max_pollers = 200, .idle.policy = LEAT_IDLE_SPIN };
	struct leat_reactor *r = leat_reactor_create(&conf);
	struct test_poller t[200];
	const char *s;
	unsigned int i;

	(void)state;
	assert_non_null(r);
	memset(t, 0, sizeof(t));
	for (i = 0; i < 200; i++)
		test_poller_add(r, &t[i], "a-rather-long-name-for-a-poller", 0);
	test_turns(r, 1);
	for (i = 0; i < 200; i += 40) {
		char cmd[64], last[16];

		snprintf(cmd, sizeof(cmd), "/leat/reactor,0,%u", i);
		snprintf(last, sizeof(last), "%u", i + 39);
		s = ask(cmd);
		assert_non_null(find(s, "nb_pollers", "200"));
		assert_non_null(find(s, last, "{"));
		assert_string_equal(s + strlen(s) - 4, "}}}}");
	}
	assert_int_equal(leat_reactor_destroy(r), 0);
}

static uint32_t over;

static void *
asker(void *arg)
{
	unsigned int *answers = arg;

	while (__atomic_load_n(&over, __ATOMIC_ACQUIRE) == 0) {
		if (strstr(ask("/leat/reactor,0"), "\"turns\"") != NULL)
			__atomic_fetch_add(answers, 1, __ATOMIC_RELAXED);
		(void)ask("/leat/reactors");
	}
	return NULL;
}

/* Telemetry is asked all the time while pollers, and the reactor itself, come and go. */
static void
test_while_changing(void **state)
{
	unsigned int answers = 0, i, j;
	struct test_poller t[8];
	pthread_t thread;

	(void)state;
	memset(t, 0, sizeof(t));
	over = 0;
	assert_int_equal(pthread_create(&thread, NULL, asker, &answers), 0);
	/* Go on until there were some answers: the other thread may have got no time so far. */
	for (i = 0; i < 200 || __atomic_load_n(&answers, __ATOMIC_RELAXED) < 10; i++) {
		struct leat_reactor *r = test_reactor("r");

		for (j = 0; j < 50; j++) {
			struct test_poller *p = &t[j % RTE_DIM(t)];

			if (j >= RTE_DIM(t))
				assert_int_equal(leat_poller_remove(p->p), 0);
			test_poller_add(r, p, "p", j % 2 * 10);
			test_turns(r, 2);
			(void)sched_yield();
		}
		assert_int_equal(leat_reactor_destroy(r), 0);
	}
	__atomic_store_n(&over, 1, __ATOMIC_RELEASE);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static int
setup(void **state)
{
	static char prog[] = "test_telemetry", nopci[] = "--no-pci", l[] = "-l", zero[] = "0";
	/* The control thread reads the clock, which the tests advance without synchronization. */
	static char notune[] = "--no-tune";
	char *argv[] = { prog, nopci, l, zero, notune, NULL };

	if (leat_init(5, argv) < 0) {
		print_error("%s\n", leat_err_msg());
		return -1;
	}
	sock = telemetry_dial();
	return sock < 0 ? -1 : test_clock_setup(state);
}

static int
teardown(void **state)
{
	(void)state;
	close(sock);
	leat_clock_mock_set(NULL);
	return leat_cleanup();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_list),	       cmocka_unit_test(test_reactor_answer),
		cmocka_unit_test(test_bad_questions),  cmocka_unit_test(test_many_pollers),
		cmocka_unit_test(test_while_changing),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
