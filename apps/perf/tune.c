/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Settings and measurements of a side: perf.toml. The loops serve them in perf_side_tick(), between
 * two messages. Loops with several messages in flight serve them more often: openloop.c in each
 * turn, bw.c every TURNS turns.
 *
 *     set           the values that an agent or --settings has set. Settings of the listening side
 *                   can't be changed, since the connecting side decides
 *     limit, burst  the values that the loop uses: those of set, within the buffers of the run
 */

#include <leat_error.h>

#include "side.h"

#define BIT(setting) (UINT64_C(1) << (setting))
#define FLOW_BITS (BIT(PERF_TUNE_WINDOW) | BIT(PERF_TUNE_BURST))

static void
limits(struct perf_side *s, const struct perf_tune_settings *set)
{
	bool free_window = !s->server && s->run.id != 0 && (s->run.test != PERF_LAT || s->run.open);

	s->limit = free_window ? RTE_MIN(set->window, s->nb_tx) : s->nb_tx;
	s->burst = RTE_MIN(set->burst, s->limit);
	s->rate = set->rate;
}

void
perf_tune_limits(struct perf_side *s)
{
	limits(s, &s->set);
}

static int
apply(void *arg, void *wanted, uint64_t changed)
{
	struct perf_tune_settings *want = wanted;
	struct perf_side *s = arg;

	/*
	 * Without s->tune this is a call of leat_tune_add(), with the values of a settings file,
	 * which may be meant for other sides and tests, too. Settings that mean nothing for this
	 * side and test keep their values.
	 */
	if (s->tune == NULL) {
		if (s->server || (s->set.rate == 0) != (want->rate == 0))
			want->rate = s->set.rate;
		if (s->server || !s->windowed) {
			want->window = s->set.window;
			want->burst = s->set.burst;
			return 0;
		}
		changed = FLOW_BITS;
	}
	if (s->server)
		return leat_err(EOPNOTSUPP, "the connecting side decides what is run");
	if ((changed & BIT(PERF_TUNE_RATE)) != 0 && (s->set.rate == 0) != (want->rate == 0))
		return leat_err(EOPNOTSUPP,
				"a run keeps its kind of loop: closed (rate 0), or open");
	if ((changed & FLOW_BITS) != 0 && !s->windowed)
		return leat_err(
			EOPNOTSUPP,
			"--test lat sends one message at a time: see --test bw, --test rate");
	want->window = RTE_MIN(want->window, s->window_max);
	want->burst = RTE_MIN(want->burst, want->window);
	limits(s, want);
	return 0;
}

void
perf_tune_count(struct perf_side *s)
{
	uint64_t total = s->count, n;

	/* Leave out control messages, which complete in order with the other sends. */
	if (!s->server)
		total = s->returned - RTE_MIN(s->returned, s->ctl_posted);
	n = total - RTE_MIN(total, s->counted);
	if (s->run.id == 0 || total < s->counted)
		n = 0;
	s->counted = total;
	s->messages += n;
	s->transferred += n * s->size;
}

void
perf_tune_carry(struct perf_side *s)
{
	perf_tune_count(s);
	s->errors_before += s->errors.count;
	s->errors.count = 0;
	if (s->server)
		s->count = s->counted = 0;
}

static void
report(void *arg, void *to)
{
	struct perf_tune_report *rep = to;
	struct perf_side *s = arg;

	perf_tune_count(s);
	rep->running = s->run.id != 0;
	rep->size = (int64_t)s->size;
	rep->messages = s->messages;
	rep->transferred = s->transferred;
	rep->errors = s->errors_before + s->errors.count;
	rep->latency = s->latency;
}

int
perf_tune_open(struct perf_side *s, const struct perf_side_conf *conf)
{
	const struct leat_tune_conf tune = {
		.schema = &perf_tune_schema,
		.name = conf->name,
		.settings = &s->set,
		.apply = apply,
		.report = report,
		.report_on_owner = true,
		.arg = s,
	};

	s->set = *(const struct perf_tune_settings *)perf_tune_schema.defaults;
	if (!conf->server) {
		s->set.window = conf->window;
		s->set.burst = conf->burst;
		s->set.rate = conf->rate;
	}
	s->window_max = conf->window;
	s->windowed = conf->windowed;
	s->tune = leat_tune_add(&tune);
	return s->tune != NULL ? 0 : perf_fail(s, rte_errno, "%s", leat_err_msg());
}

void
perf_tune_close(struct perf_side *s)
{
	leat_tune_del(s->tune);
	s->tune = NULL;
}
