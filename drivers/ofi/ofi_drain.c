/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Draining: receive and discard the messages that a peer left unreceived at its end. Otherwise they
 * would be taken for messages of the next connection.
 *
 * A peer that disconnects has sent all its messages before it reports the disconnect: one pass
 * discards them. Messages of a dead process may still be under way in the kernel, for some
 * milliseconds. The driver does not block to wait for them. (begin, step and last are
 * ofi_drain_begin(), ofi_drain_step() and ofi_drain_last().)
 *
 *     begin     make one pass; then keep a receive posted for that sender only (a standing
 *               receive), one for plain and one for tagged messages
 *       |
 *     hit       a message of the dead peer met a standing receive: make another pass at the end
 *       |       of the same poll, before the caller can post a receive that would meet the next
 *       |       message; post the standing receive again, and restart the quiet time
 *       v
 *     step      called by leat_ep_events(): done when no message came for QUIET_US, or after
 *       |       LIMIT_US
 *       v
 *     last      where the provider can close the connection below (OFI_Q_AV_CUTS): make passes
 *               until one finds no message, then close the connection, see close_dead(). Silence
 *               alone proves little, with a busy processor or TCP's timeouts
 *
 * If the caller posted a receive before the standing one, the caller's receive gets the message. If
 * earlier messages of the same sender were discarded, this message comes after a gap, so the
 * receive fails with -ECONNRESET.
 */

#include "ofi_read.h"

#define QUIET_US 2000
#define LIMIT_US 500000
/* Maximum number of calls of ofi_cq_drive() that wait for a cancelled receive to complete. */
#define CANCEL_DRIVES 64

/* Post a receive for messages of this address only. @return NULL: it could not be posted */
static struct ofi_slot *
post_directed(struct ofi_ep *e, struct ofi_addr *a, bool tagged)
{
	struct iovec iov[2] = { { NULL, 0 }, { e->sink, e->sink_len } };
	bool empty = (e->quirks & OFI_Q_DRAIN_EMPTY) != 0;
	size_t nb = e->sink_len != 0 && !empty ? 2 : 1;
	void *desc[2] = { NULL, NULL };
	struct ofi_slot *s = e->free;
	ssize_t ret;

	if (s == NULL)
		return NULL;
	ret = tagged ? fi_trecvv(e->fid, iov, desc, nb, a->fi, 0, UINT64_MAX, &s->ctx)
		     : fi_recvv(e->fid, iov, desc, nb, a->fi, &s->ctx);
	if (ret != 0)
		return NULL;
	e->free = s->next;
	s->op = NULL;
	s->state = OFI_SLOT_ORPHAN;
	s->flags = 0;
	s->addr = a;
	a->orphans++;
	e->nb_orphans++;
	return s;
}

/*
 * Receive and discard one message. @return true: end the pass, because there was no message, or
 * because the receive was not posted or has not completed
 */
static bool
drain_one(struct ofi_ep *e, struct ofi_addr *a, bool tagged)
{
	bool empty = (e->quirks & OFI_Q_DRAIN_EMPTY) != 0;
	struct ofi_slot *s = post_directed(e, a, tagged);
	unsigned int i;

	if (s == NULL)
		return true;
	/* Receives of ended connections are orphans, too, and their cancels may complete now. */
	e->drain_recv = s;
	e->drained = false;
	(void)fi_cancel(&e->fid->fid, &s->ctx);
	for (i = 0; i < CANCEL_DRIVES && s->state == OFI_SLOT_ORPHAN; i++)
		ofi_cq_drive(e, OFI_CQ_BURST);
	e->drain_recv = NULL;
	/*
	 * A receive that is neither cancelled nor complete is usually fetching a message, and
	 * completes later: end the pass. With OFI_Q_DRAIN_EMPTY it fetches nothing and never
	 * completes: count it as a message.
	 */
	return e->drained || (s->state == OFI_SLOT_ORPHAN && !empty);
}

static bool
drainable(const struct ofi_ep *e, const struct ofi_addr *a)
{
	return a != NULL && !a->cut && !e->closing && (e->dev->caps & FI_DIRECTED_RECV) != 0;
}

/* Can tagged messages be drained? That needs receives whose tag mask ignores all bits. */
static bool
masks_tags(const struct ofi_ep *e)
{
	return (e->info->caps & FI_TAGGED) != 0 && (e->quirks & OFI_Q_MASKS_STAY) == 0;
}

unsigned int
ofi_drain(struct ofi_ep *e, struct ofi_addr *a)
{
	unsigned int i, n = 0;
	int tagged;

	if (!drainable(e, a))
		return 0;
	/* First let the provider handle what is in its queues. */
	ofi_cq_drive(e, OFI_CQ_BURST);
	for (tagged = 0; tagged < 1 + masks_tags(e); tagged++) {
		for (i = 0; i < OFI_DRAIN_MAX && !drain_one(e, a, tagged != 0); i++)
			n++;
	}
	return n;
}

/* ---- dead peers: standing receives, and passes until no message comes ---- */

/* Post the standing receives that are missing. */
static void
post_standing(struct ofi_ep *e, struct ofi_addr *a)
{
	int tagged;

	for (tagged = 0; tagged < 1 + masks_tags(e); tagged++) {
		if (a->standing[tagged] != NULL)
			continue;
		a->standing[tagged] = post_directed(e, a, tagged != 0);
		if (a->standing[tagged] != NULL)
			a->standing[tagged]->flags = OFI_SLOT_STANDING;
	}
}

/* Cancel the standing receives, so that a pass also meets the messages that came before them. */
static void
cancel_standing(struct ofi_ep *e, struct ofi_addr *a)
{
	unsigned int i, tries;

	for (i = 0; i < RTE_DIM(a->standing); i++) {
		struct ofi_slot *s = a->standing[i];

		if (s == NULL || e->closing)
			continue;
		(void)fi_cancel(&e->fid->fid, &s->ctx);
		for (tries = 0; tries < CANCEL_DRIVES && a->standing[i] == s; tries++)
			ofi_cq_drive(e, OFI_CQ_BURST);
		a->standing[i] = NULL;
	}
}

/* Record that messages were discarded: the connection's later messages must not be received. */
static void
mark_gap(struct ofi_ep *e, struct ofi_addr *a)
{
	if (!a->gap)
		e->nb_gaps++;
	a->gap = true;
}

static void
pass(struct ofi_ep *e, struct ofi_addr *a)
{
	unsigned int n;

	a->quiet_at = leat_now() + leat_us_to_cycles(QUIET_US);
	cancel_standing(e, a);
	n = ofi_drain(e, a);
	if (n > 0)
		mark_gap(e, a);
	/* If the pass stopped at its limit, the next poll makes another. */
	a->drain_hit = n >= OFI_DRAIN_MAX;
	e->drain_hit |= a->drain_hit;
	post_standing(e, a);
}

static void
start_draining(struct ofi_ep *e, struct ofi_addr *a)
{
	uint64_t now = leat_now();

	a->draining = true;
	a->drain_end = now + leat_us_to_cycles(LIMIT_US);
	a->quiet_at = now + leat_us_to_cycles(QUIET_US);
	a->next_draining = e->draining;
	e->draining = a;
	if (e->ep->drv_poll == ofi_poll)
		leat_ep_poll_set(e->ep, ofi_poll_draining);
}

void
ofi_drain_begin(struct ofi_ep *e, struct ofi_addr *a)
{
	if (!drainable(e, a) || a->draining)
		return;
	start_draining(e, a);
	pass(e, a);
}

void
ofi_drain_soon(struct ofi_ep *e, struct ofi_addr *a)
{
	if (!drainable(e, a) || a->draining)
		return;
	start_draining(e, a);
	a->drain_hit = true;
	e->drain_hit = true;
}

bool
ofi_drain_all(struct ofi_ep *e, struct ofi_addr *a)
{
	if (ofi_drain(e, a) < OFI_DRAIN_MAX)
		return true;
	/* More may be left: drain as for a dead peer, one pass in each poll. */
	ofi_drain_soon(e, a);
	if (a->draining)
		mark_gap(e, a);
	return !a->draining;
}

bool
ofi_drain_step(struct ofi_ep *e, const struct ofi_addr *a, uint64_t now)
{
	if (!a->draining || a->cut || e->closing)
		return true;
	ofi_cq_drive(e, OFI_CQ_BURST);
	if (e->drain_hit)
		ofi_drain_run(e);
	return now >= a->quiet_at || now >= a->drain_end;
}

bool
ofi_drain_last(struct ofi_ep *e, struct ofi_addr *a)
{
	if (!a->draining || !drainable(e, a))
		return true;
	pass(e, a);
	return !a->drain_hit;
}

void
ofi_drain_end(struct ofi_ep *e, struct ofi_addr *a)
{
	struct ofi_addr **pp = &e->draining;

	if (!a->draining)
		return;
	cancel_standing(e, a);
	while (*pp != a)
		pp = &(*pp)->next_draining;
	*pp = a->next_draining;
	a->draining = false;
	a->drain_hit = false;
	e->nb_gaps -= a->gap;
	a->gap = false;
	if (e->draining == NULL && e->ep->drv_poll == ofi_poll_draining)
		leat_ep_poll_set(e->ep, ofi_poll);
}

void
ofi_drain_run(struct ofi_ep *e)
{
	struct ofi_addr *a;

	e->drain_hit = false;
	for (a = e->draining; a != NULL; a = a->next_draining) {
		if (a->drain_hit && drainable(e, a))
			pass(e, a);
	}
}

void
ofi_drain_recv_done(struct ofi_ep *e, const struct ofi_slot *s, bool hit)
{
	struct ofi_addr *a = s->addr;
	unsigned int i;

	for (i = 0; i < RTE_DIM(a->standing); i++) {
		if (a->standing[i] != s)
			continue;
		a->standing[i] = NULL;
		if (hit && a->draining) {
			a->drain_hit = true;
			e->drain_hit = true;
			mark_gap(e, a);
		}
	}
}

bool
ofi_drain_gap(const struct ofi_ep *e, fi_addr_t fi)
{
	const struct ofi_addr *a;

	for (a = e->draining; a != NULL; a = a->next_draining) {
		if (a->gap && !a->cut && a->fi == fi)
			return true;
	}
	return false;
}
