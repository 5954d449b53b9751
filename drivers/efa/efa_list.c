/* SPDX-License-Identifier: BSD-3-Clause */

/* What libfabric offers here, for people who look for their device. */

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "efa_pvt.h"

void
efa_addr_text(const struct fi_info *info, char *buf, size_t len)
{
	const struct sockaddr *sa = info->src_addr;
	char host[64];

	if (info->src_addr == NULL)
		snprintf(buf, len, "-");
	else if (info->addr_format == FI_ADDR_STR)
		snprintf(buf, len, "%s", (const char *)info->src_addr);
	else if ((info->addr_format == FI_SOCKADDR_IN || info->addr_format == FI_SOCKADDR_IN6) &&
		 getnameinfo(sa, (socklen_t)info->src_addrlen, host, sizeof(host), NULL, 0,
			     NI_NUMERICHOST) == 0)
		snprintf(buf, len, "%s", host);
	else
		snprintf(buf, len, "%zu B", info->src_addrlen);
}

static void
tell_nic(const struct fid_nic *nic, const struct leat_dev_sink *to)
{
	const struct fi_device_attr *dev = nic->device_attr;
	const struct fi_link_attr *link = nic->link_attr;
	char speed[32];

	if (dev != NULL && dev->name != NULL)
		to->text(to->arg, "device", dev->name);
	if (dev != NULL && dev->firmware != NULL)
		to->text(to->arg, "firmware", dev->firmware);
	if (link == NULL)
		return;
	if (link->network_type != NULL)
		to->text(to->arg, "link", link->network_type);
	to->text(to->arg, "state",
		 link->state == FI_LINK_UP     ? "active"
		 : link->state == FI_LINK_DOWN ? "down"
					       : "unknown");
	if (link->speed != 0) {
		snprintf(speed, sizeof(speed), "%.1f Gb/s", (double)link->speed / 1e9);
		to->text(to->arg, "speed", speed);
	}
	if (link->mtu != 0)
		to->number(to->arg, "mtu", link->mtu);
}

static void
tell_info(const struct fi_info *i, const struct leat_dev_sink *to)
{
	char addr[96];

	to->text(to->arg, "provider", i->fabric_attr->prov_name);
	to->text(to->arg, "domain", i->domain_attr->name);
	if (i->fabric_attr->name != NULL)
		to->text(to->arg, "fabric", i->fabric_attr->name);
	efa_addr_text(i, addr, sizeof(addr));
	to->text(to->arg, "address", addr);
	if (i->nic != NULL)
		tell_nic(i->nic, to);
	to->number(to->arg, "max_msg", i->ep_attr->max_msg_size);
	to->number(to->arg, "max_inject", i->tx_attr->inject_size);
	to->number(to->arg, "max_tx", i->tx_attr->size);
	to->number(to->arg, "max_rx", i->rx_attr->size);
	to->number(to->arg, "max_ep", i->domain_attr->ep_cnt);
	if (i->domain_attr->mr_cnt != 0) /* it can be told */
		to->number(to->arg, "max_mr", i->domain_attr->mr_cnt);
}

/* The arguments that open it: the provider, and which of its devices or addresses. */
static void
spec_of(const struct fi_info *i, const struct efa_provider *p, char *buf, size_t len)
{
	const char *prov = i->fabric_attr->prov_name;
	char addr[96];

	if (p->needs_address && i->src_addr != NULL) {
		efa_addr_text(i, addr, sizeof(addr));
		snprintf(buf, len, "fabric_efa0,provider=%s,src=%s", prov, addr);
	} else if ((p->quirks & EFA_Q_SHM) == 0 && !p->needs_address) {
		snprintf(buf, len, "fabric_efa0,provider=%s,domain=%s", prov, i->domain_attr->name);
	} else {
		snprintf(buf, len, "fabric_efa0,provider=%s", prov);
	}
}

/* Is it one that the driver would take? */
static bool
offered(const struct fi_info *i, const struct efa_provider *p)
{
	return p->refuse == NULL &&
	       (p->hint == NULL || strcmp(i->fabric_attr->prov_name, p->hint) == 0) &&
	       (p->fabric == NULL ||
		(i->fabric_attr->name != NULL && strcmp(i->fabric_attr->name, p->fabric) == 0));
}

/* Each once: libfabric has several of some, that differ in their modes. */
static void
tell_all(const struct fi_info *list, const struct leat_dev_sink *to)
{
	const struct efa_provider *p;
	const struct fi_info *i, *j;
	char spec[256], other[256];

	for (i = list; i != NULL; i = i->next) {
		p = efa_provider_find(i->fabric_attr->prov_name);
		if (!offered(i, p))
			continue;
		spec_of(i, p, spec, sizeof(spec));
		for (j = list; j != i; j = j->next) {
			const struct efa_provider *q = efa_provider_find(j->fabric_attr->prov_name);

			spec_of(j, q, other, sizeof(other));
			if (offered(j, q) && strcmp(spec, other) == 0)
				break;
		}
		if (j != i)
			continue;
		to->device(to->arg, spec);
		tell_info(i, to);
	}
}

int
efa_list(const struct leat_dev *dev, const struct leat_dev_sink *to)
{
	struct fi_info *list;

	if (dev != NULL) {
		tell_info(((const struct efa_dev *)leat_dev_drv(dev))->info, to);
		return 0;
	}
	/* A device may be opened after this first use of the library. */
	efa_provider_prepare(efa_provider_find("tcp"));
	list = efa_provider_all();
	if (list == NULL)
		return leat_err(
			ENODEV,
			"fabric_efa: libfabric offers no RDM endpoints (fi_info -t FI_EP_RDM)");
	tell_all(list, to);
	fi_freeinfo(list);
	return 0;
}
