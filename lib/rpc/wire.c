/* SPDX-License-Identifier: BSD-3-Clause */

/* Packets, items and hellos: see rpc_wire.h. */

#include <string.h>

#include <leat_le.h>

#include "leat_rpc_violation.h"
#include "rpc_wire.h"

static const uint8_t magic[4] = { 'L', 'R', 'P', 'C' };

void
rpc_numbers_put(uint8_t *buf, const struct rpc_numbers *n)
{
	buf += RPC_HEAD_LEN;
	leat_put_le32(buf, n->seq);
	leat_put_le32(buf + 4, n->ack);
	leat_put_le64(buf + 8, n->sack);
	leat_put_le32(buf + 16, n->echo);
	leat_put_le32(buf + 20, n->delay);
}

int
rpc_numbers_get(const uint8_t *buf, size_t len, uint8_t flags, struct rpc_numbers *n)
{
	if (len < RPC_HEAD_LEN + RPC_NUMBERS_LEN)
		return LEAT_RPC_TRUNCATED;
	buf += RPC_HEAD_LEN;
	n->seq = leat_get_le32(buf);
	n->ack = leat_get_le32(buf + 4);
	n->sack = leat_get_le64(buf + 8);
	n->echo = leat_get_le32(buf + 16);
	n->delay = leat_get_le32(buf + 20);
	/* At most one flag. */
	if ((flags & ~RPC_H_ALL) != 0 || (flags & (flags - 1)) != 0)
		return LEAT_RPC_BAD_FLAGS;
	return flags == 0 && n->seq != 0 ? LEAT_RPC_BAD_FLAGS : 0;
}

void
rpc_item_put(uint8_t *buf, const struct rpc_item *m)
{
	const bool piece = m->len != m->size;
	uint8_t *last = buf + rpc_item_full_len(m) - 8;

	if ((m->len & 7) != 0)
		leat_put_le64(last,
			      leat_get_le64(last) & ((UINT64_C(1) << (8 * (m->len & 7))) - 1));
	buf[0] = piece ? m->kind | RPC_PIECE : m->kind;
	buf[1] = m->type;
	leat_put_le16(buf + 2, m->slot);
	leat_put_le32(buf + 4, m->num);
	leat_put_le16(buf + 8, m->len);
	leat_put_le16(buf + 10, m->flags);
	leat_put_le32(buf + 12, m->aux);
	if (piece) {
		leat_put_le32(buf + 16, m->size);
		leat_put_le32(buf + 20, m->off);
	}
}

static bool
empty(const struct rpc_item *m)
{
	return (m->size | m->len | m->flags | m->type) == 0;
}

/* Check that the fields that an item's kind does not use are zero, and the others valid. */
static int
item_check(const struct rpc_item *m)
{
	switch (m->kind) {
	case RPC_REQUEST:
		/* At most one flag; requests with descriptors, and internal ones, are one piece. */
		if ((m->flags & ~(RPC_F_ONEWAY | RPC_F_BULK | RPC_F_INTERNAL)) != 0 ||
		    (m->flags & (m->flags - 1)) != 0 ||
		    (m->len != m->size && (m->flags & ~RPC_F_ONEWAY) != 0))
			return LEAT_RPC_BAD_FLAGS;
		if (m->slot == RPC_NO_SLOT &&
		    (m->flags != RPC_F_ONEWAY || m->num != 0 || m->len != m->size))
			return LEAT_RPC_BAD_SLOT;
		break;
	case RPC_RESPONSE:
		if ((m->flags & ~RPC_F_REFUSED) != 0)
			return LEAT_RPC_BAD_FLAGS;
		if (m->aux > RPC_ERRNO_MAX || (m->aux == 0 && m->flags != 0))
			return LEAT_RPC_BAD_STATUS;
		/* An error status is one piece. */
		if (m->aux != 0 && m->len != m->size)
			return LEAT_RPC_BAD_PIECE;
		break;
	case RPC_CANCEL:
		return empty(m) && m->aux == 0 ? 0 : LEAT_RPC_BAD_FLAGS;
	case RPC_END:
		if (!empty(m) || m->slot != 0 || m->num != 0)
			return LEAT_RPC_BAD_FLAGS;
		return m->aux <= RPC_ERRNO_MAX ? 0 : LEAT_RPC_BAD_STATUS;
	default:
		return LEAT_RPC_BAD_KIND;
	}
	/* A piece lies within its message, is not empty, and not the whole message. */
	if (m->len != m->size &&
	    (m->len == 0 || m->off > m->size || m->len > m->size - m->off || m->len > m->size))
		return LEAT_RPC_BAD_PIECE;
	return 0;
}

int
rpc_item_get(const uint8_t *buf, size_t len, struct rpc_item *m)
{
	bool piece;
	uint64_t pad;

	if (len < RPC_ITEM_LEN)
		return LEAT_RPC_TRUNCATED;
	piece = (buf[0] & RPC_PIECE) != 0;
	m->kind = buf[0] & (uint8_t)~RPC_PIECE;
	m->type = buf[1];
	m->slot = leat_get_le16(buf + 2);
	m->num = leat_get_le32(buf + 4);
	m->len = leat_get_le16(buf + 8);
	m->flags = leat_get_le16(buf + 10);
	m->aux = leat_get_le32(buf + 12);
	m->size = m->len;
	m->off = 0;
	if (piece) {
		if (len < RPC_PIECE_LEN)
			return LEAT_RPC_TRUNCATED;
		m->size = leat_get_le32(buf + 16);
		m->off = leat_get_le32(buf + 20);
		if (m->size == m->len)
			return LEAT_RPC_BAD_PIECE;
	}
	if (rpc_item_full_len(m) > len)
		return LEAT_RPC_TRUNCATED;
	if ((m->len & 7) != 0) {
		pad = leat_get_le64(buf + rpc_item_full_len(m) - 8);
		if (pad >> (8 * (m->len & 7)) != 0)
			return LEAT_RPC_BAD_FLAGS;
	}
	return item_check(m);
}

void
rpc_descs_put(uint8_t *buf, const struct rpc_desc *d, uint32_t n)
{
	uint32_t i;

	leat_put_le32(buf, n);
	leat_put_le32(buf + 4, 0);
	buf += RPC_BULK_HEAD_LEN;
	for (i = 0; i < n; i++, buf += RPC_BULK_DESC_LEN) {
		leat_put_le64(buf, d[i].addr);
		leat_put_le64(buf + 8, d[i].len);
		leat_put_le64(buf + 16, d[i].key);
		leat_put_le32(buf + 24, d[i].access);
		leat_put_le32(buf + 28, 0);
	}
}

int
rpc_descs_get(const uint8_t *buf, size_t len, struct rpc_desc *d)
{
	uint32_t i, n;

	if (len < RPC_BULK_HEAD_LEN)
		return -1;
	n = leat_get_le32(buf);
	if (n == 0 || n > LEAT_RPC_BULK_MAX || rpc_bulk_len(n) > len || leat_get_le32(buf + 4) != 0)
		return -1;
	buf += RPC_BULK_HEAD_LEN;
	for (i = 0; i < n; i++, buf += RPC_BULK_DESC_LEN) {
		d[i].addr = leat_get_le64(buf);
		d[i].len = leat_get_le64(buf + 8);
		d[i].key = leat_get_le64(buf + 16);
		d[i].access = leat_get_le32(buf + 24);
		/* Memory does not wrap around the end of the address space. */
		if (d[i].len > UINT64_MAX - d[i].addr ||
		    (d[i].access & ~LEAT_RPC_BULK_ACCESS) != 0 || leat_get_le32(buf + 28) != 0)
			return -1;
	}
	return (int)n;
}

void
rpc_bulk_msg_put(uint8_t *buf, const struct rpc_bulk_msg *m)
{
	leat_put_le16(buf, m->slot);
	buf[2] = m->index;
	buf[3] = 0;
	leat_put_le32(buf + 4, m->num);
	leat_put_le64(buf + 8, m->off);
	leat_put_le32(buf + 16, m->len);
	leat_put_le32(buf + 20, 0);
}

int
rpc_bulk_msg_get(const uint8_t *buf, size_t len, struct rpc_bulk_msg *m)
{
	if (len < RPC_BULK_MSG_LEN)
		return LEAT_RPC_BAD_BULK;
	m->slot = leat_get_le16(buf);
	m->index = buf[2];
	m->num = leat_get_le32(buf + 4);
	m->off = leat_get_le64(buf + 8);
	m->len = leat_get_le32(buf + 16);
	return buf[3] == 0 && leat_get_le32(buf + 20) == 0 ? 0 : LEAT_RPC_BAD_BULK;
}

void
rpc_hello_put(uint8_t *buf, const struct rpc_hello *h)
{
	memcpy(buf, magic, sizeof(magic));
	buf[4] = h->version;
	buf[5] = h->refused;
	leat_put_le16(buf + 6, h->slots);
	leat_put_le32(buf + 8, h->features);
	leat_put_le32(buf + 12, h->required);
	leat_put_le64(buf + 16, h->token);
	leat_put_le32(buf + 24, h->credits);
	leat_put_le32(buf + 28, h->packet);
	leat_put_le32(buf + 32, h->max_msg);
	leat_put_le16(buf + 36, h->epoch);
	leat_put_le16(buf + 38, h->priv_len);
	leat_put_le32(buf + 40, h->first);
}

const char *
rpc_hello_get(const uint8_t *buf, size_t len, struct rpc_hello *h)
{
	if (len < RPC_HELLO_LEN || memcmp(buf, magic, sizeof(magic)) != 0)
		return "it does not speak rpc";
	h->version = buf[4];
	if (h->version != RPC_VERSION)
		return "it speaks another version of rpc";
	h->refused = buf[5];
	h->slots = leat_get_le16(buf + 6);
	h->features = leat_get_le32(buf + 8);
	h->required = leat_get_le32(buf + 12);
	h->token = leat_get_le64(buf + 16);
	h->credits = leat_get_le32(buf + 24);
	h->packet = leat_get_le32(buf + 28);
	h->max_msg = leat_get_le32(buf + 32);
	h->epoch = leat_get_le16(buf + 36);
	h->priv_len = leat_get_le16(buf + 38);
	h->first = leat_get_le32(buf + 40);
	/* Padding may follow the private data (leat_dev_info.priv_padded). */
	if (h->priv_len > len - RPC_HELLO_LEN)
		return "its hello is cut off";
	if (h->refused >= RPC_REFUSALS)
		return "its hello refuses for an unknown reason";
	if (h->refused != RPC_REFUSED_NOT)
		return NULL;
	if (h->slots == 0 || h->slots > LEAT_RPC_SLOTS_MAX)
		return "its hello has an impossible number of slots";
	if (h->credits < LEAT_RPC_CREDITS_MIN || h->credits > LEAT_RPC_CREDITS_MAX)
		return "its hello has an impossible number of credits";
	if (h->packet < LEAT_RPC_PACKET_MIN || h->packet > LEAT_RPC_PACKET_MAX)
		return "its hello has an impossible packet";
	return NULL;
}
