/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_RPC_H
#define LEAT_RPC_H

/**
 * @file
 * Remote calls: requests and their responses, small, in bursts, many at a time. On three levels,
 * each of what the one below offers; this header has them all.
 *
 * Requests, in a loop of the application's own, without tasks:
 *
 *     rpc = leat_rpc_create(ep, NULL);
 *     leat_rpc_handler_set(rpc, 7, lookup, app, 0);
 *     s = leat_rpc_connect(rpc, "10.0.0.1:7000", NULL);    or leat_rpc_accept()
 *     leat_rpc_post(reqs, n);
 *     loop:
 *         n = leat_ep_poll(ep, ops, 32);
 *         n = leat_rpc_process(rpc, ops, n);    runs handlers; leaves the application's ops
 *         k = leat_rpc_poll(rpc, done, 32);     requests that are done
 *         every ms or so:
 *             n = leat_ep_events(ep, ev, 8);
 *             each: a CONNECT_REQ to leat_rpc_accept(rpc, &ev[i], NULL), others to
 *                 leat_rpc_handle_event(rpc, &ev[i]);
 *             n = leat_rpc_events(rpc, rev, 8); sessions that came up, ended, are closed
 *
 * Batches of tasks, below a reactor that does this loop, and calls of one line: leat_rpc_task.h,
 * which is included at the end.
 *
 *     leat_rpc_reactor_add(r, rpc, NULL);
 *     ...in a task:
 *     key = leat_rpc_batch_start(batch, s, LOOKUP, sizeof(*key), sizeof(*value));    16 of these
 *     ret = leat_rpc_batch_send(batch);         sleeps until all responses are in
 *     ret = leat_rpc_call(s, LOOKUP, &key, sizeof(key), &value, sizeof(value), 0);
 *
 * A request (struct leat_rpc_req) is the caller's object, posted and given back like an op: each
 * one that was accepted comes back from leat_rpc_poll() exactly once, with a status, never inside
 * of the call that posted it. A session is one connection; both its sides may call. Requests of a
 * session are begun in their order and may be answered in any. On reliable endpoints each is
 * handled once; on datagram endpoints at most once, whatever the network does.
 *
 * What arrives lands in memory of the library, and is copied to leat_rpc_req.resp by the thread
 * that polls. So a request that is cancelled, or late, comes back at once, and from then on nothing
 * writes its buffer; what its peer answers later is dropped, and never taken for the answer of
 * another request. (Memory whose key the peer was given is another matter: leat_rpc_cancel().)
 *
 * All memory is allocated by leat_rpc_create(), but for about 700 B of a session that connects
 * again by itself, by leat_rpc_connect(); nothing that peers do makes it more.
 *
 * Thread rules: everything on the thread of the endpoint; no locks.
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

/** Types of requests, and so handlers. */
#define LEAT_RPC_TYPES 256
/** Bytes that a session needs of the data that travel with connect and accept; the rest is the
 * application's. */
#define LEAT_RPC_HELLO_LEN 44
/** Longest private data of an application, bytes. */
#define LEAT_RPC_PRIV_MAX (LEAT_EP_PRIV_MAX - LEAT_RPC_HELLO_LEN)
/** Deadlines: none. */
#define LEAT_RPC_NO_DEADLINE UINT64_MAX
/** Longest time of leat_rpc_session_conf.reconnect_*, microseconds: a day. */
#define LEAT_RPC_RECONNECT_US_MAX UINT64_C(86400000000)

/** What a context is to be like. Zeroed means all defaults. */
struct leat_rpc_conf {
	/** Sessions at a time; less than leat_ep_conf.max_peers, so that more of them can be
	 * refused with a reason. 0: max_peers - 1 */
	uint32_t max_sessions;
	/** Bytes of a packet, a multiple of 8, LEAT_RPC_PACKET_MIN to LEAT_RPC_PACKET_MAX, at most
	 * what the device sends; 0: 4096. The smaller value of the two sides holds. */
	uint32_t packet;
	/** Packets that the other side of a session may have on the way, LEAT_RPC_CREDITS_MIN to
	 * LEAT_RPC_CREDITS_MAX. As many receives are posted for each session: max_sessions *
	 * credits is at most the endpoint's receive depth. 0: what that allows, at most 64. */
	uint32_t credits;
	/** Requests of a session that may be under way in one direction, at most
	 * LEAT_RPC_SLOTS_MAX; others wait here. 0: 32. The smaller value of the two sides holds. */
	uint32_t slots;
	/** Packets that all sessions share for what they send, besides one that each has for
	 * itself. 0: 256 */
	uint32_t tx_packets;
	/** Requests that handlers may have deferred at a time; 0: 256 */
	uint32_t tickets;
	/** Longest message taken, bytes, up to 1 GiB; 0: 8 MiB */
	uint32_t max_msg;
	/** Messages of several packets that handlers can have at a time, requests and responses;
	 * each takes max_msg bytes of address space, and memory as it is used. 0: 16 */
	uint32_t large;
	/** READs and WRITEs that transfers of all sessions (leat_rpc_pull(), leat_rpc_push()) may have
	 * under way, and as many messages where they go by these; 0: 64 */
	uint32_t segments;
	/** Bytes of such a READ or WRITE, at most what the device can; 0: 64 KiB */
	uint32_t segment;
	/** How long a peer may take to let go of memory whose key it was given, when the request is
	 * over here, microseconds; 0: 1 s */
	uint32_t bulk_grace_us;
	/** With -EBUSY: the microseconds after which a client is advised to come back. 0: 100 */
	uint32_t busy_us;
	/** Datagram endpoints: a peer that was not heard for so long, though it was asked, is dead,
	 * microseconds, at least 1000; 0: 500,000 */
	uint32_t silence_us;
	/** Datagram endpoints: a session without traffic asks its peer so often whether it is there,
	 * microseconds; 0: 5 s */
	uint32_t idle_us;
};

/** What a session is to be like. Zeroed means all defaults. */
struct leat_rpc_session_conf {
	/** Time of requests without a deadline of their own, microseconds; 0: 5 s;
	 * LEAT_RPC_NO_DEADLINE: none */
	uint64_t deadline_us;
	uint64_t timeout_us; /**< leat_rpc_connect(): as in struct leat_conn_params */
	/** Datagram endpoints: congestion control, NULL: none; it must outlive the session */
	const struct leat_rpc_cc *cc;
	const void *priv;  /**< sent to the other side, copied */
	uint16_t priv_len; /**< at most LEAT_RPC_PRIV_MAX, and what the device can send */
	void *user;	   /**< comes back in the events of this session */
	/**
	 * @name Connecting again
	 *
	 * leat_rpc_connect(): if any of these is not 0 the session connects again when its
	 * connection ends, or an attempt fails, the first one included. Each attempt follows a
	 * random pause, between min and a bound that doubles from 2 * min to max. Both begin anew
	 * with a connection that stood for max, and so do the limits; a peer that accepts and dies
	 * at once is not asked more often than one that is away. Meanwhile requests may be posted,
	 * and wait for the next connection with those that had not begun; their deadlines run.
	 */
	/**@{*/
	uint64_t reconnect_min_us; /**< shortest pause, microseconds; 0: 10 ms, but not above max */
	uint64_t reconnect_max_us; /**< longest pause, at least min; 0: 2 s, but not below min */
	/** no attempt begins, or goes on, when there was no connection that stood for so long,
	 * microseconds; 0: no limit */
	uint64_t reconnect_for_us;
	uint32_t reconnect_tries; /**< attempts at most; 0: no limit */
				  /**@}*/
};

/** In, leat_rpc_req.flags: no response. It is done when the library has taken all of it. */
#define LEAT_RPC_ONEWAY 0x01
/** In, leat_rpc_req.flags: bulk and nb_bulk are set. */
#define LEAT_RPC_BULK 0x02

/**
 * Memory of the caller that the handler of a request may reach: it pulls bytes from it, or pushes
 * some to it, in a task (leat_rpc_task.h).
 */
struct leat_rpc_bulk {
	void *addr;
	uint64_t len;
	/**
	 * Registered memory that holds it, with the rights that access asks for
	 * (LEAT_MR_REMOTE_READ, LEAT_MR_REMOTE_WRITE): the other side uses READ and WRITE if both
	 * endpoints can. NULL: the bytes go in messages, as they do where one of them can't.
	 */
	struct leat_mr *mr;
	uint32_t access; /**< LEAT_RPC_BULK_PULL, LEAT_RPC_BULK_PUSH */
};

/** A request. Zero it first. */
struct leat_rpc_req {
	struct leat_rpc_session *session; /**< in */
	const void *buf; /**< in: the request's bytes, the library's until it is back; NULL if len
			    is 0 */
	void *resp;	 /**< in: where the response goes; NULL if room is 0 */
	uint32_t len;	 /**< in: bytes of the request */
	uint32_t room;	 /**< in: bytes that resp has room for */
	/** in: when it has to be back, cycles of leat_now(), the time in queues here included; 0:
	 * the session's default; LEAT_RPC_NO_DEADLINE */
	uint64_t deadline;
	uint32_t resp_len; /**< out: bytes of the response; with -EMSGSIZE what it would have needed
			    */
	/**
	 * out: 0, or why there is no response: what the handler returned; or
	 * -ENOSYS the other side has no handler of that type; -EBUSY it had no room for the
	 * request, see busy_us; -ETIMEDOUT the deadline passed; -ECANCELED cancelled, or the
	 * session was closed here; -EMSGSIZE the request is longer than the other side takes, or
	 * the response than room; -ESHUTDOWN the other side is closing; -EINVAL no buffer;
	 * -ENOTCONN the session was closed by the other side; -EOPNOTSUPP the other side knows no
	 * memory descriptors, -EACCES an mr lacks the rights, -ERANGE or does not hold the memory;
	 * -EPROTO, -ECONNRESET and others: the session ended, or its connection, as
	 * leat_rpc_event.status.
	 */
	int32_t status;
	uint32_t busy_us; /**< out: with -EBUSY, when the other side advises to come back; else 0 */
	uint8_t type;	  /**< in */
	uint8_t flags;	  /**< in: LEAT_RPC_ONEWAY or LEAT_RPC_BULK */
	/** out: with a status < 0: no handler has seen the request, and none will. Else one may
	 * have. */
	uint8_t refused;
	uint8_t state; /**< private: 0 while it is the caller's */
	void *user;    /**< the caller's; never touched */
	/** in, with LEAT_RPC_BULK: memory that its handler may reach, nb_bulk of them, 1 to
	 * LEAT_RPC_BULK_MAX. They stay until the request is back; such a request fits a packet. */
	const struct leat_rpc_bulk *bulk;
	uint8_t nb_bulk;
	uint8_t held;  /**< private: it goes back when no peer can reach its memory any more */
	uint16_t slot; /**< private */
	struct leat_rpc_req *next;    /**< private */
	struct leat_rpc_req *prev;    /**< private */
	struct leat_wheel_node timer; /**< private */
	/** private: called instead of giving it out by leat_rpc_poll(); NULL */
	void (*done)(struct leat_rpc_req *req);
	void *waiter; /**< private */
};

/**
 * A request that arrived, for its handler, and afterwards for the task that answers.
 *
 * In a handler it is valid during the call only, with all that it points to; leat_rpc_defer() makes
 * one that is valid until it is answered.
 */
struct leat_rpc_incoming {
	const void *req;   /**< its bytes */
	void *resp;	   /**< the response is to be written here */
	uint32_t len;	   /**< of req */
	uint32_t room;	   /**< of resp; 0 if it is one-way */
	uint32_t resp_len; /**< out: bytes written to resp; 0 at first */
	uint8_t type;
	bool oneway;	 /**< the answer is not sent */
	uint8_t nb_bulk; /**< memory descriptors: leat_rpc_incoming_bulk() */
	/** of a deferred one: its caller has cancelled it, or closed; the answer will be dropped */
	bool cancelled;
	struct leat_rpc_session *session; /**< NULL: it has ended meanwhile */
	/** microseconds that its caller waits, from the handler's call on; 0: no end */
	uint32_t us_left;
	/** of a deferred one: after this its caller waits no more, cycles; LEAT_RPC_NO_DEADLINE */
	uint64_t deadline;
	void *user;	   /**< the application's, NULL at first */
	const void *descs; /**< private */
};

/** Returned by a handler that has called leat_rpc_defer(). */
#define LEAT_RPC_DEFERRED 1

/**
 * Handle a request. Called inside of leat_rpc_process(); it must not wait, and may post requests.
 * @return
 *   - 0: the response is call->resp_len bytes in call->resp
 *   - -errno: the caller gets this status (and call->resp_len bytes, if they fit a packet)
 *   - LEAT_RPC_DEFERRED
 */
typedef int (*leat_rpc_handler_fn)(struct leat_rpc_incoming *call, void *arg);

/**
 * Events of a session, in this order; of one that connects again UP and DOWN any number of times.
 * It may have come up and gone down more often than is told, but neither is ever kept back.
 */
enum leat_rpc_event_type {
	LEAT_RPC_UP = 0, /**< it stands */
	/** leat_rpc_session_conf.reconnect_*: its connection ended, or the first attempt to connect
	 * failed; there will be another one. Requests that had begun come back with a status,
	 * others wait. Nothing is to be done. */
	LEAT_RPC_DOWN,
	LEAT_RPC_ENDED, /**< it ended, or never came up; requests come back with a status. Close it.
			 */
	LEAT_RPC_CLOSED, /**< leat_rpc_close() is through: the pointer is no longer valid */
};

/** An event. */
struct leat_rpc_event {
	enum leat_rpc_event_type type;
	struct leat_rpc_session *session;
	void *user; /**< leat_rpc_session_conf.user */
	/**
	 * ENDED, DOWN: 0 closed in order by the other side, or why: as leat_event.status;
	 * -ECONNREFUSED refused, the text has the reason and the limit; -EPROTO one side broke the
	 * protocol; -EPROTONOSUPPORT the other side does not speak it. CLOSED: 0; -ETIMEDOUT:
	 * something was left when the time was up; or why it had ended, or was down.
	 */
	int status;
	char text[LEAT_EVENT_TEXT]; /**< for people */
};

/** Counters of a context. */
struct leat_rpc_stats {
	uint64_t posted;    /**< requests posted */
	uint64_t done;	    /**< requests given back, with any status */
	uint64_t cancelled; /**< of these: cancelled */
	uint64_t expired;   /**< of these: their deadline passed */
	uint64_t late;	    /**< responses to requests that were cancelled or had expired */
	uint64_t handled;   /**< times that a handler was called */
	uint64_t refused;   /**< requests answered by the library instead of a handler */
	uint64_t busy;	    /**< of these: with -EBUSY */
	uint64_t unwaited;  /**< requests and answers dropped because their deadline had passed */
	uint64_t packets_sent;
	uint64_t packets_received;
	uint64_t items_sent; /**< requests, responses, pieces; by packets: the coalescing factor */
	uint64_t credit_packets;  /**< packets sent with nothing but credits, or acknowledgements */
	uint64_t retransmissions; /**< packets sent again (datagrams) */
	uint64_t probes;	  /**< questions whether a peer is there (datagrams) */
	uint64_t duplicates;	  /**< packets that came twice (datagrams) */
	uint64_t refusals;	  /**< sessions refused */
	uint64_t retries;	  /**< attempts to connect again */
	uint64_t reconnects;	  /**< connections that followed one that had ended */
	uint64_t violations[LEAT_RPC_VIOLATIONS]; /**< by enum leat_rpc_violation */
	uint64_t pulled;			  /**< bytes that transfers have read from peers */
	uint64_t pushed;			  /**< bytes that they have written to peers */
	uint64_t by_message;			  /**< of both: those that went in messages */
	uint64_t memory;   /**< bytes allocated by leat_rpc_create(), messages of several packets
			      included, and for sessions that connect again */
	uint32_t sessions; /**< now */
	uint32_t max_sessions; /**< leat_rpc_conf.*, as they were decided */
	uint32_t credits;
	uint32_t slots;
	uint32_t tickets;    /**< deferred requests not yet answered */
	uint32_t large;	     /**< messages of several packets here, now */
	uint32_t transfers;  /**< under way, now */
	uint32_t tx_packets; /**< packets that are filled, wait, or are with the device, now */
};

/**
 * Create a context on an endpoint, which must outlive it. Its receives are the context's; other ops
 * may be posted beside it.
 * @param conf NULL for the defaults
 * @return it, or NULL with rte_errno, and leat_err_msg() saying more:
 *   - EINVAL: a value out of range, or the receive depth is too small for it
 *   - EOPNOTSUPP: the endpoint has no SEND and RECV
 *   - ENOMEM, and others of leat_mr_register()
 */
LEAT_API struct leat_rpc *leat_rpc_create(struct leat_ep *ep, const struct leat_rpc_conf *conf);

/**
 * Free a context. The first call begins to take the receives back.
 * @return 0 (also for NULL); -EBUSY: sessions are open, requests deferred by handlers are not
 * answered (leat_err_msg() names them), or receives are still with the device: poll, and try again
 */
LEAT_API int leat_rpc_destroy(struct leat_rpc *rpc);

/** Its endpoint. Any thread. */
LEAT_API struct leat_ep *leat_rpc_ep(const struct leat_rpc *rpc);

/**
 * Set the handler of a type; NULL: none, it is answered with -ENOSYS.
 * @param resp_max most bytes that it responds with; 0: what fits a packet. More than that:
 * responses are written to memory of leat_rpc_conf.large. At most max_msg.
 * @return 0; -EINVAL
 */
LEAT_API int leat_rpc_handler_set(struct leat_rpc *rpc, uint8_t type, leat_rpc_handler_fn fn,
				  void *arg, uint32_t resp_max);

/**
 * What a request's memory descriptor allows.
 * @param i from 0 to call->nb_bulk - 1
 * @param[out] access LEAT_RPC_BULK_PULL, LEAT_RPC_BULK_PUSH; may be NULL
 * @return its bytes; 0: there is none
 */
LEAT_API uint64_t leat_rpc_incoming_bulk(const struct leat_rpc_incoming *call, unsigned int i,
					 uint32_t *access);

/**
 * Answer the request later: take a ticket. Only in its handler, which then returns
 * LEAT_RPC_DEFERRED.
 * @return the request, with its bytes, valid until leat_rpc_answer(); NULL with rte_errno EBUSY:
 * there are leat_rpc_conf.tickets already (a handler then usually returns -EBUSY, and is not
 * LEAT_RPC_DEFERRED)
 */
LEAT_API struct leat_rpc_incoming *leat_rpc_defer(struct leat_rpc_incoming *call);

/**
 * Answer a deferred request. It is gone afterwards. If its session has ended, or its caller has
 * given up, nothing is sent.
 * @param status as what a handler returns: 0 or -errno
 */
LEAT_API void leat_rpc_answer(struct leat_rpc_incoming *call, int status);

/**
 * Begin to connect, as leat_ep_connect(). Then LEAT_RPC_UP or LEAT_RPC_ENDED. Requests may be
 * posted at once.
 *
 * A session that connects again (leat_rpc_session_conf.reconnect_*) ends only when it gives up: a
 * limit is reached, the other side does not speak the protocol or requires what this one has not,
 * or the endpoint is shut down. The pointer is valid until LEAT_RPC_CLOSED, whatever happens to its
 * connections. Each has another token and other numbers; nothing of one is taken for an answer in
 * another.
 * @param addr copied
 * @param conf NULL for the defaults; copied
 * @return the session, or NULL with rte_errno: ENOSPC (max_sessions), EINVAL, ENOMEM, and others of
 *   leat_ep_connect()
 */
LEAT_API struct leat_rpc_session *leat_rpc_connect(struct leat_rpc *rpc, const char *addr,
						   const struct leat_rpc_session_conf *conf);

/**
 * Accept a session, or refuse it with the reason if there is no room for it.
 * @param ev the LEAT_EV_CONNECT_REQ; it is dealt with in every case
 * @return the session, or NULL with rte_errno: ENOSPC (max_sessions), EPROTONOSUPPORT (the other
 *   side does not speak it, or requires what this one has not), ENOTCONN, EINVAL
 */
LEAT_API struct leat_rpc_session *leat_rpc_accept(struct leat_rpc *rpc, const struct leat_event *ev,
						  const struct leat_rpc_session_conf *conf);

/**
 * Refuse a session for a reason of the application's.
 * @param status -errno, told to the other side
 */
LEAT_API void leat_rpc_refuse(struct leat_rpc *rpc, const struct leat_event *ev, int status);

/**
 * The application's private data in a LEAT_EV_CONNECT_REQ or LEAT_EV_CONNECTED.
 * @param[out] len their bytes @return them, inside of ev
 */
LEAT_API const void *leat_rpc_priv(const struct leat_event *ev, uint16_t *len);

/**
 * Begin to close: nothing more can be posted, and new requests of the other side are answered with
 * -ESHUTDOWN; what is under way in both directions has until the timeout. Requests that are left
 * then come back with -ECANCELED; without a connection that is at once. LEAT_RPC_CLOSED follows.
 * Requests that handlers have deferred and that are not answered at the timeout are named in the
 * log.
 * @param timeout_us 0: don't wait
 * @return 0; -EALREADY: it is closing
 */
LEAT_API int leat_rpc_close(struct leat_rpc_session *s, uint64_t timeout_us);

/**
 * Post requests, of any sessions of one context, in this order. Those of one session that follow
 * one another share packets.
 * @return how many were accepted; fewer than n, with rte_errno: EALREADY (reqs[ret] is posted
 * already), ESHUTDOWN (leat_rpc_close() was called for its session). What else is wrong with one is
 * told by its status.
 */
LEAT_API uint16_t leat_rpc_post(struct leat_rpc_req **reqs, uint16_t n);

/**
 * Cancel a request. The other side is told; a handler may or may not have run
 * (leat_rpc_req.refused).
 *
 * What arrives lands in memory of the library, so a request comes back at once, and nothing writes
 * to its response any more. Not so if the other side was given the key of memory
 * (leat_rpc_bulk.mr): neither its NIC nor this one can be stopped from here. Then the request comes
 * back when the other side has let go of it; if it does not within leat_rpc_conf.bulk_grace_us the
 * session is ended, and the request comes back behind that. (A peer that means harm can still use a
 * key of a libfabric device until leat_mr_deregister().) All that holds for deadlines, too.
 * @return
 *   - 0: the next leat_rpc_poll() gives it back, with -ECANCELED
 *   - 1: it comes back with -ECANCELED when its memory is free
 *   - -EALREADY: that was said before
 *   - -ENOENT: it is not posted, or done
 */
LEAT_API int leat_rpc_cancel(struct leat_rpc_req *req);

/**
 * Take the context's own ops out of what leat_ep_poll() returned, run handlers, post what they
 * responded in one burst. All ops must pass through here.
 * @param ops what is the application's is moved to the front, in its order
 * @return how many are the application's
 */
LEAT_API uint16_t leat_rpc_process(struct leat_rpc *rpc, struct leat_op **ops, uint16_t n);

/**
 * Take requests that are done; go on with what found no room before; look after deadlines.
 * @param[out] reqs room for n; n may be 0
 * @return number of requests; they belong to the caller again
 */
LEAT_API uint16_t leat_rpc_poll(struct leat_rpc *rpc, struct leat_rpc_req **reqs, uint16_t n);

/**
 * Every event of the endpoint but LEAT_EV_CONNECT_REQ goes through here.
 * @return true: it was about a session of this context; false: it is the application's, as the
 * SHUTDOWN is
 */
LEAT_API bool leat_rpc_handle_event(struct leat_rpc *rpc, const struct leat_event *ev);

/**
 * Take events of sessions.
 * @param[out] ev room for n
 * @return number of events
 */
LEAT_API uint16_t leat_rpc_events(struct leat_rpc *rpc, struct leat_rpc_event *ev, uint16_t n);

/** Read the counters. Same thread. */
LEAT_API void leat_rpc_stats_get(const struct leat_rpc *rpc, struct leat_rpc_stats *stats);

/** Name of a violation: "bad token"; "?" for any other value. */
LEAT_API const char *leat_rpc_violation_name(unsigned int violation);

/** Context of a session. */
LEAT_API struct leat_rpc *leat_rpc_session_context(const struct leat_rpc_session *s);

/** Peer id of a session; LEAT_PEER_ANY when it has ended, or is down. */
LEAT_API uint16_t leat_rpc_session_peer(const struct leat_rpc_session *s);

/** User pointer of a session. */
LEAT_API void *leat_rpc_session_user(const struct leat_rpc_session *s);

/** Longest request that one packet of the session holds, bytes; 0 before it is up. */
LEAT_API uint32_t leat_rpc_session_small(const struct leat_rpc_session *s);

#ifdef __cplusplus
}
#endif

#include "leat_rpc_task.h"

#endif /* LEAT_RPC_H */
