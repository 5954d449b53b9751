/* SPDX-License-Identifier: BSD-3-Clause */

/* The client: its streams write a pattern, and check that it comes back. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_errno.h>

#include <leat_app.h>
#include <leat_error.h>
#include <leat_mr.h>
#include <leat_reactor.h>
#include <leat_timer.h>

#include "echo.h"

#define CHUNK 65536u

struct talker {
	struct leat_stream *s;
	uint64_t seed;	/* seed of the stream's pattern, different for each stream */
	uint64_t total; /* bytes there and back */
	uint64_t written, read;
	uint32_t piece, left; /* index of the next piece; bytes of the current one still to write */
	uint32_t again;	      /* streams still to be opened in this place */
	bool paused, was_paused, shut;
	struct leat_timer pause;
	struct leat_stream_out out; /* with opt.zero_copy */
	struct leat_mr *mr;
	uint8_t *buf;
	bool sending;
};

static struct leat_stream_net *net;
static struct talker *talkers;
static uint32_t talking, done, failed;
static uint64_t seeds;

static void on_ready(struct leat_stream *s, uint32_t ready, void *arg);
static int begin(struct talker *t);

static uint8_t
pattern(uint64_t seed, uint64_t at)
{
	uint64_t x = (at / 5 + 3) * 0xd6e8feb86659fd93u + seed * 0x9e3779b97f4a7c15u;

	return (uint8_t)(x >> 40 ^ at);
}

static void
fill(struct talker *t, uint8_t *buf, uint32_t len)
{
	uint32_t i;

	for (i = 0; i < len; i++)
		buf[i] = pattern(t->seed, t->written + i);
}

/* End a stream, and begin the next in its place, if any. why: why it failed; NULL: it did not. */
static void
finish(struct talker *t, const char *why)
{
	if (why != NULL) {
		fprintf(stderr,
			"echo: stream %" PRIu64 ": %" PRIu64 " bytes written, %" PRIu64
			" read: %s\n",
			t->seed, t->written, t->read, why);
		failed++;
	} else {
		done++;
	}
	(void)leat_timer_stop(&t->pause);
	leat_stream_close(t->s, 0);
	t->s = NULL;
	if (t->again > 0 && begin(t) == 0)
		return;
	talking--;
	/* The stream that goes on beside the others may end now. */
	if (opt.beside && talking == 1 && talkers[0].s != NULL) {
		talkers[0].total = talkers[0].written;
		leat_stream_watch(talkers[0].s, LEAT_STREAM_READABLE | LEAT_STREAM_WRITABLE,
				  on_ready, &talkers[0]);
	}
	if (talking == 0)
		leat_app_stop(LEAT_APP_OK);
}

/* ---- writing ---- */

/* Bytes of the next write, at most CHUNK; 0: none now. */
static uint32_t
next_len(struct talker *t)
{
	uint64_t len = CHUNK, rest = t->total - t->written;

	if (t->sending || t->shut)
		return 0;
	if (opt.pieces_n != 0) {
		if (t->left == 0) {
			if (opt.in_turn && t->read < t->written)
				return 0;
			t->left = opt.pieces[t->piece++ % opt.pieces_n];
		}
		len = t->left < CHUNK ? t->left : CHUNK;
	}
	return (uint32_t)(len < rest ? len : rest);
}

static void
wrote(struct talker *t, uint32_t len)
{
	t->written += len;
	t->left -= len < t->left ? len : t->left;
}

static void
on_sent(struct leat_stream_out *out, int status)
{
	struct talker *t = (struct talker *)((uintptr_t)out - offsetof(struct talker, out));

	(void)status; /* on_ready() sees the stream's end */
	t->sending = false;
}

static int
write_some(struct talker *t)
{
	static uint8_t buf[CHUNK];
	uint32_t len = next_len(t);
	ssize_t n;

	if (len == 0)
		return 0;
	if (opt.zero_copy) {
		fill(t, t->buf, len);
		t->out = (struct leat_stream_out){
			.buf = t->buf, .len = len, .mr = t->mr, .done = on_sent
		};
		n = leat_stream_send(t->s, &t->out);
		t->sending = n == 0;
		if (n == 0)
			n = len;
	} else {
		fill(t, buf, len);
		n = leat_stream_write(t->s, buf, len);
	}
	if (n > 0)
		wrote(t, (uint32_t)n);
	return n >= 0 || n == -EAGAIN ? 0 : (int)n;
}

static int
shut(struct talker *t)
{
	int ret;

	if (!opt.half_close || t->shut || t->sending || t->written < t->total)
		return 0;
	ret = leat_stream_shutdown(t->s);
	t->shut = ret == 0;
	return ret == -EAGAIN ? 0 : ret;
}

/* ---- reading ---- */

static void
on_pause_over(struct leat_timer *timer, void *arg, uint64_t now)
{
	struct talker *t = arg;

	(void)timer;
	(void)now;
	t->paused = false;
	leat_stream_watch(t->s, LEAT_STREAM_READABLE | LEAT_STREAM_WRITABLE, on_ready, t);
}

/* @return 1: read some, or nothing is there; 0: the end; negative: an error */
static int
read_some(struct talker *t)
{
	static uint8_t buf[CHUNK];
	ssize_t n, i;

	if (opt.pause_ms != 0 && !t->was_paused && t->read >= opt.pause_after) {
		t->was_paused = true;
		t->paused = true;
		leat_timer_start(leat_reactor_self(), &t->pause, opt.pause_ms * UINT64_C(1000));
	}
	if (t->paused)
		return 1;
	n = leat_stream_read(t->s, buf, opt.read_max < CHUNK ? opt.read_max : CHUNK);
	if (n <= 0)
		return n == -EAGAIN ? 1 : (int)n;
	for (i = 0; i < n; i++) {
		if (t->read >= t->total || buf[i] != pattern(t->seed, t->read)) {
			fprintf(stderr, "echo: stream %" PRIu64 ": byte %" PRIu64 " is wrong\n",
				t->seed, t->read);
			return -EBADMSG;
		}
		t->read++;
	}
	return 1;
}

/* ---- events of the streams ---- */

static const char *
reason(const struct talker *t, int ret)
{
	const char *why = leat_stream_why(t->s);

	if (ret == 0)
		return "the server has closed it";
	return why[0] != '\0' ? why : rte_strerror(-ret);
}

static void
on_ready(struct leat_stream *s, uint32_t ready, void *arg)
{
	struct talker *t = arg;
	uint32_t want = 0;
	int ret;

	(void)s;
	ret = read_some(t);
	if (ret == 0 && t->shut && t->read == t->total) {
		finish(t, NULL);
		return;
	}
	if (ret > 0 && t->read == t->total && !opt.half_close) {
		finish(t, NULL);
		return;
	}
	if (ret > 0 && (ready & LEAT_STREAM_CLOSED) == 0) {
		int err = write_some(t);

		if (err == 0)
			err = shut(t);
		if (err < 0)
			ret = err;
	}
	if (ret <= 0 || ((ready & LEAT_STREAM_CLOSED) != 0 &&
			 (leat_stream_ready(t->s) & LEAT_STREAM_READABLE) == 0)) {
		finish(t, reason(t, ret <= 0 ? ret : leat_stream_error(t->s)));
		return;
	}
	if (!t->paused)
		want |= LEAT_STREAM_READABLE;
	if (next_len(t) != 0 || (opt.half_close && !t->shut))
		want |= LEAT_STREAM_WRITABLE;
	leat_stream_watch(t->s, want, on_ready, t);
}

static int
begin(struct talker *t)
{
	t->again--;
	t->seed = ++seeds;
	t->total = opt.beside && t == talkers ? UINT64_MAX : opt.send;
	t->written = 0;
	t->read = 0;
	t->piece = 0;
	t->left = 0;
	t->paused = false;
	t->was_paused = false;
	t->shut = false;
	t->s = leat_stream_connect(
		net, strcmp(opt.connect, "self") == 0 ? server_addr() : opt.connect, 0);
	if (t->s == NULL) {
		fprintf(stderr, "echo: connect: %s\n", leat_err_msg());
		failed++;
		return -rte_errno;
	}
	leat_stream_watch(t->s, LEAT_STREAM_READABLE | LEAT_STREAM_WRITABLE, on_ready, t);
	return 0;
}

static int
memory(struct talker *t)
{
	if (!opt.zero_copy)
		return 0;
	t->buf = aligned_alloc(4096, CHUNK);
	if (t->buf == NULL)
		return leat_err(ENOMEM, "buffer of a stream");
	t->mr = leat_mr_register(leat_stream_net_ep(net), t->buf, CHUNK, 0);
	return t->mr != NULL ? 0 : -rte_errno;
}

int
client_start(void)
{
	uint32_t i;
	int ret = 0;

	net = leat_stream_net_open(leat_reactor_self(), &opt.net);
	if (net == NULL)
		return -rte_errno;
	talkers = calloc(opt.streams, sizeof(*talkers));
	if (talkers == NULL)
		return leat_err(ENOMEM, "streams");
	for (i = 0; i < opt.streams && ret == 0; i++) {
		struct talker *t = &talkers[i];

		leat_timer_init(&t->pause, on_pause_over, t);
		t->again = opt.beside && i == 0 ? 1 : opt.again;
		ret = memory(t);
		if (ret == 0 && begin(t) == 0)
			talking++;
	}
	if (talking == 0)
		leat_app_stop(LEAT_APP_OK);
	return ret;
}

bool
client_end(void)
{
	uint32_t i, all = (opt.streams - opt.beside) * opt.again + opt.beside;
	int ret;

	if (net == NULL)
		return opt.connect == NULL;
	report("client", net);
	ret = leat_stream_net_close(net);
	if (ret < 0)
		fprintf(stderr, "echo: the net can't be closed: %s\n", leat_err_msg());
	for (i = 0; talkers != NULL && i < opt.streams && ret != -EBUSY; i++)
		free(talkers[i].buf);
	free(talkers);
	printf("%u of %u streams echoed what they sent, %u failed\n", done, all, failed);
	return ret == 0 && done + failed == all && failed == opt.failing;
}
