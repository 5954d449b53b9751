/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The address exchange against clients and listeners that break the protocol; and its messages,
 * byte by byte.
 */

#include "exchange_side.h"

static volatile uint64_t mock;

/* The connection between good and victim must stay up, whatever bad clients do to victim. */
static struct side good, victim;
static int good_conn, victim_conn;

static void
victim_open(const struct leat_exchange_conf *conf)
{
	side_open(&good, NULL, NULL);
	side_open(&victim, conf, "127.0.0.1:0");
	side_connect(&good, &victim, &good_conn, &victim_conn);
}

static void
victim_close(void)
{
	side_quiet(&victim, &good);
	assert_string_equal(leat_exchange_state(victim.x, victim_conn), "up");
	assert_string_equal(leat_exchange_state(good.x, good_conn), "up");
	side_close(&good);
	assert_int_equal(side_event(&victim, NULL)->type, LEAT_EXCHANGE_DOWN);
	side_close(&victim);
}

/* Each message, in both directions, has exactly the documented bytes. */
static void
test_bytes(void **state)
{
	/* clang-format off */
	static const uint8_t hello[] = {
		'L', 'E', 'A', 'T', 2, 0, 1, 0, 0, 0, 0, 0, 48, 0, 0, 0,
		'r', 'i', 'n', 'g', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		4, 0, 1, 0, 3, 0, 0, 0,
		'a', 'd', 'd', 'r', 'p', 's', 't', 'u',
	};
	static const uint8_t accept[] = {
		'L', 'E', 'A', 'T', 2, 0, 2, 0, 0, 0, 0, 0, 44, 0, 0, 0,
		'r', 'i', 'n', 'g', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		2, 0, 1, 0, 1, 0, 0, 0,
		'x', 'y', 'z', 'v',
	};
	static const uint8_t proof[] = {
		'L', 'E', 'A', 'T', 2, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	};
	static const uint8_t ready[] = {
		'L', 'E', 'A', 'T', 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	};
	static const uint8_t bye[] = {
		'L', 'E', 'A', 'T', 2, 0, 5, 0, 0, 0, 0, 0, 10, 0, 0, 0,
		0, 0, 0, 0, 2, 0, 2, 0, 'o', 'k',
	};
	static const uint8_t reject[] = {
		'L', 'E', 'A', 'T', 2, 0, 3, 0, 0, 0, 0, 0, 10, 0, 0, 0,
		1, 0, 0, 0, 2, 0, 2, 0, 'n', 'o',
	};
	/* clang-format on */
	struct leat_exchange_data data = {
		.blob = "xy",
		.blob_len = 2,
		.priv = "z",
		.priv_len = 1,
		.proof = "v",
		.proof_len = 1,
	};
	struct leat_exchange_conf conf = { .kind = "ring", .prove = true };
	struct leat_exchange_event *ev;
	uint8_t buf[128];
	struct side s;
	int fd, fd2, conn;

	(void)state;
	side_open(&s, &conf, "127.0.0.1:0");
	fd = raw_connect(&s);
	raw_send(fd, hello, sizeof(hello));
	ev = side_event(&s, NULL);
	assert_int_equal(ev->type, LEAT_EXCHANGE_REQUEST);
	assert_int_equal(ev->blob_len, 4);
	assert_memory_equal(ev->blob, "addr", 4);
	assert_int_equal(ev->priv_len, 1);
	assert_int_equal(ev->priv[0], 'p');
	assert_string_equal(ev->kind, "ring");
	assert_int_equal(ev->proof_len, 3);
	assert_memory_equal(ev->proof, "stu", 3);
	conn = ev->conn;
	assert_int_equal(leat_exchange_accept(s.x, conn, &data, NULL), 0);
	assert_int_equal(raw_recv(fd, &s, buf, sizeof(accept)), sizeof(accept));
	assert_memory_equal(buf, accept, sizeof(accept));
	assert_int_equal(leat_exchange_proven(s.x, conn), -ENOTCONN);
	raw_send(fd, proof, sizeof(proof));
	assert_int_equal(side_event(&s, NULL)->type, LEAT_EXCHANGE_PROVE);
	assert_int_equal(leat_exchange_proven(s.x, conn), 0);
	assert_int_equal(leat_exchange_proven(s.x, conn), -ENOTCONN);
	assert_int_equal(raw_recv(fd, &s, buf, sizeof(proof)), sizeof(proof));
	assert_memory_equal(buf, proof, sizeof(proof));
	raw_send(fd, ready, sizeof(ready));
	assert_int_equal(side_event(&s, NULL)->type, LEAT_EXCHANGE_CONNECTED);
	assert_int_equal(leat_exchange_close(s.x, conn, "ok"), 0);
	assert_int_equal(raw_recv(fd, &s, buf, sizeof(buf)), sizeof(bye));
	assert_memory_equal(buf, bye, sizeof(bye));
	close(fd);

	fd = raw_connect(&s);
	raw_send(fd, hello, sizeof(hello));
	assert_int_equal(leat_exchange_reject(s.x, side_event(&s, NULL)->conn, "no"), 0);
	assert_int_equal(raw_recv(fd, &s, buf, sizeof(buf)), sizeof(reject));
	assert_memory_equal(buf, reject, sizeof(reject));
	close(fd);
	side_close(&s);

	/* Now the test is the listener, and checks and sends each byte of its side. */
	side_open(&s, &conf, NULL);
	fd = raw_bind(s.addr, sizeof(s.addr));
	assert_int_equal(listen(fd, 1), 0);
	data = (struct leat_exchange_data){ .blob = "addr",
					    .blob_len = 4,
					    .priv = "p",
					    .priv_len = 1,
					    .proof = "stu",
					    .proof_len = 3 };
	assert_true(leat_exchange_connect(s.x, s.addr, 0, &data, NULL) > 0);
	fd2 = raw_accept(fd);
	assert_true(fd2 >= 0);
	assert_int_equal(raw_recv(fd2, &s, buf, sizeof(hello)), sizeof(hello));
	assert_memory_equal(buf, hello, sizeof(hello));
	raw_send(fd2, accept, sizeof(accept));
	ev = side_event(&s, NULL);
	assert_int_equal(ev->type, LEAT_EXCHANGE_PROVE);
	assert_memory_equal(ev->blob, "xy", 2);
	assert_int_equal(ev->proof_len, 1);
	assert_int_equal(ev->proof[0], 'v');
	assert_int_equal(leat_exchange_proven(s.x, ev->conn), 0);
	assert_int_equal(raw_recv(fd2, &s, buf, sizeof(proof)), sizeof(proof));
	assert_memory_equal(buf, proof, sizeof(proof));
	raw_send(fd2, proof, sizeof(proof));
	assert_int_equal(raw_recv(fd2, &s, buf, sizeof(ready)), sizeof(ready));
	assert_memory_equal(buf, ready, sizeof(ready));
	ev = side_event(&s, NULL);
	assert_int_equal(ev->type, LEAT_EXCHANGE_CONNECTED);
	assert_memory_equal(ev->blob, "xy", 2);
	raw_send(fd2, bye, sizeof(bye));
	ev = side_event(&s, NULL);
	assert_int_equal(ev->type, LEAT_EXCHANGE_DOWN);
	assert_int_equal(ev->status, 0);
	close(fd2);
	raw_close(fd, s.addr);
	side_close(&s);
}

/* Send bytes, and expect the connection to be closed; if reject is set, after a REJECT. */
static void
expect_dropped(const void *buf, size_t len, bool reject)
{
	uint64_t before = side_stats(&victim).malformed;
	uint8_t answer[512];
	int fd = raw_connect(&victim);
	size_t n;

	raw_send(fd, buf, len);
	side_until(&victim, side_stats(&victim).malformed == before + 1);
	n = raw_recv(fd, &victim, answer, sizeof(answer));
	if (reject) {
		assert_true(n >= 24);
		assert_memory_equal(answer, "LEAT\2\0\3\0", 8);
	}
	close(fd);
	side_quiet(&victim, &good);
}

static void
test_garbage(void **state)
{
	static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
	uint64_t rnd = 12345;
	uint8_t buf[1100];
	unsigned int i;

	(void)state;
	victim_open(NULL);
	expect_dropped(http, sizeof(http) - 1, true);
	for (i = 0; i < 50; i++) {
		size_t j;

		for (j = 0; j < sizeof(buf); j++)
			buf[j] = (uint8_t)test_random(&rnd);
		expect_dropped(buf, 1 + test_random(&rnd) % sizeof(buf), false);
	}
	victim_close();
}

/* A valid HELLO is refused once its byte `at` has `value`, for each row of wrong[]. */
static void
test_malformed(void **state)
{
	static const struct {
		uint16_t at;
		uint8_t value;
	} wrong[] = {
		{ 0, 'l' }, { 3, 'S' },	  { 6, 0 },	{ 6, 2 },    { 6, 4 },	  { 6, 5 },
		{ 6, 6 },   { 6, 7 },	  { 7, 1 },	{ 8, 1 },    { 11, 1 },	  { 12, 0 },
		{ 12, 39 }, { 12, 44 },	  { 13, 0xff }, { 14, 1 },   { 15, 1 },	  { 15, 0x80 },
		{ 16, 0 },  { 16, 0x1b }, { 16, 0xff }, { 21, 'x' }, { 47, 'x' }, { 48, 5 },
		{ 48, 3 },  { 49, 2 },	  { 49, 0xff }, { 50, 2 },   { 51, 1 },	  { 52, 1 },
		{ 53, 1 },  { 54, 1 },	  { 55, 1 },
	};
	uint8_t buf[1100];
	unsigned int i;
	size_t len;

	(void)state;
	victim_open(NULL);
	for (i = 0; i < RTE_DIM(wrong); i++) {
		memset(buf, 0, sizeof(buf));
		raw_hello(buf);
		buf[wrong[i].at] = wrong[i].value;
		expect_dropped(buf, sizeof(buf), true);
	}
	/* A kind that is not terminated. */
	len = raw_hello(buf);
	memset(buf + 16, 'k', 32);
	expect_dropped(buf, len, true);
	victim_close();
}

static void
test_version(void **state)
{
	struct leat_exchange_data none = { 0 };
	struct leat_exchange_event *ev;
	uint8_t buf[256];
	char addr[LEAT_EXCHANGE_ADDR_MAX];
	int fd, fd2;
	size_t n;

	(void)state;
	victim_open(NULL);
	raw_hello(buf);
	buf[4] = 7;
	fd = raw_connect(&victim);
	raw_send(fd, buf, 61);
	n = raw_recv(fd, &victim, buf, sizeof(buf) - 1);
	assert_true(n > 24);
	assert_memory_equal(buf, "LEAT\2\0\3\0", 8);
	assert_int_equal(buf[16], 2);
	assert_int_equal(buf[20], 2);
	buf[n] = '\0';
	assert_non_null(strstr((char *)buf + 24, "version 7"));
	assert_non_null(strstr((char *)buf + 24, "version 2"));
	close(fd);

	/* A listener of a future version rejects the connector, with a header of that version. */
	fd = raw_bind(addr, sizeof(addr));
	assert_int_equal(listen(fd, 1), 0);
	assert_true(leat_exchange_connect(good.x, addr, 0, &none, NULL) > 0);
	fd2 = raw_accept(fd);
	assert_true(fd2 >= 0);
	raw_header(buf, 9, 3, 8);
	memset(buf + 16, 0, 8);
	buf[16] = 2;
	buf[20] = 9;
	raw_send(fd2, buf, 24);
	ev = side_event(&good, &victim);
	assert_int_equal(ev->type, LEAT_EXCHANGE_FAILED);
	assert_int_equal(ev->status, -EPROTONOSUPPORT);
	assert_non_null(strstr(ev->text, "version 9"));
	close(fd2);
	raw_close(fd, addr);
	victim_close();
}

/* A HELLO sent byte by byte is a valid one; a truncated one is not. */
static void
test_trickle(void **state)
{
	struct leat_exchange_event *ev;
	uint8_t buf[64];
	size_t len = raw_hello(buf), i;
	int fd;

	(void)state;
	victim_open(NULL);
	fd = raw_connect(&victim);
	for (i = 0; i < len; i++) {
		raw_send(fd, buf + i, 1);
		side_poll(&victim);
	}
	ev = side_event(&victim, &good);
	assert_int_equal(ev->type, LEAT_EXCHANGE_REQUEST);
	close(fd);
	ev = side_event(&victim, &good);
	assert_int_equal(ev->type, LEAT_EXCHANGE_DOWN);
	assert_int_equal(ev->status, -ECONNRESET);

	for (i = 0; i < len; i++) {
		fd = raw_connect(&victim);
		raw_send(fd, buf, i);
		side_until(&victim, side_stats(&victim).pending == 1);
		if (i % 2 == 0) {
			struct linger hard = { .l_onoff = 1 };

			assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard)),
					 0);
		}
		close(fd);
		side_until(&victim, side_stats(&victim).pending == 0);
	}
	victim_close();
}

/* Clients that never send HELLO, or never READY, hold a slot until their time is up. */
static void
test_slow(void **state)
{
	struct leat_exchange_conf conf = { .kind = "ring", .handshake_timeout_us = 2000000 };
	struct leat_exchange_event *ev;
	uint8_t buf[64], c;
	int fd, fd2, conn;

	(void)state;
	mock = 1000;
	leat_clock_mock_set(&mock);
	victim_open(&conf);
	fd = raw_connect(&victim);
	raw_send(fd, "LEAT", 4);
	side_until(&victim, side_stats(&victim).pending == 1);
	mock += 1990000000;
	side_quiet(&victim, &good);
	assert_int_equal(side_stats(&victim).pending, 1);
	mock += 20000000;
	side_until(&victim, side_stats(&victim).pending == 0);
	assert_int_equal(side_stats(&victim).timeouts, 1);
	assert_int_equal(raw_recv(fd, &victim, &c, 1), 0);
	close(fd);

	fd = raw_connect(&victim);
	raw_send(fd, buf, raw_hello(buf));
	ev = side_event(&victim, &good);
	conn = ev->conn;
	/* The owner may take as long as it likes to answer. */
	mock += UINT64_C(100000000000);
	side_quiet(&victim, &good);
	assert_int_equal(
		leat_exchange_accept(victim.x, conn, &(struct leat_exchange_data){ 0 }, NULL), 0);
	mock += 2100000000;
	ev = side_event(&victim, &good);
	assert_int_equal(ev->type, LEAT_EXCHANGE_DOWN);
	assert_int_equal(ev->conn, conn);
	assert_int_equal(ev->status, -ETIMEDOUT);
	close(fd);

	/*
	 * A peer neither reads the BYE nor closes its socket: after a second victim closes the
	 * connection.
	 */
	fd2 = raw_connect(&victim);
	raw_send(fd2, buf, raw_hello(buf));
	conn = side_event(&victim, &good)->conn;
	assert_int_equal(leat_exchange_close(victim.x, conn, NULL), 0);
	side_quiet(&victim, &good);
	mock += 1100000000;
	side_quiet(&victim, &good);
	/* The connection is closed for good: the peer's bytes are answered with a reset. */
	side_until(&victim, send(fd2, "x", 1, MSG_NOSIGNAL) < 0);
	close(fd2);
	victim_close();
	leat_clock_mock_set(NULL);
}

/* More clients than slots: the oldest silent ones are dropped, and a good client gets through. */
static void
test_flood(void **state)
{
	struct leat_exchange_conf conf = { .kind = "ring", .max_conns = 4, .max_pending = 8 };
	int fds[64], conn, conn_b;
	unsigned int i;

	(void)state;
	victim_open(&conf);
	for (i = 0; i < RTE_DIM(fds); i++) {
		fds[i] = raw_connect(&victim);
		side_poll(&victim);
	}
	side_until(&victim, side_stats(&victim).accepted == 1 + RTE_DIM(fds));
	assert_int_equal(side_stats(&victim).pending, 8);
	assert_int_equal(side_stats(&victim).dropped, RTE_DIM(fds) - 8);
	side_connect(&good, &victim, &conn, &conn_b);
	/* The youngest client is still connected. */
	{
		uint8_t buf[64];

		raw_send(fds[63], buf, raw_hello(buf));
		assert_int_equal(side_event(&victim, &good)->type, LEAT_EXCHANGE_REQUEST);
	}
	for (i = 0; i < RTE_DIM(fds); i++)
		close(fds[i]);
	assert_int_equal(side_event(&victim, &good)->type, LEAT_EXCHANGE_DOWN);
	assert_int_equal(leat_exchange_close(good.x, conn, NULL), 0);
	assert_int_equal(side_event(&victim, &good)->type, LEAT_EXCHANGE_DOWN);
	victim_close();
}

/* On an established connection only a BYE may come; over UNIX sockets also a NOTE. */
static void
test_noise_when_up(void **state)
{
	struct leat_exchange_event *ev;
	uint8_t buf[64], ready[16];
	unsigned int i;

	(void)state;
	victim_open(NULL);
	for (i = 0; i < (side_is_unix() ? 6 : 7); i++) {
		int fd = raw_connect(&victim);

		raw_send(fd, buf, raw_hello(buf));
		ev = side_event(&victim, &good);
		assert_int_equal(ev->type, LEAT_EXCHANGE_REQUEST);
		if (i == 4) {
			/* Bytes come before the owner has answered. */
			raw_send(fd, "x", 1);
		} else if (i == 5) {
			raw_header(ready, LEAT_EXCHANGE_VERSION, 7, 0);
			raw_send(fd, ready, sizeof(ready));
		} else {
			assert_int_equal(leat_exchange_accept(victim.x, ev->conn,
							      &(struct leat_exchange_data){ 0 },
							      NULL),
					 0);
			raw_header(ready, LEAT_EXCHANGE_VERSION, 6, 0);
			raw_send(fd, ready, sizeof(ready));
			raw_header(ready, LEAT_EXCHANGE_VERSION, 4, 0);
			raw_send(fd, ready, sizeof(ready));
			assert_int_equal(side_event(&victim, &good)->type, LEAT_EXCHANGE_CONNECTED);
			if (i == 0)
				raw_send(fd, "x", 1);
			else if (i == 1)
				raw_send(fd, ready, sizeof(ready));
			else if (i == 2)
				raw_send(fd, buf, raw_hello(buf));
			else if (i == 6)
				raw_send(fd, buf, raw_header(buf, LEAT_EXCHANGE_VERSION, 7, 0));
			else
				/* a half-open connection counts as ended */
				(void)shutdown(fd, SHUT_WR);
		}
		ev = side_event(&victim, &good);
		assert_int_equal(ev->type, LEAT_EXCHANGE_DOWN);
		assert_int_equal(ev->status, i == 3 ? -ECONNRESET : -EPROTO);
		close(fd);
	}
	victim_close();
}

/* A connector meets a listener that is not leat's, or that hangs up. */
static void
test_bad_listener(void **state)
{
	static const char banner[] = "SSH-2.0-OpenSSH_9.2\r\n";
	struct leat_exchange_data none = { 0 };
	struct leat_exchange_event *ev;
	struct side a;
	uint8_t buf[64];
	int lfd, fd;

	(void)state;
	side_open(&a, NULL, NULL);
	lfd = raw_bind(a.addr, sizeof(a.addr));
	assert_int_equal(listen(lfd, 4), 0);

	assert_true(leat_exchange_connect(a.x, a.addr, 0, &none, NULL) > 0);
	fd = raw_accept(lfd);
	raw_send(fd, banner, sizeof(banner) - 1);
	ev = side_event(&a, NULL);
	assert_int_equal(ev->type, LEAT_EXCHANGE_FAILED);
	assert_int_equal(ev->status, -EPROTO);
	assert_non_null(strstr(ev->text, "leat listener"));
	close(fd);

	/* Two listeners hang up; the third attempt gets its answer. */
	assert_true(leat_exchange_connect(a.x, a.addr, 60000000, &none, NULL) > 0);
	assert_int_equal(fcntl(lfd, F_SETFL, O_NONBLOCK), 0);
	side_until(&a, (fd = raw_accept(lfd)) >= 0);
	close(fd);
	side_until(&a, (fd = raw_accept(lfd)) >= 0);
	assert_int_equal(raw_recv(fd, &a, buf, 56), 56);
	close(fd);
	side_until(&a, (fd = raw_accept(lfd)) >= 0);
	assert_int_equal(raw_recv(fd, &a, buf, 56), 56);
	raw_hello(buf);
	buf[6] = 2;
	raw_send(fd, buf, 61);
	raw_header(buf, LEAT_EXCHANGE_VERSION, 6, 0);
	raw_send(fd, buf, 16);
	ev = side_event(&a, NULL);
	assert_int_equal(ev->type, LEAT_EXCHANGE_CONNECTED);
	assert_memory_equal(ev->blob, "addr", 4);
	close(fd);
	ev = side_event(&a, NULL);
	assert_int_equal(ev->type, LEAT_EXCHANGE_DOWN);
	assert_int_equal(ev->status, -ECONNRESET);
	raw_close(lfd, a.addr);
	side_close(&a);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),	     cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_malformed),    cmocka_unit_test(test_version),
		cmocka_unit_test(test_trickle),	     cmocka_unit_test(test_slow),
		cmocka_unit_test(test_flood),	     cmocka_unit_test(test_noise_when_up),
		cmocka_unit_test(test_bad_listener),
	};
	int failed;

	failed = cmocka_run_group_tests_name("exchange hostile, TCP", tests, side_over_tcp, NULL);
	failed += cmocka_run_group_tests_name("exchange hostile, UNIX", tests, side_over_unix,
					      side_unix_end);
	return failed;
}
