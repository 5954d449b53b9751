/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RING_BOARD_H
#define RING_BOARD_H

/*
 * The board of an endpoint has a bit per connection, at the index of the peer's id. A peer that has
 * published something sets the bit of its connection: it marks the connection. The endpoint's owner
 * takes all marks (reads and clears them) and looks at the marked connections only, however many
 * connections there are.
 *
 *     lines    . . 1 .                                 a bit per line of words (512 connections)
 *     words    ........ ........ ...1..1. ........     a bit per connection
 *
 *     peer                                     owner
 *     publish
 *     words |= marks              (A)          lines = 0                          (X)
 *     line's bit set in lines?    (B)          words = 0, for each line taken     (Y)
 *       no: lines |= line         (C)          look at the connections
 *
 * No mark is lost. A, B, C, X and Y are sequentially consistent, so they have one order. If B finds
 * the line's bit set, the X that takes this bit comes after B. The Y that follows this X therefore
 * comes after A and takes the mark, unless an earlier Y took it. If B finds the bit clear, C sets
 * it, and the next X takes it. test/model/ring_board.pml checks this.
 *
 * Edge MARK of ring_shared.h leads from A to Y: an owner that took a mark can read all that the
 * peer published before it set the mark.
 *
 * A mark says only "look at this connection", so a superfluous mark does no harm: a connection that
 * has ended may still be marked, and another connection may have its id by then.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>

#include "leat_common.h"

#define RING_BOARD_WORDS (LEAT_CACHE_LINE / sizeof(uint64_t)) /* words per line */
#define RING_BOARD_MARKS (RING_BOARD_WORDS * 64)	      /* marks per line */
#define RING_BOARD_LINES 128				      /* 65536 connections */

struct ring_board {
	/* A bit per line of words: has the line marks? The owner reads lines in every poll. */
	uint64_t lines[RING_BOARD_LINES / 64] __attribute__((aligned(128)));
	uint64_t words[] __attribute__((aligned(128)));
};

/* Bytes of a board with room for the largest number of connections. */
#define RING_BOARD_SIZE                                                                            \
	(sizeof(struct ring_board) + RING_BOARD_LINES * RING_BOARD_WORDS * sizeof(uint64_t))

/* Number of words for nb connections, rounded up to whole lines. */
static inline size_t
ring_board_words(uint32_t nb)
{
	return RTE_ALIGN_CEIL((size_t)nb, RING_BOARD_MARKS) / 64;
}

/*
 * Create a board without marks for nb connections, 1..65536. The caller frees it with free().
 * @return NULL: out of memory
 */
static inline struct ring_board *
ring_board_new(uint32_t nb)
{
	size_t len = sizeof(struct ring_board) + ring_board_words(nb) * sizeof(uint64_t);
	struct ring_board *b;

	len = RTE_ALIGN_CEIL(len, (size_t)128);
	b = aligned_alloc(128, len);
	if (b != NULL)
		memset(b, 0, len);
	return b;
}

/* Mark the connections of words[word] whose bits are set in marks. Any thread may call it. */
static inline void
ring_board_mark(struct ring_board *b, uint32_t word, uint64_t marks)
{
	uint32_t line = word / RING_BOARD_WORDS;
	uint64_t *lines = &b->lines[line / 64], bit = UINT64_C(1) << line % 64;

	(void)__atomic_fetch_or(&b->words[word], marks, __ATOMIC_SEQ_CST);
	if ((__atomic_load_n(lines, __ATOMIC_SEQ_CST) & bit) == 0)
		(void)__atomic_fetch_or(lines, bit, __ATOMIC_SEQ_CST);
}

/* Mark connection nr. Any thread may call it. */
static inline void
ring_board_mark_one(struct ring_board *b, uint32_t nr)
{
	ring_board_mark(b, nr / 64, UINT64_C(1) << nr % 64);
}

/* Are there marks to take? Only the owner calls it. */
static inline bool
ring_board_marked(const struct ring_board *b)
{
	uint64_t any = 0;
	size_t i;

	for (i = 0; i < RTE_DIM(b->lines); i++)
		any |= __atomic_load_n(&b->lines[i], __ATOMIC_RELAXED);
	return any != 0;
}

/* Called with the marks that were taken from a word. */
typedef void (*ring_board_fn)(void *arg, uint32_t word, uint64_t marks);

static __rte_always_inline void
ring_board_take_line(struct ring_board *b, uint32_t line, ring_board_fn fn, void *arg)
{
	uint32_t w, first = line * (uint32_t)RING_BOARD_WORDS;

	for (w = first; w < first + RING_BOARD_WORDS; w++) {
		/* Most words are 0, and a load costs less than an exchange. */
		if (__atomic_load_n(&b->words[w], __ATOMIC_SEQ_CST) != 0)
			fn(arg, w, __atomic_exchange_n(&b->words[w], 0, __ATOMIC_SEQ_CST));
	}
}

/* Take all marks. Only the owner calls it. */
static __rte_always_inline void
ring_board_take(struct ring_board *b, ring_board_fn fn, void *arg)
{
	uint32_t i;

	for (i = 0; i < RTE_DIM(b->lines); i++) {
		/* Load first: an exchange in each poll would evict the line from peers' caches. */
		uint64_t lines = __atomic_load_n(&b->lines[i], __ATOMIC_RELAXED);

		if (lines == 0)
			continue;
		lines = __atomic_exchange_n(&b->lines[i], 0, __ATOMIC_SEQ_CST);
		for (; lines != 0; lines &= lines - 1)
			ring_board_take_line(b, i * 64 + (uint32_t)__builtin_ctzll(lines), fn, arg);
	}
}

#endif /* RING_BOARD_H */
