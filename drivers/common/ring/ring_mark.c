/* SPDX-License-Identifier: BSD-3-Clause */

/* Marks: see ring_mark.h. Edges, such as MARKS: see ring_shared.h. */

#include <stdlib.h>

#include "ring_mark.h"

void
ring_marks_put(struct ring_ep *rep)
{
	uint32_t i;

	for (i = 0; i < rep->nb_marks; i++)
		ring_board_mark(rep->marks[i].board, rep->marks[i].word, rep->marks[i].marks);
	rep->nb_marks = 0;
}

/* ---- the queue of links ---- */

int
ring_queue_init(struct ring_queue *q, uint32_t max_peers)
{
	uint32_t nb = rte_align32pow2(max_peers);

	q->nrs = calloc(nb, sizeof(*q->nrs));
	q->queued = calloc(ring_board_words(max_peers), sizeof(*q->queued));
	q->nb = max_peers;
	q->mask = nb - 1;
	q->head = q->tail = LEAT_CURSOR_START;
	return q->nrs == NULL || q->queued == NULL ? -ENOMEM : 0;
}

void
ring_queue_free(struct ring_queue *q)
{
	free(q->nrs);
	free(q->queued);
}

/* ---- rep->links: the watched links come first ---- */

static void
swap(struct ring_ep *rep, uint32_t i, uint32_t j)
{
	struct ring_link *a = rep->links[i], *b = rep->links[j];

	rep->links[i] = b;
	b->idx = i;
	rep->links[j] = a;
	a->idx = j;
}

static void
watch(struct ring_ep *rep, struct ring_link *link)
{
	swap(rep, link->idx, rep->nb_watched++);
}

/*
 * Stop watching a link. Its earlier messages and acks may lack marks, so queue the link for one
 * more look.
 */
static void
unwatch(struct ring_ep *rep, struct ring_link *link)
{
	swap(rep, link->idx, --rep->nb_watched);
	ring_queue_put(&rep->queue, link->id);
}

void
ring_marks_remove(struct ring_ep *rep, struct ring_link *link)
{
	if (link->idx < rep->nb_watched)
		swap(rep, link->idx, --rep->nb_watched);
	swap(rep, link->idx, --rep->nb_links);
}

/* ---- this side's want: what it asks of its peers ---- */

static void
send_want(struct ring_ep *rep, struct ring_link *link)
{
	/* relaxed is enough: edge BELL orders the store */
	__atomic_store_n(&link->mine->want, rep->want, __ATOMIC_RELAXED);
	ring_link_bell(link);
}

/* Start or stop relying on marks, and send the new want to all peers. */
static void
want_of_all(struct ring_ep *rep, bool many)
{
	uint32_t i;

	rep->many = many;
	rep->want++;
	rep->nb_watched = many ? rep->nb_links : 0;
	for (i = 0; i < rep->nb_links; i++)
		send_want(rep, rep->links[i]);
	/* The next progress unwatches the links of closed peers, which do not answer. */
	rep->rescan = true;
}

/* ---- the peer's want ---- */

/* Obey the peer's want: start or stop marking, and answer. */
static void
go_by(struct ring_link *link, uint32_t wanted)
{
	uint32_t *marks = &link->mine->marks;

	link->wanted = wanted;
	link->board = (wanted & 1) != 0 ? link->their_board : NULL;
	/* In drivers/ring the peer wrote the expected answer itself, when it connected. */
	if (__atomic_load_n(marks, __ATOMIC_RELAXED) == wanted)
		return;
	/* edge MARKS: pairs with answered() */
	__atomic_store_n(marks, wanted, __ATOMIC_RELEASE);
	ring_link_bell(link);
}

/* Has the peer answered this side's want? Edge MARKS: pairs with go_by() of the peer. */
static bool
answered(const struct ring_ep *rep, const struct ring_link *link)
{
	return __atomic_load_n(&link->theirs->marks, __ATOMIC_ACQUIRE) == rep->want;
}

void
ring_marks_up(struct ring_ep *rep, struct ring_link *link)
{
	link->idx = rep->nb_links;
	rep->links[rep->nb_links++] = link;
	/* relaxed: connecting made the want visible; if the peer changes it later, BELL follows */
	go_by(link, __atomic_load_n(&link->theirs->want, __ATOMIC_RELAXED));
	if (!rep->many && rep->nb_links > RING_FEW) {
		want_of_all(rep, true);
		return;
	}
	/* The want that was written while connecting may be out of date. */
	if (__atomic_load_n(&link->mine->want, __ATOMIC_RELAXED) != rep->want)
		send_want(rep, link);
	/* If the peer has answered, it marks from its first message on: don't watch the link. */
	if (rep->many && !answered(rep, link))
		watch(rep, link);
}

void
ring_marks_down(struct ring_ep *rep)
{
	if (rep->many && rep->nb_links <= RING_FEW_AGAIN)
		want_of_all(rep, false);
}

void
ring_marks_progress(struct ring_ep *rep, struct ring_link *link, bool closed)
{
	/* relaxed is enough: edge BELL orders the load */
	uint32_t wanted = __atomic_load_n(&link->theirs->want, __ATOMIC_RELAXED);

	if (wanted != link->wanted)
		go_by(link, wanted);
	if (link->idx < rep->nb_watched && (closed || answered(rep, link)))
		unwatch(rep, link);
}
