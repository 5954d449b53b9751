/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A request with a time-out as three branches of one scope: a timer, a receive and a send. Each
 * branch may cancel the other two.
 *
 *	make && ./request
 *	./request --vdev=fabric_ring0 --vdev=fabric_fault0,lower=fabric_ring0,error=0.05
 *
 *     request ---- leat_scope_wait() --+-- timer     expires: cancels the others
 *                                      |-- receive   answered or failed: cancels the others
 *                                      `-- send      failed: cancels the others; sent: just ends
 *
 * A branch that cancels need not know what the other branches are doing, or whether they are
 * cancelled already. When leat_scope_wait() returns, all branches have ended, and their buffers may
 * be used for the next request.
 */

#include <errno.h>
#include <stdio.h>

#include "talk.h"

static unsigned int answered, timed_out, failed;

static int
timer(void *arg)
{
	int ret = leat_task_sleep(TIMER_US);

	(void)arg;
	if (ret == 0)
		leat_scope_break(-ETIMEDOUT);
	return ret;
}

static int
receive(void *arg)
{
	const uint64_t *id = (const uint64_t *)arg;
	int ret;

	/* Drop late answers, to requests that had timed out. */
	do
		ret = talk_receive(&client);
	while (ret == 0 && client.in.id != *id);
	leat_scope_break(ret);
}

static int
send(void *arg)
{
	int ret;

	client.out.id = *(const uint64_t *)arg;
	ret = talk_send(&client);
	if (ret < 0)
		leat_scope_break(ret);
	return ret;
}

static int
request(uint64_t id)
{
	struct leat_scope s;
	int received, ret;

	leat_scope_init(&s);
	leat_scope_branch(&s, "timer", timer, NULL, NULL);
	leat_scope_branch(&s, "receive", receive, &id, &received);
	leat_scope_branch(&s, "send", send, &id, NULL);
	ret = leat_scope_wait(&s);
	if (ret < 0)
		return ret;
	/* An answer counts even if the timer expired in the same turn. */
	return received == 0 ? 0 : leat_scope_failure(&s, NULL);
}

static int
requests(void *arg)
{
	uint64_t id;

	(void)arg;
	for (id = 1; id <= REQUESTS; id++) {
		int ret = request(id);

		if (ret == 0)
			answered++;
		else if (ret == -ETIMEDOUT)
			timed_out++;
		else
			failed++;
	}
	printf("%u requests: %u answered, %u timed out, %u failed\n", REQUESTS, answered, timed_out,
	       failed);
	return answered > 0 ? 0 : -EIO;
}

int
main(int argc, char **argv)
{
	return talk_run(argc, argv, requests);
}
