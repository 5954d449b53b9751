/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The cost of the verbs driver itself, without a device's noise: the driver is compared with
 * perftest's loop, on a device that completes every request at once and does next to nothing
 * (test/verbs_stub).
 *
 *     bench-verbs           cycles per op
 *     bench-verbs --count   run each case once, inside bench_counted(): count-instructions runs
 *                           this under callgrind and reads the counters after each call. A line
 *                           per call names the case: "case side ops"
 *
 * Leat's side does what an application does per op: post a burst, poll until it has completed,
 * check the status.
 */

#include <stdio.h>
#include <string.h>

#include <rte_common.h>
#include <rte_cycles.h>

#include <leat_error.h>
#include <leat_fabric.h>

#include "bare_verbs.h"
#include "bench.h"
#include "stub_ibv.h"
#include "verbs_pvt.h"

#define BURST BARE_VERBS_LIST

enum { LEAT, REFERENCE, SIDES };
enum { WITH_WR, WITH_POST, APIS };

/* The device's name selects how a driver posts and polls. */
static const char *const api_name[APIS] = { "wr", "post" };
static const char *const dev_name[APIS] = { "sim0", "sim1" };

static const struct what {
	const char *name;
	uint8_t type;
	enum ibv_wr_opcode opcode;
	uint32_t size;
	uint16_t burst;
} whats[] = {
	{ "send", LEAT_OP_SEND, IBV_WR_SEND, 8, 1 },
	{ "send-32", LEAT_OP_SEND, IBV_WR_SEND, 8, BURST },
	{ "recv-32", LEAT_OP_RECV, IBV_WR_SEND, 8, BURST },
	{ "write", LEAT_OP_WRITE, IBV_WR_RDMA_WRITE, 4096, 1 },
	{ "read", LEAT_OP_READ, IBV_WR_RDMA_READ, 4096, 1 },
	{ "fetch_add", LEAT_OP_FETCH_ADD, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 1 },
};

/* Leat's objects on one device. */
struct side {
	struct leat_ep *ep;
	struct leat_mr *mr;
	uint16_t peer;
	struct ibv_qp *qp;
	struct leat_op ops[BURST];
	struct leat_op *burst[BURST];
};

static struct side sides[APIS];
static struct bare_verbs refs[APIS];
static char buf[BURST][4096];

struct job {
	unsigned int what, api;
	uint64_t ops; /* a multiple of BURST */
};

/* ---- leat ---- */

static void
leat_sends(struct side *s, uint64_t n, uint16_t burst)
{
	struct leat_op *done[BURST];
	uint64_t i;

	for (i = 0; i < n; i += burst) {
		uint16_t k, got = 0;

		if (leat_ep_post(s->ep, s->burst, burst) != burst)
			bench_die("post: %s", leat_err_msg());
		while (got < burst) {
			uint16_t m = leat_ep_poll(s->ep, done, BURST);

			for (k = 0; k < m; k++) {
				if (done[k]->status != 0)
					bench_die("an op came back with %d", done[k]->status);
			}
			got += m;
		}
	}
}

static void
leat_receives(struct side *s, uint64_t n)
{
	struct leat_op *done[BURST];
	uint64_t i;

	for (i = 0; i < n; i += BURST) {
		uint16_t k, m;

		if (stub_messages(s->qp, BURST, 8) != BURST)
			bench_die("a receive is missing");
		m = leat_ep_poll(s->ep, done, BURST);
		if (m != BURST)
			bench_die("%u receives came back", m);
		for (k = 0; k < m; k++) {
			if (done[k]->status != 0 || done[k]->len != 8)
				bench_die("a receive came back with %d", done[k]->status);
		}
		if (leat_ep_post(s->ep, done, m) != m)
			bench_die("post: %s", leat_err_msg());
	}
}

static void
run_leat(const struct job *j)
{
	const struct what *w = &whats[j->what];

	if (w->type == LEAT_OP_RECV)
		leat_receives(&sides[j->api], j->ops);
	else
		leat_sends(&sides[j->api], j->ops, w->burst);
}

/* ---- the reference ---- */

static void
run_reference(const struct job *j)
{
	const struct what *w = &whats[j->what];
	struct bare_verbs *b = &refs[j->api];
	uint64_t i;

	if (w->type == LEAT_OP_RECV) {
		for (i = 0; i < j->ops; i += BURST) {
			if (stub_messages(b->qp, BURST, 8) != BURST)
				bench_die("reference: a receive is missing");
			bare_verbs_receive(b);
		}
	} else if (w->burst == 1) {
		bare_verbs_latency(b, j->ops);
	} else {
		bare_verbs_bandwidth(b, j->ops);
	}
}

/* ---- cases ---- */

static bool
is_inline(const struct what *w)
{
	return w->size == 8 && w->type == LEAT_OP_SEND;
}

static void
prepare(const struct job *j)
{
	const struct what *w = &whats[j->what];
	struct side *s = &sides[j->api];
	uint16_t i;

	for (i = 0; i < BURST; i++) {
		s->ops[i] =
			(struct leat_op){ .type = w->type,
					  .peer = w->type == LEAT_OP_RECV ? LEAT_PEER_ANY : s->peer,
					  .buf = buf[i],
					  .size = w->size,
					  .mr = s->mr,
					  .raddr = (uintptr_t)buf[i],
					  .rkey = 1,
					  .operand = 1 };
		s->burst[i] = &s->ops[i];
	}
	bare_verbs_prepare(&refs[j->api], w->opcode, w->size, w->burst, is_inline(w));
	if (w->type == LEAT_OP_RECV && leat_ep_post(s->ep, s->burst, BURST) != BURST)
		bench_die("post: %s", leat_err_msg());
}

/* Let a burst of messages complete the receives that prepare() posted. */
static void
finish(const struct job *j)
{
	struct side *s = &sides[j->api];
	struct leat_op *done[BURST];

	if (whats[j->what].type == LEAT_OP_RECV &&
	    (stub_messages(s->qp, BURST, 8) != BURST || leat_ep_poll(s->ep, done, BURST) != BURST))
		bench_die("receives are missing");
}

static void
run(const struct job *j, unsigned int side)
{
	if (side == LEAT)
		run_leat(j);
	else
		run_reference(j);
}

/*
 * Check that the device has seen one request per op, one list per burst, and no more completions
 * than needed.
 */
static void
check(const struct job *j, unsigned int side)
{
	const struct what *w = &whats[j->what];
	bool recv = w->type == LEAT_OP_RECV;
	uint64_t lists = j->ops / w->burst, inlined = is_inline(w) ? j->ops : 0;

	stub_reset();
	run(j, side);
	if ((recv ? sim.recvs : sim.sends) != j->ops ||
	    (recv ? sim.rdoorbells : sim.doorbells) != lists ||
	    sim.polled != (recv ? j->ops : lists) || sim.inlined != inlined || sim.overruns != 0)
		bench_die("%s: %s: %" PRIu64 " ops were %" PRIu64 " requests in %" PRIu64
			  " lists, %" PRIu64 " completions, %" PRIu64 " inline",
			  w->name, side == LEAT ? "leat" : "reference", j->ops,
			  recv ? sim.recvs : sim.sends, recv ? sim.rdoorbells : sim.doorbells,
			  sim.polled, sim.inlined);
}

/* ---- set-up ---- */

static void
open_side(struct side *s, unsigned int api)
{
	struct leat_ep_conf conf = { .ops = LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV) |
					    LEAT_OP_BIT(LEAT_OP_WRITE) | LEAT_OP_BIT(LEAT_OP_READ) |
					    LEAT_OP_BIT(LEAT_OP_FETCH_ADD),
				     .max_peers = 8 };
	struct leat_event ev;
	int peer, i;

	s->ep = leat_ep_create(leat_dev_get((int)api), &conf);
	if (s->ep == NULL)
		bench_die("%s", leat_err_msg());
	s->mr = leat_mr_register(s->ep, buf, sizeof(buf), LEAT_MR_LOCAL);
	peer = leat_ep_connect(s->ep, api == WITH_WR ? "192.0.2.2:7000" : "192.0.2.2:7001", NULL);
	if (s->mr == NULL || peer < 0)
		bench_die("%s", leat_err_msg());
	for (i = 0; i < 100; i++) {
		if (leat_ep_events(s->ep, &ev, 1) == 1) {
			if (ev.type != LEAT_EV_CONNECTED)
				bench_die("connect: %s", ev.text);
			s->peer = (uint16_t)peer;
			s->qp = vb_of(s->ep)->conns[peer]->qp;
			return;
		}
	}
	bench_die("connect: no answer");
}

static void
init(const struct bench_args *args)
{
	static char no_pci[] = "--no-pci", quiet[] = "--log-level=leat.*:warning",
		    tel[] = "--no-telemetry";
	static char d0[] = "--vdev=fabric_verbs0,dev=sim0", d1[] = "--vdev=fabric_verbs1,dev=sim1";
	char *argv[32];
	int i, n = 0;

	for (i = 0; i < args->argc && n < 20; i++)
		argv[n++] = args->argv[i];
	argv[n++] = no_pci;
	argv[n++] = quiet;
	argv[n++] = tel;
	argv[n++] = d0;
	argv[n++] = d1;
	argv[n] = NULL;
	if (leat_init(n, argv) < 0)
		bench_die("%s", leat_err_msg());
	for (i = 0; i < APIS; i++) {
		open_side(&sides[i], (unsigned int)i);
		bare_verbs_open(&refs[i], dev_name[i], i == WITH_WR);
	}
}

static void
stop(void)
{
	unsigned int i;

	for (i = 0; i < APIS; i++) {
		bare_verbs_close(&refs[i]);
		if (leat_mr_deregister(sides[i].mr) < 0 ||
		    leat_ep_close(sides[i].ep, 100000, NULL, NULL) < 0)
			bench_die("close: %s", leat_err_msg());
	}
	if (leat_cleanup() < 0)
		bench_die("%s", leat_err_msg());
	if (sim.qps + sim.cqs + sim.srqs + sim.pds + sim.mrs + sim.ids + sim.ctxs != 0)
		bench_die("objects of the device were left behind");
}

/* ---- cycles, instructions ---- */

static double
measure(void *arg, unsigned int side, bool *disturbed)
{
	uint64_t pushed = bench_pushed_off(), start = rte_rdtsc_precise();
	const struct job *j = arg;

	run(j, side);
	start = rte_rdtsc_precise() - start;
	*disturbed = bench_pushed_off() != pushed;
	return (double)start / (double)j->ops;
}

static void
cycles(const struct bench_args *args, struct job *j, int cpu)
{
	struct bench_result r = {
		.unit = "cycles", .kind = BENCH_DIFF_MAX, .leat = LEAT, .reference = REFERENCE
	};
	static struct bench_table t;
	char name[64];

	snprintf(name, sizeof(name), "verbs-cycles-%s-%s", whats[j->what].name, api_name[j->api]);
	r.name = name;
	r.target = 100;
	bench_measure(&t, args, SIDES, measure, j, &cpu, 1);
	bench_report(&t, &r);
}

/* callgrind counts in this function: its name is an argument of count-instructions. */
void bench_counted(const struct job *j, unsigned int side);

__attribute__((noinline)) void
bench_counted(const struct job *j, unsigned int side)
{
	run(j, side);
}

static void
count(const struct job *j)
{
	unsigned int side;

	for (side = 0; side < SIDES; side++) {
		bench_counted(j, side);
		printf("verbs-instr-%s-%s %s %" PRIu64 "\n", whats[j->what].name, api_name[j->api],
		       side == LEAT ? "leat" : "reference", j->ops);
	}
}

int
main(int argc, char **argv)
{
	struct bench_args args;
	bool counting = false;
	struct job j;
	int cpu, i;

	bench_args(&args, argc, argv);
	for (i = 1; i < args.argc; i++) {
		if (strcmp(args.argv[i], "--count") != 0)
			continue;
		counting = true;
		memmove(&args.argv[i], &args.argv[i + 1],
			(size_t)(args.argc-- - i) * sizeof(args.argv[0]));
	}
	cpu = bench_cpu(1) >= 0 ? bench_cpu(1) : bench_cpu(0);
	init(&args);
	bench_pin(cpu);
	bench_thread_ready();
	args.seconds /= 4; /* the time is per table: there are many, and little disturbs them */
	for (j.what = 0; j.what < RTE_DIM(whats); j.what++) {
		for (j.api = 0; j.api < APIS; j.api++) {
			j.ops = 2 * BURST;
			prepare(&j);
			check(&j, LEAT);
			check(&j, REFERENCE);
			j.ops = counting || args.smoke ? 10 * BURST : 1000 * BURST;
			if (counting)
				count(&j);
			else
				cycles(&args, &j, cpu);
			finish(&j);
		}
	}
	stop();
	return 0;
}
