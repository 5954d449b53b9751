/* SPDX-License-Identifier: BSD-3-Clause */

/* Memory regions: a table in the host's arena, against which READs of other hosts are checked. */

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "sim_host.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_reg_mr_iova2

struct sim_mr {
	struct ibv_mr ibv;
	int access;
};

static pthread_rwlock_t lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static struct sim_mr *table[SIM_MRS]; /* by key; [0] is not used */
static uint32_t last;		      /* where the search for a free entry begins */
/* upper half of new keys: a reused entry gets a new key, so that its old key is refused */
static uint16_t round_nb;

void
sim_mr_fork(enum sim_fork when)
{
	static const pthread_rwlock_t initial = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

	if (when == SIM_FORK_PREPARE) {
		pthread_rwlock_wrlock(&lock);
	} else if (when == SIM_FORK_PARENT) {
		pthread_rwlock_unlock(&lock);
	} else {
		memset(table, 0, sizeof(table));
		lock = initial; /* it holds a thread id of the parent: the child can't unlock it */
	}
}

void
sim_mr_enter(void)
{
	pthread_rwlock_rdlock(&lock);
}

void
sim_mr_leave(void)
{
	pthread_rwlock_unlock(&lock);
}

static void
publish(uint32_t key, const struct sim_mr *mr)
{
	struct sim_mr_entry *entry = &sim_host_arena()->mrs[key % SIM_MRS];

	atomic_fetch_add(&entry->seq, 1);
	entry->key = mr == NULL ? 0 : key;
	if (mr != NULL) {
		entry->access = (uint32_t)mr->access;
		entry->pd = ((const struct sim_pd *)mr->ibv.pd)->number;
		entry->addr = (uint64_t)(uintptr_t)mr->ibv.addr;
		entry->length = mr->ibv.length;
	}
	atomic_fetch_add(&entry->seq, 1);
}

/* Find a free entry; fewer than SIM_MRS - 1 are taken. Call under lock. */
static uint32_t
free_entry(void)
{
	do {
		last = (last + 1) % SIM_MRS;
		if (last == 0)
			round_nb++;
	} while (last == 0 || table[last] != NULL);
	return last;
}

SIM_API struct ibv_mr *
ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	struct sim_pd *spd = (struct sim_pd *)pd;
	struct sim_mr *mr;
	uint32_t entry;

	if (!sim_usable(pd->context))
		return NULL;
	if (iova != (uint64_t)(uintptr_t)addr) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (access & ~(unsigned int)(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				     IBV_ACCESS_RELAXED_ORDERING)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	mr = calloc(1, sizeof(*mr));
	if (mr == NULL)
		return NULL;
	if (!sim_object_add(SIM_OBJ_MR, sim_config.max_mr)) {
		free(mr);
		errno = ENOMEM;
		return NULL;
	}
	pthread_rwlock_wrlock(&lock);
	entry = free_entry();
	mr->ibv.context = pd->context;
	mr->ibv.pd = pd;
	mr->ibv.addr = addr;
	mr->ibv.length = length;
	mr->ibv.lkey = mr->ibv.rkey = (uint32_t)round_nb << 16 | entry;
	mr->access = (int)access;
	table[entry] = mr;
	publish(mr->ibv.rkey, mr);
	spd->nb_objects++;
	pthread_rwlock_unlock(&lock);
	return &mr->ibv;
}

SIM_API struct ibv_mr *
ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uint64_t)(uintptr_t)addr, (unsigned int)access);
}

SIM_API int
ibv_dereg_mr(struct ibv_mr *mr)
{
	if (sim_mine(mr->context)) {
		pthread_rwlock_wrlock(&lock);
		publish(mr->lkey, NULL);
		table[mr->lkey % SIM_MRS] = NULL;
		pthread_rwlock_unlock(&lock);
		((struct sim_pd *)mr->pd)->nb_objects--;
		sim_object_del(SIM_OBJ_MR);
	}
	free((struct sim_mr *)mr);
	return 0;
}

bool
sim_mr_local(const struct sim_pd *pd, const struct ibv_sge *sge, int access)
{
	const struct sim_mr *mr = table[sge->lkey % SIM_MRS];

	if (sge->length == 0)
		return true;
	return mr != NULL && mr->ibv.lkey == sge->lkey && mr->ibv.pd == &pd->ibv &&
	       (mr->access & access) == access && sge->addr >= (uint64_t)(uintptr_t)mr->ibv.addr &&
	       sge->length <= mr->ibv.length &&
	       sge->addr - (uint64_t)(uintptr_t)mr->ibv.addr <= mr->ibv.length - sge->length;
}
