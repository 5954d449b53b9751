/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RB_NODE_H
#define RB_NODE_H

/*
 * A node: an lcore's endpoint, its context, its sessions with all other nodes, and the tasks that
 * call.
 *
 *     CLOSED -- rb_node_open() --> OPEN -- rb_node_connect() --> CONNECTING -- all are up --> UP
 *        ^                                                                                    |
 *        |                                                                   rb_node_start()  |
 *        |                                                                                    v
 *        `------ rb_node_close() ------------------------------ DONE <-- last task ends -- RUNNING
 *
 * Each of these functions runs on the node's own thread, where the leading task of the first lcore
 * has it called (leat_task_call()). The node wakes the leading task when `state` changes, or when a
 * session comes up or ends.
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

/* Type of the calls that end one-way calls; types below RB_KINDS are those of the kinds. */
#define RB_TYPE_FLUSH 200

enum rb_node_state {
	RB_NODE_CLOSED,
	RB_NODE_OPEN,
	RB_NODE_CONNECTING,
	RB_NODE_UP,
	RB_NODE_RUNNING,
	RB_NODE_DONE,
	RB_NODE_FAILED, /* rb_node.why says why */
};

enum rb_peer_state { RB_PEER_NONE, RB_PEER_CONNECTING, RB_PEER_UP, RB_PEER_ENDED };

#define RB_NOT_ALIVE UINT32_MAX

/* Another node, and the session with it. */
struct rb_peer {
	struct rb_node *owner;
	struct leat_rpc_session *session; /* NULL: none yet, or it has ended */
	/* seeds of the contents of calls to this node, and of calls from it */
	uint64_t seed_out[RB_KINDS], seed_in[RB_KINDS];
	uint64_t oneway_sent, oneway_got;
	uint64_t failed; /* calls to this node that failed since rb_node_gather() */
	uint32_t node;
	uint32_t at; /* index in rb_node.alive, or RB_NOT_ALIVE */
	int state;   /* enum rb_peer_state; atomic: the leading task reads it */
	int status;
	char text[LEAT_EVENT_TEXT]; /* why the session ended */
	/*
	 * Used by the leading task only: the time, cycles, at which it noticed the end of the
	 * session. 0: not yet; UINT64_MAX: the task has handled the end.
	 */
	uint64_t seen;
};

/* A call of a batch. */
struct rb_call {
	struct leat_rpc_req req;
	struct rb_peer *peer;
	uint64_t id, key;
	uint32_t resp_len;	    /* length of the expected response */
	uint32_t bulk_out, bulk_in; /* --bulk: bytes pulled from and pushed to this side */
	void *buf[RB_KINDS], *resp[RB_KINDS];
	struct leat_rpc_bulk bulk[2];
	struct leat_mr *mr; /* --bulk: registration of these buffers; NULL: none */
};

/* Buffers that the tasks of --bulk pull to and push from. */
struct rb_bulk {
	uint8_t *mem, **free;
	uint32_t nb_free;
	struct leat_mr *mr;
};

struct rb_node {
	/* hot */
	const struct rb_plan *plan;
	struct rb_peer **alive; /* peers whose session is up */
	uint32_t nb_alive;
	uint32_t id;
	uint64_t seq;	      /* requests created */
	uint64_t goal;	      /* calls to begin, warm-up included; UINT64_MAX: until `until` */
	uint64_t claimed;     /* calls that tasks have claimed so far, at most goal */
	uint32_t outstanding; /* calls under way; at most set.window. Atomic: agents read it */
	uint32_t nb_waiting;  /* tasks that wait for room in the window */
	uint64_t warmup;      /* calls before the measurement */
	uint64_t until;	      /* cycles: end of the measurement; UINT64_MAX: it ends at goal */
	bool measuring;
	bool over;	      /* tasks begin no more batches */
	uint64_t live;	      /* calls done; atomic: the leading task reads it */
	uint64_t spoil;	      /* messages until one is to be spoilt; 0: none */
	uint64_t first, last; /* cycles: start of the measurement, end of its last batch */
	struct rb_tally tally;
	struct leat_histogram *hist[RB_KINDS];

	/* settings and measurements, tune.c */
	struct rpc_bench_tune_settings set;
	struct leat_task_event room; /* set when calls complete, the window changes, the run ends */
	struct leat_tune_histogram latency;
	struct leat_tune_object *tune;
	struct leat_poller *server;

	/* open loop */
	struct leat_task_sem due;  /* number of batches that are due and not begun */
	double interval;	   /* cycles between two batches; 0: closed loop */
	uint64_t schedule;	   /* cycles: when the first batch is due */
	uint64_t nb_batches;	   /* number of batches of the schedule */
	uint64_t nb_due, nb_begun; /* number of batches that became due; that tasks have begun */
	uint64_t give_up;	   /* cycles: time after which no batch begins */
	struct leat_poller *pacer;

	/* endpoint, sessions, tasks */
	struct rb_bench *bench;
	struct leat_reactor *reactor;
	uint16_t lcore;
	struct leat_ep *ep;
	struct leat_rpc *rpc;
	struct rb_peer *peers;
	uint32_t nb_peers, nb_up;
	bool one_sided; /* the endpoint does READ and WRITE */
	struct rb_bulk bulk;
	uint32_t small; /* bytes of the longest message that fits a packet */
	struct rb_worker **workers;
	uint32_t nb_workers;	     /* workers that have not ended */
	char addr[LEAT_ADDR_MAX];    /* address at which the endpoint listens */
	struct leat_rpc_stats stats; /* counters as last read */
	struct cpu_where where;
	struct cpu_used used; /* CPU time when the node started */
	uint64_t used_ns;     /* CPU time of the run; UINT64_MAX: not known */
	int state;	      /* enum rb_node_state; atomic */
	char why[RB_TEXT];
};

/* ---- node.c: on the node's thread, except rb_node_create() and rb_node_free() ---- */

/* Create a node, on any thread. @return NULL: no memory */
struct rb_node *rb_node_create(struct rb_bench *b, uint16_t lcore);
/* Create endpoint and context, and listen. @return 0, or negative with n->why */
int rb_node_open(void *node);
/* Begin to connect to the nodes with smaller numbers. @return 0, or negative with n->why */
int rb_node_connect(void *node);
/*
 * Close the sessions and free the node; a task, which sleeps meanwhile.
 * @return 0; -EBUSY after printing a message: the endpoint is in use, the node is not freed
 */
int rb_node_close(struct rb_node *n);
/* Free the node; also on another thread, after the reactor has ended. @return as rb_node_close() */
int rb_node_free(struct rb_node *n);

int __attribute__((format(printf, 3, 4)))
rb_node_fail(struct rb_node *n, int err, const char *fmt, ...);
void rb_node_state_set(struct rb_node *n, enum rb_node_state state);
static inline enum rb_node_state
rb_node_state(const struct rb_node *n)
{
	/* acquire: the caller sees what the node wrote before it set this state */
	return (enum rb_node_state)__atomic_load_n(&n->state, __ATOMIC_ACQUIRE);
}

/* ---- node_session.c ---- */

/* The functions accept and event of leat_rpc_reactor_conf; arg is the node. */
void rb_node_accept(void *arg, struct leat_rpc *rpc, const struct leat_event *ev);
void rb_node_event(void *arg, struct leat_rpc *rpc, const struct leat_rpc_event *ev);

/* Create the table of the other nodes. @return 0; -ENOMEM with n->why */
int rb_peers_create(struct rb_node *n);
/* Begin to connect to a node. @return 0, or negative with n->why */
int rb_peer_connect(struct rb_peer *p);
/* Send no more calls to a node: its session has ended, or is about to end. */
void rb_peer_shun(struct rb_peer *p);
/* End the sessions with a rank that has ended or does not answer. */
void rb_node_drop(struct rb_node *n, uint16_t rank);
static inline enum rb_peer_state
rb_peer_state(const struct rb_peer *p)
{
	/* acquire: the caller sees status and text once the state is ENDED */
	return (enum rb_peer_state)__atomic_load_n(&p->state, __ATOMIC_ACQUIRE);
}

/* ---- work.c, pace.c ---- */

/* Start the tasks. @return 0, or negative with n->why */
int rb_node_start(void *node);
/* Return the bytes of memory for the requests and responses of an lcore. */
uint64_t rb_work_memory(const struct rb_plan *p);
/* Begin no more batches; wake the tasks that wait. */
void rb_node_over(struct rb_node *n);
/* Deregister the workers' memory, before the endpoint is destroyed. */
void rb_workers_deregister(struct rb_node *n);
/* Free the workers, after the endpoint was destroyed. */
void rb_workers_free(struct rb_node *n);
/* Complete the node's tally; on its thread, or on another one after the reactor has ended. */
void rb_node_gather(struct rb_node *n);

/* Open loop: let batches become due from now on. @return 0, or negative with n->why */
int rb_pace_start(struct rb_node *n);
void rb_pace_stop(struct rb_node *n);
/* Return the time at which batch i is due, cycles. */
static inline uint64_t
rb_pace_due(const struct rb_node *n, uint64_t i)
{
	/*
	 * Compute from the start each time, so that rounding errors do not add up. A double is
	 * exact up to 2^53 cycles, about a month.
	 */
	return n->schedule + (uint64_t)((double)i * n->interval);
}

/* ---- op_bulk.c ---- */

/* Return the number of requests that may be deferred at a time. */
uint32_t rb_bulk_tickets(const struct rb_plan *p);
/* With --bulk: register memory for remote access. @return 0, or negative with n->why */
int rb_bulk_register(struct rb_node *n, void *mem, uint64_t len, struct leat_mr **mr);
/* Create the buffers, after the endpoint was created. @return 0, or negative with n->why */
int rb_bulk_open(struct rb_node *n);
/* Deregister the buffers, before the endpoint is destroyed. */
void rb_bulk_close(struct rb_node *n);
/* Free the buffers, after the endpoint was destroyed. */
void rb_bulk_free(struct rb_node *n);

/* ---- tune.c ---- */

/* Publish the node's settings and measurements. @return 0, or negative with n->why */
int rb_tune_start(struct rb_node *n);
/* Remove the poller, on the reactor's thread. */
void rb_tune_stop(struct rb_node *n);
/* Withdraw settings and measurements, after the last task has ended. */
void rb_tune_free(struct rb_node *n);

/* ---- flush.c ---- */

/* In a task: wait until the peers have handled all one-way requests; count the lost ones. */
void rb_flush(struct rb_node *n);
int rb_flush_handle(struct leat_rpc_incoming *call, void *node);

#endif /* RB_NODE_H */
