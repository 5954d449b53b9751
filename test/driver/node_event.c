/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Check each op that poll returns, and each event, against those that are allowed at that moment.
 */

#include <inttypes.h>
#include <string.h>

#include <leat_error.h>

#include "node.h"
#include "pattern.h"

/* Did the device leave the fields unchanged that belong to the caller? */
static bool
inputs_kept(const struct leat_op *a, const struct leat_op *b)
{
	bool recv = a->type == LEAT_OP_RECV || a->type == LEAT_OP_TRECV;

	return a->type == b->type && a->flags == b->flags && a->peer == b->peer &&
	       a->buf == b->buf && a->size == b->size && a->queue == b->queue && a->tag == b->tag &&
	       a->ignore == b->ignore && (recv || a->imm == b->imm) &&
	       (recv || a->compare == b->compare) && a->mr == b->mr && a->user == b->user &&
	       a->deadline == b->deadline;
}

void
ct_node_returned(struct ct_node *n, struct leat_op *op)
{
	uintptr_t off = (uintptr_t)op - (uintptr_t)n->slots;
	struct ct_slot *slot;

	if ((uintptr_t)op < (uintptr_t)n->slots || off % sizeof(*slot) != 0 ||
	    off / sizeof(*slot) >= n->nb_slots) {
		ct_node_fault(n, "poll returned an op that is not one of this endpoint's");
		return;
	}
	slot = &n->slots[off / sizeof(*slot)];
	if (slot->where != CT_POSTED) {
		ct_node_fault(
			n, "poll returned an op that is not posted (%s, status %d): a second time?",
			leat_op_type_name(op->type), op->status);
		return;
	}
	n->nb_posted--;
	if (op->state != LEAT_OP_IDLE)
		ct_node_fault(n, "poll returned an op in state %u", op->state);
	if (!inputs_kept(op, &slot->in))
		ct_node_fault(n, "poll returned a %s whose input fields had changed",
			      leat_op_type_name(slot->in.type));
	if (slot->qid != 0) {
		uint64_t due = n->order[slot->qid].returned++;

		if (slot->qseq != due)
			ct_node_fault(n,
				      "order: %s number %" PRIu64
				      " of queue %u came back when %" PRIu64 " was due",
				      leat_op_type_name(op->type), slot->qseq, slot->qid, due);
	}
	ct_stream_done(n, slot);
}

uint16_t
ct_node_poll(struct ct_node *n, uint16_t max)
{
	struct leat_op *ops[64];
	uint16_t i, got;

	max = RTE_MIN(max, (uint16_t)RTE_DIM(ops));
	got = leat_ep_poll(n->ep, ops, max);
	if (got > max) {
		ct_node_fault(n, "poll returned %u ops into room for %u", got, max);
		got = max;
	}
	for (i = 0; i < got; i++)
		ct_node_returned(n, ops[i]);
	return got;
}

/*
 * After DISCONNECTED no op of that peer may be left, except ops in the receive queue or in an
 * endpoint's own queue (CT_Q_OWN): older ops for other peers may hold these back.
 */
static void
check_peer_done(struct ct_node *n, uint16_t peer)
{
	uint32_t i;

	while (ct_node_poll(n, 32) > 0)
		;
	for (i = 0; i < n->nb_fresh && n->nb_posted > 0; i++) {
		const struct ct_slot *s = &n->slots[i];
		bool sendq = s->qid == 0 || s->qid >= 2 + CT_QUEUES;

		if (s->where == CT_POSTED && s->in.peer == peer && sendq) {
			ct_node_fault(n, "peer %u is gone, and its %s %u did not come back", peer,
				      leat_op_type_name(s->in.type), s->idx);
			return;
		}
	}
}

/* The permitted order of a peer's events; seen: 0 none yet, or 1 + type of the last one. */
static bool
event_fits(uint8_t seen, enum leat_event_type type)
{
	switch (type) {
	case LEAT_EV_CONNECT_REQ:
	case LEAT_EV_CONNECT_FAILED:
		return seen == 0;
	case LEAT_EV_CONNECTED:
		return seen == 0 || seen == 1 + LEAT_EV_CONNECT_REQ;
	case LEAT_EV_DISCONNECTED:
		return seen == 1 + LEAT_EV_CONNECT_REQ || seen == 1 + LEAT_EV_CONNECTED;
	default:
		return false;
	}
}

static int
answer(struct ct_node *n, uint16_t peer)
{
	struct leat_conn_params p = { .priv = n->priv, .priv_len = n->priv_len };

	if (n->policy == CT_REJECT_ALL) {
		n->peer_seen[peer] = 0;
		return leat_ep_reject(n->ep, peer);
	}
	return leat_ep_accept(n->ep, peer, &p);
}

static void
one_event(struct ct_node *n, const struct leat_event *ev)
{
	struct ct_logged *l = &n->log[n->nb_log++ % CT_EVENT_LOG];
	int ret;

	l->ev = *ev;
	l->taken = false;
	if ((unsigned int)ev->type > LEAT_EV_SHUTDOWN) {
		ct_node_fault(n, "event of unknown type %d", (int)ev->type);
		return;
	}
	n->ev_count[ev->type]++;
	if (ev->type == LEAT_EV_SHUTDOWN) {
		if (!n->shut || n->shutdown_done)
			ct_node_fault(n, "SHUTDOWN that was not asked for");
		n->shutdown_done = true;
		return;
	}
	if (ev->peer >= n->conf.max_peers || ev->priv_len > LEAT_EP_PRIV_MAX) {
		ct_node_fault(n, "event %d of peer %u with %u B of data", (int)ev->type, ev->peer,
			      ev->priv_len);
		return;
	}
	if (!event_fits(n->peer_seen[ev->peer], ev->type))
		ct_node_fault(n, "peer %u: event %d after event %d", ev->peer, (int)ev->type,
			      n->peer_seen[ev->peer] - 1);
	if ((ev->type == LEAT_EV_DISCONNECTED && ev->status > 0) ||
	    (ev->type == LEAT_EV_CONNECT_FAILED && ev->status >= 0))
		ct_node_fault(n, "event %d with status %d", (int)ev->type, ev->status);
	if (ev->type == LEAT_EV_CONNECT_FAILED && ev->text[0] == '\0')
		ct_node_fault(n, "CONNECT_FAILED tells no reason");
	n->peer_seen[ev->peer] = (uint8_t)(1 + ev->type);
	if (ev->type == LEAT_EV_CONNECT_FAILED || ev->type == LEAT_EV_DISCONNECTED)
		n->peer_seen[ev->peer] = 0;
	if (ev->type == LEAT_EV_DISCONNECTED)
		check_peer_done(n, ev->peer);
	if (ev->type == LEAT_EV_CONNECT_REQ && n->policy != CT_HOLD) {
		ret = answer(n, ev->peer);
		/* The peer may have left in the meantime. */
		if (ret < 0 && ret != -ENOTCONN)
			ct_node_fault(n, "answering peer %u: %s: %s", ev->peer, strerror(-ret),
				      leat_err_msg());
	}
}

void
ct_node_events(struct ct_node *n)
{
	struct leat_event ev[4];
	uint16_t i, got;

	do {
		memset(ev, 0, sizeof(ev));
		got = leat_ep_events(n->ep, ev, RTE_DIM(ev));
		for (i = 0; i < got && i < RTE_DIM(ev); i++)
			one_event(n, &ev[i]);
	} while (got == RTE_DIM(ev));
}

static struct ct_logged *
waits(struct ct_node *n, uint32_t i, unsigned int type)
{
	struct ct_logged *l = &n->log[i % CT_EVENT_LOG];

	return !l->taken && l->ev.type == type ? l : NULL;
}

/*
 * Find a logged event that no request has taken yet. A waiting request calls this again and again,
 * so log_from[] holds the position before which all events of the type are taken.
 */
struct ct_logged *
ct_node_event_find(struct ct_node *n, unsigned int type, uint16_t peer)
{
	uint32_t oldest = n->nb_log > CT_EVENT_LOG ? n->nb_log - CT_EVENT_LOG : 0, i;
	struct ct_logged *l;

	if (type >= RTE_DIM(n->log_from))
		return NULL;
	i = RTE_MAX(n->log_from[type], oldest);
	while (i < n->nb_log && waits(n, i, type) == NULL)
		i++;
	n->log_from[type] = i;
	for (; i < n->nb_log; i++) {
		l = waits(n, i, type);
		if (l != NULL && (peer == LEAT_PEER_ANY || l->ev.peer == peer))
			return l;
	}
	return NULL;
}
