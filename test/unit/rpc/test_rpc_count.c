/* SPDX-License-Identifier: BSD-3-Clause */

/* Ten thousand sessions between two endpoints, all of them used, and one too many. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpc_pair.h"

#define SESSIONS 10000

static int
setup_count(void **state)
{
	pair_ep_conf.max_peers = SESSIONS + 16;
	pair_ep_conf.rx_depth = 32768;
	pair_ep_conf.tx_depth = 64;
	pair_conf.max_sessions = SESSIONS;
	pair_conf.packet = 256;
	pair_conf.slots = 2;
	return pair_setup(state);
}

static void
test_ten_thousand(void **state)
{
	struct leat_rpc_session **s = calloc(SESSIONS, sizeof(*s));
	struct leat_rpc_req *reqs = calloc(SESSIONS, sizeof(*reqs)), *list[100];
	const struct leat_rpc_session_conf conf = { .deadline_us = LEAT_RPC_NO_DEADLINE };
	struct leat_rpc_stats st = stats_of(&b);
	unsigned int i, k, round;

	(void)state;
	if (s == NULL || reqs == NULL) {
		free(s);
		free(reqs);
		fail_msg("no memory");
		return;
	}
	/* Together the sessions have no more packets in flight to b than b has receives. */
	assert_int_equal(st.credits, 3);
	assert_true(st.credits * SESSIONS <= 32768);
	for (i = 0; i < SESSIONS; i += 100) {
		for (k = i; k < i + 100; k++) {
			s[k] = leat_rpc_connect(a.rpc, addr, &conf);
			assert_non_null(s[k]);
		}
		drive_until(a.nb_ev[LEAT_RPC_UP] == i + 100 && b.nb_ev[LEAT_RPC_UP] == i + 100);
	}
	for (round = 0; round < 3; round++) {
		for (i = 0; i < SESSIONS; i += 100) {
			for (k = 0; k < 100; k++) {
				list[k] = &reqs[i + k];
				*list[k] = (struct leat_rpc_req){ .session = s[i + k],
								  .type = COUNT,
								  .buf = &reqs[i],
								  .len = 32 };
			}
			assert_int_equal(leat_rpc_post(list, 100), 100);
			drive(1);
		}
		drive_until(a.nb_back == (uint64_t)SESSIONS * (round + 1));
		for (i = 0; i < SESSIONS; i++)
			assert_int_equal(reqs[i].status, 0);
	}
	assert_int_equal(b.nb_handled, SESSIONS * 3);
	/* The memory never grew. */
	assert_int_equal(stats_of(&b).memory, st.memory);
	/* One session too many: both this side and the peer name the limit. */
	assert_null(leat_rpc_connect(a.rpc, addr, &conf));
	assert_non_null(strstr(leat_err_msg(), "10000 sessions"));
	assert_int_equal(leat_rpc_close(s[0], 0), 0);
	drive_until(a.nb_ev[LEAT_RPC_CLOSED] == 1 && b.nb_ev[LEAT_RPC_ENDED] == 1);
	s[0] = leat_rpc_connect(a.rpc, addr, &conf);
	assert_non_null(s[0]);
	drive_until(a.nb_ev[LEAT_RPC_ENDED] == 1);
	assert_int_equal(a.ev.status, -ECONNREFUSED);
	assert_non_null(strstr(a.ev.text, "has 10000 sessions"));
	assert_int_equal(leat_rpc_close(b.ev.session, 0), 0);
	a.closes = b.closes = true;
	for (i = 0; i < SESSIONS; i++)
		assert_int_equal(leat_rpc_close(s[i], 0), 0);
	drive_until(stats_of(&a).sessions == 0 && stats_of(&b).sessions == 0);
	free(s);
	free(reqs);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_ten_thousand, setup_count, pair_teardown),
	};

	return cmocka_run_group_tests_name("rpc-count", tests, pair_start, pair_stop);
}
