/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXCHANGE_PVT_H
#define EXCHANGE_PVT_H

/*
 * The address exchange's insides. exchange.c: the instance (polling, events); slot.c: its slots;
 * listen.c: its listener; source.c: how many slots a source gets; conn.c: states of a connection;
 * dial.c: a connector's attempts; wire.c: messages; addr.c: "host:port" and look-up of names.
 * Differences between TCP and UNIX sockets are behind struct exchange_transport: tcp.c, unix.c. The
 * owner is the code that created the instance: a driver. It knows a connection by its id.
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
 *     DEAD     the socket is closed; the owner has not fetched the last event yet
 *     CLOSING  the id that the owner knew is dead; the last message is being sent
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
	CONN_PROVING,	 /* the owner is proving the other side's address */
	CONN_PROOF_SENT, /* PROOF sent; waits for the other side's PROOF or READY */
	CONN_UP,
	CONN_PARTING, /* the other side said BYE; the owner has not closed yet, see linger */
	CONN_DEAD,
	CONN_CLOSING,
};

/* Events that the owner has not fetched yet; it gets them in this order. */
#define CONN_EV_REQUEST 1u
#define CONN_EV_PROVE 2u
#define CONN_EV_CONNECTED 4u
#define CONN_EV_NOTE 8u
#define CONN_EV_END 16u

TAILQ_HEAD(exchange_list, exchange_conn);

#define EXCHANGE_SOURCE_KEY 16
/* Longest path of the directory, with terminator: "/port-65535" must fit after it in sun_path. */
#define EXCHANGE_DIR_MAX (sizeof(((struct sockaddr_un *)NULL)->sun_path) - 11)
/* Longest name of a UNIX socket in the directory, with its terminator. */
#define EXCHANGE_NAME_MAX (sizeof("name-") + 64)

/* A source of accepted connections: a host, or a process of this host; see source.c. */
struct exchange_source {
	LIST_ENTRY(exchange_source) link; /* entry in source_bucket or free_sources */
	uint8_t key[EXCHANGE_SOURCE_KEY];
	uint16_t refs;	  /* slots of this source */
	uint16_t pending; /* slots of this source that wait for HELLO */
	uint16_t half;	  /* slots of this source between HELLO and READY */
	uint16_t conns;	  /* slots of this source with an id */
};
LIST_HEAD(exchange_source_list, exchange_source);

/* Descriptors to be sent, or received for an event. */
struct exchange_fds {
	uint8_t nb;
	int fd[LEAT_EXCHANGE_FDS_MAX];
};

struct exchange_conn {
	struct leat_exchange *x;
	TAILQ_ENTRY(exchange_conn) link;    /* entry in list */
	TAILQ_ENTRY(exchange_conn) ev_link; /* entry in leat_exchange.events while events != 0 */
	/* list that link is in: free, pending, half, closing, resolving; or NULL */
	struct exchange_list *list;
	struct exchange_source *source; /* acceptor: source of the connector; else NULL */
	uint64_t accepted_at; /* acceptor: value of leat_exchange.awake when ACCEPT was sent */
	struct leat_wheel_node timer;
	uint64_t deadline; /* connector: end of all attempts, cycles */
	uint64_t began;	   /* connector: start of the attempts, cycles; for error texts */
	void *user;
	int fd;		/* -1: none */
	int process_fd; /* pidfd of the peer's process, readable once the process ended; -1: none */
	uint16_t index; /* index in leat_exchange.conns */
	uint16_t gen;	/* generation of the id, 1..32767; changes whenever an id dies */
	uint8_t state;	/* enum exchange_conn_state */
	uint8_t events; /* CONN_EV_* that the owner has not fetched yet */
	bool connector;
	bool event_fetched; /* the owner has fetched the first event */
	bool was_up;	    /* CONNECTED was fetched */
	bool counted;	    /* the slot is counted in leat_exchange.nb_ids */
	bool retryable; /* connector: an attempt of this round failed for a reason that may pass */
	uint32_t epoll_mask;
	uint32_t backoff_us;
	int status; /* status of the END event */
	int cause;  /* connector: negative errno of the last failed attempt, 0: none */
	struct leat_lookup *lookup; /* connector in RESOLVING */
	struct addrinfo *ai;	    /* connector: addresses of the host */
	struct addrinfo *ai_next;   /* connector: address to try next; NULL: start a new round */
	uint16_t blob_len, priv_len, proof_len; /* lengths of the parts in msg, for the event */
	uint16_t rx_len;
	uint16_t tx_off, tx_len;
	uint16_t hello_len; /* connector: length of the HELLO at the start of tx; else 0 */
	/* Descriptors to send with HELLO, in each attempt, or with ACCEPT. */
	struct exchange_fds tx_fds;
	struct exchange_fds rx_fds; /* received descriptors, for the event */
	char kind[LEAT_EXCHANGE_KIND_MAX];
	char addr[LEAT_EXCHANGE_ADDR_MAX];
	char text[LEAT_EXCHANGE_TEXT_MAX];
	uint8_t msg[LEAT_EXCHANGE_BLOB_MAX + LEAT_EXCHANGE_PRIV_MAX + LEAT_EXCHANGE_PROOF_MAX];
	uint8_t rx[EXCHANGE_MSG_MAX];
	/* A connector's HELLO stays at the start, to be sent again; later messages follow it. */
	uint8_t tx[EXCHANGE_MSG_MAX + EXCHANGE_HDR_LEN + EXCHANGE_HDR_LEN + EXCHANGE_HDR_LEN +
		   EXCHANGE_BYE_LEN + EXCHANGE_TEXT_MAX];
};

/* Functions that differ between TCP and UNIX sockets. */
struct exchange_transport {
	bool local; /* both sides are on one machine: descriptors and NOTE work */
	/* Check an address to connect to. @return 0, or a negative errno with leat_err_msg(). */
	int (*check)(const struct leat_exchange *x, const char *addr);
	/* Begin a round of attempts. */
	void (*dial)(struct exchange_conn *c);
	/* Begin the next attempt of the round. @return false: there is none. */
	bool (*dial_next)(struct exchange_conn *c);
	/*
	 * Check a connected socket. @return false: wrong peer; the attempt or the connector has
	 * ended.
	 */
	bool (*connected)(struct exchange_conn *c);
	/*
	 * Set c->addr and c->source of an accepted socket. @return false: this side refuses it;
	 * c->text says why.
	 */
	bool (*accepted)(struct exchange_conn *c, const struct sockaddr *sa, socklen_t len);
	/* Watch the other side's process, if possible. */
	void (*watch)(struct exchange_conn *c);
	void (*up)(struct exchange_conn *c);
	/*
	 * Send from c->tx and receive into c->rx, as send(2) and recv(2) do. If the received data
	 * are invalid, recv sets *why to the reason.
	 */
	ssize_t (*send)(struct exchange_conn *c);
	ssize_t (*recv)(struct exchange_conn *c, const char **why);
	/* Open a listening socket. @return the socket, or a negative errno with leat_err_msg(). */
	int (*listen)(struct leat_exchange *x, const char *addr);
	int (*listen_addr)(const struct leat_exchange *x, char *addr, size_t len);
	/* Clean up before the listening socket is closed. */
	void (*unlisten)(struct leat_exchange *x);
	/* Clean up after the other side of a connection died. */
	void (*peer_died)(struct leat_exchange *x);
};

extern const struct exchange_transport exchange_tcp;
extern const struct exchange_transport exchange_unix;

/* Names of UNIX sockets: the directory, its sweep, and the listener's name. */
struct exchange_names {
	char dir[EXCHANGE_DIR_MAX]; /* path, or "@PREFIX" for abstract names */
	bool any_user;
	bool sweep_due;	    /* sweep_timer runs */
	unsigned int swept; /* directory entries that the current sweep has passed */
	struct leat_wheel_node sweep_timer;
	char listen_addr[LEAT_EXCHANGE_ADDR_MAX];
	char listen_name[EXCHANGE_NAME_MAX]; /* name in the directory */
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
	uint16_t nb_ids;     /* number of ids that the owner may know */
	uint64_t handshake_cycles;
	uint32_t dead_after_ms;
	uint64_t now;	 /* time of the current or the last poll or call, cycles */
	uint64_t polled; /* time of the last leat_exchange_poll(), cycles */
	uint64_t awake;	 /* sum of the times between polls, each at most AWAKE_US; cycles */
	uint64_t warned; /* time at which a lack of descriptors was last logged; 0: never */
	struct leat_wheel_node listen_timer;
	struct exchange_list free;
	struct exchange_list pending; /* connections in HELLO_WAIT, oldest first */
	struct exchange_list half; /* acceptors from REQUESTED to PROOF_SENT, oldest HELLO first */
	struct exchange_list closing;	/* connections in CLOSING, oldest first */
	struct exchange_list resolving; /* connections in RESOLVING */
	struct exchange_list events;
	struct leat_exchange_stats stats;
	char name[32];
	char kind[LEAT_EXCHANGE_KIND_MAX];
	struct leat_wheel wheel;
	uint64_t random;      /* state of xorshift64, for pauses and buckets */
	uint16_t source_half; /* as in leat_exchange_conf */
	uint16_t source_max;
	uint16_t waiter_conns; /* connections that the waiter had when it was told BUSY */
	/* The waiter's key. Of the sources told BUSY, the waiter has the fewest connections. */
	uint8_t waiter[EXCHANGE_SOURCE_KEY];
	uint64_t waiter_until; /* cycles; 0: no waiter */
	uint64_t ripe; /* age (by awake) at which a connection may be ended, cycles; see source.c */
	uint64_t evict_next;		 /* value of awake before which no connection is evicted */
	struct exchange_source *sources; /* table of nb_slots */
	struct exchange_source_list free_sources;
	struct exchange_source_list source_bucket[256];
	struct exchange_conn *conns; /* table of nb_slots */
	struct exchange_names names; /* UNIX sockets */
};

/* epoll's user data for the listening socket; for a connection's socket it is the id. */
#define EXCHANGE_EPOLL_LISTENER UINT64_MAX
/* OR'd into a connection's id in epoll's user data: the event is about its process_fd. */
#define EXCHANGE_EPOLL_PROCESS (UINT64_C(1) << 32)

/* Largest generation of an id; the smallest is 1. */
#define EXCHANGE_GEN_MAX 0x7fff

static inline int
exchange_id(const struct exchange_conn *c)
{
	return (int)c->gen << 16 | c->index;
}

/* ---- slot.c ---------------------------------------------------------------------------------- */

/* Get a free slot; if there is none, end a closing or pending connection. @return NULL: none. */
struct exchange_conn *exchange_slot_get(struct leat_exchange *x);
void exchange_id_count(struct exchange_conn *c, bool on);
/* Close the slot's descriptors, invalidate the id, and free the slot. */
void exchange_slot_put(struct exchange_conn *c);
void exchange_list_move(struct exchange_conn *c, struct exchange_list *list);
void exchange_timer_set(struct exchange_conn *c, uint64_t expiry);
void exchange_event_add(struct exchange_conn *c, unsigned int event);
int exchange_epoll_set(struct exchange_conn *c, uint32_t mask);
void exchange_fd_close(struct exchange_conn *c);
void exchange_process_close(struct exchange_conn *c);
/* Enter PARTING after the other side's BYE: DOWN is reported, closing is left to the owner. */
void exchange_part(struct exchange_conn *c, const char *fmt, ...) __rte_format_printf(2, 3);
/* Find the connection of an id that is alive and known to the owner. @return NULL: none. */
struct exchange_conn *exchange_conn_find(const struct leat_exchange *x, int id);
/* End a connection with its last event, or without one if the owner does not know it. */
void exchange_end(struct exchange_conn *c, int status, const char *fmt, ...)
	__rte_format_printf(3, 4);

/* ---- listen.c -------------------------------------------------------------------------------- */

void exchange_listener_event(struct leat_exchange *x);
void exchange_listener_close(struct leat_exchange *x);
/* Accept again after a pause for lack of descriptors. */
void exchange_listener_resume(struct leat_exchange *x);

/* ---- source.c -------------------------------------------------------------------------------- */

void exchange_source_init(struct leat_exchange *x);
/* Find or add the source with this key; the accepted connection c counts as one of that source. */
void exchange_source_hold(struct exchange_conn *c, const uint8_t key[EXCHANGE_SOURCE_KEY]);
void exchange_source_drop(struct exchange_conn *c);
/* Choose the connection to drop for a new one, among those that have not sent HELLO. */
struct exchange_conn *exchange_source_pending_victim(struct leat_exchange *x);
/*
 * End a connection of source `of` (NULL: of any source) that is still not proven x->ripe cycles
 * after ACCEPT. Its id becomes free when the owner has fetched the event.
 */
void exchange_source_make_room(struct leat_exchange *x, const struct exchange_source *of);
/* Add the time since the last poll to x->awake. */
void exchange_source_clock(struct leat_exchange *x, uint64_t now);
/* Adapt x->ripe to the time that c needed to come up. */
void exchange_source_up(const struct exchange_conn *c);
/* Check whether a HELLO of this source may become a request. @return NULL: yes; else why not. */
const char *exchange_source_admit(struct leat_exchange *x, const struct exchange_source *s);
/* Note that a connector of this source was told BUSY (set), or became a request (clear). */
void exchange_source_set_waiter(struct leat_exchange *x, const struct exchange_source *s);
void exchange_source_clear_waiter(struct leat_exchange *x, const struct exchange_source *s);

/* ---- conn.c ---------------------------------------------------------------------------------- */

/* Make an accepted socket a connection; without a free slot, close fd. */
void exchange_conn_accepted(struct leat_exchange *x, int fd, const struct sockaddr *sa,
			    socklen_t len);
/* Connector: send HELLO over the connected socket. */
void exchange_conn_hello(struct exchange_conn *c);
void exchange_conn_event(struct exchange_conn *c, uint32_t events);
/* Handle the end of the other side's process, even if another process holds its socket open. */
void exchange_conn_process_ended(struct exchange_conn *c);
/* The owner has proven the other side's address: send PROOF. */
void exchange_conn_proven(struct exchange_conn *c);
/*
 * Append a message to the send buffer, and send as much as possible. @return 0, or a positive
 * errno; errors of the connection itself are reported by epoll, too.
 */
int exchange_conn_send(struct exchange_conn *c, const uint8_t *msg, size_t len);
/* Send REJECT, with reason BUSY. */
void exchange_conn_busy(struct exchange_conn *c, const char *why);
/* Send REJECT or BYE as the last message. The id that the owner knew is dead from then on. */
void exchange_conn_bye(struct exchange_conn *c, enum exchange_type type,
		       enum exchange_reason reason, const char *why);

/* ---- dial.c: connectors, until the socket is connected --------------------------------------- */

void exchange_dial(struct exchange_conn *c);
/* Begin a new round after a pause. */
void exchange_dial_again(struct exchange_conn *c);
void exchange_dial_backoff(struct exchange_conn *c);
/* Begin to connect a new socket. The attempt ends at expiry, cycles. @return 0, or an errno > 0. */
int exchange_dial_open(struct exchange_conn *c, int protocol, const struct sockaddr *sa,
		       socklen_t len, uint64_t expiry);
void exchange_dial_connected(struct exchange_conn *c);
/* End this attempt; err is a positive errno. */
void exchange_dial_failed(struct exchange_conn *c, int err);
/* End the connector: all attempts failed. */
void exchange_dial_give_up(struct exchange_conn *c);

/* ---- tcp_dial.c ------------------------------------------------------------------------------ */

void exchange_tcp_dial(struct exchange_conn *c);
bool exchange_tcp_dial_next(struct exchange_conn *c);
/* For a connector in RESOLVING: connect if its lookup has ended. */
void exchange_tcp_resolve(struct exchange_conn *c);

/* Error text for descriptors that arrive after the first byte of HELLO or ACCEPT. */
#define EXCHANGE_STRAY_FDS "descriptors with a message that can't carry any"

/* ---- fds.c ----------------------------------------------------------------------------------- */

/*
 * Duplicate data's descriptors. @return 0, or a negative errno with leat_err_msg(); then no
 * duplicate is open.
 */
int exchange_fds_dup(struct exchange_fds *fds, const struct leat_exchange_data *data,
		     const char *name);
void exchange_fds_close(struct exchange_fds *fds);
/* exchange_transport.send and .recv of UNIX sockets. */
ssize_t exchange_fds_send(struct exchange_conn *c);
ssize_t exchange_fds_recv(struct exchange_conn *c, const char **why);

/* ---- timeout.c ------------------------------------------------------------------------------- */

void exchange_conn_timeout(struct exchange_conn *c);

#endif /* EXCHANGE_PVT_H */
