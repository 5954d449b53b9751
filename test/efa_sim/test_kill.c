/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A process is killed at a random moment while it opens, sends, receives and reads. Its peer's
 * requests must complete with a status; the peer goes on, and keeps no memory or descriptor of the
 * dead process.
 */

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#define LENGTH 4096
#define NB_RECVS 32

unsigned int test_nb_kills = 300;

struct side {
	struct ep *ep;
	struct ibv_ah *ah;
	struct addr to;
	uint32_t nb_posted;
	bool gone; /* a status reported the peer's end */
};

/* Handle one completion, if there is any. Statuses that a dying peer may cause are no failure. */
static bool
step(struct side *side)
{
	struct comp comp;

	if (!comp_poll(side->ep, &comp))
		return false;
	if (comp.opcode == IBV_WC_RECV) {
		CHECK_EQUAL(comp.status, ST_OK);
		CHECK_EQUAL(post_recv(side->ep, comp.wr_id, 0, LENGTH), 0);
		return true;
	}
	side->nb_posted--;
	if (comp.status == ST_BAD_QPN)
		side->gone = true;
	else if (comp.wr_id == 2)
		CHECK(comp.status == ST_OK || comp.status == ST_ABORT);
	else
		CHECK(comp.status == ST_OK || comp.status == ST_RNR);
	return true;
}

static void
flood(struct side *side)
{
	while (side->nb_posted < 16) {
		int err;

		if (side->nb_posted % 4 == 3)
			err = post_read(side->ep, 2, side->ah, &side->to, side->to.mem, LENGTH,
					LENGTH);
		else
			err = post_send(side->ep, 1, side->ah, &side->to, 0, LENGTH);
		CHECK_EQUAL(err, 0);
		side->nb_posted++;
	}
	(void)step(side);
}

static void
recvs(struct ep *ep)
{
	for (uint64_t i = 0; i < NB_RECVS; i++)
		CHECK_EQUAL(post_recv(ep, i, 0, LENGTH), 0);
}

static void
victim(int fd, void *arg)
{
	struct side side = { .to = *(const struct addr *)arg };
	struct host host;
	struct ep ep;

	host_open(&host, 0);
	ep_open(&ep, &host, NULL);
	recvs(&ep);
	side.ep = &ep;
	side.ah = ah_open(&host, &side.to.gid);
	put(fd, &ep.addr, sizeof(ep.addr));
	for (;;)
		flood(&side);
}

static uint64_t
random_of(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Count the names in /dev/shm that could be the emulator's. */
static unsigned int
nb_shm(void)
{
	DIR *dir = opendir("/dev/shm");
	const struct dirent *entry;
	unsigned int nb = 0;

	CHECK(dir != NULL);
	/* cppcheck-suppress readdirCalled ; no other function has this directory open */
	while ((entry = readdir(dir)) != NULL)
		nb += strstr(entry->d_name, "efa") != NULL;
	closedir(dir);
	return nb;
}

/*
 * Flood a victim for life_ns and kill it. The time begins with its fork (from_birth), or when it
 * has sent its address. Return false if the victim sent none.
 */
static bool
round_of(struct ep *ep, uint64_t life_ns, bool from_birth)
{
	struct side side = { .ep = ep };
	uint64_t until = from_birth ? now_ns() + life_ns : UINT64_MAX;
	struct child child;
	bool heard;

	child_start(&child, victim, &ep->addr);
	do {
		heard = recv(child.fd, &side.to, sizeof(side.to), MSG_DONTWAIT) ==
			(ssize_t)sizeof(side.to);
		(void)step(&side);
	} while (!heard && now_ns() < until);
	if (heard)
		side.ah = ah_open(ep->host, &side.to.gid);
	if (!from_birth)
		until = now_ns() + life_ns;
	while (heard && now_ns() < until)
		flood(&side);
	child_kill(&child);
	if (!heard)
		return false;
	/* The victim is dead: the next message must report that, and all posted ones complete. */
	side.gone = false;
	while (side.nb_posted == 16)
		(void)step(&side);
	CHECK_EQUAL(post_send(ep, 1, side.ah, &side.to, 0, LENGTH), 0);
	side.nb_posted++;
	while (side.nb_posted > 0)
		(void)step(&side);
	CHECK(side.gone);
	ah_close(side.ah);
	return true;
}

/* The survivor can send to itself, after messages that dead peers left in the receive queue. */
static void
still_works(struct ep *ep, struct ibv_ah *self)
{
	struct side side = { .ep = ep };

	while (step(&side))
		;
	memcpy(ep->mem + LENGTH, "alive", 6);
	memset(ep->mem, 0, 8);
	CHECK_EQUAL(post_send(ep, 1, self, &ep->addr, LENGTH, 6), 0);
	side.nb_posted = 1;
	while (side.nb_posted > 0 || ep->mem[0] == 0)
		(void)step(&side);
	CHECK(strcmp(ep->mem, "alive") == 0);
}

static void
kills(void)
{
	uint64_t state = 88172645463325252ull;
	unsigned int fds, maps, shm, heard = 0;
	struct ibv_ah *self;
	struct host host;
	struct ep ep;

	host_open(&host, 0);
	ep_open(&ep, &host, NULL);
	recvs(&ep);
	self = ah_open(&host, &host.gid);
	still_works(&ep, self);
	fds = nb_fds();
	maps = nb_sim_maps();
	shm = nb_shm();
	for (unsigned int i = 0; i < test_nb_kills; i++) {
		heard += round_of(&ep, random_of(&state) % 6000000, i % 2 == 0);
		still_works(&ep, self);
		CHECK_EQUAL(nb_fds(), fds);
		CHECK_EQUAL(nb_sim_maps(), maps);
	}
	CHECK_EQUAL(nb_shm(), shm);
	CHECK(heard >= test_nb_kills / 2);
	printf("# killed %u, of which %u had connected and %llu held a lock of the survivor\n",
	       test_nb_kills, heard, (unsigned long long)counter("recovered"));
	ah_close(self);
	ep_close(&ep);
	host_close(&host);
}

/* Send memory whose file is truncated: SIGBUS kills this process while it fills the inbox. */
static void
dying(int fd, void *arg)
{
	const struct addr *to = arg;
	const struct rlimit no_core = { 0 };
	struct ibv_sge sge;
	struct host host;
	struct ibv_ah *ah;
	struct ibv_mr *mr;
	struct ep ep;
	char *mem;
	int file;

	(void)fd;
	CHECK(setrlimit(RLIMIT_CORE, &no_core) == 0);
	CHECK(signal(SIGBUS, SIG_DFL) != SIG_ERR);
	host_open(&host, 0);
	ep_open(&ep, &host, NULL);
	ah = ah_open(&host, &to->gid);
	file = memfd_create("gone", MFD_CLOEXEC);
	CHECK(file >= 0 && ftruncate(file, LENGTH) == 0);
	mem = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK(mem != MAP_FAILED);
	mr = ibv_reg_mr(host.pd, mem, LENGTH, 0);
	CHECK(mr != NULL);
	CHECK(ftruncate(file, 0) == 0);
	sge = (struct ibv_sge){ (uintptr_t)mem, LENGTH, mr->lkey };
	CHECK_EQUAL(post_send_sges(&ep, 1, ah, to, &sge, 1, 0), 0);
}

/*
 * A sender is killed while it fills an inbox: its message does not arrive, the next sender's does.
 */
static void
killed_in_an_inbox(void)
{
	struct ibv_ah *self;
	struct child child;
	struct host host;
	struct comp comp;
	struct ep ep;

	host_open(&host, 0);
	ep_open(&ep, &host, NULL);
	self = ah_open(&host, &host.gid);
	for (uint64_t i = 1; i <= 5; i++) {
		int status;

		CHECK_EQUAL(post_recv(&ep, i, 0, LENGTH), 0);
		child_start(&child, dying, &ep.addr);
		CHECK(waitpid(child.pid, &status, 0) == child.pid);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
		close(child.fd);
		comp_none(&ep);
		CHECK_EQUAL(post_send(&ep, 100, self, &ep.addr, 0, 8), 0);
		CHECK_EQUAL(comp_expect(&ep, ST_OK), 100);
		comp_wait(&ep, &comp);
		CHECK_EQUAL(comp.status, ST_OK);
		CHECK_EQUAL(comp.wr_id, i);
		CHECK_EQUAL(comp.byte_len, 8);
		CHECK_EQUAL(counter("recovered"), i);
	}
	ah_close(self);
	ep_close(&ep);
	host_close(&host);
}

static int
access_shm(const char *name)
{
	int fd = shm_open(name, O_RDONLY, 0);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

/* Write the name of the file that libfabric's provider makes for an endpoint with this GID. */
static void
segment_name(char *name, size_t size, const union ibv_gid *gid)
{
	char text[INET6_ADDRSTRLEN];

	CHECK(inet_ntop(AF_INET6, gid->raw, text, sizeof(text)) != NULL);
	snprintf(name, size, "/%s_%04x_%08x_%04x", text, 0x400, 1, 0);
}

static void
leave_segment(int fd, void *arg)
{
	char name[128];
	struct host host;
	int shm;

	(void)arg;
	host_open(&host, 0);
	segment_name(name, sizeof(name), &host.gid);
	shm = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
	CHECK(shm >= 0);
	close(shm);
	put(fd, name, sizeof(name));
	get(fd, name, 1); /* the process is killed in this call */
}

/* The file of a living host stays, that of a killed one is removed. */
static void
segments(void)
{
	char killed[128], alive[128];
	struct child a, b;
	struct host host;

	child_start(&a, leave_segment, NULL);
	get(a.fd, killed, sizeof(killed));
	child_start(&b, leave_segment, NULL);
	get(b.fd, alive, sizeof(alive));
	CHECK_EQUAL(access_shm(killed), 0);
	child_kill(&a);
	host_open(&host, 0);
	CHECK_EQUAL(access_shm(killed), ENOENT);
	CHECK_EQUAL(access_shm(alive), 0);
	host_close(&host);
	child_kill(&b);
	CHECK_EQUAL(shm_unlink(alive), 0);
}

const struct test tests_kill[] = {
	{ .name = "segments", .run = segments },
	{ .name = "killed-in-an-inbox", .run = killed_in_an_inbox },
	{ .name = "kill", .run = kills },
	{ .name = "kill-reordered", .config = "reorder=8,hold-us=100", .run = kills },
	{ 0 },
};
