/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPC_WIRE_H
#define RPC_WIRE_H

/*
 * The wire format of lib/rpc. All numbers are little-endian. The parsers accept any bytes, and
 * depend on libc only.
 *
 * A packet is one SEND: a head, and items to its end, each padded with zeros to 8 bytes.
 *
 *      0               8         12      14      15      16
 *     +---------------+---------+-------+-------+-------+--------+-----+--------+-----
 *     | token         | credit  | epoch |version| flags | item   | pad | item   | ...
 *     +---------------+---------+-------+-------+-------+--------+-----+--------+-----
 *
 * token and epoch are those of the hello of the packet's receiver. The low half of the token is the
 * receiver's entry in its table of sessions, the high half a random number; epoch counts the
 * connections of that entry. credit: the packet's sender has receives for the packets of the other
 * side before that number. Packets are counted from hello.first on, modulo 2^32. flags: 0.
 *
 * On datagram endpoints numbers follow the head, and flags is one of RPC_H_*, or 0.
 *
 *      16     20     24             32     36      40
 *     +------+------+--------------+------+-------+--------+-----
 *     | seq  | ack  | sack         | echo | delay | item   | ...
 *     +------+------+--------------+------+-------+--------+-----
 *
 *     NUMBERED  seq is the packet's number: it is sent again until it is acknowledged
 *     PROBE     seq is the number of the probe; probes are counted apart from packets. The
 *               receiver answers at once
 *     ANSWER    seq is the number of the probe that it answers
 *     none      seq is 0: the packet only acknowledges
 *
 * Only numbered packets have items, except that END may be in any packet. ack: all numbered packets
 * before this number have arrived at the packet's sender; bit i of sack: packet ack + 1 + i has
 * arrived there, too. echo: the number of the packet that arrived there last, duplicates aside;
 * delay: the time from that arrival until this packet was sent, ns. credit is ack plus the credits
 * of the hello.
 *
 * An item:
 *
 *      0      1      2      4      8      10     12     16
 *     +------+------+------+------+------+------+------+-----------
 *     | kind | type | slot | num  | len  | flags| aux  | len bytes
 *     +------+------+------+------+------+------+------+-----------
 *
 *                   slot, num    flags     aux
 *     REQUEST   1   the request  RPC_F_*   us left until its deadline; 0: none; RPC_US_LATE
 *     RESPONSE  2   the same     REFUSED   0, or an errno
 *     CANCEL    3   the same     0         0
 *     END       4   0            0         an errno; 0: closed cleanly (datagrams)
 *
 * A message longer than a packet is sent in pieces, each in an item, in their order; items of other
 * messages may be between them. The kind of a piece has the bit PIECE set, and the item's head is
 * longer:
 *
 *      0        16     20     24
 *     +--------+------+------+-----------
 *     | as     | size | off  | len bytes      size: of the message; off: of the piece in it
 *     | above  |      |      |
 *     +--------+------+------+-----------
 *
 * aux is RPC_US_LATE if the caller no longer waits, as can happen to a request that is sent again.
 *
 * A request with RPC_F_BULK begins with n descriptors of its sender's memory; its own bytes follow
 * them:
 *
 *      0      4      8      16     24     32     36     40
 *     +------+------+------+------+------+------+------+------ - - - --+-----------
 *     | n    | 0    | addr | len  | key  |access| 0    | the next one  | len bytes
 *     +------+------+------+------+------+------+------+------ - - - --+-----------
 *                   \________________ n times _________/
 *
 * Memory without a key is reached by internal requests in the other direction, GET and PUT, with
 * RPC_F_INTERNAL and types of their own: the response to a GET is bytes of the memory; a PUT
 * carries bytes for it. Both name the request that has the descriptors by slot and num, and one of
 * the descriptors by index:
 *
 *      0      2      3      4      8      16     20     24
 *     +------+------+------+------+------+------+------+-----------
 *     | slot |index | 0    | num  | off  | len  | 0    | len bytes of PUT
 *     +------+------+------+------+------+------+------+-----------
 *
 * A session has as many slots in each direction as the smaller of the two hellos says, followed by
 * RPC_INTERNAL_SLOTS slots for INTERNAL requests. num counts the requests of a slot; the first is
 * hello.first + 1. A one-way request that fits a packet needs no slot: slot RPC_NO_SLOT, num 0. A
 * response is REFUSED if the library sent it instead of a handler: nothing was executed. A response
 * with EBUSY has 4 bytes: the microseconds after which to try again.
 *
 * The private data of connect and accept begin with a hello; the application's data follow:
 *
 *      0      4       5       6      8        12       16      24
 *     +------+-------+-------+------+--------+--------+-------+
 *     | LRPC |version|refused| slots|features|required| token |
 *     +------+-------+-------+------+--------+--------+-------+
 *      24       28      32       36      38       40      44
 *     +--------+-------+--------+-------+--------+-------+------
 *     | credits| packet| max_msg| epoch |priv len| first | priv
 *     +--------+-------+--------+-------+--------+-------+------
 *
 * The numbers of a hello limit what the other side may send. A feature is used if both sides offer
 * it; a side that lacks a feature which the other requires refuses. A hello whose refused is not 0
 * opens no session: refused is the reason (enum rpc_refusal), and credits the limit, or an errno.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <leat_le.h>

#include "leat_rpc_violation.h"

#define RPC_VERSION 2
#define RPC_HEAD_LEN 16u
#define RPC_ITEM_LEN 16u
#define RPC_PIECE_LEN 24u /* head of an item that is a piece */
/*
 * Slots of INTERNAL requests, after the others. They are separate because other requests can wait
 * for internal ones.
 */
#define RPC_INTERNAL_SLOTS 8u
#define RPC_HELLO_LEN 44u
#define RPC_NO_SLOT 0xffffu
#define RPC_ERRNO_MAX 4095u
#define RPC_US_LATE UINT32_MAX

/* Features. */
#define RPC_FEATURE_LARGE UINT32_C(0x1) /* messages of several packets */
#define RPC_FEATURE_BULK UINT32_C(0x2)	/* memory descriptors and internal requests */
#define RPC_FEATURES (RPC_FEATURE_LARGE | RPC_FEATURE_BULK)

enum rpc_kind {
	RPC_REQUEST = 1,
	RPC_RESPONSE,
	RPC_CANCEL,
	RPC_END,
};

/* bit of kind, on the wire only; in struct rpc_item a piece is an item with len != size */
#define RPC_PIECE 0x80u

#define RPC_F_ONEWAY 0x1u   /* REQUEST */
#define RPC_F_REFUSED 0x2u  /* RESPONSE */
#define RPC_F_BULK 0x4u	    /* REQUEST */
#define RPC_F_INTERNAL 0x8u /* REQUEST: from the library; type is an enum rpc_internal */

enum rpc_internal {
	RPC_BULK_GET = 1,
	RPC_BULK_PUT,
};

#define RPC_BULK_HEAD_LEN 8u
#define RPC_BULK_DESC_LEN 32u
#define RPC_BULK_MSG_LEN 24u

/* A memory descriptor. */
struct rpc_desc {
	uint64_t addr, len, key;
	uint32_t access;
};

/* Head of an internal request. */
struct rpc_bulk_msg {
	uint16_t slot;
	uint8_t index;
	uint32_t num;
	uint64_t off;
	uint32_t len;
};

enum rpc_refusal {
	RPC_REFUSED_NOT = 0,
	RPC_REFUSED_SESSIONS, /* too many sessions; credits: their limit */
	RPC_REFUSED_FEATURES, /* credits: the required features that the acceptor lacks */
	RPC_REFUSED_APP,      /* by the application; credits: an errno */
	RPC_REFUSALS,
};

struct rpc_head {
	uint64_t token;
	uint32_t credit;
	uint16_t epoch;
	uint8_t version;
	uint8_t flags;
};

/* Length of the numbers that follow the head on datagram endpoints. */
#define RPC_NUMBERS_LEN 24u
#define RPC_H_NUMBERED 0x1u
#define RPC_H_PROBE 0x2u
#define RPC_H_ANSWER 0x4u
#define RPC_H_ALL (RPC_H_NUMBERED | RPC_H_PROBE | RPC_H_ANSWER)
/* Maximum number of packets that may be on the way, counted from the first that has not arrived. */
#define RPC_WINDOW_MAX 64u

struct rpc_numbers {
	uint32_t seq;
	uint32_t ack;
	uint64_t sack;
	uint32_t echo;
	uint32_t delay;
};

struct rpc_item {
	uint8_t kind;
	uint8_t type;
	uint16_t slot;
	uint32_t num;
	uint32_t size;
	uint32_t off;
	uint16_t len;
	uint16_t flags;
	uint32_t aux;
};

struct rpc_hello {
	uint8_t version;
	uint8_t refused;
	uint16_t slots;
	uint32_t features, required;
	uint64_t token;
	uint32_t credits;
	uint32_t packet;
	uint32_t max_msg;
	uint16_t epoch;
	uint16_t priv_len;
	uint32_t first;
};

/* Bytes of an item that contains a whole message of len bytes. */
static inline uint32_t
rpc_item_len(uint32_t len)
{
	return RPC_ITEM_LEN + ((len + 7) & ~UINT32_C(7));
}

/* Bytes of an item before those of the message. */
static inline uint32_t
rpc_item_head_len(const struct rpc_item *m)
{
	return m->len == m->size ? RPC_ITEM_LEN : RPC_PIECE_LEN;
}

/* Bytes of an item, with head and padding. */
static inline uint32_t
rpc_item_full_len(const struct rpc_item *m)
{
	return rpc_item_head_len(m) + ((m->len + 7u) & ~7u);
}

static inline void
rpc_head_put(uint8_t *buf, const struct rpc_head *h)
{
	leat_put_le64(buf, h->token);
	leat_put_le64(buf + 8, h->credit | (uint64_t)h->epoch << 32 | (uint64_t)h->version << 48 |
				       (uint64_t)h->flags << 56);
}

/* Read a head. The caller checks the flags. @return 0, or an enum leat_rpc_violation */
static inline int
rpc_head_get(const uint8_t *buf, size_t len, struct rpc_head *h)
{
	uint64_t word;

	if (len < RPC_HEAD_LEN)
		return LEAT_RPC_TRUNCATED;
	word = leat_get_le64(buf + 8);
	h->token = leat_get_le64(buf);
	h->credit = (uint32_t)word;
	h->epoch = (uint16_t)(word >> 32);
	h->version = (uint8_t)(word >> 48);
	h->flags = (uint8_t)(word >> 56);
	return h->version == RPC_VERSION ? 0 : LEAT_RPC_BAD_VERSION;
}

/* Write the numbers behind the head. buf is the start of the packet. */
void rpc_numbers_put(uint8_t *buf, const struct rpc_numbers *n);
/* Read and check the numbers. @return as rpc_head_get() */
int rpc_numbers_get(const uint8_t *buf, size_t len, uint8_t flags, struct rpc_numbers *n);

/*
 * Write an item's head, and zero the padding after its len bytes. The caller writes those bytes,
 * before this call or after it. An item whose len differs from its size is a piece.
 */
void rpc_item_put(uint8_t *buf, const struct rpc_item *m);
/* Read an item, and check all that can be checked without its session. @return as rpc_head_get() */
int rpc_item_get(const uint8_t *buf, size_t len, struct rpc_item *m);

/* Bytes of n descriptors with their head. */
static inline uint32_t
rpc_bulk_len(uint32_t n)
{
	return RPC_BULK_HEAD_LEN + n * RPC_BULK_DESC_LEN;
}

void rpc_descs_put(uint8_t *buf, const struct rpc_desc *d, uint32_t n);
/* Read descriptors. @return their number, 1 to LEAT_RPC_BULK_MAX; < 0: they are invalid */
int rpc_descs_get(const uint8_t *buf, size_t len, struct rpc_desc *d);
void rpc_bulk_msg_put(uint8_t *buf, const struct rpc_bulk_msg *m);
/* Read the head of an internal request. @return 0, or an enum leat_rpc_violation */
int rpc_bulk_msg_get(const uint8_t *buf, size_t len, struct rpc_bulk_msg *m);

void rpc_hello_put(uint8_t *buf, const struct rpc_hello *h);
/* Read and check a hello. @return NULL, or a text that says what is wrong with it */
const char *rpc_hello_get(const uint8_t *buf, size_t len, struct rpc_hello *h);

#endif /* RPC_WIRE_H */
