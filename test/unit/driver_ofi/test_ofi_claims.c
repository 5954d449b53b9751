/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Hostile programs that claim another endpoint's provider address in the exchange of addresses. a
 * and b are connected and honest. The hostile program speaks TCP only: it repeats what a or b sent
 * to it.
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pair_stream.h"

#define MSG_MAX 1024

struct claims {
	struct pair p;
	struct leat_dev *dev;
	struct stream s;
	uint16_t a, b; /* id of b at a, and of a at b */
	uint8_t hello[MSG_MAX], answer[MSG_MAX];
	size_t hello_len, answer_len;
};

static void
put_header(uint8_t *buf, uint8_t version, uint8_t type)
{
	static const uint8_t magic[] = { 'L', 'E', 'A', 'T' };

	memset(buf, 0, 16);
	memcpy(buf, magic, sizeof(magic));
	buf[4] = version;
	buf[6] = type;
}

static int
tcp_listen(char *addr, size_t len)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t sin_len = sizeof(sin);

	assert_true(fd >= 0);
	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sin, &sin_len), 0);
	snprintf(addr, len, "127.0.0.1:%d", ntohs(sin.sin_port));
	return fd;
}

static int
tcp_connect(const struct node *n)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	char addr[LEAT_ADDR_MAX];
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(leat_ep_listen_addr(n->ep, addr, sizeof(addr)), 0);
	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	sin.sin_port = htons((uint16_t)atoi(strrchr(addr, ':') + 1));
	assert_int_equal(connect(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	return fd;
}

/* Close a socket with a reset. */
static void
tcp_reset(int fd)
{
	struct linger hard = { .l_onoff = 1 };

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard)), 0);
	close(fd);
}

static int
tcp_accept(struct claims *c, int lfd)
{
	int fd = -1;

	PAIR_UNTIL(&c->p, (fd = accept4(lfd, NULL, NULL, SOCK_CLOEXEC)) >= 0);
	return fd;
}

/* Receive a whole message, while both endpoints are driven. */
static size_t
tcp_message(struct claims *c, int fd, uint8_t *buf)
{
	size_t got = 0, want = 16;
	ssize_t n;

	while (got < want) {
		PAIR_UNTIL(&c->p, (n = recv(fd, buf + got, want - got, MSG_DONTWAIT)) > 0);
		got += (size_t)n;
		if (got == 16)
			want = 16 + buf[12] + 256u * buf[13];
		assert_true(want <= MSG_MAX);
	}
	return got;
}

static void
tcp_send(int fd, const void *buf, size_t len)
{
	/* The other side may have closed the socket. */
	ssize_t n = send(fd, buf, len, MSG_NOSIGNAL);

	assert_true(n == (ssize_t)len || n < 0);
}

/* ---- a and b ---- */

static void
claims_open(struct claims *c, const char *name)
{
	memset(c, 0, sizeof(*c));
	c->dev = leat_dev_by_name(name);
	assert_non_null(c->dev);
	pair_open(&c->p, c->dev);
	c->a = c->p.a.peer;
	c->b = c->p.b.peer;
	stream_open(&c->s, &c->p);
}

static void
claims_close(struct claims *c)
{
	stream_close(&c->s);
	pair_close(&c->p);
}

static void
send_all(struct claims *c, uint64_t seed)
{
	stream_send(&c->s, &c->p, c->a, seed);
}

static void
receive_all(struct claims *c, uint64_t seed)
{
	stream_receive(&c->s, &c->p, c->b, seed);
}

/* Record the HELLO that a sends to a listener; it contains the address of a. */
static void
learn_hello(struct claims *c)
{
	struct leat_conn_params cp = { .timeout_us = 100000 };
	char addr[LEAT_ADDR_MAX];
	int lfd = tcp_listen(addr, sizeof(addr)), fd;

	c->p.a.down = 1;
	assert_true(leat_ep_connect(c->p.a.ep, addr, &cp) >= 0);
	fd = tcp_accept(c, lfd);
	c->hello_len = tcp_message(c, fd, c->hello);
	close(fd);
	close(lfd);
	PAIR_UNTIL(&c->p, c->p.a.down != 1);
	c->p.a.up = true;
}

/* What the hostile program sends after its HELLO or its answer to one. */
enum then {
	NOTHING,
	READY,
	PROOF,
	PROOF_READY,
	THENS,
};

static void
send_next(int fd, const struct claims *c, enum then then)
{
	uint8_t buf[32];

	put_header(buf, c->hello[4], then == READY ? 4 : 6);
	put_header(buf + 16, c->hello[4], 4);
	tcp_send(fd, buf, then == NOTHING ? 0 : then == PROOF_READY ? 32 : 16);
}

/* ---- tests ---- */

/*
 * A client claims the address of a, sends one of the messages of enum then, or a part of the HELLO,
 * and resets its TCP connection: the traffic between a and b goes on undisturbed.
 */
static void
client(void **state)
{
	struct claims c;
	unsigned int then, i;
	uint8_t buf[MSG_MAX];
	int fd;

	claims_open(&c, *state);
	learn_hello(&c);
	for (then = NOTHING; then < THENS; then++) {
		send_all(&c, 100 * then);
		c.p.b.down = 1;
		c.p.b.up = false;
		fd = tcp_connect(&c.p.b);
		tcp_send(fd, c.hello, c.hello_len);
		(void)tcp_message(&c, fd, buf);
		assert_int_equal(buf[6], 2);
		send_next(fd, &c, (enum then)then);
		for (i = 0; i < 50; i++)
			pair_turn(&c.p);
		tcp_reset(fd);
		PAIR_UNTIL(&c.p, c.p.b.down != 1);
		assert_int_equal(c.p.b.connects, 1);
		receive_all(&c, 100 * then);
	}
	/* Send the first i bytes of the HELLO, then reset, for each i. */
	send_all(&c, 7000);
	for (i = 0; i <= c.hello_len; i++) {
		fd = tcp_connect(&c.p.b);
		tcp_send(fd, c.hello, i);
		pair_turn(&c.p);
		tcp_reset(fd);
		pair_turn(&c.p);
	}
	receive_all(&c, 7000);
	assert_int_equal(leat_ep_peer_state(c.p.b.ep, c.b), LEAT_PEER_UP);
	claims_close(&c);
}

/* A client claims the address of a before a itself connects: a can connect all the same. */
static void
name_first(const char *dev, enum then then)
{
	struct claims c;
	uint8_t buf[MSG_MAX];
	unsigned int i;
	int fd;

	claims_open(&c, dev);
	learn_hello(&c);
	c.p.b.down = 1;
	assert_int_equal(leat_ep_disconnect(c.p.a.ep, c.a), 0);
	PAIR_UNTIL(&c.p, c.p.b.down != 1);
	c.p.a.up = c.p.b.up = false;
	fd = tcp_connect(&c.p.b);
	tcp_send(fd, c.hello, c.hello_len);
	(void)tcp_message(&c, fd, buf);
	send_next(fd, &c, then);
	for (i = 0; i < 50; i++)
		pair_turn(&c.p);
	assert_int_equal(c.p.b.connects, 1);
	pair_connect(&c.p);
	c.a = c.p.a.peer;
	c.b = c.p.b.peer;
	send_all(&c, 10);
	tcp_reset(fd);
	for (i = 0; i < 50; i++)
		pair_turn(&c.p);
	receive_all(&c, 10);
	claims_close(&c);
}

static void
client_first(void **state)
{
	unsigned int then;

	for (then = NOTHING; then < THENS; then++)
		name_first(*state, (enum then)then);
}

/*
 * A listener claims the address of b: a's connect to it fails, and messages from a still reach b.
 */
static void
listener(void **state)
{
	struct leat_conn_params cp = { .timeout_us = 1000000 };
	char addr[LEAT_ADDR_MAX];
	uint8_t buf[MSG_MAX];
	unsigned int then;
	struct claims c;
	int lfd, fd;

	claims_open(&c, *state);
	learn_hello(&c);
	c.p.b.down = 1;
	fd = tcp_connect(&c.p.b);
	tcp_send(fd, c.hello, c.hello_len);
	c.answer_len = tcp_message(&c, fd, c.answer);
	assert_int_equal(c.answer[6], 2);
	close(fd);
	PAIR_UNTIL(&c.p, c.p.b.down != 1);

	lfd = tcp_listen(addr, sizeof(addr));
	for (then = NOTHING; then < THENS; then++) {
		send_all(&c, 50 * then);
		c.p.a.down = 1;
		c.p.a.up = false;
		assert_true(leat_ep_connect(c.p.a.ep, addr, &cp) >= 0);
		fd = tcp_accept(&c, lfd);
		(void)tcp_message(&c, fd, buf);
		tcp_send(fd, c.answer, c.answer_len);
		send_next(fd, &c, (enum then)then);
		PAIR_UNTIL(&c.p, c.p.a.down != 1);
		assert_int_equal(c.p.a.connects, 1);
		close(fd);
		receive_all(&c, 50 * then);
	}
	close(lfd);
	claims_close(&c);
}

int
main(int argc, char **argv)
{
	static char vdevs[][64] = { "--vdev=fabric_ofi0,provider=shm,tags=1",
				    "--vdev=fabric_ofi1,provider=tcp,iface=lo,tags=1",
				    "--vdev=fabric_ofi2,provider=sockets,src=127.0.0.1,tags=1" };
	static char quiet[] = "--log-level=lib.eal:error", less[] = "--log-level=leat.*:warning";
	static char no_telemetry[] = "--no-telemetry";
	void *shm = (void *)(uintptr_t) "fabric_ofi0", *tcp = (void *)(uintptr_t) "fabric_ofi1";
	void *sockets = (void *)(uintptr_t) "fabric_ofi2";
	const struct CMUnitTest tests[] = {
		{ "client tcp", client, NULL, NULL, tcp },
		{ "client shm", client, NULL, NULL, shm },
		{ "client sockets", client, NULL, NULL, sockets },
		{ "client_first tcp", client_first, NULL, NULL, tcp },
		{ "client_first shm", client_first, NULL, NULL, shm },
		{ "listener tcp", listener, NULL, NULL, tcp },
		{ "listener shm", listener, NULL, NULL, shm },
	};
	const char *only = getenv("OFI_ONLY");
	char *av[64];
	size_t d;
	int i, ac = 0, ret;

	for (i = 0; i < argc && i < 40; i++)
		av[ac++] = argv[i];
	for (d = 0; d < RTE_DIM(vdevs); d++)
		av[ac++] = vdevs[d];
	av[ac++] = quiet;
	av[ac++] = less;
	av[ac++] = no_telemetry;
	av[ac] = NULL;
	if (leat_init(ac, av) < 0) {
		fprintf(stderr, "leat_init: %s\n", leat_err_msg());
		return 1;
	}
	if (only != NULL)
		cmocka_set_test_filter(only);
	ret = cmocka_run_group_tests_name("ofi claims", tests, NULL, NULL);
	return leat_cleanup() < 0 ? 1 : ret;
}
