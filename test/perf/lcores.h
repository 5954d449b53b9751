/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LCORES_H
#define LCORES_H

/*
 * Two pinned lcores that measure together. The benchmarks of the ring driver have an endpoint on
 * each, and the two are connected.
 */

#include <leat_fabric.h>

#include "bench.h"
#include "pair.h"

/* The two sides of what is measured, each for n messages or round trips. */
struct lcores_variant {
	void (*first)(uint64_t n);
	void (*second)(uint64_t n);
};

struct lcores {
	int cpus[2];
	unsigned int worker; /* lcore of the second side */
	struct pair pair;
	struct leat_ep *ep[2];
	uint16_t peer[2]; /* of ep[i]: the other one */
	const struct lcores_variant *variants;
};

/*
 * Starts leat with a device and two lcores, one per CPU. Skips the benchmark if there is only one
 * CPU.
 * @return 0, or what leat_init() returned
 */
int lcores_init(struct lcores *l, const struct bench_args *args, const char *device);
/* Starts leat with a ring device, makes an endpoint for each lcore and connects them. */
void lcores_start(struct lcores *l, const struct bench_args *args, const struct leat_ep_conf *conf);
/* Makes the second lcore ready for lcores_run(). */
void lcores_launch(struct lcores *l, const struct lcores_variant *variants);
/*
 * Both sides of a variant, side by side.
 * @param both take the time until both are through, not only the first
 * @param[out] disturbed whether one of the two was pushed off its CPU
 * @return ns
 */
uint64_t lcores_run(struct lcores *l, unsigned int variant, uint64_t n, bool both, bool *disturbed);
/* Undoes lcores_launch(). */
void lcores_join(struct lcores *l);
/* Closes all. Nothing runs on the second lcore any more. */
void lcores_stop(struct lcores *l);

#endif /* LCORES_H */
