/* SPDX-License-Identifier: BSD-3-Clause */

/* Choose the runs: fill in defaults, and check options against the limits of the devices. */

#include <string.h>

#include "client.h"

#define WARMUP_MAX 1000
#define BW_BYTES (UINT64_C(1) << 30)
#define OPEN_DEFAULT_US PERF_US

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

void
perf_plan(const struct client *c, const struct perf_run *r, struct perf_phase *warm,
	  struct perf_phase *main)
{
	const struct perf_options *o = c->o;
	uint64_t n = o->iterations, us = o->duration_us;

	memset(warm, 0, sizeof(*warm));
	memset(main, 0, sizeof(*main));
	if (n == 0 && us == 0 && o->rate != 0)
		us = OPEN_DEFAULT_US;
	if (n == 0 && us != 0 && o->rate != 0)
		n = RTE_MAX((uint64_t)(o->rate * (double)us / (double)PERF_US), UINT64_C(1));
	else if (n == 0 && us == 0)
		n = default_iterations(r);
	main->n = n != 0 ? n : UINT64_MAX;
	main->until = n != 0 ? UINT64_MAX : us; /* us; client.c adds the start of the phase */
	main->rate = warm->rate = o->rate;
	main->whole = o->rate != 0 || r->op >= LEAT_OP_READ;

	warm->until = UINT64_MAX;
	if (o->warmup >= 0) {
		warm->n = (uint64_t)o->warmup;
		return;
	}
	warm->n = RTE_MIN(main->n / 10, (uint64_t)WARMUP_MAX);
	if (o->rate != 0) /* messages of half a second at most */
		warm->n = RTE_MIN(warm->n, (uint64_t)(o->rate / 2));
}

bool
perf_needs_a_byte(const struct perf_options *o, unsigned int op)
{
	return op == LEAT_OP_WRITE && o->test == PERF_LAT && o->rate == 0;
}

int
perf_plan_ops(struct client *c, struct perf_options *o, uint32_t ops, const char *dev,
	      const char *driver)
{
	unsigned int op;

	for (op = 0; op < LEAT_OP_TYPES; op++) {
		if ((o->ops & LEAT_OP_BIT(op)) == 0 || perf_op_offered(ops, op))
			continue;
		if ((o->ops_named & LEAT_OP_BIT(op)) != 0)
			return perf_fail(&c->s, EOPNOTSUPP, "%s (%s) does not offer %s%s", dev,
					 driver, perf_op_name(op),
					 op == LEAT_OP_TSEND || op == PERF_OP_MSG ? " (see --tags)"
										  : "");
		perf_msg("%s (%s) does not offer %s: left out", dev, driver, perf_op_name(op));
		o->ops &= ~LEAT_OP_BIT(op);
	}
	return 0;
}

int
perf_plan_sizes(struct client *c, const struct perf_options *o, uint64_t max)
{
	uint32_t i;

	for (i = 0; i < o->nb_sizes; i++) {
		if (o->sizes[i] > max)
			return perf_fail(&c->s, EMSGSIZE,
					 "size %" PRIu64 " is beyond the device's limit of %" PRIu64
					 " B",
					 o->sizes[i], max);
		if (o->sizes[i] == 0 && (o->ops_named & LEAT_OP_BIT(LEAT_OP_WRITE)) != 0 &&
		    perf_needs_a_byte(o, LEAT_OP_WRITE))
			return perf_fail(&c->s, EINVAL,
					 "lat of write waits for the last byte of a message: size "
					 "0 has none");
		if (o->sizes[i] != 8 && o->ops == o->ops_named && (o->ops & ~PERF_OPS_ATOMIC) == 0)
			return perf_fail(&c->s, EINVAL, "size %" PRIu64 ": atomics move 8 bytes",
					 o->sizes[i]);
	}
	return 0;
}

int
perf_plan_default_sizes(struct client *c, struct perf_options *o, uint64_t max)
{
	uint64_t size;

	if (o->nb_sizes > 0)
		return 0;
	if (o->test == PERF_RATE || (o->ops & ~PERF_OPS_ATOMIC) == 0)
		return perf_parse_sizes("8", &o->sizes, &o->nb_sizes) < 0
			       ? perf_fail(&c->s, ENOMEM, "out of memory")
			       : 0;
	if (perf_parse_sizes("1-1M", &o->sizes, &o->nb_sizes) < 0)
		return perf_fail(&c->s, ENOMEM, "out of memory");
	for (size = o->nb_sizes; size > 1 && o->sizes[size - 1] > max; size--)
		;
	o->nb_sizes = (uint32_t)size;
	return 0;
}

int
perf_plan_window(struct client *c, const struct leat_dev_info *info)
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
