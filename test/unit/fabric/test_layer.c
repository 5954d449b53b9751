/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Layers: their registration, which layer a device gets, and how its endpoints use the layer. The
 * layer of this test adds CMP_SWAP, which the mock device does not have, and fails every op.
 */

#include <string.h>

#include "leat_cmocka.h"

#include <leat_error.h>
#include <leat_fabric.h>
#include <leat_layer.h>

#include "mock_driver.h"

#define SWAP LEAT_OP_BIT(LEAT_OP_CMP_SWAP)
#define TAGGED (LEAT_OP_BIT(LEAT_OP_TSEND) | LEAT_OP_BIT(LEAT_OP_TRECV))

static bool swap_there, late_there;
static struct leat_ep *inner;

static uint32_t
swap_ops(const struct leat_dev_info *info)
{
	return swap_there ? SWAP & ~info->ops : 0;
}

static void
swap_info(struct leat_dev_info *info)
{
	info->max_peers = 2;
}

static uint16_t
swap_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n)
{
	uint16_t i;

	for (i = 0; i < n; i++)
		leat_op_fail(ep, ops[i], -EIO);
	return leat_ep_post_end(ep, n, n);
}

static void
swap_poll(struct leat_ep *ep)
{
	(void)ep;
}

static int
swap_ep_open(struct leat_ep *ep, const struct leat_ep_conf *conf)
{
	struct leat_ep_conf c = { .name = "inner", .max_peers = conf->max_peers };

	inner = leat_ep_create_inner(ep, &c);
	ep->post = swap_post;
	ep->poll = swap_poll;
	return inner == NULL ? -rte_errno : 0;
}

static void
swap_ep_quiesce(struct leat_ep *ep)
{
	(void)ep;
}

static void
swap_ep_close(struct leat_ep *ep)
{
	(void)ep;
	assert_int_equal(leat_ep_close(inner, 0, NULL, NULL), 0);
	inner = NULL;
}

static void
swap_progress(struct leat_ep *ep, uint64_t now)
{
	(void)ep;
	(void)now;
}

static const struct leat_driver swap_driver = {
	.name = "swap",
	.ep_open = swap_ep_open,
	.ep_quiesce = swap_ep_quiesce,
	.ep_close = swap_ep_close,
	.progress = swap_progress,
};

static const struct leat_layer swap = {
	.name = "swap",
	.ops = swap_ops,
	.info = swap_info,
	.driver = &swap_driver,
};

/* A constructor of the program, which may run before or after those of the library's layers. */
LEAT_LAYER_REGISTER(swap)

static uint32_t
late_ops(const struct leat_dev_info *info)
{
	return late_there ? LEAT_OP_MASK_ALL & ~info->ops : 0;
}

static uint32_t
software(void)
{
	struct leat_dev_info info;

	assert_int_equal(leat_dev_info_get(leat_dev_get(0), &info), 0);
	assert_int_equal(info.ops & info.ops_software, info.ops_software);
	return info.ops_software;
}

static void
test_endpoint(void **state)
{
	struct leat_ep_conf conf = { .name = "outer", .ops = SWAP, .max_peers = 2 };
	struct leat_op op = { .type = LEAT_OP_CMP_SWAP, .size = 8 }, *list[1] = { &op };
	struct leat_dev_info plain, with;
	struct leat_ep *ep;

	(void)state;
	assert_int_equal(leat_dev_info_for(leat_dev_get(0), ~SWAP, &plain), 0);
	assert_int_equal(leat_dev_info_for(leat_dev_get(0), SWAP, &with), 0);
	assert_int_equal(plain.ops_software, SWAP);
	assert_int_equal(with.ops_software, SWAP);
	assert_int_equal(plain.max_peers, 16);
	assert_int_equal(with.max_peers, 2);

	ep = leat_ep_create(leat_dev_get(0), &conf);
	assert_non_null(ep);
	assert_ptr_equal(ep->post, swap_post);
	assert_ptr_equal(ep->poll, swap_poll);
	assert_ptr_equal(leat_ep_driver(ep), &swap_driver);
	assert_false(leat_ep_is_inner(ep));
	assert_ptr_equal(inner, mock.ep);
	assert_string_equal(leat_ep_driver(inner)->name, "fabric_mock");
	assert_true(leat_ep_is_inner(inner));
	assert_int_equal(leat_ep_post(ep, list, 1), 1);
	assert_int_equal(leat_ep_poll(ep, list, 1), 1);
	assert_int_equal(op.status, -EIO);
	/* The error names the endpoint that the application has opened, not the one below it. */
	assert_int_equal(leat_cleanup(), -EBUSY);
	assert_non_null(strstr(leat_err_msg(), "outer"));
	assert_null(strstr(leat_err_msg(), "inner"));
	/* An endpoint with the layer is bound by the layer's limits, not the device's. */
	conf.max_peers = 3;
	assert_null(leat_ep_create(leat_dev_get(0), &conf));
	assert_int_equal(rte_errno, EINVAL);
	assert_int_equal(leat_ep_close(ep, 0, NULL, NULL), 0);
	assert_null(inner);

	/* An endpoint that does not ask for the layer's ops has no layer. */
	conf.ops = 0;
	ep = leat_ep_create(leat_dev_get(0), &conf);
	assert_non_null(ep);
	assert_ptr_equal(ep, mock.ep);
	assert_null(inner);
	assert_int_equal(leat_ep_close(ep, 0, NULL, NULL), 0);
	assert_int_equal(mock_nb_eps, 0);
}

static void
test_one_layer_of_a_device(void **state)
{
	(void)state;
	/*
	 * A device gets one layer: "swap" if it adds an op, otherwise "tags", which adds tagged
	 * ops.
	 */
	mock_tags = false;
	assert_int_equal(software(), SWAP);
	swap_there = false;
	assert_int_equal(software(), TAGGED);
	mock_tags = true;
	assert_int_equal(software(), 0);
	swap_there = true;
	assert_int_equal(software(), SWAP);
}

static void
test_registration(void **state)
{
	static const char *const names[] = { "zz", "z", "zzz", "y" };
	static struct leat_layer more[RTE_DIM(names)];
	struct leat_layer again = { .name = "swap", .ops = late_ops };
	unsigned int i, nb = 2; /* tags, swap */

	(void)state;
	assert_int_equal(leat_layer_register(&again), -EEXIST);
	for (i = 0; i < RTE_DIM(names); i++) {
		more[i] = (struct leat_layer){ .name = names[i], .ops = late_ops };
		assert_int_equal(leat_layer_register(&more[i]), nb < LEAT_LAYERS_MAX ? 0 : -ENOSPC);
		nb += nb < LEAT_LAYERS_MAX;
	}
	assert_int_equal(nb, LEAT_LAYERS_MAX);
	/* Layers are asked in the order of their names: "swap" and "tags" before the new ones. */
	late_there = true;
	mock_tags = false;
	assert_int_equal(software(), SWAP);
	swap_there = false;
	assert_int_equal(software(), TAGGED);
	mock_tags = true;
	assert_int_equal(software(), SWAP); /* the device lacks only this op */
	late_there = false;
	swap_there = true;
}

static int
setup(void **state)
{
	static char prog[] = "test_layer", nopci[] = "--no-pci", l[] = "-l", zero[] = "0";
	static char dev[] = "--vdev=fabric_mock0";
	char *argv[] = { prog, nopci, l, zero, dev, NULL };

	(void)state;
	swap_there = true;
	if (leat_init(5, argv) < 0) {
		print_error("%s\n", leat_err_msg());
		return -1;
	}
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	return leat_cleanup();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_endpoint),
		cmocka_unit_test(test_one_layer_of_a_device),
		cmocka_unit_test(test_registration),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
