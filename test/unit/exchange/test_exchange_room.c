/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * When the address exchange has no room for all clients: which one is dropped, and which one gets
 * in.
 */

#include "exchange_source.h"

static volatile uint64_t mock;

/* A test with a mock clock. */
#define MOCKED(f) cmocka_unit_test_setup_teardown(f, clock_start, clock_end)

static int
clock_start(void **state)
{
	(void)state;
	mock = 1000;
	leat_clock_mock_set(&mock);
	return 0;
}

static int
clock_end(void **state)
{
	(void)state;
	leat_clock_mock_set(NULL);
	return 0;
}

/* Let time pass while the listener is polled every millisecond; its events wait in its list. */
static void
pass_ms(struct side *s, unsigned int ms)
{
	while (ms-- > 0) {
		mock += 1000000;
		side_poll(s);
	}
}

static int
hello_from(const struct side *s, unsigned int host)
{
	uint8_t buf[64];
	int fd = raw_connect_from(s, host);

	raw_send(fd, buf, raw_hello(buf));
	return fd;
}

/*
 * Send HELLO, be accepted, and withhold READY.
 * @return the socket
 */
static int
half_open(struct side *s, unsigned int host, int *conn)
{
	int fd = hello_from(s, host);
	struct leat_exchange_event *ev = side_event(s, NULL);

	assert_int_equal(ev->type, LEAT_EXCHANGE_REQUEST);
	*conn = ev->conn;
	assert_int_equal(
		leat_exchange_accept(s->x, ev->conn, &(struct leat_exchange_data){ 0 }, NULL), 0);
	return fd;
}

static int
established(struct side *s, unsigned int host)
{
	uint8_t ready[16];
	int conn, fd = half_open(s, host, &conn);

	raw_header(ready, LEAT_EXCHANGE_VERSION, 6, 0);
	raw_send(fd, ready, sizeof(ready));
	raw_header(ready, LEAT_EXCHANGE_VERSION, 4, 0);
	raw_send(fd, ready, sizeof(ready));
	assert_int_equal(side_event(s, NULL)->type, LEAT_EXCHANGE_CONNECTED);
	return fd;
}

/* Read a REJECT whose reason is BUSY. */
static void
expect_busy(struct side *s, int fd)
{
	uint8_t buf[256];

	assert_true(raw_recv(fd, s, buf, 24) == 24);
	assert_int_equal(buf[6], 3);
	assert_int_equal(buf[16], 4);
	close(fd);
}

/*
 * Eight clients of one source hold all slots and withhold READY. A newcomer gets in long before the
 * time of these clients is up.
 */
static void
test_ready_withheld(void **state)
{
	struct leat_exchange_conf conf = { .kind = "ring", .max_conns = 8, .source_half = 8 };
	struct leat_exchange_data none = { 0 };
	struct side s, good;
	int fds[8], conn, i;

	(void)state;
	side_open(&s, &conf, "127.0.0.1:0");
	side_open(&good, NULL, NULL);
	for (i = 0; i < 8; i++)
		fds[i] = half_open(&s, 1, &conn);
	conn = leat_exchange_connect(good.x, s.addr, 2000000, &none, NULL);
	assert_true(conn > 0);
	/* These clients have five seconds to send READY; at most one passes here. */
	for (i = 0; i < 1000 && good.head == good.tail; i++) {
		pass_ms(&s, 1);
		side_poll(&good);
		while (s.head != s.tail) {
			struct leat_exchange_event *ev = &s.ev[s.head++ % SIDE_EVENTS];

			if (ev->type == LEAT_EXCHANGE_REQUEST)
				assert_int_equal(leat_exchange_accept(s.x, ev->conn, &none, NULL),
						 0);
		}
	}
	assert_true(good.head != good.tail);
	assert_int_equal(good.ev[good.head++ % SIDE_EVENTS].type, LEAT_EXCHANGE_CONNECTED);
	assert_int_equal(side_stats(&s).evicted, 1);
	assert_int_equal(side_stats(&s).timeouts, 0);
	for (i = 0; i < 8; i++)
		close(fds[i]);
	side_close(&good);
	side_close(&s);
}

/*
 * A client that is dropped gets BUSY, even when the listener has unread bytes of it.
 */
static void
test_gives_way(void **state)
{
	struct leat_exchange_conf conf = { .kind = "ring", .max_conns = 1 };
	uint8_t buf[128];
	struct side s;
	int fd, conn;

	(void)state;
	side_open(&s, &conf, "127.0.0.1:0");
	fd = half_open(&s, 1, &conn);
	assert_int_equal(raw_recv(fd, &s, buf, 56), 56);
	pass_ms(&s, 500);
	expect_busy(&s, hello_from(&s, 2));
	assert_int_equal(side_stats(&s).evicted, 1);
	/* The client goes on sending meanwhile. */
	raw_header(buf, LEAT_EXCHANGE_VERSION, 6, 0);
	raw_send(fd, buf, 16);
	assert_int_equal(side_event(&s, NULL)->type, LEAT_EXCHANGE_DOWN);
	expect_busy(&s, fd);
	side_close(&s);
}

/* The listener says BUSY after ACCEPT and PROOF: the connector begins again, with its HELLO. */
static void
test_busy_after_accept(void **state)
{
	struct leat_exchange_conf conf = { .kind = "ring", .max_conns = 1, .prove = true };
	struct leat_exchange_data none = { 0 };
	unsigned int attempt;
	struct side s, good;
	int id;

	(void)state;
	side_open(&s, &conf, "127.0.0.1:0");
	side_open(&good, NULL, NULL);
	assert_true(leat_exchange_connect(good.x, s.addr, 60000000, &none, NULL) > 0);
	for (attempt = 0; attempt < 3; attempt++) {
		struct leat_exchange_event *ev;

		side_until(&good, (mock += 1000000, side_poll(&s), s.head != s.tail));
		ev = side_event(&s, &good);
		assert_int_equal(ev->type, LEAT_EXCHANGE_REQUEST);
		id = ev->conn;
		assert_int_equal(leat_exchange_accept(s.x, id, &none, NULL), 0);
		assert_int_equal(side_event(&s, &good)->type, LEAT_EXCHANGE_PROVE);
		if (attempt == 2)
			break;
		pass_ms(&s, attempt == 0 ? 500 : 1000);
		expect_busy(&s, hello_from(&s, 2));
		assert_int_equal(side_event(&s, &good)->type, LEAT_EXCHANGE_DOWN);
	}
	assert_int_equal(leat_exchange_proven(s.x, id), 0);
	assert_int_equal(side_event(&good, &s)->type, LEAT_EXCHANGE_CONNECTED);
	assert_int_equal(side_event(&s, &good)->type, LEAT_EXCHANGE_CONNECTED);
	side_close(&good);
	side_close(&s);
}

/*
 * For an honest connector the connection is up as soon as it has the listener's PROOF. Its READY
 * may be late, by seconds on a busy machine: a connector that has the PROOF gets no BUSY any more,
 * even if other clients wait for room.
 */
static void
test_proven_stays(void **state)
{
	struct leat_exchange_conf conf = { .kind = "ring", .max_conns = 2, .source_half = 2 };
	uint8_t buf[128];
	int fds[2], conn[2];
	struct side s;
	unsigned int i;

	(void)state;
	side_open(&s, &conf, "127.0.0.1:0");
	for (i = 0; i < 2; i++) {
		fds[i] = half_open(&s, 1, &conn[i]);
		/*
		 * The ACCEPT has no address, so it has 56 bytes. The PROOF is answered with a
		 * PROOF.
		 */
		assert_int_equal(raw_recv(fds[i], &s, buf, 56), 56);
		raw_header(buf, LEAT_EXCHANGE_VERSION, 6, 0);
		raw_send(fds[i], buf, 16);
		assert_int_equal(raw_recv(fds[i], &s, buf, 16), 16);
		assert_int_equal(buf[6], 6);
	}
	for (i = 0; i < 4; i++) {
		pass_ms(&s, 1000);
		expect_busy(&s, hello_from(&s, 2 + i % 2));
	}
	assert_int_equal(side_stats(&s).evicted, 0);
	for (i = 0; i < 2; i++) {
		raw_header(buf, LEAT_EXCHANGE_VERSION, 4, 0);
		raw_send(fds[i], buf, 16);
		assert_int_equal(side_event(&s, NULL)->type, LEAT_EXCHANGE_CONNECTED);
		close(fds[i]);
		assert_int_equal(side_event(&s, NULL)->type, LEAT_EXCHANGE_DOWN);
	}
	side_close(&s);
}

/* Time in which the listener is not polled does not count against its connectors. */
static void
test_pause_of_the_listener(void **state)
{
	struct leat_exchange_conf conf = { .kind = "ring", .max_conns = 1 };
	struct side s;
	int fd, conn;

	(void)state;
	side_open(&s, &conf, "127.0.0.1:0");
	fd = half_open(&s, 1, &conn);
	mock += 3000000000;
	expect_busy(&s, hello_from(&s, 2));
	assert_int_equal(side_stats(&s).evicted, 0);
	close(fd);
	side_close(&s);
}

/*
 * Eight honest connectors, room for two half-open ones, and addresses that take 700 ms to be
 * proven: the connectors do not displace each other for ever.
 */
static void
test_all_are_slow(void **state)
{
	struct leat_exchange_conf conf = {
		.kind = "ring", .max_conns = 8, .source_half = 2, .prove = true
	};
	struct leat_exchange_data none = { 0 };
	unsigned int i, k, up = 0;
	uint64_t due[8] = { 0 };
	int id[8] = { 0 };
	struct side s, good;

	(void)state;
	side_open(&s, &conf, "127.0.0.1:0");
	side_open(&good, NULL, NULL);
	for (i = 0; i < 8; i++)
		assert_true(leat_exchange_connect(good.x, s.addr, 10000000, &none, NULL) > 0);
	for (i = 0; i < 10000 && up < 8; i++) {
		pass_ms(&s, 1);
		side_poll(&good);
		while (s.head != s.tail) {
			struct leat_exchange_event *ev = &s.ev[s.head++ % SIDE_EVENTS];

			if (ev->type == LEAT_EXCHANGE_REQUEST)
				assert_int_equal(leat_exchange_accept(s.x, ev->conn, &none, NULL),
						 0);
			for (k = 0; k < 8; k++) {
				if (ev->type == LEAT_EXCHANGE_PROVE && id[k] == 0) {
					id[k] = ev->conn;
					due[k] = mock + 700000000;
					break;
				}
				if (ev->type == LEAT_EXCHANGE_DOWN && id[k] == ev->conn)
					id[k] = 0;
			}
		}
		for (k = 0; k < 8; k++) {
			if (id[k] == 0 || mock < due[k])
				continue;
			assert_int_equal(leat_exchange_proven(s.x, id[k]), 0);
			id[k] = 0;
		}
		while (good.head != good.tail) {
			assert_int_equal(good.ev[good.head++ % SIDE_EVENTS].type,
					 LEAT_EXCHANGE_CONNECTED);
			up++;
		}
	}
	assert_int_equal(up, 8);
	side_close(&good);
	side_close(&s);
}

/* At most source_half connections of a source may be half open, whatever other sources do. */
static void
test_source_half(void **state)
{
	struct leat_exchange_conf conf = { .kind = "ring", .max_conns = 16, .source_half = 2 };
	int a, b, c, conn;
	struct side s;

	(void)state;
	side_open(&s, &conf, "127.0.0.1:0");
	a = half_open(&s, 2, &conn);
	b = half_open(&s, 2, &conn);
	expect_busy(&s, hello_from(&s, 2));
	c = half_open(&s, 3, &conn);
	assert_int_equal(side_stats(&s).busy, 1);
	close(a);
	assert_int_equal(side_event(&s, NULL)->type, LEAT_EXCHANGE_DOWN);
	/* A connection that the owner has not answered counts, too, and is not dropped. */
	a = hello_from(&s, 2);
	conn = side_event(&s, NULL)->conn;
	expect_busy(&s, hello_from(&s, 2));
	assert_string_equal(leat_exchange_state(s.x, conn), "asking");
	close(a);
	close(b);
	close(c);
	side_close(&s);
}

static void
test_source_max(void **state)
{
	struct leat_exchange_conf conf = { .kind = "ring", .max_conns = 16, .source_max = 2 };
	struct side s;
	int a, b, c;

	(void)state;
	/* One socket for both families: IPv4 addresses come as mapped IPv6 addresses. */
	side_open(&s, &conf, ":0");
	a = established(&s, 2);
	b = established(&s, 2);
	expect_busy(&s, hello_from(&s, 2));
	c = established(&s, 3);
	close(a);
	assert_int_equal(side_event(&s, NULL)->type, LEAT_EXCHANGE_DOWN);
	a = established(&s, 2);
	expect_busy(&s, hello_from(&s, 2));
	close(a);
	close(b);
	close(c);
	side_close(&s);
}

/* A freed slot goes to the source that has fewer connections, if both were refused before. */
static void
test_others_wait(void **state)
{
	struct leat_exchange_conf conf = { .kind = "ring", .max_conns = 4 };
	int fds[4], other, i;
	struct side s;

	(void)state;
	side_open(&s, &conf, "127.0.0.1:0");
	for (i = 0; i < 4; i++)
		fds[i] = established(&s, 2);
	expect_busy(&s, hello_from(&s, 3));
	expect_busy(&s, hello_from(&s, 2));
	close(fds[0]);
	assert_int_equal(side_event(&s, NULL)->type, LEAT_EXCHANGE_DOWN);
	expect_busy(&s, hello_from(&s, 2));
	other = established(&s, 3);
	close(other);
	assert_int_equal(side_event(&s, NULL)->type, LEAT_EXCHANGE_DOWN);
	/* Source 3 has had its slot: no slot is kept for it any more. */
	fds[0] = established(&s, 2);
	/* The slot kept for source 3 is free again when source 3 has not come for 400 ms. */
	expect_busy(&s, hello_from(&s, 3));
	close(fds[0]);
	assert_int_equal(side_event(&s, NULL)->type, LEAT_EXCHANGE_DOWN);
	mock += 400000000;
	fds[0] = established(&s, 2);
	for (i = 0; i < 4; i++)
		close(fds[i]);
	side_close(&s);
}

/* Silent clients of one source displace clients of their own source, not those of another. */
static void
test_silent_flood(void **state)
{
	struct leat_exchange_conf conf = { .kind = "ring", .max_conns = 4, .max_pending = 8 };
	int fds[64], slow;
	unsigned int i;
	uint8_t buf[64];
	struct side s;

	(void)state;
	side_open(&s, &conf, "127.0.0.1:0");
	slow = raw_connect_from(&s, 3);
	side_until(&s, side_stats(&s).accepted == 1);
	for (i = 0; i < RTE_DIM(fds); i++) {
		fds[i] = raw_connect_from(&s, 2);
		side_poll(&s);
	}
	side_until(&s, side_stats(&s).accepted == 1 + RTE_DIM(fds));
	assert_int_equal(side_stats(&s).pending, 8);
	raw_send(slow, buf, raw_hello(buf));
	assert_int_equal(side_event(&s, NULL)->type, LEAT_EXCHANGE_REQUEST);
	close(slow);
	for (i = 0; i < RTE_DIM(fds); i++)
		close(fds[i]);
	side_close(&s);
}

/* Many clients connect between two polls, and have sent HELLO: none of them counts as silent. */
static void
test_hello_in_time(void **state)
{
	struct leat_exchange_conf conf = { .kind = "ring", .max_pending = 4, .source_half = 64 };
	unsigned int i, requests = 0;
	struct side s;
	int fds[32];

	(void)state;
	side_open(&s, &conf, "127.0.0.1:0");
	for (i = 0; i < RTE_DIM(fds); i++)
		fds[i] = hello_from(&s, 2);
	for (; requests < RTE_DIM(fds); requests++)
		assert_int_equal(side_event(&s, NULL)->type, LEAT_EXCHANGE_REQUEST);
	assert_int_equal(side_stats(&s).dropped, 0);
	for (i = 0; i < RTE_DIM(fds); i++)
		close(fds[i]);
	side_close(&s);
}

/* A byte now and then does not prolong the time for HELLO. */
static void
test_byte_by_byte(void **state)
{
	struct leat_exchange_conf conf = { .kind = "ring", .handshake_timeout_us = 1000000 };
	uint8_t buf[64], c;
	struct side s;
	unsigned int i;
	int fd;

	(void)state;
	side_open(&s, &conf, "127.0.0.1:0");
	fd = raw_connect(&s);
	(void)raw_hello(buf);
	side_until(&s, side_stats(&s).pending == 1);
	for (i = 0; i < 9; i++) {
		raw_send(fd, buf + i, 1);
		mock += 100000000;
		side_poll(&s);
		assert_int_equal(side_stats(&s).pending, 1);
	}
	raw_send(fd, buf + i, 1);
	mock += 110000000;
	side_until(&s, side_stats(&s).pending == 0);
	assert_int_equal(side_stats(&s).timeouts, 1);
	(void)raw_recv(fd, &s, &c, 1);
	close(fd);
	side_close(&s);
}

/* Each attempt gets BUSY until the connect's time is up: then the connect fails as busy. */
static void
test_busy_for_good(void **state)
{
	struct leat_exchange_conf conf = { .kind = "ring", .max_conns = 1 };
	struct leat_exchange_data none = { 0 };
	struct leat_exchange_event *ev;
	struct side s, good;
	unsigned int i;
	int fd;

	(void)state;
	side_open(&s, &conf, "127.0.0.1:0");
	side_open(&good, NULL, NULL);
	fd = established(&s, 1);
	assert_true(leat_exchange_connect(good.x, s.addr, 3000000, &none, NULL) > 0);
	for (i = 0; i < 299; i++) {
		mock += 10000000;
		side_poll(&good);
		side_poll(&s);
		assert_int_equal(good.head, good.tail);
	}
	/* Pauses of up to 100 ms leave time for about 40 attempts in 3 s. */
	assert_in_range(side_stats(&s).busy, 10, 150);
	side_until(&good, (mock += 10000000, side_poll(&s), good.head != good.tail));
	ev = side_event(&good, NULL);
	assert_int_equal(ev->type, LEAT_EXCHANGE_FAILED);
	assert_int_equal(ev->status, -ECONNREFUSED);
	assert_non_null(strstr(ev->text, "busy for 3."));
	assert_non_null(strstr(ev->text, "too many connections here"));
	close(fd);
	side_close(&good);
	side_close(&s);
}

/*
 * After a BUSY, the next attempt gets no answer before the connect's time is up: the connect still
 * fails as busy.
 */
static void
test_busy_then_silent(void **state)
{
	struct leat_exchange_conf conf = { .kind = "ring", .max_conns = 1 };
	struct leat_exchange_data none = { 0 };
	struct leat_exchange_event *ev;
	struct side s, good;
	int fd, conn;

	(void)state;
	side_open(&s, &conf, "127.0.0.1:0");
	side_open(&good, NULL, NULL);
	fd = established(&s, 1);
	conn = leat_exchange_connect(good.x, s.addr, 3000000, &none, NULL);
	assert_true(conn > 0);
	side_until(&good, (side_poll(&s), side_stats(&s).busy == 1));
	side_until(&good, strcmp(leat_exchange_state(good.x, conn), "waiting to try again") == 0);
	side_until(&good, (mock += 1000000, strcmp(leat_exchange_state(good.x, conn),
						   "waiting for the answer") == 0));
	mock += 3000000000;
	ev = side_event(&good, NULL);
	assert_int_equal(ev->type, LEAT_EXCHANGE_FAILED);
	assert_int_equal(ev->status, -ECONNREFUSED);
	assert_non_null(strstr(ev->text, "too many connections here"));
	close(fd);
	side_close(&good);
	side_close(&s);
}

/*
 * Connection ids begin near the end of their range, and wrap here: no two of 16 connections have
 * the same id.
 */
static void
test_ids_wrap(void **state)
{
	struct side a, b;
	int ids[16], ca, cb;
	unsigned int i, j;

	(void)state;
	side_open(&a, NULL, NULL);
	side_open(&b, NULL, "127.0.0.1:0");
	for (i = 0; i < RTE_DIM(ids); i++) {
		side_connect(&a, &b, &ca, &cb);
		assert_true(cb > 0);
		ids[i] = cb;
		for (j = 0; j < i; j++) {
			assert_int_not_equal(ids[j], cb);
			assert_string_equal(leat_exchange_state(b.x, ids[j]), "dead");
		}
		assert_int_equal(leat_exchange_close(b.x, cb, NULL), 0);
		assert_int_equal(side_event(&a, &b)->type, LEAT_EXCHANGE_DOWN);
	}
	side_close(&a);
	side_close(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		MOCKED(test_ready_withheld),
		MOCKED(test_proven_stays),
		MOCKED(test_pause_of_the_listener),
		MOCKED(test_all_are_slow),
		cmocka_unit_test(test_source_half),
		MOCKED(test_busy_after_accept),
		MOCKED(test_gives_way),
		MOCKED(test_busy_then_silent),
		cmocka_unit_test(test_source_max),
		MOCKED(test_others_wait),
		cmocka_unit_test(test_silent_flood),
		cmocka_unit_test(test_hello_in_time),
		MOCKED(test_byte_by_byte),
		MOCKED(test_busy_for_good),
		cmocka_unit_test(test_ids_wrap),
	};

	int failed;

	failed = cmocka_run_group_tests_name("exchange room, TCP", tests, side_over_tcp, NULL);
	failed += cmocka_run_group_tests_name("exchange room, UNIX", tests, side_over_unix,
					      sources_end);
	return failed;
}
