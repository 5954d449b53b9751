/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The side that serves. Each client gets a new endpoint, so that nothing is left of the previous
 * client: no posted receive, no memory that it could reach, no state of a provider whose peer was
 * lost in the middle of a transfer.
 */

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <leat_error.h>

#include "side.h"

/* How long a client may be silent between two runs; a longer --timeout extends it. */
#define SILENCE_US (30 * PERF_US)
/* How long to wait for the port that the previous endpoint used. */
#define RELISTEN_US (10 * PERF_US)
/* How long an accepted client may take to be connected, and then to send HELLO. */
#define ACCEPT_US (5 * PERF_US)
#define HELLO_US (5 * PERF_US)

struct server {
	struct perf_side s;
	const struct perf_options *o;
	struct leat_dev *dev;
	struct perf_self *self;
	char addr[LEAT_ADDR_MAX];
	bool bound;			 /* an endpoint has listened at addr before */
	bool greeted;			 /* the last client sent HELLO: it is a leat-perf */
	uint64_t runs, messages, errors; /* counts of the current client */
};

static void __attribute__((format(printf, 2, 3))) say(const struct server *v, const char *fmt, ...)
{
	va_list ap;

	if (v->self != NULL)
		return;
	va_start(ap, fmt);
	(void)vprintf(fmt, ap);
	va_end(ap);
	(void)fflush(stdout);
}

/* ---- a run ---- */

static int
refuse(struct perf_side *s, uint32_t id, int err)
{
	struct wire_msg m = { .type = WIRE_REFUSED, .id = id, .err = err };

	snprintf(m.text, sizeof(m.text), "%.255s", s->why);
	perf_msg("client %s: refused: %s", s->peer_addr, s->why);
	return perf_chan_send(s, &m);
}

static int
acceptable(struct perf_side *s, const struct wire_msg *m)
{
	if (!perf_op_offered(s->info.ops, m->run.op))
		return perf_fail(s, EOPNOTSUPP, "%s (%s) does not offer %s", s->info.name,
				 s->info.driver, perf_op_name(m->run.op));
	if (m->run.size > s->info.max_msg)
		return perf_fail(s, EMSGSIZE,
				 "size %" PRIu64 " is beyond the limit of %" PRIu64 " B of %s",
				 m->run.size, s->info.max_msg, s->info.name);
	/* The memory of a run is bounded, whatever the client asks for. */
	if (m->run.window > 1 && m->run.window > perf_window_fit(m->run.size, m->run.window))
		return perf_fail(s, EINVAL, "a window of %u at %" PRIu64 " B takes too much memory",
				 m->run.window, m->run.size);
	if (m->run.size == 0 && m->run.op == LEAT_OP_WRITE && m->run.test == PERF_LAT &&
	    !m->run.open)
		return perf_fail(s, EINVAL, "lat of write needs a byte to wait for");
	return 0;
}

static int
begin_run(struct server *v, const struct wire_msg *m)
{
	struct wire_msg ready = { .type = WIRE_READY, .id = m->id };
	struct perf_side *s = &v->s;
	int ret;

	ret = acceptable(s, m);
	if (ret < 0)
		return refuse(s, m->id, -ret);
	ret = perf_rx_recall(s);
	if (ret == 0 && m->run.op != PERF_OP_MSG)
		ret = perf_msg_close(s);
	if (ret < 0)
		return ret;
	s->run = m->run;
	s->there = m->rkey;
	ret = perf_mem_prepare(s);
	if (ret == 0)
		ret = perf_mem_rkey(s, &ready.rkey);
	if (ret < 0) {
		/* Fall back to a run without data: control messages still need receives. */
		int err = ret;
		char why[PERF_TEXT];

		memcpy(why, s->why, sizeof(why));
		s->run = (struct perf_run){ .op = LEAT_OP_READ, .window = 1 };
		ret = perf_mem_prepare(s);
		perf_rx_post_all(s);
		memcpy(s->why, why, sizeof(why));
		return ret < 0 ? ret : refuse(s, m->id, -err);
	}
	s->ctl_len = wire_len(s->size);
	perf_mem_set_remote(s);
	perf_rma_init(s);
	perf_rx_post_all(s);
	v->runs++;
	ret = perf_chan_send(s, &ready);
	return ret < 0 ? ret : perf_serve(s);
}

static int
end_phase(struct server *v, const struct wire_msg *m)
{
	struct perf_side *s = &v->s;
	struct wire_msg r = { .type = WIRE_RESULT, .id = m->id };
	int ret;

	if (m->id != s->run.id || s->run.id == 0)
		return perf_fail(s, EPROTO, "a SYNC for a run that is not under way");
	/* One-sided ops complete only at the client: its SYNC says how many there were. */
	if (!perf_is_message(s->run.op) && s->run.op != LEAT_OP_WRITE_IMM)
		s->count = m->count;
	perf_rma_verify(s, m->count);
	r.count = s->count;
	r.errors = s->errors;
	ret = perf_chan_send(s, &r);
	return ret < 0 ? ret : perf_serve(s);
}

/* Answer BYE. A failure is ignored: the client has ended anyway. */
static int
answer_bye(struct perf_side *s)
{
	struct wire_msg m = { .type = WIRE_BYE };

	s->timeout = leat_us_to_cycles(PERF_US);
	perf_side_restart_timers(s);
	(void)perf_chan_send(s, &m);
	return 0;
}

/* Handle control messages until BYE. @return 0: BYE came; or a negative errno */
static int
serve_client(struct server *v)
{
	struct perf_side *s = &v->s;
	struct wire_msg m;
	int ret;

	for (;;) {
		ret = perf_chan_wait(s, &m);
		if (ret < 0)
			return ret;
		if (m.type == WIRE_RUN || m.type == WIRE_BYE) {
			v->messages += s->count;
			v->errors += s->errors.count;
			perf_tune_carry(s);
		}
		if (m.type == WIRE_RUN)
			ret = begin_run(v, &m);
		else if (m.type == WIRE_SYNC)
			ret = end_phase(v, &m);
		else if (m.type == WIRE_BYE)
			return answer_bye(s);
		else
			ret = perf_fail(s, EPROTO, "a control message that makes no sense here");
		if (ret < 0)
			return ret;
	}
}

/* ---- a client, from connect to disconnect ---- */

/* Wait until a client is connected. @return 0, or -EINTR */
static int
await_client(struct server *v)
{
	struct perf_side *s = &v->s;
	uint64_t accepted = 0;
	struct leat_event ev;

	s->peer = LEAT_PEER_ANY;
	while (!s->up) {
		(void)leat_ep_poll(s->ep, NULL, 0);
		if (leat_ep_events(s->ep, &ev, 1) == 0) {
			leat_tune_serve(s->tune);
			if (*s->stop != 0)
				return -EINTR;
			if (s->peer != LEAT_PEER_ANY &&
			    rte_rdtsc() > accepted + leat_us_to_cycles(ACCEPT_US)) {
				(void)leat_ep_disconnect(s->ep, s->peer);
				s->peer = LEAT_PEER_ANY;
			}
			perf_nap();
			continue;
		}
		if (ev.type == LEAT_EV_CONNECT_REQ) {
			if (s->peer != LEAT_PEER_ANY) {
				(void)leat_ep_reject(s->ep, ev.peer);
				continue;
			}
			if (leat_ep_accept(s->ep, ev.peer, NULL) < 0) {
				perf_msg("client not accepted: %s", leat_err_msg());
				(void)leat_ep_reject(s->ep, ev.peer);
				continue;
			}
			s->peer = ev.peer;
			accepted = rte_rdtsc();
		} else if (ev.peer == s->peer && ev.type == LEAT_EV_CONNECTED) {
			s->up = true;
			snprintf(s->peer_addr, sizeof(s->peer_addr), "%.*s",
				 (int)strcspn(ev.text, " "), ev.text);
		} else if (ev.peer == s->peer && ev.type == LEAT_EV_DISCONNECTED) {
			s->peer = LEAT_PEER_ANY;
		}
	}
	return 0;
}

static int
hello(struct server *v)
{
	struct perf_side *s = &v->s;
	uint64_t timeout = s->timeout;
	int ret;

	s->timeout = leat_us_to_cycles(HELLO_US);
	ret = perf_chan_hello(s);
	s->timeout = timeout;
	v->greeted = ret == 0;
	return ret;
}

static int
listen_retry(struct server *v)
{
	uint64_t end = rte_rdtsc() + leat_us_to_cycles(RELISTEN_US);
	struct perf_side *s = &v->s;
	int ret;

	for (;;) {
		ret = leat_ep_listen(s->ep, v->addr);
		if (ret != -EADDRINUSE || !v->bound || rte_rdtsc() > end || *s->stop != 0)
			break;
		perf_nap();
	}
	if (ret == 0)
		ret = leat_ep_listen_addr(s->ep, v->addr, sizeof(v->addr));
	if (ret < 0)
		return perf_fail(s, -ret, "%s", leat_err_msg());
	v->bound = true;
	return 0;
}

static int
open_side(struct server *v)
{
	const struct perf_options *o = v->o;
	struct perf_side_conf conf = {
		.name = "server",
		.dev = v->dev,
		.max_peers = 8,
		.mbufs = o->mbufs,
		.mbuf_size = o->mbuf_size,
		.eal_memory = o->eal_memory,
		.timeout_us = RTE_MAX(SILENCE_US, o->timeout_us),
		.stop = v->self != NULL ? &v->self->quit : &perf_signal,
		.server = true,
		.tags = o->tags,
	};
	struct perf_side *s = &v->s;
	struct leat_dev_info info;
	int ret;

	if (perf_dev_info(v->dev, o->tags, &info) < 0)
		return perf_fail(s, EINVAL, "%s", leat_err_msg());
	conf.ops = info.ops;
	conf.wait = v->o->idle == PERF_IDLE_BLOCK;
	ret = perf_side_open(s, &conf);
	if (ret < 0)
		return ret;
	s->run = (struct perf_run){ .op = LEAT_OP_READ, .window = 1 };
	ret = perf_mem_prepare(s);
	if (ret < 0)
		return ret;
	perf_rx_post_all(s);
	return listen_retry(v);
}

static void
announce(struct server *v)
{
	if (v->self == NULL) {
		say(v, "listening on %s\n", v->addr);
		return;
	}
	snprintf(v->self->addr, sizeof(v->self->addr), "%s", v->addr);
	__atomic_store_n(&v->self->state, 1, __ATOMIC_RELEASE);
}

/* Print why the client failed, and tell the client if it is still connected. */
static void
report_failure(struct server *v, int err)
{
	struct wire_msg m = { .type = WIRE_REFUSED, .err = -err };
	struct perf_side *s = &v->s;

	perf_side_find_cause(s);
	if (v->self == NULL || err != -ECONNRESET)
		perf_msg("client %s: %s", s->peer_addr, s->why);
	if (!s->up)
		return;
	snprintf(m.text, sizeof(m.text), "%.255s", s->why);
	s->timeout = leat_us_to_cycles(PERF_US);
	perf_side_restart_timers(s);
	/* Wait until the client has read REFUSED and disconnects. */
	if (perf_chan_send(s, &m) == 0)
		perf_side_find_cause(s);
}

/* Serve one client. @return 0, -EINTR, -EBADMSG (--check found errors), or another failure */
static int
one_client(struct server *v)
{
	struct perf_side *s = &v->s;
	int ret;

	v->runs = v->messages = v->errors = 0;
	v->greeted = false;
	ret = await_client(v);
	if (ret < 0)
		return ret;
	ret = hello(v);
	if (ret < 0) {
		if (ret != -EINTR)
			report_failure(v, ret);
		return ret;
	}
	say(v, "client %s: %s on %s\n", s->peer_addr, s->other.driver, s->other.dev);
	s->idle = v->o->idle;
	if (s->idle == PERF_IDLE_AUTO)
		s->idle = cpu_shared(&s->card.at, &s->other.at) ? PERF_IDLE_YIELD : PERF_IDLE_SPIN;
	ret = serve_client(v);
	if (ret < 0 && ret != -EINTR) {
		report_failure(v, ret);
	} else if (ret == 0) {
		/* The client disconnects first, so that the answer to its BYE is not cut off. */
		perf_side_find_cause(s);
	}
	say(v, "client %s: %s, %" PRIu64 " runs, %" PRIu64 " messages, %" PRIu64 " errors\n",
	    s->peer_addr, ret == 0 ? "done" : "ended early", v->runs, v->messages, v->errors);
	if (ret == 0 && v->errors > 0)
		return -EBADMSG;
	return ret;
}

int
perf_server(const struct perf_options *o, struct leat_dev *dev, struct perf_self *self)
{
	struct server *v;
	int ret, code = PERF_EXIT_OK;

	v = aligned_alloc(LEAT_CACHE_LINE, RTE_ALIGN_CEIL(sizeof(*v), (size_t)LEAT_CACHE_LINE));
	if (v == NULL) {
		perf_msg("out of memory");
		return PERF_EXIT_FAILED;
	}
	memset(v, 0, sizeof(*v));
	v->o = o;
	v->dev = dev;
	v->self = self;
	snprintf(v->addr, sizeof(v->addr), "%s", self != NULL ? "127.0.0.1:0" : o->addr);
	for (;;) {
		ret = open_side(v);
		if (ret < 0) {
			perf_msg("%s", v->s.why);
			code = PERF_EXIT_FAILED;
			(void)perf_side_close(&v->s);
			break;
		}
		announce(v);
		ret = one_client(v);
		code = ret < 0 ? PERF_EXIT_FAILED : PERF_EXIT_OK;
		if (perf_side_close(&v->s) < 0)
			code = PERF_EXIT_FAILED;
		if (self != NULL || (o->once && v->greeted) || ret == -EINTR)
			break;
	}
	if (self == NULL && perf_signal != 0) {
		perf_msg("interrupted");
		code = 128 + perf_signal;
	}
	free(v);
	return code;
}
