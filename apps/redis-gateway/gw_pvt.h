/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef GW_PVT_H
#define GW_PVT_H

/*
 * What the files of a leg share.
 *
 *     gw.c         a leg: open, drain, close
 *     forward.c    a stream came: a socket to the backend
 *     reverse.c    a socket came: a stream to the other gateway
 *     client.c     one client: up, the ends of its two directions, its end
 *     pump.c       its bytes
 *     guard.c      may it listen there?
 *     where.c      addresses of sockets
 *     allow.c      ranges of addresses
 *     stats.c      counters, telemetry
 *
 * A client:
 *
 *     stream ----- rx: borrow, send, give back -----> socket
 *     stream <---- tx: reserve, readv, commit  ------ socket
 *
 *     of a direction:   bytes come | ended: its source has no more | done: its sink was told
 *                       full: its sink has no room
 *                       dead: its sink takes no more, bytes are dropped
 */

#include <netinet/in.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/un.h>

#include <leat_dev.h>
#include <leat_error.h>
#include <leat_fabric.h>
#include <leat_fd.h>
#include <leat_histogram.h>
#include <leat_log.h>
#include <leat_reactor.h>
#include <leat_stream.h>
#include <leat_time.h>

#include "gateway.h"

#define GW_ADDR_MAX 128

/* ---- where.c ---- */

#define GW_WHERE_MAX 8

/* Addresses of a socket. */
struct gw_where {
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct sockaddr_un un;
	} addr[GW_WHERE_MAX];
	socklen_t len[GW_WHERE_MAX];
	unsigned int n;
};

/* "host:port", "[v6]:port", "unix:/path"; looks names up. @return 0, or negative with leat_err() */
int gw_where_parse(const char *text, bool passive, struct gw_where *where);
/* Can it be reached from this machine only? */
bool gw_where_local(const struct gw_where *where);
/* Of a connection: "127.0.0.1:51514", or "unix". */
void gw_where_str(char *text, size_t len, const struct sockaddr *sa, socklen_t sa_len);

/* ---- a leg ---- */

enum gw_state {
	GW_CONNECTING, /* to the side that did not come: backend, or stream */
	GW_RETRYING,   /* the same after a pause */
	GW_OPEN,
};

struct gw_direction {
	bool ended, done, dead, full;
};

struct gw_client {
	struct gw *gw;
	struct leat_stream *stream; /* NULL: none yet */
	struct gw_direction rx, tx; /* from, to the stream */
	uint64_t asked_at;	    /* first byte of a request without a reply; 0: none */
	uint64_t last;		    /* a byte went, cycles */
	uint32_t want;		    /* of the stream */
	bool watched;
	uint8_t state;
	bool one_way; /* its end can't be told to the stream's peer */
	bool hung;    /* the socket has hung up, and is no more in the reactor's set */
	int sock;     /* -1: none */
	struct leat_fd fd;

	struct leat_timer timer; /* next attempt; half-close; linger */
	struct gw_client *next, **prev;
	uint64_t id;
	uint64_t begun, give_up_at;
	uint64_t rx_bytes, tx_bytes;
	unsigned int tries; /* to connect; then to tell the end */
	const char *why;    /* the first thing that ended */
	int why_errno;
	char peer[LEAT_ADDR_MAX];
};

struct gw {
	struct leat_reactor *r; /* NULL: gone */
	struct leat_stream_net *net;
	struct leat_poller *poller;
	struct gw_conf conf;
	struct gw_where where; /* of the sockets */
	char *listen, *to, *dev;
	int listen_sock; /* reverse; -1 */
	struct leat_fd listen_fd;
	struct leat_timer accept_timer;

	struct gw_client *clients;
	uint32_t nb_clients;
	uint64_t next_id;
	bool draining;
	uint64_t drain_at; /* next look at the clients */
	uint64_t refusal_logged;

	struct gw_stats stats; /* the owner writes, any thread reads */
	struct leat_histogram *latency;
	pthread_mutex_t lock; /* of the latencies in stats */
	struct gw *next;      /* telemetry */
	unsigned int number;
};

/* The owner is the only writer of a counter. */
#define GW_COUNT(counter, n) __atomic_store_n(&(counter), (counter) + (n), __ATOMIC_RELAXED)

/* client.c */
struct gw_client *gw_client_new(struct gw *gw, const char *peer);
/* Both sides are there. */
void gw_client_open(struct gw_client *c);
/* What has changed may end a direction, and asks for other events. */
void gw_client_settle(struct gw_client *c);
void gw_client_end(struct gw_client *c);
/* Note why it ends; the first reason counts. */
void gw_client_why(struct gw_client *c, const char *why, int error);
void gw_client_log_up(const struct gw_client *c);
/* Nothing is on the way, as far as one can see. */
bool gw_client_quiet(const struct gw_client *c, uint64_t now);
int gw_client_sock_add(struct gw_client *c, uint32_t events);
/* Try again later, until the time is up. @return false: it is */
bool gw_client_retry(struct gw_client *c);

/* pump.c */
void gw_pump_rx(struct gw_client *c);
void gw_pump_tx(struct gw_client *c);

/* forward.c */
int gw_forward_listen(struct gw *gw);
void gw_forward_connect(struct gw_client *c);
/* The socket says how the attempt ended. */
void gw_forward_connected(struct gw_client *c);

/* reverse.c */
int gw_reverse_listen(struct gw *gw);
void gw_reverse_unlisten(struct gw *gw);
void gw_reverse_connect(struct gw_client *c);
void gw_reverse_connected(struct gw_client *c);

/* gw.c */
/* The device of a leg. @return 0; -ENODEV with leat_err() */
int gw_device(const struct gw_conf *conf, struct leat_dev_info *info);
/* Say why one is not let in, once a second. */
void gw_refuse(struct gw *gw, const char *peer, const char *why);

/* stats.c */
int gw_stats_init(struct gw *gw);
void gw_stats_fini(struct gw *gw);
/* Latencies, for other threads. */
void gw_stats_publish(struct gw *gw);

#endif /* GW_PVT_H */
