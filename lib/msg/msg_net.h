/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MSG_NET_H
#define MSG_NET_H

/*
 * What the files of the waiting forms share.
 *
 *     net.c         a net's life, its events
 *     net_conn.c    dial, listen, accept, close
 *     task_io.c     send, recv, bursts
 *
 * Each connection of a net has a sock, from before it is asked for until it is closed:
 *
 *     dial         FREE -> DIALING -- UP --> OPEN -- leat_msg_task_close() --> CLOSING
 *     CONNECT_REQ  FREE -> COMING --- UP --> QUEUED -- accept --> OPEN
 *                             any -- LEAT_MSG_CLOSED --> FREE
 *
 * In OPEN the connection is the application's. In all other states the net closes it when it ends.
 */

#include <leat_resource.h>

#include "leat_msg_task.h"
#include "msg_below.h"

enum sock_state { SOCK_FREE = 0, SOCK_DIALING, SOCK_COMING, SOCK_QUEUED, SOCK_OPEN, SOCK_CLOSING };

/* A task that waits for something of a sock or a net. */
struct net_wait {
	struct leat_resource_op op;
	struct net_waits *list; /* it is in; NULL: none */
	struct net_wait *next, *prev;
	struct leat_msg_net *net;
	struct sock *sock;
	const char *addr; /* dial: where to */
	char *why;	  /* dial: gets LEAT_EVENT_TEXT bytes */
	uint64_t timeout_us;
};

/* In the order in which they came. */
struct net_waits {
	struct net_wait *first, *last;
};

struct sock {
	struct leat_msg_net *net;
	struct leat_msg_conn *conn;
	struct sock *next;	/* free, or in the queue of accept */
	struct net_waits waits; /* DIALING: the one that dials; CLOSING: those that wait for it */
	uint8_t state;
	char addr[LEAT_ADDR_MAX];  /* for people */
	char why[LEAT_EVENT_TEXT]; /* it ended */
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
	struct sock *queue, **queue_end; /* stand and wait for accept */
	unsigned int nb_waiting;	 /* in it, or on their way to it */
	struct net_waits accepts;	 /* tasks in accept */
	struct net_waits closes;	 /* tasks that wait for the end of all connections */
	bool listening, closing;
	bool left; /* closing: some was not sent */
	bool told_mr;
	char addr[LEAT_ADDR_MAX]; /* that was listened at */
	unsigned int nb_regions;
	struct net_region regions[LEAT_MSG_NET_REGIONS];
};

static inline struct sock *
sock_of(const struct leat_msg_conn *c)
{
	return (struct sock *)leat_msg_conn_user(c);
}

/* A region that has all of it, or NULL. */
struct leat_mr *net_region_find(const struct leat_msg_net *net, const void *buf, size_t len);

/* net_conn.c */
void net_wait_add(struct net_waits *list, struct net_wait *w);
void net_wait_remove(struct net_wait *w);
void net_wake_all(struct net_waits *list, int result);
void net_on_conn_event(void *arg, const struct leat_msg_event *ev);
void net_on_ep_event(void *arg, struct leat_ep *ep, const struct leat_event *ev);

/* task_io.c */
void net_on_done(void *arg, struct leat_msg_req **reqs, uint16_t n, uint64_t now);
/* Memory for a long message of a receive that has a buffer outside of all regions. */
void *net_alloc(void *arg, uint64_t len, struct leat_mr **mr);

#endif /* MSG_NET_H */
