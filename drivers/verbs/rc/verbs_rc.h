/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_RC_H
#define VERBS_RC_H

/*
 * RELIABLE endpoints (qp=rc): a queue pair per peer.
 *
 *     verbs_rc.c        the endpoint: its limits, its tables, the end
 *     verbs_rc_conn.c   connections: what RC adds to verbs_cm.c, and how they end
 *     verbs_rc_qp.c     queue pairs: create, connect, destroy; the map from QP number to peer
 *     verbs_rc_tx.c     post
 *     verbs_rc_rx.c     receives: slots, the SRQ, and how a receive is taken back from it
 *     verbs_rc_rxq.c    receives where there is no SRQ
 *     verbs_rc_loop.c   a connection of the endpoint to itself, with which receives are taken back
 *     verbs_rc_poll.c   poll
 */

#include "verbs_transport.h"

/* ---- queue pairs ---- */

int vb_qp_create(struct vb_ep *e, struct vb_conn *c);
/*
 * To INIT, to RTR and RTS, by what the connection manager says. 0, or negative errno with
 * leat_err().
 */
int vb_qp_init(struct vb_conn *c);
int vb_qp_connect(struct vb_conn *c);
/* To ERR: what it has comes back flushed. */
void vb_qp_error(struct vb_conn *c);
/* Afterwards the device touches nothing of its any more. */
void vb_qp_destroy(struct vb_conn *c);
void vb_qpn_add(struct vb_ep *e, uint32_t qpn, uint16_t peer);
void vb_qpn_del(struct vb_ep *e, uint32_t qpn);
uint16_t vb_qpn_find(const struct vb_ep *e, uint32_t qpn);

/* ---- connections ---- */

/* See struct vb_transport. */
void vb_rc_connect(struct vb_conn *c);
void vb_rc_answered(struct vb_conn *c, const struct vb_cm_event *ev);
enum vb_refusal vb_rc_refusal(const struct vb_ep *e, const struct vb_cm_event *ev);
void vb_rc_left(struct vb_conn *c);
bool vb_rc_request(struct vb_ep *e, const struct vb_cm_event *ev, struct vb_request *req);
void vb_rc_requested(struct vb_conn *c, const struct vb_cm_event *ev, const struct vb_request *req);
int vb_rc_accept(struct vb_conn *c, const struct leat_conn_params *params);
void vb_rc_end(struct vb_conn *c, int status, const char *text);
void vb_rc_ending(struct vb_conn *c, uint64_t now);
/* A completion says that it is over. */
void vb_conn_failed(struct vb_conn *c, const struct ibv_wc *wc, bool recv);

/* ---- data ---- */

uint16_t vb_rc_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n);
void vb_rc_poll(struct leat_ep *ep);
/* Takes what is in the CQs, until they are empty. */
void vb_rc_cq_empty(struct vb_ep *e);
/* Ops up to and including number `last` of a send queue are done. */
void vb_rc_sq_done(struct vb_ep *e, struct vb_conn *c, uint32_t last, int status);

/*
 * Receives from ops[0] on that are right.
 * @return how many there were
 */
uint32_t vb_rx_post(struct vb_ep *e, struct leat_op **ops, uint32_t n);
/* Receives are complete. */
void vb_rx_done(struct vb_ep *e, const struct ibv_wc *wc, int n);
/* See struct leat_driver. */
int vb_rx_cancel(struct vb_ep *e, struct leat_op *op);
/* Goes on with taking back. */
void vb_rx_step(struct vb_ep *e);
/* The SRQ is empty: those behind the last that is in use may go in. */
void vb_rx_refill(struct vb_ep *e);
/* Finishes all receives; the SRQ is destroyed. */
void vb_rx_drop(struct vb_ep *e, int status);
/* The message of wc, that lies at data, goes to the oldest receive outside of an SRQ. */
void vb_rx_give(struct vb_ep *e, const struct ibv_wc *wc, const void *data);

/* 0, or negative errno with leat_err(). */
int vb_rxqs_open(struct vb_ep *e);
void vb_rxqs_close(struct vb_ep *e);
/* Buffers of a queue pair; they are there before it can receive. */
int vb_rxq_open(struct vb_ep *e, struct vb_conn *c);
int vb_rxq_start(struct vb_ep *e, struct vb_conn *c);
/* It is destroyed; what arrived and was not received goes with it. */
void vb_rxq_close(struct vb_ep *e, struct vb_conn *c);
void vb_rxq_done(struct vb_ep *e, const struct ibv_wc *wc);
/* Receives were posted: for what has arrived. */
void vb_rxq_match(struct vb_ep *e);

int vb_loop_open(struct vb_ep *e);
void vb_loop_close(struct vb_ep *e);
/* Sends n empty messages, each of which takes one receive out of the SRQ. */
void vb_loop_send(struct vb_ep *e, uint32_t n);
/* A send of it completed. */
void vb_loop_done(struct vb_ep *e, const struct ibv_wc *wc);
void vb_loop_progress(struct vb_ep *e, uint64_t now);

#endif /* VERBS_RC_H */
