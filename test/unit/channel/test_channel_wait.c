/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Sleeping and waking, between threads: rounds in which two threads send to each other, and waits
 * that leat_channel_terminate() ends. The argument 100 gives 100 times as many of both. Within the
 * first minute no waiting participant looks again without being woken, so one lost wake-up stops
 * everything.
 */

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "channel_pvt.h"
#include "channel_test.h"

#define SIZE 4096
#define NEVER_MS 60000

static unsigned int scale = 1;

struct pair {
	struct leat_channel *ch[2][2]; /* [thread][0: to the second thread; 1: to the first] */
	unsigned int rounds;
};

/*
 * Attach to a channel of two participants, and give the handle its eventfds if the channel notifies
 * by them.
 */
static struct leat_channel *
attach(const struct shared *s, const struct leat_channel_opts *opts, const int *efd)
{
	struct leat_channel *ch = shared_attach(s, opts);

	if (ch->notify == LEAT_CHANNEL_NOTIFY_EVENTFD)
		assert_int_equal(leat_channel_set_eventfds(ch, efd, 2), 0);
	return ch;
}

/* Check that a participant was notified through its eventfd, which calls that wait don't read. */
static void
assert_eventfd_written(const struct leat_channel *ch)
{
	uint64_t n;

	assert_int_equal(read(leat_channel_fd(ch), &n, sizeof(n)), sizeof(n));
	assert_true(n > 0);
}

static void
receive(struct leat_channel *ch, uint32_t want)
{
	uint64_t from = test_now_ns();
	uint32_t n;
	int ret;

	while ((ret = recv_number(ch, &n)) == -EAGAIN)
		assert_int_equal(leat_channel_wait(ch, LEAT_CHANNEL_FOREVER), 0);
	assert_int_equal(ret, 0);
	assert_int_equal(n, want);
	assert_true(test_now_ns() - from < UINT64_C(50000000000));
}

static void *
second(void *arg)
{
	struct pair *p = arg;
	uint32_t i;

	for (i = 0; i < p->rounds; i++) {
		receive(p->ch[1][0], i);
		assert_int_equal(send_number(p->ch[1][1], i, 8), 0);
	}
	return NULL;
}

static void
play(unsigned int rounds, enum leat_channel_notify notify, enum leat_channel_wait_how how)
{
	struct leat_channel_opts opts = { .check_ms = NEVER_MS, .wait = how };
	struct leat_channel_conf conf = { .size = SIZE, .participants = 2, .notify = notify };
	struct shared s[2];
	struct pair p = { .rounds = rounds };
	int efd[2][2], i, k;
	pthread_t t;

	for (i = 0; i < 2; i++) {
		shared_make(&s[i], &conf);
		for (k = 0; k < 2; k++)
			efd[i][k] = eventfd(0, EFD_NONBLOCK);
		for (k = 0; k < 2; k++)
			p.ch[k][i] = attach(&s[i], &opts, efd[i]);
	}
	assert_int_equal(pthread_create(&t, NULL, second, &p), 0);
	for (i = 0; i < (int)rounds; i++) {
		assert_int_equal(send_number(p.ch[0][0], (uint32_t)i, 8), 0);
		receive(p.ch[0][1], (uint32_t)i);
	}
	assert_int_equal(pthread_join(t, NULL), 0);
	/* Each reader has slept at least once. */
	if (notify == LEAT_CHANNEL_NOTIFY_EVENTFD) {
		assert_eventfd_written(p.ch[1][0]);
		assert_eventfd_written(p.ch[0][1]);
	}
	for (i = 0; i < 2; i++) {
		assert_true(p.ch[0][i]->block->data.sleepers == 0);
		for (k = 0; k < 2; k++) {
			leat_channel_close(p.ch[k][i]);
			close(efd[i][k]);
		}
		shared_free(&s[i]);
	}
}

static void
no_wake_up_is_lost(void **state)
{
	(void)state;
	play(30000 * scale, LEAT_CHANNEL_NOTIFY_FUTEX, LEAT_CHANNEL_WAIT_NOTIFY);
}

static void
each_way_to_wait(void **state)
{
	enum leat_channel_wait_how how;

	(void)state;
	play(3000, LEAT_CHANNEL_NOTIFY_EVENTFD, LEAT_CHANNEL_WAIT_NOTIFY);
	/* Threads that spin need a CPU each: play only 20 rounds, or 1,000 if they yield. */
	for (how = LEAT_CHANNEL_WAIT_NOTIFY; how <= LEAT_CHANNEL_WAIT_SLEEP; how++)
		play(how == LEAT_CHANNEL_WAIT_YIELD ? 1000 : 20, LEAT_CHANNEL_NOTIFY_NONE, how);
}

static void
nothing(int sig)
{
	(void)sig;
}

struct waiter {
	struct leat_channel *ch;
	pthread_t thread;
	atomic_bool in;
	bool room;
	uint32_t len;
	uint64_t from;
	int ret;
};

static void *
wait_once(void *arg)
{
	struct waiter *w = arg;

	atomic_store(&w->in, true);
	/*
	 * The limit is shorter than NEVER_MS, after which a wait would look again without being
	 * woken.
	 */
	w->ret = w->room ? leat_channel_wait_room(w->ch, w->len, NEVER_MS / 2 * UINT64_C(1000000))
			 : leat_channel_wait(w->ch, NEVER_MS / 2 * UINT64_C(1000000));
	return NULL;
}

/* Signals end no wait, in whichever way the thread waits: only the frame ends it. */
static void
a_signal_ends_no_wait(void **state)
{
	struct leat_channel_conf conf = { .size = SIZE, .participants = 2 };
	struct leat_channel_opts opts = { .check_ms = NEVER_MS };
	struct sigaction sa = { .sa_handler = nothing };
	int efd[2], i;
	struct leat_channel *ch;
	struct waiter w;
	struct shared s;
	unsigned int way;

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &sa, NULL), 0);
	for (way = 0; way < 2 + LEAT_CHANNEL_WAIT_SLEEP + 1; way++) {
		conf.notify = way == 1 ? LEAT_CHANNEL_NOTIFY_EVENTFD : LEAT_CHANNEL_NOTIFY_FUTEX;
		opts.wait = way < 2 ? LEAT_CHANNEL_WAIT_NOTIFY : way - 2;
		shared_make(&s, &conf);
		for (i = 0; i < 2; i++)
			efd[i] = eventfd(0, EFD_NONBLOCK);
		ch = attach(&s, NULL, efd);
		w = (struct waiter){ .ch = attach(&s, &opts, efd), .ret = 1 };
		assert_int_equal(pthread_create(&w.thread, NULL, wait_once, &w), 0);
		while (!atomic_load(&w.in))
			sched_yield();
		for (i = 0; i < 50; i++) {
			assert_int_equal(pthread_kill(w.thread, SIGUSR1), 0);
			sched_yield();
		}
		assert_int_equal(w.ret, 1);
		assert_int_equal(send_number(ch, 0, 8), 0);
		assert_int_equal(pthread_join(w.thread, NULL), 0);
		assert_int_equal(w.ret, 0);
		leat_channel_close(w.ch);
		leat_channel_close(ch);
		close(efd[0]);
		close(efd[1]);
		shared_free(&s);
	}
}

/*
 * Two threads wait, in turn: w[0] for a frame, w[1] for room. The end wakes each, and no sleeper
 * bit stays set.
 */
static void *
wait_for_ends(void *arg)
{
	struct waiter *w = arg;

	for (;;) {
		struct leat_channel *ch = __atomic_load_n(&w->ch, __ATOMIC_ACQUIRE);

		if (ch == NULL) {
			sched_yield();
			continue;
		}
		if ((void *)ch == (void *)w)
			return NULL;
		w->ret = w->room ? leat_channel_wait_room(ch, 1000, LEAT_CHANNEL_FOREVER)
				 : leat_channel_wait(ch, LEAT_CHANNEL_FOREVER);
		/* synchronizes with the main thread */
		__atomic_store_n(&w->ch, NULL, __ATOMIC_RELEASE);
	}
}

static void
terminate_wakes_all(void **state)
{
	struct leat_channel_conf conf = { .size = SIZE };
	struct leat_channel_opts opts = { .check_ms = NEVER_MS };
	struct leat_channel *ch[2], *main_ch;
	struct waiter w[2] = { { .room = false }, { .room = true } };
	unsigned int i, k, waits = 10000 * scale / 2;
	struct shared s;
	uint32_t n;

	(void)state;
	shared_make(&s, &conf);
	for (k = 0; k < 2; k++)
		assert_int_equal(pthread_create(&w[k].thread, NULL, wait_for_ends, &w[k]), 0);
	for (i = 0; i < waits; i++) {
		assert_int_equal(leat_channel_format(s.mem, s.bytes, &conf), 0);
		main_ch = shared_attach(&s, NULL);
		for (k = 0; k < 2; k++)
			ch[k] = shared_attach(&s, &opts);
		/*
		 * In even rounds the channel is full, and w[1] waits for room. In odd rounds the
		 * channel is empty, and w[0] waits for a frame.
		 */
		if (i % 2 == 0) {
			for (n = 0; n < 4 && send_number(main_ch, n, 1000) == 0; n++)
				;
			__atomic_store_n(&w[1].ch, ch[1], __ATOMIC_RELEASE);
		} else {
			__atomic_store_n(&w[0].ch, ch[0], __ATOMIC_RELEASE);
		}
		/*
		 * In some rounds the thread sleeps when the channel ends, in others it is about to.
		 */
		for (n = 0; n < i % 64; n++)
			sched_yield();
		assert_int_equal(leat_channel_terminate(main_ch), 0);
		for (k = 0; k < 2; k++)
			while (__atomic_load_n(&w[k].ch, __ATOMIC_ACQUIRE) != NULL)
				sched_yield();
		assert_int_equal(w[(i + 1) % 2].ret, -ESHUTDOWN);
		assert_true(main_ch->block->data.sleepers == 0 &&
			    main_ch->block->room.sleepers == 0);
		for (k = 0; k < 2; k++)
			leat_channel_close(ch[k]);
		leat_channel_close(main_ch);
	}
	for (k = 0; k < 2; k++) {
		__atomic_store_n(&w[k].ch, (struct leat_channel *)&w[k], __ATOMIC_RELEASE);
		assert_int_equal(pthread_join(w[k].thread, NULL), 0);
	}
	shared_free(&s);
}

/* Start a writer that waits for room for a small frame; return when it sleeps, or is about to. */
static void
sleep_for_room(struct waiter *w, const struct shared *s)
{
	struct leat_channel_opts opts = { .check_ms = NEVER_MS };

	*w = (struct waiter){ .ch = shared_attach(s, &opts), .len = 8, .room = true, .ret = 1 };
	w->from = test_now_ns();
	assert_int_equal(pthread_create(&w->thread, NULL, wait_once, w), 0);
	while (atomic_load(&w->ch->block->room.sleepers) == 0)
		sched_yield();
}

static void
woke(struct waiter *w)
{
	assert_int_equal(pthread_join(w->thread, NULL), 0);
	assert_int_equal(w->ret, 0);
	/* The wait was woken, and did not time out. */
	assert_true(test_now_ns() - w->from < NEVER_MS / 4 * UINT64_C(1000000));
	leat_channel_close(w->ch);
}

/* @return a channel with three frames of 1000 bytes and one of 900, and no room for another */
static struct leat_channel *
fill(const struct shared *s, const struct leat_channel_opts *opts)
{
	struct leat_channel *ch = shared_attach(s, opts);
	uint32_t i;

	for (i = 0; i < 3; i++)
		assert_int_equal(send_number(ch, i, 1000), 0);
	assert_int_equal(send_number(ch, 3, 900), 0);
	assert_int_equal(leat_channel_wait_room(ch, 8, 0), -ETIMEDOUT);
	return ch;
}

/* The oldest frame is overwritten for a smaller one: the rest of its room wakes another writer. */
static void
dropping_the_oldest_wakes_writers(void **state)
{
	struct leat_channel_conf conf = { .size = SIZE };
	struct leat_channel_opts opts = { .full = LEAT_CHANNEL_FULL_DROP_OLDEST };
	struct leat_channel_frame f;
	struct leat_channel *ch;
	struct waiter w;
	struct shared s;
	int returned;

	(void)state;
	for (returned = 0; returned < 2; returned++) {
		shared_make(&s, &conf);
		ch = fill(&s, &opts);
		/*
		 * The oldest frame is at the read position, or was given back and lies before it.
		 */
		if (returned) {
			assert_int_equal(leat_channel_peek(ch, &f, 1), 1);
			assert_int_equal(leat_channel_give_back(ch), 0);
		}
		sleep_for_room(&w, &s);
		assert_int_equal(send_number(ch, 4, 8), 0);
		woke(&w);
		leat_channel_close(ch);
		shared_free(&s);
	}
}

static void
dropping_an_invalid_frame_wakes_writers(void **state)
{
	struct leat_channel_conf conf = { .size = SIZE };
	struct leat_channel_opts opts = { .invalid = LEAT_CHANNEL_INVALID_SKIP };
	struct leat_channel_frame f;
	struct leat_channel *ch;
	struct waiter w;
	struct shared s;

	(void)state;
	shared_make(&s, &conf);
	ch = fill(&s, &opts);
	chan_frame(ch, 0)->type = 0;
	sleep_for_room(&w, &s);
	assert_int_equal(leat_channel_peek(ch, &f, 1), 1);
	/*
	 * The writer is woken while the second frame is still held: the room is that of the dropped
	 * frame.
	 */
	woke(&w);
	assert_int_equal(leat_channel_consume(ch), 0);
	leat_channel_close(ch);
	shared_free(&s);
}

/* For the thread sanitizer: two writers and two readers, singly and in bursts, in one process. */
struct worker {
	struct leat_channel *ch;
	pthread_t thread;
	unsigned int me;
	uint64_t sum;
};

#define FRAMES 20000

static void *
write_many(void *arg)
{
	struct worker *w = arg;
	struct leat_channel_frame f[3];
	uint8_t data[3][64];
	uint32_t i, k;

	for (i = 0; i < FRAMES; i += 3) {
		for (k = 0; k < 3; k++) {
			frame_fill(data[k], 64, i + k);
			f[k] = (struct leat_channel_frame){ .data = data[k], .len = 64, .type = 1 };
			w->sum += i + k;
		}
		if (i % 2 == 0) {
			for (k = 0; k < 3;)
				k += (uint32_t)leat_channel_send_burst(w->ch, &f[k], 3 - k);
		} else {
			for (k = 0; k < 3; k++)
				assert_int_equal(leat_channel_send(w->ch, 1, 0, data[k], 64), 0);
		}
	}
	return NULL;
}

static void *
read_many(void *arg)
{
	struct worker *w = arg;
	struct leat_channel_frame f[16];
	uint32_t n = 0;
	int i, ret;

	for (;;) {
		ret = leat_channel_peek(w->ch, f, 1 + w->me * 15);
		if (ret == -EAGAIN)
			ret = leat_channel_wait(w->ch, LEAT_CHANNEL_FOREVER);
		if (ret == -ESHUTDOWN)
			return NULL;
		assert_true(ret >= 0);
		for (i = 0; i < ret; i++) {
			assert_true(frame_whole(f[i].data, f[i].len, &n));
			w->sum += n;
		}
		if (ret > 0)
			assert_int_equal(leat_channel_consume(w->ch), 0);
	}
}

static void
threads(void **state)
{
	struct leat_channel_opts opts = { .full = LEAT_CHANNEL_FULL_WAIT,
					  .full_ns = LEAT_CHANNEL_FOREVER };
	struct leat_channel_conf conf = { .size = 8192 };
	struct worker w[4] = { 0 };
	struct leat_channel *ch;
	struct shared s;
	unsigned int i;

	(void)state;
	shared_make(&s, &conf);
	ch = shared_attach(&s, &opts);
	for (i = 0; i < 4; i++) {
		w[i].ch = leat_channel_join(ch, &opts);
		w[i].me = i % 2;
		assert_int_equal(pthread_create(&w[i].thread, NULL, i < 2 ? write_many : read_many,
						&w[i]),
				 0);
	}
	for (i = 0; i < 4; i++) {
		if (i == 2)
			assert_int_equal(leat_channel_terminate(ch), 0);
		assert_int_equal(pthread_join(w[i].thread, NULL), 0);
		leat_channel_close(w[i].ch);
	}
	assert_true(w[0].sum + w[1].sum == w[2].sum + w[3].sum);
	leat_channel_close(ch);
	shared_free(&s);
}

/* leat_channel_error() tells about the end, whichever call has found it. */
static void
the_end_in_words(void **state)
{
	const struct leat_channel_conf conf = { .size = SIZE };
	struct shared s;
	struct leat_channel *ch;

	(void)state;
	shared_make(&s, &conf);
	ch = shared_attach(&s, NULL);
	assert_int_equal(leat_channel_terminate(ch), 0);
	assert_int_equal(leat_channel_consume(ch), -EINVAL);
	assert_null(strstr(leat_channel_error(), "terminated"));
	assert_int_equal(leat_channel_wait_room(ch, 8, 0), -ESHUTDOWN);
	assert_non_null(strstr(leat_channel_error(), "terminated"));
	leat_channel_close(ch);
	shared_free(&s);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_wake_up_is_lost),
		cmocka_unit_test(each_way_to_wait),
		cmocka_unit_test(a_signal_ends_no_wait),
		cmocka_unit_test(terminate_wakes_all),
		cmocka_unit_test(dropping_the_oldest_wakes_writers),
		cmocka_unit_test(dropping_an_invalid_frame_wakes_writers),
		cmocka_unit_test(threads),
		cmocka_unit_test(the_end_in_words),
	};

	if (argc > 1)
		scale = (unsigned int)atoi(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
