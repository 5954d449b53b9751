/* SPDX-License-Identifier: BSD-3-Clause */

/* Invalid files, and processes that don't belong together. */

#include "rendezvous_test.h"

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

static void
assert_refused(const char *path, uint32_t rank, int err, const char *text)
{
	struct leat_rendezvous_conf conf = conf_of(&dir, rank, 2);

	conf.dir = path;
	conf.timeout_us = 100 * MS;
	assert_null(leat_rendezvous_open(&conf));
	assert_int_equal(rte_errno, err);
	assert_msg_has(text);
}

/* ---- directories and files of other users ---- */

static void
test_directory(void **state)
{
	char link[128], file[128], slash[160];

	(void)state;
	assert_int_equal(symlink(dir.path, path_of(&dir, "link", link)), 0);
	assert_refused(link, 0, EPERM, "is no directory, or a symbolic link");
	snprintf(slash, sizeof(slash), "%s//", link);
	assert_refused(slash, 0, EPERM, "is no directory, or a symbolic link");
	write_file(&dir, "file", "", 0);
	assert_refused(path_of(&dir, "file", file), 0, EPERM, "is no directory");
	assert_int_equal(chmod(dir.path, 0770), 0);
	assert_refused(dir.path, 0, EPERM, "can be written by others: chmod go-w");
	assert_int_equal(chmod(dir.path, 0702), 0);
	assert_refused(dir.path, 0, EPERM, "can be written by others");
	/* /tmp is root's, and writable for all. */
	assert_refused("/tmp", 0, EPERM, "/tmp ");
	/* A directory that all users can read is no danger. */
	assert_int_equal(chmod(dir.path, 0755), 0);
	assert_refused(dir.path, 0, ETIMEDOUT, "missing is rank 1 of 2");
}

static void
test_foreign_owner(void **state)
{
	char path[128];

	(void)state;
	if (geteuid() != 0) {
		print_message("only root can give a file away: skipped\n");
		skip();
	}
	write_file(&dir, "leat.session", "x", 1);
	assert_int_equal(chown(path_of(&dir, "leat.session", path), 4711, -1), 0);
	assert_refused(dir.path, 1, EPERM, "leat.session belongs to user 4711, not to 0");
	assert_int_equal(chown(dir.path, 4711, -1), 0);
	assert_refused(dir.path, 0, EPERM, "belongs to user 4711, not to 0");
	assert_int_equal(chown(dir.path, 0, -1), 0);
}

static void
test_file(void **state)
{
	static const uint8_t large[1 << 18];
	char path[128];

	(void)state;
	path_of(&dir, "leat.session", path);
	assert_int_equal(symlink("/dev/zero", path), 0);
	assert_refused(dir.path, 1, EPERM, "leat.session is a symbolic link");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_refused(dir.path, 1, EPERM, "leat.session is not a regular file");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_refused(dir.path, 1, EPERM, "leat.session is not a regular file");
	assert_int_equal(rmdir(path), 0);
	write_file(&dir, "leat.session", large, sizeof(large));
	assert_refused(dir.path, 1, EPERM, "leat.session has 262144 B");
	write_file(&dir, "leat.session", "x", 1);
	assert_int_equal(chmod(path, 0620), 0);
	assert_refused(dir.path, 1, EPERM, "leat.session can be written by others");
	assert_int_equal(unlink(path), 0);
	/* Rank 0 checks the files of other ranks, too. */
	path_of(&dir, "leat.1", path);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_refused(dir.path, 0, EPERM, "leat.1 is a symbolic link");
	assert_int_equal(unlink(path), 0);
}

/*
 * An invalid session file would be replaced by a new rank 0, so rank 1 goes on waiting; in the end
 * it reports the invalid file.
 */
static void
test_junk(void **state)
{
	static const char junk[] = "this is not a record";
	struct record rec = { .kind = RECORD_SESSION, .session = 5, .nonce = 5, .size = 2 };
	uint8_t buf[RECORD_SESSION_LEN(2)];
	size_t len;

	(void)state;
	write_file(&dir, "leat.session", junk, sizeof(junk));
	assert_refused(dir.path, 1, ETIMEDOUT, "leat.session is not valid: it is no record");
	assert_msg_has("missing is rank 0 of 2");
	write_file(&dir, "leat.session", "", 0);
	assert_refused(dir.path, 1, ETIMEDOUT, "is not valid");
	len = record_build(buf, &rec);
	write_file(&dir, "leat.session", buf, len - 1);
	assert_refused(dir.path, 1, ETIMEDOUT, "is not valid");
	buf[4]++;
	write_file(&dir, "leat.session", buf, len);
	assert_refused(dir.path, 1, ETIMEDOUT, "it is of another release of leat");
	/* A valid record of a rank is in the place of the session's. */
	rec = (struct record){ .kind = RECORD_RANK, .size = 2 };
	len = record_build(buf, &rec);
	write_file(&dir, "leat.session", buf, len);
	assert_refused(dir.path, 1, ETIMEDOUT, "is not valid");
	/* Rank 0 finds junk in the place of rank 1's file. */
	write_file(&dir, "leat.1", junk, sizeof(junk));
	assert_refused(dir.path, 0, ETIMEDOUT, "leat.1 is not valid");
}

/* ---- processes that don't belong together ---- */

struct expect {
	uint32_t rank;
	uint32_t size;
	int err; /* expected errno; 0: success */
	const char *text;
};

static int
open_once(void *arg)
{
	const struct expect *e = arg;
	struct leat_rendezvous_conf conf = conf_of(&dir, e->rank, e->size);
	struct leat_rendezvous *rv = leat_rendezvous_open(&conf);

	if (rv == NULL) {
		CHECK(e->err != 0 && rte_errno == e->err);
		CHECK(strstr(leat_err_msg(), e->text) != NULL);
		return 0;
	}
	CHECK(e->err == 0);
	CHECK(leat_rendezvous_fence(rv, 0) == 0);
	leat_rendezvous_close(rv);
	return 0;
}

/*
 * Two processes are rank 1, while rank 2 is waited for: the first gets an error, the others meet.
 */
static void
test_two_of_a_rank(void **state)
{
	struct expect e[] = {
		{ .rank = 0, .size = 3 },
		{ .rank = 1, .size = 3, .err = EEXIST, .text = "is rank 1, too, in /tmp" },
		{ .rank = 1, .size = 3 },
		{ .rank = 2, .size = 3 },
	};
	struct child c[4];
	uint64_t session;

	(void)state;
	c[0] = spawn(open_once, &e[0]);
	session = await_session(&dir, RECORD_OPEN, 0);
	c[1] = spawn(open_once, &e[1]);
	await_rank(&dir, 1, session, 0);
	c[2] = spawn(open_once, &e[2]);
	await_end(c[1]);
	c[3] = spawn(open_once, &e[3]);
	await_end(c[0]);
	await_end(c[2]);
	await_end(c[3]);
	assert_int_equal(count_files(&dir), 0);
}

/* Two processes are rank 0: the first gets an error, and the others meet the second. */
static void
test_two_of_rank_0(void **state)
{
	struct expect e[] = {
		{ .rank = 0, .size = 2, .err = EEXIST, .text = "is rank 0, too, in /tmp" },
		{ .rank = 0, .size = 2 },
		{ .rank = 1, .size = 2 },
	};
	struct child c[3];
	uint64_t session;

	(void)state;
	c[0] = spawn(open_once, &e[0]);
	session = await_session(&dir, RECORD_OPEN, 0);
	c[1] = spawn(open_once, &e[1]);
	await_end(c[0]);
	(void)await_session(&dir, RECORD_OPEN, session);
	c[2] = spawn(open_once, &e[2]);
	await_end(c[1]);
	await_end(c[2]);
	assert_int_equal(count_files(&dir), 0);
}

static int
stay(void *arg)
{
	const struct expect *e = arg;
	struct leat_rendezvous_conf conf = conf_of(&dir, e->rank, e->size);

	CHECK(leat_rendezvous_open(&conf) != NULL);
	for (;;)
		pause();
}

/* A second rank 1 comes when all have met: it gets an error that names the running session. */
static void
test_too_late(void **state)
{
	struct expect e[] = { { .rank = 0, .size = 2 }, { .rank = 1, .size = 2 } };
	struct child c[2];
	char text[64];

	(void)state;
	c[0] = spawn(stay, &e[0]);
	c[1] = spawn(stay, &e[1]);
	(void)await_session(&dir, RECORD_COMPLETE, 0);
	snprintf(text, sizeof(text), "the session there, of process %d on ", c[0].pid);
	assert_refused(dir.path, 1, ETIMEDOUT, text);
	kill_child(c[0]);
	kill_child(c[1]);
}

static void
test_sizes_differ(void **state)
{
	struct expect e[] = {
		{ 0, 3, EINVAL, "says 4 ranks, rank 0 says 3" },
		{ 1, 4, EINVAL, "rank 0 says: rank 1 (process " },
		{ 2, 3, EINVAL, "says 4 ranks, rank 0 says 3" },
	};
	struct child c[3];
	uint64_t session;

	(void)state;
	c[0] = spawn(open_once, &e[0]);
	session = await_session(&dir, RECORD_OPEN, 0);
	c[2] = spawn(open_once, &e[2]);
	await_rank(&dir, 2, session, 0);
	c[1] = spawn(open_once, &e[1]);
	await_end(c[0]);
	await_end(c[1]);
	await_end(c[2]);
}

static int
meet_and_stay(void *arg)
{
	const struct expect *e = arg;
	struct leat_rendezvous_conf conf = conf_of(&dir, e->rank, e->size);
	struct leat_rendezvous *rv = leat_rendezvous_open(&conf);

	CHECK(rv != NULL);
	CHECK(leat_rendezvous_fence(rv, 0) == 0);
	for (;;)
		pause();
}

/*
 * A second run starts in the directory of a running one: the next fence of the first run fails with
 * -ESTALE.
 */
static void
test_taken_over(void **state)
{
	struct expect e[] = { { .rank = 1, .size = 2 }, { .rank = 0, .size = 2 } };
	struct leat_rendezvous_conf conf = conf_of(&dir, 0, 2);
	struct leat_rendezvous *rv;
	struct child c[2];
	uint64_t session;
	char text[64];

	(void)state;
	c[0] = spawn(meet_and_stay, &e[0]);
	rv = leat_rendezvous_open(&conf);
	assert_non_null(rv);
	assert_int_equal(leat_rendezvous_fence(rv, 0), 0);
	session = await_session(&dir, RECORD_COMPLETE, 0);
	c[1] = spawn(stay, &e[1]);
	(void)await_session(&dir, RECORD_OPEN, session);
	assert_int_equal(leat_rendezvous_fence(rv, 0), -ESTALE);
	snprintf(text, sizeof(text), "its rank 0 is process %d on ", c[1].pid);
	assert_msg_has(text);
	/* Closing leaves the other run's files alone. */
	leat_rendezvous_close(rv);
	(void)await_session(&dir, RECORD_OPEN, session);
	kill_child(c[0]);
	kill_child(c[1]);
}

/* Two jobs can use one directory at the same time, and leave no file in it. */
static int
other_job(void *arg)
{
	const struct expect *e = arg;
	struct leat_rendezvous_conf conf = conf_of(&dir, e->rank, e->size);
	struct leat_rendezvous *rv;

	conf.job = "job-2";
	rv = leat_rendezvous_open(&conf);
	CHECK(rv != NULL);
	CHECK(leat_rendezvous_fence(rv, 0) == 0);
	leat_rendezvous_close(rv);
	return 0;
}

static void
test_two_jobs(void **state)
{
	struct expect e[] = { { .rank = 0, .size = 2 }, { .rank = 1, .size = 2 } };
	struct child c[4];
	unsigned int i;

	(void)state;
	for (i = 0; i < 4; i++)
		c[i] = spawn(i < 2 ? open_once : other_job, &e[i % 2]);
	for (i = 0; i < 4; i++)
		await_end(c[i]);
	assert_int_equal(count_files(&dir), 0);
}

/* If the directory is removed during a run, a fence fails and its message says so. */
static void
test_directory_vanishes(void **state)
{
	struct expect e = { .rank = 1, .size = 2 };
	struct leat_rendezvous_conf conf = conf_of(&dir, 0, 2);
	struct leat_rendezvous *rv;
	struct child c = spawn(stay, &e);

	(void)state;
	rv = leat_rendezvous_open(&conf);
	assert_non_null(rv);
	kill_child(c);
	remove_dir(&dir);
	assert_int_equal(leat_rendezvous_fence(rv, 50 * MS), -ETIMEDOUT);
	assert_msg_has("can't be written to");
	leat_rendezvous_close(rv);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_directory, setup, teardown),
		cmocka_unit_test_setup_teardown(test_foreign_owner, setup, teardown),
		cmocka_unit_test_setup_teardown(test_file, setup, teardown),
		cmocka_unit_test_setup_teardown(test_junk, setup, teardown),
		cmocka_unit_test_setup_teardown(test_two_of_a_rank, setup, teardown),
		cmocka_unit_test_setup_teardown(test_two_of_rank_0, setup, teardown),
		cmocka_unit_test_setup_teardown(test_too_late, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sizes_differ, setup, teardown),
		cmocka_unit_test_setup_teardown(test_taken_over, setup, teardown),
		cmocka_unit_test_setup_teardown(test_two_jobs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_directory_vanishes, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
