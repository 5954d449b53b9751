/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Runs of --op msg: messages of lib/msg, in leat mode, over a second connection.
 *
 *     client                                        server
 *     leat_msg_connect(), with a hello      ->      perf_msg_request(): leat_msg_accept()
 *     RUN {msg}, on the first connection    ->      receives, READY
 *     messages                             <->
 *     RUN of another op                     ->      closes the second connection
 *     closes the second connection          <-      READY
 *
 * The measuring loops see ops only. The ops of such a run are those of a run of tagged messages,
 * and each has a request: perf_post() turns an op into its request, and perf_poll() a request into
 * its op.
 */

#include <stdlib.h>

#include <rte_malloc.h>

#include <leat_error.h>
#include <leat_msg.h>

#include "side.h"

#define CLOSE_US PERF_US

struct perf_msgs {
	struct leat_msg *m;
	struct leat_msg_conn *conn;
	struct leat_msg_req *reqs; /* requests of the tx ops, then of the rx ops */
	uint32_t nb_reqs;
	bool up, closed;
};

/* ---- the fast path ---- */

/*
 * Tell whether the op is a message of lib/msg. Control messages are not, and ops of another run are
 * not, although the client keeps the connection for messages until that run's READY has come.
 */
static inline bool
is_message(const struct perf_side *s, const struct leat_op *op)
{
	return s->run.op == PERF_OP_MSG && op->type != LEAT_OP_SEND && op->type != LEAT_OP_RECV;
}

static inline struct leat_msg_req *
req_of(const struct perf_side *s, const struct leat_op *op)
{
	if (op->type == LEAT_OP_TSEND)
		return &s->msgs->reqs[op - s->tx];
	return &s->msgs->reqs[s->nb_tx + (op - s->rx)];
}

uint16_t
perf_msg_post(struct perf_side *s, struct leat_op **ops, uint16_t n)
{
	struct leat_msg_req *reqs[PERF_BURST_MAX];
	uint16_t i = 0, k, taken;

	while (i < n) {
		const uint8_t type = ops[i]->type;

		if (!is_message(s, ops[i])) {
			if (leat_ep_post(s->ep, &ops[i], 1) == 0)
				break;
			i++;
			continue;
		}
		for (k = 0; i + k < n && k < PERF_BURST_MAX && ops[i + k]->type == type; k++)
			reqs[k] = req_of(s, ops[i + k]);
		if (type == LEAT_OP_TSEND)
			taken = leat_msg_send(s->msgs->conn, reqs, k);
		else
			taken = leat_msg_recv(s->msgs->conn, reqs, k);
		i = (uint16_t)(i + taken);
		if (unlikely(taken < k))
			break;
	}
	return i;
}

uint16_t
perf_msg_poll(struct perf_side *s, struct leat_op **ops, uint16_t n)
{
	struct leat_msg_req *reqs[PERF_POLL];
	uint16_t i, got, k = leat_ep_poll(s->ep, ops, n);

	k = leat_msg_process(s->msgs->m, ops, k);
	got = leat_msg_poll(s->msgs->m, reqs, (uint16_t)RTE_MIN(n - k, PERF_POLL));
	for (i = 0; i < got; i++) {
		struct leat_op *op = reqs[i]->user;

		op->status = reqs[i]->status;
		op->len = reqs[i]->len;
		ops[k++] = op;
	}
	return k;
}

/* ---- the requests of a run ---- */

int
perf_msg_prepare(struct perf_side *s)
{
	struct perf_msgs *g = s->msgs;
	uint32_t i, n = s->nb_tx + s->nb_rx;

	if (g == NULL || g->conn == NULL)
		return perf_fail(s, ENOTCONN, "no connection for messages was made before");
	if (n > g->nb_reqs) {
		rte_free(g->reqs);
		g->nb_reqs = 0;
		g->reqs = rte_malloc(NULL, n * sizeof(*g->reqs), LEAT_CACHE_LINE);
		if (g->reqs == NULL)
			return perf_fail(s, ENOMEM, "no memory for %u requests (EAL's -m)", n);
		g->nb_reqs = n;
	}
	for (i = 0; i < n; i++) {
		struct leat_op *op = i < s->nb_tx ? &s->tx[i] : &s->rx[i - s->nb_tx];

		g->reqs[i] = (struct leat_msg_req){
			.buf = op->buf, .size = op->size, .mr = op->mr, .user = op
		};
	}
	return 0;
}

int
perf_msg_cancel(struct perf_side *s, struct leat_op *op)
{
	return is_message(s, op) ? leat_msg_cancel(req_of(s, op)) : leat_op_cancel(s->ep, op);
}

/* ---- the connection ---- */

static int
create(struct perf_side *s)
{
	const struct leat_msg_conf conf = { .max_conns = 1 };
	struct perf_msgs *g = calloc(1, sizeof(*g));

	if (g == NULL)
		return perf_fail(s, ENOMEM, "out of memory");
	g->m = leat_msg_create(s->ep, &conf);
	if (g->m == NULL) {
		free(g);
		return perf_fail(s, rte_errno, "%s", leat_err_msg());
	}
	s->msgs = g;
	return 0;
}

int
perf_msg_connect(struct perf_side *s)
{
	const struct leat_msg_conn_conf conf = {
		.mode = LEAT_MSG_LEAT,
		.timeout_us = leat_cycles_to_ns(s->timeout) / 1000,
	};
	int ret = 0;

	if (s->msgs != NULL)
		return 0;
	ret = create(s);
	if (ret < 0)
		return ret;
	s->msgs->conn = leat_msg_connect(s->msgs->m, s->peer_addr, &conf);
	if (s->msgs->conn == NULL)
		return perf_fail(s, rte_errno, "%s", leat_err_msg());
	perf_side_restart_timers(s);
	while (ret == 0 && !s->msgs->up)
		ret = perf_chan_poll(s);
	return ret;
}

bool
perf_msg_request(struct perf_side *s, const struct leat_event *ev)
{
	const struct leat_msg_conn_conf conf = { .mode = LEAT_MSG_LEAT };
	uint16_t len;

	(void)leat_msg_priv(ev, &len);
	/* A request without lib/msg's hello is the first connection of another client. */
	if (!s->server || !s->up || s->msgs != NULL || len == ev->priv_len ||
	    !perf_op_offered(s->info.ops, PERF_OP_MSG) || create(s) < 0)
		return false;
	s->msgs->conn = leat_msg_accept(s->msgs->m, ev, &conf);
	if (s->msgs->conn != NULL)
		return true;
	perf_msg_close(s);
	return false;
}

bool
perf_msg_event(struct perf_side *s, const struct leat_event *ev)
{
	return s->msgs != NULL && leat_msg_handle_event(s->msgs->m, ev);
}

int
perf_msg_events(struct perf_side *s)
{
	struct perf_msgs *g = s->msgs;
	struct leat_msg_event ev;
	int ret = 0;

	/* Status 0 is no failure: the other side closed the connection, for a run of another op. */
	while (g != NULL && leat_msg_events(g->m, &ev, 1) == 1) {
		if (ev.type == LEAT_MSG_UP)
			g->up = true;
		else if (ev.type == LEAT_MSG_CLOSED)
			g->closed = true;
		else if (ev.status != 0)
			ret = perf_fail(s, -ev.status, "messages: %s", ev.text);
	}
	return ret;
}

int
perf_msg_close(struct perf_side *s)
{
	uint64_t end = rte_rdtsc() + leat_us_to_cycles(CLOSE_US);
	struct perf_msgs *g = s->msgs;
	int ret;

	if (g == NULL)
		return 0;
	if (g->conn != NULL)
		(void)leat_msg_close(g->conn, 0); /* never -EALREADY: this is the only call */
	/* Failures of the first connection are left to the next call that uses it. */
	while (g->conn != NULL && !g->closed && rte_rdtsc() < end) {
		(void)perf_chan_poll(s);
		(void)perf_side_events(s); /* a tick does not call it once *s->stop is set */
	}
	ret = leat_msg_destroy(g->m);
	if (ret < 0)
		return perf_fail(s, EBUSY, "%s", leat_err_msg());
	rte_free(g->reqs);
	free(g);
	s->msgs = NULL;
	return 0;
}
