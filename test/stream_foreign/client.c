/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * foreign-client [OPTION]... ADDRESS PORT [TEST]...: a client of the Redis/Valkey RDMA protocol
 * that has no code of leat, for an echo server at the other end. It runs all rules ("rules"), all
 * offences ("offences"), or the named ones. It prints for each a line with "ok" or the reason of
 * the failure; the exit code is 1 when one failed. --help has the options.
 */

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "offences.h"
#include "rules.h"
#include "talk.h"

#define UP_MS 20000
#define PATIENCE_MS 30000
#define NEIGHBOUR_SEED 77
/* Bytes that the neighbour connection must have echoed after each offence. */
#define NEIGHBOUR_BYTES (200u << 10)

static const char *from, *to, *port, *self;
static bool soak;
static unsigned int connects = 100;
static unsigned int failed;

static void __attribute__((noreturn)) usage(int code)
{
	unsigned int i;

	printf("Usage: foreign-client [OPTION]... ADDRESS PORT [TEST]...\n"
	       "  -f ADDRESS  connect from there\n"
	       "  -n N        times that \"connects\" connects (default: 100)\n"
	       "  -s          more of everything\n"
	       "Tests: rules, offences, kill, connects, or one of\n ");
	for (i = 0; i < rules_n; i++)
		printf(" %s", rules[i].name);
	printf("\n ");
	for (i = 0; i < offences_n; i++)
		printf(" %s", offences[i].name);
	printf("\n");
	exit(code);
}

/* Print the result of one test. */
static void
result(const char *name, const struct conn *c, int ret, uint64_t start)
{
	if (ret == 0) {
		printf("ok %s, %llu ms\n", name, (unsigned long long)(now_ms() - start));
	} else {
		printf("not ok %s: %s\n", name, c->why[0] != '\0' ? c->why : "it ended");
		failed++;
	}
	fflush(stdout);
}

static int
give_up(struct conn *c, const char *why)
{
	if (!c->broken)
		snprintf(c->why, sizeof(c->why), "%s (%s)", why, ibv_wc_status_str(c->wc_status));
	c->broken = true;
	return -1;
}

/* Connect, register a window (if conf says so), and wait for the server's window (if asked). */
static int
open_conn(struct conn *c, const struct conn_conf *conf, bool wait_for_window)
{
	if (conn_connect(c, conf, from, to, port) != 0)
		return -1;
	if (!conn_wait(c, UP_MS, conn_is_up, 0))
		return give_up(c, "it does not come up");
	if (!conf->no_registration && conn_register(c) != 0)
		return -1;
	if (wait_for_window && !conn_wait(c, UP_MS, conn_registered, 1))
		return give_up(c, "the server registers no window");
	return 0;
}

static const struct conn_conf plain = {
	.windows = { .len = { 64 << 10 }, .n = 1 },
	.recvs = RECVS,
};

static void
play_rule(const struct rule *r)
{
	struct conn_conf conf = { .recvs = RECVS };
	uint64_t start = now_ms();
	struct conn c;
	int ret;

	rule_conf(r, &conf);
	ret = open_conn(&c, &conf, true);
	if (ret == 0)
		ret = r->run(&c, soak);
	result(r->name, &c, ret, start);
	conn_close(&c);
}

/* ---- a neighbour, whose connection the offences beside it must not disturb ---- */

static struct conn neighbour;
static struct talk neighbour_talk;

/* Drive the neighbour's talk. Returns whether the talk, or its connection, has ended. */
static bool
beside(void *arg)
{
	struct talk *t = arg;
	int ret;

	do {
		ret = talk_turn(t);
		if (conn_step(t->c, 0) != 0)
			return true;
	} while (ret > 0);
	return talk_done(t);
}

static int
neighbour_start(void)
{
	static const int64_t pieces[] = { 64, 3000, 1, 16384 };

	neighbour_talk =
		(struct talk){ .c = &neighbour, .seed = NEIGHBOUR_SEED, .pieces = pieces, .n = 4 };
	return open_conn(&neighbour, &plain, true);
}

/* Run the neighbour's talk to its end. */
static int
neighbour_end(void)
{
	int ret = neighbour.broken || neighbour.closed ? -1 : talk(&neighbour_talk, PATIENCE_MS);

	return ret == 0 ? 0 : give_up(&neighbour, "the neighbour's connection has ended");
}

static void
play_offence(const struct offence *o)
{
	uint64_t start = now_ms();
	struct conn_conf conf = plain;
	struct conn c;
	char name[64];
	int ret;

	offence_conf(o, &conf);
	neighbour_talk.total = neighbour.tx_total + NEIGHBOUR_BYTES;
	ret = open_conn(&c, &conf, !o->at_once);
	if (ret == 0)
		ret = offence_run(o, &c, beside, &neighbour_talk);
	result(o->name, &c, ret, start);
	conn_close(&c);
	if (neighbour_end() != 0) {
		snprintf(name, sizeof(name), "beside %s", o->name);
		result(name, &neighbour, -1, start);
		conn_close(&neighbour);
		if (neighbour_start() != 0)
			result("neighbour", &neighbour, -1, start);
	}
}

/* ---- peers that are killed, or disconnect at once ---- */

/* Talk until killed; write a byte to stdout once 1 MiB has come back. */
static int
victim(void)
{
	struct talk t = { .seed = 5, .total = UINT64_MAX / 2 };
	uint64_t next = 1 << 20;
	struct conn c;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (open_conn(&c, &plain, true) != 0)
		return 1;
	t.c = &c;
	for (;;) {
		int ret = talk_turn(&t);

		if (ret < 0 || conn_step(&c, ret > 0 ? 0 : 50) != 0)
			return 1;
		if (c.rx_total >= next) {
			next = UINT64_MAX;
			if (write(1, "", 1) != 1)
				return 1;
		}
	}
}

static int
kill_one(struct conn *c)
{
	int fds[2], status;
	pid_t pid;
	char byte;

	if (pipe(fds) != 0)
		return give_up(c, "pipe");
	pid = fork();
	if (pid == 0) {
		(void)dup2(fds[1], 1);
		execl(self, self, "-f", from, to, port, "victim", (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	if (pid < 0 || read(fds[0], &byte, 1) != 1) {
		close(fds[0]);
		return give_up(c, "the one to be killed has failed");
	}
	close(fds[0]);
	(void)kill(pid, SIGKILL);
	if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
		return give_up(c, "it was not killed");
	return 0;
}

static void
play_kill(void)
{
	unsigned int i, n = soak ? 50 : 3;
	uint64_t start = now_ms();
	struct conn c = { 0 };
	int ret = from != NULL ? 0 : give_up(&c, "-f is needed");

	neighbour_talk.total = neighbour.tx_total + NEIGHBOUR_BYTES;
	for (i = 0; i < n && ret == 0; i++) {
		ret = kill_one(&c);
		(void)beside(&neighbour_talk);
	}
	result("kill", &c, ret, start);
	if (neighbour_end() != 0)
		result("beside kill", &neighbour, -1, start);
}

/* Connect and close at once, with and without a disconnect. */
static void
play_connects(void)
{
	uint64_t start = now_ms();
	unsigned int i;
	struct conn c;
	int ret = 0;

	neighbour_talk.total = neighbour.tx_total + NEIGHBOUR_BYTES;
	for (i = 0; i < connects && ret == 0; i++) {
		ret = conn_connect(&c, &plain, from, to, port);
		if (ret == 0 && i % 3 != 0 && !conn_wait(&c, UP_MS, conn_is_up, 0))
			ret = give_up(&c, "it does not come up");
		if (ret == 0 && i % 3 == 2)
			ret = conn_register(&c);
		if (ret != 0)
			break;
		conn_close(&c);
		(void)beside(&neighbour_talk);
	}
	result("connects", &c, ret, start);
	conn_close(&c);
	if (neighbour_end() != 0)
		result("beside connects", &neighbour, -1, start);
}

/* ---- running tests by name ---- */

static bool
is(const char *test, const char *name)
{
	return strcmp(test, name) == 0;
}

/* Run the tests called `test`. Returns whether there is one. */
static bool
play(const char *test)
{
	bool known = false;
	unsigned int i;

	for (i = 0; i < rules_n; i++) {
		if (is(test, "rules") || is(test, rules[i].name)) {
			play_rule(&rules[i]);
			known = true;
		}
	}
	if (neighbour.id == NULL && neighbour_start() != 0)
		result("neighbour", &neighbour, -1, now_ms());
	for (i = 0; i < offences_n; i++) {
		if (is(test, "offences") || is(test, offences[i].name)) {
			play_offence(&offences[i]);
			known = true;
		}
	}
	if (is(test, "kill"))
		play_kill();
	else if (is(test, "connects"))
		play_connects();
	else
		return known;
	return true;
}

int
main(int argc, char **argv)
{
	int opt;

	self = argv[0];
	while ((opt = getopt(argc, argv, "f:n:sh")) != -1) {
		if (opt == 'f')
			from = optarg;
		else if (opt == 'n')
			connects = (unsigned int)strtoul(optarg, NULL, 10);
		else if (opt == 's')
			soak = true;
		else
			usage(opt == 'h' ? 0 : 2);
	}
	if (argc - optind < 3 || connects == 0)
		usage(2);
	to = argv[optind++];
	port = argv[optind++];
	if (is(argv[optind], "victim"))
		return victim();
	for (; optind < argc; optind++) {
		if (!play(argv[optind]))
			usage(2);
	}
	conn_close(&neighbour);
	return failed != 0;
}
