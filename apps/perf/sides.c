/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Which side runs on which lcore. A side is a loop that runs as the only task of its lcore and
 * never returns to the reactor: nothing runs between two of its polls. An lcore that has no side
 * has a reactor that blocks.
 *
 *     --listen     server on the main lcore
 *     --connect    client on the last lcore
 *     --self       client on the main lcore, server on the last one; with one lcore the server is
 *                  a thread on the same CPU
 */

#include <pthread.h>
#include <string.h>

#include <leat_app.h>
#include <leat_dev.h>

#include "sides.h"
#include "side.h"

static struct leat_dev *
choose_device(const struct perf_options *o)
{
	struct leat_dev *dev;

	if (leat_dev_count() == 0) {
		perf_msg("no device: name one with --vdev, such as --vdev=fabric_ring0 "
			 "(--list-devices, --list-drivers)");
		return NULL;
	}
	if (o->dev == NULL)
		return leat_dev_get(0);
	dev = leat_dev_by_name(o->dev);
	if (dev == NULL)
		perf_msg("--dev %s: no such device (--list-devices)", o->dev);
	return dev;
}

static bool
in_one_process_only(struct leat_dev *dev)
{
	struct leat_dev_info info;

	return leat_dev_info_get(dev, &info) == 0 && info.one_process;
}

int
perf_sides_begin(struct perf_sides *r)
{
	r->dev = choose_device(&r->o);
	if (r->dev == NULL)
		return -ENODEV;
	if (r->o.role != PERF_SELF && in_one_process_only(r->dev)) {
		perf_msg("%s connects endpoints of one process only: use --self, or another "
			 "device",
			 leat_dev_name(r->dev));
		return -EINVAL;
	}
	if (r->o.role == PERF_LISTEN && r->o.client_only != NULL)
		perf_msg("--%s is ignored: only the connecting side decides it", r->o.client_only);
	return 0;
}

static void
self_server(struct perf_sides *r)
{
	r->server_code = perf_server(&r->o, r->dev, &r->self);
	__atomic_store_n(&r->self.state, 2, __ATOMIC_RELEASE);
}

static void *
self_server_thread(void *arg)
{
	self_server(arg);
	return NULL;
}

static void
self_client(struct perf_sides *r)
{
	int state;

	while ((state = __atomic_load_n(&r->self.state, __ATOMIC_ACQUIRE)) == 0)
		perf_nap();
	/* 2: the server failed, and printed why. */
	r->client_code = state == 2 ? PERF_EXIT_FAILED
				    : perf_client(&r->o, r->dev, r->self.addr, &r->start);
	r->self.quit = 1;
}

static void
self_on_one_lcore(struct perf_sides *r)
{
	pthread_t tid;
	/* The new thread inherits this thread's CPU affinity. */
	int err = pthread_create(&tid, NULL, self_server_thread, r);

	if (err != 0) {
		perf_msg("the listening side did not start: %s", strerror(err));
		r->client_code = PERF_EXIT_FAILED;
		return;
	}
	self_client(r);
	(void)pthread_join(tid, NULL);
}

void
perf_sides_lcore(struct perf_sides *r)
{
	bool main = leat_app_index() == 0;
	bool last = leat_app_index() + 1 == (int)leat_app_count();

	switch (r->o.role) {
	case PERF_LISTEN:
		if (main)
			r->server_code = perf_server(&r->o, r->dev, NULL);
		break;
	case PERF_CONNECT:
		if (last)
			r->client_code = perf_client(&r->o, r->dev, r->o.addr, &r->start);
		break;
	default:
		if (main && last)
			self_on_one_lcore(r);
		else if (main)
			self_client(r);
		else if (last)
			self_server(r);
		break;
	}
}

int
perf_sides_code(const struct perf_sides *r)
{
	return r->client_code != PERF_EXIT_OK ? r->client_code : r->server_code;
}
