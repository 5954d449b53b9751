/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_THREAD_PVT_H
#define LEAT_THREAD_PVT_H

/**
 * Keep threads that leat_thread_start() starts from now on off a CPU, if the process has others.
 * leat_init() calls it for the CPUs of all lcores. No effect if cpu >= CPU_SETSIZE. Not
 * thread-safe.
 */
void leat_thread_avoid(unsigned int cpu);

#endif /* LEAT_THREAD_PVT_H */
