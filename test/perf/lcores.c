/* SPDX-License-Identifier: BSD-3-Clause */

/* See lcores.h. */

#include <stdio.h>
#include <string.h>

#include <rte_launch.h>
#include <rte_lcore.h>

#include <leat_error.h>

#include "lcores.h"

int
lcores_init(struct lcores *l, const struct bench_args *args, const char *device)
{
	static char no_pci[] = "--no-pci", quiet[] = "--log-level=leat.*:warning";
	static char lcores[64], main_lcore[] = "--main-lcore=0", vdev[256];
	char *argv[64];
	int i, ret, n = 0;

	l->cpus[0] = bench_cpu(0);
	l->cpus[1] = bench_cpu(1);
	if (l->cpus[1] < 0)
		bench_skip("needs two CPUs");
	snprintf(lcores, sizeof(lcores), "--lcores=0@%d,1@%d", l->cpus[0], l->cpus[1]);
	snprintf(vdev, sizeof(vdev), "--vdev=%s", device);
	for (i = 0; i < args->argc && n < 50; i++)
		argv[n++] = args->argv[i];
	argv[n++] = lcores;
	argv[n++] = main_lcore;
	argv[n++] = no_pci;
	argv[n++] = quiet;
	argv[n++] = vdev;
	argv[n] = NULL;
	ret = leat_init(n, argv);
	if (ret < 0)
		return ret;
	l->worker = rte_get_next_lcore(-1, 1, 0);
	return 0;
}

/* Drive both endpoints until ep[side] has an event of this type. */
static struct leat_event
expect(struct lcores *l, unsigned int side, enum leat_event_type type)
{
	uint64_t start = bench_ns();
	struct leat_event ev;

	for (;;) {
		(void)leat_ep_poll(l->ep[0], NULL, 0);
		(void)leat_ep_poll(l->ep[1], NULL, 0);
		if (leat_ep_events(l->ep[side], &ev, 1) == 1) {
			if (ev.type != type)
				bench_die("connecting: %s", ev.text);
			return ev;
		}
		(void)leat_ep_events(l->ep[1 - side], NULL, 0);
		if (bench_ns() - start > UINT64_C(10000000000))
			bench_die("connecting: no answer");
		sched_yield();
	}
}

void
lcores_start(struct lcores *l, const struct bench_args *args, const struct leat_ep_conf *conf)
{
	struct leat_dev *dev;
	struct leat_event ev;
	unsigned int i;
	int ret;

	memset(l, 0, sizeof(*l));
	if (lcores_init(l, args, "fabric_ring0") < 0)
		bench_die("%s", leat_err_msg());
	dev = leat_dev_get(0);
	for (i = 0; i < 2; i++) {
		l->ep[i] = leat_ep_create(dev, conf);
		if (l->ep[i] == NULL)
			bench_die("%s", leat_err_msg());
	}
	if (leat_ep_listen(l->ep[1], "bench:1") < 0)
		bench_die("%s", leat_err_msg());
	ret = leat_ep_connect(l->ep[0], "bench:1", NULL);
	if (ret < 0)
		bench_die("%s", leat_err_msg());
	l->peer[0] = (uint16_t)ret;
	ev = expect(l, 1, LEAT_EV_CONNECT_REQ);
	l->peer[1] = ev.peer;
	if (leat_ep_accept(l->ep[1], ev.peer, NULL) < 0)
		bench_die("%s", leat_err_msg());
	(void)expect(l, 1, LEAT_EV_CONNECTED);
	(void)expect(l, 0, LEAT_EV_CONNECTED);
}

static int
second(void *arg)
{
	struct lcores *l = arg;
	struct pair *p = &l->pair;
	uint32_t what;

	bench_thread_ready();
	while ((what = pair_wait(p)) != PAIR_QUIT) {
		l->variants[what].second(p->arg);
		pair_done(p);
	}
	return 0;
}

void
lcores_launch(struct lcores *l, const struct lcores_variant *variants)
{
	l->variants = variants;
	if (rte_eal_remote_launch(second, l, l->worker) < 0)
		bench_die("can't start the second lcore");
}

uint64_t
lcores_run(struct lcores *l, unsigned int variant, uint64_t n, bool both, bool *disturbed)
{
	struct pair *p = &l->pair;
	uint64_t start, ns;

	pair_start(p, variant, n);
	start = bench_ns();
	l->variants[variant].first(n);
	ns = bench_ns() - start;
	*disturbed = pair_end(p);
	return both ? bench_ns() - start : ns;
}

void
lcores_join(struct lcores *l)
{
	pair_start(&l->pair, PAIR_QUIT, 0);
	(void)rte_eal_wait_lcore(l->worker);
}

void
lcores_stop(struct lcores *l)
{
	unsigned int i;

	/* Shut both down before closing one: the end of one is an event for the other. */
	for (i = 0; i < 2; i++)
		(void)leat_ep_shutdown(l->ep[i], 1000);
	for (i = 0; i < 2; i++)
		(void)leat_ep_close(l->ep[i], 100000, NULL, NULL);
	if (leat_cleanup() < 0)
		bench_die("%s", leat_err_msg());
}
