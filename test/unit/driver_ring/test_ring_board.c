/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The board of marks (ring_board.h), without a ring: the owner takes each mark once, however often
 * its connection was marked before.
 */

#include <pthread.h>
#include <sched.h>

#include <leat_cmocka.h>

#include "ring_board.h"

#define NB 1600
#define MARKERS 3
#define ROUNDS 300
#define PATIENCE 20000000 /* calls of ring_board_take() in a row that take no mark */

static struct ring_board *board;

/* ---- one thread ---- */

#define ALL (RING_BOARD_LINES * RING_BOARD_MARKS)

static uint8_t taken[ALL];

static void
count(void *arg, uint32_t word, uint64_t marks)
{
	uint32_t *sum = arg;

	for (; marks != 0; marks &= marks - 1) {
		taken[word * 64 + (uint32_t)__builtin_ctzll(marks)]++;
		(*sum)++;
	}
}

static void
board_open(uint32_t nb)
{
	board = ring_board_new(nb);
	assert_non_null(board);
	assert_false(ring_board_marked(board));
	memset(taken, 0, sizeof(taken));
}

static void
board_close(void)
{
	free(board);
	board = NULL;
}

/* Each connection of the largest board has a mark of its own. */
static void
each(void **state)
{
	uint32_t nr, sum;

	(void)state;
	board_open(ALL);
	for (nr = 0; nr < ALL; nr++) {
		sum = 0;
		ring_board_mark_one(board, nr);
		assert_true(ring_board_marked(board));
		ring_board_take(board, count, &sum);
		assert_int_equal(sum, 1);
		assert_int_equal(taken[nr], 1);
		assert_false(ring_board_marked(board));
	}
	board_close();
}

/* A connection that is marked several times before the owner takes its mark is taken once. */
static void
merged(void **state)
{
	uint32_t nr, k, sum = 0;

	(void)state;
	board_open(NB);
	for (k = 0; k < 3; k++) {
		for (nr = 0; nr < NB; nr += 7)
			ring_board_mark_one(board, nr);
	}
	ring_board_take(board, count, &sum);
	for (nr = 0; nr < NB; nr++)
		assert_int_equal(taken[nr], nr % 7 == 0);
	assert_int_equal(sum, (NB + 6) / 7);
	ring_board_take(board, count, &sum);
	assert_int_equal(sum, (NB + 6) / 7);
	board_close();
}

/* Boards of one connection, and of one connection more than a cache line of marks has room for. */
static void
small(void **state)
{
	uint32_t sum = 0;

	(void)state;
	board_open(1);
	ring_board_mark_one(board, 0);
	ring_board_take(board, count, &sum);
	assert_int_equal(sum, 1);
	board_close();
	board_open(RING_BOARD_MARKS + 1);
	ring_board_mark(board, RING_BOARD_MARKS / 64, 1);
	ring_board_mark(board, RING_BOARD_MARKS / 64 - 1, UINT64_C(1) << 63 | 1);
	ring_board_take(board, count, &sum);
	assert_int_equal(sum, 4);
	assert_int_equal(taken[RING_BOARD_MARKS], 1);
	assert_int_equal(taken[RING_BOARD_MARKS - 1], 1);
	assert_int_equal(taken[RING_BOARD_MARKS - 64], 1);
	board_close();
}

/* ---- threads ---- */

/*
 * For each connection: the value that its peer published last, ordered only by the mark, and the
 * value that the owner has seen. A peer publishes the next value only when the owner has seen the
 * last one. So after a lost mark the peer sets no other mark, the connection stops, and the test
 * fails.
 */
static uint32_t published[NB], seen[NB];
static uint32_t nb_seen;
static bool wrong;
static bool given_up;

static void *
marker(void *arg)
{
	uint32_t me = (uint32_t)(uintptr_t)arg, round, nr;

	/*
	 * The connections of each word are spread over all markers, so the markers share the word.
	 */
	for (round = 0; round < ROUNDS; round++) {
		for (nr = me; nr < NB; nr += MARKERS) {
			while (__atomic_load_n(&seen[nr], __ATOMIC_ACQUIRE) != round) {
				if (__atomic_load_n(&given_up, __ATOMIC_RELAXED))
					return NULL;
				sched_yield();
			}
			published[nr] = round + 1;
			ring_board_mark_one(board, nr);
		}
	}
	return NULL;
}

static void
see(void *arg, uint32_t word, uint64_t marks)
{
	(void)arg;
	for (; marks != 0; marks &= marks - 1) {
		uint32_t nr = word * 64 + (uint32_t)__builtin_ctzll(marks);

		wrong = wrong || published[nr] != seen[nr] + 1;
		nb_seen++;
		__atomic_store_n(&seen[nr], seen[nr] + 1, __ATOMIC_RELEASE);
	}
}

static void
threads(void **state)
{
	pthread_t thread[MARKERS];
	uint32_t i, last, patience = 0;

	(void)state;
	board_open(NB);
	for (i = 0; i < MARKERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, marker, (void *)(uintptr_t)i), 0);
	while (nb_seen < NB * ROUNDS && patience < PATIENCE) {
		last = nb_seen;
		ring_board_take(board, see, NULL);
		patience = nb_seen == last ? patience + 1 : 0;
		if (patience > 0)
			sched_yield();
	}
	__atomic_store_n(&given_up, true, __ATOMIC_RELAXED);
	for (i = 0; i < MARKERS; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	assert_int_equal(nb_seen, NB * ROUNDS);
	assert_false(wrong);
	/*
	 * The owner may have taken a mark before the peer set the bit of the mark's line. The line
	 * is then taken once more, without marks: nothing is seen.
	 */
	ring_board_take(board, see, NULL);
	assert_int_equal(nb_seen, NB * ROUNDS);
	assert_false(ring_board_marked(board));
	board_close();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each),
		cmocka_unit_test(merged),
		cmocka_unit_test(small),
		cmocka_unit_test(threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
