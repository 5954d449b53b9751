/* SPDX-License-Identifier: BSD-3-Clause */

/* Ops on memory that both processes have mapped: see ring_share.h. */

#include <errno.h>
#include <string.h>

#include "leat_error.h"
#include "leat_order_fast.h"

#include "ring_pvt.h"

bool
ring_share_has(const struct ring_ep *rep, const struct ring_link *link, const void *buf,
	       uint64_t len)
{
	return link->reach != NULL && !__atomic_load_n(&rep->share->stale, __ATOMIC_RELAXED) &&
	       ring_arenas_at(&rep->share->arenas, (uintptr_t)buf, len) != NULL;
}

const void *
ring_share_bytes(struct ring_ep *rep, struct ring_link *link, uint64_t addr, uint64_t len)
{
	const void *bytes = link->reach == NULL ? NULL
						: ring_arenas_at(&link->reach->arenas, addr, len);

	if (unlikely(bytes == NULL))
		ring_violation(rep, link, "a message's bytes are not in memory that it shares");
	else
		LEAT_STAT_ADD(rep->share->nb_copies, 1);
	return bytes;
}

bool
ring_share_still(const struct ring_link *link)
{
	/* The copy comes before the load; pairs with the fence in end_moves() of the peer. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&link->theirs->closed, __ATOMIC_RELAXED) == RING_UP;
}

/* ---- at the owner of a region ---- */

void
ring_share_publish(struct ring_ep *rep, uint32_t region)
{
	const struct ring_region *r = &rep->regions[region];
	struct ring_entry *e;

	if (rep->share == NULL || region >= RING_ENTRIES || (r->access & LEAT_MR_REMOTE_ALL) == 0 ||
	    __atomic_load_n(&rep->share->stale, __ATOMIC_RELAXED) ||
	    ring_arenas_at(&rep->share->arenas, r->addr, r->len) == NULL)
		return;
	e = &rep->share->entries[region];
	e->addr = r->addr;
	e->len = r->len;
	e->access = r->access;
	/* pairs with the load in entry_find() */
	__atomic_store_n(&e->key, r->key, __ATOMIC_RELEASE);
}

uint64_t
ring_share_touched(const struct ring_link *link)
{
	if (link->reach == NULL || !ring_link_alive(link))
		return 0;
	/* acquire: the peer's op on the region comes before the owner's use of the memory */
	return __atomic_load_n(&link->theirs->touching, __ATOMIC_ACQUIRE);
}

int
ring_share_withdraw(struct ring_ep *rep, uint32_t region)
{
	uint32_t i;

	if (rep->share == NULL || region >= RING_ENTRIES)
		return 0;
	__atomic_store_n(&rep->share->entries[region].key, 0, __ATOMIC_RELAXED);
	if (!ring_fence_all())
		return leat_err(EBUSY, "%s: deregister memory: membarrier(2): %s; try again",
				leat_ep_name(rep->ep), strerror(errno));
	for (i = 0; i < rep->nb_links; i++) {
		if (ring_share_touched(rep->links[i]) == (uint64_t)region + 1)
			return leat_err(EBUSY,
					"%s: deregister memory: a peer is using it; try again",
					leat_ep_name(rep->ep));
	}
	return 0;
}

/* ---- at the initiator of an op ---- */

/* Find the memory that an op acts on. @return NULL: it is not mapped here, or the key is wrong */
static void *
entry_find(const struct ring_link *link, const struct leat_op *op, uint32_t region)
{
	const struct ring_entry *e = &link->reach->entries[region];
	uint64_t addr, len;

	if (__atomic_load_n(&link->theirs->closed, __ATOMIC_RELAXED) != RING_UP)
		return NULL;

	/* acquire makes the rest of the entry and the owner's earlier writes visible */
	if (__atomic_load_n(&e->key, __ATOMIC_ACQUIRE) != op->rkey || op->rkey == 0 ||
	    (__atomic_load_n(&e->access, __ATOMIC_RELAXED) & leat_op_right(op->type)) == 0)
		return NULL;
	addr = __atomic_load_n(&e->addr, __ATOMIC_RELAXED);
	len = __atomic_load_n(&e->len, __ATOMIC_RELAXED);
	if (op->raddr < addr || op->raddr - addr > len || op->size > len - (op->raddr - addr))
		return NULL;
	return ring_arenas_at(&link->reach->arenas, op->raddr, op->size);
}

static bool
act(const struct leat_op *op, void *mem)
{
	uint64_t value;

	switch (op->type) {
	case LEAT_OP_WRITE:
		if (op->size <= RING_INLINE_MAX)
			ring_copy_small(mem, op->buf, op->size);
		else
			ring_copy_large(mem, op->buf, op->size);
		return true;
	case LEAT_OP_READ:
		if (op->size <= RING_INLINE_MAX)
			ring_copy_small(op->buf, mem, op->size);
		else
			ring_copy_large(op->buf, mem, op->size);
		return true;
	case LEAT_OP_FETCH_ADD:
		value = __atomic_fetch_add((uint64_t *)mem, op->operand, __ATOMIC_SEQ_CST);
		break;
	case LEAT_OP_CMP_SWAP:
		value = op->compare;
		(void)__atomic_compare_exchange_n((uint64_t *)mem, &value, op->operand, false,
						  __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
		break;
	default:
		return false; /* WRITE_IMM: the target's loop must give the notice */
	}
	memcpy(op->buf, &value, sizeof(value));
	return true;
}

/* Execute a one-sided op. @return false: it must go through the target's loop */
static __rte_always_inline bool
execute(struct ring_ep *rep, struct ring_link *link, const struct leat_op *op)
{
	const uint32_t region = (uint32_t)(op->rkey & RING_KEY_INDEX);
	void *mem;
	bool done;

	/* Ops that this side posted earlier must take effect first. */
	if (link->tx_unacked > 0 || region >= RING_ENTRIES)
		return false;
	__atomic_store_n(&link->mine->touching, region + 1, __ATOMIC_RELAXED);
	/*
	 * A compiler fence only: when the owner withdraws the region, or closes, it makes this
	 * processor execute a fence.
	 */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	mem = entry_find(link, op, region);
	done = mem != NULL && act(op, mem);
	__atomic_store_n(&link->mine->touching, 0, __ATOMIC_RELEASE);
	if (likely(done))
		LEAT_STAT_ADD(rep->share->nb_ops, 1);
	return done;
}

bool
ring_share_execute(struct leat_ep *ep, struct ring_link *link, struct leat_op *op)
{
	if (!execute(ep->drv, link, op))
		return false;
	leat_op_start(ep, op);
	leat_op_finish(ep, op, 0, op->size);
	return true;
}

bool
ring_share_one(struct leat_ep *ep, struct ring_ep *rep, struct leat_op *op)
{
	struct ring_link *link = &rep->table[op->peer];
	struct leat_peer *peer = &ep->peers[op->peer];

	if (unlikely(op->peer >= ep->nb_peers || link->reach == NULL || peer->sendq.head != NULL ||
		     !leat_op_is_plain(op, op->type) || leat_op_check_as(ep, op, false) != 0 ||
		     !execute(rep, link, op)))
		return false;
	if (op->type >= LEAT_OP_READ)
		LEAT_STAT_ADD(ep->stats.rx_bytes, op->size);
	leat_op_run_sent(op, NULL);
	leat_op_run_sent_end(ep, peer, op, op, 1, op->type >= LEAT_OP_READ ? 0 : op->size);
	return true;
}
