/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXCHANGE_LEAKS_H
#define EXCHANGE_LEAKS_H

/* Tests that check that as many descriptors are open at their end as at their begin. */

#include "exchange_side.h"
#include "own_process.h"

static unsigned int fds_before;

static inline int
fds_start(void **state)
{
	(void)state;
	fds_before = own_fds();
	return 0;
}

static inline int
fds_end(void **state)
{
	(void)state;
	leat_clock_mock_set(NULL);
	return own_fds() == fds_before ? 0 : -1;
}

/* A test that must leave as many descriptors open as there were at its begin. */
#define LEAKLESS(f) cmocka_unit_test_setup_teardown(f, fds_start, fds_end)

#endif /* EXCHANGE_LEAKS_H */
