/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_ASK_H
#define LEAT_ASK_H

/*
 * Questions of telemetry to the owners of objects. For leat's own libraries; not installed.
 *
 * Telemetry runs its commands on threads of its own, but only an object's owner thread may read the
 * object. So telemetry leaves a question, and the owner, which checks for questions now and then,
 * copies the values asked for.
 *
 *     telemetry's thread                      owner's thread
 *     leat_ask(): question set, waits         leat_ask_pending(): one load, now and then
 *                                             leat_ask_answer(): fill() the copy, wakes
 *     writes JSON, without a lock    <-----
 *
 * Telemetry waits two seconds at most for an owner; then leat_question.filled is false. The owner's
 * fast path does nothing for this.
 *
 * Objects of one kind are numbered from 0; each kind takes one question at a time.
 */

#include <pthread.h>

#include <leat_common.h>

struct rte_tel_data;

/* A question: the first member of a struct that also has room for the copied values ("copy"). */
struct leat_question {
	uint32_t first; /* index in the object's list at which the answer begins */
	bool filled;	/* the owner has answered */
	bool deleted;	/* the object was destroyed meanwhile */
	char name[64];	/* name of the object */
};

/* A member of each object that telemetry can ask: its id and name, and the question. */
struct leat_asked {
	struct leat_asked *next;
	struct leat_question *question; /* question that waits; NULL: none */
	const char *name;		/* name of the object; outlives this struct */
	unsigned int id;
};

/* A kind of object. */
struct leat_ask_kind {
	pthread_mutex_t lock;
	pthread_mutex_t question_lock; /* held by telemetry for one question at a time */
	struct leat_asked *first;
	unsigned int next_id;
};

#define LEAT_ASK_KIND_INIT                                                                         \
	{                                                                                          \
		.lock = PTHREAD_MUTEX_INITIALIZER, .question_lock = PTHREAD_MUTEX_INITIALIZER      \
	}

/* Owner: make the object known to telemetry. name is kept, not copied. */
void leat_ask_add(struct leat_ask_kind *kind, struct leat_asked *a, const char *name);

/* Owner: make the object unknown again; a waiting question gets -ENOENT. */
void leat_ask_del(struct leat_ask_kind *kind, struct leat_asked *a);

/* Owner: check whether a question waits for an answer. */
static inline bool
leat_ask_pending(const struct leat_asked *a)
{
	return unlikely(__atomic_load_n(&a->question, __ATOMIC_RELAXED) != NULL);
}

/* Owner: answer the question. fill() copies the values asked for to q, and gets arg. */
void leat_ask_answer(struct leat_ask_kind *kind, struct leat_asked *a,
		     void (*fill)(struct leat_question *q, const void *arg), const void *arg);

/* Telemetry: write a dictionary of all ids and names. @return 0, or as rte_tel_data_add_...() */
int leat_ask_list(struct leat_ask_kind *kind, struct rte_tel_data *d);

/*
 * Telemetry: ask the object that params names. params is "ID" or "ID,FIRST": the object's id,
 * stored in *id, and the index in its list at which the answer begins (default 0). q is the first
 * member of a zeroed copy.
 * @return 0: asked, and answered if q->filled; -EINVAL: params is malformed; -ENOENT: no such
 *   object
 */
int leat_ask(struct leat_ask_kind *kind, const char *params, struct leat_question *q,
	     unsigned int *id);

/*
 * Telemetry: write a dictionary of the n copied list entries under a key of d; no key if n is 0.
 * add() writes the i-th entry. If add() fails, for lack of memory, the other entries are left out,
 * so the dictionary has fewer entries than the object's counters say.
 * @return 0, or as rte_tel_data_add_...(); -ENOMEM
 */
int leat_ask_add_all(struct rte_tel_data *d, const char *key, uint32_t n,
		     int (*add)(struct rte_tel_data *all, const void *copy, uint32_t i),
		     const void *copy);

#endif /* LEAT_ASK_H */
