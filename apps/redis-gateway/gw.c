/* SPDX-License-Identifier: BSD-3-Clause */

/* A leg: open, drain, close. */

#include <errno.h>
#include <inttypes.h>
#include <rte_errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <leat_addr.h>

#include "gw_pvt.h"

#define TICK_US 1000000
#define REFUSAL_US 1000000
/* Interval at which a draining leg looks for clients that it can close. */
#define DRAIN_LOOK_US 2000
/* Room for streams that are being closed, beyond those of the clients. */
#define MORE_STREAMS(clients) ((clients) / 8 + 8)
/* Peers that the device needs beyond its streams. */
#define MORE_PEERS 32

void
gw_refuse(struct gw *gw, const char *peer, const char *why)
{
	const uint64_t now = leat_now();

	if (gw->refusal_logged != 0 && now - gw->refusal_logged < leat_us_to_cycles(REFUSAL_US)) {
		gw->refusals_unlogged++;
		return;
	}
	LEAT_LOG(WARNING, app,
		 "gateway: %s: %s: not let in: %s (and %" PRIu64
		 " more since the last of these lines)",
		 gw->stats.name, peer, why, gw->refusals_unlogged);
	gw->refusal_logged = now;
	gw->refusals_unlogged = 0;
}

/* ---- drain and close ---- */

static void
end_all(struct gw *gw)
{
	while (gw->clients != NULL)
		gw_client_end(gw->clients);
	gw_reverse_unlisten(gw);
}

/* While the reactor stops: let no client in, and end each client once it is quiet. */
static int
on_drain(void *arg, uint64_t until)
{
	struct gw *gw = arg;
	struct gw_client *c, *next;
	const uint64_t now = leat_now();

	(void)until;
	if (!gw->draining) {
		gw->draining = true;
		gw_reverse_unlisten(gw);
		LEAT_LOG(NOTICE, app, "gateway: %s: stops: %u clients may finish what is under way",
			 gw->stats.name, gw->nb_clients);
	}
	if (now < gw->drain_at)
		return gw->clients != NULL;
	gw->drain_at = leat_time_add(now, leat_us_to_cycles(DRAIN_LOOK_US));
	for (c = gw->clients; c != NULL; c = next) {
		next = c->next;
		if (gw_client_quiet(c, now))
			gw_client_end(c);
	}
	return gw->clients != NULL;
}

static int
on_quiesce(void *arg, char *what, size_t len)
{
	struct gw *gw = arg;

	(void)len;
	/* `what` is set in the reactor's last call, after which no descriptor may be left. */
	if (what != NULL) {
		end_all(gw);
		gw_stats_publish(gw);
	}
	return 0;
}

static int
on_tick(void *arg, uint64_t now)
{
	(void)now;
	gw_stats_publish(arg);
	return 0;
}

static void
on_release(void *arg)
{
	struct gw *gw = arg;

	gw->r = NULL;
	gw->poller = NULL;
}

static void
gw_free(struct gw *gw)
{
	gw_stats_fini(gw);
	free(gw->listen);
	free(gw->to);
	free(gw->dev);
	free(gw);
}

int
gw_close(struct gw *gw)
{
	int ret;

	if (gw == NULL)
		return 0;
	end_all(gw);
	if (gw->poller != NULL)
		(void)leat_poller_remove(gw->poller);
	gw->poller = NULL;
	ret = leat_stream_net_close(gw->net);
	if (ret < 0 && ret != -ETIMEDOUT)
		return ret;
	gw_free(gw);
	return ret;
}

/* ---- open ---- */

static int
copy_conf(struct gw *gw, const struct gw_conf *conf)
{
	struct gw_conf *c = &gw->conf;

	*c = *conf;
	if (c->listen == NULL || c->to == NULL)
		return leat_err(EINVAL,
				"gateway: where it listens, or where it goes to, is missing");
	gw->listen = strdup(c->listen);
	gw->to = strdup(c->to);
	gw->dev = c->dev != NULL ? strdup(c->dev) : NULL;
	if (gw->listen == NULL || gw->to == NULL || (c->dev != NULL && gw->dev == NULL))
		return leat_err(ENOMEM, "gateway: no memory");
	c->listen = gw->listen;
	c->to = gw->to;
	c->dev = gw->dev;
	if (c->client_bytes == 0)
		c->client_bytes = GW_CLIENT_BYTES_DEFAULT;
	if (c->backend_us == 0)
		c->backend_us = GW_BACKEND_US_DEFAULT;
	if (c->linger_us == 0)
		c->linger_us = GW_LINGER_US_DEFAULT;
	snprintf(gw->stats.name, sizeof(gw->stats.name), "%s %.40s to %.40s",
		 c->reverse ? "reverse" : "forward", c->listen, c->to);
	return gw_where_parse(c->reverse ? c->listen : c->to, c->reverse, &gw->where);
}

int
gw_device(const struct gw_conf *c, struct leat_dev_info *info)
{
	struct leat_dev *dev = NULL;

	if (c->dev != NULL)
		dev = leat_dev_by_name(c->dev);
	else if (leat_dev_count() > 0)
		dev = leat_dev_get(leat_dev_count() - 1);
	if (dev == NULL) {
		leat_err(ENODEV, "gateway: no device %s (--vdev, --list-devices)",
			 c->dev != NULL ? c->dev : "");
		return -ENODEV;
	}
	return leat_dev_info_get(dev, info);
}

/* Check the number of clients against the device, or set its default. */
static int
choose_clients(struct gw_conf *c)
{
	struct leat_dev_info info;
	uint32_t max = GW_CLIENTS_MAX;
	int ret = gw_device(c, &info);

	if (ret < 0)
		return ret;
	/* Clients of a one_process device are in this process: --allow does not apply. */
	if (info.one_process && !c->reverse)
		c->nb_allow = 0;
	while (max > 1 && max + MORE_STREAMS(max) + MORE_PEERS > info.max_peers)
		max -= max / 16 + 1;
	if (c->clients == 0)
		c->clients = RTE_MIN((uint32_t)GW_CLIENTS_DEFAULT, max);
	if (c->clients > max)
		return leat_err(EINVAL, "gateway: %u clients, where %s can have %u", c->clients,
				info.name, max);
	return 0;
}

static int
net_open(struct gw *gw)
{
	const uint32_t streams = gw->conf.clients + MORE_STREAMS(gw->conf.clients);
	const struct leat_stream_net_conf conf = {
		.dev = gw->conf.dev,
		.name = gw->conf.reverse ? "gateway-reverse" : "gateway-forward",
		.max_streams = streams,
		.rx_size = gw->conf.client_bytes,
		.tx_size = gw->conf.client_bytes,
		.mem_max = gw->conf.memory != 0 ? gw->conf.memory
						: (uint64_t)streams * 2 * gw->conf.client_bytes,
		.drain = on_drain,
		.drain_arg = gw,
	};

	gw->net = leat_stream_net_open(gw->r, &conf);
	return gw->net != NULL ? 0 : -rte_errno;
}

static int
poller_add(struct gw *gw)
{
	int ret;

	gw->poller = leat_reactor_poller_add(gw->r, "gateway", on_tick, gw, TICK_US);
	if (gw->poller == NULL)
		return -rte_errno;
	ret = leat_poller_quiesce_set(gw->poller, on_quiesce);
	return ret < 0 ? ret : leat_poller_release_set(gw->poller, on_release);
}

/* Start a leg whose net is open; after a failure gw_close() undoes everything. */
static int
start(struct gw *gw)
{
	char addr[GW_ADDR_MAX];
	int ret = poller_add(gw);

	if (ret == 0)
		ret = gw->conf.reverse ? gw_reverse_listen(gw) : gw_forward_listen(gw);
	if (ret == 0)
		ret = gw_addr(gw, addr, sizeof(addr));
	if (ret == 0)
		LEAT_LOG(NOTICE, app, "gateway: %s: listens at %s, %u clients at most",
			 gw->stats.name, addr, gw->conf.clients);
	return ret;
}

struct gw *
gw_open(struct leat_reactor *r, const struct gw_conf *conf)
{
	struct gw *gw = calloc(1, sizeof(*gw));
	struct gw_conf guard = *conf;
	int ret;

	if (gw == NULL) {
		leat_err(ENOMEM, "gateway: no memory");
		return NULL;
	}
	gw->r = r;
	gw->listen_sock = -1;
	ret = copy_conf(gw, conf);
	if (ret == 0)
		ret = gw_stats_init(gw);
	if (ret == 0 && !conf->guarded)
		ret = gw_guard(&guard);
	if (ret == 0)
		ret = choose_clients(&gw->conf);
	if (ret == 0)
		ret = net_open(gw);
	if (ret < 0) {
		gw_free(gw);
		return NULL;
	}
	if (start(gw) < 0) {
		char why[LEAT_ERR_MSG_MAX + 1];

		ret = -rte_errno;
		snprintf(why, sizeof(why), "%s", leat_err_msg());
		(void)gw_close(gw);
		leat_err(-ret, "%s", why);
		return NULL;
	}
	return gw;
}

int
gw_addr(const struct gw *gw, char *addr, size_t len)
{
	struct sockaddr_storage sa = { .ss_family = AF_UNSPEC };
	socklen_t sa_len = sizeof(sa);

	if (!gw->conf.reverse)
		return leat_stream_listen_addr(gw->net, addr, len);
	if (getsockname(gw->listen_sock, (struct sockaddr *)&sa, &sa_len) < 0)
		return leat_err(errno, "gateway: %s: %s", gw->conf.listen, strerror(errno));
	if (sa.ss_family == AF_UNIX)
		snprintf(addr, len, "%s", gw->conf.listen);
	else
		leat_addr_str(addr, len, (struct sockaddr *)&sa, sa_len);
	return 0;
}
