/* SPDX-License-Identifier: BSD-3-Clause */

/* Records, byte by byte; and lists of ranks as text. */

#include "rendezvous_test.h"

#include "rendezvous_pvt.h"

static const uint8_t state[] = {
	2, 0,					   /* keys */
	4, 0, 3, 0, 'a', 'd', 'd', 'r', 0, 1, 255, /* addr: 00 01 ff */
	1, 0, 0, 0, 'x',			   /* x: empty */
};

static void
test_rank_bytes(void **unused)
{
	const struct record rec = {
		.kind = RECORD_RANK,
		.session = UINT64_C(0x1112131415161718),
		.nonce = UINT64_C(0x2122232425262728),
		.round = 3,
		.state_round = 2,
		.rank = 5,
		.size = 258,
		.flags = RECORD_STATE,
		.pid = 0x01020304,
		.host = "node7",
		.state = state,
		.state_len = sizeof(state),
	};
	static const uint8_t expect[64 + 8] = {
		'L',  'R',  'D',  'V',	1,    0,    1,	  0,	0x18, 0x17, 0x16, 0x15,
		0x14, 0x13, 0x12, 0x11, 0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21,
		3,    0,    0,	  0,	0,    0,    0,	  0,	2,    0,    0,	  0,
		0,    0,    0,	  0,	5,    0,    0,	  0,	2,    1,    0,	  0,
		2,    0,    0,	  0,	4,    3,    2,	  1,	18,   0,    0,	  0,
		0,    0,    0,	  0,	'n',  'o',  'd',  'e',	'7',  0,    0,	  0,
	};
	uint8_t buf[256];
	struct record back;
	const char *why;
	uint32_t at = 0;
	struct record_value v;

	(void)unused;
	assert_int_equal(sizeof(state), 18);
	assert_int_equal(record_build(buf, &rec), 128 + 18);
	assert_memory_equal(buf, expect, sizeof(expect));
	assert_memory_equal(buf + 128, state, sizeof(state));
	assert_int_equal(record_parse(buf, 128 + 18, &back, &why), 0);
	assert_int_equal(back.session, rec.session);
	assert_int_equal(back.nonce, rec.nonce);
	assert_int_equal(back.round, 3);
	assert_int_equal(back.state_round, 2);
	assert_int_equal(back.rank, 5);
	assert_int_equal(back.size, 258);
	assert_int_equal(back.pid, 0x01020304);
	assert_string_equal(back.host, "node7");

	assert_true(record_state_next(back.state, back.state_len, &at, &v));
	assert_int_equal(v.key_len, 4);
	assert_memory_equal(v.key, "addr", 4);
	assert_int_equal(v.len, 3);
	assert_memory_equal(v.data, "\0\1\377", 3);
	assert_true(record_state_next(back.state, back.state_len, &at, &v));
	assert_int_equal(v.key_len, 1);
	assert_int_equal(v.len, 0);
	assert_false(record_state_next(back.state, back.state_len, &at, &v));
}

static void
test_session_bytes(void **unused)
{
	const uint8_t nonces[16] = { 7, 0, 0, 0, 0, 0, 0, 0, 9 };
	const struct record rec = {
		.kind = RECORD_SESSION,
		.session = 7,
		.nonce = 7,
		.size = 2,
		.flags = RECORD_REFUSED,
		.nonces = nonces,
		.text = "no",
		.text_len = 2,
	};
	struct record back;
	uint8_t buf[256];
	const char *why;
	size_t len = record_build(buf, &rec);

	(void)unused;
	assert_int_equal(len, 128 + 16 + 2);
	assert_int_equal(record_parse(buf, len, &back, &why), 0);
	assert_int_equal(record_nonce(&back, 0), 7);
	assert_int_equal(record_nonce(&back, 1), 9);
	assert_int_equal(back.text_len, 2);
	assert_memory_equal(back.text, "no", 2);
}

/* Build a valid record of a rank, to be damaged. */
static size_t
valid(uint8_t *buf)
{
	const struct record rec = {
		.kind = RECORD_RANK,
		.round = 1,
		.state_round = 1,
		.rank = 1,
		.size = 2,
		.flags = RECORD_STATE,
		.host = "h",
		.state = state,
		.state_len = sizeof(state),
	};

	return record_build(buf, &rec);
}

static void
test_every_length(void **unused)
{
	uint8_t buf[256] = { 0 };
	size_t len = valid(buf), i;
	struct record rec;
	const char *why;

	(void)unused;
	for (i = 0; i <= len + 8; i++)
		assert_int_equal(record_parse(buf, i, &rec, &why), i == len ? 0 : -EPROTO);
}

static void
test_spoiled(void **unused)
{
	/* The byte at `at` gets `value`, which makes the record invalid. */
	static const struct {
		size_t at;
		uint8_t value;
	} bad[] = {
		{ 0, 'l' },   /* magic */
		{ 4, 2 },     /* version */
		{ 6, 3 },     /* kind */
		{ 32, 2 },    /* values of a later round */
		{ 40, 2 },    /* rank 2 of 2 */
		{ 44, 0 },    /* no size */
		{ 46, 1 },    /* size 65538 */
		{ 48, 4 },    /* flags */
		{ 48, 0 },    /* values without their flag */
		{ 56, 17 },   /* length: shorter than the record */
		{ 60, 1 },    /* reserved */
		{ 64, 7 },    /* host: not printable */
		{ 66, 'x' },  /* host: bytes after its end */
		{ 127, 1 },   /* host: no end */
		{ 128, 1 },   /* one key, with more bytes after it */
		{ 128, 3 },   /* three keys, of which two are there */
		{ 128, 17 },  /* more keys than possible */
		{ 129, 1 },   /* 258 keys */
		{ 130, 0 },   /* empty key */
		{ 130, 32 },  /* key too long */
		{ 131, 1 },   /* reserved */
		{ 132, 200 }, /* longer than the rest of the record */
		{ 133, 17 },  /* longer than permitted */
		{ 134, '/' }, /* not a key */
		{ 134, 0 },
	};
	uint8_t buf[256];
	struct record rec;
	const char *why;
	size_t len, i;

	(void)unused;
	for (i = 0; i < RTE_DIM(bad); i++) {
		len = valid(buf);
		assert_int_not_equal(buf[bad[i].at], bad[i].value);
		buf[bad[i].at] = bad[i].value;
		why = NULL;
		if (record_parse(buf, len, &rec, &why) != -EPROTO)
			fail_msg("case %zu was taken", i);
		assert_non_null(why);
	}
}

static void
test_twice_a_key(void **unused)
{
	const struct record_value v[] = {
		{ .key = "k", .key_len = 1, .data = (const uint8_t *)"a", .len = 1 },
		{ .key = "k", .key_len = 1, .data = (const uint8_t *)"b", .len = 1 },
	};
	uint8_t twice[64], buf[256];
	struct record rec = { .kind = RECORD_RANK,
			      .size = 1,
			      .flags = RECORD_STATE,
			      .state = twice,
			      .state_len = record_state_build(twice, v, 2) };
	const char *why;

	(void)unused;
	assert_int_equal(record_parse(buf, record_build(buf, &rec), &rec, &why), -EPROTO);
}

static void
test_largest(void **unused)
{
	static uint8_t data[LEAT_RENDEZVOUS_VALUE_MAX], big[RECORD_STATE_MAX];
	static uint8_t buf[RECORD_RANK_MAX];
	struct record_value v[LEAT_RENDEZVOUS_KEYS_MAX];
	char keys[LEAT_RENDEZVOUS_KEYS_MAX][LEAT_RENDEZVOUS_KEY_MAX];
	struct record rec = { .kind = RECORD_RANK,
			      .size = LEAT_RENDEZVOUS_RANKS_MAX,
			      .rank = LEAT_RENDEZVOUS_RANKS_MAX - 1,
			      .flags = RECORD_STATE,
			      .state = big };
	const char *why;
	unsigned int i;

	(void)unused;
	for (i = 0; i < LEAT_RENDEZVOUS_KEYS_MAX; i++) {
		memset(keys[i], 'a' + (int)i, sizeof(keys[i]));
		v[i] = (struct record_value){ .key = keys[i],
					      .key_len = LEAT_RENDEZVOUS_KEY_MAX - 1,
					      .data = data,
					      .len = sizeof(data) };
	}
	rec.state_len = record_state_build(big, v, LEAT_RENDEZVOUS_KEYS_MAX);
	assert_int_equal(rec.state_len, RECORD_STATE_MAX);
	assert_int_equal(record_build(buf, &rec), RECORD_RANK_MAX);
	assert_int_equal(record_parse(buf, RECORD_RANK_MAX, &rec, &why), 0);
}

/* ---- lists of ranks as text ---- */

static bool
in_set(const void *arg, uint32_t rank)
{
	const char *set = arg;

	return set[rank] == 'x';
}

static bool
is_even(const void *arg, uint32_t rank)
{
	(void)arg;
	return rank % 2 == 0;
}

static void
test_ranks_text(void **unused)
{
	char text[RENDEZVOUS_MISSING_MAX];
	uint32_t n;

	(void)unused;
	assert_int_equal(rendezvous_ranks_text(text, sizeof(text), 4, in_set, "...."), 0);
	assert_string_equal(text, "");
	assert_int_equal(rendezvous_ranks_text(text, sizeof(text), 4, in_set, "..x."), 1);
	assert_string_equal(text, "2");
	assert_int_equal(rendezvous_ranks_text(text, sizeof(text), 9, in_set, "xx.x.xxxx"), 7);
	assert_string_equal(text, "0-1, 3, 5-8");
	n = rendezvous_ranks_text(text, sizeof(text), LEAT_RENDEZVOUS_RANKS_MAX, is_even, NULL);
	assert_int_equal(n, LEAT_RENDEZVOUS_RANKS_MAX / 2);
	assert_string_equal(text, "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32"
				  ", and 8175 more");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rank_bytes),   cmocka_unit_test(test_session_bytes),
		cmocka_unit_test(test_every_length), cmocka_unit_test(test_spoiled),
		cmocka_unit_test(test_twice_a_key),  cmocka_unit_test(test_largest),
		cmocka_unit_test(test_ranks_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
