/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STREAM_PVT_H
#define STREAM_PVT_H

/*
 * Types and functions that the files of lib/stream share.
 *
 *     net.c       nets: endpoint, receives, pools, their pollers in a reactor
 *     turn.c      a net's work in each turn, and the ops that poll returns
 *     conn.c      streams come up: connect, listen, accept
 *     end.c       streams end: failure, drain, close, the reactor's stop
 *     rx.c        the receive window: notices, reading, registering it again
 *     reorder.c   notices of mode WINDOWS, put in order
 *     tx.c        the send buffer and the peer's window: writing, posting, completions
 *     ctrl.c      control messages, both ways
 *     timer.c     keepalive, silence, idle, stall, the deadline of close
 *     ready.c     readiness: watch, callbacks, waiting tasks
 *     mem.c       windows and send buffers, and their limit
 *     wire.c      encoding and decoding of control messages
 *     task.c      calls of tasks
 *     telemetry.c telemetry commands
 *
 *     leat_stream_write() -> send buffer --turn: tx_run()--> WRITE_IMM ----> peer's window
 *     peer's WRITE_IMM ----> window, RECV --turn_ops()--> rx_notice() -> leat_stream_read()
 *
 * States of a stream:
 *
 *     FREE -- connect --> CONNECTING --+-- up --> UP -- end, close --> ENDING -- down --> OVER
 *          -- request --> ACCEPTED ----+                                            |
 *     FREE <---------------------- released by the application, and down -----------+
 *
 * Positions are bytes since the stream came up, 64 bits, and never wrap. In this side's window:
 *
 *     rx_taken <= rx_got <= rx_limit <= rx_taken + rx_size
 *     read        arrived   registered
 *
 * and in its send buffer: tx_done <= tx_posted <= tx_head <= tx_done + tx_size.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <leat_ask.h>
#include <leat_ep.h>
#include <leat_error.h>
#include <leat_log.h>
#include <leat_reactor.h>
#include <leat_resource.h>
#include <leat_time.h>
#include <leat_tune.h>

#include "leat_stream.h"
#include "stream_tune.h"
#include "stream_wire.h"

/* Length of a receive, bytes: more than a control message, so that a longer one is detected. */
#define STREAM_RECV_LEN 64
/* Maximum number of control messages of one stream in flight. */
#define STREAM_CTRLS 4
/*
 * Maximum number of the peer's questions for features that wait for an answer. One question more
 * ends the stream.
 */
#define STREAM_ANSWERS 8
/* Maximum number of windows that the peer has registered at a time, in mode WINDOWS. */
#define STREAM_WINDOWS 2
/*
 * Maximum number of a stream's notices in flight. Known implementations post 1024 receives, for
 * notices and control messages.
 */
#define STREAM_NOTICES_MAX 64
/* Maximum number of notices that may be ahead of a missing one; a notice's number has 8 bits. */
#define STREAM_REORDER 128
/*
 * Maximum number of bytes of one WRITE_IMM: small enough that the peer can begin to read a long
 * write before all of it has arrived.
 */
#define STREAM_CHUNK (64u << 10)
/* Maximum number of ops per leat_ep_post() call. */
#define STREAM_BURST 16

enum stream_state {
	STREAM_FREE = 0,
	STREAM_CONNECTING,
	STREAM_ACCEPTED, /* the request was accepted, and the stream is not up yet */
	STREAM_UP,
	/* Disconnected, or its connect was given up: the stream waits for the peer's last event. */
	STREAM_ENDING,
	STREAM_OVER, /* the device has released the peer */
};

/* Kinds of control messages that have to be sent. */
enum stream_pending {
	PENDING_GET = 0x01,
	PENDING_SET = 0x02,
	PENDING_MEMORY = 0x04,
	PENDING_KEEPALIVE = 0x08,
	PENDING_END = 0x10,
	PENDING_ANSWER = 0x20,
};

/* A window of the peer. */
struct stream_window {
	uint64_t addr, key;
	uint32_t len;
};

/* A control message to send; busy: it is posted and has not completed. */
struct stream_ctrl_op {
	struct leat_op op;
	struct leat_stream *s;
	bool busy;
};

/* A WRITE_IMM. */
struct stream_tx_op {
	struct leat_op op;
	struct leat_stream *s;
	struct leat_stream_out *out; /* owner of the bytes; NULL: the send buffer */
	struct stream_tx_op *next;   /* next in the list of free ops */
};

struct stream_rx_op {
	struct leat_op op;
	struct stream_rx_op *next; /* next in the list of receives that are not posted */
};

/*
 * A task that waits. The wait stays in the stream's list until the task runs. So, if the stream is
 * released after the wait has ended, `released` tells the task that the stream may be freed.
 */
struct stream_wait {
	struct leat_resource_op op;
	struct leat_stream *s;
	uint32_t want;
	bool listed;
	bool ended;    /* the task is ready */
	bool released; /* the stream was released */
	struct stream_wait *next, *prev;
};

/*
 * Notices that came before an older one, in mode WINDOWS; indexed by number modulo STREAM_REORDER.
 */
struct stream_reorder {
	uint32_t end[STREAM_REORDER];
	uint64_t here[STREAM_REORDER / 64]; /* bit set: the notice has arrived */
	uint32_t window_off; /* number of bytes announced in the window being written */
	uint8_t next;	     /* number of the first missing notice */
};

struct leat_stream {
	struct leat_stream_net *net;
	uint8_t state;
	bool accepted;
	bool known;    /* the application knows the stream, or will be told of it */
	bool released; /* the application has called leat_stream_close() or _abort() */
	bool draining; /* disconnect when all bytes are sent */
	bool aborting; /* disconnect at once */
	bool dropped;  /* leat_stream_abort(): unsent bytes are no failure */
	bool cut;      /* the time for the close was over before all bytes were sent */
	bool go;       /* bytes may be posted */
	uint16_t peer;
	uint32_t index, token;
	uint32_t gen; /* changes when the slot is freed */

	/* lists of the net */
	bool in_work, in_ready, in_starved;
	struct leat_stream *next_work, *next_ready, *next_starved, *next_free;

	/* the peer's windows, and the offset of the next byte to be written in the first one */
	struct stream_window windows[STREAM_WINDOWS];
	uint32_t nb_windows;
	uint32_t window_off;
	uint32_t peer_token;
	uint8_t tx_seq;
	bool stalled; /* sending waits for a window */

	/* sending */
	uint8_t *tx_mem;
	struct leat_mr *tx_mr;
	uint32_t tx_off, tx_in;	  /* offsets of tx_posted and of tx_head in the buffer */
	uint32_t tx_flight;	  /* number of WRITE_IMM in flight */
	uint32_t tx_flight_bytes; /* number of bytes in these WRITE_IMM */
	uint64_t tx_head, tx_posted, tx_done;
	uint64_t tx_total; /* number of bytes posted, from the send buffer and from outs */
	struct leat_stream_out *outs, **outs_end;
	bool shut; /* the sending direction has ended: nothing more can be written */
	bool end_sent;

	/* receiving */
	uint32_t rx_size, tx_size; /* bytes of window, send buffer; conf may have other sizes now */
	uint8_t *rx_mem;
	struct leat_mr *rx_mr;
	struct leat_rkey rx_key;
	uint32_t rx_off; /* offset of rx_taken in the window */
	uint64_t rx_got, rx_taken, rx_limit;
	uint64_t rx_end; /* position at which the peer's direction ends; UINT64_MAX: unknown */
	struct stream_reorder *reorder;

	/* control */
	struct stream_ctrl_op ctrl[STREAM_CTRLS];
	uint8_t ctrl_flight; /* number of control messages in flight */
	uint8_t pending;     /* enum stream_pending, or-ed */
	uint8_t nb_answers;
	uint16_t answers[STREAM_ANSWERS]; /* field select of the peer's questions for features */
	uint64_t features;		  /* features that both sides have */
	bool features_known;
	bool features_asked; /* the peer has asked for leat's features */

	/* readiness */
	uint32_t want;
	leat_stream_ready_fn ready;
	void *ready_arg;
	bool announce; /* the listener's accept() has to be called */
	bool closed_reported;
	struct stream_wait *waits, *waits_last;

	/* time, cycles */
	struct leat_timer timer;
	uint64_t timer_due;
	uint64_t last_heard, last_data, last_progress, next_keepalive, close_at;

	int error;
	void *user;
	uint64_t id;
	struct leat_stream_info info;
	char addr[LEAT_ADDR_MAX];
	char why[LEAT_EVENT_TEXT];
};

struct leat_stream_net {
	struct leat_reactor *r; /* NULL: destroyed */
	struct leat_ep *ep;
	struct leat_poller *ep_poller, *poller;
	struct leat_stream_net_conf conf; /* with all defaults filled in, without its strings */
	bool windows;			  /* mode WINDOWS */
	bool wide;			  /* keys of 64 bits */
	bool tokens;			  /* notices carry a token: the immediate has room for it */
	bool mr_local, in_order;
	bool calling, closing;
	bool rx_posted;	      /* receives have been posted */
	bool cut;	      /* some stream was closed before all its bytes were sent */
	uint64_t drain_until; /* cycles: conf.drain() may delay a stop until then; 0: no stop */
	uint64_t stop_at;     /* cycles: a stop closes the streams by then; 0: no stop */
	uint32_t chunk;	      /* maximum number of bytes of a WRITE_IMM */
	uint64_t now;	      /* timestamp of this turn, cycles */

	struct leat_stream *streams;
	struct leat_stream *free;
	struct leat_stream **by_peer;
	uint32_t nb_peers;
	struct leat_stream *work, **work_end;	/* streams with something to post */
	struct leat_stream *ready, **ready_end; /* streams with something to report */
	uint32_t nb_ready;
	struct leat_stream *starved; /* streams whose last post found no room in the device */
	struct leat_stream_out *outs_done, **outs_done_end;

	struct stream_tx_op *tx_ops, *tx_free;
	uint32_t nb_tx, nb_tx_free;
	struct stream_rx_op *rx_ops, *rx_idle;
	uint32_t nb_rx, nb_rx_idle;
	uint8_t *msgs; /* buffers of receives, then of control messages */
	size_t msgs_len;
	struct leat_mr *msgs_mr;

	struct leat_stream_listener listener;
	bool listening;
	uint64_t refusal_logged;
	uint64_t refusals_unlogged;
	char name[64];

	struct leat_stream_net_stats stats;
	struct leat_asked asked; /* requests of telemetry, answered in the net's turn */
	struct leat_tune_object *tune;
	struct stream_tune_settings set;
};

/* Add to a counter that the net's thread alone writes, and any thread reads. */
#define STREAM_COUNT(counter, n) __atomic_store_n(&(counter), (counter) + (n), __ATOMIC_RELAXED)

/* mem.c */
/*
 * Map and register a stream's memory. @return 0; -ENOBUFS: beyond mem_max; -ENOMEM, or as
 * leat_mr_register(); with leat_err()
 */
int stream_mem_get(struct leat_stream *s);
/* Deregister a stream's memory: its peer can't write any more, but arrived bytes can be read. */
void stream_mem_close(struct leat_stream *s);
void stream_mem_put(struct leat_stream *s);

/* conn.c */
void stream_on_ep_event(void *arg, struct leat_ep *ep, const struct leat_event *ev);
/* Free a stream if nothing refers to it any more. */
void stream_slot_put(struct leat_stream *s);

/* turn.c */
void stream_on_ops(void *arg, struct leat_ep *ep, struct leat_op **ops, uint16_t n, uint64_t now);
int stream_turn(void *arg, uint64_t now);
bool stream_turn_ready(void *arg);
/* Post all receives that are not posted. */
void stream_rx_post(struct leat_stream_net *net);
/* Queue a stream that has something to post, or to check, in this turn. */
void stream_work(struct leat_stream *s);
/* Queue a stream whose post found no room in the device, to be retried in the next turn. */
void stream_starve(struct leat_stream *s);

/* ready.c */
void stream_ready_touch(struct leat_stream *s);
int stream_ready_run(struct leat_stream_net *net);
/*
 * Wait in a task. *released: the stream was released meanwhile; it and its net may be freed.
 * @return states of want that the stream is in, or a negative errno
 */
int stream_wait(struct leat_stream *s, uint32_t want, bool *released);

/* tx.c */
void stream_tx_run(struct leat_stream *s);
void stream_tx_done(struct stream_tx_op *t);
bool stream_tx_empty(const struct leat_stream *s);
/* End all sends of the application's memory that are not posted in full: done() gets an error. */
void stream_tx_end(struct leat_stream *s);
int stream_outs_run(struct leat_stream_net *net);

/* rx.c */
void stream_rx_notice(struct leat_stream *s, uint64_t imm);
/* Check whether a whole window has been read, so that it can be registered again. */
bool stream_rx_can_register(const struct leat_stream *s);
void stream_rx_registered(struct leat_stream *s);
uint32_t stream_rx_window(const struct leat_stream *s);

/* reorder.c */
/* Process a notice of mode WINDOWS. @return number of bytes that became readable; -EPROTO */
int64_t stream_reorder_notice(struct leat_stream *s, uint64_t imm);

/* ctrl.c */
void stream_ctrl_run(struct leat_stream *s);
void stream_ctrl_done(struct stream_ctrl_op *c);
void stream_ctrl_arrived(struct leat_stream *s, const uint8_t *msg, size_t len);
void stream_ctrl_up(struct leat_stream *s);

/* timer.c */
void stream_timer_init(struct leat_stream *s);
/* Limit the time in which an accepted stream has to come up. */
void stream_timer_accepted(struct leat_stream *s);
void stream_timer_up(struct leat_stream *s);
/* Restart the timer, after a deadline has changed. */
void stream_timer_set(struct leat_stream *s);
void stream_timer_stop(struct leat_stream *s);

/* end.c */
void stream_fail(struct leat_stream *s, int error, const char *fmt, ...)
	__rte_format_printf(3, 4) __rte_cold;
/* End a stream whose peer the device has released. */
void stream_down(struct leat_stream *s, int status, const char *text);
void stream_drain_check(struct leat_stream *s);
int stream_net_drain(void *arg, uint64_t until);
int stream_net_quiesce(void *arg, char *what, size_t len);
void stream_close_all(struct leat_stream_net *net, uint64_t at);

/* telemetry.c */
void stream_telemetry_add(struct leat_stream_net *net);

/*
 * tune.c: publish the net's settings and counters (leat_tune.h). @return 0, or negative with
 * leat_err()
 */
int stream_tune_add(struct leat_stream_net *net);
void stream_telemetry_del(struct leat_stream_net *net);
void stream_telemetry_answer(struct leat_stream_net *net);

#endif /* STREAM_PVT_H */
