/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RB_LINK_H
#define RB_LINK_H

/*
 * Control calls between the leading tasks of processes: lib/rpc over an endpoint of its own, which
 * the first lcore polls every millisecond, so that it costs the measurement next to nothing.
 *
 *     link.c        the endpoint, its sessions, and what becomes of them
 *     link_serve.c  what the other processes ask
 *     link_ask.c    what is asked of them
 *
 * On the first lcore only. Functions that wait are for tasks.
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
	struct leat_rpc_session *session; /* NULL: none, or it ended */
	uint16_t rank;			  /* RB_NO_RANK until it is known */
	bool up;
	bool ended;
	bool left; /* it said why it leaves */
	int status;
	char why[RB_TEXT]; /* of its end */
	/* what it has asked, and is not answered */
	struct leat_rpc_incoming *hello_call, *nodes_call, *meet_call[RB_MEETS];
	bool greeted;
	struct rb_hello hello;
	bool met[RB_MEETS];
	uint64_t live; /* calls it has done, as of its last word */
	struct leat_task_ref watcher;
};

struct rb_link {
	struct rb_bench *bench;
	struct leat_ep *ep;
	struct leat_rpc *rpc;
	struct leat_poller *poller;
	struct rb_link_peer *peers;
	uint32_t nb_peers;
	uint32_t taking;     /* sessions of others that are still welcome */
	bool nodes_there;    /* those of this process are open */
	unsigned int passed; /* meetings that are over */
	char addr[LEAT_ADDR_MAX];
	bool shut;
	uint32_t nb_watching;
};

/* ---- link.c ---- */

/*
 * An endpoint for links with so many processes. addr: where to listen; NULL: nowhere.
 * @return 0, or negative with b->why
 */
int rb_link_open(struct rb_link *l, struct rb_bench *b, const char *addr, uint32_t nb_peers);
/* Has the reactor turn it. @return as above */
int rb_link_start(struct rb_link *l);
/* Begins to connect to a rank. @return the link to be, or NULL with b->why */
struct rb_link_peer *rb_link_connect(struct rb_link *l, uint16_t rank, const char *addr,
				     uint64_t timeout_us);
/* Ends the session now. */
void rb_link_drop(struct rb_link_peer *p, int status, const char *why);
/* Forgets a process that has ended and is not watched: its place is free. */
void rb_link_forget(struct rb_link_peer *p);
/* Drops it, and forgets it when nothing of it is left. Task. */
void rb_link_clear(struct rb_link_peer *p);
/*
 * Ends all in order. Task, or when the reactors are gone. @return 0, or -EBUSY: it is left as it is
 */
int rb_link_close(struct rb_link *l);
struct rb_link_peer *rb_link_find(struct rb_link *l, uint16_t rank);

/* ---- link_serve.c ---- */

int rb_link_serve(struct rb_link *l);
/* Answers a HELLO. */
void rb_link_welcome(struct rb_link_peer *p);
/* Answers a HELLO, or NODES, with a negative errno and a text. */
void rb_link_refuse(struct rb_link_peer *p, int status, const char *text);
/* The nodes of this process are open: all who ask for them are answered. */
void rb_link_nodes_tell(struct rb_link *l);
/* A meeting is over: all who have come are answered, and those who come late. */
void rb_link_meet_end(struct rb_link *l, enum rb_meet meet);
/* What it has asked is answered: it is not there any more. */
void rb_link_unask(struct rb_link_peer *p);

/* ---- link_ask.c ---- */

/*
 * Greets, and takes the other side's card. @return 0; or negative with b->why, also if it refuses
 */
int rb_link_hello(struct rb_link_peer *p);
/* Asks where its nodes are. @return as above */
int rb_link_nodes(struct rb_link_peer *p);
/*
 * Comes to a meeting that p leads, and waits until it is over. result: of RB_MEET_END. lost gets
 * RB_LOST_LEN bytes: the ranks that p has lost. @return 0, or negative
 */
int rb_link_meet(struct rb_link_peer *p, enum rb_meet meet, const struct rb_result *result,
		 uint8_t *lost);
/* A task that asks every second, and ends the link when there is no answer. */
int rb_link_watch(struct rb_link_peer *p);
void rb_link_unwatch(struct rb_link_peer *p);
/* Tells all that this process leaves before the end, and why. */
void rb_link_bye(struct rb_link *l, const char *why);

#endif /* RB_LINK_H */
