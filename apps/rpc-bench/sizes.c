/* SPDX-License-Identifier: BSD-3-Clause */

/* Sizes of messages on the command line: "32", "8,4K", "8-4K,1M". */

#include <string.h>

#include "../common/num.h"
#include "rb.h"

static int
one(const char *opt, const char *s, size_t len, const char *item, size_t item_len, uint32_t *v)
{
	uint64_t size;
	int ret = num_parse_size_of(s, len, RB_SIZE_MAX, &size);

	if (ret == -ERANGE)
		rb_msg("%s: '%.*s' is more than %uM", opt, (int)item_len, item, RB_SIZE_MAX >> 20);
	else if (ret < 0)
		rb_msg("%s: '%.*s' is not a size (32, 4K, a range 8-4K, a list 8,4K)", opt,
		       (int)item_len, item);
	*v = (uint32_t)size;
	return ret < 0 ? -EINVAL : 0;
}

int
rb_sizes_parse(const char *opt, const char *val, size_t len, struct rb_sizes *s)
{
	const char *end = val + len;
	size_t item, dash;
	uint32_t lo, hi;

	memset(s, 0, sizeof(*s));
	for (;;) {
		item = strcspn(val, ",");
		item = RTE_MIN(item, (size_t)(end - val));
		dash = strcspn(val, "-");
		dash = RTE_MIN(dash, item);
		if (one(opt, val, dash, val, item, &lo) < 0)
			return -EINVAL;
		hi = lo;
		if (dash < item && one(opt, val + dash + 1, item - dash - 1, val, item, &hi) < 0)
			return -EINVAL;
		if (hi < lo) {
			rb_msg("%s: the range '%.*s' ends below its beginning", opt, (int)item,
			       val);
			return -EINVAL;
		}
		if (s->n == RB_SIZES_MAX) {
			rb_msg("%s: more than %d sizes or ranges", opt, RB_SIZES_MAX);
			return -EINVAL;
		}
		s->item[s->n].lo = lo;
		s->item[s->n++].hi = hi;
		s->max = RTE_MAX(s->max, hi);
		val += item;
		if (val == end)
			return 0;
		val++;
	}
}

static int
print_one(char *text, size_t len, uint32_t v)
{
	if (v >= 1024 && v % 1024 == 0 && v < 1024 * 1024)
		return snprintf(text, len, "%uK", v / 1024);
	if (v >= 1024 * 1024 && v % (1024 * 1024) == 0)
		return snprintf(text, len, "%uM", v / 1024 / 1024);
	return snprintf(text, len, "%u", v);
}

void
rb_sizes_print(const struct rb_sizes *s, char *text, size_t len)
{
	size_t at = 0;
	uint32_t i;

	text[0] = '\0';
	for (i = 0; i < s->n && at < len; i++) {
		if (i > 0)
			at += (size_t)snprintf(text + at, len - at, ",");
		if (at < len)
			at += (size_t)print_one(text + at, len - at, s->item[i].lo);
		if (s->item[i].hi == s->item[i].lo || at >= len)
			continue;
		at += (size_t)snprintf(text + at, len - at, "-");
		if (at < len)
			at += (size_t)print_one(text + at, len - at, s->item[i].hi);
	}
}
