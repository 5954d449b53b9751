/* SPDX-License-Identifier: BSD-3-Clause */

/* Messages of the address exchange: parse and build. */

#include <errno.h>
#include <string.h>

#include <leat_le.h>

#include "exchange_wire.h"

static const uint8_t magic[4] = { 'L', 'E', 'A', 'T' };

_Static_assert(EXCHANGE_HDR_LEN + EXCHANGE_HELLO_LEN + LEAT_EXCHANGE_BLOB_MAX +
			       LEAT_EXCHANGE_PRIV_MAX + LEAT_EXCHANGE_PROOF_MAX <=
		       EXCHANGE_MSG_MAX,
	       "a HELLO fits");
_Static_assert(EXCHANGE_HELLO_LEN == LEAT_EXCHANGE_KIND_MAX + 8, "kind, three lengths, reserved");

/* Get the shortest and longest body of a type. */
static int
body_bounds(uint16_t type, uint32_t *min, uint32_t *max)
{
	switch (type) {
	case EXCHANGE_HELLO:
	case EXCHANGE_ACCEPT:
		*min = EXCHANGE_HELLO_LEN;
		*max = EXCHANGE_HELLO_LEN + LEAT_EXCHANGE_BLOB_MAX + LEAT_EXCHANGE_PRIV_MAX +
		       LEAT_EXCHANGE_PROOF_MAX;
		return 0;
	case EXCHANGE_REJECT:
	case EXCHANGE_BYE:
		*min = EXCHANGE_BYE_LEN;
		*max = EXCHANGE_BYE_LEN + EXCHANGE_TEXT_MAX;
		return 0;
	case EXCHANGE_READY:
	case EXCHANGE_PROOF:
	case EXCHANGE_NOTE:
		*min = 0;
		*max = 0;
		return 0;
	default:
		return -EPROTO;
	}
}

static int
parse_hello(const uint8_t *body, uint32_t len, struct exchange_msg *msg, const char **why)
{
	const uint8_t *end = memchr(body, 0, LEAT_EXCHANGE_KIND_MAX);
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
	for (p = end; p < body + LEAT_EXCHANGE_KIND_MAX; p++) {
		if (*p != 0) {
			*why = "kind is not padded with NUL";
			return -EPROTO;
		}
	}
	memcpy(msg->kind, body, LEAT_EXCHANGE_KIND_MAX);

	msg->blob_len = leat_get_le16(body + LEAT_EXCHANGE_KIND_MAX);
	msg->priv_len = leat_get_le16(body + LEAT_EXCHANGE_KIND_MAX + 2);
	msg->proof_len = leat_get_le16(body + LEAT_EXCHANGE_KIND_MAX + 4);
	if (leat_get_le16(body + LEAT_EXCHANGE_KIND_MAX + 6) != 0) {
		*why = "a reserved field is not 0";
		return -EPROTO;
	}
	if (msg->blob_len > LEAT_EXCHANGE_BLOB_MAX || msg->priv_len > LEAT_EXCHANGE_PRIV_MAX ||
	    msg->proof_len > LEAT_EXCHANGE_PROOF_MAX ||
	    len != (uint32_t)EXCHANGE_HELLO_LEN + msg->blob_len + msg->priv_len + msg->proof_len) {
		*why = "lengths of address, private data and proof don't fit the message";
		return -EPROTO;
	}
	msg->blob = body + EXCHANGE_HELLO_LEN;
	msg->priv = msg->blob + msg->blob_len;
	msg->proof = msg->priv + msg->priv_len;
	return 0;
}

static int
parse_bye(const uint8_t *body, uint32_t len, struct exchange_msg *msg, const char **why)
{
	msg->reason = leat_get_le32(body);
	msg->spoken = leat_get_le16(body + 4);
	msg->text_len = leat_get_le16(body + 6);
	if (len != (uint32_t)EXCHANGE_BYE_LEN + msg->text_len) {
		*why = "length of the text doesn't fit the message";
		return -EPROTO;
	}
	msg->text = body + EXCHANGE_BYE_LEN;
	return 0;
}

int
exchange_wire_parse(const uint8_t *buf, size_t len, struct exchange_msg *msg, const char **why)
{
	uint32_t body_len, min, max;
	int ret = 0;

	if (len == 0)
		return 0;
	if (memcmp(buf, magic, len < sizeof(magic) ? len : sizeof(magic)) != 0) {
		*why = "it does not begin with LEAT";
		return -EPROTO;
	}
	if (len < EXCHANGE_HDR_LEN)
		return 0;

	memset(msg, 0, sizeof(*msg));
	msg->version = leat_get_le16(buf + 4);
	msg->type = leat_get_le16(buf + 6);
	body_len = leat_get_le32(buf + 12);
	if (msg->version != LEAT_EXCHANGE_VERSION && msg->type != EXCHANGE_REJECT) {
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
	if (len < EXCHANGE_HDR_LEN + (size_t)body_len)
		return 0;

	buf += EXCHANGE_HDR_LEN;
	if (msg->type == EXCHANGE_HELLO || msg->type == EXCHANGE_ACCEPT)
		ret = parse_hello(buf, body_len, msg, why);
	else if (msg->type == EXCHANGE_REJECT || msg->type == EXCHANGE_BYE)
		ret = parse_bye(buf, body_len, msg, why);
	return ret != 0 ? ret : (int)(EXCHANGE_HDR_LEN + body_len);
}

static size_t
put_header(uint8_t *buf, enum exchange_type type, size_t body_len)
{
	memcpy(buf, magic, sizeof(magic));
	leat_put_le16(buf + 4, LEAT_EXCHANGE_VERSION);
	leat_put_le16(buf + 6, (uint16_t)type);
	leat_put_le32(buf + 8, 0);
	leat_put_le32(buf + 12, (uint32_t)body_len);
	return EXCHANGE_HDR_LEN + body_len;
}

size_t
exchange_wire_hello(uint8_t *buf, enum exchange_type type, const char *kind,
		    const struct leat_exchange_data *data)
{
	uint8_t *p = buf + EXCHANGE_HDR_LEN;

	memset(p, 0, EXCHANGE_HELLO_LEN);
	memcpy(p, kind, strnlen(kind, LEAT_EXCHANGE_KIND_MAX - 1));
	leat_put_le16(p + LEAT_EXCHANGE_KIND_MAX, data->blob_len);
	leat_put_le16(p + LEAT_EXCHANGE_KIND_MAX + 2, data->priv_len);
	leat_put_le16(p + LEAT_EXCHANGE_KIND_MAX + 4, data->proof_len);
	p += EXCHANGE_HELLO_LEN;
	if (data->blob_len > 0)
		memcpy(p, data->blob, data->blob_len);
	if (data->priv_len > 0)
		memcpy(p + data->blob_len, data->priv, data->priv_len);
	if (data->proof_len > 0)
		memcpy(p + data->blob_len + data->priv_len, data->proof, data->proof_len);
	return put_header(buf, type,
			  (size_t)EXCHANGE_HELLO_LEN + data->blob_len + data->priv_len +
				  data->proof_len);
}

size_t
exchange_wire_bye(uint8_t *buf, enum exchange_type type, enum exchange_reason reason,
		  const char *text)
{
	size_t len = text == NULL ? 0 : strnlen(text, EXCHANGE_TEXT_MAX);
	uint8_t *p = buf + EXCHANGE_HDR_LEN;

	leat_put_le32(p, (uint32_t)reason);
	leat_put_le16(p + 4, LEAT_EXCHANGE_VERSION);
	leat_put_le16(p + 6, (uint16_t)len);
	if (len > 0)
		memcpy(p + EXCHANGE_BYE_LEN, text, len);
	return put_header(buf, type, EXCHANGE_BYE_LEN + len);
}

size_t
exchange_wire_empty(uint8_t *buf, enum exchange_type type)
{
	return put_header(buf, type, 0);
}

void
exchange_wire_text(char *dst, size_t size, const uint8_t *text, size_t len)
{
	size_t i;

	if (len > size - 1)
		len = size - 1;
	for (i = 0; i < len; i++)
		dst[i] = text[i] >= 0x20 && text[i] <= 0x7e ? (char)text[i] : '?';
	dst[len] = '\0';
}
