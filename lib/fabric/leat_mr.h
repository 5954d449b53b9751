/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_MR_H
#define LEAT_MR_H

/**
 * @file
 * Memory regions: memory that a device may reach, locally and from peers.
 *
 * Buffers for messages normally come from rte_mempools that are named in leat_ep_conf and
 * registered once, when the endpoint is created. leat_mr_register() registers other memory.
 * Registration is slow (it may pin pages) and never happens on the fast path.
 *
 * A region belongs to one endpoint; make these calls, like every call on that endpoint, on its
 * lcore only. Where devices allow it drivers share one registration between endpoints.
 */

#include <stddef.h>
#include <stdint.h>

#include "leat_common.h"

#ifdef __cplusplus
extern "C" {
#endif

struct leat_ep;
struct leat_mr;
struct rte_mempool;

/**
 * @name Rights of a region
 * @{
 */
#define LEAT_MR_LOCAL 0x01	  /**< this endpoint's ops may use it (always implied) */
#define LEAT_MR_REMOTE_READ 0x02  /**< peers may READ */
#define LEAT_MR_REMOTE_WRITE 0x04 /**< peers may WRITE and WRITE_IMM */
/**
 * peers may FETCH_ADD and CMP_SWAP; libfabric has no separate right for these, so its devices then
 * let peers READ and WRITE as well
 */
#define LEAT_MR_REMOTE_ATOMIC 0x08
/** Every right of peers. */
#define LEAT_MR_REMOTE_ALL (LEAT_MR_REMOTE_READ | LEAT_MR_REMOTE_WRITE | LEAT_MR_REMOTE_ATOMIC)
/** @} */

/**
 * Address and key of registered memory, for the peers that access it. The application sends them
 * this structure by any means it has.
 * 24 bytes, three host-order integers; an application that crosses byte orders converts them.
 */
struct leat_rkey {
	uint64_t addr; /**< goes into leat_op.raddr (plus an offset) */
	uint64_t len;  /**< bytes that may be reached from addr on */
	uint64_t key;  /**< goes into leat_op.rkey */
};

/**
 * Register memory.
 *
 * @param ep endpoint whose peers and ops will reach the memory
 * @param addr start, any alignment
 * @param len bytes, > 0
 * @param access LEAT_MR_* or-ed
 * @return the region, or NULL with rte_errno:
 *   - EINVAL: addr is NULL, len is 0 or too large, or access has unknown bits
 *   - ENOMEM: out of memory, or of memory that may be locked (the message says which limit)
 *   - ENOSPC: the device can't register more regions
 *   - EOPNOTSUPP: the device can't give that access
 *   - EIO: the device refused
 */
LEAT_API struct leat_mr *leat_mr_register(struct leat_ep *ep, void *addr, size_t len,
					  uint32_t access);

/**
 * End a registration. From then on peers' accesses fail at their side with -EACCES. The memory may
 * be released only after this returned 0.
 *
 * @return 0, or -EBUSY: the device still uses the region, which stays registered; poll, and try
 *   again
 */
LEAT_API int leat_mr_deregister(struct leat_mr *mr);

/**
 * Return the region of a mempool that was named in leat_ep_conf; NULL with rte_errno ENOENT if it
 * was not named there.
 */
LEAT_API struct leat_mr *leat_ep_mempool_mr(struct leat_ep *ep, const struct rte_mempool *mp);

/**
 * Fill in the key by which a peer reaches part of a region.
 *
 * @param mr region with a remote right
 * @param addr first byte
 * @param len bytes; in a mempool's region, the range must not cross a gap between memory chunks
 * @param[out] rkey filled in
 * @return 0; -ERANGE: not inside the region; -EACCES: the region gives peers no right
 */
LEAT_API int leat_mr_rkey(const struct leat_mr *mr, const void *addr, size_t len,
			  struct leat_rkey *rkey);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_MR_H */
