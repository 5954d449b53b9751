/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The hello that each side sends when endpoints connect, as the exchange's raw address.
 * Little-endian, 32 bits each unless noted:
 *
 *     0   version
 *     4   number of slots
 *     8   size of the buffer, bytes
 *     12  number of chunks
 *     16  length of the longest datagram, bytes; 0: reliable endpoint
 *     20  the connection's bit on the sender's board (16 bits)
 *     22  flags (16 bits): 1: the sender may sleep; 2: peers can make the sender's processors
 *         execute a fence; 4: the sender shares memory
 *
 * Whether the sender asks for marks (dir.want, ring_mark.h) is in the lane, whose descriptor comes
 * with the hello.
 */

#include "leat_le.h"

#include "shm_pvt.h"

#define VERSION 3

#define F_WAIT 1
#define F_FENCES 2
#define F_SHARE 4

void
shm_hello_put(uint8_t *buf, const struct shm_hello *h)
{
	memset(buf, 0, SHM_HELLO_LEN);
	leat_put_le32(buf, VERSION);
	leat_put_le32(buf + 4, h->shape.nb);
	leat_put_le32(buf + 8, h->shape.nb_bytes);
	leat_put_le32(buf + 12, h->shape.nb_chunks);
	leat_put_le32(buf + 16, h->mtu);
	leat_put_le16(buf + 20, h->peer);
	leat_put_le16(buf + 22, (uint16_t)((h->wait ? F_WAIT : 0) | (h->fences ? F_FENCES : 0) |
					   (h->share ? F_SHARE : 0)));
}

static bool
power_of_two(uint32_t n, uint32_t min, uint32_t max)
{
	return n >= min && n <= max && (n & (n - 1)) == 0;
}

const char *
shm_hello_get(const uint8_t *buf, size_t len, bool datagram, struct shm_hello *h)
{
	if (len != SHM_HELLO_LEN || leat_get_le32(buf) != VERSION)
		return "it speaks another version";
	*h = (struct shm_hello){
		.shape = { .nb = leat_get_le32(buf + 4),
			   .datagram = datagram,
			   .nb_bytes = leat_get_le32(buf + 8),
			   .nb_chunks = leat_get_le32(buf + 12) },
		.mtu = leat_get_le32(buf + 16),
		.peer = leat_get_le16(buf + 20),
		.wait = (leat_get_le16(buf + 22) & F_WAIT) != 0,
		.fences = (leat_get_le16(buf + 22) & F_FENCES) != 0,
		.share = (leat_get_le16(buf + 22) & F_SHARE) != 0,
	};
	if (!power_of_two(h->shape.nb, RING_DEPTH_MIN, SHM_DEPTH_MAX) ||
	    h->shape.nb_bytes > SHM_SEGMENT_MAX || h->shape.nb_bytes % 128 != 0 ||
	    (datagram ? h->shape.nb_chunks != 0
		      : !power_of_two(h->shape.nb_chunks, 1, SHM_SEGMENT_MAX / RING_CHUNK)))
		return "its lane has an invalid shape";
	if (datagram ? h->mtu < RING_MTU_MIN || h->mtu > RING_MTU_MAX : h->mtu != 0)
		return "its datagrams have an invalid length";
	return NULL;
}
