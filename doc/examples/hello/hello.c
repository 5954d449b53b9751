/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A request and its answer, between two lcores (./hello -l 0,1), or two processes on any device:
 *	./hello -l 0 --vdev=fabric_ofi0,provider=tcp -- server 127.0.0.1:7471	(or client)
 */
#include <leat_app.h>
#include <leat_msg_task.h>
#include <rte_errno.h>
#include <stdio.h>

static struct leat_app app;
static const char *role = "", *addr = "127.0.0.1:7471";
static int
start(void *arg) /* a task on each lcore: the server on the first one, the client on the second */
{
	const bool serves = *role == 's' || (*role != 'c' && leat_app_index() == 0);
	struct leat_msg_net *net = leat_msg_net_open(NULL); /* the program's stop closes it */
	struct leat_msg_conn *c;
	char text[64] = "";

	(void)arg;
	if (leat_app_index() > 1)
		return 0;
	if (net == NULL || /* the client tries for 5 s: the server may come later */
	    (serves ? leat_msg_task_listen(net, addr) < 0 || leat_msg_task_accept(net, &c) < 0
		    : leat_msg_task_dial(net, addr, 5000000, &c) < 0 ||
			      leat_msg_task_send(c, "hello, server", 13) < 0) ||
	    leat_msg_task_recv(c, text, sizeof(text) - 1) < 0 ||
	    (serves && leat_msg_task_send(c, "hello, client", 13) < 0))
		return -rte_errno; /* leat_err_msg() names the call, the peer and the cause */
	printf("%s\n", text);
	return leat_msg_task_close(c, 1000000);
}

static int
parse(int argc, char **argv, void *arg)
{
	(void)arg;
	role = argc > 1 ? argv[1] : role;
	addr = argc > 2 ? argv[2] : addr;
	return 0;
}

int
main(int argc, char **argv)
{
	app.parse = parse;
	app.start = start;
	return leat_app_run(argc, argv, &app);
}
