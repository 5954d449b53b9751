/* SPDX-License-Identifier: BSD-3-Clause */

#include "datagram_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_common.h>

#include <leat_error.h>

#include "telemetry_client.h"

const struct leat_ep_conf datagrams = {
	.type = LEAT_EP_DATAGRAM, .ops = LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV)
};

struct leat_op datagram_recvs[NB];
uint8_t datagram_in[NB][MTU];

static int sock;

int
datagram_test_start(void **state)
{
	static char prog[] = "test_ring_datagram", pci[] = "--no-pci";
	static char d0[] = "--vdev=" DATAGRAM ",type=datagram";
	static char d1[] = "--vdev=" SHORT ",type=datagram,mtu=1000,inline=0,depth=16";
	static char d2[] = "--vdev=" TINY ",type=datagram,mtu=8";
	static char log[] = "--log-level=leat.*:warning";
	char *argv[] = { prog, pci, log, d0, d1, d2, NULL };

	(void)state;
	if (leat_init(RTE_DIM(argv) - 1, argv) < 0) {
		print_error("leat_init: %s\n", leat_err_msg());
		return -1;
	}
	sock = telemetry_dial();
	return sock < 0 ? -1 : 0;
}

int
datagram_test_stop(void **state)
{
	close(sock);
	return ring_test_stop(state);
}

void
datagram_fill(uint8_t *buf, size_t len, uint64_t seed)
{
	size_t i;

	for (i = 0; i < len; i++)
		buf[i] = (uint8_t)(test_random(&seed) >> 32);
}

void
datagram_check(const uint8_t *buf, size_t len, uint64_t seed)
{
	size_t i, wrong = 0;

	for (i = 0; i < len; i++)
		wrong += buf[i] != (uint8_t)(test_random(&seed) >> 32);
	assert_int_equal(wrong, 0);
}

void
datagram_one(const struct ring_pair *p, size_t size, unsigned int way)
{
	static uint8_t out[MTU], in[MTU + 3];
	struct leat_op s = ring_test_send(p->pa, out, size);
	struct leat_op r = ring_test_recv(in, size + way % 3);

	if ((way & WITH_IMM) != 0) {
		s.flags = LEAT_OP_F_IMM;
		s.imm = size ^ UINT64_C(0x123456789abcdef0);
	}
	if ((way & OFF_QUEUE) != 0)
		s.queue = LEAT_QUEUE_NONE;
	if ((way & DIRECTED) != 0)
		r.peer = p->pb;
	datagram_fill(out, size, size + 1);
	memset(in, 0x55, sizeof(in));
	ring_test_post(p->b, &r);
	ring_test_post(p->a, &s);
	/* The send is complete: the device does not read its buffer any more. */
	memset(out, 0xaa, sizeof(out));
	assert_ptr_equal(ring_test_wait(p->a), &s);
	assert_int_equal(s.status, 0);
	assert_ptr_equal(ring_test_wait(p->b), &r);
	assert_int_equal(r.status, 0);
	assert_int_equal(r.len, size);
	assert_int_equal(r.src, p->pb);
	assert_int_equal(r.oflags, (way & WITH_IMM) != 0 ? LEAT_OP_F_IMM : 0);
	if ((way & WITH_IMM) != 0)
		assert_int_equal(r.imm, s.imm);
	datagram_check(in, size, size + 1);
	assert_int_equal(in[size], 0x55);
}

void
datagram_expect(const struct ring_pair *p, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		datagram_recvs[i] = ring_test_recv(datagram_in[i], MTU);
		ring_test_post(p->b, &datagram_recvs[i]);
	}
}

void
datagram_flood(const struct ring_pair *p, size_t size, uint32_t n, uint16_t burst)
{
	static struct leat_op tx[64];
	static uint8_t out[64][MTU];
	struct leat_op *ops[64], *done[64];
	uint32_t i;
	uint16_t k;

	for (i = 0; i < n; i += burst) {
		for (k = 0; k < burst; k++) {
			uint32_t nr = i + k;

			memcpy(out[k], &nr, sizeof(nr));
			tx[k] = ring_test_send(p->pa, out[k], size);
			ops[k] = &tx[k];
		}
		assert_int_equal(leat_ep_post(p->a, ops, burst), burst);
		assert_int_equal(leat_ep_poll(p->a, done, 64), burst);
		for (k = 0; k < burst; k++)
			assert_int_equal(done[k]->status, 0);
	}
}

uint32_t
datagram_nr(const struct leat_op *op)
{
	uint32_t nr;

	memcpy(&nr, op->buf, sizeof(nr));
	return nr;
}

uint64_t
datagram_lost(const struct leat_ep *ep, const char *what)
{
	char name[32];

	snprintf(name, sizeof(name), "lost_%s", what);
	return telemetry_counter(sock, "/leat/ring", leat_ep_id(ep), name);
}
