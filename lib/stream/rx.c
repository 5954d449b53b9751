/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The receive window.
 *
 * The peer writes into the registered window, and its notices say how many bytes. This side sees
 * only the notices, so it checks each against the window, in 64 bits. When the reader has read a
 * whole window (in mode WINDOWS: one of the two) it is registered again.
 *
 *     COMPAT    |<----------- one window ------------>|   registered again when all of it was read
 *     WINDOWS   |<-- window 0 -->|<--- window 1 ---->|   each when it was read
 */

#include <stdlib.h>

#include "stream_pvt.h"

uint32_t
stream_rx_window(const struct leat_stream *s)
{
	return s->net->windows ? s->rx_size / STREAM_WINDOWS : s->rx_size;
}

bool
stream_rx_can_register(const struct leat_stream *s)
{
	return s->rx_limit + stream_rx_window(s) - s->rx_taken <= s->rx_size;
}

void
stream_rx_registered(struct leat_stream *s)
{
	s->rx_limit += stream_rx_window(s);
	s->info.rx_registered++;
}

void
stream_rx_notice(struct leat_stream *s, uint64_t imm)
{
	struct leat_stream_net *net = s->net;
	int64_t bytes;

	s->info.rx_notices++;
	STREAM_COUNT(net->stats.rx_notices, 1);
	s->last_heard = net->now;
	if (!net->windows) {
		bytes = (int64_t)(imm & UINT32_MAX);
	} else {
		bytes = stream_reorder_notice(s, imm);
		if (bytes < 0) {
			stream_fail(s, -EPROTO,
				    "a notice with a wrong number or offset (%#" PRIx64 ")", imm);
			return;
		}
	}
	if ((uint64_t)bytes > s->rx_limit - s->rx_got) {
		stream_fail(s, -EPROTO,
			    "a notice of %" PRIi64 " B, where %" PRIu64
			    " B of the window were left",
			    bytes, s->rx_limit - s->rx_got);
		return;
	}
	/* A notice may announce 0 bytes. */
	if (bytes == 0)
		return;
	if ((uint64_t)bytes > s->rx_end - s->rx_got) {
		stream_fail(s, -EPROTO, "bytes after the end of its direction");
		return;
	}
	s->rx_got += (uint64_t)bytes;
	s->info.rx_bytes += (uint64_t)bytes;
	STREAM_COUNT(net->stats.rx_bytes, (uint64_t)bytes);
	s->last_data = net->now;
	stream_ready_touch(s);
}

/* Return the result of a read when no bytes are in the window: 0, -EAGAIN, or the error. */
static ssize_t
nothing(const struct leat_stream *s)
{
	if (s->rx_got == s->rx_end)
		return 0;
	if (s->state < STREAM_ENDING)
		return -EAGAIN;
	return s->error;
}

static inline ssize_t
borrow(const struct leat_stream *s, const void **data)
{
	const uint64_t there = s->rx_got - s->rx_taken;

	*data = s->rx_mem + s->rx_off;
	if (there == 0)
		return nothing(s);
	return (ssize_t)RTE_MIN(there, (uint64_t)(s->rx_size - s->rx_off));
}

ssize_t
leat_stream_borrow(struct leat_stream *s, const void **data)
{
	return borrow(s, data);
}

/* Give back n bytes, at most as many as borrow() returned. */
static inline void
give_back(struct leat_stream *s, size_t n)
{
	s->rx_taken += n;
	s->rx_off += (uint32_t)n;
	if (s->rx_off == s->rx_size)
		s->rx_off = 0;
	if (s->state == STREAM_UP && stream_rx_can_register(s)) {
		s->pending |= PENDING_MEMORY;
		stream_work(s);
	}
}

int
leat_stream_give_back(struct leat_stream *s, size_t n)
{
	if (n > s->rx_got - s->rx_taken || n > s->rx_size - s->rx_off)
		return leat_err(EINVAL,
				"stream %s: %zu B given back, which are more than are there",
				s->addr, n);
	give_back(s, n);
	return 0;
}

ssize_t
leat_stream_read(struct leat_stream *s, void *buf, size_t len)
{
	uint8_t *to = buf;
	size_t got = 0;

	if (len == 0)
		return 0;
	while (got < len) {
		const void *from;
		ssize_t n = borrow(s, &from);

		if (n <= 0)
			return got > 0 ? (ssize_t)got : n;
		n = (ssize_t)RTE_MIN((size_t)n, len - got);
		memcpy(to + got, from, (size_t)n);
		got += (size_t)n;
		give_back(s, (size_t)n);
	}
	return (ssize_t)got;
}
