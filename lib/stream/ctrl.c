/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Control messages: windows, keepalives, features, the end of a direction.
 *
 * Each message that has to be sent is a bit in `pending`, and is composed when it can be posted, so
 * no queue grows for a peer that accepts no messages. Three orders matter: a client asks for
 * features before it registers a window (see memory()), windows are registered in their order, and
 * the end of a direction is sent after the last byte.
 *
 *     client                              server
 *       GET 0xffff ---------------------->        unless no_features (leat_stream_net_conf)
 *       memory --------------------------> <----- memory       at once, by both
 *                                         <----- answer to GET
 *       SET 0xffff, common features ----->        mode WINDOWS: bytes may be sent from here on
 */

#include "stream_pvt.h"

#define FEATURES_MINE(net)                                                                         \
	(STREAM_FEATURE_END | ((net)->windows ? (uint64_t)STREAM_FEATURE_WINDOWS : 0))

/* ---- sending ---- */

static struct stream_ctrl_op *
free_op(struct leat_stream *s)
{
	unsigned int i;

	for (i = 0; i < STREAM_CTRLS; i++) {
		if (!s->ctrl[i].busy)
			return &s->ctrl[i];
	}
	return NULL;
}

/* Post a control message. @return false: the device has no room */
static bool
post(struct leat_stream *s, struct stream_ctrl_op *c, const struct stream_ctrl *m)
{
	struct leat_op *op = &c->op;

	stream_wire_encode(op->buf, m, s->net->wide);
	op->peer = s->peer;
	if (leat_ep_post(s->net->ep, &op, 1) == 0)
		return false;
	c->busy = true;
	s->ctrl_flight++;
	return true;
}

/* Compose the next message. @return its bit in pending; 0: none can be sent now */
static uint8_t
next_message(struct leat_stream *s, struct stream_ctrl *m)
{
	memset(m, 0, sizeof(*m));
	if ((s->pending & PENDING_GET) != 0) {
		m->opcode = STREAM_OP_GET_FEATURES;
		m->select = STREAM_SELECT_LEAT;
		return PENDING_GET;
	}
	if ((s->pending & PENDING_MEMORY) != 0) {
		m->opcode = STREAM_OP_MEMORY;
		m->token = s->token;
		m->addr = s->rx_key.addr + s->rx_limit % s->rx_size;
		m->length = stream_rx_window(s);
		m->key = s->rx_key.key;
		return PENDING_MEMORY;
	}
	if ((s->pending & PENDING_ANSWER) != 0) {
		m->opcode = STREAM_OP_GET_FEATURES;
		m->select = s->answers[0];
		m->features = m->select == STREAM_SELECT_LEAT ? FEATURES_MINE(s->net) : 0;
		return PENDING_ANSWER;
	}
	if ((s->pending & PENDING_SET) != 0) {
		m->opcode = STREAM_OP_SET_FEATURES;
		m->select = STREAM_SELECT_LEAT;
		m->features = s->features;
		return PENDING_SET;
	}
	if ((s->pending & PENDING_KEEPALIVE) != 0) {
		m->opcode = STREAM_OP_KEEPALIVE;
		return PENDING_KEEPALIVE;
	}
	if ((s->pending & PENDING_END) != 0 && s->tx_posted == s->tx_head && s->outs == NULL) {
		m->opcode = STREAM_OP_END;
		m->total = s->tx_total;
		return PENDING_END;
	}
	return 0;
}

/* Note that a message was posted. */
static void
sent(struct leat_stream *s, uint8_t what)
{
	s->pending &= (uint8_t)~what;
	switch (what) {
	case PENDING_MEMORY:
		stream_rx_registered(s);
		if (stream_rx_can_register(s))
			s->pending |= PENDING_MEMORY;
		break;
	case PENDING_ANSWER:
		s->nb_answers--;
		memmove(s->answers, s->answers + 1, s->nb_answers * sizeof(s->answers[0]));
		if (s->nb_answers > 0)
			s->pending |= PENDING_ANSWER;
		break;
	case PENDING_SET:
		/* This side may send bytes from now on; the server begins when this SET arrives. */
		s->features_known = true;
		s->go = true;
		stream_work(s);
		break;
	case PENDING_KEEPALIVE:
		STREAM_COUNT(s->net->stats.keepalives_sent, 1);
		break;
	case PENDING_END:
		s->end_sent = true;
		break;
	default:
		break;
	}
}

void
stream_ctrl_run(struct leat_stream *s)
{
	struct stream_ctrl_op *c;
	struct stream_ctrl m;
	uint8_t what;

	while (s->state == STREAM_UP && s->pending != 0 && (c = free_op(s)) != NULL) {
		what = next_message(s, &m);
		if (what == 0)
			return;
		if (!post(s, c, &m)) {
			stream_starve(s);
			return;
		}
		if (s->tx_flight == 0 && s->ctrl_flight == 1)
			s->last_progress = s->net->now;
		sent(s, what);
	}
}

void
stream_ctrl_done(struct stream_ctrl_op *c)
{
	struct leat_stream *s = c->s;
	const int status = c->op.status;

	c->busy = false;
	s->ctrl_flight--;
	s->last_progress = s->net->now;
	if (status < 0 && status != -ECONNABORTED && status != -ECONNRESET &&
	    status != -ESHUTDOWN && status != -ENOTCONN)
		stream_fail(s, status, "a control message failed: %s", strerror(-status));
	stream_work(s);
}

void
stream_ctrl_up(struct leat_stream *s)
{
	s->pending |= PENDING_MEMORY;
	if (!s->accepted && !s->net->conf.no_features)
		s->pending |= PENDING_GET;
	if (!s->net->windows)
		s->go = true;
	stream_work(s);
}

/* ---- receiving ---- */

static void
get_features(struct leat_stream *s, const struct stream_ctrl *m)
{
	if (s->accepted) {
		if (s->nb_answers == STREAM_ANSWERS) {
			stream_fail(s, -EPROTO, "it asks for features and receives no answers");
			return;
		}
		s->answers[s->nb_answers++] = m->select;
		s->pending |= PENDING_ANSWER;
		if (m->select == STREAM_SELECT_LEAT)
			s->features_asked = true;
		stream_work(s);
		return;
	}
	/* A client ignores an answer that it did not ask for. */
	if (m->select != STREAM_SELECT_LEAT || s->net->conf.no_features || s->features_known)
		return;
	s->features = m->features & FEATURES_MINE(s->net);
	if (s->net->windows && (s->features & STREAM_FEATURE_WINDOWS) == 0) {
		stream_fail(s, -EPROTO, "the server does not have the mode of two windows");
		return;
	}
	if (s->features == 0) {
		s->features_known = true;
		return;
	}
	s->pending |= PENDING_SET;
	stream_work(s);
}

static void
set_features(struct leat_stream *s, const struct stream_ctrl *m)
{
	/* A client ignores a SET of the server: the protocol gives it no meaning. */
	if (!s->accepted || m->select != STREAM_SELECT_LEAT || s->features_known)
		return;
	s->features = m->features & FEATURES_MINE(s->net);
	s->features_known = true;
	if (s->net->windows && (s->features & STREAM_FEATURE_WINDOWS) == 0) {
		stream_fail(s, -EPROTO, "the client does not have the mode of two windows");
		return;
	}
	s->go = true;
	stream_work(s);
}

static void
memory(struct leat_stream *s, const struct stream_ctrl *m)
{
	const struct leat_stream_net *net = s->net;
	const uint32_t max = net->windows ? LEAT_STREAM_RX_MAX : net->conf.peer_window_max;
	struct stream_window w = { .addr = m->addr, .key = m->key, .len = m->length };

	if (w.len == 0 || w.len > max || w.addr > UINT64_MAX - w.len) {
		stream_fail(s, -EPROTO,
			    "a window of %u B at %#" PRIx64 ", where 1 to %u B are allowed", w.len,
			    w.addr, max);
		return;
	}
	if (!net->windows) {
		s->nb_windows = 0;
		s->window_off = 0;
	} else if (s->nb_windows == STREAM_WINDOWS) {
		/*
		 * The peer may have read the first window whole, and registered it again, before
		 * this side has begun to write to the second one.
		 */
		if (s->window_off < s->windows[0].len) {
			stream_fail(s, -EPROTO, "more than %u windows", STREAM_WINDOWS);
			return;
		}
		s->windows[0] = s->windows[1];
		s->nb_windows = 1;
		s->window_off = 0;
	}
	s->windows[s->nb_windows++] = w;
	s->peer_token = m->token;
	s->info.peer_window = w.len;
	s->info.tx_registered++;
	/*
	 * A client that has leat's features asks for them before it registers a window: this client
	 * has none.
	 */
	if (s->accepted && !s->features_asked)
		s->features_known = true;
	stream_work(s);
}

static void
end_of_direction(struct leat_stream *s, const struct stream_ctrl *m)
{
	if ((s->features & STREAM_FEATURE_END) == 0 || s->rx_end != UINT64_MAX ||
	    m->total < s->rx_got) {
		stream_fail(s, -EPROTO, "an impossible end of its direction");
		return;
	}
	s->rx_end = m->total;
	stream_ready_touch(s);
}

void
stream_ctrl_arrived(struct leat_stream *s, const uint8_t *msg, size_t len)
{
	struct stream_ctrl m;

	s->last_heard = s->net->now;
	if (len != STREAM_CTRL_LEN) {
		stream_fail(s, -EPROTO, "a control message of %zu B", len);
		return;
	}
	stream_wire_decode(&m, msg, s->net->wide);
	switch (m.opcode) {
	case STREAM_OP_GET_FEATURES:
		get_features(s, &m);
		break;
	case STREAM_OP_SET_FEATURES:
		set_features(s, &m);
		break;
	case STREAM_OP_KEEPALIVE:
		STREAM_COUNT(s->net->stats.keepalives_received, 1);
		break;
	case STREAM_OP_MEMORY:
		memory(s, &m);
		break;
	case STREAM_OP_END:
		end_of_direction(s, &m);
		break;
	default:
		stream_fail(s, -EPROTO, "a control message with opcode %#x", m.opcode);
		break;
	}
}
