/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PERF_WIRE_H
#define PERF_WIRE_H

/*
 * Control messages between the two sides. Little-endian; fields that arrive are not trusted before
 * they were checked.
 *
 * A control message has WIRE_LEN bytes, or WIRE_LEN_ALT if the data of the run have WIRE_LEN. The
 * number before a field is its offset, the number after it its length, both in bytes; "0 4" is a
 * field of four zero bytes:
 *
 *      0  magic "lpc1"   4     8  body by type:
 *      4  version        2
 *      6  type           2     HELLO     0 4, host 8, max_msg 8, ops 4, nb_cpus 4, cpu 4, 0 4,
 *                                        dev 32, driver 32, provider 40, interface 40, cpus 32
 *                              RUN       id 4, test 1, op 1, flags 1, 0 1, size 8, window 4, 0 4,
 *                                        seed 8, addr 8, len 8, key 8
 *                              READY     id 4, 0 4, addr 8, len 8, key 8
 *                              REFUSED   id 4, errno 4, text WIRE_TEXT
 *                              SYNC      id 4, 0 4, count 8
 *                              RESULT    id 4, kind 4, count 8, errors 8, seq 8, offset 8,
 *                                        expected 8, got 8
 *                              BYE       -
 *                              the rest is 0
 *
 * Length, magic, version and the text of REFUSED stay the same in all versions, so that sides of
 * different versions can tell that they differ.
 */

#include "check.h"
#include "perf.h"

#include <leat_mr.h>

#define WIRE_LEN 512
#define WIRE_LEN_ALT 520
#define WIRE_TEXT 256
#define WIRE_VERSION 3

enum wire_type {
	WIRE_HELLO = 1,
	WIRE_RUN,
	WIRE_READY,
	WIRE_REFUSED,
	WIRE_SYNC,
	WIRE_RESULT,
	WIRE_BYE
};

#define WIRE_F_CHECK 0x01
#define WIRE_F_OPEN 0x02 /* open loop */

/* The parameters of a run. */
struct perf_run {
	uint32_t id;
	enum perf_test test;
	unsigned int op;
	uint64_t size;
	uint32_t window;
	bool check;
	bool open;
	uint64_t seed;
};

struct wire_msg {
	enum wire_type type;
	uint32_t id;
	struct perf_card card;	   /* HELLO */
	struct perf_run run;	   /* RUN */
	struct leat_rkey rkey;	   /* RUN, READY */
	int err;		   /* REFUSED: a positive errno */
	char text[WIRE_TEXT];	   /* REFUSED */
	uint64_t count;		   /* SYNC, RESULT */
	struct perf_errors errors; /* RESULT */
};

/* Return the length of control messages in a run whose data messages have size bytes. */
static inline uint32_t
wire_len(uint64_t size)
{
	return size == WIRE_LEN ? WIRE_LEN_ALT : WIRE_LEN;
}

void wire_encode(const struct wire_msg *m, void *buf, uint32_t len);
/*
 * Decode a received message.
 * @return 0; -EPROTO: not a control message, or a field is invalid; -EPROTONOSUPPORT: the sender is
 * a leat-perf of another version
 */
int wire_decode(const void *buf, uint64_t len, struct wire_msg *m);

#endif /* PERF_WIRE_H */
