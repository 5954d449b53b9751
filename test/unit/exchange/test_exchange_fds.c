/* SPDX-License-Identifier: BSD-3-Clause */

/* Descriptors sent with messages of the address exchange, over UNIX sockets. */

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "exchange_leaks.h"

static volatile uint64_t mock;

/* @return a descriptor of a file that holds this one byte */
static int
file_with(char byte)
{
	int fd = memfd_create("exchange", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, &byte, 1), 1);
	return fd;
}

/* Close a received descriptor, after checking its file's byte. */
static void
expect_file(int fd, char byte)
{
	char c = 0;

	assert_int_equal(pread(fd, &c, 1, 0), 1);
	assert_int_equal(c, byte);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
}

/* ---- descriptors between two sides ---------------------------------------------------------- */

static void
test_descriptors(void **state)
{
	struct leat_exchange_data data = { 0 };
	struct leat_exchange_event *ev;
	struct side a, b;
	int fds[LEAT_EXCHANGE_FDS_TAKEN], i, conn, conn_b;

	(void)state;
	side_open(&a, NULL, NULL);
	side_open(&b, NULL, "cache");
	assert_string_equal(b.addr, "cache");
	for (i = 0; i < LEAT_EXCHANGE_FDS_TAKEN; i++)
		fds[i] = file_with((char)('a' + i));
	data.fds = fds;
	data.nb_fds = LEAT_EXCHANGE_FDS_TAKEN;
	conn = leat_exchange_connect(a.x, "cache", 0, &data, NULL);
	assert_true(conn > 0);
	/* The caller may close its descriptors at once. */
	for (i = 0; i < LEAT_EXCHANGE_FDS_TAKEN; i++)
		close(fds[i]);
	ev = side_event(&b, &a);
	assert_int_equal(ev->type, LEAT_EXCHANGE_REQUEST);
	conn_b = ev->conn;
	assert_int_equal(ev->nb_fds, LEAT_EXCHANGE_FDS_TAKEN);
	for (i = 0; i < LEAT_EXCHANGE_FDS_TAKEN; i++)
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

/*
 * Side b accepts LEAT_EXCHANGE_FDS_MAX descriptors, and gets as many. Side a accepts only
 * LEAT_EXCHANGE_FDS_TAKEN: its connect fails since b's answer has one more.
 */
static void
test_many_descriptors(void **state)
{
	const struct leat_exchange_conf conf = { .kind = "ring",
						 .dir = side_dir,
						 .max_fds = LEAT_EXCHANGE_FDS_MAX };
	struct leat_exchange_data data = { .nb_fds = LEAT_EXCHANGE_FDS_MAX };
	struct leat_exchange_event *ev;
	struct side a, b;
	int fds[LEAT_EXCHANGE_FDS_MAX], i;

	(void)state;
	side_open(&a, NULL, NULL);
	side_open(&b, &conf, "cache");
	fds[0] = file_with('x');
	for (i = 1; i < LEAT_EXCHANGE_FDS_MAX; i++)
		fds[i] = fds[0];
	data.fds = fds;
	assert_true(leat_exchange_connect(a.x, "cache", 0, &data, NULL) > 0);
	ev = side_event(&b, &a);
	assert_int_equal(ev->type, LEAT_EXCHANGE_REQUEST);
	assert_int_equal(ev->nb_fds, LEAT_EXCHANGE_FDS_MAX);
	for (i = 1; i < LEAT_EXCHANGE_FDS_MAX; i++)
		close(ev->fds[i]);
	expect_file(ev->fds[0], 'x');
	data.nb_fds = LEAT_EXCHANGE_FDS_TAKEN + 1;
	assert_int_equal(leat_exchange_accept(b.x, ev->conn, &data, NULL), 0);
	close(fds[0]);
	ev = side_event(&a, &b);
	assert_int_equal(ev->type, LEAT_EXCHANGE_FAILED);
	assert_non_null(strstr(ev->text, "too many descriptors"));
	side_close(&a);
	side_close(&b);
}

/* The descriptors of events that are never fetched are closed, however the connection ends. */
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

	/* No listener has that name; the connector is destroyed while it tries. */
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

	/* The listener reads the HELLO, but the listener's owner never fetches the event. */
	side_open(&a, NULL, NULL);
	side_open(&b, NULL, "cache");
	conn = leat_exchange_connect(a.x, "cache", 0, &data, NULL);
	assert_true(conn > 0);
	side_until(&a, (assert_int_equal(leat_exchange_poll(b.x, leat_now(), &ev, 0), 0),
			side_stats(&b).conns == 1));
	/* The connector withdraws, and connects again. */
	assert_int_equal(leat_exchange_close(a.x, conn, NULL), 0);
	side_until(&a, (assert_int_equal(leat_exchange_poll(b.x, leat_now(), &ev, 0), 0),
			side_stats(&b).conns == 0));
	assert_true(leat_exchange_connect(a.x, "cache", 0, &data, NULL) > 0);
	side_until(&a, (assert_int_equal(leat_exchange_poll(b.x, leat_now(), &ev, 0), 0),
			side_stats(&b).conns == 1));
	side_close(&b);
	assert_int_equal(side_event(&a, NULL)->type, LEAT_EXCHANGE_FAILED);
	side_close(&a);

	/* ACCEPT carries descriptors, and the connector's owner never fetches the event. */
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

/* A connection that ends before CONNECTED was fetched keeps its descriptors for that event. */
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

/*
 * When an attempt is rejected, answered with BUSY or timed out, the descriptors sent with it are
 * closed, and the next attempt sends them again.
 */
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
	struct leat_exchange_data data = { .fds = fds, .nb_fds = LEAT_EXCHANGE_FDS_TAKEN };
	struct leat_exchange_data none = { 0 };
	struct side a, b;
	int conn_b;

	(void)state;
	side_open(&a, NULL, NULL);
	side_open(&b, NULL, "cache");
	assert_int_equal(leat_exchange_connect(a.x, "cache", 0, &data, NULL), -EBADF);
	data.nb_fds = LEAT_EXCHANGE_FDS_MAX + 1;
	assert_int_equal(leat_exchange_connect(a.x, "cache", 0, &data, NULL), -EINVAL);
	data.nb_fds = 1;
	data.fds = NULL;
	assert_int_equal(leat_exchange_connect(a.x, "cache", 0, &data, NULL), -EINVAL);
	/* After an accept with invalid descriptors the request can still be accepted. */
	assert_true(leat_exchange_connect(a.x, "cache", 0, &none, NULL) > 0);
	conn_b = side_event(&b, &a)->conn;
	data.fds = fds;
	data.nb_fds = LEAT_EXCHANGE_FDS_TAKEN;
	assert_int_equal(leat_exchange_accept(b.x, conn_b, &data, NULL), -EBADF);
	assert_string_equal(leat_exchange_state(b.x, conn_b), "asking");
	assert_int_equal(leat_exchange_accept(b.x, conn_b, &none, NULL), 0);
	assert_int_equal(side_event(&a, &b)->type, LEAT_EXCHANGE_CONNECTED);
	side_close(&a);
	side_close(&b);
}

/* Descriptors and notes do not go over TCP. */
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

/* ---- clients that break the protocol --------------------------------------------------------- */

/* Send bytes with descriptors. */
static void
send_fds(int fd, const void *buf, size_t len, unsigned int nb)
{
	union {
		struct cmsghdr hdr;
		char buf[CMSG_SPACE(sizeof(int) * 200)];
	} control;
	struct iovec iov = { .iov_base = (void *)(uintptr_t)buf, .iov_len = len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf };
	struct cmsghdr *cmsg;
	int fds[200] = { 0 };
	unsigned int i;

	for (i = 0; i < nb; i++)
		fds[i] = fd;
	memset(&control, 0, sizeof(control));
	msg.msg_controllen = CMSG_SPACE(sizeof(int) * nb);
	cmsg = CMSG_FIRSTHDR(&msg);
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int) * nb);
	memcpy(CMSG_DATA(cmsg), fds, sizeof(int) * nb);
	assert_int_equal(sendmsg(fd, &msg, MSG_NOSIGNAL), len);
}

static void
expect_reject(struct side *s, int fd, const char *why)
{
	uint8_t buf[256] = { 0 };
	size_t n = raw_recv(fd, s, buf, sizeof(buf) - 1);

	assert_true(n > 24);
	assert_int_equal(buf[6], 3);
	assert_int_equal(buf[16], 3);
	assert_non_null(strstr((char *)buf + 24, why));
	close(fd);
}

static void
test_stray_descriptors(void **state)
{
	static const unsigned int many[] = { LEAT_EXCHANGE_FDS_TAKEN + 1, 200 };
	struct leat_exchange_event *ev;
	uint8_t buf[256];
	struct side s;
	size_t len = raw_hello(buf);
	unsigned int i;
	int fd;

	(void)state;
	side_open(&s, NULL, "localhost:0");
	/* A HELLO with more descriptors than the listener accepts is rejected. */
	for (i = 0; i < RTE_DIM(many); i++) {
		fd = raw_connect(&s);
		send_fds(fd, buf, len, many[i]);
		expect_reject(&s, fd, "too many");
	}
	/* A HELLO is rejected if descriptors come with its second half only. */
	fd = raw_connect(&s);
	raw_send(fd, buf, 20);
	side_until(&s, side_stats(&s).pending == 1);
	side_poll(&s);
	send_fds(fd, buf + 20, len - 20, 1);
	expect_reject(&s, fd, "descriptors");
	/* A HELLO in two halves is rejected if descriptors come with both. */
	fd = raw_connect(&s);
	send_fds(fd, buf, 20, 2);
	side_until(&s, side_stats(&s).pending == 1);
	side_poll(&s);
	send_fds(fd, buf + 20, len - 20, 2);
	expect_reject(&s, fd, "descriptors");
	/* A first message that is not HELLO, and bytes that are no message, are rejected too. */
	fd = raw_connect(&s);
	raw_header(buf, LEAT_EXCHANGE_VERSION, 4, 0);
	send_fds(fd, buf, 16, 1);
	expect_reject(&s, fd, "descriptors");
	fd = raw_connect(&s);
	send_fds(fd, "GET /", 5, LEAT_EXCHANGE_FDS_TAKEN);
	expect_reject(&s, fd, "LEAT");
	/* The client closes after half a HELLO with descriptors: they are closed here, too. */
	(void)raw_hello(buf);
	fd = raw_connect(&s);
	send_fds(fd, buf, 30, LEAT_EXCHANGE_FDS_TAKEN);
	side_until(&s, side_stats(&s).pending == 1);
	close(fd);
	side_until(&s, side_stats(&s).pending == 0);

	/* Descriptors with a PROOF, before (i = 0) or after the accept, end the connection. */
	for (i = 0; i < 2; i++) {
		fd = raw_connect(&s);
		raw_send(fd, buf, raw_hello(buf));
		ev = side_event(&s, NULL);
		assert_int_equal(ev->type, LEAT_EXCHANGE_REQUEST);
		assert_int_equal(ev->nb_fds, 0);
		if (i == 1)
			assert_int_equal(leat_exchange_accept(s.x, ev->conn,
							      &(struct leat_exchange_data){ 0 },
							      NULL),
					 0);
		raw_header(buf, LEAT_EXCHANGE_VERSION, 6, 0);
		send_fds(fd, buf, 16, 1);
		ev = side_event(&s, NULL);
		assert_int_equal(ev->type, LEAT_EXCHANGE_DOWN);
		assert_int_equal(ev->status, -EPROTO);
		close(fd);
	}
	side_close(&s);
}

/* A connection fails if the listener's ACCEPT has too many descriptors, or its REJECT has any. */
static void
test_stray_answers(void **state)
{
	static const struct leat_exchange_data none;
	struct leat_exchange_event *ev;
	uint8_t buf[256];
	struct side a;
	unsigned int i;
	size_t len;
	int lfd, fd;

	(void)state;
	side_open(&a, NULL, NULL);
	lfd = raw_bind(a.addr, sizeof(a.addr));
	assert_int_equal(listen(lfd, 4), 0);
	for (i = 0; i < 3; i++) {
		assert_true(leat_exchange_connect(a.x, a.addr, 0, &none, NULL) > 0);
		fd = raw_accept(lfd);
		assert_int_equal(raw_recv(fd, &a, buf, 56), 56);
		len = raw_hello(buf);
		buf[6] = 2;
		if (i == 0) {
			send_fds(fd, buf, len, LEAT_EXCHANGE_FDS_TAKEN + 1);
		} else if (i == 1) {
			memset(buf + 16, 0, 8);
			raw_header(buf, LEAT_EXCHANGE_VERSION, 3, 8);
			send_fds(fd, buf, 24, 1);
		} else {
			/* This ACCEPT is valid, but the byte after it is not. */
			send_fds(fd, buf, len, LEAT_EXCHANGE_FDS_TAKEN);
			raw_send(fd, "x", 1);
		}
		ev = side_event(&a, NULL);
		assert_int_equal(ev->type, LEAT_EXCHANGE_FAILED);
		assert_int_equal(ev->status, -EPROTO);
		assert_int_equal(ev->nb_fds, 0);
		close(fd);
	}
	raw_close(lfd, a.addr);
	side_close(&a);
}

/*
 * A listener whose process is at its limit of descriptors answers BUSY until it can receive those
 * of a HELLO.
 */
static void
test_no_room_for_descriptors(void **state)
{
	int fds[LEAT_EXCHANGE_FDS_TAKEN] = { 0, 0, 0, 0 };
	struct leat_exchange_data data = { .fds = fds, .nb_fds = LEAT_EXCHANGE_FDS_TAKEN };
	struct leat_exchange_event *ev;
	struct rlimit lim, tight;
	struct side a, b;
	int top, i;

	(void)state;
	side_open(&a, NULL, NULL);
	side_open(&b, NULL, "cache");
	assert_true(leat_exchange_connect(a.x, "cache", 60000000, &data, NULL) > 0);
	side_quiet(&a, NULL);
	top = dup(0);
	assert_true(top >= 0);
	close(top);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &lim), 0);
	/* Room for the connection, and for two of its four descriptors. */
	tight = lim;
	tight.rlim_cur = (rlim_t)top + 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
	side_until(&b, side_stats(&b).busy > 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &lim), 0);
	assert_true(side_stats(&b).no_fd > 0);
	ev = side_event(&b, &a);
	assert_int_equal(ev->type, LEAT_EXCHANGE_REQUEST);
	assert_int_equal(ev->nb_fds, LEAT_EXCHANGE_FDS_TAKEN);
	for (i = 0; i < LEAT_EXCHANGE_FDS_TAKEN; i++)
		close(ev->fds[i]);
	side_close(&a);
	side_close(&b);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		LEAKLESS(test_descriptors),   LEAKLESS(test_many_descriptors),
		LEAKLESS(test_never_fetched), LEAKLESS(test_down_behind),
		LEAKLESS(test_turned_away),   LEAKLESS(test_bad_descriptors),
		LEAKLESS(test_not_over_tcp),  LEAKLESS(test_stray_descriptors),
		LEAKLESS(test_stray_answers), LEAKLESS(test_no_room_for_descriptors),
	};

	return cmocka_run_group_tests_name("exchange descriptors", tests, side_over_unix,
					   side_unix_end);
}
