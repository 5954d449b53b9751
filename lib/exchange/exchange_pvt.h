/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXCHANGE_PVT_H
#define EXCHANGE_PVT_H

/*
 * The address exchange's insides: exchange.c has the instance (polling, events), slot.c its slots,
 * listen.c its listener, source.c how many slots one source gets, conn.c one connection's states,
 * dial.c a connector's attempts, wire.c the messages, addr.c "host:port" and the look-up of names.
 * What differs between TCP and UNIX sockets is behind struct exchange_transport: tcp.c, unix.c.
 *
 *     connector                                acceptor
 *
 *     RESOLVING --> CONNECTING --> HELLO_SENT  HELLO_WAIT --> REQUESTED --> ACCEPT_SENT
 *         ^            |  |            |                                      |
 *         |            v  v            |                                      |
 *         +--------- BACKOFF <---------+ (reset, busy)                        |
 *                                      v                                      v
 *                                   PROVING                                PROVING
 *                                      v                                      v
 *                                  PROOF_SENT ----------> UP <---------- PROOF_SENT
 *
 *     DEAD     the socket is closed, the last event is still to be fetched
 *     CLOSING  for its owner the connection is no more; the last message is on its way
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "exchange_wire.h"
#include "leat_addr.h"
#include "leat_exchange.h"
#include "leat_wheel.h"

enum exchange_conn_state {
	CONN_FREE = 0,
	CONN_RESOLVING,
	CONN_CONNECTING,
	CONN_BACKOFF,
	CONN_HELLO_SENT,
	CONN_HELLO_WAIT,
	CONN_REQUESTED,
	CONN_ACCEPT_SENT,
	CONN_PROVING,	 /* the owner proves the other side's address */
	CONN_PROOF_SENT, /* it did; the other side's PROOF or READY is to come */
	CONN_UP,
	CONN_PARTING, /* the other side said BYE, this one has something to finish */
	CONN_DEAD,
	CONN_CLOSING,
};

/* Events that wait to be fetched, in this order. */
#define CONN_EV_REQUEST 1u
#define CONN_EV_PROVE 2u
#define CONN_EV_CONNECTED 4u
#define CONN_EV_NOTE 8u
#define CONN_EV_END 16u

TAILQ_HEAD(exchange_list, exchange_conn);

#define EXCHANGE_SOURCE_KEY 16
/* Longest directory of UNIX sockets, with its terminator: "/port-65535" has to fit behind it. */
#define EXCHANGE_DIR_MAX (sizeof(((struct sockaddr_un *)NULL)->sun_path) - 11)
/* Longest name of a UNIX socket in its directory, with its terminator. */
#define EXCHANGE_NAME_MAX (sizeof("name-") + 64)

/* Where accepted connections come from; see source.c. */
struct exchange_source {
	LIST_ENTRY(exchange_source) link; /* in a bucket, or in free_sources */
	uint8_t key[EXCHANGE_SOURCE_KEY];
	uint16_t refs;	  /* slots */
	uint16_t pending; /* of them without HELLO */
	uint16_t half;	  /* of them between HELLO and READY */
	uint16_t conns;	  /* of them with an id */
};
LIST_HEAD(exchange_source_list, exchange_source);

/* Descriptors that are on their way. */
struct exchange_fds {
	uint8_t nb;
	int fd[LEAT_EXCHANGE_FDS_MAX];
};

struct exchange_conn {
	struct leat_exchange *x;
	TAILQ_ENTRY(exchange_conn) link;    /* in list */
	TAILQ_ENTRY(exchange_conn) ev_link; /* in leat_exchange.events while events != 0 */
	struct exchange_list *list;	    /* free, pending, half, closing, resolving or NULL */
	struct exchange_source *source;	    /* acceptor, else NULL */
	uint64_t accepted_at;		    /* acceptor: leat_exchange.awake when ACCEPT was sent */
	struct leat_wheel_node timer;
	uint64_t deadline; /* connector: cycles; end of all attempts */
	uint64_t began;	   /* connector: cycles; for messages */
	void *user;
	int fd;		/* -1: none */
	int process_fd; /* readable when the other side's process has ended; -1: none */
	uint16_t index; /* in leat_exchange.conns */
	uint16_t gen;	/* of the id, 1..32767; changes whenever an id dies */
	uint8_t state;	/* enum exchange_conn_state */
	uint8_t events; /* CONN_EV_* to be fetched */
	bool connector;
	bool told;    /* its first event was fetched */
	bool was_up;  /* CONNECTED was fetched */
	bool counted; /* in leat_exchange.nb_ids */
	bool hope;    /* connector: an attempt of this round failed in a way that may pass */
	uint32_t epoll_mask;
	uint32_t backoff_us;
	int status; /* of the last event */
	int cause;  /* connector: negative errno of the last failed attempt, 0: none */
	struct leat_lookup *lookup; /* connector in RESOLVING */
	struct addrinfo *ai;	    /* connector: addresses */
	struct addrinfo *ai_next;   /* connector: the one to try next, NULL: begin again */
	uint16_t blob_len, priv_len, proof_len; /* in msg, for the event */
	uint16_t rx_len;
	uint16_t tx_off, tx_len;
	uint16_t hello_len; /* connector: of the HELLO at the start of tx; else 0 */
	/* Sent with HELLO, with each attempt, or with ACCEPT. */
	struct exchange_fds tx_fds;
	struct exchange_fds rx_fds; /* for the event */
	char kind[LEAT_EXCHANGE_KIND_MAX];
	char addr[LEAT_EXCHANGE_ADDR_MAX];
	char text[LEAT_EXCHANGE_TEXT_MAX];
	uint8_t msg[LEAT_EXCHANGE_BLOB_MAX + LEAT_EXCHANGE_PRIV_MAX + LEAT_EXCHANGE_PROOF_MAX];
	uint8_t rx[EXCHANGE_MSG_MAX];
	/* A HELLO stays at the start to be sent again; the others are put behind it. */
	uint8_t tx[EXCHANGE_MSG_MAX + EXCHANGE_HDR_LEN + EXCHANGE_HDR_LEN + EXCHANGE_HDR_LEN +
		   EXCHANGE_BYE_LEN + EXCHANGE_TEXT_MAX];
};

/* What differs between TCP and UNIX sockets. */
struct exchange_transport {
	bool local; /* both sides are on one machine: descriptors and NOTE */
	/* An address to connect to. 0, or a negative errno with leat_err_msg(). */
	int (*check)(const struct leat_exchange *x, const char *addr);
	/* Begins a round of attempts. */
	void (*dial)(struct exchange_conn *c);
	/* Begins the next attempt of the round; false: there is none. */
	bool (*dial_next)(struct exchange_conn *c);
	/* The socket is connected. false: to something wrong, the attempt or connector has ended. */
	bool (*connected)(struct exchange_conn *c);
	/*
	 * The socket was accepted: sets c->addr and c->source. false: this side does not want it,
	 * c->text says why.
	 */
	bool (*accepted)(struct exchange_conn *c, const struct sockaddr *sa, socklen_t len);
	/* Watches the other side's process, if that is possible. */
	void (*watch)(struct exchange_conn *c);
	void (*up)(struct exchange_conn *c);
	/* Of c->tx, and into c->rx. As send(2) and recv(2); *why is set: that is wrong. */
	ssize_t (*send)(struct exchange_conn *c);
	ssize_t (*recv)(struct exchange_conn *c, const char **why);
	/* Gives a listening socket, or a negative errno with leat_err_msg(). */
	int (*listen)(struct leat_exchange *x, const char *addr);
	int (*listen_addr)(const struct leat_exchange *x, char *addr, size_t len);
	/* The listening socket is about to be closed. */
	void (*unlisten)(struct leat_exchange *x);
	/* The other side of a connection died. */
	void (*peer_died)(struct leat_exchange *x);
};

extern const struct exchange_transport exchange_tcp;
extern const struct exchange_transport exchange_unix;

/* Where the names of UNIX sockets are. */
struct exchange_names {
	char dir[EXCHANGE_DIR_MAX]; /* "@PREFIX": abstract */
	bool any_user;
	bool sweep_due;	    /* sweep_timer runs */
	unsigned int swept; /* entries of the directory that the sweep under way has seen */
	struct leat_wheel_node sweep_timer;
	char listen_addr[LEAT_EXCHANGE_ADDR_MAX];
	char listen_name[EXCHANGE_NAME_MAX]; /* in the directory */
	dev_t listen_dev;
	ino_t listen_ino;
};

struct leat_exchange {
	int epfd;
	int listen_fd; /* -1: none */
	bool listen_paused;
	const struct exchange_transport *transport;
	bool linger; /* as in leat_exchange_conf */
	bool prove;
	uint8_t max_fds;
	uint16_t nb_slots;
	uint16_t max_conns;
	uint16_t max_pending;
	uint16_t nb_pending; /* length of pending */
	uint16_t nb_ids;     /* connections with an id that the owner may know */
	uint64_t handshake_cycles;
	uint32_t dead_after_ms;
	uint64_t now;	 /* of the poll under way, or the last one */
	uint64_t polled; /* when leat_exchange_poll() was called last */
	uint64_t awake; /* cycles in which it was polled; a pause between two polls counts little */
	uint64_t warned; /* when the lack of descriptors was last logged; 0: never */
	struct leat_wheel_node listen_timer;
	struct exchange_list free;
	struct exchange_list pending;	/* HELLO_WAIT, oldest first */
	struct exchange_list half;	/* REQUESTED and ACCEPT_SENT, oldest HELLO first */
	struct exchange_list closing;	/* CLOSING, oldest first */
	struct exchange_list resolving; /* RESOLVING */
	struct exchange_list events;
	struct leat_exchange_stats stats;
	char name[32];
	char kind[LEAT_EXCHANGE_KIND_MAX];
	struct leat_wheel wheel;
	uint64_t random;      /* for pauses and buckets; xorshift64 */
	uint16_t source_half; /* as in leat_exchange_conf */
	uint16_t source_max;
	uint16_t waiter_conns; /* connections that the waiter had */
	/* Source with the fewest connections that was told BUSY. */
	uint8_t waiter[EXCHANGE_SOURCE_KEY];
	uint64_t waiter_until;		 /* 0: none */
	uint64_t ripe;			 /* cycles; see source.c */
	uint64_t evict_next;		 /* in awake */
	struct exchange_source *sources; /* nb_slots */
	struct exchange_source_list free_sources;
	struct exchange_source_list source_bucket[256];
	struct exchange_conn *conns; /* nb_slots */
	struct exchange_names names; /* UNIX sockets */
};

/* epoll's user data of the listener; a connection's is its id. */
#define EXCHANGE_EPOLL_LISTENER UINT64_MAX
/* With a connection's id: its process_fd. */
#define EXCHANGE_EPOLL_PROCESS (UINT64_C(1) << 32)

/* Of ids, from 1. */
#define EXCHANGE_GEN_MAX 0x7fff

static inline int
exchange_id(const struct exchange_conn *c)
{
	return (int)c->gen << 16 | c->index;
}

/* ---- slot.c ---------------------------------------------------------------------------------- */

struct exchange_conn *exchange_slot_get(struct leat_exchange *x);
void exchange_id_count(struct exchange_conn *c, bool on);
/* Closes what is open, makes the id invalid, and frees the slot. */
void exchange_slot_put(struct exchange_conn *c);
void exchange_list_move(struct exchange_conn *c, struct exchange_list *list);
void exchange_timer_set(struct exchange_conn *c, uint64_t expiry);
void exchange_event_add(struct exchange_conn *c, unsigned int event);
int exchange_epoll_set(struct exchange_conn *c, uint32_t mask);
void exchange_fd_close(struct exchange_conn *c);
void exchange_process_close(struct exchange_conn *c);
/* The other side says BYE: DOWN is told, the rest is up to the owner. */
void exchange_part(struct exchange_conn *c, const char *fmt, ...) __rte_format_printf(2, 3);
/* The id is alive and its owner may use it; NULL if not. */
struct exchange_conn *exchange_conn_find(const struct leat_exchange *x, int id);
/* Ends a connection with its last event, or without one if its owner does not know it. */
void exchange_end(struct exchange_conn *c, int status, const char *fmt, ...)
	__rte_format_printf(3, 4);

/* ---- listen.c -------------------------------------------------------------------------------- */

void exchange_listener_event(struct leat_exchange *x);
void exchange_listener_close(struct leat_exchange *x);
/* The pause for want of a descriptor is over. */
void exchange_listener_resume(struct leat_exchange *x);

/* ---- source.c -------------------------------------------------------------------------------- */

void exchange_source_init(struct leat_exchange *x);
/* A connection was accepted from there; dropped when its slot is free again. */
void exchange_source_hold(struct exchange_conn *c, const uint8_t key[EXCHANGE_SOURCE_KEY]);
void exchange_source_drop(struct exchange_conn *c);
/* The connection without HELLO that gives way to a newcomer. */
struct exchange_conn *exchange_source_pending_victim(struct leat_exchange *x);
/*
 * Ends one that was not proven for a while, of that source (NULL: any). Its id is free when its
 * owner knows.
 */
void exchange_source_make_room(struct leat_exchange *x, const struct exchange_source *of);
/* Time passed between two polls; a connection that was accepted is up. */
void exchange_source_clock(struct leat_exchange *x, uint64_t now);
void exchange_source_up(const struct exchange_conn *c);
/* May a HELLO become a request? NULL, or why not now. */
const char *exchange_source_admit(struct leat_exchange *x, const struct exchange_source *s);
/* It was told BUSY; it became a request. */
void exchange_source_waits(struct leat_exchange *x, const struct exchange_source *s);
void exchange_source_served(struct leat_exchange *x, const struct exchange_source *s);

/* ---- conn.c ---------------------------------------------------------------------------------- */

/* A socket was accepted; owns fd from here on. */
void exchange_conn_accepted(struct leat_exchange *x, int fd, const struct sockaddr *sa,
			    socklen_t len);
/* Connector: the socket is connected. Sends its HELLO. */
void exchange_conn_hello(struct exchange_conn *c);
void exchange_conn_event(struct exchange_conn *c, uint32_t events);
/* The other side's process has ended, though something may hold its socket. */
void exchange_conn_process_ended(struct exchange_conn *c);
/* The other side's address is its own. */
void exchange_conn_proven(struct exchange_conn *c);
/*
 * Puts a message behind what is to be sent, and sends what goes. 0, or a positive errno; epoll
 * reports those of the connection itself, too.
 */
int exchange_conn_send(struct exchange_conn *c, const uint8_t *msg, size_t len);
/* Says REJECT, with reason BUSY. */
void exchange_conn_busy(struct exchange_conn *c, const char *why);
/* Says REJECT or BYE as the last thing, and takes the id from its owner. */
void exchange_conn_bye(struct exchange_conn *c, enum exchange_type type,
		       enum exchange_reason reason, const char *why);

/* ---- dial.c: connectors, until the socket is connected --------------------------------------- */

void exchange_dial(struct exchange_conn *c);
/* The pause is over. */
void exchange_dial_again(struct exchange_conn *c);
void exchange_dial_backoff(struct exchange_conn *c);
/* Begins to connect a new socket, until expiry. 0, or a positive errno. */
int exchange_dial_open(struct exchange_conn *c, int protocol, const struct sockaddr *sa,
		       socklen_t len, uint64_t expiry);
void exchange_dial_connected(struct exchange_conn *c);
/* This attempt failed; err is a positive errno. */
void exchange_dial_failed(struct exchange_conn *c, int err);
/* All attempts failed. */
void exchange_dial_give_up(struct exchange_conn *c);

/* ---- tcp_dial.c ------------------------------------------------------------------------------ */

void exchange_tcp_dial(struct exchange_conn *c);
bool exchange_tcp_dial_next(struct exchange_conn *c);
/* The lookup of a connector in RESOLVING may have ended. */
void exchange_tcp_resolve(struct exchange_conn *c);

/* What is wrong with descriptors that come later than with the first byte of HELLO or ACCEPT. */
#define EXCHANGE_STRAY_FDS "descriptors with a message that has none"

/* ---- fds.c ----------------------------------------------------------------------------------- */

/* Duplicates those of data. 0, or a negative errno with leat_err_msg(), and nothing is open. */
int exchange_fds_dup(struct exchange_fds *fds, const struct leat_exchange_data *data,
		     const char *name);
void exchange_fds_close(struct exchange_fds *fds);
/* exchange_transport.send and .recv of UNIX sockets. */
ssize_t exchange_fds_send(struct exchange_conn *c);
ssize_t exchange_fds_recv(struct exchange_conn *c, const char **why);

/* ---- timeout.c ------------------------------------------------------------------------------- */

void exchange_conn_timeout(struct exchange_conn *c);

#endif /* EXCHANGE_PVT_H */
