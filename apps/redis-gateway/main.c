/* SPDX-License-Identifier: BSD-3-Clause */

/* The program: arguments, legs, end. */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>

#include <leat_error.h>
#include <leat_fabric.h>
#include <leat_log.h>
#include <leat_version.h>

#include "../common/front.h"
#include "../common/list.h"
#include "../common/opt.h"
#include "rg.h"

/* Interval at which the reactor checks time-outs of connections, also while it sleeps. */
#define EVENTS_US 10000

static struct leat_app app;
static struct leat_reactor_conf reactor = { .events_us = EVENTS_US };

void
rg_msg(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	opt_print(RG_NAME, fmt, ap);
	va_end(ap);
}

/* End the program after --list-drivers or --list-devices; ret is the result of the list. */
static int
listed(int ret)
{
	if (ret < 0) {
		rg_msg("%s", leat_err_msg());
		leat_app_stop(LEAT_APP_FAILED);
	}
	return LEAT_APP_DONE;
}

static int
parse(int argc, char **argv, void *arg)
{
	struct rg *g = arg;
	int end, ret;

	if (front_check(RG_NAME, g->argc, g->argv, rg_option_known, rg_msg, &end) < 0 ||
	    rg_options_parse(&g->o, argc, argv) < 0)
		return -EINVAL;
	if (g->o.help) {
		rg_help(stdout);
		return LEAT_APP_DONE;
	}
	if (g->o.version) {
		printf(RG_NAME " %s\n", leat_version());
		return LEAT_APP_DONE;
	}
	if (g->o.list_drivers) {
		ret = leat_driver_load(end, g->argv);
		return listed(ret < 0 ? ret : list_drivers(g->o.json));
	}
	app.stop_us = g->o.drain_us;
	reactor.idle.policy = g->o.idle;
	return 0;
}

/* ---- before the lcores start ---- */

/* Raise the limit of descriptors as far as the system permits: each client needs one. */
static void
raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		LEAT_LOG(DEBUG, app, "gateway: the limit of descriptors stays as it is");
}

static int
begin(void *arg)
{
	struct rg *g = arg;
	unsigned int i;

	if (g->o.list_devices)
		return listed(list_devices(g->o.json));
	if (leat_dev_count() == 0) {
		rg_msg("no device: name one with --vdev, such as --vdev=fabric_ring0 "
		       "(--list-devices, --list-drivers)");
		leat_app_stop(LEAT_APP_FAILED);
		return LEAT_APP_DONE;
	}
	raise_limit();
	for (i = 0; i < g->o.nb_legs; i++) {
		int ret = gw_guard(&g->o.leg[i]);

		if (ret == 0)
			continue;
		rg_msg("%s", leat_err_msg());
		leat_app_stop(ret == -EPERM ? LEAT_APP_USAGE : LEAT_APP_FAILED);
		return LEAT_APP_DONE;
	}
	return 0;
}

/* ---- legs ---- */

static void
on_stats(struct leat_timer *timer, void *arg, uint64_t now)
{
	const struct rg *g = app.arg;

	(void)now;
	/* Stop when stdout fails: its reader has ended. */
	if (rg_report(arg, g->o.json) < 0)
		leat_timer_stop(timer);
}

static int
open_leg(struct rg *g, unsigned int i)
{
	struct leat_reactor *r = leat_reactor_self();
	char addr[LEAT_ADDR_MAX];
	int ret;

	g->gw[i] = gw_open(r, &g->o.leg[i]);
	if (g->gw[i] == NULL)
		return -rte_errno;
	ret = gw_addr(g->gw[i], addr, sizeof(addr));
	if (ret < 0)
		return ret;
	printf("listening on %s\n", addr);
	(void)fflush(stdout);
	leat_timer_init(&g->stats[i], on_stats, g->gw[i]);
	if (g->o.stats_us != 0)
		leat_timer_start_periodic(r, &g->stats[i], g->o.stats_us);
	return 0;
}

/* Open the legs of this lcore. */
static int
start(void *arg)
{
	struct rg *g = arg;
	unsigned int i;

	for (i = (unsigned int)leat_app_index(); i < g->o.nb_legs; i += leat_app_count()) {
		int ret = open_leg(g, i);

		if (ret < 0)
			return ret;
	}
	return LEAT_APP_STAY;
}

static void
end(void *arg)
{
	struct rg *g = arg;
	unsigned int i;

	for (i = 0; i < g->o.nb_legs; i++) {
		if (g->gw[i] == NULL)
			continue;
		if (g->o.stats_us != 0)
			(void)rg_report(g->gw[i], g->o.json);
		if (gw_close(g->gw[i]) < 0) {
			rg_msg("%s", leat_err_msg());
			leat_app_stop(LEAT_APP_FAILED);
		}
	}
}

int
main(int argc, char **argv)
{
	static struct rg gateway;
	const struct leat_tasks_conf tasks = { .hog_us = LEAT_TASK_HOG_NEVER };

	gateway.argc = argc;
	gateway.argv = argv;
	app = (struct leat_app){ .name = RG_NAME,
				 .device = "",
				 .front = front_options,
				 .parse = parse,
				 .begin = begin,
				 .start = start,
				 .end = end,
				 .arg = &gateway,
				 .reactor = &reactor,
				 .tasks = &tasks };
	return leat_app_run(argc, argv, &app);
}
