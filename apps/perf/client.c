/* SPDX-License-Identifier: BSD-3-Clause */

/* The side that measures. */

#include <stdlib.h>
#include <string.h>

#include <leat_error.h>
#include <leat_histogram.h>

#include "side.h"

#define WARMUP_MAX 1000
#define BW_BYTES (UINT64_C(1) << 30)
#define OPEN_DEFAULT_US PERF_US

struct client {
	struct perf_side s;
	const struct perf_options *o;
	struct perf_report report;
	uint32_t window; /* before it is cut to memory */
	uint32_t burst;
	uint32_t next_id;
	uint64_t errors;
	char what[64];
};

/* ---- what to run ---- */

static uint64_t
default_iterations(const struct perf_run *r)
{
	uint64_t fit = BW_BYTES / RTE_MAX(r->size, UINT64_C(1));

	if (r->test == PERF_LAT) {
		if (r->size <= 65536)
			return 10000;
		return RTE_MIN(UINT64_C(1000), RTE_MAX(fit, UINT64_C(10)));
	}
	return RTE_MAX(UINT64_C(16),
		       RTE_MIN(fit, r->test == PERF_RATE ? UINT64_C(1000000) : UINT64_C(100000)));
}

static void
plan(const struct client *c, const struct perf_run *r, struct perf_phase *warm,
     struct perf_phase *main)
{
	const struct perf_options *o = c->o;
	uint64_t n = o->iterations, us = o->duration_us, by_time;

	memset(warm, 0, sizeof(*warm));
	memset(main, 0, sizeof(*main));
	if (n == 0 && us == 0 && o->rate != 0)
		us = OPEN_DEFAULT_US;
	if (n == 0 && us != 0 && o->rate != 0)
		n = RTE_MAX((uint64_t)(o->rate * (double)us / (double)PERF_US), UINT64_C(1));
	else if (n == 0 && us == 0)
		n = default_iterations(r);
	main->n = n != 0 ? n : UINT64_MAX;
	main->until = n != 0 ? UINT64_MAX : us; /* relative until it begins */
	main->rate = warm->rate = o->rate;
	main->whole = o->rate != 0 || r->op >= LEAT_OP_READ;

	warm->until = UINT64_MAX;
	if (o->warmup >= 0) {
		warm->n = (uint64_t)o->warmup;
		return;
	}
	warm->n = RTE_MIN(main->n / 10, (uint64_t)WARMUP_MAX);
	by_time = o->rate != 0 ? (uint64_t)(o->rate / 2) : warm->n;
	warm->n = RTE_MIN(warm->n, by_time);
}

/* ---- one run ---- */

static int
begin_run(struct client *c, const struct perf_run *r)
{
	struct perf_side *s = &c->s;
	struct wire_msg m = { .type = WIRE_RUN, .id = r->id, .run = *r };
	int ret;

	ret = perf_rx_recall(s);
	if (ret < 0)
		return ret;
	s->run = *r;
	s->corrupt = c->o->corrupt;
	ret = perf_mem_prepare(s);
	if (ret == 0)
		ret = perf_mem_rkey(s, &m.rkey);
	if (ret < 0)
		return ret;
	if (r->op == LEAT_OP_WRITE)
		perf_rma_init(s);
	perf_rx_post_all(s);
	ret = perf_chan_send(s, &m);
	s->ctl_len = wire_len(r->size);
	if (ret == 0)
		ret = perf_chan_wait(s, &m);
	if (ret < 0)
		return ret;
	if (m.type != WIRE_READY || m.id != r->id || m.rkey.len < perf_remote_len(r))
		return perf_fail(s, EPROTO, "the listener's answer is wrong");
	s->there = m.rkey;
	perf_mem_aim(s);
	return 0;
}

static int
sync_up(struct client *c, struct perf_errors *errors)
{
	struct perf_side *s = &c->s;
	struct wire_msg m = { .type = WIRE_SYNC, .id = s->run.id, .count = s->seq };
	int ret;

	ret = perf_chan_send(s, &m);
	if (ret == 0)
		ret = perf_chan_wait(s, &m);
	if (ret < 0)
		return ret;
	if (m.type != WIRE_RESULT || m.id != s->run.id)
		return perf_fail(s, EPROTO, "the listener's answer is wrong");
	if (m.count != s->seq)
		return perf_fail(s, EPROTO,
				 "%" PRIu64 " messages were sent, but %" PRIu64 " arrived", s->seq,
				 m.count);
	*errors = m.errors;
	return 0;
}

/* Streams of writes are verified a window at a time, see rma.c. */
static int
bw_in_rounds(struct client *c, struct perf_phase *ph, struct perf_errors *errors)
{
	struct perf_side *s = &c->s;
	uint64_t start = rte_rdtsc();
	struct perf_phase part;
	uint64_t done = 0;
	int ret = 0;

	while (ret == 0 && done < ph->n && rte_rdtsc() < ph->until) {
		part = *ph;
		part.n = RTE_MIN(ph->n - done, (uint64_t)s->run.window);
		ret = perf_bw(s, &part, c->burst);
		done += part.done;
		if (ret == 0)
			ret = sync_up(c, errors);
	}
	ph->start = start;
	ph->end = rte_rdtsc();
	ph->done = done;
	return ret;
}

static int
run_phase(struct client *c, struct perf_phase *ph, struct perf_errors *errors)
{
	struct perf_side *s = &c->s;
	const struct perf_run *r = &s->run;
	bool message = r->op == LEAT_OP_SEND || r->op == LEAT_OP_TSEND;
	int ret;

	if (ph->until != UINT64_MAX)
		ph->until = rte_rdtsc() + leat_us_to_cycles(ph->until);
	perf_side_fresh(s);
	if (r->test != PERF_LAT) {
		if (r->check && (r->op == LEAT_OP_WRITE || r->op == LEAT_OP_WRITE_IMM))
			return bw_in_rounds(c, ph, errors);
		ret = perf_bw(s, ph, c->burst);
	} else if (r->open) {
		ret = perf_openloop(s, ph);
	} else if (message || r->op == LEAT_OP_WRITE_IMM) {
		ret = perf_lat_pingpong(s, ph);
	} else if (r->op == LEAT_OP_WRITE) {
		ret = perf_lat_write(s, ph);
	} else {
		ret = perf_lat_initiator(s, ph);
	}
	if (ret == 0)
		ret = perf_chan_drain(s);
	if (ret == 0)
		ret = sync_up(c, errors);
	/* A send is through when the other side has it. */
	if (ret == 0 && message && r->test != PERF_LAT)
		ph->end = rte_rdtsc();
	return ret;
}

static void
say_errors(const struct perf_errors *e, const char *where, const struct perf_run *r)
{
	static const char *const kinds[PERF_ERR_KINDS] = {
		"?", "byte", "value", "length", "immediate",
	};

	if (e->count == 0)
		return;
	perf_msg("check: %s of %" PRIu64 " B: %" PRIu64 " errors at the %s; the first: message %"
		 PRIu64 ", offset %" PRIu64 ", %s expected 0x%" PRIx64 ", got 0x%" PRIx64,
		 perf_op_name(r->op), r->size, e->count, where, e->seq + 1, e->offset, kinds[e->kind],
		 e->expected, e->got);
}

static int
report_run(struct client *c, const struct perf_phase *ph, const struct perf_errors *there, bool intr)
{
	const struct perf_side *s = &c->s;
	struct perf_row row = {
		.test = s->run.test,
		.op = s->run.op,
		.size = s->run.size,
		.iterations = ph->done,
		.window = s->run.window,
		.burst = c->burst,
		.round_trip = ph->whole,
		.interrupted = intr,
		.errors = s->errors.count + there->count,
		.elapsed_ns = leat_cycles_to_ns(ph->end - ph->start),
		.hist = ph->hist,
		.rate = ph->rate,
		.unsent = ph->unsent,
		.late = ph->late,
		.late_max_ns = leat_cycles_to_ns(ph->late_max),
	};

	c->errors += row.errors;
	say_errors(&s->errors, "connecting side", &s->run);
	say_errors(there, "listening side", &s->run);
	return perf_report_row(&c->report, &row);
}

static int
run_one(struct client *c, unsigned int op, uint64_t size)
{
	struct perf_run r = {
		.id = ++c->next_id,
		.test = c->o->test,
		.op = op,
		.size = size,
		.check = c->o->check,
		.open = c->o->rate != 0,
		.seed = c->next_id * UINT64_C(0x5851f42d4c957f2d) + 1,
	};
	struct perf_errors there = { 0 };
	struct perf_phase warm, main;
	struct perf_side *s = &c->s;
	int ret, err;

	r.window = r.test == PERF_LAT && !r.open ? 1 : perf_window_fit(size, c->window);
	snprintf(c->what, sizeof(c->what), "%s %s %" PRIu64 " B", perf_test_name(r.test),
		 perf_op_name(op), size);
	s->progress_start = rte_rdtsc();
	s->progress_at = s->progress_start + leat_us_to_cycles(2 * PERF_US);
	plan(c, &r, &warm, &main);
	ret = begin_run(c, &r);
	if (ret == 0 && warm.n > 0)
		ret = run_phase(c, &warm, &there);
	if (ret < 0)
		return ret;
	if (r.test == PERF_LAT) {
		main.hist = leat_histogram_create();
		if (main.hist == NULL)
			return perf_fail(s, ENOMEM, "out of memory");
	}
	ret = run_phase(c, &main, &there);
	err = ret == 0 || ret == -EINTR ? report_run(c, &main, &there, ret == -EINTR) : 0;
	leat_histogram_free(main.hist);
	return ret < 0 ? ret : err;
}

/* A ping-pong by WRITE waits for the last byte of a message. */
static bool
needs_a_byte(const struct perf_options *o, unsigned int op)
{
	return op == LEAT_OP_WRITE && o->test == PERF_LAT && o->rate == 0;
}

static int
run_all(struct client *c)
{
	static const uint64_t eight = 8;
	const struct perf_options *o = c->o;
	unsigned int op;
	uint32_t i;
	int ret = 0;

	for (op = 0; op < LEAT_OP_TYPES && ret == 0; op++) {
		bool atomic = op >= LEAT_OP_FETCH_ADD;
		const uint64_t *sizes = atomic ? &eight : o->sizes;
		uint32_t n = atomic ? 1 : o->nb_sizes;

		if ((o->ops & LEAT_OP_BIT(op)) == 0)
			continue;
		for (i = 0; i < n && ret == 0; i++) {
			if (sizes[i] > 0 || !needs_a_byte(o, op))
				ret = run_one(c, op, sizes[i]);
		}
	}
	return ret;
}

/* ---- connecting ---- */

/* @return 1 connected, 0 not yet, negative: failed */
static int
connect_event(struct client *c, const struct leat_event *ev, uint16_t peer)
{
	struct perf_side *s = &c->s;

	if (ev->peer != peer)
		return 0;
	switch (ev->type) {
	case LEAT_EV_CONNECTED:
		if (wire_card_decode(ev->priv, ev->priv_len, &s->other) < 0)
			return perf_fail(s, EPROTO, "%s: there is no leat-perf of this version",
					 s->peer_addr);
		s->peer = peer;
		s->up = true;
		return 1;
	case LEAT_EV_CONNECT_FAILED:
	case LEAT_EV_DISCONNECTED:
		return perf_fail(s, ev->status != 0 ? -ev->status : ECONNREFUSED, "%s", ev->text);
	default:
		return 0;
	}
}

static int
connect_once(struct client *c, uint64_t end, uint64_t *say_at, uint64_t begin)
{
	struct leat_conn_params params = { 0 };
	uint8_t card[LEAT_PRIV_MAX];
	struct perf_side *s = &c->s;
	struct leat_event ev;
	uint64_t now = rte_rdtsc();
	int peer, ret = 0;

	params.priv = card;
	params.priv_len = wire_card_encode(&s->card, card);
	params.timeout_us = RTE_MAX(leat_cycles_to_ns(end > now ? end - now : 0) / 1000,
				    UINT64_C(1000));
	peer = leat_ep_connect(s->ep, s->peer_addr, &params);
	if (peer < 0)
		return perf_fail(s, -peer, "%s", leat_err_msg());
	while (ret == 0) {
		(void)leat_ep_poll(s->ep, NULL, 0);
		if (leat_ep_events(s->ep, &ev, 1) > 0) {
			ret = connect_event(c, &ev, (uint16_t)peer);
			continue;
		}
		if (*s->stop != 0)
			return -EINTR;
		now = rte_rdtsc();
		if (now > *say_at) {
			perf_msg("waiting for a listener at %s (%.0f of %.0f s)", s->peer_addr,
				 (double)leat_cycles_to_ns(now - begin) / 1e9,
				 (double)c->o->timeout_us / (double)PERF_US);
			*say_at = now + leat_us_to_cycles(2 * PERF_US);
		}
		if (now > end + leat_us_to_cycles(PERF_US))
			return perf_fail(s, ETIMEDOUT, "connect to %s: no outcome in time",
					 s->peer_addr);
		perf_nap();
	}
	return ret;
}

static int
connect_retry(struct client *c)
{
	uint64_t begin = rte_rdtsc(), end = begin + leat_us_to_cycles(c->o->timeout_us);
	uint64_t say_at = begin + leat_us_to_cycles(2 * PERF_US), nap_end;
	int ret;

	for (;;) {
		ret = connect_once(c, end, &say_at, begin);
		/* Nobody there yet, or busy with another client. */
		if ((ret != -ECONNREFUSED && ret != -ECONNRESET) || rte_rdtsc() >= end)
			return ret < 0 ? ret : 0;
		nap_end = rte_rdtsc() + leat_us_to_cycles(50000);
		while (rte_rdtsc() < nap_end) {
			if (*c->s.stop != 0)
				return -EINTR;
			perf_nap();
		}
	}
}

/* ---- before and after ---- */

static bool
offered(uint32_t ops, unsigned int op)
{
	uint32_t need = LEAT_OP_BIT(op);

	if (op == LEAT_OP_TSEND)
		need |= LEAT_OP_BIT(LEAT_OP_TRECV);
	return (ops & need) == need;
}

/* Takes out what a device can't do, or complains. */
static int
ops_fit(struct client *c, struct perf_options *o, uint32_t ops, const char *dev, const char *driver)
{
	unsigned int op;

	for (op = 0; op < LEAT_OP_TYPES; op++) {
		if ((o->ops & LEAT_OP_BIT(op)) == 0 || offered(ops, op))
			continue;
		if (!o->ops_all)
			return perf_fail(&c->s, EOPNOTSUPP, "%s (%s) does not offer %s", dev,
					 driver, perf_op_name(op));
		perf_msg("%s (%s) does not offer %s: left out", dev, driver, perf_op_name(op));
		o->ops &= ~LEAT_OP_BIT(op);
	}
	return 0;
}

static int
sizes_fit(struct client *c, const struct perf_options *o, uint64_t max)
{
	uint32_t i;

	for (i = 0; i < o->nb_sizes; i++) {
		if (o->sizes[i] > max)
			return perf_fail(&c->s, EMSGSIZE,
					 "size %" PRIu64 " is beyond the device's limit of %" PRIu64
					 " B",
					 o->sizes[i], max);
		if (o->sizes[i] == 0 && !o->ops_all &&
		    (o->ops & LEAT_OP_BIT(LEAT_OP_WRITE)) != 0 && needs_a_byte(o, LEAT_OP_WRITE))
			return perf_fail(&c->s, EINVAL,
					 "lat of write waits for the last byte of a message: size "
					 "0 has none");
		if (o->sizes[i] != 8 && !o->ops_all &&
		    (o->ops & ~(LEAT_OP_BIT(LEAT_OP_FETCH_ADD) | LEAT_OP_BIT(LEAT_OP_CMP_SWAP))) ==
			    0)
			return perf_fail(&c->s, EINVAL, "size %" PRIu64 ": atomics move 8 bytes",
					 o->sizes[i]);
	}
	return 0;
}

/* Default sizes, as far as the device goes. */
static int
default_sizes(struct client *c, struct perf_options *o, uint64_t max)
{
	uint64_t size;

	if (o->nb_sizes > 0)
		return 0;
	if (o->test == PERF_RATE ||
	    (o->ops & ~(LEAT_OP_BIT(LEAT_OP_FETCH_ADD) | LEAT_OP_BIT(LEAT_OP_CMP_SWAP))) == 0)
		return perf_parse_sizes("8", &o->sizes, &o->nb_sizes) < 0 ?
			       perf_fail(&c->s, ENOMEM, "out of memory") :
			       0;
	if (perf_parse_sizes("1-1M", &o->sizes, &o->nb_sizes) < 0)
		return perf_fail(&c->s, ENOMEM, "out of memory");
	for (size = o->nb_sizes; size > 1 && o->sizes[size - 1] > max; size--)
		;
	o->nb_sizes = (uint32_t)size;
	return 0;
}

static int
choose_window(struct client *c, const struct leat_dev_info *info)
{
	const struct perf_options *o = c->o;
	uint32_t max = info->tx_depth_max > PERF_TX_SPARE ? info->tx_depth_max - PERF_TX_SPARE : 1;

	if (o->window > max)
		return perf_fail(&c->s, EINVAL, "--window %u is beyond the device's limit of %u",
				 o->window, max);
	c->window = o->window != 0 ? o->window : o->test == PERF_BW ? 64 : 256;
	c->burst = o->burst != 0 ? o->burst : o->test == PERF_RATE ? 32 : 1;
	if (o->window == 0) {
		c->window = RTE_MAX(c->window, c->burst);
		c->window = RTE_MIN(c->window, max);
	}
	c->burst = RTE_MIN(c->burst, c->window);
	return 0;
}

static int
open_side(struct client *c, struct perf_options *o, struct leat_dev *dev)
{
	struct perf_side_conf conf = {
		.name = "client",
		.dev = dev,
		.max_peers = 2,
		.mbufs = o->mbufs,
		.mbuf_size = o->mbuf_size,
		.timeout_us = o->timeout_us,
		.stop = &perf_signal,
	};
	struct leat_dev_info info;
	uint32_t depth;
	int ret;

	if (leat_dev_info_get(dev, &info) < 0)
		return perf_fail(&c->s, EINVAL, "%s", leat_err_msg());
	ret = ops_fit(c, o, info.ops, info.name, info.driver);
	if (ret == 0)
		ret = default_sizes(c, o, info.max_msg);
	if (ret == 0)
		ret = sizes_fit(c, o, info.max_msg);
	if (ret == 0)
		ret = choose_window(c, &info);
	if (ret < 0)
		return ret;
	conf.ops = o->ops;
	if ((o->ops & LEAT_OP_BIT(LEAT_OP_TSEND)) != 0)
		conf.ops |= LEAT_OP_BIT(LEAT_OP_TRECV);
	depth = RTE_MIN(c->window + PERF_TX_SPARE, info.tx_depth_max);
	if (depth > info.tx_depth)
		conf.tx_depth = depth;
	return perf_side_open(&c->s, &conf);
}

static void
head(struct client *c, const struct perf_cpu_load *start)
{
	struct perf_side *s = &c->s;

	s->idle = c->o->idle;
	if (s->idle == PERF_IDLE_AUTO)
		s->idle = perf_cpu_shared(&s->card, &s->other) ? PERF_IDLE_YIELD : PERF_IDLE_SPIN;
	c->report.mine = s->card;
	c->report.other = s->other;
	c->report.idle = s->idle;
	snprintf(c->report.peer_addr, sizeof(c->report.peer_addr), "%s", s->peer_addr);
	perf_report_head(&c->report);
	perf_cpu_warn(&s->card, &s->other, start);
}

static int
session(struct client *c, struct perf_options *o, const struct perf_cpu_load *start)
{
	struct perf_side *s = &c->s;
	struct wire_msg bye = { .type = WIRE_BYE };
	int ret;

	/* The first receives, for control messages. */
	s->run.op = LEAT_OP_READ;
	s->run.window = 1;
	ret = perf_mem_prepare(s);
	if (ret == 0)
		perf_rx_post_all(s);
	if (ret == 0)
		ret = connect_retry(c);
	if (ret == 0)
		ret = ops_fit(c, o, s->other.ops, "the listener's device", s->other.driver);
	if (ret == 0)
		ret = sizes_fit(c, o, s->other.max_msg);
	if (ret < 0)
		return ret;
	head(c, start);
	ret = run_all(c);
	if (ret == 0) {
		ret = perf_chan_send(s, &bye);
		if (ret == 0)
			ret = perf_chan_drain(s);
	}
	return ret;
}

/* What one side knows is not always the cause: a signal ends both. */
static int
explain(struct client *c, int ret)
{
	struct perf_side *s = &c->s;

	if (ret == 0 && c->errors == 0)
		return PERF_EXIT_OK;
	if (perf_signal != 0) {
		perf_msg("interrupted");
		return 128 + perf_signal;
	}
	if (ret < 0)
		perf_msg("%s", s->why);
	else
		perf_msg("check: %" PRIu64 " errors", c->errors);
	return PERF_EXIT_FAILED;
}

int
perf_client(const struct perf_options *opts, struct leat_dev *dev, const char *addr,
	    const struct perf_cpu_load *start)
{
	struct perf_cpu_load before, after;
	struct perf_options o = *opts;
	struct perf_end end = { 0 };
	struct client *c;
	int ret, code;

	c = aligned_alloc(LEAT_CACHE_LINE, RTE_ALIGN_CEIL(sizeof(*c), (size_t)LEAT_CACHE_LINE));
	if (c == NULL) {
		perf_msg("out of memory");
		return PERF_EXIT_FAILED;
	}
	memset(c, 0, sizeof(*c));
	c->o = &o;
	ret = open_side(c, &o, dev);
	snprintf(c->s.peer_addr, sizeof(c->s.peer_addr), "%s", addr);
	if (ret == 0 && perf_report_open(&c->report, &o) < 0)
		ret = perf_fail(&c->s, EIO, "can't write the report");
	perf_cpu_load_get(&before);
	if (ret == 0) {
		c->s.progress = perf_progress_wanted(&o) ? c->what : NULL;
		ret = session(c, &o, start);
		if (ret < 0 && ret != -EINTR)
			perf_side_why(&c->s);
	}
	perf_cpu_load_get(&after);
	code = explain(c, ret);
	end.why = ret < 0 ? c->s.why : NULL;
	end.interrupted = perf_signal != 0;
	end.errors = c->errors;
	end.others = perf_cpu_others(&before, &after, c->s.card.cpu);
	end.preempted = after.preempted - before.preempted;
	if (perf_report_close(&c->report, &end) < 0 && code == PERF_EXIT_OK)
		code = PERF_EXIT_FAILED;
	if (perf_side_close(&c->s) < 0 && code == PERF_EXIT_OK)
		code = PERF_EXIT_FAILED;
	/* The default sizes were made here. */
	if (opts->sizes == NULL)
		free(o.sizes);
	free(c);
	return code;
}
