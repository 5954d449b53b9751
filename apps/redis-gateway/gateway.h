/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef GATEWAY_H
#define GATEWAY_H

/*
 * A leg of the gateway: streams of leat at one side, TCP or UNIX sockets at the other, one of each
 * per client, and bytes between them.
 *
 *     forward   client ==stream==> listen [ leg ] --socket--> to (the backend)
 *     reverse   client --socket--> listen [ leg ] ==stream==> to
 *
 * It knows nothing of what the bytes mean. A leg runs on one reactor, several may run on the same:
 *
 *	struct gw_conf conf = { .listen = "127.0.0.1:6380", .to = "unix:/run/redis.sock" };
 *
 *	ret = gw_guard(&conf);              asks the backend, if need be; blocks
 *	gw = gw_open(reactor, &conf);
 *	... leat_reactor_run(reactor) ...
 *	gw_close(gw);
 *
 * Per client and direction it holds at most client_bytes, of which none is copied by the gateway:
 * a socket is read straight into a stream's send buffer, and written straight from its window.
 *
 * Ends. The end of one direction goes on to the other side: shutdown(2) on a socket,
 * leat_stream_shutdown() on a stream. Where the peer of a stream does not know half-closed streams
 * the stream is closed when the backend ends, and lives on when the client does. What one side has
 * given is always brought to the other before that is closed. When one direction has ended and no
 * byte came in the other for linger_us the client is closed.
 *
 * Thread rules: those of the reactor. gw_stats_get(): any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <leat_common.h>

struct gw;
struct leat_reactor;

#define GW_CLIENTS_DEFAULT 1000
#define GW_CLIENTS_MAX 60000
#define GW_CLIENT_BYTES_DEFAULT (256u << 10)
#define GW_BACKEND_US_DEFAULT 5000000
#define GW_LINGER_US_DEFAULT 10000000
#define GW_DRAIN_US_DEFAULT 5000000

/* A range of addresses: 10.0.0.0/8, fe80::/10, 192.0.2.1. */
struct gw_cidr {
	uint8_t family; /* AF_INET, AF_INET6 */
	uint8_t bits;
	uint8_t addr[16];
};

/* @return 0, or -EINVAL with leat_err() */
int gw_cidr_parse(const char *text, struct gw_cidr *cidr);
bool gw_cidr_has(const struct gw_cidr *cidr, uint32_t n, const struct sockaddr *sa);

/* What a leg is to be like. Zeroed means all defaults. Strings are copied. */
struct gw_conf {
	bool reverse;
	const char *listen; /* forward: address of the device; reverse: "host:port", "unix:/path" */
	const char *to;	    /* the other way round */
	const char *dev;    /* by name; NULL: the last one */
	uint32_t clients;
	uint32_t client_bytes;	     /* per direction: LEAT_STREAM_RX_MIN to LEAT_STREAM_RX_MAX */
	uint64_t memory;	     /* of all clients' streams; 0: what `clients` of them take */
	uint64_t backend_us;	     /* how long a client waits for the side that it goes to */
	uint64_t linger_us;	     /* see above */
	const struct gw_cidr *allow; /* addresses that may connect; the caller's until gw_close() */
	uint32_t nb_allow;	     /* 0: all */
	bool guarded;		     /* gw_guard() found that it may listen where it does */
};

/*
 * May it listen there? Sets conf->guarded. It may if only this machine can connect, if allow names
 * the clients, or if the backend asks for a password; one command finds that out. Blocks for up to
 * backend_us. @return 0; -EPERM with leat_err(): why not, and what to do; others as gw_open()
 */
int gw_guard(struct gw_conf *conf);

/*
 * Without conf->guarded it asks gw_guard() itself, which may block.
 * @return NULL with leat_err(): EPERM: it would be open to others; ENODEV: no such device; EINVAL;
 * as leat_stream_net_open(), leat_stream_listen() and bind(2)
 */
struct gw *gw_open(struct leat_reactor *r, const struct gw_conf *conf);

/*
 * Ends all clients, and frees it; NULL: nothing. Blocks while streams are drained: when the reactor
 * has stopped, or is gone. @return 0, or as leat_stream_net_close()
 */
int gw_close(struct gw *gw);

/* Where it listens, the port filled in. @return 0; -ENOSPC */
int gw_addr(const struct gw *gw, char *addr, size_t len);

struct gw_stats {
	char name[96];	   /* "forward 127.0.0.1:6380 unix:/run/redis.sock" */
	uint32_t clients;  /* now */
	uint64_t accepted; /* clients that were let in */
	uint64_t ended;
	uint64_t refused_allow, refused_clients; /* not let in */
	uint64_t refused_backend;		 /* let in, and the other side was not there */
	uint64_t retries;			 /* further attempts to reach the other side */
	uint64_t lingered;			 /* ended half-closed and silent */
	uint64_t request_bytes, reply_bytes;
	uint64_t dropped_bytes; /* whose receiver was gone */
	uint64_t stalls;	/* times that a receiver had no room */
	/* From the first byte of a request to the first of its reply; of the last second's end. */
	uint64_t latencies;
	uint64_t p50_ns, p99_ns, p99_9_ns, max_ns;
};

void gw_stats_get(struct gw *gw, struct gw_stats *stats);

#endif /* GATEWAY_H */
