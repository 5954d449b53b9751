/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EFA_READ_H
#define EFA_READ_H

/* READs in the middle of their answer; see efa_read.c. */

#include "efa_pvt.h"

/*
 * EFA_Q_READ_TWICE, a READ was posted: to see later whether its answer has begun. That comes in when the completion
 * queue is read, not before. The mark is nothing that a peer could know.
 */
static inline void
efa_read_mark(struct efa_slot *s, const struct leat_op *op)
{
	s->arg[0] = leat_now() * UINT64_C(0x9e3779b97f4a7c15);
	if (op->size >= sizeof(s->arg[0]))
		memcpy(op->buf, &s->arg[0], sizeof(s->arg[0]));
}

/* Has the answer begun, of a READ or of an orphan that was one? */
bool efa_read_begun(const struct efa_ep *e, const struct efa_slot *s);
/* May an answer of that peer be on its way? */
bool efa_read_under_way(const struct efa_ep *e, uint16_t peer);
/*
 * No answer is on its way, nor a message to a receive that was recalled: time to close the
 * endpoint.
 */
bool efa_read_settled(const struct efa_ep *e);
/* May the endpoint be closed at all? Not while a READ's answer is on its way. */
bool efa_read_closable(const struct efa_ep *e);

#endif /* EFA_READ_H */
