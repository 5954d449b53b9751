/* SPDX-License-Identifier: BSD-3-Clause */

/* The connection of a peer that breaks the tag layer's protocol ends with -EPROTO; others go on. */

#include <string.h>

#include "leat_cmocka.h"
#include "tags_peer.h"

static char text[8];

static struct leat_op
recv_op(uint64_t tag)
{
	return (struct leat_op){ .type = LEAT_OP_TRECV,
				 .peer = LEAT_PEER_ANY,
				 .tag = tag,
				 .queue = LEAT_QUEUE_NONE,
				 .buf = text,
				 .size = sizeof(text) };
}

/* Check that peer 0's connection was ended, and peer 1's was not; then connect peer 0 again. */
static void
caught(const char *why)
{
	struct leat_op r = recv_op(77);
	struct leat_event ev;
	struct tags_hdr h;

	(void)tp_poll();
	ev = tp_event(LEAT_EV_DISCONNECTED, 0);
	if (ev.status != -EPROTO || strstr(ev.text, why) == NULL)
		fail_msg("status %d, '%s', expected '%s'", ev.status, ev.text, why);
	tp_post(&r);
	tp_message(1, 77, "fine");
	assert_ptr_equal(tp_poll(), &r);
	assert_int_equal(r.status, 0);
	/* Take the segments that return credits to peer 1. */
	while (tp_sent(1, &h, NULL, NULL))
		assert_null(tp_poll());
	assert_int_equal(leat_ep_events(tp_ep, NULL, 0), 0);
	/* Ids are used in turn, so let peers 2 and 3 come and go until the next id is 0. */
	while (tp_connect(16, 8, 4) != 0)
		;
	for (uint16_t id = 2; id < 4; id++) {
		if (leat_ep_peer_state(tp_ep, id) != LEAT_PEER_UP)
			continue;
		tp_leave(id);
		assert_null(tp_poll());
		tp_event(LEAT_EV_DISCONNECTED, id);
		assert_int_equal(leat_ep_events(tp_ep, NULL, 0), 0);
	}
}

static void
bad(struct tags_hdr h, uint32_t bytes, const char *why)
{
	static const char zeros[TP_SEGMENT];

	tp_arrive(0, &h, zeros, bytes);
	caught(why);
}

static void
test_headers(void **state)
{
	uint8_t buf[TAGS_HDR_LEN];
	struct tags_hdr h = { .kind = TAGS_CREDIT };

	(void)state;
	tp_arrive_raw(0, "", 0);
	caught("shorter");
	tp_arrive_raw(0, "0123456789012345678901234567890123456789", TAGS_HDR_LEN - 1);
	caught("shorter");
	bad((struct tags_hdr){ .kind = 0 }, 0, "kind");
	bad((struct tags_hdr){ .kind = 8 }, 0, "kind");
	bad((struct tags_hdr){ .kind = 255 }, 0, "kind");
	bad((struct tags_hdr){ .kind = TAGS_EAGER, .flags = 4 }, 0, "flags");
	bad((struct tags_hdr){ .kind = TAGS_EAGER, .tag = 1 }, 0, "tag");
	bad((struct tags_hdr){ .kind = TAGS_EAGER, .id = 1 }, 0, "id");
	bad((struct tags_hdr){ .kind = TAGS_EAGER, .total = 5 }, 4, "length");
	bad((struct tags_hdr){ .kind = TAGS_EAGER, .total = UINT64_MAX }, 4, "length");
	bad((struct tags_hdr){ .kind = TAGS_FIRST, .total = 4 }, 4, "no other part");
	bad((struct tags_hdr){ .kind = TAGS_FIRST, .total = 4 }, 0, "no other part");
	bad((struct tags_hdr){ .kind = TAGS_DATA }, 0, "without data");
	bad((struct tags_hdr){ .kind = TAGS_DATA, .flags = 1 }, 4, "not zero");
	bad((struct tags_hdr){ .kind = TAGS_GRANT }, 4, "where none");
	bad((struct tags_hdr){ .kind = TAGS_GRANT, .tag = UINT64_C(1) << 32 }, 0, "out of range");
	bad((struct tags_hdr){ .kind = TAGS_CREDIT, .total = 1 }, 0, "not zero");
	bad((struct tags_hdr){ .kind = TAGS_CREDIT, .id = 1 }, 0, "not zero");
	tags_hdr_build(buf, &h);
	buf[10] = 1;
	tp_arrive_raw(0, buf, sizeof(buf));
	caught("not zero");
}

static void
test_sequence(void **state)
{
	static const uint16_t jumps[] = { 1, 2, 0x7fff, 0x8000, 0xffff };
	struct tags_hdr h = { .kind = TAGS_EAGER };
	uint8_t buf[TAGS_HDR_LEN];
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(jumps); i++) {
		h.token = tp_token(0);
		h.seq = (uint16_t)(TAGS_START + jumps[i]);
		tags_hdr_build(buf, &h);
		tp_arrive_raw(0, buf, sizeof(buf));
		caught("missing");
	}
}

/*
 * Segments that arrive after their connection has ended are dropped. A peer that sends more than
 * 256 of them does so on purpose, and its connection ends.
 */
static void
test_old_token(void **state)
{
	struct tags_hdr h = { .kind = TAGS_EAGER, .flags = TAGS_F_TAGGED, .tag = 77 };
	uint64_t old = tp_token(0);
	struct leat_op r = recv_op(77);
	unsigned int i;

	(void)state;
	tp_leave(0);
	assert_null(tp_poll());
	tp_event(LEAT_EV_DISCONNECTED, 0);
	tp_post(&r);
	for (i = 0; i < 3; i++) {
		assert_int_equal(leat_ep_events(tp_ep, NULL, 0), 0);
		assert_int_equal(tp_connect(16, 8, 4), i < 2 ? i + 2 : 0);
	}
	/*
	 * Late segments are dropped whichever peer the device names as their source, and whichever
	 * random number their token holds.
	 */
	for (i = 0; i < 192; i++) {
		tp_arrive_as((uint16_t)(i % 4), old, &h, NULL, 0);
		tp_arrive_as(0, old ^ UINT64_C(1) << 48, &h, NULL, 0);
		assert_null(tp_poll());
	}
	assert_int_equal(leat_ep_peer_state(tp_ep, 0), LEAT_PEER_UP);
	assert_int_equal(leat_op_cancel(tp_ep, &r), 0);
	assert_ptr_equal(tp_poll(), &r);
	/* Peer 0 has sent 48 and 192 late segments above: 17 more exceed its limit, 256. */
	for (i = 0; i < 17; i++)
		tp_arrive_as(0, UINT64_MAX, &h, NULL, 0);
	assert_null(tp_poll());
	assert_int_equal(tp_event(LEAT_EV_DISCONNECTED, 0).status, -EPROTO);
}

/*
 * If the device names one source for two connections between the same endpoints, the token tells
 * them apart.
 */
static void
test_same_source(void **state)
{
	struct tags_hdr h = { .kind = TAGS_EAGER, .flags = TAGS_F_TAGGED, .tag = 5, .total = 2 }, b;
	struct leat_op r[3];
	uint8_t buf[TAGS_HDR_LEN + 2];
	unsigned int i;

	(void)state;
	for (i = 0; i < 3; i++) {
		r[i] = recv_op(5);
		tp_post(&r[i]);
	}
	for (i = 0; i < 3; i++) {
		b = h;
		b.seq = (uint16_t)(TAGS_START + i / 2);
		b.done[0] = b.done[1] = b.done[2] = TAGS_START;
		b.token = tp_token(i % 2);
		tags_hdr_build(buf, &b);
		memcpy(buf + TAGS_HDR_LEN, i % 2 == 0 ? "0" : "1", 2);
		tp_arrive_raw(0, buf, sizeof(buf));
		assert_ptr_equal(tp_poll(), &r[i]);
		assert_int_equal(r[i].src, i % 2);
		assert_string_equal(text, i % 2 == 0 ? "0" : "1");
	}
}

/*
 * A second connection to the same endpoint: the other side is up first, and its messages arrive
 * over the first connection, before CONNECTED of the second. They wait for that event.
 */
static void
test_before_connected(void **state)
{
	struct tags_hdr h = { .kind = TAGS_EAGER, .flags = TAGS_F_TAGGED, .tag = 5, .total = 2 };
	struct tags_hello hello = { .window = { 8, 8, 4 },
				    .segment = TP_SEGMENT,
				    .token = TP_TOKEN };
	uint8_t buf[TAGS_HDR_LEN + 2], priv[TAGS_HELLO_LEN];
	int id = leat_ep_connect(tp_ep, "there:1", NULL);
	struct leat_op r[2], *ops[2];
	uint32_t i;

	(void)state;
	assert_true(id > 0);
	tp_known((uint16_t)id, mock.priv);
	for (i = 0; i < 2; i++) {
		r[i] = recv_op(5);
		tp_post(&r[i]);
	}
	for (i = 0; i < 2; i++) {
		h.seq = (uint16_t)(TAGS_START + i);
		h.done[0] = h.done[1] = h.done[2] = TAGS_START;
		h.token = tp_token((uint16_t)id);
		tags_hdr_build(buf, &h);
		memcpy(buf + TAGS_HDR_LEN, "x", 2);
		tp_arrive_raw(0, buf, sizeof(buf));
		assert_null(tp_poll());
	}
	tags_hello_build(priv, &hello);
	leat_peer_up(mock.ep, &mock.ep->peers[id], priv, sizeof(priv));
	tp_event(LEAT_EV_CONNECTED, (uint16_t)id);
	assert_int_equal(leat_ep_poll(tp_ep, ops, RTE_DIM(ops)), 2);
	for (i = 0; i < 2; i++) {
		assert_ptr_equal(ops[i], &r[i]);
		assert_int_equal(r[i].status, 0);
		assert_int_equal(r[i].src, id);
	}
	for (i = 0; i < 3; i++)
		assert_int_equal(leat_ep_peer_state(tp_ep, (uint16_t)i), LEAT_PEER_UP);
}

/* Of 1,000 connections, one after another, no two have the same token. */
static void
test_tokens(void **state)
{
	static uint64_t seen[1000];
	unsigned int i, k;
	uint16_t id = 0;

	(void)state;
	for (i = 0; i < RTE_DIM(seen); i++) {
		tp_leave(id);
		assert_null(tp_poll());
		tp_event(LEAT_EV_DISCONNECTED, id);
		assert_int_equal(leat_ep_events(tp_ep, NULL, 0), 0);
		id = tp_connect(16, 8, 4);
		seen[i] = tp_token(id);
		for (k = 0; k < i; k++)
			assert_int_not_equal(seen[i], seen[k]);
	}
}

/*
 * The connection of a peer that sends more segments of a class than it may have in flight ends.
 * Notices of WRITE_IMM count as segments of class MSG.
 */
static void
test_too_much(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < 8; i++)
		tp_message(0, 1, "x");
	for (i = 0; i < 8; i++)
		tp_notice(0, 1);
	assert_null(tp_poll());
	assert_null(tp_poll());
	assert_int_equal(leat_ep_peer_state(tp_ep, 0), LEAT_PEER_UP);
	tp_message(0, 1, "one too many");
	caught("credits");
	for (i = 0; i < 16; i++)
		tp_message(0, 1, "x");
	tp_notice(0, 1);
	caught("credits");
}

static void
test_credits(void **state)
{
	struct tags_hdr c = { .kind = TAGS_CREDIT }, out;
	struct leat_op s = { .type = LEAT_OP_TSEND, .queue = LEAT_QUEUE_NONE };

	(void)state;
	c.done[TAGS_C_MSG] = 1;
	bad(c, 0, "never had");
	c.done[TAGS_C_MSG] = 0;
	bad(c, 0, "no credits");
	tp_post(&s);
	assert_true(tp_sent(0, &out, NULL, NULL));
	assert_ptr_equal(tp_poll(), &s);
	c.done[TAGS_C_MSG] = 1;
	tp_arrive(0, &c, NULL, 0);
	bad(c, 0, "no credits");
	tp_post(&s);
	assert_true(tp_sent(0, &out, NULL, NULL));
	assert_ptr_equal(tp_poll(), &s);
	c.done[TAGS_C_MSG] = UINT16_MAX; /* backwards */
	bad(c, 0, "never had");
}

static void
test_answers_to_nothing(void **state)
{
	static uint8_t data[2 * TP_SEGMENT];
	struct tags_hdr out, h = { .kind = TAGS_GRANT };
	struct leat_op s = { .type = LEAT_OP_TSEND,
			     .peer = 0,
			     .queue = LEAT_QUEUE_NONE,
			     .buf = data,
			     .size = sizeof(data) };

	(void)state;
	bad((struct tags_hdr){ .kind = TAGS_GRANT }, 0, "waits for no answer");
	bad((struct tags_hdr){ .kind = TAGS_REFUSE, .id = UINT32_MAX }, 0, "waits for no answer");
	/*
	 * A grant for another peer's message is an error, and so is a second grant for the same
	 * message.
	 */
	s.peer = 1;
	tp_post(&s);
	assert_true(tp_sent(1, &out, NULL, NULL));
	h.id = out.id;
	bad(h, 0, "waits for no answer");
	tp_arrive(1, &h, NULL, 0);
	assert_null(tp_poll());
	assert_true(tp_sent(1, &out, NULL, NULL));
	assert_ptr_equal(tp_poll(), &s);
	s.peer = 0;
	tp_post(&s);
	assert_true(tp_sent(0, &out, NULL, NULL));
	h.id = out.id;
	tp_arrive(0, &h, NULL, 0);
	assert_null(tp_poll());
	tp_arrive(0, &h, NULL, 0);
	assert_ptr_equal(tp_poll(), &s);
	assert_int_equal(s.status, -ECONNRESET);
	caught("waits for no answer");
}

/*
 * A DATA segment is an error if it is for no message, for another peer's message, out of order, or
 * too long.
 */
static void
test_data(void **state)
{
	static const uint8_t data[TP_SEGMENT];
	static char buf[3 * TP_SEGMENT];
	struct tags_hdr first = { .kind = TAGS_FIRST,
				  .flags = TAGS_F_TAGGED,
				  .tag = 1,
				  .total = TP_SEGMENT + 10 },
			out, d = { .kind = TAGS_DATA };
	struct leat_op r = recv_op(1);
	unsigned int i;

	(void)state;
	r.buf = buf;
	r.size = sizeof(buf);
	bad(d, 10, "for no message");
	d.id = UINT32_MAX;
	bad(d, 10, "for no message");
	for (i = 0; i < 3; i++) {
		tp_post(&r);
		tp_arrive(0, &first, data, TP_SEGMENT);
		assert_null(tp_poll());
		assert_true(tp_sent(0, &out, NULL, NULL));
		assert_int_equal(out.kind, TAGS_GRANT);
		d.id = (uint32_t)out.tag;
		d.tag = i == 0 ? 0 : i == 1 ? TP_SEGMENT + 1 : TP_SEGMENT;
		tp_arrive(0, &d, data, i == 2 ? 11 : 10);
		assert_ptr_equal(tp_poll(), &r);
		assert_int_equal(r.status, -ECONNRESET);
		caught("not the next");
	}
	tp_post(&r);
	tp_arrive(1, &first, data, TP_SEGMENT);
	assert_null(tp_poll());
	assert_true(tp_sent(1, &out, NULL, NULL));
	d.id = (uint32_t)out.tag;
	d.tag = TP_SEGMENT;
	bad(d, 10, "for no message");
	tp_arrive(1, &d, data, 10);
	assert_ptr_equal(tp_poll(), &r);
	assert_int_equal(r.status, 0);
}

static void
test_hellos(void **state)
{
	struct tags_hello h, good = {
		.window = { 1, 1, 1 },
		.priv_len = 4,
		.segment = 64,
		.token = 1,
	};
	uint8_t buf[TAGS_HELLO_LEN + 4], bad_buf[sizeof(buf)];
	static const struct {
		unsigned int at;
		uint8_t value;
	} changes[] = { { 0, 'L' }, { 3, 0 }, { 4, 1 }, { 5, 5 },  { 6, 0 },
			{ 7, 0 },   { 8, 0 }, { 9, 1 }, { 10, 63 } };
	unsigned int i;
	struct leat_event ev;

	(void)state;
	memset(buf, 0, sizeof(buf));
	tags_hello_build(buf, &good);
	assert_null(tags_hello_parse(buf, sizeof(buf), &h));
	for (i = 0; i < RTE_DIM(changes); i++) {
		int id;

		memcpy(bad_buf, buf, sizeof(buf));
		bad_buf[changes[i].at] = changes[i].value;
		assert_non_null(tags_hello_parse(bad_buf, sizeof(buf), &h));
		id = leat_ep_connect(tp_ep, "there:1", NULL);
		assert_true(id >= 2);
		leat_peer_up(mock.ep, &mock.ep->peers[id], bad_buf, sizeof(bad_buf));
		ev = tp_event(LEAT_EV_CONNECT_FAILED, (uint16_t)id);
		assert_int_equal(ev.status, -EPROTO);
		assert_int_equal(leat_ep_events(tp_ep, NULL, 0), 0);
	}
	assert_non_null(tags_hello_parse(buf, TAGS_HELLO_LEN - 1, &h));
	assert_non_null(tags_hello_parse(buf, TAGS_HELLO_LEN + 3, &h));
}

/*
 * Over a device that would keep unexpected messages without a limit, the layer handles untagged
 * messages, too.
 */
static void
test_unbounded_device(void **state)
{
	struct leat_ep_conf conf = { .name = "any", .max_peers = 2 };
	struct leat_dev_info info;
	struct leat_ep *ep;

	(void)state;
	mock_bounded = false;
	assert_int_equal(leat_dev_info_get(leat_dev_get(0), &info), 0);
	assert_int_equal(info.ops_software, LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV) |
						    LEAT_OP_BIT(LEAT_OP_TSEND) |
						    LEAT_OP_BIT(LEAT_OP_TRECV));
	assert_false(info.unexpected_bounded);
	assert_int_equal(leat_dev_info_for(leat_dev_get(0), LEAT_OP_BIT(LEAT_OP_RECV), &info), 0);
	assert_true(info.unexpected_bounded);
	assert_int_equal(leat_ep_close(tp_ep, 0, NULL, NULL), 0);
	ep = leat_ep_create(leat_dev_get(0), &conf);
	assert_non_null(ep);
	assert_string_equal(leat_ep_name(mock.ep), "any.tags");
	assert_int_equal(leat_ep_close(ep, 0, NULL, NULL), 0);
	/* One-sided ops alone are left to the device. */
	conf.ops = LEAT_OP_BIT(LEAT_OP_WRITE);
	ep = leat_ep_create(leat_dev_get(0), &conf);
	assert_non_null(ep);
	assert_string_equal(leat_ep_name(mock.ep), "any");
	assert_int_equal(leat_ep_close(ep, 0, NULL, NULL), 0);
	mock_bounded = true;
	assert_int_equal(tp_setup(state), 0);
}

/* Random bytes do no more harm than to end their connection. */
static void
test_noise(void **state)
{
	uint8_t buf[TAGS_HDR_LEN + 64];
	uint64_t rnd = 1;
	unsigned int i, k;

	(void)state;
	for (i = 0; i < 2000; i++) {
		uint32_t len = (uint32_t)(test_random(&rnd) % sizeof(buf));

		for (k = 0; k < sizeof(buf); k++)
			buf[k] = test_random(&rnd) % 3 == 0 ? (uint8_t)test_random(&rnd) : 0;
		buf[0] = (uint8_t)(test_random(&rnd) % 8);
		tp_arrive_raw(0, buf, len);
		(void)tp_poll();
		if (leat_ep_peer_state(tp_ep, 0) != LEAT_PEER_UP)
			caught("");
	}
}

int
main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, tp_setup, tp_teardown)
	const struct CMUnitTest tests[] = {
		T(test_headers),
		T(test_sequence),
		T(test_old_token),
		T(test_same_source),
		T(test_before_connected),
		T(test_tokens),
		T(test_too_much),
		T(test_credits),
		T(test_answers_to_nothing),
		T(test_data),
		T(test_hellos),
		T(test_noise),
		T(test_unbounded_device),
	};

	return cmocka_run_group_tests(tests, tp_group_setup, tp_group_teardown);
}
