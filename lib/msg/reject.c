/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Rejecting a connection request with a reason.
 *
 * Not every device's reject carries a text, but an accept carries private data. So a connector that
 * sent a hello is accepted with a hello that has "rejected" set, and the reason behind it, and then
 * is disconnected. The connection never comes up, and nothing is sent. A connector without a hello
 * is rejected by the fabric, without a reason.
 */

#include <errno.h>
#include <stdio.h>

#include "msg_pvt.h"

int
leat_msg_reject(struct leat_msg *m, const struct leat_event *ev, const char *why)
{
	uint8_t buf[LEAT_EP_PRIV_MAX];
	struct leat_conn_params params = { .priv = buf };
	struct msg_hello h;
	size_t len = why == NULL ? 0 : strnlen(why, LEAT_MSG_PRIV_MAX);

	if (len == 0 || m->priv_max[1] <= LEAT_MSG_HELLO_LEN ||
	    msg_hello_get(ev->priv, ev->priv_len, &h) != 1)
		return leat_ep_reject(m->ep, ev->peer);
	len = RTE_MIN(len, (size_t)m->priv_max[1] - LEAT_MSG_HELLO_LEN);
	h = (struct msg_hello){ .credits = m->credits,
				.eager_max = m->eager_max,
				.priv_len = (uint16_t)len,
				.rejected = true };
	msg_hello_put(buf, &h);
	memcpy(buf + LEAT_MSG_HELLO_LEN, why, len);
	params.priv_len = (uint16_t)(LEAT_MSG_HELLO_LEN + len);
	/* If the device can't accept, the connector learns at least that it is rejected. */
	if (leat_ep_accept(m->ep, ev->peer, &params) < 0)
		return leat_ep_reject(m->ep, ev->peer);
	m->rejected[ev->peer] = true;
	return 0;
}

bool
msg_reject_event(struct leat_msg *m, const struct leat_event *ev)
{
	if (!m->rejected[ev->peer])
		return false;
	/* The connector has the reason by now, and most likely has disconnected. */
	if (ev->type == LEAT_EV_CONNECTED)
		(void)leat_ep_disconnect(m->ep, ev->peer);
	else
		m->rejected[ev->peer] = false;
	return true;
}

void
msg_rejected(struct leat_msg_conn *c, const struct msg_hello *h, const uint8_t *why)
{
	char text[LEAT_EVENT_TEXT];
	uint16_t i, n = (uint16_t)RTE_MIN((size_t)h->priv_len, sizeof(text) - 1);

	/* Replace control characters, since the text goes to logs and terminals. */
	for (i = 0; i < n; i++)
		text[i] = why[i] >= ' ' && why[i] != 0x7f ? (char)why[i] : '?';
	text[n] = '\0';
	msg_fail(c, -ECONNREFUSED, "rejected: %s", text);
}
