/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Bytes arrive as they were written, whatever the sizes, in both modes, also over a device that
 * reorders.
 */

#include <errno.h>
#include <string.h>

#include "stream_pair.h"

#define KIND_COMPAT ((void *)0)
#define KIND_WINDOWS ((void *)1)
#define KIND_FAULT ((void *)2)
#define KIND_TCP ((void *)3)

static int
setup(void **state)
{
	const uintptr_t kind = (uintptr_t)*state;

	if (kind == (uintptr_t)KIND_WINDOWS)
		pair_conf.mode = pair_server_conf.mode = LEAT_STREAM_MODE_WINDOWS;
	if (kind == (uintptr_t)KIND_FAULT)
		pair_dev = PAIR_FAULT;
	if (kind == (uintptr_t)KIND_TCP)
		pair_dev = PAIR_TCP;
	pair_conf.rx_size = pair_server_conf.rx_size = LEAT_STREAM_RX_MIN;
	pair_conf.tx_size = pair_server_conf.tx_size = LEAT_STREAM_TX_MIN;
	pair_open();
	pair_connect();
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	pair_close();
	return 0;
}

/*
 * Pass `total` bytes in one direction: written in pieces of `piece` bytes, read in pieces of
 * `bite`.
 */
static void
one_way(struct leat_stream *from, struct leat_stream *to, size_t piece, size_t bite, uint64_t total)
{
	uint64_t out = 0, in = 0;
	uint64_t turns = 0;

	while (in < total) {
		pair_write(from, &out, RTE_MIN(piece, total - out));
		pair_turn();
		(void)pair_read(to, &in, bite);
		assert_true(pair_patience(&turns));
	}
	assert_int_equal(out, in);
}

static void
test_sizes(void **state)
{
	static const size_t pieces[] = { 1, 7, 64, 4095, 4096, 16384, 65535, 65536, 65537 };
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(pieces); i++) {
		one_way(pair.c, pair.s, pieces[i], SIZE_MAX, pieces[i] * 50);
		one_way(pair.s, pair.c, pieces[i], SIZE_MAX, pieces[i] * 50);
	}
	one_way(pair.c, pair.s, 4096, 1, 3 * LEAT_STREAM_RX_MIN);
}

/* All bytes arrive if they are exactly as many as the window holds, one fewer or one more. */
static void
test_window_end(void **state)
{
	int d;

	(void)state;
	for (d = -1; d <= 1; d++) {
		const uint64_t n = (uint64_t)(LEAT_STREAM_RX_MIN + d);
		uint64_t out = 0, in = 0;

		pair_until((pair_write(pair.c, &out, n - out), pair_read(pair.s, &in, SIZE_MAX),
			    in == n));
		assert_int_equal(leat_stream_ready(pair.s) & LEAT_STREAM_READABLE, 0);
	}
}

/* Both directions are full before anything is read; then all bytes pass. */
static void
test_both_full(void **state)
{
	uint64_t out[2] = { 0, 0 }, in[2] = { 0, 0 };
	const uint64_t total = 20 * LEAT_STREAM_RX_MIN;
	unsigned int i;
	uint64_t turns = 0;

	(void)state;
	/* Fill the window and the send buffer of each side. */
	for (i = 0; i < 20000; i++) {
		pair_write(pair.c, &out[0], 10000);
		pair_write(pair.s, &out[1], 10000);
		pair_turn();
	}
	assert_int_equal(out[0], LEAT_STREAM_RX_MIN + LEAT_STREAM_TX_MIN);
	assert_int_equal(out[1], LEAT_STREAM_RX_MIN + LEAT_STREAM_TX_MIN);
	assert_int_equal(leat_stream_ready(pair.c) & LEAT_STREAM_WRITABLE, 0);
	while (in[0] < total || in[1] < total) {
		(void)pair_read(pair.s, &in[0], 3000);
		(void)pair_read(pair.c, &in[1], 5000);
		pair_write(pair.c, &out[0], RTE_MIN(UINT64_C(10000), total - out[0]));
		pair_write(pair.s, &out[1], RTE_MIN(UINT64_C(10000), total - out[1]));
		pair_turn();
		assert_true(pair_patience(&turns));
	}
}

/* Half-close: one direction ends, the other goes on. */
static void
test_half_close(void **state)
{
	uint64_t out = 0, in = 0;
	const void *data;

	(void)state;
	pair_write(pair.c, &out, 10000);
	pair_until(leat_stream_shutdown(pair.c) == 0);
	assert_int_equal(leat_stream_shutdown(pair.c), -EALREADY);
	assert_int_equal(leat_stream_write(pair.c, "x", 1), -EPIPE);
	pair_until((pair_read(pair.s, &in, 10000 - in), in == 10000));
	pair_until(leat_stream_borrow(pair.s, &data) == 0);
	out = in = 0;
	one_way(pair.s, pair.c, 5000, SIZE_MAX, 300000);
	assert_int_equal(leat_stream_shutdown(pair.s), 0);
	pair_until(leat_stream_borrow(pair.c, &data) == 0);
}

/* Bytes written before a close are read after it. */
static void
test_close_drains(void **state)
{
	uint64_t out = 0, in = 0;
	const void *data;

	(void)state;
	pair_until((pair_write(pair.c, &out, 40000 - out), out == 40000));
	leat_stream_close(pair.c, 10000000);
	pair_until((leat_stream_ready(pair.s) & LEAT_STREAM_CLOSED) != 0);
	assert_int_equal(pair_read(pair.s, &in, 40000), 40000);
	assert_int_equal(leat_stream_borrow(pair.s, &data), 0);
	assert_int_equal(leat_stream_error(pair.s), 0);
	assert_int_equal(leat_stream_write(pair.s, "x", 1), -EPIPE);
	leat_stream_close(pair.s, 0);
}

static unsigned int nb_done;

static void
out_done(struct leat_stream_out *out, int status)
{
	(void)out;
	assert_int_equal(status, 0);
	nb_done++;
}

/* Bytes that are sent without a copy arrive in order between copied ones. */
static void
test_send(void **state)
{
	static uint8_t buf[200000];
	const uint64_t total = 5000 + sizeof(buf) + 3000;
	struct leat_stream_out o = { .buf = buf, .len = sizeof(buf), .done = out_done };
	struct leat_mr *mr =
		leat_mr_register(leat_stream_net_ep(pair.client), buf, sizeof(buf), LEAT_MR_LOCAL);
	uint64_t out = 0, in = 0;
	size_t i;

	(void)state;
	assert_non_null(mr);
	o.mr = mr;
	nb_done = 0;
	for (i = 0; i < sizeof(buf); i++)
		buf[i] = pair_byte(5000 + i);
	pair_write(pair.c, &out, 5000);
	assert_int_equal(leat_stream_send(pair.c, &o), 0);
	out += sizeof(buf);
	pair_write(pair.c, &out, 3000);
	pair_until((pair_read(pair.s, &in, total - in), in == total));
	pair_until(nb_done == 1);
	assert_int_equal(leat_mr_deregister(mr), 0);
}

#define MANY 10

/* Streams between the same two endpoints each get their own bytes. */
static void
test_many(void **state)
{
	struct leat_stream *c[MANY], *s[MANY];
	uint64_t out[MANY] = { 0 }, in[MANY] = { 0 };
	const uint64_t total = 5 * LEAT_STREAM_RX_MIN;
	uint64_t turns = 0;
	unsigned int i, nb_through = 0;

	(void)state;
	for (i = 0; i < MANY; i++) {
		pair_connect();
		c[i] = pair.c;
		s[i] = pair.s;
		/* Each stream begins at a different position, so that its bytes differ. */
		out[i] = in[i] = i * UINT64_C(1000003);
	}
	while (nb_through < MANY) {
		for (i = nb_through = 0; i < MANY; i++) {
			const uint64_t end = i * UINT64_C(1000003) + total;

			pair_write(c[i], &out[i], RTE_MIN(end - out[i], UINT64_C(1000) * (i + 1)));
			(void)pair_read(s[i], &in[i], SIZE_MAX);
			nb_through += in[i] == end;
		}
		pair_turn();
		assert_true(pair_patience(&turns));
	}
	/* The end of one stream does not end another. */
	leat_stream_abort(c[3]);
	pair_until((leat_stream_ready(s[3]) & LEAT_STREAM_CLOSED) != 0);
	out[4] = in[4] = 0;
	pair_until((pair_write(c[4], &out[4], total - out[4]), pair_read(s[4], &in[4], SIZE_MAX),
		    in[4] == total));
}

#define over_tcp(f)                                                                                \
	{                                                                                          \
#f ", tcp", f, setup, teardown, KIND_TCP                                           \
	}
#define all_kinds(f)                                                                               \
	{ #f ", compat", f, setup, teardown, KIND_COMPAT },                                        \
		{ #f ", windows", f, setup, teardown, KIND_WINDOWS },                              \
	{                                                                                          \
#f ", fault", f, setup, teardown, KIND_FAULT                                       \
	}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		all_kinds(test_sizes),	    all_kinds(test_window_end),	  all_kinds(test_both_full),
		all_kinds(test_half_close), all_kinds(test_close_drains), all_kinds(test_send),
		all_kinds(test_many),
	};

	const struct CMUnitTest tcp[] = {
		over_tcp(test_sizes),	   over_tcp(test_window_end),	over_tcp(test_both_full),
		over_tcp(test_half_close), over_tcp(test_close_drains), over_tcp(test_send),
		over_tcp(test_many),
	};

	if (&pair_tcp_vdev != NULL)
		return cmocka_run_group_tests(tcp, pair_start, pair_stop);
	return cmocka_run_group_tests(tests, pair_start, pair_stop);
}
