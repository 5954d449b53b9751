/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Provider shm of libfabric 1.17 when a peer's process was killed. Two things are left behind that the provider
 * never gets over, and its API can't reach:
 *
 * - A lock. Each endpoint's memory in /dev/shm has a spin lock that senders take, and the owner. Who is
 *   killed with it taken leaves everybody else spinning inside fi_send() or fi_cq_read() for ever. In tests
 *   that was one kill in five of a busy peer.
 * - A response that never comes. What waits for the other side (sends of more than 4 KiB, atomics) is
 *   answered through one queue per endpoint, in order: one missing answer stops all later ones, those
 *   of other peers too.
 *
 * So this file knows the layout of the provider's memory, of this one release (SMR_VERSION 4, without debugging
 * checks; nothing is done to any other), and repairs both: a thread looks at the locks of those who have
 * to do with a dead process, and frees the one that stays taken for LOCK_HELD_MS; and the answers that are
 * owed by the dead are written in its place.
 *
 * The thread exists while an endpoint has a peer in another process. It looks every WATCH_MS whether
 * one of them is dead, and then every LOOK_MS at the locks, since nothing tells when a lock is freed.
 */

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "efa_pvt.h"

#define LOCK_HELD_MS 150
#define WATCH_MS 20
#define LOOK_MS 1

/* prov/util ofi_shm.h, struct smr_region. */
#define REGION_VERSION 4
#define REGION_FLAG_DEBUG 0x2

struct region {
	uint8_t version;
	uint8_t resv;
	uint16_t flags;
	int pid;
	uint8_t cma_cap_peer;
	uint8_t cma_cap_self;
	uint32_t max_sar_buf_per_peer;
	void *base_addr;
	pthread_spinlock_t lock;
	_Atomic int32_t signal;
	void *map;
	size_t total_size;
	size_t cmd_cnt;
	size_t sar_cnt;
	size_t cmd_queue_offset;
	size_t resp_queue_offset;
};

static_assert(offsetof(struct region, lock) == 24, "as in the provider");
static_assert(offsetof(struct region, resp_queue_offset) == 72, "as in the provider");

struct resp {
	uint64_t pending; /* struct smr_tx_entry */
	uint64_t status;
};

/* OFI_DECLARE_CIRQUE(struct smr_resp, smr_resp_queue). */
struct resp_queue {
	size_t size;
	size_t size_mask;
	size_t rcnt;
	size_t wcnt;
	struct resp buf[];
};

#define STATUS_BUSY 16	     /* FI_EBUSY: not answered yet */
#define STATUS_SAR_FREE 1025 /* segments: the other side may be written to */
#define STATUS_SAR_READY 1026

/* The beginning of struct smr_tx_entry. */
struct pending {
	uint8_t hdr1[24];
	uint64_t size;
	uint8_t cmd[224];
	int64_t peer_id;
	void *context;
	uint8_t iov[64];
	uint32_t iov_count;
	uint64_t op_flags;
	size_t bytes_done;
};

static_assert(offsetof(struct pending, peer_id) == 256, "as in the provider");
static_assert(offsetof(struct pending, bytes_done) == 352, "as in the provider");

/* ---- regions ---- */

struct efa_shm_region {
	LIST_ENTRY(efa_shm_region) link;
	struct region *r;
	size_t len;
	int pidfd;		     /* of the owner, -1: own */
	struct efa_shm_region *mine; /* of the endpoint that has it as a peer */
	uint64_t held_since; /* cycles: the lock was found taken from then on; 0: it was not */
	bool dead;
	bool clean; /* its own lock was seen free since */
	bool mine_clean;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, efa_shm_region) others = LIST_HEAD_INITIALIZER(others);
static bool running;

/* @return NULL: not there, or not of the release that this file knows; then nothing will be repaired */
struct efa_shm_region *
efa_shm_region_open(const char *prov_name)
{
	const char *name = strstr(prov_name, "://");
	struct efa_shm_region *s;
	struct stat st;
	int fd;

	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return NULL;
	s->pidfd = -1;
	fd = shm_open(name != NULL ? name + 3 : prov_name, O_RDWR | O_CLOEXEC, 0);
	if (fd < 0) {
		free(s);
		return NULL;
	}
	s->r = MAP_FAILED;
	if (fstat(fd, &st) == 0 && st.st_size > (off_t)sizeof(*s->r)) {
		s->len = (size_t)st.st_size;
		s->r = mmap(NULL, s->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	}
	(void)close(fd);
	if (s->r == MAP_FAILED) {
		free(s);
		return NULL;
	}
	if (s->r->version != REGION_VERSION || (s->r->flags & REGION_FLAG_DEBUG) != 0 ||
	    s->r->total_size != s->len) {
		efa_shm_region_close(s);
		return NULL;
	}
	return s;
}

void
efa_shm_region_close(struct efa_shm_region *s)
{
	if (s == NULL)
		return;
	(void)munmap(s->r, s->len);
	free(s);
}

/* ---- locks ---- */

/* glibc on x86: 1 is free; elsewhere 0 is. A held lock does not change while others wait for it. */
static bool
lock_held(struct region *r)
{
	if (pthread_spin_trylock(&r->lock) != 0)
		return true;
	(void)pthread_spin_unlock(&r->lock);
	return false;
}

/*
 * One look. By the clock, not by the number of looks: an own region is looked at once for each of
 * its peers that is dead.
 * @return true: it is known to be free of the dead
 */
static bool
look(struct efa_shm_region *s)
{
	uint64_t now = leat_now();

	if (!lock_held(s->r)) {
		s->held_since = 0;
		return true;
	}
	if (s->held_since == 0)
		s->held_since = now;
	if (now - s->held_since < leat_us_to_cycles(LOCK_HELD_MS * 1000))
		return false;
	LEAT_LOG(WARNING, driver,
		 "efa: provider shm: freed a lock that a killed process left taken");
	(void)pthread_spin_unlock(&s->r->lock);
	s->held_since = 0;
	return true;
}

static bool
process_dead(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return pidfd >= 0 && poll(&p, 1, 0) == 1;
}

/* @return whether somebody has to be looked at more closely */
static bool
watch_once(void)
{
	struct efa_shm_region *s;
	bool busy = false;

	LIST_FOREACH(s, &others, link) {
		if (!s->dead) {
			if (!process_dead(s->pidfd))
				continue;
			s->dead = true;
			/* What was seen taken before may have been free since. */
			s->held_since = 0;
			if (s->mine != NULL)
				s->mine->held_since = 0;
		}
		if (!s->clean)
			s->clean = look(s);
		if (!s->mine_clean)
			s->mine_clean = s->mine == NULL || look(s->mine);
		busy |= !s->clean || !s->mine_clean;
	}
	return busy;
}

static void *
watch(void *arg)
{
	struct timespec slow = { .tv_nsec = WATCH_MS * 1000000L };
	struct timespec fast = { .tv_nsec = LOOK_MS * 1000000L };
	bool busy = false;

	RTE_SET_USED(arg);
	(void)pthread_setname_np(pthread_self(), "leat-shm-watch");
	for (;;) {
		(void)nanosleep(busy ? &fast : &slow, NULL);
		pthread_mutex_lock(&lock);
		if (LIST_EMPTY(&others)) {
			running = false;
			pthread_mutex_unlock(&lock);
			return NULL;
		}
		busy = watch_once();
		pthread_mutex_unlock(&lock);
	}
}

void
efa_shm_watch(struct efa_shm_region *s, struct efa_shm_region *mine, int pidfd)
{
	s->mine = mine;
	s->pidfd = pidfd;
	pthread_mutex_lock(&lock);
	LIST_INSERT_HEAD(&others, s, link);
	if (!running) {
		running = leat_thread_start(watch, NULL) == 0;
		if (!running)
			LEAT_LOG(WARNING, driver,
				 "efa: provider shm: no thread to watch over locks");
	}
	pthread_mutex_unlock(&lock);
}

void
efa_shm_unwatch(struct efa_shm_region *s)
{
	pthread_mutex_lock(&lock);
	LIST_REMOVE(s, link);
	pthread_mutex_unlock(&lock);
}

/* ---- responses ---- */

/* Is it an op of ours that was finished without the provider because that peer died? */
static bool
of_dead(const struct efa_ep *e, const struct efa_addr *a, void *context)
{
	const struct efa_slot *s = efa_slot_checked(e, context);

	return s != NULL && s->state == EFA_SLOT_ORPHAN && s->addr == a;
}

void
efa_shm_answer(struct efa_ep *e, const struct efa_addr *a)
{
	struct resp_queue *q;
	size_t i, off, len, mask;
	struct region *r;

	if (e->shm_region == NULL)
		return;
	r = e->shm_region->r;
	len = e->shm_region->len;
	/* Other processes can write here: nothing may lead out of the mapping, by overflow either. */
	off = r->resp_queue_offset;
	if (len < sizeof(*q) || off > len - sizeof(*q))
		return;
	q = (struct resp_queue *)((char *)r + off);
	mask = q->size_mask;
	if (mask >= (len - sizeof(*q) - off) / sizeof(q->buf[0]) || q->wcnt - q->rcnt > mask + 1)
		return;
	/* Nobody else writes here: the dead don't, and the provider's own part is driven by this thread. */
	for (i = q->rcnt; i != q->wcnt; i++) {
		struct resp *p = &q->buf[i & mask];
		struct pending *x = (struct pending *)(uintptr_t)p->pending;

		if ((p->status != STATUS_BUSY && p->status != STATUS_SAR_FREE &&
		     p->status != STATUS_SAR_READY) ||
		    x == NULL || !of_dead(e, a, x->context))
			continue;
		if (p->status == STATUS_BUSY) {
			p->status = FI_ECONNRESET;
		} else {
			x->bytes_done = x->size;
			p->status = STATUS_SAR_FREE;
		}
	}
	atomic_store(&r->signal, 1);
}
