/* SPDX-License-Identifier: BSD-3-Clause */

/* The program: arguments, start, end, exit code. */

#include <stdarg.h>

#include <leat_error.h>
#include <leat_fabric.h>
#include <leat_version.h>

#include "../common/front.h"
#include "../common/list.h"
#include "../common/opt.h"
#include "bench.h"

volatile sig_atomic_t redb_signal;

void
redb_msg(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	opt_print(REDB_NAME, fmt, ap);
	va_end(ap);
}

/* The first signal asks for an orderly end; a second one ends the process. */
static void
on_signal(int sig)
{
	redb_signal = sig;
}

/* End the program after --list-drivers or --list-devices; ret is the result of the list. */
static int
listed(int ret)
{
	if (ret < 0) {
		redb_msg("%s", leat_err_msg());
		leat_app_stop(REDB_EXIT_FAILED);
	}
	return LEAT_APP_DONE;
}

/* Parse the address before EAL starts, which takes half a second. */
static int
parse_address(struct redb_bench *b)
{
	int ret;

	if (redb_service_wanted(&b->o))
		ret = redb_addr_parse(&b->addr, "", redb_service_here());
	else if (b->o.role == REDB_SERVE)
		ret = redb_addr_parse(&b->addr, "--listen", b->o.listen);
	else
		ret = redb_addr_parse(&b->addr, "--connect", b->o.connect);
	if (ret == 0 || ret == -EINVAL)
		return ret;
	/* The host can't be resolved, which is not a usage error. */
	leat_app_stop(REDB_EXIT_FAILED);
	return LEAT_APP_DONE;
}

static int
parse(int argc, char **argv, void *arg)
{
	struct redb_bench *b = arg;
	int end, ret;

	if (front_check(REDB_NAME, b->argc, b->argv, redb_option_known, redb_msg, &end) < 0 ||
	    redb_options_parse(&b->o, argc, argv) < 0)
		return -EINVAL;
	if (b->o.help) {
		redb_help(stdout);
		return LEAT_APP_DONE;
	}
	if (b->o.version) {
		printf(REDB_NAME " %s\n", leat_version());
		return LEAT_APP_DONE;
	}
	if (b->o.list_drivers) {
		ret = leat_driver_load(end, b->argv);
		return listed(ret < 0 ? ret : list_drivers(b->o.json));
	}
	b->reactor.idle.policy = b->o.idle;
	return b->o.list_devices ? 0 : parse_address(b);
}

/* Choose the device, if the address is that of a stream; a socket needs none. */
static int
choose_device(struct redb_bench *b)
{
	if (b->addr.transport != &redb_stream)
		return 0;
	if (leat_dev_count() == 0) {
		redb_msg("%s is reached over a device: name one with --vdev, such as "
			 "--vdev=fabric_verbs0 (--list-devices, --list-drivers)%s",
			 b->addr.text,
			 b->o.connect != NULL ? "; or tcp:host:port, unix:/path" : "");
		return -ENODEV;
	}
	b->dev = b->o.dev == NULL ? leat_dev_get(leat_dev_count() - 1) : leat_dev_by_name(b->o.dev);
	if (b->dev != NULL)
		return 0;
	redb_msg("--dev %s: no such device (--list-devices)", b->o.dev);
	return -ENODEV;
}

static int
begin(void *arg)
{
	struct redb_bench *b = arg;

	if (b->o.list_devices)
		return listed(list_devices(b->o.json));
	if (choose_device(b) < 0) {
		leat_app_stop(REDB_EXIT_FAILED);
		return LEAT_APP_DONE;
	}
	if (redb_lead_prepare(b) == 0)
		return 0;
	redb_msg("%s", b->why);
	redb_lead_free(b);
	leat_app_stop(REDB_EXIT_FAILED);
	return LEAT_APP_DONE;
}

static int
serve(struct redb_bench *b)
{
	if (redb_service_open(b) < 0) {
		b->failed = true;
		return 0;
	}
	printf("listening on %s\n", b->service_addr);
	(void)fflush(stdout);
	return LEAT_APP_STAY;
}

static int
start(void *arg)
{
	struct redb_bench *b = arg;

	/* Only the first lcore has the leading task, which calls functions on the other lcores. */
	if (leat_app_index() != 0)
		return 0;
	if (b->o.role == REDB_SERVE)
		return serve(b);
	b->failed = redb_lead_run(b) < 0;
	return 0;
}

static int
code_of(const struct redb_bench *b, int reported)
{
	uint32_t i;

	if (redb_signal != 0) {
		redb_msg("interrupted");
		return 128 + redb_signal;
	}
	if (b->why[0] != '\0')
		redb_msg("%s", b->why);
	if (b->failed || reported < 0)
		return REDB_EXIT_FAILED;
	for (i = 0; i < b->nb_results; i++) {
		if (!redb_tally_good(&b->results[i].tally))
			return REDB_EXIT_FAILED;
	}
	return REDB_EXIT_OK;
}

static void
end(void *arg)
{
	struct redb_bench *b = arg;
	int ret = 0;

	redb_lead_gather_late(b);
	if (b->o.role == REDB_LOAD)
		ret = redb_report(b);
	leat_app_stop(code_of(b, ret));
	redb_lead_free(b);
}

int
main(int argc, char **argv)
{
	static struct redb_bench bench;
	const struct leat_app app = { .name = REDB_NAME,
				      .device = "",
				      .front = front_options,
				      .parse = parse,
				      .begin = begin,
				      .start = start,
				      .end = end,
				      .on_signal = on_signal,
				      .arg = &bench,
				      .reactor = &bench.reactor };

	bench.argc = argc;
	bench.argv = argv;
	return leat_app_run(argc, argv, &app);
}
