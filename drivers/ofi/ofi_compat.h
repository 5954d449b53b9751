/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef OFI_COMPAT_H
#define OFI_COMPAT_H

/*
 * What differs between the releases of libfabric that this driver compiles against: 1.17 (Debian 12) and
 * later. Everything that 1.17 lacks and later ones have is named here, so that the rest of the driver
 * has no #if in it.
 */

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

/* The API that the driver is written to; a later library keeps to it. */
#define OFI_API_VERSION FI_VERSION(1, 17)

/* The oldest release in which these exist is FI_VERSION(1, N). */
#define OFI_HAVE(minor)                                                                            \
	(FI_MAJOR_VERSION > 1 || (FI_MAJOR_VERSION == 1 && FI_MINOR_VERSION >= (minor)))

/*
 * 1.21: FI_OPT_SHARED_MEMORY_PERMITTED, an endpoint option. -1: not there. It is an enumerator, so
 * it can't be asked for with #ifdef.
 */
#if OFI_HAVE(21)
#define OFI_OPT_SHM_PERMITTED FI_OPT_SHARED_MEMORY_PERMITTED
#else
#define OFI_OPT_SHM_PERMITTED (-1)
#endif

#endif /* OFI_COMPAT_H */
