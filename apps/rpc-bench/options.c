/* SPDX-License-Identifier: BSD-3-Clause */

/* The command line after "--". */

#include <getopt.h>
#include <string.h>

#include <leat_error.h>
#include <leat_rpc.h>

#include "../common/num.h"
#include "../common/opt.h"
#include "../common/ranks.h"
#include "bench.h"

#define TASKS_DEFAULT 16
#define BATCH_DEFAULT 3
#define SIZE_DEFAULT 32
#define PERCENT_DEFAULT 1
#define DURATION_DEFAULT_US (3 * RB_US)
#define WARMUP_DEFAULT 1000

enum {
	OPT_LISTEN = 256,
	OPT_CONNECT,
	OPT_SELF,
	OPT_LAUNCHED,
	OPT_DEV,
	OPT_TYPE,
	OPT_BIND,
	OPT_TASKS,
	OPT_BATCH,
	OPT_SIZE,
	OPT_RESP_SIZE,
	OPT_ONEWAY,
	OPT_LONG,
	OPT_BULK,
	OPT_WARMUP,
	OPT_RATE,
	OPT_DEADLINE,
	OPT_SEED,
	OPT_BOTH,
	OPT_NO_CHECK,
	OPT_CORRUPT,
	OPT_PACKET,
	OPT_CREDITS,
	OPT_SLOTS,
	OPT_CC,
	OPT_IDLE,
	OPT_TIMEOUT,
	OPT_ONCE,
	OPT_JSON,
	OPT_HISTOGRAM,
	OPT_PROGRESS,
	OPT_LIST_DRIVERS,
	OPT_LIST_DEVICES,
	OPT_VERSION,
};

static const struct option long_options[] = {
	{ "listen", required_argument, NULL, OPT_LISTEN },
	{ "connect", required_argument, NULL, OPT_CONNECT },
	{ "self", no_argument, NULL, OPT_SELF },
	{ "launched", no_argument, NULL, OPT_LAUNCHED },
	RANKS_LONG_OPTIONS,
	{ "dev", required_argument, NULL, OPT_DEV },
	{ "type", required_argument, NULL, OPT_TYPE },
	{ "bind", required_argument, NULL, OPT_BIND },
	{ "tasks", required_argument, NULL, OPT_TASKS },
	{ "batch", required_argument, NULL, OPT_BATCH },
	{ "size", required_argument, NULL, OPT_SIZE },
	{ "resp-size", required_argument, NULL, OPT_RESP_SIZE },
	{ "oneway", optional_argument, NULL, OPT_ONEWAY },
	{ "long", required_argument, NULL, OPT_LONG },
	{ "bulk", required_argument, NULL, OPT_BULK },
	{ "calls", required_argument, NULL, 'n' },
	{ "seconds", required_argument, NULL, 'D' },
	{ "warmup", required_argument, NULL, OPT_WARMUP },
	{ "rate", required_argument, NULL, OPT_RATE },
	{ "deadline", required_argument, NULL, OPT_DEADLINE },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "both", no_argument, NULL, OPT_BOTH },
	{ "no-check", no_argument, NULL, OPT_NO_CHECK },
	{ "corrupt", required_argument, NULL, OPT_CORRUPT },
	{ "packet", required_argument, NULL, OPT_PACKET },
	{ "credits", required_argument, NULL, OPT_CREDITS },
	{ "slots", required_argument, NULL, OPT_SLOTS },
	{ "cc", required_argument, NULL, OPT_CC },
	{ "idle", required_argument, NULL, OPT_IDLE },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "once", no_argument, NULL, OPT_ONCE },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "histogram", required_argument, NULL, OPT_HISTOGRAM },
	{ "progress", no_argument, NULL, OPT_PROGRESS },
	{ "list-drivers", no_argument, NULL, OPT_LIST_DRIVERS },
	{ "list-devices", no_argument, NULL, OPT_LIST_DEVICES },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

bool
rb_option_known(const char *arg)
{
	return opt_known(long_options, arg);
}

static int
parse_rate(struct rb_plan *p, const char *val)
{
	double v;
	int ret = num_parse_real(val, 1, 1e10, &v);

	if (ret == -EINVAL)
		return opt_bad(rb_msg, "--rate", val, "a number of calls per second");
	if (ret < 0) {
		rb_msg("--rate: %s is out of range (1 to 10G calls per second)", val);
		return -EINVAL;
	}
	p->rate_mhz = (uint64_t)(v * 1000);
	return 0;
}

static int
parse_packet(struct rb_plan *p, const char *val)
{
	uint64_t v;
	int ret = num_parse_size(val, LEAT_RPC_PACKET_MAX, &v);

	if (ret == -EINVAL)
		return opt_bad(rb_msg, "--packet", val, "a size");
	if (ret < 0 || v < LEAT_RPC_PACKET_MIN || v % 8 != 0) {
		rb_msg("--packet: %s is not a multiple of 8, %u to %u", val, LEAT_RPC_PACKET_MIN,
		       LEAT_RPC_PACKET_MAX);
		return -EINVAL;
	}
	p->packet = (uint32_t)v;
	return 0;
}

/* Parse "SIZES" or "SIZES:PERCENT". */
static int
parse_kind(struct rb_plan *p, enum rb_kind kind, const char *opt, const char *val)
{
	size_t len = strcspn(val, ":");
	char name[40];

	p->percent[kind] = PERCENT_DEFAULT;
	if (rb_sizes_parse(opt, val, len, &p->req[kind]) < 0)
		return -EINVAL;
	p->resp[kind] = p->req[kind];
	if (val[len] == '\0')
		return 0;
	snprintf(name, sizeof(name), "%s, its per cent", opt);
	return opt_count32(rb_msg, name, val + len + 1, 1, 100, &p->percent[kind]);
}

static int
parse_bulk(struct rb_plan *p, const char *val)
{
	uint32_t i;

	if (parse_kind(p, RB_BULK, "--bulk", val) < 0)
		return -EINVAL;
	for (i = 0; i < p->req[RB_BULK].n; i++) {
		if (p->req[RB_BULK].item[i].lo == 0) {
			rb_msg("--bulk: %s: there is nothing to pull of 0 B", val);
			return -EINVAL;
		}
	}
	return 0;
}

static int
parse_oneway(struct rb_plan *p, const char *val)
{
	p->percent[RB_ONEWAY] = 100;
	return val == NULL ? 0
			   : opt_count32(rb_msg, "--oneway", val, 1, 100, &p->percent[RB_ONEWAY]);
}

static int
parse_type(struct rb_options *o, const char *val)
{
	o->type_given = true;
	if (strcmp(val, "reliable") == 0)
		o->plan.type = LEAT_EP_RELIABLE;
	else if (strcmp(val, "datagram") == 0)
		o->plan.type = LEAT_EP_DATAGRAM;
	else
		return opt_bad(rb_msg, "--type", val, "reliable or datagram");
	return 0;
}

static int
parse_idle(struct rb_options *o, const char *val)
{
	int policy = leat_idle_policy_parse(val);

	/* A deadline of a call does not wake a reactor that blocks. */
	if (policy < 0 || policy == LEAT_IDLE_BLOCK)
		return opt_bad(rb_msg, "--idle", val, "auto, spin, pause, yield or sleep");
	o->idle = (enum leat_idle_policy)policy;
	return 0;
}

static int
set_role(struct rb_options *o, enum rb_role role, const char *addr)
{
	if (o->role != RB_NO_ROLE && (o->role != RB_RANKS || role != RB_RANKS)) {
		rb_msg("only one of --self, --listen, --connect, --launched and --ranks-... can be "
		       "given");
		return -EINVAL;
	}
	if (addr != NULL && !rb_is_addr(addr)) {
		rb_msg("'%s' is not an address (host:port)", addr);
		return -EINVAL;
	}
	o->role = role;
	o->addr = addr;
	return 0;
}

/* Parse an option that selects the calls of the run. @return 0; -EINVAL; -ENOENT: another option */
static int
parse_what(struct rb_plan *p, int opt, const char *val)
{
	switch (opt) {
	case OPT_TASKS:
		return opt_count32(rb_msg, "--tasks", val, 1, RB_TASKS_MAX, &p->tasks);
	case OPT_BATCH:
		return opt_count32(rb_msg, "--batch", val, 1, RB_BATCH_MAX, &p->batch);
	case OPT_SIZE:
		if (rb_sizes_parse("--size", val, strlen(val), &p->req[RB_CALL]) < 0)
			return -EINVAL;
		p->req[RB_ONEWAY] = p->req[RB_CALL];
		return 0;
	case OPT_RESP_SIZE:
		return rb_sizes_parse("--resp-size", val, strlen(val), &p->resp[RB_CALL]);
	case OPT_ONEWAY:
		return parse_oneway(p, val);
	case OPT_LONG:
		return parse_kind(p, RB_LONG, "--long", val);
	case OPT_BULK:
		return parse_bulk(p, val);
	case 'n':
		return opt_count(rb_msg, "--calls", val, 1, RB_COUNT_MAX, &p->calls);
	case 'D':
		return opt_seconds(rb_msg, "--seconds", val, &p->duration_us);
	case OPT_WARMUP:
		return opt_count(rb_msg, "--warmup", val, 0, RB_COUNT_MAX, &p->warmup);
	case OPT_RATE:
		return parse_rate(p, val);
	case OPT_DEADLINE:
		return opt_count(rb_msg, "--deadline", val, 1, UINT64_C(86400) * RB_US,
				 &p->deadline_us);
	case OPT_SEED:
		return opt_count(rb_msg, "--seed", val, 0, UINT64_MAX, &p->seed);
	case OPT_BOTH:
		p->both = true;
		return 0;
	case OPT_NO_CHECK:
		p->check = false;
		return 0;
	case OPT_CORRUPT:
		return opt_count(rb_msg, "--corrupt", val, 1, RB_COUNT_MAX, &p->corrupt);
	case OPT_PACKET:
		return parse_packet(p, val);
	case OPT_CREDITS:
		return opt_count32(rb_msg, "--credits", val, LEAT_RPC_CREDITS_MIN,
				   LEAT_RPC_CREDITS_MAX, &p->credits);
	case OPT_CC:
		p->swift = strcmp(val, leat_rpc_cc_swift.name) == 0;
		return p->swift || strcmp(val, "none") == 0
			       ? 0
			       : opt_bad(rb_msg, "--cc", val, "none or swift");
	case OPT_SLOTS:
		return opt_count32(rb_msg, "--slots", val, 1, LEAT_RPC_SLOTS_MAX, &p->slots);
	default:
		return -ENOENT;
	}
}

static int
parse_output(struct rb_options *o, int opt, const char *val)
{
	switch (opt) {
	case OPT_JSON:
		o->json = true;
		return 0;
	case OPT_HISTOGRAM:
		o->histogram = val;
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

/*
 * Parse an option of ranks. --ranks-dir, --ranks-list and --ranks-how set the role; the others only
 * complete it.
 */
static int
parse_ranks(struct rb_options *o, int opt, const char *val)
{
	int ret = ranks_option(&o->ranks, opt, val);

	if (ret == -EINVAL)
		rb_msg("%s", leat_err_msg());
	if (ret < 0)
		return ret;
	o->ranks_given = true;
	return opt == RANKS_OPT_DIR || opt == RANKS_OPT_LIST || opt == RANKS_OPT_HOW
		       ? set_role(o, RB_RANKS, NULL)
		       : 0;
}

static int
parse_one(struct rb_options *o, int opt, const char *val)
{
	int ret = parse_ranks(o, opt, val);

	if (ret != -ENOENT)
		return ret;
	switch (opt) {
	case OPT_LISTEN:
		return set_role(o, RB_LISTEN, val);
	case OPT_CONNECT:
		return set_role(o, RB_CONNECT, val);
	case OPT_SELF:
		return set_role(o, RB_SELF, NULL);
	case OPT_LAUNCHED:
		return set_role(o, RB_RANKS, NULL);
	case OPT_DEV:
		o->dev = val;
		return 0;
	case OPT_TYPE:
		return parse_type(o, val);
	case OPT_BIND:
		if (strlen(val) >= LEAT_ADDR_MAX - 8 || (strchr(val, ':') != NULL && val[0] != '['))
			return opt_bad(rb_msg, "--bind", val,
				       "a host or interface, without a port");
		o->bind = val;
		return 0;
	case OPT_IDLE:
		return parse_idle(o, val);
	case OPT_TIMEOUT:
		return opt_seconds(rb_msg, "--timeout", val, &o->timeout_us);
	case OPT_ONCE:
		o->once = true;
		return 0;
	default:
		return parse_output(o, opt, val);
	}
}

/* Check that the options can be combined. */
static int
check_together(struct rb_options *o)
{
	struct rb_plan *p = &o->plan;

	if (o->list_drivers || o->list_devices || o->version || o->help)
		return 0;
	if (o->role == RB_NO_ROLE)
		rb_msg("one of --self, --listen ADDR, --connect ADDR, --launched, --ranks-dir DIR "
		       "and --ranks-list LIST is needed after '--' (--help)");
	else if (p->calls != 0 && p->duration_us != 0)
		rb_msg("only one of --calls and --seconds can be given");
	else if (p->percent[RB_ONEWAY] + p->percent[RB_LONG] + p->percent[RB_BULK] > 100)
		rb_msg("--oneway, --long and --bulk together are more than 100 per cent of the "
		       "batches");
	else if (p->corrupt != 0 && !p->check)
		rb_msg("--corrupt is of no use with --no-check");
	else if (o->once && o->role != RB_LISTEN)
		rb_msg("--once goes with --listen");
	else if (o->ranks_given && o->role != RB_RANKS)
		rb_msg("--rank, --ranks, --ranks-job and --ranks-timeout go with --ranks-dir, "
		       "--ranks-list and --launched");
	else if (o->bind != NULL && (o->role == RB_LISTEN || o->role == RB_CONNECT))
		rb_msg("--bind goes with --self, --launched and --ranks-dir");
	else if (p->both && o->role != RB_CONNECT)
		rb_msg("--both goes with --connect");
	else if (o->histogram != NULL && o->role == RB_LISTEN)
		rb_msg("--histogram goes with the side that measures, not with --listen");
	else
		return 0;
	return -EINVAL;
}

static int
complete(struct rb_options *o)
{
	struct rb_plan *p = &o->plan;

	if (check_together(o) < 0)
		return -EINVAL;
	p->percent[RB_CALL] =
		100 - p->percent[RB_ONEWAY] - p->percent[RB_LONG] - p->percent[RB_BULK];
	if (p->calls == 0 && p->duration_us == 0)
		p->duration_us = DURATION_DEFAULT_US;
	if (rb_work_memory(p) <= RB_MEMORY_MAX)
		return 0;
	rb_msg("%u tasks with batches of %u take %" PRIu64 " MiB for their messages, at most "
	       "%" PRIu64 ": smaller --tasks, --batch or sizes",
	       p->tasks, p->batch, rb_work_memory(p) >> 20, RB_MEMORY_MAX >> 20);
	return -EINVAL;
}

static struct rb_sizes
size_of(uint32_t size)
{
	return (struct rb_sizes){ .n = 1, .max = size, .item = { { size, size } } };
}

static void
defaults(struct rb_options *o)
{
	int k;

	*o = (struct rb_options){
		.plan = { .tasks = TASKS_DEFAULT,
			  .batch = BATCH_DEFAULT,
			  .warmup = WARMUP_DEFAULT,
			  .check = true,
			  .seed = 1 },
		.timeout_us = 10 * RB_US,
	};
	for (k = 0; k < RB_KINDS; k++) {
		o->plan.req[k] = size_of(SIZE_DEFAULT);
		o->plan.resp[k] = size_of(k == RB_ONEWAY ? 0 : SIZE_DEFAULT);
	}
}

int
rb_options_parse(struct rb_options *o, int argc, char **argv)
{
	int opt, ret, idx = -1;

	defaults(o);
	optind = 0; /* restart getopt: EAL has used it, too */
	opterr = 0;
	/* "+": no permutation; ":": distinguish a missing value from an unknown option */
	while ((opt = getopt_long(argc, argv, "+:hn:D:", long_options, &idx)) != -1) {
		if (opt == '?' || opt == ':') {
			rb_msg(opt == ':' ? "'%s' needs a value"
					  : "unknown option '%s' (see --help)",
			       argv[optind - 1]);
			return -EINVAL;
		}
		ret = parse_what(&o->plan, opt, optarg);
		if (ret != -ENOENT)
			o->run_only = idx >= 0	   ? long_options[idx].name
				      : opt == 'n' ? "calls"
						   : "seconds";
		else
			ret = parse_one(o, opt, optarg);
		if (ret < 0)
			return -EINVAL;
		idx = -1;
		/* Arguments after --help or --version do not matter. */
		if (o->help || o->version)
			return 0;
	}
	if (optind < argc) {
		rb_msg("unexpected argument '%s' (see --help)", argv[optind]);
		return -EINVAL;
	}
	return complete(o);
}
