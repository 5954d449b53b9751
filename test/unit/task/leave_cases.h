/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAVE_CASES_H
#define LEAVE_CASES_H

/*
 * leave_cases.c has the ways out of a time limit and of a mask, block_cases.c those out of the
 * block forms. Both files are compiled as C and as C++.
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
/* Absent where there is no C++ compiler. */
extern const struct leave_case leave_cases_cxx[] __attribute__((weak));
extern const struct leave_case block_cases_cxx[] __attribute__((weak));

#ifdef __cplusplus
}
#endif

#endif /* LEAVE_CASES_H */
