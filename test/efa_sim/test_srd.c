/* SPDX-License-Identifier: BSD-3-Clause */

/* Reliable datagrams that arrive: within a process, and between two. */

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

#define MTU 8928

static void
fill(char *mem, uint32_t length, uint32_t seed)
{
	for (uint32_t i = 0; i < length; i++)
		mem[i] = (char)(i * 7 + seed + (i >> 8));
}

static void
check_filled(const char *mem, uint32_t length, uint32_t seed)
{
	for (uint32_t i = 0; i < length; i++)
		CHECK_EQUAL((uint8_t)mem[i], (uint8_t)(i * 7 + seed + (i >> 8)));
}

static void
sizes(void)
{
	static const uint32_t lengths[] = {
		0, 1, 31, 32, 33, 63, 64, 65, 4095, 4096, MTU - 1, MTU,
	};
	struct ep a, b;
	struct host host;
	struct comp comp;
	struct ibv_ah *ah;

	host_open(&host, 0);
	ep_open(&a, &host, NULL);
	ep_open(&b, &host, &(struct ep_options){ .qkey = 0xffffffff });
	CHECK(a.addr.qpn != b.addr.qpn);
	ah = ah_open(&host, &host.gid);
	for (uint32_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint32_t n = lengths[i];

		fill(a.mem, n, i);
		memset(b.mem, 0, MTU + 2);
		CHECK_EQUAL(post_recv(&b, 100 + i, 1, MTU), 0);
		CHECK_EQUAL(post_send(&a, 200 + i, ah, &b.addr, 0, n), 0);
		comp_wait(&a, &comp);
		CHECK_EQUAL(comp.status, ST_OK);
		CHECK_EQUAL(comp.wr_id, 200 + i);
		CHECK_EQUAL(comp.opcode, IBV_WC_SEND);
		CHECK_EQUAL(comp.qp_num, a.addr.qpn);
		comp_wait(&b, &comp);
		CHECK_EQUAL(comp.status, ST_OK);
		CHECK_EQUAL(comp.wr_id, 100 + i);
		CHECK_EQUAL(comp.opcode, IBV_WC_RECV);
		CHECK_EQUAL(comp.qp_num, b.addr.qpn);
		CHECK_EQUAL(comp.src_qp, a.addr.qpn);
		CHECK_EQUAL(comp.byte_len, n);
		check_filled(b.mem + 1, n, i);
		CHECK_EQUAL(b.mem[0], 0);
		CHECK_EQUAL(b.mem[1 + n], 0);
	}
	CHECK_EQUAL(counter("sends"), 12);
	CHECK_EQUAL(counter("recvs"), 12);
	CHECK_EQUAL(counter("send_bytes"), counter("recv_bytes"));
	ah_close(ah);
	ep_close(&a);
	ep_close(&b);
	host_close(&host);
}

/* A message is gathered from two buffers, and scattered to two. */
static void
pieces(void)
{
	struct ibv_sge from[2], to[2];
	struct ep a, b;
	struct host host;
	struct ibv_ah *ah;

	host_open(&host, 0);
	ep_open(&a, &host, NULL);
	ep_open(&b, &host, NULL);
	ah = ah_open(&host, &host.gid);
	fill(a.mem, 1000, 3);
	for (uint32_t cut = 0; cut <= 1000; cut += 125) {
		from[0] = (struct ibv_sge){ (uintptr_t)a.mem, cut, a.mr->lkey };
		from[1] = (struct ibv_sge){ (uintptr_t)a.mem + cut, 1000 - cut, a.mr->lkey };
		to[0] = (struct ibv_sge){ (uintptr_t)b.mem + 5000, 1000 - cut, b.mr->lkey };
		to[1] = (struct ibv_sge){ (uintptr_t)b.mem + 6000 - cut, cut, b.mr->lkey };
		memset(b.mem + 5000, 0, 1000);
		CHECK_EQUAL(post_recv_sges(&b, 1, to, 2), 0);
		CHECK_EQUAL(post_send_sges(&a, 2, ah, &b.addr, from, 2, 0), 0);
		comp_expect(&a, ST_OK);
		comp_expect(&b, ST_OK);
		check_filled(b.mem + 5000, 1000, 3);
	}
	ah_close(ah);
	ep_close(&a);
	ep_close(&b);
	host_close(&host);
}

/* Inline data need no region, and may be changed as soon as they are posted. */
static void
inlined(void)
{
	char data[64];
	struct ibv_sge sge[2] = { { .addr = (uintptr_t)data, .length = 20 },
				  { .addr = (uintptr_t)data + 20, .length = 12 } };
	/* If a message's hold ends before its receive is posted, the device sends it again. */
	struct ep_options options = { .rnr_retry = 7 };
	struct ep a, b;
	struct host host;
	struct comp comp;
	struct ibv_ah *ah;

	host_open(&host, 0);
	ep_open(&a, &host, &options);
	ep_open(&b, &host, NULL);
	ah = ah_open(&host, &host.gid);
	fill(data, 32, 9);
	CHECK_EQUAL(post_send_sges(&a, 1, ah, &b.addr, sge, 2, IBV_SEND_INLINE), 0);
	CHECK_EQUAL(post_send_sges(&a, 2, ah, &b.addr, NULL, 0, IBV_SEND_INLINE), 0);
	memset(data, 0, sizeof(data));
	/* Post the receives only now: the configuration holds the messages back (reorder). */
	CHECK_EQUAL(post_recv(&b, 3, 0, 100), 0);
	CHECK_EQUAL(post_recv(&b, 4, 100, 100), 0);
	for (int i = 0; i < 2; i++) {
		comp_wait(&b, &comp);
		CHECK_EQUAL(comp.status, ST_OK);
		if (comp.byte_len == 32)
			check_filled(b.mem + (comp.wr_id == 3 ? 0 : 100), 32, 9);
		else
			CHECK_EQUAL(comp.byte_len, 0);
	}
	comp_expect(&a, ST_OK);
	comp_expect(&a, ST_OK);
	sge[1].length = 13;
	CHECK_EQUAL(post_send_sges(&a, 1, ah, &b.addr, sge, 2, IBV_SEND_INLINE), EINVAL);
	comp_none(&a);
	ah_close(ah);
	ep_close(&a);
	ep_close(&b);
	host_close(&host);
}

#define ROUNDS 500

/* Echo messages until the peer has sent all. */
void
child_echo(int fd, void *arg)
{
	struct addr other;
	struct host host;
	struct comp comp;
	struct ibv_ah *ah;
	struct ep ep;

	if (arg != NULL)
		CHECK(close(STDIN_FILENO) == 0); /* so the arena's descriptor gets the number 0 */
	host_open(&host, 0);
	ep_open(&ep, &host, NULL);
	CHECK_EQUAL(post_recv(&ep, 1, 0, MTU), 0);
	put(fd, &ep.addr, sizeof(ep.addr));
	get(fd, &other, sizeof(other));
	CHECK(memcmp(&other.gid, &host.gid, sizeof(other.gid)) != 0);
	ah = ah_open(&host, &other.gid);
	for (int i = 0; i < ROUNDS; i++) {
		comp_wait(&ep, &comp);
		CHECK_EQUAL(comp.status, ST_OK);
		CHECK_EQUAL(comp.opcode, IBV_WC_RECV);
		CHECK_EQUAL(comp.src_qp, other.qpn);
		CHECK_EQUAL(post_send(&ep, 2, ah, &other, 0, comp.byte_len), 0);
		comp_expect(&ep, ST_OK);
		if (i + 1 < ROUNDS)
			CHECK_EQUAL(post_recv(&ep, 1, 0, MTU), 0);
	}
	ah_close(ah);
	ep_close(&ep);
	host_close(&host);
}

static void
ping(struct child *child)
{
	struct addr other;
	struct host host;
	struct comp comp;
	struct ibv_ah *ah;
	struct ep ep;
	int got, sent;

	host_open(&host, 0);
	ep_open(&ep, &host, NULL);
	put(child->fd, &ep.addr, sizeof(ep.addr));
	get(child->fd, &other, sizeof(other));
	ah = ah_open(&host, &other.gid);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint32_t length = i * 7919 % (MTU + 1);

		fill(ep.mem, length, i);
		CHECK_EQUAL(post_recv(&ep, 1, MTU, MTU), 0);
		CHECK_EQUAL(post_send(&ep, 2, ah, &other, 0, length), 0);
		for (got = sent = 0; got + sent < 2;) {
			comp_wait(&ep, &comp);
			/* The peer may be late with its receive. */
			if (comp.status == ST_RNR) {
				CHECK_EQUAL(post_send(&ep, 2, ah, &other, 0, length), 0);
				continue;
			}
			CHECK_EQUAL(comp.status, ST_OK);
			*(comp.opcode == IBV_WC_RECV ? &got : &sent) += 1;
		}
		CHECK_EQUAL(got, 1);
		check_filled(ep.mem + MTU, length, i);
	}
	child_end(child);
	CHECK_EQUAL(counter("recvs"), ROUNDS);
	CHECK_EQUAL(counter("peers"), 1);
	ah_close(ah);
	ep_close(&ep);
	host_close(&host);
}

static void
two_processes(void)
{
	struct child child;

	child_start(&child, child_echo, NULL);
	ping(&child);
}

static void
without_stdin(void)
{
	struct child child;

	child_start(&child, child_echo, &child);
	ping(&child);
}

static void
two_programs(void)
{
	struct child child;

	child_exec(&child, "echo");
	ping(&child);
}

#define NB_SENDERS 4
#define NB_EACH 1500
#define LONG 700

/* Write the sender's number, the message's number, and data that depend on both. */
static void
fill_numbered(char *mem, uint32_t sender, uint32_t i)
{
	memcpy(mem, &sender, sizeof(sender));
	memcpy(mem + 4, &i, sizeof(i));
	fill(mem + 8, LONG - 8, sender * 31 + i);
}

static void
one_of_many(int fd, void *arg)
{
	struct ep_options options = { .qkey = 3, .rnr_retry = 7 };
	uint32_t sender = *(const uint32_t *)arg;
	struct addr to;
	struct host host;
	struct ibv_ah *ah;
	struct comp comp;
	uint32_t done = 0;
	struct ep ep;

	host_open(&host, 0);
	ep_open(&ep, &host, &options);
	get(fd, &to, sizeof(to));
	ah = ah_open(&host, &to.gid);
	for (uint32_t i = 0; i < NB_EACH; i++) {
		uint32_t place = i % 64 * 1024;

		/*
		 * A part of the memory can be filled again when the last message from it has
		 * completed; messages complete in any order.
		 */
		for (; i >= 64 && ep.mem[place + LONG] != 0; done++) {
			comp_wait(&ep, &comp);
			CHECK_EQUAL(comp.status, ST_OK);
			ep.mem[comp.wr_id + LONG] = 0;
		}
		fill_numbered(ep.mem + place, sender, i);
		ep.mem[place + LONG] = 1;
		CHECK_EQUAL(post_send(&ep, place, ah, &to, place, LONG), 0);
	}
	for (; done < NB_EACH; done++)
		comp_expect(&ep, ST_OK);
	comp_none(&ep);
	ah_close(ah);
	ep_close(&ep);
	host_close(&host);
}

/* All messages arrive, once and whole, though the receiver is too slow for the senders. */
static void
many_senders(void)
{
	static bool seen[NB_SENDERS][NB_EACH];
	struct child child[NB_SENDERS];
	static char wanted[LONG];
	struct host host;
	struct comp comp;
	struct ep ep;

	for (uint32_t s = 0; s < NB_SENDERS; s++)
		child_start(&child[s], one_of_many, &s);
	host_open(&host, 0);
	ep_open(&ep, &host, &(struct ep_options){ .qkey = 5, .recvs = 64 });
	for (uint64_t i = 0; i < 64; i++)
		CHECK_EQUAL(post_recv(&ep, i * 1024, (uint32_t)i * 1024, LONG), 0);
	for (uint32_t s = 0; s < NB_SENDERS; s++)
		put(child[s].fd, &ep.addr, sizeof(ep.addr));
	for (uint32_t i = 0; i < NB_SENDERS * NB_EACH; i++) {
		uint32_t sender, number;

		comp_wait(&ep, &comp);
		CHECK_EQUAL(comp.status, ST_OK);
		CHECK_EQUAL(comp.byte_len, LONG);
		memcpy(&sender, ep.mem + comp.wr_id, sizeof(sender));
		memcpy(&number, ep.mem + comp.wr_id + 4, sizeof(number));
		CHECK(sender < NB_SENDERS && number < NB_EACH && !seen[sender][number]);
		seen[sender][number] = true;
		fill_numbered(wanted, sender, number);
		CHECK(memcmp(wanted, ep.mem + comp.wr_id, LONG) == 0);
		CHECK_EQUAL(post_recv(&ep, comp.wr_id, (uint32_t)comp.wr_id, LONG), 0);
	}
	for (uint32_t s = 0; s < NB_SENDERS; s++)
		child_end(&child[s]);
	comp_none(&ep);
	ep_close(&ep);
	host_close(&host);
}

static void
session_send(struct ep *a, uint64_t wr_id, struct ibv_ah *ah, const struct addr *to)
{
	a->ex->wr_id = wr_id;
	ibv_wr_send(a->ex);
	ibv_wr_set_ud_addr(a->ex, ah, to->qpn, to->qkey);
}

/* Several messages between wr_start and wr_complete: all of them are posted, or none. */
static void
session(void)
{
	char in[] = "in", line[] = "line";
	struct ibv_data_buf bufs[2] = { { in, 2 }, { line, 4 } }, long_buf = { 0, 33 };
	struct ep a, b;
	struct host host;
	struct comp comp;
	struct ibv_ah *ah;

	host_open(&host, 0);
	ep_open(&a, &host, &(struct ep_options){ .sends = 4 });
	ep_open(&b, &host, NULL);
	ah = ah_open(&host, &host.gid);
	long_buf.addr = a.mem;
	for (uint64_t i = 0; i < 3; i++)
		CHECK_EQUAL(post_recv(&b, 10 + i, (uint32_t)(i * 64), 64), 0);
	memcpy(a.mem, "registered", 10);
	ibv_wr_start(a.ex);
	session_send(&a, 1, ah, &b.addr);
	ibv_wr_set_inline_data_list(a.ex, 2, bufs);
	session_send(&a, 2, ah, &b.addr);
	ibv_wr_set_sge(a.ex, a.mr->lkey, (uint64_t)(uintptr_t)a.mem, 10);
	comp_none(&a);
	comp_none(&b);
	CHECK_EQUAL(ibv_wr_complete(a.ex), 0);
	for (uint64_t i = 0; i < 2; i++) {
		CHECK_EQUAL(comp_expect(&a, ST_OK), 1 + i);
		comp_wait(&b, &comp);
		CHECK_EQUAL(comp.status, ST_OK);
		CHECK_EQUAL(comp.wr_id, 10 + i);
		CHECK_EQUAL(comp.byte_len, i == 0 ? 6 : 10);
	}
	CHECK(memcmp(b.mem, "inline", 6) == 0 && memcmp(b.mem + 64, "registered", 10) == 0);
	/* Nothing is posted if the second message is too long, nor if the queue can't hold all. */
	ibv_wr_start(a.ex);
	session_send(&a, 3, ah, &b.addr);
	session_send(&a, 4, ah, &b.addr);
	ibv_wr_set_inline_data_list(a.ex, 1, &long_buf);
	CHECK_EQUAL(ibv_wr_complete(a.ex), EINVAL);
	ibv_wr_start(a.ex);
	for (uint64_t i = 0; i < 5; i++)
		session_send(&a, 5 + i, ah, &b.addr);
	CHECK_EQUAL(ibv_wr_complete(a.ex), ENOMEM);
	comp_none(&a);
	comp_none(&b);
	ibv_wr_start(a.ex);
	session_send(&a, 20, ah, &b.addr);
	CHECK_EQUAL(ibv_wr_complete(a.ex), 0);
	CHECK_EQUAL(comp_expect(&a, ST_OK), 20);
	CHECK_EQUAL(comp_expect(&b, ST_OK), 12);
	ah_close(ah);
	ep_close(&a);
	ep_close(&b);
	host_close(&host);
}

const struct test tests_srd[] = {
	{ .name = "sizes", .run = sizes },
	{ .name = "pieces", .run = pieces },
	{ .name = "inline", .config = "reorder=8,hold-us=1000", .run = inlined },
	{ .name = "session", .run = session },
	{ .name = "two-processes", .run = two_processes },
	{ .name = "two-processes-stdin", .run = without_stdin },
	{ .name = "two-programs", .run = two_programs },
	{ .name = "many-senders", .config = "rnr-us=20", .run = many_senders },
	{ .name = "many-senders-reordered",
	  .config = "rnr-us=20,reorder=16,hold-us=50",
	  .run = many_senders },
	{ .name = "two-processes-reordered", .config = "reorder=16", .run = two_processes },
	{ 0 },
};
