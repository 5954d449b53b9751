/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_MSG_H
#define LEAT_MSG_H

/**
 * @file
 * Ordered messages of any size, over a reliable endpoint with tagged ops.
 *
 *     leat_msg_ep_conf(dev, NULL, &conf);                room for all connections' receives
 *     ep = leat_ep_create(dev, &conf);
 *     m = leat_msg_create(ep, NULL);
 *     c = leat_msg_connect(m, "10.0.0.1:7000", NULL);    or leat_msg_accept()
 *     leat_msg_send(c, reqs, n); leat_msg_recv(c, reqs, n);
 *     loop:
 *         n = leat_ep_poll(ep, ops, 32);
 *         if (n > 0)
 *             n = leat_msg_process(m, ops, n);  takes its own ops, leaves the application's
 *         k = leat_msg_poll(m, done, 32);       requests that are done
 *         every ms or so:
 *             n = leat_ep_events(ep, ev, 8);
 *             each: leat_msg_handle_event(m, &ev[i]);
 *             n = leat_msg_events(m, mev, 8);   connections that came up, ended, are closed
 *     leat_msg_close(c, 1000000); ... LEAT_MSG_CLOSED; leat_msg_destroy(m);
 *
 * A request (struct leat_msg_req) is the caller's object, posted and given back like an op. The sends of
 * a connection are done in the order in which they were posted, and so are its receives, whatever the
 * device does. Each request that was accepted comes back from leat_msg_poll() exactly once, never inside the call
 * that posted it. It may be posted before the connection stands.
 *
 * There are two formats on the wire (doc/guide/msg.md has every byte):
 *
 * - *plain*: a length and a payload, two tagged sends; the format of DESIGN.md, which a program that
 *   knows only libfabric speaks as well. No flow control but the device's.
 * - *leat*: agreed on by two leat endpoints when they connect. Small messages in one send, several of them if several
 *   wait; credits; large ones into receives that are already posted; tags that no other connection has.
 *
 * All memory is allocated and registered by leat_msg_create(): opening, sending and receiving allocate
 * nothing, whatever the other side announces.
 *
 * Thread rules: everything of a context on the thread of its endpoint; no locks.
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

/** Most sends in flight per connection and direction (leat_msg_conf.credits). */
#define LEAT_MSG_CREDITS_MAX 256
/** How many there are if none are asked for and the receive depth allows it. */
#define LEAT_MSG_CREDITS_DEFAULT 64
/** Longest message that may travel in one send with its length, bytes. */
#define LEAT_MSG_EAGER_MAX 65536
/** Bytes that leat mode needs of the data that travel with connect and accept; the rest is the application's. */
#define LEAT_MSG_HELLO_LEN 32
/** So long a peer has time to answer that it is there, microseconds. */
#define LEAT_MSG_ANSWER_US 5000000
/** So long a receive waits for a buffer after its connection has ended, microseconds. */
#define LEAT_MSG_NOBUFS_US 500000
/** Longest private data of an application, bytes. */
#define LEAT_MSG_PRIV_MAX (LEAT_EP_PRIV_MAX - LEAT_MSG_HELLO_LEN)

/** Format on the wire. */
enum leat_msg_mode {
	/** asked for: leat if the other side speaks it, else plain, with a line in the log */
	LEAT_MSG_AUTO = 0,
	LEAT_MSG_PLAIN, /**< length and payload in two sends */
	LEAT_MSG_LEAT,	/**< eager, credits; asked for: nothing else */
};

/** What a context is to be like. Zeroed means all defaults. */
struct leat_msg_conf {
	uint16_t max_conns; /**< connections at a time, at most leat_ep_conf.max_peers; 0: that */
	/**
	 * Messages in flight per connection and direction; small ones that travel together in leat
	 * mode count as one. A power of two, 2 to LEAT_MSG_CREDITS_MAX; 0:
	 * LEAT_MSG_CREDITS_DEFAULT, or what the receive depth has room for, which the log then
	 * tells. In plain mode at most 8 are received at a time; in leat mode more than 64 are
	 * as soon as the other side has to wait for them. The endpoint must have room for
	 * max_conns * (2 * credits + 2) receives: leat_msg_ep_conf() asks for it.
	 */
	uint16_t credits;
	/**
	 * Leat mode: messages of up to so many bytes are copied and travel in one send, and together as many as
	 * there is room for; 1 to LEAT_MSG_EAGER_MAX; 0: 2032. The smaller value of the two sides holds.
	 */
	uint32_t eager_max;
};

/**
 * Give memory for a message that is arriving, of exactly len > 0 bytes (at most the request's
 * size).
 * @param[out] mr region that holds it; where leat_dev_info.mr_local
 * @return the buffer, which is the application's from here on; NULL: none now, it is asked for
 *   again by the next leat_msg_process() or leat_msg_poll(). When the connection has ended that
 *   goes on for LEAT_MSG_NOBUFS_US only.
 */
typedef void *(*leat_msg_alloc_fn)(void *arg, uint64_t len, struct leat_mr **mr);

/** What a connection is to be like. Zeroed means all defaults. */
struct leat_msg_conn_conf {
	enum leat_msg_mode mode;
	/**
	 * Plain mode: receive lengths of any id (ignore 0xffffffff) instead of exactly the next ones. See
	 * doc/guide/msg.md for why the default is the safe one.
	 */
	bool any_id;
	/**
	 * Longest message taken, bytes; 0: leat_dev_info.max_msg. A sender in leat mode knows it,
	 * and its own call fails; an announcement of more ends the connection with -EMSGSIZE.
	 */
	uint64_t max_size;
	leat_msg_alloc_fn alloc; /**< for receives without a buffer; NULL: mempool */
	void *alloc_arg;
	/**
	 * For receives without a buffer: one object per message, which must fit into it. While it
	 * is empty messages wait, and with them their senders. Connections may share one: what is
	 * posted on one that has ended comes back although it is empty.
	 */
	struct rte_mempool *mempool;
	const void *priv;    /**< sent to the other side when connecting, copied */
	uint16_t priv_len;   /**< at most LEAT_MSG_PRIV_MAX, and what the device can send */
	uint64_t timeout_us; /**< leat_msg_connect(): as in struct leat_conn_params */
	/**
	 * Leat mode: after so long (up to a quarter more) without anything from the peer it is
	 * asked whether it is there, microseconds; 0: it is never asked, and silence is no reason
	 * to end. The peer answers when it calls leat_msg_process(), whatever it is busy with. Not
	 * in plain mode, which has no word for it.
	 */
	uint64_t idle_us;
	/**
	 * After so long without anything behind the question the connection ends with -ETIMEDOUT,
	 * microseconds; 0: LEAT_MSG_ANSWER_US. More than the longest message takes on the way,
	 * behind which an answer may have to wait, and more than the peer's loop may take.
	 */
	uint64_t answer_us;
	void *user; /**< comes back in the events of this connection */
	/** For tests: id of the first message and of the first control message, both directions. */
	uint32_t first_id;
};

/**
 * @name Flags of a request
 * @{
 */
/**
 * In: @ref leat_msg_req.deadline is set. When it passes the request comes back with -ETIMEDOUT, in
 * its turn: give one to those before it, too. Its buffer is the caller's then, and:
 *   - a receive that had no message leaves the next one to the receive behind it. If one had begun
 *     to arrive it is dropped, and len is its length. The connection goes on, unless the device
 *     can't take the buffer back from a payload that is arriving.
 *   - a send that had not begun sends nothing. A small one that had may still arrive; a large one
 *     is dropped over there, where its receive gets -ETIMEDOUT and its length. In plain mode, and
 *     when the device can't take the payload back, the connection ends with -ETIMEDOUT.
 *
 * Resolution: the interval between calls of leat_msg_events(), which ends at most 256 at a time.
 */
#define LEAT_MSG_F_DEADLINE 0x01
/**
 * In, of a send: the message is what @ref leat_msg_req.iov points to, one piece behind the other;
 * buf and mr are not looked at, and size is set. The pieces are copied, and need not be registered:
 * small messages as always, longer ones in leat mode in several sends, each of which uses a
 * credit. In plain mode up to leat_msg_conf.eager_max bytes, or -EMSGSIZE.
 */
#define LEAT_MSG_F_IOV 0x02
/** In, of a send: likewise the chain @ref leat_msg_req.mbuf, which stays the caller's. */
#define LEAT_MSG_F_MBUF 0x04
/**
 * In, of a send in leat mode: it is done when a receive at the other side has the message; or with
 * -EMSGSIZE or -ETIMEDOUT if that dropped it. Those behind it wait for their turn to come back, and
 * travel meanwhile. Plain mode: -EOPNOTSUPP.
 */
#define LEAT_MSG_F_DELIVERED 0x08
/** @} */

/**
 * A message to be sent, or room for one to be received. Zero it first. 128 bytes, of which a plain
 * send or receive into the caller's buffer touches the first 64.
 */
struct leat_msg_req {
	/**
	 * in: the message, or the buffer for one; may be NULL when size is 0. A receive with
	 * size > 0 and without a buffer gets one from the connection's alloc or mempool; it is
	 * stored here and is the caller's when the request is back, whatever the status. Such a
	 * request may be posted again as it is: while the buffer that it was given still stands
	 * here it asks for another one, and never receives into that one, which is only as large
	 * as its message was. To receive into it zero the request, and say its real size.
	 */
	void *buf;
	uint64_t size; /**< in: bytes to send, or the longest message that may be received */
	struct leat_mr
		*mr; /**< in: region that holds buf; where leat_dev_info.mr_local and size > 0 */
	void *user;  /**< the caller's; never touched */
	struct leat_msg_conn *conn; /**< out: connection it was posted on */
	uint64_t len;		    /**< out: bytes of the message */
	/**
	 * out: 0, or why there was no message:
	 * -ECANCELED cancelled, or the connection was closed here; -ENOTCONN the other side closed;
	 * -EMSGSIZE of a receive: the message is longer than its size, or than an object of the
	 * mempool; len tells how long, the message is dropped, and the connection goes on. Of a
	 * send: longer than the device or the other side's max_size allows, or, where that is told
	 * (a large message in leat mode), than the receive that it met;
	 * -ENOBUFS the connection has ended, and for LEAT_MSG_NOBUFS_US there was no buffer for a
	 * message that had arrived (it is dropped, and those behind it);
	 * -ENODATA of a receive: the other side has called leat_msg_shutdown();
	 * -EINVAL no buffer, or no mr; -EOPNOTSUPP plain mode, and LEAT_MSG_F_DELIVERED;
	 * -EPROTO the other side broke the protocol; -ECONNRESET, -ETIMEDOUT and others as
	 * leat_event.status. -ETIMEDOUT its deadline passed, or that of the request that it met at
	 * the other side. All but -EMSGSIZE, -EINVAL, -EOPNOTSUPP, -ENODATA, -ETIMEDOUT, and
	 * -ECANCELED after a cancel, mean that the connection has ended; after -ETIMEDOUT it may
	 * have.
	 */
	int32_t status;
	uint8_t recv;		   /**< out: 0 it was a send, 1 a receive */
	uint8_t state;		   /**< private: 0 while it is the caller's */
	uint8_t given : 1;	   /**< private: given_buf is set */
	uint8_t answer_waits : 1;  /**< private */
	uint8_t lost : 2;	   /**< private */
	uint8_t abandoned : 1;	   /**< private */
	uint8_t flags;		   /**< in: LEAT_MSG_F_* */
	struct leat_msg_req *next; /**< private */

	/* second cache line */
	/** private: the buffer that came from alloc or the mempool */
	void *given_buf __attribute__((aligned(LEAT_CACHE_LINE)));
	uint64_t deadline; /**< in: with LEAT_MSG_F_DEADLINE: absolute, cycles of leat_now() */
	union {
		const struct iovec *iov; /**< in: with LEAT_MSG_F_IOV */
		struct rte_mbuf *mbuf;	 /**< in: with LEAT_MSG_F_MBUF */
	};
	uint32_t nb_iov; /**< in: pieces of iov */
	union {
		uint32_t answer_id;  /**< private */
		uint32_t parts_left; /**< private */
	};
	struct leat_msg_req *whole;   /**< private: of which it is a part */
	struct leat_wheel_node timer; /**< private */
};

/** Events of a connection, in this order. */
enum leat_msg_event_type {
	LEAT_MSG_UP = 0, /**< it stands, in a format that was asked for */
	/**
	 * The other side has called leat_msg_shutdown(), all its messages were received, and
	 * leat_msg_poll() has given out their receives. Others come back with -ENODATA, also those
	 * that are posted from now on. Sends go on.
	 */
	LEAT_MSG_SHUTDOWN,
	/**
	 * It ended, or never came up (then there was no LEAT_MSG_UP, and nothing was sent):
	 * leat_msg_poll() has given back all sends. Messages that arrived before can still be
	 * received; then receives come back with status. Close it.
	 */
	LEAT_MSG_ENDED,
	/** leat_msg_close() is through: all requests have come back, the pointer is no longer valid. */
	LEAT_MSG_CLOSED,
};

/** An event. */
struct leat_msg_event {
	enum leat_msg_event_type type;
	struct leat_msg_conn *conn;
	void *user; /**< leat_msg_conn_conf.user */
	/**
	 * ENDED: 0 closed in order by the other side, or why it ended: as leat_event.status, -EPROTO, -EMSGSIZE;
	 * -EPROTONOSUPPORT it does not speak leat mode.
	 * CLOSED: 0, or -ETIMEDOUT: sends were left when the time was up, or the other side had not
	 * said anything yet (leat_msg_close()); or why it had ended.
	 */
	int status;
	/** for people: peer, operation, cause; "closed by 10.0.0.1:7000" with status 0 */
	char text[LEAT_EVENT_TEXT];
};

/** Counters of a context. */
struct leat_msg_stats {
	uint64_t sent;	       /**< messages whose send came back with 0 */
	uint64_t received;     /**< messages received */
	uint64_t sent_bytes;   /**< their bytes */
	uint64_t recv_bytes;   /**< likewise */
	uint64_t eager;	       /**< of those sent, in one send */
	uint64_t control;      /**< control messages sent */
	uint64_t stalled;      /**< times that a send had to wait for credit or a free place */
	uint64_t refused;      /**< times that the endpoint had no room for an op */
	uint64_t ended_errors; /**< connections ended because of what the other side did */
	uint32_t credits;      /**< leat_msg_conf.credits, as it was decided */
	uint32_t conns;	       /**< open now */
	/** messages that have arrived and wait for a receive, now; what travelled together counts as one */
	uint32_t held;
	uint32_t held_max; /**< the most of one connection ever; never more than credits */
	uint64_t memory;   /**< bytes allocated by leat_msg_create(); it never changes */
};

/** Counters of a connection. */
struct leat_msg_conn_stats {
	uint64_t sent;	     /**< sends that came back with 0 */
	uint64_t received;   /**< messages received */
	uint64_t sent_bytes; /**< their bytes */
	uint64_t recv_bytes; /**< likewise */
	uint64_t eager;	     /**< of those sent, in one send */
	uint64_t control;    /**< control messages sent */
	uint64_t stalled;    /**< times that a send had to wait for credit or a free place */
	uint64_t refused;    /**< times that the endpoint had no room for an op */
	uint64_t dropped;    /**< messages that came and were dropped: -EMSGSIZE, -ETIMEDOUT */
	uint64_t expired;    /**< requests that came back since their deadline passed */
	uint32_t sends;	     /**< posted and not given back, now */
	uint32_t queued;     /**< of those: not begun, since they wait for credit or a free place */
	uint32_t recvs;	     /**< likewise posted, now */
	uint32_t credits;    /**< leat mode: messages that may be sent before credit arrives, now */
	uint32_t held;	     /**< as in struct leat_msg_stats, now */
	uint32_t held_max;   /**< the most ever */
};

/**
 * Ask for an endpoint that has room for a context: complete what leat_ep_create() is to get.
 *
 * It adds TSEND and TRECV to ops, raises max_peers to the context's max_conns, and adds the
 * context's receives to rx_depth, which has the application's own before, if any. All else stays
 * as it is. With credits 0 it asks for fewer than LEAT_MSG_CREDITS_DEFAULT where the device has no
 * room for them.
 * @param conf what leat_msg_create() will get, NULL for the defaults
 * @param[in,out] ep_conf zeroed, or with what the application needs itself
 * @return 0; with leat_err_msg(), and ep_conf as it was:
 *   - -EINVAL: a value out of range, or more than the device has
 *   - others of leat_dev_info_for()
 */
LEAT_API int leat_msg_ep_conf(const struct leat_dev *dev, const struct leat_msg_conf *conf,
			      struct leat_ep_conf *ep_conf);

/**
 * Create a context on an endpoint, which must outlive it. The endpoint may have several, and ops of
 * the application.
 * @param conf NULL for the defaults
 * @return it, or NULL with rte_errno, and leat_err_msg() saying more:
 *   - EINVAL: a value out of range, or the receive depth is too small
 *   - EOPNOTSUPP: the endpoint has no TSEND and TRECV (leat_ep_conf.ops)
 *   - ENOMEM, and others of leat_mr_register()
 */
LEAT_API struct leat_msg *leat_msg_create(struct leat_ep *ep, const struct leat_msg_conf *conf);

/**
 * Free a context. One that was put below a reactor (leat_msg_reactor.h) which has stopped, or was
 * destroyed, closes its connections first, without draining: requests that come back by that go to
 * its functions. It may take a second then.
 * @return 0 (also for NULL); -EBUSY: connections are open, leat_err_msg() counts them
 */
LEAT_API int leat_msg_destroy(struct leat_msg *m);

/**
 * Begin to connect, as leat_ep_connect(). Then LEAT_MSG_UP or LEAT_MSG_ENDED.
 * @param conf NULL for the defaults
 * @return the connection, or NULL with rte_errno: ENOSPC (max_conns, or the endpoint's peers), EINVAL, and others of
 *   leat_ep_connect()
 */
LEAT_API struct leat_msg_conn *leat_msg_connect(struct leat_msg *m, const char *addr,
						const struct leat_msg_conn_conf *conf);

/**
 * Accept a connection.
 * @param ev the LEAT_EV_CONNECT_REQ
 * @return the connection, or NULL with rte_errno (the request is still to be rejected): ENOSPC, EINVAL, ENOTCONN;
 *   EPROTONOSUPPORT: LEAT_MSG_LEAT, and the other side does not speak it
 */
LEAT_API struct leat_msg_conn *leat_msg_accept(struct leat_msg *m, const struct leat_event *ev,
					       const struct leat_msg_conn_conf *conf);

/**
 * Reject a request, with a reason that the other side sees: its LEAT_MSG_ENDED has -ECONNREFUSED
 * and the text. A connector that asked for plain mode is rejected without. Events of the peer id
 * still come until it is free again; leat_msg_event() takes them.
 * @param ev the LEAT_EV_CONNECT_REQ
 * @param why a short text; what the device can't carry is cut off. NULL: none
 * @return as leat_ep_reject(), leat_ep_accept()
 */
LEAT_API int leat_msg_reject(struct leat_msg *m, const struct leat_event *ev, const char *why);

/**
 * Open a connection on a peer to which the application has connected, or is connecting, by itself:
 * in plain mode, since nothing was agreed on. From here on the peer is the context's:
 * leat_msg_close() disconnects it.
 * @return the connection, or NULL with rte_errno: ENOTCONN; EALREADY (has one); ENOSPC; EINVAL; EOPNOTSUPP (the
 *   device can't receive from one peer only, and plain tags don't tell peers apart)
 */
LEAT_API struct leat_msg_conn *leat_msg_open(struct leat_msg *m, uint16_t peer,
					     const struct leat_msg_conn_conf *conf);

/**
 * The application's private data in a LEAT_EV_CONNECT_REQ or LEAT_EV_CONNECTED, without what this library put before
 * them. @param[out] len their bytes @return them, inside of ev
 */
LEAT_API const void *leat_msg_priv(const struct leat_event *ev, uint16_t *len);

/**
 * Send messages, in this order.
 *
 * In leat mode small ones that are posted one by one travel together: as soon as there is one for
 * each message of the connection that the application got in this turn, or when the turn ends. It
 * ends when leat_msg_poll() finds nothing done, by leat_msg_flush(), and never later than in the
 * second leat_msg_poll() that the application makes with all that is done taken. The only one of a
 * conversation goes at once (doc/guide/msg.md, "Together"). What is posted in one call goes at
 * once, and what waits goes before it.
 *
 * Only eager messages are copied; buffers are the device's until
 * the request is back. Done means that the buffer may be used again, not that the other side has
 * the message.
 * @return how many were accepted; fewer than n, with rte_errno: EALREADY (reqs[ret] is posted already), ESHUTDOWN
 *   (leat_msg_close() was called, or leat_msg_shutdown()). What is wrong with one is told by its
 *   status.
 */
LEAT_API uint16_t leat_msg_send(struct leat_msg_conn *c, struct leat_msg_req **reqs, uint16_t n);

/**
 * End a turn: what was posted and waits to travel together goes now, see leat_msg_send(). It is
 * worth a call before the application does something that takes time.
 */
LEAT_API void leat_msg_flush(struct leat_msg *m);

/**
 * Receive messages, into these in this order. A buffer is the device's until the request is back.
 * @return as leat_msg_send()
 */
LEAT_API uint16_t leat_msg_recv(struct leat_msg_conn *c, struct leat_msg_req **reqs, uint16_t n);

/**
 * Send one message to several connections of a context, of any formats.
 * @param req the message. It comes back once, when all connections are done with it: with status 0,
 *   or the first failure, and conn NULL. leat_msg_cancel() does not take it back.
 * @param parts one request for each connection, zeroed the first time, and not to be touched until
 *   req is back; then each has the status of its connection
 * @return how many connections took it; -EALREADY (req or a part is posted), -EINVAL (none, or of
 *   several contexts). If it was taken by fewer than all req has the failure, and comes back.
 */
LEAT_API int leat_msg_send_many(struct leat_msg_conn **conns, uint16_t n, struct leat_msg_req *req,
				struct leat_msg_req *parts);

/**
 * Half-close: nothing more is sent on a connection, which goes on to receive. What was posted goes
 * out; the other side gets LEAT_MSG_SHUTDOWN behind the last message. It is to be closed by both
 * sides as ever.
 * @return 0; -EALREADY (called before, or closing); -ENOTCONN (not up); -EOPNOTSUPP (plain mode)
 */
LEAT_API int leat_msg_shutdown(struct leat_msg_conn *c);

/**
 * Cancel a request. It comes from leat_msg_poll() with -ECANCELED; in plain mode a receive may come
 * with its message instead, if that was faster.
 * @return
 *   - 0: it will
 *   - -ENOENT: it is not posted, or done
 *   - -EOPNOTSUPP: its message is under way; it ends by itself, by its deadline, or with the
 *     connection. A cancel never costs a message or a connection, as deadlines may.
 */
LEAT_API int leat_msg_cancel(struct leat_msg_req *req);

/**
 * Take the context's own ops out of what leat_ep_poll() returned. They must all pass through here.
 * @param ops what is the application's is moved to the front, in its order
 * @return how many are the application's
 */
LEAT_API uint16_t leat_msg_process(struct leat_msg *m, struct leat_op **ops, uint16_t n);

/**
 * Take requests that are done, and go on with what found no room before.
 * @param[out] reqs room for n. Those of a direction of a connection come in the order of posting.
 * @return number of requests; they belong to the caller again
 */
LEAT_API uint16_t leat_msg_poll(struct leat_msg *m, struct leat_msg_req **reqs, uint16_t n);

/**
 * Every event of the endpoint goes through here.
 * @return true: it was about a connection of this context (peer and connection are looked after);
 *   false: it is the application's, as each CONNECT_REQ and the SHUTDOWN are
 */
LEAT_API bool leat_msg_handle_event(struct leat_msg *m, const struct leat_event *ev);

/**
 * Take events of connections, and drive closing, deadlines and liveness. After each round of
 * leat_ep_events(), every millisecond or so.
 * @param[out] ev room for n
 * @return number of events
 */
LEAT_API uint16_t leat_msg_events(struct leat_msg *m, struct leat_msg_event *ev, uint16_t n);

/**
 * Begin to close: nothing more can be posted; sends that were posted go on until the timeout, then
 * the peer is disconnected. Receives that got no message until then come back with -ECANCELED.
 * LEAT_MSG_CLOSED follows, after the last request came back. In leat mode the other side can still
 * receive all that was sent (one from which nothing has come yet is asked first whether it listens,
 * within the timeout); in plain mode what it has no receives for when the disconnect comes
 * may be lost, so let it close.
 * @param timeout_us 0: don't drain
 * @return 0; -EALREADY: it is closing
 */
LEAT_API int leat_msg_close(struct leat_msg_conn *c, uint64_t timeout_us);

/** Format of a connection: AUTO until it stands. */
LEAT_API enum leat_msg_mode leat_msg_conn_mode(const struct leat_msg_conn *c);

/** Peer id of a connection; LEAT_PEER_ANY when it has ended. */
LEAT_API uint16_t leat_msg_conn_peer(const struct leat_msg_conn *c);

/** User pointer of a connection. */
LEAT_API void *leat_msg_conn_user(const struct leat_msg_conn *c);

/**
 * Copy the counters of a connection. It walks over the requests that are posted: nothing for a fast
 * path.
 */
LEAT_API void leat_msg_conn_stats_get(const struct leat_msg_conn *c,
				      struct leat_msg_conn_stats *stats);

/** Copy the counters, which are those of all connections that there are and were. */
LEAT_API void leat_msg_stats_get(const struct leat_msg *m, struct leat_msg_stats *stats);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_MSG_H */
