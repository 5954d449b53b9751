/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * leat_init(): splits the arguments, starts EAL, opens the devices.
 *
 *     prog -l 0,1 --vdev=fabric_ring0 --vdev=net_null0 -- app args
 *          |      |                   |                |
 *          EAL    ours               EAL               the application's
 */

#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include <rte_eal.h>

#include "fabric_pvt.h"
#include "leat_signals.h"

/* Without hugepages EAL takes 64 MB unless told otherwise. Untouched pages of it cost nothing. */
#define NO_HUGE_MB "512"

#define VDEV "--vdev"
#define FABRIC "fabric_"

static bool started;

struct split {
	char **eal_argv;
	int eal_argc;
	const char **specs; /* of our devices, into argv */
	int nb_specs;
	bool memory_said;
	bool no_huge; /* or legacy memory, which EAL treats alike */
	bool multiproc_said;
	bool in_memory_said;
};

static bool
is_opt(const char *arg, const char *name)
{
	size_t len = strlen(name);

	return strncmp(arg, name, len) == 0 && (arg[len] == '\0' || arg[len] == '=');
}

static void
note_eal_arg(struct split *s, const char *arg)
{
	static const char *const memory[] = {
		"--no-huge",	"--huge-dir",	  "--huge-unlink",	    "--socket-mem",
		"--legacy-mem", "--socket-limit", "--single-file-segments", "--match-allocations",
	};
	size_t i;

	for (i = 0; i < RTE_DIM(memory); i++) {
		if (is_opt(arg, memory[i]))
			s->memory_said = true;
	}
	if (strncmp(arg, "-m", 2) == 0)
		s->memory_said = true;
	if (is_opt(arg, "--no-huge") || is_opt(arg, "--legacy-mem"))
		s->no_huge = true;
	if (is_opt(arg, "--in-memory") || is_opt(arg, "--no-shconf"))
		s->in_memory_said = true;
	if (is_opt(arg, "--proc-type") || is_opt(arg, "--file-prefix") ||
	    is_opt(arg, "--base-virtaddr"))
		s->multiproc_said = true;
}

/* Device argument at argv[i], or NULL. *used: how many arguments it takes. */
static const char *
vdev_spec(char **argv, int i, int end, int *used)
{
	const char *spec = NULL;

	if (strncmp(argv[i], VDEV "=", strlen(VDEV "=")) == 0) {
		spec = argv[i] + strlen(VDEV "=");
		*used = 1;
	} else if (strcmp(argv[i], VDEV) == 0 && i + 1 < end) {
		spec = argv[i + 1];
		*used = 2;
	}
	if (spec != NULL && strncmp(spec, FABRIC, strlen(FABRIC)) == 0)
		return spec;
	return NULL;
}

/* Number of arguments that name a plugin of leat's, at argv[i]: those are loaded already. */
static int
plugin_args(char **argv, int i, int end)
{
	if (strcmp(argv[i], "-d") == 0)
		return i + 1 < end && leat_plugin_is_ours(argv[i + 1]) ? 2 : 0;
	return strncmp(argv[i], "-d", 2) == 0 && leat_plugin_is_ours(argv[i] + 2) ? 1 : 0;
}

static bool
have_hugepages(void)
{
	bool found = false;
	unsigned long n;
	glob_t g;
	size_t i;
	FILE *f;

	if (glob("/sys/kernel/mm/hugepages/*/free_hugepages", 0, NULL, &g) != 0)
		return false;
	for (i = 0; i < g.gl_pathc; i++) {
		f = fopen(g.gl_pathv[i], "re");
		if (f == NULL)
			continue;
		if (fscanf(f, "%lu", &n) == 1 && n > 0)
			found = true;
		(void)fclose(f);
	}
	globfree(&g);
	return found;
}

static int
split_args(struct split *s, int argc, char **argv, int end)
{
	static char no_huge[] = "--no-huge", in_memory[] = "--in-memory",
		    no_shconf[] = "--no-shconf";
	static char mem_opt[] = "-m", mem_val[] = NO_HUGE_MB;
	const char *spec;
	int i, used;

	memset(s, 0, sizeof(*s));
	/* ours add at most 4, and the NULL at the end */
	s->eal_argv = calloc((size_t)argc + 6, sizeof(*s->eal_argv));
	s->specs = calloc((size_t)argc + 1, sizeof(*s->specs));
	if (s->eal_argv == NULL || s->specs == NULL)
		return leat_err(ENOMEM, "leat_init: out of memory");

	s->eal_argv[s->eal_argc++] = argv[0];
	for (i = 1; i < end; i++) {
		spec = vdev_spec(argv, i, end, &used);
		if (spec != NULL) {
			s->specs[s->nb_specs++] = spec;
			i += used - 1;
			continue;
		}
		used = plugin_args(argv, i, end);
		if (used > 0) {
			i += used - 1;
			continue;
		}
		note_eal_arg(s, argv[i]);
		s->eal_argv[s->eal_argc++] = argv[i];
	}
	if (!s->memory_said && !have_hugepages()) {
		LEAT_LOG(NOTICE, fabric,
			 "no free hugepages: starting with --no-huge -m " NO_HUGE_MB
			 " (to reserve some: echo 512 > /proc/sys/vm/nr_hugepages)");
		s->eal_argv[s->eal_argc++] = no_huge;
		s->eal_argv[s->eal_argc++] = mem_opt;
		s->eal_argv[s->eal_argc++] = mem_val;
		s->no_huge = true;
	}
	/* EAL refuses --in-memory together with --no-huge; --no-shconf is the part of it that matters then. */
	if (!s->multiproc_said && !s->in_memory_said)
		s->eal_argv[s->eal_argc++] = s->no_huge ? no_shconf : in_memory;
	return 0;
}

static void
split_free(struct split *s)
{
	free(s->eal_argv);
	free(s->specs);
}

static int
start_eal(const struct split *s)
{
	char *stray = NULL;
	int ret;

	/* EAL's default writes to stdout, which is the application's. */
	if (rte_openlog_stream(stderr) != 0)
		return leat_err(EIO, "leat_init: can't set the log's stream");
	/* EAL may permute its argv and overwrites the entry that it stopped at */
	ret = rte_eal_init(s->eal_argc, s->eal_argv);
	if (ret < 0) {
		int err = rte_errno > 0 ? rte_errno : EINVAL;

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

/* A wrong name is worth no EAL start. */
static int
load_drivers(const struct split *s, int argc, char **argv)
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
open_devices(const struct split *s)
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
init_split(const struct split *s, int argc, char **argv)
{
	char why[LEAT_ERR_MSG_MAX + 1];
	int ret;

	ret = load_drivers(s, argc, argv);
	if (ret < 0)
		return ret;
	ret = start_eal(s);
	if (ret < 0)
		return ret;
	leat_time_init();
	ret = open_devices(s);
	if (ret < 0) {
		snprintf(why, sizeof(why), "%s", leat_err_msg());
		(void)rte_eal_cleanup();
		return leat_err(-ret, "%s", why);
	}
	return 0;
}

int
leat_init(int argc, char **argv)
{
	struct split s;
	int end, ret;

	if (argc < 1 || argv == NULL)
		return leat_err(EINVAL, "leat_init: no arguments, not even a program name");
	if (started)
		return leat_err(EALREADY, "leat_init: started already");

	for (end = 1; end < argc && strcmp(argv[end], "--") != 0; end++)
		;
	ret = split_args(&s, argc, argv, end);
	if (ret == 0)
		ret = init_split(&s, end, argv);
	split_free(&s);
	if (ret < 0)
		return ret;
	started = true;
	/* as EAL does: what is left begins with the program's name */
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
		return 0; /* closed with the outer one, which is named */
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
	leat_dev_close_all();
	started = false;
	(void)rte_eal_cleanup();
	return 0;
}
