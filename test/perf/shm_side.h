/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHM_SIDE_H
#define SHM_SIDE_H

/*
 * Endpoints and loops of bench_shm.c: the same for every device, as an application uses them.
 *
 * Each device has three connections, so that no receive of one size meets a message of another:
 *
 *     LINK_LAT    8 receives of 8 B         half round trips
 *     LINK_RATE   256 receives of 64 B      messages per second
 *     LINK_BULK   4 receives of 1 MiB       bandwidth; FETCH_ADD
 *
 * The sender of LINK_RATE fills its messages and the receiver reads them; the bytes of LINK_BULK
 * are only moved.
 */

#include <leat_fabric.h>

#include "bench.h"

enum { LINK_LAT, LINK_RATE, LINK_BULK, LINK_KINDS };

#define LINK_BURST 32
#define LINK_RATE_WORDS 8 /* of 8 bytes */
#define LINK_BULK_SIZE ((size_t)1 << 20)
#define LINK_BULK_WINDOW 4
/* Buffers of 1 MiB must not all begin at the same set of a cache. */
#define LINK_BULK_STRIDE (LINK_BULK_SIZE + 128)
#define LINK_BULK_MEM (LINK_BULK_WINDOW * LINK_BULK_STRIDE)

/* Number of cache lines that the target writes before the initiator adds to them. */
#define LINK_LINES 128

struct link_line {
	uint64_t v __attribute__((aligned(128)));
};

/* turn[i]: rounds that side i has done. In a round side 1 writes the lines, then side 0 adds. */
struct link_turns {
	uint32_t turn[2] __attribute__((aligned(128)));
};

static inline void
link_turn_wait(const struct link_turns *t, unsigned int side)
{
	while (__atomic_load_n(&t->turn[1 - side], __ATOMIC_ACQUIRE) !=
	       t->turn[side] + (side == 0 ? 1 : 0))
		;
}

static inline void
link_turn_end(struct link_turns *t, unsigned int side)
{
	__atomic_store_n(&t->turn[side], t->turn[side] + 1, __ATOMIC_RELEASE);
}

/*
 * Return the i-th line of a round. It depends on the value of the previous line, in an order that
 * no prefetcher follows. No counter gets large enough to change the order.
 */
static inline uint64_t
link_line_next(uint32_t i, uint64_t old)
{
	return (i * 53 + (old >> 63)) % LINK_LINES;
}

/* One side of a connection. */
struct link {
	struct leat_ep *ep;
	uint16_t peer;
	uint32_t nb_sends, nb_recvs;
	struct leat_op *sends, *recvs;
	struct leat_op *add; /* LINK_BULK: a FETCH_ADD */
	char *mem;	     /* buffers of the ops */
	struct leat_mr *mr;
	struct link_line *target; /* LINK_BULK: the LINK_LINES lines that the other side adds to */
};

/* Create the endpoint, with buffers in EAL memory. */
void link_open(struct link *l, const char *device, unsigned int kind);
/* Listen. @param[out] addr LEAT_ADDR_MAX bytes */
void link_listen(struct link *l, char *addr);
/*
 * Begin to connect; accept a request; wait until the link is up. other: a link of the same process
 * to be driven meanwhile, or NULL
 */
void link_connect(struct link *l, const char *addr);
void link_accept(struct link *l, struct link *other);
void link_connected(struct link *l, struct link *other);
/* Post the receives of a link that is up. */
void link_start(struct link *l);
/* @return the key of the lines, for the other side */
struct leat_rkey link_target(const struct link *l);
/* Do the endpoint's periodic work: both sides of bench_shm.c call it before each run. */
void link_events(struct link *l);
/* Close the endpoint. It is no error if the other side has already closed. */
void link_close(struct link *l);

/* The two sides of each loop, for n messages. */
void link_lat_first(struct link *l, uint64_t n);
void link_lat_second(struct link *l, uint64_t n);
void link_rate_first(struct link *l, uint64_t n, unsigned int burst);
/* @return the sum of all received words */
uint64_t link_rate_second(struct link *l, uint64_t n);
/* @return the value of link_rate_second() if all words are right */
uint64_t link_rate_sum(uint64_t n);
void link_bulk_first(struct link *l, uint64_t n);
void link_bulk_second(struct link *l, uint64_t n);
void link_add_first(struct link *l, const struct leat_rkey *target, uint64_t n);
/*
 * In turn with link_lines_write() of the other side: add to lines that were just written there.
 * @return ns of the adds
 */
uint64_t link_add_owned_first(struct link *l, const struct leat_rkey *target,
			      struct link_turns *turns, uint64_t n);
void link_lines_write(struct link_line *lines, struct link_turns *turns, uint64_t n);
/* Poll until *stop is seq. */
void link_add_second(struct link *l, const uint32_t *stop, uint32_t seq);

#endif /* SHM_SIDE_H */
