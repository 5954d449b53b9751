/* SPDX-License-Identifier: BSD-3-Clause */

/* The device's arguments: table and parser. */

#include <string.h>

#include "verbs_pvt.h"

const struct leat_driver_arg vb_driver_args[] = {
	{ "dev", "NAME", "the only one with an active port",
	  "RDMA device as ibv_devices shows it, e.g. mlx5_0" },
	{ "netdev", "IF", "", "instead of dev: the one behind this network interface" },
	{ "addr", "IP", "", "instead of dev: the one that has this address" },
	{ "port", "1..255", "the first active one", "port of the device" },
	{ "gid", "0..255", "the first of RoCE v2 and IPv4, else IPv6",
	  "index in the port's table of GIDs (show_gids, rdma link): the local address" },
	{ "mtu", "256|512|1024|2048|4096", "MTU of the path", "largest packet, bytes" },
	{ "qp", "rc|ud", "rc",
	  "kind of queue pairs: reliable connections, or unreliable datagrams" },
	{ "qkey", "1..0x7fffffff", "each endpoint has its own",
	  "qp=ud: key that senders must know; 0x01234567: that of rdma_cm, known to all" },
	{ "tx", "1..32768", "256", "send depth that endpoints get by default" },
	{ "rx", "1..32768", "512", "receive depth that endpoints get by default" },
	{ "srq", "auto|0", "auto", "0: no shared receive queue, though the device has it" },
	{ "rxbuf", "64..1048576", "16384",
	  "without one: bytes of a receive buffer, the longest message" },
	{ "rxbufs", "2..1024", "16", "without one: receive buffers per peer" },
	{ "inline", "0..1024", "what the device offers, up to 220",
	  "SEND and WRITE up to this many bytes are copied when posted" },
	{ "signal", "1..256", "32", "within a burst, every N-th send is signaled, and the last" },
	{ "tos", "0..255", "", "type of service (traffic class) of connections" },
	{ "timeout", "1..31", "14",
	  "a packet is sent again after 4.096 us * 2^N without an answer" },
	{ "retry", "0..7", "6", "retries before the connection is lost" },
	{ "rnr_retry", "0..7", "7",
	  "retries while the receiver has posted no receive; 7: no limit" },
	{ "relaxed", "0|1", "0",
	  "1: memory that peers have no right to write may be written in any order" },
	{ "odp", "0|1", "0", "1: memory is not pinned, but paged in on demand" },
	{ NULL, NULL, NULL, NULL },
};

int
vb_mtu_enum(uint32_t bytes)
{
	switch (bytes) {
	case 256:
		return IBV_MTU_256;
	case 512:
		return IBV_MTU_512;
	case 1024:
		return IBV_MTU_1024;
	case 2048:
		return IBV_MTU_2048;
	case 4096:
		return IBV_MTU_4096;
	default:
		return 0;
	}
}

uint32_t
vb_mtu_bytes(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

/* Devices may take up to four times the configured timeout. */
uint32_t
vb_dead_peer_ms(uint32_t timeout, uint32_t retry)
{
	uint64_t us = (UINT64_C(4096) << timeout) / 1000 * (retry + 1) * 4;

	return us / 1000 + 1000 > UINT32_MAX ? UINT32_MAX : (uint32_t)(us / 1000 + 1000);
}

static int
copy(const char *name, const struct rte_kvargs *kv, const char *key, char *buf, size_t len)
{
	const char *v = leat_driver_arg_str(kv, key);

	if (v == NULL)
		return 0;
	if (v[0] == '\0' || strlen(v) >= len)
		return leat_err(EINVAL, "%s: %s=%.80s is empty or too long", name, key, v);
	memcpy(buf, v, strlen(v) + 1);
	return 0;
}

static int
strings(const char *name, const struct rte_kvargs *kv, struct vb_args *a)
{
	const char *qp = leat_driver_arg_str(kv, "qp"), *srq = leat_driver_arg_str(kv, "srq");

	if (copy(name, kv, "dev", a->dev, sizeof(a->dev)) < 0 ||
	    copy(name, kv, "netdev", a->netdev, sizeof(a->netdev)) < 0 ||
	    copy(name, kv, "addr", a->addr, sizeof(a->addr)) < 0)
		return -EINVAL;
	if ((a->dev[0] != '\0') + (a->netdev[0] != '\0') + (a->addr[0] != '\0') > 1)
		return leat_err(EINVAL, "%s: dev=, netdev= and addr= exclude one another", name);
	a->srq = srq == NULL || strcmp(srq, "auto") == 0;
	if (!a->srq && strcmp(srq, "0") != 0)
		return leat_err(EINVAL, "%s: srq=%.40s: auto or 0 expected", name, srq);
	a->ud = qp != NULL && strcmp(qp, "ud") == 0;
	if (qp != NULL && !a->ud && strcmp(qp, "rc") != 0)
		return leat_err(EINVAL, "%s: qp=%.40s: rc or ud expected", name, qp);
	return 0;
}

int
vb_args_parse(const char *name, const struct rte_kvargs *kv, struct vb_args *a)
{
	uint32_t gid = UINT32_MAX, relaxed = 0, odp = 0;
	int ret;

	memset(a, 0, sizeof(*a));
	a->signal = 32;
	a->tos = UINT32_MAX;
	a->timeout = 14;
	a->retry = 6; /* not 7: soft-RoCE then retries without end */
	a->rnr_retry = 7;
	a->inline_max = 220;
	a->rxbuf = 16384;
	a->rxbufs = 16;
	a->inline_given = leat_driver_arg_str(kv, "inline") != NULL;
	ret = strings(name, kv, a);
	if (ret < 0)
		return ret;
	if (leat_driver_arg_u32(kv, "port", 1, 255, &a->port) < 0 ||
	    leat_driver_arg_u32(kv, "gid", 0, 255, &gid) < 0 ||
	    leat_driver_arg_u32(kv, "mtu", 256, 4096, &a->mtu) < 0 ||
	    leat_driver_arg_u32(kv, "tx", 1, VB_DEPTH_MAX, &a->tx) < 0 ||
	    leat_driver_arg_u32(kv, "rx", 1, VB_DEPTH_MAX, &a->rx) < 0 ||
	    leat_driver_arg_u32(kv, "rxbuf", 64, 1 << 20, &a->rxbuf) < 0 ||
	    leat_driver_arg_u32(kv, "rxbufs", 2, 1024, &a->rxbufs) < 0 ||
	    leat_driver_arg_u32(kv, "inline", 0, 1024, &a->inline_max) < 0 ||
	    leat_driver_arg_u32(kv, "signal", 1, VB_SIGNAL_MAX, &a->signal) < 0 ||
	    leat_driver_arg_u32(kv, "tos", 0, 255, &a->tos) < 0 ||
	    leat_driver_arg_u32(kv, "timeout", 1, 31, &a->timeout) < 0 ||
	    leat_driver_arg_u32(kv, "retry", 0, 7, &a->retry) < 0 ||
	    leat_driver_arg_u32(kv, "rnr_retry", 0, 7, &a->rnr_retry) < 0 ||
	    leat_driver_arg_u32(kv, "qkey", 1, INT32_MAX, &a->qkey) < 0 ||
	    leat_driver_arg_u32(kv, "relaxed", 0, 1, &relaxed) < 0 ||
	    leat_driver_arg_u32(kv, "odp", 0, 1, &odp) < 0)
		return -EINVAL;
	if (a->qkey != 0 && !a->ud)
		return leat_err(EINVAL, "%s: qkey= is for datagrams: qp=ud", name);
	a->relaxed = relaxed != 0;
	a->odp = odp != 0;
	if (a->odp && a->ud)
		return leat_err(EINVAL, "%s: odp=1 is for reliable connections: qp=rc", name);
	a->gid = gid == UINT32_MAX ? -1 : (int32_t)gid;
	if (a->mtu != 0 && vb_mtu_enum(a->mtu) == 0)
		return leat_err(EINVAL, "%s: mtu=%u: 256, 512, 1024, 2048 or 4096 expected", name,
				a->mtu);
	return 0;
}
