/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_EP_PVT_H
#define LEAT_EP_PVT_H

/*
 * What leat's own protocols do with an endpoint and applications do not. It is not installed.
 */

#include "leat_ep.h"

/*
 * Says that a small op to a peer is about to be posted: all that is left to do is to fill it in.
 * Where a send is a store to memory that the other side reads (ring), the cache line it goes to is
 * asked for now, and comes in the meantime. It changes nothing else, and nothing at all on other
 * devices.
 *
 * Earlier it does harm: the other side, which waits on that very line, fetches it back.
 *
 * peer is any number; one that is not up is ignored.
 */
static inline void
leat_ep_post_soon(struct leat_ep *ep, uint16_t peer)
{
	if (ep->post_soon != NULL)
		ep->post_soon(ep, peer);
}

#endif /* LEAT_EP_PVT_H */
