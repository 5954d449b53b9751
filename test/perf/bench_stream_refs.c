/* SPDX-License-Identifier: BSD-3-Clause */

/* See bench_stream.h. */

#include <leat_error.h>

#include "bench.h"
#include "bench_stream.h"

#define BURST 32

/* ---- the bare device ---- */

static void
post(struct side *d, struct leat_op *op)
{
	if (unlikely(leat_ep_post(d->ep, &op, 1) != 1))
		bench_die("can't post");
}

static void
bare_send(struct side *d)
{
	d->sent = false;
	post(d, &d->send);
}

void
bare_start(struct side *d)
{
	unsigned int k;

	d->send = (struct leat_op){
		.type = LEAT_OP_SEND, .peer = d->peer, .buf = d->out, .size = d->size
	};
	d->sent = true;
	for (k = 0; k < RECVS && d->recv[k].buf == NULL; k++) {
		d->recv[k] = (struct leat_op){ .type = LEAT_OP_RECV,
					       .peer = LEAT_PEER_ANY,
					       .buf = d->in + k * (16u << 10),
					       .size = 16 << 10 };
		post(d, &d->recv[k]);
	}
	if (d->index == 0) {
		asked();
		bare_send(d);
	}
}

bool
bare_step(struct side *d)
{
	struct leat_op *done[4];
	uint16_t i, n = leat_ep_poll(d->ep, done, 4);

	for (i = 0; i < n; i++) {
		if (unlikely(done[i]->status != 0))
			bench_die("op failed: %d", done[i]->status);
		if (done[i]->type == LEAT_OP_SEND) {
			d->sent = true;
			continue;
		}
		if (d->index == 0)
			answered(d);
		else
			d->left--;
		while (!d->sent) {
			struct leat_op *op;

			d->sent = leat_ep_poll(d->ep, &op, 1) == 1;
		}
		if (d->index == 1) {
			bare_send(d);
		} else if (d->left > 0) {
			asked();
			bare_send(d);
		}
		post(d, done[i]);
	}
	return d->left == 0 && d->sent;
}

/* ---- messages ---- */

static uint16_t
msg_poll(struct side *d, struct leat_msg_req **done, uint16_t n)
{
	struct leat_op *ops[BURST];
	uint16_t k = leat_ep_poll(d->msg_ep, ops, BURST);

	if (k > 0)
		(void)leat_msg_process(d->m, ops, k);
	return leat_msg_poll(d->m, done, n);
}

void
msg_start(struct side *d)
{
	struct leat_msg_req *rx;
	unsigned int k;

	d->nb_free = WINDOW;
	for (k = 0; k < WINDOW; k++) {
		d->tx[k] = (struct leat_msg_req){ .buf = d->out, .size = d->size };
		d->free[k] = &d->tx[k];
		if (d->recvs || d->index == 0)
			continue;
		d->rx[k] = (struct leat_msg_req){ .buf = d->in + (size_t)k * SIZE_MAX_B,
						  .size = SIZE_MAX_B };
		rx = &d->rx[k];
		(void)leat_msg_recv(d->c, &rx, 1);
	}
	d->recvs = true;
}

bool
msg_step(struct side *d)
{
	struct leat_msg_req *done[BURST];
	uint16_t i, n;

	if (d->index == 0) {
		n = (uint16_t)RTE_MIN(d->left, (uint64_t)d->nb_free);
		if (n > 0)
			(void)leat_msg_send(d->c, &d->free[d->nb_free - n], n);
		d->nb_free -= n;
		d->left -= n;
		d->nb_free += msg_poll(d, &d->free[d->nb_free], (uint16_t)(WINDOW - d->nb_free));
		return d->left == 0 && d->nb_free == WINDOW;
	}
	n = msg_poll(d, done, BURST);
	for (i = 0; i < n; i++) {
		if (unlikely(done[i]->status != 0))
			bench_die("message failed: %d", done[i]->status);
	}
	if (n > 0)
		(void)leat_msg_recv(d->c, done, n);
	d->left -= n;
	return d->left == 0;
}

static void
msgs_drive(struct side *d, unsigned int *up)
{
	const struct leat_msg_conn_conf conf = { .mode = LEAT_MSG_LEAT };
	struct leat_msg_req *none;
	struct leat_msg_event mev;
	struct leat_event ev;

	(void)msg_poll(d, &none, 0);
	while (leat_ep_events(d->msg_ep, &ev, 1) == 1) {
		if (ev.type != LEAT_EV_CONNECT_REQ) {
			(void)leat_msg_handle_event(d->m, &ev);
			continue;
		}
		d->c = leat_msg_accept(d->m, &ev, &conf);
		if (d->c == NULL)
			bench_die("%s", leat_err_msg());
	}
	while (leat_msg_events(d->m, &mev, 1) == 1) {
		if (mev.type != LEAT_MSG_UP)
			bench_die("connecting: %s", mev.text);
		++*up;
	}
}

void
msgs_open(struct side *sides)
{
	const struct leat_ep_conf conf = {
		.ops = LEAT_OP_BIT(LEAT_OP_TSEND) | LEAT_OP_BIT(LEAT_OP_TRECV), .max_peers = 1
	};
	unsigned int i, up = 0;

	for (i = 0; i < 2; i++) {
		sides[i].msg_ep = leat_ep_create(leat_dev_get(0), &conf);
		if (sides[i].msg_ep == NULL)
			bench_die("%s", leat_err_msg());
		sides[i].m = leat_msg_create(sides[i].msg_ep, NULL);
		if (sides[i].m == NULL)
			bench_die("%s", leat_err_msg());
	}
	if (leat_ep_listen(sides[1].msg_ep, "msg:1") < 0)
		bench_die("%s", leat_err_msg());
	sides[0].c = leat_msg_connect(sides[0].m, "msg:1",
				      &(struct leat_msg_conn_conf){ .mode = LEAT_MSG_LEAT });
	if (sides[0].c == NULL)
		bench_die("%s", leat_err_msg());
	while (up < 2) {
		msgs_drive(&sides[0], &up);
		msgs_drive(&sides[1], &up);
	}
}

void
msgs_close(struct side *sides)
{
	unsigned int i;

	/* Shut both down before closing one: the end of one is an event for the other. */
	for (i = 0; i < 2; i++)
		(void)leat_ep_shutdown(sides[i].msg_ep, 1000);
	for (i = 0; i < 2; i++)
		(void)leat_ep_close(sides[i].msg_ep, 100000, NULL, NULL);
}
