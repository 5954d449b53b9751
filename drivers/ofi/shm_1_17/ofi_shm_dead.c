/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Provider shm of libfabric 1.17 when a peer's process was killed. What it leaves behind, the
 * provider never gets over, and its API can't reach:
 *
 * - A lock. Each endpoint's memory in /dev/shm has a spin lock that senders take, and the owner.
 *   A process that is killed with it taken leaves all others spinning inside fi_send() or
 *   fi_cq_read() for ever. In tests that was one kill in five of a busy peer.
 * - A response that never comes. What waits for the other side (sends of more than 4 KiB, atomics)
 *   is answered through one queue per endpoint, in order: one missing answer stops all later ones,
 *   those of other peers too.
 * - Half an op in the queue of its target, or a pool with a broken chain: ofi_shm_cmd.c.
 *
 * So the driver knows the layout of the provider's memory, of this one release (ofi_shm_mem.h;
 * nothing is done to any other), and repairs that: a thread looks at the locks of the endpoints
 * that have to do with a dead process, and frees the one that stays taken for LOCK_HELD_MS; and the
 * answers that are owed by the dead are written in its place.
 *
 * The thread exists while an endpoint has a peer in another process. It looks every WATCH_MS
 * whether one of them is dead, and then every LOOK_MS at the locks, since nothing tells when a lock
 * is freed. Each process frees the locks of its own endpoints, and those of dead ones that it has
 * as peers. A dead peer's address is kept until both are known to be free (ofi_shm_settled()): the
 * endpoint often hears of a death before this thread does, and without the peer the thread would
 * not look any more.
 *
 * The lock does not name its owner. It is a dead peer's when no living process keeps it that long:
 * they hold it for some 100 ns, or while the provider copies between processes (0.2 ms
 * per MiB). What else can make a living one late is being descheduled in these 100 ns, with the
 * machine full: LOCK_HELD_MS is tens of time slices. This thread needs time on the same machine for
 * its looks, and each counts for at most LOOK_COUNTS_MS: what stops all of them (a virtual machine
 * without a processor, a suspended laptop) does not count, nor that this process alone was stopped.
 * What is left are copies of 500 MiB and more in one op, and a peer that is stopped (SIGSTOP,
 * debugger) exactly there, just when another one dies: then two are inside for a moment, and what
 * one of them writes can be lost.
 */

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <leat_thread.h>

#include "ofi_shm.h"
#include "ofi_shm_mem.h"

#define LOCK_HELD_MS 150
#define LOOK_COUNTS_MS 10
#define WATCH_MS 20
#define LOOK_MS 1

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

struct ofi_shm_region {
	SLIST_ENTRY(ofi_shm_region) link;
	struct ofi_shm_mem *m;
	size_t len;
	unsigned int refs; /* of its endpoint or address, and of those that it is mine of */
	int pidfd;	   /* of the owner, -1: own */
	struct ofi_shm_region *mine; /* of the endpoint that has it as a peer */
	uint64_t seen; /* cycles: the last look, which found the lock taken; 0: it did not */
	uint64_t held; /* cycles that it was taken for, in a row */
	bool dead;
	bool clean; /* its own lock was seen free since */
	bool mine_clean;
	bool left; /* its address is gone: it goes when both are clean */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static SLIST_HEAD(region_list, ofi_shm_region) others = SLIST_HEAD_INITIALIZER(others);
static struct region_list unmapped = SLIST_HEAD_INITIALIZER(unmapped);
static bool running;

/*
 * @return NULL: not there, or not of the release that this file knows; then nothing will be
 * repaired
 */
struct ofi_shm_region *
ofi_shm_region_open(const char *prov_name)
{
	const char *name = strstr(prov_name, "://");
	struct ofi_shm_region *s;
	struct stat st;
	int fd;

	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return NULL;
	s->pidfd = -1;
	s->refs = 1;
	fd = shm_open(name != NULL ? name + 3 : prov_name, O_RDWR | O_CLOEXEC, 0);
	if (fd < 0) {
		free(s);
		return NULL;
	}
	s->m = MAP_FAILED;
	if (fstat(fd, &st) == 0 && st.st_size > (off_t)sizeof(*s->m)) {
		s->len = (size_t)st.st_size;
		s->m = mmap(NULL, s->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	}
	(void)close(fd);
	if (s->m == MAP_FAILED) {
		free(s);
		return NULL;
	}
	if (s->m->version != OFI_SHM_VERSION || (s->m->flags & OFI_SHM_FLAG_DEBUG) != 0 ||
	    s->m->total_size != s->len) {
		ofi_shm_region_close(s);
		return NULL;
	}
	return s;
}

static void
unmap(struct ofi_shm_region *s)
{
	(void)munmap(s->m, s->len);
	free(s);
}

/*
 * With the mutex. This may be the last mapping of a dead process's memory. Then munmap() frees all
 * its pages, which takes the kernel about a millisecond: the thread does it, not the poll loop.
 */
static void
put(struct ofi_shm_region *s)
{
	if (s == NULL || --s->refs > 0)
		return;
	if (running)
		SLIST_INSERT_HEAD(&unmapped, s, link);
	else
		unmap(s);
}

void
ofi_shm_region_close(struct ofi_shm_region *s)
{
	pthread_mutex_lock(&lock);
	put(s);
	pthread_mutex_unlock(&lock);
}

/*
 * Ops tell their source by the entry that the sender has at the target. It is asked for with the
 * first op to a peer, and kept in the sender's own entry for that peer. When the peer leaves the
 * address vector smr_unmap_from_endpoint() should forget it, but comes too late, after
 * smr_map_del(): the next peer in that entry would be sent to as if it were the one before, would
 * take what it gets for another's, and answer that or crash.
 */
void
ofi_shm_region_forget(struct ofi_shm_region *s)
{
	struct ofi_shm_peer *p;
	size_t off, i;

	if (s == NULL)
		return;
	/* Other processes can write here. */
	off = __atomic_load_n(&s->m->peers_offset, __ATOMIC_RELAXED);
	if (off > s->len || s->len - off < OFI_SHM_PEERS * sizeof(*p) ||
	    off % alignof(struct ofi_shm_peer) != 0)
		return;
	p = (struct ofi_shm_peer *)((char *)s->m + off);
	for (i = 0; i < OFI_SHM_PEERS; i++) {
		if (p[i].name[0] != '\0')
			continue;
		p[i].id = -1;
		p[i].name_sent = 0;
	}
}

/* ---- locks ---- */

/* glibc on x86: 1 is free; elsewhere 0 is. A held lock does not change while others wait for it. */
static bool
lock_held(struct ofi_shm_mem *m)
{
	if (pthread_spin_trylock(&m->lock) != 0)
		return true;
	(void)pthread_spin_unlock(&m->lock);
	return false;
}

static void
free_lock(struct ofi_shm_region *s)
{
	const char *more = "";
	int ret;

	if (s->dead) {
		/*
		 * Its queue is not read any more; a sender that waits for the lock does not write
		 * to it either.
		 */
		s->m->cmd_cnt = 0;
	} else {
		ret = ofi_shm_cmd_repair(s->m, s->len);
		if (ret != 0)
			more = ret > 0 ? ", and took back half an op"
				       : ", and found what is behind it damaged";
		/* The last thing that a sender does before it frees the lock. */
		atomic_store(&s->m->signal, 1);
	}
	(void)pthread_spin_unlock(&s->m->lock);
	LEAT_LOG(WARNING, driver,
		 "ofi: provider shm: freed a lock that a killed process left taken%s", more);
}

/*
 * One look. By the clock, not by the number of looks: an own region is looked at once for each of
 * its peers that is dead.
 * @return true: it is known to be free of the dead
 */
static bool
look(struct ofi_shm_region *s)
{
	uint64_t now = leat_now();

	if (!lock_held(s->m)) {
		s->seen = 0;
		return true;
	}
	if (s->seen == 0)
		s->held = 0;
	else
		s->held += RTE_MIN(now - s->seen, leat_us_to_cycles(LOOK_COUNTS_MS * 1000));
	s->seen = now;
	if (s->held < leat_us_to_cycles(LOCK_HELD_MS * 1000))
		return false;
	free_lock(s);
	s->seen = 0;
	return true;
}

static bool
process_dead(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return pidfd >= 0 && poll(&p, 1, 0) == 1;
}

static void
forget(struct ofi_shm_region *s)
{
	SLIST_REMOVE(&others, s, ofi_shm_region, link);
	put(s->mine);
	put(s);
}

/* @return whether a peer has to be looked at more closely */
static bool
watch_once(void)
{
	struct ofi_shm_region *s, *next;
	bool busy = false;

	for (s = SLIST_FIRST(&others); s != NULL; s = next) {
		next = SLIST_NEXT(s, link);
		if (!s->dead) {
			if (!process_dead(s->pidfd))
				continue;
			s->dead = true;
		}
		if (!s->clean)
			s->clean = look(s);
		if (!s->mine_clean)
			s->mine_clean = s->mine == NULL || look(s->mine);
		if (!s->clean || !s->mine_clean)
			busy = true;
		else if (s->left)
			forget(s);
	}
	return busy;
}

static void *
watch(void *arg)
{
	struct timespec slow = { .tv_nsec = WATCH_MS * 1000000L };
	struct timespec fast = { .tv_nsec = LOOK_MS * 1000000L };
	struct ofi_shm_region *s;
	struct region_list gone;
	bool busy = false, last;

	RTE_SET_USED(arg);
	(void)pthread_setname_np(pthread_self(), "leat-shm-watch");
	for (;;) {
		(void)nanosleep(busy ? &fast : &slow, NULL);
		pthread_mutex_lock(&lock);
		busy = watch_once();
		gone = unmapped;
		SLIST_INIT(&unmapped);
		last = SLIST_EMPTY(&others);
		if (last)
			running = false;
		pthread_mutex_unlock(&lock);
		/* Without the mutex, for which an endpoint would have to wait. */
		while ((s = SLIST_FIRST(&gone)) != NULL) {
			SLIST_REMOVE_HEAD(&gone, link);
			unmap(s);
		}
		if (last)
			return NULL;
	}
}

void
ofi_shm_watch(struct ofi_shm_region *s, struct ofi_shm_region *mine, int pidfd)
{
	s->mine = mine;
	s->pidfd = pidfd;
	pthread_mutex_lock(&lock);
	if (mine != NULL)
		mine->refs++;
	SLIST_INSERT_HEAD(&others, s, link);
	if (!running) {
		running = leat_thread_start(watch, NULL) == 0;
		if (!running)
			LEAT_LOG(WARNING, driver,
				 "ofi: provider shm: no thread to watch over locks");
	}
	pthread_mutex_unlock(&lock);
}

/* With the mutex. Is there something of the dead still to be looked for? */
static bool
unsettled(const struct ofi_shm_region *s)
{
	return running && (s->dead || process_dead(s->pidfd)) && !(s->clean && s->mine_clean);
}

bool
ofi_shm_settled(const struct ofi_shm_region *s)
{
	bool ret;

	if (s == NULL)
		return true;
	pthread_mutex_lock(&lock);
	ret = !unsettled(s);
	pthread_mutex_unlock(&lock);
	return ret;
}

void
ofi_shm_unwatch(struct ofi_shm_region *s)
{
	pthread_mutex_lock(&lock);
	if (!unsettled(s)) {
		forget(s);
	} else {
		s->dead = true; /* the descriptor is its address's, which closes it */
		s->left = true;
	}
	pthread_mutex_unlock(&lock);
}

/* ---- responses ---- */

/* Is it an op of ours that was finished without the provider because that peer died? */
static bool
of_dead(const struct ofi_ep *e, const struct ofi_addr *a, void *context)
{
	const struct ofi_slot *s = ofi_slot_checked(e, context);

	return s != NULL && s->state == OFI_SLOT_ORPHAN && s->addr == a;
}

void
ofi_shm_answer(struct ofi_ep *e, const struct ofi_addr *a)
{
	struct resp_queue *q;
	size_t i, off, len, mask;
	struct ofi_shm_mem *m;

	if (e->shm_region == NULL)
		return;
	m = e->shm_region->m;
	len = e->shm_region->len;
	/*
	 * Other processes can write here: nothing may lead out of the mapping, by overflow either.
	 */
	off = m->resp_queue_offset;
	if (len < sizeof(*q) || off > len - sizeof(*q))
		return;
	q = (struct resp_queue *)((char *)m + off);
	mask = q->size_mask;
	if (mask >= (len - sizeof(*q) - off) / sizeof(q->buf[0]) || q->wcnt - q->rcnt > mask + 1)
		return;
	/*
	 * No other thread writes here: dead peers don't, and the provider's own part is driven by
	 * this thread.
	 */
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
	atomic_store(&m->signal, 1);
}
