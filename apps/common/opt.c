/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "num.h"
#include "opt.h"

void
opt_print(const char *name, const char *fmt, va_list ap)
{
	char line[512];

	(void)vsnprintf(line, sizeof(line), fmt, ap);
	/* One write per line: lines of several threads and processes must not mix. */
	fprintf(stderr, "%s%s: %s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", name, line);
}

bool
opt_known(const struct option *options, const char *arg)
{
	size_t len = strcspn(arg + 2, "=");

	for (; options->name != NULL; options++) {
		if (strlen(options->name) == len && memcmp(options->name, arg + 2, len) == 0)
			return true;
	}
	return false;
}

int
opt_bad(opt_msg_fn msg, const char *opt, const char *val, const char *want)
{
	msg("%s: '%s' is not %s", opt, val, want);
	return -EINVAL;
}

int
opt_count(opt_msg_fn msg, const char *opt, const char *val, uint64_t min, uint64_t max,
	  uint64_t *out)
{
	int ret = num_parse_count(val, max, out);

	if (ret == -EINVAL)
		return opt_bad(msg, opt, val, "a number");
	if (ret < 0 || *out < min) {
		msg("%s: %s is out of range (%" PRIu64 " to %" PRIu64 ")", opt, val, min, max);
		return -EINVAL;
	}
	return 0;
}

int
opt_count32(opt_msg_fn msg, const char *opt, const char *val, uint32_t min, uint32_t max,
	    uint32_t *out)
{
	uint64_t v;

	if (opt_count(msg, opt, val, min, max, &v) < 0)
		return -EINVAL;
	*out = (uint32_t)v;
	return 0;
}

int
opt_seconds(opt_msg_fn msg, const char *opt, const char *val, uint64_t *us)
{
	double v;
	int ret = num_parse_real(val, 0.001, 86400, &v);

	if (ret == -EINVAL)
		return opt_bad(msg, opt, val, "a number of seconds");
	if (ret < 0) {
		msg("%s: %s is out of range (0.001 to 86400 seconds)", opt, val);
		return -EINVAL;
	}
	*us = (uint64_t)(v * 1e6);
	return 0;
}
