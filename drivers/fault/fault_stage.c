/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The stages of a completion: delay, then reorder, then release.
 *
 *     done below    #1   #2   #3   #4        completions get numbers
 *     delay         each is due at now + a time drawn from the distribution
 *     reorder       a completion's key is its number plus a random 0..N (argument reorder=N). The
 *                   completion with the lowest key is released as soon as the completion whose
 *                   number is that key has come: so no completion is passed by more than N others
 *     release       leat_op_finish()
 *
 * A completion must not wait for others that do not come. So after a random number of idle polls, 0
 * to FAULT_PATIENCE, all completions are released, the lowest key first. The order depends only on
 * the seed and on the calls that were made; the clock has no part in it.
 */

#include "fault_pvt.h"

void
fault_release(struct fault_ep *fe, struct fault_op *f)
{
	struct leat_op *op = f->op, *low = &f->low;
	struct leat_ep *ep = fe->ep;

	if (f->nr > fe->nr_out)
		fe->nr_out = f->nr;
	else if (f->nr != 0)
		LEAT_STAT_ADD(fe->stats.reordered, 1);
	op->oflags = low->oflags;
	if (leat_op_is_recv(op)) {
		op->src = f->src;
		op->imm = low->imm;
		if (op->type == LEAT_OP_TRECV)
			op->tag_in = low->tag_in;
	}
	f->where = FAULT_FREE;
	f->op = NULL;
	f->peer = NULL;
	TAILQ_INSERT_HEAD(&fe->free, f, link);
	leat_op_finish(ep, op, f->status, f->len);
}

static void
reorder_push(struct fault_ep *fe, struct fault_op *f)
{
	f->where = FAULT_MIXED;
	f->key = f->nr;
	if (fe->conf.reorder != 0)
		f->key += fault_rand_below(&fe->rand[FAULT_K_REORDER], fe->conf.reorder + 1);
	fault_heap_push(&fe->mixed, f);
}

void
fault_done(struct fault_ep *fe, struct fault_op *f, int status, uint64_t len)
{
	uint64_t delay;

	f->status = status;
	f->len = len;
	f->nr = ++fe->nr;
	if (unlikely(fe->aborting)) {
		fault_release(fe, f);
		return;
	}
	if (fe->conf.delay.shape == FAULT_NEVER) {
		reorder_push(fe, f);
		return;
	}
	delay = fault_dist_draw(&fe->conf.delay, &fe->rand[FAULT_K_DELAY]);
	LEAT_STAT_ADD(fe->stats.delayed, 1);
	f->where = FAULT_DELAYED;
	f->key = leat_time_add(leat_ep_now(fe->ep), delay);
	fault_heap_push(&fe->delayed, f);
}

/* Move the completions whose delay is over to the heap mixed. @return whether there were any */
static bool
delay_run(struct fault_ep *fe)
{
	bool any = false;

	while (fe->delayed.nb > 0 && fe->delayed.op[0]->key <= leat_ep_now(fe->ep)) {
		struct fault_op *f = fe->delayed.op[0];

		fault_heap_remove(&fe->delayed, f);
		reorder_push(fe, f);
		any = true;
	}
	return any;
}

static int
status_of(const struct fault_ep *fe, const struct fault_op *f)
{
	int status = f->low.status;

	if (status == 0)
		return 0;
	if (fe->aborting)
		return -ESHUTDOWN;
	/* The lower endpoint disconnected the peer, but the upper one reports its death. */
	if (status == -ECONNABORTED && f->peer != NULL && f->peer->died)
		return -ECONNRESET;
	return status;
}

/* Handle a proxy that the lower endpoint's poll returned. */
static void
proxy_done(struct fault_ep *fe, struct fault_op *f)
{
	struct leat_op *low = &f->low;

	if (leat_op_is_recv(low) && low->src < fe->low->nb_peers && fe->by_low[low->src] != NULL) {
		f->src = fe->by_low[low->src]->peer->id;
		/*
		 * A receive that names a peer belongs to that peer, whichever id the device reports
		 * as the source.
		 */
		if (f->peer == NULL)
			f->peer = fe->by_low[low->src];
		fault_stall_draw(fe, f->peer);
		fault_peer_count(fe, f->peer);
	}
	f->status = status_of(fe, f);
	f->len = low->len;
	if (fault_datagram_again(fe, f))
		return;
	if (f->peer != NULL && f->peer->stalled)
		fault_keep(fe, f);
	else
		fault_done(fe, f, f->status, f->len);
}

/* Poll the lower endpoint once. @return number of proxies that it returned */
static uint16_t
poll_lower(struct fault_ep *fe)
{
	struct leat_op *low[FAULT_BURST];
	uint16_t i, n = leat_ep_poll(fe->low, low, FAULT_BURST);

	for (i = 0; i < n; i++)
		proxy_done(fe, container_of(low[i], struct fault_op, low));
	return n;
}

void
fault_drain(struct fault_ep *fe)
{
	while (poll_lower(fe) == FAULT_BURST)
		;
}

/* May the completion with the lowest key be released now? If not, others may still pass it. */
static bool
passed_enough(struct fault_ep *fe, bool idle)
{
	if (fe->conf.reorder == 0 || fe->mixed.op[0]->key <= fe->nr)
		return true;
	if (!idle || fe->patience == 0)
		return idle;
	fe->patience--;
	return false;
}

static void
reorder_run(struct fault_ep *fe, bool idle)
{
	uint32_t max = RTE_MAX((uint32_t)leat_ep_room(fe->ep), (uint32_t)FAULT_BURST);

	if (!idle && fe->conf.reorder != 0)
		fe->patience =
			(uint32_t)fault_rand_below(&fe->rand[FAULT_K_PATIENCE], FAULT_PATIENCE + 1);
	for (; max > 0 && fe->mixed.nb > 0 && passed_enough(fe, idle); max--) {
		struct fault_op *f = fe->mixed.op[0];

		fault_heap_remove(&fe->mixed, f);
		fault_release(fe, f);
	}
}

void
fault_poll(struct leat_ep *ep)
{
	struct fault_ep *fe = fault_of(ep);
	bool any = poll_lower(fe) > 0;

	if (unlikely(!TAILQ_EMPTY(&fe->stalled)))
		fault_stalls_run(fe);
	if (fe->shuffled.nb > 0)
		fault_datagrams_run(fe);
	if (fe->delayed.nb > 0 && delay_run(fe))
		any = true;
	if (fe->mixed.nb > 0)
		reorder_run(fe, !any);
}

/* Release p's completions, or all if p is NULL, from a heap. Slow: it searches all of the heap. */
static void
flush(struct fault_ep *fe, struct fault_heap *h, const struct fault_peer *p)
{
	uint32_t i = 0;

	while (i < h->nb) {
		struct fault_op *f = h->op[i];

		if (p != NULL && f->peer != p) {
			i++;
			continue;
		}
		fault_heap_remove(h, f);
		fault_release(fe, f);
		i = 0; /* the heap's order has changed */
	}
}

void
fault_flush(struct fault_ep *fe, const struct fault_peer *p)
{
	flush(fe, &fe->mixed, p);
	flush(fe, &fe->delayed, p);
}
