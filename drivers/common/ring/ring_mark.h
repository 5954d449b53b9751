/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RING_MARK_H
#define RING_MARK_H

/*
 * How an endpoint with many links finds those that have messages or acks for it.
 *
 * With up to RING_FEW links each poll looks at all of them. With more the endpoint's owner asks its
 * peers for marks: a peer marks its link on the owner's board (ring_board.h) after it published
 * messages or an ack. A mark costs the peer an atomic instruction or two per burst, so no peer
 * marks without being asked. The owner asks by a number, its want: odd asks for marks, even for
 * none. ring_shared.h explains the edges, such as BELL.
 *
 *     owner                                        peer
 *     has more than RING_FEW links
 *     dir.want = rep->want, now odd   --bell-->   progress: marks from now on
 *     watches the link: polls look at              dir.marks = the owner's want
 *       it until marks == want
 *     looks at the link once more      <--bell--
 *     looks at it when it is marked                publishes, marks
 *     ...
 *     has RING_FEW_AGAIN links left: looks at all of them in each poll
 *     dir.want = rep->want, now even  --bell-->   progress: marks no more
 *
 * The peer answers by writing dir.marks (edge MARKS). The owner finds the messages and acks that
 * the peer published before its answer when it looks at the link once more. The peer marks all that
 * it publishes after its answer. Each want has a new number, so the owner does not mistake the
 * answer to an earlier want for the answer to the last one.
 *
 * A link that comes up while its owner wants marks is marked from the first message on, without an
 * answer: the acceptor writes its want before it accepts, the connector before it sends its
 * request, and each side reads the other's want before its link is up.
 *
 * A mark that the owner takes puts the link into the owner's queue (ring_poll.h), where the link
 * stays as long as it has messages or acks. So while a link of an owner with many links has
 * messages or acks, one of these holds: the link is watched, it is marked, its peer is in the
 * middle of a post and about to mark it, or it is queued. When few links remain, marks and queue
 * are left as they are; they make the owner look at some links in vain when it has many again.
 */

#include "ring_pvt.h"

/* Put the marks that a post collected on the peers' boards. */
void ring_marks_put(struct ring_ep *rep);

/*
 * Remember to mark a link (edge MARK); ring_marks_put() sets the marks at the end of the post. The
 * marks of peers that connected one after the other are in one word, so a burst to many peers of
 * one endpoint needs few atomic instructions.
 */
static inline void
ring_marks_add(struct ring_ep *rep, const struct ring_link *link)
{
	uint64_t mark = UINT64_C(1) << link->mark % 64;
	uint32_t i, word = link->mark / 64;
	struct ring_mark *m;

	for (i = rep->nb_marks; i > 0; i--) {
		m = &rep->marks[i - 1];
		if (likely(m->word == word && m->board == link->board)) {
			m->marks |= mark;
			return;
		}
	}
	if (unlikely(rep->nb_marks == RING_MARKS))
		ring_marks_put(rep);
	m = &rep->marks[rep->nb_marks++];
	m->board = link->board;
	m->word = word;
	m->marks = mark;
}

/* Create an empty queue. @return 0 or -ENOMEM; in both cases the caller calls ring_queue_free() */
int ring_queue_init(struct ring_queue *q, uint32_t max_peers);
void ring_queue_free(struct ring_queue *q);

static inline void
ring_queue_put(struct ring_queue *q, uint32_t nr)
{
	uint64_t bit = UINT64_C(1) << nr % 64;

	if ((q->queued[nr / 64] & bit) != 0)
		return;
	q->queued[nr / 64] |= bit;
	q->nrs[q->tail++ & q->mask] = (uint16_t)nr;
}

static inline uint32_t
ring_queue_count(const struct ring_queue *q)
{
	return q->tail - q->head;
}

/* ---- control path: links come up and go down, and either side changes its want ---- */

/* Add a link that comes up to rep->links. */
void ring_marks_up(struct ring_ep *rep, struct ring_link *link);
/* Remove a link from rep->links. The caller frees the link, then calls ring_marks_down(). */
void ring_marks_remove(struct ring_ep *rep, struct ring_link *link);
/* Stop relying on marks if few links are left. */
void ring_marks_down(struct ring_ep *rep);
/*
 * Check whether the peer of a link changed its want, or answered this side's want.
 * @param closed the peer has closed and publishes nothing more
 */
void ring_marks_progress(struct ring_ep *rep, struct ring_link *link, bool closed);

#endif /* RING_MARK_H */
