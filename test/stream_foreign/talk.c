/* SPDX-License-Identifier: BSD-3-Clause */

#include <stdio.h>

#include "talk.h"

/* Return the length of the next piece. */
static uint64_t
next_piece(struct talk *t)
{
	int64_t len, room = conn_room(t->c);

	if (t->n == 0)
		return (uint64_t)room;
	len = t->pieces[t->next++ % t->n];
	if (len < 0)
		len = room + (len - AT_END(0));
	/* AT_END(-1) with room for one byte would give an empty piece. */
	return len > 0 ? (uint64_t)len : 1;
}

static int
turn_write(struct talk *t)
{
	struct conn *c = t->c;
	uint64_t len;

	if (c->tx_total == t->total || conn_room(c) == 0 || !conn_idle_slot(c) || c->closed)
		return 0;
	if (t->left == 0) {
		if (t->in_turn && c->rx_total < c->tx_total)
			return 0;
		t->left = next_piece(t);
	}
	len = t->left;
	if (len > t->total - c->tx_total)
		len = t->total - c->tx_total;
	if (len > conn_room(c))
		len = conn_room(c);
	if (conn_write(c, t->seed, (uint32_t)len, t->writes != 0 ? t->writes : 1) != 0)
		return -1;
	t->left -= len < t->left ? len : t->left;
	return 1;
}

int
talk_turn(struct talk *t)
{
	int wrote = turn_write(t);
	int64_t n = 0;

	if (wrote < 0)
		return -1;
	if (!t->hold) {
		n = conn_read(t->c, t->seed, t->read_max != 0 ? t->read_max : UINT32_MAX);
		if (n < 0)
			return -1;
	}
	return wrote > 0 || n > 0;
}

int
talk(struct talk *t, uint64_t patience_ms)
{
	struct conn *c = t->c;
	uint64_t last = now_ms();

	while (!talk_done(t)) {
		int ret = talk_turn(t);

		if (ret < 0)
			return -1;
		if (ret > 0)
			last = now_ms();
		if (conn_step(c, ret > 0 ? 0 : 50) != 0 && !c->broken && conn_readable(c) == 0) {
			c->broken = true;
			snprintf(c->why, sizeof(c->why),
				 "it ended (%s) after %llu bytes written and %llu read",
				 ibv_wc_status_str(c->wc_status), (unsigned long long)c->tx_total,
				 (unsigned long long)c->rx_total);
		}
		if (!c->broken && now_ms() - last > patience_ms) {
			c->broken = true;
			snprintf(c->why, sizeof(c->why),
				 "nothing more after %llu bytes written and %llu read",
				 (unsigned long long)c->tx_total, (unsigned long long)c->rx_total);
		}
		if (c->broken)
			return -1;
	}
	return 0;
}
