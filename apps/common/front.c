/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <string.h>

#include "front.h"

const char *const front_options[] = { "--version", "--list-drivers", "--list-devices", "--json",
				      NULL };

static bool
is_front(const char *arg)
{
	const char *const *f;

	for (f = front_options; *f != NULL; f++) {
		if (strcmp(arg, *f) == 0)
			return true;
	}
	return strcmp(arg, "--help") == 0;
}

int
front_check(const char *name, int argc, char **argv, bool (*known)(const char *arg),
	    void (*msg)(const char *fmt, ...), int *end)
{
	bool json = false, list = false;
	int i;

	for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		const char *arg = argv[i];

		json = json || strcmp(arg, "--json") == 0;
		list = list || strncmp(arg, "--list-", 7) == 0;
		if (strncmp(arg, "--", 2) != 0 || is_front(arg) || !known(arg))
			continue;
		msg("'%s' goes after '--': %s EAL... -- %s ...", arg, name, arg);
		return -EINVAL;
	}
	*end = i;
	if (!json || list)
		return 0;
	msg("'--json' goes after '--', or with --list-drivers");
	return -EINVAL;
}
