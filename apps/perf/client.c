/* SPDX-License-Identifier: BSD-3-Clause */

/* The side that measures: its runs, their results, and the exit code. */

#include <stdlib.h>
#include <string.h>

#include <leat_error.h>
#include <leat_histogram.h>

#include "client.h"

static int
begin_run(struct client *c, const struct perf_run *r)
{
	struct perf_side *s = &c->s;
	struct wire_msg m = { .type = WIRE_RUN, .id = r->id, .run = *r };
	int ret;

	ret = perf_rx_recall(s);
	if (ret == 0 && r->op == PERF_OP_MSG)
		ret = perf_msg_connect(s);
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
	perf_mem_set_remote(s);
	/* The server closed its end of the connection for messages before it sent READY. */
	return r->op == PERF_OP_MSG ? 0 : perf_msg_close(s);
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

/* Run a stream of writes with --check: after each window the server verifies its memory (rma.c). */
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
		ret = perf_bw(s, &part);
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
	bool message = perf_is_message(r->op);
	int ret;

	if (ph->until != UINT64_MAX)
		ph->until = rte_rdtsc() + leat_us_to_cycles(ph->until);
	perf_side_restart_timers(s);
	if (r->test != PERF_LAT) {
		if (r->check && (r->op == LEAT_OP_WRITE || r->op == LEAT_OP_WRITE_IMM))
			return bw_in_rounds(c, ph, errors);
		ret = perf_bw(s, ph);
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
	/* A completed send may not have arrived yet: measure until RESULT says that all have. */
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
	perf_msg("check: %s of %" PRIu64 " B: %" PRIu64
		 " errors at the %s; the first: message %" PRIu64 ", offset %" PRIu64
		 ", %s expected 0x%" PRIx64 ", got 0x%" PRIx64,
		 perf_op_name(r->op), r->size, e->count, where, e->seq + 1, e->offset,
		 kinds[e->kind], e->expected, e->got);
}

static int
report_run(struct client *c, const struct perf_phase *ph, const struct perf_errors *there,
	   bool intr)
{
	const struct perf_side *s = &c->s;
	struct perf_row row = {
		.test = s->run.test,
		.op = s->run.op,
		.size = s->run.size,
		.iterations = ph->done,
		.window = s->windowed ? s->limit : s->run.window,
		.burst = s->windowed ? s->burst : c->burst,
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
	if (perf_report_row(&c->report, &row) < 0)
		return perf_fail(&c->s, EIO, "can't write the report");
	return 0;
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
	perf_plan(c, &r, &warm, &main);
	ret = begin_run(c, &r);
	if (ret == 0 && warm.n > 0)
		ret = run_phase(c, &warm, &there);
	if (ret < 0)
		return ret;
	if (r.test == PERF_LAT) {
		main.hist = leat_histogram_create();
		if (main.hist == NULL)
			return perf_fail(s, ENOMEM, "out of memory");
		main.live = &s->latency;
	}
	ret = run_phase(c, &main, &there);
	err = ret == 0 || ret == -EINTR ? report_run(c, &main, &there, ret == -EINTR) : 0;
	leat_histogram_free(main.hist);
	return ret < 0 ? ret : err;
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
			if (sizes[i] > 0 || !perf_needs_a_byte(o, op))
				ret = run_one(c, op, sizes[i]);
		}
	}
	return ret;
}

/* ---- open, connect, run all, report the end ---- */

static int
open_side(struct client *c, struct perf_options *o, struct leat_dev *dev)
{
	struct perf_side_conf conf = {
		.name = "client",
		.dev = dev,
		.max_peers = 2,
		.mbufs = o->mbufs,
		.mbuf_size = o->mbuf_size,
		.eal_memory = o->eal_memory,
		.timeout_us = o->timeout_us,
		.stop = &perf_signal,
		.tags = o->tags,
	};
	struct leat_dev_info info;
	uint32_t depth;
	int ret;

	if (perf_dev_info(dev, o->tags, &info) < 0)
		return perf_fail(&c->s, EINVAL, "%s", leat_err_msg());
	ret = perf_plan_ops(c, o, info.ops, info.name, info.driver);
	if (ret == 0)
		ret = perf_plan_default_sizes(c, o, info.max_msg);
	if (ret == 0)
		ret = perf_plan_sizes(c, o, info.max_msg);
	if (ret == 0)
		ret = perf_plan_window(c, &info);
	if (ret < 0)
		return ret;
	conf.ops = o->ops;
	conf.wait = o->idle == PERF_IDLE_BLOCK;
	if ((o->ops & (LEAT_OP_BIT(LEAT_OP_TSEND) | LEAT_OP_BIT(PERF_OP_MSG))) != 0)
		conf.ops |= LEAT_OP_BIT(LEAT_OP_TSEND) | LEAT_OP_BIT(LEAT_OP_TRECV);
	conf.window = c->window;
	conf.burst = c->burst;
	conf.rate = o->rate;
	conf.windowed = o->test != PERF_LAT || o->rate != 0;
	depth = RTE_MIN(c->window + PERF_TX_SPARE, info.tx_depth_max);
	if (depth > info.tx_depth)
		conf.tx_depth = depth;
	return perf_side_open(&c->s, &conf);
}

static void
head(struct client *c, const struct perf_cpu_start *start)
{
	struct perf_side *s = &c->s;

	s->idle = c->o->idle;
	if (s->idle == PERF_IDLE_AUTO)
		s->idle = cpu_shared(&s->card.at, &s->other.at) ? PERF_IDLE_YIELD : PERF_IDLE_SPIN;
	c->report.mine = s->card;
	c->report.other = s->other;
	c->report.idle = s->idle;
	snprintf(c->report.peer_addr, sizeof(c->report.peer_addr), "%s", s->peer_addr);
	perf_report_head(&c->report);
	perf_cpu_warn(&s->card, &s->other, start);
}

/*
 * Send BYE and wait for the answer, so that the end of the connection can't overtake BYE. Failures
 * are ignored: all runs have been measured.
 */
static void
send_bye(struct perf_side *s)
{
	struct wire_msg m = { .type = WIRE_BYE };

	s->timeout = leat_us_to_cycles(PERF_US);
	if (perf_chan_send(s, &m) == 0)
		(void)perf_chan_wait(s, &m);
}

static int
session(struct client *c, struct perf_options *o, const struct perf_cpu_start *start)
{
	struct perf_side *s = &c->s;
	int ret;

	/* Get memory as for a run of one READ, which needs receives for control messages only. */
	s->run.op = LEAT_OP_READ;
	s->run.window = 1;
	ret = perf_mem_prepare(s);
	if (ret == 0)
		perf_rx_post_all(s);
	if (ret == 0)
		ret = perf_client_connect(c);
	if (ret == 0)
		ret = perf_plan_ops(c, o, s->other.ops, "the listener's device", s->other.driver);
	if (ret == 0)
		ret = perf_plan_sizes(c, o, s->other.max_msg);
	if (ret < 0)
		return ret;
	head(c, start);
	ret = run_all(c);
	if (ret == 0)
		send_bye(s);
	return ret;
}

/*
 * Print why the client failed and return the exit code. After a signal print "interrupted" instead:
 * a signal ends both sides, and the client's error may only be that the other side has ended.
 */
static int
exit_code(struct client *c, int ret)
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
	    const struct perf_cpu_start *start)
{
	struct perf_cpu_start before, after;
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
	perf_cpu_start(&before);
	if (ret == 0) {
		c->s.progress = perf_progress_wanted(&o) ? c->what : NULL;
		ret = session(c, &o, start);
		if (ret < 0 && ret != -EINTR)
			perf_side_find_cause(&c->s);
	}
	perf_cpu_start(&after);
	code = exit_code(c, ret);
	end.why = ret < 0 ? c->s.why : NULL;
	end.interrupted = perf_signal != 0;
	end.errors = c->errors;
	/* A side that is not pinned may have used several CPUs. */
	end.others = -1;
	if (c->s.card.at.nb_cpus == 1)
		end.others = cpu_others(&before.load, &after.load, c->s.card.at.cpu,
					cpu_own_ns(&before.used, &after.used));
	end.preempted = after.used.preempted - before.used.preempted;
	if (perf_report_close(&c->report, &end) < 0 && code == PERF_EXIT_OK)
		code = PERF_EXIT_FAILED;
	if (perf_side_close(&c->s) < 0 && code == PERF_EXIT_OK)
		code = PERF_EXIT_FAILED;
	/* open_side() allocated the default sizes. */
	if (opts->sizes == NULL)
		free(o.sizes);
	free(c);
	return code;
}
