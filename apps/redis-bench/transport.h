/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef REDB_TRANSPORT_H
#define REDB_TRANSPORT_H

/*
 * A connection of bytes, of either side, non-blocking: over a socket or over a stream. Each kind is
 * a table of operations.
 *
 * on_ready() is called as long as something that is wanted is the case, by the reactor. It may make
 * any call, also close this connection and others.
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

/* What is the case, or wanted. */
#define REDB_READABLE 0x1u
#define REDB_WRITABLE 0x2u
#define REDB_ENDED 0x4u /* always wanted */

#define REDB_ADDRS 4

/* Where to: "tcp:host:port", "unix:/path", else an address of leat's devices. */
struct redb_addr {
	const struct redb_transport *transport;
	const char *via;  /* "TCP", "UNIX socket", "stream" */
	const char *text; /* as it was given */
	const char *at;	  /* without "tcp:" or "unix:" */
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct sockaddr_un un;
	} addr[REDB_ADDRS]; /* of a socket; tried one after another */
	socklen_t len[REDB_ADDRS];
	uint32_t nb_addrs;
};

/* What an lcore's connections share. */
struct redb_port {
	struct leat_reactor *reactor;
	struct leat_stream_net *net; /* NULL: sockets only */
	char *buf;		     /* REDB_READ_MAX bytes, that a socket reads to */
	/* of a listener */
	struct leat_fd fd;
	int listening;					/* the socket, -1: none */
	struct redb_conn *(*room)(struct redb_port *p); /* a closed one, for the next; or NULL */
	void (*accept)(struct redb_port *p, struct redb_conn *conn); /* it is up */
	void *arg;
};

#define REDB_READ_MAX 65536u

struct redb_conn {
	const struct redb_transport *t; /* NULL: closed */
	struct redb_port *port;
	void (*on_ready)(struct redb_conn *c, uint32_t ready);
	uint32_t want;
	/* of a socket */
	int fd;
	struct leat_fd lfd;
	/* of a stream */
	struct leat_stream *stream;
};

struct redb_transport {
	/*
	 * Begins to connect; the connection is WRITABLE when it is up or has failed. nth: which of
	 * the addresses. @return 0; -EAGAIN: later; negative: failed
	 */
	int (*connect)(struct redb_conn *c, const struct redb_addr *a, uint32_t nth,
		       uint64_t timeout_us);
	/* @return 0: it is up; -EAGAIN: not yet; negative: failed */
	int (*connected)(struct redb_conn *c);
	/* @return bytes taken, > 0; -EAGAIN; negative: ended */
	ssize_t (*writev)(struct redb_conn *c, const struct iovec *iov, int n);
	/*
	 * Bytes that have come, to be given back at once, all of them. @return as read(2): 0: the
	 * end
	 */
	ssize_t (*borrow)(struct redb_conn *c, const void **data);
	void (*give_back)(struct redb_conn *c, size_t n);
	/* What to call on_ready() for. */
	void (*want)(struct redb_conn *c, uint32_t ready);
	/* After it, c->t is NULL. drain: what was written is still sent. */
	void (*close)(struct redb_conn *c, bool drain);
	/* In words, why it ended with that error. */
	const char *(*why)(const struct redb_conn *c, int err);
	/* @return 0 or negative with leat_err_msg(); the address is written to text */
	int (*listen)(struct redb_port *p, const struct redb_addr *a, char *text, size_t len);
};

extern const struct redb_transport redb_socket, redb_stream;

/*
 * Reads an address and looks up its host. Blocks.
 * @return 0, or -EINVAL, -EHOSTUNREACH after a message that names the option
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
