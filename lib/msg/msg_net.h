/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MSG_NET_H
#define MSG_NET_H

/*
 * Types and functions that the files behind the waiting calls of leat_msg_task.h share.
 *
 *     net.c         opening and closing a net, memory regions
 *     net_conn.c    dial, listen, accept, close
 *     task_io.c     send, recv, bursts
 *
 * A net has a "sock" for each connection, from before the connect or accept until LEAT_MSG_CLOSED:
 *
 *     dial         FREE -> DIALING -- UP --> OPEN -- leat_msg_task_close() --> CLOSING
 *     CONNECT_REQ  FREE -> COMING --- UP --> QUEUED -- accept --> OPEN
 *                             any -- LEAT_MSG_CLOSED --> FREE
 *
 * In OPEN the application owns the connection. In all other states the net closes it when it ends.
 */

#include <leat_resource.h>

#include "leat_msg_task.h"
#include "msg_below.h"

enum sock_state { SOCK_FREE = 0, SOCK_DIALING, SOCK_COMING, SOCK_QUEUED, SOCK_OPEN, SOCK_CLOSING };

/* A task that waits for a sock or a net. */
struct net_wait {
	struct leat_resource_op op;
	struct net_waits *list; /* list that contains this wait; NULL: none */
	struct net_wait *next, *prev;
	struct leat_msg_net *net;
	struct sock *sock;
	const char *addr; /* dial: the peer's address */
	char *why;	  /* dial: receives the reason of a failure, LEAT_EVENT_TEXT bytes */
	uint64_t timeout_us;
};

/* Tasks that wait for the same thing, in the order in which they began to wait. */
struct net_waits {
	struct net_wait *first, *last;
};

struct sock {
	struct leat_msg_net *net;
	struct leat_msg_conn *conn;
	struct sock *next;	/* next in the list of free socks, or in the queue of accept */
	struct net_waits waits; /* DIALING: the task that dials; CLOSING: tasks in close */
	uint8_t state;
	char addr[LEAT_ADDR_MAX];  /* address of the peer, for texts */
	char why[LEAT_EVENT_TEXT]; /* why the connection ended */
};

struct net_region {
	uintptr_t addr;
	size_t len;
	struct leat_mr *mr;
};

struct leat_msg_net {
	struct leat_ep *ep;
	struct leat_msg *m;
	struct msg_below *below;
	struct leat_msg_net_conf conf;
	struct sock *socks, *free;
	struct sock *queue, **queue_end; /* connections that are up and wait for accept */
	unsigned int nb_waiting;	 /* connections in queue, or in state COMING */
	struct net_waits accepts;	 /* tasks in accept */
	struct net_waits closes;	 /* tasks in leat_msg_net_close() */
	bool listening, closing;
	bool left;		  /* closing: a connection's timeout passed with sends left */
	bool mr_failure_logged;	  /* a failed registration was logged */
	char addr[LEAT_ADDR_MAX]; /* address of the last listen */
	unsigned int nb_regions;
	struct net_region regions[LEAT_MSG_NET_REGIONS];
};

static inline struct sock *
sock_of(const struct leat_msg_conn *c)
{
	return (struct sock *)leat_msg_conn_user(c);
}

/* Find the region that contains all of a buffer. @return NULL: there is none */
struct leat_mr *net_region_find(const struct leat_msg_net *net, const void *buf, size_t len);

/* net_conn.c */
void net_wait_add(struct net_waits *list, struct net_wait *w);
void net_wait_remove(struct net_wait *w);
void net_wake_all(struct net_waits *list, int result);
void net_on_conn_event(void *arg, const struct leat_msg_event *ev);
void net_on_ep_event(void *arg, struct leat_ep *ep, const struct leat_event *ev);

/* task_io.c */
void net_on_done(void *arg, struct leat_msg_req **reqs, uint16_t n, uint64_t now);
/* Provide memory for the message of a receive whose buffer lies outside of all regions. */
void *net_alloc(void *arg, uint64_t len, struct leat_mr **mr);

#endif /* MSG_NET_H */
