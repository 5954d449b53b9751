/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FI_LOOP_H
#define FI_LOOP_H

/*
 * The loops of fi_side.h, written once: bare_fi.c and leat_fi.c include this file after a few
 * inline functions that send, receive and poll for their side. So both measure the same, and
 * neither pays for a call.
 *
 *     first                                   second, in serve()
 *       order()        -- struct order -->      posts its receives
 *                      <-- ready --
 *       lat, rate      <-- messages -->         its half
 *       wait_done()    <-- done --              waits in read(2)
 *
 * - lat: half of the mean round trip. Two receives are posted; when one completes, the answer is
 *   sent first and the receive is posted again after it, off the critical path. The send buffer
 *   used last, which is in the cache, is used next. The sender does not wait for the completion of
 *   a send.
 * - rate: ns per message. The first side keeps up to `window` sends in flight, and polls when the
 *   window, or the provider, is full; the second keeps `window` receives posted. Each has a buffer
 *   of its own. The clock stops when the second side, having all messages, has answered.
 * - Neither side reads or writes the payload.
 *
 * Define before the include: `struct side`, which begins with a struct fi_loop, and these
 * functions. (A request is the pointer that is passed to send or receive, and that poll returns.)
 *
 *     side_prepare(s, size)   begins a measurement with messages of this size
 *     side_recv(s, i)         posts receive i
 *     side_again(s, reqs, n)  posts completed receives again
 *     side_complete_all(s)    makes all later sends complete, injected or not
 *     side_send(s, n)         sends up to n messages with requests from the end of loop.free, and
 *                             removes from loop.free the requests that are in flight. Returns how
 *                             many messages the provider accepted.
 *     side_answer(s, again, n, done)
 *                             sends one message, then posts the receive `again`, unless it is
 *                             NULL: n requests in all, of which earlier calls have posted the
 *                             first `done`. Returns how many this call has posted.
 *     side_poll(s, recvs)     polls once: completed sends go to loop.free, receives to recvs.
 *                             Returns the number of receives, or -1 if nothing completed.
 *     side_events(s)          does the endpoint's periodic work
 */

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "fi_side_pvt.h"

static __attribute__((noinline, cold)) void
idle_check(struct side *s)
{
	struct fi_loop *l = &s->loop;
	uint64_t now = bench_ns();

	l->idle = 0;
	side_events(s);
	if (!bench_rest(l->fd, REST_NS))
		bench_die("the other side is gone");
	if (l->idle_since == 0)
		l->idle_since = now;
	if (now - l->idle_since > STUCK_NS)
		bench_die(
			"nothing comes any more: %u of %u receives posted, %u of %u sends are back",
			l->posted, l->expected, l->nb_free, l->window);
}

/* Poll once. @return the number of completed receives, which are in recvs */
static inline uint32_t
drive(struct side *s, void **recvs)
{
	struct fi_loop *l = &s->loop;
	int n = side_poll(s, recvs);

	if (n < 0) {
		if (unlikely(++l->idle == IDLE_POLLS))
			idle_check(s);
		return 0;
	}
	l->idle = 0;
	l->idle_since = 0;
	return (uint32_t)n;
}

static void
begin(struct side *s, size_t size, uint32_t depth, uint32_t expected)
{
	struct fi_loop *l = &s->loop;

	l->expected = expected;
	l->got = 0;
	l->consumed = NULL;
	side_prepare(s, size);
	for (l->posted = 0; l->posted < depth && l->posted < expected; l->posted++)
		side_recv(s, l->posted);
}

/* ---- round trips: one message is in flight at any time ---- */

static inline void
lat_drive(struct side *s)
{
	void *recvs[FI_BURST];
	uint32_t n = drive(s, recvs);

	if (n > 0) {
		s->loop.consumed = recvs[n - 1];
		s->loop.got += n;
	}
}

/* Send a message, and after it post the consumed receive again. */
static inline void
lat_send(struct side *s)
{
	struct fi_loop *l = &s->loop;
	unsigned int n = 1, done = 0;
	void *again;

	while (unlikely(l->nb_free == 0))
		lat_drive(s);
	again = l->consumed;
	l->consumed = NULL;
	if (likely(again != NULL && l->posted < l->expected)) {
		n = 2;
		l->posted++;
	}
	for (;;) {
		done += side_answer(s, again, n, done);
		if (likely(done == n))
			return;
		lat_drive(s);
	}
}

static inline void
lat_wait(struct side *s)
{
	while (s->loop.got == 0)
		lat_drive(s);
	s->loop.got = 0;
}

/* Wait until no send is in flight. */
static void
lat_end(struct side *s)
{
	while (s->loop.nb_free < s->loop.window)
		lat_drive(s);
}

static double
lat_first(struct side *s, uint32_t warm, uint32_t n)
{
	uint64_t start = 0, end;
	uint32_t i;

	for (i = 0; i < warm + n; i++) {
		if (unlikely(i == warm))
			start = bench_ns();
		lat_send(s);
		lat_wait(s);
	}
	end = bench_ns();
	lat_end(s);
	return (double)(end - start) / (2.0 * n);
}

static void
lat_second(struct side *s, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		lat_wait(s);
		/*
		 * This side does not poll after the last answer. Make the answer complete, so that
		 * lat_end() waits until it was sent.
		 */
		if (unlikely(i == n - 1))
			side_complete_all(s);
		lat_send(s);
	}
	lat_end(s);
}

/* ---- message rate ---- */

/* Send n messages, and wait for the second side's answer to the last one. */
static void
rate_first(struct side *s, uint32_t window, uint32_t n)
{
	struct fi_loop *l = &s->loop;
	uint32_t sent = 0, keep = l->window - window, k, took;
	void *recvs[FI_BURST];

	while (sent < n) {
		k = l->nb_free - keep;
		k = k < FI_BURST ? k : FI_BURST;
		k = k < n - sent ? k : n - sent;
		took = k > 0 ? side_send(s, k) : 0;
		sent += took;
		if (took < k || l->nb_free == keep)
			l->got += drive(s, recvs);
	}
	while (l->got == 0 || l->nb_free < l->window)
		l->got += drive(s, recvs);
}

/* Send one message, and wait until all sends have completed. */
static void
send_one(struct side *s, size_t size)
{
	struct fi_loop *l = &s->loop;
	void *recvs[FI_BURST];

	side_prepare(s, size);
	side_complete_all(s);
	while (side_send(s, 1) != 1)
		l->got += drive(s, recvs);
	while (l->nb_free < l->window)
		l->got += drive(s, recvs);
}

static void
rate_second(struct side *s, uint32_t n)
{
	struct fi_loop *l = &s->loop;
	uint32_t got = 0, k, again;
	void *recvs[FI_BURST];

	while (got < n) {
		k = drive(s, recvs);
		got += k;
		again = k < n - l->posted ? k : n - l->posted;
		if (again > 0)
			side_again(s, recvs, again);
		l->posted += again;
	}
	send_one(s, 1);
}

/* ---- orders ---- */

static void
order(struct side *s, uint32_t what, size_t size, uint32_t window, uint32_t n)
{
	struct order o = { .what = what, .n = n, .window = window, .size = size };
	char ready;

	side_events(s);
	if (send(s->loop.fd, &o, sizeof(o), MSG_NOSIGNAL) != (ssize_t)sizeof(o) ||
	    recv(s->loop.fd, &ready, 1, MSG_WAITALL) != 1)
		bench_die("the second side is gone");
}

/* Wait for the second side, and poll meanwhile: its last sends may need this side's provider. */
static void
wait_done(struct side *s)
{
	void *recvs[FI_BURST];
	ssize_t ret;
	char done;

	while ((ret = recv(s->loop.fd, &done, 1, MSG_DONTWAIT)) != 1) {
		if (ret == 0 || (errno != EAGAIN && errno != EINTR))
			bench_die("the second side is gone");
		(void)drive(s, recvs);
	}
}

static uint32_t
warm_up(uint32_t n)
{
	return n / 10 + 1;
}

static double
side_lat(struct side *s, size_t size, uint32_t n)
{
	uint32_t warm = warm_up(n);
	double ns;

	begin(s, size, 2, warm + n);
	order(s, ORDER_LAT, size, 0, warm + n);
	ns = lat_first(s, warm, n);
	wait_done(s);
	return ns;
}

static double
rate_round(struct side *s, size_t size, uint32_t window, uint32_t n)
{
	uint64_t start, end;

	begin(s, size, 1, 1);
	order(s, ORDER_RATE, size, window, n);
	start = bench_ns();
	rate_first(s, window, n);
	end = bench_ns();
	wait_done(s);
	return (double)(end - start) / n;
}

static double
side_rate(struct side *s, size_t size, uint32_t window, uint32_t n)
{
	(void)rate_round(s, size, window, warm_up(n));
	return rate_round(s, size, window, n);
}

static void
side_serve(struct side *s)
{
	struct order o;

	bench_thread_ready();
	while (recv(s->loop.fd, &o, sizeof(o), MSG_WAITALL) == (ssize_t)sizeof(o)) {
		side_events(s);
		begin(s, o.size, o.what == ORDER_LAT ? 2 : o.window, o.n);
		if (send(s->loop.fd, "r", 1, MSG_NOSIGNAL) != 1)
			break;
		if (o.what == ORDER_LAT)
			lat_second(s, o.n);
		else
			rate_second(s, o.n);
		if (send(s->loop.fd, "d", 1, MSG_NOSIGNAL) != 1)
			break;
	}
}

#endif /* FI_LOOP_H */
