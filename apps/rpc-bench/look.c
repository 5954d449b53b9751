/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Events that the leading task reacts to: nodes reach a state, sessions and processes end.
 */

#include <stdarg.h>
#include <string.h>

#include <leat_error.h>
#include <leat_task_call.h>

#include "lead.h"

/* Maximum number of messages about sessions that ended although the peer's process did not. */
#define REPORT_MAX 8u
/* Longest time from the end of a session until this process knows that the peer's process ended. */
#define LOSS_US (3 * RB_US / 2)

/* ---- news ---- */

static void
news_arrive(void *arg)
{
	struct rb_bench *b = arg;

	/*
	 * acquire: pairs with the exchange in rb_news(). A call of rb_news() after this exchange
	 * queues another call of this function.
	 */
	(void)__atomic_exchange_n(&b->nb_news, 0, __ATOMIC_ACQUIRE);
	leat_task_event_set(&b->news);
}

void
rb_news(struct rb_bench *b)
{
	struct leat_reactor *r = leat_app_reactor(0);

	/* release: the leading task sees what the caller has changed */
	if (__atomic_exchange_n(&b->nb_news, 1, __ATOMIC_ACQ_REL) != 0)
		return;
	/*
	 * The call is refused when the leading task's reactor has stopped, or the reactor's queue
	 * is full. No retry is needed: news_wait() returns at least every second.
	 */
	if (r == NULL || leat_reactor_call(r, news_arrive, b) < 0)
		__atomic_store_n(&b->nb_news, 0, __ATOMIC_RELEASE);
}

/* Wait for news, at most a second and at most until `until`. @return 0, -ETIMEDOUT, -ECANCELED */
static int
news_wait(struct rb_bench *b, uint64_t until)
{
	uint64_t soon = leat_time_add(leat_now(), leat_hz());
	uint64_t old = leat_task_deadline_set(RTE_MIN(until, soon));
	int ret = leat_task_event_wait(&b->news);

	(void)leat_task_deadline_set(old);
	leat_task_event_reset(&b->news);
	if (ret == -ECANCELED)
		b->interrupted = true;
	return ret;
}

int
rb_fail(struct rb_bench *b, int err, const char *fmt, ...)
{
	char text[RB_TEXT];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (b->why[0] == '\0')
		memcpy(b->why, text, sizeof(text));
	return err > 0 ? -err : -EIO;
}

/* ---- processes and sessions that end ---- */

struct drop {
	struct rb_node *node;
	uint16_t rank;
};

static int
node_drop(void *arg)
{
	const struct drop *d = arg;

	rb_node_drop(d->node, d->rank);
	return 0;
}

void
rb_rank_lost(struct rb_bench *b, uint16_t rank, const char *why)
{
	struct rb_link_peer *p = rb_link_find(&b->link, rank);
	struct rb_rank *r = &b->world.ranks[rank];
	struct drop d = { .rank = rank };
	uint16_t i;

	if (r->lost)
		return;
	r->lost = true;
	snprintf(r->why, sizeof(r->why), "%s", why);
	if (p != NULL && !p->ended)
		rb_link_drop(p, -ECONNABORTED, why);
	if (b->world.pair) {
		(void)rb_fail(b, ECONNRESET, "the %s is gone: %s",
			      b->world.rank == 0 ? "connecting side" : "listener", r->why);
		return;
	}
	if (b->phase == RB_SETUP) {
		(void)rb_fail(b, ECONNRESET, "rank %u ended before the start: %s", rank, r->why);
		return;
	}
	rb_msg("rank %u (%s, pid %u) ended: %s", rank, r->card.name, r->card.pid, r->why);
	for (i = 0; i < b->nb_nodes; i++) {
		d.node = b->nodes[i];
		(void)leat_task_call(d.node->reactor, node_drop, &d, NULL);
	}
}

static void
look_at_links(struct rb_bench *b)
{
	uint32_t i;

	if (b->phase == RB_LEAVING)
		return;
	for (i = 0; i < b->link.nb_peers; i++) {
		const struct rb_link_peer *p = &b->link.peers[i];

		/* A process that has sent BYE counts as ended, even if its session is still up. */
		if (p->link == NULL || (!p->ended && !p->left) || p->rank == RB_NO_RANK ||
		    b->world.ranks[p->rank].lost)
			continue;
		/* The process was answered at the last meeting before this one, and has left
		 * cleanly: it is not lost. */
		if (b->phase == RB_GATHERING && p->status == 0 && !p->left)
			continue;
		rb_rank_lost(b, p->rank, p->why);
	}
}

/*
 * Handle the end of a session. If the process of the peer does not end as well within LOSS_US,
 * report the end of the session.
 */
static void
peer_ended(struct rb_bench *b, struct rb_node *n, struct rb_peer *p)
{
	const uint16_t rank = rb_node_rank(p->node), lcore = rb_node_lcore(p->node);
	const uint64_t now = leat_now();

	if (p->seen == 0)
		p->seen = now;
	if (b->world.ranks[rank].lost) {
		p->seen = UINT64_MAX;
		return;
	}
	if (rank != b->world.rank && now < leat_time_add(p->seen, leat_us_to_cycles(LOSS_US)))
		return;
	p->seen = UINT64_MAX;
	if (b->phase == RB_SETUP)
		(void)rb_fail(b, EIO, "no session of lcore %u.%u with %u.%u: %s", b->world.rank,
			      n->lcore, rank, lcore, p->text);
	else if (++b->nb_ended <= REPORT_MAX)
		rb_msg("lcore %u.%u: the session with %u.%u ended: %s", b->world.rank, n->lcore,
		       rank, lcore, p->text);
}

static void
look_at_node(struct rb_bench *b, struct rb_node *n)
{
	uint32_t i;

	if (rb_node_state(n) == RB_NODE_FAILED)
		(void)rb_fail(b, EIO, "lcore %u: %s", n->lcore, n->why);
	if (rb_node_state(n) < RB_NODE_CONNECTING || b->phase > RB_RUNNING)
		return;
	for (i = 0; i < n->nb_peers; i++) {
		struct rb_peer *p = &n->peers[i];

		if (p->seen != UINT64_MAX && rb_peer_state(p) == RB_PEER_ENDED)
			peer_ended(b, n, p);
	}
}

static void
look(struct rb_bench *b)
{
	uint16_t i;

	look_at_links(b);
	for (i = 0; i < b->nb_nodes; i++)
		look_at_node(b, b->nodes[i]);
}

/* ---- wait ---- */

int
rb_wait(struct rb_bench *b, rb_cond_fn cond, const void *arg, uint64_t until)
{
	uint64_t next;

	for (;;) {
		look(b);
		if (b->why[0] != '\0')
			return -EIO;
		if (cond(b, arg))
			return 0;
		if (leat_now() >= until)
			return -ETIMEDOUT;
		next = rb_progress(b);
		if (news_wait(b, RTE_MIN(until, next)) == -ECANCELED)
			return -ECANCELED;
	}
}
