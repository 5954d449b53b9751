/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A retry loop: race a timer against a function that communicates, until there is an answer.
 *
 *	make && ./retry
 *	./retry --vdev=fabric_ring0 --vdev=fabric_fault0,lower=fabric_ring0,error=0.05
 *
 *     while (no answer)
 *         leat_scope_wait() --+-- timer         expires: cancels communicate and its branches
 *                             `-- communicate   done: cancels the timer
 *                                    |
 *                                    `- do_communication -- leat_scope_wait() --+-- receive
 *                                                                               `-- send
 *
 * A send that fails cancels the receive. Send and receive have a scope of their own, in
 * do_communication(), because both must have ended before the timer is cancelled. The timer's
 * cancel reaches that inner scope through its parent. The cancel does not outlive the outer scope:
 * each round begins with a new scope.
 */

#include <errno.h>
#include <stdio.h>

#include "talk.h"

#define TRIES 20U

static unsigned int rounds;

static int
receive(void *arg)
{
	const uint64_t *id = (const uint64_t *)arg;
	int ret;

	do
		ret = talk_receive(&client);
	while (ret == 0 && client.in.id != *id);
	return ret;
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
do_communication(uint64_t *id)
{
	struct leat_scope s;
	int received, sent;

	leat_scope_init(&s);
	leat_scope_branch(&s, "receive", receive, id, &received);
	leat_scope_branch(&s, "send", send, id, &sent);
	leat_scope_wait(&s);
	return sent < 0 ? sent : received;
}

static int
timer(void *arg)
{
	int ret = leat_task_sleep(TIMER_US);

	(void)arg;
	leat_scope_break(ret);
}

static int
communicate(void *arg)
{
	int ret = do_communication((uint64_t *)arg);

	leat_scope_break(ret);
}

/* Ask until answered. Each try has a new id: the server never answers certain ids. */
static int
request(uint64_t *id)
{
	struct leat_scope s;
	unsigned int tries;
	int ret = -ETIMEDOUT;

	for (tries = 0; tries < TRIES && ret != 0; tries++) {
		++*id;
		rounds++;
		leat_scope_init(&s);
		leat_scope_branch(&s, "timer", timer, NULL, NULL);
		leat_scope_branch(&s, "communicate", communicate, id, &ret);
		leat_scope_wait(&s);
	}
	return ret;
}

static int
requests(void *arg)
{
	unsigned int i, answered = 0;
	uint64_t id = 0;

	(void)arg;
	for (i = 0; i < REQUESTS; i++)
		answered += request(&id) == 0;
	printf("%u requests: %u answered, in %u rounds\n", REQUESTS, answered, rounds);
	return answered == REQUESTS ? 0 : -ETIMEDOUT;
}

int
main(int argc, char **argv)
{
	return talk_run(argc, argv, requests);
}
