/* SPDX-License-Identifier: BSD-3-Clause */

#include "ends.h"

#include <string.h>

void
end_open(struct end *e, const char *name, const struct leat_msg_conf *msg_conf)
{
	struct leat_ep_conf conf = {
		.name = name,
		.ops = LEAT_OP_BIT(LEAT_OP_TSEND) | LEAT_OP_BIT(LEAT_OP_TRECV),
		.max_peers = 8,
	};

	e->name = name;
	e->ep = leat_ep_create(leat_dev_get(leat_dev_count() - 1), &conf);
	check(e->ep != NULL, "%s: %s", name, leat_err_msg());
	if (msg_conf == NULL)
		return;
	e->m = leat_msg_create(e->ep, msg_conf);
	check(e->m != NULL, "%s: %s", name, leat_err_msg());
}

const char *
end_listen(struct end *e)
{
	static char addr[LEAT_ADDR_MAX];

	check(leat_ep_listen(e->ep, "127.0.0.1:0") == 0 &&
		      leat_ep_listen_addr(e->ep, addr, sizeof(addr)) == 0,
	      "listen: %s", leat_err_msg());
	return addr;
}

void
end_close(struct end *e)
{
	check(leat_msg_destroy(e->m) == 0, "%s: %s", e->name, leat_err_msg());
	e->m = NULL;
	check(leat_ep_close(e->ep, PATIENCE_US, NULL, NULL) == 0, "%s: %s", e->name,
	      leat_err_msg());
	e->ep = NULL;
}

/* ---- conversations ---- */

static uint64_t
size_of(uint64_t k)
{
	return k % 16 == 15 ? TALK_MAX : k * 7 % 200;
}

static void
talk_recv(struct talk *t)
{
	struct leat_msg_req *req = &t->rx;

	req->buf = t->in;
	req->size = sizeof(t->in);
	check(leat_msg_recv(t->c, &req, 1) == 1, "recv");
}

/* Send the due message, if there is one and the previous send has completed. */
static void
talk_send(struct talk *t)
{
	struct leat_msg_req *req = &t->tx;
	uint64_t k = t->begins ? t->received : t->received - 1;

	if (!t->due || t->tx.state != 0 || t->ended)
		return;
	t->due = false;
	req->buf = t->out;
	req->size = size_of(k);
	memset(t->out, (int)(k % 251), req->size);
	check(leat_msg_send(t->c, &req, 1) == 1, "send");
}

static void
talk_back(struct talk *t, const struct leat_msg_req *req)
{
	uint64_t i, k = t->received;

	if (t->quiet)
		return;
	if (req->status != 0) {
		check(t->may_end, "the conversation failed after %" PRIu64 " messages: %s", k,
		      strerror(-req->status));
		return;
	}
	if (req == &t->rx) {
		check(req->len == size_of(k), "message %" PRIu64 " has %" PRIu64 " B", k, req->len);
		for (i = 0; i < req->len; i++)
			check(t->in[i] == k % 251, "message %" PRIu64 ": byte %" PRIu64 " is %u", k,
			      i, t->in[i]);
		t->received++;
		t->due = !t->begins || !t->stop;
		talk_recv(t);
	}
	talk_send(t);
}

static void
talk_start(struct talk *t, struct leat_msg_conn *c)
{
	t->c = c;
	t->up = t->ended = t->closed = false;
	t->status = 0;
	t->received = 0;
	memset(&t->tx, 0, sizeof(t->tx));
	memset(&t->rx, 0, sizeof(t->rx));
	if (t->quiet)
		return;
	talk_recv(t);
	t->due = t->begins;
	talk_send(t);
}

void
talk_connect(struct end *e, struct talk *t, enum who who, const char *addr)
{
	struct leat_msg_conn_conf conf = e->conf;
	const uint8_t byte = (uint8_t)who;
	struct leat_msg_conn *c;

	conf.priv = &byte;
	conf.priv_len = 1;
	conf.user = t;
	conf.timeout_us = PATIENCE_US;
	c = leat_msg_connect(e->m, addr, &conf);
	check(c != NULL, "%s: %s", e->name, leat_err_msg());
	talk_start(t, c);
}

void
talk_close(struct talk *t, struct talk *other, void (*turn)(void))
{
	uint64_t before = t->received;

	t->stop = true;
	wait_until(turn, t->received > before && t->received == other->received &&
				 t->tx.state == 0 && other->tx.state == 0);
	t->may_end = other->may_end = true;
	check(leat_msg_close(t->c, PATIENCE_US) == 0, "close");
	wait_until(turn, t->closed && other->closed);
}

/* ---- driving the ends ---- */

static void
accept_one(struct end *e, const struct leat_event *ev)
{
	struct leat_msg_conn_conf conf = e->conf;
	struct leat_msg_conn *c;
	const uint8_t *who;
	uint16_t len;

	who = leat_msg_priv(ev, &len);
	check(len == 1 && *who <= GUEST && e->talks[*who] != NULL, "%s: a stranger connects",
	      e->name);
	conf.user = e->talks[*who];
	c = leat_msg_accept(e->m, ev, &conf);
	check(c != NULL, "%s: accept: %s", e->name, leat_err_msg());
	talk_start(conf.user, c);
}

static void
msg_event(const struct leat_msg_event *ev)
{
	struct talk *t = ev->user;

	if (ev->type == LEAT_MSG_UP) {
		t->up = true;
	} else if (ev->type == LEAT_MSG_ENDED) {
		check(t->may_end, "the conversation ended: %s", ev->text);
		/* The text must name the side that closed, and no other cause. */
		check(ev->status != 0 || (strncmp(ev->text, "closed by ", 10) == 0 &&
					  strchr(ev->text + 10, ' ') == NULL),
		      "text of an orderly end: %s", ev->text);
		t->ended = true;
		t->status = ev->status;
		snprintf(t->text, sizeof(t->text), "%s", ev->text);
		check(leat_msg_close(ev->conn, 0) == 0, "close");
	} else {
		t->closed = true;
	}
}

void
end_turn(struct end *e)
{
	struct leat_msg_req *reqs[8];
	struct leat_msg_event mev;
	struct leat_op *ops[32];
	struct leat_event ev;
	uint16_t i, n;

	n = leat_ep_poll(e->ep, ops, RTE_DIM(ops));
	check(leat_msg_process(e->m, ops, n) == 0, "%s: an op of no connection", e->name);
	n = leat_msg_poll(e->m, reqs, RTE_DIM(reqs));
	for (i = 0; i < n; i++)
		talk_back(leat_msg_conn_user(reqs[i]->conn), reqs[i]);
	while (leat_ep_events(e->ep, &ev, 1) == 1) {
		if (ev.type == LEAT_EV_CONNECT_REQ)
			accept_one(e, &ev);
		else
			check(leat_msg_handle_event(e->m, &ev), "%s: an event of no connection: %s",
			      e->name, ev.text);
	}
	while (leat_msg_events(e->m, &mev, 1) == 1)
		msg_event(&mev);
}
