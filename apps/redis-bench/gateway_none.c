/* SPDX-License-Identifier: BSD-3-Clause */

/* In the place of gateway.c, where leat-redis-gateway is not built. */

#include <leat_error.h>

#include "bench.h"

bool
redb_gateway_known(void)
{
	return false;
}

int
redb_gateway_open(struct redb_bench *b)
{
	return leat_err(ENOTSUP, "--gateway %s: leat-redis-gateway was not built", b->o.gateway);
}

void
redb_gateway_close(struct redb_bench *b)
{
	(void)b;
}
