/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The ordering layer against its model, with random completion orders, failures, refusals and
 * polls: thousands of short runs, then a few with large windows.
 *
 *     test_fabric_queue_model [SEED [RUNS]]     repeats runs, e.g. one that failed
 */

#include <stdio.h>
#include <stdlib.h>

#include "leat_cmocka.h"
#include "queue_model.h"

#define RUNS 20000
#define STEPS 300

static uint64_t first_seed = 1;
static uint64_t nb_runs = RUNS;

/* Derive a run's parameters from its seed. */
static void
random_conf(struct qm_conf *c, uint64_t seed)
{
	static const uint32_t windows[] = { 1, 2, 3, 8, 31, 64, 257, 1024 };
	struct qm pick = { .rng = seed * UINT64_C(0xda942042e4dd58b5) | 1 };

	memset(c, 0, sizeof(*c));
	c->seed = seed;
	c->nb_ops = windows[qm_below(&pick, RTE_DIM(windows))];
	c->tx_depth = 1 + qm_below(&pick, qm_chance(&pick, 50) ? c->nb_ops : 8);
	c->rx_depth = 1 + qm_below(&pick, qm_chance(&pick, 50) ? c->nb_ops : 8);
	c->burst_max = 1 + qm_below(&pick, qm_chance(&pick, 50) ? 32 : 4);
	c->order = (uint8_t)qm_below(&pick, QM_ORDERS);
	c->bad = qm_chance(&pick, 50) ? 10 : 0;
	c->at_once = qm_chance(&pick, 50) ? 20 : 0;
	c->fail = qm_chance(&pick, 50) ? 15 : 0;
	c->none = qm_chance(&pick, 50) ? 25 : 0;
	c->own = qm_chance(&pick, 50) ? 40 : 0;
	c->one_queue = c->bad == 0 && qm_chance(&pick, 25);
	/* Some runs begin shortly before the 32 bits of held_since, or the counters, wrap. */
	c->clock = 1 + qm_below(&pick, 1000);
	if (qm_chance(&pick, 30))
		c->clock = (UINT64_C(1) << (32 + LEAT_QUEUE_HOLD_SHIFT)) - 1 -
			   qm_below(&pick, 1u << 20);
	if (qm_chance(&pick, 30))
		c->counters = UINT64_MAX - qm_below(&pick, 200);
}

static void
run(const struct qm_conf *conf, uint32_t steps)
{
	static struct qm_fake_ep fake;
	static struct qm m;
	uint32_t i;

	qm_fake_ep_init(&fake, conf, &m);
	qm_init(&m, conf, &fake.ep);
	for (i = 0; i < steps; i++) {
		qm_step(&m);
		qm_check(&m);
	}
	qm_drain(&m);
	qm_fini(&m);
}

static void
test_random_runs(void **state)
{
	struct qm_conf conf;
	uint64_t seed;

	(void)state;
	for (seed = first_seed; seed < first_seed + nb_runs; seed++) {
		random_conf(&conf, seed);
		run(&conf, STEPS);
	}
}

/* Windows of 64 Ki ops: all are posted, then complete in each kind of order. */
static void
test_large_windows(void **state)
{
	static struct qm_fake_ep fake;
	static struct qm m;
	struct qm_conf conf = {
		.nb_ops = 65536,
		.tx_depth = 65536,
		.rx_depth = 65536,
		.burst_max = 512,
		.counters = UINT64_MAX - 1000,
	};
	unsigned int order;
	bool one;

	(void)state;
	for (order = 0; order < QM_ORDERS; order++) {
		for (one = false;; one = true) {
			conf.seed = 1 + order;
			conf.order = (uint8_t)order;
			conf.one_queue = one;
			conf.clock = (UINT64_C(1) << (32 + LEAT_QUEUE_HOLD_SHIFT)) - 1000;
			qm_fake_ep_init(&fake, &conf, &m);
			qm_init(&m, &conf, &fake.ep);
			while (m.free.head != m.free.tail)
				qm_do_post(&m, conf.burst_max);
			QM_CHECK(&m, m.nb_flight == conf.nb_ops);
			qm_check(&m);
			while (m.nb_flight > 0) {
				qm_do_tick(&m);
				/* Up to 512 ops complete, and poll has room for 100. */
				qm_do_poll(&m, 100, 512, false);
			}
			qm_check(&m);
			qm_drain(&m);
			qm_fini(&m);
			if (one)
				break;
		}
	}
}

/* The oldest of 64 Ki ops completes last, and all others come back after it, burst by burst. */
static void
test_oldest_last(void **state)
{
	static struct qm_fake_ep fake;
	static struct qm m;
	struct qm_conf conf = {
		.seed = 7,
		.nb_ops = 65536,
		.tx_depth = 65536,
		.rx_depth = 1,
		.burst_max = 1024,
		.one_queue = true,
		.clock = 1,
	};
	uint32_t i, first;

	(void)state;
	qm_fake_ep_init(&fake, &conf, &m);
	qm_init(&m, &conf, &fake.ep);
	while (m.free.head != m.free.tail)
		qm_do_post(&m, conf.burst_max);
	first = m.flight[0];
	for (i = conf.nb_ops - 1; i > 0; i--) {
		m.clock += 1000;
		qm_finish(&m, m.flight[i], 0, 1);
	}
	QM_CHECK(&m, m.queue[0].held_now == conf.nb_ops - 1 && m.ep->nb_ready == 0);
	qm_check(&m);
	/*
	 * The layer has room for more ops meanwhile: the device does not have those that are held
	 * back.
	 */
	QM_CHECK(&m, m.ep->tx_room == conf.tx_depth - 1);
	qm_finish(&m, first, -EIO, 0);
	QM_CHECK(&m, m.ep->nb_ready == conf.nb_ops);
	qm_check(&m);
	qm_drain(&m);
	qm_fini(&m);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_runs),
		cmocka_unit_test(test_large_windows),
		cmocka_unit_test(test_oldest_last),
	};

	if (argc > 1) {
		first_seed = strtoull(argv[1], NULL, 0);
		nb_runs = 1;
	}
	if (argc > 2)
		nb_runs = strtoull(argv[2], NULL, 0);
	return cmocka_run_group_tests_name("fabric queue model", tests, NULL, NULL);
}
