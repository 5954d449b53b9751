/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNIPPETS_H
#define SNIPPETS_H

/* Code around the blocks of the guides. All of it is C and C++. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <leat_error.h>

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s; %s\n", __FILE__, __LINE__, #cond,              \
				leat_err_msg());                                                   \
			_Exit(1);                                                                  \
		}                                                                                  \
	} while (0)

#endif /* SNIPPETS_H */
