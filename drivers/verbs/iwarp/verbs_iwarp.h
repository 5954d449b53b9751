/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_IWARP_H
#define VERBS_IWARP_H

/*
 * iWARP: additions to the reliable connections of rc/.
 *
 *     verbs_iwarp.c           its rules; addresses, a READ after WRITEs, registration for READs
 *     verbs_iwarp_credits.c   flow control; the hello, its data in front of the private data of
 *                             connect and accept
 */

#include "verbs_pvt.h"

/* The credits of a connection. The fields before mr are registered. */
struct vb_credit {
	uint32_t granted; /* written by the other side: total number of SENDs that it permits */
	uint32_t mine;	  /* source of the WRITE to the other side's granted */
	uint32_t echo;	  /* destination of the READs after WRITEs */
	struct ibv_mr *mr;
	uint32_t sent;
	uint32_t posted; /* total number of buffers posted */
	uint32_t told;	 /* the value of posted that was last reported to the other side */
	uint64_t raddr;
	uint32_t rkey;
	bool counts;  /* the other side also uses credits */
	bool writing; /* a WRITE of credits is in flight */
};

/* ---- rules ---- */

extern const struct vb_rules vb_iwarp_rules;
/* Find the source addresses of connections. @return 0; negative errno with leat_err() */
int vb_iwarp_addrs(struct vb_dev *d);
/* If a WRITE is among n requests, append a READ; see verbs_iwarp.c. wr and sge have room for it. */
void vb_iwarp_fence(const struct vb_conn *c, struct ibv_send_wr *wr, uint32_t n,
		    struct ibv_sge *sge);
/*
 * Register memory as the destination of READs, and a second time for access by peers. @return 0;
 * positive errno
 */
int vb_iwarp_mr_reg(struct vb_ep *e, struct leat_mr_piece *piece, int flags);
int vb_iwarp_mr_dereg(void *drv);

/* ---- credits ---- */

/*
 * Allocate and free a connection's credits, together with its queue pair. @return 0; negative errno
 * with leat_err()
 */
int vb_credit_open(struct vb_ep *e, struct vb_conn *c);
void vb_credit_close(struct vb_ep *e, struct vb_conn *c);
/* Write the VB_HELLO bytes that go in front of the private data. */
void vb_hello_write(const struct vb_conn *c, void *buf);
/* Write the hello of a rejection; without it a rejection looks as if no program listened. */
void vb_hello_no(void *buf);
/* Parse a hello. @return its bytes in the private data: VB_HELLO, or 0 if there is none */
uint16_t vb_hello_read(struct vb_hello *out, const void *priv, uint16_t len);
/* Start to use credits: the connection is up, and h is the other side's hello. */
void vb_credit_start(struct vb_conn *c, const struct vb_hello *h);
/* Consume a credit for a SEND. @return false: there is none */
bool vb_credit_take(struct vb_conn *c);
/* Grant n more credits: n buffers were posted to the queue pair. */
void vb_credit_give(struct vb_conn *c, uint32_t n);
/* Handle a completion that belongs to no op. It may belong to a WRITE of credits. */
void vb_credit_done(struct vb_ep *e, const struct ibv_wc *wc);

#endif /* VERBS_IWARP_H */
