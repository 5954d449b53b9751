/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <rte_telemetry.h>

#include "leat_ask.h"

/*
 * Longest time to wait for an answer, seconds. It exceeds the longest interval at which an owner
 * checks for questions.
 */
#define WAIT_S 2

static pthread_cond_t answered;

static void
cond_init(void)
{
	pthread_condattr_t attr;

	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&answered, &attr);
	(void)pthread_condattr_destroy(&attr);
}

void
leat_ask_add(struct leat_ask_kind *kind, struct leat_asked *a, const char *name)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, cond_init);
	(void)pthread_mutex_lock(&kind->lock);
	a->name = name;
	a->question = NULL;
	a->id = kind->next_id++;
	a->next = kind->first;
	kind->first = a;
	(void)pthread_mutex_unlock(&kind->lock);
}

void
leat_ask_del(struct leat_ask_kind *kind, struct leat_asked *a)
{
	struct leat_asked **p;

	(void)pthread_mutex_lock(&kind->lock);
	for (p = &kind->first; *p != NULL && *p != a; p = &(*p)->next)
		;
	if (*p != NULL)
		*p = (*p)->next;
	if (a->question != NULL) {
		a->question->deleted = true;
		(void)pthread_cond_broadcast(&answered);
	}
	(void)pthread_mutex_unlock(&kind->lock);
}

void
leat_ask_answer(struct leat_ask_kind *kind, struct leat_asked *a,
		void (*fill)(struct leat_question *q, const void *arg), const void *arg)
{
	struct leat_question *q;

	(void)pthread_mutex_lock(&kind->lock);
	q = a->question;
	if (q != NULL) {
		fill(q, arg);
		q->filled = true;
		__atomic_store_n(&a->question, NULL, __ATOMIC_RELAXED);
		(void)pthread_cond_broadcast(&answered);
	}
	(void)pthread_mutex_unlock(&kind->lock);
}

int
leat_ask_list(struct leat_ask_kind *kind, struct rte_tel_data *d)
{
	const struct leat_asked *a;
	int ret = 0;

	rte_tel_data_start_dict(d);
	(void)pthread_mutex_lock(&kind->lock);
	for (a = kind->first; a != NULL && ret == 0; a = a->next) {
		char id[16];

		snprintf(id, sizeof(id), "%u", a->id);
		ret = rte_tel_data_add_dict_string(d, id, a->name);
	}
	(void)pthread_mutex_unlock(&kind->lock);
	return ret;
}

/* Set the question, and wait for its answer. The caller holds the lock. */
static int
wait_for(struct leat_ask_kind *kind, unsigned int id, struct leat_question *q)
{
	struct timespec until;
	struct leat_asked *a;
	int ret = 0;

	for (a = kind->first; a != NULL && a->id != id; a = a->next)
		;
	if (a == NULL)
		return -ENOENT;
	snprintf(q->name, sizeof(q->name), "%s", a->name);
	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += WAIT_S;
	__atomic_store_n(&a->question, q, __ATOMIC_RELAXED);
	while (!q->filled && !q->deleted && ret == 0)
		ret = pthread_cond_timedwait(&answered, &kind->lock, &until);
	if (q->deleted)
		return -ENOENT;
	if (!q->filled)
		__atomic_store_n(&a->question, NULL, __ATOMIC_RELAXED);
	return 0;
}

/* Parse "ID" or "ID,FIRST". */
static int
parse(const char *params, unsigned long *id, unsigned long *first)
{
	char *end;

	*first = 0;
	if (params == NULL || *params < '0' || *params > '9')
		return -EINVAL;
	errno = 0;
	*id = strtoul(params, &end, 10);
	if (*end == ',' && end[1] >= '0' && end[1] <= '9')
		*first = strtoul(end + 1, &end, 10);
	return errno == 0 && *end == '\0' && *first <= UINT16_MAX && *id <= UINT32_MAX ? 0
										       : -EINVAL;
}

int
leat_ask(struct leat_ask_kind *kind, const char *params, struct leat_question *q, unsigned int *id)
{
	unsigned long number, first;
	int ret = parse(params, &number, &first);

	if (ret < 0)
		return ret;
	*id = (unsigned int)number;
	q->first = (uint32_t)first;
	(void)pthread_mutex_lock(&kind->question_lock);
	(void)pthread_mutex_lock(&kind->lock);
	ret = wait_for(kind, *id, q);
	(void)pthread_mutex_unlock(&kind->lock);
	(void)pthread_mutex_unlock(&kind->question_lock);
	return ret;
}

int
leat_ask_add_all(struct rte_tel_data *d, const char *key, uint32_t n,
		 int (*add)(struct rte_tel_data *all, const void *copy, uint32_t i),
		 const void *copy)
{
	struct rte_tel_data *all;
	uint32_t i;
	int ret = 0;

	if (n == 0)
		return 0;
	all = rte_tel_data_alloc();
	if (all == NULL)
		return -ENOMEM;
	rte_tel_data_start_dict(all);
	for (i = 0; i < n && ret == 0; i++)
		ret = add(all, copy, i);
	ret = rte_tel_data_add_dict_container(d, key, all, 0);
	if (ret < 0)
		rte_tel_data_free(all);
	return ret;
}
