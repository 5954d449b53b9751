/* SPDX-License-Identifier: BSD-3-Clause */

/* Tables on stdout. */

#include <string.h>

#include <leat_version.h>

#include "bench.h"

#define RULE                                                                                       \
	"----------------------------------------------------------------------------------------" \
	"---\n"

/* ---- head ---- */

void
redb_report_head(const struct redb_bench *b)
{
	const struct redb_plan *p = &b->o.plan;
	struct leat_dev_info info;

	if (b->o.json)
		return;
	printf(RULE REDB_NAME " %s: %u clients, pipeline %u, values of %" PRIu64 " B, %" PRIu64
			      " keys%s\n",
	       LEAT_VERSION, p->clients, p->pipeline, p->data, p->keys,
	       p->verify ? ", every byte is verified" : "");
	if (p->rate_mhz != 0)
		printf(" rate    open loop, %.6g requests/s wanted\n", (double)p->rate_mhz / 1000);
	printf(" server  %s%s%s, %s", b->o.gateway != NULL ? b->o.gateway : b->addr.text,
	       b->o.gateway != NULL ? " through a gateway here" : "",
	       b->o.respond ? ", a trivial one here" : "", b->addr.via);
	if (b->dev != NULL && leat_dev_info_get(b->dev, &info) == 0)
		printf(" over %s (driver %s%s%s%s%s)", info.name, info.driver,
		       info.provider[0] != '\0' ? ", provider " : "", info.provider,
		       info.interface[0] != '\0' ? ", interface " : "", info.interface);
	printf("\n lcores  %u, idle policy %s\n" RULE, leat_app_count(),
	       leat_idle_policy_name(leat_reactor_idle_effective(leat_app_reactor(0))));
	(void)fflush(stdout);
}

/* ---- rows ---- */

static double
us(uint64_t ns)
{
	return (double)ns / 1e3;
}

static void
print_latency(const struct leat_histogram *h)
{
	printf(" %9.3f %9.3f %9.3f %9.3f %9.3f %9.3f %9.3f\n", us(leat_histogram_min(h)),
	       us(leat_histogram_percentile(h, 50)), leat_histogram_mean(h) / 1e3,
	       us(leat_histogram_percentile(h, 90)), us(leat_histogram_percentile(h, 99)),
	       us(leat_histogram_percentile(h, 99.9)), us(leat_histogram_max(h)));
}

static void
print_rows(const struct redb_bench *b)
{
	uint32_t i;

	printf("%8s %10s %8s %10s %9s %9s %9s %9s %9s %9s %9s %9s\n", "", "requests", "seconds",
	       "req/s", "MB/s", "min[us]", "p50[us]", "avg[us]", "p90[us]", "p99[us]", "p99.9[us]",
	       "max[us]");
	if (b->nb_connected > 0) {
		printf("%8s %10u %8.3f %10s %9s", "connect", b->nb_connected,
		       (double)b->connect_ns / 1e9, "", "");
		print_latency(b->connect);
	}
	for (i = 0; i < b->nb_results; i++) {
		const struct redb_result *r = &b->results[i];
		const struct redb_tally *t = &r->tally;
		const double s = (double)t->elapsed_ns / 1e9;

		printf("%8s %10" PRIu64 " %8.3f %10.0f %9.2f", redb_kind_name(r->kind), t->requests,
		       s, redb_tally_rate(t),
		       s > 0 ? (double)(t->bytes_out + t->bytes_in) / s / 1e6 : 0);
		print_latency(r->hist);
	}
}

/* ---- counts and warnings ---- */

static void
print_counts(const struct redb_result *r)
{
	const struct redb_tally *t = &r->tally;
	const char *name = redb_kind_name(r->kind);

	if (t->nil > 0)
		printf(" %-7s %" PRIu64 " replies were nil: no such key\n", name, t->nil);
	if (t->delayed > 0)
		printf(" %-7s %" PRIu64
		       " requests were sent late by more than an interval, at most "
		       "%.3f us\n",
		       name, t->delayed, us(t->delayed_max_ns));
	if (t->unsent > 0)
		printf(" %-7s %" PRIu64
		       " requests were due and not sent: --rate is too high; they are "
		       "not in the latencies\n",
		       name, t->unsent);
	if (t->errors > 0)
		printf(" %-7s %" PRIu64 " replies were ERRORS\n", name, t->errors);
	if (t->wrong > 0)
		printf(" %-7s %" PRIu64 " replies were WRONG\n", name, t->wrong);
	if (t->cut > 0)
		printf(" %-7s %" PRIu64 " requests were cut off: their clients were lost\n", name,
		       t->cut);
}

/* Warn on stderr of errors and wrong replies, which put the numbers in doubt. */
static void
complain(const struct redb_result *r)
{
	const struct redb_tally *t = &r->tally;
	const char *name = redb_kind_name(r->kind);

	if (t->errors > 0)
		redb_msg("%s: %" PRIu64 " replies were errors; the first: %s", name, t->errors,
			 t->first_error);
	if (t->wrong > 0)
		redb_msg("%s: %" PRIu64 " replies were wrong; the first: %s", name, t->wrong,
			 t->first_wrong);
}

static void
print_all(const struct redb_bench *b)
{
	uint32_t i;

	if (b->nb_connected == 0)
		return;
	print_rows(b);
	for (i = 0; i < b->nb_results; i++)
		print_counts(&b->results[i]);
	printf("%s" RULE, b->interrupted ? " interrupted\n" : "");
}

int
redb_report(struct redb_bench *b)
{
	uint32_t i;
	int ret = 0;

	if (b->o.json)
		ret = redb_json(b);
	else
		print_all(b);
	if (ret < 0 || fflush(stdout) != 0 || ferror(stdout) != 0) {
		redb_msg("stdout: can't write");
		ret = -EIO;
	}
	for (i = 0; i < b->nb_results; i++)
		complain(&b->results[i]);
	return ret;
}
