/* SPDX-License-Identifier: BSD-3-Clause */

/* The output of --json: leat-channel(1) describes its fields. */

#include <stdlib.h>
#include <string.h>

#include "../common/json_add.h"
#include "channel.h"

#define CT_JSON_VERSION 1
#define LINE (JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)
#define PAGE (JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE)

/* Add v as a string: not every JSON parser has 64-bit integers. */
static bool
add_hex(struct json_object *o, const char *key, uint64_t v)
{
	char text[32];

	snprintf(text, sizeof(text), "0x%016" PRIx64, v);
	return add_str(o, key, text);
}

static int
print_and_free(struct json_object *o, bool ok, int how)
{
	const char *s = ok ? json_object_to_json_string_ext(o, how) : NULL;
	int ret = 0;

	if (s == NULL)
		ret = -ENOMEM;
	else if (fprintf(ct_out, "%s\n", s) < 0)
		ret = -EIO;
	(void)json_object_put(o);
	return ret;
}

static int
print_flushed(struct json_object *o, bool ok, int how)
{
	int ret = print_and_free(o, ok, how);

	return ret == 0 && fflush(ct_out) != 0 ? -EIO : ret;
}

static bool
add_head(struct json_object *o, const struct ct_options *opts)
{
	bool ok = add_str(o, "schema", CT_NAME);

	ok &= add_u64(o, "version", CT_JSON_VERSION);
	ok &= add_str(o, "leat", CT_VERSION);
	return ok & add_str(o, "name", opts->name);
}

static bool
add_counters(struct json_object *o, const uint64_t *count)
{
	struct json_object *c = json_object_new_object();
	bool ok = true;
	unsigned int k;

	for (k = 0; k < LEAT_CHANNEL_COUNTERS; k++)
		ok &= add_u64(c, ct_counters[k], count[k]);
	return ok & add(o, "counters", c);
}

static bool
add_positions(struct json_object *o, const struct leat_channel_info *i)
{
	struct json_object *p = json_object_new_object();
	bool ok = add_u64(p, "write", i->write);

	ok &= add_u64(p, "read", i->read);
	ok &= add_u64(p, "free", i->free);
	return ok & add(o, "positions", p);
}

static bool
add_frames(struct json_object *o, const struct leat_channel_info *i)
{
	struct json_object *f = json_object_new_object();
	bool ok = add_u64(f, "reserved", i->reserved);

	ok &= add_u64(f, "committed", i->committed);
	ok &= add_u64(f, "reading", i->reading);
	ok &= add_u64(f, "returned", i->returned);
	ok &= add_u64(f, "done", i->done);
	ok &= add_u64(f, "empty", i->empty);
	return ok & add(o, "frames", f);
}

static bool
add_participants(struct json_object *o, const struct leat_channel_info *info)
{
	struct json_object *list = json_object_new_array(), *p;
	const struct leat_channel_who *w;
	bool ok = list != NULL;
	unsigned int i;

	for (i = 0; i < info->participants && ok; i++) {
		w = &info->who[i];
		p = json_object_new_object();
		ok &= add_u64(p, "slot", w->slot);
		ok &= add(p, "pid", json_object_new_int(w->pid));
		ok &= add_u64(p, "start", w->start);
		ok &= add_u64(p, "generation", w->generation);
		ok &= add_bool(p, "alive", w->alive);
		ok &= add_bool(p, "waiting", w->waiting);
		ok &= add_counters(p, w->count);
		ok &= append(list, p);
	}
	ok &= add_u64(o, "participants_max", info->participants_max);
	return ok & add(o, "participants", list);
}

int
ct_json_inspect(const struct ct_options *opts, const struct leat_channel_info *i)
{
	struct json_object *o = json_object_new_object();
	bool ok = add_head(o, opts);

	ok &= add_u64(o, "size", i->size);
	ok &= add_u64(o, "bytes", i->bytes);
	ok &= add_str(o, "notify", ct_notify_name(i->notify));
	ok &= add_str(o, "on_death", ct_on_death_name(i->on_death));
	ok &= add_bool(o, "terminated", i->ended);
	ok &= add_positions(o, i);
	ok &= add_frames(o, i);
	ok &= add_counters(o, i->count);
	ok &= add_participants(o, i);
	return print_flushed(o, ok, PAGE);
}

static bool
add_rates(struct json_object *o, const struct ct_rates *r)
{
	struct json_object *rates = json_object_new_object();
	bool ok = true;
	char text[64];
	unsigned int k;

	for (k = 0; k < LEAT_CHANNEL_COUNTERS; k++) {
		snprintf(text, sizeof(text), "%.3f", r->count[k]);
		ok &= add(rates, ct_counters[k], json_object_new_double_s(r->count[k], text));
	}
	return ok & add(o, "per_second", rates);
}

int
ct_json_attach(const struct leat_channel_info *i, const struct ct_rates *r)
{
	struct json_object *o = json_object_new_object();
	char text[64];
	bool ok;

	snprintf(text, sizeof(text), "%.6f", r->seconds);
	ok = add(o, "seconds", json_object_new_double_s(r->seconds, text));
	ok &= add_rates(o, r);
	ok &= add_bool(o, "terminated", i->ended);
	ok &= add_positions(o, i);
	ok &= add_frames(o, i);
	ok &= add_counters(o, i->count);
	ok &= add_u64(o, "participants", i->participants);
	return print_flushed(o, ok, LINE);
}

int
ct_json_sent(const struct ct_options *opts, uint64_t sent, uint64_t dropped, uint64_t empty)
{
	struct json_object *o = json_object_new_object();
	bool ok = add_head(o, opts);

	ok &= add_u64(o, "sent", sent);
	ok &= add_u64(o, "dropped", dropped);
	ok &= add_u64(o, "empty", empty);
	return print_flushed(o, ok, LINE);
}

/* ---- a received frame ---- */

/* Return the length of the UTF-8 character at s, bytes; 0: it is not UTF-8 (RFC 3629). */
static size_t
utf8_len(const uint8_t *s, size_t left)
{
	uint32_t c = s[0], least;
	size_t n, i;

	if (c < 0x80)
		return 1;
	n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
	if (c < 0xc2 || c > 0xf4 || n > left)
		return 0;
	least = n == 4 ? 0x10000 : n == 3 ? 0x800 : 0x80;
	c &= 0x7fU >> n;
	for (i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	return c < least || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : n;
}

static bool
is_utf8(const uint8_t *s, size_t len)
{
	size_t n;

	for (; len > 0; s += n, len -= n) {
		n = utf8_len(s, len);
		if (n == 0)
			return false;
	}
	return true;
}

static bool
add_bytes(struct json_object *o, const uint8_t *data, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	char *hex = malloc(2 * len + 1);
	bool ok;
	size_t i;

	if (hex == NULL)
		return false;
	for (i = 0; i < len; i++) {
		hex[2 * i] = digits[data[i] >> 4];
		hex[2 * i + 1] = digits[data[i] & 15];
	}
	hex[2 * len] = '\0';
	ok = add_str(o, "hex", hex);
	free(hex);
	return ok;
}

int
ct_json_frame(const struct leat_channel_frame *f)
{
	struct json_object *o;
	/* Check a copy: other processes may change the shared memory at any time. */
	uint8_t *data = malloc(f->len);
	bool ok;

	if (data == NULL)
		return -ENOMEM;
	memcpy(data, f->data, f->len);
	o = json_object_new_object();
	ok = add_u64(o, "type", f->type);
	ok &= add_hex(o, "hash", f->hash);
	ok &= add_u64(o, "length", f->len);
	ok &= add_u64(o, "redelivered", f->redelivered);
	if (is_utf8(data, f->len))
		ok &= add(o, "text", json_object_new_string_len((const char *)data, (int)f->len));
	else
		ok &= add_bytes(o, data, f->len);
	free(data);
	return print_and_free(o, ok, LINE);
}
