/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Sending: from the send buffer, or from memory of the application, into the peer's window.
 *
 *     send buffer  tx_done ...... tx_posted ...... tx_head        a ring of tx_size bytes
 *                   the device has   to be posted
 *     outs         before = 700: sent when tx_posted is 700, ahead of byte 700 of the buffer
 *
 * A WRITE_IMM carries bytes that are contiguous in the source, fit into the peer's window, and are
 * at most a chunk. A stream may have at most half as many ops in flight as the net has free ops: so
 * some ops are left for other streams, however many peers stop accepting writes. A stream has no
 * more bytes in flight than its send buffer holds, plus a chunk: more bytes make no device faster,
 * but some slower.
 */

#include "stream_pvt.h"

bool
stream_tx_empty(const struct leat_stream *s)
{
	return s->tx_posted == s->tx_head && s->outs == NULL && s->tx_flight == 0;
}

/* ---- writing ---- */

static uint32_t
room_of(const struct leat_stream *s)
{
	return s->tx_size - (uint32_t)(s->tx_head - s->tx_done);
}

/* Check whether the application may write. @return 0: it may; -EAGAIN: not yet; -EPIPE: no more */
static int
writable(const struct leat_stream *s)
{
	if (s->state == STREAM_UP && !s->shut)
		return 0;
	return s->state < STREAM_UP ? -EAGAIN : -EPIPE;
}

static void
wrote(struct leat_stream *s, size_t n)
{
	s->tx_in = (uint32_t)((s->tx_in + n) % s->tx_size);
	s->tx_head += n;
	stream_work(s);
}

ssize_t
leat_stream_write(struct leat_stream *s, const void *buf, size_t len)
{
	const uint32_t size = s->tx_size;
	int ret = writable(s);
	size_t first;

	if (ret < 0)
		return ret;
	if (len == 0)
		return 0;
	len = RTE_MIN(len, (size_t)room_of(s));
	if (len == 0)
		return -EAGAIN;
	first = RTE_MIN(len, (size_t)(size - s->tx_in));
	memcpy(s->tx_mem + s->tx_in, buf, first);
	memcpy(s->tx_mem, (const uint8_t *)buf + first, len - first);
	wrote(s, len);
	return (ssize_t)len;
}

ssize_t
leat_stream_writev(struct leat_stream *s, const struct iovec *iov, int iovcnt)
{
	ssize_t sum = 0, n = writable(s);
	int i;

	for (i = 0; i < iovcnt && n >= 0; i++) {
		n = leat_stream_write(s, iov[i].iov_base, iov[i].iov_len);
		if (n > 0)
			sum += n;
		if (n >= 0 && (size_t)n < iov[i].iov_len)
			break;
	}
	return sum > 0 ? sum : RTE_MIN(n, (ssize_t)0);
}

int
leat_stream_reserve(struct leat_stream *s, struct iovec iov[2])
{
	const uint32_t size = s->tx_size;
	const uint32_t room = room_of(s);
	int ret = writable(s);

	if (ret < 0)
		return ret;
	if (room == 0)
		return -EAGAIN;
	iov[0].iov_base = s->tx_mem + s->tx_in;
	iov[0].iov_len = RTE_MIN(room, size - s->tx_in);
	iov[1].iov_base = s->tx_mem;
	iov[1].iov_len = room - iov[0].iov_len;
	return iov[1].iov_len > 0 ? 2 : 1;
}

int
leat_stream_commit(struct leat_stream *s, size_t n)
{
	int ret = writable(s);

	if (ret < 0)
		return ret;
	if (n > room_of(s))
		return leat_err(EINVAL, "stream %s: %zu B committed, where %u have room", s->addr,
				n, room_of(s));
	if (n > 0)
		wrote(s, n);
	return 0;
}

int
leat_stream_send(struct leat_stream *s, struct leat_stream_out *out)
{
	int ret = writable(s);

	if (out->len == 0 || out->done == NULL || (s->net->mr_local && out->mr == NULL))
		return leat_err(EINVAL, "stream %s: send: no bytes, no region or no function",
				s->addr);
	if (ret < 0)
		return ret;
	out->next = NULL;
	out->before = s->tx_head;
	out->posted = out->completed = 0;
	out->stream = s;
	out->status = 0;
	*s->outs_end = out;
	s->outs_end = &out->next;
	stream_work(s);
	return 0;
}

void
leat_stream_flush(struct leat_stream *s)
{
	stream_ctrl_run(s);
	stream_tx_run(s);
}

/* ---- posting ---- */

/* Choose the bytes to be sent next, at most max. @return false: there are none */
static bool
next_bytes(const struct leat_stream *s, struct stream_tx_op *t, uint32_t max)
{
	struct leat_stream_out *out = s->outs;
	const uint64_t upto = out != NULL ? out->before : s->tx_head;

	if (s->tx_posted < upto) {
		max = RTE_MIN(max, s->tx_size - s->tx_off);
		t->out = NULL;
		t->op.buf = s->tx_mem + s->tx_off;
		t->op.mr = s->tx_mr;
		t->op.size = RTE_MIN((uint64_t)max, upto - s->tx_posted);
		return true;
	}
	if (out == NULL)
		return false;
	t->out = out;
	t->op.buf = (uint8_t *)(uintptr_t)out->buf + out->posted;
	t->op.mr = out->mr;
	t->op.size = RTE_MIN((uint64_t)max, out->len - out->posted);
	return true;
}

static void
posted(struct leat_stream *s, struct stream_tx_op *t)
{
	const uint32_t n = (uint32_t)t->op.size;
	struct leat_stream_out *out = t->out;

	if (out == NULL) {
		s->tx_posted += n;
		s->tx_off = (s->tx_off + n) % s->tx_size;
	} else {
		out->posted += n;
		if (out->posted == out->len) {
			s->outs = out->next;
			if (s->outs == NULL)
				s->outs_end = &s->outs;
		}
	}
	s->window_off += n;
	s->tx_total += n;
	s->tx_flight_bytes += n;
	s->tx_seq++;
	if (s->tx_flight++ == 0)
		s->last_progress = s->net->now;
	s->last_data = s->net->now;
	s->info.tx_notices++;
	STREAM_COUNT(s->net->stats.tx_notices, 1);
}

/* Return the room in the peer's window. If the first of two is full, drop it for the second. */
static uint32_t
window_room(struct leat_stream *s)
{
	if (s->nb_windows > 1 && s->window_off == s->windows[0].len) {
		s->windows[0] = s->windows[1];
		s->nb_windows = 1;
		s->window_off = 0;
	}
	return s->nb_windows == 0 ? 0 : s->windows[0].len - s->window_off;
}

static uint32_t
flight_max(const struct leat_stream_net *net)
{
	return RTE_MIN((uint32_t)STREAM_NOTICES_MAX, RTE_MAX(net->nb_tx_free / 2, UINT32_C(1)));
}

static bool
something_left(const struct leat_stream *s)
{
	return s->tx_posted < s->tx_head || s->outs != NULL;
}

/* Post one WRITE_IMM. @return false: the device or the pool has no room */
static bool
post_one(struct leat_stream *s, uint32_t room)
{
	struct leat_stream_net *net = s->net;
	const struct stream_window *w = &s->windows[0];
	struct stream_tx_op *t = net->tx_free;
	struct leat_op *op;

	if (t == NULL || !next_bytes(s, t, RTE_MIN(room, net->chunk)))
		return false;
	op = &t->op;
	op->peer = s->peer;
	op->raddr = w->addr + s->window_off;
	op->rkey = w->key;
	op->imm = net->windows ? stream_notice(net->tokens ? s->peer_token : 0, s->tx_seq,
					       s->window_off + (uint32_t)op->size - 1)
			       : op->size;
	t->s = s;
	if (leat_ep_post(net->ep, &op, 1) == 0)
		return false;
	net->tx_free = t->next;
	net->nb_tx_free--;
	posted(s, t);
	return true;
}

void
stream_tx_run(struct leat_stream *s)
{
	if (s->state != STREAM_UP || !s->go)
		return;
	while (something_left(s)) {
		const uint32_t room = window_room(s);

		if (room == 0) {
			if (!s->stalled && s->info.tx_registered > 0)
				s->info.tx_stalls++;
			s->stalled = true;
			return;
		}
		s->stalled = false;
		/* At the limit, wait: the next completion of this stream resumes it. */
		if (s->tx_flight > 0 &&
		    (s->tx_flight >= flight_max(s->net) || s->tx_flight_bytes >= s->tx_size))
			return;
		if (!post_one(s, room)) {
			stream_starve(s);
			return;
		}
	}
}

/* ---- completions ---- */

static void
out_done(struct leat_stream_net *net, struct leat_stream_out *out)
{
	out->next = NULL;
	*net->outs_done_end = out;
	net->outs_done_end = &out->next;
}

void
stream_tx_done(struct stream_tx_op *t)
{
	struct leat_stream *s = t->s;
	struct leat_stream_net *net = s->net;
	const uint32_t n = (uint32_t)t->op.size;
	struct leat_stream_out *out = t->out;
	const int status = t->op.status;

	t->s = NULL;
	t->next = net->tx_free;
	net->tx_free = t;
	net->nb_tx_free++;
	s->tx_flight--;
	s->tx_flight_bytes -= n;
	s->last_progress = net->now;
	if (status == 0) {
		s->info.tx_bytes += n;
		STREAM_COUNT(net->stats.tx_bytes, n);
	}
	if (out == NULL) {
		s->tx_done += n;
	} else {
		out->completed += n;
		if (status < 0 && out->status == 0)
			out->status = status;
		if (out->completed == out->len)
			out_done(net, out);
	}
	/* With one of these statuses the connection is ending: the endpoint's event says why. */
	if (status < 0 && status != -ECONNABORTED && status != -ECONNRESET &&
	    status != -ESHUTDOWN && status != -ENOTCONN)
		stream_fail(s, status, "a write of %u B failed: %s", n, strerror(-status));
	if (something_left(s) || s->draining)
		stream_work(s);
	stream_ready_touch(s);
}

void
stream_tx_end(struct leat_stream *s)
{
	struct leat_stream_out *out;

	while ((out = s->outs) != NULL) {
		s->outs = out->next;
		if (out->status == 0)
			out->status = s->error < 0 ? s->error : -EPIPE;
		out_done(s->net, out);
	}
	s->outs_end = &s->outs;
	s->tx_posted = s->tx_done = s->tx_head;
}

int
stream_outs_run(struct leat_stream_net *net)
{
	struct leat_stream_out *out = net->outs_done, *next;
	int n = 0;

	/* For outs that complete in these callbacks, done() is called in the next turn. */
	net->outs_done = NULL;
	net->outs_done_end = &net->outs_done;
	for (; out != NULL; out = next, n++) {
		next = out->next;
		out->done(out, out->status);
	}
	return n;
}
