/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PMIX_FAKE_H
#define PMIX_FAKE_H

/*
 * A libpmix.so.2 inside the test: the test plays the server and all other processes. The functions
 * call back on threads of their own, when the test says so.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pmix_abi.h"

#define STUB_KEYS 64
#define STUB_PENDING 1 /* not a status of PMIx: the call is not answered, for now */
#define STUB_NOT_FOUND (-46)

/* Calls that a test can hold up. */
enum fake_call {
	STUB_INIT = 0,
	STUB_COMMIT,
	STUB_FINALIZE,
	STUB_GET, /* PMIx_Get() */
	STUB_CALLS,
};

struct fake {
	/* Set by the test: */
	uint32_t rank;
	uint32_t size;
	int status[STUB_CALLS]; /* results of these calls */
	bool hold[STUB_CALLS];	/* calls that don't return until fake_release() */
	bool fence_now;		/* PMIx_Fence_nb() completes at once, without a callback */
	/* Called when the nth fence begins. Returns its status, or STUB_PENDING. */
	int (*on_fence)(unsigned int n);
	/* Called for PMIx_Get_nb() of a missing key. Returns its status, or STUB_PENDING. */
	int (*on_get)(uint32_t rank, const char *key);
	/* Read by the test: */
	unsigned int fences;	     /* number of fences begun */
	unsigned int fences_at_once; /* largest number of fences pending at once */
	unsigned int gets;	     /* calls of PMIx_Get_nb(), which ask other nodes */
	bool all_signals_blocked;    /* PMIx_Init() was called with all signals blocked */
	bool same_thread;	     /* PMIx_Init() was called on the test's thread */
};

extern struct fake fake;

/* Forget all state; nothing may be pending. Then this process is rank `rank` of `size`. */
void fake_reset(uint32_t rank, uint32_t size);
/* Publish a value of another process. local: a fence has brought it to this node. */
void fake_set(uint32_t rank, const char *key, const void *data, size_t len, bool local);
/* @return the value that this process has published under a key; NULL: none */
const uint8_t *fake_own(const char *key, size_t *len);
/* @return how often `call` was called */
unsigned int fake_calls(enum fake_call call);
/* End the pending fence. */
void fake_end_fence(int status);
/* Wait until the callbacks of all calls that were answered have run. */
void fake_await_answers(void);
/* Hold up no call any more, answer all pending calls, and wait for the threads. */
void fake_release(void);

#endif /* PMIX_FAKE_H */
