/* SPDX-License-Identifier: BSD-3-Clause */

/* This process's memory that it gives to its peers: see shm_share.h. */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <rte_memory.h>

#include "shm_share.h"

/* ---- EAL's memory ---- */

/* Add a stretch of memory. If it begins where the last one ends, extend the last one. */
static void
arena_add(struct ring_arenas *a, uint64_t addr, uint64_t len)
{
	struct ring_arena *last = a->nb > 0 ? &a->arena[a->nb - 1] : NULL;

	if (last != NULL && last->addr + last->len == addr)
		last->len += len;
	else
		a->arena[a->nb++] = (struct ring_arena){ .addr = addr,
							 .len = len,
							 .here = (char *)(uintptr_t)addr };
}

/* Does the last piece end where this page begins, in memory and in the same file? */
static bool
goes_on(const struct shm_table *t, int fd, int last_fd, uint64_t addr, uint64_t offset)
{
	const struct shm_piece *p;

	if (t->nb == 0 || fd != last_fd)
		return false;
	p = &t->pieces[t->nb - 1];
	return p->addr + p->len == addr && p->offset + p->len == offset;
}

struct walk {
	struct shm_share *s;
	int last_fd; /* EAL's descriptor of the last piece's file */
	int err;
};

/* Add a page of EAL. EAL holds its lock meanwhile, so the page's descriptor stays valid. */
static int
page(const struct rte_memseg_list *msl, const struct rte_memseg *ms, void *arg)
{
	struct walk *w = arg;
	struct shm_share *s = w->s;
	struct shm_table *t = s->table.mem;
	const uint64_t addr = (uintptr_t)ms->addr;
	const int fd = rte_memseg_get_fd_thread_unsafe(ms);
	size_t offset;

	/* External memory, which the application added to EAL, has no descriptor. */
	if (msl->external || fd < 0 || rte_memseg_get_fd_offset_thread_unsafe(ms, &offset) < 0)
		return 0;
	if (goes_on(t, fd, w->last_fd, addr, offset)) {
		t->pieces[t->nb - 1].len += ms->len;
	} else {
		if (t->nb == SHM_SHARE_FDS) {
			s->more = true;
			return 1;
		}
		s->fds[s->nb_fds] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (s->fds[s->nb_fds] < 0) {
			w->err = errno;
			return 1;
		}
		s->nb_fds++;
		t->pieces[t->nb++] =
			(struct shm_piece){ .addr = addr, .len = ms->len, .offset = offset };
		w->last_fd = fd;
	}
	arena_add(&s->ring.arenas, addr, ms->len);
	return 0;
}

/* Record that EAL freed shared memory. EAL calls this with its lock held, as it calls page(). */
static void
on_memory(enum rte_mem_event event, const void *addr, size_t len, void *arg)
{
	struct shm_share *s = arg;
	const uint64_t from = (uintptr_t)addr;
	uint32_t i;

	for (i = 0; event == RTE_MEM_EVENT_FREE && i < s->ring.arenas.nb; i++) {
		const struct ring_arena *a = &s->ring.arenas.arena[i];

		if (from < a->addr + a->len && a->addr < from + len)
			__atomic_store_n(&s->ring.stale, true, __ATOMIC_RELAXED);
	}
}

static void
watch_name(const struct shm_share *s, char *buf, size_t len)
{
	snprintf(buf, len, "leat-shm-%p", (const void *)s);
}

/* Ask EAL to report freed memory. ENOTSUP: without huge pages EAL never frees any. */
static int
watch(struct shm_share *s)
{
	char name[RTE_MEM_EVENT_CALLBACK_NAME_LEN];

	watch_name(s, name, sizeof(name));
	s->watched = rte_mem_event_callback_register(name, on_memory, s) == 0;
	return s->watched || rte_errno == ENOTSUP
		       ? 0
		       : leat_err(rte_errno, "share=1: rte_mem_event_callback_register: %s",
				  rte_strerror(rte_errno));
}

struct shm_share *
shm_share_new(const char *ep_name)
{
	struct shm_share *s = calloc(1, sizeof(*s));
	struct walk w = { .s = s, .last_fd = -1 };
	int fd;

	if (s == NULL) {
		leat_err(ENOMEM, "create endpoint: out of memory");
		return NULL;
	}
	fd = shm_memory_make(&s->table, "table of regions", sizeof(struct shm_table), true);
	if (fd >= 0) {
		s->fds[s->nb_fds++] = fd;
		s->ring.entries = ((struct shm_table *)s->table.mem)->entries;
	}
	if (fd < 0 || watch(s) < 0) {
		shm_share_free(s);
		return NULL;
	}
	(void)rte_memseg_walk(page, &w); /* if page() stops the walk, w.err and s->more say why */
	if (w.err != 0) {
		leat_err(w.err, "share=1: descriptors of %u pieces of memory: %s%s", s->nb_fds,
			 strerror(w.err),
			 w.err == EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
		shm_share_free(s);
		return NULL;
	}
	if (s->ring.arenas.nb == 0)
		LEAT_LOG(WARNING, driver,
			 "%s: share=1: EAL's memory has no descriptors, nothing is shared",
			 ep_name);
	else if (s->more)
		LEAT_LOG(WARNING, driver,
			 "%s: share=1: only the first %u of EAL's pages are shared: start with "
			 "--single-file-segments, or use larger pages",
			 ep_name, SHM_SHARE_FDS);
	return s;
}

void
shm_share_free(struct shm_share *s)
{
	char name[RTE_MEM_EVENT_CALLBACK_NAME_LEN];

	if (s == NULL)
		return;
	if (s->watched) {
		watch_name(s, name, sizeof(name));
		(void)rte_mem_event_callback_unregister(name, s); /* fails only if not registered */
	}
	while (s->nb_fds > 0)
		(void)close(s->fds[--s->nb_fds]);
	shm_memory_unmap(&s->table);
	free(s);
}

void
shm_share_withdraw_all(struct shm_share *s)
{
	uint32_t i;

	for (i = 0; i < RING_ENTRIES; i++)
		__atomic_store_n(&s->ring.entries[i].key, 0, __ATOMIC_RELAXED);
}
