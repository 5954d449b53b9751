/* SPDX-License-Identifier: BSD-3-Clause */

/* The command line after "--". */

#include <getopt.h>
#include <string.h>

#include "../common/num.h"
#include "../common/opt.h"
#include "bench.h"

#define CLIENTS_DEFAULT 50
#define DATA_DEFAULT 64
#define KEYS_DEFAULT 10000
#define KEYS_BYTES_DEFAULT (UINT64_C(64) << 20)
#define RANGE_DEFAULT 100
#define DURATION_DEFAULT_US (3 * REDB_US)
#define WINDOW_MIN (UINT64_C(64) << 10)
#define WINDOW_MAX (UINT64_C(16) << 20)
/* Maximum number of requests under way, all clients together. */
#define REQUESTS_MAX (UINT64_C(1) << 26)
/* Longest command that hiredis formats, bytes. */
#define REQUEST_MAX (UINT64_C(1) << 31)

enum {
	OPT_CONNECT = 256,
	OPT_LISTEN,
	OPT_RESPOND,
	OPT_GATEWAY,
	OPT_DEV,
	OPT_AUTH_FILE,
	OPT_USER,
	OPT_DB,
	OPT_TEST,
	OPT_RANGE,
	OPT_RATE,
	OPT_VERIFY,
	OPT_NO_FILL,
	OPT_SEED,
	OPT_WINDOW,
	OPT_IDLE,
	OPT_TIMEOUT,
	OPT_JSON,
	OPT_PROGRESS,
	OPT_LIST_DRIVERS,
	OPT_LIST_DEVICES,
	OPT_VERSION,
};

static const struct option long_options[] = {
	{ "connect", required_argument, NULL, OPT_CONNECT },
	{ "listen", required_argument, NULL, OPT_LISTEN },
	{ "respond", no_argument, NULL, OPT_RESPOND },
	{ "gateway", required_argument, NULL, OPT_GATEWAY },
	{ "dev", required_argument, NULL, OPT_DEV },
	{ "auth-file", required_argument, NULL, OPT_AUTH_FILE },
	{ "user", required_argument, NULL, OPT_USER },
	{ "db", required_argument, NULL, OPT_DB },
	{ "test", required_argument, NULL, OPT_TEST },
	{ "clients", required_argument, NULL, 'c' },
	{ "pipeline", required_argument, NULL, 'P' },
	{ "data", required_argument, NULL, 'd' },
	{ "keys", required_argument, NULL, 'r' },
	{ "range", required_argument, NULL, OPT_RANGE },
	{ "requests", required_argument, NULL, 'n' },
	{ "duration", required_argument, NULL, 'D' },
	{ "rate", required_argument, NULL, OPT_RATE },
	{ "verify", no_argument, NULL, OPT_VERIFY },
	{ "no-fill", no_argument, NULL, OPT_NO_FILL },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "window", required_argument, NULL, OPT_WINDOW },
	{ "idle", required_argument, NULL, OPT_IDLE },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "progress", no_argument, NULL, OPT_PROGRESS },
	{ "list-drivers", no_argument, NULL, OPT_LIST_DRIVERS },
	{ "list-devices", no_argument, NULL, OPT_LIST_DEVICES },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

bool
redb_option_known(const char *arg)
{
	return opt_known(long_options, arg);
}

static int
parse_rate(struct redb_plan *p, const char *val)
{
	double v;
	int ret = num_parse_real(val, 1, 1e9, &v);

	if (ret == -EINVAL)
		return opt_bad(redb_msg, "--rate", val, "a number of requests per second");
	if (ret < 0) {
		redb_msg("--rate: %s is out of range (1 to 1G requests per second)", val);
		return -EINVAL;
	}
	p->rate_mhz = (uint64_t)(v * 1000);
	return 0;
}

static int
parse_size(const char *opt, const char *val, uint64_t min, uint64_t max, uint64_t *out)
{
	int ret = num_parse_size(val, max, out);

	if (ret == -EINVAL)
		return opt_bad(redb_msg, opt, val, "a size");
	if (ret < 0 || *out < min) {
		redb_msg("%s: %s is out of range (%" PRIu64 " to %" PRIu64 " bytes)", opt, val, min,
			 max);
		return -EINVAL;
	}
	return 0;
}

/* Parse a list of tests, "set,get". */
static int
parse_tests(struct redb_plan *p, const char *val)
{
	const char *name = val;
	size_t len;

	for (p->nb_tests = 0;; name += len + 1) {
		len = strcspn(name, ",");
		if (p->nb_tests == REDB_TESTS_MAX) {
			redb_msg("--test: more than %u tests", REDB_TESTS_MAX);
			return -EINVAL;
		}
		if (redb_kind_parse(name, len, &p->tests[p->nb_tests]) < 0)
			return opt_bad(redb_msg, "--test", val,
				       "a list of ping, set, get, mset, lrange");
		p->nb_tests++;
		if (name[len] == '\0')
			return 0;
	}
}

static int
parse_idle(struct redb_options *o, const char *val)
{
	int policy = leat_idle_policy_parse(val);

	if (policy < 0)
		return opt_bad(redb_msg, "--idle", val, "auto, spin, pause, yield, sleep or block");
	o->idle = (enum leat_idle_policy)policy;
	return 0;
}

/* Parse an option that says what is run. @return 0; -EINVAL; -ENOENT: another option */
static int
parse_what(struct redb_plan *p, int opt, const char *val)
{
	switch (opt) {
	case OPT_TEST:
		return parse_tests(p, val);
	case 'c':
		return opt_count32(redb_msg, "--clients", val, 1, REDB_CLIENTS_MAX, &p->clients);
	case 'P':
		return opt_count32(redb_msg, "--pipeline", val, 1, REDB_PIPELINE_MAX, &p->pipeline);
	case 'd':
		return parse_size("--data", val, 1, REDB_DATA_MAX, &p->data);
	case 'r':
		return opt_count(redb_msg, "--keys", val, 1, REDB_KEYS_MAX, &p->keys);
	case OPT_RANGE:
		return opt_count32(redb_msg, "--range", val, 1, REDB_RANGE_MAX, &p->range);
	case 'n':
		return opt_count(redb_msg, "--requests", val, 1, REDB_COUNT_MAX, &p->requests);
	case 'D':
		return opt_seconds(redb_msg, "--duration", val, &p->duration_us);
	case OPT_RATE:
		return parse_rate(p, val);
	case OPT_VERIFY:
		p->verify = true;
		return 0;
	case OPT_NO_FILL:
		p->fill = false;
		return 0;
	case OPT_SEED:
		return opt_count(redb_msg, "--seed", val, 0, UINT64_MAX, &p->seed);
	default:
		return -ENOENT;
	}
}

static int
parse_output(struct redb_options *o, int opt)
{
	switch (opt) {
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

static int
parse_one(struct redb_options *o, int opt, const char *val)
{
	int ret = parse_what(&o->plan, opt, val);

	if (ret != -ENOENT)
		return ret;
	switch (opt) {
	case OPT_CONNECT:
		o->connect = val;
		return 0;
	case OPT_LISTEN:
		o->listen = val;
		return 0;
	case OPT_RESPOND:
		o->respond = true;
		return 0;
	case OPT_GATEWAY:
		o->gateway = val;
		return 0;
	case OPT_DEV:
		o->dev = val;
		return 0;
	case OPT_AUTH_FILE:
		o->auth_file = val;
		return 0;
	case OPT_USER:
		o->user = val;
		return 0;
	case OPT_DB:
		o->db_given = true;
		return opt_count32(redb_msg, "--db", val, 0, INT32_MAX, &o->db);
	case OPT_WINDOW:
		return parse_size("--window", val, WINDOW_MIN, WINDOW_MAX, &o->window);
	case OPT_IDLE:
		return parse_idle(o, val);
	case OPT_TIMEOUT:
		return opt_seconds(redb_msg, "--timeout", val, &o->timeout_us);
	default:
		return parse_output(o, opt);
	}
}

/* Check that the options can be combined. */
static int
check_together(const struct redb_options *o)
{
	const struct redb_plan *p = &o->plan;

	if ((o->connect != NULL) + o->respond + (o->gateway != NULL) != 1)
		redb_msg("one of --connect ADDR, --respond and --gateway BACKEND is needed "
			 "after '--' (--help)");
	else if (o->listen != NULL && !o->respond)
		redb_msg("--listen goes with --respond");
	else if (p->requests != 0 && p->duration_us != 0)
		redb_msg("only one of --requests and --duration can be given");
	else if (p->argc > 0 && p->nb_tests > 0)
		redb_msg("only one of --test and a command can be given");
	else if (o->user != NULL && o->auth_file == NULL)
		redb_msg("--user goes with --auth-file");
	else if ((uint64_t)p->clients * p->pipeline > REQUESTS_MAX)
		redb_msg("--clients %u with --pipeline %u are more than %" PRIu64
			 " requests under way",
			 p->clients, p->pipeline, REQUESTS_MAX);
	else
		return 0;
	return -EINVAL;
}

/* Check that mset's command is not too long: hiredis formats a command in one piece. */
static int
check_length(const struct redb_plan *p)
{
	uint32_t i;

	for (i = 0; i < p->nb_tests; i++) {
		if (p->tests[i] == REDB_MSET &&
		    p->data * REDB_MSET_KEYS > REQUEST_MAX - REQUEST_MAX / 8) {
			redb_msg("--data: mset takes %u values, of %" PRIu64
				 " bytes in all at most",
				 REDB_MSET_KEYS, REQUEST_MAX - REQUEST_MAX / 8);
			return -EINVAL;
		}
	}
	return 0;
}

static int
complete(struct redb_options *o)
{
	struct redb_plan *p = &o->plan;

	if (o->list_drivers || o->list_devices)
		return 0;
	if (check_together(o) < 0 || check_length(p) < 0)
		return -EINVAL;
	o->role = o->listen != NULL ? REDB_SERVE : REDB_LOAD;
	if (p->argc > 0)
		p->tests[p->nb_tests++] = REDB_COMMAND;
	if (p->nb_tests == 0) {
		p->tests[p->nb_tests++] = REDB_SET;
		p->tests[p->nb_tests++] = REDB_GET;
	}
	if (p->requests == 0 && p->duration_us == 0)
		p->duration_us = DURATION_DEFAULT_US;
	if (p->keys == 0)
		p->keys = RTE_MAX(RTE_MIN(KEYS_BYTES_DEFAULT / p->data, KEYS_DEFAULT), 1u);
	return 0;
}

int
redb_options_parse(struct redb_options *o, int argc, char **argv)
{
	int opt;

	*o = (struct redb_options){
		.plan = { .clients = CLIENTS_DEFAULT,
			  .pipeline = 1,
			  .data = DATA_DEFAULT,
			  .range = RANGE_DEFAULT,
			  .seed = 1,
			  .fill = true },
		.timeout_us = 10 * REDB_US,
	};
	optind = 0; /* restart getopt: EAL has used it, too */
	opterr = 0;
	/* "+": no permutation; ":": distinguish a missing value from an unknown option */
	while ((opt = getopt_long(argc, argv, "+:hc:P:d:r:n:D:", long_options, NULL)) != -1) {
		if (opt == '?' || opt == ':') {
			redb_msg(opt == ':' ? "'%s' needs a value"
					    : "unknown option '%s' (see --help)",
				 argv[optind - 1]);
			return -EINVAL;
		}
		if (parse_one(o, opt, optarg) < 0)
			return -EINVAL;
		/* Arguments after --help or --version do not matter. */
		if (o->help || o->version)
			return 0;
	}
	o->plan.argc = argc - optind;
	o->plan.argv = argv + optind;
	return complete(o);
}
