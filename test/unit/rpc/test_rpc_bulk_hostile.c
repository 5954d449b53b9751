/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Impossible descriptors, and messages that access memory which was not given: each ends the
 * session of the peer that sent it, before any memory is touched.
 */

#include <errno.h>
#include <string.h>

#include <leat_le.h>
#include <leat_reactor.h>
#include <leat_rpc_task.h>
#include <leat_task.h>

#include "rpc_raw.h"

static struct leat_rpc_session *bystander;
static struct leat_rpc_req asked;
static uint8_t memory[256];
static struct leat_rpc_bulk bulk;

static int
setup(void **state)
{
	(void)pair_setup(state);
	bystander = connected();
	raw_open(PAIR_RING);
	memset(memory, 0x77, sizeof(memory));
	return 0;
}

static int
teardown(void **state)
{
	char resp[8];
	unsigned int i;

	for (i = 0; i < sizeof(memory); i++)
		assert_int_equal(memory[i], 0x77);
	assert_int_equal(call(bystander, ECHO, "still up", 8, resp, 8), 8);
	b.closes = true;
	assert_int_equal(leat_rpc_close(bystander, 0), 0);
	(void)leat_rpc_close(raw.at_b, 0);
	drive_until(stats_of(&a).sessions == 0 && stats_of(&b).sessions == 0);
	raw_close();
	return pair_teardown(state);
}

static void
ended(void)
{
	raw_until(b.nb_ev[LEAT_RPC_ENDED] == 1);
	assert_int_equal(b.ev.status, -EPROTO);
	assert_int_equal(stats_of(&b).violations[LEAT_RPC_BAD_BULK], 1);
}

/* ---- descriptors ---- */

static uint8_t *
bulk_request(void)
{
	uint8_t *at;

	raw_begin();
	at = raw.out + raw.len + RPC_ITEM_LEN;
	rpc_descs_put(at,
		      &(struct rpc_desc){ .addr = 0x1000, .len = 64, .access = LEAT_RPC_BULK_PULL },
		      1);
	return at;
}

static void
bulk_send(uint16_t len)
{
	raw_item((struct rpc_item){ .kind = RPC_REQUEST,
				    .type = ECHO,
				    .num = RAW_FIRST + 1,
				    .flags = RPC_F_BULK,
				    .len = len });
	raw_send();
}

#define DESCRIPTOR(name, len, ...)                                                                 \
	static void test_##name(void **state)                                                      \
	{                                                                                          \
		uint8_t *at = bulk_request();                                                      \
                                                                                                   \
		(void)state;                                                                       \
		__VA_ARGS__;                                                                       \
		bulk_send(len);                                                                    \
		ended();                                                                           \
		assert_int_equal(b.nb_handled, 0);                                                 \
	}

DESCRIPTOR(none, RPC_BULK_HEAD_LEN, { leat_put_le32(at, 0); })
DESCRIPTOR(too_many, 500, { leat_put_le32(at, LEAT_RPC_BULK_MAX + 1); })
DESCRIPTOR(more_than_there, 40, { leat_put_le32(at, 2); })
DESCRIPTOR(head_cut, 4, { (void)at; })
DESCRIPTOR(head_not_zero, 40, { at[4] = 1; })
DESCRIPTOR(wraps, 40, {
	leat_put_le64(at + 8, UINT64_MAX - 10);
	leat_put_le64(at + 16, 100);
})
DESCRIPTOR(access, 40, { leat_put_le32(at + 32, 0x100); })
DESCRIPTOR(not_zero, 40, { at[36] = 1; })

/* A valid descriptor is accepted. */
static void
test_honest(void **state)
{
	(void)state;
	(void)bulk_request();
	bulk_send(40);
	raw_until(raw.packets > 0);
	assert_int_equal(raw_last_item().kind, RPC_RESPONSE);
	assert_int_equal(raw_last_item().len, 0);
	assert_int_equal(b.nb_handled, 1);
}

/* ---- transfer messages ---- */

/* Let b send a request that describes 64 B of memory, with this access. */
static void
ask(uint32_t access)
{
	const unsigned int before = raw.packets;

	bulk = (struct leat_rpc_bulk){ .addr = memory + 64, .len = 64, .access = access };
	asked = (struct leat_rpc_req){ .session = raw.at_b,
				       .type = 3,
				       .flags = LEAT_RPC_BULK,
				       .buf = "question",
				       .len = 8,
				       .bulk = &bulk,
				       .nb_bulk = 1,
				       .deadline = LEAT_RPC_NO_DEADLINE };
	post1(&asked);
	raw_until(raw.packets > before);
	/* The item holds neither an address nor a key. */
	assert_int_equal(raw_last_item().flags, RPC_F_BULK);
	assert_int_equal(leat_get_le64(raw.last + RPC_HEAD_LEN + RPC_ITEM_LEN + 8), 0);
	assert_int_equal(leat_get_le64(raw.last + RPC_HEAD_LEN + RPC_ITEM_LEN + 24), 0);
}

static struct rpc_bulk_msg
message(void)
{
	return (struct rpc_bulk_msg){ .num = raw.hello.first + 1, .len = 8 };
}

static void
message_send(uint8_t type, const struct rpc_bulk_msg *m, uint16_t len)
{
	raw_begin();
	raw.head.credit++;
	rpc_bulk_msg_put(raw.out + raw.len + RPC_ITEM_LEN, m);
	raw_item((struct rpc_item){ .kind = RPC_REQUEST,
				    .type = type,
				    .slot = RAW_SLOTS,
				    .num = RAW_FIRST + 1,
				    .flags = RPC_F_INTERNAL,
				    .len = len });
	raw_send();
}

#define MESSAGE(name, access, type, length, ...)                                                   \
	static void test_##name(void **state)                                                      \
	{                                                                                          \
		struct rpc_bulk_msg m;                                                             \
                                                                                                   \
		(void)state;                                                                       \
		ask(access);                                                                       \
		m = message();                                                                     \
		__VA_ARGS__;                                                                       \
		message_send(type, &m, length);                                                    \
		ended();                                                                           \
		assert_int_equal(asked.status, -EPROTO);                                           \
	}

#define BOTH (LEAT_RPC_BULK_PULL | LEAT_RPC_BULK_PUSH)
#define GET RPC_BULK_GET
#define PUT RPC_BULK_PUT
#define LEN RPC_BULK_MSG_LEN

MESSAGE(get_beyond, BOTH, GET, LEN, { m.off = 60; })
MESSAGE(get_before, BOTH, GET, LEN, { m.off = (uint64_t)-8; })
MESSAGE(get_too_long, BOTH, GET, LEN, { m.len = 65; })
MESSAGE(get_huge, BOTH, GET, LEN, { m.len = UINT32_MAX; })
MESSAGE(get_of_write_only, LEAT_RPC_BULK_PUSH, GET, LEN, { (void)m; })
MESSAGE(put_to_read_only, LEAT_RPC_BULK_PULL, PUT, LEN + 8, { (void)m; })
MESSAGE(put_beyond, BOTH, PUT, LEN + 8, { m.off = 57; })
MESSAGE(put_lies, BOTH, PUT, LEN + 8, { m.len = 9; })
MESSAGE(get_lies, BOTH, GET, LEN + 8, { (void)m; })
MESSAGE(index_beyond, BOTH, GET, LEN, { m.index = 1; })
MESSAGE(slot_beyond, BOTH, GET, LEN, { m.slot = RAW_SLOTS; })
MESSAGE(number_future, BOTH, GET, LEN, { m.num++; })
MESSAGE(message_cut, BOTH, GET, LEN - 8, { (void)m; })
MESSAGE(type_unknown, BOTH, 7, LEN, { (void)m; })

/* Access to memory of a request that has described none ends the session. */
static void
test_nothing_described(void **state)
{
	const struct rpc_bulk_msg m = { .num = raw.hello.first + 1, .len = 8 };

	(void)state;
	asked = (struct leat_rpc_req){ .session = raw.at_b, .type = 3 };
	post1(&asked);
	raw_until(raw.packets > 0);
	message_send(GET, &m, LEN);
	ended();
}

/* A transfer message in a slot of ordinary requests ends the session. */
static void
test_slot_of_others(void **state)
{
	const struct rpc_bulk_msg m = { .num = raw.hello.first + 1, .len = 8 };

	(void)state;
	ask(BOTH);
	raw_begin();
	raw.head.credit++;
	rpc_bulk_msg_put(raw.out + raw.len + RPC_ITEM_LEN, &m);
	raw_item((struct rpc_item){ .kind = RPC_REQUEST,
				    .type = GET,
				    .slot = RAW_SLOTS - 1,
				    .num = RAW_FIRST + 1,
				    .flags = RPC_F_INTERNAL,
				    .len = LEN });
	raw_send();
	raw_until(b.nb_ev[LEAT_RPC_ENDED] == 1);
	assert_int_equal(stats_of(&b).violations[LEAT_RPC_BAD_SLOT], 1);
}

/* Access to the memory of a cancelled request is no violation, and touches no memory. */
static void
test_gone(void **state)
{
	struct rpc_bulk_msg m;
	unsigned int packets;

	(void)state;
	ask(BOTH);
	m = message();
	assert_int_equal(leat_rpc_cancel(&asked), 0);
	packets = raw.packets;
	raw_until(asked.state == 0 && raw.packets > packets);
	packets = raw.packets;
	raw_begin();
	raw.head.credit += 2;
	rpc_bulk_msg_put(raw.out + raw.len + RPC_ITEM_LEN, &m);
	raw_item((struct rpc_item){ .kind = RPC_REQUEST,
				    .type = PUT,
				    .slot = RAW_SLOTS,
				    .num = RAW_FIRST + 1,
				    .flags = RPC_F_INTERNAL,
				    .len = LEN + 8 });
	raw_send();
	raw_until(raw.packets > packets);
	assert_int_equal(raw_last_item().kind, RPC_RESPONSE);
	assert_int_equal(raw_last_item().aux, ECANCELED);
	assert_int_equal(b.nb_ev[LEAT_RPC_ENDED], 0);
}

/* A valid message that reads the described memory gets its bytes. */
static void
test_get(void **state)
{
	struct rpc_bulk_msg m;
	unsigned int packets;

	(void)state;
	ask(BOTH);
	m = message();
	m.off = 56;
	packets = raw.packets;
	message_send(GET, &m, LEN);
	raw_until(raw.packets > packets);
	assert_int_equal(raw_last_item().aux, 0);
	assert_int_equal(raw_last_item().len, 8);
	assert_memory_equal(raw.last + RPC_HEAD_LEN + RPC_ITEM_LEN, memory, 8);
}

/* A request that describes memory, to a peer without that feature, is refused. */
static void
test_feature(void **state)
{
	struct rpc_hello h = raw_hello();
	uint8_t buf[RPC_HELLO_LEN];

	(void)state;
	h.features = RPC_FEATURE_LARGE;
	rpc_hello_put(buf, &h);
	raw_connect(buf, sizeof(buf));
	raw_until(raw.up && b.nb_ev[LEAT_RPC_UP] == 3);
	bulk = (struct leat_rpc_bulk){ .addr = memory, .len = 64, .access = BOTH };
	asked = (struct leat_rpc_req){
		.session = b.accepted, .flags = LEAT_RPC_BULK, .bulk = &bulk, .nb_bulk = 1
	};
	post1(&asked);
	raw_until(asked.state == 0);
	assert_int_equal(asked.status, -EOPNOTSUPP);
	assert_int_equal(asked.refused, 1);
	b.closes = true;
	assert_int_equal(leat_rpc_close(b.accepted, 0), 0);
}

/* ---- an end in the middle of transfers ---- */

#define DEFERRED 60	/* type of the request whose memory the tasks pull from */
#define PULLERS 2	/* together they need more slots than there are for transfers */
#define PULL_PACKETS 16 /* each pulls that many packets */

static struct leat_rpc_incoming *pulled_from;

static int
on_deferred(struct leat_rpc_incoming *incoming, void *arg)
{
	(void)arg;
	pulled_from = leat_rpc_defer(incoming);
	assert_non_null(pulled_from);
	return LEAT_RPC_DEFERRED;
}

static int
pull(void *arg)
{
	static uint8_t buf[PULLERS][PULL_PACKETS * RAW_PACKET];
	uint8_t *into = buf[(uintptr_t)arg];

	return leat_rpc_pull(pulled_from, 0, 0, into, sizeof(buf[0]), NULL);
}

/*
 * The peer sends a request with memory, answers none of the messages that pull from it, and ends
 * the session with EBUSY, with which it could also have refused each message. The pulls end.
 * @param type event of the session's end
 */
static void
end_busy(enum leat_rpc_event_type type)
{
	struct leat_reactor *r = leat_reactor_create(NULL);
	struct leat_tasks *ts = leat_tasks_create(r, NULL);
	struct leat_task *task[PULLERS];
	uintptr_t i;
	int ret;

	assert_non_null(ts);
	pulled_from = NULL;
	assert_int_equal(leat_rpc_handler_set(b.rpc, DEFERRED, on_deferred, NULL, 0), 0);
	raw_begin();
	rpc_descs_put(raw.out + raw.len + RPC_ITEM_LEN,
		      &(struct rpc_desc){ .len = 1 << 20, .access = LEAT_RPC_BULK_PULL }, 1);
	raw_item((struct rpc_item){ .kind = RPC_REQUEST,
				    .type = DEFERRED,
				    .num = RAW_FIRST + 1,
				    .flags = RPC_F_BULK,
				    .len = 40 });
	raw_send();
	raw_until(pulled_from != NULL);
	for (i = 0; i < PULLERS; i++) {
		task[i] = leat_task_spawn(ts, "pull", pull, (void *)i);
		assert_non_null(task[i]);
	}
	assert_true(leat_reactor_turn(r) >= 0);
	raw_until(raw.packets >= RPC_INTERNAL_SLOTS);
	for (i = 0; i < PULLERS; i++)
		assert_int_equal(leat_task_state(task[i]), LEAT_TASK_WAITING);
	raw_begin();
	raw_item((struct rpc_item){ .kind = RPC_END, .aux = EBUSY });
	raw_send();
	raw_until(b.nb_ev[type] == 1);
	assert_int_equal(b.ev.status, -EBUSY);
	for (i = 0; i < PULLERS; i++) {
		while (leat_task_state(task[i]) != LEAT_TASK_DONE)
			assert_int_equal(leat_reactor_turn(r), 1);
		assert_int_equal(leat_task_join(task[i], &ret), 0);
		assert_true(ret < 0);
	}
	assert_int_equal(stats_of(&b).transfers, 0);
	leat_rpc_answer(pulled_from, 0);
	assert_int_equal(leat_tasks_destroy(ts), 0);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

static void
test_end_busy(void **state)
{
	(void)state;
	end_busy(LEAT_RPC_ENDED);
}

/* As above, on a session that connects again. */
static void
test_end_busy_again(void **state)
{
	const struct leat_rpc_session_conf conf = { .reconnect_min_us = 1000000 };
	const unsigned int ups = b.nb_ev[LEAT_RPC_UP];
	char at[LEAT_ADDR_MAX];

	(void)state;
	assert_int_equal(leat_rpc_close(raw.at_b, 0), 0);
	raw_until(raw.down);
	raw_listen(at, sizeof(at));
	raw.at_b = leat_rpc_connect(b.rpc, at, &conf);
	assert_non_null(raw.at_b);
	raw_until(raw.up && b.nb_ev[LEAT_RPC_UP] > ups);
	end_busy(LEAT_RPC_DOWN);
	assert_int_equal(b.nb_ev[LEAT_RPC_ENDED], 0);
}

#define on(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		on(test_none),
		on(test_too_many),
		on(test_more_than_there),
		on(test_head_cut),
		on(test_head_not_zero),
		on(test_wraps),
		on(test_access),
		on(test_not_zero),
		on(test_honest),
		on(test_get_beyond),
		on(test_get_before),
		on(test_get_too_long),
		on(test_get_huge),
		on(test_get_of_write_only),
		on(test_put_to_read_only),
		on(test_put_beyond),
		on(test_put_lies),
		on(test_get_lies),
		on(test_index_beyond),
		on(test_slot_beyond),
		on(test_number_future),
		on(test_message_cut),
		on(test_type_unknown),
		on(test_nothing_described),
		on(test_slot_of_others),
		on(test_gone),
		on(test_get),
		on(test_feature),
		on(test_end_busy),
		on(test_end_busy_again),
	};

	return cmocka_run_group_tests_name("rpc-bulk-hostile", tests, pair_start, pair_stop);
}
