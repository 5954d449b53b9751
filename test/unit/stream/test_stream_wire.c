/* SPDX-License-Identifier: BSD-3-Clause */

/* The control messages, byte by byte, and the immediates of notices. */

#include <string.h>

#include <stream_wire.h>

#include "leat_cmocka.h"

struct sample {
	struct stream_ctrl m;
	bool wide;
	uint8_t bytes[STREAM_CTRL_LEN];
};

static const struct sample samples[] = {
	{ { .opcode = STREAM_OP_GET_FEATURES, .select = 0x0102, .features = 0x1122334455667788 },
	  false,
	  { 0, 0, 1, 2, 0, 0, 0, 0, 0,	  0,	0,    0,    0,	  0,	0,    0,
	    0, 0, 0, 0, 0, 0, 0, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88 } },
	{ { .opcode = STREAM_OP_SET_FEATURES, .select = 0xffff, .features = 3 },
	  false,
	  { 0, 1, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	    0, 0, 0,	0,    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3 } },
	{ { .opcode = STREAM_OP_KEEPALIVE }, false, { 0, 2 } },
	{ { .opcode = STREAM_OP_MEMORY,
	    .addr = 0x0102030405060708,
	    .length = 0x00100000,
	    .key = 0xa1b2c3d4 },
	  false,
	  { 0, 3, 0, 0, 0, 0, 0, 0, 0,	  0,	0,    0,    0,	  0,	0,    0,
	    1, 2, 3, 4, 5, 6, 7, 8, 0x00, 0x10, 0x00, 0x00, 0xa1, 0xb2, 0xc3, 0xd4 } },
	{ { .opcode = STREAM_OP_MEMORY,
	    .addr = 0x0102030405060708,
	    .length = 0x00100000,
	    .key = 0x99887766a1b2c3d4,
	    .token = 0x55aa0017 },
	  true,
	  { 0, 3, 0, 0, 0x55, 0xaa, 0x00, 0x17, 0x99, 0x88, 0x77, 0x66, 0,    0,    0,	  0,
	    1, 2, 3, 4, 5,    6,    7,	  8,	0x00, 0x10, 0x00, 0x00, 0xa1, 0xb2, 0xc3, 0xd4 } },
	{ { .opcode = STREAM_OP_END, .total = 0x0000000123456789 },
	  false,
	  { 0xff, [19] = 1, 0x23, 0x45, 0x67, 0x89 } },
};

static void
test_bytes(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		const struct sample *s = &samples[i];
		uint8_t bytes[STREAM_CTRL_LEN];
		struct stream_ctrl m;

		memset(bytes, 0xee, sizeof(bytes));
		stream_wire_encode(bytes, &s->m, s->wide);
		assert_memory_equal(bytes, s->bytes, sizeof(bytes));
		stream_wire_decode(&m, s->bytes, s->wide);
		assert_memory_equal(&m, &s->m, sizeof(m));
	}
}

/* Reserved bytes of a foreign peer are ignored. */
static void
test_reserved(void **state)
{
	uint8_t bytes[STREAM_CTRL_LEN];
	struct stream_ctrl m;

	(void)state;
	memset(bytes, 0xee, sizeof(bytes));
	memcpy(bytes, samples[3].bytes, 2);
	memcpy(bytes + 16, samples[3].bytes + 16, 16);
	stream_wire_decode(&m, bytes, false);
	assert_memory_equal(&m, &samples[3].m, sizeof(m));
	memset(bytes, 0xee, sizeof(bytes));
	memcpy(bytes, samples[2].bytes, 2);
	stream_wire_decode(&m, bytes, false);
	assert_memory_equal(&m, &samples[2].m, sizeof(m));
}

static void
test_notices(void **state)
{
	uint64_t imm = stream_notice(0xdeadbeef, 0xa5, (1u << 24) - 1);

	(void)state;
	assert_true(imm == 0xdeadbeefa5ffffff);
	assert_int_equal(stream_notice_token(imm), 0xdeadbeef);
	assert_int_equal(stream_notice_seq(imm), 0xa5);
	assert_int_equal(stream_notice_end(imm), 1u << 24);
	assert_int_equal(stream_notice_end(stream_notice(0, 0, 0)), 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_reserved),
		cmocka_unit_test(test_notices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
