/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * DPDK telemetry commands, for dpdk-telemetry.py:
 *
 *     /leat/devices        every device: driver, provider, interface, limits
 *     /leat/endpoints      ids of the endpoints
 *     /leat/endpoint,ID    one endpoint: counters, ops held back by its queues
 *
 * The commands run on telemetry's own thread, and read the counters with relaxed loads while the
 * endpoints' owners keep counting.
 */

#include <stdlib.h>

#include <rte_common.h>
#include <rte_telemetry.h>

#include "fabric_pvt.h"
#include "leat_compat.h"

static int
add_device(const struct leat_dev *dev, void *arg)
{
	struct rte_tel_data *list = arg, *d = rte_tel_data_alloc();
	struct leat_dev_info info;
	int ret;

	if (d == NULL)
		return -ENOMEM;
	if (leat_dev_info_get(dev, &info) < 0) {
		rte_tel_data_free(d);
		return -EINVAL;
	}
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_string(d, "driver", info.driver);
	rte_tel_data_add_dict_string(d, "provider", info.provider);
	rte_tel_data_add_dict_string(d, "interface", info.interface);
	rte_tel_data_add_dict_uint(d, "max_msg", info.max_msg);
	rte_tel_data_add_dict_uint(d, "inline_max", info.inline_max);
	rte_tel_data_add_dict_uint(d, "max_peers", info.max_peers);
	rte_tel_data_add_dict_uint(d, "tx_depth_max", info.tx_depth_max);
	rte_tel_data_add_dict_uint(d, "rx_depth_max", info.rx_depth_max);
	ret = rte_tel_data_add_dict_container(list, info.name, d, 0);
	if (ret < 0)
		rte_tel_data_free(d);
	return ret;
}

static int
cmd_devices(const char *cmd, const char *params, struct rte_tel_data *d)
{
	RTE_SET_USED(cmd);
	RTE_SET_USED(params);
	rte_tel_data_start_dict(d);
	return leat_dev_foreach(add_device, d);
}

static int
add_id(const struct leat_ep *ep, void *arg)
{
	return rte_tel_data_add_array_uint(arg, leat_ep_id(ep));
}

static int
cmd_endpoints(const char *cmd, const char *params, struct rte_tel_data *d)
{
	RTE_SET_USED(cmd);
	RTE_SET_USED(params);
	rte_tel_data_start_array(d, RTE_TEL_UINT_VAL);
	return leat_ep_foreach(add_id, d) < 0 ? -ENOSPC : 0;
}

struct find {
	unsigned long id;
	struct rte_tel_data *d;
};

static void
queue_sum(struct leat_queue_stats *sum, const struct leat_queue *q)
{
	struct leat_queue_stats s;

	leat_queue_stats_get(q, &s);
	if (s.held > 0) {
		uint64_t done = sum->held + s.held;

		sum->held_avg_ns = (sum->held_avg_ns * sum->held + s.held_avg_ns * s.held) / done;
	}
	sum->held += s.held;
	sum->held_now += s.held_now;
	sum->held_max_ns = RTE_MAX(sum->held_max_ns, s.held_max_ns);
}

static void
add_order(struct rte_tel_data *d, const struct leat_ep *ep)
{
	struct leat_queue_stats sum = { 0 };
	uint16_t i;

	queue_sum(&sum, &ep->recvq);
	for (i = 0; i < ep->nb_peers; i++)
		queue_sum(&sum, &ep->peers[i].sendq);
	rte_tel_data_add_dict_uint(d, "held_back", sum.held);
	rte_tel_data_add_dict_uint(d, "held_back_now", sum.held_now);
	rte_tel_data_add_dict_uint(d, "held_back_avg_ns", sum.held_avg_ns);
	rte_tel_data_add_dict_uint(d, "held_back_max_ns", sum.held_max_ns);
}

static int
show_endpoint(const struct leat_ep *ep, void *arg)
{
	struct leat_ep_stats s;
	struct find *f = arg;

	if (leat_ep_id(ep) != f->id)
		return 0;
	leat_ep_stats_get(ep, &s);
	rte_tel_data_start_dict(f->d);
	rte_tel_data_add_dict_uint(f->d, "id", leat_ep_id(ep));
	rte_tel_data_add_dict_string(f->d, "name", leat_ep_name(ep));
	rte_tel_data_add_dict_string(f->d, "device", leat_dev_name(ep->dev));
	rte_tel_data_add_dict_uint(f->d, "tx_depth", ep->ctrl->conf.tx_depth);
	rte_tel_data_add_dict_uint(f->d, "rx_depth", ep->ctrl->conf.rx_depth);
	rte_tel_data_add_dict_uint(f->d, "max_peers", ep->nb_peers);
	rte_tel_data_add_dict_uint(f->d, "peers",
				   __atomic_load_n(&ep->ctrl->nb_used, __ATOMIC_RELAXED));
	rte_tel_data_add_dict_uint(f->d, "posted", s.posted);
	rte_tel_data_add_dict_uint(f->d, "returned", s.returned);
	rte_tel_data_add_dict_uint(f->d, "refused", s.refused);
	rte_tel_data_add_dict_uint(f->d, "errors", s.errors);
	rte_tel_data_add_dict_uint(f->d, "flushed", s.flushed);
	rte_tel_data_add_dict_uint(f->d, "tx_bytes", s.tx_bytes);
	rte_tel_data_add_dict_uint(f->d, "rx_bytes", s.rx_bytes);
	rte_tel_data_add_dict_uint(f->d, "cancelled", s.cancelled);
	rte_tel_data_add_dict_uint(f->d, "expired", s.expired);
	add_order(f->d, ep);
	return 1;
}

static int
cmd_endpoint(const char *cmd, const char *params, struct rte_tel_data *d)
{
	struct find f = { .d = d };
	char *end;

	RTE_SET_USED(cmd);
	if (params == NULL)
		return -EINVAL;
	errno = 0;
	f.id = strtoul(params, &end, 10);
	if (errno != 0 || end == params || *end != '\0')
		return -EINVAL;
	return leat_ep_foreach(show_endpoint, &f) == 1 ? 0 : -ENOENT;
}

RTE_INIT(leat_fabric_telemetry)
{
	int ret = 0;

	ret |= rte_telemetry_register_cmd("/leat/devices", cmd_devices,
					  "Fabric devices. Takes no parameters");
	ret |= rte_telemetry_register_cmd("/leat/endpoints", cmd_endpoints,
					  "Ids of the endpoints. Takes no parameters");
	ret |= rte_telemetry_register_cmd("/leat/endpoint", cmd_endpoint,
					  "One endpoint. Parameters: its id");
	if (ret != 0)
		LEAT_LOG(WARNING, fabric, "telemetry commands could not be registered");
}
