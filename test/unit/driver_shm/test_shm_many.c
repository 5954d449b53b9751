/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A thousand connections between two endpoints of shared memory: each carries messages, a poll of
 * many silent connections costs little more than a poll of few, and all resources are released.
 */

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <rte_cycles.h>
#include <rte_malloc.h>

#include <leat_error.h>
#include <leat_fabric.h>

#include "leat_cmocka.h"
#include "own_process.h"

#define DEVICE "fabric_shm0"
#define MANY 1000
#define ROUNDS 64 /* polls within which an endpoint has looked at all silent connections */
#define PATIENCE 20000000

static struct leat_ep *server, *client;
static uint16_t peers[MANY]; /* the client's peer ids */
static uint32_t nb_up, nb_down;

static void
events(struct leat_ep *ep)
{
	struct leat_event ev[16];
	uint16_t i, n = leat_ep_events(ep, ev, RTE_DIM(ev));

	for (i = 0; i < n; i++) {
		if (ev[i].type == LEAT_EV_CONNECT_REQ)
			assert_int_equal(leat_ep_accept(ep, ev[i].peer, NULL), 0);
		else if (ev[i].type == LEAT_EV_CONNECTED)
			nb_up++;
		else if (ev[i].type == LEAT_EV_DISCONNECTED)
			nb_down++;
		else
			fail_msg("%s", ev[i].text);
	}
}

static void
turn(void)
{
	(void)leat_ep_poll(server, NULL, 0);
	events(server);
	(void)leat_ep_poll(client, NULL, 0);
	events(client);
}

static struct leat_ep *
endpoint(void)
{
	const struct leat_ep_conf conf = { .max_peers = MANY + 24, .tx_depth = 16 };
	struct leat_ep *ep = leat_ep_create(leat_dev_by_name(DEVICE), &conf);

	assert_non_null(ep);
	return ep;
}

/* Send one message over each connection, in steps of 377 connections from a random one on. */
static void
exchange(uint64_t *random)
{
	struct leat_op *recvs = calloc(MANY, sizeof(*recvs)), *sends = calloc(MANY, sizeof(*sends));
	uint64_t *bufs = calloc(2 * MANY, sizeof(*bufs)), sum = 0;
	uint32_t i, k, got = 0, back = 0, n;
	struct leat_op *done[32], *p;

	assert_non_null(recvs);
	assert_non_null(sends);
	assert_non_null(bufs);
	for (i = 0; i < MANY; i++) {
		recvs[i] = (struct leat_op){ .type = LEAT_OP_RECV,
					     .peer = LEAT_PEER_ANY,
					     .buf = &bufs[i],
					     .size = sizeof(bufs[i]) };
		p = &recvs[i];
		assert_int_equal(leat_ep_post(server, &p, 1), 1);
	}
	k = (uint32_t)(test_random(random) % MANY);
	for (i = 0; i < MANY; i++, k = (k + 377) % MANY) {
		bufs[MANY + i] = i + 1;
		sends[i] = (struct leat_op){ .type = LEAT_OP_SEND,
					     .peer = peers[k],
					     .buf = &bufs[MANY + i],
					     .size = sizeof(bufs[i]) };
		p = &sends[i];
		assert_int_equal(leat_ep_post(client, &p, 1), 1);
	}
	for (i = 0; i < PATIENCE && (got < MANY || back < MANY); i++) {
		n = leat_ep_poll(server, done, RTE_DIM(done));
		got += n;
		while (n-- > 0) {
			assert_int_equal(done[n]->status, 0);
			sum += *(uint64_t *)done[n]->buf;
		}
		back += leat_ep_poll(client, done, RTE_DIM(done));
	}
	assert_int_equal(got, MANY);
	assert_int_equal(back, MANY);
	assert_int_equal(sum, (uint64_t)MANY * (MANY + 1) / 2);
	free(recvs);
	free(sends);
	free(bufs);
}

static void
connect_to(uint32_t n)
{
	uint32_t i;
	int ret;

	for (i = nb_up / 2; i < n; i++) {
		ret = leat_ep_connect(client, "shm:many", NULL);
		assert_true(ret >= 0);
		peers[i] = (uint16_t)ret;
		/* Connect a few at a time: a listener's queue is short. */
		while (nb_up < 2 * (i + 1)) {
			turn();
			sched_yield();
		}
	}
}

/* @return cycles of a poll that finds nothing: the smallest of many measurements */
static uint64_t
idle_poll(void)
{
	uint64_t start, least = UINT64_MAX;
	unsigned int i, k;

	for (i = 0; i < 1000; i++) {
		start = rte_rdtsc();
		for (k = 0; k < ROUNDS; k++)
			(void)leat_ep_poll(server, NULL, 0);
		least = RTE_MIN(least, rte_rdtsc() - start);
	}
	return least / ROUNDS;
}

static void
test_many(void **state)
{
	const unsigned int mapped = own_mappings();
	uint64_t few, many, random = 7;
	uint32_t i;

	(void)state;
	server = endpoint();
	client = endpoint();
	assert_int_equal(leat_ep_listen(server, "shm:many"), 0);
	connect_to(20);
	for (i = 0; i < 1000; i++)
		turn();
	few = idle_poll();
	connect_to(MANY);
	for (i = 0; i < 1000; i++)
		turn();
	many = idle_poll();
	print_message("an idle poll: %u cycles with 20 connections, %u with %u\n",
		      (unsigned int)few, (unsigned int)many, MANY);
	/*
	 * There are 50 times as many connections as before, but a poll takes less than 4 times as
	 * long, plus 200 cycles. The smallest of many measurements hardly depends on how busy the
	 * machine is.
	 */
	assert_true(many < 4 * few + 200);
	for (i = 0; i < 8; i++)
		exchange(&random);
	for (i = 0; i < MANY / 2; i++)
		assert_int_equal(leat_ep_disconnect(client, peers[i]), 0);
	for (i = 0; i < PATIENCE && nb_down < MANY; i++)
		turn();
	assert_int_equal(nb_down, MANY);
	assert_int_equal(leat_ep_close(client, 0, NULL, NULL), 0);
	for (i = 0; i < PATIENCE && nb_down < MANY + MANY / 2; i++)
		events(server);
	assert_int_equal(nb_down, MANY + MANY / 2);
	assert_int_equal(leat_ep_close(server, 0, NULL, NULL), 0);
	assert_true(own_mappings() <= mapped + 8);
}

int
main(int argc, char **argv)
{
	static char pci[] = "--no-pci", log[] = "--log-level=leat.*:error", huge[] = "--no-huge",
		    m[] = "-m", mib[] = "64", tel[] = "--no-telemetry",
		    dev[] = "--vdev=" DEVICE ",share=1,dir=@leat-many,segment=65536";
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_many) };
	struct rlimit files;
	char *eal[64];
	int i, ret, n = 0;

	/* Each side of a connection takes two descriptors. */
	if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_max < 8192) {
		printf("needs 8192 descriptors (ulimit -Hn)\n");
		return 77;
	}
	files.rlim_cur = 8192;
	if (setrlimit(RLIMIT_NOFILE, &files) != 0)
		return 1;
	for (i = 0; i < argc && n < 50; i++)
		eal[n++] = argv[i];
	eal[n++] = pci;
	eal[n++] = tel;
	eal[n++] = log;
	eal[n++] = huge;
	eal[n++] = m;
	eal[n++] = mib;
	eal[n++] = dev;
	eal[n] = NULL;
	if (leat_init(n, eal) < 0) {
		print_error("leat_init: %s\n", leat_err_msg());
		return 1;
	}
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	return leat_cleanup() < 0 ? 1 : ret;
}
