/* SPDX-License-Identifier: BSD-3-Clause */

/* Nets: the endpoint, memory that is allocated once, and their pollers in a reactor. */

#include <stdlib.h>
#include <sys/mman.h>

#include "stream_pvt.h"

/* Peers of the endpoint beyond max_streams: peers to be refused, and disconnecting ones. */
#define MORE_PEERS 8
/* Bounds of the number of receives, if the device allows: a peer may send 1024 notices ahead. */
#define RX_DEPTH_MIN 512u
#define RX_DEPTH_MAX 4096u
#define RX_PER_STREAM 8u
/* Bounds of the endpoint's send depth; a device may have a queue of that length for each peer. */
#define TX_DEPTH_MIN 256u
#define TX_DEPTH_MAX 1024u
#define TX_PER_STREAM 4u
/* Time for the device to complete posted ops in leat_stream_net_close(), us. */
#define BACK_US 2000000
#define EVENTS 8

#define OPS (LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV) | LEAT_OP_BIT(LEAT_OP_WRITE_IMM))

/* ---- configuration ---- */

static int
check_size(const char *what, uint32_t *size, uint32_t def, uint32_t min, uint32_t max)
{
	if (*size == 0)
		*size = def;
	if (*size < min || *size > max)
		return leat_err(EINVAL, "streams: %s of %u B, where %u to %u are possible", what,
				*size, min, max);
	return 0;
}

static int
conf_fill(struct leat_stream_net_conf *c)
{
	int ret = check_size("receive windows", &c->rx_size, LEAT_STREAM_RX_DEFAULT,
			     LEAT_STREAM_RX_MIN, LEAT_STREAM_RX_MAX);

	if (ret == 0)
		ret = check_size("send buffers", &c->tx_size, LEAT_STREAM_TX_DEFAULT,
				 LEAT_STREAM_TX_MIN, LEAT_STREAM_TX_MAX);
	if (ret < 0)
		return ret;
	if (c->rx_size % STREAM_WINDOWS != 0)
		return leat_err(EINVAL, "streams: receive windows of %u B: an odd number",
				c->rx_size);
	if (c->mode > LEAT_STREAM_MODE_WINDOWS)
		return leat_err(EINVAL, "streams: unknown mode %u", c->mode);
	if (c->mem_max == 0)
		c->mem_max = LEAT_STREAM_MEM_DEFAULT;
	if (c->peer_window_max == 0)
		c->peer_window_max = 1u << 30;
	if (c->keepalive_ms == 0)
		c->keepalive_ms = LEAT_STREAM_KEEPALIVE_MS;
	if (c->silence_ms == 0)
		c->silence_ms = LEAT_STREAM_KEEPALIVES_MISSED * LEAT_STREAM_KEEPALIVE_MS;
	if (c->close_us == 0)
		c->close_us = LEAT_STREAM_CLOSE_US;
	return 0;
}

static struct leat_dev *
find_dev(const char *name)
{
	struct leat_dev *dev = NULL;

	if (name != NULL)
		dev = leat_dev_by_name(name);
	else if (leat_dev_count() > 0)
		dev = leat_dev_get(leat_dev_count() - 1);
	if (dev == NULL)
		leat_err(ENODEV, "streams: no device %s; see --vdev", name != NULL ? name : "");
	return dev;
}

static int
choose_mode(struct leat_stream_net *net, const struct leat_dev_info *info)
{
	const bool compat = info->write_order && info->notice_source;

	if ((info->ops & OPS) != OPS)
		return leat_err(
			EOPNOTSUPP,
			"streams: %s (%s) has no WRITE_IMM: streams need it, choose another device",
			info->name, info->provider);
	if (net->conf.mode == LEAT_STREAM_MODE_COMPAT && !compat)
		return leat_err(
			EOPNOTSUPP,
			"streams: %s (%s) does not keep the order of writes: there is only the "
			"mode of leat's own, in which Redis and Valkey can't take part",
			info->name, info->provider);
	net->windows = net->conf.mode == LEAT_STREAM_MODE_WINDOWS || !compat;
	net->tokens = net->windows && info->imm_size == 8;
	if (!info->notice_source && !net->tokens)
		LEAT_LOG(WARNING, stream,
			 "%s (%s) does not tell several streams between two endpoints apart: have "
			 "one, or "
			 "more endpoints",
			 info->name, info->provider);
	net->wide = net->windows || info->rkey_size > 4;
	net->mr_local = info->mr_local;
	net->in_order = info->in_order;
	net->chunk = (uint32_t)RTE_MIN(info->max_msg, (uint64_t)STREAM_CHUNK);
	return 0;
}

static uint32_t
depth(uint32_t streams, uint32_t each, uint32_t min, uint32_t max, uint32_t device_max)
{
	const uint64_t want = RTE_MAX((uint64_t)streams * each, (uint64_t)min);

	return (uint32_t)RTE_MIN(want, (uint64_t)RTE_MIN(max, device_max));
}

static int
ep_open(struct leat_stream_net *net)
{
	struct leat_dev *dev = find_dev(net->conf.dev);
	struct leat_ep_conf conf = { .name = net->conf.name, .ops = OPS };
	struct leat_idle_conf idle;
	struct leat_dev_info info;
	uint32_t max;
	int ret;

	if (dev == NULL || leat_dev_info_for(dev, OPS, &info) < 0)
		return -rte_errno;
	ret = choose_mode(net, &info);
	if (ret < 0)
		return ret;
	max = info.max_peers > 2 * MORE_PEERS ? info.max_peers - MORE_PEERS : 1;
	max = RTE_MIN(max, (uint32_t)UINT16_MAX - MORE_PEERS);
	if (net->conf.max_streams == 0)
		net->conf.max_streams = RTE_MIN((uint32_t)LEAT_STREAM_STREAMS_DEFAULT, max);
	if (net->conf.max_streams > max)
		return leat_err(EINVAL, "streams: %u of them, where %s can have %u",
				net->conf.max_streams, info.name, max);
	conf.max_peers = (uint16_t)RTE_MIN(net->conf.max_streams + MORE_PEERS, info.max_peers);
	conf.rx_depth = depth(net->conf.max_streams, RX_PER_STREAM, RX_DEPTH_MIN, RX_DEPTH_MAX,
			      info.rx_depth_max);
	conf.tx_depth = depth(net->conf.max_streams, TX_PER_STREAM, TX_DEPTH_MIN, TX_DEPTH_MAX,
			      info.tx_depth_max);
	leat_reactor_idle_get(net->r, &idle);
	conf.wait = idle.policy == LEAT_IDLE_BLOCK && info.wait;
	net->ep = leat_ep_create(dev, &conf);
	if (net->ep == NULL)
		return -rte_errno;
	net->nb_peers = conf.max_peers;
	net->nb_rx = conf.rx_depth;
	/* A quarter of the send depth is left for control messages. */
	net->nb_tx = conf.tx_depth - conf.tx_depth / 4;
	snprintf(net->name, sizeof(net->name), "%s", leat_ep_name(net->ep));
	LEAT_LOG(NOTICE, stream, "%s: %u streams over %s (%s%s%s), %s, windows of %u B", net->name,
		 net->conf.max_streams, info.name, info.provider,
		 info.interface[0] != '\0' ? ", " : "", info.interface,
		 net->windows ? "leat's mode of two windows" : "the mode of Redis and Valkey",
		 net->conf.rx_size);
	return 0;
}

/* ---- memory ---- */

static int
msgs_open(struct leat_stream_net *net)
{
	void *p;

	net->msgs_len = (size_t)net->nb_rx * STREAM_RECV_LEN +
			(size_t)net->conf.max_streams * STREAM_CTRLS * STREAM_CTRL_LEN;
	p = mmap(NULL, net->msgs_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return leat_err(ENOMEM, "streams: no memory for messages");
	net->msgs = p;
	if (!net->mr_local)
		return 0;
	net->msgs_mr = leat_mr_register(net->ep, net->msgs, net->msgs_len, LEAT_MR_LOCAL);
	return net->msgs_mr != NULL ? 0 : -rte_errno;
}

static void
ops_init(struct leat_stream_net *net)
{
	/* With leat_dev_info.in_order, receives need no queue to restore their order. */
	struct leat_queue *queue = net->in_order ? LEAT_QUEUE_NONE : NULL;
	uint32_t i;

	for (i = 0; i < net->nb_rx; i++) {
		struct stream_rx_op *r = &net->rx_ops[i];

		r->op.type = LEAT_OP_RECV;
		r->op.peer = LEAT_PEER_ANY;
		r->op.queue = queue;
		r->op.buf = net->msgs + (size_t)i * STREAM_RECV_LEN;
		r->op.size = STREAM_RECV_LEN;
		r->op.mr = net->msgs_mr;
		r->next = net->rx_idle;
		net->rx_idle = r;
	}
	net->nb_rx_idle = net->nb_rx;
	for (i = 0; i < net->nb_tx; i++) {
		struct stream_tx_op *t = &net->tx_ops[i];

		t->op.type = LEAT_OP_WRITE_IMM;
		t->next = net->tx_free;
		net->tx_free = t;
	}
	net->nb_tx_free = net->nb_tx;
	for (i = net->conf.max_streams; i > 0; i--) {
		struct leat_stream *s = &net->streams[i - 1];

		s->net = net;
		s->index = i - 1;
		s->next_free = net->free;
		net->free = s;
	}
}

static void *
lines(size_t n, size_t size)
{
	void *p = aligned_alloc(LEAT_CACHE_LINE, RTE_ALIGN_CEIL(n * size, LEAT_CACHE_LINE));

	if (p != NULL)
		memset(p, 0, n * size);
	return p;
}

static int
tables_open(struct leat_stream_net *net)
{
	int ret = msgs_open(net);

	if (ret < 0)
		return ret;
	net->streams = lines(net->conf.max_streams, sizeof(*net->streams));
	net->by_peer = calloc(net->nb_peers, sizeof(struct leat_stream *));
	net->rx_ops = lines(net->nb_rx, sizeof(*net->rx_ops));
	net->tx_ops = lines(net->nb_tx, sizeof(*net->tx_ops));
	if (net->streams == NULL || net->by_peer == NULL || net->rx_ops == NULL ||
	    net->tx_ops == NULL)
		return leat_err(ENOMEM, "streams: no memory for %u of them", net->conf.max_streams);
	ops_init(net);
	return 0;
}

static void
net_free(struct leat_stream_net *net)
{
	leat_tune_del(net->tune);
	if (net->msgs != NULL)
		(void)munmap(net->msgs, net->msgs_len);
	free(net->streams);
	free(net->by_peer);
	free(net->rx_ops);
	free(net->tx_ops);
	free(net);
}

/* ---- pollers in a reactor ---- */

static void
on_release(void *arg)
{
	struct leat_stream_net *net = arg;

	net->r = NULL;
	net->ep_poller = net->poller = NULL;
}

static int
pollers_add(struct leat_stream_net *net)
{
	struct leat_reactor *r = net->r;
	int ret;

	net->ep_poller = leat_reactor_ep_add(r, net->ep, stream_on_ops, stream_on_ep_event, net);
	if (net->ep_poller == NULL)
		return -rte_errno;
	net->poller = leat_reactor_poller_add(r, "stream", stream_turn, net, 0);
	if (net->poller == NULL)
		return -rte_errno;
	ret = leat_poller_drain_set(net->ep_poller, stream_net_drain);
	if (ret == 0)
		ret = leat_poller_quiesce_set(net->poller, stream_net_quiesce);
	if (ret == 0)
		ret = leat_poller_ready_set(net->poller, stream_turn_ready);
	if (ret == 0)
		ret = leat_poller_local_set(net->poller);
	if (ret == 0)
		ret = leat_poller_release_set(net->poller, on_release);
	return ret;
}

static int
pollers_remove(struct leat_stream_net *net)
{
	int ret = 0;

	if (net->ep_poller != NULL)
		ret = leat_poller_remove(net->ep_poller);
	if (ret == 0 && net->poller != NULL)
		ret = leat_poller_remove(net->poller);
	if (ret == 0)
		net->ep_poller = net->poller = NULL;
	return ret;
}

/* ---- open ---- */

static int
net_start(struct leat_stream_net *net)
{
	int ret = conf_fill(&net->conf);

	if (ret == 0)
		ret = ep_open(net);
	if (ret == 0)
		ret = stream_tune_add(net);
	if (ret == 0)
		ret = tables_open(net);
	if (ret == 0)
		ret = pollers_add(net);
	if (ret < 0)
		return ret;
	net->now = leat_now();
	net->rx_posted = true;
	stream_rx_post(net);
	stream_telemetry_add(net);
	return 0;
}

struct leat_stream_net *
leat_stream_net_open(struct leat_reactor *r, const struct leat_stream_net_conf *conf)
{
	struct leat_stream_net *net;
	char why[LEAT_ERR_MSG_MAX + 1];
	int ret;

	if (!leat_reactor_owned(r)) {
		leat_err(EPERM, "streams: open a net: %s runs on another thread",
			 leat_reactor_name(r));
		return NULL;
	}
	net = calloc(1, sizeof(*net));
	if (net == NULL) {
		leat_err(ENOMEM, "streams: no memory for a net");
		return NULL;
	}
	net->r = r;
	net->work_end = &net->work;
	net->ready_end = &net->ready;
	net->outs_done_end = &net->outs_done;
	if (conf != NULL)
		net->conf = *conf;
	ret = net_start(net);
	/* The caller's strings may not outlive this call. */
	net->conf.dev = net->conf.name = NULL;
	if (ret == 0)
		return net;
	snprintf(why, sizeof(why), "%s", leat_err_msg());
	if (leat_stream_net_close(net) < 0)
		LEAT_LOG(ERR, stream, "%s", leat_err_msg());
	leat_err(-ret, "%s", why);
	return NULL;
}

struct leat_ep *
leat_stream_net_ep(const struct leat_stream_net *net)
{
	return net->ep;
}

/* ---- close ---- */

static void
step(struct leat_stream_net *net)
{
	struct leat_op *ops[LEAT_EP_BURST];
	struct leat_event ev[EVENTS];
	uint16_t i, n;

	n = leat_ep_poll(net->ep, ops, LEAT_EP_BURST);
	if (n > 0)
		stream_on_ops(net, net->ep, ops, n, leat_now());
	n = leat_ep_events(net->ep, ev, EVENTS);
	for (i = 0; i < n; i++)
		stream_on_ep_event(net, net->ep, &ev[i]);
	(void)stream_turn(net, leat_now());
}

/* Close all streams: the application's handles become invalid. */
static void
release_all(struct leat_stream_net *net)
{
	uint32_t i;

	for (i = 0; i < net->conf.max_streams; i++) {
		struct leat_stream *s = &net->streams[i];

		if (s->state != STREAM_FREE && !s->released)
			leat_stream_close(s, net->conf.close_us);
	}
}

static void
give_up_all(struct leat_stream_net *net)
{
	uint32_t i;

	for (i = 0; i < net->conf.max_streams; i++) {
		struct leat_stream *s = &net->streams[i];

		if (s->state == STREAM_FREE || s->state >= STREAM_ENDING)
			continue;
		s->aborting = s->draining = true;
		stream_drain_check(s);
	}
}

/* Close all streams, and wait for their ops. @return 0, or -EBUSY: some ops did not complete */
static int
streams_close(struct leat_stream_net *net)
{
	const uint64_t until = leat_time_add(leat_now(), leat_us_to_cycles(net->conf.close_us));
	const uint64_t limit = leat_time_add(until, leat_us_to_cycles(BACK_US));

	/* Forget streams that were cut off before this call: each has logged that itself. */
	net->cut = false;
	release_all(net);
	while (net->stats.streams > 0 || net->outs_done != NULL) {
		const uint64_t now = leat_now();

		if (now > limit)
			return leat_err(EBUSY,
					"%s: the device did not give back what %u streams posted",
					net->name, net->stats.streams);
		if (now > until)
			give_up_all(net);
		step(net);
	}
	return 0;
}

/* Wait for the posted receives, which use the region of messages, then deregister the region. */
static void
msgs_close(struct leat_stream_net *net)
{
	const uint64_t until = leat_time_add(leat_now(), leat_us_to_cycles(BACK_US));

	if (net->rx_posted) {
		/* A reactor that stopped has shut the endpoint down already. */
		(void)leat_ep_shutdown(net->ep, BACK_US);
		while (net->nb_rx_idle < net->nb_rx && leat_now() < until)
			step(net);
	}
	if (net->msgs_mr != NULL && leat_mr_deregister(net->msgs_mr) < 0)
		LEAT_LOG(WARNING, stream, "%s: %s", net->name, leat_err_msg());
	net->msgs_mr = NULL;
}

static int
ep_close(struct leat_stream_net *net)
{
	int ret;

	msgs_close(net);
	ret = leat_ep_close(net->ep, BACK_US, NULL, NULL);
	return ret == -EBUSY ? ret : 0;
}

int
leat_stream_net_close(struct leat_stream_net *net)
{
	int ret;

	if (net == NULL)
		return 0;
	if (net->calling)
		return leat_err(EBUSY, "%s: closed in one of its callbacks", net->name);
	if (net->r != NULL && !leat_reactor_owned(net->r))
		return leat_err(EPERM, "%s: close: its reactor runs on another thread", net->name);
	net->closing = true;
	/* This call drives the endpoint: a peer that connects meanwhile is refused. */
	leat_stream_unlisten(net);
	/* Nothing is deleted if telemetry was never added. */
	stream_telemetry_del(net);
	if (net->streams != NULL && (ret = streams_close(net)) < 0)
		return ret;
	if (net->r != NULL && (ret = pollers_remove(net)) < 0)
		return ret;
	if (net->ep != NULL && (ret = ep_close(net)) < 0)
		return ret;
	ret = net->cut ? leat_err(ETIMEDOUT, "%s: closed before all was sent", net->name) : 0;
	net_free(net);
	return ret;
}

void
leat_stream_net_stats_get(const struct leat_stream_net *net, struct leat_stream_net_stats *stats)
{
	const uint64_t *from = (const uint64_t *)&net->stats;
	uint64_t *to = (uint64_t *)stats;
	unsigned int i;

	for (i = 0; i < sizeof(*stats) / sizeof(*to); i++)
		to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}
