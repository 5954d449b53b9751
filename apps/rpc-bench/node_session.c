/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A node's sessions. The node with the larger number connects, and sends as private data three
 * fields of 4 bytes,
 *
 *     "lrb1"  |  token of the accepting process  |  number of the connecting node
 *
 * so that the accepting node can refuse a session that is not of this run.
 */

#include <stdlib.h>
#include <string.h>

#include <leat_error.h>
#include <leat_rpc_task.h>

#include "../common/cursor.h"
#include "bench.h"
#include "content.h"

#define MAGIC UINT32_C(0x3162726c)
#define JOIN_LEN 12

/* ---- state of a session ---- */

static void
alive_add(struct rb_peer *p)
{
	struct rb_node *n = p->owner;

	p->at = n->nb_alive;
	n->alive[n->nb_alive++] = p;
}

void
rb_peer_shun(struct rb_peer *p)
{
	struct rb_node *n = p->owner;

	if (p->at == RB_NOT_ALIVE)
		return;
	n->alive[p->at] = n->alive[--n->nb_alive];
	n->alive[p->at]->at = p->at;
	p->at = RB_NOT_ALIVE;
}

static void
peer_state_set(struct rb_peer *p, enum rb_peer_state state)
{
	/* release: pairs with the acquire in rb_peer_state() */
	__atomic_store_n(&p->state, state, __ATOMIC_RELEASE);
	rb_news(p->owner->bench);
}

static void
peer_up(struct rb_peer *p)
{
	struct rb_node *n = p->owner;

	if (p->state != RB_PEER_CONNECTING)
		return;
	alive_add(p);
	n->small = leat_rpc_session_small(p->session);
	peer_state_set(p, RB_PEER_UP);
	if (++n->nb_up == n->nb_peers)
		rb_node_state_set(n, RB_NODE_UP);
}

static void
peer_ended(struct rb_peer *p, int status, const char *text)
{
	rb_peer_shun(p);
	p->session = NULL;
	p->status = status;
	snprintf(p->text, sizeof(p->text), "%s",
		 text[0] != '\0' ? text : "closed by the other side");
	peer_state_set(p, RB_PEER_ENDED);
}

/* ---- table ---- */

static void
peer_init(struct rb_peer *p, struct rb_node *n, uint32_t node)
{
	const uint64_t seed = n->plan->seed;
	int k;

	p->owner = n;
	p->node = node;
	p->at = RB_NOT_ALIVE;
	for (k = 0; k < RB_KINDS; k++) {
		p->seed_out[k] = rb_content_seed(seed, n->id, node, (uint8_t)k);
		p->seed_in[k] = rb_content_seed(seed, node, n->id, (uint8_t)k);
	}
}

int
rb_peers_create(struct rb_node *n)
{
	const struct rb_world *w = &n->bench->world;
	uint32_t k = 0;
	uint16_t r, i;

	n->peers = calloc(n->nb_peers, sizeof(*n->peers));
	n->alive = calloc(n->nb_peers, sizeof(*n->alive));
	if (n->peers == NULL || n->alive == NULL)
		return rb_node_fail(n, ENOMEM, "no memory for %u sessions", n->nb_peers);
	for (r = 0; r < w->nb_ranks; r++) {
		for (i = 0; i < w->ranks[r].card.nb_lcores; i++) {
			if (rb_world_joined(w, n->id, rb_node(r, i)))
				peer_init(&n->peers[k++], n, rb_node(r, i));
		}
	}
	return 0;
}

/* ---- connect ---- */

static struct leat_rpc_session_conf
session_conf(const struct rb_peer *p)
{
	const struct rb_bench *b = p->owner->bench;

	return (struct leat_rpc_session_conf){
		.deadline_us = b->plan.deadline_us,
		.timeout_us = b->o.timeout_us,
		.cc = b->plan.swift ? &leat_rpc_cc_swift : NULL,
		.user = (void *)(uintptr_t)p,
	};
}

/*
 * Write the address of a node: in this process the address at which it listens; in another process
 * the host of that process and the node's port.
 */
static void
peer_addr(const struct rb_peer *p, char *addr, size_t len)
{
	const struct rb_bench *b = p->owner->bench;
	const uint16_t rank = rb_node_rank(p->node), lcore = rb_node_lcore(p->node);
	const struct rb_rank *r = &b->world.ranks[rank];

	if (rank == b->world.rank)
		snprintf(addr, len, "%s", b->nodes[lcore]->addr);
	else
		snprintf(addr, len, "%s:%u", r->host, r->port[lcore]);
}

int
rb_peer_connect(struct rb_peer *p)
{
	struct leat_rpc_session_conf conf = session_conf(p);
	struct rb_node *n = p->owner;
	const struct rb_rank *r = &n->bench->world.ranks[rb_node_rank(p->node)];
	char addr[LEAT_ADDR_MAX + 8];
	uint8_t join[JOIN_LEN];
	struct cursor c = cursor_of(join, sizeof(join));

	put(&c, MAGIC, 4);
	put(&c, r->token, 4);
	put(&c, n->id, 4);
	conf.priv = join;
	conf.priv_len = sizeof(join);
	peer_addr(p, addr, sizeof(addr));
	p->session = leat_rpc_connect(n->rpc, addr, &conf);
	if (p->session == NULL)
		return rb_node_fail(n, rte_errno, "%s", leat_err_msg());
	peer_state_set(p, RB_PEER_CONNECTING);
	return 0;
}

/* ---- accept ---- */

static struct rb_peer *
peer_find(struct rb_node *n, uint32_t node)
{
	uint32_t lo = 0, hi = n->nb_peers, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (n->peers[mid].node < node)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < n->nb_peers && n->peers[lo].node == node ? &n->peers[lo] : NULL;
}

void
rb_node_accept(void *arg, struct leat_rpc *rpc, const struct leat_event *ev)
{
	struct leat_rpc_session_conf conf;
	struct rb_peer *p = NULL;
	struct rb_node *n = arg;
	struct cursor c;
	uint32_t magic, token, node;
	const void *priv;
	uint16_t len;

	priv = leat_rpc_priv(ev, &len);
	c = cursor_of(priv, len);
	magic = (uint32_t)get(&c, 4);
	token = (uint32_t)get(&c, 4);
	node = (uint32_t)get(&c, 4);
	if (!c.over && magic == MAGIC && token == rb_world_self(&n->bench->world)->token &&
	    node > n->id)
		p = peer_find(n, node);
	if (p == NULL || p->state != RB_PEER_NONE) {
		leat_rpc_refuse(rpc, ev, p == NULL ? -EACCES : -EEXIST);
		return;
	}
	conf = session_conf(p);
	p->session = leat_rpc_accept(rpc, ev, &conf);
	if (p->session != NULL)
		peer_state_set(p, RB_PEER_CONNECTING);
	else
		rb_msg("lcore %u: %s", n->lcore, leat_err_msg());
}

/* ---- events, drop ---- */

void
rb_node_event(void *arg, struct leat_rpc *rpc, const struct leat_rpc_event *ev)
{
	struct rb_peer *p = ev->user;

	(void)arg;
	(void)rpc;
	switch (ev->type) {
	case LEAT_RPC_UP:
		peer_up(p);
		break;
	case LEAT_RPC_DOWN: /* only for sessions that reconnect: none here does */
		break;
	case LEAT_RPC_ENDED:
		(void)leat_rpc_close(ev->session, 0);
		peer_ended(p, ev->status, ev->text);
		break;
	case LEAT_RPC_CLOSED:
		/* If ENDED has not come before, this side has closed the session. */
		if (p->session == ev->session)
			peer_ended(p, ev->status, ev->text);
		break;
	}
}

void
rb_node_drop(struct rb_node *n, uint16_t rank)
{
	uint32_t i;

	for (i = 0; i < n->nb_peers; i++) {
		struct rb_peer *p = &n->peers[i];

		if (rb_node_rank(p->node) != rank || p->session == NULL)
			continue;
		(void)leat_rpc_close(p->session, 0);
		peer_ended(p, -ETIMEDOUT, "its process was given up");
	}
}
