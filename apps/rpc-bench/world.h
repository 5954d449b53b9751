/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RB_WORLD_H
#define RB_WORLD_H

/*
 * The processes of a run, and their lcores. Each lcore of the run is a node. A node's number
 * contains its process's rank, so that each process can compute it.
 */

#include "tally.h"

#define RB_NODE_BITS 7
#define RB_NO_RANK UINT16_MAX

/* A process's description of itself. */
struct rb_card {
	uint64_t host; /* identifies the machine */
	uint32_t pid;
	uint16_t nb_lcores;
	char name[64]; /* name of the machine */
	char dev[32], driver[32], provider[40], interface[40];
	struct {
		uint16_t cpu, nb_cpus;
	} lcore[RB_LCORES_MAX];
};

struct rb_rank {
	struct rb_card card;
	char link[LEAT_ADDR_MAX]; /* role RB_RANKS: where the process's link listens */
	bool calls;		  /* the process's lcores make calls */
	uint32_t token;		  /* proves that a session to the process's nodes is of this run */
	char host[LEAT_ADDR_MAX]; /* host of the nodes */
	uint16_t port[RB_LCORES_MAX];
	bool lost; /* the process ended before the end of the run */
	char why[RB_TEXT];
	struct rb_result *result; /* result at the end of the run; NULL: none yet */
};

struct rb_world {
	uint16_t rank; /* this process */
	uint16_t nb_ranks;
	bool pair; /* two processes: no sessions between lcores of the same process */
	struct rb_rank *ranks;
};

static inline uint32_t
rb_node(uint16_t rank, uint16_t lcore)
{
	return (uint32_t)rank << RB_NODE_BITS | lcore;
}

static inline uint16_t
rb_node_rank(uint32_t node)
{
	return (uint16_t)(node >> RB_NODE_BITS);
}

static inline uint16_t
rb_node_lcore(uint32_t node)
{
	return (uint16_t)(node & ((1u << RB_NODE_BITS) - 1));
}

/* Do two nodes have a session? */
static inline bool
rb_world_joined(const struct rb_world *w, uint32_t a, uint32_t b)
{
	return a != b && (!w->pair || rb_node_rank(a) != rb_node_rank(b));
}

/* @return 0, or -ENOMEM */
int rb_world_init(struct rb_world *w, uint16_t rank, uint16_t nb_ranks, bool pair);
void rb_world_free(struct rb_world *w);
static inline struct rb_rank *
rb_world_self(const struct rb_world *w)
{
	return &w->ranks[w->rank];
}

/* Return the number of sessions of each node of this process. */
uint32_t rb_world_peers(const struct rb_world *w);
/*
 * Return the part of `total` calls that an lcore of this process makes. The parts of all calling
 * lcores differ by 1 at most.
 */
uint64_t rb_world_share(const struct rb_world *w, uint16_t lcore, uint64_t total);
/* Return the number of calling lcores of the run. */
uint32_t rb_world_callers(const struct rb_world *w);
/* Tell whether an lcore of this process might share a CPU with another lcore of the run. */
bool rb_world_crowded(const struct rb_world *w);
/* Return the rank of the process that leads the meetings. */
uint16_t rb_world_leader(const struct rb_world *w);
/* Return the number of ranks that are not lost, this one included. */
uint16_t rb_world_alive(const struct rb_world *w);

/* Add up all results that have arrived. */
void rb_world_sum(const struct rb_world *w, struct rb_tally *sum);

#endif /* RB_WORLD_H */
