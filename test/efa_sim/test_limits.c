/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Depths and numbers of objects: what exceeds a limit is refused and counted; what was freed can be
 * allocated again.
 */

#include <errno.h>
#include <string.h>

#include "test.h"

static void
send_depth(void)
{
	struct ep_options options = { .qkey = 1, .sends = 16, .rnr_retry = 7 };
	struct ep a;
	struct host host;
	struct ibv_ah *ah;

	host_open(&host, 0);
	ep_open(&a, &host, &options);
	ah = ah_open(&host, &host.gid);
	/* No receive is posted: the sends stay in the queue. */
	for (uint64_t i = 0; i < 16; i++)
		CHECK_EQUAL(post_send(&a, i, ah, &a.addr, 0, 8), 0);
	CHECK_EQUAL(post_send(&a, 16, ah, &a.addr, 0, 8), ENOMEM);
	CHECK_EQUAL(post_read(&a, 16, ah, &a.addr, a.addr.mem, 0, 8), ENOMEM);
	CHECK_EQUAL(post_recv(&a, 99, 0, 8), 0);
	/* Polling the completion, and not the send's completing, frees an entry of the queue. */
	for (int nb = 0; nb < 2; nb++) {
		struct comp comp;

		comp_wait(&a, &comp);
		CHECK_EQUAL(comp.status, ST_OK);
	}
	CHECK_EQUAL(post_send(&a, 17, ah, &a.addr, 0, 8), 0);
	CHECK_EQUAL(post_send(&a, 18, ah, &a.addr, 0, 8), ENOMEM);
	ah_close(ah);
	ep_close(&a);
	host_close(&host);
}

/* A request uses an entry of the send queue until its completion is polled. */
static void
unpolled(void)
{
	struct ep_options options = { .qkey = 1, .sends = 16 };
	struct ep a;
	struct host host;
	struct ibv_ah *ah;

	host_open(&host, 0);
	ep_open(&a, &host, &options);
	ah = ah_open(&host, &host.gid);
	for (uint64_t round = 0; round < 20; round++) {
		for (uint64_t i = 0; i < 16; i++)
			CHECK_EQUAL(post_send(&a, i, ah, &a.addr, 0, 8), 0);
		CHECK_EQUAL(post_send(&a, 16, ah, &a.addr, 0, 8), ENOMEM);
		for (uint64_t i = 0; i < 16; i++)
			CHECK_EQUAL(comp_expect(&a, ST_RNR), i);
		comp_none(&a);
	}
	ah_close(ah);
	ep_close(&a);
	host_close(&host);
}

static void
recv_depth(void)
{
	struct ep_options options = { .qkey = 1, .recvs = 64 };
	struct ep a;
	struct host host;
	struct ibv_ah *ah;
	struct comp comp;

	host_open(&host, 0);
	ep_open(&a, &host, &options);
	ah = ah_open(&host, &host.gid);
	for (uint64_t i = 0; i < 64; i++)
		CHECK_EQUAL(post_recv(&a, i, 0, 8), 0);
	CHECK_EQUAL(post_recv(&a, 64, 0, 8), ENOMEM);
	CHECK_EQUAL(post_send(&a, 1000, ah, &a.addr, 0, 8), 0);
	/*
	 * Polling looks at the ring first: the completion of the send comes before those of
	 * receives.
	 */
	CHECK_EQUAL(comp_expect(&a, ST_OK), 1000);
	CHECK_EQUAL(post_recv(&a, 64, 0, 8), ENOMEM);
	comp_wait(&a, &comp);
	CHECK_EQUAL(comp.wr_id, 0);
	CHECK_EQUAL(post_recv(&a, 64, 0, 8), 0);
	CHECK_EQUAL(post_recv(&a, 65, 0, 8), ENOMEM);
	ah_close(ah);
	ep_close(&a);
	host_close(&host);
}

static void
qps(void)
{
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 16 };
	struct ibv_qp_init_attr_ex attr = { .cap = { .max_send_wr = 16, .max_recv_wr = 16 },
					    .qp_type = IBV_QPT_DRIVER,
					    .comp_mask = IBV_QP_INIT_ATTR_PD };
	struct efadv_qp_init_attr efa = { .driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD };
	struct ibv_qp *qp[3];
	struct ibv_cq_ex *cq;
	struct host host;
	uint32_t number;

	host_open(&host, 0);
	cq = ibv_create_cq_ex(host.context, &cq_attr);
	CHECK(cq != NULL);
	attr.send_cq = attr.recv_cq = ibv_cq_ex_to_cq(cq);
	attr.pd = host.pd;
	for (int i = 0; i < 3; i++) {
		qp[i] = efadv_create_qp_ex(host.context, &attr, &efa, sizeof(efa));
		CHECK(qp[i] != NULL);
	}
	errno = 0;
	CHECK(efadv_create_qp_ex(host.context, &attr, &efa, sizeof(efa)) == NULL);
	CHECK_EQUAL(errno, ENOMEM);
	CHECK_EQUAL(counter("refused"), 1);
	CHECK_EQUAL(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), EBUSY);
	CHECK_EQUAL(ibv_dealloc_pd(host.pd), EBUSY);
	/* A QP number is reused. */
	number = qp[1]->qp_num;
	CHECK_EQUAL(ibv_destroy_qp(qp[1]), 0);
	qp[1] = efadv_create_qp_ex(host.context, &attr, &efa, sizeof(efa));
	CHECK(qp[1] != NULL);
	CHECK_EQUAL(qp[1]->qp_num, number);
	for (int i = 0; i < 3; i++)
		CHECK_EQUAL(ibv_destroy_qp(qp[i]), 0);
	attr.cap.max_send_wr = 1025;
	errno = 0;
	CHECK(efadv_create_qp_ex(host.context, &attr, &efa, sizeof(efa)) == NULL);
	CHECK_EQUAL(errno, EINVAL);
	CHECK_EQUAL(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	host_close(&host);
}

static void
cqs(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 16 };
	struct ibv_cq_ex *cq[2];
	struct host host;

	host_open(&host, 0);
	for (int i = 0; i < 2; i++) {
		cq[i] = ibv_create_cq_ex(host.context, &attr);
		CHECK(cq[i] != NULL);
	}
	errno = 0;
	CHECK(ibv_create_cq_ex(host.context, &attr) == NULL);
	CHECK_EQUAL(errno, ENOMEM);
	CHECK_EQUAL(counter("refused"), 1);
	CHECK_EQUAL(ibv_destroy_cq(ibv_cq_ex_to_cq(cq[0])), 0);
	cq[0] = ibv_create_cq_ex(host.context, &attr);
	CHECK(cq[0] != NULL);
	for (int i = 0; i < 2; i++)
		CHECK_EQUAL(ibv_destroy_cq(ibv_cq_ex_to_cq(cq[i])), 0);
	CHECK_EQUAL(counter("cqs"), 3);
	host_close(&host);
}

static void
mrs_and_ahs(void)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };
	static char mem[4096];
	struct ibv_mr *mr[3];
	struct ibv_ah *ah[2];
	struct host host;
	uint32_t key;

	host_open(&host, 0);
	for (int i = 0; i < 3; i++) {
		mr[i] = ibv_reg_mr(host.pd, mem, sizeof(mem), 0);
		CHECK(mr[i] != NULL);
	}
	errno = 0;
	CHECK(ibv_reg_mr(host.pd, mem, sizeof(mem), 0) == NULL);
	CHECK_EQUAL(errno, ENOMEM);
	CHECK_EQUAL(counter("refused"), 1);
	key = mr[2]->lkey;
	CHECK_EQUAL(ibv_dereg_mr(mr[2]), 0);
	mr[2] = ibv_reg_mr(host.pd, mem, sizeof(mem), 0);
	CHECK(mr[2] != NULL && mr[2]->lkey != key);
	errno = 0;
	CHECK(ibv_reg_mr(host.pd, mem, sizeof(mem), IBV_ACCESS_REMOTE_WRITE) == NULL);
	CHECK(errno == EOPNOTSUPP);
	for (int i = 0; i < 3; i++)
		CHECK_EQUAL(ibv_dereg_mr(mr[i]), 0);

	for (int i = 0; i < 2; i++)
		ah[i] = ah_open(&host, &host.gid);
	attr.grh.dgid = host.gid;
	errno = 0;
	CHECK(ibv_create_ah(host.pd, &attr) == NULL);
	CHECK_EQUAL(errno, ENOMEM);
	CHECK_EQUAL(counter("refused"), 2);
	ah_close(ah[0]);
	ah[0] = ah_open(&host, &host.gid);
	CHECK_EQUAL(ibv_dealloc_pd(host.pd), EBUSY);
	ah_close(ah[0]);
	ah_close(ah[1]);
	attr.port_num = 2;
	errno = 0;
	CHECK(ibv_create_ah(host.pd, &attr) == NULL);
	CHECK_EQUAL(errno, EINVAL);
	host_close(&host);
}

/* Keys are reused, and no two regions have the same one at a time. */
static void
keys(void)
{
	static char mem[4096];
	struct ibv_mr *held, *mr;
	struct host host;
	uint32_t first = 0;

	host_open(&host, 0);
	held = ibv_reg_mr(host.pd, mem, sizeof(mem), 0);
	CHECK(held != NULL);
	for (int i = 0; i < 200000; i++) {
		mr = ibv_reg_mr(host.pd, mem, sizeof(mem), 0);
		CHECK(mr != NULL);
		CHECK((mr->lkey & 0xffff) != (held->lkey & 0xffff));
		/* A deregistered region's key names no region: no later region gets `first`. */
		CHECK(i == 0 || mr->lkey != first);
		if (i == 0)
			first = mr->lkey;
		CHECK_EQUAL(ibv_dereg_mr(mr), 0);
	}
	CHECK_EQUAL(ibv_dereg_mr(held), 0);
	host_close(&host);
}

const struct test tests_limits[] = {
	{ .name = "send-depth", .config = "rnr-us=1000", .run = send_depth },
	{ .name = "send-depth-unpolled", .run = unpolled },
	{ .name = "recv-depth", .run = recv_depth },
	{ .name = "max-qp", .config = "max-qp=3", .run = qps },
	{ .name = "max-cq", .config = "max-cq=2", .run = cqs },
	{ .name = "max-mr-max-ah", .config = "max-mr=3,max-ah=2", .run = mrs_and_ahs },
	{ .name = "keys", .run = keys },
	{ 0 },
};
