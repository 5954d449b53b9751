/* SPDX-License-Identifier: BSD-3-Clause */

/* The program: arguments, start, end, exit code. */

#include <stdarg.h>
#include <string.h>

#include <leat_error.h>
#include <leat_scope.h>
#include <leat_version.h>

#include "../common/front.h"
#include "../common/list.h"
#include "../common/opt.h"
#include "bench.h"

/* Tasks that call, the leading task, and tasks that it starts, one for each other process. */
#define TASKS (RB_TASKS_MAX + RB_RANKS_MAX + 64)

volatile sig_atomic_t rb_signal;

void
rb_msg(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	opt_print(RB_NAME, fmt, ap);
	va_end(ap);
}

/* The first signal asks for an orderly end; a second one ends the process. */
static void
on_signal(int sig)
{
	rb_signal = sig;
}

/* End the program after --list-drivers or --list-devices. ret: the result of printing the list. */
static int
listed(int ret)
{
	if (ret < 0) {
		rb_msg("%s", leat_err_msg());
		leat_app_stop(RB_EXIT_FAILED);
	}
	return LEAT_APP_DONE;
}

static int
parse(int argc, char **argv, void *arg)
{
	struct rb_bench *b = arg;
	int end, ret;

	if (front_check(RB_NAME, b->argc, b->argv, rb_option_known, rb_msg, &end) < 0 ||
	    rb_options_parse(&b->o, argc, argv) < 0)
		return -EINVAL;
	if (b->o.help) {
		rb_help(stdout);
		return LEAT_APP_DONE;
	}
	if (b->o.version) {
		printf(RB_NAME " %s\n", leat_version());
		return LEAT_APP_DONE;
	}
	if (b->o.list_drivers) {
		ret = leat_driver_load(end, b->argv);
		return listed(ret < 0 ? ret : list_drivers(b->o.json));
	}
	/* Sleep until the measurement begins; see idle_choose(). */
	b->reactor.idle.policy = LEAT_IDLE_SLEEP;
	return 0;
}

/* ---- the device ---- */

static int
choose_device(struct rb_bench *b)
{
	if (leat_dev_count() == 0) {
		rb_msg("no device: name one with --vdev, such as --vdev=fabric_ring0 "
		       "(--list-devices, --list-drivers)");
		return -ENODEV;
	}
	b->dev = b->o.dev == NULL ? leat_dev_get(0) : leat_dev_by_name(b->o.dev);
	if (b->dev != NULL)
		return 0;
	rb_msg("--dev %s: no such device (--list-devices)", b->o.dev);
	return -ENODEV;
}

static int
choose_type(struct rb_bench *b)
{
	const uint32_t ops = LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV);
	struct leat_dev_info info;

	if (leat_dev_info_for(b->dev, ops, &info) < 0) {
		rb_msg("%s", leat_err_msg());
		return -EINVAL;
	}
	if (info.one_process && b->o.role != RB_SELF) {
		rb_msg("%s connects endpoints of one process only: use --self, or another device",
		       info.name);
		return -EINVAL;
	}
	if (!b->o.type_given && (info.ep_types & (1u << LEAT_EP_RELIABLE)) == 0)
		b->o.plan.type = LEAT_EP_DATAGRAM;
	if (b->o.plan.swift && b->o.plan.type == LEAT_EP_RELIABLE) {
		rb_msg("--cc swift goes with datagram endpoints, and these of %s are reliable",
		       info.name);
		return -EINVAL;
	}
	if ((info.ep_types & (1u << b->o.plan.type)) != 0)
		return 0;
	rb_msg("--type %s: %s (%s) has no such endpoints", rb_type_name(b->o.plan.type), info.name,
	       info.driver);
	return -EOPNOTSUPP;
}

/* End the program before its run, when the ranks were not found; end() is not called then. */
static int
ranks_failed(struct rb_bench *b)
{
	rb_msg("%s", rb_signal != 0 ? "interrupted" : b->why);
	(void)rb_lead_free(b);
	rb_ranks_part(b);
	leat_app_stop(rb_signal != 0 ? 128 + rb_signal : RB_EXIT_FAILED);
	return LEAT_APP_DONE;
}

static int
begin(void *arg)
{
	struct rb_bench *b = arg;

	if (b->o.list_devices)
		return listed(list_devices(b->o.json));
	if (choose_device(b) < 0 || choose_type(b) < 0) {
		leat_app_stop(RB_EXIT_FAILED);
		return LEAT_APP_DONE;
	}
	if (b->o.role == RB_RANKS && rb_ranks_meet(b) < 0)
		return ranks_failed(b);
	if (b->o.role == RB_LISTEN && b->o.run_only != NULL)
		rb_msg("--%s is ignored: only the connecting side decides it", b->o.run_only);
	return 0;
}

/* ---- run ---- */

static void
say_goodbye(struct rb_bench *b)
{
	const char *why = b->interrupted ? "it was interrupted" : b->why;

	if (b->link.rpc != NULL && why[0] != '\0')
		rb_link_bye(&b->link, why);
}

static int
start(void *arg)
{
	static int (*const roles[])(struct rb_bench * b) = {
		[RB_LISTEN] = rb_listen,
		[RB_CONNECT] = rb_connect,
		[RB_SELF] = rb_self,
		[RB_RANKS] = rb_ranks,
	};
	struct rb_bench *b = arg;
	int ret;

	/* Only the first lcore has the leading task, which calls functions on the other lcores. */
	if (leat_app_index() != 0)
		return 0;
	ret = roles[b->o.role](b);
	b->interrupted = b->interrupted || leat_task_cancelled();
	if (ret < 0)
		leat_task_masked(say_goodbye(b));
	b->failed = ret < 0;
	return 0;
}

static int
code_of(struct rb_bench *b, int reported)
{
	if (rb_signal != 0) {
		rb_msg("interrupted");
		return 128 + rb_signal;
	}
	if (b->why[0] != '\0')
		rb_msg("%s", b->why);
	if (b->failed || reported < 0)
		return RB_EXIT_FAILED;
	return b->verdict;
}

static void
end(void *arg)
{
	struct rb_bench *b = arg;
	int ret = 0;

	if (b->o.role != RB_LISTEN) {
		rb_lead_gather_late(b);
		ret = rb_report(b);
	}
	leat_app_stop(code_of(b, ret));
	if (rb_lead_free(b) < 0)
		leat_app_stop(RB_EXIT_FAILED);
	rb_ranks_part(b);
}

int
main(int argc, char **argv)
{
	static struct rb_bench bench;
	const struct leat_tasks_conf tasks = { .max_tasks = TASKS, .hog_us = LEAT_TASK_HOG_NEVER };
	const struct leat_app app = { .name = RB_NAME,
				      .device = "",
				      .front = front_options,
				      .parse = parse,
				      .begin = begin,
				      .start = start,
				      .end = end,
				      .on_signal = on_signal,
				      .arg = &bench,
				      .reactor = &bench.reactor,
				      .tasks = &tasks };

	bench.argc = argc;
	bench.argv = argv;
	return leat_app_run(argc, argv, &app);
}
