/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FAULT_TEST_H
#define FAULT_TEST_H

/*
 * Shared by the tests of fault devices: several of them over two ring devices, one of messages and
 * one of datagrams; a clock that stands still until a test advances it, and pairs of endpoints
 * driven by one thread. So every run of a test is the same.
 */

#include <leat_fabric.h>
#include <leat_time.h>

#include <leat_cmocka.h>

#include "fault_pvt.h"

#define F_OFF "fabric_fault0"
#define F_REORDER "fabric_fault1"     /* reorder=4 */
#define F_DELAY "fabric_fault2"	      /* delay=10..20 */
#define F_REFUSE "fabric_fault3"      /* refuse=0.5 */
#define F_REFUSE_RECV "fabric_fault4" /* refuse_recv=0.5 */
#define F_ERROR "fabric_fault5"	      /* error=1 */
#define F_ERROR_KEY "fabric_fault6"   /* error=0.5,errno=EACCES */
#define F_STALL "fabric_fault7"	      /* stall=1,stall_time=100 */
#define F_DIE "fabric_fault8"	      /* die=10 */
#define F_DIE_LATE "fabric_fault9"    /* die=40,delay=50 */
#define F_LONG "fabric_fault10"	      /* delay=60000000 */
#define F_TWICE "fabric_fault11"      /* reorder=4, over F_DELAY */
#define F_MIX7 "fabric_fault12"	      /* every kind of fault, seed=7 */
#define F_MIX8 "fabric_fault13"	      /* every kind of fault, seed=8 */

/* Over a ring device of datagrams: */
#define F_LOSS "fabric_fault14"	     /* loss=0.5 */
#define F_DUP "fabric_fault15"	     /* dup=0.5 */
#define F_OVERTAKE "fabric_fault16"  /* overtake=4 */
#define F_DATAGRAM7 "fabric_fault17" /* every kind of fault, seed=7 */
#define F_DATAGRAM8 "fabric_fault18" /* every kind of fault, seed=8 */

#define US UINT64_C(1000) /* a microsecond of the test's clock */

extern volatile uint64_t test_clock;

/*
 * For cmocka: group setup and teardown, and two setups of a test: one that selects the test's
 * clock, one that selects the real clock.
 */
int fault_test_start(void **state);
int fault_test_stop(void **state);
int fault_test_clock(void **state);
int fault_test_real_clock(void **state);

struct fault_pair {
	struct leat_ep *a, *b;
	uint16_t pa, pb; /* the id of peer b at a, and of peer a at b */
	char addr[LEAT_ADDR_MAX];
};

/*
 * Open endpoint a, with this name, on device dev, and endpoint b on the ring device whose endpoints
 * have the same type. Connect them.
 */
void fault_pair_open(struct fault_pair *p, const char *dev, const char *name);
void fault_pair_open_conf(struct fault_pair *p, const char *dev, const struct leat_ep_conf *of_a);
void fault_pair_connect(struct fault_pair *p);
void fault_pair_close(struct fault_pair *p);
/*
 * Run a turn: advance the clock by a microsecond, and poll both endpoints.
 * @return number of completed ops of a, which got holds
 */
uint16_t fault_pair_turn(struct fault_pair *p, struct leat_op **got, uint16_t max);
/* Wait for the next event of ep, and check that it is of this type. */
void fault_test_event(struct fault_pair *p, struct leat_ep *ep, enum leat_event_type type,
		      struct leat_event *ev);

static inline const struct fault_stats *
fault_test_stats(const struct leat_ep *ep)
{
	return &fault_of(ep)->stats;
}

/* Build a send or a receive on no queue: it comes back as soon as the device completes it. */
struct leat_op fault_test_send(uint16_t peer, void *buf, uint64_t size);
struct leat_op fault_test_recv(void *buf, uint64_t size);
void fault_test_post(struct leat_ep *ep, struct leat_op *op);

#endif /* FAULT_TEST_H */
