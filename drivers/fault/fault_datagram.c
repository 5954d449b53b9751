/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Faults of datagram endpoints: messages are lost, doubled, overtaken. All of this happens at the
 * sender; receives are passed through.
 *
 *     posted     #1   #2   #3   #4            sends get numbers
 *     lost       the send is reported as done, and never posted below
 *     overtaken  a send's key is its number plus a random 0..N (argument overtake=N). The send
 *                with the lowest key is posted below as soon as a send whose number is that key has
 *                been posted: so no send is overtaken by more than N others
 *     doubled    when the send is done below, it is posted below a second time, and reported when
 *                the second send is done
 *
 * No send waits for younger sends that do not come: after a random number of polls without a new
 * send, 0 to FAULT_PATIENCE, all shuffled sends are posted below.
 */

#include "fault_pvt.h"

static void
overtakable(struct fault_ep *fe, struct fault_op *f)
{
	f->where = FAULT_SHUFFLED;
	f->nr = ++fe->nr_sent;
	f->key = f->nr + fault_rand_below(&fe->rand[FAULT_K_OVERTAKE], fe->conf.overtake + 1);
	fault_heap_push(&fe->shuffled, f);
	fe->send_patience =
		(uint32_t)fault_rand_below(&fe->rand[FAULT_K_OVERTAKE], FAULT_PATIENCE + 1);
}

bool
fault_datagram_send(struct fault_ep *fe, struct fault_op *f)
{
	if (fe->conf.overtake == 0)
		return fault_hand_down(fe, f);
	overtakable(fe, f);
	return true;
}

bool
fault_datagram_lose(struct fault_ep *fe)
{
	if (likely(!fault_hit(fe, FAULT_K_LOSE, fe->conf.loss)))
		return false;
	LEAT_STAT_ADD(fe->stats.lost, 1);
	return true;
}

bool
fault_datagram_again(struct fault_ep *fe, struct fault_op *f)
{
	if (!fe->datagram || f->status != 0 || leat_op_is_recv(f->op) || f->again || fe->aborting ||
	    f->peer->state != FAULT_PEER_OPEN || f->peer->stalled ||
	    !fault_hit(fe, FAULT_K_DOUBLE, fe->conf.dup))
		return false;
	f->again = true;
	if (!fault_hand_down(fe, f))
		return false;
	LEAT_STAT_ADD(fe->stats.doubled, 1);
	return true;
}

void
fault_datagrams_run(struct fault_ep *fe)
{
	bool all = false;

	if (fe->nr_sent != fe->nr_sent_seen)
		fe->nr_sent_seen = fe->nr_sent;
	else if (fe->send_patience > 0)
		fe->send_patience--;
	else
		all = true;
	while (fe->shuffled.nb > 0) {
		struct fault_op *f = fe->shuffled.op[0];
		uint64_t nr = f->nr;

		if ((!all && f->key > fe->nr_sent) || !fault_hand_down(fe, f))
			break;
		fault_heap_remove(&fe->shuffled, f);
		if (nr > fe->nr_down)
			fe->nr_down = nr;
		else
			LEAT_STAT_ADD(fe->stats.overtaken, 1);
		f->nr = 0;
	}
}

void
fault_datagrams_end(struct fault_ep *fe, const struct fault_peer *p, int status)
{
	uint32_t i;

	for (i = 0; fe->shuffled.nb > 0 && i < fe->nb_ops; i++) {
		struct fault_op *f = &fe->ops[i];

		if (f->where != FAULT_SHUFFLED || f->peer != p)
			continue;
		fault_heap_remove(&fe->shuffled, f);
		f->nr = 0;
		f->status = status;
		f->len = 0;
		fault_release(fe, f);
	}
}
