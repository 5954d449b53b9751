/* SPDX-License-Identifier: BSD-3-Clause */

/* Objects in the block (tune_block.h), and the directory of processes. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "leat_cmocka.h"
#include "tune_pvt.h"
#include "worker_tune.h"

static char top[] = "/tmp/leat-test-object-XXXXXX";
static char dir[64];

static int
start_at(const char *where)
{
	const struct leat_tune_start_conf conf = { .program = "test", .dir = where };

	return leat_tune_start(&conf);
}

static struct leat_tune_object *
add(const char *name)
{
	const struct leat_tune_conf conf = {
		.schema = &worker_tune_schema,
		.name = name,
	};

	return leat_tune_add(&conf);
}

static const struct tune_object *private(const struct leat_tune_object *o)
{
	return container_of(o, const struct tune_object, pub);
}

/* Wait until the control thread has given all objects a record, or has no room for more. */
static void
await_records(void)
{
	bool fresh;

	do {
		pthread_mutex_lock(&tune_lock);
		fresh = !TAILQ_EMPTY(&tune_objects.fresh);
		pthread_mutex_unlock(&tune_lock);
		(void)sched_yield();
	} while (fresh);
}

static unsigned int
files_in(const char *where)
{
	unsigned int n = 0;
	struct dirent *e;
	DIR *d = opendir(where);

	assert_non_null(d);
	while ((e = readdir(d)) != NULL)
		n += e->d_name[0] != '.';
	(void)closedir(d);
	return n;
}

static unsigned int
slots_used(void)
{
	const struct tune_block_head *h = tune_block_head();
	const struct tune_block_slot *slots = tune_block_at(h->slot_offset);
	unsigned int i, n = 0;

	for (i = 0; i < h->slots; i++)
		n += __atomic_load_n(&slots[i].offset, __ATOMIC_ACQUIRE) != 0;
	return n;
}

static void
names_are_made_unique_and_harmless(void **state)
{
	struct leat_tune_object *a, *b, *c, *odd;

	(void)state;
	a = add("ep");
	b = add("ep");
	c = add("ep");
	odd = add("a b\n\"*=#");
	assert_string_equal(private(a)->name, "ep");
	assert_string_equal(private(b)->name, "ep+2");
	assert_string_equal(private(c)->name, "ep+3");
	assert_string_equal(private(odd)->name, "a_b_____");
	leat_tune_del(b);
	b = add("ep");
	assert_string_equal(private(b)->name, "ep+2");
	assert_true(leat_tune_id(b) > leat_tune_id(c));
	leat_tune_del(a);
	leat_tune_del(b);
	leat_tune_del(c);
	leat_tune_del(odd);
	leat_tune_del(NULL);
}

static void
an_object_without_a_name_is_refused(void **state)
{
	struct leat_tune_conf conf = { .schema = &worker_tune_schema };

	(void)state;
	assert_null(leat_tune_add(&conf));
	assert_int_equal(rte_errno, EINVAL);
	assert_null(add(""));
	assert_int_equal(rte_errno, EINVAL);
	assert_null(leat_tune_add(NULL));
}

static void
files_come_and_go_with_the_process(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(start_at(dir), 0);
	assert_int_equal(start_at(dir), -EALREADY);
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_int_equal(files_in(dir), 2);
	leat_tune_stop();
	assert_int_equal(files_in(dir), 0);
	leat_tune_stop();
	/* A directory that exists is used, and left empty, too. */
	assert_int_equal(start_at(dir), 0);
	leat_tune_stop();
	assert_int_equal(files_in(dir), 0);
}

static void
a_directory_for_others_is_refused(void **state)
{
	char other[128], link[128];

	(void)state;
	snprintf(other, sizeof(other), "%s/other", top);
	snprintf(link, sizeof(link), "%s/link", top);
	assert_int_equal(mkdir(other, 0700), 0);
	assert_int_equal(symlink(other, link), 0);
	assert_int_equal(start_at(link), -ENOTDIR);
	assert_int_equal(chmod(other, 0750), 0);
	assert_int_equal(start_at(other), -EACCES);
	assert_non_null(strstr(leat_err_msg(), "chmod 700"));
	assert_int_equal(chmod(other, 0700), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(other, 12345, 12345), 0);
		assert_int_equal(start_at(other), -EACCES);
		assert_non_null(strstr(leat_err_msg(), "user 12345"));
	}
	assert_int_equal(start_at("/nonexistent/dir"), -ENOENT);
	assert_int_equal(unlink(link), 0);
	assert_int_equal(rmdir(other), 0);
}

static void
put_file(const char *name)
{
	char path[192];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(close(fd), 0);
}

static void
files_of_the_dead_are_removed_and_no_others(void **state)
{
	char path[192];

	(void)state;
	assert_true(mkdir(dir, 0700) == 0 || errno == EEXIST);
	put_file("123-0123456789abcdef.block");
	put_file("123-0123456789abcdef.sock");
	put_file("124-0123456789abcdef.sock");
	put_file("notes.txt");
	put_file("12x-0123456789abcdef.block");
	put_file("123-0123456789abcde.block");
	assert_int_equal(start_at(dir), 0);
	/*
	 * A start leaves a dead process's socket as long as its block is there. If the first start
	 * saw the socket of process 123 before its block, the second start removes the socket.
	 */
	leat_tune_stop();
	assert_int_equal(start_at(dir), 0);
	assert_int_equal(files_in(dir), 5);
	leat_tune_stop();
	assert_int_equal(files_in(dir), 3);
	snprintf(path, sizeof(path), "%s/notes.txt", dir);
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/12x-0123456789abcdef.block", dir);
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/123-0123456789abcde.block", dir);
	assert_int_equal(unlink(path), 0);
}

/* More objects than the block has room for: those without a record work nevertheless. */
static void
the_block_may_be_full(void **state)
{
	enum { MANY = TUNE_SLOTS + 500 };
	struct leat_tune_object **o = calloc(MANY, sizeof(struct leat_tune_object *));
	unsigned int i;
	char name[32];

	(void)state;
	assert_non_null(o);
	assert_int_equal(start_at(dir), 0);
	for (i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "o%u", i);
		o[i] = add(name);
		assert_non_null(o[i]);
	}
	await_records();
	assert_int_equal(slots_used(), TUNE_SLOTS);
	assert_int_equal(tune_block_head()->dropped, 500);
	for (i = 0; i < MANY; i++)
		leat_tune_del(o[i]);
	/* There is room again. */
	o[0] = add("late");
	await_records();
	assert_int_not_equal(private(o[0])->record, 0);
	assert_int_equal(slots_used(), 1);
	leat_tune_del(o[0]);
	leat_tune_stop();
	free(o);
}

/* Objects stay when the control thread ends, and the next control thread lists them again. */
static void
objects_outlive_a_stop(void **state)
{
	struct leat_tune_object *o = add("o");

	(void)state;
	assert_int_equal(start_at(dir), 0);
	await_records();
	assert_int_equal(slots_used(), 1);
	leat_tune_stop();
	leat_tune_serve(o);
	assert_int_equal(start_at(dir), 0);
	await_records();
	assert_int_equal(slots_used(), 1);
	leat_tune_stop();
	leat_tune_del(o);
}

static int
setup(void **state)
{
	(void)state;
	if (mkdtemp(top) == NULL)
		return -1;
	snprintf(dir, sizeof(dir), "%s/tune", top);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	return rmdir(dir) == 0 ? rmdir(top) : -1;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_made_unique_and_harmless),
		cmocka_unit_test(an_object_without_a_name_is_refused),
		cmocka_unit_test(files_come_and_go_with_the_process),
		cmocka_unit_test(a_directory_for_others_is_refused),
		cmocka_unit_test(files_of_the_dead_are_removed_and_no_others),
		cmocka_unit_test(the_block_may_be_full),
		cmocka_unit_test(objects_outlive_a_stop),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
