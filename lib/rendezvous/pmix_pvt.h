/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RENDEZVOUS_PMIX_PVT_H
#define RENDEZVOUS_PMIX_PVT_H

/*
 * The way "pmix". libpmix has a thread of its own, which calls back at any time, perhaps after the
 * caller has given up waiting, or never. Some of its functions wait for the server without a limit:
 * PMIx_Init(), PMIx_Commit(), PMIx_Finalize(), PMIx_Get(). So each call whose result may come late
 * is an op:
 *
 *     caller                         hub                      PMIx's thread, or a helper thread
 *       op = pmix_op_new() ------->  lock, references
 *       PMIx_Get_nb(.., op)
 *       pmix_hub_wait(), until ... <--- signal ------------   pmix_op_done(op, ...)
 *       pmix_op_drop(op)
 *
 * PMIx keeps pointers to the arguments of a call until it calls back, so they are in the op, too.
 * An op is freed when it is both done and dropped; the hub when its last op is freed. An op that is
 * never done stays allocated: at most two for each rank, see pmix.c.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "pmix_abi.h"
#include "rendezvous_pvt.h"

/* The longest key: "leat." JOB "." OPEN "." ROUND; OPEN: the rendezvous opened before. */
#define PMIX_KEY_MAX (LEAT_RENDEZVOUS_JOB_MAX + 48)

struct pmix_hub {
	struct pmix_abi abi;
	pthread_mutex_t lock;
	pthread_cond_t cond; /* waits on CLOCK_MONOTONIC */
	unsigned int refs;
};

/* A record of a process; bytes is NULL if there is no record. */
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
	int status; /* PMIx status */
	/* Results of PMIx_Init(): whether it succeeded, and the number of processes. */
	bool inited;
	uint32_t size;
	/* Records to put, or records that PMIx has returned. */
	unsigned int nb;
	struct pmix_bytes *what;
	/* Arguments that PMIx may read until the op is done. */
	struct pmix_abi_proc proc;
	struct pmix_abi_info info;
	/* The call that a helper thread makes. */
	int (*call)(struct pmix_op *op);
};

/* Create a hub, and load libpmix. @return NULL with leat_err(): libpmix can't be loaded. */
struct pmix_hub *pmix_hub_create(void);
void pmix_hub_put(struct pmix_hub *hub);

/* Create an op with room for nb records. @return NULL: no memory. */
struct pmix_op *pmix_op_new(struct pmix_hub *hub, unsigned int nb);
/*
 * Complete an op, in PMIx's callback or in place of a callback. value: the value that a get has
 * returned, of which a copy is made; NULL: none.
 */
void pmix_op_done(struct pmix_op *op, int status, const struct pmix_abi_value *value);
/* Copy the bytes of a value to b; do nothing if it has a different type or is too long. */
void pmix_bytes_take(struct pmix_bytes *b, const struct pmix_abi_value *value);
/* Release the caller's reference to an op. NULL is ignored. */
void pmix_op_drop(struct pmix_op *op);

bool pmix_op_is_done(struct pmix_op *op);
/* Wait until the op is done. @return 0, -ETIMEDOUT or -ECANCELED. */
int pmix_op_wait(struct leat_rendezvous *rv, struct pmix_op *op, uint64_t until);
/*
 * Wait until any op of the hub is done, at most for rv->pause_us, which then doubles.
 * @return 0, also if no op is done; -ETIMEDOUT or -ECANCELED.
 */
int pmix_hub_wait(struct leat_rendezvous *rv, struct pmix_hub *hub, uint64_t until);

/*
 * Run op->call() on a helper thread, and wait. Return 0: the call returned op->status; -ETIMEDOUT,
 * -ECANCELED: the call has not returned yet, and still uses the op; others: the call was not made.
 */
int pmix_op_call(struct leat_rendezvous *rv, struct pmix_op *op, uint64_t until);

/* Callbacks for PMIx; arg is an op. */
void pmix_on_op(int status, void *arg);
void pmix_on_value(int status, struct pmix_abi_value *value, void *arg);

#endif /* RENDEZVOUS_PMIX_PVT_H */
