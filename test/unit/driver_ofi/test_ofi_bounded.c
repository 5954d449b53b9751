/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A peer sends messages that no receive matches, over providers that would keep them without a
 * limit. By default the driver makes that peer's sends wait, while another peer's messages still
 * arrive. Two sides with different tags= arguments do not connect.
 */

#include "pair.h"

#define SENDS 400
#define TRIPS 50
/* Messages of one peer that the library keeps at most: doc/guide/tags.md. */
#define WINDOW 16

enum { TCP, SOCKETS, RXD, TCP_TRUSTING, DEVS };

static char vdevs[DEVS][64] = {
	"--vdev=fabric_ofi1,provider=tcp,iface=lo",
	"--vdev=fabric_ofi2,provider=sockets,src=127.0.0.1",
	"--vdev=fabric_ofi3,provider=udp;ofi_rxd,iface=lo",
	"--vdev=fabric_ofi4,provider=tcp,iface=lo,tags=1",
};

static struct node server, guest, bystander;
static struct leat_op floods[SENDS];

static void
turn(void)
{
	node_turn(&server);
	node_turn(&guest);
	node_turn(&bystander);
}

static void
join(struct node *n, struct leat_dev *dev, const char *addr, uint32_t ops)
{
	memset(n, 0, sizeof(*n));
	server.up = false;
	n->ep = ep_open(dev, ops);
	assert_true(leat_ep_connect(n->ep, addr, NULL) >= 0);
}

static unsigned int
sent(void)
{
	unsigned int i, n = 0;

	for (i = 0; i < SENDS; i++)
		n += floods[i].state == LEAT_OP_IDLE;
	return n;
}

/*
 * Let the bystander and the server send each other a message, n times. there: the bystander's id at
 * the server.
 */
static void
talk(uint16_t there, bool tagged, unsigned int n)
{
	uint8_t bufs[4][8] = { { 0 } };
	struct leat_op ops[4];
	unsigned int i, k;

	for (i = 0; i < n; i++) {
		for (k = 0; k < 4; k++) {
			struct node *at = k % 2 == 0 ? &bystander : &server;
			bool recv = k < 2;

			ops[k] = (struct leat_op){
				.type = tagged ? (recv ? LEAT_OP_TRECV : LEAT_OP_TSEND)
					       : (recv ? LEAT_OP_RECV : LEAT_OP_SEND),
				.peer = at == &server ? there : bystander.peer,
				.tag = 7,
				.queue = LEAT_QUEUE_NONE,
				.buf = bufs[k],
				.size = 8,
			};
			struct leat_op *op = &ops[k];

			assert_int_equal(leat_ep_post(at->ep, &op, 1), 1);
		}
		UNTIL(TIMEOUT_US, turn(),
		      op_done(&ops[0]) && op_done(&ops[1]) && op_done(&ops[2]) && op_done(&ops[3]));
		for (k = 0; k < 4; k++)
			assert_int_equal(ops[k].status, 0);
	}
}

static void
flood(unsigned int which, bool tagged)
{
	uint32_t mask = tagged ? LEAT_OP_BIT(LEAT_OP_TSEND) | LEAT_OP_BIT(LEAT_OP_TRECV)
			       : LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV);
	struct leat_dev *dev = leat_dev_get((uint16_t)which);
	struct leat_dev_info info;
	char addr[LEAT_ADDR_MAX];
	static uint8_t word[8];
	unsigned int i, n = 0;
	uint16_t there;

	assert_int_equal(leat_dev_info_for(dev, mask, &info), 0);
	assert_true(info.unexpected_bounded);
	memset(&server, 0, sizeof(server));
	memset(floods, 0, sizeof(floods));
	server.ep = ep_open(dev, mask);
	assert_int_equal(leat_ep_listen(server.ep, "127.0.0.1:0"), 0);
	assert_int_equal(leat_ep_listen_addr(server.ep, addr, sizeof(addr)), 0);
	join(&bystander, dev, addr, mask);
	guest.ep = ep_open(dev, mask);
	UNTIL(TIMEOUT_US, turn(), bystander.up && server.up);
	there = server.peer;
	(void)leat_ep_close(guest.ep, 0, NULL, NULL);
	join(&guest, dev, addr, mask);
	UNTIL(TIMEOUT_US, turn(), guest.up && server.up);
	for (i = 0; i < SENDS; i++) {
		struct leat_op *op = &floods[i];

		floods[i] = (struct leat_op){ .type = tagged ? LEAT_OP_TSEND : LEAT_OP_SEND,
					      .peer = guest.peer,
					      .tag = 1000 + i,
					      .queue = LEAT_QUEUE_NONE,
					      .buf = word,
					      .size = sizeof(word) };
		/* The guest's device accepts no op beyond its depth. */
		if (leat_ep_post(guest.ep, &op, 1) == 0)
			break;
		n++;
	}
	assert_true(n > 4 * WINDOW);
	/*
	 * Skip this for untagged messages: the receives of talk() would match messages of the
	 * guest.
	 */
	if (tagged)
		talk(there, tagged, TRIPS);
	for (i = 0; i < 2000; i++)
		turn();
	assert_in_range(sent(), SENDS - n, SENDS - n + WINDOW);
	assert_int_equal(leat_ep_peer_state(guest.ep, guest.peer), LEAT_PEER_UP);
	/* The guest closes: its unreceived messages are dropped; talk() receives none of them. */
	(void)leat_ep_close(guest.ep, 0, NULL, NULL);
	guest.ep = ep_open(dev, mask);
	server.down = 1;
	UNTIL(TIMEOUT_US, turn(), server.down != 1);
	talk(there, tagged, TRIPS);
	(void)leat_ep_close(guest.ep, 0, NULL, NULL);
	(void)leat_ep_close(bystander.ep, 100000, NULL, NULL);
	(void)leat_ep_close(server.ep, 100000, NULL, NULL);
}

static void
test_tcp_tagged(void **state)
{
	(void)state;
	flood(TCP, true);
}

static void
test_tcp_plain(void **state)
{
	(void)state;
	flood(TCP, false);
}

static void
test_sockets(void **state)
{
	(void)state;
	flood(SOCKETS, true);
}

static void
test_rxd(void **state)
{
	(void)state;
	flood(RXD, true);
}

/* Sides that differ in tags= do not connect, and the connector's event says what to do. */
static void
mismatch(unsigned int here, unsigned int there)
{
	uint32_t mask = LEAT_OP_BIT(LEAT_OP_TSEND) | LEAT_OP_BIT(LEAT_OP_TRECV);
	struct leat_event ev = { .type = LEAT_EV_SHUTDOWN };
	struct leat_ep *a, *b;
	char addr[LEAT_ADDR_MAX];
	uint64_t end;

	a = ep_open(leat_dev_get((uint16_t)here), mask);
	b = ep_open(leat_dev_get((uint16_t)there), mask);
	assert_int_equal(leat_ep_listen(b, "127.0.0.1:0"), 0);
	assert_int_equal(leat_ep_listen_addr(b, addr, sizeof(addr)), 0);
	assert_true(leat_ep_connect(a, addr, NULL) >= 0);
	end = leat_now() + leat_us_to_cycles(TIMEOUT_US);
	while (leat_ep_events(a, &ev, 1) == 0) {
		struct leat_event other;

		assert_int_equal(leat_ep_events(b, &other, 1), 0);
		if (leat_now() > end)
			fail_msg("no event");
	}
	assert_int_equal(ev.type, LEAT_EV_CONNECT_FAILED);
	if (strstr(ev.text, "the same tags=") == NULL)
		fail_msg("'%s'", ev.text);
	(void)leat_ep_close(a, 0, NULL, NULL);
	(void)leat_ep_close(b, 0, NULL, NULL);
}

static void
test_mismatch(void **state)
{
	(void)state;
	mismatch(TCP, TCP_TRUSTING);
	mismatch(TCP_TRUSTING, TCP);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tcp_tagged), cmocka_unit_test(test_tcp_plain),
		cmocka_unit_test(test_sockets),	   cmocka_unit_test(test_rxd),
		cmocka_unit_test(test_mismatch),
	};
	char *args[64];
	int i, n = 0;

	/* EAL gets this program's arguments, which name the plugins. */
	for (i = 0; i < argc && i < 50; i++)
		args[n++] = argv[i];
	for (i = 0; i < DEVS; i++)
		args[n++] = vdevs[i];
	args[n] = NULL;
	if (leat_init(n, args) < 0) {
		fprintf(stderr, "leat_init: %s\n", leat_err_msg());
		return 1;
	}
	i = cmocka_run_group_tests(tests, NULL, NULL);
	return leat_cleanup() < 0 ? 1 : i;
}
