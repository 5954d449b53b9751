/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Liveness as the kernel knows it: a participant holds a lock on its slot's byte of the block's
 * file.
 *
 *     open     a file description that nothing else in the system has
 *     mmap     a page of the file, without any access; a fork does not copy this mapping
 *     fcntl    an open file description lock on the byte, which lasts as long as the description
 *              does
 *     close    now only the mapping keeps the description, and with it the lock
 *
 * So the lock ends with the memory of the process: when its last thread ends, however it ends, and
 * when it calls exec. A child does not inherit it, as it would inherit a descriptor. It survives
 * when the program closes another descriptor of the file, unlike a record lock of the process. Any
 * descriptor of the file is enough to query the lock, without /proc: the answer is the same in each
 * pid, time, user or mount namespace.
 */

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lock.h"

/* From open to close there is a descriptor, which no fork may copy: fork_mutex excludes forks. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t fork_mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint nb_forks;

static void
before_fork(void)
{
	(void)pthread_mutex_lock(&fork_mutex);
}

static void
after_fork(void)
{
	(void)pthread_mutex_unlock(&fork_mutex);
}

static void
in_child(void)
{
	atomic_fetch_add_explicit(&nb_forks, 1, memory_order_relaxed);
	after_fork();
}

static void
init(void)
{
	/*
	 * If this fails (ENOMEM), a fork between open and close may copy the descriptor, which
	 * delays recovery until the child ends.
	 */
	(void)pthread_atfork(before_fork, after_fork, in_child);
}

void
chan_process_self(struct chan_process *p)
{
	(void)pthread_once(&once, init);
	p->pid = getpid();
	p->nb_forks = atomic_load_explicit(&nb_forks, memory_order_relaxed);
}

bool
chan_process_is_self(const struct chan_process *p)
{
	return p->pid == getpid() &&
	       p->nb_forks == atomic_load_explicit(&nb_forks, memory_order_relaxed);
}

/*
 * Signals are blocked since a handler may fork. Cancellation is disabled since a cancelled thread
 * would keep the mutex.
 */
static void
forbid_fork(sigset_t *saved, int *cancel)
{
	sigset_t all;

	(void)sigfillset(&all);
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, cancel);
	(void)pthread_sigmask(SIG_BLOCK, &all, saved);
	before_fork();
}

static void
allow_fork(const sigset_t *saved, int cancel)
{
	after_fork();
	(void)pthread_sigmask(SIG_SETMASK, saved, NULL);
	(void)pthread_setcancelstate(cancel, NULL);
}

static bool
is_same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

static int
open_path(const char *path, bool shm)
{
	int fd;

	do
		fd = shm ? shm_open(path, O_RDWR | O_CLOEXEC, 0) : open(path, O_RDWR | O_CLOEXEC);
	while (fd < 0 && errno == EINTR);
	return fd;
}

/*
 * Open the map's file again, for a file description of its own: through /proc, or without /proc by
 * its name, if the name still belongs to the same file.
 */
static int
open_private(const struct chan_map *map)
{
	char path[64];
	int fd, err;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", map->fd);
	fd = open_path(path, false);
	err = errno;
	if (fd < 0 && map->name != NULL)
		fd = open_path(map->name, true);
	if (fd < 0)
		return -err;
	if (is_same_file(fd, map->fd))
		return fd;
	close(fd);
	return -ESTALE;
}

static off_t
byte_of(uint32_t slot)
{
	return (off_t)(offsetof(struct chan_block, slots) + slot * sizeof(struct chan_slot));
}

static int
set_lock(int fd, uint32_t slot, short type)
{
	struct flock l = {
		.l_type = type, .l_whence = SEEK_SET, .l_start = byte_of(slot), .l_len = 1
	};

	return fcntl(fd, F_OFD_SETLK, &l) == 0 ? 0 : errno == EACCES ? -EAGAIN : -errno;
}

/*
 * Take a free slot, under its lock. The slot's word `owner` tells other participants how to find
 * out whether the owner lives, so it is stored while the lock is held. @return 1: taken; 0: no slot
 * is free; -EAGAIN: a slot is free, but its lock is still held; another -errno: locks don't work
 */
static int
take(struct leat_channel *ch, int fd)
{
	bool busy = false;
	uint32_t i;
	int ret;

	for (i = 0; i < ch->participants; i++) {
		if (atomic_load_explicit(&ch->block->slots[i].owner, memory_order_relaxed) != 0)
			continue;
		ret = set_lock(fd, i, F_WRLCK);
		if (ret == -EAGAIN) {
			busy = true;
			continue;
		}
		if (ret < 0)
			return ret;
		if (chan_slot_claim(ch, i, chan_owner_locked(ch, i)))
			return 1;
		(void)set_lock(fd, i, F_UNLCK);
	}
	return busy ? -EAGAIN : 0;
}

int
chan_lock_take(struct leat_channel *ch)
{
	int fd, cancel, ret;
	sigset_t saved;
	void *page;

	if (ch->map->fd < 0)
		return -EBADF;
	forbid_fork(&saved, &cancel);
	fd = open_private(ch->map);
	if (fd < 0) {
		allow_fork(&saved, cancel);
		return fd;
	}
	page = mmap(NULL, CHAN_LOCK_BYTES, PROT_NONE, MAP_PRIVATE, fd, 0);
	if (page == MAP_FAILED) {
		ret = -errno;
	} else {
		ret = madvise(page, CHAN_LOCK_BYTES, MADV_DONTFORK) == 0 ? take(ch, fd) : -errno;
		if (ret == 1)
			ch->lock = page;
		else
			munmap(page, CHAN_LOCK_BYTES);
	}
	close(fd);
	allow_fork(&saved, cancel);
	return ret;
}

void
chan_lock_drop(struct leat_channel *ch)
{
	if (ch->lock != NULL)
		munmap(ch->lock, CHAN_LOCK_BYTES);
	ch->lock = NULL;
}

int
chan_lock_is_held(const struct leat_channel *ch, uint32_t slot)
{
	/*
	 * A process that may read the file but not write it can hold a read lock; owners of slots
	 * hold write locks. So ask for a read lock, which only a write lock refuses.
	 */
	struct flock l = {
		.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = byte_of(slot), .l_len = 1
	};

	if (ch->map == NULL || ch->map->fd < 0)
		return -EBADF;
	if (fcntl(ch->map->fd, F_OFD_GETLK, &l) != 0)
		return -errno;
	return l.l_type != F_UNLCK;
}
