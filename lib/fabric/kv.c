/* SPDX-License-Identifier: BSD-3-Clause */

/* Values of device arguments. */

#include <stdlib.h>

#include "leat_driver.h"
#include "leat_error.h"

int
leat_kv_u32(const struct rte_kvargs *kv, const char *key, uint32_t min, uint32_t max, uint32_t *out)
{
	const char *s = leat_kv_str(kv, key);
	unsigned long long v;
	char *end;

	if (s == NULL)
		return 0;
	errno = 0;
	v = strtoull(s, &end, 0);
	if (errno != 0 || end == s || *end != '\0' || s[0] == '-' || v < min || v > max)
		return leat_err(EINVAL, "argument %s=%s: a whole number from %u to %u expected",
				key, s, min, max);
	*out = (uint32_t)v;
	return 0;
}
