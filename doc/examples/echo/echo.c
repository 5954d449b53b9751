/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * An echo server, which sends every message back, and a client that compares the echoes.
 *
 *	make && ./echo				both sides, on two lcores or on one (-l 0)
 *	./echo --vdev=fabric_ofi0,provider=tcp -- server 127.0.0.1:7471
 *	./echo --vdev=fabric_ofi0,provider=tcp -- client 127.0.0.1:7471 10000 64
 *
 *     server                                 client
 *       accept ------------> session           dial
 *       accept               recv <----------- send      COUNT messages of SIZE bytes
 *       ...                  send -----------> recv      compare with what was sent
 *                            close             close
 *
 * The server runs a task per connection. Ctrl-C cancels these tasks: leat_msg_task_recv() returns
 * an error, and messages that the task has sent go out before the program ends.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_errno.h>

#include <leat_app.h>
#include <leat_error.h>
#include <leat_msg_task.h>
#include <leat_time.h>

#define SIZE_MAX_B (1U << 20)
#define CLOSE_US 1000000
#define DIAL_US 5000000
#define ANSWER_US 5000000

static struct leat_app app;
static const char *role = "both", *addr = "127.0.0.1:7471";
static unsigned long count = 1000, size = 64;

/* Echo the messages of one connection: a task per connection. */
static int
session(void *arg)
{
	struct leat_msg_conn *c = (struct leat_msg_conn *)arg;
	uint8_t *buf = (uint8_t *)malloc(SIZE_MAX_B);
	int n = -1;

	while (buf != NULL && (n = leat_msg_task_recv(c, buf, SIZE_MAX_B)) >= 0)
		if (leat_msg_task_send(c, buf, (size_t)n) < 0)
			break;
	/* The client closed or died, or this program stops: leat_err_msg() says which. */
	(void)leat_msg_task_close(c, CLOSE_US);
	free(buf);
	return n;
}

static int
serve(void *arg)
{
	struct leat_msg_net *net = leat_msg_net_open(NULL);
	struct leat_msg_conn *c;

	(void)arg;
	if (net == NULL || leat_msg_task_listen(net, addr) < 0)
		return -rte_errno;
	while (leat_msg_task_accept(net, &c) == 0)
		if (leat_task_start("session", session, c) < 0)
			(void)leat_msg_task_close(c, 0);
	return -rte_errno;
}

/* Send one message and compare its echo. */
static int
ask(struct leat_msg_conn *c, uint8_t *out, uint8_t *in)
{
	int ret = leat_msg_task_send(c, out, size);

	if (ret == 0)
		ret = leat_task_within(ANSWER_US, leat_msg_task_recv(c, in, size));
	if (ret >= 0 && ((size_t)ret != size || memcmp(in, out, size) != 0))
		return leat_err(EBADMSG, "%s answers with something else", addr);
	return ret < 0 ? ret : 0;
}

static int
talk(struct leat_msg_conn *c)
{
	static uint8_t out[SIZE_MAX_B], in[SIZE_MAX_B];
	uint64_t begin = leat_now();
	unsigned long i, k;
	int ret = 0;

	for (i = 0; i < count && ret == 0; i++) {
		for (k = 0; k < size; k++)
			out[k] = (uint8_t)(i + k * 7);
		ret = ask(c, out, in);
	}
	if (ret < 0)
		return ret;
	printf("%lu echoes of %lu B, %.1f us each\n", count, size,
	       (double)leat_cycles_to_ns(leat_now() - begin) / 1000.0 / (double)count);
	return leat_msg_task_close(c, CLOSE_US);
}

static int
start(void *arg)
{
	unsigned int last = leat_app_count() > 1 ? 1 : 0;
	struct leat_msg_net *net;
	struct leat_msg_conn *c;
	int ret;

	(void)arg;
	if (*role == 's')
		return leat_app_index() == 0 ? serve(NULL) : 0;
	if (*role == 'b' && leat_app_index() == 0 && leat_task_start("server", serve, NULL) < 0)
		return -rte_errno;
	if (leat_app_index() != (int)last)
		return LEAT_APP_STAY;
	net = leat_msg_net_open(NULL);
	if (net == NULL || leat_msg_task_dial(net, addr, DIAL_US, &c) < 0)
		return -rte_errno;
	ret = talk(c);
	if (ret == 0)
		leat_app_stop(LEAT_APP_OK);
	return ret;
}

static int
parse(int argc, char **argv, void *arg)
{
	(void)arg;
	if (argc > 2) {
		role = argv[1];
		addr = argv[2];
	}
	if (argc > 4) {
		count = strtoul(argv[3], NULL, 10);
		size = strtoul(argv[4], NULL, 10);
	}
	if (argc == 1)
		return 0;
	if ((argc != 3 && argc != 5) ||
	    (strcmp(role, "server") != 0 && strcmp(role, "client") != 0))
		return -EINVAL;
	if (count > 0 && size <= SIZE_MAX_B)
		return 0;
	fprintf(stderr, "echo: COUNT is from 1 on, SIZE up to %u\n", SIZE_MAX_B);
	return -EINVAL;
}

int
main(int argc, char **argv)
{
	app.usage = "server|client ADDRESS [COUNT SIZE]";
	app.parse = parse;
	app.start = start;
	return leat_app_run(argc, argv, &app);
}
