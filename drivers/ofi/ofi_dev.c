/* SPDX-License-Identifier: BSD-3-Clause */

/* The device: its arguments, fi_getinfo, its limits. */

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ofi_pvt.h"

/* The driver's own bounds of tx= and rx=; the provider's bounds may be narrower. */
#define DEPTH_MIN 1
#define DEPTH_MAX 32768
/* The exchange of addresses has at most 32768 connections; 16 are left for requests to connect. */
#define PEERS_MAX 32752
#define PER_SOURCE_MAX 32767

/* Find an interface's address: IPv4 before IPv6, a link-local one only if there is no other. */
static int
iface_addr(const char *dev, const char *iface, char *buf, size_t len)
{
	struct ifaddrs *list, *i;
	int best = 0;
	bool seen = false;

	if (getifaddrs(&list) != 0)
		return leat_err(errno, "%s: list of interfaces: %s", dev, strerror(errno));
	for (i = list; i != NULL; i = i->ifa_next) {
		char host[64];
		int rank = 0;

		if (strcmp(i->ifa_name, iface) != 0)
			continue;
		seen = true;
		if (i->ifa_addr == NULL)
			continue;
		if (i->ifa_addr->sa_family == AF_INET) {
			rank = 3;
		} else if (i->ifa_addr->sa_family == AF_INET6) {
			const struct sockaddr_in6 *s6 = (const void *)i->ifa_addr;

			rank = IN6_IS_ADDR_LINKLOCAL(&s6->sin6_addr) ? 1 : 2;
		}
		if (rank <= best || getnameinfo(i->ifa_addr,
						rank == 3 ? sizeof(struct sockaddr_in)
							  : sizeof(struct sockaddr_in6),
						host, sizeof(host), NULL, 0, NI_NUMERICHOST) != 0)
			continue;
		best = rank;
		snprintf(buf, len, "%s", host);
	}
	freeifaddrs(list);
	if (!seen)
		return leat_err(ENODEV, "%s: no interface '%s' (ip link shows them)", dev, iface);
	if (best == 0)
		return leat_err(ENODEV, "%s: interface '%s' has no address (ip addr)", dev, iface);
	return 0;
}

/* Check that an interface here has this address. fi_getinfo accepts any; a later call fails. */
static int
addr_is_ours(const char *dev, const char *addr)
{
	unsigned char want[16], have[16];
	struct ifaddrs *list, *i;
	int family = AF_INET;
	bool found = false;

	if (inet_pton(AF_INET, addr, want) != 1) {
		char host[64], *scope;

		snprintf(host, sizeof(host), "%s", addr);
		scope = strchr(host, '%');
		if (scope != NULL)
			*scope = '\0';
		family = AF_INET6;
		if (inet_pton(AF_INET6, host, want) != 1)
			return leat_err(EINVAL, "%s: src=%s: an IPv4 or IPv6 address expected", dev,
					addr);
	}
	if (getifaddrs(&list) != 0)
		return leat_err(errno, "%s: list of interfaces: %s", dev, strerror(errno));
	for (i = list; i != NULL && !found; i = i->ifa_next) {
		size_t n = family == AF_INET ? 4 : 16;

		if (i->ifa_addr == NULL || i->ifa_addr->sa_family != family)
			continue;
		if (family == AF_INET)
			memcpy(have, &((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr, n);
		else
			memcpy(have, &((struct sockaddr_in6 *)(void *)i->ifa_addr)->sin6_addr, n);
		/* The loopback interface answers to all of 127/8. */
		found = memcmp(want, have, n) == 0 ||
			(family == AF_INET && want[0] == 127 && have[0] == 127);
	}
	freeifaddrs(list);
	return found ? 0
		     : leat_err(ENODEV, "%s: src=%s: no interface here has that address", dev,
				addr);
}

struct fi_info *
ofi_dev_getinfo(const struct ofi_dev *d, uint64_t caps, const struct leat_ep_conf *conf, int *err)
{
	const char *node = d->src[0] != '\0' ? d->src : NULL;
	struct fi_info *hints = ofi_provider_hints(d->prov, caps), *list = NULL, *pick;
	char shm_name[64];
	int ret = -FI_ENOMEM;

	*err = FI_ENOMEM;
	if (hints == NULL)
		return NULL;
	if (d->prov->hint != NULL)
		hints->fabric_attr->prov_name = strdup(d->prov->hint);
	else
		hints->fabric_attr->prov_name = strdup(d->provider);
	if (d->domain[0] != '\0')
		hints->domain_attr->name = strdup(d->domain);
	if (hints->fabric_attr->prov_name == NULL ||
	    (d->domain[0] != '\0' && hints->domain_attr->name == NULL))
		goto out;
	if (conf != NULL && d->prov->depth_ask != 0) {
		hints->tx_attr->size = RTE_MAX(conf->tx_depth, d->tx_depth_told);
		hints->rx_attr->size = RTE_MAX(conf->rx_depth, d->rx_depth_told);
	}
	if ((d->prov->quirks & OFI_Q_SHM) != 0) {
		/*
		 * The default name is the process id, which is not unique when containers share
		 * /dev/shm.
		 */
		snprintf(shm_name, sizeof(shm_name), "leat-%d-%08x", (int)getpid(),
			 (unsigned int)(leat_now() * 2654435761u));
		node = shm_name;
	}
	ret = fi_getinfo(OFI_API_VERSION, node, NULL, node != NULL ? FI_SOURCE : 0, hints, &list);
	*err = -ret;
out:
	fi_freeinfo(hints);
	if (ret != 0)
		return NULL;
	pick = ofi_provider_pick(d->prov, list);
	pick = pick != NULL ? fi_dupinfo(pick) : NULL;
	fi_freeinfo(list);
	if (pick == NULL)
		*err = FI_ENODATA;
	return pick;
}

/* Ask for each optional capability in turn: fi_getinfo does not report those not asked for. */
static int
find_caps(struct ofi_dev *d)
{
	static const uint64_t optional[] = { FI_TAGGED, FI_RMA, FI_ATOMIC, FI_SOURCE,
					     FI_DIRECTED_RECV };
	uint64_t caps = FI_MSG;
	char list[256];
	struct fi_info *info;
	size_t i;
	int err;

	info = ofi_dev_getinfo(d, caps, NULL, &err);
	if (info == NULL)
		return leat_err(ENODEV, "%s: provider '%s'%s%s%s%s: %s: %s; RDM providers here: %s",
				d->name, d->provider, d->domain[0] != '\0' ? ", domain " : "",
				d->domain, d->src[0] != '\0' ? ", address " : "", d->src,
				err == FI_ENODATA || err == FI_ENODEV ? "no such device"
								      : fi_strerror(err),
				d->prov->check, ofi_provider_list(list, sizeof(list)));
	for (i = 0; i < RTE_DIM(optional); i++) {
		struct fi_info *more;

		if ((d->prov->no_caps & optional[i]) != 0)
			continue;
		more = ofi_dev_getinfo(d, caps | optional[i], NULL, &err);
		if (more == NULL)
			continue;
		caps |= optional[i];
		fi_freeinfo(info);
		info = more;
	}
	d->caps = caps;
	d->info = info;
	return 0;
}

static uint32_t
clamp_depth(size_t offered, uint32_t row_max)
{
	size_t max = offered == 0 || offered > DEPTH_MAX ? DEPTH_MAX : offered;

	if (row_max != 0 && max > row_max)
		max = row_max;
	return (uint32_t)max;
}

static int
find_limits(struct ofi_dev *d, const struct rte_kvargs *kv)
{
	const struct ofi_provider *p = d->prov;
	uint32_t tags = 0;

	if (leat_driver_arg_u32(kv, "tags", 0, 1, &tags) < 0 ||
	    leat_driver_arg_u32(kv, "per_source", 0, PER_SOURCE_MAX, &d->per_source) < 0)
		return -EINVAL;
	d->ops = LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV);
	if ((d->caps & FI_TAGGED) != 0 && tags != 0)
		d->ops |= OFI_OPS_TAG;
	if ((d->caps & FI_RMA) != 0)
		d->ops |= OFI_OPS_RMA;
	if ((d->caps & FI_ATOMIC) != 0)
		d->ops |= OFI_OPS_ATOMIC;
	if (d->info->domain_attr->cq_data_size < 4)
		d->ops &= ~LEAT_OP_BIT(LEAT_OP_WRITE_IMM);
	d->ops &= ~p->no_ops;

	d->tags = tags != 0 && (d->caps & FI_TAGGED) != 0;
	d->tx_depth_told = clamp_depth(d->info->tx_attr->size, 0);
	d->rx_depth_told = clamp_depth(d->info->rx_attr->size, 0);
	d->tx_depth_max = clamp_depth(RTE_MAX(d->tx_depth_told, p->depth_ask), p->tx_depth_max);
	d->rx_depth_max = clamp_depth(RTE_MAX(d->rx_depth_told, p->depth_ask), 0);
	d->rx_depth_max -= RTE_MIN(d->rx_depth_max / 2, p->rx_spare);
	d->tx_depth = RTE_MIN(p->tx_depth, d->tx_depth_max);
	d->rx_depth = RTE_MIN(p->rx_depth, d->rx_depth_max);
	if (leat_driver_arg_u32(kv, "tx", DEPTH_MIN, d->tx_depth_max, &d->tx_depth) < 0 ||
	    leat_driver_arg_u32(kv, "rx", DEPTH_MIN, d->rx_depth_max, &d->rx_depth) < 0)
		return -EINVAL;
	return 0;
}

static int
parse(struct ofi_dev *d, const struct rte_kvargs *kv)
{
	const char *iface = leat_driver_arg_str(kv, "iface"), *src = leat_driver_arg_str(kv, "src");
	const char *domain = leat_driver_arg_str(kv, "domain");

	if (iface != NULL && src != NULL)
		return leat_err(EINVAL, "%s: iface= and src= exclude each other", d->name);
	if ((iface != NULL || src != NULL) && !d->prov->needs_address)
		return leat_err(
			EINVAL,
			"%s: provider %s has no network address: iface= and src= don't apply%s",
			d->name, d->provider,
			(d->prov->quirks & OFI_Q_SHM) == 0 ? ", domain= chooses the device" : "");
	if (domain != NULL) {
		if (strlen(domain) >= sizeof(d->domain))
			return leat_err(EINVAL, "%s: domain= is too long", d->name);
		snprintf(d->domain, sizeof(d->domain), "%s", domain);
	}
	if (iface != NULL)
		return iface_addr(d->name, iface, d->src, sizeof(d->src));
	if (src != NULL) {
		if (strlen(src) >= sizeof(d->src))
			return leat_err(EINVAL, "%s: src= is too long", d->name);
		snprintf(d->src, sizeof(d->src), "%s", src);
		return addr_is_ours(d->name, src);
	}
	return 0;
}

static int
check_modes(const struct ofi_dev *d)
{
	const struct fi_info *i = d->info;
	uint64_t mr = (uint64_t)i->domain_attr->mr_mode & ~ofi_provider_mr_modes();

	if ((i->mode & FI_MSG_PREFIX) != 0)
		return leat_err(EOPNOTSUPP,
				"%s: provider %s wants FI_MSG_PREFIX, that is room for its "
				"header in front of each buffer: not supported",
				d->name, i->fabric_attr->prov_name);
	if ((mr & FI_MR_RAW) != 0)
		return leat_err(EOPNOTSUPP,
				"%s: provider %s wants FI_MR_RAW: remote keys of more than "
				"8 B are not supported",
				d->name, i->fabric_attr->prov_name);
	if (i->domain_attr->av_type != FI_AV_TABLE && i->domain_attr->av_type != FI_AV_UNSPEC)
		return leat_err(EOPNOTSUPP, "%s: provider %s has no FI_AV_TABLE", d->name,
				i->fabric_attr->prov_name);
	return 0;
}

int
ofi_dev_probe(struct leat_dev *dev, const struct rte_kvargs *kv, const char *provider)
{
	struct ofi_dev *d;
	char addr[96];

	d = calloc(1, sizeof(*d));
	if (d == NULL)
		return leat_err(ENOMEM, "%s: out of memory", leat_dev_name(dev));
	snprintf(d->name, sizeof(d->name), "%s", leat_dev_name(dev));
	d->prov = ofi_provider_find(provider);
	snprintf(d->provider, sizeof(d->provider), "%s", provider);
	if (d->prov->refuse != NULL) {
		leat_err(EOPNOTSUPP, "%s: provider %s does not work with libfabric %u.%u: %s",
			 d->name, provider, FI_MAJOR(fi_version()), FI_MINOR(fi_version()),
			 d->prov->refuse);
		goto bad;
	}
	if (parse(d, kv) < 0 || ofi_provider_env(d->name, d->prov) < 0 || find_caps(d) < 0 ||
	    check_modes(d) < 0 || find_limits(d, kv) < 0)
		goto bad;
	d->quirks = d->prov->quirks;
	snprintf(d->interface, sizeof(d->interface), "%s", d->info->domain_attr->name);
	ofi_addr_text(d->info, addr, sizeof(addr));
	LEAT_LOG(NOTICE, driver, "%s: libfabric %u.%u, provider %s, domain %s, address %s", d->name,
		 FI_MAJOR(fi_version()), FI_MINOR(fi_version()), d->info->fabric_attr->prov_name,
		 d->info->domain_attr->name, addr);
	if (!d->tags)
		LEAT_LOG(NOTICE, driver,
			 "%s: the library matches messages to receives, and bounds what a peer may "
			 "send unreceived; tags=1 leaves it to the provider: for trusted peers",
			 d->name);
	else if ((d->quirks & OFI_Q_MASKS_STAY) != 0)
		LEAT_LOG(WARNING, driver,
			 "%s: tags=1: libfabric %u.%u's %s confuses tags where receives have bits "
			 "to ignore, and keeps for ever the tagged messages that a connection "
			 "leaves unreceived: tags=0 does neither",
			 d->name, FI_MAJOR(fi_version()), FI_MINOR(fi_version()), d->provider);
	if (d->prov->no_ops != 0)
		LEAT_LOG(NOTICE, driver, "%s: provider %s is not used for %s: %s", d->name,
			 d->info->fabric_attr->prov_name,
			 (d->prov->no_ops & OFI_OPS_RMA) != 0 ? "one-sided ops and atomics"
							      : "atomics",
			 d->prov->no_ops_why);
	leat_dev_drv_set(dev, d);
	return 0;
bad:
	fi_freeinfo(d->info);
	free(d);
	return -rte_errno;
}

void
ofi_dev_remove(struct leat_dev *dev)
{
	struct ofi_dev *d = leat_dev_drv(dev);

	fi_freeinfo(d->info);
	free(d);
	leat_dev_drv_set(dev, NULL);
}

uint8_t
ofi_dev_imm_size(const struct ofi_dev *d)
{
	return d->info->domain_attr->cq_data_size >= 8 ? 8 : 4;
}

void
ofi_dev_info(const struct leat_dev *dev, struct leat_dev_info *info)
{
	const struct ofi_dev *d = leat_dev_drv(dev);
	const struct fi_info *i = d->info;

	snprintf(info->provider, sizeof(info->provider), "%s", i->fabric_attr->prov_name);
	snprintf(info->interface, sizeof(info->interface), "%s", d->interface);
	info->ops = d->ops;
	info->ep_types = 1u << LEAT_EP_RELIABLE;
	info->max_msg = i->ep_attr->max_msg_size;
	info->inline_max = (uint32_t)RTE_MIN(i->tx_attr->inject_size, d->prov->inject_pays);
	info->max_peers = RTE_MIN(d->prov->max_peers, (uint32_t)PEERS_MAX);
	info->tx_depth = d->tx_depth;
	info->tx_depth_max = d->tx_depth_max;
	info->rx_depth = d->rx_depth;
	info->rx_depth_max = d->rx_depth_max;
	info->dead_peer_ms = 1000;
	info->mr_local = (i->domain_attr->mr_mode & FI_MR_LOCAL) != 0;
	info->directed_recv = (d->caps & FI_DIRECTED_RECV) != 0;
	info->source = (d->caps & FI_SOURCE) != 0;
	info->send_imm = i->domain_attr->cq_data_size >= 4;
	info->imm_size = ofi_dev_imm_size(d);
	info->in_order = false; /* no provider keeps the order of different types of ops */
	/*
	 * No provider keeps the order of writes, either. And all connections between two endpoints
	 * share one fi_addr, so a notice does not say to which of them it belongs.
	 */
	info->write_order = info->notice_source = false;
	info->rkey_size = 8;
	/*
	 * Providers keep unreceived messages, either without a limit or in one queue for all peers:
	 * see the rows in ofi_provider.c.
	 */
	info->unexpected_bounded = false;
	info->cancel_send = false;
	info->one_host = (d->prov->quirks & OFI_Q_SHM) != 0;
	info->wait = d->prov->wait;
}
