/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Streams over the ring device, in one process, with both sides on one lcore, and with each on an
 * lcore of its own:
 *
 *     lat   a request and an answer of the same size: copied in by leat_stream_write() and out by
 *           leat_stream_read(), compared with SEND and RECV of the bare device in a loop as an
 *           application has it. Each round trip is timed: the results are the median and the 99th
 *           percentile of a repeat
 *     bw    writes of one size, copied in or not, and read without a copy; compared with memcpy of
 *           the same size into 1 MiB of memory, and with messages of lib/msg
 *
 *     bench-stream           times
 *     bench-stream --count   run round trips on one lcore, inside bench_counted(), whose
 *                            instructions count-instructions counts. One thread, because valgrind
 *                            runs one at a time, and two that wait for each other may need minutes
 *                            to connect
 *
 * A side is driven step by step, so that one thread can drive both.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#include <leat_error.h>
#include <leat_reactor.h>
#include <leat_stream.h>

#include "bench_stream.h"
#include "lcores.h"

#define CONNECT_US 60000000
/* Timed round trips in a repeat. */
#define TIMES 4096

enum lcores_used { ONE, TWO, LCORES };
static const char *const lcores_names[LCORES] = { "one", "two" };

/* What each table of results measures. */
static const struct table {
	const char *name;
	uint32_t size;
	uint32_t n, few; /* round trips or writes per repeat; few: with --smoke */
	bool lat;
} tables[] = {
	{ "lat-64", 64, 2000, 64, true },
	{ "lat-16Ki", 16 << 10, 500, 64, true },
	{ "bw-64Ki", 64 << 10, 256, 16, false },
	{ "bw-1Mi", 1 << 20, 16, 4, false },
};

static struct {
	struct lcores l;
	const struct table *table;
	uint32_t n;
	unsigned int lcores; /* enum lcores_used */
	bool p99;
	uint64_t asked; /* start of the current request, cycles */
	uint32_t nb_times;
	uint32_t times[TIMES];
	struct end ends[LCORES][2];
	struct side sides[2];
} b;

/* ---- streams ---- */

void
asked(void)
{
	b.asked = rte_rdtsc();
}

void
answered(struct side *d)
{
	b.times[b.nb_times++] = (uint32_t)(rte_rdtsc() - b.asked);
	d->left--;
}

static void
ask(struct side *d)
{
	asked();
	if (leat_stream_write(d->end->s, d->out, d->size) != (ssize_t)d->size)
		bench_die("a request was not taken");
}

/* @return whether a whole request, or answer, has arrived */
static bool
read_all(struct side *d)
{
	ssize_t n = leat_stream_read(d->end->s, d->in + d->at, d->size - d->at);

	if (n > 0)
		d->at += (uint32_t)n;
	if (d->at < d->size)
		return false;
	d->at = 0;
	return true;
}

static void
swallow(struct side *d)
{
	const void *data;
	ssize_t n;

	while ((n = leat_stream_borrow(d->end->s, &data)) > 0) {
		d->left -= (uint64_t)n;
		(void)leat_stream_give_back(d->end->s, (size_t)n);
	}
}

static void
on_ready(struct leat_stream *s, uint32_t ready, void *arg)
{
	struct side *d = arg;

	if ((ready & LEAT_STREAM_CLOSED) != 0)
		bench_die("a stream has ended: %s", leat_stream_why(s));
	if (!b.table->lat) {
		swallow(d);
	} else if (!read_all(d)) {
		return;
	} else if (d->index == 0) {
		answered(d);
		if (d->left > 0)
			ask(d);
	} else {
		d->left--;
		if (leat_stream_write(s, d->in, d->size) != (ssize_t)d->size)
			bench_die("an answer was not taken");
	}
}

static void
on_out(struct leat_stream_out *out, int status)
{
	struct side *d = &b.sides[0];

	if (status < 0)
		bench_die("a write failed: %d", status);
	d->left--;
	if (d->left >= d->end->in_flight) {
		if (leat_stream_send(d->end->s, out) < 0)
			bench_die("%s", leat_err_msg());
	} else {
		d->end->in_flight--;
	}
}

static void
outs_start(struct side *d)
{
	struct end *e = d->end;
	uint32_t i;

	e->in_flight = (uint32_t)RTE_MIN(d->left, (uint64_t)WINDOW);
	for (i = 0; i < e->in_flight; i++) {
		e->outs[i] = (struct leat_stream_out){
			.buf = d->out, .len = d->size, .mr = e->mr, .done = on_out
		};
		if (leat_stream_send(e->s, &e->outs[i]) < 0)
			bench_die("%s", leat_err_msg());
	}
}

static void
stream_start(struct side *d)
{
	leat_stream_watch(d->end->s, d->index == 1 || b.table->lat ? LEAT_STREAM_READABLE : 0,
			  on_ready, d);
	if (d->index == 1 && !b.table->lat)
		d->left *= d->size;
	else if (d->what == STREAM && d->index == 0)
		ask(d);
	else if (d->what == SEND && d->index == 0)
		outs_start(d);
}

static void
copy_in(struct side *d)
{
	ssize_t n;

	while (d->left > 0) {
		n = leat_stream_write(d->end->s, d->out + d->at, d->size - d->at);
		if (n <= 0)
			return;
		d->at += (uint32_t)n;
		if (d->at == d->size) {
			d->at = 0;
			d->left--;
		}
	}
}

/* Turn the reactor once. @return whether the side's work is done */
static bool
stream_step(struct side *d)
{
	if (d->what == COPY && d->index == 0)
		copy_in(d);
	if (leat_reactor_turn(d->end->r) < 0)
		bench_die("a reactor has stopped");
	return d->left == 0 &&
	       (d->index == 1 || (leat_stream_ready(d->end->s) & LEAT_STREAM_DRAINED) != 0);
}

/* ---- steps of all variants ---- */

static void
copy_all(struct side *d)
{
	uint32_t at = 0;

	for (; d->left > 0; d->left--) {
		memcpy(d->in + at, d->out, d->size);
		BENCH_USE(d->in);
		at = (at + d->size) % SIZE_MAX_B;
	}
}

static void
start(struct side *d, enum what what)
{
	d->what = what;
	d->size = b.table->size;
	d->left = b.n;
	d->at = 0;
	d->end = &b.ends[b.lcores][d->index];
	if (what == BARE)
		bare_start(d);
	else if (what == MSG)
		msg_start(d);
	else if (what != MEMCPY)
		stream_start(d);
	else if (d->index == 0)
		copy_all(d);
}

static bool
step(struct side *d)
{
	switch (d->what) {
	case BARE:
		return bare_step(d);
	case MSG:
		return msg_step(d);
	case MEMCPY:
		return true;
	default:
		return stream_step(d);
	}
}

/* Run one side until its work is done. A server of a stream does not wait for its last write. */
static void
side_run(unsigned int index, enum what what)
{
	start(&b.sides[index], what);
	while (!step(&b.sides[index]))
		;
}

static void
both_run(enum what what)
{
	bool done[2] = { false, false };

	start(&b.sides[1], what);
	start(&b.sides[0], what);
	while (!done[0] || !done[1]) {
		done[0] = step(&b.sides[0]);
		done[1] = step(&b.sides[1]);
	}
}

/* The amount of work is b.n, see start(); n is not used. */
#define SIDES(what)                                                                                \
	static void first_##what(uint64_t n)                                                       \
	{                                                                                          \
		(void)n;                                                                           \
		side_run(0, what);                                                                 \
	}                                                                                          \
	static void second_##what(uint64_t n)                                                      \
	{                                                                                          \
		(void)n;                                                                           \
		side_run(1, what);                                                                 \
	}
SIDES(STREAM)
SIDES(BARE)
SIDES(COPY)
SIDES(SEND)
SIDES(MSG)
SIDES(MEMCPY)

/* ---- start ---- */

static void
on_accept(struct leat_stream *s, void *arg)
{
	struct end *e = arg;

	e->s = s;
}

static void
streams_open(enum lcores_used used)
{
	struct leat_stream_listener listener = { .accept = on_accept, .arg = &b.ends[used][1] };
	const struct leat_reactor_conf conf = { .idle = { .policy = LEAT_IDLE_SPIN } };
	struct end *ends = b.ends[used];
	char addr[32];
	unsigned int i;

	snprintf(addr, sizeof(addr), "stream%u:1", (unsigned int)used);
	for (i = 0; i < 2; i++) {
		ends[i].r = leat_reactor_create(&conf);
		if (ends[i].r == NULL)
			bench_die("%s", leat_err_msg());
		ends[i].net = leat_stream_net_open(ends[i].r, NULL);
		if (ends[i].net == NULL)
			bench_die("%s", leat_err_msg());
	}
	ends[0].mr = leat_mr_register(leat_stream_net_ep(ends[0].net), b.sides[0].out, SIZE_MAX_B,
				      LEAT_MR_LOCAL);
	if (ends[0].mr == NULL || leat_stream_listen(ends[1].net, addr, &listener) < 0)
		bench_die("%s", leat_err_msg());
	/* The time-out is long, since under valgrind everything takes much longer. */
	ends[0].s = leat_stream_connect(ends[0].net, addr, CONNECT_US);
	if (ends[0].s == NULL)
		bench_die("%s", leat_err_msg());
}

/*
 * Turn the reactor of side i once. @return whether its stream is up. A reactor belongs to the
 * thread of its first turn, so each lcore turns its own.
 */
static bool
connect_step(unsigned int used, unsigned int i)
{
	struct end *e = &b.ends[used][i];

	if (leat_reactor_turn(e->r) < 0)
		bench_die("a reactor has stopped");
	if (i == 0 && leat_stream_error(e->s) < 0)
		bench_die("%s", leat_stream_why(e->s));
	return i == 0 ? (leat_stream_ready(e->s) & LEAT_STREAM_WRITABLE) != 0 : e->s != NULL;
}

static void
first_connect(uint64_t used)
{
	while (!connect_step((unsigned int)used, 0))
		;
}

static void
second_connect(uint64_t used)
{
	while (!connect_step((unsigned int)used, 1))
		;
}

/* Stop a reactor on the thread that it belongs to. */
static void
streams_stop(unsigned int used, unsigned int i)
{
	struct leat_reactor *r = b.ends[used][i].r;

	leat_stream_watch(b.ends[used][i].s, 0, NULL, NULL);
	leat_reactor_stop(r, 1000000);
	while (leat_reactor_turn(r) >= 0)
		;
}

static void
first_stop(uint64_t used)
{
	streams_stop((unsigned int)used, 0);
}

static void
second_stop(uint64_t used)
{
	streams_stop((unsigned int)used, 1);
}

static void
streams_close(unsigned int used)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		struct end *e = &b.ends[used][i];

		if ((e->mr != NULL && leat_mr_deregister(e->mr) < 0) ||
		    leat_stream_net_close(e->net) < 0 || leat_reactor_destroy(e->r) < 0)
			bench_die("%s", leat_err_msg());
	}
}

static void
open_all(const struct bench_args *args, unsigned int lcores)
{
	const struct leat_ep_conf conf = { .name = NULL };
	unsigned int i;

	lcores_start(&b.l, args, &conf);
	for (i = 0; i < 2; i++) {
		struct side *d = &b.sides[i];

		d->index = i;
		d->ep = b.l.ep[i];
		d->peer = b.l.peer[i];
		d->out = aligned_alloc(4096, SIZE_MAX_B);
		d->in = aligned_alloc(4096, (size_t)WINDOW * SIZE_MAX_B);
		if (d->out == NULL || d->in == NULL)
			bench_die("no memory");
		memset(d->out, 0x5a, SIZE_MAX_B);
		memset(d->in, 0, (size_t)WINDOW * SIZE_MAX_B);
	}
	for (i = 0; i < lcores; i++)
		streams_open(i);
	msgs_open(b.sides);
}

/* ---- times ---- */

static int
by_value(const void *x, const void *y)
{
	const uint32_t a = *(const uint32_t *)x, c = *(const uint32_t *)y;

	return a < c ? -1 : a > c;
}

static double
time_of(double part)
{
	qsort(b.times, b.nb_times, sizeof(b.times[0]), by_value);
	return b.times[(uint32_t)(part * (b.nb_times - 1))] * 1e9 / (double)rte_get_tsc_hz();
}

static double
measure(void *arg, unsigned int variant, bool *disturbed)
{
	const enum what what = b.table->lat ? variant : COPY + variant;
	uint64_t ns, pushed;

	(void)arg;
	b.nb_times = 0;
	if (b.lcores == TWO) {
		ns = lcores_run(&b.l, what, 0, true, disturbed);
	} else {
		pushed = bench_pushed_off();
		ns = bench_ns();
		both_run(what);
		ns = bench_ns() - ns;
		*disturbed = bench_pushed_off() != pushed;
	}
	if (b.table->lat)
		return time_of(b.p99 ? 0.99 : 0.5);
	/* bytes per us */
	return (double)b.n * b.table->size * 1e3 / (double)ns;
}

static void
report_one(const struct bench_table *t, const char *what, unsigned int leat, unsigned int reference)
{
	char name[64];
	const struct bench_result r = {
		.name = name,
		.unit = b.table->lat ? "ns" : "MB/s",
		.kind = b.table->lat ? BENCH_RATIO_MAX : BENCH_RATIO_MIN,
		.leat = leat,
		.reference = reference,
	};

	snprintf(name, sizeof(name), "stream-%s-%s%s%s", lcores_names[b.lcores], b.table->name,
		 b.p99 ? "-p99" : "", what);
	bench_report(t, &r);
}

static void
table_run(const struct bench_args *args)
{
	static struct bench_table t;

	b.n = args->smoke ? b.table->few : b.table->n;
	bench_measure(&t, args, b.table->lat ? 2 : MEMCPY - COPY + 1, measure, NULL, b.l.cpus,
		      b.lcores + 1);
	if (b.table->lat) {
		report_one(&t, "", STREAM, BARE);
		return;
	}
	report_one(&t, "-copy-memcpy", 0, MEMCPY - COPY);
	report_one(&t, "-send-memcpy", SEND - COPY, MEMCPY - COPY);
	report_one(&t, "-copy-msg", 0, MSG - COPY);
	report_one(&t, "-send-msg", SEND - COPY, MSG - COPY);
}

static void
tables_run(struct bench_args *args)
{
	unsigned int i;

	args->seconds /= 4; /* the time is per table, and there are many tables */
	for (b.lcores = 0; b.lcores < LCORES; b.lcores++) {
		for (i = 0; i < RTE_DIM(tables); i++) {
			b.table = &tables[i];
			b.p99 = false;
			table_run(args);
			b.p99 = true;
			if (b.table->lat)
				table_run(args);
		}
	}
}

/* ---- instructions ---- */

/* callgrind counts in this function: its name is an argument of count-instructions. */
void bench_counted(enum what what);

__attribute__((noinline)) void
bench_counted(enum what what)
{
	both_run(what);
}

static void
count(void)
{
	b.table = &tables[0];
	b.n = 100;
	both_run(STREAM);
	both_run(BARE);
	b.nb_times = 0;
	bench_counted(STREAM);
	printf("stream-instr-%s leat %u\n", b.table->name, 2 * b.n);
	bench_counted(BARE);
	printf("stream-instr-%s reference %u\n", b.table->name, 2 * b.n);
}

int
main(int argc, char **argv)
{
	enum { CONNECT = WHATS, STOP };
	static const struct lcores_variant variants[] = {
		[STREAM] = { first_STREAM, second_STREAM },
		[BARE] = { first_BARE, second_BARE },
		[COPY] = { first_COPY, second_COPY },
		[SEND] = { first_SEND, second_SEND },
		[MSG] = { first_MSG, second_MSG },
		[MEMCPY] = { first_MEMCPY, second_MEMCPY },
		[CONNECT] = { first_connect, second_connect },
		[STOP] = { first_stop, second_stop },
	};
	struct bench_args args;
	bool counting = false, ignored, up[2] = { false, false };
	unsigned int i;

	/* --count is the last argument. */
	if (argc > 1 && strcmp(argv[argc - 1], "--count") == 0) {
		counting = true;
		argc--;
	}
	bench_args(&args, argc, argv);
	open_all(&args, counting ? 1 : LCORES);
	while (!up[0] || !up[1]) {
		for (i = 0; i < 2; i++)
			up[i] = connect_step(ONE, i);
	}
	if (counting) {
		count();
	} else {
		lcores_launch(&b.l, variants);
		(void)lcores_run(&b.l, CONNECT, TWO, true, &ignored);
		tables_run(&args);
		(void)lcores_run(&b.l, STOP, TWO, true, &ignored);
		lcores_join(&b.l);
		streams_close(TWO);
	}
	streams_stop(ONE, 0);
	streams_stop(ONE, 1);
	streams_close(ONE);
	msgs_close(b.sides);
	lcores_stop(&b.l);
	return 0;
}
