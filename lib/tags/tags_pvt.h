/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TAGS_PVT_H
#define TAGS_PVT_H

/*
 * The tag layer: tagged ops, matched in software, over any reliable device that can SEND and RECV.
 * It is one of the layers of leat_layer.h: an endpoint with it, the outer one, has an endpoint of
 * the same device inside, the inner one.
 *
 * What becomes of an op of the outer endpoint:
 *
 *     TSEND, SEND     inner SENDs of segments: a header, and a part of the message, copied
 *     TRECV, RECV     a place on a list. The inner RECVs are bounce buffers, which were posted
 *                     when the connection was made
 *     WRITE, READ,    the same op, with the caller's buffer and region
 *     atomics
 *     WRITE_IMM       the same, with a credit: at the peer it takes a bounce buffer
 *
 *     sender                                     receiver
 *
 *     TSEND tag 7                                TRECV tag 7
 *       |                                          |
 *     peer->pending, until there                 e->tagged, by_tag[]: is a message there
 *       |  is a credit                             |  that fits?
 *       |                                          |-- yes: copied, TRECV completes
 *       |                                          `-- no: exact[], wild_recvs
 *     segment: header + copy                                      ^
 *       |                                                         |
 *     inner SEND   ------- device ------->   bounce buffer: is a receive there that fits?
 *       |                                      |-- yes: copied, TRECV completes
 *     sent: TSEND completes                    `-- no: unexpected; e->tagged, by_tag[]
 *       .
 *     peer->acked  <------ done[] --------   copied: the buffer is posted again
 *        a credit is back   (in any header)
 *
 * SEND and RECV do the same without a tag, over e->plain, e->any_recvs and peer->recvs. A receive
 * takes the oldest message that fits, a message the oldest receive.
 *
 * An unexpected message keeps its bounce buffer and its credit, so a peer has a window of them at
 * most, and then waits.
 *
 *     ep.c     opening, closing, the table of functions
 *     io.c     post, poll, cancel
 *     tx.c     from ops to segments: credits, order
 *     rx.c     from segments to ops
 *     match.c  receives that wait for messages, messages that wait for receives
 *     conn.c   peers: hello, events, ends
 *     mem.c    buffers
 *     wire.c   bytes
 *
 * A message up to one segment is sent as it is (EAGER). Of a longer one the first segment goes out
 * (FIRST), and the rest when it has met a receive:
 *
 *     sender                                    receiver
 *     TSEND 9 KiB                 FIRST 4 KiB   in a bounce buffer, until ...
 *                                 ----------->
 *                                 GRANT         ... a TRECV fits: copied, buffer free
 *                                 <-----------
 *                                 DATA 4, 1 KiB
 *                                 ----------->  copied: done
 *
 * Meanwhile other messages to the same peer go on. If the receive is too small it fails, the
 * answer is REFUSE, and the send fails as well; the connection stays.
 *
 * Room. For each peer the inner endpoint has receives for everything that this peer may have on
 * the way: window[c] segments of each class c, CREDITs and a BYE. Only MSG may have to wait for
 * the application. DATA has its receive, replies are taken in at once: so whatever was matched
 * gets through, though all of MSG may be used up by unexpected messages.
 *
 * Each connection also has segments of its own to send with, besides those that all connections
 * share. So peers that take nothing, however many and whatever window they claimed, never hold up
 * the messages to another peer. The device's send depth is shared out in the same way: a part for
 * segments, and a part for one-sided ops.
 *
 * Ends. A side that closes in order says BYE, and disconnects when the other side has answered with
 * BYE, or has not in LEAVE_US. As segments are taken in the order of sending, BYE behind all
 * others, either side then knows that it has all there was, and that the device has nothing of the
 * connection under way:
 *
 *     closes                                    the other side
 *     gives ops back            BYE
 *                               ----------->    sends nothing more
 *                               BYE
 *                               <-----------
 *     disconnects               (device)        DISCONNECTED, status 0
 *
 * If both close at once, each side's BYE answers that of the other side.
 *
 * Credits are returned in every header, and in a CREDIT when half of a class is due: of a window w
 * h = (w + 1) / 2. Why two CREDITs per class on the way are the most: the k-th is sent when kh
 * segments were taken in. The last of them could be sent only after kh - w <= (k - 2)h credits had
 * come back, so after the (k-2)th was taken in. tags_credits() holds the peer to that: a CREDIT has
 * to return something.
 */

#include <sys/queue.h>

#include "leat_error.h"
#include "leat_layer.h"
#include "leat_log.h"
#include "leat_order.h"
#include "tags_wire.h"

/* CREDITs, and a BYE. */
#define TAGS_CONTROLS (2 * TAGS_CLASSES + 1)
/* Windows, where the device's receive depth suffices. */
#define TAGS_MSG_WINDOW 16
#define TAGS_DATA_WINDOW 16
#define TAGS_REPLY_WINDOW 4
/* Receives for one peer: as they should be, and the least. */
#define TAGS_RECVS (TAGS_MSG_WINDOW + TAGS_DATA_WINDOW + TAGS_REPLY_WINDOW + TAGS_CONTROLS)
#define TAGS_RECVS_MIN (2 + 1 + TAGS_REPLY_WINDOW + TAGS_CONTROLS)
/* Bytes of a message in a segment; less if all peers' buffers would take more than this much. */
#define TAGS_SEGMENT 4096
#define TAGS_SEGMENT_FEW 1024
#define TAGS_MEMORY (UINT64_C(64) << 20)
/*
 * Segments to send with: of all connections together; of each one, at most; and the most that it
 * can have in use.
 */
#define TAGS_SHARED 256
#define TAGS_OWN 4
#define TAGS_SENDS 24
/*
 * Segments with another connection's token that a peer may send before its connection is ended:
 * they may be late ones.
 */
#define TAGS_STALE_MAX 256
/* Peers to which the device takes nothing: so many are tried again in a poll. */
#define TAGS_RETRIES 4

#define TAGS_BURST 32

struct tags_peer;
struct tags_tx;
struct tags_place;

/* An op of the inner endpoint that sends: a segment of the pool, or a caller's one-sided op. */
struct tags_iop {
	struct leat_op op;
	struct tags_peer *peer;
	struct tags_tx *tx;	  /* the op it is part of; NULL: none (replies, credits) */
	struct tags_place *place; /* a segment: whose it is; NULL: it is shared */
	STAILQ_ENTRY(tags_iop) link;
};
STAILQ_HEAD(tags_iop_list, tags_iop);

/*
 * A connection's place: the segments that it has for itself, and the token by which those of its
 * peer are known.
 */
struct tags_place {
	uint64_t token;
	struct tags_peer *peer; /* NULL: no connection has it */
	struct tags_iop_list free;
	SLIST_ENTRY(tags_place) link; /* while no connection has it */
};

enum tags_tx_state {
	TAGS_TX_FREE,
	TAGS_TX_PENDING, /* nothing of it is on its way */
	TAGS_TX_ASKED,	 /* FIRST is; the receiver has not answered */
	TAGS_TX_GRANTED, /* on peer->streams */
	TAGS_TX_SENT,	 /* all is on its way */
	TAGS_TX_ONESIDED,
};

/* A send or one-sided op of the caller's. */
struct tags_tx {
	struct tags_iop onesided;
	struct leat_op *op; /* NULL: finished, segments are still with the device */
	struct tags_peer *peer;
	TAILQ_ENTRY(tags_tx) link; /* on one of the peer's lists, or the free list */
	uint64_t sent;		   /* bytes in segments so far */
	uint32_t rid;		   /* of the receiver */
	uint32_t flying;	   /* segments with the device */
	int status;
	uint8_t state;
};
TAILQ_HEAD(tags_tx_list, tags_tx);

enum tags_rx_state {
	TAGS_RX_FREE,
	TAGS_RX_POSTED, /* waits for a message */
	TAGS_RX_STREAM, /* its message is coming */
};

/* A receive of the caller's. */
struct tags_rx {
	struct leat_op *op; /* NULL: it came back already, the rest of its message is dropped */
	struct tags_peer *sender;
	TAILQ_ENTRY(tags_rx) link; /* on the list on which it waits, or the free list */
	uint64_t seq;		   /* order of posting */
	uint64_t got, total;	   /* bytes */
	uint8_t state;
};
TAILQ_HEAD(tags_rx_list, tags_rx);

/*
 * A bounce buffer: with the device, or with a message that waits for a receive, or standing for
 * the reply that is to be sent for its message.
 */
struct tags_rbuf {
	struct leat_op op;
	struct tags_peer *peer;
	TAILQ_ENTRY(tags_rbuf)
	link; /* unexpected: in order of arrival; on peer->replies; to be posted */
	TAILQ_ENTRY(tags_rbuf) same; /* unexpected and tagged: those of one hash value */
	struct tags_hdr hdr;
	uint64_t written; /* WRITE_IMM: bytes */
	uint32_t bytes;	  /* of the message that are here, behind a header of */
	uint32_t hdr_len; /* so many */
	uint32_t rid;	  /* reply: which receive, if it is GRANT */
	uint8_t reply;	  /* TAGS_GRANT or TAGS_REFUSE */
	bool notice;	  /* of a WRITE_IMM */
};
TAILQ_HEAD(tags_rbuf_list, tags_rbuf);

enum tags_peer_state {
	TAGS_P_FREE,
	TAGS_P_CONNECTING,
	TAGS_P_REQUESTED,
	TAGS_P_ACCEPTED, /* its messages may come, ours must wait */
	TAGS_P_UP,
	TAGS_P_ENDING, /* nothing goes on but good-byes; the inner peer's last event is to come */
};

/* Lists of an endpoint on which a peer may be. */
enum tags_queued {
	TAGS_Q_NONE,
	TAGS_Q_TODO,	/* something may be sent to it */
	TAGS_Q_REFUSED, /* the device had no room for it */
};

/* A peer, by its id at the inner endpoint. */
struct tags_peer {
	struct leat_peer *outer; /* NULL: the application does not know it (any more) */
	uint16_t id;
	uint8_t state;
	uint8_t queued;	   /* enum tags_queued */
	bool starved;	   /* something is to be sent when one of its segments is back */
	bool lost;	   /* the device lost something of it: what comes behind is not taken */
	bool bye;	   /* it said BYE */
	bool leaving;	   /* our BYE is to be sent, is on its way, or its answer is waited for */
	bool bye_built;	   /* ... it is on its way */
	bool bye_sent;	   /* ... the device has sent it */
	uint64_t leave_by; /* until then the good-byes hold up the end */
	struct tags_iop *leave; /* our BYE while it is on its way */
	struct tags_place *place;
	uint32_t in_use; /* segments that were built, and are not back */
	uint64_t token;	 /* of segments to it */
	uint32_t stale;	 /* segments from it that came with another token than that of its place */
	uint16_t tx_seq, rx_seq;
	uint16_t segment;	       /* what it takes */
	uint16_t window[TAGS_CLASSES]; /* what it takes */
	uint16_t sent[TAGS_CLASSES], acked[TAGS_CLASSES];
	uint16_t got[TAGS_CLASSES], done[TAGS_CLASSES], told[TAGS_CLASSES];
	struct tags_tx_list pending; /* in order of posting: SEND, TSEND, WRITE_IMM */
	struct tags_tx_list begun;   /* ASKED, SENT, ONESIDED */
	struct tags_tx_list streams; /* in order of grants */
	struct tags_iop_list built;  /* in order, to be posted */
	struct tags_rbuf_list replies;
	struct tags_rbuf_list early; /* segments that came before CONNECTED, in order */
	uint32_t nb_early;
	struct tags_rx_list recvs; /* RECVs from this peer only, posted */
	TAILQ_ENTRY(tags_peer) link;
};

TAILQ_HEAD(tags_peer_list, tags_peer);
SLIST_HEAD(tags_place_list, tags_place);

/* An outer endpoint. */
struct tags_ep {
	struct leat_ep *outer, *inner;
	const struct leat_driver *driver; /* inner's */
	/*
	 * Of bounce buffers: segments must be seen in the order in which they were sent. Some
	 * devices do that alone.
	 */
	struct leat_queue *recv_queue;
	struct tags_peer *peers;	     /* inner's nb_peers */
	struct tags_peer_list todo, refused; /* see enum tags_queued */
	struct tags_iop_list shared;	     /* segments */
	struct tags_tx_list free_tx;
	struct tags_rx_list free_rx;
	struct tags_rbuf_list repost; /* bounce buffers that go back to the device */

	/* Waiting for messages, each in order of posting. */
	struct tags_rx_list any_recvs;	/* RECV of any peer */
	struct tags_rx_list wild_recvs; /* TRECV with bits to ignore */
	struct tags_rx_list *exact;	/* TRECV without, by hash of tag and peer */
	uint32_t hash_mask;
	uint64_t rx_seq;
	uint64_t imm_mask;
	bool notice_token; /* the upper half of a WRITE_IMM's immediate */
	/* Waiting for receives, each in order of arrival. */
	struct tags_rbuf_list plain, tagged;
	struct tags_rbuf_list *by_tag;

	uint16_t window[TAGS_CLASSES];
	uint16_t segment;
	uint32_t nb_recvs, nb_own; /* for each peer */
	uint32_t nb_shared;
	uint32_t nb_onesided, onesided_max; /* one-sided ops with the device */
	uint32_t tx_depth;		    /* inner's */
	uint32_t nb_tx, nb_rx;
	uint16_t priv_connect, priv_accept; /* left for the caller */
	uint32_t nb_chunks;
	uint32_t nb_leaving;	   /* peers that are leaving */
	struct tags_chunk *chunks; /* buffers for one connection each */
	struct tags_place *places; /* nb_chunks of them have segments */
	struct tags_iop *segs;	   /* nb_shared of them */
	uint8_t *seg_mem;
	struct leat_mr *seg_mr;
	struct tags_place_list free_places;
	struct tags_tx *txs;
	struct tags_rx *rxs;
	bool closing; /* peers are not disconnected one by one any more */
	bool aborted; /* receives that come back stay */
};

static inline struct tags_ep *
tags_of(const struct leat_ep *ep)
{
	return ep->drv;
}

/* Of an outer peer. */
static inline struct tags_peer *
tags_peer_of(const struct leat_peer *peer)
{
	return peer->drv;
}

/* ---- io.c ---- */

uint16_t tags_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n);
void tags_poll(struct leat_ep *ep);
int tags_cancel(struct leat_ep *ep, struct leat_op *op);
/* One poll of the inner endpoint. @return ops it returned */
uint16_t tags_inner_poll(struct tags_ep *e);
/* Gives bounce buffers back to the device. */
void tags_repost(struct tags_ep *e);
/* Posts what can be posted. */
void tags_push(struct tags_ep *e);

/* ---- tx.c ---- */

/* The op was started. */
void tags_tx_add(struct tags_ep *e, struct tags_peer *p, struct tags_tx *tx, struct leat_op *op);
void tags_tx_done(struct tags_ep *e, struct tags_iop *iop);
void tags_todo(struct tags_ep *e, struct tags_peer *p);
void tags_todo_run(struct tags_ep *e);
int tags_tx_cancel(struct tags_ep *e, struct tags_tx *tx);
/* The peer answered a FIRST: GRANT or REFUSE. @return NULL, or what is wrong with the answer */
const char *tags_tx_granted(struct tags_ep *e, struct tags_peer *p, const struct tags_hdr *h);
/* Credits that came back. @return NULL, or what is wrong with them */
const char *tags_credits(struct tags_ep *e, struct tags_peer *p, const struct tags_hdr *h);
/*
 * BYE, the last segment of a connection, goes behind those that were built: now, or when the device
 * has room.
 */
void tags_tx_bye(struct tags_ep *e, struct tags_peer *p);
/* The connection is ending: gives back the caller's ops that are not with the device. */
void tags_tx_drop(struct tags_ep *e, struct tags_peer *p, int status);
/* The same, and nothing more is sent: takes back the segments that the device does not have. */
void tags_tx_stop(struct tags_ep *e, struct tags_peer *p, int status);

/* ---- rx.c ---- */

void tags_rx_arrived(struct tags_ep *e, struct tags_rbuf *b);

/* The peer is up: what came before it was. */
void tags_rx_early(struct tags_ep *e, struct tags_peer *p);
/* A receive met a message. Neither is on a list any more. */
void tags_rx_deliver(struct tags_ep *e, struct tags_rx *rx, struct tags_rbuf *b);
/* The message is through with its buffer. */
void tags_rbuf_done(struct tags_ep *e, struct tags_rbuf *b);
void tags_rx_finish(struct tags_ep *e, struct tags_rx *rx, int status, uint64_t len);
/* The connection ended. */
void tags_rx_drop(struct tags_ep *e, struct tags_peer *p, int status);
/* All receives come back. */
void tags_rx_drop_all(struct tags_ep *e, int status);

/* ---- match.c ---- */

/* The oldest message that fits a receive, taken off its lists, or NULL. */
struct tags_rbuf *tags_match_message(struct tags_ep *e, const struct leat_op *op);
/* Posts a receive that no message fits. */
void tags_match_wait(struct tags_ep *e, struct tags_rx *rx);
void tags_match_cancel(struct tags_ep *e, struct tags_rx *rx);
/* The oldest receive that fits a message, taken off its list, or NULL. */
struct tags_rx *tags_match_recv(struct tags_ep *e, const struct tags_rbuf *b);
/* Keeps a message that fits no receive. */
void tags_match_keep(struct tags_ep *e, struct tags_rbuf *b);
void tags_match_forget(struct tags_ep *e, struct tags_rbuf *b);

/* ---- conn.c ---- */

int tags_connect(struct leat_ep *ep, struct leat_peer *peer, const char *addr,
		 const struct leat_conn_params *params);
int tags_accept(struct leat_ep *ep, struct leat_peer *peer, const struct leat_conn_params *params);
void tags_reject(struct leat_ep *ep, struct leat_peer *peer);
void tags_disconnect(struct leat_ep *ep, struct leat_peer *peer, int status, const char *text);
/* The endpoint is being closed: gives back a connection's ops, and says BYE. */
void tags_peer_close(struct tags_ep *e, struct tags_peer *p, int status);
/* BYE came from the peer. */
void tags_peer_said_bye(struct tags_ep *e, struct tags_peer *p);
/* A BYE was sent, or one came: if there were both, it is over. */
void tags_peer_left(struct tags_ep *e, struct tags_peer *p);
/* Ends the good-byes that took too long. */
void tags_peers_leave(struct tags_ep *e, uint64_t now);
/* Takes the inner endpoint's events. */
void tags_events(struct tags_ep *e);
/*
 * An op of the inner endpoint failed: if its connection is ending, the outer peer takes no more
 * ops from now on.
 */
void tags_peer_check(struct tags_ep *e, struct tags_peer *p);
/* Ends a connection, if it has not ended. */
void tags_peer_end(struct tags_ep *e, struct tags_peer *p, int status, const char *text);
/* The same with -EPROTO: the peer broke the protocol. why says how, its subject is the peer. */
void tags_peer_fail(struct tags_ep *e, struct tags_peer *p, const char *why);

/* ---- mem.c ---- */

int tags_mem_open(struct tags_ep *e, const struct leat_ep_conf *conf);
void tags_mem_close(struct tags_ep *e);
/*
 * Room for one more connection. @return its place, with a new token; NULL with rte_errno and
 * leat_err()
 */
struct tags_place *tags_mem_grow(struct tags_ep *e);

#endif /* TAGS_PVT_H */
