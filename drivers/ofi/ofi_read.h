/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef OFI_READ_H
#define OFI_READ_H

/* READs in the middle of their answer; see ofi_read.c. */

#include "ofi_pvt.h"

/*
 * OFI_Q_READ_TWICE, a READ was posted: to see later whether its answer has begun. That comes in
 * when the completion queue is read, not before. The mark is nothing that a peer could know.
 */
static inline void
ofi_read_mark(struct ofi_slot *s, const struct leat_op *op)
{
	s->arg[0] = leat_now() * UINT64_C(0x9e3779b97f4a7c15);
	if (op->size >= sizeof(s->arg[0]))
		memcpy(op->buf, &s->arg[0], sizeof(s->arg[0]));
}

/* Has the answer begun, of a READ or of an orphan that was one? */
bool ofi_read_begun(const struct ofi_ep *e, const struct ofi_slot *s);
/* May an answer of that peer be on its way? */
bool ofi_read_under_way(const struct ofi_ep *e, uint16_t peer);
/*
 * No answer is on its way, nor a message to a receive that was recalled: time to close the
 * endpoint.
 */
bool ofi_read_settled(const struct ofi_ep *e);
/* May the endpoint be closed at all? Not while a READ's answer is on its way. */
bool ofi_read_closable(const struct ofi_ep *e);

#endif /* OFI_READ_H */
