/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MSG_CALLS_H
#define MSG_CALLS_H

/*
 * Functions that one file of lib/msg defines and others call. msg_pvt.h, which has the types,
 * includes this file.
 */

/* conf.c */
/*
 * Check a configuration against the context's endpoint, and copy it to the context with its
 * defaults filled in. @return 0, or a negative errno with leat_err()
 */
int msg_conf_take(struct leat_msg *m, const struct leat_msg_conf *conf);

/* telemetry.c */
void msg_telemetry_add(struct leat_msg *m);

/* tune.c */
/* Register the settings, before buffers are allocated. @return 0, or negative with leat_err() */
int msg_tune_add(struct leat_msg *m);
/* telemetry.c */
void msg_telemetry_del(struct leat_msg *m);
void msg_telemetry_answer(struct leat_msg *m) __rte_cold;

/* stats.c */
/* Add a connection's counters to a sum, for example that of its context. */
void msg_stats_add(struct leat_msg_stats *sum, const struct leat_msg_conn *c);

/* conn.c */
void msg_conn_free(struct leat_msg_conn *c);
void msg_conn_up(struct leat_msg_conn *c, const struct leat_event *ev);
/*
 * Choose the number of the process's first connection at random; later calls do nothing. @return 0,
 * or a negative errno with leat_err()
 */
int msg_numbers_start(void);

/* msg.c */
/* Prepare a posted request that has flags. */
void msg_take_flags(struct leat_msg_req *req);
/* Queue sends, and post as many as possible. @return as leat_msg_send() */
uint16_t msg_tx_queue(struct leat_msg_conn *c, struct leat_msg_req **reqs, uint16_t n);
/*
 * Run the connections that have work. A connection that can't finish its work is queued for the
 * next call.
 */
void msg_run(struct leat_msg *m);

/* tx.c */
/* Begin and post sends as far as credit, slots and the endpoint allow. */
void msg_tx_run(struct leat_msg_conn *c);
void msg_tx_complete(struct leat_msg_conn *c, struct msg_slot *s, const struct leat_op *op);
/* Finish the sends that are done, in the order of posting. */
void msg_tx_finish(struct leat_msg_conn *c);
/* Finish the requests of a slot that was sent, without waiting for earlier slots. */
void msg_tx_finish_early(struct leat_msg_conn *c, struct msg_slot *s);
/* Use credit and grants that arrived. @return false: they are impossible; the connection ended */
bool msg_tx_credit(struct leat_msg_conn *c, uint32_t credit, uint32_t granted);

/*
 * Are credit and grants possible? If there is credit beyond LEAT_MSG_CREDITS_MAX, or a grant for a
 * message that was not sent, one of the differences is negative.
 */
static __rte_always_inline bool
msg_tx_credit_right(const struct leat_msg_conn *c, uint32_t credit, uint32_t granted)
{
	return (int32_t)((c->tx_next + LEAT_MSG_CREDITS_MAX - credit) | (c->tx_next - granted)) >=
	       0;
}

/* Handle an op that the endpoint refused, because it has no room or is shut down. */
void msg_post_refused(struct leat_msg_conn *c);

/* Begin a small send without a request, with len in its head. @return NULL: it can't begin now */
struct msg_slot *msg_tx_begin_eager(struct leat_msg_conn *c, uint64_t len);

/* gather.c */
/* Set the size of a posted request whose message is in pieces. */
void msg_gather_take(struct leat_msg_req *req);
void msg_gather_copy(const struct leat_msg_req *req, uint64_t off, uint8_t *dst, uint64_t n);
/*
 * Begin as many fragments as possible of req, the next send, a large message in pieces. If the
 * previous message was given up half-sent, first send the fragment that says so; if req is NULL, do
 * only that. @return false: some fragments have to wait
 */
bool msg_tx_fragments(struct leat_msg_conn *c, struct leat_msg_req *req);
/*
 * Give up a send of which some fragments have begun, but not all. @return false: req is no such
 * send
 */
bool msg_tx_fragments_expire(struct leat_msg_conn *c, struct leat_msg_req *req);
/* Process the next fragment, in slot s. @return false: it has to wait, or the connection ended */
bool msg_fragment_bind(struct leat_msg_conn *c, struct msg_slot *s);
bool msg_fragment_expire(struct leat_msg_conn *c, struct leat_msg_req *req);

/* answer.c */
/* Set the flag in the head in slot s that asks the peer to answer when it has the message. */
void msg_answer_ask(struct leat_msg_req *req, struct msg_slot *s);
/*
 * Does a request that was sent have to wait for its answer? If the peer has dropped its message,
 * this call finishes the request with the reason, and returns true as well.
 */
bool msg_answer_waits(const struct leat_msg_conn *c, struct leat_msg_req *req);
/*
 * Note that the peer has received all ids below id. @return false: id is impossible; the
 * connection ended
 */
bool msg_answered(struct leat_msg_conn *c, uint32_t id);
/* Finish a request whose message the peer has dropped. */
void msg_answer_lost(struct leat_msg_conn *c, uint32_t id, uint8_t reason);

/* reject.c */
/*
 * Handle an event of a peer without a connection. @return false: the peer was not rejected with a
 * reason
 */
bool msg_reject_event(struct leat_msg *m, const struct leat_event *ev);
/* End a connection that the peer has rejected in its hello. */
void msg_rejected(struct leat_msg_conn *c, const struct msg_hello *h, const uint8_t *why);

/* shutdown.c */
/* Queue MSG_CTRL_END, if all sends have begun. */
void msg_end_run(struct leat_msg_conn *c);
/* Process the peer's MSG_CTRL_END. @return false: it is impossible; the connection ended */
bool msg_end_arrived(struct leat_msg_conn *c, uint32_t id);
/* End a connection whose peer sent message id after saying that all its ids are below end. */
void msg_end_passed(struct leat_msg_conn *c, uint32_t id, uint32_t end);
/* After the peer's MSG_CTRL_END: end the waiting receives, if all messages were received. */
void msg_ended_run(struct leat_msg_conn *c);

/* ctrl.c */
/* Send the next control message that is due; if none is, one with credit that is not sent yet. */
void msg_ctrl_run(struct leat_msg_conn *c);
/* Post the first control receives. */
void msg_ctrl_start(struct leat_msg_conn *c);
/* Post the control receives that the endpoint had no room for. */
void msg_ctrl_recv(struct leat_msg_conn *c);
void msg_ctrl_complete(struct leat_msg_conn *c, struct msg_slot *s, const struct leat_op *op);

/* timeout.c */
void msg_timeouts_init(struct leat_msg *m);
/* Fire the timers that are due. */
void msg_timeouts(struct leat_msg *m);
/* Start the deadline of a posted request. */
void msg_deadline_start(struct leat_msg_req *req);
/* Restart the timer of a request whose deadline passed, and which can't be ended yet. */
void msg_deadline_again(struct leat_msg_conn *c, struct leat_msg_req *req);
/*
 * Give up a request that has begun, on an open connection. The request is done at once, or when the
 * device has given back its payload; or it can't be ended yet, and goes on; or the connection ends.
 */
void msg_expire_begun(struct leat_msg_req *req);
/* Start to watch whether the peer of an opened connection is alive. */
void msg_alive_start(struct leat_msg_conn *c);
/* Leat mode: has anything come from the peer yet? */
bool msg_heard(const struct leat_msg_conn *c);

/* abandon.c */
/*
 * Give up a request whose task no longer waits for it. It is given back once its buffer is free,
 * even before requests posted earlier. @return 0; -ENOENT: it is not posted, or is done;
 * -EOPNOTSUPP: it is one of leat_msg_send_many(), or a part of one
 */
int msg_req_abandon(struct leat_msg_req *req);
void msg_abandoned_run(struct leat_msg_conn *c);
/* Set the status of an abandoned request that has come back. */
void msg_abandoned_back(struct leat_msg_req *req);

/* drop.c */
/* Complete the receive of a payload whose request was given up, or whose message is dropped. */
void msg_drop_arrived(struct leat_msg_conn *c, struct msg_slot *s, const struct leat_op *op);
/* Drop the message of a slot whose payload receive is not posted, and finish its request. */
void msg_drop(struct leat_msg_conn *c, struct msg_slot *s, enum msg_reason reason);
/* Drop a small message that asked for an answer, and queue a report of the reason. */
void msg_drop_asked(struct leat_msg_conn *c, struct msg_slot *s, uint8_t reason);
/* Drop a message whose early receive is posted, and is too small. */
void msg_drop_early(struct leat_msg_conn *c, struct msg_slot *s);
/* Drop a message whose sender gave it up, and sent an empty payload instead of the real one. */
void msg_drop_given_up(struct leat_msg_conn *c, struct msg_slot *s);
/* Post the receives of dropped messages, and queue reports to their senders. */
void msg_drop_run(struct leat_msg_conn *c);
/* State MSG_OVER: finish the dropped messages, since no more payloads come. */
void msg_drop_over(struct leat_msg_conn *c);
/* Fill ctrl with the oldest drop that is not reported to the peer. @return false: there is none */
bool msg_drop_report(const struct leat_msg_conn *c, struct msg_ctrl *ctrl);
/* Note that the drop of message id was reported to the peer. */
void msg_drop_reported(struct leat_msg_conn *c, uint32_t id);
/*
 * Handle the peer's report that it dropped a message. @return false: the report is impossible; the
 * connection ended
 */
bool msg_tx_drop(struct leat_msg_conn *c, uint32_t id, uint8_t reason);
/* Finish a send whose payload is not posted; an empty payload will be sent instead. */
void msg_tx_give_up(struct leat_msg_conn *c, struct msg_slot *s, int status);
/*
 * Handle a failed op of a send if it failed because it was recalled. @return false: it failed for
 * another reason, or the connection is not open
 */
bool msg_tx_taken_back(struct leat_msg_conn *c, struct msg_slot *s, const struct leat_op *op);
/*
 * Does the status of a failed send say that the peer's receive was too short? Such a failure does
 * not end the connection.
 */
bool msg_recv_was_short(const struct leat_msg_conn *c, int status);
/* Return the status of a request whose message was dropped for that reason. */
int msg_reason_status(uint8_t reason);

/* early.c */
/* Post the payload receive of the next message before its length comes, if a request waits. */
void msg_early_post(struct leat_msg_conn *c);
/* Process the length of a message whose slot has MSG_EARLY: its payload receive was posted. */
void msg_early_length(struct leat_msg_conn *c, struct msg_slot *s, uint64_t len);
/*
 * Complete the payload's receive of a message whose slot has MSG_EARLY: the length has not come, or
 * waits for the recall of this receive.
 */
void msg_early_complete(struct leat_msg_conn *c, struct msg_slot *s, const struct leat_op *op);
/* Cancel a request whose early receive is posted. @return as leat_msg_cancel() */
int msg_early_cancel(struct leat_msg_conn *c, const struct leat_msg_req *req);

/* arrive.c */
/* Record in slot s that message id, of len bytes, arrived. It waits there for a request. */
void msg_arrived(struct leat_msg_conn *c, struct msg_slot *s, uint32_t id, uint64_t len);
/* Complete the receive of a payload; the length of its message is known. */
void msg_payload_arrived(struct leat_msg_conn *c, struct msg_slot *s, const struct leat_op *op);

/* rx.c */
/* Prepare the receive of a payload of size bytes, into the buffer of the slot's request. */
void msg_data_recv(struct leat_msg_conn *c, struct msg_slot *s, uint64_t size);
/* Does a message fit its request, or the buffer that the request would get? */
bool msg_fits(const struct leat_msg_conn *c, const struct leat_msg_req *req, uint64_t len);
/* Finish a request that has its message. It is given back once all requests before it were. */
void msg_received(struct leat_msg_conn *c, struct leat_msg_req *req, uint64_t len);
/*
 * Take the next request for a message of len bytes, and get a buffer for it. *fits becomes false if
 * the message does not fit. @return NULL: no request, or no buffer, is available now
 */
struct leat_msg_req *msg_request_take(struct leat_msg_conn *c, uint64_t len, bool *fits);
/* Post the first receives. */
void msg_rx_start(struct leat_msg_conn *c);
void msg_rx_run(struct leat_msg_conn *c);
/* Do the work that msg_later() put off, on an open connection. */
void msg_rx_later(struct leat_msg_conn *c);
/*
 * State MSG_OVER: give receives the messages that have arrived whole, and end the other receives
 * with status. The oldest receive may first wait for a buffer, up to LEAT_MSG_NOBUFS_US.
 */
void msg_rx_over(struct leat_msg_conn *c, int status);

/* end.c */
/* End a connection because of a failure on it. */
void msg_fail(struct leat_msg_conn *c, int status, const char *fmt, ...)
	__rte_format_printf(3, 4) __rte_cold;
/* Handle an op that came back with an error. */
void msg_op_failed(struct leat_msg_conn *c, const struct leat_op *op) __rte_cold;
/* Handle the last event of the peer, which has closed, failed, or never came up. */
void msg_peer_closed(struct leat_msg_conn *c, int status, const char *text);
/* State MSG_ENDING: change to MSG_OVER once the device has no ops and the peer has ended. */
void msg_ending(struct leat_msg_conn *c);
/* State MSG_OVER: end the sends; give receives the messages that have arrived, then end them. */
void msg_over(struct leat_msg_conn *c);
/* Do the work of leat_msg_events() that concerns the context, before events are taken. */
void msg_events_begin(struct leat_msg *m);
/*
 * Write up to n events of a connection that is not MSG_FREE to ev. LEAT_MSG_CLOSED frees the
 * connection. @return their number
 */
uint16_t msg_conn_events(struct leat_msg_conn *c, struct leat_msg_event *ev, uint16_t n);
/* End the drain of a closing connection, if all messages are sent or its time is up. */
void msg_drain(struct leat_msg_conn *c);

#endif /* MSG_CALLS_H */
