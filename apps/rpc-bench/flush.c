/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The end of one-way calls: each caller asks the peer how many of its calls the peer has handled.
 * The question is sent after the calls, so the peer has usually handled all when it answers.
 */

#include <string.h>

#include <leat_rpc_task.h>

#include "../common/cursor.h"
#include "bench.h"

/* Interval and maximum number of questions. A question may overtake calls: then ask again. */
#define AGAIN_US 1000
#define AGAIN_MAX 1000u

int
rb_flush_handle(struct leat_rpc_incoming *call, void *node)
{
	const struct rb_peer *p = leat_rpc_session_user(call->session);
	struct cursor c = cursor_of(call->resp, call->room);

	(void)node;
	put(&c, p->oneway_got, 8);
	call->resp_len = 8;
	return c.over ? -EMSGSIZE : 0;
}

static void
flush(struct rb_node *n, struct rb_peer *p)
{
	uint64_t got = 0;
	uint8_t buf[8];
	struct cursor c;
	uint32_t i;
	int ret = 0;

	for (i = 0; i < AGAIN_MAX && p->session != NULL; i++) {
		ret = leat_rpc_call(p->session, RB_TYPE_FLUSH, NULL, 0, buf, sizeof(buf), 0);
		c = cursor_of(buf, sizeof(buf));
		got = ret == sizeof(buf) ? get(&c, 8) : 0;
		if (ret == -ECANCELED || (ret >= 0 && got >= p->oneway_sent))
			return;
		if (ret < 0 && ret != -EBUSY)
			break;
		if (leat_task_sleep(AGAIN_US) < 0)
			return;
	}
	if (ret < 0 || p->session == NULL) {
		p->failed++;
		rb_tally_status(&n->tally, ret < 0 ? ret : -ENOTCONN);
	} else {
		n->tally.lost += p->oneway_sent - got;
	}
}

void
rb_flush(struct rb_node *n)
{
	uint32_t i;

	for (i = 0; i < n->nb_peers; i++) {
		if (n->peers[i].oneway_sent > 0)
			flush(n, &n->peers[i]);
	}
}
