/* SPDX-License-Identifier: BSD-3-Clause */

/* Common to both adapters: waiting for a stream, and setting hiredis' error codes. */

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <leat_scope.h>
#include <leat_stream_task.h>
#include <leat_time.h>

#include "leat_hiredis.h"

int
leat_redis_wait(struct leat_reactor *r, struct leat_stream *s, uint32_t want, uint64_t timeout_us)
{
	uint64_t until = UINT64_MAX;
	int ret = 0;

	if (leat_reactor_self() != NULL) { /* in a task; in a callback the wait fails */
		if (timeout_us == 0)
			ret = leat_stream_task_wait(s, want);
		else
			ret = leat_task_within(timeout_us, leat_stream_task_wait(s, want));
		return ret < 0 ? ret : 0;
	}
	if (timeout_us != 0)
		until = leat_time_add(leat_now(), leat_us_to_cycles(timeout_us));
	while ((leat_stream_ready(s) & want) == 0) {
		ret = leat_reactor_turn(r);
		if (ret < 0)
			return ret;
		if (leat_now() >= until)
			return -ETIMEDOUT;
		if (ret == 0) /* the server may need this CPU */
			sched_yield();
	}
	return 0;
}

uint64_t
leat_redis_us(const struct timeval *tv, uint64_t none)
{
	uint64_t us;

	if (tv == NULL)
		return none;
	us = (uint64_t)tv->tv_sec * 1000000 + (uint64_t)tv->tv_usec;
	return us > 0 ? us : 1;
}

int
leat_redis_fail(redisContext *c, const struct leat_stream *s, int status)
{
	const char *why = s != NULL ? leat_stream_why(s) : "";

	c->err = REDIS_ERR_IO;
	if (status == 0) {
		c->err = REDIS_ERR_EOF;
		why = "Server closed the connection";
	} else if (*why == '\0') { /* the stream has not ended */
#ifdef REDIS_ERR_TIMEOUT	   /* not in hiredis 0.14 */
		if (status == -ETIMEDOUT)
			c->err = REDIS_ERR_TIMEOUT;
#endif
		why = strerror(-status);
	}
	snprintf(c->errstr, sizeof(c->errstr), "%s", why);
	return -1;
}
