/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RING_PVT_H
#define RING_PVT_H

/*
 * The ring: how two lcores exchange ops through memory that both have mapped. Two devices are made
 * of it, each of which compiles these files for itself:
 *
 *     drivers/ring  endpoints of one process. The memory of a connection is the process's, large
 *                   messages and one-sided ops are copied straight from and to the other's buffers.
 *     drivers/shm   endpoints of several processes (RING_FOREIGN). All that goes between them goes
 *                   through the memory of the connection, and nothing that stands in it is trusted.
 *
 * A connection (ring_shared.h) is the only memory that two lcores share. Everything else (links,
 * lists of receives, regions) belongs to one lcore.
 *
 *     ring_link.c   a link's life: up, closing, down
 *     ring_lane.c   the memory of one direction       ring_fence.c  fences on all processors
 *     ring_tx.c     post, acks, cancel              ring_rx.c     poll; ring_poll.h: of which links
 *     ring_match.c  receives and unexpected ones    ring_rma.c    regions, one-sided ops
 *     ring_mark.c   which of many peers have something
 *     ring_datagram.c  post and poll of datagram endpoints      ring_buf.c  their buffers
 *     ring_move.c   large messages in chunks        ring_share.c  memory that both have mapped
 *     ring_telemetry.c  what completions don't tell
 *
 * How connections come about, how a side rings and wakes the other, and devices and endpoints are
 * the device's; what this needs of it is declared at the end.
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
	uint64_t seq;	/* order of posting; others, RING_FOREIGN: bytes that were moved */
	uint64_t nr;	/* others: number of the message */
	uint32_t place; /* and its slot */
};
static_assert(sizeof(struct ring_op) <= sizeof(uint64_t) * LEAT_OP_DRV_WORDS, "fits into an op");

/* seq of an op whose bytes the other side has not asked for. */
#define RING_NOT_GOING UINT64_MAX

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
	const uint32_t *asleep; /* of the other side, if that has a wait object; else NULL */
	uint32_t tx_ack_head;
	uint32_t rx_ack_tail;
	uint32_t rx_mask;

	/* line 3: matching of tagged and of unexpected messages */
	struct ring_oplist trecvs __attribute__((aligned(LEAT_CACHE_LINE)));
	struct ring_notes unexpected[RING_KINDS];

	/* line 4: post, of datagrams */
	struct ring_buf buf __attribute__((aligned(LEAT_CACHE_LINE)));

	/* control */
	struct ring_conn *conn; /* the device's */
	struct ring_dir *mine;	/* words that this side writes, but for consumed */
	struct ring_dir *theirs;
	struct ring_board *their_board;
	struct leat_peer *peer;
	uint32_t idx;  /* in ring_ep.links */
	uint8_t state; /* enum ring_link_state */
	uint8_t side;
	bool tx_refused; /* a post found no room */
	uint32_t recalls_seen;
	uint32_t wanted; /* the other side's want that this one goes by */
	TAILQ_ENTRY(ring_link) pending;
#if RING_FOREIGN
	struct ring_moves moves __attribute__((aligned(LEAT_CACHE_LINE)));
	const struct ring_reach *reach; /* the device's; NULL: nothing */
#endif
} __attribute__((aligned(128)));

static_assert(offsetof(struct ring_link, tx) == LEAT_CACHE_LINE, "poll needs one line");
static_assert(offsetof(struct ring_link, tx_ops) == 2 * LEAT_CACHE_LINE, "post needs one line");
static_assert(offsetof(struct ring_link, trecvs) == 3 * LEAT_CACHE_LINE, "acks need one line");
static_assert(offsetof(struct ring_link, buf) == 4 * LEAT_CACHE_LINE, "matching needs one line");
/* Not a power of two: the first lines of all links would share an eighth of a cache. */
static_assert(sizeof(struct ring_link) == (RING_FOREIGN ? 10 : 6) * LEAT_CACHE_LINE,
	      "a link is six lines, or ten");
static_assert(RING_MTU_MAX * 4 <= RING_BUF_MAX, "a buffer holds some of the longest datagrams");

/* A posted RECV that takes a message of any peer. */
struct ring_recv {
	struct leat_op *op; /* NULL: cancelled */
	uint64_t seq;
};

/* A key: random bits, and the number of the region. */
#define RING_KEY_INDEX_BITS 24
#define RING_KEY_INDEX ((UINT64_C(1) << RING_KEY_INDEX_BITS) - 1)

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
	uint32_t nb;	  /* numbers that there are */
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
	uint32_t nb_polls; /* RING_FOREIGN, many: of which every so many'th looks without a mark */
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
	struct ring_board *board; /* the device's; its own */
	struct ring_queue queue;
	struct ring_mark marks[RING_MARKS];

	/* control */
	struct leat_ep *ep;
	uint32_t want; /* of marks; odd: many */
	bool rescan;   /* links are to be looked at as after a BELL */
	bool dead;     /* aborted */
	uint32_t tx_depth;
	uint32_t mtu; /* of datagrams, else 0 */
	struct ring_lost lost;
	uint32_t nb_closing;
	uint32_t nb_refused;		 /* links of which a post found no room */
	TAILQ_HEAD(, ring_link) pending; /* not up yet */
	void *table_mem;
	struct ring_region *regions;
	uint32_t nb_regions;
	uint32_t free_region;	  /* + 1; 0: none */
	struct ring_share *share; /* RING_FOREIGN; the device's; NULL: none */
	LIST_ENTRY(ring_ep) told; /* by telemetry */
};

/* Arguments that both devices have. */
struct ring_dev {
	uint32_t depth;
	uint32_t inline_max;
	uint32_t tags; /* 0: tagged ops are left to the library */
	uint32_t mtu;
	bool datagram;
};

/* ---- ring_dev.c ---- */

/* Rows of a driver's arguments; the range of depth is its own. */
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
 * Begins an endpoint with a board of its own, as leat_driver.ep_open is asked to; ep->drv is rep.
 * @return 0, or -ENOMEM with leat_err()
 */
int ring_ep_init(struct ring_ep *rep, struct leat_ep *ep, const struct ring_dev *rdev,
		 const struct leat_ep_conf *conf, struct ring_board *board);
/* Frees what that made, also if it failed. */
void ring_ep_fini(struct ring_ep *rep);
/* Of struct leat_driver. */
void ring_ep_quiesce(struct leat_ep *ep);
void ring_ep_abort(struct leat_ep *ep);
int ring_ep_option(struct leat_ep *ep, enum leat_ep_option option, uint32_t *value);

/* ---- the device's ---- */

/* BELL: what the caller did before is seen by the other side when it hears it. */
void ring_link_bell(struct ring_link *link);
/* Wakes the other side, whose ASLEEP is set. */
void ring_link_wake_now(const struct ring_link *link);
/* Tells the other side that this one is closed: CLOSED, then BELL. */
void ring_link_say_closed(struct ring_link *link, enum ring_closed closed);
/* RING_FOREIGN: can the other side still do something? */
bool ring_link_alive(const struct ring_link *link);
/* Drops a link that is on no list any more, and its part of the connection. */
void ring_link_free(struct ring_link *link);
/* Gives up a link that is not up; why: for people at the other side, or NULL. Frees it. */
void ring_link_abandon(struct ring_ep *rep, struct ring_link *link, const char *why);

/*
 * ASLEEP: after something was published for the owner. No fence for the processor: the owner makes
 * all processors execute one before it looks for the last time.
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

/* MARK: for the other side, if that wants marks. Comes before ring_link_wake(). */
static __rte_always_inline void
ring_link_mark(const struct ring_link *link)
{
	if (unlikely(link->board != NULL))
		ring_board_mark_one(link->board, link->mark);
}

/* ---- ring_lane.c ---- */

/* What a direction consists of. */
struct ring_shape {
	uint32_t nb; /* slots, a power of two */
	bool datagram;
	/* RING_FOREIGN */
	uint32_t nb_bytes;  /* of the buffer, a multiple of 128 */
	uint32_t nb_chunks; /* a power of two, or 0 */
};

/* What its parts take, bytes. */
struct ring_lane_size {
	size_t shared; /* of memory that both sides have */
	size_t own;    /* of each side's own */
};

struct ring_lane_size ring_lane_size(const struct ring_shape *shape);
/*
 * Places a lane in shared memory and in memory of its own side's, both aligned to 128 bytes and
 * zeroed. The producer's side initialises what both sides share. RING_FOREIGN: dir and buffer are
 * in there, else they are the caller's.
 */
void ring_lane_place(struct ring_lane *lane, const struct ring_shape *shape, void *shared,
		     void *own, bool producer);

/* ---- ring_telemetry.c ---- */

/* An endpoint that is complete; before it ends. */
void ring_telemetry_add(struct ring_ep *rep);
void ring_telemetry_del(struct ring_ep *rep);

/* ---- ring_fence.c ---- */

/* Can all threads that may publish for this endpoint be made to execute a fence? */
bool ring_fence_offered(void);
/* Makes them. @return false: it failed */
bool ring_fence_all(void);

/* ---- ring_link.c ---- */

/* Begins a link of a peer, which receives nothing until it is up. */
struct ring_link *ring_link_new(struct ring_ep *rep, struct leat_peer *peer, struct ring_conn *conn,
				uint8_t side, enum ring_link_state state);
/* tx: the lane that this side produces into. */
void ring_link_up(struct leat_ep *ep, struct ring_link *link, const struct ring_lane *tx,
		  const struct ring_lane *rx);
/* Nothing more is received from it. */
void ring_link_rx_off(struct ring_link *link);
/* Tells the other side, ends the ops with err; then it is down, or closing until the last ack. */
void ring_link_close(struct leat_ep *ep, struct ring_link *link, enum ring_closed closed, int err);
/* Is a closing link through? Then it is freed. */
void ring_link_try_down(struct leat_ep *ep, struct ring_link *link);
/*
 * The other side's end: what it published before and fits receives is still taken, then the link
 * is closed.
 */
void ring_link_ended(struct leat_ep *ep, struct ring_link *link, int status, const char *text);
/* Of struct leat_driver. */
void ring_disconnect(struct leat_ep *ep, struct leat_peer *peer, int status, const char *text);
/* Ends all that are up, as one that died does. */
void ring_links_abort(struct leat_ep *ep);
/* Frees all that are up or closing, and tells the others. No op is in flight. */
void ring_links_free(struct ring_ep *rep, enum ring_closed closed);
/*
 * Looks at a link that is up, after BELL: what the other side took back, and which marks it wants.
 */
void ring_link_progress(struct ring_ep *rep, struct ring_link *link, bool closed);
/*
 * May the endpoint sleep? @return 0; -EAGAIN: there is something; -EBUSY: a post found no room, and
 * the other side does not tell when a slot is free
 */
int ring_links_idle(struct ring_ep *rep);
/* Those that are closing. */
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
/* @return 0; -EACCES: no such key, or not that right; -ERANGE */
int ring_region_check(const struct ring_ep *rep, uint64_t key, uint64_t addr, uint64_t len,
		      uint32_t access);

enum ring_rma_outcome {
	RING_RMA_DONE,
	RING_RMA_NOTICE, /* a WRITE_IMM that went well and now waits for a RECV */
	RING_RMA_WAITS,	 /* RING_FOREIGN: for its bytes; it is to be looked at again */
};

/* Does a one-sided op that arrived, and acks it. */
enum ring_rma_outcome ring_rma(struct leat_ep *ep, struct ring_link *link, struct ring_slot *slot,
			       uint64_t head, uint64_t nr);

/* ---- small ones for several files ---- */

/* Bytes of large messages are on their way: chunks are to be looked at. */
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

/* What is looked at next is a WRITE whose bytes are not here. */
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

/* The other side broke the rules. */
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

/* Acks are numbered modulo their count, which goes by that of the slots. */
static inline uint32_t
ring_ack_mask(uint32_t slot_mask)
{
	return slot_mask * RING_ACKS + (RING_ACKS - 1);
}

/*
 * ACK: pairs with the load in ring_acks(). The buffers of the op were touched before, and are not
 * touched again.
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
