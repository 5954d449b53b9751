/* SPDX-License-Identifier: BSD-3-Clause */

/* Configuring a context, and the endpoint configuration of leat_msg_ep_conf(). */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_log.h>

#include "msg_mock.h"

#define OPS (LEAT_OP_BIT(LEAT_OP_TSEND) | LEAT_OP_BIT(LEAT_OP_TRECV))

/* @return credits per connection of a context on an endpoint with ep_conf */
static uint32_t
credits_on(const struct leat_ep_conf *ep_conf, const struct leat_msg_conf *conf)
{
	struct leat_ep *ep = leat_ep_create(leat_dev_get(0), ep_conf);
	struct leat_msg_stats stats = { 0 };
	struct leat_msg *m;

	assert_non_null(ep);
	m = leat_msg_create(ep, conf);
	if (m == NULL) {
		fail_msg("%s", leat_err_msg());
		return 0;
	}
	leat_msg_stats_get(m, &stats);
	assert_int_equal(leat_msg_destroy(m), 0);
	assert_int_equal(leat_ep_close(ep, 0, NULL, NULL), 0);
	return stats.credits;
}

/* Do credits_on(), and store the messages that are logged meanwhile in text. */
static uint32_t
logged_on(const struct leat_ep_conf *ep_conf, const struct leat_msg_conf *conf, char *text,
	  size_t len)
{
	FILE *file = tmpfile(), *before = rte_log_get_stream();
	uint32_t credits;
	size_t n;

	assert_non_null(file);
	if (file == NULL)
		return 0;
	assert_int_equal(rte_openlog_stream(file), 0);
	(void)rte_log_set_level_regexp("leat.msg", RTE_LOG_NOTICE);
	credits = credits_on(ep_conf, conf);
	(void)rte_log_set_level_regexp("leat.msg", RTE_LOG_WARNING);
	assert_int_equal(rte_openlog_stream(before), 0);
	rewind(file);
	n = fread(text, 1, len - 1, file);
	text[n] = '\0';
	assert_int_equal(fclose(file), 0);
	return credits;
}

/*
 * If the configuration sets no number of credits, a connection has LEAT_MSG_CREDITS_DEFAULT, and
 * nothing is logged.
 */
static void
test_defaults(void **state)
{
	struct leat_ep_conf conf = { .max_peers = 7 };
	char text[512];

	(void)state;
	assert_int_equal(leat_msg_ep_conf(leat_dev_get(0), NULL, &conf), 0);
	assert_int_equal(conf.ops, OPS);
	assert_int_equal(conf.max_peers, 7);
	assert_int_equal(conf.rx_depth, 7 * (2 * LEAT_MSG_CREDITS_DEFAULT + 2));
	assert_int_equal(logged_on(&conf, NULL, text, sizeof(text)), LEAT_MSG_CREDITS_DEFAULT);
	assert_string_equal(text, "");
}

/*
 * With all defaults, on a device without room for 64 credits per connection, a context gets as many
 * as fit, and logs a line.
 */
static void
test_small_device(void **state)
{
	struct leat_ep_conf conf = { 0 };
	char text[512];

	(void)state;
	assert_int_equal(leat_msg_ep_conf(leat_dev_get(0), NULL, &conf), 0);
	assert_int_equal(conf.max_peers, 16); /* of the mock device, which has 1024 receives */
	assert_int_equal(conf.rx_depth, 16 * (2 * 16 + 2));
	assert_int_equal(logged_on(&conf, NULL, text, sizeof(text)), 16);
	assert_non_null(strstr(text, "16 credits per connection instead of 64"));
}

/*
 * On an endpoint that was configured without leat_msg_ep_conf(), a context lowers its credits until
 * they fit, and logs a line.
 */
static void
test_shared(void **state)
{
	const struct leat_ep_conf conf = { .ops = OPS, .max_peers = 4, .rx_depth = 64 };
	char text[512];

	(void)state;
	assert_int_equal(logged_on(&conf, NULL, text, sizeof(text)), 4);
	assert_non_null(strstr(text, "4 credits per connection instead of 64"));
	assert_non_null(strstr(text, "leat_msg_ep_conf()"));
	/* A number that the application asked for is not logged. */
	assert_int_equal(
		logged_on(&conf, &(struct leat_msg_conf){ .credits = 4 }, text, sizeof(text)), 4);
	assert_string_equal(text, "");
}

/* Room for the application's own receives and ops is kept besides the context's. */
static void
test_beside(void **state)
{
	const struct leat_msg_conf mconf = { .max_conns = 3, .credits = 128 };
	struct leat_ep_conf conf = {
		.ops = LEAT_OP_BIT(LEAT_OP_RECV), .max_peers = 2, .tx_depth = 33, .rx_depth = 10
	};

	(void)state;
	assert_int_equal(leat_msg_ep_conf(leat_dev_get(0), &mconf, &conf), 0);
	assert_int_equal(conf.ops, OPS | LEAT_OP_BIT(LEAT_OP_RECV));
	assert_int_equal(conf.max_peers, 3);
	assert_int_equal(conf.tx_depth, 33);
	assert_int_equal(conf.rx_depth, 10 + 3 * 258);
	assert_int_equal(credits_on(&conf, &mconf), 128);
}

/*
 * The device has too few receives: if the caller asked for a number of credits, that is an error;
 * otherwise each connection gets fewer credits.
 */
static void
test_device_limit(void **state)
{
	struct leat_ep_conf conf = { .max_peers = 64 }, before;
	struct leat_msg_conf mconf = { .credits = 256 };
	struct leat_dev_info info;
	uint32_t conns;

	(void)state;
	assert_int_equal(leat_dev_info_get(leat_dev_get(0), &info), 0);
	conns = RTE_MIN(info.max_peers, info.rx_depth_max / 200);
	assert_true(conns * 514 > info.rx_depth_max);
	conf.max_peers = (uint16_t)conns;
	before = conf;
	assert_int_equal(leat_msg_ep_conf(leat_dev_get(0), &mconf, &conf), -EINVAL);
	assert_memory_equal(&conf, &before, sizeof(conf));
	mconf.credits = 0;
	conf.rx_depth = info.rx_depth_max - conns * (2 * 32 + 2);
	assert_int_equal(leat_msg_ep_conf(leat_dev_get(0), &mconf, &conf), 0);
	assert_int_equal(conf.rx_depth, info.rx_depth_max);
	conf = (struct leat_ep_conf){ .rx_depth = info.rx_depth_max + 1 };
	assert_int_equal(leat_msg_ep_conf(leat_dev_get(0), &mconf, &conf), -EINVAL);
	conf = (struct leat_ep_conf){ 0 };
	mconf.credits = 12;
	assert_int_equal(leat_msg_ep_conf(leat_dev_get(0), &mconf, &conf), -EINVAL);
}

static void
test_create_refuses(void **state)
{
	struct leat_ep_conf conf = { .max_peers = 4, .rx_depth = 64, .tx_depth = 64 };
	static const struct leat_msg_conf wrong[] = {
		{ .credits = 3 },  { .credits = 1 },   { .credits = 512 },
		{ .credits = 64 }, { .max_conns = 5 }, { .eager_max = LEAT_MSG_EAGER_MAX + 1 },
	};
	struct leat_ep *ep = leat_ep_create(leat_dev_get(0), &conf);
	unsigned int i;

	(void)state;
	assert_non_null(ep);
	assert_null(leat_msg_create(ep, NULL));
	assert_int_equal(rte_errno, EOPNOTSUPP);
	assert_non_null(strstr(leat_err_msg(), "TSEND"));
	assert_int_equal(leat_ep_close(ep, 0, NULL, NULL), 0);
	conf.ops = LEAT_OP_BIT(LEAT_OP_TSEND) | LEAT_OP_BIT(LEAT_OP_TRECV);
	ep = leat_ep_create(leat_dev_get(0), &conf);
	assert_non_null(ep);
	for (i = 0; i < RTE_DIM(wrong); i++) {
		assert_null(leat_msg_create(ep, &wrong[i]));
		assert_int_equal(rte_errno, EINVAL);
	}
	assert_int_equal(leat_ep_close(ep, 0, NULL, NULL), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),     cmocka_unit_test(test_small_device),
		cmocka_unit_test(test_shared),	     cmocka_unit_test(test_beside),
		cmocka_unit_test(test_device_limit), cmocka_unit_test(test_create_refuses),
	};

	return cmocka_run_group_tests_name("msg_conf", tests, mm_start, mm_stop);
}
