/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_STREAM_H
#define LEAT_STREAM_H

/**
 * @file
 * A byte stream over one-sided writes: the protocol of Redis and Valkey over RDMA.
 *
 * Each side registers a receive window. Its peer writes into the window with WRITE_IMM, from the
 * beginning to the very last byte; the immediate says how many bytes are new. When the owner of
 * the window has read all of it, it registers the window again, and the writer starts at the
 * window's beginning.
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
 * A *net* is one endpoint of a device, driven by a reactor, with all its streams:
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
 * Reads and writes never block. Readiness is a state, not an edge: leat_stream_ready() returns it
 * at any time, and a watched stream's callback is called in each turn of the reactor in which the
 * stream is in a state that is watched for. A poller of the net calls the callbacks; no function
 * here does, except leat_stream_net_close(), which drives the net itself. A callback may close the
 * stream that it is called for, and any other.
 *
 * Modes. On devices that keep the order of writes (leat_dev_info.write_order: verbs RC, ring, shm)
 * the bytes on the wire are those of Redis and Valkey, so their clients and servers can be peers.
 * On other devices (libfabric's) both sides must be leat's: there are two windows per direction,
 * and each WRITE_IMM is a notice that carries its sequence number and offset. So a notice that
 * overtakes an earlier one does not announce bytes that have not arrived (doc/guide/stream.md).
 *
 * Memory. Each stream has its own window and send buffer, mapped and registered for it alone. Their
 * sum over all streams of a net has a limit (leat_stream_net_conf.mem_max), beyond which connection
 * requests are refused.
 *
 * Thread rules: a net and its streams belong to the thread that runs the net's reactor: all calls
 * are made on that thread, or while the reactor does not run.
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
/** Smallest receive window, bytes. */
#define LEAT_STREAM_RX_MIN (64u << 10)
/** Largest receive window, bytes. */
#define LEAT_STREAM_RX_MAX (16u << 20)
/** Default size of a receive window, bytes. */
#define LEAT_STREAM_RX_DEFAULT (1u << 20)
/** Smallest send buffer, bytes. */
#define LEAT_STREAM_TX_MIN (16u << 10)
/** Largest send buffer, bytes. */
#define LEAT_STREAM_TX_MAX (16u << 20)
/** Default size of a send buffer, bytes. */
#define LEAT_STREAM_TX_DEFAULT (256u << 10)
/** Maximum number of streams of a net, if leat_stream_net_conf.max_streams is 0. */
#define LEAT_STREAM_STREAMS_DEFAULT 64
/** Limit of the windows and send buffers of a net, bytes, if its mem_max is 0. */
#define LEAT_STREAM_MEM_DEFAULT (UINT64_C(1) << 30)
/** Interval of a server's keepalives, if keepalive_ms is 0, ms. */
#define LEAT_STREAM_KEEPALIVE_MS 3000
/** Keepalive intervals of silence after which a client ends its stream, if silence_ms is 0. */
#define LEAT_STREAM_KEEPALIVES_MISSED 3
/** Time in which leat_stream_close() sends the bytes written before, us, if timeout_us is 0. */
#define LEAT_STREAM_CLOSE_US 1000000
/** Value of a time in leat_stream_net_conf: never. */
#define LEAT_STREAM_NEVER UINT32_MAX
/** @} */

/** Format of the bytes on the wire. */
enum leat_stream_mode {
	LEAT_STREAM_MODE_AUTO = 0, /**< COMPAT if the device allows it, else WINDOWS */
	LEAT_STREAM_MODE_COMPAT,   /**< mode of Redis and Valkey */
	LEAT_STREAM_MODE_WINDOWS,  /**< leat's own: two windows, numbered notices */
};

/** Configuration of a net. Zeroed means all defaults. */
struct leat_stream_net_conf {
	/** Name of the device, "fabric_verbs0"; NULL: the last --vdev. No other device is used. */
	const char *dev;
	const char *name; /**< name for logs and telemetry; copied; NULL: the endpoint's name */
	/**
	 * Maximum number of streams at a time; 0: LEAT_STREAM_STREAMS_DEFAULT, or fewer if the
	 * device allows only fewer.
	 */
	uint32_t max_streams;
	uint32_t rx_size; /**< receive window of a stream, bytes; 0: LEAT_STREAM_RX_DEFAULT */
	/**
	 * Send buffer of a stream, bytes; 0: LEAT_STREAM_TX_DEFAULT. This also limits the bytes of
	 * the stream that the device has at a time, those of leat_stream_send() included; only the
	 * last WRITE_IMM may go beyond the limit.
	 */
	uint32_t tx_size;
	/**
	 * Limit of the windows and send buffers of all streams, bytes; 0: LEAT_STREAM_MEM_DEFAULT.
	 */
	uint64_t mem_max;
	/**
	 * Largest window that a peer may announce, bytes; a larger one ends its stream. 0: 1 GiB.
	 * In mode WINDOWS it has no effect: the limit is LEAT_STREAM_RX_MAX.
	 */
	uint32_t peer_window_max;
	/**
	 * Interval of keepalives that accepted streams send, ms; 0: LEAT_STREAM_KEEPALIVE_MS;
	 * LEAT_STREAM_NEVER: none are sent, although peers may rely on them.
	 */
	uint32_t keepalive_ms;
	/** As keepalive_ms, for streams that were connected from here; 0: none are sent. */
	uint32_t client_keepalive_ms;
	/**
	 * Silence (neither data nor a keepalive) after which a stream that was connected from here
	 * ends with -ETIMEDOUT, ms; 0: LEAT_STREAM_KEEPALIVES_MISSED times
	 * LEAT_STREAM_KEEPALIVE_MS, since servers are known to send keepalives; or
	 * LEAT_STREAM_NEVER.
	 */
	uint32_t silence_ms;
	/** As silence_ms, for accepted streams; 0: never, since most clients send no keepalives. */
	uint32_t client_silence_ms;
	/** Time without data in either direction after which a stream ends, ms; 0: never. */
	uint32_t idle_ms;
	enum leat_stream_mode mode; /**< a mode that the device can't do is an error */
	/**
	 * Don't ask servers for leat's features (half-close). Set this for servers that end a
	 * connection when they are asked; those of Redis and Valkey don't.
	 */
	bool no_features;
	/**
	 * Time to send the bytes written before, for streams that are open when the reactor stops
	 * or the net is closed, us; 0: LEAT_STREAM_CLOSE_US.
	 */
	uint64_t close_us;
	/**
	 * Decide whether the streams may be closed, when the reactor stops. A program uses it to
	 * finish the requests of its peers: until this function returns 0 it is called again, and
	 * the streams work as before. NULL: they are closed at once.
	 * @param until
	 *   Time of leat_now() at which the streams are closed whatever this function returns;
	 *   UINT64_MAX: no such time.
	 */
	int (*drain)(void *arg, uint64_t until);
	void *drain_arg; /**< argument of drain */
};

/**
 * Open a net: create an endpoint on a device, and let a reactor drive it.
 *
 * The endpoint has a wait object if the reactor's idle policy is block. When the reactor stops, all
 * streams are closed as by leat_stream_close().
 *
 * @param r
 *   The reactor.
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
 * The call drives the endpoint itself. It blocks for up to about leat_stream_net_conf.close_us, and
 * some seconds more if the device does not complete posted ops: make it when the reactor has
 * stopped or was destroyed, or at the end of a program's own loop.
 *
 * @return
 *   - 0, also for NULL
 *   - -ETIMEDOUT: closed, but some streams could not send all bytes written before
 *   - -EBUSY: the net still exists. The call was made in a callback of the net; or the device did
 *     not complete all posted ops; leat_err_msg() says which
 *   - -EPERM: wrong thread
 */
LEAT_API int leat_stream_net_close(struct leat_stream_net *net);

/** Return the endpoint of a net, for its counters. */
LEAT_API struct leat_ep *leat_stream_net_ep(const struct leat_stream_net *net);

/** Functions that a net calls when peers connect. */
struct leat_stream_listener {
	/** Handle a new stream, which is up and not watched yet. Called from the net's poller. */
	void (*accept)(struct leat_stream *s, void *arg);
	/**
	 * Decide whether to admit a peer, before anything is allocated for it. NULL: all peers are
	 * admitted. It is called while events of the endpoint are handled, and must not call
	 * functions of streams.
	 * @param addr
	 *   The peer's address, "10.0.0.2:40512"; "?" where the device does not tell.
	 * @return
	 *   0: admit; a negative errno: reject. Rejections are logged once per second at most.
	 */
	int (*admit)(const char *addr, void *arg);
	void *arg; /**< last argument of accept and admit */
};

/**
 * Listen at "host:port", "[v6]:port" or ":port"; port 0 takes a free one.
 * @return 0; -EINVAL: no accept function, or as leat_ep_listen(), with leat_err_msg()
 */
LEAT_API int leat_stream_listen(struct leat_stream_net *net, const char *addr,
				const struct leat_stream_listener *listener);

/** Refuse new connections from here on; the address stays in use until the net is closed. */
LEAT_API void leat_stream_unlisten(struct leat_stream_net *net);

/** Copy the address at which a net listens, as leat_ep_listen_addr(). */
LEAT_API int leat_stream_listen_addr(const struct leat_stream_net *net, char *addr, size_t len);

/**
 * Connect. The stream becomes WRITABLE when it is up, or has failed: leat_stream_error() says
 * which.
 * @param net
 *   The net.
 * @param addr
 *   Address of the server.
 * @param timeout_us
 *   Microseconds; 0: 5 s.
 * @return
 *   The stream, or NULL with rte_errno and leat_err_msg():
 *   - EINVAL: malformed address
 *   - ENOSPC: max_streams exist, or no peer id is free
 *   - ENOBUFS: its buffers would exceed mem_max
 *   - ENOMEM: no memory for the stream
 *   - ESHUTDOWN: the net is being closed
 *   - EIO: as leat_ep_connect()
 */
LEAT_API struct leat_stream *leat_stream_connect(struct leat_stream_net *net, const char *addr,
						 uint64_t timeout_us);

/** @name Readiness
 * @{
 */
/** leat_stream_read() would return bytes, the end, or an error, not -EAGAIN. */
#define LEAT_STREAM_READABLE 0x01
/** leat_stream_write() would not return -EAGAIN. Never set while connecting. */
#define LEAT_STREAM_WRITABLE 0x02
/**
 * The connection has ended. Bytes that came before can still be read. A watched stream's callback
 * gets this once, whatever it is watched for.
 */
#define LEAT_STREAM_CLOSED 0x04
/** All bytes written so far have reached the peer's memory: the send buffer is empty. */
#define LEAT_STREAM_DRAINED 0x08

/**
 * Handle a stream that is in a state it is watched for. Called once per turn as long as the stream
 * is in such a state. The callback may make any call, and close this and other streams.
 * @param s
 *   The stream.
 * @param ready
 *   LEAT_STREAM_* of the stream's state that are watched for; and once LEAT_STREAM_CLOSED.
 * @param arg
 *   Argument of leat_stream_watch().
 */
typedef void (*leat_stream_ready_fn)(struct leat_stream *s, uint32_t ready, void *arg);

/** Return the state of a stream now: LEAT_STREAM_* or-ed. */
LEAT_API uint32_t leat_stream_ready(const struct leat_stream *s);

/**
 * Watch a stream. This replaces its previous watch.
 * @param s
 *   The stream.
 * @param want
 *   LEAT_STREAM_* or-ed. 0: the callback gets only CLOSED, once. Don't watch for WRITABLE or
 *   DRAINED without need: a stream mostly is in both, and the callback is called in each turn.
 * @param fn
 *   NULL: no watch.
 * @param arg
 *   Last argument of fn.
 */
LEAT_API void leat_stream_watch(struct leat_stream *s, uint32_t want, leat_stream_ready_fn fn,
				void *arg);
/** @} */

/**
 * Read: copy bytes that have arrived.
 * @return
 *   - > 0: number of bytes
 *   - 0: the end: the peer has closed, or has ended its direction; or len is 0
 *   - -EAGAIN: nothing has arrived
 *   - as leat_stream_error(), once all bytes that came before were read
 */
LEAT_API ssize_t leat_stream_read(struct leat_stream *s, void *buf, size_t len);

/**
 * Read without a copy: borrow the bytes that have arrived and are contiguous in the window.
 *
 * The bytes stay where they are until leat_stream_give_back() gives them back, even if the
 * connection ends; until then the peer can't write beyond the window. A further call returns the
 * same bytes and those that came since.
 * @param s
 *   The stream.
 * @param[out] data
 *   Address of the bytes. A peer that breaks the protocol may change them while they are looked at.
 * @return as leat_stream_read()
 */
LEAT_API ssize_t leat_stream_borrow(struct leat_stream *s, const void **data);

/**
 * Give back the first n of the bytes that leat_stream_borrow() returned.
 * @return 0; -EINVAL: fewer than n bytes have arrived
 */
LEAT_API int leat_stream_give_back(struct leat_stream *s, size_t n);

/**
 * Write: copy bytes to the send buffer. Bytes written in one turn of the reactor are sent together,
 * at the turn's end or by leat_stream_flush().
 * @return
 *   - > 0: number of bytes copied, from the first on
 *   - 0: len is 0
 *   - -EAGAIN: no room, or connecting
 *   - -EPIPE: the connection has ended (leat_stream_error() says why), or leat_stream_shutdown()
 *     has ended this direction
 */
LEAT_API ssize_t leat_stream_write(struct leat_stream *s, const void *buf, size_t len);

/** Write several pieces, as leat_stream_write(). */
LEAT_API ssize_t leat_stream_writev(struct leat_stream *s, const struct iovec *iov, int iovcnt);

/**
 * Write without a copy: get the room in the send buffer for the next bytes.
 *
 * The caller puts bytes there, from the first on, and leat_stream_commit() says how many. The
 * pieces are valid until the next call that writes to this stream, or the next turn of the reactor.
 * @param s
 *   The stream.
 * @param[out] iov
 *   One or two pieces, which are consecutive in the stream; for readv(2).
 * @return
 *   1 or 2: number of pieces; -EAGAIN, -EPIPE: as leat_stream_write()
 */
LEAT_API int leat_stream_reserve(struct leat_stream *s, struct iovec iov[2]);

/**
 * Write the first n bytes that the caller has put into the pieces of leat_stream_reserve().
 * @return 0; -EINVAL: n is larger than the pieces; -EPIPE: as leat_stream_write()
 */
LEAT_API int leat_stream_commit(struct leat_stream *s, size_t n);

/** Post the bytes written so far. Useful before long work in the same turn. */
LEAT_API void leat_stream_flush(struct leat_stream *s);

/**
 * Bytes of registered memory that are sent without a copy. The caller owns this struct and the
 * bytes, but between leat_stream_send() and done() they belong to the stream.
 */
struct leat_stream_out {
	const void *buf;    /**< the bytes */
	size_t len;	    /**< their number, > 0 */
	struct leat_mr *mr; /**< region of the net's endpoint that holds buf */
	/**
	 * Handle the end of the send: the bytes are the caller's again. Called from the net's
	 * poller.
	 * @param status
	 *   0: the bytes are in the peer's memory; else as leat_stream_error()
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
 * Write without a copy, after the bytes written before.
 * @return 0; -EINVAL: out has no bytes, no done(), or no region although the device needs one;
 *   -EPIPE: as leat_stream_write(); -EAGAIN: connecting
 */
LEAT_API int leat_stream_send(struct leat_stream *s, struct leat_stream_out *out);

/**
 * End this side's direction: the peer reads the bytes written before, then the end. This side can
 * still read.
 * @return
 *   - 0
 *   - -EAGAIN: connecting, or the peer has not answered yet whether it supports this: try again
 *   - -EOPNOTSUPP: the peer does not support it, as Redis and Valkey don't
 *   - -EPIPE: as leat_stream_write()
 *   - -EALREADY: called before
 */
LEAT_API int leat_stream_shutdown(struct leat_stream *s);

/**
 * Close a stream: send the bytes written before, then disconnect.
 *
 * The handle is invalid from here on. No callback of the stream is called any more, except done()
 * of bytes sent with leat_stream_send(). Borrowed bytes are given back.
 * @param s
 *   The stream.
 * @param timeout_us
 *   Time after which unsent bytes are dropped, microseconds; 0: LEAT_STREAM_CLOSE_US.
 */
LEAT_API void leat_stream_close(struct leat_stream *s, uint64_t timeout_us);

/** Close a stream as leat_stream_close(), without sending the bytes written before. */
LEAT_API void leat_stream_abort(struct leat_stream *s);

/**
 * Return why a stream ended. 0: it has not ended, or the peer closed cleanly; -ETIMEDOUT: no
 * connection in time, or silence, or idle; -ECONNREFUSED, -EHOSTUNREACH: as leat_event.status of a
 * failed connect; -ECONNRESET: the peer died; -EPROTO: the peer broke the protocol; -ENOMEM: the
 * stream's window could not be registered; or the status of an op that failed, such as -EIO.
 */
LEAT_API int leat_stream_error(const struct leat_stream *s);

/**
 * Return why a stream ended in words, with the peer's address; "" while it is up. Valid until the
 * stream is closed.
 */
LEAT_API const char *leat_stream_why(const struct leat_stream *s);

/** Return the address of the peer, "?" where the device does not tell. */
LEAT_API const char *leat_stream_peer(const struct leat_stream *s);

/** Return the number of a stream, unique in the process for its lifetime, for logs. */
LEAT_API uint64_t leat_stream_id(const struct leat_stream *s);

/** Return the net of a stream. */
LEAT_API struct leat_stream_net *leat_stream_net_of(const struct leat_stream *s);

/** Store a pointer of the application, which the library does not use itself. */
LEAT_API void leat_stream_user_set(struct leat_stream *s, void *user);

/** Return the application's pointer, NULL at first. */
LEAT_API void *leat_stream_user(const struct leat_stream *s);

/** State and counters of a stream. */
struct leat_stream_info {
	enum leat_stream_mode mode; /**< mode in use */
	bool accepted;		    /**< accepted here; else connected from here */
	bool half_close;	    /**< both sides support half-close; false until known */
	uint32_t rx_size;	    /**< bytes of memory that the peer may write to */
	uint32_t peer_window;	    /**< window that the peer announced last, bytes */
	uint32_t tx_room;	    /**< bytes that leat_stream_write() would accept */
	uint32_t rx_ready;	    /**< bytes that can be read */
	uint64_t tx_bytes;	    /**< bytes written to the peer's memory */
	uint64_t rx_bytes;	    /**< bytes that arrived */
	uint64_t tx_notices;	    /**< WRITE_IMM posted */
	uint64_t rx_notices;	    /**< WRITE_IMM that arrived */
	uint64_t rx_registered;	    /**< times that this side registered a window */
	uint64_t tx_registered;	    /**< times that the peer registered a window */
	uint64_t tx_stalls;	    /**< times that sending had to wait for a window of the peer */
};

/** Copy state and counters of a stream. */
LEAT_API void leat_stream_info_get(const struct leat_stream *s, struct leat_stream_info *info);

/** Counters of a net since it was opened. */
struct leat_stream_net_stats {
	uint32_t streams;   /**< streams that exist now, closing ones included */
	uint64_t mem;	    /**< bytes of windows and send buffers now */
	uint64_t accepted;  /**< accepted streams that came up */
	uint64_t connected; /**< streams connected from here that came up */
	/** connections refused: by admit, for lack of streams or memory, or after unlisten */
	uint64_t refused;
	uint64_t closed;	     /**< streams that ended without an error */
	uint64_t failed;	     /**< streams that ended with an error */
	uint64_t protocol;	     /**< part of failed: streams whose peer broke the protocol */
	uint64_t tx_bytes,	     /**< bytes written to the memory of peers */
		rx_bytes;	     /**< bytes that arrived */
	uint64_t tx_notices,	     /**< WRITE_IMM posted */
		rx_notices;	     /**< WRITE_IMM that arrived */
	uint64_t keepalives_sent,    /**< keepalives sent */
		keepalives_received; /**< keepalives that arrived */
};

/** Copy the counters of a net; from any thread, each value is a recent one. */
LEAT_API void leat_stream_net_stats_get(const struct leat_stream_net *net,
					struct leat_stream_net_stats *stats);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_STREAM_H */
