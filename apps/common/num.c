/* SPDX-License-Identifier: BSD-3-Clause */

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "num.h"

static const char suffixes[] = "KMG";

static int
parse(const char *s, size_t len, uint64_t unit, uint64_t max, uint64_t *out)
{
	char buf[32], *end;
	const char *sfx;
	uint64_t v, mul = 1;

	/* strtoull() accepts signs and blanks, which an option's value must not have */
	if (len == 0 || len >= sizeof(buf) || !isdigit((unsigned char)s[0]))
		return -EINVAL;
	memcpy(buf, s, len);
	buf[len] = '\0';
	errno = 0;
	/* Decimal, or hexadecimal with 0x: "010" is ten, not eight as with base 0. */
	v = strtoull(buf, &end, buf[0] == '0' && (buf[1] == 'x' || buf[1] == 'X') ? 16 : 10);
	if (errno != 0)
		return -ERANGE;
	if (*end != '\0') {
		sfx = strchr(suffixes, toupper((unsigned char)*end));
		if (sfx == NULL || end[1] != '\0')
			return -EINVAL;
		for (; sfx >= suffixes; sfx--)
			mul *= unit;
	}
	if (__builtin_mul_overflow(v, mul, &v) || v > max)
		return -ERANGE;
	*out = v;
	return 0;
}

int
num_parse_size(const char *s, uint64_t max, uint64_t *out)
{
	return parse(s, strlen(s), 1024, max, out);
}

int
num_parse_size_of(const char *s, size_t len, uint64_t max, uint64_t *out)
{
	return parse(s, len, 1024, max, out);
}

int
num_parse_count(const char *s, uint64_t max, uint64_t *out)
{
	return parse(s, strlen(s), 1000, max, out);
}

int
num_parse_real(const char *s, double min, double max, double *out)
{
	const char *sfx;
	char *end;
	double v;

	if (!isdigit((unsigned char)s[0]) && s[0] != '.')
		return -EINVAL;
	errno = 0;
	v = strtod(s, &end);
	if (end == s)
		return -EINVAL;
	sfx = *end == '\0' ? NULL : strchr(suffixes, toupper((unsigned char)*end));
	if (sfx != NULL) {
		for (; sfx >= suffixes; sfx--)
			v *= 1000;
		end++;
	}
	if (*end != '\0')
		return -EINVAL;
	if (errno != 0 || isnan(v) || v < min || v > max)
		return -ERANGE;
	*out = v;
	return 0;
}
