/* SPDX-License-Identifier: BSD-3-Clause */

/* leat-perf's control messages, numbers and patterns. */

#include "leat_cmocka.h"

#include <stdlib.h>
#include <string.h>

#include "../common/num.h"
#include "wire.h"

/* num.c reports errors through this function. */
void
perf_msg(const char *fmt, ...)
{
	(void)fmt;
}

static void
test_messages_survive_the_wire(void **state)
{
	uint8_t buf[WIRE_LEN];
	struct wire_msg m, got;

	(void)state;
	memset(&m, 0, sizeof(m));
	m.type = WIRE_RUN;
	m.id = 7;
	m.run = (struct perf_run){ .id = 7,
				   .test = PERF_RATE,
				   .op = LEAT_OP_READ,
				   .size = 1 << 20,
				   .window = 64,
				   .check = true,
				   .open = true,
				   .seed = 0x1122334455667788 };
	m.rkey = (struct leat_rkey){ .addr = 1, .len = UINT64_MAX, .key = 3 };
	wire_encode(&m, buf, sizeof(buf));
	assert_int_equal(wire_decode(buf, sizeof(buf), &got), 0);
	assert_int_equal(got.type, WIRE_RUN);
	assert_memory_equal(&got.run, &m.run, sizeof(m.run));
	assert_memory_equal(&got.rkey, &m.rkey, sizeof(m.rkey));

	m.type = WIRE_RESULT;
	m.count = 1000;
	m.errors = (struct perf_errors){ 1, 2, 3, 4, 5, PERF_ERR_VALUE };
	wire_encode(&m, buf, sizeof(buf));
	assert_int_equal(wire_decode(buf, sizeof(buf), &got), 0);
	assert_int_equal(got.count, 1000);
	assert_memory_equal(&got.errors, &m.errors, sizeof(m.errors));

	m.type = WIRE_REFUSED;
	m.err = EMSGSIZE;
	snprintf(m.text, sizeof(m.text), "too\nlarge\033[2J");
	wire_encode(&m, buf, sizeof(buf));
	assert_int_equal(wire_decode(buf, sizeof(buf), &got), 0);
	assert_int_equal(got.err, EMSGSIZE);
	assert_string_equal(got.text, "too?large?[2J");
}

/* Compare an encoded RUN byte by byte: programs of other versions parse it. */
static void
test_run_byte_by_byte(void **state)
{
	static const uint8_t want[] = {
		'l',  'p',
		'c',  '1',
		3,    0,
		2,    0,
		0x78, 0x56,
		0x34, 0x12, /* header */
		1,    LEAT_OP_WRITE,
		1,    0, /* bw, op, check */
		0,    0x10,
		0,    0,
		0,    0,
		0,    0,
		64,   0,
		0,    0,
		0,    0,
		0,    0, /* size, window */
		8,    7,
		6,    5,
		4,    3,
		2,    1, /* seed */
		1,    0,
		0,    0,
		0,    0,
		0,    0,
		2,    0,
		0,    0,
		0,    0,
		0,    0,
		3,    0,
		0,    0,
		0,    0,
		0,    0,
	};
	struct wire_msg m = { .type = WIRE_RUN, .id = 0x12345678 };
	uint8_t buf[WIRE_LEN];
	size_t i;

	(void)state;
	m.run = (struct perf_run){ .test = PERF_BW,
				   .op = LEAT_OP_WRITE,
				   .size = 4096,
				   .window = 64,
				   .check = true,
				   .seed = 0x0102030405060708 };
	m.rkey = (struct leat_rkey){ 1, 2, 3 };
	wire_encode(&m, buf, sizeof(buf));
	assert_memory_equal(buf, want, sizeof(want));
	for (i = sizeof(want); i < sizeof(buf); i++)
		assert_int_equal(buf[i], 0);
}

static void
test_wrong_messages_are_refused(void **state)
{
	struct wire_msg m = { .type = WIRE_RUN, .id = 1 }, got;
	uint8_t good[WIRE_LEN_ALT] = { 0 }, buf[WIRE_LEN_ALT];
	static const struct {
		unsigned int at;
		uint8_t value;
	} wrong[] = {
		{ 0, 'x' },
		{ 6, 0 },
		{ 6, 8 },
		{ 7, 1 },
		{ 12, 3 },
		{ 13, LEAT_OP_RECV },
		{ 13, LEAT_OP_TYPES },
		{ 13, 255 },
		{ 14, 4 },
		{ 20, 2 },
		{ 23, 1 },
		{ 24, 0 },
		{ 26, 2 },
	};
	size_t i;

	(void)state;
	m.run = (struct perf_run){ .op = LEAT_OP_SEND, .size = 8, .window = 1 };
	wire_encode(&m, good, WIRE_LEN);
	assert_int_equal(wire_decode(good, WIRE_LEN, &got), 0);
	assert_int_equal(wire_decode(good, WIRE_LEN_ALT, &got), 0);
	for (i = 0; i < WIRE_LEN; i++)
		assert_int_equal(wire_decode(good, i, &got), -EPROTO);
	assert_int_equal(wire_decode(good, WIRE_LEN_ALT + 1, &got), -EPROTO);
	assert_int_equal(wire_decode(good, UINT64_MAX, &got), -EPROTO);
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		memcpy(buf, good, sizeof(buf));
		buf[wrong[i].at] = wrong[i].value;
		if (wire_decode(buf, WIRE_LEN, &got) != -EPROTO)
			fail_msg("accepted: %u at %u", wrong[i].value, wrong[i].at);
	}
	/* atomics are of 8 bytes */
	memcpy(buf, good, sizeof(buf));
	buf[13] = LEAT_OP_FETCH_ADD;
	assert_int_equal(wire_decode(buf, WIRE_LEN, &got), 0);
	buf[16] = 9;
	assert_int_equal(wire_decode(buf, WIRE_LEN, &got), -EPROTO);
}

/* A random message that is accepted has all its fields in range. */
static void
test_random_bytes(void **state)
{
	uint64_t rnd = 42;
	uint8_t buf[WIRE_LEN];
	struct wire_msg m;
	int round;
	size_t i;

	(void)state;
	for (round = 0; round < 200000; round++) {
		struct wire_msg head = { .type = (enum wire_type)(1 +
								  test_random(&rnd) % WIRE_BYE) };

		wire_encode(&head, buf, sizeof(buf));
		for (i = 8; i < 80; i++)
			buf[i] = (uint8_t)(test_random(&rnd) >> 32);
		if (wire_decode(buf, sizeof(buf), &m) < 0)
			continue;
		assert_true(m.run.test < PERF_TESTS && m.run.op < LEAT_OP_TYPES);
		assert_true(m.run.size <= PERF_SIZE_MAX && m.run.window <= PERF_WINDOW_MAX);
		assert_true(m.errors.kind < PERF_ERR_KINDS && m.err >= 0);
		assert_true(strlen(m.text) < WIRE_TEXT);
	}
}

static void
test_cards(void **state)
{
	struct wire_msg m = { .type = WIRE_HELLO }, got;
	uint8_t buf[WIRE_LEN];
	uint64_t rnd = 1;
	int round;
	size_t i;

	(void)state;
	m.card = (struct perf_card){ .at = { .host = 1, .nb_cpus = 4, .cpu = 5 },
				     .max_msg = 2,
				     .ops = 3 };
	memset(m.card.provider, 'p', sizeof(m.card.provider) - 1);
	snprintf(m.card.dev, sizeof(m.card.dev), "fabric_x0");
	wire_encode(&m, buf, sizeof(buf));
	assert_int_equal(wire_decode(buf, sizeof(buf), &got), 0);
	assert_int_equal(got.type, WIRE_HELLO);
	assert_memory_equal(&got.card, &m.card, sizeof(m.card));
	/* no CPU, an unknown op, a CPU that does not exist */
	buf[32] = 0;
	assert_int_equal(wire_decode(buf, sizeof(buf), &got), -EPROTO);
	buf[32] = 4;
	buf[29] = 0x80;
	assert_int_equal(wire_decode(buf, sizeof(buf), &got), -EPROTO);
	buf[29] = 0;
	buf[38] = 1;
	assert_int_equal(wire_decode(buf, sizeof(buf), &got), -EPROTO);
	for (round = 0; round < 50000; round++) {
		wire_encode(&m, buf, sizeof(buf));
		for (i = 12; i < 230; i++)
			buf[i] = (uint8_t)(test_random(&rnd) >> 32);
		memset(buf + 30, 0, 2); /* valid ops: else hardly any message is accepted */
		memset(buf + 38, 0, 2);
		if (wire_decode(buf, sizeof(buf), &got) < 0)
			continue;
		assert_true(strlen(got.card.dev) < sizeof(got.card.dev) &&
			    strlen(got.card.at.cpus) < sizeof(got.card.at.cpus) &&
			    got.card.at.nb_cpus > 0);
	}
}

/* A HELLO of another version is refused for its version, whatever else it holds. */
static void
test_other_versions_are_told_apart(void **state)
{
	struct wire_msg m = { .type = WIRE_HELLO, .card = { .at.nb_cpus = 1 } }, got;
	uint8_t buf[WIRE_LEN];

	(void)state;
	wire_encode(&m, buf, sizeof(buf));
	buf[4] = WIRE_VERSION + 1;
	buf[6] = 99;
	assert_int_equal(wire_decode(buf, sizeof(buf), &got), -EPROTONOSUPPORT);
	buf[4] = WIRE_VERSION;
	buf[5] = 1;
	assert_int_equal(wire_decode(buf, sizeof(buf), &got), -EPROTONOSUPPORT);
	buf[0] ^= 1;
	assert_int_equal(wire_decode(buf, sizeof(buf), &got), -EPROTO);
}

static void
test_numbers(void **state)
{
	uint64_t v = 77;
	double d;

	(void)state;
	assert_int_equal(num_parse_size("4K", UINT64_MAX, &v), 0);
	assert_int_equal(v, 4096);
	assert_int_equal(num_parse_size("0x10", UINT64_MAX, &v), 0);
	assert_int_equal(v, 16);
	assert_int_equal(num_parse_size("010", UINT64_MAX, &v), 0);
	assert_int_equal(v, 10);
	assert_int_equal(num_parse_size("0x", UINT64_MAX, &v), -EINVAL);
	assert_int_equal(num_parse_size("17179869183G", UINT64_MAX, &v), 0);
	assert_int_equal(v, UINT64_C(17179869183) << 30);
	assert_int_equal(num_parse_size("17179869184G", UINT64_MAX, &v), -ERANGE);
	assert_int_equal(num_parse_size("18446744073709551615", UINT64_MAX, &v), 0);
	assert_int_equal(num_parse_size("18446744073709551616", UINT64_MAX, &v), -ERANGE);
	assert_int_equal(num_parse_size("9", 8, &v), -ERANGE);
	assert_int_equal(num_parse_count("2m", UINT64_MAX, &v), 0);
	assert_int_equal(v, 2000000);
	v = 77;
	assert_int_equal(num_parse_size("", UINT64_MAX, &v), -EINVAL);
	assert_int_equal(num_parse_size(" 1", UINT64_MAX, &v), -EINVAL);
	assert_int_equal(num_parse_size("+1", UINT64_MAX, &v), -EINVAL);
	assert_int_equal(num_parse_size("-1", UINT64_MAX, &v), -EINVAL);
	assert_int_equal(num_parse_size("1KK", UINT64_MAX, &v), -EINVAL);
	assert_int_equal(num_parse_size("1T", UINT64_MAX, &v), -EINVAL);
	assert_int_equal(num_parse_size("K", UINT64_MAX, &v), -EINVAL);
	assert_int_equal(v, 77);
	assert_int_equal(num_parse_real("1.5K", 0, 1e9, &d), 0);
	assert_true(d == 1500);
	assert_int_equal(num_parse_real("2M", 0, 1e9, &d), 0);
	assert_true(d == 2e6);
	assert_int_equal(num_parse_real("nan", 0, 1e9, &d), -EINVAL);
	assert_int_equal(num_parse_real("inf", 0, 1e9, &d), -EINVAL);
	assert_int_equal(num_parse_real("-1", 0, 1e9, &d), -EINVAL);
	assert_int_equal(num_parse_real("1e999", 0, 1e9, &d), -ERANGE);
}

static void
sizes(const char *s, const uint64_t *want, uint32_t n)
{
	uint64_t *v = NULL;
	uint32_t got = 0;

	assert_int_equal(perf_parse_sizes(s, &v, &got), 0);
	assert_int_equal(got, n);
	assert_memory_equal(v, want, n * sizeof(*v));
	free(v);
}

static void
test_lists_of_sizes(void **state)
{
	static const uint64_t one[] = { 8 }, list[] = { 8, 4096, 0 }, sweep[] = { 1, 2, 4, 8 },
			      odd[] = { 3, 6, 7 }, zero[] = { 0, 1, 2, 3, 9 };
	uint64_t *v = NULL;
	uint32_t n = 0;

	(void)state;
	sizes("8", one, 1);
	sizes("8,4K,0", list, 3);
	sizes("1-8", sweep, 4);
	sizes("3-7", odd, 3);
	sizes("0-3,9", zero, 5);
	sizes("8-8", one, 1);
	assert_true(perf_parse_sizes("8-", &v, &n) < 0);
	assert_true(perf_parse_sizes("-8", &v, &n) < 0);
	assert_true(perf_parse_sizes("1-2-3", &v, &n) < 0);
	assert_true(perf_parse_sizes(",", &v, &n) < 0);
	assert_true(perf_parse_sizes("5G", &v, &n) < 0);
	free(v);
}

static void
test_a_wrong_byte_is_found_wherever_it_is(void **state)
{
	uint64_t key = perf_key(1, PERF_TO_SERVER, 5, 1000);
	uint8_t buf[1001];
	struct perf_errors e = { 0 };
	uint64_t size, i;

	(void)state;
	for (size = 0; size < 40; size++) {
		perf_fill(buf, size, key);
		assert_int_equal(perf_verify(buf, size, key), -1);
		for (i = 0; i < size; i++) {
			buf[i] ^= 1;
			assert_int_equal(perf_verify(buf, size, key), (int64_t)i);
			buf[i] ^= 1;
		}
	}
	buf[1000] = 0x5a;
	perf_fill(buf, 1000, key);
	assert_int_equal(buf[1000], 0x5a);
	/* contents of another message, direction or size, or shifted ones, are found to be wrong */
	assert_true(perf_verify(buf, 1000, perf_key(1, PERF_TO_SERVER, 6, 1000)) >= 0);
	assert_true(perf_verify(buf, 1000, perf_key(1, PERF_TO_CLIENT, 5, 1000)) >= 0);
	assert_true(perf_verify(buf, 1000, perf_key(1, PERF_TO_SERVER, 5, 1001)) >= 0);
	assert_true(perf_verify(buf + 8, 900, key) >= 0);

	buf[600] ^= 0x80;
	perf_check(&e, buf, 1000, key, 5);
	buf[601] ^= 0x80;
	perf_check(&e, buf, 1000, key, 6);
	assert_int_equal(e.count, 2);
	assert_int_equal(e.offset, 600);
	assert_int_equal(e.seq, 5);
	assert_int_equal(e.expected ^ e.got, 0x80);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages_survive_the_wire),
		cmocka_unit_test(test_run_byte_by_byte),
		cmocka_unit_test(test_wrong_messages_are_refused),
		cmocka_unit_test(test_random_bytes),
		cmocka_unit_test(test_cards),
		cmocka_unit_test(test_other_versions_are_told_apart),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_lists_of_sizes),
		cmocka_unit_test(test_a_wrong_byte_is_found_wherever_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
