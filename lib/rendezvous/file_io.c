/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Files in a directory to which other machines write, and perhaps other users: the owner, the
 * permissions and the length of a file are checked before it is read.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "file_pvt.h"

#define TMP_SUFFIX ".tmp"

uint64_t
file_random(void)
{
	uint64_t n = 0;

	/* The number need not be secret, only different in each process. */
	if (getrandom(&n, sizeof(n), GRND_NONBLOCK) != (ssize_t)sizeof(n))
		n = rendezvous_now() * UINT64_C(2685821657736338717) ^ (uint64_t)time(NULL) << 20 ^
		    (uint64_t)getpid() << 40;
	return n != 0 ? n : 1;
}

/* Fail with -EPERM unless the user owns a file, and only the user can write to it. */
static int
check_owner(const char *dir, const char *name, const struct stat *st)
{
	if (st->st_uid != geteuid())
		return leat_err(EPERM, "rendezvous (file): %s%s belongs to user %u, not to %u", dir,
				name, st->st_uid, geteuid());
	if ((st->st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return leat_err(EPERM,
				"rendezvous (file): %s%s can be written by others: chmod go-w", dir,
				name);
	return 0;
}

int
file_dir_open(const char *path)
{
	size_t len = strlen(path);
	struct stat st;
	char *own;
	int fd, ret;

	/* A slash at the end would make open(2) follow a symbolic link. */
	while (len > 1 && path[len - 1] == '/')
		len--;
	own = strndup(path, len);
	if (own == NULL)
		return leat_err(ENOMEM, "rendezvous (file): no memory");
	ret = mkdir(own, 0700) != 0 && errno != EEXIST ? errno : 0;
	fd = ret == 0 ? open(own, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	if (ret == 0 && fd < 0)
		ret = errno;
	free(own);
	if (ret != 0) {
		/* O_NOFOLLOW with O_DIRECTORY fails with ENOTDIR for a symbolic link. */
		if (ret == ELOOP || ret == ENOTDIR)
			return leat_err(EPERM,
					"rendezvous (file): %s is no directory, or a symbolic "
					"link to one",
					path);
		return leat_err(ret, "rendezvous (file): %s can't be made or opened: %s", path,
				strerror(ret));
	}
	if (fstat(fd, &st) != 0)
		ret = leat_err(errno, "rendezvous (file): %s: %s", path, strerror(errno));
	else
		ret = check_owner(path, "", &st);
	if (ret < 0) {
		(void)close(fd);
		return ret;
	}
	return fd;
}

/* Read until the end of the file, or until buf is full. */
static ssize_t
read_all(int fd, uint8_t *buf, size_t room)
{
	size_t len = 0;
	ssize_t n;

	while (len < room) {
		n = read(fd, buf + len, room - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	return (ssize_t)len;
}

static int
read_checked(const struct leat_rendezvous *rv, int fd, const char *name, uint8_t *buf, size_t room)
{
	char path[FILE_NAME_MAX + 1];
	struct stat st;
	ssize_t len;
	int ret;

	snprintf(path, sizeof(path), "/%s", name);
	if (fstat(fd, &st) != 0)
		return errno == ESTALE ? -ENOENT
				       : leat_err(errno, "rendezvous (file): %s%s: %s", rv->dir,
						  path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return leat_err(EPERM, "rendezvous (file): %s%s is not a regular file", rv->dir,
				path);
	ret = check_owner(rv->dir, path, &st);
	if (ret < 0)
		return ret;
	if (st.st_size < 0 || (uint64_t)st.st_size > room)
		return leat_err(EPERM,
				"rendezvous (file): %s%s has %lld B, %zu at most are expected",
				rv->dir, path, (long long)st.st_size, room);
	len = read_all(fd, buf, room);
	/* NFS: another process has replaced the file meanwhile. */
	if (len == -ESTALE)
		return -ENOENT;
	if (len < 0)
		return leat_err((int)-len, "rendezvous (file): %s%s can't be read: %s", rv->dir,
				path, strerror((int)-len));
	return (int)len;
}

int
file_read(const struct leat_rendezvous *rv, int dir, const char *name, uint8_t *buf, size_t room)
{
	/* O_NONBLOCK: a FIFO must not block. O_NOCTTY: a terminal must not become the controlling
	 * one. */
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	int ret;

	if (fd < 0) {
		if (errno == ENOENT || errno == ESTALE)
			return -ENOENT;
		if (errno == ELOOP)
			return leat_err(EPERM, "rendezvous (file): %s/%s is a symbolic link",
					rv->dir, name);
		return leat_err(errno, "rendezvous (file): %s/%s can't be opened: %s", rv->dir,
				name, strerror(errno));
	}
	ret = read_checked(rv, fd, name, buf, room);
	(void)close(fd);
	return ret;
}

static int
write_all(int fd, const uint8_t *buf, size_t len)
{
	ssize_t n;

	while (len > 0) {
		n = write(fd, buf, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		buf += n;
		len -= (size_t)n;
	}
	return 0;
}

static void
tmp_name(char *tmp, size_t size, const char *name, uint64_t tag)
{
	snprintf(tmp, size, "%s.%016" PRIx64 TMP_SUFFIX, name, tag);
}

static int
create(int dir, const char *tmp)
{
	return openat(dir, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

int
file_write(const struct leat_rendezvous *rv, int dir, const char *name, uint64_t tag,
	   const uint8_t *buf, size_t len)
{
	char tmp[FILE_TMP_MAX];
	int fd, ret;

	tmp_name(tmp, sizeof(tmp), name, tag);
	fd = create(dir, tmp);
	if (fd < 0)
		return leat_err(errno, "rendezvous (file): %s/%s can't be made: %s", rv->dir, tmp,
				strerror(errno));
	ret = write_all(fd, buf, len);
	/* NFS reports a full disk only here. */
	if (close(fd) != 0 && ret == 0)
		ret = -errno;
	if (ret == 0 && renameat(dir, tmp, dir, name) != 0)
		ret = -errno;
	if (ret == 0)
		return 0;
	(void)unlinkat(dir, tmp, 0);
	return leat_err(-ret, "rendezvous (file): %s/%s can't be written: %s", rv->dir, name,
			strerror(-ret));
}

/* Is name that of a temporary file, JOB.*.tmp? A job's name contains no dot. */
static bool
is_tmp(const struct leat_rendezvous *rv, const char *name)
{
	const size_t job = strlen(rv->job), len = strlen(name), suffix = sizeof(TMP_SUFFIX) - 1;

	return len > job + 1 + suffix && strncmp(name, rv->job, job) == 0 && name[job] == '.' &&
	       strcmp(name + len - suffix, TMP_SUFFIX) == 0;
}

void
file_sweep(const struct leat_rendezvous *rv, int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *e;

	if (d == NULL) {
		if (fd >= 0)
			(void)close(fd);
		return;
	}
	/* A living process whose temporary file is removed here writes it again. */
	/* cppcheck-suppress readdirCalled ; no other function has this directory open */
	while ((e = readdir(d)) != NULL) {
		if (is_tmp(rv, e->d_name))
			(void)unlinkat(dir, e->d_name, 0);
	}
	(void)closedir(d);
}

void
file_refresh(const struct leat_rendezvous *rv, int dir, uint64_t tag)
{
	char name[FILE_NAME_MAX], tmp[FILE_TMP_MAX];
	int fd;

	file_name_rank(rv, rv->rank, name);
	tmp_name(tmp, sizeof(tmp), name, tag);
	fd = create(dir, tmp);
	if (fd < 0)
		return;
	(void)close(fd);
	(void)unlinkat(dir, tmp, 0);
}
