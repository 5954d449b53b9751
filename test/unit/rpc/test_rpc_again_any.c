/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * While a session connects again, after any number of steps, it is closed, its endpoint is shut
 * down, or its peer dies once more. All requests come back.
 */

#include <string.h>

#include "rpc_again.h"

enum { TURNS = 120 };

static unsigned int seen[RPC_OVER + 1];

/* Do the k-th part of a turn; the clock advances by 29 us. */
static void
step(const struct leat_rpc_session *s, unsigned int k)
{
	struct leat_op *ops[4];
	struct leat_event ev;
	uint16_t n;

	now += 29 * US;
	switch (k % 4) {
	case 0:
		n = leat_ep_poll(a.ep, ops, 4);
		(void)leat_rpc_process(a.rpc, ops, n);
		break;
	case 1:
		if (leat_ep_events(a.ep, &ev, 1) == 1)
			(void)leat_rpc_handle_event(a.rpc, &ev);
		break;
	case 2:
		end_drive(&b);
		break;
	default:
		for (n = 0; n < 8; n++)
			a.nb_back += leat_rpc_poll(a.rpc, NULL, 0);
		break;
	}
	seen[s->state]++;
}

static void
begin_end(struct leat_rpc_session *s, unsigned int k)
{
	/* SLOTS requests are in flight, and 4 wait for a slot. */
	post_n(s, 0, SLOTS + 4, LATER);
	pass_until(b.nb_later == SLOTS);
	if (k % 3 == 1 && b.accepted->dg == NULL)
		b_breaks();
	else if (k % 3 != 2)
		assert_int_equal(leat_rpc_close(b.accepted, 0), 0);
	else
		b_dies();
}

static void
reopen_b(unsigned int k)
{
	if (k % 3 == 2)
		b_returns();
}

static void
test_close_any(void **state)
{
	struct leat_rpc_session *s;
	unsigned int i, k;

	(void)state;
	memset(seen, 0, sizeof(seen));
	for (k = 0; k < TURNS; k++) {
		a.nb_ev[LEAT_RPC_UP] = b.nb_ev[LEAT_RPC_UP] = a.nb_ev[LEAT_RPC_CLOSED] = 0;
		a.nb_back = 0;
		s = up();
		begin_end(s, k);
		if (k % 3 != 2) {
			for (i = 0; i < k; i++)
				step(s, i);
		} else {
			for (i = 0; i < k / 3; i++)
				end_drive(&a);
		}
		assert_int_equal(leat_rpc_close(s, 1000000), 0);
		seen[s->state]++;
		reopen_b(k);
		pass_until(a.nb_ev[LEAT_RPC_CLOSED] == 1 && stats_of(&a).sessions == 0);
		end_drive(&a);
		for (i = 0; i < SLOTS + 4; i++)
			assert_int_equal(reqs[i].state, 0);
		answer_all(0);
		pass_until(stats_of(&b).sessions == 0);
		assert_int_equal(stats_of(&a).tx_packets + stats_of(&b).tx_packets, 0);
	}
	assert_int_equal(stats_of(&a).posted, stats_of(&a).done);
	for (k = RPC_CONNECTING; k <= RPC_DOWN; k++)
		assert_true(seen[k] > 0);
}

/* The peer dies again while the session has not recovered from the last death. */
static void
test_die_any(void **state)
{
	struct leat_rpc_session *s = up();
	unsigned int i, k;

	(void)state;
	for (k = 0; k < TURNS; k++) {
		const unsigned int ups = a.nb_ev[LEAT_RPC_UP];

		a.nb_back = 0;
		begin_end(s, 2);
		b_returns();
		for (i = 0; i < k; i++) {
			now += 23 * US;
			if (i % 2 == 0)
				end_drive(&a);
			else
				end_drive(&b);
		}
		b_dies();
		for (i = 0; i < k % 7; i++)
			end_drive(&a);
		b_returns();
		pass_until(a.nb_ev[LEAT_RPC_UP] > ups && s->state == RPC_OPEN);
		pass_until((answer_all(0x44), a.nb_back == SLOTS + 4));
		for (i = 0; i < SLOTS; i++)
			assert_true(reqs[i].status < 0 && reqs[i].refused == 0);
		for (; i < SLOTS + 4; i++)
			assert_true(reqs[i].status == 0 || reqs[i].refused == 0);
		pass_until((answer_all(0x44), stats_of(&b).tickets == 0));
	}
	assert_int_equal(a.nb_ev[LEAT_RPC_ENDED], 0);
	close_all(s);
}

/* The endpoint is shut down while the session connects again. */
static void
test_shutdown_any(void **state)
{
	const struct leat_rpc_session_conf conf = a.conf;
	struct leat_rpc_session *s;
	unsigned int i, k;

	(void)state;
	for (k = 0; k < TURNS; k++) {
		a.conf = conf;
		a.closes = false;
		b.nb_ev[LEAT_RPC_UP] = 0;
		s = up();
		begin_end(s, k % 2);
		for (i = 0; i < k; i++)
			step(s, i);
		assert_int_equal(leat_ep_shutdown(a.ep, 1000), 0);
		/*
		 * The clock stands still here: the end must not wait for a pause between attempts.
		 */
		drive_until(a.nb_ev[LEAT_RPC_ENDED] == 1);
		end_drive(&a);
		for (i = 0; i < SLOTS + 4; i++)
			assert_int_equal(reqs[i].state, 0);
		assert_int_equal(leat_rpc_close(s, 0), 0);
		pass_until(a.nb_ev[LEAT_RPC_CLOSED] == 1);
		assert_int_equal(stats_of(&a).posted, stats_of(&a).done);
		a_renew();
		answer_all(0);
		pass_until(stats_of(&b).sessions == 0);
	}
}

#define on(setup, test)                                                                            \
	{                                                                                          \
#test, test, setup, again_teardown, NULL                                           \
	}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		on(again_setup, test_close_any),       on(again_setup_fault, test_close_any),
		on(again_setup_dgram, test_close_any), on(again_setup, test_die_any),
		on(again_setup_fault, test_die_any),   on(again_setup_dgram, test_die_any),
		on(again_setup, test_shutdown_any),
	};

	return cmocka_run_group_tests_name("rpc-again-any", tests, pair_start, pair_stop);
}
