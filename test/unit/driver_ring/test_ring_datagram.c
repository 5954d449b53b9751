/* SPDX-License-Identifier: BSD-3-Clause */

/* Datagrams that arrive: of each size, in bursts to many peers, among invalid ops. */

#include "datagram_test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_common.h>

#include <leat_error.h>

/* ---- arguments ---- */

/* Check in a child that leat_init() refuses dev, and that its message contains words. */
static void
refused(const char *dev, const char *words)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		static char prog[] = "test", pci[] = "--no-pci", tel[] = "--no-telemetry";
		char vdev[100], *argv[] = { prog, pci, tel, vdev, NULL };

		snprintf(vdev, sizeof(vdev), "--vdev=%s", dev);
		if (leat_init(4, argv) == -EINVAL && strstr(leat_err_msg(), words) != NULL)
			_exit(0);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) != 0)
		fail_msg("%s", dev);
}

static void
arguments(void **state)
{
	(void)state;
	refused("fabric_ring0,type=datagram,mtu=7", "8 to 16384");
	refused("fabric_ring0,type=datagram,mtu=16385", "8 to 16384");
	refused("fabric_ring0,mtu=1024", "type=datagram");
}

static void
info(void **state)
{
	struct leat_dev_info i;

	(void)state;
	assert_int_equal(leat_dev_info_get(leat_dev_by_name(DATAGRAM), &i), 0);
	assert_int_equal(i.ep_types, 1u << LEAT_EP_DATAGRAM);
	assert_int_equal(i.max_msg, MTU);
	assert_int_equal(i.inline_max, MTU);
	assert_int_equal(i.tx_depth, SLOTS);
	assert_int_equal(leat_dev_info_get(leat_dev_by_name(SHORT), &i), 0);
	assert_int_equal(i.max_msg, 1000);
	assert_int_equal(i.inline_max, 1000);
	assert_int_equal(leat_dev_info_get(leat_dev_by_name(TINY), &i), 0);
	assert_int_equal(i.max_msg, 8);
	assert_int_equal(i.inline_max, 8);
}

/* ---- single datagrams ---- */

static uint8_t out[MTU + 1], in[MTU + 1];

static void
every_size(void **state)
{
	struct ring_pair p;
	unsigned int way;
	size_t size;

	(void)state;
	ring_pair_open(&p, DATAGRAM, &datagrams);
	for (size = 0; size <= MTU; size += size < 300 || size > MTU - 70 ? 1 : 61) {
		for (way = 0; way < WAYS; way++)
			datagram_one(&p, size, way);
	}
	ring_pair_close(&p);
	ring_pair_open(&p, SHORT, &datagrams);
	for (size = 0; size <= 1000; size++) {
		for (way = 0; way < WAYS; way++)
			datagram_one(&p, size, way);
	}
	ring_pair_close(&p);
}

static void
too_long(void **state)
{
	static const struct {
		const char *dev;
		size_t mtu;
	} of[] = { { DATAGRAM, MTU }, { SHORT, 1000 }, { TINY, 8 } };
	struct leat_op s[3], *ops[3], *done[4], r[2];
	struct ring_pair p;
	unsigned int i, k;

	(void)state;
	for (i = 0; i < RTE_DIM(of); i++) {
		ring_pair_open(&p, of[i].dev, &datagrams);
		/* s[1] is too long: it fails, and still comes back between s[0] and s[2] */
		for (k = 0; k < 3; k++) {
			s[k] = ring_test_send(p.pa, out, of[i].mtu + (k == 1));
			ops[k] = &s[k];
		}
		for (k = 0; k < 2; k++) {
			r[k] = ring_test_recv(in, sizeof(in));
			ring_test_post(p.b, &r[k]);
		}
		assert_int_equal(leat_ep_post(p.a, ops, 3), 3);
		assert_int_equal(leat_ep_poll(p.a, done, 4), 3);
		for (k = 0; k < 3; k++) {
			assert_ptr_equal(done[k], &s[k]);
			assert_int_equal(s[k].status, k == 1 ? -EMSGSIZE : 0);
		}
		for (k = 0; k < 2; k++) {
			assert_ptr_equal(ring_test_wait(p.b), &r[k]);
			assert_int_equal(r[k].len, of[i].mtu);
		}
		ring_pair_close(&p);
	}
}

/*
 * A receive that is too short fails and is not written to; the next message goes to the next
 * receive.
 */
static void
short_receive(void **state)
{
	static const size_t sizes[] = { 9, 96, 97, 1000, MTU };
	struct leat_op s, r;
	struct ring_pair p;
	unsigned int i;

	(void)state;
	ring_pair_open(&p, DATAGRAM, &datagrams);
	for (i = 0; i < RTE_DIM(sizes); i++) {
		memset(in, 0x55, sizeof(in));
		memset(out, 0xaa, sizeof(out));
		s = ring_test_send(p.pa, out, sizes[i]);
		r = ring_test_recv(in, sizes[i] - 1);
		ring_test_post(p.b, &r);
		ring_test_post(p.a, &s);
		assert_ptr_equal(ring_test_wait(p.a), &s);
		assert_ptr_equal(ring_test_wait(p.b), &r);
		assert_int_equal(s.status, 0);
		assert_int_equal(r.status, -EMSGSIZE);
		assert_int_equal(in[sizes[i] - 1], 0x55);
		datagram_one(&p, sizes[i], i);
	}
	ring_pair_close(&p);
}

/* ---- bursts ---- */

#define SPOKES 20 /* more than RING_FEW */

static struct {
	struct leat_ep *hub, *spoke[SPOKES];
	uint16_t at_hub[SPOKES], at_spoke[SPOKES];
	struct leat_op tx[NB], rx[SPOKES][NB];
	uint8_t out[NB][MTU], in[SPOKES][NB][MTU];
	uint64_t sent[SPOKES], taken[SPOKES]; /* counts of messages to a spoke */
	uint64_t imm[SPOKES][NB];	      /* immediates of the messages in flight; 0: none */
} w;

/* The length of message nr to a spoke. */
static size_t
size_of(unsigned int spoke, uint64_t nr)
{
	uint64_t seed = (nr + 1) * 1000 + spoke + 1, kind = test_random(&seed) % 4;

	return test_random(&seed) % (kind == 0 ? 97 : kind == 1 ? 700 : MTU + 1);
}

static void
spokes_open(void)
{
	struct leat_ep_conf conf = datagrams;
	unsigned int i, k;

	memset(&w, 0, sizeof(w));
	w.hub = ring_test_ep(DATAGRAM, &conf);
	assert_int_equal(leat_ep_listen(w.hub, "hub:1"), 0);
	for (i = 0; i < SPOKES; i++) {
		w.spoke[i] = ring_test_ep(DATAGRAM, &conf);
		ring_test_connect(w.spoke[i], w.hub, "hub:1", &w.at_spoke[i], &w.at_hub[i]);
		for (k = 0; k < NB; k++) {
			w.rx[i][k] = ring_test_recv(w.in[i][k], MTU);
			if (k % 5 == 0 && i % 2 == 0)
				w.rx[i][k].peer = w.at_spoke[i];
			ring_test_post(w.spoke[i], &w.rx[i][k]);
		}
	}
}

static void
spokes_close(void)
{
	unsigned int i;

	for (i = 0; i < SPOKES; i++)
		(void)leat_ep_close(w.spoke[i], 0, NULL, NULL); /* with receives posted */
	assert_int_equal(leat_ep_close(w.hub, 1000000, NULL, NULL), 0);
}

/* Post a burst of up to n free ops: a few to one spoke, then to others. */
static uint16_t
spokes_send(uint16_t n, uint64_t *seed)
{
	unsigned int spoke = 0, left = 0;
	struct leat_op *ops[NB];
	uint16_t i;

	for (i = 0; i < n; i++) {
		if (left-- == 0) {
			spoke = (unsigned int)(test_random(seed) % SPOKES);
			left = (unsigned int)(test_random(seed) % 12);
		}
		if (w.sent[spoke] - w.taken[spoke] == 100)
			break; /* 400 KiB at most in flight, so that none is lost */
		w.tx[i] = ring_test_send(w.at_hub[spoke], w.out[i], size_of(spoke, w.sent[spoke]));
		w.imm[spoke][w.sent[spoke] % NB] = 0;
		if (test_random(seed) % 8 == 0) {
			w.tx[i].flags = LEAT_OP_F_IMM;
			w.tx[i].imm = test_random(seed) | 1;
			w.imm[spoke][w.sent[spoke] % NB] = w.tx[i].imm;
		}
		if (test_random(seed) % 8 == 0)
			w.tx[i].queue = LEAT_QUEUE_NONE;
		datagram_fill(w.out[i], w.tx[i].size, w.sent[spoke] + 1);
		w.sent[spoke]++;
		ops[i] = &w.tx[i];
	}
	assert_int_equal(leat_ep_post(w.hub, ops, i), i);
	memset(w.out, 0xaa, sizeof(w.out[0]) * i);
	return i;
}

static void
spoke_take(unsigned int spoke, uint16_t n)
{
	struct leat_op *done[NB];
	uint16_t i;

	n = leat_ep_poll(w.spoke[spoke], done, n);
	for (i = 0; i < n; i++) {
		uint64_t nr = w.taken[spoke]++, imm = w.imm[spoke][nr % NB];

		assert_int_equal(done[i]->status, 0);
		assert_int_equal(done[i]->len, size_of(spoke, nr));
		datagram_check(done[i]->buf, done[i]->len, nr + 1);
		assert_int_equal(done[i]->oflags, imm != 0 ? LEAT_OP_F_IMM : 0);
		if (imm != 0)
			assert_int_equal(done[i]->imm, imm);
		assert_int_equal(leat_ep_post(w.spoke[spoke], &done[i], 1), 1);
	}
}

/*
 * Messages of all sizes, to one peer or to many, with backlogs of all lengths: all arrive, in
 * order.
 */
static void
bursts(void **state)
{
	struct leat_op *done[NB];
	uint64_t seed = 99, sum = 0;
	unsigned int i, round;

	(void)state;
	spokes_open();
	for (round = 0; round < 1500; round++) {
		uint16_t n = spokes_send((uint16_t)(1 + test_random(&seed) % 64), &seed);

		assert_int_equal(leat_ep_poll(w.hub, done, NB), n);
		for (i = 0; i < n; i++)
			assert_int_equal(done[i]->status, 0);
		sum += n;
		for (i = 0; i < SPOKES; i++) {
			if (test_random(&seed) % 4 == 0)
				spoke_take(i, (uint16_t)(test_random(&seed) % 100));
		}
	}
	assert_true(sum > 10000);
	for (i = 0; i < SPOKES; i++) {
		while (w.taken[i] != w.sent[i])
			spoke_take(i, NB);
	}
	spokes_close();
}

/*
 * A poll copies a limited number of bytes, here half of the buffer, so that other peers and the
 * application have their turn.
 */
static void
bounded_poll(void **state)
{
	struct leat_op *done[NB];
	struct ring_pair p;

	(void)state;
	ring_pair_open(&p, DATAGRAM, &datagrams);
	datagram_expect(&p, NB);
	datagram_flood(&p, MTU, BUFFER / MTU, 1);
	assert_int_equal(leat_ep_poll(p.b, done, NB), BUFFER / MTU / 2);
	assert_int_equal(leat_ep_poll(p.b, done, NB), BUFFER / MTU / 2);
	(void)leat_ep_close(p.b, 0, NULL, NULL);
	assert_int_equal(leat_ep_close(p.a, 0, NULL, NULL), 0);
}

int
main(void)
{
	const struct CMUnitTest before[] = {
		cmocka_unit_test(arguments),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(info),	    cmocka_unit_test(every_size),
		cmocka_unit_test(too_long), cmocka_unit_test(short_receive),
		cmocka_unit_test(bursts),   cmocka_unit_test(bounded_poll),
	};

	if (cmocka_run_group_tests(before, NULL, NULL) != 0)
		return 1;
	return cmocka_run_group_tests(tests, datagram_test_start, datagram_test_stop);
}
