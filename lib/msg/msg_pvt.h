/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MSG_PVT_H
#define MSG_PVT_H

/*
 * What the files of lib/msg share.
 *
 *     msg.c     contexts; requests, and those that are done
 *     conf.c    what a context is to be like, and the endpoint that it needs
 *     conn.c    connections: connect, accept, open, up
 *     end.c     how they end: failure, drain, close, events
 *     tx.c      sending, in both formats
 *     rx.c      receiving, in both formats: receives, and requests
 *     arrive.c  ops that came back, and what arrives
 *     msg_fast.h  leat mode: the short way of a small message that is alone
 *     early.c   plain mode: a payload's receive that does not wait for the length
 *     stats.c   counters
 *     telemetry.c  the same for people
 *     reactor.c a context below a reactor; net*.c, task_io.c: tasks that wait (msg_net.h)
 *     gather.c  messages in several pieces of memory
 *     answer.c  sends that wait until their message was received
 *     many.c    one message to many connections
 *     shutdown.c  half-close
 *     reject.c  requests that are rejected with a reason
 *     ctrl.c    control messages
 *     timeout.c deadlines, and peers that are silent
 *     abandon.c requests that their tasks give up
 *     drop.c    messages that no request takes
 *     hello.c   what two leat endpoints tell each other when they connect
 *     msg_wire.h  tags, heads and hellos
 *
 * Message ids count per connection and direction, and wrap. A connection has C = credits slots in
 * each direction, and message id uses slot id % C, so everything about a message in flight is found
 * by its id. (In leat mode small messages that wait travel together: they have one id and one slot,
 * as if they were one.) Ids below a cursor have done a step, and steps are done in order:
 *
 *     sending      done <= post <= next
 *
 *         next   begun: has an id and a slot; requests behind it wait in a list
 *         post   posted (its length, or its head)
 *         data   leat mode: posted, if the other side granted it a payload's receive. It moves
 *                while large messages wait for that, and stands still otherwise: the next large one
 *                moves it to its id.
 *         done   request finished
 *
 *     receiving    done <= data <= bind <= post <= done + rx_window
 *
 *         post   its receive (of a length, or of an eager message) is posted
 *         bind   it arrived, and has a request
 *         data   its payload's receive is posted, if it needs one
 *         done   request given back, slot free: the receive of id + C may be posted in it
 *
 * Only the device's completions come in any order; they set flags in the slots.
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

/* Ops posted at once. */
#define MSG_BURST 32
/*
 * So many places are free before receives are posted in them: few enough to do it while an answer
 * is on its way.
 */
#define MSG_RX_BATCH 4u
/*
 * Leat mode: with so many bytes of payloads on their way the others wait, though they were granted.
 * Otherwise the heads of the next messages would stand behind all of them, be seen when those are
 * through, and nothing was on its way while their receives are posted.
 */
#define MSG_DATA_AHEAD (UINT64_C(4) << 20)
/*
 * Leat mode: behind a message of so many bytes so many messages may be on the way or here, and no
 * more. The next payload's receive is posted behind those of all heads, and a search for it by its
 * tag walks over them, with caches that the last payload has emptied. They announce 1 MiB or more:
 * that keeps a fabric as busy as all credits would.
 */
#define MSG_BULK (UINT64_C(64) << 10)
#define MSG_BULK_WINDOW 16u
/*
 * Leat mode: small messages wait until the application has nothing to do, but never for more than
 * so many turns: what is done may never come to an end. Neither does a turn last for more than so
 * many polls, for an application that takes its requests in small numbers.
 */
#define MSG_HOLD_TURNS 2u
#define MSG_CUT_MAX 32u
/*
 * Leat mode: so many messages are expected to travel together on a new connection, and at most.
 * With one, the first message of an application's first turn would go alone, its answer would, and
 * so on.
 */
#define MSG_STREAM_FIRST 2u
#define MSG_STREAM_MAX 32u
/* Receives for control messages. */
#define MSG_CTRL 2
/*
 * Plain mode: receives for so many lengths. Each payload that arrives is compared with all of them
 * before it is known that no request waits for it yet.
 */
#define MSG_PLAIN_WINDOW 8u

/* ---- slots ---- */

enum msg_slot_kind { MSG_SLOT_TX, MSG_SLOT_RX, MSG_SLOT_CTRL_TX, MSG_SLOT_CTRL_RX };

#define MSG_OP_OUT 0x01	    /* the device has op */
#define MSG_DATA_OUT 0x02   /* the device has data */
#define MSG_POSTED 0x04	    /* tx: op was posted */
#define MSG_WANT 0x08	    /* data is to be posted */
#define MSG_ARRIVED 0x10    /* rx: its length is known */
#define MSG_EAGER 0x20	    /* leat mode: it, and maybe more of them, are in the slot's buffer */
#define MSG_DONE 0x40	    /* rx: it is in the request's buffer */
#define MSG_FAILED 0x80	    /* an op of it came back with an error: the connection is ending */
#define MSG_EARLY 0x100	    /* rx: has a request, and its length has not come; see early.c */
#define MSG_DATA_IN 0x200   /* ... but its payload has */
#define MSG_RECALL 0x400    /* ... its request was cancelled, and data is asked back */
#define MSG_DROP 0x800	    /* it is dropped; see drop.c */
#define MSG_TOLD 0x1000	    /* rx: ... and the other side knows */
#define MSG_ANSWER 0x4000   /* its sender wants to know when it is received */
#define MSG_FRAGMENT 0x8000 /* rx: a fragment */
#define MSG_EXPIRED 0x2000  /* its request's deadline passed, and data is asked back */

struct msg_slot {
	struct leat_msg_conn *conn;
	struct leat_msg_req *req;
	uint8_t *buf;		    /* registered */
	uint64_t len;		    /* rx: of the message, or of the one in buf that is the next */
	struct msg_slot *next_idle; /* any_id: slots whose op is not posted */
	uint32_t id;
	uint32_t off;	/* rx, eager: where in buf the next message is */
	uint16_t count; /* tx: messages, requests from req on */
	uint16_t flags;
	uint8_t kind;
	/* length; or head and eager message; or control message */
	struct leat_op op __attribute__((aligned(LEAT_CACHE_LINE)));
	struct leat_op data; /* payload, in the request's buffer */
} __attribute__((aligned(LEAT_CACHE_LINE)));

/* ---- connections ---- */

enum msg_state {
	MSG_FREE = 0,
	MSG_CONNECTING,
	MSG_OPEN,
	MSG_ENDING, /* waits for its ops, and for the peer's end */
	MSG_OVER,   /* nothing is with the device, sends are done; what arrived can be received */
};

/* From CANCELLED on a request goes back as soon as those before it did. */
enum msg_req_state {
	MSG_REQ_IDLE = 0,
	MSG_REQ_QUEUED,
	MSG_REQ_STARTED,
	MSG_REQ_CANCELLED,
	MSG_REQ_FINISHED,
	MSG_REQ_DONE, /* waits for leat_msg_poll() */
};

/* Private flags, beside LEAT_MSG_F_*. */
#define MSG_F_PART 0x80 /* of one message to many connections */
#define MSG_F_GATHER (LEAT_MSG_F_IOV | LEAT_MSG_F_MBUF)
/* Sends with these travel alone. */
#define MSG_F_ALONE (MSG_F_GATHER | LEAT_MSG_F_DELIVERED)

/* The requests of one direction, in their order. */
struct msg_list {
	struct leat_msg_req *head, *tail;
	struct leat_msg_req *begin; /* first that is not begun; NULL: none */
};

struct leat_msg_conn {
	/*
	 * line 0: a small message comes. Leat mode: the next one's op, if that may go straight to a
	 * request, or NULL
	 */
	struct leat_op *rx_next;
	struct msg_list recvq;
	uint64_t max_size;
	uint32_t rx_post, rx_bind, rx_data, rx_done;
	uint32_t rx_out;
	uint32_t rx_arrived; /* messages that arrived and have no request yet */

	/* line 1: one is sent */
	bool fast; /* leat mode, open, and not closing: see msg_fast.h */
	struct msg_list sendq;
	uint32_t tx_next, tx_post, tx_data, tx_done;
	uint32_t tx_credit;  /* ids before it may be sent */
	uint32_t tx_granted; /* payloads of ids before it may be sent */
	uint32_t tx_out;     /* ops with the device */
	uint32_t tx_large;   /* leat mode: begun, and the payload not posted */

	struct leat_msg *m;
	struct leat_ep *ep;
	struct leat_msg_conn *next_work;  /* has work */
	struct leat_msg_conn *next_later; /* has something to do when there is time for it */
	bool in_work, in_later;
	uint8_t state;
	uint8_t mode; /* enum leat_msg_mode */
	uint8_t any_id;
	bool bulk;	 /* leat mode: the last one was MSG_BULK or longer */
	bool grant;	 /* a payload's receive was posted, and the other side not told */
	bool early;	 /* plain mode: the next payload's receive does not wait for its length */
	bool abandoned;	 /* there may be such requests */
	bool no_buffer;	 /* the oldest message has none */
	bool got_buffer; /* since it last ran */
	bool waits;	 /* for a buffer, or for room in the endpoint */
	uint16_t peer;
	uint16_t recv_peer; /* the same, or any where the device can't do that */
	uint32_t mask;	    /* credits - 1 */
	uint32_t tx_mask;   /* the same, or that of fewer slots that sends take in turn */
	uint32_t hold_turn; /* in this turn small messages went at once, others wait */
	uint16_t want;	    /* if so many small messages wait, they go at once */
	uint32_t eager_max;
	uint32_t eager_own; /* that this side has announced */
	uint32_t rx_window; /* most messages that may be on the way or here */
	struct msg_slot *tx, *rx;
	uint64_t tx_max;	   /* longest message that the other side and the device take */
	uint64_t tx_base, rx_base; /* leat mode: number of the connection in tags */
	uint64_t tx_bytes;	   /* leat mode: of payloads, with the device */
	uint32_t rx_told;	   /* credit that the other side was told */
	uint32_t batch;		   /* so many places are free before receives are posted in them */
	struct msg_slot *idle;	   /* any_id */
	leat_msg_alloc_fn alloc;
	void *alloc_arg;
	struct rte_mempool *mempool;

	/* control messages */
	struct msg_slot *ctrl_tx, *ctrl_rx;
	uint32_t ctrl_tx_id, ctrl_rx_id;
	uint32_t ctrl_rx_next; /* the next one to be looked at */
	uint32_t tx_more;      /* receives that the other side has if it did what was asked for */
	uint32_t tx_more_at;   /* credit when it was asked for more */
	uint32_t ctrl_due;     /* to be sent, bits 1 << enum msg_ctrl_kind */
	uint32_t drops;	       /* rx: slots with MSG_DROP */

	/* counters; what is now is filled in by leat_msg_conn_stats_get() */
	struct leat_msg_conn_stats stats;

	/* fragments: what is still to be begun, and to come; see gather.c */
	struct leat_msg_req *tx_frag, *rx_frag; /* NULL: given up */
	uint64_t tx_frag_left, rx_frag_left, rx_frag_total;
	uint8_t rx_frag_lost; /* enum msg_reason: it is dropped, as far as it comes */

	/* half-close */
	bool no_ready;	 /* no send may go the short way */
	bool no_sends;	 /* closing, or shut down here: nothing more can be posted */
	bool end_due;	 /* to be told, when all sends have begun */
	bool peer_ended; /* rx_end is the id behind the last message */
	bool end_told;	 /* LEAT_MSG_SHUTDOWN */
	uint32_t rx_end;

	uint32_t tx_answered; /* ids before it were received; see answer.c */

	/* is the peer alive? times in cycles */
	struct leat_wheel_node alive;
	uint64_t idle_cycles, answer_cycles; /* idle 0: never asked */
	uint64_t answer_by;
	uint32_t came;	/* what had come at the last look */
	uint32_t looks; /* in vain */

	/* see msg_turn_holds() */
	uint32_t given_turn; /* the last turn in which the application got several messages */
	uint16_t given;	     /* how many, so far */
	uint16_t stream;     /* messages that travelled together lately */
	uint16_t nb_held;    /* small messages that wait for the end of the turn */
	uint32_t tx_held;    /* their bytes, as they stand in a send */

	/* seldom */
	void *user;
	uint64_t drain_deadline;
	uint64_t number;	  /* leat mode: of all connections of the process */
	uint64_t buffer_deadline; /* OVER: when the oldest message is dropped, 0: it has a buffer */
	uint32_t first_id;
	uint8_t asked;	 /* mode asked for */
	uint8_t pending; /* events, bits 1 << enum leat_msg_event_type */
	bool closing, draining;
	bool asked_last;   /* draining: the peer was asked whether it listens */
	bool peer_closed;  /* the peer has ended: its last event was seen */
	bool status_final; /* status and text are final */
	int status;
	char text[LEAT_EVENT_TEXT];
} __attribute__((aligned(LEAT_CACHE_LINE)));

static_assert(sizeof(struct leat_msg_req) == 2 * LEAT_CACHE_LINE, "as its header says");
static_assert(offsetof(struct leat_msg_conn, fast) == LEAT_CACHE_LINE, "line 0 is one");
static_assert(offsetof(struct leat_msg_conn, m) == 2 * LEAT_CACHE_LINE, "line 1 is one");

struct leat_msg {
	uintptr_t slots_base; /* ops in here are ours */
	uintptr_t slots_len;
	struct leat_msg_conn *work;
	struct leat_msg_conn *later;
	/* of those that have work some wait for buffers, or for room in the endpoint */
	bool starved;
	/* counts calls of leat_msg_poll(), but a row of those that left requests behind as one */
	uint32_t turn;
	uint32_t held_turn; /* the first one in which messages that wait now were posted */
	bool held;	    /* there are such messages */
	uint8_t cut;	    /* so many calls in a row left requests for the next one */
	bool slow;	    /* for tests: connections take no short way */
	struct msg_list done;
	struct leat_msg_conn *conns;
	struct leat_msg_conn **by_peer;
	bool *rejected;		 /* peers that are told so, and are leaving; by id */
	struct msg_below *below; /* the reactor's part; NULL: below none */
	struct leat_ep *ep;
	struct leat_mr *mr;
	uint8_t *buffers;
	uint32_t eager_max;
	uint32_t nb_open;
	uint16_t max_conns;
	uint16_t credits;
	uint16_t credits_next; /* of new connections, see tune.c */
	uint32_t eager_next;
	uint64_t dev_max;	     /* longest message of the device */
	uint64_t now;		     /* while timers fire */
	uint16_t priv_max[2];	     /* data that connect and accept can carry */
	struct leat_msg_stats stats; /* of connections that are closed; see stats.c */
	struct leat_wheel wheel;     /* timeout.c */
	struct leat_asked asked;     /* by telemetry */
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

/* The next one to begin with, or NULL. */
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

/* A request that has begun is given up: by its task, or since its deadline has passed. */
static inline int
msg_late_status(const struct leat_msg_req *req)
{
	return req->abandoned != 0 ? -ECANCELED : -ETIMEDOUT;
}

/* A request goes back: the next leat_msg_poll() gives it out. */
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

/* many.c: a part of one message to many connections is done. */
void msg_part_given(struct leat_msg *m, struct leat_msg_req *part);

/* What is finished goes back, as far as the order allows. */
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
 * The oldest one of a list, of which no other has begun, is done and goes back: all steps at once.
 * Those behind it that were cancelled are the caller's to give.
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

/* The next one, which comes soon. */
static inline void
msg_slot_prefetch(const struct msg_slot *s)
{
	rte_prefetch0(s);
	rte_prefetch0(&s->op);
	rte_prefetch0(&s->op.tag);
	rte_prefetch0(s->op.drv);
	rte_prefetch0(s->buf);
}

/* A word or two: n is 8 to 16. */
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

/* Copies a message; one of a word or two without a call, or much code where it is inlined. */
static __rte_always_inline void
msg_copy(void *dst, const void *src, uint64_t n)
{
	if (msg_is_words(n))
		msg_copy_words(dst, src, n);
	else
		msg_copy_any(dst, src, n);
}

/* Leat mode: the id of a head that arrived, of which its receive's tag has the low bits. */
static inline uint32_t
msg_rx_id(const struct leat_msg_conn *c, uint64_t tag)
{
	return c->rx_done + (uint16_t)(tag - c->rx_done);
}

/*
 * Leat mode: in the middle of fragments, or behind the other side's end, what comes need not be
 * right: no message goes straight to its request.
 */
static inline bool
msg_rx_in_turn(const struct leat_msg_conn *c)
{
	return c->rx_frag_left > 0 || c->peer_ended;
}

/* Messages that may be on the way or here. There may be more of them, from before a long one. */
static inline uint32_t
msg_rx_window(const struct leat_msg_conn *c)
{
	return unlikely(c->bulk) ? RTE_MIN(c->rx_window, MSG_BULK_WINDOW) : c->rx_window;
}

/* Messages for which no receive is posted, and might be. */
static inline uint32_t
msg_rx_free(const struct leat_msg_conn *c)
{
	const int32_t free = (int32_t)(msg_rx_window(c) - (c->rx_post - c->rx_done));

	return (uint32_t)RTE_MAX(free, 0);
}

/*
 * On to the next message in an eager slot, all of which were checked when they arrived. @return
 * false: there is none
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

/* Runs a connection at the next opportunity. */
static inline void
msg_work(struct leat_msg_conn *c)
{
	if (c->in_work)
		return;
	c->in_work = true;
	c->next_work = c->m->work;
	c->m->work = c;
}

/* Runs it in its turn: other connections wait for buffers, or room in the endpoint, as well. */
static inline void
msg_wait(struct leat_msg_conn *c)
{
	c->waits = c->m->starved = true;
	msg_work(c);
}

/*
 * Does a small message wait, to travel with those that the application posts behind it?
 *
 * An application answers what it gets. So the first message of a turn goes at once if it got one,
 * as in a conversation; if it got several, so many go as soon as they are posted. All else waits
 * for the end of the turn, when leat_msg_poll() finds nothing done, as msg_later() does; or for a
 * bit longer, see MSG_HOLD_TURNS. Where messages travelled together just now, others are under way
 * that will be answered: few that went alone between them would stay alone, and so they wait.
 */
static __rte_always_inline bool
msg_turn_holds(const struct leat_msg *m, const struct leat_msg_conn *c)
{
	return c->want > 1 || c->hold_turn == m->turn || m->cut != 0;
}

/*
 * Posts receives, and fetches what the next message needs, when the application has nothing to do:
 * until then the message that has arrived is what it waits for. With half of the receives gone it
 * is done at once.
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
