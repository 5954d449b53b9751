/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * ofi_shm_cmd_repair() on memory made by hand: everything that a killed sender can leave in the
 * queue, at each place of the ring, and values that lead out of it. What the provider makes of it
 * is in test_ofi_shm_half.c.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "shm_1_17/ofi_shm_mem.h"
#include "leat_cmocka.h"

#define SIZE 8

struct memory {
	struct ofi_shm_mem m;
	struct {
		size_t size, size_mask, rcnt, wcnt;
		struct ofi_shm_cmd buf[SIZE];
	} q;
	struct {
		uint64_t entry_base_offset;
		size_t object_size, size;
		int16_t free, top, next[SIZE + 2];
	} inject, sar;
	uint8_t beyond[64]; /* not to be touched */
};

static struct memory mem;

static void
reset(size_t start)
{
	int i;

	memset(&mem, 0, sizeof(mem));
	memset(mem.beyond, 0xaa, sizeof(mem.beyond));
	mem.m.cmd_cnt = SIZE;
	mem.m.cmd_queue_offset = offsetof(struct memory, q);
	mem.m.inject_pool_offset = offsetof(struct memory, inject);
	mem.m.sar_pool_offset = offsetof(struct memory, sar);
	mem.q.size = SIZE;
	mem.q.size_mask = SIZE - 1;
	mem.q.rcnt = mem.q.wcnt = start;
	mem.inject.size = mem.sar.size = SIZE;
	for (i = 0; i < SIZE; i++)
		mem.inject.next[i] = mem.sar.next[i] = (int16_t)(i + 1 < SIZE ? i + 1 : -1);
}

/* A second half has an op that would be one of two commands if it were read as a header. */
static void
push(uint32_t op)
{
	mem.q.buf[mem.q.wcnt++ & (SIZE - 1)].op = op;
	mem.m.cmd_cnt--;
}

static int
repair(void)
{
	int ret = ofi_shm_cmd_repair(&mem.m, offsetof(struct memory, beyond));
	size_t i;

	for (i = 0; i < sizeof(mem.beyond); i++)
		assert_int_equal(mem.beyond[i], 0xaa);
	return ret;
}

static unsigned int
chain(int16_t top, const int16_t *next)
{
	unsigned int n = 0;

	for (; top != -1; top = next[top]) {
		assert_in_range(top, 0, SIZE - 1);
		assert_true(++n <= SIZE);
	}
	return n;
}

/* Starts of the ring: its counters wrap around at each place, and at the end of their own range. */
static const size_t starts[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 1000001, SIZE_MAX - 2, SIZE_MAX };

static void
whole_ops_stay(void **state)
{
	static const uint32_t single[] = { OFI_SHM_OP_MSG, OFI_SHM_OP_TAGGED,
					   OFI_SHM_OP_WRITE_ASYNC, OFI_SHM_OP_READ_ASYNC,
					   OFI_SHM_OP_CONNREQ };
	size_t i, k;

	(void)state;
	for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		reset(starts[i]);
		assert_int_equal(repair(), 0);
		assert_int_equal(mem.q.wcnt, starts[i]);
		for (k = 0; k < sizeof(single) / sizeof(single[0]); k++)
			push(single[k]);
		push(OFI_SHM_OP_ATOMIC_FETCH);
		push(OFI_SHM_OP_WRITE);
		assert_int_equal(repair(), 0);
		assert_int_equal(mem.q.wcnt - starts[i], 7);
		/* A full queue. */
		push(OFI_SHM_OP_MSG);
		assert_int_equal(repair(), 0);
		assert_int_equal(mem.q.wcnt - starts[i], SIZE);
		assert_int_equal(mem.m.cmd_cnt, 0);
	}
}

static void
half_an_op_goes(void **state)
{
	static const uint32_t twice[] = { OFI_SHM_OP_READ_REQ, OFI_SHM_OP_WRITE, OFI_SHM_OP_ATOMIC,
					  OFI_SHM_OP_ATOMIC_FETCH, OFI_SHM_OP_ATOMIC_COMPARE };
	size_t i, k, before;

	(void)state;
	for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		for (k = 0; k < sizeof(twice) / sizeof(twice[0]); k++) {
			for (before = 0; before < SIZE; before++) {
				size_t n;

				reset(starts[i]);
				/* Whole ops of two commands before, or one of one. */
				for (n = 0; n + 1 < before; n += 2) {
					push(twice[(k + n) % 5]);
					push(OFI_SHM_OP_WRITE);
				}
				if (n < before)
					push(OFI_SHM_OP_MSG);
				push(twice[k]);
				assert_int_equal(repair(), 1);
				assert_int_equal(mem.q.rcnt, starts[i]);
				assert_int_equal(mem.q.wcnt - starts[i], before);
				assert_true(mem.m.cmd_cnt <= SIZE - before);
				/* Once only. */
				assert_int_equal(repair(), 0);
			}
		}
	}
}

/* After each repair no more may be written than there is room and buffers for. */
static void
commands_are_counted_safely(void **state)
{
	(void)state;
	/* Written, and not counted. */
	reset(0);
	push(OFI_SHM_OP_MSG);
	mem.m.cmd_cnt++;
	assert_int_equal(repair(), 0);
	assert_int_equal(mem.m.cmd_cnt, SIZE - 1);
	/* The same, with three others that left the queue and are still counted. */
	mem.m.cmd_cnt = SIZE - 3;
	assert_int_equal(repair(), 0);
	assert_int_equal(mem.m.cmd_cnt, SIZE - 4);
	/* More than there ever were; none. */
	mem.m.cmd_cnt = SIZE_MAX;
	assert_int_equal(repair(), 0);
	assert_int_equal(mem.m.cmd_cnt, SIZE - 1);
	mem.m.cmd_cnt = 0;
	assert_int_equal(repair(), 0);
	assert_int_equal(mem.m.cmd_cnt, 0);
	/* Buffers that are in use for good. */
	reset(0);
	mem.inject.top = 5;
	mem.inject.next[0] = mem.inject.next[1] = mem.inject.next[2] = -1;
	mem.inject.next[3] = mem.inject.next[4] = -1;
	assert_int_equal(repair(), 0);
	assert_int_equal(mem.m.cmd_cnt, 3);
	assert_int_equal(chain(mem.inject.top, mem.inject.next), 3);
}

static void
chains_are_joined(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < SIZE; i++) {
		int16_t *next = i % 2 == 0 ? mem.inject.next : mem.sar.next;
		int16_t *top = i % 2 == 0 ? &mem.inject.top : &mem.sar.top;

		/* The first i are in use, and the next one was being taken. */
		reset(0);
		memset(next, 0xff, (size_t)(i + 1) * sizeof(*next));
		*top = (int16_t)i;
		assert_int_equal(repair(), 0);
		/*
		 * That the last but one lost the last can't be seen: a bottom looks like one in
		 * use.
		 */
		assert_int_equal(chain(*top, next), i == SIZE - 2 ? 1 : SIZE - i);
		/* The first i are in use, and number 0 was being given back. */
		reset(0);
		memset(next, 0xff, (size_t)i * sizeof(*next));
		*top = (int16_t)i;
		next[0] = (int16_t)i;
		if (i == 0)
			continue;
		assert_int_equal(repair(), 0);
		assert_int_equal(chain(*top, next), SIZE - i + 1);
	}
	/* An empty one, and one that leads in a circle and out of it. */
	reset(0);
	memset(mem.inject.next, 0xff, SIZE * sizeof(mem.inject.next[0]));
	mem.inject.top = -1;
	mem.sar.next[SIZE - 1] = 0;
	mem.sar.next[3] = 30000;
	mem.sar.next[4] = -30000;
	mem.sar.top = 12345;
	assert_int_equal(repair(), 0);
	assert_int_equal(mem.m.cmd_cnt, 0);
	assert_int_equal(mem.inject.top, -1);
	assert_int_equal(chain(mem.sar.top, mem.sar.next), SIZE - 1);
}

/* Nothing is changed, and nothing outside is looked at (the sanitizers would say so). */
static void
hostile(void **state)
{
	static const size_t values[] = {
		0, 1, 3, 7, SIZE + 1, 2 * SIZE, 1 << 20, SIZE_MAX / 2 + 1, SIZE_MAX - 7, SIZE_MAX
	};
	static const size_t fields[] = {
		offsetof(struct memory, m.cmd_queue_offset),
		offsetof(struct memory, m.inject_pool_offset),
		offsetof(struct memory, m.sar_pool_offset),
		offsetof(struct memory, q.size),
		offsetof(struct memory, q.size_mask),
		offsetof(struct memory, inject.size),
		offsetof(struct memory, sar.size),
	};
	static struct memory was;
	size_t i, k;

	(void)state;
	for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		for (k = 0; k < sizeof(values) / sizeof(values[0]); k++) {
			int ret;

			reset(0);
			push(OFI_SHM_OP_WRITE);
			memcpy((char *)&mem + fields[i], &values[k], sizeof(values[k]));
			was = mem;
			ret = repair();
			/*
			 * The pools may well be smaller, and the queue's place in its own header is
			 * one.
			 */
			assert_true(ret == -EPROTO || ret >= 0);
			if (ret < 0)
				assert_memory_equal(&mem, &was, sizeof(mem));
		}
	}
	/* More in the queue than it holds, or less than nothing. */
	for (k = 0; k < 2; k++) {
		reset(0);
		mem.q.wcnt = k == 0 ? SIZE + 1 : 0;
		mem.q.rcnt = k == 0 ? 0 : 1;
		assert_int_equal(repair(), -EPROTO);
	}
	reset(0);
	assert_int_equal(ofi_shm_cmd_repair(&mem.m, sizeof(mem.m) - 1), -EPROTO);
	assert_int_equal(ofi_shm_cmd_repair(&mem.m, sizeof(mem.m)), -EPROTO);
	assert_int_equal(ofi_shm_cmd_repair(&mem.m, offsetof(struct memory, sar)), -EPROTO);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_ops_stay),
		cmocka_unit_test(half_an_op_goes),
		cmocka_unit_test(commands_are_counted_safely),
		cmocka_unit_test(chains_are_joined),
		cmocka_unit_test(hostile),
	};

	static_assert(offsetof(struct memory, inject.next) - offsetof(struct memory, inject) == 28,
		      "as in the provider");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
