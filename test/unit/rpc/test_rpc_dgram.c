/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Datagram endpoints: packets that are duplicated, late, lost, or forged; peers that are away for a
 * while, or for good. A mock clock advances when the test says.
 */

#include <errno.h>
#include <math.h>
#include <string.h>

#include "rpc_raw.h"

#define MS UINT64_C(1000000)

static volatile uint64_t now;
static struct leat_rpc_session *bystander;
static struct leat_rpc_req reqs[1000];
static uint8_t resps[1000][8];

static int
setup(void **state)
{
	now = 1000 * MS;
	leat_clock_mock_set(&now);
	return pair_setup_dgram(state);
}

static int
teardown(void **state)
{
	int ret = pair_teardown(state);

	leat_clock_mock_set(NULL);
	return ret;
}

/* Set up a peer that the test plays, and another session that must not be disturbed. */
static int
setup_raw(void **state)
{
	(void)setup(state);
	bystander = connected();
	raw_open(PAIR_DGRAM);
	raw.numbers.seq = RAW_FIRST;
	return 0;
}

static int
teardown_raw(void **state)
{
	char resp[8];

	assert_int_equal(call(bystander, ECHO, "still up", 8, resp, 8), 8);
	while (b.nb_later > 0)
		leat_rpc_answer(b.later[--b.nb_later], 0);
	assert_int_equal(stats_of(&b).large, 0);
	a.closes = b.closes = true;
	assert_int_equal(leat_rpc_close(bystander, 1000000), 0);
	(void)leat_rpc_close(raw.at_b, 0);
	drive_until(stats_of(&a).sessions == 0 && stats_of(&b).sessions == 0);
	assert_int_equal(stats_of(&a).tx_packets + stats_of(&b).tx_packets, 0);
	raw_close();
	return teardown(state);
}

static struct rpc_item
request(uint32_t n, uint8_t type)
{
	return (struct rpc_item){
		.kind = RPC_REQUEST, .type = type, .num = RAW_FIRST + n, .len = 8
	};
}

static void
send_request(uint32_t n, uint8_t type)
{
	raw_begin();
	raw_item(request(n, type));
	raw_send();
	raw.numbers.seq++;
}

static struct rpc_numbers
last_numbers(uint8_t *flags)
{
	struct rpc_numbers n = { 0 };
	struct rpc_head h = { 0 };

	assert_int_equal(rpc_head_get(raw.last, raw.last_len, &h), 0);
	assert_int_equal(rpc_numbers_get(raw.last, raw.last_len, h.flags, &n), 0);
	*flags = h.flags;
	return n;
}

static void
ended(enum leat_rpc_violation why)
{
	raw_until(b.nb_ev[LEAT_RPC_ENDED] == 1);
	assert_ptr_equal(b.ev.session, raw.at_b);
	assert_int_equal(b.ev.status, -EPROTO);
	assert_int_equal(stats_of(&b).violations[why], 1);
	/* The peer gets an END with the reason. */
	raw_until(raw.last_len == RPC_HEAD_LEN + RPC_NUMBERS_LEN + RPC_ITEM_LEN &&
		  raw_last_item().kind == RPC_END);
	assert_int_equal(raw_last_item().aux, EPROTO);
}

/* ---- numbers ---- */

static void
test_twice(void **state)
{
	unsigned int i;
	uint8_t flags;

	(void)state;
	send_request(1, ECHO);
	raw_until(raw.packets == 1);
	raw.numbers.seq = RAW_FIRST;
	for (i = 0; i < 3; i++)
		raw_send();
	raw_until(stats_of(&b).duplicates >= 3);
	assert_int_equal(b.nb_handled, 1);
	raw_until(raw.packets > 1);
	assert_int_equal(last_numbers(&flags).ack, RAW_FIRST + 1);
}

/*
 * b first probes a peer that has not acknowledged a response, and then sends the response again,
 * without running the handler again.
 */
static void
test_response_lost(void **state)
{
	struct rpc_item first;
	unsigned int packets;
	uint8_t flags;
	uint32_t probe;

	(void)state;
	send_request(1, ECHO);
	raw_until(raw.packets == 1);
	first = raw_last_item();
	packets = raw.packets;
	now += 10 * MS;
	raw_until(raw.packets > packets);
	probe = last_numbers(&flags).seq;
	assert_int_equal(flags, RPC_H_PROBE);
	assert_int_equal(stats_of(&b).retransmissions, 0);

	raw_begin();
	raw.head.flags = RPC_H_ANSWER;
	raw.numbers.seq = probe;
	raw_send();
	packets = raw.packets;
	raw_until(raw.packets > packets);
	assert_int_equal(last_numbers(&flags).seq, raw.hello.first);
	assert_int_equal(flags, RPC_H_NUMBERED);
	assert_int_equal(raw_last_item().num, first.num);
	assert_int_equal(stats_of(&b).retransmissions, 1);
	assert_int_equal(b.nb_handled, 1);

	/* The peer acknowledges the response: b keeps no packet any more. */
	raw_begin();
	raw.head.flags = 0;
	raw.numbers = (struct rpc_numbers){ .ack = raw.hello.first + 1, .echo = raw.hello.first };
	raw.head.credit = raw.numbers.ack + RAW_RECVS;
	raw_send();
	raw_until(stats_of(&b).tx_packets == 0);
}

/* The peer reports packets that were sent after a missing one: the missing one is sent again. */
static void
test_gap(void **state)
{
	unsigned int i;
	uint8_t flags;

	(void)state;
	for (i = 0; i < 4; i++) {
		send_request(i + 1, ECHO);
		raw_until(raw.packets == i + 1);
		now += MS / 10;
	}
	raw_begin();
	raw.head.flags = 0;
	raw.numbers = (struct rpc_numbers){ .ack = raw.hello.first, .sack = 7 };
	raw_send();
	raw_until(raw.packets == 5);
	assert_int_equal(last_numbers(&flags).seq, raw.hello.first);
	assert_int_equal(stats_of(&b).retransmissions, 1);
	assert_int_equal(b.nb_handled, 4);
}

#define TEST(name, why, ...)                                                                       \
	static void test_##name(void **state)                                                      \
	{                                                                                          \
		(void)state;                                                                       \
		raw_begin();                                                                       \
		raw_item(request(1, ECHO));                                                        \
		__VA_ARGS__;                                                                       \
		raw_send();                                                                        \
		ended(why);                                                                        \
		assert_int_equal(b.nb_handled, 0);                                                 \
	}

TEST(number_too_far, LEAT_RPC_OVERRUN, { raw.numbers.seq += RPC_WINDOW_MAX; })
TEST(number_half_around, LEAT_RPC_OVERRUN, { raw.numbers.seq += INT32_MAX; })
TEST(ack_of_nothing, LEAT_RPC_BAD_ACK, {
	raw.numbers.ack++;
	raw.head.credit++;
})
TEST(sack_of_nothing, LEAT_RPC_BAD_ACK, { raw.numbers.sack = 1; })
TEST(credit, LEAT_RPC_BAD_CREDIT, { raw.head.credit++; })
TEST(two_flags, LEAT_RPC_BAD_FLAGS, { raw.head.flags = RPC_H_NUMBERED | RPC_H_PROBE; })
TEST(unknown_flag, LEAT_RPC_BAD_FLAGS, { raw.head.flags = 0x80; })
TEST(ack_with_number, LEAT_RPC_BAD_FLAGS, { raw.head.flags = 0; })
TEST(request_without_number, LEAT_RPC_BAD_KIND, { raw.head.flags = RPC_H_PROBE; })
/* The packet is as long as an END, but its item is of another kind. */
TEST(other_item_without_number, LEAT_RPC_BAD_KIND, {
	raw_begin();
	raw.head.flags = RPC_H_PROBE;
	raw_item((struct rpc_item){ .kind = RPC_CANCEL, .num = RAW_FIRST });
})
TEST(numbers_cut, LEAT_RPC_TRUNCATED, { raw.len = RPC_HEAD_LEN + RPC_NUMBERS_LEN - 1; })

/*
 * A packet that is cut, or has a wrong token, epoch or version, may come from a stranger: it is
 * counted and dropped, and no session ends.
 */
#define STRANGER(name, why, ...)                                                                   \
	static void test_##name(void **state)                                                      \
	{                                                                                          \
		(void)state;                                                                       \
		raw_begin();                                                                       \
		raw_item(request(1, ECHO));                                                        \
		__VA_ARGS__;                                                                       \
		raw_send();                                                                        \
		raw_until(stats_of(&b).violations[why] == 1);                                      \
		drive(100);                                                                        \
		assert_int_equal(b.nb_ev[LEAT_RPC_ENDED], 0);                                      \
		send_request(1, ECHO);                                                             \
		raw_until(raw.packets > 0);                                                        \
		assert_int_equal(raw_last_item().kind, RPC_RESPONSE);                              \
	}

STRANGER(token, LEAT_RPC_BAD_TOKEN, { raw.head.token ^= UINT64_C(1) << 60; })
STRANGER(token_of_no_place, LEAT_RPC_BAD_TOKEN, { raw.head.token |= 0xffffffff; })
STRANGER(epoch, LEAT_RPC_BAD_EPOCH, { raw.head.epoch++; })
STRANGER(version, LEAT_RPC_BAD_VERSION, { raw.head.version++; })
STRANGER(head_cut, LEAT_RPC_TRUNCATED, { raw.len = RPC_HEAD_LEN - 1; })

/* ---- messages of several packets, in any order ---- */

#define PIECE (RAW_PACKET - RPC_HEAD_LEN - RPC_NUMBERS_LEN - RPC_PIECE_LEN)

static void
send_piece(uint32_t off, uint32_t size)
{
	const uint32_t len = size - off < PIECE ? size - off : PIECE;
	struct rpc_item m = request(1, ECHO_LARGE);

	raw_begin();
	m.size = size;
	m.off = off;
	m.len = (uint16_t)len;
	memset(raw.out + raw.len + RPC_PIECE_LEN, (int)(off / PIECE + 1), len);
	raw_item(m);
	raw_send();
	raw.numbers.seq++;
}

static void
test_pieces_backwards(void **state)
{
	const uint32_t size = 3 * PIECE + 100;
	unsigned int packets;
	uint32_t i;

	(void)state;
	for (i = 4; i-- > 0;) {
		send_piece(i * PIECE, size);
		raw_until(raw.send.state == 0);
	}
	packets = raw.packets;
	raw_until(b.nb_handled == 1 && raw.packets > packets);
	/* The pieces of the response come in any order: each has the bytes of its offset. */
	assert_int_equal(raw_last_item().kind, RPC_RESPONSE);
	assert_int_equal(raw_last_item().size, size);
	assert_int_equal(raw.last[raw.last_len - 8], raw_last_item().off / PIECE + 1);
}

static void
test_piece_again(void **state)
{
	(void)state;
	send_piece(PIECE, 3 * PIECE);
	send_piece(PIECE, 3 * PIECE);
	ended(LEAT_RPC_BAD_PIECE);
}

static void
test_piece_off(void **state)
{
	(void)state;
	send_piece(8, 3 * PIECE);
	ended(LEAT_RPC_BAD_PIECE);
}

/* ---- time ---- */

static void
post_many(struct leat_rpc_session *s, unsigned int n)
{
	struct leat_rpc_req *one;
	unsigned int i;

	for (i = 0; i < n; i++) {
		reqs[i] = (struct leat_rpc_req){ .session = s,
						 .type = ECHO,
						 .buf = "12345678",
						 .len = 8,
						 .resp = resps[i],
						 .room = 8,
						 .deadline = LEAT_RPC_NO_DEADLINE };
		one = &reqs[i];
		post1(one);
	}
}

/* Drive only a for this time: b is away. */
static void
away(unsigned int ms)
{
	unsigned int i;

	for (i = 0; i < ms; i++) {
		now += MS;
		end_drive(&a);
	}
}

static void
close_all(struct leat_rpc_session *s)
{
	a.closes = b.closes = true;
	assert_int_equal(leat_rpc_close(s, 1000000), 0);
	drive_until(stats_of(&a).sessions == 0 && stats_of(&b).sessions == 0);
	assert_int_equal(stats_of(&a).tx_packets + stats_of(&b).tx_packets, 0);
}

/* A peer that was preempted for 400 ms finds fewer than 25 probes, and no packet a second time. */
static void
test_preempted(void **state)
{
	struct leat_rpc_session *s = connected();
	uint64_t sent;
	unsigned int i;

	(void)state;
	post_many(s, 1000);
	end_drive(&a);
	sent = stats_of(&a).packets_sent;
	assert_true(sent <= RPC_WINDOW_MAX);
	away(400);
	assert_true(stats_of(&a).packets_sent - sent < 25);
	assert_int_equal(stats_of(&a).packets_sent - sent, stats_of(&a).probes);
	drive_until(a.nb_back == 1000);
	for (i = 0; i < 1000; i++)
		assert_int_equal(reqs[i].status, 0);
	assert_int_equal(b.nb_handled, 1000);
	assert_int_equal(stats_of(&a).retransmissions, 0);
	assert_int_equal(b.nb_ev[LEAT_RPC_ENDED], 0);
	close_all(s);
}

static void
test_dead(void **state)
{
	struct leat_rpc_session *s = connected();
	struct leat_rpc_req late = { .session = s, .type = ECHO };
	unsigned int i;

	(void)state;
	a.closes = false;
	post_many(s, 1000);
	away(450);
	assert_int_equal(a.nb_back, 0);
	away(200);
	assert_int_equal(a.nb_back, 1000);
	for (i = 0; i < 1000; i++) {
		assert_int_equal(reqs[i].status, -EHOSTDOWN);
		assert_true(reqs[i].refused == (i >= 32)); /* 32 slots: others were never sent */
	}
	assert_int_equal(a.nb_ev[LEAT_RPC_ENDED], 1);
	assert_int_equal(a.ev.status, -EHOSTDOWN);
	post1(&late);
	end_drive(&a);
	assert_int_equal(late.status, -EHOSTDOWN);
	assert_int_equal(leat_rpc_close(s, 0), 0);
	b.closes = true;
	/* b notices within 10 s that the peer is gone. */
	for (i = 0; stats_of(&b).sessions > 0 && i < 10000; i++) {
		now += MS;
		drive(1);
	}
	assert_int_equal(stats_of(&a).sessions + stats_of(&b).sessions, 0);
}

/* A server that takes 5 s to answer keeps its session, since it answers probes meanwhile. */
static void
test_slow_handler(void **state)
{
	struct leat_rpc_session *s = connected();
	struct leat_rpc_req req = { .session = s, .type = LATER, .deadline = LEAT_RPC_NO_DEADLINE };
	unsigned int i;

	(void)state;
	post1(&req);
	for (i = 0; i < 5000; i++) {
		now += MS;
		drive(1);
	}
	assert_int_equal(b.nb_later, 1);
	leat_rpc_answer(b.later[0], 0);
	b.nb_later = 0;
	drive_until(req.state == 0);
	assert_int_equal(req.status, 0);
	close_all(s);
}

/* A side that was not driven itself does not take its peers for dead. */
static void
test_both_away(void **state)
{
	struct leat_rpc_session *s = connected();

	(void)state;
	post_many(s, 10);
	now += 100000 * MS;
	drive_until(a.nb_back == 10);
	assert_int_equal(reqs[9].status, 0);
	now += 100000 * MS;
	post_many(s, 10);
	drive_until(a.nb_back == 20);
	assert_int_equal(reqs[9].status, 0);
	close_all(s);
}

/*
 * An idle session sends fewer than 50 probes, and ends after 5 to 6 s if its peer has left without
 * an END.
 */
static void
test_idle(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < 20000 && b.nb_ev[LEAT_RPC_ENDED] == 0; i++) {
		now += MS;
		end_drive(&b);
		end_drive(&a);
	}
	assert_int_equal(b.nb_ev[LEAT_RPC_ENDED], 1);
	assert_int_equal(b.ev.status, -EHOSTDOWN);
	assert_ptr_equal(b.ev.session, raw.at_b);
	assert_true(i > 5000 && i < 6000);
	assert_true(stats_of(&a).probes + stats_of(&b).probes < 50);
}

/* A request that is sent again says how much of its time is left, or that it is too late. */
static void
test_deadline_again(void **state)
{
	static struct leat_rpc_req soon, late; /* soon is in flight until the session ends */
	struct rpc_item m;
	uint32_t probe;
	uint8_t flags;

	(void)state;
	soon = late = (struct leat_rpc_req){ .session = raw.at_b, .type = 1 };
	soon.deadline = now + 100 * MS;
	late.deadline = now + 8 * MS;
	post1(&soon);
	raw_until(raw.packets == 1);
	m = raw_last_item();
	assert_true(m.aux > 99000 && m.aux <= 100001);
	post1(&late);
	raw_until(raw.packets == 2);
	now += 10 * MS;
	raw_until(late.state == 0 && raw.packets == 3);
	assert_int_equal(late.status, -ETIMEDOUT);
	probe = last_numbers(&flags).seq;
	assert_int_equal(flags, RPC_H_PROBE);
	/*
	 * The peer's numbers say that neither packet has arrived, the second time as the answer to
	 * the probe: both are sent again, the late request marked as such.
	 */
	raw_begin();
	raw.head.flags = 0;
	raw.numbers = (struct rpc_numbers){ .ack = raw.hello.first };
	raw_send();
	raw_begin();
	raw.head.flags = RPC_H_ANSWER;
	raw.numbers = (struct rpc_numbers){ .ack = raw.hello.first, .seq = probe };
	raw_send();
	raw_until(raw.packets == 5);
	assert_int_equal(raw_last_item().aux, RPC_US_LATE);
	assert_int_equal(stats_of(&b).retransmissions, 2);
}

/* A request whose time is over is not executed. */
static void
test_late_is_dropped(void **state)
{
	struct rpc_item m = request(1, ECHO);

	(void)state;
	raw_begin();
	m.aux = RPC_US_LATE;
	raw_item(m);
	raw_send();
	raw_until(raw.packets == 1);
	m = raw_last_item();
	assert_int_equal(m.kind, RPC_RESPONSE);
	assert_int_equal(m.aux, ETIMEDOUT);
	assert_int_equal(m.flags, RPC_F_REFUSED);
	assert_int_equal(b.nb_handled, 0);
	assert_int_equal(stats_of(&b).unwaited, 1);
}

/* ---- congestion control ---- */

static void
test_swift(void **state)
{
	struct leat_rpc_cc_state st = { .rtt_ns = 10000 };
	uint64_t t = 0;
	float before;
	unsigned int i;

	(void)state;
	leat_rpc_cc_swift.start(&st);
	before = st.window;
	/* Below the target delay the window grows by about one packet per round trip. */
	for (i = 0; i < 10; i++)
		leat_rpc_cc_swift.acked(&st, 10000, (uint32_t)st.window, t += 10000);
	assert_true(st.window > before + 8 && st.window < before + 12);
	/* Beyond the target delay: the window shrinks, once per round trip. */
	before = st.window;
	leat_rpc_cc_swift.acked(&st, 200000, 1, t += 200000);
	assert_true(st.window < before && st.window >= before / 2);
	before = st.window;
	leat_rpc_cc_swift.acked(&st, 200000, 1, t + 1);
	leat_rpc_cc_swift.lost(&st, t + 2);
	assert_true(st.window == before);
	leat_rpc_cc_swift.lost(&st, t += 200000);
	assert_true(st.window == before / 2);
	/* The window never becomes 0, and grows again. */
	for (i = 0; i < 100; i++)
		leat_rpc_cc_swift.lost(&st, t += 200000);
	assert_true(st.window > 0 && st.window < 1);
	for (i = 0; i < 1000; i++)
		leat_rpc_cc_swift.acked(&st, 10000, 1, t += 10000);
	assert_true(st.window > 10);
	/* No round trip was measured: no change. */
	before = st.window;
	leat_rpc_cc_swift.acked(&st, 0, 5, t + 10000);
	assert_true(st.window == before);
}

static float tiny_window;

static void
tiny_start(struct leat_rpc_cc_state *st)
{
	st->window = tiny_window;
}

static void
tiny_acked(struct leat_rpc_cc_state *st, uint64_t rtt_ns, uint32_t packets, uint64_t now_ns)
{
	(void)rtt_ns;
	(void)packets;
	(void)now_ns;
	st->priv[0]++;
}

/* Make n calls with this window, the clock advancing by step per turn. @return the time taken */
static uint64_t
calls_take(float window, unsigned int n, uint64_t step)
{
	static const struct leat_rpc_cc tiny = { "tiny", tiny_start, tiny_acked, NULL };
	struct leat_rpc_session *s;
	uint64_t begun, took;
	uint32_t i;

	tiny_window = window;
	a.conf.cc = &tiny;
	a.nb_back = 0;
	s = connected();
	post_many(s, n);
	begun = now;
	for (i = 0; a.nb_back < n && i < 100000; i++) {
		now += step;
		drive(1);
	}
	took = now - begun;
	assert_int_equal(a.nb_back, n);
	a.closes = b.closes = true;
	assert_int_equal(leat_rpc_close(s, 60000000), 0);
	for (i = 0; stats_of(&a).sessions + stats_of(&b).sessions > 0 && i < 100000; i++) {
		now += step;
		drive(1);
	}
	assert_int_equal(stats_of(&a).sessions + stats_of(&b).sessions, 0);
	return took;
}

static void
test_pace(void **state)
{
	static const float windows[] = { 0, -1, 1e-38f, NAN };
	unsigned int i;

	(void)state;
	/* 32 slots: at least six packets, and after each a pause of ten round trips of 0.2 ms. */
	assert_true(calls_take(0.1f, 200, MS / 20) > 5 * MS);
	/* A window that is not usable delays packets, but does not stop the session. */
	for (i = 0; i < RTE_DIM(windows); i++)
		(void)calls_take(windows[i], 64, MS);
}

static void
test_with_swift(void **state)
{
	struct leat_rpc_session *s;
	unsigned int i;

	(void)state;
	a.conf.cc = b.conf.cc = &leat_rpc_cc_swift;
	s = connected();
	for (i = 1; i <= 50; i++) {
		post_many(s, 100);
		while (a.nb_back < 100 * i) {
			now += 1000;
			drive(1);
		}
	}
	assert_int_equal(b.nb_handled, 5000);
	close_all(s);
}

#define on(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
#define on_raw(test) cmocka_unit_test_setup_teardown(test, setup_raw, teardown_raw)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		on_raw(test_twice),
		on_raw(test_response_lost),
		on_raw(test_gap),
		on_raw(test_number_too_far),
		on_raw(test_number_half_around),
		on_raw(test_ack_of_nothing),
		on_raw(test_sack_of_nothing),
		on_raw(test_credit),
		on_raw(test_two_flags),
		on_raw(test_unknown_flag),
		on_raw(test_ack_with_number),
		on_raw(test_request_without_number),
		on_raw(test_other_item_without_number),
		on_raw(test_numbers_cut),
		on_raw(test_token),
		on_raw(test_token_of_no_place),
		on_raw(test_epoch),
		on_raw(test_version),
		on_raw(test_head_cut),
		on_raw(test_pieces_backwards),
		on_raw(test_piece_again),
		on_raw(test_piece_off),
		on(test_preempted),
		on(test_dead),
		on(test_slow_handler),
		on(test_both_away),
		on_raw(test_idle),
		on_raw(test_deadline_again),
		on_raw(test_late_is_dropped),
		cmocka_unit_test(test_swift),
		on(test_pace),
		on(test_with_swift),
	};

	return cmocka_run_group_tests_name("rpc-dgram", tests, pair_start, pair_stop);
}
