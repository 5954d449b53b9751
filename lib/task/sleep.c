/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <stdio.h>

#include "task_pvt.h"

struct sleep_wait {
	struct task_wait w;
	struct leat_timer timer;
};

static void
on_timer(struct leat_timer *timer, void *arg, uint64_t now)
{
	struct task_wait *w = arg;

	(void)timer;
	(void)now;
	task_wake(w, 0);
}

static int
sleep_cancel(struct task_wait *w)
{
	leat_timer_stop(&container_of(w, struct sleep_wait, w)->timer);
	task_wake(w, -ECANCELED);
	return 0;
}

static void
sleep_describe(const struct task_wait *w, char *text, size_t len)
{
	uint64_t when = container_of(w, const struct sleep_wait, w)->timer.node.expiry;
	uint64_t now = leat_now();

	snprintf(text, len, "(%" PRIu64 " us left)",
		 when > now ? leat_cycles_to_ns(when - now) / 1000 : 0);
}

static const struct task_wait_type sleep_type = {
	.name = "sleep",
	.cancel = sleep_cancel,
	.describe = sleep_describe,
};

int
leat_task_sleep_until(uint64_t when)
{
	struct sleep_wait s;
	int ret;

	ret = task_may_wait("sleep");
	if (unlikely(ret < 0))
		return ret;
	task_wait_init(&s.w, &sleep_type);
	leat_timer_init(&s.timer, on_timer, &s.w);
	leat_timer_start_at(task_running->reactor, &s.timer, when);
	return task_park(&s.w);
}

int
leat_task_sleep(uint64_t us)
{
	return leat_task_sleep_until(leat_time_add(leat_now(), leat_us_to_cycles(us)));
}
