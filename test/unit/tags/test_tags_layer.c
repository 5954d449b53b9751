/* SPDX-License-Identifier: BSD-3-Clause */

/* The tag layer: its info, matching, credits, long messages, cancels, ends. */

#include <string.h>

#include "leat_cmocka.h"
#include "tags_peer.h"

static char bufs[64][64];

static struct leat_op
trecv(uint16_t peer, uint64_t tag, uint64_t ignore, unsigned int buf)
{
	return (struct leat_op){ .type = LEAT_OP_TRECV,
				 .peer = peer,
				 .tag = tag,
				 .ignore = ignore,
				 .queue = LEAT_QUEUE_NONE,
				 .buf = bufs[buf],
				 .size = sizeof(bufs[buf]) };
}

static struct leat_op
tsend(uint16_t peer, uint64_t tag, void *data, uint64_t size)
{
	return (struct leat_op){ .type = LEAT_OP_TSEND,
				 .peer = peer,
				 .tag = tag,
				 .queue = LEAT_QUEUE_NONE,
				 .buf = data,
				 .size = size };
}

static void
assert_got(const struct leat_op *op, const char *text, uint16_t src, uint64_t tag)
{
	assert_ptr_equal(tp_poll(), op);
	assert_int_equal(op->status, 0);
	assert_string_equal(op->buf, text);
	assert_int_equal(op->len, strlen(text) + 1);
	assert_int_equal(op->src, src);
	assert_int_equal(op->tag_in, tag);
}

static void
test_what_is_offered(void **state)
{
	struct leat_ep_conf conf = { .max_peers = 2 };
	struct leat_op op = { .type = LEAT_OP_RECV, .peer = LEAT_PEER_ANY };
	struct leat_op *list[1] = { &op };
	struct leat_dev_info plain, tagged;
	struct leat_ep *ep;

	(void)state;
	assert_int_equal(leat_dev_info_get(leat_dev_get(0), &plain), 0);
	assert_int_equal(plain.ops_software,
			 LEAT_OP_BIT(LEAT_OP_TSEND) | LEAT_OP_BIT(LEAT_OP_TRECV));
	assert_int_equal(plain.ops, TP_OPS);
	assert_false(plain.directed_recv);
	assert_int_equal(plain.priv_connect, LEAT_EP_PRIV_MAX);
	assert_int_equal(leat_dev_info_for(leat_dev_get(0), TP_OPS, &tagged), 0);
	assert_true(tagged.directed_recv && tagged.unexpected_bounded);
	assert_int_equal(tagged.priv_connect, LEAT_EP_PRIV_MAX - TAGS_HELLO_LEN);
	assert_string_equal(leat_ep_name(mock.ep), "ep.tags");
	/* An endpoint without tagged ops has no layer. */
	assert_int_equal(leat_ep_close(tp_ep, 0, NULL, NULL), 0);
	ep = leat_ep_create(leat_dev_get(0), &conf);
	assert_non_null(ep);
	assert_ptr_equal(mock.ep, ep);
	assert_int_equal(leat_ep_post(ep, list, 1), 1);
	assert_int_equal(mock.nb_ops, 1);
	assert_ptr_equal(mock.ops[0], &op);
	assert_int_equal(leat_ep_close(ep, 0, NULL, NULL), 0);
	assert_int_equal(tp_setup(state), 0);
}

static void
test_hello(void **state)
{
	struct leat_conn_params params = { .priv = "hi", .priv_len = 2 };
	struct tags_hello hello;
	struct leat_peer *in;
	struct leat_event ev;
	uint8_t buf[64];
	int id;

	(void)state;
	id = leat_ep_connect(tp_ep, "there:1", &params);
	assert_int_equal(id, 2);
	assert_int_equal(mock.priv_len, TAGS_HELLO_LEN + 2);
	assert_null(tags_hello_parse(mock.priv, mock.priv_len, &hello));
	assert_int_equal(hello.priv_len, 2);
	assert_memory_equal(mock.priv + TAGS_HELLO_LEN, "hi", 2);
	/* The hello of the other side may be padded. */
	memset(buf, 0, sizeof(buf));
	hello.priv_len = 3;
	hello.token = TP_TOKEN;
	tags_hello_build(buf, &hello);
	memset(buf + TAGS_HELLO_LEN, 'y', 3);
	leat_peer_up(mock.ep, &mock.ep->peers[id], buf, sizeof(buf));
	ev = tp_event(LEAT_EV_CONNECTED, (uint16_t)id);
	assert_int_equal(ev.priv_len, 3);
	assert_memory_equal(ev.priv, "yyy", 3);
	/* A connection request is answered with the layer's hello, too. */
	in = leat_peer_request(mock.ep, "from:1", buf, sizeof(buf));
	assert_non_null(in);
	ev = tp_event(LEAT_EV_CONNECT_REQ, 3);
	assert_memory_equal(ev.priv, "yyy", 3);
	assert_int_equal(leat_ep_accept(tp_ep, 3, &params), 0);
	assert_int_equal(mock.priv_len, TAGS_HELLO_LEN + 2);
	leat_peer_up(mock.ep, in, NULL, 0);
	tp_event(LEAT_EV_CONNECTED, 3);
	/* Private data that are too long together with the layer's hello are refused. */
	params.priv = buf;
	params.priv_len = LEAT_EP_PRIV_MAX - TAGS_HELLO_LEN + 1;
	tp_known(3, mock.priv);
	tp_leave(3);
	assert_null(tp_poll());
	tp_event(LEAT_EV_DISCONNECTED, 3);
	assert_int_equal(leat_ep_events(tp_ep, NULL, 0), 0);
	assert_int_equal(leat_ep_connect(tp_ep, "there:1", &params), -EINVAL);
}

static void
test_other_side_has_none(void **state)
{
	struct leat_event ev;
	int id = leat_ep_connect(tp_ep, "there:1", NULL);

	(void)state;
	assert_int_equal(id, 2);
	leat_peer_up(mock.ep, &mock.ep->peers[id], "hello", 6);
	ev = tp_event(LEAT_EV_CONNECT_FAILED, 2);
	assert_int_equal(ev.status, -EPROTO);
	assert_non_null(strstr(ev.text, "tagged"));
	assert_int_equal(mock.nb_disconnect, 1);
	assert_non_null(leat_peer_request(mock.ep, "from:1", "", 0));
	assert_int_equal(leat_ep_events(tp_ep, &ev, 1), 0);
	assert_int_equal(mock.nb_reject, 1);
}

/* Of exact, wildcard and directed receives that match, the one posted first gets the message. */
static void
test_oldest_receive(void **state)
{
	struct leat_op r[6];
	unsigned int i;

	(void)state;
	r[0] = trecv(LEAT_PEER_ANY, 0, UINT64_MAX, 0);
	r[1] = trecv(LEAT_PEER_ANY, 7, 0, 1);
	r[2] = trecv(1, 7, 0, 2);
	r[3] = trecv(1, 0, UINT64_MAX, 3);
	r[4] = trecv(LEAT_PEER_ANY, 7, 0, 4);
	r[5] = trecv(LEAT_PEER_ANY, 0x700, 0xff, 5);
	for (i = 0; i < 6; i++)
		tp_post(&r[i]);
	tp_message(0, 7, "a");
	assert_got(&r[0], "a", 0, 7);
	tp_message(0, 0x7ab, "b");
	assert_got(&r[5], "b", 0, 0x7ab);
	tp_message(0, 7, "c");
	assert_got(&r[1], "c", 0, 7);
	tp_message(1, 7, "d");
	assert_got(&r[2], "d", 1, 7);
	tp_message(1, 7, "e");
	assert_got(&r[3], "e", 1, 7);
	tp_message(1, 8, "unexpected");
	assert_null(tp_poll());
	tp_message(1, 7, "f");
	assert_got(&r[4], "f", 1, 7);
}

/* A receive takes the first waiting message that matches; a TRECV never takes an untagged one. */
static void
test_oldest_message(void **state)
{
	struct tags_hdr h = { .kind = TAGS_EAGER, .flags = TAGS_F_IMM, .imm = 9, .total = 2 };
	struct leat_op t[5], r;

	(void)state;
	tp_arrive(1, &h, "p", 2);
	tp_message(0, 1, "a1");
	tp_message(1, 1, "b1");
	tp_message(1, 2, "b2");
	tp_message(0, 2, "a2");
	tp_message(0, 1, "a1'");
	assert_null(tp_poll());
	t[0] = trecv(LEAT_PEER_ANY, 2, 0, 0);
	t[1] = trecv(1, 0, UINT64_MAX, 1);
	t[2] = trecv(LEAT_PEER_ANY, 1, 0, 2);
	t[3] = trecv(LEAT_PEER_ANY, 0, UINT64_MAX, 3);
	t[4] = trecv(LEAT_PEER_ANY, 0, UINT64_MAX, 4);
	tp_post(&t[0]);
	assert_got(&t[0], "b2", 1, 2);
	tp_post(&t[1]);
	assert_got(&t[1], "b1", 1, 1);
	tp_post(&t[2]);
	assert_got(&t[2], "a1", 0, 1);
	tp_post(&t[3]);
	assert_got(&t[3], "a2", 0, 2);
	tp_post(&t[4]);
	assert_got(&t[4], "a1'", 0, 1);
	r = (struct leat_op){ .type = LEAT_OP_RECV, .peer = 0, .buf = bufs[5], .size = 8 };
	tp_post(&r);
	assert_null(tp_poll());
	assert_int_equal(leat_op_cancel(tp_ep, &r), 0);
	assert_ptr_equal(tp_poll(), &r);
	r.peer = 1;
	tp_post(&r);
	assert_ptr_equal(tp_poll(), &r);
	assert_string_equal(bufs[5], "p");
	assert_int_equal(r.oflags, LEAT_OP_F_IMM);
	assert_int_equal(r.imm, 9);
}

/* When the peer's window is used up, further sends wait, and go on in order with new credits. */
static void
test_credits_of_the_peer(void **state)
{
	struct tags_hdr h, credit = { .kind = TAGS_CREDIT };
	struct leat_op s[20];
	unsigned int i;

	(void)state;
	for (i = 0; i < 20; i++) {
		s[i] = tsend(0, i, NULL, 0);
		tp_post(&s[i]);
	}
	assert_int_equal(tp_sends(), 16);
	for (i = 0; i < 16; i++) {
		assert_true(tp_sent(0, &h, NULL, NULL));
		assert_int_equal(h.tag, i);
		assert_int_equal(h.seq, i);
		assert_ptr_equal(tp_poll(), &s[i]);
	}
	assert_int_equal(tp_sends(), 0);
	/* Another peer has a window of its own. */
	s[0] = tsend(1, 99, NULL, 0);
	tp_post(&s[0]);
	assert_true(tp_sent(1, &h, NULL, NULL));
	assert_ptr_equal(tp_poll(), &s[0]);
	credit.done[TAGS_C_MSG] = 3;
	tp_arrive(0, &credit, NULL, 0);
	assert_null(tp_poll());
	assert_int_equal(tp_sends(), 3);
	for (i = 16; i < 19; i++) {
		assert_true(tp_sent(0, &h, NULL, NULL));
		assert_int_equal(h.tag, i);
		assert_ptr_equal(tp_poll(), &s[i]);
	}
	/* A cancelled send that was not begun comes back at once. */
	assert_int_equal(leat_op_cancel(tp_ep, &s[19]), 0);
	assert_ptr_equal(tp_poll(), &s[19]);
	assert_int_equal(s[19].status, -ECANCELED);
}

/* Any segment returns credits. When half of the window is due, a CREDIT segment returns them. */
static void
test_credits_of_ours(void **state)
{
	struct leat_op r = trecv(LEAT_PEER_ANY, 1, 0, 0), s = tsend(0, 5, NULL, 0);
	struct tags_hdr h;
	unsigned int i;

	(void)state;
	for (i = 0; i < 7; i++) {
		tp_post(&r);
		tp_message(0, 1, "x");
		assert_ptr_equal(tp_poll(), &r);
		assert_int_equal(tp_sends(), 0);
	}
	tp_message(0, 1, "unexpected ones are not returned");
	assert_null(tp_poll());
	assert_int_equal(tp_sends(), 0);
	tp_post(&r);
	assert_ptr_equal(tp_poll(), &r);
	assert_true(tp_sent(0, &h, NULL, NULL));
	assert_int_equal(h.kind, TAGS_CREDIT);
	assert_int_equal(h.done[TAGS_C_MSG], 8);
	tp_post(&r);
	tp_message(0, 1, "y");
	assert_ptr_equal(tp_poll(), &r);
	tp_post(&s);
	assert_true(tp_sent(0, &h, NULL, NULL));
	assert_int_equal(h.kind, TAGS_EAGER);
	assert_int_equal(h.done[TAGS_C_MSG], 9);
	assert_ptr_equal(tp_poll(), &s);
}

/* Messages pass when sequence numbers and credits, which have 16 bits, wrap. */
static void
test_wrap_around(void **state)
{
	struct leat_op r = trecv(LEAT_PEER_ANY, 1, 0, 0), s = tsend(0, 5, NULL, 0);
	struct tags_hdr in = { .kind = TAGS_EAGER, .flags = TAGS_F_TAGGED, .tag = 1 }, out;
	uint32_t i;

	(void)state;
	for (i = 0; i < 140000; i++) {
		tp_post(&r);
		in.done[TAGS_C_MSG] = (uint16_t)i;
		tp_arrive(0, &in, NULL, 0);
		assert_ptr_equal(tp_poll(), &r);
		assert_int_equal(r.status, 0);
		tp_post(&s);
		assert_true(tp_sent(0, &out, NULL, NULL));
		assert_int_equal(out.seq, (uint16_t)i);
		assert_int_equal(out.done[TAGS_C_MSG], (uint16_t)(i + 1));
		assert_ptr_equal(tp_poll(), &s);
		assert_int_equal(s.status, 0);
	}
}

static uint8_t big[3 * TP_SEGMENT + 100], got[sizeof(big)];

static void
fill(void)
{
	size_t i;

	for (i = 0; i < sizeof(big); i++)
		big[i] = (uint8_t)(i * 31 + i / 256);
	memset(got, 0, sizeof(got));
}

static void
test_long_send(void **state)
{
	struct leat_op s = tsend(0, 5, big, sizeof(big)), small = tsend(0, 6, NULL, 0);
	struct tags_hdr h, grant = { .kind = TAGS_GRANT, .tag = 77 };
	uint8_t part[TP_SEGMENT];
	uint64_t at;
	uint32_t n;

	(void)state;
	fill();
	tp_post(&s);
	tp_post(&small);
	assert_true(tp_sent(0, &h, got, &n));
	assert_int_equal(h.kind, TAGS_FIRST);
	assert_int_equal(h.total, sizeof(big));
	assert_int_equal(n, TP_SEGMENT);
	grant.id = h.id;
	/* Other messages don't wait for the answer. */
	assert_true(tp_sent(0, &h, NULL, NULL));
	assert_int_equal(h.tag, 6);
	assert_ptr_equal(tp_poll(), &small);
	assert_int_equal(leat_op_cancel(tp_ep, &s), -EOPNOTSUPP);
	grant.done[TAGS_C_MSG] = 2;
	tp_arrive(0, &grant, NULL, 0);
	assert_null(tp_poll());
	for (at = TP_SEGMENT; at < sizeof(big); at += n) {
		assert_true(tp_sent(0, &h, part, &n));
		assert_int_equal(h.kind, TAGS_DATA);
		assert_int_equal(h.id, 77);
		assert_int_equal(h.tag, at);
		memcpy(got + at, part, n);
	}
	assert_memory_equal(got, big, sizeof(big));
	assert_ptr_equal(tp_poll(), &s);
	assert_int_equal(s.status, 0);
	assert_int_equal(s.len, sizeof(big));
}

static void
test_long_receive(void **state)
{
	struct tags_hdr h = { .kind = TAGS_FIRST,
			      .flags = TAGS_F_TAGGED,
			      .id = 42,
			      .tag = 3,
			      .total = sizeof(big) },
			d = { .kind = TAGS_DATA }, out;
	struct leat_op r = trecv(LEAT_PEER_ANY, 3, 0, 0);
	uint64_t at;

	(void)state;
	fill();
	r.buf = got;
	r.size = sizeof(got);
	tp_arrive(1, &h, big, TP_SEGMENT);
	assert_null(tp_poll());
	assert_int_equal(tp_sends(), 0);
	tp_post(&r);
	assert_null(tp_poll());
	assert_true(tp_sent(1, &out, NULL, NULL));
	assert_int_equal(out.kind, TAGS_GRANT);
	assert_int_equal(out.id, 42);
	assert_int_equal(out.done[TAGS_C_MSG], 1);
	/* A cancel of the receive has no effect, since the rest of the message is in flight. */
	assert_int_equal(leat_op_cancel(tp_ep, &r), 0);
	d.id = (uint32_t)out.tag;
	for (at = TP_SEGMENT; at < sizeof(big); at += TP_SEGMENT) {
		assert_null(tp_poll());
		d.tag = at;
		d.done[TAGS_C_REPLY] = 1;
		tp_arrive(1, &d, big + at,
			  (uint32_t)RTE_MIN(sizeof(big) - at, (uint64_t)TP_SEGMENT));
	}
	assert_ptr_equal(tp_poll(), &r);
	assert_int_equal(r.status, 0);
	assert_int_equal(r.len, sizeof(big));
	assert_memory_equal(got, big, sizeof(big));
}

/* A message that stops in the middle ends its connection, when its receive passes its deadline. */
static void
test_stalled_receive(void **state)
{
	struct tags_hdr h = {
		.kind = TAGS_FIRST, .flags = TAGS_F_TAGGED, .id = 42, .tag = 3, .total = sizeof(big)
	};
	struct leat_op r = trecv(LEAT_PEER_ANY, 3, 0, 0);

	(void)state;
	fill();
	r.buf = got;
	r.size = sizeof(got);
	r.flags = LEAT_OP_F_DEADLINE;
	r.deadline = leat_now() + leat_us_to_cycles(1000);
	tp_arrive(1, &h, big, TP_SEGMENT);
	assert_null(tp_poll());
	tp_post(&r);
	while (leat_now() < r.deadline + leat_us_to_cycles(1000))
		assert_null(tp_poll());
	assert_int_equal(tp_event(LEAT_EV_DISCONNECTED, 1).status, -ETIMEDOUT);
	assert_ptr_equal(tp_poll(), &r);
	assert_int_equal(r.status, -ETIMEDOUT);
}

/* A receive that is too small fails, as does the send of a long message; the peer stays up. */
static void
test_too_small(void **state)
{
	struct tags_hdr h = { .kind = TAGS_FIRST,
			      .flags = TAGS_F_TAGGED,
			      .id = 42,
			      .tag = 3,
			      .total = sizeof(big) },
			refuse = { .kind = TAGS_REFUSE }, out;
	struct leat_op r = trecv(LEAT_PEER_ANY, 3, 0, 0), s = tsend(0, 5, big, sizeof(big));

	(void)state;
	tp_post(&r);
	tp_arrive(0, &h, big, TP_SEGMENT);
	assert_ptr_equal(tp_poll(), &r);
	assert_int_equal(r.status, -EMSGSIZE);
	assert_int_equal(r.len, sizeof(big));
	assert_true(tp_sent(0, &out, NULL, NULL));
	assert_int_equal(out.kind, TAGS_REFUSE);
	assert_int_equal(out.id, 42);
	tp_post(&s);
	assert_true(tp_sent(0, &out, NULL, NULL));
	refuse.id = out.id;
	tp_arrive(0, &refuse, NULL, 0);
	assert_ptr_equal(tp_poll(), &s);
	assert_int_equal(s.status, -EMSGSIZE);
	r.size = 1;
	tp_post(&r);
	tp_message(0, 3, "longer");
	assert_ptr_equal(tp_poll(), &r);
	assert_int_equal(r.status, -EMSGSIZE);
	assert_int_equal(leat_ep_peer_state(tp_ep, 0), LEAT_PEER_UP);
}

/* A long message that has a receive gets through, though unreceived messages fill the window. */
static void
test_matched_gets_through(void **state)
{
	struct tags_hdr h, grant = { .kind = TAGS_GRANT, .tag = 1 };
	struct leat_op s = tsend(0, 5, big, sizeof(big)), other[15];
	unsigned int i;

	(void)state;
	tp_post(&s);
	for (i = 0; i < 15; i++) {
		other[i] = tsend(0, 6, NULL, 0);
		tp_post(&other[i]);
	}
	assert_true(tp_sent(0, &h, NULL, NULL));
	grant.id = h.id;
	for (i = 0; i < 15; i++) {
		assert_true(tp_sent(0, &h, NULL, NULL));
		assert_ptr_equal(tp_poll(), &other[i]);
	}
	tp_arrive(0, &grant, NULL, 0); /* this grant returns no credit */
	assert_null(tp_poll());
	for (i = 0; i < 3; i++)
		assert_true(tp_sent(0, &h, NULL, NULL));
	assert_ptr_equal(tp_poll(), &s);
	assert_int_equal(s.status, 0);
}

/* A WRITE_IMM uses a credit, which comes back if the op fails. */
static void
test_write_imm(void **state)
{
	static struct leat_op w[18]; /* some are in flight until the end */
	struct leat_op r = { .type = LEAT_OP_RECV, .peer = LEAT_PEER_ANY };
	unsigned int i, n = 0;

	(void)state;
	for (i = 0; i < 18; i++) {
		w[i] = (struct leat_op){ .type = LEAT_OP_WRITE_IMM, .queue = LEAT_QUEUE_NONE };
		tp_post(&w[i]);
	}
	for (i = 0; i < mock.nb_ops; i++)
		n += mock.ops[i]->type == LEAT_OP_WRITE_IMM;
	assert_int_equal(n, 16);
	for (i = 0; mock.ops[i]->type != LEAT_OP_WRITE_IMM; i++)
		;
	mock_finish(mock.ep, i, -EACCES, 0);
	assert_ptr_equal(tp_poll(), &w[0]);
	assert_int_equal(w[0].status, -EACCES);
	for (i = n = 0; i < mock.nb_ops; i++)
		n += mock.ops[i]->type == LEAT_OP_WRITE_IMM;
	assert_int_equal(n, 16);
	/* The notice of the other side's WRITE_IMM comes before a receive is posted for it. */
	tp_notice(1, 0x1234);
	assert_null(tp_poll());
	tp_post(&r);
	assert_ptr_equal(tp_poll(), &r);
	assert_int_equal(r.oflags, LEAT_OP_F_IMM | LEAT_OP_F_WRITTEN);
	assert_int_equal(r.imm, 0x1234);
	assert_int_equal(r.len, 5);
}

/* Let the device accept two sends at a time, and post n TSENDs to a peer and a WRITE after them. */
static void
fill_device(struct leat_op *s, unsigned int n, uint16_t peer, struct leat_op *w)
{
	unsigned int i;

	mock.tx_max = 2;
	for (i = 0; i < n; i++) {
		s[i] = tsend(peer, i, NULL, 0);
		tp_post(&s[i]);
	}
	tp_post(w);
}

/* While the device accepts no more sends, no op is lost, and none overtakes another. */
static void
test_device_full(void **state)
{
	struct leat_op s[6], w = { .type = LEAT_OP_WRITE, .queue = LEAT_QUEUE_NONE };
	struct tags_hdr h;
	unsigned int i;

	(void)state;
	fill_device(s, 6, 0, &w);
	for (i = 0; i < 6; i++) {
		assert_true(tp_sent(0, &h, NULL, NULL));
		assert_int_equal(h.tag, i);
		assert_ptr_equal(tp_poll(), &s[i]);
	}
	for (i = 0; i < mock.nb_ops && mock.ops[i]->type != LEAT_OP_WRITE; i++)
		;
	assert_true(i < mock.nb_ops);
	assert_int_equal(leat_op_cancel(tp_ep, &w), 0);
	assert_ptr_equal(tp_poll(), &w);
	assert_int_equal(w.status, -ECANCELED);
}

/* The device accepts no sends when a connection ends: BYE goes later, and the end waits for it. */
static void
test_device_full_at_the_end(void **state)
{
	struct leat_op s[2], w = { .type = LEAT_OP_WRITE, .queue = LEAT_QUEUE_NONE };
	struct leat_event ev;
	struct tags_hdr h;

	(void)state;
	fill_device(s, 2, 1, &w);
	assert_int_equal(leat_ep_disconnect(tp_ep, 0), 0);
	assert_ptr_equal(tp_poll(), &w);
	assert_int_equal(w.status, -ECONNABORTED);
	assert_int_equal(leat_ep_events(tp_ep, &ev, 1), 0);
	assert_int_equal(tp_sends(), 2);
	assert_true(tp_sent(1, &h, NULL, NULL));
	assert_ptr_equal(tp_poll(), &s[0]);
	assert_int_equal(leat_ep_events(tp_ep, &ev, 1), 0);
	assert_true(tp_sent(0, &h, NULL, NULL));
	assert_int_equal(h.kind, TAGS_BYE);
	assert_null(tp_poll());
	assert_int_equal(leat_ep_events(tp_ep, &ev, 1), 0);
	tp_bye(0);
	assert_null(tp_poll());
	tp_event(LEAT_EV_DISCONNECTED, 0);
	assert_true(tp_sent(1, &h, NULL, NULL));
	assert_ptr_equal(tp_poll(), &s[1]);
}

/* A connection ends with ops in all states. All come back, once, also those that the device has. */
static void
test_end(void **state)
{
	struct tags_hdr first = {
		.kind = TAGS_FIRST, .flags = TAGS_F_TAGGED, .tag = 3, .total = sizeof(big)
	};
	struct leat_op s[20], l = tsend(0, 5, big, sizeof(big)), r, d, any, w;
	unsigned int i, n = 0;

	(void)state;
	r = trecv(LEAT_PEER_ANY, 3, 0, 0);
	r.buf = got;
	r.size = sizeof(got);
	d = trecv(0, 9, 0, 1);
	any = trecv(LEAT_PEER_ANY, 9, 0, 2);
	w = (struct leat_op){ .type = LEAT_OP_WRITE, .queue = LEAT_QUEUE_NONE };
	tp_post(&r);
	tp_post(&d);
	tp_post(&any);
	tp_arrive(0, &first, big, TP_SEGMENT);
	tp_message(0, 1000, "nobody wants it");
	assert_null(tp_poll());
	tp_post(&l);
	tp_post(&w);
	for (i = 0; i < 20; i++) {
		s[i] = tsend(0, i, NULL, 0);
		tp_post(&s[i]);
	}
	tp_leave(0);
	while (tp_poll() != NULL)
		n++;
	assert_int_equal(n, 2 + 1 + 1 + 20);
	assert_int_equal(r.status, -ECONNABORTED);
	assert_int_equal(d.status, -ECONNABORTED);
	assert_int_equal(l.status, -ECONNABORTED);
	assert_int_equal(w.status, -ECONNABORTED);
	assert_int_equal(s[19].status, -ECONNABORTED);
	tp_event(LEAT_EV_DISCONNECTED, 0);
	assert_int_equal(leat_op_cancel(tp_ep, &any), 0);
	assert_ptr_equal(tp_poll(), &any);
	/* The next connection finds no state of this one. */
	assert_int_equal(leat_ep_events(tp_ep, NULL, 0), 0);
	tp_leave(1);
	assert_null(tp_poll());
	tp_event(LEAT_EV_DISCONNECTED, 1);
	for (i = 0; i < 4; i++)
		(void)tp_connect(16, 8, 4);
	tp_post(&any);
	tp_message(2, 9, "z");
	assert_got(&any, "z", 2, 9);
}

static void
test_shutdown(void **state)
{
	struct leat_op w = { .type = LEAT_OP_READ, .queue = LEAT_QUEUE_NONE }, r, s;

	(void)state;
	r = trecv(LEAT_PEER_ANY, 3, 0, 0);
	s = tsend(0, 5, big, sizeof(big));
	tp_post(&r);
	tp_post(&s);
	tp_post(&w);
	assert_int_equal(leat_ep_shutdown(tp_ep, 0), 0);
	assert_ptr_equal(tp_poll(), &r);
	assert_int_equal(r.status, -ECANCELED);
	/* The shutdown's time limit is 0, so the next call aborts both endpoints. */
	assert_int_equal(leat_ep_events(tp_ep, NULL, 0), 0);
	assert_ptr_equal(tp_poll(), &s);
	assert_int_equal(s.status, -ESHUTDOWN);
	while (mock.nb_abort == 0)
		assert_int_equal(leat_ep_events(tp_ep, NULL, 0), 0);
	assert_ptr_equal(tp_poll(), &w);
	assert_int_equal(w.status, -ESHUTDOWN);
}

int
main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, tp_setup, tp_teardown)
	const struct CMUnitTest tests[] = {
		T(test_what_is_offered),
		T(test_hello),
		T(test_other_side_has_none),
		T(test_oldest_receive),
		T(test_oldest_message),
		T(test_credits_of_the_peer),
		T(test_credits_of_ours),
		T(test_wrap_around),
		T(test_long_send),
		T(test_long_receive),
		T(test_stalled_receive),
		T(test_too_small),
		T(test_matched_gets_through),
		T(test_write_imm),
		T(test_device_full),
		T(test_device_full_at_the_end),
		T(test_end),
		T(test_shutdown),
	};

	return cmocka_run_group_tests(tests, tp_group_setup, tp_group_teardown);
}
