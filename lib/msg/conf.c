/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Configuration of a context, and of the endpoint that it needs. The endpoint must have room for
 * all receives of all connections at once; otherwise a message could arrive before its receive can
 * be posted. So the number of connections, the credits and the endpoint's receive depth depend on
 * one another. leat_msg_ep_conf() computes the depth from the other two; leat_msg_create() takes
 * the depth as it is.
 */

#include <errno.h>

#include <leat_log.h>

#include "msg_pvt.h"

#define EAGER_DEFAULT (2048 - MSG_HEAD_LEN)
#define OPS (LEAT_OP_BIT(LEAT_OP_TSEND) | LEAT_OP_BIT(LEAT_OP_TRECV))

static const struct leat_msg_conf defaults;

/* Count the receives that `conns` connections may post: for heads, payloads, control messages. */
static uint32_t
recvs(uint32_t conns, uint32_t credits)
{
	return conns * (2 * credits + MSG_CTRL);
}

/*
 * Return the credits that conf asks for; if it asks for none, the default, or fewer if `room`
 * receives are too few for the default. @return 0: the credits are out of range
 */
static uint32_t
credits_choose(const struct leat_msg_conf *conf, uint32_t conns, uint32_t room)
{
	uint32_t credits = conf->credits;

	if (credits == 0) {
		credits = LEAT_MSG_CREDITS_DEFAULT;
		while (credits > 2 && recvs(conns, credits) > room)
			credits /= 2;
	}
	return credits < 2 || credits > LEAT_MSG_CREDITS_MAX || !rte_is_power_of_2(credits)
		       ? 0
		       : credits;
}

static int
credits_wrong(const char *name, const struct leat_msg_conf *conf)
{
	return leat_err(EINVAL, "messages on %s: credits %u, need a power of two, 2 to %u", name,
			conf->credits, LEAT_MSG_CREDITS_MAX);
}

int
leat_msg_ep_conf(const struct leat_dev *dev, const struct leat_msg_conf *conf,
		 struct leat_ep_conf *ep_conf)
{
	struct leat_dev_info info;
	uint32_t peers, conns, credits, need;
	int ret;

	if (conf == NULL)
		conf = &defaults;
	ret = leat_dev_info_for(dev, ep_conf->ops | OPS, &info);
	if (ret < 0)
		return ret;
	peers = ep_conf->max_peers;
	if (peers == 0)
		peers = RTE_MIN(LEAT_EP_PEERS_DEFAULT, info.max_peers);
	peers = RTE_MAX(peers, conf->max_conns);
	conns = conf->max_conns == 0 ? peers : conf->max_conns;
	if (ep_conf->rx_depth > info.rx_depth_max)
		return leat_err(EINVAL, "messages on %s: rx_depth %u, the device has %u",
				leat_dev_name(dev), ep_conf->rx_depth, info.rx_depth_max);
	credits = credits_choose(conf, conns, info.rx_depth_max - ep_conf->rx_depth);
	if (credits == 0)
		return credits_wrong(leat_dev_name(dev), conf);
	need = recvs(conns, credits) + ep_conf->rx_depth;
	if (need > info.rx_depth_max || peers > info.max_peers)
		return leat_err(EINVAL,
				"messages on %s: %u connections with %u credits need %u peers and "
				"%u receives, the device has %u and %u",
				leat_dev_name(dev), conns, credits, peers, need, info.max_peers,
				info.rx_depth_max);
	ep_conf->ops |= OPS;
	ep_conf->max_peers = (uint16_t)peers;
	ep_conf->rx_depth = need;
	return 0;
}

int
msg_conf_take(struct leat_msg *m, const struct leat_msg_conf *conf)
{
	const char *name = leat_ep_name(m->ep);
	uint32_t credits, conns, room = m->ep->rx_room;

	if (conf == NULL)
		conf = &defaults;
	conns = conf->max_conns;
	if ((m->ep->op_mask & OPS) != OPS)
		return leat_err(EOPNOTSUPP,
				"messages on %s: the endpoint was not created with TSEND and TRECV "
				"(leat_ep_conf.ops), or its device has none",
				name);
	if (conns > m->ep->nb_peers)
		return leat_err(EINVAL, "messages on %s: max_conns %u, the endpoint has %u peers",
				name, conns, m->ep->nb_peers);
	if (conns == 0)
		conns = m->ep->nb_peers;
	credits = credits_choose(conf, conns, room);
	if (credits == 0)
		return credits_wrong(name, conf);
	if (recvs(conns, credits) > room)
		return leat_err(
			EINVAL,
			"messages on %s: %u connections with %u credits may post %u receives, the "
			"endpoint has room for %u: larger rx_depth (leat_msg_ep_conf()), or "
			"smaller max_conns or credits",
			name, conns, credits, recvs(conns, credits), room);
	if (conf->eager_max > LEAT_MSG_EAGER_MAX)
		return leat_err(EINVAL, "messages on %s: eager_max %u, at most %u", name,
				conf->eager_max, LEAT_MSG_EAGER_MAX);
	if (conf->credits == 0 && credits < LEAT_MSG_CREDITS_DEFAULT)
		LEAT_LOG(NOTICE, msg,
			 "%s: %u credits per connection instead of %u: %u connections share %u "
			 "receives; leat_msg_ep_conf() asks for as many as they need",
			 name, credits, LEAT_MSG_CREDITS_DEFAULT, conns, room);
	m->eager_max = conf->eager_max == 0 ? EAGER_DEFAULT : conf->eager_max;
	m->max_conns = (uint16_t)conns;
	m->credits = (uint16_t)credits;
	return 0;
}
