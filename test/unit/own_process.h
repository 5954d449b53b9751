/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef OWN_PROCESS_H
#define OWN_PROCESS_H

/* The descriptors and mappings of this process, for tests that look for leaks. */

#include <dirent.h>
#include <stdio.h>

#include "leat_cmocka.h"

/* @return the number of open descriptors, including the one that this function opens */
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
