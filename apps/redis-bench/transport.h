/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef REDB_TRANSPORT_H
#define REDB_TRANSPORT_H

/*
 * A non-blocking connection that carries bytes, over a socket or over a stream; clients and servers
 * use it alike. Each of the two kinds is a table of operations.
 *
 * The reactor calls on_ready() as long as one of the conditions in conn.want holds, or the
 * connection has ended. on_ready() may make any call; it may close this connection and others.
 */

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <leat_fd.h>

#include "redb.h"

struct iovec;
struct leat_reactor;
struct leat_stream;
struct leat_stream_net;
struct redb_conn;
struct redb_transport;

/* Conditions of a connection: bits of on_ready()'s argument and of redb_conn.want. */
#define REDB_READABLE 0x1u
#define REDB_WRITABLE 0x2u
#define REDB_ENDED 0x4u /* always wanted */

#define REDB_ADDRS 4

/* An address: "tcp:host:port", "unix:/path", else an address of leat's devices. */
struct redb_addr {
	const struct redb_transport *transport;
	const char *via;  /* "TCP", "UNIX socket", "stream" */
	const char *text; /* the address as the user gave it */
	const char *at;	  /* text without "tcp:" or "unix:" */
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct sockaddr_un un;
	} addr[REDB_ADDRS]; /* socket addresses; a client tries one after another */
	socklen_t len[REDB_ADDRS];
	uint32_t nb_addrs;
};

/* What an lcore's connections share. */
struct redb_port {
	struct leat_reactor *reactor;
	struct leat_stream_net *net; /* NULL: sockets only */
	char *buf;		     /* REDB_READ_MAX bytes: receive buffer of sockets */
	/* listener */
	struct leat_fd fd;
	int listening; /* the socket that listens, -1: none */
	/* Return an unused redb_conn for the peer that connects; NULL: the peer is refused. */
	struct redb_conn *(*room)(struct redb_port *p);
	void (*accept)(struct redb_port *p, struct redb_conn *conn); /* conn is connected */
	void *arg;
};

#define REDB_READ_MAX 65536u

struct redb_conn {
	const struct redb_transport *t; /* NULL: closed */
	struct redb_port *port;
	void (*on_ready)(struct redb_conn *c, uint32_t ready);
	uint32_t want; /* conditions for which on_ready() is called */
	/* socket */
	int fd;
	struct leat_fd lfd;
	/* stream */
	struct leat_stream *stream;
};

struct redb_transport {
	/*
	 * Begin to connect to a->addr[nth]. The connection becomes WRITABLE when it is
	 * up or has failed. @return 0; -EAGAIN: try again later; other negative: failed
	 */
	int (*connect)(struct redb_conn *c, const struct redb_addr *a, uint32_t nth,
		       uint64_t timeout_us);
	/* @return 0: connected; -EAGAIN: not yet; other negative: connecting has failed */
	int (*connected)(struct redb_conn *c);
	/*
	 * @return bytes accepted, > 0; -EAGAIN: no room; other negative: the connection has ended
	 */
	ssize_t (*writev)(struct redb_conn *c, const struct iovec *iov, int n);
	/*
	 * Borrow received bytes; the caller gives all of them back before the next call. @return
	 * as read(2), 0 is the end of the data; or a negative errno
	 */
	ssize_t (*borrow)(struct redb_conn *c, const void **data);
	void (*give_back)(struct redb_conn *c, size_t n);
	/* Set the conditions for which on_ready() is called. */
	void (*want)(struct redb_conn *c, uint32_t ready);
	/* Close and set c->t to NULL. drain: first send the bytes that writev() has accepted. */
	void (*close)(struct redb_conn *c, bool drain);
	/* Describe in words why the connection ended with this errno. */
	const char *(*why)(const struct redb_conn *c, int err);
	/* Listen; write the actual address to text. @return 0 or negative with leat_err_msg() */
	int (*listen)(struct redb_port *p, const struct redb_addr *a, char *text, size_t len);
};

extern const struct redb_transport redb_socket, redb_stream;

/*
 * Parse an address and look up its host. Blocks.
 * @return 0, or -EINVAL, -EHOSTUNREACH after printing a message that names the option
 */
int redb_addr_parse(struct redb_addr *a, const char *opt, const char *text);

static inline void
redb_conn_want(struct redb_conn *c, uint32_t ready)
{
	if (c->want != ready) {
		c->want = ready;
		c->t->want(c, ready);
	}
}

#endif /* REDB_TRANSPORT_H */
