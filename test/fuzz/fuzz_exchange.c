/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The parser of the address exchange's messages, fed with arbitrary bytes. Building an accepted
 * message again must give the same bytes. Each shorter prefix of a message must be reported as
 * incomplete, neither accepted nor refused.
 */

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "exchange_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(bool ok)
{
	if (!ok)
		abort();
}

static void
check_rebuilt(const uint8_t *buf, int len, const struct exchange_msg *msg)
{
	struct leat_exchange_data parts = { .blob = msg->blob,
					    .priv = msg->priv,
					    .blob_len = msg->blob_len,
					    .priv_len = msg->priv_len,
					    .proof = msg->proof,
					    .proof_len = msg->proof_len };
	uint8_t out[EXCHANGE_MSG_MAX];
	char text[EXCHANGE_TEXT_MAX + 1];
	size_t n = 0;

	check(msg->type >= EXCHANGE_HELLO && msg->type <= EXCHANGE_NOTE);
	if (msg->type == EXCHANGE_HELLO || msg->type == EXCHANGE_ACCEPT) {
		check(memchr(msg->kind, 0, sizeof(msg->kind)) != NULL);
		check(msg->blob_len <= LEAT_EXCHANGE_BLOB_MAX &&
		      msg->priv_len <= LEAT_EXCHANGE_PRIV_MAX);
		n = exchange_wire_hello(out, (enum exchange_type)msg->type, msg->kind, &parts);
	} else if (msg->type == EXCHANGE_READY || msg->type == EXCHANGE_PROOF ||
		   msg->type == EXCHANGE_NOTE) {
		n = exchange_wire_empty(out, (enum exchange_type)msg->type);
	} else {
		check(msg->text_len <= EXCHANGE_TEXT_MAX);
		exchange_wire_text(text, sizeof(text), msg->text, msg->text_len);
		check(strlen(text) == msg->text_len);
		/*
		 * Don't compare: REJECT may have any version, and a text with a NUL is shorter when
		 * built again.
		 */
		return;
	}
	check(n == (size_t)len && memcmp(out, buf, n) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *why = NULL;
	struct exchange_msg msg, part;
	size_t i, short_of;
	int len;

	if (size > EXCHANGE_MSG_MAX)
		size = EXCHANGE_MSG_MAX;
	len = exchange_wire_parse(data, size, &msg, &why);
	if (len == -EPROTO || len == -EPROTONOSUPPORT) {
		check(why != NULL);
		return 0;
	}
	check(len >= 0 && (size_t)len <= size);
	if (len > 0)
		check_rebuilt(data, len, &msg);
	short_of = len > 0 ? (size_t)len : size;
	for (i = 0; i < short_of; i++)
		check(exchange_wire_parse(data, i, &part, &why) == 0);
	return 0;
}
