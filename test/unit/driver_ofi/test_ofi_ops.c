/* SPDX-License-Identifier: BSD-3-Clause */

/* Every op over every provider that works without hardware, and each way in which an op fails. */

#include "pair.h"

static const char *const devices[] = {
	"fabric_ofi0,provider=shm,tags=1",
	"fabric_ofi1,provider=tcp,iface=lo,tags=1",
	"fabric_ofi2,provider=sockets,src=127.0.0.1,tags=1",
	"fabric_ofi3,provider=udp;ofi_rxd,iface=lo,tags=1",
	"fabric_ofi4,provider=net,iface=lo,tags=1",
	"fabric_ofi5,provider=tcp;ofi_rxm,iface=lo,tags=1",
};

static struct pair pr;
static struct leat_dev_info info;
static struct leat_mr *mr_a, *mr_b;
static struct leat_rkey key_b;

#define BUF (4u << 20)
static uint8_t *buf_a, *buf_b;

static bool
has(enum leat_op_type t)
{
	return (info.ops & LEAT_OP_BIT(t)) != 0;
}

static int
setup(void **state)
{
	const char *name = *state;
	struct leat_dev *dev = leat_dev_by_name(name);

	assert_non_null(dev);
	assert_int_equal(leat_dev_info_get(dev, &info), 0);
	pair_open(&pr, dev);
	buf_a = malloc(BUF);
	buf_b = malloc(BUF);
	assert_non_null(buf_a);
	assert_non_null(buf_b);
	mr_a = reg(pr.a.ep, buf_a, BUF, NULL);
	mr_b = reg(pr.b.ep, buf_b, BUF, has(LEAT_OP_WRITE) ? &key_b : NULL);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	pair_close(&pr);
	free(buf_a);
	free(buf_b);
	return 0;
}

static void
exchange(uint64_t size, bool tagged, bool imm)
{
	struct leat_op r = { .type = tagged ? LEAT_OP_TRECV : LEAT_OP_RECV,
			     .peer = LEAT_PEER_ANY,
			     .buf = buf_b,
			     .size = BUF,
			     .mr = mr_b };
	struct leat_op s = { .type = tagged ? LEAT_OP_TSEND : LEAT_OP_SEND,
			     .flags = imm ? LEAT_OP_F_IMM : 0,
			     .peer = pr.a.peer,
			     .buf = buf_a,
			     .size = size,
			     .mr = mr_a };

	if (tagged) {
		r.tag = 0x1200000000ULL;
		r.ignore = 0xffffffffULL;
		s.tag = 0x1200000077ULL;
	}
	s.imm = 0x12345678;
	fill(buf_a, size, size + tagged);
	memset(buf_b, 0xee, size + 1);
	pair_post(&pr, &pr.b, &r);
	pair_post(&pr, &pr.a, &s);
	PAIR_UNTIL(&pr, op_done(&r) && op_done(&s));
	assert_int_equal(s.status, 0);
	assert_int_equal(r.status, 0);
	assert_int_equal(s.len, size);
	assert_int_equal(r.len, size);
	assert_int_equal(r.src, info.source ? pr.b.peer : LEAT_PEER_ANY);
	assert_memory_equal(buf_a, buf_b, size);
	assert_int_equal(buf_b[size], 0xee);
	assert_int_equal((r.oflags & LEAT_OP_F_IMM) != 0, imm);
	if (imm)
		assert_int_equal(r.imm, 0x12345678);
	if (tagged)
		assert_int_equal(r.tag_in, 0x1200000077ULL);
}

static void
messages(void **state)
{
	static const uint64_t sizes[] = { 0,	 1,	8,     63,	64,	65,
					  255,	 256,	1000,  4095,	4096,	4097,
					  16384, 65536, 65537, 1 << 20, 3 << 20 };
	size_t i;

	(void)state;
	for (i = 0; i < RTE_DIM(sizes); i++) {
		exchange(sizes[i], false, false);
		exchange(sizes[i], false, true);
		if (has(LEAT_OP_TSEND)) {
			exchange(sizes[i], true, false);
			exchange(sizes[i], true, true);
		}
	}
}

static void
one_sided_size(uint64_t size)
{
	struct leat_op w = { .type = LEAT_OP_WRITE,
			     .peer = pr.a.peer,
			     .buf = buf_a,
			     .size = size,
			     .raddr = key_b.addr + 64,
			     .rkey = key_b.key,
			     .mr = mr_a };
	struct leat_op r = w, wi = w, n;

	fill(buf_a, size, size);
	memset(buf_b, 0, size + 128);
	pair_post(&pr, &pr.a, &w);
	PAIR_UNTIL(&pr, op_done(&w));
	assert_int_equal(w.status, 0);
	/* The data is in place when the op is done. */
	assert_memory_equal(buf_a, buf_b + 64, size);
	assert_int_equal(buf_b[64 + size], 0);

	fill(buf_b + 64, size, size + 1);
	memset(buf_a, 0, size + 1);
	r.type = LEAT_OP_READ;
	pair_post(&pr, &pr.a, &r);
	PAIR_UNTIL(&pr, op_done(&r));
	assert_int_equal(r.status, 0);
	assert_memory_equal(buf_a, buf_b + 64, size);

	/* WRITE_IMM consumes the RECV, and does not touch the RECV's own buffer. */
	memset(buf_b, 0, size + 128);
	memset(buf_b + (2 << 20), 0xaa, 16);
	n = (struct leat_op){ .type = LEAT_OP_RECV,
			      .peer = LEAT_PEER_ANY,
			      .buf = buf_b + (2 << 20),
			      .size = 16,
			      .mr = mr_b };
	wi.type = LEAT_OP_WRITE_IMM;
	wi.imm = 0x55aa55aa;
	pair_post(&pr, &pr.b, &n);
	pair_post(&pr, &pr.a, &wi);
	PAIR_UNTIL(&pr, op_done(&wi) && op_done(&n));
	assert_int_equal(wi.status, 0);
	assert_int_equal(n.status, 0);
	assert_int_equal(n.oflags, LEAT_OP_F_IMM | LEAT_OP_F_WRITTEN);
	assert_int_equal(n.imm, 0x55aa55aa);
	assert_true(n.len == size || n.len == 0);
	assert_memory_equal(buf_a, buf_b + 64, size);
	assert_int_equal(buf_b[2 << 20], 0xaa);
}

static void
one_sided(void **state)
{
	static const uint64_t sizes[] = { 0, 1, 8, 64, 200, 4096, 4097, 65536, 1 << 20 };
	size_t i;

	(void)state;
	if (!has(LEAT_OP_WRITE))
		skip();
	for (i = 0; i < RTE_DIM(sizes); i++) {
		print_message("%" PRIu64 " B\n", sizes[i]);
		one_sided_size(sizes[i]);
	}
}

static void
atomics(void **state)
{
	uint64_t *cell = (uint64_t *)buf_b, *res = (uint64_t *)buf_a;
	struct leat_op f = { .type = LEAT_OP_FETCH_ADD,
			     .peer = pr.a.peer,
			     .buf = res,
			     .size = 8,
			     .raddr = key_b.addr,
			     .rkey = key_b.key,
			     .operand = 5,
			     .mr = mr_a };
	struct leat_op c;
	int i;

	(void)state;
	if (!has(LEAT_OP_FETCH_ADD))
		skip();
	*cell = 100;
	for (i = 0; i < 10; i++) {
		pair_post(&pr, &pr.a, &f);
		PAIR_UNTIL(&pr, op_done(&f));
		assert_int_equal(f.status, 0);
		assert_int_equal(*res, 100 + 5 * i);
	}
	c = f;
	c.type = LEAT_OP_CMP_SWAP;
	c.operand = 7;
	c.compare = 150;
	pair_post(&pr, &pr.a, &c);
	PAIR_UNTIL(&pr, op_done(&c));
	assert_int_equal(c.status, 0);
	assert_int_equal(*res, 150);
	assert_int_equal(*cell, 7);
	pair_post(&pr, &pr.a, &c);
	PAIR_UNTIL(&pr, op_done(&c));
	assert_int_equal(*res, 7);
	assert_int_equal(*cell, 7);
}

/*
 * Regions that are registered one after the other must not have consecutive keys: a peer that was
 * given one key would know the next.
 */
static void
keys(void **state)
{
	enum { REGIONS = 8 };
	struct leat_rkey key[REGIONS];
	struct leat_mr *mr[REGIONS];
	unsigned int i, next = 0;

	(void)state;
	if (!has(LEAT_OP_WRITE))
		skip();
	for (i = 0; i < REGIONS; i++) {
		mr[i] = reg(pr.b.ep, buf_b, BUF, &key[i]);
		/* A sealed key has its number above the 8 bits of its check. */
		next += i > 0 && (key[i].key >> 8) - (key[i - 1].key >> 8) <= 1;
	}
	for (i = 0; i < REGIONS; i++)
		assert_int_equal(leat_mr_deregister(mr[i]), 0);
	assert_true(next < REGIONS - 1);
}

static void
bad_keys(void **state)
{
	static const enum leat_op_type types[] = { LEAT_OP_READ, LEAT_OP_WRITE, LEAT_OP_WRITE_IMM,
						   LEAT_OP_FETCH_ADD };
	static const uint64_t sizes[] = { 8, 100000 };
	size_t t, s;
	int how;

	(void)state;
	if (!has(LEAT_OP_WRITE))
		skip();
	for (t = 0; t < RTE_DIM(types); t++) {
		for (s = 0; s < RTE_DIM(sizes); s++) {
			for (how = 0; how < 2; how++) {
				struct leat_op o = { .type = types[t],
						     .peer = pr.a.peer,
						     .buf = buf_a,
						     .size = sizes[s],
						     .raddr = key_b.addr,
						     .rkey = key_b.key,
						     .mr = mr_a };

				if (!has(types[t]) || (types[t] >= LEAT_OP_FETCH_ADD && s > 0))
					continue;
				if (how == 0)
					o.rkey ^= 0x1000;
				else
					o.raddr += BUF;
				pair_post(&pr, &pr.a, &o);
				PAIR_UNTIL(&pr, op_done(&o));
				if (o.status >= 0 || o.status == -ECONNRESET)
					fail_msg("%s of %" PRIu64 ", %s: status %d",
						 leat_op_type_name(o.type), o.size,
						 how == 0 ? "wrong key" : "out of bounds",
						 o.status);
				/* The connection survives the failed op. */
				exchange(100, false, false);
				exchange(100000, false, false);
			}
		}
	}
}

static void
truncation(void **state)
{
	static const uint64_t sizes[] = { 17, 5000, 100000 };
	size_t i;
	int tagged;

	(void)state;
	for (i = 0; i < RTE_DIM(sizes); i++) {
		for (tagged = 0; tagged < 2; tagged++) {
			struct leat_op r = { .type = tagged ? LEAT_OP_TRECV : LEAT_OP_RECV,
					     .peer = LEAT_PEER_ANY,
					     .buf = buf_b,
					     .size = 16,
					     .mr = mr_b };
			struct leat_op s = { .type = tagged ? LEAT_OP_TSEND : LEAT_OP_SEND,
					     .peer = pr.a.peer,
					     .buf = buf_a,
					     .size = sizes[i],
					     .mr = mr_a };

			if (!has(s.type))
				continue;
			buf_b[16] = 0x77;
			pair_post(&pr, &pr.b, &r);
			pair_post(&pr, &pr.a, &s);
			PAIR_UNTIL(&pr, op_done(&r) && op_done(&s));
			if (r.status != -EMSGSIZE)
				fail_msg("%" PRIu64 " B: status %d", sizes[i], r.status);
			assert_int_equal(buf_b[16], 0x77);
			exchange(100, false, false);
		}
	}
}

static void
cancel(void **state)
{
	struct leat_op r[4];
	int i;

	(void)state;
	for (i = 0; i < 4; i++) {
		r[i] = (struct leat_op){
			.type = i & 1 && has(LEAT_OP_TRECV) ? LEAT_OP_TRECV : LEAT_OP_RECV,
			.peer = i & 2 && info.directed_recv ? pr.b.peer : LEAT_PEER_ANY,
			.buf = buf_b,
			.size = 100,
			.tag = 99,
			.mr = mr_b
		};
		pair_post(&pr, &pr.b, &r[i]);
	}
	for (i = 0; i < 4; i++)
		assert_int_equal(leat_op_cancel(pr.b.ep, &r[i]), 0);
	PAIR_UNTIL(&pr, op_done(&r[0]) && op_done(&r[1]) && op_done(&r[2]) && op_done(&r[3]));
	for (i = 0; i < 4; i++)
		assert_int_equal(r[i].status, -ECANCELED);
	exchange(64, false, false);
}

/*
 * The notice of each WRITE_IMM consumes the next RECV, as a message does, even if it comes among
 * messages or before the RECV is posted.
 */
static void
notices(void **state)
{
#define N 200
	static struct leat_op w[N], r[2 * N];
	uint64_t seen = 0;
	int i, written = 0, messages = 0;

	(void)state;
	if (!has(LEAT_OP_WRITE_IMM))
		skip();
	memset(w, 0, sizeof(w));
	memset(r, 0, sizeof(r));
	for (i = 0; i < N; i++) {
		w[i].type = i % 3 != 0 ? LEAT_OP_WRITE_IMM : LEAT_OP_SEND;
		w[i].peer = pr.a.peer;
		w[i].buf = buf_a;
		w[i].size = 8;
		w[i].mr = mr_a;
		if (w[i].type == LEAT_OP_WRITE_IMM) {
			w[i].raddr = key_b.addr;
			w[i].rkey = key_b.key;
			w[i].imm = (uint64_t)i;
		}
	}
	for (i = 0; i < N; i++) {
		r[i].type = LEAT_OP_RECV;
		r[i].peer = LEAT_PEER_ANY;
		r[i].buf = buf_b + 4096;
		r[i].size = 8;
		r[i].mr = mr_b;
	}
	/* Half of the receives are posted before the sends, half after. */
	for (i = 0; i < N / 2; i++)
		pair_post(&pr, &pr.b, &r[i]);
	for (i = 0; i < N; i++) {
		pair_post(&pr, &pr.a, &w[i]);
		if (i % 16 == 0)
			pair_turn(&pr);
	}
	for (i = 0; i < 200; i++)
		pair_turn(&pr);
	for (i = N / 2; i < N; i++)
		pair_post(&pr, &pr.b, &r[i]);
	for (i = 0; i < N; i++) {
		PAIR_UNTIL(&pr, op_done(&r[i]) && op_done(&w[i]));
		assert_int_equal(w[i].status, 0);
		assert_int_equal(r[i].status, 0);
		if ((r[i].oflags & LEAT_OP_F_WRITTEN) != 0) {
			assert_true(written == 0 || r[i].imm > seen);
			seen = r[i].imm;
			written++;
		} else {
			assert_int_equal(r[i].len, 8);
			messages++;
		}
	}
	assert_int_equal(messages, (N + 2) / 3);
	assert_int_equal(written, N - messages);
}

/* A flood of messages from a to b: all arrive, in order. */
static void
flood(void **state)
{
#define M 3000
	static struct leat_op s[64], r[64];
	uint32_t sent = 0, got = 0, rp = 0, i;
	uint64_t end;

	(void)state;
	memset(s, 0, sizeof(s));
	memset(r, 0, sizeof(r));
	end = leat_now() + leat_us_to_cycles(3 * TIMEOUT_US);
	while (got < M) {
		if (leat_now() > end)
			fail_msg("stopped: %u of %u messages sent, %u received", sent, M, got);
		for (; rp - got < 64 && rp < M; rp++) {
			struct leat_op *o = &r[rp % 64];

			*o = (struct leat_op){ .type = LEAT_OP_RECV,
					       .peer = LEAT_PEER_ANY,
					       .buf = buf_b + (rp % 64) * 16384,
					       .size = 16384,
					       .mr = mr_b };
			if (leat_ep_post(pr.b.ep, &o, 1) == 0)
				break;
		}
		for (i = 0; i < 8 && sent < M; i++) {
			struct leat_op *o = &s[sent % 64];

			if (!op_done(o))
				break;
			*o = (struct leat_op){ .type = LEAT_OP_SEND,
					       .peer = pr.a.peer,
					       .buf = buf_a + (sent % 64) * 16384,
					       .size = 8 + sent % 13 * 1200,
					       .mr = mr_a };
			memcpy(o->buf, &sent, 4);
			if (leat_ep_post(pr.a.ep, &o, 1) == 0)
				break;
			sent++;
		}
		pair_turn(&pr);
		while (got < rp && op_done(&r[got % 64])) {
			assert_int_equal(r[got % 64].status, 0);
			assert_int_equal(r[got % 64].len, 8 + got % 13 * 1200);
			assert_memory_equal(r[got % 64].buf, &got, 4);
			got++;
		}
	}
	for (i = 0; i < 64; i++)
		PAIR_UNTIL(&pr, op_done(&s[i]));
}

static void
reconnect(void **state)
{
	struct leat_op r = {
		.type = LEAT_OP_RECV, .peer = LEAT_PEER_ANY, .buf = buf_b, .size = 8, .mr = mr_b
	};
	struct leat_op s = { .type = LEAT_OP_SEND, .buf = buf_a, .size = 65536, .mr = mr_a };
	int i;

	(void)state;
	pair_post(&pr, &pr.b, &r); /* stays posted through all five disconnects */
	for (i = 0; i < 5; i++) {
		/* A receive that names the peer: it ends with the connection. */
		struct leat_op d = { .type = LEAT_OP_RECV,
				     .peer = pr.a.peer,
				     .buf = buf_a + 100000,
				     .queue = LEAT_QUEUE_NONE,
				     .size = 8,
				     .mr = mr_a };

		if (info.directed_recv)
			pair_post(&pr, &pr.a, &d);
		assert_int_equal(leat_ep_disconnect(pr.a.ep, pr.a.peer), 0);
		PAIR_UNTIL(&pr, !pr.a.up && !pr.b.up);
		assert_int_equal(pr.a.down, -ECONNABORTED);
		assert_int_equal(pr.b.down, 0);
		if (info.directed_recv) {
			PAIR_UNTIL(&pr, op_done(&d));
			assert_true(d.status == -ECANCELED || d.status == -ECONNABORTED);
		}
		s.peer = pr.a.peer;
		pair_post(&pr, &pr.a, &s);
		PAIR_UNTIL(&pr, op_done(&s));
		assert_int_equal(s.status, -ENOTCONN);
		pair_connect(&pr);
	}
	assert_int_equal(leat_op_cancel(pr.b.ep, &r), 0);
	PAIR_UNTIL(&pr, op_done(&r));
	exchange(1000, false, false);
	exchange(100000, false, false);
}

/* Unexpected messages of a peer that disconnected must not disturb the peers that connect later. */
static void
leftovers(void **state)
{
	struct leat_op s[3];
	int i;

	(void)state;
	for (i = 0; i < 3; i++) {
		static const uint64_t sizes[] = { 8, 4000, 200000 };

		s[i] = (struct leat_op){ .type = LEAT_OP_SEND,
					 .peer = pr.a.peer,
					 .buf = buf_a,
					 .size = sizes[i],
					 .mr = mr_a };
		pair_post(&pr, &pr.a, &s[i]);
	}
	for (i = 0; i < 50; i++)
		pair_turn(&pr);
	assert_int_equal(leat_ep_disconnect(pr.a.ep, pr.a.peer), 0);
	PAIR_UNTIL(&pr, !pr.a.up && !pr.b.up && op_done(&s[2]));
	for (i = 0; i < 3; i++)
		assert_true(s[i].status == 0 || s[i].status == -ECONNABORTED);
	/* The first endpoint is closed; a new one takes its place. */
	assert_int_equal(leat_ep_close(pr.a.ep, 100000, NULL, NULL), 0);
	memset(&pr.a, 0, sizeof(pr.a));
	pr.a.ep = ep_open(leat_ep_dev(pr.b.ep), info.ops);
	mr_a = reg(pr.a.ep, buf_a, BUF, NULL);
	pair_connect(&pr);
	for (i = 0; i < 50; i++)
		pair_turn(&pr);
	{
		/*
		 * A receive that names the new peer: it gets that peer's message, and none of the
		 * closed endpoint.
		 */
		struct leat_op r = { .type = LEAT_OP_RECV,
				     .peer = pr.b.peer,
				     .buf = buf_b,
				     .size = BUF,
				     .mr = mr_b };
		struct leat_op n = s[0];

		if (!info.directed_recv)
			return;
		n = (struct leat_op){ .type = LEAT_OP_SEND,
				      .peer = pr.a.peer,
				      .buf = buf_a,
				      .size = 1234,
				      .mr = mr_a };
		pair_post(&pr, &pr.b, &r);
		pair_post(&pr, &pr.a, &n);
		PAIR_UNTIL(&pr, op_done(&r) && op_done(&n));
		assert_int_equal(r.status, 0);
		assert_int_equal(r.len, 1234);
	}
}

/* Close an endpoint with receives and sends in flight: all of them complete. */
static void
close_busy(void **state)
{
	static struct leat_op o[6];
	struct leat_op *p;
	int i;

	(void)state;
	memset(o, 0, sizeof(o));
	for (i = 0; i < 6; i++) {
		o[i] = (struct leat_op){ .type = i < 2 ? LEAT_OP_RECV : LEAT_OP_SEND,
					 .peer = i < 2 ? LEAT_PEER_ANY : pr.a.peer,
					 .buf = buf_a,
					 .size = i % 2 ? 8 : 300000,
					 .mr = mr_a };
		p = &o[i];
		(void)leat_ep_post(pr.a.ep, &p, 1);
	}
	(void)leat_ep_close(pr.a.ep, 50000, NULL, NULL);
	for (i = 0; i < 6; i++)
		assert_true(op_done(&o[i]));
	pr.a = pr.b;
	pr.b.ep = NULL;
	PAIR_UNTIL(&pr, !pr.a.up);
	assert_int_equal(pr.a.down, 0);
}

int
main(int argc, char **argv)
{
	static const struct {
		const char *name;
		CMUnitTestFunction fn;
	} cases[] = {
		{ "messages", messages },   { "one_sided", one_sided },
		{ "atomics", atomics },	    { "bad_keys", bad_keys },
		{ "keys", keys },	    { "truncation", truncation },
		{ "cancel", cancel },	    { "notices", notices },
		{ "flood", flood },	    { "reconnect", reconnect },
		{ "leftovers", leftovers }, { "close_busy", close_busy },
	};
	static char names[RTE_DIM(devices)][RTE_DIM(cases)][64], dev[RTE_DIM(devices)][32];
	struct CMUnitTest tests[RTE_DIM(devices) * RTE_DIM(cases)];
	static char vdev[RTE_DIM(devices)][80];
	char *av[64];
	size_t d, c, n = 0;
	int ac = 0, i;

	/* EAL gets this program's arguments, which name the plugins. */
	for (i = 0; i < argc && i < 40; i++)
		av[ac++] = argv[i];
	for (d = 0; d < RTE_DIM(devices); d++) {
		const char *only = getenv("OFI_ONLY");

		if (only != NULL && strstr(devices[d], only) == NULL)
			continue;
		snprintf(vdev[d], sizeof(vdev[d]), "--vdev=%s", devices[d]);
		av[ac++] = vdev[d];
		snprintf(dev[d], sizeof(dev[d]), "%.11s", devices[d]);
		for (c = 0; c < RTE_DIM(cases); c++) {
			snprintf(names[d][c], sizeof(names[d][c]), "%s: %s",
				 strchr(devices[d], '=') + 1, cases[c].name);
			tests[n++] = (struct CMUnitTest){ names[d][c], cases[c].fn, setup, teardown,
							  dev[d] };
		}
	}
	av[ac] = NULL;
	if (leat_init(ac, av) < 0) {
		fprintf(stderr, "leat_init: %s\n", leat_err_msg());
		return 1;
	}
	i = _cmocka_run_group_tests("ofi ops", tests, n, NULL, NULL);
	return leat_cleanup() < 0 ? 1 : i;
}
