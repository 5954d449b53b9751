/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TUNE_SCHEMA_H
#define TUNE_SCHEMA_H

/*
 * Schemas inside lib/tune: those that are registered, and values of their fields.
 *
 *     schema.c   the list of schemas; which settings may be changed together
 *     message.c  C structure <-> message
 *     value.c    C structure <-> text, bounds
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leat_tune_schema.h"

/* Schemas at most; later ones are not registered, which is logged. */
#define TUNE_SCHEMAS_MAX 128

/* The schema of a component; NULL: there is none. Any thread. */
const struct leat_tune_schema *tune_schema_find(const char *component);

/* Schema i, in the order of registration; NULL: there are no more. Any thread. */
const struct leat_tune_schema *tune_schema_at(unsigned int i);

/* Fewest characters to insert, delete and replace; only the first 64 of each name are compared. */
unsigned int tune_distance(const char *a, const char *b);

/* A value as the message has it, of a C structure; neither strings nor histograms. */
uint64_t tune_value_get(const struct leat_tune_field *f, const void *from);
/* Write a value to a C structure. It was checked. */
void tune_value_put(const struct leat_tune_field *f, uint64_t v, void *to);
/*
 * Is this a value of the setting? Neither strings nor histograms.
 * @return 0; -EINVAL, -ERANGE with leat_err_msg()
 */
int tune_value_check(const struct leat_tune_schema *schema, const struct leat_tune_field *f,
		     uint64_t v);
/* The special value that v is; NULL: none. */
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
 * Is it UTF-8, from the first to the last byte, without control characters? These would make two
 * lines of one in a settings file, and do things to the terminal of who looks at a setting.
 */
bool tune_is_text(const char *text, size_t len);

#endif /* TUNE_SCHEMA_H */
