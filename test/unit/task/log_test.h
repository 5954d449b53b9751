/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LOG_TEST_H
#define LOG_TEST_H

/*
 * Catch the log lines between log_begin() and log_end(). Afterwards `logged` is their text, until
 * log_free().
 */

#include <stdio.h>
#include <stdlib.h>

#include <rte_log.h>

#include "leat_cmocka.h"

static char *logged;
static size_t logged_len;
static FILE *log_file;

static inline void
log_begin(void)
{
	log_file = open_memstream(&logged, &logged_len);
	assert_non_null(log_file);
	assert_int_equal(rte_openlog_stream(log_file), 0);
}

static inline void
log_end(void)
{
	assert_int_equal(rte_openlog_stream(NULL), 0);
	assert_int_equal(fclose(log_file), 0);
}

static inline void
log_free(void)
{
	free(logged);
	logged = NULL;
}

#endif /* LOG_TEST_H */
