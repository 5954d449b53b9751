/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Provider shm: a peer takes the entry in the address vector that another had before it. Nothing
 * of the former may be left: not at one side, and not at both.
 *
 *     a --second peer of--> x, which closes          a --connects to--> b, each in the entry that
 *     b --second peer of--> y, which closes               x and y had
 */

#include "pair.h"

#define DEV "fabric_ofi0"
#define OPS (LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV))
#define LONG (300u << 10)

static struct leat_dev *dev;
static uint8_t *from_buf, *to_buf;

/* One message each way, which must come from the right peer. */
static void
message(struct pair *p, size_t len)
{
	struct node *from = &p->a, *to = &p->b, *n;
	int i;

	for (i = 0; i < 2; i++) {
		struct leat_op rx = { .type = LEAT_OP_RECV, .peer = LEAT_PEER_ANY, .buf = to_buf },
			       tx = { .type = LEAT_OP_SEND, .peer = from->peer, .buf = from_buf };

		rx.size = LONG;
		tx.size = len;
		fill(from_buf, len, len);
		memset(to_buf, 0, len);
		pair_post(p, to, &rx);
		pair_post(p, from, &tx);
		PAIR_UNTIL(p, op_done(&rx) && op_done(&tx));
		assert_int_equal(rx.status, 0);
		assert_int_equal(tx.status, 0);
		assert_int_equal(rx.len, len);
		assert_int_equal(rx.src, to->peer);
		assert_memory_equal(from_buf, to_buf, len);
		n = from;
		from = to;
		to = n;
	}
}

/* ep has been the second peer of an endpoint, which is closed. */
static void
been_second(struct leat_ep *ep)
{
	struct pair first = { .a.ep = ep_open(dev, OPS), .b.ep = ep_open(dev, OPS) };
	struct pair second = { .a.ep = ep, .b.ep = first.b.ep };
	uint64_t swept;

	pair_connect(&first);
	message(&first, 8);
	pair_connect(&second);
	message(&second, 8);
	assert_int_equal(leat_ep_close(second.b.ep, 0, NULL, NULL), 0);
	UNTIL(TIMEOUT_US, node_turn(&second.a), !second.a.up);
	/*
	 * Its address leaves the vector at a sweep, every 20 ms; otherwise nothing is shown here.
	 */
	swept = leat_now() + leat_us_to_cycles(200000);
	while (leat_now() < swept)
		node_turn(&second.a);
	assert_int_equal(leat_ep_close(first.a.ep, 0, NULL, NULL), 0);
}

static void
again(bool here, bool there)
{
	struct pair p = { .a.ep = ep_open(dev, OPS), .b.ep = ep_open(dev, OPS) };

	if (here)
		been_second(p.a.ep);
	if (there)
		been_second(p.b.ep);
	pair_connect(&p);
	message(&p, 8);
	message(&p, 2000);
	message(&p, LONG);
	pair_close(&p);
}

static void
one_side(void **state)
{
	(void)state;
	again(true, false);
	again(false, true);
}

static void
both_sides(void **state)
{
	(void)state;
	again(true, true);
}

int
main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_side),
		cmocka_unit_test(both_sides),
	};
	int ret;

	dev = dev_start(argc, argv, DEV ",provider=shm,tags=1");
	from_buf = malloc(LONG);
	to_buf = malloc(LONG);
	if (dev == NULL || from_buf == NULL || to_buf == NULL)
		return 1;
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	free(from_buf);
	free(to_buf);
	return leat_cleanup() < 0 ? 1 : ret;
}
