/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages to a reactor that stops: each is run or was refused, whenever it was sent.
 */

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include <leat_cursor.h>

#include "activity.h"
#include "reactor_pvt.h"
#include "reactor_test.h"
#include "ring.h"

static unsigned int ran, dropped;

static void
on_message(void *arg)
{
	(void)arg;
	ran++;
}

static void
on_drop(void *arg)
{
	(void)arg;
	dropped++;
}

static int
setup(void **state)
{
	ran = 0;
	dropped = 0;
	return test_clock_setup(state);
}

static void
stop(struct leat_reactor *r)
{
	leat_reactor_stop(r, LEAT_REACTOR_STOP_NO_DEADLINE);
	assert_int_equal(test_turns_until_stopped(r), -ESHUTDOWN);
}

/* A stopped reactor refuses messages until it is run again. */
struct rerun {
	struct leat_reactor *r;
	unsigned int turns;
};

static int
send_and_stop(void *arg, uint64_t now)
{
	struct rerun *c = arg;

	(void)now;
	if (c->turns++ == 0)
		assert_int_equal(leat_reactor_call(c->r, on_message, NULL), 0);
	else
		leat_reactor_stop(c->r, 0);
	return 1;
}

static void
test_stopped_one_refuses(void **state)
{
	struct rerun c = { .r = test_reactor("r") };
	unsigned int i;

	(void)state;
	assert_int_equal(leat_reactor_call(c.r, on_message, NULL), 0);
	stop(c.r);
	assert_int_equal(ran, 1);
	rte_errno = 0;
	assert_int_equal(leat_reactor_call(c.r, on_message, NULL), -ESHUTDOWN);
	assert_int_equal(rte_errno, ESHUTDOWN);
	assert_non_null(leat_reactor_poller_add(c.r, "p", send_and_stop, &c, 0));
	for (i = 2; i < 5; i++) {
		c.turns = 0;
		assert_int_equal(leat_reactor_run(c.r), 0);
		assert_int_equal(ran, i);
		assert_int_equal(leat_reactor_call(c.r, on_message, NULL), -ESHUTDOWN);
	}
	assert_int_equal(leat_reactor_destroy(c.r), 0);
	assert_int_equal(ran, 4);
}

/*
 * Send a message at the last moment: after the messages of the last turn were run, while the
 * pollers are asked whether they are busy.
 */
static struct leat_reactor *asking;

static int
last_moment(void *arg, char *what, size_t len)
{
	(void)arg;
	(void)what;
	(void)len;
	if (leat_reactor_call(asking, on_message, NULL) == 0)
		dropped++; /* accepted, so it must be run */
	return 0;
}

static void
test_the_last_one_is_run(void **state)
{
	struct leat_reactor *r = test_reactor("r");
	struct test_poller p = { .ret = 0 };

	(void)state;
	asking = r;
	test_poller_add(r, &p, "p", 0);
	assert_int_equal(leat_poller_quiesce_set(p.p, last_moment), 0);
	stop(r);
	assert_true(dropped > 0);
	assert_int_equal(ran, dropped);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

/* Work that the last message gives to a poller is done before the reactor has stopped. */
static bool busy;

static int
is_busy(void *arg, char *what, size_t len)
{
	(void)arg;
	(void)what;
	(void)len;
	return busy;
}

static int
works(void *arg, uint64_t now)
{
	struct leat_reactor *r = arg;
	int ret = busy;

	(void)now;
	if (busy)
		assert_int_equal(leat_reactor_call(r, on_message, NULL), -ESHUTDOWN);
	busy = false;
	ran += ret;
	return ret;
}

static void
bring_work(void *arg)
{
	(void)arg;
	busy = true;
}

static int
last_work(void *arg, char *what, size_t len)
{
	(void)what;
	(void)len;
	(void)leat_reactor_call(arg, bring_work, NULL);
	return 0;
}

static void
test_last_message_brings_work(void **state)
{
	struct leat_reactor *r = test_reactor("r");
	struct leat_poller *p;

	(void)state;
	busy = false;
	p = leat_reactor_poller_add(r, "works", works, r, 0);
	assert_non_null(p);
	assert_int_equal(leat_poller_quiesce_set(p, is_busy), 0);
	p = leat_reactor_poller_add(r, "brings", works, r, 0);
	assert_non_null(p);
	assert_int_equal(leat_poller_quiesce_set(p, last_work), 0);
	stop(r);
	assert_int_equal(ran, 1);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

/*
 * A reactor is destroyed without a stop: the drop callback of each message that never ran is called
 * once.
 */
static void
test_destroyed(void **state)
{
	struct leat_reactor *r = test_reactor("r");

	(void)state;
	assert_int_equal(leat_reactor_call_drop(r, NULL, on_drop, NULL), -EINVAL);
	assert_int_equal(leat_reactor_call_drop(r, on_message, on_drop, NULL), 0);
	test_turns(r, 1);
	assert_int_equal(ran, 1);
	assert_int_equal(leat_reactor_call_drop(r, on_message, on_drop, NULL), 0);
	assert_int_equal(leat_reactor_call(r, on_message, NULL), 0);
	assert_int_equal(leat_reactor_call_drop(r, on_message, on_drop, NULL), 0);
	assert_int_equal(leat_reactor_destroy(r), 0);
	assert_int_equal(ran, 1);
	assert_int_equal(dropped, 2);

	/* A reactor that never ran drops its message, too. */
	r = test_reactor("r");
	assert_int_equal(leat_reactor_call_drop(r, on_message, on_drop, NULL), 0);
	assert_int_equal(leat_reactor_destroy(r), 0);
	assert_int_equal(dropped, 3);
}

/*
 * A launch that fails drops the messages sent since the reactor was claimed. After it no message
 * seems to be running, and the reactor runs messages again.
 */
static void
test_dropped_not_running(void **state)
{
	struct leat_reactor *r = test_reactor("r");
	struct reactor_activity activity;
	struct leat_reactor_stats s;

	(void)state;
	assert_int_equal(leat_reactor_call(r, on_message, NULL), 0);
	stop(r);
	assert_int_equal(ran, 1);
	/* These are the calls of claim() and unclaim(). */
	reactor_messages_open(r);
	assert_int_equal(leat_reactor_call(r, on_message, NULL), 0);
	assert_int_equal(leat_reactor_call_drop(r, on_message, on_drop, NULL), 0);
	assert_int_equal(reactor_messages_drop(r), 1);
	assert_int_equal(dropped, 1);
	reactor_activity_get(r, &activity);
	assert_int_equal(activity.kind, REACTOR_NOWHERE);

	reactor_messages_open(r);
	assert_int_equal(leat_reactor_call(r, on_message, NULL), 0);
	leat_reactor_stop(r, LEAT_REACTOR_STOP_NO_DEADLINE);
	assert_int_equal(leat_reactor_run(r), 0);
	assert_int_equal(ran, 2);
	reactor_activity_get(r, &activity);
	assert_int_equal(activity.kind, REACTOR_NOWHERE);
	leat_reactor_stats_get(r, &s);
	assert_int_equal(s.messages, 2);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

/*
 * Each step of a sender at each moment of the stop. The steps of the sender: it takes a ticket,
 * which reserves a place in the ring; then it writes its message there. The moments of the stop are
 * given by a poller that is asked whether it is busy (twice: before the ring is closed and after),
 * and by the wait for a sender that has a ticket but has not written yet.
 */
enum moment { BEFORE, TURN, ASKED, ASKED_AGAIN, WAITED, AFTER, MOMENTS };

static struct {
	struct leat_reactor *r;
	enum moment reserve, publish;
	enum moment now;
	uint64_t ticket;
	int ret;
	unsigned int done;
	unsigned int asked;
} sender;

static void
sender_to(enum moment moment)
{
	sender.now = moment;
	if (sender.done == 0 && sender.reserve <= moment) {
		sender.ret = reactor_ring_reserve(sender.r->ring, &sender.ticket);
		sender.done = sender.ret == 0 ? 1 : 2;
	}
	if (sender.done == 1 && sender.publish <= moment) {
		reactor_ring_publish(sender.r->ring, sender.ticket, on_message, NULL, NULL);
		sender.done = 2;
		reactor_attn_kick(sender.r->attn);
	}
}

static int
sender_quiesce(void *arg, char *what, size_t len)
{
	(void)arg;
	(void)what;
	(void)len;
	sender_to(sender.asked++ == 0 ? ASKED : ASKED_AGAIN);
	return 0;
}

static int
sender_turn(void *arg, uint64_t now)
{
	(void)arg;
	(void)now;
	sender_to(TURN);
	return 0;
}

static void
sender_yield(void)
{
	/* The stop yields only while it waits for a sender that has a ticket. */
	assert_int_equal(sender.done, 1);
	sender_to(WAITED);
	sender_to(AFTER);
}

static void
no_wake(uint32_t *word)
{
	(void)word;
}

static void
test_sender_against_the_end(void **state)
{
	static const struct reactor_sys table = { .yield = sender_yield, .wake = no_wake };
	const struct reactor_sys *real = reactor_sys;
	unsigned int refused = 0, accepted = 0;
	enum moment a, b;

	(void)state;
	for (a = BEFORE; a < MOMENTS; a++)
		for (b = a; b < MOMENTS; b++) {
			struct leat_reactor *r = test_reactor("r");
			struct test_poller p = { .ret = 0 };

			ran = 0;
			memset(&sender, 0, sizeof(sender));
			sender.r = r;
			sender.reserve = a;
			sender.publish = b;
			p.p = leat_reactor_poller_add(r, "p", sender_turn, NULL, 0);
			assert_non_null(p.p);
			assert_int_equal(leat_poller_quiesce_set(p.p, sender_quiesce), 0);
			reactor_sys = &table;
			sender_to(BEFORE);
			leat_reactor_stop(r, LEAT_REACTOR_STOP_NO_DEADLINE);
			assert_int_equal(test_turns_until_stopped(r), -ESHUTDOWN);
			reactor_sys = real;
			sender_to(AFTER);
			assert_int_equal(sender.done, 2);
			assert_int_equal(ran, sender.ret == 0);
			if (sender.ret == 0)
				accepted++;
			else
				refused++;
			assert_int_equal(leat_reactor_destroy(r), 0);
		}
	print_message("%u accepted, %u refused\n", accepted, refused);
	assert_true(accepted > 0 && refused > 0);
}

/*
 * The ring is filled and emptied by random amounts, and closed and opened again in every 16th
 * round, while its ticket numbers wrap at 2^64.
 */
static void
test_ring_wraps(void **state)
{
	struct reactor_ring *ring =
		aligned_alloc(LEAT_CACHE_LINE, sizeof(*ring) + 4 * LEAT_CACHE_LINE);
	struct reactor_message m;
	uint64_t ticket = 0, i, sent = 0, got = 0, seed = 3;

	(void)state;
	assert_non_null(ring);
	reactor_ring_init(ring, 8);
	assert_true(ring->tail > UINT64_MAX - 1000);
	for (i = 0; i < 5000; i++) {
		unsigned int n = (unsigned int)(test_random(&seed) % 10);

		while (n-- > 0) {
			int ret = reactor_ring_reserve(ring, &ticket);

			assert_int_equal(ret, sent - got == 8 ? -EAGAIN : 0);
			if (ret < 0)
				break;
			reactor_ring_publish(ring, ticket, on_message, NULL,
					     (void *)(uintptr_t)sent);
			sent++;
		}
		if (i % 16 == 0) {
			reactor_ring_close(ring);
			assert_int_equal(reactor_ring_reserve(ring, &ticket), -ESHUTDOWN);
		}
		assert_int_equal(reactor_ring_count(ring), sent - got);
		for (n = (unsigned int)(test_random(&seed) % 10);
		     n > 0 && reactor_ring_take(ring, &m); n--)
			assert_int_equal((uintptr_t)m.arg, got++);
		assert_int_equal(reactor_ring_count(ring), sent - got);
		reactor_ring_open(ring);
	}
	assert_true(ring->tail < 1000000);
	free(ring);
}

/*
 * Threads that send while the reactor stops and runs again: accepted messages are run, the others
 * refused.
 */
#define SENDERS 3

struct stress {
	struct leat_reactor *r;
	uint64_t until; /* number of messages after which the reactor stops */
	uint32_t end;
	uint64_t accepted[SENDERS];
	uint64_t refused;
	uint64_t ran;
};

struct stress_sender {
	struct stress *s;
	unsigned int i;
};

static void
stress_message(void *arg)
{
	struct stress *s = arg;

	s->ran++;
}

static void *
stress_send(void *arg)
{
	struct stress_sender *t = arg;
	struct stress *s = t->s;

	while (__atomic_load_n(&s->end, __ATOMIC_RELAXED) == 0) {
		int ret = leat_reactor_call(s->r, stress_message, s);

		if (ret == 0)
			s->accepted[t->i]++;
		else if (ret == -ESHUTDOWN)
			__atomic_fetch_add(&s->refused, 1, __ATOMIC_RELAXED);
		else
			assert_int_equal(ret, -EAGAIN);
		if (ret < 0)
			(void)sched_yield();
	}
	return NULL;
}

static int
stress_poll(void *arg, uint64_t now)
{
	struct stress *s = arg;

	(void)now;
	if (s->ran >= s->until)
		leat_reactor_stop(s->r, LEAT_REACTOR_STOP_NO_DEADLINE);
	return 0;
}

static unsigned int stress_rounds = 60;

static void
test_senders_and_stops(void **state)
{
	const struct leat_reactor_conf conf = { .name = "r",
						.messages = 16,
						.idle.policy = LEAT_IDLE_YIELD };
	struct stress s = { .r = leat_reactor_create(&conf) };
	struct stress_sender senders[SENDERS];
	uint64_t accepted = 0;
	pthread_t thread[SENDERS];
	unsigned int i;

	(void)state;
	assert_non_null(s.r);
	leat_clock_mock_set(NULL);
	assert_non_null(leat_reactor_poller_add(s.r, "stop", stress_poll, &s, 0));
	for (i = 0; i < SENDERS; i++) {
		senders[i] = (struct stress_sender){ .s = &s, .i = i };
		assert_int_equal(pthread_create(&thread[i], NULL, stress_send, &senders[i]), 0);
	}
	for (i = 0; i < stress_rounds; i++) {
		s.until = s.ran + 1 + i % 20;
		assert_int_equal(leat_reactor_run(s.r), 0);
		assert_int_equal(reactor_messages_waiting(s.r), 0);
		/* Wait until the stopped reactor has refused i + 1 messages in all. */
		while (__atomic_load_n(&s.refused, __ATOMIC_RELAXED) <= i)
			(void)sched_yield();
	}
	__atomic_store_n(&s.end, 1, __ATOMIC_RELAXED);
	for (i = 0; i < SENDERS; i++) {
		assert_int_equal(pthread_join(thread[i], NULL), 0);
		accepted += s.accepted[i];
	}
	print_message("%" PRIu64 " accepted, %" PRIu64 " refused\n", accepted, s.refused);
	assert_int_equal(s.ran, accepted);
	assert_int_equal(leat_reactor_destroy(s.r), 0);
}

#define CASE(f) cmocka_unit_test_setup(f, setup)

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(test_stopped_one_refuses),
		CASE(test_the_last_one_is_run),
		CASE(test_last_message_brings_work),
		CASE(test_destroyed),
		CASE(test_dropped_not_running),
		CASE(test_sender_against_the_end),
		CASE(test_ring_wraps),
		CASE(test_senders_and_stops),
	};

	if (argc > 1)
		stress_rounds = (unsigned int)strtoul(argv[1], NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
