/* SPDX-License-Identifier: BSD-3-Clause */

/* A peer's memory that this process maps and reaches: see shm_share.h. */

#include <linux/magic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "shm_share.h"

/* Largest valid length and offset of a piece, bytes. */
#define REACH_MAX (UINT64_C(1) << 44)

/* Check a piece and its file. @return the size of the file's pages; 0: invalid, with leat_err() */
static uint64_t
page_size(const struct shm_piece *p, int fd)
{
	struct statfs fs;
	struct stat st;
	uint64_t size;

	if (fstatfs(fd, &fs) != 0 || fstat(fd, &st) != 0 ||
	    (fs.f_type != TMPFS_MAGIC && fs.f_type != HUGETLBFS_MAGIC)) {
		leat_err(EPROTO, "the memory that it shares is neither a memfd nor huge pages");
		return 0;
	}
	size = (uint64_t)fs.f_bsize;
	if (p->len == 0 || p->len > REACH_MAX || p->offset > REACH_MAX ||
	    p->addr > UINT64_MAX - p->len || (p->addr | p->len | p->offset) % size != 0 ||
	    p->offset + p->len > (uint64_t)st.st_size) {
		leat_err(EPROTO, "it shares memory beyond the end of its file");
		return 0;
	}
	/*
	 * All huge pages must be allocated: this side's first access to one that is not raises
	 * SIGBUS if no huge page is free.
	 */
	if (fs.f_type == HUGETLBFS_MAGIC && (uint64_t)st.st_blocks * 512 < p->len) {
		leat_err(EPROTO, "it shares huge pages that do not exist");
		return 0;
	}
	return size;
}

/* Reserve len bytes of address space, whose first address is a multiple of align. */
static int
reserve(struct shm_memory *m, uint64_t len, uint64_t align, char **here)
{
	void *mem = mmap(NULL, len + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			 -1, 0);

	if (mem == MAP_FAILED)
		return leat_err(errno, "shm: mmap of %" PRIu64 " bytes that a peer shares: %s", len,
				strerror(errno));
	*m = (struct shm_memory){ .mem = mem, .len = len + align };
	*here = (char *)RTE_PTR_ALIGN_CEIL(mem, align);
	return 0;
}

/*
 * Map the first pieces, as many as are contiguous in the peer's memory, to contiguous addresses
 * here.
 * @return number of pieces mapped, or -errno with leat_err()
 */
static int
run_map(struct shm_reach *r, const struct shm_piece *pieces, const int *fds, unsigned int nb)
{
	struct ring_arenas *a = &r->ring.arenas;
	const uint64_t size = page_size(&pieces[0], fds[0]);
	uint64_t len = pieces[0].len, at = 0;
	unsigned int i, n;
	char *here = NULL;
	void *mem;
	int ret;

	for (n = 1; size != 0 && n < nb && pieces[n].addr == pieces[0].addr + len; n++) {
		if (page_size(&pieces[n], fds[n]) != size)
			break;
		len += pieces[n].len;
	}
	if (size == 0)
		return -EPROTO;
	ret = reserve(&r->runs[a->nb], len, size, &here);
	if (ret < 0)
		return ret;
	a->arena[a->nb++] = (struct ring_arena){ .addr = pieces[0].addr, .len = len, .here = here };
	for (i = 0; i < n; at += pieces[i++].len) {
		mem = mmap(here + at, pieces[i].len, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fds[i], (off_t)pieces[i].offset);
		if (mem == MAP_FAILED)
			return leat_err(errno,
					"shm: mmap of %" PRIu64 " bytes that a peer shares: "
					"%s",
					pieces[i].len, strerror(errno));
	}
	return (int)n;
}

static int
reach_map(struct shm_reach *r, const int *fds, unsigned int nb)
{
	struct shm_piece pieces[SHM_SHARE_FDS];
	const struct shm_table *t;
	unsigned int i;
	int ret = shm_memory_map(&r->table, "table", fds[0], sizeof(*t), false);

	if (ret < 0)
		return ret;
	t = r->table.mem;
	r->ring.entries = t->entries;
	if (__atomic_load_n(&t->nb, __ATOMIC_RELAXED) != nb - 1)
		return leat_err(EPROTO, "it shares pieces of memory without descriptors");
	/* Read the pieces once: the peer may change them meanwhile. */
	memcpy(pieces, t->pieces, sizeof(pieces));
	for (i = 0; i < nb - 1; i += (unsigned int)ret) {
		ret = run_map(r, &pieces[i], &fds[1 + i], nb - 1 - i);
		if (ret < 0)
			return ret;
	}
	return 0;
}

struct shm_reach *
shm_reach_new(const int *fds, unsigned int nb)
{
	struct shm_reach *r = calloc(1, sizeof(*r));

	if (r == NULL) {
		leat_err(ENOMEM, "shm: connection: out of memory");
		return NULL;
	}
	if (reach_map(r, fds, nb) < 0) {
		shm_reach_free(r);
		return NULL;
	}
	return r;
}

void
shm_reach_free(struct shm_reach *r)
{
	uint32_t i;

	if (r == NULL)
		return;
	for (i = 0; i < RING_ARENAS; i++)
		shm_memory_unmap(&r->runs[i]);
	shm_memory_unmap(&r->table);
	free(r);
}
