/* SPDX-License-Identifier: BSD-3-Clause */

/* Values of settings: in the C structure, as text, and their bounds. */

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <leat_error.h>

#include "tune_schema.h"

/* Size of the text of a setting's valid values, in messages; longer texts are cut. */
#define WANTED_MAX 200

uint64_t
tune_value_get(const struct leat_tune_field *f, const void *from)
{
	const void *at = (const char *)from + f->c_offset;
	uint64_t v = 0;
	uint32_t half;
	int32_t signed_half;

	switch (f->c_size) {
	case sizeof(bool):
		return *(const bool *)at ? 1 : 0;
	case sizeof(uint32_t):
		if (f->type == LEAT_TUNE_INTEGER && f->kind == LEAT_TUNE_I32) {
			memcpy(&signed_half, at, sizeof(signed_half));
			return (uint64_t)(int64_t)signed_half;
		}
		memcpy(&half, at, sizeof(half));
		return half;
	default:
		memcpy(&v, at, sizeof(v));
		return v;
	}
}

void
tune_value_put(const struct leat_tune_field *f, uint64_t v, void *to)
{
	void *at = (char *)to + f->c_offset;
	uint32_t half = (uint32_t)v;

	switch (f->c_size) {
	case sizeof(bool):
		*(bool *)at = v == 1;
		return;
	case sizeof(uint32_t):
		memcpy(at, &half, sizeof(half));
		return;
	default:
		memcpy(at, &v, sizeof(v));
	}
}

const struct leat_tune_special *
tune_value_special(const struct leat_tune_field *f, uint64_t v)
{
	uint32_t i;

	for (i = 0; i < f->nb_specials; i++)
		if (f->type == LEAT_TUNE_REAL ? f->specials[i].real == tune_bits_to_real(v)
					      : f->specials[i].value == (int64_t)v)
			return &f->specials[i];
	return NULL;
}

bool
tune_is_text(const char *text, size_t len)
{
	const uint8_t *p = (const uint8_t *)text, *end = p + len;
	uint32_t point, least;
	unsigned int more;

	while (p < end) {
		if (*p < 0x80) {
			if (*p < ' ' || *p == 0x7f)
				return false;
			p++;
			continue;
		}
		if (*p >= 0xc2 && *p <= 0xdf)
			more = 1, least = 0x80, point = *p & 0x1f;
		else if (*p >= 0xe0 && *p <= 0xef)
			more = 2, least = 0x800, point = *p & 0xf;
		else if (*p >= 0xf0 && *p <= 0xf4)
			more = 3, least = 0x10000, point = *p & 0x7;
		else
			return false;
		for (p++; more > 0; more--, p++) {
			if (p == end || (*p & 0xc0) != 0x80)
				return false;
			point = point << 6 | (*p & 0x3f);
		}
		if (point < 0xa0 || point < least || point > 0x10ffff ||
		    (point >= 0xd800 && point <= 0xdfff))
			return false;
	}
	return true;
}

/* ---- numbers as text, independent of the program's locale ---- */

static int __rte_format_printf(3, 4) print_c(char *buf, size_t len, const char *fmt, ...)
{
	locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0), before;
	va_list ap;
	int n;

	/* The C locale is built into libc: newlocale() can't fail for it. */
	before = uselocale(c);
	va_start(ap, fmt);
	n = vsnprintf(buf, len, fmt, ap);
	va_end(ap);
	uselocale(before);
	if (c != (locale_t)0)
		freelocale(c);
	return n;
}

/* Read a number. @return false: the whole text is not one finite number */
static bool
scan_real(const char *text, double *real)
{
	locale_t c;
	char *end;

	/* No "inf", "nan", hexadecimal, or space. */
	if (text[0] == '\0' || text[strspn(text, "+-.0123456789eE")] != '\0')
		return false;
	c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	if (c == (locale_t)0)
		return false;
	*real = strtod_l(text, &end, c);
	freelocale(c);
	return *end == '\0' && end != text && isfinite(*real);
}

/* Print a number with the fewest digits, 15 or more, that read back as the same number. */
static void
print_real(char *buf, size_t len, double real)
{
	double back;
	int digits;

	for (digits = 15; digits <= 17; digits++) {
		print_c(buf, len, "%.*g", digits, real);
		if (scan_real(buf, &back) && back == real)
			return;
	}
}

/* ---- valid values ---- */

struct text {
	char buf[WANTED_MAX];
	size_t len;
};

static void __rte_format_printf(2, 3) add(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (t->len >= sizeof(t->buf) - 1)
		return;
	va_start(ap, fmt);
	n = vsnprintf(t->buf + t->len, sizeof(t->buf) - t->len, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->len += (size_t)n;
}

/* Describe the valid values of a setting: "1 to 1000 us, or automatic". */
static const char *
wanted(const struct leat_tune_field *f, struct text *t)
{
	char from[32], to[32];
	uint32_t i;

	t->len = 0;
	t->buf[0] = '\0';
	switch (f->type) {
	case LEAT_TUNE_BOOL:
		add(t, "true or false");
		break;
	case LEAT_TUNE_INTEGER:
		add(t, "%" PRId64 " to %" PRId64, f->min, f->max);
		break;
	case LEAT_TUNE_REAL:
		print_real(from, sizeof(from), f->rmin);
		print_real(to, sizeof(to), f->rmax);
		add(t, "%s to %s", from, to);
		break;
	case LEAT_TUNE_ENUM:
		for (i = 0; i < f->nb_names; i++)
			add(t, "%s%s", i > 0 ? ", " : "", f->names[i]);
		break;
	default:
		add(t, "UTF-8 text of at most %u bytes", f->c_size - 1);
	}
	if (f->unit != NULL)
		add(t, " %s", f->unit);
	for (i = 0; i < f->nb_specials; i++)
		add(t, ", or %s", f->specials[i].name);
	return t->buf;
}

int
tune_value_check(const struct leat_tune_schema *schema, const struct leat_tune_field *f, uint64_t v)
{
	struct text t;
	char real[32];

	switch (f->type) {
	case LEAT_TUNE_BOOL:
		if (v > 1)
			return leat_err(EINVAL, "%s.%s: %" PRIu64 " is neither 0 nor 1",
					schema->name, f->name, v);
		return 0;
	case LEAT_TUNE_ENUM:
		if (v >= f->nb_names)
			return leat_err(EINVAL, "%s.%s: there is no value %" PRIu64 ", only: %s",
					schema->name, f->name, v, wanted(f, &t));
		return 0;
	case LEAT_TUNE_INTEGER:
		if (((int64_t)v < f->min || (int64_t)v > f->max) &&
		    tune_value_special(f, v) == NULL)
			return leat_err(ERANGE, "%s.%s: %" PRId64 " is out of range: %s",
					schema->name, f->name, (int64_t)v, wanted(f, &t));
		return 0;
	case LEAT_TUNE_REAL:
		/* Written so that NaN, for which both comparisons are false, is refused. */
		if (!(tune_bits_to_real(v) >= f->rmin && tune_bits_to_real(v) <= f->rmax) &&
		    tune_value_special(f, v) == NULL) {
			print_c(real, sizeof(real), "%.6g", tune_bits_to_real(v));
			return leat_err(ERANGE, "%s.%s: %s is out of range: %s", schema->name,
					f->name, real, wanted(f, &t));
		}
		return 0;
	default:
		return leat_err(EINVAL, "%s.%s: no setting is of this type", schema->name, f->name);
	}
}

/* ---- values as text ---- */

/* Read a value, except a string. @return 0; -EINVAL: not of the type; -ERANGE: over 64 bits */
static int
scan(const struct leat_tune_field *f, const char *text, uint64_t *v)
{
	double real;
	char *end;
	uint32_t i;

	for (i = 0; i < f->nb_specials; i++) {
		if (strcmp(text, f->specials[i].name) == 0) {
			*v = f->type == LEAT_TUNE_REAL ? tune_real_to_bits(f->specials[i].real)
						       : (uint64_t)f->specials[i].value;
			return 0;
		}
	}
	switch (f->type) {
	case LEAT_TUNE_BOOL:
		*v = strcmp(text, "true") == 0;
		return *v == 1 || strcmp(text, "false") == 0 ? 0 : -EINVAL;
	case LEAT_TUNE_INTEGER:
		if (text[0] == '\0' || text[strspn(text, "+-0123456789")] != '\0')
			return -EINVAL;
		/* Overflow shows only in errno: strtoll() returns LLONG_MIN or LLONG_MAX. */
		errno = 0;
		*v = (uint64_t)strtoll(text, &end, 10);
		if (errno == ERANGE)
			return -ERANGE;
		return *end == '\0' && end != text ? 0 : -EINVAL;
	case LEAT_TUNE_REAL:
		if (!scan_real(text, &real))
			return -EINVAL;
		*v = tune_real_to_bits(real);
		return 0;
	case LEAT_TUNE_ENUM:
		for (i = 0; i < f->nb_names; i++) {
			if (strcmp(text, f->names[i]) == 0) {
				*v = i;
				return 0;
			}
		}
		return -EINVAL;
	default:
		return -EINVAL;
	}
}

static int
parse_string(const struct leat_tune_field *f, const char *text, void *to)
{
	size_t len = strnlen(text, f->c_size);

	if (len == f->c_size || !tune_is_text(text, len))
		return -EINVAL;
	memset((char *)to + f->c_offset, 0, f->c_size);
	memcpy((char *)to + f->c_offset, text, len);
	return 0;
}

int
leat_tune_parse(const struct leat_tune_schema *schema, unsigned int setting, const char *text,
		void *to)
{
	const struct leat_tune_field *f;
	struct text t;
	uint64_t v;
	int ret;

	if (setting >= schema->nb_settings)
		return leat_err(EINVAL, "%s has no setting number %u", schema->name, setting);
	f = &schema->settings[setting];
	if (f->type == LEAT_TUNE_STRING) {
		ret = parse_string(f, text, to);
	} else {
		ret = scan(f, text, &v);
		if (ret == 0) {
			ret = tune_value_check(schema, f, v);
			if (ret < 0)
				return ret;
			tune_value_put(f, v, to);
		}
	}
	if (ret < 0)
		return leat_err(-ret, "%s.%s: '%.64s' %s: %s", schema->name, f->name, text,
				ret == -ERANGE ? "is out of range" : "is not a valid value",
				wanted(f, &t));
	return 0;
}

int
leat_tune_format(const struct leat_tune_schema *schema, unsigned int setting, const void *settings,
		 char *buf, size_t len)
{
	const struct leat_tune_field *f;
	const struct leat_tune_special *special;
	char real[32];
	uint64_t v;

	if (setting >= schema->nb_settings)
		return snprintf(buf, len, "?");
	f = &schema->settings[setting];
	if (f->type == LEAT_TUNE_STRING)
		return snprintf(buf, len, "%.*s", (int)f->c_size - 1,
				(const char *)settings + f->c_offset);
	v = tune_value_get(f, settings);
	special = tune_value_special(f, v);
	if (special != NULL)
		return snprintf(buf, len, "%s", special->name);
	switch (f->type) {
	case LEAT_TUNE_BOOL:
		return snprintf(buf, len, "%s", v == 1 ? "true" : "false");
	case LEAT_TUNE_ENUM:
		return snprintf(buf, len, "%s", v < f->nb_names ? f->names[v] : "?");
	case LEAT_TUNE_REAL:
		print_real(real, sizeof(real), tune_bits_to_real(v));
		return snprintf(buf, len, "%s", real);
	default:
		return snprintf(buf, len, "%" PRId64, (int64_t)v);
	}
}
