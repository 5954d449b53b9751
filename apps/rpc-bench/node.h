/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RB_NODE_H
#define RB_NODE_H

/*
 * A node: an lcore's endpoint, its context, its sessions with all other nodes, and the tasks that
 * call.
 *
 *     CLOSED -- rb_node_open() --> OPEN -- rb_node_connect() --> CONNECTING -- all are up --> UP
 *        ^                                                                                    |
 *        |                            rb_node_start()                                         v
 *        `------ rb_node_close() -------------------------------- DONE <-- last task ends -- RUNNING
 *
 * All of it is done on the lcore's own thread. The first lcore's leading task asks for it, and
 * looks at `state`; the node wakes it when that changes, or a session ends.
 */

#include <leat_rpc.h>
#include <leat_task_event.h>
#include <leat_task_sync.h>
#include <leat_time.h>
#include <leat_tune.h>

#include "rpc_bench_tune.h"
#include "world.h"

struct rb_bench;
struct rb_node;
struct rb_worker;
struct leat_poller;

/* Of the calls that end the one-way ones, beside the kinds. */
#define RB_TYPE_FLUSH 200

enum rb_node_state {
	RB_NODE_CLOSED,
	RB_NODE_OPEN,
	RB_NODE_CONNECTING,
	RB_NODE_UP,
	RB_NODE_RUNNING,
	RB_NODE_DONE,
	RB_NODE_FAILED, /* see why */
};

enum rb_peer_state { RB_PEER_NONE, RB_PEER_CONNECTING, RB_PEER_UP, RB_PEER_ENDED };

#define RB_NOT_ALIVE UINT32_MAX

/* Another node, and the session with it. */
struct rb_peer {
	struct rb_node *owner;
	struct leat_rpc_session *session; /* NULL when it ended */
	uint64_t seed_out[RB_KINDS], seed_in[RB_KINDS];
	uint64_t oneway_sent, oneway_got;
	uint64_t failed; /* calls to it, since the last gathering */
	uint32_t node;
	uint32_t at; /* index in rb_node.alive; RB_NOT_ALIVE */
	int state;   /* enum rb_peer_state; atomic: the leading task reads it */
	int status;
	char text[LEAT_EVENT_TEXT]; /* of its end */
	uint64_t seen; /* the leading task's: when it saw that, cycles; UINT64_MAX: it was told */
};

/* A call of a batch. */
struct rb_call {
	struct leat_rpc_req req;
	struct rb_peer *peer;
	uint64_t id, key;
	uint32_t resp_len;	    /* that is to come */
	uint32_t bulk_out, bulk_in; /* bytes besides those of the request and response */
	void *buf[RB_KINDS], *resp[RB_KINDS];
	struct leat_rpc_bulk bulk[2];
	struct leat_mr *mr; /* --bulk: of these buffers */
};

/* What the tasks of --bulk pull to and push from. */
struct rb_bulk {
	uint8_t *mem, **free;
	uint32_t nb_free;
	struct leat_mr *mr;
};

struct rb_node {
	/* hot */
	const struct rb_plan *plan;
	struct rb_peer **alive; /* those that are up */
	uint32_t nb_alive;
	uint32_t id;
	uint64_t seq;  /* requests made */
	uint64_t goal; /* calls to begin, warm-up included; UINT64_MAX: until `until` */
	uint64_t claimed;
	uint32_t outstanding; /* calls under way; at most set.window. Atomic: agents read it */
	uint32_t nb_waiting;  /* tasks that wait for room in it */
	uint64_t warmup;      /* calls before the measurement */
	uint64_t until;	      /* cycles */
	bool measuring;
	bool over;	      /* no more batches are begun */
	uint64_t live;	      /* calls done; atomic: the leading task reads it */
	uint64_t spoil;	      /* messages until one is to be spoilt; 0: none */
	uint64_t first, last; /* cycles: the measurement began, its last batch ended */
	struct rb_tally tally;
	struct leat_histogram *hist[RB_KINDS];

	/* settings and measurements, tune.c */
	struct rpc_bench_tune_settings set;
	struct leat_task_event room; /* calls came back, or the window is larger */
	struct leat_tune_histogram latency;
	struct leat_tune_object *tune;
	struct leat_poller *server;

	/* open loop */
	struct leat_task_sem due;  /* batches that are due, and not begun */
	double interval;	   /* cycles between two batches */
	uint64_t schedule;	   /* cycles: when the first one was due */
	uint64_t nb_batches;	   /* of the schedule */
	uint64_t nb_due, nb_begun; /* batches */
	uint64_t give_up;	   /* cycles: what is not begun then never is */
	struct leat_poller *pacer;

	/* the rest */
	struct rb_bench *bench;
	struct leat_reactor *reactor;
	uint16_t lcore;
	struct leat_ep *ep;
	struct leat_rpc *rpc;
	struct rb_peer *peers;
	uint32_t nb_peers, nb_up;
	bool one_sided; /* its endpoint does READ and WRITE */
	struct rb_bulk bulk;
	uint32_t small; /* bytes of a message that a packet of its sessions holds */
	struct rb_worker **workers;
	uint32_t nb_workers; /* that have not ended */
	char addr[LEAT_ADDR_MAX];
	struct leat_rpc_stats stats; /* at the end, and of the configuration */
	struct cpu_where where;
	struct cpu_used used; /* when it started */
	uint64_t used_ns;     /* CPU time of the run */
	int state;	      /* enum rb_node_state; atomic */
	char why[RB_TEXT];
};

/* ---- node.c: on the node's thread, but for the first and the last ---- */

/* @return it, on no thread in particular; NULL: no memory */
struct rb_node *rb_node_create(struct rb_bench *b, uint16_t lcore);
/* Endpoint, context, listening. @return 0, or negative with n->why */
int rb_node_open(void *node);
/* Connects to the nodes before it. @return as above */
int rb_node_connect(void *node);
/*
 * Closes sessions, and frees all; waits. Task. @return 0, or -EBUSY after a message: it is left as
 * it is
 */
int rb_node_close(struct rb_node *n);
/* The same without its reactor. */
int rb_node_free(struct rb_node *n);

int __attribute__((format(printf, 3, 4)))
rb_node_fail(struct rb_node *n, int err, const char *fmt, ...);
void rb_node_state_set(struct rb_node *n, enum rb_node_state state);
static inline enum rb_node_state
rb_node_state(const struct rb_node *n)
{
	/* acquire: what the node did before that state */
	return (enum rb_node_state)__atomic_load_n(&n->state, __ATOMIC_ACQUIRE);
}

/* ---- node_session.c ---- */

/* leat_rpc_reactor_conf.accept and event; arg: the node. */
void rb_node_accept(void *arg, struct leat_rpc *rpc, const struct leat_event *ev);
void rb_node_event(void *arg, struct leat_rpc *rpc, const struct leat_rpc_event *ev);

/* The table of the other nodes. @return 0, or -ENOMEM */
int rb_peers_create(struct rb_node *n);
/* Connects to one. */
int rb_peer_connect(struct rb_peer *p);
/* It is closing: call it no more. */
void rb_peer_shun(struct rb_peer *p);
/* A rank is gone, or does not answer: end what is left of its sessions. */
void rb_node_drop(struct rb_node *n, uint16_t rank);
static inline enum rb_peer_state
rb_peer_state(const struct rb_peer *p)
{
	/* acquire: status and text with ENDED */
	return (enum rb_peer_state)__atomic_load_n(&p->state, __ATOMIC_ACQUIRE);
}

/* ---- work.c, pace.c ---- */

/* Starts the tasks. @return 0, or negative with n->why */
int rb_node_start(void *node);
/* Bytes of requests and responses of an lcore. */
uint64_t rb_work_memory(const struct rb_plan *p);
/* Begin no more batches. */
void rb_node_over(struct rb_node *n);
/* Before the endpoint is closed, and after that. */
void rb_workers_deregister(struct rb_node *n);
void rb_workers_free(struct rb_node *n);
/* Completes its tally. On its thread, or when that is gone. */
void rb_node_gather(struct rb_node *n);

/* Open loop: batches become due from now on. @return 0, or negative with n->why */
int rb_pace_start(struct rb_node *n);
void rb_pace_stop(struct rb_node *n);
/* When batch i is due, cycles. */
static inline uint64_t
rb_pace_due(const struct rb_node *n, uint64_t i)
{
	/* From the start each time: no error adds up. A double holds 2^53 cycles, a month. */
	return n->schedule + (uint64_t)((double)i * n->interval);
}

/* ---- op_bulk.c ---- */

/* Requests that may be deferred at a time. */
uint32_t rb_bulk_tickets(const struct rb_plan *p);
/* With --bulk: registers memory, so that others reach it. @return 0, or negative with n->why */
int rb_bulk_register(struct rb_node *n, void *mem, uint64_t len, struct leat_mr **mr);
/* When there is an endpoint. @return as above */
int rb_bulk_open(struct rb_node *n);
/* Before it is closed; free() after that. */
void rb_bulk_close(struct rb_node *n);
void rb_bulk_free(struct rb_node *n);

/* ---- tune.c ---- */

/* @return 0, or negative with n->why */
int rb_tune_start(struct rb_node *n);
/* While its reactor is there; and when no task looks any more. */
void rb_tune_stop(struct rb_node *n);
void rb_tune_free(struct rb_node *n);

/* ---- flush.c ---- */

/* Waits until the other sides have all one-way requests. Task. */
void rb_flush(struct rb_node *n);
int rb_flush_handle(struct leat_rpc_incoming *call, void *node);

#endif /* RB_NODE_H */
