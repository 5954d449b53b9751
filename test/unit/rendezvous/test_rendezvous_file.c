/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Processes meet by files. In some tests all of them come, in any order; in others some never come,
 * or one closes early.
 */

#include "rendezvous_test.h"

#include "rendezvous_pvt.h"

#define RANKS 4

static struct test_dir dir;

static int
setup(void **state)
{
	(void)state;
	make_dir(&dir);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	remove_dir(&dir);
	return 0;
}

/* The value that a rank puts in a round. */
static size_t
value_of(uint32_t run, uint32_t rank, uint32_t round, uint8_t *buf)
{
	size_t len = 1 + 500 * (size_t)rank, i;

	for (i = 0; i < len; i++)
		buf[i] = (uint8_t)(run * 101 + rank * 31 + round * 7 + i);
	return len;
}

static int
check_all(struct leat_rendezvous *rv, uint32_t run, uint32_t round)
{
	uint8_t want[LEAT_RENDEZVOUS_VALUE_MAX], got[LEAT_RENDEZVOUS_VALUE_MAX];
	size_t len;
	uint32_t r;

	for (r = 0; r < leat_rendezvous_size(rv); r++) {
		CHECK(leat_rendezvous_arrived(rv, r));
		/* Rank 1 puts no new value in round 2. */
		len = value_of(run, r, r == 1 && round == 2 ? 1 : round, want);
		CHECK(leat_rendezvous_get(rv, r, "v", got, sizeof(got)) == (int)len);
		CHECK(memcmp(want, got, len) == 0);
	}
	return 0;
}

struct run {
	uint32_t rank;
	uint32_t run;
	uint32_t size;
};

/* Run three rounds of all ranks. */
static int
rounds(void *arg)
{
	const struct run *a = arg;
	struct leat_rendezvous_conf conf = conf_of(&dir, a->rank, a->size);
	struct leat_rendezvous *rv = leat_rendezvous_open(&conf);
	uint8_t buf[LEAT_RENDEZVOUS_VALUE_MAX];
	uint32_t round;

	CHECK(rv != NULL);
	CHECK(leat_rendezvous_rank(rv) == a->rank && leat_rendezvous_size(rv) == a->size);
	CHECK(leat_rendezvous_how(rv) == LEAT_RENDEZVOUS_FILE);
	for (round = 1; round <= 3; round++) {
		if (a->rank != 1 || round != 2)
			CHECK(leat_rendezvous_put(rv, "v", buf,
						  value_of(a->run, a->rank, round, buf)) == 0);
		CHECK(leat_rendezvous_fence(rv, 0) == 0);
		CHECK(check_all(rv, a->run, round) == 0);
		/* Wait until all ranks have read the values that this rank will replace. */
		CHECK(leat_rendezvous_fence(rv, 0) == 0);
	}
	leat_rendezvous_close(rv);
	return 0;
}

/* Start ranks first..last of a run. */
static void
start(struct child *c, struct run *a, uint32_t run, uint32_t size, uint32_t first, uint32_t last)
{
	uint32_t r;

	for (r = first; r <= last; r++) {
		a[r] = (struct run){ .rank = r, .run = run, .size = size };
		c[r] = spawn(rounds, &a[r]);
	}
}

static void
test_all_come(void **state)
{
	struct child c[RANKS];
	struct run a[RANKS];
	uint32_t run, r;

	(void)state;
	for (run = 0; run < 3; run++) {
		start(c, a, run, RANKS, 0, RANKS - 1);
		for (r = 0; r < RANKS; r++)
			await_end(c[r]);
		/* The last rank has removed all files. */
		assert_int_equal(count_files(&dir), 0);
	}
}

/* The directory is created; a slash at its end does not matter. */
static void
test_directory_is_made(void **state)
{
	struct leat_rendezvous_conf conf = conf_of(&dir, 0, 1);
	struct leat_rendezvous *rv;
	char path[128], slash[160];
	struct stat st;

	(void)state;
	snprintf(slash, sizeof(slash), "%s/", path_of(&dir, "new", path));
	conf.dir = slash;
	rv = leat_rendezvous_open(&conf);
	assert_non_null(rv);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_int_equal(leat_rendezvous_fence(rv, 0), 0);
	leat_rendezvous_close(rv);
	assert_int_equal(rmdir(path), 0);
	/* Parents of the directory are not created. */
	conf.dir = "/tmp/never-made/leat";
	assert_null(leat_rendezvous_open(&conf));
	assert_int_equal(rte_errno, ENOENT);
}

/* ---- files of earlier runs ---- */

/* Open, reach a fence, and wait to be killed. */
static int
open_and_stay(void *arg)
{
	const struct run *a = arg;
	struct leat_rendezvous_conf conf = conf_of(&dir, a->rank, a->size);
	struct leat_rendezvous *rv = leat_rendezvous_open(&conf);
	uint8_t buf[LEAT_RENDEZVOUS_VALUE_MAX];

	CHECK(rv != NULL);
	CHECK(leat_rendezvous_put(rv, "v", buf, value_of(a->run, a->rank, 1, buf)) == 0);
	CHECK(leat_rendezvous_fence(rv, 0) == 0);
	for (;;)
		pause();
}

/* Leave the files of a run whose ranks were all killed after their first fence. */
static uint64_t
leave_complete_run(void)
{
	struct child c[RANKS];
	struct run a[RANKS];
	uint64_t session;
	uint32_t r;

	for (r = 0; r < RANKS; r++) {
		a[r] = (struct run){ .rank = r, .run = 77, .size = RANKS };
		c[r] = spawn(open_and_stay, &a[r]);
	}
	session = await_session(&dir, RECORD_COMPLETE, 0);
	for (r = 0; r < RANKS; r++)
		await_rank(&dir, r, session, 1);
	for (r = 0; r < RANKS; r++)
		kill_child(c[r]);
	assert_int_equal(count_files(&dir), RANKS + 1);
	return session;
}

/* Ranks that start before rank 0 find a complete old session, and wait for their own. */
static void
test_stale_complete(void **state)
{
	struct child c[RANKS];
	struct run a[RANKS];
	uint64_t session;
	uint32_t r;

	(void)state;
	session = leave_complete_run();
	start(c, a, 5, RANKS, 1, RANKS - 1);
	start(c, a, 5, RANKS, 0, 0);
	assert_int_not_equal(session, 0);
	for (r = 0; r < RANKS; r++)
		await_end(c[r]);
	assert_int_equal(count_files(&dir), 0);
}

/* Rank 0 was killed while it waited: ranks join its session, then that of the next rank 0. */
static void
test_stale_open(void **state)
{
	struct child c[RANKS], old;
	struct run a[RANKS], b = { .rank = 0, .run = 77, .size = RANKS };
	uint64_t session;
	uint32_t r;

	(void)state;
	old = spawn(open_and_stay, &b);
	session = await_session(&dir, RECORD_OPEN, 0);
	kill_child(old);
	start(c, a, 6, RANKS, 1, RANKS - 1);
	for (r = 1; r < RANKS; r++)
		await_rank(&dir, r, session, 0);
	start(c, a, 6, RANKS, 0, 0);
	for (r = 0; r < RANKS; r++)
		await_end(c[r]);
	assert_int_equal(count_files(&dir), 0);
}

/* The next run removes files that killed writers left; another job's files stay. */
static void
test_sweep(void **state)
{
	struct leat_rendezvous_conf conf = conf_of(&dir, 0, 1);
	struct leat_rendezvous *rv;
	char path[128];

	(void)state;
	write_file(&dir, "leat.3.0123456789abcdef.tmp", "x", 1);
	write_file(&dir, "leat.session.0123456789abcdef.tmp", "x", 1);
	write_file(&dir, "leat-2.3.0123456789abcdef.tmp", "x", 1);
	rv = leat_rendezvous_open(&conf);
	assert_non_null(rv);
	leat_rendezvous_close(rv);
	assert_int_equal(count_files(&dir), 1);
	assert_int_equal(access(path_of(&dir, "leat-2.3.0123456789abcdef.tmp", path), F_OK), 0);
}

/* ---- some ranks don't come ---- */

struct expect {
	uint32_t rank;
	uint32_t size;
	uint64_t timeout_us;
	int err;
	const char *text;
};

static int
open_fails(void *arg)
{
	const struct expect *e = arg;
	struct leat_rendezvous_conf conf = conf_of(&dir, e->rank, e->size);

	if (e->timeout_us != 0)
		conf.timeout_us = e->timeout_us;
	CHECK(leat_rendezvous_open(&conf) == NULL);
	CHECK(rte_errno == e->err);
	CHECK(strstr(leat_err_msg(), e->text) != NULL);
	return 0;
}

/* Rank 2 of 4 never comes: rank 0 reports that in its file, where the other ranks read it. */
static void
test_rank_missing(void **state)
{
	struct expect e[] = {
		{ 0, RANKS, 0, ETIMEDOUT, "missing is rank 2 of 4 after" },
		{ 1, RANKS, 0, ETIMEDOUT, "rank 0 says: missing is rank 2 of 4" },
		{ 3, RANKS, 0, ETIMEDOUT, "rank 0 says: missing is rank 2 of 4" },
	};
	struct child c[3];
	uint64_t session;

	(void)state;
	/*
	 * Ranks 1 and 3 join the session of a first rank 0, which is killed: the second rank 0
	 * counts them as present.
	 */
	c[0] = spawn(open_fails, &e[0]);
	session = await_session(&dir, RECORD_OPEN, 0);
	c[1] = spawn(open_fails, &e[1]);
	c[2] = spawn(open_fails, &e[2]);
	await_rank(&dir, 1, session, 0);
	await_rank(&dir, 3, session, 0);
	kill_child(c[0]);
	e[0].timeout_us = 1000 * MS;
	c[0] = spawn(open_fails, &e[0]);
	await_end(c[0]);
	await_end(c[1]);
	await_end(c[2]);
	/* Rank 0's file, which names the missing ranks, stays. */
	assert_int_equal(count_files(&dir), 1);
}

static void
test_rank_0_missing(void **state)
{
	struct expect never = { 1, 2, 100 * MS, ETIMEDOUT, "missing is rank 0 of 2 after" };
	struct expect old = { 1, RANKS, 100 * MS, ETIMEDOUT,
			      "is over or is complete without this" };
	struct expect open = { 1, RANKS, 100 * MS, ETIMEDOUT, "missing are ranks 2-3 of 4 after" };
	struct expect zero = { 0, RANKS, 0, 0, "" };
	struct child c;

	(void)state;
	assert_int_equal(open_fails(&never), 0);
	assert_msg_has("rank 0 has not come");
	assert_int_equal(count_files(&dir), 0);
	(void)leave_complete_run();
	assert_int_equal(open_fails(&old), 0);
	assert_msg_has("missing is rank 0 of 4");
	/* Ranks 0 and 1 are present, ranks 2 and 3 are not. */
	c = spawn(open_fails, &zero);
	(void)await_session(&dir, RECORD_OPEN, 0);
	assert_int_equal(open_fails(&open), 0);
	kill_child(c);
}

/* Open, and do not come to the fence. */
static int
open_and_never_come(void *arg)
{
	const struct run *a = arg;
	struct leat_rendezvous_conf conf = conf_of(&dir, a->rank, a->size);

	CHECK(leat_rendezvous_open(&conf) != NULL);
	for (;;)
		pause();
}

/*
 * When a fence times out, the values of ranks that came are available, the missing ranks are named,
 * and the next fence waits for the missing ranks again.
 */
static void
test_fence_times_out(void **state)
{
	struct run a[RANKS];
	struct child c[RANKS];
	struct leat_rendezvous_conf conf = conf_of(&dir, 0, RANKS);
	uint8_t want[LEAT_RENDEZVOUS_VALUE_MAX], got[LEAT_RENDEZVOUS_VALUE_MAX];
	struct leat_rendezvous *rv;
	double began;
	uint32_t r;

	(void)state;
	for (r = 1; r < RANKS; r++) {
		a[r] = (struct run){ .rank = r, .run = 8, .size = RANKS };
		c[r] = spawn(r == 2 ? open_and_never_come : open_and_stay, &a[r]);
	}
	rv = leat_rendezvous_open(&conf);
	assert_non_null(rv);
	await_rank(&dir, 1, 0, 1);
	await_rank(&dir, 3, 0, 1);
	began = seconds();
	assert_int_equal(leat_rendezvous_fence(rv, 50 * MS), -ETIMEDOUT);
	assert_true(seconds() - began >= 0.05);
	assert_true(seconds() - began < PATIENCE_S);
	assert_msg_has("fence 1 timed out after");
	assert_msg_has("missing is rank 2 of 4");
	assert_true(leat_rendezvous_arrived(rv, 1));
	assert_false(leat_rendezvous_arrived(rv, 2));
	assert_true(leat_rendezvous_arrived(rv, 3));
	assert_int_equal(leat_rendezvous_get(rv, 3, "v", got, sizeof(got)),
			 value_of(8, 3, 1, want));
	assert_memory_equal(got, want, value_of(8, 3, 1, want));
	assert_int_equal(leat_rendezvous_get(rv, 2, "v", got, sizeof(got)), -ENOENT);
	/*
	 * Rank 1 is killed, rank 2 never comes to a fence, rank 3 still waits at its first fence.
	 */
	kill_child(c[1]);
	assert_int_equal(leat_rendezvous_fence(rv, 50 * MS), -ETIMEDOUT);
	assert_msg_has("fence 2 timed out after");
	assert_msg_has("missing are ranks 1-3 of 4");
	kill_child(c[2]);
	kill_child(c[3]);
	leat_rendezvous_close(rv);
}

/* limit_us, or leat_rendezvous_limit(), bounds the sum of all waits, whatever each call allows. */
static void
test_limit(void **state)
{
	struct run a = { .rank = 1, .run = 0, .size = 2 };
	struct leat_rendezvous_conf conf = conf_of(&dir, 0, 2);
	struct leat_rendezvous *rv;
	struct child c;
	double began = seconds();

	(void)state;
	conf.limit_us = 50 * MS;
	assert_null(leat_rendezvous_open(&conf));
	assert_int_equal(rte_errno, ETIMEDOUT);
	assert_true(seconds() - began >= 0.05);
	assert_true(seconds() - began < PATIENCE_S);

	conf.limit_us = 0;
	c = spawn(open_and_never_come, &a);
	rv = leat_rendezvous_open(&conf);
	assert_non_null(rv);
	began = seconds();
	leat_rendezvous_limit(rv, 100 * MS);
	assert_int_equal(leat_rendezvous_fence(rv, 10 * MS), -ETIMEDOUT);
	assert_int_equal(leat_rendezvous_fence(rv, PATIENCE_S * 1000 * MS), -ETIMEDOUT);
	assert_true(seconds() - began >= 0.1);
	/* The limit is used up: the next call does not wait. */
	assert_int_equal(leat_rendezvous_fence(rv, PATIENCE_S * 1000 * MS), -ETIMEDOUT);
	assert_true(seconds() - began < PATIENCE_S);
	/* Without that limit, the fence waits for its own 20 ms. */
	leat_rendezvous_limit(rv, 0);
	began = seconds();
	assert_int_equal(leat_rendezvous_fence(rv, 20 * MS), -ETIMEDOUT);
	assert_true(seconds() - began >= 0.02);
	kill_child(c);
	leat_rendezvous_close(rv);
}

static volatile sig_atomic_t canceled;

static void
on_alarm(int sig)
{
	canceled = sig;
}

static void
test_cancel(void **state)
{
	const struct sigaction act = { .sa_handler = on_alarm };
	struct run a = { .rank = 1, .run = 0, .size = 2 };
	struct leat_rendezvous_conf conf = conf_of(&dir, 0, 2);
	struct leat_rendezvous *rv;
	struct child c;

	(void)state;
	assert_int_equal(sigaction(SIGALRM, &act, NULL), 0);
	conf.cancel = &canceled;
	canceled = 0;
	ualarm(30000, 0);
	assert_null(leat_rendezvous_open(&conf));
	assert_int_equal(rte_errno, ECANCELED);
	canceled = 0;
	c = spawn(open_and_never_come, &a);
	rv = leat_rendezvous_open(&conf);
	assert_non_null(rv);
	ualarm(30000, 0);
	assert_int_equal(leat_rendezvous_fence(rv, 0), -ECANCELED);
	assert_msg_has("fence 1 was canceled");
	kill_child(c);
	leat_rendezvous_close(rv);
}

/* ---- a rank closes early ---- */

/* Reach the first fence, and close before the second one. */
static int
leave_early(void *arg)
{
	const struct run *a = arg;
	struct leat_rendezvous_conf conf = conf_of(&dir, a->rank, a->size);
	struct leat_rendezvous *rv = leat_rendezvous_open(&conf);

	CHECK(rv != NULL);
	CHECK(leat_rendezvous_put(rv, "v", "last", 4) == 0);
	CHECK(leat_rendezvous_fence(rv, 0) == 0);
	leat_rendezvous_close(rv);
	return 0;
}

/* A rank that has closed will never come: a fence fails as soon as all other ranks have arrived. */
static void
test_left(void **state)
{
	struct run a[3] = { [1] = { .rank = 1, .size = 3 }, [2] = { .rank = 2, .size = 3 } };
	struct leat_rendezvous_conf conf = conf_of(&dir, 0, 3);
	struct leat_rendezvous *rv;
	struct child c[3];
	char buf[8];
	double began;

	(void)state;
	c[1] = spawn(leave_early, &a[1]);
	c[2] = spawn(leave_early, &a[2]);
	rv = leat_rendezvous_open(&conf);
	assert_non_null(rv);
	assert_int_equal(leat_rendezvous_fence(rv, 0), 0);
	began = seconds();
	assert_int_equal(leat_rendezvous_fence(rv, 2 * PATIENCE_S * 1000 * MS), -ECONNRESET);
	assert_true(seconds() - began < PATIENCE_S);
	assert_msg_has("missing are ranks 1-2 of 3");
	/* Values of closed ranks stay. */
	assert_int_equal(leat_rendezvous_get(rv, 2, "v", buf, sizeof(buf)), 4);
	await_end(c[1]);
	await_end(c[2]);
	leat_rendezvous_close(rv);
	assert_int_equal(count_files(&dir), 0);
}

static int
open_and_close(void *arg)
{
	const struct run *a = arg;
	struct leat_rendezvous_conf conf = conf_of(&dir, a->rank, a->size);
	struct leat_rendezvous *rv = leat_rendezvous_open(&conf);

	CHECK(rv != NULL);
	leat_rendezvous_close(rv);
	return 0;
}

/* Ranks 1 and 2 close before any fence: their files stay until rank 0 has closed as well. */
static void
test_left_without_a_fence(void **state)
{
	struct run a[3] = { [1] = { .rank = 1, .size = 3 }, [2] = { .rank = 2, .size = 3 } };
	struct leat_rendezvous_conf conf = conf_of(&dir, 0, 3);
	struct leat_rendezvous *rv;
	struct child c[3];

	(void)state;
	c[1] = spawn(open_and_close, &a[1]);
	c[2] = spawn(open_and_close, &a[2]);
	rv = leat_rendezvous_open(&conf);
	assert_non_null(rv);
	await_end(c[1]);
	await_end(c[2]);
	assert_int_equal(leat_rendezvous_fence(rv, 0), -ECONNRESET);
	assert_msg_has("missing are ranks 1-2 of 3");
	leat_rendezvous_close(rv);
	assert_int_equal(count_files(&dir), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_all_come, setup, teardown),
		cmocka_unit_test_setup_teardown(test_directory_is_made, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stale_complete, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stale_open, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sweep, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rank_missing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rank_0_missing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fence_times_out, setup, teardown),
		cmocka_unit_test_setup_teardown(test_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cancel, setup, teardown),
		cmocka_unit_test_setup_teardown(test_left, setup, teardown),
		cmocka_unit_test_setup_teardown(test_left_without_a_fence, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
