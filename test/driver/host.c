/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Where sides live: an agent in this thread, on another lcore, or in another process. An agent on
 * another lcore or in a process is reached through a socket pair; a request and its answer are one
 * datagram each.
 */

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_launch.h>
#include <rte_lcore.h>

#include "ct.h"

#define PROCS 2
#define CHILD_FD 3

struct ct_host {
	enum { NONE, HERE, LCORE, PROC } kind;
	/* only for kinds HERE and LCORE; on LCORE the agent belongs to that lcore */
	struct ct_agent *agent;
	int fd;
	int far_fd;
	pid_t pid;
	unsigned int lcore;
	int ended; /* LCORE: the agent belongs to this thread again */
	char name[16];
};

struct ct_globals ct;
static struct ct_host near, here, lcore, procs[PROCS];
static char err_text[224];

static struct ct_agent *
agent_new(uint64_t role)
{
	struct ct_agent *a = calloc(1, sizeof(*a));

	if (a == NULL)
		CT_FAIL("harness: no memory");
	a->dev = ct.dev;
	a->ops = ct.info.ops;
	a->role = role;
	a->default_timeout_us = UINT64_C(20000000) * ct.slow;
	return a;
}

/*
 * Time without work, us, after which a thread begins to sleep between turns. In CT_SELF_MODE one
 * thread drives both sides, so yielding would help neither. The steps in which a provider moves a
 * large message do not count as work here, so this thread spins for longer before it sleeps.
 */
#define SPIN_US 300
#define SPIN_SELF_US 20000

struct idle {
	uint64_t since; /* time of the first turn without work; 0: the last turn had work */
	unsigned int turns;
};

/*
 * Yield or sleep after a turn without work. On a machine with fewer CPUs than sides, threads that
 * wait would otherwise take the CPUs from threads that work, also from the kernel's. fd: readable
 * when a request has come; -1: none.
 */
static void
rest(int fd, bool worked, struct idle *idle)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	bool self = ct.mode == CT_SELF_MODE;
	uint64_t now;

	if (worked) {
		idle->since = 0;
		return;
	}
	now = leat_now();
	if (idle->since == 0)
		*idle = (struct idle){ .since = now };
	if (now - idle->since >= leat_us_to_cycles(self ? SPIN_SELF_US : SPIN_US) &&
	    ++idle->turns % CT_EVENT_TURNS == 0)
		(void)poll(&p, 1, 1); /* poll() ignores a negative fd */
	else if (!self)
		sched_yield();
}

/* ---- the agent's end: a loop on another lcore or in a child process ---- */

static bool
answer(int fd, struct ct_rep *rep, const struct ct_req *req)
{
	rep->seq = req->seq;
	return send(fd, rep, sizeof(*rep), MSG_NOSIGNAL) == (ssize_t)sizeof(*rep);
}

int
ct_agent_loop(struct ct_agent *a, int fd)
{
	static __thread struct ct_req req;
	static __thread struct ct_rep rep;
	unsigned int turn = 0;
	bool answered, worked;
	struct idle idle = { 0 };
	ssize_t n;

	while (!a->quit) {
		worked = ct_agent_step(a, &rep, &answered);
		if (answered && !answer(fd, &rep, &a->req))
			return -1;
		if (worked && turn++ % 8 != 0)
			continue;
		if (ct_agent_idle(a) && !a->waiting) {
			struct pollfd p = { .fd = fd, .events = POLLIN };

			(void)poll(&p, 1, -1);
		}
		n = recv(fd, &req, sizeof(req), MSG_DONTWAIT);
		if (n == (ssize_t)sizeof(req)) {
			if (ct_agent_exec(a, &req, &rep) && !answer(fd, &rep, &req))
				return -1;
			worked = true;
		} else if (n >= 0 || (errno != EAGAIN && errno != EINTR)) {
			return n == 0 ? 0 : -1;
		}
		rest(fd, worked, &idle);
	}
	return 0;
}

static int
lcore_main(void *arg)
{
	struct ct_host *h = arg;
	int ret = ct_agent_loop(h->agent, h->far_fd);

	/* ENDED: pairs with the load in ct_hosts_fini(). */
	__atomic_store_n(&h->ended, 1, __ATOMIC_RELEASE);
	return ret;
}

int
ct_child(uint64_t role)
{
	struct ct_agent *a = agent_new(role);
	int ret = ct_agent_loop(a, CHILD_FD);

	free(a);
	return ret;
}

/* ---- the test's end: hosts, requests and answers ---- */

static void
socket_pair_open(int fd[2])
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd) < 0)
		CT_FAIL("harness: socketpair: %s", strerror(errno));
}

static void
proc_start(struct ct_host *h)
{
	posix_spawn_file_actions_t fa;
	char **argv = calloc((size_t)ct.argc + 4, sizeof(*argv)), role[32];
	int i, k = 0, fd[2], ret;
	bool dashes = false;

	if (argv == NULL)
		CT_FAIL("harness: no memory");
	for (i = 0; i < ct.argc; i++) {
		argv[k++] = ct.argv[i];
		dashes |= strcmp(ct.argv[i], "--") == 0;
	}
	if (!dashes)
		argv[k++] = (char *)(uintptr_t) "--";
	snprintf(role, sizeof(role), "--role=%u", 2 + (unsigned int)(h - procs));
	argv[k++] = role;
	socket_pair_open(fd);
	ret = posix_spawn_file_actions_init(&fa);
	if (ret == 0 && fd[1] == CHILD_FD)
		ret = fcntl(fd[1], F_SETFD, 0) < 0 ? errno : 0;
	else if (ret == 0)
		ret = posix_spawn_file_actions_adddup2(&fa, fd[1], CHILD_FD);
	if (ret == 0)
		ret = posix_spawn(&h->pid, "/proc/self/exe", &fa, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	free(argv);
	close(fd[1]);
	if (ret != 0) {
		close(fd[0]);
		CT_FAIL("harness: can't start a process: %s", strerror(ret));
	}
	h->kind = PROC;
	h->fd = fd[0];
}

static void
proc_end(struct ct_host *h, int sig)
{
	int status;

	if (sig != 0)
		(void)kill(h->pid, sig);
	close(h->fd);
	while (waitpid(h->pid, &status, 0) < 0 && errno == EINTR)
		;
	h->kind = NONE;
}

void
ct_hosts_init(void)
{
	near = (struct ct_host){ .kind = HERE, .agent = agent_new(1), .name = "near" };
	here = (struct ct_host){ .kind = NONE, .name = "far" };
	lcore = (struct ct_host){ .kind = NONE, .name = "far" };
	procs[0] = (struct ct_host){ .kind = NONE, .name = "far process" };
	procs[1] = (struct ct_host){ .kind = NONE, .name = "far process 2" };
	if (ct.mode == CT_SELF_MODE) {
		here.kind = HERE;
		here.agent = agent_new(2);
	} else if (ct.mode == CT_LCORES_MODE) {
		int fd[2];

		socket_pair_open(fd);
		lcore.lcore = rte_get_next_lcore((unsigned int)-1, 1, 0);
		if (lcore.lcore == RTE_MAX_LCORE)
			CT_FAIL("harness: --mode lcores needs two lcores");
		lcore.agent = agent_new(2);
		lcore.fd = fd[0];
		lcore.far_fd = fd[1];
		if (rte_eal_remote_launch(lcore_main, &lcore, lcore.lcore) != 0)
			CT_FAIL("harness: lcore %u can't be used", lcore.lcore);
		lcore.kind = LCORE;
	}
}

void
ct_hosts_fini(void)
{
	unsigned int i;

	if (lcore.kind == LCORE) {
		close(lcore.fd); /* ends the loop of the lcore */
		(void)rte_eal_wait_lcore(lcore.lcore);
		while (__atomic_load_n(&lcore.ended, __ATOMIC_ACQUIRE) == 0) /* ENDED */
			sched_yield();
		close(lcore.far_fd);
		free(lcore.agent);
	}
	for (i = 0; i < PROCS; i++)
		if (procs[i].kind == PROC)
			proc_end(&procs[i], 0);
	free(here.agent);
	free(near.agent);
}

struct ct_side
ct_near(unsigned int i)
{
	return (struct ct_side){ .host = &near, .node = i, .what = "near" };
}

struct ct_side
ct_far(unsigned int i)
{
	static const char *const names[] = { "far 0", "far 1", "far 2", "far 3", "far 4", "far 5" };
	struct ct_side s = { .node = i, .what = names[RTE_MIN(i, 5u)] };

	if (ct.mode == CT_SELF_MODE) {
		s.host = &here;
	} else if (ct.mode == CT_LCORES_MODE) {
		s.host = &lcore;
	} else {
		s.host = &procs[i % PROCS];
		s.node = i / PROCS;
		if (s.host->kind == NONE)
			proc_start(s.host);
	}
	return s;
}

/* @return whether anything happened */
static bool
turn_here(void)
{
	static struct ct_rep rep;
	bool answered, worked;

	worked = ct_agent_step(near.agent, &rep, &answered);
	if (here.kind == HERE)
		worked |= ct_agent_step(here.agent, &rep, &answered);
	return worked;
}

void
ct_pump(void)
{
	static struct idle idle;
	bool worked = turn_here();

	if (ct.mode == CT_SELF_MODE)
		rest(-1, worked, &idle);
	else if (!worked)
		sched_yield();
}

void
ct_pump_us(uint64_t us)
{
	uint64_t end = leat_now() + leat_us_to_cycles(us);

	do
		ct_pump();
	while (leat_now() < end);
}

void
ct_kill(struct ct_side *s)
{
	if (s->host->kind != PROC)
		CT_FAIL("harness: %s is no process", s->what);
	proc_end(s->host, SIGKILL);
}

struct ct_node *
ct_node(struct ct_side *s)
{
	if (s->host->kind != HERE)
		CT_FAIL("harness: the endpoint of %s is out of reach", s->what);
	return &s->host->agent->node[s->node];
}

const char *
ct_err_text(void)
{
	return err_text;
}

/* @return false: the agent's end is closed or took too long */
static bool
exchange(struct ct_host *h, struct ct_req *req, struct ct_rep *rep)
{
	static uint32_t seq;
	uint64_t limit = leat_now() + leat_us_to_cycles(UINT64_C(60000000) * ct.slow);
	bool answered = false, ignored, worked;
	static struct ct_rep other;
	struct idle idle = { 0 };
	ssize_t n;

	if (h->kind == NONE)
		return false;
	if (h->kind == HERE) {
		answered = ct_agent_exec(h->agent, req, rep);
		while (!answered) {
			worked = ct_agent_step(near.agent, h == &near ? rep : &other,
					       h == &near ? &answered : &ignored);
			if (here.kind == HERE)
				worked |= ct_agent_step(here.agent, h == &here ? rep : &other,
							h == &here ? &answered : &ignored);
			rest(-1, worked, &idle);
		}
		return true;
	}
	req->seq = ++seq;
	if (send(h->fd, req, sizeof(*req), MSG_NOSIGNAL) != (ssize_t)sizeof(*req))
		return false;
	while (leat_now() < limit) {
		n = recv(h->fd, rep, sizeof(*rep), MSG_DONTWAIT);
		if (n == (ssize_t)sizeof(*rep) && rep->seq == req->seq)
			return true;
		/* A late answer to a request that was given up: ignore it. */
		if (n == (ssize_t)sizeof(*rep))
			continue;
		if (n >= 0 || (errno != EAGAIN && errno != EINTR))
			return false;
		rest(h->fd, turn_here(), &idle);
	}
	return false;
}

/*
 * Has the process closed its socket? It does so only when it ends, so waitpid() returns soon then.
 */
static bool
hung_up(const struct ct_host *h)
{
	char c;
	ssize_t n = recv(h->fd, &c, 1, MSG_PEEK | MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

void
ct_call(struct ct_side *s, struct ct_req *req, struct ct_rep *rep)
{
	const char *fault;
	int status = 0;

	req->node = s->node;
	if (!exchange(s->host, req, rep)) {
		if (s->host->kind == PROC && hung_up(s->host) &&
		    waitpid(s->host->pid, &status, 0) == s->host->pid) {
			close(s->host->fd);
			s->host->kind = NONE;
			CT_FAIL("%s: its process ended (%s %d)", s->what,
				WIFSIGNALED(status) ? "signal" : "exit",
				WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		}
		CT_FAIL("%s: no answer to request %u: stuck inside a call?", s->what, req->cmd);
	}
	if (rep->err < 0)
		snprintf(err_text, sizeof(err_text), "%s", rep->text);
	if (rep->fault[0] != '\0')
		CT_FAIL("%s: %s", s->what, rep->fault);
	fault = ct_agent_fault(near.agent);
	if (fault != NULL)
		CT_FAIL("near: %s", fault);
}

static const char *
host_reset(struct ct_host *h, bool failed)
{
	static struct ct_rep rep;
	static char text[300];
	struct ct_req req = { .cmd = CT_RESET };

	/*
	 * After a failure a process may be in any state: kill it. ct_far() starts a new one.
	 */
	if (failed && h->kind == PROC) {
		proc_end(h, SIGKILL);
		return NULL;
	}
	if (h->kind == NONE)
		return NULL;
	if (!exchange(h, &req, &rep)) {
		if (h->kind == PROC)
			proc_end(h, SIGKILL);
		snprintf(text, sizeof(text), "%s: can't be reset after the test", h->name);
		return text;
	}
	if (rep.fault[0] == '\0')
		return NULL;
	snprintf(text, sizeof(text), "%s: %s", h->name, rep.fault);
	return text;
}

const char *
ct_hosts_reset(bool failed)
{
	struct ct_host *all[] = { &near, &here, &lcore, &procs[0], &procs[1] };
	const char *first = NULL, *f;
	unsigned int i;

	for (i = 0; i < RTE_DIM(all); i++) {
		f = host_reset(all[i], failed);
		if (first == NULL)
			first = f;
	}
	return first;
}

void
ct_hosts_abandon(void)
{
	memset(near.agent->node, 0, sizeof(near.agent->node));
	if (here.kind == HERE)
		memset(here.agent->node, 0, sizeof(here.agent->node));
}

void
ct_hosts_dump(void)
{
	struct ct_host *all[] = { &near, &here, &lcore, &procs[0], &procs[1] };
	static struct ct_rep rep;
	struct ct_req req = { .cmd = CT_DUMP };
	char *line, *save;
	unsigned int i;

	for (i = 0; i < RTE_DIM(all); i++) {
		if (all[i]->kind == NONE || !exchange(all[i], &req, &rep) || rep.dump[0] == '\0')
			continue;
		ct_note("%s:", all[i]->name);
		for (line = strtok_r(rep.dump, "\n", &save); line != NULL;
		     line = strtok_r(NULL, "\n", &save))
			ct_note("  %s", line);
	}
}
