/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Requests that handlers answer later. A ticket contains a copy of the request's bytes, and room
 * for the response, because the receive that brought the request is posted again. A ticket can
 * outlive its session.
 */

#include <stdio.h>

#include "rpc_pvt.h"

static void
ticket_unlink(struct leat_rpc *rpc, struct rpc_ticket *t)
{
	if (t->prev == NULL)
		rpc->tickets = t->next;
	else
		t->prev->next = t->next;
	if (t->next != NULL)
		t->next->prev = t->prev;
}

void
rpc_ticket_free(struct leat_rpc *rpc, struct rpc_ticket *t)
{
	ticket_unlink(rpc, t);
	if (t->req_large != NULL)
		rpc_large_free(rpc, t->req_large);
	if (t->resp_large != NULL)
		rpc_large_free(rpc, t->resp_large);
	t->req_large = t->resp_large = NULL;
	t->next = rpc->free_tickets;
	rpc->free_tickets = t;
	rpc->stats.tickets--;
}

struct leat_rpc_incoming *
leat_rpc_defer(struct leat_rpc_incoming *call)
{
	struct rpc_handling *h = container_of(call, struct rpc_handling, call);
	struct leat_rpc *rpc = h->s->rpc;
	struct rpc_ticket *t = rpc->free_tickets;

	if (h->ticket != NULL)
		return &h->ticket->call;
	if (t == NULL) {
		leat_err(EBUSY, "rpc on %s: all tickets are out, %u requests are not answered",
			 leat_ep_name(rpc->ep), rpc->stats.tickets);
		return NULL;
	}
	rpc->free_tickets = t->next;
	t->prev = NULL;
	t->next = rpc->tickets;
	if (rpc->tickets != NULL)
		rpc->tickets->prev = t;
	rpc->tickets = t;
	rpc->stats.tickets++;

	t->call = *call;
	t->s = h->s;
	t->slot = h->slot;
	t->since = rpc_now(rpc);
	t->call.deadline = call->us_left == 0
				   ? LEAT_RPC_NO_DEADLINE
				   : leat_time_add(t->since, leat_us_to_cycles(call->us_left));
	t->answered = t->answer_deferred = false;
	t->transfers = NULL;
	/* Long messages are handed over to the ticket; others are copied. */
	t->req_large = h->req_large;
	t->resp_large = h->resp_large;
	h->req_large = h->resp_large = NULL;
	if (call->nb_bulk > 0) {
		/* The request is one packet: descriptors, then its own bytes. */
		memcpy(t->req_buf, call->descs, rpc_bulk_len(call->nb_bulk) + call->len);
		t->call.descs = t->req_buf;
		t->call.req = t->req_buf + rpc_bulk_len(call->nb_bulk);
	} else if (t->req_large == NULL && call->len > 0) {
		memcpy(t->req_buf, call->req, call->len);
		t->call.req = t->req_buf;
	}
	if (t->resp_large == NULL && call->room > 0)
		t->call.resp = t->resp_buf;
	h->ticket = t;
	return &t->call;
}

/*
 * Check the status and length of an answer; drop its bytes if the caller has given up. @return 0,
 * or a positive errno for the answer
 */
static int
answer_check(struct rpc_ticket *t, int status)
{
	struct leat_rpc *rpc = t->s->rpc;
	struct leat_rpc_incoming *call = &t->call;
	int err = status < 0 ? -status : 0;

	if (call->resp_len > call->room) {
		LEAT_LOG(ERR, rpc, "request of type %u is answered with %u B, has room for %u",
			 call->type, call->resp_len, call->room);
		call->resp_len = 0;
		err = EMSGSIZE;
	}
	if (err > (int)RPC_ERRNO_MAX)
		err = EIO;
	if (call->deadline != LEAT_RPC_NO_DEADLINE && call->deadline <= leat_now()) {
		rpc->stats.unwaited++;
		err = ETIMEDOUT;
		call->resp_len = 0;
	}
	if (call->cancelled) {
		err = ECANCELED;
		call->resp_len = 0;
	}
	return err;
}

void
leat_rpc_answer(struct leat_rpc_incoming *call, int status)
{
	struct rpc_ticket *t = container_of(call, struct rpc_ticket, call);
	struct leat_rpc_session *s = t->s;
	struct rpc_rx_more *more;
	int err;

	if (t->transfers != NULL) {
		LEAT_LOG(ERR, rpc,
			 "request of type %u is answered, and transfers of it are under way: it "
			 "waits for them",
			 call->type);
		t->answer_deferred = true;
		t->status = status;
		return;
	}
	if (s == NULL) {
		rpc_ticket_free(t->rpc, t);
		return;
	}
	if (t->slot == RPC_NO_SLOT) {
		s->nb_handling--;
		rpc_ticket_free(s->rpc, t);
		rpc_work_add(s);
		return;
	}
	more = &s->rx_more[t->slot];
	err = answer_check(t, status);
	more->status = (uint16_t)err;
	more->flags = 0;
	more->rest = false;
	more->busy_us = 0;
	if (t->resp_large != NULL && err == 0) {
		s->rx[t->slot].state = RPC_RX_SENDING;
		more->ticket = NULL;
		more->large = t->resp_large;
		t->resp_large = NULL;
		rpc_out_add(s, &more->out, more->large->buf, call->resp_len);
		rpc_ticket_free(s->rpc, t);
		return;
	}
	if (call->oneway || t->resp_large != NULL)
		call->resp_len = 0;
	t->answered = true;
	rpc_answer_queue(s, t->slot);
}

/* Detach the tickets of a session that ends: their answers will be dropped. */
void
rpc_tickets_end(struct leat_rpc_session *s)
{
	struct rpc_ticket *t, *next;

	for (t = s->rpc->tickets; t != NULL; t = next) {
		next = t->next;
		if (t->s != s)
			continue;
		t->s = NULL;
		t->call.session = NULL;
		t->call.cancelled = true;
		rpc_transfers_end(t, -ENOTCONN); /* may free the ticket */
	}
}

uint32_t
rpc_tickets_name(const struct leat_rpc *rpc, const struct leat_rpc_session *s, char *text,
		 size_t len)
{
	const struct rpc_ticket *t, *oldest = NULL;
	uint32_t n = 0;

	for (t = rpc->tickets; t != NULL; t = t->next) {
		if (t->answered || (s != NULL && t->s != s))
			continue;
		n++;
		if (oldest == NULL || t->since < oldest->since)
			oldest = t;
	}
	if (oldest != NULL)
		snprintf(text, len,
			 "%u requests deferred by handlers are not answered, the oldest of type %u "
			 "for %" PRIu64 " ms",
			 n, oldest->call.type,
			 leat_cycles_to_ns(leat_now() - oldest->since) / 1000000);
	return n;
}
