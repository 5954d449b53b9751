/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MSG_TASK_H
#define MSG_TASK_H

/*
 * A reactor with tasks, run by the test's thread until the test's first task has returned. That
 * reactor drives the nets (struct leat_msg_net) of both sides.
 */

#include <errno.h>
#include <string.h>

#include <leat_error.h>
#include <leat_fabric.h>
#include <leat_msg_task.h>
#include <leat_reactor.h>
#include <leat_scope.h>
#include <leat_time.h>

#include "leat_cmocka.h"

/* Time for a stop; no test takes so long. */
#define STOP_US 5000000
#define TIMEOUT_US 5000000

struct msg_task_run {
	struct leat_reactor *r;
	enum leat_idle_policy idle;
	uint64_t stop_us;   /* 0: STOP_US */
	uint32_t max_tasks; /* 0: the default */
	int stopped;	    /* result that leat_reactor_run() must have */
};

extern struct msg_task_run task_run;

/*
 * Run the tests over the ring device, then over a fault device on it, which completes ops late and
 * in any order, and refuses posts.
 * @return number of tests that failed
 */
int msg_task_groups(const char *name, const struct CMUnitTest *tests, size_t n);

/* Run fn(arg) as a task; it must return 0. */
void msg_task_run(leat_task_fn fn, void *arg);

/* Two nets on one reactor, and a connection between them. */
struct msg_task_pair {
	struct leat_msg_net *client, *server;
	struct leat_msg_conn *c, *s;
	char addr[LEAT_ADDR_MAX];
};

/* Open the two nets; the server listens. conf NULL: the defaults. */
void pair_open(struct msg_task_pair *p, const struct leat_msg_net_conf *conf);
/* Dial from the client, and accept in the server. */
void pair_connect(struct msg_task_pair *p);
/* Close the connections that are open, then both nets. */
void pair_close(struct msg_task_pair *p);

#endif /* MSG_TASK_H */
