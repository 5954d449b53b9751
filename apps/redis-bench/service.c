/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The service in this process: --respond or --gateway. If the process also has clients, the service
 * has the last of several lcores to itself. Without clients (--listen) it runs on the first lcore.
 */

#include <string.h>

#include <leat_error.h>
#include <leat_task_call.h>

#include "bench.h"
#include "serve.h"

/* Where the service listens for clients of this process. */
#define HERE "127.0.0.1:0"
#define SERVER_CLIENTS 1024u

bool
redb_service_wanted(const struct redb_options *o)
{
	return o->role == REDB_LOAD && (o->respond || o->gateway != NULL);
}

static int
server_open(struct redb_bench *b)
{
	const struct redb_server_conf conf = {
		.values = &b->values,
		.clients = b->o.role == REDB_SERVE ? RTE_MAX(b->o.plan.clients, SERVER_CLIENTS)
						   : b->o.plan.clients,
		.verify = b->o.plan.verify,
		.dev = b->o.dev,
		.window = b->o.window,
	};

	b->server = redb_server_open(b->service_reactor, &conf, &b->addr, b->service_addr,
				     sizeof(b->service_addr));
	return b->server != NULL ? 0 : -rte_errno;
}

static int
open_call(void *arg)
{
	struct redb_bench *b = arg;
	int ret = b->o.gateway != NULL ? redb_gateway_open(b) : server_open(b);

	/* leat_err_msg() belongs to this thread: the caller, on another thread, needs a copy. */
	if (ret < 0)
		snprintf(b->service_addr, sizeof(b->service_addr), "%s", leat_err_msg());
	return ret;
}

int
redb_service_open(struct redb_bench *b)
{
	int ret;

	b->service_reactor = leat_app_reactor(b->o.role == REDB_SERVE ? 0 : leat_app_count() - 1);
	if (leat_task_call(b->service_reactor, open_call, b, &ret) < 0)
		return redb_fail(b, ESHUTDOWN, "an lcore has stopped");
	if (ret < 0)
		return redb_fail(b, -ret, "%s", b->service_addr);
	b->addr.text = b->addr.at = b->service_addr;
	return 0;
}

const char *
redb_service_here(void)
{
	return HERE;
}

void
redb_service_close(struct redb_bench *b)
{
	redb_server_close(b->server);
	b->server = NULL;
	if (b->gateway != NULL)
		redb_gateway_close(b);
}
