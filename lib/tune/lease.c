/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Leases: a session holds settings of one object, and the lease stores the values that they had
 * before. A session has at most one lease per object. A lease ends for one of these reasons:
 *
 *     its time is over        the old values are restored
 *     the session ends        the same: the agent left, died, or was killed
 *     release                 the same
 *     release with keep       the new values stay
 *     the object is removed   nothing is restored
 *     leat_tune_stop()        the new values stay: owners may serve no changes any more
 *
 * Restoring values is a change like any other: on the owner's thread, logged, in the history.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tune_pvt.h"

/* Retry interval when there was no memory for the change that restores the values. */
#define RETRY_NS UINT64_C(10000000)

struct lease {
	uint32_t object;		    /* id of the object; 0: free entry */
	const struct tune_session *session; /* NULL: it has ended, or released the lease */
	uint32_t number;		    /* number of the session */
	uint64_t mask;
	uint64_t expires_ns; /* 0: the lease ends with the session */
	void *old;	     /* settings before the lease */
	bool taking;	     /* reserved for a change of the holder that is under way */
	bool ending;	     /* the change that restores the values is under way */
	char why[16];
	char who[TUNE_WHO_MAX];
};

static struct lease leases[TUNE_LEASES];
static uint64_t removed_seen; /* tune_objects.nb_removed when leases were last checked */

static void
show(const struct lease *l)
{
	tune_record_lease((unsigned int)(l - leases), l->object, l->number, l->mask, l->expires_ns,
			  l->who);
}

void
tune_lease_end(unsigned int lease)
{
	struct lease *l = &leases[lease];

	free(l->old);
	memset(l, 0, sizeof(*l));
	show(l);
}

const char *
tune_lease_holder(uint32_t object, uint64_t mask, const struct tune_session *s, uint64_t now,
		  uint64_t *left_ns)
{
	const struct lease *l;

	for (l = leases; l < leases + TUNE_LEASES; l++) {
		if (l->object != object || (l->mask & mask) == 0 || (l->session == s && !l->ending))
			continue;
		if (l->session == NULL || l->ending)
			*left_ns = TUNE_LEASE_ENDING;
		else
			*left_ns = l->expires_ns > now ? l->expires_ns - now : 0;
		return l->who;
	}
	return NULL;
}

static struct lease *
lease_of(uint32_t object, const struct tune_session *s)
{
	struct lease *l;

	for (l = leases; l < leases + TUNE_LEASES; l++) {
		if (l->object == object && l->session == s && !l->ending)
			return l;
	}
	return NULL;
}

static struct lease *
lease_free_place(void)
{
	struct lease *l;

	for (l = leases; l < leases + TUNE_LEASES; l++) {
		if (l->object == 0)
			return l;
	}
	return NULL;
}

/* Add settings to a lease. For those that the lease has already, the stored old values stay. */
static void
remember(struct lease *l, const struct leat_tune_schema *schema, uint64_t mask, const void *old)
{
	tune_fields_copy(schema, mask & ~l->mask, l->old, old);
	l->mask |= mask;
}

static void
lease_drop(struct lease *l, uint64_t mask)
{
	l->mask &= ~mask;
	if (l->mask == 0)
		tune_lease_end((unsigned int)(l - leases));
	else
		show(l);
}

/* The entry is reserved before the change is made, so that the old values can be restored. */
unsigned int
tune_lease_reserve(const struct tune_object *o, const struct tune_session *s)
{
	size_t size = o->conf.schema->settings_c_size;
	struct lease *l = lease_of(o->id, s);

	if (l == NULL) {
		l = lease_free_place();
		if (l == NULL)
			return 0;
		l->old = malloc(size);
		if (l->old == NULL)
			return 0;
		memcpy(l->old, o->current, size);
		l->object = o->id;
		l->session = s;
		l->number = tune_session_number(s);
		snprintf(l->who, sizeof(l->who), "%s", tune_session_who(s));
	}
	l->taking = true;
	return (unsigned int)(l - leases) + 1;
}

void
tune_lease_take(unsigned int lease, const struct tune_object *o, uint64_t mask, const void *old,
		int64_t lease_ns, uint64_t now)
{
	struct lease *l = &leases[lease];

	l->taking = false;
	remember(l, o->conf.schema, mask, old);
	l->expires_ns = lease_ns == TUNE_LEASE_SESSION ? 0 : now + (uint64_t)lease_ns;
	show(l);
}

void
tune_lease_unreserve(unsigned int lease)
{
	struct lease *l = &leases[lease];

	l->taking = false;
	/* end_removed() passes over a reserved lease. */
	if (l->mask == 0 || tune_object_find(l->object) == NULL)
		tune_lease_end(lease);
}

void
tune_lease_keep(uint32_t object, const struct tune_session *s, uint64_t mask)
{
	struct lease *l = lease_of(object, s);

	if (l != NULL)
		lease_drop(l, mask);
}

void
tune_lease_release(const struct tune_session *s, uint32_t object, bool keep, const char *why)
{
	struct lease *l;

	for (l = leases; l < leases + TUNE_LEASES; l++) {
		if (l->object == 0 || l->session != s || (object != 0 && l->object != object))
			continue;
		if (keep && !l->ending) {
			tune_lease_end((unsigned int)(l - leases));
			continue;
		}
		/* tune_lease_run() restores the values. */
		l->session = NULL;
		if (l->why[0] == '\0')
			snprintf(l->why, sizeof(l->why), "%s", why);
	}
}

/* Begin to restore the values of a lease. @return false: no memory, so the caller tries again */
static bool
lease_restore(struct lease *l)
{
	unsigned int place = (unsigned int)(l - leases);
	const struct tune_object *o;
	bool ok = true;

	pthread_mutex_lock(&tune_lock);
	o = tune_object_find(l->object);
	if (o != NULL)
		ok = tune_change_restore(o, place, l->mask, l->old, l->why, l->who);
	pthread_mutex_unlock(&tune_lock);
	if (o == NULL)
		tune_lease_end(place);
	else
		l->ending = ok;
	return ok;
}

/* End the leases of removed objects. If a change is under way for a lease, its refusal ends it. */
static void
end_removed(void)
{
	uint64_t nb_removed;
	struct lease *l;
	bool gone;

	pthread_mutex_lock(&tune_lock);
	nb_removed = tune_objects.nb_removed;
	pthread_mutex_unlock(&tune_lock);
	if (nb_removed == removed_seen)
		return;
	removed_seen = nb_removed;
	for (l = leases; l < leases + TUNE_LEASES; l++) {
		if (l->object == 0 || l->taking || l->ending)
			continue;
		pthread_mutex_lock(&tune_lock);
		gone = tune_object_find(l->object) == NULL;
		pthread_mutex_unlock(&tune_lock);
		if (gone)
			tune_lease_end((unsigned int)(l - leases));
	}
}

uint64_t
tune_lease_run(uint64_t now)
{
	uint64_t due = UINT64_MAX;
	struct lease *l;

	end_removed();
	for (l = leases; l < leases + TUNE_LEASES; l++) {
		if (l->object == 0 || l->taking || l->ending)
			continue;
		if (l->session != NULL && (l->expires_ns == 0 || now < l->expires_ns)) {
			if (l->expires_ns != 0)
				due = RTE_MIN(due, l->expires_ns);
			continue;
		}
		if (l->why[0] == '\0')
			snprintf(l->why, sizeof(l->why), "%s", "lease over");
		if (!lease_restore(l))
			due = RTE_MIN(due, now + RETRY_NS);
	}
	return due;
}

void
tune_lease_free_all(void)
{
	unsigned int i;

	for (i = 0; i < TUNE_LEASES; i++) {
		free(leases[i].old);
		memset(&leases[i], 0, sizeof(leases[i]));
	}
}
