/* SPDX-License-Identifier: BSD-3-Clause */

/* A device's arguments, limits and endpoints: the part that drivers/ring and drivers/shm share. */

#include <stdlib.h>

#include "ring_mark.h"

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
		return leat_err(EINVAL, "argument mtu: for datagrams only, it needs type=datagram");
	return 0;
}

int
ring_dev_parse(struct ring_dev *rdev, const struct rte_kvargs *kv)
{
	int ret;

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
	rdev->depth = rte_align32pow2(rdev->depth);
	return ret;
}

void
ring_dev_info(const struct ring_dev *rdev, struct leat_dev_info *info)
{
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
	if (!rdev->datagram)
		return;
	info->ops = LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV);
	info->ep_types = 1u << LEAT_EP_DATAGRAM;
	info->max_msg = rdev->mtu;
	info->inline_max = rdev->mtu; /* every datagram is copied, into its slot or the buffer */
	info->dead_peer_ms = 0;
	info->cancel_send = false; /* no send is ever in flight */
}

/* ---- endpoints ---- */

void
ring_ep_fini(struct ring_ep *rep)
{
	ring_queue_free(&rep->queue);
	free(rep->regions);
	free(rep->recvs);
	free(rep->links);
	free(rep->table_mem);
}

int
ring_ep_init(struct ring_ep *rep, struct leat_ep *ep, const struct ring_dev *rdev,
	     const struct leat_ep_conf *conf, struct ring_board *board)
{
	const uint32_t nb_recvs = rte_align32pow2(conf->rx_depth);
	int k;

	rep->links = calloc(conf->max_peers, sizeof(*rep->links));
	rep->recvs = calloc(nb_recvs, sizeof(*rep->recvs));
	/* Unused links take no memory if the C library maps allocations of this size. */
	rep->table_mem = calloc(1, conf->max_peers * sizeof(*rep->table) + 128);
	if (rep->links == NULL || rep->recvs == NULL || rep->table_mem == NULL ||
	    ring_queue_init(&rep->queue, conf->max_peers) < 0)
		return leat_err(ENOMEM, "create endpoint: out of memory for %u peers, %u receives",
				conf->max_peers, conf->rx_depth);
	rep->ep = ep;
	rep->board = board;
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
	return 0;
}

void
ring_ep_quiesce(struct leat_ep *ep)
{
	ring_recvs_end_all(ep, ep->drv, -ECANCELED);
}

void
ring_ep_abort(struct leat_ep *ep)
{
	struct ring_ep *rep = ep->drv;

	rep->dead = true;
	ring_recvs_end_all(ep, rep, -ESHUTDOWN);
	ring_links_abort(ep);
}

/*
 * Set the inline limit, of reliable endpoints only. A datagram endpoint's limit can't change: when
 * a connection is created, this limit decides whether the connection has a buffer (ring_buf.h).
 */
int
ring_ep_option(struct leat_ep *ep, enum leat_ep_option option, uint32_t *value)
{
	const struct ring_dev *rdev = leat_dev_drv(ep->dev);
	struct ring_ep *rep = ep->drv;

	if (option != LEAT_EP_OPTION_INLINE_MAX || rep->datagram)
		return leat_err(EOPNOTSUPP, "%s: %s endpoints of this device lack this option",
				leat_ep_name(ep), rep->datagram ? "datagram" : "reliable");
	rep->inline_max = RTE_MIN(*value, rdev->inline_max);
	*value = rep->inline_max;
	return 0;
}
