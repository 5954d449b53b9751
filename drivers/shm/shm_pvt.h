/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHM_PVT_H
#define SHM_PVT_H

/*
 * The shm driver: endpoints of several processes of one machine. How they exchange ops is in
 * drivers/common/ring; here is how they find each other, and what memory they share.
 *
 *     shm_driver.c  the device and the endpoint     shm_memory.c  memory that others map
 *     shm_conn.c    connecting, and the end         shm_hello.c   what travels when connecting
 *     shm_wait.c    sleeping until something happens
 *     shm_share.c   memory that peers reach         shm_reach.c   memory of a peer
 *
 * Processes meet over UNIX sockets (leat_exchange.h, with dir). What a process shares are memfds
 * without names, which travel with HELLO and ACCEPT:
 *
 *     lane     a direction of the connection; made by its producer, written by both
 *     asleep   one word of the endpoint; others can only read it
 *     board    marks of the endpoint's connections; written by all its peers
 *     share=1  see shm_share.h
 *
 * The other side can write what it likes into lanes and boards. What it can't: shrink them (they
 * are sealed), or reach anything else. A peer that wipes the board delays others a little, see
 * ring_unmarked().
 *
 *     BELL     a NOTE of the exchange
 *     ASLEEP   the word asleep: 0, or the number of the sleep, for which a peer sends one NOTE
 *     CLOSED   dir.closed, and BYE
 */

#include "leat_exchange.h"

#include "ring_pvt.h"

#include "shm_memory.h"
#include "shm_share.h"

#define SHM_SEGMENT_MIN 65536
#define SHM_SEGMENT_MAX (64u << 20)
#define SHM_SEGMENT_DEFAULT (512u << 10)
#define SHM_DEPTH_MAX 16384 /* two acks per slot, whose numbers have 16 bits */
#define SHM_MAX_PEERS 32752 /* of the exchange's connections some are only asking */
#define SHM_DEAD_PEER_MS 100

/* The device's arguments. */
struct shm_dev {
	struct ring_dev ring; /* first: what common code asks the device for */
	uint32_t segment;     /* bytes of each direction for what does not fit into slots */
	uint32_t any_user;
	uint32_t share;
	char dir[96];
};

/* ---- endpoints ---- */

/* Descriptors that travel, in this order. */
enum { SHM_FD_LANE, SHM_FD_ASLEEP, SHM_FD_BOARD, SHM_FDS }; /* behind them those of a share */
static_assert(SHM_FDS + 1 + SHM_SHARE_FDS == LEAT_EXCHANGE_FDS_MAX, "all descriptors are used");

struct shm_ep {
	struct ring_ep ring; /* first: ep->drv */
	struct leat_exchange *exchange;
	bool exchange_more; /* it had more events than were taken */
	bool wait;	    /* it may sleep */
	struct shm_memory asleep, board;
	int fds[SHM_FDS]; /* but for SHM_FD_LANE, which is a connection's */
	uint32_t nb_sleeps;
	uint32_t nb_bytes, nb_chunks; /* of each direction */
	struct shm_share *share;      /* NULL: it shares nothing */
};

static inline struct shm_ep *
shm_of(const struct leat_ep *ep)
{
	return ep->drv;
}

static inline const struct shm_dev *
shm_dev_of(const struct leat_ep *ep)
{
	return leat_dev_drv(ep->dev);
}

/* ---- shm_hello.c ---- */

#define SHM_HELLO_LEN 32

/* What a side tells of itself. */
struct shm_hello {
	struct ring_shape shape; /* of the lane that it produces into */
	uint32_t mtu;		 /* of datagrams, else 0 */
	uint32_t want;		 /* of marks */
	uint16_t peer;		 /* number of the connection at its side */
	bool wait;		 /* it may sleep */
	bool fences;		 /* those that sleep can make it execute a fence */
	bool share;		 /* of an acceptor: both do */
};

void shm_hello_put(uint8_t *buf, const struct shm_hello *h);
/* @return NULL, or what is wrong */
const char *shm_hello_get(const uint8_t *buf, size_t len, bool datagram, struct shm_hello *h);

/* ---- shm_conn.c ---- */

/* A side's part of a connection. */
struct ring_conn {
	struct shm_ep *se;
	int id; /* of the exchange; 0: none (any more) */
	struct shm_memory tx, rx, tx_own, rx_own, asleep, board;
	struct ring_lane tx_lane, rx_lane;
	struct shm_hello theirs;
	uint32_t woken;		 /* the other side's sleep for which it was woken */
	struct shm_reach *reach; /* NULL: nothing */
};

int shm_conn_init(struct shm_ep *se, const struct leat_ep_conf *conf);
void shm_conn_fini(struct shm_ep *se);
int shm_listen(struct leat_ep *ep, const char *addr);
int shm_listen_addr(struct leat_ep *ep, char *addr, size_t len);
int shm_connect(struct leat_ep *ep, struct leat_peer *peer, const char *addr,
		const struct leat_conn_params *params);
int shm_accept(struct leat_ep *ep, struct leat_peer *peer, const struct leat_conn_params *params);
void shm_reject(struct leat_ep *ep, struct leat_peer *peer);
void shm_progress(struct leat_ep *ep, uint64_t now);
void shm_halt(struct leat_ep *ep);

/* ---- shm_wait.c ---- */

int shm_ep_fd(const struct leat_ep *ep);
int shm_ep_arm(struct leat_ep *ep);
void shm_ep_disarm(struct leat_ep *ep);

#endif /* SHM_PVT_H */
