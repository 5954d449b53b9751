/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef GW_PVT_H
#define GW_PVT_H

/*
 * Declarations that the files of a leg share.
 *
 *     gw.c         a leg: open, drain, close
 *     forward.c    forward legs: accept streams, connect a socket to the backend
 *     reverse.c    reverse legs: accept sockets, connect a stream to the other gateway
 *     client.c     one client: open, end of each direction, close
 *     pump.c       the bytes of a client
 *     guard.c      may a leg listen at its address?
 *     where.c      addresses of sockets
 *     allow.c      ranges of addresses
 *     stats.c      counters, telemetry
 *
 * A client:
 *
 *     stream ----- rx: borrow, send, give back -----> socket
 *     stream <---- tx: reserve, readv, commit  ------ socket
 *
 * The bytes of a direction go from its source to its sink, one of them the stream, the other the
 * socket:
 *
 *     direction:   open | ended: the source has sent its end | done: the sink was sent the end
 *                  full: the sink has no room
 *                  dead: the sink takes no more, bytes are dropped
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

/*
 * Parse "host:port", "[v6]:port" or "unix:/path", and look up the host.
 * @return 0, or negative with leat_err()
 */
int gw_where_parse(const char *text, bool passive, struct gw_where *where);
/* Can all these addresses be reached from this machine only? */
bool gw_where_local(const struct gw_where *where);
/* Write the address of a connection: "127.0.0.1:51514", or "unix". */
void gw_where_str(char *text, size_t len, const struct sockaddr *sa, socklen_t sa_len);

/* ---- a leg ---- */

enum gw_state {
	GW_CONNECTING, /* connecting to the backend; reverse: to the other gateway */
	GW_RETRYING,   /* waits to connect again */
	GW_OPEN,       /* both sides are connected */
};

struct gw_direction {
	bool ended, done, dead, full;
};

struct gw_client {
	struct gw *gw;
	struct leat_stream *stream; /* NULL: none yet */
	struct gw_direction rx, tx; /* from the stream, to the stream */
	uint64_t asked_at;	    /* cycles: first byte of a request without a reply; 0: none */
	uint64_t last;		    /* cycles: last byte or end of a direction */
	uint32_t want;		    /* LEAT_STREAM_* conditions that are watched */
	bool watched;
	uint8_t state;
	bool no_half_close; /* the stream's peer does not know half-closed streams */
	bool hung;	    /* the socket has hung up, and is not in the reactor's set any more */
	int sock;	    /* -1: none */
	struct leat_fd fd;

	struct leat_timer timer; /* to connect again, end the stream's direction, or linger */
	struct gw_client *next, **prev;
	uint64_t id;
	uint64_t begun, give_up_at; /* cycles */
	uint64_t rx_bytes, tx_bytes;
	unsigned int nth_addr; /* forward: index of the backend's address to connect to */
	unsigned int tries;    /* attempts to connect; in GW_OPEN: to end the stream's direction */
	const char *why;       /* why the first direction ended; NULL: none has */
	int why_errno;
	char peer[LEAT_ADDR_MAX];
};

struct gw {
	struct leat_reactor *r; /* NULL: it was freed */
	struct leat_stream_net *net;
	struct leat_poller *poller;
	struct gw_conf conf;
	struct gw_where where; /* addresses of the leg's sockets */
	char *listen, *to, *dev;
	int listen_sock; /* reverse: the socket that listens; -1: none */
	struct leat_fd listen_fd;
	struct leat_timer accept_timer;

	struct gw_client *clients;
	uint32_t nb_clients;
	uint64_t next_id;
	bool draining;
	uint64_t drain_at;	 /* cycles: next look at the clients */
	uint64_t refusal_logged; /* cycles: last refusal that was logged; 0: none */
	uint64_t refusals_unlogged;

	struct gw_stats stats; /* the reactor's thread writes, any thread reads */
	struct leat_histogram *latency;
	pthread_mutex_t lock; /* guards the latencies in stats */
	struct gw *next;      /* next leg in the list of stats.c */
	unsigned int number;
};

/* The reactor's thread is the only writer of a counter. */
#define GW_COUNT(counter, n) __atomic_store_n(&(counter), (counter) + (n), __ATOMIC_RELAXED)

/* client.c */
struct gw_client *gw_client_new(struct gw *gw, const char *peer);
/* Begin to carry bytes: both sides are connected. May free the client. */
void gw_client_open(struct gw_client *c);
/*
 * Act on what has changed: pass ends on, select the events to wait for, free a client that has
 * ended.
 */
void gw_client_update(struct gw_client *c);
void gw_client_end(struct gw_client *c);
/* Note why the client ends, unless a reason is noted; error: an errno, or 0. */
void gw_client_why(struct gw_client *c, const char *why, int error);
void gw_client_log_up(const struct gw_client *c);
/* Tell whether, as far as the gateway can see, no bytes are under way and no reply is due. */
bool gw_client_quiet(const struct gw_client *c, uint64_t now);
int gw_client_sock_add(struct gw_client *c, uint32_t events);
/* Connect again after a pause. @return false: the client has waited for backend_us */
bool gw_client_retry(struct gw_client *c);

/* pump.c */
void gw_pump_rx(struct gw_client *c);
void gw_pump_tx(struct gw_client *c);

/* forward.c */
int gw_forward_listen(struct gw *gw);
void gw_forward_connect(struct gw_client *c);
/* The attempt to connect the socket has ended: read its result. */
void gw_forward_connected(struct gw_client *c);

/* reverse.c */
int gw_reverse_listen(struct gw *gw);
void gw_reverse_unlisten(struct gw *gw);
void gw_reverse_connect(struct gw_client *c);
void gw_reverse_connected(struct gw_client *c);

/* gw.c */
/* Look up the device of a leg. @return 0; -ENODEV with leat_err() */
int gw_device(const struct gw_conf *conf, struct leat_dev_info *info);
/* Log why a peer is not let in, at most once a second. */
void gw_refuse(struct gw *gw, const char *peer, const char *why);

/* stats.c */
int gw_stats_init(struct gw *gw);
void gw_stats_fini(struct gw *gw);
/* Copy the latencies to stats, for other threads. */
void gw_stats_publish(struct gw *gw);

#endif /* GW_PVT_H */
