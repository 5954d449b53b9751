/* SPDX-License-Identifier: BSD-3-Clause */

/* Encoding and decoding of each part of a packet, byte by byte, and what the parsers refuse. */

#include <errno.h>
#include <string.h>

#include "leat_cmocka.h"
#include "leat_rpc_violation.h"
#include "rpc_wire.h"

static void
test_head(void **state)
{
	static const uint8_t bytes[RPC_HEAD_LEN] = { 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
						     0xdd, 0xcc, 0xbb, 0xaa, 0x34, 0x12, 2,    0 };
	const struct rpc_head h = { .token = 0x1122334455667788,
				    .credit = 0xaabbccdd,
				    .epoch = 0x1234,
				    .version = RPC_VERSION };
	uint8_t buf[RPC_HEAD_LEN];
	struct rpc_head back;

	(void)state;
	rpc_head_put(buf, &h);
	assert_memory_equal(buf, bytes, sizeof(bytes));
	assert_int_equal(rpc_head_get(buf, sizeof(buf), &back), 0);
	assert_memory_equal(&back, &h, sizeof(h));
	assert_int_equal(rpc_head_get(buf, sizeof(buf) - 1, &back), LEAT_RPC_TRUNCATED);
	buf[14] = RPC_VERSION + 1;
	assert_int_equal(rpc_head_get(buf, sizeof(buf), &back), LEAT_RPC_BAD_VERSION);
}

/* The numbers after the head of a datagram are encoded as specified, and decoded again. */
static void
test_numbers(void **state)
{
	static const uint8_t bytes[RPC_NUMBERS_LEN] = { 0xdd, 0xcc, 0xbb, 0xaa, 0x44, 0x33,
							0x22, 0x11, 0x08, 0x07, 0x06, 0x05,
							0x04, 0x03, 0x02, 0x01, 0x99, 0x88,
							0x77, 0x66, 0x40, 0x42, 0x0f, 0 };
	const struct rpc_numbers n = { .seq = 0xaabbccdd,
				       .ack = 0x11223344,
				       .sack = 0x0102030405060708,
				       .echo = 0x66778899,
				       .delay = 1000000 };
	uint8_t buf[RPC_HEAD_LEN + RPC_NUMBERS_LEN] = { 0 };
	struct rpc_numbers back;

	(void)state;
	rpc_numbers_put(buf, &n);
	assert_memory_equal(buf + RPC_HEAD_LEN, bytes, sizeof(bytes));
	assert_int_equal(rpc_numbers_get(buf, sizeof(buf), RPC_H_NUMBERED, &back), 0);
	assert_memory_equal(&back, &n, sizeof(n));
	assert_int_equal(rpc_numbers_get(buf, sizeof(buf), RPC_H_PROBE, &back), 0);
	assert_int_equal(rpc_numbers_get(buf, sizeof(buf), RPC_H_ANSWER, &back), 0);
	assert_int_equal(rpc_numbers_get(buf, sizeof(buf) - 1, RPC_H_ANSWER, &back),
			 LEAT_RPC_TRUNCATED);
	assert_int_equal(rpc_numbers_get(buf, sizeof(buf), 3, &back), LEAT_RPC_BAD_FLAGS);
	assert_int_equal(rpc_numbers_get(buf, sizeof(buf), 8, &back), LEAT_RPC_BAD_FLAGS);
	/* A packet that only acknowledges has no number of its own. */
	assert_int_equal(rpc_numbers_get(buf, sizeof(buf), 0, &back), LEAT_RPC_BAD_FLAGS);
	memset(buf + RPC_HEAD_LEN, 0, 4);
	assert_int_equal(rpc_numbers_get(buf, sizeof(buf), 0, &back), 0);
}

static void
test_item(void **state)
{
	static const uint8_t bytes[RPC_ITEM_LEN + 8] = {
		1,    7,    0x02, 0x01, 0xef, 0xcd, 0xab, 0x89, 3, 0, 0, 0,
		0x40, 0x42, 0x0f, 0,	'a',  'b',  'c',  0,	0, 0, 0, 0,
	};
	static const uint8_t abc[] = { 'a', 'b', 'c' };
	const struct rpc_item m = { .kind = RPC_REQUEST,
				    .type = 7,
				    .slot = 0x0102,
				    .num = 0x89abcdef,
				    .size = 3,
				    .len = 3,
				    .aux = 1000000 };
	uint8_t buf[RPC_ITEM_LEN + 8];
	struct rpc_item back;

	(void)state;
	/* No old contents of the buffer are sent before or after the bytes. */
	memset(buf, 0xee, sizeof(buf));
	rpc_item_put(buf, &m);
	memcpy(buf + RPC_ITEM_LEN, abc, sizeof(abc));
	assert_memory_equal(buf, bytes, sizeof(bytes));
	memset(buf, 0xee, sizeof(buf));
	memcpy(buf + RPC_ITEM_LEN, abc, sizeof(abc));
	rpc_item_put(buf, &m);
	assert_memory_equal(buf, bytes, sizeof(bytes));
	assert_int_equal(rpc_item_get(buf, sizeof(buf), &back), 0);
	assert_memory_equal(&back, &m, sizeof(m));
	assert_int_equal(rpc_item_get(buf, sizeof(buf) - 1, &back), LEAT_RPC_TRUNCATED);
	assert_int_equal(rpc_item_get(buf, RPC_ITEM_LEN - 1, &back), LEAT_RPC_TRUNCATED);
	buf[sizeof(buf) - 1] = 1;
	assert_int_equal(rpc_item_get(buf, sizeof(buf), &back), LEAT_RPC_BAD_FLAGS);
}

/* The item of a piece of a longer message is encoded as specified, and decoded again. */
static void
test_piece(void **state)
{
	static const uint8_t bytes[RPC_PIECE_LEN + 8] = {
		0x82, 7, 0x02, 0x01, 0xef, 0xcd, 0xab, 0x89, 3,	  0,   0,   0, 0, 0, 0, 0,
		0,    1, 2,    0,    0x78, 0x56, 1,    0,    'a', 'b', 'c', 0, 0, 0, 0, 0,
	};
	const struct rpc_item m = { .kind = RPC_RESPONSE,
				    .type = 7,
				    .slot = 0x0102,
				    .num = 0x89abcdef,
				    .size = 0x20100,
				    .off = 0x15678,
				    .len = 3 };
	uint8_t buf[RPC_PIECE_LEN + 8];
	struct rpc_item back;

	(void)state;
	memset(buf, 0xee, sizeof(buf));
	memcpy(buf + rpc_item_head_len(&m), &bytes[RPC_PIECE_LEN], m.len);
	rpc_item_put(buf, &m);
	assert_memory_equal(buf, bytes, sizeof(bytes));
	assert_int_equal(rpc_item_full_len(&m), sizeof(bytes));
	assert_int_equal(rpc_item_get(buf, sizeof(buf), &back), 0);
	assert_memory_equal(&back, &m, sizeof(m));
	assert_int_equal(rpc_item_get(buf, sizeof(buf) - 1, &back), LEAT_RPC_TRUNCATED);
	assert_int_equal(rpc_item_get(buf, RPC_PIECE_LEN - 1, &back), LEAT_RPC_TRUNCATED);
	/*
	 * A piece that is the whole message is refused: a whole message has an item of its own
	 * form.
	 */
	memset(buf + 16, 0, 8);
	buf[16] = 3;
	assert_int_equal(rpc_item_get(buf, sizeof(buf), &back), LEAT_RPC_BAD_PIECE);
}

static void
test_item_refused(void **state)
{
	static const struct {
		struct rpc_item m;
		int bad;
	} cases[] = {
		{ { .kind = 0 }, LEAT_RPC_BAD_KIND },
		{ { .kind = 5 }, LEAT_RPC_BAD_KIND },
		{ { .kind = RPC_REQUEST, .flags = 2 }, LEAT_RPC_BAD_FLAGS },
		{ { .kind = RPC_REQUEST, .flags = 5 }, LEAT_RPC_BAD_FLAGS },
		{ { .kind = RPC_REQUEST, .flags = 12 }, LEAT_RPC_BAD_FLAGS },
		{ { .kind = RPC_REQUEST, .flags = 16 }, LEAT_RPC_BAD_FLAGS },
		{ { .kind = RPC_REQUEST, .flags = 4, .size = 16, .len = 8 }, LEAT_RPC_BAD_FLAGS },
		{ { .kind = RPC_REQUEST, .flags = 8, .size = 16, .len = 8 }, LEAT_RPC_BAD_FLAGS },
		{ { .kind = RPC_REQUEST, .slot = RPC_NO_SLOT, .flags = 8 }, LEAT_RPC_BAD_SLOT },
		{ { .kind = RPC_REQUEST, .slot = RPC_NO_SLOT }, LEAT_RPC_BAD_SLOT },
		{ { .kind = RPC_REQUEST, .slot = RPC_NO_SLOT, .flags = 1, .num = 1 },
		  LEAT_RPC_BAD_SLOT },
		{ { .kind = RPC_REQUEST, .slot = RPC_NO_SLOT, .flags = 1, .size = 16, .len = 8 },
		  LEAT_RPC_BAD_SLOT },
		{ { .kind = RPC_REQUEST, .size = 8, .len = 16 }, LEAT_RPC_BAD_PIECE },
		{ { .kind = RPC_REQUEST, .size = 16, .off = 17, .len = 8 }, LEAT_RPC_BAD_PIECE },
		{ { .kind = RPC_REQUEST, .size = 16, .off = 9, .len = 8 }, LEAT_RPC_BAD_PIECE },
		{ { .kind = RPC_REQUEST, .size = 16, .off = UINT32_MAX, .len = 8 },
		  LEAT_RPC_BAD_PIECE },
		{ { .kind = RPC_REQUEST, .size = 16, .len = 0 }, LEAT_RPC_BAD_PIECE },
		{ { .kind = RPC_RESPONSE, .flags = 1 }, LEAT_RPC_BAD_FLAGS },
		{ { .kind = RPC_RESPONSE, .flags = 2 }, LEAT_RPC_BAD_STATUS },
		{ { .kind = RPC_RESPONSE, .aux = 4096 }, LEAT_RPC_BAD_STATUS },
		{ { .kind = RPC_RESPONSE, .aux = 5, .size = 16, .len = 8 }, LEAT_RPC_BAD_PIECE },
		{ { .kind = RPC_CANCEL, .type = 1 }, LEAT_RPC_BAD_FLAGS },
		{ { .kind = RPC_CANCEL, .aux = 1 }, LEAT_RPC_BAD_FLAGS },
		{ { .kind = RPC_CANCEL, .size = 8 }, LEAT_RPC_BAD_FLAGS },
		{ { .kind = RPC_END, .aux = 4096 }, LEAT_RPC_BAD_STATUS },
		{ { .kind = RPC_END }, 0 },
		{ { .kind = RPC_END, .aux = 5, .slot = 1 }, LEAT_RPC_BAD_FLAGS },
		{ { .kind = RPC_REQUEST, .size = UINT32_MAX, .off = 100, .len = 8 }, 0 },
		{ { .kind = RPC_REQUEST, .slot = RPC_NO_SLOT, .flags = 1 }, 0 },
		{ { .kind = RPC_RESPONSE, .aux = 5, .flags = 2 }, 0 },
		{ { .kind = RPC_CANCEL, .slot = 3, .num = 9 }, 0 },
		{ { .kind = RPC_END, .aux = EPROTO }, 0 },
	};
	uint8_t buf[RPC_PIECE_LEN + 16];
	struct rpc_item back;
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(buf, 0, sizeof(buf));
		rpc_item_put(buf, &cases[i].m);
		if (rpc_item_get(buf, sizeof(buf), &back) != cases[i].bad)
			fail_msg("case %u is not %d", i, cases[i].bad);
	}
}

static void
test_descriptors(void **state)
{
	static const uint8_t bytes[RPC_BULK_HEAD_LEN + 2 * RPC_BULK_DESC_LEN] = {
		2, 0, 0, 0, 0,	  0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0x10, 0, 0, 0, 0, 0, 0,
		9, 0, 0, 0, 0x80, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0,    0, 0, 0, 0, 0, 0,
		1, 0, 0, 0, 0,	  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0,    0, 0, 0, 0, 0, 0,
	};
	const struct rpc_desc d[2] = { { 0x0102030405060708, 4096, 0x8000000009, 5 },
				       { 0, 1, 0, 2 } };
	uint8_t buf[sizeof(bytes)];
	struct rpc_desc back[LEAT_RPC_BULK_MAX];

	(void)state;
	memset(buf, 0xee, sizeof(buf));
	rpc_descs_put(buf, d, 2);
	assert_memory_equal(buf, bytes, sizeof(bytes));
	assert_int_equal(rpc_bulk_len(2), sizeof(bytes));
	assert_int_equal(rpc_descs_get(buf, sizeof(buf), back), 2);
	assert_memory_equal(&back[0].addr, &d[0].addr, 24);
	assert_int_equal(back[1].access, 2);
	assert_int_equal(rpc_descs_get(buf, sizeof(buf) - 1, back), -1);
}

static void
test_bulk_message(void **state)
{
	static const uint8_t bytes[RPC_BULK_MSG_LEN] = { 2, 1, 3, 0, 0xef, 0xcd, 0xab, 0x89,
							 8, 7, 6, 5, 4,	   3,	 2,    1,
							 5, 0, 0, 0, 0,	   0,	 0,    0 };
	const struct rpc_bulk_msg m = {
		.slot = 0x0102, .index = 3, .num = 0x89abcdef, .off = 0x0102030405060708, .len = 5
	};
	uint8_t buf[RPC_BULK_MSG_LEN];
	struct rpc_bulk_msg back;

	(void)state;
	memset(buf, 0xee, sizeof(buf));
	rpc_bulk_msg_put(buf, &m);
	assert_memory_equal(buf, bytes, sizeof(bytes));
	assert_int_equal(rpc_bulk_msg_get(buf, sizeof(buf), &back), 0);
	assert_int_equal(back.slot, m.slot);
	assert_int_equal(back.index, m.index);
	assert_int_equal(back.num, m.num);
	assert_int_equal(back.off, m.off);
	assert_int_equal(back.len, m.len);
	assert_int_equal(rpc_bulk_msg_get(buf, sizeof(buf) - 1, &back), LEAT_RPC_BAD_BULK);
	buf[23] = 1;
	assert_int_equal(rpc_bulk_msg_get(buf, sizeof(buf), &back), LEAT_RPC_BAD_BULK);
}

static void
test_hello(void **state)
{
	static const uint8_t bytes[RPC_HELLO_LEN] = {
		'L',  'R',  'P', 'C',  2,    0,	   32,	 0,    3,    0,	   0,
		0,    0,    0,	 0,    0,    0x88, 0x77, 0x66, 0x55, 0x44, 0x33,
		0x22, 0x11, 64,	 0,    0,    0,	   0,	 0x10, 0,    0,	   0,
		0,    0x80, 0,	 0x34, 0x12, 0,	   0,	 0x38, 0xff, 0xff, 0xff,
	};
	const struct rpc_hello h = { .version = RPC_VERSION,
				     .slots = 32,
				     .features = RPC_FEATURES,
				     .token = 0x1122334455667788,
				     .credits = 64,
				     .packet = 4096,
				     .max_msg = 8 << 20,
				     .epoch = 0x1234,
				     .first = 0xffffff38 };
	uint8_t buf[RPC_HELLO_LEN];
	struct rpc_hello back;

	(void)state;
	rpc_hello_put(buf, &h);
	assert_memory_equal(buf, bytes, sizeof(bytes));
	assert_null(rpc_hello_get(buf, sizeof(buf), &back));
	memset(buf, 0, sizeof(buf));
	rpc_hello_put(buf, &back);
	assert_memory_equal(buf, bytes, sizeof(bytes));
	assert_non_null(rpc_hello_get(buf, sizeof(buf) - 1, &back));
}

static void
test_hello_refused(void **state)
{
	/* offset, value: each is one byte whose change makes a valid hello invalid */
	static const uint8_t changes[][2] = {
		{ 0, 'l' }, { 4, 3 },  { 5, 9 },  { 6, 0 },  { 7, 0x80 },
		{ 24, 2 },  { 26, 1 }, { 29, 0 }, { 31, 1 }, { 38, 1 },
	};
	struct rpc_hello h = { .version = RPC_VERSION, .slots = 32, .credits = 64, .packet = 4096 },
			 back;
	uint8_t buf[RPC_HELLO_LEN];
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		rpc_hello_put(buf, &h);
		buf[changes[i][0]] = changes[i][1];
		if (rpc_hello_get(buf, sizeof(buf), &back) == NULL)
			fail_msg("change %u is taken", i);
	}
	/* A hello that refuses may have 0 in its other numbers. */
	h = (struct rpc_hello){ .version = RPC_VERSION, .refused = RPC_REFUSED_SESSIONS };
	rpc_hello_put(buf, &h);
	assert_null(rpc_hello_get(buf, sizeof(buf), &back));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_head),	      cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_item),	      cmocka_unit_test(test_piece),
		cmocka_unit_test(test_item_refused),  cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_bulk_message),  cmocka_unit_test(test_hello),
		cmocka_unit_test(test_hello_refused),
	};

	return cmocka_run_group_tests_name("rpc-wire", tests, NULL, NULL);
}
