/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Notices: how a WRITE_IMM consumes a RECV of its target, as in verbs and in all devices of leat.
 *
 * Most libfabric providers report a WRITE_IMM without consuming a receive, so the driver consumes
 * one itself. The report is kept as a notice. The driver cancels the oldest posted RECV that fits;
 * when the cancel completes, that RECV carries the notice to the caller.
 *
 *     provider:  notice N                       posted RECVs:  A  B  C
 *     driver:    cancel A ("carrier")
 *     provider:  A cancelled                    A returns with N, its buffer untouched
 *        or:     a message arrived in A         A returns with the message, B is the new carrier
 *
 * There is one carrier at a time, so notices arrive in order. While notices wait and no RECV is
 * posted, a RECV that fits one completes as soon as it is posted, and never goes to the provider.
 *
 * Posted RECVs are linked in the order of posting only from the first notice on, and cost nothing
 * before.
 *
 * Bounded: while NOTICES_STOP or more notices wait, no completion is read until a RECV is posted,
 * and providers hold back the senders. While a carrier's cancel is under way, the driver continues
 * to read, because other completions may be in the CQ before the cancel's.
 */

#include <stdlib.h>

#include "ofi_pvt.h"

#define NOTICES_FIRST 256
#define NOTICES_STOP (64 * 1024 - OFI_CQ_BURST)
#define NOTICES_MAX (256 * 1024)

void
ofi_recv_list_add(struct ofi_ep *e, struct ofi_slot *s)
{
	s->next = NULL;
	s->prev = e->recv_tail;
	if (e->recv_tail != NULL)
		e->recv_tail->next = s;
	else
		e->recv_head = s;
	e->recv_tail = s;
}

void
ofi_recv_list_del(struct ofi_ep *e, struct ofi_slot *s)
{
	if (s->prev != NULL)
		s->prev->next = s->next;
	else
		e->recv_head = s->next;
	if (s->next != NULL)
		s->next->prev = s->prev;
	else
		e->recv_tail = s->prev;
}

static int
by_seq(const void *a, const void *b)
{
	const struct ofi_slot *const *x = a, *const *y = b;

	return (*x)->seq < (*y)->seq ? -1 : (*x)->seq > (*y)->seq;
}

/* Link the RECVs that are posted already, in the order of posting. */
static bool
track(struct ofi_ep *e)
{
	struct ofi_slot **v = malloc(e->nb_slots * sizeof(*v));
	uint32_t i, n = 0;

	if (v == NULL)
		return false;
	for (i = 0; i < e->nb_slots; i++) {
		struct ofi_slot *s = &e->slots[i];

		if (s->op != NULL && s->op->type == LEAT_OP_RECV)
			v[n++] = s;
	}
	qsort(v, n, sizeof(*v), by_seq);
	e->recv_head = NULL;
	e->recv_tail = NULL;
	for (i = 0; i < n; i++)
		ofi_recv_list_add(e, v[i]);
	free(v);
	e->track = true;
	return true;
}

static struct ofi_notice *
at(const struct ofi_ep *e, uint32_t i)
{
	return &e->notices[(e->notice_head + i) & (e->notice_size - 1)];
}

static bool
grow(struct ofi_ep *e)
{
	uint32_t i, size = e->notice_size == 0 ? NOTICES_FIRST : 2 * e->notice_size;
	struct ofi_notice *v;

	if (size > NOTICES_MAX)
		return false;
	v = malloc(size * sizeof(*v));
	if (v == NULL)
		return false;
	for (i = 0; i < e->notice_count; i++)
		v[i] = *at(e, i);
	free(e->notices);
	e->notices = v;
	e->notice_head = 0;
	e->notice_size = size;
	return true;
}

/* Remove the i-th oldest notice. */
static struct ofi_notice
take(struct ofi_ep *e, uint32_t i)
{
	struct ofi_notice n = *at(e, i);

	for (; i > 0; i--)
		*at(e, i) = *at(e, i - 1);
	e->notice_head = (e->notice_head + 1) & (e->notice_size - 1);
	e->notice_count--;
	return n;
}

void
ofi_notice_add(struct ofi_ep *e, uint64_t imm, uint64_t len, uint16_t src)
{
	struct ofi_notice n = { .imm = imm, .len = len, .src = src };

	if ((e->notice_count == e->notice_size && !grow(e)) || (!e->track && !track(e))) {
		LEAT_LOG(ERR, driver, "%s: endpoint %s: no memory for the notice of a write: lost",
			 e->dev->name, leat_ep_name(e->ep));
		return;
	}
	e->notice_count++;
	*at(e, e->notice_count - 1) = n;
}

bool
ofi_notice_room(const struct ofi_ep *e)
{
	return e->notice_count < NOTICES_STOP || e->nb_carriers > 0;
}

/*
 * Does a notice fit a RECV? A RECV that names a peer fits only that peer's notices. A notice of
 * unknown origin fits only RECVs from any peer.
 */
static bool
fits(const struct leat_op *op, const struct ofi_notice *n)
{
	return op->peer == LEAT_PEER_ANY || op->peer == n->src;
}

static void
fill(struct leat_op *op, const struct ofi_notice *n)
{
	op->oflags |= LEAT_OP_F_IMM | LEAT_OP_F_WRITTEN;
	op->imm = n->imm;
	op->src = n->src;
}

bool
ofi_notice_take(struct ofi_ep *e, struct leat_op *op)
{
	struct ofi_notice n;
	uint32_t i;

	/*
	 * While older RECVs are posted, the oldest that fits carries the notice: see
	 * ofi_notice_run().
	 */
	if (e->recv_head != NULL)
		return false;
	for (i = 0; i < e->notice_count; i++) {
		if (!fits(op, at(e, i)))
			continue;
		n = take(e, i);
		leat_op_start(e->ep, op);
		fill(op, &n);
		leat_op_finish(e->ep, op, 0, n.len);
		return true;
	}
	return false;
}

void
ofi_notice_carrier_done(struct ofi_ep *e, struct ofi_slot *s)
{
	struct ofi_notice n;
	uint32_t i;

	for (i = 0; i < e->notice_count; i++) {
		if (!fits(s->op, at(e, i)))
			continue;
		n = take(e, i);
		fill(s->op, &n);
		ofi_slot_finish(e, s, 0, n.len);
		return;
	}
	/* Not reached: the notice for which this carrier was chosen still waits. */
	ofi_slot_finish(e, s, -ECANCELED, 0);
}

bool
ofi_notice_run(struct ofi_ep *e)
{
	struct ofi_slot *s;
	uint32_t i;

	if (e->nb_carriers > 0 || e->recv_head == NULL)
		return false;
	/*
	 * If no RECV fits the oldest notice, try the other notices: RECVs may name different peers.
	 */
	for (i = 0; i < e->notice_count; i++) {
		for (s = e->recv_head; s != NULL; s = s->next) {
			if ((s->flags & OFI_SLOT_CANCEL) != 0 || !fits(s->op, at(e, i)))
				continue;
			s->flags |= OFI_SLOT_CARRIER;
			e->nb_carriers++;
			ofi_slot_cancel(e, s);
			return true;
		}
	}
	return false;
}

void
ofi_notice_fini(struct ofi_ep *e)
{
	free(e->notices);
	e->notices = NULL;
}
