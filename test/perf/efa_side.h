/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EFA_SIDE_H
#define EFA_SIDE_H

/*
 * One of the two sides of bench-efa: leat_efa, the driver as an application uses it, or bare_efa,
 * the same calls of libfabric alone. Each has two endpoints, A and B, in one process and one
 * thread, so that every run does the same. The common loop is written once, in efa_loop.h. All
 * functions end the program on failure.
 */

#include <stddef.h>
#include <stdint.h>

#include "bench.h"

/* Bytes of the largest op. */
#define EFA_MAX (1u << 20)

enum efa_what { EFA_SEND, EFA_TSEND, EFA_READ };

struct side;

struct efa_side {
	const char *name;
	/*
	 * Open both endpoints. tx is registered with A; rx, where A may READ, with B. Both have
	 * EFA_MAX bytes.
	 */
	struct side *(*open)(const struct bench_args *args, char *tx, char *rx);
	/*
	 * Limit of injected messages, bytes; 0: none. leat's side ignores max and returns the
	 * driver's limit; the reference sets its own to max.
	 */
	size_t (*inject_max)(struct side *s, size_t max);
	/*
	 * Prepare ops of this kind and size: messages from A's tx to B's rx, or READs from rx to
	 * tx. B posts its first receive.
	 */
	void (*prepare)(struct side *s, enum efa_what what, size_t size);
	/* Run n ops, one at a time. @return how often the endpoints were polled */
	uint64_t (*run)(struct side *s, uint64_t n);
	/* Send one more message, which completes the receive that is still posted. */
	void (*finish)(struct side *s);
	void (*close)(struct side *s);
};

extern const struct efa_side leat_efa, bare_efa;

#endif /* EFA_SIDE_H */
