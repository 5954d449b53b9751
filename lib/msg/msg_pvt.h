/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MSG_PVT_H
#define MSG_PVT_H

/*
 * Types and inline steps that the files of lib/msg share.
 *
 *     msg.c     contexts; requests, from posting until they are given out
 *     conf.c    configuration of a context, and of the endpoint that it needs
 *     conn.c    connections: connect, accept, open, up
 *     end.c     how connections end: failure, drain, close, events
 *     tx.c      sending, in both formats
 *     rx.c      receiving, in both formats: receives, and requests
 *     arrive.c  ops that came back, and messages that arrive
 *     msg_fast.h  leat mode: the fast path of a small message that is alone
 *     early.c   plain mode: a payload's receive that is posted before the length arrives
 *     stats.c   counters
 *     telemetry.c  telemetry commands
 *     reactor.c a context driven by a reactor; net*.c, task_io.c: tasks that wait (msg_net.h)
 *     gather.c  messages in several pieces of memory
 *     answer.c  sends that wait until their message was received
 *     many.c    one message to many connections
 *     shutdown.c  half-close
 *     reject.c  connection requests that are rejected with a reason
 *     ctrl.c    control messages
 *     timeout.c deadlines, and silent peers
 *     abandon.c requests that their tasks give up
 *     drop.c    messages that are dropped: no request gets them
 *     hello.c   the private data that two leat endpoints exchange when they connect
 *     msg_wire.h  tags, heads and hellos
 *
 * Message ids count per connection and direction, and wrap. A connection has C = credits slots in
 * each direction, and message id uses slot id % C, so the id finds everything about a message in
 * flight. (In leat mode small messages that travel together have one id and one slot, as if they
 * were one message.) A cursor is an id: all ids below it have completed the cursor's step, and each
 * step is done in the order of ids:
 *
 *     sending      done <= post <= next
 *
 *         next   begun: has an id and a slot; requests behind it wait in a list
 *         post   posted (its length, or its head)
 *         data   leat mode: payload posted, if the peer has granted a receive for it. The cursor
 *                moves only while large messages wait for a grant; the next large message moves a
 *                cursor that stood still to its own id.
 *         done   request finished
 *
 *     receiving    done <= data <= bind <= post <= done + rx_window
 *
 *         post   the receive of its length (plain) or head (leat) is posted
 *         bind   the length or head has arrived, and the message has a request
 *         data   the receive of its payload is posted, if there is a payload
 *         done   request given back, slot free: the receive of id + C may be posted in it
 *
 * Only the device's completions come in any order. They set flags in the slots.
 */

#include <errno.h>
#include <string.h>

#include <rte_byteorder.h>
#include <rte_errno.h>
#include <rte_prefetch.h>

#include <leat_ask.h>
#include <leat_error.h>
#include <leat_le.h>
#include <leat_time.h>
#include <leat_tune.h>
#include <leat_wheel.h>

#include "leat_msg.h"
#include "msg_tune.h"
#include "msg_wire.h"

/* Ops per leat_ep_post() call. */
#define MSG_BURST 32
/*
 * Receives are posted when this many slots are free. The number is small, so that all of them can
 * be posted while an answer is under way.
 */
#define MSG_RX_BATCH 4u
/*
 * Leat mode: while the payloads that the device has add up to this many bytes or more, further
 * payloads wait, even granted ones. Without the limit the heads of the next messages would queue
 * behind all payloads. The peer would see these heads only after the last payload, and nothing
 * would be under way while it posts receives for their payloads.
 */
#define MSG_DATA_AHEAD (UINT64_C(4) << 20)
/*
 * Leat mode: after a message of at least MSG_BULK bytes, at most MSG_BULK_WINDOW messages may be
 * under way or waiting here. The next payload's receive is posted behind the receives of all heads.
 * A device that searches for it by tag walks over these receives, and misses the caches, since the
 * last payload has evicted them. The messages in the window have 1 MiB or more together, which
 * keeps a fabric as busy as all credits would.
 */
#define MSG_BULK (UINT64_C(64) << 10)
#define MSG_BULK_WINDOW 16u
/*
 * Leat mode: small messages wait to travel together until the application has nothing to do, but at
 * most this many turns (see leat_msg_send()), since a busy application may find requests done in
 * every turn. A turn lasts at most MSG_CUT_MAX polls, for an application that takes its requests a
 * few at a time.
 */
#define MSG_HOLD_TURNS 2u
#define MSG_CUT_MAX 32u
/*
 * Leat mode: how many messages are expected to travel together: on a new connection (FIRST), and at
 * most (MAX). If a new connection expected one, the first message of the application's first turn
 * would leave alone, so would the answer to it, and so on.
 */
#define MSG_STREAM_FIRST 2u
#define MSG_STREAM_MAX 32u
/* Number of receives that a connection has posted for control messages. */
#define MSG_CTRL 2
/*
 * Plain mode: maximum number of receives posted for lengths. The device compares each payload that
 * arrives with all of them before it knows that no receive for the payload is posted yet.
 */
#define MSG_PLAIN_WINDOW 8u
/* ---- slots ---- */

enum msg_slot_kind { MSG_SLOT_TX, MSG_SLOT_RX, MSG_SLOT_CTRL_TX, MSG_SLOT_CTRL_RX };

#define MSG_OP_OUT 0x01	    /* the device has op */
#define MSG_DATA_OUT 0x02   /* the device has data */
#define MSG_POSTED 0x04	    /* tx: op was posted */
#define MSG_WANT 0x08	    /* data has to be posted; in a control receive: op has to be posted */
#define MSG_ARRIVED 0x10    /* rx: the message's length is known */
#define MSG_EAGER 0x20	    /* leat mode: one or more whole messages are in the slot's buffer */
#define MSG_DONE 0x40	    /* rx: the message is delivered, or dropped */
#define MSG_FAILED 0x80	    /* an op of the slot failed, so the connection is ending */
#define MSG_EARLY 0x100	    /* rx: has a request before its length has come; see early.c */
#define MSG_DATA_IN 0x200   /* rx, with MSG_EARLY: the payload has come before the length */
#define MSG_RECALL 0x400    /* rx, with MSG_EARLY: request cancelled, op data is being recalled */
#define MSG_DROP 0x800	    /* the message is dropped; see drop.c */
#define MSG_REPORTED 0x1000 /* rx, with MSG_DROP: the sender was told, or need not be told */
#define MSG_ANSWER 0x4000   /* the sender wants an answer when the message is received */
#define MSG_FRAGMENT 0x8000 /* rx: the message is a fragment */
#define MSG_EXPIRED 0x2000  /* the request was given up, and the op data is being recalled */

struct msg_slot {
	struct leat_msg_conn *conn;
	struct leat_msg_req *req;
	uint8_t *buf; /* in registered memory */
	uint64_t len; /* rx: length of the message, or of the next one in buf, bytes */
	struct msg_slot *next_idle; /* any_id: next in the list of slots whose op is not posted */
	uint32_t id;
	uint32_t off;	/* rx, eager: offset of the next message in buf; MSG_DROP: the reason */
	uint16_t count; /* tx: number of messages, whose requests begin at req */
	uint16_t flags;
	uint8_t kind;
	/*
	 * sends or receives: in plain mode the message's length; in leat mode its head, and behind
	 * it an eager message; or a control message
	 */
	struct leat_op op __attribute__((aligned(LEAT_CACHE_LINE)));
	struct leat_op data; /* payload, in the request's buffer */
} __attribute__((aligned(LEAT_CACHE_LINE)));

/* ---- connections ---- */

enum msg_state {
	MSG_FREE = 0,
	MSG_CONNECTING,
	MSG_OPEN,
	MSG_ENDING, /* waits for its ops to come back, and for the peer's last event */
	MSG_OVER,   /* the device has no ops, sends are done; arrived messages can be received */
};

/* From MSG_REQ_CANCELLED on, a request is given back once all those posted before it were. */
enum msg_req_state {
	MSG_REQ_IDLE = 0,
	MSG_REQ_QUEUED,
	MSG_REQ_STARTED,
	MSG_REQ_CANCELLED,
	MSG_REQ_FINISHED,
	MSG_REQ_DONE, /* waits for leat_msg_poll() */
};

/* Private flags, besides LEAT_MSG_F_*. */
#define MSG_F_PART 0x80 /* a part of leat_msg_send_many() */
#define MSG_F_GATHER (LEAT_MSG_F_IOV | LEAT_MSG_F_MBUF)
/* A send with one of these flags travels alone. */
#define MSG_F_ALONE (MSG_F_GATHER | LEAT_MSG_F_DELIVERED)

/* The requests of one direction, in the order of posting. */
struct msg_list {
	struct leat_msg_req *head, *tail;
	struct leat_msg_req *begin; /* first request that has not begun; NULL: none */
};

struct leat_msg_conn {
	/* line 0: fields used when a small message arrives */
	/* leat mode: op of the next message, if it may go straight to its request; else NULL */
	struct leat_op *rx_next;
	struct msg_list recvq;
	uint64_t max_size;
	uint32_t rx_post, rx_bind, rx_data, rx_done;
	uint32_t rx_out;
	uint32_t rx_arrived; /* number of messages that arrived and have no request yet */

	/* line 1: fields used when a small message is sent */
	bool fast; /* leat mode, open, and not closing: see msg_fast.h */
	struct msg_list sendq;
	uint32_t tx_next, tx_post, tx_data, tx_done;
	uint32_t tx_credit;  /* messages with ids below it may be sent */
	uint32_t tx_granted; /* payloads of messages with ids below it may be sent */
	uint32_t tx_out;     /* number of ops that the device has */
	uint32_t tx_large;   /* leat mode: number of messages begun whose payload is not posted */

	struct leat_msg *m;
	struct leat_ep *ep;
	struct leat_msg_conn *next_work;  /* next in the list of connections that have work */
	struct leat_msg_conn *next_later; /* next in the list of connections whose work can wait */
	bool in_work, in_later;
	uint8_t state;
	uint8_t mode; /* enum leat_msg_mode */
	uint8_t any_id;
	bool bulk;	 /* leat mode: the last message had MSG_BULK bytes or more */
	bool grant;	 /* a payload's receive was posted, and the peer was not told yet */
	bool early;	 /* plain mode: post the next payload's receive before its length comes */
	bool abandoned;	 /* there may be abandoned requests */
	bool no_buffer;	 /* no buffer was available for the oldest message */
	bool got_buffer; /* a request got a buffer in the current msg_run() */
	bool waits;	 /* the connection waits for a buffer, or for room in the endpoint */
	uint16_t peer;
	uint16_t recv_peer; /* peer, or LEAT_PEER_ANY if a receive can't be restricted to it */
	uint32_t mask;	    /* credits - 1 */
	uint32_t tx_mask;   /* mask for sends: as mask, or less, so that sends reuse fewer slots */
	uint32_t hold_turn; /* last turn in which a message left before the turn's end */
	uint16_t want;	    /* small messages that wait leave as soon as there are this many */
	uint32_t eager_max; /* value in use, bytes: the smaller one of both sides */
	uint32_t eager_own; /* value that this side announced, bytes */
	uint32_t rx_window; /* maximum number of messages that may be under way or waiting here */
	struct msg_slot *tx, *rx;
	uint64_t tx_max;	   /* longest message that the peer and the device accept, bytes */
	uint64_t tx_base, rx_base; /* leat mode: connection's number in tags to, from the peer */
	uint64_t tx_bytes;     /* leat mode: total length of payloads that the device has, bytes */
	uint32_t rx_told;      /* credit that the peer was last told */
	uint32_t batch;	       /* receives are posted when this many slots are free */
	struct msg_slot *idle; /* any_id: slots whose op is not posted */
	leat_msg_alloc_fn alloc;
	void *alloc_arg;
	struct rte_mempool *mempool;

	/* control messages */
	struct msg_slot *ctrl_tx, *ctrl_rx;
	uint32_t ctrl_tx_id, ctrl_rx_id;
	uint32_t ctrl_rx_next; /* id of the control message to be processed next */
	uint32_t tx_more;      /* number of receives that the last MSG_CTRL_MORE asked for */
	uint32_t tx_more_at;   /* tx_credit at the last MSG_CTRL_MORE */
	uint32_t ctrl_due;     /* kinds to be sent, bits 1 << enum msg_ctrl_kind */
	uint32_t drops;	       /* rx: number of slots with MSG_DROP */

	/* counters; leat_msg_conn_stats_get() fills in those that leat_msg.h calls "now" */
	struct leat_msg_conn_stats stats;

	/* fragmented message being sent (tx), received (rx): request, bytes left; see gather.c */
	struct leat_msg_req *tx_frag, *rx_frag; /* NULL: none, or given up */
	uint64_t tx_frag_left, rx_frag_left, rx_frag_total;
	uint8_t rx_frag_lost; /* enum msg_reason: why its fragments are dropped; 0: they are not */

	/* half-close */
	bool no_fast_send; /* no send may take the fast path */
	bool no_sends;	   /* closing, or shut down here: no more sends can be posted */
	bool end_due;	   /* MSG_CTRL_END has to be sent, when all sends have begun */
	bool peer_ended;   /* MSG_CTRL_END has come: rx_end is the id behind the last message */
	bool end_reported; /* LEAT_MSG_SHUTDOWN is pending or reported */
	uint32_t rx_end;

	uint32_t tx_answered; /* the peer has received all ids below it; see answer.c */

	/* liveness of the peer; times in cycles, see timeout.c */
	struct leat_wheel_node alive;
	uint64_t idle_cycles, answer_cycles; /* idle_cycles 0: the peer is never pinged */
	uint64_t answer_by;
	uint32_t came;	/* sum of the receive cursors at the last check */
	uint32_t looks; /* consecutive checks that found nothing new */

	/* small messages that travel together, see msg_turn_holds() */
	uint32_t given_turn; /* last turn in which the application got several requests at once */
	uint16_t given;	     /* number of messages that the application got in given_turn so far */
	uint16_t stream;     /* about how many messages travelled together lately */
	uint16_t nb_held;    /* number of small messages that wait for the end of the turn */
	uint32_t tx_held;    /* room that these messages take in a send, bytes */

	/* rarely used */
	void *user;
	uint64_t drain_deadline;
	uint64_t number;	  /* leat mode: number of the connection, unique in the process */
	uint64_t buffer_deadline; /* OVER: end of the wait for a buffer, cycles; 0: no wait */
	uint32_t first_id;
	uint8_t asked;	 /* mode asked for */
	uint8_t pending; /* events to be reported, bits 1 << enum leat_msg_event_type */
	bool closing, draining;
	bool drain_pinged; /* draining: the peer was pinged, see ping_unheard() in end.c */
	bool peer_closed;  /* the peer has ended: its last event was seen */
	bool status_final; /* status and text are final */
	int status;
	char text[LEAT_EVENT_TEXT];
} __attribute__((aligned(LEAT_CACHE_LINE)));

static_assert(sizeof(struct leat_msg_req) == 2 * LEAT_CACHE_LINE, "as its header says");
static_assert(offsetof(struct leat_msg_conn, fast) == LEAT_CACHE_LINE, "line 0 is one");
static_assert(offsetof(struct leat_msg_conn, m) == 2 * LEAT_CACHE_LINE, "line 1 is one");

struct leat_msg {
	uintptr_t slots_base; /* address of the slots; an op inside them belongs to this context */
	uintptr_t slots_len;
	struct leat_msg_conn *work;
	struct leat_msg_conn *later;
	/* some connections in work wait for buffers, or for room in the endpoint */
	bool starved;
	/* number of the turn; leat_msg_poll() begins the next turn as `cut` says */
	uint32_t turn;
	uint32_t held_turn; /* turn in which the first of the waiting messages was posted */
	bool held;	    /* messages wait to travel together */
	/*
	 * number of polls (leat_msg_poll()) in a row that left requests behind, of which
	 * MSG_CUT_MAX make one turn; 0 only if the last poll left none: see cut_next()
	 */
	uint8_t cut;
	bool slow;   /* for tests: connections never use msg_fast.h */
	bool ending; /* leat_msg_destroy() closes the connections; no new one may begin */
	struct msg_list done;
	struct leat_msg_conn *conns;
	struct leat_msg_conn **by_peer;
	bool *rejected;		 /* by peer id: rejected with a reason, and not disconnected yet */
	struct msg_below *below; /* attachment to a reactor; NULL: none */
	struct leat_ep *ep;
	struct leat_mr *mr;
	uint8_t *buffers;
	uint32_t eager_max;
	uint32_t nb_open;
	uint16_t max_conns;
	uint16_t credits;
	uint16_t credits_next; /* credits of new connections, see tune.c */
	uint32_t eager_next;
	uint64_t dev_max;	     /* longest message of the device, bytes */
	uint64_t now;		     /* while timers fire: time of their run, cycles */
	uint16_t priv_max[2];	     /* longest private data of connect and of accept, bytes */
	struct leat_msg_stats stats; /* sums over closed connections; see stats.c */
	struct leat_wheel wheel;     /* timeout.c */
	struct leat_asked asked;     /* questions of telemetry (leat_ask.h) */
	struct leat_tune_object *tune;
	struct msg_tune_settings set;
};

static inline struct msg_slot *
msg_tx_slot(const struct leat_msg_conn *c, uint32_t id)
{
	return &c->tx[id & c->tx_mask];
}

static inline struct msg_slot *
msg_rx_slot(const struct leat_msg_conn *c, uint32_t id)
{
	return &c->rx[id & c->mask];
}

static inline void
msg_list_add(struct msg_list *list, struct leat_msg_req *req)
{
	req->next = NULL;
	if (list->head == NULL)
		list->head = req;
	else
		list->tail->next = req;
	list->tail = req;
	if (list->begin == NULL)
		list->begin = req;
}

/* Return the next request that has not begun and was not cancelled, or NULL. */
static inline struct leat_msg_req *
msg_list_begin(struct msg_list *list)
{
	while (unlikely(list->begin != NULL && list->begin->state == MSG_REQ_CANCELLED))
		list->begin = list->begin->next;
	return list->begin;
}

static inline void
msg_list_begun(struct msg_list *list, struct leat_msg_req *req)
{
	req->state = MSG_REQ_STARTED;
	list->begin = req->next;
}

static inline void
msg_req_finish(struct leat_msg_req *req, int status, uint64_t len)
{
	req->status = status;
	req->len = len;
	req->state = MSG_REQ_FINISHED;
}

/* Return the status of a request that has begun and is given up by its task or its deadline. */
static inline int
msg_late_status(const struct leat_msg_req *req)
{
	return req->abandoned != 0 ? -ECANCELED : -ETIMEDOUT;
}

/*
 * Count a request if it was given up, and is finished, because its deadline has passed. Call it for
 * a request only when that may just have happened.
 */
static inline void
msg_count_expired(struct leat_msg_conn *c, const struct leat_msg_req *req)
{
	c->stats.expired += req->state >= MSG_REQ_CANCELLED && req->status == -ETIMEDOUT;
}

/* Put a request on the list of done ones, for the next leat_msg_poll() to give out. */
static inline void
msg_give(struct leat_msg *m, struct leat_msg_req *req)
{
	struct msg_list *done = &m->done;

	req->state = MSG_REQ_DONE;
	req->next = NULL;
	if (done->head == NULL)
		done->head = req;
	else
		done->tail->next = req;
	done->tail = req;
}

/* many.c: note that a part of one message to many connections is done. */
void msg_part_given(struct leat_msg *m, struct leat_msg_req *part);

/* Give back finished and cancelled requests, as far as the order allows. */
static inline void
msg_list_give(struct leat_msg *m, struct msg_list *list)
{
	struct leat_msg_req *req;

	while ((req = list->head) != NULL && req->state >= MSG_REQ_CANCELLED) {
		if (unlikely(list->begin == req))
			list->begin = req->next;
		list->head = req->next;
		if (unlikely((req->flags & MSG_F_PART) != 0))
			msg_part_given(m, req);
		else
			msg_give(m, req);
	}
}

/*
 * Begin, finish and give back the oldest request of a list in one step; no request of the list has
 * begun. The caller gives back cancelled requests behind it.
 */
static inline void
msg_list_give_first(struct leat_msg *m, struct msg_list *list, struct leat_msg_req *req,
		    uint64_t len)
{
	struct leat_msg_req *next = req->next;

	list->begin = list->head = next;
	req->status = 0;
	req->len = len;
	msg_give(m, req);
}

/* Prefetch the slot of the next message, which comes soon. */
static inline void
msg_slot_prefetch(const struct msg_slot *s)
{
	rte_prefetch0(s);
	rte_prefetch0(&s->op);
	rte_prefetch0(&s->op.tag);
	rte_prefetch0(s->op.drv);
	rte_prefetch0(s->buf);
}

/* Is n 8 to 16, so that two copies of 8 bytes, which may overlap, cover n bytes? */
static __rte_always_inline bool
msg_is_words(uint64_t n)
{
	return n - 8 <= 8;
}

static __rte_always_inline void
msg_copy_words(void *dst, const void *src, uint64_t n)
{
	uint64_t first, last;

	memcpy(&first, src, 8);
	memcpy(&last, (const uint8_t *)src + n - 8, 8);
	memcpy(dst, &first, 8);
	memcpy((uint8_t *)dst + n - 8, &last, 8);
}

void msg_copy_any(void *dst, const void *src, uint64_t n);

/* Copy a message: 8 to 16 bytes with little inlined code, other lengths with a call. */
static __rte_always_inline void
msg_copy(void *dst, const void *src, uint64_t n)
{
	if (msg_is_words(n))
		msg_copy_words(dst, src, n);
	else
		msg_copy_any(dst, src, n);
}

/* Leat mode: compute the id of a head that arrived; its tag has the low 16 bits. */
static inline uint32_t
msg_rx_id(const struct leat_msg_conn *c, uint64_t tag)
{
	return c->rx_done + (uint16_t)(tag - c->rx_done);
}

/*
 * Leat mode: does an arriving message need more checks, because fragments of the previous message
 * are missing, or the peer has announced its last message? Then it does not go straight to its
 * request.
 */
static inline bool
msg_rx_in_turn(const struct leat_msg_conn *c)
{
	return c->rx_frag_left > 0 || c->peer_ended;
}

/*
 * Return how many messages may be under way or waiting here. There may be more for a while, if
 * their receives were posted before a long message shrank the window.
 */
static inline uint32_t
msg_rx_window(const struct leat_msg_conn *c)
{
	return unlikely(c->bulk) ? RTE_MIN(c->rx_window, MSG_BULK_WINDOW) : c->rx_window;
}

/* Return how many more receives may be posted. */
static inline uint32_t
msg_rx_free(const struct leat_msg_conn *c)
{
	const int32_t free = (int32_t)(msg_rx_window(c) - (c->rx_post - c->rx_done));

	return (uint32_t)RTE_MAX(free, 0);
}

/*
 * Move on to the next message in an eager slot. All its messages were checked when they arrived.
 * @return false: there is no further message
 */
static inline bool
msg_eager_next(struct msg_slot *s)
{
	const uint64_t end = s->off + s->len;

	if (likely(end == s->op.len))
		return false;
	s->len = leat_get_le64(s->buf + end);
	s->off = (uint32_t)end + MSG_NEXT_LEN;
	return true;
}

/* Queue a connection for the next msg_run(). */
static inline void
msg_work(struct leat_msg_conn *c)
{
	if (c->in_work)
		return;
	c->in_work = true;
	c->next_work = c->m->work;
	c->m->work = c;
}

/*
 * Queue a connection that waits for a buffer or room in the endpoint; run_in_turn() serves such
 * connections one after the other.
 */
static inline void
msg_wait(struct leat_msg_conn *c)
{
	c->waits = c->m->starved = true;
	msg_work(c);
}

/*
 * Must a small message wait, to travel with those that the application posts behind it?
 *
 * An application answers the messages that it gets. If it got one in this turn, as in a
 * conversation, the first message it posts leaves at once. If it got several, its messages leave as
 * soon as it has posted that many. All other messages wait for the end of the turn, when
 * leat_msg_poll() finds nothing done and runs the work that msg_later() put off; or a bit longer,
 * see MSG_HOLD_TURNS. If messages have travelled together lately (want > 1), more of them are under
 * way and will be answered together. A message that left alone now would be answered alone, and its
 * answer, too: so it waits.
 */
static __rte_always_inline bool
msg_turn_holds(const struct leat_msg *m, const struct leat_msg_conn *c)
{
	return c->want > 1 || c->hold_turn == m->turn || m->cut != 0;
}

/*
 * Put off posting receives, and prefetching for the next message, until the application has nothing
 * to do, so that the message that has just arrived reaches it first. When half of the receives are
 * used up, the caller posts receives at once instead.
 */
static inline void
msg_later(struct leat_msg_conn *c)
{
	if (c->in_later)
		return;
	c->in_later = true;
	c->next_later = c->m->later;
	c->m->later = c;
}

#include "msg_calls.h"

#endif /* MSG_PVT_H */
