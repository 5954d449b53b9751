/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RB_CONTENT_H
#define RB_CONTENT_H

/*
 * Contents of requests and responses.
 *
 *     request    | id        | key + G   | key + 2 G | ...       words of 8 bytes, little-endian,
 *     response   | key'      | key' + G  | key' + 2 G | ...      the last one cut to the length
 *
 *     id    the caller's node, 17 bits, and the number of requests that it had created, 44 bits
 *     key   hash of id, the called node, the kind of the call and the request's length
 *     key'  hash of key and the response's length
 *
 * So the receiver detects a message that belongs to another call, another peer or an earlier time,
 * and a message that contains a part of another message. In a request shorter than 8 bytes the id
 * is cut to the request's length.
 */

#include <endian.h>
#include <stdint.h>
#include <string.h>

#define RB_GOLDEN UINT64_C(0x9e3779b97f4a7c15)
#define RB_ID_SEQ_BITS 44
#define RB_ID_LEN 8u

/*
 * The finalizer of SplitMix64 (G. Steele, D. Lea, C. Flood: Fast Splittable Pseudorandom Number
 * Generators, 2014).
 */
static inline uint64_t
rb_mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static inline uint64_t
rb_random(uint64_t *state)
{
	return rb_mix(*state += RB_GOLDEN);
}

static inline uint64_t
rb_id(uint32_t node, uint64_t seq)
{
	return (uint64_t)node << RB_ID_SEQ_BITS | (seq & ((UINT64_C(1) << RB_ID_SEQ_BITS) - 1));
}

static inline uint32_t
rb_id_node(uint64_t id)
{
	return (uint32_t)(id >> RB_ID_SEQ_BITS);
}

static inline uint64_t
rb_id_seq(uint64_t id)
{
	return id & ((UINT64_C(1) << RB_ID_SEQ_BITS) - 1);
}

/* Return the seed of all requests of a kind from one node to another. */
static inline uint64_t
rb_content_seed(uint64_t seed, uint32_t caller, uint32_t called, uint8_t kind)
{
	return rb_mix(rb_mix(rb_mix(seed) + kind) ^ (uint64_t)caller << 32 ^ called);
}

static inline uint64_t
rb_request_key(uint64_t content_seed, uint64_t id, uint32_t len)
{
	return rb_mix((content_seed ^ id) + len * UINT64_C(0xd6e8feb86659fd93));
}

static inline uint64_t
rb_response_key(uint64_t key, uint32_t len)
{
	return (key ^ key >> 29) * UINT64_C(0xd6e8feb86659fd93) + len;
}

/* Cut an id to the part that a request of len bytes has room for. */
static inline uint64_t
rb_id_cut(uint64_t id, uint32_t len)
{
	return len >= RB_ID_LEN ? id : id & ((UINT64_C(1) << len * 8) - 1);
}

static inline void
rb_id_put(void *buf, uint32_t len, uint64_t id)
{
	id = htole64(id);
	memcpy(buf, &id, len < RB_ID_LEN ? len : RB_ID_LEN);
}

static inline uint64_t
rb_id_get(const void *buf, uint32_t len)
{
	uint64_t id = 0;

	memcpy(&id, buf, len < RB_ID_LEN ? len : RB_ID_LEN);
	return le64toh(id);
}

/* A pair of words. All processors that leat supports have vectors of 16 bytes. */
typedef uint64_t rb_words __attribute__((vector_size(16)));

static inline rb_words
rb_words_le(rb_words w)
{
	return (rb_words){ htole64(w[0]), htole64(w[1]) };
}

/* Write bytes off to len - 1; off is a multiple of 8. */
static inline void
rb_fill(void *buf, uint32_t off, uint32_t len, uint64_t key)
{
	const rb_words step = { 2 * RB_GOLDEN, 2 * RB_GOLDEN };
	uint8_t *p = (uint8_t *)buf;
	uint64_t k = key + off / 8 * RB_GOLDEN, w;
	rb_words at = { k, k + RB_GOLDEN }, le;

	for (; off + 16 <= len; off += 16, at += step) {
		le = rb_words_le(at);
		memcpy(p + off, &le, 16);
	}
	k = at[0];
	if (off + 8 <= len) {
		w = htole64(k);
		memcpy(p + off, &w, 8);
		off += 8;
		k = at[1];
	}
	if (off < len) {
		w = htole64(k);
		memcpy(p + off, &w, len - off);
	}
}

static inline uint8_t
rb_content_byte(uint32_t off, uint64_t key)
{
	return (uint8_t)((key + off / 8 * RB_GOLDEN) >> off % 8 * 8);
}

/*
 * Verify bytes off to len - 1; off is a multiple of 8. @return len, or the offset of the first
 * wrong byte
 */
static inline uint32_t
rb_verify(const void *buf, uint32_t off, uint32_t len, uint64_t key)
{
	const rb_words step = { 2 * RB_GOLDEN, 2 * RB_GOLDEN };
	const uint64_t k = key + off / 8 * RB_GOLDEN;
	const uint8_t *p = (const uint8_t *)buf;
	rb_words at = { k, k + RB_GOLDEN }, w, bad = { 0, 0 };
	uint32_t i = off;
	uint64_t last;

	for (; i + 16 <= len; i += 16, at += step) {
		memcpy(&w, p + i, 16);
		bad |= w ^ rb_words_le(at);
	}
	if (i + 8 <= len) {
		memcpy(&last, p + i, 8);
		bad[0] |= last ^ htole64(at[0]);
		i += 8;
	}
	/* Find the wrong byte; verify the last bytes one by one. */
	if (__builtin_expect((bad[0] | bad[1]) != 0, 0))
		i = off;
	while (i < len && p[i] == rb_content_byte(i, key))
		i++;
	return i;
}

#endif /* RB_CONTENT_H */
