/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Meetings: points of a run that all processes must reach before any of them goes on. One process
 * leads. The others call the leader, which answers when all ranks that are not lost have called.
 * When the leader is lost, the next rank leads, and all processes call the new leader.
 */

#include <stdlib.h>
#include <string.h>

#include <leat_error.h>
#include <leat_scope.h>

#include "lead.h"

/* Longest time from a failed call until this process knows whether the called one has ended. */
#define LOSS_US (3 * RB_US)

struct coming {
	struct rb_bench *bench;
	struct rb_link_peer *leader;
	enum rb_meet meet;
	const struct rb_result *result;
	bool done;
	int ret;
	uint8_t lost[RB_LOST_LEN];
};

static int
meeting_attend(void *arg)
{
	struct coming *c = arg;

	c->ret = rb_link_meet(c->leader, c->meet, c->result, c->lost);
	c->done = true;
	rb_news(c->bench);
	return 0;
}

static bool
has_come(struct rb_bench *b, const void *arg)
{
	const struct coming *c = arg;

	(void)b;
	return c->done;
}

static bool
is_lost(struct rb_bench *b, const void *rank)
{
	return b->world.ranks[*(const uint16_t *)rank].lost;
}

static bool
all_have_come(struct rb_bench *b, const void *meet)
{
	const enum rb_meet m = *(const enum rb_meet *)meet;
	const struct rb_link_peer *p;
	uint16_t r;

	for (r = 0; r < b->world.nb_ranks; r++) {
		p = r == b->world.rank || b->world.ranks[r].lost ? NULL : rb_link_find(&b->link, r);
		if (p != NULL && !p->met[m])
			return false;
	}
	return true;
}

static const char *
meet_name(enum rb_meet m)
{
	static const char *const names[RB_MEETS] = { "start", "end of the calls", "end" };

	return names[m];
}

/* Name the rank that did not reach the meeting in time. @return -ETIMEDOUT, with b->why */
static int
late(struct rb_bench *b, enum rb_meet m)
{
	const struct rb_link_peer *p;
	uint16_t r;

	for (r = 0; r < b->world.nb_ranks; r++) {
		p = r == b->world.rank ? NULL : rb_link_find(&b->link, r);
		if (p != NULL && !p->met[m] && !b->world.ranks[r].lost)
			return rb_fail(b, ETIMEDOUT,
				       "rank %u did not come to the %s within %.0f s "
				       "(--timeout)",
				       r, meet_name(m), (double)b->o.timeout_us / (double)RB_US);
	}
	return rb_fail(b, ETIMEDOUT, "not all ranks came to the %s in time", meet_name(m));
}

static int
meet_lead(struct rb_bench *b, enum rb_meet m, uint64_t until)
{
	int ret = rb_wait(b, all_have_come, &m, until);

	if (ret == -ETIMEDOUT)
		return late(b, m);
	if (ret == 0)
		rb_link_meet_end(&b->link, m);
	return ret;
}

/*
 * Mark the ranks that the leader has lost as lost here, too. Otherwise this process would count its
 * calls to them as failed, while the leader counts its own calls to them as cut.
 */
static void
lose_too(struct rb_bench *b, const struct coming *c)
{
	char why[RB_TEXT];
	uint16_t r;

	snprintf(why, sizeof(why), "rank %u has lost it", c->leader->rank);
	for (r = 0; r < b->world.nb_ranks; r++) {
		if ((c->lost[r / 8] >> r % 8 & 1) != 0 && r != b->world.rank)
			rb_rank_lost(b, r, why);
	}
}

/* Meet with another process as leader. @return as rb_meet(); 1: the leader is lost, ask the next */
static int
meet_follow(struct rb_bench *b, struct rb_link_peer *leader, enum rb_meet m,
	    const struct rb_result *result, uint64_t until)
{
	struct coming *c;
	const uint16_t rank = leader->rank;
	struct leat_task *task;
	int ret;

	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return rb_fail(b, ENOMEM, "out of memory");
	*c = (struct coming){ .bench = b, .leader = leader, .meet = m, .result = result };
	task = leat_task_spawn(leat_tasks_self(), "meet", meeting_attend, c);
	if (task == NULL) {
		free(c);
		return rb_fail(b, rte_errno, "%s", leat_err_msg());
	}
	ret = rb_wait(b, has_come, c, until);
	if (ret < 0)
		(void)leat_task_cancel(task);
	(void)leat_task_masked(leat_task_join(task, NULL));
	if (ret == -ETIMEDOUT)
		ret = rb_fail(b, ETIMEDOUT,
			      "rank %u did not answer at the %s within %.0f s "
			      "(--timeout)",
			      rank, meet_name(m), (double)b->o.timeout_us / (double)RB_US);
	if (ret == 0 && c->ret < 0) {
		/* If the leader has ended, that becomes known within LOSS_US. */
		ret = c->ret;
		if (rb_wait(b, is_lost, &rank, rb_in(LOSS_US)) == 0)
			ret = 1;
		else
			(void)rb_fail(b, -ret, "rank %u did not answer at the %s: %s", rank,
				      meet_name(m), strerror(-ret));
	}
	if (ret == 0)
		lose_too(b, c);
	free(c);
	return ret;
}

int
rb_meet(struct rb_bench *b, enum rb_meet m, const struct rb_result *result, uint64_t until)
{
	struct rb_link_peer *p;
	uint16_t leader;
	int ret = 1;

	while (ret == 1) {
		leader = rb_world_leader(&b->world);
		if (b->world.nb_ranks == 1 || leader == b->world.rank) {
			ret = meet_lead(b, m, until);
			continue;
		}
		p = rb_link_find(&b->link, leader);
		if (p == NULL || !p->up) {
			/* The leader has just ended: wait until it is marked as lost. */
			ret = rb_wait(b, is_lost, &leader, rb_in(LOSS_US));
			ret = ret == 0 ? 1 : ret;
		} else {
			ret = meet_follow(b, p, m, result, until);
		}
	}
	return ret;
}
