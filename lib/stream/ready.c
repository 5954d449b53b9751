/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Readiness is a state that is computed on demand. Code that may have changed it calls
 * stream_ready_touch(), which puts a watched stream on the net's list. In each turn the net's
 * poller takes the streams that are on the list when it begins, computes the state of each again,
 * and calls its callback. A stream that is still in a state that is watched for is appended again.
 *
 * A callback may close any stream. A closed stream that is on a list is freed only when it is taken
 * from the list.
 */

#include "stream_pvt.h"

static bool
ended(const struct leat_stream *s)
{
	return s->state >= STREAM_ENDING;
}

/* Return the states of `want` that the stream is in; WRITABLE and DRAINED are rarely wanted. */
static inline uint32_t
is_ready(const struct leat_stream *s, uint32_t want)
{
	const bool over = ended(s);
	uint32_t ready = 0;

	if (s->rx_got > s->rx_taken || s->rx_got == s->rx_end || over)
		ready |= LEAT_STREAM_READABLE;
	if (over)
		ready |= LEAT_STREAM_CLOSED;
	if ((want & (LEAT_STREAM_WRITABLE | LEAT_STREAM_DRAINED)) == 0 || s->state < STREAM_UP)
		return ready & want;
	if (over || s->shut || s->tx_head - s->tx_done < s->tx_size)
		ready |= LEAT_STREAM_WRITABLE;
	if (stream_tx_empty(s))
		ready |= LEAT_STREAM_DRAINED;
	return ready & want;
}

uint32_t
leat_stream_ready(const struct leat_stream *s)
{
	return is_ready(s, UINT32_MAX);
}

/* Return the states to be reported to the callback. */
static inline uint32_t
states_to_report(const struct leat_stream *s)
{
	uint32_t want = s->want;

	if (s->ready == NULL || s->released || s->announce)
		return 0;
	if (!s->closed_reported)
		want |= LEAT_STREAM_CLOSED;
	return is_ready(s, want);
}

static void
wait_remove(struct stream_wait *w)
{
	struct leat_stream *s = w->s;

	if (w->prev != NULL)
		w->prev->next = w->next;
	else
		s->waits = w->next;
	if (w->next != NULL)
		w->next->prev = w->prev;
	else
		s->waits_last = w->prev;
	w->listed = false;
}

static void
waits_wake(struct leat_stream *s)
{
	const uint32_t ready = leat_stream_ready(s);
	struct stream_wait *w = s->waits, *next;

	for (; w != NULL; w = next) {
		next = w->next;
		if (s->released) {
			wait_remove(w);
			w->released = true;
		} else if ((ready & w->want) == 0) {
			continue;
		}
		if (w->ended)
			continue;
		w->ended = true;
		(void)leat_resource_end(&w->op, s->released ? -ECANCELED : 0);
	}
}

void
stream_ready_touch(struct leat_stream *s)
{
	struct leat_stream_net *net = s->net;

	if (unlikely(s->waits != NULL))
		waits_wake(s);
	if (s->in_ready || (!s->announce && states_to_report(s) == 0))
		return;
	s->in_ready = true;
	s->next_ready = NULL;
	*net->ready_end = s;
	net->ready_end = &s->next_ready;
	net->nb_ready++;
}

static struct leat_stream *
take_first(struct leat_stream_net *net)
{
	struct leat_stream *s = net->ready;

	net->ready = s->next_ready;
	if (net->ready == NULL)
		net->ready_end = &net->ready;
	net->nb_ready--;
	s->in_ready = false;
	return s;
}

int
stream_ready_run(struct leat_stream_net *net)
{
	uint32_t n = net->nb_ready;
	int told = 0;

	for (; n > 0; n--) {
		struct leat_stream *s = take_first(net);
		const uint32_t gen = s->gen;
		uint32_t ready;

		if (s->released) {
			stream_slot_put(s);
			continue;
		}
		if (s->announce) {
			s->announce = false;
			told++;
			net->listener.accept(s, net->listener.arg);
		} else if ((ready = states_to_report(s)) != 0) {
			if ((ready & LEAT_STREAM_CLOSED) != 0)
				s->closed_reported = true;
			told++;
			s->ready(s, ready, s->ready_arg);
		}
		if (s->gen == gen && !s->released)
			stream_ready_touch(s);
	}
	return told;
}

void
leat_stream_watch(struct leat_stream *s, uint32_t want, leat_stream_ready_fn fn, void *arg)
{
	s->want = want;
	s->ready = fn;
	s->ready_arg = arg;
	stream_ready_touch(s);
}

/* ---- waiting tasks ---- */

static int
wait_post(struct leat_resource_op *op)
{
	struct stream_wait *w = container_of(op, struct stream_wait, op);
	struct leat_stream *s = w->s;

	if ((leat_stream_ready(s) & w->want) != 0)
		return leat_resource_end(op, 0);
	w->next = NULL;
	w->prev = s->waits_last;
	if (s->waits_last != NULL)
		s->waits_last->next = w;
	else
		s->waits = w;
	s->waits_last = w;
	w->listed = true;
	return 0;
}

static enum leat_cancel
wait_cancel(struct leat_resource_op *op)
{
	container_of(op, struct stream_wait, op)->ended = true;
	return LEAT_CANCEL_FREED;
}

static void
wait_describe(const struct leat_resource_op *op, char *text, size_t len)
{
	const struct stream_wait *w = container_of(op, const struct stream_wait, op);

	snprintf(text, len, "stream %s", w->s->addr);
}

static const struct leat_resource wait_resource = {
	.name = "stream",
	.post = wait_post,
	.cancel = wait_cancel,
	.describe = wait_describe,
};

int
stream_wait(struct leat_stream *s, uint32_t want, bool *released)
{
	struct stream_wait w = { .s = s, .want = want };
	int ret = leat_resource_run(&w.op, &wait_resource);

	*released = w.released;
	if (w.released)
		return ret < 0 ? ret : -ECANCELED;
	if (w.listed)
		wait_remove(&w);
	return ret < 0 ? ret : (int)(leat_stream_ready(s) & want);
}
