/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <string.h>

#include <leat_le.h>

#include "exchange_wire.h"

static const uint8_t oob_magic[4] = { 'L', 'E', 'A', 'T' };

_Static_assert(OOB_HDR_LEN + OOB_HELLO_LEN + LEAT_OOB_BLOB_MAX + LEAT_OOB_PRIV_MAX <= OOB_MSG_MAX,
	       "a HELLO fits");
_Static_assert(OOB_HELLO_LEN == LEAT_OOB_KIND_MAX + 8, "kind, two lengths, reserved");

/* Shortest and longest body that a type can have. */
static int
body_bounds(uint16_t type, uint32_t *min, uint32_t *max)
{
	switch (type) {
	case OOB_HELLO:
	case OOB_ACCEPT:
		*min = OOB_HELLO_LEN;
		*max = OOB_HELLO_LEN + LEAT_OOB_BLOB_MAX + LEAT_OOB_PRIV_MAX;
		return 0;
	case OOB_REJECT:
	case OOB_BYE:
		*min = OOB_BYE_LEN;
		*max = OOB_BYE_LEN + OOB_TEXT_MAX;
		return 0;
	case OOB_READY:
		*min = 0;
		*max = 0;
		return 0;
	default:
		return -EPROTO;
	}
}

static int
parse_hello(const uint8_t *body, uint32_t len, struct oob_msg *msg, const char **why)
{
	const uint8_t *end = memchr(body, 0, LEAT_OOB_KIND_MAX);
	const uint8_t *p;

	if (end == NULL || end == body) {
		*why = "kind is empty or not terminated";
		return -EPROTO;
	}
	for (p = body; p < end; p++) {
		if (*p < 0x21 || *p > 0x7e) {
			*why = "kind is not printable";
			return -EPROTO;
		}
	}
	for (p = end; p < body + LEAT_OOB_KIND_MAX; p++) {
		if (*p != 0) {
			*why = "kind is not padded with NUL";
			return -EPROTO;
		}
	}
	memcpy(msg->kind, body, LEAT_OOB_KIND_MAX);

	msg->blob_len = leat_get_le16(body + LEAT_OOB_KIND_MAX);
	msg->priv_len = leat_get_le16(body + LEAT_OOB_KIND_MAX + 2);
	if (leat_get_le32(body + LEAT_OOB_KIND_MAX + 4) != 0) {
		*why = "a reserved field is not 0";
		return -EPROTO;
	}
	if (msg->blob_len > LEAT_OOB_BLOB_MAX || msg->priv_len > LEAT_OOB_PRIV_MAX ||
	    len != (uint32_t)OOB_HELLO_LEN + msg->blob_len + msg->priv_len) {
		*why = "lengths of address and private data don't fit the message";
		return -EPROTO;
	}
	msg->blob = body + OOB_HELLO_LEN;
	msg->priv = msg->blob + msg->blob_len;
	return 0;
}

static int
parse_bye(const uint8_t *body, uint32_t len, struct oob_msg *msg, const char **why)
{
	msg->reason = leat_get_le32(body);
	msg->spoken = leat_get_le16(body + 4);
	msg->text_len = leat_get_le16(body + 6);
	if (len != (uint32_t)OOB_BYE_LEN + msg->text_len) {
		*why = "length of the text doesn't fit the message";
		return -EPROTO;
	}
	msg->text = body + OOB_BYE_LEN;
	return 0;
}

int
oob_wire_parse(const uint8_t *buf, size_t len, struct oob_msg *msg, const char **why)
{
	uint32_t body_len, min, max;
	int ret = 0;

	if (len == 0)
		return 0;
	if (memcmp(buf, oob_magic, len < sizeof(oob_magic) ? len : sizeof(oob_magic)) != 0) {
		*why = "it does not begin with LEAT";
		return -EPROTO;
	}
	if (len < OOB_HDR_LEN)
		return 0;

	memset(msg, 0, sizeof(*msg));
	msg->version = leat_get_le16(buf + 4);
	msg->type = leat_get_le16(buf + 6);
	body_len = leat_get_le32(buf + 12);
	if (msg->version != LEAT_OOB_VERSION && msg->type != OOB_REJECT) {
		*why = "another version";
		return -EPROTONOSUPPORT;
	}
	if (leat_get_le32(buf + 8) != 0) {
		*why = "flags are not 0";
		return -EPROTO;
	}
	if (body_bounds(msg->type, &min, &max) != 0) {
		*why = "a message of unknown type";
		return -EPROTO;
	}
	if (body_len < min || body_len > max) {
		*why = "a message of impossible length";
		return -EPROTO;
	}
	if (len < OOB_HDR_LEN + (size_t)body_len)
		return 0;

	buf += OOB_HDR_LEN;
	if (msg->type == OOB_HELLO || msg->type == OOB_ACCEPT)
		ret = parse_hello(buf, body_len, msg, why);
	else if (msg->type == OOB_REJECT || msg->type == OOB_BYE)
		ret = parse_bye(buf, body_len, msg, why);
	return ret != 0 ? ret : (int)(OOB_HDR_LEN + body_len);
}

static size_t
put_header(uint8_t *buf, enum oob_type type, size_t body_len)
{
	memcpy(buf, oob_magic, sizeof(oob_magic));
	leat_put_le16(buf + 4, LEAT_OOB_VERSION);
	leat_put_le16(buf + 6, (uint16_t)type);
	leat_put_le32(buf + 8, 0);
	leat_put_le32(buf + 12, (uint32_t)body_len);
	return OOB_HDR_LEN + body_len;
}

size_t
oob_wire_hello(uint8_t *buf, enum oob_type type, const char *kind, const struct leat_oob_data *data)
{
	uint8_t *p = buf + OOB_HDR_LEN;

	memset(p, 0, OOB_HELLO_LEN);
	memcpy(p, kind, strnlen(kind, LEAT_OOB_KIND_MAX - 1));
	leat_put_le16(p + LEAT_OOB_KIND_MAX, data->blob_len);
	leat_put_le16(p + LEAT_OOB_KIND_MAX + 2, data->priv_len);
	p += OOB_HELLO_LEN;
	if (data->blob_len > 0)
		memcpy(p, data->blob, data->blob_len);
	if (data->priv_len > 0)
		memcpy(p + data->blob_len, data->priv, data->priv_len);
	return put_header(buf, type, (size_t)OOB_HELLO_LEN + data->blob_len + data->priv_len);
}

size_t
oob_wire_bye(uint8_t *buf, enum oob_type type, enum oob_reason reason, const char *text)
{
	size_t len = text == NULL ? 0 : strnlen(text, OOB_TEXT_MAX);
	uint8_t *p = buf + OOB_HDR_LEN;

	leat_put_le32(p, (uint32_t)reason);
	leat_put_le16(p + 4, LEAT_OOB_VERSION);
	leat_put_le16(p + 6, (uint16_t)len);
	if (len > 0)
		memcpy(p + OOB_BYE_LEN, text, len);
	return put_header(buf, type, OOB_BYE_LEN + len);
}

size_t
oob_wire_ready(uint8_t *buf)
{
	return put_header(buf, OOB_READY, 0);
}

void
oob_wire_text(char *dst, size_t size, const uint8_t *text, size_t len)
{
	size_t i;

	if (len > size - 1)
		len = size - 1;
	for (i = 0; i < len; i++)
		dst[i] = text[i] >= 0x20 && text[i] <= 0x7e ? (char)text[i] : '?';
	dst[len] = '\0';
}
