/* SPDX-License-Identifier: BSD-3-Clause */

/* --histogram: the latencies of batches, a block for each kind of call. */

#include <string.h>

#include <leat_histogram.h>

#include "bench.h"
#include "op.h"

static int
write_bucket(uint64_t low, uint64_t high, uint64_t count, void *arg)
{
	return fprintf(arg, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", low, high, count) < 0;
}

static int
write_kind(const struct rb_bench *b, FILE *f, int kind)
{
	struct leat_histogram *h = rb_latency(b, kind);
	int ret;

	if (h == NULL)
		return -ENOMEM;
	fprintf(f, "\n\n# kind %s, batches of %u, samples %" PRIu64 "\n", rb_ops[kind]->name,
		b->plan.batch, leat_histogram_count(h));
	ret = leat_histogram_foreach(h, write_bucket, f) != 0 ? -EIO : 0;
	leat_histogram_free(h);
	return ret;
}

int
rb_histogram_write(const struct rb_bench *b)
{
	FILE *f = fopen(b->o.histogram, "we");
	int k, ret = 0;

	if (f == NULL) {
		rb_msg("--histogram %s: %s", b->o.histogram, strerror(errno));
		return -EIO;
	}
	fprintf(f, "# leat-rpc-bench histogram, version 1\n"
		   "# one block per kind of call, blank lines between; columns: from_ns to_ns "
		   "count\n");
	for (k = 0; k < RB_KINDS && ret == 0; k++) {
		if (b->plan.percent[k] > 0)
			ret = write_kind(b, f, k);
	}
	if (fflush(f) != 0)
		ret = -EIO;
	if (ret < 0)
		rb_msg("--histogram %s: %s", b->o.histogram, strerror(errno));
	return fclose(f) != 0 ? -EIO : ret;
}
