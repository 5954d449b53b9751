/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Flow control of iWARP: credits. A message that meets no receive ends the connection: there is no
 * RNR. So each side tells the other how many messages it has buffers for, first when connecting and
 * then again as buffers become free:
 *
 *     connect, accept: {magic, 16 buffers, address of granted} in front of the private data
 *
 *     sender                                       receiver
 *     sent 0, granted 16: SEND 1 2 3 4  --------->  buffers 1 2 3 4 in use
 *     sent 4, granted 16                            the messages are received, 4 buffers are free
 *     sent 4, granted 20                <--WRITE--  writes 20 to the sender's granted
 *
 * When sent reaches granted, post accepts no more SENDs to that peer. Each connection has its word
 * `granted` in a region of its own, so a false value from a peer harms only that connection.
 *
 * The WRITE takes no receive, so a lack of receives can't hold it up. One WRITE is in flight at a
 * time, and the send queue has a place for it. A peer without a hello in its private data is not
 * leat: this side sends to it without credits, and grants it none.
 */

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rc/verbs_rc.h"
#include "verbs_iwarp.h"

/*
 * wr_id of a WRITE of credits: this value, with the tag of the queue pair in the lower half. The
 * upper half is no connection's tag.
 */
#define WR_CREDIT UINT64_C(0xfffeffff00000000)
#define HELLO_MAGIC 0x6c656174 /* "leat" */
#define HELLO_VERSION 1

/* The hello in front of the private data, big endian. */
struct hello {
	uint32_t magic;
	uint16_t version;
	uint16_t buffers;
	uint64_t addr;
	uint32_t rkey;
	uint32_t zero;
};

_Static_assert(sizeof(struct hello) == VB_HELLO, "the hello is 24 B");

/* ---- hellos ---- */

void
vb_hello_write(const struct vb_conn *c, void *buf)
{
	struct hello h = {
		.magic = htobe32(HELLO_MAGIC),
		.version = htobe16(HELLO_VERSION),
		.buffers = htobe16((uint16_t)c->e->rxqs->nb),
		.addr = htobe64((uintptr_t)&c->credit->granted),
		.rkey = htobe32(c->credit->mr->rkey),
	};

	memcpy(buf, &h, sizeof(h));
}

void
vb_hello_no(void *buf)
{
	struct hello h = { .magic = htobe32(HELLO_MAGIC), .version = htobe16(HELLO_VERSION) };

	memcpy(buf, &h, sizeof(h));
}

uint16_t
vb_hello_read(struct vb_hello *out, const void *priv, uint16_t len)
{
	struct hello h;

	memset(out, 0, sizeof(*out));
	if (len < sizeof(h))
		return 0;
	memcpy(&h, priv, sizeof(h));
	if (be32toh(h.magic) != HELLO_MAGIC || be16toh(h.version) != HELLO_VERSION)
		return 0;
	out->there = true;
	out->buffers = be16toh(h.buffers);
	out->addr = be64toh(h.addr);
	out->rkey = be32toh(h.rkey);
	return sizeof(h);
}

/* ---- credits ---- */

int
vb_credit_open(struct vb_ep *e, struct vb_conn *c)
{
	struct vb_credit *cr = aligned_alloc(LEAT_CACHE_LINE, RTE_CACHE_LINE_ROUNDUP(sizeof(*cr)));
	int err;

	if (cr == NULL)
		return leat_err(ENOMEM, "%s: connection: out of memory", e->dev->name);
	memset(cr, 0, sizeof(*cr));
	/* Register only the first three words: the rest must not be accessible. */
	cr->mr = ibv_reg_mr(e->pd, cr, offsetof(struct vb_credit, mr),
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				    IBV_ACCESS_REMOTE_READ);
	if (cr->mr == NULL) {
		err = errno;
		free(cr);
		return leat_err(err == ENOMEM ? ENOMEM : EIO, "%s: register credits: %s",
				e->dev->name, strerror(err));
	}
	cr->posted = cr->told = e->rxqs->nb;
	c->credit = cr;
	return 0;
}

void
vb_credit_close(struct vb_ep *e, struct vb_conn *c)
{
	struct vb_credit *cr = c->credit;
	int err;

	if (cr == NULL)
		return;
	c->credit = NULL;
	e->grants -= cr->writing;
	err = ibv_dereg_mr(cr->mr);
	if (err == 0)
		free(cr);
	else /* leak memory that the device may still write */
		LEAT_LOG(ERR, driver, "%s: deregister credits: %s", e->dev->name, strerror(err));
}

bool
vb_credit_take(struct vb_conn *c)
{
	struct vb_credit *cr = c->credit;

	/* Atomic, because the device writes it. */
	if (cr->counts &&
	    (int32_t)(__atomic_load_n(&cr->granted, __ATOMIC_RELAXED) - cr->sent) <= 0) {
		c->e->starved = true;
		return false;
	}
	cr->sent++;
	return true;
}

static void
post_credits(struct vb_conn *c)
{
	struct vb_credit *cr = c->credit;
	struct ibv_sge sge = { (uintptr_t)&cr->mine, sizeof(cr->mine), cr->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = WR_CREDIT | c->tag,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = cr->raddr, .rkey = cr->rkey },
	};

	if (!cr->counts || cr->writing || cr->told == cr->posted || c->state != VB_UP)
		return;
	cr->mine = cr->told = cr->posted;
	if (ibv_post_send(c->qp, &wr, &bad) != 0) {
		vb_conn_end(c, -EIO, "the device refused to write credits");
		return;
	}
	cr->writing = true;
	c->e->grants++;
}

void
vb_credit_start(struct vb_conn *c, const struct vb_hello *h)
{
	struct vb_credit *cr = c->credit;

	cr->counts = h->there;
	cr->raddr = h->addr;
	cr->rkey = h->rkey;
	/* This side has sent nothing yet, so the other side had no reason to write granted. */
	cr->granted = h->buffers;
	post_credits(c); /* grant buffers that became free before the connection was up */
}

void
vb_credit_give(struct vb_conn *c, uint32_t n)
{
	c->credit->posted += n;
	post_credits(c);
}

void
vb_credit_done(struct vb_ep *e, const struct ibv_wc *wc)
{
	uint32_t tag = (uint32_t)wc->wr_id, index = (uint16_t)tag;
	struct vb_conn *c = index < e->nb_peers ? e->conns[index] : NULL;

	if ((wc->wr_id ^ WR_CREDIT) >> 32 != 0 || c == NULL || c->tag != tag || c->credit == NULL ||
	    !c->credit->writing)
		return; /* completion of a queue pair that was destroyed */
	c->credit->writing = false;
	e->grants--;
	if (wc->status == IBV_WC_SUCCESS)
		post_credits(c);
	else if (wc->status != IBV_WC_WR_FLUSH_ERR)
		vb_conn_failed(c, wc, false); /* after a flush the connection is ending anyway */
}
