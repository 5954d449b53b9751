/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Deadlines of requests, and liveness of peers. Both are timers in the context's wheel, which
 * leat_msg_events() runs; a request without a deadline costs nothing here.
 *
 * A request whose deadline passed comes back with -ETIMEDOUT, after the requests before it. If it
 * has begun, what else happens depends on where its message is:
 *
 *     receive   payload's receive not posted    the message is dropped (drop.c)
 *               posted                          taken back, then the message is dropped
 *               ... and can't be taken back     the connection ends
 *     send      small                           it was copied, and leaves nevertheless
 *               large, payload not posted       an empty payload will be sent (drop.c)
 *               payload posted, leat mode       taken back, then an empty payload is sent
 *               ... and can't be taken back     the connection ends
 *               plain mode                      the connection ends
 *
 * Liveness: a connection is checked four times per idle time. If four checks in a row find nothing
 * new the peer is pinged, and if nothing comes within the answer time the connection ends. A check
 * that runs late does not count: messages may have arrived that are not processed yet.
 */

#include <errno.h>

#include "msg_pvt.h"

#define TICK_US 32
/* Time after which another attempt is made to end a request that can't be ended now, us. */
#define AGAIN_US 1000
/*
 * Maximum number of timers that fire in one call of leat_msg_events(). Others wait for the next
 * call.
 */
#define EXPIRED_PER_RUN 256
/* Number of checks within idle_us whether anything has come from the peer. */
#define LOOKS 4u

/* ---- requests ---- */

void
msg_deadline_again(struct leat_msg_conn *c, struct leat_msg_req *req)
{
	leat_wheel_add(&c->m->wheel, &req->timer,
		       leat_time_add(leat_now(), leat_us_to_cycles(AGAIN_US)));
}

/*
 * Recall a payload's op. The request waits until the op is back. @return false: the connection
 * ended
 */
static bool
take_back(struct leat_msg_conn *c, struct msg_slot *s, const char *what)
{
	int ret = leat_op_cancel(c->ep, &s->data);

	if (ret == 0)
		s->flags |= MSG_EXPIRED;
	/* -ENOENT, -EALREADY: the op is done, or was recalled before, and will come back. */
	if (ret == 0 || ret == -ENOENT || ret == -EALREADY)
		return true;
	msg_fail(c, -ETIMEDOUT,
		 "a %s of %" PRIu64 " B was given up, and the device can't recall its payload",
		 what, s->len);
	return false;
}

static void
expire_early(struct leat_msg_conn *c, struct msg_slot *s, struct leat_msg_req *req)
{
	if ((s->flags & MSG_RECALL) != 0)
		return; /* it was cancelled before */
	if ((s->flags & MSG_DATA_IN) != 0) {
		msg_fail(c, -ETIMEDOUT,
			 "a receive was given up whose payload came without its length");
		return;
	}
	if (take_back(c, s, "receive")) {
		if ((s->flags & MSG_EXPIRED) != 0)
			s->flags |= MSG_RECALL;
		else
			msg_deadline_again(c, req);
	}
}

/* Give up a receive whose message has begun to arrive. */
static void
expire_recv(struct leat_msg_conn *c, struct leat_msg_req *req)
{
	struct msg_slot *s = msg_rx_slot(c, c->rx_bind);
	uint32_t id;

	if ((s->flags & MSG_EARLY) != 0 && s->req == req) {
		expire_early(c, s, req);
		return;
	}
	if (msg_fragment_expire(c, req))
		return;
	for (id = c->rx_done; id != c->rx_bind; id++) {
		s = msg_rx_slot(c, id);
		if (s->req != req || (s->flags & MSG_EAGER) != 0)
			continue;
		if ((s->flags & MSG_DONE) != 0) {
			s->req = NULL;
			msg_received(c, req, s->len);
		} else if ((s->flags & MSG_DATA_OUT) != 0) {
			(void)take_back(c, s, "receive");
		} else {
			msg_drop(c, s, MSG_REASON_TIME);
		}
		return;
	}
}

/*
 * Give up a small send whose op waits for room in the endpoint. Its bytes are in the slot, and will
 * be sent.
 */
static void
leave_eager(struct msg_slot *s, struct leat_msg_req *req)
{
	/*
	 * A task that gives the send up gets 0, because its message is sent nevertheless.
	 */
	if (req->abandoned != 0 && (req->flags & LEAT_MSG_F_DELIVERED) == 0) {
		s->conn->stats.sent++;
		s->conn->stats.sent_bytes += req->size;
		msg_req_finish(req, 0, req->size);
	} else {
		msg_req_finish(req, msg_late_status(req), 0);
	}
	s->count--;
	while (s->req != NULL && s->req->state != MSG_REQ_STARTED && s->count > 0)
		s->req = s->req->next;
	if (s->count == 0)
		s->req = NULL;
}

/* Is a request among those of a slot? s->count does not count cancelled ones between them. */
static bool
has(const struct msg_slot *s, const struct leat_msg_req *req)
{
	const struct leat_msg_req *r = s->req;
	uint16_t n = s->count;

	for (; n > 0 && r != NULL; r = r->next) {
		if (r == req)
			return true;
		n = (uint16_t)(n - (r->state == MSG_REQ_STARTED));
	}
	return false;
}

/* Is the device done with the slot's send, which is still waiting for the sends before it? */
static bool
sent(const struct msg_slot *s)
{
	return (s->flags & (MSG_POSTED | MSG_OP_OUT | MSG_DATA_OUT | MSG_WANT | MSG_FAILED)) ==
	       MSG_POSTED;
}

/* Give up a send that has begun. */
static void
expire_send(struct leat_msg_conn *c, struct leat_msg_req *req)
{
	uint32_t id;

	if (msg_tx_fragments_expire(c, req))
		return;
	if (req->answer_waits != 0) {
		req->answer_waits = 0;
		msg_req_finish(req, msg_late_status(req), 0);
		return;
	}
	for (id = c->tx_done; id != c->tx_next; id++) {
		struct msg_slot *s = msg_tx_slot(c, id);

		if (!has(s, req))
			continue;
		s->len = req->size;
		if ((s->flags & MSG_EAGER) != 0)
			leave_eager(s, req);
		else if (sent(s))
			msg_tx_finish_early(c, s);
		else if (c->mode == LEAT_MSG_PLAIN)
			msg_fail(c, -ETIMEDOUT,
				 "a send of %" PRIu64
				 " B was given up, which had begun in plain mode",
				 req->size);
		else if ((s->flags & MSG_WANT) != 0)
			msg_tx_give_up(c, s, msg_late_status(req));
		else
			(void)take_back(c, s, "send");
		return;
	}
}

void
msg_expire_begun(struct leat_msg_req *req)
{
	if (req->recv != 0)
		expire_recv(req->conn, req);
	else
		expire_send(req->conn, req);
}

static void
expire(struct leat_msg_req *req)
{
	struct leat_msg_conn *c = req->conn;

	switch (req->state) {
	case MSG_REQ_QUEUED:
		msg_req_finish(req, -ETIMEDOUT, 0);
		req->state = MSG_REQ_CANCELLED;
		break;
	case MSG_REQ_STARTED:
		/* A request on an ended connection comes back with the connection's status. */
		if (c->state != MSG_OPEN)
			return;
		msg_expire_begun(req);
		/* The request could not be given up without the connection, which has ended. */
		if (c->state != MSG_OPEN)
			c->stats.expired++;
		break;
	default: /* done: it comes back after the requests before it */
		return;
	}
	/* A payload that is being recalled is counted when it is back, unless it was faster. */
	msg_count_expired(c, req);
	msg_list_give(c->m, req->recv != 0 ? &c->recvq : &c->sendq);
	msg_work(c);
}

/* ---- liveness of peers ---- */

/* Return a number that changes with everything that comes from the peer. */
static uint32_t
came(const struct leat_msg_conn *c)
{
	return c->rx_bind + c->rx_arrived + c->rx_done + c->ctrl_rx_next;
}

bool
msg_heard(const struct leat_msg_conn *c)
{
	/* The cursors begin at first_id, see conn_new(). */
	return came(c) != 3 * c->first_id;
}

static void
alive_next(struct leat_msg_conn *c, uint64_t after)
{
	leat_wheel_add(&c->m->wheel, &c->alive, leat_time_add(after, c->idle_cycles / LOOKS + 1));
}

void
msg_alive_start(struct leat_msg_conn *c)
{
	if (c->idle_cycles == 0 || c->mode != LEAT_MSG_LEAT)
		return;
	c->came = came(c);
	c->looks = 0;
	alive_next(c, leat_now());
}

static void
alive(struct leat_msg_conn *c, uint64_t now)
{
	const uint64_t late = now - c->alive.expiry, period = c->idle_cycles / LOOKS + 1;

	if (c->state != MSG_OPEN)
		return;
	if (c->came != came(c)) {
		c->came = came(c);
		c->looks = 0;
	} else if (c->looks < LOOKS) {
		if (late < period && ++c->looks == LOOKS) {
			c->ctrl_due |= 1u << MSG_CTRL_PING;
			c->answer_by = leat_time_add(now, c->answer_cycles);
			msg_work(c);
		}
	} else if (late >= period) {
		c->answer_by = leat_time_add(c->answer_by, late);
	} else if (now >= c->answer_by) {
		msg_fail(c, -ETIMEDOUT, "nothing came from it, nor an answer when it was asked");
		return;
	}
	alive_next(c, late < period ? c->alive.expiry : now);
}

/* ---- the wheel ---- */

static void
fired(struct leat_wheel_node *node, void *arg)
{
	struct leat_msg *m = arg;

	struct leat_msg_req *req;

	if ((uintptr_t)node - (uintptr_t)m->conns < m->max_conns * sizeof(*m->conns)) {
		alive(container_of(node, struct leat_msg_conn, alive), m->now);
		return;
	}
	req = container_of(node, struct leat_msg_req, timer);
	if (req->abandoned != 0)
		(void)msg_req_abandon(req);
	else
		expire(req);
}

void
msg_timeouts(struct leat_msg *m)
{
	if (likely(leat_wheel_count(&m->wheel) == 0))
		return;
	m->now = leat_now();
	(void)leat_wheel_run(&m->wheel, m->now, fired, m, EXPIRED_PER_RUN);
}

void
msg_timeouts_init(struct leat_msg *m)
{
	leat_wheel_init(&m->wheel, leat_us_to_cycles(TICK_US), leat_now());
}

void
msg_deadline_start(struct leat_msg_req *req)
{
	leat_wheel_add(&req->conn->m->wheel, &req->timer, req->deadline);
}
