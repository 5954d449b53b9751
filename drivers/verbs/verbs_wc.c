/* SPDX-License-Identifier: BSD-3-Clause */

/* Completion statuses: their names, the statuses of op and connection, and what to check. */

#include <rte_common.h>

#include "verbs_pvt.h"

struct wc_row {
	const char *name;
	int op;	      /* status of a send or one-sided op; 1: its connection's status */
	int recv;     /* status of a receive; 1: its connection's status */
	int end;      /* status of the connection's end, after a send or one-sided op */
	int recv_end; /* status of the connection's end, after a receive */
	const char *hint;
};

/* clang-format off */
#define ROW(x, ...) [IBV_WC_##x] = { "IBV_WC_" #x, __VA_ARGS__ }
static const struct wc_row rows[] = {
	ROW(SUCCESS, 0, 0, 0, 0, ""),
	ROW(LOC_LEN_ERR, -EMSGSIZE, -EMSGSIZE, -EIO, -EPROTO,
	    "a message longer than the receive that it met, or than the device takes"),
	ROW(LOC_QP_OP_ERR, -EIO, -EIO, -EIO, -EIO, "the queue pair was used wrongly"),
	ROW(LOC_EEC_OP_ERR, -EIO, -EIO, -EIO, -EIO, "the device failed"),
	ROW(LOC_PROT_ERR, -EINVAL, -EINVAL, -EIO, -EIO,
	    "a local buffer outside of its region: was it deregistered?"),
	ROW(WR_FLUSH_ERR, 1, 1, -ECONNRESET, -ECONNRESET, "the connection had ended before"),
	ROW(MW_BIND_ERR, -EIO, -EIO, -EIO, -EIO, "the device failed"),
	ROW(BAD_RESP_ERR, -EREMOTEIO, -EREMOTEIO, -EPROTO, -EPROTO, "the answer was malformed"),
	ROW(LOC_ACCESS_ERR, -EIO, -EACCES, -EIO, -EPROTO,
	    "the peer's access was refused: wrong key?"),
	ROW(REM_INV_REQ_ERR, -EREMOTEIO, -EMSGSIZE, -ECONNRESET, -EPROTO,
	    "a request was refused: longer than the receive that it met, or an operation that is "
	    "not allowed?"),
	ROW(REM_ACCESS_ERR, -EACCES, -ECONNRESET, -ECONNRESET, -EPROTO,
	    "the access was refused: is the remote key right, does it have the right, is the "
	    "range inside the region?"),
	ROW(REM_OP_ERR, -EREMOTEIO, -ECONNRESET, -ECONNRESET, -ECONNRESET,
	    "the peer could not complete it: does its receive lie in registered memory?"),
	ROW(RETRY_EXC_ERR, -ECONNRESET, -ECONNRESET, -ECONNRESET, -ECONNRESET,
	    "no answer: is the peer alive, the link up (rdma link, ip link), do MTU and GID fit, "
	    "is timeout= too short?"),
	ROW(RNR_RETRY_EXC_ERR, -EREMOTEIO, -ECONNRESET, -ECONNRESET, -ECONNRESET,
	    "the peer posts no receives: raise rnr_retry= (7: wait without end)"),
	ROW(LOC_RDD_VIOL_ERR, -EIO, -EIO, -EIO, -EIO, "the device failed"),
	ROW(REM_INV_RD_REQ_ERR, -EREMOTEIO, -EREMOTEIO, -EPROTO, -EPROTO,
	    "the peer refused the request"),
	ROW(REM_ABORT_ERR, -EREMOTEIO, -ECONNRESET, -ECONNRESET, -ECONNRESET, "the peer gave up"),
	ROW(INV_EECN_ERR, -EIO, -EIO, -EIO, -EIO, "the device failed"),
	ROW(INV_EEC_STATE_ERR, -EIO, -EIO, -EIO, -EIO, "the device failed"),
	ROW(FATAL_ERR, -EIO, -EIO, -EIO, -EIO, "the device failed: see dmesg"),
	ROW(RESP_TIMEOUT_ERR, -ECONNRESET, -ECONNRESET, -ECONNRESET, -ECONNRESET,
	    "the peer did not answer"),
	ROW(GENERAL_ERR, -EIO, -EIO, -EIO, -EIO, "the device failed: see dmesg"),
};
/* clang-format on */

static const struct wc_row unknown = {
	"IBV_WC_?", -EIO, -EIO, -EIO, -EIO, "a status that this driver does not know"
};

static const struct wc_row *
row(unsigned int status)
{
	return status < RTE_DIM(rows) && rows[status].name != NULL ? &rows[status] : &unknown;
}

const char *
vb_wc_name(unsigned int status)
{
	return row(status)->name;
}

const char *
vb_wc_hint(unsigned int status)
{
	return row(status)->hint;
}

int
vb_wc_op_status(unsigned int status, bool recv)
{
	return recv ? row(status)->recv : row(status)->op;
}

int
vb_wc_end_status(unsigned int status, bool recv)
{
	return recv ? row(status)->recv_end : row(status)->end;
}
