/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FOREIGN_WIRE_H
#define FOREIGN_WIRE_H

/*
 * The control messages of the Redis/Valkey RDMA protocol, byte for byte. All integers are
 * big-endian; bytes between the fields are zero when sent, and ignored when received.
 *
 * 	offset    0        2         4                  16          24       28
 * 	feature   opcode   select    reserved .................     features (64 bits)
 * 	keepalive opcode   reserved ...................................................
 * 	memory    opcode   reserved ..................  address     length   key
 */

#include <stdint.h>
#include <string.h>

#define CONTROL_LEN 32

enum opcode {
	OP_GET_SERVER_FEATURE = 0,
	OP_SET_CLIENT_FEATURE = 1,
	OP_KEEPALIVE = 2,
	OP_REGISTER_MEMORY = 3,
};

struct memory {
	uint64_t addr;
	uint32_t length;
	uint32_t key;
};

static inline void
wire_put(uint8_t *at, unsigned int bytes, uint64_t v)
{
	while (bytes-- > 0) {
		at[bytes] = (uint8_t)v;
		v >>= 8;
	}
}

static inline uint64_t
wire_get(const uint8_t *at, unsigned int bytes)
{
	uint64_t v = 0;

	while (bytes-- > 0)
		v = v << 8 | *at++;
	return v;
}

static inline void
wire_put_feature(uint8_t *msg, enum opcode opcode, uint16_t select, uint64_t features)
{
	memset(msg, 0, CONTROL_LEN);
	wire_put(msg, 2, opcode);
	wire_put(msg + 2, 2, select);
	wire_put(msg + 24, 8, features);
}

static inline void
wire_put_keepalive(uint8_t *msg)
{
	memset(msg, 0, CONTROL_LEN);
	wire_put(msg, 2, OP_KEEPALIVE);
}

static inline void
wire_put_memory(uint8_t *msg, const struct memory *m)
{
	memset(msg, 0, CONTROL_LEN);
	wire_put(msg, 2, OP_REGISTER_MEMORY);
	wire_put(msg + 16, 8, m->addr);
	wire_put(msg + 24, 4, m->length);
	wire_put(msg + 28, 4, m->key);
}

static inline void
wire_get_memory(const uint8_t *msg, struct memory *m)
{
	m->addr = wire_get(msg + 16, 8);
	m->length = (uint32_t)wire_get(msg + 24, 4);
	m->key = (uint32_t)wire_get(msg + 28, 4);
}

/* Are the bytes between the fields zero? */
static inline int
wire_reserved_zero(const uint8_t *msg)
{
	static const struct {
		uint8_t from, to;
	} reserved[] = {
		[OP_GET_SERVER_FEATURE] = { 4, 24 },
		[OP_SET_CLIENT_FEATURE] = { 4, 24 },
		[OP_KEEPALIVE] = { 2, 32 },
		[OP_REGISTER_MEMORY] = { 2, 16 },
	};
	uint64_t opcode = wire_get(msg, 2);
	unsigned int i;

	if (opcode > OP_REGISTER_MEMORY)
		return 0;
	for (i = reserved[opcode].from; i < reserved[opcode].to; i++) {
		if (msg[i] != 0)
			return 0;
	}
	return 1;
}

#endif /* FOREIGN_WIRE_H */
