/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Registration. A region is named to peers by its virtual address and the device's rkey.
 *
 * ibv_dereg_mr() returns when the device has stopped to use the region: accesses of peers that come
 * later are refused.
 */

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>

#include "verbs_pvt.h"

static int
reg_failed(const struct vb_dev *d, const struct leat_mr_piece *piece, uint32_t access, int err)
{
	struct rlimit lim = { 0 };

	if (err == ENOMEM || err == EAGAIN || err == EPERM) {
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
	int flags = IBV_ACCESS_LOCAL_WRITE;
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
	int err = ibv_dereg_mr(piece->drv);

	if (err == 0)
		return 0;
	return leat_err(EBUSY, "%s: deregister %p: %s", e->dev->name, piece->addr, strerror(err));
}
