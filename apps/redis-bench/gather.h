/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef REDB_GATHER_H
#define REDB_GATHER_H

/*
 * Bytes of requests or replies for one writev(): what is short is copied to a buffer of the lcore,
 * what is long is referred to where it is.
 *
 *     buf    *3..SET..key|..\r\n*3..SET..key|
 *     iov     0          1  2                3
 *     values             |                   |
 *                        [ 64 KiB of pool ]  [ 64 KiB of pool ]
 *
 * Bytes at the front that were written before are skipped.
 */

#include <stdbool.h>
#include <string.h>
#include <sys/uio.h>

#define REDB_GATHER_BUF 65536u
#define REDB_GATHER_IOV 64
/* Longer pieces are not copied. */
#define REDB_GATHER_COPY 4096u

struct redb_gather {
	char *buf; /* REDB_GATHER_BUF bytes */
	size_t used;
	size_t skip;
	size_t bytes; /* gathered */
	int n;
	bool open; /* the last one of iov is the end of buf */
	bool full; /* something was left out, and all that follows is */
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

/* @return false: skipped or left out */
static inline bool
redb_gather_enter(struct redb_gather *g, const void **p, size_t *len)
{
	size_t skipped = g->skip < *len ? g->skip : *len;

	g->skip -= skipped;
	*p = (const char *)*p + skipped;
	*len -= skipped;
	return *len > 0 && !g->full;
}

/* A copy of up to REDB_GATHER_COPY bytes. */
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

/* p must stay as it is until it is written. */
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
