/* SPDX-License-Identifier: BSD-3-Clause */

/* --stats: a line per leg, as text or as JSON. */

#include <inttypes.h>
#include <time.h>

#include <leat_log.h>

#include "../common/json_add.h"
#include "rg.h"

static int
text_line(const struct gw_stats *s)
{
	int n = printf("%s: clients %u, let in %" PRIu64 ", ended %" PRIu64 ", refused %" PRIu64
		       "; requests %" PRIu64 " B, replies %" PRIu64 " B, dropped %" PRIu64
		       " B; latency p50 %.1f us, p99 %.1f us, max %.1f us\n",
		       s->name, s->clients, s->accepted, s->ended,
		       s->refused_allow + s->refused_clients + s->refused_backend, s->request_bytes,
		       s->reply_bytes, s->dropped_bytes, (double)s->p50_ns / 1e3,
		       (double)s->p99_ns / 1e3, (double)s->max_ns / 1e3);

	return n < 0 || fflush(stdout) != 0 ? -EIO : 0;
}

static int
json_line(const struct gw_stats *s)
{
	struct json_object *o = json_object_new_object();
	const char *text;
	bool ok = add_str(o, "schema", RG_NAME);
	int ret = 0;

	ok &= add_u64(o, "version", 1);
	ok &= add_u64(o, "time", (uint64_t)time(NULL));
	ok &= add_str(o, "leg", s->name);
	ok &= add_u64(o, "clients", s->clients);
	ok &= add_u64(o, "accepted", s->accepted);
	ok &= add_u64(o, "ended", s->ended);
	ok &= add_u64(o, "refused_allow", s->refused_allow);
	ok &= add_u64(o, "refused_clients", s->refused_clients);
	ok &= add_u64(o, "refused_backend", s->refused_backend);
	ok &= add_u64(o, "retries", s->retries);
	ok &= add_u64(o, "lingered", s->lingered);
	ok &= add_u64(o, "request_bytes", s->request_bytes);
	ok &= add_u64(o, "reply_bytes", s->reply_bytes);
	ok &= add_u64(o, "dropped_bytes", s->dropped_bytes);
	ok &= add_u64(o, "stalls", s->stalls);
	ok &= add_u64(o, "latencies", s->latencies);
	ok &= add_real(o, "p50_us", (double)s->p50_ns / 1e3);
	ok &= add_real(o, "p99_us", (double)s->p99_ns / 1e3);
	ok &= add_real(o, "p99_9_us", (double)s->p99_9_ns / 1e3);
	ok &= add_real(o, "max_us", (double)s->max_ns / 1e3);
	text = ok ? json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN) : NULL;
	if (text == NULL)
		ret = -ENOMEM;
	else if (printf("%s\n", text) < 0 || fflush(stdout) != 0)
		ret = -EIO;
	(void)json_object_put(o);
	return ret;
}

int
rg_report(struct gw *gw, bool json)
{
	struct gw_stats stats;

	gw_stats_get(gw, &stats);
	return json ? json_line(&stats) : text_line(&stats);
}
