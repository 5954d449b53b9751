/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Sends of several pieces (LEAT_MSG_F_IOV, LEAT_MSG_F_MBUF), to many connections, and with
 * LEAT_MSG_F_DELIVERED; and leat_msg_shutdown().
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_mbuf.h>

#include <leat_time.h>

#include "msg_pair.h"

#define BIG 100000u

static const struct leat_msg_conn_conf leat = { .mode = LEAT_MSG_LEAT };
static const struct leat_msg_conn_conf plain = { .mode = LEAT_MSG_PLAIN };
static uint8_t out[BIG], in[BIG];

static void
fill(unsigned int seed)
{
	unsigned int i;

	for (i = 0; i < BIG; i++)
		out[i] = (uint8_t)((i * 31 + seed) % 251);
}

/*
 * Split the first `size` bytes of `out` into pieces that grow; some have 0 bytes.
 * @return number of pieces
 */
static uint32_t
cut(struct iovec *iov, uint64_t size)
{
	uint64_t off = 0, len;
	uint32_t n;

	for (n = 0; off < size; n++) {
		len = n % 3 == 1 ? 0 : RTE_MIN(size - off, (uint64_t)n * n + 1);
		iov[n] = (struct iovec){ .iov_base = len > 0 ? out + off : NULL, .iov_len = len };
		off += len;
	}
	return n;
}

static void
gathered(const struct leat_msg_conn_conf *conf, uint64_t size, int status)
{
	struct leat_msg_conn *c = connected(conf);
	struct leat_msg_req tx = { .flags = LEAT_MSG_F_IOV }, *req = &tx, before, after, rx[3];
	static struct iovec iov[1000];
	char small[2][8];
	unsigned int n = b.nb_back, m = a.nb_back;

	fill((unsigned int)size);
	memset(in, 0, BIG);
	tx.iov = iov;
	tx.nb_iov = cut(iov, size);
	/* The message in pieces goes between two others. */
	send1(c, &before, "before", 6);
	assert_int_equal(leat_msg_send(c, &req, 1), 1);
	send1(c, &after, "after", 5);
	recv1(b.accepted, &rx[0], small[0], 8);
	if (status == 0)
		recv1(b.accepted, &rx[1], in, BIG);
	recv1(b.accepted, &rx[2], small[1], 8);
	drive_until(a.nb_back == m + 3 && b.nb_back == n + 2u + (status == 0));
	assert_ptr_equal(a.back[m + 1], &tx);
	assert_int_equal(tx.status, status);
	assert_int_equal(tx.size, size);
	assert_memory_equal(small[0], "before", 6);
	assert_memory_equal(small[1], "after", 5);
	if (status == 0) {
		assert_int_equal(rx[1].len, size);
		assert_memory_equal(in, out, size);
	}
	close_both(c);
}

static void
test_iov(void **state)
{
	static const uint64_t sizes[] = { 0, 1, 2032, 2033, 4064, 4065, 50000, BIG };
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(sizes); i++)
		gathered(&leat, sizes[i], 0);
	/*
	 * In plain mode a message in pieces is copied, or refused if longer than eager_max, 2032 B.
	 */
	gathered(&plain, 0, 0);
	gathered(&plain, 2032, 0);
	gathered(&plain, 2033, -EMSGSIZE);
}

static void
test_iov_wrong(void **state)
{
	struct iovec iov[2] = { { .iov_base = out, .iov_len = 1 }, { .iov_len = 1 } };
	struct leat_msg_req tx = { .flags = LEAT_MSG_F_IOV, .iov = iov, .nb_iov = 2 }, *req = &tx;
	struct leat_msg_conn *c = connected(&leat);

	(void)state;
	assert_int_equal(leat_msg_send(c, &req, 1), 1);
	drive_until(a.nb_back == 1);
	assert_int_equal(tx.status, -EINVAL);
	iov[1] = (struct iovec){ .iov_base = out, .iov_len = SIZE_MAX };
	assert_int_equal(leat_msg_send(c, &req, 1), 1);
	drive_until(a.nb_back == 2);
	assert_int_equal(tx.status, -EINVAL);
	close_both(c);
}

/* A fragmented message that does not fit into its receive is dropped with all its fragments. */
static void
test_fragments_dropped(void **state)
{
	struct leat_msg_conn *c = connected(&leat);
	struct iovec iov = { .iov_base = out, .iov_len = BIG };
	struct leat_msg_req tx = { .flags = LEAT_MSG_F_IOV | LEAT_MSG_F_DELIVERED }, *req = &tx;
	struct leat_msg_req after, rx[2];

	(void)state;
	tx.iov = &iov;
	tx.nb_iov = 1;
	assert_int_equal(leat_msg_send(c, &req, 1), 1);
	send1(c, &after, "after", 5);
	recv1(b.accepted, &rx[0], in, BIG - 1);
	recv1(b.accepted, &rx[1], in, 8);
	drive_until(a.nb_back == 2 && b.nb_back == 2);
	assert_int_equal(rx[0].status, -EMSGSIZE);
	assert_int_equal(rx[0].len, BIG);
	assert_int_equal(tx.status, -EMSGSIZE);
	assert_int_equal(rx[1].status, 0);
	assert_memory_equal(in, "after", 5);
	close_both(c);
}

/*
 * A message in fragments times out while fragments wait for credit, and its sender gives up those
 * that are left.
 */
static void
test_fragments_given_up(void **state)
{
	struct leat_msg_conn *c = connected(&leat);
	struct iovec iov = { .iov_base = out, .iov_len = BIG };
	struct leat_msg_req tx = { .flags = LEAT_MSG_F_IOV | LEAT_MSG_F_DEADLINE }, *req = &tx;
	static struct leat_msg_req many[300], rx[301];
	unsigned int i, sent = 0;

	(void)state;
	/* Send until a send waits for credit, while the other side does not receive. */
	while (a.nb_back == sent && sent < 300) {
		send1(c, &many[sent++], out, 2000);
		end_drive(&a);
		end_drive(&b);
		if (a.nb_back < sent)
			break;
	}
	/* The last send waits for credit, and so does tx, until receives return some. */
	tx.iov = &iov;
	tx.nb_iov = 1;
	tx.deadline = leat_now() + leat_us_to_cycles(2000);
	assert_int_equal(leat_msg_send(c, &req, 1), 1);
	recv1(b.accepted, &rx[0], in, BIG);
	recv1(b.accepted, &rx[1], in, BIG);
	for (i = 2; i < sent; i++)
		recv1(b.accepted, &rx[i], in, BIG);
	drive_until(a.nb_back == sent + 1);
	/*
	 * The message arrived in time, or was given up. If it was given up after its first fragment
	 * was sent, its receive has -ETIMEDOUT.
	 */
	assert_true(tx.status == 0 || tx.status == -ETIMEDOUT);
	send1(c, &many[299], "behind", 6);
	recv1(b.accepted, &rx[sent], in, BIG);
	drive_until(b.nb_back == sent + 1);
	if (rx[sent].status != 0) {
		assert_int_equal(rx[sent].status, -ETIMEDOUT);
		assert_int_equal(rx[sent].len, BIG);
	}
	if (rx[sent].status != 0 || rx[sent].len == BIG) {
		recv1(b.accepted, &rx[300], in, BIG);
		drive_until(b.nb_back == sent + 2);
		assert_memory_equal(in, "behind", 6);
	} else {
		assert_memory_equal(in, "behind", 6);
	}
	close_both(c);
}

static void
test_mbuf(void **state)
{
	struct rte_mempool *pool = rte_pktmbuf_pool_create("pieces", 64, 0, 0, 1024, SOCKET_ID_ANY);
	struct leat_msg_req tx = { .flags = LEAT_MSG_F_MBUF }, *req = &tx, rx;
	struct leat_msg_conn *c = connected(&leat);
	unsigned int i, k, n = 0;

	(void)state;
	assert_non_null(pool);
	if (pool == NULL)
		return;
	fill(7);
	for (k = 1; k < 12; k += 5) {
		uint64_t size = 0;

		tx.mbuf = NULL;
		for (i = 0; i < k; i++) {
			struct rte_mbuf *mb = rte_pktmbuf_alloc(pool);
			const uint16_t len = (uint16_t)(i * 70 + 1);

			assert_non_null(mb);
			if (mb == NULL)
				return;
			memcpy(rte_pktmbuf_append(mb, len), out + size, len);
			size += len;
			if (tx.mbuf == NULL)
				tx.mbuf = mb;
			else
				assert_int_equal(rte_pktmbuf_chain(tx.mbuf, mb), 0);
		}
		memset(in, 0, BIG);
		recv1(b.accepted, &rx, in, BIG);
		assert_int_equal(leat_msg_send(c, &req, 1), 1);
		n++;
		drive_until(a.nb_back == n && b.nb_back == n);
		assert_int_equal(tx.status, 0);
		assert_int_equal(rx.len, size);
		assert_memory_equal(in, out, size);
		rte_pktmbuf_free(tx.mbuf);
	}
	close_both(c);
	assert_int_equal(rte_mempool_in_use_count(pool), 0);
	rte_mempool_free(pool);
}

/*
 * A send with LEAT_MSG_F_DELIVERED comes back only when the other side has received or dropped the
 * message, and before the send after it.
 */
static void
delivered(uint64_t size, uint64_t room, int status)
{
	struct leat_msg_req tx = { .buf = out, .size = size, .flags = LEAT_MSG_F_DELIVERED };
	struct leat_msg_req *req = &tx, after, rx[2];
	struct leat_msg_conn *c = connected(&leat);
	unsigned int i, n = a.nb_back, m = b.nb_back;
	char small[8];

	assert_int_equal(leat_msg_send(c, &req, 1), 1);
	send1(c, &after, "after", 5);
	for (i = 0; i < 1000; i++) {
		end_drive(&a);
		end_drive(&b);
	}
	assert_int_equal(a.nb_back, n);
	recv1(b.accepted, &rx[0], in, room);
	recv1(b.accepted, &rx[1], small, 8);
	drive_until(a.nb_back == n + 2 && b.nb_back == m + 2);
	assert_ptr_equal(a.back[n], &tx);
	assert_int_equal(tx.status, status);
	assert_int_equal(rx[0].status, status);
	assert_int_equal(rx[0].len, size);
	assert_int_equal(after.status, 0);
	assert_memory_equal(small, "after", 5);
	close_both(c);
}

static void
test_delivered(void **state)
{
	struct leat_msg_req tx = { .flags = LEAT_MSG_F_DELIVERED }, *req = &tx;
	struct leat_msg_conn *c;
	unsigned int n;

	(void)state;
	delivered(0, 0, 0);
	delivered(10, 10, 0);
	delivered(10, 9, -EMSGSIZE);
	delivered(BIG, BIG, 0);
	delivered(BIG, BIG - 1, -EMSGSIZE);
	/* If both sides close before the message is received, the send fails. */
	c = connected(&leat);
	n = a.nb_back;
	assert_int_equal(leat_msg_send(c, &req, 1), 1);
	end_drive(&a);
	end_drive(&b);
	close_both(b.accepted == NULL ? NULL : c);
	assert_int_equal(a.nb_back, n + 1);
	assert_int_not_equal(tx.status, 0);
	c = connected(&plain);
	assert_int_equal(leat_msg_send(c, &req, 1), 1);
	drive_until(a.nb_back == n + 2);
	assert_int_equal(tx.status, -EOPNOTSUPP);
	close_both(c);
}

static void
test_many(void **state)
{
	struct leat_msg_req req = { .buf = out }, parts[4] = { 0 }, rx[4], *refused = &parts[1];
	static uint8_t bufs[4][BIG];
	struct leat_msg_conn *conns[4], *ends[4];
	unsigned int i, k;

	(void)state;
	for (i = 0; i < 4; i++) {
		conns[i] = connected(i < 3 ? &leat : &plain);
		ends[i] = b.accepted;
	}
	fill(3);
	for (k = 0; k < 2; k++) {
		req.size = k == 0 ? 5 : BIG;
		assert_int_equal(leat_msg_send_many(conns, 4, &req, parts), 4);
		assert_int_equal(leat_msg_send_many(conns, 4, &req, parts), -EALREADY);
		for (i = 0; i < 4; i++) {
			if (k == 1 && i < 3) {
				end_drive(&a);
				assert_int_equal(a.nb_back, k);
			}
			recv1(ends[i], &rx[i], bufs[i], BIG);
		}
		drive_until(a.nb_back == k + 1 && b.nb_back == 4 * k + 4);
		assert_ptr_equal(a.back[k], &req);
		assert_int_equal(req.status, 0);
		assert_int_equal(req.len, req.size);
		for (i = 0; i < 4; i++) {
			assert_int_equal(parts[i].status, 0);
			assert_memory_equal(bufs[i], out, req.size);
		}
	}
	/* While conns[1] is closing the others get the message, and req fails with -ESHUTDOWN. */
	assert_int_equal(leat_msg_close(conns[1], 1000000), 0);
	assert_int_equal(leat_msg_send_many(conns, 4, &req, parts), 3);
	for (i = 0; i < 4; i++) {
		if (i != 1)
			recv1(ends[i], &rx[i], bufs[i], BIG);
	}
	drive_until(a.nb_back == 3 && b.nb_back == 11);
	assert_int_equal(req.status, -ESHUTDOWN);
	assert_int_equal(parts[1].status, -ESHUTDOWN);
	assert_int_equal(parts[2].status, 0);
	/* parts[1] was refused, so the caller owns it again, and can send it by itself. */
	assert_int_equal(refused->flags, 0);
	assert_null(refused->whole);
	refused->size = 5;
	assert_int_equal(leat_msg_send(conns[0], &refused, 1), 1);
	recv1(ends[0], &rx[0], bufs[0], BIG);
	drive_until(a.nb_back == 4 && b.nb_back == 12);
	assert_ptr_equal(a.back[3], refused);
	assert_int_equal(refused->status, 0);
	assert_int_equal(rx[0].len, 5);
	assert_memory_equal(bufs[0], out, 5);
	for (i = 0; i < 4; i++) {
		if (i != 1)
			assert_int_equal(leat_msg_close(conns[i], 1000000), 0);
		assert_int_equal(leat_msg_close(ends[i], 1000000), 0);
	}
	drive_until(a.nb_ev[LEAT_MSG_CLOSED] == 4 && b.nb_ev[LEAT_MSG_CLOSED] == 4);
}

/* One side shuts its sends down, and the other side goes on sending; then both close. */
static void
test_shutdown(void **state)
{
	static struct leat_msg_req tx[100], rx[100], back[2], late;
	struct leat_msg_conn *c = connected(&leat);
	struct leat_msg_req *req = &late;
	unsigned int i;
	char buf[8];

	(void)state;
	for (i = 0; i < 100; i++)
		send1(c, &tx[i], out, i % 10 == 0 ? BIG : i);
	assert_int_equal(leat_msg_shutdown(c), 0);
	assert_int_equal(leat_msg_shutdown(c), -EALREADY);
	assert_int_equal(leat_msg_send(c, &req, 1), 0);
	assert_int_equal(rte_errno, ESHUTDOWN);
	for (i = 0; i < 100; i++) {
		recv1(b.accepted, &rx[i], in, BIG);
		if (i < 99) {
			end_drive(&a);
			end_drive(&b);
			assert_int_equal(b.nb_ev[LEAT_MSG_SHUTDOWN], 0);
		}
	}
	recv1(b.accepted, &back[0], in, BIG);
	drive_until(a.nb_back == 100 && b.nb_ev[LEAT_MSG_SHUTDOWN] == 1);
	assert_int_equal(b.nb_back, 101);
	for (i = 0; i < 100; i++) {
		assert_int_equal(rx[i].status, 0);
		assert_int_equal(rx[i].len, i % 10 == 0 ? BIG : i);
	}
	assert_int_equal(back[0].status, -ENODATA);
	recv1(b.accepted, &back[1], in, BIG);
	drive_until(b.nb_back == 102);
	assert_int_equal(back[1].status, -ENODATA);
	/* The other side can still send. */
	recv1(c, &late, buf, 8);
	send1(b.accepted, &tx[0], "answer", 6);
	drive_until(a.nb_back == 101 && b.nb_back == 103);
	assert_int_equal(late.status, 0);
	assert_memory_equal(buf, "answer", 6);
	assert_int_equal(leat_msg_shutdown(b.accepted), 0);
	recv1(c, &late, buf, 8);
	drive_until(a.nb_ev[LEAT_MSG_SHUTDOWN] == 1);
	assert_int_equal(late.status, -ENODATA);
	assert_int_equal(a.nb_ev[LEAT_MSG_ENDED] + b.nb_ev[LEAT_MSG_ENDED], 0);
	close_both(c);
}

/*
 * A small message that the fast path sends right before a shutdown arrives before
 * LEAT_MSG_SHUTDOWN.
 */
static void
test_shutdown_small(void **state)
{
	struct leat_msg_conn *c = connected(&leat);
	struct leat_msg_req tx, rx[2];
	char buf[2][8];

	(void)state;
	recv1(b.accepted, &rx[0], buf[0], 8);
	recv1(b.accepted, &rx[1], buf[1], 8);
	end_drive(&b);
	send1(c, &tx, "8 bytes.", 8);
	assert_int_equal(leat_msg_shutdown(c), 0);
	drive_until(b.nb_ev[LEAT_MSG_SHUTDOWN] == 1);
	assert_int_equal(b.nb_back, 2);
	assert_int_equal(rx[0].status, 0);
	assert_int_equal(rx[1].status, -ENODATA);
	close_both(c);
	c = connected(&plain);
	assert_int_equal(leat_msg_shutdown(c), -EOPNOTSUPP);
	close_both(c);
}

#define both(test)                                                                                 \
	cmocka_unit_test_setup_teardown(test, pair_setup, pair_teardown),                          \
		cmocka_unit_test_setup_teardown(test, pair_setup_fault, pair_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		both(test_iov),
		both(test_iov_wrong),
		both(test_fragments_dropped),
		both(test_fragments_given_up),
		both(test_mbuf),
		both(test_delivered),
		both(test_many),
		both(test_shutdown),
		both(test_shutdown_small),
	};

	return cmocka_run_group_tests(tests, pair_start_fault, pair_stop);
}
