/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * leat-msg-kill EAL-ARGUMENTS -- leat|plain to|from
 *
 * Of three processes one listens, and two connect to it. One of these two is killed (SIGKILL) in
 * the middle of a message of 64 MiB, which it receives (to) or sends (from). Its connection must
 * end and return every request, while the messages of the other process go on.
 *
 * In the middle means: the receiver knows the length and was asked for a buffer, and a part of the
 * payload has not arrived yet.
 */

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <leat_error.h>
#include <leat_fabric.h>
#include <leat_msg.h>
#include <leat_time.h>

#define LARGE (64u << 20)
#define AFTER 200 /* messages of the bystander after the death */
#define PATIENCE_US 60000000
#define END_US 20000000 /* time for the connections to close, and for a process to end */

#define check(cond, ...)                                                                           \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, __VA_ARGS__);                                              \
			fprintf(stderr, "\n");                                                     \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

enum { VICTIM, BYSTANDER };

static struct leat_ep *ep;
static struct leat_msg *m;
static struct leat_msg_conn_conf conf;
static uint8_t *large;
static bool middle; /* the receiver was asked for a buffer for the large message */

static void *
alloc(void *arg, uint64_t len, struct leat_mr **mr)
{
	(void)arg;
	*mr = NULL;
	middle = len == LARGE;
	return large;
}

static void
start(int argc, char **argv)
{
	const struct leat_ep_conf econf = {
		.ops = LEAT_OP_BIT(LEAT_OP_TSEND) | LEAT_OP_BIT(LEAT_OP_TRECV),
		.max_peers = 4,
	};

	check(leat_init(argc, argv) >= 0, "leat_init: %s", leat_err_msg());
	ep = leat_ep_create(leat_dev_get(0), &econf);
	check(ep != NULL, "endpoint: %s", leat_err_msg());
	m = leat_msg_create(ep, NULL);
	check(m != NULL, "messages: %s", leat_err_msg());
	large = malloc(LARGE);
	check(large != NULL, "no memory");
	memset(large, 1, LARGE);
	conf.alloc = alloc;
	conf.timeout_us = PATIENCE_US;
}

/* Poll once. @return a completed request, or NULL */
static struct leat_msg_req *
turn(void)
{
	struct leat_msg_req *req = NULL;
	struct leat_op *ops[32];
	uint16_t n = leat_ep_poll(ep, ops, 32);

	check(leat_msg_process(m, ops, n) == 0, "an op of nobody");
	(void)leat_msg_poll(m, &req, 1);
	if (n == 0 && req == NULL)
		sched_yield();
	return req;
}

/* ---- the two processes that connect ---- */

static __attribute__((noreturn)) void
child(unsigned int who, const char *addr, bool from)
{
	struct leat_msg_req tx = { .size = 8 }, rx = { .size = LARGE }, *p;
	struct leat_msg_event mev;
	struct leat_msg_conn *c;
	struct leat_event ev;
	uint64_t word = 0;

	conf.priv = &who;
	conf.priv_len = sizeof(who);
	c = leat_msg_connect(m, addr, &conf);
	check(c != NULL, "connect: %s", leat_err_msg());
	p = &tx;
	tx.buf = &word;
	if (who == VICTIM) {
		tx.buf = large;
		tx.size = LARGE;
	}
	if (who == BYSTANDER || from)
		check(leat_msg_send(c, &p, 1) == 1, "send");
	if (who == BYSTANDER || !from) {
		p = &rx;
		if (who == BYSTANDER) {
			rx.buf = &word;
			rx.size = 8;
		}
		check(leat_msg_recv(c, &p, 1) == 1, "recv");
	}
	for (;;) {
		p = turn();
		/* The bystander sends every message back until the end. */
		if (p == &rx && who == BYSTANDER) {
			if (p->status != 0)
				_exit(p->status == -ENOTCONN ? 0 : 1);
			check(leat_msg_recv(c, &p, 1) == 1, "recv");
			p = &tx;
			check(leat_msg_send(c, &p, 1) == 1, "send");
		}
		if (middle)
			raise(SIGKILL);
		while (leat_ep_events(ep, &ev, 1) == 1)
			(void)leat_msg_handle_event(m, &ev);
		while (leat_msg_events(m, &mev, 1) == 1)
			check(mev.type != LEAT_MSG_ENDED || mev.status == 0, "%u: ended: %s", who,
			      mev.text);
	}
}

/* ---- the process with the endpoint ---- */

static struct leat_msg_conn *conns[2];
static bool ended[2];
static unsigned int closed;

static void
events(void)
{
	struct leat_msg_event mev;
	struct leat_event ev;
	unsigned int who;
	uint16_t len;

	while (leat_ep_events(ep, &ev, 1) == 1) {
		if (ev.type != LEAT_EV_CONNECT_REQ) {
			(void)leat_msg_handle_event(m, &ev);
			continue;
		}
		memcpy(&who, leat_msg_priv(&ev, &len), sizeof(who));
		check(len == sizeof(who) && who <= BYSTANDER, "wrong private data");
		conns[who] = leat_msg_accept(m, &ev, &conf);
		check(conns[who] != NULL, "accept: %s", leat_err_msg());
	}
	while (leat_msg_events(m, &mev, 1) == 1) {
		if (mev.type == LEAT_MSG_ENDED) {
			check(mev.conn == conns[VICTIM], "the bystander's connection: %s",
			      mev.text);
			check(mev.status < 0, "the killed one closed cleanly");
			ended[VICTIM] = true;
		}
		closed += mev.type == LEAT_MSG_CLOSED;
	}
}

/* Wait until a process has ended. @return its status, as of waitpid() */
static int
wait_for(pid_t pid, const char *name)
{
	uint64_t until = leat_now() + leat_us_to_cycles(END_US);
	int status;
	pid_t ret;

	while ((ret = waitpid(pid, &status, WNOHANG)) == 0) {
		check(leat_now() < until, "waited in vain: the %s does not end", name);
		sched_yield();
	}
	check(ret == pid, "waitpid: %s", strerror(errno));
	return status;
}

static void
parent(bool from, pid_t victim, pid_t bystander)
{
	struct leat_msg_req big = { .size = LARGE }, tx = { .size = 8 }, rx = { .size = 8 }, *p;
	uint64_t until = leat_now() + leat_us_to_cycles(PATIENCE_US), in, out = 0;
	unsigned int after = 0;
	bool back = false;
	int status;

	while (conns[VICTIM] == NULL || conns[BYSTANDER] == NULL) {
		check(leat_now() < until,
		      "waited in vain: victim %sconnected, bystander %sconnected",
		      conns[VICTIM] == NULL ? "not " : "", conns[BYSTANDER] == NULL ? "not " : "");
		events();
	}
	p = &big;
	big.buf = from ? NULL : large;
	check((from ? leat_msg_recv(conns[VICTIM], &p, 1) : leat_msg_send(conns[VICTIM], &p, 1)) ==
		      1,
	      "post");
	tx.buf = &out;
	rx.buf = &in;
	p = &rx;
	check(leat_msg_recv(conns[BYSTANDER], &p, 1) == 1, "recv");
	while (!ended[VICTIM] || !back || after < AFTER) {
		check(leat_now() < until, "waited in vain: ended %d, back %d, %u messages",
		      ended[VICTIM], back, after);
		p = turn();
		if (p == &big) {
			check(p->status < 0, "the message is there");
			back = true;
		} else if (p == &rx) {
			check(p->status == 0 && in == out, "the bystander's message");
			after += ended[VICTIM];
			out++;
			p = &rx;
			check(leat_msg_recv(conns[BYSTANDER], &p, 1) == 1, "recv");
			p = &tx;
			check(leat_msg_send(conns[BYSTANDER], &p, 1) == 1, "send");
		}
		if (from && middle && victim > 0) {
			check(kill(victim, SIGKILL) == 0, "kill");
			victim = 0;
		}
		events();
	}
	check(leat_msg_close(conns[VICTIM], 0) == 0, "close");
	check(leat_msg_close(conns[BYSTANDER], 1000000) == 0, "close");
	until = leat_now() + leat_us_to_cycles(END_US);
	while (closed < 2) {
		check(leat_now() < until, "waited in vain: %u of 2 connections are closed", closed);
		(void)turn();
		events();
	}
	status = wait_for(bystander, "bystander");
	check(status == 0, "the bystander: %#x", (unsigned int)status);
	check(leat_msg_destroy(m) == 0, "destroy: %s", leat_err_msg());
}

int
main(int argc, char **argv)
{
	int fd[2][2], i, status;
	char addr[LEAT_ADDR_MAX];
	pid_t pid[2];
	bool from;

	check(argc > 2, "-- leat|plain to|from");
	from = strcmp(argv[argc - 1], "from") == 0;
	conf.mode = strcmp(argv[argc - 2], "plain") == 0 ? LEAT_MSG_PLAIN : LEAT_MSG_LEAT;
	/*
	 * Fork before libfabric and EAL are started. The children read the address from a pipe.
	 */
	for (i = 0; i < 2; i++) {
		check(pipe(fd[i]) == 0, "pipe");
		pid[i] = fork();
		check(pid[i] >= 0, "fork");
		if (pid[i] == 0) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
			check(read(fd[i][0], addr, sizeof(addr)) == sizeof(addr), "read");
			start(argc, argv);
			child((unsigned int)i, addr, from);
		}
	}
	start(argc, argv);
	check(leat_ep_listen(ep, "127.0.0.1:0") == 0 &&
		      leat_ep_listen_addr(ep, addr, sizeof(addr)) == 0,
	      "listen: %s", leat_err_msg());
	for (i = 0; i < 2; i++)
		check(write(fd[i][1], addr, sizeof(addr)) == sizeof(addr), "write");
	parent(from, pid[VICTIM], pid[BYSTANDER]);
	status = wait_for(pid[VICTIM], "victim");
	check(WIFSIGNALED(status), "the victim was not killed: %#x", (unsigned int)status);
	(void)leat_ep_close(ep, 1000000, NULL, NULL);
	free(large);
	check(leat_cleanup() == 0, "cleanup: %s", leat_err_msg());
	printf("killed while it was %s: the others went on\n", from ? "sending" : "receiving");
	return 0;
}
