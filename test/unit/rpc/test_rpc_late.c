/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Answers that come too late: after the request was cancelled or its time was up, after its session
 * ended, or after a new session began. They leak neither memory nor slots, write to no buffer, and
 * are never taken for the answer to another request.
 */

#include <errno.h>
#include <string.h>

#include "rpc_pair.h"
#include "rpc_pvt.h"

#define TIMES 100000
#define BATCH 32

static volatile uint64_t now;
static struct leat_rpc_req reqs[2 * BATCH];
static uint8_t in[2 * BATCH][16];

static int
setup_clock(void **state)
{
	now = 1000000;
	leat_clock_mock_set(&now);
	return pair_setup(state);
}

static int
setup_slow(void **state)
{
	(void)setup_clock(state);
	a.rpc->slow = b.rpc->slow = true;
	return 0;
}

static int
setup_dgram(void **state)
{
	now = 1000000;
	leat_clock_mock_set(&now);
	return pair_setup_dgram(state);
}

static int
teardown_clock(void **state)
{
	int ret = pair_teardown(state);

	leat_clock_mock_set(NULL);
	return ret;
}

static void
post_later(struct leat_rpc_session *s, unsigned int i, uint64_t deadline)
{
	reqs[i] = (struct leat_rpc_req){ .session = s,
					 .type = LATER,
					 .buf = "request",
					 .len = 7,
					 .resp = in[i],
					 .room = 16,
					 .deadline = deadline };
	memset(in[i], 0x11, 16);
	post1(&reqs[i]);
}

/* Let the server answer all requests, with bytes that must not reach any buffer. */
static void
answer_all(void)
{
	while (b.nb_later > 0) {
		struct leat_rpc_incoming *t = b.later[--b.nb_later];

		memset(t->resp, 0xdd, 16);
		t->resp_len = 16;
		leat_rpc_answer(t, 0);
	}
}

/* Refill the buffer as soon as the request is back; the late answer must not touch it. */
static void
refill(unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		memset(in[i], 0x22, 16);
}

static void
untouched(unsigned int n)
{
	static uint8_t want[16];
	unsigned int i;

	memset(want, 0x22, 16);
	for (i = 0; i < n; i++)
		assert_memory_equal(in[i], want, 16);
}

static void
close_all(struct leat_rpc_session *s)
{
	b.closes = true;
	assert_int_equal(leat_rpc_close(s, 0), 0);
	drive_until(stats_of(&a).sessions == 0 && stats_of(&b).sessions == 0);
	assert_int_equal(stats_of(&a).tx_packets + stats_of(&b).tx_packets, 0);
	assert_int_equal(stats_of(&b).tickets, 0);
}

static void
works(struct leat_rpc_session *s)
{
	uint8_t resp[8];

	assert_int_equal(call(s, ECHO, "12345678", 8, resp, 8), 8);
	assert_memory_equal(resp, "12345678", 8);
}

static void
test_cancelled(void **state)
{
	struct leat_rpc_session *s = connected();
	uint64_t n, late = 0;
	unsigned int i;

	(void)state;
	for (n = 0; n < TIMES; n += BATCH) {
		for (i = 0; i < BATCH; i++)
			post_later(s, i, LEAT_RPC_NO_DEADLINE);
		drive_until(b.nb_later == BATCH);
		for (i = 0; i < BATCH; i++) {
			assert_int_equal(leat_rpc_cancel(&reqs[i]), 0);
			assert_int_equal(leat_rpc_cancel(&reqs[i]), -ENOENT);
		}
		/* The calls come back at once, without a turn of the other side. */
		end_drive(&a);
		for (i = 0; i < BATCH; i++) {
			assert_int_equal(reqs[i].state, 0);
			assert_int_equal(reqs[i].status, -ECANCELED);
			assert_int_equal(reqs[i].refused, 0);
		}
		refill(BATCH);
		drive(3);
		for (i = 0; i < b.nb_later; i++)
			assert_true(b.later[i]->cancelled);
		late += b.nb_later;
		answer_all();
		drive_until(stats_of(&a).late == late);
		untouched(BATCH);
	}
	works(s);
	assert_int_equal(stats_of(&a).cancelled, TIMES);
	close_all(s);
}

static void
test_expired(void **state)
{
	struct leat_rpc_session *s = connected();
	uint64_t n, late = 0;
	unsigned int i;

	(void)state;
	for (n = 0; n < TIMES; n += BATCH) {
		/* 2 * BATCH requests for BATCH slots: the second half never leaves this side. */
		for (i = 0; i < 2 * BATCH; i++)
			post_later(s, i, now + 50000);
		drive_until(b.nb_later == BATCH);
		now += 49000;
		end_drive(&a);
		assert_int_equal(a.nb_back, 2 * n);
		now += 20000;
		end_drive(&a);
		drive_until(a.nb_back == 2 * n + 2 * BATCH);
		for (i = 0; i < 2 * BATCH; i++) {
			assert_int_equal(reqs[i].status, -ETIMEDOUT);
			assert_int_equal(reqs[i].refused, i >= BATCH);
		}
		refill(2 * BATCH);
		late += b.nb_later;
		answer_all();
		drive_until(stats_of(&a).late == late);
		untouched(2 * BATCH);
	}
	assert_int_equal(stats_of(&a).expired, 2 * TIMES);
	/*
	 * The other side has counted these answers as unwaited, since their deadlines had passed.
	 */
	assert_int_equal(stats_of(&b).unwaited, TIMES);
	works(s);
	close_all(s);
}

/*
 * The server answers after its side of the session has ended, also when there is a new session: no
 * request gets these answers.
 */
static void
test_ended(void **state)
{
	struct leat_rpc_session *s;
	uint64_t n;
	unsigned int i;

	(void)state;
	a.closes = b.closes = true;
	for (n = 0; n < TIMES; n += BATCH) {
		unsigned int ended = a.nb_ev[LEAT_RPC_ENDED];
		uint64_t back = a.nb_back;

		s = connected();
		for (i = 0; i < BATCH; i++)
			post_later(s, i, LEAT_RPC_NO_DEADLINE);
		drive_until(b.nb_later == BATCH);
		assert_int_equal(leat_rpc_close(b.accepted, 0), 0);
		drive_until(a.nb_ev[LEAT_RPC_ENDED] > ended && a.nb_back == back + BATCH);
		for (i = 0; i < BATCH; i++)
			assert_int_equal(reqs[i].status, -ENOTCONN);
		refill(BATCH);
		if (n % (2 * BATCH) == 0) {
			/*
			 * The new connection uses the session slot, request slots and numbers of
			 * the old one.
			 */
			s = connected();
			for (i = 0; i < BATCH; i++)
				assert_null(b.later[i]->session);
			for (i = BATCH; i < 2 * BATCH; i++)
				post_later(s, i, LEAT_RPC_NO_DEADLINE);
			drive_until(b.nb_later == 2 * BATCH);
			/* The old requests are answered, the new ones wait. */
			for (i = 0; i < BATCH; i++) {
				memset(b.later[i]->resp, 0xdd, 16);
				b.later[i]->resp_len = 16;
				leat_rpc_answer(b.later[i], 0);
			}
			memmove(b.later, b.later + BATCH, BATCH * sizeof(b.later[0]));
			b.nb_later = BATCH;
			drive(5);
			for (i = BATCH; i < 2 * BATCH; i++)
				assert_int_not_equal(reqs[i].state, 0);
			for (i = 0; i < BATCH; i++) {
				memset(b.later[i]->resp, 0x33, 16);
				b.later[i]->resp_len = 16;
				leat_rpc_answer(b.later[i], 0);
			}
			b.nb_later = 0;
			drive_until(a.nb_back == back + 2 * BATCH);
			for (i = BATCH; i < 2 * BATCH; i++) {
				assert_int_equal(reqs[i].status, 0);
				assert_int_equal(in[i][0], 0x33);
			}
			assert_int_equal(leat_rpc_close(s, 0), 0);
		} else {
			answer_all();
		}
		drive_until(stats_of(&a).sessions == 0 && stats_of(&b).sessions == 0);
		untouched(BATCH);
	}
	assert_int_equal(stats_of(&b).tickets, 0);
}

/* Long calls are cancelled in the middle of the request, and in the middle of the response. */
static void
test_long(void **state)
{
	static uint8_t big[1 << 20], resp[1 << 20], copy[1 << 20];
	struct leat_rpc_session *s = connected();
	struct leat_rpc_req req = { 0 };
	unsigned int turns, i;

	(void)state;
	for (turns = 0; turns < 40; turns++) {
		req = (struct leat_rpc_req){ .session = s,
					     .type = ECHO_LARGE,
					     .buf = big,
					     .len = sizeof(big),
					     .resp = resp,
					     .room = sizeof(resp),
					     .deadline = turns % 2 == 0 ? LEAT_RPC_NO_DEADLINE
									: now + 1000 };
		memset(resp, 0, sizeof(resp));
		post1(&req);
		drive(turns / 2);
		if (turns % 2 == 0) {
			(void)leat_rpc_cancel(&req);
		} else {
			now += 100000;
		}
		end_drive(&a);
		assert_int_equal(req.state, 0);
		memcpy(copy, resp, sizeof(resp));
		drive(100);
		if (req.status != 0)
			assert_memory_equal(resp, copy, sizeof(resp));
		works(s);
		for (i = 0; i < 100000 && stats_of(&b).large > 0; i++)
			drive(1);
		assert_int_equal(stats_of(&b).large, 0);
	}
	/* The call `other` is cancelled before its first piece was sent: it has used no number. */
	for (turns = 0; turns < 10; turns++) {
		struct leat_rpc_req other = { .session = s,
					      .type = ECHO_LARGE,
					      .buf = big,
					      .len = sizeof(big),
					      .resp = copy,
					      .room = sizeof(copy) };

		req.deadline = LEAT_RPC_NO_DEADLINE;
		post1(&req);
		post1(&other);
		assert_int_equal(leat_rpc_cancel(&other), 0);
		end_drive(&a);
		assert_int_equal(other.status, -ECANCELED);
		assert_int_equal(other.refused, 1);
		drive_until(req.state == 0);
		assert_int_equal(req.status, 0);
		works(s);
	}
	/* All slots are free. */
	for (i = 0; i < BATCH; i++)
		post_later(s, i, LEAT_RPC_NO_DEADLINE);
	drive_until(b.nb_later == BATCH);
	answer_all();
	drive_until(stats_of(&b).tickets == 0);
	close_all(s);
}

/*
 * A session's default deadline applies; and a request whose time is up when it is posted ends at
 * once.
 */
static void
test_default(void **state)
{
	struct leat_rpc_session *s;

	(void)state;
	a.conf.deadline_us = 70;
	s = connected();
	post_later(s, 0, 0);
	drive_until(b.nb_later == 1);
	assert_int_equal(b.later[0]->deadline > now && b.later[0]->deadline <= now + 71000, 1);
	now += 69000;
	end_drive(&a);
	assert_int_not_equal(reqs[0].state, 0);
	now += 20000;
	drive(2);
	assert_int_equal(reqs[0].state, 0);
	assert_int_equal(reqs[0].status, -ETIMEDOUT);
	answer_all();
	drive(3);
	/* The request's time is up before it is posted. */
	post_later(s, 0, now - 1);
	drive_until(reqs[0].state == 0);
	assert_int_equal(reqs[0].status, -ETIMEDOUT);
	drive(5);
	answer_all();
	drive(5);
	close_all(s);
}

#define on(test) cmocka_unit_test_setup_teardown(test, setup_clock, teardown_clock)
#define dgram(test) cmocka_unit_test_setup_teardown(test, setup_dgram, teardown_clock)
#define slow(test) cmocka_unit_test_setup_teardown(test, setup_slow, teardown_clock)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		on(test_cancelled),  on(test_expired),	 on(test_ended),     on(test_long),
		on(test_default),    slow(test_expired), slow(test_default), dgram(test_cancelled),
		dgram(test_expired), dgram(test_ended),	 dgram(test_long),
	};

	return cmocka_run_group_tests_name("rpc-late", tests, pair_start, pair_stop);
}
