/* SPDX-License-Identifier: BSD-3-Clause */

/* Calls from other processes. The leading task answers HELLO, NODES and MEET later. */

#include <string.h>

#include "../common/cursor.h"
#include "bench.h"

static int
on_hello(struct leat_rpc_incoming *call, void *link)
{
	struct rb_link_peer *p = leat_rpc_session_user(call->session);
	int ret = p->greeted ? -EALREADY : rb_hello_get(call->req, call->len, &p->hello);

	(void)link;
	if (ret < 0)
		return ret;
	p->hello_call = leat_rpc_defer(call);
	if (p->hello_call == NULL)
		return -EBUSY;
	p->greeted = true;
	rb_news(p->link->bench);
	return LEAT_RPC_DEFERRED;
}

void
rb_link_welcome(struct rb_link_peer *p)
{
	struct leat_rpc_incoming *call = p->hello_call;
	int len;

	if (call == NULL)
		return;
	p->hello_call = NULL;
	len = rb_welcome_put(&rb_world_self(&p->link->bench->world)->card, call->resp, call->room);
	call->resp_len = len < 0 ? 0 : (uint32_t)len;
	leat_rpc_answer(call, RTE_MIN(len, 0));
}

static void
refuse(struct leat_rpc_incoming **ask, int status, const char *text)
{
	struct leat_rpc_incoming *call = *ask;
	struct cursor c;

	*ask = NULL;
	if (call == NULL)
		return;
	c = cursor_of(call->resp, call->room);
	put_str(&c, text, RB_TEXT);
	call->resp_len = c.over ? 0 : RB_TEXT;
	leat_rpc_answer(call, status);
}

void
rb_link_refuse(struct rb_link_peer *p, int status, const char *text)
{
	refuse(&p->hello_call, status, text);
	refuse(&p->nodes_call, status, text);
}

/* ---- nodes ---- */

static int
nodes_answer(const struct rb_link *l, struct leat_rpc_incoming *call)
{
	const struct rb_rank *self = rb_world_self(&l->bench->world);
	struct rb_nodes n = { .token = self->token, .nb_lcores = self->card.nb_lcores };
	int len;

	memcpy(n.port, self->port, sizeof(n.port));
	len = rb_nodes_put(&n, call->resp, call->room);
	call->resp_len = len < 0 ? 0 : (uint32_t)len;
	return RTE_MIN(len, 0);
}

static int
on_nodes(struct leat_rpc_incoming *call, void *link)
{
	struct rb_link_peer *p = leat_rpc_session_user(call->session);
	struct rb_link *l = link;

	if (p->rank == RB_NO_RANK || p->nodes_call != NULL)
		return -EPROTO;
	if (l->nodes_there)
		return nodes_answer(l, call);
	p->nodes_call = leat_rpc_defer(call);
	return p->nodes_call != NULL ? LEAT_RPC_DEFERRED : -EBUSY;
}

void
rb_link_nodes_answer(struct rb_link *l)
{
	struct leat_rpc_incoming *call;
	uint32_t i;

	l->nodes_there = true;
	for (i = 0; i < l->nb_peers; i++) {
		call = l->peers[i].nodes_call;
		l->peers[i].nodes_call = NULL;
		if (call != NULL)
			leat_rpc_answer(call, nodes_answer(l, call));
	}
}

/* ---- meetings ---- */

static int
result_take(struct rb_link_peer *p, struct cursor *c)
{
	struct rb_world *w = &p->link->bench->world;
	struct rb_result *r = rb_result_get(c->p, c->left);

	if (r == NULL || p->rank >= w->nb_ranks ||
	    r->nb_lcores != w->ranks[p->rank].card.nb_lcores) {
		rb_result_free(r);
		return -EPROTO;
	}
	rb_result_free(w->ranks[p->rank].result);
	w->ranks[p->rank].result = r;
	return 0;
}

/* Answer a MEET with the set of lost ranks, so that all processes know the same set afterwards. */
static int
meet_answer(const struct rb_link *l, struct leat_rpc_incoming *call)
{
	const struct rb_world *w = &l->bench->world;
	uint8_t *lost = call->resp;
	uint16_t r;

	if (call->room < RB_LOST_LEN)
		return -EMSGSIZE;
	memset(lost, 0, RB_LOST_LEN);
	for (r = 0; r < w->nb_ranks; r++) {
		if (w->ranks[r].lost)
			lost[r / 8] |= (uint8_t)(1u << r % 8);
	}
	call->resp_len = RB_LOST_LEN;
	return 0;
}

static int
on_meet(struct leat_rpc_incoming *call, void *link)
{
	struct rb_link_peer *p = leat_rpc_session_user(call->session);
	struct cursor c = cursor_of(call->req, call->len);
	uint64_t meet = get(&c, 1);
	struct rb_link *l = link;

	if (c.over || meet >= RB_MEETS || p->rank == RB_NO_RANK || p->meet_call[meet] != NULL)
		return -EPROTO;
	if (meet == RB_MEET_END && result_take(p, &c) < 0)
		return -EPROTO;
	p->met[meet] = true;
	rb_news(l->bench);
	if (meet < l->passed)
		return meet_answer(l, call);
	p->meet_call[meet] = leat_rpc_defer(call);
	return p->meet_call[meet] != NULL ? LEAT_RPC_DEFERRED : -EBUSY;
}

void
rb_link_meet_end(struct rb_link *l, enum rb_meet meet)
{
	struct leat_rpc_incoming *call;
	uint32_t i;

	l->passed = (unsigned int)meet + 1;
	for (i = 0; i < l->nb_peers; i++) {
		call = l->peers[i].meet_call[meet];
		l->peers[i].meet_call[meet] = NULL;
		if (call != NULL)
			leat_rpc_answer(call, meet_answer(l, call));
	}
}

void
rb_link_calls_reject(struct rb_link_peer *p)
{
	const char *why = p->link->bench->why;
	int m;

	rb_link_refuse(p, -ESHUTDOWN, why[0] != '\0' ? why : "it is leaving");
	for (m = 0; m < RB_MEETS; m++) {
		if (p->meet_call[m] != NULL)
			leat_rpc_answer(p->meet_call[m], -ESHUTDOWN);
		p->meet_call[m] = NULL;
	}
}

/* ---- ping, bye ---- */

static int
on_ping(struct leat_rpc_incoming *call, void *link)
{
	struct rb_link_peer *p = leat_rpc_session_user(call->session);
	struct cursor c = cursor_of(call->req, call->len);
	struct rb_link *l = link;

	p->live = get(&c, 8);
	c = cursor_of(call->resp, call->room);
	put(&c, rb_live(l->bench), 8);
	call->resp_len = 8;
	return c.over ? -EPROTO : 0;
}

static int
on_bye(struct leat_rpc_incoming *call, void *link)
{
	struct rb_link_peer *p = leat_rpc_session_user(call->session);
	struct cursor c = cursor_of(call->req, call->len);

	(void)link;
	get_str(&c, p->why, sizeof(p->why));
	p->left = p->why[0] != '\0';
	rb_news(p->link->bench);
	return 0;
}

int
rb_link_serve(struct rb_link *l)
{
	static const struct {
		uint8_t type;
		leat_rpc_handler_fn fn;
		uint32_t resp_max;
	} all[] = {
		{ RB_WIRE_HELLO, on_hello, RB_WELCOME_MAX },
		{ RB_WIRE_NODES, on_nodes, RB_NODES_MAX },
		{ RB_WIRE_MEET, on_meet, RB_LOST_LEN },
		{ RB_WIRE_PING, on_ping, 8 },
		{ RB_WIRE_BYE, on_bye, 8 },
	};
	size_t i;
	int ret = 0;

	for (i = 0; i < RTE_DIM(all) && ret == 0; i++)
		ret = leat_rpc_handler_set(l->rpc, all[i].type, all[i].fn, l, all[i].resp_max);
	return ret;
}
