/* SPDX-License-Identifier: BSD-3-Clause */

/* Other hosts: this process finds them by their GID, and maps their arenas and inboxes. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sim_host.h"

/*
 * The first QP number: not 0, and recognisable as this device's. It must be small, since tables of
 * 16 bits are indexed by QP numbers.
 */
#define FIRST_QPN 0x400

static struct {
	pthread_mutex_t lock;
	LIST_HEAD(, sim_peer) all;
} peers = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void
unmap_inboxes(struct sim_peer *peer)
{
	for (unsigned int d = 0; d < SIM_DEVICES; d++) {
		for (unsigned int i = 0; i < SIM_QPS; i++) {
			if (peer->inboxes[d][i] == NULL)
				continue;
			munmap(peer->inboxes[d][i], peer->inboxes[d][i]->bytes);
			peer->inboxes[d][i] = NULL;
		}
	}
}

static void
unmap(struct sim_peer *peer)
{
	unmap_inboxes(peer);
	if (peer->arena != NULL)
		munmap(peer->arena, sizeof(*peer->arena));
	peer->arena = NULL;
}

void
sim_peer_fork(enum sim_fork when)
{
	struct sim_peer *peer;

	/* The child uses no AH of the parent, so it needs none of their peers. */
	while (when == SIM_FORK_CHILD && (peer = LIST_FIRST(&peers.all)) != NULL) {
		LIST_REMOVE(peer, next);
		/* If the peer is locked, a thread of the parent was changing it: do not unmap. */
		if (pthread_mutex_trylock(&peer->lock) == 0)
			unmap(peer);
		free(peer);
	}
	sim_fork_lock(&peers.lock, when);
}

unsigned int
sim_qp_index(uint32_t qpn)
{
	return qpn >= FIRST_QPN && qpn < FIRST_QPN + SIM_QPS ? qpn - FIRST_QPN : SIM_QPS;
}

uint32_t
sim_qp_number(unsigned int index)
{
	return FIRST_QPN + index;
}

struct sim_peer *
sim_peer_get(const union ibv_gid *gid)
{
	struct sim_peer *peer;

	pthread_mutex_lock(&peers.lock);
	LIST_FOREACH(peer, &peers.all, next)
		if (memcmp(peer->gid, gid->raw, sizeof(peer->gid)) == 0)
			break;
	if (peer == NULL) {
		peer = calloc(1, sizeof(*peer));
		if (peer != NULL) {
			memcpy(peer->gid, gid->raw, sizeof(peer->gid));
			memcpy(&peer->pid, gid->raw + 8, sizeof(peer->pid));
			pthread_mutex_init(&peer->lock, NULL);
			LIST_INSERT_HEAD(&peers.all, peer, next);
		}
	}
	if (peer != NULL)
		peer->nb_refs++;
	pthread_mutex_unlock(&peers.lock);
	return peer;
}

void
sim_peer_put(struct sim_peer *peer)
{
	pthread_mutex_lock(&peers.lock);
	if (--peer->nb_refs > 0) {
		pthread_mutex_unlock(&peers.lock);
		return;
	}
	LIST_REMOVE(peer, next);
	pthread_mutex_unlock(&peers.lock);
	unmap(peer);
	pthread_mutex_destroy(&peer->lock);
	free(peer);
}

/*
 * Map a memfd of another process that begins with a magic number. Return NULL if it does not exist.
 */
static void *
map_of(int pid, int fd, uint64_t kind, size_t least, size_t *bytes)
{
	static _Atomic bool said;
	uint64_t magic = 0;
	struct stat st;
	void *mem = NULL;
	char path[64];
	int mine;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	mine = open(path, O_RDWR | O_CLOEXEC);
	if (mine < 0) {
		if (errno != ENOENT && !atomic_exchange(&said, true))
			fprintf(stderr, "efa-sim: %s: %s: process %d is not reached\n", path,
				strerror(errno), pid);
		return NULL;
	}
	/* The descriptor can be a different file by now: check it before mapping. */
	if (fstat(mine, &st) == 0 && S_ISREG(st.st_mode) && (size_t)st.st_size >= least &&
	    pread(mine, &magic, sizeof(magic), 0) == sizeof(magic) && magic == kind) {
		*bytes = (size_t)st.st_size;
		mem = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, mine,
			   0);
		if (mem == MAP_FAILED)
			mem = NULL;
	}
	close(mine);
	return mem;
}

static void
find(struct sim_peer *peer)
{
	struct sim_arena *arena;
	size_t bytes;

	arena = map_of(peer->pid, peer->gid[2] << 8 | peer->gid[3], SIM_ARENA_MAGIC, sizeof(*arena),
		       &bytes);
	if (arena == NULL)
		return;
	if (bytes != sizeof(*arena) || memcmp(arena->gid, peer->gid, sizeof(peer->gid)) != 0) {
		munmap(arena, bytes);
		return;
	}
	peer->arena = arena;
	sim_count(SIM_STAT_PEERS, 1);
}

bool
sim_peer_up(struct sim_peer *peer)
{
	int err;

	if (peer->lost)
		return false;
	if (peer->arena == NULL)
		find(peer);
	if (peer->arena == NULL)
		return false;
	/* A living host holds the mutex; the kernel releases that of a dead one. */
	err = pthread_mutex_trylock(&peer->arena->up);
	if (err == EBUSY)
		return true;
	if (err == 0 || err == EOWNERDEAD)
		pthread_mutex_unlock(&peer->arena->up);
	sim_count(SIM_STAT_PEERS_LOST, 1);
	peer->lost = true;
	unmap_inboxes(peer);
	return false;
}

static bool
entry_read(struct sim_qp_entry *entry, int *fd, uint32_t *generation)
{
	/* The owner may be killed while it writes: give up after 1000 tries. */
	for (int i = 0; i < 1000; i++) {
		uint32_t seq = entry->seq;

		*fd = entry->fd;
		*generation = entry->generation;
		if (seq == entry->seq && seq % 2 == 0)
			return *fd >= 0;
	}
	return false;
}

struct sim_inbox *
sim_peer_inbox(struct sim_peer *peer, unsigned int device, uint32_t qpn)
{
	unsigned int index = sim_qp_index(qpn);
	struct sim_inbox **inbox;
	uint32_t generation;
	size_t bytes;
	int fd;

	if (index == SIM_QPS || device >= SIM_DEVICES)
		return NULL;
	inbox = &peer->inboxes[device][index];
	if (*inbox != NULL && !(*inbox)->open) {
		/* The QP is not open yet, or closed. */
		munmap(*inbox, (*inbox)->bytes);
		*inbox = NULL;
	}
	if (*inbox == NULL && entry_read(&peer->arena->qps[device][index], &fd, &generation)) {
		*inbox = map_of(peer->pid, fd, SIM_INBOX_MAGIC, sizeof(**inbox), &bytes);
		if (*inbox != NULL && (bytes != (*inbox)->bytes || (*inbox)->qpn != qpn ||
				       (*inbox)->generation != generation)) {
			munmap(*inbox, bytes);
			*inbox = NULL;
		}
	}
	return *inbox;
}

/* Has the peer registered this memory for reading, in the QP's protection domain? */
static bool
readable(struct sim_arena *arena, uint32_t pd, uint32_t rkey, uint64_t addr, uint64_t length)
{
	struct sim_mr_entry *mr = &arena->mrs[rkey % SIM_MRS];

	for (int i = 0; i < 1000; i++) {
		uint32_t seq = mr->seq;
		bool allowed = mr->key == rkey && rkey != 0 && mr->pd == pd &&
			       mr->access & IBV_ACCESS_REMOTE_READ && addr >= mr->addr &&
			       length <= mr->length && addr - mr->addr <= mr->length - length;

		if (seq == mr->seq && seq % 2 == 0)
			return allowed;
	}
	return false;
}

static bool
copy(int pid, uint64_t to, uint64_t from, uint64_t length)
{
	static _Atomic bool said;
	struct iovec local, other;
	ssize_t n;

	for (uint64_t done = 0; done < length; done += (uint64_t)n) {
		local.iov_base = (char *)(uintptr_t)to + done;
		other.iov_base = (char *)(uintptr_t)from + done;
		local.iov_len = other.iov_len = length - done;
		n = process_vm_readv(pid, &local, 1, &other, 1, 0);
		if (n > 0)
			continue;
		/*
		 * Unmapped memory is a mistake of the peer's program; EPERM is a setting of the
		 * system, so report it.
		 */
		if (n < 0 && errno == EPERM && !atomic_exchange(&said, true))
			fprintf(stderr,
				"efa-sim: READ of process %d: %s: it needs the right to trace it\n",
				pid, strerror(errno));
		return false;
	}
	return true;
}

enum sim_status
sim_peer_read(struct sim_peer *peer, const struct sim_inbox *inbox, const struct sim_wqe *wqe)
{
	uint64_t length = sim_wqe_length(wqe), remote = wqe->remote;

	if (!readable(peer->arena, inbox->pd, wqe->rkey, remote, length))
		return SIM_REMOTE_BAD_ADDRESS;
	for (uint32_t i = 0; i < wqe->nb; i++) {
		if (!copy(peer->pid, wqe->sge[i].addr, remote, wqe->sge[i].length))
			return SIM_REMOTE_ABORT;
		remote += wqe->sge[i].length;
	}
	/* Deregistered during the copy? Then the memory may have held other data already. */
	if (!readable(peer->arena, inbox->pd, wqe->rkey, wqe->remote, length))
		return SIM_REMOTE_ABORT;
	return SIM_OK;
}
