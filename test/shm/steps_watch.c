/* SPDX-License-Identifier: BSD-3-Clause */

/* Find steps that others can see: see steps_watch.h. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>

#include "../lives/traffic.h" /* CHECK */
#include "steps_watch.h"

#define REGIONS 64
#define SYSCALL 0x050f /* the instruction */

static struct {
	const uint8_t *mem;
	uint8_t *copy;
	size_t len, room;
	uint64_t inode;
} regions[REGIONS];
static unsigned int nb;

/* Is the memory with this inode already in the list? Both endpoints of this process may map it. */
static bool
is_there(uint64_t inode)
{
	unsigned int i;

	for (i = 0; i < nb; i++) {
		if (regions[i].inode == inode)
			return true;
	}
	return false;
}

static void
add(uintptr_t begin, uintptr_t end, uint64_t inode)
{
	CHECK(nb < REGIONS, "too many pieces of shared memory");
	regions[nb].mem = (const uint8_t *)begin;
	regions[nb].len = end - begin;
	regions[nb].inode = inode;
	if (regions[nb].room < regions[nb].len) {
		free(regions[nb].copy);
		regions[nb].room = regions[nb].len;
		regions[nb].copy = malloc(regions[nb].room);
		CHECK(regions[nb].copy != NULL, "out of memory");
	}
	memcpy(regions[nb].copy, regions[nb].mem, regions[nb].len);
	nb++;
}

void
steps_watch_renew(const void *mem, size_t len)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uintptr_t begin, end;
	uint64_t inode;
	char line[512];

	CHECK(maps != NULL, "/proc/self/maps: %s", strerror(errno));
	nb = 0;
	while (fgets(line, sizeof(line), maps) != NULL) {
		if (strstr(line, "memfd:leat") == NULL ||
		    sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*s %*s %*s %" SCNu64, &begin, &end,
			   &inode) != 3)
			continue;
		if (!is_there(inode))
			add(begin, end, inode);
	}
	(void)fclose(maps);
	add((uintptr_t)mem, (uintptr_t)mem + len, 0);
}

bool
steps_watch_changed(void)
{
	bool changed = false;
	unsigned int i;

	for (i = 0; i < nb; i++) {
		if (memcmp(regions[i].copy, regions[i].mem, regions[i].len) == 0)
			continue;
		memcpy(regions[i].copy, regions[i].mem, regions[i].len);
		changed = true;
	}
	return changed;
}

void
steps_watch_end(void)
{
	unsigned int i;

	for (i = 0; i < REGIONS; i++)
		free(regions[i].copy);
	memset(regions, 0, sizeof(regions));
	nb = 0;
}

bool
steps_watch_call(pid_t pid, uint64_t at)
{
	long word;

	errno = 0;
	word = ptrace(PTRACE_PEEKTEXT, pid, at, NULL);
	/* A word that can't be read crosses the end of a mapping: no system call is there. */
	return errno == 0 && (word & 0xffff) == SYSCALL;
}
