/* SPDX-License-Identifier: BSD-3-Clause */

/* RDMA READ: which memory may be read, without any action of the target's program. */

#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#define BIG (5u << 20)

static void
fill(char *mem, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++)
		mem[i] = (char)(i ^ i >> 9);
}

/* Readable memory, in a process that only waits. */
struct shown {
	struct addr addr;
	uint64_t big; /* address of the region of big_key, BIG - 2 bytes */
	uint32_t big_key, no_read_key, stale_key, other_pd_key, other_device_key;
};

static void
show(int fd, void *arg)
{
	struct ibv_mr *big, *no_read, *stale, *other, *far;
	struct shown shown = { 0 };
	struct host host, second;
	struct ibv_pd *pd;
	char byte;
	struct ep ep;
	char *mem;

	(void)arg;
	host_open(&host, 0);
	host_open(&second, 1);
	ep_open(&ep, &host, NULL);
	mem = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(mem != MAP_FAILED);
	fill(mem, BIG);
	pd = ibv_alloc_pd(host.context);
	CHECK(pd != NULL);
	stale = ibv_reg_mr(host.pd, mem, BIG, IBV_ACCESS_REMOTE_READ);
	CHECK(stale != NULL);
	shown.stale_key = stale->rkey;
	CHECK_EQUAL(ibv_dereg_mr(stale), 0);
	big = ibv_reg_mr(host.pd, mem + 1, BIG - 2, IBV_ACCESS_REMOTE_READ);
	no_read = ibv_reg_mr(host.pd, mem, BIG, IBV_ACCESS_LOCAL_WRITE);
	other = ibv_reg_mr(pd, mem, BIG, IBV_ACCESS_REMOTE_READ);
	far = ibv_reg_mr(second.pd, mem, BIG, IBV_ACCESS_REMOTE_READ);
	CHECK(big != NULL && no_read != NULL && other != NULL && far != NULL);
	shown.addr = ep.addr;
	shown.big = (uintptr_t)mem + 1;
	shown.big_key = big->rkey;
	shown.no_read_key = no_read->rkey;
	shown.other_pd_key = other->rkey;
	shown.other_device_key = far->rkey;
	put(fd, &shown, sizeof(shown));
	while (try_get(fd, &byte, 1)) {
		/* Make this process as little readable as a program can. */
		CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
		put(fd, &byte, 1);
	}
	CHECK_EQUAL(counter("recvs"), 0);
	CHECK_EQUAL(counter("peers"), 0);
	CHECK_EQUAL(ibv_dereg_mr(big), 0);
	CHECK_EQUAL(ibv_dereg_mr(no_read), 0);
	CHECK_EQUAL(ibv_dereg_mr(other), 0);
	CHECK_EQUAL(ibv_dereg_mr(far), 0);
	CHECK_EQUAL(ibv_dealloc_pd(pd), 0);
	ep_close(&ep);
	host_close(&host);
	host_close(&second);
}

struct reader {
	struct child child;
	struct shown shown;
	struct host host;
	struct ep ep;
	struct ibv_ah *ah;
	char *mem;
	struct ibv_mr *mr;
};

static void
reader_open(struct reader *r)
{
	child_start(&r->child, show, NULL);
	get(r->child.fd, &r->shown, sizeof(r->shown));
	host_open(&r->host, 0);
	ep_open(&r->ep, &r->host, NULL);
	r->ah = ah_open(&r->host, &r->shown.addr.gid);
	r->mem = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(r->mem != MAP_FAILED);
	r->mr = ibv_reg_mr(r->host.pd, r->mem, BIG, IBV_ACCESS_LOCAL_WRITE);
	CHECK(r->mr != NULL);
}

static void
reader_close(struct reader *r)
{
	child_end(&r->child);
	CHECK_EQUAL(ibv_dereg_mr(r->mr), 0);
	ah_close(r->ah);
	ep_close(&r->ep);
	host_close(&r->host);
}

static void
read_of(struct reader *r, uint32_t rkey, uint64_t remote, uint32_t length, uint32_t status)
{
	struct ibv_sge sge = { (uintptr_t)r->mem, length, r->mr->lkey };
	struct comp comp;

	CHECK_EQUAL(post_read_sge(&r->ep, 5, r->ah, &r->shown.addr, rkey, remote, &sge), 0);
	comp_wait(&r->ep, &comp);
	CHECK_EQUAL(comp.status, status);
	CHECK_EQUAL(comp.wr_id, 5);
	CHECK_EQUAL(comp.opcode, IBV_WC_SEND);
	CHECK_EQUAL(comp.qp_num, r->ep.addr.qpn);
}

static void
compare(const struct reader *r, uint32_t offset, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++) {
		uint32_t at = offset + 1 + i; /* the region begins with the second byte */

		CHECK_EQUAL((uint8_t)r->mem[i], (uint8_t)(at ^ at >> 9));
	}
}

static void
read_sizes(void)
{
	static const uint32_t lengths[] = { 1, 8, 4095, 4096, 8929, 1u << 20, BIG - 2 };
	struct reader r;

	reader_open(&r);
	read_of(&r, r.shown.big_key, r.shown.big, 0, ST_OK);
	for (uint32_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint32_t n = lengths[i];

		memset(r.mem, 0, BIG);
		read_of(&r, r.shown.big_key, r.shown.big + (BIG - 2 - n), n, ST_OK);
		compare(&r, BIG - 2 - n, n);
		if (n < BIG)
			CHECK_EQUAL(r.mem[n], 0);
	}
	/* A READ without a buffer reads nothing, and succeeds. */
	CHECK_EQUAL(post_read_sge(&r.ep, 6, r.ah, &r.shown.addr, r.shown.big_key, r.shown.big,
				  NULL),
		    0);
	CHECK_EQUAL(comp_expect(&r.ep, ST_OK), 6);
	CHECK_EQUAL(counter("reads"), 9);
	CHECK_EQUAL(counter("read_bytes"), 1 + 8 + 4095 + 4096 + 8929 + (1u << 20) + BIG - 2);
	reader_close(&r);
}

static void
read_bounds(void)
{
	struct shown *s;
	struct reader r;

	reader_open(&r);
	s = &r.shown;
	read_of(&r, s->big_key, s->big - 1, 8, ST_BAD_ADDRESS);
	read_of(&r, s->big_key, s->big - 1, 0, ST_BAD_ADDRESS);
	read_of(&r, s->big_key, s->big + BIG - 2 - 7, 8, ST_BAD_ADDRESS);
	read_of(&r, s->big_key, s->big + BIG - 2, 1, ST_BAD_ADDRESS);
	read_of(&r, s->big_key, s->big + BIG - 2, 0, ST_OK);
	read_of(&r, s->big_key, s->big, BIG - 1, ST_BAD_ADDRESS);
	read_of(&r, s->big_key, UINT64_MAX, 1, ST_BAD_ADDRESS);
	read_of(&r, s->big_key, UINT64_MAX - 3, 8, ST_BAD_ADDRESS);
	read_of(&r, s->big_key, UINT64_MAX - 3, BIG, ST_BAD_ADDRESS);
	read_of(&r, s->big_key, 0, 8, ST_BAD_ADDRESS);
	read_of(&r, s->big_key, s->big, 8, ST_OK);
	compare(&r, 0, 8);
	reader_close(&r);
}

static void
read_keys(void)
{
	struct ibv_sge sge;
	struct shown *s;
	struct reader r;

	reader_open(&r);
	s = &r.shown;
	read_of(&r, 0, s->big, 8, ST_BAD_ADDRESS);
	read_of(&r, s->big_key + 5000, s->big, 8, ST_BAD_ADDRESS);
	read_of(&r, s->big_key + (1u << 16), s->big, 8, ST_BAD_ADDRESS);
	read_of(&r, s->no_read_key, s->big, 8, ST_BAD_ADDRESS);
	read_of(&r, s->stale_key, s->big, 8, ST_BAD_ADDRESS);
	read_of(&r, s->other_pd_key, s->big, 8, ST_BAD_ADDRESS);
	read_of(&r, s->other_device_key, s->big, 8, ST_BAD_ADDRESS);
	/* A READ into local memory without the right to write fails. */
	CHECK_EQUAL(ibv_dereg_mr(r.mr), 0);
	r.mr = ibv_reg_mr(r.host.pd, r.mem, BIG, IBV_ACCESS_REMOTE_READ);
	CHECK(r.mr != NULL);
	read_of(&r, s->big_key, s->big, 8, ST_BAD_LKEY);
	sge = (struct ibv_sge){ r.ep.addr.mem, 8, r.ep.mr->lkey };
	CHECK_EQUAL(post_read_sge(&r.ep, 1, r.ah, &s->addr, s->big_key, s->big, &sge), 0);
	CHECK_EQUAL(comp_expect(&r.ep, ST_OK), 1);
	CHECK_EQUAL(counter("remote_bad_address"), 7);
	reader_close(&r);
}

/* A READ is started and aborted, or has no address; then nothing is posted. */
static void
read_session(void)
{
	struct ibv_sge sges[2] = { 0 };
	struct host host;
	struct ibv_ah *ah;
	struct ep a;

	host_open(&host, 0);
	ep_open(&a, &host, NULL);
	ah = ah_open(&host, &host.gid);
	for (int i = 0; i < 200; i++) {
		ibv_wr_start(a.ex);
		ibv_wr_rdma_read(a.ex, a.addr.rkey, a.addr.mem);
		ibv_wr_abort(a.ex);
		ibv_wr_start(a.ex);
		CHECK_EQUAL(ibv_wr_complete(a.ex), EINVAL);
		ibv_wr_start(a.ex);
		ibv_wr_rdma_read(a.ex, a.addr.rkey, a.addr.mem);
		CHECK_EQUAL(ibv_wr_complete(a.ex), EINVAL);
		ibv_wr_start(a.ex);
		ibv_wr_rdma_read(a.ex, a.addr.rkey, a.addr.mem);
		ibv_wr_set_sge_list(a.ex, 2, sges);
		ibv_wr_set_ud_addr(a.ex, ah, a.addr.qpn, a.addr.qkey);
		CHECK_EQUAL(ibv_wr_complete(a.ex), EINVAL);
	}
	comp_none(&a);
	memcpy(a.mem + 100, "mine", 5);
	ibv_wr_start(a.ex);
	a.ex->wr_id = 4;
	ibv_wr_rdma_read(a.ex, a.addr.rkey, a.addr.mem + 100);
	ibv_wr_set_sge(a.ex, a.mr->lkey, a.addr.mem, 5);
	ibv_wr_set_ud_addr(a.ex, ah, a.addr.qpn, a.addr.qkey);
	CHECK_EQUAL(ibv_wr_complete(a.ex), 0);
	CHECK_EQUAL(comp_expect(&a, ST_OK), 4);
	CHECK(strcmp(a.mem, "mine") == 0);
	ah_close(ah);
	ep_close(&a);
	host_close(&host);
}

static void
read_stopped(void)
{
	struct reader r;
	int status;

	reader_open(&r);
	CHECK(kill(r.child.pid, SIGSTOP) == 0);
	CHECK(waitpid(r.child.pid, &status, WUNTRACED) == r.child.pid && WIFSTOPPED(status));
	read_of(&r, r.shown.big_key, r.shown.big, BIG - 2, ST_OK);
	compare(&r, 0, BIG - 2);
	/* The QP still exists: a message fails because no receive is posted (ST_RNR). */
	CHECK_EQUAL(post_send(&r.ep, 1, r.ah, &r.shown.addr, 0, 8), 0);
	comp_expect(&r.ep, ST_RNR);
	CHECK(kill(r.child.pid, SIGCONT) == 0);
	reader_close(&r);
}

#define ROUNDS 300
#define REUSED EP_BYTES

/* Memory is deregistered and overwritten while it is read. */
static void
reuse(int fd, void *arg)
{
	struct addr shown;
	struct ibv_mr *mr;
	struct host host;
	struct ep ep;
	char byte;

	(void)arg;
	host_open(&host, 0);
	ep_open(&ep, &host, NULL);
	shown = ep.addr;
	for (int i = 0; i < ROUNDS; i++) {
		/*
		 * Write the second half first: a READ under way may then see old bytes and new
		 * ones.
		 */
		memset(ep.mem + REUSED / 2, i, REUSED / 2);
		memset(ep.mem, i, REUSED / 2);
		mr = ibv_reg_mr(host.pd, ep.mem, REUSED, IBV_ACCESS_REMOTE_READ);
		CHECK(mr != NULL);
		shown.rkey = mr->rkey;
		put(fd, &shown, sizeof(shown));
		get(fd, &byte, 1);
		CHECK_EQUAL(ibv_dereg_mr(mr), 0);
	}
	get(fd, &byte, 1);
	ep_close(&ep);
	host_close(&host);
}

/* When a READ succeeds, its source was still registered while the last byte was read. */
static void
read_deregistered(void)
{
	struct child child;
	struct comp comp;
	struct addr from;
	struct host host;
	struct ibv_ah *ah = NULL;
	struct ep ep;

	child_start(&child, reuse, NULL);
	host_open(&host, 0);
	ep_open(&ep, &host, NULL);
	for (int i = 0; i < ROUNDS; i++) {
		get(child.fd, &from, sizeof(from));
		if (i == 0)
			ah = ah_open(&host, &from.gid);
		put(child.fd, "", 1);
		do {
			CHECK_EQUAL(post_read(&ep, 1, ah, &from, from.mem, 0, REUSED), 0);
			comp_wait(&ep, &comp);
			if (comp.status == ST_OK)
				CHECK((uint8_t)ep.mem[0] == (uint8_t)i &&
				      memcmp(ep.mem, ep.mem + 1, REUSED - 1) == 0);
		} while (comp.status == ST_OK);
		CHECK(comp.status == ST_BAD_ADDRESS || comp.status == ST_ABORT);
	}
	put(child.fd, "", 1);
	child_end(&child);
	ah_close(ah);
	ep_close(&ep);
	host_close(&host);
}

static void
drop_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	memset(data, 0, sizeof(data));
	CHECK(syscall(SYS_capset, &header, data) == 0);
}

/* The system refuses access: each READ gets a status, and one message is printed. */
static void
read_refused(void)
{
	char text[4096], *found;
	int log = memfd_create("log", MFD_CLOEXEC), old;
	struct reader r;
	ssize_t n;

	reader_open(&r);
	read_of(&r, r.shown.big_key, r.shown.big, 8, ST_OK);
	put(r.child.fd, "", 1);
	get(r.child.fd, text, 1);
	drop_capabilities();
	old = dup(STDERR_FILENO);
	CHECK(log >= 0 && old >= 0 && dup2(log, STDERR_FILENO) >= 0);
	for (int i = 0; i < 3; i++)
		read_of(&r, r.shown.big_key, r.shown.big, 8, ST_ABORT);
	CHECK(dup2(old, STDERR_FILENO) >= 0);
	n = pread(log, text, sizeof(text) - 1, 0);
	CHECK(n > 0);
	text[n] = '\0';
	found = strstr(text, "READ of process");
	CHECK(found != NULL && strstr(found + 1, "READ of process") == NULL);
	reader_close(&r);
}

const struct test tests_read[] = {
	{ .name = "read-sizes", .config = "devices=2", .run = read_sizes },
	{ .name = "read-bounds", .config = "devices=2", .run = read_bounds },
	{ .name = "read-keys", .config = "devices=2", .run = read_keys },
	{ .name = "read-session", .run = read_session },
	{ .name = "read-stopped", .config = "devices=2", .run = read_stopped },
	{ .name = "read-deregistered", .run = read_deregistered },
	{ .name = "read-refused", .config = "devices=2", .run = read_refused },
	{ 0 },
};
