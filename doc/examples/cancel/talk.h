/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TALK_H
#define TALK_H

/* Common to both examples: a client, and a server that leaves some requests unanswered. */

#include <stdbool.h>
#include <stdint.h>

#include <leat_fabric.h>
#include <leat_reactor.h>
#include <leat_scope.h>
#include <leat_task.h>
#include <leat_task_event.h>
#include <leat_task_op.h>

#define REQUESTS 200U
#define TIMER_US 2000 /* how long the client waits for an answer */

struct message {
	uint64_t id;
	char text[56];
};

/* The client or the server: an endpoint, its one peer, and a buffer for each direction. */
struct side {
	struct leat_ep *ep;
	struct leat_mr *mr;
	struct leat_task_event connected;
	uint16_t peer;
	struct message out, in;
};

extern struct side client, server;

/* Send `out`, or receive `in`. Both wait and can be cancelled. Return 0 or a negative errno. */
int talk_send(struct side *s);
int talk_receive(struct side *s);

/*
 * Start leat, connect client and server, run main_task as the client's task, and clean up. Returns
 * the program's exit status: 0 when main_task returned 0.
 */
int talk_run(int argc, char **argv, leat_task_fn main_task);

#endif /* TALK_H */
