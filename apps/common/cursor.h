/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CURSOR_H
#define CURSOR_H

/*
 * The position in a little-endian message that is written or read. An access past the end copies
 * nothing, and sets `over`; reads then return 0 or "". So the parser of a hostile message reads all
 * fields, and checks `over` once.
 */

#include <ctype.h>
#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct cursor {
	uint8_t *p;
	size_t left;
	bool over;
};

/* Create a cursor for reading: buf is not written. */
static inline struct cursor
cursor_of(const void *buf, size_t len)
{
	return (struct cursor){ .p = (uint8_t *)(uintptr_t)buf, .left = len };
}

static inline void
put(struct cursor *c, uint64_t v, unsigned int bytes)
{
	v = htole64(v);
	if (c->left < bytes) {
		c->over = true;
		return;
	}
	memcpy(c->p, &v, bytes);
	c->p += bytes;
	c->left -= bytes;
}

static inline uint64_t
get(struct cursor *c, unsigned int bytes)
{
	uint64_t v = 0;

	if (c->left < bytes) {
		c->over = true;
		return 0;
	}
	memcpy(&v, c->p, bytes);
	c->p += bytes;
	c->left -= bytes;
	return le64toh(v);
}

/* Write s into a field of `room` bytes, cut to fit, and pad the field with NUL, at least one. */
static inline void
put_str(struct cursor *c, const char *s, size_t room)
{
	size_t n = strnlen(s, room - 1);

	if (c->left < room) {
		c->over = true;
		return;
	}
	memset(c->p, 0, room);
	memcpy(c->p, s, n);
	c->p += room;
	c->left -= room;
}

/*
 * Read a string from a field of `room` bytes. Strings of a peer may be printed on a terminal:
 * unprintable bytes become '?'.
 */
static inline void
get_str(struct cursor *c, char *s, size_t room)
{
	size_t i;

	s[0] = '\0';
	if (c->left < room) {
		c->over = true;
		return;
	}
	for (i = 0; i + 1 < room && c->p[i] != '\0'; i++)
		s[i] = isascii(c->p[i]) && isprint(c->p[i]) ? (char)c->p[i] : '?';
	s[i] = '\0';
	c->p += room;
	c->left -= room;
}

#endif /* CURSOR_H */
