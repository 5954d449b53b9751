/* SPDX-License-Identifier: BSD-3-Clause */

/* Blocking: every order of the owner's steps and of other threads' steps. */

#include "block_test.h"

/*
 * The steps of other threads. Each is done at one of the points of a turn below:
 *
 *     message     put into the ring; the reactor's attention word exchanged; its eventfd written
 *     completion  ready, and the endpoint's descriptor written if the endpoint is armed
 */
enum point {
	BEFORE,
	POLLED,	   /* BLOCKED is not announced yet */
	ARM,	   /* BLOCKED is announced */
	ANNOUNCED, /* the endpoint has announced that it is armed */
	LOOKED,
	ASLEEP,
	DISARMED,
	AFTER,
	POINTS,
};

static struct {
	enum point message[3];
	enum point completion;
	unsigned int steps; /* steps of the message that were done */
	bool completed;
} plan;

static void
message_step(unsigned int i)
{
	static struct reactor_attn nobody;
	struct reactor_attn *attn = app.r->attn;

	switch (i) {
	case 0:
		app.r->attn = &nobody;
		assert_int_equal(leat_reactor_call(app.r, on_message, NULL), 0);
		app.r->attn = attn;
		break;
	case 1:
		reactor_attn_kick(attn);
		break;
	default:
		if (os.poke_fd != 0)
			poke(os.poke_fd);
		os.poke_fd = 0;
		break;
	}
}

static void
run_to(enum point point)
{
	while (plan.steps < 3 && plan.message[plan.steps] <= point)
		message_step(plan.steps++);
	if (!plan.completed && plan.completion <= point) {
		plan.completed = true;
		mock_arrive();
	}
}

static void
step(enum mock_point point)
{
	static const enum point points[] = {
		[MOCK_POLLED] = POLLED, [MOCK_ARM] = ARM,	    [MOCK_ANNOUNCED] = ANNOUNCED,
		[MOCK_LOOKED] = LOOKED, [MOCK_DISARMED] = DISARMED,
	};

	run_to(points[point]);
}

static void
fall_asleep(void)
{
	struct epoll_event ev;
	int epfd = app.r->block_epfd;

	run_to(ASLEEP);
	/* If no descriptor would wake the reactor, no message and no completion may be waiting. */
	if (epoll_wait(epfd, &ev, 1, 0) > 0)
		return;
	assert_true(plan.steps < 3 || reactor_messages_waiting(app.r) == 0);
	assert_int_equal(mock.nb_arrived, 0);
}

static void
interleave(void)
{
	struct leat_reactor_stats s;
	unsigned int i;

	plan.steps = 0;
	plan.completed = false;
	app.messages = 0;
	app.ops = 0;
	post_recvs(1);
	mock.step = step;
	os.meanwhile = fall_asleep;
	run_to(BEFORE);
	turns(1);
	run_to(AFTER);
	mock.step = NULL;
	os.meanwhile = NULL;
	turns(2);
	assert_int_equal(app.messages, 1);
	assert_int_equal(app.ops, 1);
	assert_int_equal(mock.nb_arm, mock.nb_disarm);

	/*
	 * A late write to the eventfd may still wake the reactor; after 4 turns only timeouts do.
	 */
	turns(4);
	s = stats();
	for (i = 0; i < 3; i++)
		turns(1);
	assert_int_equal(stats().wake_timeouts, s.wake_timeouts + 3);
	assert_int_equal(stats().blocks, s.blocks + 3);
}

static void
test_interleavings(void **state)
{
	unsigned int n = 0;
	int a, b, c, d;

	(void)state;
	os.poke_later = true;
	turn_until_blocked();
	for (a = BEFORE; a < POINTS; a++)
		for (b = a; b < POINTS; b++)
			for (c = b; c < POINTS; c++)
				for (d = BEFORE; d < POINTS; d++, n++) {
					plan.message[0] = (enum point)a;
					plan.message[1] = (enum point)b;
					plan.message[2] = (enum point)c;
					plan.completion = (enum point)d;
					interleave();
				}
	assert_int_equal(n, 960);
	assert_true(stats().wake_messages > 0);
	assert_true(stats().wake_events > 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_interleavings, setup, teardown),
	};

	return cmocka_run_group_tests(tests, test_mock_start, test_mock_stop);
}
