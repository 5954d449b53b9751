/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BARE_VERBS_H
#define BARE_VERBS_H

/*
 * The reference of bench-verbs: perftest's work per message, without its options and time stamps.
 * Requests are built once, before the measurement; posting passes the same requests again and
 * again.
 *
 *     latency    post one, poll for one                       (run_iter_lat, run_iter_lat_send)
 *     bandwidth  post a list of 32 while the send queue has   (run_iter_bw, --post_list 32)
 *                room, poll for up to 16
 *     receiving  poll for up to 16, post a list of 32 when    (run_iter_bw_server,
 *                that many were used                           --recv_post_list 32)
 *
 * Requests are posted with ibv_wr_* or, as with --use_old_post_send, with ibv_post_send().
 */

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#define BARE_VERBS_LIST 32

struct bare_verbs {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *scq, *rcq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_qp_ex *qpx;
	int (*post)(struct bare_verbs *b);
	uint32_t list; /* length of a posted list */
	uint32_t depth;
	uint32_t size;
	uint64_t scnt, ccnt;
	uint64_t rcnt, unused;
	struct ibv_send_wr wr[BARE_VERBS_LIST];
	struct ibv_sge sge[BARE_VERBS_LIST];
	struct ibv_recv_wr rwr[BARE_VERBS_LIST];
	struct ibv_sge rsge[BARE_VERBS_LIST];
	char buf[4096];
};

/* Open the device; end the program on failure. wr_api: post with ibv_wr_*. */
void bare_verbs_open(struct bare_verbs *b, const char *dev, bool wr_api);
void bare_verbs_close(struct bare_verbs *b);
/* Build the requests: lists of `list` requests with this opcode; inl: with inline data. */
void bare_verbs_prepare(struct bare_verbs *b, enum ibv_wr_opcode opcode, uint32_t size,
			uint32_t list, bool inl);

/* Send n messages; n must be a multiple of the list's length. */
void bare_verbs_latency(struct bare_verbs *b, uint64_t n);
void bare_verbs_bandwidth(struct bare_verbs *b, uint64_t n);
/* Poll for messages that have arrived, and do nothing else. */
void bare_verbs_receive(struct bare_verbs *b);

#endif /* BARE_VERBS_H */
