/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Ends of connections. No call waits for one, and the messages of other connections arrive
 * undisturbed, even between the same two endpoints. An endpoint that was aborted does not use the
 * provider's endpoint any more.
 */

#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pair_stream.h"

#define CONNS 3
/* Bytes of a READ: more than the sockets of a connection hold. */
#define READ_LEN (64u << 20)

static volatile uint64_t mock;

/* ---- sockets of the address exchange ---- */

static uint16_t
port_of(const struct sockaddr_storage *ss)
{
	/* The kernel has filled in the address. */
	/* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) */
	return ntohs(ss->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)ss)->sin6_port
					       : ((const struct sockaddr_in *)ss)->sin_port);
}

/* @return the newest socket of this process that is connected to the port */
static int
socket_to(uint16_t port)
{
	struct sockaddr_storage ss;
	const struct dirent *entry;
	DIR *fds = opendir("/proc/self/fd");
	int found = -1;

	assert_non_null(fds);
	while ((entry = readdir(fds)) != NULL) {
		socklen_t len = sizeof(ss);
		int fd = atoi(entry->d_name);

		if (fd > found && getpeername(fd, (struct sockaddr *)&ss, &len) == 0 &&
		    port_of(&ss) == port)
			found = fd;
	}
	closedir(fds);
	assert_true(found >= 0);
	return found;
}

static uint16_t
listen_port(const struct node *n)
{
	char addr[LEAT_ADDR_MAX];

	assert_int_equal(leat_ep_listen_addr(n->ep, addr, sizeof(addr)), 0);
	return (uint16_t)atoi(strrchr(addr, ':') + 1);
}

/* Shut down the socket, so that the end looks like that of a killed process. */
static void
cut(int fd)
{
	assert_int_equal(shutdown(fd, SHUT_RDWR), 0);
}

/* ---- several connections between a and b ---- */

struct conns {
	struct pair p;
	int fd[CONNS];
	uint16_t a[CONNS], b[CONNS]; /* ids of b at a, and of a at b */
	struct stream s;
};

static void
conns_open(struct conns *c, const char *name, unsigned int n)
{
	struct leat_dev *dev = leat_dev_by_name(name);
	unsigned int i;

	assert_non_null(dev);
	memset(c, 0, sizeof(*c));
	pair_open(&c->p, dev);
	for (i = 0; i < n; i++) {
		if (i > 0) {
			c->p.a.up = c->p.b.up = false;
			pair_connect(&c->p);
		}
		c->a[i] = c->p.a.peer;
		c->b[i] = c->p.b.peer;
		c->fd[i] = socket_to(listen_port(&c->p.b));
	}
	stream_open(&c->s, &c->p);
}

static void
conns_close(struct conns *c)
{
	stream_close(&c->s);
	pair_close(&c->p);
}

static void
send_all(struct conns *c, unsigned int conn, uint64_t seed)
{
	stream_send(&c->s, &c->p, c->a[conn], seed);
}

static void
receive_all(struct conns *c, uint64_t seed)
{
	stream_receive(&c->s, &c->p, LEAT_PEER_ANY, seed);
}

/* ---- tests ---- */

/* A peer dies while the clock stands still: no call waits for time to pass. */
static void
no_wait(void **state)
{
	struct conns c;
	unsigned int i;

	conns_open(&c, *state, 1);
	send_all(&c, 0, 100);
	mock = leat_now();
	leat_clock_mock_set(&mock);
	(void)alarm(60);
	cut(c.fd[0]);
	for (i = 0; leat_ep_peer_state(c.p.b.ep, c.b[0]) == LEAT_PEER_UP; i++)
		pair_turn(&c.p);
	/* The connection has ended; further polls do not hang. */
	for (i = 0; i < 100; i++)
		pair_turn(&c.p);
	(void)alarm(0);
	leat_clock_mock_set(NULL);
	PAIR_UNTIL(&c.p, c.p.b.down == -ECONNRESET);
	conns_close(&c);
}

/*
 * One of two connections between the same endpoints dies: the messages of the other connection are
 * not disturbed.
 */
static void
one_of_two_dies(void **state)
{
	struct conns c;
	unsigned int dead;

	for (dead = 0; dead < 2; dead++) {
		conns_open(&c, *state, 2);
		send_all(&c, 1 - dead, 1000 + dead);
		cut(c.fd[dead]);
		PAIR_UNTIL(&c.p, c.p.b.down == -ECONNRESET);
		receive_all(&c, 1000 + dead);
		send_all(&c, 1 - dead, 2000);
		receive_all(&c, 2000);
		conns_close(&c);
	}
}

/* Three connections between the same endpoints end, in every order; those that remain work. */
static void
any_order(void **state)
{
	static const uint8_t orders[][CONNS] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
						 { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
	unsigned int o, n, i;
	struct conns c;

	for (o = 0; o < RTE_DIM(orders); o++) {
		conns_open(&c, *state, CONNS);
		for (n = 0; n < CONNS; n++) {
			unsigned int last = orders[o][CONNS - 1], gone = orders[o][n];

			for (i = n; i < CONNS; i++) {
				send_all(&c, orders[o][i], 16 * i);
				receive_all(&c, 16 * i);
			}
			if (n == CONNS - 1)
				break;
			/*
			 * Messages of a connection that stays are in flight when another connection
			 * ends.
			 */
			send_all(&c, last, 777);
			c.p.b.down = 1;
			assert_int_equal(n % 2 == 0 ? leat_ep_disconnect(c.p.a.ep, c.a[gone])
						    : leat_ep_disconnect(c.p.b.ep, c.b[gone]),
					 0);
			PAIR_UNTIL(&c.p, c.p.b.down != 1);
			receive_all(&c, 777);
		}
		conns_close(&c);
	}
}

/*
 * An abort waits for the answer of a READ, and a poll then closes the provider's endpoint. The
 * READ of a proof (ofi_proof.c) was refused until then: it is not posted again.
 */
static void
abort_while_proving(void **state)
{
	struct leat_dev *dev = leat_dev_by_name(*state);
	uint8_t *from = malloc(READ_LEN), *to = calloc(1, READ_LEN);
	struct leat_conn_params cp = { .timeout_us = 2 * TIMEOUT_US };
	struct node c = { .down = 1 };
	struct leat_mr *mr_a, *mr_b;
	struct leat_event ev;
	struct leat_op read, *ops[1];
	struct leat_rkey key;
	char addr[LEAT_ADDR_MAX];
	uint64_t mark;
	struct pair p;
	unsigned int i;
	int conn;

	assert_non_null(dev);
	assert_non_null(from);
	assert_non_null(to);
	memset(from, 0x5a, READ_LEN);
	pair_open(&p, dev);
	mr_a = reg(p.a.ep, to, READ_LEN, NULL);
	mr_b = reg(p.b.ep, from, READ_LEN, &key);
	/* After its answer c is not driven: the provider's connection from a to c does not open. */
	c.ep = ep_open(dev, LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV));
	assert_int_equal(leat_ep_listen(c.ep, "127.0.0.1:0"), 0);
	assert_int_equal(leat_ep_listen_addr(c.ep, addr, sizeof(addr)), 0);
	conn = leat_ep_connect(p.a.ep, addr, &cp);
	assert_true(conn >= 0);
	UNTIL(TIMEOUT_US, (pair_turn(&p), node_turn(&c)), c.requests == 1);
	for (i = 0; i < 100; i++)
		pair_turn(&p);
	assert_int_equal(leat_ep_peer_state(p.a.ep, (uint16_t)conn), LEAT_PEER_CONNECTING);

	read = (struct leat_op){ .type = LEAT_OP_READ,
				 .peer = p.a.peer,
				 .buf = to,
				 .size = READ_LEN,
				 .raddr = key.addr,
				 .rkey = key.key,
				 .mr = mr_a };
	pair_post(&p, &p.a, &read);
	memcpy(&mark, to, sizeof(mark));
	PAIR_UNTIL(&p, memcmp(to, &mark, sizeof(mark)) != 0);
	assert_false(op_done(&read));
	/* The clock stands still, so that the driver does not give up waiting for the answer. */
	mock = leat_now();
	leat_clock_mock_set(&mock);
	(void)alarm(60);
	assert_int_equal(leat_ep_shutdown(p.a.ep, 0), 0);
	assert_int_equal(leat_ep_events(p.a.ep, &ev, 1), 0);
	assert_false(op_done(&read));
	while (leat_ep_poll(p.a.ep, ops, 1) == 0)
		node_turn(&p.b);
	assert_int_equal(read.status, 0);
	/* The READ of the proof would be due. */
	mock += leat_us_to_cycles(1000000);
	assert_int_equal(leat_ep_events(p.a.ep, &ev, 1), 1);
	(void)alarm(0);
	leat_clock_mock_set(NULL);
	assert_int_equal(ev.type, LEAT_EV_SHUTDOWN);
	assert_int_equal(leat_mr_deregister(mr_a), 0);
	assert_int_equal(leat_mr_deregister(mr_b), 0);
	pair_close(&p);
	(void)leat_ep_close(c.ep, 0, NULL, NULL);
	free(from);
	free(to);
}

int
main(int argc, char **argv)
{
	static char vdevs[][64] = { "--vdev=fabric_ofi0,provider=shm,tags=1",
				    "--vdev=fabric_ofi1,provider=tcp,iface=lo,tags=1" };
	static char quiet[] = "--log-level=lib.eal:error", less[] = "--log-level=leat.*:warning";
	static char no_telemetry[] = "--no-telemetry";
	void *shm = (void *)(uintptr_t) "fabric_ofi0", *tcp = (void *)(uintptr_t) "fabric_ofi1";
	const struct CMUnitTest tests[] = {
		{ "no_wait tcp", no_wait, NULL, NULL, tcp },
		{ "no_wait shm", no_wait, NULL, NULL, shm },
		{ "one_of_two_dies tcp", one_of_two_dies, NULL, NULL, tcp },
		{ "one_of_two_dies shm", one_of_two_dies, NULL, NULL, shm },
		{ "any_order tcp", any_order, NULL, NULL, tcp },
		{ "any_order shm", any_order, NULL, NULL, shm },
		{ "abort_while_proving tcp", abort_while_proving, NULL, NULL, tcp },
	};
	const char *only = getenv("OFI_ONLY");
	char *av[64];
	int i, ac = 0, ret;

	for (i = 0; i < argc && i < 40; i++)
		av[ac++] = argv[i];
	av[ac++] = vdevs[0];
	av[ac++] = vdevs[1];
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
	ret = cmocka_run_group_tests_name("ofi ends", tests, NULL, NULL);
	return leat_cleanup() < 0 ? 1 : ret;
}
