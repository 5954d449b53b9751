/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FRONT_H
#define FRONT_H

/*
 * A program's options that may stand in front of "--", among EAL's arguments: --help, --version,
 * --list-drivers, --list-devices, and --json together with one of the lists. For any other option
 * of the program there, a message says that it belongs after "--".
 */

#include <stdbool.h>

/* For leat_app.front; ends with NULL. */
extern const char *const front_options[];

/*
 * Check that no option that belongs after "--" stands in front of it. known() tells whether an
 * argument is an option of the program, msg() prints.
 * @return 0 with *end set to the index of "--", or argc; or -EINVAL after printing a message
 */
int front_check(const char *name, int argc, char **argv, bool (*known)(const char *arg),
		void (*msg)(const char *fmt, ...), int *end);

#endif /* FRONT_H */
