/* SPDX-License-Identifier: BSD-3-Clause */

/* Sleeping until something happens: what the library knows itself, then the driver's part. */

#include "fabric_pvt.h"

static int
can_wait(const struct leat_ep *ep)
{
	const struct leat_ep_ctrl *c = ep->ctrl;
	struct leat_dev_info info = { 0 };

	if (likely(c->conf.wait))
		return 0;
	if (leat_dev_info_get(ep->dev, &info) < 0 || !info.wait)
		return leat_err(EOPNOTSUPP, "endpoint %s: %s%s%s has no wait object", c->name,
				c->driver->name, info.provider[0] != '\0' ? " over " : "",
				info.provider);
	return leat_err(ENOENT, "endpoint %s: created without a wait object (leat_ep_conf.wait)",
			c->name);
}

int
leat_ep_fd(const struct leat_ep *ep)
{
	int ret = can_wait(ep);

	return ret < 0 ? ret : ep->ctrl->driver->fd(ep);
}

int
leat_ep_arm(struct leat_ep *ep)
{
	struct leat_ep_ctrl *c = ep->ctrl;
	int ret = can_wait(ep);

	if (unlikely(ret < 0))
		return ret;
	/* Done, and not told yet. */
	if (ep->ready_head != NULL || !TAILQ_EMPTY(&c->ev_peers) || c->shut_event)
		return -EAGAIN;
	if (c->state == LEAT_EP_SHUT)
		return -ESHUTDOWN;
	if (c->state != LEAT_EP_OPEN && leat_ep_inflight(ep) == 0)
		return -EAGAIN;
	return c->driver->arm(ep);
}

void
leat_ep_disarm(struct leat_ep *ep)
{
	if (ep->ctrl->conf.wait && ep->ctrl->state != LEAT_EP_SHUT)
		ep->ctrl->driver->disarm(ep);
}
