/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RING_PVT_H
#define RING_PVT_H

/*
 * The ring driver: endpoints of one process, one lcore each.
 *
 * A connection (ring_shared.h) is the only memory that two lcores share. Everything else (links,
 * lists of receives, regions) belongs to one lcore.
 *
 *     ring_dev.c    the device and the endpoint     ring_name.c   listeners by name, mailboxes
 *     ring_conn.c   connecting                      ring_link.c   a link's life: up, closing, down
 *     ring_tx.c     post, acks, cancel              ring_rx.c     poll; ring_poll.h: of which links
 *     ring_match.c  receives and unexpected ones    ring_rma.c    regions, one-sided ops
 *     ring_mark.c   which of many peers have something
 *     ring_wait.c   sleeping until something happens
 *     ring_datagram.c  post and poll of datagram endpoints      ring_buf.c  their buffers
 *     ring_telemetry.c  what they lost
 */

#include <string.h>

#include <rte_common.h>

#include "leat_driver.h"
#include "leat_error.h"
#include "leat_log.h"
#include "leat_order.h"

#include "ring_shared.h"

#define RING_DEPTH_DEFAULT 512
#define RING_RX_DEPTH_DEFAULT 1024
#define RING_RX_DEPTH_MAX 65536
#define RING_MAX_MSG (UINT64_C(1) << 30)
#define RING_DEAD_PEER_MS 10
/* Of datagrams: the shortest header of a protocol, and more than any NIC's packet. */
#define RING_MTU_MIN 8
#define RING_MTU_MAX 16384
#define RING_MTU_DEFAULT 4096

/* Every poll looks at up to so many links. With more it relies on marks, until few are left. */
#define RING_FEW 16
#define RING_FEW_AGAIN 8
/* Bytes of large messages that a poll copies; then it takes one more slot of each link only. */
#define RING_COPY_BUDGET (256 * 1024)
/* Slots that a poll handles which has no room for ops. */
#define RING_DRIVE_BUDGET 16

/* ---- what belongs to one lcore ---- */

enum ring_link_state {
	RING_LINK_FREE = 0,
	RING_LINK_CONNECTING,
	RING_LINK_REQUESTED, /* the application has not answered */
	RING_LINK_ACCEPTED,  /* it has; up with the next progress */
	RING_LINK_UP,
	RING_LINK_CLOSING, /* waits for acks of ops that the other side was just doing */
};

/* Kinds of messages, which are matched apart. */
enum { RING_PLAIN, RING_TAGGED, RING_KINDS };

/* Receives in posted order, linked through the ops. */
struct ring_oplist {
	struct leat_op *head;
	struct leat_op *tail;
};

/* A driver's words in an op. */
struct ring_op {
	struct leat_op *next; /* receives in a ring_oplist */
	struct leat_op *prev;
	uint64_t seq;	/* order of posting */
	uint64_t nr;	/* others: number of the message */
	uint32_t place; /* and its slot */
};
static_assert(sizeof(struct ring_op) <= sizeof(uint64_t) * LEAT_OP_DRV_WORDS, "fits into an op");

static inline struct ring_op *
ring_op(struct leat_op *op)
{
	return (struct ring_op *)op->drv;
}

/* Where the producer is. */
struct ring_cursor {
	struct ring_slot *slot; /* next to fill */
	uint64_t nr;		/* number of the message that goes there */
	uint32_t place;		/* of the slot */
	uint32_t next;		/* place of the slot after it */
};

/*
 * One side's view of a connection; in the endpoint's table, at the peer's number. An endpoint may
 * have thousands, so that each message finds its link outside of the caches: a small one takes the
 * first two lines, which processors fetch as a pair.
 */
struct ring_link {
	/* line 0: poll */
	struct ring_slot *
		rx_slot; /* next to look at; one that never fills while nothing is to be received */
	struct ring_slot *rx_slots;
	uint64_t rx_scan; /* number of the message in rx_slot */
	uint64_t rx_head; /* of the first not consumed */
	uint64_t *rx_consumed;
	struct ring_oplist recvs; /* RECVs that name this peer */
	uint32_t tx_unacked;	  /* ops that wait for an ack */
	uint16_t id;		  /* of the peer */
	bool may_send;		  /* it is up, and SEND was configured */
	bool rx_long;		  /* datagrams longer than this side's mtu may come */

	/* line 1: post */
	struct ring_cursor tx __attribute__((aligned(LEAT_CACHE_LINE)));
	struct ring_slot *tx_slots;
	uint64_t *tx_nr;
	uint64_t tx_seen; /* consumed, as last seen */
	uint32_t tx_mask;
	uint16_t mark;		  /* number of this link on that board */
	struct ring_board *board; /* of the other side, if that wants marks; else NULL */

	/* line 2: acks, flow control */
	struct leat_op **tx_ops __attribute__((aligned(LEAT_CACHE_LINE)));
	struct ring_ack *tx_acks;
	uint64_t *tx_consumed;
	struct ring_ack *rx_acks;
	struct ring_note *rx_notes;
	struct ring_mbox *wake; /* of the other side, if that has a wait object; else NULL */
	uint32_t tx_ack_head;
	uint32_t rx_ack_tail;
	uint32_t rx_mask;

	/* line 3: matching of tagged and of unexpected messages */
	struct ring_oplist trecvs __attribute__((aligned(LEAT_CACHE_LINE)));
	struct ring_notes unexpected[RING_KINDS];

	/* line 4: post, of datagrams */
	struct ring_buf buf __attribute__((aligned(LEAT_CACHE_LINE)));

	/* control */
	struct ring_conn *conn;
	struct leat_peer *peer;
	uint32_t idx;  /* in ring_ep.links */
	uint8_t state; /* enum ring_link_state */
	uint8_t side;
	bool sent;	 /* CONNECTING: a listener has the request */
	bool tx_refused; /* a post found no room */
	uint32_t recalls_seen;
	uint32_t wanted;   /* the other side's want that this one goes by */
	uint64_t deadline; /* CONNECTING */
	char *addr;	   /* CONNECTING */
	TAILQ_ENTRY(ring_link) pending;
} __attribute__((aligned(128)));

static_assert(offsetof(struct ring_link, tx) == LEAT_CACHE_LINE, "poll needs one line");
static_assert(offsetof(struct ring_link, tx_ops) == 2 * LEAT_CACHE_LINE, "post needs one line");
static_assert(offsetof(struct ring_link, trecvs) == 3 * LEAT_CACHE_LINE, "acks need one line");
static_assert(offsetof(struct ring_link, buf) == 4 * LEAT_CACHE_LINE, "matching needs one line");
/* Not a power of two: the first lines of all links would share an eighth of a cache. */
static_assert(sizeof(struct ring_link) == 6 * LEAT_CACHE_LINE, "a link is six lines");
static_assert(RING_MTU_MAX * 4 <= RING_BUF_MAX, "a buffer holds some of the longest datagrams");

/* A posted RECV that takes a message of any peer. */
struct ring_recv {
	struct leat_op *op; /* NULL: cancelled */
	uint64_t seq;
};

struct ring_region {
	uint64_t key; /* 0: free */
	uint64_t addr;
	uint64_t len;
	uint32_t access;
	uint32_t next_free;
};

/* Datagrams that were lost; written by the owner with relaxed stores, read by telemetry. */
struct ring_lost {
	uint64_t full;	     /* sent here, and found no room */
	uint64_t too_long;   /* arrived here, longer than this side's mtu */
	uint64_t unreceived; /* arrived here, and found no receive */
};

/* Links to be looked at, by their numbers, each once: a FIFO. See ring_poll.h. */
struct ring_queue {
	uint16_t *nrs;
	uint64_t *queued; /* a bit per number */
	uint32_t mask;
	uint32_t head;
	uint32_t tail;
};

/* Marks of a post, that are not on the board yet. */
struct ring_mark {
	struct ring_board *board;
	uint32_t word;
	uint64_t marks;
};

#define RING_MARKS 8 /* words of marks that a post collects */

struct ring_ep {
	/* poll */
	struct ring_link *table;  /* by the peers' numbers */
	struct ring_link **links; /* up or closing; first those that are watched */
	uint32_t nb_links;
	uint32_t nb_watched; /* many: not known yet to be marked by their peers */
	uint32_t start;	     /* of the next poll; many: among those watched */
	bool many;	     /* asked for marks; see ring_mark.h */
	uint32_t nb_marks;   /* in marks[] */
	int64_t copy_left;
	/* RECVs for any peer: a FIFO, so that the fast path touches nothing but the op */
	struct ring_recv *recvs;
	uint32_t recv_mask;
	uint32_t recv_head;
	uint32_t recv_tail;
	uint32_t recv_gaps; /* cancelled ones between head and tail */
	uint32_t inline_max;
	bool can_send; /* SEND and RECV were configured */
	bool can_recv;
	bool datagram;
	uint64_t recv_seq;
	uint32_t nb_unexpected;
	struct ring_oplist trecvs; /* TRECVs for any peer */
	struct ring_notes unexpected[RING_KINDS];
	struct ring_board *board; /* the mailbox's */
	struct ring_queue queue;
	struct ring_mark marks[RING_MARKS];

	/* control */
	struct leat_ep *ep;
	struct ring_mbox *mbox;
	uint32_t want; /* of marks; odd: many */
	uint32_t bell_seen;
	bool rescan;
	bool dead; /* aborted */
	uint32_t tx_depth;
	uint32_t mtu; /* of datagrams, else 0 */
	struct ring_lost lost;
	uint32_t nb_closing;
	uint32_t nb_refused;		 /* links of which a post found no room */
	TAILQ_HEAD(, ring_link) pending; /* not up yet */
	void *table_mem;
	struct ring_region *regions;
	uint32_t nb_regions;
	uint32_t free_region; /* + 1; 0: none */
	struct ring_listener *listener;
	LIST_ENTRY(ring_ep) link; /* datagram endpoints, for telemetry */
};

/* The device's arguments. */
struct ring_dev {
	uint32_t depth;
	uint32_t inline_max;
	uint32_t tags; /* 0: tagged ops are left to the library */
	uint32_t mtu;
	bool datagram;
};

/* ---- ring_name.c ---- */

/* @return NULL: out of memory */
struct ring_mbox *ring_mbox_new(uint32_t max_peers);
void ring_mbox_get(struct ring_mbox *mbox);
void ring_mbox_put(struct ring_mbox *mbox);
/* Refuses requests from now on, and the waiting ones. */
void ring_mbox_close(struct ring_mbox *mbox);
struct ring_conn *ring_mbox_take(struct ring_mbox *mbox);
/* Sends a request to the listener at addr; false: there is none. Sets conn->mbox[1]. */
bool ring_name_send(const char *addr, struct ring_conn *conn);
int ring_name_check(const char *addr, const char *what);
struct ring_listener *ring_name_listen(const char *addr, struct ring_mbox *mbox);
void ring_name_unlisten(struct ring_listener *l);
int ring_name_get(const struct ring_listener *l, char *addr, size_t len);

/* ---- ring_wait.c ---- */

/* Can endpoints of this process have a wait object? */
bool ring_wait_offered(void);
int ring_wait_open(struct ring_mbox *mbox);
int ring_ep_fd(const struct leat_ep *ep);
int ring_ep_arm(struct leat_ep *ep);
void ring_ep_disarm(struct leat_ep *ep);
void ring_wake_now(struct ring_mbox *mbox);

/*
 * ASLEEP: after something was published for the owner. No fence for the processor: the owner makes all
 * processors execute one before it looks for the last time.
 */
static __rte_always_inline void
ring_wake(struct ring_mbox *mbox)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (unlikely(__atomic_load_n(&mbox->asleep, __ATOMIC_RELAXED) != 0))
		ring_wake_now(mbox);
}

/* The same for the other side of a link. */
static __rte_always_inline void
ring_link_wake(const struct ring_link *link)
{
	if (unlikely(link->wake != NULL))
		ring_wake(link->wake);
}

/* MARK: for the other side, if that wants marks. Comes before ring_link_wake(). */
static __rte_always_inline void
ring_link_mark(const struct ring_link *link)
{
	if (unlikely(link->board != NULL))
		ring_board_mark_one(link->board, link->mark);
}

/* BELL: what the caller did before is seen by the owner when it sees the new count. */
static inline void
ring_bell(struct ring_mbox *mbox)
{
	__atomic_fetch_add(&mbox->bell, 1, __ATOMIC_RELEASE);
	ring_wake(mbox);
}

/* ---- ring_conn.c ---- */

void ring_conn_put(struct ring_conn *conn);
/* Leaves REQUEST for an outcome. @return false: it had one already */
bool ring_conn_decide(struct ring_conn *conn, enum ring_conn_state state);
/* Answers a request with no, unless it was taken back. */
void ring_conn_reject(struct ring_conn *conn);
int ring_connect(struct leat_ep *ep, struct leat_peer *peer, const char *addr,
		 const struct leat_conn_params *params);
int ring_accept(struct leat_ep *ep, struct leat_peer *peer, const struct leat_conn_params *params);
void ring_reject(struct leat_ep *ep, struct leat_peer *peer);
void ring_progress(struct leat_ep *ep, uint64_t now);

/* ---- ring_link.c ---- */

struct ring_link *ring_link_new(struct ring_ep *rep, struct leat_peer *peer, struct ring_conn *conn,
				uint8_t side, enum ring_link_state state);
/* Drops a link that is on no list any more, and its reference to the connection. */
void ring_link_free(struct ring_link *link);
void ring_link_up(struct leat_ep *ep, struct ring_link *link);
/* Tells the other side, ends the ops with err; then it is down, or closing until the last ack. */
void ring_link_close(struct leat_ep *ep, struct ring_link *link, enum ring_closed closed, int err);
/* Is a closing link through? Then it is freed. */
void ring_link_try_down(struct leat_ep *ep, struct ring_link *link);
void ring_disconnect(struct leat_ep *ep, struct leat_peer *peer, int status, const char *text);
/* Ends all that are up, as one that died does. */
void ring_links_abort(struct leat_ep *ep);
/* For the end: tells the others and frees all. No op is in flight. */
void ring_links_free(struct ring_ep *rep, enum ring_closed closed);

/* ---- ring_tx.c ---- */

uint16_t ring_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n);
void ring_post_soon(struct leat_ep *ep, uint16_t id);
uint16_t ring_post_waking(struct leat_ep *ep, struct leat_op **ops, uint16_t n);
void ring_acks(struct leat_ep *ep, struct ring_link *link, uint32_t max);
bool ring_recall(struct ring_link *link, struct leat_op *op);
int ring_cancel(struct leat_ep *ep, struct leat_op *op);

/* ---- ring_rx.c ---- */

void ring_poll(struct leat_ep *ep);
/* Everything that is in a link's ring, in one go; for the control path. */
void ring_rx_all(struct leat_ep *ep, struct ring_link *link);
/* Message nr will not be looked at again. FREE is published by ring_rx_publish(). */
void ring_rx_consume_behind(struct ring_link *link, uint64_t nr);

/* ---- ring_datagram.c ---- */

uint16_t ring_datagram_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n);
uint16_t ring_datagram_post_waking(struct leat_ep *ep, struct leat_op **ops, uint16_t n);
void ring_datagram_poll(struct leat_ep *ep);

/* ---- ring_match.c ---- */

void ring_post_recv(struct leat_ep *ep, struct ring_ep *rep, struct leat_op *op);
void ring_recv_remove(struct ring_ep *rep, struct leat_op *op);
/* Finishes the receives that name a link, or all there are. */
void ring_recvs_end_link(struct leat_ep *ep, struct ring_link *link, int status);
void ring_recvs_end_all(struct leat_ep *ep, struct ring_ep *rep, int status);
void ring_note_drop_all(struct ring_ep *rep, struct ring_link *link);
/* Passes over unexpected messages that their sender took back. */
void ring_note_purge(struct ring_ep *rep, struct ring_link *link);

/* ---- ring_rma.c ---- */

int ring_mr_reg(struct leat_ep *ep, struct leat_mr_piece *piece, uint32_t access);
int ring_mr_dereg(struct leat_ep *ep, struct leat_mr_piece *piece);
/*
 * Does a one-sided op that arrived, and acks it.
 * @return true if it is a WRITE_IMM that went well and now waits for a RECV
 */
bool ring_rma(struct ring_ep *rep, struct ring_link *link, struct ring_slot *slot, uint64_t head,
	      uint64_t nr);

/* ---- ring_telemetry.c ---- */

void ring_telemetry_add(struct ring_ep *rep);
void ring_telemetry_del(struct ring_ep *rep);

/* ---- small ones for several files ---- */

/* FREE: pairs with the load in ring_tx.c; what was read from the slots was read before. */
static inline void
ring_rx_publish(struct ring_link *link)
{
	__atomic_store_n(link->rx_consumed, link->rx_head, __ATOMIC_RELEASE);
}

static inline void
ring_rx_consume(struct ring_link *link, uint64_t nr)
{
	if (likely(link->rx_head == nr && link->rx_scan == nr + 1))
		link->rx_head = nr + 1;
	else
		ring_rx_consume_behind(link, nr);
}

/*
 * ACK: pairs with the load in ring_acks(). The buffers of the op were touched before, and are not
 * touched again.
 */
static inline void
ring_ack(struct ring_link *link, uint64_t nr, int status, uint64_t value)
{
	uint32_t n = link->rx_ack_tail++;
	struct ring_ack *a = &link->rx_acks[n & link->rx_mask];

	a->value = value;
	__atomic_store_n(&a->head,
			 (uint64_t)(uint32_t)status << 32 | (nr & link->rx_mask) << 16 |
				 (uint16_t)(n + 1),
			 __ATOMIC_RELEASE);
	ring_link_mark(link);
	ring_link_wake(link);
}

/* CLAIM, the consumer's side. @return false: recalled. The producer's is ring_recall(). */
static inline bool
ring_claim(struct ring_slot *slot)
{
	uint16_t expected = RING_POSTED;

	return __atomic_compare_exchange_n(&slot->state, &expected, RING_CLAIMED, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* Copies what is not in a slot. */
void ring_copy_large(void *dst, const void *src, size_t n);

static inline void
ring_copy_chunk(char *d, const char *s, size_t n, size_t chunk)
{
	/* two chunks that overlap cover chunk..2 * chunk bytes */
	__builtin_memcpy(d, s, chunk);
	__builtin_memcpy(d + n - chunk, s + n - chunk, chunk);
}

/*
 * 16 to 32 bytes, word by word: a message that was just put together from words can't be loaded in larger pieces before
 * it has left the core's store buffer, where it stands behind a line that was asked for.
 */
static inline void
ring_copy_words(char *d, const char *s, size_t n)
{
	uint64_t w[4];

	__builtin_memcpy(&w[0], s, 8);
	__builtin_memcpy(&w[1], s + 8, 8);
	__builtin_memcpy(&w[2], s + n - 16, 8);
	__builtin_memcpy(&w[3], s + n - 8, 8);
	/* or the compiler makes larger pieces of them */
	__asm__ volatile("" : "+r"(w[0]), "+r"(w[1]), "+r"(w[2]), "+r"(w[3]));
	__builtin_memcpy(d, &w[0], 8);
	__builtin_memcpy(d + 8, &w[1], 8);
	__builtin_memcpy(d + n - 16, &w[2], 8);
	__builtin_memcpy(d + n - 8, &w[3], 8);
}

/* Copies 0..RING_INLINE_MAX bytes without a call; never reads or writes outside of them. */
static inline void
ring_copy_small(void *dst, const void *src, size_t n)
{
	const char *s = src;
	char *d = dst;

	if (n > 32) {
		if (n > 64)
			__builtin_memcpy(d + 32, s + 32, 32);
		ring_copy_chunk(d, s, n, 32);
	} else if (n >= 16) {
		ring_copy_words(d, s, n);
	} else if (n >= 8) {
		ring_copy_chunk(d, s, n, 8);
	} else if (n >= 4) {
		ring_copy_chunk(d, s, n, 4);
	} else if (n > 0) {
		d[0] = s[0];
		d[n / 2] = s[n / 2];
		d[n - 1] = s[n - 1];
	}
}

#endif /* RING_PVT_H */
