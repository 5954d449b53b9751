/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RING_INSIDE_H
#define RING_INSIDE_H

/*
 * The ring driver: endpoints of one process, one lcore each. drivers/common/ring exchanges their
 * ops; this directory connects them.
 *
 *     ring_driver.c the device and its endpoints    ring_name.c   listeners by name, mailboxes
 *     ring_conn.c   connect and disconnect          ring_wait.c   wait objects: sleep and wake
 *
 * Words that several threads touch, in addition to those of ring_shared.h:
 *
 *     STATE    conn.state     both sides, by CAS
 *              The outcome of connecting. After RING_CONN_UP the connector may read the acceptor's
 *              lane and private data.
 *     BELL     mbox.bell      any thread -> owner
 *              Look at your connections (control path).
 *     ASLEEP   mbox.asleep    owner -> any thread
 *              The owner sleeps: write to mbox.fd after publishing something for it. See
 *              ring_wait.c for the fence.
 */

#include <pthread.h>

#include "ring_pvt.h"

enum ring_conn_state {
	RING_CONN_REQUEST = 0, /* requested by the connector; no lane of the acceptor yet */
	RING_CONN_UP,	       /* accepted */
	RING_CONN_REJECTED,
	RING_CONN_ABANDONED, /* the connector gave up before the acceptor answered */
};

/*
 * A connection. Each side holds a reference and the last one frees it, so neither side touches
 * memory of the peer that was freed.
 */
struct ring_conn {
	uint32_t refs;		      /* one per side; release on drop, acquire before the free */
	uint32_t state;		      /* STATE: enum ring_conn_state, leaves REQUEST by CAS, once */
	STAILQ_ENTRY(ring_conn) next; /* next in the acceptor's mailbox, under its lock */
	/* Each side's mailbox, with a reference to it. [1] is set before the request is sent. */
	struct ring_mbox *mbox[2];
	bool datagram;	 /* the connector's type; the acceptor's must be the same */
	uint32_t mtu[2]; /* each side's longest datagram, bytes */
	uint16_t priv_len[2];
	uint8_t priv[2][LEAT_EP_PRIV_MAX];
	char connector[LEAT_ADDR_MAX]; /* name of the connector, for messages to people */
	/* used by the connector only */
	bool sent; /* a listener has the request */
	uint64_t deadline;
	char addr[LEAT_ADDR_MAX];
	/* [s]: produced by side s. [0] the connector, [1] the acceptor */
	struct ring_dir dir[2];
	struct ring_lane lane[2]; /* a producer creates its lane before the consumer reads it */
	void *lane_mem[2];
};

/*
 * Mailbox of an endpoint: where requests to connect arrive. It outlives the endpoint as long as
 * connections or a listener refer to it.
 */
struct ring_mbox {
	uint32_t refs;
	uint32_t bell; /* BELL: number of times that it was rung */
	pthread_mutex_t lock;
	bool closed;			   /* under lock */
	STAILQ_HEAD(, ring_conn) requests; /* under lock; each with a reference */
	int fd;				   /* eventfd of an endpoint with a wait object, else -1 */
	struct ring_board *board;	   /* MARK: the owner's board */
	/* ASLEEP: peers read it after each message that they send; written when the owner sleeps */
	uint32_t asleep __attribute__((aligned(128)));
} __attribute__((aligned(128)));

/* An endpoint. */
struct ring_inside {
	struct ring_ep ring; /* the first member: ep->drv points to it */
	struct ring_mbox *mbox;
	uint32_t bell_seen;
	struct ring_listener *listener;
};

static inline struct ring_inside *
ring_inside_of(const struct leat_ep *ep)
{
	return ep->drv;
}

/* ---- ring_name.c ---- */

/* Create a mailbox, with one reference. @return NULL: out of memory */
struct ring_mbox *ring_mbox_new(uint32_t max_peers);
void ring_mbox_get(struct ring_mbox *mbox);
void ring_mbox_put(struct ring_mbox *mbox);
/* Reject the waiting requests and all later ones. */
void ring_mbox_close(struct ring_mbox *mbox);
/* Take the oldest request, with its reference. @return NULL: there is none */
struct ring_conn *ring_mbox_take(struct ring_mbox *mbox);
/* Send a request to the listener at addr and set conn->mbox[1]. @return false: none listens */
bool ring_name_send(const char *addr, struct ring_conn *conn);
/* Check an address to connect to; what: the operation, for the message. @return 0 or -EINVAL */
int ring_name_check(const char *addr, const char *what);
/* Listen at addr. @return NULL with leat_err(): EINVAL, EADDRINUSE or ENOMEM */
struct ring_listener *ring_name_listen(const char *addr, struct ring_mbox *mbox);
void ring_name_unlisten(struct ring_listener *l);
int ring_name_get(const struct ring_listener *l, char *addr, size_t len);

/* ---- ring_wait.c ---- */

int ring_wait_open(struct ring_mbox *mbox);
int ring_ep_fd(const struct leat_ep *ep);
int ring_ep_arm(struct leat_ep *ep);
void ring_ep_disarm(struct leat_ep *ep);
/* Wake the owner, if it still sleeps. Of several threads that call this, one writes to the fd. */
void ring_wake_now(struct ring_mbox *mbox);

/* Wake the owner if it sleeps (edge ASLEEP), as ring_link_wake() does. */
static inline void
ring_wake(struct ring_mbox *mbox)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (unlikely(__atomic_load_n(&mbox->asleep, __ATOMIC_RELAXED) != 0))
		ring_wake_now(mbox);
}

/* Ring the owner's BELL. When the owner sees the new count, it sees all that the caller did. */
static inline void
ring_bell(struct ring_mbox *mbox)
{
	__atomic_fetch_add(&mbox->bell, 1, __ATOMIC_RELEASE);
	ring_wake(mbox);
}

/* ---- ring_conn.c ---- */

void ring_conn_put(struct ring_conn *conn);
/* Decide the outcome of a request to connect. @return false: it was decided before */
bool ring_conn_decide(struct ring_conn *conn, enum ring_conn_state state);
/* Reject a request, if the connector has not abandoned it. */
void ring_conn_reject(struct ring_conn *conn);
/* Operations of struct leat_driver. */
int ring_connect(struct leat_ep *ep, struct leat_peer *peer, const char *addr,
		 const struct leat_conn_params *params);
int ring_accept(struct leat_ep *ep, struct leat_peer *peer, const struct leat_conn_params *params);
void ring_reject(struct leat_ep *ep, struct leat_peer *peer);
void ring_progress(struct leat_ep *ep, uint64_t now);
/* Free all connections of an endpoint that closes, and tell their peers. No op may be in flight. */
void ring_conns_free(struct ring_ep *rep, enum ring_closed closed);

#endif /* RING_INSIDE_H */
