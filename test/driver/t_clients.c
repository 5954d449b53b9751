/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Clients come one after another to one server, and send as soon as they are connected: their
 * messages wait at the server for receives, among messages that earlier clients left behind.
 */

#include "ct.h"

#define CLIENTS 5
#define FLOWS 4
#define EACH 8 /* messages of a flow: FLOWS * EACH are in flight */
#define LEFT 3 /* messages that the server never receives */

static struct ct_spec
flow(unsigned int client, unsigned int nr, bool answer)
{
	return (struct ct_spec){
		.count = EACH,
		.size = nr == 0 ? 1 : 100 * nr,
		.size_max = nr == 0 ? 64 : 3000 * nr,
		.seed = 1000 * client + 100 * answer + nr + 1,
		.tag = (UINT64_C(1) << (32 + nr)) + nr,
		.peer = LEAT_PEER_ANY,
		.queue = CT_Q_NONE,
		.check = CT_DATA,
	};
}

static void
send_flows(struct ct_side *from, uint16_t peer, unsigned int client, bool answer, int *tx)
{
	unsigned int i;

	for (i = 0; i < FLOWS; i++) {
		struct ct_spec s = flow(client, i, answer);

		s.type = LEAT_OP_TSEND;
		s.peer = peer;
		tx[i] = ct_stream(from, &s);
	}
}

/*
 * Post the receives of the last flow first: a device that matches a message to the oldest receive,
 * or a receive to the oldest message, whatever the tags, then fails.
 */
static void
recv_flows(struct ct_side *to, uint16_t peer, unsigned int client, bool answer, int *rx)
{
	unsigned int i;

	for (i = FLOWS; i-- > 0;) {
		struct ct_spec s = flow(client, i, answer);

		s.type = LEAT_OP_TRECV;
		s.peer = peer;
		s.check |= CT_TAG;
		rx[i] = ct_stream(to, &s);
	}
}

static void
wait_flows(struct ct_side *side, const int *streams)
{
	unsigned int i;

	for (i = 0; i < FLOWS; i++)
		ct_wait_ok(side, streams[i], EACH);
}

/* The client disconnects before the server has received its messages. */
static void
leave(struct ct_side *client, uint16_t peer)
{
	struct ct_spec s = flow(0, 0, false);
	struct ct_result res;
	int tx;

	s.type = LEAT_OP_TSEND;
	s.count = LEFT;
	s.peer = peer;
	s.seed = 666;
	tx = ct_stream(client, &s);
	ct_wait_posted(client, tx, LEFT);
	CT_EQ(ct_disconnect(client, peer), 0, "disconnect");
	ct_event(client, LEAT_EV_DISCONNECTED, peer, NULL);
	ct_wait(client, tx, LEFT, &res);
}

static void
serve(struct ct_side *server, const char *addr, unsigned int nr, bool leaves)
{
	const uint16_t from = ct.info.directed_recv && nr % 3 == 2;
	int tx[FLOWS], rx[FLOWS], back_tx[FLOWS], back_rx[FLOWS];
	struct ct_side client = ct_far(0);
	struct leat_event ev;
	uint16_t here;
	int peer;

	ct_open(&client, NULL);
	peer = ct_try_connect(&client, addr, NULL, 0, 0, 0);
	CT_CHECK(peer >= 0, "connect: %s", ct_err_text());
	ct_event(&client, LEAT_EV_CONNECTED, (uint16_t)peer, NULL);
	send_flows(&client, (uint16_t)peer, nr, false, tx);
	ct_event(server, LEAT_EV_CONNECTED, LEAT_PEER_ANY, &ev);
	here = ev.peer;
	/*
	 * In even rounds the messages arrive before their receives are posted; in odd rounds they
	 * arrive while the receives are being posted.
	 */
	if (nr % 2 == 0)
		ct_pump_us(2000);
	recv_flows(server, from ? here : LEAT_PEER_ANY, nr, false, rx);
	send_flows(server, here, nr, true, back_tx);
	if (nr % 2 == 0)
		ct_pump_us(2000);
	recv_flows(&client, from ? (uint16_t)peer : LEAT_PEER_ANY, nr, true, back_rx);
	wait_flows(server, rx);
	wait_flows(&client, tx);
	wait_flows(&client, back_rx);
	wait_flows(server, back_tx);
	if (leaves)
		leave(&client, (uint16_t)peer);
	ct_finish(&client);
	ct_event(server, LEAT_EV_DISCONNECTED, here, NULL);
	ct_wait_free(server, here);
}

static void
serve_all(bool leave_some)
{
	struct ct_side server = ct_near(0);
	char addr[LEAT_ADDR_MAX];
	unsigned int i;

	ct_open(&server, NULL);
	ct_listen(&server, addr);
	for (i = 0; i < CLIENTS; i++)
		serve(&server, addr, i, leave_some && i % 2 != 0);
	ct_finish(&server);
}

static void
one_after_another(void)
{
	serve_all(false);
}

/* Messages that a client left unreceived must not match the receives of the next client. */
static void
leftovers(void)
{
	serve_all(true);
}

/* The same two endpoints connect again and again. */
static void
come_back(void)
{
	int tx[FLOWS], rx[FLOWS];
	struct leat_event ev;
	struct ct_pair p;
	unsigned int i;

	ct_pair_open(&p, NULL, NULL);
	for (i = 0; i < CLIENTS; i++) {
		send_flows(&p.a, p.pa, i, false, tx);
		if (i % 2 == 0)
			ct_pump_us(2000);
		recv_flows(&p.b, LEAT_PEER_ANY, i, false, rx);
		wait_flows(&p.b, rx);
		wait_flows(&p.a, tx);
		leave(&p.a, p.pa);
		ct_event(&p.b, LEAT_EV_DISCONNECTED, p.pb, &ev);
		ct_wait_free(&p.b, p.pb);
		ct_connect(&p.a, &p.b, p.addr, &p.pa, &p.pb);
	}
	ct_pair_close(&p);
}

const struct ct_test ct_tests_clients[] = {
	{ .name = "clients.one_after_another", .fn = one_after_another, .ops = SR | TSR },
	{ .name = "clients.leftovers", .fn = leftovers, .ops = SR | TSR },
	{ .name = "clients.come_back", .fn = come_back, .ops = SR | TSR },
	{ .name = NULL },
};
