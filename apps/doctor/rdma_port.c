/* SPDX-License-Identifier: BSD-3-Clause */

/* The checks of ports of RDMA devices: link, addresses, MTU. */

#include <stdlib.h>
#include <string.h>

#ifdef DOCTOR_IBVERBS
#include <infiniband/verbs.h>
#endif

#include "doctor.h"

#define IB "/sys/class/infiniband"
#define GIDS_MAX 256
/*
 * GRH, UDP, BTH, XRC, atomic and ICRC headers: the bytes that drivers subtract from the interface's
 * MTU (rdma/ib_addr.h, iboe_get_mtu()).
 */
#define ROCE_HEADERS (40 + 8 + 12 + 4 + 28 + 4)
/* Tolerance, bytes: soft-RoCE subtracts a little less. */
#define ROCE_SLACK 16

enum kind { KIND_IB, KIND_ROCE, KIND_IWARP, KIND_EFA };

struct port {
	const char *dev, *num; /* names in /sys/class/infiniband: device, port */
	char subject[DR_NAME_LEN];
	char state[32], phys[32], rate[48];
	char netdev[DR_NAME_LEN]; /* "" if unknown */
	enum kind kind;
	bool active;
};

static void
find_netdev(const struct dr *d, struct port *p)
{
	struct dr_names nets;

	if (dr_read(d, p->netdev, sizeof(p->netdev), IB "/%s/ports/%s/gid_attrs/ndevs/0", p->dev,
		    p->num) <= 0 &&
	    dr_read(d, p->netdev, sizeof(p->netdev), IB "/%s/parent", p->dev) <= 0 &&
	    dr_list(d, &nets, IB "/%s/device/net", p->dev) == 1)
		snprintf(p->netdev, sizeof(p->netdev), "%s", nets.name[0]);
	/* The name becomes part of paths and commands. */
	if (!dr_plain(p->netdev))
		p->netdev[0] = '\0';
}

static bool
read_port(const struct dr *d, struct port *p, const char *dev, const char *num)
{
	char type[64], layer[64];

	memset(p, 0, sizeof(*p));
	p->dev = dev;
	p->num = num;
	snprintf(p->subject, sizeof(p->subject), "%.56s/%.6s", dev, num);
	(void)dr_read(d, p->phys, sizeof(p->phys), IB "/%s/ports/%s/phys_state", dev, num);
	(void)dr_read(d, p->rate, sizeof(p->rate), IB "/%s/ports/%s/rate", dev, num);
	(void)dr_read(d, type, sizeof(type), IB "/%s/node_type", dev);
	(void)dr_read(d, layer, sizeof(layer), IB "/%s/ports/%s/link_layer", dev, num);
	if (strncmp(type, "4:", 2) == 0)
		p->kind = KIND_IWARP;
	else if (strcmp(layer, "Ethernet") == 0)
		p->kind = KIND_ROCE;
	else if (strcmp(layer, "InfiniBand") == 0)
		p->kind = KIND_IB;
	else
		p->kind = KIND_EFA;
	if (p->kind != KIND_EFA)
		find_netdev(d, p);
	if (dr_read(d, p->state, sizeof(p->state), IB "/%s/ports/%s/state", dev, num) <= 0)
		return false;
	p->active = strncmp(p->state, "4:", 2) == 0;
	return true;
}

/* Call visit(d, port, active) for each port whose state is readable. @return how many are active */
static unsigned int
each_port(struct dr *d, void (*visit)(struct dr *d, const struct port *p, unsigned int active),
	  unsigned int active)
{
	struct dr_names devs, nums;
	unsigned int i, j, n = 0;
	struct port p;

	(void)dr_list(d, &devs, IB);
	for (i = 0; i < devs.nb; i++) {
		(void)dr_list(d, &nums, IB "/%s/ports", devs.name[i]);
		for (j = 0; j < nums.nb; j++) {
			if (!read_port(d, &p, devs.name[i], nums.name[j]))
				continue; /* unread_ports() reports it */
			if (p.active)
				n++;
			if (visit != NULL)
				visit(d, &p, active);
		}
	}
	return n;
}

/* ---- rdma.ports ---- */

static void
mend_link(struct dr_finding *f, const struct port *p)
{
	if (strncmp(p->state, "2:", 2) == 0 && p->kind == KIND_IB) {
		dr_means(f, "no subnet manager has set the port up");
		dr_mend(f, "systemctl start opensm   # on one machine of the subnet");
	} else if (p->netdev[0] != '\0') {
		dr_means(f, "no op goes through this port");
		dr_mend(f, "ip link set %s up   # and look at the cable: ethtool %s", p->netdev,
			p->netdev);
	} else {
		dr_means(f, "no op goes through this port");
		dr_mend(f, "dmesg | grep -i -e rdma -e infiniband   # and look at the cable");
	}
}

static void
port_state(struct dr *d, const struct port *p, unsigned int active)
{
	struct dr_finding *f;

	f = dr_found(d,
		     p->active	  ? DR_OK
		     : active > 0 ? DR_INFO
				  : DR_ERROR,
		     p->subject, "state %s, link %s, %s%s%s", p->state,
		     p->phys[0] != '\0' ? p->phys : "?",
		     p->rate[0] != '\0' ? p->rate : "rate unknown",
		     p->netdev[0] != '\0' ? ", interface " : "", p->netdev);
	if (p->active)
		dr_means(f, "ready");
	else
		mend_link(f, p);
}

static void
nothing_to_check(struct dr *d, const char *what)
{
	struct dr_finding *f = dr_found(d, DR_OK, "", "%s", what);

	dr_means(f, "nothing to check");
}

static void
unread_ports(struct dr *d)
{
	struct dr_names devs, nums;
	unsigned int i, j;
	struct port p;

	(void)dr_list(d, &devs, IB);
	for (i = 0; i < devs.nb; i++) {
		if (dr_list(d, &nums, IB "/%s/ports", devs.name[i]) == 0)
			dr_report_unknown(d, devs.name[i], "ports", IB "/.../ports");
		for (j = 0; j < nums.nb; j++) {
			if (!read_port(d, &p, devs.name[i], nums.name[j]))
				dr_report_unknown(d, p.subject, "state", IB "/.../state");
		}
	}
}

void
dr_rdma_ports(struct dr *d)
{
	if (!dr_rdma_present(d)) {
		nothing_to_check(d, "no RDMA device");
		return;
	}
	(void)each_port(d, port_state, each_port(d, NULL, 0));
	unread_ports(d);
}

/* ---- rdma.gids ---- */

struct gids {
	unsigned int all, v2, routable;
	unsigned int first; /* index of the first routable GID */
};

static void
count_gids(const struct dr *d, const struct port *p, struct gids *g)
{
	static const char zero[] = "0000:0000:0000:0000:0000:0000:0000:0000";
	char gid[64], type[64];
	unsigned int i;

	memset(g, 0, sizeof(*g));
	for (i = 0; i < GIDS_MAX; i++) {
		if (dr_read(d, gid, sizeof(gid), IB "/%s/ports/%s/gids/%u", p->dev, p->num, i) < 0)
			break;
		if (strlen(gid) != strlen(zero) ||
		    strspn(gid, "0123456789abcdef:") != strlen(gid) || strcmp(gid, zero) == 0)
			continue;
		g->all++;
		if (dr_read(d, type, sizeof(type), IB "/%s/ports/%s/gid_attrs/types/%u", p->dev,
			    p->num, i) <= 0 ||
		    strcmp(type, "RoCE v2") != 0)
			continue;
		g->v2++;
		/* A link-local address needs a scope: it does not count as routable. */
		if (strncmp(gid, "fe80:", 5) != 0 && g->routable++ == 0)
			g->first = i;
	}
}

static void
port_gids(struct dr *d, const struct port *p, unsigned int active_ports)
{
	struct dr_finding *f;
	struct gids g;

	(void)active_ports;
	if (!p->active || p->kind == KIND_IWARP)
		return;
	count_gids(d, p, &g);
	if (g.all == 0) {
		f = dr_found(d, DR_ERROR, p->subject, "none");
		dr_means(f, "the port has no address: no peer can be reached through it");
	} else if (p->kind != KIND_ROCE) {
		f = dr_found(d, DR_OK, p->subject, "%u", g.all);
		dr_means(f, "the port has an address");
		return;
	} else if (g.v2 == 0) {
		f = dr_found(d, DR_WARNING, p->subject, "%u, none of RoCE v2", g.all);
		dr_means(f, "RoCE v1 stays inside its Ethernet segment");
		dr_mend(f, "cma_roce_mode -d %s -p 1 -m 2", dr_plain(p->dev) ? p->dev : "DEVICE");
		return;
	} else if (g.routable == 0) {
		f = dr_found(d, DR_WARNING, p->subject, "%u, all of them link-local", g.all);
		dr_means(f, "there is no IP address to connect to");
	} else {
		f = dr_found(d, DR_OK, p->subject,
			     "%u, %u of them RoCE v2 of an IP address: index %u first", g.all,
			     g.routable, g.first);
		dr_means(f, "the port has an address");
		return;
	}
	if (p->netdev[0] != '\0')
		dr_mend(f, "ip address add ADDRESS/PREFIX dev %s", p->netdev);
	else
		dr_mend(f, "ibv_devinfo -v   # then give the port's interface an address");
}

void
dr_rdma_gids(struct dr *d)
{
	unsigned int before = d->nb;

	(void)each_port(d, port_gids, 0);
	if (d->nb == before)
		nothing_to_check(d, "no active port that has GIDs");
}

/* ---- rdma.mtu ---- */

/* Return the largest RoCE MTU whose packets fit into an interface's MTU, or 0. */
static unsigned int
roce_mtu(uint64_t netdev_mtu)
{
	unsigned int mtu;

	for (mtu = 4096; mtu >= 256; mtu /= 2) {
		if (netdev_mtu >= mtu + ROCE_HEADERS)
			return mtu;
	}
	return 0;
}

#ifdef DOCTOR_IBVERBS
/* Return the MTU that the device uses, which is in no file; 0: unknown. */
static unsigned int
active_mtu(const struct dr *d, const struct port *p)
{
	unsigned long num = strtoul(p->num, NULL, 10);
	struct ibv_port_attr attr;
	struct ibv_device **list;
	struct ibv_context *ctx;
	unsigned int mtu = 0;
	int i, n = 0;

	if (d->root[0] != '\0' || num == 0 || num > UINT8_MAX)
		return 0;
	list = ibv_get_device_list(&n);
	for (i = 0; list != NULL && i < n; i++) {
		if (strcmp(ibv_get_device_name(list[i]), p->dev) != 0)
			continue;
		ctx = ibv_open_device(list[i]);
		if (ctx == NULL)
			break;
		if (ibv_query_port(ctx, (uint8_t)num, &attr) == 0 &&
		    attr.active_mtu >= IBV_MTU_256 && attr.active_mtu <= IBV_MTU_4096)
			mtu = 128u << attr.active_mtu;
		(void)ibv_close_device(ctx);
		break;
	}
	if (list != NULL)
		ibv_free_device_list(list);
	return mtu;
}
#else
static unsigned int
active_mtu(const struct dr *d, const struct port *p)
{
	(void)d;
	(void)p;
	return 0;
}
#endif

static void
port_mtu(struct dr *d, const struct port *p, unsigned int active_ports)
{
	unsigned int fits, active;
	struct dr_finding *f;
	uint64_t mtu;

	(void)active_ports;
	if (!p->active || p->kind != KIND_ROCE)
		return;
	if (p->netdev[0] == '\0' || !dr_read_u64(d, &mtu, "/sys/class/net/%s/mtu", p->netdev)) {
		dr_report_unknown(d, p->subject, "MTU of its interface", "/sys/class/net");
		return;
	}
	fits = roce_mtu(mtu);
	active = active_mtu(d, p);
	if (fits == 0 || active > roce_mtu(mtu + ROCE_SLACK)) {
		f = dr_found(d, DR_ERROR, p->subject, "port %u B, but %s has %" PRIu64 " B",
			     active > 0 ? active : 256, p->netdev, mtu);
		dr_means(f, "full packets don't fit: retries are exhausted, connections end");
	} else if (active > 0 && active < fits && fits <= 4096) {
		f = dr_found(d, DR_WARNING, p->subject,
			     "port %u B, though %s with %" PRIu64 " B has room for %u B", active,
			     p->netdev, mtu, fits);
		dr_means(f, "smaller packets than need be: less bandwidth");
		dr_mend(f, "ip link set %s mtu %" PRIu64 " && ibv_devinfo -d %s   # anew, to look",
			p->netdev, mtu, dr_plain(p->dev) ? p->dev : "DEVICE");
		return;
	} else if (fits < 4096) {
		f = dr_found(d, DR_WARNING, p->subject, "%s has %" PRIu64 " B, RoCE packets %u B",
			     p->netdev, mtu, active > 0 ? active : fits);
		dr_means(f,
			 "4096 B are possible: less bandwidth, and no contact with peers that use "
			 "more");
	} else {
		f = dr_found(d, DR_OK, p->subject, "%s has %" PRIu64 " B, RoCE packets %u B",
			     p->netdev, mtu, active > 0 ? active : fits);
		dr_means(f, "the largest there is");
		return;
	}
	dr_mend(f, "ip link set %s mtu 4200   # and so on the switches and the other machines",
		p->netdev);
}

void
dr_rdma_mtu(struct dr *d)
{
	unsigned int before = d->nb;

	(void)each_port(d, port_mtu, 0);
	if (d->nb == before)
		nothing_to_check(d, "no active RoCE port");
}
