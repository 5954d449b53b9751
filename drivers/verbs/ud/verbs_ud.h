/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_UD_H
#define VERBS_UD_H

/*
 * DATAGRAM endpoints (qp=ud): one UD queue pair, for all peers.
 *
 *     verbs_ud.c         the endpoint: its limits, its QP, how receives are taken back, its end
 *     verbs_ud_tx.c      post
 *     verbs_ud_rx.c      receives, poll
 *     verbs_ud_conn.c    peers: what UD adds to verbs_cm.c
 *     verbs_ud_hello.c   the messages of connect and accept
 *     verbs_ud_sender.c  the map from a datagram's sender to the peer
 *
 * A peer is an address handle, the number of a queue pair and its Q_Key. Connecting determines
 * them; afterwards there is no connection.
 */

#include "verbs_transport.h"

/*
 * Bytes of the global routing header (GRH). The device puts one in front of each datagram, or
 * leaves room for it.
 */
#define VB_GRH 40
/* Bytes from one receive's GRH to the next: each has a cache line of its own. */
#define VB_GRH_STRIDE 64
/* Pieces of a receive: the GRH, the caller's buffer, and room for the rest of the datagram. */
#define VB_UD_SGE 3

/* ---- senders of datagrams ---- */

struct vb_sender_row {
	struct vb_sender sender;
	uint16_t peer;
};

/* Map from senders to peers: open addressing, at most a quarter full. */
struct vb_sender_map {
	struct vb_sender_row *rows;
	uint32_t mask;
	uint64_t seed; /* random, so that peers can't choose addresses that collide */
};

/* Allocate a map. @return 0; -ENOMEM */
int vb_sender_init(struct vb_sender_map *m, uint32_t peers);
/* Add a peer. Of several peers with the same sender, vb_sender_find() returns the newest. */
void vb_sender_add(struct vb_sender_map *m, const struct vb_sender *sender, uint16_t peer);
void vb_sender_del(struct vb_sender_map *m, const struct vb_sender *sender, uint16_t peer);
/* Find a sender. @return its peer; LEAT_PEER_ANY: it is unknown */
uint16_t vb_sender_find(const struct vb_sender_map *m, const struct vb_sender *sender);
/*
 * Of the sender's peers that were added before `peer`, return the newest; LEAT_PEER_ANY: there is
 * none.
 */
uint16_t vb_sender_older(const struct vb_sender_map *m, const struct vb_sender *sender,
			 uint16_t peer);
/* Determine a datagram's sender from its completion. grh: the 40 B in front of the datagram. */
void vb_sender_wc(struct vb_sender *sender, const struct ibv_wc *wc, const uint8_t *grh);
/* Set a sender that has a LID instead of a GID. */
void vb_sender_lid(struct vb_sender *sender, uint16_t lid, uint32_t qpn);

/* ---- messages of connect and accept ---- */

/* The content of a connector's request; see verbs_ud_hello.c. */
struct vb_ud_hello {
	uint32_t qpn;
	uint32_t qkey;
	uint32_t attempt; /* number of the attempt, the same in each repetition */
	uint16_t lid;
	const uint8_t *priv; /* the application's private data */
	uint8_t priv_len;
};

#define VB_UD_HELLO 20
#define VB_UD_WELCOME 12
/* Bytes of private data that the connection manager carries for UD: with request and answer. */
#define VB_SIDR_CONNECT 180
#define VB_SIDR_ACCEPT 136
#define VB_UD_PRIV_CONNECT (VB_SIDR_CONNECT - VB_UD_HELLO)
#define VB_UD_PRIV_ACCEPT (VB_SIDR_ACCEPT - VB_UD_WELCOME)

/* Write a request. @return its length in bytes */
uint8_t vb_ud_hello_put(uint8_t buf[VB_SIDR_CONNECT], const struct vb_ud_hello *h);
/* Parse a request. @return false: it is not from leat */
bool vb_ud_hello_get(const uint8_t *buf, size_t len, struct vb_ud_hello *h);
/* Write and parse an answer, which carries only qkey and priv. @return as for a request */
uint8_t vb_ud_welcome_put(uint8_t buf[VB_SIDR_ACCEPT], const struct vb_ud_hello *h);
bool vb_ud_welcome_get(const uint8_t *buf, size_t len, struct vb_ud_hello *h);

/* ---- the endpoint ---- */

/* Destination of the sends to a peer. */
struct vb_dest {
	struct ibv_ah *ah;
	uint32_t qpn, qkey;
};

struct vb_ud {
	struct vb_ep e; /* the first member: vb_ud_of() casts it to struct vb_ud */

	struct ibv_qp *qp;     /* NULL: destroyed */
	struct ibv_qp_ex *qpx; /* NULL: ibv_post_send() is used */
	struct vb_dest *dest;  /* indexed by peer */
	/*
	 * Rings of the ops in the QP. An op's number is its wr_id; both queues complete in order.
	 */
	struct leat_op **sq, **rq;
	uint32_t sq_mask, sq_head, sq_tail, unsignaled;
	uint32_t rq_mask, rq_head, rq_tail;
	uint8_t *grh;	    /* the GRHs of receives, then mtu bytes for the rest of datagrams */
	uint32_t lkey;	    /* lkey of the region of grh */
	uint32_t mtu;	    /* longest datagram, B, that the port can receive */
	uint32_t nb_silent; /* peers whose queue pair is not known yet */
	bool recall;	    /* receives are to be taken back, or the QP failed; see verbs_ud.c */
	bool flushing;	    /* the QP is in ERR for recall, and nothing is posted to it */
	/* flush_end: number after the last receive to flush; flushed: receives flushed so far */
	uint32_t flush_end, flushed;

	struct vb_sender_map senders;
	struct ibv_mr *mr; /* region of grh */
	uint32_t qkey;
	uint32_t attempts;
	uint64_t recall_limit; /* cycles: when to reset without waiting longer; 0: not set */
};

static inline struct vb_ud *
vb_ud_of(struct vb_ep *e)
{
	return (struct vb_ud *)(void *)e;
}

/* Take cancelled receives back: at once if force is set, else when no send is in flight. */
void vb_ud_recall(struct vb_ud *u, bool force);

uint16_t vb_ud_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n);
void vb_ud_poll(struct leat_ep *ep);
/* Handle all completions in the CQs. */
void vb_ud_cq_empty(struct vb_ud *u);
/* Finish the sends up to and including number `last`. */
void vb_ud_sq_done(struct vb_ud *u, uint32_t last, int status);

struct vb_ud_rx_batch {
	uint32_t n;
	struct ibv_recv_wr wr[VB_BURST];
	struct ibv_sge sge[VB_BURST][VB_UD_SGE];
};

/* Add an accepted receive to a batch for the QP; vb_ud_rx_flush() posts the batch. */
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
/*
 * Remove a peer's address: nothing is sent there any more, and datagrams from there are not
 * attributed to the peer any more.
 */
void vb_ud_forget(struct vb_conn *c);
/*
 * Match an unknown sender with a peer whose queue pair is not known yet. @return the peer;
 * LEAT_PEER_ANY: there is none
 */
uint16_t vb_ud_learn(struct vb_ud *u, const struct vb_sender *sender);

#endif /* VERBS_UD_H */
