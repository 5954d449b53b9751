/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * --gateway: run leat-redis-gateway's engine in this process, between the clients and a server. So
 * the cost of the gateway can be measured without a NIC.
 *
 *     clients ==stream over ring== gateway --socket-- server
 */

#include <leat_error.h>

#include "../redis-gateway/gateway.h"
#include "bench.h"

int
redb_gateway_open(struct redb_bench *b)
{
	struct gw_conf conf = {
		.listen = b->addr.at,
		.to = b->o.gateway,
		.dev = b->o.dev,
		.clients = b->o.plan.clients,
		.client_bytes = (uint32_t)b->o.window,
		.backend_us = b->o.timeout_us,
	};
	int ret = gw_guard(&conf);

	if (ret < 0)
		return ret;
	b->gateway = gw_open(b->service_reactor, &conf);
	if (b->gateway == NULL)
		return -rte_errno;
	return gw_addr(b->gateway, b->service_addr, sizeof(b->service_addr));
}

void
redb_gateway_close(struct redb_bench *b)
{
	if (gw_close(b->gateway) < 0)
		redb_msg("%s", leat_err_msg());
	b->gateway = NULL;
}
