/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The device's arguments.
 *
 *     chance        0 to 1 with up to six decimals: 0.05
 *     distribution  N           always N
 *                   LO..HI      uniform
 *                   exp:MEAN    exponential: mostly short, seldom long
 *                   tail:LO..HI LO to 2 LO is as likely as 2 LO to 4 LO, and so on up to HI
 */

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "fault_pvt.h"

const struct leat_driver_arg fault_args[] = {
	{ "lower", "DEVICE", "", "device to wrap, given by a --vdev before this one" },
	{ "seed", "0..2^64-1", "1", "all faults follow from it, and from the names of endpoints" },
	{ "reorder", "0..4096", "0", "ops come back out of order, passed by at most so many" },
	{ "delay", "US", "0", "distribution of the delay added to each op, up to 60000000 us" },
	{ "refuse", "0..0.99", "0", "chance that post refuses what is sent, though there is room" },
	{ "refuse_recv", "0..0.99", "0", "the same for receives, which other drivers don't do" },
	{ "error", "0..1", "0", "chance that an op fails without having been tried" },
	{ "errno", "NAME", "EIO",
	  "status of these: EIO, EREMOTEIO (not receives), EACCES, ERANGE (only one-sided ops)" },
	{ "stall", "0..1", "0", "chance, per op of a peer, that the peer stands still" },
	{ "stall_time", "US", "100..1000", "distribution of how long, up to 60000000 us" },
	{ "die", "OPS", "0", "distribution of the ops after which a peer dies; 0: never" },
	{ "loss", "0..1", "0", "chance that a datagram is lost" },
	{ "dup", "0..1", "0", "chance that a datagram is sent twice" },
	{ "overtake", "0..4096", "0", "datagrams are overtaken, by at most so many" },
	{ NULL },
};

static const struct {
	const char *name;
	int err;
} errors[] = {
	{ "EIO", EIO },
	{ "EREMOTEIO", EREMOTEIO },
	{ "EACCES", EACCES },
	{ "ERANGE", ERANGE },
};

/* Parse the number at *s and advance *s past it. @return false: no digit, or more than max */
static bool
whole(const char **s, uint64_t max, uint64_t *out)
{
	uint64_t v = 0;

	if (!isdigit((unsigned char)**s))
		return false;
	for (; isdigit((unsigned char)**s); (*s)++) {
		unsigned int d = (unsigned int)(**s - '0');

		if (v > (max - d) / 10)
			return false;
		v = 10 * v + d;
	}
	*out = v;
	return true;
}

static int
chance(const struct rte_kvargs *kv, const char *key, uint32_t max_ppm, uint64_t *out)
{
	const char *s = leat_driver_arg_str(kv, key), *p = s;
	uint64_t ppm, unit;

	if (s == NULL)
		return 0;
	if (!whole(&p, 1, &ppm))
		goto bad;
	ppm *= 1000000;
	if (*p == '.') {
		p++;
		for (unit = 100000; isdigit((unsigned char)*p) && unit > 0; unit /= 10)
			ppm += unit * (unsigned int)(*p++ - '0');
	}
	if (*p != '\0' || ppm > max_ppm)
		goto bad;
	*out = (ppm << 32) / 1000000;
	return 0;
bad:
	return leat_err(EINVAL, "argument %s=%s: a chance from 0 to %s expected, such as 0.05", key,
			s, max_ppm == 1000000 ? "1" : "0.99");
}

static int
dist(const struct rte_kvargs *kv, const char *key, uint64_t max, struct fault_dist *out)
{
	const char *s = leat_driver_arg_str(kv, key), *p = s;
	struct fault_dist d = { .shape = FAULT_RANGE };

	if (s == NULL)
		return 0;
	if (strncmp(p, "exp:", 4) == 0) {
		d.shape = FAULT_EXP;
		p += 4;
	} else if (strncmp(p, "tail:", 5) == 0) {
		d.shape = FAULT_TAIL;
		p += 5;
	}
	if (!whole(&p, max, &d.lo))
		goto bad;
	d.hi = d.lo;
	if (d.shape != FAULT_EXP && strncmp(p, "..", 2) == 0) {
		p += 2;
		if (!whole(&p, max, &d.hi))
			goto bad;
	}
	if (*p != '\0' || d.hi < d.lo)
		goto bad;
	if (d.hi == 0)
		d.shape = FAULT_NEVER;
	*out = d;
	return 0;
bad:
	return leat_err(EINVAL,
			"argument %s=%s: N, LO..HI, exp:MEAN or tail:LO..HI expected, each up to "
			"%" PRIu64,
			key, s, max);
}

static int
seed(const struct rte_kvargs *kv, uint64_t *out)
{
	const char *s = leat_driver_arg_str(kv, "seed");
	char *end;

	if (s == NULL)
		return 0;
	errno = 0;
	*out = strtoull(s, &end, 0);
	if (errno != 0 || end == s || *end != '\0' || !isdigit((unsigned char)s[0]))
		return leat_err(EINVAL, "argument seed=%s: a whole number below 2^64 expected", s);
	return 0;
}

static int
error_name(const struct rte_kvargs *kv, int *status)
{
	const char *s = leat_driver_arg_str(kv, "errno");
	size_t i;

	if (s == NULL)
		return 0;
	for (i = 0; i < RTE_DIM(errors); i++) {
		if (strcmp(errors[i].name, s) == 0) {
			*status = -errors[i].err;
			return 0;
		}
	}
	return leat_err(EINVAL, "argument errno=%s: EIO, EREMOTEIO, EACCES or ERANGE expected", s);
}

int
fault_conf_parse(const struct rte_kvargs *kv, struct fault_conf *conf)
{
	*conf = (struct fault_conf){
		.seed = 1,
		.error_status = -EIO,
		.stall_time = { .shape = FAULT_RANGE, .lo = 100, .hi = 1000 },
	};
	if (seed(kv, &conf->seed) < 0 ||
	    leat_driver_arg_u32(kv, "reorder", 0, FAULT_REORDER_MAX, &conf->reorder) < 0 ||
	    dist(kv, "delay", FAULT_US_MAX, &conf->delay) < 0 ||
	    chance(kv, "refuse", 990000, &conf->refuse) < 0 ||
	    chance(kv, "refuse_recv", 990000, &conf->refuse_recv) < 0 ||
	    chance(kv, "error", 1000000, &conf->error) < 0 ||
	    error_name(kv, &conf->error_status) < 0 ||
	    chance(kv, "stall", 1000000, &conf->stall) < 0 ||
	    dist(kv, "stall_time", FAULT_US_MAX, &conf->stall_time) < 0 ||
	    dist(kv, "die", FAULT_OPS_MAX, &conf->die) < 0 ||
	    chance(kv, "loss", 1000000, &conf->loss) < 0 ||
	    chance(kv, "dup", 1000000, &conf->dup) < 0 ||
	    leat_driver_arg_u32(kv, "overtake", 0, FAULT_REORDER_MAX, &conf->overtake) < 0)
		return -EINVAL;
	return 0;
}

/* Return -log2(v / 2^32) with 16 binary places, for v from 1 to 2^32, by repeated squaring. */
static uint64_t
minus_log2(uint64_t v)
{
	unsigned int k = 63 - (unsigned int)__builtin_clzll(v), i;
	uint64_t x = k >= 31 ? v >> (k - 31) : v << (31 - k), frac = 0;

	for (i = 0; i < 16; i++) {
		x = (x * x) >> 31; /* x / 2^31 is in [1, 2): square it */
		frac <<= 1;
		if (x >= UINT64_C(1) << 32) {
			frac |= 1;
			x >>= 1;
		}
	}
	return (UINT64_C(32) << 16) - ((uint64_t)k << 16) - frac;
}

uint64_t
fault_dist_draw(const struct fault_dist *d, struct fault_rand *r)
{
	static const uint64_t ln2 = 45426; /* times 2^16 */
	unsigned int doublings;
	uint64_t lo, v;

	switch (d->shape) {
	case FAULT_RANGE:
		return d->lo + fault_rand_below(r, d->hi - d->lo + 1);
	case FAULT_EXP:
		/* -ln(u) times 2^32, of a random u in (0, 1] */
		v = minus_log2((fault_rand_next(r) >> 32) + 1) * ln2;
		return (uint64_t)(((leat_u128)d->lo * v) >> 32);
	case FAULT_TAIL:
		lo = d->lo == 0 ? 1 : d->lo;
		doublings = 63 - (unsigned int)__builtin_clzll(d->hi / lo);
		lo <<= fault_rand_below(r, doublings + 1);
		v = lo + fault_rand_below(r, lo);
		return v < d->hi ? v : d->hi;
	case FAULT_NEVER:
		break;
	}
	return 0;
}
