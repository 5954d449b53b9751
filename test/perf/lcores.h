/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LCORES_H
#define LCORES_H

/*
 * Two pinned lcores that measure together. The benchmarks of the ring driver have a connected
 * endpoint on each.
 */

#include <leat_fabric.h>

#include "bench.h"
#include "pair.h"

/* The two sides of a variant, each for n messages or round trips. */
struct lcores_variant {
	void (*first)(uint64_t n);
	void (*second)(uint64_t n);
};

struct lcores {
	int cpus[2];
	unsigned int worker; /* lcore of the second side */
	struct pair pair;
	struct leat_ep *ep[2];
	uint16_t peer[2]; /* peer[i]: the other endpoint, as a peer of ep[i] */
	const struct lcores_variant *variants;
};

/*
 * Start leat with a device and two lcores, one per CPU. Skip the benchmark if there is only one
 * CPU.
 * @return 0, or the value of leat_init()
 */
int lcores_init(struct lcores *l, const struct bench_args *args, const char *device);
/* Start leat with a ring device, create an endpoint for each lcore, and connect them. */
void lcores_start(struct lcores *l, const struct bench_args *args, const struct leat_ep_conf *conf);
/* Make the second lcore ready for lcores_run(). */
void lcores_launch(struct lcores *l, const struct lcores_variant *variants);
/*
 * Run both sides of a variant in parallel.
 * @param both measure until both are done, not only the first
 * @param[out] disturbed whether one of the two was preempted
 * @return duration, ns
 */
uint64_t lcores_run(struct lcores *l, unsigned int variant, uint64_t n, bool both, bool *disturbed);
/* Undo lcores_launch(). */
void lcores_join(struct lcores *l);
/* Close everything. The second lcore must be idle. */
void lcores_stop(struct lcores *l);

#endif /* LCORES_H */
