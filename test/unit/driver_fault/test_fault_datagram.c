/* SPDX-License-Identifier: BSD-3-Clause */

/* Faults of datagrams: lost, doubled and overtaken ones. */

#include <string.h>

#include "fault_test.h"

#define N 100
#define RECVS (2 * N)
#define SIZE 4096 /* the longest datagram */

static struct leat_op sends[N], recvs[RECVS];
static char out[N][SIZE], in[RECVS][SIZE];
static struct fault_pair p;

/* Some datagrams fit into the ring's slots, some need its buffer. */
static uint64_t
size_of(uint32_t msg)
{
	static const uint64_t sizes[] = { 40, 1500, SIZE };

	return sizes[msg % RTE_DIM(sizes)];
}

static void
pair_open(const char *dev, const char *name)
{
	const struct leat_ep_conf conf = { .type = LEAT_EP_DATAGRAM, .name = name };
	uint32_t i;

	fault_pair_open_conf(&p, dev, &conf);
	for (i = 0; i < N; i++) {
		memset(out[i], (int)i, SIZE);
		sends[i] = fault_test_send(p.pa, out[i], size_of(i));
	}
	for (i = 0; i < RECVS; i++) {
		recvs[i] = fault_test_recv(in[i], SIZE);
		fault_test_post(p.b, &recvs[i]);
	}
}

/* The datagrams in the order in which they arrived at b; the completions at a, with their turns. */
struct trace {
	uint32_t came, back;
	uint8_t msg[RECVS];
	struct {
		uint32_t turn;
		int32_t status;
		uint32_t op;
	} at[N];
	struct fault_stats stats;
};

static void
take(struct trace *t, uint32_t turn)
{
	struct leat_op *got[8];
	uint16_t i, n;

	test_clock += US;
	n = leat_ep_poll(p.b, got, RTE_DIM(got));
	for (i = 0; i < n; i++) {
		const char *buf = got[i]->buf;

		assert_int_equal(got[i]->status, 0);
		t->msg[t->came] = (uint8_t)buf[0];
		assert_in_range(t->msg[t->came], 0, N - 1);
		assert_int_equal(got[i]->len, size_of(t->msg[t->came]));
		assert_memory_equal(buf, out[t->msg[t->came]], got[i]->len);
		t->came++;
	}
	n = leat_ep_poll(p.a, got, RTE_DIM(got));
	for (i = 0; i < n; i++) {
		t->at[t->back].turn = turn;
		t->at[t->back].status = got[i]->status;
		t->at[t->back].op = (uint32_t)(got[i] - sends);
		t->back++;
	}
}

/* Send n datagrams, up to five per turn. Run until all ops are back, and 20 turns more. */
static void
run(struct trace *t, uint32_t n)
{
	uint32_t turn, posted = 0, quiet;

	memset(t, 0, sizeof(*t));
	for (turn = 0; t->back < n; turn++) {
		assert_in_range(turn, 0, 10000);
		while (posted < n && posted < 5 * (turn + 1)) {
			struct leat_op *op = &sends[posted];

			if (leat_ep_post(p.a, &op, 1) == 0)
				break;
			posted++;
		}
		take(t, turn);
	}
	for (quiet = 0; quiet < 20; quiet++)
		take(t, turn);
	t->stats = *fault_test_stats(p.a);
}

static uint32_t
count(const struct trace *t, uint32_t msg)
{
	uint32_t i, n = 0;

	for (i = 0; i < t->came; i++)
		n += t->msg[i] == msg;
	return n;
}

/* A send whose datagram is lost completes as any other send. */
static void
loss(void **state)
{
	struct trace t;
	uint32_t i;

	(void)state;
	pair_open(F_LOSS, "l");
	run(&t, N);
	for (i = 0; i < N; i++)
		assert_int_equal(sends[i].status, 0);
	assert_in_range(t.stats.lost, N / 4, 3 * N / 4);
	assert_int_equal(t.came, N - t.stats.lost);
	for (i = 0; i < t.came; i++)
		assert_true(i == 0 || t.msg[i] > t.msg[i - 1]);
	fault_pair_close(&p);
}

/* About half of the datagrams are sent twice, and arrive twice, though each op comes back once. */
static void
doubled(void **state)
{
	uint32_t i, twice = 0;
	struct trace t;

	(void)state;
	pair_open(F_DUP, "d");
	run(&t, N);
	assert_in_range(t.stats.doubled, N / 4, 3 * N / 4);
	assert_int_equal(t.came, N + t.stats.doubled);
	for (i = 0; i < N; i++) {
		assert_int_equal(sends[i].status, 0);
		assert_in_range(count(&t, i), 1, 2);
		twice += count(&t, i) == 2;
	}
	assert_int_equal(twice, t.stats.doubled);
	fault_pair_close(&p);
}

/* With overtake=4 no datagram is overtaken by more than 4 others. */
static void
overtaken(void **state)
{
	uint32_t i, k, moved = 0;
	struct trace t;

	(void)state;
	pair_open(F_OVERTAKE, "o");
	run(&t, N);
	assert_int_equal(t.came, N);
	for (i = 0; i < N; i++) {
		uint32_t younger = 0;

		for (k = 0; k < i; k++)
			younger += t.msg[k] > t.msg[i];
		assert_in_range(younger, 0, 4);
		moved += younger > 0;
	}
	assert_true(moved > N / 4);
	assert_int_equal(t.stats.overtaken, moved);
	fault_pair_close(&p);
}

/* A single datagram does not wait for others to overtake it. */
static void
overtaken_alone(void **state)
{
	struct trace t;
	uint32_t i;

	(void)state;
	pair_open(F_OVERTAKE, "alone");
	for (i = 0; i < 30; i++) {
		run(&t, 1);
		assert_in_range(t.at[0].turn, 0, 8);
		assert_int_equal(t.came, 1);
	}
	fault_pair_close(&p);
}

/*
 * When a peer is disconnected, sends that were not posted below complete before the peer's event.
 * A send whose deadline expires does not end its peer.
 */
static void
disconnected(void **state)
{
	struct leat_op *got[8];
	struct leat_event ev;
	uint32_t i, back = 0, n;

	(void)state;
	pair_open(F_OVERTAKE, "gone");
	for (i = 0; i < 5; i++) {
		if (i == 0) {
			sends[i].flags = LEAT_OP_F_DEADLINE;
			sends[i].deadline = test_clock;
		}
		fault_test_post(p.a, &sends[i]);
	}
	test_clock += 1000 * US;
	assert_int_equal(leat_ep_events(p.a, &ev, 1), 0);
	assert_int_equal(leat_ep_peer_state(p.a, p.pa), LEAT_PEER_UP);
	assert_int_equal(leat_op_cancel(p.a, &sends[1]), -EOPNOTSUPP);
	assert_int_equal(leat_ep_disconnect(p.a, p.pa), 0);
	while ((n = leat_ep_poll(p.a, got, RTE_DIM(got))) > 0)
		back += n;
	assert_int_equal(back, 5);
	for (i = 1; i < 5; i++)
		assert_int_equal(sends[i].status, -ECONNABORTED);
	assert_int_equal(sends[0].status, -ETIMEDOUT);
	assert_int_equal(leat_ep_events(p.a, &ev, 1), 1);
	assert_int_equal(ev.type, LEAT_EV_DISCONNECTED);
	fault_pair_close(&p);
}

static void
trace_of(const char *dev, struct trace *t)
{
	fault_test_clock(NULL);
	pair_open(dev, "one");
	run(t, N);
	fault_pair_close(&p);
}

static void
replayed(void **state)
{
	static struct trace first, again, other;

	(void)state;
	trace_of(F_DATAGRAM7, &first);
	trace_of(F_DATAGRAM7, &again);
	assert_memory_equal(&first, &again, sizeof(first));
	assert_true(first.stats.lost > 0);
	assert_true(first.stats.doubled > 0);
	assert_true(first.stats.overtaken > 0);
	assert_int_equal(first.came,
			 N - first.stats.lost - first.stats.failed + first.stats.doubled);
	trace_of(F_DATAGRAM8, &other);
	assert_memory_not_equal(&first, &other, sizeof(first));
}

static void
info(void **state)
{
	struct leat_dev_info low, on;

	(void)state;
	assert_int_equal(leat_dev_info_get(leat_dev_by_name("fabric_ring1"), &low), 0);
	assert_int_equal(low.ep_types, 1u << LEAT_EP_DATAGRAM);
	assert_int_equal(leat_dev_info_get(leat_dev_by_name(F_LOSS), &on), 0);
	assert_int_equal(on.ep_types, low.ep_types);
	assert_int_equal(low.max_msg, SIZE);
	assert_int_equal(on.max_msg, low.max_msg);
	assert_int_equal(on.inline_max, low.inline_max);
	assert_int_equal(leat_dev_info_get(leat_dev_by_name(F_DUP), &on), 0);
	assert_int_equal(on.inline_max, 0);
	assert_int_equal(leat_dev_info_get(leat_dev_by_name(F_OVERTAKE), &on), 0);
	assert_int_equal(on.inline_max, 0);
}

#define CASE(f) cmocka_unit_test_setup(f, fault_test_clock)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(loss),	    CASE(doubled),  CASE(overtaken), CASE(overtaken_alone),
		CASE(disconnected), CASE(replayed), CASE(info),
	};

	return cmocka_run_group_tests(tests, fault_test_start, fault_test_stop);
}
