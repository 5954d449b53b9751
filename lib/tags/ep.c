/* SPDX-License-Identifier: BSD-3-Clause */

/* The tag layer as a driver: an endpoint that contains another endpoint. */

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "tags_pvt.h"

/* Longest time for which segments of the layer, mostly credits, may delay a close, us. */
#define CLOSE_US (100 * 1000)
/*
 * Longest time for which a close waits for the answers to its BYEs, us. Short, since an endpoint on
 * the same thread can't answer meanwhile.
 */
#define ANSWER_US (20 * 1000)

#define OPS_TAGGED (LEAT_OP_BIT(LEAT_OP_TSEND) | LEAT_OP_BIT(LEAT_OP_TRECV))
#define OPS_PLAIN (LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV))
#define OPS_MESSAGE (OPS_TAGGED | OPS_PLAIN)

static uint32_t
tags_ops(const struct leat_dev_info *info)
{
	if ((info->ops & OPS_TAGGED) != 0 || (info->ops & OPS_PLAIN) != OPS_PLAIN ||
	    (info->ep_types & (1u << LEAT_EP_RELIABLE)) == 0 ||
	    info->rx_depth_max < TAGS_RECVS_MIN || info->priv_connect < TAGS_HELLO_LEN ||
	    info->priv_accept < TAGS_HELLO_LEN)
		return 0;
	/*
	 * Segments have tokens, but the notice of a WRITE_IMM may have none. Then leat_op.src must
	 * name the peer.
	 */
	if (!info->source && (info->ops & LEAT_OP_BIT(LEAT_OP_WRITE_IMM)) != 0)
		return 0;
	/*
	 * If the device would keep any number of unexpected messages, the layer handles SEND and
	 * RECV, too, and limits that number.
	 */
	return info->unexpected_bounded ? OPS_TAGGED : OPS_MESSAGE;
}

/* Check whether the notice of a WRITE_IMM carries a token, for which its immediate has room. */
static bool
tags_notice_token(const struct leat_dev_info *info)
{
	return (info->ops & LEAT_OP_BIT(LEAT_OP_WRITE_IMM)) != 0 && !info->notice_source &&
	       info->imm_size == 8;
}

static void
tags_info(struct leat_dev_info *info)
{
	info->max_peers = RTE_MIN(info->max_peers, info->rx_depth_max / TAGS_RECVS_MIN);
	info->max_peers = RTE_MIN(info->max_peers, info->tx_depth_max / 2);
	info->ep_types = 1u << LEAT_EP_RELIABLE;
	info->directed_recv = true;
	info->source = true;
	info->send_imm = true;
	if ((info->ops & LEAT_OP_BIT(LEAT_OP_WRITE_IMM)) == 0) {
		info->imm_size = 8;
	} else if (tags_notice_token(info)) {
		info->imm_size = 4;
		info->notice_source = true;
	}
	info->in_order = false;
	info->unexpected_bounded = true;
	info->cancel_send = false;
	info->refusal_ends = false;
	info->priv_connect -= TAGS_HELLO_LEN;
	info->priv_accept = (uint16_t)RTE_MIN(info->priv_accept - TAGS_HELLO_LEN, UINT8_MAX);
	info->priv_padded = false;
}

/*
 * Divide the inner endpoint's send depth into a part for one-sided ops, of which there may be
 * tx_depth, and a part for segments. Of the segments each peer has some of its own, and all peers
 * share the others. If the device has less depth, half of it is for segments, of which each peer
 * has one. Request no more depth than needed, since some devices allocate it for each peer.
 */
static void
send_sizes(struct tags_ep *e, const struct leat_dev_info *info, const struct leat_ep_conf *conf)
{
	uint32_t onesided = (conf->ops & ~OPS_MESSAGE) != 0 ? conf->tx_depth : 0;
	uint32_t own = RTE_MIN(RTE_MAX(TAGS_SHARED / conf->max_peers, 1), TAGS_OWN);
	uint32_t segments =
		RTE_MIN(own * conf->max_peers + TAGS_SHARED, TAGS_SENDS * conf->max_peers);
	uint32_t depth = RTE_MIN(onesided + segments, info->tx_depth_max);

	segments = RTE_MIN(segments, RTE_MAX(depth - RTE_MIN(onesided, depth), depth / 2));
	e->nb_own = RTE_MIN(own, segments / conf->max_peers);
	e->nb_shared = segments - e->nb_own * conf->max_peers;
	e->onesided_max = depth - segments;
	e->tx_depth = depth;
}

/* Choose the number of receives per peer, their division into windows, and their length. */
static void
recv_sizes(struct tags_ep *e, const struct leat_dev_info *info, const struct leat_ep_conf *conf)
{
	uint32_t n = RTE_MIN(info->rx_depth_max / conf->max_peers, (uint32_t)TAGS_RECVS);
	uint32_t left = n - TAGS_REPLY_WINDOW - TAGS_CONTROLS;
	uint64_t segment = TAGS_MEMORY / ((uint64_t)(n + e->nb_own) * conf->max_peers);

	e->nb_recvs = n;
	e->window[TAGS_C_REPLY] = TAGS_REPLY_WINDOW;
	e->window[TAGS_C_DATA] = (uint16_t)(left / 2);
	e->window[TAGS_C_MSG] = (uint16_t)(left - left / 2);
	segment = RTE_MIN(RTE_MAX(segment, (uint64_t)TAGS_SEGMENT_FEW), (uint64_t)TAGS_SEGMENT);
	segment = RTE_MIN(segment, info->max_msg - TAGS_HDR_MAX);
	/*
	 * A segment that the device copies when posted costs a fraction of one that is only
	 * slightly longer.
	 */
	if (info->inline_max >= TAGS_HDR_MAX + TAGS_SEGMENT_FEW)
		segment = RTE_MIN(segment, (uint64_t)info->inline_max - TAGS_HDR_MAX);
	e->segment = (uint16_t)segment;
}

static struct leat_ep *
inner_open(struct tags_ep *e, const struct leat_ep_conf *conf)
{
	char name[LEAT_EP_NAME_MAX];
	struct leat_ep_conf c = {
		.name = name,
		.type = LEAT_EP_RELIABLE,
		.ops = OPS_PLAIN | (conf->ops & ~OPS_MESSAGE),
		.max_peers = conf->max_peers,
		.wait = conf->wait,
	};

	snprintf(name, sizeof(name), "%.*s.tags", LEAT_EP_NAME_MAX - 6, leat_ep_name(e->outer));
	c.rx_depth = e->nb_recvs * conf->max_peers;
	c.tx_depth = e->tx_depth;
	return leat_ep_create_inner(e->outer, &c);
}

static int
tags_ep_open(struct leat_ep *ep, const struct leat_ep_conf *conf)
{
	struct tags_ep *e = calloc(1, sizeof(*e));
	struct leat_dev_info info;
	int ret;

	if (e == NULL)
		return leat_err(ENOMEM, "%s: create endpoint: out of memory", leat_ep_name(ep));
	ret = leat_dev_info_get(ep->dev, &info);
	if (ret < 0)
		goto fail;
	e->outer = ep;
	e->recv_queue = info.in_order ? LEAT_QUEUE_NONE : NULL;
	e->nb_tx = conf->tx_depth;
	e->nb_rx = conf->rx_depth;
	e->imm_mask = UINT64_MAX;
	e->write_order = info.write_order;
	e->notice_token = tags_notice_token(&info);
	if (e->notice_token)
		info.imm_size = 4;
	if ((info.ops & LEAT_OP_BIT(LEAT_OP_WRITE_IMM)) != 0 && info.imm_size < 8)
		e->imm_mask = (UINT64_C(1) << info.imm_size * 8) - 1;
	TAILQ_INIT(&e->todo);
	TAILQ_INIT(&e->refused);
	STAILQ_INIT(&e->shared);
	SLIST_INIT(&e->free_places);
	TAILQ_INIT(&e->free_tx);
	TAILQ_INIT(&e->free_rx);
	TAILQ_INIT(&e->repost);
	TAILQ_INIT(&e->any_recvs);
	TAILQ_INIT(&e->wild_recvs);
	TAILQ_INIT(&e->plain);
	TAILQ_INIT(&e->tagged);
	send_sizes(e, &info, conf);
	recv_sizes(e, &info, conf);
	e->inner = inner_open(e, conf);
	if (e->inner == NULL) {
		ret = -rte_errno;
		goto fail;
	}
	e->driver = leat_ep_driver(e->inner);
	ret = tags_mem_open(e, conf);
	if (ret < 0)
		goto fail;
	tags_info(&info);
	e->priv_connect = info.priv_connect;
	e->priv_accept = info.priv_accept;
	ep->drv = e;
	ep->post = tags_post;
	ep->poll = tags_poll;
	ep->max_msg = e->inner->max_msg;
	ep->mr_local = e->inner->mr_local;
	ep->directed_recv = true;
	return 0;
fail:
	if (e->inner != NULL)
		(void)leat_ep_close(e->inner, 0, NULL, NULL); /* nothing is in flight */
	tags_mem_close(e);
	free(e);
	rte_errno = -ret;
	return ret;
}

static void
tags_ep_quiesce(struct leat_ep *ep)
{
	tags_rx_drop_all(tags_of(ep), -ECANCELED);
}

/* Check whether a BYE is still to be sent, or, until the time `answers`, to be answered. */
static bool
byes_pending(const struct tags_ep *e, uint64_t answers)
{
	uint32_t i;

	for (i = 0; i < e->inner->nb_peers; i++) {
		const struct tags_peer *p = &e->peers[i];

		if (p->leaving && (!p->bye_sent || leat_now() < answers))
			return true;
	}
	return false;
}

/* Say BYE to all peers; wait until the BYEs were sent, and up to ANSWER_US for the answers. */
static void
say_goodbye(struct tags_ep *e, int status)
{
	uint64_t now = leat_now(), end = leat_time_add(now, leat_us_to_cycles(CLOSE_US));
	uint64_t answers = leat_time_add(now, leat_us_to_cycles(ANSWER_US));
	uint32_t i;

	e->closing = true;
	for (i = 0; i < e->inner->nb_peers; i++)
		tags_peer_close(e, &e->peers[i], status);
	while (byes_pending(e, answers) && leat_now() < end) {
		(void)tags_inner_poll(e);
		tags_events(e);
		sched_yield();
	}
}

static void
tags_ep_abort(struct leat_ep *ep)
{
	struct tags_ep *e = tags_of(ep);
	uint32_t i;

	say_goodbye(e, -ESHUTDOWN);
	e->aborted = true;
	for (i = 0; i < e->inner->nb_peers; i++) {
		struct tags_peer *p = &e->peers[i];

		if (p->state == TAGS_P_FREE)
			continue;
		p->state = TAGS_P_ENDING;
		tags_tx_stop(e, p, -ESHUTDOWN);
	}
	tags_rx_drop_all(e, -ESHUTDOWN);
	/* One-sided ops come back with this shutdown. It can't fail, because it is the first. */
	(void)leat_ep_shutdown(e->inner, 0);
}

static void
finish_byes(struct tags_ep *e)
{
	if (!e->closing)
		say_goodbye(e, -ECANCELED);
	e->aborted = true;
}

static void
tags_ep_halt(struct leat_ep *ep)
{
	struct tags_ep *e = tags_of(ep);

	finish_byes(e);
	if (leat_ep_stop(e->inner, CLOSE_US, NULL, NULL) != -EBUSY && e->driver->ep_halt != NULL)
		e->driver->ep_halt(e->inner);
}

static void
tags_ep_close(struct leat_ep *ep)
{
	struct tags_ep *e = tags_of(ep);
	int ret;

	finish_byes(e);
	ret = leat_ep_close(e->inner, CLOSE_US, NULL, NULL);
	if (ret < 0 && ret != -ETIMEDOUT) {
		LEAT_LOG(ERR, tags, "%s: close: %s; its memory is not freed", leat_ep_name(ep),
			 leat_err_msg());
		return;
	}
	tags_mem_close(e);
	free(e);
	ep->drv = NULL;
}

static void
tags_progress(struct leat_ep *ep, uint64_t now)
{
	struct tags_ep *e = tags_of(ep);

	tags_events(e);
	if (e->nb_leaving > 0)
		tags_peers_leave(e, now);
}

static int
tags_listen(struct leat_ep *ep, const char *addr)
{
	return leat_ep_listen(tags_of(ep)->inner, addr);
}

static int
tags_listen_addr(struct leat_ep *ep, char *addr, size_t len)
{
	return leat_ep_listen_addr(tags_of(ep)->inner, addr, len);
}

/* Regions belong to the inner endpoint, to which one-sided ops go. */
static int
tags_mr_reg(struct leat_ep *ep, struct leat_mr_piece *piece, uint32_t access)
{
	struct tags_ep *e = tags_of(ep);

	return e->driver->mr_reg == NULL ? 0 : e->driver->mr_reg(e->inner, piece, access);
}

static int
tags_mr_dereg(struct leat_ep *ep, struct leat_mr_piece *piece)
{
	struct tags_ep *e = tags_of(ep);

	return e->driver->mr_dereg == NULL ? 0 : e->driver->mr_dereg(e->inner, piece);
}

static int
tags_fd(const struct leat_ep *ep)
{
	return leat_ep_fd(tags_of(ep)->inner);
}

static int
tags_arm(struct leat_ep *ep)
{
	struct tags_ep *e = tags_of(ep);
	int ret = leat_ep_arm(e->inner);

	if (ret == -ESHUTDOWN)
		return -EAGAIN; /* the outer endpoint is about to be shut down, too */
	if (ret == 0 && (!TAILQ_EMPTY(&e->todo) || !TAILQ_EMPTY(&e->refused)))
		return -EBUSY; /* the device had no room for something to send */
	return ret;
}

static void
tags_disarm(struct leat_ep *ep)
{
	leat_ep_disarm(tags_of(ep)->inner);
}

static int
tags_option(struct leat_ep *ep, enum leat_ep_option option, uint32_t *value)
{
	const struct tags_ep *e = tags_of(ep);

	if (e->driver->option == NULL)
		return leat_err(EOPNOTSUPP, "%s: driver %s lacks this option", leat_ep_name(ep),
				e->driver->name);
	return e->driver->option(e->inner, option, value);
}

static const struct leat_driver tags_driver = {
	.name = "tags",
	.description = "tagged ops in software, over endpoints that have none",
	.ep_open = tags_ep_open,
	.ep_quiesce = tags_ep_quiesce,
	.ep_abort = tags_ep_abort,
	.ep_halt = tags_ep_halt,
	.ep_close = tags_ep_close,
	.cancel = tags_cancel,
	.progress = tags_progress,
	.listen = tags_listen,
	.listen_addr = tags_listen_addr,
	.connect = tags_connect,
	.accept = tags_accept,
	.reject = tags_reject,
	.disconnect = tags_disconnect,
	.mr_reg = tags_mr_reg,
	.mr_dereg = tags_mr_dereg,
	.fd = tags_fd,
	.arm = tags_arm,
	.disarm = tags_disarm,
	.option = tags_option,
};

static const struct leat_layer tags_layer = {
	.name = "tags",
	.ops = tags_ops,
	.info = tags_info,
	.driver = &tags_driver,
};

LEAT_LAYER_REGISTER(tags_layer)
