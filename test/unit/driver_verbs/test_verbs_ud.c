/* SPDX-License-Identifier: BSD-3-Clause */

/* Datagrams, without a device: the map of senders, and the messages that connect endpoints. */

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>

#include <leat_cmocka.h>

#include "ud/verbs_ud.h"

#define PEERS 64

static struct vb_sender
from_nr(uint32_t i)
{
	struct vb_sender f;

	memset(&f, 0, sizeof(f));
	/*
	 * 8 QP numbers and few GIDs: many senders differ only in the QP number or only in the GID.
	 */
	f.gid.raw[10] = f.gid.raw[11] = 0xff;
	f.gid.raw[15] = (uint8_t)(i / 8);
	f.qpn = 17 + i % 8;
	return f;
}

/* @return the peer of this sender that was added last before moment; LEAT_PEER_ANY: none */
static uint16_t
last_before(const uint32_t *who, const uint32_t *order, uint32_t sender, uint32_t moment)
{
	uint16_t last = LEAT_PEER_ANY;
	uint16_t i;

	for (i = 0; i < PEERS; i++) {
		if (order[i] != 0 && order[i] < moment && who[i] == sender &&
		    (last == LEAT_PEER_ANY || order[i] > order[last]))
			last = i;
	}
	return last;
}

/* The map finds the same peers of a sender as a list, the one that was added last first. */
static void
map(void **state)
{
	struct vb_sender_map m;
	uint32_t who[PEERS], order[PEERS], clock = 0, step, i, k;
	uint64_t rnd = 1;

	(void)state;
	assert_int_equal(vb_sender_init(&m, PEERS), 0);
	/* order[i] is 0 if peer i is not in the map, or else the time at which it was added */
	memset(order, 0, sizeof(order));
	for (step = 0; step < 20000; step++) {
		struct vb_sender f;

		rnd = rnd * UINT64_C(6364136223846793005) + 1442695040888963407;
		i = (uint32_t)(rnd >> 33) % PEERS;
		if (order[i] == 0) {
			who[i] = (uint32_t)(rnd >> 45) % (PEERS / 2);
			order[i] = ++clock;
			f = from_nr(who[i]);
			vb_sender_add(&m, &f, (uint16_t)i);
		} else {
			f = from_nr(who[i]);
			vb_sender_del(&m, &f, (uint16_t)i);
			vb_sender_del(&m, &f, (uint16_t)i); /* does nothing */
			order[i] = 0;
		}
		for (k = 0; k < PEERS / 2; k++) {
			uint16_t want = last_before(who, order, k, UINT32_MAX), found;

			f = from_nr(k);
			found = vb_sender_find(&m, &f);
			assert_int_equal(found, want);
			while (found != LEAT_PEER_ANY) {
				want = last_before(who, order, k, order[want]);
				found = vb_sender_older(&m, &f, found);
				assert_int_equal(found, want);
			}
		}
	}
	free(m.rows);
}

/*
 * The sender is found in the header in front of a datagram: IPv4, IPv6, InfiniBand without a GRH.
 */
static void
headers(void **state)
{
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH, .src_qp = 0x1234, .slid = 0x0506 };
	/* 10.97.0.1 -> 10.97.0.2, UDP, with its checksum */
	uint8_t v4[] = { 0x45, 0, 0x04, 0x1c, 0, 0, 0x40, 0,  0x40, 0x11,
			 0,    0, 10,	97,   0, 1, 10,	  97, 0,    2 };
	uint8_t grh[VB_GRH];
	uint32_t i, sum = 0;
	struct vb_sender f, w;

	(void)state;
	for (i = 0; i < 20; i += 2)
		sum += (uint32_t)v4[i] << 8 | v4[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~((sum & 0xffff) + (sum >> 16)) & 0xffff;
	v4[10] = (uint8_t)(sum >> 8);
	v4[11] = (uint8_t)sum;

	memset(grh, 0, sizeof(grh));
	memcpy(grh + 20, v4, sizeof(v4));
	vb_sender_wc(&f, &wc, grh);
	assert_int_equal(f.qpn, 0x1234);
	assert_int_equal(inet_pton(AF_INET6, "::ffff:10.97.0.1", w.gid.raw), 1);
	assert_memory_equal(f.gid.raw, w.gid.raw, 16);
	/*
	 * The first 20 B of an IPv4 GRH are not written, and may hold anything, even what looks
	 * like IPv6.
	 */
	memset(grh, 0x66, 20);
	vb_sender_wc(&f, &wc, grh);
	assert_memory_equal(f.gid.raw, w.gid.raw, 16);

	/* IPv6, with an address that looks like an IPv4 header. */
	assert_int_equal(inet_pton(AF_INET6, "fd97::4500:041c", w.gid.raw), 1);
	memset(grh, 0, sizeof(grh));
	grh[0] = 0x60;
	memcpy(grh + 8, w.gid.raw, 16);
	assert_int_equal(inet_pton(AF_INET6, "fd97::2", grh + 24), 1);
	assert_int_equal(grh[20], 0x45);
	vb_sender_wc(&f, &wc, grh);
	assert_memory_equal(f.gid.raw, w.gid.raw, 16);

	/* InfiniBand, without a GRH. */
	wc.wc_flags = 0;
	vb_sender_wc(&f, &wc, grh);
	vb_sender_lid(&w, 0x0506, 0x1234);
	assert_memory_equal(f.gid.raw, w.gid.raw, 16);
	assert_int_equal(f.qpn, 0x1234);
	vb_sender_lid(&f, 0x0507, 0x1234);
	assert_memory_not_equal(f.gid.raw, w.gid.raw, 16);
}

/* Other versions of leat read these messages, so their bytes must not change. */
static void
bytes(void **state)
{
	static const uint8_t hello[] = { 'l',  'e',  'a',  't',	 1,    3,    0x0b, 0x0a,
					 0x56, 0x34, 0x12, 0x00, 0x74, 0x73, 0x72, 0x71,
					 0x84, 0x83, 0x82, 0x81, 'x',  'y',  'z' };
	static const uint8_t welcome[] = { 'l', 'e',  'a',  't',  1,	2,   0,
					   0,	0x14, 0x13, 0x12, 0x11, 'o', 'k' };
	struct vb_ud_hello h = { .qpn = 0x123456,
				 .qkey = 0x71727374,
				 .attempt = 0x81828384,
				 .lid = 0x0a0b,
				 .priv = (const uint8_t *)"xyz",
				 .priv_len = 3 },
			   got;
	uint8_t buf[VB_SIDR_CONNECT];

	(void)state;
	memset(buf, 0, sizeof(buf));
	assert_int_equal(vb_ud_hello_put(buf, &h), sizeof(hello));
	assert_memory_equal(buf, hello, sizeof(hello));
	/* The hello arrives with zeros after it. */
	assert_true(vb_ud_hello_get(buf, sizeof(buf), &got));
	assert_int_equal(got.qpn, h.qpn);
	assert_int_equal(got.qkey, h.qkey);
	assert_int_equal(got.attempt, h.attempt);
	assert_int_equal(got.lid, h.lid);
	assert_int_equal(got.priv_len, 3);
	assert_memory_equal(got.priv, "xyz", 3);

	h = (struct vb_ud_hello){ .qkey = 0x11121314,
				  .priv = (const uint8_t *)"ok",
				  .priv_len = 2 };
	memset(buf, 0, sizeof(buf));
	assert_int_equal(vb_ud_welcome_put(buf, &h), sizeof(welcome));
	assert_memory_equal(buf, welcome, sizeof(welcome));
	assert_true(vb_ud_welcome_get(buf, VB_SIDR_ACCEPT, &got));
	assert_int_equal(got.qkey, 0x11121314);
	assert_int_equal(got.priv_len, 2);
	assert_memory_equal(got.priv, "ok", 2);
}

static void
hostile(void **state)
{
	struct vb_ud_hello h = { .qpn = 2, .qkey = 1, .attempt = 1 }, got;
	uint8_t good[VB_SIDR_CONNECT], bad[VB_SIDR_CONNECT];
	size_t len;

	(void)state;
	memset(good, 0, sizeof(good));
	(void)vb_ud_hello_put(good, &h);
	for (len = 0; len < VB_UD_HELLO; len++)
		assert_false(vb_ud_hello_get(good, len, &got));
	assert_true(vb_ud_hello_get(good, VB_UD_HELLO, &got));
#define BAD(at, value)                                                                             \
	do {                                                                                       \
		memcpy(bad, good, sizeof(bad));                                                    \
		bad[at] = (value);                                                                 \
		assert_false(vb_ud_hello_get(bad, sizeof(bad), &got));                             \
	} while (0)
	BAD(0, 'L');
	BAD(4, 2);				   /* version */
	BAD(5, VB_SIDR_CONNECT - VB_UD_HELLO + 1); /* more data than the message has room for */
	BAD(5, 255);
	BAD(11, 1); /* a QP number of 25 bits */
	BAD(8, 0);  /* QP 0 and QP 1 belong to the fabric's management */
	BAD(8, 1);
	BAD(15, 0x80); /* a privileged key */
	memcpy(bad, good, sizeof(bad));
	bad[5] = VB_SIDR_CONNECT - VB_UD_HELLO;
	assert_true(vb_ud_hello_get(bad, sizeof(bad), &got));
	assert_ptr_equal(got.priv + got.priv_len, bad + sizeof(bad));
	assert_false(vb_ud_hello_get(bad, sizeof(bad) - 1, &got));

	memset(good, 0, sizeof(good));
	(void)vb_ud_welcome_put(good, &h);
	for (len = 0; len < VB_UD_WELCOME; len++)
		assert_false(vb_ud_welcome_get(good, len, &got));
	good[11] = 0x80;
	assert_false(vb_ud_welcome_get(good, VB_UD_WELCOME, &got));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(map),
		cmocka_unit_test(headers),
		cmocka_unit_test(bytes),
		cmocka_unit_test(hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
