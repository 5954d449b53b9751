/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * LEAT_MSG_F_DELIVERED: sends that are done only when a receive of the peer has the message.
 *
 *     sender                                     receiver
 *     | -- head: length | answer, id 8 --------> | slot 8 is bound to a request, and done
 *     | <------- control: answered up to 9 ----- | all ids before 9 are done
 *
 * The message is alone in its send, so that the id names this message only. The request stays in
 * its list, and the requests behind it are given back after it. If the peer dropped the message, a
 * control message says so before the answer that covers its id (drop.c), and the request comes back
 * with the reason.
 */

#include <errno.h>

#include "msg_pvt.h"

/*
 * Maximum number of ids by which tx_answered may lie behind the next message. Comparisons of ids
 * work for distances below 2^31.
 */
#define LATE (UINT32_C(1) << 30)

void
msg_answer_ask(struct leat_msg_req *req, struct msg_slot *s)
{
	struct leat_msg_conn *c = s->conn;

	/*
	 * tx_answered stands still while no message asks for an answer: keep it near enough for
	 * comparisons of ids.
	 */
	if (unlikely(s->id - c->tx_answered > LATE))
		c->tx_answered = s->id - LATE;
	leat_put_le64(s->buf, leat_get_le64(s->buf) | MSG_LEN_ANSWER);
	s->flags |= MSG_ANSWER;
	req->answer_id = s->id;
	req->answer_waits = 0;
	req->lost = 0;
}

bool
msg_answer_waits(const struct leat_msg_conn *c, struct leat_msg_req *req)
{
	if ((req->flags & LEAT_MSG_F_DELIVERED) == 0)
		return false;
	if (req->lost != 0) {
		msg_req_finish(req, msg_reason_status(req->lost), 0);
		return true;
	}
	if ((int32_t)(req->answer_id - c->tx_answered) < 0)
		return false;
	req->answer_waits = 1;
	return true;
}

bool
msg_answered(struct leat_msg_conn *c, uint32_t id)
{
	struct leat_msg_req *req;

	if (unlikely((int32_t)(c->tx_next - id) < 0 || (int32_t)(id - c->tx_answered) < 0)) {
		msg_fail(c, -EPROTO, "an answer up to message %#x, the next one is %#x", id,
			 c->tx_next);
		return false;
	}
	c->tx_answered = id;
	for (req = c->sendq.head; req != NULL && req != c->sendq.begin; req = req->next) {
		if (req->state != MSG_REQ_STARTED || req->answer_waits == 0 ||
		    (int32_t)(req->answer_id - id) >= 0)
			continue;
		req->answer_waits = 0;
		c->stats.sent++;
		c->stats.sent_bytes += req->size;
		msg_req_finish(req, 0, req->size);
	}
	msg_work(c);
	return true;
}

void
msg_answer_lost(struct leat_msg_conn *c, uint32_t id, uint8_t reason)
{
	struct leat_msg_req *req;

	for (req = c->sendq.head; req != NULL && req != c->sendq.begin; req = req->next) {
		if (req->state != MSG_REQ_STARTED || (req->flags & LEAT_MSG_F_DELIVERED) == 0 ||
		    req->answer_id != id || req->answer_waits == 0)
			continue;
		req->answer_waits = 0;
		msg_req_finish(req, msg_reason_status(reason), 0);
		msg_work(c);
		return;
	}
}
