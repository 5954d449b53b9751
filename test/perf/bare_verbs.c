/* SPDX-License-Identifier: BSD-3-Clause */

/* See bare_verbs.h. */

#include <stddef.h>
#include <string.h>

#include "bare_verbs.h"
#include "bench.h"

#define BATCH 16
#define DEPTH 128

static int
post_list(struct bare_verbs *b)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(b->qp, b->wr, &bad);
}

static inline __attribute__((always_inline)) int
post_wr(struct bare_verbs *b, bool inl)
{
	struct ibv_qp_ex *x = b->qpx;
	const struct ibv_send_wr *wr;

	ibv_wr_start(x);
	for (wr = b->wr; wr != NULL; wr = wr->next) {
		x->wr_id = wr->wr_id;
		x->wr_flags = wr->send_flags;
		switch (wr->opcode) {
		case IBV_WR_SEND:
			ibv_wr_send(x);
			break;
		case IBV_WR_RDMA_WRITE:
			ibv_wr_rdma_write(x, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
			break;
		case IBV_WR_RDMA_READ:
			ibv_wr_rdma_read(x, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
			break;
		case IBV_WR_ATOMIC_FETCH_AND_ADD:
			ibv_wr_atomic_fetch_add(x, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
						wr->wr.atomic.compare_add);
			break;
		default:
			return -1;
		}
		if (inl)
			ibv_wr_set_inline_data(x, (void *)(uintptr_t)wr->sg_list->addr, b->size);
		else
			ibv_wr_set_sge(x, wr->sg_list->lkey, wr->sg_list->addr, b->size);
	}
	return ibv_wr_complete(x);
}

static int
post_wr_inline(struct bare_verbs *b)
{
	return post_wr(b, true);
}

static int
post_wr_sge(struct bare_verbs *b)
{
	return post_wr(b, false);
}

void
bare_verbs_latency(struct bare_verbs *b, uint64_t n)
{
	struct ibv_wc wc;
	uint64_t i;
	int ne;

	for (i = 0; i < n; i++) {
		if (b->post(b) != 0)
			bench_die("reference: post failed");
		do {
			ne = ibv_poll_cq(b->scq, 1, &wc);
		} while (ne == 0);
		if (ne < 0 || wc.status != IBV_WC_SUCCESS)
			bench_die("reference: poll: %s", ibv_wc_status_str(wc.status));
	}
}

void
bare_verbs_bandwidth(struct bare_verbs *b, uint64_t n)
{
	uint64_t end = b->ccnt + n;
	struct ibv_wc wc[BATCH];
	int i, ne;

	while (b->ccnt < end) {
		while (b->scnt < end && b->scnt + b->list <= b->depth + b->ccnt) {
			if (b->post(b) != 0)
				bench_die("reference: post failed");
			b->scnt += b->list;
		}
		ne = ibv_poll_cq(b->scq, BATCH, wc);
		if (ne < 0)
			bench_die("reference: poll failed");
		for (i = 0; i < ne; i++) {
			if (wc[i].status != IBV_WC_SUCCESS)
				bench_die("reference: %s", ibv_wc_status_str(wc[i].status));
			b->ccnt += b->list;
		}
	}
}

void
bare_verbs_receive(struct bare_verbs *b)
{
	struct ibv_wc wc[BATCH];
	struct ibv_recv_wr *bad;
	int i, ne;

	do {
		ne = ibv_poll_cq(b->rcq, BATCH, wc);
		for (i = 0; i < ne; i++) {
			if (wc[i].status != IBV_WC_SUCCESS)
				bench_die("reference: %s", ibv_wc_status_str(wc[i].status));
			b->rcnt++;
			if (++b->unused >= BARE_VERBS_LIST) {
				if (ibv_post_srq_recv(b->srq, b->rwr, &bad) != 0)
					bench_die("reference: post receives failed");
				b->unused -= BARE_VERBS_LIST;
			}
		}
	} while (ne > 0);
}

void
bare_verbs_prepare(struct bare_verbs *b, enum ibv_wr_opcode opcode, uint32_t size, uint32_t list,
		   bool inl)
{
	uint32_t i;

	b->list = list;
	b->size = size;
	if (b->qpx == NULL)
		b->post = post_list;
	else
		b->post = inl ? post_wr_inline : post_wr_sge;
	memset(b->wr, 0, sizeof(b->wr));
	for (i = 0; i < list; i++) {
		struct ibv_send_wr *wr = &b->wr[i];

		b->sge[i] = (struct ibv_sge){ (uintptr_t)b->buf, size, 1 };
		wr->next = i + 1 < list ? &b->wr[i + 1] : NULL;
		wr->sg_list = &b->sge[i];
		wr->num_sge = 1;
		wr->opcode = opcode;
		wr->send_flags = (i + 1 == list ? (unsigned int)IBV_SEND_SIGNALED : 0) |
				 (inl ? (unsigned int)IBV_SEND_INLINE : 0);
		if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
			wr->wr.atomic.remote_addr = (uintptr_t)b->buf;
			wr->wr.atomic.rkey = 1;
			wr->wr.atomic.compare_add = 1;
		} else {
			wr->wr.rdma.remote_addr = (uintptr_t)b->buf;
			wr->wr.rdma.rkey = 1;
		}
	}
}

static struct ibv_device *
find(struct ibv_device **list, const char *dev)
{
	for (; *list != NULL; list++) {
		if (strcmp(ibv_get_device_name(*list), dev) == 0)
			return *list;
	}
	bench_die("reference: no device %s", dev);
}

static void
open_qp(struct bare_verbs *b, bool wr_api)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = b->scq,
		.recv_cq = b->rcq,
		.srq = b->srq,
		.cap = { .max_send_wr = DEPTH, .max_send_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = b->pd,
	};

	if (wr_api) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE |
				      IBV_QP_EX_WITH_RDMA_READ |
				      IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	}
	b->qp = ibv_create_qp_ex(b->ctx, &attr);
	if (b->qp == NULL)
		bench_die("reference: no queue pair");
	b->qpx = wr_api ? ibv_qp_to_qp_ex(b->qp) : NULL;
}

void
bare_verbs_open(struct bare_verbs *b, const char *dev, bool wr_api)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 2 * BARE_VERBS_LIST, .max_sge = 1 } };
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_recv_wr *bad;
	uint32_t i;

	memset(b, 0, sizeof(*b));
	if (list == NULL)
		bench_die("reference: no devices");
	b->ctx = ibv_open_device(find(list, dev));
	ibv_free_device_list(list);
	if (b->ctx == NULL)
		bench_die("reference: can't open %s", dev);
	b->pd = ibv_alloc_pd(b->ctx);
	b->scq = ibv_create_cq(b->ctx, DEPTH, NULL, NULL, 0);
	b->rcq = ibv_create_cq(b->ctx, DEPTH, NULL, NULL, 0);
	b->srq = b->pd == NULL ? NULL : ibv_create_srq(b->pd, &srq);
	if (b->scq == NULL || b->rcq == NULL || b->srq == NULL)
		bench_die("reference: can't make its queues");
	open_qp(b, wr_api);
	b->depth = DEPTH;
	for (i = 0; i < BARE_VERBS_LIST; i++) {
		b->rsge[i] = (struct ibv_sge){ (uintptr_t)b->buf, sizeof(b->buf), 1 };
		b->rwr[i].wr_id = i;
		b->rwr[i].next = i + 1 < BARE_VERBS_LIST ? &b->rwr[i + 1] : NULL;
		b->rwr[i].sg_list = &b->rsge[i];
		b->rwr[i].num_sge = 1;
	}
	if (ibv_post_srq_recv(b->srq, b->rwr, &bad) != 0)
		bench_die("reference: post receives failed");
}

void
bare_verbs_close(struct bare_verbs *b)
{
	if (ibv_destroy_qp(b->qp) != 0 || ibv_destroy_srq(b->srq) != 0 ||
	    ibv_destroy_cq(b->scq) != 0 || ibv_destroy_cq(b->rcq) != 0 ||
	    ibv_dealloc_pd(b->pd) != 0 || ibv_close_device(b->ctx) != 0)
		bench_die("reference: can't close");
}
