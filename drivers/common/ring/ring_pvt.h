/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RING_PVT_H
#define RING_PVT_H

/*
 * The ring: how two lcores exchange ops through memory that both have mapped. Two devices are built
 * on it, and each compiles these files for itself:
 *
 *     drivers/ring  endpoints of one process. The memory of a connection is the process's own.
 *                   Large messages and one-sided ops are copied directly between the two sides'
 *                   buffers.
 *     drivers/shm   endpoints of several processes (RING_FOREIGN). All data passes through the
 *                   memory of the connection, or with share=1 through shared buffers
 *                   (ring_share.h). A side trusts nothing that it reads in either.
 *
 * Two lcores share the memory of their connection (ring_shared.h), their boards (ring_board.h), and
 * with share=1 their buffers. Everything else (links, lists of receives, regions) belongs to one
 * lcore.
 *
 *     ring_link.c   a link's states: up, closing, down
 *     ring_lane.c   the memory of one direction       ring_fence.c  fences on all processors
 *     ring_tx.c     post, acks, cancel              ring_rx.c     poll a link
 *     ring_poll.h   which links a poll looks at     ring_rma.c    regions, one-sided ops
 *     ring_match.c  receives, unexpected messages   ring_dev.c    arguments, endpoints
 *     ring_mark.c   which of many links have messages or acks
 *     ring_datagram.c  post and poll of datagram endpoints      ring_buf.c  their buffers
 *     ring_move.c   large messages in chunks        ring_share.c  memory that both have mapped
 *     ring_telemetry.c  counters that completions do not report
 *
 * The device (drivers/ring or drivers/shm) itself connects endpoints, and rings and wakes the peer
 * of a connection; the functions that it provides for this are declared below, "the device's part".
 */

#include <string.h>

#include <rte_common.h>

#include "leat_driver.h"
#include "leat_error.h"
#include "leat_log.h"
#include "leat_order.h"

#include "ring_move.h"
#include "ring_share.h"

#define RING_DEPTH_DEFAULT 512
#define RING_RX_DEPTH_DEFAULT 1024
#define RING_RX_DEPTH_MAX 65536
#define RING_MAX_MSG (UINT64_C(1) << 30)
#define RING_DEAD_PEER_MS 10
/* Range of mtu, B: from a protocol's shortest header to more than any NIC's packet. */
#define RING_MTU_MIN 8
#define RING_MTU_MAX 16384
#define RING_MTU_DEFAULT 4096

/*
 * With up to RING_FEW links every poll looks at each of them. With more the endpoint relies on
 * marks, until only RING_FEW_AGAIN are left.
 */
#define RING_FEW 16
#define RING_FEW_AGAIN 8
/*
 * After copying this many bytes of large messages and datagrams a poll copies at most one more of
 * each further link, or ends if the endpoint relies on marks.
 */
#define RING_COPY_BUDGET (256 * 1024)
/* Slots that a poll handles on a link even if it has no room for completed ops. */
#define RING_DRIVE_BUDGET 16

/* ---- links and endpoints: each belongs to one lcore ---- */

enum ring_link_state {
	RING_LINK_FREE = 0,
	RING_LINK_CONNECTING,
	RING_LINK_REQUESTED, /* the application has not answered the request */
	RING_LINK_ACCEPTED,  /* the application has accepted it; up with the next progress */
	RING_LINK_UP,
	RING_LINK_CLOSING, /* waits for acks of ops that the peer is executing */
};

/* Kinds of messages, matched separately. */
enum { RING_PLAIN, RING_TAGGED, RING_KINDS };

/* Receives in posted order, linked through the ops. */
struct ring_oplist {
	struct leat_op *head;
	struct leat_op *tail;
};

/* The driver's part of an op, in leat_op.drv. */
struct ring_op {
	struct leat_op *next; /* next receive of a ring_oplist, or next op of ring_moves.out_* */
	struct leat_op *prev;
	/* of a receive: order of posting; of another op, if RING_FOREIGN: bytes moved so far */
	uint64_t seq;
	uint64_t nr;	/* of an op other than a receive: number of its message */
	uint32_t place; /* of an op other than a receive: place of its slot */
};
static_assert(sizeof(struct ring_op) <= sizeof(uint64_t) * LEAT_OP_DRV_WORDS, "fits into an op");

/* seq of an op whose bytes the peer has not asked for. */
#define RING_NOT_REQUESTED UINT64_MAX

static inline struct ring_op *
ring_op(struct leat_op *op)
{
	return (struct ring_op *)op->drv;
}

/* Where the producer writes next. */
struct ring_cursor {
	struct ring_slot *slot; /* next slot to fill */
	uint64_t nr;		/* number of the message that goes into slot */
	uint32_t place;		/* place of slot */
	uint32_t next;		/* place of the slot of message nr + 1 */
};

/*
 * One side's view of a connection. It is in the endpoint's table, at the peer's id. With
 * thousands of links in a table most messages find their link outside the caches. A small message
 * needs the first two lines only, which processors fetch as a pair.
 */
struct ring_link {
	/* line 0: poll */
	/* next slot to scan; while the link must not receive, a slot that never fills */
	struct ring_slot *rx_slot;
	struct ring_slot *rx_slots;
	uint64_t rx_scan; /* number of the message expected in rx_slot */
	uint64_t rx_head; /* number of the first message not consumed */
	uint64_t *rx_consumed;
	struct ring_oplist recvs; /* RECVs that name this peer */
	uint32_t tx_unacked;	  /* ops that wait for an ack */
	uint16_t id;		  /* id of the peer */
	bool may_send;		  /* the link is up, and SEND was configured */
	bool rx_long;		  /* the peer may send datagrams longer than this side's mtu */

	/* line 1: post */
	struct ring_cursor tx __attribute__((aligned(LEAT_CACHE_LINE)));
	struct ring_slot *tx_slots;
	uint64_t *tx_nr;
	uint64_t tx_seen; /* the peer's dir.consumed, as last read */
	uint32_t tx_mask;
	uint16_t mark;		  /* bit of this link on the peer's board */
	struct ring_board *board; /* the peer's board, while it wants marks; else NULL */

	/* line 2: acks, flow control */
	struct leat_op **tx_ops __attribute__((aligned(LEAT_CACHE_LINE)));
	struct ring_ack *tx_acks;
	uint64_t *tx_consumed;
	struct ring_ack *rx_acks;
	struct ring_note *rx_notes;
	const uint32_t *asleep; /* the peer's ASLEEP word; NULL: the peer has no wait object */
	uint32_t tx_ack_head;
	uint32_t rx_ack_tail;
	uint32_t rx_mask;

	/* line 3: matching of tagged and of unexpected messages */
	struct ring_oplist trecvs __attribute__((aligned(LEAT_CACHE_LINE)));
	struct ring_notes unexpected[RING_KINDS];

	/* line 4: post of datagrams */
	struct ring_buf buf __attribute__((aligned(LEAT_CACHE_LINE)));

	/* control */
	struct ring_conn *conn; /* of a type that the device defines */
	struct ring_dir *mine;	/* this side writes it, except consumed and chunks_taken */
	struct ring_dir *theirs;
	struct ring_board *their_board; /* the peer's board, also while it wants no marks */
	struct leat_peer *peer;
	uint32_t idx;	       /* index in ring_ep.links */
	uint8_t state;	       /* enum ring_link_state */
	uint8_t side;	       /* 0: connector, 1: acceptor */
	bool tx_refused;       /* a post found no room */
	uint32_t recalls_seen; /* number of ops that the peer recalled, as last read */
	uint32_t wanted;       /* the peer's want (ring_mark.h) that this side obeys */
	TAILQ_ENTRY(ring_link) pending;
#if RING_FOREIGN
	struct ring_moves moves __attribute__((aligned(LEAT_CACHE_LINE)));
	const struct ring_reach *reach; /* memory that the peer shares; NULL: it shares none */
#endif
} __attribute__((aligned(128)));

static_assert(offsetof(struct ring_link, tx) == LEAT_CACHE_LINE, "poll needs one line");
static_assert(offsetof(struct ring_link, tx_ops) == 2 * LEAT_CACHE_LINE, "post needs one line");
static_assert(offsetof(struct ring_link, trecvs) == 3 * LEAT_CACHE_LINE, "acks need one line");
static_assert(offsetof(struct ring_link, buf) == 4 * LEAT_CACHE_LINE, "matching needs one line");
/*
 * The size is not a power of two: otherwise the first lines of all links would share few cache
 * sets.
 */
static_assert(sizeof(struct ring_link) == (RING_FOREIGN ? 10 : 6) * LEAT_CACHE_LINE,
	      "a link is six lines, or ten");
static_assert(RING_MTU_MAX * 4 <= RING_BUF_MAX, "a buffer holds some of the longest datagrams");

/* A posted RECV for a message of any peer. */
struct ring_recv {
	struct leat_op *op; /* NULL: a gap, the RECV was cancelled */
	uint64_t seq;	    /* order of posting */
};

/* A key: random bits, and below them the number of the region. */
#define RING_KEY_INDEX_BITS 24
#define RING_KEY_INDEX ((UINT64_C(1) << RING_KEY_INDEX_BITS) - 1)

struct ring_region {
	uint64_t key; /* 0: free */
	uint64_t addr;
	uint64_t len;
	uint32_t access;    /* LEAT_MR_* */
	uint32_t next_free; /* number of the next free region + 1; 0: none */
};

/* Counts of lost datagrams; written by the owner with relaxed stores, read by telemetry. */
struct ring_lost {
	uint64_t full;	     /* this endpoint sent them, and the ring or buffer had no room */
	uint64_t too_long;   /* they came to this endpoint, and were longer than its mtu */
	uint64_t unreceived; /* they came to this endpoint, and no receive was posted */
};

/* Ids of links that a poll must look at: a FIFO with each id at most once, see ring_poll.h. */
struct ring_queue {
	uint16_t *nrs;
	uint64_t *queued; /* a bit per id: is it in the FIFO? */
	uint32_t nb;	  /* ids are 0..nb - 1 */
	uint32_t mask;
	uint32_t head;
	uint32_t tail;
};

/* Marks that a post collects in one word of a board, before it puts them there. */
struct ring_mark {
	struct ring_board *board;
	uint32_t word;
	uint64_t marks;
};

#define RING_MARKS 8 /* words of marks that a post collects, at most */

struct ring_ep {
	/* poll */
	struct ring_link *table;  /* links by peer id */
	struct ring_link **links; /* up or closing; the watched ones first */
	uint32_t nb_links;
	uint32_t nb_watched; /* if many is set: links whose peers are not known to mark yet */
	uint32_t start;	     /* links[start] is the first that the next poll looks at */
	bool many;	     /* this endpoint asks its peers for marks; see ring_mark.h */
	uint32_t nb_marks;   /* entries of marks[] */
	uint32_t nb_polls;   /* polls, if RING_FOREIGN and many; see ring_unmarked() */
	int64_t copy_left;   /* bytes left of this poll's RING_COPY_BUDGET */
	/* RECVs for any peer: a FIFO, so that the fast path touches nothing but the op */
	struct ring_recv *recvs;
	uint32_t recv_mask;
	uint32_t recv_head;
	uint32_t recv_tail;
	uint32_t recv_gaps; /* cancelled RECVs between head and tail */
	uint32_t inline_max;
	bool can_send; /* SEND is configured; can_recv: RECV is configured */
	bool can_recv;
	bool datagram;
	uint64_t recv_seq;
	uint32_t nb_unexpected;
	struct ring_oplist trecvs; /* TRECVs for any peer */
	struct ring_notes unexpected[RING_KINDS];
	struct ring_board *board; /* board of this endpoint; the device owns the memory */
	struct ring_queue queue;
	struct ring_mark marks[RING_MARKS];

	/* control */
	struct leat_ep *ep;
	uint32_t want; /* current want of marks (ring_mark.h); odd while many */
	bool rescan;   /* the next progress looks at all links, as after a BELL */
	bool dead;     /* aborted */
	uint32_t tx_depth;
	uint32_t mtu; /* bytes of the longest datagram; 0: reliable endpoint */
	struct ring_lost lost;
	uint32_t nb_closing;
	uint32_t nb_refused;		 /* links with tx_refused */
	TAILQ_HEAD(, ring_link) pending; /* links that are not up yet */
	void *table_mem;
	struct ring_region *regions;
	uint32_t nb_regions;
	uint32_t free_region;	      /* number of the first free region + 1; 0: none */
	struct ring_share *share;     /* RING_FOREIGN: memory shared with peers; NULL: none */
	LIST_ENTRY(ring_ep) reported; /* entry in the list that telemetry reports */
};

/* Device arguments common to both devices. */
struct ring_dev {
	uint32_t depth;	     /* slots per direction */
	uint32_t inline_max; /* bytes */
	uint32_t tags;	     /* 0: the library matches tags, not this driver */
	uint32_t mtu;	     /* bytes of the longest datagram */
	bool datagram;
};

/* ---- ring_dev.c ---- */

/* Rows of a driver's argument table; depths is the driver's own range of depth. */
#define RING_DEV_ARGS(depths)                                                                      \
	RING_DEV_ARG("depth", depths, "512",                                                       \
		     "default send depth; an endpoint's, rounded up to a power of two, is the "    \
		     "number of slots in its direction of each connection"),                       \
		RING_DEV_ARG("inline", "0..96", "96",                                              \
			     "messages up to this many bytes are copied into the slot"),           \
		RING_DEV_ARG("tags", "0|1", "1",                                                   \
			     "0: without tagged ops of its own, the library's are used"),          \
		RING_DEV_ARG("type", "reliable|datagram", "reliable", "of endpoints"),             \
		RING_DEV_ARG("mtu", "8..16384", "4096",                                            \
			     "bytes of the longest datagram; with type=datagram only")
#define RING_DEV_ARG(key, values, def, help)                                                       \
	{                                                                                          \
		key, values, def, help                                                             \
	}

int ring_dev_parse(struct ring_dev *rdev, const struct rte_kvargs *kv);
void ring_dev_info(const struct ring_dev *rdev, struct leat_dev_info *info);
/*
 * Initialise an endpoint as leat_driver.ep_open requires, and set ep->drv to rep. rep is zeroed.
 * board is the endpoint's own, or NULL if the device sets rep->board later.
 * @return 0, or -ENOMEM with leat_err()
 */
int ring_ep_init(struct ring_ep *rep, struct leat_ep *ep, const struct ring_dev *rdev,
		 const struct leat_ep_conf *conf, struct ring_board *board);
/* Free what ring_ep_init() allocated, also if it failed. */
void ring_ep_fini(struct ring_ep *rep);
/* Operations of struct leat_driver. */
void ring_ep_quiesce(struct leat_ep *ep);
void ring_ep_abort(struct leat_ep *ep);
int ring_ep_option(struct leat_ep *ep, enum leat_ep_option option, uint32_t *value);

/* ---- the device's part: each of the two devices defines these ---- */

/* Ring the peer's BELL. When the peer sees the bell, it sees all that the caller did before. */
void ring_link_bell(struct ring_link *link);
/* Wake the peer, whose ASLEEP is set. */
void ring_link_wake_now(const struct ring_link *link);
/* Tell the peer that this side is closed: CLOSED, then BELL. */
void ring_link_report_closed(struct ring_link *link, enum ring_closed closed);
/* Can the peer still touch memory of this side? Used with RING_FOREIGN only. */
bool ring_link_alive(const struct ring_link *link);
/* Free a link that was removed from all lists, and this side's part of the connection. */
void ring_link_free(struct ring_link *link);
/*
 * Abandon and free a link that is not up.
 * @param why reason, which the event at the peer's side shows (drivers/shm only); NULL: none
 */
void ring_link_abandon(struct ring_ep *rep, struct ring_link *link, const char *why);

/*
 * Wake the peer if it sleeps (edge ASLEEP), after something was published for it. No processor
 * fence is needed: before the sleeper's last look at its links, it makes all processors execute a
 * fence.
 */
static __rte_always_inline void
ring_link_wake(const struct ring_link *link)
{
	if (likely(link->asleep == NULL))
		return;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (unlikely(__atomic_load_n(link->asleep, __ATOMIC_RELAXED) != 0))
		ring_link_wake_now(link);
}

/* Mark the link on its peer's board, if the peer wants marks. Call before ring_link_wake(). */
static __rte_always_inline void
ring_link_mark(const struct ring_link *link)
{
	if (unlikely(link->board != NULL))
		ring_board_mark_one(link->board, link->mark);
}

/* ---- ring_lane.c ---- */

/* The sizes of a direction's parts. */
struct ring_shape {
	uint32_t nb; /* slots, a power of two */
	bool datagram;
	/* with RING_FOREIGN only */
	uint32_t nb_bytes;  /* bytes of the buffer, a multiple of 128 */
	uint32_t nb_chunks; /* a power of two, or 0 */
};

/* Memory that a direction needs, in bytes. */
struct ring_lane_size {
	size_t shared; /* mapped by both sides */
	size_t own;    /* private to each side */
};

struct ring_lane_size ring_lane_size(const struct ring_shape *shape);
/*
 * Place a lane in the two pieces of memory that ring_lane_size() counts, both aligned to 128 bytes
 * and zeroed. If producer is true, initialise the shared part as well. RING_FOREIGN: dir and buffer
 * are in the shared part; otherwise the caller has set lane->dir and lane->buf.
 */
void ring_lane_place(struct ring_lane *lane, const struct ring_shape *shape, void *shared,
		     void *own, bool producer);

/* ---- ring_telemetry.c ---- */

/* Report an endpoint from now on. Call it when the endpoint is complete. */
void ring_telemetry_add(struct ring_ep *rep);
/* Stop reporting an endpoint. Call it before the endpoint is freed. */
void ring_telemetry_del(struct ring_ep *rep);

/* ---- ring_fence.c ---- */

/* Can this process make every thread that may publish for its endpoints execute a fence? */
bool ring_fence_offered(void);
/* Make each thread that may publish for this process execute a fence. @return false: it failed */
bool ring_fence_all(void);

/* ---- ring_link.c ---- */

/* Initialise a peer's link and put it on the pending list. It receives nothing until it is up. */
struct ring_link *ring_link_new(struct ring_ep *rep, struct leat_peer *peer, struct ring_conn *conn,
				uint8_t side, enum ring_link_state state);
/* Bring a link up. This side produces into tx and consumes from rx. */
void ring_link_up(struct leat_ep *ep, struct ring_link *link, const struct ring_lane *tx,
		  const struct ring_lane *rx);
/* Receive nothing more from a link. */
void ring_link_rx_off(struct ring_link *link);
/*
 * Close a link that is up: finish its ops with err and tell the peer. The link is down at once, or
 * closing until the last ack has arrived.
 */
void ring_link_close(struct leat_ep *ep, struct ring_link *link, enum ring_closed closed, int err);
/* Free a closing link and report the peer down, if nothing is outstanding on it. */
void ring_link_try_down(struct leat_ep *ep, struct ring_link *link);
/*
 * Close a link whose peer has ended. Messages that the peer published before, and that fit posted
 * receives, are delivered first.
 */
void ring_link_ended(struct leat_ep *ep, struct ring_link *link, int status, const char *text);
/* Implement leat_driver.disconnect. */
void ring_disconnect(struct leat_ep *ep, struct leat_peer *peer, int status, const char *text);
/* Close all links that are up: their peers see RING_DEAD, their ops end with -ESHUTDOWN. */
void ring_links_abort(struct leat_ep *ep);
/* Free all links that are up or closing, and tell their peers. No op may be in flight. */
void ring_links_free(struct ring_ep *rep, enum ring_closed closed);
/*
 * Look at a link that is up, after a BELL: skip messages that the peer took back, and start or stop
 * marking as the peer asks.
 * @param closed the peer has closed and publishes nothing more
 */
void ring_link_progress(struct ring_ep *rep, struct ring_link *link, bool closed);
/*
 * May the endpoint sleep?
 * @return 0; -EAGAIN: a link has something to poll, or room for a refused post; -EBUSY: a post
 * found no room, and its peer will not report when a slot is free
 */
int ring_links_idle(struct ring_ep *rep);
/* Call ring_link_try_down() for all closing links. */
void ring_closing_progress(struct leat_ep *ep, struct ring_ep *rep);

/* ---- ring_tx.c ---- */

uint16_t ring_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n);
void ring_post_soon(struct leat_ep *ep, uint16_t id);
uint16_t ring_post_waking(struct leat_ep *ep, struct leat_op **ops, uint16_t n);
void ring_acks(struct leat_ep *ep, struct ring_link *link, uint32_t max);
bool ring_recall(struct ring_link *link, struct leat_op *op);
int ring_cancel(struct leat_ep *ep, struct leat_op *op);

/* ---- ring_rx.c ---- */

void ring_poll(struct leat_ep *ep);
/* Handle the messages in a link's ring, at most one per slot; for the control path. */
void ring_rx_all(struct leat_ep *ep, struct ring_link *link);
/* Consume message nr out of order. ring_rx_publish() frees its slot later. */
void ring_rx_consume_behind(struct ring_link *link, uint64_t nr);

/* ---- ring_datagram.c ---- */

uint16_t ring_datagram_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n);
uint16_t ring_datagram_post_waking(struct leat_ep *ep, struct leat_op **ops, uint16_t n);
void ring_datagram_poll(struct leat_ep *ep);

/* ---- ring_match.c ---- */

void ring_post_recv(struct leat_ep *ep, struct ring_ep *rep, struct leat_op *op);
void ring_recv_remove(struct ring_ep *rep, struct leat_op *op);
/* Finish the receives that name a link's peer, or all receives of the endpoint, with status. */
void ring_recvs_end_link(struct leat_ep *ep, struct ring_link *link, int status);
void ring_recvs_end_all(struct leat_ep *ep, struct ring_ep *rep, int status);
/* Drop a link's notes of unexpected messages. */
void ring_note_drop_all(struct ring_ep *rep, struct ring_link *link);
/* Consume unexpected messages that their sender took back. */
void ring_note_purge(struct ring_ep *rep, struct ring_link *link);

/* ---- ring_rma.c ---- */

int ring_mr_reg(struct leat_ep *ep, struct leat_mr_piece *piece, uint32_t access);
int ring_mr_dereg(struct leat_ep *ep, struct leat_mr_piece *piece);
/*
 * Check a remote access.
 * @return 0; -EACCES: no region has that key, or it does not permit the access; -ERANGE: the bytes
 * are not all in the region
 */
int ring_region_check(const struct ring_ep *rep, uint64_t key, uint64_t addr, uint64_t len,
		      uint32_t access);

enum ring_rma_outcome {
	RING_RMA_DONE,
	RING_RMA_NOTICE, /* a WRITE_IMM succeeded; its notice needs a RECV */
	RING_RMA_WAITS,	 /* RING_FOREIGN: the op waits for its bytes; call again later */
};

/* Execute a one-sided op that arrived, and ack it. */
enum ring_rma_outcome ring_rma(struct leat_ep *ep, struct ring_link *link, struct ring_slot *slot,
			       uint64_t head, uint64_t nr);

/* ---- inline helpers that several files use ---- */

/* Are large messages in progress on this link? Then polls must look at its chunks. */
static inline bool
ring_moving(const struct ring_link *link)
{
#if RING_FOREIGN
	return link->moves.nb > 0;
#else
	RTE_SET_USED(link);
	return false;
#endif
}

/* Is the next message to scan a WRITE whose bytes have not all arrived? */
static inline bool
ring_rma_waits(const struct ring_link *link)
{
#if RING_FOREIGN
	return link->moves.write.kind != RING_MOVE_NONE && !link->moves.write.ready;
#else
	RTE_SET_USED(link);
	return false;
#endif
}

/* Did the peer break the protocol? */
static inline bool
ring_violated(const struct ring_link *link)
{
#if RING_FOREIGN
	return link->moves.violation != NULL;
#else
	RTE_SET_USED(link);
	return false;
#endif
}

/* Free the consumed slots, after all reads of them. Edge FREE: pairs with loads in ring_tx.c. */
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

/* Mask that turns an ack's number into its index: there are RING_ACKS acks per slot. */
static inline uint32_t
ring_ack_mask(uint32_t slot_mask)
{
	return slot_mask * RING_ACKS + (RING_ACKS - 1);
}

/*
 * Acknowledge message nr. Edge ACK: pairs with the load in ring_acks(). This side does not touch
 * the op's buffers after the ack.
 */
static inline void
ring_ack(struct ring_link *link, uint64_t nr, int status, uint64_t value)
{
	uint32_t n = link->rx_ack_tail++;
	struct ring_ack *a = &link->rx_acks[n & ring_ack_mask(link->rx_mask)];

	a->value = value;
	__atomic_store_n(&a->head,
			 (uint64_t)(uint32_t)status << 32 | (nr & link->rx_mask) << 16 |
				 (uint16_t)(n + 1),
			 __ATOMIC_RELEASE);
	ring_link_mark(link);
	ring_link_wake(link);
}

/*
 * Claim an op, to execute it. This is the consumer's side of CLAIM; the producer's side is
 * ring_recall().
 * @return false: the producer has recalled the op
 */
static inline bool
ring_claim(struct ring_slot *slot)
{
	uint16_t expected = RING_POSTED;

	return __atomic_compare_exchange_n(&slot->state, &expected, RING_CLAIMED, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* Copy a payload that is not inline in a slot. */
void ring_copy_large(void *dst, const void *src, size_t n);

static inline void
ring_copy_chunk(char *d, const char *s, size_t n, size_t chunk)
{
	/* two copies that may overlap cover any n from chunk to 2 * chunk */
	__builtin_memcpy(d, s, chunk);
	__builtin_memcpy(d + n - chunk, s + n - chunk, chunk);
}

/*
 * Copy 16 to 32 bytes, word by word. The caller may just have stored the message as words. As long
 * as these words are in the core's store buffer, a load of one word is served from there, but a
 * wider load waits until they have left it, which takes as long as older stores wait for their
 * cache lines.
 */
static inline void
ring_copy_words(char *d, const char *s, size_t n)
{
	uint64_t w[4];

	__builtin_memcpy(&w[0], s, 8);
	__builtin_memcpy(&w[1], s + 8, 8);
	__builtin_memcpy(&w[2], s + n - 16, 8);
	__builtin_memcpy(&w[3], s + n - 8, 8);
	/* keep the compiler from merging the words into larger loads */
	__asm__ volatile("" : "+r"(w[0]), "+r"(w[1]), "+r"(w[2]), "+r"(w[3]));
	__builtin_memcpy(d, &w[0], 8);
	__builtin_memcpy(d + 8, &w[1], 8);
	__builtin_memcpy(d + n - 16, &w[2], 8);
	__builtin_memcpy(d + n - 8, &w[3], 8);
}

/* Copy 0..RING_INLINE_MAX bytes without a call; never reads or writes outside of them. */
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
