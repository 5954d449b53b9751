/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Regions, and the one-sided ops that peers post on them. The target's lcore executes these ops in
 * its own poll, so no op touches a region that this lcore has deregistered. On shared memory the
 * initiator executes them instead: see ring_share.h.
 *
 *     key   random, 40 bits, never 0 | index of the region, 24 bits
 */

#include <stdlib.h>
#include <sys/random.h>

#include <rte_random.h>

#include "ring_match.h"

#define FIRST_REGIONS 16

static int
regions_grow(struct ring_ep *rep)
{
	uint32_t i, nb = rep->nb_regions == 0 ? FIRST_REGIONS : rep->nb_regions * 2;
	struct ring_region *r;

	if (nb > RING_KEY_INDEX + 1)
		return leat_err(ENOSPC, "ring: %u regions are registered, there can't be more",
				rep->nb_regions);
	r = realloc(rep->regions, nb * sizeof(*r));
	if (r == NULL)
		return leat_err(ENOMEM, "ring: register memory: out of memory");
	for (i = rep->nb_regions; i < nb; i++) {
		memset(&r[i], 0, sizeof(r[i]));
		r[i].next_free = i + 1 < nb ? i + 2 : 0;
	}
	rep->free_region = rep->nb_regions + 1;
	rep->nb_regions = nb;
	rep->regions = r;
	return 0;
}

static uint64_t
key_random(void)
{
	uint64_t r;

	if (getrandom(&r, sizeof(r), GRND_NONBLOCK) != (ssize_t)sizeof(r))
		r = rte_rand();
	return r << RING_KEY_INDEX_BITS;
}

int
ring_mr_reg(struct leat_ep *ep, struct leat_mr_piece *piece, uint32_t access)
{
	struct ring_ep *rep = ep->drv;
	struct ring_region *r;
	uint64_t random;
	uint32_t i;
	int ret;

	if (rep->free_region == 0) {
		ret = regions_grow(rep);
		if (ret < 0)
			return ret;
	}
	i = rep->free_region - 1;
	r = &rep->regions[i];
	rep->free_region = r->next_free;
	do {
		random = key_random();
	} while (random == 0);
	r->key = random | i;
	r->addr = (uintptr_t)piece->addr;
	r->len = piece->len;
	r->access = access;
	piece->key = r->key;
	piece->base = r->addr;
	piece->desc = NULL;
	piece->drv = NULL;
#if RING_FOREIGN
	ring_share_publish(rep, i);
#endif
	return 0;
}

int
ring_mr_dereg(struct leat_ep *ep, struct leat_mr_piece *piece)
{
	struct ring_ep *rep = ep->drv;
	uint32_t i = (uint32_t)(piece->key & RING_KEY_INDEX);
	struct ring_region *r = &rep->regions[i];

#if RING_FOREIGN
	int ret = ring_share_withdraw(rep, i);

	if (ret < 0)
		return ret;
#endif
	r->key = 0;
	r->next_free = rep->free_region;
	rep->free_region = i + 1;
	return 0;
}

int
ring_region_check(const struct ring_ep *rep, uint64_t key, uint64_t addr, uint64_t len,
		  uint32_t access)
{
	uint32_t i = (uint32_t)(key & RING_KEY_INDEX);
	const struct ring_region *r;

	if (i >= rep->nb_regions || rep->regions[i].key != key || key == 0)
		return -EACCES;
	r = &rep->regions[i];
	if ((r->access & access) == 0)
		return -EACCES;
	if (addr < r->addr || addr - r->addr > r->len || len > r->len - (addr - r->addr))
		return -ERANGE;
	return 0;
}

/* Is a large WRITE of this link's peer in progress? */
static inline bool
write_in_progress(const struct ring_link *link)
{
#if RING_FOREIGN
	return link->moves.write.kind != RING_MOVE_NONE;
#else
	RTE_SET_USED(link);
	return false;
#endif
}

/* End a large WRITE that has failed. Chunks that still come for it are dropped. */
static inline void
rma_drop(struct ring_link *link)
{
#if RING_FOREIGN
	if (link->moves.write.kind == RING_MOVE_NONE)
		return;
	link->moves.write.kind = RING_MOVE_NONE;
	link->moves.write.ready = false;
	link->moves.nb--;
#else
	RTE_SET_USED(link);
#endif
}

#if RING_FOREIGN
/*
 * Execute a WRITE whose bytes are not in the slot. at: their offset in the buffer, or their
 * address.
 * @return 0: done; < 0: failed; RING_GO: the WRITE waits for its bytes
 */
static int
write_large(struct leat_ep *ep, struct ring_link *link, uint64_t key, uint64_t addr, uint64_t at,
	    uint64_t head, uint64_t nr)
{
	const uint64_t len = RING_HEAD_LEN(head);
	const uint32_t flags = RING_HEAD_FLAGS(head) & (RING_F_BUF | RING_F_SHARED);
	const void *bytes;
	int status;

	if (flags == 0)
		return ring_move_write(ep, link, nr, key, addr, len, &status) ? status : RING_GO;
	bytes = (flags & RING_F_BUF) != 0 ? ring_rx_bytes(ep->drv, link, at, len)
					  : ring_share_bytes(ep->drv, link, at, len);
	if (bytes == NULL)
		return -EREMOTEIO;
	ring_copy_large((void *)(uintptr_t)addr, bytes, len);
	return (flags & RING_F_BUF) != 0 || ring_share_still(link) ? 0 : -ECONNRESET;
}

static int
read_large(struct leat_ep *ep, struct ring_link *link, uint64_t key, uint64_t addr, uint64_t at,
	   uint64_t len, uint64_t nr)
{
	RTE_SET_USED(at);
	ring_move_read(ep, link, nr, key, addr, len);
	return RING_GO;
}
#else
static int
write_large(struct leat_ep *ep, struct ring_link *link, uint64_t key, uint64_t addr, uint64_t at,
	    uint64_t head, uint64_t nr)
{
	RTE_SET_USED(ep);
	RTE_SET_USED(link);
	RTE_SET_USED(key);
	RTE_SET_USED(nr);
	ring_copy_large((void *)(uintptr_t)addr, (const void *)(uintptr_t)at, RING_HEAD_LEN(head));
	return 0;
}

static int
read_large(struct leat_ep *ep, struct ring_link *link, uint64_t key, uint64_t addr, uint64_t at,
	   uint64_t len, uint64_t nr)
{
	RTE_SET_USED(ep);
	RTE_SET_USED(link);
	RTE_SET_USED(key);
	RTE_SET_USED(nr);
	ring_copy_large((void *)(uintptr_t)at, (const void *)(uintptr_t)addr, len);
	return 0;
}
#endif

/* Read a word once: a foreign peer may change it meanwhile. */
static inline uint64_t
at_of(const uint64_t *w)
{
	return __atomic_load_n(w, __ATOMIC_RELAXED);
}

/*
 * Execute an op whose region was checked.
 * @return 0; < 0: it failed; RING_GO: a WRITE waits for its bytes, or a READ is answered later
 */
static int
execute(struct leat_ep *ep, struct ring_link *link, const struct ring_slot *slot, uint64_t head,
	uint64_t nr, uint64_t key, uint64_t addr, uint64_t *value)
{
	const uint8_t type = RING_HEAD_TYPE(head);
	const uint64_t *w = &slot->w[type == LEAT_OP_WRITE_IMM ? 2 : 1];
	const uint64_t len = RING_HEAD_LEN(head);
	void *mem = (void *)(uintptr_t)addr;

	switch (type) {
	case LEAT_OP_WRITE:
	case LEAT_OP_WRITE_IMM:
		if (!ring_head_inline(head))
			return len == 0 ? 0 : write_large(ep, link, key, addr, at_of(w), head, nr);
		if (RING_FOREIGN && len > (size_t)(&slot->w[RING_WORDS] - w) * sizeof(*w))
			return -EREMOTEIO;
		ring_copy_small(mem, w, len);
		return 0;
	case LEAT_OP_READ:
		return len == 0 ? 0 : read_large(ep, link, key, addr, at_of(w), len, nr);
	case LEAT_OP_FETCH_ADD:
		if (RING_FOREIGN && (addr % sizeof(uint64_t) != 0 || len != sizeof(uint64_t)))
			return -EREMOTEIO;
		/* Use a real atomic: threads of the application may use the word as well. */
		*value = __atomic_fetch_add((uint64_t *)mem, slot->w[1], __ATOMIC_SEQ_CST);
		return 0;
	case LEAT_OP_CMP_SWAP:
		if (RING_FOREIGN && (addr % sizeof(uint64_t) != 0 || len != sizeof(uint64_t)))
			return -EREMOTEIO;
		*value = slot->w[2];
		(void)__atomic_compare_exchange_n((uint64_t *)mem, value, slot->w[1], false,
						  __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
		return 0;
	default:
		return -EREMOTEIO;
	}
}

enum ring_rma_outcome
ring_rma(struct leat_ep *ep, struct ring_link *link, struct ring_slot *slot, uint64_t head,
	 uint64_t nr)
{
	/* Read each word once: a foreign peer may change it meanwhile. */
	const uint64_t key = __atomic_load_n(&slot->w[0], __ATOMIC_RELAXED);
	const uint64_t addr = __atomic_load_n(&slot->addr, __ATOMIC_RELAXED);
	const uint8_t type = RING_HEAD_TYPE(head);
	struct ring_ep *rep = ep->drv;
	uint64_t len = RING_HEAD_LEN(head), value = len;
	int status;

	/* A WRITE that waits for its bytes was claimed when the scan first came to it. */
	if (!write_in_progress(link) && !ring_claim(slot))
		return RING_RMA_DONE;
	status = ring_region_check(rep, key, addr, len, leat_op_right(type));
	if (status == 0)
		status = execute(ep, link, slot, head, nr, key, addr, &value);
	else
		rma_drop(link);
	if (status == RING_GO)
		return type == LEAT_OP_READ ? RING_RMA_DONE : RING_RMA_WAITS;
	if (!ring_head_inline(head))
		rep->copy_left -= (int64_t)len;
	ring_ack(link, nr, status, status == 0 ? value : 0);
	return status == 0 && type == LEAT_OP_WRITE_IMM ? RING_RMA_NOTICE : RING_RMA_DONE;
}
