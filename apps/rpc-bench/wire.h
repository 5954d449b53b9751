/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RB_WIRE_H
#define RB_WIRE_H

/*
 * Messages between processes, byte by byte; numbers are little-endian. Decoders check each field
 * before it is used. The number after a field's name is its length in bytes; "0 2" is a field of
 * two zero bytes.
 *
 *     HELLO     "lrbh" 4, version 2, rank 2, ranks 2, card, plan
 *       answer  "lrbw" 4, version 2, 0 2, card
 *       refusal a status, and a text of RB_TEXT bytes
 *     NODES     no bytes
 *       answer  token 4, lcores 2, each lcore: port 2
 *       refusal as above
 *     MEET      phase 1; RB_MEET_END: a result
 *       answer  a bit for each lost rank, RB_LOST_LEN bytes
 *     PING      calls done 8
 *       answer  calls done 8
 *     BYE       a text of RB_TEXT bytes
 *
 *     card      host 8, pid 4, lcores 2, 0 2, name 64, dev 32, driver 32, provider 40,
 *               interface 40, each lcore: cpu 2, cpus 2
 *     plan      flags 4, type 4, tasks 4, batch 4, calls 8, duration 8, warmup 8, rate 8,
 *               deadline 8, seed 8, corrupt 8, packet 4, credits 4, slots 4, kinds 4,
 *               each kind: percent 4, sizes, sizes (request, response)
 *     sizes     items 4, each: lo 4, hi 4
 *     result    lcores 2, kinds 2, each lcore: tally; each kind: a histogram, as
 *               leat_histogram_pack() writes it
 *     tally     each counter 8, in the order of put_tally(); counters of errors, of which those
 *               that are 0 are left out: their number 2, each: index 2, count 8; then the
 *               CPU time of other threads, per mille 4; then the first wrong message: what 4,
 *               from 4, to 4, response 1, kind 1, 0 2, id 8, offset 8, expected 8, got 8
 *
 * Magic and version have the same place in all versions, so that two programs of different versions
 * notice the difference.
 */

#include <leat_histogram.h>

#include "world.h"

#define RB_WIRE_VERSION 1

enum rb_wire_type { RB_WIRE_HELLO = 1, RB_WIRE_NODES, RB_WIRE_MEET, RB_WIRE_PING, RB_WIRE_BYE };

/* Meetings of all processes (rb.h), in their order. */
enum rb_meet { RB_MEET_START, RB_MEET_DONE, RB_MEET_END, RB_MEETS };

struct rb_hello {
	uint16_t rank, nb_ranks;
	struct rb_card card;
	struct rb_plan plan;
};

/* The answer to NODES: ports of the nodes, and the token that they demand. */
struct rb_nodes {
	uint32_t token;
	uint16_t nb_lcores;
	uint16_t port[RB_LCORES_MAX];
};

#define RB_LOST_LEN (RB_RANKS_MAX / 8u)
#define RB_HELLO_MAX 2048u
#define RB_WELCOME_MAX 1024u
#define RB_NODES_MAX 512u
/* Length of the largest result, bytes, and of a MEET that carries it. */
#define RB_RESULT_MAX                                                                              \
	(RB_LCORES_MAX * (64u * 8 + RB_ERRNOS * 10u) + RB_KINDS * (uint32_t)LEAT_HISTOGRAM_PACK_MAX)
#define RB_MEET_MAX (RB_RESULT_MAX + 64u)

/* Each encoder: @return bytes, or -ENOSPC. Each decoder: @return 0, or -EPROTO. */
int rb_hello_put(const struct rb_hello *h, void *buf, size_t len);
/* @return also -EPROTONOSUPPORT: the sender has a different version */
int rb_hello_get(const void *buf, size_t len, struct rb_hello *h);
/* The answer to HELLO. */
int rb_welcome_put(const struct rb_card *card, void *buf, size_t len);
int rb_welcome_get(const void *buf, size_t len, struct rb_card *card);
int rb_nodes_put(const struct rb_nodes *n, void *buf, size_t len);
int rb_nodes_get(const void *buf, size_t len, struct rb_nodes *n);
int rb_result_put(const struct rb_result *r, void *buf, size_t len);
/* Decode a result. @return NULL: it is malformed, or no memory */
struct rb_result *rb_result_get(const void *buf, size_t len);
/* Encode only a plan, to compare it with another plan. */
int rb_plan_put(const struct rb_plan *p, void *buf, size_t len);

#endif /* RB_WIRE_H */
