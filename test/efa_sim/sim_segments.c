/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Remove the files of killed hosts from /dev/shm. For each of its endpoints the efa provider of
 * libfabric 1.17 also opens an endpoint of the shm provider, which creates a file of some MiB
 * called
 *
 *     GID of the endpoint, as inet_ntop() writes it | _ | QP | _ | qkey | _ | user
 *
 * A killed host can't remove it, and no other program does. The GID contains the host's pid: each
 * new host removes the files of hosts that have ended.
 */

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "sim_host.h"

#define DIRECTORY "/dev/shm"

/* Return the pid of the emulator's host that made a file; 0: no host made it. */
static pid_t
host_of(const char *name)
{
	static const uint8_t zeros[4];
	const char *end = strchr(name, '_');
	char text[INET6_ADDRSTRLEN];
	uint8_t gid[16];
	uint32_t pid;

	if (end == NULL || (size_t)(end - name) >= sizeof(text))
		return 0;
	memcpy(text, name, (size_t)(end - name));
	text[end - name] = '\0';
	if (inet_pton(AF_INET6, text, gid) != 1)
		return 0;
	/* The fixed bytes as fill_gid() sets them, and the last byte as sim_host_gid() does. */
	if (gid[0] != 0xfe || gid[1] != 0x80 || memcmp(gid + 12, zeros, 3) != 0 ||
	    gid[15] >= SIM_DEVICES)
		return 0;
	memcpy(&pid, gid + 8, sizeof(pid));
	return pid <= INT32_MAX ? (pid_t)pid : 0;
}

void
sim_segments_sweep(void)
{
	DIR *dir = opendir(DIRECTORY);
	const struct dirent *entry;

	if (dir == NULL)
		return;
	/* cppcheck-suppress readdirCalled ; no other function has this directory open */
	while ((entry = readdir(dir)) != NULL) {
		pid_t pid = host_of(entry->d_name);

		/* Another user's file stays: EACCES. */
		if (pid > 0 && kill(pid, 0) != 0 && errno == ESRCH)
			(void)unlinkat(dirfd(dir), entry->d_name, 0);
	}
	closedir(dir);
}
