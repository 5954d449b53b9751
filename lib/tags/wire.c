/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Encoding and decoding of the wire format. Nothing here depends on an endpoint or a connection.
 */

#include <string.h>

#include <leat_le.h>

#include "tags_wire.h"

static const uint8_t magic[4] = { 'l', 't', 'a', 'g' };

void
tags_hdr_build(uint8_t *buf, const struct tags_hdr *h)
{
	unsigned int c;

	buf[0] = h->kind;
	buf[1] = h->flags;
	leat_put_le16(buf + 2, h->seq);
	for (c = 0; c < TAGS_CLASSES; c++)
		leat_put_le16(buf + 4 + 2 * c, h->done[c]);
	leat_put_le16(buf + 10, 0);
	leat_put_le32(buf + 12, h->id);
	leat_put_le64(buf + 16, h->tag);
	leat_put_le64(buf + 24, h->total);
	leat_put_le64(buf + 32, h->token);
	if ((h->flags & TAGS_F_IMM) != 0)
		leat_put_le64(buf + 40, h->imm);
}

/* Check an EAGER or FIRST. @return NULL, or what is wrong with it */
static const char *
check_message(const struct tags_hdr *h, size_t bytes)
{
	if ((h->flags & ~(TAGS_F_TAGGED | TAGS_F_IMM)) != 0)
		return "unknown flags";
	if ((h->flags & TAGS_F_TAGGED) == 0 && h->tag != 0)
		return "a tag without the flag for it";
	if (h->kind == TAGS_EAGER)
		return h->total != bytes ? "a total length other than the number of bytes"
		       : h->id != 0	 ? "an id where none is allowed"
					 : NULL;
	return bytes == 0 || h->total <= bytes
		       ? "the first part of a message that has no other part"
		       : NULL;
}

/* Check a segment of another kind. @return NULL, or what is wrong with it */
static const char *
check_control(const struct tags_hdr *h, size_t bytes)
{
	if (h->flags != 0 || h->total != 0)
		return "reserved fields that are not zero";
	if (h->kind == TAGS_DATA)
		return bytes == 0 ? "a data segment without data" : NULL;
	if (bytes != 0)
		return "data where none is allowed";
	if (h->kind == TAGS_GRANT)
		return h->tag > UINT32_MAX ? "an id out of range" : NULL;
	if (h->tag != 0 || (h->kind != TAGS_REFUSE && h->id != 0))
		return "reserved fields that are not zero";
	return NULL;
}

const char *
tags_hdr_parse(const uint8_t *buf, size_t len, struct tags_hdr *h)
{
	uint32_t hdr_len;
	unsigned int c;

	if (len < TAGS_HDR_LEN)
		return "shorter than a header";
	h->kind = buf[0];
	h->flags = buf[1];
	hdr_len = tags_hdr_len(h->flags);
	if (len < hdr_len)
		return "shorter than a header with its immediate";
	h->seq = leat_get_le16(buf + 2);
	for (c = 0; c < TAGS_CLASSES; c++)
		h->done[c] = leat_get_le16(buf + 4 + 2 * c);
	h->id = leat_get_le32(buf + 12);
	h->tag = leat_get_le64(buf + 16);
	h->total = leat_get_le64(buf + 24);
	h->token = leat_get_le64(buf + 32);
	h->imm = hdr_len > TAGS_HDR_LEN ? leat_get_le64(buf + 40) : 0;
	if (leat_get_le16(buf + 10) != 0)
		return "reserved fields that are not zero";
	switch (h->kind) {
	case TAGS_EAGER:
	case TAGS_FIRST:
		return check_message(h, len - hdr_len);
	case TAGS_DATA:
	case TAGS_GRANT:
	case TAGS_REFUSE:
	case TAGS_CREDIT:
	case TAGS_BYE:
		return check_control(h, len - hdr_len);
	default:
		return "an unknown kind";
	}
}

void
tags_hello_build(uint8_t *buf, const struct tags_hello *h)
{
	memcpy(buf, magic, sizeof(magic));
	buf[4] = TAGS_VERSION;
	buf[5] = h->priv_len;
	memcpy(buf + 6, h->window, sizeof(h->window));
	buf[9] = 0;
	leat_put_le16(buf + 10, h->segment);
	leat_put_le64(buf + 12, h->token);
}

const char *
tags_hello_parse(const uint8_t *buf, size_t len, struct tags_hello *h)
{
	unsigned int c;

	if (len <= sizeof(magic) || memcmp(buf, magic, sizeof(magic)) != 0)
		return "its endpoint matches no messages in software as this one does: give both "
		       "devices the same tags=, and create both endpoints with TSEND or TRECV, or "
		       "neither";
	if (buf[4] != TAGS_VERSION)
		return "it speaks another version of the tag layer: use one leat on both sides";
	if (len < TAGS_HELLO_LEN)
		return "its hello is malformed";
	h->priv_len = buf[5];
	memcpy(h->window, buf + 6, sizeof(h->window));
	h->segment = leat_get_le16(buf + 10);
	h->token = leat_get_le64(buf + 12);
	if (buf[9] != 0 || h->segment < TAGS_SEGMENT_MIN || h->priv_len > len - TAGS_HELLO_LEN)
		return "its hello is malformed";
	for (c = 0; c < TAGS_CLASSES; c++)
		if (h->window[c] == 0)
			return "its hello is malformed";
	return NULL;
}
