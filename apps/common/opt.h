/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef OPT_H
#define OPT_H

/*
 * Values of options. What is wrong with one is said by the program's msg; opt is the option as its
 * user wrote it: "--calls".
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

struct option;

typedef void (*opt_msg_fn)(const char *fmt, ...);

/* Print a line on stderr: the body of a program's msg. */
void opt_print(const char *name, const char *fmt, va_list ap);
/* Is it one of these long options? arg begins with "--". */
bool opt_known(const struct option *options, const char *arg);

/* Say that val is not what is wanted. @return -EINVAL */
int opt_bad(opt_msg_fn msg, const char *opt, const char *val, const char *want);
/* A number from min to max, as num_parse_count(). @return 0, or -EINVAL after a message */
int opt_count(opt_msg_fn msg, const char *opt, const char *val, uint64_t min, uint64_t max,
	      uint64_t *out);
int opt_count32(opt_msg_fn msg, const char *opt, const char *val, uint32_t min, uint32_t max,
		uint32_t *out);
/* A number of seconds, 0.001 to 86400. @return the same; *us: microseconds */
int opt_seconds(opt_msg_fn msg, const char *opt, const char *val, uint64_t *us);

#endif /* OPT_H */
