/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Connections: how they begin, and which format they speak.
 *
 *     connector    CONNECTING -- hello? --> ........................ CONNECTED: hello? -> OPEN
 *     listener                  CONNECT_REQ: hello? -> CONNECTING -- hello? --> CONNECTED -> OPEN
 *
 * A side whose configuration asks for plain mode sends no hello. A listener sends one only to a
 * connector that has sent one. So the connection is in leat mode if the listener has sent a hello,
 * which both sides know.
 */

#include <errno.h>
#include <stdatomic.h>
#include <sys/random.h>

#include <rte_mempool.h>

#include <leat_driver.h>
#include <leat_log.h>

#include "msg_pvt.h"

static const struct leat_msg_conn_conf defaults;

/*
 * Number of the next connection of this process. All contexts count together, because they may
 * share an endpoint. The first number is random, so that a process does not use the numbers of an
 * earlier process at the same address.
 */
static _Atomic uint64_t next_number;

int
msg_numbers_start(void)
{
	uint64_t none = 0, start;

	/* Relaxed: no other data depend on the number. */
	if (atomic_load_explicit(&next_number, memory_order_relaxed) != 0)
		return 0;
	if (getrandom(&start, sizeof(start), GRND_NONBLOCK) != (ssize_t)sizeof(start))
		return leat_err(errno, "messages: getrandom: %s", strerror(errno));
	(void)atomic_compare_exchange_strong_explicit(&next_number, &none, start | 1,
						      memory_order_relaxed, memory_order_relaxed);
	return 0;
}

static uint64_t
number_take(void)
{
	return atomic_fetch_add_explicit(&next_number, 1, memory_order_relaxed) & MSG_CONN_MASK;
}

void
msg_conn_free(struct leat_msg_conn *c)
{
	msg_stats_add(&c->m->stats, c);
	leat_wheel_del(&c->m->wheel, &c->alive);
	c->m->nb_open--;
	c->state = MSG_FREE;
}

static struct leat_msg_conn *
conn_new(struct leat_msg *m, const struct leat_msg_conn_conf *conf)
{
	struct leat_msg_conn *c;
	uint16_t i;

	if (m->ending) {
		leat_err(ESHUTDOWN, "messages on %s: the context is being destroyed",
			 leat_ep_name(m->ep));
		return NULL;
	}
	if (conf->mode > LEAT_MSG_LEAT || conf->priv_len > LEAT_MSG_PRIV_MAX ||
	    (conf->priv_len > 0 && conf->priv == NULL)) {
		leat_err(EINVAL, "messages on %s: mode %d, %u B of private data (at most %u)",
			 leat_ep_name(m->ep), (int)conf->mode, conf->priv_len, LEAT_MSG_PRIV_MAX);
		return NULL;
	}
	if (conf->mempool != NULL && m->ep->mr_local &&
	    leat_ep_mempool_mr(m->ep, conf->mempool) == NULL) {
		leat_err(EINVAL, "messages on %s: mempool %s is not among the endpoint's",
			 leat_ep_name(m->ep), conf->mempool->name);
		return NULL;
	}
	for (i = 0; i < m->max_conns && m->conns[i].state != MSG_FREE; i++)
		;
	if (i == m->max_conns) {
		leat_err(ENOSPC,
			 "messages on %s: %u connections are open, as many as max_conns allows",
			 leat_ep_name(m->ep), i);
		return NULL;
	}
	c = &m->conns[i];
	/*
	 * Slots and buffers need no reset after conn_init(), since the connection that used them
	 * before has nothing in flight.
	 */
	c->mode = LEAT_MSG_AUTO;
	c->asked = (uint8_t)conf->mode;
	c->any_id = conf->any_id;
	c->max_size = conf->max_size == 0 ? m->dev_max : RTE_MIN(conf->max_size, m->dev_max);
	c->alloc = conf->alloc;
	c->alloc_arg = conf->alloc_arg;
	c->mempool = conf->mempool;
	c->user = conf->user;
	c->first_id = conf->first_id;
	c->mask = m->credits_next - 1u;
	c->eager_own = m->eager_next;
	c->number = number_take();
	c->sendq = c->recvq = (struct msg_list){ 0 };
	c->rx_next = NULL;
	c->fast = false;
	/*
	 * Set the cursors here, not when the connection opens, so that a connection that never
	 * comes up has nothing in flight either.
	 */
	c->tx_next = c->tx_post = c->tx_data = c->tx_done = c->tx_granted = c->first_id;
	c->rx_post = c->rx_bind = c->rx_data = c->rx_done = c->first_id;
	c->ctrl_tx_id = c->ctrl_rx_id = c->first_id;
	c->ctrl_due = c->drops = 0;
	c->tx_frag = c->rx_frag = NULL;
	c->tx_frag_left = c->rx_frag_left = 0;
	c->no_sends = c->no_fast_send = c->end_due = c->peer_ended = c->end_reported = false;
	c->tx_answered = c->first_id;
	c->idle_cycles = leat_us_to_cycles(conf->idle_us);
	c->answer_cycles =
		leat_us_to_cycles(conf->answer_us == 0 ? LEAT_MSG_ANSWER_US : conf->answer_us);
	c->tx_large = 0;
	c->tx_bytes = 0;
	c->tx_held = 0;
	c->nb_held = c->given = 0;
	c->stream = c->want = MSG_STREAM_FIRST;
	c->pending = 0;
	c->rx_arrived = 0;
	c->buffer_deadline = 0;
	c->bulk = c->early = c->closing = c->draining = c->drain_pinged = false;
	c->peer_closed = c->status_final = c->grant = false;
	c->no_buffer = c->got_buffer = c->waits = false;
	memset(&c->stats, 0, sizeof(c->stats));
	c->status = 0;
	c->text[0] = '\0';
	c->peer = LEAT_PEER_ANY;
	return c;
}

/* Put a new connection into use, for a peer. */
static void
conn_start(struct leat_msg_conn *c, uint16_t peer)
{
	struct leat_msg *m = c->m;

	c->state = MSG_CONNECTING;
	c->peer = peer;
	c->recv_peer = m->ep->directed_recv ? peer : LEAT_PEER_ANY;
	m->by_peer[peer] = c;
	m->nb_open++;
}

/* Write a hello and the private data. @return their length, bytes, or a negative errno */
static int
priv_put(const struct leat_msg_conn *c, const struct leat_msg_conn_conf *conf, uint16_t max,
	 uint8_t *buf)
{
	struct msg_hello h = {
		.conn = c->number,
		.credits = (uint16_t)RTE_MIN(c->mask + 1, MSG_WINDOW_FIRST),
		.eager_max = c->eager_own,
		.max_size = c->max_size,
		.priv_len = conf->priv_len,
	};
	int len = LEAT_MSG_HELLO_LEN + conf->priv_len;

	if (len > max)
		return leat_err(
			EINVAL,
			"messages on %s: the hello and %u B of private data are %d B, the device "
			"can send %u",
			leat_ep_name(c->ep), conf->priv_len, len, max);
	msg_hello_put(buf, &h);
	if (conf->priv_len > 0)
		memcpy(buf + LEAT_MSG_HELLO_LEN, conf->priv, conf->priv_len);
	return len;
}

/* Leat mode: adopt the limits in the peer's hello, for messages sent to the peer. */
static void
hello_take(struct leat_msg_conn *c, const struct msg_hello *h)
{
	c->mode = LEAT_MSG_LEAT;
	c->eager_max = RTE_MIN(c->eager_own, h->eager_max);
	c->tx_base = h->conn << MSG_TAG_CONN_SHIFT;
	c->rx_base = c->number << MSG_TAG_CONN_SHIFT;
	c->tx_credit = c->first_id + h->credits;
	/*
	 * A peer that announces fewer credits than MSG_WINDOW_FIRST can't post more receives: never
	 * ask it for more.
	 */
	c->tx_more = h->credits < MSG_WINDOW_FIRST ? LEAT_MSG_CREDITS_MAX : h->credits;
	c->tx_more_at = c->first_id;
	c->tx_max = RTE_MIN(c->m->dev_max, h->max_size);
}

static void
plain_take(struct leat_msg_conn *c)
{
	c->mode = LEAT_MSG_PLAIN;
	c->eager_max = 0;
	c->tx_max = c->m->dev_max;
}

static void
conn_open(struct leat_msg_conn *c)
{
	c->state = MSG_OPEN;
	c->fast = c->mode == LEAT_MSG_LEAT && !c->m->slow;
	if (c->mode == LEAT_MSG_PLAIN && c->asked == LEAT_MSG_AUTO)
		LEAT_LOG(NOTICE, msg, "%s: %s does not speak leat mode, so messages are plain",
			 leat_ep_name(c->ep), leat_peer_addr(c->ep, &c->ep->peers[c->peer]));
	c->tx_mask = RTE_MIN(c->mask + 1, MSG_WINDOW_FIRST) - 1;
	c->rx_window = c->mode == LEAT_MSG_LEAT ? RTE_MIN(c->mask + 1, MSG_WINDOW_FIRST)
						: RTE_MIN(c->mask + 1, MSG_PLAIN_WINDOW);
	c->batch = RTE_MIN(c->rx_window / 4, MSG_RX_BATCH);
	c->batch = RTE_MAX(c->batch, 1u);
	c->early = c->mode == LEAT_MSG_PLAIN;
	if (c->mode == LEAT_MSG_LEAT)
		c->any_id = false;
	c->pending |= 1u << LEAT_MSG_UP;
	msg_rx_start(c);
	msg_alive_start(c);
	if (c->state == MSG_OPEN)
		msg_tx_run(c);
	msg_work(c);
}

void
msg_conn_up(struct leat_msg_conn *c, const struct leat_event *ev)
{
	struct msg_hello h;
	int ret = 0;

	/* It was closed meanwhile, or leat_msg_open() has opened it, since its peer was up. */
	if (c->state != MSG_CONNECTING)
		return;
	/* A listener decided on the format when it accepted. */
	if (c->mode != LEAT_MSG_AUTO) {
		conn_open(c);
		return;
	}
	if (c->asked != LEAT_MSG_PLAIN)
		ret = msg_hello_get(ev->priv, ev->priv_len, &h);
	/* A refused connection ends before it opens, so LEAT_MSG_UP never comes. */
	if (ret < 0) {
		msg_fail(c, ret, "%s", leat_err_msg());
	} else if (ret == 1 && h.rejected) {
		msg_rejected(c, &h, ev->priv + LEAT_MSG_HELLO_LEN);
	} else if (ret == 1) {
		hello_take(c, &h);
		conn_open(c);
	} else if (c->asked == LEAT_MSG_LEAT) {
		msg_fail(c, -EPROTONOSUPPORT, "the other side does not speak leat mode");
	} else if (!c->ep->directed_recv) {
		msg_fail(c, -EOPNOTSUPP,
			 "plain mode, but the device can't receive from one peer only");
	} else {
		plain_take(c);
		conn_open(c);
	}
}

struct leat_msg_conn *
leat_msg_connect(struct leat_msg *m, const char *addr, const struct leat_msg_conn_conf *conf)
{
	uint8_t buf[LEAT_EP_PRIV_MAX];
	struct leat_conn_params params = { 0 };
	struct leat_msg_conn *c;
	int ret;

	if (conf == NULL)
		conf = &defaults;
	c = conn_new(m, conf);
	if (c == NULL)
		return NULL;
	params.timeout_us = conf->timeout_us;
	params.user = c;
	if (conf->mode == LEAT_MSG_PLAIN) {
		params.priv = conf->priv;
		params.priv_len = conf->priv_len;
	} else {
		ret = priv_put(c, conf, m->priv_max[0], buf);
		if (ret < 0)
			return NULL;
		params.priv = buf;
		params.priv_len = (uint16_t)ret;
	}
	ret = leat_ep_connect(m->ep, addr, &params);
	if (ret < 0)
		return NULL;
	conn_start(c, (uint16_t)ret);
	return c;
}

struct leat_msg_conn *
leat_msg_accept(struct leat_msg *m, const struct leat_event *ev,
		const struct leat_msg_conn_conf *conf)
{
	uint8_t buf[LEAT_EP_PRIV_MAX];
	struct leat_conn_params params = { 0 };
	struct leat_msg_conn *c;
	struct msg_hello h;
	int ret = 0;

	if (conf == NULL)
		conf = &defaults;
	c = conn_new(m, conf);
	if (c == NULL)
		return NULL;
	if (conf->mode != LEAT_MSG_PLAIN)
		ret = msg_hello_get(ev->priv, ev->priv_len, &h);
	if (ret < 0)
		return NULL;
	if (ret == 1 && h.rejected) {
		leat_err(EPROTO, "messages on %s: a request that says it is rejected",
			 leat_ep_name(m->ep));
		return NULL;
	}
	if (ret == 0 && conf->mode == LEAT_MSG_LEAT) {
		leat_err(EPROTONOSUPPORT, "messages on %s: the other side does not speak leat mode",
			 leat_ep_name(m->ep));
		return NULL;
	}
	if (ret == 0 && !m->ep->directed_recv) {
		leat_err(EOPNOTSUPP,
			 "messages on %s: plain mode, but the device can't receive from one peer "
			 "only",
			 leat_ep_name(m->ep));
		return NULL;
	}
	params.user = c;
	if (ret == 1) {
		hello_take(c, &h);
		ret = priv_put(c, conf, m->priv_max[1], buf);
		if (ret < 0)
			return NULL;
		params.priv = buf;
		params.priv_len = (uint16_t)ret;
	} else {
		plain_take(c);
		params.priv = conf->priv;
		params.priv_len = conf->priv_len;
	}
	ret = leat_ep_accept(m->ep, ev->peer, &params);
	if (ret < 0)
		return NULL;
	conn_start(c, ev->peer);
	return c;
}

struct leat_msg_conn *
leat_msg_open(struct leat_msg *m, uint16_t peer, const struct leat_msg_conn_conf *conf)
{
	enum leat_peer_state state = leat_ep_peer_state(m->ep, peer);
	struct leat_msg_conn *c;

	if (state != LEAT_PEER_UP && state != LEAT_PEER_CONNECTING && state != LEAT_PEER_ACCEPTED) {
		leat_err(ENOTCONN, "messages on %s: peer %u is not connected", leat_ep_name(m->ep),
			 peer);
		return NULL;
	}
	if (m->by_peer[peer] != NULL) {
		leat_err(EALREADY, "messages on %s: peer %u has a connection", leat_ep_name(m->ep),
			 peer);
		return NULL;
	}
	if (conf == NULL)
		conf = &defaults;
	if (conf->mode == LEAT_MSG_LEAT || !m->ep->directed_recv) {
		leat_err(EOPNOTSUPP, "messages on %s: %s", leat_ep_name(m->ep),
			 conf->mode == LEAT_MSG_LEAT
				 ? "leat mode is agreed on by leat_msg_connect() and _accept()"
				 : "plain mode, but the device can't receive from one peer only");
		return NULL;
	}
	c = conn_new(m, conf);
	if (c == NULL)
		return NULL;
	c->asked = LEAT_MSG_PLAIN; /* so that conn_open() does not log the fall-back to plain */
	plain_take(c);
	conn_start(c, peer);
	if (state == LEAT_PEER_UP)
		conn_open(c);
	return c;
}

enum leat_msg_mode
leat_msg_conn_mode(const struct leat_msg_conn *c)
{
	return c->state >= MSG_OPEN ? (enum leat_msg_mode)c->mode : LEAT_MSG_AUTO;
}

uint16_t
leat_msg_conn_peer(const struct leat_msg_conn *c)
{
	return c->peer_closed ? LEAT_PEER_ANY : c->peer;
}

void *
leat_msg_conn_user(const struct leat_msg_conn *c)
{
	return c->user;
}
