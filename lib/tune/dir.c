/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The directory in which agents find processes. It must belong to the user: a directory of another
 * user, a directory to which others have access, and a symbolic link are refused.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tune_pvt.h"

/* Maximum number of directory entries that one sweep checks. */
#define SWEEP_MAX 4096

static bool
own_directory(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       (st.st_mode & 022) == 0;
}

static bool
is_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static void
default_path(char *path, size_t len)
{
	unsigned int uid = (unsigned int)geteuid();
	char run[48];

	snprintf(run, sizeof(run), "/run/user/%u", uid);
	if (own_directory(run))
		snprintf(path, len, "%s/leat", run);
	else if (is_directory("/dev/shm"))
		snprintf(path, len, "/dev/shm/leat-%u", uid);
	else
		snprintf(path, len, "/tmp/leat-%u", uid);
}

static int
check(int fd, const char *path)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return leat_err(errno, "tune directory %s: %s", path, strerror(errno));
	if (st.st_uid != geteuid())
		return leat_err(EACCES, "tune directory %s: it belongs to user %u; see --tune-dir",
				path, (unsigned int)st.st_uid);
	if ((st.st_mode & 077) != 0)
		return leat_err(EACCES,
				"tune directory %s: others may use it (mode %03o): chmod 700, or "
				"another one with --tune-dir",
				path, (unsigned int)st.st_mode & 0777);
	return 0;
}

int
tune_dir_open(const char *dir, char *path, size_t len)
{
	int fd, ret;

	if (dir != NULL)
		snprintf(path, len, "%s", dir);
	else
		default_path(path, len);
	if (path[0] == '\0' || strlen(path) + 1 >= len)
		return leat_err(ENAMETOOLONG, "tune directory: its name is empty, or too long");
	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		return leat_err(errno, "tune directory %s: mkdir: %s", path, strerror(errno));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return leat_err(errno, "tune directory %s: %s", path,
				errno == ENOTDIR || errno == ELOOP
					? "not a directory, or a symbolic link"
					: strerror(errno));
	ret = check(fd, path);
	if (ret < 0) {
		(void)close(fd);
		return ret;
	}
	return fd;
}

/* Tell whether the process that created the block lives: then the block is locked. */
static bool
is_locked(int dirfd, const char *name)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = openat(dirfd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	bool locked = true;

	if (fd < 0)
		return errno != ENOENT;
	if (fcntl(fd, F_OFD_GETLK, &lock) == 0)
		locked = lock.l_type != F_UNLCK;
	(void)close(fd);
	return locked;
}

/* Tell whether name is PID-INSTANCE ("1234-89ab...") followed by end; *len: length without end. */
static bool
is_ours(const char *name, const char *end, size_t *len)
{
	size_t n = strspn(name, "0123456789"), hex;

	if (n == 0 || name[n] != '-')
		return false;
	hex = strspn(name + n + 1, "0123456789abcdef");
	*len = n + 1 + hex;
	return hex == 16 && strcmp(name + *len, end) == 0;
}

static void
sweep_one(int dirfd, const char *name)
{
	char block[NAME_MAX + 8];
	size_t len;

	if (is_ours(name, ".block", &len)) {
		if (is_locked(dirfd, name))
			return;
	} else if (is_ours(name, ".sock", &len)) {
		/* The block is created before the socket, and removed after it. */
		snprintf(block, sizeof(block), "%.*s.block", (int)len, name);
		if (faccessat(dirfd, block, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return;
	} else {
		return;
	}
	(void)unlinkat(dirfd, name, 0);
}

void
tune_dir_sweep(int dirfd)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	int i;

	if (d == NULL) {
		if (fd >= 0)
			(void)close(fd);
		return;
	}
	for (i = 0; i < SWEEP_MAX && (e = readdir(d)) != NULL; i++)
		sweep_one(dirfd, e->d_name);
	(void)closedir(d);
}
