/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The hello, which two endpoints send each other in the private data of connect and accept. The
 * connection is in leat mode if both sent one. A side's hello has the limits for what the other
 * side sends to it.
 *
 *     offset  size
 *          0     4  "LMSG", the magic
 *          4     1  version, 4
 *          5     1  0; 1: the connection is refused, and the private data are a text that says why
 *          6     2  credits: messages that may be sent before the first credits come
 *          8     8  number of the connection, 46 bits: goes into tags
 *         16     8  max_size: longest message, bytes
 *         24     4  eager_max: longest message that travels with its head, bytes
 *         28     2  length of the application's private data, which follow
 *         30     2  0
 *
 * All numbers are little-endian. Private data without the magic, or of another version, are the
 * application's: plain mode.
 */

#include <errno.h>
#include <inttypes.h>

#include <leat_le.h>

#include "msg_pvt.h"

#define VERSION 4

static const uint8_t magic[4] = { 'L', 'M', 'S', 'G' };

void
msg_hello_put(uint8_t *buf, const struct msg_hello *h)
{
	memset(buf, 0, LEAT_MSG_HELLO_LEN);
	memcpy(buf, magic, sizeof(magic));
	buf[4] = VERSION;
	buf[5] = h->rejected;
	leat_put_le16(buf + 6, h->credits);
	leat_put_le64(buf + 8, h->conn);
	leat_put_le64(buf + 16, h->max_size);
	leat_put_le32(buf + 24, h->eager_max);
	leat_put_le16(buf + 28, h->priv_len);
}

int
msg_hello_get(const uint8_t *buf, uint16_t len, struct msg_hello *h)
{
	if (len < LEAT_MSG_HELLO_LEN || memcmp(buf, magic, sizeof(magic)) != 0 || buf[4] != VERSION)
		return 0;
	h->rejected = buf[5] != 0;
	h->credits = leat_get_le16(buf + 6);
	h->conn = leat_get_le64(buf + 8);
	h->max_size = leat_get_le64(buf + 16);
	h->eager_max = leat_get_le32(buf + 24);
	h->priv_len = leat_get_le16(buf + 28);
	/* Padding may follow the private data (leat_dev_info.priv_padded). */
	if (h->conn > MSG_CONN_MASK || h->credits < 2 || h->credits > LEAT_MSG_CREDITS_MAX ||
	    h->eager_max == 0 || h->eager_max > LEAT_MSG_EAGER_MAX ||
	    h->priv_len > len - LEAT_MSG_HELLO_LEN)
		return leat_err(EPROTO,
				"the other side's hello is malformed: number %#" PRIx64
				", %u credits, eager %u B, "
				"%u B of private data in %u B",
				h->conn, h->credits, h->eager_max, h->priv_len, len);
	return 1;
}

const void *
leat_msg_priv(const struct leat_event *ev, uint16_t *len)
{
	struct msg_hello h;

	if (msg_hello_get(ev->priv, ev->priv_len, &h) == 1) {
		*len = h.priv_len;
		return ev->priv + LEAT_MSG_HELLO_LEN;
	}
	*len = ev->priv_len;
	return ev->priv;
}
