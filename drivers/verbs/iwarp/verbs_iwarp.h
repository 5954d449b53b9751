/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_IWARP_H
#define VERBS_IWARP_H

/*
 * What reliable connections do over iWARP beyond what is in rc/.
 *
 *     verbs_iwarp.c           its rules; addresses, a READ behind WRITEs, registration for READs
 *     verbs_iwarp_credits.c   flow control, and the hellos that connect and accept carry for it
 */

#include "verbs_pvt.h"

/* Of a connection; what is before mr is registered. */
struct vb_credit {
	uint32_t granted; /* the other side writes it */
	uint32_t mine;	  /* what is being written there */
	uint32_t echo;	  /* what the READs behind WRITEs bring */
	struct ibv_mr *mr;
	uint32_t sent;
	uint32_t posted; /* buffers, ever */
	uint32_t told;	 /* of them the other side knows */
	uint64_t raddr;
	uint32_t rkey;
	bool counts;  /* the other side counts, too */
	bool writing; /* a WRITE is under way */
};

/* ---- rules ---- */

extern const struct vb_rules vb_iwarp_rules;
/* The addresses that connections come from. 0, or negative errno with leat_err(). */
int vb_iwarp_addrs(struct vb_dev *d);
/* Behind n requests with a WRITE among them comes one more, see there. */
void vb_iwarp_fence(const struct vb_conn *c, struct ibv_send_wr *wr, uint32_t n,
		    struct ibv_sge *sge);
/* Where READs are posted: a region for them, and one for peers. 0, or positive errno. */
int vb_iwarp_mr_reg(struct vb_ep *e, struct leat_mr_piece *piece, int flags);
int vb_iwarp_mr_dereg(void *drv);

/* ---- credits ---- */

/* With the queue pair. */
int vb_credit_open(struct vb_ep *e, struct vb_conn *c);
void vb_credit_close(struct vb_ep *e, struct vb_conn *c);
/* VB_HELLO bytes that go in front of the private data. */
void vb_hello_write(const struct vb_conn *c, void *buf);
/* Goes with a refusal, which else looks like that of a host without a listener. */
void vb_hello_no(void *buf);
/* @return bytes of private data that it took: 0 or VB_HELLO */
uint16_t vb_hello_read(struct vb_hello *out, const void *priv, uint16_t len);
/* It is up, and this is the other side's hello. */
void vb_credit_start(struct vb_conn *c, const struct vb_hello *h);
/* For a SEND. @return false: there is none */
bool vb_credit_take(struct vb_conn *c);
/* n buffers went to the queue pair. */
void vb_credit_give(struct vb_conn *c, uint32_t n);
/* A completion that is of no op: perhaps of credits. */
void vb_credit_done(struct vb_ep *e, const struct ibv_wc *wc);

#endif /* VERBS_IWARP_H */
