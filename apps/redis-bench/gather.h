/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef REDB_GATHER_H
#define REDB_GATHER_H

/*
 * Bytes of requests or replies for one writev(): short pieces are copied to a buffer of the lcore,
 * the iovec points at long pieces where they are.
 *
 *     buf    *3..SET..key|..\r\n*3..SET..key|
 *     iov     0          1  2                3
 *     values             |                   |
 *                        [ 64 KiB of pool ]  [ 64 KiB of pool ]
 *
 * Bytes at the front that an earlier writev() has written are skipped.
 */

#include <stdbool.h>
#include <string.h>
#include <sys/uio.h>

#define REDB_GATHER_BUF 65536u
#define REDB_GATHER_IOV 64
/* Longest piece that is copied, bytes. */
#define REDB_GATHER_COPY 4096u

struct redb_gather {
	char *buf;    /* REDB_GATHER_BUF bytes */
	size_t used;  /* bytes of buf */
	size_t skip;  /* bytes still to skip at the front */
	size_t bytes; /* bytes of all of iov */
	int n;
	bool open; /* the last entry of iov points at the end of buf and can grow */
	bool full; /* a piece did not fit; it and all later pieces are left out */
	struct iovec iov[REDB_GATHER_IOV];
};

static inline void
redb_gather_begin(struct redb_gather *g, char *buf, size_t skip)
{
	g->buf = buf;
	g->used = 0;
	g->skip = skip;
	g->bytes = 0;
	g->n = 0;
	g->open = false;
	g->full = false;
}

/* Skip bytes of a piece that were written before. @return false: add no byte of this piece */
static inline bool
redb_gather_enter(struct redb_gather *g, const void **p, size_t *len)
{
	size_t skipped = g->skip < *len ? g->skip : *len;

	g->skip -= skipped;
	*p = (const char *)*p + skipped;
	*len -= skipped;
	return *len > 0 && !g->full;
}

/* Copy a piece of up to REDB_GATHER_COPY bytes to buf. */
static inline void
redb_gather_copy(struct redb_gather *g, const void *p, size_t len)
{
	if (!redb_gather_enter(g, &p, &len))
		return;
	if (g->used + len > REDB_GATHER_BUF || (!g->open && g->n == REDB_GATHER_IOV)) {
		g->full = true;
		return;
	}
	if (!g->open)
		g->iov[g->n++] = (struct iovec){ .iov_base = g->buf + g->used };
	memcpy(g->buf + g->used, p, len);
	g->open = true;
	g->used += len;
	g->bytes += len;
	g->iov[g->n - 1].iov_len += len;
}

/* Add a piece. A long one is not copied: p must not change until it is written. */
static inline void
redb_gather_add(struct redb_gather *g, const void *p, size_t len)
{
	if (len <= REDB_GATHER_COPY) {
		redb_gather_copy(g, p, len);
		return;
	}
	if (!redb_gather_enter(g, &p, &len))
		return;
	if (g->n == REDB_GATHER_IOV) {
		g->full = true;
		return;
	}
	g->iov[g->n++] = (struct iovec){ .iov_base = (void *)(uintptr_t)p, .iov_len = len };
	g->open = false;
	g->bytes += len;
}

#endif /* REDB_GATHER_H */
