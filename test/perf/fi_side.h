/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FI_SIDE_H
#define FI_SIDE_H

/*
 * A side of a pair of processes that measure messages over libfabric, one endpoint each: leat_fi is
 * leat's driver as an application uses it, bare_fi the reference, a loop of nothing but fi_inject
 * or fi_send, fi_recv and fi_cq_read on an endpoint opened with the driver's hints. The common
 * loops are written once, in fi_loop.h.
 *
 *     int fd[2];                             the processes' channel for addresses and orders
 *     socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd);
 *     if (fork() == 0) {
 *             bench_pin(cpu1);
 *             s = bare_fi.open(&conf, fd[1], false);
 *             bare_fi.serve(s);              idle in read(2) between measurements
 *     }
 *     bench_pin(cpu0);
 *     s = bare_fi.open(&conf, fd[0], true);  both open at the same time: each waits for the other
 *     ns = bare_fi.lat(s, 8, 10000);         as often as wanted, interleaved with other work
 *     bare_fi.close(s);                      ends the server, too
 *
 * Fork before the process's first call of libfabric, which does not survive a fork. Open on the CPU
 * where the loop will run, so that memory is local. While no measurement runs, neither side uses
 * its CPU: other processes may be pinned to the same two. All functions end the program on failure.
 */

#include <stddef.h>
#include <stdint.h>

#include "bench.h"

struct side;

struct fi_side_conf {
	const char *provider; /* as for the driver: shm, tcp, tcp;ofi_rxm, sockets, ... */
	size_t max_size;      /* bytes of the largest message */
	uint32_t window;      /* largest number of messages in flight */
	/*
	 * Memory for the buffers, FI_SIDE_MEM(max_size, window) bytes, page-aligned. Sides that are
	 * compared get the same memory, since its pages make a difference.
	 */
	void *mem;
	int cpu;
	const struct bench_args *args; /* more EAL arguments, for leat */
};

/*
 * Distance of two buffers, bytes: no two share a cache line, nor a pair of lines that is fetched
 * together.
 */
#define FI_SIDE_STRIDE(max_size) (((max_size) + 127) & ~(size_t)127)
#define FI_SIDE_MEM(max_size, window) (2 * FI_SIDE_STRIDE(max_size) * (window))

struct fi_side {
	/*
	 * Open an endpoint and connect with the other side over fd, a stream socket, which then
	 * belongs to the side.
	 */
	struct side *(*open)(const struct fi_side_conf *conf, int fd, bool first);
	/* Run the second side: carry out orders until the first side closes. */
	void (*serve)(struct side *s);
	/* Measure n round trips. @return half of the mean, ns */
	double (*lat)(struct side *s, size_t size, uint32_t n);
	/* Measure n messages. @return the mean time per message, ns */
	double (*rate)(struct side *s, size_t size, uint32_t window, uint32_t n);
	/* @return the size of the largest message that is copied when posted */
	size_t (*inline_max)(const struct side *s);
	void (*close)(struct side *s);
};

extern const struct fi_side leat_fi, bare_fi;

#endif /* FI_SIDE_H */
