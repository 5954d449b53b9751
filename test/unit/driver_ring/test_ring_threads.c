/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Races between two threads with one endpoint each. Also run under ThreadSanitizer, which sees
 * whether each word that both threads touch is an atomic, and whether the atomics order the copies
 * of payloads.
 */

#include "ring_test.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <leat_error.h>

#define WINDOW 8
#define BIG (64 * 1024)

/* The state that both threads see. */
static struct {
	struct ring_pair p;
	bool stop;
	uint64_t received; /* messages that arrived whole */
	uint64_t failed;   /* receives that failed */
	int bad;	   /* failed checks: cmocka's may only be used in the first thread */
} t;

static void
second_start(pthread_t *thread, void *(*fn)(void *))
{
	t.stop = false;
	t.received = t.failed = 0;
	t.bad = 0;
	assert_int_equal(pthread_create(thread, NULL, fn, NULL), 0);
}

static void
second_stop(pthread_t thread)
{
	__atomic_store_n(&t.stop, true, __ATOMIC_RELEASE);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(t.bad, 0);
}

static bool
stopped(void)
{
	return __atomic_load_n(&t.stop, __ATOMIC_ACQUIRE);
}

/*
 * Each word of a message is the message's number, so that a buffer that was reused too early shows.
 */
static void
fill(uint64_t *buf, size_t size, uint64_t nr)
{
	size_t i;

	for (i = 0; i < size / 8; i++)
		buf[i] = nr;
}

static bool
whole(const uint64_t *buf, size_t size)
{
	size_t i;

	for (i = 1; i < size / 8; i++) {
		if (buf[i] != buf[0])
			return false;
	}
	return true;
}

/* ---- cancel against receive ---- */

static void *
receiver(void *arg)
{
	static struct leat_op ops[WINDOW];
	static uint64_t bufs[WINDOW][BIG / 8];
	struct leat_op *done[WINDOW];
	uint64_t last = 0;
	uint16_t i, n;
	int k;

	(void)arg;
	for (k = 0; k < WINDOW; k++) {
		struct leat_op *op = &ops[k];

		ops[k] = ring_test_recv(bufs[k], BIG);
		t.bad += leat_ep_post(t.p.b, &op, 1) != 1;
	}
	while (!stopped()) {
		n = leat_ep_poll(t.p.b, done, WINDOW);
		for (i = 0; i < n; i++) {
			const uint64_t *buf = done[i]->buf;

			t.bad += done[i]->status != 0 || !whole(buf, done[i]->len) ||
				 buf[0] <= last;
			last = buf[0];
			t.received++;
			t.bad += leat_ep_post(t.p.b, &done[i], 1) != 1;
		}
		(void)leat_ep_events(t.p.b, NULL, 0);
		if (n == 0)
			sched_yield();
	}
	return NULL;
}

/*
 * A cancelled send never arrives, every other send does. As soon as a send has come back, cancelled
 * or not, the caller may overwrite its buffer.
 */
static void
cancel_races(void **state)
{
	static struct leat_op ops[WINDOW];
	static uint64_t bufs[WINDOW][BIG / 8];
	uint64_t seed = 7, nr = 1, sent = 0, cancelled = 0;
	struct leat_op *done[WINDOW];
	pthread_t thread;
	int i, k, round;

	(void)state;
	ring_pair_open(&t.p, LARGE, NULL);
	second_start(&thread, receiver);
	for (round = 0; round < 3000; round++) {
		size_t size = 8 + 8 * (test_random(&seed) % (round % 16 == 0 ? BIG / 8 - 1 : 100));
		int back = 0;

		for (i = 0; i < WINDOW; i++) {
			fill(bufs[i], size, nr++);
			ops[i] = ring_test_send(t.p.pa, bufs[i], size);
			ring_test_post(t.p.a, &ops[i]);
		}
		for (k = (int)(test_random(&seed) % 400); k > 0; k--)
			__asm__ volatile("" ::: "memory");
		for (i = WINDOW - 1; i >= 0; i--) {
			if (test_random(&seed) % 4 != 0)
				(void)leat_op_cancel(t.p.a, &ops[i]);
		}
		while (back < WINDOW) {
			uint16_t n = leat_ep_poll(t.p.a, done, WINDOW);

			for (i = 0; i < n; i++) {
				assert_ptr_equal(done[i], &ops[back++]);
				if (done[i]->status == 0)
					sent++;
				else
					cancelled++;
				assert_true(done[i]->status == 0 || done[i]->status == -ECANCELED);
				fill(done[i]->buf, size, UINT64_MAX - nr);
				((uint64_t *)done[i]->buf)[0] = 0;
			}
			if (n == 0)
				sched_yield();
		}
	}
	second_stop(thread);
	while (t.received < sent) { /* complete at the sender, not yet polled by the receiver */
		(void)ring_test_wait(t.p.b);
		t.received++;
	}
	assert_int_equal(t.received, sent);
	assert_true(cancelled > 0);
	ring_pair_close(&t.p);
}

/* ---- closing in the middle of a copy ---- */

#define HUGE_MSG (2 * 1024 * 1024)

static struct leat_op sink_ops[WINDOW];
static uint64_t *sink_bufs[WINDOW];

/* Accept, receive, and now and then end the connection. */
static void *
sink(void *arg)
{
	struct leat_op *done[WINDOW];
	struct leat_event ev;
	uint64_t seed = 77;
	uint16_t i, n;

	(void)arg;
	while (!stopped()) {
		n = leat_ep_poll(t.p.b, done, WINDOW);
		for (i = 0; i < n; i++) {
			if (done[i]->status != 0)
				t.failed++;
			else
				t.received++;
			t.bad += done[i]->status == 0 &&
				 (!whole(done[i]->buf, done[i]->len) || done[i]->len != HUGE_MSG);
			t.bad += leat_ep_post(t.p.b, &done[i], 1) != 1;
			if (done[i]->src != LEAT_PEER_ANY && test_random(&seed) % 16 == 0)
				(void)leat_ep_disconnect(t.p.b, done[i]->src);
		}
		while (leat_ep_events(t.p.b, &ev, 1) == 1) {
			if (ev.type == LEAT_EV_CONNECT_REQ)
				t.bad += leat_ep_accept(t.p.b, ev.peer, NULL) != 0;
		}
		if (n == 0)
			sched_yield();
	}
	return NULL;
}

/* @return the peer id once it is up; -1 if it was accepted and ended at once */
static int
connect_to_sink(const char *addr)
{
	struct leat_event ev;
	int id = leat_ep_connect(t.p.a, addr, NULL);

	assert_true(id >= 0);
	for (;;) {
		if (leat_ep_events(t.p.a, &ev, 1) == 0) {
			sched_yield();
			continue;
		}
		if (ev.type == LEAT_EV_CONNECTED)
			return id;
		assert_true(ev.type == LEAT_EV_DISCONNECTED || ev.type == LEAT_EV_CONNECT_FAILED);
		if (ev.peer == id)
			return -1;
	}
}

static void
close_in_copy(void **state)
{
	static struct leat_op ops[WINDOW];
	static uint64_t *bufs[WINDOW];
	uint64_t seed = 3, nr = 0, ok = 0;
	struct leat_op *done[WINDOW];
	char addr[LEAT_ADDR_MAX];
	struct leat_event ev;
	pthread_t thread;
	int i, k, round, id;

	(void)state;
	t.p.a = ring_test_ep(PLAIN, NULL);
	t.p.b = ring_test_ep(PLAIN, NULL);
	assert_int_equal(leat_ep_listen(t.p.b, ":0"), 0);
	assert_int_equal(leat_ep_listen_addr(t.p.b, addr, sizeof(addr)), 0);
	for (i = 0; i < WINDOW; i++) {
		bufs[i] = malloc(HUGE_MSG);
		sink_bufs[i] = malloc(HUGE_MSG);
		assert_non_null(bufs[i]);
		assert_non_null(sink_bufs[i]);
		sink_ops[i] = ring_test_recv(sink_bufs[i], HUGE_MSG);
		ring_test_post(t.p.b, &sink_ops[i]);
	}
	second_start(&thread, sink);
	for (round = 0; round < 60; round++) {
		int back = 0, posted = 0;
		bool gone = false;

		id = connect_to_sink(addr);
		if (id < 0)
			continue;
		for (i = 0; i < WINDOW; i++) {
			fill(bufs[i], HUGE_MSG, ++nr);
			ops[i] = ring_test_send((uint16_t)id, bufs[i], HUGE_MSG);
			ring_test_post(t.p.a, &ops[i]);
			posted++;
		}
		for (k = (int)(test_random(&seed) % 8); k > 0; k--)
			sched_yield();
		if (round % 3 != 0)
			(void)leat_ep_disconnect(t.p.a, (uint16_t)id);
		while (back < posted || (!gone && round % 3 != 0)) {
			uint16_t n = leat_ep_poll(t.p.a, done, WINDOW);

			for (i = 0; i < n; i++) {
				assert_ptr_equal(done[i], &ops[back++]);
				if (done[i]->status == 0)
					ok++;
				/*
				 * the buffer is the caller's: the device must not read it any more
				 */
				fill(done[i]->buf, HUGE_MSG, 0);
				*(uint64_t *)done[i]->buf = 1;
			}
			if (leat_ep_events(t.p.a, &ev, 1) == 1) {
				assert_int_equal(ev.type, LEAT_EV_DISCONNECTED);
				gone = gone || ev.peer == id;
			}
			if (n == 0)
				sched_yield();
		}
		if (!gone) {
			(void)leat_ep_disconnect(t.p.a, (uint16_t)id);
			while (leat_ep_events(t.p.a, &ev, 1) == 0)
				sched_yield();
			assert_int_equal(ev.type, LEAT_EV_DISCONNECTED);
		}
	}
	second_stop(thread);
	for (k = 0; k < 4; k++) {
		uint16_t n = leat_ep_poll(t.p.b, done, WINDOW);

		for (i = 0; i < n; i++)
			t.received += done[i]->status == 0;
	}
	/* each message succeeded on both sides, or on neither */
	assert_int_equal(t.received, ok);
	ring_pair_close(&t.p);
	for (i = 0; i < WINDOW; i++) {
		free(bufs[i]);
		free(sink_bufs[i]);
	}
}

/* ---- all op types at once ---- */

#define STREAM 20000

struct stream {
	struct leat_ep *ep;
	uint16_t peer;
	uint64_t mem[64]; /* the peer adds to [0] and writes [1] */
	struct leat_rkey key;
	struct leat_op tx[WINDOW], rx[WINDOW], add, wr;
	uint64_t out[WINDOW][512], in[WINDOW][512];
	uint64_t sent, taken, added, word, old;
	int bad;
	bool through; /* this side needs no more polls of the other side */
};

static struct stream streams[2];

static void
stream_send(struct stream *s, struct leat_op *op)
{
	uint64_t *buf = s->out[op - s->tx];
	size_t size = 8 + 8 * (s->sent * 2654435761u >> 7) % 500;

	fill(buf, size, s->sent + 1);
	*op = ring_test_send(s->peer, buf, size);
	if (leat_ep_post(s->ep, &op, 1) == 1)
		s->sent++;
}

static void
stream_done(struct stream *s, struct leat_op *op)
{
	s->bad += op->status != 0;
	if (op->type == LEAT_OP_RECV) {
		s->taken++;
		s->bad += *(uint64_t *)op->buf != s->taken || !whole(op->buf, op->len);
		s->bad += leat_ep_post(s->ep, &op, 1) != 1;
	} else if (op->type == LEAT_OP_FETCH_ADD) {
		/* only this side adds to the peer's mem[0] */
		s->bad += s->old != s->added++;
		if (s->added < STREAM / 10)
			s->bad += leat_ep_post(s->ep, &op, 1) != 1;
	} else if (op->type == LEAT_OP_WRITE && s->added < STREAM / 10) {
		s->word++;
		s->bad += leat_ep_post(s->ep, &op, 1) != 1;
	}
}

static void *
stream_run(void *arg)
{
	struct stream *s = arg, *peer = &streams[s == &streams[0]];
	struct leat_op *done[WINDOW], *op;
	uint16_t i, n;
	int k;

	op = &s->add;
	s->add = (struct leat_op){ .type = LEAT_OP_FETCH_ADD,
				   .peer = s->peer,
				   .buf = &s->old,
				   .size = 8,
				   .raddr = peer->key.addr,
				   .rkey = peer->key.key,
				   .operand = 1,
				   .queue = LEAT_QUEUE_NONE };
	s->bad += leat_ep_post(s->ep, &op, 1) != 1;
	op = &s->wr;
	s->wr = (struct leat_op){ .type = LEAT_OP_WRITE,
				  .peer = s->peer,
				  .buf = &s->word,
				  .size = 8,
				  .raddr = peer->key.addr + 8,
				  .rkey = peer->key.key,
				  .queue = LEAT_QUEUE_NONE };
	s->bad += leat_ep_post(s->ep, &op, 1) != 1;
	while (s->bad == 0 && !stopped() &&
	       (s->sent < STREAM || s->taken < STREAM || s->added < STREAM / 10 ||
		leat_ep_inflight(s->ep) > WINDOW)) {
		for (k = 0; k < WINDOW && s->sent < STREAM; k++) {
			if (s->tx[k].state == 0)
				stream_send(s, &s->tx[k]);
		}
		n = leat_ep_poll(s->ep, done, WINDOW);
		for (i = 0; i < n; i++)
			stream_done(s, done[i]);
		if (n == 0)
			sched_yield();
	}
	if (s->bad != 0) /* the other side can't finish, either */
		__atomic_store_n(&t.stop, true, __ATOMIC_RELEASE);
	__atomic_store_n(&s->through, true, __ATOMIC_RELEASE);
	/* poll on, since ops of the other side may still need it */
	while (!stopped() && !__atomic_load_n(&peer->through, __ATOMIC_ACQUIRE)) {
		n = leat_ep_poll(s->ep, done, WINDOW);
		s->bad += n > 0;
		sched_yield();
	}
	return NULL;
}

static void
both_ways(void **state)
{
	struct leat_mr *mr[2];
	pthread_t thread;
	int i, k;

	(void)state;
	ring_pair_open(&t.p, SHALLOW, NULL);
	streams[0].ep = t.p.a;
	streams[0].peer = t.p.pa;
	streams[1].ep = t.p.b;
	streams[1].peer = t.p.pb;
	for (i = 0; i < 2; i++) {
		struct stream *s = &streams[i];

		s->through = false;
		mr[i] = leat_mr_register(s->ep, s->mem, sizeof(s->mem), LEAT_MR_REMOTE_ALL);
		assert_non_null(mr[i]);
		assert_int_equal(leat_mr_rkey(mr[i], s->mem, sizeof(s->mem), &s->key), 0);
		for (k = 0; k < WINDOW; k++) {
			s->rx[k] = ring_test_recv(s->in[k], sizeof(s->in[k]));
			ring_test_post(s->ep, &s->rx[k]);
		}
	}
	__atomic_store_n(&t.stop, false, __ATOMIC_RELEASE);
	assert_int_equal(pthread_create(&thread, NULL, stream_run, &streams[1]), 0);
	(void)stream_run(&streams[0]);
	assert_int_equal(pthread_join(thread, NULL), 0);
	for (i = 0; i < 2; i++) {
		assert_int_equal(streams[i].bad, 0);
		assert_int_equal(streams[i].taken, STREAM);
		assert_int_equal(streams[i].mem[0], STREAM / 10);
		assert_int_equal(leat_mr_deregister(mr[i]), 0);
	}
	ring_pair_close(&t.p);
}

/* ---- datagrams ---- */

#define DATAGRAMS 100000
#define DATAGRAM_MAX 4096
#define BURST 32

struct flood {
	struct leat_ep *ep;
	uint16_t peer;
	struct leat_op tx[BURST], rx[BURST];
	uint64_t out[DATAGRAM_MAX / 8], in[BURST][DATAGRAM_MAX / 8];
	uint64_t sent, taken, last;
	int bad;
	bool through;
};

static struct flood floods[2];

/*
 * Send a burst, all of it out of one buffer: the device copies a datagram in post, so the buffer is
 * free for the next one.
 */
static void
flood_send(struct flood *f, uint64_t *seed)
{
	struct leat_op *done[BURST], *op;
	size_t size;
	int i;

	for (i = 0; i < BURST; i++) {
		size = 8 + 8 * (test_random(seed) % (i % 2 == 0 ? 20 : DATAGRAM_MAX / 8));
		fill(f->out, size, ++f->sent);
		f->tx[i] = ring_test_send(f->peer, f->out, size);
		op = &f->tx[i];
		f->bad += leat_ep_post(f->ep, &op, 1) != 1;
	}
	i = 0;
	while (i < BURST) {
		uint16_t k, n = leat_ep_poll(f->ep, done, BURST);

		for (k = 0; k < n; k++) {
			if (done[k]->type == LEAT_OP_SEND) {
				f->bad += done[k]->status != 0;
				i++;
				continue;
			}
			f->bad += done[k]->status != 0 || !whole(done[k]->buf, done[k]->len);
			f->bad += *(uint64_t *)done[k]->buf <= f->last;
			f->last = *(uint64_t *)done[k]->buf;
			f->taken++;
			f->bad += leat_ep_post(f->ep, &done[k], 1) != 1;
		}
	}
}

static void *
flood_run(void *arg)
{
	struct flood *f = arg, *other = &floods[f == &floods[0]];
	uint64_t seed = 1 + (uint64_t)(f - floods);

	while (f->sent < DATAGRAMS) {
		flood_send(f, &seed);
		if (test_random(&seed) % 8 == 0)
			sched_yield();
	}
	__atomic_store_n(&f->through, true, __ATOMIC_RELEASE);
	/* Drive each endpoint as long as the other one sends. */
	while (!__atomic_load_n(&other->through, __ATOMIC_ACQUIRE)) {
		flood_send(f, &seed);
		sched_yield();
	}
	return NULL;
}

/*
 * The first thread is bound to the CPU of EAL's main lcore. The second thread would inherit that
 * CPU: let it run on any CPU.
 */
static void *
flood_elsewhere(void *arg)
{
	cpu_set_t all;
	unsigned int i;

	CPU_ZERO(&all);
	for (i = 0; i < CPU_SETSIZE; i++)
		CPU_SET(i, &all);
	/* If this fails, the thread stays on the main lcore's CPU. */
	(void)pthread_setaffinity_np(pthread_self(), sizeof(all), &all);
	return flood_run(arg);
}

/*
 * Neither side waits for the other, so the rings and their buffers are full again and again. Each
 * message that arrives is whole, and has a higher number than the one before.
 */
static void
datagrams(void **state)
{
	const struct leat_ep_conf conf = { .type = LEAT_EP_DATAGRAM,
					   .ops = LEAT_OP_BIT(LEAT_OP_SEND) |
						  LEAT_OP_BIT(LEAT_OP_RECV) };
	pthread_t thread;
	int i, k;

	(void)state;
	ring_pair_open(&t.p, DATAGRAM, &conf);
	floods[0].ep = t.p.a;
	floods[0].peer = t.p.pa;
	floods[1].ep = t.p.b;
	floods[1].peer = t.p.pb;
	for (i = 0; i < 2; i++) {
		for (k = 0; k < BURST; k++) {
			floods[i].rx[k] = ring_test_recv(floods[i].in[k], DATAGRAM_MAX);
			ring_test_post(floods[i].ep, &floods[i].rx[k]);
		}
	}
	assert_int_equal(pthread_create(&thread, NULL, flood_elsewhere, &floods[1]), 0);
	(void)flood_run(&floods[0]);
	assert_int_equal(pthread_join(thread, NULL), 0);
	for (i = 0; i < 2; i++) {
		assert_int_equal(floods[i].bad, 0);
		print_message("%" PRIu64 " of %" PRIu64 " came\n", floods[i].taken,
			      floods[!i].sent);
		assert_true(floods[i].taken > 100);
		(void)leat_ep_close(floods[i].ep, 0, NULL, NULL); /* with receives posted */
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cancel_races),
		cmocka_unit_test(close_in_copy),
		cmocka_unit_test(both_ways),
		cmocka_unit_test(datagrams),
	};

	return cmocka_run_group_tests(tests, ring_test_start, ring_test_stop);
}
