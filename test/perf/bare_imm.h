/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BARE_IMM_H
#define BARE_IMM_H

/*
 * The loop of perftest's newer releases for `ib_write_lat --write_with_imm`, on ibverbs alone:
 * WRITE_IMM to and fro, with one send in flight, which is signaled, and inline where it fits. The
 * receive that a WRITE_IMM consumes is posted again before the answer (run_iter_lat_send).
 */

#include <stdint.h>

/* Serve clients one after the other, for ever; end the program on failure. */
void bare_imm_serve(const char *addr) __attribute__((noreturn));

/*
 * Measure n round trips of size bytes, up to 1 MiB.
 * @param[out] us
 *   The n round trip times, microseconds.
 */
void bare_imm_measure(const char *addr, uint32_t size, uint64_t n, double *us);

/* As bare_imm_measure(), but both sides run on this thread, in turn. */
void bare_imm_both(const char *addr, uint32_t size, uint64_t n, double *us);

#endif /* BARE_IMM_H */
