/* SPDX-License-Identifier: BSD-3-Clause */

/* Pack C structures into messages, and unpack them. See leat_tune_schema.h for the format. */

#include <errno.h>
#include <string.h>

#include <leat_error.h>
#include <leat_le.h>

#include "tune_schema.h"

static void
pack_field(const struct leat_tune_field *f, const void *from, uint8_t *p)
{
	const char *at = (const char *)from + f->c_offset;
	const struct leat_tune_histogram *h;
	unsigned int i;
	size_t len;

	switch (f->type) {
	case LEAT_TUNE_STRING:
		len = strnlen(at, f->c_size - 1);
		memcpy(p, at, len);
		memset(p + len, 0, f->size - len);
		return;
	case LEAT_TUNE_HISTOGRAM:
		h = (const struct leat_tune_histogram *)at;
		leat_put_le64(p, h->count);
		leat_put_le64(p + 8, h->sum);
		for (i = 0; i < LEAT_TUNE_BUCKETS; i++)
			leat_put_le64(p + 16 + 8 * (size_t)i, h->bucket[i]);
		return;
	default:
		leat_put_le64(p, tune_value_get(f, from));
	}
}

void
leat_tune_pack(const struct leat_tune_schema *schema, bool settings, const void *from, void *buf)
{
	const struct leat_tune_field *fields = settings ? schema->settings : schema->reports;
	uint32_t i, n = settings ? schema->nb_settings : schema->nb_reports;

	for (i = 0; i < n; i++)
		pack_field(&fields[i], from, (uint8_t *)buf + fields[i].offset);
}

static int
check_string(const struct leat_tune_schema *schema, const struct leat_tune_field *f,
	     const uint8_t *p)
{
	size_t i, len = strnlen((const char *)p, f->c_size);

	if (len == f->c_size)
		return leat_err(EPROTO, "%s.%s: the string has no end", schema->name, f->name);
	for (i = len; i < f->size; i++)
		if (p[i] != 0)
			return leat_err(EPROTO, "%s.%s: there are bytes after the string's end",
					schema->name, f->name);
	if (!tune_is_text((const char *)p, len))
		return leat_err(EINVAL, "%s.%s: the string is not UTF-8, or has control characters",
				schema->name, f->name);
	return 0;
}

static int
check_field(const struct leat_tune_schema *schema, const struct leat_tune_field *f,
	    const uint8_t *p)
{
	if (f->type == LEAT_TUNE_STRING)
		return check_string(schema, f, p);
	return tune_value_check(schema, f, leat_get_le64(p));
}

int
leat_tune_unpack(const struct leat_tune_schema *schema, const void *buf, size_t len, uint64_t mask,
		 void *to)
{
	const struct leat_tune_field *f;
	const uint8_t *p = buf;
	uint32_t i;
	int ret;

	if (len != schema->settings_size)
		return leat_err(EPROTO, "%s: settings of %zu B, they have %u B: another release?",
				schema->name, len, schema->settings_size);
	if (schema->nb_settings < 64 && mask >> schema->nb_settings != 0)
		return leat_err(EPROTO, "%s: mask 0x%" PRIx64 ", there are %u settings",
				schema->name, mask, schema->nb_settings);
	for (i = 0; i < schema->nb_settings; i++) {
		if ((mask >> i & 1) == 0)
			continue;
		f = &schema->settings[i];
		ret = check_field(schema, f, p + f->offset);
		if (ret < 0)
			return ret;
	}
	for (i = 0; i < schema->nb_settings; i++) {
		if ((mask >> i & 1) == 0)
			continue;
		f = &schema->settings[i];
		if (f->type == LEAT_TUNE_STRING)
			memcpy((char *)to + f->c_offset, p + f->offset, f->c_size);
		else
			tune_value_put(f, leat_get_le64(p + f->offset), to);
	}
	return 0;
}
