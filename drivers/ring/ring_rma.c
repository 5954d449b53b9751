/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Regions, and the one-sided ops that peers do on them. The target's lcore does them in its poll,
 * so that a region that was deregistered is not touched any more, without any further measure.
 *
 *     key   random, 40 bits | index, 24 bits          never 0
 */

#include <stdlib.h>
#include <sys/random.h>

#include <rte_random.h>

#include "ring_pvt.h"

#define INDEX_BITS 24
#define INDEX_MASK ((UINT64_C(1) << INDEX_BITS) - 1)
#define FIRST_REGIONS 16

static int
regions_grow(struct ring_ep *rep)
{
	uint32_t i, nb = rep->nb_regions == 0 ? FIRST_REGIONS : rep->nb_regions * 2;
	struct ring_region *r;

	if (nb > INDEX_MASK + 1)
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
	return r << INDEX_BITS;
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
	return 0;
}

int
ring_mr_dereg(struct leat_ep *ep, struct leat_mr_piece *piece)
{
	struct ring_ep *rep = ep->drv;
	uint32_t i = (uint32_t)(piece->key & INDEX_MASK);
	struct ring_region *r = &rep->regions[i];

	r->key = 0;
	r->next_free = rep->free_region;
	rep->free_region = i + 1;
	return 0;
}

static int
region_check(const struct ring_ep *rep, uint64_t key, uint64_t addr, uint64_t len, uint32_t access)
{
	uint32_t i = (uint32_t)(key & INDEX_MASK);
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

bool
ring_rma(struct ring_ep *rep, struct ring_link *link, struct ring_slot *slot, uint64_t head,
	 uint64_t nr)
{
	uint8_t type = RING_HEAD_TYPE(head);
	uint64_t len = RING_HEAD_LEN(head), value = len;
	uint64_t *w = &slot->w[type == LEAT_OP_WRITE_IMM ? 2 : 1];
	void *mem = (void *)(uintptr_t)slot->addr;
	bool inlined = (RING_HEAD_FLAGS(head) & RING_F_INLINE) != 0;
	int status;

	if (!ring_claim(slot))
		return false;
	status = region_check(rep, slot->w[0], slot->addr, len, leat_op_right(type));
	if (status != 0) {
		ring_ack(link, nr, status, 0);
		return false;
	}
	switch (type) {
	case LEAT_OP_WRITE:
	case LEAT_OP_WRITE_IMM:
		if (inlined)
			ring_copy_small(mem, w, len);
		else if (len > 0)
			ring_copy_large(mem, (const void *)(uintptr_t)*w, len);
		break;
	case LEAT_OP_READ:
		if (len > 0)
			ring_copy_large((void *)(uintptr_t)*w, mem, len);
		break;
	case LEAT_OP_FETCH_ADD:
		/* The application's threads may use the word as well, so it is a real atomic. */
		value = __atomic_fetch_add((uint64_t *)mem, slot->w[1], __ATOMIC_SEQ_CST);
		break;
	case LEAT_OP_CMP_SWAP:
		value = slot->w[2];
		(void)__atomic_compare_exchange_n((uint64_t *)mem, &value, slot->w[1], false,
						  __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
		break;
	default:
		ring_ack(link, nr, -EREMOTEIO, 0);
		return false;
	}
	if (!inlined)
		rep->copy_left -= (int64_t)len;
	ring_ack(link, nr, 0, value);
	return type == LEAT_OP_WRITE_IMM;
}
