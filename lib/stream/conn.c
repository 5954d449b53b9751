/* SPDX-License-Identifier: BSD-3-Clause */

/* Streams come up: connect, listen, accept; and the events of the endpoint. */

#include <stdlib.h>

#include <rte_random.h>

#include <leat_driver.h>

#include "stream_pvt.h"

/* Maximum number of rounds in which poll_remaining() polls. */
#define ROUNDS 1024
/* Interval of log lines about refusals, us. */
#define REFUSAL_US 1000000

static uint64_t next_id;

/* ---- slots ---- */

static struct leat_stream *
slot_get(struct leat_stream_net *net, uint16_t peer, const char *addr)
{
	struct leat_stream *s = net->free;
	unsigned int i;

	if (s == NULL) {
		leat_err(ENOSPC, "%s: %s: there are %u streams already: raise max_streams",
			 net->name, addr, net->conf.max_streams);
		return NULL;
	}
	snprintf(s->addr, sizeof(s->addr), "%s", addr);
	if (stream_mem_get(s) < 0)
		return NULL;
	if (net->windows && (s->reorder = calloc(1, sizeof(*s->reorder))) == NULL) {
		stream_mem_close(s);
		stream_mem_put(s);
		leat_err(ENOMEM, "%s: no memory for a stream", net->name);
		return NULL;
	}
	net->free = s->next_free;
	s->peer = peer;
	s->token = (uint32_t)rte_rand() << 16 | s->index;
	s->rx_end = UINT64_MAX;
	s->outs_end = &s->outs;
	stream_timer_init(s);
	s->id = __atomic_add_fetch(&next_id, 1, __ATOMIC_RELAXED);
	for (i = 0; i < STREAM_CTRLS; i++) {
		struct stream_ctrl_op *c = &s->ctrl[i];

		c->s = s;
		c->op.type = LEAT_OP_SEND;
		c->op.buf = net->msgs + (size_t)net->nb_rx * STREAM_RECV_LEN +
			    ((size_t)s->index * STREAM_CTRLS + i) * STREAM_CTRL_LEN;
		c->op.size = STREAM_CTRL_LEN;
		c->op.mr = net->msgs_mr;
	}
	STREAM_COUNT(net->stats.streams, 1);
	return s;
}

static void
slot_clear(struct leat_stream *s)
{
	struct leat_stream_net *net = s->net;
	const uint32_t index = s->index, gen = s->gen + 1;

	free(s->reorder);
	memset(s, 0, sizeof(*s));
	s->net = net;
	s->index = index;
	s->gen = gen;
	s->next_free = net->free;
	net->free = s;
}

/* Free a stream if nothing refers to it any more. */
void
stream_slot_put(struct leat_stream *s)
{
	if (s->state != STREAM_OVER || !s->released || s->in_work || s->in_ready || s->in_starved ||
	    s->tx_flight > 0 || s->ctrl_flight > 0)
		return;
	stream_mem_put(s);
	STREAM_COUNT(s->net->stats.streams, -1);
	slot_clear(s);
}

/* ---- connect ---- */

struct leat_stream *
leat_stream_connect(struct leat_stream_net *net, const char *addr, uint64_t timeout_us)
{
	const struct leat_conn_params params = { .timeout_us = timeout_us };
	struct leat_stream *s;
	int ret;

	if (net->closing) {
		leat_err(ESHUTDOWN, "%s: it is being closed", net->name);
		return NULL;
	}
	s = slot_get(net, 0, addr);
	if (s == NULL)
		return NULL;
	ret = leat_ep_connect(net->ep, addr, &params);
	if (ret < 0) {
		s->state = STREAM_OVER;
		s->released = true;
		stream_mem_close(s);
		stream_slot_put(s);
		rte_errno = -ret;
		return NULL;
	}
	s->peer = (uint16_t)ret;
	s->state = STREAM_CONNECTING;
	s->known = true;
	net->by_peer[s->peer] = s;
	return s;
}

/* ---- listen and accept ---- */

int
leat_stream_listen(struct leat_stream_net *net, const char *addr,
		   const struct leat_stream_listener *listener)
{
	int ret;

	if (listener == NULL || listener->accept == NULL)
		return leat_err(EINVAL, "%s: listen: no function for streams", net->name);
	ret = leat_ep_listen(net->ep, addr);
	if (ret < 0)
		return ret;
	net->listener = *listener;
	net->listening = true;
	return 0;
}

void
leat_stream_unlisten(struct leat_stream_net *net)
{
	net->listening = false;
}

int
leat_stream_listen_addr(const struct leat_stream_net *net, char *addr, size_t len)
{
	return leat_ep_listen_addr(net->ep, addr, len);
}

static void
refuse(struct leat_stream_net *net, uint16_t peer, const char *why)
{
	const uint64_t now = leat_now();

	STREAM_COUNT(net->stats.refused, 1);
	/* The reject fails only if the peer has left. */
	(void)leat_ep_reject(net->ep, peer);
	if (net->refusal_logged != 0 && now - net->refusal_logged < leat_us_to_cycles(REFUSAL_US)) {
		net->refusals_unlogged++;
		return;
	}
	LEAT_LOG(NOTICE, stream,
		 "%s: refused: %s (and %" PRIu64 " more since the last of these lines)", net->name,
		 why, net->refusals_unlogged);
	net->refusal_logged = now;
	net->refusals_unlogged = 0;
}

static void
requested(struct leat_stream_net *net, uint16_t peer)
{
	const char *addr = leat_peer_addr(net->ep, &net->ep->peers[peer]);
	struct leat_stream *s;
	char why[LEAT_EVENT_TEXT + LEAT_ADDR_MAX];
	int ret;

	if (!net->listening) {
		refuse(net, peer, "it does not listen any more");
		return;
	}
	if (net->listener.admit != NULL) {
		ret = net->listener.admit(addr, net->listener.arg);
		if (ret < 0) {
			snprintf(why, sizeof(why), "%s: %s", addr, strerror(-ret));
			refuse(net, peer, why);
			return;
		}
	}
	s = slot_get(net, peer, addr);
	if (s == NULL) {
		refuse(net, peer, leat_err_msg());
		return;
	}
	s->accepted = true;
	s->state = STREAM_ACCEPTED;
	net->by_peer[peer] = s;
	ret = leat_ep_accept(net->ep, peer, NULL);
	if (ret < 0) {
		s->error = ret;
		stream_down(s, ret, leat_err_msg());
		/* The request is still open if the peer has not left: release the peer. */
		(void)leat_ep_reject(net->ep, peer);
		return;
	}
	stream_timer_accepted(s);
}

static void
up(struct leat_stream *s)
{
	struct leat_stream_net *net = s->net;

	if (s->state >= STREAM_UP)
		return; /* the stream is being disconnected */
	s->state = STREAM_UP;
	s->known = true;
	if (s->accepted) {
		STREAM_COUNT(net->stats.accepted, 1);
		s->announce = true;
	} else {
		STREAM_COUNT(net->stats.connected, 1);
	}
	net->now = leat_now();
	stream_timer_up(s);
	stream_ctrl_up(s);
	if (s->draining)
		stream_timer_set(s);
	stream_ready_touch(s);
}

/* ---- events ---- */

/*
 * Poll the receives of the messages that a peer sent before its end. They have completed before the
 * peer's last event is reported, but may not have been polled yet. Polled later they would be
 * mistaken for receives from the next peer with the same id.
 */
static void
poll_remaining(struct leat_stream_net *net)
{
	struct leat_op *ops[LEAT_EP_BURST];
	unsigned int rounds = ROUNDS;
	uint16_t n;

	while (net->ep->ready_head != NULL && rounds-- > 0) {
		n = leat_ep_poll(net->ep, ops, LEAT_EP_BURST);
		stream_on_ops(net, net->ep, ops, n, leat_now());
	}
}

void
stream_on_ep_event(void *arg, struct leat_ep *ep, const struct leat_event *ev)
{
	struct leat_stream_net *net = arg;
	struct leat_stream *s;

	(void)ep;
	if (ev->type == LEAT_EV_CONNECT_REQ) {
		requested(net, ev->peer);
		return;
	}
	s = ev->peer < net->nb_peers ? net->by_peer[ev->peer] : NULL;
	if (s == NULL)
		return;
	switch (ev->type) {
	case LEAT_EV_CONNECTED:
		up(s);
		break;
	case LEAT_EV_CONNECT_FAILED:
		stream_down(s, ev->status, ev->text);
		break;
	case LEAT_EV_DISCONNECTED:
		poll_remaining(net);
		/*
		 * If the stream came up in this same turn, the application is told of that first,
		 * and of the end afterwards.
		 */
		stream_down(s, ev->status, ev->text);
		break;
	default:
		break;
	}
}

/* ---- state and counters of a stream ---- */

int
leat_stream_error(const struct leat_stream *s)
{
	return s->error;
}

const char *
leat_stream_why(const struct leat_stream *s)
{
	return s->why;
}

const char *
leat_stream_peer(const struct leat_stream *s)
{
	return s->addr;
}

uint64_t
leat_stream_id(const struct leat_stream *s)
{
	return s->id;
}

struct leat_stream_net *
leat_stream_net_of(const struct leat_stream *s)
{
	return s->net;
}

void
leat_stream_user_set(struct leat_stream *s, void *user)
{
	s->user = user;
}

void *
leat_stream_user(const struct leat_stream *s)
{
	return s->user;
}

void
leat_stream_info_get(const struct leat_stream *s, struct leat_stream_info *info)
{
	*info = s->info;
	info->mode = s->net->windows ? LEAT_STREAM_MODE_WINDOWS : LEAT_STREAM_MODE_COMPAT;
	info->accepted = s->accepted;
	info->half_close = (s->features & STREAM_FEATURE_END) != 0;
	info->rx_size = s->rx_size;
	info->tx_room = s->tx_size - (uint32_t)(s->tx_head - s->tx_done);
	info->rx_ready = (uint32_t)(s->rx_got - s->rx_taken);
}
