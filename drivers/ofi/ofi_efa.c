/* SPDX-License-Identifier: BSD-3-Clause */

/* Provider efa: the error numbers of its device, for failed ops. */

#include <errno.h>

#include "ofi_pvt.h"

/* EFA_IO_COMP_STATUS_* of prov/efa/src/efa_errno.h: those that concern the other side. */
#define EFA_REMOTE_ERROR_BAD_ADDRESS 7
#define EFA_REMOTE_ERROR_ABORT 8
#define EFA_REMOTE_ERROR_BAD_DEST_QPN 9
#define EFA_REMOTE_ERROR_RNR 10
#define EFA_REMOTE_ERROR_BAD_LENGTH 11
#define EFA_REMOTE_ERROR_BAD_STATUS 12
#define EFA_LOCAL_ERROR_UNRESP_REMOTE 13
#define EFA_REMOTE_ERROR_UNKNOWN_PEER 14
#define EFA_LOCAL_ERROR_UNREACH_REMOTE 15

const char *
ofi_efa_hint(int prov_errno)
{
	switch (prov_errno) {
	case EFA_REMOTE_ERROR_BAD_ADDRESS:
		return "bad address: does the other side's interface run EFA, is the key its own?";
	case EFA_REMOTE_ERROR_ABORT:
		return "aborted by the other side's device: was its endpoint or memory taken away?";
	case EFA_REMOTE_ERROR_BAD_DEST_QPN:
		return "no such queue pair: did the other side's process end?";
	case EFA_REMOTE_ERROR_RNR:
		return "receiver not ready: does the other side poll its endpoint?";
	case EFA_REMOTE_ERROR_BAD_LENGTH:
		return "the other side's receive buffer is too short: the same libfabric there?";
	case EFA_REMOTE_ERROR_BAD_STATUS:
		return "the other side's device answered what this one does not know";
	case EFA_LOCAL_ERROR_UNRESP_REMOTE:
	case EFA_LOCAL_ERROR_UNREACH_REMOTE:
		return "the other side's device does not answer: is its host up, does the security "
		       "group allow all traffic within itself?";
	case EFA_REMOTE_ERROR_UNKNOWN_PEER:
		return "the other side's device has forgotten this one: was its process started "
		       "again?";
	default:
		return "the device refused: see fi_info -p efa, dmesg";
	}
}

/*
 * Bytes of FI_ADDR_EFA (efa.h efa_ep_addr) that identify a queue pair: 16 of its GID and 2 of its
 * number. Padding and a connection id follow.
 */
#define EFA_QP_LEN 18

bool
ofi_efa_same_qp(const uint8_t *a, const uint8_t *b)
{
	return memcmp(a, b, EFA_QP_LEN) == 0;
}

int
ofi_efa_status(const struct fi_cq_err_entry *err)
{
	bool onesided = (err->flags & (FI_RMA | FI_ATOMIC)) != 0;

	switch (err->prov_errno) {
	case EFA_REMOTE_ERROR_BAD_ADDRESS:
		return onesided ? -EACCES : -ECONNRESET;
	case EFA_REMOTE_ERROR_ABORT:
	case EFA_REMOTE_ERROR_BAD_DEST_QPN:
	case EFA_LOCAL_ERROR_UNRESP_REMOTE:
	case EFA_REMOTE_ERROR_UNKNOWN_PEER:
	case EFA_LOCAL_ERROR_UNREACH_REMOTE:
		return -ECONNRESET;
	case EFA_REMOTE_ERROR_RNR:
	case EFA_REMOTE_ERROR_BAD_STATUS:
	case EFA_REMOTE_ERROR_BAD_LENGTH: /* too short: the provider's receive, not the caller's */
		return -EREMOTEIO;
	default:
		return ofi_errno(err->err);
	}
}
