/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EFA_LOOP_H
#define EFA_LOOP_H

/*
 * The loop of efa_side.h, written once: bare_efa.c and leat_efa.c include this file after inline
 * functions that post and poll for their side.
 *
 *     side_post(s)        A posts the op. Returns 1 if it was injected, and so will not complete
 *     side_recv(s)        B posts the receive
 *     side_poll(s, end)   polls A or B once. Returns the number of completions
 *
 * An op is done when A has its completion and B has the message. After each post both are polled at
 * least once, so that an injected message costs as many polls as one that is not injected.
 */

#include <stdbool.h>

#ifndef likely
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#endif

enum { A, B, ENDS };

/* If one op takes this many polls, something hangs. */
#define STUCK 10000000

static uint64_t
side_run(struct side *s, uint64_t n)
{
	const bool message = s->what != EFA_READ;
	uint64_t i, polls = 0;

	for (i = 0; i < n; i++) {
		const uint64_t stuck = polls + STUCK;
		int sent = side_post(s), got = !message;

		do {
			if (message) {
				got += side_poll(s, B);
				polls++;
			}
			sent += side_poll(s, A);
			polls++;
			if (unlikely(polls > stuck))
				bench_die("%s: an op does not complete", s->name);
		} while (sent == 0 || got == 0);
		if (message)
			side_recv(s);
	}
	return polls;
}

static void
side_prepare(struct side *s, enum efa_what what, size_t size)
{
	s->what = what;
	s->size = size;
	side_set(s);
	if (what != EFA_READ)
		side_recv(s);
}

/* Send one more message, which completes the receive that the run has left posted. */
static void
side_finish(struct side *s)
{
	int sent, got = 0;

	if (s->what == EFA_READ)
		return;
	sent = side_post(s);
	do {
		got += side_poll(s, B);
		sent += side_poll(s, A);
	} while (sent == 0 || got == 0);
}

#endif /* EFA_LOOP_H */
