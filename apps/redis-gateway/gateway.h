/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef GATEWAY_H
#define GATEWAY_H

/*
 * A leg of the gateway carries bytes between streams of leat on one side and TCP or UNIX sockets on
 * the other, one stream and one socket per client.
 *
 *     forward   client ==stream==> listen [ leg ] --socket--> to (the backend)
 *     reverse   client --socket--> listen [ leg ] ==stream==> to
 *
 * A leg does not interpret the bytes. It runs on one reactor; several legs may share a reactor:
 *
 *	struct gw_conf conf = { .listen = "127.0.0.1:6380", .to = "unix:/run/redis.sock" };
 *
 *	ret = gw_guard(&conf);              may probe the backend; blocks
 *	gw = gw_open(reactor, &conf);
 *	... leat_reactor_run(reactor) ...
 *	gw_close(gw);
 *
 * Per client and direction a leg holds at most client_bytes, and copies none of them: a socket is
 * read straight into the stream's send buffer, and written straight from its receive window.
 *
 * Ends. When one side ends its direction, the leg ends that direction of the other side: with
 * shutdown(2) on a socket, with leat_stream_shutdown() on a stream. If the stream's peer does not
 * know half-closed streams, the end of the backend closes the stream, and the end of the client
 * leaves it open. All bytes received from one side are delivered before the other side is closed.
 * When one direction has ended and no byte came in the other for linger_us, the client is closed.
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

/* Parameters of a leg; 0 is the default of each. gw_open() copies the strings. */
struct gw_conf {
	bool reverse;
	const char *listen; /* forward: address of the device; reverse: "host:port", "unix:/path" */
	const char *to;	    /* forward: "host:port", "unix:/path"; reverse: address of the device */
	const char *dev;    /* name of the device; NULL: the last one */
	uint32_t clients;   /* maximum clients; 0: GW_CLIENTS_DEFAULT, or the device's limit */
	uint32_t client_bytes;	     /* held per direction: LEAT_STREAM_RX_MIN to _MAX */
	uint64_t memory;	     /* bytes of all streams; 0: as `clients` streams need */
	uint64_t backend_us;	     /* how long a client waits for its connection to `to` */
	uint64_t linger_us;	     /* how long a half-closed client may be silent, see above */
	const struct gw_cidr *allow; /* addresses that may connect; must stay until gw_close() */
	uint32_t nb_allow;	     /* 0: all addresses */
	bool guarded;		     /* gw_guard() found that the leg may listen at `listen` */
};

/*
 * Check that a leg may listen at conf->listen, and set conf->guarded. The leg may listen if only
 * this machine can connect, if conf->allow names the clients, or if the backend asks for a
 * password. To find that out gw_guard() connects to the backend and sends one command. Blocks for
 * up to backend_us. @return 0; -EPERM with leat_err(): why not, and what to do
 */
int gw_guard(struct gw_conf *conf);

/*
 * Open a leg. If conf->guarded is false, this function calls gw_guard(), which may block.
 * @return NULL with leat_err(): EPERM: other machines could connect; ENODEV: no such device;
 * EINVAL; as leat_stream_net_open(), leat_stream_listen() and bind(2)
 */
struct gw *gw_open(struct leat_reactor *r, const struct gw_conf *conf);

/*
 * End all clients and free the leg; gw may be NULL. If the reactor has stopped or was freed, block
 * until the streams are drained. @return 0, or as leat_stream_net_close()
 */
int gw_close(struct gw *gw);

/*
 * Write the address at which the leg listens, with the actual port.
 * @return 0; as leat_stream_listen_addr() (forward), getsockname(2) (reverse)
 */
int gw_addr(const struct gw *gw, char *addr, size_t len);

struct gw_stats {
	char name[96];				 /* "forward 127.0.0.1:6380 unix:/run/redis.sock" */
	uint32_t clients;			 /* connected now */
	uint64_t accepted;			 /* clients that were let in */
	uint64_t ended;				 /* clients that have ended */
	uint64_t refused_allow, refused_clients; /* not let in: --allow; too many clients */
	uint64_t refused_backend;		 /* let in, but `to` could not be reached */
	uint64_t retries;			 /* further attempts to reach `to` */
	uint64_t lingered;			 /* clients closed by linger_us */
	uint64_t request_bytes, reply_bytes;
	uint64_t dropped_bytes; /* bytes dropped, since their receiver took no more */
	uint64_t stalls;	/* times that a receiver had no room */
	/*
	 * Latencies, from the first byte of a request to the first of its reply: all since the
	 * leg was opened. Updated once a second.
	 */
	uint64_t latencies;
	uint64_t p50_ns, p99_ns, p99_9_ns, max_ns;
};

void gw_stats_get(struct gw *gw, struct gw_stats *stats);

#endif /* GATEWAY_H */
