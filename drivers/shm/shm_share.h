/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHM_SHARE_H
#define SHM_SHARE_H

/*
 * With share=1 a process gives its peers the memory that EAL has when the endpoint is created:
 * mempools, rte_malloc(). That memory lies in nameless files (memfds; of huge pages one file per
 * page, or one for all). A side sends the descriptor of a table, and then the descriptors of
 * these files. The table lists the pieces of memory in the files, and the regions that peers may
 * reach (ring_share.h).
 *
 * The files are EAL's and can't be sealed: a peer could truncate them, or write to any of their
 * bytes. So only processes of the same user get the files, since these processes could trace this
 * one anyway, and only if both sides have share=1.
 */

#include "leat_exchange.h"

#include "ring_pvt.h"

#include "shm_memory.h"

#define SHM_SHARE_FDS (LEAT_EXCHANGE_FDS_MAX - 4) /* four others: lane, asleep, board, table */

/* A stretch of memory in one file. */
struct shm_piece {
	uint64_t addr; /* address in the process that owns the memory */
	uint64_t len;
	uint64_t offset; /* offset in the file */
};

/* The table: peers can map it for reading only. */
struct shm_table {
	uint64_t nb; /* number of pieces, each with a descriptor */
	struct shm_piece pieces[SHM_SHARE_FDS];
	struct ring_entry entries[RING_ENTRIES];
};

/* The memory that an endpoint gives to its peers. */
struct shm_share {
	struct ring_share ring;
	struct shm_memory table;
	uint32_t nb_fds;
	int fds[1 + SHM_SHARE_FDS]; /* descriptors of the table, then of its pieces */
	bool watched;		    /* EAL reports when it frees some of the memory */
	bool more;		    /* EAL had more pieces than there are descriptors for */
};

/* A peer's memory as a connection has mapped it. */
struct shm_reach {
	struct ring_reach ring;
	struct shm_memory table;
	struct shm_memory runs[RING_ARENAS];
};

/* Create the share of an endpoint, from EAL's memory. @return NULL, with leat_err() */
struct shm_share *shm_share_new(const char *ep_name);
void shm_share_free(struct shm_share *s);
/* Remove all regions from the table. A peer that is in an op on a region finishes that op. */
void shm_share_withdraw_all(struct shm_share *s);

/*
 * Map the memory that a peer shares.
 * @param fds nb descriptors, as in the peer's shm_share.fds; they stay the caller's
 * @return NULL, with leat_err()
 */
struct shm_reach *shm_reach_new(const int *fds, unsigned int nb);
void shm_reach_free(struct shm_reach *r);

#endif /* SHM_SHARE_H */
