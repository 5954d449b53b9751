/* SPDX-License-Identifier: BSD-3-Clause */

/* Protection domains and address handles. All AHs of a device for one GID have the same number. */

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "sim_host.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, sim_ah) all;
static uint16_t next_number;
static _Atomic uint32_t nb_pds;

void
sim_ah_fork(enum sim_fork when)
{
	if (when == SIM_FORK_CHILD)
		LIST_INIT(&all);
	sim_fork_lock(&lock, when);
}

SIM_API struct ibv_pd *
ibv_alloc_pd(struct ibv_context *context)
{
	struct sim_pd *pd;

	if (!sim_usable(context))
		return NULL;
	pd = calloc(1, sizeof(*pd));
	if (pd == NULL)
		return NULL;
	pd->ibv.context = context;
	pd->device = sim_context_of(context)->device;
	pd->number = atomic_fetch_add(&nb_pds, 1) + 1;
	return &pd->ibv;
}

SIM_API int
ibv_dealloc_pd(struct ibv_pd *pd)
{
	struct sim_pd *own = (struct sim_pd *)pd;

	if (own->nb_objects > 0 && sim_mine(pd->context))
		return EBUSY;
	free(own);
	return 0;
}

/* Find the device's AH for the GID. Call under lock. */
static struct sim_ah *
same_gid(const struct sim_device *device, const union ibv_gid *gid)
{
	struct sim_ah *ah;

	LIST_FOREACH(ah, &all, next)
		if (ah->pd->device == device && memcmp(&ah->gid, gid, sizeof(*gid)) == 0)
			return ah;
	return NULL;
}

uint16_t
sim_ah_number(const struct sim_device *device, const union ibv_gid *gid)
{
	const struct sim_ah *ah;
	uint16_t number;

	pthread_mutex_lock(&lock);
	ah = same_gid(device, gid);
	number = ah == NULL ? SIM_NO_AH : ah->number;
	pthread_mutex_unlock(&lock);
	return number;
}

/* Return a number that no other AH has. Call under lock. */
static uint16_t
new_number(void)
{
	const struct sim_ah *ah;

	for (;;) {
		next_number = (uint16_t)((next_number + 1) % SIM_NO_AH);
		LIST_FOREACH(ah, &all, next)
			if (ah->number == next_number)
				break;
		if (ah == NULL)
			return next_number;
	}
}

SIM_API struct ibv_ah *
ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	const struct sim_ah *same;
	struct sim_ah *ah;

	if (!sim_usable(pd->context))
		return NULL;
	if (!attr->is_global || attr->port_num != 1) {
		errno = EINVAL;
		return NULL;
	}
	ah = calloc(1, sizeof(*ah));
	if (ah == NULL)
		return NULL;
	if (!sim_object_add(SIM_OBJ_AH, sim_config.max_ah)) {
		free(ah);
		errno = ENOMEM;
		return NULL;
	}
	ah->ibv.context = pd->context;
	ah->ibv.pd = pd;
	ah->pd = (struct sim_pd *)pd;
	ah->gid = attr->grh.dgid;
	ah->peer = sim_peer_get(&ah->gid);
	if (ah->peer == NULL) {
		sim_object_del(SIM_OBJ_AH);
		free(ah);
		return NULL;
	}
	ah->nb_refs = 1;
	ah->pd->nb_objects++;
	pthread_mutex_lock(&lock);
	same = same_gid(ah->pd->device, &ah->gid);
	ah->number = same != NULL ? same->number : new_number();
	LIST_INSERT_HEAD(&all, ah, next);
	pthread_mutex_unlock(&lock);
	return &ah->ibv;
}

void
sim_ah_hold(struct sim_ah *ah)
{
	atomic_fetch_add(&ah->nb_refs, 1);
}

void
sim_ah_release(struct sim_ah *ah)
{
	if (atomic_fetch_sub(&ah->nb_refs, 1) > 1)
		return;
	sim_peer_put(ah->peer);
	free(ah);
}

SIM_API int
ibv_destroy_ah(struct ibv_ah *ah)
{
	struct sim_ah *own = (struct sim_ah *)ah;

	if (!sim_mine(ah->context)) {
		free(own);
		return 0;
	}
	pthread_mutex_lock(&lock);
	LIST_REMOVE(own, next);
	pthread_mutex_unlock(&lock);
	own->destroyed = true;
	own->pd->nb_objects--;
	sim_object_del(SIM_OBJ_AH);
	sim_ah_release(own);
	return 0;
}

SIM_API int
efadv_query_ah(struct ibv_ah *ibv, struct efadv_ah_attr *attr, uint32_t inlen)
{
	if (inlen < sizeof(*attr))
		return EINVAL;
	memset(attr, 0, inlen);
	attr->ahn = ((struct sim_ah *)ibv)->number;
	return 0;
}
