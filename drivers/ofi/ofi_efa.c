/* SPDX-License-Identifier: BSD-3-Clause */

/* Provider efa: what its device says of failed ops. */

#include <errno.h>

#include "ofi_pvt.h"

/* EFA_IO_COMP_STATUS_* of prov/efa/src/efa_errno.h: what the device says of the other side. */
#define EFA_REMOTE_ERROR_BAD_ADDRESS 7
#define EFA_REMOTE_ERROR_ABORT 8
#define EFA_REMOTE_ERROR_BAD_DEST_QPN 9
#define EFA_REMOTE_ERROR_RNR 10
#define EFA_REMOTE_ERROR_BAD_LENGTH 11
#define EFA_REMOTE_ERROR_BAD_STATUS 12
#define EFA_LOCAL_ERROR_UNRESP_REMOTE 13
#define EFA_REMOTE_ERROR_UNKNOWN_PEER 14
#define EFA_LOCAL_ERROR_UNREACH_REMOTE 15

int
ofi_efa_status(const struct fi_cq_err_entry *err)
{
	switch (err->prov_errno) {
	case EFA_REMOTE_ERROR_BAD_ADDRESS:
		return -EACCES;
	case EFA_REMOTE_ERROR_ABORT:
	case EFA_REMOTE_ERROR_BAD_DEST_QPN:
	case EFA_LOCAL_ERROR_UNRESP_REMOTE:
	case EFA_REMOTE_ERROR_UNKNOWN_PEER:
	case EFA_LOCAL_ERROR_UNREACH_REMOTE:
		return -ECONNRESET;
	case EFA_REMOTE_ERROR_RNR:
	case EFA_REMOTE_ERROR_BAD_STATUS:
		return -EREMOTEIO;
	case EFA_REMOTE_ERROR_BAD_LENGTH:
		return -EMSGSIZE;
	default:
		return ofi_errno(err->err);
	}
}
