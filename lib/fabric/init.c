/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * leat_init() and leat_cleanup(). leat_init() splits the arguments (eal_args.c), loads the drivers,
 * starts EAL and lib/tune, and opens the devices.
 */

#include <string.h>

#include <rte_eal.h>
#include <rte_lcore.h>

#include "eal_args.h"
#include "fabric_pvt.h"
#include "leat_signals.h"
#include "leat_thread_pvt.h"

static bool started;

static int
start_eal(const struct eal_args *s)
{
	char *stray = NULL;
	int ret;

	/* EAL's default writes to stdout, which is the application's. */
	if (rte_openlog_stream(stderr) != 0)
		return leat_err(EIO, "leat_init: can't set the log's stream");
	/* EAL may permute its argv, and overwrites the entry at which it stopped. */
	ret = rte_eal_init(s->eal_argc, s->eal_argv);
	if (ret < 0) {
		int err = rte_errno > 0 ? rte_errno : EINVAL;

		/* EAL may have printed its options: write them out before the message. */
		(void)fflush(NULL);
		return leat_err(err, "EAL did not start: %s (its own messages are above)",
				rte_strerror(err));
	}
	if (ret < s->eal_argc - 1)
		stray = s->eal_argv[ret + 1];
	if (stray != NULL) {
		(void)rte_eal_cleanup();
		return leat_err(EINVAL,
				"unexpected argument '%s': EAL arguments come first, then --, then "
				"the application's",
				stray);
	}
	return 0;
}

/* Keep leat's helper threads off the CPUs of the lcores, as far as there are other CPUs. */
static void
keep_helpers_off_lcores(void)
{
	unsigned int lcore, cpu;
	rte_cpuset_t cpus;

	RTE_LCORE_FOREACH(lcore) {
		cpus = rte_lcore_cpuset(lcore);
		for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
			if (CPU_ISSET(cpu, &cpus))
				leat_thread_avoid(cpu);
		}
	}
}

/* Load the drivers, and check device names before EAL starts: starting EAL takes long. */
static int
load_drivers(const struct eal_args *s, int argc, char **argv)
{
	struct leat_signals signals;
	int i, ret;

	leat_signals_save(&signals);
	ret = leat_driver_load(argc, argv);
	leat_signals_restore(&signals);
	if (ret < 0)
		return ret;
	for (i = 0; i < s->nb_specs; i++) {
		if (leat_dev_driver(s->specs[i]) == NULL)
			return -EINVAL;
	}
	return 0;
}

static int
open_devices(const struct eal_args *s)
{
	char why[LEAT_ERR_MSG_MAX + 1];
	struct leat_signals signals;
	int i, ret = 0;

	leat_signals_save(&signals);
	for (i = 0; i < s->nb_specs && ret == 0; i++)
		ret = leat_dev_open(s->specs[i]);
	if (ret < 0) {
		snprintf(why, sizeof(why), "%s", leat_err_msg());
		leat_dev_close_all();
		ret = leat_err(-ret, "%s", why);
	}
	leat_signals_restore(&signals);
	return ret;
}

static int
start_tune(const struct eal_args *s, const char *program)
{
	const char *slash = strrchr(program, '/');
	const struct leat_tune_start_conf conf = {
		.program = slash != NULL ? slash + 1 : program,
		.dir = s->tune_dir,
		.settings = s->settings,
		.off = s->no_tune,
	};

	int ret = leat_tune_start(&conf);

	return ret < 0 ? ret : leat_process_tune_add();
}

static void
stop_tune(void)
{
	leat_process_tune_del();
	leat_tune_stop();
}

static int
init_with(const struct eal_args *s, int argc, char **argv)
{
	char why[LEAT_ERR_MSG_MAX + 1];
	int ret;

	ret = load_drivers(s, argc, argv);
	if (ret < 0)
		return ret;
	ret = start_eal(s);
	if (ret < 0)
		return ret;
	keep_helpers_off_lcores();
	leat_time_init();
	ret = start_tune(s, argv[0]);
	if (ret == 0)
		ret = open_devices(s);
	if (ret < 0) {
		snprintf(why, sizeof(why), "%s", leat_err_msg());
		stop_tune();
		(void)rte_eal_cleanup();
		return leat_err(-ret, "%s", why);
	}
	return 0;
}

int
leat_init(int argc, char **argv)
{
	struct eal_args s;
	int end, ret;

	if (argc < 1 || argv == NULL)
		return leat_err(EINVAL, "leat_init: no arguments, not even a program name");
	if (started)
		return leat_err(EALREADY, "leat_init: started already");

	for (end = 1; end < argc && strcmp(argv[end], "--") != 0; end++)
		;
	ret = eal_args_split(&s, argc, argv, end);
	if (ret == 0)
		ret = init_with(&s, end, argv);
	eal_args_free(&s);
	if (ret < 0)
		return ret;
	started = true;
	/* As rte_eal_init() does: let the application's arguments begin with the program's name. */
	if (end == argc)
		end--;
	argv[end] = argv[0];
	return end;
}

static int
name_ep(const struct leat_ep *ep, void *arg)
{
	char *names = arg;
	size_t len = strlen(names);

	if (ep->ctrl->outer != NULL)
		return 0; /* an inner endpoint: its outer endpoint is named */
	if (len < LEAT_ERR_MSG_MAX / 2)
		snprintf(names + len, LEAT_ERR_MSG_MAX - len, "%s%s", len > 0 ? ", " : "",
			 leat_ep_name(ep));
	return 1;
}

int
leat_cleanup(void)
{
	char names[LEAT_ERR_MSG_MAX + 1] = "";

	if (!started)
		return 0;
	if (leat_ep_foreach(name_ep, names) > 0)
		return leat_err(EBUSY, "leat_cleanup: endpoints are still open: %s", names);
	/* Stop lib/tune first: its control thread reads devices and EAL's memory. */
	stop_tune();
	leat_dev_close_all();
	started = false;
	(void)rte_eal_cleanup();
	return 0;
}
