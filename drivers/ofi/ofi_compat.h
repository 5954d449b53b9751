/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef OFI_COMPAT_H
#define OFI_COMPAT_H

/*
 * Differences between the releases of libfabric that this driver compiles against: 1.17 (Debian 12)
 * and later. Everything that 1.17 lacks is defined here, so that the other files need no #if.
 */

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

/* The API version that the driver asks for; later libraries still provide it. */
#define OFI_API_VERSION FI_VERSION(1, 17)

/* Is this libfabric 1.minor or later? */
#define OFI_HAVE(minor)                                                                            \
	(FI_MAJOR_VERSION > 1 || (FI_MAJOR_VERSION == 1 && FI_MINOR_VERSION >= (minor)))

/*
 * FI_OPT_SHARED_MEMORY_PERMITTED, an endpoint option of 1.21; -1: not available. It is an
 * enumerator, which #ifdef can't see.
 */
#if OFI_HAVE(21)
#define OFI_OPT_SHM_PERMITTED FI_OPT_SHARED_MEMORY_PERMITTED
#else
#define OFI_OPT_SHM_PERMITTED (-1)
#endif

#endif /* OFI_COMPAT_H */
