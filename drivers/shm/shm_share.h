/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHM_SHARE_H
#define SHM_SHARE_H

/*
 * With share=1 a process gives its peers the memory that EAL has when the endpoint is created:
 * mempools, rte_malloc(). It lies in files without names (memfds; of huge pages one per page, or
 * one for all), of which a side sends the descriptors, behind that of a table which says what is in
 * them, and in which the regions stand that peers may reach (ring_share.h).
 *
 * Those files can't be sealed, they are EAL's: a peer could cut them off, or write anywhere. So
 * only processes of this user get them, which could trace this one anyway, and only if both sides
 * ask for it.
 */

#include "leat_exchange.h"

#include "ring_pvt.h"

#include "shm_memory.h"

#define SHM_SHARE_FDS (LEAT_EXCHANGE_FDS_MAX - 4) /* there are four others */

/* A stretch of memory in one file. */
struct shm_piece {
	uint64_t addr; /* in the process whose it is */
	uint64_t len;
	uint64_t offset; /* in the file */
};

/* Memory that peers map for reading. */
struct shm_table {
	uint64_t nb; /* pieces, each with a descriptor */
	struct shm_piece pieces[SHM_SHARE_FDS];
	struct ring_entry entries[RING_ENTRIES];
};

/* What an endpoint gives. */
struct shm_share {
	struct ring_share ring;
	struct shm_memory table;
	uint32_t nb_fds;
	int fds[1 + SHM_SHARE_FDS]; /* of the table, of its pieces */
	bool watched;		    /* EAL tells when it frees some of it */
	bool more;		    /* there were more pieces than descriptors */
};

/* What a connection has of the other side. */
struct shm_reach {
	struct ring_reach ring;
	struct shm_memory table;
	struct shm_memory runs[RING_ARENAS];
};

/* @return NULL, with leat_err() */
struct shm_share *shm_share_new(const char *ep_name);
void shm_share_free(struct shm_share *s);
/* No region is in the table any more, as soon as those that touch one are through. */
void shm_share_withdraw_all(struct shm_share *s);

/*
 * Maps what the other side shares.
 * @param fds as in shm_share.fds, nb of them
 * @return NULL, with leat_err()
 */
struct shm_reach *shm_reach_new(const int *fds, unsigned int nb);
void shm_reach_free(struct shm_reach *r);

#endif /* SHM_SHARE_H */
