/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_RC_H
#define VERBS_RC_H

/*
 * RELIABLE endpoints (qp=rc): a queue pair per peer.
 *
 *     verbs_rc.c        the endpoint: its limits, its tables, its end
 *     verbs_rc_conn.c   connections: what RC adds to verbs_cm.c, and how they end
 *     verbs_rc_qp.c     queue pairs: create, connect, destroy; the map from QP number to peer
 *     verbs_rc_tx.c     post
 *     verbs_rc_rx.c     receives: slots, the SRQ, and how a receive is taken back from it
 *     verbs_rc_rxq.c    receives without an SRQ
 *     verbs_rc_loop.c   a connection of the endpoint to itself, for taking receives back
 *     verbs_rc_poll.c   poll
 */

#include "verbs_transport.h"

/* ---- queue pairs ---- */

/* Create the queue pair of a connection. @return 0; negative errno with leat_err() */
int vb_qp_create(struct vb_ep *e, struct vb_conn *c);
/*
 * Move the queue pair: vb_qp_init() to INIT, vb_qp_connect() to RTR and RTS. The connection manager
 * provides the attributes. @return 0; negative errno with leat_err()
 */
int vb_qp_init(struct vb_conn *c);
int vb_qp_connect(struct vb_conn *c);
/* Move the queue pair to ERR: its requests complete as flushed. */
void vb_qp_error(struct vb_conn *c);
/* Destroy the queue pair: afterwards the device accesses none of its memory. */
void vb_qp_destroy(struct vb_conn *c);
/* The map from the number of a queue pair to its peer. */
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
/* End a connection because of a failed completion. recv: the completion is a receive's. */
void vb_conn_failed(struct vb_conn *c, const struct ibv_wc *wc, bool recv);

/* ---- data ---- */

uint16_t vb_rc_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n);
void vb_rc_poll(struct leat_ep *ep);
/* Handle all completions in the CQs, until both are empty. */
void vb_rc_cq_empty(struct vb_ep *e);
/* Finish the ops of a send queue up to and including number `last`. */
void vb_rc_sq_done(struct vb_ep *e, struct vb_conn *c, uint32_t last, int status);

/*
 * Post receives from ops[0] on, until the first op that is not a valid receive. @return how many
 * were posted
 */
uint32_t vb_rx_post(struct vb_ep *e, struct leat_op **ops, uint32_t n);
/* Handle n completions of receives. */
void vb_rx_done(struct vb_ep *e, const struct ibv_wc *wc, int n);
/* See struct leat_driver.cancel. */
int vb_rx_cancel(struct vb_ep *e, struct leat_op *op);
/* Take back all receives that can be taken back, in a time that grows with their number only. */
void vb_rx_cancel_all(struct vb_ep *e);
/* Continue taking receives back. */
void vb_rx_step(struct vb_ep *e);
/*
 * Post to the empty SRQ the waiting receives that are newer than all receives still in use for
 * messages.
 */
void vb_rx_refill(struct vb_ep *e);
/* Finish all receives with this status; the SRQ is destroyed already. */
void vb_rx_drop(struct vb_ep *e, int status);
/* Deliver a message, at data, with completion wc, to the oldest receive outside of an SRQ. */
void vb_rx_give(struct vb_ep *e, const struct ibv_wc *wc, const void *data);

/* Without an SRQ: set up receive buffers. @return 0; negative errno with leat_err() */
int vb_rxqs_open(struct vb_ep *e);
void vb_rxqs_close(struct vb_ep *e);
/* Provide the buffers of a queue pair to be created. @return 0; negative errno with leat_err() */
int vb_rxq_open(struct vb_ep *e, struct vb_conn *c);
/* Post a queue pair's buffers, before it can receive. @return 0; negative errno with leat_err() */
int vb_rxq_start(struct vb_ep *e, struct vb_conn *c);
/* Release the buffers of a queue pair that is destroyed, and drop the messages in them. */
void vb_rxq_close(struct vb_ep *e, struct vb_conn *c);
void vb_rxq_done(struct vb_ep *e, const struct ibv_wc *wc);
/* Deliver the messages that have arrived to receives that were just posted. */
void vb_rxq_match(struct vb_ep *e);

/* Create the loop, if there is none. @return 0; -EOPNOTSUPP: the device can't connect to itself */
int vb_loop_open(struct vb_ep *e);
void vb_loop_close(struct vb_ep *e);
/* Send n empty messages (or as many as fit), each of which takes one receive out of the SRQ. */
void vb_loop_send(struct vb_ep *e, uint32_t n);
/* Handle the completion of a message that the loop sent. */
void vb_loop_done(struct vb_ep *e, const struct ibv_wc *wc);
void vb_loop_progress(struct vb_ep *e, uint64_t now);

#endif /* VERBS_RC_H */
