/* SPDX-License-Identifier: BSD-3-Clause */

/* The device: its abilities and limits. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>

#include "verbs_transport.h"

#define RXE_VENDOR_ID 0xffffff

/*
 * Create a queue pair to find limits that no query returns: how much can be sent inline, and
 * whether ibv_wr_* is available. @return 0; positive errno
 */
static int
try_qp(struct vb_dev *d, struct ibv_pd *pd, struct ibv_cq *cq, uint32_t inline_max, bool wr_api)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 1,
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = d->transport->recv_sge,
			 .max_inline_data = inline_max },
		.qp_type = d->transport->qp_type,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	struct ibv_qp *qp;
	int err;

#ifdef VB_HAVE_WR_API
	if (wr_api) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = d->wr_ops;
	}
#else
	RTE_SET_USED(wr_api);
#endif
	errno = 0;
	qp = ibv_create_qp_ex(d->ctx, &attr);
	if (qp == NULL)
		return errno != 0 ? errno : EIO;
	d->inline_max = RTE_MIN(attr.cap.max_inline_data, d->args.inline_given
								  ? d->args.inline_max
								  : attr.cap.max_inline_data);
	err = ibv_destroy_qp(qp);
	if (err != 0)
		LEAT_LOG(WARNING, driver, "%s: destroy queue pair: %s", d->name, strerror(err));
	return 0;
}

static int
try_qps(struct vb_dev *d, struct ibv_pd *pd, struct ibv_cq *cq)
{
	uint32_t want = d->args.inline_max;
	int err;

#ifdef VB_HAVE_WR_API
	d->wr_api = try_qp(d, pd, cq, 0, true) == 0;
#endif
	/* A device refuses a queue pair whose inline limit is too large; it does not reduce it. */
	for (;;) {
		err = try_qp(d, pd, cq, want, d->wr_api);
		if (err == 0 || want == 0)
			break;
		if (d->args.inline_given)
			return leat_err(
				EINVAL,
				"%s: inline=%u: device %s refuses a queue pair with that: %s",
				d->name, want, ibv_get_device_name(d->ibdev), strerror(err));
		want >>= 1;
	}
	if (err != 0)
		return vb_qp_failed(d, "a first queue pair", err);
	return 0;
}

static int
measure(struct vb_dev *d)
{
	struct ibv_pd *pd = ibv_alloc_pd(d->ctx);
	struct ibv_cq *cq = pd == NULL ? NULL : ibv_create_cq(d->ctx, 4, NULL, NULL, 0);
	int ret, err;

	if (cq == NULL)
		ret = vb_qp_failed(d, pd == NULL ? "a protection domain" : "a completion queue",
				   errno);
	else
		ret = try_qps(d, pd, cq);
	d->cq_ex = d->transport->cq_ex && vb_cq_ex_works(d);
	err = cq != NULL ? ibv_destroy_cq(cq) : 0;
	if (err != 0)
		LEAT_LOG(WARNING, driver, "%s: destroy CQ: %s", d->name, strerror(err));
	err = pd != NULL ? ibv_dealloc_pd(pd) : 0;
	if (err != 0)
		LEAT_LOG(WARNING, driver, "%s: free PD: %s", d->name, strerror(err));
	return ret;
}

static int
depth(const struct vb_dev *d, const char *key, uint32_t given, uint32_t def, uint32_t max,
      uint32_t *out)
{
	if (given > max)
		return leat_err(EINVAL, "%s: %s=%u: device %s offers %u", d->name, key, given,
				ibv_get_device_name(d->ibdev), max);
	*out = given != 0 ? given : RTE_MIN(def, max);
	return 0;
}

uint32_t
vb_depth_least(int a, int b)
{
	int n = RTE_MIN(RTE_MIN(a, b), VB_DEPTH_MAX);

	return n < 1 ? 1 : (uint32_t)n;
}

static int
limits(struct vb_dev *d)
{
	int ret;

	if (d->ibdev->transport_type == IBV_TRANSPORT_USNIC ||
	    d->ibdev->transport_type == IBV_TRANSPORT_USNIC_UDP ||
	    d->ibdev->transport_type == IBV_TRANSPORT_UNSPECIFIED)
		return leat_err(EOPNOTSUPP, "%s: device %s has no reliable connections%s", d->name,
				ibv_get_device_name(d->ibdev),
				strncmp(ibv_get_device_name(d->ibdev), "rdmap", 5) == 0
					? ": for EFA use fabric_efa"
					: "");
	d->transport = d->args.ud ? &vb_ud_transport : &vb_rc_transport;
	d->rxe = d->attr.vendor_id == RXE_VENDOR_ID;
	ret = d->transport->limits(d);
	if (ret < 0)
		return ret;
	if (depth(d, "tx", d->args.tx, 256, d->tx_depth_max, &d->tx_depth) < 0 ||
	    depth(d, "rx", d->args.rx, 512, d->rx_depth_max, &d->rx_depth) < 0)
		return -EINVAL;
	return measure(d);
}

static void
report(const struct vb_dev *d)
{
	char src[LEAT_ADDR_MAX] = "-";

	if (d->src4.ss_family != 0)
		vb_addr_str((const struct sockaddr *)&d->src4, src, sizeof(src));
	else if (d->src6.ss_family != 0)
		vb_addr_str((const struct sockaddr *)&d->src6, src, sizeof(src));
	if (strrchr(src, ':') != NULL)
		*strrchr(src, ':') = '\0'; /* without the port, which has no meaning here */
	LEAT_LOG(NOTICE, driver,
		 "%s: device %s port %u, %s, %s, GID %d, address %s, inline up to %u B, %s, %s",
		 d->name, ibv_get_device_name(d->ibdev), d->port, vb_link_name(d->ibdev, &d->pattr),
		 d->kind, d->gid, src, d->inline_max, d->wr_api ? "ibv_wr_*" : "ibv_post_send",
		 d->cq_ex ? "ibv_start_poll" : "ibv_poll_cq");
}

static int
vb_probe(struct leat_dev *dev, const struct rte_kvargs *kv)
{
	struct vb_dev *d = calloc(1, sizeof(*d));

	if (d == NULL)
		return leat_err(ENOMEM, "%s: out of memory", leat_dev_name(dev));
	snprintf(d->name, sizeof(d->name), "%s", leat_dev_name(dev));
	if (vb_args_parse(d->name, kv, &d->args) < 0 || vb_find(d) < 0 || limits(d) < 0 ||
	    vb_mr_options(d) < 0) {
		int err = rte_errno;

		vb_find_undo(d);
		free(d);
		rte_errno = err;
		return -err;
	}
	report(d);
	leat_dev_drv_set(dev, d);
	return 0;
}

static void
vb_remove(struct leat_dev *dev)
{
	struct vb_dev *d = leat_dev_drv(dev);

	vb_find_undo(d);
	free(d);
	leat_dev_drv_set(dev, NULL);
}

static int
numa_node(const struct vb_dev *d)
{
	char path[IBV_SYSFS_PATH_MAX + 32];
	int node = -1;
	FILE *f;

	snprintf(path, sizeof(path), "%s/device/numa_node", d->ibdev->ibdev_path);
	f = fopen(path, "r");
	if (f == NULL)
		return -1;
	if (fscanf(f, "%d", &node) != 1)
		node = -1;
	(void)fclose(f); /* the file was only read, so close can't fail */
	return node;
}

static void
vb_info(const struct leat_dev *dev, struct leat_dev_info *info)
{
	const struct vb_dev *d = leat_dev_drv(dev);

	snprintf(info->provider, sizeof(info->provider), "ibverbs;%s", d->transport->name);
	snprintf(info->interface, sizeof(info->interface), "%.50s/%u",
		 ibv_get_device_name(d->ibdev), d->port);
	info->ops = d->ops;
	info->ep_types = 1u << d->transport->ep_type;
	info->max_msg = d->max_msg;
	info->inline_max = (uint32_t)RTE_MIN(d->inline_max, d->max_msg);
	info->max_peers = d->max_peers;
	info->tx_depth = d->tx_depth;
	info->tx_depth_max = d->tx_depth_max;
	info->rx_depth = d->rx_depth;
	info->rx_depth_max = d->rx_depth_max;
	info->numa_node = numa_node(d);
	info->mr_local = true;
	info->directed_recv = false;
	info->source = true;
	info->send_imm = !d->rules.no_imm;
	info->imm_size = d->rules.no_imm ? 0 : 4;
	info->in_order = true;
	info->write_order = true;
	info->notice_source = true;
	info->rkey_size = 4;
	info->unexpected_bounded = true; /* the device takes no message without a receive */
	info->cancel_send = false;
	info->priv_connect = d->priv_connect;
	info->priv_accept = d->priv_accept;
	info->wait = true;
	d->transport->info(d, info);
}

static const struct leat_driver verbs_driver = {
	.name = "fabric_verbs",
	.description = "InfiniBand, RoCE and iWARP adapters through rdma-core",
	.args = vb_driver_args,
	.probe = vb_probe,
	.remove = vb_remove,
	.info = vb_info,
	.list = vb_list,
	.ep_open = vb_ep_open,
	.ep_quiesce = vb_ep_quiesce,
	.ep_abort = vb_ep_abort,
	.ep_close = vb_ep_close,
	.cancel = vb_ep_cancel,
	.progress = vb_progress,
	.listen = vb_listen,
	.listen_addr = vb_listen_addr,
	.connect = vb_connect,
	.accept = vb_accept,
	.reject = vb_reject,
	.disconnect = vb_disconnect,
	.mr_reg = vb_mr_reg,
	.mr_dereg = vb_mr_dereg,
	.fd = vb_ep_fd,
	.arm = vb_ep_arm,
	.disarm = vb_ep_disarm,
	.option = vb_ep_option,
};

LEAT_DRIVER_REGISTER(verbs_driver)
