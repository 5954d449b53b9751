/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Receiving without a shared receive queue (SRQ). A receive of the application may be for any peer,
 * but a queue pair could not give a receive back once it was posted there. So each queue pair
 * receives into buffers of the driver, and the driver copies messages to the receives in the
 * order in which they arrived:
 *
 *     peer A   QP: buffers 2 3         arrived, no receive yet: A0 A1
 *     peer B   QP: buffers 0 2 3                                B1
 *     receives that wait: none
 *
 *     a receive is posted: it gets A0; the buffer goes back to A's QP when a quarter of A's
 *     buffers are free
 *
 * Memory is bounded: messages that are not received stay in the buffers of their peer. When the
 * peer's QP runs out of buffers the peer has to wait (RNR), and only this peer. A message can't be
 * longer than a buffer.
 *
 * The receives that wait are kept like those that wait outside of an SRQ (verbs_rc_rx.c), so they
 * can simply be taken back.
 *
 * Memory is allocated and registered when a queue pair is created. When the queue pair ends, the
 * memory is kept for the next one.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_malloc.h>

#include "iwarp/verbs_iwarp.h"
#include "verbs_rc.h"

struct vb_rxbuf {
	TAILQ_ENTRY(vb_rxbuf) next; /* next in vb_rxqs.arrived */
	struct ibv_wc wc;
	struct vb_conn *c;
	bool waits; /* it holds a message, and is in vb_rxqs.arrived */
};

/* The receive buffers of a queue pair. */
struct vb_rxq {
	struct vb_rxq *next; /* next on vb_rxqs.unused */
	uint8_t *mem;
	struct ibv_mr *mr;
	uint32_t posted;  /* buffers in the queue pair */
	uint32_t nb_back; /* free buffers, to be posted again; back: their numbers */
	bool started;
	uint32_t *back;
	struct vb_rxbuf buf[];
};

int
vb_rxqs_open(struct vb_ep *e)
{
	const struct vb_dev *d = e->dev;

	if (d->srq)
		return 0;
	e->rxqs = calloc(1, sizeof(*e->rxqs));
	if (e->rxqs == NULL)
		return leat_err(ENOMEM, "%s: create endpoint: out of memory", d->name);
	e->rxqs->nb = d->args.rxbufs;
	e->rxqs->size = d->args.rxbuf;
	TAILQ_INIT(&e->rxqs->arrived);
	return 0;
}

static void
rxq_free(struct vb_ep *e, struct vb_rxq *q)
{
	int err = q->mr != NULL ? ibv_dereg_mr(q->mr) : 0;

	if (err != 0)
		LEAT_LOG(ERR, driver, "%s: deregister receive buffers: %s", e->dev->name,
			 strerror(err));
	/* Leak memory that the device may still write. */
	if (err == 0)
		rte_free(q->mem);
	free(q->back);
	free(q);
}

void
vb_rxqs_close(struct vb_ep *e)
{
	struct vb_rxq *q;

	if (e->rxqs == NULL)
		return;
	while ((q = e->rxqs->unused) != NULL) {
		e->rxqs->unused = q->next;
		rxq_free(e, q);
	}
	free(e->rxqs);
	e->rxqs = NULL;
}

static struct vb_rxq *
rxq_new(struct vb_ep *e)
{
	const struct vb_rxqs *all = e->rxqs;
	size_t len = (size_t)all->nb * all->size;
	struct vb_rxq *q = calloc(1, sizeof(*q) + all->nb * sizeof(q->buf[0]));

	if (q == NULL) {
		leat_err(ENOMEM, "%s: receive buffers: out of memory", e->dev->name);
		return NULL;
	}
	q->back = calloc(all->nb, sizeof(*q->back));
	q->mem = rte_malloc_socket("verbs_rxq", len, LEAT_CACHE_LINE, SOCKET_ID_ANY);
	if (q->back == NULL || q->mem == NULL) {
		leat_err(ENOMEM,
			 "%s: receive buffers of a peer, %zu B: out of EAL's memory: give it more "
			 "(-m, --socket-mem), or less to a peer (rxbuf=, rxbufs=)",
			 e->dev->name, len);
		rxq_free(e, q);
		return NULL;
	}
	q->mr = ibv_reg_mr(e->pd, q->mem, len, IBV_ACCESS_LOCAL_WRITE);
	if (q->mr == NULL) {
		leat_err(errno == ENOMEM ? ENOMEM : EIO,
			 "%s: register receive buffers of a peer, %zu B: %s: locked memory? "
			 "(ulimit -l)",
			 e->dev->name, len, strerror(errno));
		rxq_free(e, q);
		return NULL;
	}
	return q;
}

/*
 * Post the free buffers to the queue pair, with one doorbell per burst. @return 0; positive errno
 */
static int
fill(struct vb_ep *e, struct vb_conn *c)
{
	struct ibv_recv_wr wr[VB_BURST], *bad = NULL;
	const struct vb_rxqs *all = e->rxqs;
	struct ibv_sge sge[VB_BURST];
	struct vb_rxq *q = c->rxq;
	uint32_t i, n, given = 0;
	int err = 0;

	while (q->nb_back > 0 && err == 0) {
		n = RTE_MIN(q->nb_back, (uint32_t)VB_BURST);
		for (i = 0; i < n; i++) {
			uint32_t b = q->back[q->nb_back - 1 - i];

			sge[i].addr = (uintptr_t)q->mem + (size_t)b * all->size;
			sge[i].length = all->size;
			sge[i].lkey = q->mr->lkey;
			wr[i].wr_id = (uint64_t)c->tag << 32 | b;
			wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
			wr[i].sg_list = &sge[i];
			wr[i].num_sge = 1;
		}
		err = ibv_post_recv(c->qp, wr, &bad);
		if (unlikely(err != 0))
			n = bad == NULL ? 0 : (uint32_t)(bad - wr);
		q->nb_back -= n;
		q->posted += n;
		e->rx_posted += n;
		given += n;
	}
	/* Grant buffers posted later; the connection's hello has granted the first ones. */
	if (c->credit != NULL && given > 0 && err == 0 && q->started)
		vb_credit_give(c, given);
	return err;
}

int
vb_rxq_open(struct vb_ep *e, struct vb_conn *c)
{
	struct vb_rxqs *all = e->rxqs;
	struct vb_rxq *q = all->unused;
	uint32_t i;
	int err;

	if (q != NULL)
		all->unused = q->next;
	else
		q = rxq_new(e);
	if (q == NULL)
		return -rte_errno;
	c->rxq = q;
	q->posted = 0;
	q->started = false;
	q->nb_back = all->nb;
	for (i = 0; i < all->nb; i++) {
		q->back[i] = all->nb - 1 - i;
		q->buf[i].c = c;
		q->buf[i].waits = false;
	}
	if (!e->dev->rules.credits || vb_credit_open(e, c) == 0)
		return 0;
	err = rte_errno;
	vb_rxq_close(e, c);
	return -err;
}

int
vb_rxq_start(struct vb_ep *e, struct vb_conn *c)
{
	int err = fill(e, c);

	c->rxq->started = true;
	if (err == 0)
		return 0;
	return leat_err(err, "%s: receive buffers to a queue pair: %s", e->dev->name,
			strerror(err));
}

void
vb_rxq_close(struct vb_ep *e, struct vb_conn *c)
{
	struct vb_rxq *q = c->rxq;
	uint32_t i;

	if (q == NULL)
		return;
	for (i = 0; i < e->rxqs->nb; i++) {
		if (q->buf[i].waits)
			TAILQ_REMOVE(&e->rxqs->arrived, &q->buf[i], next);
	}
	vb_credit_close(e, c);
	e->rx_posted -= q->posted;
	q->next = e->rxqs->unused;
	e->rxqs->unused = q;
	c->rxq = NULL;
}

/*
 * Add a buffer to the free ones. When a quarter of the queue pair's buffers are free, post them
 * again.
 */
static void
put_back(struct vb_ep *e, struct vb_conn *c, uint32_t b)
{
	struct vb_rxq *q = c->rxq;

	q->back[q->nb_back++] = b;
	if (q->nb_back * 4 < e->rxqs->nb || c->state >= VB_ENDING)
		return;
	if (unlikely(fill(e, c) != 0))
		vb_conn_end(c, -EIO, "the device refused a receive buffer");
}

/* Deliver a message to the oldest receive; there must be one. */
static void
give(struct vb_ep *e, struct vb_conn *c, uint32_t b, const struct ibv_wc *wc)
{
	vb_rx_give(e, wc, c->rxq->mem + (size_t)b * e->rxqs->size);
	put_back(e, c, b);
}

void
vb_rxq_done(struct vb_ep *e, const struct ibv_wc *wc)
{
	uint32_t tag = (uint32_t)(wc->wr_id >> 32), index = (uint16_t)tag, b = (uint32_t)wc->wr_id;
	struct vb_conn *c = index < e->nb_peers ? e->conns[index] : NULL;
	struct vb_rxbuf *buf;

	if (unlikely(c == NULL || c->tag != tag || c->rxq == NULL || b >= e->rxqs->nb))
		return; /* completion of a queue pair that was destroyed */
	c->rxq->posted--;
	e->rx_posted--;
	if (unlikely(wc->status != IBV_WC_SUCCESS)) {
		c->rxq->back[c->rxq->nb_back++] = b;
		/*
		 * A flush only means that the other side has disconnected, which an event reports
		 * next.
		 */
		if (!e->dev->rules.leave_flushes || wc->status != IBV_WC_WR_FLUSH_ERR)
			vb_conn_failed(c, wc, true);
		return;
	}
	if (likely(e->nb_sw > 0)) {
		give(e, c, b, wc);
		return;
	}
	buf = &c->rxq->buf[b];
	buf->wc = *wc;
	buf->waits = true;
	TAILQ_INSERT_TAIL(&e->rxqs->arrived, buf, next);
}

void
vb_rxq_match(struct vb_ep *e)
{
	struct vb_rxbuf *buf;

	while (e->nb_sw > 0 && (buf = TAILQ_FIRST(&e->rxqs->arrived)) != NULL) {
		TAILQ_REMOVE(&e->rxqs->arrived, buf, next);
		buf->waits = false;
		give(e, buf->c, (uint32_t)buf->wc.wr_id, &buf->wc);
	}
}
