/* SPDX-License-Identifier: BSD-3-Clause */

/* The state of a channel as agents see it (leat_tune_channel.h). */

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <leat_channel.h>

#include "channel_tune.h"
#include "leat_cmocka.h"
#include "leat_tune_channel.h"
#include "tune_pvt.h"

static char name[64];

static void
assert_state(const char *want)
{
	struct channel_tune_report r = { 0 };
	const struct tune_object *o;
	struct leat_tune_channel *c = leat_tune_channel_add(name);
	uint32_t i;

	assert_non_null(c);
	for (i = 0; i < tune_objects.size; i++) {
		o = tune_objects.table[i];
		if (o != NULL)
			o->conf.report(o->conf.arg, &r);
	}
	assert_string_equal(r.state, want);
	leat_tune_channel_del(c);
}

static void
states(void **state)
{
	static const char zeros[65536];
	struct leat_channel *ch;
	int fd;

	(void)state;
	snprintf(name, sizeof(name), "/leat-test-tune-%d", (int)getpid());
	assert_state("absent");
	ch = leat_channel_create(name, NULL, NULL);
	assert_non_null(ch);
	assert_state("open");
	assert_int_equal(leat_channel_terminate(ch), 0);
	assert_state("ended");
	leat_channel_close(ch);
	assert_int_equal(leat_channel_unlink(name), 0);

	/* A file whose creator has not got any further. */
	fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	assert_state("incomplete");
	assert_int_equal(write(fd, zeros, sizeof(zeros)), sizeof(zeros));
	assert_state("incomplete");
	assert_int_equal(pwrite(fd, "no channel", 10, 0), 10);
	assert_state("corrupt");
	assert_int_equal(close(fd), 0);
	assert_int_equal(shm_unlink(name), 0);

	/* There can't be a file of this name. */
	snprintf(name, sizeof(name), "/a/b");
	assert_state("unreadable");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(states),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
