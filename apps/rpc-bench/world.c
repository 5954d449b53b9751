/* SPDX-License-Identifier: BSD-3-Clause */

/* The processes and lcores of a run. */

#include <stdlib.h>

#include "world.h"

int
rb_world_init(struct rb_world *w, uint16_t rank, uint16_t nb_ranks, bool pair)
{
	uint16_t i;

	w->ranks = calloc(nb_ranks, sizeof(*w->ranks));
	if (w->ranks == NULL)
		return -ENOMEM;
	w->rank = rank;
	w->nb_ranks = nb_ranks;
	w->pair = pair;
	for (i = 0; i < nb_ranks; i++)
		w->ranks[i].calls = true;
	return 0;
}

void
rb_world_free(struct rb_world *w)
{
	uint16_t i;

	for (i = 0; w->ranks != NULL && i < w->nb_ranks; i++)
		rb_result_free(w->ranks[i].result);
	free(w->ranks);
	w->ranks = NULL;
	w->nb_ranks = 0;
}

uint32_t
rb_world_peers(const struct rb_world *w)
{
	uint32_t n = 0;
	uint16_t i;

	for (i = 0; i < w->nb_ranks; i++) {
		if (!w->pair || i != w->rank)
			n += w->ranks[i].card.nb_lcores;
	}
	return w->pair ? n : n - 1;
}

uint32_t
rb_world_callers(const struct rb_world *w)
{
	uint32_t n = 0;
	uint16_t i;

	for (i = 0; i < w->nb_ranks; i++)
		n += w->ranks[i].calls ? w->ranks[i].card.nb_lcores : 0;
	return n;
}

uint64_t
rb_world_share(const struct rb_world *w, uint16_t lcore, uint64_t total)
{
	uint32_t callers = rb_world_callers(w), before = lcore;
	uint16_t i;

	if (!rb_world_self(w)->calls)
		return 0;
	for (i = 0; i < w->rank; i++)
		before += w->ranks[i].calls ? w->ranks[i].card.nb_lcores : 0;
	/* callers is at least 1: it includes this lcore. */
	return callers == 0 ? 0 : total / callers + (before < total % callers);
}

static bool
lcores_share(const struct rb_card *a, uint16_t i, const struct rb_card *b, uint16_t k)
{
	if (a->host != b->host)
		return false;
	if (a->lcore[i].nb_cpus == 1 && b->lcore[k].nb_cpus == 1)
		return a->lcore[i].cpu == b->lcore[k].cpu;
	return true; /* at least one thread is not pinned: its CPU is not known */
}

bool
rb_world_crowded(const struct rb_world *w)
{
	const struct rb_card *mine = &rb_world_self(w)->card, *c;
	uint16_t r, i, k;

	for (r = 0; r < w->nb_ranks; r++) {
		c = &w->ranks[r].card;
		for (i = 0; i < mine->nb_lcores; i++) {
			for (k = 0; k < c->nb_lcores; k++) {
				if ((c != mine || i != k) && lcores_share(mine, i, c, k))
					return true;
			}
		}
	}
	return false;
}

uint16_t
rb_world_leader(const struct rb_world *w)
{
	uint16_t i;

	if (w->pair)
		return 1;
	for (i = 0; i < w->rank && w->ranks[i].lost; i++)
		;
	return i;
}

uint16_t
rb_world_alive(const struct rb_world *w)
{
	uint16_t i, n = 0;

	for (i = 0; i < w->nb_ranks; i++)
		n += !w->ranks[i].lost;
	return n;
}

void
rb_world_sum(const struct rb_world *w, struct rb_tally *sum)
{
	const struct rb_result *r;
	uint16_t i, k;

	*sum = (struct rb_tally){ .others = -1 };
	for (i = 0; i < w->nb_ranks; i++) {
		r = w->ranks[i].result;
		for (k = 0; r != NULL && k < r->nb_lcores; k++)
			rb_tally_add(sum, &r->lcore[k]);
	}
}
