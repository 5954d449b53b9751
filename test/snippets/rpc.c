/* SPDX-License-Identifier: BSD-3-Clause */

/* Code of doc/guide/rpc.md, on one lcore: a server, and a client of it in a task. */

/* clang-format off */

#include <leat_app.h>
#include <leat_fabric.h>
#include <leat_rpc_task.h>
#include <leat_scope.h>
#include <leat_task.h>

#include "snippets.h"

#define LOOKUP 1
#define STORE 2

static uint32_t
find(void *table, const void *key, uint32_t key_len, void *value, uint32_t room)
{
	const char *answer = (const char *)table;
	uint32_t len = (uint32_t)strlen(answer);

	CHECK(key_len == 5 && memcmp(key, "time?", 5) == 0);
	CHECK(len <= room);
	memcpy(value, answer, len);
	return len;
}

static int
lookup(struct leat_rpc_incoming *call, void *arg)       /* in the loop: must not wait */
{
	call->resp_len = find(arg, call->req, call->len, call->resp, call->room);
	return 0;                                       /* or -errno: the caller's status */
}

static int
store_task(void *arg)
{
	struct leat_rpc_incoming *call = (struct leat_rpc_incoming *)arg;
	static char page[4096];
	int ret;

ret = leat_rpc_pull(call, 0, 0, page, leat_rpc_incoming_bulk(call, 0, NULL), NULL);
leat_rpc_answer(call, ret);

	CHECK(ret == 0 && page[0] == 'b' && page[4095] == 'b');
	return 0;
}

static int
store(struct leat_rpc_incoming *call, void *arg)
{
	call = leat_rpc_defer(call);
	CHECK(call != NULL && leat_task_start("store", store_task, call) >= 0);
	(void)arg;
	return LEAT_RPC_DEFERRED;
}

static void
server(void)
{
	static char noon[] = "noon";
	struct leat_rpc *rpc;
	char *table = noon;

rpc = leat_rpc_open(NULL, NULL, NULL);                  /* an endpoint, and this reactor polls both */
leat_rpc_handler_set(rpc, LOOKUP, lookup, table, 0);
leat_ep_listen(leat_rpc_ep(rpc), "10.0.0.1:7000");      /* accepts, handles, answers */

	leat_rpc_handler_set(rpc, STORE, store, NULL, 0);
}

static void
client(void)
{
	const char *key = "time?";
	const uint32_t key_len = 5;
	struct leat_rpc_session *s;
	struct leat_rpc *rpc;
	char value[64];
	static char block[4096];
	struct leat_rpc_bulk bulk;
	struct leat_rpc_req req, *reqs = &req;
	int ret;

rpc = leat_rpc_open(NULL, NULL, NULL);
s = leat_rpc_connect(rpc, "10.0.0.1:7000", NULL);       /* both sides may call */

ret = leat_rpc_call(s, LOOKUP, key, key_len, value, sizeof(value), 0);

	CHECK(ret == 4 && memcmp(value, "noon", 4) == 0);

ret = leat_task_within(100, leat_rpc_call(s, LOOKUP, key, key_len, value, sizeof(value), 0));

	/* On a busy machine 100 us may have been too little. */
	CHECK(ret == 4 || ret == -ETIMEDOUT);
	memset(block, 'b', sizeof(block));
	memset(&req, 0, sizeof(req));

bulk.addr = block;
bulk.len = sizeof(block);
bulk.mr = NULL;                                         /* or what it is registered as */
bulk.access = LEAT_RPC_BULK_PULL;
req.session = s;
req.type = STORE;
req.flags = LEAT_RPC_BULK;
req.bulk = &bulk;
req.nb_bulk = 1;
ret = leat_rpc_call_many(&reqs, 1);                     /* reqs points to req */

	CHECK(ret == 0);
	CHECK(leat_rpc_close(s, 1000000) == 0);
}

static int
start(void *arg)
{
	(void)arg;
	server();
	client();
	leat_app_stop(0);
	return 0;
}

static void
end_of_program(void *arg)
{
	(void)arg;
	printf("done\n");
}

int
main(int argc, char **argv)
{
	struct leat_app app;

	memset(&app, 0, sizeof(app));
	app.start = start;
	app.end = end_of_program;
	return leat_app_run(argc, argv, &app);
}
