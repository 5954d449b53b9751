/* SPDX-License-Identifier: BSD-3-Clause */

/* Counters and latencies of legs, and telemetry. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_telemetry.h>

#include <leat_compat.h>

#include "gw_pvt.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list of legs */
static struct gw *all;
static bool registered;

#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)

void
gw_stats_publish(struct gw *gw)
{
	const struct leat_histogram *h = gw->latency;
	struct gw_stats *s = &gw->stats;

	if (s->latencies == leat_histogram_count(h))
		return;
	(void)pthread_mutex_lock(&gw->lock);
	s->latencies = leat_histogram_count(h);
	s->p50_ns = leat_histogram_percentile(h, 50);
	s->p99_ns = leat_histogram_percentile(h, 99);
	s->p99_9_ns = leat_histogram_percentile(h, 99.9);
	s->max_ns = leat_histogram_max(h);
	(void)pthread_mutex_unlock(&gw->lock);
}

void
gw_stats_get(struct gw *gw, struct gw_stats *stats)
{
	const struct gw_stats *s = &gw->stats;

	memset(stats, 0, sizeof(*stats));
	snprintf(stats->name, sizeof(stats->name), "%s", s->name);
	stats->clients = LOAD(s->clients);
	stats->accepted = LOAD(s->accepted);
	stats->ended = LOAD(s->ended);
	stats->refused_allow = LOAD(s->refused_allow);
	stats->refused_clients = LOAD(s->refused_clients);
	stats->refused_backend = LOAD(s->refused_backend);
	stats->retries = LOAD(s->retries);
	stats->lingered = LOAD(s->lingered);
	stats->request_bytes = LOAD(s->request_bytes);
	stats->reply_bytes = LOAD(s->reply_bytes);
	stats->dropped_bytes = LOAD(s->dropped_bytes);
	stats->stalls = LOAD(s->stalls);
	(void)pthread_mutex_lock(&gw->lock);
	stats->latencies = s->latencies;
	stats->p50_ns = s->p50_ns;
	stats->p99_ns = s->p99_ns;
	stats->p99_9_ns = s->p99_9_ns;
	stats->max_ns = s->max_ns;
	(void)pthread_mutex_unlock(&gw->lock);
}

/* ---- telemetry ---- */

static int
on_list(const char *cmd, const char *params, struct rte_tel_data *d)
{
	struct gw *gw;
	char number[16];
	int ret = 0;

	(void)cmd;
	(void)params;
	rte_tel_data_start_dict(d);
	(void)pthread_mutex_lock(&lock);
	for (gw = all; gw != NULL && ret == 0; gw = gw->next) {
		snprintf(number, sizeof(number), "%u", gw->number);
		ret = rte_tel_data_add_dict_string(d, number, gw->stats.name);
	}
	(void)pthread_mutex_unlock(&lock);
	return ret;
}

static void
show(struct rte_tel_data *d, const struct gw_stats *s)
{
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_string(d, "name", s->name);
	rte_tel_data_add_dict_uint(d, "clients", s->clients);
	rte_tel_data_add_dict_uint(d, "accepted", s->accepted);
	rte_tel_data_add_dict_uint(d, "ended", s->ended);
	rte_tel_data_add_dict_uint(d, "refused_allow", s->refused_allow);
	rte_tel_data_add_dict_uint(d, "refused_clients", s->refused_clients);
	rte_tel_data_add_dict_uint(d, "refused_backend", s->refused_backend);
	rte_tel_data_add_dict_uint(d, "retries", s->retries);
	rte_tel_data_add_dict_uint(d, "lingered", s->lingered);
	rte_tel_data_add_dict_uint(d, "request_bytes", s->request_bytes);
	rte_tel_data_add_dict_uint(d, "reply_bytes", s->reply_bytes);
	rte_tel_data_add_dict_uint(d, "dropped_bytes", s->dropped_bytes);
	rte_tel_data_add_dict_uint(d, "stalls", s->stalls);
	rte_tel_data_add_dict_uint(d, "latencies", s->latencies);
	rte_tel_data_add_dict_uint(d, "latency_p50_ns", s->p50_ns);
	rte_tel_data_add_dict_uint(d, "latency_p99_ns", s->p99_ns);
	rte_tel_data_add_dict_uint(d, "latency_p99_9_ns", s->p99_9_ns);
	rte_tel_data_add_dict_uint(d, "latency_max_ns", s->max_ns);
}

static int
on_show(const char *cmd, const char *params, struct rte_tel_data *d)
{
	char *end = NULL;
	const unsigned long number = params != NULL ? strtoul(params, &end, 10) : 0;
	struct gw *gw;

	(void)cmd;
	if (params == NULL || end == params || *end != '\0')
		return -EINVAL;
	(void)pthread_mutex_lock(&lock);
	for (gw = all; gw != NULL && gw->number != number;)
		gw = gw->next;
	if (gw != NULL) {
		struct gw_stats stats;

		gw_stats_get(gw, &stats);
		show(d, &stats);
	}
	(void)pthread_mutex_unlock(&lock);
	return gw != NULL ? 0 : -ENOENT;
}

static void
register_once(void)
{
	if (registered)
		return;
	registered = true;
	if (rte_telemetry_register_cmd("/leat/gateways", on_list,
				       "Legs of the gateway: number and name. No parameters") < 0 ||
	    rte_telemetry_register_cmd("/leat/gateway", on_show,
				       "Counters and latencies of a leg. Parameter: its number") <
		    0)
		LEAT_LOG(WARNING, app, "gateway: no telemetry");
}

int
gw_stats_init(struct gw *gw)
{
	gw->latency = leat_histogram_create();
	if (gw->latency == NULL)
		return leat_err(ENOMEM, "gateway: no memory");
	(void)pthread_mutex_init(&gw->lock, NULL);
	(void)pthread_mutex_lock(&lock);
	register_once();
	gw->number = all != NULL ? all->number + 1 : 0;
	gw->next = all;
	all = gw;
	(void)pthread_mutex_unlock(&lock);
	return 0;
}

void
gw_stats_fini(struct gw *gw)
{
	struct gw **p = &all;

	if (gw->latency == NULL)
		return;
	(void)pthread_mutex_lock(&lock);
	while (*p != gw)
		p = &(*p)->next;
	*p = gw->next;
	(void)pthread_mutex_unlock(&lock);
	(void)pthread_mutex_destroy(&gw->lock);
	leat_histogram_free(gw->latency);
}
