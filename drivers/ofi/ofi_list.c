/* SPDX-License-Identifier: BSD-3-Clause */

/* Lists the devices that libfabric offers here, and their properties. */

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "ofi_pvt.h"

void
ofi_addr_text(const struct fi_info *info, char *buf, size_t len)
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
report_nic(const struct fid_nic *nic, const struct leat_dev_sink *to)
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
report_info(const struct fi_info *i, const struct leat_dev_sink *to)
{
	char addr[96];

	to->text(to->arg, "provider", i->fabric_attr->prov_name);
	to->text(to->arg, "domain", i->domain_attr->name);
	to->text(to->arg, "fabric", i->fabric_attr->name);
	ofi_addr_text(i, addr, sizeof(addr));
	to->text(to->arg, "address", addr);
	if (i->nic != NULL)
		report_nic(i->nic, to);
	to->number(to->arg, "max_msg", i->ep_attr->max_msg_size);
	to->number(to->arg, "max_inject", i->tx_attr->inject_size);
	to->number(to->arg, "max_tx", i->tx_attr->size);
	to->number(to->arg, "max_rx", i->rx_attr->size);
	to->number(to->arg, "max_ep", i->domain_attr->ep_cnt);
	if (i->domain_attr->mr_cnt != 0) /* 0: the provider does not say */
		to->number(to->arg, "max_mr", i->domain_attr->mr_cnt);
}

/* Write the --vdev arguments that open this device: the provider, and the domain or address. */
static void
spec_of(const struct fi_info *i, const struct ofi_provider *p, char *buf, size_t len)
{
	const char *prov = i->fabric_attr->prov_name;
	char addr[96];

	if (p->needs_address) {
		ofi_addr_text(i, addr, sizeof(addr));
		snprintf(buf, len, "fabric_ofi0,provider=%s,src=%s", prov, addr);
	} else if ((p->quirks & OFI_Q_SHM) == 0) {
		if (strcmp(prov, OFI_PROVIDER_EFA) == 0)
			snprintf(buf, len, "fabric_efa0,domain=%s", i->domain_attr->name);
		else
			snprintf(buf, len, "fabric_ofi0,provider=%s,domain=%s", prov,
				 i->domain_attr->name);
	} else {
		snprintf(buf, len, "fabric_ofi0,provider=%s", prov);
	}
}

/* Would the driver accept this fi_info? */
static bool
offered(const struct fi_info *i, const struct ofi_provider *p)
{
	if (p->refuse != NULL ||
	    (p->hint != NULL && strcmp(i->fabric_attr->prov_name, p->hint) != 0) ||
	    (p->fabric != NULL && strcmp(i->fabric_attr->name, p->fabric) != 0))
		return false;
	return !p->needs_address || (i->src_addr != NULL && (i->addr_format == FI_SOCKADDR_IN ||
							     i->addr_format == FI_SOCKADDR_IN6));
}

static bool
same_device(const struct fi_info *a, const struct fi_info *b)
{
	return strcmp(a->fabric_attr->prov_name, b->fabric_attr->prov_name) == 0 &&
	       strcmp(a->domain_attr->name, b->domain_attr->name) == 0;
}

static bool
link_local(const struct fi_info *i)
{
	const struct sockaddr_in6 *in6 = i->src_addr;

	return i->addr_format == FI_SOCKADDR_IN6 && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr);
}

/*
 * Report one of a provider's devices. libfabric lists a device once for each of its addresses and
 * modes. The arguments reported use the first address that is not link-local.
 */
static void
report_device(const struct fi_info *first, const struct ofi_provider *p,
	      const struct leat_dev_sink *to)
{
	const struct fi_info *i, *best = NULL;
	char text[256], begin[96] = "";

	for (i = first; i != NULL; i = i->next) {
		if (same_device(i, first) && offered(i, p) &&
		    (best == NULL || (link_local(best) && !link_local(i))))
			best = i;
	}
	if (best == NULL)
		return;
	spec_of(best, p, text, sizeof(text));
	to->device(to->arg, text);
	report_info(best, to);
	for (i = first; i != NULL && p->needs_address; i = i->next) {
		if (!same_device(i, first) || !offered(i, p))
			continue;
		ofi_addr_text(i, text, sizeof(text));
		if (strcmp(text, begin) == 0)
			break; /* from here on the same addresses are repeated for other modes */
		to->item(to->arg, "addresses", text);
		if (begin[0] == '\0')
			snprintf(begin, sizeof(begin), "%.95s", text);
	}
}

/* Report the devices of fabric_efa, or of fabric_ofi. @return whether there were any */
static bool
report_all(const struct fi_info *list, bool efa, const struct leat_dev_sink *to)
{
	const struct fi_info *i, *j;
	bool any = false;

	for (i = list; i != NULL; i = i->next) {
		if ((strcmp(i->fabric_attr->prov_name, OFI_PROVIDER_EFA) == 0) != efa)
			continue;
		for (j = list; j != i && !same_device(i, j); j = j->next)
			;
		if (j == i)
			report_device(i, ofi_provider_find(i->fabric_attr->prov_name), to);
		any = true;
	}
	return any;
}

static bool
list_some(bool efa, const struct leat_dev_sink *to)
{
	struct fi_info *list;
	bool any;

	/* Prepare as for opening a device: this may be the process's first use of libfabric. */
	ofi_provider_prepare();
	list = ofi_provider_all();
	any = report_all(list, efa, to);
	fi_freeinfo(list);
	return any;
}

int
ofi_list(const struct leat_dev *dev, const struct leat_dev_sink *to)
{
	if (dev != NULL)
		report_info(((const struct ofi_dev *)leat_dev_drv(dev))->info, to);
	else if (!list_some(false, to))
		return leat_err(
			ENODEV,
			"fabric_ofi: libfabric offers no RDM endpoints (fi_info -t FI_EP_RDM)");
	return 0;
}

int
ofi_list_efa(const struct leat_dev *dev, const struct leat_dev_sink *to)
{
	if (dev != NULL)
		report_info(((const struct ofi_dev *)leat_dev_drv(dev))->info, to);
	else if (!list_some(true, to))
		return leat_err(ENODEV,
				"fabric_efa: libfabric finds no EFA device (fi_info -p efa)");
	return 0;
}
