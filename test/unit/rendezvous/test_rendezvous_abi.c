/* SPDX-License-Identifier: BSD-3-Clause */

/* leat's declarations of PMIx, checked against PMIx's own headers. */

#include <leat_cmocka.h>
#include <leat_common.h>

#include <pmix.h>

#include "pmix_abi.h"

#define SAME(ours, theirs) assert_int_equal((uint64_t)(ours), (uint64_t)(theirs))
#define SAME_MEMBER(ours, theirs, member)                                                          \
	do {                                                                                       \
		SAME(offsetof(ours, member), offsetof(theirs, member));                            \
		SAME(sizeof(((ours *)0)->member), sizeof(((theirs *)0)->member));                  \
	} while (0)

static void
test_structures(void **state)
{
	(void)state;
	SAME(sizeof(struct pmix_abi_proc), sizeof(pmix_proc_t));
	SAME_MEMBER(struct pmix_abi_proc, pmix_proc_t, nspace);
	SAME_MEMBER(struct pmix_abi_proc, pmix_proc_t, rank);
	SAME(sizeof(struct pmix_abi_value), sizeof(pmix_value_t));
	SAME_MEMBER(struct pmix_abi_value, pmix_value_t, type);
	SAME_MEMBER(struct pmix_abi_value, pmix_value_t, data);
	SAME_MEMBER(struct pmix_abi_value, pmix_value_t, data.flag);
	SAME_MEMBER(struct pmix_abi_value, pmix_value_t, data.uint32);
	SAME_MEMBER(struct pmix_abi_value, pmix_value_t, data.bo.bytes);
	SAME_MEMBER(struct pmix_abi_value, pmix_value_t, data.bo.size);
	SAME(sizeof(struct pmix_abi_info), sizeof(pmix_info_t));
	SAME_MEMBER(struct pmix_abi_info, pmix_info_t, key);
	SAME_MEMBER(struct pmix_abi_info, pmix_info_t, flags);
	SAME_MEMBER(struct pmix_abi_info, pmix_info_t, value);
}

static void
test_constants(void **state)
{
	(void)state;
	SAME(PMIX_ABI_RANK_WILDCARD, PMIX_RANK_WILDCARD);
	SAME(PMIX_ABI_SUCCESS, PMIX_SUCCESS);
	SAME(PMIX_ABI_ERR_PARTIAL_SUCCESS, PMIX_ERR_PARTIAL_SUCCESS);
	SAME(PMIX_ABI_OPERATION_SUCCEEDED, PMIX_OPERATION_SUCCEEDED);
	SAME(PMIX_ABI_BOOL, PMIX_BOOL);
	SAME(PMIX_ABI_UINT32, PMIX_UINT32);
	SAME(PMIX_ABI_BYTE_OBJECT, PMIX_BYTE_OBJECT);
	SAME(PMIX_ABI_GLOBAL, PMIX_GLOBAL);
	assert_string_equal(PMIX_ABI_JOB_SIZE, PMIX_JOB_SIZE);
	assert_string_equal(PMIX_ABI_COLLECT_DATA, PMIX_COLLECT_DATA);
	assert_string_equal(PMIX_ABI_OPTIONAL, PMIX_OPTIONAL);
}

/* The compiler reports a function whose type differs from PMIx's; nothing is called. */
static void
test_functions(void **state)
{
	pmix_status_t (*init)(pmix_proc_t *, pmix_info_t *, size_t) = PMIx_Init;
	pmix_status_t (*finalize)(const pmix_info_t *, size_t) = PMIx_Finalize;
	pmix_status_t (*put)(uint8_t, const char *, pmix_value_t *) = PMIx_Put;
	pmix_status_t (*commit)(void) = PMIx_Commit;
	pmix_status_t (*fence_nb)(const pmix_proc_t *, size_t, const pmix_info_t *, size_t,
				  void (*)(pmix_status_t, void *), void *) = PMIx_Fence_nb;
	pmix_status_t (*get)(const pmix_proc_t *, const char *, const pmix_info_t *, size_t,
			     pmix_value_t **) = PMIx_Get;
	pmix_status_t (*get_nb)(const pmix_proc_t *, const char *, const pmix_info_t *, size_t,
				void (*)(pmix_status_t, pmix_value_t *, void *),
				void *) = PMIx_Get_nb;
	const char *(*get_version)(void) = PMIx_Get_version;
	const char *(*error_string)(pmix_status_t) = PMIx_Error_string;

	(void)state;
	SAME(sizeof(pmix_status_t), sizeof(int));
	assert_non_null(init);
	assert_non_null(finalize);
	assert_non_null(put);
	assert_non_null(commit);
	assert_non_null(fence_nb);
	assert_non_null(get);
	assert_non_null(get_nb);
	assert_non_null(get_version);
	assert_non_null(error_string);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_structures),
		cmocka_unit_test(test_constants),
		cmocka_unit_test(test_functions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
