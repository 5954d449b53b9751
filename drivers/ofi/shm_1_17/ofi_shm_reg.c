/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Provider shm of libfabric 1.17: endpoints of one process that talk to one another share one
 * mapping of each one's memory, and the owner unmaps it when it closes. Whoever still has it in its
 * address vector then crashes at its next post.
 *
 * So each endpoint is registered here by its provider address; others of the process hold it while
 * it is in their address vector, and a closed one that is held is buried: the last to let go frees
 * it. One that is not held leaves the registry before its memory goes: an address of this process
 * that is not registered is refused.
 */

#include <pthread.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "ofi_shm.h"

struct ofi_shm_reg {
	LIST_ENTRY(ofi_shm_reg) link;
	struct ofi_ep *e;
	unsigned int holders;
	bool buried;
	char name[];
};

/* Endpoints of several threads meet here, at connect, disconnect and close only. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, ofi_shm_reg) regs = LIST_HEAD_INITIALIZER(regs);

struct ofi_shm_reg *
ofi_shm_reg_add(struct ofi_ep *e, const char *name)
{
	size_t len = strlen(name) + 1;
	struct ofi_shm_reg *r = calloc(1, sizeof(*r) + len);

	if (r == NULL)
		return NULL;
	r->e = e;
	memcpy(r->name, name, len);
	pthread_mutex_lock(&lock);
	LIST_INSERT_HEAD(&regs, r, link);
	pthread_mutex_unlock(&lock);
	return r;
}

struct ofi_shm_reg *
ofi_shm_reg_hold(const char *name)
{
	struct ofi_shm_reg *r;

	pthread_mutex_lock(&lock);
	LIST_FOREACH(r, &regs, link) {
		if (strcmp(r->name, name) == 0) {
			r->holders++;
			break;
		}
	}
	pthread_mutex_unlock(&lock);
	return r;
}

void
ofi_shm_reg_release(struct ofi_shm_reg *r)
{
	bool last;

	pthread_mutex_lock(&lock);
	r->holders--;
	last = r->buried && r->holders == 0;
	if (last)
		LIST_REMOVE(r, link);
	pthread_mutex_unlock(&lock);
	if (!last)
		return;
	r->e->reg = NULL;
	ofi_ep_free(r->e);
	free(r);
}

bool
ofi_shm_reg_closed(struct ofi_shm_reg *r)
{
	bool closed;

	pthread_mutex_lock(&lock);
	closed = r->buried;
	pthread_mutex_unlock(&lock);
	return closed;
}

bool
ofi_shm_reg_bury(struct ofi_shm_reg *r)
{
	bool held;

	pthread_mutex_lock(&lock);
	held = r->holders > 0;
	r->buried = held;
	if (!held)
		LIST_REMOVE(r, link);
	pthread_mutex_unlock(&lock);
	if (!held)
		free(r);
	return held;
}
