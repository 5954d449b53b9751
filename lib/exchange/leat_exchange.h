/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_EXCHANGE_H
#define LEAT_EXCHANGE_H

/**
 * @file
 * For drivers: the address exchange over TCP or UNIX sockets, for fabrics that have no connection
 * manager.
 *
 * A connector finds a listener at "host:port", the two send each other their raw fabric addresses,
 * and they keep the TCP connection open afterwards: it carries nothing more, but its end reports at
 * once that the other side has closed or died. A killed process is noticed when its kernel closes
 * the socket, a vanished host after leat_exchange_conf.dead_after_us.
 *
 * With leat_exchange_conf.dir the exchange runs over UNIX sockets, between processes of one
 * machine: HELLO and ACCEPT can then carry descriptors, and a connection that is up carries notes
 * (leat_exchange_note()). Addresses are
 *
 *     "NAME"       1 to 64 letters, digits, '.', '_', '-', not beginning with '.': the socket
 *                  DIR/name-NAME
 *     "host:port"  the socket DIR/port-PORT; the host must be this machine: "", "*", "localhost",
 *                  its host name, or a numeric wildcard address, loopback address or address of one
 *                  of its interfaces. No name service is asked.
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
 * doc/guide/address-exchange.md describes every byte. All received data is treated as hostile until
 * it is checked: a malformed, slow or half-open client takes one of a bounded number of slots for a
 * bounded time and disturbs no other connection.
 *
 * An instance belongs to one thread and to the code that created it, its owner. No call blocks,
 * except leat_exchange_listen() and, over UNIX sockets, leat_exchange_destroy(): see there. Memory
 * is bounded by the configuration. An instance uses one epoll descriptor, one for the listener, and
 * one per connection; all are close-on-exec. Over UNIX sockets it has a second one per connection,
 * for the other side's process, and duplicates of the descriptors to be sent until they are sent
 * and the connection is up; received descriptors belong to the instance until their event is
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
/** Longest private data of the application, bytes. */
#define LEAT_EXCHANGE_PRIV_MAX 256
/** Longest proof, bytes. */
#define LEAT_EXCHANGE_PROOF_MAX 64
/** Longest kind, bytes with the terminator. */
#define LEAT_EXCHANGE_KIND_MAX 32
/** Longest text of an event, bytes with the terminator. */
#define LEAT_EXCHANGE_TEXT_MAX 160
/** Longest address string, bytes with the terminator: "[v6%scope]:port". */
#define LEAT_EXCHANGE_ADDR_MAX 80
/** Maximum number of descriptors that one side can send. */
#define LEAT_EXCHANGE_FDS_MAX 64
/** Maximum number of descriptors that one side accepts if leat_exchange_conf.max_fds is 0. */
#define LEAT_EXCHANGE_FDS_TAKEN 4

struct leat_exchange;

/** Configuration of an instance. Zeroed means all defaults, except that kind is needed. */
struct leat_exchange_conf {
	const char *name;     /**< name of the endpoint, for messages; copied; NULL: "exchange" */
	const char *kind;     /**< kind of the addresses, e.g. "tcp"; copied; 1..31 characters */
	uint16_t max_conns;   /**< connections and requests at a time, 1..32768; 0: 64 */
	uint16_t max_pending; /**< accepted connections without HELLO, 1..8192; 0: 64 */
	/**
	 * Maximum number of connections of one source between HELLO and READY, 1..32768; 0: a
	 * quarter of max_conns, at least 8. A source is an IPv4 address or a /64 of IPv6; over UNIX
	 * sockets it is a process (processes whose pid is unknown here are one source per user).
	 * Further connectors are told BUSY; the library at their side tries again.
	 */
	uint16_t source_half;
	uint16_t source_max; /**< maximum connections of one source, 1..32768; 0: max_conns */
	uint64_t handshake_timeout_us; /**< time for HELLO, and from ACCEPT to READY; 0: 5 s */
	uint64_t dead_after_us;	       /**< time to notice a vanished host, 2 s to 1 h; 0: 5 s */
	/**
	 * Keep the id alive after a DOWN with status 0 until leat_exchange_close(), which tells the
	 * other side that this side has finished as well; see leat_exchange_lingers().
	 */
	bool linger;
	/**
	 * Have the owner prove the other side's address, see LEAT_EXCHANGE_PROVE. If false, each
	 * address counts as proven.
	 */
	bool prove;
	/**
	 * NULL: TCP. Else UNIX sockets, with their names in this directory, whose path is absolute.
	 * It is created with mode 0700 if it does not exist, and must be this user's and not
	 * writable by other users. "@PREFIX": abstract names, without a directory. Copied.
	 */
	const char *dir;
	/**
	 * With dir: accept peers of other users as well. The directory may then be any user's; to
	 * listen in it, it must be this user's or root's, and have the sticky bit if other users
	 * may write to it.
	 */
	bool any_user;
	/**
	 * With dir: maximum number of descriptors accepted from the other side,
	 * 1..LEAT_EXCHANGE_FDS_MAX; 0: LEAT_EXCHANGE_FDS_TAKEN. If the other side sends more, its
	 * connection is ended.
	 */
	uint8_t max_fds;
};

/** Data that one side sends to the other. The calls copy it and do not change it. */
struct leat_exchange_data {
	const void *blob; /**< raw fabric address */
	const void *priv; /**< the application's private data */
	/** data that the peer needs to prove this side's address, and its own */
	const void *proof;
	uint16_t blob_len;  /**< length of blob, bytes, 0..LEAT_EXCHANGE_BLOB_MAX */
	uint16_t priv_len;  /**< length of priv, bytes, 0..LEAT_EXCHANGE_PRIV_MAX */
	uint16_t proof_len; /**< length of proof, bytes, 0..LEAT_EXCHANGE_PROOF_MAX */
	/**
	 * With conf.dir: descriptors for the other side. The call duplicates them; the caller keeps
	 * its own.
	 */
	const int *fds;
	uint8_t nb_fds; /**< 0..LEAT_EXCHANGE_FDS_MAX */
};

/** Types of events. */
enum leat_exchange_event_type {
	LEAT_EXCHANGE_REQUEST = 0, /**< a connector asks to connect: accept or reject it */
	/**
	 * With conf.prove: prove that the other side owns the address that it sent. Both owners are
	 * asked, the connector's first; they answer with leat_exchange_proven() or
	 * leat_exchange_close().
	 * A connector's owner may be asked again, if the listener was busy meanwhile: that is a new
	 * attempt, and a proof that is under way is void.
	 */
	LEAT_EXCHANGE_PROVE,
	LEAT_EXCHANGE_CONNECTED, /**< the connection is up on this side */
	LEAT_EXCHANGE_FAILED,	 /**< leat_exchange_connect() failed; the id is dead */
	/**
	 * a request or a connection ended; the id is dead, but see leat_exchange_conf.linger
	 */
	LEAT_EXCHANGE_DOWN,
	LEAT_EXCHANGE_NOTE, /**< the other side called leat_exchange_note(), at least once */
};

/** An event of a connection. */
struct leat_exchange_event {
	enum leat_exchange_event_type type; /**< what happened */
	int conn;			    /**< the connection's id */
	void *user;			    /**< argument of connect or accept; REQUEST: NULL */
	/**
	 * 0, or a negative errno.
	 * DOWN: 0 the other side said BYE; -ECONNRESET it died, or withdrew its request; -ETIMEDOUT
	 * its host vanished or it did not say READY; -EPROTO it sent an invalid message.
	 * FAILED: -ECONNREFUSED no listener, rejected, or busy until the timeout; -ETIMEDOUT no
	 * answer; -EHOSTUNREACH no route, or no such name; -ECONNRESET the connection broke before
	 * it was up; -EPROTO the other side is not a leat listener; -EPROTONOSUPPORT it speaks a
	 * different version; -EACCES no permission for its socket, or one side refuses the user of
	 * the other; -EMFILE and other errors of socket(2) and connect(2).
	 */
	int status;
	/** in REQUEST, and in PROVE and CONNECTED of a connector: length of blob, bytes */
	uint16_t blob_len;
	uint16_t priv_len;  /**< length of priv, bytes, in the same events */
	uint16_t proof_len; /**< length of proof, bytes, in the same events */
	/**
	 * in REQUEST, and in CONNECTED of a connector: number of descriptors from the other side,
	 * close-on-exec, which the owner must close
	 */
	uint8_t nb_fds;
	int fds[LEAT_EXCHANGE_FDS_MAX];		/**< the descriptors, nb_fds of them */
	uint8_t blob[LEAT_EXCHANGE_BLOB_MAX];	/**< the peer's address, blob_len bytes */
	uint8_t priv[LEAT_EXCHANGE_PRIV_MAX];	/**< the peer's private data, priv_len bytes */
	uint8_t proof[LEAT_EXCHANGE_PROOF_MAX]; /**< the peer's proof, proof_len bytes */
	/** kind of the peer's address, in the same events; terminated, printable */
	char kind[LEAT_EXCHANGE_KIND_MAX];
	/**
	 * the other side, for messages. At an acceptor: the connector's TCP address, or its process
	 * and user; at a connector: the address given to leat_exchange_connect()
	 */
	char addr[LEAT_EXCHANGE_ADDR_MAX];
	char text[LEAT_EXCHANGE_TEXT_MAX]; /**< FAILED, DOWN: peer, operation, cause, hint */
};

/** Counters of an instance. */
struct leat_exchange_stats {
	uint64_t accepted;  /**< connections accepted */
	uint64_t connected; /**< handshakes completed, of connectors and acceptors */
	uint64_t dropped;   /**< connections without HELLO that were dropped for newer ones */
	uint64_t busy;	    /**< connectors told BUSY */
	uint64_t evicted;   /**< connections ended before READY because other connectors waited */
	uint64_t malformed; /**< connections ended because of an invalid message */
	uint64_t timeouts;  /**< connections ended because the peer was too slow */
	/**
	 * times that descriptors or memory ran out: for a new connection, or for descriptors that
	 * the other side sent
	 */
	uint64_t no_fd;
	uint64_t other_user; /**< connectors turned away as processes of another user */
	uint32_t pending;    /**< connections without HELLO now */
	uint32_t conns;	     /**< ids alive now */
};

/**
 * Create an instance.
 * @return the instance, or NULL with rte_errno EINVAL (a value out of range), ENOMEM, EMFILE;
 *   because of conf.dir: ENAMETOOLONG, EACCES (the directory is not this user's alone), ENOTDIR,
 *   others as mkdir(2) and open(2)
 */
LEAT_API struct leat_exchange *leat_exchange_create(const struct leat_exchange_conf *conf);

/**
 * Destroy an instance: send BYE to all peers whose sockets have room for it, and free the instance.
 * The name of a UNIX socket is removed; if another process has locked the directory the call waits
 * for it, 1 s at most. NULL is ignored.
 */
LEAT_API void leat_exchange_destroy(struct leat_exchange *x);

/**
 * Listen at "host:port", "[v6]:port", or ":port" for all interfaces; port 0: a free port. A
 * host that is a name is looked up in this call, which may block; a numeric host never blocks it.
 * With conf.dir: addresses as described above; port 0: a free one of 49152..65535. A name that
 * a killed listener left is taken over. If another process has locked the directory the call waits
 * for it, 1 s at most.
 * @return 0; -EINVAL (malformed); -EALREADY (listens already); -EADDRINUSE; -EADDRNOTAVAIL;
 *   -EHOSTUNREACH (no such name; conf.dir: not this machine); -EACCES; -EMFILE; others as bind(2).
 *   conf.dir: -ENAMETOOLONG (the path); -EBUSY (another process keeps the directory locked)
 */
LEAT_API int leat_exchange_listen(struct leat_exchange *x, const char *addr);

/**
 * Get the address at which the instance listens: NAME, or host and port, the port filled in.
 * @return 0; -ENOENT (it does not listen); -ENOSPC (len too small)
 */
LEAT_API int leat_exchange_listen_addr(const struct leat_exchange *x, char *addr, size_t len);

/**
 * Begin to connect to "host:port" or "[v6]:port". All addresses of a name are tried, again and
 * again (with pauses of up to 100 ms) until the timeout, so that the listener may come up later.
 * They are also tried again while the listener says BUSY.
 * The outcome is LEAT_EXCHANGE_CONNECTED or LEAT_EXCHANGE_FAILED, never inside this call.
 * @param x the instance
 * @param addr the address
 * @param timeout_us for all attempts together; 0: 5 s
 * @param data data for the other side; copied
 * @param user pointer of the caller; given back in the connection's events
 * @return id > 0; -EINVAL (malformed, or data too long, or descriptors over TCP); -ENOSPC
 *   (max_conns); -EBADF, -EMFILE (descriptors); conf.dir: -EHOSTUNREACH (not this machine),
 *   -ENAMETOOLONG
 */
LEAT_API int leat_exchange_connect(struct leat_exchange *x, const char *addr, uint64_t timeout_us,
				   const struct leat_exchange_data *data, void *user);

/**
 * Accept a request.
 * @return 0; -ENOTCONN (no open request); -EINVAL (data too long, or descriptors over TCP);
 *   -EBADF, -EMFILE, -ETOOMANYREFS and others of sendmsg(2) (descriptors): the request stays open
 */
LEAT_API int leat_exchange_accept(struct leat_exchange *x, int conn,
				  const struct leat_exchange_data *data, void *user);

/**
 * Report that the other side's address is proven, after LEAT_EXCHANGE_PROVE.
 * @return 0; -ENOTCONN (no proof is asked for, or not any more)
 */
LEAT_API int leat_exchange_proven(struct leat_exchange *x, int conn);

/**
 * Reject a request; no event follows, the id is dead.
 * @param x the instance
 * @param conn the request's id
 * @param why reason, for people at the other side, cut to fit; NULL: none
 * @return 0; -ENOTCONN
 */
LEAT_API int leat_exchange_reject(struct leat_exchange *x, int conn, const char *why);

/**
 * Turn a request away for lack of room: the connector tries again until its timeout. No event
 * follows for the request, and its id is dead. To make room, the call also ends a connection that
 * has made no progress for 0.5 s since its ACCEPT (up to 2 s where connections come up slowly);
 * LEAT_EXCHANGE_DOWN reports this end.
 * @param x the instance
 * @param conn the request's id
 * @param why reason, for people at the other side, cut to fit; NULL: none
 * @return 0; -ENOTCONN
 */
LEAT_API int leat_exchange_busy(struct leat_exchange *x, int conn, const char *why);

/**
 * End a connection or an attempt cleanly: the other side is told that it was closed on purpose. No
 * event follows, the id is dead.
 * @param x the instance
 * @param conn id of the connection or the attempt
 * @param why reason, for people at the other side, cut to fit; NULL: none
 * @return 0; -ENOTCONN
 */
LEAT_API int leat_exchange_close(struct leat_exchange *x, int conn, const char *why);

/**
 * Send a note without content to the other side of a connection that is up: the other instance's
 * descriptor (leat_exchange_fd()) becomes readable, and its owner gets LEAT_EXCHANGE_NOTE. Several
 * notes may become one event. Never blocks: when the socket is full the other side has notes to
 * read anyway.
 * @return 0; -ENOTCONN (not up); -EOPNOTSUPP (over TCP)
 */
LEAT_API int leat_exchange_note(struct leat_exchange *x, int conn);

/**
 * Check, after leat_exchange_close(), whether the other side still has something to finish. The
 * other side ends its half of the connection when it has finished (at once, unless its
 * leat_exchange_conf.linger is set); this side waits 1 s at most.
 */
LEAT_API bool leat_exchange_lingers(const struct leat_exchange *x, int conn);

/**
 * Drive the instance: at most one epoll_wait(2) without waiting, and bounded work. Call it every
 * millisecond or so; that is the resolution of time-outs and of detecting a peer's death.
 * @param x the instance
 * @param now leat_now()
 * @param[out] ev room for n events, n >= 1; those that don't fit come with the next call
 * @param n room at ev, in events
 * @return number of events
 */
LEAT_API unsigned int leat_exchange_poll(struct leat_exchange *x, uint64_t now,
					 struct leat_exchange_event *ev, unsigned int n);

/**
 * Get a descriptor that is readable, level-triggered, when leat_exchange_poll() would find
 * something in a socket. Time-outs and look-ups of names do not make it readable. Use it only to
 * wait: it belongs to the instance.
 */
LEAT_API int leat_exchange_fd(const struct leat_exchange *x);

/** Get the name of a connection's state, for people; "dead" for dead ids. Never NULL. */
LEAT_API const char *leat_exchange_state(const struct leat_exchange *x, int conn);

/** Copy the counters. On the instance's thread. */
LEAT_API void leat_exchange_stats_get(const struct leat_exchange *x,
				      struct leat_exchange_stats *stats);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_EXCHANGE_H */
