/* SPDX-License-Identifier: BSD-3-Clause */

/* This process as a host: its arena, and the inboxes of its QPs. */

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "sim_host.h"

static struct {
	pthread_mutex_t lock;
	struct sim_arena *arena;
	int fd;
	int fds[SIM_DEVICES][SIM_QPS]; /* descriptors of inboxes plus 1; 0: no inbox */
	uint32_t generation;
} host = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1 };

static pthread_once_t once = PTHREAD_ONCE_INIT;

static int
shared_mutex(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t attr;
	int err = pthread_mutexattr_init(&attr);

	if (err != 0)
		return err;
	err = pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	if (err == 0)
		err = pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	if (err == 0)
		err = pthread_mutex_init(mutex, &attr);
	(void)pthread_mutexattr_destroy(&attr); /* can't fail */
	return err;
}

/* Create a memfd of a size and map it. Return NULL and set errno on failure. */
static void *
shared_memory(const char *name, size_t bytes, int *fd)
{
	void *mem;
	int err;

	*fd = memfd_create(name, MFD_CLOEXEC);
	if (*fd < 0)
		return NULL;
	if (ftruncate(*fd, (off_t)bytes) == 0) {
		mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, *fd, 0);
		if (mem != MAP_FAILED)
			return mem;
	}
	err = errno;
	close(*fd);
	errno = err;
	return NULL;
}

struct sim_arena *
sim_host_arena(void)
{
	return host.arena;
}

void
sim_host_gid(unsigned int device, union ibv_gid *gid)
{
	memcpy(gid->raw, host.arena->gid, sizeof(host.arena->gid));
	gid->raw[15] = (uint8_t)device;
}

static void
fill_gid(uint8_t *gid, int fd)
{
	uint32_t salt = (uint32_t)(sim_now() ^ (sim_now() >> 32) * 2654435761u);
	uint32_t pid = (uint32_t)getpid();

	gid[0] = 0xfe;
	gid[1] = 0x80;
	gid[2] = (uint8_t)(fd >> 8);
	gid[3] = (uint8_t)fd;
	memcpy(gid + 4, &salt, sizeof(salt));
	memcpy(gid + 8, &pid, sizeof(pid));
	memset(gid + 12, 0, 3);
}

static int
start(void)
{
	struct sim_arena *arena = shared_memory("efa-sim", sizeof(*arena), &host.fd);
	int err;

	if (arena == NULL)
		return errno;
	if (host.fd > UINT16_MAX) {
		err = EMFILE;
		goto unmap;
	}
	err = shared_mutex(&arena->up);
	if (err != 0)
		goto unmap;
	for (unsigned int d = 0; d < SIM_DEVICES; d++)
		for (unsigned int i = 0; i < SIM_QPS; i++)
			arena->qps[d][i].fd = -1;
	arena->deaf_after = sim_config.deaf_after;
	fill_gid(arena->gid, host.fd);
	host.arena = arena;
	/* Yama: let the peers read this process's memory, as their devices would. */
	(void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* EINVAL: there is no Yama */
	err = sim_thread_start();
	if (err != 0) {
		host.arena = NULL;
		goto unmap;
	}
	arena->magic = SIM_ARENA_MAGIC;
	sim_segments_sweep();
	return 0;
unmap:
	munmap(arena, sizeof(*arena));
	close(host.fd);
	return err;
}

int
sim_host_start(void)
{
	int err = 0;

	(void)pthread_once(&once, sim_init); /* can't fail */
	pthread_mutex_lock(&host.lock);
	if (host.arena == NULL)
		err = start();
	pthread_mutex_unlock(&host.lock);
	return err;
}

void
sim_host_stop(void)
{
	/* Keep the arena: the process is ending, and other threads of it may still post. */
	sim_thread_stop();
}

void
sim_host_fork(enum sim_fork when)
{
	if (when == SIM_FORK_CHILD && host.arena != NULL) {
		munmap(host.arena, sizeof(*host.arena));
		close(host.fd);
		host.arena = NULL;
		host.fd = -1;
		for (unsigned int d = 0; d < SIM_DEVICES; d++)
			for (unsigned int i = 0; i < SIM_QPS; i++)
				if (host.fds[d][i] != 0)
					close(host.fds[d][i] - 1);
		memset(host.fds, 0, sizeof(host.fds));
	}
	sim_fork_lock(&host.lock, when);
}

int
sim_inbox_lock(struct sim_inbox *inbox)
{
	int err = pthread_mutex_lock(&inbox->lock);

	/*
	 * A message counts only when `committed` is incremented, the sender's last step. So the
	 * partial message of a killed sender is dropped.
	 */
	if (err == EOWNERDEAD) {
		sim_count(SIM_STAT_RECOVERED, 1);
		err = pthread_mutex_consistent(&inbox->lock);
	}
	return err;
}

static void
entry_write(struct sim_qp_entry *entry, int fd, uint32_t generation)
{
	atomic_fetch_add(&entry->seq, 1);
	entry->fd = fd;
	entry->generation = generation;
	atomic_fetch_add(&entry->seq, 1);
}

struct sim_inbox *
sim_inbox_create(const struct sim_qp *qp)
{
	uint32_t stride = (uint32_t)(sizeof(struct sim_slot) + sim_config.mtu + 63) & ~63u;
	uint64_t bytes = sizeof(struct sim_inbox) + (uint64_t)stride * qp->rq_depth;
	struct sim_inbox *inbox;
	int fd, err;

	inbox = shared_memory("efa-sim-qp", bytes, &fd);
	if (inbox == NULL)
		return NULL;
	err = shared_mutex(&inbox->lock);
	if (err != 0) {
		munmap(inbox, bytes);
		close(fd);
		errno = err;
		return NULL;
	}
	pthread_mutex_lock(&host.lock);
	inbox->magic = SIM_INBOX_MAGIC;
	inbox->generation = ++host.generation;
	inbox->qpn = qp->ibv.qp_num;
	inbox->pd = qp->pd->number;
	inbox->depth = qp->rq_depth;
	inbox->stride = stride;
	inbox->bytes = bytes;
	host.fds[qp->device->index][qp->index] = fd + 1;
	entry_write(&host.arena->qps[qp->device->index][qp->index], fd, inbox->generation);
	pthread_mutex_unlock(&host.lock);
	return inbox;
}

void
sim_inbox_destroy(unsigned int device, unsigned int index, struct sim_inbox *inbox)
{
	if (sim_inbox_lock(inbox) == 0) {
		inbox->open = 0;
		pthread_mutex_unlock(&inbox->lock);
	}
	pthread_mutex_lock(&host.lock);
	entry_write(&host.arena->qps[device][index], -1, 0);
	close(host.fds[device][index] - 1);
	host.fds[device][index] = 0;
	pthread_mutex_unlock(&host.lock);
	munmap(inbox, inbox->bytes);
}
