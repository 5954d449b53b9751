/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RING_MARK_H
#define RING_MARK_H

/*
 * How an endpoint with many links finds those that have something.
 *
 * With up to RING_FEW links each poll looks at all of them. With more the endpoint asks its peers
 * for marks: a peer marks its link on the owner's board (ring_board.h) after it published messages
 * or an ack. That costs the peer an atomic instruction or two per burst, so no peer does it
 * unasked.
 *
 *     owner                                        peer
 *     has more than RING_FEW links
 *     dir.want = rep->want, now odd   --bell-->   progress: marks from now on
 *     watches the link: looks at it                dir.marks = that want
 *       in its polls, until marks == want
 *     looks once more                  <--bell--
 *     looks when it is marked                      publishes, marks
 *     ...
 *     has RING_FEW_AGAIN links left: looks at all of them in each poll
 *     dir.want = rep->want, now even  --bell-->   progress: marks no more
 *
 * MARKS: what the peer published before it answered is seen by the owner when it looks once more;
 * what it publishes later is marked. Each want has a new number, so an answer to an earlier want is
 * not mistaken for an answer to the last one.
 *
 * A link that comes up while its owner wants marks is marked from the first message on, without an
 * answer: the acceptor writes its want before it accepts, the connector before it asks, and neither
 * is up before it has read the other's.
 *
 * A mark that is taken puts the link into the owner's queue (ring_poll.h), where it stays while
 * there is something on it. So whenever there is something on a link of an owner with many links,
 * the link is watched, or marked, or about to be marked by the peer that is in the middle of its
 * post, or queued. Marks and queue are left as they are when few links remain. When the owner has
 * many again they make it look at some links in vain.
 */

#include "ring_pvt.h"

/* Puts the marks that a post collected on their boards. */
void ring_marks_put(struct ring_ep *rep);

/*
 * MARK, of a burst, collected until ring_marks_put() at the end of the post: links of one endpoint
 * that came up one after the other have their marks in one word.
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

/* @return 0 or -ENOMEM; either way ring_queue_free() it */
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

/* ---- of the control path ---- */

/* Adds a link that comes up to rep->links. */
void ring_marks_up(struct ring_ep *rep, struct ring_link *link);
/* Removes a link from rep->links; the caller frees it, and then calls ring_marks_down(). */
void ring_marks_remove(struct ring_ep *rep, struct ring_link *link);
void ring_marks_down(struct ring_ep *rep);
/*
 * A peer may have changed what it wants, or answered.
 * @param closed it has closed, and publishes nothing more
 */
void ring_marks_progress(struct ring_ep *rep, struct ring_link *link, bool closed);

#endif /* RING_MARK_H */
