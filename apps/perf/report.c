/* SPDX-License-Identifier: BSD-3-Clause */

/* Tables on stdout, and histogram files. */

#include <string.h>

#include <leat_histogram.h>
#include <leat_version.h>

#include "perf.h"

#define RULE                                                                                       \
	"--------------------------------------------------------------------------------------\n"

int
perf_report_open(struct perf_report *r, const struct perf_options *o)
{
	r->o = o;
	if (o->histogram != NULL) {
		r->histogram = fopen(o->histogram, "we");
		if (r->histogram == NULL) {
			perf_msg("--histogram %s: %s", o->histogram, strerror(errno));
			return -EIO;
		}
		fprintf(r->histogram, "# leat-perf histogram, version 1\n"
				      "# one block per size, blank lines between; "
				      "columns: from_ns to_ns count\n");
	}
	if (o->plot != NULL) {
		r->plot = perf_plot_open(o);
		if (r->plot == NULL)
			return -EIO;
	}
	return o->json ? perf_json_open(r) : 0;
}

static void
print_card(const char *who, const char *addr, const struct perf_card *c)
{
	printf(" %-7s %s%s%s (driver %s%s%s%s%s), CPU%s %s\n", who, addr,
	       addr[0] != '\0' ? ": " : "", c->dev, c->driver,
	       c->provider[0] != '\0' ? ", provider " : "", c->provider,
	       c->interface[0] != '\0' ? ", interface " : "", c->interface,
	       c->at.nb_cpus > 1 ? "s" : "", c->at.cpus);
}

void
perf_report_head(struct perf_report *r)
{
	const struct perf_options *o = r->o;
	const char *why = "as asked for";

	if (o->json) {
		perf_json_head(r);
		return;
	}
	if (o->idle == PERF_IDLE_AUTO)
		why = r->idle == PERF_IDLE_SPIN ? "each side has a CPU of its own"
						: "the sides may share a CPU";
	printf(RULE "leat-perf %s: %s%s%s\n", LEAT_VERSION, perf_test_name(o->test),
	       o->rate != 0 ? ", open loop" : "", o->check ? ", every byte is verified" : "");
	print_card("here", "", &r->mine);
	print_card("there", r->peer_addr, &r->other);
	printf(" idle    %s (%s)\n" RULE, perf_idle_name(r->idle), why);
	(void)fflush(stdout);
}

static void
print_columns(const struct perf_row *row)
{
	if (row->test != PERF_LAT) {
		printf(" %s, window %u, burst %u\n", perf_op_name(row->op), row->window,
		       row->burst);
		printf("%11s %11s %12s %12s %12s\n", "bytes", "iterations", "MB/s", "Gb/s",
		       "Mmsg/s");
		return;
	}
	if (row->rate > 0)
		printf(" %s, %s, %.6g messages/s wanted\n", perf_op_name(row->op),
		       perf_is_message(row->op) ? "round trip" : "to completion", row->rate);
	else
		printf(" %s, %s\n", perf_op_name(row->op),
		       row->round_trip ? "whole round trip" : "half of a round trip");
	printf("%11s %11s %9s %9s %9s %9s %10s %9s %10s\n", "bytes", "iterations", "min[us]",
	       "p50[us]", "avg[us]", "p99[us]", "p99.9[us]", "max[us]", "stdev[us]");
}

static void
print_lat(const struct perf_row *row)
{
	const struct leat_histogram *h = row->hist;

	printf("%11" PRIu64 " %11" PRIu64 " %9.3f %9.3f %9.3f %9.3f %10.3f %9.3f %10.3f", row->size,
	       row->iterations, (double)leat_histogram_min(h) / 1e3,
	       (double)leat_histogram_percentile(h, 50) / 1e3, leat_histogram_mean(h) / 1e3,
	       (double)leat_histogram_percentile(h, 99) / 1e3,
	       (double)leat_histogram_percentile(h, 99.9) / 1e3,
	       (double)leat_histogram_max(h) / 1e3, leat_histogram_stdev(h) / 1e3);
	if (row->rate > 0) {
		printf("\n%11s sent %.6g/s; %" PRIu64
		       " late by more than an interval, at most %.3f us",
		       "",
		       row->elapsed_ns == 0
			       ? 0
			       : (double)row->iterations * 1e9 / (double)row->elapsed_ns,
		       row->late, (double)row->late_max_ns / 1e3);
		if (row->unsent > 0)
			printf("; %" PRIu64
			       " never sent: too fast for this, and not in the figures",
			       row->unsent);
	}
}

static void
print_bw(const struct perf_row *row)
{
	double ns = row->elapsed_ns == 0 ? 1 : (double)row->elapsed_ns;
	double bytes = (double)row->size * (double)row->iterations;

	printf("%11" PRIu64 " %11" PRIu64 " %12.2f %12.3f %12.6f", row->size, row->iterations,
	       bytes * 1e3 / ns, bytes * 8 / ns, (double)row->iterations * 1e3 / ns);
}

static int
write_bucket(uint64_t low, uint64_t high, uint64_t count, void *arg)
{
	return fprintf(arg, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", low, high, count) < 0;
}

static int
write_histogram(const struct perf_report *r, const struct perf_row *row)
{
	FILE *f = r->histogram;

	fprintf(f, "\n\n# op %s, bytes %" PRIu64 ", samples %" PRIu64 ", %s\n",
		perf_op_name(row->op), row->size, leat_histogram_count(row->hist),
		row->round_trip ? "round trips" : "half round trips");
	if (leat_histogram_foreach(row->hist, write_bucket, f) != 0 || fflush(f) != 0) {
		perf_msg("--histogram %s: %s", r->o->histogram, strerror(errno));
		return -EIO;
	}
	return 0;
}

int
perf_report_row(struct perf_report *r, const struct perf_row *row)
{
	int ret = 0;

	if (row->hist != NULL && r->histogram != NULL)
		ret = write_histogram(r, row);
	if (r->plot != NULL && perf_plot_row(r->plot, row) < 0)
		ret = -ENOMEM;
	if (r->o->json)
		return perf_json_row(r, row) < 0 ? -ENOMEM : ret;
	if (!r->head_done || r->head_op != row->op)
		print_columns(row);
	r->head_done = true;
	r->head_op = row->op;
	if (row->test == PERF_LAT)
		print_lat(row);
	else
		print_bw(row);
	if (row->errors > 0)
		printf("  %" PRIu64 " ERRORS", row->errors);
	printf("%s\n", row->interrupted ? "  (interrupted)" : "");
	return fflush(stdout) == 0 ? ret : -EIO;
}

int
perf_report_close(struct perf_report *r, const struct perf_end *end)
{
	int ret = 0;

	if (r->histogram != NULL && fclose(r->histogram) != 0) {
		perf_msg("--histogram %s: %s", r->o->histogram, strerror(errno));
		ret = -EIO;
	}
	r->histogram = NULL;
	if (r->plot != NULL && perf_plot_close(r->plot, &r->mine) < 0)
		ret = -EIO;
	r->plot = NULL;
	if (r->json != NULL)
		return perf_json_close(r, end) < 0 ? -EIO : ret;
	if (r->head_done)
		printf(RULE);
	if (r->head_done && end->others > CPU_BUSY_SHARE)
		perf_msg("warning: others used %.0f %% of CPU %u during the measurement",
			 end->others * 100, r->mine.at.cpu);
	if (fflush(stdout) != 0 || ferror(stdout) != 0) {
		perf_msg("stdout: can't write");
		ret = -EIO;
	}
	return ret;
}
