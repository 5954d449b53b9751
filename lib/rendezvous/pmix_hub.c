/* SPDX-License-Identifier: BSD-3-Clause */

/* Loading libpmix, its callbacks, and calls with a time-out; see pmix_pvt.h. */

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "leat_thread.h"
#include "pmix_pvt.h"

#define LIBPMIX "libpmix.so.2"
/* Longest time until a wait notices a cancel. */
#define SLICE_US 50000

/* ---- the library --------------------------------------------------------------------------- */

static int
find(void *lib, const char *name, void *fn, size_t size)
{
	void *sym = dlsym(lib, name);

	if (sym == NULL)
		return leat_err(ELIBACC, "rendezvous (pmix): " LIBPMIX " has no %s", name);
	/* ISO C has no conversion of an object's address to a function's. */
	memcpy(fn, &sym, size);
	return 0;
}

#define FIND(lib, abi, member, name) find(lib, name, &(abi)->member, sizeof((abi)->member))

static int
load(struct pmix_abi *abi)
{
	/*
	 * RTLD_GLOBAL, since plugins of some releases of PMIx rely on it. RTLD_NODELETE, since the
	 * thread of libpmix and its exit handlers can outlive PMIx_Finalize().
	 */
	void *lib = dlopen(LIBPMIX, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
	int ret;

	if (lib == NULL)
		return leat_err(ELIBACC,
				"rendezvous (pmix): the launcher offers PMIx, but %s; "
				"install " LIBPMIX " (Debian: libpmix2), or give a directory",
				dlerror());
	ret = FIND(lib, abi, get_version, "PMIx_Get_version");
	if (ret == 0)
		ret = FIND(lib, abi, init, "PMIx_Init");
	if (ret == 0)
		ret = FIND(lib, abi, finalize, "PMIx_Finalize");
	if (ret == 0)
		ret = FIND(lib, abi, put, "PMIx_Put");
	if (ret == 0)
		ret = FIND(lib, abi, commit, "PMIx_Commit");
	if (ret == 0)
		ret = FIND(lib, abi, fence_nb, "PMIx_Fence_nb");
	if (ret == 0)
		ret = FIND(lib, abi, get, "PMIx_Get");
	if (ret == 0)
		ret = FIND(lib, abi, get_nb, "PMIx_Get_nb");
	if (ret == 0)
		ret = FIND(lib, abi, error_string, "PMIx_Error_string");
	(void)dlclose(lib);
	return ret;
}

struct pmix_hub *
pmix_hub_create(void)
{
	struct pmix_hub *hub = calloc(1, sizeof(*hub));
	pthread_condattr_t attr;

	if (hub == NULL) {
		leat_err(ENOMEM, "rendezvous (pmix): no memory");
		return NULL;
	}
	if (load(&hub->abi) < 0) {
		free(hub);
		return NULL;
	}
	(void)pthread_mutex_init(&hub->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&hub->cond, &attr);
	(void)pthread_condattr_destroy(&attr);
	hub->refs = 1;
	return hub;
}

/* Drop a reference, with the lock held, and unlock. */
static void
put_locked(struct pmix_hub *hub)
{
	bool last = --hub->refs == 0;

	(void)pthread_mutex_unlock(&hub->lock);
	if (!last)
		return;
	(void)pthread_cond_destroy(&hub->cond);
	(void)pthread_mutex_destroy(&hub->lock);
	free(hub);
}

void
pmix_hub_put(struct pmix_hub *hub)
{
	if (hub == NULL)
		return;
	(void)pthread_mutex_lock(&hub->lock);
	put_locked(hub);
}

/* ---- ops ----------------------------------------------------------------------------------- */

struct pmix_op *
pmix_op_new(struct pmix_hub *hub, unsigned int nb)
{
	struct pmix_op *op = calloc(1, sizeof(*op));

	if (op != NULL && nb > 0) {
		op->nb = nb;
		op->what = calloc(nb, sizeof(*op->what));
	}
	if (op == NULL || (nb > 0 && op->what == NULL)) {
		free(op);
		leat_err(ENOMEM, "rendezvous (pmix): no memory");
		return NULL;
	}
	op->hub = hub;
	(void)pthread_mutex_lock(&hub->lock);
	hub->refs++;
	(void)pthread_mutex_unlock(&hub->lock);
	return op;
}

static void
op_free(struct pmix_op *op)
{
	unsigned int i;

	for (i = 0; i < op->nb; i++)
		free(op->what[i].bytes);
	free(op->what);
	free(op);
}

void
pmix_bytes_take(struct pmix_bytes *b, const struct pmix_abi_value *value)
{
	if (value->type != PMIX_ABI_BYTE_OBJECT || value->data.bo.bytes == NULL ||
	    value->data.bo.size > RECORD_RANK_MAX)
		return;
	b->len = value->data.bo.size;
	b->bytes = malloc(b->len + 1);
	if (b->bytes != NULL)
		memcpy(b->bytes, value->data.bo.bytes, b->len);
}

void
pmix_op_done(struct pmix_op *op, int status, const struct pmix_abi_value *value)
{
	struct pmix_hub *hub = op->hub;

	(void)pthread_mutex_lock(&hub->lock);
	if (op->dropped) {
		op_free(op);
		put_locked(hub);
		return;
	}
	op->status = status;
	if (status == PMIX_ABI_SUCCESS && value != NULL && op->nb == 1)
		pmix_bytes_take(&op->what[0], value);
	op->done = true;
	(void)pthread_cond_signal(&hub->cond);
	(void)pthread_mutex_unlock(&hub->lock);
}

void
pmix_op_drop(struct pmix_op *op)
{
	struct pmix_hub *hub;

	if (op == NULL)
		return;
	hub = op->hub;
	(void)pthread_mutex_lock(&hub->lock);
	if (!op->done) {
		op->dropped = true;
		(void)pthread_mutex_unlock(&hub->lock);
		return;
	}
	op_free(op);
	put_locked(hub);
}

void
pmix_on_op(int status, void *arg)
{
	pmix_op_done(arg, status, NULL);
}

void
pmix_on_value(int status, struct pmix_abi_value *value, void *arg)
{
	pmix_op_done(arg, status, value);
}

bool
pmix_op_is_done(struct pmix_op *op)
{
	bool done;

	(void)pthread_mutex_lock(&op->hub->lock);
	done = op->done;
	(void)pthread_mutex_unlock(&op->hub->lock);
	return done;
}

/* ---- waiting ------------------------------------------------------------------------------- */

/* Wait with the lock held until an op is done; at most us microseconds, and not beyond `until`. */
static int
wait_locked(struct leat_rendezvous *rv, struct pmix_hub *hub, uint64_t until, uint64_t us)
{
	uint64_t now = rendezvous_now(), end;
	struct timespec ts;

	if (rendezvous_canceled(rv))
		return -ECANCELED;
	if (now >= until)
		return -ETIMEDOUT;
	end = RTE_MIN(until, now + us);
	ts = (struct timespec){ .tv_sec = (time_t)(end / 1000000),
				.tv_nsec = (long)(end % 1000000) * 1000 };
	(void)pthread_cond_timedwait(&hub->cond, &hub->lock, &ts);
	return 0;
}

int
pmix_op_wait(struct leat_rendezvous *rv, struct pmix_op *op, uint64_t until)
{
	struct pmix_hub *hub = op->hub;
	int ret = 0;

	(void)pthread_mutex_lock(&hub->lock);
	while (!op->done && ret == 0)
		ret = wait_locked(rv, hub, until, SLICE_US);
	(void)pthread_mutex_unlock(&hub->lock);
	return ret;
}

int
pmix_hub_wait(struct leat_rendezvous *rv, struct pmix_hub *hub, uint64_t until)
{
	int ret;

	/* The signal of an op that completed before is missed: rv->pause_us limits the wait. */
	(void)pthread_mutex_lock(&hub->lock);
	ret = wait_locked(rv, hub, until, rv->pause_us);
	(void)pthread_mutex_unlock(&hub->lock);
	rv->pause_us = RTE_MIN(2 * rv->pause_us, RENDEZVOUS_PAUSE_MAX_US);
	return ret;
}

/* ---- calls --------------------------------------------------------------------------------- */

static void *
call_thread(void *arg)
{
	struct pmix_op *op = arg;

	pmix_op_done(op, op->call(op), NULL);
	return NULL;
}

int
pmix_op_call(struct leat_rendezvous *rv, struct pmix_op *op, uint64_t until)
{
	/* The thread blocks all signals and may run on any CPU; threads that PMIx starts inherit
	 * both. */
	int ret = leat_thread_start(call_thread, op);

	if (ret < 0) {
		/* No thread will complete the op: complete it here. */
		pmix_op_done(op, ret, NULL);
		return leat_err(-ret, "rendezvous (pmix): a helper thread can't be started: %s",
				strerror(-ret));
	}
	return pmix_op_wait(rv, op, until);
}
