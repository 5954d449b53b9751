/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * leat_app_run(): how programs start and end. EAL starts only once in a process, so each case runs
 * in a child, whose exit code is the program's.
 */

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_lcore.h>

#include <leat_app.h>
#include <leat_dev.h>
#include <leat_error.h>
#include <leat_scope.h>

#include "leat_cmocka.h"
#include "mock_driver.h"

#define LONG_US 60000000
#define ARGS_MAX 16
#define MOCK "fabric_mock0"

/* Exit code of a program with a task that does not end. */
#define DEAF 7

/* Exit code of a child in which a CHECK failed. */
#define WRONG 99
#define SIGNAL 1000
#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                 \
			_exit(WRONG);                                                              \
		}                                                                                  \
	} while (0)

static unsigned int nb_started, nb_ended, nb_cancelled;

static unsigned int
count(unsigned int *n)
{
	return __atomic_add_fetch(n, 1, __ATOMIC_ACQ_REL);
}

static void
end(void *arg)
{
	(void)arg;
	CHECK(leat_app_count() == 0);
	count(&nb_ended);
}

/*
 * Run a program in a child, on two lcores that share a CPU. a and b are further arguments, or NULL.
 * @return its exit code, or SIGNAL plus the signal that ended it
 */
static int
run(const struct leat_app *app, const char *a, const char *b)
{
	char *argv[ARGS_MAX] = { (char *)"/usr/bin/prog", (char *)"--lcores=0@0,1@0",
				 (char *)"--no-telemetry", (char *)"--log-level=leat.*:error" };
	int argc = 4, status;
	pid_t pid;

	if (a != NULL)
		argv[argc++] = (char *)a;
	if (b != NULL)
		argv[argc++] = (char *)b;
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int code = leat_app_run(argc, argv, app);

		/* If all tasks have ended leat_app_run() has freed all tasks and reactors. */
		CHECK(leat_app_count() == 0 || code == DEAF);
		CHECK(nb_ended == (app->end != NULL && nb_started > 0 ? 1 : 0));
		_exit(code);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status))
		return SIGNAL + WTERMSIG(status);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* ---- how programs end ---- */

static int
done_at_once(void *arg)
{
	int index = leat_app_index();

	CHECK(arg == &nb_started);
	CHECK(leat_app_count() == 2 && rte_lcore_count() == 2);
	CHECK(index == (rte_lcore_id() == rte_get_main_lcore() ? 0 : 1));
	CHECK(leat_app_reactor((unsigned int)index) == leat_reactor_self());
	CHECK(leat_app_reactor(2) == NULL);
	CHECK(leat_task_current() != NULL);
	count(&nb_started);
	return 0;
}

static void
test_all_done(void **state)
{
	const struct leat_app app = {
		.device = MOCK, .start = done_at_once, .end = end, .arg = &nb_started
	};

	(void)state;
	assert_int_equal(run(&app, NULL, NULL), LEAT_APP_OK);
}

/* Wait until the stop of the program cancels this task. */
static int
wait_for_stop(void)
{
	int ret = leat_task_sleep(LONG_US);

	CHECK(ret == -ECANCELED);
	count(&nb_cancelled);
	return ret;
}

static int
second_fails(void *arg)
{
	(void)arg;
	count(&nb_started);
	return leat_app_index() == 1 ? leat_err(EIO, "on purpose") : wait_for_stop();
}

static void
cancelled_once(void *arg)
{
	(void)arg;
	count(&nb_ended);
	CHECK(nb_cancelled == 1);
}

static void
test_failure(void **state)
{
	const struct leat_app app = { .device = MOCK,
				      .start = second_fails,
				      .end = cancelled_once };

	(void)state;
	assert_int_equal(run(&app, NULL, NULL), LEAT_APP_FAILED);
}

static int
interrupted(void *arg)
{
	/*
	 * The second task to come here raises the signal. The first one is waiting by then, or sees
	 * the stop when it begins to wait.
	 */
	if (count(&nb_started) == 2)
		CHECK(kill(getpid(), *(const int *)arg) == 0);
	return wait_for_stop();
}

static void
both_cancelled(void *arg)
{
	(void)arg;
	count(&nb_ended);
	CHECK(nb_cancelled == 2);
}

static void
test_signals(void **state)
{
	static int sigs[] = { SIGINT, SIGTERM };
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(sigs) / sizeof(sigs[0]); i++) {
		const struct leat_app app = {
			.device = MOCK, .start = interrupted, .end = both_cancelled, .arg = &sigs[i]
		};

		assert_int_equal(run(&app, NULL, NULL), LEAT_APP_OK);
	}
}

static int
deaf(void *arg)
{
	(void)arg;
	leat_app_stop(DEAF);
	leat_app_stop(8);
	return leat_task_masked(leat_task_sleep(LONG_US));
}

/*
 * deaf() masks its cancellation and still sleeps when stop_us is over. The program ends
 * nevertheless, with the exit code that was given first.
 */
static void
test_deadline(void **state)
{
	const struct leat_app app = { .device = MOCK, .start = deaf, .stop_us = 10000 };

	(void)state;
	assert_int_equal(run(&app, NULL, NULL), DEAF);
}

static void
from_the_other(void *arg)
{
	(void)arg;
	CHECK(leat_app_index() == 0);
	leat_app_stop(LEAT_APP_OK);
}

/*
 * With LEAT_APP_STAY the program goes on after start() has returned on each lcore, until it is
 * stopped.
 */
static int
stays(void *arg)
{
	(void)arg;
	count(&nb_started);
	if (leat_app_index() == 1)
		CHECK(leat_reactor_call(leat_app_reactor(0), from_the_other, NULL) == 0);
	return LEAT_APP_STAY;
}

static void
test_stays(void **state)
{
	const struct leat_app app = { .device = MOCK, .start = stays, .end = end };

	(void)state;
	assert_int_equal(run(&app, NULL, NULL), LEAT_APP_OK);
}

/* ---- arguments ---- */

static int
parse(int argc, char **argv, void *arg)
{
	const char *want = arg;

	CHECK(strcmp(argv[0], "prog") == 0 && argv[argc] == NULL);
	CHECK(argc == 2 && strcmp(argv[1], want) == 0);
	return strcmp(want, "--help") == 0 ? LEAT_APP_DONE : -EINVAL;
}

static int
never(void *arg)
{
	(void)arg;
	CHECK(false);
	return 0;
}

static void
test_arguments(void **state)
{
	const struct leat_app help = { .start = never, .parse = parse, .arg = (void *)"--help" };
	const struct leat_app wrong = { .start = never, .parse = parse, .arg = (void *)"x" };
	const struct leat_app usage = {
		.start = never, .parse = parse, .usage = "x", .arg = (void *)"x"
	};
	const struct leat_app none = { .start = never };

	(void)state;
	assert_int_equal(run(&help, "--help", NULL), LEAT_APP_OK);
	assert_int_equal(run(&help, "--", "--help"), LEAT_APP_OK);
	assert_int_equal(run(&wrong, "--", "x"), LEAT_APP_USAGE);
	assert_int_equal(run(&none, "--", "x"), LEAT_APP_USAGE);
	assert_int_equal(run(&none, "--help", NULL), LEAT_APP_OK);
	assert_int_equal(run(&none, "--", "-h"), LEAT_APP_OK);
	/* With a usage text, leat_app_run() handles --help and parse() does not see it. */
	assert_int_equal(run(&usage, "--help", NULL), LEAT_APP_OK);
	assert_int_equal(run(&usage, "--", "x"), LEAT_APP_USAGE);
	/* Wrong arguments of EAL and of devices are usage errors, too. */
	assert_int_equal(run(&none, "--vdev=fabric_nothing0", NULL), LEAT_APP_USAGE);
	assert_int_equal(run(&none, "--vdev=fabric_mock0,no_such_key=1", NULL), LEAT_APP_USAGE);
	assert_int_equal(run(&none, "--no-such-option", NULL), LEAT_APP_USAGE);
	assert_int_equal(leat_app_run(0, NULL, &none), LEAT_APP_USAGE);
}

static int
device_is(void *arg)
{
	const char *want = arg;

	CHECK(leat_dev_count() == (want == NULL ? 0 : 1));
	CHECK(want == NULL || strcmp(leat_dev_name(leat_dev_get(0)), want) == 0);
	return 0;
}

/*
 * A leat device on the command line replaces the program's default device. An empty default opens
 * none.
 */
static void
test_device(void **state)
{
	struct leat_app app = { .start = device_is, .device = "fabric_mock0,depth=7" };

	(void)state;
	app.arg = (void *)"fabric_mock0";
	assert_int_equal(run(&app, NULL, NULL), LEAT_APP_OK);
	assert_int_equal(run(&app, "--vdev=net_null0", NULL), LEAT_APP_OK);
	app.arg = (void *)"fabric_mock3";
	assert_int_equal(run(&app, "--vdev=fabric_mock3", NULL), LEAT_APP_OK);
	assert_int_equal(run(&app, "--vdev", "fabric_mock3"), LEAT_APP_OK);
	app.device = "";
	app.arg = NULL;
	assert_int_equal(run(&app, NULL, NULL), LEAT_APP_OK);
}

/* ---- begin(), options in front of "--", signals before the reactors run ---- */

static const char *const front[] = { "--list", "--json", NULL };

/*
 * leat_app_run() passes the options that `front` names to parse(), although they stand in front of
 * "--".
 */
static int
parse_front(int argc, char **argv, void *arg)
{
	(void)arg;
	CHECK(argc == 3 && argv[3] == NULL);
	CHECK(strcmp(argv[1], "--json") == 0 && strcmp(argv[2], "--list") == 0);
	leat_app_stop(5);
	return LEAT_APP_DONE;
}

static void
test_front(void **state)
{
	const struct leat_app app = { .start = never, .parse = parse_front, .front = front };
	const struct leat_app other = { .device = MOCK, .start = never, .parse = parse_front };

	(void)state;
	/* The exit code is the one that was given first, before all options were parsed. */
	assert_int_equal(run(&app, "--json", "--list"), 5);
	/*
	 * Without `front`, these are arguments of EAL: parse() gets none of them, and its CHECK
	 * fails.
	 */
	assert_int_equal(run(&other, "--json", "--list"), WRONG);
}

static int
begin(void *arg)
{
	int ret = *(const int *)arg;

	/* The devices are open; no reactor exists. */
	CHECK(leat_dev_count() == 1 && leat_app_count() == 0);
	return ret < 0 ? leat_err(-ret, "on purpose") : ret;
}

static void
test_begin(void **state)
{
	int ret = -EIO;
	struct leat_app app = { .device = MOCK, .begin = begin, .start = never, .end = end };

	(void)state;
	app.arg = &ret;
	assert_int_equal(run(&app, NULL, NULL), LEAT_APP_FAILED);
	ret = LEAT_APP_DONE;
	assert_int_equal(run(&app, NULL, NULL), LEAT_APP_OK);
}

/* ---- lcores that can't run ---- */

/* Leave room for one reactor, which is that of the main lcore. */
static int
begin_full(void *arg)
{
	unsigned int i;

	(void)arg;
	for (i = 1; i < LEAT_REACTOR_MAX; i++)
		CHECK(leat_reactor_create(NULL) != NULL);
	return 0;
}

/* If the second lcore can't have a reactor, start() runs nowhere, and the first is destroyed. */
static void
test_not_created(void **state)
{
	const struct leat_app app = {
		.device = MOCK, .begin = begin_full, .start = never, .end = end
	};

	(void)state;
	assert_int_equal(run(&app, NULL, NULL), LEAT_APP_FAILED);
}

static bool lcore_free; /* ends occupy() */

static int
occupy(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&lcore_free, __ATOMIC_ACQUIRE))
		(void)sched_yield();
	return 0;
}

static int
begin_occupied(void *arg)
{
	(void)arg;
	CHECK(rte_eal_remote_launch(occupy, NULL, 1) == 0);
	return 0;
}

static int
start_first(void *arg)
{
	(void)arg;
	CHECK(leat_app_index() == 0);
	count(&nb_started);
	return wait_for_stop();
}

static void
end_occupied(void *arg)
{
	end(arg);
	CHECK(nb_started == 1 && nb_cancelled == 1);
	__atomic_store_n(&lcore_free, true, __ATOMIC_RELEASE);
	CHECK(rte_eal_wait_lcore(1) == 0);
}

/*
 * If the second lcore can't be launched, the program stops: start() is cancelled on the first lcore
 * and never runs on the second. Then end() is called, and frees what begin() took.
 */
static void
test_not_launched(void **state)
{
	const struct leat_app app = {
		.device = MOCK, .begin = begin_occupied, .start = start_first, .end = end_occupied
	};

	(void)state;
	assert_int_equal(run(&app, NULL, NULL), LEAT_APP_FAILED);
}

static volatile sig_atomic_t seen;

static void
on_signal(int sig)
{
	seen = sig;
}

static int
begin_interrupted(void *arg)
{
	(void)arg;
	CHECK(raise(SIGTERM) == 0);
	CHECK(seen == SIGTERM);
	return 0;
}

static int
start_interrupted(void *arg)
{
	(void)arg;
	count(&nb_started);
	return wait_for_stop();
}

/* A signal that arrives before the reactors exist stops them as soon as they run. */
static void
test_early_signal(void **state)
{
	const struct leat_app app = { .device = MOCK,
				      .begin = begin_interrupted,
				      .start = start_interrupted,
				      .end = end,
				      .on_signal = on_signal };

	(void)state;
	assert_int_equal(run(&app, NULL, NULL), LEAT_APP_OK);
}

/* A handler that a library installs in place of the program's; it must never run. */
static void
foreign_handler(int sig)
{
	(void)sig;
	_exit(WRONG);
}

/* Install handlers, as libraries below drivers do, and raise a signal, which is held back. */
static void
probe_interrupted(void)
{
	CHECK(signal(SIGINT, foreign_handler) != SIG_ERR &&
	      signal(SIGTERM, foreign_handler) != SIG_ERR);
	CHECK(raise(SIGTERM) == 0);
	CHECK(seen == 0);
}

static int
never_begin(void *arg)
{
	(void)arg;
	CHECK(false);
	return 0;
}

/*
 * A signal that arrives while a device is being opened is handled when the device is open; begin()
 * is then not called.
 */
static void
test_signal_in_open(void **state)
{
	const struct leat_app app = { .device = MOCK,
				      .begin = never_begin,
				      .start = never,
				      .end = end,
				      .on_signal = on_signal };

	(void)state;
	mock_probing = probe_interrupted;
	assert_int_equal(run(&app, NULL, NULL), LEAT_APP_OK);
	mock_probing = NULL;
}

static int
begin_interrupted_twice(void *arg)
{
	(void)arg;
	CHECK(raise(SIGINT) == 0);
	CHECK(seen == SIGINT);
	/* The second signal may be a different one than the first. */
	(void)raise(SIGTERM);
	CHECK(false);
	return 0;
}

/* A second signal ends the program at once. */
static void
test_second_signal(void **state)
{
	const struct leat_app app = { .device = MOCK,
				      .begin = begin_interrupted_twice,
				      .start = never,
				      .on_signal = on_signal };

	(void)state;
	assert_int_equal(run(&app, NULL, NULL), SIGNAL + SIGTERM);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_front),	       cmocka_unit_test(test_begin),
		cmocka_unit_test(test_early_signal),   cmocka_unit_test(test_all_done),
		cmocka_unit_test(test_failure),	       cmocka_unit_test(test_signals),
		cmocka_unit_test(test_deadline),       cmocka_unit_test(test_stays),
		cmocka_unit_test(test_arguments),      cmocka_unit_test(test_device),
		cmocka_unit_test(test_signal_in_open), cmocka_unit_test(test_second_signal),
		cmocka_unit_test(test_not_created),    cmocka_unit_test(test_not_launched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
