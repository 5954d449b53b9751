/* SPDX-License-Identifier: BSD-3-Clause */

/* Attributes of devices, and several devices. */

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

static void
list(void)
{
	char path[PATH_MAX], driver[PATH_MAX];
	struct ibv_device **devices;
	ssize_t n;
	int nb;

	/* libfabric asks for the number of devices first. */
	devices = ibv_get_device_list(NULL);
	CHECK(devices != NULL);
	ibv_free_device_list(devices);
	devices = ibv_get_device_list(&nb);
	CHECK(devices != NULL);
	CHECK_EQUAL(nb, 1);
	CHECK(devices[1] == NULL);
	CHECK(strcmp(ibv_get_device_name(devices[0]), "efa_sim_0") == 0);
	/* libfabric reads the driver's name and the PCI address from sysfs. */
	snprintf(path, sizeof(path), "%s/device/driver", devices[0]->ibdev_path);
	n = readlink(path, driver, sizeof(driver) - 1);
	CHECK(n > 0);
	driver[n] = '\0';
	CHECK(strcmp(strrchr(driver, '/') + 1, "efa") == 0);
	ibv_free_device_list(devices);
}

static void
attributes(void)
{
	struct efadv_device_attr efa = { 0 };
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	struct host host;
	union ibv_gid gid;

	host_open(&host, 0);
	CHECK_EQUAL(ibv_query_device(host.context, &attr), 0);
	CHECK_EQUAL(attr.vendor_id, 0x1d0f);
	CHECK_EQUAL(attr.vendor_part_id, 0xefa2);
	CHECK_EQUAL(attr.max_qp, 17);
	CHECK_EQUAL(attr.max_cq, 18);
	CHECK_EQUAL(attr.max_mr, 19);
	CHECK_EQUAL(attr.max_ah, 20);
	CHECK_EQUAL(efadv_query_device(host.context, &efa, sizeof(efa)), 0);
	CHECK_EQUAL(efa.max_sq_wr, 32);
	CHECK_EQUAL(efa.max_rq_wr, 64);
	CHECK_EQUAL(efa.inline_buf_size, 32);
	CHECK(efa.device_caps & EFADV_DEVICE_ATTR_CAPS_RDMA_READ);
	CHECK(efa.device_caps & EFADV_DEVICE_ATTR_CAPS_RNR_RETRY);
	CHECK_EQUAL(efadv_query_device(host.context, &efa, 8), EINVAL);
	CHECK_EQUAL(ibv_query_port(host.context, 1, &port), 0);
	CHECK_EQUAL(port.state, IBV_PORT_ACTIVE);
	CHECK_EQUAL(port.max_msg_sz, 4096);
	CHECK_EQUAL(ibv_query_port(host.context, 2, &port), EINVAL);
	CHECK_EQUAL(ibv_query_gid(host.context, 1, 1, &gid), EINVAL);
	CHECK_EQUAL(ibv_query_gid(host.context, 2, 0, &gid), EINVAL);
	CHECK_EQUAL(host.gid.raw[0], 0xfe);
	CHECK_EQUAL(host.gid.raw[1], 0x80);
	CHECK_EQUAL(ibv_fork_init(), 0);
	CHECK_EQUAL(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
	host_close(&host);
}

static void
no_read(void)
{
	struct efadv_qp_init_attr efa_qp = { .driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD };
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 16 };
	struct efadv_device_attr efa = { 0 };
	struct ibv_qp_init_attr_ex attr = { 0 };
	struct ibv_cq_ex *cq;
	struct host host;

	host_open(&host, 0);
	CHECK_EQUAL(efadv_query_device(host.context, &efa, sizeof(efa)), 0);
	CHECK(!(efa.device_caps & EFADV_DEVICE_ATTR_CAPS_RDMA_READ));
	cq = ibv_create_cq_ex(host.context, &cq_attr);
	CHECK(cq != NULL);
	attr.send_cq = attr.recv_cq = ibv_cq_ex_to_cq(cq);
	attr.cap.max_send_wr = attr.cap.max_recv_wr = 1;
	attr.qp_type = IBV_QPT_DRIVER;
	attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ;
	attr.pd = host.pd;
	errno = 0;
	CHECK(efadv_create_qp_ex(host.context, &attr, &efa_qp, sizeof(efa_qp)) == NULL);
	CHECK_EQUAL(errno, EOPNOTSUPP);
	CHECK_EQUAL(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	host_close(&host);
}

/* Messages between devices of one process: each has its own GID and its own numbers. */
static void
several(void)
{
	struct host hosts[3];
	struct ep eps[3];
	struct comp comp;
	struct ibv_ah *ah;

	for (int i = 0; i < 3; i++) {
		host_open(&hosts[i], i);
		ep_open(&eps[i], &hosts[i], NULL);
		CHECK_EQUAL(eps[i].addr.qpn, eps[0].addr.qpn);
		for (int j = 0; j < i; j++)
			CHECK(memcmp(&hosts[i].gid, &hosts[j].gid, sizeof(hosts[i].gid)) != 0);
	}
	ah = ah_open(&hosts[0], &hosts[2].gid);
	CHECK_EQUAL(post_recv(&eps[1], 1, 0, 100), 0);
	CHECK_EQUAL(post_recv(&eps[2], 2, 0, 100), 0);
	memcpy(eps[0].mem, "to the third", 13);
	CHECK_EQUAL(post_send(&eps[0], 3, ah, &eps[2].addr, 0, 13), 0);
	CHECK_EQUAL(comp_expect(&eps[0], ST_OK), 3);
	comp_wait(&eps[2], &comp);
	CHECK_EQUAL(comp.wr_id, 2);
	CHECK(memcmp(&comp.sgid, &hosts[0].gid, sizeof(comp.sgid)) == 0);
	CHECK(strcmp(eps[2].mem, "to the third") == 0);
	comp_none(&eps[1]);
	ah_close(ah);
	for (int i = 0; i < 3; i++) {
		ep_close(&eps[i]);
		host_close(&hosts[i]);
	}
}

static void
bad_device(void)
{
	struct ibv_device **devices;
	struct host host;
	int nb;

	devices = ibv_get_device_list(&nb);
	CHECK(devices != NULL);
	CHECK_EQUAL(nb, 2);
	errno = 0;
	CHECK(ibv_open_device(devices[0]) == NULL);
	CHECK_EQUAL(errno, ENODEV);
	CHECK_EQUAL(counter("refused"), 1);
	ibv_free_device_list(devices);
	host_open(&host, 1);
	host_close(&host);
}

static void
leak(void)
{
	static char mem[4096];
	struct host host;

	host_open(&host, 0);
	CHECK(ibv_reg_mr(host.pd, mem, sizeof(mem), 0) != NULL);
	CHECK_EQUAL(ibv_dealloc_pd(host.pd), EBUSY);
}

const struct test tests_device[] = {
	{ .name = "list", .run = list },
	{ .name = "attributes",
	  .config =
		  "part-id=0xefa2,max-qp=17,max-cq=18,max-mr=19,max-ah=20,sq-depth=32,rq-depth=64,"
		  "mtu=4096",
	  .run = attributes },
	{ .name = "no-read", .config = "read=0", .run = no_read },
	{ .name = "several-devices", .config = "devices=3", .run = several },
	{ .name = "bad-device", .config = "devices=2,bad-device=1", .run = bad_device },
	{ .name = "leak", .run = leak, .status = EXIT_LEAKS },
	{ .name = "leak-ignored", .config = "leaks=0", .run = leak },
	{ 0 },
};
