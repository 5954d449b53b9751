/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FAULT_PVT_H
#define FAULT_PVT_H

/*
 * The fault device: wraps another one, and makes happen on demand what fabrics do now and then.
 *
 *               upper endpoint: the application's        lower endpoint: of the device below
 *
 *     post  --> wrong? refuse? fail? stalled? ---------> proxy op -->
 *                          |        `-> waiting ---------^
 *                          |                             |
 *     poll  <-- reorder <- delay <------------------- done, fields copied back
 *
 *     events <-- translated: peer ids, and deaths of our own making <-- events
 *
 * Proxies. An op that goes down is a proxy: its own struct leat_op, from a pool as large as the two
 * depths, so there is one for each op that the upper endpoint admits. The application's op comes
 * back when its proxy did, never before. Proxies are on no queue of the lower endpoint: they come
 * as the hardware completes them, and order is restored above, by leat_op_start() and
 * leat_op_finish(), as for every driver.
 *
 * Where a proxy is:
 *
 *     FREE -> BELOW -> DELAYED -> MIXED -> FREE
 *          -> WAITING -> BELOW     ^
 *              (its peer stalls)   |
 *          -> SHUFFLED -> BELOW    |            BELOW -> BELOW             (a datagram, doubled)
 *              (a datagram)        |
 *          -> --- fails, is lost --'            BELOW -> KEPT -> DELAYED   (its peer stalls)
 *
 * Files: fault_args.c device arguments; fault_dev.c device and driver table; fault_ep.c endpoints,
 * regions, wait; fault_post.c post and cancel; fault_stage.c what is done: delay, reorder, release;
 * fault_heap.c; fault_stall.c; fault_datagram.c messages lost, doubled, overtaken; fault_peer.c
 * connections and deaths; fault_telemetry.c.
 */

#include <sys/queue.h>

#include <leat_driver.h>
#include <leat_error.h>
#include <leat_log.h>
#include <leat_order.h>

#include "fault_rand.h"

#define FAULT_REORDER_MAX 4096
#define FAULT_US_MAX 60000000
#define FAULT_OPS_MAX 4000000000
#define FAULT_ALWAYS (UINT64_C(1) << 32)

/* Ops that one call takes from below. */
#define FAULT_BURST 32
/* So many polls may find nothing before an op that waits to be passed goes on all the same. */
#define FAULT_PATIENCE 4

/* ---- what is to happen: arguments of the device ---- */

enum fault_shape {
	FAULT_NEVER,
	FAULT_RANGE, /* even, from lo to hi */
	FAULT_EXP,   /* exponential, mean lo */
	FAULT_TAIL,  /* from lo to hi, each doubling as likely as the one before it */
};

/* A distribution; of times in us as an argument, in cycles as an endpoint's. */
struct fault_dist {
	enum fault_shape shape;
	uint64_t lo, hi;
};

struct fault_conf {
	uint64_t seed;
	uint32_t reorder;	 /* an op is passed by at most so many */
	struct fault_dist delay; /* of each completion */
	uint64_t refuse;	 /* chances, of 2^32 */
	uint64_t refuse_recv;
	uint64_t error;
	int error_status;
	uint64_t stall;
	struct fault_dist stall_time;
	struct fault_dist die; /* ops of a peer */
	uint64_t loss;	       /* of datagrams, and so are dup and overtake */
	uint64_t dup;
	uint32_t overtake; /* a message is overtaken by at most so many */
};

struct fault_dev {
	struct leat_dev *lower;
	struct fault_conf conf;
	unsigned int nb_eps; /* made so far; atomic */
};

/* ---- endpoints ---- */

enum fault_where {
	FAULT_FREE,
	FAULT_WAITING,	/* its peer stalls: not handed down yet */
	FAULT_SHUFFLED, /* a datagram, in fault_ep.shuffled: not handed down yet */
	FAULT_BELOW,
	FAULT_KEPT,    /* done below, but its peer stalls */
	FAULT_DELAYED, /* done, in fault_ep.delayed */
	FAULT_MIXED,   /* done, in fault_ep.mixed */
};

struct fault_peer;

struct fault_op {
	struct leat_op low;	 /* the proxy; first, so that poll's output can be cast back */
	struct leat_op *op;	 /* the application's */
	struct fault_peer *peer; /* that it names, or that its message came from; or NULL */
	uint64_t key;		 /* in a heap: what it is sorted by */
	/* Number of its completion, SHUFFLED: of the send. Of two equal keys the older goes first. */
	uint64_t nr;
	uint64_t len;
	int status;
	uint32_t at; /* in a heap: its place */
	uint16_t src;
	uint8_t where;
	bool again;		    /* doubled */
	TAILQ_ENTRY(fault_op) link; /* free, WAITING, KEPT */
};

TAILQ_HEAD(fault_list, fault_op);

struct fault_heap {
	struct fault_op **op;
	uint32_t nb;
};

enum fault_peer_state {
	FAULT_PEER_NONE,
	FAULT_PEER_OPEN,    /* connecting, asked, accepted or up */
	FAULT_PEER_CLOSING, /* on its way down */
};

struct fault_peer {
	struct leat_peer *peer; /* upper */
	uint16_t low;		/* id below */
	uint8_t state;		/* enum fault_peer_state */
	bool died;		/* of die= */
	bool stalled;		/* on fault_ep.stalled */
	uint64_t until;		/* end of the stall, cycles */
	uint64_t ops;		/* to it and from it */
	uint64_t die_at;	/* 0: never */
	struct fault_list waiting, kept;
	TAILQ_ENTRY(fault_peer) link;
};

/* Written by the owner with relaxed stores, read by telemetry and tests. */
struct fault_stats {
	uint64_t delayed;   /* completions */
	uint64_t reordered; /* completions that a younger one passed */
	uint64_t refused;   /* sends and one-sided ops, not for want of room */
	uint64_t refused_recv;
	uint64_t failed; /* ops, without having been tried */
	uint64_t stalls;
	uint64_t stalled_ops; /* ops and completions that had to wait for the end of one */
	uint64_t deaths;
	uint64_t lost_acks; /* of these: sends that came through and are told as failed */
	uint64_t lost;	    /* datagrams */
	uint64_t doubled;
	uint64_t overtaken; /* that a younger one passed */
};

enum fault_kind {
	FAULT_K_REORDER,
	FAULT_K_PATIENCE,
	FAULT_K_DELAY,
	FAULT_K_REFUSE,
	FAULT_K_REFUSE_RECV,
	FAULT_K_ERROR,
	FAULT_K_STALL,
	FAULT_K_DIE,
	FAULT_K_LOSE,
	FAULT_K_DOUBLE,
	FAULT_K_OVERTAKE,
	FAULT_KINDS,
};

struct fault_ep {
	struct leat_ep *ep;  /* upper */
	struct leat_ep *low; /* lower */
	const struct fault_dev *dev;
	struct fault_conf conf; /* times in cycles */
	struct fault_rand rand[FAULT_KINDS];

	void *mem; /* of the pool */
	struct fault_op *ops;
	uint32_t nb_ops; /* that were ever used; the others were never touched */
	struct fault_list free;
	struct fault_heap delayed; /* by the time at which they are due */
	struct fault_heap mixed;   /* by number, randomly increased */
	uint64_t nr;		   /* completions so far */
	uint64_t nr_out;	   /* the highest number that was released */
	uint32_t patience;	   /* idle polls until one that waits to be passed goes on */
	bool refused;		   /* since the last arm */
	bool aborting;

	bool datagram;		    /* of that type; the rest is used by such endpoints only */
	uint32_t send_patience;	    /* polls without a new send until what is shuffled goes down */
	struct fault_heap shuffled; /* by number of the send, randomly increased */
	uint64_t nr_sent;	    /* sends so far */
	uint64_t nr_sent_seen;	    /* by the last poll */
	uint64_t nr_down;	    /* the highest number that was handed down */

	struct fault_peer *peers;   /* by upper id */
	struct fault_peer **by_low; /* by lower id */
	TAILQ_HEAD(, fault_peer) stalled;
	struct fault_stats stats;
	LIST_ENTRY(fault_ep) link; /* for telemetry */
};

static inline struct fault_ep *
fault_of(const struct leat_ep *ep)
{
	return ep->drv;
}

static inline bool
fault_hit(struct fault_ep *fe, enum fault_kind kind, uint64_t chance)
{
	return chance != 0 && fault_rand_hit(&fe->rand[kind], chance);
}

/* fault_args.c */
extern const struct leat_driver_arg fault_args[];
int fault_conf_parse(const struct rte_kvargs *kv, struct fault_conf *conf);
uint64_t fault_dist_draw(const struct fault_dist *d, struct fault_rand *r);

/* fault_heap.c */
void fault_heap_push(struct fault_heap *h, struct fault_op *f);
void fault_heap_remove(struct fault_heap *h, struct fault_op *f);

/* fault_ep.c */
int fault_ep_open(struct leat_ep *ep, const struct leat_ep_conf *conf);
void fault_ep_quiesce(struct leat_ep *ep);
void fault_ep_abort(struct leat_ep *ep);
void fault_ep_close(struct leat_ep *ep);
int fault_mr_reg(struct leat_ep *ep, struct leat_mr_piece *piece, uint32_t access);
int fault_mr_dereg(struct leat_ep *ep, struct leat_mr_piece *piece);
int fault_ep_fd(const struct leat_ep *ep);
int fault_ep_arm(struct leat_ep *ep);
void fault_ep_disarm(struct leat_ep *ep);

/* fault_post.c */
uint16_t fault_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n);
/* Hands a proxy down. @return false: it found no room */
bool fault_hand_down(struct fault_ep *fe, struct fault_op *f);
int fault_cancel(struct leat_ep *ep, struct leat_op *op);

/* fault_stage.c */
void fault_poll(struct leat_ep *ep);
/* An op is done, or failed: it goes into the delay. */
void fault_done(struct fault_ep *fe, struct fault_op *f, int status, uint64_t len);
/* Ends the proxy, and hands its op to the ordering layer. It must be in no list or heap. */
void fault_release(struct fault_ep *fe, struct fault_op *f);
/* What is done goes out now: of one peer, or all of it (NULL). */
void fault_flush(struct fault_ep *fe, const struct fault_peer *p);
/* Takes everything that is done below. */
void fault_drain(struct fault_ep *fe);

/* fault_stall.c */
/* An op to a peer, or a message from it: may be the moment at which it stalls. */
void fault_stall_draw(struct fault_ep *fe, struct fault_peer *p);
void fault_wait(struct fault_ep *fe, struct fault_op *f);
void fault_keep(struct fault_ep *fe, struct fault_op *f);
/* Ends stalls whose time has come. */
void fault_stalls_run(struct fault_ep *fe);
/* The peer goes: what waited for it fails, what was kept goes on. */
void fault_stall_end(struct fault_ep *fe, struct fault_peer *p, int status);

/* fault_datagram.c */
/* Is a send to be lost? */
bool fault_datagram_lose(struct fault_ep *fe);
/* Hands a send down, now or, if others are to overtake it, later. @return false: no room */
bool fault_datagram_send(struct fault_ep *fe, struct fault_op *f);
/* Something came back from below. @return true: it was doubled, and will come once more */
bool fault_datagram_again(struct fault_ep *fe, struct fault_op *f);
/* Hands down what was overtaken enough. */
void fault_datagrams_run(struct fault_ep *fe);
/* The peer goes: what was not handed down comes back. */
void fault_datagrams_end(struct fault_ep *fe, const struct fault_peer *p, int status);

/* fault_peer.c */
void fault_peers_abort(struct fault_ep *fe);
/* Counts an op of a peer; it may be its last. */
void fault_peer_count(struct fault_ep *fe, struct fault_peer *p);
void fault_progress(struct leat_ep *ep, uint64_t now);
int fault_listen(struct leat_ep *ep, const char *addr);
int fault_listen_addr(struct leat_ep *ep, char *addr, size_t len);
int fault_connect(struct leat_ep *ep, struct leat_peer *peer, const char *addr,
		  const struct leat_conn_params *params);
int fault_accept(struct leat_ep *ep, struct leat_peer *peer, const struct leat_conn_params *params);
void fault_reject(struct leat_ep *ep, struct leat_peer *peer);
void fault_disconnect(struct leat_ep *ep, struct leat_peer *peer, int status, const char *text);

/* fault_telemetry.c */
void fault_telemetry_add(struct fault_ep *fe);
void fault_telemetry_del(struct fault_ep *fe);

#endif /* FAULT_PVT_H */
