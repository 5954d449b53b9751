/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BARE_FI_PVT_H
#define BARE_FI_PVT_H

/* bare_fi.c opens, bare_fi_loop.c measures. */

#include <stdbool.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "bare_fi.h"

/* Entries per fi_cq_read. */
#define BARE_FI_BURST 16

struct bare_fi {
	/* what the loops use, first */
	struct fid_ep *ep;
	struct fid_cq *cq;
	fi_addr_t peer;
	size_t inject_end;	  /* messages shorter than this are injected */
	uint8_t *tx_buf, *rx_buf; /* slots of stride bytes */
	void *tx_desc, *rx_desc;
	struct fi_context2 *tx_ctx, *rx_ctx; /* one per slot; the CQ gives them back */
	size_t stride;
	uint32_t nb_slots;
	/* the rest */
	int fd;
	size_t max_size;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_mr *tx_mr, *rx_mr;
	size_t map_len;
	bool given; /* tx_buf and rx_buf are not ours */
};

/* Notes an error. Returns -1. */
int bare_fi_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The first message each way, which makes the connection. 0 or -1. */
int bare_fi_first(struct bare_fi *f);

#endif /* BARE_FI_PVT_H */
