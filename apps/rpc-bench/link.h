/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RB_LINK_H
#define RB_LINK_H

/*
 * Control calls between the leading tasks of processes: lib/rpc over a separate endpoint. The first
 * lcore polls it only once a millisecond, so that it hardly disturbs the measurement.
 *
 *     link.c        the endpoint and its sessions
 *     link_serve.c  handlers: calls from other processes
 *     link_ask.c    calls to other processes
 *
 * All functions run on the first lcore only. Functions that wait must be called in a task.
 */

#include <leat_rpc.h>
#include <leat_task.h>

#include "wire.h"

struct rb_bench;
struct rb_link;
struct leat_poller;

/* Another process. */
struct rb_link_peer {
	struct rb_link *link;
	struct leat_rpc_session *session; /* NULL: none, or it has ended */
	uint16_t rank;			  /* RB_NO_RANK: not known yet */
	bool up;
	bool ended;
	bool left; /* the process has sent BYE with a reason */
	int status;
	char why[RB_TEXT]; /* why the process ended */
	/* calls from the process that are not answered yet */
	struct leat_rpc_incoming *hello_call, *nodes_call, *meet_call[RB_MEETS];
	bool greeted; /* the process has sent HELLO */
	struct rb_hello hello;
	bool met[RB_MEETS]; /* meetings that the process has reached */
	uint64_t live;	    /* number of calls done by the process, from its last PING */
	struct leat_task_ref watcher;
};

struct rb_link {
	struct rb_bench *bench;
	struct leat_ep *ep;
	struct leat_rpc *rpc;
	struct leat_poller *poller;
	struct rb_link_peer *peers;
	uint32_t nb_peers;
	uint32_t taking;     /* number of further sessions that may be accepted */
	bool nodes_there;    /* the nodes of this process are open */
	unsigned int passed; /* number of meetings that have ended */
	char addr[LEAT_ADDR_MAX];
	bool shut;
	uint32_t nb_watching; /* number of tasks of rb_link_watch() that run */
};

/* ---- link.c ---- */

/*
 * Create an endpoint for links with nb_peers processes, and listen at addr unless it is NULL.
 * @return 0, or negative with b->why
 */
int rb_link_open(struct rb_link *l, struct rb_bench *b, const char *addr, uint32_t nb_peers);
/* Add a poller for the endpoint to this reactor. @return 0, or negative with b->why */
int rb_link_start(struct rb_link *l);
/* Begin to connect to a rank. @return its link, which is not up yet; NULL with b->why */
struct rb_link_peer *rb_link_connect(struct rb_link *l, uint16_t rank, const char *addr,
				     uint64_t timeout_us);
/* End the session with a process now. */
void rb_link_drop(struct rb_link_peer *p, int status, const char *why);
/* Free the entry in rb_link.peers of a process that has ended and is not watched. */
void rb_link_forget(struct rb_link_peer *p);
/* In a task: drop a process, wait until all sessions and watchers have ended, free its entry. */
void rb_link_clear(struct rb_link_peer *p);
/*
 * End all sessions and destroy the endpoint; in a task, or after the reactors have ended.
 * @return 0; -EBUSY after printing a message: the endpoint is in use and not destroyed
 */
int rb_link_close(struct rb_link *l);
/* Find the link to a rank. @return NULL: none */
struct rb_link_peer *rb_link_find(struct rb_link *l, uint16_t rank);

/* ---- link_serve.c ---- */

/* Set the handlers. @return 0, or negative */
int rb_link_serve(struct rb_link *l);
/* Answer the HELLO of a process. */
void rb_link_welcome(struct rb_link_peer *p);
/* Answer the HELLO and NODES of a process with a negative errno and a text. */
void rb_link_refuse(struct rb_link_peer *p, int status, const char *text);
/* Answer all NODES calls that wait, and from now on each further one: the nodes are open. */
void rb_link_nodes_answer(struct rb_link *l);
/* End a meeting: answer the processes that wait for its end, and each that calls later. */
void rb_link_meet_end(struct rb_link *l, enum rb_meet meet);
/* Answer all open calls of a process whose session ends, with -ESHUTDOWN. */
void rb_link_calls_reject(struct rb_link_peer *p);

/* ---- link_ask.c ---- */

/*
 * Send HELLO, and store the peer's card from the answer in b->world.
 * @return 0; -ECANCELED; other negative with b->why, also if the peer refuses
 */
int rb_link_hello(struct rb_link_peer *p);
/* Ask where the nodes of a process are. @return as rb_link_hello() */
int rb_link_nodes(struct rb_link_peer *p);
/*
 * Tell p, which leads a meeting, that this process has reached it, and wait for the meeting's end.
 * result: for RB_MEET_END, else NULL. Write RB_LOST_LEN bytes to lost: the ranks that p has lost.
 * @return 0, or negative
 */
int rb_link_meet(struct rb_link_peer *p, enum rb_meet meet, const struct rb_result *result,
		 uint8_t *lost);
/* Start a task that sends PING every second, and drops the link if the peer does not answer. */
int rb_link_watch(struct rb_link_peer *p);
void rb_link_unwatch(struct rb_link_peer *p);
/*
 * Send BYE to all processes, and wait up to half a second for their answers: this process leaves
 * before the end; why says the reason.
 */
void rb_link_bye(struct rb_link *l, const char *why);

#endif /* RB_LINK_H */
