/* SPDX-License-Identifier: BSD-3-Clause */

/* The address exchange between two well-behaved sides. */

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "exchange_side.h"

static void
test_connect(void **state)
{
	static const char request[] = "hello from a";
	static const char answer[] = "hello from b";
	uint8_t blob[LEAT_EXCHANGE_BLOB_MAX], priv[LEAT_EXCHANGE_PRIV_MAX];
	struct leat_exchange_data data = { .blob = blob, .blob_len = sizeof(blob) };
	struct leat_exchange_event *ev;
	struct side a, b;
	int conn, conn_b, x, y;
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(blob); i++)
		blob[i] = (uint8_t)i;
	memset(priv, 0xa5, sizeof(priv));
	side_open(&a, NULL, NULL);
	side_open(&b, &(struct leat_exchange_conf){ .kind = "tcp" }, "127.0.0.1:0");

	data.priv = request;
	data.priv_len = sizeof(request);
	conn = leat_exchange_connect(a.x, b.addr, 0, &data, &x);
	assert_true(conn > 0);
	ev = side_event(&b, &a);
	assert_int_equal(ev->type, LEAT_EXCHANGE_REQUEST);
	assert_int_equal(ev->status, 0);
	assert_int_equal(ev->blob_len, sizeof(blob));
	assert_memory_equal(ev->blob, blob, sizeof(blob));
	assert_int_equal(ev->priv_len, sizeof(request));
	assert_memory_equal(ev->priv, request, sizeof(request));
	assert_string_equal(ev->kind, "ring");
	assert_int_equal(strncmp(ev->addr, side_is_unix() ? "uid-" : "127.", 4), 0);
	assert_null(ev->user);
	conn_b = ev->conn;
	assert_string_equal(leat_exchange_state(b.x, conn_b), "asking");
	assert_string_equal(leat_exchange_state(a.x, conn), "waiting for the answer");

	data.blob = answer;
	data.blob_len = sizeof(answer);
	data.priv = priv;
	data.priv_len = sizeof(priv);
	assert_int_equal(leat_exchange_accept(b.x, conn_b, &data, &y), 0);
	assert_int_equal(leat_exchange_accept(b.x, conn_b, &data, &y), -ENOTCONN);
	ev = side_event(&a, &b);
	assert_int_equal(ev->type, LEAT_EXCHANGE_CONNECTED);
	assert_int_equal(ev->conn, conn);
	assert_ptr_equal(ev->user, &x);
	assert_string_equal(ev->kind, "tcp");
	assert_string_equal(ev->addr, b.addr);
	assert_int_equal(ev->blob_len, sizeof(answer));
	assert_memory_equal(ev->blob, answer, sizeof(answer));
	assert_int_equal(ev->priv_len, sizeof(priv));
	assert_memory_equal(ev->priv, priv, sizeof(priv));
	ev = side_event(&b, &a);
	assert_int_equal(ev->type, LEAT_EXCHANGE_CONNECTED);
	assert_int_equal(ev->conn, conn_b);
	assert_ptr_equal(ev->user, &y);
	assert_int_equal(ev->blob_len, 0);
	assert_string_equal(leat_exchange_state(a.x, conn), "up");
	assert_int_equal(side_stats(&a).connected, 1);
	assert_int_equal(side_stats(&b).connected, 1);
	side_quiet(&a, &b);

	side_close(&a);
	ev = side_event(&b, NULL);
	assert_int_equal(ev->type, LEAT_EXCHANGE_DOWN);
	assert_int_equal(ev->status, 0);
	assert_ptr_equal(ev->user, &y);
	assert_int_equal(side_stats(&b).conns, 0);
	side_close(&b);
}

static void
test_reject(void **state)
{
	struct leat_exchange_data none = { 0 };
	struct leat_exchange_event *ev;
	struct side a, b;
	int conn, conn_b;

	(void)state;
	side_open(&a, NULL, NULL);
	side_open(&b, NULL, "127.0.0.1:0");
	conn = leat_exchange_connect(a.x, b.addr, 0, &none, NULL);
	conn_b = side_event(&b, &a)->conn;
	assert_int_equal(leat_exchange_reject(b.x, conn_b, "not today\n"), 0);
	assert_int_equal(leat_exchange_reject(b.x, conn_b, "twice"), -ENOTCONN);
	assert_string_equal(leat_exchange_state(b.x, conn_b), "dead");
	ev = side_event(&a, &b);
	assert_int_equal(ev->type, LEAT_EXCHANGE_FAILED);
	assert_int_equal(ev->conn, conn);
	assert_int_equal(ev->status, -ECONNREFUSED);
	assert_non_null(strstr(ev->text, "rejected: not today?"));
	side_quiet(&b, &a);
	assert_int_equal(leat_exchange_close(a.x, conn, NULL), -ENOTCONN);
	assert_int_equal(side_stats(&a).conns, 0);
	assert_int_equal(side_stats(&b).conns, 0);
	side_close(&a);
	side_close(&b);
}

/*
 * When one side closes, the other gets DOWN with the closing side's text; when both close at once,
 * neither gets an event.
 */
static void
test_close(void **state)
{
	struct leat_exchange_event *ev;
	struct side a, b;
	int ca, cb;

	(void)state;
	side_open(&a, NULL, NULL);
	side_open(&b, NULL, "127.0.0.1:0");

	side_connect(&a, &b, &ca, &cb);
	assert_int_equal(leat_exchange_close(a.x, ca, "work is done"), 0);
	assert_int_equal(leat_exchange_close(a.x, ca, NULL), -ENOTCONN);
	ev = side_event(&b, &a);
	assert_int_equal(ev->type, LEAT_EXCHANGE_DOWN);
	assert_int_equal(ev->conn, cb);
	assert_int_equal(ev->status, 0);
	assert_non_null(strstr(ev->text, "work is done"));
	side_quiet(&a, &b);

	side_connect(&a, &b, &ca, &cb);
	assert_int_equal(leat_exchange_close(b.x, cb, NULL), 0);
	ev = side_event(&a, &b);
	assert_int_equal(ev->type, LEAT_EXCHANGE_DOWN);
	assert_int_equal(ev->status, 0);
	side_quiet(&b, &a);

	side_connect(&a, &b, &ca, &cb);
	assert_int_equal(leat_exchange_close(b.x, cb, NULL), 0);
	assert_int_equal(leat_exchange_close(a.x, ca, NULL), 0);
	side_quiet(&a, &b);
	side_quiet(&b, &a);
	side_close(&a);
	side_close(&b);
}

/*
 * With linger, leat_exchange_lingers() tells the side that closed first whether its peer has closed
 * as well. Until then the peer's id of the connection stays valid. The clock stands still, since
 * after a second the first side would no longer wait for the peer.
 */
static void
test_linger(void **state)
{
	static volatile uint64_t mock = 1000;
	struct leat_exchange_conf conf = { .kind = "test", .linger = true };
	struct leat_exchange_event *ev;
	struct side a, b;
	int ca, cb;

	(void)state;
	leat_clock_mock_set(&mock);
	side_open(&a, &conf, NULL);
	side_open(&b, &conf, "127.0.0.1:0");
	side_connect(&a, &b, &ca, &cb);
	assert_false(leat_exchange_lingers(a.x, ca));
	assert_int_equal(leat_exchange_close(a.x, ca, "enough"), 0);
	ev = side_event(&b, &a);
	assert_int_equal(ev->type, LEAT_EXCHANGE_DOWN);
	assert_int_equal(ev->status, 0);
	assert_non_null(strstr(ev->text, "enough"));
	assert_string_equal(leat_exchange_state(b.x, cb), "parting");
	side_quiet(&a, &b);
	assert_true(leat_exchange_lingers(a.x, ca));
	assert_false(leat_exchange_lingers(b.x, cb));
	assert_int_equal(leat_exchange_close(b.x, cb, NULL), 0);
	assert_int_equal(leat_exchange_close(b.x, cb, NULL), -ENOTCONN);
	side_until(&a, !leat_exchange_lingers(a.x, ca));

	/* a is destroyed before b has closed the connection: b's id stays valid all the same. */
	side_connect(&a, &b, &ca, &cb);
	assert_int_equal(leat_exchange_close(a.x, ca, NULL), 0);
	assert_int_equal(side_event(&b, &a)->type, LEAT_EXCHANGE_DOWN);
	side_close(&a);
	side_quiet(&b, &b);
	assert_string_equal(leat_exchange_state(b.x, cb), "parting");
	side_close(&b);
	leat_clock_mock_set(NULL);
}

/*
 * A connector withdraws its request: the listener gets DOWN if it has seen the request, otherwise
 * no event. A listener closes while a request waits: the connect fails.
 */
static void
test_withdraw(void **state)
{
	struct leat_exchange_data none = { 0 };
	struct leat_exchange_event *ev;
	struct side a, b;
	int conn, conn_b;

	(void)state;
	side_open(&a, NULL, NULL);
	side_open(&b, NULL, "127.0.0.1:0");

	conn = leat_exchange_connect(a.x, b.addr, 0, &none, NULL);
	assert_int_equal(leat_exchange_close(a.x, conn, NULL), 0);
	side_quiet(&b, &a);

	conn = leat_exchange_connect(a.x, b.addr, 0, &none, NULL);
	conn_b = side_event(&b, &a)->conn;
	assert_int_equal(leat_exchange_close(a.x, conn, "changed my mind"), 0);
	ev = side_event(&b, &a);
	assert_int_equal(ev->type, LEAT_EXCHANGE_DOWN);
	assert_int_equal(ev->conn, conn_b);
	assert_int_equal(ev->status, -ECONNRESET);
	assert_int_equal(leat_exchange_accept(b.x, conn_b, &none, NULL), -ENOTCONN);

	/* The listener closes while a request waits. */
	conn = leat_exchange_connect(a.x, b.addr, 0, &none, NULL);
	assert_int_equal(side_event(&b, &a)->type, LEAT_EXCHANGE_REQUEST);
	side_close(&b);
	ev = side_event(&a, NULL);
	assert_int_equal(ev->type, LEAT_EXCHANGE_FAILED);
	assert_int_equal(ev->conn, conn);
	assert_int_equal(ev->status, -ECONNREFUSED);
	side_close(&a);
}

/* A killed process sends no BYE, but its kernel closes its sockets: the listener gets DOWN. */
static void
test_killed(void **state)
{
	struct leat_exchange_conf conf = { .kind = "ring" };
	struct leat_exchange_event *ev;
	struct side a, b;
	int pipefd[2], ca, cb, status;
	pid_t pid;

	(void)state;
	side_open(&b, NULL, "127.0.0.1:0");
	if (side_is_unix())
		conf.dir = side_dir;
	assert_int_equal(pipe(pipefd), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct leat_exchange_data none = { 0 };
		bool up = false;

		/* The child must not use the parent's listener. */
		b.x = NULL;
		for (ca = 3; ca < 64; ca++)
			if (ca != pipefd[1])
				(void)close(ca);
		memset(&a, 0, sizeof(a));
		a.x = leat_exchange_create(&conf);
		if (a.x == NULL || leat_exchange_connect(a.x, b.addr, 0, &none, NULL) < 0)
			_exit(1);
		for (;;) {
			side_poll(&a);
			if (!up && a.tail > 0 && a.ev[0].type == LEAT_EXCHANGE_CONNECTED) {
				up = true;
				if (write(pipefd[1], "x", 1) != 1)
					_exit(1);
			}
			sched_yield();
		}
	}
	ev = side_event(&b, NULL);
	assert_int_equal(ev->type, LEAT_EXCHANGE_REQUEST);
	cb = ev->conn;
	assert_int_equal(leat_exchange_accept(b.x, cb, &(struct leat_exchange_data){ 0 }, &b), 0);
	assert_int_equal(side_event(&b, NULL)->type, LEAT_EXCHANGE_CONNECTED);
	assert_int_equal(read(pipefd[0], &status, 1), 1);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	ev = side_event(&b, NULL);
	assert_int_equal(ev->type, LEAT_EXCHANGE_DOWN);
	assert_int_equal(ev->conn, cb);
	assert_int_equal(ev->status, -ECONNRESET);
	assert_ptr_equal(ev->user, &b);
	close(pipefd[0]);
	close(pipefd[1]);
	side_close(&b);
}

static void
test_names(void **state)
{
	/* A label of more than 63 characters is no name; no server is asked for it. */
	static const char bad[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
				  "aaaa:7000";
	struct leat_exchange_data none = { 0 };
	struct leat_exchange_event *ev;
	char addr[LEAT_EXCHANGE_ADDR_MAX];
	struct side a, b;
	int conn;

	(void)state;
	side_open(&a, NULL, NULL);
	conn = leat_exchange_connect(a.x, bad, 30000000, &none, NULL);
	assert_true(conn > 0);
	ev = side_event(&a, NULL);
	assert_int_equal(ev->type, LEAT_EXCHANGE_FAILED);
	assert_int_equal(ev->conn, conn);
	assert_int_equal(ev->status, -EHOSTUNREACH);

	/*
	 * A connect is withdrawn while its name is looked up: the lookup's memory stays valid until
	 * the lookup ends.
	 */
	conn = leat_exchange_connect(a.x, "localhost:1", 0, &none, NULL);
	assert_true(conn > 0);
	assert_string_equal(leat_exchange_state(a.x, conn), "resolving the name");
	assert_int_equal(leat_exchange_close(a.x, conn, NULL), 0);

	side_open(&b, NULL, "localhost:0");
	snprintf(addr, sizeof(addr), "localhost:%d", raw_port(&b));
	conn = leat_exchange_connect(a.x, addr, 30000000, &none, NULL);
	assert_true(conn > 0);
	ev = side_event(&b, &a);
	assert_int_equal(ev->type, LEAT_EXCHANGE_REQUEST);
	assert_int_equal(leat_exchange_accept(b.x, ev->conn, &none, NULL), 0);
	assert_int_equal(side_event(&a, &b)->type, LEAT_EXCHANGE_CONNECTED);
	side_close(&a);
	side_close(&b);
}

static void
test_ipv6(void **state)
{
	struct sockaddr_in6 sin6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int fd = socket(AF_INET6, SOCK_STREAM, 0), ca, cb;
	bool there = false;
	struct side a, b;

	(void)state;
	if (fd >= 0) {
		there = bind(fd, (struct sockaddr *)&sin6, sizeof(sin6)) == 0;
		close(fd);
	}
	if (!there)
		skip();
	side_open(&a, NULL, NULL);
	side_open(&b, NULL, "[::1]:0");
	assert_int_equal(strncmp(b.addr, "[::1]:", 6), 0);
	side_connect(&a, &b, &ca, &cb);
	side_close(&b);
	assert_int_equal(side_event(&a, NULL)->type, LEAT_EXCHANGE_DOWN);

	/* b listens with one socket on all interfaces, for IPv4 and IPv6. */
	side_open(&b, NULL, ":0");
	snprintf(b.addr, sizeof(b.addr), "[::1]:%d", raw_port(&b));
	side_connect(&a, &b, &ca, &cb);
	snprintf(b.addr, sizeof(b.addr), "127.0.0.1:%d", raw_port(&b));
	side_connect(&a, &b, &ca, &cb);
	side_close(&a);
	side_close(&b);
}

static void
test_arguments(void **state)
{
	static const char *const bad[] = {
		"",	      "host",	 "host:",	 ":7000",     "host:0",
		"host:65536", "host:1x", "::1:7000",	 "[::1]",     "[::1:7000",
		"[]:7000",    "host:-1", "host:0000001", "[::1]7000", "host: 7000"
	};
	struct leat_exchange_data none = { 0 }, data = { .blob_len = 1 };
	struct leat_exchange_event ev;
	struct side a, b;
	unsigned int i;
	char str[4];

	(void)state;
	assert_null(leat_exchange_create(&(struct leat_exchange_conf){ .name = "x" }));
	assert_int_equal(rte_errno, EINVAL);
	assert_null(leat_exchange_create(&(struct leat_exchange_conf){ .kind = "a b" }));
	assert_null(leat_exchange_create(
		&(struct leat_exchange_conf){ .kind = "0123456789012345678901234567890"
						      "1" }));
	assert_null(leat_exchange_create(
		&(struct leat_exchange_conf){ .kind = "x", .dead_after_us = 1 }));
	leat_exchange_destroy(NULL);

	side_open(&a, NULL, NULL);
	for (i = 0; i < RTE_DIM(bad); i++) {
		assert_int_equal(leat_exchange_connect(a.x, bad[i], 0, &none, NULL), -EINVAL);
		assert_int_equal(rte_errno, EINVAL);
		assert_non_null(strstr(leat_err_msg(), bad[i]));
	}
	assert_int_equal(leat_exchange_connect(a.x, NULL, 0, &none, NULL), -EINVAL);
	assert_int_equal(leat_exchange_connect(a.x, "127.0.0.1:1", 0, &data, NULL), -EINVAL);
	data.blob = str;
	data.blob_len = LEAT_EXCHANGE_BLOB_MAX + 1;
	assert_int_equal(leat_exchange_connect(a.x, "127.0.0.1:1", 0, &data, NULL), -EINVAL);
	data.blob_len = 0;
	data.priv = str;
	data.priv_len = LEAT_EXCHANGE_PRIV_MAX + 1;
	assert_int_equal(leat_exchange_connect(a.x, "127.0.0.1:1", 0, &data, NULL), -EINVAL);
	assert_int_equal(leat_exchange_listen(a.x, "nohost"), -EINVAL);
	assert_int_equal(leat_exchange_listen(a.x, "192.0.2.77:0"), -EADDRNOTAVAIL);
	assert_int_equal(leat_exchange_listen_addr(a.x, str, sizeof(str)), -ENOENT);

	side_open(&b, NULL, "127.0.0.1:0");
	assert_int_equal(leat_exchange_listen(b.x, "127.0.0.1:0"), -EALREADY);
	assert_int_equal(leat_exchange_listen(a.x, b.addr), -EADDRINUSE);
	assert_non_null(strstr(leat_err_msg(), b.addr));
	assert_int_equal(leat_exchange_listen_addr(b.x, str, sizeof(str)), -ENOSPC);

	assert_string_equal(leat_exchange_state(a.x, -5), "dead");
	assert_string_equal(leat_exchange_state(a.x, 0), "dead");
	assert_string_equal(leat_exchange_state(a.x, INT32_MAX), "dead");
	assert_int_equal(leat_exchange_close(a.x, 1 << 16, NULL), -ENOTCONN);
	assert_int_equal(leat_exchange_accept(a.x, 1 << 16, &none, NULL), -ENOTCONN);
	assert_int_equal(leat_exchange_poll(a.x, leat_now(), &ev, 0), 0);
	side_close(&a);
	side_close(&b);
}

/*
 * max_conns limits the connections of each side: at the limit leat_exchange_connect() fails with
 * -ENOSPC at side a, and side b answers BUSY to side c.
 */
static void
test_full(void **state)
{
	struct leat_exchange_conf conf = { .kind = "ring", .max_conns = 2 };
	struct leat_exchange_data none = { 0 };
	struct leat_exchange_event *ev;
	struct side a, b, c;
	int ca, cb, conn;

	(void)state;
	side_open(&a, &conf, NULL);
	side_open(&b, &conf, "127.0.0.1:0");
	side_open(&c, NULL, NULL);
	side_connect(&a, &b, &ca, &cb);
	side_connect(&a, &b, &ca, &cb);
	assert_int_equal(leat_exchange_connect(a.x, b.addr, 0, &none, NULL), -ENOSPC);

	/* The connector gets BUSY, and tries again by itself. */
	conn = leat_exchange_connect(c.x, b.addr, 60000000, &none, NULL);
	assert_true(conn > 0);
	while (side_stats(&b).busy < 2) {
		side_poll(&b);
		side_poll(&c);
	}
	assert_int_equal(c.head, c.tail);
	assert_int_equal(leat_exchange_close(b.x, cb, NULL), 0);
	assert_int_equal(side_event(&a, &b)->type, LEAT_EXCHANGE_DOWN);
	ev = side_event(&b, &c);
	assert_int_equal(ev->type, LEAT_EXCHANGE_REQUEST);
	assert_int_equal(leat_exchange_accept(b.x, ev->conn, &none, NULL), 0);
	ev = side_event(&c, &b);
	assert_int_equal(ev->type, LEAT_EXCHANGE_CONNECTED);
	assert_int_equal(ev->conn, conn);
	side_close(&a);
	side_close(&b);
	side_close(&c);
}

/* Events for which the caller has no room are delivered later, one by one and in order. */
static void
test_one_event_at_a_time(void **state)
{
	struct leat_exchange_data none = { 0 };
	struct leat_exchange_event ev;
	struct side a, b;
	int conn, id;

	(void)state;
	side_open(&a, NULL, NULL);
	side_open(&b, NULL, "127.0.0.1:0");
	conn = leat_exchange_connect(a.x, b.addr, 0, &none, NULL);
	assert_true(conn >= 0);
	id = side_event(&b, &a)->conn;
	assert_int_equal(leat_exchange_accept(b.x, id, &none, NULL), 0);
	assert_int_equal(leat_exchange_close(b.x, id, "at once"), 0);
	/* ACCEPT and BYE are read together. */
	side_until(&b, leat_exchange_poll(a.x, leat_now(), &ev, 1) == 1);
	assert_int_equal(ev.type, LEAT_EXCHANGE_FAILED);
	assert_int_equal(ev.status, -ECONNREFUSED);
	assert_non_null(strstr(ev.text, "at once"));

	/* PROOF and BYE are read together: connected, then down. */
	conn = leat_exchange_connect(a.x, b.addr, 0, &none, NULL);
	id = side_event(&b, &a)->conn;
	assert_int_equal(leat_exchange_accept(b.x, id, &none, NULL), 0);
	side_until(&b, strcmp(leat_exchange_state(b.x, id), "accepted") != 0 ||
			       leat_exchange_poll(a.x, leat_now(), &ev, 1) == 1);
	assert_int_equal(leat_exchange_close(b.x, id, NULL), 0);
	side_until(&b, leat_exchange_poll(a.x, leat_now(), &ev, 1) == 1);
	assert_int_equal(ev.type, LEAT_EXCHANGE_CONNECTED);
	side_until(&b, leat_exchange_poll(a.x, leat_now(), &ev, 1) == 1);
	assert_int_equal(ev.type, LEAT_EXCHANGE_DOWN);
	assert_int_equal(ev.conn, conn);
	assert_int_equal(ev.status, 0);
	side_close(&a);
	side_close(&b);
}

#define MANY 1000

static void
test_many(void **state)
{
	struct leat_exchange_conf conf = { .kind = "ring", .max_conns = MANY, .max_pending = MANY };
	struct rlimit lim;
	struct leat_exchange_event *ev;
	unsigned int i, up_a = 0, up_b = 0, down = 0;
	struct side a, b;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &lim), 0);
	if (lim.rlim_cur < 4 * MANY + 64) {
		lim.rlim_cur = lim.rlim_max < 4 * MANY + 64 ? lim.rlim_max : 4 * MANY + 64;
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &lim), 0);
		if (lim.rlim_cur < 4 * MANY + 64)
			skip();
	}
	side_open(&a, &conf, NULL);
	side_open(&b, &conf, "127.0.0.1:0");
	for (i = 0; i < MANY; i++) {
		struct leat_exchange_data data = { .blob = &i, .blob_len = sizeof(i) };

		assert_true(leat_exchange_connect(a.x, b.addr, 60000000, &data, NULL) > 0);
	}
	while (up_a < MANY || up_b < MANY) {
		side_poll(&a);
		while (a.head != a.tail) {
			ev = &a.ev[a.head++ % SIDE_EVENTS];
			assert_int_equal(ev->type, LEAT_EXCHANGE_CONNECTED);
			up_a++;
		}
		side_poll(&b);
		while (b.head != b.tail) {
			ev = &b.ev[b.head++ % SIDE_EVENTS];
			if (ev->type == LEAT_EXCHANGE_REQUEST)
				assert_int_equal(leat_exchange_accept(
							 b.x, ev->conn,
							 &(struct leat_exchange_data){ 0 }, NULL),
						 0);
			else
				up_b += ev->type == LEAT_EXCHANGE_CONNECTED;
		}
	}
	assert_int_equal(side_stats(&b).conns, MANY);
	side_close(&a);
	while (down < MANY) {
		ev = side_event(&b, NULL);
		assert_int_equal(ev->type, LEAT_EXCHANGE_DOWN);
		assert_int_equal(ev->status, 0);
		down++;
	}
	side_close(&b);
}

/*
 * Without free descriptors the listener waits, and accepts the connection when there are some
 * again.
 */
static void
test_no_descriptor(void **state)
{
	struct leat_exchange_data none = { 0 };
	struct rlimit lim, tight;
	struct side a, b;
	int conn, top;

	(void)state;
	side_open(&a, NULL, NULL);
	side_open(&b, NULL, "127.0.0.1:0");
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &lim), 0);
	conn = leat_exchange_connect(a.x, b.addr, 60000000, &none, NULL);
	assert_true(conn > 0);
	top = dup(0);
	assert_true(top >= 0);
	close(top);
	tight = lim;
	tight.rlim_cur = (rlim_t)top;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
	side_until(&b, side_stats(&b).no_fd > 0);
	/* A connector does not fail for lack of descriptors either: it tries again. */
	assert_true(leat_exchange_connect(a.x, b.addr, 60000000, &none, NULL) > 0);
	side_quiet(&b, &a);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &lim), 0);
	assert_int_equal(side_event(&b, &a)->type, LEAT_EXCHANGE_REQUEST);
	assert_int_equal(side_event(&b, &a)->type, LEAT_EXCHANGE_REQUEST);
	side_close(&a);
	side_close(&b);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_connect),	 cmocka_unit_test(test_reject),
		cmocka_unit_test(test_close),	 cmocka_unit_test(test_linger),
		cmocka_unit_test(test_withdraw), cmocka_unit_test(test_killed),
		cmocka_unit_test(test_full),	 cmocka_unit_test(test_one_event_at_a_time),
		cmocka_unit_test(test_many),	 cmocka_unit_test(test_no_descriptor),
	};
	static const struct CMUnitTest tcp_tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_ipv6),
		cmocka_unit_test(test_arguments),
	};
	int failed;

	failed = cmocka_run_group_tests_name("exchange sides, TCP", tests, side_over_tcp, NULL);
	failed += cmocka_run_group_tests_name("exchange sides, addresses of TCP", tcp_tests,
					      side_over_tcp, NULL);
	failed += cmocka_run_group_tests_name("exchange sides, UNIX", tests, side_over_unix,
					      side_unix_end);
	return failed;
}
