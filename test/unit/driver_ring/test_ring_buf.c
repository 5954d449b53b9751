/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The buffer of datagrams (ring_buf.h), without a ring: the producer is told late how much was
 * consumed.
 */

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include <rte_common.h>

#include <leat_cmocka.h>
#include <leat_error.h>

#include "ring_buf.h"

#define SLOTS_MAX 512

/* The messages in flight: message n is msgs[n % SLOTS_MAX]. */
static struct {
	struct ring_buf b;
	struct {
		uint8_t *at; /* NULL: no bytes */
		uint32_t len;
	} msgs[SLOTS_MAX];
	uint32_t slots;
	/*
	 * Numbers of messages: the next one to send, the next one to consume, and the first one
	 * that is not consumed as far as the producer knows.
	 */
	uint64_t sent, consumed, seen;
} m;

static void
open_buf(uint32_t slots, uint32_t max)
{
	memset(&m, 0, sizeof(m));
	m.slots = slots;
	assert_int_equal(ring_buf_init(&m.b, slots, max), 0);
	m.sent = m.consumed = m.seen = UINT32_MAX - 1000; /* message numbers are not slot numbers */
}

/*
 * Send a message of len bytes. The producer must know of a free slot. @return false: the buffer has
 * no room
 */
static bool
put(uint32_t len)
{
	uint8_t *at = NULL;

	assert_true(m.sent - m.seen < m.slots);
	if (len > 0) {
		at = ring_buf_take(&m.b, m.seen, m.sent, len);
		if (at == NULL)
			return false;
		assert_true((char *)at >= m.b.mem && (char *)at + len <= m.b.mem + m.b.size);
		assert_int_equal((uintptr_t)at % 64, 0);
		memset(at, (int)(m.sent % 251), len);
	}
	m.msgs[m.sent % SLOTS_MAX].at = at;
	m.msgs[m.sent % SLOTS_MAX].len = len;
	m.sent++;
	return true;
}

/* Consume a message, and check that nothing was written over it while it was in flight. */
static void
take(void)
{
	const uint8_t *at = m.msgs[m.consumed % SLOTS_MAX].at;
	uint32_t i, wrong = 0, len = m.msgs[m.consumed % SLOTS_MAX].len;

	for (i = 0; i < len; i++)
		wrong += at[i] != m.consumed % 251;
	assert_int_equal(wrong, 0);
	m.consumed++;
}

/*
 * Messages of random sizes, with a random backlog. While slots are free, a buffer smaller than
 * RING_BUF_MAX has room for each message. When a message finds no room in a buffer of this size,
 * the buffer is full except for at most two messages of the maximum length.
 */
static void
any_order(uint32_t slots, uint32_t max, uint64_t seed)
{
	uint32_t round, full = 0, n;
	uint64_t i;

	open_buf(slots, max);
	for (round = 0; round < 5000; round++) {
		for (n = (uint32_t)(test_random(&seed) % (slots / 4)); n > 0; n--) {
			uint32_t len = (uint32_t)(test_random(&seed) % (max + 1));
			uint64_t bytes = 0;

			if (m.sent - m.seen == m.slots)
				break;
			if (put(len))
				continue;
			full++;
			for (i = m.seen; i != m.sent; i++)
				bytes += RTE_ALIGN_CEIL(m.msgs[i % SLOTS_MAX].len, 64u);
			assert_int_equal(m.b.size, RING_BUF_MAX);
			assert_true(bytes > RING_BUF_MAX - 2u * RTE_ALIGN_CEIL(max, 64u));
			break;
		}
		for (n = (uint32_t)(test_random(&seed) % (slots / 4)); n > 0; n--) {
			if (m.consumed != m.sent)
				take();
		}
		if (test_random(&seed) % 4 == 0)
			m.seen += test_random(&seed) % (m.consumed - m.seen + 1);
		if (test_random(&seed) % 16 == 0)
			m.seen = m.consumed;
	}
	if (m.b.size == RING_BUF_MAX)
		assert_true(full > 0);
	while (m.consumed != m.sent)
		take();
	ring_buf_free(&m.b);
}

static void
random_orders(void **state)
{
	(void)state;
	any_order(16, 4096, 1);
	any_order(16, 97, 2);
	any_order(64, 1500, 3);
	any_order(128, 16384, 4);
	any_order(512, 4096, 5);
}

/*
 * All 16 slots can hold the longest message at the same time, wherever in the buffer the first of
 * these messages begins.
 */
static void
slots_are_full_first(void **state)
{
	uint32_t i, start;

	(void)state;
	for (start = 0; start < 40; start++) {
		open_buf(16, 4096);
		for (i = 0; i < start; i++) {
			assert_true(put(4000 + 64 * (i % 2)));
			take();
			m.seen = m.consumed - 1;
		}
		m.seen = m.consumed - (start > 0);
		while (m.sent - m.seen < 16)
			assert_true(put(4096));
		m.seen = m.consumed;
		if (start > 0)
			assert_true(put(4096));
		while (m.consumed != m.sent)
			take();
		ring_buf_free(&m.b);
	}
}

/* The largest buffer is full at exactly its size; a consumed message makes room for a new one. */
static void
full_of_bytes(void **state)
{
	const uint32_t n = RING_BUF_MAX / 4096;
	uint32_t i, lap;

	(void)state;
	open_buf(SLOTS_MAX, 4096);
	for (i = 0; i < n; i++)
		assert_true(put(4096));
	for (lap = 0; lap < 3 * n; lap++) {
		assert_false(put(4096));
		assert_false(put(1));
		assert_true(put(0)); /* messages without bytes need no room */
		take();
		assert_false(put(1)); /* the producer does not know yet what was consumed */
		m.seen = m.consumed;
		while (m.msgs[m.consumed % SLOTS_MAX].at == NULL)
			take();
		assert_true(put(lap % 2 == 0 ? 4096 : 4033));
	}
	ring_buf_free(&m.b);
}

/*
 * A message that is too long for the rest of the buffer begins at the buffer's start. The unused
 * rest is freed with the message before it.
 */
static void
around_the_end(void **state)
{
	uint32_t i;

	(void)state;
	open_buf(SLOTS_MAX, 16384);
	for (i = 0; i < 31; i++)
		assert_true(put(16384));
	assert_true(put(8192)); /* 8192 bytes are left before the end */
	assert_false(put(16384));
	take();
	take();
	m.seen = m.consumed;
	assert_true(put(16384));
	assert_ptr_equal(m.msgs[(m.sent - 1) % SLOTS_MAX].at, m.b.mem);
	assert_true(put(16384));
	assert_false(put(64)); /* no more room than the two consumed messages had */
	while (m.consumed != m.sent)
		take();
	m.seen = m.consumed;
	assert_true(put(1));
	assert_ptr_equal(m.msgs[(m.sent - 1) % SLOTS_MAX].at, m.b.mem);
	ring_buf_free(&m.b);
}

/* An empty buffer is used from its beginning again, so that little traffic touches few pages. */
static void
begins_again(void **state)
{
	uint32_t i;

	(void)state;
	open_buf(SLOTS_MAX, 4096);
	for (i = 0; i < 10000; i++) {
		assert_true(put(4096));
		assert_true(put(4096));
		assert_true(put(0));
		assert_true(m.b.head <= 2 * 4096);
		while (m.consumed != m.sent)
			take();
		m.seen = m.consumed;
	}
	ring_buf_free(&m.b);
}

static void
out_of_memory(void **state)
{
	struct rlimit old, none;
	struct ring_buf b;
	int ret;

	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(); /* under the limit set below the sanitizer would run out of memory as well */
#endif
	assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
	none = old;
	none.rlim_cur = 4096;
	assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
	ret = ring_buf_init(&b, 512, 4096);
	assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
	assert_int_equal(ret, -ENOMEM);
	assert_non_null(strstr(leat_err_msg(), "ulimit"));
	ring_buf_free(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_orders), cmocka_unit_test(slots_are_full_first),
		cmocka_unit_test(full_of_bytes), cmocka_unit_test(around_the_end),
		cmocka_unit_test(begins_again),	 cmocka_unit_test(out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
