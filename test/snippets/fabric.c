/* SPDX-License-Identifier: BSD-3-Clause */

/* Code of doc/guide/fabric.md: a loop of one's own receives what another endpoint sends. */

/* clang-format off */

#include <leat_fabric.h>

#include "snippets.h"

#define MESSAGES 3

static struct leat_ep *ep, *sender;
static struct leat_op recvs[MESSAGES], sends[MESSAGES];
static bool end;

/* Count the received messages, and leave no op to be posted again. */
static uint16_t
use(struct leat_op **ops, uint16_t n)
{
	static unsigned int received;
	uint16_t i;

	for (i = 0; i < n; i++)
		CHECK(ops[i]->type == LEAT_OP_RECV && ops[i]->status == 0);
	received += n;
	end = received == MESSAGES;
	return 0;
}

static void
on_events(const struct leat_event *ev, uint16_t n)
{
	uint16_t i;

	for (i = 0; i < n; i++) {
		if (ev[i].type == LEAT_EV_CONNECT_REQ)
			CHECK(leat_ep_accept(ep, ev[i].peer, NULL) == 0);
	}
}

/* Drive the sender, in place of a periodic check. */
static bool
time_for_it(void)
{
	struct leat_op *done[MESSAGES];
	struct leat_event ev;
	unsigned int i;

	(void)leat_ep_poll(sender, done, MESSAGES);
	if (leat_ep_events(sender, &ev, 1) == 1 && ev.type == LEAT_EV_CONNECTED) {
		for (i = 0; i < MESSAGES; i++) {
			struct leat_op *op = &sends[i];

			op->type = LEAT_OP_SEND;
			op->peer = ev.peer;
			CHECK(leat_ep_post(sender, &op, 1) == 1);
		}
	}
	return true;
}

int
main(int argc, char **argv)
{
	struct leat_op *done[32];
	struct leat_event ev[8];
	struct leat_dev *dev;
	unsigned int i;
	uint16_t n = 0;
	int ret;

struct leat_ep_conf conf = { .max_peers = 8 };

ret = leat_init(argc, argv);                      /* --vdev=fabric_ring0 -l 0,1 ... */
dev = leat_dev_by_name("fabric_ring0");
ep = leat_ep_create(dev, &conf);
leat_ep_listen(ep, "0.0.0.0:7000");               /* or leat_ep_connect() */

	CHECK(ret >= 0 && ep != NULL);
	sender = leat_ep_create(dev, &conf);
	CHECK(sender != NULL && leat_ep_connect(sender, "0.0.0.0:7000", NULL) >= 0);
	for (i = 0; i < MESSAGES; i++) {
		struct leat_op *op = &recvs[i];

		op->type = LEAT_OP_RECV;
		op->peer = LEAT_PEER_ANY;
		CHECK(leat_ep_post(ep, &op, 1) == 1);
	}

while (!end) {
	n = leat_ep_poll(ep, done, 32);           /* every turn: no system call, no lock */
	n = use(done, n);                         /* received; then: to be posted */
	n = leat_ep_post(ep, done, n);
	if (time_for_it())
		on_events(ev, leat_ep_events(ep, ev, 8)); /* every millisecond or so */
}

	CHECK(n == 0);
	CHECK(leat_ep_close(sender, 1000000, NULL, NULL) == 0);
	CHECK(leat_ep_close(ep, 1000000, NULL, NULL) == 0);
	CHECK(leat_cleanup() == 0);
	printf("%d messages\n", MESSAGES);
	return 0;
}
