/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A hedged request with a deadline. Ask one replica. When it is slow or fails, ask a second replica
 * as well. Take the first answer, and give up at the deadline.
 *
 *	make && ./hedge
 *	./hedge --vdev=fabric_ofi0,provider=tcp
 *
 *     time     0       HEDGE_US                       LIMIT_US
 *     first    |--- ask ------------ cancelled
 *     second           |--- ask ---- answer: the second replica wins
 *
 * ask() is an ordinary function and knows neither the race nor the deadline: a cancel ends the send
 * or receive that it waits for. (The casts from void * let this file compile as C++, too.)
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_errno.h>

#include <leat_app.h>
#include <leat_msg_task.h>
#include <leat_task_race.h>

#define REQUESTS 200U
#define HEDGE_US 2000
#define LIMIT_US 100000
#define DIAL_US 1000000

/* A server. Both replicas run in this program; the first one is slow now and then. */
struct replica {
	unsigned int slow_us; /* extra delay of one request in eight, us */
	struct leat_msg_net *net;
	struct leat_msg_conn *conn; /* the client's connection to it */
};

struct request {
	const struct replica *to;
	uint64_t id;
	uint64_t answer;
};

static struct replica replicas[] = { { 10000, NULL, NULL }, { 0, NULL, NULL } };

/*
 * Send a request to a replica and wait for its answer. Answers to earlier requests, which were
 * cancelled, may still arrive: they are dropped.
 */
static int
ask(void *arg)
{
	struct request *r = (struct request *)arg;
	int ret = leat_msg_task_send(r->to->conn, &r->id, sizeof(r->id));

	while (ret >= 0 && r->answer != r->id)
		ret = leat_msg_task_recv(r->to->conn, &r->answer, sizeof(r->answer));
	return ret;
}

/* Ask both replicas. Returns the index of the replica that answered, or a negative errno. */
static int
hedged(uint64_t id)
{
	struct request r[] = { { &replicas[0], id, 0 }, { &replicas[1], id, 0 } };
	struct leat_task_branch asks[] = {
		{ ask, &r[0], 0, "first", 0 },
		{ ask, &r[1], HEDGE_US, "second", 0 },
	};

	return leat_task_within(LIMIT_US, leat_task_race(asks, 2));
}

/* Serve the replica's one client until the program stops, which cancels this task. */
static int
serve(void *arg)
{
	const struct replica *self = (const struct replica *)arg;
	struct leat_msg_conn *conn;
	uint64_t id;
	int ret = leat_msg_task_accept(self->net, &conn);

	while (ret >= 0) {
		ret = leat_msg_task_recv(conn, &id, sizeof(id));
		if (ret >= 0 && id % 8 == 7)
			ret = leat_task_sleep(self->slow_us);
		if (ret >= 0)
			ret = leat_msg_task_send(conn, &id, sizeof(id));
	}
	return ret;
}

static int
replica_start(struct replica *self, struct leat_msg_net *client)
{
	char address[LEAT_ADDR_MAX];
	int ret;

	self->net = leat_msg_net_open(NULL);
	if (self->net == NULL)
		return -rte_errno;
	ret = leat_msg_task_listen(self->net, "127.0.0.1:0");
	if (ret == 0)
		ret = leat_msg_task_listen_addr(self->net, address, sizeof(address));
	if (ret == 0)
		ret = leat_task_start("replica", serve, self);
	return ret == 0 ? leat_msg_task_dial(client, address, DIAL_US, &self->conn) : ret;
}

/* Run the requests. The nets opened here are closed when the reactor stops. */
static int
start(void *arg)
{
	struct leat_msg_net *client;
	unsigned int won[2] = { 0, 0 }, late = 0;
	uint64_t id;
	int ret;

	(void)arg;
	if (leat_app_index() > 0)
		return 0;
	client = leat_msg_net_open(NULL);
	if (client == NULL)
		return -rte_errno;
	ret = replica_start(&replicas[0], client);
	if (ret == 0)
		ret = replica_start(&replicas[1], client);
	for (id = 1; ret == 0 && id <= REQUESTS; id++) {
		int winner = hedged(id);

		if (winner >= 0)
			won[winner]++;
		else if (winner == -ETIMEDOUT)
			late++;
		else
			ret = winner;
	}
	printf("%u requests: %u answered by the first replica, %u by the second, %u too late\n",
	       REQUESTS, won[0], won[1], late);
	return ret;
}

int
main(int argc, char **argv)
{
	struct leat_app app;

	memset(&app, 0, sizeof(app)); /* the ring device, unless the command line names another */
	app.start = start;
	return leat_app_run(argc, argv, &app);
}
