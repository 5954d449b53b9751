/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The address exchange as time passes: no listener yet, or ever; no answer; a side that is polled
 * late.
 */

#include "exchange_side.h"

static volatile uint64_t mock;

/*
 * Find an address without a listener. @return over TCP, a descriptor that keeps the port from
 * other programs until free_port_end(); over UNIX sockets -1: the directory is the test's own
 */
static int
free_port(char *addr, size_t len)
{
	int fd = raw_bind(addr, len);

	if (!side_is_unix())
		return fd;
	raw_close(fd, addr);
	return -1;
}

static void
free_port_end(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void
test_refused_then_there(void **state)
{
	struct leat_exchange_data none = { 0 };
	struct leat_exchange_event *ev;
	char addr[LEAT_EXCHANGE_ADDR_MAX];
	struct side a, b;
	unsigned int i;
	int conn, held;

	(void)state;
	held = free_port(addr, sizeof(addr));
	side_open(&a, NULL, NULL);
	conn = leat_exchange_connect(a.x, addr, 60000000, &none, NULL);
	assert_true(conn > 0);
	for (i = 0; i < 100; i++)
		side_poll(&a);
	assert_int_equal(a.head, a.tail);
	side_open(&b, NULL, addr);
	ev = side_event(&b, &a);
	assert_int_equal(ev->type, LEAT_EXCHANGE_REQUEST);
	assert_int_equal(leat_exchange_accept(b.x, ev->conn, &none, NULL), 0);
	ev = side_event(&a, &b);
	assert_int_equal(ev->type, LEAT_EXCHANGE_CONNECTED);
	assert_int_equal(ev->conn, conn);
	side_close(&a);
	side_close(&b);
	free_port_end(held);
}

static void
test_refused_for_good(void **state)
{
	struct leat_exchange_data none = { 0 };
	struct leat_exchange_event *ev;
	char addr[LEAT_EXCHANGE_ADDR_MAX];
	unsigned int i;
	struct side a;
	int held;

	(void)state;
	held = free_port(addr, sizeof(addr));
	mock = 1000;
	leat_clock_mock_set(&mock);
	side_open(&a, NULL, NULL);
	assert_true(leat_exchange_connect(a.x, addr, 3000000, &none, NULL) > 0);
	/* In steps of 10 ms the connector tries and pauses; it fails only in the last step. */
	for (i = 0; i < 299; i++) {
		mock += 10000000;
		side_poll(&a);
		assert_int_equal(a.head, a.tail);
	}
	mock += 20000000;
	ev = side_event(&a, NULL);
	assert_int_equal(ev->type, LEAT_EXCHANGE_FAILED);
	assert_int_equal(ev->status, -ECONNREFUSED);
	assert_non_null(strstr(ev->text, addr));
	assert_non_null(strstr(ev->text, "Connection refused for 3.0 s"));
	side_close(&a);
	free_port_end(held);
	leat_clock_mock_set(NULL);
}

/* A connect times out if the listener accepts the TCP connection and sends nothing. */
static void
test_no_answer(void **state)
{
	struct leat_exchange_data none = { 0 };
	struct leat_exchange_event *ev;
	struct side a, b;
	int conn;

	(void)state;
	mock = 1000;
	leat_clock_mock_set(&mock);
	side_open(&a, NULL, NULL);
	side_open(&b, NULL, "127.0.0.1:0"); /* never polled: the kernel accepts the connection */
	conn = leat_exchange_connect(a.x, b.addr, 2000000, &none, NULL);
	assert_true(conn > 0);
	side_until(&a, strcmp(leat_exchange_state(a.x, conn), "waiting for the answer") == 0);
	assert_int_equal(a.head, a.tail);
	mock += 2100000000;
	ev = side_event(&a, NULL);
	assert_int_equal(ev->type, LEAT_EXCHANGE_FAILED);
	assert_int_equal(ev->status, -ETIMEDOUT);
	assert_non_null(strstr(ev->text, "no answer came"));

	/* The events that the listener finds when it is polled at last. */
	ev = side_event(&b, NULL);
	assert_int_equal(ev->type, LEAT_EXCHANGE_REQUEST);
	ev = side_event(&b, NULL);
	assert_int_equal(ev->type, LEAT_EXCHANGE_DOWN);
	assert_int_equal(ev->status, -ECONNRESET);
	side_close(&a);
	side_close(&b);
	leat_clock_mock_set(NULL);
}

/* Wait up to a minute, without polling s. @return whether bytes for s have arrived */
static bool
readable(const struct side *s)
{
	struct pollfd p = { .fd = leat_exchange_fd(s->x), .events = POLLIN };

	return poll(&p, 1, 60000) == 1;
}

/* Both sides are polled only when their time is up, and find what arrived in time. */
static void
test_polled_late(void **state)
{
	struct leat_exchange_data none = { 0 };
	struct leat_exchange_event *ev;
	struct side a, b;

	(void)state;
	mock = 1000;
	leat_clock_mock_set(&mock);
	side_open(&a, NULL, NULL);
	side_open(&b, NULL, "127.0.0.1:0");
	assert_true(leat_exchange_connect(a.x, b.addr, 2000000, &none, NULL) > 0);
	ev = side_event(&b, &a);
	assert_int_equal(ev->type, LEAT_EXCHANGE_REQUEST);
	assert_int_equal(leat_exchange_accept(b.x, ev->conn, &none, NULL), 0);
	assert_true(readable(&a));
	mock += 3000000000;
	side_poll(&a);
	assert_true(readable(&b));
	mock += 3000000000;
	side_poll(&b);
	assert_true(readable(&a));
	mock += 3000000000;
	assert_int_equal(side_event(&a, NULL)->type, LEAT_EXCHANGE_CONNECTED);
	assert_true(readable(&b));
	mock += 3000000000;
	assert_int_equal(side_event(&b, NULL)->type, LEAT_EXCHANGE_CONNECTED);
	side_close(&a);
	side_close(&b);
	leat_clock_mock_set(NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused_then_there),
		cmocka_unit_test(test_refused_for_good),
		cmocka_unit_test(test_no_answer),
		cmocka_unit_test(test_polled_late),
	};
	int failed;

	failed = cmocka_run_group_tests_name("exchange time, TCP", tests, side_over_tcp, NULL);
	failed += cmocka_run_group_tests_name("exchange time, UNIX", tests, side_over_unix,
					      side_unix_end);
	return failed;
}
