/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * --json. doc/guide/rpc-bench.md describes the fields. JSON_VERSION rises when a field changes its
 * meaning or is removed.
 */

#include <string.h>

#include <leat_histogram.h>
#include <leat_version.h>

#include "../common/json_add.h"
#include "bench.h"
#include "op.h"

#define JSON_VERSION 1

static struct json_object *
plan(const struct rb_plan *p)
{
	struct json_object *o = json_object_new_object(), *kinds = json_object_new_array(), *kind;
	char text[256];
	int k;

	add_u64(o, "tasks", p->tasks);
	add_u64(o, "batch", p->batch);
	if (p->calls != 0)
		add_u64(o, "calls", p->calls);
	else
		add_real(o, "seconds", (double)p->duration_us / (double)RB_US);
	add_u64(o, "warmup", p->warmup);
	if (p->rate_mhz != 0)
		add_real(o, "rate", (double)p->rate_mhz / 1000);
	if (p->deadline_us != 0)
		add_u64(o, "deadline_us", p->deadline_us);
	add_u64(o, "seed", p->seed);
	add_bool(o, "check", p->check);
	for (k = 0; k < RB_KINDS; k++) {
		if (p->percent[k] == 0)
			continue;
		kind = json_object_new_object();
		add_str(kind, "kind", rb_ops[k]->name);
		add_u64(kind, "percent", p->percent[k]);
		rb_sizes_print(&p->req[k], text, sizeof(text));
		add_str(kind, "size", text);
		rb_sizes_print(&p->resp[k], text, sizeof(text));
		if (!rb_ops[k]->oneway)
			add_str(kind, "resp_size", text);
		append(kinds, kind);
	}
	add(o, "kinds", kinds);
	return o;
}

static struct json_object *
errors(const struct rb_tally *t)
{
	struct json_object *o = json_object_new_object();
	const char *name;
	int i;

	for (i = 0; i < RB_ERRNOS; i++) {
		name = i == RB_ERRNOS - 1 ? NULL : strerrorname_np(i);
		if (t->errors[i] > 0)
			add_u64(o, name != NULL ? name : "other", t->errors[i]);
	}
	return o;
}

static void
add_tally(struct json_object *o, const struct rb_tally *t)
{
	const double s = (double)t->elapsed_ns / 1e9;

	add_u64(o, "calls", rb_tally_calls(t));
	add_real(o, "elapsed_s", s);
	add_real(o, "mcalls_per_s", rb_tally_rate(t));
	add_real(o, "mb_per_s", s > 0 ? (double)(t->bytes_out + t->bytes_in) / s / 1e6 : 0);
	add_u64(o, "packets_sent", t->packets_sent);
	add_u64(o, "packets_received", t->packets_received);
	add_u64(o, "items_sent", t->items_sent);
	add_u64(o, "credit_packets", t->credit_packets);
	add_u64(o, "retransmissions", t->retransmissions);
	add_u64(o, "probes", t->probes);
	add_u64(o, "duplicates", t->duplicates);
	add_u64(o, "pulled", t->pulled);
	add_u64(o, "pushed", t->pushed);
	add_u64(o, "by_message", t->by_message);
	add_real(o, "items_per_packet", rb_tally_coalesced(t));
	add_u64(o, "served", t->served);
	add_u64(o, "busy", t->busy);
	add_u64(o, "expired", t->expired);
	add_u64(o, "late_responses", t->late);
	add_u64(o, "refused", t->refused);
	add_u64(o, "failed", t->failed);
	add_u64(o, "cut", t->cut);
	add_u64(o, "lost", t->lost);
	add_u64(o, "wrong", t->wrong);
	add(o, "errors", errors(t));
	add_u64(o, "unsent", t->unsent);
	add_u64(o, "delayed", t->delayed);
	add_real(o, "delayed_max_us", (double)t->delayed_max_ns / 1e3);
	add_u64(o, "preempted", t->preempted);
	if (t->others >= 0)
		add_real(o, "cpu_used_by_others", t->others / 1000.0);
}

static struct json_object *
lcores(const struct rb_rank *r)
{
	struct json_object *list = json_object_new_array(), *o;
	uint16_t i;

	for (i = 0; r->result != NULL && i < r->result->nb_lcores; i++) {
		o = json_object_new_object();
		add_u64(o, "lcore", i);
		add_u64(o, "cpu", r->card.lcore[i].cpu);
		add_bool(o, "pinned", r->card.lcore[i].nb_cpus == 1);
		add_tally(o, &r->result->lcore[i]);
		append(list, o);
	}
	return list;
}

static struct json_object *
latency(const char *name, const struct leat_histogram *h)
{
	struct json_object *o = json_object_new_object();

	add_str(o, "kind", name);
	add_u64(o, "batches", leat_histogram_count(h));
	add_real(o, "min_us", (double)leat_histogram_min(h) / 1e3);
	add_real(o, "p50_us", (double)leat_histogram_percentile(h, 50) / 1e3);
	add_real(o, "p90_us", (double)leat_histogram_percentile(h, 90) / 1e3);
	add_real(o, "p99_us", (double)leat_histogram_percentile(h, 99) / 1e3);
	add_real(o, "p99_9_us", (double)leat_histogram_percentile(h, 99.9) / 1e3);
	add_real(o, "p99_99_us", (double)leat_histogram_percentile(h, 99.99) / 1e3);
	add_real(o, "max_us", (double)leat_histogram_max(h) / 1e3);
	add_real(o, "avg_us", leat_histogram_mean(h) / 1e3);
	add_real(o, "stdev_us", leat_histogram_stdev(h) / 1e3);
	return o;
}

static struct json_object *
rank(const struct rb_bench *b, uint16_t i)
{
	const struct rb_rank *r = &b->world.ranks[i];
	struct json_object *o = json_object_new_object(), *list;
	int k;

	add_u64(o, "rank", i);
	add_str(o, "host", r->card.name);
	add_u64(o, "pid", r->card.pid);
	add_str(o, "device", r->card.dev);
	add_str(o, "driver", r->card.driver);
	add_str(o, "provider", r->card.provider);
	add_str(o, "interface", r->card.interface);
	add_bool(o, "ended_early", r->lost);
	if (r->lost)
		add_str(o, "why", r->why);
	add(o, "lcores", lcores(r));
	list = json_object_new_array();
	for (k = 0; r->result != NULL && k < RB_KINDS; k++) {
		if (b->plan.percent[k] > 0)
			append(list, latency(rb_ops[k]->name, r->result->hist[k]));
	}
	add(o, "latency", list);
	return o;
}

static struct json_object *
total(const struct rb_bench *b, const struct rb_tally *sum)
{
	struct json_object *o = json_object_new_object(), *list = json_object_new_array();
	struct leat_histogram *h;
	int k;

	add_tally(o, sum);
	for (k = 0; k < RB_KINDS; k++) {
		h = b->plan.percent[k] > 0 ? rb_latency(b, k) : NULL;
		if (h != NULL)
			append(list, latency(rb_ops[k]->name, h));
		leat_histogram_free(h);
	}
	add(o, "latency", list);
	return o;
}

static struct json_object *
rpc(const struct rb_bench *b)
{
	struct json_object *o = json_object_new_object();
	const struct leat_rpc_stats *st = &b->rpc;

	add_u64(o, "sessions", st->max_sessions);
	add_u64(o, "fits_packet", b->small);
	add_str(o, "cc", b->plan.swift ? leat_rpc_cc_swift.name : "none");
	add_u64(o, "credits", st->credits);
	add_u64(o, "slots", st->slots);
	add_u64(o, "memory", st->memory);
	return o;
}

int
rb_json(const struct rb_bench *b, const struct rb_tally *sum)
{
	struct json_object *o = json_object_new_object(), *ranks = json_object_new_array();
	uint16_t i;

	add_str(o, "schema", "leat-rpc-bench");
	add_u64(o, "version", JSON_VERSION);
	add_str(o, "leat", LEAT_VERSION);
	add(o, "plan", plan(sum != NULL ? &b->plan : &b->o.plan));
	add_str(o, "type", rb_type_name(b->plan.type));
	if (b->ran) {
		add_str(o, "idle", leat_idle_policy_name(b->idle));
		add_bool(o, "shared_cpus", b->crowded);
		add(o, "rpc", rpc(b));
	}
	for (i = 0; sum != NULL && i < b->world.nb_ranks; i++)
		append(ranks, rank(b, i));
	add(o, "ranks", ranks);
	if (sum != NULL)
		add(o, "total", total(b, sum));
	add_bool(o, "interrupted", b->interrupted);
	if (b->why[0] != '\0')
		add_str(o, "error", b->why);
	return json_print(o, o != NULL);
}
