/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHM_PVT_H
#define SHM_PVT_H

/*
 * The shm driver: endpoints of several processes of one machine. drivers/common/ring exchanges
 * their ops; this directory connects them and sets up the memory that they share.
 *
 *     shm_driver.c  the device and its endpoints    shm_memory.c  memfds: create and map
 *     shm_conn.c    connect and disconnect          shm_hello.c   the connection's wire format
 *     shm_wait.c    wait objects: sleep and wake
 *     shm_share.c   share=1: memory for the peers   shm_reach.c   share=1: memory of a peer
 *
 * Processes connect over the UNIX sockets of an exchange (leat_exchange.h), in the directory dir. A
 * process shares memory as nameless memfds, whose descriptors travel with the exchange's messages
 * HELLO and ACCEPT:
 *
 *     lane     a direction of the connection; its producer creates it, both sides write it
 *     asleep   one word of the endpoint; peers can only read it
 *     board    a bit, the mark, per connection of the endpoint; its peers set it (ring_mark.h)
 *     share=1  see shm_share.h
 *
 * A peer can write anything into lanes and boards. It can't shrink them (they are sealed), nor
 * reach other memory. A peer that wipes the board delays other peers a little, see ring_unmarked().
 *
 * This device implements these edges of ring_shared.h:
 *
 *     BELL     the message NOTE of the exchange
 *     ASLEEP   the word asleep: 0: awake; else the number of the sleep; a peer sends one NOTE per
 *              sleep
 *     CLOSED   dir.closed, and the message BYE of the exchange
 */

#include "leat_exchange.h"

#include "ring_pvt.h"

#include "shm_memory.h"
#include "shm_share.h"

#define SHM_SEGMENT_MIN 65536
#define SHM_SEGMENT_MAX (64u << 20)
#define SHM_SEGMENT_DEFAULT (512u << 10)
#define SHM_DEPTH_MAX 16384 /* an ack's number has 16 bits, and there are two acks per slot */
#define SHM_MAX_PEERS 32752 /* 16 connections of the exchange are left for requests to connect */
#define SHM_DEAD_PEER_MS 100

/* The device's arguments. */
struct shm_dev {
	struct ring_dev ring; /* first member: the common code uses it as its device */
	uint32_t segment;     /* bytes per direction for messages that do not fit into slots */
	uint32_t any_user;    /* users=1 */
	uint32_t share;	      /* share=1 */
	char dir[96];
};

/* ---- endpoints ---- */

/* Descriptors that a side sends, in this order; with share=1 those of shm_share.fds follow. */
enum { SHM_FD_LANE, SHM_FD_ASLEEP, SHM_FD_BOARD, SHM_FDS };
static_assert(SHM_FDS + 1 + SHM_SHARE_FDS == LEAT_EXCHANGE_FDS_MAX, "all descriptors are used");

struct shm_ep {
	struct ring_ep ring; /* the first member: ep->drv points to it */
	struct leat_exchange *exchange;
	bool exchange_more; /* the exchange may have more events than the last poll returned */
	bool wait;	    /* the endpoint has a wait object: its owner may sleep */
	struct shm_memory asleep, board;
	int fds[SHM_FDS];	      /* [SHM_FD_LANE] is unused: a lane belongs to a connection */
	uint32_t nb_sleeps;	      /* number of the last sleep */
	uint32_t nb_bytes, nb_chunks; /* per direction: bytes of the buffer, and chunks */
	struct shm_share *share;      /* NULL: the endpoint shares no memory */
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

#define SHM_HELLO_LEN 24

/* The properties of a side, which it sends when it connects or accepts. */
struct shm_hello {
	struct ring_shape shape; /* shape of the lane that the side produces into */
	uint32_t mtu;		 /* bytes of the longest datagram; 0: reliable endpoint */
	uint16_t peer;		 /* the bit of this connection on the side's board */
	bool wait;		 /* the side may sleep */
	bool fences;		 /* sleeping peers can make the side execute a fence */
	bool share;		 /* the side shares memory; in an acceptor's hello: both sides do */
};

/* Encode h into SHM_HELLO_LEN bytes. */
void shm_hello_put(uint8_t *buf, const struct shm_hello *h);
/* Decode and check a hello. @return NULL, or a text that says what is wrong */
const char *shm_hello_get(const uint8_t *buf, size_t len, bool datagram, struct shm_hello *h);

/* ---- shm_conn.c ---- */

/* A side's part of a connection. */
struct ring_conn {
	struct shm_ep *se;
	int id; /* id of the exchange's connection; 0: it has ended, or never began */
	/* tx, rx: shared parts of lanes; tx_own, rx_own: own parts; asleep, board: the peer's */
	struct shm_memory tx, rx, tx_own, rx_own, asleep, board;
	struct ring_lane tx_lane, rx_lane;
	struct shm_hello theirs;
	uint32_t woken;		 /* number of the peer's last sleep that this side ended */
	struct shm_reach *reach; /* the peer's memory; NULL: it shares none */
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
