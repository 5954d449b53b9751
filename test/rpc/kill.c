/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * leat-rpc-kill EAL-ARGUMENTS [-- [--addr HOST:PORT] [--devices CLIENT,SERVER] [--silence MS]]
 *
 * A client has a thousand calls outstanding while its server is stopped (SIGSTOP), goes on, and is
 * killed (SIGKILL): all calls must complete in time, and a new server at the same address must
 * answer the next calls. Then a session that reconnects by itself: servers are killed one after the
 * other, each with a thousand calls outstanding, and the next server answers those that no server
 * had begun.
 */

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

#define CALLS 1000u
#define DEADLINE_US 200000
#define ECHO 1
#define SERVERS 4

static struct leat_ep *ep;
static struct leat_rpc *rpc;
static struct leat_rpc_req reqs[CALLS];
static uint8_t in[CALLS][8];
static unsigned int back, up, down, closed;
static bool ended;
static char listen_addr[LEAT_ADDR_MAX] = "127.0.0.1:0";
static char devices[2][64]; /* of the client and of the servers */
static uint32_t silence_us;

static int
echo(struct leat_rpc_incoming *call, void *arg)
{
	(void)arg;
	memcpy(call->resp, call->req, 8);
	call->resp_len = 8;
	return call->len == 8 ? 0 : -EINVAL;
}

static void
parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "addr", required_argument, NULL, 'a' },
		{ "devices", required_argument, NULL, 'd' },
		{ "silence", required_argument, NULL, 's' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	/* Arguments before "--" are EAL's. */
	while (argc > 1 && strcmp(argv[0], "--") != 0) {
		argc--;
		argv++;
	}
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'a')
			snprintf(listen_addr, sizeof(listen_addr), "%s", optarg);
		else if (c == 's')
			silence_us = 1000 * (uint32_t)strtoul(optarg, NULL, 10);
		else
			check(c == 'd' &&
				      sscanf(optarg, "%63[^,],%63s", devices[0], devices[1]) == 2,
			      "options: --addr HOST:PORT, --devices CLIENT,SERVER, --silence MS");
	}
}

static void
start(int argc, char **argv, const char *device)
{
	const struct leat_rpc_conf rpc_conf = { .silence_us = silence_us };
	struct leat_ep_conf conf = { .max_peers = 4 };

	check(leat_init(argc, argv) >= 0, "leat_init: %s", leat_err_msg());
	conf.type = device_type();
	ep = leat_ep_create(device[0] != '\0' ? leat_dev_by_name(device) : leat_dev_get(0), &conf);
	check(ep != NULL, "endpoint: %s", leat_err_msg());
	rpc = leat_rpc_create(ep, &rpc_conf);
	check(rpc != NULL, "rpc: %s", leat_err_msg());
	check(leat_rpc_handler_set(rpc, ECHO, echo, NULL, 8) == 0, "handler");
}

static void
turn(void)
{
	struct leat_rpc_req *done[32];
	struct leat_rpc_event rev;
	struct leat_op *ops[32];
	struct leat_event ev;
	uint16_t n = leat_ep_poll(ep, ops, 32);

	(void)leat_rpc_process(rpc, ops, n);
	back += leat_rpc_poll(rpc, done, 32);
	while (leat_ep_events(ep, &ev, 1) == 1) {
		if (ev.type == LEAT_EV_CONNECT_REQ)
			(void)leat_rpc_accept(rpc, &ev, NULL);
		else
			(void)leat_rpc_handle_event(rpc, &ev);
	}
	while (leat_rpc_events(rpc, &rev, 1) == 1) {
		up += rev.type == LEAT_RPC_UP;
		down += rev.type == LEAT_RPC_DOWN;
		closed += rev.type == LEAT_RPC_CLOSED;
		ended |= rev.type == LEAT_RPC_ENDED;
		if (rev.type == LEAT_RPC_ENDED)
			(void)leat_rpc_close(rev.session, 0);
	}
	if (n == 0)
		sched_yield();
}

/* ---- servers ---- */

static __attribute__((noreturn)) void
server(int argc, char **argv, int from, int to)
{
	char addr[LEAT_ADDR_MAX];

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	/*
	 * Read the address to listen at. All servers except the first wait here until the previous
	 * one has been killed.
	 */
	check(read(from, addr, sizeof(addr)) == sizeof(addr), "read");
	start(argc, argv, devices[1]);
	wait_until(sched_yield(), leat_ep_listen(ep, addr) == 0);
	check(leat_ep_listen_addr(ep, addr, sizeof(addr)) == 0, "address");
	check(write(to, addr, sizeof(addr)) == sizeof(addr), "write");
	for (;;)
		turn();
}

/* ---- the client ---- */

static struct leat_rpc_session *
connect_to(const char *addr, const struct leat_rpc_session_conf *conf)
{
	struct leat_rpc_session *s = leat_rpc_connect(rpc, addr, conf);
	unsigned int before = up;

	check(s != NULL, "connect: %s", leat_err_msg());
	wait_until(turn(), up > before || ended);
	check(!ended, "the session did not come up");
	return s;
}

static void
post_all(struct leat_rpc_session *s, uint64_t deadline_us)
{
	uint64_t deadline = deadline_us == 0 ? LEAT_RPC_NO_DEADLINE
					     : leat_now() + leat_us_to_cycles(deadline_us);
	struct leat_rpc_req *p;
	unsigned int i;

	back = 0;
	for (i = 0; i < CALLS; i++) {
		p = &reqs[i];
		*p = (struct leat_rpc_req){ .session = s,
					    .type = ECHO,
					    .buf = "12345678",
					    .len = 8,
					    .resp = in[i],
					    .room = 8,
					    .deadline = deadline };
		check(leat_rpc_post(&p, 1) == 1, "post");
	}
}

/* Check that all calls have this status; -ENODATA stands for any error. */
static void
all_are(int status)
{
	unsigned int i;

	for (i = 0; i < CALLS; i++)
		check(status == -ENODATA ? reqs[i].status < 0 : reqs[i].status == status,
		      "call %u: %d", i, reqs[i].status);
}

static void
client(const char *addr, pid_t first)
{
	const struct leat_rpc_session_conf conf = { .timeout_us = PATIENCE_US };
	struct leat_rpc_session *s = connect_to(addr, &conf);
	uint64_t begun;

	post_all(s, 0);
	wait_until(turn(), back == CALLS);
	all_are(0);

	/* While the server is stopped the deadlines of calls pass. */
	check(kill(first, SIGSTOP) == 0, "stop");
	check(waitpid(first, NULL, WUNTRACED) == first, "wait");
	begun = leat_now();
	post_all(s, DEADLINE_US);
	wait_until(turn(), back == CALLS);
	all_are(-ETIMEDOUT);
	check(leat_now() - begun >= leat_us_to_cycles(DEADLINE_US), "too early");

	/* The server goes on: its late answers must not disturb the next calls. */
	check(kill(first, SIGCONT) == 0, "continue");
	post_all(s, 0);
	wait_until(turn(), back == CALLS);
	all_are(0);

	check(kill(first, SIGSTOP) == 0, "stop");
	check(waitpid(first, NULL, WUNTRACED) == first, "wait");
	post_all(s, 0);
	turn();
	check(kill(first, SIGKILL) == 0 && waitpid(first, NULL, 0) == first, "kill");
	wait_until(turn(), back == CALLS && closed == 1);
	all_are(-ENODATA);
}

static pid_t pid[SERVERS];
static int to[SERVERS][2], from[SERVERS][2];

/* Start server i at addr. If the port of addr was 0, it is then the server's port. */
static void
server_begin(unsigned int i, char *addr)
{
	check(write(to[i][1], addr, LEAT_ADDR_MAX) == LEAT_ADDR_MAX, "write");
	check(read(from[i][0], addr, LEAT_ADDR_MAX) == LEAT_ADDR_MAX, "read");
}

/* Use one session, which reconnects by itself to each next server. */
static void
lasting(struct leat_rpc_session *s, char *addr)
{
	unsigned int i, k, lost = 0, kept = 0, ups;

	for (i = 2; i < SERVERS; i++) {
		post_all(s, 0);
		wait_until(turn(), back == CALLS);
		all_are(0);
		/*
		 * Half of the servers are stopped first, so that they answer none of the calls. The
		 * others are killed while they answer.
		 */
		if (i % 2 == 0) {
			check(kill(pid[i - 1], SIGSTOP) == 0, "stop");
			check(waitpid(pid[i - 1], NULL, WUNTRACED) == pid[i - 1], "wait");
		}
		ups = up;
		post_all(s, 0);
		turn();
		check(kill(pid[i - 1], SIGKILL) == 0, "kill");
		check(waitpid(pid[i - 1], NULL, 0) == pid[i - 1], "wait");
		if (i % 2 == 0)
			wait_until(turn(), down == i - 1);
		/* The client goes on while there is no server, and while the next one starts. */
		check(write(to[i][1], addr, LEAT_ADDR_MAX) == LEAT_ADDR_MAX, "write");
		wait_until(turn(), back == CALLS && up == ups + 1);
		check(read(from[i][0], addr, LEAT_ADDR_MAX) == LEAT_ADDR_MAX, "read");
		for (k = 0; k < CALLS; k++) {
			check(reqs[k].status == 0 || reqs[k].refused == 0, "call %u: %d", k,
			      reqs[k].status);
			lost += reqs[k].status < 0;
			kept += reqs[k].status == 0;
		}
	}
	check(!ended && down == SERVERS - 2, "%u ends", down);
	check(lost > 0 && kept > 0, "%u calls lost, %u kept", lost, kept);
	post_all(s, 0);
	wait_until(turn(), back == CALLS);
	all_are(0);
}

int
main(int argc, char **argv)
{
	const struct leat_rpc_session_conf conf = {
		.timeout_us = 1000000,
		.reconnect_min_us = 1000,
		.reconnect_max_us = 100000,
	};
	char addr[LEAT_ADDR_MAX];
	struct leat_rpc_session *s;
	int i;

	parse(argc, argv);
	memcpy(addr, listen_addr, sizeof(addr));
	/* Fork before libfabric and EAL are started. */
	for (i = 0; i < SERVERS; i++) {
		check(pipe(to[i]) == 0 && pipe(from[i]) == 0, "pipe");
		pid[i] = fork();
		check(pid[i] >= 0, "fork");
		if (pid[i] == 0)
			server(argc, argv, to[i][0], from[i][1]);
	}
	start(argc, argv, devices[0]);
	server_begin(0, addr);
	client(addr, pid[0]);

	/* A new server at the same address, and others after it. */
	server_begin(1, addr);
	ended = false;
	s = connect_to(addr, &conf);
	lasting(s, addr);
	check(leat_rpc_close(s, PATIENCE_US) == 0, "close");
	wait_until(turn(), closed == 2);
	i = SERVERS - 1;
	check(kill(pid[i], SIGKILL) == 0 && waitpid(pid[i], NULL, 0) == pid[i], "kill");
	wait_until(turn(), leat_rpc_destroy(rpc) == 0);
	(void)leat_ep_close(ep, PATIENCE_US, NULL, NULL);
	check(leat_cleanup() == 0, "cleanup: %s", leat_err_msg());
	printf("stopped, killed, and succeeded %d times: %u calls each\n", SERVERS - 1, CALLS);
	return 0;
}
