/* SPDX-License-Identifier: BSD-3-Clause */

/* Completion queues: the rules of polling. */

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "test.h"

static struct ibv_poll_cq_attr none;

static void
rules(void)
{
	struct ibv_poll_cq_attr unknown = { .comp_mask = 1 };
	struct host host;
	struct ibv_ah *ah;
	struct ep a;
	int seen = 0;

	host_open(&host, 0);
	ep_open(&a, &host, NULL);
	ah = ah_open(&host, &host.gid);
	/* The CQ is empty: ibv_start_poll() fails and starts no poll, so call no ibv_end_poll(). */
	CHECK_EQUAL(ibv_start_poll(a.cq, &none), ENOENT);
	CHECK_EQUAL(ibv_start_poll(a.cq, &none), ENOENT);
	CHECK_EQUAL(ibv_start_poll(a.cq, &unknown), EINVAL);
	CHECK_EQUAL(post_recv(&a, 1, 0, 8), 0);
	CHECK_EQUAL(post_send(&a, 2, ah, &a.addr, 0, 8), 0);
	CHECK_EQUAL(ibv_start_poll(a.cq, &none), 0);
	seen |= 1 << a.cq->wr_id;
	/* Messages that are posted during a poll complete in the same poll. */
	CHECK_EQUAL(post_recv(&a, 3, 0, 8), 0);
	CHECK_EQUAL(post_send(&a, 4, ah, &a.addr, 0, 8), 0);
	CHECK_EQUAL(post_read(&a, 5, ah, &a.addr, a.addr.mem, 8, 8), 0);
	for (int i = 0; i < 4; i++) {
		CHECK_EQUAL(ibv_next_poll(a.cq), 0);
		CHECK_EQUAL(a.cq->status, IBV_WC_SUCCESS);
		seen |= 1 << a.cq->wr_id;
	}
	CHECK_EQUAL(seen, 0x3e);
	CHECK_EQUAL(ibv_next_poll(a.cq), ENOENT);
	ibv_end_poll(a.cq);
	CHECK_EQUAL(ibv_start_poll(a.cq, &none), ENOENT);
	CHECK_EQUAL(counter("ok"), 5);
	ah_close(ah);
	ep_close(&a);
	host_close(&host);
}

/* The ring grows where its positions wrap to 0, and keeps the order. */
static void
growing(void)
{
	struct ep_options options = { .qkey = 1, .sends = 1024 };
	struct host host;
	struct ibv_ah *ah;
	struct ep a;

	host_open(&host, 0);
	ep_open(&a, &host, &options);
	ah = ah_open(&host, &host.gid);
	for (uint64_t round = 0; round < 4; round++) {
		for (uint64_t i = 0; i < 1000; i++)
			CHECK_EQUAL(post_send(&a, i, ah, &a.addr, 0, 8), 0);
		for (uint64_t i = 0; i < 1000; i++)
			CHECK_EQUAL(comp_expect(&a, ST_RNR), i);
		comp_none(&a);
	}
	ah_close(ah);
	ep_close(&a);
	host_close(&host);
}

/* The QP whose inbox would be polled next is destroyed: polling goes on with the other QPs. */
static void
destroyed_next(void)
{
	struct ep eps[4];
	struct host host;
	struct ibv_ah *ah;

	host_open(&host, 0);
	ep_open(&eps[0], &host, NULL);
	for (int i = 1; i < 4; i++)
		ep_open(&eps[i], &host, &(struct ep_options){ .qkey = 2, .cq_of = &eps[0] });
	ah = ah_open(&host, &host.gid);
	for (uint64_t i = 0; i < 4; i++)
		CHECK_EQUAL(post_recv(&eps[i], i, 0, 8), 0);
	CHECK_EQUAL(post_send(&eps[3], 10, ah, &eps[3].addr, 0, 8), 0);
	CHECK_EQUAL(comp_expect(&eps[0], ST_OK), 10);
	CHECK_EQUAL(comp_expect(&eps[0], ST_OK), 3);
	ep_close(&eps[2]);
	CHECK_EQUAL(post_send(&eps[3], 11, ah, &eps[0].addr, 0, 8), 0);
	CHECK_EQUAL(comp_expect(&eps[0], ST_OK), 11);
	CHECK_EQUAL(comp_expect(&eps[0], ST_OK), 0);
	comp_none(&eps[0]);
	ah_close(ah);
	ep_close(&eps[3]);
	ep_close(&eps[1]);
	ep_close(&eps[0]);
	host_close(&host);
}

/* A QP's completions are dropped with it, those of other QPs stay. */
static void
destroyed(void)
{
	struct host host;
	struct ibv_ah *ah;
	struct ep a, b;

	host_open(&host, 0);
	ep_open(&a, &host, NULL);
	ep_open(&b, &host, &(struct ep_options){ .qkey = 2, .cq_of = &a });
	ah = ah_open(&host, &host.gid);
	for (uint64_t i = 0; i < 10; i++) {
		CHECK_EQUAL(post_send(&a, i, ah, &a.addr, 0, 8), 0);
		CHECK_EQUAL(post_send(&b, 100 + i, ah, &a.addr, 0, 8), 0);
		CHECK_EQUAL(post_recv(&b, 200 + i, 0, 8), 0);
	}
	ep_error(&b); /* ten receives are flushed */
	ep_close(&b);
	for (uint64_t i = 0; i < 10; i++)
		CHECK_EQUAL(comp_expect(&a, ST_RNR), i);
	comp_none(&a);
	ah_close(ah);
	ep_close(&a);
	host_close(&host);
}

#define NB_THREADS 3
#define NB_EACH 20000

static struct ep shared;
static struct ibv_ah *shared_ah;
static _Atomic uint32_t nb_polled;

static void
poll_some(void)
{
	uint32_t nb = 0;

	if (ibv_start_poll(shared.cq, &none) != 0)
		return;
	do {
		CHECK_EQUAL(shared.cq->status, IBV_WC_SUCCESS);
		CHECK_EQUAL(shared.cq->wr_id, ibv_wc_read_opcode(shared.cq) == IBV_WC_RECV ? 1 : 2);
	} while (++nb < 10 && ibv_next_poll(shared.cq) == 0);
	ibv_end_poll(shared.cq);
	nb_polled += nb;
}

/*
 * Several threads run this: they post and poll on one QP, and no completion may get lost. Each
 * posts a receive before it sends.
 */
static void *
busy(void *arg)
{
	(void)arg;
	for (int i = 0; i < NB_EACH; i++) {
		while (post_recv(&shared, 1, 0, 8) == ENOMEM)
			poll_some();
		while (post_send(&shared, 2, shared_ah, &shared.addr, 8, 8) == ENOMEM)
			poll_some();
	}
	while (nb_polled < 2 * NB_THREADS * NB_EACH)
		poll_some();
	return NULL;
}

static void
threads(void)
{
	pthread_t thread[NB_THREADS];
	struct host host;

	host_open(&host, 0);
	ep_open(&shared, &host, NULL);
	shared_ah = ah_open(&host, &host.gid);
	for (int i = 0; i < NB_THREADS; i++)
		CHECK_EQUAL(pthread_create(&thread[i], NULL, busy, NULL), 0);
	for (int i = 0; i < NB_THREADS; i++)
		CHECK_EQUAL(pthread_join(thread[i], NULL), 0);
	comp_none(&shared);
	CHECK_EQUAL(counter("sends"), NB_THREADS * NB_EACH);
	CHECK_EQUAL(counter("recvs"), NB_THREADS * NB_EACH);
	ah_close(shared_ah);
	ep_close(&shared);
	host_close(&host);
}

/*
 * Create and destroy queue pairs while another thread polls and the emulator's thread sends:
 * neither may use a queue pair that was destroyed.
 */
static void *
coming_and_going(void *arg)
{
	struct host *host = arg;

	for (int i = 0; i < 300; i++) {
		struct ep ep;

		ep_open(&ep, host,
			&(struct ep_options){ .qkey = 3, .rnr_retry = 7, .cq_of = &shared });
		for (int j = 0; j < 4; j++)
			CHECK_EQUAL(post_send(&ep, 2, shared_ah, &ep.addr, 0, 8), 0);
		ep_close(&ep);
	}
	nb_polled = UINT32_MAX;
	return NULL;
}

static void
churn(void)
{
	pthread_t thread;
	struct host host;
	struct comp comp;

	host_open(&host, 0);
	ep_open(&shared, &host, NULL);
	shared_ah = ah_open(&host, &host.gid);
	CHECK_EQUAL(pthread_create(&thread, NULL, coming_and_going, &host), 0);
	while (nb_polled != UINT32_MAX)
		(void)comp_poll(&shared, &comp);
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
	comp_none(&shared);
	CHECK_EQUAL(counter("qps"), 301);
	ah_close(shared_ah);
	ep_close(&shared);
	host_close(&host);
}

const struct test tests_poll[] = {
	{ .name = "poll-rules", .run = rules },
	{ .name = "poll-growing", .run = growing },
	{ .name = "poll-destroyed", .run = destroyed },
	{ .name = "poll-destroyed-next", .run = destroyed_next },
	{ .name = "poll-threads", .run = threads },
	{ .name = "poll-threads-reordered", .config = "reorder=8,hold-us=50", .run = threads },
	{ .name = "poll-churn", .config = "rnr-us=5", .run = churn },
	{ 0 },
};
