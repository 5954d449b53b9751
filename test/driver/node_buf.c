/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Buffers of a test endpoint, by size classes (powers of two), each with guard bytes on both sides.
 * Small ones are cut from chunks, so that thousands of them take few registrations.
 *
 *     raw: | guard | data ... size | guard | unused up to the class |
 */

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rte_malloc.h>

#include <leat_error.h>

#include "ct.h"
#include "node.h"
#include "pattern.h"

#define CHUNK (UINT64_C(2) << 20)
#define OWN_CHUNK_CLASS 18 /* a buffer of 256 KiB or more is a chunk of its own */
#define GUARD_SEED UINT64_C(0x67756172640a)
/* In a large buffer only this many bytes at each end are poisoned. */
#define POISON_MAX 4096

#define REGION_GUARD 4096

/*
 * Allocate zeroed memory. @param[in,out] eal in: use EAL memory; out: whether it is EAL memory.
 * @return NULL: out of memory
 */
static uint8_t *
memory_new(uint64_t len, bool *eal)
{
	void *mem = *eal ? rte_zmalloc(NULL, len, 4096) : NULL;

	if (mem != NULL)
		return mem;
	*eal = false;
	mem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem == MAP_FAILED)
		mem = NULL;
	return mem;
}

static void
memory_free(uint8_t *mem, uint64_t len, bool eal)
{
	if (eal)
		rte_free(mem);
	else
		(void)munmap(mem, len); /* fails only for a wrong address */
}

static struct ct_chunk *
chunk_new(struct ct_node *n, uint64_t len)
{
	struct ct_chunk *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->eal = ct.eal_memory;
	c->mem = memory_new(len, &c->eal);
	if (c->mem == NULL) {
		free(c);
		return NULL;
	}
	c->len = len;
	if (n->info.mr_local || n->conf.reg) {
		c->mr = leat_mr_register(n->ep, c->mem, len, LEAT_MR_LOCAL);
		if (c->mr == NULL) {
			ct_node_fault(n, "can't register %" PRIu64 " B of buffers: %s", len,
				      leat_err_msg());
			memory_free(c->mem, len, c->eal);
			free(c);
			return NULL;
		}
	}
	c->next = n->chunks;
	n->chunks = c;
	return c;
}

static void
poison(struct ct_buf *b, uint64_t size)
{
	uint8_t *data = b->raw + CT_GUARD;
	uint64_t part = RTE_MIN(size, (uint64_t)POISON_MAX);

	b->poison = (uintptr_t)b ^ GUARD_SEED;
	b->poison_len = size;
	ct_fill(data, part, b->poison, 0);
	if (size > part) {
		part = RTE_MIN(size - part, (uint64_t)POISON_MAX);
		ct_fill(data + size - part, part, b->poison, size - part);
	}
}

static bool
poison_ok(const struct ct_buf *b)
{
	const uint8_t *data = b->raw + CT_GUARD;
	uint64_t size = b->poison_len, part = RTE_MIN(size, (uint64_t)POISON_MAX);

	if (ct_verify(data, part, b->poison, 0) >= 0)
		return false;
	if (size > part) {
		part = RTE_MIN(size - part, (uint64_t)POISON_MAX);
		if (ct_verify(data + size - part, part, b->poison, size - part) >= 0)
			return false;
	}
	return true;
}

static void
check_poison(struct ct_node *n, const struct ct_buf *b)
{
	if (!poison_ok(b))
		ct_node_fault(n,
			      "ownership: a buffer of %" PRIu64
			      " B was changed after poll had returned its op (%s, status %d)",
			      b->poison_len, leat_op_type_name(b->type), b->status);
}

struct ct_buf *
ct_buf_get(struct ct_node *n, uint64_t size)
{
	uint64_t need = size + 2 * CT_GUARD;
	uint32_t cls = 8;
	struct ct_chunk *c;
	struct ct_buf *b;

	while ((UINT64_C(1) << cls) < need)
		cls++;
	if (cls >= CT_CLASSES)
		return NULL;
	b = n->bufs[cls];
	if (b != NULL) {
		n->bufs[cls] = b->next;
		check_poison(n, b);
	} else {
		b = calloc(1, sizeof(*b));
		c = n->chunks;
		if (b != NULL) {
			uint64_t len = cls >= OWN_CHUNK_CLASS ? UINT64_C(1) << cls : CHUNK;

			if (cls >= OWN_CHUNK_CLASS || c == NULL ||
			    c->len - c->used < UINT64_C(1) << cls)
				c = chunk_new(n, len);
		}
		if (b == NULL || c == NULL) {
			free(b);
			return NULL;
		}
		b->raw = c->mem + c->used;
		b->mr = c->mr;
		b->cls = cls;
		c->used += UINT64_C(1) << cls;
	}
	ct_fill(b->raw, CT_GUARD, GUARD_SEED, 0);
	ct_fill(b->raw + CT_GUARD + size, CT_GUARD, GUARD_SEED, CT_GUARD);
	return b;
}

bool
ct_buf_guards_ok(const struct ct_buf *b, uint64_t size)
{
	return ct_verify(b->raw, CT_GUARD, GUARD_SEED, 0) < 0 &&
	       ct_verify(b->raw + CT_GUARD + size, CT_GUARD, GUARD_SEED, CT_GUARD) < 0;
}

void
ct_buf_put(struct ct_node *n, struct ct_buf *b, uint64_t size)
{
	/*
	 * Insert it after up to 16 free buffers: it is reused late, so that a device's late write
	 * shows in the poison first.
	 */
	struct ct_buf **tail = &n->bufs[b->cls];
	unsigned int i;

	poison(b, size);
	for (i = 0; i < 16 && *tail != NULL; i++)
		tail = &(*tail)->next;
	b->next = *tail;
	*tail = b;
}

static void
buf_list_free(struct ct_node *n, uint32_t cls)
{
	struct ct_buf *b, *next;

	for (b = n->bufs[cls]; b != NULL; b = next) {
		next = b->next;
		check_poison(n, b);
		free(b);
	}
	n->bufs[cls] = NULL;
}

void
ct_buf_free_all(struct ct_node *n)
{
	struct ct_chunk *c, *next;
	uint32_t i;

	for (i = 0; i < n->nb_fresh; i++)
		if (n->slots[i].where == CT_PREPARED && n->slots[i].buf != NULL)
			free(n->slots[i].buf);
	for (i = 0; i < CT_CLASSES; i++)
		buf_list_free(n, i);
	for (c = n->chunks; c != NULL; c = next) {
		next = c->next;
		memory_free(c->mem, c->len, c->eal);
		free(c);
	}
	n->chunks = NULL;
}

int
ct_region_make(struct ct_node *n, uint64_t len, uint32_t access, uint64_t seed)
{
	struct ct_region *r;
	int id = (int)n->nb_regions;

	if (id == CT_MRS)
		return leat_err(ENOSPC, "harness: too many regions");
	r = &n->regions[id];
	r->raw_len = RTE_ALIGN_CEIL(len, (uint64_t)4096) + 2 * REGION_GUARD;
	/*
	 * A peer reads and writes EAL memory directly; for other regions it asks this side. Test
	 * both.
	 */
	r->eal = ct.eal_memory && id % 4 != 3;
	r->raw = memory_new(r->raw_len, &r->eal);
	if (r->raw == NULL)
		return leat_err(ENOMEM, "harness: no memory");
	r->mem = r->raw + REGION_GUARD;
	r->len = len;
	ct_fill(r->raw, REGION_GUARD, GUARD_SEED, 0);
	ct_fill(r->mem, len, seed, 0);
	ct_fill(r->mem + len, r->raw_len - REGION_GUARD - len, GUARD_SEED, 0);
	r->mr = leat_mr_register(n->ep, r->mem, len, access);
	if (r->mr == NULL) {
		memory_free(r->raw, r->raw_len, r->eal);
		r->raw = NULL;
		return rte_errno != 0 ? -rte_errno : -EIO;
	}
	n->nb_regions++;
	return id;
}

int64_t
ct_region_guards(const struct ct_region *r)
{
	int64_t bad = ct_verify(r->raw, REGION_GUARD, GUARD_SEED, 0);

	if (bad >= 0)
		return bad;
	return ct_verify(r->mem + r->len, r->raw_len - REGION_GUARD - r->len, GUARD_SEED, 0);
}

bool
ct_region_free_all(struct ct_node *n, bool may_wait)
{
	struct ct_chunk *c;
	int ret;

	for (; n->nb_regions > 0; n->nb_regions--) {
		struct ct_region *r = &n->regions[n->nb_regions - 1];

		if (ct_region_guards(r) >= 0)
			ct_node_fault(n, "memory beside region %u was written", n->nb_regions - 1);
		ret = r->mr == NULL ? 0 : leat_mr_deregister(r->mr);
		if (ret == -EBUSY && may_wait)
			return false;
		if (ret == 0)
			memory_free(r->raw, r->raw_len, r->eal);
		else
			ct_node_fault(n, "region %u can't be deregistered at the end: %s: %s",
				      n->nb_regions - 1, strerror(-ret), leat_err_msg());
	}
	for (c = n->chunks; c != NULL; c = c->next) {
		if (c->mr != NULL && n->nb_posted == 0 && leat_mr_deregister(c->mr) == 0)
			c->mr = NULL;
	}
	return true;
}
