/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Which method is chosen, from the configuration and the launcher's environment; lists; a single
 * process.
 */

#include "rendezvous_test.h"

/* The environment variables by which leat recognizes launchers. */
static const char *const variables[] = {
	"PMIX_NAMESPACE", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
	"PMI_RANK",	  "PMI_SIZE",  "SLURM_PROCID",	       "SLURM_STEP_NUM_TASKS",
	"SLURM_NTASKS",
};

static int
no_launcher(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < RTE_DIM(variables); i++)
		unsetenv(variables[i]);
	return 0;
}

static void
launch(const char *rank_var, const char *rank, const char *size_var, const char *size)
{
	assert_int_equal(setenv(rank_var, rank, 1), 0);
	assert_int_equal(setenv(size_var, size, 1), 0);
}

static void
assert_refused(const struct leat_rendezvous_conf *conf, int err, const char *text)
{
	assert_null(leat_rendezvous_open(conf));
	assert_int_equal(rte_errno, err);
	assert_msg_has(text);
}

static struct leat_rendezvous *
must_open(const struct leat_rendezvous_conf *conf, enum leat_rendezvous_how how, uint32_t rank,
	  uint32_t size)
{
	struct leat_rendezvous *rv = leat_rendezvous_open(conf);

	if (rv == NULL)
		fail_msg("%s", leat_err_msg());
	assert_int_equal(leat_rendezvous_how(rv), how);
	assert_int_equal(leat_rendezvous_rank(rv), rank);
	assert_int_equal(leat_rendezvous_size(rv), size);
	return rv;
}

static void
test_alone(void **state)
{
	const struct leat_rendezvous_conf conf = { 0 };
	struct leat_rendezvous *rv = must_open(&conf, LEAT_RENDEZVOUS_ALONE, 0, 1);
	char buf[8];

	(void)state;
	assert_string_equal(leat_rendezvous_describe(rv),
			    "alone: rank 0 of 1 (no launcher, directory or list)");
	assert_int_equal(leat_rendezvous_put(rv, "k", "abc", 3), 0);
	/* A value is not available before the fence. */
	assert_int_equal(leat_rendezvous_get(rv, 0, "k", buf, sizeof(buf)), -ENOENT);
	assert_int_equal(leat_rendezvous_fence(rv, 0), 0);
	assert_int_equal(leat_rendezvous_get(rv, 0, "k", buf, sizeof(buf)), 3);
	assert_memory_equal(buf, "abc", 3);
	assert_int_equal(leat_rendezvous_get(rv, 0, "k", buf, 2), -ENOSPC);
	assert_int_equal(leat_rendezvous_get(rv, 0, "other", buf, sizeof(buf)), -ENOENT);
	assert_int_equal(leat_rendezvous_get(rv, 1, "k", buf, sizeof(buf)), -EINVAL);
	assert_int_equal(leat_rendezvous_get(rv, 0, "no/key", buf, sizeof(buf)), -EINVAL);
	assert_true(leat_rendezvous_arrived(rv, 0));
	assert_false(leat_rendezvous_arrived(rv, 1));
	leat_rendezvous_close(rv);
}

static void
test_put_limits(void **state)
{
	static const char *const bad_keys[] = { "",    "a b",
						"a/b", "\xc3\xa4",
						NULL,  "abcdefghijklmnopqrstuvwxyz012345" };
	const struct leat_rendezvous_conf conf = { 0 };
	struct leat_rendezvous *rv = must_open(&conf, LEAT_RENDEZVOUS_ALONE, 0, 1);
	static uint8_t data[LEAT_RENDEZVOUS_VALUE_MAX + 1], back[LEAT_RENDEZVOUS_VALUE_MAX];
	char key[8];
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(bad_keys); i++)
		assert_int_equal(leat_rendezvous_put(rv, bad_keys[i], data, 1), -EINVAL);
	assert_int_equal(leat_rendezvous_put(rv, "k", data, sizeof(data)), -EINVAL);
	assert_int_equal(leat_rendezvous_put(rv, "k", NULL, 1), -EINVAL);
	for (i = 0; i < LEAT_RENDEZVOUS_KEYS_MAX; i++) {
		snprintf(key, sizeof(key), "%u", i);
		memset(data, (int)i + 1, sizeof(data));
		assert_int_equal(leat_rendezvous_put(rv, key, data, LEAT_RENDEZVOUS_VALUE_MAX), 0);
	}
	assert_int_equal(leat_rendezvous_put(rv, "one-more", data, 1), -ENOSPC);
	/* An existing value can be replaced, even by an empty one. */
	assert_int_equal(leat_rendezvous_put(rv, "0", NULL, 0), 0);
	assert_int_equal(leat_rendezvous_fence(rv, 0), 0);
	assert_int_equal(leat_rendezvous_get(rv, 0, "0", back, sizeof(back)), 0);
	assert_int_equal(leat_rendezvous_get(rv, 0, "15", back, sizeof(back)), sizeof(back));
	memset(data, 16, sizeof(data));
	assert_memory_equal(back, data, sizeof(back));
	leat_rendezvous_close(rv);
	leat_rendezvous_close(NULL);
}

static void
test_list(void **state)
{
	struct leat_rendezvous_conf conf = { .list = "a:1,[::1]:22,c:3",
					     .rank_given = true,
					     .rank = 1 };
	struct leat_rendezvous *rv = must_open(&conf, LEAT_RENDEZVOUS_LIST, 1, 3);
	char buf[16];

	(void)state;
	assert_int_equal(leat_rendezvous_get(rv, 0, LEAT_RENDEZVOUS_ADDR, buf, sizeof(buf)), 3);
	assert_memory_equal(buf, "a:1", 3);
	assert_int_equal(leat_rendezvous_get(rv, 1, LEAT_RENDEZVOUS_ADDR, buf, sizeof(buf)), 8);
	assert_memory_equal(buf, "[::1]:22", 8);
	assert_int_equal(leat_rendezvous_get(rv, 2, LEAT_RENDEZVOUS_ADDR, buf, sizeof(buf)), 3);
	assert_int_equal(leat_rendezvous_get(rv, 2, "other", buf, sizeof(buf)), -ENOENT);
	/* A put of the address succeeds, but the address of the list stays valid. */
	assert_int_equal(leat_rendezvous_put(rv, LEAT_RENDEZVOUS_ADDR, "x", 1), 0);
	assert_int_equal(leat_rendezvous_put(rv, "other", "x", 1), -ENOTSUP);
	assert_int_equal(leat_rendezvous_fence(rv, 0), -ENOTSUP);
	assert_msg_has("can't wait for each other");
	assert_int_equal(leat_rendezvous_get(rv, 1, LEAT_RENDEZVOUS_ADDR, buf, sizeof(buf)), 8);
	assert_true(leat_rendezvous_arrived(rv, 1));
	assert_false(leat_rendezvous_arrived(rv, 0));
	leat_rendezvous_close(rv);

	launch("SLURM_PROCID", "2", "SLURM_STEP_NUM_TASKS", "3");
	conf.rank_given = false;
	rv = must_open(&conf, LEAT_RENDEZVOUS_LIST, 2, 3);
	assert_string_equal(leat_rendezvous_describe(rv),
			    "list: rank 2 of 3 (a list was given, rank by srun (Slurm))");
	leat_rendezvous_close(rv);
}

static void
test_list_refused(void **state)
{
	static const char *const bad[] = { "", ",", "a:1,", "a:1,,b:2", "a:1, b:2", "a\tb" };
	struct leat_rendezvous_conf conf = { .rank_given = true };
	char longest[LEAT_RENDEZVOUS_ADDR_MAX + 2];
	struct leat_rendezvous *rv;
	size_t i;

	(void)state;
	for (i = 0; i < RTE_DIM(bad); i++) {
		conf.list = bad[i];
		assert_refused(&conf, EINVAL, "is empty, too long, or has a space");
	}
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	conf.list = longest;
	assert_refused(&conf, EINVAL, "too long");
	longest[sizeof(longest) - 2] = '\0';
	rv = must_open(&conf, LEAT_RENDEZVOUS_LIST, 0, 1);
	leat_rendezvous_close(rv);

	conf.list = "a:1,b:2";
	conf.rank = 2;
	assert_refused(&conf, EINVAL, "no rank 2 of 2");
	conf.rank = 0;
	conf.size = 3;
	assert_refused(&conf, EINVAL, "the size was given as 3, but it is 2");
	conf.size = 0;
	conf.rank_given = false;
	assert_refused(&conf, EINVAL, "no launcher says which rank");
	launch("OMPI_COMM_WORLD_RANK", "0", "OMPI_COMM_WORLD_SIZE", "3");
	assert_refused(&conf, EINVAL, "it has 2 addresses, but mpirun (Open MPI) has started 3");
}

static void
test_configuration_refused(void **state)
{
	struct leat_rendezvous_conf conf = { .how = (enum leat_rendezvous_how)9 };

	(void)state;
	assert_refused(&conf, EINVAL, "out of range");
	conf = (struct leat_rendezvous_conf){ .size = LEAT_RENDEZVOUS_RANKS_MAX + 1 };
	assert_refused(&conf, EINVAL, "out of range");
	conf = (struct leat_rendezvous_conf){ .list = "a", .dir = "/tmp/d" };
	assert_refused(&conf, EINVAL, "only one of");
	conf = (struct leat_rendezvous_conf){ .job = "a/b" };
	assert_refused(&conf, EINVAL, "job 'a/b'");
	conf = (struct leat_rendezvous_conf){ .job = "a.b" };
	assert_refused(&conf, EINVAL, "job 'a.b'");
	conf = (struct leat_rendezvous_conf){ .rank_given = true, .rank = 1, .size = 2 };
	assert_refused(&conf, EINVAL, "needs a directory or a list");
	conf = (struct leat_rendezvous_conf){ .how = LEAT_RENDEZVOUS_FILE };
	assert_refused(&conf, EINVAL, "no directory was given");
	conf = (struct leat_rendezvous_conf){ .how = LEAT_RENDEZVOUS_LIST };
	assert_refused(&conf, EINVAL, "no list was given");
	conf = (struct leat_rendezvous_conf){ .how = LEAT_RENDEZVOUS_ALONE, .size = 2 };
	assert_refused(&conf, EINVAL, "the size was given as 2, but it is 1");
	conf = (struct leat_rendezvous_conf){ .how = LEAT_RENDEZVOUS_PMIX };
	assert_refused(&conf, ENOTSUP, "not started with PMIx");
	conf = (struct leat_rendezvous_conf){ .dir = "/tmp/never-made" };
	assert_refused(&conf, EINVAL,
		       "no launcher says which rank this process is: give rank and size");
	conf = (struct leat_rendezvous_conf){ .dir = "/tmp/never-made", .rank_given = true };
	assert_refused(&conf, EINVAL, "without a size");
	assert_int_equal(access("/tmp/never-made", F_OK), -1);
}

/* Several processes that can't find each other must not each run as a single process. */
static void
test_launcher_without_a_way(void **state)
{
	const struct leat_rendezvous_conf conf = { 0 };
	struct leat_rendezvous *rv;

	(void)state;
	launch("SLURM_PROCID", "1", "SLURM_STEP_NUM_TASKS", "4");
	assert_refused(&conf, ENOTSUP, "srun (Slurm) has started 4 processes, without PMIx");
	launch("SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", "1");
	rv = must_open(&conf, LEAT_RENDEZVOUS_ALONE, 0, 1);
	leat_rendezvous_close(rv);
	/* A batch script of Slurm: the job has 4 tasks, and this process is none of them. */
	no_launcher(NULL);
	launch("SLURM_PROCID", "0", "SLURM_NTASKS", "4");
	rv = must_open(&conf, LEAT_RENDEZVOUS_ALONE, 0, 1);
	leat_rendezvous_close(rv);
	/* One of PMIx's two variables alone does not mean PMIx. */
	no_launcher(NULL);
	setenv("PMIX_RANK", "0", 1);
	rv = must_open(&conf, LEAT_RENDEZVOUS_ALONE, 0, 1);
	leat_rendezvous_close(rv);
	/* In a job of Slurm, mpirun counts as the launcher. */
	launch("SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", "1");
	launch("OMPI_COMM_WORLD_RANK", "3", "OMPI_COMM_WORLD_SIZE", "4");
	assert_refused(&conf, ENOTSUP, "mpirun (Open MPI) has started 4");
	no_launcher(NULL);
	launch("PMI_RANK", "0", "PMI_SIZE", "2");
	assert_refused(&conf, ENOTSUP, "mpiexec (PMI) has started 2");
}

static void
test_hostile_environment(void **state)
{
	static const char *const bad[] = {
		"", "-1", "x", "1x", " 1", "16385", "99999999999999999999"
	};
	const struct leat_rendezvous_conf conf = { .how = LEAT_RENDEZVOUS_ALONE };
	size_t i;

	(void)state;
	for (i = 0; i < RTE_DIM(bad); i++) {
		launch("SLURM_PROCID", bad[i], "SLURM_STEP_NUM_TASKS", "4");
		assert_refused(&conf, EINVAL, "SLURM_PROCID is '");
		launch("SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", bad[i]);
		assert_refused(&conf, EINVAL, "SLURM_STEP_NUM_TASKS is '");
		no_launcher(NULL);
		setenv("PMIX_RANK", bad[i], 1);
		assert_refused(&conf, EINVAL, "PMIX_RANK is '");
		no_launcher(NULL);
	}
	launch("SLURM_PROCID", "4", "SLURM_STEP_NUM_TASKS", "4");
	assert_refused(&conf, EINVAL, "says rank 4 of 4");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_alone, no_launcher),
		cmocka_unit_test_setup(test_put_limits, no_launcher),
		cmocka_unit_test_setup(test_list, no_launcher),
		cmocka_unit_test_setup(test_list_refused, no_launcher),
		cmocka_unit_test_setup(test_configuration_refused, no_launcher),
		cmocka_unit_test_setup(test_launcher_without_a_way, no_launcher),
		cmocka_unit_test_setup(test_hostile_environment, no_launcher),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
