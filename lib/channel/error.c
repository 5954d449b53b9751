/* SPDX-License-Identifier: BSD-3-Clause */

/* Error messages, like those of leat_err() in lib/base, for programs without DPDK. */

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "channel_pvt.h"

static __thread char words[256];

const char *
leat_channel_error(void)
{
	return words;
}

void
chan_set_error(int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (vsnprintf(words, sizeof(words), fmt, ap) < 0)
		words[0] = '\0';
	va_end(ap);
	errno = err;
}

/* Mark the handle broken: nothing in the block can be relied on any more. The process goes on. */
void
chan_set_corrupt(struct leat_channel *ch, const char *what, uint64_t pos)
{
	ch->broken = true;
	if (ch->map != NULL && atomic_load_explicit(&ch->map->truncated, memory_order_acquire)) {
		chan_set_error(EPROTO, "channel: its memory is gone: its file was cut off");
		return;
	}
	chan_set_error(EPROTO,
		       "channel: corrupt at position %" PRIu64
		       ": %s; a participant wrote where it must not",
		       pos, what);
}
