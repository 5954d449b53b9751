/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STUB_PVT_H
#define STUB_PVT_H

/*
 * Shared by the files of the simulation.
 *
 *     stub_ibv.c    objects, slow calls
 *     stub_fast.c   post and poll
 *     stub_cm.c     rdma_cm
 */

#include "stub_ibv.h"

struct stub_pd {
	struct ibv_pd pd;
	uint32_t users;
};

struct stub_cqe {
	uint64_t wr_id;
	uint32_t status, opcode;
	uint32_t qp_num, byte_len;
	uint32_t flags, imm;
};

struct stub_cq {
	union {
		struct ibv_cq cq;
		struct ibv_cq_ex ex; /* begins as ibv_cq */
	};
	struct stub_cqe *ring;
	uint32_t mask, size, head, tail;
	uint32_t users;
};

/* A queue of posted receives: their wr_id. */
struct stub_rq {
	uint64_t *ring;
	uint32_t mask, size, head, tail;
};

struct stub_srq {
	struct ibv_srq srq;
	struct stub_rq rq;
	uint32_t users;
};

struct stub_wr {
	uint64_t wr_id;
	uint32_t opcode; /* opcode of the completion */
	uint32_t flags;
};

/* Largest number of requests between ibv_wr_start() and ibv_wr_complete(). */
#define STUB_LIST_MAX 64

struct stub_qp {
	struct ibv_qp_ex ex; /* begins with ibv_qp */
	struct stub_cq *scq, *rcq;
	struct stub_rq *from; /* posted receives: the SRQ's, or the queue pair's own */
	struct stub_wr *waiting;
	uint32_t mask, depth, head, tail;
	bool error;
	uint32_t nb_list;
	struct stub_wr list[STUB_LIST_MAX];
	struct stub_rq rq;
};

/* Attributes that rdma_cm sets for a queue pair in RTS, and that the driver changes. */
#define STUB_RTS_MASK (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY)

static inline struct stub_cq *
stub_cq_of(struct ibv_cq *cq)
{
	return (struct stub_cq *)cq;
}

static inline struct stub_srq *
stub_srq_of(struct ibv_srq *srq)
{
	return (struct stub_srq *)srq;
}

static inline struct stub_qp *
stub_qp_of(struct ibv_qp *qp)
{
	return (struct stub_qp *)qp;
}

void stub_fast_ops(struct ibv_context_ops *ops);
void stub_fast_cq(struct ibv_cq_ex *ex);
void stub_fast_qp(struct stub_qp *q);

#endif /* STUB_PVT_H */
