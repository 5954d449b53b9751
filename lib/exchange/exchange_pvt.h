/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXCHANGE_PVT_H
#define EXCHANGE_PVT_H

/*
 * The address exchange's insides: oob.c has the instance (slots, polling, events), oob_listen.c its
 * listener, oob_conn.c one connection's states, oob_wire.c the messages.
 *
 *     connector                                acceptor
 *
 *     RESOLVING --> CONNECTING --> HELLO_SENT  HELLO_WAIT --> REQUESTED --> ACCEPT_SENT
 *         ^            |  |            |                                       |
 *         |            v  v            |                                       |
 *         +--------- BACKOFF <---------+(reset)                                |
 *                                      +-----------------> UP <----------------+
 *
 *     DEAD     the socket is closed, the last event is still to be fetched
 *     CLOSING  for its owner the connection is no more; the last message is on its way
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "leat_addr.h"
#include "leat_exchange.h"
#include "leat_wheel.h"
#include "exchange_wire.h"

enum oob_state {
	OOB_FREE = 0,
	OOB_RESOLVING,
	OOB_CONNECTING,
	OOB_BACKOFF,
	OOB_HELLO_SENT,
	OOB_HELLO_WAIT,
	OOB_REQUESTED,
	OOB_ACCEPT_SENT,
	OOB_UP,
	OOB_PARTING, /* the other side said BYE, this one has something to finish */
	OOB_DEAD,
	OOB_CLOSING,
};

/* Events that wait to be fetched, in this order. */
#define OOB_EV_REQUEST 1u
#define OOB_EV_CONNECTED 2u
#define OOB_EV_END 4u

TAILQ_HEAD(oob_list, oob_conn);

struct oob_conn {
	struct leat_oob *oob;
	TAILQ_ENTRY(oob_conn) link;    /* in list */
	TAILQ_ENTRY(oob_conn) ev_link; /* in leat_oob.events while events != 0 */
	struct oob_list *list;	       /* free, pending, closing, resolving or NULL */
	struct leat_wheel_node timer;
	uint64_t deadline; /* connector: cycles; end of all attempts */
	uint64_t began;	   /* connector: cycles; for messages */
	void *user;
	int fd;		/* -1: none */
	uint16_t index; /* in leat_oob.conns */
	uint16_t gen;	/* of the id, 1..32767; changes whenever an id dies */
	uint8_t state;	/* enum oob_state */
	uint8_t events; /* OOB_EV_* to be fetched */
	bool connector;
	bool told;    /* a REQUEST was fetched */
	bool counted; /* in leat_oob.nb_ids */
	bool hope;    /* connector: an attempt of this round failed in a way that may pass */
	uint32_t epoll_mask;
	uint32_t backoff_us;
	int status; /* of the last event */
	int cause;  /* connector: negative errno of the last failed attempt, 0: none */
	struct leat_lookup *lookup;  /* connector in RESOLVING */
	struct addrinfo *ai;	     /* connector: addresses */
	struct addrinfo *ai_next;    /* connector: the one to try next, NULL: begin again */
	uint16_t blob_len, priv_len; /* in msg, for the event */
	uint16_t rx_len;
	uint16_t tx_off, tx_len;
	char kind[LEAT_OOB_KIND_MAX];
	char addr[LEAT_OOB_ADDR_MAX];
	char text[LEAT_OOB_TEXT_MAX];
	uint8_t msg[LEAT_OOB_BLOB_MAX + LEAT_OOB_PRIV_MAX];
	uint8_t rx[OOB_MSG_MAX];
	/* A HELLO stays at the start to be sent again; READY and BYE are put behind it. */
	uint8_t tx[OOB_MSG_MAX + OOB_HDR_LEN + OOB_HDR_LEN + OOB_BYE_LEN + OOB_TEXT_MAX];
};

struct leat_oob {
	int epfd;
	int listen_fd; /* -1: none */
	bool listen_paused;
	bool linger; /* as in leat_oob_conf */
	uint16_t nb_slots;
	uint16_t max_conns;
	uint16_t max_pending;
	uint16_t nb_pending; /* length of pending */
	uint16_t nb_ids;     /* connections with an id that the owner may know */
	uint64_t handshake_cycles;
	uint32_t dead_after_ms;
	uint64_t now;	 /* of the poll under way, or the last one */
	uint64_t warned; /* when the lack of descriptors was last logged; 0: never */
	struct leat_wheel_node listen_timer;
	struct oob_list free;
	struct oob_list pending;   /* HELLO_WAIT, oldest first */
	struct oob_list closing;   /* CLOSING, oldest first */
	struct oob_list resolving; /* RESOLVING */
	struct oob_list events;
	struct leat_oob_stats stats;
	char name[32];
	char kind[LEAT_OOB_KIND_MAX];
	struct leat_wheel wheel;
	struct oob_conn *conns; /* nb_slots */
};

/* epoll's user data of the listener; a connection's is its id. */
#define OOB_EPOLL_LISTENER UINT64_MAX

static inline int
oob_id(const struct oob_conn *c)
{
	return (int)c->gen << 16 | c->index;
}

/* ---- oob.c: slots, lists, timers, ends ------------------------------------------------------ */

struct oob_conn *oob_slot_get(struct leat_oob *oob);
void oob_id_count(struct oob_conn *c, bool on);
/* Closes what is open, makes the id invalid, and frees the slot. */
void oob_slot_put(struct oob_conn *c);
void oob_list_move(struct oob_conn *c, struct oob_list *list);
void oob_timer_set(struct oob_conn *c, uint64_t expiry);
void oob_event_add(struct oob_conn *c, unsigned int event);
int oob_epoll_set(struct oob_conn *c, uint32_t mask);
void oob_fd_close(struct oob_conn *c);
/* The other side says BYE: DOWN is told, the rest is up to the owner. */
void oob_part(struct oob_conn *c, const char *fmt, ...) __rte_format_printf(2, 3);
/* The id is alive and its owner may use it; NULL if not. */
struct oob_conn *oob_conn_find(const struct leat_oob *oob, int id);
/* Ends a connection with its last event, or without one if its owner does not know it. */
void oob_end(struct oob_conn *c, int status, const char *fmt, ...) __rte_format_printf(3, 4);

/* ---- oob_listen.c --------------------------------------------------------------------------- */

void oob_listener_event(struct leat_oob *oob);
/* The pause for want of a descriptor is over. */
void oob_listener_resume(struct leat_oob *oob);

/* ---- oob_conn.c ----------------------------------------------------------------------------- */

/* A TCP connection was accepted; owns fd from here on. */
void oob_conn_accepted(struct leat_oob *oob, int fd, const struct sockaddr *sa, socklen_t len);
/* Connector: begins with the lookup, or with the first address. */
void oob_conn_start(struct oob_conn *c, const char *host, const char *port);
void oob_conn_event(struct oob_conn *c, uint32_t events);
void oob_conn_timeout(struct oob_conn *c);
/* The lookup of a connector in RESOLVING may have ended. */
void oob_conn_resolve(struct oob_conn *c);
/* Puts a message behind what is to be sent, and sends what goes. */
void oob_conn_send(struct oob_conn *c, const uint8_t *msg, size_t len);
/* Says REJECT or BYE as the last thing, and takes the id from its owner. */
void oob_conn_bye(struct oob_conn *c, enum oob_type type, enum oob_reason reason, const char *why);

#endif /* EXCHANGE_PVT_H */
