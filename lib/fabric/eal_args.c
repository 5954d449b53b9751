/* SPDX-License-Identifier: BSD-3-Clause */

/* Split the arguments of leat_init(); eal_args.h shows how. */

#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>

#include "eal_args.h"
#include "fabric_pvt.h"

/* EAL's memory without hugepages, MB. EAL's default is 64. Untouched pages cost nothing. */
#define NO_HUGE_MB "512"

#define VDEV "--vdev"
#define FABRIC "fabric_"

static bool
is_opt(const char *arg, const char *name)
{
	size_t len = strlen(name);

	return strncmp(arg, name, len) == 0 && (arg[len] == '\0' || arg[len] == '=');
}

static void
note_eal_arg(struct eal_args *s, const char *arg)
{
	static const char *const memory[] = {
		"--no-huge",	"--huge-dir",	  "--huge-unlink",	    "--socket-mem",
		"--legacy-mem", "--socket-limit", "--single-file-segments", "--match-allocations",
	};
	size_t i;

	for (i = 0; i < RTE_DIM(memory); i++) {
		if (is_opt(arg, memory[i]))
			s->memory_given = true;
	}
	if (strncmp(arg, "-m", 2) == 0)
		s->memory_given = true;
	if (is_opt(arg, "--no-huge") || is_opt(arg, "--legacy-mem"))
		s->no_huge = true;
	if (is_opt(arg, "--in-memory") || is_opt(arg, "--no-shconf"))
		s->in_memory_given = true;
	if (is_opt(arg, "--proc-type") || is_opt(arg, "--file-prefix") ||
	    is_opt(arg, "--base-virtaddr"))
		s->multiproc_given = true;
	if (strncmp(arg, "-a", 2) == 0 || is_opt(arg, "--allow") || strncmp(arg, "-b", 2) == 0 ||
	    is_opt(arg, "--block") || is_opt(arg, "--no-pci"))
		s->pci_given = true;
}

/* Return the device argument at argv[i], or NULL. *used: how many entries of argv it takes. */
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

/*
 * Return the value of an option at argv[i], after "=" or in the next entry. *used: how many
 * entries of argv it takes; 0: argv[i] is a different option. NULL with *used > 0: the value is
 * missing.
 */
static const char *
opt_value(const char *name, char **argv, int i, int end, int *used)
{
	size_t len = strlen(name);
	const char *value = NULL;

	*used = 0;
	if (!is_opt(argv[i], name))
		return NULL;
	*used = 1;
	if (argv[i][len] == '=') {
		value = &argv[i][len + 1];
	} else if (i + 1 < end) {
		value = argv[i + 1];
		*used = 2;
	}
	return value == NULL || value[0] == '\0' ? NULL : value;
}

/*
 * Parse an option of lib/tune at argv[i].
 * @return number of entries of argv that it takes; 0: not an option of lib/tune; -EINVAL
 */
static int
tune_args(struct eal_args *s, char **argv, int i, int end)
{
	const struct {
		const char *name;
		const char **value;
		const char *what;
	} opts[] = {
		{ "--tune-dir", &s->tune_dir, "directory" },
		{ "--settings", &s->settings, "file" },
	};
	size_t k;
	int used;

	if (strcmp(argv[i], "--no-tune") == 0) {
		s->no_tune = true;
		return 1;
	}
	for (k = 0; k < RTE_DIM(opts); k++) {
		const char *value = opt_value(opts[k].name, argv, i, end, &used);

		if (used == 0)
			continue;
		if (value == NULL)
			return leat_err(EINVAL, "leat_init: %s needs the name of a %s",
					opts[k].name, opts[k].what);
		*opts[k].value = value;
		return used;
	}
	return 0;
}

/*
 * Return how many entries from argv[i] on name a driver plugin of leat, which is loaded already and
 * not passed to EAL: 2 for "-d", "PLUGIN"; 1 for "-dPLUGIN"; 0 if argv[i] names none.
 */
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

int
eal_args_split(struct eal_args *s, int argc, char **argv, int end)
{
	static char no_huge[] = "--no-huge", in_memory[] = "--in-memory",
		    no_shconf[] = "--no-shconf", no_pci[] = "--no-pci";
	static char mem_opt[] = "-m", mem_val[] = NO_HUGE_MB;
	const char *spec;
	int i, used;

	memset(s, 0, sizeof(*s));
	/* Room for the options added below, at most 5 entries, and for the NULL at the end. */
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
		if (used == 0)
			used = tune_args(s, argv, i, end);
		if (used < 0)
			return used;
		if (used > 0) {
			i += used - 1;
			continue;
		}
		note_eal_arg(s, argv[i]);
		s->eal_argv[s->eal_argc++] = argv[i];
	}
	if (!s->memory_given && !have_hugepages()) {
		LEAT_LOG(NOTICE, fabric,
			 "no free hugepages: starting with --no-huge -m " NO_HUGE_MB
			 " (to reserve some: echo 512 > /proc/sys/vm/nr_hugepages)");
		s->eal_argv[s->eal_argc++] = no_huge;
		s->eal_argv[s->eal_argc++] = mem_opt;
		s->eal_argv[s->eal_argc++] = mem_val;
		s->no_huge = true;
	}
	/*
	 * EAL refuses --in-memory together with --no-huge. --no-shconf is the part of --in-memory
	 * that matters without hugepages.
	 */
	if (!s->multiproc_given && !s->in_memory_given)
		s->eal_argv[s->eal_argc++] = s->no_huge ? no_shconf : in_memory;
	if (!s->pci_given)
		s->eal_argv[s->eal_argc++] = no_pci;
	return 0;
}

void
eal_args_free(struct eal_args *s)
{
	free(s->eal_argv);
	free(s->specs);
}
