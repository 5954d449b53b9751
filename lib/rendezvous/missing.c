/* SPDX-License-Identifier: BSD-3-Clause */

/* Write ranks as text: "2, 5-7, and 12 more". */

#include <stdio.h>
#include <string.h>

#include "rendezvous_pvt.h"

/* Room for ", and 16384 more". */
#define MORE_LEN 18

uint32_t
rendezvous_ranks_text(char *dst, size_t size, uint32_t ranks,
		      bool (*is)(const void *arg, uint32_t rank), const void *arg)
{
	uint32_t r, last, n = 0, told = 0;
	size_t at = 0, len;
	bool full = false;
	char one[32];

	dst[0] = '\0';
	for (r = 0; r < ranks; r++) {
		if (!is(arg, r))
			continue;
		for (last = r; last + 1 < ranks && is(arg, last + 1);)
			last++;
		n += last - r + 1;
		if (last == r)
			snprintf(one, sizeof(one), "%s%" PRIu32, at > 0 ? ", " : "", r);
		else
			snprintf(one, sizeof(one), "%s%" PRIu32 "-%" PRIu32, at > 0 ? ", " : "", r,
				 last);
		len = strlen(one);
		full = full || at + len + MORE_LEN > size;
		if (!full) {
			memcpy(dst + at, one, len + 1);
			at += len;
			told = n;
		}
		r = last;
	}
	if (told < n)
		snprintf(dst + at, size - at, ", and %" PRIu32 " more", n - told);
	return n;
}
