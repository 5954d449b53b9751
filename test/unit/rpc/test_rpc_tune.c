/* SPDX-License-Identifier: BSD-3-Clause */

/* Settings of a context: from a file, and while it runs. */

#include "rpc_pair.h"
#include "rpc_pvt.h"
#include "tune_drive.h"

static void
test_file(void **state)
{
	struct leat_rpc_session *s;
	struct leat_ep *ep;
	char resp[8];

	(void)state;
	tune_file_begin("rpc.slots = 2\nrpc.packet = 256\nrpc.busy_us = 33\n");
	pair_conf.slots = 8;
	pair_conf.tickets = 4;
	assert_int_equal(pair_setup(NULL), 0);
	assert_int_equal(stats_of(&a).slots, 2);
	assert_int_equal(a.rpc->packet, 256);
	assert_int_equal(a.rpc->busy_us, 33);
	assert_int_equal(a.rpc->set.tickets, 4);
	s = connected();
	assert_int_equal(call(s, ECHO, "1234567", 8, resp, 8), 8);
	assert_string_equal(resp, "1234567");
	assert_int_equal(leat_rpc_close(s, 1000000), 0);
	b.closes = true;
	drive_until(a.nb_ev[LEAT_RPC_CLOSED] == 1 && b.nb_ev[LEAT_RPC_CLOSED] == 1);
	assert_int_equal(pair_teardown(NULL), 0);
	tune_file_end();

	/*
	 * A packet of 300 B does not fit the other settings: no context is created, and the text
	 * says why.
	 */
	tune_file_begin("rpc.packet = 300\n");
	ep = leat_ep_create(leat_dev_by_name(PAIR_RING), NULL);
	assert_non_null(ep);
	assert_null(leat_rpc_create(ep, NULL));
	assert_int_equal(rte_errno, EINVAL);
	assert_non_null(strstr(leat_err_msg(), "packet of 300 B"));
	assert_int_equal(leat_ep_close(ep, 0, NULL, NULL), 0);
	tune_file_end();
}

static void
test_changes(void **state)
{
	struct leat_rpc_session *s = connected();
	struct rpc_tune_report rep;
	char resp[8];

	(void)state;
	assert_int_equal(tune_ask(a.rpc->tune, "busy_us", "77", "segment", "4096", "bulk_grace_us",
				  "5000", NULL),
			 0);
	drive_until(tune_private(a.rpc->tune)->change_done == 1);
	assert_int_equal(tune_answer(a.rpc->tune), 0);
	assert_int_equal(a.rpc->busy_us, 77);
	assert_int_equal(a.rpc->segment, 4096);
	assert_int_equal(a.rpc->grace, leat_us_to_cycles(5000));
	/* The setting goes back to its default. */
	assert_int_equal(tune_ask(a.rpc->tune, "busy_us", "automatic", NULL), 0);
	drive_until(tune_private(a.rpc->tune)->change_done == 1);
	assert_int_equal(tune_answer(a.rpc->tune), 0);
	assert_int_equal(a.rpc->busy_us, 100);
	assert_int_equal(a.rpc->segment, 4096);
	assert_int_equal(tune_ask(a.rpc->tune, "slots", "4", NULL), -EPERM);
	assert_int_equal(tune_ask(a.rpc->tune, "silence_us", "999", NULL), -ERANGE);

	assert_int_equal(call(s, ECHO, "1234567", 8, resp, 8), 8);
	tune_report(a.rpc->tune, &rep);
	assert_int_equal(rep.posted, 1);
	assert_int_equal(rep.done, 1);
	assert_int_equal(rep.sessions, 1);
	assert_int_equal(rep.violations, 0);
	tune_report(b.rpc->tune, &rep);
	assert_int_equal(rep.handled, 1);
	assert_int_equal(leat_rpc_close(s, 1000000), 0);
	b.closes = true;
	drive_until(a.nb_ev[LEAT_RPC_CLOSED] == 1 && b.nb_ev[LEAT_RPC_CLOSED] == 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file),
		cmocka_unit_test_setup_teardown(test_changes, pair_setup, pair_teardown),
	};

	return cmocka_run_group_tests(tests, pair_start, pair_stop);
}
