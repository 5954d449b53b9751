/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_ASK_H
#define LEAT_ASK_H

/*
 * Telemetry asks the owners of objects, for leat's own libraries; not installed.
 *
 * Commands of telemetry run on threads of its own, and what an object holds is its owner's: it
 * copies what was asked for when it comes by.
 *
 *     telemetry's thread                      owner's thread
 *     leat_ask(): question set, waits         leat_ask_pending(): one load, now and then
 *                                             leat_ask_answer(): fill() the copy, wakes
 *     writes JSON, without a lock    <-----
 *
 * An owner that does not come by is not waited for longer than a second: leat_question.filled is
 * false then. So the fast path has none of this.
 *
 * Objects of one kind are numbered from 0; a kind is asked one question at a time.
 */

#include <pthread.h>

#include <leat_common.h>

struct rte_tel_data;

/* What is asked, and the first member of the copy. */
struct leat_question {
	uint32_t first; /* place from which on things are listed */
	bool filled;	/* by the owner */
	bool gone;
	char name[64]; /* of the object */
};

/* Part of an object. */
struct leat_asked {
	struct leat_asked *next;
	struct leat_question *question; /* NULL: none */
	const char *name;		/* of the object, which outlives this */
	unsigned int id;
};

/* A kind of object. */
struct leat_ask_kind {
	pthread_mutex_t lock;
	pthread_mutex_t one; /* question at a time */
	struct leat_asked *first;
	unsigned int next_id;
};

#define LEAT_ASK_KIND_INIT                                                                         \
	{                                                                                          \
		.lock = PTHREAD_MUTEX_INITIALIZER, .one = PTHREAD_MUTEX_INITIALIZER                \
	}

/* Owner: it can be asked from here on; name is kept. */
void leat_ask_add(struct leat_ask_kind *kind, struct leat_asked *a, const char *name);

/* Owner: it can't any more; a question that waits is told so. */
void leat_ask_del(struct leat_ask_kind *kind, struct leat_asked *a);

/* Owner: is there a question? */
static inline bool
leat_ask_pending(const struct leat_asked *a)
{
	return unlikely(__atomic_load_n(&a->question, __ATOMIC_RELAXED) != NULL);
}

/* Owner: fill in what was asked for. arg is for fill(). */
void leat_ask_answer(struct leat_ask_kind *kind, struct leat_asked *a,
		     void (*fill)(struct leat_question *q, const void *arg), const void *arg);

/* Telemetry: write a dictionary of all ids and names. @return 0, or as rte_tel_data_add_...() */
int leat_ask_list(struct leat_ask_kind *kind, struct rte_tel_data *d);

/*
 * Telemetry: ask the object that params, "ID" or "ID,FIRST", names. The question is the first
 * member of a copy, zeroed.
 * @return 0: it was asked, and has answered if q->filled; -EINVAL: params; -ENOENT: no such object
 */
int leat_ask(struct leat_ask_kind *kind, const char *params, struct leat_question *q,
	     unsigned int *id);

/*
 * Telemetry: write a dictionary of the copied things under a key of d; none: no key. add() writes
 * the i-th; what there is no memory for is left out, and the counters tell.
 * @return 0, or as rte_tel_data_add_...(); -ENOMEM
 */
int leat_ask_add_all(struct rte_tel_data *d, const char *key, uint32_t n,
		     int (*add)(struct rte_tel_data *all, const void *copy, uint32_t i),
		     const void *copy);

#endif /* LEAT_ASK_H */
