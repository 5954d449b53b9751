/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BARE_FI_H
#define BARE_FI_H

/*
 * Bare libfabric, as reference for leat's efa driver: two processes, one endpoint each, opened with the
 * driver's hints (RDM, FI_THREAD_DOMAIN, manual progress, one CQ for both directions), and loops of nothing but
 * fi_inject or fi_send, fi_recv and fi_cq_read. No leat code, no DPDK.
 *
 *     int ctl[2];                                     the two processes' channel for addresses and orders
 *     socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ctl);
 *     if (fork() == 0) {
 *             bench_pin(cpu1);
 *             f = bare_fi_open(&conf, ctl[1]);
 *             _exit(f == NULL || bare_fi_serve(f) != 0);       idle in read(2) between measurements
 *     }
 *     bench_pin(cpu0);
 *     f = bare_fi_open(&conf, ctl[0]);                both sides at the same time: they wait for one another
 *     ns = bare_fi_lat(f, 8, 10000);                  as often as wanted, interleaved with other things
 *     ns = bare_fi_rate(f, 8, 256, 100000);
 *     bare_fi_close(f);                               ends the server, too
 *
 * Fork before the process's first call of libfabric, which does not survive a fork. Open on the CPU where the loop
 * will run, so that memory is local. While no measurement runs, neither side uses its CPU: other processes may be
 * pinned to the same two.
 *
 * What is measured, and how leat must do it to be comparable:
 *
 * - lat: half of the mean round trip. Two receives are posted; when one completes, the answer goes out first, then
 *   the receive is posted again, off the critical path. A send that is not injected uses one of two buffers in turn,
 *   and its completion is taken whenever the CQ has it.
 * - rate: ns per message. The sender keeps up to `window` sends in flight, and polls when that, or the provider,
 *   is full; the receiver keeps `window` receives posted. Each op in flight has a buffer of its own. The clock stops
 *   when the receiver, having all, has answered.
 * - Messages of up to inject_max bytes are injected: no completion. 0 means what fi_info says (for ofi_rxm over tcp,
 *   64 B, for shm 4096 B). Neither side reads or writes the payload.
 */

#include <stddef.h>
#include <stdint.h>

struct bare_fi;

struct bare_fi_conf {
	const char *provider; /* as for the driver: shm, tcp, tcp;ofi_rxm, sockets, ... */
	const char *
		src; /* local address, e.g. 127.0.0.1; NULL for shm and for the provider's choice */
	/*
	 * Capabilities, FI_MSG being implied. 0 is the leanest endpoint on which messages can be sent. To have the
	 * same one as leat, give BARE_FI_CAPS_DRIVER.
	 */
	uint64_t caps;
	size_t max_size; /* of messages; buffers are allocated for it */
	uint32_t window; /* largest window of bare_fi_rate() */
	/*
	 * Memory for the buffers, BARE_FI_MEM(max_size, window) bytes, page-aligned; NULL: own. Given by who wants to
	 * measure something else in the same memory: what memory one gets matters, see bench_efa.c.
	 */
	void *mem;
	size_t inject_max; /* inject up to here; 0: the provider's inject_size; or BARE_FI_NO_INJECT */
};

#define BARE_FI_NO_INJECT SIZE_MAX

/* Distance of two buffers: no two share a line, nor a pair of lines that is fetched together. */
#define BARE_FI_STRIDE(max_size) (((max_size) + 127) & ~(size_t)127)
#define BARE_FI_MEM(max_size, window) (2 * BARE_FI_STRIDE(max_size) * (window))

/* What the efa driver asks for, as far as the provider has it. */
#define BARE_FI_CAPS_DRIVER UINT64_MAX

/*
 * Opens an endpoint, exchanges addresses over fd (a stream socket, which from now on belongs to it) and sends
 * a first message each way. Returns NULL on failure; bare_fi_error() says why.
 */
struct bare_fi *bare_fi_open(const struct bare_fi_conf *conf, int fd);

/* What went wrong last. */
const char *bare_fi_error(void);

/* Provider as libfabric calls it, and largest injected message (or BARE_FI_NO_INJECT). */
const char *bare_fi_provider(const struct bare_fi *f);
size_t bare_fi_inject_max(const struct bare_fi *f);

/* The other side: does what it is told until the first side closes. 0, or -1 on failure. */
int bare_fi_serve(struct bare_fi *f);

/* Half round trip in ns, the mean of n. Negative: failed. */
double bare_fi_lat(struct bare_fi *f, size_t size, uint32_t n);
/* ns per message, the mean of n. Negative: failed. */
double bare_fi_rate(struct bare_fi *f, size_t size, uint32_t window, uint32_t n);

void bare_fi_close(struct bare_fi *f);

#endif /* BARE_FI_H */
