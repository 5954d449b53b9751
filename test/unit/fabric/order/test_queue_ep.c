/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * As test_queue_model.c, but on endpoints of the library: with cancels, deadlines, disconnects and
 * closing. The device can recall some ops; the others end with their connection.
 *
 *     test_fabric_queue_ep [SEED [RUNS]]     repeats runs, e.g. one that failed
 */

#include <stdio.h>
#include <stdlib.h>

#include "leat_cmocka.h"
#include "queue_model.h"

#include <leat_driver.h>
#include <leat_error.h>

#define RUNS 8000
#define STEPS 300

static uint64_t first_seed = 1;
static uint64_t nb_runs = RUNS;

static struct qm m;
static unsigned int nb_disconnect;

/* ---- the driver's functions outside the fast path ---- */

static int
drv_probe(struct leat_dev *dev, const struct rte_kvargs *kv)
{
	(void)dev;
	(void)kv;
	return 0;
}

static void
drv_remove(struct leat_dev *dev)
{
	(void)dev;
}

static void
drv_info(const struct leat_dev *dev, struct leat_dev_info *info)
{
	(void)dev;
	info->ops = LEAT_OP_MASK_ALL;
	info->ep_types = 1u << LEAT_EP_RELIABLE;
	info->max_msg = QM_MAX_MSG;
	info->max_peers = 16;
	info->tx_depth = 64;
	info->tx_depth_max = 65536;
	info->rx_depth = 64;
	info->rx_depth_max = 65536;
	info->directed_recv = true;
}

static int
drv_ep_open(struct leat_ep *ep, const struct leat_ep_conf *conf)
{
	(void)conf;
	ep->drv = &m;
	ep->post = qm_post_fn;
	ep->poll = qm_poll_fn;
	return 0;
}

/* Finish the matching ops, the last one first, so that the layer must put them in order. */
static void
finish_all(uint16_t peer, bool recv_only, int status)
{
	uint32_t i;

	for (i = m.nb_flight; i-- > 0;) {
		struct qm_op *o = &m.ops[m.flight[i]];

		if ((peer == LEAT_PEER_ANY || o->in.peer == peer) && (o->recv || !recv_only))
			qm_finish(&m, m.flight[i], status, 0);
	}
}

static void
drv_ep_quiesce(struct leat_ep *ep)
{
	(void)ep;
	finish_all(LEAT_PEER_ANY, true, -ECANCELED);
}

static void
drv_ep_abort(struct leat_ep *ep)
{
	(void)ep;
	finish_all(LEAT_PEER_ANY, false, -ESHUTDOWN);
}

static void
drv_ep_close(struct leat_ep *ep)
{
	(void)ep;
}

static int
drv_cancel(struct leat_ep *ep, struct leat_op *op)
{
	struct qm_op *o = (struct qm_op *)(void *)op;

	QM_CHECK(&m, ep == m.ep && o->in_flight && !o->cancel);
	/* If the op's deadline asked the device to end the op, that deadline must have passed. */
	if (op->state == LEAT_OP_EXPIRED) {
		QM_CHECK(&m, (o->in.flags & LEAT_OP_F_DEADLINE) != 0 && o->in.deadline <= m.clock);
		o->expired = true;
	}
	if (!o->recallable)
		return -EOPNOTSUPP;
	o->cancel = true;
	if (qm_chance(&m, 30))
		qm_finish(&m, (uint32_t)(o - m.ops), -ECANCELED, 0);
	return 0;
}

static void
drv_progress(struct leat_ep *ep, uint64_t now)
{
	(void)ep;
	(void)now;
}

static int
drv_connect(struct leat_ep *ep, struct leat_peer *peer, const char *addr,
	    const struct leat_conn_params *params)
{
	(void)ep;
	(void)peer;
	(void)addr;
	(void)params;
	return 0;
}

/* Finish the peer's ops. The peer stays UP, as if it had reconnected at once. */
static void
drv_disconnect(struct leat_ep *ep, struct leat_peer *peer, int status, const char *text)
{
	(void)ep;
	(void)text;
	QM_CHECK(&m, status == -ETIMEDOUT);
	nb_disconnect++;
	finish_all(peer->id, false, status);
}

static const struct leat_driver_arg no_args[] = { { NULL, NULL, NULL, NULL } };

static const struct leat_driver model_driver = {
	.name = "fabric_model",
	.description = "completes ops at random",
	.args = no_args,
	.probe = drv_probe,
	.remove = drv_remove,
	.info = drv_info,
	.ep_open = drv_ep_open,
	.ep_quiesce = drv_ep_quiesce,
	.ep_abort = drv_ep_abort,
	.ep_close = drv_ep_close,
	.cancel = drv_cancel,
	.progress = drv_progress,
	.connect = drv_connect,
	.disconnect = drv_disconnect,
};
LEAT_DRIVER_REGISTER(model_driver)

/* ---- steps and checks ---- */

static void
do_cancel(void)
{
	struct qm_op *o = &m.ops[qm_below(&m, m.conf.nb_ops)];
	uint64_t cancelled = m.ep->stats.cancelled;
	int want = 0, ret;

	if (!o->in_flight)
		want = -ENOENT;
	else if (o->cancel || o->expired)
		want = -EALREADY;
	else if (!o->recallable)
		want = -EOPNOTSUPP;
	ret = leat_op_cancel(m.ep, &o->op);
	QM_CHECK(&m, ret == want);
	QM_CHECK(&m, m.ep->stats.cancelled == cancelled + (ret == 0));
}

static bool
overdue(const struct qm_op *o)
{
	return o->in_flight && !o->expired && (o->in.flags & LEAT_OP_F_DEADLINE) != 0 &&
	       o->in.deadline <= m.clock;
}

/* An op that was cancelled earlier expires without a call to the driver. */
static void
expire_cancelled(void)
{
	uint32_t i;

	for (i = 0; i < m.conf.nb_ops; i++) {
		if (overdue(&m.ops[i]) && m.ops[i].cancel)
			m.ops[i].expired = true;
	}
}

/* Call leat_ep_events() until no op in flight has an expired deadline that went unnoticed. */
static void
do_events(void)
{
	uint64_t expired;
	uint32_t i, before = 0;

	for (i = 0; i < m.conf.nb_ops; i++)
		before += overdue(&m.ops[i]);
	expire_cancelled();
	do {
		expired = m.ep->stats.expired;
		QM_CHECK(&m, leat_ep_events(m.ep, NULL, 0) == 0);
		QM_CHECK(&m, m.ep->stats.expired - expired <= before);
	} while (m.ep->stats.expired != expired);
	for (i = 0; i < m.conf.nb_ops; i++) {
		QM_CHECK(&m, !overdue(&m.ops[i]));
		QM_CHECK(&m, (m.ops[i].op.state == LEAT_OP_EXPIRED) ==
				     (m.ops[i].in_flight && m.ops[i].expired));
	}
}

static void
do_ask(struct qm *model)
{
	if (qm_chance(model, 70))
		do_cancel();
	else
		do_events();
}

static void
make_ep(const struct qm_conf *conf)
{
	const struct leat_ep_conf ep_conf = {
		.ops = LEAT_OP_MASK_ALL & ~LEAT_OP_BIT(LEAT_OP_CMP_SWAP),
		.tx_depth = conf->tx_depth,
		.rx_depth = conf->rx_depth,
		.max_peers = QM_PEERS,
	};
	struct leat_event ev[QM_PEERS];
	struct leat_ep *ep;
	uint16_t i;

	m.clock = conf->clock;
	leat_clock_mock_set(&m.clock);
	ep = leat_ep_create(leat_dev_get(0), &ep_conf);
	assert_non_null(ep);
	for (i = 0; i <= QM_PEERS_UP; i++) {
		assert_int_equal(leat_ep_connect(ep, "model:1", NULL), i);
		leat_peer_up(ep, &ep->peers[i], NULL, 0);
	}
	assert_int_equal(leat_ep_events(ep, ev, QM_PEERS), QM_PEERS_UP + 1);
	leat_peer_closing(ep, &ep->peers[QM_PEERS_UP], -ECONNRESET, "test");
	qm_init(&m, conf, ep);
	m.ask = do_ask;
}

/* Close with ops in flight; all of them come back, in order. */
static void
close_ep(void)
{
	struct leat_event ev = { 0 };
	uint32_t guard;
	uint64_t timeout_us = qm_below(&m, 3);

	QM_CHECK(&m, leat_ep_shutdown(m.ep, timeout_us) == 0);
	QM_CHECK(&m, leat_ep_shutdown(m.ep, timeout_us) == -EALREADY);
	QM_CHECK(&m, m.flight_recv == 0);
	for (guard = 0;; guard++) {
		QM_CHECK(&m, guard < 100000);
		expire_cancelled();
		if (leat_ep_events(m.ep, &ev, 1) == 1)
			break;
		m.clock += qm_below(&m, 1000);
		qm_do_poll(&m, m.conf.burst_max, qm_below(&m, 2), true);
	}
	QM_CHECK(&m, ev.type == LEAT_EV_SHUTDOWN && m.nb_flight == 0);
	for (guard = 0; m.ep->nb_ready > 0; guard++) {
		QM_CHECK(&m, guard <= m.conf.nb_ops);
		QM_CHECK(&m, leat_ep_destroy(m.ep) == -EBUSY);
		qm_do_poll(&m, m.conf.burst_max, 0, true);
	}
	qm_drain(&m);
	QM_CHECK(&m, leat_ep_destroy(m.ep) == 0);
}

static void
test_random_runs(void **state)
{
	static const uint32_t windows[] = { 1, 2, 5, 16, 64, 300, 1000 };
	uint64_t seed, i, disconnects = 0;

	(void)state;
	for (seed = first_seed; seed < first_seed + nb_runs; seed++) {
		struct qm pick = { .rng = seed * UINT64_C(0xda942042e4dd58b5) | 1 };
		struct qm_conf conf = { .seed = seed };

		conf.nb_ops = windows[qm_below(&pick, RTE_DIM(windows))];
		conf.tx_depth = 1 + qm_below(&pick, conf.nb_ops);
		conf.rx_depth = 1 + qm_below(&pick, conf.nb_ops);
		conf.burst_max = 1 + qm_below(&pick, 32);
		conf.order = (uint8_t)qm_below(&pick, QM_ORDERS);
		conf.bad = qm_chance(&pick, 30) ? 10 : 0;
		conf.at_once = qm_chance(&pick, 30) ? 20 : 0;
		conf.fail = qm_chance(&pick, 50) ? 15 : 0;
		conf.none = qm_chance(&pick, 30) ? 25 : 0;
		conf.own = qm_chance(&pick, 50) ? 40 : 0;
		conf.deadline = qm_chance(&pick, 70) ? (uint8_t)qm_below(&pick, 101) : 0;
		conf.clock = 1 + qm_below(&pick, 1u << 30);

		make_ep(&conf);
		nb_disconnect = 0;
		for (i = 0; i < STEPS; i++) {
			qm_step(&m);
			qm_check(&m);
		}
		close_ep();
		qm_fini(&m);
		disconnects += nb_disconnect;
	}
	/* In 100 runs or more there must be more than one disconnect per 10 runs. */
	if (nb_runs >= 100)
		assert_true(disconnects > nb_runs / 10);
}

static int
setup(void **state)
{
	static char prog[] = "test", nopci[] = "--no-pci", l[] = "-l", zero[] = "0",
		    quiet[] = "--log-level=leat.*:error", dev[] = "--vdev=fabric_model0";
	char *argv[] = { prog, nopci, l, zero, quiet, dev, NULL };

	(void)state;
	if (leat_init(6, argv) < 0) {
		print_error("%s\n", leat_err_msg());
		return -1;
	}
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	leat_clock_mock_set(NULL);
	return leat_cleanup();
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_runs),
	};

	if (argc > 1) {
		first_seed = strtoull(argv[1], NULL, 0);
		nb_runs = 1;
	}
	if (argc > 2)
		nb_runs = strtoull(argv[2], NULL, 0);
	return cmocka_run_group_tests_name("fabric queue ep", tests, setup, teardown);
}
