/* SPDX-License-Identifier: BSD-3-Clause */

/* --connect: sessions between this process's lcores and those of a listening process. */

#include <string.h>

#include <leat_error.h>

#include "lead.h"

/* Pause between two attempts, if no listener is there yet, or the listener has another client. */
#define AGAIN_US 50000
#define SAY_US (2 * RB_US)
/*
 * First word of the text in LEAT_RPC_ENDED when the peer has refused the session. With any other
 * text the connect has failed.
 */
#define REFUSED "refused"

/* State of the attempts to connect. */
struct attempt {
	uint64_t begin, end, say_at; /* cycles */
	bool busy;		     /* the listener has refused: it has another client */
};

static void
say_waiting(const struct rb_bench *b, struct attempt *a)
{
	const uint64_t now = leat_now();

	if (now < a->say_at)
		return;
	rb_msg("waiting for a listener at %s%s (%.0f of %.0f s)", b->o.addr,
	       a->busy ? ", which is busy with another client" : "",
	       (double)leat_cycles_to_ns(now - a->begin) / 1e9,
	       (double)b->o.timeout_us / (double)RB_US);
	a->say_at = rb_in(SAY_US);
}

/* Try to connect. @return 1: the link is up; 0: try again; other: failed, with b->why */
static int
connect_once(struct rb_bench *b, struct attempt *a)
{
	const uint64_t now = leat_now(), left = a->end > now ? a->end - now : 0;
	struct rb_link_peer *p = rb_link_connect(
		&b->link, 0, b->o.addr, RTE_MAX(leat_cycles_to_ns(left) / 1000, UINT64_C(1000)));

	if (p == NULL)
		return -EIO;
	while (!p->up && !p->ended) {
		say_waiting(b, a);
		if (leat_task_sleep(1000) < 0)
			return -ECANCELED;
	}
	if (p->up)
		return 1;
	if (p->status == -ECONNREFUSED && strncmp(p->why, REFUSED, strlen(REFUSED)) == 0)
		a->busy = true;
	/* No listener is there yet, or the listener has another client. */
	if ((p->status == -ECONNREFUSED || p->status == -ECONNRESET) && leat_now() < a->end) {
		rb_link_forget(p);
		return leat_task_sleep(AGAIN_US) < 0 ? -ECANCELED : 0;
	}
	if (a->busy)
		return rb_fail(b, EBUSY, "the listener at %s is busy with another client",
			       b->o.addr);
	return rb_fail(b, p->status != 0 ? -p->status : ECONNREFUSED, "%s: %s", b->o.addr, p->why);
}

static int
find(struct rb_bench *b)
{
	struct attempt a = { .begin = leat_now(),
			     .end = rb_in(b->o.timeout_us),
			     .say_at = rb_in(SAY_US) };
	int ret;

	do {
		ret = connect_once(b, &a);
	} while (ret == 0);
	return ret < 0 ? ret : rb_link_hello(rb_link_find(&b->link, 0));
}

int
rb_connect(struct rb_bench *b)
{
	int ret;

	b->plan = b->o.plan;
	if (rb_world_init(&b->world, 1, 2, true) < 0)
		return rb_fail(b, ENOMEM, "out of memory");
	b->world.ranks[0].calls = b->plan.both;
	rb_host_of(b->o.addr, b->world.ranks[0].host, sizeof(b->world.ranks[0].host));
	/* No other process connects to the nodes of this one, so they listen without a host. */
	b->bind = "";
	ret = rb_card_fill(b, &rb_world_self(&b->world)->card);
	if (ret == 0)
		ret = rb_link_open(&b->link, b, NULL, 1);
	if (ret == 0)
		ret = rb_link_start(&b->link);
	if (ret == 0)
		ret = find(b);
	if (ret == 0)
		ret = rb_lead_open(b);
	if (ret == 0)
		ret = rb_link_nodes(rb_link_find(&b->link, 0));
	if (ret == 0)
		ret = rb_lead_run(b);
	if (ret == 0)
		ret = rb_lead_close(b);
	return ret;
}
