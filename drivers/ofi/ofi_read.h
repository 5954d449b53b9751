/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef OFI_READ_H
#define OFI_READ_H

/* READs whose answer has arrived in part; see ofi_read.c. */

#include "ofi_pvt.h"

/*
 * OFI_Q_READ_TWICE: mark the buffer of a READ that was just posted, to see later whether its answer
 * has begun to arrive. The provider writes the answer only when the completion queue is read, so
 * the mark can't overwrite it. A peer can't guess the mark.
 */
static inline void
ofi_read_mark(struct ofi_slot *s, const struct leat_op *op)
{
	s->arg[0] = leat_now() * UINT64_C(0x9e3779b97f4a7c15);
	if (op->size >= sizeof(s->arg[0]))
		memcpy(op->buf, &s->arg[0], sizeof(s->arg[0]));
}

/* Has the answer of a READ begun to arrive? s: the READ's slot, even if it is an orphan now. */
bool ofi_read_begun(const struct ofi_ep *e, const struct ofi_slot *s);
/* Could the answer to a READ be arriving from this peer? */
bool ofi_read_under_way(const struct ofi_ep *e, uint16_t peer);
/*
 * Can the endpoint be closed now? No answer may be arriving, and every cancelled receive must have
 * completed.
 */
bool ofi_read_settled(const struct ofi_ep *e);
/* Can the endpoint be closed safely at all? Not while a READ's answer is arriving. */
bool ofi_read_closable(const struct ofi_ep *e);

#endif /* OFI_READ_H */
