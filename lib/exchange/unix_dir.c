/* SPDX-License-Identifier: BSD-3-Clause */

/* The directory of UNIX sockets: names are created, taken over from dead listeners, and removed. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exchange_names.h"
#include "leat_error.h"
#include "leat_log.h"
#include "leat_time.h"

#define BACKLOG 1024
/* Attempts to lock the directory, and pause between two. A process holds the lock under 1 ms. */
#define LOCK_TRIES 1000
#define LOCK_PAUSE_NS 1000000
#define PORT_FIRST 49152
#define PORT_LAST 65535
/* Directory entries that one step of a sweep checks, and the pause between two steps. */
#define SWEEP_ENTRIES 256
#define SWEEP_US 50000

/* ---- owner and mode of the directory -------------------------------------------------------- */

static int
owner_check(const char *dir, const struct stat *st, bool any_user, bool listens)
{
	bool open_to_others = (st->st_mode & (S_IWGRP | S_IWOTH)) != 0;
	uid_t uid = geteuid();

	if (!any_user && st->st_uid != uid)
		return leat_err(EACCES,
				"directory %s belongs to uid %u, not to this process's %u; choose "
				"another, or one that is not there yet",
				dir, st->st_uid, uid);
	if (!any_user && open_to_others)
		return leat_err(EACCES,
				"directory %s can be written by other users; chmod 700 it, or "
				"choose one that is not there yet",
				dir);
	if (!listens)
		return 0;
	if (st->st_uid != uid && st->st_uid != 0)
		return leat_err(EACCES,
				"directory %s belongs to uid %u, who could take this listener's "
				"name away; choose one of this user's or root's",
				dir, st->st_uid);
	if (open_to_others && (st->st_mode & S_ISVTX) == 0)
		return leat_err(EACCES,
				"in directory %s other users could take this listener's name away; "
				"chmod +t it",
				dir);
	return 0;
}

static int
dir_open(const char *dir, bool any_user, bool listens)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	int ret;

	if (fd < 0)
		return leat_err(errno, "directory %s of UNIX sockets: %s", dir, strerror(errno));
	if (fstat(fd, &st) == 0)
		ret = owner_check(dir, &st, any_user, listens);
	else
		ret = leat_err(errno, "directory %s: stat: %s", dir, strerror(errno));
	if (ret == 0)
		return fd;
	(void)close(fd);
	return ret;
}

/* Get the length of dir without trailing slashes: with one, open() would follow a symbolic link. */
static size_t
dir_len(const char *dir)
{
	size_t len = strlen(dir);

	while (len > 1 && dir[len - 1] == '/')
		len--;
	return len;
}

void
exchange_names_init(struct exchange_names *names, const struct leat_exchange_conf *conf)
{
	snprintf(names->dir, sizeof(names->dir), "%.*s", (int)dir_len(conf->dir), conf->dir);
	names->any_user = conf->any_user;
}

int
exchange_dir_check(const struct leat_exchange_conf *conf)
{
	struct exchange_names names;
	int fd;

	if (conf->dir[0] != '/' && (conf->dir[0] != '@' || conf->dir[1] == '\0'))
		return leat_err(EINVAL,
				"address exchange: directory '%.80s' of UNIX sockets must begin "
				"with / (or be @PREFIX, for abstract names)",
				conf->dir);
	if (dir_len(conf->dir) >= EXCHANGE_DIR_MAX)
		return leat_err(ENAMETOOLONG,
				"address exchange: directory '%.80s...' of UNIX sockets has more "
				"than %zu characters",
				conf->dir, EXCHANGE_DIR_MAX - 1);
	if (conf->dir[0] == '@')
		return 0;
	exchange_names_init(&names, conf);
	if (mkdir(names.dir, S_IRWXU) != 0 && errno != EEXIST)
		return leat_err(errno, "directory %s of UNIX sockets can't be made: %s", names.dir,
				strerror(errno));
	fd = dir_open(names.dir, names.any_user, false);
	if (fd < 0)
		return fd;
	(void)close(fd);
	return 0;
}

/* Open and lock the directory; closing the descriptor unlocks it. */
static int
dir_lock(const struct leat_exchange *x, bool listens, unsigned int tries)
{
	const struct timespec pause = { .tv_nsec = LOCK_PAUSE_NS };
	int fd = dir_open(x->names.dir, x->names.any_user, listens);

	if (fd < 0)
		return fd;
	while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		if ((errno != EWOULDBLOCK && errno != EINTR) || --tries == 0) {
			(void)close(fd);
			return leat_err(EBUSY,
					"%s: directory %s of UNIX sockets is locked by another "
					"process all the time; is one stopped there?",
					x->name, x->names.dir);
		}
		/* A signal may shorten the pause; that does not matter. */
		(void)ppoll(NULL, 0, &pause, NULL);
	}
	return fd;
}

/* ---- names of dead listeners ---------------------------------------------------------------- */

/* Remove a name to which no socket is bound any more. The directory is locked. */
static bool
remove_if_dead(const struct leat_exchange *x, int dirfd, int probe, const char *name)
{
	struct sockaddr_un sun;
	struct stat st;
	int len = exchange_unix_sockaddr(x, name, &sun);

	if (len < 0 || fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISSOCK(st.st_mode))
		return false;
	if (connect(probe, (struct sockaddr *)&sun, (socklen_t)len) == 0 || errno != ECONNREFUSED)
		return false;
	return unlinkat(dirfd, name, 0) == 0;
}

static int
probe_open(void)
{
	return socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static bool
is_name(const char *entry)
{
	return strncmp(entry, "name-", 5) == 0 || strncmp(entry, "port-", 5) == 0;
}

/* Check the next entries. @return true: the end of the directory is reached. */
static bool
sweep_entries(struct leat_exchange *x, int dirfd, int probe)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	unsigned int seen = 0, removed = 0;
	const struct dirent *entry;

	if (dir == NULL) {
		if (fd >= 0)
			(void)close(fd);
		return true;
	}
	/* cppcheck-suppress readdirCalled ; no other function has this directory open */
	while ((entry = readdir(dir)) != NULL && seen < x->names.swept + SWEEP_ENTRIES) {
		if (seen++ < x->names.swept || !is_name(entry->d_name))
			continue;
		if (remove_if_dead(x, dirfd, probe, entry->d_name)) {
			LEAT_LOG(DEBUG, exchange, "%s: removed %s/%s of a dead listener", x->name,
				 x->names.dir, entry->d_name);
			removed++;
		}
	}
	(void)closedir(dir);
	/* The entries that follow the removed ones now have lower positions. */
	x->names.swept = seen - removed;
	return entry == NULL;
}

static void
sweep_in(struct leat_exchange *x)
{
	x->names.sweep_due = true;
	leat_wheel_add(&x->wheel, &x->names.sweep_timer, x->now + leat_us_to_cycles(SWEEP_US));
}

static void
sweep_locked(struct leat_exchange *x, int dirfd)
{
	int probe = probe_open();
	bool end;

	if (probe < 0)
		return;
	end = sweep_entries(x, dirfd, probe);
	(void)close(probe);
	if (end)
		x->names.swept = 0;
	else
		sweep_in(x);
}

void
exchange_names_sweep(struct leat_exchange *x)
{
	int fd = dir_open(x->names.dir, x->names.any_user, false);

	x->names.sweep_due = false;
	if (fd < 0)
		return;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		sweep_locked(x, fd);
	else
		sweep_in(x);
	(void)close(fd);
}

void
exchange_names_peer_died(struct leat_exchange *x)
{
	if (!exchange_names_abstract(&x->names) && !x->names.sweep_due)
		sweep_in(x);
}

/* ---- the listener's own name ---------------------------------------------------------------- */

/*
 * Bind fd to a name; a dead listener's name is taken over. dirfd is -1 for abstract names.
 * @return 0, or a positive errno
 */
static int
bind_name(const struct leat_exchange *x, int dirfd, int fd, const char *name)
{
	struct sockaddr_un sun;
	int len = exchange_unix_sockaddr(x, name, &sun), probe, err;
	bool removed;

	if (len < 0)
		return -len;
	if (bind(fd, (struct sockaddr *)&sun, (socklen_t)len) == 0)
		return 0;
	err = errno;
	if (err != EADDRINUSE || dirfd < 0)
		return err;
	probe = probe_open();
	if (probe < 0)
		return errno;
	removed = remove_if_dead(x, dirfd, probe, name);
	(void)close(probe);
	if (!removed)
		return EADDRINUSE;
	return bind(fd, (struct sockaddr *)&sun, (socklen_t)len) == 0 ? 0 : errno;
}

static int
bind_free_port(const struct leat_exchange *x, int dirfd, int fd, char name[EXCHANGE_NAME_MAX])
{
	const unsigned int nb = PORT_LAST - PORT_FIRST + 1, first = (unsigned int)(x->random % nb);
	int err = EADDRINUSE;
	unsigned int i;

	/* Start at a random port, so that a port just released is not reused at once. */
	for (i = 0; i < nb && err == EADDRINUSE; i++) {
		exchange_unix_port(name, PORT_FIRST + (first + i) % nb);
		err = bind_name(x, dirfd, fd, name);
	}
	return err;
}

/* Set the rights of the bound name, remember it, and listen. @return 0, or a positive errno. */
static int
own_name(struct leat_exchange *x, int dirfd, int fd, const char *name)
{
	struct stat st;

	if (dirfd >= 0) {
		if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
			return errno;
		x->names.listen_dev = st.st_dev;
		x->names.listen_ino = st.st_ino;
		/* Connecting needs the right to write to the name. */
		if (x->names.any_user && fchmodat(dirfd, name, 0666, AT_SYMLINK_NOFOLLOW) != 0)
			return errno;
	}
	return listen(fd, BACKLOG) == 0 ? 0 : errno;
}

static const char *
listen_hint(int err)
{
	switch (err) {
	case EADDRINUSE:
		return "another process listens there; choose another name, or port 0 for a free "
		       "one";
	case EACCES:
	case EPERM:
	case EROFS:
		return "this process must be able to write to the directory";
	case EMFILE:
	case ENFILE:
		return "raise the limit of open files (ulimit -n)";
	default:
		return "check the directory";
	}
}

int
exchange_names_listen(struct leat_exchange *x, int fd, struct exchange_unix_addr *un,
		      const char *addr)
{
	struct exchange_names *names = &x->names;
	int dirfd = -1, err;

	if (!exchange_names_abstract(names)) {
		dirfd = dir_lock(x, true, LOCK_TRIES);
		if (dirfd < 0)
			return dirfd;
		if (!names->sweep_due)
			sweep_locked(x, dirfd);
	}
	err = un->name[0] == '\0' ? bind_free_port(x, dirfd, fd, un->name)
				  : bind_name(x, dirfd, fd, un->name);
	if (err == 0) {
		memcpy(names->listen_name, un->name, sizeof(names->listen_name));
		err = own_name(x, dirfd, fd, un->name);
		if (err != 0 && dirfd >= 0)
			(void)unlinkat(dirfd, un->name, 0);
	}
	if (dirfd >= 0)
		(void)close(dirfd);
	if (err == ENAMETOOLONG)
		return -err;
	if (err != 0)
		return leat_err(err, "%s: listen %s: %s: %s", x->name, addr, strerror(err),
				listen_hint(err));
	return 0;
}

void
exchange_names_unlisten(struct leat_exchange *x)
{
	const struct exchange_names *names = &x->names;
	struct stat st;
	int dirfd;

	if (exchange_names_abstract(names))
		return;
	dirfd = dir_lock(x, true, LOCK_TRIES);
	if (dirfd < 0)
		return;
	/* Remove only this listener's file: another process may have created the name anew. */
	if (fstatat(dirfd, names->listen_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    st.st_dev == names->listen_dev && st.st_ino == names->listen_ino)
		(void)unlinkat(dirfd, names->listen_name, 0);
	(void)close(dirfd);
}
