/* SPDX-License-Identifier: BSD-3-Clause */

/* Records that processes exchange: parse and build. A parser trusts no byte, and keeps no state. */

#include <errno.h>
#include <string.h>

#include "leat_le.h"
#include "record.h"

#define VERSION 1

static const uint8_t magic[4] = { 'L', 'R', 'D', 'V' };

static bool
is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '.' || c == '_' || c == '-';
}

static bool
name_ok(const char *name, size_t len, size_t max)
{
	size_t i;

	for (i = 0; i < len; i++) {
		if (!is_name_char(name[i]))
			return false;
	}
	return len > 0 && len < max;
}

bool
record_name_ok(const char *name, size_t max)
{
	return name_ok(name, strnlen(name, max), max);
}

static bool
printable(const char *s, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++) {
		if (s[i] < 0x20 || s[i] > 0x7e)
			return false;
	}
	return true;
}

/* ---- values -------------------------------------------------------------------------------- */

/* Read a value at p, where len bytes are left. Return false: it is not complete. */
static bool
value_get(const uint8_t *p, size_t len, struct record_value *v)
{
	if (len < 4 || p[1] != 0)
		return false;
	v->key_len = p[0];
	v->len = leat_get_le16(p + 2);
	if (len - 4 < (size_t)v->key_len + v->len)
		return false;
	v->key = (const char *)p + 4;
	v->data = p + 4 + v->key_len;
	return true;
}

static size_t
value_len(const struct record_value *v)
{
	return 4 + (size_t)v->key_len + v->len;
}

bool
record_state_next(const uint8_t *state, uint32_t len, uint32_t *at, struct record_value *v)
{
	if (*at == 0)
		*at = 2;
	if (*at >= len || !value_get(state + *at, len - *at, v))
		return false;
	*at += (uint32_t)value_len(v);
	return true;
}

static bool
has_key(const struct record_value *v, unsigned int n, const struct record_value *of)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		if (v[i].key_len == of->key_len && memcmp(v[i].key, of->key, of->key_len) == 0)
			return true;
	}
	return false;
}

static int
state_check(const uint8_t *state, size_t len, const char **why)
{
	struct record_value v[LEAT_RENDEZVOUS_KEYS_MAX];
	unsigned int i, n;
	size_t at = 2;

	*why = "its values are cut short";
	if (len < 2)
		return -EPROTO;
	n = leat_get_le16(state);
	if (n > LEAT_RENDEZVOUS_KEYS_MAX) {
		*why = "it has too many keys";
		return -EPROTO;
	}
	for (i = 0; i < n; i++) {
		if (!value_get(state + at, len - at, &v[i]))
			return -EPROTO;
		if (!name_ok(v[i].key, v[i].key_len, LEAT_RENDEZVOUS_KEY_MAX) ||
		    v[i].len > LEAT_RENDEZVOUS_VALUE_MAX || has_key(v, i, &v[i])) {
			*why = "a key or a value is not valid";
			return -EPROTO;
		}
		at += value_len(&v[i]);
	}
	if (at != len) {
		*why = "bytes follow its values";
		return -EPROTO;
	}
	return 0;
}

uint32_t
record_state_build(uint8_t *state, const struct record_value *v, unsigned int n)
{
	uint8_t *p = state + 2;
	unsigned int i;

	leat_put_le16(state, (uint16_t)n);
	for (i = 0; i < n; i++) {
		p[0] = v[i].key_len;
		p[1] = 0;
		leat_put_le16(p + 2, v[i].len);
		memcpy(p + 4, v[i].key, v[i].key_len);
		if (v[i].len > 0)
			memcpy(p + 4 + v[i].key_len, v[i].data, v[i].len);
		p += value_len(&v[i]);
	}
	return (uint32_t)(p - state);
}

/* ---- records ------------------------------------------------------------------------------- */

static int
parse_rank(const uint8_t *body, size_t len, struct record *rec, const char **why)
{
	if (rec->rank >= rec->size || (rec->flags & ~(RECORD_LEFT | RECORD_STATE)) != 0 ||
	    rec->state_round > rec->round) {
		*why = "its rank, its rounds or its flags are not valid";
		return -EPROTO;
	}
	if ((rec->flags & RECORD_STATE) == 0) {
		*why = "bytes follow its header";
		return len == 0 ? 0 : -EPROTO;
	}
	rec->state = body;
	rec->state_len = (uint32_t)len;
	return state_check(body, len, why);
}

static int
parse_session(const uint8_t *body, size_t len, struct record *rec, const char **why)
{
	size_t nonces = 8 * (size_t)rec->size;

	if (rec->rank != 0 || rec->round != 0 || rec->state_round != 0 ||
	    rec->flags > RECORD_TIMEOUT || rec->nonce != rec->session) {
		*why = "it is not valid";
		return -EPROTO;
	}
	if (rec->flags == RECORD_OPEN) {
		*why = "bytes follow its header";
		return len == 0 ? 0 : -EPROTO;
	}
	if (len < nonces || len - nonces > RECORD_TEXT_MAX ||
	    !printable((const char *)body + nonces, len - nonces)) {
		*why = "its list of ranks is not valid";
		return -EPROTO;
	}
	rec->nonces = body;
	rec->text = (const char *)body + nonces;
	rec->text_len = (uint32_t)(len - nonces);
	return 0;
}

static bool
parse_host(const uint8_t *p, struct record *rec)
{
	size_t len = strnlen((const char *)p, RECORD_HOST_MAX), i;

	if (len == RECORD_HOST_MAX || !printable((const char *)p, len))
		return false;
	for (i = len; i < RECORD_HOST_MAX; i++) {
		if (p[i] != 0)
			return false;
	}
	memcpy(rec->host, p, RECORD_HOST_MAX);
	return true;
}

int
record_parse(const uint8_t *buf, size_t len, struct record *rec, const char **why)
{
	memset(rec, 0, sizeof(*rec));
	*why = "it is no record of leat";
	if (len < RECORD_HDR_LEN || memcmp(buf, magic, sizeof(magic)) != 0)
		return -EPROTO;
	if (leat_get_le16(buf + 4) != VERSION) {
		*why = "it is of another release of leat";
		return -EPROTO;
	}
	rec->kind = leat_get_le16(buf + 6);
	rec->session = leat_get_le64(buf + 8);
	rec->nonce = leat_get_le64(buf + 16);
	rec->round = leat_get_le64(buf + 24);
	rec->state_round = leat_get_le64(buf + 32);
	rec->rank = leat_get_le32(buf + 40);
	rec->size = leat_get_le32(buf + 44);
	rec->flags = leat_get_le32(buf + 48);
	rec->pid = leat_get_le32(buf + 52);
	if (leat_get_le32(buf + 56) != len - RECORD_HDR_LEN || leat_get_le32(buf + 60) != 0) {
		*why = "it is cut short, or bytes follow";
		return -EPROTO;
	}
	*why = "its header is not valid";
	if (rec->size == 0 || rec->size > LEAT_RENDEZVOUS_RANKS_MAX || !parse_host(buf + 64, rec))
		return -EPROTO;
	buf += RECORD_HDR_LEN;
	len -= RECORD_HDR_LEN;
	if (rec->kind == RECORD_RANK)
		return parse_rank(buf, len, rec, why);
	if (rec->kind == RECORD_SESSION)
		return parse_session(buf, len, rec, why);
	return -EPROTO;
}

size_t
record_build(uint8_t *buf, const struct record *rec)
{
	size_t len = 0;

	memset(buf, 0, RECORD_HDR_LEN);
	memcpy(buf, magic, sizeof(magic));
	leat_put_le16(buf + 4, VERSION);
	leat_put_le16(buf + 6, rec->kind);
	leat_put_le64(buf + 8, rec->session);
	leat_put_le64(buf + 16, rec->nonce);
	leat_put_le64(buf + 24, rec->round);
	leat_put_le64(buf + 32, rec->state_round);
	leat_put_le32(buf + 40, rec->rank);
	leat_put_le32(buf + 44, rec->size);
	leat_put_le32(buf + 48, rec->flags);
	leat_put_le32(buf + 52, rec->pid);
	memcpy(buf + 64, rec->host, strnlen(rec->host, RECORD_HOST_MAX - 1));
	if (rec->kind == RECORD_RANK && (rec->flags & RECORD_STATE) != 0) {
		len = rec->state_len;
		memcpy(buf + RECORD_HDR_LEN, rec->state, len);
	} else if (rec->kind == RECORD_SESSION && rec->flags != RECORD_OPEN) {
		len = 8 * (size_t)rec->size;
		memcpy(buf + RECORD_HDR_LEN, rec->nonces, len);
		if (rec->text_len > 0)
			memcpy(buf + RECORD_HDR_LEN + len, rec->text, rec->text_len);
		len += rec->text_len;
	}
	leat_put_le32(buf + 56, (uint32_t)len);
	return RECORD_HDR_LEN + len;
}

uint64_t
record_nonce(const struct record *rec, uint32_t rank)
{
	return leat_get_le64(rec->nonces + 8 * (size_t)rank);
}
