/* SPDX-License-Identifier: BSD-3-Clause */

/* The tag layer keeps the order of messages and writes that its device keeps. */

#include "leat_cmocka.h"
#include "tags_peer.h"

/*
 * @return a letter for each op that the device has for this peer, in order, from op number `first`
 * on
 */
static const char *
device_has(uint16_t peer, unsigned int first)
{
	static const char letters[] = {
		[LEAT_OP_SEND] = 'S',
		[LEAT_OP_WRITE] = 'W',
		[LEAT_OP_WRITE_IMM] = 'I',
		[LEAT_OP_READ] = 'R',
	};
	static char text[64];
	unsigned int i, n = 0;

	for (i = 0; i < mock.nb_ops; i++) {
		const struct leat_op *op = mock.ops[i];

		if (!leat_op_is_recv(op) && op->peer == peer)
			text[n++] = letters[op->type];
	}
	text[n] = '\0';
	assert_true(first <= n);
	return text + first;
}

static void
post_burst(struct leat_op *ops, const uint8_t *types, uint16_t n, uint16_t peer)
{
	struct leat_op *burst[8];
	uint16_t i;

	for (i = 0; i < n; i++) {
		ops[i] = (struct leat_op){ .type = types[i], .peer = peer };
		ops[i].queue = LEAT_QUEUE_NONE;
		burst[i] = &ops[i];
	}
	assert_int_equal(leat_ep_post(tp_ep, burst, n), n);
}

/*
 * One-sided ops go to the device after the WRITE_IMMs and SENDs that were posted before them, both
 * in one burst and while the peer has no credit left. They do not wait for TSENDs.
 */
static void
test_write_order(void **state)
{
	static const uint8_t types[] = { LEAT_OP_WRITE_IMM, LEAT_OP_WRITE, LEAT_OP_SEND,
					 LEAT_OP_READ, LEAT_OP_WRITE };
	static struct leat_op a[RTE_DIM(types)], b[RTE_DIM(types)], s[17], w[2];
	struct tags_hdr credit = { .kind = TAGS_CREDIT };
	unsigned int i;

	(void)state;
	post_burst(a, types, RTE_DIM(types), 0);
	assert_string_equal(device_has(0, 0), "IWSRW");
	for (i = 0; i < 17; i++) {
		s[i] = (struct leat_op){ .type = LEAT_OP_TSEND, .peer = 1, .tag = i };
		s[i].queue = LEAT_QUEUE_NONE;
		tp_post(&s[i]);
	}
	post_burst(&w[0], &types[1], 1, 1);
	assert_string_equal(device_has(1, 16), "W");
	post_burst(b, types, RTE_DIM(types), 1);
	post_burst(&w[1], &types[1], 1, 1);
	assert_string_equal(device_has(1, 17), "");
	/* Return two credits: one for the TSEND that waits, and one for the WRITE_IMM. */
	credit.done[TAGS_C_MSG] = 2;
	tp_arrive(1, &credit, NULL, 0);
	assert_null(tp_poll());
	assert_string_equal(device_has(1, 17), "SIW");
	/* A WRITE that waits can be cancelled. */
	assert_int_equal(leat_op_cancel(tp_ep, &w[1]), 0);
	assert_ptr_equal(tp_poll(), &w[1]);
	assert_int_equal(w[1].status, -ECANCELED);
	credit.done[TAGS_C_MSG] = 3;
	tp_arrive(1, &credit, NULL, 0);
	assert_null(tp_poll());
	assert_string_equal(device_has(1, 20), "SRW");
	/* No op waits any more, so a WRITE goes to the device at once. */
	post_burst(&w[1], &types[1], 1, 1);
	assert_string_equal(device_has(1, 23), "W");
}

int
main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, tp_setup, tp_teardown)
	const struct CMUnitTest tests[] = {
		T(test_write_order),
	};

	return cmocka_run_group_tests(tests, tp_group_setup, tp_group_teardown);
}
