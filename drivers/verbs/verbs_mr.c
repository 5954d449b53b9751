/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Registration. Peers name a region by its virtual address and the device's rkey.
 *
 * ibv_dereg_mr() returns when the device has stopped using the region: later accesses of peers are
 * refused.
 *
 * Relaxed ordering (relaxed=1). The device's writes may become visible in any order, but before the
 * completion that reports them. That is enough for data that are received or read. It is not enough
 * where a program watches memory until a peer's WRITE changes it, so regions that peers may write
 * are not relaxed.
 *
 * On-demand paging (odp=1). No memory is pinned; the device faults pages in when it needs them. The
 * driver tells the device which memory is in huge pages: the device's tables are much smaller then.
 */

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>

#include <rte_memory.h>

#include "iwarp/verbs_iwarp.h"
#include "verbs_pvt.h"

#ifdef VB_HAVE_ODP

static int
odp_check(const struct vb_dev *d)
{
	struct ibv_device_attr_ex attr;
	uint32_t need = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ, lacks;
	int err;

	/* Without an SRQ receives need no paging: they go to buffers that the driver has pinned. */
	if (d->srq)
		need |= IBV_ODP_SUPPORT_SRQ_RECV;
	memset(&attr, 0, sizeof(attr));
	err = ibv_query_device_ex(d->ctx, NULL, &attr);
	if (err != 0)
		return leat_err(EIO, "%s: odp=1: query device: %s", d->name, strerror(err));
	if ((attr.odp_caps.general_caps & IBV_ODP_SUPPORT) == 0)
		return leat_err(
			EOPNOTSUPP,
			"%s: odp=1: device %s has no on-demand paging (ibv_devinfo -v shows "
			"what it has): leave it out",
			d->name, ibv_get_device_name(d->ibdev));
	lacks = need & ~attr.odp_caps.per_transport_caps.rc_odp_caps;
	if (lacks == 0)
		return 0;
	return leat_err(EOPNOTSUPP,
			"%s: odp=1: on-demand paging of device %s lacks, for reliable "
			"connections:%s%s%s%s; leave it out",
			d->name, ibv_get_device_name(d->ibdev),
			(lacks & IBV_ODP_SUPPORT_SEND) != 0 ? " SEND" : "",
			(lacks & IBV_ODP_SUPPORT_SRQ_RECV) != 0 ? " SRQ" : "",
			(lacks & IBV_ODP_SUPPORT_WRITE) != 0 ? " WRITE" : "",
			(lacks & IBV_ODP_SUPPORT_READ) != 0 ? " READ" : "");
}

/* Is the memory in huge pages? Known for DPDK's memory only; assume no for other memory. */
static bool
in_huge_pages(const struct leat_mr_piece *piece)
{
	const struct rte_memseg_list *msl = rte_mem_virt2memseg_list(piece->addr);

	return msl != NULL && msl->external == 0 && msl->page_sz >= RTE_PGSIZE_2M &&
	       rte_mem_virt2memseg_list((char *)piece->addr + piece->len - 1) == msl;
}

static unsigned int
odp_flags(const struct leat_mr_piece *piece)
{
	return IBV_ACCESS_ON_DEMAND | (in_huge_pages(piece) ? (unsigned int)IBV_ACCESS_HUGETLB : 0);
}

#else

static int
odp_check(const struct vb_dev *d)
{
	return leat_err(EOPNOTSUPP, "%s: odp=1: libibverbs is too old for it", d->name);
}

static unsigned int
odp_flags(const struct leat_mr_piece *piece)
{
	RTE_SET_USED(piece);
	return 0;
}

#endif

int
vb_mr_options(struct vb_dev *d)
{
#ifndef VB_HAVE_RELAXED
	if (d->args.relaxed)
		return leat_err(EOPNOTSUPP, "%s: relaxed=1: libibverbs is too old for it", d->name);
#endif
	return d->args.odp ? odp_check(d) : 0;
}

static int
reg_failed(const struct vb_dev *d, const struct leat_mr_piece *piece, uint32_t access, int err)
{
	struct rlimit lim = { 0 };

	if (err == EAGAIN)
		return leat_err(ENOSPC,
				"%s: register %p, %" PRIu64
				" B: %s: the cgroup's limit of RDMA objects (rdma.max: raise "
				"hca_object) or the device's %d regions (max_mr) are used up",
				d->name, piece->addr, piece->len, strerror(err), d->attr.max_mr);
	if (err == ENOMEM || err == EPERM) {
		(void)getrlimit(RLIMIT_MEMLOCK, &lim);
		if (lim.rlim_cur != RLIM_INFINITY)
			return leat_err(
				ENOMEM,
				"%s: register %p, %" PRIu64
				" B: %s: the limit of locked memory is %llu KiB (ulimit -l): "
				"raise it, 'ulimit -l unlimited' or memlock in "
				"/etc/security/limits.conf",
				d->name, piece->addr, piece->len, strerror(err),
				(unsigned long long)lim.rlim_cur / 1024);
		return leat_err(err == ENOMEM && d->attr.max_mr > 0 ? ENOMEM : ENOSPC,
				"%s: register %p, %" PRIu64
				" B: %s: out of memory, or of the device's %d regions (max_mr)",
				d->name, piece->addr, piece->len, strerror(err), d->attr.max_mr);
	}
	return leat_err(err == EOPNOTSUPP ? EOPNOTSUPP : EIO,
			"%s: register %p, %" PRIu64 " B, access %#x: ibv_reg_mr: %s%s", d->name,
			piece->addr, piece->len, access, strerror(err),
			err == EFAULT ? ": is it mapped, and writable?" : "");
}

int
vb_mr_reg(struct leat_ep *ep, struct leat_mr_piece *piece, uint32_t access)
{
	struct vb_ep *e = vb_of(ep);
	unsigned int flags = IBV_ACCESS_LOCAL_WRITE;
	struct ibv_mr *mr;

	if ((access & LEAT_MR_REMOTE_ATOMIC) != 0 && (e->dev->ops & VB_OPS_ATOMIC) == 0)
		return leat_err(EOPNOTSUPP, "%s: register: %s has no atomics", e->dev->name,
				ibv_get_device_name(e->dev->ibdev));
	if ((access & LEAT_MR_REMOTE_READ) != 0)
		flags |= IBV_ACCESS_REMOTE_READ;
	if ((access & LEAT_MR_REMOTE_WRITE) != 0)
		flags |= IBV_ACCESS_REMOTE_WRITE;
	if ((access & LEAT_MR_REMOTE_ATOMIC) != 0)
		flags |= IBV_ACCESS_REMOTE_ATOMIC;
#ifdef VB_HAVE_RELAXED
	/* A hint: devices without relaxed ordering ignore the flag. */
	if (e->dev->args.relaxed && (access & (LEAT_MR_REMOTE_WRITE | LEAT_MR_REMOTE_ATOMIC)) == 0)
		flags |= IBV_ACCESS_RELAXED_ORDERING;
#endif
	if (e->dev->args.odp)
		flags |= odp_flags(piece);
	if (e->read_sinks) {
		int err = vb_iwarp_mr_reg(e, piece, flags);

		return err == 0 ? 0 : reg_failed(e->dev, piece, access, err);
	}
	mr = ibv_reg_mr(e->pd, piece->addr, piece->len, flags);
	if (mr == NULL)
		return reg_failed(e->dev, piece, access, errno);
	piece->drv = mr;
	piece->desc = (void *)(uintptr_t)mr->lkey;
	piece->key = mr->rkey;
	piece->base = (uintptr_t)piece->addr;
	return 0;
}

int
vb_mr_dereg(struct leat_ep *ep, struct leat_mr_piece *piece)
{
	struct vb_ep *e = vb_of(ep);
	int err = e->read_sinks ? vb_iwarp_mr_dereg(piece->drv) : ibv_dereg_mr(piece->drv);

	if (err == 0)
		return 0;
	return leat_err(EBUSY, "%s: deregister %p: %s", e->dev->name, piece->addr, strerror(err));
}
