/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Completion queues. Extended ones, where the device has them, need no lock, because they are
 * declared to belong to one thread. And a poll reads only those fields of a completion that it
 * needs:
 *
 *     ibv_start_poll    wr_id, status                  -> enough for a send that succeeded
 *     ibv_next_poll     read_qp_num, read_byte_len, .. -> needed for a receive, or a failure
 *     ...
 *     ibv_end_poll      also after ibv_next_poll() has found no more
 *
 * A failed completion is handled after ibv_end_poll(), because handling it calls the library.
 */

#include <errno.h>
#include <string.h>

#include <rte_common.h>

#include "verbs_pvt.h"

#ifdef VB_HAVE_CQ_EX

static struct ibv_cq_ex *
create_ex(struct ibv_context *ctx, uint32_t n, struct ibv_comp_channel *channel)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = n,
		.channel = channel,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
	};

	return ibv_create_cq_ex(ctx, &attr);
}

bool
vb_cq_ex_works(struct vb_dev *d)
{
	struct ibv_cq_ex *ex;
	int err;

	/*
	 * rxe ends the poll itself if ibv_next_poll() finds nothing; ibv_end_poll() then loses a
	 * completion.
	 */
	if (d->rxe)
		return false;
	/* The extended poll does not recognize completions of credits. */
	if (d->rules.credits)
		return false;
	ex = create_ex(d->ctx, 4, NULL);
	if (ex == NULL)
		return false;
	err = ibv_destroy_cq(ibv_cq_ex_to_cq(ex));
	if (err != 0)
		LEAT_LOG(WARNING, driver, "%s: destroy CQ: %s", d->name, strerror(err));
	return true;
}

void
vb_cq_read(struct ibv_cq_ex *ex, struct ibv_wc *wc)
{
	wc->wr_id = ex->wr_id;
	wc->status = ex->status;
	wc->qp_num = ibv_wc_read_qp_num(ex);
	if (unlikely(wc->status != IBV_WC_SUCCESS)) {
		wc->vendor_err = ibv_wc_read_vendor_err(ex);
		return;
	}
	wc->opcode = ibv_wc_read_opcode(ex);
	wc->byte_len = ibv_wc_read_byte_len(ex);
	wc->wc_flags = ibv_wc_read_wc_flags(ex);
	if (unlikely((wc->wc_flags & IBV_WC_WITH_IMM) != 0))
		wc->imm_data = ibv_wc_read_imm_data(ex);
}

int
vb_cq_poll_ex(struct ibv_cq_ex *ex, int max, struct ibv_wc *wc)
{
	struct ibv_poll_cq_attr attr = { 0 };
	int n = 0;

	if (ibv_start_poll(ex, &attr) != 0)
		return 0;
	do
		vb_cq_read(ex, &wc[n++]);
	while (n < max && ibv_next_poll(ex) == 0);
	ibv_end_poll(ex);
	return n;
}

#else

bool
vb_cq_ex_works(struct vb_dev *d)
{
	RTE_SET_USED(d);
	return false;
}

int
vb_cq_poll_ex(struct ibv_cq_ex *ex, int max, struct ibv_wc *wc)
{
	RTE_SET_USED(ex);
	RTE_SET_USED(max);
	RTE_SET_USED(wc);
	return 0; /* no extended CQ was created */
}

#endif

struct ibv_cq *
vb_cq_create(const struct vb_dev *d, struct ibv_context *ctx, uint32_t n,
	     struct ibv_comp_channel *channel, struct ibv_cq_ex **ex)
{
	*ex = NULL;
	errno = 0;
#ifdef VB_HAVE_CQ_EX
	if (d->cq_ex) {
		*ex = create_ex(ctx, n, channel);
		return *ex == NULL ? NULL : ibv_cq_ex_to_cq(*ex);
	}
#else
	RTE_SET_USED(d);
#endif
	return ibv_create_cq(ctx, (int)n, NULL, channel, 0);
}
