/* SPDX-License-Identifier: BSD-3-Clause */

/* --progress: a line each second on stderr, for a step that takes longer than two seconds. */

#include <unistd.h>

#include <leat_time.h>

#include "bench.h"

#define FIRST_S 2

static uint64_t
live(const struct redb_bench *b)
{
	uint64_t n = 0;
	uint16_t i;

	for (i = 0; i < b->nb_workers; i++)
		n += __atomic_load_n(&b->workers[i].live, __ATOMIC_RELAXED);
	return n;
}

void
redb_progress_begin(struct redb_bench *b)
{
	b->progress.at = UINT64_MAX;
	if (!b->o.progress && !isatty(STDERR_FILENO))
		return;
	b->progress.begin = leat_now();
	b->progress.at = leat_time_add(b->progress.begin, FIRST_S * leat_hz());
}

void
redb_progress(struct redb_bench *b)
{
	const bool tty = isatty(STDERR_FILENO);
	const uint64_t now = leat_now();
	uint64_t n;

	if (now < b->progress.at)
		return;
	n = live(b);
	fprintf(stderr, "%s%s, %.0f s, %" PRIu64 " requests answered%s", tty ? "\r" : "",
		b->step.command == NULL ? "connect" : b->step.command->name,
		(double)leat_cycles_to_ns(now - b->progress.begin) / 1e9, n,
		tty ? " \033[K" : "\n");
	b->progress.at = leat_time_add(now, leat_hz());
}

void
redb_progress_end(struct redb_bench *b)
{
	if (b->progress.at != UINT64_MAX && isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K");
	b->progress.at = UINT64_MAX;
}
