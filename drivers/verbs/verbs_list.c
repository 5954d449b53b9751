/* SPDX-License-Identifier: BSD-3-Clause */

/* Lists the RDMA devices of this host, port by port, and their properties. */

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "verbs_pvt.h"

/* A port of an open device, and the sink to which it is reported. */
struct port {
	const char *dev;
	struct ibv_context *ctx;
	const struct ibv_device_attr *attr;
	struct ibv_port_attr pattr;
	uint8_t nr;
	const struct leat_dev_sink *to;
};

static void
text(const struct port *p, const char *key, const char *value)
{
	p->to->text(p->to->arg, key, value);
}

static void
number(const struct port *p, const char *key, uint64_t value)
{
	p->to->number(p->to->arg, key, value);
}

const char *
vb_link_name(const struct ibv_device *ibdev, const struct ibv_port_attr *pattr)
{
	if (ibdev->transport_type == IBV_TRANSPORT_IWARP)
		return "iWARP";
	if (pattr->link_layer == IBV_LINK_LAYER_ETHERNET)
		return "RoCE";
	return pattr->link_layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand" : "unknown";
}

static const char *
state_name(enum ibv_port_state state)
{
	switch (state) {
	case IBV_PORT_DOWN:
		return "down";
	case IBV_PORT_INIT:
		return "init: is a subnet manager running?";
	case IBV_PORT_ARMED:
		return "armed";
	case IBV_PORT_ACTIVE:
		return "active";
	default:
		return ibv_port_state_str(state);
	}
}

/*
 * Return the speed of a lane in tenths of a Gb/s. code: PortInfo.LinkSpeedActive of the InfiniBand
 * specification.
 */
static unsigned int
lane_speed(unsigned int code)
{
	static const struct {
		unsigned int code, speed;
	} speeds[] = {
		{ 1, 25 },   { 2, 50 },	  { 4, 100 },  { 8, 100 },
		{ 16, 140 }, { 32, 250 }, { 64, 500 }, { 128, 1000 },
	};
	size_t i;

	for (i = 0; i < RTE_DIM(speeds); i++) {
		if (speeds[i].code == code)
			return speeds[i].speed;
	}
	return 0;
}

static unsigned int
lanes(unsigned int code)
{
	switch (code) {
	case 1:
		return 1;
	case 2:
		return 4;
	case 4:
		return 8;
	case 8:
		return 12;
	case 16:
		return 2;
	default:
		return 0;
	}
}

static void
report_link(const struct port *p)
{
	unsigned int tenths = lane_speed(p->pattr.active_speed) * lanes(p->pattr.active_width);
	char buf[32] = "unknown";

	text(p, "link", vb_link_name(p->ctx->device, &p->pattr));
	text(p, "state", state_name(p->pattr.state));
	if (tenths != 0)
		snprintf(buf, sizeof(buf), "%u.%u Gb/s", tenths / 10, tenths % 10);
	text(p, "speed", buf);
	number(p, "mtu", p->pattr.active_mtu == 0 ? 0 : UINT64_C(128) << p->pattr.active_mtu);
	number(p, "mtu_max", p->pattr.max_mtu == 0 ? 0 : UINT64_C(128) << p->pattr.max_mtu);
	if (p->pattr.link_layer == IBV_LINK_LAYER_INFINIBAND)
		number(p, "lid", p->pattr.lid);
}

/* Report each GID with its index, and the network interface behind the GIDs. */
static void
report_gids(const struct port *p)
{
	bool eth = p->pattr.link_layer == IBV_LINK_LAYER_ETHERNET;
	char addr[INET6_ADDRSTRLEN], line[96], netdev[IF_NAMESIZE] = "";
	struct vb_gid g;
	int i;

	for (i = 0; i < p->pattr.gid_tbl_len && netdev[0] == '\0'; i++) {
		if (vb_gid_get(p->ctx, p->nr, i, &g) < 0 || g.ifindex == 0 ||
		    if_indextoname(g.ifindex, netdev) == NULL)
			netdev[0] = '\0';
	}
	if (netdev[0] != '\0')
		text(p, "netdev", netdev);
	for (i = 0; i < p->pattr.gid_tbl_len; i++) {
		bool v4;

		if (vb_gid_get(p->ctx, p->nr, i, &g) < 0)
			continue;
		v4 = eth && vb_gid_is_v4(&g);
		if (inet_ntop(v4 ? AF_INET : AF_INET6, &g.gid.raw[v4 ? 12 : 0], addr,
			      sizeof(addr)) == NULL)
			continue;
		snprintf(line, sizeof(line), "%d: %s%s", i, addr,
			 !eth	   ? ""
			 : g.roce2 ? ", RoCE v2"
				   : ", RoCE v1");
		p->to->item(p->to->arg, "gids", line);
	}
}

static void
report_limits(const struct port *p)
{
	const struct ibv_device_attr *a = p->attr;
	char buf[sizeof(a->fw_ver) + 1];

	snprintf(buf, sizeof(buf), "%.*s", (int)sizeof(a->fw_ver), a->fw_ver);
	if (buf[0] != '\0')
		text(p, "firmware", buf);
	text(p, "atomics",
	     a->atomic_cap == IBV_ATOMIC_NONE  ? "none"
	     : a->atomic_cap == IBV_ATOMIC_HCA ? "among its own queue pairs"
					       : "with the processor's");
	number(p, "max_msg", p->pattr.max_msg_sz);
	number(p, "max_qp", (uint64_t)a->max_qp);
	number(p, "max_qp_wr", (uint64_t)a->max_qp_wr);
	number(p, "max_qp_rd_atom", (uint64_t)a->max_qp_rd_atom);
	number(p, "max_srq", (uint64_t)a->max_srq);
	number(p, "max_srq_wr", (uint64_t)a->max_srq_wr);
	number(p, "max_cq", (uint64_t)a->max_cq);
	number(p, "max_cqe", (uint64_t)a->max_cqe);
	number(p, "max_mr", (uint64_t)a->max_mr);
	number(p, "max_mr_size", a->max_mr_size);
}

static void
report_port(const struct port *p)
{
	text(p, "device", p->dev);
	number(p, "port", p->nr);
	report_link(p);
	report_gids(p);
	report_limits(p);
}

/* Report all ports of a device, each with the --vdev that opens it. */
static void
report_device(struct ibv_device *ibdev, const struct leat_dev_sink *to)
{
	const char *name = ibv_get_device_name(ibdev);
	struct ibv_device_attr attr;
	struct port p = { .dev = name, .attr = &attr, .to = to };
	char spec[128];
	unsigned int nr;

	p.ctx = ibv_open_device(ibdev);
	if (p.ctx == NULL || ibv_query_device(p.ctx, &attr) != 0) {
		snprintf(spec, sizeof(spec), "fabric_verbs0,dev=%s", name);
		to->device(to->arg, spec);
		to->text(to->arg, "device", name);
		to->text(to->arg, "state",
			 "can't be opened: may /dev/infiniband/uverbs* be read and written?");
		attr.phys_port_cnt = 0;
	}
	for (nr = 1; nr <= attr.phys_port_cnt; nr++) {
		p.nr = (uint8_t)nr;
		if (ibv_query_port(p.ctx, p.nr, &p.pattr) != 0)
			continue;
		snprintf(spec, sizeof(spec), "fabric_verbs0,dev=%s", name);
		if (attr.phys_port_cnt > 1)
			snprintf(spec, sizeof(spec), "fabric_verbs0,dev=%s,port=%u", name, nr);
		to->device(to->arg, spec);
		report_port(&p);
	}
	if (p.ctx != NULL && ibv_close_device(p.ctx) != 0)
		LEAT_LOG(WARNING, driver, "%s: close device: %s", name, strerror(errno));
}

int
vb_list(const struct leat_dev *dev, const struct leat_dev_sink *to)
{
	const struct vb_dev *d = dev != NULL ? leat_dev_drv(dev) : NULL;
	struct ibv_device **list;
	struct port p;
	int i, n = 0, err;

	if (d != NULL) {
		p = (struct port){
			.dev = ibv_get_device_name(d->ibdev),
			.ctx = d->ctx,
			.attr = &d->attr,
			.nr = d->port,
			.to = to,
		};
		err = ibv_query_port(d->ctx, d->port, &p.pattr);
		if (err != 0)
			return leat_err(EIO, "%s: query port %u: %s", d->name, d->port,
					strerror(err));
		report_port(&p);
		return 0;
	}
	errno = 0;
	list = ibv_get_device_list(&n);
	if (list == NULL || n == 0) {
		i = vb_no_devices("fabric_verbs", errno);
		if (list != NULL)
			ibv_free_device_list(list);
		return i;
	}
	for (i = 0; i < n; i++)
		report_device(list[i], to);
	ibv_free_device_list(list);
	return 0;
}
