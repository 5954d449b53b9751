/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Buffers of the tag layer. The shared segments and the tables of ops are allocated with the
 * endpoint; the other buffers in chunks, one for each connection, which a later connection uses
 * again:
 *
 *     chunk   rbuf ... rbuf | iop ... iop | buffers of the rbufs | segments of the iops
 *              nb_recvs        nb_own       (buffers and segments are one region)
 *
 * A chunk's receives are posted before the peer of its connection can send anything. When the
 * connection ends they stay posted, for the next one. A chunk's segments belong to one place
 * (struct tags_place), and each connection has a place.
 */

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "tags_pvt.h"

struct tags_chunk {
	struct tags_chunk *next;
	struct leat_mr *mr;
	struct tags_rbuf *bufs;
	struct tags_iop *segs;
	uint8_t *mem;
};

static size_t
stride(const struct tags_ep *e)
{
	return RTE_ALIGN_CEIL((size_t)TAGS_HDR_MAX + e->segment, LEAT_CACHE_LINE);
}

/* Allocate zeroed structures that consist of whole cache lines. */
static void *
lines_alloc(size_t n, size_t size)
{
	void *p = aligned_alloc(LEAT_CACHE_LINE, n * size);

	if (p != NULL)
		memset(p, 0, n * size);
	return p;
}

/* Initialise the segments of a place; place NULL: the shared segments. */
static void
segs_init(struct tags_ep *e, struct tags_iop *segs, uint32_t n, uint8_t *mem, struct leat_mr *mr,
	  struct tags_place *place)
{
	struct tags_iop_list *list = place != NULL ? &place->free : &e->shared;
	uint32_t i;

	STAILQ_INIT(list);
	for (i = 0; i < n; i++) {
		struct tags_iop *iop = &segs[i];

		iop->op.type = LEAT_OP_SEND;
		iop->op.buf = mem + i * stride(e);
		iop->op.mr = mr;
		iop->op.queue = LEAT_QUEUE_NONE;
		iop->op.user = iop;
		iop->place = place;
		STAILQ_INSERT_TAIL(list, iop, link);
	}
}

static int
shared_open(struct tags_ep *e)
{
	size_t len = e->nb_shared * stride(e);

	if (len == 0)
		return 0;
	e->segs = lines_alloc(e->nb_shared, sizeof(*e->segs));
	e->seg_mem = aligned_alloc(LEAT_CACHE_LINE, len);
	if (e->segs == NULL || e->seg_mem == NULL)
		return leat_err(ENOMEM, "%s: create endpoint: out of memory",
				leat_ep_name(e->outer));
	e->seg_mr = leat_mr_register(e->inner, e->seg_mem, len, LEAT_MR_LOCAL);
	if (e->seg_mr == NULL)
		return -rte_errno;
	segs_init(e, e->segs, e->nb_shared, e->seg_mem, e->seg_mr, NULL);
	return 0;
}

int
tags_mem_open(struct tags_ep *e, const struct leat_ep_conf *conf)
{
	uint32_t i, nb_hash = rte_align32pow2(conf->rx_depth);

	e->hash_mask = nb_hash - 1;
	e->peers = calloc(e->inner->nb_peers, sizeof(*e->peers));
	e->txs = lines_alloc(conf->tx_depth, sizeof(*e->txs));
	e->rxs = calloc(conf->rx_depth, sizeof(*e->rxs));
	e->exact = calloc(nb_hash, sizeof(*e->exact));
	e->by_tag = calloc(nb_hash, sizeof(*e->by_tag));
	e->places = calloc(e->inner->nb_peers, sizeof(*e->places));
	if (e->peers == NULL || e->txs == NULL || e->rxs == NULL || e->exact == NULL ||
	    e->by_tag == NULL || e->places == NULL)
		return leat_err(ENOMEM,
				"%s: create endpoint: out of memory for tagged ops of %u peers",
				leat_ep_name(e->outer), conf->max_peers);
	for (i = 0; i < conf->tx_depth; i++)
		TAILQ_INSERT_TAIL(&e->free_tx, &e->txs[i], link);
	for (i = 0; i < conf->rx_depth; i++)
		TAILQ_INSERT_TAIL(&e->free_rx, &e->rxs[i], link);
	for (i = 0; i < nb_hash; i++) {
		TAILQ_INIT(&e->exact[i]);
		TAILQ_INIT(&e->by_tag[i]);
	}
	for (i = 0; i < e->inner->nb_peers; i++)
		e->peers[i].id = (uint16_t)i;
	return shared_open(e);
}

static void
chunk_free(struct tags_chunk *c)
{
	free(c->bufs);
	free(c->segs);
	free(c->mem);
	free(c);
}

static struct tags_chunk *
chunk_alloc(const struct tags_ep *e)
{
	size_t len = (e->nb_recvs + e->nb_own) * stride(e);
	struct tags_chunk *c = calloc(1, sizeof(*c));

	if (c == NULL)
		goto nomem;
	c->bufs = lines_alloc(e->nb_recvs, sizeof(*c->bufs));
	c->segs = lines_alloc(e->nb_own, sizeof(*c->segs));
	c->mem = aligned_alloc(LEAT_CACHE_LINE, len);
	if (c->bufs == NULL || c->segs == NULL || c->mem == NULL)
		goto nomem;
	c->mr = leat_mr_register(e->inner, c->mem, len, LEAT_MR_LOCAL);
	if (c->mr != NULL)
		return c;
	chunk_free(c);
	return NULL;
nomem:
	if (c != NULL)
		chunk_free(c);
	leat_err(ENOMEM, "%s: connection: out of memory", leat_ep_name(e->outer));
	return NULL;
}

static void
recvs_init(struct tags_ep *e, const struct tags_chunk *c)
{
	uint32_t i;

	for (i = 0; i < e->nb_recvs; i++) {
		struct tags_rbuf *b = &c->bufs[i];

		b->op.type = LEAT_OP_RECV;
		b->op.peer = LEAT_PEER_ANY;
		b->op.buf = c->mem + i * stride(e);
		b->op.size = (size_t)TAGS_HDR_MAX + e->segment;
		b->op.mr = c->mr;
		b->op.queue = e->recv_queue;
		b->op.user = b;
		TAILQ_INSERT_TAIL(&e->repost, b, link);
	}
}

/* Allocate the chunk of one more connection. @return false with leat_err(): it failed */
static bool
grow(struct tags_ep *e)
{
	struct tags_chunk *c = chunk_alloc(e);
	struct tags_place *place;

	if (c == NULL)
		return false;
	recvs_init(e, c);
	place = &e->places[e->nb_chunks];
	segs_init(e, c->segs, e->nb_own, c->mem + e->nb_recvs * stride(e), c->mr, place);
	SLIST_INSERT_HEAD(&e->free_places, place, link);
	c->next = e->chunks;
	e->chunks = c;
	e->nb_chunks++;
	tags_push(e);
	return true;
}

struct tags_place *
tags_mem_grow(struct tags_ep *e)
{
	struct tags_place *place;
	uint64_t token;

	if (SLIST_EMPTY(&e->free_places) && !grow(e))
		return NULL;
	if (getrandom(&token, sizeof(token), GRND_NONBLOCK) != (ssize_t)sizeof(token)) {
		leat_err(errno, "%s: connection: getrandom: %s", leat_ep_name(e->outer),
			 strerror(errno));
		return NULL;
	}
	place = SLIST_FIRST(&e->free_places);
	place->token = (token & ~TAGS_TOKEN_PEER) | (uint64_t)(place - e->places);
	return place;
}

void
tags_mem_close(struct tags_ep *e)
{
	struct tags_chunk *c;

	while ((c = e->chunks) != NULL) {
		e->chunks = c->next;
		chunk_free(c);
	}
	free(e->segs);
	free(e->seg_mem);
	free(e->places);
	free(e->peers);
	free(e->txs);
	free(e->rxs);
	free(e->exact);
	free(e->by_tag);
}
