/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Finds the peer that sent a datagram, by the GID and queue pair of the sender in the datagram's
 * headers. Nothing proves that these headers are true.
 *
 * With RoCE v2 the 40 B in front of a datagram hold an IP header in place of the GRH:
 *
 *     GRH, IPv6    0 |6...            | 8 source GID    | 24 destination GID |
 *     IPv4         0   not written      20 |45.. | 32 source | 36 destination |
 */

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>
#include <rte_random.h>

#include "verbs_ud.h"

#define IPV4_AT 20

/* ---- the map ---- */

static inline uint32_t
hash(const struct vb_sender_map *m, const struct vb_sender *sender)
{
	uint64_t a, b;

	memcpy(&a, sender->gid.raw, 8);
	memcpy(&b, sender->gid.raw + 8, 8);
	a = (a ^ m->seed) * UINT64_C(0x9e3779b97f4a7c15);
	a = (a ^ a >> 32 ^ b) * UINT64_C(0xbf58476d1ce4e5b9);
	a = (a ^ a >> 32 ^ sender->qpn) * UINT64_C(0x94d049bb133111eb);
	return (uint32_t)(a >> 32) & m->mask;
}

static inline bool
same(const struct vb_sender *a, const struct vb_sender *b)
{
	return a->qpn == b->qpn && memcmp(a->gid.raw, b->gid.raw, 16) == 0;
}

int
vb_sender_init(struct vb_sender_map *m, uint32_t peers)
{
	uint32_t rows = rte_align32pow2(4 * peers);

	m->mask = rows - 1;
	m->seed = rte_rand();
	m->rows = calloc(rows, sizeof(*m->rows));
	return m->rows == NULL ? -ENOMEM : 0;
}

uint16_t
vb_sender_find(const struct vb_sender_map *m, const struct vb_sender *sender)
{
	uint32_t i;

	for (i = hash(m, sender); m->rows[i].sender.qpn != 0; i = (i + 1) & m->mask) {
		if (same(&m->rows[i].sender, sender))
			return m->rows[i].peer;
	}
	return LEAT_PEER_ANY;
}

uint16_t
vb_sender_older(const struct vb_sender_map *m, const struct vb_sender *sender, uint16_t peer)
{
	bool passed = false;
	uint32_t i;

	for (i = hash(m, sender); m->rows[i].sender.qpn != 0; i = (i + 1) & m->mask) {
		if (!same(&m->rows[i].sender, sender))
			continue;
		if (passed)
			return m->rows[i].peer;
		passed = m->rows[i].peer == peer;
	}
	return LEAT_PEER_ANY;
}

void
vb_sender_add(struct vb_sender_map *m, const struct vb_sender *sender, uint16_t peer)
{
	uint32_t i;

	for (i = hash(m, sender); m->rows[i].sender.qpn != 0; i = (i + 1) & m->mask) {
		/* The newest peer of a sender comes first. */
		if (same(&m->rows[i].sender, sender)) {
			uint16_t older = m->rows[i].peer;

			m->rows[i].peer = peer;
			peer = older;
		}
	}
	m->rows[i].sender = *sender;
	m->rows[i].peer = peer;
}

void
vb_sender_del(struct vb_sender_map *m, const struct vb_sender *sender, uint16_t peer)
{
	uint32_t i, k;

	for (i = hash(m, sender); m->rows[i].sender.qpn != 0; i = (i + 1) & m->mask) {
		if (m->rows[i].peer == peer && same(&m->rows[i].sender, sender))
			break;
	}
	if (m->rows[i].sender.qpn == 0)
		return;
	m->rows[i].sender.qpn = 0;
	/* Close the gap: move up the rows after it that would no longer be found. */
	for (k = (i + 1) & m->mask; m->rows[k].sender.qpn != 0; k = (k + 1) & m->mask) {
		uint32_t home = hash(m, &m->rows[k].sender);

		if (((k - home) & m->mask) < ((k - i) & m->mask))
			continue;
		m->rows[i] = m->rows[k];
		m->rows[k].sender.qpn = 0;
		i = k;
	}
}

/* ---- headers ---- */

void
vb_sender_lid(struct vb_sender *sender, uint16_t lid, uint32_t qpn)
{
	memset(sender, 0, sizeof(*sender));
	sender->gid.raw[14] = (uint8_t)(lid >> 8);
	sender->gid.raw[15] = (uint8_t)lid;
	sender->qpn = qpn;
}

/* Is the checksum of an IPv4 header right? Then the sum of all its 16-bit words is all ones. */
static bool
sum_fits(const uint8_t *ip)
{
	uint32_t i, sum = 0;

	for (i = 0; i < 20; i += 2)
		sum += (uint32_t)ip[i] << 8 | ip[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16) == 0xffff;
}

/*
 * Are the bytes an IPv4 header? The unwritten bytes before an IPv4 header may look like a GRH, and
 * the source of a GRH may look like an IPv4 header: if both match, the checksum decides.
 */
static inline bool
is_ipv4(const uint8_t *grh)
{
	if (grh[IPV4_AT] != 0x45)
		return false;
	return grh[0] >> 4 != 6 || sum_fits(grh + IPV4_AT);
}

void
vb_sender_wc(struct vb_sender *sender, const struct ibv_wc *wc, const uint8_t *grh)
{
	if (unlikely((wc->wc_flags & IBV_WC_GRH) == 0)) {
		vb_sender_lid(sender, wc->slid, wc->src_qp);
		return;
	}
	sender->qpn = wc->src_qp;
	if (is_ipv4(grh)) {
		memset(sender->gid.raw, 0, 10);
		sender->gid.raw[10] = sender->gid.raw[11] = 0xff;
		memcpy(sender->gid.raw + 12, grh + IPV4_AT + 12, 4);
	} else {
		memcpy(sender->gid.raw, grh + 8, 16);
	}
}
