/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_MSG_H
#define LEAT_MSG_H

/**
 * @file
 * Ordered messages of any size, over a reliable endpoint with tagged ops.
 *
 *     leat_msg_ep_conf(dev, NULL, &conf);                room for the receives of all connections
 *     ep = leat_ep_create(dev, &conf);
 *     m = leat_msg_create(ep, NULL);
 *     c = leat_msg_connect(m, "10.0.0.1:7000", NULL);    or leat_msg_accept()
 *     leat_msg_send(c, reqs, n); leat_msg_recv(c, reqs, n);
 *     loop:
 *         n = leat_ep_poll(ep, ops, 32);
 *         if (n > 0)
 *             n = leat_msg_process(m, ops, n);  removes its own ops, leaves the application's
 *         k = leat_msg_poll(m, done, 32);       requests that are done
 *         every ms or so:
 *             n = leat_ep_events(ep, ev, 8);
 *             each: leat_msg_handle_event(m, &ev[i]);
 *             n = leat_msg_events(m, mev, 8);   connections that came up, ended, are closed
 *     leat_msg_close(c, 1000000); ... LEAT_MSG_CLOSED; leat_msg_destroy(m);
 *
 * A request (struct leat_msg_req) is the caller's object, posted and given back like an op. The
 * sends of a connection are done in the order in which they were posted, and so are its receives,
 * in whatever order the device completes its ops. Each request that was accepted comes back from
 * leat_msg_poll() exactly once, never inside the call that posted it. Requests may be posted before
 * the connection is up.
 *
 * There are two formats on the wire (doc/guide/msg.md has every byte):
 *
 * - *plain*: a length and a payload, two tagged sends. A program that knows only libfabric can
 *   speak this format. It has no flow control but the device's.
 * - *leat*: agreed on by two leat endpoints when they connect. A small message is one send, and
 *   several waiting small messages share one; credits bound what is in flight; the payload of a
 *   large message is sent into a receive that is already posted; no other connection has the same
 *   tags.
 *
 * leat_msg_create() allocates and registers all memory: opening, sending and receiving allocate
 * nothing, whatever the peer announces.
 *
 * Thread rules: all calls on a context and its connections run on the thread of its endpoint; there
 * are no locks.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <leat_common.h>
#include <leat_ep.h>
#include <leat_wheel.h>

#ifdef __cplusplus
extern "C" {
#endif

struct leat_msg;
struct leat_msg_conn;
struct rte_mbuf;
struct rte_mempool;

/** Maximum number of sends in flight per connection and direction (leat_msg_conf.credits). */
#define LEAT_MSG_CREDITS_MAX 256
/** Default of leat_msg_conf.credits; fewer if the receive depth has no room for that many. */
#define LEAT_MSG_CREDITS_DEFAULT 64
/** Maximum of leat_msg_conf.eager_max, bytes. */
#define LEAT_MSG_EAGER_MAX 65536
/**
 * Bytes of the private data of connect and accept that leat mode uses; the application has the
 * rest.
 */
#define LEAT_MSG_HELLO_LEN 32
/** Default of leat_msg_conn_conf.answer_us: time that a peer has to answer a ping, microseconds. */
#define LEAT_MSG_ANSWER_US 5000000
/**
 * After a connection has ended: time for which a message that has arrived waits for a buffer
 * (leat_msg_conn_conf.alloc or mempool), microseconds.
 */
#define LEAT_MSG_NOBUFS_US 500000
/** Longest private data of the application, bytes. */
#define LEAT_MSG_PRIV_MAX (LEAT_EP_PRIV_MAX - LEAT_MSG_HELLO_LEN)

/** Mode of a connection: the format of its messages on the wire. */
enum leat_msg_mode {
	/**
	 * in a configuration: leat mode if the peer speaks it, else plain mode, which is logged; as
	 * the mode of a connection: the connection is not up yet
	 */
	LEAT_MSG_AUTO = 0,
	LEAT_MSG_PLAIN, /**< length and payload in two sends */
	LEAT_MSG_LEAT,	/**< eager sends and credits; in a configuration: leat only, never plain */
};

/** Configuration of a context. Zeroed means all defaults. */
struct leat_msg_conf {
	/** maximum number of open connections, at most leat_ep_conf.max_peers; 0: max_peers */
	uint16_t max_conns;
	/**
	 * Maximum number of messages in flight per connection and direction; in leat mode, small
	 * messages that travel together count as one. A power of two, 2 to LEAT_MSG_CREDITS_MAX; 0:
	 * LEAT_MSG_CREDITS_DEFAULT, or less if the receive depth has no room for that many, which
	 * is logged. In plain mode at most 8 receives are posted at a time. In leat mode at most 64
	 * are posted at first; each time the peer has to wait for credit, that limit is doubled, up
	 * to this value. The endpoint must have room for
	 * max_conns * (2 * credits + 2) receives: leat_msg_ep_conf() asks for it.
	 */
	uint16_t credits;
	/**
	 * Leat mode: longest message, bytes, that is copied and travels in one send, together with
	 * other waiting small messages that fit; 1 to LEAT_MSG_EAGER_MAX; 0: 2032. A connection
	 * uses the smaller value of its two sides.
	 */
	uint32_t eager_max;
};

/**
 * Provide memory for an arriving message of exactly len > 0 bytes (at most the request's size).
 * @param arg leat_msg_conn_conf.alloc_arg
 * @param len length of the message, bytes
 * @param[out] mr region that holds the buffer; needed if leat_dev_info.mr_local is true
 * @return the buffer, which the application owns from here on; NULL: no buffer is available now.
 *   The next leat_msg_process() or leat_msg_poll() then asks again, but after the connection has
 *   ended only for LEAT_MSG_NOBUFS_US.
 */
typedef void *(*leat_msg_alloc_fn)(void *arg, uint64_t len, struct leat_mr **mr);

/** Configuration of a connection. Zeroed means all defaults. */
struct leat_msg_conn_conf {
	enum leat_msg_mode mode; /**< LEAT_MSG_AUTO: chosen when connecting */
	/**
	 * Plain mode: post receives for lengths that match any message id (tag ignore mask
	 * 0xffffffff), instead of one receive for each of the next ids. doc/guide/msg.md says why
	 * the default is the safe one.
	 */
	bool any_id;
	/**
	 * Longest message accepted, bytes; 0: leat_dev_info.max_msg. A sender in leat mode knows
	 * this limit and fails a longer send itself; a peer that announces a longer message ends
	 * the connection with -EMSGSIZE.
	 */
	uint64_t max_size;
	leat_msg_alloc_fn alloc; /**< allocates for receives without a buffer; NULL: use mempool */
	void *alloc_arg;	 /**< argument of alloc */
	/**
	 * Provides buffers for receives that have none: one object per message, which must fit into
	 * it. While the mempool is empty messages wait, and their senders too once they are out of
	 * credit. Connections may share a mempool: even while it is empty, a connection that has
	 * ended gives back its requests.
	 */
	struct rte_mempool *mempool;
	const void *priv; /**< private data sent to the peer when connecting; copied */
	/** length of priv, bytes; at most LEAT_MSG_PRIV_MAX, and at most what the device allows */
	uint16_t priv_len;
	uint64_t timeout_us; /**< leat_msg_connect(): as in struct leat_conn_params */
	/**
	 * Leat mode: silence after which the peer is pinged, microseconds (the ping may be sent up
	 * to a quarter of that time later); 0: the peer is never pinged, and silence does not end
	 * the connection. The peer answers whenever it calls leat_msg_process(). Plain mode has no
	 * ping and ignores this.
	 */
	uint64_t idle_us;
	/**
	 * Time for which the peer may stay silent after a ping, microseconds; then the connection
	 * ends with -ETIMEDOUT. 0: LEAT_MSG_ANSWER_US. Must be longer than the longest message
	 * takes to arrive, since the answer may have to wait behind it, and longer than one turn of
	 * the peer's loop.
	 */
	uint64_t answer_us;
	void *user; /**< comes back in the events of this connection */
	/** For tests: id of the first message and the first control message in both directions. */
	uint32_t first_id;
};

/**
 * @name Flags of a request
 * @{
 */
/**
 * In: @ref leat_msg_req.deadline is set. When the deadline passes, the request comes back with
 * -ETIMEDOUT, and its buffer is the caller's again; but the request does not come back before those
 * posted ahead of it: give these a deadline, too. What happens to the message:
 *   - Receive: if no message has begun to arrive, the next one goes to the receive posted behind
 *     this one. A message that has begun to arrive is dropped, and len is its length. The
 *     connection goes on, unless the payload is arriving and the device can't recall its receive.
 *   - Send: a message that has not begun is not sent. A small one that has begun may still arrive;
 *     a large one is dropped by the peer, whose receive gets -ETIMEDOUT and the length. In plain
 *     mode, or if the device can't recall the payload, a send that has begun ends the connection
 *     with -ETIMEDOUT.
 *
 * Resolution: the interval between calls of leat_msg_events(). One call expires at most 256
 * requests.
 */
#define LEAT_MSG_F_DEADLINE 0x01
/**
 * In, of a send: the message is the concatenation of the pieces in @ref leat_msg_req.iov; buf and
 * mr are ignored, and size is set from the pieces. The pieces are copied, and need not be
 * registered. In leat mode a message longer than eager_max takes several sends, each of which uses
 * a credit. In plain mode a message longer than leat_msg_conf.eager_max bytes fails with -EMSGSIZE.
 */
#define LEAT_MSG_F_IOV 0x02
/**
 * In, of a send: as LEAT_MSG_F_IOV, but the pieces are the segments of the mbuf chain
 * @ref leat_msg_req.mbuf, which stays the caller's.
 */
#define LEAT_MSG_F_MBUF 0x04
/**
 * In, of a send in leat mode: the send is done only when a receive of the peer has the message; it
 * fails with -EMSGSIZE or -ETIMEDOUT if the peer dropped the message. Sends posted behind it travel
 * meanwhile, but come back only after it. In plain mode the send fails with -EOPNOTSUPP.
 */
#define LEAT_MSG_F_DELIVERED 0x08
/** @} */

/**
 * A message to be sent, or room for one to be received. Zero it first. It has 128 bytes. The
 * library touches only the first 64 if flags is 0 and the request is a send, or a receive into the
 * caller's buffer.
 */
struct leat_msg_req {
	/**
	 * in: the message, or the buffer for one; may be NULL when size is 0. A receive with
	 * size > 0 and no buffer gets one from the connection's alloc or mempool; its address is
	 * stored here, and the buffer is the caller's when the request is back, whatever the
	 * status. The request may be posted again unchanged: as long as buf still holds that
	 * address the receive asks for another buffer and never uses the old one, which is only as
	 * large as its message was. To receive into the old one, zero the request and set its real
	 * size.
	 */
	void *buf;
	uint64_t size;	    /**< in: bytes to send, or the longest message that may be received */
	struct leat_mr *mr; /**< in: region of buf; needed if leat_dev_info.mr_local and size > 0 */
	void *user;	    /**< the caller's; never touched */
	struct leat_msg_conn *conn; /**< out: connection on which the request was posted */
	uint64_t len;		    /**< out: length of the message, bytes */
	/**
	 * out: 0, or why the message was not sent or received:
	 *   - -ECANCELED: the request was cancelled, or the connection was closed here
	 *   - -ENOTCONN: the peer closed the connection
	 *   - -EMSGSIZE of a receive: the message is longer than the request's size, or than an
	 *     object of the mempool. len is the message's length; the message is dropped.
	 *   - -EMSGSIZE of a send: the message is longer than the device or the peer's max_size
	 *     allows; or it is a large message in leat mode, longer than the receive that it met,
	 *     and the peer has reported that
	 *   - -ENOBUFS: the connection has ended, and for LEAT_MSG_NOBUFS_US there was no buffer
	 *     for a message that had arrived. That message and those behind it are dropped.
	 *   - -ENODATA of a receive: the peer has called leat_msg_shutdown()
	 *   - -EINVAL: no buffer, or no mr; -EOPNOTSUPP: LEAT_MSG_F_DELIVERED in plain mode
	 *   - -ETIMEDOUT: the deadline of this request passed, or of the peer's request for the
	 *     same message
	 *   - -EPROTO: the peer broke the protocol; -ECONNRESET, -ETIMEDOUT and others as
	 *     leat_event.status
	 *
	 * The connection goes on after -EMSGSIZE, -EINVAL, -EOPNOTSUPP, -ENODATA, and a cancel's
	 * -ECANCELED; it may have ended after -ETIMEDOUT; it has ended after all others.
	 */
	int32_t status;
	uint8_t recv;		   /**< out: 0 for a send, 1 for a receive */
	uint8_t state;		   /**< private: 0 while the caller owns the request */
	uint8_t given : 1;	   /**< private: given_buf is set */
	uint8_t answer_waits : 1;  /**< private */
	uint8_t lost : 2;	   /**< private */
	uint8_t abandoned : 1;	   /**< private */
	uint8_t flags;		   /**< in: LEAT_MSG_F_* */
	struct leat_msg_req *next; /**< private */

	/* second cache line */
	/** private: the buffer that came from alloc or the mempool */
	void *given_buf __attribute__((aligned(LEAT_CACHE_LINE)));
	uint64_t deadline; /**< in: with LEAT_MSG_F_DEADLINE: absolute time, cycles of leat_now() */
	union {
		const struct iovec *iov; /**< in: with LEAT_MSG_F_IOV */
		struct rte_mbuf *mbuf;	 /**< in: with LEAT_MSG_F_MBUF */
	};
	uint32_t nb_iov; /**< in: number of pieces in iov */
	union {
		uint32_t answer_id;  /**< private */
		uint32_t parts_left; /**< private */
	};
	struct leat_msg_req *whole;   /**< private: request of which this one is a part */
	struct leat_wheel_node timer; /**< private */
};

/** Events of a connection; they come in this order. */
enum leat_msg_event_type {
	LEAT_MSG_UP = 0, /**< the connection is up, in a mode that its configuration allows */
	/**
	 * The peer has called leat_msg_shutdown(), all its messages were received, and
	 * leat_msg_poll() has given out their receives. Receives that are left, and those posted
	 * from now on, come back with -ENODATA. Sends go on.
	 */
	LEAT_MSG_SHUTDOWN,
	/**
	 * The connection ended, or never came up (then there was no LEAT_MSG_UP, and nothing was
	 * sent): leat_msg_poll() has given back all sends. Messages that arrived before can still
	 * be received; after them, receives come back with the event's status. Close the
	 * connection.
	 */
	LEAT_MSG_ENDED,
	/**
	 * leat_msg_close() is complete: all requests have come back, conn is no longer valid, and
	 * leat_msg_connect() and leat_msg_accept() may return the same pointer for a new connection
	 * (see leat_msg_events()).
	 */
	LEAT_MSG_CLOSED,
};

/** An event. */
struct leat_msg_event {
	enum leat_msg_event_type type; /**< what happened */
	struct leat_msg_conn *conn;    /**< its connection; CLOSED: no longer valid */
	void *user;		       /**< leat_msg_conn_conf.user */
	/**
	 * ENDED: 0: the peer closed cleanly; else why the connection ended: as leat_event.status,
	 * -EPROTO, -EMSGSIZE; -EPROTONOSUPPORT: the peer does not speak leat mode.
	 * CLOSED: 0; -ETIMEDOUT: the timeout of leat_msg_close() passed while sends were left, or
	 * before anything had come from the peer; others: why the connection had ended before.
	 */
	int status;
	/** text for people: peer, operation, cause; "closed by 10.0.0.1:7000" if status is 0 */
	char text[LEAT_EVENT_TEXT];
};

/** Counters of a context. */
struct leat_msg_stats {
	uint64_t sent;	       /**< messages whose send came back with 0 */
	uint64_t received;     /**< messages received */
	uint64_t sent_bytes;   /**< bytes of the messages in sent */
	uint64_t recv_bytes;   /**< bytes of the messages in received */
	uint64_t eager;	       /**< messages in sent that travelled in one send */
	uint64_t control;      /**< control messages sent */
	uint64_t stalled;      /**< times that a send had to wait for credit or a free slot */
	uint64_t refused;      /**< times that the endpoint had no room for an op */
	uint64_t ended_errors; /**< connections that this side ended after a failure on them */
	uint32_t credits;      /**< leat_msg_conf.credits, or the value chosen for 0 */
	uint32_t conns;	       /**< connections open now */
	/**
	 * messages that have arrived and wait for a receive, now; small messages that came in one
	 * send count as one
	 */
	uint32_t held;
	uint32_t held_max; /**< most that one connection ever held; never more than credits */
	uint64_t memory;   /**< bytes allocated by leat_msg_create(); never changes */
};

/** Counters of a connection. */
struct leat_msg_conn_stats {
	uint64_t sent;	     /**< sends that came back with 0 */
	uint64_t received;   /**< messages received */
	uint64_t sent_bytes; /**< bytes of the messages in sent */
	uint64_t recv_bytes; /**< bytes of the messages in received */
	uint64_t eager;	     /**< messages in sent that travelled in one send */
	uint64_t control;    /**< control messages sent */
	uint64_t stalled;    /**< times that a send had to wait for credit or a free slot */
	uint64_t refused;    /**< times that the endpoint had no room for an op */
	uint64_t dropped;    /**< messages that arrived and were dropped: -EMSGSIZE, -ETIMEDOUT */
	uint64_t expired;    /**< requests that came back because their deadline passed */
	uint32_t sends;	     /**< sends posted and not given back, now */
	uint32_t queued;     /**< how many of these sends wait for credit or a free slot to begin */
	uint32_t recvs;	     /**< receives posted and not given back, now */
	uint32_t credits;    /**< leat mode: messages that may be sent before credit arrives, now */
	uint32_t held;	     /**< as in struct leat_msg_stats, now */
	uint32_t held_max;   /**< maximum of held ever */
};

/**
 * Complete an endpoint's configuration for leat_ep_create(), so that it has room for a context.
 *
 * Adds TSEND and TRECV to ops, raises max_peers to the context's max_conns, and adds the context's
 * receives to rx_depth, in which the application puts its own receives, if any, before the call.
 * All other fields stay as they are. If conf.credits is 0 and the device has no room for
 * LEAT_MSG_CREDITS_DEFAULT, rx_depth has room for fewer.
 * @param dev the device of the endpoint
 * @param conf configuration that leat_msg_create() will get; NULL for the defaults
 * @param[in,out] ep_conf zeroed, or with the application's own values set
 * @return 0; else a negative errno, with leat_err_msg(), and ep_conf is unchanged:
 *   - -EINVAL: a value is out of range, or more than the device supports
 *   - others of leat_dev_info_for()
 */
LEAT_API int leat_msg_ep_conf(const struct leat_dev *dev, const struct leat_msg_conf *conf,
			      struct leat_ep_conf *ep_conf);

/**
 * Create a context on an endpoint. The endpoint must outlive the context.
 *
 * The endpoint may have several contexts, and ops of the application.
 * @param ep the endpoint
 * @param conf NULL for the defaults
 * @return the context, or NULL with rte_errno, and leat_err_msg() saying more:
 *   - EINVAL: a value is out of range, or the receive depth is too small
 *   - EOPNOTSUPP: the endpoint has no TSEND and TRECV (leat_ep_conf.ops)
 *   - ENOMEM, and others of leat_mr_register()
 */
LEAT_API struct leat_msg *leat_msg_create(struct leat_ep *ep, const struct leat_msg_conf *conf);

/**
 * Free a context.
 *
 * If the context is attached to a reactor (leat_msg_reactor.h) that has not run yet, has stopped,
 * or was destroyed, the call first closes all connections without draining them, which can take a
 * second. If that reactor is running or stopping, close the connections before.
 * Their requests are passed to the functions of leat_msg_reactor_conf, which can't open connections
 * any more: leat_msg_connect() fails with ESHUTDOWN.
 * @return 0 (also for NULL); -EBUSY: connections are open, leat_err_msg() counts them; or the
 *   device still uses the context's memory, see leat_mr_deregister(), and the call may be repeated
 */
LEAT_API int leat_msg_destroy(struct leat_msg *m);

/**
 * Begin to connect, as leat_ep_connect(). LEAT_MSG_UP or LEAT_MSG_ENDED follows.
 * @param m the context
 * @param addr address of the peer, as for leat_ep_connect()
 * @param conf NULL for the defaults
 * @return the connection, or NULL with rte_errno: ENOSPC (max_conns connections are open, or the
 *   endpoint has no free peer), EINVAL (a value of conf), and others of leat_ep_connect()
 */
LEAT_API struct leat_msg_conn *leat_msg_connect(struct leat_msg *m, const char *addr,
						const struct leat_msg_conn_conf *conf);

/**
 * Accept a connection.
 * @param m the context
 * @param ev the LEAT_EV_CONNECT_REQ
 * @param conf NULL for the defaults
 * @return the connection, or NULL with rte_errno: ENOSPC (max_conns connections are open), EINVAL
 *   (a value of conf), EPROTONOSUPPORT (conf.mode is LEAT_MSG_LEAT, and the peer does not speak
 *   it), ENOTCONN (the request is no longer open). After a failure the caller still has to
 *   reject the request.
 */
LEAT_API struct leat_msg_conn *leat_msg_accept(struct leat_msg *m, const struct leat_event *ev,
					       const struct leat_msg_conn_conf *conf);

/**
 * Reject a connection request, with a reason for the peer.
 *
 * The peer's LEAT_MSG_ENDED has -ECONNREFUSED and the text. The text does not arrive if the
 * connector asked for plain mode, or if the device can't accept now, for lack of memory or file
 * descriptors. Until the peer id is free again, leat_msg_handle_event() handles its events.
 * @param m the context
 * @param ev the LEAT_EV_CONNECT_REQ
 * @param why a short text, cut off at what the device can carry. NULL: none
 * @return as leat_ep_reject()
 */
LEAT_API int leat_msg_reject(struct leat_msg *m, const struct leat_event *ev, const char *why);

/**
 * Open a connection on a peer that the application itself has connected, or is connecting.
 *
 * The connection is in plain mode, since nothing was agreed on. From here on the context owns the
 * peer: leat_msg_close() disconnects it.
 * @return the connection, or NULL with rte_errno: ENOTCONN (the peer is not connected); EALREADY
 *   (the peer has a connection); ENOSPC (max_conns connections are open); EINVAL (a value of conf);
 *   EOPNOTSUPP (conf.mode is LEAT_MSG_LEAT; or the device can't restrict a receive to one
 *   peer, and plain tags don't tell peers apart)
 */
LEAT_API struct leat_msg_conn *leat_msg_open(struct leat_msg *m, uint16_t peer,
					     const struct leat_msg_conn_conf *conf);

/**
 * Find the application's private data in a LEAT_EV_CONNECT_REQ or LEAT_EV_CONNECTED, behind those
 * of this library.
 * @param ev a LEAT_EV_CONNECT_REQ or LEAT_EV_CONNECTED
 * @param[out] len length of the private data, bytes
 * @return the private data, inside of ev
 */
LEAT_API const void *leat_msg_priv(const struct leat_event *ev, uint16_t *len);

/**
 * Send messages, in the order of reqs.
 *
 * In leat mode small messages that are posted one by one wait to travel together. They leave when
 * the application has posted one for each message that it got from the connection in this turn, or
 * when the turn ends. A turn ends when leat_msg_poll() finds nothing done, or by leat_msg_flush(),
 * and at the latest in the second leat_msg_poll() after the application has taken all requests that
 * were done. In a conversation of one message at a time each leaves at once (doc/guide/msg.md,
 * "Together"). Messages posted in one call leave at once, and waiting messages leave before them.
 *
 * Only eager messages are copied; other buffers are the device's until the request is back. A send
 * that is done frees its buffer; it does not mean that the peer has the message.
 * @return how many were accepted; fewer than n, with rte_errno: EALREADY (reqs[ret] is posted
 *   already), ESHUTDOWN (leat_msg_close() was called, or leat_msg_shutdown()). A request with
 *   wrong values is accepted, and fails with a status that says why.
 */
LEAT_API uint16_t leat_msg_send(struct leat_msg_conn *c, struct leat_msg_req **reqs, uint16_t n);

/**
 * End a turn: send the messages that wait to travel together, see leat_msg_send().
 *
 * Call it before the application does something that takes time.
 */
LEAT_API void leat_msg_flush(struct leat_msg *m);

/**
 * Receive messages, into the requests in the order of reqs. A buffer is the device's until its
 * request is back.
 * @return as leat_msg_send()
 */
LEAT_API uint16_t leat_msg_recv(struct leat_msg_conn *c, struct leat_msg_req **reqs, uint16_t n);

/**
 * Send one message to several connections of a context, in any mix of modes.
 * @param conns the connections
 * @param n number of connections, > 0
 * @param req the message. It comes back once, when all connections are done with it: with status 0,
 *   or the first failure, and conn NULL. leat_msg_cancel() can't cancel it.
 * @param parts n requests, one for each connection, zeroed before the first use. The caller must
 *   not touch them until req is back; then each has the status of its connection.
 * @return how many connections accepted the message; -EALREADY (req or a part is posted), -EINVAL
 *   (n is 0, or the connections belong to several contexts). If fewer than n accepted it, req still
 *   comes back, with the first failure.
 */
LEAT_API int leat_msg_send_many(struct leat_msg_conn **conns, uint16_t n, struct leat_msg_req *req,
				struct leat_msg_req *parts);

/**
 * Half-close a connection: send nothing more, but go on receiving.
 *
 * Sends that were posted go out; the peer gets LEAT_MSG_SHUTDOWN behind the last message. Both
 * sides still have to close the connection.
 * @return 0; -EALREADY (called before, or closing); -ENOTCONN (not up); -EOPNOTSUPP (plain mode)
 */
LEAT_API int leat_msg_shutdown(struct leat_msg_conn *c);

/**
 * Cancel a request. leat_msg_poll() gives it back with -ECANCELED; in plain mode a receive whose
 * message is faster than the cancel comes back with the message. Unlike a deadline, a cancel never
 * drops a message or ends a connection.
 * @return
 *   - 0: the request is cancelled, and will come back
 *   - -ENOENT: the request is not posted, or is done
 *   - -EOPNOTSUPP: its message is under way; the request goes on, until it is done, its deadline
 *     passes, or the connection ends
 */
LEAT_API int leat_msg_cancel(struct leat_msg_req *req);

/**
 * Process the context's own ops among those that leat_ep_poll() returned, and remove them from the
 * array. All ops that leat_ep_poll() returns must pass through here.
 * @param m the context
 * @param ops ops of leat_ep_poll(); the application's are moved to the front, in their order
 * @param n number of ops
 * @return how many are the application's
 */
LEAT_API uint16_t leat_msg_process(struct leat_msg *m, struct leat_op **ops, uint16_t n);

/**
 * Get the requests that are done, and resume connections that waited for room in the endpoint or
 * for a buffer.
 * @param m the context
 * @param[out] reqs room for n. Requests of one direction of a connection come in the order of
 *   posting.
 * @param n room at reqs, in requests
 * @return number of requests; they belong to the caller again
 */
LEAT_API uint16_t leat_msg_poll(struct leat_msg *m, struct leat_msg_req **reqs, uint16_t n);

/**
 * Handle an event of the endpoint. Every event of the endpoint must pass through here.
 * @return true: the event was about a connection of this context, and needs nothing more; false:
 *   the event is the application's, as every LEAT_EV_CONNECT_REQ and LEAT_EV_SHUTDOWN is
 */
LEAT_API bool leat_msg_handle_event(struct leat_msg *m, const struct leat_event *ev);

/**
 * Get events of connections, and drive closing, deadlines and liveness checks. Call it after each
 * round of leat_ep_events(), every millisecond or so.
 *
 * A connection is no longer valid when this call has written its LEAT_MSG_CLOSED to ev. If handling
 * one event may open a connection, the new connection may have the pointer of one whose
 * LEAT_MSG_CLOSED stands further behind in ev. Such an application passes n 1, or tells
 * connections apart by user. Attached to a reactor (leat_msg_reactor.h), a context passes each
 * event to the application before it takes the next.
 * @param m the context
 * @param[out] ev room for n
 * @param n room at ev, in events
 * @return number of events
 */
LEAT_API uint16_t leat_msg_events(struct leat_msg *m, struct leat_msg_event *ev, uint16_t n);

/**
 * Begin to close a connection.
 *
 * Nothing more can be posted. Sends that were posted go on until the timeout, then the peer is
 * disconnected. Receives that got no message until then come back with -ECANCELED. LEAT_MSG_CLOSED
 * follows after the last request. In leat mode the peer can still receive all that was sent (a peer
 * from which nothing has come yet is pinged first, within the timeout, to see that it listens). In
 * plain mode the disconnect may lose messages for which the peer has not posted receives by then:
 * let the receiving side close first.
 * @param c the connection
 * @param timeout_us time for the posted sends to go out, microseconds; 0: don't wait for them
 * @return 0; -EALREADY: it is closing
 */
LEAT_API int leat_msg_close(struct leat_msg_conn *c, uint64_t timeout_us);

/** Return the mode of a connection: LEAT_MSG_AUTO until it is up. */
LEAT_API enum leat_msg_mode leat_msg_conn_mode(const struct leat_msg_conn *c);

/** Return the peer id of a connection; LEAT_PEER_ANY when it has ended. */
LEAT_API uint16_t leat_msg_conn_peer(const struct leat_msg_conn *c);

/** Return the user pointer of a connection. */
LEAT_API void *leat_msg_conn_user(const struct leat_msg_conn *c);

/**
 * Copy the counters of a connection. The cost grows with the number of posted requests, so keep it
 * out of fast paths.
 */
LEAT_API void leat_msg_conn_stats_get(const struct leat_msg_conn *c,
				      struct leat_msg_conn_stats *stats);

/** Copy the counters of a context: the sums over all its connections, closed ones included. */
LEAT_API void leat_msg_stats_get(const struct leat_msg *m, struct leat_msg_stats *stats);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_MSG_H */
