/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_EP_PVT_H
#define LEAT_EP_PVT_H

/*
 * Calls on an endpoint for leat's own protocols, not for applications. This header is not
 * installed.
 */

#include "leat_ep.h"

/*
 * Announce that a small op to a peer will be posted as soon as the caller has filled it in. Where a
 * send is a store to memory that the other side reads (ring), the driver requests the cache line of
 * that store now, and it arrives while the op is filled in. The call changes nothing else, and
 * nothing at all on other devices.
 *
 * Don't call it earlier: the other side polls that very cache line and would fetch it back.
 *
 * peer may be any number; a peer that is not up is ignored.
 */
static inline void
leat_ep_post_soon(struct leat_ep *ep, uint16_t peer)
{
	if (ep->post_soon != NULL)
		ep->post_soon(ep, peer);
}

#endif /* LEAT_EP_PVT_H */
