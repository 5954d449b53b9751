/* SPDX-License-Identifier: BSD-3-Clause */

/* The ring device, its arguments, and its endpoints. */

#include <stdlib.h>

#include "ring_mark.h"

static const struct leat_driver_arg ring_args[] = {
	{ "depth", "16..32768", "512",
	  "default send depth; an endpoint's, rounded up to a power of two, is the number of "
	  "slots in its direction of each connection" },
	{ "inline", "0..96", "96", "messages up to this many bytes are copied into the slot" },
	{ "tags", "0|1", "1", "0: without tagged ops of its own, the library's are used" },
	{ "type", "reliable|datagram", "reliable", "of endpoints" },
	{ "mtu", "8..16384", "4096", "bytes of the longest datagram; with type=datagram only" },
	{ NULL },
};

static int
parse_type(const struct rte_kvargs *kv, struct ring_dev *rdev)
{
	const char *type = leat_driver_arg_str(kv, "type");

	rdev->datagram = type != NULL && strcmp(type, "datagram") == 0;
	if (type != NULL && !rdev->datagram && strcmp(type, "reliable") != 0)
		return leat_err(EINVAL, "argument type=%s: reliable or datagram expected", type);
	if (rdev->datagram)
		return leat_driver_arg_u32(kv, "mtu", RING_MTU_MIN, RING_MTU_MAX, &rdev->mtu);
	if (leat_driver_arg_str(kv, "mtu") != NULL)
		return leat_err(EINVAL,
				"argument mtu: it is of datagrams, and needs type=datagram");
	return 0;
}

static int
ring_probe(struct leat_dev *dev, const struct rte_kvargs *kv)
{
	struct ring_dev *rdev = calloc(1, sizeof(*rdev));
	int ret;

	if (rdev == NULL)
		return leat_err(ENOMEM, "out of memory");
	rdev->depth = RING_DEPTH_DEFAULT;
	rdev->inline_max = RING_INLINE_MAX;
	rdev->tags = 1;
	rdev->mtu = RING_MTU_DEFAULT;
	ret = leat_driver_arg_u32(kv, "depth", RING_DEPTH_MIN, RING_DEPTH_MAX, &rdev->depth);
	if (ret == 0)
		ret = leat_driver_arg_u32(kv, "inline", 0, RING_INLINE_MAX, &rdev->inline_max);
	if (ret == 0)
		ret = leat_driver_arg_u32(kv, "tags", 0, 1, &rdev->tags);
	if (ret == 0)
		ret = parse_type(kv, rdev);
	if (ret < 0) {
		free(rdev);
		return ret;
	}
	rdev->depth = rte_align32pow2(rdev->depth);
	leat_dev_drv_set(dev, rdev);
	return 0;
}

static void
ring_remove(struct leat_dev *dev)
{
	free(leat_dev_drv(dev));
}

static void
ring_info(const struct leat_dev *dev, struct leat_dev_info *info)
{
	const struct ring_dev *rdev = leat_dev_drv(dev);

	info->ops = LEAT_OP_MASK_ALL;
	if (rdev->tags == 0)
		info->ops &= ~(LEAT_OP_BIT(LEAT_OP_TSEND) | LEAT_OP_BIT(LEAT_OP_TRECV));
	info->ep_types = 1u << LEAT_EP_RELIABLE;
	info->max_msg = RING_MAX_MSG;
	info->inline_max = rdev->inline_max;
	info->max_peers = UINT16_MAX - 1;
	info->tx_depth = rdev->depth;
	info->tx_depth_max = RING_DEPTH_MAX;
	info->rx_depth = RING_RX_DEPTH_DEFAULT;
	info->rx_depth_max = RING_RX_DEPTH_MAX;
	info->dead_peer_ms = RING_DEAD_PEER_MS;
	info->mr_local = false;
	info->directed_recv = true;
	info->source = true;
	info->send_imm = true;
	info->imm_size = 8;
	info->in_order = false; /* a small send is done before a large one posted earlier */
	info->write_order = true;
	info->notice_source = true;
	info->rkey_size = 8;
	info->cancel_send = true;
	info->unexpected_bounded = true;
	info->one_process = true;
	info->wait = ring_wait_offered();
	if (!rdev->datagram)
		return;
	info->ops = LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV);
	info->ep_types = 1u << LEAT_EP_DATAGRAM;
	info->max_msg = rdev->mtu;
	info->inline_max = rdev->mtu; /* into its slot or into the buffer */
	info->dead_peer_ms = 0;
	info->cancel_send = false; /* none is ever in flight */
}

static void
ep_free(struct ring_ep *rep)
{
	ring_mbox_put(rep->mbox);
	ring_queue_free(&rep->queue);
	free(rep->regions);
	free(rep->recvs);
	free(rep->links);
	free(rep->table_mem);
	free(rep);
}

static int
ring_ep_open(struct leat_ep *ep, const struct leat_ep_conf *conf)
{
	const struct ring_dev *rdev = leat_dev_drv(ep->dev);
	uint32_t nb_recvs = rte_align32pow2(conf->rx_depth);
	struct ring_ep *rep = aligned_alloc(128, RTE_ALIGN_CEIL(sizeof(*rep), 128));
	int k;

	if (rep == NULL)
		return leat_err(ENOMEM, "create endpoint: out of memory");
	memset(rep, 0, sizeof(*rep));
	rep->mbox = ring_mbox_new(conf->max_peers);
	rep->links = calloc(conf->max_peers, sizeof(*rep->links));
	rep->recvs = calloc(nb_recvs, sizeof(*rep->recvs));
	/* Those that are never used take no memory where the C library maps what is that large. */
	rep->table_mem = calloc(1, conf->max_peers * sizeof(*rep->table) + 128);
	if (rep->mbox == NULL || rep->links == NULL || rep->recvs == NULL ||
	    rep->table_mem == NULL || ring_queue_init(&rep->queue, conf->max_peers) < 0) {
		ep_free(rep);
		return leat_err(ENOMEM, "create endpoint: out of memory for %u peers, %u receives",
				conf->max_peers, conf->rx_depth);
	}
	if (conf->wait && ring_wait_open(rep->mbox) < 0) {
		int err = rte_errno;

		ep_free(rep);
		return -err;
	}
	rep->ep = ep;
	rep->board = rep->mbox->board;
	rep->table = RTE_PTR_ALIGN_CEIL(rep->table_mem, 128);
	rep->recv_mask = nb_recvs - 1;
	rep->recv_head = rep->recv_tail = LEAT_CURSOR_START;
	rep->inline_max = rdev->inline_max;
	rep->datagram = conf->type == LEAT_EP_DATAGRAM;
	if (rep->datagram) {
		rep->mtu = rdev->mtu;
		rep->inline_max = RTE_MIN(rep->inline_max, rep->mtu);
	}
	rep->can_send = (conf->ops & LEAT_OP_BIT(LEAT_OP_SEND)) != 0;
	rep->can_recv = (conf->ops & LEAT_OP_BIT(LEAT_OP_RECV)) != 0;
	rep->tx_depth = RTE_MAX(rte_align32pow2(conf->tx_depth), (uint32_t)RING_DEPTH_MIN);
	for (k = 0; k < RING_KINDS; k++)
		TAILQ_INIT(&rep->unexpected[k]);
	TAILQ_INIT(&rep->pending);

	ep->drv = rep;
	ep->post = rep->datagram ? ring_datagram_post : ring_post;
	ep->poll = rep->datagram ? ring_datagram_poll : ring_poll;
	ep->post_soon = ring_post_soon;
	ep->mr_local = false;
	ep->directed_recv = true;
	if (rep->datagram)
		ring_telemetry_add(rep);
	return 0;
}

static void
ring_ep_quiesce(struct leat_ep *ep)
{
	ring_recvs_end_all(ep, ep->drv, -ECANCELED);
}

static void
ring_ep_abort(struct leat_ep *ep)
{
	struct ring_ep *rep = ep->drv;

	rep->dead = true;
	ring_recvs_end_all(ep, rep, -ESHUTDOWN);
	ring_links_abort(ep);
}

static void
ring_ep_close(struct leat_ep *ep)
{
	struct ring_ep *rep = ep->drv;

	if (rep->datagram)
		ring_telemetry_del(rep);
	if (rep->listener != NULL)
		ring_name_unlisten(rep->listener);
	ring_mbox_close(rep->mbox);
	ring_links_free(rep, rep->dead ? RING_DEAD : RING_BYE);
	ep_free(rep);
	ep->drv = NULL;
}

static int
ring_listen(struct leat_ep *ep, const char *addr)
{
	struct ring_ep *rep = ep->drv;

	rep->listener = ring_name_listen(addr, rep->mbox);
	return rep->listener == NULL ? -rte_errno : 0;
}

static int
ring_listen_addr(struct leat_ep *ep, char *addr, size_t len)
{
	struct ring_ep *rep = ep->drv;

	return ring_name_get(rep->listener, addr, len);
}

/* A datagram connection has buffers, or none, for the sizes that were there when it was made. */
static int
ring_ep_option(struct leat_ep *ep, enum leat_ep_option option, uint32_t *value)
{
	const struct ring_dev *rdev = leat_dev_drv(ep->dev);
	struct ring_ep *rep = ep->drv;

	if (option != LEAT_EP_OPTION_INLINE_MAX || rep->datagram)
		return leat_err(EOPNOTSUPP, "%s: %s endpoints of a ring have no such choice",
				leat_ep_name(ep), rep->datagram ? "datagram" : "reliable");
	rep->inline_max = RTE_MIN(*value, rdev->inline_max);
	*value = rep->inline_max;
	return 0;
}

static const struct leat_driver ring_driver = {
	.name = "fabric_ring",
	.description = "endpoints of one process, over single-producer rings in its memory",
	.args = ring_args,
	.probe = ring_probe,
	.remove = ring_remove,
	.info = ring_info,
	.ep_open = ring_ep_open,
	.ep_quiesce = ring_ep_quiesce,
	.ep_abort = ring_ep_abort,
	.ep_close = ring_ep_close,
	.cancel = ring_cancel,
	.progress = ring_progress,
	.listen = ring_listen,
	.listen_addr = ring_listen_addr,
	.connect = ring_connect,
	.accept = ring_accept,
	.reject = ring_reject,
	.disconnect = ring_disconnect,
	.mr_reg = ring_mr_reg,
	.mr_dereg = ring_mr_dereg,
	.fd = ring_ep_fd,
	.arm = ring_ep_arm,
	.disarm = ring_ep_disarm,
	.option = ring_ep_option,
};

LEAT_DRIVER_REGISTER(ring_driver)
