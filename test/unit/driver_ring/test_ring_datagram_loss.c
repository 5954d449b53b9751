/* SPDX-License-Identifier: BSD-3-Clause */

/* Datagrams that are lost, endpoints that close, and how much memory connections take. */

#include "datagram_test.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <rte_common.h>

#include <leat_error.h>

/* ---- lost datagrams ---- */

/* A full ring drops new messages, and none that it holds; the sender's ops still succeed. */
static void
full(void **state)
{
	static const size_t sizes[] = { 8, 96, 97, 1024, 1025, MTU };
	struct leat_op *done[64];
	struct ring_pair p;
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(sizes); i++) {
		uint32_t room = BUFFER / RTE_ALIGN_CEIL((uint32_t)sizes[i], 64u), got = 0;
		uint16_t k, n;

		if (sizes[i] <= 96 || room > SLOTS)
			room = SLOTS;
		ring_pair_open(&p, DATAGRAM, &datagrams);
		datagram_flood(&p, sizes[i], 2 * SLOTS, i % 2 == 0 ? 64 : 1);
		assert_int_equal(datagram_lost(p.a, "full"), 2 * SLOTS - room);
		datagram_expect(&p, 64);
		while (got < room) {
			n = leat_ep_poll(p.b, done, 64);
			assert_true(n > 0);
			for (k = 0; k < n; k++) {
				assert_int_equal(done[k]->len, sizes[i]);
				assert_int_equal(datagram_nr(done[k]), got++);
				assert_int_equal(leat_ep_post(p.b, &done[k], 1), 1);
			}
		}
		assert_int_equal(leat_ep_poll(p.b, done, 64), 0);
		datagram_flood(&p, sizes[i], 1, 1);
		assert_int_equal(leat_ep_poll(p.b, done, 64), 1);
		assert_int_equal(datagram_lost(p.b, "unreceived"), 0);
		(void)leat_ep_close(p.b, 0, NULL, NULL);
		assert_int_equal(leat_ep_close(p.a, 0, NULL, NULL), 0);
	}
}

/* A ring with few slots runs out of slots before bytes, whatever the sizes of the messages. */
static void
full_of_slots(void **state)
{
	struct ring_pair p;

	(void)state;
	ring_pair_open(&p, SHORT, &datagrams);
	datagram_flood(&p, 1000, 40, 1);
	assert_int_equal(datagram_lost(p.a, "full"), 40 - 16);
	ring_pair_close(&p);
}

/* A message without a receive is dropped; later ones are not. */
static void
unreceived(void **state)
{
	struct ring_pair p;
	unsigned int i;

	(void)state;
	ring_pair_open(&p, DATAGRAM, &datagrams);
	for (i = 0; i < 100; i++) {
		datagram_flood(&p, i % 2 == 0 ? 2000 : 50, 10, 10);
		assert_int_equal(leat_ep_poll(p.b, NULL, 0), 0);
		assert_int_equal(datagram_lost(p.b, "unreceived"), (i + 1) * 10);
		datagram_one(&p, 1500, i);
	}
	assert_int_equal(datagram_lost(p.a, "full"), 0);
	ring_pair_close(&p);
}

/*
 * An endpoint receives what its own mtu allows: the send of a longer message succeeds, and the
 * message is lost.
 */
static void
different_mtu(void **state)
{
	static const char *const devs[] = { DATAGRAM, SHORT, TINY };
	static const size_t mtu[] = { MTU, 1000, 8 };
	struct leat_op s, r, *done;
	unsigned int i, k, nr = 0;
	char addr[LEAT_ADDR_MAX];
	struct ring_pair p;
	size_t size;

	(void)state;
	for (i = 0; i < RTE_DIM(devs); i++) {
		for (k = 0; k < RTE_DIM(devs); k++) {
			uint64_t dropped = 0;

			p.a = ring_test_ep(devs[i], &datagrams);
			p.b = ring_test_ep(devs[k], &datagrams);
			snprintf(addr, sizeof(addr), "mtu:%u", ++nr);
			assert_int_equal(leat_ep_listen(p.b, addr), 0);
			ring_test_connect(p.a, p.b, addr, &p.pa, &p.pb);
			for (size = mtu[i]; size > 0; size /= 2) {
				if (size <= mtu[k]) {
					datagram_one(&p, size, 0);
					continue;
				}
				r = ring_test_recv(datagram_in[0], MTU);
				s = ring_test_send(p.pa, datagram_in[1], size);
				ring_test_post(p.b, &r);
				ring_test_post(p.a, &s);
				assert_ptr_equal(ring_test_wait(p.a), &s);
				assert_int_equal(s.status, 0);
				assert_int_equal(leat_ep_poll(p.b, &done, 1), 0);
				assert_int_equal(datagram_lost(p.b, "too_long"), ++dropped);
				assert_int_equal(leat_op_cancel(p.b, &r), 0);
				assert_ptr_equal(ring_test_wait(p.b), &r);
			}
			assert_int_equal(dropped > 0, mtu[i] > mtu[k]);
			ring_pair_close(&p);
		}
	}
}

/* ---- cancelled receives, endpoints that close ---- */

/* Some receives are cancelled between datagrams; the others take the messages, in order. */
static void
cancelled(void **state)
{
	struct leat_op r[64], *done[64];
	struct ring_pair p;
	unsigned int i;

	(void)state;
	ring_pair_open(&p, DATAGRAM, &datagrams);
	for (i = 0; i < 64; i++) {
		r[i] = ring_test_recv(datagram_in[i], MTU);
		if (i % 3 == 0)
			r[i].peer = p.pb;
		r[i].queue = LEAT_QUEUE_NONE;
		ring_test_post(p.b, &r[i]);
	}
	datagram_flood(&p, 3000, 32, 8);
	for (i = 0; i < 64; i += 2)
		assert_int_equal(leat_op_cancel(p.b, &r[i]), 0);
	assert_int_equal(leat_ep_poll(p.b, done, 64), 64);
	for (i = 0; i < 64; i++) {
		if (done[i]->status == -ECANCELED) {
			assert_int_equal((done[i] - r) % 2, 0);
			continue;
		}
		assert_int_equal(done[i]->status, 0);
		assert_int_equal((done[i] - r) % 2, 1);
		assert_int_equal(datagram_nr(done[i]), (done[i] - r) / 2);
	}
	ring_pair_close(&p);
}

/*
 * No event tells the peers that an endpoint closed. Sends to it succeed, and messages that it had
 * not received are dropped with it.
 */
static void
receiver_goes(void **state)
{
	struct leat_event ev;
	struct ring_pair p;
	unsigned int i;

	(void)state;
	for (i = 0; i < 3; i++) {
		ring_pair_open(&p, DATAGRAM, &datagrams);
		datagram_flood(&p, MTU, i == 0 ? 10 : 1000, 10);
		if (i == 2) {
			assert_int_equal(leat_ep_disconnect(p.b, p.pb), 0);
			ring_test_event(p.b, NULL, LEAT_EV_DISCONNECTED, &ev);
		} else {
			assert_int_equal(leat_ep_close(p.b, 0, NULL, NULL), 0);
		}
		datagram_flood(&p, MTU, 1000, 10);
		assert_int_equal(leat_ep_events(p.a, &ev, 1), 0);
		assert_int_equal(leat_ep_disconnect(p.a, p.pa), 0);
		ring_test_event(p.a, NULL, LEAT_EV_DISCONNECTED, &ev);
		assert_int_equal(leat_ep_close(p.a, 0, NULL, NULL), 0);
		if (i == 2)
			assert_int_equal(leat_ep_close(p.b, 0, NULL, NULL), 0);
	}
}

/* Messages sent before the sender closed can still be received. */
static void
sender_goes(void **state)
{
	struct ring_pair p;
	struct leat_op *op;
	unsigned int i;

	(void)state;
	ring_pair_open(&p, DATAGRAM, &datagrams);
	datagram_flood(&p, 2500, 4, 4);
	assert_int_equal(leat_ep_close(p.a, 0, NULL, NULL), 0);
	datagram_expect(&p, 4);
	for (i = 0; i < 4; i++) {
		op = ring_test_wait(p.b);
		assert_int_equal(op->status, 0);
		assert_int_equal(op->len, 2500);
		assert_int_equal(datagram_nr(op), i);
	}
	assert_int_equal(leat_ep_close(p.b, 0, NULL, NULL), 0);
}

/* ---- memory ---- */

#define CONNECTIONS 500

/* Get the address space and the memory in use of this process, in bytes. NULL: not wanted. */
static void
statm(uint64_t *addresses, uint64_t *memory_used)
{
	FILE *f = fopen("/proc/self/statm", "r");
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), total, resident;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%" SCNu64 " %" SCNu64, &total, &resident), 2);
	fclose(f);
	if (addresses != NULL)
		*addresses = total * page;
	if (memory_used != NULL)
		*memory_used = resident * page;
}

/*
 * Address space is reserved for the worst case; memory is used for messages in flight: some pages
 * per connection, however much traffic goes through it.
 */
static void
memory(void **state)
{
	static uint16_t pa[CONNECTIONS], pb[CONNECTIONS];
	struct leat_ep_conf conf = datagrams;
	struct leat_op s, *done[64];
	uint64_t before, after, used;
	unsigned int i, k;
	struct ring_pair p;

	(void)state;
#ifdef __SANITIZE_THREAD__
	skip(); /* the sanitizer's own bookkeeping uses memory, too */
#endif
	conf.max_peers = CONNECTIONS;
	p.a = ring_test_ep(DATAGRAM, &conf);
	p.b = ring_test_ep(DATAGRAM, &conf);
	assert_int_equal(leat_ep_listen(p.b, "many:1"), 0);
	for (i = 0; i < CONNECTIONS; i++)
		ring_test_connect(p.a, p.b, "many:1", &pa[i], &pb[i]);
	datagram_expect(&p, 64);
	statm(NULL, &before);
	for (k = 0; k < 40; k++) {
		for (i = 0; i < CONNECTIONS; i++) {
			s = ring_test_send(pa[i], datagram_in[NB - 1], MTU);
			ring_test_post(p.a, &s);
			assert_ptr_equal(ring_test_wait(p.a), &s);
			while (leat_ep_poll(p.b, done, 64) == 0)
				;
			assert_int_equal(leat_ep_post(p.b, done, 1), 1);
		}
	}
	statm(NULL, &after);
	used = after - before;
	print_message("%" PRIu64 " KiB per connection\n", used / CONNECTIONS / 1024);
	/* 160 KiB went through each connection, which uses less than 80 KiB of memory. */
	assert_true(used < CONNECTIONS * UINT64_C(80) * 1024);
	(void)leat_ep_close(p.b, 0, NULL, NULL);
	assert_int_equal(leat_ep_close(p.a, 0, NULL, NULL), 0);
}

/*
 * When address space is short for a connection's buffer, connect or accept fails with -ENOMEM and
 * leaves nothing behind.
 */
static void
out_of_memory(void **state)
{
	struct rlimit old, tight;
	struct leat_event ev;
	struct ring_pair p;
	uint64_t room;
	int id;

	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(); /* under the limit set below the sanitizer would have no address space, either */
#endif
	p.a = ring_test_ep(DATAGRAM, &datagrams);
	p.b = ring_test_ep(DATAGRAM, &datagrams);
	assert_int_equal(leat_ep_listen(p.b, "tight:1"), 0);
	assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
	tight = old;
	/* Leave address space for the slots, but not for the buffer. */
	statm(&room, NULL);
	tight.rlim_cur = room + BUFFER / 2;
	assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
	id = leat_ep_connect(p.a, "tight:1", NULL);
	assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
	assert_int_equal(id, -ENOMEM);
	assert_non_null(strstr(leat_err_msg(), "mmap"));

	id = leat_ep_connect(p.a, "tight:1", NULL);
	assert_true(id >= 0);
	ring_test_event(p.b, p.a, LEAT_EV_CONNECT_REQ, &ev);
	statm(&room, NULL);
	tight.rlim_cur = room + BUFFER / 2;
	assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
	assert_int_equal(leat_ep_accept(p.b, ev.peer, NULL), -ENOMEM);
	assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
	/* The accept may be tried again. */
	assert_int_equal(leat_ep_accept(p.b, ev.peer, NULL), 0);
	p.pb = ev.peer;
	ring_test_event(p.b, p.a, LEAT_EV_CONNECTED, &ev);
	ring_test_event(p.a, p.b, LEAT_EV_CONNECTED, &ev);
	p.pa = (uint16_t)id;
	datagram_one(&p, MTU, 0);
	ring_pair_close(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(full),		 cmocka_unit_test(full_of_slots),
		cmocka_unit_test(unreceived),	 cmocka_unit_test(different_mtu),
		cmocka_unit_test(cancelled),	 cmocka_unit_test(receiver_goes),
		cmocka_unit_test(sender_goes),	 cmocka_unit_test(memory),
		cmocka_unit_test(out_of_memory),
	};

	return cmocka_run_group_tests(tests, datagram_test_start, datagram_test_stop);
}
