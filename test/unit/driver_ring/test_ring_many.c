/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A hub is an endpoint with many links. Their number goes up and down across the thresholds at
 * which the hub starts and stops relying on marks (ring_mark.h), with traffic on all links. Each
 * client has one message in flight. So if the hub misses a message or an ack, that client sends no
 * later message that would make the hub look at its link, and the test fails.
 */

#include "ring_test.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include <rte_common.h>

#include <leat_error.h>

#define CLIENTS 40 /* more than RING_FEW */
#define SOME 3	   /* fewer than RING_FEW_AGAIN */
#define PHASES 8
#define EXCHANGES 60 /* exchanges of each client, per phase */
#define OPS 64
#define BYE UINT64_MAX
#define WAKE_MS 20000
#define PATIENCE 3000000 /* turns of the clients without progress until the test fails */

enum client_state { DOWN, CONNECTING, UP, CLOSING };

struct client {
	struct leat_ep *ep;
	uint16_t id; /* the hub's id at the client */
	enum client_state state;
	bool waiting; /* the client waits for the answer */
	bool sending;
	uint32_t left; /* exchanges in this phase */
	uint64_t word, answer;
	struct leat_op send, recv;
};

static struct {
	struct client clients[CLIENTS];
	unsigned int nb_eps;
	struct leat_ep *eps[CLIENTS];
	char addr[LEAT_ADDR_MAX];
	bool datagram;
	unsigned int up, target;
	uint64_t asked;
	uint64_t progress;
	/* fields of the hub's thread */
	struct leat_ep *hub;
	struct leat_op recvs[OPS], sends[OPS];
	uint64_t words[OPS];
	bool sleeps;
	bool stop;
	uint64_t answered; /* sends that came back */
	int bad;	   /* failed checks: cmocka's may only be used in the first thread */
	uint64_t slept;
} m;

/* ---- the hub ---- */

static void
hub_post(struct leat_op *op)
{
	/* There is room: each peer has one message in flight. */
	m.bad += leat_ep_post(m.hub, &op, 1) != 1;
}

static void
hub_done(struct leat_op *op)
{
	size_t i;

	m.bad += op->status != 0;
	if (op->type == LEAT_OP_SEND) {
		__atomic_fetch_add(&m.answered, 1, __ATOMIC_RELAXED);
		hub_post(&m.recvs[op - m.sends]);
		return;
	}
	i = (size_t)(op - m.recvs);
	m.bad += op->len != sizeof(m.words[i]);
	if (m.words[i] == BYE) {
		m.bad += leat_ep_disconnect(m.hub, op->src) != 0;
		hub_post(op);
		return;
	}
	m.sends[i] = ring_test_send(op->src, &m.words[i], sizeof(m.words[i]));
	m.sends[i].queue = LEAT_QUEUE_NONE;
	hub_post(&m.sends[i]);
}

static void
hub_sleep(void)
{
	struct pollfd fd = { .fd = leat_ep_fd(m.hub), .events = POLLIN };

	if (leat_ep_arm(m.hub) == 0) {
		m.bad += poll(&fd, 1, WAKE_MS) != 1;
		m.slept++;
	}
	leat_ep_disarm(m.hub);
}

static void *
hub_run(void *arg)
{
	struct leat_op *done[8];
	struct leat_event ev;
	uint16_t i, n;

	(void)arg;
	for (i = 0; i < OPS; i++) {
		m.recvs[i] = ring_test_recv(&m.words[i], sizeof(m.words[i]));
		m.recvs[i].queue = LEAT_QUEUE_NONE;
		hub_post(&m.recvs[i]);
	}
	while (!__atomic_load_n(&m.stop, __ATOMIC_ACQUIRE)) {
		n = leat_ep_poll(m.hub, done, RTE_DIM(done));
		for (i = 0; i < n; i++)
			hub_done(done[i]);
		while (leat_ep_events(m.hub, &ev, 1) == 1) {
			if (ev.type == LEAT_EV_CONNECT_REQ)
				m.bad += leat_ep_accept(m.hub, ev.peer, NULL) != 0;
			n++;
		}
		if (n == 0 && m.sleeps)
			hub_sleep();
		else if (n == 0)
			sched_yield();
	}
	return NULL;
}

/* ---- the clients ---- */

static void
client_send(struct client *c, uint64_t word)
{
	c->word = word;
	c->answer = 0;
	c->send = ring_test_send(c->id, &c->word, sizeof(c->word));
	c->send.queue = LEAT_QUEUE_NONE;
	ring_test_post(c->ep, &c->send);
	c->sending = true;
}

static void
client_ask(struct client *c)
{
	c->recv = ring_test_recv(&c->answer, sizeof(c->answer));
	c->recv.peer = c->id;
	c->recv.queue = LEAT_QUEUE_NONE;
	ring_test_post(c->ep, &c->recv);
	c->waiting = true;
	client_send(c, ++m.asked);
}

static void
client_step(struct client *c)
{
	if (c->state == DOWN && m.up < m.target) {
		int id = leat_ep_connect(c->ep, m.addr, NULL);

		assert_true(id >= 0);
		c->id = (uint16_t)id;
		c->state = CONNECTING;
		c->left = EXCHANGES;
		m.up++;
	}
	if (c->state != UP || c->waiting || c->sending)
		return;
	if (c->left > 0) {
		c->left--;
		client_ask(c);
	} else if (m.up > m.target) {
		m.up--;
		c->state = CLOSING;
		/* The hub gets no event when a datagram endpoint closes. */
		if (m.datagram)
			client_send(c, BYE);
		else
			assert_int_equal(leat_ep_disconnect(c->ep, c->id), 0);
	}
}

static void
client_done(struct leat_op *op)
{
	struct client *c = NULL;
	unsigned int i;

	for (i = 0; i < CLIENTS; i++) {
		if (op == &m.clients[i].send || op == &m.clients[i].recv)
			c = &m.clients[i];
	}
	assert_non_null(c);
	assert_int_equal(op->status, 0);
	m.progress++;
	if (op == &c->recv) {
		assert_int_equal(c->answer, c->word);
		c->waiting = false;
		return;
	}
	c->sending = false;
	if (c->state == CLOSING)
		assert_int_equal(leat_ep_disconnect(c->ep, c->id), 0);
}

static void
client_event(struct leat_ep *ep, const struct leat_event *ev)
{
	unsigned int i;

	for (i = 0; i < CLIENTS; i++) {
		struct client *c = &m.clients[i];

		if (c->ep != ep || c->id != ev->peer || c->state == DOWN)
			continue;
		m.progress++;
		assert_int_equal(ev->status, c->state == CLOSING ? -ECONNABORTED : 0);
		if (ev->type == LEAT_EV_CONNECTED) {
			assert_int_equal(c->state, CONNECTING);
			c->state = UP;
		} else {
			assert_int_equal(ev->type, LEAT_EV_DISCONNECTED);
			assert_int_equal(c->state, CLOSING);
			c->state = DOWN;
		}
		return;
	}
	fail_msg("an event of a peer that nobody has");
}

static bool
phase_over(void)
{
	unsigned int i, nb = 0;

	for (i = 0; i < CLIENTS; i++) {
		const struct client *c = &m.clients[i];

		if (c->state == UP)
			nb++;
		else if (c->state != DOWN)
			return false;
		if (c->state == UP && (c->left > 0 || c->waiting || c->sending))
			return false;
	}
	/* The hub must have received the acks of its answers, too. */
	return nb == m.target && __atomic_load_n(&m.answered, __ATOMIC_RELAXED) == m.asked;
}

static void
phase(unsigned int target)
{
	unsigned int i, turns = 0;
	struct leat_op *done[8];
	struct leat_event ev;
	uint64_t last;
	uint16_t k, n;

	m.target = target;
	for (i = 0; i < CLIENTS; i++)
		m.clients[i].left = EXCHANGES;
	while (!phase_over()) {
		last = m.progress;
		for (i = 0; i < CLIENTS; i++)
			client_step(&m.clients[i]);
		for (i = 0; i < m.nb_eps; i++) {
			n = leat_ep_poll(m.eps[i], done, RTE_DIM(done));
			for (k = 0; k < n; k++)
				client_done(done[k]);
			while (leat_ep_events(m.eps[i], &ev, 1) == 1)
				client_event(m.eps[i], &ev);
		}
		turns = m.progress == last ? turns + 1 : 0;
		assert_true(turns < PATIENCE);
		if (turns > 0)
			sched_yield();
	}
}

static void
run(const char *dev, unsigned int nb_eps, bool sleeps)
{
	struct leat_ep_conf conf = { .max_peers = 3 * CLIENTS, .ops = LEAT_OP_MASK_ALL };
	pthread_t thread;
	unsigned int i;

	memset(&m, 0, sizeof(m));
	m.datagram = strcmp(dev, DATAGRAM) == 0;
	if (m.datagram) {
		conf.type = LEAT_EP_DATAGRAM;
		conf.ops = LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV);
	}
	m.nb_eps = nb_eps;
	for (i = 0; i < nb_eps; i++)
		m.eps[i] = ring_test_ep(dev, &conf);
	for (i = 0; i < CLIENTS; i++)
		m.clients[i].ep = m.eps[i % nb_eps];
	conf.wait = sleeps;
	m.sleeps = sleeps;
	m.hub = ring_test_ep(dev, &conf);
	assert_int_equal(leat_ep_listen(m.hub, "many:0"), 0);
	assert_int_equal(leat_ep_listen_addr(m.hub, m.addr, sizeof(m.addr)), 0);
	assert_int_equal(pthread_create(&thread, NULL, hub_run, NULL), 0);
	for (i = 0; i < PHASES; i++)
		phase(i % 2 == 0 ? CLIENTS - i : SOME + i / 2);
	__atomic_store_n(&m.stop, true, __ATOMIC_RELEASE);
	/* Closing rings the hub's bell, which ends its sleep. */
	for (i = 0; i < nb_eps; i++)
		assert_int_equal(leat_ep_close(m.eps[i], 1000000, NULL, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(m.bad, 0);
	assert_true(!sleeps || m.slept > 0);
	assert_int_equal(leat_ep_close(m.hub, 1000000, NULL, NULL), 0);
}

static void
inline_sends(void **state)
{
	(void)state;
	run(PLAIN, CLIENTS, false);
}

/* Both sides have many links, and rely on marks. */
static void
both_sides(void **state)
{
	(void)state;
	run(PLAIN, 1, false);
}

/* Sends that complete only when their message was acked: the hub misses no ack. */
static void
acked_sends(void **state)
{
	(void)state;
	run(LARGE, CLIENTS, false);
	run(LARGE, 1, false);
}

static void
datagrams(void **state)
{
	(void)state;
	run(DATAGRAM, CLIENTS, false);
	run(DATAGRAM, 1, false);
}

/* A hub that sleeps is woken by every mark. */
static void
sleeping(void **state)
{
	struct leat_dev_info info;

	(void)state;
	assert_int_equal(leat_dev_info_get(leat_dev_by_name(PLAIN), &info), 0);
	if (!info.wait)
		skip();
	run(PLAIN, CLIENTS, true);
	run(LARGE, 2, true);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(inline_sends), cmocka_unit_test(both_sides),
		cmocka_unit_test(acked_sends),	cmocka_unit_test(datagrams),
		cmocka_unit_test(sleeping),
	};

	return cmocka_run_group_tests(tests, ring_test_start, ring_test_stop);
}
