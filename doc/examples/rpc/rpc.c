/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A key-value service over remote calls, and a client that survives a restart of its server.
 *
 *	make && ./rpc				both sides, on two lcores or on one (-l 0)
 *	./rpc --vdev=fabric_ofi0,provider=tcp -- server 127.0.0.1:7474
 *	./rpc --vdev=fabric_ofi0,provider=tcp -- client 127.0.0.1:7474 100000
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_errno.h>
#include <leat_app.h>
#include <leat_rpc_task.h>
#include <leat_scope.h>
#include <leat_time.h>

enum { PUT = 1, GET, WAIT, KEYS = 1024 };

static unsigned long table[KEYS][2]; /* key, value; key 0: a free entry */
static const char *role = "both", *addr = "127.0.0.1:7474";
static unsigned long count = 1000;

/* Answer a PUT or GET: the handler has the result at once. */
static int
answer(struct leat_rpc_incoming *call, void *arg __rte_unused)
{
	unsigned long entry[2], *place;

	if (call->len != (call->type == PUT ? sizeof(entry) : sizeof(*entry)))
		return -EINVAL;
	memcpy(entry, call->req, call->len);
	place = table[entry[0] % KEYS];
	if (call->type == PUT)
		memcpy(place, entry, sizeof(entry));
	else if (*place != entry[0] || *place == 0)
		return -ENOENT;
	else
		memcpy(call->resp, &place[1], call->resp_len = sizeof(place[1]));
	return 0;
}

/* Answer a WAIT, a GET that waits for its key, from a task, unless the caller gives up. */
static int
wait_task(void *arg)
{
	struct leat_rpc_incoming *call = (struct leat_rpc_incoming *)arg;
	int ret = answer(call, NULL);

	while (ret == -ENOENT && !call->cancelled && leat_now() < call->deadline &&
	       leat_task_sleep(500) == 0)
		ret = answer(call, NULL);
	leat_rpc_answer(call, ret);
	return 0;
}

static int
answer_later(struct leat_rpc_incoming *call, void *arg __rte_unused)
{
	struct leat_rpc_incoming *later = leat_rpc_defer(call);

	if (later == NULL) /* leat_rpc_conf.tickets calls are deferred already */
		return -EBUSY;
	if (leat_task_start("wait", wait_task, later) < 0)
		leat_rpc_answer(later, -EBUSY);
	return LEAT_RPC_DEFERRED;
}

static int
serve(void)
{
	struct leat_rpc *rpc = leat_rpc_open(NULL, NULL, NULL); /* closed when its lcore stops */

	if (rpc == NULL || leat_rpc_handler_set(rpc, PUT, answer, NULL, 0) < 0 ||
	    leat_rpc_handler_set(rpc, GET, answer, NULL, 0) < 0 ||
	    leat_rpc_handler_set(rpc, WAIT, answer_later, NULL, 0) < 0 ||
	    leat_ep_listen(leat_rpc_ep(rpc), addr) < 0)
		return -rte_errno;
	return 0;
}

static int
client(void)
{
	struct leat_rpc *rpc = leat_rpc_open(NULL, NULL, NULL);
	struct leat_rpc_session_conf conf = {};
	unsigned long e[2] = { 1, 1 }, v = 0;
	struct leat_rpc_session *s;
	int ret = 0, before;

	conf.deadline_us = 1000000;	/* of each call */
	conf.reconnect_max_us = 100000; /* longest pause between attempts to reconnect */
	if (rpc == NULL || (s = leat_rpc_connect(rpc, addr, &conf)) == NULL)
		return -rte_errno;
	while (e[0] <= count && (before = ret) != -ECANCELED) { /* Ctrl-C cancels */
		ret = leat_rpc_call(s, PUT, e, sizeof(e), NULL, 0, 0);
		if (ret == 0)
			ret = leat_rpc_call(s, GET, e, sizeof(*e), &v, sizeof(v), 0);
		if (ret == (int)sizeof(v) && v == e[1]) {
			if (ret != before) /* the first call, or the first after a failure */
				fprintf(stderr, "key %lu: answered\n", *e);
			e[1] = ++e[0] * 7;
		} else { /* the server died, or a restarted one lacks the key: try again */
			fprintf(stderr, "key %lu: %s\n", *e, strerror(ret < 0 ? -ret : EBADMSG));
		}
	}
	printf("%lu keys\n", e[0] - 1);
	if (ret == -ECANCELED)
		return 0;
	e[0] = ~0UL; /* No client puts this key: the call is cancelled after 2 ms, on both sides. */
	ret = leat_task_within(2000, leat_rpc_call(s, WAIT, e, sizeof(*e), &v, sizeof(v), 0));
	printf("no such key within 2 ms: %s\n", strerror(-ret));
	leat_app_stop(LEAT_APP_OK); /* stops the server's lcore, too */
	return 0;
}

/* Start this lcore's part: the server on the first lcore, the client on the last. */
static int
start(void *arg __rte_unused)
{
	if (*role != 'c' && leat_app_index() == 0 && serve() < 0)
		return -rte_errno;
	if (*role != 's' && leat_app_index() == (int)leat_app_count() - 1)
		return client();
	return LEAT_APP_STAY;
}

static int
parse(int argc, char **argv, void *arg __rte_unused)
{
	role = argc > 1 ? argv[1] : role;
	addr = argc > 2 ? argv[2] : addr;
	count = argc > 3 ? strtoul(argv[3], NULL, 10) : count;
	if (argc > 1 && strcmp(role, "server") != 0 && strcmp(role, "client") != 0)
		return -EINVAL;
	return argc == 2 || argc > 4 || count == 0 ? -EINVAL : 0;
}

int
main(int argc, char **argv)
{
	struct leat_app app = {};

	app.usage = "server|client ADDRESS [COUNT]";
	app.parse = parse;
	app.start = start;
	return leat_app_run(argc, argv, &app);
}
