/* SPDX-License-Identifier: BSD-3-Clause */

/* Parts that need no device: arguments, addresses, statuses, the map of queue pairs. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>

#include <leat_cmocka.h>

#include "rc/verbs_rc.h"

/* Functions that the code of queue pairs refers to. This test creates no queue pair. */
int
vb_rxq_open(struct vb_ep *e, struct vb_conn *c)
{
	(void)e;
	(void)c;
	return -ENOSYS;
}

int
vb_rxq_start(struct vb_ep *e, struct vb_conn *c)
{
	return vb_rxq_open(e, c);
}

void
vb_rxq_close(struct vb_ep *e, struct vb_conn *c)
{
	(void)e;
	(void)c;
}

void
vb_rc_cq_empty(struct vb_ep *e)
{
	(void)e;
}

int
vb_qp_failed(const struct vb_dev *d, const char *what, int err)
{
	(void)d;
	(void)what;
	return -err;
}

static int
parse(const char *args, struct vb_args *a)
{
	struct rte_kvargs *kv = rte_kvargs_parse(args, NULL);
	int ret;

	assert_non_null(kv);
	ret = vb_args_parse("fabric_verbs0", kv, a);
	rte_kvargs_free(kv);
	return ret;
}

static void
defaults(void **state)
{
	struct vb_args a;

	(void)state;
	assert_int_equal(parse("", &a), 0);
	assert_string_equal(a.dev, "");
	assert_int_equal(a.port, 0);
	assert_int_equal(a.gid, -1);
	assert_int_equal(a.signal, 32);
	assert_int_equal(a.timeout, 14);
	assert_int_equal(a.retry, 6);
	assert_int_equal(a.rnr_retry, 7);
	assert_true(a.tos > 255);
	assert_false(a.inline_given);
	assert_true(a.srq);
	assert_int_equal(a.rxbuf, 16384);
	assert_int_equal(a.rxbufs, 16);
}

static void
values(void **state)
{
	struct vb_args a;

	(void)state;
	assert_int_equal(parse("dev=mlx5_0,port=2,gid=3,mtu=1024,qp=rc,tx=64,rx=128,inline=0,"
			       "signal=1,tos=104,timeout=20,retry=3,rnr_retry=1",
			       &a),
			 0);
	assert_string_equal(a.dev, "mlx5_0");
	assert_int_equal(a.port, 2);
	assert_int_equal(a.gid, 3);
	assert_int_equal(a.mtu, 1024);
	assert_int_equal(a.tx, 64);
	assert_int_equal(a.rx, 128);
	assert_int_equal(a.inline_max, 0);
	assert_true(a.inline_given);
	assert_int_equal(a.signal, 1);
	assert_int_equal(a.tos, 104);
	assert_int_equal(a.timeout, 20);
	assert_int_equal(a.retry, 3);
	assert_int_equal(a.rnr_retry, 1);
	assert_int_equal(parse("relaxed=1,odp=1", &a), 0);
	assert_true(a.relaxed);
	assert_true(a.odp);
	assert_false(a.ud);
	assert_int_equal(parse("qp=ud", &a), 0);
	assert_true(a.ud);
	assert_int_equal(a.qkey, 0);
	assert_int_equal(parse("qp=ud,qkey=0x01234567", &a), 0);
	assert_int_equal(a.qkey, 0x01234567);
	assert_int_equal(parse("netdev=eth0", &a), 0);
	assert_string_equal(a.netdev, "eth0");
	assert_int_equal(parse("addr=10.0.0.1", &a), 0);
	assert_string_equal(a.addr, "10.0.0.1");
	assert_int_equal(parse("srq=0,rxbuf=4096,rxbufs=64", &a), 0);
	assert_false(a.srq);
	assert_int_equal(a.rxbuf, 4096);
	assert_int_equal(a.rxbufs, 64);
	assert_int_equal(parse("srq=auto", &a), 0);
	assert_true(a.srq);
}

static void
wrong_values(void **state)
{
	static const char *const bad[] = { "dev=",
					   "dev=a,addr=10.0.0.1",
					   "netdev=a,addr=10.0.0.1",
					   "mtu=1000",
					   "mtu=9000",
					   "qp=xrc",
					   "qp=ud,qkey=0",
					   "qp=ud,odp=1",
					   "qp=ud,qkey=0x80000000",
					   "signal=0",
					   "signal=257",
					   "tos=256",
					   "retry=8",
					   "rnr_retry=8",
					   "timeout=0",
					   "timeout=32",
					   "tx=0",
					   "rx=32769",
					   "port=0",
					   "gid=256",
					   "inline=-1",
					   "relaxed=2",
					   "odp=yes",
					   "srq=1",
					   "srq=",
					   "rxbuf=63",
					   "rxbuf=1048577",
					   "rxbufs=1",
					   "rxbufs=1025",
					   "tx=64k" };
	struct vb_args a;
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(bad); i++) {
		if (parse(bad[i], &a) != -EINVAL)
			fail_msg("%s was not refused", bad[i]);
		assert_true(leat_err_msg()[0] != '\0');
	}
	assert_int_equal(parse("qkey=5", &a), -EINVAL);
	assert_non_null(strstr(leat_err_msg(), "qp=ud"));
}

static void
addresses(void **state)
{
	static const char *const bad[] = { "",
					   "nonsense",
					   "127.0.0.1",
					   "127.0.0.1:",
					   "127.0.0.1:99999",
					   "127.0.0.1:-1",
					   "127.0.0.1:80x",
					   "[::1",
					   "[::1]",
					   "[::1:80",
					   "127.0.0.1:80:90",
					   "127.0.0.1: 80",
					   "[]:80",
					   "localhost:80",
					   "[127.0.0.1]:80" };
	struct sockaddr_storage ss;
	char buf[LEAT_ADDR_MAX];
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(bad); i++) {
		if (vb_addr_parse(bad[i], true, &ss) != -EINVAL)
			fail_msg("\"%s\" was not refused", bad[i]);
	}
	assert_int_equal(vb_addr_parse("10.0.0.1:7000", false, &ss), 0);
	vb_addr_str((struct sockaddr *)&ss, buf, sizeof(buf));
	assert_string_equal(buf, "10.0.0.1:7000");
	assert_int_equal(vb_addr_parse("[2001:db8::1]:65535", false, &ss), 0);
	vb_addr_str((struct sockaddr *)&ss, buf, sizeof(buf));
	assert_string_equal(buf, "[2001:db8::1]:65535");
	/* Only a listener may leave host and port open. */
	assert_int_equal(vb_addr_parse(":7000", true, &ss), 0);
	assert_int_equal(vb_addr_parse("10.0.0.1:0", true, &ss), 0);
	assert_int_equal(vb_addr_parse(":7000", false, &ss), -EINVAL);
	assert_int_equal(vb_addr_parse("10.0.0.1:0", false, &ss), -EINVAL);
}

/* The source address on a device that has IPv4 only. */
struct sockaddr *
vb_src_for(struct vb_dev *d, int family)
{
	static struct sockaddr_in any = { .sin_family = AF_INET };

	(void)d;
	return family == AF_INET ? (struct sockaddr *)&any : NULL;
}

static void
names(void **state)
{
	struct vb_dev d = { .name = "fabric_verbs0" };
	struct leat_lookup *lookup = NULL;
	struct sockaddr_storage ss;
	const char *why = NULL;
	char buf[LEAT_ADDR_MAX];
	int ret;

	(void)state;
	assert_int_equal(vb_addr_connect("10.0.0.1:7000", &ss, &lookup), 0);
	assert_null(lookup);
	assert_int_equal(vb_addr_connect("localhost", &ss, &lookup), -EINVAL);
	assert_int_equal(vb_addr_connect("localhost:7000", &ss, &lookup), 0);
	assert_non_null(lookup);
	do
		ret = vb_addr_looked_up(&d, &lookup, &ss, &why);
	while (ret == -EINPROGRESS);
	assert_int_equal(ret, 0);
	assert_null(lookup);
	vb_addr_str((struct sockaddr *)&ss, buf, sizeof(buf));
	assert_string_equal(buf, "127.0.0.1:7000");
	assert_int_equal(vb_addr_listen(&d, "localhost:7001", &ss), 0);
	vb_addr_str((struct sockaddr *)&ss, buf, sizeof(buf));
	assert_string_equal(buf, "127.0.0.1:7001");
}

static void
statuses(void **state)
{
	unsigned int i;

	(void)state;
	assert_string_equal(vb_wc_name(IBV_WC_RETRY_EXC_ERR), "IBV_WC_RETRY_EXC_ERR");
	assert_int_equal(vb_wc_op_status(IBV_WC_SUCCESS, false), 0);
	assert_int_equal(vb_wc_op_status(IBV_WC_REM_ACCESS_ERR, false), -EACCES);
	assert_int_equal(vb_wc_op_status(IBV_WC_RNR_RETRY_EXC_ERR, false), -EREMOTEIO);
	assert_int_equal(vb_wc_op_status(IBV_WC_RETRY_EXC_ERR, false), -ECONNRESET);
	assert_int_equal(vb_wc_op_status(IBV_WC_LOC_LEN_ERR, true), -EMSGSIZE);
	assert_int_equal(vb_wc_op_status(IBV_WC_WR_FLUSH_ERR, false), 1);
	assert_int_equal(vb_wc_end_status(IBV_WC_LOC_LEN_ERR, true), -EPROTO);
	/* Whatever the status, it has a name and a hint, and ends the connection with an error. */
	for (i = IBV_WC_SUCCESS + 1; i < 100; i++) {
		assert_non_null(strstr(vb_wc_name(i), "IBV_WC_"));
		assert_true(vb_wc_hint(i)[0] != '\0');
		assert_true(vb_wc_end_status(i, true) < 0 && vb_wc_end_status(i, false) < 0);
		assert_true(vb_wc_op_status(i, true) != 0 && vb_wc_op_status(i, false) != 0);
	}
}

static void
numbers(void **state)
{
	(void)state;
	assert_int_equal(vb_mtu_enum(4096), IBV_MTU_4096);
	assert_int_equal(vb_mtu_enum(1500), 0);
	/* 8 attempts of 67 ms, times 4, plus a second, are 3.1 s. */
	assert_in_range(vb_dead_peer_ms(14, 7), 3000, 3300);
	assert_true(vb_dead_peer_ms(31, 7) > 0);
}

/* The map of QP numbers agrees with an array, its model, under many collisions. */
static void
qpn_map(void **state)
{
	struct vb_ep e = { .qpn_mask = 63 };
	uint16_t model[64];
	uint64_t rnd = 1;
	uint32_t i, n = 0;

	(void)state;
	e.qpns = calloc(e.qpn_mask + 1u, sizeof(*e.qpns));
	assert_non_null(e.qpns);
	memset(model, 0xff, sizeof(model));
	for (i = 0; i < 20000; i++) {
		uint32_t k = (uint32_t)(test_random(&rnd) >> 32) % 64;

		if (model[k] != UINT16_MAX) {
			vb_qpn_del(&e, 17 + k * 64);
			model[k] = UINT16_MAX;
			n--;
		} else if (n < 40) {
			model[k] = (uint16_t)k;
			vb_qpn_add(&e, 17 + k * 64, (uint16_t)k);
			n++;
		}
		k = (uint32_t)(test_random(&rnd) >> 32) % 64;
		assert_int_equal(vb_qpn_find(&e, 17 + k * 64), model[k]);
	}
	free(e.qpns);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),	cmocka_unit_test(values),
		cmocka_unit_test(wrong_values), cmocka_unit_test(addresses),
		cmocka_unit_test(names),	cmocka_unit_test(statuses),
		cmocka_unit_test(numbers),	cmocka_unit_test(qpn_map),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
