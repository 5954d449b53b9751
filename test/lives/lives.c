/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * leat-lives kills|stops|connects|endpoints NUMBER SEED EAL-ARGUMENTS
 *
 *     kills      a process, the victim, is killed (SIGKILL) at a random moment: while it
 *                starts, while it and the survivor connect (either of them may listen), or while
 *                they exchange ops of all kinds. NUMBER victims, one after another. A bystander
 *                also has a connection to the survivor, which must not be disturbed.
 *     stops      a peer is stopped (SIGSTOP), for longer than the time within which a dead
 *                peer is noticed, and continued, NUMBER times: its connection must not end
 *     connects   an endpoint connects to another process, and disconnects, NUMBER times
 *     endpoints  as connects, but each time from a new endpoint
 *
 * The survivor must see a victim's end, and every op with it completed, within the time that the
 * device documents. A process that is not killed must leave no descriptor, no shared memory, and no
 * object of the device when it ends; with an emulated device, its exit status reports leftover
 * objects.
 *
 * An argument dir=TMP of a device is replaced by a directory that this program makes. Names that
 * killed processes left in it must be gone as soon as another process listens there.
 *
 * Each process starts leat after its fork: their parent does not use the device.
 */

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <leat_error.h>

#include "leat_cmocka.h"
#include "traffic.h"

/* Number of victims of one survivor, one after another. */
#define VICTIMS 100
/* Number of survivors that run at the same time, each with its victims. */
#define SURVIVORS 2
/*
 * A victim is killed at most START_US after its fork, or LIFE_US after it has its device or after
 * its connection is up.
 */
#define START_US 300000
#define LIFE_US 150000
/*
 * Time allowed beyond dead_peer_ms, us. 5 s of it are for the driver, which keeps READs for that
 * long if the device reports a peer's end earlier than the address exchange; the rest is for a
 * loaded machine.
 */
#define SLACK_US UINT64_C(15000000)
/* How long a process is stopped, us. */
#define STOPPED_US UINT64_C(2000000)

/* A message over the socket between this process and a child. */
struct note {
	enum { READY, LISTENS, DEAD, STOP } what;
	char addr[LEAT_ADDR_MAX];
};

static char **eal_argv;
static int eal_argc;
static uint64_t random_state;
static uint32_t without; /* ops that are never posted */
static char directory[] = "/tmp/leat-lives-XXXXXX";
static bool has_directory;

/* ---- child processes ---- */

static void
note_send(int fd, int what, const char *addr)
{
	struct note n = { .what = what };

	snprintf(n.addr, sizeof(n.addr), "%s", addr);
	CHECK(send(fd, &n, sizeof(n), MSG_NOSIGNAL) == sizeof(n), "send: %s", strerror(errno));
}

/* Print the exit code or the signal of each child that has ended. */
static void
print_exits(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (WIFSIGNALED(status))
			fprintf(stderr, "process %d: signal %d\n", (int)pid, WTERMSIG(status));
		else
			fprintf(stderr, "process %d: exit %d\n", (int)pid, WEXITSTATUS(status));
	}
}

/* Receive a note; wait: wait for it. @return false if none has arrived yet */
static bool
note_receive(int fd, struct note *n, bool wait)
{
	ssize_t ret = recv(fd, n, sizeof(*n), wait ? 0 : MSG_DONTWAIT);

	if (ret < 0 && errno == EAGAIN)
		return false;
	if (ret != sizeof(*n))
		print_exits();
	CHECK(ret == sizeof(*n), "the other process is gone");
	return true;
}

/* Start leat. EAL ties lcore 0 to one CPU, the same in all of these processes: undo that. */
static struct leat_dev *
device(void)
{
	struct leat_dev *dev;
	cpu_set_t cpus;

	CHECK(sched_getaffinity(0, sizeof(cpus), &cpus) == 0, "affinity: %s", strerror(errno));
	CHECK(leat_init(eal_argc, eal_argv) >= 0, "leat_init: %s", leat_err_msg());
	CHECK(sched_setaffinity(0, sizeof(cpus), &cpus) == 0, "affinity: %s", strerror(errno));
	dev = leat_dev_get(0);
	CHECK(dev != NULL, "no device");
	return dev;
}

static uint32_t
ops_of(const struct leat_dev *dev)
{
	struct leat_dev_info info;

	CHECK(leat_dev_info_get(dev, &info) == 0, "%s", leat_err_msg());
	return info.ops & ~without;
}

static void
open_traffic(struct traffic *t, uint64_t seed)
{
	struct leat_dev *dev = device();

	traffic_open(t, dev, ops_of(dev), seed);
}

static int
nb_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	CHECK(dir != NULL, "/proc/self/fd: %s", strerror(errno));
	/* cppcheck-suppress readdirCalled ; no other function has this directory open */
	while (readdir(dir) != NULL)
		n++;
	(void)closedir(dir);
	return n;
}

/* Count mappings of shared memory. */
static int
nb_shared(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	CHECK(maps != NULL, "/proc/self/maps: %s", strerror(errno));
	while (fgets(line, sizeof(line), maps) != NULL)
		n += strstr(line, "memfd:leat") != NULL;
	(void)fclose(maps);
	return n;
}

/* Run a victim, until it is killed. */
static void
victim(int fd, int survivor, bool listens, const char *addr, uint64_t seed)
{
	static struct traffic t;

	open_traffic(&t, seed);
	note_send(fd, READY, "");
	if (listens) {
		traffic_listen(&t);
		note_send(survivor, LISTENS, t.addr);
	} else {
		(void)traffic_connect(&t, addr);
	}
	while (t.ups == 0 || t.received == 0)
		traffic_turn(&t);
	note_send(fd, READY, "");
	for (;;)
		traffic_turn(&t);
}

/* Run until the parent's message says to end. */
static void
bystander(int fd, const char *addr)
{
	static struct traffic t;
	struct note n;

	open_traffic(&t, 1);
	t.talks = false;
	(void)traffic_connect(&t, addr);
	do {
		traffic_turn(&t);
		CHECK(t.ends == 0, "the bystander's connection ended");
	} while (!note_receive(fd, &n, false));
	traffic_close(&t);
	CHECK(leat_cleanup() == 0, "%s", leat_err_msg());
}

static bool
others_gone(const struct traffic *t, uint16_t but)
{
	uint16_t i;

	for (i = 0; i < TRAFFIC_PEERS; i++) {
		if (i != but && !traffic_gone(t, i))
			return false;
	}
	return true;
}

static void
survivor(int fd, uint64_t seed)
{
	static struct traffic t;
	struct leat_dev_info info;
	uint64_t before;
	uint16_t by = 0, to = LEAT_PEER_ANY;
	const struct traffic_peer *p;
	struct note n;
	int fds, shared;

	open_traffic(&t, seed);
	CHECK(leat_dev_info_get(leat_ep_dev(t.ep), &info) == 0, "%s", leat_err_msg());
	traffic_listen(&t);
	note_send(fd, READY, t.addr);
	UNTIL(TRAFFIC_PATIENCE_US, traffic_turn(&t), t.ups == 1, "no bystander");
	while (t.peer[by].state != TRAFFIC_UP)
		by++;
	t.light = by;
	/*
	 * When a victim ends, larger ops can get stuck in the provider: see doc/drivers/ofi.md,
	 * efa.
	 */
	if (strcmp(info.provider, "efa") == 0)
		t.light_max = 4000;
	p = &t.peer[by];
	fds = nb_fds();
	shared = nb_shared();
	note_send(fd, READY, "");
	for (;;) {
		traffic_turn(&t);
		if (!note_receive(fd, &n, false))
			continue;
		if (n.what == STOP)
			break;
		if (n.what == LISTENS) {
			to = traffic_connect(&t, n.addr);
			continue;
		}
		/*
		 * The victim is dead, so nothing listens at its address, and the driver would retry
		 * the connect for a while: end it.
		 */
		if (to != LEAT_PEER_ANY && t.peer[to].state == TRAFFIC_CONNECTING)
			CHECK(leat_ep_disconnect(t.ep, to) == 0, "give up: %s", leat_err_msg());
		to = LEAT_PEER_ANY;
		UNTIL(info.dead_peer_ms * UINT64_C(1000) + SLACK_US, traffic_turn(&t),
		      others_gone(&t, by), "the victim's connection does not end");
		before = p->done;
		UNTIL(TRAFFIC_PATIENCE_US, traffic_turn(&t),
		      p->done > before || p->state != TRAFFIC_UP,
		      "the bystander's ops stand still: %s of %" PRIu64 " B, state %u",
		      leat_op_type_name(p->op[0].type), p->op[0].size, p->op[0].state);
		CHECK(p->state == TRAFFIC_UP, "the bystander's connection ended");
		note_send(fd, DEAD, "");
	}
	t.talks = false;
	UNTIL(TRAFFIC_PATIENCE_US, traffic_turn(&t), nb_fds() <= fds,
	      "%d descriptors, %d before any victim", nb_fds(), fds);
	CHECK(nb_shared() <= shared, "%d pieces of shared memory, %d before any victim",
	      nb_shared(), shared);
	printf("# %u connections, %" PRIu64 " messages, %" PRIu64 " ops of the bystander\n", t.ups,
	       t.received, p->done);
	traffic_close(&t);
	CHECK(leat_cleanup() == 0, "%s", leat_err_msg());
}

/* Exchange ops with a peer that is stopped now and then. */
static void
watcher(int fd)
{
	static struct traffic t;
	uint64_t done, end;
	struct note n;

	open_traffic(&t, 1);
	traffic_listen(&t);
	note_send(fd, READY, t.addr);
	UNTIL(TRAFFIC_PATIENCE_US, traffic_turn(&t), t.ups == 1 && t.received > 0, "no peer");
	note_send(fd, READY, "");
	for (;;) {
		traffic_turn(&t);
		if (!note_receive(fd, &n, false))
			continue;
		if (n.what == STOP)
			break;
		for (end = leat_now() + leat_us_to_cycles(STOPPED_US); leat_now() < end;)
			traffic_turn(&t);
		CHECK(t.ends == 0, "the connection of a stopped process ended");
		note_send(fd, DEAD, "");
		(void)note_receive(fd, &n, true);
		done = t.received;
		UNTIL(TRAFFIC_PATIENCE_US, traffic_turn(&t), t.received > done + 100,
		      "a process that goes on is not heard");
		CHECK(t.ends == 0, "the connection ended");
		note_send(fd, READY, "");
	}
	traffic_close(&t);
	CHECK(leat_cleanup() == 0, "%s", leat_err_msg());
}

/* Count the entries of the directory. */
static int
nb_names(void)
{
	DIR *dir = opendir(directory);
	const struct dirent *e;
	int n = 0;

	CHECK(dir != NULL, "%s: %s", directory, strerror(errno));
	/* cppcheck-suppress readdirCalled ; no other function has this directory open */
	while ((e = readdir(dir)) != NULL)
		n += e->d_name[0] != '.';
	(void)closedir(dir);
	return n;
}

/* Listen in the directory as its last user, and so remove the names that killed processes left. */
static void
sweeper(void)
{
	static struct traffic t;

	open_traffic(&t, 1);
	traffic_listen(&t);
	UNTIL(TRAFFIC_PATIENCE_US, traffic_turn(&t), nb_names() <= 1, "%d names in %s", nb_names(),
	      directory);
	traffic_close(&t);
	CHECK(leat_cleanup() == 0, "%s", leat_err_msg());
}

/* ---- the process that forks the others ---- */

struct process {
	pid_t pid;
	int fd;
};

/* @return true in the child, whose end of the socket is in p->fd */
static bool
start(struct process *p)
{
	int sv[2];

	CHECK(fflush(NULL) == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv) == 0,
	      "socketpair: %s", strerror(errno));
	p->pid = fork();
	CHECK(p->pid >= 0, "fork: %s", strerror(errno));
	(void)close(sv[p->pid != 0]);
	p->fd = sv[p->pid == 0];
	if (p->pid != 0)
		return false;
	CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "prctl: %s", strerror(errno));
	return true;
}

static void
end(struct process *p, const char *what)
{
	int status;

	CHECK(waitpid(p->pid, &status, 0) == p->pid, "waitpid: %s", strerror(errno));
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: status %#x%s", what,
	      (unsigned int)status, status == 99 << 8 ? ": objects of the device are left" : "");
	(void)close(p->fd);
}

/* Start a victim, and kill it at a random moment. */
static void
one_victim(const struct process *s, const char *addr)
{
	uint64_t rnd = test_random(&random_state);
	/*
	 * Stage after which the victim's time to live begins: 0: forked; 1: has its device; 2:
	 * exchanges ops.
	 */
	static const uint8_t stages[8] = { 0, 1, 1, 1, 2, 2, 2, 2 };
	unsigned int stage = stages[(rnd >> 1) % 8];
	uint64_t us = (rnd >> 8) % (stage == 0 ? START_US : LIFE_US);
	bool listens = (rnd & 1) != 0;
	const struct timespec life = { .tv_nsec = (long)(us * 1000) };
	struct pollfd gone = { 0 };
	struct process v;
	struct note n;

	if (start(&v))
		victim(v.fd, s->fd, listens, addr, rnd | 1);
	while (stage-- > 0)
		(void)note_receive(v.fd, &n, true);
	gone.fd = v.fd;
	CHECK(ppoll(&gone, 1, &life, NULL) == 0, "a victim ended by itself");
	CHECK(kill(v.pid, SIGKILL) == 0 && waitpid(v.pid, NULL, 0) == v.pid, "kill: %s",
	      strerror(errno));
	(void)close(v.fd);
	note_send(s->fd, DEAD, "");
	(void)note_receive(s->fd, &n, true);
}

static void
one_survivor_after_another(uint32_t number)
{
	struct process s, by;
	char addr[LEAT_ADDR_MAX];
	struct note n;
	uint32_t i;

	for (i = 0; i < number; i++) {
		if (i % VICTIMS == 0) {
			if (start(&s)) {
				survivor(s.fd, test_random(&random_state));
				exit(0);
			}
			(void)note_receive(s.fd, &n, true);
			memcpy(addr, n.addr, sizeof(addr));
			if (start(&by)) {
				bystander(by.fd, addr);
				exit(0);
			}
			(void)note_receive(s.fd, &n, true);
		}
		one_victim(&s, addr);
		if ((i + 1) % VICTIMS == 0 || i + 1 == number) {
			note_send(by.fd, STOP, "");
			end(&by, "bystander");
			note_send(s.fd, STOP, "");
			end(&s, "survivor");
			printf("# %u killed\n", i + 1);
			CHECK(fflush(stdout) == 0, "stdout: %s", strerror(errno));
		}
	}
}

static void
kills(uint32_t number)
{
	struct process p[SURVIVORS];
	unsigned int i;

	for (i = 0; i < SURVIVORS; i++) {
		uint32_t share = number / SURVIVORS + (i < number % SURVIVORS);

		(void)test_random(&random_state);
		if (start(&p[i])) {
			one_survivor_after_another(share);
			exit(0);
		}
	}
	for (i = 0; i < SURVIVORS; i++)
		end(&p[i], "see above");
}

static void
stops(uint32_t number)
{
	struct process w, by;
	struct note n;
	uint32_t i;

	if (start(&w)) {
		watcher(w.fd);
		exit(0);
	}
	(void)note_receive(w.fd, &n, true);
	if (start(&by)) {
		static struct traffic t;

		open_traffic(&t, 2);
		(void)traffic_connect(&t, n.addr);
		while (!note_receive(by.fd, &n, false))
			traffic_turn(&t);
		CHECK(t.ends == 0, "the connection of a stopped process ended");
		traffic_close(&t);
		exit(leat_cleanup() == 0 ? 0 : 1);
	}
	(void)note_receive(w.fd, &n, true);
	for (i = 0; i < number; i++) {
		CHECK(kill(by.pid, SIGSTOP) == 0, "stop: %s", strerror(errno));
		note_send(w.fd, DEAD, "");
		(void)note_receive(w.fd, &n, true);
		CHECK(kill(by.pid, SIGCONT) == 0, "continue: %s", strerror(errno));
		note_send(w.fd, READY, "");
		(void)note_receive(w.fd, &n, true);
	}
	note_send(by.fd, STOP, "");
	end(&by, "the one that was stopped");
	note_send(w.fd, STOP, "");
	end(&w, "the one that was not");
}

/* Serve until the parent's message says to stop. */
static void
server(int fd, uint32_t number)
{
	static struct traffic t;
	struct note n;
	int fds, shared;

	open_traffic(&t, 1);
	traffic_listen(&t);
	fds = nb_fds();
	shared = nb_shared();
	note_send(fd, READY, t.addr);
	while (!note_receive(fd, &n, false))
		traffic_turn(&t);
	UNTIL(TRAFFIC_PATIENCE_US, traffic_turn(&t), others_gone(&t, LEAT_PEER_ANY),
	      "a connection does not end");
	CHECK(t.ups >= number && t.ends >= t.ups, "%u connections, %u ends, of %u", t.ups, t.ends,
	      number);
	CHECK(nb_fds() <= fds && nb_shared() <= shared,
	      "%d descriptors, %d before any client; %d pieces of shared memory, %d before",
	      nb_fds(), fds, nb_shared(), shared);
	traffic_close(&t);
	CHECK(leat_cleanup() == 0, "%s", leat_err_msg());
}

/* Connect. @return the peer, whose connection is up */
static uint16_t
connected(struct traffic *t, const char *addr)
{
	uint64_t before = t->received;
	uint32_t ends, tries = 0;
	uint16_t peer;

	/*
	 * The server may have no room until READs that its last clients did not answer have timed
	 * out.
	 */
	do {
		CHECK(tries++ < 10, "no connection");
		ends = t->ends;
		peer = traffic_connect(t, addr);
		UNTIL(TRAFFIC_PATIENCE_US, traffic_turn(t),
		      t->ends > ends || (t->peer[peer].state == TRAFFIC_UP &&
					 t->peer[peer].done > 0 && t->received > before),
		      "nothing comes");
	} while (t->ends > ends);
	return peer;
}

static void
one_connection(struct traffic *t, const char *addr)
{
	uint16_t peer = connected(t, addr);
	uint32_t ends = t->ends;

	CHECK(leat_ep_disconnect(t->ep, peer) == 0, "disconnect: %s", leat_err_msg());
	UNTIL(TRAFFIC_PATIENCE_US, traffic_turn(t), t->ends > ends && traffic_gone(t, peer),
	      "the connection does not end");
}

static void
client(const char *addr, uint32_t number, bool anew)
{
	static struct traffic t;
	struct leat_dev *dev = device();
	int fds = nb_fds();
	uint32_t i;

	for (i = 0; i < number; i++) {
		if (anew || i == 0)
			traffic_open(&t, dev, ops_of(dev), test_random(&random_state));
		one_connection(&t, addr);
		if (anew || i + 1 == number)
			traffic_close(&t);
		if ((i + 1) % 1000 == 0) {
			printf("# %u connections\n", i + 1);
			CHECK(fflush(stdout) == 0, "stdout: %s", strerror(errno));
		}
	}
	CHECK(nb_fds() <= fds && nb_shared() == 0,
	      "%d descriptors, %d at the start; %d pieces of shared memory", nb_fds(), fds,
	      nb_shared());
	CHECK(leat_cleanup() == 0, "%s", leat_err_msg());
}

static void
connects(uint32_t number, bool anew)
{
	struct process s, c;
	struct note n;

	/*
	 * Provider efa of libfabric 1.17 keeps 9 MB of each endpoint that served an atomic, and
	 * never frees them.
	 */
	if (anew)
		without = LEAT_OP_BIT(LEAT_OP_FETCH_ADD) | LEAT_OP_BIT(LEAT_OP_CMP_SWAP);
	if (start(&s)) {
		server(s.fd, number);
		exit(0);
	}
	(void)note_receive(s.fd, &n, true);
	if (start(&c)) {
		client(n.addr, number, anew);
		exit(0);
	}
	end(&c, "client");
	note_send(s.fd, STOP, "");
	end(&s, "server");
}

/* Make a directory, and put its name where the arguments say dir=TMP. */
static void
make_directory(void)
{
	static char arg[512];
	const char *at;
	int i;

	for (i = 1; i < eal_argc; i++) {
		at = strstr(eal_argv[i], "dir=TMP");
		if (at == NULL)
			continue;
		CHECK(mkdtemp(directory) != NULL, "%s: %s", directory, strerror(errno));
		has_directory = true;
		snprintf(arg, sizeof(arg), "%.*sdir=%s%s", (int)(at - eal_argv[i]), eal_argv[i],
			 directory, at + strlen("dir=TMP"));
		eal_argv[i] = arg;
		return;
	}
}

static void
remove_directory(void)
{
	struct process p;

	if (!has_directory)
		return;
	if (start(&p)) {
		sweeper();
		exit(0);
	}
	end(&p, "sweeper");
	CHECK(rmdir(directory) == 0, "%s: %s", directory, strerror(errno));
}

int
main(int argc, char **argv)
{
	uint32_t number;

	CHECK(argc > 3,
	      "usage: leat-lives kills|stops|connects|endpoints NUMBER SEED EAL-ARGUMENTS");
	number = (uint32_t)strtoul(argv[2], NULL, 0);
	random_state = strtoull(argv[3], NULL, 0) | 1;
	eal_argv = argv + 3;
	eal_argc = argc - 3;
	eal_argv[0] = argv[0];
	make_directory();
	if (strcmp(argv[1], "kills") == 0)
		kills(number);
	else if (strcmp(argv[1], "stops") == 0)
		stops(number);
	else if (strcmp(argv[1], "connects") == 0 || strcmp(argv[1], "endpoints") == 0)
		connects(number, strcmp(argv[1], "endpoints") == 0);
	else
		CHECK(false, "%s?", argv[1]);
	remove_directory();
	return 0;
}
