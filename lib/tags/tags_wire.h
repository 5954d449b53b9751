/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TAGS_WIRE_H
#define TAGS_WIRE_H

/*
 * The wire format of the tag layer, byte by byte. All numbers are little-endian.
 *
 * A segment is a header and, after it, bytes of a message, at most as many as its receiver allowed
 * in its hello:
 *
 *      0      1      2       4       6       8       10      12     16     24      32      40
 *     +------+------+-------+-------+-------+-------+-------+------+------+-------+-------+------
 *     | kind | flags|  seq  |done[0]|done[1]|done[2]|   0   |  id  | tag  | total | token | bytes
 *     +------+------+-------+-------+-------+-------+-------+------+------+-------+-------+------
 *
 *               flags  id         tag          total      bytes
 *     EAGER  1  T I    0          tag if T     length     a whole message
 *     FIRST  2  T I    sender's   tag if T     length     at least 1, and fewer than total
 *     DATA   3  0      receiver's offset       0          at least 1
 *     GRANT  4  0      sender's   receiver's id 0         none
 *     REFUSE 5  0      sender's   0            0          none
 *     CREDIT 6  0      0          0            0          none
 *     BYE    7  0      0          0            0          none
 *
 * T: a tagged message; I: the message carries an immediate, 8 bytes between the header and the
 * message's bytes. total is the length of the whole message, bytes. id is the number that the
 * message's sender gave to its send, or the receiver to its receive. seq counts the segments of one
 * direction of a connection. done[c] counts the segments of class c that the sender of this header
 * has received and finished since the connection began; beyond these the other side may have
 * window[c] on the way. seq and done begin with TAGS_START and wrap at 2^16.
 *
 * token was chosen for the connection by the side that receives the segment: the connection's place
 * in the low 16 bits, and a random number. So a late segment is not taken for one of the next
 * connection, connections between the same two endpoints are told apart, and no peer can send in
 * the name of another peer.
 *
 * The notice of a WRITE_IMM has no header. Where the device carries immediates of 8 bytes but does
 * not tell apart the connections between the same two endpoints, the upper 4 bytes of the immediate
 * are the lower 4 of the token, and the lower 4 are the application's.
 *
 * BYE is the last segment of its direction. The side that receives a BYE answers with its own,
 * unless it has sent one before.
 *
 * The private data of connect and accept begin with a hello; the caller's data follow:
 *
 *      0               4         5          6           9   10        12      20
 *     +---+---+---+---+---------+----------+-----------+---+---------+-------+-----
 *     | l   t   a   g | version | priv len | window[3] | 0 | segment | token | priv
 *     +---+---+---+---+---------+----------+-----------+---+---------+-------+-----
 */

#include <stddef.h>
#include <stdint.h>

#define TAGS_HDR_LEN 40 /* without an immediate */
#define TAGS_HDR_MAX 48
#define TAGS_HELLO_LEN 20
#define TAGS_VERSION 3
/* Start value of seq and done, so that each connection passes their wrap early: leat_cursor.h. */
#define TAGS_START 0xff38
/* Mask of the place in a token. */
#define TAGS_TOKEN_PEER UINT64_C(0xffff)
#define TAGS_SEGMENT_MIN 64
#define TAGS_SEGMENT_MAX 65535

static inline uint64_t
tags_notice_imm(uint64_t token, uint64_t imm)
{
	return token << 32 | (imm & UINT32_MAX);
}

/* Classes of credits. */
enum tags_class {
	TAGS_C_MSG,   /* EAGER, FIRST, WRITE_IMM (no header): may have to wait for a receive */
	TAGS_C_DATA,  /* DATA: has its receive */
	TAGS_C_REPLY, /* GRANT, REFUSE */
	TAGS_CLASSES, /* CREDIT and BYE need no credit, see tags_pvt.h */
};

enum tags_kind {
	TAGS_EAGER = 1,
	TAGS_FIRST = 2,
	TAGS_DATA = 3,
	TAGS_GRANT = 4,
	TAGS_REFUSE = 5,
	TAGS_CREDIT = 6,
	TAGS_BYE = 7,
};

#define TAGS_F_TAGGED 0x01
#define TAGS_F_IMM 0x02

struct tags_hdr {
	uint8_t kind;
	uint8_t flags;
	uint16_t seq;
	uint16_t done[TAGS_CLASSES];
	uint32_t id;
	uint64_t tag; /* DATA: offset; GRANT: receiver's id */
	uint64_t imm;
	uint64_t total;
	uint64_t token;
};

static inline uint32_t
tags_hdr_len(uint8_t flags)
{
	return (flags & TAGS_F_IMM) != 0 ? TAGS_HDR_MAX : TAGS_HDR_LEN;
}

/* Encode a header: write tags_hdr_len() bytes. */
void tags_hdr_build(uint8_t *buf, const struct tags_hdr *h);
/*
 * Parse a segment of len bytes.
 * @return NULL, or what is wrong with it
 */
const char *tags_hdr_parse(const uint8_t *buf, size_t len, struct tags_hdr *h);

/* Return the class of a parsed kind, TAGS_CLASSES for CREDIT and BYE. */
static inline unsigned int
tags_kind_class(uint8_t kind)
{
	static const uint8_t classes[] = {
		TAGS_CLASSES, TAGS_C_MSG,   TAGS_C_MSG,	  TAGS_C_DATA,
		TAGS_C_REPLY, TAGS_C_REPLY, TAGS_CLASSES, TAGS_CLASSES,
	};

	return classes[kind];
}

struct tags_hello {
	uint8_t window[TAGS_CLASSES];
	uint8_t priv_len;
	uint16_t segment; /* maximum number of bytes of a message per segment */
	uint64_t token;	  /* token in segments to the sender of the hello */
};

/* Encode a hello: write TAGS_HELLO_LEN bytes. The caller appends its private data. */
void tags_hello_build(uint8_t *buf, const struct tags_hello *h);
/* Parse a hello. len: bytes received, padding included. @return NULL, or what is wrong with it */
const char *tags_hello_parse(const uint8_t *buf, size_t len, struct tags_hello *h);

#endif /* TAGS_WIRE_H */
