/* SPDX-License-Identifier: BSD-3-Clause */

/* The hello of a connection, byte by byte. */

#include <string.h>

#include <leat_cmocka.h>

#include "shm_pvt.h"

/* A hello, as test_bytes() expects it. */
static const uint8_t bytes[SHM_HELLO_LEN] = {
	3,    0,    0,	       0, /* version */
	64,   0,    0,	       0, /* number of slots */
	0,    0,    4,	       0, /* size of the buffer, bytes */
	8,    0,    0,	       0, /* number of chunks */
	0,    0,    0,	       0, /* length of the longest datagram, bytes */
	0x34, 0x12, 1 | 2 | 4, 0, /* bit on the board (ring_board.h); flags */
};

static void
test_bytes(void **state)
{
	const struct shm_hello h = {
		.shape = { .nb = 64, .nb_bytes = 1 << 18, .nb_chunks = 8 },
		.peer = 0x1234,
		.wait = true,
		.fences = true,
		.share = true,
	};
	uint8_t buf[SHM_HELLO_LEN];
	struct shm_hello in;

	(void)state;
	memset(buf, 0xff, sizeof(buf));
	shm_hello_put(buf, &h);
	assert_memory_equal(buf, bytes, sizeof(bytes));
	assert_null(shm_hello_get(bytes, sizeof(bytes), false, &in));
	assert_int_equal(in.shape.nb, 64);
	assert_int_equal(in.shape.nb_bytes, 1 << 18);
	assert_int_equal(in.shape.nb_chunks, 8);
	assert_int_equal(in.mtu, 0);
	assert_int_equal(in.peer, 0x1234);
	assert_true(in.wait && in.fences && in.share && !in.shape.datagram);
}

static void
test_flags(void **state)
{
	uint8_t buf[SHM_HELLO_LEN];
	struct shm_hello in;
	unsigned int i;

	(void)state;
	memcpy(buf, bytes, sizeof(buf));
	for (i = 0; i < 3; i++) {
		buf[22] = (uint8_t)(1u << i);
		assert_null(shm_hello_get(buf, sizeof(buf), false, &in));
		assert_int_equal(in.wait, i == 0);
		assert_int_equal(in.fences, i == 1);
		assert_int_equal(in.share, i == 2);
	}
}

static void
test_datagrams(void **state)
{
	uint8_t buf[SHM_HELLO_LEN];
	struct shm_hello in;

	(void)state;
	memcpy(buf, bytes, sizeof(buf));
	assert_non_null(shm_hello_get(buf, sizeof(buf), true, &in));
	buf[12] = 0;
	assert_non_null(shm_hello_get(buf, sizeof(buf), true, &in));
	buf[17] = 0x10;
	assert_null(shm_hello_get(buf, sizeof(buf), true, &in));
	assert_int_equal(in.mtu, 4096);
	assert_true(in.shape.datagram);
}

static void
test_refused(void **state)
{
	/* Changes of one byte of bytes[], each of which makes the hello invalid. */
	static const struct {
		uint8_t at, value;
	} wrong[] = {
		{ 0, 2 },     /* version */
		{ 4, 65 },    /* slots: no power of two */
		{ 7, 0x80 },  /* slots: too many */
		{ 8, 64 },    /* size of the buffer: no multiple of 128 */
		{ 11, 0xff }, /* size of the buffer: too large */
		{ 12, 0 },    /* no chunks */
		{ 16, 1 },    /* a reliable endpoint has no datagrams */
	};
	uint8_t buf[SHM_HELLO_LEN + 1];
	struct shm_hello in;
	size_t i;

	(void)state;
	for (i = 0; i < RTE_DIM(wrong); i++) {
		memcpy(buf, bytes, sizeof(bytes));
		buf[wrong[i].at] = wrong[i].value;
		assert_non_null(shm_hello_get(buf, sizeof(bytes), false, &in));
	}
	memcpy(buf, bytes, sizeof(bytes));
	buf[sizeof(bytes)] = 0;
	for (i = 0; i <= sizeof(buf); i++) {
		if (i != sizeof(bytes))
			assert_non_null(shm_hello_get(buf, i, false, &in));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_flags),
		cmocka_unit_test(test_datagrams),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
