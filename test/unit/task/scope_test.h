/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef SCOPE_TEST_H
#define SCOPE_TEST_H

/* Branches that wait and branches that cancel, for the tests of scopes. */

#include <leat_resource.h>
#include <leat_scope.h>
#include <leat_task_event.h>

#include "task_test.h"

/* An operation that the test completes, and that counts its posts and cancels. */
struct hand {
	struct leat_resource_op op;
	enum leat_cancel answer;
	unsigned int posts;
	unsigned int cancels;
};

static inline int
hand_post(struct leat_resource_op *op)
{
	container_of(op, struct hand, op)->posts++;
	return 0;
}

static inline enum leat_cancel
hand_cancel(struct leat_resource_op *op)
{
	struct hand *h = container_of(op, struct hand, op);

	h->cancels++;
	return h->answer;
}

static const struct leat_resource hand = { .name = "hand", hand_post, hand_cancel, NULL };

/* A branch that waits for `rounds` operations, one after the other. */
struct worker {
	struct hand h;
	const struct leat_resource *res;
	unsigned int rounds; /* number of operations; 0: none */
	int results[3];
	int ret;
	struct leat_scope *scope;
	struct leat_task *task;
	bool cancelled; /* whether the branch was cancelled when it ended */
	bool ended;
};

static inline int
worker_main(void *arg)
{
	struct worker *w = arg;
	unsigned int i;

	w->task = leat_task_current();
	for (i = 0; i < w->rounds; i++)
		w->results[i] = leat_resource_run(&w->h.op, w->res);
	w->cancelled = leat_task_cancelled();
	w->ended = true;
	return i > 0 ? w->results[i - 1] : 0;
}

static inline void
worker_start(struct leat_scope *s, struct worker *w, unsigned int rounds)
{
	*w = (struct worker){ .res = &hand, .h.answer = LEAT_CANCEL_FREED, .rounds = rounds };
	assert_int_equal(leat_scope_branch(s, "worker", worker_main, w, &w->ret), 0);
}

/* A branch that yields once, so that its siblings begin to wait, then cancels them. */
struct canceller {
	int result;
	bool cancelled;
	bool others_ended; /* whether `other` had ended when the cancel returned */
	struct worker *other;
};

static inline int
canceller_main(void *arg)
{
	struct canceller *c = arg;

	task_test_yield();
	c->result = leat_scope_cancel_siblings();
	c->others_ended = c->other != NULL && c->other->ended;
	c->cancelled = leat_task_cancelled();
	return 0;
}

static inline void
canceller_start(struct leat_scope *s, struct canceller *c, struct worker *other)
{
	*c = (struct canceller){ .result = 1, .other = other };
	assert_int_equal(leat_scope_branch(s, "canceller", canceller_main, c, NULL), 0);
}

/* A branch that waits for branches of its own: a worker, and maybe a canceller. */
struct nest {
	struct worker w;
	struct canceller c;
	struct leat_scope s;
	int result; /* result of leat_scope_wait() */
	bool cancelled;
};

static inline int
nest_wait(struct nest *n)
{
	n->result = leat_scope_wait(&n->s);
	n->cancelled = leat_task_cancelled();
	return n->result;
}

static inline int
nest_main(void *arg)
{
	struct nest *n = arg;

	leat_scope_init(&n->s);
	worker_start(&n->s, &n->w, 1);
	canceller_start(&n->s, &n->c, NULL);
	return nest_wait(n);
}

static inline int
quiet_nest_main(void *arg)
{
	struct nest *n = arg;

	leat_scope_init(&n->s);
	worker_start(&n->s, &n->w, 1);
	return nest_wait(n);
}

static inline void
nest_start(struct leat_scope *s, struct nest *n)
{
	assert_int_equal(leat_scope_branch(s, "nest", nest_main, n, NULL), 0);
}

/* Define a test that runs fn as a task, and expects that fn returns 0. */
#define RULE(name, fn)                                                                             \
	static void name(void **state)                                                             \
	{                                                                                          \
		(void)state;                                                                       \
		assert_int_equal(task_test_run(fn, NULL), 0);                                      \
	}

#define TEST(fn) cmocka_unit_test_setup(fn, test_clock_setup)

#endif /* SCOPE_TEST_H */
