/* SPDX-License-Identifier: BSD-3-Clause */
/* A request and its answer: between two lcores, two tasks of one lcore, or two processes:
 *	./hello -l 0 --vdev=fabric_ofi0,provider=tcp -- server 127.0.0.1:7471	(or client) */
#include <leat_app.h>
#include <leat_msg_task.h>
#include <rte_errno.h>
#include <stdio.h>
#include <string.h>
static struct leat_app app;
static const char *role = "", *addr = "127.0.0.1:7471";
static int
talk(void *serves) /* task of the server; NULL: of the client, which dials for up to 5 s */
{
	struct leat_msg_net *net = leat_msg_net_open(NULL); /* closed when the program stops */
	struct leat_msg_conn *c;
	char text[64] = "";
	if (net == NULL ||
	    (serves ? leat_msg_task_listen(net, addr) < 0 || leat_msg_task_accept(net, &c) < 0
		    : leat_msg_task_dial(net, addr, 5000000, &c) < 0 ||
			      leat_msg_task_send(c, "hello, server", 13) < 0) ||
	    leat_msg_task_recv(c, text, sizeof(text) - 1) < 0 || printf("%s\n", text) < 0 ||
	    (serves && leat_msg_task_send(c, "hello, client", 13) < 0))
		return -rte_errno; /* leat_err_msg() names the call, the peer and the cause */
	return leat_msg_task_close(c, 1000000);
}
static int
start(void *arg) /* on each lcore: server on the first, client on the second (or also the first) */
{
	const int self = leat_app_index(), last = *role == '\0' && leat_app_count() > 1;
	(void)arg;
	if (*role == '\0' && last == 0 && leat_task_start("server", talk, &app) < 0)
		return -rte_errno;
	return self > last ? 0 : talk(*role == 's' || self < last ? &app : NULL);
}
static int
parse(int argc, char **argv, void *arg)
{
	(void)arg;
	role = argc > 1 ? argv[1] : role;
	addr = argc > 2 ? argv[2] : addr;
	return -(argc > 1 && (argc > 3 || strcmp(role, *role == 's' ? "server" : "client") != 0));
}
int
main(int argc, char **argv)
{
	app.usage = "server|client [ADDRESS]";
	app.parse = parse;
	app.start = start;
	return leat_app_run(argc, argv, &app);
}
