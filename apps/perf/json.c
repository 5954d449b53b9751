/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * --json. doc/guide/measuring.md describes the fields. PERF_JSON_VERSION rises when a field changes
 * its meaning or is removed.
 */

#include <leat_error.h>
#include <leat_histogram.h>
#include <leat_version.h>

#include "../common/json_add.h"
#include "perf.h"

#define PERF_JSON_VERSION 1

int
perf_json_open(struct perf_report *r)
{
	const struct perf_options *o = r->o;

	r->json = json_object_new_object();
	r->results = json_object_new_array();
	if (r->json == NULL || r->results == NULL)
		return -ENOMEM;
	add_str(r->json, "schema", "leat-perf");
	add_u64(r->json, "version", PERF_JSON_VERSION);
	add_str(r->json, "leat", LEAT_VERSION);
	add_str(r->json, "test", perf_test_name(o->test));
	add_bool(r->json, "open_loop", o->rate != 0);
	add_bool(r->json, "check", o->check);
	return 0;
}

static struct json_object *
card(const struct perf_card *c)
{
	struct json_object *o = json_object_new_object();

	add_str(o, "device", c->dev);
	add_str(o, "driver", c->driver);
	add_str(o, "provider", c->provider);
	add_str(o, "interface", c->interface);
	add_str(o, "cpus", c->at.cpus);
	return o;
}

void
perf_json_head(struct perf_report *r)
{
	add(r->json, "here", card(&r->mine));
	add(r->json, "there", card(&r->other));
	add_str(r->json, "address", r->peer_addr);
	add_str(r->json, "idle", perf_idle_name(r->idle));
	add_bool(r->json, "pinned",
		 r->mine.at.nb_cpus == 1 && r->other.at.nb_cpus == 1 &&
			 !cpu_shared(&r->mine.at, &r->other.at));
}

static void
add_lat(struct json_object *o, const struct perf_row *row)
{
	const struct leat_histogram *h = row->hist;

	add_bool(o, "round_trip", row->round_trip);
	add_real(o, "min_us", (double)leat_histogram_min(h) / 1e3);
	add_real(o, "p50_us", (double)leat_histogram_percentile(h, 50) / 1e3);
	add_real(o, "p90_us", (double)leat_histogram_percentile(h, 90) / 1e3);
	add_real(o, "p99_us", (double)leat_histogram_percentile(h, 99) / 1e3);
	add_real(o, "p99_9_us", (double)leat_histogram_percentile(h, 99.9) / 1e3);
	add_real(o, "p99_99_us", (double)leat_histogram_percentile(h, 99.99) / 1e3);
	add_real(o, "max_us", (double)leat_histogram_max(h) / 1e3);
	add_real(o, "avg_us", leat_histogram_mean(h) / 1e3);
	add_real(o, "stdev_us", leat_histogram_stdev(h) / 1e3);
	if (row->rate > 0) {
		add_real(o, "rate_wanted", row->rate);
		add_real(o, "rate_achieved",
			 row->elapsed_ns == 0
				 ? 0
				 : (double)row->iterations * 1e9 / (double)row->elapsed_ns);
		add_u64(o, "late", row->late);
		add_real(o, "late_max_us", (double)row->late_max_ns / 1e3);
		add_u64(o, "unsent", row->unsent);
	}
}

static void
add_bw(struct json_object *o, const struct perf_row *row)
{
	double ns = row->elapsed_ns == 0 ? 1 : (double)row->elapsed_ns;
	double bytes = (double)row->size * (double)row->iterations;

	add_u64(o, "window", row->window);
	add_u64(o, "burst", row->burst);
	add_real(o, "mb_per_s", bytes * 1e3 / ns);
	add_real(o, "gbit_per_s", bytes * 8 / ns);
	add_real(o, "mmsg_per_s", (double)row->iterations * 1e3 / ns);
}

int
perf_json_row(struct perf_report *r, const struct perf_row *row)
{
	struct json_object *o = json_object_new_object();

	if (o == NULL)
		return -ENOMEM;
	add_str(o, "op", perf_op_name(row->op));
	add_u64(o, "bytes", row->size);
	add_u64(o, "iterations", row->iterations);
	add_real(o, "elapsed_s", (double)row->elapsed_ns / 1e9);
	if (row->hist != NULL)
		add_lat(o, row);
	else
		add_bw(o, row);
	add_u64(o, "errors", row->errors);
	add_bool(o, "interrupted", row->interrupted);
	if (json_object_array_add(r->results, o) == 0)
		return 0;
	(void)json_object_put(o);
	return -ENOMEM;
}

int
perf_json_close(struct perf_report *r, const struct perf_end *end)
{
	struct json_object *o = r->json;

	add(o, "results", r->results);
	add_u64(o, "errors", end->errors);
	add_bool(o, "interrupted", end->interrupted);
	if (end->why != NULL)
		add_str(o, "error", end->why);
	if (end->others >= 0)
		add_real(o, "cpu_used_by_others", end->others);
	add_u64(o, "preempted", end->preempted);
	r->json = NULL;
	return json_print(o, true);
}
