/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * leat-conformance: tests a driver against the promises that leat makes for every driver.
 *
 *     leat-conformance EAL... --vdev=fabric_X0,... -- [--mode self|lcores|fork] [--filter GLOB] ...
 *
 * doc/guide/conformance.md tells how to use it and how to add a driver.
 */

#include <getopt.h>
#include <sched.h>
#include <signal.h>

#include "ct.h"

#if defined(__SANITIZE_THREAD__)
#define SLOW 10
#define SCALE 10
#elif defined(__SANITIZE_ADDRESS__)
#define SLOW 4
#define SCALE 30
#else
#define SLOW 1
#define SCALE 100
#endif

static const struct ct_test *const groups[] = {
	ct_tests_ops,
	ct_tests_onesided,
	ct_tests_conservation,
	ct_tests_order,
	ct_tests_ownership,
	ct_tests_bounded,
	ct_tests_errors,
	ct_tests_refused,
	ct_tests_silence,
	ct_tests_stop,
	ct_tests_alone,
	ct_tests_connect,
	ct_tests_peers,
	ct_tests_clients,
	ct_tests_cancel,
	ct_tests_death,
	ct_tests_threads,
	ct_tests_wait,
	ct_tests_datagram,
	ct_tests_datagram_peers,
	ct_tests_cable,
	ct_tests_random,
	NULL,
};

static const char usage[] =
	"leat-conformance [EAL options] --vdev=fabric_X0,... -- [options]\n"
	"  --mode self|lcores|fork  both sides in one thread, on two lcores, in two processes "
	"(self)\n"
	"  --device NAME            the device that is tested (the first one)\n"
	"  --type reliable|datagram kind of endpoints (reliable, unless the device offers "
	"datagrams only)\n"
	"  --list                   names of the tests, none is run\n"
	"  --filter GLOB            only tests whose name fits, e.g. 'order.*'; repeatable: any "
	"of them\n"
	"  --known GLOB=REASON      tests that this device is known to fail: skipped with the "
	"reason; repeatable\n"
	"  --plain                  without the ops that the library does in software for this "
	"device\n"
	"  --seed N                 of sizes, bursts and data (1)\n"
	"  --seeds N                run each test N times, with seeds from --seed on (1)\n"
	"  --scale N                amount of work, percent (100; less under sanitizers)\n"
	"  --slow N                 factor on all limits of time (1; more under sanitizers)\n"
	"  --listen HOST:0          where the tests listen (127.0.0.1:0)\n"
	"  --far-listen HOST:0      mode fork, two devices given: the other processes use the "
	"second one, and listen here\n"
	"  --cable CMD              a shell command that takes down, up or lossy: runs the tests "
	"cable.*\n"
	"  --impatient              the device was told to give up a peer that posts no receives\n"
	"  --eal-memory             buffers, and three of four regions, are EAL's memory, if it "
	"has some\n"
	"  --help\n"
	"Output is TAP. Exit status: 0 all passed or skipped, 1 failed, 2 could not be run.\n";

struct options {
	const char *device;
	uint64_t role; /* tells children apart; 0: this is the parent */
	bool list, help;
	int type; /* -1: not given */
};

static int
number(const char *s, uint64_t max, uint64_t *out)
{
	char *end;
	unsigned long long v;

	errno = 0;
	v = strtoull(s, &end, 0);
	if (errno != 0 || end == s || *end != '\0' || v > max)
		return -EINVAL;
	*out = v;
	return 0;
}

static int
parse(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{ "mode", required_argument, NULL, 'm' },
		{ "device", required_argument, NULL, 'd' },
		{ "type", required_argument, NULL, 't' },
		{ "list", no_argument, NULL, 'l' },
		{ "filter", required_argument, NULL, 'f' },
		{ "known", required_argument, NULL, 'k' },
		{ "plain", no_argument, NULL, 'p' },
		{ "seed", required_argument, NULL, 's' },
		{ "seeds", required_argument, NULL, 'S' },
		{ "scale", required_argument, NULL, 'c' },
		{ "slow", required_argument, NULL, 'w' },
		{ "listen", required_argument, NULL, 'L' },
		{ "far-listen", required_argument, NULL, 'F' },
		{ "cable", required_argument, NULL, 'C' },
		{ "impatient", no_argument, NULL, 'i' },
		{ "eal-memory", no_argument, NULL, 'e' },
		{ "role", required_argument, NULL, 'r' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	uint64_t v = 0;
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (c) {
		case 'm':
			if (strcmp(optarg, "self") == 0)
				ct.mode = CT_SELF_MODE;
			else if (strcmp(optarg, "lcores") == 0)
				ct.mode = CT_LCORES_MODE;
			else if (strcmp(optarg, "fork") == 0)
				ct.mode = CT_FORK_MODE;
			else
				return -EINVAL;
			break;
		case 'd':
			o->device = optarg;
			break;
		case 't':
			if (strcmp(optarg, "reliable") == 0)
				o->type = LEAT_EP_RELIABLE;
			else if (strcmp(optarg, "datagram") == 0)
				o->type = LEAT_EP_DATAGRAM;
			else
				return -EINVAL;
			break;
		case 'l':
			o->list = true;
			break;
		case 'f':
			if (ct.nb_filter == RTE_DIM(ct.filter))
				return -EINVAL;
			ct.filter[ct.nb_filter++] = optarg;
			break;
		case 'k':
			if (ct.nb_known == RTE_DIM(ct.known) || strchr(optarg, '=') == NULL)
				return -EINVAL;
			ct.known[ct.nb_known++] = optarg;
			break;
		case 'p':
			ct.plain = true;
			break;
		case 's':
			if (number(optarg, UINT64_MAX, &ct.seed) < 0)
				return -EINVAL;
			break;
		case 'S':
			if (number(optarg, UINT32_MAX, &v) < 0 || v == 0)
				return -EINVAL;
			ct.nb_seeds = (uint32_t)v;
			break;
		case 'c':
			if (number(optarg, 100000, &v) < 0 || v == 0)
				return -EINVAL;
			ct.scale = (uint32_t)v;
			break;
		case 'w':
			if (number(optarg, 1000, &v) < 0 || v == 0)
				return -EINVAL;
			ct.slow = (uint32_t)v;
			break;
		case 'L':
			ct.listen = optarg;
			break;
		case 'e':
			ct.eal_memory = true;
			break;
		case 'F':
			ct.far_listen = optarg;
			break;
		case 'C':
			ct.cable = optarg;
			break;
		case 'i':
			ct.impatient = true;
			break;
		case 'r':
			if (number(optarg, UINT32_MAX, &o->role) < 0 || o->role == 0)
				return -EINVAL;
			break;
		case 'h':
			o->help = true;
			break;
		default:
			return -EINVAL;
		}
	}
	return optind == argc ? 0 : -EINVAL;
}

/*
 * The default EAL arguments: two lcores that may run on any CPU of this process, so that two
 * processes of two lcores each make progress on a small machine.
 */
static char **
eal_args(int argc, char **argv, int *new_argc)
{
	static char lcores[2048] = "--lcores=(0-1)@(";
	static char no_telemetry[] = "--no-telemetry";
	static char no_huge[] = "--no-huge", dash_m[] = "-m", memory[] = "256";
	static char no_pci[] = "--no-pci";
	static char quiet[] = "--log-level=leat.*:error"; /* the tests provoke many warnings */
	char **out = calloc((size_t)argc + 9, sizeof(*out));
	size_t pos = strlen(lcores);
	bool has = false, has_memory = false;
	cpu_set_t cpus;
	int i, k = 0;

	if (out == NULL)
		return NULL;
	for (i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
		has |= strncmp(argv[i], "-l", 2) == 0 || strncmp(argv[i], "-c", 2) == 0 ||
		       strncmp(argv[i], "--lcores", 8) == 0;
		has_memory |= strcmp(argv[i], "-m") == 0 ||
			      strncmp(argv[i], "--socket-mem", 12) == 0 ||
			      strstr(argv[i], "-huge") != NULL;
	}
	out[k++] = argv[0];
	if (!has && sched_getaffinity(0, sizeof(cpus), &cpus) == 0) {
		for (i = 0; i < CPU_SETSIZE && pos + 16 < sizeof(lcores); i++)
			if (CPU_ISSET(i, &cpus))
				pos += (size_t)snprintf(lcores + pos, sizeof(lcores) - pos, "%d,",
							i);
		lcores[pos - 1] = ')';
		out[k++] = lcores;
	}
	if (!has_memory) {
		out[k++] = no_huge;
		out[k++] = dash_m;
		out[k++] = memory;
	}
	out[k++] = no_telemetry;
	out[k++] = no_pci;
	out[k++] = quiet;
	for (i = 1; i < argc; i++)
		out[k++] = argv[i];
	*new_argc = k;
	return out;
}

/* Ask the device about the endpoints that the tests use. */
static int
info_get(void)
{
	uint32_t ops;
	int ret;

	ret = leat_dev_info_get(ct.dev, &ct.info);
	if (ret < 0)
		return ret;
	ops = ct.info.ops;
	if (ct.plain)
		ops &= ~ct.info.ops_software;
	ret = leat_dev_info_for(ct.dev, ops, &ct.info);
	ct.info.ops = ops;
	return ret;
}

static int
tests(void)
{
	int failed;

	ct_note("device %s, driver %s, provider %s, interface %s, %s; seed %" PRIu64
		", seeds %u, scale %u %%",
		ct.info.name, ct.info.driver, ct.info.provider[0] != '\0' ? ct.info.provider : "-",
		ct.info.interface[0] != '\0' ? ct.info.interface : "-",
		ct.type == LEAT_EP_DATAGRAM ? "datagrams" : "reliable", ct.seed, ct.nb_seeds,
		ct.scale);
	if ((ct.info.ops & ct.info.ops_software) != 0)
		ct_note("tagged ops are the library's: every message goes through its tag layer");
	ct_hosts_init();
	failed = ct_run(groups, false);
	ct_hosts_fini();
	return failed < 0 ? 2 : failed > 0 ? 1 : 0;
}

int
main(int argc, char **argv)
{
	struct options o = { .device = NULL, .type = -1 };
	int ret, used, dashes, nb;
	char **args;

	ct = (struct ct_globals){ .mode = CT_SELF_MODE,
				  .seed = 1,
				  .nb_seeds = 1,
				  .scale = SCALE,
				  .slow = SLOW,
				  .listen = "127.0.0.1:0",
				  .argc = argc,
				  .argv = argv };
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (dashes = 1; dashes < argc && strcmp(argv[dashes], "--") != 0; dashes++)
		if (strcmp(argv[dashes], "--help") == 0 || strcmp(argv[dashes], "--list") == 0)
			break;
	if (dashes < argc && strcmp(argv[dashes], "--") != 0)
		dashes--;
	if (dashes < argc && parse(argc - dashes, argv + dashes, &o) < 0) {
		fputs(usage, stderr);
		return 2;
	}
	if (o.help) {
		fputs(usage, stdout);
		return 0;
	}
	if (o.list)
		return ct_run(groups, true) < 0 ? 2 : 0;
	args = eal_args(argc, argv, &nb);
	used = args == NULL ? -ENOMEM : leat_init(nb, args);
	if (used < 0) {
		fprintf(stderr, "leat-conformance: %s\n", leat_err_msg());
		return 2;
	}
	if (o.device != NULL)
		ct.dev = leat_dev_by_name(o.device);
	else
		ct.dev = leat_dev_get(o.role != 0 && ct.far_listen != NULL ? 1 : 0);
	if (ct.dev == NULL || info_get() < 0) {
		fprintf(stderr, "leat-conformance: no device %s given, see --help\n",
			o.device != NULL ? o.device : "");
		return 2;
	}
	ct.type = LEAT_EP_RELIABLE;
	if (o.type < 0 ? ct.info.ep_types == CT_DATAGRAM : o.type == LEAT_EP_DATAGRAM)
		ct.type = LEAT_EP_DATAGRAM;
	ret = o.role != 0 ? ct_child(o.role) : tests();
	used = leat_cleanup();
	if (used < 0) {
		fprintf(stderr, "leat-conformance: cleanup: %s\n", leat_err_msg());
		ret = ret != 0 ? ret : 1;
	}
	free(args);
	return ret != 0 ? (ret < 0 ? 2 : ret) : 0;
}
