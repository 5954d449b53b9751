/* SPDX-License-Identifier: BSD-3-Clause */

#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <leat_error.h>

#include "node.h"
#include "pattern.h"

void
ct_node_fault(struct ct_node *n, const char *fmt, ...)
{
	va_list ap;

	if (n->fault[0] != '\0')
		return;
	va_start(ap, fmt);
	vsnprintf(n->fault, sizeof(n->fault), fmt, ap);
	va_end(ap);
}

static void
node_free(struct ct_node *n)
{
	if (n->slots != NULL)
		munmap(n->slots, (size_t)n->nb_slots * sizeof(*n->slots));
	free(n->order);
	free(n->log);
	free(n->peer_seen);
	n->slots = n->free_slots = NULL;
	n->order = NULL;
	n->log = NULL;
	n->peer_seen = NULL;
	n->ep = NULL;
}

int
ct_node_open(struct ct_node *n, struct leat_dev *dev, const struct ct_conf *conf, const char *name,
	     uint64_t seed)
{
	struct leat_ep_conf c = { .name = name };
	uint32_t tx, rx, i;
	int ret;

	memset(n, 0, offsetof(struct ct_node, fault)); /* a fault stays until it was reported */
	ret = leat_dev_info_for(dev, conf->ops, &n->info);
	if (ret < 0)
		return ret;
	n->conf = *conf;
	if (n->conf.max_peers == 0)
		n->conf.max_peers = RTE_MIN(64u, n->info.max_peers);
	tx = conf->tx_depth != 0 ? conf->tx_depth : n->info.tx_depth;
	rx = conf->rx_depth != 0 ? conf->rx_depth : n->info.rx_depth;
	n->rnd = seed;
	/* Ops that are done but not yet returned by poll take slots beyond the depths. */
	n->nb_slots = 2 * (tx + rx) + 1024;
	n->slots = mmap(NULL, (size_t)n->nb_slots * sizeof(*n->slots), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if ((void *)n->slots == MAP_FAILED)
		n->slots = NULL;
	n->order = calloc(CT_QIDS((size_t)n->conf.max_peers), sizeof(*n->order));
	n->log = calloc(CT_EVENT_LOG, sizeof(*n->log));
	n->peer_seen = calloc(n->conf.max_peers, 1);
	if (n->slots == NULL || n->order == NULL || n->log == NULL || n->peer_seen == NULL) {
		node_free(n);
		return leat_err(ENOMEM, "test endpoint: no memory");
	}
	for (i = 0; i < CT_QUEUES; i++)
		leat_queue_init(&n->queues[i]);

	c.type = (enum leat_ep_type)n->conf.type;
	c.ops = n->conf.ops;
	c.tx_depth = conf->tx_depth;
	c.rx_depth = conf->rx_depth;
	c.max_peers = n->conf.max_peers;
	c.wait = n->conf.wait != 0;
	n->ep = leat_ep_create(dev, &c);
	if (n->ep == NULL) {
		ret = rte_errno != 0 ? -rte_errno : -EIO;
		node_free(n);
		return ret;
	}
	return 0;
}

static void
check_nothing_left(struct ct_node *n)
{
	uint32_t i;

	for (i = 0; i < n->nb_fresh && n->nb_posted > 0; i++)
		if (n->slots[i].where == CT_POSTED) {
			ct_node_fault(
				n, "endpoint closed, and op %u (%s) of stream %u never came back",
				n->slots[i].idx, leat_op_type_name(n->slots[i].op.type),
				n->slots[i].stream);
			return;
		}
	if (n->nb_posted > 0)
		ct_node_fault(n, "harness: %u ops counted as posted, none found", n->nb_posted);
}

static void
node_gone(struct ct_node *n)
{
	check_nothing_left(n);
	ct_buf_free_all(n);
	node_free(n);
}

static void
returned(struct leat_op *op, void *arg)
{
	ct_node_returned(arg, op);
}

int
ct_node_close(struct ct_node *n, uint64_t timeout_us)
{
	int ret;

	if (n->ep == NULL)
		return 0;
	n->shut = true;
	(void)ct_region_free_all(n, false);
	ret = leat_ep_close(n->ep, timeout_us, returned, n);
	if (ret < 0 && ret != -ETIMEDOUT) {
		ct_node_fault(n, "close: %s: %s", strerror(-ret), leat_err_msg());
		/* The device may still use the memory: leak it rather than free it. */
		n->ep = NULL;
		return ret;
	}
	node_gone(n);
	return ret;
}

int
ct_node_destroy(struct ct_node *n)
{
	int ret;

	(void)ct_region_free_all(n, false);
	ret = leat_ep_destroy(n->ep);
	if (ret < 0)
		return ret;
	node_gone(n);
	return 0;
}

bool
ct_node_step(struct ct_node *n)
{
	bool worked = false;
	uint32_t i;

	if (n->ep == NULL || n->frozen)
		return false;
	for (i = 0; i < n->nb_streams; i++) {
		struct ct_stream *s = &n->streams[i];

		if (s->made < s->spec.count || s->nb_pend > 0 || (s->spec.check & CT_CASLOOP) != 0)
			worked |= ct_stream_pump(n, s);
	}
	if (ct_node_poll(n, (uint16_t)(1 + ct_random(&n->rnd) % 32)) > 0)
		worked = true;
	if (n->turn++ % CT_EVENT_TURNS == 0)
		ct_node_events(n);
	return worked;
}

void
ct_node_dump(const struct ct_node *n, char *buf, size_t len)
{
	struct leat_ep_stats st;
	size_t pos = 0;
	uint32_t i;

	if (n->ep == NULL)
		return;
#define PUT(...) (pos < len ? pos += (size_t)snprintf(buf + pos, len - pos, __VA_ARGS__) : 0)
	leat_ep_stats_get(n->ep, &st);
	PUT("endpoint %s: %u posted and not returned, %u with the device%s%s; posted %" PRIu64
	    " returned %" PRIu64 " refused %" PRIu64 " errors %" PRIu64 "\n",
	    leat_ep_name(n->ep), n->nb_posted, leat_ep_inflight(n->ep), n->frozen ? ", frozen" : "",
	    n->shut ? ", shut down" : "", st.posted, st.returned, st.refused, st.errors);
	for (i = 0; i < n->nb_streams; i++) {
		const struct ct_stream *s = &n->streams[i];
		const struct ct_result *r = &s->res;

		if (r->ok == s->spec.count)
			continue;
		PUT("  stream %u: %s, peer %u, %" PRIu64 "..%" PRIu64
		    " B: %u of %u posted, %u done, "
		    "%u ok, %u wrong",
		    i, leat_op_type_name(s->spec.type), s->spec.peer, s->spec.size,
		    ct_size_max(&s->spec), r->posted, s->spec.count, r->done, r->ok, r->wrong);
		if (r->nb_stat > 0)
			PUT(", %u with %s", r->stat[0].count, strerror(-r->stat[0].status));
		PUT("\n");
	}
	for (i = 0; i < n->conf.max_peers && i < 8; i++) {
		enum leat_peer_state st2 = leat_ep_peer_state(n->ep, (uint16_t)i);

		if (st2 != LEAT_PEER_FREE)
			PUT("  peer %u: state %d\n", i, (int)st2);
	}
#undef PUT
}
