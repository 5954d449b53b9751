/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPC_PVT_H
#define RPC_PVT_H

/*
 * Structures and functions that the files of lib/rpc share.
 *
 *     rpc.c       contexts: memory, process, poll
 *     session.c   sessions begin: connect, accept, up, refusal
 *     end.c       sessions end: failure, drain, close, events
 *     rpc_reconnect.h sessions that connect again: reconnect.c
 *     rpc_credit.h credits for packets, in both directions
 *     packet.c    packets to send: filled, posted; receives: posted again
 *     arrive.c    packets received
 *     request.c   the caller's side: post, begin, response, cancel
 *     handler.c   the handler's side: requests and their answers
 *     ticket.c    requests that handlers answer later
 *     large.c     messages of several packets, in pieces
 *     deadline.c  deadlines of requests, timers of sessions
 *     rpc_dgram.h packets of datagram endpoints: dgram.c, dgram_time.c
 *     wire.c      the wire format
 *     fast.c      the fast path of small requests and responses
 *     reactor.c   a context in a reactor; open.c: with its endpoint
 *     call.c      calls of tasks
 *     batch.c     batches of calls
 *     bulk.c      memory that handlers pull from and push to; by messages: bulk_msg.c
 *     telemetry.c telemetry commands
 *
 *     request  --post--> pending --begin--> slot, in a packet ----SEND----> arrive -> handler
 *                                            |                                           |
 *     done <--poll-- given back <- response <+-- arrive <----SEND---- packet <- answer <-+
 *
 * A session that has something to send is in rpc->work. At the end of process, poll and post,
 * rpc_run() goes through that list, fills packets, and posts them in one burst.
 */

#include <assert.h>
#include <errno.h>
#include <string.h>

#include <leat_ask.h>
#include <leat_ep.h>
#include <leat_ep_pvt.h>
#include <leat_error.h>
#include <leat_log.h>
#include <leat_time.h>
#include <leat_tune.h>
#include <leat_wheel.h>

#include "leat_rpc.h"
#include "leat_rpc_task.h"
#include "rpc_tune.h"
#include "rpc_wire.h"

static_assert(RPC_HELLO_LEN == LEAT_RPC_HELLO_LEN, "as the header says");

#define RPC_BURST 64

/* leat_rpc_req.state */
enum rpc_req_state {
	RPC_REQ_IDLE = 0,
	RPC_REQ_QUEUED,
	RPC_REQ_STARTED,
	RPC_REQ_DONE,
};

/* leat_rpc_req.flags: a request of the library to the library of the other side. */
#define RPC_REQ_INTERNAL 0x80

/*
 * leat_rpc_req.held. RPC_HELD: the other side has the key of the request's memory. RPC_HELD_ENDING:
 * the other side has the key although the request has ended; the request is given back when the
 * other side has released the memory, or the connection no longer exists.
 */
#define RPC_HELD 1
#define RPC_HELD_ENDING 2

/* ---- messages of several packets ---- */

/* Memory for one message, leat_rpc_conf.max_msg bytes. */
struct rpc_large {
	struct rpc_large *next;
	uint8_t *buf;
	uint64_t *map; /* datagrams: a bit for each piece that has arrived */
};

/* A request or response sent in pieces, in turn with other long messages of its session. */
struct rpc_out {
	struct rpc_out *next;
	const uint8_t *data;
	uint32_t size, sent;
	uint16_t slot;
	bool queued;
	bool response;
};

/* ---- slots ---- */

/*
 * Each slot is split over two arrays: the fields that small requests need are packed, 32 bytes for
 * a slot of this side and 8 for one of the other side; the rest is in rpc_tx_more and rpc_rx_more.
 */

enum rpc_tx_state {
	RPC_TX_FREE = 0,
	RPC_TX_WAIT,   /* the request waits for the response */
	RPC_TX_ORPHAN, /* the request was given back; the response is still to come */
};

/* A slot of this side: a request under way. */
struct rpc_tx_slot {
	struct leat_rpc_req *req; /* valid in state RPC_TX_WAIT */
	/* deadline of a waiting request without a timer in the wheel, cycles; else UINT64_MAX */
	uint64_t deadline;
	uint32_t num;
	union {
		struct {
			uint8_t state;
			bool slow; /* its packets take the slow path */
		};
		/* state and slow, for one load; equals RPC_TX_WAIT if state is RPC_TX_WAIT and slow
		 * is false */
		uint16_t state_slow;
	};
	uint16_t next_free;
	uint32_t got;	    /* bytes of the response that have arrived */
	uint32_t resp_size; /* bytes of the whole response */
};
static_assert(sizeof(struct rpc_tx_slot) == 32, "two in a line");

struct rpc_tx_more {
	struct rpc_out out;
	uint16_t next_cancel;
	bool cancel; /* in the session's cancel list: a CANCEL is to be sent */
};

enum rpc_rx_state {
	RPC_RX_IDLE = 0,
	RPC_RX_ASSEMBLING, /* pieces of the request are arriving */
	RPC_RX_DROPPING,   /* answered already; more pieces of the request may arrive */
	RPC_RX_DEFERRED,   /* the handler took a ticket */
	RPC_RX_ANSWER,	   /* in the session's answer list */
	RPC_RX_SENDING,	   /* pieces of the response are being sent */
};

struct rpc_ticket;

/* A slot of the other side: a request that the other side has sent. */
struct rpc_rx_slot {
	uint32_t num;
	uint16_t next_answer;
	uint8_t state, type;
};
static_assert(sizeof(struct rpc_rx_slot) == 8, "eight in a line");

/* The word in capitals before a colon is the state RPC_RX_* in which the field is valid. */
struct rpc_rx_more {
	struct rpc_out out;
	struct rpc_large *large;   /* ASSEMBLING: the request; SENDING: the response */
	struct rpc_ticket *ticket; /* DEFERRED: the request; ANSWER: the response, or NULL */
	uint64_t deadline;
	uint32_t got, size; /* ASSEMBLING, DROPPING: bytes arrived, bytes of the request */
	uint32_t busy_us;
	uint16_t status; /* ANSWER: errno */
	uint16_t flags;	 /* ANSWER: RPC_F_REFUSED; ASSEMBLING: RPC_F_ONEWAY */
	bool rest;	 /* ANSWER: more pieces of the request may arrive */
};

#define RPC_NONE UINT16_MAX

/* A deferred request, and the answer to it until the answer is copied to a packet. */
struct rpc_ticket {
	struct leat_rpc_incoming call;
	struct leat_rpc *rpc;
	struct leat_rpc_session *s; /* NULL: the session has ended */
	struct rpc_ticket *next, *prev;
	struct rpc_large *req_large, *resp_large;
	uint8_t *req_buf, *resp_buf;
	uint64_t since;
	struct rpc_transfer *transfers;
	int status;    /* argument of leat_rpc_answer(), if called while transfers were under way */
	uint16_t slot; /* RPC_NO_SLOT: a one-way request */
	bool answered, answer_deferred;
};

/* ---- packets ---- */

struct rpc_packet {
	struct leat_op op; /* op.buf: the packet; op.size is set when the packet is closed */
	struct rpc_packet *next;
	struct leat_rpc_session *s;
	/* datagrams */
	uint64_t sent;
	uint32_t seq;
	bool kept;   /* kept until it is acknowledged */
	bool busy;   /* the packet is with the device, or waits to be posted */
	bool resent; /* sent more than once */
} __attribute__((aligned(LEAT_CACHE_LINE)));

struct rpc_recv {
	struct leat_op op;
	struct rpc_recv *next; /* next in the list of refused receives, or of early packets */
	/* sender of the last packet: gets a credit when the receive is posted */
	struct leat_rpc_session *s;
	uint64_t token; /* token of s when the packet arrived */
} __attribute__((aligned(LEAT_CACHE_LINE)));

/* ---- sessions ---- */

enum rpc_session_state {
	RPC_FREE = 0,
	RPC_CONNECTING, /* connect or accept was called */
	RPC_OPEN,
	RPC_ENDING, /* waits until the device returns its packets, and for the peer's last event */
	RPC_DOWN,   /* no connection: waits until the next attempt is due */
	RPC_OVER,
};

struct rpc_req_list {
	struct leat_rpc_req *head, *tail;
};

/* A timer of a session, in rpc->timers. */
struct rpc_timer {
	struct leat_wheel_node node;
	void (*due)(struct rpc_timer *timer, uint64_t now);
};

struct leat_rpc_session {
	/* fields used for each item of a packet */
	struct leat_rpc *rpc;
	struct rpc_packet *open; /* packet being filled; NULL: none */
	uint8_t *at, *end;	 /* free bytes of the open packet; both NULL without one */
	struct rpc_tx_slot *tx;
	struct rpc_rx_slot *rx;
	uint16_t nb_slots; /* slots in each direction; slots of internal requests follow these */
	uint16_t free_slot, free_internal;
	uint32_t small_max; /* longest message that fits a packet */
	uint32_t small_out; /* the smaller of small_max and peer_max_msg */

	/* fields used for each packet */
	struct rpc_req_list pending;
	uint64_t token; /* token in packets to this side */
	uint16_t epoch; /* epoch in packets to this side */
	uint16_t peer;	/* peer id of the endpoint */
	uint8_t state;
	bool fast;		 /* the session is OPEN, and not closing: see rpc_fast.h */
	uint32_t nb_reqs;	 /* requests that are pending or in slots */
	uint32_t packet;	 /* bytes of a packet to the other side */
	uint32_t default_us;	 /* default deadline, us; 0: none, or too long for the wire */
	uint64_t default_cycles; /* default deadline; UINT64_MAX: none */
	uint64_t expires;	 /* no deadline in tx is earlier, cycles; UINT64_MAX: none */
	bool in_work, closing, drained;
	struct rpc_req_list internal; /* pending internal requests */

	/* rpc_credit.h: packets, counted modulo 2^32 */
	uint32_t tx_sent, tx_credit;
	uint32_t rx_got, rx_granted, rx_told;
	uint32_t peer_credits; /* maximum credits that the other side may grant ahead of tx_sent */
	uint32_t queued;       /* packets waiting for credit, the open one included */
	struct rpc_dgram *dg;  /* dgram.c: datagrams; NULL: the endpoint is reliable */

	/* packet.c */
	uint64_t peer_token; /* token in packets to the other side */
	uint16_t peer_epoch; /* epoch in packets to the other side */
	struct rpc_packet *ready, *ready_tail;
	/* packets that the session has taken: open, ready, kept, or with the device */
	uint32_t held;

	/* handler.c */
	uint32_t nb_handling; /* requests of the other side: in slots, or one-way with a ticket */
	uint16_t answer_head, answer_tail, cancel_head, cancel_tail;

	/* large.c */
	struct rpc_out *out, *out_tail;
	uint32_t peer_max_msg;
	uint32_t features;
	bool out_turn; /* true: a piece is sent next; false: small requests */

	/* rarely used */
	struct leat_rpc_session *next_work, *next_event, *next_free;
	struct rpc_tx_more *tx_more;
	struct rpc_rx_more *rx_more;
	struct rpc_recv *early, *early_tail; /* packets that arrived before LEAT_EV_CONNECTED */
	struct rpc_timer expiry;	     /* timer for deadlines of requests in tx */
	struct rpc_timer close;
	uint32_t peer_first;
	uint16_t peer_slots;
	uint16_t nb_connections; /* connections that this table entry has had */
	uint8_t pending_events;
	bool in_events, accepted, peer_closed, status_final;
	bool time_up;			 /* the time of leat_rpc_close() has passed */
	bool will_reconnect;		 /* ENDING, DOWN: there will be another connection */
	struct rpc_reconnect *reconnect; /* NULL: the session never connects again */
	void *user;
	int status;
	char text[LEAT_EVENT_TEXT];
} __attribute__((aligned(LEAT_CACHE_LINE)));
static_assert(offsetof(struct leat_rpc_session, pending) == LEAT_CACHE_LINE, "line 0 is one");

struct rpc_peer {
	struct leat_rpc_session *s;
	uint64_t refused_until; /* cycles; 0: not refused */
	bool queued;		/* the peer is in the list of refused connections */
	uint16_t next;
};

struct rpc_handler {
	leat_rpc_handler_fn fn;
	void *arg;
	uint32_t resp_max;
};

/* A request while its handler is called. */
struct rpc_handling {
	struct leat_rpc_incoming call;
	struct leat_rpc_session *s;
	uint16_t slot;
	struct rpc_large *req_large, *resp_large;
	struct rpc_ticket *ticket;
};

struct leat_rpc {
	struct leat_ep *ep;
	struct leat_rpc_session *work, *work_tail;
	struct rpc_req_list done;
	uintptr_t packets_base, packets_len;
	uintptr_t recvs_base, recvs_len;
	uint64_t now; /* time of the current call, cycles; 0: the clock was not read yet */

	/* packet.c */
	struct rpc_packet *free_packets;
	uint32_t nb_free;
	uint32_t nb_idle; /* sessions that hold no packet: one free packet is kept for each */
	struct rpc_packet *unposted, *unposted_tail;
	uint32_t nb_burst;
	struct leat_op *burst[RPC_BURST];
	uint32_t nb_reposts, reposts_max;
	struct leat_op *reposts[RPC_BURST];
	struct rpc_recv *refused_recvs;
	uint32_t nb_recvs;
	bool recvs_refused; /* refused_recvs is not empty */

	struct leat_rpc_session *sessions;
	struct rpc_peer *by_peer;
	struct leat_rpc_session *free_sessions;
	struct leat_rpc_session *events, *events_tail;
	uint16_t refused_head, refused_tail;

	struct rpc_ticket *free_tickets, *tickets;
	struct rpc_large *free_large;
	struct leat_wheel wheel;  /* timers of requests */
	struct leat_wheel timers; /* struct rpc_timer, of sessions */
	uint32_t polls;		  /* counts polls: one in DEADLINE_POLLS reads the clock */
	struct leat_asked asked;  /* questions of telemetry (leat_ask.h) */
	struct leat_tune_object *tune;
	struct rpc_tune_settings set;

	uint32_t max_sessions, packet, credits, slots, max_msg, busy_us;
	bool datagram;
	uint32_t head_len;	/* bytes of a packet's head */
	uint64_t silence, idle; /* datagrams: leat_rpc_conf.*_us, cycles */
	uint32_t nb_open;
	/* time at which the stopping reactor closes sessions, cycles; 0: it is not stopping */
	uint64_t drain_at;
	uint16_t priv_max[2];
	bool destroying;
	bool in_process;	      /* packets are being handled: rpc_run() follows */
	bool slow;		      /* tests: always take the slow path */
	struct rpc_handling handling; /* used by rpc_fast_requests() */
	uint8_t *scratch;	      /* buffer for a response that has no packet yet */
	struct leat_rpc_stats stats;
	struct rpc_handler handlers[LEAT_RPC_TYPES];

	/* bulk.c */
	uintptr_t segments_base, segments_len;
	struct rpc_segment *free_segments;
	/* transfers that wait for a segment, or for room in the endpoint */
	struct rpc_transfer *waiting, *waiting_tail;
	uint32_t segment;
	uint64_t grace;

	/* reactor.c */
	struct leat_poller *ep_poller, *poller;
	struct leat_rpc_reactor_conf on;
	bool opened; /* leat_rpc_open() has created the context */

	/* memory */
	void *mem_tx, *mem_rx, *mem_tx_more, *mem_rx_more, *mem_dgrams, *mem_maps,
		*mem_segment_bufs, *mem_tickets, *mem_ticket_bufs, *mem_large;
	uint8_t *buffers;
	size_t buffers_len;
	uint8_t *large_map;
	size_t large_map_len;
	struct leat_mr *mr;
};

static inline uint64_t
rpc_now(struct leat_rpc *rpc)
{
	if (rpc->now == 0)
		rpc->now = leat_now();
	return rpc->now;
}

/* Longest message that fits a packet of the length `packet`, bytes. */
static inline uint32_t
rpc_small_max(const struct leat_rpc *rpc, uint32_t packet)
{
	return packet - rpc->head_len - RPC_ITEM_LEN;
}

/* Longest piece, bytes. With datagrams all pieces but the last have that length. */
static inline uint32_t
rpc_piece_max(const struct leat_rpc_session *s)
{
	return s->small_max - (RPC_PIECE_LEN - RPC_ITEM_LEN);
}

static inline void
rpc_work_add(struct leat_rpc_session *s)
{
	struct leat_rpc *rpc = s->rpc;

	if (s->in_work)
		return;
	s->in_work = true;
	s->next_work = NULL;
	if (rpc->work == NULL)
		rpc->work = s;
	else
		rpc->work_tail->next_work = s;
	rpc->work_tail = s;
}

static inline void
rpc_list_add(struct rpc_req_list *list, struct leat_rpc_req *req)
{
	req->next = NULL;
	req->prev = list->tail;
	if (list->tail == NULL)
		list->head = req;
	else
		list->tail->next = req;
	list->tail = req;
}

/* Add a request that is done: leat_rpc_poll() gives it back. */
static inline void
rpc_done_add(struct leat_rpc *rpc, struct leat_rpc_req *req)
{
	req->next = NULL;
	if (rpc->done.head == NULL)
		rpc->done.head = req;
	else
		rpc->done.tail->next = req;
	rpc->done.tail = req;
}

static inline void
rpc_list_del(struct rpc_req_list *list, struct leat_rpc_req *req)
{
	if (req->prev == NULL)
		list->head = req->next;
	else
		req->prev->next = req->next;
	if (req->next == NULL)
		list->tail = req->prev;
	else
		req->next->prev = req->prev;
}

/* rpc.c */
/* Fill packets of the sessions in rpc->work, and post the packets in one burst. */
void rpc_run(struct leat_rpc *rpc);

/* Return the number of slots in one direction, those of internal requests included. */
static inline uint16_t
rpc_slots(const struct leat_rpc_session *s)
{
	return (uint16_t)(s->nb_slots + RPC_INTERNAL_SLOTS);
}

/* Return the list in which a request waits for a slot. */
static inline struct rpc_req_list *
rpc_pending(struct leat_rpc_session *s, const struct leat_rpc_req *req)
{
	return unlikely((req->flags & RPC_REQ_INTERNAL) != 0) ? &s->internal : &s->pending;
}

static inline bool
rpc_any_pending(const struct leat_rpc_session *s)
{
	return s->pending.head != NULL || s->internal.head != NULL;
}

/* session.c */
/*
 * Prepare a session for a connection: give it a new token, epoch and numbers, so that no packet of
 * an earlier connection is taken for one of the new connection. @return 0 or -errno
 */
int rpc_session_reset(struct leat_rpc_session *s);
/* Connect, after rpc_session_reset(). @return 0, or as leat_ep_connect() */
int rpc_session_connect(struct leat_rpc_session *s, const char *addr, uint64_t timeout_us,
			const void *priv, uint16_t priv_len);
/* Handle LEAT_EV_CONNECTED. */
void rpc_session_up(struct leat_rpc_session *s, const struct leat_event *ev);
void rpc_session_free(struct leat_rpc_session *s);
const char *rpc_session_state_name(unsigned int state);
/* Disconnect refused connections whose connector has not disconnected in time. */
void rpc_refused_sweep(struct leat_rpc *rpc);

/* end.c */
void rpc_fail(struct leat_rpc_session *s, int status, const char *fmt, ...)
	__rte_format_printf(3, 4) __rte_cold;
/* Count a violation, and end session s; NULL: the session is not known. */
void rpc_violation(struct leat_rpc *rpc, struct leat_rpc_session *s, int violation) __rte_cold;
void rpc_op_failed(struct leat_rpc_session *s, const struct leat_op *op) __rte_cold;
void rpc_event_queue(struct leat_rpc_session *s, enum leat_rpc_event_type type);
/*
 * Take a session that ends to its next state, if possible. From RPC_OPEN, if it is closing: to
 * RPC_ENDING when no request is under way. From RPC_ENDING: to RPC_OVER or RPC_DOWN when the device
 * has returned all packets and the peer's last event has arrived.
 */
void rpc_end_run(struct leat_rpc_session *s);
/* Close a session, at `when` (cycles) at the latest, even if its close allows more time. */
void rpc_close_by(struct leat_rpc_session *s, uint64_t when);
/* End a session that was closed here, and has nothing under way any more. */
void rpc_drained(struct leat_rpc_session *s);

/* packet.c */
/*
 * Find room for an item, in the open packet or a new one.
 * @param need bytes of the item, a multiple of 8
 * @param may_wait the packet need not have credit now: it may wait for credit
 * @return start of the room; NULL: no packet or credit now
 */
uint8_t *rpc_place(struct leat_rpc_session *s, uint32_t need, bool may_wait);
static inline bool
rpc_open_fits(const struct leat_rpc_session *s, uint32_t need)
{
	return (size_t)(s->end - s->at) >= need;
}
/* Longest message that the open packet has room for, bytes; 0 without one. */
uint32_t rpc_open_room(const struct leat_rpc_session *s);
bool rpc_packet_available(const struct leat_rpc_session *s);
/* Take a free packet. @return NULL: no packet for this session now */
struct rpc_packet *rpc_packet_take(struct leat_rpc_session *s);
void rpc_packet_free(struct leat_rpc *rpc, struct rpc_packet *p);
/* Add a packet to the next burst. Its head is written already. */
void rpc_packet_post(struct leat_rpc_session *s, struct rpc_packet *p);
/* Use len bytes of the room that rpc_place() found. */
static inline void
rpc_commit(struct leat_rpc_session *s, uint32_t len)
{
	s->at += len;
	s->rpc->stats.items_sent++;
}
/* Send the packets that credit allows. */
void rpc_packets_send(struct leat_rpc_session *s);
/* Send an END with an errno if possible; it may use the credit that is reserved. */
void rpc_packet_end(struct leat_rpc_session *s, int err);
void rpc_packets_drop(struct leat_rpc_session *s);
void rpc_packet_completed(struct leat_rpc *rpc, struct rpc_packet *p);
void rpc_packets_post(struct leat_rpc *rpc);
void rpc_recv_repost(struct leat_rpc *rpc, struct rpc_recv *r);
void rpc_recvs_post(struct leat_rpc *rpc);

/* arrive.c */
void rpc_recv_completed(struct leat_rpc *rpc, struct rpc_recv *r);
/* Handle a packet of an open session. h: the packet's head, which is checked already */
void rpc_arrived(struct leat_rpc_session *s, const struct rpc_recv *r, const struct rpc_head *h);
/*
 * Handle the items of a packet.
 * @param from offset of the first item, bytes
 * @param end true: only an END is allowed
 */
void rpc_items_arrived(struct leat_rpc_session *s, const struct rpc_recv *r, size_t from, bool end);

/* request.c */
/* Post an internal request. Allowed while the session is being closed. */
void rpc_req_post(struct leat_rpc_req *req);
void rpc_req_done(struct leat_rpc *rpc, struct leat_rpc_req *req, int status);
/* End a request that is not answered yet. */
void rpc_req_abandon(struct leat_rpc_req *req, int status);
/* Begin requests until a packet is full. @return false: none was begun */
bool rpc_reqs_begin(struct leat_rpc_session *s);
bool rpc_cancels_send(struct leat_rpc_session *s);
int rpc_response_arrived(struct leat_rpc_session *s, const struct rpc_item *m, const uint8_t *data);
void rpc_reqs_end(struct leat_rpc_session *s, int status);
/* The connection has ended: give back the requests whose memory the other side could reach. */
void rpc_reqs_free(struct leat_rpc_session *s);
/* Return the time left until a deadline, as requests carry it: us, at least 1; 0: no limit. */
uint32_t rpc_us_for_wire(struct leat_rpc *rpc, uint64_t when);
/* Return the time left until the deadline of a request, as rpc_us_for_wire() does. */
uint32_t rpc_req_us_left(struct leat_rpc *rpc, const struct leat_rpc_req *req);
uint16_t rpc_reqs_give(struct leat_rpc *rpc, struct leat_rpc_req **reqs, uint16_t n);

/* handler.c */
int rpc_request_arrived(struct leat_rpc_session *s, const struct rpc_item *m, const uint8_t *data);
int rpc_cancel_arrived(struct leat_rpc_session *s, const struct rpc_item *m);
bool rpc_answers_send(struct leat_rpc_session *s);
void rpc_answer_queue(struct leat_rpc_session *s, uint16_t slot);
void rpc_refuse_slot(struct leat_rpc_session *s, uint16_t slot, int err, bool rest);
void rpc_slot_idle(struct leat_rpc_session *s, struct rpc_rx_slot *rs);
/*
 * Find a place for a small response of up to room bytes, in the open packet or in rpc->scratch.
 * @return where its item begins; NULL: no place
 */
uint8_t *rpc_response_room(struct leat_rpc_session *s, uint32_t room);
/* Answer or defer a request, after its handler returned ret. */
void rpc_handled(struct rpc_handling *h, int ret);
uint32_t rpc_us_left(struct leat_rpc *rpc, uint64_t deadline);
void rpc_handlers_end(struct leat_rpc_session *s);

/* ticket.c */
void rpc_ticket_free(struct leat_rpc *rpc, struct rpc_ticket *t);
void rpc_tickets_end(struct leat_rpc_session *s);
/*
 * Describe the oldest ticket of session s that is not answered; s NULL: of all sessions. @return
 * number of such tickets
 */
uint32_t rpc_tickets_name(const struct leat_rpc *rpc, const struct leat_rpc_session *s, char *text,
			  size_t len);

/* large.c */
/* Return the bytes of a bitmap with a bit for each piece of the longest message. */
size_t rpc_large_map_len(const struct leat_rpc *rpc);
struct rpc_large *rpc_large_take(struct leat_rpc *rpc);
void rpc_large_free(struct leat_rpc *rpc, struct rpc_large *l);
void rpc_out_add(struct leat_rpc_session *s, struct rpc_out *out, const void *data, uint32_t size);
void rpc_out_del(struct leat_rpc_session *s, struct rpc_out *out);
/* Send one piece, of the next message in turn. @return false: no place or credit */
bool rpc_piece_send(struct leat_rpc_session *s);
bool rpc_piece_fits(const struct leat_rpc_session *s, const struct rpc_item *m);
/* Prepare for the pieces of a message of size bytes. */
void rpc_pieces_start(const struct leat_rpc_session *s, struct rpc_large *large, uint32_t size);
/* Handle a piece of a request in its slot. @return 0 or a violation */
int rpc_piece_arrived(struct leat_rpc_session *s, const struct rpc_item *m, const uint8_t *data);

/* handler.c, for large.c: handle a complete request. @return 0, or a violation */
int rpc_handle(struct leat_rpc_session *s, const struct rpc_item *m, const uint8_t *data,
	       struct rpc_large *large, uint32_t us_left);

/* bulk.c */
/* Check nb_bulk, flags, and each descriptor of a request. */
bool rpc_bulk_valid(const struct leat_rpc_req *req);
/* Bytes of a request's descriptors on the wire; 0 without any. */
static inline uint32_t
rpc_bulk_req_len(const struct leat_rpc_req *req)
{
	return unlikely((req->flags & LEAT_RPC_BULK) != 0) ? rpc_bulk_len(req->nb_bulk) : 0;
}
/* Write the descriptors of a request to at. @return 0, or -errno of leat_mr_rkey() */
int rpc_bulk_describe(const struct leat_rpc_session *s, struct leat_rpc_req *req, uint8_t *at);
/* Separate a request's descriptors from its own bytes. @return false: they are invalid */
bool rpc_bulk_arrived(struct rpc_handling *h);
/* Handle a GET or PUT for memory of a request of this side. @return 0, or a violation */
int rpc_bulk_msg_arrived(struct leat_rpc_session *s, const struct rpc_item *m, const uint8_t *data);
int rpc_segments_alloc(struct leat_rpc *rpc, uint32_t n);
/* Handle a READ or WRITE that has completed. */
void rpc_segment_completed(struct leat_rpc *rpc, struct leat_op *op);
/* Resume transfers that wait for room. */
void rpc_transfers_run(struct leat_rpc *rpc);
/* End the transfers of a ticket whose request was cancelled, or whose session has ended. */
void rpc_transfers_end(struct rpc_ticket *t, int status);

/* deadline.c */
void rpc_deadline_start(struct leat_rpc *rpc, struct leat_rpc_req *req, uint64_t when);
/* Set the session's timer to `when`, the earliest deadline in tx. */
void rpc_expiry_set(struct leat_rpc_session *s, uint64_t when);
void rpc_timer_set(struct leat_rpc *rpc, struct rpc_timer *timer, uint64_t when,
		   void (*due)(struct rpc_timer *timer, uint64_t now));
void rpc_timer_stop(struct leat_rpc *rpc, struct rpc_timer *timer);
void rpc_deadlines_run(struct leat_rpc *rpc);

/* reactor.c: drive a context and its endpoint for one turn, without a reactor */
void rpc_reactor_turn(struct leat_rpc *rpc);
/* open.c: destroy a context and its endpoint */
void rpc_open_release(struct leat_rpc *rpc);

/* telemetry.c */
void rpc_telemetry_add(struct leat_rpc *rpc);
/* tune.c: overlay *conf with the settings of a file. @return 0, or negative with leat_err() */
int rpc_tune_add(struct leat_rpc *rpc, struct leat_rpc_conf *conf);
/* rpc.c: set the parts of the configuration that may change while the context runs */
void rpc_conf_times(struct leat_rpc *rpc, const struct leat_rpc_conf *conf);
void rpc_telemetry_del(struct leat_rpc *rpc);
/* Answer the pending question of telemetry. */
void rpc_telemetry_answer(struct leat_rpc *rpc) __rte_cold;

#endif /* RPC_PVT_H */
