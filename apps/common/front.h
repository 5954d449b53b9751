/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FRONT_H
#define FRONT_H

/*
 * A program's options that may stand in front of "--", among EAL's: those that need no device, and
 * --json with
 * --list-drivers and --list-devices. Others that stand there are told where they belong.
 */

#include <stdbool.h>

/* leat_app.front */
extern const char *const front_options[];

/*
 * Do options that belong behind "--" stand in front of it? *end: the index of "--", or argc.
 * @return 0, or -EINVAL after a message
 */
int front_check(const char *name, int argc, char **argv, bool (*known)(const char *arg),
		void (*msg)(const char *fmt, ...), int *end);

#endif /* FRONT_H */
