/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PMIX_FAKE_H
#define PMIX_FAKE_H

/*
 * A libpmix.so.2 inside the test: the test plays the server and all other processes. Its functions
 * call back on threads of their own, when the test says so.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pmix_abi.h"

#define STUB_KEYS 64
#define STUB_PENDING 1 /* no status of PMIx: no answer, for now */
#define STUB_NOT_FOUND (-46)

/* Calls that can be held up. */
enum fake_call {
	STUB_INIT = 0,
	STUB_COMMIT,
	STUB_FINALIZE,
	STUB_GET, /* PMIx_Get() */
	STUB_CALLS,
};

struct fake {
	/* What the test sets. */
	uint32_t rank;
	uint32_t size;
	int status[STUB_CALLS]; /* what these return */
	bool hold[STUB_CALLS];	/* they don't return, until fake_release() */
	bool fence_now;		/* PMIx_Fence_nb() is done when it returns, without a callback */
	/* A fence was begun, the nth one. Returns its status, or STUB_PENDING. */
	int (*on_fence)(unsigned int n);
	/* PMIx_Get_nb() of a key that is not there. Likewise. */
	int (*on_get)(uint32_t rank, const char *key);
	/* What the test reads. */
	unsigned int fences;	     /* begun */
	unsigned int fences_at_once; /* most that were pending */
	unsigned int gets;	     /* PMIx_Get_nb(): asked of other nodes */
	bool all_signals_blocked;    /* in PMIx_Init() */
	bool same_thread;	     /* PMIx_Init() was called on the test's */
};

extern struct fake fake;

/* Forgets everything; nothing may be pending. This process is rank of size. */
void fake_reset(uint32_t rank, uint32_t size);
/* Another process has published this. local: a fence has brought it to this node. */
void fake_set(uint32_t rank, const char *key, const void *data, size_t len, bool local);
/* What this process has published under a key; NULL: nothing. */
const uint8_t *fake_own(const char *key, size_t *len);
/* How often this was called. */
unsigned int fake_calls(enum fake_call call);
/* Ends the fence that is pending. */
void fake_end_fence(int status);
/* Nothing is held up any more, and all that is pending is answered; waits for the threads. */
void fake_release(void);

#endif /* PMIX_FAKE_H */
