/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PERF_SIDE_H
#define PERF_SIDE_H

/*
 * A side: an endpoint with one peer, its buffers, and the ops of the current run.
 *
 *     tx ops   0 .. nb_tx-1   sends; message seq uses op seq % nb_tx
 *     rx ops   0 .. nb_rx-1   receives; posted again when they have completed
 *
 *     arena    | remote slots | tx buffers | rx buffers |     buffers only if larger than those
 *                                                             of the mempool
 *
 * The remote slots are the memory that the other side reaches with one-sided ops: slot seq % window
 * belongs to message seq.
 *
 * In flight are the last `posted - returned` sends, control messages included, since sends complete
 * in order (the peer's send queue). So the next tx op is free when fewer than nb_tx are in flight.
 */

#include <sched.h>

#include <rte_cycles.h>
#include <rte_pause.h>

#include <leat_ep.h>
#include <leat_msg.h>
#include <leat_time.h>
#include <leat_tune.h>

#include "perf_tune.h"
#include "wire.h"

/* Maximum number of ops that a poll returns. */
#define PERF_POLL 64
/* Receives for control messages, in runs in which data messages use other receives, or none. */
#define PERF_CTL_RX 4
/* Receives of the connection for messages: see leat_msg_conf.credits. */
#define PERF_MSG_RX (2 * LEAT_MSG_CREDITS_DEFAULT + 2)
/* Ops that a side may have in flight besides the window. */
#define PERF_TX_SPARE 8
/* A slot of an atomic takes a cache line. */
#define PERF_WORD_STRIDE 64

struct perf_side {
	/* fields of the fast path */
	struct leat_ep *ep;
	struct leat_op **txp;	   /* the tx ops, twice, so that any window of them is contiguous */
	uint64_t posted, returned; /* number of sends posted, and completed; control messages too */
	uint64_t size;		   /* bytes per message of the run */
	uint64_t seq;		   /* messages sent in the run; client: in its earlier phases */
	uint64_t next_tick;	   /* cycles: when perf_side_tick() is due next */
	uint32_t nb_tx;
	uint32_t limit;		/* maximum number of ops in flight, at most nb_tx; see tune.c */
	uint32_t burst;		/* ops per post, at most limit */
	uint32_t spins;		/* number of empty polls */
	enum perf_idle idle;	/* never AUTO */
	bool woken;		/* with PERF_IDLE_BLOCK: just woken up, perhaps by an event */
	struct perf_msgs *msgs; /* connection of lib/msg, or NULL */

	/* buffers */
	struct leat_op *tx, *rx;
	uint32_t nb_rx;
	uint32_t tx_cap, rx_cap;
	struct leat_op **rx_wait; /* receives that the device has had no room for yet */
	uint32_t nb_rx_wait;
	struct leat_op *ctl_tx; /* two sends for control messages, used in turns */
	uint32_t ctl_next;	/* index of the next of these sends */
	uint32_t ctl_len;	/* bytes of control messages; data messages have another length */
	uint64_t ctl_seq[2];	/* ctl_tx[i] is free once `returned` is at least this */
	void **bufs;		/* all buffers of the mempool */
	uint32_t nb_bufs, buf_size;
	struct rte_mempool *pool;
	struct leat_mr *pool_mr;
	uint8_t *arena;
	uint64_t arena_len;
	bool arena_eal; /* the arena is EAL's memory */
	struct leat_mr *arena_mr;
	uint8_t *remote;	/* the remote slots, which the other side reaches */
	uint64_t remote_stride; /* bytes from one slot to the next, on both sides */
	struct leat_rkey there; /* the other side's remote slots */

	/* the run */
	struct perf_run run;
	struct perf_errors errors;
	uint64_t count;	  /* messages received, or notices of WRITE_IMMs */
	uint64_t checked; /* messages of one-sided ops whose memory was verified */
	uint64_t corrupt; /* see perf_options */
	bool server;

	/* the other side */
	uint16_t peer;
	bool up;
	char peer_addr[LEAT_ADDR_MAX];
	struct perf_card card, other;
	struct wire_msg ctl; /* the received control message, if ctl_full */
	bool ctl_full;

	/* timeouts and failures */
	const volatile sig_atomic_t *stop; /* the side ends when this is nonzero */
	uint64_t tick;			   /* cycles between two calls of perf_side_tick() */
	/* cycles without a completed op after which the other side counts as stuck */
	uint64_t timeout;
	/* when `timeout` will have passed, cycles; number of completed ops at the last tick */
	uint64_t stall_at, stall_seen;
	bool no_timeout;     /* the other side is to send next, and may be silent for any time */
	char why[PERF_TEXT]; /* cause of the failure */
	struct leat_dev_info info;

	/* settings and measurements, tune.c */
	struct perf_tune_settings set;
	struct leat_tune_object *tune;
	struct leat_tune_histogram latency;
	double rate;			/* messages/s of an open loop */
	uint32_t window_max;		/* largest window that has buffers */
	bool windowed;			/* the runs have several messages in flight */
	uint64_t ctl_posted;		/* number of control messages in `posted` */
	uint64_t counted;		/* messages of the run that are counted in `messages` */
	uint64_t messages, transferred; /* totals of all runs; transferred: bytes */
	uint64_t errors_before;		/* errors of the runs before this one */

	/* progress on stderr */
	const char *progress;		      /* name of the current run; NULL: print no progress */
	uint64_t progress_at, progress_start; /* cycles: when to print next, start of the run */
};

/* ---- side.c ---- */

struct perf_side_conf {
	const char *name;
	struct leat_dev *dev;
	uint32_t ops;	   /* op types to be posted; SEND and RECV are added */
	uint32_t tx_depth; /* 0: the device's default */
	uint16_t max_peers;
	uint32_t mbufs, mbuf_size; /* buffers of the mempool, bytes of each */
	bool eal_memory;	   /* allocate the arena from EAL */
	uint64_t timeout_us;
	const volatile sig_atomic_t *stop;
	bool server;
	bool wait; /* the side will block: idle policy BLOCK */
	bool tags; /* use the ops that the library implements in software, too */
	/* client: values of the options, for the settings of perf.toml */
	uint32_t window, burst;
	double rate;
	bool windowed;
};

/* Describe the endpoint that a side will create. @return 0, or -EINVAL with leat_err_msg() */
int perf_dev_info(const struct leat_dev *dev, bool tags, struct leat_dev_info *info);

/*
 * Create endpoint and buffers. After a failure, too, perf_side_close() is to be called.
 * @return 0, or a negative errno with s->why
 */
int perf_side_open(struct perf_side *s, const struct perf_side_conf *conf);
/*
 * Close connections, endpoint and memory. Each step waits for 2 s at most.
 * @return 0, or -EBUSY: the device still uses the memory, which is leaked
 */
int perf_side_close(struct perf_side *s);
/* Store the cause of a failure in s->why. @return -err */
int __attribute__((format(printf, 3, 4)))
perf_fail(struct perf_side *s, int err, const char *fmt, ...);
/* Store in s->why that an op failed. @return the op's status */
int perf_op_failed(struct perf_side *s, const struct leat_op *op);
/*
 * Find the cause of a failed op: poll until the connection has ended, for at most half a second,
 * and store why it ended in s->why. s->why stays unchanged if the connection does not end, or had
 * ended before.
 */
void perf_side_find_cause(struct perf_side *s);
/* Handle events. @return 0, or a negative errno with s->why if the connection ended */
int perf_side_events(struct perf_side *s);
/*
 * Do the periodic work: settings, s->stop, events, receives to post again, progress, timeout.
 * @return 0, -EINTR (s->stop), -ETIMEDOUT, or as perf_side_events()
 */
int perf_side_tick(struct perf_side *s, uint64_t now);
/* Sleep until the endpoint may have completions or events, or a tick is overdue. */
void perf_side_block(struct perf_side *s);
/* Restart the timeout: no answer of the other side is outstanding. */
static inline void
perf_side_restart_timeout(struct perf_side *s, uint64_t now)
{
	s->stall_at = now + s->timeout;
}

/* Sleep a millisecond: nothing is urgent, and other threads get the CPU. */
void perf_nap(void);
bool perf_progress_wanted(const struct perf_options *o);
/* Restart the timeout and the tick. */
void perf_side_restart_timers(struct perf_side *s);

/* ---- mem.c ---- */

/* Functions that return int return 0, or a negative errno with s->why. */

int perf_mem_open(struct perf_side *s, const struct perf_side_conf *conf);
/* leak: free nothing, since a device may still write to the memory. */
void perf_mem_close(struct perf_side *s, bool leak);
/* Set up buffers and ops for s->run. No receive may be posted: see perf_rx_recall(). */
int perf_mem_prepare(struct perf_side *s);
/* Deregister the arena; tries for a second. @return 0, or -EBUSY */
int perf_mem_unregister(struct perf_side *s);
/* Point the tx ops at the other side's remote slots, s->there. */
void perf_mem_set_remote(struct perf_side *s);
/* Limit a window to the memory that a run may use. @return the window, at least 1 */
uint32_t perf_window_fit(uint64_t size, uint32_t window);
/* Get the key of the remote slots; all 0 if the run has none. */
int perf_mem_rkey(struct perf_side *s, struct leat_rkey *rkey);
/* Return the bytes of remote slots that a run needs. */
uint64_t perf_remote_len(const struct perf_run *run);

/* ---- chan.c: functions that return int return 0, or a negative errno with s->why ---- */

/* Post all receives that perf_mem_prepare() set up. */
void perf_rx_post_all(struct perf_side *s);
/* Cancel all receives, and poll until each has completed. */
int perf_rx_recall(struct perf_side *s);
/* Post receives again. Those that the device has no room for wait for the next tick. */
void perf_rx_repost(struct perf_side *s, struct leat_op **ops, uint32_t n);
/* Handle a receive that holds no data: store the control message in s->ctl, and post it again. */
int perf_chan_input(struct perf_side *s, struct leat_op *op);
/* Fail: a control message came while only data may come. @return a negative errno */
int perf_chan_stray(struct perf_side *s);
/* Poll once, while only control messages may come. */
int perf_chan_poll(struct perf_side *s);
/* Send a control message; polls while there is no room. */
int perf_chan_send(struct perf_side *s, const struct wire_msg *m);
/* Wait for a control message and copy it to *m. REFUSED becomes an error. */
int perf_chan_wait(struct perf_side *s, struct wire_msg *m);
/* Exchange HELLOs, the first messages of a connection; stores the other side's card in s->other. */
int perf_chan_hello(struct perf_side *s);
/* Poll until all sends have completed. */
int perf_chan_drain(struct perf_side *s);

/* ---- msgs.c: functions that return int return 0, or a negative errno with s->why ---- */

/* Client: open the connection for messages, unless there is one. */
int perf_msg_connect(struct perf_side *s);
/* Server: accept a connection for messages. @return false: the caller must reject the request */
bool perf_msg_request(struct perf_side *s, const struct leat_event *ev);
/* Offer an event to lib/msg. @return true: the event belongs to the connection for messages */
bool perf_msg_event(struct perf_side *s, const struct leat_event *ev);
/* Handle the events of lib/msg. */
int perf_msg_events(struct perf_side *s);
/* Set up a request for each op of the run. */
int perf_msg_prepare(struct perf_side *s);
/* Like leat_op_cancel(); an op that is a message of lib/msg is cancelled, too. */
int perf_msg_cancel(struct perf_side *s, struct leat_op *op);
/* Close the connection for messages, if there is one. @return 0, or -EBUSY */
int perf_msg_close(struct perf_side *s);
/* Like leat_ep_post() and leat_ep_poll(), but data ops of a run of --op msg use lib/msg. */
uint16_t perf_msg_post(struct perf_side *s, struct leat_op **ops, uint16_t n);
uint16_t perf_msg_poll(struct perf_side *s, struct leat_op **ops, uint16_t n);

/* ---- inline functions of the fast path ---- */

static __rte_always_inline uint16_t
perf_post(struct perf_side *s, struct leat_op **ops, uint16_t n)
{
	return likely(s->msgs == NULL) ? leat_ep_post(s->ep, ops, n) : perf_msg_post(s, ops, n);
}

static __rte_always_inline uint16_t
perf_poll(struct perf_side *s, struct leat_op **ops, uint16_t n)
{
	return likely(s->msgs == NULL) ? leat_ep_poll(s->ep, ops, n) : perf_msg_poll(s, ops, n);
}

/*
 * Idle after an empty poll. A spinning loop reads the clock seldom, and ticks here only when a tick
 * is overdue by a whole interval: ticks belong between two messages, where they delay none.
 * The policy PERF_IDLE_BLOCK sleeps if block is true, else it yields. Only a caller that waits for
 * completions alone, not for a write to memory or a time, may sleep. @return 0, or as
 * perf_side_tick()
 */
static inline int
perf_idle_how(struct perf_side *s, const bool block)
{
	uint64_t now;

	s->spins++;
	if (likely(s->idle == PERF_IDLE_SPIN)) {
		if (likely((s->spins & 0xff) != 0))
			return 0;
	} else if (s->idle == PERF_IDLE_PAUSE) {
		rte_pause();
		if (likely((s->spins & 0x3f) != 0))
			return 0;
	} else if (block && s->idle == PERF_IDLE_BLOCK) {
		if (s->woken) {
			s->woken = false;
			return perf_side_tick(s, rte_rdtsc());
		}
		perf_side_block(s);
	} else {
		sched_yield();
	}
	now = rte_rdtsc();
	if (likely(now < s->next_tick + s->tick))
		return 0;
	return perf_side_tick(s, now);
}

static inline int
perf_idle(struct perf_side *s)
{
	return perf_idle_how(s, true);
}

/* Idle while waiting for a write to memory, or for a time: PERF_IDLE_BLOCK yields. */
static inline int
perf_idle_awake(struct perf_side *s)
{
	return perf_idle_how(s, false);
}

/* Tick if one is due. Call between two messages, with the current time. */
static inline int
perf_due(struct perf_side *s, uint64_t now)
{
	return likely(now < s->next_tick) ? 0 : perf_side_tick(s, now);
}

static inline bool
perf_is_recv(const struct leat_op *op)
{
	return (LEAT_OP_BIT(op->type) & LEAT_OP_MASK_RECV) != 0;
}

/* Does a receive hold data of the run? imm: the run's messages are WRITE_IMMs. */
static inline bool
perf_is_data(const struct perf_side *s, const struct leat_op *op, const bool imm)
{
	if (unlikely(op->status != 0))
		return false;
	return imm ? (op->oflags & LEAT_OP_F_WRITTEN) != 0 : op->len == s->size;
}

/* Return how many sends may still be posted. */
static inline uint32_t
perf_tx_room(const struct perf_side *s)
{
	uint64_t inflight = s->posted - s->returned;

	return inflight < s->limit ? s->limit - (uint32_t)inflight : 0;
}

/* ---- tune.c ---- */

int perf_tune_open(struct perf_side *s, const struct perf_side_conf *conf);
void perf_tune_close(struct perf_side *s);
/* Set limit, burst and rate from the settings, within the buffers of the run. */
void perf_tune_limits(struct perf_side *s);
/* Add the messages and bytes of the run since the last call to the totals that agents read. */
void perf_tune_count(struct perf_side *s);
/* Add the run's counts and errors to the totals, before its counters are reset. */
void perf_tune_carry(struct perf_side *s);

/* ---- the measuring loops ---- */

/* A phase of a run: warm-up or measurement. */
struct perf_phase {
	uint64_t n;			  /* messages to send; UINT64_MAX: send until `until` */
	uint64_t until;			  /* cycles; UINT64_MAX: send n messages */
	uint64_t done;			  /* messages done */
	uint64_t start, end;		  /* cycles */
	struct leat_histogram *hist;	  /* ns; NULL: don't record */
	struct leat_tune_histogram *live; /* the same samples, for telemetry; NULL if hist is */
	bool whole;			  /* record whole round trips, not halves */
	/* open loop */
	double rate;			 /* messages/s */
	uint64_t unsent, late, late_max; /* as in perf_row, but late_max: cycles */
};

/*
 * Run a phase. Each function returns 0 at its end, -EINTR when asked to stop, or a negative errno
 * with s->why. In each case ph has the results so far.
 */
int perf_lat_pingpong(struct perf_side *s,
		      struct perf_phase *ph); /* send, tagged, msg, write_imm */
int perf_lat_initiator(struct perf_side *s, struct perf_phase *ph); /* read, atomics */
int perf_lat_write(struct perf_side *s, struct perf_phase *ph);
int perf_bw(struct perf_side *s, struct perf_phase *ph);
int perf_openloop(struct perf_side *s, struct perf_phase *ph);

/* Serve until s->ctl has a control message. @return 0, or a negative errno with s->why */
int perf_serve(struct perf_side *s);
int perf_serve_write(struct perf_side *s); /* in lat_write.c */

/* Number of samples that are stored, then recorded all at once, since recording delays messages. */
#define PERF_SAMPLES 2048

struct perf_samples {
	struct perf_phase *ph;
	uint32_t n;
	uint64_t cycles[PERF_SAMPLES];
};

void perf_samples_flush(struct perf_samples *sm);

/*
 * Record an exchange of a closed loop that began at *t0 and ended at t1. *t0 becomes the start of
 * the next exchange: t1, or later if samples were flushed, a tick was due, or the message was
 * checked. @return 0, or as perf_due()
 */
static __rte_always_inline int
perf_lap(struct perf_side *s, struct perf_samples *sm, uint64_t *t0, uint64_t t1, const bool check)
{
	bool full;
	int ret;

	sm->cycles[sm->n++] = t1 - *t0;
	full = sm->n == PERF_SAMPLES;
	if (likely(!full && t1 < s->next_tick && !check)) {
		*t0 = t1;
		return 0;
	}
	if (full)
		perf_samples_flush(sm);
	ret = perf_due(s, t1);
	*t0 = rte_rdtsc();
	return ret;
}

/* End a phase of `done` exchanges, the last of which ended at t1. */
void perf_laps_end(struct perf_side *s, struct perf_samples *sm, uint64_t t1, uint64_t done);

/* ---- rma.c: verify messages, one-sided memory and atomics; errors go to s->errors ---- */

/* Verify message seq, received by op. imm: it is a WRITE_IMM, and its data are in s->remote. */
void perf_rx_verify(struct perf_side *s, const struct leat_op *op, uint64_t seq, bool imm);
/* Return the bits of an immediate that the device transfers. */
static inline uint64_t
perf_imm(const struct perf_side *s, uint64_t imm)
{
	return s->info.imm_size >= 8 ? imm : (uint32_t)imm;
}
/* Return the direction of messages that this side receives, and of those that it sends. */
static inline enum perf_dir
perf_dir_in(const struct perf_side *s)
{
	return s->server ? PERF_TO_SERVER : PERF_TO_CLIENT;
}
static inline enum perf_dir
perf_dir_out(const struct perf_side *s)
{
	return s->server ? PERF_TO_CLIENT : PERF_TO_SERVER;
}

/* Fill the remote slots before a run: the server's, and for ping-pong by WRITE both sides'. */
void perf_rma_init(struct perf_side *s);
/* Server, at SYNC: verify the remote slots after `count` messages. */
void perf_rma_verify(struct perf_side *s, uint64_t count);
/* With --check: fill in message seq; return its op. */
struct leat_op *perf_tx_prepare(struct perf_side *s, uint64_t seq);
/* Client: verify the result of message seq, whose op has completed. */
void perf_tx_verify(struct perf_side *s, uint64_t seq);

#endif /* PERF_SIDE_H */
