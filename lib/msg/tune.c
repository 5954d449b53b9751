/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Settings and measurements of a context, msg.toml, served by leat_msg_events().
 *
 * Buffers are allocated with the context, for the sizes that the program, or a settings file, asks
 * for. A later change applies to connections that begin after it, and can't exceed those sizes.
 */

#include <rte_common.h>

#include "msg_below.h"

/* Return the largest power of two that is at most v; v > 0. */
static uint32_t
pow2_floor(uint32_t v)
{
	return UINT32_C(1) << (31 - __builtin_clz(v));
}

static int
apply(void *arg, void *wanted, uint64_t changed)
{
	struct msg_tune_settings *want = wanted;
	struct leat_msg *m = arg;

	(void)changed;
	/*
	 * A settings file is applied before buffers are allocated, so it may raise eager_max; the
	 * number of receives of the endpoint is fixed already.
	 */
	if (m->tune == NULL && want->eager_max != 0)
		m->eager_max = want->eager_max;
	m->eager_next = m->eager_max;
	m->credits_next = m->credits;
	if (want->eager_max != 0)
		m->eager_next = want->eager_max = RTE_MIN(want->eager_max, m->eager_max);
	if (want->credits != 0) {
		want->credits = RTE_MIN(pow2_floor(want->credits), (uint32_t)m->credits);
		m->credits_next = (uint16_t)want->credits;
	}
	return 0;
}

static void
report(void *arg, void *to)
{
	struct msg_tune_report *rep = to;
	struct leat_msg_stats s;

	leat_msg_stats_get(arg, &s);
	rep->sent = s.sent;
	rep->received = s.received;
	rep->sent_bytes = s.sent_bytes;
	rep->recv_bytes = s.recv_bytes;
	rep->eager = s.eager;
	rep->control = s.control;
	rep->stalled = s.stalled;
	rep->refused = s.refused;
	rep->ended_errors = s.ended_errors;
	rep->conns = s.conns;
	rep->held = s.held;
	rep->held_max = s.held_max;
	rep->memory = (int64_t)s.memory;
}

int
msg_tune_add(struct leat_msg *m)
{
	const struct leat_tune_conf conf = {
		.schema = &msg_tune_schema,
		.name = leat_ep_name(m->ep),
		.settings = &m->set,
		.apply = apply,
		.report = report,
		.report_on_owner = true,
		.arg = m,
	};

	m->set.eager_max = m->eager_next = m->eager_max;
	m->set.credits = m->credits_next = m->credits;
	m->tune = leat_tune_add(&conf);
	return m->tune != NULL ? 0 : -rte_errno;
}
