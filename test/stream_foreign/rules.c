/* SPDX-License-Identifier: BSD-3-Clause */

#include <stdio.h>

#include "rules.h"
#include "talk.h"

#define KIB 1024u
#define MIB (1024u * KIB)
#define PATIENCE_MS 30000
#define KEEPALIVE_MS 3000
/* Keepalives may be early or late by this time: the machine may be busy, or emulated. */
#define KEEPALIVE_SLACK_MS 1000
/* The buffers of both sides count as full when no byte has moved for this time. */
#define FULL_MS 1000

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static int
fail(struct conn *c, const char *why)
{
	c->broken = true;
	snprintf(c->why, sizeof(c->why), "%s", why);
	return -1;
}

/* ---- writing ---- */

static int
small_pieces(struct conn *c, bool soak)
{
	static const int64_t pieces[] = { 1, 2, 3, 7, 64, 1, 4095, 4096, 4097, 1, 1, 31, 32, 33 };
	struct talk t = {
		.c = c,
		.seed = 1,
		.total = soak ? 8 * MIB : 256 * KIB,
		.pieces = pieces,
		.n = COUNT(pieces),
	};

	return talk(&t, PATIENCE_MS);
}

/* Write as much as fits, through windows of the lengths in the rule. */
static int
stream(struct conn *c, bool soak)
{
	struct talk t = { .c = c, .seed = 2 };

	t.total = c->rx_len + (soak ? 20 * (uint64_t)c->rx_len : 3 * MIB) + 12345;
	return talk(&t, PATIENCE_MS);
}

/*
 * Writes that end at the end of the server's window, one byte before it or one byte after it, and
 * writes that then have room for a single byte.
 */
static int
window_end(struct conn *c, bool soak)
{
	static const int64_t pieces[] = {
		100, AT_END(0), 1, AT_END(-1), 1, AT_END(1), AT_END(-1), 2, AT_END(0), AT_END(1),
	};
	struct talk t = { .c = c, .seed = 3, .pieces = pieces, .n = COUNT(pieces) };

	t.total = c->peer.length * (soak ? UINT64_C(30) : UINT64_C(7)) + 777;
	return talk(&t, PATIENCE_MS);
}

/* As window_end(), for this side's window: the server sends back each write as a whole. */
static int
own_window_end(struct conn *c, bool soak)
{
	static const int64_t pieces[] = {
		65536, 65535, 1, 65537, 65535, 65535, 2, 65536, 100, 65435, 1,
	};
	struct talk t = {
		.c = c,
		.seed = 4,
		.total = UINT64_C(65536) * (soak ? 200 : 14) + 1,
		.pieces = pieces,
		.n = COUNT(pieces),
		.in_turn = true,
	};

	return talk(&t, PATIENCE_MS);
}

/* WRITEs without a notice, then a WRITE whose notice counts the bytes of all of them. */
static int
many_writes(struct conn *c, bool soak)
{
	static const int64_t pieces[] = { 5, 100000, 64, AT_END(0), 7, 65536, AT_END(1) };
	struct talk t = {
		.c = c,
		.seed = 5,
		.total = c->peer.length * (soak ? UINT64_C(20) : UINT64_C(2)) + 11,
		.pieces = pieces,
		.n = COUNT(pieces),
		.writes = 5,
	};

	return talk(&t, PATIENCE_MS);
}

static int
in_turn(struct conn *c, bool soak)
{
	static const int64_t pieces[] = { 1, 64, 1000, 16384 };
	struct talk t = {
		.c = c,
		.seed = 6,
		.total = UINT64_C(17449) * (soak ? 1000 : 30),
		.pieces = pieces,
		.n = COUNT(pieces),
		.in_turn = true,
	};

	return talk(&t, PATIENCE_MS);
}

/* ---- reading ---- */

static int
byte_reader(struct conn *c, bool soak)
{
	struct talk t = {
		.c = c,
		.seed = 7,
		.total = soak ? 2 * MIB : 140 * KIB,
		.read_max = 1,
	};

	return talk(&t, PATIENCE_MS);
}

/*
 * Read nothing for 1.5 s (in a soak 10 s). Then read to the end: no byte may be lost.
 */
static int
paused_reader(struct conn *c, bool soak)
{
	uint64_t until = now_ms() + (soak ? 10000 : 1500);
	struct talk t = { .c = c, .seed = 8, .total = 3 * MIB, .hold = true };

	while (now_ms() < until) {
		if (talk_turn(&t) < 0 || conn_step(c, 20) != 0)
			return -1;
	}
	t.hold = false;
	return talk(&t, PATIENCE_MS);
}

/*
 * Write as much as the server accepts, and read nothing, until the server's window and this side's
 * are full. When no byte has moved for FULL_MS, read to the end.
 */
static int
both_full(struct conn *c, bool soak)
{
	struct talk t = { .c = c, .seed = 9, .total = 80 * MIB, .hold = true };
	uint64_t start = now_ms(), full = 0;

	while (full == 0 || now_ms() - full < FULL_MS) {
		int ret = talk_turn(&t);

		if (ret < 0 || conn_step(c, ret > 0 ? 0 : 20) != 0)
			return -1;
		if (ret > 0 || conn_room(c) > 0 || c->rx_arrived < c->rx_len)
			full = 0;
		else if (full == 0)
			full = now_ms();
		if (now_ms() - start > PATIENCE_MS)
			return fail(c, "it took too long until both sides were full");
		if (talk_done(&t) || c->tx_total == t.total)
			return fail(c, "the server takes bytes without end");
	}
	t.hold = false;
	/* Shorten the talk: end it 1 MiB (in a soak 16 MiB) after the bytes already written. */
	t.total = c->tx_total + (soak ? 16 : 1) * MIB;
	return talk(&t, PATIENCE_MS);
}

/* ---- control messages ---- */

/* The server sends a keepalive every 3 s; those of a client are accepted. */
static int
keepalives(struct conn *c, bool soak)
{
	const int64_t piece = 1000;
	struct talk t = { .c = c, .seed = 10, .total = 20000, .pieces = &piece, .n = 1 };
	uint64_t i, ms;

	for (i = 0; i < 20; i++) {
		if (conn_keepalive(c) != 0)
			return -1;
	}
	if (talk(&t, PATIENCE_MS) != 0)
		return -1;
	for (i = 2; i <= (soak ? 10 : 3); i++) {
		if (!conn_wait(c, 3 * KEEPALIVE_MS, conn_keepalives, i))
			return c->broken ? -1 : fail(c, "no keepalive came");
		ms = c->keepalive_at - c->keepalive_before;
		if (ms < KEEPALIVE_MS - KEEPALIVE_SLACK_MS ||
		    ms > KEEPALIVE_MS + KEEPALIVE_SLACK_MS) {
			c->broken = true;
			snprintf(c->why, sizeof(c->why), "%llu ms between two keepalives",
				 (unsigned long long)ms);
			return -1;
		}
	}
	return 0;
}

static int
features(struct conn *c, bool soak)
{
	static const uint16_t selects[] = { 0, 1, 0xffff };
	struct talk t = { .c = c, .seed = 11, .total = 100 * KIB };
	uint8_t msg[CONTROL_LEN];
	unsigned int i;

	(void)soak;
	for (i = 0; i < COUNT(selects); i++) {
		wire_put_feature(msg, OP_GET_SERVER_FEATURE, selects[i], 0);
		if (c->conf.noisy)
			memset(msg + 4, 0xa5, 20);
		if (conn_control(c, msg, sizeof(msg)) != 0)
			return -1;
		if (!conn_wait(c, PATIENCE_MS, conn_answers, i + 1))
			return c->broken ? -1 : fail(c, "no answer");
		if (wire_get(c->answer + 2, 2) != selects[i])
			return fail(c, "the answer has another select");
		/* Features of the first 64 bits belong to the protocol, which has defined none. */
		if (selects[i] == 0 && wire_get(c->answer + 24, 8) != 0)
			return fail(c, "the answer has features that nobody knows");
		wire_put_feature(msg, OP_SET_CLIENT_FEATURE, selects[i], 0);
		if (c->conf.noisy)
			memset(msg + 4, 0x5a, 20);
		if (conn_control(c, msg, sizeof(msg)) != 0)
			return -1;
	}
	if (talk(&t, PATIENCE_MS) != 0)
		return -1;
	return c->answers == COUNT(selects) ? 0 : fail(c, "there were more answers than questions");
}

static int
noise(struct conn *c, bool soak)
{
	return conn_keepalive(c) == 0 && features(c, soak) == 0 ? 0 : -1;
}

const struct rule rules[] = {
	{ .name = "small-pieces", .run = small_pieces },
	{ .name = "window-64K", .run = stream, .windows = { 64 * KIB } },
	{ .name = "window-1M", .run = stream, .windows = { MIB } },
	{ .name = "window-16M", .run = stream, .windows = { 16 * MIB } },
	{ .name = "windows-grow",
	  .run = stream,
	  .windows = { 64 * KIB, 65537, 128 * KIB, 300000, MIB, 2 * MIB } },
	{ .name = "windows-shrink",
	  .run = stream,
	  .windows = { MIB, 999999, 256 * KIB, 65537, 64 * KIB } },
	{ .name = "windows-odd",
	  .run = own_window_end,
	  .windows = { 65537, 64 * KIB, 70001, 64 * KIB, MIB, 65539 } },
	{ .name = "window-end", .run = window_end },
	{ .name = "own-window-end", .run = own_window_end, .windows = { 64 * KIB } },
	{ .name = "many-writes", .run = many_writes },
	{ .name = "in-turn", .run = in_turn, .windows = { 64 * KIB } },
	{ .name = "byte-reader", .run = byte_reader, .windows = { 64 * KIB } },
	{ .name = "paused-reader", .run = paused_reader, .windows = { 64 * KIB } },
	{ .name = "both-full", .run = both_full, .windows = { 64 * KIB } },
	{ .name = "features", .run = features, .asks = true },
	{ .name = "noise",
	  .run = noise,
	  .windows = { 64 * KIB, 128 * KIB },
	  .asks = true,
	  .noisy = true },
	{ .name = "keepalives", .run = keepalives },
};
const unsigned int rules_n = COUNT(rules);

void
rule_conf(const struct rule *r, struct conn_conf *conf)
{
	struct windows *w = &conf->windows;

	while (w->n < WINDOWS_MAX && r->windows[w->n] != 0) {
		w->len[w->n] = r->windows[w->n];
		w->n++;
	}
	if (w->n == 0)
		w->len[w->n++] = MIB;
	conf->asks = r->asks;
	conf->noisy = r->noisy;
}
