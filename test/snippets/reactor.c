/* SPDX-License-Identifier: BSD-3-Clause */

/* Code of doc/guide/reactor.md: a reactor on the second lcore, seen and stopped from the first. */

/* clang-format off */

#include <sched.h>

#include <rte_lcore.h>

#include <leat_fabric.h>
#include <leat_poller.h>
#include <leat_reactor.h>

#include "snippets.h"

static unsigned int polled, shut;

static void
on_ops(void *arg, struct leat_ep *ep, struct leat_op **ops, uint16_t n, uint64_t now)
{
	(void)arg;
	(void)ep;
	(void)ops;
	(void)now;
	/* No op was posted, so none can come back. */
	CHECK(n == 0);
}

static void
on_event(void *arg, struct leat_ep *ep, const struct leat_event *ev)
{
	(void)arg;
	(void)ep;
	if (ev->type == LEAT_EV_SHUTDOWN)
		shut++;
}

static int
app_poll(void *arg, uint64_t now)
{
	(void)now;
	(void)__atomic_add_fetch((unsigned int *)arg, 1, __ATOMIC_RELEASE);
	return 0;
}

static int
report(void *arg, uint64_t now)
{
	(void)arg;
	(void)now;
	printf("a second\n");
	return 1;
}

int
main(int argc, char **argv)
{
	struct leat_ep_conf conf;
	struct leat_reactor *r;
	unsigned int lcore;
	struct leat_ep *ep;
	void *app = &polled;
	int ret;

	CHECK(leat_init(argc, argv) >= 0);
	memset(&conf, 0, sizeof(conf));
	conf.max_peers = 1;
	ep = leat_ep_create(leat_dev_get(0), &conf);
	CHECK(ep != NULL);
	lcore = rte_get_next_lcore(-1, 1, 0);
	CHECK(lcore < RTE_MAX_LCORE);

r = leat_reactor_create(NULL);
leat_reactor_ep_add(r, ep, on_ops, on_event, app);        /* ops and events, by callback */
leat_reactor_poller_add(r, "app", app_poll, app, 0);      /* each turn */
leat_reactor_poller_add(r, "report", report, app, 1000000); /* each second */

leat_reactor_launch(r, lcore);                            /* or leat_reactor_run(r) here */

	while (__atomic_load_n(&polled, __ATOMIC_ACQUIRE) < 1000)
		(void)sched_yield();

leat_reactor_stop(r, 1000000);
ret = leat_reactor_wait(r);
leat_reactor_destroy(r);
leat_ep_destroy(ep);

	CHECK(ret == 0 && shut == 1);
	CHECK(leat_cleanup() == 0);
	printf("stopped\n");
	return 0;
}
