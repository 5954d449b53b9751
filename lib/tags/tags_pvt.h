/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TAGS_PVT_H
#define TAGS_PVT_H

/*
 * The tag layer: tagged ops, matched in software, over any reliable device that can SEND and RECV.
 * It is one of the layers of leat_layer.h: the application's endpoint, the outer one, contains an
 * endpoint of the same device, the inner one.
 *
 * What the layer makes of an op of the outer endpoint:
 *
 *     TSEND, SEND     inner SENDs of segments: a header, and a copied part of the message
 *     TRECV, RECV     an entry of a list. The inner RECVs are bounce buffers, which are posted
 *                     before the connection is made
 *     WRITE, READ,    the same inner op, with the caller's buffer and region
 *     atomics
 *     WRITE_IMM       the same inner op, with a credit: it uses up a bounce buffer of the peer
 *
 *     sender                                     receiver
 *
 *     TSEND tag 7                                TRECV tag 7
 *       |                                          |
 *     peer->pending, until there                 e->tagged, by_tag[]: is there a message
 *       |  is a credit                             |  that fits?
 *       |                                          |-- yes: copied, TRECV completes
 *       |                                          `-- no: exact[], wild_recvs
 *     segment: header + copy                                      ^
 *       |                                                         |
 *     inner SEND   ------- device ------->   bounce buffer: is there a receive that fits?
 *       |                                      |-- yes: copied, TRECV completes
 *     sent: TSEND completes                    `-- no: unexpected; e->tagged, by_tag[]
 *       .
 *     peer->acked  <------ done[] --------   copied: the buffer is posted again
 *        a credit is back   (in any header)
 *
 * SEND and RECV work the same way without a tag, over e->plain, e->any_recvs and peer->recvs. A new
 * receive gets the oldest message that fits; a new message goes to the oldest receive that fits.
 *
 * An unexpected message keeps its bounce buffer and its credit. So a peer can have at most a window
 * of unexpected messages here; then its sends wait.
 *
 *     ep.c     opening, closing, the table of functions
 *     io.c     post, poll, cancel
 *     tx.c     sending: from ops to segments; credits, order
 *     rx.c     receiving: from segments to ops
 *     match.c  receives that wait for messages, messages that wait for receives
 *     conn.c   peers: hello, events, disconnect
 *     mem.c    buffers
 *     wire.c   encoding and decoding
 *
 * A message of up to one segment is sent in one (EAGER). Of a longer message the sender sends the
 * first segment (FIRST), and the rest once the first has met a receive:
 *
 *     sender                                    receiver
 *     TSEND 9 KiB                 FIRST 4 KiB   in a bounce buffer, until ...
 *                                 ----------->
 *                                 GRANT         ... a TRECV fits: copied, buffer free
 *                                 <-----------
 *                                 DATA 4, 1 KiB
 *                                 ----------->  copied: done
 *
 * Meanwhile other messages to the same peer are sent. If the receive is too small it fails, the
 * receiver answers REFUSE, and the send fails as well. The connection stays up.
 *
 * Room for receiving. For each peer the inner endpoint has receives posted for everything that this
 * peer may have on the way: window[c] segments of each class c, CREDITs and a BYE. Only segments of
 * class MSG may have to wait for the application, since DATA has its receive, and replies are
 * processed at once. So a message that has met its receive gets through, even if unexpected
 * messages use up the whole window of class MSG.
 *
 * Room for sending. Each connection has segments of its own, besides those that all connections
 * share. So peers that accept nothing never hold up messages to another peer, however many they are
 * and whatever windows they claimed. The device's send depth is divided, too: into a part for
 * segments, and a part for one-sided ops.
 *
 * Disconnect. A side that closes cleanly says BYE, and disconnects when the other side has
 * answered with BYE, or has not answered within LEAVE_US. Segments are processed in the order of
 * sending, and BYE is the last one, so a side that has received BYE has received everything. Once
 * both sides have received BYE, the device has nothing of the connection under way:
 *
 *     closes                                    the other side
 *     gives ops back            BYE
 *                               ----------->    sends nothing more
 *                               BYE
 *                               <-----------
 *     disconnects               (device)        DISCONNECTED, status 0
 *
 * If both sides close at once, each side's BYE answers the other side's.
 *
 * Credits are returned in every header, and in a CREDIT when h = (w + 1) / 2 credits of a class are
 * due, half of its window w. At most two CREDITs per class are on the way. Proof: the k-th CREDIT
 * is sent when kh segments were received. The sender could send the last of these only after
 * kh - w <= (k - 2)h credits had come back, that is after it had received the (k-2)th CREDIT.
 * tags_credits() enforces that: a CREDIT must return something.
 */

#include <sys/queue.h>

#include "leat_error.h"
#include "leat_layer.h"
#include "leat_log.h"
#include "leat_order.h"
#include "tags_wire.h"

/* Number of receives per peer for CREDITs and for a BYE. */
#define TAGS_CONTROLS (2 * TAGS_CLASSES + 1)
/* Windows, in segments, if the device's receive depth suffices. */
#define TAGS_MSG_WINDOW 16
#define TAGS_DATA_WINDOW 16
#define TAGS_REPLY_WINDOW 4
/* Number of receives per peer; _MIN: if the device's receive depth has no room for more. */
#define TAGS_RECVS (TAGS_MSG_WINDOW + TAGS_DATA_WINDOW + TAGS_REPLY_WINDOW + TAGS_CONTROLS)
#define TAGS_RECVS_MIN (2 + 1 + TAGS_REPLY_WINDOW + TAGS_CONTROLS)
/*
 * Maximum number of bytes of a message per segment. If the buffers of all peers would take more
 * than TAGS_MEMORY bytes, segments are shorter, down to TAGS_SEGMENT_FEW.
 */
#define TAGS_SEGMENT 4096
#define TAGS_SEGMENT_FEW 1024
#define TAGS_MEMORY (UINT64_C(64) << 20)
/*
 * Number of segments for sending: shared by all connections; maximum that a connection has of its
 * own; maximum that one connection uses at a time.
 */
#define TAGS_SHARED 256
#define TAGS_OWN 4
#define TAGS_SENDS 24
/*
 * Maximum number of segments that a peer may send with a token of no present connection, since they
 * may be late segments of an earlier connection. When the peer sends more, its connection is ended.
 */
#define TAGS_STALE_MAX 256
/* Maximum number of peers in TAGS_Q_REFUSED that one poll tries again. */
#define TAGS_RETRIES 4

#define TAGS_BURST 32

struct tags_peer;
struct tags_tx;
struct tags_place;

/* An op of the inner endpoint for sending: a segment, or the caller's one-sided op. */
struct tags_iop {
	struct leat_op op;
	struct tags_peer *peer;
	struct tags_tx *tx;	  /* the caller's op; NULL: none (replies, credits, BYE) */
	struct tags_place *place; /* owner of the segment; NULL: shared by all connections */
	STAILQ_ENTRY(tags_iop) link;
};
STAILQ_HEAD(tags_iop_list, tags_iop);

/*
 * A connection's place: the segments of its own, and the token that identifies the segments that
 * its peer sends.
 */
struct tags_place {
	uint64_t token;
	struct tags_peer *peer; /* NULL: free */
	struct tags_iop_list free;
	SLIST_ENTRY(tags_place) link; /* entry in the list of free places */
};

enum tags_tx_state {
	TAGS_TX_FREE,
	TAGS_TX_PENDING, /* no segment was built yet */
	TAGS_TX_ASKED,	 /* FIRST was built; the receiver has not answered */
	TAGS_TX_GRANTED, /* the send is on peer->streams */
	TAGS_TX_SENT,	 /* all segments were built */
	TAGS_TX_ONESIDED,
};

/* The caller's send or one-sided op. */
struct tags_tx {
	struct tags_iop onesided;
	struct leat_op *op; /* NULL: finished, but the device still has segments of it */
	struct tags_peer *peer;
	TAILQ_ENTRY(tags_tx) link; /* entry of one of the peer's lists, or of the free list */
	uint64_t sent;		   /* number of bytes put into segments so far */
	uint32_t rid;		   /* id of the receive at the peer */
	uint32_t nb_inflight;	   /* number of segments built and not completed */
	int status;
	uint8_t state;
};
TAILQ_HEAD(tags_tx_list, tags_tx);

enum tags_rx_state {
	TAGS_RX_FREE,
	TAGS_RX_POSTED, /* waits for a message */
	TAGS_RX_STREAM, /* has its message, of which DATA is coming */
};

/* The caller's receive. */
struct tags_rx {
	struct leat_op *op; /* NULL: the op came back, the rest of its message is dropped */
	struct tags_peer *sender;
	TAILQ_ENTRY(tags_rx) link; /* entry of its list of waiting receives, or of the free list */
	uint64_t seq;		   /* order of posting */
	uint64_t got, total;	   /* length of the message, bytes: received so far, in all */
	uint8_t state;
};
TAILQ_HEAD(tags_rx_list, tags_rx);

/*
 * A bounce buffer: posted to the device, or holding a message that waits for a receive, or reserved
 * for the reply to its message.
 */
struct tags_rbuf {
	struct leat_op op;
	struct tags_peer *peer;
	/* entry of a list: unexpected messages, in order of arrival; peer->replies; repost */
	TAILQ_ENTRY(tags_rbuf) link;
	TAILQ_ENTRY(tags_rbuf) same; /* entry of by_tag[], if unexpected and tagged */
	struct tags_hdr hdr;
	uint64_t written; /* WRITE_IMM: number of bytes written */
	uint32_t bytes;	  /* number of bytes of the message in this segment, after the header */
	uint32_t hdr_len; /* length of the header, bytes */
	uint32_t rid;	  /* GRANT: id of the receive */
	uint8_t reply;	  /* TAGS_GRANT or TAGS_REFUSE */
	bool notice;	  /* the message is the notice of a WRITE_IMM */
};
TAILQ_HEAD(tags_rbuf_list, tags_rbuf);

enum tags_peer_state {
	TAGS_P_FREE,
	TAGS_P_CONNECTING,
	TAGS_P_REQUESTED,
	TAGS_P_ACCEPTED, /* messages from the peer may come, messages to it must wait */
	TAGS_P_UP,
	TAGS_P_ENDING, /* only BYEs are still sent; waits for the inner peer's last event */
};

/* Lists of an endpoint on which a peer may be. */
enum tags_queued {
	TAGS_Q_NONE,
	TAGS_Q_TODO,	/* there may be something to send to it */
	TAGS_Q_REFUSED, /* the device had no room for an op to it */
};

/* A peer, by its id at the inner endpoint. */
struct tags_peer {
	struct leat_peer *outer; /* NULL: unknown to the application, or no longer known */
	uint16_t id;
	uint8_t state;
	uint8_t queued; /* enum tags_queued */
	/* has something to send, and waits for one of its segments to complete */
	bool starved;
	bool lost;		  /* a segment from the peer was lost; later ones are dropped */
	bool bye;		  /* the peer's BYE was received */
	bool leaving;		  /* this side says BYE, and waits for the peer's */
	bool bye_built;		  /* leaving: the BYE was built */
	bool bye_sent;		  /* leaving: the device has sent the BYE */
	uint64_t leave_by;	  /* time until which BYEs may delay the disconnect, cycles */
	struct tags_iop *bye_iop; /* this side's BYE between build and completion */
	struct tags_place *place;
	uint32_t in_use; /* number of segments built and not completed */
	uint64_t token;	 /* token in segments to the peer */
	uint32_t stale;	 /* number of received segments whose token is of no present connection */
	uint16_t tx_seq, rx_seq;
	uint16_t segment;	       /* maximum number of bytes of a message per segment to it */
	uint16_t window[TAGS_CLASSES]; /* maximum segments on the way to it, per class */
	/* counts of segments to the peer. sent: built; acked: finished by it, as its headers say */
	uint16_t sent[TAGS_CLASSES], acked[TAGS_CLASSES];
	/* counts of segments from it. got: received; done: finished; returned: reported to it */
	uint16_t got[TAGS_CLASSES], done[TAGS_CLASSES], returned[TAGS_CLASSES];
	/* SEND, TSEND, WRITE_IMM, and one-sided ops that wait behind one, in order of posting */
	struct tags_tx_list pending;
	uint32_t nb_ordered;	     /* number of ops on pending that are not TSENDs */
	struct tags_tx_list begun;   /* ops in state ASKED, SENT or ONESIDED */
	struct tags_tx_list streams; /* ops in state GRANTED, in order of grants */
	struct tags_iop_list built;  /* ops to be posted, in this order */
	struct tags_rbuf_list replies;
	struct tags_rbuf_list early; /* segments received before CONNECTED, in order of arrival */
	uint32_t nb_early;
	struct tags_rx_list recvs; /* RECVs from this peer only, posted */
	TAILQ_ENTRY(tags_peer) link;
};

TAILQ_HEAD(tags_peer_list, tags_peer);
SLIST_HEAD(tags_place_list, tags_place);

/* An outer endpoint. */
struct tags_ep {
	struct leat_ep *outer, *inner;
	const struct leat_driver *driver; /* driver of inner */
	/*
	 * Queue of the bounce buffers, since segments must be seen in the order in which they were
	 * sent. LEAT_QUEUE_NONE if the device keeps that order by itself.
	 */
	struct leat_queue *recv_queue;
	struct tags_peer *peers;	     /* by id; inner->nb_peers elements */
	struct tags_peer_list todo, refused; /* see enum tags_queued */
	struct tags_iop_list shared;	     /* free shared segments */
	struct tags_tx_list free_tx;
	struct tags_rx_list free_rx;
	struct tags_rbuf_list repost; /* bounce buffers to be posted to the device again */

	/* Receives that wait for messages, each list in order of posting. */
	struct tags_rx_list any_recvs;	/* RECV of any peer */
	struct tags_rx_list wild_recvs; /* TRECV with bits to ignore */
	struct tags_rx_list *exact;	/* TRECV with no bits to ignore, by hash of tag and peer */
	uint32_t hash_mask;
	uint64_t rx_seq;
	uint64_t imm_mask;
	bool write_order;  /* leat_dev_info.write_order of the inner endpoint */
	bool notice_token; /* the upper half of a WRITE_IMM's immediate is part of the token */
	/* Messages that wait for receives, each list in order of arrival. */
	struct tags_rbuf_list plain, tagged;
	struct tags_rbuf_list *by_tag;

	uint16_t window[TAGS_CLASSES];
	uint16_t segment;
	uint32_t nb_recvs, nb_own; /* per peer: number of bounce buffers; number of own segments */
	uint32_t nb_shared;
	uint32_t nb_onesided, onesided_max; /* one-sided ops that the device has: number, maximum */
	uint32_t tx_depth;		    /* send depth of the inner endpoint */
	uint32_t nb_tx, nb_rx;
	uint16_t priv_connect, priv_accept; /* private data left for the caller, bytes */
	uint32_t nb_chunks;
	uint32_t nb_leaving;	   /* peers with leaving set */
	struct tags_chunk *chunks; /* buffers for one connection each */
	struct tags_place *places; /* the first nb_chunks have segments */
	struct tags_iop *segs;	   /* nb_shared shared segments */
	uint8_t *seg_mem;
	struct leat_mr *seg_mr;
	struct tags_place_list free_places;
	struct tags_tx *txs;
	struct tags_rx *rxs;
	bool closing; /* the inner endpoint is about to be closed; don't disconnect single peers */
	bool aborted; /* receives that come back are not posted again */
};

static inline struct tags_ep *
tags_of(const struct leat_ep *ep)
{
	return ep->drv;
}

/* Return the layer's peer of an outer peer. */
static inline struct tags_peer *
tags_peer_of(const struct leat_peer *peer)
{
	return peer->drv;
}

/* ---- io.c ---- */

uint16_t tags_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n);
void tags_poll(struct leat_ep *ep);
int tags_cancel(struct leat_ep *ep, struct leat_op *op);
/* Poll the inner endpoint once. @return number of ops that it returned */
uint16_t tags_inner_poll(struct tags_ep *e);
/* Post the bounce buffers on e->repost to the device. */
void tags_repost(struct tags_ep *e);
/* Post bounce buffers, and whatever can be sent. */
void tags_push(struct tags_ep *e);

/* ---- tx.c ---- */

/* Take over an op for sending, after leat_op_start(). */
void tags_tx_add(struct tags_ep *e, struct tags_peer *p, struct tags_tx *tx, struct leat_op *op);
void tags_tx_done(struct tags_ep *e, struct tags_iop *iop);
void tags_todo(struct tags_ep *e, struct tags_peer *p);
void tags_todo_run(struct tags_ep *e);
int tags_tx_cancel(struct tags_ep *e, struct tags_tx *tx);
/* Process a GRANT or REFUSE, the answer to a FIRST. @return NULL, or what is wrong with it */
const char *tags_tx_granted(struct tags_ep *e, struct tags_peer *p, const struct tags_hdr *h);
/* Process the credits in a header. @return NULL, or what is wrong with them */
const char *tags_credits(struct tags_ep *e, struct tags_peer *p, const struct tags_hdr *h);
/*
 * Send BYE, the last segment of a connection, after the segments that were built; now, or later if
 * the device has no room.
 */
void tags_tx_bye(struct tags_ep *e, struct tags_peer *p);
/* Finish the caller's ops that the device does not have, because the connection is ending. */
void tags_tx_drop(struct tags_ep *e, struct tags_peer *p, int status);
/*
 * Do tags_tx_drop(), and free the segments that the device does not have. Nothing is sent after
 * this.
 */
void tags_tx_stop(struct tags_ep *e, struct tags_peer *p, int status);

/* ---- rx.c ---- */

void tags_rx_arrived(struct tags_ep *e, struct tags_rbuf *b);

/* Process the segments that arrived before the peer's CONNECTED. */
void tags_rx_early(struct tags_ep *e, struct tags_peer *p);
/* Give a message to the receive that it met. Neither is on a list any more. */
void tags_rx_deliver(struct tags_ep *e, struct tags_rx *rx, struct tags_rbuf *b);
/* Count the credit of a processed segment as due, and queue its bounce buffer for posting. */
void tags_rbuf_done(struct tags_ep *e, struct tags_rbuf *b);
void tags_rx_finish(struct tags_ep *e, struct tags_rx *rx, int status, uint64_t len);
/* Finish the receives of a connection that ended, and drop its messages. */
void tags_rx_drop(struct tags_ep *e, struct tags_peer *p, int status);
/* Finish all receives. */
void tags_rx_drop_all(struct tags_ep *e, int status);

/* ---- match.c ---- */

/* Find the oldest message that fits a receive, and take it off its lists; NULL: there is none. */
struct tags_rbuf *tags_match_message(struct tags_ep *e, const struct leat_op *op);
/* Add a receive that no message fits to its list. */
void tags_match_wait(struct tags_ep *e, struct tags_rx *rx);
void tags_match_cancel(struct tags_ep *e, struct tags_rx *rx);
/* Find the oldest receive that fits a message, and take it off its list; NULL: there is none. */
struct tags_rx *tags_match_recv(struct tags_ep *e, const struct tags_rbuf *b);
/* Add a message that fits no receive to its lists. */
void tags_match_keep(struct tags_ep *e, struct tags_rbuf *b);
void tags_match_forget(struct tags_ep *e, struct tags_rbuf *b);

/* ---- conn.c ---- */

int tags_connect(struct leat_ep *ep, struct leat_peer *peer, const char *addr,
		 const struct leat_conn_params *params);
int tags_accept(struct leat_ep *ep, struct leat_peer *peer, const struct leat_conn_params *params);
void tags_reject(struct leat_ep *ep, struct leat_peer *peer);
void tags_disconnect(struct leat_ep *ep, struct leat_peer *peer, int status, const char *text);
/* Finish a connection's ops and say BYE: the endpoint is being closed. */
void tags_peer_close(struct tags_ep *e, struct tags_peer *p, int status);
/* Process the peer's BYE. */
void tags_peer_said_bye(struct tags_ep *e, struct tags_peer *p);
/* Disconnect if this side's BYE was sent and the peer's was received; called after each. */
void tags_peer_bye_done(struct tags_ep *e, struct tags_peer *p);
/* Disconnect the peers that a BYE did not reach, or that did not answer it, within LEAVE_US. */
void tags_peers_leave(struct tags_ep *e, uint64_t now);
/* Process the inner endpoint's events. */
void tags_events(struct tags_ep *e);
/*
 * Check the peer of a failed inner op. If its connection is ending, the outer peer takes no more
 * ops from now on.
 */
void tags_peer_check(struct tags_ep *e, struct tags_peer *p);
/* End a connection, unless it has ended. */
void tags_peer_end(struct tags_ep *e, struct tags_peer *p, int status, const char *text);
/* End a connection whose peer broke the protocol, with -EPROTO. In `why`, "it" is the peer. */
void tags_peer_fail(struct tags_ep *e, struct tags_peer *p, const char *why);

/* ---- mem.c ---- */

int tags_mem_open(struct tags_ep *e, const struct leat_ep_conf *conf);
void tags_mem_close(struct tags_ep *e);
/*
 * Provide room for one more connection. @return its place, with a new token; NULL with rte_errno
 * and leat_err()
 */
struct tags_place *tags_mem_grow(struct tags_ep *e);

#endif /* TAGS_PVT_H */
