/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef OWN_PROCESS_H
#define OWN_PROCESS_H

/* What this process has open and mapped, for tests that look for leaks. */

#include <dirent.h>
#include <stdio.h>

#include "leat_cmocka.h"

/* Open descriptors, with the one of this look. */
static inline unsigned int
own_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	assert_non_null(dir);
	/* cppcheck-suppress readdirCalled ; no other function has this directory open */
	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n;
}

static inline unsigned int
own_mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned int n = 0;
	int c;

	assert_non_null(f);
	while ((c = fgetc(f)) != EOF)
		n += c == '\n';
	assert_int_equal(fclose(f), 0);
	return n;
}

#endif /* OWN_PROCESS_H */
