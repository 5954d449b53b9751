/* SPDX-License-Identifier: BSD-3-Clause */

/* A node's endpoint and context: open and close. */

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <leat_error.h>
#include <leat_histogram.h>
#include <leat_rpc_task.h>

#include "bench.h"
#include "op.h"

/* Time for sessions to end cleanly. */
#define CLOSE_US RB_US
/*
 * Give each session at least this many credits, even if that needs more receives than the device's
 * default depth.
 */
#define CREDITS_GOOD 16u
/* Without --credits, give no session more credits than this. */
#define CREDITS_ENOUGH 64u
/* Memory of a context for long messages, bytes; it limits the number of them at a time. */
#define LARGE_MEMORY (256u << 20)
#define LARGE_MIN 4u
#define LARGE_MAX 64u
#define ONE_SIDED (LEAT_OP_BIT(LEAT_OP_READ) | LEAT_OP_BIT(LEAT_OP_WRITE))
/* Smallest silence_us that lib/rpc accepts. */
#define SILENCE_MIN_US UINT64_C(1000)

int
rb_node_fail(struct rb_node *n, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(n->why, sizeof(n->why), fmt, ap);
	va_end(ap);
	rb_node_state_set(n, RB_NODE_FAILED);
	return err > 0 ? -err : -EIO;
}

void
rb_node_state_set(struct rb_node *n, enum rb_node_state state)
{
	/* release: pairs with the acquire in rb_node_state() */
	__atomic_store_n(&n->state, state, __ATOMIC_RELEASE);
	rb_news(n->bench);
}

struct rb_node *
rb_node_create(struct rb_bench *b, uint16_t lcore)
{
	struct rb_node *n =
		aligned_alloc(LEAT_CACHE_LINE, RTE_ALIGN_CEIL(sizeof(*n), (size_t)LEAT_CACHE_LINE));
	int k;

	if (n == NULL)
		return NULL;
	memset(n, 0, sizeof(*n));
	n->bench = b;
	n->plan = &b->plan;
	n->lcore = lcore;
	n->reactor = leat_app_reactor(lcore);
	n->tally.others = -1;
	for (k = 0; k < RB_KINDS; k++) {
		n->hist[k] = leat_histogram_create();
		if (n->hist[k] == NULL) {
			rb_node_free(n);
			return NULL;
		}
	}
	return n;
}

/* ---- open ---- */

static int
receives_fit(struct rb_node *n, uint32_t rx_depth)
{
	const uint32_t packet = n->plan->packet != 0 ? n->plan->packet : RB_PACKET_DEFAULT;

	if ((uint64_t)rx_depth * packet <= RB_MEMORY_MAX)
		return 0;
	return rb_node_fail(n, ENOMEM,
			    "%u receives of %u B of an lcore take more than %" PRIu64
			    " MiB: smaller --credits or --packet",
			    rx_depth, packet, RB_MEMORY_MAX >> 20);
}

/*
 * Choose the credits of a session, and the depth of the receive queue for all sessions. Without
 * --credits each session gets its share of the device's default depth, within CREDITS_GOOD and
 * CREDITS_ENOUGH.
 */
static int
depth_choose(struct rb_node *n, const struct leat_dev_info *info, uint32_t *rx_depth,
	     uint32_t *credits)
{
	uint32_t want = n->plan->credits;

	if (want == 0)
		want = RTE_MIN(CREDITS_ENOUGH, RTE_MAX(CREDITS_GOOD, info->rx_depth / n->nb_peers));
	if ((uint64_t)want * n->nb_peers > info->rx_depth_max) {
		if (n->plan->credits != 0)
			return rb_node_fail(
				n, EINVAL,
				"--credits %u for each of %u sessions: %s takes %u receives at "
				"most, that is %u for each",
				want, n->nb_peers, info->name, info->rx_depth_max,
				info->rx_depth_max / n->nb_peers);
		want = info->rx_depth_max / n->nb_peers;
	}
	if (want < LEAT_RPC_CREDITS_MIN)
		return rb_node_fail(n, ENOSPC,
				    "%u sessions of an lcore need %u receives, and %s takes %u at "
				    "most: fewer lcores or processes",
				    n->nb_peers, n->nb_peers * LEAT_RPC_CREDITS_MIN, info->name,
				    info->rx_depth_max);
	*credits = want;
	*rx_depth = want * n->nb_peers;
	return receives_fit(n, *rx_depth);
}

static int
ep_create(struct rb_node *n, uint32_t *credits)
{
	struct leat_ep_conf conf = { .type = n->plan->type };
	struct rb_bench *b = n->bench;
	struct leat_dev_info info;
	char name[32];

	snprintf(name, sizeof(name), "lcore%u", n->lcore);
	conf.name = name;
	conf.ops = LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV);
	if (leat_dev_info_get(b->dev, &info) < 0)
		return rb_node_fail(n, EINVAL, "%s", leat_err_msg());
	n->one_sided = n->plan->percent[RB_BULK] > 0 && n->plan->type == LEAT_EP_RELIABLE &&
		       (info.ops & ONE_SIDED) == ONE_SIDED;
	if (n->one_sided)
		conf.ops |= ONE_SIDED;
	if (leat_dev_info_for(b->dev, conf.ops, &info) < 0)
		return rb_node_fail(n, EINVAL, "%s", leat_err_msg());
	/* Keep room for one more peer, so that one of another run can be refused with a reason. */
	if (n->nb_peers >= info.max_peers)
		return rb_node_fail(n, ENOSPC,
				    "%u sessions of an lcore, and %s has %u peers, of which one is "
				    "for refusals: fewer lcores or processes",
				    n->nb_peers, info.name, info.max_peers);
	conf.max_peers = (uint16_t)(n->nb_peers + 1);
	if (depth_choose(n, &info, &conf.rx_depth, credits) < 0)
		return -EINVAL;
	n->ep = leat_ep_create(b->dev, &conf);
	return n->ep != NULL ? 0 : rb_node_fail(n, rte_errno, "%s", leat_err_msg());
}

static uint32_t
longest(const struct rb_plan *p)
{
	uint32_t max = 0;
	int k;

	for (k = 0; k < RB_KINDS; k++) {
		if (p->percent[k] > 0 && k != RB_BULK)
			max = RTE_MAX(max, RTE_MAX(p->req[k].max, p->resp[k].max));
	}
	return max;
}

static int
handlers_set(struct rb_node *n)
{
	const struct rb_plan *p = n->plan;
	int k, ret = leat_rpc_handler_set(n->rpc, RB_TYPE_FLUSH, rb_flush_handle, n, 8);

	for (k = 0; k < RB_KINDS && ret == 0; k++) {
		/* a resp_max of 0 would mean a whole packet */
		if (p->percent[k] > 0)
			ret = leat_rpc_handler_set(n->rpc, (uint8_t)k, rb_ops[k]->handle, n,
						   k == RB_BULK ? 1u : RTE_MAX(p->resp[k].max, 1u));
	}
	return ret;
}

static int
rpc_create(struct rb_node *n, uint32_t credits)
{
	const uint32_t max_msg = RTE_MAX(longest(n->plan), 4096u);
	const struct leat_rpc_conf conf = {
		.max_sessions = n->nb_peers,
		.packet = n->plan->packet,
		.credits = credits,
		.slots = n->plan->slots,
		.max_msg = max_msg,
		.large = RTE_MIN(LARGE_MAX, RTE_MAX(LARGE_MIN, LARGE_MEMORY / max_msg)),
		.tickets = rb_bulk_tickets(n->plan),
		/* Long enough that a peer on a busy machine does not count as dead. */
		.silence_us = (uint32_t)RTE_MIN(RTE_MAX(n->bench->o.timeout_us, SILENCE_MIN_US),
						(uint64_t)UINT32_MAX),
	};
	const struct leat_rpc_reactor_conf on = { .accept = rb_node_accept,
						  .event = rb_node_event,
						  .arg = n };

	n->rpc = leat_rpc_create(n->ep, &conf);
	if (n->rpc == NULL)
		return rb_node_fail(n, rte_errno, "%s", leat_err_msg());
	if (handlers_set(n) < 0 || leat_rpc_reactor_add(n->reactor, n->rpc, &on) < 0)
		return rb_node_fail(n, rte_errno, "%s", leat_err_msg());
	leat_rpc_stats_get(n->rpc, &n->stats);
	return 0;
}

static int
listen_at(struct rb_node *n)
{
	char at[LEAT_ADDR_MAX + 8];

	snprintf(at, sizeof(at), "%s:0", n->bench->bind);
	if (leat_ep_listen(n->ep, at) < 0 ||
	    leat_ep_listen_addr(n->ep, n->addr, sizeof(n->addr)) < 0)
		return rb_node_fail(n, rte_errno, "%s", leat_err_msg());
	return 0;
}

int
rb_node_open(void *node)
{
	struct rb_node *n = node;
	uint32_t credits = 0;
	int ret;

	n->id = rb_node(n->bench->world.rank, n->lcore);
	n->nb_peers = rb_world_peers(&n->bench->world);
	cpu_where_get(&n->where);
	ret = rb_peers_create(n);
	if (ret == 0)
		ret = ep_create(n, &credits);
	if (ret == 0)
		ret = rpc_create(n, credits);
	if (ret == 0)
		ret = rb_bulk_open(n);
	if (ret == 0)
		ret = listen_at(n);
	if (ret == 0)
		rb_node_state_set(n, RB_NODE_OPEN);
	return ret;
}

int
rb_node_connect(void *node)
{
	struct rb_node *n = node;
	uint32_t i;
	int ret = 0;

	rb_node_state_set(n, RB_NODE_CONNECTING);
	for (i = 0; i < n->nb_peers && ret == 0; i++) {
		if (n->peers[i].node < n->id)
			ret = rb_peer_connect(&n->peers[i]);
	}
	return ret;
}

/* ---- close ---- */

static bool
sessions_left(struct rb_node *n)
{
	leat_rpc_stats_get(n->rpc, &n->stats);
	return n->stats.sessions > 0;
}

static void
sessions_close(struct rb_node *n)
{
	uint32_t i;

	for (i = 0; i < n->nb_peers; i++) {
		if (n->peers[i].session != NULL)
			(void)leat_rpc_close(n->peers[i].session, CLOSE_US);
	}
}

int
rb_node_close(struct rb_node *n)
{
	uint64_t end = leat_time_add(leat_now(), leat_us_to_cycles(2 * CLOSE_US));

	rb_tune_stop(n);
	if (n->rpc != NULL) {
		sessions_close(n);
		/* The workers end when the sessions have given back their requests. */
		while ((sessions_left(n) || n->nb_workers > 0) && leat_now() < end)
			rb_nap();
		(void)leat_rpc_reactor_remove(n->rpc);
	}
	/* The workers use the node's memory: free nothing while one runs. */
	if (n->nb_workers > 0) {
		rb_msg("lcore %u: %u tasks have not ended", n->lcore, n->nb_workers);
		return -EBUSY;
	}
	return rb_node_free(n);
}

int
rb_node_free(struct rb_node *n)
{
	int k;

	rb_tune_free(n);
	rb_workers_deregister(n);
	rb_bulk_close(n);
	/* While the endpoint is in use, free nothing: ops may still use the memory. */
	if (n->ep != NULL && rb_shut(n->ep, n->rpc) < 0) {
		rb_msg("lcore %u: %s", n->lcore, leat_err_msg());
		return -EBUSY;
	}
	rb_workers_free(n);
	rb_bulk_free(n);
	free(n->alive);
	free(n->peers);
	for (k = 0; k < RB_KINDS; k++)
		leat_histogram_free(n->hist[k]);
	free(n);
	return 0;
}
