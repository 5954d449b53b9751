/* SPDX-License-Identifier: BSD-3-Clause */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <leat_error.h>

#include "mock_driver.h"

struct mock mock;
void (*mock_probing)(void);
void (*mock_informing)(void);
void (*mock_removing)(void);
unsigned int mock_nb_devs, mock_nb_eps;
bool mock_tags = true, mock_bounded = true, mock_wait, mock_signal;

void
mock_finish(struct leat_ep *ep, unsigned int i, int status, uint64_t len)
{
	struct leat_op *op = mock.ops[i];

	mock.nb_ops--;
	memmove(&mock.ops[i], &mock.ops[i + 1], (mock.nb_ops - i) * sizeof(mock.ops[0]));
	leat_op_finish(ep, op, status, len);
}

static int
mock_probe(struct leat_dev *dev, const struct rte_kvargs *kv)
{
	uint32_t fail = 0, depth = 0;

	if (leat_driver_arg_u32(kv, "fail", 0, 1, &fail) < 0 ||
	    leat_driver_arg_u32(kv, "depth", 1, 4096, &depth) < 0)
		return -EINVAL;
	if (fail == 1)
		return leat_err(ENODEV, "asked to fail");
	/* Change the handler of a signal, as libraries below real drivers do. */
	if (signal(SIGTERM, SIG_IGN) == SIG_ERR)
		return leat_err(errno, "signal");
	if (mock_probing != NULL)
		mock_probing();
	leat_dev_drv_set(dev, &mock);
	mock_nb_devs++;
	return 0;
}

static void
mock_remove(struct leat_dev *dev)
{
	(void)dev;
	if (mock_removing != NULL)
		mock_removing();
	mock_nb_devs--;
}

static void
mock_info(const struct leat_dev *dev, struct leat_dev_info *info)
{
	(void)dev;
	if (mock_informing != NULL)
		mock_informing();
	snprintf(info->provider, sizeof(info->provider), "mock");
	info->ops = LEAT_OP_MASK_ALL & ~LEAT_OP_BIT(LEAT_OP_CMP_SWAP);
	info->ep_types = 1u << LEAT_EP_RELIABLE;
	info->max_msg = 1 << 20;
	info->max_peers = 16;
	info->tx_depth = 8;
	info->tx_depth_max = 1024;
	info->rx_depth = 8;
	info->rx_depth_max = 1024;
	info->directed_recv = true;
	info->wait = mock_wait;
	if (!mock_tags) {
		info->ops &= ~(LEAT_OP_BIT(LEAT_OP_TSEND) | LEAT_OP_BIT(LEAT_OP_TRECV));
		info->directed_recv = false;
		info->source = true;
		info->write_order = true;
		info->unexpected_bounded = mock_bounded;
		info->imm_size = 4;
	}
}

static unsigned int
nb_sends(void)
{
	unsigned int i, n = 0;

	for (i = 0; i < mock.nb_ops; i++)
		n += !leat_op_is_recv(mock.ops[i]);
	return n;
}

static uint16_t
mock_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n)
{
	uint16_t i;

	for (i = 0; i < n; i++) {
		int ret;

		if (!leat_op_admit(ep, ops[i]))
			break;
		if (mock.tx_max > 0 && !leat_op_is_recv(ops[i]) && nb_sends() >= mock.tx_max)
			break;
		if (mock.takes != NULL && !mock.takes(ops[i]))
			break;
		ret = leat_op_check(ep, ops[i]);
		if (ret < 0) {
			leat_op_fail(ep, ops[i], ret);
			continue;
		}
		mock.ops[mock.nb_ops++] = ops[i];
		mock.nb_posted++;
		leat_op_start(ep, ops[i]);
	}
	return leat_ep_post_end(ep, i, n);
}

static void
step(enum mock_point point)
{
	if (mock.step != NULL)
		mock.step(point);
}

static void
mock_poll(struct leat_ep *ep)
{
	while (mock.nb_arrived > 0) {
		mock.nb_arrived--;
		mock_finish(ep, 0, 0, 8);
	}
	step(MOCK_POLLED);
}

void
mock_arrive(void)
{
	static const uint64_t one = 1;

	mock.nb_arrived++;
	if (mock.armed && write(mock.fd, &one, sizeof(one)) < 0)
		abort();
}

static int
mock_fd(const struct leat_ep *ep)
{
	(void)ep;
	return mock.fd;
}

static int
mock_arm(struct leat_ep *ep)
{
	bool there;

	(void)ep;
	mock.nb_arm++;
	step(MOCK_ARM);
	mock.armed = true;
	step(MOCK_ANNOUNCED);
	there = mock.nb_arrived > 0;
	step(MOCK_LOOKED);
	return there ? -EAGAIN : mock.arm_ret;
}

static void
mock_disarm(struct leat_ep *ep)
{
	uint64_t count;

	(void)ep;
	mock.nb_disarm++;
	mock.armed = false;
	if (read(mock.fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		abort();
	step(MOCK_DISARMED);
}

static int
mock_ep_open(struct leat_ep *ep, const struct leat_ep_conf *conf)
{
	(void)conf;
	memset(&mock, 0, sizeof(mock));
	mock.can_cancel = true;
	mock.ep = ep;
	ep->drv = &mock;
	ep->post = mock_post;
	ep->poll = mock_poll;
	mock_nb_eps++;
	return 0;
}

#define MOCK_INLINE 64
#define MOCK_SIGNAL 32

static int
mock_option(struct leat_ep *ep, enum leat_ep_option option, uint32_t *value)
{
	(void)ep;
	if (option == LEAT_EP_OPTION_INLINE_MAX) {
		mock.inline_max = *value = RTE_MIN(*value, (uint32_t)MOCK_INLINE);
		return 0;
	}
	if (!mock_signal)
		return leat_err(EOPNOTSUPP, "mock: completions are all told");
	mock.signal_interval = *value = RTE_MIN(*value, (uint32_t)MOCK_SIGNAL);
	return 0;
}

static void
mock_ep_quiesce(struct leat_ep *ep)
{
	unsigned int i = 0;

	mock.nb_quiesce++;
	while (i < mock.nb_ops) {
		if (leat_op_is_recv(mock.ops[i]))
			mock_finish(ep, i, -ECANCELED, 0);
		else
			i++;
	}
}

static void
mock_ep_abort(struct leat_ep *ep)
{
	mock.nb_abort++;
	while (mock.nb_ops > 0 && !mock.keep_on_abort)
		mock_finish(ep, 0, -ESHUTDOWN, 0);
}

static void
mock_ep_close(struct leat_ep *ep)
{
	(void)ep;
	mock_nb_eps--;
}

static int
mock_cancel(struct leat_ep *ep, struct leat_op *op)
{
	unsigned int i;

	if (!mock.can_cancel)
		return -EOPNOTSUPP;
	for (i = 0; i < mock.nb_ops && !mock.keep_on_cancel; i++) {
		if (mock.ops[i] == op) {
			mock_finish(ep, i, -ECANCELED, 0);
			break;
		}
	}
	return 0;
}

static void
mock_progress(struct leat_ep *ep, uint64_t now)
{
	(void)ep;
	(void)now;
	mock.nb_progress++;
}

static int
mock_listen(struct leat_ep *ep, const char *addr)
{
	(void)ep;
	(void)addr;
	return mock.listen_ret < 0 ? leat_err(-mock.listen_ret, "listen %s", addr) : 0;
}

static int
mock_listen_addr(struct leat_ep *ep, char *addr, size_t len)
{
	(void)ep;
	return snprintf(addr, len, "mock:1") < (int)len ? 0 : -ENOSPC;
}

static void
keep_priv(const struct leat_conn_params *params)
{
	mock.priv_len = params->priv_len;
	if (params->priv_len > 0)
		memcpy(mock.priv, params->priv, params->priv_len);
}

static int
mock_connect(struct leat_ep *ep, struct leat_peer *peer, const char *addr,
	     const struct leat_conn_params *params)
{
	(void)ep;
	(void)peer;
	keep_priv(params);
	return mock.connect_ret < 0 ? leat_err(-mock.connect_ret, "connect %s", addr) : 0;
}

static int
mock_accept(struct leat_ep *ep, struct leat_peer *peer, const struct leat_conn_params *params)
{
	(void)ep;
	(void)peer;
	keep_priv(params);
	mock.nb_accept++;
	return mock.accept_ret < 0 ? leat_err(-mock.accept_ret, "accept") : 0;
}

static void
mock_reject(struct leat_ep *ep, struct leat_peer *peer)
{
	(void)ep;
	(void)peer;
	mock.nb_reject++;
}

static void
mock_disconnect(struct leat_ep *ep, struct leat_peer *peer, int status, const char *text)
{
	unsigned int i = 0;

	mock.nb_disconnect++;
	mock.disconnect_status = status;
	leat_peer_closing(ep, peer, status, text);
	while (i < mock.nb_ops) {
		if (mock.ops[i]->peer == peer->id)
			mock_finish(ep, i, status, 0);
		else
			i++;
	}
	leat_peer_down(ep, peer);
}

static int
mock_mr_reg(struct leat_ep *ep, struct leat_mr_piece *piece, uint32_t access)
{
	(void)ep;
	(void)access;
	if (mock.mr_fail_after > 0 && mock.nb_mrs >= mock.mr_fail_after)
		return leat_err(ENOMEM, "no more regions");
	piece->key = 0x100 + mock.nb_mrs++;
	piece->base = (uintptr_t)piece->addr;
	return 0;
}

static int
mock_mr_dereg(struct leat_ep *ep, struct leat_mr_piece *piece)
{
	(void)ep;
	(void)piece;
	if (mock.mr_busy > 0) {
		mock.mr_busy--;
		return leat_err(EBUSY, "busy");
	}
	mock.nb_mrs--;
	return 0;
}

static const struct leat_driver_arg mock_args[] = {
	{ "fail", "0|1", "0", "probe fails" },
	{ "depth", "1..4096", "", "means \"nothing\"" },
	{ NULL, NULL, NULL, NULL },
};

static const struct leat_driver mock_driver = {
	.name = "fabric_mock",
	.description = "does what a test says",
	.args = mock_args,
	.probe = mock_probe,
	.remove = mock_remove,
	.info = mock_info,
	.ep_open = mock_ep_open,
	.ep_quiesce = mock_ep_quiesce,
	.ep_abort = mock_ep_abort,
	.ep_close = mock_ep_close,
	.cancel = mock_cancel,
	.progress = mock_progress,
	.listen = mock_listen,
	.listen_addr = mock_listen_addr,
	.connect = mock_connect,
	.accept = mock_accept,
	.reject = mock_reject,
	.disconnect = mock_disconnect,
	.mr_reg = mock_mr_reg,
	.mr_dereg = mock_mr_dereg,
	.fd = mock_fd,
	.arm = mock_arm,
	.disarm = mock_disarm,
	.option = mock_option,
};

LEAT_DRIVER_REGISTER(mock_driver)
