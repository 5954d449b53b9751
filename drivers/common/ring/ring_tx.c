/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Post, acks and cancel. ring_shared.h explains the edges, such as FREE and CLAIM.
 *
 * A slot is published as soon as it is filled, before the op's bookkeeping: meanwhile the cache
 * line can move to the consumer.
 *
 * A message of up to inline_max bytes is copied into the slot, and its op is done at once. Every
 * other op waits for an ack in tx_ops[], at the index of its message's number modulo the number of
 * slots. (RING_FOREIGN: SENDs in the buffer, and one-sided ops on shared memory, are done at once
 * as well.) The entry becomes free when the ack is handled, perhaps later than the slot is
 * consumed. Until then a later op that needs an ack and has the same index finds no room. So the
 * ops that wait for acks are never more than the slots.
 */

#include "ring_fast.h"

#define ERRNO_MAX 4095

bool
ring_tx_refresh(struct ring_link *link, uint32_t place)
{
	link->tx_seen = __atomic_load_n(link->tx_consumed, __ATOMIC_ACQUIRE);
	return ring_tx_free(link, place);
}

/* Find the slot for an op that will wait for an ack. @return NULL: no room */
static struct ring_slot *
tx_slot_ack(struct ring_link *link)
{
	struct ring_slot *slot = link->tx.slot;

	if (!ring_tx_room(link, link->tx.place) ||
	    link->tx_ops[link->tx.nr & link->tx_mask] != NULL)
		return NULL;
	/* relaxed: published with the head */
	__atomic_store_n(&slot->state, RING_POSTED, __ATOMIC_RELAXED);
	return slot;
}

static void
tx_publish_ack(struct leat_ep *ep, struct ring_link *link, struct leat_op *op, uint32_t flags)
{
	link->tx_ops[link->tx.nr & link->tx_mask] = op;
	ring_op(op)->seq = op->type == LEAT_OP_READ ? 0 : RING_NOT_REQUESTED;
	ring_op(op)->nr = link->tx.nr;
	ring_op(op)->place = link->tx.place;
	link->tx_unacked++;
	ring_tx_publish(link, op->type, flags | RING_F_ACK, op->size);
	leat_op_start(ep, op);
}

#if RING_FOREIGN
/* Messages of up to 1/BUF_SHARE of the buffer are copied into it, if there is room. */
#define BUF_SHARE 4

/* Copy an op's bytes into the buffer for the message at the cursor. @return NULL: no room */
static void *
to_buf(struct ring_ep *rep, struct ring_link *link, const struct leat_op *op)
{
	void *buf = NULL;

	if (op->size <= link->buf.size / BUF_SHARE)
		buf = ring_tx_buf(link, &link->tx, (uint32_t)op->size);
	if (buf == NULL)
		return NULL;
	ring_copy_large(buf, op->buf, op->size);
	rep->copy_left -= (int64_t)op->size;
	return buf;
}

/*
 * A message of at least this many bytes stays in the op's buffer if the receiver can reach the
 * buffer. This saves one copy, but the send is done only when the receiver has copied the message.
 */
#define SHARED_MIN 8192

static bool
reachable(const struct ring_ep *rep, const struct ring_link *link, const struct leat_op *op)
{
	return op->size >= SHARED_MIN && ring_share_has(rep, link, op->buf, op->size);
}

/*
 * Post a SEND or TSEND that does not fit into its slot. If its bytes fit into the buffer the op is
 * done at once; otherwise the receiver copies them from shared memory, or asks for them later.
 * @return false: no room
 */
static __rte_noinline bool
post_large(struct leat_ep *ep, struct ring_link *link, struct leat_op *op)
{
	const uint32_t flags = (op->flags & LEAT_OP_F_IMM) != 0 ? RING_F_IMM : 0;
	const bool shared = reachable(ep->drv, link, op);
	struct ring_slot *slot;
	void *buf = NULL;
	uint64_t *w;

	if (!ring_tx_room(link, link->tx.place))
		return false;
	if (!shared)
		buf = to_buf(ep->drv, link, op);
	slot = buf != NULL ? link->tx.slot : tx_slot_ack(link);
	if (slot == NULL)
		return false;
	slot->addr = op->tag;
	w = slot->w;
	if (flags != 0)
		*w++ = op->imm;
	if (buf == NULL) {
		*w = shared ? (uintptr_t)op->buf : 0;
		tx_publish_ack(ep, link, op, flags | (shared ? RING_F_SHARED : 0));
		return true;
	}
	*w = ring_tx_buf_at(link, buf);
	ring_tx_publish(link, op->type, flags | RING_F_BUF, op->size);
	leat_op_start(ep, op);
	leat_op_finish(ep, op, 0, op->size);
	return true;
}

/* Fill in the word of a WRITE's slot that says where the payload is. @return the flags for it */
static uint32_t
write_bytes(struct ring_ep *rep, struct ring_link *link, const struct leat_op *op, uint64_t *w)
{
	const void *buf;

	if (reachable(rep, link, op)) {
		*w = (uintptr_t)op->buf;
		return RING_F_SHARED;
	}
	buf = op->size == 0 ? NULL : to_buf(rep, link, op);
	if (buf == NULL)
		return 0;
	*w = ring_tx_buf_at(link, buf);
	return RING_F_BUF;
}

/*
 * Execute a one-sided op at once if its target's memory is mapped here.
 * @return false: the target's loop must execute it
 */
static bool
rma_execute(struct leat_ep *ep, struct ring_link *link, struct leat_op *op)
{
	return link->reach != NULL && ring_share_execute(ep, link, op);
}

static void
read_begin(struct ring_link *link, struct leat_op *op, uint64_t *w)
{
	RTE_SET_USED(w);
	link->moves.nb += op->size > 0;
}
#else
static __rte_noinline bool
post_large(struct leat_ep *ep, struct ring_link *link, struct leat_op *op)
{
	struct ring_slot *slot = tx_slot_ack(link);
	uint64_t *w;

	if (slot == NULL)
		return false;
	w = slot->w;
	slot->addr = op->tag;
	if ((op->flags & LEAT_OP_F_IMM) != 0)
		*w++ = op->imm;
	*w = (uintptr_t)op->buf;
	tx_publish_ack(ep, link, op, (op->flags & LEAT_OP_F_IMM) != 0 ? RING_F_IMM : 0);
	return true;
}

static uint32_t
write_bytes(struct ring_ep *rep, struct ring_link *link, const struct leat_op *op, uint64_t *w)
{
	RTE_SET_USED(rep);
	RTE_SET_USED(link);
	*w = (uintptr_t)op->buf;
	return 0;
}

static void
read_begin(struct ring_link *link, struct leat_op *op, uint64_t *w)
{
	RTE_SET_USED(link);
	*w = (uintptr_t)op->buf;
}

static bool
rma_execute(struct leat_ep *ep, struct ring_link *link, struct leat_op *op)
{
	RTE_SET_USED(ep);
	RTE_SET_USED(link);
	RTE_SET_USED(op);
	return false;
}
#endif

static __rte_always_inline bool
post_small(struct leat_ep *ep, struct ring_ep *rep, struct ring_link *link, struct leat_op *op)
{
	uint64_t len = op->size;
	struct ring_slot *slot;

	if (unlikely(len > rep->inline_max))
		return post_large(ep, link, op);
	if (unlikely(!ring_tx_room(link, link->tx.place)))
		return false;
	slot = link->tx.slot;
	if (op->type == LEAT_OP_TSEND)
		slot->addr = op->tag;
	if (unlikely((op->flags & LEAT_OP_F_IMM) != 0)) {
		slot->w[0] = op->imm;
		ring_copy_small(&slot->w[1], op->buf, len);
		ring_tx_publish(link, op->type, RING_F_INLINE | RING_F_IMM, len);
	} else {
		ring_copy_small(&slot->w[0], op->buf, len);
		ring_tx_publish(link, op->type, RING_F_INLINE, len);
	}
	leat_op_start(ep, op);
	leat_op_finish(ep, op, 0, len);
	return true;
}

static __rte_noinline bool
post_rma(struct leat_ep *ep, struct ring_ep *rep, struct ring_link *link, struct leat_op *op)
{
	struct ring_slot *slot;
	uint32_t flags = 0;
	uint64_t *w;

	if (rma_execute(ep, link, op))
		return true;
	slot = tx_slot_ack(link);
	if (slot == NULL)
		return false;
	w = slot->w;
	slot->addr = op->raddr;
	*w++ = op->rkey;
	switch (op->type) {
	case LEAT_OP_WRITE_IMM:
		*w++ = op->imm;
		/* fall through */
	case LEAT_OP_WRITE:
		if (op->size <= rep->inline_max &&
		    op->size <= (size_t)(&slot->w[RING_WORDS] - w) * sizeof(*w)) {
			flags = RING_F_INLINE;
			ring_copy_small(w, op->buf, op->size);
			break;
		}
		flags = write_bytes(rep, link, op, w);
		break;
	case LEAT_OP_READ:
		read_begin(link, op, w);
		break;
	default:
		*w++ = op->operand;
		*w = op->compare;
		break;
	}
	tx_publish_ack(ep, link, op, flags);
	return true;
}

static __rte_noinline bool
post_one(struct leat_ep *ep, struct ring_ep *rep, struct leat_op *op)
{
	struct ring_link *link;
	bool taken;
	int err;

	if (unlikely(!leat_op_admit(ep, op)))
		return false;
	err = leat_op_check(ep, op);
	if (unlikely(err != 0)) {
		leat_op_fail(ep, op, err);
		return true;
	}
	if (leat_op_is_recv(op)) {
		ring_post_recv(ep, rep, op);
		return true;
	}
	link = &rep->table[op->peer];
	if (likely(op->type == LEAT_OP_SEND || op->type == LEAT_OP_TSEND))
		taken = post_small(ep, rep, link, op);
	else
		taken = post_rma(ep, rep, link, op);
	if (unlikely(!taken)) {
		rep->nb_refused += !link->tx_refused;
		link->tx_refused = true;
		rte_errno = EAGAIN;
		return false;
	}
	if (unlikely(link->board != NULL))
		ring_marks_add(rep, link);
	return true;
}

static __rte_noinline uint16_t
post_burst(struct leat_ep *ep, struct ring_ep *rep, struct leat_op **ops, uint16_t n)
{
	uint16_t i = 0, k;

	while (i < n) {
		if (ops[i]->type == LEAT_OP_SEND)
			k = ring_send_run(ep, rep, &ops[i], (uint16_t)(n - i));
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
 * Post a burst of one op, as a program that waits for each answer does. Each kind of op has a small
 * function of its own, so that the compiler saves few registers on the stack.
 */
static __rte_noinline uint16_t
post_send(struct leat_ep *ep, struct leat_op **ops)
{
	struct ring_ep *rep = ep->drv;

	if (likely(ring_send_one(ep, rep, ops[0])))
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

#if RING_FOREIGN
static __rte_noinline uint16_t
post_shared(struct leat_ep *ep, struct leat_op **ops)
{
	struct ring_ep *rep = ep->drv;

	if (likely(rep->share != NULL && ring_share_one(ep, rep, ops[0])))
		return leat_ep_post_end(ep, 1, 1);
	return post_burst(ep, rep, ops, 1);
}
#endif

uint16_t
ring_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n)
{
	if (n != 1)
		return post_burst(ep, ep->drv, ops, n);
	if (ops[0]->type == LEAT_OP_SEND)
		return post_send(ep, ops);
#if RING_FOREIGN
	if (ops[0]->type >= LEAT_OP_WRITE)
		return post_shared(ep, ops);
#endif
	return post_recv(ep, ops);
}

/*
 * Post ops, and wake the peers that sleep. This is the post function of an endpoint if one of its
 * peers has, or had, a wait object. Other endpoints use ring_post(), which does not look for
 * sleeping peers.
 */
uint16_t
ring_post_waking(struct leat_ep *ep, struct leat_op **ops, uint16_t n)
{
	uint16_t k = ring_post(ep, ops, n);

	ring_wake_peers(ep, ops, k);
	return k;
}

void
ring_post_soon(struct leat_ep *ep, uint16_t id)
{
	const struct ring_ep *rep = ep->drv;
	const struct ring_link *link = &rep->table[id];

	if (unlikely(id >= ep->nb_peers || !link->may_send))
		return;
	if (likely(ring_tx_free(link, link->tx.place)))
		ring_tx_touch_slot(link->tx.slot, false);
}

/* ---- acks ---- */

#if RING_FOREIGN
/* Check and apply a foreign peer's ack of an op. @return the op, if the ack ends it, or NULL */
static struct leat_op *
ack_take(struct leat_ep *ep, struct ring_link *link, uint32_t i, int status, uint64_t *value)
{
	struct leat_op *op = i <= link->tx_mask ? link->tx_ops[i] : NULL;

	if (op != NULL && status == RING_GO && ring_move_start(link, op))
		return NULL;
	if (op == NULL || status > 0 || status < -ERRNO_MAX ||
	    (status == 0 && op->type == LEAT_OP_READ && op->size > 0)) {
		ring_violation(ep->drv, link, "its ack names no op, or an invalid status");
		return NULL;
	}
	/* Clear this first: a chunk that ring_move_acked() takes must not end the op again. */
	link->tx_ops[i] = NULL;
	ring_move_acked(ep, link, op, status);
	if (op->type < LEAT_OP_FETCH_ADD)
		*value = status == 0 ? op->size : 0;
	return op;
}
#else
static struct leat_op *
ack_take(struct leat_ep *ep, struct ring_link *link, uint32_t i, int status, const uint64_t *value)
{
	struct leat_op *op = link->tx_ops[i];

	RTE_SET_USED(ep);
	RTE_SET_USED(status);
	RTE_SET_USED(value);
	link->tx_ops[i] = NULL;
	return op;
}
#endif

void
ring_acks(struct leat_ep *ep, struct ring_link *link, uint32_t max)
{
	uint32_t n;

	for (n = 0; n < max && link->tx_unacked > 0 && !ring_violated(link); n++) {
		const struct ring_ack *a =
			&link->tx_acks[link->tx_ack_head & ring_ack_mask(link->tx_mask)];
		/* edge ACK: pairs with ring_ack() */
		uint64_t head = __atomic_load_n(&a->head, __ATOMIC_ACQUIRE), value;
		int status = (int32_t)(uint32_t)(head >> 32);
		struct leat_op *op;
		uint32_t i;

		if (!RING_HEAD_IS(head, link->tx_ack_head))
			break;
		link->tx_ack_head++;
		value = a->value;
		i = (uint16_t)(head >> 16);
		op = ack_take(ep, link, i, status, &value);
		if (RING_FOREIGN && op == NULL)
			continue;
		link->tx_unacked--;
		if (op->type >= LEAT_OP_FETCH_ADD && status == 0) {
			memcpy(op->buf, &value, sizeof(value));
			value = sizeof(value);
		}
		leat_op_finish(ep, op, status, value);
	}
}

/* ---- cancel ---- */

/*
 * Take back an op that the peer has not claimed. This is the producer's side of edge CLAIM;
 * ring_claim() is the consumer's. The op belongs to the side that swaps the slot's state first.
 * @return true: the caller finishes the op, and the consumer will not touch its buffer
 */
bool
ring_recall(struct ring_link *link, struct leat_op *op)
{
	struct ring_slot *slot = &link->tx_slots[ring_op(op)->place];
	uint64_t nr = ring_op(op)->nr;
	uint16_t expected = RING_POSTED;

	/*
	 * If the message is consumed, the ack of its op has arrived, and its slot may hold another
	 * message by now. The load belongs to edge FREE, as in ring_tx_refresh().
	 */
	if (nr < __atomic_load_n(link->tx_consumed, __ATOMIC_ACQUIRE))
		return false;
	/* A peer that has asked for the op's bytes has claimed the op, whatever slot.state says. */
	if (RING_FOREIGN && op->type != LEAT_OP_READ && ring_op(op)->seq != RING_NOT_REQUESTED)
		return false;
	if (!__atomic_compare_exchange_n(&slot->state, &expected, RING_RECALLED, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return false;
	link->tx_ops[nr & link->tx_mask] = NULL;
	link->tx_unacked--;
#if RING_FOREIGN
	link->moves.nb -= op->type == LEAT_OP_READ && op->size > 0;
#endif
	/* If the message is unexpected at the peer, the bell makes the peer free its slot. */
	__atomic_store_n(&link->mine->recalls, link->mine->recalls + 1, __ATOMIC_RELAXED);
	ring_link_bell(link);
	return true;
}

/* Are bytes of a message coming in for this receive? Then the message will finish it. */
static bool
comes_in(const struct ring_ep *rep, const struct leat_op *op)
{
#if RING_FOREIGN
	uint32_t i;

	for (i = 0; i < rep->nb_links; i++) {
		if (rep->links[i]->moves.nb > 0 && ring_moves_has(rep->links[i], op))
			return true;
	}
#else
	RTE_SET_USED(rep);
	RTE_SET_USED(op);
#endif
	return false;
}

int
ring_cancel(struct leat_ep *ep, struct leat_op *op)
{
	struct ring_ep *rep = ep->drv;

	if (leat_op_is_recv(op)) {
		if (comes_in(rep, op))
			return 0;
		ring_recv_remove(rep, op);
		leat_op_finish(ep, op, -ECANCELED, 0);
	} else if (ring_recall(&rep->table[op->peer], op)) {
		leat_op_finish(ep, op, -ECANCELED, 0);
	}
	/* An op that can't be recalled was claimed by the peer, whose ack will finish it. */
	return 0;
}
