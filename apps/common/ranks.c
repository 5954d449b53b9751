/* SPDX-License-Identifier: BSD-3-Clause */

/* The --rank... options of programs that run as several processes. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <leat_error.h>

#include "ranks.h"

static int
number(const char *opt, const char *val, uint32_t min, uint32_t max, uint32_t *out)
{
	unsigned long v;
	char *end;

	errno = 0;
	v = strtoul(val, &end, 10);
	/* strtoul() accepts spaces and signs, which an option's value must not have. */
	if (val[0] < '0' || val[0] > '9' || *end != '\0')
		return leat_err(EINVAL, "%s: '%s' is not a number", opt, val);
	if (errno == ERANGE || v < min || v > max)
		return leat_err(EINVAL, "%s: %s is out of range (%" PRIu32 " to %" PRIu32 ")", opt,
				val, min, max);
	*out = (uint32_t)v;
	return 0;
}

static int
seconds(const char *opt, const char *val, uint64_t *us)
{
	char *end;
	double v = strtod(val, &end);

	if (val[0] < '0' || val[0] > '9' || *end != '\0')
		return leat_err(EINVAL, "%s: '%s' is not a number of seconds", opt, val);
	if (!(v >= 0.001 && v <= 86400))
		return leat_err(EINVAL, "%s: %s is out of range (0.001 to 86400 seconds)", opt,
				val);
	*us = (uint64_t)(v * 1e6);
	return 0;
}

static int
how_by_name(const char *val, enum leat_rendezvous_how *how)
{
	static const char *const names[] = {
		[LEAT_RENDEZVOUS_AUTO] = "auto",   [LEAT_RENDEZVOUS_PMIX] = "pmix",
		[LEAT_RENDEZVOUS_FILE] = "file",   [LEAT_RENDEZVOUS_LIST] = "list",
		[LEAT_RENDEZVOUS_ALONE] = "alone",
	};
	unsigned int i;

	for (i = 0; i < RTE_DIM(names); i++) {
		if (strcmp(val, names[i]) == 0) {
			*how = (enum leat_rendezvous_how)i;
			return 0;
		}
	}
	return leat_err(EINVAL, "--ranks-how: '%s' is not auto, pmix, file, list or alone", val);
}

int
ranks_option(struct leat_rendezvous_conf *conf, int opt, const char *val)
{
	switch (opt) {
	case RANKS_OPT_DIR:
		conf->dir = val;
		return 0;
	case RANKS_OPT_LIST:
		conf->list = val;
		return 0;
	case RANKS_OPT_RANK:
		conf->rank_given = true;
		return number("--rank", val, 0, LEAT_RENDEZVOUS_RANKS_MAX - 1, &conf->rank);
	case RANKS_OPT_RANKS:
		return number("--ranks", val, 1, LEAT_RENDEZVOUS_RANKS_MAX, &conf->size);
	case RANKS_OPT_JOB:
		conf->job = val;
		return 0;
	case RANKS_OPT_TIMEOUT:
		return seconds("--ranks-timeout", val, &conf->timeout_us);
	case RANKS_OPT_HOW:
		return how_by_name(val, &conf->how);
	default:
		return -ENOENT;
	}
}
