/* SPDX-License-Identifier: BSD-3-Clause */

/* /leat/tasks, asked as dpdk-telemetry.py asks: over the process's UNIX socket. */

#include <pthread.h>

#include <leat_fabric.h>
#include <leat_task_sync.h>

#include "../telemetry_client.h"
#include "task_test.h"

static int sock = -1;

/*
 * Find a key with a value after `at`; if it is missing, print the text from `at` on.
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

static struct leat_task_sem go;

static int
waiter(void *arg)
{
	(void)arg;
	return leat_task_sem_wait(&go);
}

static int
parent(void *arg)
{
	struct leat_task *c = leat_task_spawn(leat_tasks_self(), "child", waiter, arg);

	assert_non_null(c);
	return leat_task_join(c, NULL);
}

static void *
run(void *arg)
{
	return leat_reactor_run(arg) == 0 ? NULL : arg;
}

static void
open_gate(void *arg)
{
	(void)arg;
	assert_int_equal(leat_task_sem_post(&go), 0);
}

static void
test_tree(void **state)
{
	struct leat_reactor_conf conf = { .name = "loop", .idle.policy = LEAT_IDLE_YIELD };
	struct leat_reactor *r = leat_reactor_create(&conf);
	struct leat_tasks *ts = leat_tasks_create(r, NULL);
	struct leat_task *p;
	pthread_t thread;
	const char *s, *c;
	void *failed;

	(void)state;
	assert_non_null(ts);
	/* Characters that could break the JSON are replaced. */
	leat_task_sem_init(&go, 0, "ga\"te");
	p = leat_task_spawn(ts, "parent", parent, NULL);
	assert_non_null(p);
	assert_int_equal(pthread_create(&thread, NULL, run, r), 0);

	/* Repeat the request until both tasks wait. */
	do {
		s = telemetry_ask(sock, "/leat/tasks,0");
		c = strstr(s, "\"waits\"");
	} while (c == NULL || strstr(c + 1, "\"waits\"") == NULL);
	assert_non_null(find(s, "nb_tasks", "2"));
	assert_non_null(find(s, "name", "\"parent\""));
	assert_non_null(find(s, "waits", "\"join child (2)\""));
	c = find(s, "name", "\"child\"");
	assert_non_null(c);
	assert_non_null(find(c, "state", "\"WAITING\""));
	assert_non_null(find(c, "waits", "\"semaphore ga_te\""));
	assert_non_null(find(c, "stack_peak", ""));
	assert_non_null(find(s, "depth", "1"));
	/* The list begins with the second task. */
	s = telemetry_ask(sock, "/leat/tasks,0,1");
	assert_non_null(find(s, "nb_tasks", "2"));
	assert_null(telemetry_find(s, "name", "\"parent\""));
	assert_non_null(find(s, "name", "\"child\""));

	s = telemetry_ask(sock, "/leat/tasks");
	assert_non_null(find(s, "reactor", "\"loop\""));
	assert_non_null(find(s, "tasks", "2"));
	assert_non_null(find(s, "spawned", "2"));

	/* No reactor has the number 1 or 1000; "x" and "0," are not valid arguments. */
	assert_null(strstr(telemetry_ask(sock, "/leat/tasks,1"), "nb_tasks"));
	assert_null(strstr(telemetry_ask(sock, "/leat/tasks,x"), "nb_tasks"));
	assert_null(strstr(telemetry_ask(sock, "/leat/tasks,1000"), "nb_tasks"));
	assert_null(strstr(telemetry_ask(sock, "/leat/tasks,0,"), "nb_tasks"));

	assert_int_equal(leat_reactor_call(r, open_gate, NULL), 0);
	leat_reactor_stop(r, LEAT_REACTOR_STOP_NO_DEADLINE);
	assert_int_equal(pthread_join(thread, &failed), 0);
	assert_null(failed);
	assert_int_equal(leat_task_join(p, NULL), 0);
	assert_int_equal(leat_tasks_destroy(ts), 0);
	assert_int_equal(leat_reactor_destroy(r), 0);
	assert_null(strstr(telemetry_ask(sock, "/leat/tasks,0"), "nb_tasks"));
}

/*
 * No thread runs the reactor: the request returns an error instead of waiting for ever. The
 * reactor's late answer is freed.
 */
static void
test_no_answer(void **state)
{
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	assert_non_null(find(telemetry_ask(sock, "/leat/tasks,0"), "error",
			     "\"the reactor does not answer\""));
	test_turns(t.r, 1);
	task_test_end(&t);
}

static int
group_setup(void **state)
{
	static char prog[] = "test_task", nopci[] = "--no-pci", l[] = "-l", zero[] = "0";
	char *argv[] = { prog, nopci, l, zero, NULL };

	(void)state;
	if (leat_init(4, argv) < 0) {
		print_error("%s\n", leat_err_msg());
		return -1;
	}
	sock = telemetry_dial();
	return sock >= 0 ? 0 : -1;
}

static int
group_teardown(void **state)
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
		cmocka_unit_test(test_tree),
		cmocka_unit_test(test_no_answer),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
