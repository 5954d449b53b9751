/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * --listen: serve clients, one after another. Each client gets new endpoints and contexts, so that
 * nothing of an earlier client is left. The endpoint for links stays; it refuses further clients
 * while one is served.
 */

#include <stdarg.h>
#include <string.h>

#include <leat_error.h>

#include "lead.h"

static void __attribute__((format(printf, 1, 2))) say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vprintf(fmt, ap);
	va_end(ap);
	(void)fflush(stdout);
}

/* Find the link to the client. @return NULL: no client has connected */
static struct rb_link_peer *
client(struct rb_bench *b)
{
	uint32_t i;

	for (i = 0; i < b->link.nb_peers; i++) {
		if (b->link.peers[i].link != NULL)
			return &b->link.peers[i];
	}
	return NULL;
}

static bool
has_greeted(struct rb_bench *b, const void *arg)
{
	const struct rb_link_peer *p = client(b);

	(void)arg;
	return p != NULL && (p->greeted || p->ended);
}

static bool
has_come(struct rb_bench *b, const void *arg)
{
	(void)arg;
	return client(b) != NULL;
}

static bool
has_left(struct rb_bench *b, const void *arg)
{
	(void)arg;
	return client(b)->ended;
}

/* Wait for a client that sends HELLO. @return 0; -EPROTO: a client sent none; -ECANCELED */
static int
await(struct rb_bench *b)
{
	struct rb_link_peer *p;
	int ret;

	b->link.taking = 1;
	ret = rb_wait(b, has_come, NULL, UINT64_MAX);
	if (ret == 0)
		ret = rb_wait(b, has_greeted, NULL, rb_in(b->o.timeout_us));
	if (ret == -ECANCELED)
		return ret;
	p = client(b);
	if (ret == 0 && p->greeted && !p->ended)
		return 0;
	rb_msg("a process connected, and sent no greeting%s%s", p->ended ? ": " : "",
	       p->ended ? p->why : "");
	rb_link_drop(p, -EPROTO, "it sent no greeting");
	return -EPROTO;
}

/* Take over the client's plan, and open the nodes. @return 0, or negative with b->why */
static int
prepare(struct rb_bench *b, struct rb_link_peer *p)
{
	struct rb_rank *ranks;
	int ret;

	if (p->hello.nb_ranks != 2 || p->hello.rank != 1)
		return rb_fail(b, EPROTO, "it is rank %u of %u, and this one listens for a client",
			       p->hello.rank, p->hello.nb_ranks);
	b->plan = p->hello.plan;
	if (rb_world_init(&b->world, 0, 2, true) < 0)
		return rb_fail(b, ENOMEM, "out of memory");
	ranks = b->world.ranks;
	ranks[0].calls = b->plan.both;
	ranks[1].card = p->hello.card;
	if (b->plan.both && rb_work_memory(&b->plan) > RB_MEMORY_MAX)
		return rb_fail(b, EINVAL, "its tasks and batches take too much memory");
	ret = rb_card_fill(b, &ranks[0].card);
	if (ret == 0)
		rb_link_welcome(p);
	return ret < 0 ? ret : rb_lead_open(b);
}

static void
report_end(const struct rb_bench *b, const struct rb_link_peer *p, int ret)
{
	const char *how = ret == 0 ? "done" : "ended early";
	const struct rb_card *c = &p->hello.card;
	struct rb_tally sum;

	if (rb_world_self(&b->world)->result == NULL) {
		say("client %s (pid %u): %s\n", c->name, c->pid, how);
		return;
	}
	rb_world_sum(&b->world, &sum);
	say("client %s (pid %u): %s, %" PRIu64 " requests, %" PRIu64 " wrong\n", c->name, c->pid,
	    how, sum.served, sum.wrong);
}

/*
 * Serve a client. @return 0: it was served to its end; -EBADMSG: a call failed, or a message was
 * lost or wrong; -ECANCELED; other negative: its run ended early
 */
static int
serve(struct rb_bench *b, struct rb_link_peer *p)
{
	struct rb_tally sum;
	int ret;

	p->rank = 1;
	ret = prepare(b, p);
	if (ret < 0) {
		rb_msg("client %s: refused: %s", p->hello.card.name, b->why);
		rb_link_refuse(p, ret, b->why);
		return ret;
	}
	rb_link_nodes_answer(&b->link);
	say("client %s (pid %u): %u lcores, %s on %s\n", p->hello.card.name, p->hello.card.pid,
	    p->hello.card.nb_lcores, p->hello.card.driver, p->hello.card.dev);
	ret = rb_lead_run(b);
	if (ret < 0 && ret != -ECANCELED)
		rb_msg("client %s: %s", p->hello.card.name, b->why);
	if (ret < 0 && rb_world_self(&b->world)->result == NULL && b->ran)
		(void)rb_lead_gather(b);
	report_end(b, p, ret);
	rb_world_sum(&b->world, &sum);
	return ret == 0 && !rb_tally_good(&sum) ? -EBADMSG : ret;
}

/*
 * Free everything of this client; ret: what serve() has returned. @return 0; negative: the nodes
 * have not closed in time
 */
static int
clear(struct rb_bench *b, int ret)
{
	struct rb_link_peer *p = client(b);

	if (ret < 0 && b->why[0] != '\0' && p->up && !b->interrupted)
		rb_link_bye(&b->link, b->why);
	b->why[0] = '\0';
	if (rb_lead_close(b) < 0)
		return -EBUSY;
	/* Let the client close its link first, so that no call of the client is cut off. */
	if (ret == 0)
		(void)rb_wait(b, has_left, NULL, rb_in(RB_LEAVE_US));
	b->why[0] = '\0';
	rb_link_clear(p);
	rb_world_free(&b->world);
	b->link.passed = 0;
	b->link.nodes_there = false;
	b->ran = false;
	return 0;
}

int
rb_listen(struct rb_bench *b)
{
	bool greeted;
	int ret;

	ret = rb_link_open(&b->link, b, b->o.addr, 2);
	if (ret == 0)
		ret = rb_link_start(&b->link);
	if (ret < 0)
		return ret;
	rb_host_of(b->o.addr, b->host, sizeof(b->host));
	b->bind = b->host;
	do {
		say("listening on %s\n", b->link.addr);
		ret = await(b);
		greeted = ret == 0;
		if (ret == 0)
			ret = serve(b, client(b));
		if (ret == -ECANCELED || b->interrupted)
			return -ECANCELED;
		if (clear(b, ret) < 0)
			return rb_fail(b, EBUSY, "lcores did not come to rest in time");
	} while (!b->o.once || !greeted);
	return ret;
}
