/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FAULT_PVT_H
#define FAULT_PVT_H

/*
 * The fault device wraps another device and injects on demand the faults that are rare in fabrics.
 *
 *               upper endpoint: the application's        lower endpoint: of the wrapped device
 *
 *     post  --> wrong? refuse? fail? stalled? ---------> proxy op -->
 *                          |        `-> waiting ---------^
 *                          |                             |
 *     poll  <-- reorder <- delay <------------------- proxy done, fields copied back
 *
 *     events <-- translated: peer ids, injected deaths <-- events
 *
 * Proxies. For each op the device posts a proxy on the lower endpoint: another struct leat_op, from
 * a pool as large as both depths together, so there is a proxy for each op that the upper endpoint
 * admits. The application's op never completes before its proxy. Proxies are on no queue of the
 * lower endpoint: the lower endpoint's poll returns them in the order in which the hardware
 * completes them, and as in every driver leat_op_start() and leat_op_finish() restore the order of
 * the application's ops.
 *
 * States of a proxy (enum fault_where):
 *
 *     FREE -> BELOW -> DELAYED -> MIXED -> FREE
 *          -> WAITING -> BELOW     ^
 *              (its peer stalls)   |
 *          -> SHUFFLED -> BELOW    |            BELOW -> BELOW             (a datagram, doubled)
 *              (a datagram)        |
 *          -> --- fails, is lost --'            BELOW -> KEPT -> DELAYED   (its peer stalls)
 *
 * Files: fault_args.c device arguments; fault_dev.c device and driver table; fault_ep.c endpoints,
 * regions, wait; fault_post.c post and cancel; fault_stage.c completions: delay, reorder, release;
 * fault_heap.c heaps of proxies; fault_stall.c stalled peers; fault_datagram.c messages lost,
 * doubled, overtaken; fault_peer.c connections and deaths; fault_rand.h random numbers;
 * fault_telemetry.c counters.
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
#define FAULT_ALWAYS (UINT64_C(1) << 32) /* a chance of 1 */

/* Proxies that one call polls from the lower endpoint. */
#define FAULT_BURST 32
/* An op waits to be passed by younger ops for at most this many idle polls, then is released. */
#define FAULT_PATIENCE 4

/* ---- arguments of the device: which faults to inject ---- */

enum fault_shape {
	FAULT_NEVER,
	FAULT_RANGE, /* uniform, from lo to hi */
	FAULT_EXP,   /* exponential, mean lo */
	FAULT_TAIL,  /* lo to hi: lo to 2 lo is as likely as 2 lo to 4 lo, and so on */
};

/* A distribution. Times are in us in a device's fault_conf, in cycles in an endpoint's. */
struct fault_dist {
	enum fault_shape shape;
	uint64_t lo, hi;
};

struct fault_conf {
	uint64_t seed;
	uint32_t reorder;	 /* maximum number of younger ops that pass an op */
	struct fault_dist delay; /* added to each completion */
	/* refuse, refuse_recv, error, stall, loss and dup are chances, in units of 2^-32. */
	uint64_t refuse;
	uint64_t refuse_recv;
	uint64_t error;
	int error_status; /* status of ops that `error` fails, -errno */
	uint64_t stall;
	struct fault_dist stall_time;
	struct fault_dist die; /* number of ops to and from a peer until the peer dies */
	uint64_t loss;	       /* loss, dup and overtake: datagrams only */
	uint64_t dup;
	uint32_t overtake; /* maximum number of younger messages that overtake a message */
};

struct fault_dev {
	struct leat_dev *lower;
	struct fault_conf conf;
	unsigned int nb_eps; /* endpoints created so far; atomic */
};

/* ---- endpoints ---- */

/* Where a proxy is. "Below": at the lower endpoint. */
enum fault_where {
	FAULT_FREE,
	FAULT_WAITING,	/* its peer stalls: not posted below yet */
	FAULT_SHUFFLED, /* a datagram, in fault_ep.shuffled: not posted below yet */
	FAULT_BELOW,	/* posted below */
	FAULT_KEPT,	/* done below, but its peer stalls */
	FAULT_DELAYED,	/* done, in fault_ep.delayed */
	FAULT_MIXED,	/* done, in fault_ep.mixed */
};

struct fault_peer;

struct fault_op {
	struct leat_op low;	 /* the proxy; first, so that poll's output can be cast back */
	struct leat_op *op;	 /* the application's op */
	struct fault_peer *peer; /* peer that op names, or that its message came from; or NULL */
	uint64_t key;		 /* sort key, while in a heap */
	/*
	 * Number of the completion; while SHUFFLED, number of the send. Of two proxies with equal
	 * keys the one with the lower number goes first.
	 */
	uint64_t nr;
	uint64_t len;		    /* length of the op's completion */
	int status;		    /* status of the op's completion */
	uint32_t at;		    /* index, while in a heap */
	uint16_t src;		    /* upper id of the message's sender */
	uint8_t where;		    /* enum fault_where */
	bool again;		    /* a datagram that was doubled */
	TAILQ_ENTRY(fault_op) link; /* entry in a list, if FREE, WAITING or KEPT */
};

TAILQ_HEAD(fault_list, fault_op);

struct fault_heap {
	struct fault_op **op;
	uint32_t nb;
};

enum fault_peer_state {
	FAULT_PEER_NONE,
	FAULT_PEER_OPEN,    /* connecting, requested, accepted or up */
	FAULT_PEER_CLOSING, /* disconnected, but not down yet */
};

struct fault_peer {
	struct leat_peer *peer; /* the peer at the upper endpoint */
	uint16_t low;		/* id of the peer at the lower endpoint */
	uint8_t state;		/* enum fault_peer_state */
	bool died;		/* ended by die=, an injected death */
	bool stalled;		/* the peer is on fault_ep.stalled */
	uint64_t until;		/* end of the stall, cycles */
	uint64_t ops;		/* ops to the peer and messages from it, so far */
	uint64_t die_at;	/* value of ops at which the peer dies; 0: never */
	struct fault_list waiting, kept;
	TAILQ_ENTRY(fault_peer) link; /* entry in fault_ep.stalled */
};

/* Counters; written by the owner with relaxed stores, read by telemetry and tests. */
struct fault_stats {
	uint64_t delayed;      /* completions that were delayed */
	uint64_t reordered;    /* completions that a younger one passed */
	uint64_t refused;      /* sends and one-sided ops refused although there was room */
	uint64_t refused_recv; /* receives refused although there was room */
	uint64_t failed;       /* ops that "error" made fail; they were not posted below */
	uint64_t stalls;
	uint64_t stalled_ops; /* ops and completions that waited for the end of a stall */
	uint64_t deaths;
	uint64_t lost_acks; /* at deaths: sends that succeeded below and were reported as failed */
	uint64_t lost;	    /* datagrams that were lost */
	uint64_t doubled;   /* datagrams that were sent twice */
	uint64_t overtaken; /* datagrams that a younger one passed */
};

/* Kinds of faults; each endpoint has a stream of random numbers for each kind. */

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
	struct leat_ep *ep;  /* upper endpoint: the application's */
	struct leat_ep *low; /* lower endpoint: of the wrapped device */
	const struct fault_dev *dev;
	struct fault_conf conf; /* times in cycles */
	struct fault_rand rand[FAULT_KINDS];

	void *mem; /* memory of the pool of proxies */
	struct fault_op *ops;
	uint32_t nb_ops; /* number of proxies used so far; the pool's others were never touched */
	struct fault_list free;
	struct fault_heap delayed; /* sorted by the time at which they are due, cycles */
	struct fault_heap mixed;   /* sorted by the completion's number + a random number */
	uint64_t nr;		   /* completions so far */
	uint64_t nr_out;	   /* highest number that was released */
	uint32_t patience;	   /* idle polls until all of mixed is released */
	bool refused;		   /* a post was refused since the last arm */
	bool aborting;

	/* Is it a datagram endpoint? If not, the fields down to nr_down are unused. */
	bool datagram;
	uint32_t send_patience;	    /* polls without a new send until all of shuffled is posted */
	struct fault_heap shuffled; /* sorted by the send's number + a random number */
	uint64_t nr_sent;	    /* sends so far */
	uint64_t nr_sent_seen;	    /* nr_sent at the last poll */
	uint64_t nr_down;	    /* highest number that was posted below */

	struct fault_peer *peers;   /* peers by upper id */
	struct fault_peer **by_low; /* peers by lower id */
	TAILQ_HEAD(, fault_peer) stalled;
	struct fault_stats stats;
	LIST_ENTRY(fault_ep) link; /* entry in telemetry's list */
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
/* Post a proxy on the lower endpoint. @return false: no room there */
bool fault_hand_down(struct fault_ep *fe, struct fault_op *f);
int fault_cancel(struct leat_ep *ep, struct leat_op *op);

/* fault_stage.c */
void fault_poll(struct leat_ep *ep);
/* Begin the delay of a proxy whose op is done, or has failed. */
void fault_done(struct fault_ep *fe, struct fault_op *f, int status, uint64_t len);
/* Free a proxy, which is in no list or heap, and finish its op with f->status and f->len. */
void fault_release(struct fault_ep *fe, struct fault_op *f);
/* Release the proxies in delayed and mixed: of peer p, or of all peers if p is NULL. */
void fault_flush(struct fault_ep *fe, const struct fault_peer *p);
/* Poll the lower endpoint until it has no more proxies that are done. */
void fault_drain(struct fault_ep *fe);

/* fault_stall.c */
/* Decide at random whether a peer stalls now; called for each op to it and message from it. */
void fault_stall_draw(struct fault_ep *fe, struct fault_peer *p);
/* Hold back a proxy that is not posted below yet, until its peer's stall has ended. */
void fault_wait(struct fault_ep *fe, struct fault_op *f);
/* Hold back a proxy that is done below, until its peer's stall has ended. */
void fault_keep(struct fault_ep *fe, struct fault_op *f);
/* End the stalls whose time has come. */
void fault_stalls_run(struct fault_ep *fe);
/*
 * End the stall of a peer that ends: ops that fault_wait() held back fail with status, ops that
 * fault_keep() held back continue.
 */
void fault_stall_end(struct fault_ep *fe, struct fault_peer *p, int status);

/* fault_datagram.c */
/* Decide at random whether a send is lost. */
bool fault_datagram_lose(struct fault_ep *fe);
/* Post a send below, at once or, if others may overtake it, later. @return false: no room */
bool fault_datagram_send(struct fault_ep *fe, struct fault_op *f);
/* At random, post a send that is done below a second time. @return true: it was posted again */
bool fault_datagram_again(struct fault_ep *fe, struct fault_op *f);
/* Post below the shuffled sends that can't be overtaken any more. */
void fault_datagrams_run(struct fault_ep *fe);
/* Finish, with status, the shuffled sends to a peer that ends. */
void fault_datagrams_end(struct fault_ep *fe, const struct fault_peer *p, int status);

/* fault_peer.c */
/* Finish with -ESHUTDOWN the ops of all peers that were not posted below. */
void fault_peers_abort(struct fault_ep *fe);
/* Count an op to or from a peer. The peer dies when its count reaches die_at. */
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
