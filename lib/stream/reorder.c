/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Notices of mode WINDOWS. The device may deliver them in any order, but delivers each only when
 * its own bytes are there: so bytes can be read up to the first notice that is missing.
 *
 *     number   0     1     2     3     4
 *     end     300   900    -    1500  1800      next = 2, 900 bytes are there
 *                         1200                  comes: next = 5, 1800 bytes are there
 *
 * A window is written from its beginning to its end. The notice that ends it is followed by one in
 * the next window, so a notice need not name its window.
 *
 * The writer has at most STREAM_NOTICES_MAX notices in flight, half of STREAM_REORDER. So a notice
 * whose number is not in the STREAM_REORDER numbers from `next` on breaks the protocol.
 */

#include "stream_pvt.h"

static bool
take(struct stream_reorder *o, uint8_t seq)
{
	const uint64_t bit = UINT64_C(1) << (seq % 64);
	uint64_t *word = &o->here[seq % STREAM_REORDER / 64];

	if ((*word & bit) == 0)
		return false;
	*word &= ~bit;
	return true;
}

int64_t
stream_reorder_notice(struct leat_stream *s, uint64_t imm)
{
	const uint32_t window = stream_rx_window(s);
	struct stream_reorder *o = s->reorder;
	const uint8_t seq = stream_notice_seq(imm);
	uint64_t *word = &o->here[seq % STREAM_REORDER / 64];
	const uint64_t bit = UINT64_C(1) << (seq % 64);
	int64_t bytes = 0;

	if ((uint8_t)(seq - o->next) >= STREAM_REORDER || (*word & bit) != 0)
		return -EPROTO;
	o->end[seq % STREAM_REORDER] = stream_notice_end(imm);
	*word |= bit;
	while (take(o, o->next)) {
		const uint32_t end = o->end[o->next % STREAM_REORDER];

		if (end <= o->window_off || end > window)
			return -EPROTO;
		bytes += end - o->window_off;
		o->window_off = end == window ? 0 : end;
		o->next++;
	}
	return bytes;
}
