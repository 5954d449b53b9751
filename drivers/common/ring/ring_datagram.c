/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Post and poll of datagram endpoints.
 *
 *     post   copy the message into the slot or the buffer (ring_buf.h); publish; the op is done
 *     poll   copy the message into a posted receive; without one the message is lost
 *
 * A sender does not wait for its receiver, so there are no acks and no claims: a message that finds
 * no room is lost, and its op is done nevertheless. A receiver keeps no unexpected messages, so it
 * consumes messages in order and needs no notes (struct ring_note). Datagram and reliable endpoints
 * share the choice of the next slot, the lists of receives, and the choice of the links that a poll
 * looks at. ring_shared.h explains the edges, such as PUBLISH.
 *
 * A burst is published in groups, as in ring_fast.h. If messages were published one by one the
 * receiver would follow the sender line by line, and fewer messages would get through. A group also
 * ends after GROUP_BYTES, so that the receiver copies its messages out while the sender copies the
 * next group in.
 */

#include "ring_fast.h"
#include "ring_poll.h"

#define GROUP_BYTES (8 << 10)

/* ---- post ---- */

/*
 * Copy a SEND, with an immediate or without, into the slot at the cursor or into the buffer.
 * @param[out] head the value for the slot's head. Set to 0 if the message is lost: no caller reads
 *	it then, but gcc with -fsanitize=thread would warn.
 * @return false: there is no room, the message is lost
 */
static __rte_always_inline bool
fill(struct ring_ep *rep, struct ring_link *link, const struct ring_cursor *c,
     const struct leat_op *op, bool imm, uint64_t *head)
{
	uint32_t flags = imm ? RING_F_IMM : 0;
	uint64_t *w = &c->slot->w[imm ? 1 : 0];
	uint64_t len = op->size;
	void *buf = NULL;

	if (unlikely(!ring_tx_room(link, c->place) ||
		     (len > rep->inline_max &&
		      (buf = ring_tx_buf(link, c, (uint32_t)len)) == NULL))) {
		LEAT_STAT_ADD(rep->lost.full, 1);
		*head = 0;
		return false;
	}
	if (buf != NULL) {
		ring_copy_large(buf, op->buf, len);
		*w = ring_tx_buf_at(link, buf);
	} else {
		ring_copy_small(w, op->buf, len);
		flags |= RING_F_INLINE;
	}
	if (imm)
		c->slot->w[0] = op->imm;
	*head = ring_tx_fill(link, c, LEAT_OP_SEND, flags, len);
	return true;
}

/*
 * Post plain SENDs of any size to one peer, from the front of ops, in groups.
 * @return number posted
 */
static __rte_always_inline uint16_t
send_groups(struct ring_ep *rep, struct ring_link *link, struct leat_op **ops, uint16_t n,
	    uint64_t *bytes)
{
	struct ring_cursor c = link->tx; /* a local copy, kept in registers */
	struct ring_slot *first = NULL, *slot;
	uint64_t head, first_head = 0, sum = 0, group = 0;
	uint16_t i, id = ops[0]->peer;
	struct leat_op *last = NULL;
	uint32_t more = 0;

	for (i = 0; i < n; i++) {
		struct leat_op *op = ops[i];

		if (unlikely(!ring_send_plain(op, id, rep->mtu)))
			break;
		slot = c.slot;
		if (likely(fill(rep, link, &c, op, false, &head))) {
			ring_tx_advance(link, &c);
			if (first == NULL) {
				first = slot;
				first_head = head;
				more = 0;
				group = 0;
			} else {
				ring_tx_store(slot, head);
				more++;
			}
			group += op->size;
			if (more == RING_GROUP - 1 || group >= GROUP_BYTES) {
				ring_tx_store(first, first_head | ring_head_more(more));
				first = NULL;
			}
		}
		sum += op->size;
		leat_op_run_sent(op, last);
		last = op;
	}
	if (first != NULL)
		ring_tx_store(first, first_head | ring_head_more(more));
	link->tx = c;
	*bytes = sum;
	return i;
}

/* Post SENDs, of which the first is large or found no free slot. @return number posted */
static __rte_noinline uint16_t
send_large(struct leat_ep *ep, struct ring_ep *rep, struct leat_op **ops, uint16_t n)
{
	struct ring_link *link = ring_send_link(ep, rep, ops[0]);
	uint64_t bytes = 0;

	if (unlikely(link == NULL))
		return 0;
	ring_tx_touch(link, n, false);
	n = send_groups(rep, link, ops, n, &bytes);
	if (likely(n > 0))
		ring_send_end(ep, rep, link, ops, n, bytes);
	return n;
}

/* Post one SEND that is large or found no free slot. @return false: post_one() must post it */
static __rte_noinline bool
send_large_one(struct leat_ep *ep, struct ring_ep *rep, struct leat_op *op)
{
	struct ring_link *link = ring_send_link(ep, rep, op);
	uint64_t head;

	if (unlikely(link == NULL || !ring_send_plain(op, op->peer, rep->mtu)))
		return false;
	if (likely(fill(rep, link, &link->tx, op, false, &head))) {
		ring_tx_store(link->tx.slot, head);
		ring_tx_advance(link, &link->tx);
	}
	leat_op_run_sent(op, NULL);
	ring_send_one_end(ep, link, op);
	return true;
}

/* Post one SEND. @return false: post_one() must post it */
static __rte_always_inline bool
send_one(struct leat_ep *ep, struct ring_ep *rep, struct leat_op *op)
{
	if (likely(op->size <= rep->inline_max && ring_send_one(ep, rep, op)))
		return true;
	return send_large_one(ep, rep, op);
}

/* Post plain SENDs to one peer from the front of ops. @return number posted */
static __rte_always_inline uint16_t
send_run(struct leat_ep *ep, struct ring_ep *rep, struct leat_op **ops, uint16_t n)
{
	uint16_t k = 0;

	n = ring_same_peer(ops, n);
	if (n == 1)
		return send_one(ep, rep, ops[0]);
	if (ops[0]->size <= rep->inline_max)
		k = ring_send_run(ep, rep, ops, n);
	return k > 0 ? k : send_large(ep, rep, ops, n);
}

/* Post one SEND of any kind, also with an immediate, with flags, or behind older ops in flight. */
static void
post_one_send(struct leat_ep *ep, struct ring_ep *rep, struct leat_op *op)
{
	struct ring_link *link = &rep->table[op->peer];
	bool imm = (op->flags & LEAT_OP_F_IMM) != 0;
	uint64_t head;

	if (likely(fill(rep, link, &link->tx, op, imm, &head))) {
		ring_tx_store(link->tx.slot, head);
		ring_tx_advance(link, &link->tx);
	}
	leat_op_start_as(ep, op, false);
	leat_op_finish_as(ep, op, 0, op->size, false);
	if (unlikely(link->board != NULL))
		ring_marks_add(rep, link);
}

/* Post one op of any kind. @return false: there is no room for it */
static __rte_noinline bool
post_one(struct leat_ep *ep, struct ring_ep *rep, struct leat_op *op)
{
	int err;

	if (unlikely(!leat_op_admit(ep, op)))
		return false;
	err = leat_op_check(ep, op);
	if (unlikely(err != 0))
		leat_op_fail(ep, op, err);
	else if (leat_op_is_recv(op))
		ring_post_recv(ep, rep, op);
	else
		post_one_send(ep, rep, op);
	return true;
}

static __rte_noinline uint16_t
post_burst(struct leat_ep *ep, struct ring_ep *rep, struct leat_op **ops, uint16_t n)
{
	uint16_t i = 0, k;

	while (i < n) {
		if (ops[i]->type == LEAT_OP_SEND)
			k = send_run(ep, rep, &ops[i], (uint16_t)(n - i));
		else
			k = ring_recv_run(ep, rep, &ops[i], (uint16_t)(n - i));
		if (k == 0) {
			if (!post_one(ep, rep, ops[i]))
				break;
			k = 1;
		}
		i = (uint16_t)(i + k);
	}
	if (unlikely(rep->nb_marks > 0))
		ring_marks_put(rep);
	return leat_ep_post_end(ep, i, n);
}

/*
 * Post a burst of one op. Each kind of op has a small function of its own, so that the compiler
 * saves few registers on the stack.
 */
static __rte_noinline uint16_t
post_send(struct leat_ep *ep, struct leat_op **ops)
{
	struct ring_ep *rep = ep->drv;

	if (likely(send_one(ep, rep, ops[0])))
		return leat_ep_post_end(ep, 1, 1);
	return post_burst(ep, rep, ops, 1);
}

static __rte_noinline uint16_t
post_recv(struct leat_ep *ep, struct leat_op **ops)
{
	struct ring_ep *rep = ep->drv;

	if (likely(ring_recv_one(ep, rep, ops[0])))
		return leat_ep_post_end(ep, 1, 1);
	return post_burst(ep, rep, ops, 1);
}

uint16_t
ring_datagram_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n)
{
	if (n == 1)
		return ops[0]->type == LEAT_OP_SEND ? post_send(ep, ops) : post_recv(ep, ops);
	return post_burst(ep, ep->drv, ops, n);
}

/* As ring_post_waking() of ring_tx.c: post, and wake the peers that sleep. */
uint16_t
ring_datagram_post_waking(struct leat_ep *ep, struct leat_op **ops, uint16_t n)
{
	uint16_t k = ring_datagram_post(ep, ops, n);

	ring_wake_peers(ep, ops, k);
	return k;
}

/* ---- poll ---- */

/*
 * Remove a receive from its list, fill it and finish it.
 * @return false: the message's bytes are not in the sender's buffer, a violation; the receive stays
 * posted
 */
static bool
deliver(struct leat_ep *ep, struct ring_ep *rep, struct ring_link *link,
	const struct ring_slot *slot, uint64_t head, struct leat_op *op)
{
	const bool is_inline = (RING_HEAD_FLAGS(head) & RING_F_INLINE) != 0;
	uint64_t len = RING_HEAD_LEN(head);
	int status = len > op->size ? -EMSGSIZE : 0;
	const void *src = ring_payload(slot, head);

	if (!is_inline) {
		src = ring_rx_bytes(rep, link, ring_payload_at(slot, head), len);
		if (RING_FOREIGN && unlikely(src == NULL))
			return false;
	}
	ring_take_recv(rep, link, op);
	op->src = link->id;
	if (likely(status == 0)) {
		if (is_inline)
			ring_copy_small(op->buf, src, len);
		else
			ring_datagram_copy(rep, op->buf, src, len);
	}
	if ((RING_HEAD_FLAGS(head) & RING_F_IMM) != 0) {
		op->oflags = LEAT_OP_F_IMM;
		op->imm = slot->w[0];
	}
	leat_op_finish_as(ep, op, status, len, true);
	return true;
}

/*
 * Handle messages one by one. The first one, in link->rx_slot, has arrived, and head is its head.
 * @return number of slots handled
 */
static __rte_noinline uint32_t
rx_general(struct leat_ep *ep, struct ring_ep *rep, struct ring_link *link, uint64_t head)
{
	uint64_t nr = link->rx_scan, first = nr, end = nr + ring_rx_max(ep);
	struct ring_slot *slot = link->rx_slot;
	struct leat_op *op;

	do {
		op = ring_find_recv(rep, link);
		if (unlikely(!ring_head_sane(rep, head))) {
			ring_violation(rep, link, "it published an invalid message");
			break;
		}
		if (unlikely(RING_HEAD_LEN(head) > rep->mtu)) {
			LEAT_STAT_ADD(rep->lost.too_long, 1);
		} else if (unlikely(op == NULL)) {
			LEAT_STAT_ADD(rep->lost.unreceived, 1);
		} else if (unlikely(!deliver(ep, rep, link, slot, head, op))) {
			break;
		}
		nr++;
		ring_credit(link, slot->credit);
		slot = &link->rx_slots[ring_rx_place(link, slot->next)];
		/* edge PUBLISH: pairs with ring_tx_publish() */
		head = __atomic_load_n(&slot->head, __ATOMIC_ACQUIRE);
	} while (RING_HEAD_IS(head, nr) && nr != end && rep->copy_left > 0);
	link->rx_slot = slot;
	link->rx_scan = nr;
	link->rx_head = nr;
	ring_rx_publish(link);
	if (ring_violated(link))
		ring_link_rx_off(link);
	return (uint32_t)(nr - first);
}

static __rte_always_inline uint32_t
poll_link(struct leat_ep *ep, struct ring_ep *rep, struct ring_link *link, uint64_t head)
{
	uint32_t n;

	if (!RING_HEAD_IS(head, link->rx_scan))
		return 0;
	/* The caller may answer: request the line of the answer's slot, as in ring_rx.c. */
	if (RING_HEAD_MORE(head) == 0 && ring_tx_free(link, link->tx.place))
		ring_tx_touch_slot(link->tx.slot, false);
	n = ring_rx_run(ep, rep, link, head, true);
	return likely(n > 0) ? n : rx_general(ep, rep, link, head);
}

static __rte_noinline void
poll_one(struct leat_ep *ep, struct ring_ep *rep, struct ring_link *link, uint64_t head)
{
	(void)poll_link(ep, rep, link, head);
}

static __rte_noinline void
poll_few(struct leat_ep *ep, struct ring_ep *rep)
{
	ring_poll_few(ep, rep, poll_link);
}

static __rte_noinline void
poll_many(struct leat_ep *ep, struct ring_ep *rep)
{
	ring_poll_many(ep, rep, poll_link);
}

void
ring_datagram_poll(struct leat_ep *ep)
{
	struct ring_ep *rep = ep->drv;
	struct ring_link *link;
	uint64_t head;

	rep->copy_left = RING_COPY_BUDGET;
	if (likely(rep->nb_links == 1)) {
		link = rep->links[0];
		head = ring_rx_head(link);
		if (RING_HEAD_IS(head, link->rx_scan))
			poll_one(ep, rep, link, head);
	} else if (!rep->many) {
		poll_few(ep, rep);
	} else {
		poll_many(ep, rep);
	}
}
