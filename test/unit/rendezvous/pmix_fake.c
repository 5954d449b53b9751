/* SPDX-License-Identifier: BSD-3-Clause */

/* See pmix_fake.h. One lock protects all state; each callback runs on a thread of its own. */

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pmix_fake.h"

#define EXPORT __attribute__((visibility("default")))
#define PENDING_MAX 256

struct entry {
	uint32_t rank;
	char key[128];
	uint8_t *data;
	size_t len;
	bool local;
};

/* A call that is not answered yet, or is being answered. */
struct pending {
	bool used;
	bool fence;
	uint32_t rank;
	const char *key; /* the caller's pointer, as in libpmix: the string must stay valid */
	const struct pmix_abi_info *info;
	size_t ninfo;
	pmix_abi_op_fn op_fn;
	pmix_abi_value_fn value_fn;
	void *arg;
};

EXPORT struct fake fake;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static struct entry entries[STUB_KEYS];
static unsigned int nb_entries;
static struct entry put; /* an entry that was put, and is not committed */
static struct pending pendings[PENDING_MAX];
static unsigned int pending_fences;
static unsigned int threads;
static unsigned int calls[STUB_CALLS];
static pthread_t test_thread;

static void
must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "pmix_fake: %s\n", what);
	abort();
}

static struct entry *
find(uint32_t rank, const char *key)
{
	unsigned int i;

	for (i = 0; i < nb_entries; i++) {
		if (entries[i].rank == rank && strcmp(entries[i].key, key) == 0)
			return &entries[i];
	}
	return NULL;
}

static void
set(uint32_t rank, const char *key, const void *data, size_t len, bool local)
{
	struct entry *e = find(rank, key);

	if (e == NULL) {
		must(nb_entries < STUB_KEYS, "too many keys");
		e = &entries[nb_entries++];
		e->rank = rank;
		snprintf(e->key, sizeof(e->key), "%s", key);
	}
	free(e->data);
	e->data = malloc(len + 1);
	must(e->data != NULL, "no memory");
	memcpy(e->data, data, len);
	e->len = len;
	e->local = local;
}

/* ---- callbacks on threads ---- */

struct answer {
	struct pending p;
	int status;
	struct entry e;
};

static void *
answer_thread(void *arg)
{
	struct answer *a = arg;
	struct pmix_abi_value v = { .type = PMIX_ABI_BYTE_OBJECT,
				    .data.bo = { .bytes = (char *)a->e.data, .size = a->e.len } };

	/*
	 * Read the arguments late, as libpmix does when it packs the request: they must still be
	 * valid.
	 */
	must(a->p.ninfo == 0 || a->p.info->value.type == PMIX_ABI_BOOL, "the info is gone");
	must(a->p.key == NULL || strlen(a->p.key) > 0, "the key is gone");
	if (a->p.fence) {
		a->p.op_fn(a->status, a->p.arg);
	} else {
		a->p.value_fn(a->status, a->status == 0 ? &v : NULL, a->p.arg);
	}
	free(a->e.data);
	free(a);
	(void)pthread_mutex_lock(&lock);
	threads--;
	(void)pthread_cond_broadcast(&cond);
	(void)pthread_mutex_unlock(&lock);
	return NULL;
}

/* Call this with the lock held. */
static void
answer(const struct pending *p, int status, const struct entry *e)
{
	struct answer *a = calloc(1, sizeof(*a));
	pthread_attr_t attr;
	pthread_t t;

	must(a != NULL, "no memory");
	a->p = *p;
	a->status = status;
	if (e != NULL) {
		a->e.data = malloc(e->len + 1);
		must(a->e.data != NULL, "no memory");
		memcpy(a->e.data, e->data, e->len);
		a->e.len = e->len;
	}
	threads++;
	must(pthread_attr_init(&attr) == 0, "attr");
	must(pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED) == 0, "detach");
	must(pthread_create(&t, &attr, answer_thread, a) == 0, "thread");
	(void)pthread_attr_destroy(&attr);
}

static void
keep(const struct pending *p)
{
	unsigned int i;

	for (i = 0; i < PENDING_MAX; i++) {
		if (pendings[i].used)
			continue;
		pendings[i] = *p;
		pendings[i].used = true;
		return;
	}
	must(false, "too much is pending");
}

/* ---- functions for the test ---- */

EXPORT void
fake_reset(uint32_t rank, uint32_t size)
{
	unsigned int i;

	for (i = 0; i < PENDING_MAX; i++)
		must(!pendings[i].used, "something is pending");
	for (i = 0; i < nb_entries; i++)
		free(entries[i].data);
	memset(entries, 0, sizeof(entries));
	nb_entries = 0;
	free(put.data);
	memset(&put, 0, sizeof(put));
	pending_fences = 0;
	memset(&fake, 0, sizeof(fake));
	memset(calls, 0, sizeof(calls));
	fake.rank = rank;
	fake.size = size;
	test_thread = pthread_self();
}

EXPORT void
fake_set(uint32_t rank, const char *key, const void *data, size_t len, bool local)
{
	unsigned int i;

	(void)pthread_mutex_lock(&lock);
	set(rank, key, data, len, local);
	for (i = 0; i < PENDING_MAX; i++) {
		struct pending *p = &pendings[i];

		if (!p->used || p->fence || p->rank != rank || strcmp(p->key, key) != 0)
			continue;
		p->used = false;
		answer(p, PMIX_ABI_SUCCESS, find(rank, key));
	}
	(void)pthread_mutex_unlock(&lock);
}

EXPORT const uint8_t *
fake_own(const char *key, size_t *len)
{
	struct entry *e;

	(void)pthread_mutex_lock(&lock);
	e = find(fake.rank, key);
	(void)pthread_mutex_unlock(&lock);
	*len = e != NULL ? e->len : 0;
	return e != NULL ? e->data : NULL;
}

EXPORT unsigned int
fake_calls(enum fake_call call)
{
	unsigned int n;

	(void)pthread_mutex_lock(&lock);
	n = calls[call];
	(void)pthread_mutex_unlock(&lock);
	return n;
}

EXPORT void
fake_end_fence(int status)
{
	unsigned int i;

	(void)pthread_mutex_lock(&lock);
	for (i = 0; i < PENDING_MAX; i++) {
		if (!pendings[i].used || !pendings[i].fence)
			continue;
		pendings[i].used = false;
		pending_fences--;
		answer(&pendings[i], status, NULL);
	}
	(void)pthread_mutex_unlock(&lock);
}

EXPORT void
fake_await_answers(void)
{
	(void)pthread_mutex_lock(&lock);
	while (threads > 0)
		(void)pthread_cond_wait(&cond, &lock);
	(void)pthread_mutex_unlock(&lock);
}

EXPORT void
fake_release(void)
{
	unsigned int i;

	fake_end_fence(PMIX_ABI_SUCCESS);
	(void)pthread_mutex_lock(&lock);
	memset(fake.hold, 0, sizeof(fake.hold));
	(void)pthread_cond_broadcast(&cond);
	for (i = 0; i < PENDING_MAX; i++) {
		if (!pendings[i].used)
			continue;
		pendings[i].used = false;
		answer(&pendings[i], STUB_NOT_FOUND, NULL);
	}
	(void)pthread_mutex_unlock(&lock);
	fake_await_answers();
}

/* ---- functions of PMIx ---- */

/* Begin and end calls that a test may hold up: fake_release() waits until they have returned. */
static int
enter(enum fake_call call)
{
	int ret;

	(void)pthread_mutex_lock(&lock);
	threads++;
	calls[call]++;
	while (fake.hold[call])
		(void)pthread_cond_wait(&cond, &lock);
	ret = fake.status[call];
	(void)pthread_mutex_unlock(&lock);
	return ret;
}

static int
leave(int status)
{
	(void)pthread_mutex_lock(&lock);
	threads--;
	(void)pthread_cond_broadcast(&cond);
	(void)pthread_mutex_unlock(&lock);
	return status;
}

EXPORT const char *PMIx_Get_version(void);
EXPORT const char *
PMIx_Get_version(void)
{
	return "fake 1.0";
}

EXPORT const char *PMIx_Error_string(int status);
EXPORT const char *
PMIx_Error_string(int status)
{
	return status == PMIX_ABI_ERR_PARTIAL_SUCCESS ? "PARTIAL" : "SOME-ERROR";
}

EXPORT int PMIx_Init(struct pmix_abi_proc *proc, struct pmix_abi_info info[], size_t ninfo);
EXPORT int
PMIx_Init(struct pmix_abi_proc *proc, struct pmix_abi_info info[], size_t ninfo)
{
	sigset_t mask;
	int sig;

	(void)info;
	must(ninfo == 0, "no info is expected");
	(void)pthread_sigmask(SIG_SETMASK, NULL, &mask);
	fake.all_signals_blocked = true;
	for (sig = 1; sig < 32; sig++) {
		if (sig != SIGKILL && sig != SIGSTOP && sigismember(&mask, sig) != 1)
			fake.all_signals_blocked = false;
	}
	fake.same_thread = pthread_equal(pthread_self(), test_thread) != 0;
	snprintf(proc->nspace, sizeof(proc->nspace), "job");
	proc->rank = fake.rank;
	return leave(enter(STUB_INIT));
}

EXPORT int PMIx_Finalize(const struct pmix_abi_info info[], size_t ninfo);
EXPORT int
PMIx_Finalize(const struct pmix_abi_info info[], size_t ninfo)
{
	(void)info;
	(void)ninfo;
	return leave(enter(STUB_FINALIZE));
}

EXPORT int PMIx_Put(uint8_t scope, const char key[], struct pmix_abi_value *value);
EXPORT int
PMIx_Put(uint8_t scope, const char key[], struct pmix_abi_value *value)
{
	must(scope == PMIX_ABI_GLOBAL && value->type == PMIX_ABI_BYTE_OBJECT, "not a put for all");
	must(put.data == NULL, "two puts");
	snprintf(put.key, sizeof(put.key), "%s", key);
	put.len = value->data.bo.size;
	put.data = malloc(put.len + 1);
	must(put.data != NULL, "no memory");
	memcpy(put.data, value->data.bo.bytes, put.len);
	return PMIX_ABI_SUCCESS;
}

EXPORT int PMIx_Commit(void);
EXPORT int
PMIx_Commit(void)
{
	int ret = enter(STUB_COMMIT);

	(void)pthread_mutex_lock(&lock);
	if (ret == PMIX_ABI_SUCCESS && put.data != NULL) {
		must(find(fake.rank, put.key) == NULL, "a key was used twice");
		set(fake.rank, put.key, put.data, put.len, true);
	}
	free(put.data);
	put.data = NULL;
	(void)pthread_mutex_unlock(&lock);
	return leave(ret);
}

EXPORT int PMIx_Fence_nb(const struct pmix_abi_proc procs[], size_t nprocs,
			 const struct pmix_abi_info info[], size_t ninfo, pmix_abi_op_fn fn,
			 void *arg);
EXPORT int
PMIx_Fence_nb(const struct pmix_abi_proc procs[], size_t nprocs, const struct pmix_abi_info info[],
	      size_t ninfo, pmix_abi_op_fn fn, void *arg)
{
	const struct pending p = {
		.fence = true, .info = info, .ninfo = ninfo, .op_fn = fn, .arg = arg
	};
	int status;

	must(procs == NULL && nprocs == 0 && ninfo == 1, "not a fence of all");
	must(strcmp(info->key, PMIX_ABI_COLLECT_DATA) == 0, "not collecting");
	fake.fences++;
	if (fake.fence_now)
		return PMIX_ABI_OPERATION_SUCCEEDED;
	status = fake.on_fence != NULL ? fake.on_fence(fake.fences) : PMIX_ABI_SUCCESS;
	(void)pthread_mutex_lock(&lock);
	if (status == STUB_PENDING) {
		keep(&p);
		pending_fences++;
		if (pending_fences > fake.fences_at_once)
			fake.fences_at_once = pending_fences;
	} else {
		answer(&p, status, NULL);
	}
	(void)pthread_mutex_unlock(&lock);
	return PMIX_ABI_SUCCESS;
}

/* @return the value for PMIx_Get(), in memory of malloc(); NULL: not found */
static struct pmix_abi_value *
value_of(uint32_t rank, const char *key)
{
	struct pmix_abi_value *v = calloc(1, sizeof(*v));
	struct entry *e;

	must(v != NULL, "no memory");
	if (rank == PMIX_ABI_RANK_WILDCARD) {
		v->type = PMIX_ABI_UINT32;
		v->data.uint32 = fake.size;
		return v;
	}
	(void)pthread_mutex_lock(&lock);
	e = find(rank, key);
	if (e != NULL && e->local) {
		v->type = PMIX_ABI_BYTE_OBJECT;
		v->data.bo.size = e->len;
		v->data.bo.bytes = malloc(e->len + 1);
		must(v->data.bo.bytes != NULL, "no memory");
		memcpy(v->data.bo.bytes, e->data, e->len);
	} else {
		free(v);
		v = NULL;
	}
	(void)pthread_mutex_unlock(&lock);
	return v;
}

EXPORT int PMIx_Get(const struct pmix_abi_proc *proc, const char key[],
		    const struct pmix_abi_info info[], size_t ninfo, struct pmix_abi_value **value);
EXPORT int
PMIx_Get(const struct pmix_abi_proc *proc, const char key[], const struct pmix_abi_info info[],
	 size_t ninfo, struct pmix_abi_value **value)
{
	int ret = enter(STUB_GET);

	if (ret != PMIX_ABI_SUCCESS)
		return leave(ret);
	if (proc->rank == PMIX_ABI_RANK_WILDCARD)
		must(ninfo == 0 && strcmp(key, PMIX_ABI_JOB_SIZE) == 0, "not the size");
	else
		must(ninfo == 1 && strcmp(info->key, PMIX_ABI_OPTIONAL) == 0 &&
			     info->value.data.flag && proc->rank != fake.rank,
		     "it may wait for others, or asks for its own");
	*value = value_of(proc->rank, key);
	return leave(*value != NULL ? PMIX_ABI_SUCCESS : STUB_NOT_FOUND);
}

EXPORT int PMIx_Get_nb(const struct pmix_abi_proc *proc, const char key[],
		       const struct pmix_abi_info info[], size_t ninfo, pmix_abi_value_fn fn,
		       void *arg);
EXPORT int
PMIx_Get_nb(const struct pmix_abi_proc *proc, const char key[], const struct pmix_abi_info info[],
	    size_t ninfo, pmix_abi_value_fn fn, void *arg)
{
	const struct pending p = { .rank = proc->rank, .key = key, .value_fn = fn, .arg = arg };
	struct entry *e;
	int status;

	(void)info;
	must(ninfo == 0 && proc->rank != fake.rank && proc->rank < fake.size, "not another's");
	(void)pthread_mutex_lock(&lock);
	fake.gets++;
	e = find(proc->rank, key);
	if (e != NULL) {
		answer(&p, PMIX_ABI_SUCCESS, e);
		(void)pthread_mutex_unlock(&lock);
		return PMIX_ABI_SUCCESS;
	}
	(void)pthread_mutex_unlock(&lock);
	status = fake.on_get != NULL ? fake.on_get(proc->rank, key) : STUB_NOT_FOUND;
	(void)pthread_mutex_lock(&lock);
	if (status == STUB_PENDING)
		keep(&p);
	else
		answer(&p, status, NULL);
	(void)pthread_mutex_unlock(&lock);
	return PMIX_ABI_SUCCESS;
}
