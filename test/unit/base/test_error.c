/* SPDX-License-Identifier: BSD-3-Clause */

#include "leat_cmocka.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <leat_error.h>
#include <leat_version.h>

static void *
fresh_thread(void *arg)
{
	const char **seen = arg;

	*seen = leat_err_msg()[0] == '\0' ? "empty" : "not empty";
	return NULL;
}

static void
test_empty_at_first(void **state)
{
	const char *seen = NULL;
	pthread_t thread;

	(void)state;
	assert_int_equal(leat_err(EIO, "of the main thread"), -EIO);
	assert_int_equal(pthread_create(&thread, NULL, fresh_thread, &seen), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_string_equal(seen, "empty");
	assert_string_equal(leat_err_msg(), "of the main thread");
}

static void
test_number_and_message(void **state)
{
	(void)state;
	rte_errno = 0;
	assert_int_equal(leat_err(ENODEV, "open %s: %d", "fabric_x0", 42), -ENODEV);
	assert_int_equal(rte_errno, ENODEV);
	assert_string_equal(leat_err_msg(), "open fabric_x0: 42");

	assert_int_equal(leat_err(EAGAIN, "%s", ""), -EAGAIN);
	assert_int_equal(rte_errno, EAGAIN);
	assert_string_equal(leat_err_msg(), "");
}

static void
test_odd_numbers(void **state)
{
	(void)state;
	assert_int_equal(leat_err(-EPERM, "negative"), -EPERM);
	assert_int_equal(rte_errno, EPERM);
	assert_int_equal(leat_err(0, "zero"), -EINVAL);
	assert_int_equal(rte_errno, EINVAL);
	assert_int_equal(leat_err(INT_MIN, "has no absolute value"), -EINVAL);
	assert_int_equal(rte_errno, EINVAL);
}

/* An outer function adds its context to the message of an inner one. */
static void
test_quotes_itself(void **state)
{
	(void)state;
	leat_err(ECONNREFUSED, "connect 10.0.0.1:7: refused");
	leat_err(EHOSTUNREACH, "peer 3: %s (twice: %s)", leat_err_msg(), leat_err_msg());
	assert_string_equal(leat_err_msg(), "peer 3: connect 10.0.0.1:7: refused "
					    "(twice: connect 10.0.0.1:7: refused)");
}

static void
test_long_message_is_cut(void **state)
{
	char text[2 * LEAT_ERR_MSG_MAX];
	unsigned int len;

	(void)state;
	for (len = LEAT_ERR_MSG_MAX - 1; len <= LEAT_ERR_MSG_MAX + 1; len++) {
		memset(text, 'x', sizeof(text));
		text[len] = '\0';
		leat_err(EIO, "%s", text);
		assert_int_equal(strlen(leat_err_msg()), RTE_MIN(len, LEAT_ERR_MSG_MAX + 0U));
		assert_memory_equal(leat_err_msg(), text, strlen(leat_err_msg()));
	}
	/* A message that quotes itself again and again ends at the limit, too. */
	for (len = 0; len < 100; len++)
		leat_err(EIO, "again: %s", leat_err_msg());
	assert_int_equal(strlen(leat_err_msg()), LEAT_ERR_MSG_MAX);
}

#define THREADS 4
#define ROUNDS 2000

struct worker {
	pthread_t thread;
	int err;
	unsigned int wrong;
};

static void *
worker_main(void *arg)
{
	struct worker *w = arg;
	char want[64];
	int i;

	for (i = 0; i < ROUNDS; i++) {
		snprintf(want, sizeof(want), "thread %d round %d", w->err, i);
		if (leat_err(w->err, "thread %d round %d", w->err, i) != -w->err)
			w->wrong++;
		if (strcmp(leat_err_msg(), want) != 0 || rte_errno != w->err)
			w->wrong++;
	}
	return NULL;
}

static void
test_each_thread_has_its_own(void **state)
{
	struct worker w[THREADS];
	int i;

	(void)state;
	leat_err(ENOSPC, "main");
	for (i = 0; i < THREADS; i++) {
		w[i] = (struct worker){ .err = i + 1 };
		assert_int_equal(pthread_create(&w[i].thread, NULL, worker_main, &w[i]), 0);
	}
	for (i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(w[i].thread, NULL), 0);
		assert_int_equal(w[i].wrong, 0);
	}
	assert_string_equal(leat_err_msg(), "main");
	assert_int_equal(rte_errno, ENOSPC);
}

static void
test_version(void **state)
{
	char want[32];

	(void)state;
	snprintf(want, sizeof(want), "%d.%d.%d", LEAT_VERSION_MAJOR, LEAT_VERSION_MINOR,
		 LEAT_VERSION_PATCH);
	assert_string_equal(LEAT_VERSION, want);
	assert_string_equal(leat_version(), want);
	assert_true(LEAT_DRIVER_ABI >= 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty_at_first),
		cmocka_unit_test(test_number_and_message),
		cmocka_unit_test(test_odd_numbers),
		cmocka_unit_test(test_quotes_itself),
		cmocka_unit_test(test_long_message_is_cut),
		cmocka_unit_test(test_each_thread_has_its_own),
		cmocka_unit_test(test_version),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
