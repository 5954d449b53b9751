/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * An echo server whose connections share one mempool. A message is received into a buffer of the
 * pool, sent back from that buffer, and the buffer is freed when the send is complete. One client
 * uses up all buffers and ends, in each possible way, while its small messages wait for a buffer.
 * Then the other clients must get their answers.
 */

#include <errno.h>
#include <string.h>

#include <rte_mempool.h>

#include "msg_pair.h"

#define BUFS 16
#define BUF_LEN 8192
#define LARGE 5000 /* bytes: the payload needs a receive of its own in both modes */
#define RECVS 32   /* receives posted on each connection of the server */
#define CLIENTS 3  /* honest clients */
#define ROUNDS 50

enum how {
	HOW_DIES,    /* the client's endpoint is aborted */
	HOW_LEAVES,  /* the client disconnects cleanly */
	HOW_CLOSED,  /* the server closes the connection at once */
	HOW_DRAINED, /* the server closes the connection with time to drain, which passes */
	HOW_CANCEL,  /* the server cancels its receives, then the client dies */
	HOW_TWICE,   /* the client dies while the server closes the connection */
	HOW_ALL,
};

/*
 * One connection of the server. Its requests are used, and come back, in the order of the arrays.
 */
struct service {
	struct leat_msg_conn *conn;
	struct leat_msg_req rx[RECVS], tx[RECVS];
	unsigned int rx_posted, rx_back, tx_posted, tx_back;
	bool over;
};

struct client {
	struct leat_msg_conn *conn;
	struct leat_msg_req tx, rx;
	uint8_t out[LARGE], in[LARGE];
	unsigned int rounds, back;
};

static struct rte_mempool *pool;
static struct service services[CLIENTS + 1];
static unsigned int nb_services;
static struct client clients[CLIENTS];
static struct end x; /* the endpoint of the client that ends */
static struct leat_msg_req x_tx[BUFS + 8];

static void
free_buf(struct leat_msg_req *req)
{
	if (req->buf != NULL)
		rte_mempool_put(pool, req->buf);
	req->buf = NULL;
}

static void
receive(struct service *s)
{
	struct leat_msg_req *req = &s->rx[s->rx_posted % RECVS];

	*req = (struct leat_msg_req){ .size = BUF_LEN };
	if (leat_msg_recv(s->conn, &req, 1) == 1)
		s->rx_posted++;
}

static void
received(struct service *s, struct leat_msg_req *req)
{
	struct leat_msg_req *echo = &s->tx[s->tx_posted % RECVS];

	assert_ptr_equal(req, &s->rx[s->rx_back++ % RECVS]);
	if (req->status != 0) {
		free_buf(req);
		return;
	}
	*echo = (struct leat_msg_req){ .buf = req->buf, .size = req->len };
	if (leat_msg_send(s->conn, &echo, 1) == 1)
		s->tx_posted++;
	else
		free_buf(req);
	if (!s->over)
		receive(s);
}

static void
serve(void)
{
	struct leat_msg_req *req;
	struct service *s;
	unsigned int i, k;

	end_drive(&b);
	if (b.accepted != NULL) {
		s = &services[nb_services++];
		memset(s, 0, sizeof(*s));
		s->conn = b.accepted;
		b.accepted = NULL;
		for (i = 0; i < RECVS; i++)
			receive(s);
	}
	for (i = 0; i < b.nb_back; i++) {
		req = b.back[i];
		for (k = 0; services[k].conn != req->conn; k++)
			;
		s = &services[k];
		if (req->recv) {
			received(s, req);
		} else {
			assert_ptr_equal(req, &s->tx[s->tx_back++ % RECVS]);
			free_buf(req);
		}
	}
	b.nb_back = 0;
}

static void
ask(struct client *cl)
{
	const uint64_t size = cl->rounds % 3 == 0 ? LARGE : cl->rounds % 3 == 1 ? 8 : 1000;

	memset(cl->out, (int)cl->rounds, size);
	cl->back = 0;
	recv1(cl->conn, &cl->rx, cl->in, LARGE);
	send1(cl->conn, &cl->tx, cl->out, size);
}

static void
converse(void)
{
	unsigned int i, k;

	end_drive(&a);
	for (i = 0; i < a.nb_back; i++) {
		for (k = 0; clients[k].conn != a.back[i]->conn; k++)
			;
		assert_int_equal(a.back[i]->status, 0);
		if (++clients[k].back < 2)
			continue;
		assert_int_equal(clients[k].rx.len, clients[k].tx.size);
		assert_memory_equal(clients[k].in, clients[k].out, clients[k].rx.len);
		if (++clients[k].rounds < ROUNDS)
			ask(&clients[k]);
	}
	a.nb_back = 0;
}

static bool
all_served(void)
{
	unsigned int k, n = 0;

	for (k = 0; k < CLIENTS; k++)
		n += clients[k].rounds == ROUNDS;
	return n == CLIENTS;
}

#define run_until(cond)                                                                            \
	do {                                                                                       \
		unsigned int turns_ = 0;                                                           \
		while (!(cond)) {                                                                  \
			serve();                                                                   \
			converse();                                                                \
			if (x.ep != NULL)                                                          \
				end_drive(&x);                                                     \
			if (++turns_ > PAIR_TURNS)                                                 \
				fail_msg("waited in vain: %s", #cond);                             \
		}                                                                                  \
	} while (0)

static struct leat_msg_conn *
connect_to_server(struct end *e, enum leat_msg_mode mode)
{
	const struct leat_msg_conn_conf conf = { .mode = mode };
	struct leat_msg_conn *c = leat_msg_connect(e->m, addr, &conf);
	unsigned int up = e->nb_ev[LEAT_MSG_UP], n = nb_services;

	assert_non_null(c);
	run_until(e->nb_ev[LEAT_MSG_UP] > up && nb_services > n && b.nb_ev[LEAT_MSG_UP] > n);
	return c;
}

/* @return whether all requests of the server's connection have come back */
static bool
all_back(const struct service *s)
{
	return s->rx_back == s->rx_posted && s->tx_back == s->tx_posted;
}

static void
end_x(struct service *s, struct leat_msg_conn *c, enum how how)
{
	unsigned int i;

	s->over = true; /* no further receives */
	switch (how) {
	case HOW_CANCEL:
		for (i = 0; i < RECVS; i += 2)
			(void)leat_msg_cancel(&s->rx[i]);
		/* fall through */
	case HOW_DIES:
	case HOW_TWICE:
		assert_int_equal(leat_ep_shutdown(x.ep, 0), 0);
		if (how == HOW_TWICE)
			assert_int_equal(leat_msg_close(s->conn, 1000000), 0);
		break;
	case HOW_LEAVES:
		assert_int_equal(leat_msg_close(c, 0), 0);
		break;
	case HOW_CLOSED:
		assert_int_equal(leat_msg_close(s->conn, 0), 0);
		break;
	case HOW_DRAINED:
		assert_int_equal(leat_msg_close(s->conn, 1000), 0);
		break;
	case HOW_ALL:
		break;
	}
}

static void
one_ends(const char *dev, enum leat_msg_mode mode, enum how how)
{
	struct leat_msg_stats stats;
	struct leat_msg_conn *xc;
	struct service *s;
	unsigned int i;

	nb_services = 0;
	memset(clients, 0, sizeof(clients));
	memset(&x, 0, sizeof(x));
	b.conf = (struct leat_msg_conn_conf){ .mode = mode, .mempool = pool };
	for (i = 0; i < CLIENTS; i++)
		clients[i].conn = connect_to_server(&a, mode);
	end_open(&x, dev, 1);
	xc = connect_to_server(&x, mode);
	s = &services[CLIENTS];

	/*
	 * The client takes all buffers with messages whose answers it never receives. Small
	 * messages follow, which wait for a buffer.
	 */
	for (i = 0; i < RTE_DIM(x_tx); i++)
		send1(xc, &x_tx[i], clients[0].out, i < BUFS ? LARGE : i % 2 == 0 ? 8 : 100);
	run_until(s->tx_posted == BUFS && rte_mempool_avail_count(pool) == 0);
	leat_msg_stats_get(b.m, &stats);
	run_until((leat_msg_stats_get(b.m, &stats), stats.held) > 0);
	for (i = 0; i < CLIENTS; i++)
		ask(&clients[i]);
	for (i = 0; i < 1000; i++) {
		serve();
		converse();
	}
	assert_int_equal(rte_mempool_avail_count(pool), 0);
	assert_int_equal(s->tx_back, 0);

	end_x(s, xc, how);
	run_until(all_served());
	run_until(all_back(s));
	if (how != HOW_CLOSED && how != HOW_DRAINED && how != HOW_TWICE)
		assert_int_equal(leat_msg_close(s->conn, 0), 0);
	run_until(b.nb_ev[LEAT_MSG_CLOSED] == 1);
	if (how != HOW_LEAVES)
		assert_int_equal(leat_msg_close(xc, 0), 0);
	run_until(x.nb_ev[LEAT_MSG_CLOSED] == 1);
	assert_int_equal(leat_msg_destroy(x.m), 0);
	i = (unsigned int)-leat_ep_close(x.ep, 0, NULL, NULL);
	assert_true(i == 0 || i == ETIMEDOUT); /* the sends of x may have been aborted */
	x.ep = NULL;

	for (i = 0; i < CLIENTS; i++)
		assert_int_equal(leat_msg_close(clients[i].conn, 0), 0);
	run_until(b.nb_ev[LEAT_MSG_ENDED] >= CLIENTS && a.nb_ev[LEAT_MSG_CLOSED] == CLIENTS);
	for (i = 0; i < CLIENTS; i++)
		assert_int_equal(leat_msg_close(services[i].conn, 0), 0);
	run_until(b.nb_ev[LEAT_MSG_CLOSED] == CLIENTS + 1);
	for (i = 0; i < nb_services; i++)
		assert_true(all_back(&services[i]));
	assert_int_equal(rte_mempool_avail_count(pool), BUFS);
	memset(a.nb_ev, 0, sizeof(a.nb_ev));
	memset(b.nb_ev, 0, sizeof(b.nb_ev));
}

#define FLOOD 5
#define DEPTH 8

static struct leat_msg_req flood_tx[FLOOD][DEPTH], flood_rx[FLOOD][DEPTH];

/*
 * Every client sends as fast as it can, except the last one, which sends one message at a time. The
 * pool has only `buffers` buffers left, which the server frees in each turn. Each client must get
 * at least a quarter of an equal share.
 */
static void
in_turn(enum leat_msg_mode mode, unsigned int buffers, uint64_t size)
{
	struct leat_msg_conn_conf conf = { .mode = mode };
	struct leat_msg_conn *c[FLOOD], *d[FLOOD];
	unsigned int i, k, n, total = 0, served[FLOOD] = { 0 }, turns = 0;
	void *taken[BUFS];
	struct leat_msg_req *req;

	conf.mempool = pool;
	for (i = 0; i < FLOOD; i++) {
		c[i] = connected(&conf);
		d[i] = b.accepted;
		for (k = 0; k < DEPTH; k++)
			recv1(d[i], &flood_rx[i][k], NULL, BUF_LEN);
	}
	for (n = 0; rte_mempool_avail_count(pool) > buffers; n++)
		assert_int_equal(rte_mempool_get(pool, &taken[n]), 0);
	a.nb_back = b.nb_back = 0;
	for (i = 0; i < FLOOD; i++) {
		for (k = 0; k < (i == FLOOD - 1 ? 1 : DEPTH); k++)
			send1(c[i], &flood_tx[i][k], clients[0].out, size);
	}
	while (total < 400) {
		end_poll(&a, 32);
		for (i = 0; i < a.nb_back; i++) {
			req = a.back[i];
			if (req->conn == c[FLOOD - 1])
				continue; /* sent again below, when b has its message */
			assert_int_equal(leat_msg_send(req->conn, &req, 1), 1);
		}
		a.nb_back = 0;
		end_poll(&b, 32);
		for (i = 0; i < b.nb_back; i++) {
			req = b.back[i];
			assert_int_equal(req->status, 0);
			free_buf(req);
			for (k = 0; d[k] != req->conn; k++)
				;
			served[k]++;
			total++;
			assert_int_equal(leat_msg_recv(d[k], &req, 1), 1);
			if (k == FLOOD - 1) {
				drive_until(flood_tx[k][0].state == 0);
				send1(c[k], &flood_tx[k][0], clients[0].out, size);
			}
		}
		b.nb_back = 0;
		assert_true(++turns < PAIR_TURNS);
	}
	for (i = 0; i < FLOOD; i++) {
		if (served[i] < 400 / FLOOD / 4)
			fail_msg("connection %u was served %u times of %u", i, served[i], total);
	}
	while (n > 0)
		rte_mempool_put(pool, taken[--n]);
	for (i = 0; i < FLOOD; i++) {
		assert_int_equal(leat_msg_close(c[i], 0), 0);
		assert_int_equal(leat_msg_close(d[i], 0), 0);
	}
	a.nb_back = b.nb_back = 0;
	drive_until(a.nb_ev[LEAT_MSG_CLOSED] == FLOOD && b.nb_ev[LEAT_MSG_CLOSED] == FLOOD);
	for (i = 0; i < b.nb_back; i++)
		free_buf(b.back[i]);
	assert_int_equal(rte_mempool_avail_count(pool), BUFS);
}

static void
test_in_turn_small(void **state)
{
	(void)state;
	in_turn(LEAT_MSG_LEAT, 1, 8);
}

static void
test_in_turn_few(void **state)
{
	(void)state;
	in_turn(LEAT_MSG_LEAT, 3, 100);
}

static void
test_in_turn_large(void **state)
{
	(void)state;
	in_turn(LEAT_MSG_LEAT, 1, LARGE);
}

static void
test_in_turn_plain(void **state)
{
	(void)state;
	in_turn(LEAT_MSG_PLAIN, 2, 1000);
}

static void
all_ways(const char *dev, enum leat_msg_mode mode)
{
	int how;

	for (how = 0; how < HOW_ALL; how++)
		one_ends(dev, mode, (enum how)how);
}

static void
test_leat(void **state)
{
	(void)state;
	all_ways(PAIR_RING, LEAT_MSG_LEAT);
}

static void
test_plain(void **state)
{
	(void)state;
	all_ways(PAIR_RING, LEAT_MSG_PLAIN);
}

static void
test_leat_fault(void **state)
{
	(void)state;
	all_ways(PAIR_FAULT, LEAT_MSG_LEAT);
}

static void
test_plain_fault(void **state)
{
	(void)state;
	all_ways(PAIR_FAULT, LEAT_MSG_PLAIN);
}

static int
start(void **state)
{
	if (pair_start_fault(state) < 0)
		return -1;
	pool = rte_mempool_create("echo", BUFS, BUF_LEN, 0, 0, NULL, NULL, NULL, NULL,
				  SOCKET_ID_ANY, 0);
	return pool == NULL ? -1 : 0;
}

static int
stop(void **state)
{
	rte_mempool_free(pool);
	return pair_stop(state);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_leat, pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(test_plain, pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(test_in_turn_small, pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(test_in_turn_few, pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(test_in_turn_large, pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(test_in_turn_plain, pair_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(test_leat_fault, pair_setup_fault, pair_teardown),
		cmocka_unit_test_setup_teardown(test_plain_fault, pair_setup_fault, pair_teardown),
	};

	return cmocka_run_group_tests_name("msg_pool", tests, start, stop);
}
