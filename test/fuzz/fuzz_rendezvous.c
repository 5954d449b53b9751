/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The parser of the records that processes of a rendezvous exchange, fed with arbitrary bytes.
 * Building an accepted record again must give the same bytes, and each of its fields, keys and
 * values must be within the limits.
 */

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(bool ok)
{
	if (!ok)
		abort();
}

static void
check_state(const struct record *rec)
{
	static uint8_t out[RECORD_STATE_MAX];
	struct record_value v[LEAT_RENDEZVOUS_KEYS_MAX];
	unsigned int n = 0;
	uint32_t at = 0;

	check(rec->state_len <= RECORD_STATE_MAX);
	while (n < LEAT_RENDEZVOUS_KEYS_MAX &&
	       record_state_next(rec->state, rec->state_len, &at, &v[n])) {
		check(v[n].key_len > 0 && v[n].key_len < LEAT_RENDEZVOUS_KEY_MAX);
		check(v[n].len <= LEAT_RENDEZVOUS_VALUE_MAX);
		n++;
	}
	check(rec->state_len == record_state_build(out, v, n));
	check(memcmp(out, rec->state, rec->state_len) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t out[RECORD_RANK_MAX + RECORD_SESSION_LEN(LEAT_RENDEZVOUS_RANKS_MAX)];
	const char *why = NULL;
	struct record rec;

	if (record_parse(data, size, &rec, &why) != 0) {
		check(why != NULL);
		return 0;
	}
	check(size <= sizeof(out));
	check(rec.size > 0 && rec.size <= LEAT_RENDEZVOUS_RANKS_MAX && rec.rank < rec.size);
	check(memchr(rec.host, 0, sizeof(rec.host)) != NULL);
	if (rec.state != NULL)
		check_state(&rec);
	if (rec.nonces != NULL)
		check(rec.nonces + 8 * (size_t)rec.size == (const uint8_t *)rec.text &&
		      (const uint8_t *)rec.text + rec.text_len == data + size);
	check(record_build(out, &rec) == size);
	check(memcmp(out, data, size) == 0);
	return 0;
}
