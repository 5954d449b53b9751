/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * leat_init(): the arguments that it handles, those that it leaves to the program, and its errors.
 * EAL starts only once in a process, so each case runs in a child, which reports through its exit
 * code.
 */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_lcore.h>

#include <leat_error.h>
#include <leat_fabric.h>

#include "leat_cmocka.h"
#include "mock_driver.h"

#define ARGS(...)                                                                                  \
	(char *[])                                                                                 \
	{                                                                                          \
		strdup("prog"), strdup("--no-pci"), strdup("-l"), strdup("0"), ##__VA_ARGS__, NULL \
	}

/* Run fn in a child and check that it returns 0. */
static void
in_child(int (*fn)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(fn());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #cond,  \
				leat_err_msg());                                                   \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

static int
count(char **argv)
{
	int n = 0;

	while (argv[n] != NULL)
		n++;
	return n;
}

static int
takes_its_arguments(void)
{
	struct sigaction sa;
	char **argv = ARGS((char *)"--vdev=fabric_mock0,depth=7", (char *)"--vdev",
			   (char *)"fabric_mock12", (char *)"--", (char *)"--vdev=fabric_x",
			   (char *)"a");
	int argc = count(argv), ret = leat_init(argc, argv);

	CHECK(ret == 7);
	CHECK(strcmp(argv[ret], "prog") == 0);
	CHECK(strcmp(argv[ret + 1], "--vdev=fabric_x") == 0);
	CHECK(leat_dev_count() == 2);
	CHECK(mock_nb_devs == 2);
	CHECK(strcmp(leat_dev_name(leat_dev_get(0)), "fabric_mock0") == 0);
	CHECK(leat_dev_by_name("fabric_mock12") == leat_dev_get(1));
	CHECK(leat_dev_by_name("fabric_mock1") == NULL);
	CHECK(leat_dev_get(2) == NULL);
	CHECK(rte_lcore_count() == 1);
	/* The signal handler that a device's library installed is undone. */
	CHECK(sigaction(SIGTERM, NULL, &sa) == 0 && sa.sa_handler == SIG_DFL);
	CHECK(leat_init(argc, argv) == -EALREADY);
	CHECK(leat_cleanup() == 0);
	CHECK(mock_nb_devs == 0);
	CHECK(leat_cleanup() == 0);
	return 0;
}

static int
without_application_arguments(void)
{
	char **argv = ARGS((char *)"--vdev=fabric_mock0");
	int argc = count(argv), ret = leat_init(argc, argv);

	CHECK(ret == argc - 1);
	CHECK(strcmp(argv[ret], "prog") == 0);
	CHECK(leat_cleanup() == 0);
	return 0;
}

/* Check that leat_init() fails with -err and a message that contains each of words. */
static int
refuses(const char *arg, int err, const char *const *words)
{
	char **argv = ARGS(strdup(arg));
	int ret = leat_init(count(argv), argv);

	CHECK(ret == -err);
	for (; *words != NULL; words++) {
		if (strstr(leat_err_msg(), *words) == NULL) {
			fprintf(stderr, "'%s' not in '%s'\n", *words, leat_err_msg());
			return 1;
		}
	}
	CHECK(leat_dev_count() == 0);
	CHECK(mock_nb_devs == 0);
	return 0;
}

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static int
unknown_driver(void)
{
	return refuses("--vdev=fabric_nope0", EINVAL,
		       WORDS("fabric_nope0", "no such driver", "fabric_mock"));
}

static int
no_number(void)
{
	return refuses("--vdev=fabric_mock", EINVAL, WORDS("fabric_mock", "number"));
}

static int
unknown_key(void)
{
	return refuses("--vdev=fabric_mock0,dep=1", EINVAL,
		       WORDS("fabric_mock0", "'dep'", "fail, depth"));
}

static int
key_twice(void)
{
	return refuses("--vdev=fabric_mock0,depth=1,depth=2", EINVAL, WORDS("'depth'", "twice"));
}

static int
value_out_of_range(void)
{
	return refuses("--vdev=fabric_mock0,depth=4097", EINVAL,
		       WORDS("fabric_mock0", "depth=4097", "1 to 4096"));
}

static int
value_not_a_number(void)
{
	return refuses("--vdev=fabric_mock0,depth=-1", EINVAL, WORDS("depth=-1"));
}

static int
value_missing(void)
{
	return refuses("--vdev=fabric_mock0,depth=", EINVAL, WORDS("depth"));
}

static int
probe_fails(void)
{
	return refuses("--vdev=fabric_mock0,fail=1", ENODEV,
		       WORDS("fabric_mock0", "asked to fail"));
}

static int
stray_argument(void)
{
	return refuses("stray", EINVAL, WORDS("'stray'", "--"));
}

static int
second_device_fails(void)
{
	char **argv = ARGS((char *)"--vdev=fabric_mock0", (char *)"--vdev=fabric_mock0");

	CHECK(leat_init(count(argv), argv) == -EINVAL);
	CHECK(strstr(leat_err_msg(), "already") != NULL);
	CHECK(mock_nb_devs == 0);
	return 0;
}

static int
settings_file_missing(void)
{
	return refuses("--settings=/nowhere/at/all", ENOENT, WORDS("/nowhere/at/all"));
}

static int
settings_file_wrong(void)
{
	char arg[] = "--settings=/tmp/leat-test-init-XXXXXX";
	static const char text[] = "endpoint.*.latency_sample = 8\nendpoint.*.latency_smaple = 8\n";
	char *path = strchr(arg, '/');
	int ret, fd = mkstemp(path);

	CHECK(fd >= 0);
	CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	CHECK(close(fd) == 0);
	ret = refuses(arg, EINVAL, WORDS(path, "2", "latency_sample"));
	CHECK(unlink(path) == 0);
	return ret;
}

/* leat_init() fails if the directory of --tune-dir can't be used. */
static int
tune_dir_unusable(void)
{
	return refuses("--tune-dir=/dev/null/leat", ENOTDIR, WORDS("/dev/null/leat"));
}

/* The directory of --tune-dir has an entry of the process while it runs. */
static int
tune_dir_named(void)
{
	char dir[] = "/tmp/leat-test-init-XXXXXX";
	char **argv = ARGS((char *)"--vdev=fabric_mock0", (char *)"--tune-dir", NULL, NULL);

	CHECK(mkdtemp(dir) != NULL);
	argv[6] = dir;
	CHECK(leat_init(7, argv) > 0);
	CHECK(rmdir(dir) < 0 && errno == ENOTEMPTY);
	CHECK(leat_cleanup() == 0);
	CHECK(rmdir(dir) == 0);
	return 0;
}

static int
cleanup_names_open_endpoints(void)
{
	char **argv = ARGS((char *)"--vdev=fabric_mock0");
	struct leat_ep_conf conf = { .name = "left-open" };
	struct leat_ep *ep;

	CHECK(leat_init(count(argv), argv) > 0);
	ep = leat_ep_create(leat_dev_get(0), &conf);
	CHECK(ep != NULL);
	CHECK(leat_cleanup() == -EBUSY);
	CHECK(strstr(leat_err_msg(), "left-open") != NULL);
	CHECK(leat_ep_close(ep, 0, NULL, NULL) == 0);
	CHECK(leat_cleanup() == 0);
	return 0;
}

static void
test_takes_its_arguments(void **state)
{
	(void)state;
	in_child(takes_its_arguments);
	in_child(without_application_arguments);
	in_child(tune_dir_named);
}

static void
test_refuses_bad_arguments(void **state)
{
	(void)state;
	in_child(unknown_driver);
	in_child(no_number);
	in_child(unknown_key);
	in_child(key_twice);
	in_child(value_out_of_range);
	in_child(value_not_a_number);
	in_child(value_missing);
	in_child(probe_fails);
	in_child(stray_argument);
	in_child(second_device_fails);
	in_child(settings_file_missing);
	in_child(settings_file_wrong);
	in_child(tune_dir_unusable);
}

static void
test_cleanup_names_open_endpoints(void **state)
{
	(void)state;
	in_child(cleanup_names_open_endpoints);
}

static void
test_driver_list(void **state)
{
	const struct leat_driver_info *i;
	unsigned int n = 0;

	(void)state;
	for (i = NULL; (i = leat_driver_next(i)) != NULL;) {
		assert_null(i->error);
		if (strcmp(i->name, "fabric_mock") != 0)
			continue;
		n++;
		assert_string_equal(i->description, "does what a test says");
		assert_string_equal(i->args[0].name, "fail");
		assert_string_equal(i->args[1].name, "depth");
		assert_string_equal(i->args[1].value, "1..4096");
		assert_string_equal(i->args[1].help, "means \"nothing\"");
		assert_null(i->args[2].name);
	}
	assert_int_equal(n, 1);
}

/* A plugin that the loader refuses is listed after the loaded drivers, with the loader's reason. */
static void
test_driver_that_does_not_load(void **state)
{
	static const char name[] = "libleat_driver_broken.so";
	const struct leat_driver_info *i, *found;
	char dir[] = "/tmp/leat-init-XXXXXX", opt[] = "-d", path[64];
	unsigned int n, loads;
	FILE *f;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fputs("no library\n", f) >= 0);
	assert_int_equal(fclose(f), 0);
	for (loads = 0; loads < 2; loads++) {
		char *args[] = { dir, opt, dir };

		assert_true(leat_driver_load(3, args) > 0);
		found = NULL;
		n = 0;
		for (i = NULL; (i = leat_driver_next(i)) != NULL;) {
			if (strcmp(i->name, name) != 0)
				continue;
			found = i;
			n++;
		}
		assert_int_equal(n, 1);
		if (found == NULL)
			return;
		assert_null(leat_driver_next(found));
		assert_string_equal(found->description, "");
		assert_null(found->args->name);
		assert_non_null(strstr(found->error, path));
	}
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
}

/* ---- the list of devices ---- */

static bool nothing_there;

static int
lister_list(const struct leat_dev *dev, const struct leat_dev_sink *to)
{
	if (nothing_there)
		return leat_err(ENODEV, "fabric_lister: nothing there");
	if (dev == NULL)
		to->device(to->arg, "fabric_lister0,dev=x");
	to->text(to->arg, "state", "active");
	to->item(to->arg, "gids", "0: a");
	to->item(to->arg, "gids", "1: b");
	to->number(to->arg, "max_qp", UINT64_MAX);
	return 0;
}

static void
saw_device(void *arg, const char *spec)
{
	fprintf(arg, "device %s\n", spec);
}

static void
saw_none(void *arg, const char *driver, const char *why)
{
	fprintf(arg, "none %s %s\n", driver, why);
}

static void
saw_text(void *arg, const char *key, const char *value)
{
	fprintf(arg, "text %s %s\n", key, value);
}

static void
saw_number(void *arg, const char *key, uint64_t value)
{
	fprintf(arg, "number %s %" PRIx64 "\n", key, value);
}

static void
saw_item(void *arg, const char *key, const char *value)
{
	fprintf(arg, "item %s %s\n", key, value);
}

static void
expect_candidates(const char *want)
{
	struct leat_dev_sink to = { saw_device, saw_none, saw_text, saw_number, saw_item, NULL };
	char *text = NULL;
	size_t len = 0;

	to.arg = open_memstream(&text, &len);
	assert_non_null(to.arg);
	assert_int_equal(leat_dev_list(&to), 0);
	assert_int_equal(fclose(to.arg), 0);
	assert_string_equal(text, want);
	free(text);
}

static void
test_candidates(void **state)
{
	static const struct leat_driver lister = { .name = "fabric_lister", .list = lister_list };

	(void)state;
	LEAT_DRIVER_REGISTER_FN(&lister);
	expect_candidates("device fabric_lister0,dev=x\n"
			  "text state active\n"
			  "item gids 0: a\n"
			  "item gids 1: b\n"
			  "number max_qp ffffffffffffffff\n"
			  /* this driver has no list() */
			  "device fabric_mock0\n");
	nothing_there = true;
	expect_candidates("none fabric_lister fabric_lister: nothing there\n"
			  "device fabric_mock0\n");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_takes_its_arguments),
		cmocka_unit_test(test_refuses_bad_arguments),
		cmocka_unit_test(test_cleanup_names_open_endpoints),
		cmocka_unit_test(test_driver_list),
		cmocka_unit_test(test_candidates),
		/* must be last: the plugins of this tree are loaded, too */
		cmocka_unit_test(test_driver_that_does_not_load),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
