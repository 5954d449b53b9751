/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * leat-msg-clients EAL-ARGUMENTS -- leat|plain CLIENTS MESSAGES
 *
 * CLIENTS clients connect to one server, one after another, each with its own endpoint. A client
 * posts WINDOW requests at once, before its connection is up, and one more for each answer,
 * MESSAGES in all; then it closes cleanly. The server sends every message back. No request may
 * fail on either side.
 */

#include <string.h>

#include "ends.h"

#define WINDOW 32
#define SIZE_MAX_TEST 20000

struct slot {
	struct leat_msg_req req;
	uint8_t buf[SIZE_MAX_TEST];
};

struct side {
	struct end end;
	struct leat_msg_conn *c;
	struct slot tx[WINDOW], rx[WINDOW];
	uint64_t nb_tx, nb_rx; /* posted, received */
	bool ended, closed;
	int status;
};

static struct side server, client;
static uint64_t client_nr, nb_messages;

/*
 * @return the size of message k, bytes. Most are small, some need a send of their own, and a few
 * are longer than a segment of any device.
 */
static uint64_t
size_of(uint64_t k)
{
	static const uint64_t sizes[] = { 8, 64, 200, 1, 3000, 16, 5000, SIZE_MAX_TEST };

	return sizes[(k * 7 + k / 8) % RTE_DIM(sizes)];
}

static int
byte_of(uint64_t k)
{
	return (int)((client_nr * 31 + k) % 251);
}

static void
recv_post(struct side *s, struct slot *slot)
{
	struct leat_msg_req *req = &slot->req;

	memset(req, 0, sizeof(*req));
	req->buf = slot->buf;
	req->size = sizeof(slot->buf);
	req->user = slot;
	check(leat_msg_recv(s->c, &req, 1) == 1, "%s: recv refused", s->end.name);
}

static void
send_post(struct side *s, struct slot *slot)
{
	struct leat_msg_req *req = &slot->req;

	memset(req, 0, sizeof(*req));
	req->buf = slot->buf;
	req->size = size_of(s->nb_tx);
	memset(slot->buf, byte_of(s->nb_tx), req->size);
	s->nb_tx++;
	check(leat_msg_send(s->c, &req, 1) == 1, "%s: send refused", s->end.name);
}

static void
begin(struct side *s, struct leat_msg_conn *c, bool asks)
{
	unsigned int i;

	s->c = c;
	s->nb_tx = s->nb_rx = 0;
	s->ended = s->closed = false;
	for (i = 0; i < WINDOW; i++)
		recv_post(s, &s->rx[i]);
	for (i = 0; asks && i < WINDOW && s->nb_tx < nb_messages; i++)
		send_post(s, &s->tx[i]);
}

/* Send the next message from a free slot; send_some() has found that there is one. */
static void
send_next(struct side *s)
{
	unsigned int i;

	for (i = 0; i < WINDOW && s->tx[i].req.state != 0; i++)
		;
	check(i < WINDOW, "%s: more than %d sends", s->end.name, WINDOW);
	send_post(s, &s->tx[i]);
}

static void
received(struct side *s, struct slot *slot)
{
	const struct leat_msg_req *req = &slot->req;
	uint64_t i, k = s->nb_rx++;

	check(req->len == size_of(k), "%s: message %" PRIu64 " has %" PRIu64 " B", s->end.name, k,
	      req->len);
	for (i = 0; i < req->len; i++)
		check(slot->buf[i] == byte_of(k), "%s: message %" PRIu64 ": byte %" PRIu64,
		      s->end.name, k, i);
	recv_post(s, slot);
}

static void
back(struct side *s, const struct leat_msg_req *req)
{
	if (req->status != 0) {
		check(s->nb_rx == nb_messages && (s->ended || s == &client || req->recv),
		      "client %" PRIu64 ": %s: a %s failed after %" PRIu64 " messages: %s",
		      client_nr, s->end.name, req->recv ? "receive" : "send", s->nb_rx,
		      strerror(-req->status));
		return;
	}
	if (req->recv)
		received(s, req->user);
}

static void
event(struct side *s, const struct leat_msg_event *ev)
{
	if (ev->type == LEAT_MSG_ENDED) {
		check(ev->status == 0, "client %" PRIu64 ": %s: the connection ended: %s",
		      client_nr, s->end.name, ev->text);
		s->ended = true;
		check(leat_msg_close(ev->conn, 0) == 0, "close");
	} else if (ev->type == LEAT_MSG_CLOSED) {
		s->closed = true;
	}
}

/*
 * Send while there are free slots: the server answers received messages, the client sends more
 * requests.
 */
static void
send_some(struct side *s)
{
	uint64_t due = s == &server ? s->nb_rx : RTE_MIN(s->nb_rx + WINDOW, nb_messages);
	unsigned int i, nb_free = 0;

	if (s->c == NULL || s->ended)
		return;
	for (i = 0; i < WINDOW; i++)
		nb_free += s->tx[i].req.state == 0;
	for (; s->nb_tx < due && nb_free > 0; nb_free--)
		send_next(s);
}

static void
side_turn(struct side *s)
{
	struct leat_msg_conn_conf conf = s->end.conf;
	struct leat_msg_req *reqs[8];
	struct leat_msg_event mev;
	struct leat_op *ops[32];
	struct leat_event ev;
	uint16_t i, n;

	n = leat_ep_poll(s->end.ep, ops, RTE_DIM(ops));
	check(leat_msg_process(s->end.m, ops, n) == 0, "%s: an op of no connection", s->end.name);
	n = leat_msg_poll(s->end.m, reqs, RTE_DIM(reqs));
	for (i = 0; i < n; i++)
		back(s, reqs[i]);
	send_some(s);
	while (leat_ep_events(s->end.ep, &ev, 1) == 1) {
		if (ev.type == LEAT_EV_CONNECT_REQ) {
			struct leat_msg_conn *c = leat_msg_accept(s->end.m, &ev, &conf);

			check(c != NULL, "accept: %s", leat_err_msg());
			begin(s, c, false);
		} else {
			check(leat_msg_handle_event(s->end.m, &ev),
			      "%s: an event of no connection: %s", s->end.name, ev.text);
		}
	}
	while (leat_msg_events(s->end.m, &mev, 1) == 1)
		event(s, &mev);
}

/* Drive both sides, at times equally often, at times one of them more often than the other. */
static void
turn(void)
{
	static unsigned int turns;
	unsigned int i, n = turns++ / 16 % 4;

	for (i = 0; i < (n == 1 ? 16u : 1u); i++)
		side_turn(&client);
	for (i = 0; i < (n == 3 ? 16u : 1u); i++)
		side_turn(&server);
}

static void
come_and_go(const char *addr, const struct leat_msg_conf *conf)
{
	struct leat_msg_conn_conf cc = { .timeout_us = PATIENCE_US };
	struct leat_msg_conn *c;

	end_open(&client.end, "client", conf);
	cc.mode = client.end.conf.mode;
	c = leat_msg_connect(client.end.m, addr, &cc);
	check(c != NULL, "connect: %s", leat_err_msg());
	server.closed = false;
	begin(&client, c, true);
	wait_until(turn, client.nb_rx == nb_messages);
	check(leat_msg_close(client.c, PATIENCE_US) == 0, "close");
	wait_until(turn, client.closed && server.closed);
	client.c = server.c = NULL;
	end_close(&client.end);
}

int
main(int argc, char **argv)
{
	const struct leat_msg_conf conf = { .max_conns = 4, .credits = WINDOW };
	struct leat_msg_stats stats;
	uint64_t nb_clients;
	const char *addr;
	int ret = leat_init(argc, argv);

	check(ret >= 0, "leat_init: %s", leat_err_msg());
	argc -= ret;
	argv += ret;
	check(argc == 4, "-- leat|plain CLIENTS MESSAGES");
	server.end.conf.mode = strcmp(argv[1], "plain") == 0 ? LEAT_MSG_PLAIN : LEAT_MSG_LEAT;
	client.end.conf.mode = server.end.conf.mode;
	nb_clients = (uint64_t)atoi(argv[2]);
	nb_messages = (uint64_t)atoi(argv[3]);
	check(nb_clients > 0 && nb_messages >= WINDOW, "at least 1 client, %d messages", WINDOW);
	end_open(&server.end, "server", &conf);
	addr = end_listen(&server.end);
	for (client_nr = 0; client_nr < nb_clients; client_nr++)
		come_and_go(addr, &conf);
	leat_msg_stats_get(server.end.m, &stats);
	check(stats.ended_errors == 0 && stats.received == nb_clients * nb_messages,
	      "%" PRIu64 " connections ended with errors, %" PRIu64 " messages were received",
	      stats.ended_errors, stats.received);
	printf("%" PRIu64 " clients, %" PRIu64 " messages\n", nb_clients, stats.received);
	end_close(&server.end);
	check(leat_cleanup() == 0, "cleanup: %s", leat_err_msg());
	return 0;
}
