/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The data that datagram endpoints send when they connect, in front of the application's private
 * data. The connection manager (IBA 12.11, service ID resolution) tells the connecting side the
 * queue pair of the accepting side, but not the other way round. Numbers are little-endian.
 *
 *     connect      0  "leat"                        accept       0  "leat"
 *                  4  version, 1                                 4  version, 1
 *                  5  length of the private data                 5  length of the private data
 *                  6  LID (InfiniBand; else 0)                   6  0
 *                  8  number of the queue pair                   8  Q_Key
 *                 12  Q_Key                                     12  private data
 *                 16  number of the attempt
 *                 20  private data
 *
 * If the answer is lost, the request is sent again with the same number of the attempt, so that a
 * listener that has accepted the attempt recognizes it.
 */

#include <string.h>

#include <leat_le.h>

#include "verbs_ud.h"

#define VERSION 1
/* Queue pair numbers have 24 bits; the fabric reserves 0 and 1. */
#define QPN_MIN 2
#define QPN_MAX 0xffffff
/* Q_Keys with the highest bit set are reserved for privileged users. */
#define QKEY_MAX 0x7fffffff

static const uint8_t magic[4] = { 'l', 'e', 'a', 't' };

/* Write the part that request and answer have in common, and the private data. */
static void
put_front(uint8_t *buf, uint32_t front, const struct vb_ud_hello *h)
{
	memset(buf, 0, front);
	memcpy(buf, magic, sizeof(magic));
	buf[4] = VERSION;
	buf[5] = h->priv_len;
	if (h->priv_len > 0)
		memcpy(buf + front, h->priv, h->priv_len);
}

/*
 * Parse the part that put_front() writes. The end of the private data does not follow from len,
 * because the connection manager pads with zeros.
 */
static bool
get_front(const uint8_t *buf, size_t len, uint32_t front, struct vb_ud_hello *h)
{
	memset(h, 0, sizeof(*h));
	if (len < front || memcmp(buf, magic, sizeof(magic)) != 0 || buf[4] != VERSION ||
	    buf[5] > len - front)
		return false;
	h->priv_len = buf[5];
	h->priv = buf + front;
	return true;
}

uint8_t
vb_ud_hello_put(uint8_t buf[VB_SIDR_CONNECT], const struct vb_ud_hello *h)
{
	put_front(buf, VB_UD_HELLO, h);
	leat_put_le16(buf + 6, h->lid);
	leat_put_le32(buf + 8, h->qpn);
	leat_put_le32(buf + 12, h->qkey);
	leat_put_le32(buf + 16, h->attempt);
	return (uint8_t)(VB_UD_HELLO + h->priv_len);
}

bool
vb_ud_hello_get(const uint8_t *buf, size_t len, struct vb_ud_hello *h)
{
	if (!get_front(buf, len, VB_UD_HELLO, h))
		return false;
	h->lid = leat_get_le16(buf + 6);
	h->qpn = leat_get_le32(buf + 8);
	h->qkey = leat_get_le32(buf + 12);
	h->attempt = leat_get_le32(buf + 16);
	return h->qpn >= QPN_MIN && h->qpn <= QPN_MAX && h->qkey <= QKEY_MAX;
}

uint8_t
vb_ud_welcome_put(uint8_t buf[VB_SIDR_ACCEPT], const struct vb_ud_hello *h)
{
	put_front(buf, VB_UD_WELCOME, h);
	leat_put_le32(buf + 8, h->qkey);
	return (uint8_t)(VB_UD_WELCOME + h->priv_len);
}

bool
vb_ud_welcome_get(const uint8_t *buf, size_t len, struct vb_ud_hello *h)
{
	if (!get_front(buf, len, VB_UD_WELCOME, h))
		return false;
	h->qkey = leat_get_le32(buf + 8);
	return h->qkey <= QKEY_MAX;
}
