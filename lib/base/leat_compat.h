/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_COMPAT_H
#define LEAT_COMPAT_H

/*
 * Differences between the DPDK versions that leat builds against, all in one place. Private: not
 * installed.
 */

#include <rte_version.h>

/* 23.03 renamed the telemetry calls for unsigned values; later versions dropped the old names. */
#if RTE_VERSION < RTE_VERSION_NUM(23, 3, 0, 0)
#define rte_tel_data_add_dict_uint rte_tel_data_add_dict_u64
#define rte_tel_data_add_array_uint rte_tel_data_add_array_u64
#define RTE_TEL_UINT_VAL RTE_TEL_U64_VAL
#endif

#endif /* LEAT_COMPAT_H */
