/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The method "pmix", with a libpmix of the test's own: rare behaviour of real servers or of other
 * releases, and callbacks that come when no call waits any more.
 */

#include "rendezvous_test.h"

#include <pthread.h>

#include "pmix_fake.h"

#define ME 0u
#define SIZE 4u
/*
 * A timeout long enough to reach PMIx's fence and to ask for records, even on a loaded machine; yet
 * below 1 s: with more, ranks that are missing when PMIx's fence has ended count as dead.
 */
#define ENOUGH_US (900 * MS)

/* Number of instances that this program has opened: a part of the keys. */
static unsigned int nb_opened;

static int
setup(void **state)
{
	(void)state;
	fake_reset(ME, SIZE);
	setenv("PMIX_NAMESPACE", "job", 1);
	setenv("PMIX_RANK", "0", 1);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	fake_release();
	return 0;
}

/*
 * Wait until this call was made n times. On a loaded machine a time-out can pass before the helper
 * thread calls: then the thread would meet the next test.
 */
static void
await_calls(enum fake_call call, unsigned int n)
{
	double until = seconds() + PATIENCE_S;

	while (fake_calls(call) < n) {
		assert_true(seconds() < until);
		sched_yield();
	}
	assert_int_equal(fake_calls(call), n);
}

static struct leat_rendezvous *
try_open(struct leat_rendezvous_conf conf)
{
	nb_opened++;
	conf.timeout_us = conf.timeout_us != 0 ? conf.timeout_us : PATIENCE_S * 1000 * MS;
	return leat_rendezvous_open(&conf);
}

static struct leat_rendezvous *
must_open(void)
{
	struct leat_rendezvous *rv = try_open((struct leat_rendezvous_conf){ 0 });

	if (rv == NULL)
		fail_msg("%s", leat_err_msg());
	return rv;
}

static char *
key_of(unsigned int round, char key[64])
{
	snprintf(key, 64, "leat.leat.%u.%u", nb_opened - 1, round);
	return key;
}

/* Publish the record of rank r in a round, with this value if there is one. */
static void
publish(uint32_t r, unsigned int round, unsigned int state_round, const char *value, bool local)
{
	const struct record_value v = { .key = "v",
					.key_len = 1,
					.data = (const uint8_t *)value,
					.len = value != NULL ? (uint16_t)strlen(value) : 0 };
	uint8_t state[64], buf[256];
	struct record rec = { .kind = RECORD_RANK,
			      .rank = r,
			      .size = SIZE,
			      .round = round,
			      .state_round = state_round };
	char key[64];

	if (value != NULL) {
		rec.flags = RECORD_STATE;
		rec.state = state;
		rec.state_len = record_state_build(state, &v, 1);
	}
	fake_set(r, key_of(round, key), buf, record_build(buf, &rec), local);
}

static void
assert_value(struct leat_rendezvous *rv, uint32_t r, const char *value)
{
	char buf[64];
	int len = leat_rendezvous_get(rv, r, "v", buf, sizeof(buf));

	assert_int_equal(len, strlen(value));
	assert_memory_equal(buf, value, strlen(value));
}

/* ---- all ranks come ---- */

static int
all_at_once(unsigned int n)
{
	publish(1, n, n, n == 1 ? "one" : "ONE", true);
	publish(2, n, 1, n == 1 ? "two" : NULL, true);
	publish(3, n, n, n == 1 ? "three" : "THREE", true);
	return PMIX_ABI_SUCCESS;
}

static void
test_rounds(void **state)
{
	struct leat_rendezvous *rv = must_open();
	const uint8_t *own;
	const char *why;
	struct record rec;
	char key[64];
	size_t len;

	(void)state;
	assert_int_equal(leat_rendezvous_how(rv), LEAT_RENDEZVOUS_PMIX);
	assert_int_equal(leat_rendezvous_rank(rv), ME);
	assert_int_equal(leat_rendezvous_size(rv), SIZE);
	assert_string_equal(leat_rendezvous_describe(rv),
			    "pmix: rank 0 of 4 in job, job leat, by fake 1.0 (PMIX_NAMESPACE and "
			    "PMIX_RANK are set)");
	/*
	 * PMIx_Init() runs with all signals blocked, on a thread of its own: PMIx's threads inherit
	 * its signal mask, and don't share the caller's CPU.
	 */
	assert_true(fake.all_signals_blocked);
	assert_false(fake.same_thread);

	fake.on_fence = all_at_once;
	assert_int_equal(leat_rendezvous_put(rv, "v", "zero", 4), 0);
	assert_int_equal(leat_rendezvous_fence(rv, 0), 0);
	assert_value(rv, 0, "zero");
	assert_value(rv, 1, "one");
	assert_value(rv, 2, "two");
	assert_value(rv, 3, "three");
	assert_int_equal(leat_rendezvous_fence(rv, 0), 0);
	assert_value(rv, 0, "zero");
	assert_value(rv, 1, "ONE");
	assert_value(rv, 2, "two");
	assert_value(rv, 3, "THREE");
	/* No rank was asked for directly. */
	assert_int_equal(fake.gets, 0);

	own = fake_own(key_of(1, key), &len);
	assert_non_null(own);
	assert_int_equal(record_parse(own, len, &rec, &why), 0);
	assert_non_null(rec.state);
	/* Unchanged values are not sent again. */
	own = fake_own(key_of(2, key), &len);
	assert_non_null(own);
	assert_int_equal(record_parse(own, len, &rec, &why), 0);
	assert_null(rec.state);
	assert_int_equal(rec.round, 2);
	assert_int_equal(rec.state_round, 1);
	leat_rendezvous_close(rv);
	assert_int_equal(fake_calls(STUB_FINALIZE), 1);
}

static int
first_round(unsigned int n)
{
	(void)n;
	return all_at_once(1);
}

/* A second rendezvous of the same process has keys of its own: the fake refuses duplicates. */
static void
test_again(void **state)
{
	struct leat_rendezvous *rv;
	unsigned int i;

	(void)state;
	fake.on_fence = first_round;
	for (i = 0; i < 2; i++) {
		rv = must_open();
		assert_int_equal(leat_rendezvous_fence(rv, 0), 0);
		assert_value(rv, 3, "three");
		leat_rendezvous_close(rv);
	}
}

static void
test_fence_without_callback(void **state)
{
	struct leat_rendezvous *rv = must_open();

	(void)state;
	fake.fence_now = true;
	(void)all_at_once(1);
	assert_int_equal(leat_rendezvous_fence(rv, 0), 0);
	assert_value(rv, 3, "three");
	leat_rendezvous_close(rv);
}

/* The fence has not brought all records to this node. */
static int
some_elsewhere(unsigned int n)
{
	publish(1, n, n, "one", true);
	publish(2, n, n, "two", false);
	publish(3, n, n, "three", false);
	return PMIX_ABI_ERR_PARTIAL_SUCCESS;
}

static void
test_elsewhere(void **state)
{
	struct leat_rendezvous *rv = must_open();

	(void)state;
	fake.on_fence = some_elsewhere;
	assert_int_equal(leat_rendezvous_fence(rv, 0), 0);
	assert_value(rv, 1, "one");
	assert_value(rv, 2, "two");
	assert_value(rv, 3, "three");
	assert_int_equal(fake.gets, 2);
	leat_rendezvous_close(rv);
}

/* ---- some ranks are missing ---- */

static volatile sig_atomic_t canceled;

static int
cancel(unsigned int n)
{
	canceled = (sig_atomic_t)n;
	return STUB_PENDING;
}

static int
without_2(unsigned int n)
{
	publish(1, n, n, "one", true);
	publish(3, n, n, "three", false);
	return STUB_PENDING;
}

static int
silent(uint32_t rank, const char *key)
{
	(void)rank;
	(void)key;
	return STUB_PENDING;
}

static void
test_missing(void **state)
{
	struct leat_rendezvous *rv = must_open();
	double began = seconds();

	(void)state;
	fake.on_fence = without_2;
	fake.on_get = silent;
	assert_int_equal(leat_rendezvous_fence(rv, ENOUGH_US), -ETIMEDOUT);
	assert_true(seconds() - began >= 0.9);
	assert_msg_has("fence 1 timed out after");
	assert_msg_has("missing is rank 2 of 4");
	assert_true(leat_rendezvous_arrived(rv, 3));
	assert_false(leat_rendezvous_arrived(rv, 2));
	assert_value(rv, 3, "three");
	leat_rendezvous_close(rv);
	/* Answers that come now find no caller: teardown releases them. */
}

/* ---- this process gets no CPU while the time passes ---- */

static double busy_until;

static void
be_busy(void)
{
	while (seconds() < busy_until)
		sched_yield();
}

static int
fence_while_busy(unsigned int n)
{
	(void)n;
	be_busy();
	return STUB_PENDING;
}

/* The request for rank 1's record is under way: answer it, then let the time pass. */
static int
answer_while_busy(uint32_t rank, const char *key)
{
	(void)key;
	if (rank == 2) {
		publish(1, 1, 1, "one", false);
		fake_await_answers();
		be_busy();
	}
	return STUB_PENDING;
}

/* An answer that has arrived in time counts, even if it is read when the time is up. */
static void
test_answer_read_late(void **state)
{
	struct leat_rendezvous *rv = must_open();

	(void)state;
	fake.on_get = answer_while_busy;
	busy_until = seconds() + 0.5;
	assert_int_equal(leat_rendezvous_fence(rv, 100 * MS), -ETIMEDOUT);
	assert_msg_has("missing are ranks 2-3 of 4");
	assert_value(rv, 1, "one");
	leat_rendezvous_close(rv);
}

/* Even if the time is up, records are asked for as long as planned: a quarter of the limit. */
static void
test_asked_late(void **state)
{
	struct leat_rendezvous *rv = must_open();

	(void)state;
	fake.on_fence = fence_while_busy;
	fake.on_get = silent;
	busy_until = seconds() + 0.5;
	assert_int_equal(leat_rendezvous_fence(rv, 400 * MS), -ETIMEDOUT);
	assert_true(seconds() - busy_until >= 0.1);
	assert_msg_has("missing are ranks 1-3 of 4");
	leat_rendezvous_close(rv);
}

/*
 * After a cancel or a time-out the process waits for the pending PMIx fence before it begins the
 * next one, since a server counts processes without telling them apart. When all ranks have come,
 * three fences were begun in three rounds.
 */
static void
test_one_fence_at_a_time(void **state)
{
	struct leat_rendezvous *rv;

	(void)state;
	canceled = 0;
	rv = try_open((struct leat_rendezvous_conf){ .cancel = &canceled });
	assert_non_null(rv);
	fake.on_fence = cancel;
	fake.on_get = silent;
	assert_int_equal(leat_rendezvous_fence(rv, 0), -ECANCELED);
	canceled = 0;
	assert_int_equal(leat_rendezvous_fence(rv, ENOUGH_US), -ETIMEDOUT);
	/* No other rank has published a record, and the first PMIx fence is still pending. */
	assert_msg_has("missing are ranks 1-3 of 4");
	assert_int_equal(fake.fences, 1);
	/* These requests are not answered yet: they are not repeated. */
	assert_int_equal(fake.gets, 3);

	publish(1, 3, 3, "ONE", true);
	publish(2, 1, 1, "two", true);
	publish(2, 3, 1, NULL, true);
	publish(3, 3, 3, "three", true);
	fake.on_fence = NULL;
	fake_end_fence(PMIX_ABI_SUCCESS);
	assert_int_equal(leat_rendezvous_fence(rv, 0), 0);
	assert_int_equal(fake.fences, 3);
	assert_int_equal(fake.fences_at_once, 1);
	assert_value(rv, 1, "ONE");
	/* Rank 2's record of round 3 refers to its record of round 1, which is read only now. */
	assert_value(rv, 2, "two");
	assert_value(rv, 3, "three");
	leat_rendezvous_close(rv);
}

static int
partial(unsigned int n)
{
	publish(1, n, n, "one", true);
	publish(3, n, n, "three", true);
	return PMIX_ABI_ERR_PARTIAL_SUCCESS;
}

/* The fence has ended, but rank 2 never came: it counts as dead. */
static void
test_dead(void **state)
{
	struct leat_rendezvous *rv = must_open();
	double began = seconds();

	(void)state;
	fake.on_fence = partial;
	fake.on_get = silent;
	assert_int_equal(leat_rendezvous_fence(rv, 2 * PATIENCE_S * 1000 * MS), -ECONNRESET);
	assert_true(seconds() - began < PATIENCE_S);
	assert_msg_has("missing is rank 2 of 4");
	/* The other ranks go on without rank 2. */
	assert_int_equal(leat_rendezvous_fence(rv, 2 * PATIENCE_S * 1000 * MS), -ECONNRESET);
	assert_true(leat_rendezvous_arrived(rv, 1));
	leat_rendezvous_close(rv);
}

static int
failing(unsigned int n)
{
	(void)n;
	return -1;
}

/* If PMIx_Fence_nb() fails with any other error, no rank counts as dead: the fence times out. */
static void
test_fence_fails(void **state)
{
	struct leat_rendezvous *rv = must_open();

	(void)state;
	fake.on_fence = failing;
	assert_int_equal(leat_rendezvous_fence(rv, ENOUGH_US), -ETIMEDOUT);
	assert_msg_has("missing are ranks 1-3 of 4; PMIx_Fence: SOME-ERROR");
	leat_rendezvous_close(rv);
}

static void
test_cancel(void **state)
{
	struct leat_rendezvous *rv;

	(void)state;
	canceled = 0;
	rv = try_open((struct leat_rendezvous_conf){ .cancel = &canceled });
	assert_non_null(rv);
	fake.on_fence = cancel;
	assert_int_equal(leat_rendezvous_fence(rv, 0), -ECANCELED);
	leat_rendezvous_close(rv);
	fake.hold[STUB_INIT] = true;
	assert_null(try_open((struct leat_rendezvous_conf){ .cancel = &canceled }));
	assert_int_equal(rte_errno, ECANCELED);
	await_calls(STUB_INIT, 2);
	fake.status[STUB_INIT] = -1;
}

/* ---- hostile values ---- */

static void
test_hostile(void **state)
{
	static const uint8_t large[RECORD_RANK_MAX + 1];
	struct record wrong = { .kind = RECORD_RANK, .rank = 3, .size = SIZE, .round = 1 };
	struct leat_rendezvous *rv = must_open();
	uint8_t buf[256];
	char key[64];

	(void)state;
	/* PMIx's fences end at once: ranks without a valid record 1 s later count as dead. */
	key_of(1, key);
	fake_set(1, key, "junk", 4, true);
	fake_set(2, key, large, sizeof(large), true);
	fake_set(3, key, "", 0, true);
	assert_int_equal(leat_rendezvous_fence(rv, 0), -ECONNRESET);
	assert_msg_has("missing are ranks 1-3 of 4; the record that rank ");
	/*
	 * Also refused: another rank's record in the place of rank 1's, and a record of a job of
	 * another size.
	 */
	fake_set(1, key_of(2, key), buf, record_build(buf, &wrong), true);
	wrong.rank = 2;
	wrong.size = 3;
	fake_set(2, key, buf, record_build(buf, &wrong), true);
	assert_int_equal(leat_rendezvous_fence(rv, 0), -ECONNRESET);
	assert_msg_has("missing are ranks 1-3 of 4; the record that rank");
	leat_rendezvous_close(rv);
}

/* ---- the server does not answer, or refuses ---- */

static void
test_init_hangs(void **state)
{
	double began = seconds();

	(void)state;
	fake.hold[STUB_INIT] = true;
	assert_null(try_open((struct leat_rendezvous_conf){ .timeout_us = 50 * MS }));
	assert_int_equal(rte_errno, ETIMEDOUT);
	assert_msg_has("PMIx's server does not answer");
	assert_true(seconds() - began < PATIENCE_S);
	/* PMIx_Init() has not returned, so PMIx_Finalize() must not be called. */
	assert_int_equal(fake_calls(STUB_FINALIZE), 0);
	await_calls(STUB_INIT, 1);
	fake.status[STUB_INIT] = -1;
}

static void
test_commit_hangs(void **state)
{
	struct leat_rendezvous *rv = must_open();

	(void)state;
	fake.hold[STUB_COMMIT] = true;
	assert_int_equal(leat_rendezvous_fence(rv, 50 * MS), -ETIMEDOUT);
	assert_msg_has("PMIx's server does not answer (PMIx_Commit)");
	/* The call may still use its arguments; no other call is made before it returns. */
	assert_int_equal(leat_rendezvous_fence(rv, 50 * MS), -ETIMEDOUT);
	assert_msg_has("PMIx's server has not answered, yet");
	await_calls(STUB_COMMIT, 1);
	assert_int_equal(fake.fences, 0);
	leat_rendezvous_close(rv);
	assert_int_equal(fake_calls(STUB_FINALIZE), 0);
}

static int
third_round(unsigned int n)
{
	return n < 3 ? PMIX_ABI_SUCCESS : all_at_once(n);
}

/* The server answers PMIx_Commit() after two fences have timed out: the next fence succeeds. */
static void
test_commit_is_late(void **state)
{
	struct leat_rendezvous *rv = must_open();

	(void)state;
	fake.hold[STUB_COMMIT] = true;
	assert_int_equal(leat_rendezvous_fence(rv, 50 * MS), -ETIMEDOUT);
	assert_int_equal(leat_rendezvous_fence(rv, 50 * MS), -ETIMEDOUT);
	fake_release();
	publish(2, 1, 1, "two", true);
	fake.on_fence = third_round;
	assert_int_equal(leat_rendezvous_fence(rv, 0), 0);
	assert_int_equal(fake.fences, 3);
	assert_value(rv, 2, "two");
	assert_value(rv, 3, "THREE");
	leat_rendezvous_close(rv);
	assert_int_equal(fake_calls(STUB_FINALIZE), 1);
}

static void
test_get_hangs(void **state)
{
	struct leat_rendezvous *rv;

	(void)state;
	/* With only one other process the call that is held up is the last one of its thread. */
	fake.size = 2;
	rv = must_open();
	fake.hold[STUB_GET] = true;
	assert_int_equal(leat_rendezvous_fence(rv, ENOUGH_US), -ETIMEDOUT);
	assert_msg_has("PMIx's server does not answer (PMIx_Get)");
	/* The first one was the call for the size of the job. */
	await_calls(STUB_GET, 2);
	fake_release();
	leat_rendezvous_close(rv);
}

static void
test_finalize_hangs(void **state)
{
	struct leat_rendezvous *rv = must_open();
	double began = seconds();

	(void)state;
	fake.hold[STUB_FINALIZE] = true;
	leat_rendezvous_close(rv);
	assert_true(seconds() - began < PATIENCE_S);
	await_calls(STUB_FINALIZE, 1);
}

static bool answered;

/* The server answers PMIx_Finalize() after a helper thread has called it. */
static void *
answer_finalize(void *arg)
{
	while (fake_calls(STUB_FINALIZE) == 0)
		sched_yield();
	__atomic_store_n(&answered, true, __ATOMIC_RELEASE);
	fake_release();
	return arg;
}

/* close() waits for PMIx_Finalize(), also when the limit has passed and after a cancel. */
static void
test_finalize_after_limit(void **state)
{
	struct leat_rendezvous *rv;
	pthread_t thread;

	(void)state;
	canceled = 0;
	rv = try_open((struct leat_rendezvous_conf){ .cancel = &canceled });
	assert_non_null(rv);
	leat_rendezvous_limit(rv, 1);
	fake.hold[STUB_FINALIZE] = true;
	canceled = 1;
	assert_int_equal(pthread_create(&thread, NULL, answer_finalize, NULL), 0);
	leat_rendezvous_close(rv);
	assert_true(__atomic_load_n(&answered, __ATOMIC_ACQUIRE));
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void
test_refused(void **state)
{
	struct leat_rendezvous *rv;

	(void)state;
	fake.status[STUB_INIT] = -1;
	assert_null(try_open((struct leat_rendezvous_conf){ 0 }));
	assert_int_equal(rte_errno, EIO);
	assert_msg_has("PMIx_Init: SOME-ERROR");
	assert_int_equal(fake_calls(STUB_FINALIZE), 0);
	fake.status[STUB_INIT] = 0;
	fake.status[STUB_GET] = -1;
	assert_null(try_open((struct leat_rendezvous_conf){ 0 }));
	assert_int_equal(rte_errno, EIO);
	assert_int_equal(fake_calls(STUB_FINALIZE), 1);
	fake.status[STUB_GET] = 0;
	rv = must_open();
	fake.status[STUB_COMMIT] = -1;
	assert_int_equal(leat_rendezvous_fence(rv, 0), -EIO);
	assert_msg_has("PMIx_Commit: SOME-ERROR");
	leat_rendezvous_close(rv);
}

static void
test_sizes(void **state)
{
	static const uint32_t bad[] = { 0, LEAT_RENDEZVOUS_RANKS_MAX + 1, UINT32_MAX };
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(bad); i++) {
		fake.size = bad[i];
		assert_null(try_open((struct leat_rendezvous_conf){ 0 }));
		assert_int_equal(rte_errno, EINVAL);
	}
	fake.size = SIZE;
	assert_null(try_open((struct leat_rendezvous_conf){ .size = 5 }));
	assert_msg_has("the size was given as 5, but it is 4");
	fake.rank = 1;
	assert_null(try_open((struct leat_rendezvous_conf){ 0 }));
	assert_msg_has("PMIX_RANK is 0, but PMIx says 1");
	fake.rank = ME;
	assert_int_equal(fake_calls(STUB_FINALIZE), fake_calls(STUB_INIT));
	/* Refused before PMIx is used: no instance was opened. */
	nb_opened--;
	assert_null(try_open((struct leat_rendezvous_conf){ .rank_given = true, .rank = 1 }));
	assert_msg_has("the rank was given as 1, but it is 0");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_rounds, setup, teardown),
		cmocka_unit_test_setup_teardown(test_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fence_without_callback, setup, teardown),
		cmocka_unit_test_setup_teardown(test_elsewhere, setup, teardown),
		cmocka_unit_test_setup_teardown(test_missing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_answer_read_late, setup, teardown),
		cmocka_unit_test_setup_teardown(test_asked_late, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_fence_at_a_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dead, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fence_fails, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cancel, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hostile, setup, teardown),
		cmocka_unit_test_setup_teardown(test_init_hangs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_commit_hangs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_commit_is_late, setup, teardown),
		cmocka_unit_test_setup_teardown(test_get_hangs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_finalize_hangs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_finalize_after_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sizes, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
