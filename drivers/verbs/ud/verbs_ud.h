/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_UD_H
#define VERBS_UD_H

/*
 * DATAGRAM endpoints (qp=ud): one UD queue pair, for all peers.
 *
 *     verbs_ud.c        the endpoint: its limits, its QP, how receives are taken back, the end
 *     verbs_ud_tx.c     post
 *     verbs_ud_rx.c     receives, poll
 *     verbs_ud_conn.c   peers: what UD adds to verbs_cm.c
 *     verbs_ud_hello.c  what travels when they connect
 *     verbs_ud_sender.c   whose a datagram is
 *
 * A peer is an address handle, a queue pair's number and its key. Connecting finds them out, and there
 * is no connection afterwards.
 */

#include "verbs_transport.h"

/* In front of each datagram the device puts a global routing header, or leaves room for one. */
#define VB_GRH 40
/* One for each receive, in cache lines of their own. */
#define VB_GRH_STRIDE 64
/* GRH, the caller's buffer, what is longer than that. */
#define VB_UD_SGE 3

/* ---- whose a datagram is ---- */

struct vb_sender_row {
	struct vb_sender sender;
	uint16_t peer;
};

/* Senders that are peers: open addressing, at most a quarter full. */
struct vb_sender_map {
	struct vb_sender_row *rows;
	uint32_t mask;
	uint64_t seed; /* others can't choose addresses that collide */
};

int vb_sender_init(struct vb_sender_map *m, uint32_t peers);
/* Of two peers that are one sender the one that was added last is found. */
void vb_sender_add(struct vb_sender_map *m, const struct vb_sender *sender, uint16_t peer);
void vb_sender_del(struct vb_sender_map *m, const struct vb_sender *sender, uint16_t peer);
/* @return its peer, or LEAT_PEER_ANY */
uint16_t vb_sender_find(const struct vb_sender_map *m, const struct vb_sender *sender);
/* @return the peer of that sender that was added before this one, or LEAT_PEER_ANY */
uint16_t vb_sender_older(const struct vb_sender_map *m, const struct vb_sender *sender,
			 uint16_t peer);
/* Source of a datagram with that completion; grh: the 40 B in front of it. */
void vb_sender_wc(struct vb_sender *sender, const struct ibv_wc *wc, const uint8_t *grh);
void vb_sender_lid(struct vb_sender *sender, uint16_t lid, uint32_t qpn);

/* ---- what travels ---- */

/* With connect; see verbs_ud_hello.c. */
struct vb_ud_hello {
	uint32_t qpn;
	uint32_t qkey;
	uint32_t attempt; /* the same if it is sent again */
	uint16_t lid;
	const uint8_t *priv; /* the application's */
	uint8_t priv_len;
};

#define VB_UD_HELLO 20
#define VB_UD_WELCOME 12
/* What the connection manager carries for UD, and what of it is left for the application. */
#define VB_SIDR_CONNECT 180
#define VB_SIDR_ACCEPT 136
#define VB_UD_PRIV_CONNECT (VB_SIDR_CONNECT - VB_UD_HELLO)
#define VB_UD_PRIV_ACCEPT (VB_SIDR_ACCEPT - VB_UD_WELCOME)

/* @return bytes written */
uint8_t vb_ud_hello_put(uint8_t buf[VB_SIDR_CONNECT], const struct vb_ud_hello *h);
/* @return false: not from leat */
bool vb_ud_hello_get(const uint8_t *buf, size_t len, struct vb_ud_hello *h);
/* The answer: only its key and priv count. */
uint8_t vb_ud_welcome_put(uint8_t buf[VB_SIDR_ACCEPT], const struct vb_ud_hello *h);
bool vb_ud_welcome_get(const uint8_t *buf, size_t len, struct vb_ud_hello *h);

/* ---- the endpoint ---- */

/* What a send needs to know of a peer. */
struct vb_dest {
	struct ibv_ah *ah;
	uint32_t qpn, qkey;
};

struct vb_ud {
	struct vb_ep e; /* first: vb_of() */

	struct ibv_qp *qp;     /* NULL: destroyed */
	struct ibv_qp_ex *qpx; /* NULL: ibv_post_send() */
	struct vb_dest *dest;  /* by peer */
	/* Ops in the QP, by the number that is their wr_id: both queues complete in order. */
	struct leat_op **sq, **rq;
	uint32_t sq_mask, sq_head, sq_tail, unsignaled;
	uint32_t rq_mask, rq_head, rq_tail;
	uint8_t *grh;  /* of the receives, then mtu bytes for what is longer than its receive */
	uint32_t lkey; /* of that */
	uint32_t mtu;  /* longest datagram that the port can bring */
	uint32_t nb_silent; /* peers whose queue pair's number is not known yet */
	bool recall;	    /* receives are to be taken back, or the QP failed; see verbs_ud.c */
	bool flushing;	    /* the QP is in ERR for that, and nothing is posted to it */
	uint32_t flush_end, flushed; /* number of the first receive that is not; how many are */

	struct vb_sender_map senders;
	struct ibv_mr *mr; /* of grh */
	uint32_t qkey;
	uint32_t attempts;
	uint64_t recall_limit; /* 0: not set */
};

static inline struct vb_ud *
vb_ud_of(struct vb_ep *e)
{
	return (struct vb_ud *)(void *)e;
}

/* Takes back what is cancelled, as soon as no send is in flight, or at once: force. */
void vb_ud_recall(struct vb_ud *u, bool force);

uint16_t vb_ud_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n);
void vb_ud_poll(struct leat_ep *ep);
/* Takes what is in the CQs. */
void vb_ud_cq_empty(struct vb_ud *u);
/* Sends up to and including number `last` are done. */
void vb_ud_sq_done(struct vb_ud *u, uint32_t last, int status);

struct vb_ud_rx_batch {
	uint32_t n;
	struct ibv_recv_wr wr[VB_BURST];
	struct ibv_sge sge[VB_BURST][VB_UD_SGE];
};

/* Puts a receive, that was started, into the QP. */
void vb_ud_rx_add(struct vb_ud *u, struct vb_ud_rx_batch *b, struct leat_op *op, uint32_t lkey);
void vb_ud_rx_flush(struct vb_ud *u, struct vb_ud_rx_batch *b);

/* ---- peers ---- */

/* See struct vb_transport. */
void vb_ud_connect(struct vb_conn *c);
void vb_ud_answered(struct vb_conn *c, const struct vb_cm_event *ev);
enum vb_refusal vb_ud_refusal(const struct vb_ep *e, const struct vb_cm_event *ev);
bool vb_ud_request(struct vb_ep *e, const struct vb_cm_event *ev, struct vb_request *req);
void vb_ud_requested(struct vb_conn *c, const struct vb_cm_event *ev, const struct vb_request *req);
int vb_ud_accept(struct vb_conn *c, const struct leat_conn_params *params);
void vb_ud_end(struct vb_conn *c, int status, const char *text);
void vb_ud_ending(struct vb_conn *c, uint64_t now);
/* Nothing is sent to it, and nothing comes from it, any more. */
void vb_ud_forget(struct vb_conn *c);
/* Its number is learned from the first datagram. @return the peer, or LEAT_PEER_ANY */
uint16_t vb_ud_learn(struct vb_ud *u, const struct vb_sender *sender);

#endif /* VERBS_UD_H */
