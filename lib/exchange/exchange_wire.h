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
 *      16                                              48      50      52             56
 *     +-----------------------------------------------+-------+-------+--------------+-----
 *     | kind, padded with NUL, at least one           |  blob |  priv | reserved = 0 | blob, priv
 *     +-----------------------------------------------+-------+-------+--------------+-----
 *
 *     REJECT 3, BYE 5:
 *      16              20      22      24
 *     +---------------+-------+-------+------------------
 *     |    reason     |version| text  | text, not terminated
 *     +---------------+-------+-------+------------------
 *
 *     READY 4: no body
 *
 * The body length is exactly that of the parts. Header and REJECT are the same in all versions, so
 * that any version can say which one it speaks.
 */

#include <stddef.h>
#include <stdint.h>

#include "leat_exchange.h"

#define OOB_HDR_LEN 16
/* Longest message, with its header. */
#define OOB_MSG_MAX 1024
#define OOB_HELLO_LEN 40 /* body without blob and priv */
#define OOB_BYE_LEN 8	 /* body without text */
/* Longest text of REJECT and BYE. */
#define OOB_TEXT_MAX 120

enum oob_type {
	OOB_HELLO = 1,
	OOB_ACCEPT = 2,
	OOB_REJECT = 3,
	OOB_READY = 4,
	OOB_BYE = 5,
};

/* Why a REJECT or a BYE. */
enum oob_reason {
	OOB_REASON_NONE = 0,	  /* BYE: closed in order */
	OOB_REASON_REJECTED = 1,  /* the program did not want it */
	OOB_REASON_VERSION = 2,	  /* body's version is the one that is spoken here */
	OOB_REASON_MALFORMED = 3, /* the HELLO was wrong */
	OOB_REASON_BUSY = 4,	  /* too many connections */
};

/* A parsed message; blob, priv and text point into the buffer. */
struct oob_msg {
	uint16_t type;
	uint16_t version; /* of the header */
	/* HELLO, ACCEPT */
	char kind[LEAT_OOB_KIND_MAX];
	const uint8_t *blob;
	const uint8_t *priv;
	uint16_t blob_len;
	uint16_t priv_len;
	/* REJECT, BYE */
	uint32_t reason;
	uint16_t spoken; /* version in the body */
	uint16_t text_len;
	const uint8_t *text;
};

/*
 * Parses the first message of buf. A wrong byte is found as soon as it is there, not only when the
 * message is complete.
 * Returns its length; 0: incomplete so far; -EPROTO: wrong, *why says what; -EPROTONOSUPPORT: of
 * another version, msg->version says which. A pure function.
 */
int oob_wire_parse(const uint8_t *buf, size_t len, struct oob_msg *msg, const char **why);

/* Build a message in buf, which has room for OOB_MSG_MAX bytes. Return its length. */
size_t oob_wire_hello(uint8_t *buf, enum oob_type type, const char *kind,
		      const struct leat_oob_data *data);
size_t oob_wire_bye(uint8_t *buf, enum oob_type type, enum oob_reason reason, const char *text);
size_t oob_wire_ready(uint8_t *buf);

/* Text from the other side for a person's eyes: printable ASCII only, cut to fit. */
void oob_wire_text(char *dst, size_t size, const uint8_t *text, size_t len);

#endif /* EXCHANGE_WIRE_H */
