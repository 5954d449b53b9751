/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The same seed, name and calls give the same faults, to the op and the microsecond. A different
 * seed or a different name gives different faults.
 */

#include <string.h>

#include "fault_test.h"

#define OPS 200
#define TURNS 20000

/* Ops that came back in each turn, with their status; and how often post refused. */
struct trace {
	uint32_t n, refused;
	struct {
		uint32_t turn;
		uint32_t op;
		int32_t status;
	} at[2 * OPS];
	struct fault_stats stats;
};

static void
post_some(struct fault_pair *p, struct leat_op *ops, uint32_t *posted, uint32_t in_flight,
	  struct trace *t)
{
	while (*posted < OPS && *posted < in_flight) {
		struct leat_op *op = &ops[*posted];

		if (leat_ep_post(p->a, &op, 1) == 0) {
			assert_int_equal(rte_errno, EAGAIN);
			t->refused++;
			return;
		}
		(*posted)++;
	}
}

/* Let endpoint a, on dev, send and receive OPS messages in bursts; record its completions. */
static void
run(const char *dev, const char *name, struct trace *t)
{
	static struct leat_op tx[OPS], rx[OPS], peer_tx[OPS], peer_rx[OPS];
	static char buf[4][256];
	struct leat_op *got[8], *op;
	uint32_t turn, sent = 0, received = 0, peer_sent = 0, i;
	struct fault_pair p;
	uint16_t n;

	memset(t, 0, sizeof(*t));
	fault_test_clock(NULL);
	fault_pair_open(&p, dev, name);
	for (i = 0; i < OPS; i++) {
		tx[i] = fault_test_send(p.pa, buf[0], 200); /* too large to complete in post */
		rx[i] = fault_test_recv(buf[1], 256);
		peer_tx[i] = fault_test_send(p.pb, buf[2], 200);
		peer_rx[i] = fault_test_recv(buf[3], 256);
		fault_test_post(p.b, &peer_rx[i]);
	}
	for (turn = 0; turn < TURNS && t->n < 2 * OPS; turn++) {
		post_some(&p, tx, &sent, 5 * turn, t);
		post_some(&p, rx, &received, 7 * turn, t);
		for (; peer_sent < OPS && peer_sent < 3 * turn; peer_sent++) {
			op = &peer_tx[peer_sent];
			if (leat_ep_post(p.b, &op, 1) == 0)
				break;
		}
		n = fault_pair_turn(&p, got, RTE_DIM(got));
		for (i = 0; i < n; i++) {
			bool send = got[i] >= tx && got[i] < tx + OPS;

			t->at[t->n].turn = turn;
			t->at[t->n].op = (uint32_t)(send ? got[i] - tx : OPS + (got[i] - rx));
			t->at[t->n].status = got[i]->status;
			t->n++;
		}
	}
	/* All ops of a came back. b may have some left: the counterparts of failed ops of a. */
	assert_int_equal(t->n, 2 * OPS);
	t->stats = *fault_test_stats(p.a);
	fault_pair_close(&p);
}

static void
nothing_on(void **state)
{
	static struct trace t;
	static const struct fault_stats none;
	uint32_t i, next[2] = { 0, OPS };

	(void)state;
	run(F_OFF, "plain", &t);
	assert_int_equal(t.n, 2 * OPS);
	assert_int_equal(t.refused, 0);
	assert_memory_equal(&t.stats, &none, sizeof(none));
	for (i = 0; i < t.n; i++) {
		assert_int_equal(t.at[i].status, 0);
		assert_int_equal(t.at[i].op, next[t.at[i].op >= OPS]++);
	}
}

static void
same_seed(void **state)
{
	static struct trace first, again;

	(void)state;
	run(F_MIX7, "one", &first);
	run(F_MIX7, "one", &again);
	assert_memory_equal(&first, &again, sizeof(first));
	/* The run had faults: otherwise two runs would prove nothing. */
	assert_true(first.stats.delayed > 0);
	assert_true(first.stats.reordered > 0);
	assert_true(first.stats.refused > 0);
	assert_true(first.stats.refused_recv > 0);
	assert_true(first.stats.failed > 0);
	assert_true(first.stats.stalls > 0);
	assert_true(first.stats.stalled_ops > 0);
	assert_int_equal(first.refused, first.stats.refused + first.stats.refused_recv);
}

static void
other_seed(void **state)
{
	static struct trace seven, eight;

	(void)state;
	run(F_MIX7, "one", &seven);
	run(F_MIX8, "one", &eight);
	assert_memory_not_equal(&seven, &eight, sizeof(seven));
}

static void
other_name(void **state)
{
	static struct trace one, two;

	(void)state;
	run(F_MIX7, "one", &one);
	run(F_MIX7, "two", &two);
	assert_memory_not_equal(&one, &two, sizeof(one));
}

/* The faults of an endpoint without a name depend on its number, so they differ each time. */
static void
no_name(void **state)
{
	static struct trace one, two;

	(void)state;
	run(F_MIX7, NULL, &one);
	run(F_MIX7, NULL, &two);
	assert_memory_not_equal(&one, &two, sizeof(one));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_on), cmocka_unit_test(same_seed),
		cmocka_unit_test(other_seed), cmocka_unit_test(other_name),
		cmocka_unit_test(no_name),
	};

	return cmocka_run_group_tests(tests, fault_test_start, fault_test_stop);
}
