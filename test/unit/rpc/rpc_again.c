/* SPDX-License-Identifier: BSD-3-Clause */

#include "rpc_again.h"

#include <string.h>

volatile uint64_t now;
const char *device;
struct leat_rpc_req reqs[MANY];
uint8_t in[MANY][16];

static int
setup_on(void **state, int (*pair)(void **), const char *dev)
{
	now = 1000000;
	leat_clock_mock_set(&now);
	device = dev;
	(void)pair(state);
	a.conf = (struct leat_rpc_session_conf){ .deadline_us = LEAT_RPC_NO_DEADLINE,
						 .reconnect_min_us = MIN_US,
						 .reconnect_max_us = MAX_US };
	b.closes = true;
	return 0;
}

int
again_setup(void **state)
{
	return setup_on(state, pair_setup, PAIR_RING);
}

int
again_setup_fault(void **state)
{
	return setup_on(state, pair_setup_fault, PAIR_FAULT);
}

int
again_setup_dgram(void **state)
{
	return setup_on(state, pair_setup_dgram, PAIR_DGRAM);
}

int
again_setup_lossy(void **state)
{
	return setup_on(state, pair_setup_lossy, PAIR_LOSSY);
}

int
again_setup_slow(void **state)
{
	return setup_on(state, pair_setup_slow, PAIR_RING);
}

int
again_teardown(void **state)
{
	int ret = pair_teardown(state);

	leat_clock_mock_set(NULL);
	return ret;
}

struct leat_rpc_session *
up(void)
{
	struct leat_rpc_session *s = leat_rpc_connect(a.rpc, addr, &a.conf);

	assert_non_null(s);
	pass_until(a.nb_ev[LEAT_RPC_UP] == 1 && b.nb_ev[LEAT_RPC_UP] == 1);
	return s;
}

void
close_all(struct leat_rpc_session *s)
{
	assert_int_equal(leat_rpc_close(s, 0), 0);
	pass_until(stats_of(&a).sessions == 0 && stats_of(&b).sessions == 0);
	pass_until(stats_of(&a).tx_packets + stats_of(&b).tx_packets == 0);
	assert_int_equal(stats_of(&a).posted, stats_of(&a).done);
	assert_int_equal(a.nb_ev[LEAT_RPC_CLOSED], 1);
}

void
a_renew(void)
{
	a.deaf = false;
	while (leat_rpc_destroy(a.rpc) < 0)
		end_drive(&a);
	while (leat_ep_destroy(a.ep) < 0)
		(void)leat_ep_events(a.ep, NULL, 0);
	end_open(&a, device, NULL);
}

void
b_dies(void)
{
	b.closes = true;
	assert_int_equal(leat_ep_shutdown(b.ep, 0), 0);
	while (stats_of(&b).sessions > 0)
		end_drive(&b);
	while (b.nb_later > 0)
		leat_rpc_answer(b.later[--b.nb_later], 0);
	while (leat_rpc_destroy(b.rpc) < 0)
		end_drive(&b);
	while (leat_ep_destroy(b.ep) < 0)
		(void)leat_ep_events(b.ep, NULL, 0);
	b.ep = NULL;
}

void
b_returns(void)
{
	end_open(&b, device, &pair_conf);
	assert_int_equal(leat_ep_listen(b.ep, addr), 0);
	b.closes = true;
}

void
b_breaks(void)
{
	struct leat_rpc_req req = { .session = b.accepted, .type = COUNT };

	b.accepted->peer_token ^= UINT64_C(1) << 63;
	post1(&req);
	drive_until(req.state == 0);
}

void
post_n(struct leat_rpc_session *s, unsigned int from, unsigned int n, uint8_t type)
{
	unsigned int i;

	for (i = from; i < from + n; i++) {
		reqs[i] = (struct leat_rpc_req){ .session = s,
						 .type = type,
						 .buf = "request",
						 .len = 7,
						 .resp = in[i],
						 .room = 16 };
		memset(in[i], 0x11, 16);
		post1(&reqs[i]);
	}
}

void
expect(unsigned int from, unsigned int n, int status, uint8_t refused)
{
	unsigned int i;

	for (i = from; i < from + n; i++) {
		assert_int_equal(reqs[i].state, 0);
		assert_int_equal(reqs[i].status, status);
		if (status < 0)
			assert_int_equal(reqs[i].refused, refused);
	}
}

void
answer_all(uint8_t byte)
{
	while (b.nb_later > 0) {
		struct leat_rpc_incoming *t = b.later[--b.nb_later];

		memset(t->resp, byte, 16);
		t->resp_len = 16;
		leat_rpc_answer(t, 0);
	}
}
