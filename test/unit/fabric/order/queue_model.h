/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef QUEUE_MODEL_H
#define QUEUE_MODEL_H

/*
 * A model of the ordering layer, and a device whose ops complete when and how the test says.
 *
 * The device is the endpoint's driver: its post and poll call the layer as a driver does, and tell
 * the model of each op started and finished. The model knows nothing of the layer's lists: it keeps
 * one FIFO of ops per queue and one FIFO of the ops that poll must return, in exactly that order.
 * All results of the layer are compared with the model:
 *
 *     test --post--> device --leat_op_start---> layer  --poll--> test
 *                      |                          |                |
 *                      +----qm_started--> model   +---- compared --+
 *
 * A difference prints the seed and fails the cmocka test.
 */

#include <stdbool.h>
#include <stdint.h>

#include <leat_ep.h>
#include <leat_order.h>

#define QM_PEERS 5 /* 0..2 up, 3 neither up nor free, 4 free */
#define QM_PEERS_UP 3
#define QM_OWN_QUEUES 3 /* queues created by the test */
#define QM_QUEUES (QM_PEERS + 1 + QM_OWN_QUEUES)
#define QM_RECVQ QM_PEERS /* index of the receive queue */
#define QM_NONE UINT32_MAX

#define QM_MAX_MSG 4096u

/* An op, and the model's state of it. */
struct qm_op {
	struct leat_op op; /* must be first */
	struct leat_op in; /* copy of the op as it was posted */
	int status;	   /* the status with which it was finished */
	int want;	   /* the result that leat_op_check() must have */
	uint64_t len;
	uint64_t since;	 /* when it began to be held back, cycles */
	uint32_t queue;	 /* index of its queue, or QM_NONE */
	uint32_t fl_pos; /* its index in qm.flight */
	bool in_flight;	 /* the device has the op */
	bool done;	 /* finished, not returned yet */
	bool recv;
	bool cancel;	 /* the device was asked to end the op early */
	bool expired;	 /* the op's deadline asked the device to end the op */
	bool recallable; /* the device can recall the op */
};

/* A FIFO of indices of ops. */
struct qm_fifo {
	uint32_t *v;
	uint32_t mask;
	uint32_t head, tail;
};

static inline uint32_t
qm_fifo_count(const struct qm_fifo *f)
{
	return f->tail - f->head;
}

static inline void
qm_fifo_push(struct qm_fifo *f, uint32_t i)
{
	f->v[f->tail++ & f->mask] = i;
}

static inline uint32_t
qm_fifo_front(const struct qm_fifo *f)
{
	return f->head == f->tail ? QM_NONE : f->v[f->head & f->mask];
}

static inline uint32_t
qm_fifo_pop(struct qm_fifo *f)
{
	return f->v[f->head++ & f->mask];
}

struct qm_queue {
	struct leat_queue *q; /* the layer's queue */
	struct qm_fifo fifo;
	uint64_t posted, returned, held, held_time;
	uint32_t held_now, held_max;
	uint64_t posted0, returned0; /* the layer's counters at the start */
};

/* The parameters of a run. */
struct qm_conf {
	uint64_t seed;
	uint32_t nb_ops; /* number of the test's ops: the largest window */
	uint32_t tx_depth, rx_depth;
	uint32_t burst_max; /* ops per post and per poll */
	uint8_t order;	    /* enum qm_order */
	uint8_t bad;	    /* per cent of ops that are invalid */
	uint8_t at_once;    /* per cent of ops that complete inside post */
	uint8_t fail;	    /* per cent of ops that fail in the device */
	uint8_t none;	    /* per cent of ops without a queue */
	uint8_t own;	    /* per cent of ops on a queue that the test created */
	/* per cent of ops with a deadline (only on an endpoint of the library) */
	uint8_t deadline;
	bool one_queue;	   /* all ops are sends to peer 0 */
	uint64_t clock;	   /* the time at which the mock clock starts */
	uint64_t counters; /* where the queues' counters start */
};

enum qm_order {
	QM_RANDOM,   /* any op in flight */
	QM_IN_ORDER, /* the oldest of some queue */
	QM_NEWEST,   /* the last one started */
	QM_BLOCKED,  /* any op, but rarely the oldest of a queue */
	QM_ORDERS,
};

struct qm {
	struct qm_conf conf;
	uint64_t rng;
	struct leat_ep *ep;
	struct qm_op *ops;
	struct qm_queue queue[QM_QUEUES];
	struct leat_queue own[QM_OWN_QUEUES];
	struct qm_fifo free; /* ops of the test that are not posted */
	struct qm_fifo out;  /* ops that poll must return */
	uint32_t *flight;    /* ops that the device has, in no particular order */
	uint32_t nb_flight;
	uint32_t peer_flight[QM_PEERS];
	uint32_t flight_recv;
	struct leat_ep_stats stats; /* the expected counters */
	struct leat_op **burst;
	/* The plan for the next poll of the device. */
	uint32_t plan;	     /* number of ops to finish */
	bool plan_heed_room; /* finish no more ops than the caller has room for */
	bool in_poll;
	uint64_t poll_now; /* timestamp of this poll, 0: not needed yet */
	volatile uint64_t clock;
	uint64_t steps;
	void (*ask)(struct qm *m); /* asks the device to end ops early */
	uint64_t refused_now;	   /* number of ops that this post refused */
	char mem[64];
};

uint64_t qm_rand(struct qm *m);
/* @return a random number in 0..n-1 */
uint32_t qm_below(struct qm *m, uint32_t n);
/* @return true in pct of 100 cases */
bool qm_chance(struct qm *m, uint32_t pct);

/* An endpoint that the library does not manage: it has no deadlines, no cancel, no events. */
struct qm_fake_ep {
	struct leat_ep ep;
	struct leat_peer peers[QM_PEERS];
};

/* Create a fake endpoint, with the model as its driver; call qm_init() next. */
void qm_fake_ep_init(struct qm_fake_ep *fake, const struct qm_conf *conf, struct qm *m);

/*
 * Allocate the model for an endpoint whose post and poll are qm_post_fn and qm_poll_fn and whose
 * drv is the model. The model's clock becomes the mock clock for good, so m must not be freed.
 */
void qm_init(struct qm *m, const struct qm_conf *conf, struct leat_ep *ep);
void qm_fini(struct qm *m);

/* The functions of the driver. */
uint16_t qm_post_fn(struct leat_ep *ep, struct leat_op **ops, uint16_t n);
void qm_poll_fn(struct leat_ep *ep);
/* Finish an op, as the device. */
void qm_finish(struct qm *m, uint32_t i, int status, uint64_t len);
/* Finish an op with a random status and length, as the device. */
void qm_finish_any(struct qm *m, uint32_t i);
/* @return the index of an op of the test */
uint32_t qm_index(const struct qm *m, const struct leat_op *op);
/* @return an op in flight, chosen by the run's order; QM_NONE if there is none */
uint32_t qm_pick(struct qm *m);

/* The steps of a test. */
void qm_do_post(struct qm *m, uint32_t n);
void qm_do_poll(struct qm *m, uint32_t n, uint32_t finish, bool heed_room);
void qm_do_finish_outside(struct qm *m, uint32_t n);
void qm_do_tick(struct qm *m);
/* Do a random step. */
void qm_step(struct qm *m);
/* Finish and poll all remaining ops; none may be missing. */
void qm_drain(struct qm *m);
/* Compare every counter with the model's. */
void qm_check(struct qm *m);

void qm_fail(const struct qm *m, const char *what, const char *file, int line)
	__attribute__((noreturn));
#define QM_CHECK(m, cond)                                                                          \
	do {                                                                                       \
		if (unlikely(!(cond)))                                                             \
			qm_fail(m, #cond, __FILE__, __LINE__);                                     \
	} while (0)

#endif /* QUEUE_MODEL_H */
