/* SPDX-License-Identifier: BSD-3-Clause */

/* Calls between two endpoints of one thread: every call is answered, in each possible way. */

#include <errno.h>
#include <string.h>

#include "rpc_pair.h"

static uint8_t big[1u << 20], back[1u << 20];

static void
close_all(struct leat_rpc_session *s)
{
	assert_int_equal(leat_rpc_close(s, 1000000), 0);
	assert_int_equal(leat_rpc_close(s, 1000000), -EALREADY);
	drive_until(a.nb_ev[LEAT_RPC_CLOSED] == 1 && b.nb_ev[LEAT_RPC_ENDED] == 1);
	assert_int_equal(b.ev.status, 0);
	assert_int_equal(leat_rpc_close(b.accepted, 0), 0);
	drive_until(b.nb_ev[LEAT_RPC_CLOSED] == 1);
	assert_int_equal(stats_of(&a).tx_packets, 0);
	assert_int_equal(stats_of(&b).tx_packets, 0);
	assert_int_equal(stats_of(&a).large + stats_of(&b).large, 0);
}

static void
test_echo(void **state)
{
	struct leat_rpc_session *s = connected();
	struct leat_rpc_req odd = {
		.session = s, .type = ECHO, .flags = 0x10, .resp_len = 7, .busy_us = 7
	};
	char resp[64] = "";

	(void)state;
	assert_int_equal(call(s, ECHO, "hello", 5, resp, sizeof(resp)), 5);
	assert_memory_equal(resp, "hello", 5);
	assert_int_equal(call(s, ECHO, NULL, 0, NULL, 0), 0);
	assert_int_equal(call(s, FAIL, "x", 1, resp, sizeof(resp)), -EIO);
	assert_int_equal(call(s, NONE, "x", 1, resp, sizeof(resp)), -ENOSYS);
	assert_int_equal(call(s, ECHO, "too long", 8, resp, 4), -EMSGSIZE);
	assert_int_equal(call(s, ECHO, NULL, 8, resp, 4), -EINVAL);
	/* Of a request with unknown flags, no out field keeps its old value. */
	post1(&odd);
	drive_until(odd.state == 0);
	assert_int_equal(odd.status, -EINVAL);
	assert_int_equal(odd.refused, 1);
	assert_int_equal(odd.resp_len + odd.busy_us, 0);
	/* The server calls its client. */
	assert_int_equal(call(b.accepted, ECHO, "back", 4, resp, sizeof(resp)), 4);
	assert_memory_equal(resp, "back", 4);
	close_all(s);
}

/*
 * Requests and responses of lengths around the limits of words, packets and pieces pass unchanged.
 */
static void
test_lengths(void **state)
{
	struct leat_rpc_session *s = connected();
	const uint32_t small = leat_rpc_session_small(s);
	uint32_t len, i;

	(void)state;
	for (i = 0; i < sizeof(big); i++)
		big[i] = (uint8_t)(i * 7 + (i >> 8));
	assert_true(small >= 4000);
	for (len = 0; len < 200; len++) {
		assert_int_equal(call(s, ECHO, big, len, back, len), (int)len);
		assert_memory_equal(back, big, len);
	}
	for (len = small - 9; len < small + 20; len++) {
		memset(back, 0xee, len);
		assert_int_equal(call(s, ECHO_LARGE, big, len, back, len), (int)len);
		assert_memory_equal(back, big, len);
	}
	memset(back, 0xee, sizeof(back));
	assert_int_equal(call(s, ECHO_LARGE, big, sizeof(big), back, sizeof(back)),
			 (int)sizeof(big));
	assert_memory_equal(back, big, sizeof(big));
	close_all(s);
}

#define MANY 20000

static uint64_t answered;

static void
check_many(struct leat_rpc_req *req)
{
	uint64_t sent, got;

	assert_int_equal(req->status, 0);
	assert_int_equal(req->resp_len, 32);
	memcpy(&sent, req->buf, 8);
	memcpy(&got, req->resp, 8);
	assert_int_equal(sent, got);
	answered++;
}

/* Both sides post, in bursts, more calls than there are slots and credits: each is answered. */
static void
test_many(void **state)
{
	static struct leat_rpc_req reqs[2][200];
	static uint8_t out[2][200][32], in[2][200][32];
	struct leat_rpc_session *s[2] = { connected(), b.accepted };
	struct leat_rpc_req *burst[200];
	struct leat_rpc_stats st;
	uint64_t posted = 0;
	unsigned int i, side;

	(void)state;
	answered = 0;
	a.back = b.back = check_many;
	memset(reqs, 0, sizeof(reqs));
	while (posted < MANY) {
		for (side = 0; side < 2; side++) {
			uint16_t n = 0;

			for (i = 0; i < 200; i++) {
				struct leat_rpc_req *req = &reqs[side][i];

				if (req->state != 0)
					continue;
				req->session = s[side];
				req->type = ECHO;
				req->buf = out[side][i];
				req->len = 32;
				req->resp = in[side][i];
				req->room = 32;
				memcpy(out[side][i], &posted, 8);
				posted++;
				burst[n++] = req;
			}
			assert_int_equal(leat_rpc_post(burst, n), n);
		}
		end_drive(&a);
		end_drive(&b);
	}
	drive_until(answered == posted);
	assert_int_equal(a.nb_handled + b.nb_handled, posted);
	st = stats_of(&a);
	assert_int_equal(st.posted, st.done);
	assert_true(st.items_sent > st.packets_sent);
	close_all(s[0]);
}

/* One-way requests of every size: each is handled once, whatever the credits. */
static void
test_oneway(void **state)
{
	static struct leat_rpc_req reqs[500];
	struct leat_rpc_session *s = connected();
	unsigned int i;

	(void)state;
	memset(reqs, 0, sizeof(reqs));
	for (i = 0; i < 500; i++) {
		reqs[i].session = s;
		reqs[i].type = COUNT;
		reqs[i].flags = LEAT_RPC_ONEWAY;
		reqs[i].buf = big;
		reqs[i].len = i % 50 == 49 ? 20000 : i;
		post1(&reqs[i]);
	}
	drive_until(a.nb_back == 500 && b.nb_handled == 500);
	for (i = 0; i < 500; i++)
		assert_int_equal(reqs[i].status, 0);
	/* A request of an unknown type is dropped, and counted. */
	reqs[0].type = NONE;
	reqs[0].len = 1;
	post1(&reqs[0]);
	drive_until(stats_of(&b).refused == 1);
	assert_int_equal(reqs[0].status, 0);
	close_all(s);
}

/*
 * A one-way request of one packet comes back at once, and never has its handler's status. A longer
 * one comes back after its handler, with the handler's status.
 */
static void
test_oneway_status(void **state)
{
	struct leat_rpc_session *s = connected();
	const uint32_t len[] = { 1, leat_rpc_session_small(s) + 1 };
	struct leat_rpc_req req;
	unsigned int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		req = (struct leat_rpc_req){ .session = s, .flags = LEAT_RPC_ONEWAY, .buf = big };
		req.len = len[i];
		req.type = FAIL;
		post1(&req);
		drive_until(a.nb_back == 3 * i + 1 && b.nb_handled == 2 * i + 1);
		assert_int_equal(req.status, i == 0 ? 0 : -EIO);
		req.type = NONE;
		post1(&req);
		drive_until(a.nb_back == 3 * i + 2 && stats_of(&b).refused == i + 1);
		assert_int_equal(req.status, i == 0 ? 0 : -ENOSYS);
		req.type = LATER;
		post1(&req);
		drive_until(b.nb_later == 1);
		drive(100);
		assert_int_equal(a.nb_back, i == 0 ? 3 : 5);
		leat_rpc_answer(b.later[--b.nb_later], -EACCES);
		drive_until(a.nb_back == 3 * i + 3);
		assert_int_equal(req.status, i == 0 ? 0 : -EACCES);
		assert_int_equal(req.resp_len, 0);
	}
	close_all(s);
}

static void
test_deferred(void **state)
{
	struct leat_rpc_session *s = connected();
	struct leat_rpc_req req[3] = { 0 };
	char resp[3][64], words[3][8] = { "one", "two", "three" };
	unsigned int i;

	(void)state;
	for (i = 0; i < 3; i++) {
		req[i] = (struct leat_rpc_req){ .session = s,
						.type = LATER,
						.buf = words[i],
						.len = (uint32_t)strlen(words[i]),
						.resp = resp[i],
						.room = 64 };
		post1(&req[i]);
	}
	drive_until(b.nb_later == 3);
	/*
	 * Deferred requests keep their bytes although the buffers of their packets are used again.
	 */
	for (i = 0; i < 100; i++)
		assert_int_equal(call(s, ECHO, big, 100, back, 100), 100);
	assert_int_equal(req[0].state + req[1].state + req[2].state != 0, 1);
	assert_int_equal(leat_rpc_destroy(b.rpc), -EBUSY);
	for (i = 3; i-- > 0;) {
		struct leat_rpc_incoming *t = b.later[i];
		unsigned int k = 0;

		/* Datagrams arrive in any order: find the request's number k. */
		while (k < 2 && memcmp(t->req, words[k], t->len) != 0)
			k++;
		assert_int_equal(t->len, strlen(words[k]));
		assert_memory_equal(t->req, words[k], t->len);
		assert_ptr_equal(t->session, b.accepted);
		assert_int_equal(t->room, 64);
		memcpy(t->resp, "answer", 6);
		t->resp_len = 6;
		leat_rpc_answer(t, k == 1 ? -ENOENT : 0);
	}
	b.nb_later = 0;
	drive_until(req[0].state + req[1].state + req[2].state == 0);
	assert_int_equal(req[0].status, 0);
	assert_int_equal(req[1].status, -ENOENT);
	assert_int_equal(req[2].resp_len, 6);
	assert_memory_equal(resp[2], "answer", 6);
	assert_int_equal(stats_of(&b).tickets, 0);
	close_all(s);
}

/* All four tickets are in use: the handler answers two further requests with -EBUSY. */
static void
test_tickets(void **state)
{
	struct leat_rpc_req req[6];
	struct leat_rpc_session *s;
	unsigned int i, busy = 0;

	(void)state;
	s = connected();
	memset(req, 0, sizeof(req));
	for (i = 0; i < 6; i++) {
		req[i].session = s;
		req[i].type = LATER;
		post1(&req[i]);
	}
	drive_until(b.nb_later == 4 && a.nb_back == 2);
	assert_true(b.defer_fails);
	for (i = 0; i < 6; i++)
		busy += req[i].state == 0 && req[i].status == -EBUSY && req[i].refused == 0;
	assert_int_equal(busy, 2);
	/*
	 * A session that is closed while tickets are in use ends, and the text of its event gives
	 * the number of these tickets.
	 */
	assert_int_equal(leat_rpc_close(b.accepted, 1000), 0);
	drive_until(b.nb_ev[LEAT_RPC_CLOSED] == 1 && a.nb_ev[LEAT_RPC_ENDED] == 1);
	assert_int_equal(b.ev.status, -ETIMEDOUT);
	assert_non_null(strstr(b.ev.text, "4 requests deferred"));
	drive_until(a.nb_back == 6);
	for (i = 0; i < 4; i++) {
		assert_null(b.later[i]->session);
		assert_true(b.later[i]->cancelled);
	}
	assert_int_equal(leat_rpc_close(s, 0), 0);
	drive_until(a.nb_ev[LEAT_RPC_CLOSED] == 1);
}

static int
setup_tickets(void **state)
{
	pair_conf.tickets = 4;
	return pair_setup(state);
}

/* Small calls are answered while long ones are under way, and long ones while small ones are. */
static void
test_interleaved(void **state)
{
	struct leat_rpc_session *s = connected();
	static struct leat_rpc_req large[4], small;
	unsigned int i, calls = 0, during = 0;
	static uint8_t in[4][1u << 20];
	uint8_t word[8];

	(void)state;
	memset(large, 0, sizeof(large));
	memset(&small, 0, sizeof(small));
	for (i = 0; i < sizeof(big); i++)
		big[i] = (uint8_t)(i % 251);
	for (i = 0; i < 4; i++) {
		large[i] = (struct leat_rpc_req){ .session = s,
						  .type = ECHO_LARGE,
						  .buf = big,
						  .len = sizeof(big) - i,
						  .resp = in[i],
						  .room = sizeof(in[i]) };
		post1(&large[i]);
	}
	while (a.nb_back < 4 + calls) {
		if (small.state == 0) {
			calls++;
			during += a.nb_back == calls - 1;
			small = (struct leat_rpc_req){ .session = s,
						       .type = ECHO,
						       .buf = "12345678",
						       .len = 8,
						       .resp = word,
						       .room = 8 };
			post1(&small);
		}
		end_drive(&a);
		end_drive(&b);
		assert_true(calls < 1000000);
		if (large[0].state + large[1].state + large[2].state + large[3].state == 0)
			break;
	}
	/*
	 * More than 10 small calls came back before the first long one, since the 4 MiB of the long
	 * ones take sixteen times the credits of a direction.
	 */
	assert_true(during > 10);
	drive_until(small.state == 0);
	for (i = 0; i < 4; i++) {
		assert_int_equal(large[i].status, 0);
		assert_int_equal(large[i].resp_len, sizeof(big) - i);
		assert_memory_equal(in[i], big, sizeof(big) - i);
	}
	close_all(s);
}

/*
 * There is no memory for all the long requests: some are refused with advice when to try again
 * (busy_us), and not executed.
 */
static void
test_busy(void **state)
{
	struct leat_rpc_req req[8];
	struct leat_rpc_session *s = connected();
	unsigned int i, busy = 0, done = 0;

	(void)state;
	memset(req, 0, sizeof(req));
	for (i = 0; i < 8; i++) {
		req[i] = (struct leat_rpc_req){
			.session = s, .type = COUNT, .buf = big, .len = 100000
		};
		post1(&req[i]);
	}
	drive_until(a.nb_back == 8);
	for (i = 0; i < 8; i++) {
		done += req[i].status == 0;
		if (req[i].status == 0)
			continue;
		assert_int_equal(req[i].status, -EBUSY);
		assert_int_equal(req[i].refused, 1);
		assert_int_equal(req[i].busy_us, 777);
		busy++;
	}
	assert_true(busy > 0 && done >= 2);
	assert_int_equal(b.nb_handled, done);
	assert_int_equal(stats_of(&b).busy, busy);
	/* There is room again. */
	assert_int_equal(call(s, COUNT, big, 100000, NULL, 0), 0);
	assert_int_equal(call(s, ECHO_LARGE, big, (uint32_t)sizeof(big) + 1, back, 10), -EMSGSIZE);
	close_all(s);
}

/*
 * The clock of the tests over datagrams. Congestion control measures delays there, and packets are
 * repeated after a while: with the real clock both would depend on what else the machine does.
 */
static volatile uint64_t now;

static void
clock_own(void)
{
	now = LEAT_CLOCK_MOCK_HZ;
	leat_clock_mock_set(&now);
	pair_clock = &now;
}

static int
setup_dgram(void **state)
{
	clock_own();
	return pair_setup_dgram(state);
}

static int
setup_lossy(void **state)
{
	clock_own();
	return pair_setup_lossy(state);
}

static int
setup_busy(void **state)
{
	pair_conf.large = 2;
	pair_conf.busy_us = 777;
	pair_conf.max_msg = sizeof(big);
	return pair_setup(state);
}

/* Requests and responses longer than the other side accepts (100 B) fail with -EMSGSIZE. */
static void
test_limits(void **state)
{
	const struct leat_rpc_conf conf = { .max_msg = 100 };
	struct leat_rpc_session *s;
	uint8_t resp[256];

	(void)state;
	end_close(&a);
	end_open(&a, PAIR_RING, &conf);
	s = connected();
	assert_int_equal(call(s, ECHO, big, 100, resp, sizeof(resp)), 100);
	assert_int_equal(call(s, ECHO, big, 101, resp, sizeof(resp)), -EMSGSIZE);
	assert_int_equal(call(s, ECHO_LARGE, big, 10000, resp, sizeof(resp)), -EMSGSIZE);
	assert_int_equal(b.nb_handled, 3);
	assert_int_equal(call(b.accepted, ECHO, big, 100, resp, sizeof(resp)), 100);
	assert_int_equal(call(b.accepted, ECHO, big, 101, resp, sizeof(resp)), -EMSGSIZE);
	assert_int_equal(call(b.accepted, ECHO, big, 10000, resp, sizeof(resp)), -EMSGSIZE);
	assert_int_equal(a.nb_handled, 1);
	close_all(s);
}

static int
teardown(void **state)
{
	int ret = pair_teardown(state);

	pair_clock = NULL;
	leat_clock_mock_set(NULL);
	return ret;
}

static int
setup_small(void **state)
{
	pair_conf.packet = 256;
	pair_conf.credits = 3;
	pair_conf.slots = 2;
	pair_conf.tx_packets = 1;
	return pair_setup(state);
}

#define on(setup, test)                                                                            \
	{                                                                                          \
#test "/" #setup, test, setup, teardown, NULL                                      \
	}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		on(pair_setup, test_echo),
		on(pair_setup_fault, test_echo),
		on(pair_setup_slow, test_echo),
		on(pair_setup_slow, test_lengths),
		on(pair_setup_slow, test_many),
		on(pair_setup_slow, test_deferred),
		on(pair_setup_slow, test_limits),
		on(setup_dgram, test_echo),
		on(setup_dgram, test_lengths),
		on(setup_dgram, test_many),
		on(setup_dgram, test_oneway),
		on(setup_dgram, test_deferred),
		on(setup_dgram, test_interleaved),
		on(setup_lossy, test_echo),
		on(setup_lossy, test_lengths),
		on(setup_lossy, test_many),
		on(setup_lossy, test_oneway),
		on(setup_lossy, test_deferred),
		on(setup_lossy, test_interleaved),
		on(setup_small, test_echo),
		on(pair_setup, test_lengths),
		on(pair_setup_fault, test_lengths),
		on(pair_setup, test_many),
		on(pair_setup_fault, test_many),
		on(setup_small, test_many),
		on(pair_setup, test_oneway),
		on(pair_setup, test_oneway_status),
		on(pair_setup_fault, test_oneway),
		on(pair_setup_fault, test_oneway_status),
		on(setup_small, test_oneway),
		on(pair_setup, test_deferred),
		on(pair_setup_fault, test_deferred),
		on(setup_tickets, test_tickets),
		on(pair_setup, test_interleaved),
		on(pair_setup_fault, test_interleaved),
		on(setup_busy, test_busy),
		on(pair_setup, test_limits),
	};

	return cmocka_run_group_tests_name("rpc-calls", tests, pair_start, pair_stop);
}
