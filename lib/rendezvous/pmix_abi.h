/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RENDEZVOUS_PMIX_ABI_H
#define RENDEZVOUS_PMIX_ABI_H

/*
 * Declarations of the functions and structures of PMIx that leat uses: libpmix is loaded at run
 * time, in the release that the cluster has, and its headers are not needed to build leat.
 *
 * The headers would not help. libpmix.so.2 has kept its name and the ABI below from PMIx 3.0 (2018)
 * to 6.1 (2026), but the headers' macros call functions that only some releases have: the macros of
 * 4.2 that free a value need PMIx_Value_destruct(), which 3.x does not have. So leat calls only the
 * nine functions below, which all releases have; frees values with free(3); and never passes an
 * array of more than one struct pmix_abi_info, since that structure had a different size in 2.x.
 * test/unit/rendezvous compares this file with the headers where they are installed.
 *
 * Source: PMIx Standard 4.1, chapters 3 (data structures), 4 (init), 7 (put and get), 8 (fence);
 * include/pmix_common.h of OpenPMIx 3.0, 3.2, 4.2, 5.0 and 6.1.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PMIX_ABI_NSPACE_LEN 256
#define PMIX_ABI_KEY_LEN 512

#define PMIX_ABI_RANK_WILDCARD (UINT32_MAX - 1)

/* Status. */
#define PMIX_ABI_SUCCESS 0
#define PMIX_ABI_ERR_PARTIAL_SUCCESS (-52)
#define PMIX_ABI_OPERATION_SUCCEEDED (-157)

/* Types of a value. */
#define PMIX_ABI_BOOL 1
#define PMIX_ABI_UINT32 14
#define PMIX_ABI_BYTE_OBJECT 27

/* Scope of a value: all processes. */
#define PMIX_ABI_GLOBAL 3

#define PMIX_ABI_JOB_SIZE "pmix.job.size"
#define PMIX_ABI_COLLECT_DATA "pmix.collect"
#define PMIX_ABI_OPTIONAL "pmix.optional"

struct pmix_abi_proc {
	char nspace[PMIX_ABI_NSPACE_LEN];
	uint32_t rank;
};

struct pmix_abi_value {
	uint16_t type;
	union {
		bool flag;
		uint32_t uint32;
		struct {
			char *bytes;
			size_t size;
		} bo;
		/* The largest member; not used. */
		struct {
			char *name;
			char *value;
			char separator;
		} envar;
	} data;
};

struct pmix_abi_info {
	char key[PMIX_ABI_KEY_LEN];
	uint32_t flags;
	struct pmix_abi_value value;
};

typedef void (*pmix_abi_op_fn)(int status, void *arg);
typedef void (*pmix_abi_value_fn)(int status, struct pmix_abi_value *value, void *arg);

struct pmix_abi {
	const char *(*get_version)(void);
	int (*init)(struct pmix_abi_proc *proc, struct pmix_abi_info info[], size_t ninfo);
	int (*finalize)(const struct pmix_abi_info info[], size_t ninfo);
	int (*put)(uint8_t scope, const char key[], struct pmix_abi_value *value);
	int (*commit)(void);
	int (*fence_nb)(const struct pmix_abi_proc procs[], size_t nprocs,
			const struct pmix_abi_info info[], size_t ninfo, pmix_abi_op_fn fn,
			void *arg);
	int (*get)(const struct pmix_abi_proc *proc, const char key[],
		   const struct pmix_abi_info info[], size_t ninfo, struct pmix_abi_value **value);
	int (*get_nb)(const struct pmix_abi_proc *proc, const char key[],
		      const struct pmix_abi_info info[], size_t ninfo, pmix_abi_value_fn fn,
		      void *arg);
	const char *(*error_string)(int status);
};

#endif /* RENDEZVOUS_PMIX_ABI_H */
