/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Stalls: peers that stand still for a while.
 *
 *     ops to the peer      wait, in their order, and are posted below when the stall has ended
 *     ops done meanwhile   are kept: sends posted below before the stall, messages from the peer
 *
 * The peer itself does not notice. Ops that wait count towards the send depth, so that a long stall
 * makes post refuse, as a peer that really stands still does.
 */

#include "fault_pvt.h"

void
fault_stall_draw(struct fault_ep *fe, struct fault_peer *p)
{
	if (p->stalled || p->state != FAULT_PEER_OPEN || fe->aborting ||
	    !fault_hit(fe, FAULT_K_STALL, fe->conf.stall))
		return;
	p->stalled = true;
	p->until = leat_time_add(leat_ep_now(fe->ep),
				 fault_dist_draw(&fe->conf.stall_time, &fe->rand[FAULT_K_STALL]));
	TAILQ_INSERT_TAIL(&fe->stalled, p, link);
	LEAT_STAT_ADD(fe->stats.stalls, 1);
}

void
fault_wait(struct fault_ep *fe, struct fault_op *f)
{
	f->where = FAULT_WAITING;
	TAILQ_INSERT_TAIL(&f->peer->waiting, f, link);
	LEAT_STAT_ADD(fe->stats.stalled_ops, 1);
}

void
fault_keep(struct fault_ep *fe, struct fault_op *f)
{
	f->where = FAULT_KEPT;
	TAILQ_INSERT_TAIL(&f->peer->kept, f, link);
	LEAT_STAT_ADD(fe->stats.stalled_ops, 1);
}

static void
resume_kept(struct fault_ep *fe, struct fault_peer *p)
{
	struct fault_op *f;

	while ((f = TAILQ_FIRST(&p->kept)) != NULL) {
		TAILQ_REMOVE(&p->kept, f, link);
		fault_done(fe, f, f->status, f->len);
	}
}

static void
stall_over(struct fault_ep *fe, struct fault_peer *p)
{
	p->stalled = false;
	TAILQ_REMOVE(&fe->stalled, p, link);
}

void
fault_stalls_run(struct fault_ep *fe)
{
	uint64_t now = leat_ep_now(fe->ep);
	struct fault_peer *p, *next;
	struct fault_op *f;

	for (p = TAILQ_FIRST(&fe->stalled); p != NULL; p = next) {
		next = TAILQ_NEXT(p, link);
		if (now < p->until)
			continue;
		resume_kept(fe, p);
		while ((f = TAILQ_FIRST(&p->waiting)) != NULL) {
			if (!fault_hand_down(fe, f))
				break; /* no room below: the later ops wait as well */
			TAILQ_REMOVE(&p->waiting, f, link);
		}
		if (TAILQ_EMPTY(&p->waiting))
			stall_over(fe, p);
	}
}

void
fault_stall_end(struct fault_ep *fe, struct fault_peer *p, int status)
{
	struct fault_op *f;

	while ((f = TAILQ_FIRST(&p->waiting)) != NULL) {
		TAILQ_REMOVE(&p->waiting, f, link);
		f->status = status;
		f->len = 0;
		fault_release(fe, f);
	}
	resume_kept(fe, p);
	if (p->stalled)
		stall_over(fe, p);
}
