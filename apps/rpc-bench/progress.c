/* SPDX-License-Identifier: BSD-3-Clause */

/* A line each second on stderr, in the process that reports: calls of all processes. */

#include <unistd.h>

#include "bench.h"

uint64_t
rb_live(const struct rb_bench *b)
{
	uint64_t n = 0;
	uint16_t i;

	/* The nodes are being freed: return the number that leave() has kept. */
	if (b->phase == RB_LEAVING)
		return b->progress.final;
	for (i = 0; i < b->nb_nodes; i++)
		n += __atomic_load_n(&b->nodes[i]->live, __ATOMIC_RELAXED);
	return n;
}

static uint64_t
live_of_all(const struct rb_bench *b)
{
	uint64_t n = rb_live(b);
	uint32_t i;

	for (i = 0; i < b->link.nb_peers; i++)
		n += b->link.peers[i].live;
	return n;
}

void
rb_progress_begin(struct rb_bench *b)
{
	const bool reports = rb_world_leader(&b->world) == b->world.rank;

	b->progress.at = UINT64_MAX;
	if ((!b->o.progress && !isatty(STDERR_FILENO)) || b->o.role == RB_LISTEN || !reports)
		return;
	b->progress.begin = leat_now();
	b->progress.seen = 0;
	b->progress.at = leat_time_add(b->progress.begin, leat_hz());
}

uint64_t
rb_progress(struct rb_bench *b)
{
	const uint64_t now = leat_now();
	uint64_t n;
	double s;

	if (now < b->progress.at || b->phase != RB_RUNNING)
		return b->phase == RB_RUNNING ? b->progress.at : UINT64_MAX;
	n = live_of_all(b);
	s = (double)leat_cycles_to_ns(now - b->progress.begin) / 1e9;
	fprintf(stderr, "%s%.0f s, %" PRIu64 " calls done, %.3f Mcalls/s%s",
		isatty(STDERR_FILENO) ? "\r" : "", s, n,
		(double)(n - b->progress.seen) * (double)leat_hz() /
			(double)(now - (b->progress.at - leat_hz())) / 1e6,
		isatty(STDERR_FILENO) ? " \033[K" : "\n");
	b->progress.seen = n;
	b->progress.at = leat_time_add(now, leat_hz());
	return b->progress.at;
}

void
rb_progress_end(struct rb_bench *b)
{
	if (b->progress.seen > 0 && isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K");
	b->progress.at = UINT64_MAX;
}
