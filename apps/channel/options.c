/* SPDX-License-Identifier: BSD-3-Clause */

/* The command line: leat-channel COMMAND NAME [OPTION]... [TEXT]... */

#include <ctype.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "channel.h"

#define NAME_MAX_LEN 254
#define SECONDS_MAX 1e9
#define NUL_IS_END 'z'

enum {
	OPT_SIZE = 256,
	OPT_PARTICIPANTS,
	OPT_NOTIFY,
	OPT_ON_DEATH,
	OPT_TYPE,
	OPT_HASH,
	OPT_FULL,
	OPT_TIMEOUT,
	OPT_BLOCK,
	OPT_TERMINATE,
	OPT_WAIT,
	OPT_INVALID,
	OPT_RAW,
	OPT_INTERVAL,
	OPT_FORCE,
	OPT_JSON,
	OPT_VERSION,
};

#define IN(command) (1U << (command))
#define EVERY (IN(CT_COMMANDS) - 1)

/* Each option, and the commands that accept it. */
static const struct {
	struct option option;
	unsigned int commands;
} known[] = {
	{ { "size", required_argument, NULL, OPT_SIZE }, IN(CT_CREATE) },
	{ { "participants", required_argument, NULL, OPT_PARTICIPANTS }, IN(CT_CREATE) },
	{ { "notify", required_argument, NULL, OPT_NOTIFY }, IN(CT_CREATE) },
	{ { "on-death", required_argument, NULL, OPT_ON_DEATH }, IN(CT_CREATE) },
	{ { "type", required_argument, NULL, OPT_TYPE }, IN(CT_SEND) },
	{ { "hash", required_argument, NULL, OPT_HASH }, IN(CT_SEND) },
	{ { "full", required_argument, NULL, OPT_FULL }, IN(CT_SEND) },
	{ { "block", required_argument, NULL, OPT_BLOCK }, IN(CT_SEND) },
	{ { "terminate", no_argument, NULL, OPT_TERMINATE }, IN(CT_SEND) },
	{ { "timeout", required_argument, NULL, OPT_TIMEOUT }, IN(CT_SEND) | IN(CT_RECV) },
	{ { "wait", required_argument, NULL, OPT_WAIT }, IN(CT_SEND) | IN(CT_RECV) },
	{ { "null", no_argument, NULL, NUL_IS_END }, IN(CT_SEND) | IN(CT_RECV) },
	{ { "count", required_argument, NULL, 'n' }, IN(CT_RECV) | IN(CT_ATTACH) },
	{ { "follow", no_argument, NULL, 'f' }, IN(CT_RECV) },
	{ { "raw", no_argument, NULL, OPT_RAW }, IN(CT_RECV) },
	{ { "invalid", required_argument, NULL, OPT_INVALID }, IN(CT_RECV) },
	{ { "interval", required_argument, NULL, OPT_INTERVAL }, IN(CT_ATTACH) },
	{ { "force", no_argument, NULL, OPT_FORCE }, IN(CT_DESTROY) },
	{ { "json", no_argument, NULL, OPT_JSON },
	  IN(CT_SEND) | IN(CT_RECV) | IN(CT_INSPECT) | IN(CT_ATTACH) },
	{ { "version", no_argument, NULL, OPT_VERSION }, IN(CT_NONE) },
	{ { "help", no_argument, NULL, 'h' }, EVERY | IN(CT_NONE) },
};

#define NB_KNOWN (sizeof(known) / sizeof(known[0]))

static const char *const commands[] = {
	[CT_CREATE] = "create",	  [CT_ATTACH] = "attach",
	[CT_SEND] = "send",	  [CT_RECV] = "recv",
	[CT_INSPECT] = "inspect", [CT_TERMINATE] = "terminate",
	[CT_DESTROY] = "destroy", NULL,
};
static const char *const notifies[] = { "futex", "none", "eventfd", NULL };
static const char *const on_deaths[] = { "redeliver", "drop", NULL };
static const char *const fulls[] = { "fail", "wait", "drop-newest", "drop-oldest", NULL };
static const char *const waits[] = { "notify", "spin", "pause", "yield", "sleep", NULL };
static const char *const invalids[] = { "end", "skip", NULL };

const char *
ct_command_name(enum ct_command command)
{
	return commands[command];
}

/* notify is in range: it was checked when the channel was opened. */
const char *
ct_notify_name(enum leat_channel_notify notify)
{
	return notifies[notify];
}

const char *
ct_on_death_name(enum leat_channel_on_death on_death)
{
	return on_deaths[on_death];
}

/* ---- values ---- */

static int
word(const char *opt, const char *val, const char *const *words, const char *list)
{
	int i;

	for (i = 0; words[i] != NULL; i++) {
		if (strcmp(val, words[i]) == 0)
			return i;
	}
	ct_msg("%s: '%s' is not %s", opt, val, list);
	return -EINVAL;
}

/* Parse a decimal or 0x... number; if unit is 1024 a suffix K, M or G may follow. */
static int
number(const char *opt, const char *val, uint64_t unit, uint64_t min, uint64_t max, uint64_t *out)
{
	static const char suffixes[] = "KMG";
	bool hex = val[0] == '0' && (val[1] == 'x' || val[1] == 'X');
	const char *sfx = NULL;
	uint64_t v, mul = 1;
	char *end;

	/* strtoull() accepts signs and blanks, an option's value must not have them */
	if (!isdigit((unsigned char)val[0]) || (hex && !isxdigit((unsigned char)val[2]))) {
		ct_msg("%s: '%s' is not a number", opt, val);
		return -EINVAL;
	}
	errno = 0;
	v = strtoull(val, &end, hex ? 16 : 10);
	if (*end != '\0' && unit > 1)
		sfx = strchr(suffixes, toupper((unsigned char)*end));
	if (*end != '\0' && (sfx == NULL || end[1] != '\0')) {
		ct_msg("%s: '%s' is not a number", opt, val);
		return -EINVAL;
	}
	for (; sfx != NULL && sfx >= suffixes; sfx--)
		mul *= unit;
	if (errno != 0 || __builtin_mul_overflow(v, mul, &v) || v < min || v > max) {
		ct_msg("%s: %s is out of range (%" PRIu64 " to %" PRIu64 ")", opt, val, min, max);
		return -EINVAL;
	}
	*out = v;
	return 0;
}

static int
number32(const char *opt, const char *val, uint32_t min, uint32_t max, uint32_t *out)
{
	uint64_t v;

	if (number(opt, val, 1, min, max, &v) < 0)
		return -EINVAL;
	*out = (uint32_t)v;
	return 0;
}

static int
seconds(const char *opt, const char *val, double min, uint64_t *ns)
{
	char *end;
	double v;

	errno = 0;
	v = strtod(val, &end);
	if ((!isdigit((unsigned char)val[0]) && val[0] != '.') || end == val || *end != '\0') {
		ct_msg("%s: '%s' is not a number of seconds", opt, val);
		return -EINVAL;
	}
	if (errno != 0 || !isfinite(v) || v < min || v > SECONDS_MAX) {
		ct_msg("%s: %s is out of range (%g to %g seconds)", opt, val, min, SECONDS_MAX);
		return -EINVAL;
	}
	*ns = (uint64_t)(v * (double)CT_NS_PER_S);
	return 0;
}

static int
size(const char *val, uint64_t *out)
{
	if (number("--size", val, 1024, LEAT_CHANNEL_SIZE_MIN, LEAT_CHANNEL_SIZE_MAX, out) < 0)
		return -EINVAL;
	if ((*out & (*out - 1)) == 0)
		return 0;
	ct_msg("--size: %s is not a power of two", val);
	return -EINVAL;
}

/* ---- options ---- */

/* Parse an option about the channel to create. @return -ENOENT: another option */
static int
parse_conf(struct ct_options *o, int opt, const char *val)
{
	int ret;

	switch (opt) {
	case OPT_SIZE:
		return size(val, &o->conf.size);
	case OPT_PARTICIPANTS:
		return number32("--participants", val, 1, LEAT_CHANNEL_PARTICIPANTS_MAX,
				&o->conf.participants);
	case OPT_NOTIFY:
		ret = word("--notify", val, notifies,
			   "futex or none (eventfds can't be had by name)");
		if (ret == LEAT_CHANNEL_NOTIFY_EVENTFD) {
			ct_msg("--notify: eventfds can't be had by name: futex or none");
			return -EINVAL;
		}
		o->conf.notify = (enum leat_channel_notify)ret;
		return ret;
	case OPT_ON_DEATH:
		ret = word("--on-death", val, on_deaths, "redeliver or drop");
		o->conf.on_death = (enum leat_channel_on_death)ret;
		return ret;
	default:
		return -ENOENT;
	}
}

/* Parse an option about how this participant behaves. @return -ENOENT: another option */
static int
parse_opts(struct ct_options *o, int opt, const char *val)
{
	int ret;

	switch (opt) {
	case OPT_FULL:
		ret = word("--full", val, fulls, "fail, wait, drop-newest or drop-oldest");
		o->opts.full = (enum leat_channel_full)ret;
		return ret;
	case OPT_WAIT:
		ret = word("--wait", val, waits, "notify, spin, pause, yield or sleep");
		o->opts.wait = (enum leat_channel_wait_how)ret;
		return ret;
	case OPT_INVALID:
		ret = word("--invalid", val, invalids, "end or skip");
		o->opts.invalid = (enum leat_channel_invalid)ret;
		return ret;
	default:
		return -ENOENT;
	}
}

static int
parse_value(struct ct_options *o, int opt, const char *val)
{
	switch (opt) {
	case OPT_TYPE:
		return number32("--type", val, 1, UINT32_MAX, &o->type);
	case OPT_HASH:
		return number("--hash", val, 1, 0, UINT64_MAX, &o->hash);
	case OPT_BLOCK: {
		uint64_t v;

		if (number("--block", val, 1024, 1, LEAT_CHANNEL_SIZE_MAX, &v) < 0)
			return -EINVAL;
		o->block = (uint32_t)v;
		return 0;
	}
	case OPT_TIMEOUT:
		return seconds("--timeout", val, 0, &o->timeout_ns);
	case OPT_INTERVAL:
		return seconds("--interval", val, 0.01, &o->interval_ns);
	case 'n':
		return number("--count", val, 1, 1, UINT64_MAX, &o->count);
	default:
		return -ENOENT;
	}
}

static int
parse_flag(struct ct_options *o, int opt)
{
	switch (opt) {
	case NUL_IS_END:
		o->null = true;
		return 0;
	case 'f':
		o->follow = true;
		return 0;
	case OPT_RAW:
		o->raw = true;
		return 0;
	case OPT_TERMINATE:
		o->terminate = true;
		return 0;
	case OPT_FORCE:
		o->force = true;
		return 0;
	case OPT_JSON:
		o->json = true;
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
bad_option(const struct ct_options *o, int c, char **argv)
{
	const char *arg = argv[optind - 1];
	const char *of = o->command == CT_NONE ? "" : ct_command_name(o->command);
	const char *blank = o->command == CT_NONE ? "" : " ";

	if (c == ':')
		ct_msg("'%s' needs a value", arg);
	else if (optopt > 0 && optopt < 256 && strncmp(arg, "--", 2) != 0)
		ct_msg("unknown option '-%c' (" CT_NAME " %s%s--help)", optopt, of, blank);
	else if (optopt != 0)
		ct_msg("'%s' takes no value", arg);
	else
		ct_msg("unknown option '%s' (" CT_NAME " %s%s--help)", arg, of, blank);
	return -EINVAL;
}

/* Read the argument NAME. shm_open(3) must accept it: a slash only at the beginning. */
static int
take_name(struct ct_options *o, char **argv, int argc)
{
	const char *bare;

	if (optind >= argc) {
		ct_msg("%s: of which channel? " CT_NAME " %s NAME", ct_command_name(o->command),
		       ct_command_name(o->command));
		return -EINVAL;
	}
	o->name = argv[optind++];
	bare = o->name + (o->name[0] == '/');
	if (bare[0] == '\0' || strchr(bare, '/') != NULL || strlen(bare) > NAME_MAX_LEN ||
	    strcmp(bare, ".") == 0 || strcmp(bare, "..") == 0) {
		ct_msg("'%s' is not the name of a channel: such as /watch, with no slash but the "
		       "first",
		       o->name);
		return -EINVAL;
	}
	o->texts = argv + optind;
	o->nb_texts = argc - optind;
	if (o->nb_texts == 0 || o->command == CT_SEND)
		return 0;
	ct_msg("unexpected argument '%s' (" CT_NAME " %s --help)", o->texts[0],
	       ct_command_name(o->command));
	return -EINVAL;
}

/* Refuse options that exclude each other. */
static int
check_conflicts(const struct ct_options *o)
{
	if (o->block > 0 && (o->null || o->nb_texts > 0)) {
		ct_msg("--block cuts stdin into frames: it goes with neither --null nor TEXT");
		return -EINVAL;
	}
	if (o->null && o->nb_texts > 0) {
		ct_msg("--null is for lines of stdin: it does not go with TEXT");
		return -EINVAL;
	}
	if (o->command == CT_RECV && o->raw + o->null + o->json > 1) {
		ct_msg("--raw, --null and --json: only one of them can be given");
		return -EINVAL;
	}
	if (o->follow && o->count > 0) {
		ct_msg("--follow and --count: only one of them can be given");
		return -EINVAL;
	}
	return 0;
}

static void
defaults(struct ct_options *o, enum ct_command command)
{
	memset(o, 0, sizeof(*o));
	o->command = command;
	o->type = 1;
	o->opts.full = LEAT_CHANNEL_FULL_WAIT;
	o->timeout_ns = LEAT_CHANNEL_FOREVER;
	o->interval_ns = CT_NS_PER_S;
}

static int
parse_one(struct ct_options *o, int c)
{
	int ret = parse_flag(o, c);

	if (ret == -ENOENT)
		ret = parse_conf(o, c, optarg);
	if (ret == -ENOENT)
		ret = parse_opts(o, c, optarg);
	if (ret == -ENOENT)
		ret = parse_value(o, c, optarg);
	return ret;
}

/* Select the options of a command, for getopt_long(). */
static void
options_of(enum ct_command command, struct option *list, char *short_list)
{
	unsigned int i, n = 0;

	*short_list++ = ':';
	for (i = 0; i < NB_KNOWN; i++) {
		if ((known[i].commands & IN(command)) == 0)
			continue;
		list[n++] = known[i].option;
		if (known[i].option.val >= OPT_SIZE)
			continue;
		*short_list++ = (char)known[i].option.val;
		if (known[i].option.has_arg == required_argument)
			*short_list++ = ':';
	}
	list[n] = (struct option){ 0 };
	*short_list = '\0';
}

int
ct_options_parse(struct ct_options *o, int argc, char **argv)
{
	char short_list[2 * NB_KNOWN + 2];
	struct option list[NB_KNOWN + 1];
	enum ct_command command = CT_NONE;
	bool timed = false;
	int c, i;

	for (i = 0; argc > 1 && i < CT_COMMANDS; i++) {
		if (strcmp(argv[1], commands[i]) == 0)
			command = (enum ct_command)i;
	}
	defaults(o, command);
	if (argc < 2 || (command == CT_NONE && argv[1][0] != '-')) {
		ct_msg(argc < 2 ? "no command (--help)" : "'%s' is no command (--help)", argv[1]);
		return -EINVAL;
	}
	if (command != CT_NONE) {
		argc--;
		argv++;
	}
	options_of(command, list, short_list);
	opterr = 0;
	while ((c = getopt_long(argc, argv, short_list, list, NULL)) != -1) {
		if (c == ':' || c == '?')
			return bad_option(o, c, argv);
		if (parse_one(o, c) < 0)
			return -EINVAL;
		timed |= c == OPT_TIMEOUT;
	}
	if (o->help || o->version)
		return 0;
	if (command == CT_NONE) {
		ct_msg("no command (--help)");
		return -EINVAL;
	}
	if (take_name(o, argv, argc) < 0)
		return -EINVAL;
	/* By default receive the frames that are there now, and do not wait for more. */
	if (command == CT_RECV && !timed && o->count == 0 && !o->follow)
		o->timeout_ns = 0;
	return check_conflicts(o);
}
