/* SPDX-License-Identifier: BSD-3-Clause */

/* Arguments, which checks run, and the exit code. EAL is not started. */

#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <leat_error.h>
#include <leat_version.h>

#include "doctor.h"

const struct dr_group dr_groups[] = {
	{ "mem", "hugepages, locked memory, shared memory", dr_mem_checks },
	{ "cpu", "CPUs, clock, NUMA", dr_cpu_checks },
	{ "kernel", "IOMMU, and what processes may do", dr_kernel_checks },
	{ "rdma", "InfiniBand, RoCE and iWARP devices", dr_rdma_checks },
	{ "efa", "AWS Elastic Fabric Adapter", dr_efa_checks },
	{ "fabric", "libfabric", dr_fabric_checks },
	{ "leat", "leat and DPDK", dr_leat_checks },
	{ NULL, NULL, NULL },
};

/* clang-format off */
static const char help[] =
"Usage: leat-doctor [options]\n"
"\n"
"Check whether this machine is fit for leat. Each finding has a severity, what\n"
"was seen, what it means, and the command that mends it. Nothing is changed;\n"
"leat-doctor needs no root and no device.\n"
"\n"
"  --only LIST        run only these checks or groups, such as rdma,mem.hugepages\n"
"  --list             list groups and checks, with --json as JSON\n"
"  -v, --verbose      show findings of severity ok, too\n"
"  --json             print JSON on stdout, with findings of severity ok\n"
"  --root DIR         read /proc, /sys, /dev and /etc below DIR, which holds a\n"
"                     copy of another machine's\n"
"  -d, --driver PATH  a driver plugin, or a directory of plugins, as EAL's -d; may\n"
"                     be repeated\n"
"  --version          print the version\n"
"  -h, --help         print this help\n"
"\n"
"Severities: ok; info: could be better, or does not exist; warning: leat works,\n"
"but slower, or lacks something; error: something that exists can't be used.\n"
"\n"
"Exit: 0 nothing above info; 1 warnings; 2 errors; 3 wrong usage; 4 leat-doctor\n"
"itself failed.\n";
/* clang-format on */

enum { OPT_ONLY = 256, OPT_LIST, OPT_JSON, OPT_ROOT, OPT_VERSION };

static const struct option long_options[] = {
	{ "only", required_argument, NULL, OPT_ONLY },
	{ "list", no_argument, NULL, OPT_LIST },
	{ "verbose", no_argument, NULL, 'v' },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "root", required_argument, NULL, OPT_ROOT },
	{ "driver", required_argument, NULL, 'd' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

struct options {
	const char *only;
	char *root;
	bool list, json, verbose, version, help;
};

void
dr_msg(const char *fmt, ...)
{
	char raw[2 * DR_PATH_MAX], line[2 * DR_PATH_MAX];
	va_list ap;

	va_start(ap, fmt);
	if (vsnprintf(raw, sizeof(raw), fmt, ap) < 0)
		raw[0] = '\0';
	va_end(ap);
	dr_printable(line, sizeof(line), raw);
	fprintf(stderr, DR_NAME ": %s\n", line);
}

/* ---- --only ---- */

/* Does word, of len bytes, name the group or the check? */
static bool
word_matches(const char *word, size_t len, const struct dr_group *g, const struct dr_check *c)
{
	return (strlen(g->name) == len && memcmp(g->name, word, len) == 0) ||
	       (strlen(c->id) == len && memcmp(c->id, word, len) == 0);
}

static bool
wanted(const char *only, const struct dr_group *g, const struct dr_check *c)
{
	size_t len;

	if (only == NULL)
		return true;
	for (;; only += len + 1) {
		len = strcspn(only, ",");
		if (word_matches(only, len, g, c))
			return true;
		if (only[len] == '\0')
			return false;
	}
}

static bool
known(const char *word, size_t len)
{
	const struct dr_group *g;
	const struct dr_check *c;

	for (g = dr_groups; g->name != NULL; g++) {
		for (c = g->checks; c->id != NULL; c++) {
			if (word_matches(word, len, g, c))
				return true;
		}
	}
	return false;
}

static bool
only_is_good(const char *only)
{
	size_t len;

	for (;; only += len + 1) {
		len = strcspn(only, ",");
		if (!known(only, len)) {
			dr_msg("--only: '%.*s' is no check and no group (--list)", (int)len, only);
			return false;
		}
		if (only[len] == '\0')
			return true;
	}
}

/* ---- arguments ---- */

/* Set o->root to an absolute path without a slash at its end; "/" becomes "". */
static bool
set_root(struct options *o, const char *dir)
{
	struct stat st;
	size_t n;

	free(o->root);
	o->root = realpath(dir, NULL);
	if (o->root == NULL || stat(o->root, &st) != 0) {
		dr_msg("--root %s: %s", dir, strerror(errno));
		return false;
	}
	if (!S_ISDIR(st.st_mode)) {
		dr_msg("--root %s: no directory", dir);
		return false;
	}
	n = strlen(o->root);
	if (n >= DR_PATH_MAX / 2) {
		dr_msg("--root %s: the path is too long", dir);
		return false;
	}
	if (n == 1)
		o->root[0] = '\0';
	return true;
}

static bool
bad_option(int c, char **argv)
{
	const char *arg = argv[optind - 1];

	if (c == ':')
		dr_msg("'%s' needs a value", arg);
	else if (optopt > 0 && optopt < 256 && strncmp(arg, "--", 2) != 0)
		dr_msg("unknown option '-%c' (--help)", optopt);
	else if (optopt != 0)
		dr_msg("'%s' takes no value", arg);
	else
		dr_msg("unknown option '%s' (--help)", arg);
	return false;
}

static bool
parse(struct options *o, struct dr *d, int argc, char **argv)
{
	static char dash_d[] = "-d";
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":d:hv", long_options, NULL)) != -1) {
		switch (c) {
		case OPT_ONLY:
			o->only = optarg;
			if (!only_is_good(optarg))
				return false;
			break;
		case OPT_LIST:
			o->list = true;
			break;
		case OPT_JSON:
			o->json = true;
			break;
		case OPT_ROOT:
			if (!set_root(o, optarg))
				return false;
			break;
		case OPT_VERSION:
			o->version = true;
			break;
		case 'd':
			d->plugins[d->nb_plugins++] = dash_d;
			d->plugins[d->nb_plugins++] = optarg;
			break;
		case 'v':
			o->verbose = true;
			break;
		case 'h':
			o->help = true;
			break;
		default:
			return bad_option(c, argv);
		}
	}
	if (optind < argc) {
		dr_msg("unexpected argument '%s' (--help)", argv[optind]);
		return false;
	}
	return true;
}

/* ---- running ---- */

static int
written(int ret)
{
	if (ret == 0)
		return DR_EXIT_OK;
	dr_msg("can't write the report: %s", strerror(-ret));
	return DR_EXIT_INTERNAL;
}

static int
run(const struct options *o, struct dr *d)
{
	const struct dr_group *g;
	int code;

	d->findings = calloc(DR_FINDINGS_MAX, sizeof(*d->findings));
	if (d->findings == NULL) {
		dr_msg("out of memory");
		return DR_EXIT_INTERNAL;
	}
	for (g = dr_groups; g->name != NULL; g++) {
		for (d->check = g->checks; d->check->id != NULL; d->check++) {
			if (wanted(o->only, g, d->check))
				d->check->run(d);
		}
	}
	dr_sort(d);
	code = written(o->json ? dr_json(d) : dr_text(d));
	free(d->findings);
	return code == DR_EXIT_OK ? dr_exit_code(d) : code;
}

int
main(int argc, char **argv)
{
	struct options o = { 0 };
	static struct dr d;
	int code;

	d.plugins = calloc(2 * (size_t)argc + 1, sizeof(*d.plugins));
	if (d.plugins == NULL) {
		dr_msg("out of memory");
		return DR_EXIT_INTERNAL;
	}
	d.plugins[d.nb_plugins++] = argc > 0 ? argv[0] : NULL;
	if (!parse(&o, &d, argc, argv)) {
		code = DR_EXIT_USAGE;
	} else if (o.help) {
		code = written(fputs(help, stdout) < 0 || fflush(stdout) != 0 ? -EIO : 0);
	} else if (o.version) {
		code = written(printf(DR_NAME " %s\n", leat_version()) < 0 || fflush(stdout) != 0
				       ? -EIO
				       : 0);
	} else if (o.list) {
		code = written(o.json ? dr_json_list() : dr_text_list());
	} else {
		d.root = o.root != NULL ? o.root : "";
		d.verbose = o.verbose;
		code = run(&o, &d);
	}
	free(d.plugins);
	free(o.root);
	return code;
}
