/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_STREAM_H
#define LEAT_STREAM_H

/**
 * @file
 * A byte stream over one-sided writes: the protocol of Redis and Valkey over RDMA.
 *
 * Each side registers a receive window. Its peer writes into it with WRITE_IMM, from the beginning
 * to the very last byte; the immediate says how many bytes are new. When all of a window has been
 * read, its owner registers it again, and the writer starts at its beginning.
 *
 *     writer                                         reader
 *       leat_stream_write()
 *         copied to the send buffer                    window  [.........................]
 *       end of the turn: WRITE_IMM, 300 bytes --->             [###300###................]
 *                                                        READABLE: leat_stream_read(), 300
 *       WRITE_IMM, the rest of the window     --->             [.........################]
 *       full: not WRITABLE                               leat_stream_read(), all
 *       WRITABLE again                        <---     memory message: registered again
 *
 * A *net* is one endpoint of a device below a reactor, with all its streams:
 *
 * @code
 *	static void
 *	on_ready(struct leat_stream *s, uint32_t ready, void *arg)
 *	{
 *		char buf[4096];
 *		ssize_t n = leat_stream_read(s, buf, sizeof(buf));
 *
 *		if (n > 0)
 *			leat_stream_write(s, buf, (size_t)n);
 *		else if (n != -EAGAIN)
 *			leat_stream_close(s, 0);
 *	}
 *
 *	static void
 *	on_accept(struct leat_stream *s, void *arg)
 *	{
 *		leat_stream_watch(s, LEAT_STREAM_READABLE, on_ready, NULL);
 *	}
 *
 *	net = leat_stream_net_open(r, &(struct leat_stream_net_conf){ .dev = "fabric_verbs0" });
 *	ret = leat_stream_listen(net, "10.0.0.1:6379", &(struct leat_stream_listener){
 *		.accept = on_accept });
 *	... leat_reactor_run(r) ...
 *	leat_reactor_destroy(r);
 *	leat_stream_net_close(net);
 * @endcode
 *
 * Reads and writes never block. Readiness is a state, not an edge: leat_stream_ready() tells it at
 * any time, and a watched stream's callback is called in each turn of the reactor as long as what
 * is watched for is the case. No function here calls back. Callbacks come from a poller of the net,
 * and may close the stream that they are called for, and any other.
 *
 * Modes. On devices that keep the order of writes (leat_dev_info.write_order: verbs RC, ring) the
 * bytes on the wire are those of Redis and Valkey, and their clients and servers can be at the
 * other side. On others (libfabric's) both sides are leat's: two windows per direction, and each
 * notice carries its sequence number and offset, so that one that overtakes another shows nothing
 * that is not there (doc/guide/stream.md).
 *
 * Memory. Each stream has its own window and send buffer, mapped and registered for it alone; their
 * sum over all streams of a net has a limit (leat_stream_net_conf.mem_max), beyond which connects
 * are refused.
 *
 * Thread rules: a net and its streams belong to the thread that runs the net's reactor: all calls
 * there, or while the reactor does not run.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <leat_common.h>
#include <leat_mr.h>

#ifdef __cplusplus
extern "C" {
#endif

struct leat_ep;
struct leat_reactor;
struct leat_stream;
struct leat_stream_net;

/** @name Bounds and defaults
 * @{
 */
/** Smallest, largest and default size of a receive window, bytes. */
#define LEAT_STREAM_RX_MIN (64u << 10)
#define LEAT_STREAM_RX_MAX (16u << 20)
#define LEAT_STREAM_RX_DEFAULT (1u << 20)
/** Smallest, largest and default size of a send buffer, bytes. */
#define LEAT_STREAM_TX_MIN (16u << 10)
#define LEAT_STREAM_TX_MAX (16u << 20)
#define LEAT_STREAM_TX_DEFAULT (256u << 10)
/** Streams of a net, if nothing else was asked for. */
#define LEAT_STREAM_STREAMS_DEFAULT 64
/** Total of the windows and send buffers of a net, if nothing else was asked for, bytes. */
#define LEAT_STREAM_MEM_DEFAULT (UINT64_C(1) << 30)
/** Interval of a server's keepalives, if nothing else was asked for, ms. */
#define LEAT_STREAM_KEEPALIVE_MS 3000
/** A client ends a stream whose server was silent for so many intervals. */
#define LEAT_STREAM_KEEPALIVES_MISSED 3
/** leat_stream_close(): time to send what was written, if nothing else was asked for, us. */
#define LEAT_STREAM_CLOSE_US 1000000
/** In leat_stream_net_conf: never, or none. */
#define LEAT_STREAM_NEVER UINT32_MAX
/** @} */

/** Which bytes are on the wire. */
enum leat_stream_mode {
	LEAT_STREAM_MODE_AUTO = 0, /**< what the device allows: COMPAT, else WINDOWS */
	LEAT_STREAM_MODE_COMPAT,   /**< those of Redis and Valkey */
	LEAT_STREAM_MODE_WINDOWS,  /**< leat's: two windows, numbered notices */
};

/** What a net is to be like. Zeroed means all defaults. */
struct leat_stream_net_conf {
	/** Device by name, "fabric_verbs0"; NULL: the last one of --vdev. No other is ever used. */
	const char *dev;
	const char *name; /**< for logs and telemetry; copied; NULL: the endpoint's */
	/** 0: LEAT_STREAM_STREAMS_DEFAULT, or as many as the device allows */
	uint32_t max_streams;
	uint32_t rx_size; /**< receive window of a stream, bytes; 0: LEAT_STREAM_RX_DEFAULT */
	/**
	 * Send buffer of a stream, bytes; 0: LEAT_STREAM_TX_DEFAULT. Also of leat_stream_send() no
	 * more than that are with the device at a time, rounded up to a notice.
	 */
	uint32_t tx_size;
	/** Windows and send buffers of all streams, bytes; 0: LEAT_STREAM_MEM_DEFAULT. */
	uint64_t mem_max;
	/** Largest window that a peer may announce, bytes; 0: 1 GiB. More ends its stream. */
	uint32_t peer_window_max;
	/**
	 * Accepted streams send a keepalive at this interval, ms; 0: LEAT_STREAM_KEEPALIVE_MS;
	 * LEAT_STREAM_NEVER. The peer may be waiting for it.
	 */
	uint32_t keepalive_ms;
	/** As keepalive_ms, of streams that were connected from here; 0: none are sent. */
	uint32_t client_keepalive_ms;
	/**
	 * A stream that was connected from here ends (-ETIMEDOUT) when neither data nor a keepalive
	 * came for so long, ms; 0: LEAT_STREAM_KEEPALIVES_MISSED times LEAT_STREAM_KEEPALIVE_MS;
	 * LEAT_STREAM_NEVER. Servers are known to send keepalives.
	 */
	uint32_t silence_ms;
	/** As silence_ms, of accepted streams; 0: never. Most clients send none. */
	uint32_t client_silence_ms;
	/**
	 * A stream over which no data went, in either direction, ends after so long, ms; 0:
	 * never.
	 */
	uint32_t idle_ms;
	enum leat_stream_mode mode; /**< COMPAT where the device can't do it: an error */
	/**
	 * Don't ask servers for leat's features (half-close). For servers that end a connection
	 * when they are asked; Redis' and Valkey's don't.
	 */
	bool no_features;
	/**
	 * Drain of streams that are open when the reactor stops, or the net is closed, us; 0:
	 * LEAT_STREAM_CLOSE_US.
	 */
	uint64_t close_us;
	/**
	 * Asked when the reactor stops, before the streams are closed, and again until it returns
	 * 0: they may be; else not yet. Till then they work as ever. NULL: at once. A program
	 * finishes here what its peers have asked for.
	 * @param until
	 *   Time of leat_now() at which they are closed whatever is returned; UINT64_MAX: none.
	 */
	int (*drain)(void *arg, uint64_t until);
	void *drain_arg;
};

/**
 * Open a net: create an endpoint on a device and put it below a reactor.
 *
 * The endpoint has a wait object if the reactor's idle policy is block. When the reactor stops, all
 * streams are closed as by leat_stream_close().
 *
 * @param conf
 *   NULL for the defaults. Its strings are copied.
 * @return
 *   The net, or NULL with rte_errno and leat_err_msg():
 *   - ENODEV: no such device
 *   - EINVAL: a value out of its range
 *   - EOPNOTSUPP: the device has no WRITE_IMM, or can't do the mode
 *   - EPERM: not on the reactor's thread
 *   - ENOMEM, ENOSPC, EIO: as leat_ep_create() and leat_reactor_poller_add()
 */
LEAT_API struct leat_stream_net *leat_stream_net_open(struct leat_reactor *r,
						      const struct leat_stream_net_conf *conf);

/**
 * Close a net and all its streams, and free it. Handles of streams are invalid from here on.
 *
 * It drives the endpoint itself and blocks for up to about leat_stream_net_conf.close_us: call it
 * when the reactor has stopped or is gone, or at the end of a program's own loop.
 *
 * @return
 *   - 0, also for NULL
 *   - -ETIMEDOUT: closed, but of some streams not all that was written could be sent
 *   - -EBUSY: in a callback of the net; or the device did not give back what was posted, with
 *     leat_err_msg() naming it: the net is still there
 *   - -EPERM: wrong thread
 */
LEAT_API int leat_stream_net_close(struct leat_stream_net *net);

/** Endpoint of a net, for its counters. */
LEAT_API struct leat_ep *leat_stream_net_ep(const struct leat_stream_net *net);

/** What a net does with those that connect. */
struct leat_stream_listener {
	/** Take a stream that is up, with the watch not set. Called from the net's poller. */
	void (*accept)(struct leat_stream *s, void *arg);
	/**
	 * Decide before anything is allocated for a peer. NULL: all are let in. It is called while
	 * events of the endpoint are handled, and must not call functions of streams.
	 * @param addr
	 *   Its address, "10.0.0.2:40512"; "?" where the device does not tell.
	 * @return
	 *   0; a negative errno: it is rejected, which is logged once per second at most.
	 */
	int (*admit)(const char *addr, void *arg);
	void *arg; /**< of both */
};

/**
 * Listen at "host:port", "[v6]:port" or ":port"; port 0 takes a free one.
 * @return 0; -EINVAL: no accept function, or as leat_ep_listen(), with leat_err_msg()
 */
LEAT_API int leat_stream_listen(struct leat_stream_net *net, const char *addr,
				const struct leat_stream_listener *listener);

/** Refuse those that connect from here on; the address stays taken until the net is closed. */
LEAT_API void leat_stream_unlisten(struct leat_stream_net *net);

/** As leat_ep_listen_addr(). */
LEAT_API int leat_stream_listen_addr(const struct leat_stream_net *net, char *addr, size_t len);

/**
 * Connect. The stream is WRITABLE when it is up, or has failed: leat_stream_error() tells.
 * @param timeout_us
 *   0: 5 s
 * @return
 *   The stream, or NULL with rte_errno and leat_err_msg():
 *   - EINVAL: malformed address
 *   - ENOSPC: max_streams are there, or no peer id is free
 *   - ENOBUFS: its buffers would exceed mem_max
 *   - ENOMEM, ESHUTDOWN, EIO
 */
LEAT_API struct leat_stream *leat_stream_connect(struct leat_stream_net *net, const char *addr,
						 uint64_t timeout_us);

/** @name Readiness
 * @{
 */
/** leat_stream_read() would return something else than -EAGAIN: bytes, the end, or an error. */
#define LEAT_STREAM_READABLE 0x01
/**
 * leat_stream_write() would return something else than -EAGAIN. Never while connecting.
 */
#define LEAT_STREAM_WRITABLE 0x02
/**
 * The connection has ended. Bytes that came before can still be read. A watched stream's callback
 * is told once of this, whatever it is watched for.
 */
#define LEAT_STREAM_CLOSED 0x04
/** All that was written has reached the peer's memory: the send buffer is empty. */
#define LEAT_STREAM_DRAINED 0x08

/**
 * Called while something that a stream is watched for is the case: once per turn. It may make any
 * call, also close this and other streams.
 * @param ready
 *   LEAT_STREAM_* that are the case and watched for; and once LEAT_STREAM_CLOSED.
 */
typedef void (*leat_stream_ready_fn)(struct leat_stream *s, uint32_t ready, void *arg);

/** What is the case now: LEAT_STREAM_*. */
LEAT_API uint32_t leat_stream_ready(const struct leat_stream *s);

/**
 * Watch a stream. Replaces the watch that was there.
 * @param want
 *   LEAT_STREAM_* or-ed. 0: only CLOSED is told, once. Don't watch for WRITABLE or DRAINED
 *   without need: mostly they are the case, and the callback is called in each turn.
 * @param fn
 *   NULL: no watch.
 */
LEAT_API void leat_stream_watch(struct leat_stream *s, uint32_t want, leat_stream_ready_fn fn,
				void *arg);
/** @} */

/**
 * Read: copy bytes that have arrived.
 * @return
 *   - > 0: so many bytes
 *   - 0: the end: the peer has closed, or has ended its direction; or len is 0
 *   - -EAGAIN: nothing has arrived
 *   - as leat_stream_error() says, once all that came before was read
 */
LEAT_API ssize_t leat_stream_read(struct leat_stream *s, void *buf, size_t len);

/**
 * Read without a copy: borrow the bytes that have arrived and lie together. They stay where they
 * are until they are given back with leat_stream_give_back(), also when the connection ends; the
 * peer can't go beyond the window until then. A further call returns the same bytes and those
 * that came since.
 * @param[out] data
 *   Where they are. A peer that breaks the protocol may change them while they are looked at.
 * @return as leat_stream_read()
 */
LEAT_API ssize_t leat_stream_borrow(struct leat_stream *s, const void **data);

/**
 * Give back the first n bytes of what leat_stream_borrow() returned.
 * @return 0; -EINVAL: more than is there
 */
LEAT_API int leat_stream_give_back(struct leat_stream *s, size_t n);

/**
 * Write: copy bytes to the send buffer. What was written in a turn of the reactor goes out
 * together at the turn's end, or with leat_stream_flush().
 * @return
 *   - > 0: so many bytes were taken, from the first on
 *   - 0: len is 0
 *   - -EAGAIN: no room, or connecting
 *   - -EPIPE: the connection has ended (leat_stream_error() tells why), or this direction was with
 *     leat_stream_shutdown()
 */
LEAT_API ssize_t leat_stream_write(struct leat_stream *s, const void *buf, size_t len);

/** As leat_stream_write(), from several pieces. */
LEAT_API ssize_t leat_stream_writev(struct leat_stream *s, const struct iovec *iov, int iovcnt);

/**
 * Write without a copy of the caller's: where in the send buffer the next bytes go. The caller puts
 * bytes there, from the first on, and tells with leat_stream_commit() how many. Any other call for
 * this stream that writes, and the next turn of the reactor, take the place back.
 * @param[out] iov
 *   One or two pieces, which lie behind one another in the stream; for readv(2).
 * @return
 *   1 or 2: so many pieces; -EAGAIN, -EPIPE: as leat_stream_write()
 */
LEAT_API int leat_stream_reserve(struct leat_stream *s, struct iovec iov[2]);

/**
 * Write the first n bytes of what leat_stream_reserve() gave.
 * @return 0; -EINVAL: more than that; -EPIPE: as leat_stream_write()
 */
LEAT_API int leat_stream_commit(struct leat_stream *s, size_t n);

/** Post now what was written. Useful before long work of the same turn. */
LEAT_API void leat_stream_flush(struct leat_stream *s);

/**
 * Bytes of registered memory that are sent without a copy. The caller's, but between
 * leat_stream_send() and done() the stream's, with its bytes.
 */
struct leat_stream_out {
	const void *buf;
	size_t len;	    /**< > 0 */
	struct leat_mr *mr; /**< region of the net's endpoint that holds buf */
	/**
	 * The bytes are the caller's again. Called from the net's poller.
	 * @param status
	 *   0: they are in the peer's memory; else as leat_stream_error()
	 */
	void (*done)(struct leat_stream_out *out, int status);
	/** @cond private */
	struct leat_stream_out *next;
	uint64_t before;
	size_t posted, completed;
	struct leat_stream *stream;
	int status;
	/** @endcond */
};

/**
 * Write without a copy, behind what was written before.
 * @return 0; -EINVAL: no bytes, region or function; -EPIPE: as leat_stream_write(); -EAGAIN:
 * connecting
 */
LEAT_API int leat_stream_send(struct leat_stream *s, struct leat_stream_out *out);

/**
 * End this side's direction: the peer reads what was written, then the end. Reading goes on.
 * @return
 *   - 0
 *   - -EAGAIN: connecting, or the peer has not answered yet whether it can: ask again
 *   - -EOPNOTSUPP: the peer can't; Redis and Valkey can't
 *   - -EPIPE: as leat_stream_write()
 *   - -EALREADY: done before
 */
LEAT_API int leat_stream_shutdown(struct leat_stream *s);

/**
 * Close a stream: send what was written, then disconnect. The handle is invalid from here on; no
 * callback of the stream is called any more, but done() of what was sent with leat_stream_send().
 * Bytes that were borrowed are given back.
 * @param timeout_us
 *   What was not sent then is dropped; 0: LEAT_STREAM_CLOSE_US.
 */
LEAT_API void leat_stream_close(struct leat_stream *s, uint64_t timeout_us);

/** As leat_stream_close(), without sending what was written. */
LEAT_API void leat_stream_abort(struct leat_stream *s);

/**
 * Why it ended: 0: it has not, or the peer closed in order; -ETIMEDOUT: no connection in time, or
 * silence, or idle; -ECONNREFUSED, -EHOSTUNREACH: as leat_event.status of a failed connect;
 * -ECONNRESET: the peer died; -EPROTO: it broke the protocol; -ENOMEM: its window could not be
 * registered; -EIO.
 */
LEAT_API int leat_stream_error(const struct leat_stream *s);

/** The same in words, with the peer's address; "" while it is up. Valid until it is closed. */
LEAT_API const char *leat_stream_why(const struct leat_stream *s);

/** Address of the peer, "?" where the device does not tell. */
LEAT_API const char *leat_stream_peer(const struct leat_stream *s);

/** Number of a stream, unique in the process for its lifetime, for logs. */
LEAT_API uint64_t leat_stream_id(const struct leat_stream *s);

/** Net of a stream. */
LEAT_API struct leat_stream_net *leat_stream_net_of(const struct leat_stream *s);

/** The application's pointer, NULL at first. */
LEAT_API void leat_stream_user_set(struct leat_stream *s, void *user);
LEAT_API void *leat_stream_user(const struct leat_stream *s);

/** What there is to know of a stream. */
struct leat_stream_info {
	enum leat_stream_mode mode;
	bool accepted;		/**< by listening here; else connected from here */
	bool half_close;	/**< both sides can; false until that is known */
	uint32_t rx_size;	/**< bytes of memory that the peer may write to */
	uint32_t peer_window;	/**< the one it announced last, bytes */
	uint32_t tx_room;	/**< bytes that leat_stream_write() would take */
	uint32_t rx_ready;	/**< bytes that can be read */
	uint64_t tx_bytes;	/**< written to the peer's memory */
	uint64_t rx_bytes;	/**< that arrived */
	uint64_t tx_notices;	/**< WRITE_IMM posted */
	uint64_t rx_notices;	/**< that arrived */
	uint64_t rx_registered; /**< times that this side registered a window */
	uint64_t tx_registered; /**< times that the peer did */
	uint64_t tx_stalls;	/**< times that it had to wait for a window of the peer's */
};

/** Fill in info. */
LEAT_API void leat_stream_info_get(const struct leat_stream *s, struct leat_stream_info *info);

/** Counters of a net since it was opened. */
struct leat_stream_net_stats {
	uint32_t streams;   /**< that exist now, closing ones included */
	uint64_t mem;	    /**< bytes of windows and send buffers now */
	uint64_t accepted;  /**< streams that came up, by listening */
	uint64_t connected; /**< streams that came up, from here */
	uint64_t refused; /**< those that asked and were turned away: admit, mem_max, max_streams */
	uint64_t closed;  /**< streams that ended in order */
	uint64_t failed;  /**< streams that ended otherwise */
	uint64_t protocol; /**< of these, because the peer broke the protocol */
	uint64_t tx_bytes, rx_bytes;
	uint64_t tx_notices, rx_notices;
	uint64_t keepalives_sent, keepalives_received;
};

/** Read the counters; any thread, each value is a recent one. */
LEAT_API void leat_stream_net_stats_get(const struct leat_stream_net *net,
					struct leat_stream_net_stats *stats);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_STREAM_H */
