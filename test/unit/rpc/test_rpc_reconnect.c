/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Sessions that connect again: what becomes of requests and events, and of late or forged answers.
 * test_rpc_backoff.c tests when sessions connect again; test_rpc_again_any.c ends them at any
 * moment while they do.
 */

#include <errno.h>
#include <malloc.h>
#include <string.h>

#include "rpc_again.h"

/* ---- requests ---- */

/*
 * Requests that had begun come back; those that had not begun wait, as do those posted meanwhile;
 * one of them reaches its deadline.
 */
static void
test_requests(void **state)
{
	struct leat_rpc_session *s = up();
	const uint64_t token = s->token;
	unsigned int i;

	(void)state;
	post_n(s, 0, SLOTS + 10, LATER);
	pass_until(b.nb_later == SLOTS);
	assert_int_equal(leat_rpc_close(b.accepted, 0), 0);
	drive_until(a.nb_ev[LEAT_RPC_DOWN] == 1);
	assert_int_equal(a.ev.type, LEAT_RPC_DOWN);
	assert_ptr_equal(a.ev.session, s);
	assert_int_equal(a.ev.status, 0);
	end_drive(&a);
	expect(0, SLOTS, -ENOTCONN, 0);
	assert_int_equal(a.nb_back, SLOTS);
	assert_int_equal(leat_rpc_session_small(s), 0);
	drive_until(leat_rpc_session_peer(s) == LEAT_PEER_ANY);

	post_n(s, SLOTS + 10, 2, ECHO);
	reqs[SLOTS + 12] = (struct leat_rpc_req){ .session = s,
						  .type = ECHO,
						  .deadline = now + MIN_US / 2 * US };
	post1(&reqs[SLOTS + 12]);
	/* It is not yet time for the next attempt: nothing comes back. */
	drive(1000);
	assert_int_equal(a.nb_back, SLOTS);
	assert_int_equal(stats_of(&a).retries, 0);
	now += MIN_US / 2 * US;
	end_drive(&a);
	expect(SLOTS + 12, 1, -ETIMEDOUT, 1);
	assert_int_equal(leat_rpc_cancel(&reqs[SLOTS]), 0);
	end_drive(&a);
	expect(SLOTS, 1, -ECANCELED, 1);

	answer_all(0xdd);
	pass_until(b.nb_later == 9 && a.nb_ev[LEAT_RPC_UP] == 2);
	assert_ptr_equal(a.ev.session, s);
	assert_int_equal(leat_rpc_session_context(s) == a.rpc, 1);
	assert_true(s->token != token);
	assert_int_equal((uint32_t)s->token, (uint32_t)token);
	pass_until(a.nb_back == SLOTS + 4);
	expect(SLOTS + 10, 2, 0, 0);
	answer_all(0x33);
	pass_until(a.nb_back == SLOTS + 13);
	expect(SLOTS + 1, 9, 0, 0);
	for (i = 0; i < SLOTS + 10; i++)
		assert_int_equal(in[i][0], i <= SLOTS ? 0x11 : 0x33);
	assert_int_equal(stats_of(&a).reconnects, 1);
	assert_int_equal(a.nb_ev[LEAT_RPC_DOWN], 1);
	assert_int_equal(a.nb_ev[LEAT_RPC_ENDED], 0);
	close_all(s);
}

/*
 * A long request of which nothing was sent has not begun: it waits for the next connection, or
 * comes back as refused if none follows.
 */
static void
long_ones(bool again)
{
	static uint8_t big[100000], resp[SLOTS][100000];
	struct leat_rpc_req *list[SLOTS];
	unsigned int i, sent = 0, unsent = 0;
	struct leat_rpc_session *s;

	if (!again)
		a.conf = (struct leat_rpc_session_conf){ .deadline_us = LEAT_RPC_NO_DEADLINE };
	a.closes = true;
	s = up();
	for (i = 0; i < SLOTS; i++) {
		reqs[i] = (struct leat_rpc_req){ .session = s,
						 .type = ECHO_LARGE,
						 .buf = big,
						 .len = sizeof(big),
						 .resp = resp[i],
						 .room = sizeof(resp[i]) };
		list[i] = &reqs[i];
	}
	/* All requests begin: each sends a piece in turn, until the credit is used up. */
	assert_int_equal(leat_rpc_post(list, SLOTS), SLOTS);
	for (i = 0; i < SLOTS; i++)
		sent += s->tx_more[reqs[i].slot].out.sent > 0;
	assert_in_range(sent, 1, SLOTS - 1);
	b_dies();
	b_returns();
	pass_until(a.nb_back == SLOTS);
	for (i = 0; i < SLOTS; i++) {
		if (reqs[i].status == 0) {
			unsent++;
			continue;
		}
		unsent += reqs[i].refused;
		assert_true(reqs[i].status == -ENOTCONN || reqs[i].status == -ECONNRESET ||
			    reqs[i].status == -EHOSTDOWN);
	}
	assert_int_equal(unsent, SLOTS - sent);
	for (i = 0; i < SLOTS; i++)
		assert_int_equal(reqs[i].status == 0, again && i >= sent);
	if (!again) {
		pass_until(a.nb_ev[LEAT_RPC_CLOSED] == 1);
		return;
	}
	close_all(s);
}

static void
test_long(void **state)
{
	(void)state;
	long_ones(true);
}

static void
test_long_ended(void **state)
{
	(void)state;
	long_ones(false);
}

static int
setup_credits(void **state)
{
	pair_conf.credits = 8;
	pair_conf.large = SLOTS;
	return again_setup(state);
}

/* Requests that are posted before the session was ever up wait for its first connection. */
static void
test_first(void **state)
{
	struct leat_rpc_session *s;

	(void)state;
	b_dies();
	a.conf.timeout_us = 100;
	s = leat_rpc_connect(a.rpc, addr, &a.conf);
	assert_non_null(s);
	post_n(s, 0, 3, ECHO);
	pass_until(a.nb_ev[LEAT_RPC_DOWN] == 1);
	assert_int_equal(a.ev.status, -ECONNREFUSED);
	pass_until(stats_of(&a).retries == 5);
	b_returns();
	pass_until(a.nb_back == 3);
	expect(0, 3, 0, 0);
	/* DOWN is reported once, not with each attempt. */
	assert_int_equal(a.nb_ev[LEAT_RPC_DOWN], 1);
	assert_int_equal(a.nb_ev[LEAT_RPC_UP], 1);
	assert_int_equal(stats_of(&a).reconnects, 0);
	close_all(s);
}

/* ---- late and forged packets ---- */

#define ROUNDS 500

static void
test_late(void **state)
{
	const unsigned int rounds = strcmp(device, PAIR_LOSSY) == 0 ? ROUNDS / 10 : ROUNDS;
	struct leat_rpc_session *s = up();
	unsigned int n, i;

	(void)state;
	for (n = 0; n < rounds; n++) {
		const uint64_t back = a.nb_back;
		const unsigned int ups = a.nb_ev[LEAT_RPC_UP];

		post_n(s, 0, SLOTS, LATER);
		pass_until(b.nb_later == SLOTS);
		assert_int_equal(leat_rpc_close(b.accepted, 0), 0);
		pass_until(a.nb_back == back + SLOTS);
		/* If b's END is lost, a finds out later: its requests then have -EHOSTDOWN. */
		expect(0, SLOTS, reqs[0].status, 0);
		assert_true(reqs[0].status == -ENOTCONN ||
			    (strcmp(device, PAIR_LOSSY) == 0 && reqs[0].status == -EHOSTDOWN));
		for (i = 0; i < SLOTS; i++)
			memset(in[i], 0x22, 16);
		pass_until(a.nb_ev[LEAT_RPC_UP] > ups);
		/* These calls use the session, slots and numbers of the previous ones. */
		post_n(s, SLOTS, SLOTS, LATER);
		pass_until(b.nb_later == 2 * SLOTS);
		for (i = 0; i < SLOTS; i++) {
			assert_null(b.later[i]->session);
			memset(b.later[i]->resp, 0xdd, 16);
			b.later[i]->resp_len = 16;
			leat_rpc_answer(b.later[i], 0);
		}
		memmove(b.later, b.later + SLOTS, SLOTS * sizeof(b.later[0]));
		b.nb_later = SLOTS;
		drive(5);
		for (i = SLOTS; i < 2 * SLOTS; i++)
			assert_int_not_equal(reqs[i].state, 0);
		answer_all(0x33);
		pass_until(a.nb_back == back + 2 * SLOTS);
		expect(SLOTS, SLOTS, 0, 0);
		for (i = 0; i < SLOTS; i++) {
			assert_int_equal(in[i][0], 0x22);
			assert_int_equal(in[SLOTS + i][0], 0x33);
		}
	}
	assert_int_equal(stats_of(&b).tickets, 0);
	assert_int_equal(stats_of(&a).reconnects, rounds);
	close_all(s);
}

/*
 * b sends a packet with the epoch of the previous connection and, if `token` is set, its token. The
 * packet ends the connection over which it came, as any invalid packet, and answers no request.
 */
static void
forged(int violation, bool token)
{
	struct leat_rpc_session *s = up();
	const uint64_t old_token = s->token;
	const uint16_t old_epoch = s->epoch;

	b_breaks();
	pass_until(a.nb_ev[LEAT_RPC_UP] == 2);
	assert_int_not_equal(s->epoch, old_epoch);
	post_n(s, 0, 4, LATER);
	pass_until(b.nb_later == 4);
	if (token)
		b.accepted->peer_token = old_token;
	b.accepted->peer_epoch = old_epoch;
	answer_all(0xdd);
	pass_until(stats_of(&a).violations[violation] == 1 + (violation == LEAT_RPC_BAD_TOKEN));
	assert_int_equal(in[0][0], 0x11);
	pass_until(a.nb_ev[LEAT_RPC_DOWN] == 2);
	end_drive(&a);
	assert_int_equal(a.ev.status, -EPROTO);
	expect(0, 4, -EPROTO, 0);
	pass_until(a.nb_ev[LEAT_RPC_UP] == 3);
	assert_int_equal(in[0][0], 0x11);
	close_all(s);
}

static void
test_old_token(void **state)
{
	(void)state;
	forged(LEAT_RPC_BAD_TOKEN, true);
}

static void
test_old_epoch(void **state)
{
	(void)state;
	forged(LEAT_RPC_BAD_EPOCH, false);
}

/* ---- events ---- */

/*
 * The session goes down and up several times before its events are read: the events in the middle
 * are left out, and the others come in an order that is possible.
 */
static void
test_events(void **state)
{
	struct leat_rpc_session *s;
	struct leat_rpc_event ev[8];
	unsigned int i, ups = 0;

	(void)state;
	a.deaf = true;
	s = leat_rpc_connect(a.rpc, addr, &a.conf);
	assert_non_null(s);
	for (i = 0; i < 5; i++) {
		pass_until(b.nb_ev[LEAT_RPC_UP] == i + 1 && s->state == RPC_OPEN);
		assert_int_equal(leat_rpc_close(b.accepted, 0), 0);
		pass_until(s->state != RPC_OPEN);
	}
	/* The session was up, and is down now. */
	assert_int_equal(leat_rpc_events(a.rpc, ev, 8), 2);
	assert_int_equal(ev[0].type, LEAT_RPC_UP);
	assert_int_equal(ev[1].type, LEAT_RPC_DOWN);
	for (i = 0; i < 5; i++) {
		pass_until(s->state == RPC_OPEN);
		assert_int_equal(leat_rpc_close(b.accepted, 0), 0);
		pass_until(s->state != RPC_OPEN);
	}
	pass_until(s->state == RPC_OPEN);
	/* The session was up, went down, and is up now. */
	assert_int_equal(leat_rpc_events(a.rpc, ev, 8), 3);
	assert_int_equal(ev[0].type, LEAT_RPC_UP);
	assert_int_equal(ev[1].type, LEAT_RPC_DOWN);
	assert_int_equal(ev[2].type, LEAT_RPC_UP);
	for (i = 0; i < 3; i++) {
		assert_ptr_equal(ev[i].session, s);
		assert_int_equal(ev[i].status, 0);
	}
	assert_int_equal(leat_rpc_events(a.rpc, ev, 8), 0);

	/* One event is fetched, then the session goes down once more: UP and DOWN follow. */
	for (i = 0; i < 2; i++) {
		pass_until(s->state == RPC_OPEN);
		b_breaks();
		pass_until(s->state != RPC_OPEN);
	}
	pass_until(s->state == RPC_OPEN);
	assert_int_equal(leat_rpc_events(a.rpc, ev, 1), 1);
	assert_int_equal(ev[0].type, LEAT_RPC_DOWN);
	assert_int_equal(ev[0].status, -EPROTO);
	assert_int_equal(leat_rpc_close(b.accepted, 0), 0);
	pass_until(s->state != RPC_OPEN);
	assert_int_equal(leat_rpc_events(a.rpc, ev, 8), 2);
	assert_int_equal(ev[0].type, LEAT_RPC_UP);
	assert_int_equal(ev[1].type, LEAT_RPC_DOWN);
	assert_int_equal(ev[1].status, 0);

	/* At the session's end all events are delivered, and in order. */
	for (i = 0; i < 3; i++) {
		pass_until(s->state == RPC_OPEN);
		b_breaks();
		pass_until(s->state != RPC_OPEN);
	}
	pass_until(s->state == RPC_OPEN);
	assert_int_equal(leat_ep_shutdown(a.ep, 0), 0);
	pass_until(s->state == RPC_OVER);
	assert_int_equal(leat_rpc_events(a.rpc, ev, 8), 4);
	assert_int_equal(ev[0].type, LEAT_RPC_UP);
	assert_int_equal(ev[1].type, LEAT_RPC_DOWN);
	assert_int_equal(ev[2].type, LEAT_RPC_UP);
	assert_int_equal(ev[3].type, LEAT_RPC_ENDED);

	/* After the close, CLOSED is the only event of the session that is delivered. */
	assert_int_equal(leat_rpc_close(s, 0), 0);
	assert_int_equal(leat_rpc_close(s, 0), -EALREADY);
	ups = leat_rpc_events(a.rpc, ev, 8);
	assert_int_equal(ups, 1);
	assert_int_equal(ev[0].type, LEAT_RPC_CLOSED);
	a_renew();
	pass_until(stats_of(&b).sessions == 0);
}

/* ---- many connections, one after another ---- */

#define TIMES 10000

/* Memory does not grow, and no packet is taken for one of another connection. */
static void
test_many(void **state)
{
	struct leat_rpc_session *s = up();
	const uint64_t memory = stats_of(&a).memory;
	struct leat_rpc_stats st;
	unsigned int i, k;
	size_t used = 0;

	(void)state;
	for (i = 0; i < TIMES; i++) {
		const unsigned int ups = a.nb_ev[LEAT_RPC_UP], ups_b = b.nb_ev[LEAT_RPC_UP];

		a.nb_back = 0;
		post_n(s, 0, 8, i % 2 == 0 ? ECHO : LATER);
		if (i % 4 != 0)
			drive(1);
		assert_int_equal(leat_rpc_close(b.accepted, i % 3 * 50), 0);
		pass_until(a.nb_ev[LEAT_RPC_UP] > ups && b.nb_ev[LEAT_RPC_UP] > ups_b);
		post_n(s, 8, 4, ECHO);
		pass_until((answer_all(0x55), a.nb_back == 12));
		expect(8, 4, 0, 0);
		if (i == TIMES / 10)
			used = mallinfo2().uordblks;
	}
	st = stats_of(&a);
	assert_int_equal(st.reconnects, TIMES);
	assert_int_equal(st.memory, memory);
	assert_int_equal(st.sessions, 1);
	assert_int_equal(mallinfo2().uordblks, used);
	for (k = 0; k < LEAT_RPC_VIOLATIONS; k++)
		assert_int_equal(st.violations[k], 0);
	assert_int_equal(a.nb_ev[LEAT_RPC_DOWN], TIMES);
	assert_int_equal(a.nb_ev[LEAT_RPC_ENDED], 0);
	close_all(s);
	assert_true(stats_of(&a).memory < memory);
	assert_int_equal(stats_of(&a).memory, stats_of(&b).memory);
}

#define on(setup, test)                                                                            \
	{                                                                                          \
#test, test, setup, again_teardown, NULL                                           \
	}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		on(again_setup, test_requests),	      on(again_setup_slow, test_requests),
		on(again_setup_fault, test_requests), on(again_setup_dgram, test_requests),
		on(setup_credits, test_long),	      on(setup_credits, test_long_ended),
		on(again_setup, test_first),	      on(again_setup_dgram, test_first),
		on(again_setup, test_late),	      on(again_setup_fault, test_late),
		on(again_setup_dgram, test_late),     on(again_setup_lossy, test_late),
		on(again_setup, test_old_token),      on(again_setup, test_old_epoch),
		on(again_setup, test_events),	      on(again_setup, test_many),
	};

	return cmocka_run_group_tests_name("rpc-reconnect", tests, pair_start, pair_stop);
}
