/* SPDX-License-Identifier: BSD-3-Clause */

/* What the address exchange has over UNIX sockets only: descriptors, notes, processes. */

#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "exchange_side.h"

static volatile uint64_t mock;

/* Open descriptors of this process. */
static unsigned int
count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	assert_non_null(dir);
	/* cppcheck-suppress readdirCalled ; no other function has this directory open */
	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n;
}

static unsigned int fds_before;

static int
fds_start(void **state)
{
	(void)state;
	fds_before = count_fds();
	return 0;
}

static int
fds_end(void **state)
{
	(void)state;
	leat_clock_mock_set(NULL);
	return count_fds() == fds_before ? 0 : -1;
}

/* A test after which as many descriptors are open as before. */
#define LEAKLESS(f) cmocka_unit_test_setup_teardown(f, fds_start, fds_end)

/* A file with this one byte in it. */
static int
file_with(char byte)
{
	int fd = memfd_create("exchange", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, &byte, 1), 1);
	return fd;
}

/* Closes a descriptor that came, after a look into it. */
static void
expect_file(int fd, char byte)
{
	char c = 0;

	assert_int_equal(pread(fd, &c, 1, 0), 1);
	assert_int_equal(c, byte);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
}

/* ---- descriptors ---------------------------------------------------------------------------- */

static void
test_descriptors(void **state)
{
	struct leat_exchange_data data = { 0 };
	struct leat_exchange_event *ev;
	struct side a, b;
	int fds[LEAT_EXCHANGE_FDS_MAX], i, conn, conn_b;

	(void)state;
	side_open(&a, NULL, NULL);
	side_open(&b, NULL, "cache");
	assert_string_equal(b.addr, "cache");
	for (i = 0; i < LEAT_EXCHANGE_FDS_MAX; i++)
		fds[i] = file_with((char)('a' + i));
	data.fds = fds;
	data.nb_fds = LEAT_EXCHANGE_FDS_MAX;
	conn = leat_exchange_connect(a.x, "cache", 0, &data, NULL);
	assert_true(conn > 0);
	/* They may be closed at once. */
	for (i = 0; i < LEAT_EXCHANGE_FDS_MAX; i++)
		close(fds[i]);
	ev = side_event(&b, &a);
	assert_int_equal(ev->type, LEAT_EXCHANGE_REQUEST);
	conn_b = ev->conn;
	assert_int_equal(ev->nb_fds, LEAT_EXCHANGE_FDS_MAX);
	for (i = 0; i < LEAT_EXCHANGE_FDS_MAX; i++)
		expect_file(ev->fds[i], (char)('a' + i));
	fds[0] = file_with('z');
	data.nb_fds = 1;
	assert_int_equal(leat_exchange_accept(b.x, conn_b, &data, NULL), 0);
	close(fds[0]);
	ev = side_event(&a, &b);
	assert_int_equal(ev->type, LEAT_EXCHANGE_CONNECTED);
	assert_int_equal(ev->nb_fds, 1);
	expect_file(ev->fds[0], 'z');
	ev = side_event(&b, &a);
	assert_int_equal(ev->type, LEAT_EXCHANGE_CONNECTED);
	assert_int_equal(ev->nb_fds, 0);
	assert_int_equal(leat_exchange_close(a.x, conn, NULL), 0);
	assert_int_equal(side_event(&b, &a)->type, LEAT_EXCHANGE_DOWN);
	side_close(&a);
	side_close(&b);
}

/* Events that are never fetched, in each state, and ends of all kinds: nothing stays open. */
static void
test_never_fetched(void **state)
{
	struct leat_exchange_data data = { 0 };
	struct leat_exchange_event ev;
	struct side a, b;
	int fd = file_with('x'), conn;

	(void)state;
	data.fds = &fd;
	data.nb_fds = 1;

	/* Nobody listens; the connector is destroyed while it tries. */
	side_open(&a, NULL, NULL);
	assert_true(leat_exchange_connect(a.x, "nobody", 0, &data, NULL) > 0);
	side_quiet(&a, NULL);
	side_close(&a);

	/* The listener never reads the HELLO. */
	side_open(&a, NULL, NULL);
	side_open(&b, NULL, "cache");
	assert_true(leat_exchange_connect(a.x, "cache", 0, &data, NULL) > 0);
	side_quiet(&a, NULL);
	side_close(&b);
	side_close(&a);

	/* It reads it, and its owner never asks for the event. */
	side_open(&a, NULL, NULL);
	side_open(&b, NULL, "cache");
	conn = leat_exchange_connect(a.x, "cache", 0, &data, NULL);
	assert_true(conn > 0);
	side_until(&a, (assert_int_equal(leat_exchange_poll(b.x, leat_now(), &ev, 0), 0),
			side_stats(&b).conns == 1));
	/* The connector withdraws, and asks again. */
	assert_int_equal(leat_exchange_close(a.x, conn, NULL), 0);
	side_until(&a, (assert_int_equal(leat_exchange_poll(b.x, leat_now(), &ev, 0), 0),
			side_stats(&b).conns == 0));
	assert_true(leat_exchange_connect(a.x, "cache", 0, &data, NULL) > 0);
	side_until(&a, (assert_int_equal(leat_exchange_poll(b.x, leat_now(), &ev, 0), 0),
			side_stats(&b).conns == 1));
	side_close(&b);
	assert_int_equal(side_event(&a, NULL)->type, LEAT_EXCHANGE_FAILED);
	side_close(&a);

	/* ACCEPT has some, and the connector's owner never asks. */
	side_open(&a, NULL, NULL);
	side_open(&b, NULL, "cache");
	conn = leat_exchange_connect(a.x, "cache", 0, &data, NULL);
	assert_true(conn > 0);
	{
		struct leat_exchange_event *request = side_event(&b, &a);

		assert_int_equal(request->nb_fds, 1);
		close(request->fds[0]);
		assert_int_equal(leat_exchange_accept(b.x, request->conn, &data, NULL), 0);
	}
	side_until(&b, (assert_int_equal(leat_exchange_poll(a.x, leat_now(), &ev, 0), 0),
			strcmp(leat_exchange_state(a.x, conn), "up") == 0));
	side_close(&a);
	side_close(&b);
	close(fd);
}

/* An end that comes before CONNECTED was fetched does not take its descriptors away. */
static void
test_down_behind(void **state)
{
	struct leat_exchange_data data = { 0 };
	struct leat_exchange_event ev;
	struct side a, b;
	int fd = file_with('x'), conn, conn_b;

	(void)state;
	data.fds = &fd;
	data.nb_fds = 1;
	side_open(&a, NULL, NULL);
	side_open(&b, NULL, "cache");
	conn = leat_exchange_connect(a.x, "cache", 0, &(struct leat_exchange_data){ 0 }, NULL);
	assert_true(conn > 0);
	conn_b = side_event(&b, &a)->conn;
	assert_int_equal(leat_exchange_accept(b.x, conn_b, &data, NULL), 0);
	close(fd);
	side_until(&b, (assert_int_equal(leat_exchange_poll(a.x, leat_now(), &ev, 0), 0),
			strcmp(leat_exchange_state(a.x, conn), "up") == 0));
	side_close(&b);
	side_until(&a, a.tail - a.head == 2);
	assert_int_equal(a.ev[a.head % SIDE_EVENTS].type, LEAT_EXCHANGE_CONNECTED);
	assert_int_equal(a.ev[a.head % SIDE_EVENTS].nb_fds, 1);
	expect_file(a.ev[a.head % SIDE_EVENTS].fds[0], 'x');
	a.head++;
	assert_int_equal(a.ev[a.head % SIDE_EVENTS].type, LEAT_EXCHANGE_DOWN);
	side_close(&a);
}

/* Rejected, busy, timed out: what was sent is closed, and sent again with the next attempt. */
static void
test_turned_away(void **state)
{
	struct leat_exchange_data data = { 0 };
	struct leat_exchange_event *ev;
	struct side a, b;
	int fd = file_with('x');
	unsigned int i;

	(void)state;
	mock = 1000;
	leat_clock_mock_set(&mock);
	data.fds = &fd;
	data.nb_fds = 1;
	side_open(&a, NULL, NULL);
	side_open(&b, NULL, "cache");
	assert_true(leat_exchange_connect(a.x, "cache", 60000000, &data, NULL) > 0);
	for (i = 0; i < 4; i++) {
		side_until(&a, (mock += 1000000, side_poll(&b), b.head != b.tail));
		ev = side_event(&b, NULL);
		assert_int_equal(ev->type, LEAT_EXCHANGE_REQUEST);
		assert_int_equal(ev->nb_fds, 1);
		expect_file(ev->fds[0], 'x');
		if (i < 3)
			assert_int_equal(leat_exchange_busy(b.x, ev->conn, NULL), 0);
		else
			assert_int_equal(leat_exchange_reject(b.x, ev->conn, NULL), 0);
	}
	assert_int_equal(side_event(&a, &b)->status, -ECONNREFUSED);

	assert_true(leat_exchange_connect(a.x, "cache", 1000000, &data, NULL) > 0);
	ev = side_event(&b, &a);
	assert_int_equal(ev->nb_fds, 1);
	expect_file(ev->fds[0], 'x');
	mock += 2000000000;
	assert_int_equal(side_event(&a, NULL)->status, -ETIMEDOUT);
	assert_int_equal(side_event(&b, NULL)->type, LEAT_EXCHANGE_DOWN);
	side_close(&a);
	side_close(&b);
	close(fd);
}

static void
test_bad_descriptors(void **state)
{
	int fds[LEAT_EXCHANGE_FDS_MAX + 1] = { 0, 0, 0, -1, 0 };
	struct leat_exchange_data data = { .fds = fds, .nb_fds = LEAT_EXCHANGE_FDS_MAX };
	struct leat_exchange_data none = { 0 };
	struct side a, b;
	int conn_b;

	(void)state;
	side_open(&a, NULL, NULL);
	side_open(&b, NULL, "cache");
	assert_int_equal(leat_exchange_connect(a.x, "cache", 0, &data, NULL), -EBADF);
	data.nb_fds++;
	assert_int_equal(leat_exchange_connect(a.x, "cache", 0, &data, NULL), -EINVAL);
	data.nb_fds = 1;
	data.fds = NULL;
	assert_int_equal(leat_exchange_connect(a.x, "cache", 0, &data, NULL), -EINVAL);
	/* A request outlives an answer that was wrong. */
	assert_true(leat_exchange_connect(a.x, "cache", 0, &none, NULL) > 0);
	conn_b = side_event(&b, &a)->conn;
	data.fds = fds;
	data.nb_fds = LEAT_EXCHANGE_FDS_MAX;
	assert_int_equal(leat_exchange_accept(b.x, conn_b, &data, NULL), -EBADF);
	assert_string_equal(leat_exchange_state(b.x, conn_b), "asking");
	assert_int_equal(leat_exchange_accept(b.x, conn_b, &none, NULL), 0);
	assert_int_equal(side_event(&a, &b)->type, LEAT_EXCHANGE_CONNECTED);
	side_close(&a);
	side_close(&b);
}

/* They do not go over TCP, and neither do notes. */
static void
test_not_over_tcp(void **state)
{
	struct leat_exchange_conf conf = { .kind = "ring" };
	struct leat_exchange_data data = { .fds = &(int){ 0 }, .nb_fds = 1 };
	struct leat_exchange *x = leat_exchange_create(&conf);

	(void)state;
	assert_non_null(x);
	assert_int_equal(leat_exchange_connect(x, "127.0.0.1:7000", 0, &data, NULL), -EINVAL);
	assert_non_null(strstr(leat_err_msg(), "TCP"));
	assert_int_equal(leat_exchange_note(x, 1), -EOPNOTSUPP);
	leat_exchange_destroy(x);
}

/* ---- notes ---------------------------------------------------------------------------------- */

static bool
readable(const struct side *s)
{
	struct pollfd p = { .fd = leat_exchange_fd(s->x), .events = POLLIN };
	int n = poll(&p, 1, 0);

	assert_true(n >= 0);
	return n == 1;
}

static void
test_note(void **state)
{
	struct side a, b;
	unsigned int i;
	int ca, cb;

	(void)state;
	side_open(&a, NULL, NULL);
	side_open(&b, NULL, "cache");
	assert_int_equal(leat_exchange_note(a.x, 1), -ENOTCONN);
	side_connect(&a, &b, &ca, &cb);
	side_quiet(&a, &b);
	side_quiet(&b, &a);
	assert_false(readable(&a));
	assert_false(readable(&b));

	assert_int_equal(leat_exchange_note(a.x, ca), 0);
	assert_true(readable(&b));
	assert_false(readable(&a));
	for (i = 0; i < 9; i++)
		assert_int_equal(leat_exchange_note(a.x, ca), 0);
	assert_int_equal(side_event(&b, NULL)->type, LEAT_EXCHANGE_NOTE);
	side_quiet(&b, &a);
	assert_false(readable(&b));
	assert_int_equal(leat_exchange_note(b.x, cb), 0);
	assert_int_equal(side_event(&a, NULL)->type, LEAT_EXCHANGE_NOTE);

	/* More than the socket holds; then it works as before, and the end comes behind them. */
	for (i = 0; i < 100000; i++)
		assert_int_equal(leat_exchange_note(a.x, ca), 0);
	while (readable(&b)) {
		side_poll(&b);
		while (b.head != b.tail)
			assert_int_equal(b.ev[b.head++ % SIDE_EVENTS].type, LEAT_EXCHANGE_NOTE);
	}
	assert_int_equal(leat_exchange_note(a.x, ca), 0);
	assert_int_equal(side_event(&b, NULL)->type, LEAT_EXCHANGE_NOTE);
	assert_int_equal(leat_exchange_note(a.x, ca), 0);
	assert_int_equal(leat_exchange_close(a.x, ca, NULL), 0);
	assert_int_equal(leat_exchange_note(a.x, ca), -ENOTCONN);
	assert_int_equal(side_event(&b, NULL)->type, LEAT_EXCHANGE_NOTE);
	assert_int_equal(side_event(&b, NULL)->type, LEAT_EXCHANGE_DOWN);
	assert_int_equal(leat_exchange_note(b.x, cb), -ENOTCONN);
	side_close(&a);
	side_close(&b);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		LEAKLESS(test_descriptors),
		LEAKLESS(test_never_fetched),
		LEAKLESS(test_down_behind),
		LEAKLESS(test_turned_away),
		LEAKLESS(test_bad_descriptors),
		LEAKLESS(test_not_over_tcp),
		LEAKLESS(test_note),
	};

	return cmocka_run_group_tests_name("exchange local", tests, side_over_unix, side_unix_end);
}
