/* SPDX-License-Identifier: BSD-3-Clause */

/* The command line after "--". */

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "../common/num.h"
#include "../common/opt.h"
#include "perf.h"

enum {
	OPT_LISTEN = 256,
	OPT_CONNECT,
	OPT_SELF,
	OPT_DEV,
	OPT_TEST,
	OPT_OP,
	OPT_SIZE,
	OPT_WARMUP,
	OPT_WINDOW,
	OPT_BURST,
	OPT_RATE,
	OPT_CHECK,
	OPT_CORRUPT,
	OPT_IDLE,
	OPT_TIMEOUT,
	OPT_ONCE,
	OPT_TAGS,
	OPT_MBUFS,
	OPT_MBUF_SIZE,
	OPT_EAL_MEMORY,
	OPT_JSON,
	OPT_HISTOGRAM,
	OPT_PLOT,
	OPT_BESIDE,
	OPT_PROGRESS,
	OPT_LIST_DRIVERS,
	OPT_LIST_DEVICES,
	OPT_VERSION,
};

static const struct option long_options[] = {
	{ "listen", required_argument, NULL, OPT_LISTEN },
	{ "connect", required_argument, NULL, OPT_CONNECT },
	{ "self", no_argument, NULL, OPT_SELF },
	{ "dev", required_argument, NULL, OPT_DEV },
	{ "test", required_argument, NULL, OPT_TEST },
	{ "op", required_argument, NULL, OPT_OP },
	{ "size", required_argument, NULL, OPT_SIZE },
	{ "iterations", required_argument, NULL, 'n' },
	{ "duration", required_argument, NULL, 'D' },
	{ "warmup", required_argument, NULL, OPT_WARMUP },
	{ "window", required_argument, NULL, OPT_WINDOW },
	{ "burst", required_argument, NULL, OPT_BURST },
	{ "rate", required_argument, NULL, OPT_RATE },
	{ "check", no_argument, NULL, OPT_CHECK },
	{ "corrupt", required_argument, NULL, OPT_CORRUPT },
	{ "idle", required_argument, NULL, OPT_IDLE },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "once", no_argument, NULL, OPT_ONCE },
	{ "tags", no_argument, NULL, OPT_TAGS },
	{ "mbufs", required_argument, NULL, OPT_MBUFS },
	{ "mbuf-size", required_argument, NULL, OPT_MBUF_SIZE },
	{ "eal-memory", no_argument, NULL, OPT_EAL_MEMORY },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "histogram", required_argument, NULL, OPT_HISTOGRAM },
	{ "plot", required_argument, NULL, OPT_PLOT },
	{ "beside", required_argument, NULL, OPT_BESIDE },
	{ "progress", no_argument, NULL, OPT_PROGRESS },
	{ "list-drivers", no_argument, NULL, OPT_LIST_DRIVERS },
	{ "list-devices", no_argument, NULL, OPT_LIST_DEVICES },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

bool
perf_option_known(const char *arg)
{
	return opt_known(long_options, arg);
}

static int
parse_test(struct perf_options *o, const char *val)
{
	int i;

	for (i = 0; i < PERF_TESTS; i++) {
		if (strcmp(val, perf_test_name((enum perf_test)i)) == 0) {
			o->test = (enum perf_test)i;
			return 0;
		}
	}
	return opt_bad(perf_msg, "--test", val, "lat, bw or rate");
}

static int
parse_idle(struct perf_options *o, const char *val)
{
	int i;

	for (i = PERF_IDLE_AUTO; i < PERF_IDLES; i++) {
		if (strcmp(val, perf_idle_name((enum perf_idle)i)) == 0) {
			o->idle = (enum perf_idle)i;
			return 0;
		}
	}
	return opt_bad(perf_msg, "--idle", val, "auto, spin, pause, yield or block");
}

static int
parse_ops(struct perf_options *o, const char *val)
{
	bool all = false;
	size_t len;
	int op;

	o->ops_named = 0;
	for (;; val += len + 1) {
		len = strcspn(val, ",");
		op = perf_op_by_name(val, len);
		if (op >= 0) {
			o->ops_named |= LEAT_OP_BIT(op);
		} else if (len == 3 && memcmp(val, "all", len) == 0) {
			all = true;
		} else {
			perf_msg("--op: '%.*s' is not send, tagged, msg, write, write_imm, "
				 "read, fetch_add, cmp_swap or all",
				 (int)len, val);
			return -EINVAL;
		}
		if (val[len] == '\0')
			break;
	}
	o->ops = o->ops_named | (all ? LEAT_OP_MASK_ALL & ~LEAT_OP_MASK_RECV : 0);
	return 0;
}

static int
parse_rate(struct perf_options *o, const char *val)
{
	int ret = num_parse_real(val, 1, 1e9, &o->rate);

	if (ret == -EINVAL)
		return opt_bad(perf_msg, "--rate", val, "a number of messages per second");
	if (ret < 0) {
		perf_msg("--rate: %s is out of range (1 to 1G messages per second)", val);
		return -EINVAL;
	}
	return 0;
}

static int
set_role(struct perf_options *o, enum perf_role role, const char *addr)
{
	if (o->role != PERF_NO_ROLE) {
		perf_msg("only one of --listen, --connect and --self can be given");
		return -EINVAL;
	}
	if (addr != NULL && (strrchr(addr, ':') == NULL || strlen(addr) > 127)) {
		perf_msg("'%s' is not an address (host:port)", addr);
		return -EINVAL;
	}
	o->role = role;
	o->addr = addr;
	return 0;
}

static int
parse_mbuf_size(struct perf_options *o, const char *val)
{
	uint64_t v;
	int ret = num_parse_size(val, 1 << 20, &v);

	if (ret == -EINVAL)
		return opt_bad(perf_msg, "--mbuf-size", val, "a size");
	if (ret < 0 || v < 1024) {
		perf_msg("--mbuf-size: %s is out of range (1K to 1M)", val);
		return -EINVAL;
	}
	o->mbuf_size = (uint32_t)v;
	return 0;
}

/* Parse an option that selects the measurement. @return -ENOENT: another option */
static int
parse_what(struct perf_options *o, int opt, const char *val)
{
	uint64_t v;

	switch (opt) {
	case OPT_TEST:
		return parse_test(o, val);
	case OPT_OP:
		return parse_ops(o, val);
	case OPT_SIZE:
		free(o->sizes);
		o->sizes = NULL;
		o->nb_sizes = 0;
		return perf_parse_sizes(val, &o->sizes, &o->nb_sizes);
	case 'n':
		return opt_count(perf_msg, "--iterations", val, 1, UINT64_C(1) << 60,
				 &o->iterations);
	case 'D':
		return opt_seconds(perf_msg, "--duration", val, &o->duration_us);
	case OPT_WARMUP:
		if (opt_count(perf_msg, "--warmup", val, 0, UINT64_C(1) << 40, &v) < 0)
			return -EINVAL;
		o->warmup = (int64_t)v;
		return 0;
	case OPT_WINDOW:
		return opt_count32(perf_msg, "--window", val, 1, PERF_WINDOW_MAX, &o->window);
	case OPT_BURST:
		return opt_count32(perf_msg, "--burst", val, 1, PERF_BURST_MAX, &o->burst);
	case OPT_RATE:
		return parse_rate(o, val);
	case OPT_CHECK:
		o->check = true;
		return 0;
	case OPT_CORRUPT:
		return opt_count(perf_msg, "--corrupt", val, 1, UINT64_C(1) << 60, &o->corrupt);
	case OPT_HISTOGRAM:
		o->histogram = val;
		return 0;
	case OPT_PLOT:
		o->plot = val;
		return 0;
	case OPT_BESIDE:
		o->beside = val;
		return 0;
	default:
		return -ENOENT;
	}
}

static int
parse_one(struct perf_options *o, int opt, const char *val)
{
	switch (opt) {
	case OPT_LISTEN:
		return set_role(o, PERF_LISTEN, val);
	case OPT_CONNECT:
		return set_role(o, PERF_CONNECT, val);
	case OPT_SELF:
		return set_role(o, PERF_SELF, NULL);
	case OPT_DEV:
		o->dev = val;
		return 0;
	case OPT_IDLE:
		return parse_idle(o, val);
	case OPT_TIMEOUT:
		return opt_seconds(perf_msg, "--timeout", val, &o->timeout_us);
	case OPT_ONCE:
		o->once = true;
		return 0;
	case OPT_TAGS:
		o->tags = true;
		return 0;
	case OPT_EAL_MEMORY:
		o->eal_memory = true;
		return 0;
	case OPT_MBUFS:
		return opt_count32(perf_msg, "--mbufs", val, 1, 1 << 24, &o->mbufs);
	case OPT_MBUF_SIZE:
		return parse_mbuf_size(o, val);
	case OPT_JSON:
		o->json = true;
		return 0;
	case OPT_PROGRESS:
		o->progress = true;
		return 0;
	case OPT_LIST_DRIVERS:
		o->list_drivers = true;
		return 0;
	case OPT_LIST_DEVICES:
		o->list_devices = true;
		return 0;
	case OPT_VERSION:
		o->version = true;
		return 0;
	case 'h':
		o->help = true;
		return 0;
	default:
		return -ENOENT;
	}
}

/* Refuse combinations of options that make no sense. */
static int
check_together(const struct perf_options *o)
{
	const uint32_t twoway = LEAT_OP_BIT(LEAT_OP_WRITE) | LEAT_OP_BIT(LEAT_OP_WRITE_IMM);

	if (o->list_drivers || o->list_devices || o->version || o->help)
		return 0;
	if (o->role == PERF_NO_ROLE)
		perf_msg("one of --listen ADDR, --connect ADDR and --self is needed after '--' "
			 "(--help)");
	else if (o->iterations != 0 && o->duration_us != 0)
		perf_msg("only one of --iterations and --duration can be given");
	else if (o->rate != 0 && o->test != PERF_LAT)
		perf_msg("--rate goes with --test lat; --test %s is as fast as it can be",
			 perf_test_name(o->test));
	else if (o->rate != 0 && o->check && (o->ops_named & twoway) != 0)
		perf_msg("--rate and --check together can't be done for write and write_imm: the "
			 "memory is written again before it was verified");
	else if (o->corrupt != 0 && !o->check)
		perf_msg("--corrupt is of no use without --check");
	else if (o->once && o->role != PERF_LISTEN)
		perf_msg("--once goes with --listen");
	else if (o->histogram != NULL && o->test != PERF_LAT)
		perf_msg("--histogram goes with --test lat");
	else if (o->beside != NULL && o->plot == NULL)
		perf_msg("--beside FILE is drawn by --plot FILE");
	else if (o->window != 0 && o->test == PERF_LAT && o->rate == 0)
		perf_msg("--window goes with --test bw and rate, and with --rate");
	else if (o->burst != 0 && o->test == PERF_LAT)
		perf_msg("--burst goes with --test bw and rate");
	else if (o->burst > o->window && o->window != 0)
		perf_msg("--burst %u is more than --window %u", o->burst, o->window);
	else
		return 0;
	return -EINVAL;
}

static void
defaults(struct perf_options *o)
{
	*o = (struct perf_options){
		.ops = LEAT_OP_BIT(LEAT_OP_SEND),
		.ops_named = LEAT_OP_BIT(LEAT_OP_SEND),
		.warmup = -1,
		.timeout_us = 10 * PERF_US,
		.mbufs = 8192,
		.mbuf_size = 4096,
	};
}

int
perf_options_parse(struct perf_options *o, int argc, char **argv)
{
	int opt, ret, idx = -1;
	const char *what;

	defaults(o);
	optind = 0; /* reset getopt: EAL used it before */
	opterr = 0;
	/* "+": no permutation; ":": a missing value differs from an unknown option */
	while ((opt = getopt_long(argc, argv, "+:hn:D:", long_options, &idx)) != -1) {
		if (opt == '?' || opt == ':') {
			what = argv[optind - 1];
			perf_msg(opt == ':' ? "'%s' needs a value"
					    : "unknown option '%s' (see --help)",
				 what);
			return -EINVAL;
		}
		ret = parse_what(o, opt, optarg);
		if (ret != -ENOENT)
			o->client_only = idx >= 0     ? long_options[idx].name
					 : opt == 'n' ? "iterations"
						      : "duration";
		else
			ret = parse_one(o, opt, optarg);
		if (ret < 0)
			return -EINVAL;
		idx = -1;
		/* Options after --help or --version are not checked. */
		if (o->help || o->version)
			return 0;
	}
	if (optind < argc) {
		perf_msg("unexpected argument '%s' (see --help)", argv[optind]);
		return -EINVAL;
	}
	ret = check_together(o);
	/* A listening side draws nothing. */
	if (ret == 0 && o->plot != NULL && o->role != PERF_LISTEN && o->role != PERF_NO_ROLE)
		ret = perf_plot_check(o);
	return ret;
}

void
perf_options_free(struct perf_options *o)
{
	free(o->sizes);
	o->sizes = NULL;
	perf_plot_check_free(o);
}
