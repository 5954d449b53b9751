/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Finds the device, port and GID that the arguments name.
 *
 *     dev=     the device with this name
 *     addr=    the device that rdma_cm finds for this local address
 *     netdev=  the device that rdma_cm finds for the address of this interface
 *     nothing  the only device with an active port; with several the user has to choose
 */

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rte_common.h>

#include "iwarp/verbs_iwarp.h"
#include "verbs_pvt.h"

bool
vb_gid_is_v4(const struct vb_gid *g)
{
	return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)&g->gid);
}

static bool
is_zero(const union ibv_gid *g)
{
	return IN6_IS_ADDR_UNSPECIFIED((const struct in6_addr *)(const void *)g);
}

int
vb_gid_get(struct ibv_context *ctx, uint8_t port, int index, struct vb_gid *out)
{
	memset(out, 0, sizeof(*out));
#ifdef VB_HAVE_GID_EX
	struct ibv_gid_entry entry;

	if (ibv_query_gid_ex(ctx, port, (uint32_t)index, &entry, 0) != 0)
		return -ENOENT;
	out->gid = entry.gid;
	out->ifindex = entry.ndev_ifindex;
	out->roce2 = entry.gid_type == IBV_GID_TYPE_ROCE_V2;
#else
	if (ibv_query_gid(ctx, port, index, &out->gid) != 0)
		return -ENOENT;
	out->roce2 = true; /* the version is not known: assume v2 */
#endif
	return is_zero(&out->gid) ? -ENOENT : 0;
}

static void
gid_to_addr(const struct vb_gid *g, struct sockaddr_storage *ss)
{
	struct sockaddr_in6 *in6 = (void *)ss;
	struct sockaddr_in *in = (void *)ss;

	memset(ss, 0, sizeof(*ss));
	if (vb_gid_is_v4(g)) {
		in->sin_family = AF_INET;
		memcpy(&in->sin_addr, &g->gid.raw[12], 4);
		return;
	}
	in6->sin6_family = AF_INET6;
	memcpy(&in6->sin6_addr, g->gid.raw, 16);
	if (IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
		in6->sin6_scope_id = g->ifindex;
}

/* Is g the GID that the user asked for, by its address (addr=) or its interface (netdev=)? */
static bool
was_asked_for(const struct vb_dev *d, const struct sockaddr_storage *addr, const struct vb_gid *g)
{
	const struct sockaddr_in6 *in6 = (const void *)addr;
	const struct sockaddr_in *in = (const void *)addr;

	if (d->args.netdev[0] != '\0')
		return g->ifindex != 0 && g->ifindex == if_nametoindex(d->args.netdev);
	if (addr->ss_family == AF_INET)
		return vb_gid_is_v4(g) && memcmp(&g->gid.raw[12], &in->sin_addr, 4) == 0;
	return addr->ss_family == AF_INET6 && memcmp(g->gid.raw, &in6->sin6_addr, 16) == 0;
}

/* Rank a GID: RoCE v2 before v1, IPv4 before IPv6, link-local last. */
static int
gid_rank(const struct vb_gid *g)
{
	bool local = IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)(const void *)&g->gid);

	return (g->roce2 ? 4 : 0) + (vb_gid_is_v4(g) ? 2 : 0) + (local ? 0 : 1);
}

/* Choose the GID, and the source addresses of connections. */
static int
find_gid(struct vb_dev *d)
{
	bool eth = d->pattr.link_layer == IBV_LINK_LAYER_ETHERNET;
	const struct sockaddr_storage asked = d->src4.ss_family != 0 ? d->src4 : d->src6;
	int i, best = -1, rank4 = -1, rank6 = -1;
	struct vb_gid g;

	if (d->rules.cm_addrs)
		return vb_iwarp_addrs(d);
	if (d->args.gid >= 0) {
		if (vb_gid_get(d->ctx, d->port, d->args.gid, &d->sgid) < 0)
			return leat_err(ENODEV,
					"%s: gid=%d: device %s, port %u has none there (rdma link, "
					"show_gids or ibv_devinfo -v list them)",
					d->name, d->args.gid, ibv_get_device_name(d->ibdev),
					d->port);
		d->gid = d->args.gid;
		if (eth)
			gid_to_addr(&d->sgid, vb_gid_is_v4(&d->sgid) ? &d->src4 : &d->src6);
		return 0;
	}
	for (i = 0; i < d->pattr.gid_tbl_len; i++) {
		int rank;

		if (vb_gid_get(d->ctx, d->port, i, &g) < 0)
			continue;
		rank = eth ? gid_rank(&g) : 0;
		if (eth && was_asked_for(d, &asked, &g))
			rank += 8;
		if (rank > best) {
			best = rank;
			d->gid = i;
			d->sgid = g;
		}
		if (eth && vb_gid_is_v4(&g) && rank > rank4) {
			rank4 = rank;
			gid_to_addr(&g, &d->src4);
		} else if (eth && !vb_gid_is_v4(&g) && rank > rank6) {
			rank6 = rank;
			gid_to_addr(&g, &d->src6);
		}
	}
	if (eth && best < 0)
		return leat_err(ENODEV,
				"%s: device %s, port %u has no GID: has its network interface an "
				"address (ip addr, rdma link)?",
				d->name, ibv_get_device_name(d->ibdev), d->port);
	return 0;
}

int
vb_no_devices(const char *name, int err)
{
	if (access("/sys/class/infiniband", F_OK) != 0)
		return leat_err(
			ENODEV,
			"%s: the kernel has no RDMA: load the modules ib_uverbs, rdma_ucm "
			"and the adapter's (mlx5_ib, irdma, bnxt_re; rdma_rxe for software)",
			name);
	if (access("/dev/infiniband", F_OK) != 0)
		return leat_err(
			ENODEV,
			"%s: no /dev/infiniband: load ib_uverbs and rdma_ucm (modprobe), or "
			"pass the directory into the container",
			name);
	return leat_err(ENODEV,
			"%s: no RDMA device (%s): is the adapter's module loaded (mlx5_ib, irdma, "
			"bnxt_re, rdma_rxe; 'rdma link' shows what is there), its libibverbs "
			"provider installed (ibverbs-providers), /dev/infiniband/uverbs* readable?",
			name, err != 0 ? strerror(err) : "the list is empty");
}

static int
open_ctx(struct vb_dev *d, struct ibv_device *ibdev)
{
	d->ctx = ibv_open_device(ibdev);
	if (d->ctx == NULL)
		return leat_err(errno != 0 ? errno : EIO,
				"%s: open device %s: %s: may /dev/infiniband/uverbs* be read and "
				"written?",
				d->name, ibv_get_device_name(ibdev), strerror(errno));
	d->ibdev = ibdev;
	return 0;
}

static void
close_ctx(struct vb_dev *d)
{
	if (d->ctx != NULL && ibv_close_device(d->ctx) != 0)
		LEAT_LOG(WARNING, driver, "%s: close device: %s", d->name, strerror(errno));
	d->ctx = NULL;
}

/*
 * Choose the port asked for, or the first active one. @return 0; -ENOLINK: none is active; -ENODEV:
 * no such port; -EIO: a query failed
 */
static int
find_port(struct vb_dev *d)
{
	unsigned int p, from = 1, to;
	int err;

	err = ibv_query_device(d->ctx, &d->attr);
	if (err != 0)
		return leat_err(EIO, "%s: query device: %s", d->name, strerror(err));
	to = d->attr.phys_port_cnt;
	if (d->args.port != 0) {
		if (d->args.port > to)
			return leat_err(ENODEV, "%s: port=%u: device %s has %u", d->name,
					d->args.port, ibv_get_device_name(d->ibdev), to);
		from = to = d->args.port;
	}
	for (p = from; p <= to; p++) {
		err = ibv_query_port(d->ctx, (uint8_t)p, &d->pattr);
		if (err != 0)
			return leat_err(EIO, "%s: query port %u: %s", d->name, p, strerror(err));
		if (d->pattr.state == IBV_PORT_ACTIVE) {
			d->port = (uint8_t)p;
			return 0;
		}
	}
	return leat_err(ENOLINK,
			"%s: device %s: port %u is not active: is the link up (ip link, rdma link, "
			"ibstat), on InfiniBand is a subnet manager running?",
			d->name, ibv_get_device_name(d->ibdev), from);
}

static int
by_name(struct vb_dev *d, const char *name)
{
	char names[256] = "";
	size_t pos = 0;
	int i;

	for (i = 0; d->list[i] != NULL; i++) {
		if (strcmp(ibv_get_device_name(d->list[i]), name) == 0)
			return open_ctx(d, d->list[i]) < 0 ? -rte_errno : find_port(d);
		if (pos < sizeof(names))
			pos += (size_t)snprintf(names + pos, sizeof(names) - pos, "%s%s",
						i == 0 ? "" : ", ",
						ibv_get_device_name(d->list[i]));
	}
	return leat_err(ENODEV, "%s: no RDMA device '%s'; there are: %s", d->name, name, names);
}

static int
by_sockaddr(struct vb_dev *d, const struct sockaddr_storage *ss, const char *what)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id = NULL;
	char name[64] = "";
	int err = errno;
	uint8_t port = 0;

	if (ch == NULL)
		return leat_err(
			ENODEV,
			"%s: rdma_cm: %s: is rdma_ucm loaded, /dev/infiniband/rdma_cm there?",
			d->name, strerror(err));
	if (rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) == 0 &&
	    rdma_bind_addr(id, (struct sockaddr *)(uintptr_t)ss) == 0) {
		if (id->verbs != NULL)
			snprintf(name, sizeof(name), "%s", ibv_get_device_name(id->verbs->device));
		port = id->port_num;
		err = ENODEV; /* of an address without a device, such as 127.0.0.1 */
	} else {
		err = errno;
	}
	if (id != NULL)
		(void)rdma_destroy_id(id);
	rdma_destroy_event_channel(ch);
	if (name[0] == '\0')
		return leat_err(ENODEV,
				"%s: %s: no RDMA device has that address (%s); 'rdma link' "
				"shows which interfaces have one",
				d->name, what, strerror(err));
	if (d->args.port == 0)
		d->args.port = port;
	return by_name(d, name);
}

static int
by_addr(struct vb_dev *d, const char *addr, const char *what)
{
	struct sockaddr_storage ss = { .ss_family = AF_UNSPEC };
	char full[INET6_ADDRSTRLEN + 8];
	int ret;

	snprintf(full, sizeof(full), strchr(addr, ':') != NULL ? "[%s]:0" : "%s:0", addr);
	if (vb_addr_parse(full, true, &ss) < 0)
		return leat_err(EINVAL, "%s: %s: an IPv4 or IPv6 address expected", d->name, what);
	ret = by_sockaddr(d, &ss, what);
	if (ret < 0)
		return ret;
	if (ss.ss_family == AF_INET)
		d->src4 = ss;
	else
		d->src6 = ss;
	return 0;
}

static int
by_netdev(struct vb_dev *d)
{
	struct sockaddr_storage ss = { .ss_family = AF_UNSPEC };
	struct ifaddrs *list, *i;
	char what[64];

	if (getifaddrs(&list) != 0)
		return leat_err(errno, "%s: list of interfaces: %s", d->name, strerror(errno));
	for (i = list; i != NULL; i = i->ifa_next) {
		if (i->ifa_addr == NULL || strcmp(i->ifa_name, d->args.netdev) != 0)
			continue;
		if (i->ifa_addr->sa_family == AF_INET)
			memcpy(&ss, i->ifa_addr, sizeof(struct sockaddr_in));
		else if (i->ifa_addr->sa_family == AF_INET6 && ss.ss_family == AF_UNSPEC)
			memcpy(&ss, i->ifa_addr, sizeof(struct sockaddr_in6));
		if (ss.ss_family == AF_INET)
			break;
	}
	freeifaddrs(list);
	if (ss.ss_family == AF_UNSPEC)
		return leat_err(ENODEV,
				"%s: netdev=%s: no such interface, or it has no address "
				"(ip addr)",
				d->name, d->args.netdev);
	snprintf(what, sizeof(what), "netdev=%s", d->args.netdev);
	return by_sockaddr(d, &ss, what);
}

/* Find the only device with an active port. */
static int
only_one(struct vb_dev *d)
{
	struct ibv_device *found = NULL;
	char names[256] = "";
	unsigned int active = 0;
	size_t pos = 0;
	int i, ret;

	for (i = 0; d->list[i] != NULL; i++) {
		bool up;

		ret = open_ctx(d, d->list[i]);
		if (ret < 0)
			return ret;
		up = find_port(d) == 0;
		if (pos < sizeof(names))
			pos += (size_t)snprintf(names + pos, sizeof(names) - pos, "%s%s (%s)",
						i == 0 ? "" : ", ", ibv_get_device_name(d->list[i]),
						up ? "active" : "down");
		if (up) {
			found = d->list[i];
			active++;
		}
		close_ctx(d);
	}
	if (active == 0)
		return leat_err(
			ENODEV,
			"%s: no RDMA device has an active port: %s; is the link up (ip link, "
			"rdma link)?",
			d->name, names);
	if (active > 1)
		return leat_err(EINVAL, "%s: several RDMA devices are active: %s; choose with dev=",
				d->name, names);
	return open_ctx(d, found) < 0 ? -rte_errno : find_port(d);
}

int
vb_find(struct vb_dev *d)
{
	char what[80];
	int n = 0, ret;

	errno = 0;
	d->list = ibv_get_device_list(&n);
	if (d->list == NULL || n == 0)
		return vb_no_devices(d->name, errno);
	snprintf(what, sizeof(what), "addr=%s", d->args.addr);
	if (d->args.dev[0] != '\0')
		ret = by_name(d, d->args.dev);
	else if (d->args.netdev[0] != '\0')
		ret = by_netdev(d);
	else if (d->args.addr[0] != '\0')
		ret = by_addr(d, d->args.addr, what);
	else
		ret = only_one(d);
	if (ret < 0)
		return ret;
	if (d->ibdev->transport_type == IBV_TRANSPORT_IWARP)
		d->rules = vb_iwarp_rules;
	return find_gid(d);
}

void
vb_find_undo(struct vb_dev *d)
{
	close_ctx(d);
	if (d->list != NULL)
		ibv_free_device_list(d->list);
	d->list = NULL;
}

struct sockaddr *
vb_src_for(struct vb_dev *d, int family)
{
	struct sockaddr_storage *ss = family == AF_INET6 ? &d->src6 : &d->src4;

	return ss->ss_family != 0 ? (struct sockaddr *)ss : NULL;
}
