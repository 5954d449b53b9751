/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RB_WORLD_H
#define RB_WORLD_H

/*
 * The processes of a run, and their lcores. An lcore of the run is a node; its number has the
 * process's rank in it, so that everybody knows it without counting.
 */

#include "tally.h"

#define RB_NODE_BITS 7
#define RB_NO_RANK UINT16_MAX

/* What a process tells of itself. */
struct rb_card {
	uint64_t host; /* equal on one machine */
	uint32_t pid;
	uint16_t nb_lcores;
	char name[64]; /* of the machine */
	char dev[32], driver[32], provider[40], interface[40];
	struct {
		uint16_t cpu, nb_cpus;
	} lcore[RB_LCORES_MAX];
};

struct rb_rank {
	struct rb_card card;
	char link[LEAT_ADDR_MAX]; /* of ranks: where its link listens */
	bool calls;		  /* its lcores call */
	uint32_t token;		  /* for sessions to its nodes */
	char host[LEAT_ADDR_MAX]; /* where they are */
	uint16_t port[RB_LCORES_MAX];
	bool lost; /* it ended before the end */
	char why[RB_TEXT];
	struct rb_result *result; /* at the end */
};

struct rb_world {
	uint16_t rank; /* this process */
	uint16_t nb_ranks;
	bool pair; /* sessions only between the two processes */
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

/* Nodes with which the nodes of this process have a session each. */
uint32_t rb_world_peers(const struct rb_world *w);
/*
 * Of `total` the share of a node of this process: all calling lcores get the same, but for a rest
 * of one each.
 */
uint64_t rb_world_share(const struct rb_world *w, uint16_t lcore, uint64_t total);
/* Calling lcores of the run. */
uint32_t rb_world_callers(const struct rb_world *w);
/* May lcores of this process have to share a CPU, with one another or with those of others? */
bool rb_world_crowded(const struct rb_world *w);
/* The process that leads the meetings. */
uint16_t rb_world_leader(const struct rb_world *w);
/* Those that are not lost, this one included. */
uint16_t rb_world_alive(const struct rb_world *w);

/* The sum of all results that are there. */
void rb_world_sum(const struct rb_world *w, struct rb_tally *sum);

#endif /* RB_WORLD_H */
