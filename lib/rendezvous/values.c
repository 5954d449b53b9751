/* SPDX-License-Identifier: BSD-3-Clause */

/* Values that this process puts, and values of the other processes. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous_pvt.h"

int
rendezvous_peers_create(struct leat_rendezvous *rv)
{
	rv->peers = calloc(rv->size, sizeof(*rv->peers));
	if (rv->peers == NULL)
		return leat_err(ENOMEM, "rendezvous: no memory for %" PRIu32 " ranks", rv->size);
	return 0;
}

void
rendezvous_values_free(struct leat_rendezvous *rv)
{
	unsigned int i;
	uint32_t r;

	for (i = 0; i < rv->nb_own; i++)
		free(rv->own[i].data);
	for (r = 0; rv->peers != NULL && r < rv->size; r++)
		free(rv->peers[r].state);
	free(rv->peers);
}

static struct rendezvous_own *
find_own(struct leat_rendezvous *rv, const char *key)
{
	unsigned int i;

	for (i = 0; i < rv->nb_own; i++) {
		if (strcmp(rv->own[i].key, key) == 0)
			return &rv->own[i];
	}
	return NULL;
}

int
leat_rendezvous_put(struct leat_rendezvous *rv, const char *key, const void *data, size_t len)
{
	struct rendezvous_own *own;
	uint8_t *copy = NULL;

	if (key == NULL || !record_name_ok(key, LEAT_RENDEZVOUS_KEY_MAX))
		return leat_err(EINVAL,
				"rendezvous: put: a key is 1 to %d letters, digits and "
				"any of \"._-\"",
				LEAT_RENDEZVOUS_KEY_MAX - 1);
	if (len > LEAT_RENDEZVOUS_VALUE_MAX || (data == NULL && len > 0))
		return leat_err(EINVAL,
				"rendezvous: put %s: %zu B, at most %d are possible, or data is "
				"NULL",
				key, len, LEAT_RENDEZVOUS_VALUE_MAX);
	if (rv->how == LEAT_RENDEZVOUS_LIST) {
		if (strcmp(key, LEAT_RENDEZVOUS_ADDR) == 0)
			return 0;
		return leat_err(ENOTSUP,
				"rendezvous: put %s: with a list of addresses no other key can be "
				"published",
				key);
	}
	own = find_own(rv, key);
	if (own == NULL && rv->nb_own == LEAT_RENDEZVOUS_KEYS_MAX)
		return leat_err(ENOSPC, "rendezvous: put %s: there are %d keys already", key,
				LEAT_RENDEZVOUS_KEYS_MAX);
	if (len > 0) {
		copy = malloc(len);
		if (copy == NULL)
			return leat_err(ENOMEM, "rendezvous: put %s: no memory for %zu B", key,
					len);
		memcpy(copy, data, len);
	}
	if (own == NULL) {
		own = &rv->own[rv->nb_own++];
		memcpy(own->key, key, strlen(key) + 1);
	} else {
		free(own->data);
	}
	own->data = copy;
	own->len = (uint16_t)len;
	rv->changed = true;
	return 0;
}

/* Copy packed values; the copy becomes the state of process p. */
static int
set_state(struct rendezvous_peer *p, uint64_t round, const uint8_t *state, uint32_t len)
{
	uint8_t *copy = malloc(len);

	if (copy == NULL)
		return leat_err(ENOMEM, "rendezvous: no memory for %" PRIu32 " B of values", len);
	memcpy(copy, state, len);
	free(p->state);
	p->state = copy;
	p->state_len = len;
	p->state_round = round;
	return 0;
}

int
rendezvous_values_pack(struct leat_rendezvous *rv)
{
	struct record_value v[LEAT_RENDEZVOUS_KEYS_MAX];
	struct rendezvous_peer *me = &rv->peers[rv->rank];
	unsigned int i;
	int ret = 0;

	if (rv->changed) {
		for (i = 0; i < rv->nb_own; i++) {
			v[i] = (struct record_value){
				.key = rv->own[i].key,
				.key_len = (uint8_t)strlen(rv->own[i].key),
				.data = rv->own[i].data,
				.len = rv->own[i].len,
			};
		}
		ret = set_state(me, rv->round, rv->buf, record_state_build(rv->buf, v, rv->nb_own));
	}
	if (ret == 0) {
		me->state_due = me->state_round;
		me->round = rv->round;
		rv->changed = false;
	}
	return ret;
}

void
rendezvous_record(const struct leat_rendezvous *rv, struct record *rec)
{
	const struct rendezvous_peer *me = &rv->peers[rv->rank];

	*rec = (struct record){
		.kind = RECORD_RANK,
		.round = me->round,
		.state_round = me->state_round,
		.rank = rv->rank,
		.size = rv->size,
		.state = me->state,
		.state_len = me->state_len,
		.flags = me->state != NULL ? RECORD_STATE : 0,
	};
	memcpy(rec->host, rv->host, sizeof(rec->host));
}

int
rendezvous_take(struct leat_rendezvous *rv, uint32_t r, const struct record *rec)
{
	struct rendezvous_peer *p = &rv->peers[r];
	int ret;

	if (rec->kind != RECORD_RANK || rec->rank != r || rec->size != rv->size) {
		rendezvous_note(rv,
				"the record that rank %" PRIu32
				" published is that of another rank, or "
				"of a run of another size",
				r);
		return -EPROTO;
	}
	if (rec->state != NULL && rec->state_round > p->state_round) {
		ret = set_state(p, rec->state_round, rec->state, rec->state_len);
		if (ret < 0)
			return ret;
	}
	p->state_due = RTE_MAX(p->state_due, rec->state_round);
	p->round = RTE_MAX(p->round, rec->round);
	p->left = p->left || (rec->flags & RECORD_LEFT) != 0;
	return 0;
}

bool
rendezvous_peer_arrived(const struct leat_rendezvous *rv, uint32_t r)
{
	const struct rendezvous_peer *p = &rv->peers[r];

	return p->round >= rv->round && p->state_round >= p->state_due;
}

bool
rendezvous_complete(const struct leat_rendezvous *rv)
{
	uint32_t r;

	for (r = 0; r < rv->size; r++) {
		if (!rendezvous_peer_arrived(rv, r))
			return false;
	}
	return true;
}

bool
leat_rendezvous_arrived(const struct leat_rendezvous *rv, uint32_t rank)
{
	if (rank >= rv->size)
		return false;
	if (rv->how == LEAT_RENDEZVOUS_LIST)
		return rank == rv->rank;
	return rendezvous_peer_arrived(rv, rank);
}

int
leat_rendezvous_get(const struct leat_rendezvous *rv, uint32_t rank, const char *key, void *buf,
		    size_t room)
{
	const struct rendezvous_peer *p;
	struct record_value v;
	uint32_t at = 0;
	size_t len;

	if (rank >= rv->size)
		return leat_err(EINVAL, "rendezvous: get: no rank %" PRIu32 " of %" PRIu32, rank,
				rv->size);
	if (key == NULL || !record_name_ok(key, LEAT_RENDEZVOUS_KEY_MAX))
		return leat_err(EINVAL,
				"rendezvous: get: a key is 1 to %d letters, digits and any of "
				"\"._-\"",
				LEAT_RENDEZVOUS_KEY_MAX - 1);
	p = &rv->peers[rank];
	len = strlen(key);
	while (p->state != NULL && record_state_next(p->state, p->state_len, &at, &v)) {
		if (v.key_len != len || memcmp(v.key, key, len) != 0)
			continue;
		if (v.len > room)
			return leat_err(ENOSPC,
					"rendezvous: get %s of rank %" PRIu32
					": %u B, room for %zu",
					key, rank, v.len, room);
		if (v.len > 0)
			memcpy(buf, v.data, v.len);
		return v.len;
	}
	return leat_err(ENOENT, "rendezvous: get %s: rank %" PRIu32 " has published no such key",
			key, rank);
}
