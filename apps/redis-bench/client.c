/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A client: one connection, with up to plan.pipeline requests that wait for their replies.
 *
 * Closed loop: the client sends plan.pipeline requests together, and the next ones when all replies
 * have arrived. Open loop (--rate): pace.c hands requests to the client one by one.
 */

#include <stdlib.h>
#include <string.h>

#include <leat_time.h>

#include "bench.h"

/* Maximum number of reads of a connection before other connections get their turn. */
#define READS_MAX 4
/* A client is lost if its reader holds more bytes than this of an incomplete reply. */
#define REPLY_MAX (UINT64_C(1) << 30)

static void on_ready(struct redb_conn *conn, uint32_t ready);

static inline const struct redb_plan *
plan_of(const struct redb_client *c)
{
	return &c->worker->bench->o.plan;
}

int
redb_client_init(struct redb_client *c, struct redb_worker *w)
{
	c->worker = w;
	c->conn = (struct redb_conn){ .port = &w->port, .on_ready = on_ready, .fd = -1 };
	c->ring = calloc(plan_of(c)->pipeline, sizeof(*c->ring));
	c->reader = redb_reader_create(c);
	if (c->ring == NULL || c->reader == NULL)
		return -ENOMEM;
	redb_reader_keep(c->reader, plan_of(c)->data);
	return 0;
}

void
redb_client_free(struct redb_client *c)
{
	if (c->reader != NULL)
		redisReaderFree(c->reader);
	free(c->ring);
}

/* ---- disconnect and close ---- */

static void
disconnect(struct redb_client *c, bool drain)
{
	if (c->conn.t != NULL)
		c->conn.t->close(&c->conn, drain);
}

void
redb_client_close(struct redb_client *c)
{
	disconnect(c, true);
	c->state = REDB_CLIENT_CLOSED;
}

/*
 * Close a client that failed, count its requests without a reply, and report why, unless the
 * program is ending. why need not outlive the call.
 */
static void
lost(struct redb_client *c, const char *why)
{
	struct redb_worker *w = c->worker;
	const enum redb_client_state was = c->state;
	const uint32_t nb = was == REDB_CLIENT_UP ? c->nb : 0;

	c->state = REDB_CLIENT_CLOSED;
	c->nb = 0;
	if (c->linked)
		TAILQ_REMOVE(&w->idle, c, link);
	c->linked = false;
	w->tally.cut += nb;
	if (nb > 0)
		redb_worker_lost(w, c, "%s, with %u requests unanswered", why, nb);
	else
		redb_worker_lost(w, c, "%s", why);
	disconnect(c, false);
	redb_worker_client_done(w, c);
	if (was == REDB_CLIENT_CONNECTING || was == REDB_CLIENT_GREETING)
		redb_worker_connect_next(w);
}

static void
lost_by(struct redb_client *c, int err)
{
	char why[REDB_TEXT];

	if (c->conn.t != NULL)
		snprintf(why, sizeof(why), "%s", c->conn.t->why(&c->conn, err));
	else
		snprintf(why, sizeof(why), "%s", strerror(-err));
	lost(c, why);
}

/* ---- send ---- */

/* Account for n bytes that the connection has accepted. */
static void
sent(struct redb_client *c, size_t n)
{
	const uint64_t bytes = c->command->bytes;

	c->worker->tally.bytes_out += n;
	n += c->sent_bytes;
	for (; n >= bytes; n -= bytes)
		c->nb_sent++;
	c->sent_bytes = n;
}

/* @return 0; -EAGAIN: the connection has no room now; other negative: it has ended */
static int
send_some(struct redb_client *c)
{
	const uint32_t depth = plan_of(c)->pipeline;
	struct redb_worker *w = c->worker;
	struct redb_gather g;
	ssize_t n;
	uint32_t i, at;

	redb_gather_begin(&g, w->out, c->sent_bytes);
	for (i = c->nb_sent; i < c->nb && !g.full; i++) {
		at = c->head + i;
		at -= at >= depth ? depth : 0;
		redb_command_put(c->command, &w->bench->values, c->ring[at].base, &g);
	}
	n = c->conn.t->writev(&c->conn, g.iov, g.n);
	if (n < 0)
		return (int)n;
	sent(c, (size_t)n);
	return (size_t)n == g.bytes ? 0 : -EAGAIN;
}

static void
send_all(struct redb_client *c)
{
	const uint32_t before = c->nb_sent;
	const uint64_t bytes_before = c->sent_bytes;
	int ret = 0;

	while (ret == 0 && c->nb_sent < c->nb)
		ret = send_some(c);
	if (ret < 0 && ret != -EAGAIN) {
		lost_by(c, ret);
		return;
	}
	if (c->nb_sent != before || c->sent_bytes != bytes_before)
		c->stamp = leat_now();
	redb_conn_want(&c->conn, REDB_READABLE | (ret < 0 ? REDB_WRITABLE : 0));
}

static void
push(struct redb_client *c, uint64_t base, uint64_t begin)
{
	const uint32_t depth = plan_of(c)->pipeline;
	uint32_t at = c->head + c->nb;

	at -= at >= depth ? depth : 0;
	c->ring[at] = (struct redb_request){ .base = base, .begin = begin };
	c->nb++;
}

/* Claim requests until the pipeline is full. @return false: the client has no requests to send */
static bool
fill(struct redb_client *c)
{
	const uint32_t depth = plan_of(c)->pipeline;
	const uint64_t now = leat_now();
	uint64_t base;

	while (c->nb < depth && redb_worker_claim(c->worker, now, &base))
		push(c, base, now);
	c->stamp = now;
	return c->nb > 0;
}

void
redb_client_start(struct redb_client *c)
{
	c->command = c->worker->step->command;
	if (!fill(c))
		return;
	c->busy = true;
	c->worker->nb_busy++;
	send_all(c);
}

void
redb_client_take(struct redb_client *c, uint64_t due)
{
	struct redb_worker *w = c->worker;
	const uint64_t now = leat_now();
	uint64_t base;

	if (!redb_worker_claim(w, now, &base))
		return;
	if (c->nb == 0) {
		c->busy = true;
		w->nb_busy++;
		c->stamp = now;
	}
	push(c, base, due);
	if (c->nb == plan_of(c)->pipeline) {
		TAILQ_REMOVE(&w->idle, c, link);
		c->linked = false;
	}
	/* With REDB_WRITABLE set, earlier requests wait for room: on_ready() sends them, then this
	 * one. */
	if ((c->conn.want & REDB_WRITABLE) == 0)
		send_all(c);
}

/* ---- connect ---- */

static void
greet(struct redb_client *c)
{
	struct redb_bench *b = c->worker->bench;

	if (c->greeted < b->nb_greetings) {
		c->state = REDB_CLIENT_GREETING;
		c->command = &b->greetings[c->greeted++];
		push(c, 0, leat_now());
		send_all(c);
		return;
	}
	c->state = REDB_CLIENT_UP;
	redb_conn_want(&c->conn, REDB_READABLE);
	redb_worker_client_done(c->worker, c);
	redb_worker_connect_next(c->worker);
}

static void
connect_failed(struct redb_client *c, int err)
{
	struct redb_worker *w = c->worker;
	char why[REDB_TEXT];
	int ret = -EADDRNOTAVAIL;

	if (c->conn.t != NULL)
		snprintf(why, sizeof(why), "%s", c->conn.t->why(&c->conn, err));
	else
		snprintf(why, sizeof(why), "%s", w->bench->addr.transport->why(&c->conn, err));
	disconnect(c, false);
	while (ret < 0 && ++c->nth_addr < w->bench->addr.nb_addrs)
		ret = w->bench->addr.transport->connect(&c->conn, &w->bench->addr, c->nth_addr,
							w->bench->o.timeout_us);
	if (ret < 0)
		lost(c, why);
}

static void
try_connect(struct redb_client *c)
{
	struct redb_bench *b = c->worker->bench;
	int ret = b->addr.transport->connect(&c->conn, &b->addr, c->nth_addr, b->o.timeout_us);

	/* After -EAGAIN redb_client_look() tries again. */
	if (ret < 0 && ret != -EAGAIN)
		connect_failed(c, ret);
}

void
redb_client_connect(struct redb_client *c)
{
	c->state = REDB_CLIENT_CONNECTING;
	c->busy = true;
	c->connect_begin = c->stamp = leat_now();
	try_connect(c);
}

static void
on_connect(struct redb_client *c)
{
	int ret = c->conn.t->connected(&c->conn);

	if (ret == -EAGAIN)
		return;
	if (ret < 0) {
		connect_failed(c, ret);
		return;
	}
	c->stamp = leat_now();
	leat_histogram_record(c->worker->connect, leat_cycles_to_ns(c->stamp - c->connect_begin));
	greet(c);
}

/* ---- replies ---- */

static void
answered(struct redb_client *c, uint64_t now)
{
	struct redb_worker *w = c->worker;
	struct redb_tally *t = &w->tally;

	t->requests++;
	t->errors += c->reply_error;
	t->wrong += c->reply_wrong && !c->reply_error;
	t->nil += c->reply_nil;
	leat_histogram_record(w->hist, leat_cycles_to_ns(now - c->ring[c->head].begin));
}

/* All requests of the client are answered: send the next ones. */
static void
next(struct redb_client *c)
{
	struct redb_worker *w = c->worker;

	if (c->state == REDB_CLIENT_GREETING) {
		greet(c);
		return;
	}
	if (w->step->rate_mhz == 0 && fill(c)) {
		send_all(c);
		return;
	}
	redb_worker_client_done(w, c);
}

/* @return false: the client is lost */
static bool
take_reply(struct redb_client *c, uint64_t now)
{
	const uint32_t depth = plan_of(c)->pipeline;
	char why[2 * REDB_TEXT];

	if (c->nb_sent == 0) {
		snprintf(why, sizeof(why), "a reply arrived for which there was no request%s%s",
			 c->reply_error ? ": " : "",
			 c->reply_error ? c->worker->tally.first_error : "");
		lost(c, why);
		return false;
	}
	if (c->state == REDB_CLIENT_UP) {
		answered(c, now);
	} else if (c->reply_error || c->reply_wrong) {
		snprintf(why, sizeof(why), "%s: %s", c->command->name,
			 c->reply_error ? c->worker->tally.first_error : "not +OK");
		lost(c, why);
		return false;
	}
	c->reply_error = c->reply_wrong = c->reply_nil = false;
	c->head = c->head + 1 == depth ? 0 : c->head + 1;
	c->nb--;
	c->nb_sent--;
	if (c->worker->step->rate_mhz != 0 && c->state == REDB_CLIENT_UP)
		redb_pace_idle(c->worker, c);
	return true;
}

/* Process the complete replies in the reader. @return false: the client is lost */
static bool
take_replies(struct redb_client *c, uint64_t now)
{
	redisReader *r = c->reader;
	void *reply = NULL;

	for (;;) {
		if (redisReaderGetReply(r, &reply) != REDIS_OK) {
			lost(c, r->errstr);
			return false;
		}
		if (reply == NULL)
			break;
		if (!take_reply(c, now))
			return false;
	}
	if (r->len - r->pos <= REPLY_MAX)
		return true;
	lost(c, "a reply of more than 1 GiB");
	return false;
}

/* @return bytes received; 0: the client is lost; -EAGAIN: no bytes are there */
static ssize_t
receive_some(struct redb_client *c)
{
	struct redb_worker *w = c->worker;
	const void *data;
	ssize_t n = c->conn.t->borrow(&c->conn, &data);
	uint64_t now;

	if (n == -EAGAIN)
		return n;
	if (n <= 0) {
		if (n == 0)
			lost(c, "the server has closed the connection");
		else
			lost_by(c, (int)n);
		return 0;
	}
	now = leat_now();
	c->stamp = now;
	w->tally.bytes_in += (uint64_t)n;
	if (redisReaderFeed(c->reader, data, (size_t)n) != REDIS_OK) {
		lost(c, c->reader->errstr);
		return 0;
	}
	c->conn.t->give_back(&c->conn, (size_t)n);
	return take_replies(c, now) ? n : 0;
}

static void
receive(struct redb_client *c, bool ended)
{
	const uint32_t before = c->nb;
	ssize_t n;
	int i;

	for (i = 0; i < READS_MAX; i++) {
		n = receive_some(c);
		if (n == 0)
			return;
		/* After a short read nothing is left to read. */
		if (n < (ssize_t)REDB_READ_MAX && !ended)
			break;
		if (n < 0)
			break;
	}
	if (ended && n == -EAGAIN) {
		lost(c, "the connection has ended");
		return;
	}
	__atomic_store_n(&c->worker->live, c->worker->tally.requests, __ATOMIC_RELAXED);
	if (c->nb == 0 && before > 0)
		next(c);
}

static void
on_ready(struct redb_conn *conn, uint32_t ready)
{
	struct redb_client *c = (struct redb_client *)conn;

	if (c->state == REDB_CLIENT_CONNECTING) {
		on_connect(c);
		return;
	}
	if ((ready & (REDB_READABLE | REDB_ENDED)) != 0)
		receive(c, (ready & REDB_ENDED) != 0);
	if (c->state != REDB_CLIENT_CLOSED && (ready & REDB_WRITABLE) != 0 && c->nb_sent < c->nb)
		send_all(c);
}

/* ---- time-out ---- */

void
redb_client_look(struct redb_client *c, uint64_t now)
{
	const uint64_t timeout_us = c->worker->bench->o.timeout_us;
	char why[REDB_TEXT];

	if (c->state == REDB_CLIENT_NEW || c->state == REDB_CLIENT_CLOSED ||
	    (c->state == REDB_CLIENT_UP && c->nb == 0))
		return;
	if (now > c->stamp && now - c->stamp > leat_us_to_cycles(timeout_us)) {
		snprintf(why, sizeof(why), "%s within %.6g s (--timeout)",
			 c->state == REDB_CLIENT_CONNECTING ? "no connection" : "no answer",
			 (double)timeout_us / (double)REDB_US);
		lost(c, why);
		return;
	}
	if (c->state == REDB_CLIENT_CONNECTING && c->conn.t == NULL)
		try_connect(c);
}
