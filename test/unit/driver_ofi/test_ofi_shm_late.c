/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Provider shm: a long message that its receiver copies when the sender has had its buffer back,
 * and has filled it anew. The receiver stands still at a chosen moment while the sender ends the
 * connection; both are in this thread, and the moments in the middle of the copy are those of
 * process_vm_readv(), which libfabric calls through syscall().
 */

#include <dlfcn.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shm_1_17/ofi_shm_number.h"
#include "pair.h"

#define DEV "fabric_ofi0"
#define LEN (300u << 10)
#define STALE 0x5a

enum moment {
	UNEXPECTED, /* the message waits at the receiver, its receive is posted afterwards */
	QUEUED,	    /* the receive is posted, the receiver does not look */
	AT_COPY,    /* it is about to copy */
	IN_COPY,    /* it has copied half of it */
	MOMENTS,
};

static struct leat_dev *dev;
static struct leat_dev_info info;
static uint8_t *buf_a, *buf_b;

/* ---- what happens in the middle of a copy ---- */

static enum moment copy_moment = MOMENTS; /* MOMENTS: nothing */
static void (*copy_event)(void);

static ssize_t
copy(pid_t pid, const struct iovec *local, unsigned long nb_local, const struct iovec *remote,
     unsigned long nb_remote, unsigned long flags)
{
	const enum moment moment = copy_moment;
	struct iovec half = remote[0];
	ssize_t ret = 0;

	if (moment == MOMENTS)
		return process_vm_readv(pid, local, nb_local, remote, nb_remote, flags);
	copy_moment = MOMENTS;
	half.iov_len /= 2;
	if (moment == IN_COPY)
		ret = process_vm_readv(pid, local, nb_local, &half, 1, flags);
	copy_event();
	if (moment == IN_COPY)
		return ret; /* it will call again for the rest */
	return process_vm_readv(pid, local, nb_local, remote, nb_remote, flags);
}

/* In place of libc's, for libfabric. */
long
syscall(long nr, ...) /* NOLINT(readability-inconsistent-declaration-parameter-name) */
{
	static long (*next)(long nr, ...);
	va_list ap;
	long v[6];
	int i;

	va_start(ap, nr);
	for (i = 0; i < 6; i++)
		v[i] = va_arg(ap, long);
	va_end(ap);
	if (nr == SYS_process_vm_readv)
		return copy((pid_t)v[0], (const struct iovec *)v[1], (unsigned long)v[2],
			    (const struct iovec *)v[3], (unsigned long)v[4], (unsigned long)v[5]);
	if (next == NULL)
		*(void **)&next = dlsym(RTLD_NEXT, "syscall");
	return next(nr, v[0], v[1], v[2], v[3], v[4], v[5]);
}

/* ---- the sender's end ---- */

static struct pair pr;
static struct leat_op tx;
static bool by_close;

static void
end_and_refill(void)
{
	struct leat_op *ops[8];

	if (by_close) {
		(void)leat_ep_close(pr.a.ep, 0, NULL, NULL);
		pr.a.ep = NULL;
	} else {
		assert_int_equal(leat_ep_disconnect(pr.a.ep, pr.a.peer), 0);
		UNTIL(TIMEOUT_US, node_turn(&pr.a), op_done(&tx));
		while (leat_ep_poll(pr.a.ep, ops, RTE_DIM(ops)) > 0)
			;
		assert_true(tx.status < 0);
	}
	memset(buf_a, STALE, LEN);
}

/* ---- one message ---- */

static struct leat_op
send_op(bool tagged, uint16_t peer)
{
	return (struct leat_op){ .type = tagged ? LEAT_OP_TSEND : LEAT_OP_SEND,
				 .peer = peer,
				 .buf = buf_a,
				 .size = LEN,
				 .tag = 7 };
}

static struct leat_op
recv_op(bool tagged)
{
	return (struct leat_op){ .type = tagged ? LEAT_OP_TRECV : LEAT_OP_RECV,
				 .peer = LEAT_PEER_ANY,
				 .buf = buf_b,
				 .size = LEN,
				 .tag = 7 };
}

/* Only the receiver's ops: it does not look at events, and has not heard of the end. */
static void
receive(const struct leat_op *rx)
{
	struct leat_op *ops[8];

	UNTIL(TIMEOUT_US, (void)leat_ep_poll(pr.b.ep, ops, RTE_DIM(ops)), op_done(rx));
}

static void
late(enum moment moment, bool tagged)
{
	struct leat_op rx = recv_op(tagged);
	struct leat_op *ops[8];
	int i;

	fill(buf_a, LEN, moment);
	tx = send_op(tagged, pr.a.peer);
	if (moment != UNEXPECTED)
		pair_post(&pr, &pr.b, &rx);
	pair_post(&pr, &pr.a, &tx);
	copy_event = end_and_refill;
	if (moment == AT_COPY || moment == IN_COPY)
		copy_moment = moment;
	for (i = 0; moment == UNEXPECTED && i < 10; i++)
		(void)leat_ep_poll(pr.b.ep, ops, RTE_DIM(ops));
	if (moment < AT_COPY)
		end_and_refill();
	if (moment == UNEXPECTED)
		pair_post(&pr, &pr.b, &rx);
	receive(&rx);
	assert_int_equal(copy_moment, MOMENTS);
	assert_int_equal(rx.status, -ECONNRESET);
}

/* The same endpoints, another connection: nothing is left of the one before. */
static void
good(uint16_t peer, bool tagged, bool imm)
{
	struct leat_op rx = recv_op(tagged);

	fill(buf_a, LEN, 99);
	memset(buf_b, 0, LEN);
	tx = send_op(tagged, peer);
	tx.imm = UINT64_C(0xf1f2f3f481828384);
	tx.flags = imm ? LEAT_OP_F_IMM : 0;
	pair_post(&pr, &pr.b, &rx);
	pair_post(&pr, &pr.a, &tx);
	PAIR_UNTIL(&pr, op_done(&rx) && op_done(&tx));
	assert_int_equal(rx.status, 0);
	assert_int_equal(tx.status, 0);
	assert_int_equal(rx.len, LEN);
	assert_memory_equal(buf_a, buf_b, LEN);
	assert_int_equal((rx.oflags & LEAT_OP_F_IMM) != 0, imm);
	if (imm)
		assert_int_equal(rx.imm, info.imm_size == 8 ? tx.imm : (uint32_t)tx.imm);
}

static bool
can_tag(void)
{
	return (info.ops & LEAT_OP_BIT(LEAT_OP_TSEND)) != 0;
}

/* Numbers of connections wrap in between. */
static void
disconnected(void **state)
{
	unsigned int i;

	(void)state;
	by_close = false;
	pair_open(&pr, dev);
	for (i = 0; i < MOMENTS + 2; i++) {
		const bool tagged = can_tag() && i % 2 != 0;

		good(pr.a.peer, tagged, i % 3 == 0);
		late((enum moment)(i % MOMENTS), tagged);
		PAIR_UNTIL(&pr, !pr.a.up && !pr.b.up);
		pair_connect(&pr);
	}
	good(pr.a.peer, false, true);
	pair_close(&pr);
}

static void
closed(void **state)
{
	enum moment m;

	(void)state;
	by_close = true;
	for (m = UNEXPECTED; m < MOMENTS; m++) {
		pair_open(&pr, dev);
		good(pr.a.peer, false, false);
		late(m, can_tag() && m % 2 == 0);
		assert_int_equal(leat_ep_close(pr.b.ep, 0, NULL, NULL), 0);
	}
}

/*
 * What comes over another connection between the two is as good as before, also while the stale one
 * waits.
 */
static void
other_connection(void **state)
{
	struct leat_op rx = recv_op(false);
	uint16_t first, second;

	(void)state;
	by_close = false;
	pair_open(&pr, dev);
	first = pr.a.peer;
	pr.a.up = pr.b.up = false;
	pair_connect(&pr);
	second = pr.a.peer;
	assert_int_not_equal(first, second);
	good(first, false, false);
	good(second, false, false);
	pr.a.peer = first;
	fill(buf_a, LEN, 1);
	tx = send_op(false, first);
	pair_post(&pr, &pr.a, &tx);
	end_and_refill();
	/* It is the oldest, so it takes the first receive. */
	pair_post(&pr, &pr.b, &rx);
	receive(&rx);
	assert_int_equal(rx.status, -ECONNRESET);
	good(second, false, true);
	good(second, can_tag(), false);
	pair_close(&pr);
}

/* ---- numbers ---- */

static void
numbers(void **state)
{
	const uint32_t at[] = { 0, 1, OFI_SHM_NR_START, OFI_SHM_NR_MASK, OFI_SHM_NR_MASK / 2 };
	uint32_t i, k, nr, ended;

	(void)state;
	for (i = 0; i < RTE_DIM(at); i++) {
		/* The mark stands still while connections come and go without leaving ops. */
		ended = nr = at[i];
		assert_true(ofi_shm_nr_ended(ended, nr));
		for (k = 0; k <= 2 * OFI_SHM_NR_MASK; k++) {
			nr = ofi_shm_nr_next(nr);
			ended = ofi_shm_nr_follow(ended, nr);
			if (ofi_shm_nr_ended(ended, nr))
				fail_msg("connection %u after %u passes for ended", k, at[i]);
		}
		assert_true(ofi_shm_nr_ended(nr, nr));
		assert_true(ofi_shm_nr_ended(ofi_shm_nr_next(nr), nr));
		assert_true(ofi_shm_nr_ended(nr, (nr - OFI_SHM_NR_MASK / 2) & OFI_SHM_NR_MASK));
	}
	for (i = 0; i < OFI_SHM_SLOTS; i++) {
		uint64_t data = ofi_shm_data((uint16_t)i, OFI_SHM_NR_MASK - i) | 0x1ffffffffULL;

		assert_int_equal(ofi_shm_data_slot(data), i);
		assert_int_equal(ofi_shm_data_nr(data), OFI_SHM_NR_MASK - i);
	}
}

int
main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers),
		cmocka_unit_test(disconnected),
		cmocka_unit_test(closed),
		cmocka_unit_test(other_connection),
	};
	int ret;

	dev = dev_start(argc, argv, DEV ",provider=shm,tags=1");
	buf_a = malloc(LEN);
	buf_b = malloc(LEN);
	if (dev == NULL || leat_dev_info_get(dev, &info) != 0 || buf_a == NULL || buf_b == NULL)
		return 1;
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	free(buf_a);
	free(buf_b);
	return leat_cleanup() < 0 ? 1 : ret;
}
