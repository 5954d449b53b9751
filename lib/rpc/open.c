/* SPDX-License-Identifier: BSD-3-Clause */

/* leat_rpc_open(): an endpoint and a context on it, in the calling reactor. */

#include <errno.h>
#include <stdio.h>

#include <leat_dev.h>
#include <leat_log.h>
#include <leat_reactor.h>

#include "leat_rpc_task.h"
#include "rpc_pvt.h"

/* Peers beyond max_sessions: connectors that are about to be refused. */
#define MORE_PEERS 4
/* Receives of a session, if conf sets max_sessions, but not credits. */
#define CREDITS_DEFAULT 32
/* Time limit of rpc_open_release() for the end of the sessions, and of leat_ep_close(), us. */
#define CLOSE_US 1000000

static struct leat_dev *
find_dev(const char *name)
{
	struct leat_dev *dev = NULL;

	if (name != NULL)
		dev = leat_dev_by_name(name);
	else if (leat_dev_count() > 0)
		dev = leat_dev_get(leat_dev_count() - 1);
	if (dev == NULL)
		leat_err(ENODEV, "rpc: no device %s; see --vdev", name != NULL ? name : "");
	return dev;
}

static struct leat_ep *
open_ep(const char *name, const struct leat_rpc_conf *conf)
{
	struct leat_dev *dev = find_dev(name);
	struct leat_ep_conf ep_conf = { 0 };
	struct leat_dev_info info;
	uint64_t depth;

	if (dev == NULL || leat_dev_info_get(dev, &info) < 0)
		return NULL;
	if ((info.ep_types & 1u << LEAT_EP_RELIABLE) == 0)
		ep_conf.type = LEAT_EP_DATAGRAM;
	if (conf != NULL && conf->max_sessions != 0) {
		ep_conf.max_peers = (uint16_t)RTE_MIN((uint64_t)conf->max_sessions + MORE_PEERS,
						      (uint64_t)info.max_peers);
		depth = (uint64_t)conf->max_sessions *
			(conf->credits != 0 ? conf->credits : CREDITS_DEFAULT);
		/* If the device can't do this depth, leat_rpc_create() uses fewer credits, or fails
		 * if conf sets credits. */
		depth = RTE_MIN(depth, (uint64_t)info.rx_depth_max);
		ep_conf.rx_depth = RTE_MAX((uint32_t)depth, info.rx_depth);
	}
	return leat_ep_create(dev, &ep_conf);
}

static void
close_ep(struct leat_ep *ep)
{
	if (leat_ep_close(ep, CLOSE_US, NULL, NULL) < 0)
		LEAT_LOG(ERR, rpc, "%s", leat_err_msg());
}

/*
 * Destroy a context and its endpoint, after the end of the reactor, or because the context could
 * not be added to it. Sessions that are still open are closed here; the reactor's stop, if there
 * was one, has reported them.
 */
void
rpc_open_release(struct leat_rpc *rpc)
{
	const uint64_t until = leat_time_add(leat_now(), leat_us_to_cycles(CLOSE_US));
	struct leat_ep *ep = rpc->ep;
	uint32_t i;
	int ret;

	for (i = 0; i < rpc->max_sessions; i++)
		rpc_close_by(&rpc->sessions[i], 0);
	/*
	 * The context can be destroyed when its sessions are closed and its receives have come
	 * back: drive it until then.
	 */
	while ((ret = leat_rpc_destroy(rpc)) == -EBUSY && leat_now() < until)
		rpc_reactor_turn(rpc);
	if (ret < 0)
		LEAT_LOG(ERR, rpc, "%s", leat_err_msg());
	else
		close_ep(ep);
}

struct leat_rpc *
leat_rpc_open(const char *dev, const struct leat_rpc_conf *conf,
	      const struct leat_rpc_reactor_conf *on)
{
	struct leat_reactor *r = leat_reactor_self();
	char why[LEAT_ERR_MSG_MAX + 1];
	struct leat_rpc *rpc;
	struct leat_ep *ep;
	int ret;

	if (r == NULL) {
		leat_err(EPERM, "rpc: leat_rpc_open() outside of a reactor");
		return NULL;
	}
	ep = open_ep(dev, conf);
	if (ep == NULL)
		return NULL;
	rpc = leat_rpc_create(ep, conf);
	if (rpc == NULL) {
		ret = -rte_errno;
		snprintf(why, sizeof(why), "%s", leat_err_msg());
		close_ep(ep);
		leat_err(-ret, "%s", why);
		return NULL;
	}
	ret = leat_rpc_reactor_add(r, rpc, on);
	if (ret < 0) {
		snprintf(why, sizeof(why), "%s", leat_err_msg());
		rpc_open_release(rpc);
		leat_err(-ret, "%s", why);
		return NULL;
	}
	rpc->opened = true;
	return rpc;
}
