/* SPDX-License-Identifier: BSD-3-Clause */

#include <stdlib.h>
#include <string.h>

#include "redb.h"
#include "value.h"

int
redb_values_create(struct redb_values *v, uint64_t size, uint64_t seed)
{
	uint64_t i, n = size + REDB_VALUE_PLACES, word;

	v->size = size;
	v->pool = malloc(n);
	if (v->pool == NULL)
		return -ENOMEM;
	for (i = 0; i < n; i += sizeof(word)) {
		word = redb_mix(seed + i);
		memcpy(v->pool + i, &word, n - i < sizeof(word) ? n - i : sizeof(word));
	}
	return 0;
}

void
redb_values_free(struct redb_values *v)
{
	free(v->pool);
	v->pool = NULL;
}

uint64_t
redb_value_differs(const struct redb_values *v, uint64_t key, const void *data, uint64_t len)
{
	const uint8_t *want = redb_value(v, key), *got = data;
	uint64_t i, n = len < v->size ? len : v->size;

	if (len == v->size && memcmp(want, got, n) == 0)
		return UINT64_MAX;
	for (i = 0; i < n && want[i] == got[i]; i++)
		;
	return i;
}
