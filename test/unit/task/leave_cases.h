/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAVE_CASES_H
#define LEAVE_CASES_H

/*
 * leave_cases.c leaves the expressions of leat_task_within() and leat_task_masked() in every way,
 * block_cases.c the blocks of leat_scope_block(), leat_task_within_block() and
 * leat_task_masked_block(). Both files are compiled as C and as C++.
 */

struct leave_case {
	const char *name;
	int (*fn)(void); /* NULL: the end of the table */
	int ret;	 /* the result that fn must have */
};

#ifdef __cplusplus
extern "C" {
#endif

extern const struct leave_case leave_cases_c[];
extern const struct leave_case block_cases_c[];
/* Weak symbols: their addresses are NULL if there is no C++ compiler. */
extern const struct leave_case leave_cases_cxx[] __attribute__((weak));
extern const struct leave_case block_cases_cxx[] __attribute__((weak));

#ifdef __cplusplus
}
#endif

#endif /* LEAVE_CASES_H */
