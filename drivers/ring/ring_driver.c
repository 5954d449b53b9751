/* SPDX-License-Identifier: BSD-3-Clause */

/* The ring device, its arguments, and its endpoints. */

#include <stdlib.h>

#include "ring_inside.h"

static const struct leat_driver_arg ring_args[] = {
	RING_DEV_ARGS("16..32768"),
	{ NULL },
};

static int
ring_probe(struct leat_dev *dev, const struct rte_kvargs *kv)
{
	struct ring_dev *rdev = calloc(1, sizeof(*rdev));
	int ret;

	if (rdev == NULL)
		return leat_err(ENOMEM, "out of memory");
	ret = ring_dev_parse(rdev, kv);
	if (ret < 0) {
		free(rdev);
		return ret;
	}
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
	ring_dev_info(leat_dev_drv(dev), info);
	info->one_process = info->one_host = true;
	info->wait = ring_fence_offered();
}

static void
inside_free(struct ring_inside *in)
{
	ring_mbox_put(in->mbox);
	ring_ep_fini(&in->ring);
	free(in);
}

static int
ring_ep_open(struct leat_ep *ep, const struct leat_ep_conf *conf)
{
	struct ring_inside *in = aligned_alloc(128, RTE_ALIGN_CEIL(sizeof(*in), 128));
	int ret;

	if (in == NULL)
		return leat_err(ENOMEM, "create endpoint: out of memory");
	memset(in, 0, sizeof(*in));
	in->mbox = ring_mbox_new(conf->max_peers);
	if (in->mbox == NULL)
		ret = leat_err(ENOMEM, "create endpoint: out of memory");
	else
		ret = ring_ep_init(&in->ring, ep, leat_dev_drv(ep->dev), conf, in->mbox->board);
	if (ret == 0 && conf->wait)
		ret = ring_wait_open(in->mbox);
	if (ret < 0) {
		inside_free(in);
		return ret;
	}
	ring_telemetry_add(&in->ring);
	return 0;
}

static void
ring_ep_close(struct leat_ep *ep)
{
	struct ring_inside *in = ring_inside_of(ep);

	ring_telemetry_del(&in->ring);
	if (in->listener != NULL)
		ring_name_unlisten(in->listener);
	ring_mbox_close(in->mbox);
	ring_conns_free(&in->ring, in->ring.dead ? RING_DEAD : RING_BYE);
	inside_free(in);
	ep->drv = NULL;
}

static int
ring_listen(struct leat_ep *ep, const char *addr)
{
	struct ring_inside *in = ring_inside_of(ep);

	in->listener = ring_name_listen(addr, in->mbox);
	return in->listener == NULL ? -rte_errno : 0;
}

static int
ring_listen_addr(struct leat_ep *ep, char *addr, size_t len)
{
	return ring_name_get(ring_inside_of(ep)->listener, addr, len);
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
