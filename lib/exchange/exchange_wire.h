/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXCHANGE_WIRE_H
#define EXCHANGE_WIRE_H

/*
 * Messages of the address exchange, byte by byte. All numbers are little-endian.
 *
 *      0               4       6       8              12              16
 *     +---+---+---+---+-------+-------+---------------+---------------+
 *     | L   E   A   T |version| type  |   flags = 0   |  body length  |   header, 16 bytes
 *     +---+---+---+---+-------+-------+---------------+---------------+
 *
 *     HELLO 1, ACCEPT 2:
 *      16                                              48      50      52      54     56
 *     +-----------------------------------------------+-------+-------+--------------+-----
 *     | kind, padded with one NUL or more             |  blob |  priv | proof |  0   | blob, priv,
 *     +-----------------------------------------------+-------+-------+-------+------+ proof
 *
 *     REJECT 3, BYE 5:
 *      16              20      22      24
 *     +---------------+-------+-------+------------------
 *     |    reason     |version| text  | text, not terminated
 *     +---------------+-------+-------+------------------
 *
 *     READY 4, PROOF 6, NOTE 7: no body
 *
 * Bytes 48 to 53, and bytes 22 to 23 of REJECT and BYE, are the lengths of the parts that follow.
 * The body length is exactly the sum of its parts. Header and REJECT are the same in all versions,
 * so that each version can say which version it speaks. NOTE, and descriptors with HELLO and
 * ACCEPT, are for UNIX sockets only; the parser accepts NOTE on any transport.
 */

#include <stddef.h>
#include <stdint.h>

#include "leat_exchange.h"

#define EXCHANGE_HDR_LEN 16
/* Longest message with its header, bytes. */
#define EXCHANGE_MSG_MAX 1024
#define EXCHANGE_HELLO_LEN 40 /* body without blob, priv and proof */
#define EXCHANGE_BYE_LEN 8    /* body without text */
/* Longest text of REJECT and BYE, bytes. */
#define EXCHANGE_TEXT_MAX 120

enum exchange_type {
	EXCHANGE_HELLO = 1,
	EXCHANGE_ACCEPT = 2,
	EXCHANGE_REJECT = 3,
	EXCHANGE_READY = 4,
	EXCHANGE_BYE = 5,
	EXCHANGE_PROOF = 6,
	EXCHANGE_NOTE = 7,
};

/* Reason of a REJECT or a BYE. */
enum exchange_reason {
	EXCHANGE_REASON_NONE = 0,      /* BYE: closed cleanly */
	EXCHANGE_REASON_REJECTED = 1,  /* the program rejected the request */
	EXCHANGE_REASON_VERSION = 2,   /* the sender speaks only the version in the body */
	EXCHANGE_REASON_MALFORMED = 3, /* the HELLO was malformed */
	EXCHANGE_REASON_BUSY = 4,      /* too many connections */
	EXCHANGE_REASON_USER = 5,      /* the connector's process belongs to another user */
};

/* A parsed message; blob, priv, proof and text point into the buffer. */
struct exchange_msg {
	uint16_t type;
	uint16_t version; /* version in the header */
	/* HELLO, ACCEPT */
	char kind[LEAT_EXCHANGE_KIND_MAX];
	const uint8_t *blob;
	const uint8_t *priv;
	const uint8_t *proof;
	uint16_t blob_len;
	uint16_t priv_len;
	uint16_t proof_len;
	/* REJECT, BYE */
	uint32_t reason;
	uint16_t spoken; /* version in the body */
	uint16_t text_len;
	const uint8_t *text;
};

/*
 * Parse the first message of buf. Wrong magic bytes are found as soon as they have arrived, a wrong
 * header when it is complete, a wrong body when the message is complete.
 * Returns the message's length; 0: incomplete so far; -EPROTO: invalid, for the reason *why;
 * -EPROTONOSUPPORT: of a different version, msg->version. A pure function.
 */
int exchange_wire_parse(const uint8_t *buf, size_t len, struct exchange_msg *msg, const char **why);

/* Build a message in buf, which has room for EXCHANGE_MSG_MAX bytes. Return its length. */
size_t exchange_wire_hello(uint8_t *buf, enum exchange_type type, const char *kind,
			   const struct leat_exchange_data *data);
size_t exchange_wire_bye(uint8_t *buf, enum exchange_type type, enum exchange_reason reason,
			 const char *text);
/* Build READY, PROOF or NOTE, which have no body. */
size_t exchange_wire_empty(uint8_t *buf, enum exchange_type type);

/* Copy text from the other side for people to read: printable ASCII only, cut to fit. */
void exchange_wire_text(char *dst, size_t size, const uint8_t *text, size_t len);

#endif /* EXCHANGE_WIRE_H */
