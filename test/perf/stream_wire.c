/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Streams between two processes, for the guest (test/guest/bench_verbs.py): one listens and serves
 * any number of runs, the other one connects, measures once and prints a line of JSON. The
 * listening process prints "listening" when it is ready.
 *
 *     bench-stream-wire --listen ADDR [EAL arguments]
 *     bench-stream-wire --connect ADDR --test lat|bw|copy --size BYTES --count N [EAL arguments]
 *
 *     lat    a request and an answer of BYTES, N times: median of the round trips and p99
 *     bw     N writes of BYTES without a copy, leat_stream_send(); the last is answered
 *     copy   the same with leat_stream_write()
 *
 * With --bare as the first argument, for lat: the same with ibverbs alone (bare_imm.h).
 *
 * With --listen and --connect one thread runs both sides in turn, the listening one on the last
 * device. Neither side then spins for the other, so a round trip takes the time of its instructions
 * (devtools/guest --count).
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <leat_error.h>
#include <leat_fabric.h>
#include <leat_reactor.h>
#include <leat_stream.h>

#include "bare_imm.h"
#include "bench.h"

#define SIZE_MAX_B (1u << 20)
#define COUNT_MAX (1u << 20)
/* Writes without a copy that are in flight. */
#define OUTS 4

enum test { TEST_LAT, TEST_BW, TEST_COPY, TESTS };

/* The first message of a client. */
struct job {
	uint32_t test;
	uint32_t size;
	uint64_t count;
};

/* State of a server's stream. */
struct served {
	struct job job;
	bool told;    /* the job has been received */
	uint64_t got; /* bytes received after the job */
};

static const char *const test_names[TESTS] = { "lat", "bw", "copy" };

static struct {
	struct leat_reactor *r[2]; /* of the side that connects, and of the one that listens */
	struct leat_stream_net *net[2];
	struct job job;
	struct leat_mr *mr;
	struct leat_stream_out outs[OUTS];
	uint64_t left;	  /* writes or round trips left */
	uint32_t written; /* bytes of the current write; lat: of the request */
	uint32_t got;	  /* bytes received of the answer */
	uint64_t start, sent_at;
	double *us;
	uint64_t nb_us;
	bool failed;
	uint8_t *buf; /* SIZE_MAX_B */
} b;

/* ---- the listening side ---- */

static void
served_end(struct leat_stream *s)
{
	free(leat_stream_user(s));
	leat_stream_close(s, 0);
}

/* Answer a request. @return false if a part of it has not arrived yet */
static bool
answer(struct leat_stream *s, const struct served *v)
{
	struct leat_stream_info info;

	leat_stream_info_get(s, &info);
	if (info.rx_ready < v->job.size)
		return false;
	if (leat_stream_read(s, b.buf, v->job.size) != (ssize_t)v->job.size ||
	    leat_stream_write(s, b.buf, v->job.size) != (ssize_t)v->job.size)
		bench_die("an answer was not taken");
	return true;
}

static void
swallow(struct leat_stream *s, struct served *v)
{
	const void *data;
	ssize_t n;

	while ((n = leat_stream_borrow(s, &data)) > 0) {
		v->got += (uint64_t)n;
		(void)leat_stream_give_back(s, (size_t)n);
	}
	if (v->got == v->job.count * v->job.size) {
		v->got = 0;
		if (leat_stream_write(s, "", 1) != 1)
			bench_die("an answer was not taken");
	}
}

static void
on_request(struct leat_stream *s, uint32_t ready, void *arg)
{
	struct served *v = arg;

	if ((ready & LEAT_STREAM_CLOSED) != 0) {
		served_end(s);
		return;
	}
	if (!v->told) {
		if (leat_stream_read(s, &v->job, sizeof(v->job)) != sizeof(v->job) ||
		    v->job.test >= TESTS || v->job.size == 0 || v->job.size > SIZE_MAX_B) {
			served_end(s);
			return;
		}
		v->told = true;
	}
	if (v->job.test == TEST_LAT)
		while (answer(s, v))
			;
	else
		swallow(s, v);
}

static void
on_accept(struct leat_stream *s, void *arg)
{
	struct served *v = calloc(1, sizeof(*v));

	(void)arg;
	if (v == NULL)
		bench_die("no memory");
	leat_stream_user_set(s, v);
	leat_stream_watch(s, LEAT_STREAM_READABLE, on_request, v);
}

static void
serve(const char *addr)
{
	const struct leat_stream_listener listener = { .accept = on_accept };

	if (leat_stream_listen(b.net[1], addr, &listener) < 0)
		bench_die("%s", leat_err_msg());
	printf("listening\n");
}

/* ---- the measuring side ---- */

static void
end(struct leat_stream *s)
{
	leat_stream_close(s, 0);
	leat_reactor_stop_all(1000000);
}

static void
request(struct leat_stream *s)
{
	b.got = 0;
	b.sent_at = bench_ns();
	if (leat_stream_write(s, b.buf, b.job.size) != (ssize_t)b.job.size)
		bench_die("a request was not taken");
}

static void
lat_step(struct leat_stream *s)
{
	ssize_t n = leat_stream_read(s, b.buf, b.job.size - b.got);

	if (n <= 0)
		return;
	b.got += (uint32_t)n;
	if (b.got < b.job.size)
		return;
	b.us[b.nb_us++] = (double)(bench_ns() - b.sent_at) / 1e3;
	if (--b.left > 0)
		request(s);
	else
		end(s);
}

static void
copy_step(struct leat_stream *s)
{
	ssize_t n;

	while (b.left > 0) {
		n = leat_stream_write(s, b.buf + b.written, b.job.size - b.written);
		if (n <= 0)
			return;
		b.written += (uint32_t)n;
		if (b.written < b.job.size)
			return;
		b.written = 0;
		b.left--;
	}
}

static void
out_send(struct leat_stream *s, struct leat_stream_out *out)
{
	if (b.left == 0)
		return;
	b.left--;
	if (leat_stream_send(s, out) < 0)
		bench_die("send: %s", leat_err_msg());
}

static void
on_out(struct leat_stream_out *out, int status)
{
	if (status == 0)
		out_send(out->stream, out);
}

static void
outs_start(struct leat_stream *s)
{
	unsigned int i;

	for (i = 0; i < OUTS; i++) {
		b.outs[i] = (struct leat_stream_out){
			.buf = b.buf, .len = b.job.size, .mr = b.mr, .done = on_out
		};
		out_send(s, &b.outs[i]);
	}
}

/* End when the answer has arrived, which the server sends when it has read everything. */
static void
bw_step(struct leat_stream *s)
{
	char c;

	if (leat_stream_read(s, &c, 1) == 1) {
		b.us[b.nb_us++] = (double)(bench_ns() - b.start) / 1e3;
		end(s);
	}
}

static void
on_ready(struct leat_stream *s, uint32_t ready, void *arg)
{
	(void)arg;
	if ((ready & LEAT_STREAM_CLOSED) != 0) {
		fprintf(stderr, "the stream has ended: %s\n", leat_stream_why(s));
		b.failed = true;
		end(s);
		return;
	}
	if ((ready & LEAT_STREAM_READABLE) != 0) {
		if (b.job.test == TEST_LAT)
			lat_step(s);
		else
			bw_step(s);
		return;
	}
	copy_step(s);
	if (b.left == 0)
		leat_stream_watch(s, LEAT_STREAM_READABLE, on_ready, NULL);
}

static void
on_up(struct leat_stream *s, uint32_t ready, void *arg)
{
	(void)arg;
	if ((ready & LEAT_STREAM_CLOSED) != 0) {
		on_ready(s, ready, NULL);
		return;
	}
	if (leat_stream_write(s, &b.job, sizeof(b.job)) != sizeof(b.job))
		bench_die("a job was not taken");
	b.start = bench_ns();
	if (b.job.test == TEST_LAT)
		request(s);
	else if (b.job.test == TEST_BW)
		outs_start(s);
	leat_stream_watch(
		s, LEAT_STREAM_READABLE | (b.job.test == TEST_COPY ? LEAT_STREAM_WRITABLE : 0),
		on_ready, NULL);
}

static void
measure(const char *addr)
{
	struct leat_stream *s;

	if (b.job.test == TEST_BW) {
		b.mr = leat_mr_register(leat_stream_net_ep(b.net[0]), b.buf, SIZE_MAX_B,
					LEAT_MR_LOCAL);
		if (b.mr == NULL)
			bench_die("%s", leat_err_msg());
	}
	s = leat_stream_connect(b.net[0], addr, 0);
	if (s == NULL)
		bench_die("%s", leat_err_msg());
	leat_stream_watch(s, LEAT_STREAM_WRITABLE, on_up, NULL);
}

/* ---- results and main ---- */

static int
by_value(const void *x, const void *y)
{
	const double a = *(const double *)x, c = *(const double *)y;

	return a < c ? -1 : a > c;
}

static void
print(void)
{
	qsort(b.us, b.nb_us, sizeof(b.us[0]), by_value);
	if (b.job.test == TEST_LAT)
		printf("{\"p50_us\": %.3f, \"p99_us\": %.3f, \"min_us\": %.3f}\n",
		       b.us[b.nb_us / 2], b.us[b.nb_us * 99 / 100], b.us[0]);
	else
		printf("{\"mb_s\": %.3f}\n", (double)b.job.count * b.job.size / b.us[0]);
}

static void
open_net(unsigned int side, const char *dev, const char *idle)
{
	struct leat_reactor_conf conf = { .idle = { .policy = LEAT_IDLE_SPIN } };
	const struct leat_stream_net_conf nconf = { .dev = dev };

	if (strcmp(idle, "block") == 0)
		conf.idle.policy = LEAT_IDLE_BLOCK;
	else if (strcmp(idle, "spin") != 0)
		bench_die("--idle: spin or block");
	b.r[side] = leat_reactor_create(&conf);
	if (b.r[side] == NULL)
		bench_die("%s", leat_err_msg());
	b.net[side] = leat_stream_net_open(b.r[side], &nconf);
	if (b.net[side] == NULL)
		bench_die("%s", leat_err_msg());
}

static void
close_net(unsigned int side)
{
	if (leat_stream_net_close(b.net[side]) < 0 || leat_reactor_destroy(b.r[side]) < 0)
		bench_die("%s", leat_err_msg());
}

static void
run(void)
{
	unsigned int i = b.r[0] != NULL ? 0 : 1;
	bool stopped[2] = { false, false };

	if (b.r[1 - i] == NULL) {
		if (leat_reactor_run(b.r[i]) < 0)
			bench_die("%s", leat_err_msg());
		return;
	}
	while (!stopped[0] || !stopped[1]) {
		for (i = 0; i < 2; i++)
			stopped[i] = leat_reactor_turn(b.r[i]) < 0;
	}
}

static void
read_job(struct bench_args *args)
{
	const char *test = bench_option(args, "--test", "lat");

	for (b.job.test = 0; b.job.test < TESTS; b.job.test++) {
		if (strcmp(test, test_names[b.job.test]) == 0)
			break;
	}
	b.job.size = (uint32_t)strtoul(bench_option(args, "--size", "64"), NULL, 0);
	b.job.count = strtoul(bench_option(args, "--count", "1000"), NULL, 0);
	if (b.job.test == TESTS || b.job.size == 0 || b.job.size > SIZE_MAX_B || b.job.count == 0 ||
	    b.job.count > COUNT_MAX)
		bench_die("--test lat|bw|copy, --size up to %u, --count up to %u", SIZE_MAX_B,
			  COUNT_MAX);
	b.left = b.job.count;
	b.us = calloc(b.job.count, sizeof(b.us[0]));
	b.buf = aligned_alloc(4096, SIZE_MAX_B);
	if (b.us == NULL || b.buf == NULL)
		bench_die("no memory");
	memset(b.buf, 0x5a, SIZE_MAX_B);
}

static int
bare(const char *listen, const char *connect)
{
	if (connect == NULL)
		bare_imm_serve(listen);
	if (listen == NULL)
		bare_imm_measure(connect, b.job.size, b.job.count, b.us);
	else
		bare_imm_both(connect, b.job.size, b.job.count, b.us);
	b.nb_us = b.job.count;
	print();
	return 0;
}

int
main(int argc, char **argv)
{
	const char *listen, *connect, *idle, *dev = NULL;
	const bool is_bare = argc > 1 && strcmp(argv[1], "--bare") == 0;
	struct bench_args args;

	if (is_bare) {
		argv[1] = argv[0];
		argv++;
		argc--;
	}
	bench_args(&args, argc, argv);
	listen = bench_option(&args, "--listen", NULL);
	connect = bench_option(&args, "--connect", NULL);
	idle = bench_option(&args, "--idle", "spin");
	read_job(&args);
	if (listen == NULL && connect == NULL)
		bench_die("--listen ADDR, --connect ADDR, or both");
	if (is_bare)
		return bare(listen, connect);
	if (leat_init(args.argc, args.argv) < 0)
		bench_die("%s", leat_err_msg());
	if (listen != NULL) {
		open_net(1, NULL, idle);
		serve(listen);
		dev = "fabric_verbs0";
	}
	if (connect != NULL) {
		open_net(0, dev, idle);
		measure(connect);
	}
	run();
	if (b.mr != NULL && leat_mr_deregister(b.mr) < 0)
		bench_die("%s", leat_err_msg());
	if (connect != NULL)
		close_net(0);
	if (listen != NULL)
		close_net(1);
	if (leat_cleanup() < 0)
		bench_die("%s", leat_err_msg());
	if (connect != NULL && !b.failed)
		print();
	return b.failed;
}
