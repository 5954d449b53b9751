/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef EXCHANGE_SIDE_H
#define EXCHANGE_SIDE_H

/*
 * Two instances of the address exchange, and raw clients, in one thread, over loopback or over UNIX
 * sockets in a directory of the test: the group setups side_over_tcp() and side_over_unix() choose.
 * No test sleeps for a fixed time: loops poll until the awaited event has happened, and give up
 * after a minute.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <leat_cmocka.h>
#include <leat_error.h>
#include <leat_exchange.h>
#include <leat_time.h>

#define SIDE_EVENTS 64

struct side {
	struct leat_exchange *x;
	char addr[LEAT_EXCHANGE_ADDR_MAX];
	unsigned int head, tail;
	struct leat_exchange_event ev[SIDE_EVENTS];
};

/* The directory of the UNIX sockets; "": over TCP. */
static char side_dir[64];

static inline int
side_over_tcp(void **state)
{
	(void)state;
	side_dir[0] = '\0';
	return 0;
}

static inline int
side_over_unix(void **state)
{
	(void)state;
	snprintf(side_dir, sizeof(side_dir), "/tmp/leat-exchange-XXXXXX");
	return mkdtemp(side_dir) == NULL ? -1 : 0;
}

/* Group teardown: the directory must be empty. */
static inline int
side_unix_end(void **state)
{
	(void)state;
	return rmdir(side_dir);
}

static inline bool
side_is_unix(void)
{
	return side_dir[0] != '\0';
}

static inline time_t
seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec;
}

static inline void
side_poll(struct side *s)
{
	unsigned int room = SIDE_EVENTS - (s->tail - s->head);
	struct leat_exchange_event ev[4];
	unsigned int i, n;

	if (s->x == NULL || room == 0)
		return;
	n = leat_exchange_poll(s->x, leat_now(), ev, room < 4 ? room : 4);
	for (i = 0; i < n; i++)
		s->ev[s->tail++ % SIDE_EVENTS] = ev[i];
}

/* Wait for the next event of s; other is polled, too, if not NULL. */
static inline struct leat_exchange_event *
side_event(struct side *s, struct side *other)
{
	time_t end = seconds() + 60;

	while (s->head == s->tail) {
		side_poll(s);
		if (other != NULL)
			side_poll(other);
		if (s->head == s->tail)
			sched_yield();
		assert_true(seconds() < end);
	}
	return &s->ev[s->head++ % SIDE_EVENTS];
}

/* Poll s and, if not NULL, other 20 times: s must get no event. */
static inline void
side_quiet(struct side *s, struct side *other)
{
	unsigned int i;

	for (i = 0; i < 20; i++) {
		side_poll(s);
		if (other != NULL)
			side_poll(other);
		sched_yield();
	}
	assert_int_equal(s->head, s->tail);
}

static inline void
side_open(struct side *s, const struct leat_exchange_conf *conf, const char *listen_addr)
{
	struct leat_exchange_conf c = { .name = "test", .kind = "ring" };

	memset(s, 0, sizeof(*s));
	if (conf != NULL)
		c = *conf;
	if (side_is_unix() && c.dir == NULL)
		c.dir = side_dir;
	s->x = leat_exchange_create(&c);
	assert_non_null(s->x);
	if (listen_addr != NULL) {
		assert_int_equal(leat_exchange_listen(s->x, listen_addr), 0);
		assert_int_equal(leat_exchange_listen_addr(s->x, s->addr, sizeof(s->addr)), 0);
	}
}

static inline void
side_close(struct side *s)
{
	leat_exchange_destroy(s->x);
	s->x = NULL;
}

static inline struct leat_exchange_stats
side_stats(struct side *s)
{
	struct leat_exchange_stats stats;

	leat_exchange_stats_get(s->x, &stats);
	return stats;
}

/* Establish a connection, and consume the events of both sides. */
static inline void
side_connect(struct side *a, struct side *b, int *conn_a, int *conn_b)
{
	struct leat_exchange_data data = { .blob = "a", .blob_len = 1 };
	struct leat_exchange_event *ev;

	*conn_a = leat_exchange_connect(a->x, b->addr, 0, &data, NULL);
	assert_true(*conn_a > 0);
	ev = side_event(b, a);
	assert_int_equal(ev->type, LEAT_EXCHANGE_REQUEST);
	*conn_b = ev->conn;
	assert_int_equal(leat_exchange_accept(b->x, *conn_b, &data, NULL), 0);
	ev = side_event(a, b);
	assert_int_equal(ev->type, LEAT_EXCHANGE_CONNECTED);
	assert_int_equal(ev->conn, *conn_a);
	ev = side_event(b, a);
	assert_int_equal(ev->type, LEAT_EXCHANGE_CONNECTED);
	assert_int_equal(ev->conn, *conn_b);
}

/* ---- raw clients ---------------------------------------------------------------------------- */

static inline int
raw_port(const struct side *s)
{
	return atoi(strrchr(s->addr, ':') + 1);
}

/*
 * Fill in the address of a port.
 * @return its length
 */
static inline socklen_t
raw_sockaddr(int port, struct sockaddr_storage *ss)
{
	struct sockaddr_in *sin = (void *)ss;
	struct sockaddr_un *sun = (void *)ss;

	memset(ss, 0, sizeof(*ss));
	if (side_is_unix()) {
		sun->sun_family = AF_UNIX;
		snprintf(sun->sun_path, sizeof(sun->sun_path), "%s/port-%d", side_dir, port);
		return sizeof(*sun);
	}
	sin->sin_family = AF_INET;
	sin->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	sin->sin_port = htons((uint16_t)port);
	return sizeof(*sin);
}

static inline int
raw_connect(const struct side *s)
{
	struct sockaddr_storage ss;
	socklen_t len = raw_sockaddr(raw_port(s), &ss);
	int fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&ss, len), 0);
	return fd;
}

/* Bind a socket to a free port of this test. raw_close() undoes it. */
static inline int
raw_bind(char *addr, size_t size)
{
	static int next = 20000;
	struct sockaddr_storage ss;
	struct sockaddr_in *sin = (void *)&ss;
	socklen_t len = raw_sockaddr(side_is_unix() ? next++ : 0, &ss);
	int fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&ss, len), 0);
	if (!side_is_unix())
		assert_int_equal(getsockname(fd, (struct sockaddr *)&ss, &len), 0);
	snprintf(addr, size, "127.0.0.1:%d", side_is_unix() ? next - 1 : ntohs(sin->sin_port));
	return fd;
}

static inline void
raw_close(int fd, const char *addr)
{
	struct sockaddr_storage ss;

	close(fd);
	raw_sockaddr(atoi(strrchr(addr, ':') + 1), &ss);
	if (side_is_unix())
		assert_int_equal(unlink(((struct sockaddr_un *)&ss)->sun_path), 0);
}

/* @return a connection, or -1 if none waits and the socket does not block */
static inline int
raw_accept(int fd)
{
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);

	return accept4(fd, (struct sockaddr *)&from, &len, SOCK_CLOEXEC);
}

static inline void
raw_send(int fd, const void *buf, size_t len)
{
	assert_int_equal(send(fd, buf, len, MSG_NOSIGNAL), len);
}

/* Read len bytes, or up to the end of the stream if that comes first; poll s meanwhile. */
static inline size_t
raw_recv(int fd, struct side *s, void *buf, size_t len)
{
	time_t end = seconds() + 60;
	size_t got = 0;

	while (got < len) {
		ssize_t n = recv(fd, (uint8_t *)buf + got, len - got, MSG_DONTWAIT);

		if (n == 0 || (n < 0 && errno == ECONNRESET))
			break;
		if (n > 0) {
			got += (size_t)n;
			continue;
		}
		assert_int_equal(errno, EAGAIN);
		side_poll(s);
		sched_yield();
		assert_true(seconds() < end);
	}
	return got;
}

/* Poll s until cond is true. */
#define side_until(s, cond)                                                                        \
	do {                                                                                       \
		time_t side_end = seconds() + 60;                                                  \
                                                                                                   \
		while (!(cond)) {                                                                  \
			side_poll(s);                                                              \
			sched_yield();                                                             \
			assert_true(seconds() < side_end);                                         \
		}                                                                                  \
	} while (0)

/* Write the header of a message. @return its length */
static inline size_t
raw_header(uint8_t *buf, unsigned int version, unsigned int type, uint32_t len)
{
	static const uint8_t magic[4] = { 'L', 'E', 'A', 'T' };

	memcpy(buf, magic, sizeof(magic));
	buf[4] = (uint8_t)version;
	buf[5] = (uint8_t)(version >> 8);
	buf[6] = (uint8_t)type;
	buf[7] = (uint8_t)(type >> 8);
	memset(buf + 8, 0, 4);
	buf[12] = (uint8_t)len;
	buf[13] = (uint8_t)(len >> 8);
	buf[14] = (uint8_t)(len >> 16);
	buf[15] = (uint8_t)(len >> 24);
	return 16;
}

/* Write a HELLO of kind "ring" with address "addr" and private data "p". @return its length */
static inline size_t
raw_hello(uint8_t *buf)
{
	static const uint8_t kind[4] = { 'r', 'i', 'n', 'g' };
	static const uint8_t data[5] = { 'a', 'd', 'd', 'r', 'p' };

	raw_header(buf, LEAT_EXCHANGE_VERSION, 1, 45);
	memset(buf + 16, 0, 40);
	memcpy(buf + 16, kind, sizeof(kind));
	buf[48] = 4;
	buf[50] = 1;
	memcpy(buf + 56, data, sizeof(data));
	return 61;
}

#endif /* EXCHANGE_SIDE_H */
