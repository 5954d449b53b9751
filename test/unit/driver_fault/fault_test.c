/* SPDX-License-Identifier: BSD-3-Clause */

#include "fault_test.h"

#include <sched.h>

#define PATIENCE 1000000 /* turns; no test needs more than some hundreds */
#define OVER_RING ",lower=fabric_ring0,"
#define OVER_DATAGRAMS ",lower=fabric_ring1,"
#define DATAGRAM_MIX                                                                               \
	"reorder=4,delay=exp:3,refuse=0.1,error=0.05,stall=0.02,stall_time=5..30,"                 \
	"loss=0.1,dup=0.1,overtake=4"
#define MIX                                                                                        \
	"reorder=6,delay=exp:5,refuse=0.1,refuse_recv=0.1,error=0.05,stall=0.02,stall_time=5..30"

volatile uint64_t test_clock;

int
fault_test_start(void **state)
{
	static char args[][200] = {
		"test_fault",
		"--no-pci",
		"--log-level=leat.*:error",
		"--vdev=fabric_ring0",
		"--vdev=fabric_ring1,type=datagram",
		"--vdev=" F_OFF ",lower=fabric_ring0",
		"--vdev=" F_REORDER OVER_RING "reorder=4",
		"--vdev=" F_DELAY OVER_RING "delay=10..20",
		"--vdev=" F_REFUSE OVER_RING "refuse=0.5",
		"--vdev=" F_REFUSE_RECV OVER_RING "refuse_recv=0.5",
		"--vdev=" F_ERROR OVER_RING "error=1",
		"--vdev=" F_ERROR_KEY OVER_RING "error=0.5,errno=EACCES",
		"--vdev=" F_STALL OVER_RING "stall=1,stall_time=100",
		"--vdev=" F_DIE OVER_RING "die=10,seed=99",
		"--vdev=" F_DIE_LATE OVER_RING "die=40,delay=50",
		"--vdev=" F_LONG OVER_RING "delay=60000000",
		"--vdev=" F_TWICE ",lower=" F_DELAY ",reorder=4",
		"--vdev=" F_MIX7 OVER_RING "seed=7," MIX,
		"--vdev=" F_MIX8 OVER_RING "seed=8," MIX,
		"--vdev=" F_LOSS OVER_DATAGRAMS "loss=0.5",
		"--vdev=" F_DUP OVER_DATAGRAMS "dup=0.5",
		"--vdev=" F_OVERTAKE OVER_DATAGRAMS "overtake=4",
		"--vdev=" F_DATAGRAM7 OVER_DATAGRAMS "seed=7," DATAGRAM_MIX,
		"--vdev=" F_DATAGRAM8 OVER_DATAGRAMS "seed=8," DATAGRAM_MIX,
	};
	char *argv[RTE_DIM(args) + 1];
	size_t i;

	(void)state;
	for (i = 0; i < RTE_DIM(args); i++)
		argv[i] = args[i];
	argv[i] = NULL;
	if (leat_init((int)RTE_DIM(args), argv) < 0) {
		print_error("leat_init: %s\n", leat_err_msg());
		return -1;
	}
	return 0;
}

int
fault_test_stop(void **state)
{
	(void)state;
	return leat_cleanup();
}

int
fault_test_clock(void **state)
{
	(void)state;
	test_clock = 1000000 * US;
	leat_clock_mock_set(&test_clock);
	return 0;
}

int
fault_test_real_clock(void **state)
{
	(void)state;
	leat_clock_mock_set(NULL);
	return 0;
}

void
fault_test_event(struct fault_pair *p, struct leat_ep *ep, enum leat_event_type type,
		 struct leat_event *ev)
{
	int i;

	for (i = 0; i < PATIENCE; i++) {
		if (leat_ep_events(ep, ev, 1) == 1) {
			assert_int_equal(ev->type, type);
			return;
		}
		(void)leat_ep_events(ep == p->a ? p->b : p->a, NULL, 0);
		test_clock += US;
	}
	fail_msg("event %d did not come", (int)type);
}

void
fault_pair_connect(struct fault_pair *p)
{
	struct leat_event ev;
	int id = leat_ep_connect(p->a, p->addr, NULL);

	assert_true(id >= 0);
	fault_test_event(p, p->b, LEAT_EV_CONNECT_REQ, &ev);
	p->pb = ev.peer;
	assert_int_equal(leat_ep_accept(p->b, ev.peer, NULL), 0);
	fault_test_event(p, p->b, LEAT_EV_CONNECTED, &ev);
	fault_test_event(p, p->a, LEAT_EV_CONNECTED, &ev);
	assert_int_equal(ev.peer, id);
	p->pa = ev.peer;
}

void
fault_pair_open(struct fault_pair *p, const char *dev, const char *name)
{
	const struct leat_ep_conf conf = { .ops = LEAT_OP_MASK_ALL, .name = name };

	fault_pair_open_conf(p, dev, &conf);
}

void
fault_pair_open_conf(struct fault_pair *p, const char *dev, const struct leat_ep_conf *of_a)
{
	const struct leat_ep_conf conf = { .ops = of_a->ops, .type = of_a->type };
	bool datagram = of_a->type == LEAT_EP_DATAGRAM;

	p->a = leat_ep_create(leat_dev_by_name(dev), of_a);
	if (p->a == NULL)
		fail_msg("leat_ep_create: %s", leat_err_msg());
	p->b = leat_ep_create(leat_dev_by_name(datagram ? "fabric_ring1" : "fabric_ring0"), &conf);
	assert_non_null(p->b);
	assert_int_equal(leat_ep_listen(p->b, "fault:0"), 0);
	assert_int_equal(leat_ep_listen_addr(p->b, p->addr, sizeof(p->addr)), 0);
	fault_pair_connect(p);
}

void
fault_pair_close(struct fault_pair *p)
{
	struct leat_event ev;
	int ret;

	/* Not leat_ep_close(): it waits by the clock, which stands still here. */
	assert_int_equal(leat_ep_shutdown(p->a, 1000000), 0);
	while (leat_ep_events(p->a, &ev, 1) == 0 || ev.type != LEAT_EV_SHUTDOWN) {
		struct leat_op *got[32];

		(void)fault_pair_turn(p, got, 32);
	}
	assert_int_equal(ev.status, 0);
	while (leat_ep_poll(p->a, (struct leat_op *[32]){ NULL }, 32) > 0)
		;
	assert_int_equal(leat_ep_destroy(p->a), 0);
	ret = leat_ep_close(p->b, 0, NULL, NULL);
	assert_true(ret == 0 || ret == -ETIMEDOUT);
}

uint16_t
fault_pair_turn(struct fault_pair *p, struct leat_op **got, uint16_t max)
{
	struct leat_op *other[32];

	test_clock += US;
	(void)leat_ep_poll(p->b, other, 32);
	return leat_ep_poll(p->a, got, max);
}

struct leat_op
fault_test_send(uint16_t peer, void *buf, uint64_t size)
{
	return (struct leat_op){ .type = LEAT_OP_SEND,
				 .peer = peer,
				 .buf = buf,
				 .size = size,
				 .queue = LEAT_QUEUE_NONE };
}

struct leat_op
fault_test_recv(void *buf, uint64_t size)
{
	return (struct leat_op){ .type = LEAT_OP_RECV,
				 .peer = LEAT_PEER_ANY,
				 .buf = buf,
				 .size = size,
				 .queue = LEAT_QUEUE_NONE };
}

void
fault_test_post(struct leat_ep *ep, struct leat_op *op)
{
	assert_int_equal(leat_ep_post(ep, &op, 1), 1);
}
