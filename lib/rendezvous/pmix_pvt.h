/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RENDEZVOUS_PMIX_PVT_H
#define RENDEZVOUS_PMIX_PVT_H

/*
 * The way "pmix". libpmix has a thread of its own, which calls back when it likes: after the caller
 * has given up waiting, or never. And some of its functions wait for the server without a limit:
 * PMIx_Init(), PMIx_Commit(), PMIx_Finalize(), PMIx_Get(). So whatever may come late is an op:
 *
 *     caller                         hub                      PMIx's thread, or a helper thread
 *       op = pmix_op_new() ------->  lock, references
 *       PMIx_Get_nb(.., op)
 *       pmix_hub_wait(), until ... <--- signal ------------   pmix_op_done(op, ...)
 *       pmix_op_drop(op)
 *
 * PMIx keeps pointers to the arguments of the call until it calls back, so they are in the op, too. An
 * op is freed when it was both done and dropped, whichever comes last; the hub when its last op
 * is gone. An op that is never done stays: at most two for each rank, see pmix.c.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "pmix_abi.h"
#include "rendezvous_pvt.h"

/* The longest key: "leat." JOB "." OPEN "." ROUND. */
#define PMIX_KEY_MAX (LEAT_RENDEZVOUS_JOB_MAX + 48)

struct pmix_hub {
	struct pmix_abi abi;
	pthread_mutex_t lock;
	pthread_cond_t cond; /* of CLOCK_MONOTONIC */
	unsigned int refs;
};

/* Bytes of a process; NULL: none. */
struct pmix_bytes {
	uint32_t rank;
	char key[PMIX_KEY_MAX];
	uint8_t *bytes;
	size_t len;
};

struct pmix_op {
	struct pmix_hub *hub;
	bool done;
	bool dropped;
	int status; /* of PMIx */
	/* PMIx_Init(): it went well, and how many processes there are. */
	bool inited;
	uint32_t size;
	/* What is put, or was got. */
	unsigned int nb;
	struct pmix_bytes *what;
	/* What PMIx may look at until it is done. */
	struct pmix_abi_proc proc;
	struct pmix_abi_info info;
	/* Of a helper thread. */
	int (*call)(struct pmix_op *op);
};

/* Loads libpmix. NULL with leat_err(). */
struct pmix_hub *pmix_hub_create(void);
void pmix_hub_put(struct pmix_hub *hub);

/* With room for nb times bytes. NULL: no memory. */
struct pmix_op *pmix_op_new(struct pmix_hub *hub, unsigned int nb);
/* The callback, or what stands for it. value: NULL, or that of a get; it is copied. */
void pmix_op_done(struct pmix_op *op, int status, const struct pmix_abi_value *value);
/* Copies bytes out of a value, unless it is something else or too long. */
void pmix_bytes_take(struct pmix_bytes *b, const struct pmix_abi_value *value);
/* The caller has no more interest. NULL is ignored. */
void pmix_op_drop(struct pmix_op *op);

bool pmix_op_is_done(struct pmix_op *op);
/* Waits until the op is done. 0, -ETIMEDOUT or -ECANCELED. */
int pmix_op_wait(struct leat_rendezvous *rv, struct pmix_op *op, uint64_t until);
/* Waits until any op is done, or for the next pause of rv. Likewise. */
int pmix_hub_wait(struct leat_rendezvous *rv, struct pmix_hub *hub, uint64_t until);

/*
 * Makes op->call() on a helper thread, and waits. Returns 0: made, op->status is what it said;
 * -ETIMEDOUT, -ECANCELED: not back yet, and the op belongs to it; others: not made.
 */
int pmix_op_call(struct leat_rendezvous *rv, struct pmix_op *op, uint64_t until);

/* Callbacks for PMIx; arg is an op. */
void pmix_on_op(int status, void *arg);
void pmix_on_value(int status, struct pmix_abi_value *value, void *arg);

#endif /* RENDEZVOUS_PMIX_PVT_H */
