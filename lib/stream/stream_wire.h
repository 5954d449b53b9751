/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STREAM_WIRE_H
#define STREAM_WIRE_H

/*
 * Format of every byte that a stream puts on the wire. Integers are big-endian; a control message
 * is 32 bytes, sent with SEND. Source of the rows feature, keepalive and memory: "Valkey over
 * RDMA", valkey-io/valkey-doc topics/RDMA.md. The other rows are leat's. The message end is sent
 * only to a peer that has leat's feature for it.
 *
 *     offset        0        2        4          8           16               24         28
 *     feature       opcode   select   0 .......................................  features (8)
 *     keepalive     opcode   0 ....................................................................
 *     memory        opcode   0 ....................  addr (8)         length     key
 *     memory, wide  opcode   0        token      key, high   addr (8)         length     key
 *     end           opcode   0 ....................  bytes sent (8)   0 ................
 *
 * The wide form is for devices whose keys have 64 bits and for mode WINDOWS; other receivers ignore
 * these bytes, as the protocol demands.
 *
 * A peer asks for features 64 at a time. leat's own are the last 64 of all, far from those that the
 * protocol will define.
 *
 * The immediate of a notice:
 *
 *     COMPAT    bits 31..0    bytes since the last notice
 *     WINDOWS   bits 63..32   the receiver's token, if the device carries 64 bits, else 0
 *               bits 31..24   number of the notice, counting from 0, modulo 256
 *               bits 23..0    offset in its window of the last byte that the notice announces
 */

#include <stdbool.h>
#include <stdint.h>

#define STREAM_CTRL_LEN 32

enum stream_opcode {
	STREAM_OP_GET_FEATURES = 0,
	STREAM_OP_SET_FEATURES = 1,
	STREAM_OP_KEEPALIVE = 2,
	STREAM_OP_MEMORY = 3,
	STREAM_OP_END = 0xff00, /* leat's: this direction ends after `total` bytes */
};

/* Value of the field select for leat's features. */
#define STREAM_SELECT_LEAT 0xffff
#define STREAM_FEATURE_END 0x1	   /* half-close: STREAM_OP_END */
#define STREAM_FEATURE_WINDOWS 0x2 /* mode WINDOWS */

/* A control message, decoded. Fields that its opcode does not have are 0. */
struct stream_ctrl {
	uint16_t opcode;
	uint16_t select;
	uint32_t token;
	uint32_t length;
	uint64_t features;
	uint64_t addr;
	uint64_t key;
	uint64_t total; /* bytes that an ended direction has sent */
};

/* Encode a control message. wide: use the form with a key of 64 bits and a token */
void stream_wire_encode(uint8_t *to, const struct stream_ctrl *c, bool wide);

/* Decode a message of any opcode. The caller checks the opcode. */
void stream_wire_decode(struct stream_ctrl *c, const uint8_t *from, bool wide);

static inline uint64_t
stream_notice(uint32_t token, uint8_t seq, uint32_t last)
{
	return (uint64_t)token << 32 | (uint32_t)seq << 24 | (last & 0xffffff);
}

static inline uint32_t
stream_notice_token(uint64_t imm)
{
	return (uint32_t)(imm >> 32);
}

static inline uint8_t
stream_notice_seq(uint64_t imm)
{
	return (uint8_t)(imm >> 24);
}

/* Return the offset that follows the last byte of a notice: 1 to 2^24. */
static inline uint32_t
stream_notice_end(uint64_t imm)
{
	return (uint32_t)(imm & 0xffffff) + 1;
}

#endif /* STREAM_WIRE_H */
