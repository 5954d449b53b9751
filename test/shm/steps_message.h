/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STEPS_MESSAGE_H
#define STEPS_MESSAGE_H

/*
 * A message begins with a magic word, its sender, its number and its length. The bytes after these
 * are a pattern made from the number.
 */

#include <inttypes.h>
#include <string.h>

#include "steps.h"

#define STEPS_MAGIC 0x73746570u

struct steps_message {
	uint32_t magic, role;
	uint64_t nr, size;
};

static inline uint8_t
steps_byte(uint64_t i, uint64_t nr)
{
	return (uint8_t)(nr * 31 + i * 7 + (i >> 8));
}

static inline void
steps_fill(uint8_t *buf, uint64_t size, uint64_t nr)
{
	uint64_t i;

	for (i = 0; i < size; i++)
		buf[i] = steps_byte(i, nr);
}

/* @return how many bytes at the beginning of buf have the pattern of nr */
static inline uint64_t
steps_same(const uint8_t *buf, uint64_t size, uint64_t nr)
{
	uint64_t i;

	for (i = 0; i < size && buf[i] == steps_byte(i, nr); i++)
		;
	return i;
}

static inline void
steps_message_fill(uint8_t *buf, uint64_t size, enum steps_role role, uint64_t nr)
{
	const struct steps_message m = {
		.magic = STEPS_MAGIC, .role = role, .nr = nr, .size = size
	};

	steps_fill(buf, size, nr);
	memcpy(buf, &m, sizeof(m));
}

/* Check that the message is whole and of that sender. @return its number */
static inline uint64_t
steps_message_check(const uint8_t *buf, uint64_t len, enum steps_role role)
{
	struct steps_message m;
	uint64_t i;

	CHECK(len >= sizeof(m), "a message of %" PRIu64 " B", len);
	memcpy(&m, buf, sizeof(m));
	CHECK(m.magic == STEPS_MAGIC && m.role == role && m.size == len,
	      "torn: a message of %" PRIu64 " B from %d says %" PRIu64 " B from %u", len, (int)role,
	      m.size, m.role);
	for (i = sizeof(m); i < len; i++)
		CHECK(buf[i] == steps_byte(i, m.nr),
		      "torn: message %" PRIu64 " of %" PRIu64 " B from %d: byte %" PRIu64, m.nr,
		      len, (int)role, i);
	return m.nr;
}

#endif /* STEPS_MESSAGE_H */
