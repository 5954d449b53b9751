/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Promise 5, ops: if something is wrong with an op, its status says what, and no other op is
 * disturbed.
 */

#include "ct.h"

#define LEN 100000
#define MEM_SEED 3

struct exposed {
	struct ct_pair p;
	struct leat_rkey rk;
	int mr;
};

static void
expose(struct exposed *e, uint32_t access)
{
	ct_pair_open(&e->p, NULL, NULL);
	e->mr = ct_mr(&e->p.b, LEN, access, MEM_SEED, &e->rk);
}

/*
 * Does the status fit? Many devices (verbs, libfabric) report an address out of bounds as a wrong
 * key; a driver that checks address and key itself reports which of them is wrong.
 */
static bool
status_fits(int status, int want)
{
	if (status == want)
		return true;
	if (ct.info.provider[0] == '\0' || want == -EINVAL)
		return false;
	return status == -EREMOTEIO || (want == -ERANGE && status == -EACCES);
}

/*
 * Post one op that the target must refuse. The op may end the connection (verbs), but only with an
 * error. The target's memory must be unchanged, and everything must work after a new connect, if
 * one is needed.
 */
static void
refused(struct exposed *e, uint8_t type, uint64_t raddr, uint64_t rkey, uint64_t size, int want)
{
	struct ct_spec s = { .type = type,
			     .peer = e->p.pa,
			     .size = size,
			     .seed = 9,
			     .raddr = raddr,
			     .rkey = rkey,
			     .operand = 1 };
	struct ct_result res;
	struct leat_event ev;
	int status;

	if (size > ct.info.max_msg)
		return; /* the local driver refuses such an op, so the target never sees it */
	status = ct_one(&e->p.a, &s, &res);
	CT_CHECK(status_fits(status, want), "%s of %" PRIu64 " B: status %d (%s), expected %d (%s)",
		 leat_op_type_name(type), size, status, strerror(-status), want, strerror(-want));
	ct_pump_us(1000);
	if (e->mr >= 0)
		ct_mr_check(&e->p.b, e->mr, 0, LEN, MEM_SEED, 0);
	if (ct_peer_state(&e->p.a, e->p.pa) == LEAT_PEER_UP &&
	    ct_peer_state(&e->p.b, e->p.pb) == LEAT_PEER_UP) {
		ct_pair_works(&e->p);
		return;
	}
	ct_event(&e->p.a, LEAT_EV_DISCONNECTED, e->p.pa, &ev);
	CT_CHECK(ev.status < 0, "the connection ended with status 0");
	ct_event(&e->p.b, LEAT_EV_DISCONNECTED, e->p.pb, &ev);
	ct_connect(&e->p.a, &e->p.b, e->p.addr, &e->p.pa, &e->p.pb);
	ct_pair_works(&e->p);
}

static void
end(struct exposed *e)
{
	ct_pair_close(&e->p);
}

static uint32_t
access_of(uint8_t type)
{
	if (type == LEAT_OP_READ)
		return LEAT_MR_REMOTE_READ;
	return type >= LEAT_OP_FETCH_ADD ? LEAT_MR_REMOTE_ATOMIC : LEAT_MR_REMOTE_WRITE;
}

static uint64_t
size_of(uint8_t type, uint64_t size)
{
	return type >= LEAT_OP_FETCH_ADD ? 8 : size;
}

/*
 * Call fn for each one-sided type of the device, with a region that grants only that type's right
 * (access 0), or that grants the other rights of `access`. Skip the test if there is no such type.
 */
static void
each_onesided(void (*fn)(struct exposed *e, uint8_t type, uint64_t size), uint32_t access)
{
	static const uint8_t types[] = { LEAT_OP_WRITE, LEAT_OP_READ, LEAT_OP_FETCH_ADD,
					 LEAT_OP_CMP_SWAP };
	unsigned int i, called = 0;
	struct exposed e;

	for (i = 0; i < RTE_DIM(types); i++) {
		if ((ct.info.ops & LEAT_OP_BIT(types[i])) == 0)
			continue;
		if (access != 0 && (access & ~access_of(types[i])) == 0)
			continue;
		expose(&e, access == 0 ? access_of(types[i]) : access & ~access_of(types[i]));
		fn(&e, types[i], size_of(types[i], 8));
		fn(&e, types[i], size_of(types[i], 20000));
		end(&e);
		called++;
	}
	if (called == 0)
		ct_skip("the device has no one-sided op for this test");
}

static void
wrong_key_fn(struct exposed *e, uint8_t type, uint64_t size)
{
	refused(e, type, e->rk.addr, e->rk.key ^ 0x5555, size, -EACCES);
	refused(e, type, e->rk.addr, UINT64_MAX, size, -EACCES);
}

static void
wrong_key(void)
{
	each_onesided(wrong_key_fn, 0);
}

static void
beyond_the_end_fn(struct exposed *e, uint8_t type, uint64_t size)
{
	refused(e, type, e->rk.addr + LEN, e->rk.key, size, -ERANGE);
	if (size > 8)
		refused(e, type, e->rk.addr + LEN - size + 1, e->rk.key, size, -ERANGE);
	refused(e, type, e->rk.addr + (UINT64_C(1) << 40), e->rk.key, size, -ERANGE);
}

static void
beyond_the_end(void)
{
	each_onesided(beyond_the_end_fn, 0);
}

static void
before_the_start_fn(struct exposed *e, uint8_t type, uint64_t size)
{
	refused(e, type, e->rk.addr - 8, e->rk.key, size, -ERANGE);
}

static void
before_the_start(void)
{
	each_onesided(before_the_start_fn, 0);
}

static void
wrap_around_fn(struct exposed *e, uint8_t type, uint64_t size)
{
	refused(e, type, UINT64_MAX - 7, e->rk.key, size, -ERANGE);
	refused(e, type, UINT64_MAX - 4095, e->rk.key, size, -ERANGE);
}

static void
wrap_around(void)
{
	each_onesided(wrap_around_fn, 0);
}

static void
missing_right_fn(struct exposed *e, uint8_t type, uint64_t size)
{
	refused(e, type, e->rk.addr, e->rk.key, size, -EACCES);
}

/*
 * Refused: every type but READ on a region that grants only reading, and every type but WRITE on a
 * region that grants only writing.
 */
static void
missing_right(void)
{
	each_onesided(missing_right_fn, LEAT_MR_REMOTE_READ);
	each_onesided(missing_right_fn, LEAT_MR_REMOTE_WRITE);
}

/*
 * Refused: each type on a region that grants every right but the one that the type needs, and WRITE
 * and READ on a region that grants only atomics.
 */
static void
atomic_right(void)
{
	if (strcmp(ct.info.driver, "fabric_ofi") == 0)
		ct_skip("libfabric has no right of its own for atomics: they take READ and WRITE");
	each_onesided(missing_right_fn, LEAT_MR_REMOTE_ALL);
	each_onesided(missing_right_fn, LEAT_MR_REMOTE_ATOMIC);
}

static void
deregistered_fn(struct exposed *e, uint8_t type, uint64_t size)
{
	if (e->mr >= 0)
		CT_EQ(ct_mr_dereg(&e->p.b, e->mr), 0, "deregister");
	refused(e, type, e->rk.addr, e->rk.key, size, -EACCES);
	e->mr = -1;
}

static void
deregistered(void)
{
	each_onesided(deregistered_fn, 0);
}

/* A WRITE_IMM that is refused completes no receive. */
static void
write_imm_refused(void)
{
	struct ct_spec r = { .type = LEAT_OP_RECV,
			     .peer = LEAT_PEER_ANY,
			     .count = 1,
			     .size = 64,
			     .seed = 5,
			     .check = CT_DATA },
		       s;
	struct exposed e;
	int rx;

	expose(&e, LEAT_MR_REMOTE_WRITE);
	rx = ct_stream(&e.p.b, &r);
	s = (struct ct_spec){ .type = LEAT_OP_WRITE_IMM,
			      .peer = e.p.pa,
			      .size = 64,
			      .raddr = e.rk.addr,
			      .rkey = e.rk.key ^ 0x5555,
			      .imm = 7 };
	CT_CHECK(ct_one(&e.p.a, &s, NULL) != 0, "a write_imm with a wrong key succeeded");
	if (ct_peer_state(&e.p.a, e.p.pa) != LEAT_PEER_UP) {
		ct_event(&e.p.a, LEAT_EV_DISCONNECTED, e.p.pa, NULL);
		ct_event(&e.p.b, LEAT_EV_DISCONNECTED, e.p.pb, NULL);
		ct_connect(&e.p.a, &e.p.b, e.p.addr, &e.p.pa, &e.p.pb);
	}
	if (ct.info.refusal_ends) {
		struct ct_result res;

		/* The receive may have been lost with the connection. */
		ct_result(&e.p.b, rx, &res);
		CT_ONLY(&res, "the receive that was posted", -ECONNRESET);
		if (res.done == 1)
			rx = ct_stream(&e.p.b, &r);
	}
	s = r;
	s.type = LEAT_OP_SEND;
	s.peer = e.p.pa;
	CT_EQ(ct_one(&e.p.a, &s, NULL), 0, "send");
	ct_wait_ok(&e.p.b, rx, 1);
	end(&e);
}

/* If a refusal ends the connection (refusal_ends): check its end on both sides, connect again. */
static void
ended_by_refusal(struct ct_pair *p)
{
	struct leat_event ev;

	if (!ct.info.refusal_ends)
		return;
	ct_event(&p->a, LEAT_EV_DISCONNECTED, p->pa, &ev);
	CT_CHECK(ev.status < 0, "the connection ended with status 0");
	ct_event(&p->b, LEAT_EV_DISCONNECTED, p->pb, NULL);
	ct_connect(&p->a, &p->b, p->addr, &p->pa, &p->pb);
}

/* A receive that is too small fails; the next message is received. */
static void
too_small(uint8_t send, uint8_t recv)
{
	static const uint64_t sizes[][2] = { { 1, 0 },	     { 65, 64 },	{ 5000, 4999 },
					     { 20000, 100 }, { 300000, 20000 }, { 2000000, 1 } };
	struct ct_result res;
	struct ct_pair p;
	unsigned int i, late;

	ct_pair_open(&p, NULL, NULL);
	/* late: post the receive only after the message has arrived */
	for (i = 0; i < 2 * RTE_DIM(sizes); i++) {
		const uint64_t *size = sizes[i / 2];
		struct ct_spec s = { .type = send, .peer = p.pa, .count = 1, .size = size[0] },
			       r = { .type = recv,
				     .peer = LEAT_PEER_ANY,
				     .count = 1,
				     .size = size[1] == 0 ? 0 : size[0],
				     .bufsize = size[1] };
		int rx = -1, tx;

		late = i % 2;
		if (size[0] > ct.info.max_msg)
			continue;
		if (!late) {
			rx = ct_stream(&p.b, &r);
			ct_wait_posted(&p.b, rx, 1);
		}
		tx = ct_stream(&p.a, &s);
		if (late) {
			ct_pump_us(3000);
			rx = ct_stream(&p.b, &r);
		}
		ct_wait(&p.b, rx, 1, &res);
		CT_CHECK(res.last_status == -EMSGSIZE,
			 "a receive of %" PRIu64 " B for %" PRIu64 " B, posted %s: status %d",
			 size[1], size[0], late ? "late" : "before", res.last_status);
		CT_CHECK(res.last_len == 0 || res.last_len >= size[1],
			 "len %" PRIu64 " with -EMSGSIZE is neither what arrived nor unknown",
			 res.last_len);
		ct_wait(&p.a, tx, 1, &res);
		/*
		 * If the refusal ends the connection, the sender may see the end before the
		 * refusal: its send then has -ECONNRESET.
		 */
		CT_ONLY(&res, "send to a receive that is too small", -EMSGSIZE, -EREMOTEIO,
			ct.info.refusal_ends ? -ECONNRESET : -EREMOTEIO);
		ended_by_refusal(&p);
		if (late)
			ct_pair_works(&p);
	}
	ct_pair_close(&p);
}

static void
receive_too_small(void)
{
	too_small(LEAT_OP_SEND, LEAT_OP_RECV);
}

static void
trecv_too_small(void)
{
	too_small(LEAT_OP_TSEND, LEAT_OP_TRECV);
}

/*
 * An op that is wrong in itself completes with a status and without effect, and the connection
 * stays up.
 */
static void
bad_op(struct ct_pair *p, struct ct_spec s, int want, const char *what)
{
	int status = ct_one(&p->a, &s, NULL);

	CT_CHECK(status == want, "%s: status %d (%s), expected %d (%s)", what, status,
		 strerror(-status), want, strerror(-want));
}

static void
bad_ops(void)
{
	struct ct_spec s = { .type = LEAT_OP_SEND, .size = 64 };
	struct ct_pair p;

	ct_pair_open(&p, NULL, NULL);
	s.peer = p.pa;
	s.type = LEAT_OP_TYPES;
	bad_op(&p, s, -EINVAL, "type one beyond the last");
	s.type = 255;
	bad_op(&p, s, -EINVAL, "type 255");
	s.type = LEAT_OP_SEND;
	s.peer = (uint16_t)(p.pa + 1);
	bad_op(&p, s, -ENOTCONN, "send to a free peer id");
	s.peer = ct_node(&p.a)->conf.max_peers;
	bad_op(&p, s, -ENOTCONN, "send to a peer beyond the table");
	s.peer = 60000;
	bad_op(&p, s, -ENOTCONN, "send to peer 60000");
	s.peer = LEAT_PEER_ANY;
	bad_op(&p, s, -ENOTCONN, "send to any peer");
	s.peer = p.pa;
	s.bad = CT_BAD_NOBUF;
	bad_op(&p, s, -EINVAL, "send of 64 B without a buffer");
	if (ct.info.mr_local) {
		s.bad = CT_BAD_NOMR;
		bad_op(&p, s, -EINVAL, "send from memory that is not registered");
	}
	s.bad = 0;
	s.type = LEAT_OP_RECV;
	s.peer = LEAT_PEER_ANY;
	s.bad = CT_BAD_NOBUF;
	bad_op(&p, s, -EINVAL, "receive without a buffer");
	s.bad = 0;
	s.peer = (uint16_t)(p.pa + 1);
	bad_op(&p, s, ct.info.directed_recv ? -ENOTCONN : -EOPNOTSUPP,
	       "receive from a free peer id");
	if (!ct.info.directed_recv) {
		s.peer = p.pa;
		bad_op(&p, s, -EOPNOTSUPP, "directed receive");
	}
	s.type = LEAT_OP_SEND;
	s.peer = p.pa;
	if (ct.info.max_msg < UINT64_MAX) {
		s.size = ct.info.max_msg + 1;
		s.bad = CT_BAD_LONG;
		bad_op(&p, s, -EMSGSIZE, "message one byte beyond max_msg");
		s.size = UINT64_MAX;
		bad_op(&p, s, -EMSGSIZE, "message of 2^64 - 1 bytes");
	}
	ct_pair_works(&p);
	ct_pair_close(&p);
}

static void
bad_atomics(void)
{
	static const uint8_t types[] = { LEAT_OP_FETCH_ADD, LEAT_OP_CMP_SWAP };
	static const uint64_t sizes[] = { 0, 4, 7, 9, 16 };
	struct exposed e;
	unsigned int i, k;

	expose(&e, LEAT_MR_REMOTE_ATOMIC);
	for (i = 0; i < RTE_DIM(types); i++) {
		if ((ct.info.ops & LEAT_OP_BIT(types[i])) == 0)
			continue;
		for (k = 0; k < RTE_DIM(sizes); k++)
			refused(&e, types[i], e.rk.addr, e.rk.key, sizes[k], -EINVAL);
		refused(&e, types[i], e.rk.addr + 4, e.rk.key, 8, -EINVAL);
		refused(&e, types[i], e.rk.addr + 1, e.rk.key, 8, -EINVAL);
	}
	end(&e);
}

/* An op of a type that the endpoint was not configured for completes with -EOPNOTSUPP. */
static void
type_not_configured(void)
{
	struct ct_conf conf = { .ops = SR };
	struct ct_spec s = { .size = 8, .peer = 0 };
	struct ct_pair p;
	unsigned int type;

	ct_pair_open(&p, &conf, &conf);
	for (type = LEAT_OP_TSEND; type < LEAT_OP_TYPES; type++) {
		s.type = (uint8_t)type;
		s.peer = type == LEAT_OP_TRECV ? LEAT_PEER_ANY : p.pa;
		bad_op(&p, s, -EOPNOTSUPP, leat_op_type_name(type));
	}
	ct_pair_works(&p);
	ct_pair_close(&p);
}

/* An op that is in flight can't be posted again; it stays in flight, and completes once. */
static void
double_post(void)
{
	static struct leat_op a, b;
	struct leat_op *list[3] = { &a, &a, &b }, *got[4];
	struct ct_node *node;
	struct ct_pair p;
	unsigned int k, seen = 0;

	ct_pair_open(&p, NULL, NULL);
	node = ct_node(&p.a);
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	a.type = b.type = LEAT_OP_RECV;
	a.peer = b.peer = LEAT_PEER_ANY;
	rte_errno = 0;
	CT_EQ(leat_ep_post(node->ep, list, 3), 1, "accepted of a burst with one op twice");
	CT_EQ(rte_errno, EALREADY, "rte_errno");
	CT_EQ(leat_ep_post(node->ep, &list[1], 1), 0, "accepted of an op in flight");
	CT_EQ(rte_errno, EALREADY, "rte_errno");
	CT_EQ(leat_ep_post(node->ep, &list[2], 1), 1, "accepted of another op");
	CT_EQ(leat_op_cancel(node->ep, &a), 0, "cancel");
	CT_EQ(leat_op_cancel(node->ep, &b), 0, "cancel");
	for (k = 0; k < 1000000 && (seen < 2 || k < 1000); k++)
		seen += leat_ep_poll(node->ep, got, 4);
	CT_EQ(seen, 2, "came back");
	ct_pair_works(&p);
	ct_pair_close(&p);
}

const struct ct_test ct_tests_errors[] = {
	{ .name = "errors.wrong_key", .fn = wrong_key, .ops = SR },
	{ .name = "errors.beyond_the_end", .fn = beyond_the_end, .ops = SR },
	{ .name = "errors.before_the_start", .fn = before_the_start, .ops = SR },
	{ .name = "errors.wrap_around", .fn = wrap_around, .ops = SR },
	{ .name = "errors.missing_right", .fn = missing_right, .ops = SR | R | W },
	{ .name = "errors.atomic_right", .fn = atomic_right, .ops = SR | R | W | FA },
	{ .name = "errors.deregistered", .fn = deregistered, .ops = SR },
	{ .name = "errors.write_imm_refused", .fn = write_imm_refused, .ops = SR | WI },
	{ .name = "errors.receive_too_small", .fn = receive_too_small, .ops = SR },
	{ .name = "errors.trecv_too_small", .fn = trecv_too_small, .ops = TSR },
	{ .name = "errors.bad_ops", .fn = bad_ops, .ops = SR, .types = CT_ANY_TYPE },
	{ .name = "errors.bad_atomics", .fn = bad_atomics, .ops = SR | FA },
	{ .name = "errors.type_not_configured",
	  .fn = type_not_configured,
	  .ops = SR,
	  .types = CT_ANY_TYPE },
	{ .name = "errors.double_post", .fn = double_post, .ops = SR, .types = CT_ANY_TYPE },
	{ .name = NULL },
};
