/* SPDX-License-Identifier: BSD-3-Clause */

/* Settings and measurements of a net (stream.toml), served in the net's turn. */

#include <rte_common.h>
#include <rte_errno.h>

#include "stream_pvt.h"

static void
take(struct leat_stream_net_conf *c, const struct stream_tune_settings *set)
{
	c->mem_max = set->mem_max != 0 ? (uint64_t)set->mem_max : LEAT_STREAM_MEM_DEFAULT;
	c->keepalive_ms = set->keepalive_ms;
	c->client_keepalive_ms = set->client_keepalive_ms;
	c->silence_ms = set->silence_ms;
	c->client_silence_ms = set->client_silence_ms;
	c->idle_ms = set->idle_ms;
}

static int
apply(void *arg, void *wanted, uint64_t changed)
{
	const struct stream_tune_settings *want = wanted;
	struct leat_stream_net *net = arg;

	(void)changed;
	if (want->rx_size % STREAM_WINDOWS != 0)
		return leat_err(EINVAL, "receive windows of %u B: an odd number", want->rx_size);
	/* Existing streams keep their sizes. */
	net->conf.rx_size = want->rx_size != 0 ? want->rx_size : LEAT_STREAM_RX_DEFAULT;
	net->conf.tx_size = want->tx_size != 0 ? want->tx_size : LEAT_STREAM_TX_DEFAULT;
	take(&net->conf, want);
	return 0;
}

static void
report(void *arg, void *to)
{
	struct stream_tune_report *rep = to;
	struct leat_stream_net_stats s;

	leat_stream_net_stats_get(arg, &s);
	rep->accepted = s.accepted;
	rep->connected = s.connected;
	rep->refused = s.refused;
	rep->closed = s.closed;
	rep->failed = s.failed;
	rep->protocol = s.protocol;
	rep->tx_bytes = s.tx_bytes;
	rep->rx_bytes = s.rx_bytes;
	rep->tx_notices = s.tx_notices;
	rep->rx_notices = s.rx_notices;
	rep->keepalives_sent = s.keepalives_sent;
	rep->keepalives_received = s.keepalives_received;
	rep->streams = s.streams;
	rep->mem = (int64_t)s.mem;
}

/*
 * Publish the net's settings and counters. net->conf already has the defaults; leat_tune_add()
 * replaces them by the values of a settings file, with apply().
 */
int
stream_tune_add(struct leat_stream_net *net)
{
	const struct leat_tune_conf conf = {
		.schema = &stream_tune_schema,
		.name = net->name,
		.settings = &net->set,
		.apply = apply,
		.report = report,
		.arg = net,
	};
	const struct leat_stream_net_conf *c = &net->conf;

	net->set.rx_size = c->rx_size;
	net->set.tx_size = c->tx_size;
	net->set.mem_max = (int64_t)RTE_MIN(c->mem_max, (uint64_t)INT64_MAX);
	net->set.keepalive_ms = c->keepalive_ms;
	net->set.client_keepalive_ms = c->client_keepalive_ms;
	net->set.silence_ms = c->silence_ms;
	net->set.client_silence_ms = c->client_silence_ms;
	net->set.idle_ms = c->idle_ms;
	net->tune = leat_tune_add(&conf);
	return net->tune != NULL ? 0 : -rte_errno;
}
