/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Sleeping: every event at an endpoint that is armed makes its descriptor readable, no event is
 * lost between the last poll and the sleep, and an idle endpoint uses no CPU time.
 *
 * The near endpoint is frozen while it is armed: the test only polls its descriptor.
 */

#include <poll.h>
#include <time.h>

#include "ct.h"

static const struct ct_conf waits = { .wait = 1 };

static bool
readable(struct ct_node *n, int ms)
{
	struct pollfd p = { .fd = leat_ep_fd(n->ep), .events = POLLIN };
	int ret = poll(&p, 1, ms);

	CT_CHECK(ret >= 0 || errno == EINTR, "poll: %s", strerror(errno));
	CT_CHECK(ret <= 0 || p.revents == POLLIN, "the descriptor tells %#x", p.revents);
	return ret > 0;
}

/*
 * Drive the side until nothing is left to do, then arm it. @return true: it is armed, and frozen,
 * that is, not driven any more
 */
static bool
armed(struct ct_side *s)
{
	struct ct_node *n = ct_node(s);
	int ret;

	while (ct_node_step(n))
		;
	ct_node_events(n);
	ret = leat_ep_arm(n->ep);
	CT_CHECK(ret == 0 || ret == -EAGAIN || ret == -EBUSY, "arm: %s: %s", strerror(-ret),
		 leat_err_msg());
	if (ret == 0) {
		n->frozen = true;
		return true;
	}
	leat_ep_disarm(n->ep);
	return false;
}

static void
fall_asleep(struct ct_side *s)
{
	CT_UNTIL(armed(s), "%s: there is always something to do", s->what);
	/* The descriptor may be readable without a reason: arm the endpoint again. */
	if (!readable(ct_node(s), 0))
		return;
	leat_ep_disarm(ct_node(s)->ep);
	ct_node(s)->frozen = false;
	CT_UNTIL(armed(s), "%s: there is always something to do", s->what);
}

static void
get_up(struct ct_side *s)
{
	leat_ep_disarm(ct_node(s)->ep);
	ct_node(s)->frozen = false;
}

static void
wake_up(struct ct_side *s, const char *by)
{
	CT_UNTIL(readable(ct_node(s), 0), "%s: not woken by %s", s->what, by);
	get_up(s);
}

static struct ct_spec
messages(uint8_t type, uint16_t peer, uint32_t count, uint64_t size)
{
	return (struct ct_spec){ .type = type,
				 .peer = peer,
				 .count = count,
				 .size = size,
				 .seed = 9,
				 .check = type == LEAT_OP_RECV ? CT_DATA : 0 };
}

static void
message(void)
{
	struct ct_spec s = messages(LEAT_OP_RECV, LEAT_PEER_ANY, 3, 100);
	struct ct_pair p;
	uint32_t i;
	int rx, tx;

	ct_pair_open(&p, &waits, NULL);
	rx = ct_stream(&p.a, &s);
	s = messages(LEAT_OP_SEND, p.pb, 1, 100);
	for (i = 0; i < 3; i++) {
		fall_asleep(&p.a);
		s.seed = 9 + i;
		tx = ct_stream(&p.b, &s);
		wake_up(&p.a, "a message");
		ct_wait(&p.a, rx, i + 1, NULL);
		ct_wait_ok(&p.b, tx, 1);
	}
	ct_wait_ok(&p.a, rx, 3);
	ct_pair_close(&p);
}

/* The completion of a send whose receive comes late wakes the sender. */
static void
completion(void)
{
	struct ct_spec s = messages(LEAT_OP_RECV, LEAT_PEER_ANY, 1, ct_big());
	struct ct_result res;
	struct ct_pair p;
	int rx, tx;

	ct_pair_open(&p, &waits, NULL);
	ct_pair_works(&p);
	s.type = LEAT_OP_SEND;
	s.peer = p.pa;
	tx = ct_stream(&p.a, &s);
	ct_wait_posted(&p.a, tx, 1);
	fall_asleep(&p.a);
	ct_result(&p.a, tx, &res);
	CT_EQ(res.done, 0, "sends without a receive");
	s = messages(LEAT_OP_RECV, LEAT_PEER_ANY, 1, ct_big());
	rx = ct_stream(&p.b, &s);
	/*
	 * A large message may need several steps of both sides; the last step may be done before
	 * fall_asleep() arms the endpoint.
	 */
	while (wake_up(&p.a, "a completion"), !ct_try_wait(&p.a, tx, 1, 1, NULL)) {
		fall_asleep(&p.a);
		ct_result(&p.a, tx, &res);
		if (res.done == 1) {
			get_up(&p.a);
			break;
		}
	}
	ct_wait_ok(&p.a, tx, 1);
	ct_wait_ok(&p.b, rx, 1);
	ct_pair_close(&p);
}

static void
request(void)
{
	struct ct_side a = ct_near(0), b = ct_far(0);
	char addr[LEAT_ADDR_MAX];
	struct leat_event ev;
	struct ct_pair p;
	int peer;

	ct_open(&a, &waits);
	ct_open(&b, NULL);
	ct_listen(&a, addr);
	fall_asleep(&a);
	peer = ct_try_connect(&b, addr, NULL, 0, 0, 0);
	CT_CHECK(peer >= 0, "connect: %s", ct_err_text());
	wake_up(&a, "a request to connect");
	ct_event(&a, LEAT_EV_CONNECTED, LEAT_PEER_ANY, &ev);
	p = (struct ct_pair){ .a = a, .b = b, .pa = ev.peer, .pb = (uint16_t)peer };
	ct_event(&b, LEAT_EV_CONNECTED, p.pb, NULL);
	ct_pair_works(&p);
	ct_pair_close(&p);
}

/* The connecting side sleeps until the other side accepts. */
static void
acceptance(void)
{
	struct ct_side a = ct_near(0), b = ct_far(0);
	char addr[LEAT_ADDR_MAX];
	struct leat_event ev;
	struct ct_pair p;
	int peer;

	ct_open(&a, &waits);
	ct_open(&b, NULL);
	ct_listen(&b, addr);
	ct_policy(&b, CT_HOLD, NULL, 0);
	peer = ct_try_connect(&a, addr, NULL, 0, 20000000, 0);
	CT_CHECK(peer >= 0, "connect: %s", ct_err_text());
	ct_event(&b, LEAT_EV_CONNECT_REQ, LEAT_PEER_ANY, &ev);
	p = (struct ct_pair){ .a = a, .b = b, .pa = (uint16_t)peer, .pb = ev.peer };
	fall_asleep(&a);
	CT_EQ(ct_accept(&b, p.pb, NULL, 0), 0, "accept");
	while (ct_node_event_find(ct_node(&a), LEAT_EV_CONNECTED, p.pa) == NULL) {
		wake_up(&a, "the answer to its request");
		fall_asleep(&a); /* the answer may come before the sleep */
	}
	get_up(&a);
	ct_event(&a, LEAT_EV_CONNECTED, p.pa, NULL);
	ct_event(&b, LEAT_EV_CONNECTED, p.pb, NULL);
	ct_pair_works(&p);
	ct_pair_close(&p);
}

static void
disconnect(void)
{
	struct ct_spec s = messages(LEAT_OP_RECV, LEAT_PEER_ANY, 4, 100);
	struct leat_event ev;
	struct ct_pair p;

	ct_pair_open(&p, &waits, NULL);
	(void)ct_stream(&p.a, &s);
	fall_asleep(&p.a);
	CT_EQ(ct_disconnect(&p.b, p.pb), 0, "disconnect");
	wake_up(&p.a, "a peer that disconnects");
	ct_event(&p.a, LEAT_EV_DISCONNECTED, p.pa, &ev);
	ct_pair_close(&p);
}

static void
death(void)
{
	struct ct_spec s = messages(LEAT_OP_RECV, LEAT_PEER_ANY, 4, 100);
	struct leat_event ev;
	struct ct_pair p;

	ct_pair_open(&p, &waits, NULL);
	(void)ct_stream(&p.a, &s);
	fall_asleep(&p.a);
	ct_kill(&p.b);
	wake_up(&p.a, "the death of a peer");
	ct_event(&p.a, LEAT_EV_DISCONNECTED, p.pa, &ev);
	ct_finish(&p.a);
}

/*
 * Both sides sleep for a second. A side that polled in a loop would take all of the CPU time; one
 * wake-up may come from work that was under way.
 */
static void
idle(void)
{
	struct ct_spec s = messages(LEAT_OP_RECV, LEAT_PEER_ANY, 4, 100);
	struct timespec from, to;
	unsigned int wakes = 0;
	struct pollfd fds[2];
	struct ct_pair p;
	uint64_t end, now;
	int64_t us;
	int rx, tx;

	ct_pair_open(&p, &waits, &waits);
	(void)ct_stream(&p.a, &s);
	rx = ct_stream(&p.b, &s);
	ct_pump_us(100000);
	fall_asleep(&p.a);
	fall_asleep(&p.b);
	fds[0] = (struct pollfd){ .fd = leat_ep_fd(ct_node(&p.a)->ep), .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = leat_ep_fd(ct_node(&p.b)->ep), .events = POLLIN };
	end = leat_now() + leat_us_to_cycles(1000000);
	CT_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from), 0, "clock_gettime");
	while ((now = leat_now()) < end) {
		if (poll(fds, 2, (int)(leat_cycles_to_ns(end - now) / 1000000) + 1) == 0)
			continue;
		wakes++;
		wake_up(fds[0].revents != 0 ? &p.a : &p.b, "itself");
		fall_asleep(fds[0].revents != 0 ? &p.a : &p.b);
	}
	CT_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to), 0, "clock_gettime");
	us = (to.tv_sec - from.tv_sec) * 1000000 + (to.tv_nsec - from.tv_nsec) / 1000;
	ct_note("asleep for a second: %u wake-ups, %" PRId64 " us of CPU time", wakes, us);
	CT_CHECK(wakes <= 4, "woken %u times by nothing", wakes);
	CT_CHECK(us < 200000, "%" PRId64 " us of CPU time in a second of sleep", us);
	leat_ep_disarm(ct_node(&p.a)->ep);
	leat_ep_disarm(ct_node(&p.b)->ep);
	ct_freeze(&p.a, false);
	ct_freeze(&p.b, false);
	s = messages(LEAT_OP_SEND, p.pa, 4, 100);
	tx = ct_stream(&p.a, &s);
	ct_wait_ok(&p.a, tx, 4);
	ct_wait_ok(&p.b, rx, 4);
	ct_pair_close(&p);
}

/*
 * The other side sends as fast as messages are received: a message that comes between the last poll
 * and the sleep must wake the endpoint.
 */
static void
nothing_lost(void)
{
	uint32_t count = ct_scaled(5000), late = 0, sleeps = 0;
	struct ct_spec s = messages(LEAT_OP_RECV, LEAT_PEER_ANY, count, 64);
	struct ct_result res;
	struct ct_node *n;
	struct ct_pair p;
	int rx, tx, ret;

	ct_pair_open(&p, &waits, NULL);
	s.window = 2;
	rx = ct_stream(&p.a, &s);
	s = messages(LEAT_OP_SEND, p.pb, count, 64);
	s.window = 1;
	tx = ct_stream(&p.b, &s);
	n = ct_node(&p.a);
	for (;;) {
		while (ct_node_step(n))
			;
		ct_result(&p.a, rx, &res);
		if (res.done == count)
			break;
		ret = leat_ep_arm(n->ep);
		CT_CHECK(ret == 0 || ret == -EAGAIN || ret == -EBUSY, "arm: %s", strerror(-ret));
		if (ret != -EAGAIN && !readable(n, ret == 0 ? 1000 : 1))
			late += ret == 0;
		sleeps += ret == 0;
		leat_ep_disarm(n->ep);
		ct_node_events(n);
		/* Accept two late wake-ups: a loaded machine may stand still for a second. */
		CT_CHECK(late <= 2, "%u of %u sleeps took a second, %u messages came", late, sleeps,
			 res.done);
	}
	ct_note("%u messages, slept %u times", count, sleeps);
	ct_wait_ok(&p.a, rx, count);
	ct_wait_ok(&p.b, tx, count);
	ct_pair_close(&p);
}

/* Shut down while the endpoint is armed, and disarm it afterwards. */
static void
closed(void)
{
	struct ct_spec s = messages(LEAT_OP_RECV, LEAT_PEER_ANY, 8, 100);
	struct ct_pair p;
	struct ct_node *n;

	ct_pair_open(&p, &waits, &waits);
	(void)ct_stream(&p.a, &s);
	fall_asleep(&p.a);
	n = ct_node(&p.a);
	n->frozen = false;
	CT_EQ(ct_shutdown(&p.a, 1000000), 0, "shutdown while it is armed");
	leat_ep_disarm(n->ep);
	CT_UNTIL(n->shutdown_done, "it is not shut down");
	CT_UNTIL(leat_ep_arm(n->ep) == -ESHUTDOWN, "arm: not -ESHUTDOWN");
	leat_ep_disarm(n->ep);
	ct_finish(&p.a);
	ct_finish(&p.b);
}

/* An endpoint without a wait object can't be armed. */
static void
not_asked_for(void)
{
	struct ct_side a = ct_near(0);
	struct leat_ep *ep;

	ct_open(&a, NULL);
	ep = ct_node(&a)->ep;
	CT_EQ(leat_ep_fd(ep), -ENOENT, "descriptor");
	CT_EQ(leat_ep_arm(ep), -ENOENT, "arm");
	leat_ep_disarm(ep);
	ct_finish(&a);
}

#define WAIT .ops = SR, .caps = CT_CAP_WAIT

const struct ct_test ct_tests_wait[] = {
	{ "wait.message", message, 0, WAIT },
	{ "wait.completion", completion, 0, WAIT },
	{ "wait.request", request, 0, WAIT },
	{ "wait.acceptance", acceptance, 0, WAIT },
	{ "wait.disconnect", disconnect, 0, WAIT },
	{ "wait.death", death, CT_FORK_MODE, WAIT },
	{ "wait.idle", idle, CT_SELF_MODE, WAIT },
	{ "wait.nothing_lost", nothing_lost, CT_LCORES_MODE | CT_FORK_MODE, WAIT },
	{ "wait.closed", closed, 0, WAIT },
	{ "wait.not_asked_for", not_asked_for, 0, WAIT },
	{ .name = NULL },
};
