/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef OPT_H
#define OPT_H

/*
 * Parse the values of options. Errors are printed by msg(), a function of the program; opt is the
 * option with its dashes, such as "--calls".
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

struct option;

typedef void (*opt_msg_fn)(const char *fmt, ...);

/* Print a line on stderr, headed by the program's name: the body of a program's msg(). */
void opt_print(const char *name, const char *fmt, va_list ap);
/* Is arg, which begins with "--", one of these long options, with or without "=value"? */
bool opt_known(const struct option *options, const char *arg);

/* Print that val is not `want` ("a number"). @return -EINVAL */
int opt_bad(opt_msg_fn msg, const char *opt, const char *val, const char *want);
/*
 * Parse a number from min to max, as num_parse_count(). @return 0, or -EINVAL after printing a
 * message
 */
int opt_count(opt_msg_fn msg, const char *opt, const char *val, uint64_t min, uint64_t max,
	      uint64_t *out);
int opt_count32(opt_msg_fn msg, const char *opt, const char *val, uint32_t min, uint32_t max,
		uint32_t *out);
/*
 * Parse seconds, 0.001 to 86400, into microseconds. @return 0, or -EINVAL after printing a message
 */
int opt_seconds(opt_msg_fn msg, const char *opt, const char *val, uint64_t *us);

#endif /* OPT_H */
