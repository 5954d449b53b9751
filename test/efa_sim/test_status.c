/* SPDX-License-Identifier: BSD-3-Clause */

/* Each status with which a message or a READ may complete. test_read.c has those of memory keys. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "test.h"

/* In the state ERR posted receives and held sends are flushed, and new posts fail. */
static void
flushed(void)
{
	struct ep_options options = { .qkey = 1, .rnr_retry = 7 };
	struct ep a, b;
	struct host host;
	struct comp comp;
	struct ibv_ah *ah;
	uint64_t seen = 0;

	host_open(&host, 0);
	ep_open(&a, &host, &options);
	ep_open(&b, &host, &options);
	ah = ah_open(&host, &host.gid);
	CHECK_EQUAL(post_recv(&a, 0, 0, 8), 0);
	CHECK_EQUAL(post_recv(&a, 1, 0, 8), 0);
	CHECK_EQUAL(post_recv(&a, 2, 0, 8), 0);
	CHECK_EQUAL(post_send(&b, 9, ah, &a.addr, 0, 8), 0); /* completes receive 0 */
	CHECK_EQUAL(comp_expect(&b, ST_OK), 9);
	CHECK_EQUAL(post_send(&a, 3, ah, &b.addr, 0, 8), 0); /* RNR */
	CHECK_EQUAL(post_send(&a, 4, ah, &b.addr, 0, 8), 0);
	ep_error(&a);
	for (int i = 0; i < 5; i++) {
		comp_wait(&a, &comp);
		CHECK_EQUAL(comp.status, comp.wr_id == 0 ? ST_OK : ST_FLUSHED);
		CHECK_EQUAL(comp.opcode, comp.wr_id < 3 ? IBV_WC_RECV : IBV_WC_SEND);
		if (comp.wr_id != 0)
			CHECK_EQUAL(comp.wc_status, IBV_WC_WR_FLUSH_ERR);
		seen |= 1u << comp.wr_id;
	}
	CHECK_EQUAL(seen, 0x1f);
	comp_none(&a);
	CHECK_EQUAL(post_recv(&a, 5, 0, 8), EINVAL);
	CHECK_EQUAL(post_send(&a, 5, ah, &b.addr, 0, 8), EINVAL);
	CHECK_EQUAL(post_read(&a, 5, ah, &b.addr, b.addr.mem, 0, 8), EINVAL);
	/* No sender reaches the QP any more. */
	CHECK_EQUAL(post_send(&b, 6, ah, &a.addr, 0, 8), 0);
	CHECK_EQUAL(comp_expect(&b, ST_BAD_QPN), 6);
	ah_close(ah);
	ep_close(&a);
	ep_close(&b);
	host_close(&host);
}

/* A new QP refuses posts, and can't be reached by others. */
static void
states(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .qkey = 1 };
	struct ep_options reset = { .qkey = 1, .reset = true };
	struct ep a, b;
	struct host host;
	struct ibv_ah *ah;

	host_open(&host, 0);
	ep_open(&a, &host, &reset);
	ep_open(&b, &host, NULL);
	ah = ah_open(&host, &host.gid);
	CHECK_EQUAL(post_recv(&a, 1, 0, 8), EINVAL);
	CHECK_EQUAL(post_send(&a, 1, ah, &b.addr, 0, 8), EINVAL);
	CHECK_EQUAL(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), EINVAL);
	attr.qp_state = IBV_QPS_INIT;
	CHECK_EQUAL(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_QKEY), 0);
	CHECK_EQUAL(post_recv(&a, 1, 0, 8), 0);
	CHECK_EQUAL(post_send(&a, 1, ah, &b.addr, 0, 8), EINVAL);
	CHECK_EQUAL(post_send(&b, 2, ah, &a.addr, 0, 8), 0);
	CHECK_EQUAL(comp_expect(&b, ST_BAD_QPN), 2);
	attr.qp_state = IBV_QPS_RTR;
	CHECK_EQUAL(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
	CHECK_EQUAL(post_send(&b, 3, ah, &a.addr, 0, 8), 0);
	CHECK_EQUAL(comp_expect(&b, ST_OK), 3);
	CHECK_EQUAL(comp_expect(&a, ST_OK), 1);
	ah_close(ah);
	ep_close(&a);
	ep_close(&b);
	host_close(&host);
}

static void
send_sge(struct ep *ep, struct ibv_ah *ah, const struct addr *to, uint64_t addr, uint32_t length,
	 uint32_t lkey, uint32_t status)
{
	struct ibv_sge sge = { addr, length, lkey };

	CHECK_EQUAL(post_send_sges(ep, 77, ah, to, &sge, 1, 0), 0);
	CHECK_EQUAL(comp_expect(ep, status), 77);
}

static void
bad_lkey(void)
{
	struct ibv_pd *other_pd;
	struct ibv_mr *other, *read_only;
	struct ibv_sge sge;
	struct ep a, b;
	struct host host;
	struct comp comp;
	struct ibv_ah *ah;
	uint64_t mem;
	uint32_t key;

	host_open(&host, 0);
	ep_open(&a, &host, NULL);
	ep_open(&b, &host, NULL);
	ah = ah_open(&host, &host.gid);
	other_pd = ibv_alloc_pd(host.context);
	CHECK(other_pd != NULL);
	other = ibv_reg_mr(other_pd, a.mem, EP_BYTES, IBV_ACCESS_LOCAL_WRITE);
	read_only = ibv_reg_mr(host.pd, b.mem, EP_BYTES, 0);
	CHECK(other != NULL && read_only != NULL);
	mem = a.addr.mem;
	key = a.mr->lkey;
	send_sge(&a, ah, &b.addr, mem, 8, key + 1000, ST_BAD_LKEY);
	send_sge(&a, ah, &b.addr, mem, 8, key + (1u << 16), ST_BAD_LKEY);
	send_sge(&a, ah, &b.addr, mem, 8, 0, ST_BAD_LKEY);
	send_sge(&a, ah, &b.addr, mem, 8, other->lkey, ST_BAD_LKEY);
	send_sge(&a, ah, &b.addr, mem - 1, 8, key, ST_BAD_LKEY);
	send_sge(&a, ah, &b.addr, mem + EP_BYTES - 7, 8, key, ST_BAD_LKEY);
	send_sge(&a, ah, &b.addr, mem + EP_BYTES, 1, key, ST_BAD_LKEY);
	send_sge(&a, ah, &b.addr, UINT64_MAX - 3, 8, key, ST_BAD_LKEY);
	/*
	 * All sends above are refused before anything is sent. Otherwise they would find no
	 * receive, and fail with RNR as the next two do.
	 */
	send_sge(&a, ah, &b.addr, mem + EP_BYTES - 8, 8, key, ST_RNR);
	send_sge(&a, ah, &b.addr, 0, 0, key + 1000, ST_RNR);

	/* A mistake in a receive fails at the receiver. */
	sge = (struct ibv_sge){ b.addr.mem, 64, read_only->lkey };
	CHECK_EQUAL(post_recv_sges(&b, 5, &sge, 1), 0);
	sge = (struct ibv_sge){ b.addr.mem + EP_BYTES - 63, 64, b.mr->lkey };
	CHECK_EQUAL(post_recv_sges(&b, 6, &sge, 1), 0);
	send_sge(&a, ah, &b.addr, mem, 8, key, ST_OK);
	send_sge(&a, ah, &b.addr, mem, 8, key, ST_OK);
	for (uint64_t i = 5; i <= 6; i++) {
		comp_wait(&b, &comp);
		CHECK_EQUAL(comp.status, ST_BAD_LKEY);
		CHECK_EQUAL(comp.wc_status, IBV_WC_LOC_PROT_ERR);
		CHECK_EQUAL(comp.wr_id, i);
	}
	CHECK_EQUAL(ibv_dereg_mr(other), 0);
	CHECK_EQUAL(ibv_dereg_mr(read_only), 0);
	CHECK_EQUAL(ibv_dealloc_pd(other_pd), 0);
	ah_close(ah);
	ep_close(&a);
	ep_close(&b);
	host_close(&host);
}

/*
 * A region and an address handle are freed while messages that use them wait in the send queue:
 * only these messages fail.
 */
static void
held(void)
{
	struct ep_options options = { .qkey = 1, .rnr_retry = 7 };
	static char mem[64];
	struct ibv_sge sge = { (uintptr_t)mem, sizeof(mem), 0 };
	struct ibv_ah *ah, *gone;
	struct ep a, b;
	struct host host;
	struct ibv_mr *mr;
	uint64_t seen = 0;

	host_open(&host, 0);
	ep_open(&a, &host, &options);
	ep_open(&b, &host, &options);
	ah = ah_open(&host, &host.gid);
	gone = ah_open(&host, &host.gid);
	mr = ibv_reg_mr(host.pd, mem, sizeof(mem), 0);
	CHECK(mr != NULL);
	sge.lkey = mr->lkey;
	CHECK_EQUAL(post_send_sges(&a, 0, ah, &b.addr, &sge, 1, 0), 0);
	CHECK_EQUAL(post_send(&a, 1, gone, &b.addr, 0, 8), 0);
	CHECK_EQUAL(post_send(&a, 2, ah, &b.addr, 0, 8), 0);
	CHECK_EQUAL(ibv_dereg_mr(mr), 0);
	ah_close(gone);
	CHECK_EQUAL(post_recv(&b, 9, 0, 64), 0);
	for (int i = 0; i < 3; i++) {
		static const uint32_t status[] = { ST_BAD_LKEY, ST_BAD_AH, ST_OK };
		struct comp comp;

		comp_wait(&a, &comp);
		CHECK(comp.wr_id < 3);
		CHECK_EQUAL(comp.status, status[comp.wr_id]);
		seen |= 1u << comp.wr_id;
	}
	CHECK_EQUAL(seen, 7);
	CHECK_EQUAL(comp_expect(&b, ST_OK), 9);
	/*
	 * Close a with a message in its send queue: no mapping of the message's peer may be left.
	 */
	gone = ah_open(&host, &host.gid);
	CHECK_EQUAL(post_send(&a, 1, gone, &b.addr, 0, 8), 0);
	ah_close(gone);
	ah_close(ah);
	ep_close(&a);
	ep_close(&b);
	CHECK_EQUAL(nb_sim_maps(), 1); /* the arena */
	host_close(&host);
}

static void
lengths(void)
{
	struct ibv_sge sges[3] = { 0 };
	struct ep a, b;
	struct host host;
	struct comp comp;
	struct ibv_ah *ah;

	host_open(&host, 0);
	ep_open(&a, &host, NULL);
	ep_open(&b, &host, NULL);
	ah = ah_open(&host, &host.gid);
	CHECK_EQUAL(post_recv_sges(&b, 1, sges, 3), EINVAL);
	CHECK_EQUAL(post_send_sges(&a, 1, ah, &b.addr, sges, 3, 0), EINVAL);
	CHECK_EQUAL(post_send_sges(&a, 1, ah, &b.addr, sges, 1, IBV_SEND_FENCE), EINVAL);
	comp_none(&a);
	CHECK_EQUAL(post_recv(&b, 1, 0, 100), 0);
	CHECK_EQUAL(post_send(&a, 2, ah, &b.addr, 0, 8929), 0);
	comp_wait(&a, &comp);
	CHECK_EQUAL(comp.status, ST_TOO_LONG);
	CHECK_EQUAL(comp.wc_status, IBV_WC_LOC_LEN_ERR);
	CHECK_EQUAL(post_send(&a, 3, ah, &b.addr, 0, 101), 0);
	comp_wait(&a, &comp);
	CHECK_EQUAL(comp.status, ST_SHORT);
	CHECK_EQUAL(comp.wc_status, IBV_WC_REM_INV_REQ_ERR);
	comp_none(&b);
	CHECK_EQUAL(post_send(&a, 4, ah, &b.addr, 0, 100), 0);
	CHECK_EQUAL(comp_expect(&a, ST_OK), 4);
	CHECK_EQUAL(comp_expect(&b, ST_OK), 1);
	ah_close(ah);
	ep_close(&a);
	ep_close(&b);
	host_close(&host);
}

static void
bad_qpn(void)
{
	struct addr to;
	struct ep a, b, c;
	struct host host;
	struct comp comp;
	struct ibv_ah *ah, *nowhere;

	host_open(&host, 0);
	ep_open(&a, &host, NULL);
	ep_open(&b, &host, NULL);
	ah = ah_open(&host, &host.gid);
	CHECK_EQUAL(post_recv(&b, 1, 0, 100), 0);
	to = b.addr;
	to.qpn++;
	CHECK_EQUAL(post_send(&a, 1, ah, &to, 0, 8), 0);
	comp_wait(&a, &comp);
	CHECK_EQUAL(comp.status, ST_BAD_QPN);
	CHECK_EQUAL(comp.wc_status, IBV_WC_REM_INV_RD_REQ_ERR);
	to.qpn = 0;
	CHECK_EQUAL(post_send(&a, 1, ah, &to, 0, 8), 0);
	comp_expect(&a, ST_BAD_QPN);
	to = b.addr;
	to.qkey++;
	CHECK_EQUAL(post_send(&a, 1, ah, &to, 0, 8), 0);
	comp_expect(&a, ST_BAD_QPN);
	CHECK_EQUAL(post_read(&a, 1, ah, &to, b.addr.mem, 0, 8), 0);
	comp_expect(&a, ST_BAD_QPN);
	/* Send to a device that b's host does not have, then to a GID that no host has. */
	to = b.addr;
	to.gid.raw[15] = 5;
	nowhere = ah_open(&host, &to.gid);
	CHECK_EQUAL(post_send(&a, 1, nowhere, &to, 0, 8), 0);
	comp_expect(&a, ST_BAD_QPN);
	ah_close(nowhere);
	memset(&to.gid, 0xff, sizeof(to.gid));
	nowhere = ah_open(&host, &to.gid);
	CHECK_EQUAL(post_send(&a, 1, nowhere, &to, 0, 8), 0);
	comp_expect(&a, ST_BAD_QPN);
	ah_close(nowhere);
	comp_none(&b);
	CHECK_EQUAL(post_send(&a, 1, ah, &b.addr, 0, 8), 0);
	comp_expect(&a, ST_OK);
	comp_expect(&b, ST_OK);
	/*
	 * b is destroyed: a send to it fails, even when c has b's QP number, since c has a
	 * different qkey.
	 */
	to = b.addr;
	ep_close(&b);
	CHECK_EQUAL(post_send(&a, 1, ah, &to, 0, 8), 0);
	comp_expect(&a, ST_BAD_QPN);
	ep_open(&c, &host, &(struct ep_options){ .qkey = to.qkey + 1 });
	CHECK_EQUAL(c.addr.qpn, to.qpn);
	CHECK_EQUAL(post_recv(&c, 2, 0, 100), 0);
	CHECK_EQUAL(post_send(&a, 1, ah, &to, 0, 8), 0);
	comp_expect(&a, ST_BAD_QPN);
	comp_none(&c);
	CHECK_EQUAL(post_send(&a, 1, ah, &c.addr, 0, 8), 0);
	comp_expect(&a, ST_OK);
	CHECK_EQUAL(comp_expect(&c, ST_OK), 2);
	ah_close(ah);
	ep_close(&a);
	ep_close(&c);
	host_close(&host);
}

/* Open a new QP with the same number each time the test asks for it. */
static void
renewing(int fd, void *arg)
{
	uint32_t qkey;
	struct host host;
	struct ep ep;

	(void)arg;
	host_open(&host, 0);
	for (qkey = 1; qkey <= 50; qkey++) {
		char go;

		ep_open(&ep, &host, &(struct ep_options){ .qkey = qkey });
		CHECK_EQUAL(post_recv(&ep, qkey, 0, 100), 0);
		put(fd, &ep.addr, sizeof(ep.addr));
		get(fd, &go, 1);
		comp_expect(&ep, ST_OK);
		comp_none(&ep);
		ep_close(&ep);
	}
	host_close(&host);
}

/*
 * The sender has mapped the inbox of the old QP: it must find the new one, and no old message in
 * it.
 */
static void
renewed_qpn(void)
{
	struct addr to, before = { 0 };
	struct child child;
	struct host host;
	struct ibv_ah *ah = NULL;
	struct ep a;

	child_start(&child, renewing, NULL);
	host_open(&host, 0);
	ep_open(&a, &host, NULL);
	for (uint32_t i = 1; i <= 50; i++) {
		get(child.fd, &to, sizeof(to));
		if (i == 1)
			ah = ah_open(&host, &to.gid);
		if (i > 1) {
			CHECK_EQUAL(to.qpn, before.qpn);
			CHECK_EQUAL(post_send(&a, 1, ah, &before, 0, 8), 0);
			comp_expect(&a, ST_BAD_QPN);
		}
		CHECK_EQUAL(post_send(&a, 1, ah, &to, 0, 8), 0);
		comp_expect(&a, ST_OK);
		put(child.fd, "", 1);
		before = to;
	}
	child_end(&child);
	CHECK_EQUAL(post_send(&a, 1, ah, &before, 0, 8), 0);
	comp_expect(&a, ST_BAD_QPN);
	CHECK_EQUAL(counter("peers_lost"), 1);
	ah_close(ah);
	ep_close(&a);
	host_close(&host);
}

static void
rnr(uint8_t retry, uint64_t retries)
{
	struct ep_options options = { .qkey = 1, .rnr_retry = retry };
	struct ep a, b;
	struct host host;
	struct comp comp;
	struct ibv_ah *ah;
	uint64_t begin;

	host_open(&host, 0);
	ep_open(&a, &host, &options);
	ep_open(&b, &host, &options);
	ah = ah_open(&host, &host.gid);
	begin = now_ns();
	CHECK_EQUAL(post_send(&a, 1, ah, &b.addr, 0, 8), 0);
	comp_wait(&a, &comp);
	CHECK_EQUAL(comp.status, ST_RNR);
	CHECK_EQUAL(comp.wc_status, IBV_WC_RNR_RETRY_EXC_ERR);
	CHECK_EQUAL(counter("rnr_retries"), retries);
	CHECK(now_ns() - begin >= retries * 2000000);
	CHECK_EQUAL(post_recv(&b, 2, 0, 8), 0);
	CHECK_EQUAL(post_send(&a, 3, ah, &b.addr, 0, 8), 0);
	CHECK_EQUAL(comp_expect(&a, ST_OK), 3);
	CHECK_EQUAL(comp_expect(&b, ST_OK), 2);
	ah_close(ah);
	ep_close(&a);
	ep_close(&b);
	host_close(&host);
}

static void
rnr_at_once(void)
{
	rnr(0, 0);
}

static void
rnr_three(void)
{
	rnr(3, 3);
}

/* The message is retried until there is a receive; no other message waits for it. */
static void
rnr_for_ever(void)
{
	struct ep_options options = { .qkey = 1, .rnr_retry = 7 };
	struct ep a, b, c;
	struct host host;
	struct ibv_ah *ah;

	host_open(&host, 0);
	ep_open(&a, &host, &options);
	ep_open(&b, &host, &options);
	ep_open(&c, &host, &options);
	ah = ah_open(&host, &host.gid);
	CHECK_EQUAL(post_send(&a, 1, ah, &b.addr, 0, 8), 0);
	CHECK_EQUAL(post_recv(&c, 2, 0, 8), 0);
	CHECK_EQUAL(post_send(&a, 3, ah, &c.addr, 0, 8), 0);
	CHECK_EQUAL(comp_expect(&a, ST_OK), 3);
	CHECK_EQUAL(comp_expect(&c, ST_OK), 2);
	while (counter("rnr_retries") < 50)
		comp_none(&a);
	CHECK_EQUAL(post_recv(&b, 4, 0, 8), 0);
	CHECK_EQUAL(comp_expect(&a, ST_OK), 1);
	CHECK_EQUAL(comp_expect(&b, ST_OK), 4);
	ah_close(ah);
	ep_close(&a);
	ep_close(&b);
	ep_close(&c);
	host_close(&host);
}

/* The host's network is cut off after it has received three messages (deaf-after). */
static void
deaf(int fd, void *arg)
{
	struct addr other;
	struct host host;
	struct ibv_ah *ah;
	struct ep ep;

	(void)arg;
	CHECK(setenv("EFA_SIM", "deaf-after=3,unresp-ms=100,leaks=1", 1) == 0);
	host_open(&host, 0);
	ep_open(&ep, &host, NULL);
	for (uint64_t i = 0; i < 5; i++)
		CHECK_EQUAL(post_recv(&ep, i, 0, 100), 0);
	put(fd, &ep.addr, sizeof(ep.addr));
	get(fd, &other, sizeof(other));
	/* The three messages can still be polled; sends fail with a timeout. */
	for (uint64_t i = 0; i < 3; i++)
		CHECK_EQUAL(comp_expect(&ep, ST_OK), i);
	ah = ah_open(&host, &other.gid);
	CHECK_EQUAL(post_send(&ep, 9, ah, &other, 0, 8), 0);
	CHECK_EQUAL(comp_expect(&ep, ST_UNRESPONSIVE), 9);
	comp_none(&ep);
	ah_close(ah);
	ep_close(&ep);
	host_close(&host);
}

static void
unresponsive(void)
{
	struct addr to;
	struct child child;
	struct host host;
	struct comp comp;
	struct ibv_ah *ah, *self;
	struct ep a, b;
	uint64_t begin;

	child_start(&child, deaf, NULL);
	host_open(&host, 0);
	ep_open(&a, &host, NULL);
	ep_open(&b, &host, NULL);
	CHECK_EQUAL(post_recv(&b, 1, 0, 100), 0);
	get(child.fd, &to, sizeof(to));
	ah = ah_open(&host, &to.gid);
	self = ah_open(&host, &host.gid);
	for (uint64_t i = 0; i < 3; i++) {
		CHECK_EQUAL(post_send(&a, i, ah, &to, 0, 8), 0);
		CHECK_EQUAL(comp_expect(&a, ST_OK), i);
	}
	begin = now_ns();
	CHECK_EQUAL(post_send(&a, 3, ah, &to, 0, 8), 0);
	CHECK_EQUAL(post_read(&a, 4, ah, &to, to.mem, 0, 8), 0);
	/* A message to this host itself completes before 3 and 4, which go to the deaf host. */
	CHECK_EQUAL(post_send(&a, 5, self, &b.addr, 0, 8), 0);
	CHECK_EQUAL(comp_expect(&a, ST_OK), 5);
	comp_wait(&a, &comp);
	CHECK(now_ns() - begin >= 100000000);
	CHECK_EQUAL(comp.status, ST_UNRESPONSIVE);
	CHECK_EQUAL(comp.wc_status, IBV_WC_RESP_TIMEOUT_ERR);
	CHECK_EQUAL(comp.wr_id, 3);
	CHECK_EQUAL(comp_expect(&a, ST_UNRESPONSIVE), 4);
	put(child.fd, &b.addr, sizeof(b.addr));
	child_end(&child);
	ah_close(ah);
	ah_close(self);
	ep_close(&a);
	ep_close(&b);
	host_close(&host);
}

static void
injected(void)
{
	struct ep a;
	struct host host;
	struct ibv_ah *ah;

	host_open(&host, 0);
	ep_open(&a, &host, NULL);
	ah = ah_open(&host, &host.gid);
	CHECK_EQUAL(post_recv(&a, 1, 0, 100), 0);
	for (uint64_t i = 0; i < 100; i++) {
		CHECK_EQUAL(post_send(&a, 1, ah, &a.addr, 0, 8), 0);
		comp_expect(&a, ST_ABORT);
	}
	CHECK_EQUAL(counter("injected"), 100);
	CHECK_EQUAL(counter("remote_abort"), 100);
	CHECK_EQUAL(counter("sends"), 0);
	ah_close(ah);
	ep_close(&a);
	host_close(&host);
}

/* 10 % of the messages fail with RNR, as rnr-ppm=100000 asks. Each of them is sent again. */
static void
injected_rnr(void)
{
	struct ep a;
	struct host host;
	struct comp comp;
	struct ibv_ah *ah;
	uint32_t failed = 0;

	host_open(&host, 0);
	ep_open(&a, &host, NULL);
	ah = ah_open(&host, &host.gid);
	for (uint64_t i = 0; i < 2000; i++) {
		CHECK_EQUAL(post_recv(&a, 1, 0, 100), 0);
		CHECK_EQUAL(post_send(&a, 2, ah, &a.addr, 0, 8), 0);
		comp_wait(&a, &comp);
		CHECK_EQUAL(comp.wr_id, 2);
		if (comp.status == ST_RNR) {
			failed++;
			CHECK_EQUAL(post_send(&a, 2, ah, &a.addr, 0, 8), 0);
			while (comp_wait(&a, &comp), comp.status == ST_RNR) {
				failed++;
				CHECK_EQUAL(post_send(&a, 2, ah, &a.addr, 0, 8), 0);
			}
		}
		CHECK_EQUAL(comp.status, ST_OK);
		CHECK_EQUAL(comp_expect(&a, ST_OK), 1);
	}
	CHECK(failed > 150 && failed < 300); /* of 2,222: 10 % */
	CHECK_EQUAL(counter("injected"), failed);
	CHECK_EQUAL(counter("remote_rnr"), failed);
	ah_close(ah);
	ep_close(&a);
	host_close(&host);
}

const struct test tests_status[] = {
	{ .name = "flushed", .run = flushed },
	{ .name = "states", .run = states },
	{ .name = "bad-lkey", .run = bad_lkey },
	{ .name = "gone-while-held", .config = "rnr-us=2000", .run = held },
	{ .name = "lengths", .run = lengths },
	{ .name = "bad-qpn", .run = bad_qpn },
	{ .name = "renewed-qpn", .run = renewed_qpn },
	{ .name = "rnr-at-once", .config = "rnr-us=2000", .run = rnr_at_once },
	{ .name = "rnr-three", .config = "rnr-us=2000", .run = rnr_three },
	{ .name = "rnr-for-ever", .run = rnr_for_ever },
	{ .name = "unresponsive", .config = "unresp-ms=100", .run = unresponsive },
	{ .name = "injected", .config = "fail-ppm=1000000", .run = injected },
	{ .name = "injected-rnr", .config = "rnr-ppm=100000", .run = injected_rnr },
	{ 0 },
};
