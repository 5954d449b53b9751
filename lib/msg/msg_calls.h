/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MSG_CALLS_H
#define MSG_CALLS_H

/* What the files of lib/msg call of one another. Included by msg_pvt.h, which has the types. */

/* conf.c */
/*
 * Takes a configuration, completed and checked against the context's endpoint. @return 0, or a
 * negative errno with leat_err()
 */
int msg_conf_take(struct leat_msg *m, const struct leat_msg_conf *conf);

/* telemetry.c */
void msg_telemetry_add(struct leat_msg *m);

/* tune.c: before there are buffers. @return 0, or negative with leat_err() */
int msg_tune_add(struct leat_msg *m);
void msg_telemetry_del(struct leat_msg *m);
void msg_telemetry_answer(struct leat_msg *m) __rte_cold;

/* stats.c */
/* What a connection has counted goes to its context, which outlives it. */
void msg_stats_add(struct leat_msg_stats *sum, const struct leat_msg_conn *c);

/* conn.c */
void msg_conn_free(struct leat_msg_conn *c);
void msg_conn_up(struct leat_msg_conn *c, const struct leat_event *ev);
/*
 * Chooses where the numbers of connections start, once per process. 0, or a negative errno with
 * leat_err()
 */
int msg_numbers_start(void);

/* msg.c */
/* A request is posted that has flags. */
void msg_take_flags(struct leat_msg_req *req);
/* Posts requests that can't go at once, or not alone. @return as leat_msg_send() */
uint16_t msg_tx_queue(struct leat_msg_conn *c, struct leat_msg_req **reqs, uint16_t n);
/* Runs the connections that have work. One that can't go on is queued again, for the next call. */
void msg_run(struct leat_msg *m);

/* tx.c */
/* Begins and posts what it can. */
void msg_tx_run(struct leat_msg_conn *c);
void msg_tx_complete(struct leat_msg_conn *c, struct msg_slot *s, const struct leat_op *op);
/* Finishes what is sent. */
void msg_tx_finish(struct leat_msg_conn *c);
/* One that is sent, and has to wait for its turn. */
void msg_tx_finish_early(struct leat_msg_conn *c, struct msg_slot *s);
/* Credits and grants that arrived. @return false: they can't be right; the connection was ended */
bool msg_tx_credit(struct leat_msg_conn *c, uint32_t credit, uint32_t granted);

/*
 * Can they be? Credit for more than there are, or a grant of what was not sent, has the sign of one
 * of these.
 */
static __rte_always_inline bool
msg_tx_credit_right(const struct leat_msg_conn *c, uint32_t credit, uint32_t granted)
{
	return (int32_t)((c->tx_next + LEAT_MSG_CREDITS_MAX - credit) | (c->tx_next - granted)) >=
	       0;
}

/* An op was not taken: for want of room, or since the endpoint is shut down. */
void msg_post_refused(struct leat_msg_conn *c);

/* Begins a small send without a request; its head has that length. @return NULL: not now */
struct msg_slot *msg_tx_begin_eager(struct leat_msg_conn *c, uint64_t len);

/* gather.c */
/* A request is posted, and its message is in pieces: its size. */
void msg_gather_take(struct leat_msg_req *req);
void msg_gather_copy(const struct leat_msg_req *req, uint64_t off, uint8_t *dst, uint64_t n);
/*
 * Begins what it can of a large message in pieces, the next request; NULL: only what is left of one
 * that was given up. @return false: some has to wait
 */
bool msg_tx_fragments(struct leat_msg_conn *c, struct leat_msg_req *req);
/* Its deadline passed. @return false: it is not in the middle */
bool msg_tx_fragments_expire(struct leat_msg_conn *c, struct leat_msg_req *req);
/* A fragment is the next message. @return false: it has to wait, or the connection ends */
bool msg_fragment_bind(struct leat_msg_conn *c, struct msg_slot *s);
bool msg_fragment_expire(struct leat_msg_conn *c, struct leat_msg_req *req);

/* answer.c */
/* The head in the slot asks for an answer. */
void msg_answer_ask(struct leat_msg_req *req, struct msg_slot *s);
/* It is sent. Is the answer still to come? */
bool msg_answer_waits(const struct leat_msg_conn *c, struct leat_msg_req *req);
/* Messages before id were received. @return false: that can't be; the connection was ended */
bool msg_answered(struct leat_msg_conn *c, uint32_t id);
/* One was dropped over there. */
void msg_answer_lost(struct leat_msg_conn *c, uint32_t id, uint8_t reason);

/* reject.c */
/* @return true: it is about a peer that was rejected */
bool msg_reject_event(struct leat_msg *m, const struct leat_event *ev);
/* The other side says no. */
void msg_rejected(struct leat_msg_conn *c, const struct msg_hello *h, const uint8_t *why);

/* shutdown.c */
/* Tells the other side, when all sends have begun. */
void msg_end_run(struct leat_msg_conn *c);
/* The other side tells. @return false: that can't be; the connection was ended */
bool msg_end_arrived(struct leat_msg_conn *c, uint32_t id);
/* Message id came, and there was none to come from end on. */
void msg_end_passed(struct leat_msg_conn *c, uint32_t id, uint32_t end);
/* Nothing more will come: ends receives, if all is received. */
void msg_ended_run(struct leat_msg_conn *c);

/* ctrl.c */
/* Tells the other side what is due, and of credits and grants if no message did. */
void msg_ctrl_run(struct leat_msg_conn *c);
/* Posts the first receives. */
void msg_ctrl_start(struct leat_msg_conn *c);
/* Posts the receives that the endpoint had no room for. */
void msg_ctrl_recv(struct leat_msg_conn *c);
void msg_ctrl_complete(struct leat_msg_conn *c, struct msg_slot *s, const struct leat_op *op);

/* timeout.c */
void msg_timeouts_init(struct leat_msg *m);
/* Fires what is due. */
void msg_timeouts(struct leat_msg *m);
/* A request is posted that has a deadline. */
void msg_deadline_start(struct leat_msg_req *req);
/* It passed, and the request can't be ended yet. */
void msg_deadline_again(struct leat_msg_conn *c, struct leat_msg_req *req);
/*
 * A request that has begun, on an open connection, is given up. It is done then, or when the device
 * has given back its payload; or it can't be ended yet; or the connection ends.
 */
void msg_expire_begun(struct leat_msg_req *req);
/* It is open. */
void msg_alive_start(struct leat_msg_conn *c);
/* Leat mode: has anything come from the peer? */
bool msg_heard(const struct leat_msg_conn *c);

/* abandon.c */
/* Its task gives it up: it comes back as soon as its buffer is free, whatever is before it. */
int msg_req_abandon(struct leat_msg_req *req);
void msg_abandoned_run(struct leat_msg_conn *c);
/* Such a request has come back. */
void msg_abandoned_back(struct leat_msg_req *req);

/* drop.c */
/* The receive of a payload came back; its request is late, or its message is dropped. */
void msg_drop_arrived(struct leat_msg_conn *c, struct msg_slot *s, const struct leat_op *op);
/* Drops the message of a slot; its payload's receive is not posted. The request is given back. */
void msg_drop(struct leat_msg_conn *c, struct msg_slot *s, enum msg_reason reason);
/* One that was small, with an answer to be sent: the other side is told that it was dropped. */
void msg_drop_asked(struct leat_msg_conn *c, struct msg_slot *s, uint8_t reason);
/* Likewise while its early receive is posted, which is too small. */
void msg_drop_early(struct leat_msg_conn *c, struct msg_slot *s);
/* The other side sent an empty payload: it has given up. */
void msg_drop_given_up(struct leat_msg_conn *c, struct msg_slot *s);
/* Goes on with those that are dropped. */
void msg_drop_run(struct leat_msg_conn *c);
/* Over: what was dropped does not come any more. */
void msg_drop_over(struct leat_msg_conn *c);
/* Fills in the oldest that the other side does not know of, if there is one; and it knows now. */
bool msg_drop_tell(const struct leat_msg_conn *c, struct msg_ctrl *ctrl);
void msg_drop_told(struct leat_msg_conn *c, uint32_t id);
/*
 * A message that is sent, and not wanted over there. @return false: it can't be; the connection was
 * ended
 */
bool msg_tx_drop(struct leat_msg_conn *c, uint32_t id, uint8_t reason);
/* Its payload, which is not posted, will be empty; its request is done, with that status. */
void msg_tx_give_up(struct leat_msg_conn *c, struct msg_slot *s, int status);
/* A payload came back that was asked back. @return false: it was not, or is sent, or failed */
bool msg_tx_taken_back(struct leat_msg_conn *c, struct msg_slot *s, const struct leat_op *op);
/* Was a payload longer than its receive, and the connection goes on? */
bool msg_not_taken(const struct leat_msg_conn *c, int status);
/* The status of a request with that reason. */
int msg_reason_status(uint8_t reason);

/* early.c */
/* The payload's receive of the next message, if nothing of it has come, and a request waits. */
void msg_early_post(struct leat_msg_conn *c);
/* The length of a message that is MSG_EARLY. */
void msg_early_length(struct leat_msg_conn *c, struct msg_slot *s, uint64_t len);
/* Its data came back before that. */
void msg_early_complete(struct leat_msg_conn *c, struct msg_slot *s, const struct leat_op *op);
/* @return as leat_msg_cancel() */
int msg_early_cancel(struct leat_msg_conn *c, const struct leat_msg_req *req);

/* arrive.c */
/* Notes a message in its slot, until it gets a request. */
void msg_arrived(struct leat_msg_conn *c, struct msg_slot *s, uint32_t id, uint64_t len);
/* A payload came; its length is known. */
void msg_payload_arrived(struct leat_msg_conn *c, struct msg_slot *s, const struct leat_op *op);

/* rx.c */
/* A payload's receive of that size, for the slot's request. */
void msg_data_recv(struct leat_msg_conn *c, struct msg_slot *s, uint64_t size);
/* Does a message fit its request, or the buffer that this would get? */
bool msg_fits(const struct leat_msg_conn *c, const struct leat_msg_req *req, uint64_t len);
/* A request has its message. It goes back when those before it do. */
void msg_received(struct leat_msg_conn *c, struct leat_msg_req *req, uint64_t len);
/*
 * Takes the next request for a message, with a buffer. fits: false if the message does not fit.
 * @return NULL: there is none now
 */
struct leat_msg_req *msg_request_take(struct leat_msg_conn *c, uint64_t len, bool *fits);
/* Posts the first receives. */
void msg_rx_start(struct leat_msg_conn *c);
void msg_rx_run(struct leat_msg_conn *c);
/* Open: what msg_later() was called for. */
void msg_rx_later(struct leat_msg_conn *c);
/*
 * Over: receives get what has arrived whole, and those behind that status. One may wait for a
 * buffer, until its deadline.
 */
void msg_rx_over(struct leat_msg_conn *c, int status);

/* end.c */
/* Ends a connection because of what happened on it. */
void msg_fail(struct leat_msg_conn *c, int status, const char *fmt, ...)
	__rte_format_printf(3, 4) __rte_cold;
/* An op came back with an error. */
void msg_op_failed(struct leat_msg_conn *c, const struct leat_op *op) __rte_cold;
/* The peer closed, or never came up. */
void msg_peer_closed(struct leat_msg_conn *c, int status, const char *text);
/* ENDING: over as soon as nothing is with the device. */
void msg_ending(struct leat_msg_conn *c);
/* OVER: sends get the status, and receives what arrived before, then the status. */
void msg_over(struct leat_msg_conn *c);
/* Goes on with draining. */
void msg_drain(struct leat_msg_conn *c);

#endif /* MSG_CALLS_H */
