/* SPDX-License-Identifier: BSD-3-Clause */

/* fork() with an open device: the child is another host, and the parent goes on. */

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

struct parent {
	struct host host;
	struct ep ep;
	struct ibv_ah *ah;
	struct ibv_mr *mr;
	char mem[64];
};

static void
parent_open(struct parent *p)
{
	host_open(&p->host, 0);
	ep_open(&p->ep, &p->host, NULL);
	p->ah = ah_open(&p->host, &p->host.gid);
	p->mr = ibv_reg_mr(p->host.pd, p->mem, sizeof(p->mem), 0);
	CHECK(p->mr != NULL);
}

static void
parent_close(struct parent *p)
{
	CHECK_EQUAL(ibv_dereg_mr(p->mr), 0);
	ah_close(p->ah);
	ep_close(&p->ep);
	host_close(&p->host);
}

static void
loop(struct ep *ep, struct ibv_ah *ah)
{
	CHECK_EQUAL(post_recv(ep, 1, 0, 8), 0);
	CHECK_EQUAL(post_send(ep, 2, ah, &ep->addr, 0, 8), 0);
	CHECK_EQUAL(comp_expect(ep, ST_OK) + comp_expect(ep, ST_OK), 3);
}

/* The child can use none of the parent's objects, but can free all of them. */
static void
inherited(int fd, void *arg)
{
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 16 };
	struct ibv_ah_attr ah_attr = { .is_global = 1, .port_num = 1 };
	struct ibv_poll_cq_attr poll = { 0 };
	struct parent *p = arg, own;

	(void)fd;
	CHECK_EQUAL(nb_sim_maps(), 0);
	CHECK_EQUAL(nb_sim_fds(), 0);
	errno = 0;
	CHECK(ibv_alloc_pd(p->host.context) == NULL && errno == ENODEV);
	CHECK(ibv_create_cq_ex(p->host.context, &cq_attr) == NULL);
	CHECK(ibv_reg_mr(p->host.pd, p->mem, sizeof(p->mem), 0) == NULL);
	ah_attr.grh.dgid = p->host.gid;
	CHECK(ibv_create_ah(p->host.pd, &ah_attr) == NULL);
	CHECK_EQUAL(post_send(&p->ep, 1, p->ah, &p->ep.addr, 0, 8), EIO);
	CHECK_EQUAL(post_recv(&p->ep, 1, 0, 8), EIO);
	CHECK_EQUAL(post_read(&p->ep, 1, p->ah, &p->ep.addr, p->ep.addr.mem, 0, 8), EIO);
	CHECK_EQUAL(ibv_start_poll(p->ep.cq, &poll), EIO);
	parent_close(p);
	/* Objects that the child creates itself work, though it has freed the inherited ones. */
	parent_open(&own);
	loop(&own.ep, own.ah);
	parent_close(&own);
}

static void
parents_objects(void)
{
	static struct parent p;
	struct child child;

	parent_open(&p);
	loop(&p.ep, p.ah);
	CHECK(nb_sim_maps() > 0 && nb_sim_fds() > 0);
	for (int i = 0; i < 5; i++) {
		child_start(&child, inherited, &p);
		loop(&p.ep, p.ah);
		child_end(&child);
		loop(&p.ep, p.ah);
	}
	CHECK_EQUAL(counter("sends"), 11);
	CHECK_EQUAL(counter("qps"), 1);
	parent_close(&p);
}

/* The child is another host: both hosts may have equal QP numbers, and send to each other. */
static void
new_host(int fd, void *arg)
{
	const struct parent *p = arg;
	struct host host;
	struct comp comp;
	struct ibv_ah *ah;
	struct ep ep;

	CHECK_EQUAL(counter("qps"), 0);
	CHECK_EQUAL(counter("sends"), 0);
	host_open(&host, 0);
	CHECK(memcmp(&host.gid, &p->host.gid, sizeof(host.gid)) != 0);
	ep_open(&ep, &host, NULL);
	CHECK_EQUAL(ep.addr.qpn, p->ep.addr.qpn);
	CHECK_EQUAL(post_recv(&ep, 1, 0, 8), 0);
	put(fd, &ep.addr, sizeof(ep.addr));
	comp_wait(&ep, &comp);
	CHECK_EQUAL(comp.status, ST_OK);
	/* The child does not have the parent's address handles. */
	CHECK_EQUAL(comp.slid, 0xffff);
	ah = ah_open(&host, &p->host.gid);
	CHECK_EQUAL(post_send(&ep, 2, ah, &p->ep.addr, 0, 8), 0);
	CHECK_EQUAL(comp_expect(&ep, ST_OK), 2);
	CHECK_EQUAL(counter("qps"), 1);
	CHECK_EQUAL(counter("sends"), 1);
	CHECK_EQUAL(counter("recvs"), 1);
	ah_close(ah);
	ep_close(&ep);
	host_close(&host);
}

static void
child_is_a_host(void)
{
	static struct parent p;
	struct child child;
	unsigned int maps;
	struct addr to;
	struct ibv_ah *ah;

	parent_open(&p);
	loop(&p.ep, p.ah);
	maps = nb_sim_maps();
	for (int i = 0; i < 5; i++) {
		child_start(&child, new_host, &p);
		get(child.fd, &to, sizeof(to));
		ah = ah_open(&p.host, &to.gid);
		CHECK_EQUAL(post_recv(&p.ep, 1, 0, 8), 0);
		CHECK_EQUAL(post_send(&p.ep, 2, ah, &to, 0, 8), 0);
		CHECK_EQUAL(comp_expect(&p.ep, ST_OK), 2);
		CHECK_EQUAL(comp_expect(&p.ep, ST_OK), 1);
		child_end(&child);
		for (int j = 0; j < 3; j++) {
			CHECK_EQUAL(post_send(&p.ep, 3, ah, &to, 0, 8), 0);
			CHECK_EQUAL(comp_expect(&p.ep, ST_BAD_QPN), 3);
		}
		/*
		 * one more: the map of the child's arena, whose up mutex shows that the child has
		 * ended
		 */
		CHECK_EQUAL(nb_sim_maps(), maps + 1);
		ah_close(ah);
		CHECK_EQUAL(nb_sim_maps(), maps);
	}
	CHECK_EQUAL(counter("peers_lost"), 5);
	parent_close(&p);
}

/* A chain of forks: each process opens a device, and its own device works beside its child's. */
static void
nested(int fd, void *arg)
{
	struct child child;

	(void)arg;
	if (*(int *)arg > 0) {
		struct parent p;

		parent_open(&p);
		*(int *)arg -= 1;
		child_start(&child, nested, arg);
		loop(&p.ep, p.ah);
		child_end(&child);
		loop(&p.ep, p.ah);
		parent_close(&p);
	}
	(void)fd;
}

static void
grandchildren(void)
{
	int depth = 4;

	nested(-1, &depth);
}

static _Atomic bool stop;

/* Acquire and release every lock of the emulator, repeatedly. */
static void *
busy(void *arg)
{
	struct parent *p = arg;

	while (!stop) {
		struct ibv_mr *mr = ibv_reg_mr(p->host.pd, p->mem, sizeof(p->mem), 0);
		struct ibv_ah *ah = ah_open(&p->host, &p->host.gid);
		struct ep ep;

		CHECK(mr != NULL);
		ep_open(&ep, &p->host, NULL);
		loop(&ep, ah);
		CHECK_EQUAL(post_read(&ep, 3, ah, &ep.addr, ep.addr.mem, 8, 8), 0);
		CHECK_EQUAL(comp_expect(&ep, ST_OK), 3);
		ep_close(&ep);
		ah_close(ah);
		CHECK_EQUAL(ibv_dereg_mr(mr), 0);
	}
	return NULL;
}

static void
short_life(int fd, void *arg)
{
	static struct parent p;

	(void)fd;
	(void)arg;
	parent_open(&p);
	loop(&p.ep, p.ah);
	parent_close(&p);
	_exit(0); /* LeakSanitizer would report objects of the parent's other threads as lost */
}

static void
threads(void)
{
	static struct parent p;
	pthread_t thread[2];
	struct child child;

	parent_open(&p);
	for (int i = 0; i < 2; i++)
		CHECK_EQUAL(pthread_create(&thread[i], NULL, busy, &p), 0);
	for (int i = 0; i < 100; i++) {
		child_start(&child, short_life, NULL);
		child_end(&child);
	}
	stop = true;
	for (int i = 0; i < 2; i++)
		CHECK_EQUAL(pthread_join(thread[i], NULL), 0);
	loop(&p.ep, p.ah);
	parent_close(&p);
}

/*
 * The child executes another program: its device and all objects are gone, so a send to its old QP
 * fails.
 */
static void
changing(int fd, void *arg)
{
	struct host host;
	struct ep ep;
	char byte;

	(void)arg;
	host_open(&host, 0);
	ep_open(&ep, &host, NULL);
	CHECK_EQUAL(post_recv(&ep, 1, 0, 8), 0);
	put(fd, &ep.addr, sizeof(ep.addr));
	CHECK_EQUAL(comp_expect(&ep, ST_OK), 1);
	get(fd, &byte, 1);
	become("echo-once", fd);
}

static void
exec_with_device(void)
{
	struct addr before, after;
	struct ibv_ah *old, *new;
	static struct parent p;
	struct child child;

	child_start(&child, changing, NULL);
	parent_open(&p);
	get(child.fd, &before, sizeof(before));
	old = ah_open(&p.host, &before.gid);
	CHECK_EQUAL(post_send(&p.ep, 1, old, &before, 0, 8), 0);
	CHECK_EQUAL(comp_expect(&p.ep, ST_OK), 1);
	put(child.fd, "", 1);
	get(child.fd, &after, sizeof(after));
	CHECK(memcmp(&before.gid, &after.gid, sizeof(before.gid)) != 0);
	CHECK_EQUAL(post_send(&p.ep, 2, old, &before, 0, 8), 0);
	CHECK_EQUAL(comp_expect(&p.ep, ST_BAD_QPN), 2);
	new = ah_open(&p.host, &after.gid);
	CHECK_EQUAL(post_recv(&p.ep, 3, 0, 8), 0);
	CHECK_EQUAL(post_send(&p.ep, 4, new, &after, 0, 8), 0);
	CHECK_EQUAL(comp_expect(&p.ep, ST_OK), 4);
	put(child.fd, &p.ep.addr, sizeof(p.ep.addr));
	CHECK_EQUAL(comp_expect(&p.ep, ST_OK), 3);
	child_end(&child);
	ah_close(old);
	ah_close(new);
	parent_close(&p);
}

/* The executed program: receive a message and send one back. */
void
child_echo_once(int fd, void *arg)
{
	struct host host;
	struct ibv_ah *ah;
	struct addr to;
	struct ep ep;

	(void)arg;
	host_open(&host, 0);
	ep_open(&ep, &host, NULL);
	CHECK_EQUAL(post_recv(&ep, 1, 0, 8), 0);
	put(fd, &ep.addr, sizeof(ep.addr));
	CHECK_EQUAL(comp_expect(&ep, ST_OK), 1);
	get(fd, &to, sizeof(to));
	ah = ah_open(&host, &to.gid);
	CHECK_EQUAL(post_send(&ep, 2, ah, &to, 0, 8), 0);
	CHECK_EQUAL(comp_expect(&ep, ST_OK), 2);
	ah_close(ah);
	ep_close(&ep);
	host_close(&host);
}

const struct test tests_fork[] = {
	{ .name = "fork-parents-objects", .run = parents_objects },
	{ .name = "fork-child-is-a-host", .run = child_is_a_host },
	{ .name = "fork-grandchildren", .run = grandchildren },
	{ .name = "exec-with-device", .run = exec_with_device },
	{ .name = "fork-threads",
	  .config = "reorder=4,hold-us=50",
	  .run = threads,
	  .forks_threads = true },
	{ 0 },
};
