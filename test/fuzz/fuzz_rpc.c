/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The parsers of lib/rpc, fed with arbitrary bytes. Building an accepted packet again must give the
 * same bytes; a hello may be followed by the application's data, or by padding.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "leat_rpc_violation.h"
#include "rpc_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(bool ok)
{
	if (!ok)
		abort();
}

/* Parse the description of memory at the beginning of an item, as lib/rpc does on arrival. */
static void
described(const uint8_t *data, const struct rpc_item *m)
{
	uint8_t out[RPC_BULK_HEAD_LEN + LEAT_RPC_BULK_MAX * RPC_BULK_DESC_LEN];
	struct rpc_desc d[LEAT_RPC_BULK_MAX];
	struct rpc_bulk_msg msg;
	int n;

	if ((m->flags & RPC_F_BULK) != 0) {
		n = rpc_descs_get(data, m->len, d);
		check(n <= LEAT_RPC_BULK_MAX);
		if (n <= 0)
			return;
		check(rpc_bulk_len((uint32_t)n) <= m->len);
		rpc_descs_put(out, d, (uint32_t)n);
		check(memcmp(out, data, rpc_bulk_len((uint32_t)n)) == 0);
	} else if ((m->flags & RPC_F_INTERNAL) != 0 && rpc_bulk_msg_get(data, m->len, &msg) == 0) {
		rpc_bulk_msg_put(out, &msg);
		check(memcmp(out, data, RPC_BULK_MSG_LEN) == 0);
	}
}

static void
items(const uint8_t *data, size_t size, size_t at)
{
	static uint8_t out[LEAT_RPC_PACKET_MAX + RPC_PIECE_LEN + 8];
	struct rpc_item m;
	int bad;

	for (; at < size; at += rpc_item_full_len(&m)) {
		bad = rpc_item_get(data + at, size - at, &m);
		check(bad >= 0 && bad < LEAT_RPC_VIOLATIONS);
		if (bad != 0)
			return;
		check(rpc_item_full_len(&m) <= size - at);
		check(m.off <= m.size && m.len <= m.size - m.off);
		if (m.kind == RPC_REQUEST)
			described(data + at + rpc_item_head_len(&m), &m);
		memcpy(out + rpc_item_head_len(&m), data + at + rpc_item_head_len(&m), m.len);
		rpc_item_put(out, &m);
		check(memcmp(out, data + at, rpc_item_full_len(&m)) == 0);
	}
}

static void
packet(const uint8_t *data, size_t size)
{
	uint8_t out[RPC_HEAD_LEN + RPC_NUMBERS_LEN];
	struct rpc_numbers n;
	struct rpc_head h;
	int bad;

	bad = rpc_head_get(data, size, &h);
	check(bad >= 0 && bad < LEAT_RPC_VIOLATIONS);
	if (bad != 0)
		return;
	rpc_head_put(out, &h);
	check(memcmp(out, data, RPC_HEAD_LEN) == 0);
	items(data, size, RPC_HEAD_LEN);
	/* Parse the bytes as a datagram. */
	bad = rpc_numbers_get(data, size, h.flags, &n);
	check(bad >= 0 && bad < LEAT_RPC_VIOLATIONS);
	if (bad != 0)
		return;
	rpc_numbers_put(out, &n);
	check(memcmp(out, data, sizeof(out)) == 0);
	items(data, size, sizeof(out));
}

static void
hello(const uint8_t *data, size_t size)
{
	uint8_t out[RPC_HELLO_LEN];
	struct rpc_hello h;

	if (rpc_hello_get(data, size, &h) != NULL)
		return;
	check(size >= RPC_HELLO_LEN && h.priv_len <= size - RPC_HELLO_LEN);
	if (h.refused == RPC_REFUSED_NOT)
		check(h.credits >= LEAT_RPC_CREDITS_MIN && h.slots > 0 &&
		      h.packet >= LEAT_RPC_PACKET_MIN && h.packet <= LEAT_RPC_PACKET_MAX);
	rpc_hello_put(out, &h);
	check(memcmp(out, data, RPC_HELLO_LEN) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > LEAT_RPC_PACKET_MAX)
		return 0;
	packet(data, size);
	hello(data, size);
	return 0;
}
