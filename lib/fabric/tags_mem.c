/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Buffers of the tag layer. Those for sending, and the tables of ops, are allocated with the endpoint;
 * bounce buffers for receiving with the connections, a chunk for each that there was at the same time:
 *
 *     chunk   rbuf rbuf ... rbuf | segment segment ... segment      nb_recvs of each, one region
 *
 * A chunk's receives are posted before its connection can send anything, and stay posted when it ends: the
 * next one finds them there.
 */

#include <stdlib.h>
#include <string.h>

#include "tags_pvt.h"

struct tags_chunk {
	struct tags_chunk *next;
	struct leat_mr *mr;
	struct tags_rbuf *bufs;
	uint8_t *mem;
};

static size_t
stride(const struct tags_ep *e)
{
	return RTE_ALIGN_CEIL((size_t)TAGS_HDR_LEN + e->segment, LEAT_CACHE_LINE);
}

/* Zeroed; for what is made of whole cache lines. */
static void *
lines_alloc(size_t n, size_t size)
{
	void *p = aligned_alloc(LEAT_CACHE_LINE, n * size);

	if (p != NULL)
		memset(p, 0, n * size);
	return p;
}

static int
segs_open(struct tags_ep *e)
{
	uint32_t i, n = RTE_MIN(e->nb_recvs * e->inner->nb_peers, (uint32_t)TAGS_TX_MAX);

	e->segs = lines_alloc(n, sizeof(*e->segs));
	e->seg_mem = aligned_alloc(LEAT_CACHE_LINE, n * stride(e));
	if (e->segs == NULL || e->seg_mem == NULL)
		return -ENOMEM;
	e->seg_mr = leat_mr_register(e->inner, e->seg_mem, n * stride(e), LEAT_MR_LOCAL);
	if (e->seg_mr == NULL)
		return -rte_errno;
	for (i = 0; i < n; i++) {
		struct tags_iop *iop = &e->segs[i];

		iop->op.type = LEAT_OP_SEND;
		iop->op.buf = e->seg_mem + i * stride(e);
		iop->op.mr = e->seg_mr;
		iop->op.queue = LEAT_QUEUE_NONE;
		iop->op.user = iop;
		STAILQ_INSERT_TAIL(&e->free_segs, iop, link);
	}
	return 0;
}

int
tags_mem_open(struct tags_ep *e, const struct leat_ep_conf *conf)
{
	uint32_t i, nb_hash = rte_align32pow2(conf->rx_depth);
	int ret;

	e->hash_mask = nb_hash - 1;
	e->peers = calloc(e->inner->nb_peers, sizeof(*e->peers));
	e->txs = lines_alloc(conf->tx_depth, sizeof(*e->txs));
	e->rxs = calloc(conf->rx_depth, sizeof(*e->rxs));
	e->exact = calloc(nb_hash, sizeof(*e->exact));
	e->by_tag = calloc(nb_hash, sizeof(*e->by_tag));
	ret = e->peers == NULL || e->txs == NULL || e->rxs == NULL || e->exact == NULL ||
			      e->by_tag == NULL
		      ? -ENOMEM
		      : segs_open(e);
	if (ret == -ENOMEM)
		leat_err(ENOMEM, "%s: create endpoint: out of memory for tagged ops of %u peers",
			 leat_ep_name(e->outer), conf->max_peers);
	if (ret < 0)
		return ret;
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
	return 0;
}

static void
chunk_free(struct tags_chunk *c)
{
	free(c->bufs);
	free(c->mem);
	free(c);
}

int
tags_mem_grow(struct tags_ep *e)
{
	struct tags_chunk *c;
	uint32_t i;

	if (e->nb_conns < e->nb_chunks)
		return 0;
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		goto nomem;
	c->bufs = lines_alloc(e->nb_recvs, sizeof(*c->bufs));
	c->mem = aligned_alloc(LEAT_CACHE_LINE, e->nb_recvs * stride(e));
	if (c->bufs == NULL || c->mem == NULL)
		goto nomem;
	c->mr = leat_mr_register(e->inner, c->mem, e->nb_recvs * stride(e), LEAT_MR_LOCAL);
	if (c->mr == NULL) {
		chunk_free(c);
		return -rte_errno;
	}
	for (i = 0; i < e->nb_recvs; i++) {
		struct tags_rbuf *b = &c->bufs[i];

		b->op.type = LEAT_OP_RECV;
		b->op.peer = LEAT_PEER_ANY;
		b->op.buf = c->mem + i * stride(e);
		b->op.size = (size_t)TAGS_HDR_LEN + e->segment;
		b->op.mr = c->mr;
		b->op.queue = e->recv_queue;
		b->op.user = b;
		TAILQ_INSERT_TAIL(&e->repost, b, link);
	}
	c->next = e->chunks;
	e->chunks = c;
	e->nb_chunks++;
	tags_push(e);
	return 0;
nomem:
	if (c != NULL)
		chunk_free(c);
	return leat_err(ENOMEM, "%s: connection: out of memory", leat_ep_name(e->outer));
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
	free(e->peers);
	free(e->txs);
	free(e->rxs);
	free(e->exact);
	free(e->by_tag);
}
