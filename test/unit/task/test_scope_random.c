/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Races of a completion against a cancel, in ROUNDS rounds. Each round has three branches: one
 * waits in an operation, one cancels, and one completes the operation. They begin in any order, and
 * each acts after 0 to 3 turns. The expected outcome follows from which of post, cancel and
 * completion came first, and from what the resource's cancel function returns.
 */

#include "scope_test.h"

/* A task is much slower under sanitizers. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ROUNDS 50000
#else
#define ROUNDS 1000000
#endif
#define OWN_RESULT 5
/* Each outcome must occur in at least 1 of 100 rounds, or the schedules are wrong. */
#define ENOUGH (ROUNDS / 100)

enum outcome {
	REFUSED,   /* the cancel came before the post */
	COMPLETED, /* the completion came first */
	TOO_LATE,  /* the cancel came first, but could do nothing */
	FREED,
	PROMISED,
	ASKED_YES,
	ASKED_NO,
	OUTCOMES,
};

struct race {
	struct leat_resource_op op;
	enum leat_cancel answer;
	unsigned int delay[3]; /* turns before the post, the cancel, the completion */
	int result;	       /* the result of the completion */
	unsigned int posts, cancels, ends;
	bool worker_ended;
	int got;
	int cancel;
};

static uint64_t seed = 20120915;
static unsigned int outcomes[OUTCOMES];

static int
race_post(struct leat_resource_op *op)
{
	container_of(op, struct race, op)->posts++;
	return 0;
}

static enum leat_cancel
race_cancel(struct leat_resource_op *op)
{
	struct race *r = container_of(op, struct race, op);

	/* An operation that has ended is never cancelled. */
	assert_int_equal(r->ends, 0);
	r->cancels++;
	/* Play the device, which decides whether the cancel was in time. */
	if (r->answer == LEAT_CANCEL_ASKED && (test_random(&seed) & 1))
		r->result = -ECANCELED;
	return r->answer;
}

static const struct leat_resource race_resource = { "race", race_post, race_cancel, NULL };

static void
turns(unsigned int n)
{
	while (n-- > 0)
		task_test_yield();
}

static int
race_worker(void *arg)
{
	struct race *r = arg;

	turns(r->delay[0]);
	r->got = leat_resource_run(&r->op, &race_resource);
	r->worker_ended = true;
	return 0;
}

static int
race_canceller(void *arg)
{
	struct race *r = arg;

	turns(r->delay[1]);
	r->cancel = leat_scope_cancel_siblings();
	return 0;
}

static int
race_completer(void *arg)
{
	struct race *r = arg;

	turns(r->delay[2]);
	for (;;) {
		if (leat_resource_end(&r->op, r->result) == 0) {
			r->ends++;
			assert_int_equal(leat_resource_end(&r->op, r->result), -EALREADY);
			return 0;
		}
		if (r->worker_ended)
			return 0;
		turns(1);
	}
}

static enum outcome
race_check(const struct race *r)
{
	assert_int_equal(r->cancel, 0);
	assert_true(r->worker_ended);
	if (r->posts == 0) {
		assert_int_equal(r->got, -ECANCELED);
		assert_int_equal(r->cancels + r->ends, 0);
		return REFUSED;
	}
	assert_int_equal(r->posts, 1);
	if (r->cancels == 0) {
		assert_int_equal(r->got, OWN_RESULT);
		assert_int_equal(r->ends, 1);
		return COMPLETED;
	}
	assert_int_equal(r->cancels, 1);
	/* A cancel that returned LEAT_CANCEL_FREED ended the operation; else the completion did. */
	assert_int_equal(r->ends, r->answer == LEAT_CANCEL_FREED ? 0 : 1);
	switch (r->answer) {
	case LEAT_CANCEL_LATE:
		assert_int_equal(r->got, OWN_RESULT);
		return TOO_LATE;
	case LEAT_CANCEL_FREED:
		assert_int_equal(r->got, -ECANCELED);
		return FREED;
	case LEAT_CANCEL_WILL:
		assert_int_equal(r->got, -ECANCELED);
		return PROMISED;
	case LEAT_CANCEL_ASKED:
		break;
	}
	assert_int_equal(r->got, r->result);
	return r->got == -ECANCELED ? ASKED_YES : ASKED_NO;
}

static int
race_rounds(void *arg)
{
	static const leat_task_fn fns[] = { race_worker, race_canceller, race_completer };
	struct leat_scope s;
	struct race r;
	unsigned int i, j;

	(void)arg;
	for (i = 0; i < ROUNDS; i++) {
		uint64_t dice = test_random(&seed);

		r = (struct race){
			.answer = (enum leat_cancel)(dice & 3),
			.delay = { dice >> 2 & 1, dice >> 3 & 3, dice >> 5 & 3 },
			.result = OWN_RESULT,
		};
		/*
		 * In half of the rounds the scope of the last round is used again, without a new
		 * init.
		 */
		if (i == 0 || (dice >> 10 & 1) != 0)
			leat_scope_init(&s);
		for (j = 0; j < 3; j++)
			assert_int_equal(leat_scope_branch(&s, "race", fns[(j + (dice >> 7)) % 3],
							   &r, NULL),
					 0);
		assert_int_equal(leat_scope_wait(&s), 0);
		outcomes[race_check(&r)]++;
	}
	return 0;
}

static void
test_completion_against_cancel(void **state)
{
	struct leat_task *task;
	struct task_test t;
	unsigned int i;

	(void)state;
	task_test_begin(&t, NULL);
	task = task_test_spawn(&t, "main", race_rounds, NULL);
	while (leat_task_state(task) != LEAT_TASK_DONE)
		test_turns(t.r, 1);
	assert_int_equal(leat_task_join(task, NULL), 0);
	task_test_end(&t);
	for (i = 0; i < OUTCOMES; i++) {
		print_message("outcome %u: %u times\n", i, outcomes[i]);
		assert_true(outcomes[i] >= ENOUGH);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_completion_against_cancel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
