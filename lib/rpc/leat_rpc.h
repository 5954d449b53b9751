/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_RPC_H
#define LEAT_RPC_H

/**
 * @file
 * Remote calls: many small requests and responses at a time, sent in bursts. The interface has
 * three levels, each built on the one below; this header declares all of them.
 *
 * Requests, in the application's own loop, without tasks:
 *
 *     rpc = leat_rpc_create(ep, NULL);
 *     leat_rpc_handler_set(rpc, 7, lookup, app, 0);
 *     s = leat_rpc_connect(rpc, "10.0.0.1:7000", NULL);    or leat_rpc_accept()
 *     leat_rpc_post(reqs, n);
 *     loop:
 *         n = leat_ep_poll(ep, ops, 32);
 *         n = leat_rpc_process(rpc, ops, n);    runs handlers; leaves the application's ops
 *         k = leat_rpc_poll(rpc, done, 32);     requests that are done
 *         about every millisecond:
 *             n = leat_ep_events(ep, ev, 8);
 *             each: a CONNECT_REQ to leat_rpc_accept(rpc, &ev[i], NULL), others to
 *                 leat_rpc_handle_event(rpc, &ev[i]);
 *             n = leat_rpc_events(rpc, rev, 8); sessions that came up, ended, are closed
 *
 * Batches of requests, and single calls that wait, for tasks of a reactor that runs this loop
 * (leat_rpc_task.h, which this header includes at its end):
 *
 *     leat_rpc_reactor_add(r, rpc, NULL);
 *     ...in a task:
 *     key = leat_rpc_batch_start(batch, s, LOOKUP, sizeof(*key), sizeof(*value));    16 of these
 *     ret = leat_rpc_batch_send(batch);         sleeps until all responses are in
 *     ret = leat_rpc_call(s, LOOKUP, &key, sizeof(key), &value, sizeof(value), 0);
 *
 * A request (struct leat_rpc_req) is the caller's object, posted and given back like an op: each
 * accepted request comes back from leat_rpc_poll() exactly once, with a status, never inside the
 * call that posted it. A session is one connection, or a succession of them if it connects again by
 * itself; both its sides may call. Requests of a session are begun in the order in which they were
 * posted and may be answered in any order. On reliable endpoints each request is handled once; on
 * datagram endpoints at most once, whatever the network does.
 *
 * Responses arrive in memory of the library; the polling thread copies them to leat_rpc_req.resp.
 * So a request that is cancelled, or whose deadline passes, comes back at once, and from then on
 * nothing writes its buffer. The peer's later response is dropped and never taken for the response
 * to another request. (Memory whose key was given to the peer is an exception: leat_rpc_cancel().)
 *
 * leat_rpc_create() allocates all memory, except for about 700 B that leat_rpc_connect() allocates
 * for a session that connects again by itself. Nothing that peers do makes memory grow.
 *
 * Thread rules: all calls on the thread of the endpoint; no locks.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <leat_common.h>
#include <leat_ep.h>
#include <leat_wheel.h>

#include "leat_rpc_cc.h"
#include "leat_rpc_violation.h"

#ifdef __cplusplus
extern "C" {
#endif

struct leat_rpc;
struct leat_rpc_session;

/** Number of request types, and so of handlers. */
#define LEAT_RPC_TYPES 256
/**
 * Bytes of the private data of connect and accept that a session uses itself; the rest is the
 * application's.
 */
#define LEAT_RPC_HELLO_LEN 44
/** Longest private data of the application, bytes. */
#define LEAT_RPC_PRIV_MAX (LEAT_EP_PRIV_MAX - LEAT_RPC_HELLO_LEN)
/** Value of a deadline that means: no limit. */
#define LEAT_RPC_NO_DEADLINE UINT64_MAX
/** Largest value of leat_rpc_session_conf.reconnect_*_us: a day. */
#define LEAT_RPC_RECONNECT_US_MAX UINT64_C(86400000000)

/** Configuration of a context. Zeroed means all defaults. */
struct leat_rpc_conf {
	/** Maximum number of open sessions; should be less than leat_ep_conf.max_peers, so that
	 * further connectors can be refused with a reason. 0: max_peers - 1 */
	uint32_t max_sessions;
	/** Bytes of a packet: a multiple of 8, LEAT_RPC_PACKET_MIN to LEAT_RPC_PACKET_MAX, and not
	 * more than one SEND of the device carries; 0: 4096, or what a SEND carries if that is
	 * less. A session uses the smaller value of its two sides. */
	uint32_t packet;
	/** Packets that the other side of a session may have on the way, LEAT_RPC_CREDITS_MIN to
	 * LEAT_RPC_CREDITS_MAX. Each session has as many receives posted, so max_sessions * credits
	 * must not exceed the endpoint's receive depth. 0: the largest value that this depth
	 * allows, at most 64. */
	uint32_t credits;
	/** Requests of a session that may be under way in one direction, at most
	 * LEAT_RPC_SLOTS_MAX; further requests wait in the session. 0: 32. A session uses the
	 * smaller value of its two sides. */
	uint32_t slots;
	/** Packets for sending that all sessions share, in addition to one that each session has
	 * for itself. 0: 256 */
	uint32_t tx_packets;
	/** Requests that handlers may have deferred at a time; 0: 256 */
	uint32_t tickets;
	/** Longest message that this side accepts, bytes, up to 1 GiB; 0: 8 MiB */
	uint32_t max_msg;
	/** Messages of several packets that handlers can have at a time, requests and responses
	 * together. Each takes max_msg bytes of address space, and memory as it is used. 0: 16 */
	uint32_t large;
	/** READs and WRITEs that the transfers of all sessions (leat_rpc_pull(), leat_rpc_push())
	 * may have under way at a time, and messages that take their place where a transfer can't
	 * use READ or WRITE. 0: 64 */
	uint32_t segments;
	/** Bytes of one READ or WRITE of a transfer, reduced to what the device can do;
	 * 0: 64 KiB */
	uint32_t segment;
	/** Time that a peer has to release the memory of a request that was cancelled or timed out,
	 * if the request gave the peer the memory's key, microseconds; 0: 1 s */
	uint32_t bulk_grace_us;
	/** Microseconds after which a client is advised to try again, sent with -EBUSY. 0: 100 */
	uint32_t busy_us;
	/** Datagram endpoints: a peer that stays silent for this time, although it was probed, is
	 * dead. Microseconds, at least 1000; 0: 500,000 */
	uint32_t silence_us;
	/** Datagram endpoints: interval at which a session without traffic probes its peer,
	 * microseconds; 0: 5 s */
	uint32_t idle_us;
};

/** Configuration of a session. Zeroed means all defaults. */
struct leat_rpc_session_conf {
	/** Time that a request without a deadline of its own may take, microseconds; 0: 5 s;
	 * LEAT_RPC_NO_DEADLINE: no limit */
	uint64_t deadline_us;
	uint64_t timeout_us; /**< leat_rpc_connect(): as in struct leat_conn_params */
	/** Datagram endpoints: congestion control; NULL: none. It must outlive the session. */
	const struct leat_rpc_cc *cc;
	const void *priv;  /**< private data sent to the other side; copied */
	uint16_t priv_len; /**< bytes of priv; limits: LEAT_RPC_PRIV_MAX, and the device's own */
	void *user;	   /**< given back in the events of this session */
	/**
	 * @name Connecting again
	 *
	 * leat_rpc_connect(): if any of these is not 0, the session connects again when its
	 * connection ends or an attempt to connect fails, the first attempt included. A random
	 * pause precedes each new attempt, between reconnect_min_us and a bound that doubles
	 * from twice reconnect_min_us up to reconnect_max_us. A connection that lasts for
	 * reconnect_max_us starts the bound and both limits (reconnect_for_us, reconnect_tries)
	 * afresh; a shorter one counts as a failed attempt, since a peer may accept and fail at
	 * once, again and again. Requests may be posted without a connection. They, and requests
	 * that had not begun when the last connection ended, wait for the next connection; their
	 * deadlines run meanwhile.
	 */
	/**@{*/
	/** shortest pause, microseconds; 0: 10 ms, or reconnect_max_us if that is less */
	uint64_t reconnect_min_us;
	/** longest pause, microseconds, at least reconnect_min_us; 0: 2 s, or reconnect_min_us if
	 * that is more */
	uint64_t reconnect_max_us;
	/** end all attempts after this time without a connection that lasted for reconnect_max_us,
	 * microseconds; 0: no limit */
	uint64_t reconnect_for_us;
	uint32_t reconnect_tries; /**< maximum number of attempts; 0: no limit */
				  /**@}*/
};

/**
 * In, leat_rpc_req.flags: the handler writes no response.
 *
 * A request that fits a packet is done, with status 0, when the library has copied its bytes to
 * the packet: whether the request arrives, and what the handler returns, stays unknown. A longer
 * request comes back as if its response were empty: with the status of the handler when the other
 * side has handled it, or earlier with one of the other statuses of leat_rpc_req.
 */
#define LEAT_RPC_ONEWAY 0x01
/** In, leat_rpc_req.flags: bulk and nb_bulk are set. */
#define LEAT_RPC_BULK 0x02

/**
 * Memory of the caller that the handler of a request may reach: in a task (leat_rpc_task.h) it
 * pulls bytes from the memory, or pushes bytes to it.
 */
struct leat_rpc_bulk {
	void *addr;   /**< start of the memory */
	uint64_t len; /**< its length, bytes */
	/**
	 * Registered memory that contains addr and len, with the rights that access asks for
	 * (LEAT_MR_REMOTE_READ, LEAT_MR_REMOTE_WRITE): the other side then uses READ and WRITE. If
	 * it is NULL, or one of the endpoints can't do these, the bytes are carried in messages.
	 */
	struct leat_mr *mr;
	uint32_t access; /**< LEAT_RPC_BULK_PULL, LEAT_RPC_BULK_PUSH */
};

/** A request. Zero it before the first use. */
struct leat_rpc_req {
	struct leat_rpc_session *session; /**< in: session to send the request on */
	/** in: the request's bytes, the library's until the request comes back; NULL if len is 0 */
	const void *buf;
	void *resp;    /**< in: buffer of the response; NULL if room is 0 */
	uint32_t len;  /**< in: bytes of the request */
	uint32_t room; /**< in: size of resp, bytes */
	/** in: absolute time by which the request comes back, even if it still waits in a queue of
	 * this side, cycles of leat_now(); 0: the session's default; LEAT_RPC_NO_DEADLINE: none */
	uint64_t deadline;
	/** out: bytes of the response; with -EMSGSIZE the size that the response needed */
	uint32_t resp_len;
	/**
	 * out: 0; what the handler returned; or why there is no response:
	 *  - -ENOSYS: the other side has no handler of that type
	 *  - -EBUSY: the other side had no room for the request, see busy_us
	 *  - -ETIMEDOUT: the deadline passed
	 *  - -ECANCELED: the request was cancelled, or this side closed the session
	 *  - -EMSGSIZE: the request is longer than the other side accepts, or the response longer
	 *    than room
	 *  - -ESHUTDOWN: the other side is closing
	 *  - -EINVAL: buf, resp or bulk is missing or not valid
	 *  - -ENOTCONN: the other side closed the session
	 *  - -EOPNOTSUPP: the other side does not support memory descriptors
	 *  - -EACCES: an mr lacks the rights; -ERANGE: it does not contain the memory
	 *  - -EPROTO, -ECONNRESET and others: the session or its connection ended, as
	 *    leat_rpc_event.status
	 */
	int32_t status;
	/** out: with -EBUSY, microseconds after which the other side advises to try again, else
	 * 0 */
	uint32_t busy_us;
	uint8_t type;  /**< in: type of the request, which selects the handler */
	uint8_t flags; /**< in: LEAT_RPC_ONEWAY or LEAT_RPC_BULK */
	/** out: with a status < 0: 1 if no handler has seen the request and none will; 0 if a
	 * handler may have seen it */
	uint8_t refused;
	uint8_t state; /**< private: 0 while the request is the caller's */
	void *user;    /**< the caller's; never read or written by the library */
	/** in, with LEAT_RPC_BULK: descriptors of memory that the handler may reach, nb_bulk of
	 * them, 1 to LEAT_RPC_BULK_MAX. The array stays valid until the request is back. A request
	 * with descriptors must fit a packet. */
	const struct leat_rpc_bulk *bulk;
	uint8_t nb_bulk; /**< in, with LEAT_RPC_BULK: number of elements of bulk */
	/** private: the request comes back only when no peer can reach the request's memory */
	uint8_t held;
	uint16_t slot;		      /**< private */
	struct leat_rpc_req *next;    /**< private */
	struct leat_rpc_req *prev;    /**< private */
	struct leat_wheel_node timer; /**< private */
	/** private: called instead of returning the request from leat_rpc_poll(); NULL: none */
	void (*done)(struct leat_rpc_req *req);
	void *waiter; /**< private */
};

/**
 * A request that arrived, for its handler, and after leat_rpc_defer() for the task that answers it.
 *
 * In a handler the structure and all that it points to are valid during the call only.
 * leat_rpc_defer() returns one that is valid until it is answered.
 */
struct leat_rpc_incoming {
	const void *req;   /**< the request's bytes */
	void *resp;	   /**< buffer for the response */
	uint32_t len;	   /**< bytes of req */
	uint32_t room;	   /**< bytes of resp; 0 for a one-way request */
	uint32_t resp_len; /**< out: bytes written to resp; 0 at first */
	uint8_t type;	   /**< type of the request */
	bool oneway; /**< one-way: of a long request only the status is sent back, else nothing */
	uint8_t nb_bulk; /**< number of memory descriptors: leat_rpc_incoming_bulk() */
	/** deferred requests: the caller has cancelled the request, or the session ended; the
	 * answer will be dropped */
	bool cancelled;
	struct leat_rpc_session *session; /**< NULL: the session has ended since */
	/** microseconds that the caller waits, from the handler's call on; 0: no limit */
	uint32_t us_left;
	/**
	 * deferred requests: time until which the caller waits, cycles; LEAT_RPC_NO_DEADLINE: no
	 * limit
	 */
	uint64_t deadline;
	void *user;	   /**< the application's, NULL at first */
	const void *descs; /**< private */
};

/** Returned by a handler that has called leat_rpc_defer(). */
#define LEAT_RPC_DEFERRED 1

/**
 * Handle a request. Called inside leat_rpc_process(); must not wait, and may post requests.
 * @return
 *  - 0: the response is call->resp_len bytes in call->resp
 *  - -errno: the caller gets this status (and call->resp_len bytes, if they fit a packet)
 *  - LEAT_RPC_DEFERRED
 */
typedef int (*leat_rpc_handler_fn)(struct leat_rpc_incoming *call, void *arg);

/**
 * Events of a session, in this order. A session that connects again has UP and DOWN any number of
 * times; several changes between two calls of leat_rpc_events() may be reported as one, but the
 * latest of UP and DOWN is always reported.
 */
enum leat_rpc_event_type {
	LEAT_RPC_UP = 0, /**< connected, and ready for requests */
	/** leat_rpc_session_conf.reconnect_*: the connection ended, or the first attempt to connect
	 * failed; another attempt will follow. Requests that had begun come back with a status, the
	 * others wait for the next connection. The application need not do anything. */
	LEAT_RPC_DOWN,
	/** the session ended, or never came up; requests come back with a status. The application
	 * calls leat_rpc_close(). */
	LEAT_RPC_ENDED,
	LEAT_RPC_CLOSED, /**< leat_rpc_close() is complete: the pointer is no longer valid */
};

/** An event. */
struct leat_rpc_event {
	enum leat_rpc_event_type type;	  /**< what happened */
	struct leat_rpc_session *session; /**< its session; CLOSED: no longer valid */
	void *user;			  /**< leat_rpc_session_conf.user */
	/**
	 * ENDED, DOWN:
	 * - 0: the other side closed cleanly
	 * - -ECONNREFUSED: the application refused the session, or the other side has as many
	 *   sessions as it allows; text says which of the two, with the errno or that number
	 * - -EPROTO: one side broke the protocol
	 * - -EPROTONOSUPPORT: the other side does not speak the protocol
	 * - else as leat_event.status
	 *
	 * CLOSED:
	 * - 0: no requests were left
	 * - -ETIMEDOUT: requests were left when the timeout passed
	 * - else the status with which the session had ended or was down before
	 */
	int status;
	char text[LEAT_EVENT_TEXT]; /**< human-readable reason */
};

/** Counters of a context. */
struct leat_rpc_stats {
	uint64_t posted;    /**< requests posted */
	uint64_t done;	    /**< requests that came back, with any status */
	uint64_t cancelled; /**< part of done: cancelled */
	uint64_t expired;   /**< part of done: the deadline passed */
	/** responses that came after a cancel or the deadline, or did not fit the request's room */
	uint64_t late;
	uint64_t handled;  /**< calls of handlers */
	uint64_t refused;  /**< requests answered by the library instead of a handler */
	uint64_t busy;	   /**< part of refused: with -EBUSY */
	uint64_t unwaited; /**< requests and answers dropped because their deadline had passed */
	uint64_t packets_sent;	   /**< packets sent */
	uint64_t packets_received; /**< packets that arrived */
	/** requests, responses, pieces and cancels sent; divided by packets_sent: the coalescing
	 * factor */
	uint64_t items_sent;
	uint64_t credit_packets;  /**< packets sent that carry only credits or acknowledgements */
	uint64_t retransmissions; /**< packets sent again (datagrams) */
	/** probes sent to find out whether a peer is alive (datagrams) */
	uint64_t probes;
	uint64_t duplicates; /**< packets that arrived twice (datagrams) */
	uint64_t refusals;   /**< sessions that this side refused */
	uint64_t retries;    /**< attempts to connect again */
	/** connections made again after an earlier one of the session had ended */
	uint64_t reconnects;
	uint64_t violations[LEAT_RPC_VIOLATIONS]; /**< counts by enum leat_rpc_violation */
	uint64_t pulled;			  /**< bytes that transfers have read from peers */
	uint64_t pushed;			  /**< bytes that transfers have written to peers */
	/** part of pulled and pushed: bytes carried in messages */
	uint64_t by_message;
	uint64_t memory;   /**< bytes allocated by leat_rpc_create(), messages of several packets
			      included, and for sessions that connect again */
	uint32_t sessions; /**< sessions now */
	uint32_t max_sessions; /**< leat_rpc_conf.max_sessions in use, the default filled in */
	uint32_t credits;      /**< leat_rpc_conf.credits in use */
	uint32_t slots;	       /**< leat_rpc_conf.slots in use */
	uint32_t tickets;      /**< deferred requests not yet answered */
	uint32_t large;	       /**< messages of several packets held by this side, now */
	uint32_t transfers;    /**< transfers under way, now */
	/** packets being filled, waiting, with the device, or (datagrams) not acknowledged, now */
	uint32_t tx_packets;
};

/**
 * Create a context on an endpoint. The endpoint must outlive the context. All receives of the
 * endpoint belong to the context; the application may post other ops on it.
 * @param ep the endpoint
 * @param conf NULL for the defaults
 * @return the context, or NULL with rte_errno, and leat_err_msg() saying more:
 *   - EINVAL: a value is out of range, or the receive depth is too small
 *   - EOPNOTSUPP: the endpoint has no SEND and RECV
 *   - ENOMEM, and others of leat_mr_register()
 */
LEAT_API struct leat_rpc *leat_rpc_create(struct leat_ep *ep, const struct leat_rpc_conf *conf);

/**
 * Free a context. The first call that finds no open session and no deferred request starts to
 * cancel the receives; from then on no session can be opened.
 * @return 0 (also for NULL); -EBUSY: sessions are open, requests deferred by handlers are not
 *   answered (leat_err_msg() names them), receives are still with the device, or leat_rpc_poll()
 *   has not returned all requests that are done: poll, and try again
 */
LEAT_API int leat_rpc_destroy(struct leat_rpc *rpc);

/** Return the endpoint of a context. Any thread. */
LEAT_API struct leat_ep *leat_rpc_ep(const struct leat_rpc *rpc);

/**
 * Set the handler of a type.
 * @param rpc the context
 * @param type type of the requests
 * @param fn NULL: none; requests of the type are answered with -ENOSYS
 * @param arg second argument of fn
 * @param resp_max bytes of the handler's longest response, at most max_msg; 0: what fits a packet.
 *   If this is more than a packet holds, responses are written to memory of leat_rpc_conf.large.
 * @return 0; -EINVAL: resp_max is larger than max_msg
 */
LEAT_API int leat_rpc_handler_set(struct leat_rpc *rpc, uint8_t type, leat_rpc_handler_fn fn,
				  void *arg, uint32_t resp_max);

/**
 * Read a memory descriptor of a request.
 * @param call the request
 * @param i from 0 to call->nb_bulk - 1
 * @param[out] access LEAT_RPC_BULK_PULL, LEAT_RPC_BULK_PUSH; may be NULL
 * @return bytes of the memory; 0: no such descriptor
 */
LEAT_API uint64_t leat_rpc_incoming_bulk(const struct leat_rpc_incoming *call, unsigned int i,
					 uint32_t *access);

/**
 * Defer the answer of a request: take a ticket. Only in the request's handler, which then returns
 * LEAT_RPC_DEFERRED.
 * @return the request, with its bytes, valid until leat_rpc_answer(); NULL with rte_errno EBUSY:
 *   leat_rpc_conf.tickets requests are deferred already (the handler must not return
 *   LEAT_RPC_DEFERRED then; it usually returns -EBUSY)
 */
LEAT_API struct leat_rpc_incoming *leat_rpc_defer(struct leat_rpc_incoming *call);

/**
 * Answer a deferred request. The pointer is no longer valid afterwards. If the session has ended,
 * nothing is sent; if the caller has given up, only a status is sent.
 * @param call what leat_rpc_defer() returned
 * @param status as what a handler returns: 0 or -errno
 */
LEAT_API void leat_rpc_answer(struct leat_rpc_incoming *call, int status);

/**
 * Begin to connect, as leat_ep_connect(). LEAT_RPC_UP or LEAT_RPC_ENDED follows. Requests may be
 * posted at once.
 *
 * A session that connects again (leat_rpc_session_conf.reconnect_*) ends only when it gives up: a
 * limit is reached, the other side does not speak the protocol or requires a feature that this side
 * lacks, or the endpoint is shut down. The pointer is valid until LEAT_RPC_CLOSED, whatever happens
 * to the connections. Each connection has its own token and numbers, so no packet of one is taken
 * for an answer in another.
 * @param rpc the context
 * @param addr copied
 * @param conf NULL for the defaults; copied
 * @return the session, or NULL with rte_errno: ENOSPC (max_sessions are open), ESHUTDOWN
 *   (leat_rpc_destroy() has begun), EINVAL (a value of conf, or addr), ENOMEM, and others of
 *   leat_ep_connect()
 */
LEAT_API struct leat_rpc_session *leat_rpc_connect(struct leat_rpc *rpc, const char *addr,
						   const struct leat_rpc_session_conf *conf);

/**
 * Accept a session, or refuse it with the reason if there is no room for it.
 * @param rpc the context
 * @param ev the LEAT_EV_CONNECT_REQ; no other call is needed for it, whatever is returned
 * @param conf NULL for the defaults
 * @return the session, or NULL with rte_errno: ENOSPC (max_sessions are open), ESHUTDOWN
 *   (leat_rpc_destroy() has begun), EPROTONOSUPPORT (the other side does not speak the protocol, or
 *   requires a feature that this side lacks), EINVAL (a value of conf), ENOTCONN (the request is no
 *   longer open), and others of leat_ep_accept(), for which the other side gets no reason
 */
LEAT_API struct leat_rpc_session *leat_rpc_accept(struct leat_rpc *rpc, const struct leat_event *ev,
						  const struct leat_rpc_session_conf *conf);

/**
 * Refuse a session for a reason of the application.
 * @param rpc the context
 * @param ev the LEAT_EV_CONNECT_REQ
 * @param status -errno, reported to the other side
 */
LEAT_API void leat_rpc_refuse(struct leat_rpc *rpc, const struct leat_event *ev, int status);

/**
 * Find the application's private data in a LEAT_EV_CONNECT_REQ or LEAT_EV_CONNECTED.
 * @param ev a LEAT_EV_CONNECT_REQ or LEAT_EV_CONNECTED
 * @param[out] len bytes of the data
 * @return the data, inside ev
 */
LEAT_API const void *leat_rpc_priv(const struct leat_event *ev, uint16_t *len);

/**
 * Begin to close a session. Nothing more can be posted on it, and new requests of the other side
 * are answered with -ESHUTDOWN. Requests under way in both directions have until the timeout to
 * finish; those that are left then come back with -ECANCELED. Without a connection all requests
 * come back at once. LEAT_RPC_CLOSED follows. The log names requests that handlers have deferred
 * and not answered at the timeout.
 * @param s the session
 * @param timeout_us time for requests under way, microseconds; 0: don't wait for them
 * @return 0; -EALREADY: the session is closing
 */
LEAT_API int leat_rpc_close(struct leat_rpc_session *s, uint64_t timeout_us);

/**
 * Post requests, of any sessions of one context, in this order. Consecutive requests of one
 * session share packets.
 * @return number of requests accepted; fewer than n, with rte_errno: EALREADY (reqs[ret] is posted
 *   already), ESHUTDOWN (leat_rpc_close() was called for its session). A request that is wrong in
 *   another way is accepted and comes back with a status.
 */
LEAT_API uint16_t leat_rpc_post(struct leat_rpc_req **reqs, uint16_t n);

/**
 * Cancel a request. The library sends a cancel to the other side; a handler may or may not have run
 * (leat_rpc_req.refused).
 *
 * Responses arrive in memory of the library, so the request comes back at once, and nothing writes
 * its response buffer any more. The exception is a request that gave the other side the key of
 * memory (leat_rpc_bulk.mr), since this side can't stop a READ or WRITE of that memory. Such a
 * request comes back when the other side has released the memory. If the other side does not do so
 * within leat_rpc_conf.bulk_grace_us, the session ends, and the request comes back after its end.
 * (A malicious peer can use a key of a libfabric device until leat_mr_deregister().) The same holds
 * for a request whose deadline passes.
 * @return
 *   - 0: the next leat_rpc_poll() gives the request back, with -ECANCELED
 *   - 1: the request comes back with -ECANCELED when the other side has released its memory
 *   - -EALREADY: the request was cancelled before, or its deadline passed, and the other side has
 *     not released its memory yet
 *   - -ENOENT: the request is not posted, or is done
 */
LEAT_API int leat_rpc_cancel(struct leat_rpc_req *req);

/**
 * Process the ops that leat_ep_poll() returned: take out the context's own, run handlers, and post
 * their responses in one burst. All ops of the endpoint must be passed to this function.
 * @param rpc the context
 * @param ops the application's ops are moved to the front, in their order
 * @param n number of ops
 * @return number of the application's ops
 */
LEAT_API uint16_t leat_rpc_process(struct leat_rpc *rpc, struct leat_op **ops, uint16_t n);

/**
 * Return requests that are done. Also resume sessions that had no room to send, and end requests
 * whose deadline has passed.
 * @param rpc the context
 * @param[out] reqs room for n; n may be 0
 * @param n room at reqs, in requests
 * @return number of requests; they belong to the caller again
 */
LEAT_API uint16_t leat_rpc_poll(struct leat_rpc *rpc, struct leat_rpc_req **reqs, uint16_t n);

/**
 * Handle an event of the endpoint. Pass every event here except LEAT_EV_CONNECT_REQ.
 * @return true: the event was about a session of this context, or a connection that it refused;
 *   false: the event is the application's, as LEAT_EV_SHUTDOWN always is
 */
LEAT_API bool leat_rpc_handle_event(struct leat_rpc *rpc, const struct leat_event *ev);

/**
 * Take events of sessions.
 *
 * A session is no longer valid when this call has written its LEAT_RPC_CLOSED to ev. If handling
 * one event may open a session, the new session may have the pointer of one whose LEAT_RPC_CLOSED
 * stands further behind in ev. Such an application passes n 1, or tells sessions apart by user.
 * Attached to a reactor (leat_rpc_task.h), a context passes each event to the application before it
 * takes the next.
 * @param rpc the context
 * @param[out] ev room for n
 * @param n room at ev, in events
 * @return number of events
 */
LEAT_API uint16_t leat_rpc_events(struct leat_rpc *rpc, struct leat_rpc_event *ev, uint16_t n);

/** Read the counters. On the thread of the endpoint. */
LEAT_API void leat_rpc_stats_get(const struct leat_rpc *rpc, struct leat_rpc_stats *stats);

/** Return the name of a violation, such as "bad token"; "?" for any other value. */
LEAT_API const char *leat_rpc_violation_name(unsigned int violation);

/** Return the context of a session. */
LEAT_API struct leat_rpc *leat_rpc_session_context(const struct leat_rpc_session *s);

/** Return the peer id of a session; LEAT_PEER_ANY when the session has ended or is down. */
LEAT_API uint16_t leat_rpc_session_peer(const struct leat_rpc_session *s);

/** Return the user pointer of a session (leat_rpc_session_conf.user). */
LEAT_API void *leat_rpc_session_user(const struct leat_rpc_session *s);

/** Return the longest request that one packet of the session holds, bytes; 0 before it is up. */
LEAT_API uint32_t leat_rpc_session_small(const struct leat_rpc_session *s);

#ifdef __cplusplus
}
#endif

#include "leat_rpc_task.h"

#endif /* LEAT_RPC_H */
