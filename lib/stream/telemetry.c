/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * DPDK telemetry commands, for dpdk-telemetry.py:
 *
 *     /leat/streams             ids of the nets
 *     /leat/stream,ID           one net: counters, its first streams
 *     /leat/stream,ID,FIRST     the same with the streams from place FIRST on; a stream's place is
 *                               its index in leat_stream_net.streams
 */

#include <pthread.h>
#include <stdlib.h>

#include <rte_telemetry.h>

#include "leat_compat.h"
#include "stream_pvt.h"

/* Maximum number of streams in one answer: DPDK limits answers to 16 KiB. */
#define STREAMS_MAX 24

struct stream_copy {
	uint32_t place;
	uint8_t state;
	int error;
	uint64_t id;
	struct leat_stream_info info;
	char peer[LEAT_ADDR_MAX];
};

struct net_copy {
	struct leat_question q;
	struct leat_stream_net_stats stats;
	uint32_t max_streams, rx_size, tx_size;
	uint64_t mem_max;
	bool windows;
	uint32_t nb_copied;
	struct stream_copy streams[STREAMS_MAX];
};

static struct leat_ask_kind kind = LEAT_ASK_KIND_INIT;

/* ---- on the thread of the net ---- */

static void
copy_stream(struct stream_copy *to, const struct leat_stream *s)
{
	to->place = s->index;
	to->state = s->state;
	to->error = s->error;
	to->id = s->id;
	leat_stream_info_get(s, &to->info);
	snprintf(to->peer, sizeof(to->peer), "%s", s->addr);
}

static void
fill(struct leat_question *q, const void *arg)
{
	struct net_copy *to = container_of(q, struct net_copy, q);
	const struct leat_stream_net *net = arg;
	uint32_t i;

	leat_stream_net_stats_get(net, &to->stats);
	to->max_streams = net->conf.max_streams;
	to->rx_size = net->conf.rx_size;
	to->tx_size = net->conf.tx_size;
	to->mem_max = net->conf.mem_max;
	to->windows = net->windows;
	for (i = q->first; i < net->conf.max_streams && to->nb_copied < STREAMS_MAX; i++) {
		if (net->streams[i].state != STREAM_FREE)
			copy_stream(&to->streams[to->nb_copied++], &net->streams[i]);
	}
}

void
stream_telemetry_answer(struct leat_stream_net *net)
{
	leat_ask_answer(&kind, &net->asked, fill, net);
}

void
stream_telemetry_del(struct leat_stream_net *net)
{
	leat_ask_del(&kind, &net->asked);
}

/* ---- telemetry's side ---- */

static const char *
state_name(unsigned int state)
{
	static const char *const names[] = { "FREE", "CONNECTING", "ACCEPTED",
					     "UP",   "ENDING",	   "OVER" };

	return state < RTE_DIM(names) ? names[state] : "?";
}

static int
add_stream(struct rte_tel_data *streams, const void *copy, uint32_t i)
{
	const struct stream_copy *c = &((const struct net_copy *)copy)->streams[i];
	struct rte_tel_data *d = rte_tel_data_alloc();
	const struct leat_stream_info *info = &c->info;
	char place[16];
	int ret;

	if (d == NULL)
		return -ENOMEM;
	snprintf(place, sizeof(place), "%u", c->place);
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_uint(d, "stream", c->id);
	rte_tel_data_add_dict_string(d, "peer", c->peer);
	rte_tel_data_add_dict_string(d, "state", state_name(c->state));
	rte_tel_data_add_dict_int(d, "error", c->error);
	rte_tel_data_add_dict_string(d, "side", info->accepted ? "accepted" : "connected");
	rte_tel_data_add_dict_uint(d, "tx_bytes", info->tx_bytes);
	rte_tel_data_add_dict_uint(d, "rx_bytes", info->rx_bytes);
	rte_tel_data_add_dict_uint(d, "tx_room", info->tx_room);
	rte_tel_data_add_dict_uint(d, "rx_ready", info->rx_ready);
	rte_tel_data_add_dict_uint(d, "peer_window", info->peer_window);
	rte_tel_data_add_dict_uint(d, "tx_notices", info->tx_notices);
	rte_tel_data_add_dict_uint(d, "rx_notices", info->rx_notices);
	rte_tel_data_add_dict_uint(d, "tx_registered", info->tx_registered);
	rte_tel_data_add_dict_uint(d, "rx_registered", info->rx_registered);
	rte_tel_data_add_dict_uint(d, "tx_stalls", info->tx_stalls);
	ret = rte_tel_data_add_dict_container(streams, place, d, 0);
	if (ret < 0)
		rte_tel_data_free(d);
	return ret;
}

static int
show(struct rte_tel_data *d, unsigned int id, const struct net_copy *c)
{
	const struct leat_stream_net_stats *s = &c->stats;

	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_uint(d, "id", id);
	rte_tel_data_add_dict_string(d, "endpoint", c->q.name);
	rte_tel_data_add_dict_string(d, "driven", c->q.filled ? "yes" : "no");
	if (!c->q.filled)
		return 0;
	rte_tel_data_add_dict_string(d, "mode", c->windows ? "windows" : "compat");
	rte_tel_data_add_dict_uint(d, "max_streams", c->max_streams);
	rte_tel_data_add_dict_uint(d, "rx_size", c->rx_size);
	rte_tel_data_add_dict_uint(d, "tx_size", c->tx_size);
	rte_tel_data_add_dict_uint(d, "mem_max", c->mem_max);
	rte_tel_data_add_dict_uint(d, "mem", s->mem);
	rte_tel_data_add_dict_uint(d, "streams", s->streams);
	rte_tel_data_add_dict_uint(d, "accepted", s->accepted);
	rte_tel_data_add_dict_uint(d, "connected", s->connected);
	rte_tel_data_add_dict_uint(d, "refused", s->refused);
	rte_tel_data_add_dict_uint(d, "closed", s->closed);
	rte_tel_data_add_dict_uint(d, "failed", s->failed);
	rte_tel_data_add_dict_uint(d, "protocol", s->protocol);
	rte_tel_data_add_dict_uint(d, "tx_bytes", s->tx_bytes);
	rte_tel_data_add_dict_uint(d, "rx_bytes", s->rx_bytes);
	rte_tel_data_add_dict_uint(d, "tx_notices", s->tx_notices);
	rte_tel_data_add_dict_uint(d, "rx_notices", s->rx_notices);
	rte_tel_data_add_dict_uint(d, "keepalives_sent", s->keepalives_sent);
	rte_tel_data_add_dict_uint(d, "keepalives_received", s->keepalives_received);
	return leat_ask_add_all(d, "places", c->nb_copied, add_stream, c);
}

static int
cmd_streams(const char *cmd, const char *params, struct rte_tel_data *d)
{
	RTE_SET_USED(cmd);
	RTE_SET_USED(params);
	return leat_ask_list(&kind, d);
}

static int
cmd_stream(const char *cmd, const char *params, struct rte_tel_data *d)
{
	struct net_copy *c = calloc(1, sizeof(*c));
	unsigned int id;
	int ret;

	RTE_SET_USED(cmd);
	if (c == NULL)
		return -ENOMEM;
	ret = leat_ask(&kind, params, &c->q, &id);
	if (ret == 0)
		ret = show(d, id, c);
	free(c);
	return ret;
}

static void
register_commands(void)
{
	int ret;

	ret = rte_telemetry_register_cmd("/leat/streams", cmd_streams,
					 "Ids of nets of streams and their endpoints. Takes no "
					 "parameters");
	if (ret == 0)
		ret = rte_telemetry_register_cmd(
			"/leat/stream", cmd_stream,
			"A net and its streams. Parameters: id[,slot of the first stream]");
	if (ret < 0)
		LEAT_LOG(WARNING, stream, "telemetry commands are missing: %s", rte_strerror(-ret));
}

void
stream_telemetry_add(struct leat_stream_net *net)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, register_commands);
	leat_ask_add(&kind, &net->asked, net->name);
}
