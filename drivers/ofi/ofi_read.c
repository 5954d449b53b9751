/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * READs whose answer has arrived in part (OFI_Q_READ_TWICE).
 *
 *     the provider's connection     waiting for answers: [READ 1] [READ 2] ...
 *                                   being received:       READ 1
 *
 * READ 1 is in both places until its last byte arrived. If this side closes the connection
 * meanwhile, tcp of libfabric 1.17 fails READ 1 twice and frees it twice (tcpx_ep.c,
 * tcpx_ep_flush_all_queues(); 1.18 takes it out of the queue with the first byte). If the other
 * side closes the connection, the provider ends it correctly, at any byte of the answer.
 *
 * So the driver closes no connection while an answer is arriving. To see that, it marks the first
 * bytes of a READ's buffer when the READ is posted (the buffer belongs to the device): an answer
 * overwrites the mark. A READ shorter than the mark needs none: its answer comes in one piece with
 * the header.
 *
 * When a receive matches a long message, the provider fetches the message by a READ of its own,
 * whose buffer has no mark. So a receive that names its peer and can't be cancelled counts as a
 * READ whose answer is arriving.
 */

#include "ofi_read.h"

bool
ofi_read_begun(const struct ofi_ep *e, const struct ofi_slot *s)
{
	if ((e->quirks & OFI_Q_READ_TWICE) == 0)
		return false;
	if (s->state == OFI_SLOT_ORPHAN)
		return (s->flags & OFI_SLOT_BEGUN) != 0 ||
		       ((s->flags & OFI_SLOT_PROOF) != 0 && ofi_proof_begun(e, s));
	return s->state == OFI_SLOT_TX && s->op->type == LEAT_OP_READ &&
	       s->op->size >= sizeof(s->arg[0]) &&
	       memcmp(s->op->buf, &s->arg[0], sizeof(s->arg[0])) != 0;
}

bool
ofi_read_under_way(const struct ofi_ep *e, uint16_t peer)
{
	uint32_t i;

	for (i = 0; i < e->nb_slots; i++) {
		const struct ofi_slot *s = &e->slots[i];

		if (s->op != NULL && s->peer == peer &&
		    (s->state == OFI_SLOT_RX || ofi_read_begun(e, s)))
			return true;
	}
	return false;
}

/*
 * Count the READs whose answer is arriving. *recvs: number of receives that were cancelled and have
 * not completed
 */
static unsigned int
count(const struct ofi_ep *e, unsigned int *recvs)
{
	unsigned int n = 0;
	uint32_t i;

	*recvs = 0;
	for (i = 0; i < e->nb_slots; i++) {
		const struct ofi_slot *s = &e->slots[i];

		n += ofi_read_begun(e, s);
		*recvs += s->state == OFI_SLOT_RX && (s->flags & OFI_SLOT_CANCEL) != 0;
	}
	return n;
}

bool
ofi_read_settled(const struct ofi_ep *e)
{
	unsigned int reads, recvs;

	if ((e->quirks & OFI_Q_READ_TWICE) == 0)
		return true;
	reads = count(e, &recvs);
	return reads + recvs == 0;
}

bool
ofi_read_closable(const struct ofi_ep *e)
{
	unsigned int recvs;

	return (e->quirks & OFI_Q_READ_TWICE) == 0 || count(e, &recvs) == 0;
}
