/* SPDX-License-Identifier: BSD-3-Clause */

/* The command line after "--". */

#include <errno.h>
#include <getopt.h>
#include <string.h>

#include <leat_error.h>
#include <leat_stream.h>

#include "../common/num.h"
#include "../common/opt.h"
#include "rg.h"

enum {
	OPT_LISTEN = 256,
	OPT_BACKEND,
	OPT_REVERSE,
	OPT_TO,
	OPT_DEV,
	OPT_ALLOW,
	OPT_CLIENTS,
	OPT_CLIENT_BYTES,
	OPT_MEMORY,
	OPT_BACKEND_TIMEOUT,
	OPT_LINGER,
	OPT_DRAIN,
	OPT_IDLE,
	OPT_STATS,
	OPT_JSON,
	OPT_LIST_DRIVERS,
	OPT_LIST_DEVICES,
	OPT_VERSION,
};

static const struct option long_options[] = {
	{ "listen", required_argument, NULL, OPT_LISTEN },
	{ "backend", required_argument, NULL, OPT_BACKEND },
	{ "reverse", no_argument, NULL, OPT_REVERSE },
	{ "to", required_argument, NULL, OPT_TO },
	{ "dev", required_argument, NULL, OPT_DEV },
	{ "allow", required_argument, NULL, OPT_ALLOW },
	{ "clients", required_argument, NULL, OPT_CLIENTS },
	{ "client-bytes", required_argument, NULL, OPT_CLIENT_BYTES },
	{ "memory", required_argument, NULL, OPT_MEMORY },
	{ "backend-timeout", required_argument, NULL, OPT_BACKEND_TIMEOUT },
	{ "linger", required_argument, NULL, OPT_LINGER },
	{ "drain", required_argument, NULL, OPT_DRAIN },
	{ "idle", required_argument, NULL, OPT_IDLE },
	{ "stats", required_argument, NULL, OPT_STATS },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "list-drivers", no_argument, NULL, OPT_LIST_DRIVERS },
	{ "list-devices", no_argument, NULL, OPT_LIST_DEVICES },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

bool
rg_option_known(const char *arg)
{
	return opt_known(long_options, arg);
}

/* ---- legs ---- */

/* Does the leg have --listen, and --to or --backend? */
static bool
complete(const struct gw_conf *leg)
{
	return leg->listen != NULL && leg->to != NULL;
}

/* Return the leg that an option belongs to: the last leg, or a new one if the last is complete. */
static struct gw_conf *
leg_of(struct rg_options *o)
{
	const char *dev = NULL;

	if (o->nb_legs > 0) {
		dev = o->leg[o->nb_legs - 1].dev;
		if (!complete(&o->leg[o->nb_legs - 1]))
			return &o->leg[o->nb_legs - 1];
	}
	if (o->nb_legs == RG_LEGS_MAX) {
		rg_msg("more than %d legs", RG_LEGS_MAX);
		return NULL;
	}
	o->leg[o->nb_legs].dev = dev;
	return &o->leg[o->nb_legs++];
}

static int
check_addr(const char *opt, const char *val, bool unix_too)
{
	const bool is_unix = strncmp(val, "unix:", 5) == 0;

	if (is_unix && !unix_too) {
		rg_msg("%s: '%s': that is an address of the device, host:port", opt, val);
		return -EINVAL;
	}
	if (!is_unix && (strrchr(val, ':') == NULL || strlen(val) >= LEAT_ADDR_MAX))
		return opt_bad(rg_msg, opt, val,
			       unix_too ? "an address (host:port, unix:/path)"
					: "an address (host:port)");
	return 0;
}

static int
set_once(const char **what, const char *opt, const char *val)
{
	if (*what != NULL) {
		rg_msg("%s %s: this leg has '%s' already", opt, val, *what);
		return -EINVAL;
	}
	*what = val;
	return 0;
}

static int
set_to(struct gw_conf *leg, const char *opt, const char *val, bool reverse)
{
	if (leg->reverse && !reverse) {
		rg_msg("--backend %s: a leg with --reverse goes --to an address", val);
		return -EINVAL;
	}
	if (check_addr(opt, val, !reverse) < 0)
		return -EINVAL;
	leg->reverse = reverse;
	return set_once(&leg->to, opt, val);
}

static int
parse_leg(struct rg_options *o, int opt, const char *val)
{
	struct gw_conf *leg;

	if (opt != OPT_LISTEN && opt != OPT_BACKEND && opt != OPT_TO && opt != OPT_REVERSE &&
	    opt != OPT_DEV)
		return -ENOENT;
	leg = leg_of(o);
	if (leg == NULL)
		return -EINVAL;
	switch (opt) {
	case OPT_LISTEN:
		return check_addr("--listen", val, true) < 0
			       ? -EINVAL
			       : set_once(&leg->listen, "--listen", val);
	case OPT_BACKEND:
		return set_to(leg, "--backend", val, false);
	case OPT_TO:
		return set_to(leg, "--to", val, true);
	case OPT_REVERSE:
		leg->reverse = true;
		return 0;
	default:
		leg->dev = val;
		return 0;
	}
}

/* ---- values ---- */

static int
parse_allow(struct rg_options *o, const char *val)
{
	char one[64];
	size_t len;

	for (;; val += len + 1) {
		len = strcspn(val, ",");
		if (len >= sizeof(one))
			return opt_bad(rg_msg, "--allow", val, "a list of addresses and ranges");
		if (o->nb_allow == RG_ALLOW_MAX) {
			rg_msg("--allow: more than %d ranges", RG_ALLOW_MAX);
			return -EINVAL;
		}
		memcpy(one, val, len);
		one[len] = '\0';
		if (gw_cidr_parse(one, &o->allow[o->nb_allow++]) < 0) {
			rg_msg("--allow: %s", leat_err_msg());
			return -EINVAL;
		}
		if (val[len] == '\0')
			return 0;
	}
}

static int
parse_size(const char *opt, const char *val, uint64_t min, uint64_t max, uint64_t *out)
{
	int ret = num_parse_size(val, max, out);

	if (ret == -EINVAL)
		return opt_bad(rg_msg, opt, val, "a size");
	if (ret < 0 || *out < min) {
		rg_msg("%s: %s is out of range (%" PRIu64 "K to %" PRIu64 "M)", opt, val, min >> 10,
		       max >> 20);
		return -EINVAL;
	}
	return 0;
}

static int
parse_client_bytes(struct rg_options *o, const char *val)
{
	uint64_t v;

	if (parse_size("--client-bytes", val, LEAT_STREAM_RX_MIN, LEAT_STREAM_RX_MAX, &v) < 0)
		return -EINVAL;
	/* A stream splits these bytes into two windows of equal size. */
	if (v % 4096 != 0)
		return opt_bad(rg_msg, "--client-bytes", val, "a multiple of 4K");
	o->all.client_bytes = (uint32_t)v;
	return 0;
}

static int
parse_idle(struct rg_options *o, const char *val)
{
	int policy = leat_idle_policy_parse(val);

	if (policy < 0)
		return opt_bad(rg_msg, "--idle", val, "auto, spin, pause, yield, sleep or block");
	o->idle = (enum leat_idle_policy)policy;
	return 0;
}

static int
parse_one(struct rg_options *o, int opt, const char *val)
{
	switch (opt) {
	case OPT_ALLOW:
		return parse_allow(o, val);
	case OPT_CLIENTS:
		return opt_count32(rg_msg, "--clients", val, 1, GW_CLIENTS_MAX, &o->all.clients);
	case OPT_CLIENT_BYTES:
		return parse_client_bytes(o, val);
	case OPT_MEMORY:
		return parse_size("--memory", val, 1 << 20, UINT64_C(1) << 40, &o->all.memory);
	case OPT_BACKEND_TIMEOUT:
		return opt_seconds(rg_msg, "--backend-timeout", val, &o->all.backend_us);
	case OPT_LINGER:
		return opt_seconds(rg_msg, "--linger", val, &o->all.linger_us);
	case OPT_DRAIN:
		return opt_seconds(rg_msg, "--drain", val, &o->drain_us);
	case OPT_IDLE:
		return parse_idle(o, val);
	case OPT_STATS:
		return opt_seconds(rg_msg, "--stats", val, &o->stats_us);
	case OPT_JSON:
		o->json = true;
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
	default:
		o->help = true;
		return 0;
	}
}

/* ---- the whole command line ---- */

static int
finish_leg(struct rg_options *o, struct gw_conf *leg)
{
	if (leg->listen == NULL) {
		rg_msg("a leg needs --listen, with --backend or --to (--help)");
		return -EINVAL;
	}
	if (leg->to == NULL) {
		rg_msg("--listen %s: where to? --%s is missing (--help)", leg->listen,
		       leg->reverse ? "to" : "backend");
		return -EINVAL;
	}
	if (check_addr("--listen", leg->listen, leg->reverse) < 0)
		return -EINVAL;
	leg->clients = o->all.clients;
	leg->client_bytes = o->all.client_bytes;
	leg->memory = o->all.memory;
	leg->backend_us = o->all.backend_us;
	leg->linger_us = o->all.linger_us;
	leg->allow = o->allow;
	leg->nb_allow = o->nb_allow;
	return 0;
}

static int
finish(struct rg_options *o)
{
	unsigned int i;

	if (o->list_drivers || o->list_devices)
		return 0;
	if (o->nb_legs == 0) {
		rg_msg("nothing to do: --listen ADDR --backend WHERE, or --reverse --listen WHERE "
		       "--to ADDR (--help)");
		return -EINVAL;
	}
	for (i = 0; i < o->nb_legs; i++) {
		if (finish_leg(o, &o->leg[i]) < 0)
			return -EINVAL;
	}
	if (o->json && o->stats_us == 0) {
		rg_msg("--json goes with --stats");
		return -EINVAL;
	}
	return 0;
}

int
rg_options_parse(struct rg_options *o, int argc, char **argv)
{
	int opt, ret;

	o->idle = LEAT_IDLE_BLOCK;
	o->drain_us = GW_DRAIN_US_DEFAULT;
	optind = 0; /* restart getopt: EAL has used it, too */
	opterr = 0;
	/* "+": no permutation; ":": distinguish a missing value from an unknown option */
	while ((opt = getopt_long(argc, argv, "+:h", long_options, NULL)) != -1) {
		if (opt == '?' || opt == ':') {
			rg_msg(opt == ':' ? "'%s' needs a value"
					  : "unknown option '%s' (see --help)",
			       argv[optind - 1]);
			return -EINVAL;
		}
		ret = parse_leg(o, opt, optarg);
		if (ret == -ENOENT)
			ret = parse_one(o, opt, optarg);
		if (ret < 0)
			return -EINVAL;
		/* Arguments after --help or --version do not matter. */
		if (o->help || o->version)
			return 0;
	}
	if (optind < argc) {
		rg_msg("unexpected argument '%s' (see --help)", argv[optind]);
		return -EINVAL;
	}
	return finish(o);
}
