/* SPDX-License-Identifier: BSD-3-Clause */

/* Other hosts: found by their GID, whose arena and inboxes this process maps. */

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

/* Not 0, and unlike on another device type at a glance: tables of 16 bits are indexed by it. */
#define FIRST_QPN 0x400

static struct {
	pthread_mutex_t lock;
	LIST_HEAD(, sim_peer) all;
} peers = { .lock = PTHREAD_MUTEX_INITIALIZER };

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
	unmap_inboxes(peer);
	if (peer->arena != NULL)
		munmap(peer->arena, sizeof(*peer->arena));
	pthread_mutex_destroy(&peer->lock);
	free(peer);
}

/* Map a memfd of another process that begins with the magic number. NULL: there is none. */
static void *
map_of(int pid, int fd, size_t least, size_t *bytes)
{
	uint64_t magic = 0;
	struct stat st;
	void *mem = NULL;
	char path[64];
	int mine;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	mine = open(path, O_RDWR | O_CLOEXEC);
	if (mine < 0)
		return NULL;
	/* The number may be another file's by now: anything is possible, and looked at first. */
	if (fstat(mine, &st) == 0 && S_ISREG(st.st_mode) && (size_t)st.st_size >= least &&
	    pread(mine, &magic, sizeof(magic), 0) == sizeof(magic) && magic == SIM_MAGIC) {
		*bytes = (size_t)st.st_size;
		mem = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, mine, 0);
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

	arena = map_of(peer->pid, peer->gid[2] << 8 | peer->gid[3], sizeof(*arena), &bytes);
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
	/* A living host holds it; the kernel gives up what a dead one held. */
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
	/* The owner may be killed while it writes: don't wait for it. */
	for (int i = 0; i < 1000; i++) {
		uint32_t seq = entry->seq;

		*fd = entry->fd;
		*generation = entry->generation;
		atomic_thread_fence(memory_order_acquire);
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
		/* Not opened yet, or closed. */
		munmap(*inbox, (*inbox)->bytes);
		*inbox = NULL;
	}
	if (*inbox == NULL && entry_read(&peer->arena->qps[device][index], &fd, &generation)) {
		*inbox = map_of(peer->pid, fd, sizeof(**inbox), &bytes);
		if (*inbox != NULL && (bytes != (*inbox)->bytes || (*inbox)->qpn != qpn ||
				       (*inbox)->generation != generation)) {
			munmap(*inbox, bytes);
			*inbox = NULL;
		}
	}
	return *inbox;
}

/* Does the peer have this memory registered for reading? */
static bool
mr_read(struct sim_arena *arena, unsigned int device, uint32_t rkey, uint64_t addr, uint64_t length)
{
	struct sim_mr_entry *mr = &arena->mrs[rkey % SIM_MRS];

	for (int i = 0; i < 1000; i++) {
		uint32_t seq = mr->seq;
		bool allowed = mr->key == rkey && rkey != 0 && mr->device == device &&
			       mr->access & IBV_ACCESS_REMOTE_READ && addr >= mr->addr &&
			       length <= mr->length && addr - mr->addr <= mr->length - length;

		atomic_thread_fence(memory_order_acquire);
		if (seq == mr->seq && seq % 2 == 0)
			return allowed;
	}
	return false;
}

enum sim_status
sim_peer_read(struct sim_peer *peer, unsigned int device, uint32_t rkey, uint64_t remote,
	      const struct ibv_sge *sge, uint32_t nb)
{
	struct iovec local, other;
	uint64_t length = 0;
	ssize_t n;

	for (uint32_t i = 0; i < nb; i++)
		length += sge[i].length;
	if (!mr_read(peer->arena, device, rkey, remote, length))
		return SIM_REMOTE_BAD_ADDRESS;
	for (uint32_t i = 0; i < nb; i++) {
		for (uint32_t done = 0; done < sge[i].length; done += (uint32_t)n) {
			local.iov_base = (char *)(uintptr_t)sge[i].addr + done;
			local.iov_len = other.iov_len = sge[i].length - done;
			other.iov_base = (char *)(uintptr_t)remote + done;
			n = process_vm_readv(peer->pid, &local, 1, &other, 1, 0);
			if (n <= 0) {
				fprintf(stderr, "efa-sim: READ of process %d: %s\n", peer->pid,
					n < 0 ? strerror(errno) : "nothing");
				return SIM_REMOTE_ABORT;
			}
		}
		remote += sge[i].length;
	}
	return SIM_OK;
}
