/* SPDX-License-Identifier: BSD-3-Clause */

/* Devices and their attributes. */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_host.h"

#undef ibv_query_port
#undef ibv_get_device_list

#define VENDOR 0x1d0f /* Amazon */
#define READ_SGES 1
#define SEND_SGES 2

static struct sim_device devices[SIM_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool filled;

void
sim_device_fork(enum sim_fork when)
{
	if (when == SIM_FORK_CHILD)
		filled = false;
	sim_fork_lock(&lock, when);
}

bool
sim_usable(struct ibv_context *context)
{
	static _Atomic bool said;

	if (sim_mine(context))
		return true;
	if (!atomic_exchange(&said, true))
		fprintf(stderr,
			"efa-sim: the device was opened before fork: a child opens it itself\n");
	errno = ENODEV;
	return false;
}

/* Fill in the devices of this host. Call under lock. */
static void
fill(const char *sysfs)
{
	for (unsigned int i = 0; i < sim_config.devices; i++) {
		struct ibv_device *ibv = &devices[i].ibv;

		devices[i].index = i;
		sim_host_gid(i, &devices[i].gid);
		ibv->node_type = IBV_NODE_UNSPECIFIED;
		ibv->transport_type = IBV_TRANSPORT_UNSPECIFIED;
		snprintf(ibv->name, sizeof(ibv->name), "efa_sim_%u", i);
		snprintf(ibv->dev_name, sizeof(ibv->dev_name), "uverbs%u", i);
		snprintf(ibv->ibdev_path, sizeof(ibv->ibdev_path),
			 "%.200s/class/infiniband/efa_sim_%u", sysfs, i);
	}
	filled = true;
}

/* Make this process a host, and create its devices. Return 0, or an errno. */
static int
start(void)
{
	const char *sysfs = getenv("SYSFS_PATH");
	int err = sim_host_start();

	if (err != 0)
		return err;
	if (sysfs == NULL) {
		fprintf(stderr, "efa-sim: SYSFS_PATH is not set: start with devtools/efa-sim\n");
		return ENODEV;
	}
	pthread_mutex_lock(&lock);
	if (!filled)
		fill(sysfs);
	pthread_mutex_unlock(&lock);
	return 0;
}

SIM_API struct ibv_device **
ibv_get_device_list(int *num_devices)
{
	struct ibv_device **list;
	int err = start();

	if (err != 0) {
		errno = err;
		return NULL;
	}
	list = calloc(sim_config.devices + 1, sizeof(*list));
	if (list == NULL)
		return NULL;
	for (unsigned int i = 0; i < sim_config.devices; i++)
		list[i] = &devices[i].ibv;
	if (num_devices != NULL)
		*num_devices = (int)sim_config.devices;
	return list;
}

SIM_API void
ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

SIM_API const char *
ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

static int
query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t len)
{
	struct ibv_port_attr a = {
		.state = IBV_PORT_ACTIVE,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = IBV_MTU_4096,
		.gid_tbl_len = 1,
		.max_msg_sz = (uint32_t)sim_config.mtu,
		.pkey_tbl_len = 1,
		.lmc = 1,
		.max_vl_num = 1,
		.active_width = 2, /* 4 lanes of 25 Gbit/s */
		.active_speed = 32,
		.phys_state = 5,
		.link_layer = IBV_LINK_LAYER_UNSPECIFIED,
	};

	(void)context;
	if (port != 1)
		return EINVAL;
	memcpy(attr, &a, len < sizeof(a) ? len : sizeof(a));
	return 0;
}

static struct ibv_qp *
create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	if (attr->qp_type != IBV_QPT_UD) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return sim_qp_create(context, attr, true);
}

/* verbs.h calls this for a UD QP whose only extended attribute is the protection domain. */
SIM_API struct ibv_qp *
ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};

	return create_qp_ex(pd->context, &ex);
}

SIM_API struct ibv_context *
ibv_open_device(struct ibv_device *device)
{
	struct sim_device *own = (struct sim_device *)device;
	struct sim_context *context;
	int err = start(); /* the child of a fork may pass a device of its parent's list */

	if (err != 0) {
		errno = err;
		return NULL;
	}
	if (own->index + 1 == sim_config.bad_device) {
		sim_count(SIM_STAT_REFUSED, 1);
		errno = ENODEV;
		return NULL;
	}
	context = calloc(1, sizeof(*context));
	if (context == NULL)
		return NULL;
	context->device = own;
	context->nb_forks = sim_nb_forks;
	context->verbs.sz = sizeof(context->verbs);
	context->verbs.query_port = query_port;
	context->verbs.create_cq_ex = sim_cq_create_ex;
	context->verbs.create_qp_ex = create_qp_ex;
	context->verbs.context.device = device;
	context->verbs.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	context->verbs.context.cmd_fd = context->verbs.context.async_fd = -1;
	context->verbs.context.ops.post_send = sim_post_send;
	context->verbs.context.ops.post_recv = sim_post_recv;
	/* cppcheck-suppress memleak; ibv_close_device() finds it by this member */
	return &context->verbs.context;
}

SIM_API int
ibv_close_device(struct ibv_context *context)
{
	free(sim_context_of(context));
	return 0;
}

SIM_API int
ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	(void)context;
	memset(attr, 0, sizeof(*attr));
	snprintf(attr->fw_ver, sizeof(attr->fw_ver), "0.0.0.0");
	attr->max_mr_size = UINT64_MAX >> 16;
	attr->page_size_cap = 4096;
	attr->vendor_id = VENDOR;
	attr->vendor_part_id = (uint32_t)sim_config.part_id;
	attr->max_qp = (int)sim_config.max_qp;
	attr->max_qp_wr = (int)sim_config.sq_depth;
	attr->max_sge = SEND_SGES;
	attr->max_sge_rd = READ_SGES;
	attr->max_cq = (int)sim_config.max_cq;
	attr->max_cqe = SIM_CQES;
	attr->max_mr = (int)sim_config.max_mr;
	attr->max_pd = 256;
	attr->max_ah = (int)sim_config.max_ah;
	attr->phys_port_cnt = 1;
	return 0;
}

SIM_API int
efadv_query_device(struct ibv_context *ibvctx, struct efadv_device_attr *attr, uint32_t inlen)
{
	(void)ibvctx;
	if (inlen < sizeof(*attr))
		return EINVAL;
	memset(attr, 0, inlen);
	attr->max_sq_wr = (uint32_t)sim_config.sq_depth;
	attr->max_rq_wr = (uint32_t)sim_config.rq_depth;
	attr->max_sq_sge = SEND_SGES;
	attr->max_rq_sge = SIM_SGES;
	attr->inline_buf_size = SIM_INLINE;
	attr->device_caps = EFADV_DEVICE_ATTR_CAPS_RNR_RETRY | EFADV_DEVICE_ATTR_CAPS_CQ_WITH_SGID;
	if (sim_config.read) {
		attr->device_caps |= EFADV_DEVICE_ATTR_CAPS_RDMA_READ;
		attr->max_rdma_size = SIM_READ_MAX;
	}
	return 0;
}

SIM_API int
ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	/* The caller has the struct of old releases of libibverbs, without the last fields. */
	return query_port(context, port, (struct ibv_port_attr *)attr,
			  offsetof(struct ibv_port_attr, port_cap_flags2));
}

SIM_API int
ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	if (port != 1 || index != 0)
		return EINVAL;
	*gid = sim_context_of(context)->device->gid;
	return 0;
}

SIM_API int
ibv_fork_init(void)
{
	return 0;
}

SIM_API enum ibv_fork_status
ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}
