/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_EXCHANGE_H
#define LEAT_EXCHANGE_H

/**
 * @file
 * For drivers: the address exchange over TCP or UNIX sockets, for fabrics that have no connection
 * manager.
 *
 * Two endpoints find each other at "host:port", tell each other their raw fabric addresses, and
 * keep the TCP connection open afterwards: it carries nothing more, but its end tells at once that
 * the other side is gone. A killed process is noticed when its kernel closes the socket, a vanished
 * host after leat_exchange_conf.dead_after_us.
 *
 * With leat_exchange_conf.dir the same goes over UNIX sockets, between processes of one machine:
 * HELLO and ACCEPT can carry descriptors then, and a connection that is up carries notes
 * (leat_exchange_note()). Addresses are
 *
 *     "NAME"       1 to 64 letters, digits, '.', '_', '-', not beginning with '.': the socket
 *                  DIR/name-NAME
 *     "host:port"  the socket DIR/port-PORT; the host must be this machine: "", "*", "localhost",
 *                  its host name, or a number that is a wildcard's, a loopback's or of one of its
 *                  interfaces. A name service is never asked.
 *
 *     connector                                             listener
 *     leat_exchange_connect()
 *       resolve, connect, again while refused
 *         | ---- HELLO kind, address, private data ----------> |
 *         |                                                    | LEAT_EXCHANGE_REQUEST
 *         | <--- ACCEPT kind, address, private data ---------- | leat_exchange_accept()
 *     LEAT_EXCHANGE_PROVE       (or <--- REJECT why ---------- | leat_exchange_reject())
 *     leat_exchange_proven()                                   |
 *         | ---- PROOF --------------------------------------> | LEAT_EXCHANGE_PROVE
 *         | <--- PROOF --------------------------------------- | leat_exchange_proven()
 *     LEAT_EXCHANGE_CONNECTED                                  |
 *         | ---- READY --------------------------------------> |
 *         |                                                    | LEAT_EXCHANGE_CONNECTED
 *         .                    silence                         .
 *     leat_exchange_close()                                    .
 *         | ---- BYE why ------------------------------------> | LEAT_EXCHANGE_DOWN, status 0
 *         |                                                    |
 *         | (end of the connection without BYE)                | LEAT_EXCHANGE_DOWN, -ECONNRESET
 *
 * doc/guide/address-exchange.md describes every byte. Everything that arrives is hostile until it
 * was checked: a malformed, slow or half-open client costs one of a bounded number of slots for a
 * bounded time and disturbs no other connection.
 *
 * An instance belongs to one thread. Nothing blocks (leat_exchange_listen() with a host name is the
 * one exception, see there), memory is bounded by the configuration. It uses one epoll descriptor,
 * one for the listener, and one per connection; all are close-on-exec. Over UNIX sockets it has a
 * second one per connection, for the other side's process, and copies of the descriptors to be sent
 * until these are sent and the connection is up; received ones are its own until their event is
 * fetched.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leat_common.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Version of the exchange that this library speaks. */
#define LEAT_EXCHANGE_VERSION 2
/** Longest raw fabric address, bytes. */
#define LEAT_EXCHANGE_BLOB_MAX 512
/** Longest private data, bytes. */
#define LEAT_EXCHANGE_PRIV_MAX 256
/** Longest proof, bytes. */
#define LEAT_EXCHANGE_PROOF_MAX 64
/** Longest kind, with its terminator. */
#define LEAT_EXCHANGE_KIND_MAX 32
/** Longest text of an event, with its terminator. */
#define LEAT_EXCHANGE_TEXT_MAX 160
/** Longest address string, with its terminator: "[v6%scope]:port". */
#define LEAT_EXCHANGE_ADDR_MAX 80
/** Most descriptors that one side sends, and that it takes unless it wants more. */
#define LEAT_EXCHANGE_FDS_MAX 64
#define LEAT_EXCHANGE_FDS_TAKEN 4

struct leat_exchange;

/** What an instance is to be like. Zeroed means all defaults, but kind is needed. */
struct leat_exchange_conf {
	const char *name;   /**< of the endpoint, for messages; copied; NULL: "exchange" */
	const char *kind;   /**< what the addresses are of, e.g. "tcp"; copied; 1..31 characters */
	uint16_t max_conns; /**< connections and requests at a time, 1..32768; 0: 64 */
	uint16_t max_pending; /**< accepted ones that have not said HELLO, 1..8192; 0: 64 */
	/**
	 * Of one source between HELLO and READY, 1..32768; 0: a quarter of max_conns, at least 8. A
	 * source is an IPv4 address or a /64 of IPv6, over UNIX sockets a process (all those of one
	 * user whose ids are unknown here). More are told BUSY and try again by themselves.
	 */
	uint16_t source_half;
	uint16_t source_max;	       /**< of one source in all, 1..32768; 0: max_conns */
	uint64_t handshake_timeout_us; /**< for HELLO, and for READY after ACCEPT; 0: 5 s */
	uint64_t dead_after_us;	       /**< a vanished host is noticed after this, 2 s..; 0: 5 s */
	/**
	 * After a DOWN with status 0 the id lives until leat_exchange_close(), by which the other
	 * side learns that this one is through as well; see leat_exchange_lingers()
	 */
	bool linger;
	/**
	 * The owner proves the other side's address, see LEAT_EXCHANGE_PROVE; without it, each
	 * address counts as its sender's own
	 */
	bool prove;
	/**
	 * not NULL: over UNIX sockets, whose names are in this directory. Its path is absolute; it
	 * is made with mode 0700 if it is not there, and must be this user's and not writable by
	 * others. "@PREFIX": abstract names, without a directory. Copied.
	 */
	const char *dir;
	/**
	 * dir: take peers of other users as well. The directory may be any then; to listen in it,
	 * it must be this user's or root's, and have the sticky bit if others may write to it.
	 */
	bool any_user;
	/**
	 * dir: most descriptors taken of the other side, 1..LEAT_EXCHANGE_FDS_MAX; 0:
	 * LEAT_EXCHANGE_FDS_TAKEN. More end its connection.
	 */
	uint8_t max_fds;
};

/** What one side tells the other; not touched, and copied. */
struct leat_exchange_data {
	const void *blob;  /**< raw fabric address */
	const void *priv;  /**< the application's private data */
	const void *proof; /**< what the other side needs to prove the address, and to be proven */
	uint16_t blob_len;
	uint16_t priv_len;
	uint16_t proof_len;
	/**
	 * conf.dir: descriptors for the other side. The call duplicates them, the caller keeps its
	 * own.
	 */
	const int *fds;
	uint8_t nb_fds; /**< 0..LEAT_EXCHANGE_FDS_MAX */
};

enum leat_exchange_event_type {
	LEAT_EXCHANGE_REQUEST = 0, /**< a connector asks: accept or reject */
	/**
	 * conf.prove: is the other side's address its own? Both sides are asked, the connector
	 * first; the answer is leat_exchange_proven(), or leat_exchange_close(). A connector may be
	 * asked again, when the listener was busy meanwhile: that is another attempt, and a proof
	 * that is under way is void.
	 */
	LEAT_EXCHANGE_PROVE,
	LEAT_EXCHANGE_CONNECTED, /**< both sides know each other */
	LEAT_EXCHANGE_FAILED,	 /**< leat_exchange_connect() ended without; the id is dead */
	/**
	 * a request or a connection ended; the id is dead, but see leat_exchange_conf.linger
	 */
	LEAT_EXCHANGE_DOWN,
	LEAT_EXCHANGE_NOTE, /**< the other side called leat_exchange_note(), once or several times */
};

/** An event of a connection. */
struct leat_exchange_event {
	enum leat_exchange_event_type type;
	int conn;   /**< its id */
	void *user; /**< as given to connect or accept; REQUEST: NULL */
	/**
	 * 0, or a negative errno.
	 * DOWN: 0 the other side said BYE; -ECONNRESET it died, or withdrew its request; -ETIMEDOUT
	 * its host vanished or it did not say READY; -EPROTO it sent what it must not.
	 * FAILED: -ECONNREFUSED no listener, rejected, or busy all the time; -ETIMEDOUT no answer;
	 * -EHOSTUNREACH no route, or no such name; -ECONNRESET; -EPROTO not a leat listener;
	 * -EPROTONOSUPPORT another version; -EACCES, also: of another user; -EMFILE and others of
	 * socket(2).
	 */
	int status;
	/** REQUEST; PROVE, CONNECTED of a connector: bytes of the other side's address */
	uint16_t blob_len;
	uint16_t priv_len;  /**< likewise */
	uint16_t proof_len; /**< likewise */
	/**
	 * REQUEST; CONNECTED of a connector: descriptors of the other side, close-on-exec, which
	 * are the owner's to close
	 */
	uint8_t nb_fds;
	int fds[LEAT_EXCHANGE_FDS_MAX];
	uint8_t blob[LEAT_EXCHANGE_BLOB_MAX];
	uint8_t priv[LEAT_EXCHANGE_PRIV_MAX];
	uint8_t proof[LEAT_EXCHANGE_PROOF_MAX];
	char kind[LEAT_EXCHANGE_KIND_MAX]; /**< likewise; always terminated, printable */
	/** its TCP address, or process and user; of a connector what was given to connect */
	char addr[LEAT_EXCHANGE_ADDR_MAX];
	char text[LEAT_EXCHANGE_TEXT_MAX]; /**< FAILED, DOWN: peer, operation, cause, hint */
};

/** Counters of an instance. */
struct leat_exchange_stats {
	uint64_t accepted;   /**< connections accepted */
	uint64_t connected;  /**< handshakes completed, both directions */
	uint64_t dropped;    /**< without HELLO, dropped because max_pending others came after */
	uint64_t busy;	     /**< told BUSY */
	uint64_t evicted;    /**< READY withheld while others waited */
	uint64_t malformed;  /**< ended because of what they sent */
	uint64_t timeouts;   /**< ended because they were too slow */
	uint64_t no_fd;	     /**< no descriptor or memory for a connection, or for what it sent */
	uint64_t other_user; /**< turned away because of their user */
	uint32_t pending;    /**< now without HELLO */
	uint32_t conns;	     /**< ids alive now */
};

/**
 * Create an instance.
 * @return it, or NULL with rte_errno EINVAL (a value out of range), ENOMEM, EMFILE; of conf.dir:
 *   ENAMETOOLONG, EACCES (not this user's alone), ENOTDIR, others as mkdir(2) and open(2)
 */
LEAT_API struct leat_exchange *leat_exchange_create(const struct leat_exchange_conf *conf);

/**
 * Say BYE to all peers as far as that works at once, and free everything. The name of a UNIX socket
 * is removed, for which another process that uses the directory is waited for, 1 s at most. NULL is
 * ignored.
 */
LEAT_API void leat_exchange_destroy(struct leat_exchange *x);

/**
 * Listen at "host:port", "[v6]:port", or ":port" for all interfaces; port 0 takes a free one. A
 * host that is a name is looked up in this call, which may block; a number never does.
 * conf.dir: see the addresses above; port 0 takes a free one of 49152..65535. A name that a killed
 * listener left is taken over. Another process that uses the directory at the same time is waited
 * for, 1 s at most.
 * @return 0; -EINVAL (malformed); -EALREADY (listens); -EADDRINUSE; -EADDRNOTAVAIL; -EHOSTUNREACH
 *   (no such name; conf.dir: not this machine); -EACCES; -EMFILE; others as bind(2). conf.dir:
 *   -ENAMETOOLONG (the path); -EBUSY (another process does not let go of the directory)
 */
LEAT_API int leat_exchange_listen(struct leat_exchange *x, const char *addr);

/**
 * Where it listens: NAME, or host and port, the port filled in.
 * @return 0; -ENOENT (does not); -ENOSPC (len too small)
 */
LEAT_API int leat_exchange_listen_addr(const struct leat_exchange *x, char *addr, size_t len);

/**
 * Begin to connect to "host:port" or "[v6]:port". All addresses of a name are tried, again and
 * again (with pauses of up to 100 ms) until the timeout, so that the listener may come up later;
 * likewise while the listener says that it is busy.
 * The outcome is LEAT_EXCHANGE_CONNECTED or LEAT_EXCHANGE_FAILED, never inside this call.
 * @param timeout_us for all of it; 0: 5 s
 * @return id > 0; -EINVAL (malformed, or data too long, or descriptors over TCP); -ENOSPC
 *   (max_conns); -EBADF, -EMFILE (descriptors); conf.dir: -EHOSTUNREACH (not this machine),
 *   -ENAMETOOLONG
 */
LEAT_API int leat_exchange_connect(struct leat_exchange *x, const char *addr, uint64_t timeout_us,
				   const struct leat_exchange_data *data, void *user);

/**
 * Accept a request.
 * @return 0; -ENOTCONN (not, or no longer, asking); -EINVAL (data too long, or descriptors over
 *   TCP); -EBADF, -EMFILE, -ETOOMANYREFS and others of sendmsg(2) (descriptors): it still asks
 */
LEAT_API int leat_exchange_accept(struct leat_exchange *x, int conn,
				  const struct leat_exchange_data *data, void *user);

/**
 * The other side's address was proven, after LEAT_EXCHANGE_PROVE.
 * @return 0; -ENOTCONN (not, or no longer, to be proven)
 */
LEAT_API int leat_exchange_proven(struct leat_exchange *x, int conn);

/**
 * Reject a request; no event follows, the id is dead.
 * @param why for people at the other side, cut to fit; NULL: none
 * @return 0; -ENOTCONN
 */
LEAT_API int leat_exchange_reject(struct leat_exchange *x, int conn, const char *why);

/**
 * Turn a request away for want of room: the connector tries again until its timeout. A connection
 * that was accepted, and has not gone on for a while, makes room: its LEAT_EXCHANGE_DOWN follows.
 * None for this one, the id is dead.
 * @param why for people at the other side, cut to fit; NULL: none
 * @return 0; -ENOTCONN
 */
LEAT_API int leat_exchange_busy(struct leat_exchange *x, int conn, const char *why);

/**
 * End a connection or an attempt, in order: the other side learns that it was meant. No event
 * follows, the id is dead.
 * @param why for people at the other side, cut to fit; NULL: none
 * @return 0; -ENOTCONN
 */
LEAT_API int leat_exchange_close(struct leat_exchange *x, int conn, const char *why);

/**
 * Send a note without content to the other side of a connection that is up: its descriptor
 * (leat_exchange_fd()) becomes readable, and it gets LEAT_EXCHANGE_NOTE. Several may become one
 * event. Never blocks: when the socket is full the other side has notes to read anyway.
 * @return 0; -ENOTCONN (not up); -EOPNOTSUPP (over TCP)
 */
LEAT_API int leat_exchange_note(struct leat_exchange *x, int conn);

/**
 * After leat_exchange_close(): does the other side have something to finish yet? It ends its half
 * of the connection when it is through (at once, unless its leat_exchange_conf.linger is set); it
 * is waited for 1 s at most.
 */
LEAT_API bool leat_exchange_lingers(const struct leat_exchange *x, int conn);

/**
 * Drive the instance: at most one epoll_wait(2) without waiting, and bounded work. Call it every
 * millisecond or so; that is the resolution of time-outs and of the notice of a death.
 * @param now leat_now()
 * @param[out] ev room for n events, n >= 1; those that don't fit come with the next call
 * @return number of events
 */
LEAT_API unsigned int leat_exchange_poll(struct leat_exchange *x, uint64_t now,
					 struct leat_exchange_event *ev, unsigned int n);

/**
 * A descriptor that is readable, level-triggered, when leat_exchange_poll() would find something in
 * a socket. Time-outs and look-ups of names don't make it so. Only to be waited for; the instance's
 * own.
 */
LEAT_API int leat_exchange_fd(const struct leat_exchange *x);

/** Name of a connection's state, for people; "dead" for ids that are. Never NULL. */
LEAT_API const char *leat_exchange_state(const struct leat_exchange *x, int conn);

/** Copy the counters. The instance's thread. */
LEAT_API void leat_exchange_stats_get(const struct leat_exchange *x,
				      struct leat_exchange_stats *stats);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_EXCHANGE_H */
