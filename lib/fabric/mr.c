/* SPDX-License-Identifier: BSD-3-Clause */

/* Regions. A mempool is one region, with a piece per contiguous range of its memory chunks. */

#include <stdlib.h>

#include <rte_mempool.h>

#include "fabric_pvt.h"

static struct leat_mr *
mr_alloc(struct leat_ep *ep, uint32_t nb_pieces, uint32_t access)
{
	struct leat_mr *mr = calloc(1, sizeof(*mr) + nb_pieces * sizeof(mr->piece[0]));

	if (mr == NULL) {
		leat_err(ENOMEM, "%s: register memory: out of memory", leat_ep_name(ep));
		return NULL;
	}
	mr->ep = ep;
	mr->access = access | LEAT_MR_LOCAL;
	return mr;
}

/*
 * Deregister pieces, the last one first.
 * @return 0, or -EBUSY, with nb_pieces the number of pieces that are still registered
 */
static int
mr_pieces_release(struct leat_mr *mr)
{
	const struct leat_driver *drv = mr->ep->ctrl->driver;
	int ret;

	while (mr->nb_pieces > 0) {
		ret = drv->mr_dereg == NULL ? 0
					    : drv->mr_dereg(mr->ep, &mr->piece[mr->nb_pieces - 1]);
		if (ret < 0)
			return ret;
		mr->nb_pieces--;
	}
	return 0;
}

static int
mr_pieces_register(struct leat_mr *mr, uint32_t nb_pieces)
{
	const struct leat_driver *drv = mr->ep->ctrl->driver;
	int ret;

	for (mr->nb_pieces = 0; mr->nb_pieces < nb_pieces; mr->nb_pieces++) {
		ret = drv->mr_reg == NULL
			      ? 0
			      : drv->mr_reg(mr->ep, &mr->piece[mr->nb_pieces], mr->access);
		if (ret < 0)
			return ret;
	}
	return 0;
}

/* Undo a registration that failed: rte_errno and the message stay those of the failure. */
static void
mr_undo(struct leat_mr *mr)
{
	int err = rte_errno;

	if (mr_pieces_release(mr) < 0)
		LEAT_LOG(WARNING, fabric, "%s: memory stays registered: the device still uses it",
			 leat_ep_name(mr->ep));
	free(mr);
	rte_errno = err;
}

static void
mr_link(struct leat_mr *mr)
{
	mr->next = mr->ep->ctrl->mrs;
	mr->ep->ctrl->mrs = mr;
}

struct leat_mr *
leat_mr_register(struct leat_ep *ep, void *addr, size_t len, uint32_t access)
{
	struct leat_mr *mr;

	if (addr == NULL || len == 0 || (uintptr_t)addr + len < (uintptr_t)addr ||
	    (access & ~(uint32_t)(LEAT_MR_LOCAL | LEAT_MR_REMOTE_ALL)) != 0) {
		leat_err(EINVAL, "%s: register memory: address %p, %zu B, access %#x",
			 leat_ep_name(ep), addr, len, access);
		return NULL;
	}
	mr = mr_alloc(ep, 1, access);
	if (mr == NULL)
		return NULL;
	mr->piece[0].addr = addr;
	mr->piece[0].len = len;
	if (mr_pieces_register(mr, 1) < 0) {
		mr_undo(mr);
		return NULL;
	}
	mr_link(mr);
	return mr;
}

/* Call leat_driver.ep_halt, once, if the endpoint is shut down. */
static void
halt(struct leat_ep *ep)
{
	struct leat_ep_ctrl *c = ep->ctrl;

	if (c->state != LEAT_EP_SHUT || c->halted)
		return;
	c->halted = true;
	if (c->driver->ep_halt != NULL)
		c->driver->ep_halt(ep);
}

int
leat_mr_deregister(struct leat_mr *mr)
{
	struct leat_mr **pp;
	int ret;

	halt(mr->ep);
	ret = mr_pieces_release(mr);
	if (ret < 0)
		return ret;
	for (pp = &mr->ep->ctrl->mrs; *pp != NULL; pp = &(*pp)->next) {
		if (*pp == mr) {
			*pp = mr->next;
			break;
		}
	}
	free(mr);
	return 0;
}

int
leat_mr_rkey(const struct leat_mr *mr, const void *addr, size_t len, struct leat_rkey *rkey)
{
	const struct leat_mr_piece *p;

	if ((mr->access & LEAT_MR_REMOTE_ALL) == 0)
		return leat_err(EACCES, "%s: remote key: the region gives peers no right",
				leat_ep_name(mr->ep));
	p = leat_mr_find(mr, addr, len);
	if (p == NULL)
		return leat_err(
			ERANGE,
			"%s: remote key: %p and %zu B are not inside one piece of the region",
			leat_ep_name(mr->ep), addr, len);
	rkey->addr = p->base + ((uintptr_t)addr - (uintptr_t)p->addr);
	rkey->len = len;
	rkey->key = p->key;
	return 0;
}

struct chunks {
	struct leat_mr *mr;
	uint32_t n;
};

static void
add_chunk(struct rte_mempool *mp, void *opaque, struct rte_mempool_memhdr *hdr, unsigned int idx)
{
	struct chunks *c = opaque;
	uint32_t i;

	RTE_SET_USED(mp);
	RTE_SET_USED(idx);
	for (i = c->n; i > 0 && c->mr->piece[i - 1].addr > hdr->addr; i--)
		c->mr->piece[i] = c->mr->piece[i - 1];
	memset(&c->mr->piece[i], 0, sizeof(c->mr->piece[i]));
	c->mr->piece[i].addr = hdr->addr;
	c->mr->piece[i].len = hdr->len;
	c->n++;
}

/* Merge chunks of a mempool that are adjacent in memory into one piece. @return number of pieces */
static uint32_t
merge_chunks(struct leat_mr *mr, uint32_t n)
{
	uint32_t i, last = 0;

	for (i = 1; i < n; i++) {
		struct leat_mr_piece *p = &mr->piece[last];

		if ((char *)p->addr + p->len == mr->piece[i].addr)
			p->len += mr->piece[i].len;
		else
			mr->piece[++last] = mr->piece[i];
	}
	return n == 0 ? 0 : last + 1;
}

static int
register_mempool(struct leat_ep *ep, struct rte_mempool *mp, uint32_t access)
{
	struct chunks c = { .n = 0 };

	if (mp == NULL || mp->nb_mem_chunks == 0)
		return leat_err(EINVAL, "%s: mempool %s has no memory", leat_ep_name(ep),
				mp == NULL ? "(null)" : mp->name);
	c.mr = mr_alloc(ep, mp->nb_mem_chunks, access);
	if (c.mr == NULL)
		return -ENOMEM;
	c.mr->mempool = mp;
	rte_mempool_mem_iter(mp, add_chunk, &c);
	if (mr_pieces_register(c.mr, merge_chunks(c.mr, c.n)) < 0) {
		int err = rte_errno;

		mr_undo(c.mr);
		return -err;
	}
	mr_link(c.mr);
	return 0;
}

int
leat_mr_register_mempools(struct leat_ep *ep, const struct leat_ep_conf *conf)
{
	uint16_t i;
	int ret;

	for (i = 0; i < conf->nb_mempools; i++) {
		ret = register_mempool(ep, conf->mempools[i], conf->mempool_access);
		if (ret < 0)
			return ret;
	}
	return 0;
}

struct leat_mr *
leat_ep_mempool_mr(struct leat_ep *ep, const struct rte_mempool *mp)
{
	struct leat_mr *mr;

	for (mr = ep->ctrl->mrs; mr != NULL; mr = mr->next) {
		if (mr->mempool == mp && mp != NULL)
			return mr;
	}
	leat_err(ENOENT, "%s: mempool %s was not named in leat_ep_conf", leat_ep_name(ep),
		 mp == NULL ? "(null)" : mp->name);
	return NULL;
}

void
leat_mr_release_all(struct leat_ep *ep)
{
	struct leat_mr *mr;

	halt(ep);
	while ((mr = ep->ctrl->mrs) != NULL) {
		ep->ctrl->mrs = mr->next;
		if (mr->mempool == NULL && ep->ctrl->outer == NULL)
			LEAT_LOG(WARNING, fabric,
				 "%s: a region of %" PRIu64 " B was not deregistered",
				 leat_ep_name(ep), mr->piece[0].len);
		if (mr_pieces_release(mr) < 0)
			LEAT_LOG(ERR, fabric,
				 "%s: the device still uses a region that is being released",
				 leat_ep_name(ep));
		free(mr);
	}
}
