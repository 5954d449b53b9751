/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The ring itself: names, slots, a full ring, the device's arguments, closing. A lap is RING_LAP
 * slots: at its end the sender goes back to the first slot if all messages are consumed
 * (ring_fast.h).
 */

#include "ring_test.h"

#include <errno.h>
#include <string.h>

#include <rte_common.h>

#include <leat_error.h>

static void
info(void **state)
{
	struct leat_dev_info i;

	(void)state;
	assert_int_equal(leat_dev_info_get(leat_dev_by_name(PLAIN), &i), 0);
	assert_int_equal(i.tx_depth, 512);
	assert_int_equal(i.rx_depth, 1024);
	assert_int_equal(i.inline_max, 96);
	assert_int_equal(i.max_msg, 1u << 30);
	assert_int_equal(i.imm_size, 8);
	assert_true(i.directed_recv && i.source && i.send_imm && i.cancel_send);
	assert_false(i.mr_local);
	assert_int_equal(leat_dev_info_get(leat_dev_by_name(SHALLOW), &i), 0);
	assert_int_equal(i.tx_depth, 16);
	assert_int_equal(leat_dev_info_get(leat_dev_by_name(LARGE), &i), 0);
	assert_int_equal(i.inline_max, 0);
}

static void
names(void **state)
{
	static const char *const malformed[] = { "",	       "host",	"host:",  "host:x",
						 "host:65536", "a:b:1", "[::1:1", "::1]:1",
						 "[]:1",       "h:-1" };
	struct leat_ep *ep = ring_test_ep(PLAIN, NULL), *other = ring_test_ep(PLAIN, NULL);
	char addr[LEAT_ADDR_MAX];
	size_t i;

	(void)state;
	for (i = 0; i < RTE_DIM(malformed); i++) {
		assert_int_equal(leat_ep_listen(ep, malformed[i]), -EINVAL);
		assert_int_equal(leat_ep_connect(ep, malformed[i], NULL), -EINVAL);
	}
	assert_int_equal(leat_ep_connect(ep, "host:0", NULL), -EINVAL);
	assert_int_equal(leat_ep_listen(ep, "[::1]:7000"), 0);
	assert_int_equal(leat_ep_listen_addr(ep, addr, sizeof(addr)), 0);
	assert_string_equal(addr, "[::1]:7000");
	assert_int_equal(leat_ep_listen_addr(ep, addr, 10), -ENOSPC);
	/* refused: the same name, and hosts that mean any host, on the same port */
	assert_int_equal(leat_ep_listen(other, "[::1]:7000"), -EADDRINUSE);
	assert_int_equal(leat_ep_listen(other, ":7000"), -EADDRINUSE);
	assert_int_equal(leat_ep_listen(other, "0.0.0.0:7000"), -EADDRINUSE);
	assert_int_equal(leat_ep_listen(other, "host:7000"), 0);
	assert_int_equal(leat_ep_close(ep, 0, NULL, NULL), 0);
	assert_int_equal(leat_ep_close(other, 0, NULL, NULL), 0);

	/*
	 * a closed endpoint's name is free again; a listener on a wildcard gets requests to any
	 * host
	 */
	ep = ring_test_ep(PLAIN, NULL);
	other = ring_test_ep(PLAIN, NULL);
	assert_int_equal(leat_ep_listen(ep, ":7000"), 0);
	assert_int_equal(leat_ep_listen(other, "host:7000"), -EADDRINUSE);
	{
		uint16_t pa, pb;

		ring_test_connect(other, ep, "anything:7000", &pa, &pb);
	}
	assert_int_equal(leat_ep_close(ep, 0, NULL, NULL), 0);
	assert_int_equal(leat_ep_close(other, 0, NULL, NULL), 0);
}

static void
free_ports(void **state)
{
	char addr[8][LEAT_ADDR_MAX];
	struct leat_ep *ep[8];
	size_t i, k;

	(void)state;
	for (i = 0; i < RTE_DIM(ep); i++) {
		ep[i] = ring_test_ep(PLAIN, NULL);
		assert_int_equal(leat_ep_listen(ep[i], i % 2 == 0 ? ":0" : "h:0"), 0);
		assert_int_equal(leat_ep_listen_addr(ep[i], addr[i], sizeof(addr[i])), 0);
		for (k = 0; k < i; k++)
			assert_string_not_equal(strrchr(addr[i], ':'), strrchr(addr[k], ':'));
	}
	for (i = 0; i < RTE_DIM(ep); i++)
		assert_int_equal(leat_ep_close(ep[i], 0, NULL, NULL), 0);
}

static void
connect_fails(void **state)
{
	struct leat_conn_params params = { .timeout_us = 20000, .user = &params };
	struct leat_ep *a = ring_test_ep(PLAIN, NULL), *b = ring_test_ep(PLAIN, NULL);
	struct leat_event ev;
	int id;

	(void)state;
	/* the address has no listener */
	id = leat_ep_connect(a, "nobody:1", &params);
	assert_true(id >= 0);
	ring_test_event(a, NULL, LEAT_EV_CONNECT_FAILED, &ev);
	assert_int_equal(ev.status, -ECONNREFUSED);
	assert_int_equal(ev.peer, id);
	assert_ptr_equal(ev.user, &params);

	/* b listens but does not answer; a's request times out, and b must not get it any more */
	assert_int_equal(leat_ep_listen(b, "b:1"), 0);
	assert_true(leat_ep_connect(a, "b:1", &params) >= 0);
	ring_test_event(a, NULL, LEAT_EV_CONNECT_FAILED, &ev);
	assert_int_equal(ev.status, -ETIMEDOUT);
	assert_int_equal(leat_ep_events(b, &ev, 1), 0);
	assert_int_equal(leat_ep_events(b, &ev, 1), 0);

	/* the request is rejected; its id can be used again */
	assert_true(leat_ep_connect(a, "b:1", NULL) >= 0);
	ring_test_event(b, a, LEAT_EV_CONNECT_REQ, &ev);
	assert_int_equal(leat_ep_reject(b, ev.peer), 0);
	ring_test_event(a, b, LEAT_EV_CONNECT_FAILED, &ev);
	assert_int_equal(ev.status, -ECONNREFUSED);

	/* the connector withdraws a request that the listener has seen */
	id = leat_ep_connect(a, "b:1", NULL);
	ring_test_event(b, a, LEAT_EV_CONNECT_REQ, &ev);
	assert_int_equal(leat_ep_disconnect(a, (uint16_t)id), 0);
	ring_test_event(a, NULL, LEAT_EV_CONNECT_FAILED, &ev);
	ring_test_event(b, NULL, LEAT_EV_DISCONNECTED, &ev);
	assert_int_equal(ev.status, 0);

	/* the listener closes while the request waits */
	assert_true(leat_ep_connect(a, "b:1", NULL) >= 0);
	assert_int_equal(leat_ep_close(b, 0, NULL, NULL), 0);
	ring_test_event(a, NULL, LEAT_EV_CONNECT_FAILED, &ev);
	assert_int_equal(ev.status, -ECONNREFUSED);
	assert_int_equal(leat_ep_close(a, 0, NULL, NULL), 0);
}

/* A connect that comes before the listen succeeds. */
static void
connect_early(void **state)
{
	struct leat_ep *a = ring_test_ep(PLAIN, NULL), *b = ring_test_ep(PLAIN, NULL);
	struct leat_event ev;
	int i;

	(void)state;
	assert_true(leat_ep_connect(a, "late:1", NULL) >= 0);
	for (i = 0; i < 10; i++)
		assert_int_equal(leat_ep_events(a, &ev, 1), 0);
	assert_int_equal(leat_ep_listen(b, "late:1"), 0);
	ring_test_event(b, a, LEAT_EV_CONNECT_REQ, &ev);
	assert_int_equal(leat_ep_accept(b, ev.peer, NULL), 0);
	ring_test_event(a, b, LEAT_EV_CONNECTED, &ev);
	/* a closes before its application has seen CONNECTED: b is notified */
	assert_int_equal(leat_ep_close(a, 0, NULL, NULL), 0);
	ring_test_event(b, NULL, LEAT_EV_CONNECTED, &ev);
	ring_test_event(b, NULL, LEAT_EV_DISCONNECTED, &ev);
	assert_int_equal(ev.status, 0);
	assert_int_equal(leat_ep_close(b, 0, NULL, NULL), 0);
}

/* ---- slots and laps ---- */

#define NB 1024

static struct leat_op tx[NB], rx[NB];
static uint64_t out[NB], in[NB];

struct flow {
	struct ring_pair p;
	uint64_t sent, taken; /* counts of messages; each message carries its number */
};

/*
 * Send up to n messages; b need not have posted receives for them.
 * @return number of messages that the ring had room for
 */
static uint32_t
flow_send(struct flow *f, uint32_t n)
{
	struct leat_op *done[64];
	uint32_t i;

	for (i = 0; i < n; i++) {
		struct leat_op *op = &tx[f->sent % NB];

		out[f->sent % NB] = f->sent;
		*op = ring_test_send(f->p.pa, &out[f->sent % NB], 8);
		if (leat_ep_post(f->p.a, &op, 1) == 0)
			break;
		f->sent++;
		/* small messages are complete at once */
		assert_int_equal(leat_ep_poll(f->p.a, done, 64), 1);
	}
	return i;
}

static void
flow_take(struct flow *f, uint32_t n)
{
	struct leat_op *op;
	uint32_t i;

	for (i = 0; i < n; i++) {
		rx[i % NB] = ring_test_recv(&in[i % NB], 8);
		ring_test_post(f->p.b, &rx[i % NB]);
		op = ring_test_wait(f->p.b);
		assert_ptr_equal(op, &rx[i % NB]);
		assert_int_equal(op->status, 0);
		assert_int_equal(in[i % NB], f->taken);
		f->taken++;
	}
}

/* Send a message from b to a: with it a receives how many messages b has consumed. */
static void
flow_answer(struct flow *f)
{
	static uint64_t word;
	struct leat_op s = ring_test_send(f->p.pb, &word, 8), r = ring_test_recv(&word, 8);

	ring_test_post(f->p.a, &r);
	ring_test_post(f->p.b, &s);
	assert_ptr_equal(ring_test_wait(f->p.b), &s);
	assert_ptr_equal(ring_test_wait(f->p.a), &r);
}

/*
 * An empty ring has room for exactly depth messages, whichever slot the first of them uses, and the
 * messages arrive in order. Of n slots that the receiver frees in a full ring, at least n - 2 can
 * be used at once.
 */
static void
full_ring(const char *dev, uint32_t depth)
{
	struct flow f = { .sent = 0 };
	uint32_t lap, again;

	ring_pair_open(&f.p, dev, NULL);
	for (lap = 0; lap < 3 * depth; lap += 7) {
		assert_int_equal(flow_send(&f, NB), depth);
		assert_int_equal(rte_errno, EAGAIN);
		(void)leat_ep_poll(f.p.b, NULL, 0);
		assert_int_equal(flow_send(&f, 1), 0);
		flow_take(&f, lap % depth + 1);
		again = flow_send(&f, NB);
		assert_in_range(again + 2, lap % depth + 1, lap % depth + 3);
		flow_take(&f, (uint32_t)(f.sent - f.taken));
		/* if a lap ends with this message, the next one may go to the first slot */
		assert_int_equal(flow_send(&f, 1), 1);
		flow_take(&f, 1);
		flow_answer(&f);
	}
	ring_pair_close(&f.p);
}

static void
full_shallow(void **state)
{
	(void)state;
	full_ring(SHALLOW, 16);
}

static void
full_plain(void **state)
{
	(void)state;
	full_ring(PLAIN, 512);
}

/*
 * Leave some slots unused for about 65536 messages, so that the 16-bit numbers left in them equal
 * those of the messages to come, or nearly. Single messages use the first slots only; then a burst
 * uses the later slots, too. All messages must arrive, in order.
 */
static void
stale_places(void **state)
{
	struct flow f = { .sent = 0 };
	uint32_t burst, quiet, i;

	(void)state;
	ring_pair_open(&f.p, PLAIN, NULL);
	for (burst = 20; burst < 60; burst += 13) {
		for (quiet = 65536 - 80; quiet < 65536 + 40; quiet += 20) {
			assert_int_equal(flow_send(&f, burst), burst);
			flow_take(&f, burst);
			for (i = 0; i < quiet; i++) {
				assert_int_equal(flow_send(&f, 1), 1);
				flow_take(&f, 1);
				if (i % 3 == 0)
					flow_answer(&f);
			}
		}
	}
	/* then bursts of every length up to 40, near the wrap of the number */
	for (i = 0; i < 600; i++) {
		assert_int_equal(flow_send(&f, i % 40 + 1), i % 40 + 1);
		flow_take(&f, i % 40 + 1);
		flow_answer(&f);
	}
	ring_pair_close(&f.p);
}

/*
 * A tagged message that no receive takes stays in its slot. The messages after it are received, and
 * fill the ring.
 */
static void
one_stuck(void **state)
{
	struct leat_op stuck, take;
	uint64_t word = 42, got = 0;
	struct flow f = { .sent = 0 };
	uint32_t i, left;

	(void)state;
	for (left = 0; left < 34; left++) {
		f.sent = f.taken = 0;
		ring_pair_open(&f.p, SHALLOW, NULL);
		/* over the 34 rounds, stuck uses each of the 16 slots */
		flow_send(&f, left % 16);
		flow_take(&f, left % 16);
		flow_answer(&f);
		stuck = ring_test_send(f.p.pa, &word, 8);
		stuck.type = LEAT_OP_TSEND;
		stuck.tag = left;
		ring_test_post(f.p.a, &stuck);
		assert_ptr_equal(ring_test_wait(f.p.a), &stuck);
		/*
		 * The slots behind the stuck message are not free again although their messages
		 * were consumed: after 15 messages the ring is full.
		 */
		for (i = 0; i < 15; i++) {
			assert_int_equal(flow_send(&f, 1), 1);
			flow_take(&f, 1);
			flow_answer(&f);
		}
		assert_int_equal(flow_send(&f, 1), 0);
		take = ring_test_recv(&got, 8);
		take.type = LEAT_OP_TRECV;
		take.tag = left;
		ring_test_post(f.p.b, &take);
		assert_ptr_equal(ring_test_wait(f.p.b), &take);
		assert_int_equal(got, 42);
		assert_int_equal(take.tag_in, left);
		got = 0;
		assert_int_equal(flow_send(&f, NB), 16);
		flow_take(&f, 16);
		ring_pair_close(&f.p);
	}
}

/* ---- close and disconnect ---- */

static void
last_words(void **state)
{
	struct ring_pair p;
	struct leat_event ev;
	struct leat_op s[3], r[3];
	uint64_t word[3] = { 1, 2, 3 }, got[3] = { 0 };
	int i;

	(void)state;
	ring_pair_open(&p, PLAIN, NULL);
	for (i = 0; i < 3; i++) {
		s[i] = ring_test_send(p.pa, &word[i], 8);
		ring_test_post(p.a, &s[i]);
	}
	for (i = 0; i < 2; i++) {
		r[i] = ring_test_recv(&got[i], 8);
		ring_test_post(p.b, &r[i]);
	}
	assert_int_equal(leat_ep_disconnect(p.a, p.pa), 0);
	ring_test_event(p.a, NULL, LEAT_EV_DISCONNECTED, &ev);
	assert_int_equal(ev.status, -ECONNABORTED);
	/* b has not polled yet: besides the event, it still gets the messages for r[0] and r[1] */
	ring_test_event(p.b, NULL, LEAT_EV_DISCONNECTED, &ev);
	assert_int_equal(ev.status, 0);
	for (i = 0; i < 2; i++) {
		assert_ptr_equal(ring_test_wait(p.b), &r[i]);
		assert_int_equal(r[i].status, 0);
		assert_int_equal(got[i], word[i]);
	}
	/* the third message was dropped with the connection, so r[2] stays posted */
	r[2] = ring_test_recv(&got[2], 8);
	ring_test_post(p.b, &r[2]);
	assert_int_equal(leat_ep_inflight(p.b), 1);
	for (i = 0; i < 3; i++)
		assert_ptr_equal(ring_test_wait(p.a), &s[i]);
	ring_pair_close(&p);
}

/*
 * Four large sends of a are in the ring when a or b disconnects: each comes back once. s[0], which
 * a receive took, succeeds. The others fail: with -ECONNABORTED if a disconnected, -ECONNRESET if b
 * did.
 */
static void
close_with_ops(void **state)
{
	static char big[4][10000], into[10000];
	struct leat_op s[4], r, *op;
	struct leat_event ev;
	struct ring_pair p;
	int who, i;

	(void)state;
	for (who = 0; who < 2; who++) {
		ring_pair_open(&p, LARGE, NULL);
		r = ring_test_recv(into, sizeof(into));
		r.peer = p.pb;
		ring_test_post(p.b, &r);
		for (i = 0; i < 4; i++) {
			s[i] = ring_test_send(p.pa, big[i], sizeof(big[i]));
			ring_test_post(p.a, &s[i]);
		}
		/*
		 * this poll matches the first message with the receive; the others are unexpected
		 */
		(void)leat_ep_poll(p.b, NULL, 0);
		if (who == 0)
			assert_int_equal(leat_ep_disconnect(p.a, p.pa), 0);
		else
			assert_int_equal(leat_ep_disconnect(p.b, p.pb), 0);
		ring_test_event(p.a, p.b, LEAT_EV_DISCONNECTED, &ev);
		assert_int_equal(ev.status, who == 0 ? -ECONNABORTED : 0);
		ring_test_event(p.b, p.a, LEAT_EV_DISCONNECTED, &ev);
		assert_int_equal(ev.status, who == 1 ? -ECONNABORTED : 0);
		for (i = 0; i < 4; i++) {
			op = ring_test_wait(p.a);
			assert_ptr_equal(op, &s[i]);
			if (i == 0)
				assert_int_equal(op->status, 0);
			else
				assert_int_equal(op->status,
						 who == 0 ? -ECONNABORTED : -ECONNRESET);
		}
		assert_ptr_equal(ring_test_wait(p.b), &r);
		assert_int_equal(r.status, 0);
		ring_pair_close(&p);
	}
}

static void
count(struct leat_op *op, void *arg)
{
	int *n = arg;

	assert_int_equal(op->status, -ESHUTDOWN);
	(*n)++;
}

/* A close that times out aborts the endpoint: its peer gets -ECONNRESET, as after a death. */
static void
aborted(void **state)
{
	static char big[10000];
	struct leat_event ev;
	struct ring_pair p;
	struct leat_op s, r;
	int n = 0;

	(void)state;
	ring_pair_open(&p, PLAIN, NULL);
	s = ring_test_send(p.pa, big, sizeof(big));
	ring_test_post(p.a, &s);
	r = ring_test_recv(big, sizeof(big));
	r.type = LEAT_OP_TRECV;
	r.peer = p.pb;
	ring_test_post(p.b, &r);
	assert_int_equal(leat_ep_close(p.a, 1000, count, &n), -ETIMEDOUT);
	assert_int_equal(n, 1);
	ring_test_event(p.b, NULL, LEAT_EV_DISCONNECTED, &ev);
	assert_int_equal(ev.status, -ECONNRESET);
	assert_ptr_equal(ring_test_wait(p.b), &r);
	assert_int_equal(r.status, -ECONNRESET);
	assert_int_equal(leat_ep_close(p.b, 0, NULL, NULL), 0);
}

/* An endpoint that is connected to itself has two ids, one for each direction. */
static void
itself(void **state)
{
	struct leat_ep *ep = ring_test_ep(PLAIN, NULL);
	uint64_t word = 7, got = 0;
	struct leat_op s, r;
	uint16_t pa, pb;

	(void)state;
	assert_int_equal(leat_ep_listen(ep, "me:1"), 0);
	{
		struct leat_event ev;
		int id = leat_ep_connect(ep, "me:1", NULL), up;

		ring_test_event(ep, NULL, LEAT_EV_CONNECT_REQ, &ev);
		pb = ev.peer;
		assert_int_equal(leat_ep_accept(ep, pb, NULL), 0);
		for (up = 0; up < 2; up++)
			ring_test_event(ep, NULL, LEAT_EV_CONNECTED, &ev);
		pa = (uint16_t)id;
	}
	r = ring_test_recv(&got, 8);
	s = ring_test_send(pa, &word, 8);
	ring_test_post(ep, &r);
	ring_test_post(ep, &s);
	assert_ptr_equal(ring_test_wait(ep), &s);
	assert_ptr_equal(ring_test_wait(ep), &r);
	assert_int_equal(got, 7);
	assert_int_equal(r.src, pb);
	assert_int_equal(leat_ep_close(ep, 0, NULL, NULL), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(info),		  cmocka_unit_test(names),
		cmocka_unit_test(free_ports),	  cmocka_unit_test(connect_fails),
		cmocka_unit_test(connect_early),  cmocka_unit_test(full_shallow),
		cmocka_unit_test(full_plain),	  cmocka_unit_test(stale_places),
		cmocka_unit_test(one_stuck),	  cmocka_unit_test(last_words),
		cmocka_unit_test(close_with_ops), cmocka_unit_test(aborted),
		cmocka_unit_test(itself),
	};

	return cmocka_run_group_tests(tests, ring_test_start, ring_test_stop);
}
