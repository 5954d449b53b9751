/* SPDX-License-Identifier: BSD-3-Clause */

/* Settings of a net: from a file, and while it runs. */

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
	/* Open streams stay; there is no room for another one. */
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
	pair_close();
}

/* Open streams keep their buffers; later ones have the new sizes. */
static void
test_sizes(void **state)
{
	struct leat_stream *old_c, *old_s;
	uint64_t out[2] = { 0 }, in[2] = { 0 };

	(void)state;
	pair_open();
	pair_connect();
	old_c = pair.c;
	old_s = pair.s;
	assert_int_equal(set(pair.server, "rx_size", "65536"), 0);
	assert_int_equal(set(pair.client, "tx_size", "20000"), 0);
	assert_int_equal(set(pair.server, "rx_size", "65537"), -EINVAL);
	pair_connect();
	assert_int_equal(pair.s->rx_size, 65536);
	assert_int_equal(pair.c->tx_size, 20000);
	assert_int_equal(old_s->rx_size, LEAT_STREAM_RX_DEFAULT);
	assert_int_equal(old_c->tx_size, LEAT_STREAM_TX_DEFAULT);
	assert_int_equal(pair.server->stats.mem,
			 LEAT_STREAM_RX_DEFAULT + 2 * LEAT_STREAM_TX_DEFAULT + 65536);
	pair_until((pair_write(old_c, &out[0], 3000000 - out[0]),
		    pair_write(pair.c, &out[1], 3000000 - out[1]),
		    pair_read(old_s, &in[0], 1 << 20), pair_read(pair.s, &in[1], 1 << 20),
		    in[0] == 3000000 && in[1] == 3000000));
	leat_stream_close(old_c, 1000000);
	leat_stream_close(old_s, 1000000);
	pair_until(pair.server->stats.streams == 1);
	assert_int_equal(pair.server->stats.mem, LEAT_STREAM_TX_DEFAULT + 65536);
	pair_close();
}

/* A limit below the present use admits no further stream. */
static void
test_limit_below(void **state)
{
	struct stream_tune_report rep;

	(void)state;
	pair_open();
	pair_connect();
	assert_int_equal(set(pair.server, "mem_max", "1"), 0);
	assert_non_null(leat_stream_connect(pair.client, pair.addr, 0));
	pair_until((tune_report(pair.server->tune, &rep), rep.refused == 1));
	assert_int_equal(rep.streams, 1);
	pair_close();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_changes),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_limit_below),
	};

	return cmocka_run_group_tests(tests, pair_start, pair_stop);
}
