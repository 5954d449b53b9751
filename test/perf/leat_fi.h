/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_FI_H
#define LEAT_FI_H

/*
 * The counterpart of bare_fi.h: the same loops with leat's efa driver, as an application has them. Two processes,
 * one endpoint each; between measurements the second one waits in read(2).
 */

#include <stddef.h>
#include <stdint.h>

#include "bench.h"

struct leat_fi;

struct leat_fi_conf {
	const char *provider;
	size_t max_size; /* of messages */
	uint32_t window; /* largest */
	void *mem;	 /* for buffers, BARE_FI_MEM(max_size, window) bytes */
	int cpu;
	const struct bench_args *args; /* more EAL arguments */
};

/* Starts leat in this process and connects with the other side over fd. Ends the program on failure. */
struct leat_fi *leat_fi_open(const struct leat_fi_conf *conf, int fd, bool first);
/* The second side: does what it is told until the first one closes. */
void leat_fi_serve(struct leat_fi *f);
/* Largest message that is copied when posted. */
size_t leat_fi_inline_max(const struct leat_fi *f);

/* Half round trip in ns, the mean of n. */
double leat_fi_lat(struct leat_fi *f, size_t size, uint32_t n);
/* ns per message, the mean of n. */
double leat_fi_rate(struct leat_fi *f, size_t size, uint32_t window, uint32_t n);

void leat_fi_close(struct leat_fi *f);

#endif /* LEAT_FI_H */
