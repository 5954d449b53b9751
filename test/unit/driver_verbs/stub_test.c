/* SPDX-License-Identifier: BSD-3-Clause */

#include "stub_test.h"

#include <sched.h>
#include <stdlib.h>

#include <rte_common.h>

int
stub_start(void **state)
{
	static char prog[] = "test_verbs", tel[] = "--no-telemetry", pci[] = "--no-pci";
	static char log[] = "--log-level=leat.*:critical", d0[] = "--vdev=fabric_verbs0,dev=sim0";
	static char d1[] = "--vdev=fabric_verbs1,dev=sim1";
	static char d2[] = "--vdev=fabric_verbs2,dev=sim1,signal=4";
	static char d3[] = "--vdev=fabric_verbs3,dev=sim0,relaxed=1";
	static char d4[] = "--vdev=fabric_verbs4,dev=sim0,odp=1";
	static char d5[] = "--vdev=fabric_verbs5,dev=sim1,timeout=18,retry=5,rnr_retry=3";
	char *argv[] = { prog, tel, pci, log, d0, d1, d2, d3, d4, d5, NULL };

	(void)state;
	if (leat_init(RTE_DIM(argv) - 1, argv) < 0) {
		print_error("leat_init: %s\n", leat_err_msg());
		return -1;
	}
	return 0;
}

int
stub_stop(void **state)
{
	(void)state;
	return leat_cleanup();
}

struct vb_conn *
stub_conn(const struct stub_ep *s, unsigned int n)
{
	return s->e->conns[s->peer[n]];
}

struct ibv_qp *
stub_qp(const struct stub_ep *s, unsigned int n)
{
	return stub_conn(s, n)->qp;
}

struct stub_ep *
stub_open(unsigned int dev, unsigned int peers, uint32_t tx_depth)
{
	struct leat_ep_conf conf = { .ops = LEAT_OP_MASK_ALL & ~(LEAT_OP_BIT(LEAT_OP_TSEND) |
								 LEAT_OP_BIT(LEAT_OP_TRECV)),
				     .max_peers = 8,
				     .tx_depth = tx_depth };
	struct stub_ep *s = aligned_alloc(LEAT_CACHE_LINE, RTE_CACHE_LINE_ROUNDUP(sizeof(*s)));
	unsigned int i;

	assert_non_null(s);
	memset(s, 0, sizeof(*s));
	stub_reset();
	s->ep = leat_ep_create(leat_dev_get((int)dev), &conf);
	if (s->ep == NULL) {
		fail_msg("leat_ep_create: %s", leat_err_msg());
		return NULL;
	}
	s->e = vb_of(s->ep);
	s->mr = leat_mr_register(s->ep, s->buf, sizeof(s->buf), LEAT_MR_LOCAL);
	assert_non_null(s->mr);
	for (i = 0; i < peers; i++) {
		int id = leat_ep_connect(
			s->ep, dev == STUB_WR ? "192.0.2.2:7000" : "192.0.2.2:7001", NULL);

		assert_true(id >= 0);
		s->peer[i] = (uint16_t)id;
		s->nb_ev = 0;
		(void)stub_event(s, LEAT_EV_CONNECTED);
	}
	s->nb_ev = 0;
	return s;
}

void
stub_close(struct stub_ep *s)
{
	assert_int_equal(leat_mr_deregister(s->mr), 0);
	assert_int_equal(leat_ep_close(s->ep, 1000000, NULL, NULL), 0);
	assert_int_equal(sim.overruns, 0);
	assert_int_equal(sim.qps + sim.cqs + sim.srqs + sim.pds + sim.mrs + sim.ids, 0);
	free(s);
}

void
stub_make(struct stub_ep *s, uint32_t from, uint32_t n, unsigned int peer)
{
	uint32_t i;

	assert_true(from + n <= STUB_OPS);
	for (i = from; i < from + n; i++)
		s->ops[i] = (struct leat_op){ .type = LEAT_OP_SEND,
					      .peer = s->peer[peer],
					      .buf = s->buf,
					      .size = 8,
					      .mr = s->mr };
}

uint16_t
stub_post(struct stub_ep *s, uint32_t from, uint32_t n)
{
	struct leat_op *burst[STUB_OPS];
	uint32_t i;

	for (i = 0; i < n; i++)
		burst[i] = &s->ops[from + i];
	return leat_ep_post(s->ep, burst, (uint16_t)n);
}

static bool
collect_once(struct stub_ep *s)
{
	uint16_t n = leat_ep_poll(s->ep, &s->back[s->nb_back],
				  (uint16_t)RTE_MIN(64u, STUB_OPS - s->nb_back));
	uint16_t k = leat_ep_events(s->ep, &s->ev[s->nb_ev], (uint16_t)(RTE_DIM(s->ev) - s->nb_ev));

	s->nb_back += n;
	s->nb_ev += k;
	return n + k > 0;
}

void
stub_collect(struct stub_ep *s)
{
	int idle;

	for (idle = 0; idle < 8; idle++) {
		if (collect_once(s))
			idle = 0;
	}
}

struct leat_event *
stub_event(struct stub_ep *s, enum leat_event_type type)
{
	uint64_t end = leat_now() + leat_us_to_cycles(10000000);
	uint32_t i = 0;

	while (leat_now() < end) {
		for (; i < s->nb_ev; i++) {
			if (s->ev[i].type == type)
				return &s->ev[i];
		}
		if (!collect_once(s))
			sched_yield();
	}
	fail_msg("no event %d", (int)type);
	return NULL;
}

void
stub_expect(struct stub_ep *s, uint32_t *at, uint32_t from, uint32_t n, int status)
{
	uint32_t i;

	for (i = from; i < from + n; i++, (*at)++) {
		if (*at >= s->nb_back)
			fail_msg("op %u did not come back: %u did", i, s->nb_back);
		if (s->back[*at] != &s->ops[i])
			fail_msg("op %u came back in place of %u",
				 (uint32_t)(s->back[*at] - s->ops), i);
		if (s->ops[i].status != status)
			fail_msg("op %u: status %d, not %d", i, s->ops[i].status, status);
		assert_int_equal(s->ops[i].len, status == 0 ? s->ops[i].size : 0);
	}
}
