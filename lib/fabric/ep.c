/* SPDX-License-Identifier: BSD-3-Clause */

/* Endpoints: create, destroy, events, sleep, counters. */

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fabric_pvt.h"

/* Resolution of op deadlines, microseconds. */
#define DEADLINE_TICK_US 250

static pthread_mutex_t eps_lock = PTHREAD_MUTEX_INITIALIZER;
static TAILQ_HEAD(, leat_ep_ctrl) eps = TAILQ_HEAD_INITIALIZER(eps);
static unsigned int next_ep_id;

int
leat_ep_foreach(leat_ep_visit_t fn, void *arg)
{
	struct leat_ep_ctrl *c;
	int sum = 0;

	pthread_mutex_lock(&eps_lock);
	TAILQ_FOREACH(c, &eps, link)
		sum += fn(c->ep, arg);
	pthread_mutex_unlock(&eps_lock);
	return sum;
}

static int
conf_range(const struct leat_dev *dev, const char *what, uint32_t *v, uint32_t def, uint32_t max)
{
	if (*v == 0)
		*v = def < max ? def : max;
	if (*v > max)
		return leat_err(EINVAL, "%s: create endpoint: %s %u is beyond the device's %u",
				dev->name, what, *v, max);
	return 0;
}

/* Fill in the defaults, and check the other values against the device's limits. */
static int
conf_complete(const struct leat_dev *dev, const struct leat_dev_info *info,
	      struct leat_ep_conf *conf)
{
	uint32_t peers = conf->max_peers, missing;
	unsigned int type;

	if (conf->type > LEAT_EP_DATAGRAM || (info->ep_types & (1u << conf->type)) == 0)
		return leat_err(
			EOPNOTSUPP,
			"%s: create endpoint: %s endpoints are not offered by this device%s",
			dev->name, conf->type == LEAT_EP_RELIABLE ? "reliable" : "datagram",
			info->ep_types == 1u << LEAT_EP_DATAGRAM
				? ", but datagram ones: leat_ep_conf.type, LEAT_EP_DATAGRAM"
				: "");
	if ((conf->ops & ~LEAT_OP_MASK_ALL) != 0)
		return leat_err(EINVAL, "%s: create endpoint: unknown op types in mask %#x",
				dev->name, conf->ops);
	missing = conf->ops & ~info->ops;
	if (missing != 0) {
		type = (unsigned int)__builtin_ctz(missing);
		return leat_err(EOPNOTSUPP,
				"%s: create endpoint: %s%s%s can't do %s; leave it out of "
				"leat_ep_conf.ops, or use another device",
				dev->name, info->driver, info->provider[0] != '\0' ? " over " : "",
				info->provider, leat_op_type_name(type));
	}
	if (conf->wait && !info->wait)
		return leat_err(EOPNOTSUPP,
				"%s: create endpoint: %s%s%s has no wait object; leave out "
				"leat_ep_conf.wait, or use another device",
				dev->name, info->driver, info->provider[0] != '\0' ? " over " : "",
				info->provider);
	if (conf->nb_mempools > 0 && conf->mempools == NULL)
		return leat_err(EINVAL, "%s: create endpoint: %u mempools, but no list of them",
				dev->name, conf->nb_mempools);
	if ((conf->mempool_access & ~(uint32_t)(LEAT_MR_LOCAL | LEAT_MR_REMOTE_ALL)) != 0)
		return leat_err(EINVAL, "%s: create endpoint: unknown access %#x", dev->name,
				conf->mempool_access);
	if (conf_range(dev, "send depth", &conf->tx_depth, info->tx_depth, info->tx_depth_max) <
		    0 ||
	    conf_range(dev, "receive depth", &conf->rx_depth, info->rx_depth, info->rx_depth_max) <
		    0 ||
	    conf_range(dev, "number of peers", &peers, LEAT_EP_PEERS_DEFAULT, info->max_peers) < 0)
		return -EINVAL;
	conf->max_peers = (uint16_t)peers;
	return 0;
}

static void
ep_free(struct leat_ep *ep)
{
	if (ep == NULL)
		return;
	if (ep->ctrl != NULL) {
		leat_tune_del(ep->ctrl->tune);
		free(ep->ctrl->sample);
		free(ep->ctrl->cold);
	}
	free(ep->ctrl);
	free(ep->peers);
	free(ep);
}

int
leat_ep_peers_alloc(struct leat_ep *ep, uint16_t nb_peers)
{
	struct leat_peer_cold *cold = calloc(nb_peers, sizeof(*cold));
	size_t len = nb_peers * sizeof(struct leat_peer);
	struct leat_peer *peers = aligned_alloc(LEAT_CACHE_LINE, len);

	if (cold == NULL || peers == NULL) {
		free(cold);
		free(peers);
		return leat_err(ENOMEM, "%s: create endpoint: out of memory for %u peers",
				ep->dev->name, nb_peers);
	}
	memset(peers, 0, len);
	free(ep->ctrl->cold);
	free(ep->peers);
	ep->ctrl->cold = cold;
	ep->peers = peers;
	ep->nb_peers = nb_peers;
	leat_peer_table_init(ep);
	return 0;
}

static struct leat_ep *
ep_alloc(struct leat_dev *dev, const struct leat_ep_conf *conf)
{
	struct leat_ep *ep;

	ep = aligned_alloc(LEAT_CACHE_LINE, sizeof(*ep));
	if (ep == NULL)
		goto nomem;
	memset(ep, 0, sizeof(*ep));
	ep->dev = dev;
	ep->ctrl = calloc(1, sizeof(*ep->ctrl));
	if (ep->ctrl == NULL)
		goto nomem;
	if (leat_ep_peers_alloc(ep, conf->max_peers) < 0) {
		ep_free(ep);
		return NULL;
	}
	return ep;
nomem:
	ep_free(ep);
	leat_err(ENOMEM, "%s: create endpoint: out of memory", dev->name);
	return NULL;
}

void
leat_ep_depths_set(struct leat_ep *ep, uint32_t tx_depth, uint32_t rx_depth)
{
	ep->ctrl->conf.tx_depth = tx_depth;
	ep->ctrl->conf.rx_depth = rx_depth;
	ep->tx_room = tx_depth;
	ep->rx_room = rx_depth;
	ep->depth = tx_depth + rx_depth;
}

static void
ep_init(struct leat_ep *ep, const struct leat_dev_info *info, const struct leat_ep_conf *conf,
	const struct leat_driver *driver, struct leat_ep *outer)
{
	struct leat_ep_ctrl *c = ep->ctrl;

	ep->max_msg = info->max_msg;
	ep->op_mask = conf->ops;
	ep->mr_local = info->mr_local;
	ep->directed_recv = info->directed_recv;
	ep->post = leat_ep_closed_post;
	ep->poll = leat_ep_closed_poll;
	leat_queue_init(&ep->recvq);

	c->ep = ep;
	c->driver = driver;
	c->outer = outer;
	c->conf = *conf;
	c->conf.name = NULL;
	c->conf.mempools = NULL;
	leat_ep_depths_set(ep, conf->tx_depth, conf->rx_depth);
	c->id = __atomic_fetch_add(&next_ep_id, 1, __ATOMIC_RELAXED);
	if (conf->name != NULL)
		snprintf(c->name, sizeof(c->name), "%s", conf->name);
	else
		snprintf(c->name, sizeof(c->name), "ep%u", c->id);
	leat_wheel_init(&c->wheel, leat_us_to_cycles(DEADLINE_TICK_US), leat_now());
}

/* Open the device's part of an endpoint; on failure the part is closed again. */
static int
ep_open(struct leat_ep *ep, const struct leat_ep_conf *conf)
{
	const struct leat_driver *driver = ep->ctrl->driver;
	int ret = driver->ep_open(ep, conf);

	if (ret < 0)
		return ret;
	ep->drv_post = ep->post;
	ep->drv_poll = ep->poll;
	if (leat_mr_register_mempools(ep, conf) < 0 || leat_ep_tune_start(ep) < 0) {
		int err = rte_errno;

		leat_mr_release_all(ep);
		driver->ep_close(ep);
		rte_errno = err;
		return -err;
	}
	return 0;
}

/* Create an endpoint. outer: the endpoint whose layer creates this inner one; else NULL. */
static struct leat_ep *
ep_create(struct leat_dev *dev, const struct leat_ep_conf *user_conf, struct leat_ep *outer)
{
	struct leat_ep_conf conf = { 0 };
	const struct leat_driver *driver;
	const struct leat_layer *layer;
	struct leat_dev_info info;
	struct leat_ep *ep;
	int err;

	if (user_conf != NULL)
		conf = *user_conf;
	if (conf.ops == 0)
		conf.ops = LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV);
	/* An inner endpoint has no layer. */
	if (leat_dev_info_layer(dev, outer != NULL ? 0 : conf.ops, &info, &layer) < 0 ||
	    conf_complete(dev, &info, &conf) < 0)
		return NULL;
	ep = ep_alloc(dev, &conf);
	if (ep == NULL)
		return NULL;
	driver = layer != NULL ? layer->driver : dev->driver;
	ep_init(ep, &info, &conf, driver, outer);
	if (outer == NULL && leat_ep_tune_add(ep, &info) < 0)
		goto bad;
	/* leat_ep_tune_add() may have replaced these sizes by those of a settings file. */
	conf.tx_depth = ep->ctrl->conf.tx_depth;
	conf.rx_depth = ep->ctrl->conf.rx_depth;
	conf.max_peers = ep->ctrl->conf.max_peers;
	if (ep_open(ep, &conf) < 0)
		goto bad;
	pthread_mutex_lock(&eps_lock);
	TAILQ_INSERT_TAIL(&eps, ep->ctrl, link);
	pthread_mutex_unlock(&eps_lock);
	LEAT_LOG(INFO, fabric, "%s: endpoint %s: %u peers, %u sends, %u receives", dev->name,
		 ep->ctrl->name, conf.max_peers, conf.tx_depth, conf.rx_depth);
	return ep;
bad:
	err = rte_errno;
	ep_free(ep);
	rte_errno = err;
	return NULL;
}

struct leat_ep *
leat_ep_create(struct leat_dev *dev, const struct leat_ep_conf *conf)
{
	if (dev == NULL) {
		leat_err(EINVAL,
			 "create endpoint: no device; start with one, such as --vdev=fabric_ring0");
		return NULL;
	}
	return ep_create(dev, conf, NULL);
}

struct leat_ep *
leat_ep_create_inner(struct leat_ep *outer, const struct leat_ep_conf *conf)
{
	return ep_create(outer->dev, conf, outer);
}

int
leat_ep_destroy(struct leat_ep *ep)
{
	struct leat_ep_ctrl *c = ep->ctrl;
	char what[128];

	if (c->state != LEAT_EP_SHUT)
		return leat_err(EBUSY,
				"%s: destroy endpoint: %s (leat_ep_shutdown() and poll first)",
				c->name, leat_ep_inflight_str(ep, what, sizeof(what)));
	if (ep->nb_ready > 0)
		return leat_err(EBUSY,
				"%s: destroy endpoint: %u ops are done and wait to be polled",
				c->name, ep->nb_ready);
	pthread_mutex_lock(&eps_lock);
	TAILQ_REMOVE(&eps, c, link);
	pthread_mutex_unlock(&eps_lock);
	leat_mr_release_all(ep);
	c->driver->ep_close(ep);
	ep_free(ep);
	return 0;
}

uint16_t
leat_ep_events(struct leat_ep *ep, struct leat_event *ev, uint16_t n)
{
	struct leat_ep_ctrl *c = ep->ctrl;
	uint64_t now = leat_now();
	uint16_t got;

	leat_peer_reap(ep);
	if (c->state != LEAT_EP_SHUT)
		c->driver->progress(ep, now);
	leat_op_deadlines_run(ep, now);
	if (c->state != LEAT_EP_OPEN)
		leat_ep_closing_step(ep, now);
	got = leat_peer_events(ep, ev, n);
	if (c->shut_event && got < n) {
		memset(&ev[got], 0, sizeof(ev[got]));
		ev[got].type = LEAT_EV_SHUTDOWN;
		ev[got].peer = LEAT_PEER_ANY;
		ev[got].status = c->shut_status;
		snprintf(ev[got].text, sizeof(ev[got].text), "%s: %s", c->name,
			 c->shut_status == 0 ? "all ops ended" : "ops had to be aborted");
		c->shut_event = false;
		got++;
	}
	if (c->tune != NULL)
		leat_tune_serve(c->tune);
	ep->now = 0;
	return got;
}

/* ---- sleeping until something happens; the library checks its own state, then the driver's --- */

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
	/* Don't sleep: there are done ops or events that the application has not taken yet. */
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

/* ---- properties of an endpoint, and its counters ---- */

const char *
leat_ep_name(const struct leat_ep *ep)
{
	return ep->ctrl->name;
}

bool
leat_ep_is_datagram(const struct leat_ep *ep)
{
	return ep->ctrl->conf.type == LEAT_EP_DATAGRAM;
}

unsigned int
leat_ep_id(const struct leat_ep *ep)
{
	return ep->ctrl->id;
}

void
leat_ep_stats_get(const struct leat_ep *ep, struct leat_ep_stats *stats)
{
#define GET(f) stats->f = __atomic_load_n(&ep->stats.f, __ATOMIC_RELAXED)
	GET(posted);
	GET(returned);
	GET(refused);
	GET(errors);
	GET(flushed);
	GET(tx_bytes);
	GET(rx_bytes);
	GET(cancelled);
	GET(expired);
#undef GET
}

const struct leat_driver *
leat_ep_driver(const struct leat_ep *ep)
{
	return ep->ctrl->driver;
}

bool
leat_ep_is_inner(const struct leat_ep *ep)
{
	return ep->ctrl->outer != NULL;
}

struct leat_queue *
leat_ep_queue(struct leat_ep *ep, uint16_t peer)
{
	if (peer == LEAT_PEER_ANY)
		return &ep->recvq;
	return peer < ep->nb_peers ? &ep->peers[peer].sendq : NULL;
}
