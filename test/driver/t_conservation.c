/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Promise 1: poll returns every op that post accepted exactly once, whatever happens; an op that
 * post did not accept still belongs to the caller. The node checks this op by op in every test;
 * these tests create the situations in which a driver might break it.
 */

#include "ct.h"

#define MIB (UINT64_C(1) << 20)

static struct ct_spec
spec_of(uint8_t type, uint16_t peer, uint32_t count, uint64_t size, uint64_t size_max,
	uint64_t seed)
{
	return (struct ct_spec){ .type = type,
				 .peer = peer,
				 .count = count,
				 .size = size,
				 .size_max = size_max,
				 .seed = seed };
}

/* Start a stream of each op type of the device, from s to peer; rk: memory of one-sided ops. */
static unsigned int
one_of_each(struct ct_side *s, uint16_t peer, const struct leat_rkey *rk, uint32_t count,
	    uint64_t size_max, uint32_t queue, int *streams)
{
	static const uint8_t types[] = { LEAT_OP_SEND,	  LEAT_OP_TSEND,     LEAT_OP_WRITE,
					 LEAT_OP_READ,	  LEAT_OP_WRITE_IMM, LEAT_OP_FETCH_ADD,
					 LEAT_OP_CMP_SWAP };
	unsigned int i, n = 0;

	for (i = 0; i < RTE_DIM(types); i++) {
		bool atomic = types[i] >= LEAT_OP_FETCH_ADD;
		struct ct_spec spec = spec_of(types[i], peer, count, atomic ? 8 : 1,
					      atomic ? 0 : size_max, 100 + i);

		if ((ct.info.ops & LEAT_OP_BIT(types[i])) == 0)
			continue;
		if (types[i] != LEAT_OP_SEND && types[i] != LEAT_OP_TSEND) {
			spec.raddr = rk->addr;
			spec.rkey = rk->key;
		}
		spec.queue = queue;
		streams[n++] = ct_stream(s, &spec);
	}
	return n;
}

static int
receives(struct ct_side *s, uint8_t type, uint16_t peer, uint32_t count, uint64_t size)
{
	struct ct_spec spec = spec_of(type, peer, count, size, 0, 0);

	spec.ignore = UINT64_MAX;
	return ct_stream(s, &spec);
}

static int
target(struct ct_side *s, uint64_t len, struct leat_rkey *rk)
{
	memset(rk, 0, sizeof(*rk));
	return ct_access() == 0 ? -1 : ct_mr(s, len, ct_access(), 3, rk);
}

static void
all_back(struct ct_side *s, const int *streams, unsigned int n)
{
	struct ct_result res;
	unsigned int i;

	for (i = 0; i < n; i++) {
		ct_result(s, streams[i], &res);
		ct_wait(s, streams[i], res.posted, NULL);
	}
	CT_EQ(ct_state(s).val[0], 0, "ops with the device");
}

/* Ops of every type, in both directions at once, all succeed. */
static void
success_mixed(void)
{
	const uint32_t n = ct_scaled(200);
	int sa[8], sb[8];
	unsigned int i, k;
	struct leat_rkey ra, rb;
	struct ct_pair p;
	bool imm = (ct.info.ops & WI) != 0, tag = (ct.info.ops & TSR) == TSR;

	ct_pair_open(&p, NULL, NULL);
	(void)target(&p.a, MIB, &ra);
	(void)target(&p.b, MIB, &rb);
	(void)receives(&p.a, LEAT_OP_RECV, LEAT_PEER_ANY, n * (imm ? 2 : 1), 30000);
	(void)receives(&p.b, LEAT_OP_RECV, LEAT_PEER_ANY, n * (imm ? 2 : 1), 30000);
	if (tag) {
		(void)receives(&p.a, LEAT_OP_TRECV, LEAT_PEER_ANY, n, 30000);
		(void)receives(&p.b, LEAT_OP_TRECV, LEAT_PEER_ANY, n, 30000);
	}
	(void)one_of_each(&p.a, p.pa, &rb, n, 30000, CT_Q_DEFAULT, sa);
	k = one_of_each(&p.b, p.pb, &ra, n, 30000, CT_Q_DEFAULT, sb);
	for (i = 0; i < k; i++) {
		ct_wait_ok(&p.a, sa[i], n);
		ct_wait_ok(&p.b, sb[i], n);
	}
	ct_pair_close(&p);
}

/* Good and bad ops alternate: each has its own outcome. */
static void
errors_among_good(void)
{
	const uint32_t n = ct_scaled(100);
	struct ct_spec bad = spec_of(LEAT_OP_SEND, 0, n, 100, 0, 0);
	struct ct_result res;
	struct ct_pair p;
	int rx, tx, b1, b2;

	ct_pair_open(&p, NULL, NULL);
	rx = receives(&p.b, LEAT_OP_RECV, LEAT_PEER_ANY, n, 5000);
	bad.peer = (uint16_t)(p.pa + 1);
	b1 = ct_stream(&p.a, &bad);
	bad.peer = p.pa;
	bad.bad = CT_BAD_NOBUF;
	b2 = ct_stream(&p.a, &bad);
	bad = spec_of(LEAT_OP_SEND, p.pa, n, 1, 5000, 10);
	tx = ct_stream(&p.a, &bad);
	ct_wait_ok(&p.a, tx, n);
	ct_wait_ok(&p.b, rx, n);
	ct_wait(&p.a, b1, n, &res);
	CT_EQ(ct_status_count(&res, -ENOTCONN), n, "sends to no peer with ENOTCONN");
	ct_wait(&p.a, b2, n, &res);
	CT_EQ(ct_status_count(&res, -EINVAL), n, "sends without a buffer with EINVAL");
	ct_pair_close(&p);
}

/* Half of the receives are cancelled, the others get messages. */
static void
cancel_half(void)
{
	const uint32_t n = RTE_MIN(ct.info.rx_depth, 200u);
	struct ct_result res;
	struct ct_pair p;
	struct ct_spec s;
	uint32_t i;
	int rx, tx;

	ct_pair_open(&p, NULL, NULL);
	s = spec_of(LEAT_OP_RECV, LEAT_PEER_ANY, n, 2000, 0, 0);
	s.queue = CT_Q_NONE;
	rx = ct_stream(&p.b, &s);
	/* Wait until all are posted: only ops in flight can be cancelled. */
	ct_wait_posted(&p.b, rx, n);
	for (i = 0; i < n; i += 2)
		(void)ct_cancel(&p.b, rx, i, i + 1, NULL);
	ct_wait(&p.b, rx, (n + 1) / 2, &res);
	CT_EQ(ct_status_count(&res, -ECANCELED), (n + 1) / 2, "cancelled");
	s = spec_of(LEAT_OP_SEND, p.pa, n / 2, 1, 2000, 5);
	tx = ct_stream(&p.a, &s);
	ct_wait_ok(&p.a, tx, n / 2);
	ct_wait(&p.b, rx, n, &res);
	CT_EQ(ct_status_count(&res, -ECANCELED), (n + 1) / 2, "cancelled");
	ct_pair_works(&p);
	ct_pair_close(&p);
}

/* Freeze b, and put ops of every type from a to b in flight. */
static unsigned int
fill(struct ct_pair *p, uint32_t queue, int *streams)
{
	struct leat_rkey rk;
	unsigned int n;

	(void)target(&p->b, 4 * MIB, &rk);
	ct_pair_works(p); /* a device may refuse posts until the peer has answered once */
	ct_freeze(&p->b, true);
	streams[0] = receives(&p->a, LEAT_OP_RECV, LEAT_PEER_ANY, 20, 100);
	n = 1;
	if (ct.info.directed_recv)
		streams[n++] = receives(&p->a, LEAT_OP_RECV, p->pa, 20, 100);
	n += one_of_each(&p->a, p->pa, &rk, 8, 2 * MIB, queue, streams + n);
	ct_pump_us(20000);
	return n;
}

static void
disconnect_here(uint32_t queue)
{
	struct leat_event ev;
	struct ct_result res;
	struct ct_pair p;
	int st[16];
	unsigned int i, n;

	ct_pair_open(&p, NULL, NULL);
	n = fill(&p, queue, st);
	CT_EQ(ct_disconnect(&p.a, p.pa), 0, "disconnect");
	ct_event(&p.a, LEAT_EV_DISCONNECTED, p.pa, &ev);
	CT_EQ(ev.status, -ECONNABORTED, "status of DISCONNECTED here");
	for (i = 1; i < n; i++) {
		/* The older receives for any peer hold the directed receives back. */
		ct_wait(&p.a, st[i], i == 1 && ct.info.directed_recv ? 0 : 8, &res);
		/* Ops posted after the connection ended have -ENOTCONN. */
		CT_ONLY(&res, "ops of the peer", -ECONNABORTED, -ENOTCONN);
	}
	ct_freeze(&p.b, false);
	ct_event(&p.b, LEAT_EV_DISCONNECTED, p.pb, &ev);
	ct_result(&p.a, st[0], &res);
	CT_EQ(res.done, 0, "receives for any peer that came back");
	(void)ct_recall(&p.a, st[0], &res);
	all_back(&p.a, st, n);
	ct_pair_close(&p);
}

static void
disconnected_here(void)
{
	disconnect_here(CT_Q_DEFAULT);
}

static void
disconnected_here_no_queue(void)
{
	disconnect_here(CT_Q_NONE);
}

/* The other side closes the connection while ops are in flight from both. */
static void
disconnected_there(void)
{
	struct leat_event ev;
	struct ct_result res;
	struct leat_rkey rk;
	struct ct_pair p;
	int st[16], there;
	unsigned int i, n;
	struct ct_spec s;

	ct_pair_open(&p, NULL, NULL);
	s = spec_of(LEAT_OP_SEND, p.pb, 8, 4 * MIB, 0, 5);
	there = ct_stream(&p.b, &s);
	(void)target(&p.b, 4 * MIB, &rk);
	n = one_of_each(&p.a, p.pa, &rk, 20, 2 * MIB, CT_Q_DEFAULT, st);
	ct_pump_us(3000);
	CT_EQ(ct_disconnect(&p.b, p.pb), 0, "disconnect");
	ct_event(&p.b, LEAT_EV_DISCONNECTED, p.pb, &ev);
	CT_EQ(ev.status, -ECONNABORTED, "status of DISCONNECTED there");
	ct_event(&p.a, LEAT_EV_DISCONNECTED, p.pa, &ev);
	CT_CHECK(ev.status == 0 || ev.status == -ECONNRESET, "status of DISCONNECTED here: %d (%s)",
		 ev.status, ev.text);
	for (i = 0; i < n; i++) {
		ct_wait(&p.a, st[i], 20, &res);
		CT_ONLY(&res, "ops of the peer that left", -ECONNRESET, -ENOTCONN, -ECONNABORTED);
	}
	ct_wait(&p.b, there, 8, &res);
	CT_ONLY(&res, "ops of the side that left", -ECONNABORTED, -ENOTCONN);
	ct_pair_close(&p);
}

/*
 * a (here) or b disconnects cleanly: the statistics count a's remaining ops as flushed, and not as
 * errors. b is driven meanwhile, so a send of a may also succeed.
 */
static void
clean_end(bool here)
{
	struct leat_ep_stats st;
	struct leat_event ev;
	struct ct_result res;
	struct ct_pair p;
	struct ct_spec s;
	int rx, tx = -1;

	ct_pair_open(&p, NULL, NULL);
	ct_pair_works(&p);
	rx = receives(&p.a, LEAT_OP_RECV, ct.info.directed_recv ? p.pa : LEAT_PEER_ANY, 16, 100);
	ct_wait_posted(&p.a, rx, 16);
	if (here) {
		s = spec_of(LEAT_OP_SEND, p.pa, 4, 2 * MIB, 0, 5);
		tx = ct_stream(&p.a, &s);
	}
	CT_EQ(here ? ct_disconnect(&p.a, p.pa) : ct_disconnect(&p.b, p.pb), 0, "disconnect");
	ct_event(&p.a, LEAT_EV_DISCONNECTED, p.pa, &ev);
	CT_EQ(ev.status, here ? -ECONNABORTED : 0, "status of DISCONNECTED");
	ct_event(&p.b, LEAT_EV_DISCONNECTED, p.pb, &ev);
	if (!ct.info.directed_recv)
		(void)ct_recall(&p.a, rx, &res);
	ct_wait(&p.a, rx, 16, &res);
	CT_EQ(res.ok, 0, "receives that got a message");
	if (here)
		ct_wait(&p.a, tx, 4, &res);
	leat_ep_stats_get(ct_node(&p.a)->ep, &st);
	CT_EQ(st.errors, 0, "errors");
	CT_CHECK(st.flushed >= 16, "%" PRIu64 " ops were flushed, not 16 or more", st.flushed);
	ct_pair_close(&p);
}

static void
clean_end_is_no_error(void)
{
	clean_end(true);
	clean_end(false);
}

/*
 * Let the device make progress: leat_ep_events() with room for 0 events lets it do its other work;
 * then poll.
 */
static uint16_t
resume(struct ct_node *node, struct leat_op *got[4])
{
	struct leat_event ev;

	(void)leat_ep_events(node->ep, &ev, 0);
	return leat_ep_poll(node->ep, got, 4);
}

/*
 * Have the first 64 B of a READ's answer arrived? The buffer belongs to the device, so another
 * thread may write it at this moment. This data race is intended: hide it from ThreadSanitizer.
 */
static __rte_noinline __attribute__((no_sanitize("thread"))) bool
answer_begun(const uint8_t *data, uint64_t seed)
{
	return *(const volatile uint64_t *)(const void *)(data + 56) == ct_word(seed, 7);
}

/*
 * The answer to a READ stops in the middle: the READ completes once, and both endpoints can still
 * be closed.
 */
static void
read_half_answered(void)
{
	const uint64_t size = RTE_MIN(32 * MIB, ct.info.max_msg);
	struct leat_op read = { .type = LEAT_OP_READ }, *one = &read, *got[4];
	struct leat_event ev;
	struct leat_rkey rk;
	struct ct_node *node;
	struct ct_buf *buf;
	struct ct_pair p;
	uint8_t *data;
	uint16_t c;

	ct_pair_open(&p, NULL, NULL);
	node = ct_node(&p.a);
	(void)ct_mr(&p.b, size, LEAT_MR_REMOTE_READ, 3, &rk);
	buf = ct_buf_get(node, size);
	CT_CHECK(buf != NULL, "no buffer");
	ct_pair_works(&p);
	data = buf->raw + CT_GUARD;
	memset(data, 0, 64);
	read.peer = p.pa;
	read.buf = data;
	read.mr = buf->mr;
	read.size = size;
	read.raddr = rk.addr;
	read.rkey = rk.key;
	CT_UNTIL(leat_ep_post(node->ep, &one, 1) == 1, "post: %s", strerror(rte_errno));
	/* Poll directly: the node does not know the op. */
	ct_freeze(&p.a, true);
	CT_UNTIL((c = leat_ep_poll(node->ep, got, 4)) > 0 || answer_begun(data, 3),
		 "no byte of the answer came");
	ct_freeze(&p.b, true);
	CT_EQ(ct_disconnect(&p.a, p.pa), 0, "disconnect");
	CT_UNTIL(c > 0 || (c = resume(node, got)) > 0, "the READ did not come back");
	ct_note("the READ ended with %s", strerror(-read.status));
	CT_CHECK(c == 1 && got[0] == &read, "%u ops came back for one", c);
	CT_CHECK(read.status == 0 || read.status == -ECONNABORTED, "status %d", read.status);
	CT_EQ(leat_ep_poll(node->ep, got, 4), 0, "ops that came back twice");
	ct_freeze(&p.a, false);
	ct_event(&p.a, LEAT_EV_DISCONNECTED, p.pa, &ev);
	ct_buf_put(node, buf, size);
	ct_finish(&p.a);
	ct_freeze(&p.b, false);
	ct_event(&p.b, LEAT_EV_DISCONNECTED, p.pb, &ev);
	ct_finish(&p.b);
}

/* Receives for any peer stay posted when a peer leaves, and get the next peer's messages. */
static void
receives_outlive_peer(void)
{
	struct leat_event ev;
	struct ct_result res;
	struct ct_pair p;
	struct ct_spec s;
	int rx;

	ct_pair_open(&p, NULL, NULL);
	s = spec_of(LEAT_OP_RECV, LEAT_PEER_ANY, 10, 1, 3000, 50);
	s.check = CT_DATA;
	rx = ct_stream(&p.b, &s);
	ct_pump_us(1000);
	CT_EQ(ct_disconnect(&p.a, p.pa), 0, "disconnect");
	ct_event(&p.a, LEAT_EV_DISCONNECTED, p.pa, &ev);
	ct_event(&p.b, LEAT_EV_DISCONNECTED, p.pb, &ev);
	ct_result(&p.b, rx, &res);
	CT_EQ(res.done, 0, "receives that came back");
	ct_connect(&p.a, &p.b, p.addr, &p.pa, &p.pb);
	s.type = LEAT_OP_SEND;
	s.peer = p.pa;
	ct_wait_ok(&p.a, ct_stream(&p.a, &s), 10);
	ct_wait_ok(&p.b, rx, 10);
	ct_pair_close(&p);
}

/* leat_ep_close() with ops of all kinds in flight: each completes. */
static void
close_with_all_in_flight(void)
{
	struct ct_pair p;
	int st[16], ret;

	ct_pair_open(&p, NULL, NULL);
	(void)fill(&p, CT_Q_DEFAULT, st);
	ret = ct_close(&p.a, 50 * 1000);
	CT_CHECK(ret == 0 || ret == -ETIMEDOUT, "close: %d", ret);
	ct_freeze(&p.b, false);
	ct_event(&p.b, LEAT_EV_DISCONNECTED, p.pb, NULL);
	ct_finish(&p.b);
}

/* Post one op object again, unchanged, thousands of times. */
static void
same_op_again(void)
{
	const uint32_t n = ct_scaled(10000);
	struct leat_op tx = { .type = LEAT_OP_SEND }, rx = { .type = LEAT_OP_RECV };
	struct leat_op *got[4], *one = &tx;
	struct ct_buf *bt, *br;
	struct ct_node *node;
	uint32_t i, c;
	struct ct_pair p;

	ct_pair_open(&p, NULL, NULL);
	node = ct_node(&p.a);
	bt = ct_buf_get(node, 64);
	br = ct_buf_get(node, 64);
	CT_CHECK(bt != NULL && br != NULL, "no buffers");
	ct_fill(bt->raw + CT_GUARD, 64, 1, 0);
	tx.peer = p.pa;
	tx.buf = bt->raw + CT_GUARD;
	tx.mr = bt->mr;
	tx.size = 64;
	rx.peer = LEAT_PEER_ANY;
	rx.buf = br->raw + CT_GUARD;
	rx.mr = br->mr;
	rx.size = 64;
	(void)receives(&p.b, LEAT_OP_RECV, LEAT_PEER_ANY, n, 64);
	for (i = 0; i < n; i++) {
		CT_UNTIL(leat_ep_post(node->ep, &one, 1) == 1, "post of send %u: %s", i,
			 strerror(rte_errno));
		/* Poll directly: the node does not know the op. */
		ct_freeze(&p.a, true);
		CT_UNTIL((c = leat_ep_poll(node->ep, got, 4)) > 0, "send %u did not come back", i);
		ct_freeze(&p.a, false);
		CT_CHECK(c == 1, "%u ops came back for one", c);
		CT_CHECK(got[0] == &tx && tx.status == 0, "send %u: status %d", i, tx.status);
	}
	one = &rx;
	CT_EQ(leat_ep_post(node->ep, &one, 1), 1, "accepted");
	CT_EQ(leat_op_cancel(node->ep, &rx), 0, "cancel");
	ct_freeze(&p.a, true);
	CT_UNTIL((c = leat_ep_poll(node->ep, got, 4)) > 0, "the receive did not come back");
	ct_freeze(&p.a, false);
	CT_CHECK(c == 1 && got[0] == &rx && rx.status == -ECANCELED, "cancelled receive");
	ct_buf_put(node, bt, 64);
	ct_buf_put(node, br, 64);
	ct_pair_close(&p);
}

const struct ct_test ct_tests_conservation[] = {
	{ .name = "conservation.success_mixed", .fn = success_mixed, .ops = SR },
	{ .name = "conservation.errors_among_good", .fn = errors_among_good, .ops = SR },
	{ .name = "conservation.cancel_half", .fn = cancel_half, .ops = SR },
	{ .name = "conservation.disconnected_here", .fn = disconnected_here, .ops = SR },
	{ .name = "conservation.disconnected_here_no_queue",
	  .fn = disconnected_here_no_queue,
	  .ops = SR },
	{ .name = "conservation.disconnected_there", .fn = disconnected_there, .ops = SR },
	{ .name = "conservation.clean_end_is_no_error", .fn = clean_end_is_no_error, .ops = SR },
	{ .name = "conservation.read_half_answered", .fn = read_half_answered, .ops = SR | R },
	{ .name = "conservation.receives_outlive_peer", .fn = receives_outlive_peer, .ops = SR },
	{ .name = "conservation.close_with_all_in_flight",
	  .fn = close_with_all_in_flight,
	  .ops = SR },
	{ .name = "conservation.same_op_again", .fn = same_op_again, .ops = SR },
	{ .name = NULL },
};
