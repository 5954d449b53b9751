/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PERF_SIDE_H
#define PERF_SIDE_H

/*
 * A side: an endpoint with one peer, its buffers, and the ops of the current run.
 *
 *     tx ops   0 .. nb_tx-1   what this side sends; message seq goes by op seq % nb_tx
 *     rx ops   0 .. nb_rx-1   receives; posted again as they come back
 *
 *     arena    | remote slots | tx buffers | rx buffers |     the last two only if larger than a
 *                                                             buffer of the mempool
 *
 * The remote slots are the memory that the other side reaches with one-sided ops: slot seq % window
 * belongs to message seq.
 *
 * In flight are the last `posted - returned` sends: they come back in order (the peer's send queue),
 * control messages among them, so an op is free when fewer than nb_tx are in flight.
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

/* Ops per poll. */
#define PERF_POLL 64
/* Receives for control messages where the data don't take the same ones. */
#define PERF_CTL_RX 4
/* Receives of the connection for messages: see leat_msg_conf.credits. */
#define PERF_MSG_RX (2 * LEAT_MSG_CREDITS_DEFAULT + 2)
/* Ops that a side may have in flight besides the window. */
#define PERF_TX_SPARE 8
/* A slot of an atomic takes a cache line. */
#define PERF_WORD_STRIDE 64

struct perf_side {
	/* the hot part */
	struct leat_ep *ep;
	struct leat_op **txp;	   /* the tx ops, twice, so that any window of them is contiguous */
	uint64_t posted, returned; /* sends, control messages included */
	uint64_t size;		   /* of the run */
	uint64_t seq;		   /* messages of the run begun so far */
	uint64_t next_tick;	   /* cycles */
	uint32_t nb_tx;
	uint32_t limit;		/* ops in flight, at most nb_tx; see tune.c */
	uint32_t burst;		/* at most limit */
	uint32_t spins;		/* empty polls */
	enum perf_idle idle;	/* not AUTO */
	bool woken;		/* BLOCK: what for may be an event */
	struct perf_msgs *msgs; /* NULL: no run of messages is under way */

	/* buffers */
	struct leat_op *tx, *rx;
	uint32_t nb_rx;
	uint32_t tx_cap, rx_cap;
	struct leat_op **rx_wait; /* receives that could not be posted again yet */
	uint32_t nb_rx_wait;
	struct leat_op *ctl_tx; /* two, taken in turns */
	uint32_t ctl_next;
	uint32_t ctl_len;    /* of control messages: none that the other side takes for data */
	uint64_t ctl_seq[2]; /* value of returned from which on it is free */
	void **bufs;	     /* all of the mempool */
	uint32_t nb_bufs, buf_size;
	struct rte_mempool *pool;
	struct leat_mr *pool_mr;
	uint8_t *arena;
	uint64_t arena_len;
	bool arena_eal; /* EAL's memory */
	struct leat_mr *arena_mr;
	uint8_t *remote; /* the slots that the other side reaches here */
	uint64_t remote_stride;
	struct leat_rkey there; /* those of the other side */

	/* the run */
	struct perf_run run;
	struct perf_errors errors;
	uint64_t count;	  /* messages received, or noticed */
	uint64_t checked; /* of the messages of one-sided ops, those whose memory was verified */
	uint64_t corrupt;
	bool server;

	/* the other side */
	uint16_t peer;
	bool up;
	char peer_addr[LEAT_ADDR_MAX];
	struct perf_card card, other;
	struct wire_msg ctl; /* a control message that came, if ctl_full */
	bool ctl_full;

	/* limits and ends */
	const volatile sig_atomic_t *stop;
	uint64_t tick;	  /* cycles between looks at what is not fast */
	uint64_t timeout; /* cycles without any op done until the other side counts as stuck */
	uint64_t stall_at, stall_seen;
	bool patient;	     /* it is for the other side to do something, as late as it likes */
	char why[PERF_TEXT]; /* what went wrong */
	struct leat_dev_info info;

	/* settings and measurements, tune.c */
	struct perf_tune_settings set;
	struct leat_tune_object *tune;
	struct leat_tune_histogram latency;
	double rate; /* of an open loop */
	uint32_t window_max;
	bool windowed;	     /* several messages are in flight */
	uint64_t ctl_posted; /* of posted: control messages */
	uint64_t counted;    /* messages of the run that are in `messages` */
	uint64_t messages, transferred;
	uint64_t errors_before; /* of the runs before this one */

	/* progress on stderr */
	const char *progress; /* what is going on, NULL: silent */
	uint64_t progress_at, progress_start;
};

/* ---- side.c ---- */

struct perf_side_conf {
	const char *name;
	struct leat_dev *dev;
	uint32_t ops;	   /* types to be posted, SEND and RECV besides */
	uint32_t tx_depth; /* 0: device's default */
	uint16_t max_peers;
	uint32_t mbufs, mbuf_size;
	bool eal_memory; /* of the arena */
	uint64_t timeout_us;
	const volatile sig_atomic_t *stop;
	bool server;
	bool wait; /* it will block */
	bool tags; /* with the ops that the library does in software */
	/* client: what is run, for perf.toml; 0: see there */
	uint32_t window, burst;
	double rate;
	bool windowed;
};

/* What a side's endpoint will be like, and its ops. @return 0 or -EINVAL with leat_err_msg() */
int perf_dev_info(const struct leat_dev *dev, bool tags, struct leat_dev_info *info);

/* @return 0 or a negative errno with s->why; then it need not be closed. */
int perf_side_open(struct perf_side *s, const struct perf_side_conf *conf);
/* Ends everything, within about a second. @return 0, or -EBUSY: the device did not let go; memory stays */
int perf_side_close(struct perf_side *s);
/* Notes what went wrong. @return -err */
int __attribute__((format(printf, 3, 4)))
perf_fail(struct perf_side *s, int err, const char *fmt, ...);
/* An op came back with a status < 0. @return it */
int perf_op_failed(struct perf_side *s, const struct leat_op *op);
/* The op failed because the connection did? Says why in s->why, if that can be learned soon. */
void perf_side_why(struct perf_side *s);
/* Handles events. @return 0, -ECONNRESET and such if the peer is gone */
int perf_side_events(struct perf_side *s);
/* What is to be done every few ms. @return 0, -EINTR, -ETIMEDOUT, or as perf_side_events() */
int perf_side_tick(struct perf_side *s, uint64_t now);
/* Sleeps until something comes, or the next tick is due. */
void perf_side_block(struct perf_side *s);
/* Nobody has to answer now. */
static inline void
perf_side_unstall(struct perf_side *s, uint64_t now)
{
	s->stall_at = now + s->timeout;
}

/* A millisecond, where nothing is urgent and others may have the CPU. */
void perf_nap(void);
bool perf_progress_wanted(const struct perf_options *o);
/* The stall clock starts anew. */
void perf_side_fresh(struct perf_side *s);

/* ---- mem.c ---- */

int perf_mem_open(struct perf_side *s, const struct perf_side_conf *conf);
void perf_mem_close(struct perf_side *s, bool leak);
/* Buffers and ops for s->run. Receives must have been recalled. @return 0, or negative with s->why */
int perf_mem_prepare(struct perf_side *s);
/* Ends the registration of the arena. @return 0, or -EBUSY */
int perf_mem_unregister(struct perf_side *s);
/* The tx ops get the address of the other side's slots, s->there. */
void perf_mem_aim(struct perf_side *s);
/* A window that fits into the memory that a run may take. */
uint32_t perf_window_fit(uint64_t size, uint32_t window);
/* Key of the remote slots. */
int perf_mem_rkey(struct perf_side *s, struct leat_rkey *rkey);
/* Bytes of remote slots that a run needs. */
uint64_t perf_remote_len(const struct perf_run *run);

/* ---- chan.c ---- */

/* Posts all receives of the run (or those of a side without one). */
void perf_rx_post_all(struct perf_side *s);
/* Takes all receives back. */
int perf_rx_recall(struct perf_side *s);
/* Posts receives again; those that find no room wait. */
void perf_rx_repost(struct perf_side *s, struct leat_op **ops, uint32_t n);
/* A receive that is not data: a control message, or an error. Posts it again. */
int perf_chan_input(struct perf_side *s, struct leat_op *op);
/* A control message came where only data may come. @return negative */
int perf_chan_stray(struct perf_side *s);
/* Polls once, where only control messages may come. */
int perf_chan_poll(struct perf_side *s);
int perf_chan_send(struct perf_side *s, const struct wire_msg *m);
/* Waits for a control message, takes it. REFUSED becomes an error. */
int perf_chan_wait(struct perf_side *s, struct wire_msg *m);
/* The first messages of a connection: who is there. @return 0 and s->other, or negative with s->why */
int perf_chan_hello(struct perf_side *s);
/* Waits until all sends came back. */
int perf_chan_drain(struct perf_side *s);

/* ---- msgs.c ---- */

/* Client: the connection for messages, if there is none yet. */
int perf_msg_connect(struct perf_side *s);
/* Server: a request to connect. @return false: it is none for messages, and to be rejected */
bool perf_msg_request(struct perf_side *s, const struct leat_event *ev);
/* @return whether it is the messages' */
bool perf_msg_event(struct perf_side *s, const struct leat_event *ev);
int perf_msg_events(struct perf_side *s);
/* A request for each op of the run. */
int perf_msg_prepare(struct perf_side *s);
/* As leat_op_cancel(), also for what perf_msg_post() took. */
int perf_msg_cancel(struct perf_side *s, struct leat_op *op);
/* Ends the connection, if there is one. @return 0, or -EBUSY */
int perf_msg_close(struct perf_side *s);
/* As leat_ep_post() and leat_ep_poll(); of a run's ops the messages. */
uint16_t perf_msg_post(struct perf_side *s, struct leat_op **ops, uint16_t n);
uint16_t perf_msg_poll(struct perf_side *s, struct leat_op **ops, uint16_t n);

/* ---- on the fast path ---- */

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
 * After an empty poll. Time is looked at seldom when spinning, and late: ticks belong between two
 * messages, where they cost no one anything. With block, only for those who wait for nothing but ops.
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

/* The same for those who wait for memory to be written, or for a time: block is yield. */
static inline int
perf_idle_awake(struct perf_side *s)
{
	return perf_idle_how(s, false);
}

/* Between messages, with the time at hand. */
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

/* Does a receive hold data of the run? imm: its messages are WRITE_IMM. */
static inline bool
perf_is_data(const struct perf_side *s, const struct leat_op *op, const bool imm)
{
	if (unlikely(op->status != 0))
		return false;
	return imm ? (op->oflags & LEAT_OP_F_WRITTEN) != 0 : op->len == s->size;
}

static inline uint32_t
perf_tx_room(const struct perf_side *s)
{
	uint64_t inflight = s->posted - s->returned;

	return inflight < s->limit ? s->limit - (uint32_t)inflight : 0;
}

/* ---- tune.c ---- */

int perf_tune_open(struct perf_side *s, const struct perf_side_conf *conf);
void perf_tune_close(struct perf_side *s);
/* A run has its buffers: what of the settings it can use. */
void perf_tune_limits(struct perf_side *s);
/* Counts what the run has done so far. */
void perf_tune_count(struct perf_side *s);
/* The same, since its counters begin anew. */
void perf_tune_carry(struct perf_side *s);

/* ---- the loops ---- */

/* Part of a run: warm-up or measurement. */
struct perf_phase {
	uint64_t n;			  /* messages; UINT64_MAX: until `until` */
	uint64_t until;			  /* cycles, UINT64_MAX: until n */
	uint64_t done;			  /* messages done */
	uint64_t start, end;		  /* cycles */
	struct leat_histogram *hist;	  /* ns; NULL: don't record */
	struct leat_tune_histogram *live; /* the same for agents, with hist */
	bool whole;			  /* record whole round trips */
	/* open loop */
	double rate;
	uint64_t unsent, late, late_max; /* late_max: cycles */
};

/*
 * Each returns 0 when the phase is over, -EINTR when asked to stop, or a negative errno with s->why. In
 * each case ph tells what was measured.
 */
int perf_lat_pingpong(struct perf_side *s,
		      struct perf_phase *ph); /* send, tagged, msg, write_imm */
int perf_lat_initiator(struct perf_side *s, struct perf_phase *ph); /* read, atomics */
int perf_lat_write(struct perf_side *s, struct perf_phase *ph);
int perf_bw(struct perf_side *s, struct perf_phase *ph);
int perf_openloop(struct perf_side *s, struct perf_phase *ph);

/* Serves until a control message came (in s->ctl). @return 0 or negative with s->why */
int perf_serve(struct perf_side *s);
int perf_serve_write(struct perf_side *s); /* in lat_write.c */

/* Collects samples, so that the loop between two messages is short. */
#define PERF_SAMPLES 2048

struct perf_samples {
	struct perf_phase *ph;
	uint32_t n;
	uint64_t cycles[PERF_SAMPLES];
};

void perf_samples_flush(struct perf_samples *sm);

/*
 * Between two exchanges of a closed loop: the one that began at *t0 ended at t1. The next one begins at once, or
 * after what is rare; *t0 tells when. @return 0, or as perf_due()
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

/* After the last of `done` exchanges, which ended at t1. */
void perf_laps_end(struct perf_side *s, struct perf_samples *sm, uint64_t t1, uint64_t done);

/* ---- check of messages, of one-sided memory and of atomics, rma.c ---- */

/* Message seq came: is it right? imm: it is a WRITE_IMM, and in s->remote. */
void perf_rx_verify(struct perf_side *s, const struct leat_op *op, uint64_t seq, bool imm);
/* The part of an immediate that arrives. */
static inline uint64_t
perf_imm(const struct perf_side *s, uint64_t imm)
{
	return s->info.imm_size >= 8 ? imm : (uint32_t)imm;
}
/* What comes in, and what goes out. */
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

/* Server: fills the memory that the client reads or changes. */
void perf_rma_init(struct perf_side *s);
/* Server, at SYNC: is everything there that `count` messages left? */
void perf_rma_verify(struct perf_side *s, uint64_t count);
/* Makes message seq ready to be posted, with check; returns its op. */
struct leat_op *perf_tx_prepare(struct perf_side *s, uint64_t seq);
/* Client: message seq came back: is its result right? */
void perf_tx_verify(struct perf_side *s, uint64_t seq);

#endif /* PERF_SIDE_H */
