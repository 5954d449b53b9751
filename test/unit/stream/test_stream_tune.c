/* SPDX-License-Identifier: BSD-3-Clause */

/* Settings of a net: of a file, and while it runs. */

#include "stream_pair.h"
#include "stream_pvt.h"
#include "tune_drive.h"

static int
set(struct leat_stream_net *net, const char *name, const char *value)
{
	int ret = tune_ask(net->tune, name, value, NULL);

	if (ret < 0)
		return ret;
	pair_turn();
	return tune_answer(net->tune);
}

static void
test_file(void **state)
{
	uint64_t out = 0, in = 0;

	(void)state;
	tune_file_begin("stream.rx_size = 65536\nstream.tx_size = 20000\nstream.idle_ms = 9000\n");
	pair_open();
	pair_connect();
	assert_int_equal(pair.client->conf.rx_size, 65536);
	assert_int_equal(pair.client->conf.tx_size, 20000);
	assert_int_equal(pair.client->conf.idle_ms, 9000);
	pair_until((pair_write(pair.c, &out, 200000 - out), pair_read(pair.s, &in, 8192),
		    in == 200000));
	pair_close();
	tune_file_end();
}

static void
test_changes(void **state)
{
	struct stream_tune_report rep;
	char mem[24];

	(void)state;
	pair_open();
	pair_connect();
	tune_report(pair.server->tune, &rep);
	assert_int_equal(rep.streams, 1);
	assert_int_equal(rep.accepted, 1);
	assert_true(rep.mem > 0);
	/* What is there stays; there is no room for another one. */
	snprintf(mem, sizeof(mem), "%" PRId64, rep.mem);
	assert_int_equal(set(pair.server, "mem_max", mem), 0);
	assert_int_equal(pair.server->conf.mem_max, rep.mem);
	assert_non_null(leat_stream_connect(pair.client, pair.addr, 0));
	pair_until((tune_report(pair.server->tune, &rep), rep.refused == 1));
	assert_int_equal(rep.streams, 1);

	assert_int_equal(set(pair.server, "keepalive_ms", "never"), 0);
	assert_int_equal(pair.server->conf.keepalive_ms, LEAT_STREAM_NEVER);
	assert_int_equal(set(pair.server, "client_silence_ms", "1500"), 0);
	assert_int_equal(pair.server->conf.client_silence_ms, 1500);
	assert_int_equal(set(pair.server, "rx_size", "65536"), -EPERM);
	pair_close();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_changes),
	};

	return cmocka_run_group_tests(tests, pair_start, pair_stop);
}
