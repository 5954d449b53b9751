/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A driver that does nothing but fulfil the contract (leat_driver.h): a start for a driver of your
 * own, see doc/guide/driver.md. Its datagram endpoints are on a network that loses every datagram:
 *
 *     connect   the peer is up at the next progress(), whatever its address
 *     SEND      the next poll returns the op with success: a datagram may be lost
 *     RECV      the op waits until it is cancelled, its deadline passes, or the endpoint ends
 */

#include <stdlib.h>
#include <sys/queue.h>

#include <leat_driver.h>
#include <leat_error.h>
#include <leat_order.h>

/* The driver's part of an op. It lies in the op (leat_op.drv), so post allocates nothing. */
struct skel_op {
	TAILQ_ENTRY(skel_op) next;
};
static_assert(sizeof(struct skel_op) <= sizeof(uint64_t) * LEAT_OP_DRV_WORDS, "fits into an op");

static inline struct skel_op *
skel_op(struct leat_op *op)
{
	return (struct skel_op *)op->drv;
}

struct skel_ep {
	TAILQ_HEAD(, skel_op) recvs; /* posted, oldest first */
};

static int
skel_probe(struct leat_dev *dev __rte_unused, const struct rte_kvargs *kv __rte_unused)
{
	return 0;
}

static void
skel_remove(struct leat_dev *dev __rte_unused)
{
}

static void
skel_info(const struct leat_dev *dev __rte_unused, struct leat_dev_info *info)
{
	info->ops = LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV);
	info->ep_types = 1u << LEAT_EP_DATAGRAM;
	info->max_msg = 1024;
	info->max_peers = 256;
	info->tx_depth = info->rx_depth = 256;
	info->tx_depth_max = info->rx_depth_max = 4096;
	info->unexpected_bounded = true;
	info->source = true;
}

/* ---- ops ---- */

static void
recv_end(struct leat_ep *ep, struct leat_op *op, int status)
{
	struct skel_ep *sep = ep->drv;

	TAILQ_REMOVE(&sep->recvs, skel_op(op), next);
	leat_op_finish(ep, op, status, 0);
}

static void
recvs_end(struct leat_ep *ep, int status)
{
	struct skel_ep *sep = ep->drv;
	struct skel_op *sop;

	while ((sop = TAILQ_FIRST(&sep->recvs)) != NULL)
		recv_end(ep, container_of((void *)sop, struct leat_op, drv), status);
}

/* Post an op that was admitted. Its completion, not post, reports that an op is invalid. */
static void
post_one(struct leat_ep *ep, struct leat_op *op)
{
	struct skel_ep *sep = ep->drv;
	int err = leat_op_check(ep, op);

	if (err != 0) {
		leat_op_fail(ep, op, err);
		return;
	}
	leat_op_start(ep, op);
	if (leat_op_is_recv(op))
		TAILQ_INSERT_TAIL(&sep->recvs, skel_op(op), next);
	else
		leat_op_finish(ep, op, 0, op->size);
}

static uint16_t
skel_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n)
{
	uint16_t i;

	for (i = 0; i < n && leat_op_admit(ep, ops[i]); i++)
		post_one(ep, ops[i]);
	return leat_ep_post_end(ep, i, n);
}

/* A real driver polls its hardware's completions here, and calls leat_op_finish() for each. */
static void
skel_poll(struct leat_ep *ep __rte_unused)
{
}

/* Cancel an op. It is a receive: no other op is ever in flight. */
static int
skel_cancel(struct leat_ep *ep, struct leat_op *op)
{
	recv_end(ep, op, -ECANCELED);
	return 0;
}

/* Open an endpoint. The library has checked conf against the limits of skel_info(). */
static int
skel_ep_open(struct leat_ep *ep, const struct leat_ep_conf *conf __rte_unused)
{
	struct skel_ep *sep = malloc(sizeof(*sep));

	if (sep == NULL)
		return leat_err(ENOMEM, "create endpoint: out of memory");
	TAILQ_INIT(&sep->recvs);
	ep->drv = sep;
	ep->post = skel_post;
	ep->poll = skel_poll;
	return 0;
}

static void
skel_ep_quiesce(struct leat_ep *ep)
{
	recvs_end(ep, -ECANCELED);
}

static void
skel_ep_abort(struct leat_ep *ep)
{
	recvs_end(ep, -ESHUTDOWN);
}

static void
skel_ep_close(struct leat_ep *ep)
{
	free(ep->drv);
}

static int
skel_connect(struct leat_ep *ep __rte_unused, struct leat_peer *peer __rte_unused,
	     const char *addr __rte_unused, const struct leat_conn_params *params __rte_unused)
{
	return 0;
}

/* Report the outcome of connecting here, not in connect(). */
static void
skel_progress(struct leat_ep *ep, uint64_t now __rte_unused)
{
	uint16_t i;

	for (i = 0; i < ep->nb_peers; i++) {
		if (ep->peers[i].state == LEAT_PEER_CONNECTING)
			leat_peer_up(ep, &ep->peers[i], NULL, 0);
	}
}

/*
 * Disconnect a peer. A real driver finishes the peer's ops between leat_peer_closing() and
 * leat_peer_down(); this driver has no ops of peers in flight.
 */
static void
skel_disconnect(struct leat_ep *ep, struct leat_peer *peer, int status, const char *text)
{
	leat_peer_closing(ep, peer, status, text);
	leat_peer_down(ep, peer);
}

static const struct leat_driver skel_driver = {
	.name = "fabric_skeleton",
	.description = "does nothing: an example for authors of drivers",
	.probe = skel_probe,
	.remove = skel_remove,
	.info = skel_info,
	.ep_open = skel_ep_open,
	.ep_quiesce = skel_ep_quiesce,
	.ep_abort = skel_ep_abort,
	.ep_close = skel_ep_close,
	.cancel = skel_cancel,
	.progress = skel_progress,
	.connect = skel_connect,
	.disconnect = skel_disconnect,
};

LEAT_DRIVER_REGISTER(skel_driver)
