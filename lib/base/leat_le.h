/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_LE_H
#define LEAT_LE_H

/*
 * Integers in messages: little-endian, at any address. All of leat's own formats use them.
 * Private: not installed.
 */

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline void
leat_put_le16(void *p, uint16_t v)
{
	v = htole16(v);
	memcpy(p, &v, sizeof(v));
}

static inline void
leat_put_le32(void *p, uint32_t v)
{
	v = htole32(v);
	memcpy(p, &v, sizeof(v));
}

static inline void
leat_put_le64(void *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof(v));
}

static inline uint16_t
leat_get_le16(const void *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return le16toh(v);
}

static inline uint32_t
leat_get_le32(const void *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static inline uint64_t
leat_get_le64(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

#endif /* LEAT_LE_H */
