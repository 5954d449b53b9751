/* SPDX-License-Identifier: BSD-3-Clause */

/* See bare_imm.h. */

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rdma_cma.h>

#include "bare_imm.h"
#include "bench.h"

#define RECVS 512
/* Largest inline message, even if the device can take more. */
#define INLINE 220
#define SIZE_MAX_B (1u << 20)
#define RESOLVE_MS 2000

/* Private data of connect and accept. */
struct hello {
	uint64_t addr;
	uint32_t key;
	uint32_t size;
	uint64_t count; /* number of round trips */
};

struct bare_imm {
	struct rdma_event_channel *ch;
	struct rdma_cm_id *listener, *id;
	struct ibv_cq *scq, *rcq;
	struct ibv_mr *mr;
	uint8_t *buf; /* memory that the peer writes to, then the data that this side sends */
	struct hello other;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
};

static void
check(bool ok, const char *what)
{
	if (!ok)
		bench_die("bare: %s: %s", what, strerror(errno));
}

/* ---- connecting ---- */

static void
resolve(const char *text, struct sockaddr_in *to)
{
	char host[64];
	const char *colon = strrchr(text, ':');

	*to = (struct sockaddr_in){ .sin_family = AF_INET };
	if (colon == NULL || (size_t)(colon - text) >= sizeof(host))
		bench_die("bare: %s is not host:port", text);
	memcpy(host, text, (size_t)(colon - text));
	host[colon - text] = '\0';
	to->sin_port = htons((uint16_t)atoi(colon + 1));
	if (inet_pton(AF_INET, host, &to->sin_addr) != 1)
		bench_die("bare: %s is not an IPv4 address", host);
}

static void
post_recv(struct bare_imm *b)
{
	struct ibv_recv_wr wr = { .wr_id = 0 }, *bad;

	check(ibv_post_recv(b->id->qp, &wr, &bad) == 0, "receive");
}

static void
open_qp(struct bare_imm *b)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 16,
			 .max_recv_wr = RECVS,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = INLINE },
		.qp_type = IBV_QPT_RC,
	};
	int i;

	b->buf = aligned_alloc(4096, 2 * SIZE_MAX_B);
	check(b->buf != NULL, "memory");
	memset(b->buf, 0x5a, 2 * SIZE_MAX_B);
	b->scq = attr.send_cq = ibv_create_cq(b->id->verbs, 16, NULL, NULL, 0);
	b->rcq = attr.recv_cq = ibv_create_cq(b->id->verbs, RECVS, NULL, NULL, 0);
	check(b->scq != NULL && b->rcq != NULL, "completion queues");
	check(rdma_create_qp(b->id, NULL, &attr) == 0, "queue pair");
	b->mr = ibv_reg_mr(b->id->pd, b->buf, 2 * SIZE_MAX_B,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	check(b->mr != NULL, "region");
	for (i = 0; i < RECVS; i++)
		post_recv(b);
}

static void
prepare(struct bare_imm *b, uint32_t size)
{
	b->sge = (struct ibv_sge){ (uintptr_t)b->buf + SIZE_MAX_B, size, b->mr->lkey };
	b->wr = (struct ibv_send_wr){ .sg_list = &b->sge,
				      .num_sge = 1,
				      .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				      .send_flags = IBV_SEND_SIGNALED };
	if (size <= INLINE)
		b->wr.send_flags |= IBV_SEND_INLINE;
	b->wr.imm_data = htonl(size);
	b->wr.wr.rdma.remote_addr = b->other.addr;
	b->wr.wr.rdma.rkey = b->other.key;
}

/* Wait for an event. @param[out] other private data of the event, unless NULL */
static struct rdma_cm_id *
expect(struct bare_imm *b, enum rdma_cm_event_type type, struct hello *other)
{
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	check(rdma_get_cm_event(b->ch, &ev) == 0, "event");
	if (ev->event != type)
		bench_die("bare: %s, where %s was awaited", rdma_event_str(ev->event),
			  rdma_event_str(type));
	if (other != NULL) {
		if (ev->param.conn.private_data_len < sizeof(*other))
			bench_die("bare: the other side said too little");
		memcpy(other, ev->param.conn.private_data, sizeof(*other));
	}
	id = ev->id;
	check(rdma_ack_cm_event(ev) == 0, "event");
	return id;
}

static void
say(struct bare_imm *b, struct rdma_conn_param *p, struct hello *h, uint32_t size, uint64_t count)
{
	*h = (struct hello){ (uintptr_t)b->buf, b->mr->rkey, size, count };
	*p = (struct rdma_conn_param){ .private_data = h,
				       .private_data_len = sizeof(*h),
				       .retry_count = 7,
				       .rnr_retry_count = 7 };
}

/* Ask for a connection; connected() waits for the answer. */
static void
connect_to(struct bare_imm *b, const char *addr, uint32_t size, uint64_t count)
{
	struct rdma_conn_param p;
	struct sockaddr_in to;
	struct hello h;

	resolve(addr, &to);
	b->ch = rdma_create_event_channel();
	check(b->ch != NULL && rdma_create_id(b->ch, &b->id, NULL, RDMA_PS_TCP) == 0, "id");
	check(rdma_resolve_addr(b->id, NULL, (struct sockaddr *)&to, RESOLVE_MS) == 0, "address");
	(void)expect(b, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	check(rdma_resolve_route(b->id, RESOLVE_MS) == 0, "route");
	(void)expect(b, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
	open_qp(b);
	say(b, &p, &h, size, count);
	check(rdma_connect(b->id, &p) == 0, "connect");
}

static void
connected(struct bare_imm *b, uint32_t size)
{
	(void)expect(b, RDMA_CM_EVENT_ESTABLISHED, &b->other);
	prepare(b, size);
}

static void
listen_at(struct bare_imm *b, const char *addr)
{
	struct sockaddr_in at;

	resolve(addr, &at);
	b->ch = rdma_create_event_channel();
	check(b->ch != NULL && rdma_create_id(b->ch, &b->listener, NULL, RDMA_PS_TCP) == 0, "id");
	check(rdma_bind_addr(b->listener, (struct sockaddr *)&at) == 0 &&
		      rdma_listen(b->listener, 1) == 0,
	      "listen");
}

static void
accept_one(struct bare_imm *b)
{
	struct rdma_conn_param p;
	struct hello h;

	b->id = expect(b, RDMA_CM_EVENT_CONNECT_REQUEST, &b->other);
	if (b->other.size > SIZE_MAX_B)
		bench_die("bare: %u B are too many", b->other.size);
	open_qp(b);
	say(b, &p, &h, b->other.size, b->other.count);
	check(rdma_accept(b->id, &p) == 0, "accept");
}

static void
accepted(struct bare_imm *b)
{
	(void)expect(b, RDMA_CM_EVENT_ESTABLISHED, NULL);
	prepare(b, b->other.size);
}

static void
close_one(struct bare_imm *b)
{
	rdma_destroy_qp(b->id);
	check(ibv_dereg_mr(b->mr) == 0, "region");
	check(ibv_destroy_cq(b->scq) == 0 && ibv_destroy_cq(b->rcq) == 0, "completion queues");
	check(rdma_destroy_id(b->id) == 0, "id");
	free(b->buf);
}

/* ---- the loop ---- */

static void
post(struct bare_imm *b)
{
	struct ibv_send_wr *bad;

	check(ibv_post_send(b->id->qp, &b->wr, &bad) == 0, "post");
}

static void
wait_one(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n;

	do {
		n = ibv_poll_cq(cq, 1, &wc);
	} while (n == 0);
	if (n < 0 || wc.status != IBV_WC_SUCCESS)
		bench_die("bare: poll: %s", ibv_wc_status_str(wc.status));
}

static void
answer(struct bare_imm *b)
{
	wait_one(b->rcq);
	post_recv(b);
	post(b);
	wait_one(b->scq);
}

/* far: the other side, if this thread runs both */
static void
round_trips(struct bare_imm *b, struct bare_imm *far, uint64_t n, double *us)
{
	uint64_t i, start;

	for (i = 0; i < n; i++) {
		start = bench_ns();
		post(b);
		wait_one(b->scq);
		if (far != NULL)
			answer(far);
		wait_one(b->rcq);
		us[i] = (double)(bench_ns() - start) / 1e3;
		post_recv(b);
	}
	check(rdma_disconnect(b->id) == 0, "disconnect");
}

void
bare_imm_measure(const char *addr, uint32_t size, uint64_t n, double *us)
{
	struct bare_imm b;

	memset(&b, 0, sizeof(b));
	connect_to(&b, addr, size, n);
	connected(&b, size);
	round_trips(&b, NULL, n, us);
	(void)expect(&b, RDMA_CM_EVENT_DISCONNECTED, NULL);
	close_one(&b);
	rdma_destroy_event_channel(b.ch);
}

void
bare_imm_serve(const char *addr)
{
	struct bare_imm b;
	uint64_t i;

	memset(&b, 0, sizeof(b));
	listen_at(&b, addr);
	printf("listening\n");
	for (;;) {
		accept_one(&b);
		accepted(&b);
		for (i = 0; i < b.other.count; i++)
			answer(&b);
		(void)expect(&b, RDMA_CM_EVENT_DISCONNECTED, NULL);
		close_one(&b);
	}
}

void
bare_imm_both(const char *addr, uint32_t size, uint64_t n, double *us)
{
	struct bare_imm near, far;

	memset(&near, 0, sizeof(near));
	memset(&far, 0, sizeof(far));
	listen_at(&far, addr);
	connect_to(&near, addr, size, n);
	accept_one(&far);
	connected(&near, size);
	accepted(&far);
	round_trips(&near, &far, n, us);
	(void)expect(&far, RDMA_CM_EVENT_DISCONNECTED, NULL);
	/* near receives its disconnect event only when far closes. */
	close_one(&far);
	(void)expect(&near, RDMA_CM_EVENT_DISCONNECTED, NULL);
	close_one(&near);
	check(rdma_destroy_id(far.listener) == 0, "id");
	rdma_destroy_event_channel(near.ch);
	rdma_destroy_event_channel(far.ch);
}
