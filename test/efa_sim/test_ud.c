/* SPDX-License-Identifier: BSD-3-Clause */

/* Unreliable datagrams: 40 bytes before the payload, and no completion reports a loss. */

#include <errno.h>
#include <string.h>

#include "test.h"

#define GRH 40

static const struct ep_options datagram = { .datagram = true, .qkey = 7 };

static void
payload(void)
{
	struct ep a, b;
	struct host host;
	struct comp comp;
	struct ibv_ah *ah;

	host_open(&host, 0);
	ep_open(&a, &host, &datagram);
	ep_open(&b, &host, &datagram);
	ah = ah_open(&host, &host.gid);
	memset(b.mem, 'x', 200);
	CHECK_EQUAL(post_recv(&b, 1, 0, GRH + 100), 0);
	memcpy(a.mem, "datagram", 9);
	CHECK_EQUAL(post_send(&a, 2, ah, &b.addr, 0, 9), 0);
	CHECK_EQUAL(comp_expect(&a, ST_OK), 2);
	comp_wait(&b, &comp);
	CHECK_EQUAL(comp.wr_id, 1);
	CHECK_EQUAL(comp.status, ST_OK);
	CHECK_EQUAL(comp.byte_len, GRH + 9);
	CHECK_EQUAL(comp.src_qp, a.addr.qpn);
	CHECK(strcmp(b.mem + GRH, "datagram") == 0);
	CHECK_EQUAL(b.mem[GRH + 9], 'x');
	CHECK_EQUAL(counter("datagrams"), 1);
	CHECK_EQUAL(counter("sends"), 0);
	ah_close(ah);
	ep_close(&a);
	ep_close(&b);
	host_close(&host);
}

/*
 * There is no receive, the receive is too short, the qkey is wrong, the QPN is wrong: each time the
 * send succeeds, and the datagram is lost.
 */
static void
lost(void)
{
	struct addr wrong;
	struct ep a, b;
	struct host host;
	struct ibv_ah *ah;

	host_open(&host, 0);
	ep_open(&a, &host, &datagram);
	ep_open(&b, &host, &datagram);
	ah = ah_open(&host, &host.gid);
	CHECK_EQUAL(post_send(&a, 1, ah, &b.addr, 0, 9), 0);
	CHECK_EQUAL(comp_expect(&a, ST_OK), 1);
	CHECK_EQUAL(counter("datagrams_lost"), 1);
	CHECK_EQUAL(post_recv(&b, 2, 0, GRH + 8), 0);
	CHECK_EQUAL(post_send(&a, 3, ah, &b.addr, 0, 9), 0);
	CHECK_EQUAL(comp_expect(&a, ST_OK), 3);
	CHECK_EQUAL(counter("datagrams_lost"), 2);
	wrong = b.addr;
	wrong.qkey++;
	CHECK_EQUAL(post_send(&a, 4, ah, &wrong, 0, 1), 0);
	CHECK_EQUAL(comp_expect(&a, ST_OK), 4);
	wrong = b.addr;
	wrong.qpn += 100;
	CHECK_EQUAL(post_send(&a, 5, ah, &wrong, 0, 1), 0);
	CHECK_EQUAL(comp_expect(&a, ST_OK), 5);
	CHECK_EQUAL(counter("datagrams_lost"), 4);
	CHECK_EQUAL(counter("datagrams"), 0);
	comp_none(&b);
	/* A datagram that fits is received: the losses broke nothing. */
	CHECK_EQUAL(post_send(&a, 6, ah, &b.addr, 0, 8), 0);
	CHECK_EQUAL(comp_expect(&a, ST_OK), 6);
	CHECK_EQUAL(comp_expect(&b, ST_OK), 2);
	ah_close(ah);
	ep_close(&a);
	ep_close(&b);
	host_close(&host);
}

/* Mistakes of the sender itself complete with a status. */
static void
local_errors(void)
{
	struct ibv_sge sge;
	struct ep a;
	struct host host;
	struct comp comp;
	struct ibv_ah *ah;

	host_open(&host, 0);
	ep_open(&a, &host, &datagram);
	ah = ah_open(&host, &host.gid);
	sge = (struct ibv_sge){ (uintptr_t)a.mem, 10, a.mr->lkey + 1 };
	CHECK_EQUAL(post_send_sges(&a, 1, ah, &a.addr, &sge, 1, 0), 0);
	comp_wait(&a, &comp);
	CHECK_EQUAL(comp.status, ST_BAD_LKEY);
	CHECK_EQUAL(comp.wc_status, IBV_WC_LOC_PROT_ERR);
	CHECK_EQUAL(post_send(&a, 1, ah, &a.addr, 0, 8929), 0);
	comp_expect(&a, ST_TOO_LONG);
	ah_close(ah);
	ep_close(&a);
	host_close(&host);
}

const struct test tests_ud[] = {
	{ .name = "ud-payload", .run = payload },
	{ .name = "ud-lost", .run = lost },
	{ .name = "ud-local-errors", .run = local_errors },
	{ 0 },
};
