/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Peers that break the protocol, or do what it allows but no implementation does. Each ends at most
 * its own stream, and another stream goes on meanwhile.
 */

#include <errno.h>
#include <string.h>

#include "stream_pair.h"
#include "stream_raw.h"

static struct raw raw;
static uint64_t out, in; /* positions in the stream that is not hostile */

static int
setup_conf(void **state, enum leat_stream_mode mode)
{
	(void)state;
	pair_conf.mode = pair_server_conf.mode = mode;
	pair_conf.rx_size = pair_server_conf.rx_size = LEAT_STREAM_RX_MIN;
	pair_open();
	pair_connect();
	out = in = 0;
	return 0;
}

static int
setup(void **state)
{
	return setup_conf(state, LEAT_STREAM_MODE_COMPAT);
}

static int
setup_windows(void **state)
{
	return setup_conf(state, LEAT_STREAM_MODE_WINDOWS);
}

static int
teardown(void **state)
{
	(void)state;
	pair_close();
	return 0;
}

/* Check that bytes pass on the stream that is not hostile; s is its end at the server. */
static void
bystander(struct leat_stream *s)
{
	const uint64_t total = out + 100000;

	pair_until(
		(pair_write(pair.c, &out, total - out), pair_read(s, &in, SIZE_MAX), in == total));
}

struct offence {
	const char *name;
	void (*commit)(void);
};

static void
ctrl_len(size_t len)
{
	uint8_t bytes[64] = { 0, STREAM_OP_KEEPALIVE };

	raw_bytes(&raw, bytes, len);
}

static void
len_0(void)
{
	ctrl_len(0);
}
static void
len_31(void)
{
	ctrl_len(31);
}
static void
len_33(void)
{
	ctrl_len(33);
}
static void
len_64(void)
{
	ctrl_len(64);
}
static void
len_100(void)
{
	uint8_t bytes[100] = { 0, STREAM_OP_KEEPALIVE };

	raw_bytes(&raw, bytes, sizeof(bytes));
}
static void
opcode_4(void)
{
	raw_ctrl(&raw, &(struct stream_ctrl){ .opcode = 4 });
}
static void
opcode_ffff(void)
{
	raw_ctrl(&raw, &(struct stream_ctrl){ .opcode = 0xffff });
}
static void
end_not_negotiated(void)
{
	raw_ctrl(&raw, &(struct stream_ctrl){ .opcode = STREAM_OP_END });
}
static void
memory_0(void)
{
	raw_register(&raw, 0, 0);
}
static void
memory_absurd(void)
{
	raw_register(&raw, 0, UINT32_MAX);
}
static void
memory_wraps(void)
{
	raw_ctrl(&raw, &(struct stream_ctrl){ .opcode = STREAM_OP_MEMORY,
					      .addr = UINT64_MAX - 100,
					      .length = 65536 });
}
static void
imm_beyond(void)
{
	(void)raw_write(&raw, 0, 0, "x", 1, LEAT_STREAM_RX_MIN + 1);
}
static void
imm_all_ones(void)
{
	(void)raw_write(&raw, 0, 0, "x", 1, UINT32_MAX);
}
static void
imm_sum_beyond(void)
{
	(void)raw_write(&raw, 0, 0, "x", 1, LEAT_STREAM_RX_MIN);
	(void)raw_write(&raw, 0, 0, "x", 1, 1);
}
static void
imm_sum_wraps(void)
{
	(void)raw_write(&raw, 0, 0, "x", 1, 1000);
	(void)raw_write(&raw, 0, 0, "x", 1, UINT32_MAX - 998);
}
static void
many_questions(void)
{
	unsigned int i;

	/*
	 * The peer receives no answers any more: its receives are used up, and it posts no others.
	 */
	raw.repost = false;
	for (i = 0; i < 2000 && !raw.down; i++)
		raw_ctrl(&raw, &(struct stream_ctrl){ .opcode = STREAM_OP_GET_FEATURES });
}

static const struct offence offences[] = {
	{ "a control message of 0 B", len_0 },
	{ "of 31 B", len_31 },
	{ "of 33 B", len_33 },
	{ "of 64 B", len_64 },
	{ "of 100 B", len_100 },
	{ "opcode 4", opcode_4 },
	{ "opcode 0xffff", opcode_ffff },
	{ "an end that was not negotiated", end_not_negotiated },
	{ "a window of 0 B", memory_0 },
	{ "a window of 4 GiB", memory_absurd },
	{ "a window that wraps", memory_wraps },
	{ "a notice beyond the window", imm_beyond },
	{ "a notice of 4 GiB", imm_all_ones },
	{ "notices that add up beyond", imm_sum_beyond },
	{ "notices that add up to a wrap", imm_sum_wraps },
	{ "questions without end", many_questions },
};

static void
test_offences(void **state)
{
	struct leat_stream *beside = pair.s;
	struct leat_stream_net_stats stats;
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(offences); i++) {
		print_message("  %s\n", offences[i].name);
		raw_open(&raw);
		raw_until(&raw, pair.nb_accepted == i + 2);
		offences[i].commit();
		raw_until(&raw, raw.down);
		raw_until(&raw, (leat_stream_ready(pair.s) & LEAT_STREAM_CLOSED) != 0);
		if (leat_stream_error(pair.s) != -EPROTO)
			fail_msg("error %d: %s", leat_stream_error(pair.s),
				 leat_stream_why(pair.s));
		leat_stream_close(pair.s, 0);
		raw_close(&raw);
		bystander(beside);
	}
	leat_stream_net_stats_get(pair.server, &stats);
	assert_int_equal(stats.protocol, RTE_DIM(offences));
	pair_until((leat_stream_net_stats_get(pair.server, &stats), stats.streams == 1));
	assert_int_equal(stats.mem, LEAT_STREAM_RX_MIN + LEAT_STREAM_TX_DEFAULT);
}

/* Messages that are unusual, but allowed, do not end the stream. */
static void
test_odd(void **state)
{
	struct leat_stream *beside = pair.s;
	struct stream_ctrl m = { .opcode = STREAM_OP_SET_FEATURES, .select = 9, .features = 77 };
	uint8_t bytes[STREAM_CTRL_LEN];
	char buf[16];
	uint64_t imm;

	(void)state;
	raw_open(&raw);
	raw_until(&raw, pair.nb_accepted == 2 && raw_memory(&raw, 0) != NULL);
	/* The server has registered its window at once, and sent nothing else unrequested. */
	assert_int_equal(raw.nb_got, 1);
	assert_int_equal(raw.got[0].length, LEAT_STREAM_RX_MIN);
	/*
	 * Feature requests are answered with the same select; only STREAM_SELECT_LEAT has features.
	 */
	for (imm = 0; imm < 3; imm++) {
		static const uint16_t selects[] = { 0, 1, STREAM_SELECT_LEAT };

		m.opcode = STREAM_OP_GET_FEATURES;
		m.select = selects[imm];
		raw_ctrl(&raw, &m);
		raw_until(&raw, raw.nb_got == imm + 2);
		assert_int_equal(raw.got[imm + 1].opcode, STREAM_OP_GET_FEATURES);
		assert_int_equal(raw.got[imm + 1].select, selects[imm]);
		assert_int_equal(raw.got[imm + 1].features,
				 selects[imm] == STREAM_SELECT_LEAT ? STREAM_FEATURE_END : 0);
	}
	/* Unknown features, keepalives, a notice of 0 bytes: no answer. */
	m.opcode = STREAM_OP_SET_FEATURES;
	m.select = 9;
	raw_ctrl(&raw, &m);
	raw_ctrl(&raw, &(struct stream_ctrl){ .opcode = STREAM_OP_KEEPALIVE });
	assert_int_equal(raw_write(&raw, 0, 0, "", 0, 0), 0);
	/* Bytes may arrive before the peer's own window is registered. */
	assert_int_equal(raw_write(&raw, 0, 0, "hello", 5, 5), 0);
	raw_until(&raw, leat_stream_read(pair.s, buf, 5) == 5);
	assert_memory_equal(buf, "hello", 5);
	assert_int_equal(raw.nb_got, 4);
	/*
	 * Two windows of other sizes replace each other; their messages have reserved bytes that
	 * are not 0.
	 */
	assert_int_equal(leat_stream_write(pair.s, "0123456789", 10), 10);
	raw_register(&raw, 1000, 4);
	raw_until(&raw, raw.announced == 4);
	memset(bytes, 0xee, sizeof(bytes));
	m = (struct stream_ctrl){ .opcode = STREAM_OP_MEMORY,
				  .addr = raw.key.addr + 2000,
				  .length = 100,
				  .key = raw.key.key };
	stream_wire_encode(bytes, &m, true);
	memset(bytes + 12, 0xee, 4);
	raw_bytes(&raw, bytes, sizeof(bytes));
	raw_until(&raw, raw.announced == 10);
	assert_memory_equal(raw.window + 1000, "0123", 4);
	assert_memory_equal(raw.window + 2000, "456789", 6);
	bystander(beside);
	raw_close(&raw);
	pair_until((leat_stream_ready(pair.s) & LEAT_STREAM_CLOSED) != 0);
	assert_int_equal(leat_stream_error(pair.s), 0);
}

/*
 * A stream whose peer registers no window, and then posts no receives, can't send; another stream
 * goes on.
 */
static void
test_takes_nothing(void **state)
{
	struct leat_stream *beside = pair.s;
	unsigned int i;

	(void)state;
	raw_open(&raw);
	raw.repost = false;
	raw_until(&raw, pair.nb_accepted == 2);
	assert_int_equal(leat_stream_write(pair.s, "0123456789", 10), 10);
	bystander(beside);
	raw_register(&raw, 0, RAW_WINDOW);
	for (i = 0; i < 1000; i++) {
		(void)leat_stream_write(pair.s, "x", 1);
		raw_turn(&raw);
		pair_turn();
	}
	bystander(beside);
	leat_stream_close(pair.s, 1000);
	raw_until(&raw, raw.down);
	raw_close(&raw);
	bystander(beside);
}

/* ---- mode WINDOWS ---- */

static void
negotiate(uint64_t features)
{
	raw_open(&raw);
	raw_until(&raw, raw_memory(&raw, 1) != NULL);
	raw_ctrl(&raw, &(struct stream_ctrl){ .opcode = STREAM_OP_GET_FEATURES,
					      .select = STREAM_SELECT_LEAT });
	raw_ctrl(&raw, &(struct stream_ctrl){ .opcode = STREAM_OP_SET_FEATURES,
					      .select = STREAM_SELECT_LEAT,
					      .features = features });
}

static uint64_t
notice(uint8_t seq, uint32_t end)
{
	return stream_notice(raw_memory(&raw, 0)->token, seq, end - 1);
}

/*
 * Notices that overtake each other: bytes are readable only when all bytes before them have
 * arrived.
 */
static void
test_overtaking(void **state)
{
	char buf[16];

	(void)state;
	negotiate(STREAM_FEATURE_WINDOWS);
	raw_until(&raw, pair.nb_accepted == 2);
	assert_int_equal(raw_write(&raw, 0, 6, "789", 3, notice(2, 9)), 0);
	assert_int_equal(raw_write(&raw, 0, 3, "456", 3, notice(1, 6)), 0);
	assert_int_equal(leat_stream_read(pair.s, buf, 16), -EAGAIN);
	assert_int_equal(raw_write(&raw, 0, 0, "123", 3, notice(0, 3)), 0);
	raw_until(&raw, (leat_stream_ready(pair.s) & LEAT_STREAM_READABLE) != 0);
	assert_int_equal(leat_stream_read(pair.s, buf, 16), 9);
	assert_memory_equal(buf, "123456789", 9);
	raw_close(&raw);
	pair_until((leat_stream_ready(pair.s) & LEAT_STREAM_CLOSED) != 0);
	assert_int_equal(leat_stream_error(pair.s), 0);
}

static void
seq_twice(void)
{
	(void)raw_write(&raw, 0, 3, "456", 3, notice(1, 6));
	(void)raw_write(&raw, 0, 3, "456", 3, notice(1, 6));
}
static void
seq_old(void)
{
	(void)raw_write(&raw, 0, 0, "456", 3, notice(0, 3));
	(void)raw_write(&raw, 0, 0, "456", 3, notice(0, 3));
}
static void
seq_far(void)
{
	(void)raw_write(&raw, 0, 0, "456", 3, notice(128, 3));
}
static void
offset_back(void)
{
	(void)raw_write(&raw, 0, 0, "456", 3, notice(0, 3));
	(void)raw_write(&raw, 0, 0, "456", 3, notice(1, 3));
}
static void
offset_beyond(void)
{
	(void)raw_write(&raw, 0, 0, "456", 3, notice(0, LEAT_STREAM_RX_MIN / 2 + 1));
}
static void
three_windows(void)
{
	(void)raw_write(&raw, 0, 0, "456", 3, notice(0, LEAT_STREAM_RX_MIN / 2));
	(void)raw_write(&raw, 0, 0, "456", 3, notice(1, LEAT_STREAM_RX_MIN / 2));
	(void)raw_write(&raw, 0, 0, "456", 3, notice(2, 1));
}
static void
registers_three(void)
{
	raw_register(&raw, 0, 1000);
	raw_register(&raw, 1000, 1000);
	raw_register(&raw, 2000, 1000);
}

static const struct offence window_offences[] = {
	{ "a number twice", seq_twice },
	{ "an old number", seq_old },
	{ "a number too far ahead", seq_far },
	{ "an offset that does not grow", offset_back },
	{ "an offset beyond the window", offset_beyond },
	{ "bytes beyond both windows", three_windows },
	{ "three windows of its own", registers_three },
};

static void
test_window_offences(void **state)
{
	struct leat_stream *beside = pair.s;
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(window_offences); i++) {
		print_message("  %s\n", window_offences[i].name);
		negotiate(STREAM_FEATURE_WINDOWS | STREAM_FEATURE_END);
		raw_until(&raw, pair.nb_accepted == i + 2);
		window_offences[i].commit();
		raw_until(&raw, raw.down);
		raw_until(&raw, (leat_stream_ready(pair.s) & LEAT_STREAM_CLOSED) != 0);
		if (leat_stream_error(pair.s) != -EPROTO)
			fail_msg("error %d: %s", leat_stream_error(pair.s),
				 leat_stream_why(pair.s));
		leat_stream_close(pair.s, 0);
		raw_close(&raw);
		bystander(beside);
	}
}

/* Notices with an unknown token, or with that of another stream, are dropped. */
static void
test_tokens(void **state)
{
	struct leat_stream *beside = pair.s;
	unsigned int i;

	(void)state;
	negotiate(STREAM_FEATURE_WINDOWS);
	raw_until(&raw, pair.nb_accepted == 2);
	for (i = 0; i < 64; i++)
		assert_int_equal(raw_write(&raw, 0, 0, "x", 1, stream_notice(i << 16 | i, 0, 0)),
				 0);
	bystander(beside);
	assert_int_equal(leat_stream_ready(pair.s) & LEAT_STREAM_READABLE, 0);
	raw_close(&raw);
}

/* A client that does not choose STREAM_FEATURE_WINDOWS is refused by a server in mode WINDOWS. */
static void
test_no_windows(void **state)
{
	(void)state;
	negotiate(0);
	raw_until(&raw, raw.down);
	raw_close(&raw);
	pair_until((leat_stream_ready(pair.s) & LEAT_STREAM_CLOSED) != 0);
	assert_int_equal(leat_stream_error(pair.s), -EPROTO);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_offences, setup, teardown),
		cmocka_unit_test_setup_teardown(test_odd, setup, teardown),
		cmocka_unit_test_setup_teardown(test_takes_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_overtaking, setup_windows, teardown),
		cmocka_unit_test_setup_teardown(test_window_offences, setup_windows, teardown),
		cmocka_unit_test_setup_teardown(test_tokens, setup_windows, teardown),
		cmocka_unit_test_setup_teardown(test_no_windows, setup_windows, teardown),
	};

	return cmocka_run_group_tests(tests, pair_start, pair_stop);
}
