/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LCORES_H
#define LCORES_H

/* Two endpoints of the ring device on two pinned lcores, for the benchmarks of the ring driver. */

#include <leat_fabric.h>

#include "bench.h"
#include "pair.h"

struct lcores {
	int cpus[2];
	unsigned int worker; /* lcore of the second side */
	struct pair pair;
	struct leat_ep *ep[2];
	uint16_t peer[2]; /* of ep[i]: the other one */
};

/*
 * Starts leat with two lcores, one per CPU (skips the benchmark if there is only one), makes an endpoint for each
 * and connects them.
 */
void lcores_start(struct lcores *l, const struct bench_args *args, const struct leat_ep_conf *conf);
/* Runs fn(arg) on the second lcore. */
void lcores_launch(struct lcores *l, int (*fn)(void *arg), void *arg);
/* Waits for it (it was told PAIR_QUIT), closes all. */
void lcores_stop(struct lcores *l);

#endif /* LCORES_H */
