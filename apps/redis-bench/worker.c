/* SPDX-License-Identifier: BSD-3-Clause */

/* The clients of an lcore, and its share of each step. */

#include <stdarg.h>
#include <stdlib.h>

#include <leat_error.h>
#include <leat_poller.h>
#include <leat_stream.h>
#include <leat_time.h>

#include "bench.h"

/*
 * Maximum number of clients of an lcore that connect at the same time: a listener's backlog is
 * short.
 */
#define CONNECTING_MAX 64u
/* Interval at which the time-outs of clients are checked. */
#define LOOK_US 10000u
/*
 * Maximum number of lost clients of an lcore that are reported one by one; further ones are only
 * counted.
 */
#define REPORT_MAX 3u

/* ---- open and close ---- */

static int
look(void *arg, uint64_t now)
{
	struct redb_worker *w = arg;
	uint32_t i;

	for (i = 0; i < w->nb_clients; i++)
		redb_client_look(&w->clients[i], now);
	return 0;
}

/* Close all connections when the reactor stops, and report none of them as lost. */
static int
quiesce(void *arg, char *what, size_t len)
{
	(void)what;
	(void)len;
	redb_worker_close(arg);
	return 0;
}

static int
open_net(struct redb_worker *w)
{
	const struct redb_options *o = &w->bench->o;
	const uint64_t window = o->window != 0 ? o->window : LEAT_STREAM_RX_DEFAULT;
	struct leat_stream_net_conf conf = {
		.dev = o->dev,
		.name = "redis-bench",
		.max_streams = w->nb_clients,
		.rx_size = (uint32_t)window,
		.mem_max = (window + LEAT_STREAM_TX_DEFAULT + 4096) * w->nb_clients,
	};

	w->port.net = leat_stream_net_open(w->reactor, &conf);
	return w->port.net == NULL ? -rte_errno : 0;
}

static int
open_clients(struct redb_worker *w)
{
	uint32_t i;

	w->clients = calloc(w->nb_clients, sizeof(*w->clients));
	w->port.buf = malloc(REDB_READ_MAX);
	w->out = malloc(REDB_GATHER_BUF);
	w->connect = leat_histogram_create();
	w->hist = leat_histogram_create();
	if (w->clients == NULL || w->port.buf == NULL || w->out == NULL || w->connect == NULL ||
	    w->hist == NULL)
		return leat_err(ENOMEM, "%u clients: out of memory", w->nb_clients);
	for (i = 0; i < w->nb_clients; i++) {
		if (redb_client_init(&w->clients[i], w) < 0)
			return leat_err(ENOMEM, "%u clients: out of memory", w->nb_clients);
	}
	return 0;
}

int
redb_worker_open(struct redb_worker *w)
{
	int ret;

	w->port.reactor = w->reactor;
	w->port.listening = -1;
	TAILQ_INIT(&w->idle);
	ret = open_clients(w);
	if (ret < 0)
		return ret;
	w->open = true;
	/* Added before the net's poller, so that quiesce() closes the streams first. */
	w->looker = leat_reactor_poller_add(w->reactor, "redis-bench", look, w, LOOK_US);
	if (w->looker == NULL)
		return -rte_errno;
	(void)leat_poller_quiesce_set(w->looker, quiesce);
	return w->bench->addr.transport == &redb_stream ? open_net(w) : 0;
}

void
redb_worker_close(struct redb_worker *w)
{
	uint32_t i;

	if (w->closing)
		return;
	w->closing = true;
	redb_pace_stop(w);
	if (w->running)
		w->tally.elapsed_ns = leat_cycles_to_ns(leat_now() - w->begin);
	w->running = false;
	for (i = 0; w->open && i < w->nb_clients; i++)
		redb_client_close(&w->clients[i]);
}

void
redb_worker_free(struct redb_worker *w)
{
	uint32_t i;

	if (w->port.net != NULL && leat_stream_net_close(w->port.net) < 0)
		redb_msg("%s", leat_err_msg());
	for (i = 0; w->clients != NULL && i < w->nb_clients; i++)
		redb_client_free(&w->clients[i]);
	free(w->clients);
	free(w->port.buf);
	free(w->out);
	leat_histogram_free(w->connect);
	leat_histogram_free(w->hist);
}

/* ---- a step ---- */

static void
check_end(struct redb_worker *w)
{
	if (!w->running || !w->over || w->nb_busy > 0)
		return;
	w->running = false;
	w->tally.elapsed_ns = leat_cycles_to_ns(leat_now() - w->begin);
	redb_pace_stop(w);
	/* release: w->tally, for the leading task to read; pairs with the acquire in step() */
	(void)__atomic_fetch_add(&w->bench->nb_ended, 1, __ATOMIC_RELEASE);
	redb_news(w->bench);
}

static void
connect_all(struct redb_worker *w)
{
	uint32_t i;

	w->nb_busy = w->nb_clients;
	for (i = 0; i < RTE_MIN(CONNECTING_MAX, w->nb_clients); i++)
		redb_worker_connect_next(w);
	w->over = true;
}

void
redb_worker_connect_next(struct redb_worker *w)
{
	w->nb_next++;
	/* A client failed at once, inside the loop below, which will connect one more. */
	if (w->connecting)
		return;
	w->connecting = true;
	for (; w->nb_next > 0 && w->next < w->nb_clients; w->nb_next--)
		redb_client_connect(&w->clients[w->next++]);
	w->nb_next = 0;
	w->connecting = false;
}

/* Choose which requests of the step this lcore sends. */
static void
share(struct redb_worker *w, const struct redb_step *step)
{
	const struct redb_plan *p = &w->bench->o.plan;

	w->claimed = 0;
	if (step->requests == UINT64_MAX)
		w->goal = UINT64_MAX;
	else if (step->one_client)
		w->goal = w->index == 0 ? step->requests : 0;
	else
		w->goal = step->requests / w->nb + (w->index < step->requests % w->nb);
	if (step->command->in_order) {
		w->next_base = step->one_client ? 0 : w->index;
		w->stride = step->one_client ? 1 : w->nb;
		return;
	}
	/* Lcores begin at different bases; consecutive requests have no base + slot in common. */
	w->next_base = redb_mix(p->seed + w->index);
	w->stride = RTE_MAX(step->command->nb_slots, 1u);
}

static void
load(struct redb_worker *w)
{
	const uint32_t nb = w->step->one_client ? RTE_MIN(1u, w->nb_clients) : w->nb_clients;
	uint32_t i;

	for (i = 0; i < nb; i++) {
		struct redb_client *c = &w->clients[i];

		if (c->state == REDB_CLIENT_UP)
			redb_client_start(c);
	}
	/* The step has no requests, or no client is left to send them. */
	w->over = w->over || w->nb_busy == 0;
}

static int
load_open(struct redb_worker *w)
{
	uint32_t i;

	TAILQ_INIT(&w->idle);
	for (i = 0; i < w->nb_clients; i++) {
		w->clients[i].command = w->step->command;
		w->clients[i].linked = false;
		if (w->clients[i].state == REDB_CLIENT_UP)
			redb_pace_idle(w, &w->clients[i]);
	}
	return redb_pace_start(w);
}

void
redb_worker_begin(struct redb_worker *w, const struct redb_step *step)
{
	w->step = step;
	w->tally = (struct redb_tally){ 0 };
	__atomic_store_n(&w->live, 0, __ATOMIC_RELAXED);
	leat_histogram_reset(w->hist);
	w->over = false;
	w->running = true;
	w->nb_busy = 0;
	w->begin = leat_now();
	w->end = step->duration_us == 0
			 ? UINT64_MAX
			 : leat_time_add(w->begin, leat_us_to_cycles(step->duration_us));
	if (step->command == NULL) {
		connect_all(w);
	} else {
		share(w, step);
		if (step->rate_mhz == 0) {
			load(w);
		} else if (load_open(w) < 0) {
			redb_msg("lcore %u: --rate: %s", w->index, leat_err_msg());
			w->over = true;
		}
	}
	check_end(w);
}

bool
redb_worker_claim(struct redb_worker *w, uint64_t now, uint64_t *base)
{
	if (unlikely(w->claimed == w->goal || now >= w->end))
		w->over = true;
	if (unlikely(w->over))
		return false;
	w->claimed++;
	*base = w->next_base;
	w->next_base += w->stride;
	return true;
}

void
redb_worker_client_done(struct redb_worker *w, struct redb_client *c)
{
	w->nb_busy -= c->busy;
	c->busy = false;
	check_end(w);
}

void
redb_worker_stop(struct redb_worker *w)
{
	w->over = true;
	/* Clients that have not begun to connect do not connect any more. */
	if (w->running && w->step->command == NULL) {
		w->nb_busy -= w->nb_clients - w->next;
		w->next = w->nb_clients;
	}
	check_end(w);
}

void
redb_worker_lost(struct redb_worker *w, const struct redb_client *c, const char *fmt, ...)
{
	struct redb_bench *b = w->bench;
	char text[2 * REDB_TEXT];
	va_list ap;

	if (w->closing || redb_signal != 0)
		return;
	w->tally.lost++;
	(void)__atomic_fetch_add(&b->nb_lost, 1, __ATOMIC_RELAXED);
	if (w->nb_lost++ < REPORT_MAX) {
		va_start(ap, fmt);
		(void)vsnprintf(text, sizeof(text), fmt, ap);
		va_end(ap);
		redb_msg("client %u of lcore %u: %s: %s", (unsigned int)(c - w->clients), w->index,
			 b->addr.text, text);
	}
	redb_news(b);
}
