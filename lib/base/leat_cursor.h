/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_CURSOR_H
#define LEAT_CURSOR_H

/*
 * Start value of cursors and sequence numbers. Private: not installed.
 *
 * A 32-bit counter wraps after minutes at full rate, which no test waits for. So cursors start just
 * before their wrap, as Linux starts its jiffies. Then every test and every program passes the wrap
 * early, and code that compares two cursors by size fails at once.
 *
 *	LEAT_CURSOR_START          0            2^31            LEAT_CURSOR_START
 *	 |-- 200 steps --| wrap |---------------------------------|
 *
 * Use it for counters that only one side sees. If a wire format starts a number at 0, the number
 * starts there, and its test sets it close to the wrap. This start value does not test two cursors
 * that are far apart, as happens when one stands still and the other goes on: a test must set such
 * a pair apart.
 */

#include <stdint.h>

#define LEAT_CURSOR_START ((uint32_t)-200)

#endif
