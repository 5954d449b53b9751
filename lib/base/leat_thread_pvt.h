/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_THREAD_PVT_H
#define LEAT_THREAD_PVT_H

/**
 * Keep threads of leat_thread_start() that start from now on off a CPU, if the process has others:
 * leat_init() names those of all lcores. Without effect beyond CPU_SETSIZE. Not thread-safe.
 */
void leat_thread_avoid(unsigned int cpu);

#endif /* LEAT_THREAD_PVT_H */
