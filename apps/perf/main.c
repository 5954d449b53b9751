/* SPDX-License-Identifier: BSD-3-Clause */

/* The program: leat_app's callbacks, lists, and the exit code. */

#include <stdarg.h>

#include <leat_app.h>
#include <leat_error.h>
#include <leat_version.h>

#include "../common/front.h"
#include "../common/list.h"
#include "../common/opt.h"
#include "sides.h"

/* Stack of the task that runs a side. It never yields, on purpose: hog_us below allows that. */
#define STACK (1U << 20)

volatile sig_atomic_t perf_signal;

void
perf_msg(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	opt_print(PERF_NAME, fmt, ap);
	va_end(ap);
}

/* The first signal asks for an orderly end; a second one ends the process. */
static void
on_signal(int sig)
{
	perf_signal = sig;
}

/* End start() of a program that only prints a list. ret: the result of printing the list. */
static int
listed(int ret)
{
	if (ret < 0) {
		perf_msg("%s", leat_err_msg());
		leat_app_stop(PERF_EXIT_FAILED);
	}
	return LEAT_APP_DONE;
}

static int
parse(int argc, char **argv, void *arg)
{
	struct perf_sides *r = arg;
	int end, ret;

	if (front_check(PERF_NAME, r->argc, r->argv, perf_option_known, perf_msg, &end) < 0 ||
	    perf_options_parse(&r->o, argc, argv) < 0)
		return -EINVAL;
	if (r->o.help) {
		perf_help(stdout);
		return LEAT_APP_DONE;
	}
	if (r->o.version) {
		printf(PERF_NAME " %s\n", leat_version());
		return LEAT_APP_DONE;
	}
	if (r->o.list_drivers) {
		ret = leat_driver_load(end, r->argv);
		return listed(ret < 0 ? ret : list_drivers(r->o.json));
	}
	perf_cpu_start(&r->start);
	return 0;
}

static int
begin(void *arg)
{
	struct perf_sides *r = arg;

	if (perf_signal != 0) {
		perf_msg("interrupted");
		leat_app_stop(128 + perf_signal);
		return LEAT_APP_DONE;
	}
	if (r->o.list_devices)
		return listed(list_devices(r->o.json));
	if (perf_sides_begin(r) < 0) {
		leat_app_stop(PERF_EXIT_FAILED);
		return LEAT_APP_DONE;
	}
	return 0;
}

static int
start(void *arg)
{
	perf_sides_lcore(arg);
	return 0;
}

static void
end(void *arg)
{
	leat_app_stop(perf_sides_code(arg));
}

int
main(int argc, char **argv)
{
	/* Lcores without a side block, so that they use no CPU time of the lcores that measure. */
	const struct leat_reactor_conf reactor = { .idle.policy = LEAT_IDLE_BLOCK };
	const struct leat_tasks_conf tasks = { .max_tasks = 1,
					       .stack_size = STACK,
					       .hog_us = LEAT_TASK_HOG_NEVER };
	struct perf_sides sides = { .argc = argc, .argv = argv };
	const struct leat_app app = { .name = PERF_NAME,
				      .device = "",
				      .front = front_options,
				      .parse = parse,
				      .begin = begin,
				      .start = start,
				      .end = end,
				      .on_signal = on_signal,
				      .arg = &sides,
				      .reactor = &reactor,
				      .tasks = &tasks };
	int code = leat_app_run(argc, argv, &app);

	perf_options_free(&sides.o);
	return code;
}
