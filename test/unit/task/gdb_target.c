/* SPDX-License-Identifier: BSD-3-Clause */

/* A program with a suspended task, for test_gdb.py. */

#include <stdio.h>

#include <leat_error.h>
#include <leat_reactor.h>
#include <leat_task.h>

static int __attribute__((noinline)) waits_in_here(uint64_t us)
{
	int ret = leat_task_sleep(us);

	return ret < 0 ? ret : 1;
}

static int
the_task(void *arg)
{
	return waits_in_here(*(uint64_t *)arg) + 1;
}

/* test_gdb.py sets a breakpoint here. */
void stop_here(int ret);

void __attribute__((noinline)) stop_here(int ret)
{
	printf("%d\n", ret);
}

int
main(void)
{
	struct leat_reactor *r = leat_reactor_create(NULL);
	struct leat_tasks *ts = r != NULL ? leat_tasks_create(r, NULL) : NULL;
	uint64_t us = 1000;
	struct leat_task *unnamed = ts != NULL ? leat_task_spawn(ts, NULL, the_task, &us) : NULL;
	struct leat_task *t = ts != NULL ? leat_task_spawn(ts, "sleepy", the_task, &us) : NULL;
	int ret = 0;

	if (t == NULL || leat_task_detach(unnamed) < 0 || leat_reactor_turn(r) < 0) {
		fprintf(stderr, "%s\n", leat_err_msg());
		return 1;
	}
	stop_here(0);
	while (leat_task_state(t) != LEAT_TASK_DONE)
		if (leat_reactor_turn(r) < 0)
			return 1;
	if (leat_task_join(t, &ret) < 0 || leat_tasks_destroy(ts) < 0 ||
	    leat_reactor_destroy(r) < 0)
		return 1;
	stop_here(ret);
	return 0;
}
