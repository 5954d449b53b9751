/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A peer that sends invalid packets: the test writes them, over an endpoint of its own, to the
 * context of b. Each ends that peer's session, with the reason, and is counted by its kind; the
 * session between a and b goes on.
 */

#include <errno.h>
#include <string.h>

#include "rpc_raw.h"

static struct leat_rpc_session *bystander;

static int
raw_setup(void **state)
{
	assert_int_equal(pair_setup(state), 0);
	bystander = connected();
	raw_open(PAIR_RING);
	return 0;
}

static int
raw_teardown(void **state)
{
	char resp[8];

	/* The other session is not disturbed. */
	assert_int_equal(call(bystander, ECHO, "still up", 8, resp, 8), 8);
	assert_memory_equal(resp, "still up", 8);
	while (b.nb_later > 0)
		leat_rpc_answer(b.later[--b.nb_later], 0);
	assert_int_equal(stats_of(&b).tickets, 0);
	assert_int_equal(stats_of(&b).large, 0);
	b.closes = true;
	assert_int_equal(leat_rpc_close(bystander, 0), 0);
	(void)leat_rpc_close(raw.at_b, 0); /* unless the test closed it */
	drive_until(stats_of(&a).sessions == 0 && stats_of(&b).sessions == 0);
	raw_close();
	return pair_teardown(state);
}

/* @return a request in slot 0; n is its number in that slot, from 1 */
static struct rpc_item
request(uint32_t n, uint8_t type)
{
	return (struct rpc_item){
		.kind = RPC_REQUEST, .type = type, .num = RAW_FIRST + n, .len = 8
	};
}

/* Send a valid request, which is answered. */
static void
honest(uint32_t n)
{
	const unsigned int before = raw.packets;
	struct rpc_item m;

	raw_begin();
	raw_item(request(n, ECHO));
	raw.head.credit += raw.packets;
	raw_send();
	raw_until(raw.packets > before);
	m = raw_last_item();
	assert_int_equal(m.kind, RPC_RESPONSE);
	assert_int_equal(m.num, RAW_FIRST + n);
	assert_int_equal(m.aux, 0);
}

/* Check that the session ended for this reason, and that the peer got an END. */
static void
ended(enum leat_rpc_violation why)
{
	struct rpc_item m;
	unsigned int i;

	raw_until(b.nb_ev[LEAT_RPC_ENDED] == 1);
	assert_ptr_equal(b.ev.session, raw.at_b);
	assert_int_equal(b.ev.status, -EPROTO);
	assert_non_null(strstr(b.ev.text, leat_rpc_violation_name(why)));
	for (i = 1; i < LEAT_RPC_VIOLATIONS; i++)
		assert_int_equal(stats_of(&b).violations[i], i == (unsigned int)why);
	raw_until(raw.down);
	m = raw_last_item();
	assert_int_equal(m.kind, RPC_END);
	assert_int_equal(m.aux, EPROTO);
}

#define TEST(name, why, ...)                                                                       \
	static void test_##name(void **state)                                                      \
	{                                                                                          \
		(void)state;                                                                       \
		raw_begin();                                                                       \
		__VA_ARGS__;                                                                       \
		raw_send();                                                                        \
		ended(why);                                                                        \
	}

TEST(head_cut, LEAT_RPC_TRUNCATED, { raw.len = RPC_HEAD_LEN - 1; })
TEST(item_cut, LEAT_RPC_TRUNCATED, {
	raw_item(request(1, ECHO));
	raw.len -= 8;
})
TEST(len_too_large, LEAT_RPC_TRUNCATED, {
	raw_item(request(1, ECHO));
	raw.out[RPC_HEAD_LEN + 8] = 9;
})
TEST(bytes_behind, LEAT_RPC_TRUNCATED, {
	raw_item(request(1, ECHO));
	raw.len += 8;
})
TEST(packet_too_long, LEAT_RPC_OVERSIZE, { raw.len = RAW_PACKET + 8; })
TEST(message_too_long, LEAT_RPC_OVERSIZE, {
	struct rpc_item m = request(1, ECHO_LARGE);

	m.size = (8 << 20) + 1;
	raw_item(m);
})
TEST(version, LEAT_RPC_BAD_VERSION, { raw.head.version++; })
TEST(token_wrong, LEAT_RPC_BAD_TOKEN, { raw.head.token ^= UINT64_C(1) << 60; })
TEST(token_of_no_place, LEAT_RPC_BAD_TOKEN, { raw.head.token |= 0xffffffff; })
/*
 * The peer sends a packet whose token names the slot of another session. The other half of a token
 * is random: the packet ends the peer's own session.
 */
static void
test_token_of_another(void **state)
{
	struct leat_op *op = &raw.send;
	unsigned int i;
	bool hit = false;

	(void)state;
	raw_begin();
	raw.head.token = (raw.hello.token & ~UINT64_C(0xffffffff)) | 0;
	raw_item(request(1, ECHO));
	rpc_head_put(raw.out, &raw.head);
	raw.send = (struct leat_op){
		.type = LEAT_OP_SEND, .peer = raw.peer, .buf = raw.out, .size = raw.len
	};
	assert_int_equal(leat_ep_post(raw.ep, &op, 1), 1);
	for (i = 1; i < LEAT_RPC_VIOLATIONS; i++)
		hit |= stats_of(&b).violations[i] != 0;
	assert_false(hit);
	ended(LEAT_RPC_BAD_TOKEN);
}
TEST(epoch, LEAT_RPC_BAD_EPOCH, { raw.head.epoch++; })
TEST(credit_from_nowhere, LEAT_RPC_BAD_CREDIT, { raw.head.credit += 1; })
TEST(credit_huge, LEAT_RPC_BAD_CREDIT, { raw.head.credit += UINT32_C(1) << 31; })
TEST(credit_goes_back, LEAT_RPC_BAD_CREDIT, { raw.head.credit -= 1; })
TEST(kind, LEAT_RPC_BAD_KIND, { raw_item((struct rpc_item){ .kind = 9 }); })
TEST(flags, LEAT_RPC_BAD_FLAGS, {
	struct rpc_item m = request(1, ECHO);

	m.flags = 0x8000;
	raw_item(m);
})
TEST(pad, LEAT_RPC_BAD_FLAGS, {
	struct rpc_item m = request(1, ECHO);

	m.len = 7;
	raw_item(m);
	raw.out[raw.len - 1] = 1;
})
TEST(status, LEAT_RPC_BAD_STATUS,
     { raw_item((struct rpc_item){ .kind = RPC_RESPONSE, .num = 1, .aux = 5000 }); })
TEST(slot_impossible, LEAT_RPC_BAD_SLOT, {
	struct rpc_item m = request(1, ECHO);

	m.slot = 32;
	raw_item(m);
})
TEST(slot_of_internal, LEAT_RPC_BAD_SLOT, {
	struct rpc_item m = request(1, ECHO);

	m.slot = RAW_SLOTS;
	raw_item(m);
})
TEST(cancel_slot_impossible, LEAT_RPC_BAD_SLOT,
     { raw_item((struct rpc_item){ .kind = RPC_CANCEL, .slot = 32 }); })
TEST(cancel_of_nothing, LEAT_RPC_NUM_FUTURE,
     { raw_item((struct rpc_item){ .kind = RPC_CANCEL, .num = RAW_FIRST + 1 }); })
TEST(number_future, LEAT_RPC_NUM_FUTURE, { raw_item(request(2, ECHO)); })
TEST(number_impossible, LEAT_RPC_NUM_PAST, { raw_item(request(UINT32_C(1) << 31, ECHO)); })
TEST(number_duplicate, LEAT_RPC_NUM_DUPLICATE, {
	honest(1);
	raw_begin();
	raw.head.credit++;
	raw_item(request(1, ECHO));
})
TEST(number_past, LEAT_RPC_NUM_PAST, {
	honest(1);
	honest(2);
	raw_begin();
	raw.head.credit += 2;
	raw_item(request(1, ECHO));
})
TEST(piece_of_nothing, LEAT_RPC_NUM_FUTURE, {
	struct rpc_item m = request(1, ECHO_LARGE);

	m.size = 100;
	m.off = 50;
	raw_item(m);
})
TEST(piece_skipped, LEAT_RPC_BAD_PIECE, {
	struct rpc_item m = request(1, ECHO_LARGE);

	m.size = 100;
	raw_item(m);
	m.off = 16;
	raw_item(m);
})
TEST(piece_again, LEAT_RPC_BAD_PIECE, {
	struct rpc_item m = request(1, ECHO_LARGE);

	m.size = 100;
	raw_item(m);
	m.off = 8;
	raw_item(m);
	raw_item(m);
})
TEST(piece_of_other_size, LEAT_RPC_BAD_PIECE, {
	struct rpc_item m = request(1, ECHO_LARGE);

	m.size = 100;
	raw_item(m);
	m.off = 8;
	m.size = 101;
	raw_item(m);
})
TEST(piece_after_the_last, LEAT_RPC_BAD_PIECE, {
	struct rpc_item m = request(1, COUNT);

	raw_item(m);
	m.size = 100;
	m.off = 8;
	raw_item(m);
})
TEST(slot_busy, LEAT_RPC_SLOT_BUSY, {
	raw_item(request(1, LATER));
	raw_item(request(2, ECHO));
})
TEST(response_unasked, LEAT_RPC_NUM_FUTURE,
     { raw_item((struct rpc_item){ .kind = RPC_RESPONSE, .num = raw.hello.first + 1, .len = 8 }); })
TEST(response_to_the_past, LEAT_RPC_NUM_PAST,
     { raw_item((struct rpc_item){ .kind = RPC_RESPONSE, .num = raw.hello.first - 1, .len = 8 }); })
TEST(response_to_a_free_slot, LEAT_RPC_UNASKED,
     { raw_item((struct rpc_item){ .kind = RPC_RESPONSE, .num = raw.hello.first, .len = 8 }); })
TEST(response_slot_impossible, LEAT_RPC_BAD_SLOT, {
	raw_item((struct rpc_item){
		.kind = RPC_RESPONSE, .slot = RAW_SLOTS + RPC_INTERNAL_SLOTS, .len = 8 });
})

/* The peer sends more packets than it has credits, before b grants others: the session ends. */
static void
test_overrun(void **state)
{
	struct leat_op *op = &raw.send, *ops[4];
	uint32_t i;

	(void)state;
	for (i = 0; i <= raw.hello.credits; i++) {
		raw_begin();
		rpc_head_put(raw.out, &raw.head);
		raw.send = (struct leat_op){
			.type = LEAT_OP_SEND, .peer = raw.peer, .buf = raw.out, .size = raw.len
		};
		assert_int_equal(leat_ep_post(raw.ep, &op, 1), 1);
		while (raw.send.state != 0)
			(void)leat_ep_poll(raw.ep, ops, 4);
	}
	ended(LEAT_RPC_OVERRUN);
}

static int
setup_overrun(void **state)
{
	pair_conf.credits = 3;
	return raw_setup(state);
}

/* ---- responses to requests of b ---- */

static struct leat_rpc_req asked;
static uint8_t answer[64];

static void
ask(void)
{
	const unsigned int before = raw.packets;

	asked = (struct leat_rpc_req){ .session = raw.at_b,
				       .type = 3,
				       .buf = "question",
				       .len = 8,
				       .resp = answer,
				       .room = sizeof(answer) };
	post1(&asked);
	raw_until(raw.packets > before);
}

static struct rpc_item
response(uint16_t len)
{
	return (struct rpc_item){
		.kind = RPC_RESPONSE, .type = 3, .num = raw.hello.first + 1, .len = len
	};
}

#define ASKED(name, why, st, ...)                                                                  \
	static void test_##name(void **state)                                                      \
	{                                                                                          \
		(void)state;                                                                       \
		ask();                                                                             \
		raw_begin();                                                                       \
		raw.head.credit++;                                                                 \
		__VA_ARGS__;                                                                       \
		raw_send();                                                                        \
		ended(why);                                                                        \
		assert_int_equal(asked.state, 0);                                                  \
		assert_int_equal(asked.status, st);                                                \
	}

ASKED(answer_to_another_number, LEAT_RPC_NUM_FUTURE, -EPROTO, {
	struct rpc_item m = response(8);

	m.num++;
	raw_item(m);
})
ASKED(answer_twice, LEAT_RPC_UNASKED, 0, {
	raw_item(response(8));
	raw_item(response(8));
})
ASKED(answer_skips, LEAT_RPC_BAD_PIECE, -EPROTO, {
	struct rpc_item m = response(8);

	m.size = 32;
	raw_item(m);
	m.off = 16;
	raw_item(m);
})
ASKED(answer_grows, LEAT_RPC_BAD_PIECE, -EPROTO, {
	struct rpc_item m = response(8);

	m.size = 32;
	raw_item(m);
	m.off = 8;
	m.size = 64;
	raw_item(m);
})
ASKED(answer_oversize, LEAT_RPC_OVERSIZE, -EPROTO, {
	struct rpc_item m = response(8);

	m.size = (8 << 20) + 1;
	raw_item(m);
})

/*
 * The peer answers a request of several packets with success before it has the last of them: its
 * session ends.
 */
static void
test_answer_too_early(void **state)
{
	static uint8_t big[1 << 20];

	(void)state;
	asked = (struct leat_rpc_req){
		.session = raw.at_b, .type = 3, .buf = big, .len = sizeof(big)
	};
	post1(&asked);
	raw_until(raw.packets > 0);
	raw_begin();
	raw.head.credit++;
	raw_item(response(8));
	raw_send();
	raw_until(asked.state == 0);
	assert_int_equal(asked.status, -EPROTO);
	raw_until(b.nb_ev[LEAT_RPC_ENDED] == 1);
	assert_int_equal(stats_of(&b).violations[LEAT_RPC_UNASKED], 1);
}

/* ---- hellos ---- */

/*
 * Two invalid hellos are rejected. A hello that requires an unknown feature is refused, with the
 * reason.
 */
static void
test_hellos(void **state)
{
	struct rpc_hello h = raw_hello();
	uint8_t buf[RPC_HELLO_LEN];

	(void)state;
	rpc_hello_put(buf, &h);
	buf[4]++;
	raw_connect(buf, sizeof(buf));
	raw_until(raw.down);
	raw_connect((const uint8_t *)"GET / HTTP/1.1", 14);
	raw_until(raw.down);
	h.required = 0x80000000;
	rpc_hello_put(buf, &h);
	raw_connect(buf, sizeof(buf));
	raw_until(raw.up);
	assert_int_equal(raw.hello.refused, RPC_REFUSED_FEATURES);
	assert_int_equal(raw.hello.credits, 0x80000000);
	/* The peer does not disconnect: b disconnects it. */
	raw_until(raw.down);
	assert_int_equal(b.nb_refused, 3);
	assert_int_equal(stats_of(&b).refusals, 1);
}

#define on(test) cmocka_unit_test_setup_teardown(test, raw_setup, raw_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		on(test_head_cut),
		on(test_item_cut),
		on(test_len_too_large),
		on(test_bytes_behind),
		on(test_packet_too_long),
		on(test_message_too_long),
		on(test_version),
		on(test_token_wrong),
		on(test_token_of_no_place),
		on(test_token_of_another),
		on(test_epoch),
		on(test_credit_from_nowhere),
		on(test_credit_huge),
		on(test_credit_goes_back),
		cmocka_unit_test_setup_teardown(test_overrun, setup_overrun, raw_teardown),
		on(test_kind),
		on(test_flags),
		on(test_pad),
		on(test_status),
		on(test_slot_impossible),
		on(test_slot_of_internal),
		on(test_cancel_slot_impossible),
		on(test_cancel_of_nothing),
		on(test_number_future),
		on(test_number_impossible),
		on(test_number_duplicate),
		on(test_number_past),
		on(test_piece_of_nothing),
		on(test_piece_skipped),
		on(test_piece_again),
		on(test_piece_of_other_size),
		on(test_piece_after_the_last),
		on(test_slot_busy),
		on(test_response_unasked),
		on(test_response_to_the_past),
		on(test_response_to_a_free_slot),
		on(test_response_slot_impossible),
		on(test_answer_to_another_number),
		on(test_answer_twice),
		on(test_answer_skips),
		on(test_answer_grows),
		on(test_answer_oversize),
		on(test_answer_too_early),
		on(test_hellos),
	};

	return cmocka_run_group_tests_name("rpc-hostile", tests, pair_start, pair_stop);
}
