/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * --json. doc/guide/redis-bench.md describes the fields. JSON_VERSION rises when a field changes
 * its meaning or is removed.
 */

#include <leat_version.h>

#include "../common/json_add.h"
#include "bench.h"

#define JSON_VERSION 1

static struct json_object *
plan(const struct redb_plan *p)
{
	struct json_object *o = json_object_new_object(), *list = json_object_new_array();
	uint32_t i;
	int a;

	for (i = 0; i < p->nb_tests; i++)
		append(list, json_object_new_string(redb_kind_name(p->tests[i])));
	add(o, "tests", list);
	if (p->argc > 0) {
		list = json_object_new_array();
		for (a = 0; a < p->argc; a++)
			append(list, json_object_new_string(p->argv[a]));
		add(o, "command", list);
	}
	add_u64(o, "clients", p->clients);
	add_u64(o, "pipeline", p->pipeline);
	add_u64(o, "data", p->data);
	add_u64(o, "keys", p->keys);
	add_u64(o, "range", p->range);
	if (p->requests != 0)
		add_u64(o, "requests", p->requests);
	else
		add_real(o, "duration_s", (double)p->duration_us / (double)REDB_US);
	if (p->rate_mhz != 0)
		add_real(o, "rate", (double)p->rate_mhz / 1000);
	add_u64(o, "seed", p->seed);
	add_bool(o, "verify", p->verify);
	add_bool(o, "fill", p->fill);
	return o;
}

static struct json_object *
server(const struct redb_bench *b)
{
	struct json_object *o = json_object_new_object();
	struct leat_dev_info info;

	add_str(o, "address", b->addr.text);
	add_str(o, "via", b->addr.via);
	if (b->o.gateway != NULL)
		add_str(o, "gateway_to", b->o.gateway);
	if (b->dev != NULL && leat_dev_info_get(b->dev, &info) == 0) {
		add_str(o, "device", info.name);
		add_str(o, "driver", info.driver);
		add_str(o, "provider", info.provider);
		add_str(o, "interface", info.interface);
	}
	return o;
}

static void
add_latency(struct json_object *o, const struct leat_histogram *h)
{
	static const struct {
		const char *name;
		double percent;
	} rows[] = { { "p50_us", 50 },
		     { "p90_us", 90 },
		     { "p99_us", 99 },
		     { "p99_9_us", 99.9 },
		     { "p99_99_us", 99.99 } };
	size_t i;

	add_real(o, "min_us", (double)leat_histogram_min(h) / 1e3);
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		add_real(o, rows[i].name,
			 (double)leat_histogram_percentile(h, rows[i].percent) / 1e3);
	add_real(o, "max_us", (double)leat_histogram_max(h) / 1e3);
	add_real(o, "avg_us", leat_histogram_mean(h) / 1e3);
	add_real(o, "stdev_us", leat_histogram_stdev(h) / 1e3);
}

static struct json_object *
result(const struct redb_result *r)
{
	struct json_object *o = json_object_new_object(), *l = json_object_new_object();
	const struct redb_tally *t = &r->tally;
	const double s = (double)t->elapsed_ns / 1e9;

	add_str(o, "test", redb_kind_name(r->kind));
	add_u64(o, "requests", t->requests);
	add_u64(o, "request_bytes", r->request_bytes);
	add_real(o, "elapsed_s", s);
	add_real(o, "requests_per_s", redb_tally_rate(t));
	add_real(o, "mb_per_s", s > 0 ? (double)(t->bytes_out + t->bytes_in) / s / 1e6 : 0);
	add_u64(o, "bytes_sent", t->bytes_out);
	add_u64(o, "bytes_received", t->bytes_in);
	add_u64(o, "errors", t->errors);
	add_u64(o, "wrong", t->wrong);
	add_u64(o, "nil", t->nil);
	add_u64(o, "cut", t->cut);
	add_u64(o, "lost_clients", t->lost);
	add_u64(o, "unsent", t->unsent);
	add_u64(o, "delayed", t->delayed);
	add_real(o, "delayed_max_us", (double)t->delayed_max_ns / 1e3);
	if (t->first_error[0] != '\0')
		add_str(o, "first_error", t->first_error);
	if (t->first_wrong[0] != '\0')
		add_str(o, "first_wrong", t->first_wrong);
	add_latency(l, r->hist);
	add(o, "latency", l);
	return o;
}

static struct json_object *
connected(const struct redb_bench *b)
{
	struct json_object *o = json_object_new_object();

	add_u64(o, "clients", b->nb_connected);
	add_real(o, "elapsed_s", (double)b->connect_ns / 1e9);
	if (b->connect != NULL)
		add_latency(o, b->connect);
	return o;
}

int
redb_json(const struct redb_bench *b)
{
	struct json_object *o = json_object_new_object(), *list = json_object_new_array();
	bool ok = o != NULL;
	uint32_t i;

	ok &= add_str(o, "schema", REDB_NAME);
	ok &= add_u64(o, "version", JSON_VERSION);
	ok &= add_str(o, "leat", LEAT_VERSION);
	ok &= add(o, "plan", plan(&b->o.plan));
	ok &= add(o, "server", server(b));
	ok &= add(o, "connect", connected(b));
	for (i = 0; i < b->nb_results; i++)
		ok &= append(list, result(&b->results[i]));
	ok &= add(o, "results", list);
	ok &= add_bool(o, "interrupted", b->interrupted);
	if (b->why[0] != '\0')
		ok &= add_str(o, "error", b->why);
	return json_print(o, ok);
}
