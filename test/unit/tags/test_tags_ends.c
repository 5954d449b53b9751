/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * How connections of the tag layer end cleanly: a side sends BYE after all its segments, and only
 * after the answer the device's connection ends.
 */

#include <string.h>

#include "leat_cmocka.h"
#include "tags_peer.h"

static char bufs[8][16];

static struct leat_op
trecv(uint64_t tag, unsigned int buf)
{
	return (struct leat_op){ .type = LEAT_OP_TRECV,
				 .peer = LEAT_PEER_ANY,
				 .tag = tag,
				 .queue = LEAT_QUEUE_NONE,
				 .buf = bufs[buf],
				 .size = sizeof(bufs[buf]) };
}

static struct leat_op
tsend(uint16_t peer, uint64_t tag)
{
	return (struct leat_op){
		.type = LEAT_OP_TSEND, .peer = peer, .tag = tag, .queue = LEAT_QUEUE_NONE
	};
}

/* Check that the next segment to peer 0 is of that kind, and has that sequence number. */
static void
expect(enum tags_kind kind, uint16_t seq)
{
	struct tags_hdr h;

	assert_true(tp_sent(0, &h, NULL, NULL));
	assert_int_equal(h.kind, kind);
	assert_int_equal(h.seq, seq);
}

/*
 * Segments that wait for the device when their connection is closed go out before BYE: the peer
 * misses none.
 */
static void
test_bye_behind_what_waits(void **state)
{
	struct leat_op s[6], w = { .type = LEAT_OP_WRITE, .queue = LEAT_QUEUE_NONE };
	unsigned int i;

	(void)state;
	mock.tx_max = 2;
	for (i = 0; i < 6; i++) {
		s[i] = tsend(0, i);
		tp_post(&s[i]);
	}
	tp_post(&w);
	assert_int_equal(tp_sends(), 2);
	assert_int_equal(leat_ep_disconnect(tp_ep, 0), 0);
	for (i = 0; i < 7; i++) {
		assert_non_null(tp_poll());
		if (i == 6)
			assert_int_equal(w.status, -ECONNABORTED);
	}
	for (i = 0; i < 6; i++) {
		assert_int_equal(s[i].status, -ECONNABORTED);
		expect(TAGS_EAGER, (uint16_t)i);
		assert_null(tp_poll());
	}
	expect(TAGS_BYE, 6);
	assert_null(tp_poll());
	/* The connection does not end before BYE was answered. */
	assert_int_equal(leat_ep_events(tp_ep, NULL, 0), 0);
	assert_int_equal(mock.nb_disconnect, 0);
	tp_message(0, 1, "late");
	tp_bye(0);
	assert_null(tp_poll());
	assert_int_equal(mock.nb_disconnect, 1);
	assert_int_equal(tp_event(LEAT_EV_DISCONNECTED, 0).status, -ECONNABORTED);
}

/*
 * When the other side closes, its earlier messages can still be received, its BYE is answered, and
 * the connection ends with status 0.
 */
static void
test_bye_of_the_peer(void **state)
{
	struct leat_op r[2], s = tsend(0, 5);

	(void)state;
	mock.tx_max = 1;
	tp_post(&s);
	tp_message(0, 1, "one");
	tp_message(0, 2, "two");
	tp_bye(0);
	assert_null(tp_poll());
	assert_int_equal(leat_ep_peer_state(tp_ep, 0), LEAT_PEER_UP);
	r[0] = trecv(2, 0);
	r[1] = trecv(1, 1);
	tp_post(&r[0]);
	assert_ptr_equal(tp_poll(), &r[0]);
	assert_string_equal(bufs[0], "two");
	expect(TAGS_EAGER, 0);
	assert_ptr_equal(tp_poll(), &s);
	tp_post(&r[1]);
	assert_ptr_equal(tp_poll(), &r[1]);
	assert_string_equal(bufs[1], "one");
	expect(TAGS_BYE, 1);
	assert_null(tp_poll());
	/* The other side disconnects, not this one. */
	assert_int_equal(mock.nb_disconnect, 0);
	s = tsend(0, 6);
	tp_post(&s);
	assert_int_equal(tp_sends(), 0);
	leat_peer_closing(mock.ep, &mock.ep->peers[0], 0, "there:1 disconnected");
	leat_peer_down(mock.ep, &mock.ep->peers[0]);
	assert_int_equal(tp_event(LEAT_EV_DISCONNECTED, 0).status, 0);
	assert_ptr_equal(tp_poll(), &s);
	assert_int_equal(s.status, -ECONNRESET);
}

static void
test_both_at_once(void **state)
{
	struct leat_op s = tsend(0, 5);

	(void)state;
	tp_post(&s);
	tp_message(0, 1, "on its way");
	tp_bye(0);
	assert_int_equal(leat_ep_disconnect(tp_ep, 0), 0);
	assert_ptr_equal(tp_poll(), &s);
	assert_int_equal(s.status, -ECONNABORTED);
	assert_int_equal(mock.nb_disconnect, 0);
	expect(TAGS_EAGER, 0);
	expect(TAGS_BYE, 1);
	assert_null(tp_poll());
	assert_int_equal(mock.nb_disconnect, 1);
	assert_int_equal(tp_event(LEAT_EV_DISCONNECTED, 0).status, -ECONNABORTED);
}

/* A peer that sends BYE, and disconnects before the answer reaches it, has closed cleanly. */
static void
test_answer_fails(void **state)
{
	uint32_t i;

	(void)state;
	tp_bye(0);
	assert_null(tp_poll());
	for (i = 0; i < mock.nb_ops && mock.ops[i]->type != LEAT_OP_SEND; i++)
		;
	assert_true(i < mock.nb_ops);
	mock_finish(mock.ep, i, -EIO, 0);
	assert_null(tp_poll());
	assert_int_equal(mock.nb_disconnect, 0);
	leat_peer_closing(mock.ep, &mock.ep->peers[0], -ECONNRESET, "there:1: connection lost");
	leat_peer_down(mock.ep, &mock.ep->peers[0]);
	assert_int_equal(tp_event(LEAT_EV_DISCONNECTED, 0).status, 0);
}

/* The application closes while the peer's BYE is being answered. */
static void
test_close_while_answering(void **state)
{
	(void)state;
	tp_bye(0);
	assert_null(tp_poll());
	assert_int_equal(leat_ep_disconnect(tp_ep, 0), 0);
	assert_int_equal(mock.nb_disconnect, 0);
	expect(TAGS_BYE, 0);
	assert_null(tp_poll());
	assert_int_equal(mock.nb_disconnect, 1);
	tp_event(LEAT_EV_DISCONNECTED, 0);
	/*
	 * If peer 1's BYE is answered before the application closes, the connection ends at once.
	 */
	tp_bye(1);
	assert_null(tp_poll());
	{
		struct tags_hdr h;

		assert_true(tp_sent(1, &h, NULL, NULL));
	}
	assert_null(tp_poll());
	assert_int_equal(leat_ep_disconnect(tp_ep, 1), 0);
	assert_int_equal(mock.nb_disconnect, 2);
	tp_event(LEAT_EV_DISCONNECTED, 1);
}

/*
 * A connection ends after at most 500 ms, even if the peer does not answer BYE, or the device does
 * not accept the BYE.
 */
static void
test_no_answer(void **state)
{
	static uint64_t now;
	struct leat_event ev[4];
	unsigned int i;

	(void)state;
	now = leat_now();
	leat_clock_mock_set(&now);
	assert_int_equal(leat_ep_disconnect(tp_ep, 0), 0);
	expect(TAGS_BYE, 0);
	mock.tx_max = 1;
	assert_int_equal(leat_ep_disconnect(tp_ep, 1), 0);
	for (i = 0; i < 4; i++) {
		now += leat_us_to_cycles(100 * 1000);
		assert_null(tp_poll());
		assert_int_equal(leat_ep_events(tp_ep, NULL, 0), 0);
	}
	assert_int_equal(mock.nb_disconnect, 0);
	now += leat_us_to_cycles(100 * 1000);
	assert_int_equal(leat_ep_events(tp_ep, NULL, 0), 0);
	leat_clock_mock_set(NULL);
	assert_int_equal(mock.nb_disconnect, 2);
	assert_int_equal(leat_ep_events(tp_ep, ev, RTE_DIM(ev)), 2);
	assert_int_equal(ev[0].type, LEAT_EV_DISCONNECTED);
	assert_int_equal(ev[1].type, LEAT_EV_DISCONNECTED);
}

/* Segments that the device loses while a connection is ending are not a breach of the protocol. */
static void
test_cut_by_the_device(void **state)
{
	struct tags_hdr h = { .kind = TAGS_EAGER, .token = tp_token(0), .seq = TAGS_START + 3 };
	uint8_t buf[TAGS_HDR_LEN];
	struct leat_event ev;

	(void)state;
	leat_peer_closing(mock.ep, &mock.ep->peers[0], -ECONNRESET, "there:1 died");
	tags_hdr_build(buf, &h);
	tp_arrive_raw(0, buf, sizeof(buf));
	assert_null(tp_poll());
	leat_peer_down(mock.ep, &mock.ep->peers[0]);
	ev = tp_event(LEAT_EV_DISCONNECTED, 0);
	assert_int_equal(ev.status, -ECONNRESET);
	assert_non_null(strstr(ev.text, "died"));
}

/* If a connection ends in the middle of long messages of both sides, both ops fail. */
static void
test_half_done(void **state)
{
	static uint8_t big[3 * TP_SEGMENT], got[sizeof(big)];
	struct tags_hdr first = { .kind = TAGS_FIRST,
				  .flags = TAGS_F_TAGGED,
				  .tag = 1,
				  .total = sizeof(big) },
			data = { .kind = TAGS_DATA, .tag = TP_SEGMENT }, h;
	struct leat_op r = trecv(1, 0), s = tsend(0, 2);

	(void)state;
	r.buf = got;
	r.size = sizeof(got);
	s.buf = big;
	s.size = sizeof(big);
	tp_post(&r);
	tp_post(&s);
	tp_arrive(0, &first, big, TP_SEGMENT);
	assert_null(tp_poll());
	expect(TAGS_FIRST, 0);
	assert_true(tp_sent(0, &h, NULL, NULL));
	assert_int_equal(h.kind, TAGS_GRANT);
	data.id = (uint32_t)h.tag;
	tp_arrive(0, &data, big, TP_SEGMENT);
	tp_bye(0);
	assert_null(tp_poll());
	expect(TAGS_BYE, 2);
	assert_null(tp_poll());
	leat_peer_closing(mock.ep, &mock.ep->peers[0], 0, "there:1 disconnected");
	leat_peer_down(mock.ep, &mock.ep->peers[0]);
	assert_int_equal(tp_event(LEAT_EV_DISCONNECTED, 0).status, 0);
	assert_non_null(tp_poll());
	assert_non_null(tp_poll());
	assert_int_equal(r.status, -ECONNRESET);
	assert_int_equal(s.status, -ECONNRESET);
}

/* An endpoint that is closed sends BYE to all peers, even while ops are in flight. */
static void
test_close(void **state)
{
	struct leat_op s = tsend(0, 5);
	unsigned int i, byes = 0;

	(void)state;
	tp_post(&s);
	mock.keep_on_abort = false;
	assert_int_equal(leat_ep_shutdown(tp_ep, 0), 0);
	assert_int_equal(leat_ep_events(tp_ep, NULL, 0), 0);
	assert_int_equal(mock.nb_abort, 0);
	for (i = 0; i < mock.nb_ops; i++)
		byes += mock.ops[i]->type == LEAT_OP_SEND &&
			((const uint8_t *)mock.ops[i]->buf)[0] == TAGS_BYE;
	assert_int_equal(byes, 2);
	assert_ptr_equal(tp_poll(), &s);
	assert_int_equal(s.status, -ESHUTDOWN);
}

int
main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, tp_setup, tp_teardown)
	const struct CMUnitTest tests[] = {
		T(test_bye_behind_what_waits),
		T(test_bye_of_the_peer),
		T(test_answer_fails),
		T(test_both_at_once),
		T(test_close_while_answering),
		T(test_no_answer),
		T(test_cut_by_the_device),
		T(test_half_done),
		T(test_close),
	};

	return cmocka_run_group_tests(tests, tp_group_setup, tp_group_teardown);
}
