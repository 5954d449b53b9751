/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The tag layer's room for sending. Segments that do not complete hold up the connection of their
 * own peer, and no other connection.
 */

#include <string.h>

#include "leat_cmocka.h"
#include "tags_peer.h"

#define STUCK (TP_PEERS - 1)
#define EACH 40
/*
 * With 16 peers (see tags_pvt.h), in segments: each peer's own, those shared by all, and the most
 * that one peer may use.
 */
#define OWN 4
#define SHARED 256
#define SEGMENTS 24

static struct leat_op ops[STUCK][EACH], writes[STUCK];
static uint16_t live, stuck[STUCK];
static unsigned int sent, attempts;

static int
setup(void **state)
{
	(void)state;
	memset(ops, 0, sizeof(ops));
	memset(writes, 0, sizeof(writes));
	attempts = sent = 0;
	tp_open(TP_PEERS, 1024);
	live = tp_connect(16, 8, 4);
	return 0;
}

static struct leat_op
tsend(uint16_t peer, uint64_t tag)
{
	return (struct leat_op){
		.type = LEAT_OP_TSEND, .peer = peer, .tag = tag, .queue = LEAT_QUEUE_NONE
	};
}

/*
 * Connect a further peer, which claims the largest windows, and post EACH sends to it. That is more
 * than the SEGMENTS that one peer may use.
 */
static void
stick(unsigned int i)
{
	unsigned int k;

	stuck[i] = tp_connect(255, 255, 255);
	for (k = 0; k < EACH; k++) {
		ops[i][k] = tsend(stuck[i], k);
		tp_post(&ops[i][k]);
	}
}

/*
 * Send n messages of two segments to the live peer: the first segment, and, once that is granted,
 * the second.
 */
static void
alive(unsigned int n)
{
	static uint8_t big[2 * TP_SEGMENT];
	struct tags_hdr h, grant = { .kind = TAGS_GRANT };
	struct leat_op s;

	for (; n > 0; n--, sent++) {
		s = tsend(live, sent);
		s.buf = big;
		s.size = sizeof(big);
		tp_post(&s);
		assert_true(tp_sent(live, &h, NULL, NULL));
		assert_int_equal(h.kind, TAGS_FIRST);
		assert_int_equal(h.tag, sent);
		grant.id = h.id;
		grant.done[TAGS_C_MSG] = (uint16_t)(sent + 1);
		grant.done[TAGS_C_DATA] = (uint16_t)sent;
		tp_arrive(live, &grant, NULL, 0);
		assert_null(tp_poll());
		assert_true(tp_sent(live, &h, NULL, NULL));
		while (h.kind != TAGS_DATA)
			assert_true(tp_sent(live, &h, NULL, NULL));
		assert_ptr_equal(tp_poll(), &s);
		assert_int_equal(s.status, 0);
	}
}

static unsigned int
sends_to(uint16_t peer)
{
	unsigned int i, n = 0;

	for (i = 0; i < mock.nb_ops; i++)
		n += mock.ops[i]->type == LEAT_OP_SEND && mock.ops[i]->peer == peer;
	return n;
}

/*
 * 1 to 15 peers whose segments the device does not complete use no more than their share of the
 * segments; messages to the live peer go on.
 */
static void
test_stuck_peers(void **state)
{
	unsigned int i, shared = SHARED, n;

	(void)state;
	for (i = 0; i < STUCK; i++) {
		stick(i);
		n = RTE_MIN(shared, (unsigned int)(SEGMENTS - OWN));
		shared -= n;
		assert_int_equal(sends_to(stuck[i]), OWN + n);
		alive(5);
	}
	assert_int_equal(shared, 0);
}

/* When the segments of the stuck peers complete, their waiting messages go on, in order. */
static void
test_back(void **state)
{
	struct tags_hdr h;
	unsigned int i, k;

	(void)state;
	for (i = 0; i < STUCK; i++)
		stick(i);
	for (i = 0; i < STUCK; i++) {
		for (k = 0; k < EACH; k++) {
			assert_true(tp_sent(stuck[i], &h, NULL, NULL));
			assert_int_equal(h.tag, k);
			assert_ptr_equal(tp_poll(), &ops[i][k]);
		}
	}
	alive(5);
}

/*
 * Connections end while the device has their segments. All their ops come back, and messages to the
 * live peer go on.
 */
static void
test_gone(void **state)
{
	struct leat_event ev;
	struct leat_op *op;
	unsigned int i, round, n;

	(void)state;
	for (round = 0; round < 5; round++) {
		for (i = 0; i < STUCK; i++)
			stick(i);
		alive(2);
		for (i = 0; i < STUCK; i++) {
			/* The mock device ends the connection, and returns all its ops. */
			assert_int_equal(leat_ep_disconnect(mock.ep, stuck[i]), 0);
			n = 0;
			while (leat_ep_events(tp_ep, &ev, 1) == 0)
				;
			assert_int_equal(ev.type, LEAT_EV_DISCONNECTED);
			while ((op = tp_poll()) != NULL) {
				assert_int_equal(op->status, -ECONNABORTED);
				n++;
			}
			assert_int_equal(n, EACH);
		}
		assert_int_equal(leat_ep_events(tp_ep, NULL, 0), 0);
		alive(2);
	}
}

static bool
refuses(const struct leat_op *op)
{
	if (op->type != LEAT_OP_SEND || op->peer == live)
		return true;
	attempts++;
	return false;
}

/*
 * While the device accepts no sends to the stuck peers, these sends are tried again, but not all of
 * them in each poll.
 */
static void
test_refused(void **state)
{
	struct tags_hdr h;
	unsigned int i, k;

	(void)state;
	mock.takes = refuses;
	for (i = 0; i < STUCK; i++)
		stick(i);
	alive(5);
	attempts = 0;
	for (i = 0; i < 30; i++)
		assert_null(tp_poll());
	/* tp_poll() polls three times, and each of the 90 polls makes one to four attempts. */
	assert_in_range(attempts, 90, 90 * 4);
	mock.takes = NULL;
	for (i = 0; i < STUCK; i++)
		assert_null(tp_poll());
	for (i = 0; i < STUCK; i++) {
		for (k = 0; k < EACH; k++) {
			assert_true(tp_sent(stuck[i], &h, NULL, NULL));
			assert_int_equal(h.tag, k);
			assert_ptr_equal(tp_poll(), &ops[i][k]);
		}
	}
}

static bool
refuses_live(const struct leat_op *op)
{
	return op->type != LEAT_OP_SEND || op->peer != live;
}

/* Let the next segment of the live peer arrive, which acknowledges this number of replies. */
static void
live_sends(struct tags_hdr h, uint32_t bytes, uint16_t replies)
{
	static const uint8_t zeros[TP_SEGMENT];

	h.done[TAGS_C_REPLY] = replies;
	tp_arrive(live, &h, zeros, bytes);
}

/*
 * The device refuses a reply, after any number of messages. Building the reply has freed a buffer,
 * and if a CREDIT is due for it, the peer is put on the todo list just before tags_todo_run() puts
 * it on the refused list.
 */
static void
test_refused_reply(void **state)
{
	const struct tags_hdr eager = {
		.kind = TAGS_EAGER, .flags = TAGS_F_TAGGED, .tag = 5, .total = 2
	};
	const struct tags_hdr first = {
		.kind = TAGS_FIRST, .flags = TAGS_F_TAGGED, .tag = 5, .total = 72
	};
	struct tags_hdr h, data = { .kind = TAGS_DATA, .tag = 64 };
	static uint8_t in[72];
	struct leat_op r;
	uint16_t k, i;

	(void)state;
	for (k = 0; k < 20; k++) {
		for (i = 0; i <= k; i++) {
			r = (struct leat_op){ .type = LEAT_OP_TRECV,
					      .peer = live,
					      .tag = 5,
					      .queue = LEAT_QUEUE_NONE,
					      .buf = in,
					      .size = sizeof(in) };
			tp_post(&r);
			mock.takes = i == k ? refuses_live : NULL;
			live_sends(i == k ? first : eager, i == k ? 64 : 2, k);
			if (i < k)
				assert_ptr_equal(tp_poll(), &r);
			while (i < k && tp_sent(live, &h, NULL, NULL))
				assert_null(tp_poll());
		}
		for (i = 0; i < 3; i++)
			assert_null(tp_poll());
		mock.takes = NULL;
		assert_null(tp_poll());
		do
			assert_true(tp_sent(live, &h, NULL, NULL));
		while (h.kind != TAGS_GRANT);
		data.id = (uint32_t)h.tag;
		live_sends(data, 8, (uint16_t)(k + 1));
		assert_ptr_equal(tp_poll(), &r);
		assert_int_equal(r.status, 0);
		while (tp_sent(live, &h, NULL, NULL))
			assert_null(tp_poll());
	}
}

/* One-sided ops to stuck peers use none of the room for segments. */
static void
test_onesided(void **state)
{
	static struct leat_op w[800];
	unsigned int i, n = 0;

	(void)state;
	memset(w, 0, sizeof(w));
	stick(0);
	for (i = 0; i < RTE_DIM(w); i++) {
		w[i] = (struct leat_op){ .type = LEAT_OP_WRITE,
					 .peer = stuck[0],
					 .queue = LEAT_QUEUE_NONE };
		tp_post(&w[i]);
	}
	for (i = 0; i < mock.nb_ops; i++)
		n += mock.ops[i]->type == LEAT_OP_WRITE;
	/* 1024 ops less the segments for which room is kept, with 16 peers. */
	assert_int_equal(n, 1024 - TP_PEERS * OWN - SHARED);
	alive(5);
}

int
main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, tp_teardown)
	const struct CMUnitTest tests[] = {
		T(test_stuck_peers), T(test_back),	    T(test_gone),
		T(test_refused),     T(test_refused_reply), T(test_onesided),
	};

	return cmocka_run_group_tests(tests, tp_group_setup, tp_group_teardown);
}
