/* SPDX-License-Identifier: BSD-3-Clause */

/* Count open descriptors, mappings and names: see steps_left.h. */

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../lives/traffic.h" /* CHECK */
#include "steps_left.h"

static int
nb_entries(const char *path)
{
	DIR *dir = opendir(path);
	const struct dirent *e;
	int n = 0;

	CHECK(dir != NULL, "%s: %s", path, strerror(errno));
	/* cppcheck-suppress readdirCalled ; no other function has this directory open */
	while ((e = readdir(dir)) != NULL)
		n += e->d_name[0] != '.';
	(void)closedir(dir);
	return n;
}

static int
nb_shared(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	int n = 0;

	CHECK(maps != NULL, "/proc/self/maps: %s", strerror(errno));
	while (fgets(line, sizeof(line), maps) != NULL)
		n += strstr(line, "/memfd:") != NULL;
	(void)fclose(maps);
	return n;
}

struct steps_left
steps_left_count(const char *directory)
{
	return (struct steps_left){
		.fds = nb_entries("/proc/self/fd"),
		.shared = nb_shared(),
		.names = directory != NULL ? nb_entries(directory) : 0,
	};
}

void
steps_left_compare(const struct steps_left *before, const char *directory)
{
	const struct steps_left now = steps_left_count(directory);

	CHECK(now.fds == before->fds, "%d descriptors, %d before", now.fds, before->fds);
	CHECK(now.shared == before->shared, "%d pieces of shared memory, %d before", now.shared,
	      before->shared);
	CHECK(now.names == before->names, "%d names, %d before", now.names, before->names);
}
