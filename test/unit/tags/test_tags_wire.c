/* SPDX-License-Identifier: BSD-3-Clause */

/* The tag layer's formats, byte by byte, as doc/guide/tags.md has them. */

#include "leat_cmocka.h"
#include "tags_wire.h"

static void
test_header(void **state)
{
	static const uint8_t want[TAGS_HDR_LEN] = {
		2,    1,    0x34, 0x12,			     /* FIRST, tagged; seq */
		1,    0,    2,	  0,	3,    0,    0,	  0, /* done */
		0x78, 0x56, 0x34, 0x12,			     /* id */
		8,    7,    6,	  5,	4,    3,    2,	  1, /* tag */
		0,    0,    1,	  0,	0,    0,    0,	  0, /* total */
		0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 1, /* token */
	};
	const struct tags_hdr h = { .kind = TAGS_FIRST,
				    .flags = TAGS_F_TAGGED,
				    .seq = 0x1234,
				    .done = { 1, 2, 3 },
				    .id = 0x12345678,
				    .tag = UINT64_C(0x0102030405060708),
				    .total = 65536,
				    .token = UINT64_C(0x0123456789abcdef) };
	uint8_t got[TAGS_HDR_LEN];

	(void)state;
	tags_hdr_build(got, &h);
	assert_memory_equal(got, want, sizeof(want));
}

/* An immediate comes after the header, and only with its flag. */
static void
test_immediate(void **state)
{
	static const uint8_t want[8] = { 8, 7, 6, 5, 4, 3, 2, 1 };
	struct tags_hdr h = { .kind = TAGS_EAGER,
			      .flags = TAGS_F_IMM,
			      .imm = UINT64_C(0x0102030405060708),
			      .total = 1 },
			in;
	uint8_t buf[TAGS_HDR_MAX + 1] = { 0 };

	(void)state;
	tags_hdr_build(buf, &h);
	assert_memory_equal(buf + TAGS_HDR_LEN, want, 8);
	assert_null(tags_hdr_parse(buf, sizeof(buf), &in));
	assert_int_equal(in.imm, h.imm);
	assert_non_null(tags_hdr_parse(buf, TAGS_HDR_MAX, &in));
	assert_non_null(tags_hdr_parse(buf, TAGS_HDR_MAX - 1, &in));
	assert_non_null(tags_hdr_parse(buf, TAGS_HDR_LEN, &in));
	buf[1] = 0;
	assert_non_null(tags_hdr_parse(buf, sizeof(buf), &in));
	assert_null(tags_hdr_parse(buf, TAGS_HDR_LEN + 1, &in));
	assert_int_equal(in.imm, 0);
}

static void
test_hello(void **state)
{
	static const uint8_t want[TAGS_HELLO_LEN] = { 'l', 't',	 'a', 'g', 3, 9, 16, 15, 4, 0,
						      0,   0x10, 8,   7,   6, 5, 4,  3,	 2, 1 };
	const struct tags_hello h = { .window = { 16, 15, 4 },
				      .priv_len = 9,
				      .segment = 4096,
				      .token = UINT64_C(0x0102030405060708) };
	uint8_t got[TAGS_HELLO_LEN];

	(void)state;
	tags_hello_build(got, &h);
	assert_memory_equal(got, want, sizeof(want));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_header),
		cmocka_unit_test(test_immediate),
		cmocka_unit_test(test_hello),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
