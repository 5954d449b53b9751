/* SPDX-License-Identifier: BSD-3-Clause */

#include <string.h>

#include <rte_byteorder.h>

#include "stream_wire.h"

#define OFF_OPCODE 0
#define OFF_SELECT 2
#define OFF_TOKEN 4
#define OFF_KEY_HIGH 8
#define OFF_ADDR 16
#define OFF_TOTAL 16
#define OFF_LENGTH 24
#define OFF_FEATURES 24
#define OFF_KEY 28

static void
put16(uint8_t *to, uint16_t v)
{
	v = rte_cpu_to_be_16(v);
	memcpy(to, &v, sizeof(v));
}

static void
put32(uint8_t *to, uint32_t v)
{
	v = rte_cpu_to_be_32(v);
	memcpy(to, &v, sizeof(v));
}

static void
put64(uint8_t *to, uint64_t v)
{
	v = rte_cpu_to_be_64(v);
	memcpy(to, &v, sizeof(v));
}

static uint16_t
get16(const uint8_t *from)
{
	uint16_t v;

	memcpy(&v, from, sizeof(v));
	return rte_be_to_cpu_16(v);
}

static uint32_t
get32(const uint8_t *from)
{
	uint32_t v;

	memcpy(&v, from, sizeof(v));
	return rte_be_to_cpu_32(v);
}

static uint64_t
get64(const uint8_t *from)
{
	uint64_t v;

	memcpy(&v, from, sizeof(v));
	return rte_be_to_cpu_64(v);
}

void
stream_wire_encode(uint8_t *to, const struct stream_ctrl *c, bool wide)
{
	memset(to, 0, STREAM_CTRL_LEN);
	put16(to + OFF_OPCODE, c->opcode);
	switch (c->opcode) {
	case STREAM_OP_GET_FEATURES:
	case STREAM_OP_SET_FEATURES:
		put16(to + OFF_SELECT, c->select);
		put64(to + OFF_FEATURES, c->features);
		break;
	case STREAM_OP_MEMORY:
		put64(to + OFF_ADDR, c->addr);
		put32(to + OFF_LENGTH, c->length);
		put32(to + OFF_KEY, (uint32_t)c->key);
		if (!wide)
			break;
		put32(to + OFF_TOKEN, c->token);
		put32(to + OFF_KEY_HIGH, (uint32_t)(c->key >> 32));
		break;
	case STREAM_OP_END:
		put64(to + OFF_TOTAL, c->total);
		break;
	default:
		break;
	}
}

void
stream_wire_decode(struct stream_ctrl *c, const uint8_t *from, bool wide)
{
	memset(c, 0, sizeof(*c));
	c->opcode = get16(from + OFF_OPCODE);
	switch (c->opcode) {
	case STREAM_OP_GET_FEATURES:
	case STREAM_OP_SET_FEATURES:
		c->select = get16(from + OFF_SELECT);
		c->features = get64(from + OFF_FEATURES);
		break;
	case STREAM_OP_MEMORY:
		c->addr = get64(from + OFF_ADDR);
		c->length = get32(from + OFF_LENGTH);
		c->key = get32(from + OFF_KEY);
		if (!wide)
			break;
		c->token = get32(from + OFF_TOKEN);
		c->key |= (uint64_t)get32(from + OFF_KEY_HIGH) << 32;
		break;
	case STREAM_OP_END:
		c->total = get64(from + OFF_TOTAL);
		break;
	default:
		break;
	}
}
