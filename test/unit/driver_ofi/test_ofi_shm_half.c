/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Senders of libfabric's shm that are killed between any two steps of an op: does
 * ofi_shm_cmd_repair() leave a memory that the provider goes on with? Without leat's endpoints, so
 * that the kill comes at one instruction and no other:
 *
 *     this process:  target <- other          child:  dead -> target
 *
 * The child is run step by step while it posts one op. Each time that something of the target's
 * bookkeeping changes is one case, in which it is killed there. Then the memory is repaired, and
 * the other sender fills the target's queue again and again, until all of it was used: every
 * message must arrive, in order, and WRITEs and atomics too.
 */

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "shm_1_17/ofi_shm_mem.h"
#include "stepper.h"

#define QUEUE 64 /* commands of an endpoint */
#define KEY 1
#define LARGE 8000  /* not copied through the queue */
#define MEDIUM 1000 /* through an inject buffer */
#define SMALL 60    /* inside a command */
#define NAME_MAX_LEN 256
/* Calls without a result after which something is lost. */
#define PATIENCE 1000000

enum kind {
	CONNECT,
	SEND_SMALL,
	SEND_MEDIUM,
	WRITE_FAST,
	WRITE_PLACED_SMALL,
	WRITE_PLACED_LARGE,
	FETCH_ADD,
	ANSWER_WRITE,
	ANSWER_FETCH_ADD,
	NB_KINDS,
};

static const char *const kinds[NB_KINDS] = {
	[CONNECT] = "connection request",
	[SEND_SMALL] = "send, inline",
	[SEND_MEDIUM] = "send, inject",
	[WRITE_FAST] = "write, fast",
	[WRITE_PLACED_SMALL] = "write, SAR",
	[WRITE_PLACED_LARGE] = "write, iov",
	[FETCH_ADD] = "fetch-add",
	[ANSWER_WRITE] = "answer to a write",
	[ANSWER_FETCH_ADD] = "answer to a fetch-add",
};

struct node {
	struct fid_domain *domain;
	struct fid_ep *ep;
	struct fid_av *av;
	struct fid_cq *cq;
	fi_addr_t to; /* the target */
	char name[NAME_MAX_LEN];
};

/* Between this process and its children. */
struct shared {
	char name[NAME_MAX_LEN]; /* of the child's memory */
	uint8_t buf[2 * LARGE];	 /* what ops reach */
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct shared *shared;

/* ---- endpoints ---- */

/*
 * The name of this process's memories. By its number alone the provider can't tell a process from
 * the one that had the number before it, or has it in another container, and left a memory behind.
 */
static int
name_self(void)
{
	struct timespec now;
	char name[64];

	if (clock_gettime(CLOCK_REALTIME, &now) != 0)
		return -errno;
	snprintf(name, sizeof(name), "fi_shm://half-%d-%" PRIx64, (int)getpid(),
		 (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec);
	free(info->src_addr);
	info->src_addr = strdup(name);
	info->src_addrlen = strlen(name) + 1;
	return info->src_addr != NULL ? 0 : -ENOMEM;
}

/* In the child too, which must not end a test: asserts nothing. */
static int
node_open(struct node *n)
{
	struct fi_cq_attr cq = { .size = 1024, .format = FI_CQ_FORMAT_DATA };
	struct fi_av_attr av = { .type = FI_AV_TABLE };
	size_t len = sizeof(n->name);
	int ret;

	memset(n, 0, sizeof(*n));
	ret = fi_domain(fabric, info, &n->domain, NULL);
	ret = ret != 0 ? ret : fi_av_open(n->domain, &av, &n->av, NULL);
	ret = ret != 0 ? ret : fi_cq_open(n->domain, &cq, &n->cq, NULL);
	ret = ret != 0 ? ret : fi_endpoint(n->domain, info, &n->ep, NULL);
	ret = ret != 0 ? ret : fi_ep_bind(n->ep, &n->av->fid, 0);
	ret = ret != 0 ? ret : fi_ep_bind(n->ep, &n->cq->fid, FI_TRANSMIT | FI_RECV);
	ret = ret != 0 ? ret : fi_enable(n->ep);
	return ret != 0 ? ret : fi_getname(&n->ep->fid, n->name, &len);
}

static void
node_close(struct node *n)
{
	assert_int_equal(fi_close(&n->ep->fid), 0);
	assert_int_equal(fi_close(&n->cq->fid), 0);
	assert_int_equal(fi_close(&n->av->fid), 0);
	assert_int_equal(fi_close(&n->domain->fid), 0);
}

static bool
node_to(struct node *n, const struct node *target)
{
	return fi_av_insert(n->av, target->name, 1, &n->to, 0, NULL) == 1;
}

/* The address of a name is what comes after "fi_shm://" or the like. */
static const char *
file_name(const char *name)
{
	const char *s = strstr(name, "://");

	return s != NULL ? s + 3 : name;
}

/* ---- the child ---- */

static uint8_t dead_buf[LARGE];

static ssize_t
post(struct node *n, enum kind kind)
{
	static uint64_t one = 1, result;
	uint8_t *src = dead_buf, *dst = shared->buf;
	struct iovec iov = { src, kind == WRITE_PLACED_LARGE ? LARGE : 100 };
	struct fi_rma_iov rma = { (uintptr_t)dst, iov.iov_len, KEY };
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = n->to, .rma_iov = &rma, .rma_iov_count = 1
	};

	switch (kind) {
	case CONNECT:
	case SEND_SMALL:
		return fi_send(n->ep, src, SMALL, NULL, n->to, NULL);
	case SEND_MEDIUM:
		return fi_send(n->ep, src, MEDIUM, NULL, n->to, NULL);
	case WRITE_FAST:
		return fi_write(n->ep, src, 100, NULL, n->to, (uintptr_t)dst, KEY, NULL);
	case WRITE_PLACED_SMALL:
	case WRITE_PLACED_LARGE:
	case ANSWER_WRITE:
		return fi_writemsg(n->ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE);
	case FETCH_ADD:
	case ANSWER_FETCH_ADD:
		return fi_fetch_atomic(n->ep, &one, 1, NULL, &result, NULL, n->to, (uintptr_t)dst,
				       KEY, FI_UINT64, FI_SUM, NULL);
	default:
		return -FI_EINVAL;
	}
}

/* A message that is taken also says that both know each other. */
static bool
child_connect(struct node *n)
{
	uint8_t hello = 0xcc;
	ssize_t ret;

	while ((ret = fi_inject(n->ep, &hello, 1, n->to)) == -FI_EAGAIN)
		(void)sched_yield();
	return ret == 0;
}

static void __attribute__((noreturn)) child(const struct node *target, enum kind kind)
{
	bool answer = kind == ANSWER_WRITE || kind == ANSWER_FETCH_ADD;
	struct fi_cq_data_entry e;
	struct node n;
	ssize_t ret;

	/* Not alone in an endless loop when a test fails. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
		_exit(1);
	memset(dead_buf, 0xdd, sizeof(dead_buf));
	if (name_self() != 0 || node_open(&n) != 0)
		_exit(7);
	memcpy(shared->name, n.name, sizeof(n.name));
	if (!node_to(&n, target))
		_exit(8);
	if (kind != CONNECT && !child_connect(&n))
		_exit(2);
	if (answer && post(&n, kind) != 0)
		_exit(3);
	if (!stepper_here(true))
		_exit(4);
	do {
		ret = answer ? fi_cq_read(n.cq, &e, 1) : post(&n, kind);
	} while (answer && ret == -FI_EAGAIN);
	if (ret != (kind == CONNECT ? -FI_EAGAIN : answer ? 1 : 0))
		_exit(5);
	(void)stepper_here(false);
	_exit(6);
}

/* ---- the target's memory, and what of it is bookkeeping ---- */

struct mem {
	struct ofi_shm_mem *m;
	size_t len;
};

static struct mem
mem_open(const char *name)
{
	int fd = shm_open(file_name(name), O_RDWR, 0);
	struct stat st;
	struct mem r;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	r.len = (size_t)st.st_size;
	r.m = mmap(NULL, r.len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(r.m != MAP_FAILED);
	assert_int_equal(close(fd), 0);
	return r;
}

static void *
at(struct mem r, size_t off)
{
	return (char *)r.m + off;
}

struct snapshot {
	size_t cmd_cnt, sar_cnt, rcnt, wcnt;
	int32_t lock, signal;
	struct {
		int16_t free, top, next[512];
	} pool[2];
};

static void
snap(struct mem r, struct snapshot *s)
{
	const struct ofi_shm_cmd_queue *q = at(r, r.m->cmd_queue_offset);
	const struct ofi_shm_pool *p[2] = { at(r, r.m->inject_pool_offset),
					    at(r, r.m->sar_pool_offset) };
	int i;

	memset(s, 0, sizeof(*s));
	s->cmd_cnt = r.m->cmd_cnt;
	s->sar_cnt = r.m->sar_cnt;
	s->rcnt = q->rcnt;
	s->wcnt = q->wcnt;
	s->lock = r.m->lock;
	s->signal = r.m->signal;
	for (i = 0; i < 2; i++) {
		assert_true(p[i]->size <= 512);
		s->pool[i].free = p[i]->free;
		s->pool[i].top = p[i]->top;
		memcpy(s->pool[i].next, p[i]->next, p[i]->size * sizeof(p[i]->next[0]));
	}
}

/* What ofi_shm_dead.c does. @return 1: it took back half an op; -1: the lock was free */
static int
repair(struct mem r)
{
	int ret = -1;

	if (pthread_spin_trylock(&r.m->lock) != 0) {
		ret = ofi_shm_cmd_repair(r.m, r.len);
		assert_true(ret >= 0);
		atomic_store(&r.m->signal, 1);
	}
	assert_int_equal(pthread_spin_unlock(&r.m->lock), 0);
	return ret;
}

/* ---- this process ---- */

struct scene {
	struct node target, other;
	struct fid_mr *mr;
	struct mem mem;
	uint8_t rx[QUEUE / 2][LARGE];
	uint32_t sent; /* by the other sender */
	uint32_t got;
	uint32_t dead;	   /* of the dead */
	uint32_t held;	   /* received, and still counted as a command */
	unsigned int room; /* commands that the queue took when it was last filled */
};

static void
recv_post(struct scene *s, void *buf)
{
	assert_int_equal(fi_recv(s->target.ep, buf, LARGE, NULL, FI_ADDR_UNSPEC, buf), 0);
}

/* One look at the target's completions. @return how many there were */
static int
target_turn(struct scene *s)
{
	struct fi_cq_err_entry err = { 0 };
	struct fi_cq_data_entry e;
	ssize_t ret = fi_cq_read(s->target.cq, &e, 1);
	uint8_t *b;

	if (ret == -FI_EAGAIN)
		return 0;
	if (ret == -FI_EAVAIL) {
		/* What the dead wanted to have copied out of its memory, or into it. */
		assert_int_equal(fi_cq_readerr(s->target.cq, &err, 0), 1);
		if (err.op_context != NULL)
			recv_post(s, err.op_context);
		return 1;
	}
	assert_int_equal(ret, 1);
	if ((e.flags & FI_RECV) == 0)
		return 1;
	b = e.op_context;
	if (b[0] == 0xdd || b[0] == 0xcc) {
		s->dead++;
	} else if (e.len == LARGE) {
		s->held++;
	} else {
		uint32_t n;

		assert_int_equal(e.len, MEDIUM);
		memcpy(&n, b + 4, sizeof(n));
		assert_int_equal(n, s->got);
		s->got++;
	}
	recv_post(s, b);
	return 1;
}

static void
target_rest(struct scene *s)
{
	int quiet = 0;

	while (quiet < 10)
		quiet = target_turn(s) > 0 ? 0 : quiet + 1;
}

/* The other sender fills the queue. @return how many messages it took */
static unsigned int
fill(struct scene *s, unsigned int max)
{
	uint8_t buf[MEDIUM] = { 0 };
	unsigned int n = 0;

	while (n < max) {
		memcpy(buf + 4, &s->sent, sizeof(s->sent));
		if (fi_inject(s->other.ep, buf, sizeof(buf), s->other.to) != 0)
			break;
		s->sent++;
		n++;
	}
	return n;
}

static void
complete(struct scene *s, ssize_t posted)
{
	struct fi_cq_data_entry e;
	ssize_t ret = 0;
	int i;

	assert_int_equal(posted, 0);
	for (i = 0; i < PATIENCE; i++) {
		(void)target_turn(s);
		ret = fi_cq_read(s->other.cq, &e, 1);
		if (ret != -FI_EAGAIN)
			break;
	}
	assert_int_equal(ret, 1);
}

static void
scene_open(struct scene *s)
{
	size_t i;

	memset(s, 0, sizeof(*s));
	assert_int_equal(node_open(&s->target), 0);
	assert_int_equal(node_open(&s->other), 0);
	assert_true(node_to(&s->other, &s->target));
	assert_int_equal(fi_mr_reg(s->target.domain, shared->buf, sizeof(shared->buf),
				   FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &s->mr, NULL),
			 0);
	s->mem = mem_open(s->target.name);
	for (i = 0; i < sizeof(s->rx) / sizeof(s->rx[0]); i++)
		recv_post(s, s->rx[i]);
	/* The first is refused: they don't know each other yet. */
	assert_int_equal(fill(s, 1), 0);
	target_rest(s);
	assert_int_equal(fill(s, 1), 1);
	target_rest(s);
	s->room = QUEUE;
}

static void
scene_close(struct scene *s)
{
	assert_int_equal(munmap(s->mem.m, s->mem.len), 0);
	assert_int_equal(fi_close(&s->mr->fid), 0);
	node_close(&s->other);
	node_close(&s->target);
}

/* Is the target as good as before? */
static void
check_alive(struct scene *s)
{
	uint64_t one = 1, before, result = 0;
	uint8_t src[100], *dst = shared->buf + LARGE;
	struct iovec iov = { src, sizeof(src) };
	struct fi_rma_iov rma = { (uintptr_t)dst, sizeof(src), KEY };
	struct fi_msg_rma msg = { .msg_iov = &iov,
				  .iov_count = 1,
				  .addr = s->other.to,
				  .rma_iov = &rma,
				  .rma_iov_count = 1 };
	unsigned int i, n;

	complete(s, 0);
	for (i = 0; i < 3; i++) {
		n = fill(s, QUEUE + 1);
		/* What a kill may cost, see ofi_shm_cmd.c, and what the dead never gives back. */
		assert_in_range(n, s->room - 3, s->room);
		s->room = n;
		target_rest(s);
		assert_int_equal(s->got, s->sent);
		memset(src, (int)i + 1, sizeof(src));
		complete(s, fi_writemsg(s->other.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE));
		assert_memory_equal(dst, src, sizeof(src));
		memcpy(&before, dst, sizeof(before));
		complete(s, fi_fetch_atomic(s->other.ep, &one, 1, NULL, &result, NULL, s->other.to,
					    (uintptr_t)dst, KEY, FI_UINT64, FI_SUM, NULL));
		assert_int_equal(result, before);
		memcpy(&result, dst, sizeof(result));
		assert_int_equal(result, before + 1);
	}
	assert_true(s->dead <= 2);
	s->dead = 0;
}

struct outcome {
	unsigned int cases, locked, halves;
};

/* The child is killed after the change number cut. @return false: there are not so many */
static bool
one_kill(struct scene *s, enum kind kind, unsigned int cut, struct outcome *o)
{
	static uint8_t held[LARGE];
	struct snapshot last, now;
	unsigned int changes = 0;
	bool more = true;
	pid_t pid;
	int ret;

	/*
	 * A command that is not in the queue any more, but counts until the other sender has seen
	 * the answer.
	 */
	assert_int_equal(fi_send(s->other.ep, held, sizeof(held), NULL, s->other.to, NULL), 0);
	target_rest(s);
	assert_int_equal(s->held, 1);
	s->held = 0;
	memset(shared, 0, sizeof(*shared));
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		child(&s->target, kind);
	while (!stepper_reached(pid)) {
		if (target_turn(s) == 0)
			(void)sched_yield();
	}
	target_rest(s);
	snap(s->mem, &last);
	while (changes <= cut && more) {
		more = stepper_step(pid);
		snap(s->mem, &now);
		if (memcmp(&now, &last, sizeof(now)) != 0)
			changes++;
		last = now;
	}
	stepper_kill(pid);
	ret = repair(s->mem);
	o->cases++;
	o->locked += ret >= 0;
	o->halves += ret > 0;
	check_alive(s);
	if (shared->name[0] != '\0')
		(void)shm_unlink(file_name(shared->name));
	return more;
}

static void
killed(void **state)
{
	enum kind kind = (enum kind)(uintptr_t)*state;
	static struct scene s;
	struct outcome o = { 0 };
	unsigned int cut = 0;

	scene_open(&s);
	while (one_kill(&s, kind, cut, &o))
		cut++;
	scene_close(&s);
	print_message("%s: killed at %u places, %u with the lock, %u times half an op\n",
		      kinds[kind], o.cases, o.locked, o.halves);
	/* Lock, something, and unlock at least. */
	assert_true(o.cases >= 5 && o.locked >= 3);
	switch (kind) {
	case WRITE_PLACED_SMALL:
	case WRITE_PLACED_LARGE:
	case FETCH_ADD:
		/* Before and after its cmd_cnt was counted. */
		assert_true(o.halves >= 2);
		break;
	default:
		assert_int_equal(o.halves, 0);
		break;
	}
}

static int
setup(void **state)
{
	struct fi_info *hints = fi_allocinfo();
	int ret;

	(void)state;
	assert_non_null(hints);
	hints->fabric_attr->prov_name = strdup("shm");
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_RMA | FI_ATOMIC;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR;
	hints->rx_attr->size = QUEUE;
	hints->tx_attr->size = QUEUE;
	ret = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info);
	assert_int_equal(ret, 0);
	info->rx_attr->size = QUEUE;
	info->tx_attr->size = QUEUE;
	fi_freeinfo(hints);
	assert_int_equal(name_self(), 0);
	assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	assert_true(shared != MAP_FAILED);
	(void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	assert_int_equal(fi_close(&fabric->fid), 0);
	fi_freeinfo(info);
	assert_int_equal(munmap(shared, sizeof(*shared)), 0);
	return 0;
}

int
main(void)
{
	struct CMUnitTest tests[NB_KINDS];
	uintptr_t i;

	if (FI_MAJOR(fi_version()) != 1 || FI_MINOR(fi_version()) != 17) {
		print_message("libfabric is not 1.17: nothing to repair\n");
		return 77;
	}
	if (!stepper_works()) {
		print_message("no child can be run step by step here\n");
		return 77;
	}
	for (i = 0; i < NB_KINDS; i++)
		tests[i] = (struct CMUnitTest){ kinds[i], killed, NULL, NULL, (void *)i };
	return cmocka_run_group_tests(tests, setup, teardown);
}
