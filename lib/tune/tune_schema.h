/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TUNE_SCHEMA_H
#define TUNE_SCHEMA_H

/*
 * Schemas inside lib/tune: the registered schemas, and values of their fields.
 *
 *     schema.c   the list of schemas; the check of settings that change together
 *     message.c  C structure <-> message
 *     value.c    C structure <-> text, bounds
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leat_tune_schema.h"

/* Maximum number of schemas; registering one more is refused, and logged. */
#define TUNE_SCHEMAS_MAX 128

/* Find the schema of a component; NULL: none. Any thread. */
const struct leat_tune_schema *tune_schema_find(const char *component);

/* Get schema i, in the order of registration; NULL: i is past the last. Any thread. */
const struct leat_tune_schema *tune_schema_at(unsigned int i);

/*
 * Get the edit distance of two names: fewest characters to insert, delete and replace. Only the
 * first 64 of each name are compared.
 */
unsigned int tune_distance(const char *a, const char *b);

/*
 * Return a field of a C structure as the 8-byte number that a message has for it. The field must
 * not be a string or a histogram.
 */
uint64_t tune_value_get(const struct leat_tune_field *f, const void *from);
/* Write a checked value to a C structure. */
void tune_value_put(const struct leat_tune_field *f, uint64_t v, void *to);
/*
 * Check whether v, as tune_value_get() returns it, is a valid value of the setting, which is not a
 * string.
 * @return 0; -EINVAL, -ERANGE with leat_err_msg()
 */
int tune_value_check(const struct leat_tune_schema *schema, const struct leat_tune_field *f,
		     uint64_t v);
/* Get the special value that equals v; NULL: none. */
const struct leat_tune_special *tune_value_special(const struct leat_tune_field *f, uint64_t v);

static inline double
tune_bits_to_real(uint64_t bits)
{
	double real;

	__builtin_memcpy(&real, &bits, sizeof(real));
	return real;
}

static inline uint64_t
tune_real_to_bits(double real)
{
	uint64_t bits;

	__builtin_memcpy(&bits, &real, sizeof(bits));
	return bits;
}

/*
 * Check that all of text is UTF-8 without control characters. These could split a line of a
 * settings file, or send commands to the terminal of a user who prints a setting.
 */
bool tune_is_text(const char *text, size_t len);

#endif /* TUNE_SCHEMA_H */
