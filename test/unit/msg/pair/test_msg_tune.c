/* SPDX-License-Identifier: BSD-3-Clause */

/* Settings of a context: from a file, and for connections that begin after a change. */

#include "msg_pair.h"
#include "msg_pvt.h"
#include "tune_drive.h"

static int
set(struct end *e, const char *name, const char *value)
{
	int ret = tune_ask(e->m->tune, name, value, NULL);

	if (ret < 0)
		return ret;
	end_drive(e);
	return tune_answer(e->m->tune);
}

static void
transfer(struct leat_msg_conn *c, uint64_t size)
{
	static uint8_t out[4096], in[4096];
	struct leat_msg_req tx = { 0 }, rx = { 0 };
	unsigned int sent = a.nb_back, received = b.nb_back;

	memset(out, (int)size, size);
	recv1(b.accepted, &rx, in, sizeof(in));
	send1(c, &tx, out, size);
	drive_until(a.nb_back == sent + 1 && b.nb_back == received + 1);
	assert_int_equal(tx.status, 0);
	assert_int_equal(rx.status, 0);
	assert_int_equal(rx.len, size);
	assert_memory_equal(in, out, size);
}

static void
test_file(void **state)
{
	(void)state;
	tune_file_begin("msg.eager_max = 500\nmsg.*.credits = 7\n");
	assert_int_equal(pair_setup(NULL), 0);
	assert_int_equal(a.m->eager_max, 500);
	assert_int_equal(a.m->set.credits, 4);
	close_both(connected(NULL));
	assert_int_equal(pair_teardown(NULL), 0);
	/*
	 * If the file asks for more credits than there are buffers for, the connection works, and
	 * has as many as there are buffers for.
	 */
	tune_file_end();
	tune_file_begin("msg.credits = 256\n");
	assert_int_equal(pair_setup(NULL), 0);
	assert_int_equal(a.m->set.credits, a.m->credits);
	close_both(connected(NULL));
	assert_int_equal(pair_teardown(NULL), 0);
	tune_file_end();
}

static void
test_next(void **state)
{
	struct leat_msg_conn *c = connected(NULL);
	struct msg_tune_report rep;
	uint64_t eager;

	(void)state;
	/* A change of settings does not affect open connections. */
	assert_int_equal(set(&a, "eager_max", "100"), 0);
	assert_int_equal(set(&a, "credits", "5"), 0);
	assert_int_equal(a.m->set.credits, 4);
	transfer(c, 1000);
	tune_report(a.m->tune, &rep);
	assert_int_equal(rep.sent, 1);
	assert_int_equal(rep.eager, 1);
	assert_int_equal(rep.sent_bytes, 1000);
	assert_int_equal(rep.conns, 1);
	close_both(c);

	c = connected(NULL);
	assert_int_equal(c->mask, 3);
	assert_int_equal(c->eager_max, 100);
	assert_int_equal(b.accepted->eager_max, 100);
	transfer(c, 100);
	tune_report(a.m->tune, &rep);
	eager = rep.eager;
	assert_int_equal(eager, 2);
	transfer(c, 101);
	tune_report(a.m->tune, &rep);
	assert_int_equal(rep.eager, eager);
	assert_int_equal(rep.sent, 3);
	close_both(c);

	/* Both settings are limited by the size and number of the buffers. */
	assert_int_equal(set(&a, "eager_max", "65536"), 0);
	assert_int_equal(a.m->set.eager_max, a.m->eager_max);
	assert_int_equal(set(&a, "credits", "256"), 0);
	assert_int_equal(a.m->set.credits, a.m->credits);
	assert_int_equal(set(&a, "eager_max", "automatic"), 0);
	assert_int_equal(set(&a, "credits", "257"), -ERANGE);
	c = connected(NULL);
	assert_int_equal(c->eager_max, a.m->eager_max);
	assert_int_equal(c->mask, a.m->credits - 1);
	transfer(c, 1000);
	close_both(c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file),
		cmocka_unit_test_setup_teardown(test_next, pair_setup, pair_teardown),
	};

	return cmocka_run_group_tests(tests, pair_start, pair_stop);
}
