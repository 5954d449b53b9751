/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RENDEZVOUS_RECORD_H
#define RENDEZVOUS_RECORD_H

/*
 * Format of the records that processes exchange: each is a file, or a value of PMIx. All numbers
 * are little-endian.
 *
 *      0               4       6       8                              16
 *     +---+---+---+---+-------+-------+-------------------------------+
 *     | L   R   D   V |version| kind  |            session            |
 *     +---+---+---+---+-------+-------+-------------------------------+
 *     |             nonce             |             round             |
 *     +---------------+---------------+---------------+---------------+ 32
 *     |         round of state        |     rank      |     size      |
 *     +---------------+---------------+---------------+---------------+ 48
 *     |     flags     |      pid      |  body length  |       0       |
 *     +---------------+---------------+---------------+---------------+ 64
 *     | host, padded with NUL, at least one                           |
 *     +---------------------------------------------------------------+ 128
 *     | body
 *
 *     Kind RANK (1): the round of a process; and, if flags has STATE, the body with its values:
 *         number of keys, 2 bytes; then for each
 *         +-------+-------+---------------+-----+------
 *         |key len|   0   |  value length | key | value
 *         +-------+-------+---------------+-----+------
 *         1       1       2
 *
 *     Kind SESSION (2), written by rank 0: the state of a run, in flags (enum record_session).
 *     While the session is open it has no body. Later the body has the nonce of each rank, 8 bytes
 *     each (0: that rank has not joined), then a text for the other ranks' error messages.
 *
 * The state of a process is the values that it has put; the round of state is the last round in
 * which they changed. PMIx has no sessions: session and nonce are 0 there.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leat_rendezvous.h"

#define RECORD_HDR_LEN 128
#define RECORD_HOST_MAX 64
/* Longest text for messages in a SESSION record, bytes, without terminator. */
#define RECORD_TEXT_MAX 180

#define RECORD_STATE_MAX                                                                           \
	(2 +                                                                                       \
	 LEAT_RENDEZVOUS_KEYS_MAX * (4 + LEAT_RENDEZVOUS_KEY_MAX - 1 + LEAT_RENDEZVOUS_VALUE_MAX))
/* Longest record of a rank, and of a session, bytes. */
#define RECORD_RANK_MAX (RECORD_HDR_LEN + RECORD_STATE_MAX)
#define RECORD_SESSION_LEN(size) (RECORD_HDR_LEN + 8 * (size_t)(size) + RECORD_TEXT_MAX)

enum record_kind {
	RECORD_RANK = 1,
	RECORD_SESSION = 2,
};

/* Flags of a rank. */
#define RECORD_LEFT 1u	/* the process has closed its rendezvous: it will reach no later round */
#define RECORD_STATE 2u /* the body has the values */

/* Flags of a session. */
enum record_session {
	RECORD_OPEN = 0,
	RECORD_COMPLETE = 1, /* all ranks have joined */
	RECORD_REFUSED = 2,  /* the sizes of two ranks differ */
	RECORD_TIMEOUT = 3,  /* not all ranks joined in time */
};

/* A parsed record; state, nonces and text point into the buffer. */
struct record {
	uint16_t kind;
	uint64_t session;
	uint64_t nonce;	      /* nonce of the writer */
	uint64_t round;	      /* number of fences that the writer has reached */
	uint64_t state_round; /* last round in which the writer's values changed */
	uint32_t rank;
	uint32_t size;
	uint32_t flags;
	uint32_t pid;
	char host[RECORD_HOST_MAX];
	const uint8_t *state; /* RECORD_STATE */
	uint32_t state_len;
	const uint8_t *nonces; /* size nonces, of a session that is not open */
	const char *text;
	uint32_t text_len;
};

/* Parse a record that fills buf. Return 0, or -EPROTO: *why says what is wrong. A pure function. */
int record_parse(const uint8_t *buf, size_t len, struct record *rec, const char **why);

/*
 * Build a record in buf; RECORD_RANK_MAX or RECORD_SESSION_LEN() bytes are enough. Return its
 * length.
 */
size_t record_build(uint8_t *buf, const struct record *rec);

uint64_t record_nonce(const struct record *rec, uint32_t rank);

/* Is name 1 to max - 1 letters, digits and any of "._-"? */
bool record_name_ok(const char *name, size_t max);

/* A value and its key, packed as in a record. */
struct record_value {
	const char *key; /* not terminated */
	uint8_t key_len;
	const uint8_t *data;
	uint16_t len;
};

/*
 * Get the next value; *at is 0 at first. Return false after the last. The state must come
 * from record_parse() or record_state_build().
 */
bool record_state_next(const uint8_t *state, uint32_t len, uint32_t *at, struct record_value *v);

/* Pack n values into RECORD_STATE_MAX bytes. Return the length. */
uint32_t record_state_build(uint8_t *state, const struct record_value *v, unsigned int n);

#endif /* RENDEZVOUS_RECORD_H */
