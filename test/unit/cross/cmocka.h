/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TEST_CROSS_CMOCKA_H
#define TEST_CROSS_CMOCKA_H

/*
 * The part of cmocka that unit tests use, for those that also run on another processor under an
 * emulator: a cross compiler is there, but no cmocka for its target. Included in cmocka's place, by
 * one source file per program.
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct CMUnitTest {
	const char *name;
	void (*test_func)(void **state);
	int (*setup_func)(void **state);
	int (*teardown_func)(void **state);
	void *initial_state;
};

#define cmocka_unit_test(f)                                                                        \
	{                                                                                          \
		.name = #f, .test_func = f                                                         \
	}
#define cmocka_unit_test_prestate(f, state)                                                        \
	{                                                                                          \
		.name = #f, .test_func = f, .initial_state = state                                 \
	}

static inline void __attribute__((format(printf, 1, 2))) print_message(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
}

static inline void __attribute__((format(printf, 1, 2))) print_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
}

/*
 * Fail, from any thread of any process: the first one to fail ends its process and prints the
 * message.
 */
static inline void __attribute__((noreturn))
cross_fail(const char *file, int line, const char *what, uintmax_t a, uintmax_t b)
{
	fprintf(stderr, "%s:%d: %s: %#jx, %#jx\n", file, line, what, a, b);
	fflush(NULL);
	_exit(1);
}

#define CROSS_CHECK(ok, what, a, b)                                                                \
	((ok) ? (void)0 : cross_fail(__FILE__, __LINE__, what, (uintmax_t)(a), (uintmax_t)(b)))

#define assert_true(x) CROSS_CHECK((x), #x, 0, 1)
#define assert_false(x) CROSS_CHECK(!(x), "not " #x, 1, 0)
#define assert_null(p) CROSS_CHECK((p) == NULL, #p, 1, 0)
#define assert_non_null(p) CROSS_CHECK((p) != NULL, #p, 0, 1)
#define fail_msg(...) (print_error(__VA_ARGS__), cross_fail(__FILE__, __LINE__, "", 0, 0))

/* As cmocka does, compare as the widest unsigned type. */
static inline void
cross_equal(uintmax_t a, uintmax_t b, bool equal, const char *what, const char *file, int line)
{
	if ((a == b) != equal)
		cross_fail(file, line, what, a, b);
}

#define assert_int_equal(a, b)                                                                     \
	cross_equal((uintmax_t)(a), (uintmax_t)(b), true, #a " is " #b, __FILE__, __LINE__)
#define assert_int_not_equal(a, b)                                                                 \
	cross_equal((uintmax_t)(a), (uintmax_t)(b), false, #a " is not " #b, __FILE__, __LINE__)

static inline void
cross_in_range(uintmax_t x, uintmax_t low, uintmax_t high, const char *what, const char *file,
	       int line)
{
	if (x < low || x > high)
		cross_fail(file, line, what, x, low);
}

#define assert_in_range(x, low, high)                                                              \
	cross_in_range((uintmax_t)(x), low, high, #x " in " #low " to " #high, __FILE__, __LINE__)

static inline int
cross_run(const struct CMUnitTest *tests, size_t n)
{
	size_t i;
	void *state;

	for (i = 0; i < n; i++) {
		state = tests[i].initial_state;
		printf("[ RUN      ] %s\n", tests[i].name);
		fflush(stdout);
		tests[i].test_func(&state);
		printf("[       OK ] %s\n", tests[i].name);
	}
	printf("[  PASSED  ] %zu test(s).\n", n);
	return 0;
}

#define cmocka_run_group_tests(tests, setup, teardown)                                             \
	cross_run(tests, sizeof(tests) / sizeof((tests)[0]))

#endif /* TEST_CROSS_CMOCKA_H */
