/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Settings and measurements of endpoints and their peers: endpoint.toml, peer.toml.
 *
 *     leat_ep_create()    leat_ep_tune_add(): sizes of --settings, before the device's part is
 *                         opened; leat_ep_tune_start(): the other settings, once it is open
 *     leat_ep_events()    leat_tune_serve(): apply(), on the owner's thread
 *     report, row         control thread: relaxed loads of counters that the owner keeps anyway
 *
 * An inner endpoint of a layer is not an object of lib/tune: the layer passes options of the outer
 * endpoint on to it (leat_driver.option in the layer's table).
 */

#include <stdio.h>
#include <string.h>

#include "endpoint_tune.h"
#include "fabric_pvt.h"
#include "peer_tune.h"

#define RLX_LOAD(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define RLX_STORE(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELAXED)
#define BIT(setting) (UINT64_C(1) << (setting))
/* Values of inline_max and signal_interval in endpoint.toml that let the driver choose. */
#define AUTOMATIC_INLINE (-1)
#define AUTOMATIC_SIGNAL 0
#define SIZE_BITS                                                                                  \
	(BIT(ENDPOINT_TUNE_TX_DEPTH) | BIT(ENDPOINT_TUNE_RX_DEPTH) | BIT(ENDPOINT_TUNE_MAX_PEERS))

static_assert(ENDPOINT_TUNE_STATE_OPEN == (int)LEAT_EP_OPEN &&
		      ENDPOINT_TUNE_STATE_SHUT == (int)LEAT_EP_SHUT,
	      "endpoint.toml names the states in their order");
static_assert(PEER_TUNE_STATE_FREE == (int)LEAT_PEER_FREE &&
		      PEER_TUNE_STATE_UP == (int)LEAT_PEER_UP &&
		      PEER_TUNE_STATE_DOWN == (int)LEAT_PEER_DOWN,
	      "peer.toml names the states in their order");

/* ---- settings ---- */

/*
 * Set an option of the driver; *value as in leat_driver.option. @return 0, or negative with
 * leat_err() and nothing changed.
 */
static int
option_set(struct leat_ep *ep, enum leat_ep_option option, uint32_t *value)
{
	struct leat_ep_ctrl *c = ep->ctrl;
	bool automatic = *value == LEAT_EP_OPTION_AUTO;
	int ret;

	if (c->state == LEAT_EP_SHUT)
		return leat_err(ESHUTDOWN, "%s: the endpoint is shut down", c->name);
	if (c->driver->option == NULL) {
		*value = 0;
		return automatic ? 0
				 : leat_err(EOPNOTSUPP,
					    "%s: %s has no such option; leave it automatic",
					    c->name, c->driver->name);
	}
	ret = c->driver->option(ep, option, value);
	if (ret == -EOPNOTSUPP && automatic) {
		*value = 0;
		return 0;
	}
	return ret;
}

/*
 * Set inline_max and signal_interval, and store the values in force in *want. When signal_interval
 * is refused, inline_max is set back.
 */
static int
apply_options(struct leat_ep *ep, struct endpoint_tune_settings *want, uint64_t changed)
{
	bool auto_inline = want->inline_max == AUTOMATIC_INLINE;
	bool auto_signal = want->signal_interval == AUTOMATIC_SIGNAL;
	uint32_t inline_max = auto_inline ? LEAT_EP_OPTION_AUTO : (uint32_t)want->inline_max;
	uint32_t signal = auto_signal ? LEAT_EP_OPTION_AUTO : want->signal_interval;
	struct leat_ep_ctrl *c = ep->ctrl;
	uint32_t old = c->inline_effective;
	int ret;

	if ((changed & BIT(ENDPOINT_TUNE_INLINE_MAX)) != 0) {
		ret = option_set(ep, LEAT_EP_OPTION_INLINE_MAX, &inline_max);
		if (ret < 0)
			return ret;
	}
	if ((changed & BIT(ENDPOINT_TUNE_SIGNAL_INTERVAL)) != 0) {
		ret = option_set(ep, LEAT_EP_OPTION_SIGNAL_INTERVAL, &signal);
		if (ret < 0) {
			if ((changed & BIT(ENDPOINT_TUNE_INLINE_MAX)) != 0 && old != inline_max)
				(void)c->driver->option(ep, LEAT_EP_OPTION_INLINE_MAX, &old);
			return ret;
		}
		RLX_STORE(c->signal_effective, signal);
		if (!auto_signal)
			want->signal_interval = signal;
	}
	if ((changed & BIT(ENDPOINT_TUNE_INLINE_MAX)) != 0) {
		RLX_STORE(c->inline_effective, inline_max);
		if (!auto_inline)
			want->inline_max = inline_max;
	}
	return 0;
}

static uint32_t
size_of(uint32_t want, uint32_t def, uint32_t max)
{
	return RTE_MIN(want != 0 ? want : def, max);
}

/* Apply the sizes of a settings file, within the device's limits, before ep_open(). */
static int
apply_sizes(struct leat_ep *ep, struct endpoint_tune_settings *want)
{
	struct leat_ep_ctrl *c = ep->ctrl;
	const struct leat_layer *layer;
	struct leat_dev_info info;
	uint32_t peers;
	int ret;

	ret = leat_dev_info_layer(ep->dev, c->conf.ops, &info, &layer);
	if (ret < 0)
		return ret;
	peers = size_of(want->max_peers, LEAT_EP_PEERS_DEFAULT, info.max_peers);
	if (peers != ep->nb_peers) {
		ret = leat_ep_peers_alloc(ep, (uint16_t)peers);
		if (ret < 0)
			return ret;
	}
	c->conf.max_peers = (uint16_t)peers;
	want->max_peers = peers;
	want->tx_depth = size_of(want->tx_depth, info.tx_depth, info.tx_depth_max);
	want->rx_depth = size_of(want->rx_depth, info.rx_depth, info.rx_depth_max);
	leat_ep_depths_set(ep, want->tx_depth, want->rx_depth);
	return 0;
}

static int
apply(void *arg, void *wanted, uint64_t changed)
{
	struct endpoint_tune_settings *want = wanted;
	struct leat_ep *ep = arg;
	int ret;

	if (ep->ctrl->tune == NULL)
		return (changed & SIZE_BITS) != 0 ? apply_sizes(ep, want) : 0;
	/*
	 * Switch sampling on first: if a later step fails, the error path below sets it back, and
	 * setting it back can't fail.
	 */
	if ((changed & BIT(ENDPOINT_TUNE_LATENCY_SAMPLE)) != 0 && want->latency_sample != 0) {
		ret = leat_ep_sample_set(ep, want->latency_sample);
		if (ret < 0)
			return ret;
	}
	ret = apply_options(ep, want, changed);
	if (ret < 0) {
		(void)leat_ep_sample_set(ep, ep->ctrl->set.latency_sample);
		return ret;
	}
	if (want->latency_sample == 0)
		(void)leat_ep_sample_set(ep, 0);
	return 0;
}

/* ---- measurements ---- */

static void
add_queue(struct endpoint_tune_report *rep, const struct leat_queue *q)
{
	struct leat_queue_stats s;

	leat_queue_stats_get(q, &s);
	rep->held_back += s.held;
	rep->held_back_now += (int64_t)s.held_now;
	rep->held_back_max_ns = RTE_MAX(rep->held_back_max_ns, (int64_t)s.held_max_ns);
}

static void
report(void *arg, void *to)
{
	struct endpoint_tune_report *rep = to;
	const struct leat_ep *ep = arg;
	const struct leat_ep_ctrl *c = ep->ctrl;
	struct leat_tune_histogram *latency[LEAT_OP_TYPES] = {
		[LEAT_OP_SEND] = &rep->latency_send,
		[LEAT_OP_RECV] = &rep->latency_recv,
		[LEAT_OP_TSEND] = &rep->latency_tsend,
		[LEAT_OP_TRECV] = &rep->latency_trecv,
		[LEAT_OP_WRITE] = &rep->latency_write,
		[LEAT_OP_WRITE_IMM] = &rep->latency_write_imm,
		[LEAT_OP_READ] = &rep->latency_read,
		[LEAT_OP_FETCH_ADD] = &rep->latency_fetch_add,
		[LEAT_OP_CMP_SWAP] = &rep->latency_cmp_swap,
	};
	struct leat_ep_stats s;
	unsigned int i;

	leat_ep_stats_get(ep, &s);
	snprintf(rep->device, sizeof(rep->device), "%s", leat_dev_name(ep->dev));
	snprintf(rep->provider, sizeof(rep->provider), "%s", c->provider);
	snprintf(rep->interface, sizeof(rep->interface), "%s", c->interface);
	rep->state = (uint32_t)RLX_LOAD(c->state);
	rep->listening = RLX_LOAD(c->listening);
	rep->posted = s.posted;
	rep->returned = s.returned;
	rep->refused = s.refused;
	rep->errors = s.errors;
	rep->flushed = s.flushed;
	rep->cancelled = s.cancelled;
	rep->expired = s.expired;
	rep->tx_bytes = s.tx_bytes;
	rep->rx_bytes = s.rx_bytes;
	/* The owner may count more ops between the two loads: returned can exceed posted. */
	rep->inflight = s.posted > s.returned ? (int64_t)(s.posted - s.returned) : 0;
	rep->peers = RLX_LOAD(c->nb_used);
	rep->inline_effective = RLX_LOAD(c->inline_effective);
	rep->signal_effective = RLX_LOAD(c->signal_effective);
	add_queue(rep, &ep->recvq);
	for (i = 0; i < ep->nb_peers; i++)
		add_queue(rep, &ep->peers[i].sendq);
	for (i = 0; i < LEAT_OP_TYPES; i++)
		leat_ep_sample_get(ep, i, latency[i]);
}

static int
row(void *arg, uint32_t i, struct leat_tune_row *row)
{
	struct peer_tune_report *rep = row->report;
	const struct leat_ep *ep = arg;
	const struct leat_peer *peer;
	struct leat_queue_stats s;
	int64_t sent;

	if (i >= ep->nb_peers)
		return -1;
	peer = &ep->peers[i];
	rep->state = RLX_LOAD(peer->state);
	if (rep->state == LEAT_PEER_FREE)
		return 0;
	snprintf(row->name, sizeof(row->name), "peer%u", i);
	leat_peer_addr_read(ep, peer, rep->address, sizeof(rep->address));
	leat_queue_stats_get(&peer->sendq, &s);
	rep->posted = s.posted;
	rep->returned = s.returned;
	rep->held_back = s.held;
	rep->held_back_now = (int64_t)s.held_now;
	rep->held_back_max_ns = (int64_t)s.held_max_ns;
	sent = (int64_t)(s.posted - s.returned - s.held_now) +
	       (int64_t)RLX_LOAD(peer->nb_off_queue);
	rep->inflight = RTE_MAX(sent, INT64_C(0));
	return 1;
}

/* ---- adding and starting an endpoint's object ---- */

int
leat_ep_tune_add(struct leat_ep *ep, const struct leat_dev_info *info)
{
	const struct leat_tune_conf conf = {
		.schema = &endpoint_tune_schema,
		.name = ep->ctrl->name,
		.settings = &ep->ctrl->set,
		.apply = apply,
		.report = report,
		.row = row,
		.row_schema = &peer_tune_schema,
		.arg = ep,
	};
	struct leat_ep_ctrl *c = ep->ctrl;

	snprintf(c->provider, sizeof(c->provider), "%s", info->provider);
	snprintf(c->interface, sizeof(c->interface), "%s", info->interface);
	c->set = *(const struct endpoint_tune_settings *)endpoint_tune_schema.defaults;
	c->set.tx_depth = c->conf.tx_depth;
	c->set.rx_depth = c->conf.rx_depth;
	c->set.max_peers = c->conf.max_peers;
	c->tune = leat_tune_add(&conf);
	return c->tune != NULL ? 0 : -rte_errno;
}

int
leat_ep_tune_start(struct leat_ep *ep)
{
	struct leat_ep_ctrl *c = ep->ctrl;
	int ret;

	if (c->tune == NULL)
		return 0;
	ret = apply(ep, &c->set, ~SIZE_BITS);
	if (ret == 0)
		leat_tune_changed(c->tune);
	return ret;
}
