/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Memory that requests describe: tasks of the other side pull from it and push to it, by READ and
 * WRITE or in messages. A request comes back when, and only when, the other side can't reach its
 * memory any more.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <leat_mr.h>
#include <leat_scope.h>

#include "rpc_tasks.h"

#define BIG (16u << 20)
#define MANY 40

/*
 * Types of requests that b handles, besides those of rpc_pair.h. The handler of AT_ONCE answers
 * itself, the others spawn a task.
 */
enum { PULL = 20, PUSH, HOLD, AT_ONCE };

/* Bytes of a request: the transfer to make, and the seed of the contents. */
struct ask {
	uint32_t index, seed;
	uint64_t off, len;
};

static uint8_t *mem, *far; /* memory of a, and of b: BIG bytes each */
static struct leat_mr *mr; /* region of mem; NULL: transfer by messages */
static struct leat_rpc_bulk bulk[LEAT_RPC_BULK_MAX];
static struct leat_task *last;	       /* the task that b spawned last */
static int last_status;		       /* status of the last transfer */
static unsigned int nb_transfers;      /* transfers that have ended */
static struct leat_rpc_incoming *held; /* HOLD: the request that the test answers */

static uint8_t
byte_of(uint64_t i, uint32_t seed)
{
	return (uint8_t)(i * 7 + (i >> 8) * 3 + seed);
}

static void
fill(uint8_t *p, uint64_t off, uint64_t len, uint32_t seed)
{
	uint64_t i;

	for (i = 0; i < len; i++)
		p[i] = byte_of(off + i, seed);
}

static void
check(const uint8_t *p, uint64_t off, uint64_t len, uint32_t seed)
{
	uint64_t i;

	for (i = 0; i < len; i++) {
		if (p[i] != byte_of(off + i, seed))
			fail_msg("byte %llu of %llu", (unsigned long long)i,
				 (unsigned long long)len);
	}
}

/* ---- the other side ---- */

static int
transfer_task(void *arg)
{
	struct leat_rpc_incoming *call = arg;
	uint8_t *buf = far;
	struct ask ask;

	memcpy(&ask, call->req, sizeof(ask));
	/* Each of several concurrent requests has its own part of `far`. */
	if (ask.len * MANY < BIG)
		buf = far + (size_t)ask.seed % MANY * (BIG / MANY);
	if (call->type == PUSH) {
		fill(buf, ask.off, ask.len, ask.seed);
		last_status = leat_rpc_push(call, ask.index, ask.off, buf, ask.len, NULL);
	} else {
		last_status = leat_rpc_pull(call, ask.index, ask.off, buf, ask.len, NULL);
		if (last_status == 0)
			check(buf, ask.off, ask.len, ask.seed);
	}
	nb_transfers++;
	if (call->type == HOLD) {
		held = call;
		return 0;
	}
	memcpy(call->resp, "done", 4);
	call->resp_len = 4;
	leat_rpc_answer(call, last_status);
	return 0;
}

static int
on_transfer(struct leat_rpc_incoming *call, void *arg)
{
	struct leat_rpc_incoming *ticket = leat_rpc_defer(call);

	(void)arg;
	if (ticket == NULL)
		return -EBUSY;
	assert_int_equal(ticket->len, sizeof(struct ask));
	last = leat_task_spawn(ts, "transfer", transfer_task, ticket);
	assert_non_null(last);
	return LEAT_RPC_DEFERRED;
}

/* A handler outside a task: it can look at the descriptors, and no more. */
static int
on_at_once(struct leat_rpc_incoming *call, void *arg)
{
	uint32_t access = 0;

	(void)arg;
	assert_int_equal(leat_rpc_pull(call, 0, 0, far, 1, NULL), -EPERM);
	assert_int_equal(call->nb_bulk, 2);
	assert_int_equal(leat_rpc_incoming_bulk(call, 0, &access), 1000);
	assert_int_equal(access, LEAT_RPC_BULK_PULL);
	assert_int_equal(leat_rpc_incoming_bulk(call, 1, &access), 2000);
	assert_int_equal(access, LEAT_RPC_BULK_PUSH);
	assert_int_equal(leat_rpc_incoming_bulk(call, 2, NULL), 0);
	assert_int_equal(call->len, 5);
	memcpy(call->resp, call->req, 5);
	call->resp_len = 5;
	return 0;
}

static int
begin(void **state, int (*pair)(void **), bool keyed)
{
	unsigned int type;

	if (keyed)
		pair_ep_conf.ops = LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV) |
				   LEAT_OP_BIT(LEAT_OP_READ) | LEAT_OP_BIT(LEAT_OP_WRITE);
	(void)pair(state);
	(void)tasks_setup(state);
	for (type = PULL; type <= HOLD; type++)
		assert_int_equal(leat_rpc_handler_set(b.rpc, (uint8_t)type, on_transfer, NULL, 16),
				 0);
	assert_int_equal(leat_rpc_handler_set(b.rpc, AT_ONCE, on_at_once, NULL, 16), 0);
	mem = malloc(BIG);
	far = malloc(BIG);
	assert_non_null(mem);
	assert_non_null(far);
	mr = NULL;
	if (keyed) {
		mr = leat_mr_register(a.ep, mem, BIG, LEAT_MR_REMOTE_READ | LEAT_MR_REMOTE_WRITE);
		assert_non_null(mr);
	}
	last_status = 0;
	nb_transfers = 0;
	held = NULL;
	return 0;
}

static int
setup_keyed(void **state)
{
	return begin(state, pair_setup, true);
}

static int
setup_messages(void **state)
{
	return begin(state, pair_setup, false);
}

static int
setup_fault(void **state)
{
	return begin(state, pair_setup_fault, true);
}

static int
setup_dgram(void **state)
{
	return begin(state, pair_setup_dgram, false);
}

static int
setup_lossy(void **state)
{
	return begin(state, pair_setup_lossy, false);
}

static int
setup_few(void **state)
{
	pair_conf.segments = 3;
	pair_conf.segment = 4096;
	return begin(state, pair_setup, true);
}

static int
setup_few_messages(void **state)
{
	pair_conf.segments = 3;
	return begin(state, pair_setup, false);
}

static int
setup_two_slots(void **state)
{
	pair_conf.slots = 2;
	return begin(state, pair_setup, false);
}

static int
setup_two_slots_dgram(void **state)
{
	pair_conf.slots = 2;
	return begin(state, pair_setup_dgram, false);
}

static int
setup_grace(void **state)
{
	pair_conf.bulk_grace_us = 20000;
	return begin(state, pair_setup, true);
}

static int
teardown(void **state)
{
	if (mr != NULL)
		assert_int_equal(leat_mr_deregister(mr), 0);
	assert_int_equal(stats_of(&a).transfers + stats_of(&b).transfers, 0);
	(void)tasks_teardown(state);
	free(mem);
	free(far);
	return 0;
}

/* ---- requests ---- */

static struct leat_rpc_req
request(uint8_t type, const struct ask *ask, uint32_t access)
{
	static uint8_t resp[16]; /* shared by all requests: each gets "done" */

	bulk[0] = (struct leat_rpc_bulk){ .addr = mem, .len = BIG, .mr = mr, .access = access };
	return (struct leat_rpc_req){ .session = sa[0],
				      .type = type,
				      .flags = LEAT_RPC_BULK,
				      .buf = ask,
				      .len = sizeof(*ask),
				      .resp = resp,
				      .room = sizeof(resp),
				      .bulk = bulk,
				      .nb_bulk = 1,
				      .deadline = LEAT_RPC_NO_DEADLINE };
}

static int
ask_for(uint8_t type, const struct ask *ask)
{
	struct leat_rpc_req req = request(type, ask, LEAT_RPC_BULK_PULL | LEAT_RPC_BULK_PUSH);
	uint8_t resp[16];

	req.resp = resp;
	req.room = sizeof(resp);
	post1(&req);
	turn_until(req.state == 0);
	if (req.status == 0)
		assert_memory_equal(resp, "done", 4);
	return req.status;
}

static void
test_lengths(void **state)
{
	static const uint64_t lens[] = { 0, 1, 7, 4000, 4064, 4065, 65535, 65537, 1000003, BIG };
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		struct ask ask = { .off = lens[i] == BIG ? 0 : 13, .len = lens[i], .seed = i };

		/*
		 * Large transfers by messages take long over datagrams of which a third is lost:
		 * shorten them.
		 */
		if (lens[i] > 100000 && mr == NULL)
			ask.len = 300001;
		fill(mem + ask.off, ask.off, ask.len, i);
		assert_int_equal(ask_for(PULL, &ask), 0);
		memset(mem, 0xee, ask.off + ask.len);
		ask.seed = i + 100;
		assert_int_equal(ask_for(PUSH, &ask), 0);
		check(mem + ask.off, ask.off, ask.len, ask.seed);
		if (ask.off > 0)
			assert_int_equal(mem[ask.off - 1], 0xee);
	}
	assert_true(stats_of(&b).pulled > 0 && stats_of(&b).pulled == stats_of(&b).pushed);
	assert_int_equal(stats_of(&b).by_message,
			 mr == NULL ? stats_of(&b).pulled + stats_of(&b).pushed : 0);
}

static void
test_many(void **state)
{
	static struct leat_rpc_req reqs[MANY];
	static struct ask asks[MANY];
	const uint64_t each = BIG / MANY - 1;
	unsigned int i;

	(void)state;
	for (i = 0; i < MANY; i++) {
		asks[i] = (struct ask){ .off = i * each, .len = each / 8, .seed = i };
		reqs[i] = request(i % 2 == 0 ? PULL : PUSH, &asks[i],
				  LEAT_RPC_BULK_PULL | LEAT_RPC_BULK_PUSH);
		fill(mem + asks[i].off, asks[i].off, asks[i].len, i);
	}
	for (i = 0; i < MANY; i++) {
		reqs[i].session = sa[i % 2];
		post1(&reqs[i]);
	}
	turn_until(nb_done == MANY);
	for (i = 0; i < MANY; i++) {
		assert_int_equal(reqs[i].status, 0);
		check(mem + asks[i].off, asks[i].off, asks[i].len, i);
	}
}

/*
 * All slots of each side are full of requests that wait for transfers by the other side. The
 * transfers end nevertheless, because they have slots of their own.
 */
static void
test_both_ways(void **state)
{
	static const struct ask what = { .len = 20000, .seed = 1 };
	static struct leat_rpc_req reqs[2 * MANY];
	unsigned int i;

	(void)state;
	assert_int_equal(leat_rpc_handler_set(a.rpc, PULL, on_transfer, NULL, 16), 0);
	fill(mem, 0, what.len, what.seed);
	for (i = 0; i < 2 * MANY; i++) {
		reqs[i] = request(PULL, &what, LEAT_RPC_BULK_PULL);
		if (i % 2 != 0)
			reqs[i].session = sb[0];
		post1(&reqs[i]);
	}
	for (i = 0; i < 2 * MANY; i++)
		turn_until(reqs[i].state == 0);
	assert_int_equal(nb_transfers, 2 * MANY);
	for (i = 0; i < 2 * MANY; i++)
		assert_int_equal(reqs[i].status, 0);
}

static void
test_at_once(void **state)
{
	char resp[16];
	struct leat_rpc_req req = { .session = sa[0],
				    .type = AT_ONCE,
				    .flags = LEAT_RPC_BULK,
				    .buf = "hello",
				    .len = 5,
				    .resp = resp,
				    .room = sizeof(resp),
				    .bulk = bulk,
				    .nb_bulk = 2 };

	(void)state;
	bulk[0] = (struct leat_rpc_bulk){ mem, 1000, mr, LEAT_RPC_BULK_PULL };
	bulk[1] = (struct leat_rpc_bulk){ mem, 2000, mr, LEAT_RPC_BULK_PUSH };
	post1(&req);
	turn_until(req.state == 0);
	assert_int_equal(req.status, 0);
	assert_int_equal(req.resp_len, 5);
	assert_memory_equal(resp, "hello", 5);
}

static int
posted(struct leat_rpc_req req)
{
	static struct leat_rpc_req one;

	one = req;
	post1(&one);
	turn_until(one.state == 0);
	return one.status;
}

/* Impossible transfers are refused, some by the side that asks, some by the called side. */
static void
test_refused(void **state)
{
	const struct ask ok = { .len = 100 }, beyond = { .off = BIG - 10, .len = 11 },
			 wraps = { .off = UINT64_MAX, .len = 2 }, other = { .index = 1, .len = 1 };
	struct leat_rpc_req req;

	(void)state;
	assert_int_equal(posted(request(PULL, &beyond, LEAT_RPC_BULK_PULL)), -ERANGE);
	assert_int_equal(posted(request(PULL, &wraps, LEAT_RPC_BULK_PULL)), -ERANGE);
	assert_int_equal(posted(request(PULL, &ok, LEAT_RPC_BULK_PUSH)), -EACCES);
	assert_int_equal(posted(request(PUSH, &ok, LEAT_RPC_BULK_PULL)), -EACCES);
	assert_int_equal(posted(request(PULL, &other, LEAT_RPC_BULK_PULL)), -EINVAL);
	req = request(PULL, &ok, LEAT_RPC_BULK_PULL);
	req.nb_bulk = LEAT_RPC_BULK_MAX + 1;
	assert_int_equal(posted(req), -EINVAL);
	req.nb_bulk = 0;
	assert_int_equal(posted(req), -EINVAL);
	req = request(PULL, &ok, 0);
	assert_int_equal(posted(req), -EINVAL);
	req = request(PULL, &ok, 4);
	assert_int_equal(posted(req), -EINVAL);
	req = request(PULL, &ok, LEAT_RPC_BULK_PULL);
	req.flags |= LEAT_RPC_ONEWAY;
	assert_int_equal(posted(req), -EINVAL);
	req.flags = 0x80;
	assert_int_equal(posted(req), -EINVAL);
	/* A request that describes memory has to fit into a packet. */
	req = request(PULL, &ok, LEAT_RPC_BULK_PULL);
	req.buf = mem;
	req.len = 5000;
	assert_int_equal(posted(req), -EMSGSIZE);
	if (mr != NULL) {
		req = request(PULL, &ok, LEAT_RPC_BULK_PULL);
		bulk[0].addr = mem + 1;
		assert_int_equal(posted(req), -ERANGE);
	}
	assert_int_equal(posted(request(PULL, &(struct ask){ .seed = 1 }, LEAT_RPC_BULK_PULL)), 0);
}

/* ---- requests that end in the middle of a transfer ---- */

/* Post a large request, and turn until a part of it is transferred. */
static void
midway(struct leat_rpc_req *req, uint8_t type, struct ask *ask)
{
	const struct leat_rpc_stats before = stats_of(&b);

	*ask = (struct ask){ .len = BIG, .seed = 5 };
	fill(mem, 0, BIG, 5);
	*req = request(type, ask, LEAT_RPC_BULK_PULL | LEAT_RPC_BULK_PUSH);
	post1(req);
	turn_until(stats_of(&b).pulled + stats_of(&b).pushed > before.pulled + before.pushed);
	assert_int_equal(nb_transfers, 0);
}

/* Refill the memory as soon as the request is back: no transfer may write to it then. */
static void
memory_is_free(void)
{
	unsigned int i;

	memset(mem, 0x11, BIG);
	for (i = 0; i < 2000; i++)
		assert_true(leat_reactor_turn(r) >= 0);
	for (i = 0; i < BIG; i++) {
		if (mem[i] != 0x11)
			fail_msg("byte %u was written", i);
	}
}

static void
cancel_in(uint8_t type)
{
	struct leat_rpc_req req;
	struct ask ask;

	midway(&req, type, &ask);
	if (mr != NULL) {
		assert_int_equal(leat_rpc_cancel(&req), 1);
		assert_int_equal(leat_rpc_cancel(&req), -EALREADY);
	} else {
		assert_int_equal(leat_rpc_cancel(&req), 0);
	}
	turn_until(req.state == 0);
	assert_int_equal(req.status, -ECANCELED);
	memory_is_free();
	turn_until(nb_transfers == 1);
	assert_int_equal(last_status, -ECANCELED);
	assert_int_equal(ask_for(PULL, &(struct ask){ 0 }), 0);
}

static void
test_cancel_pull(void **state)
{
	(void)state;
	cancel_in(PULL);
}

static void
test_cancel_push(void **state)
{
	(void)state;
	cancel_in(PUSH);
}

static void
test_late(void **state)
{
	struct leat_rpc_req req;
	struct ask ask = { .len = BIG, .seed = 5 };

	(void)state;
	req = request(PUSH, &ask, LEAT_RPC_BULK_PUSH);
	req.deadline = leat_now() + leat_us_to_cycles(500);
	post1(&req);
	turn_until(req.state == 0);
	assert_int_equal(req.status, -ETIMEDOUT);
	memory_is_free();
	assert_int_equal(ask_for(PULL, &(struct ask){ 0 }), 0);
}

/* The session ends if its peer does not release a cancelled request's memory in time. */
static void
test_grace(void **state)
{
	struct leat_rpc_req req;
	const struct ask ask = { .len = 100, .seed = 3 };

	(void)state;
	fill(mem, 0, 100, 3);
	req = request(HOLD, &ask, LEAT_RPC_BULK_PULL);
	post1(&req);
	turn_until(held != NULL);
	assert_int_equal(leat_rpc_cancel(&req), 1);
	turn_until(req.state == 0);
	assert_int_equal(req.status, -ECANCELED);
	turn_until(stats_of(&a).sessions == 1);
	assert_null(held->session);
	leat_rpc_answer(held, 0);
}

static void
test_closed(void **state)
{
	struct leat_rpc_req req;
	struct ask ask;

	(void)state;
	midway(&req, PUSH, &ask);
	assert_int_equal(leat_rpc_close(sb[0], 0), 0);
	turn_until(req.state == 0);
	assert_true(req.status < 0);
	memory_is_free();
	turn_until(nb_transfers == 1);
	assert_true(last_status < 0);
}

/* The task of b that pulls is cancelled, and answers with -ECANCELED. */
static void
test_task_cancelled(void **state)
{
	struct leat_rpc_req req;
	struct ask ask;

	(void)state;
	midway(&req, PULL, &ask);
	assert_int_equal(leat_task_cancel(last), 0);
	turn_until(req.state == 0);
	assert_int_equal(req.status, -ECANCELED);
	assert_int_equal(last_status, -ECANCELED);
	memory_is_free();
}

/* While a task transfers, the test answers its request: the answer waits for the transfer. */
static int
answer_early(struct leat_rpc_incoming *call, void *arg)
{
	struct leat_rpc_incoming *ticket = leat_rpc_defer(call);

	(void)arg;
	assert_non_null(ticket);
	held = ticket;
	last = leat_task_spawn(ts, "transfer", transfer_task, ticket);
	assert_non_null(last);
	return LEAT_RPC_DEFERRED;
}

static void
test_answered_early(void **state)
{
	struct ask ask = { .len = BIG, .seed = 5 };
	struct leat_rpc_req req;

	(void)state;
	fill(mem, 0, BIG, 5);
	assert_int_equal(leat_rpc_handler_set(b.rpc, HOLD, answer_early, NULL, 16), 0);
	req = request(HOLD, &ask, LEAT_RPC_BULK_PULL);
	post1(&req);
	turn_until(stats_of(&b).pulled > 0);
	leat_rpc_answer(held, -ENOENT);
	turn_until(req.state == 0);
	assert_int_equal(req.status, -ENOENT);
	assert_int_equal(nb_transfers, 1);
	assert_int_equal(last_status, 0);
}

/* Post the request from a task, which the test cancels. */
static int
calls(void *arg)
{
	struct leat_rpc_req req = request(PUSH, arg, LEAT_RPC_BULK_PUSH), *one = &req;

	return leat_rpc_call_many(&one, 1);
}

static void
test_call_cancelled(void **state)
{
	struct ask ask = { .len = BIG, .seed = 5 };
	struct leat_task *task = leat_task_spawn(ts, "caller", calls, &ask);
	int ret;

	(void)state;
	assert_non_null(task);
	turn_until(stats_of(&b).pushed > 0);
	assert_int_equal(leat_task_cancel(task), 0);
	turn_until(leat_task_state(task) == LEAT_TASK_DONE);
	assert_int_equal(leat_task_join(task, &ret), 0);
	assert_int_equal(ret, -ECANCELED);
	memory_is_free();
	turn_until(nb_transfers == 1);
}

#define on(setup, test)                                                                            \
	{                                                                                          \
#test "/" #setup, test, setup, teardown, NULL                                      \
	}
#define both(test) on(setup_keyed, test), on(setup_messages, test)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		both(test_lengths),
		on(setup_fault, test_lengths),
		on(setup_dgram, test_lengths),
		on(setup_lossy, test_lengths),
		both(test_many),
		on(setup_few, test_many),
		on(setup_few_messages, test_many),
		on(setup_two_slots, test_both_ways),
		on(setup_two_slots_dgram, test_both_ways),
		on(setup_fault, test_many),
		both(test_at_once),
		both(test_refused),
		both(test_cancel_pull),
		both(test_cancel_push),
		on(setup_dgram, test_cancel_push),
		both(test_late),
		on(setup_grace, test_grace),
		both(test_closed),
		both(test_task_cancelled),
		both(test_answered_early),
		both(test_call_cancelled),
	};

	return cmocka_run_group_tests_name("rpc-bulk", tests, pair_start, pair_stop);
}
