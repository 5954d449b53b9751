/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A change, from request to answer:
 *
 *     asked -- refused: hash, type, range, group, only at start, held by another session
 *       |
 *       v      one change at a time for each object, in the order of the requests
 *     waiting -- refused: the object was removed
 *       |
 *       v
 *     with the owner -- withdrawn: leat_tune_serve() was not called within TUNE_APPLY_NS
 *       |            -- refused by apply()
 *       v
 *     applied: record, history, log, lease, answer
 *
 * The list of changes is short: each session has at most one change at a time, and each lease has
 * one when it ends, to restore the old values.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tune_pvt.h"

/* Retry interval when a change can't be withdrawn because the owner has begun it. */
#define AGAIN_NS UINT64_C(1000000)

static TAILQ_HEAD(, tune_change) changes = TAILQ_HEAD_INITIALIZER(changes);

static struct tune_change *
change_new(const struct tune_object *o, uint64_t mask, const void *want)
{
	size_t size = o->conf.schema->settings_c_size;
	struct tune_change *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->want = malloc(size);
	if (c->want == NULL) {
		free(c);
		return NULL;
	}
	memcpy(c->want, want, size);
	c->object = o->id;
	c->mask = mask;
	return c;
}

static void
change_end(struct tune_change *c)
{
	TAILQ_REMOVE(&changes, c, next);
	if (c->lease_ends != 0)
		tune_lease_end(c->lease_ends - 1);
	if (c->lease_begins != 0)
		tune_lease_unreserve(c->lease_begins - 1);
	if (c->session != NULL)
		tune_session_resume(c->session);
	free(c->want);
	free(c);
}

static void
change_refuse(struct tune_change *c, const struct tune_object *o, int status, const char *text)
{
	if (c->session != NULL)
		tune_session_answer(c->session, c->request, status, o, c->mask, text);
	else if (c->lease_ends != 0)
		LEAT_LOG(WARNING, tune, "settings of %s could not be put back: %s", c->who, text);
	change_end(c);
}

/* ---- requests ---- */

/* Check that no other session holds a setting of mask. @return 0, or -EBUSY with leat_err() */
static int
check_holder(const struct tune_object *o, const struct tune_session *s, uint64_t mask)
{
	uint64_t left = 0;
	const char *who = tune_lease_holder(o->id, mask, s, tune_now(), &left);

	if (who == NULL)
		return 0;
	if (left == TUNE_LEASE_ENDING)
		return leat_err(EBUSY, "the lease of %s is over, its values go back: try again",
				who);
	if (left > 0)
		return leat_err(EBUSY, "%s holds it for another %.1f s", who, (double)left / 1e9);
	return leat_err(EBUSY, "%s holds it as long as it is connected", who);
}

/* Check a request, with tune_lock held. @return 0, or a negative errno with leat_err() */
static int
check(const struct tune_object *o, const struct tune_session *s, uint64_t hash, uint64_t mask,
      int64_t lease_ns, const void *settings, size_t len, void *want)
{
	const struct leat_tune_schema *schema = o->conf.schema;
	int ret;

	if (hash != schema->hash)
		return leat_err(ESTALE, "%s: the agent's description is of another release",
				schema->name);
	if (mask == 0)
		return leat_err(EINVAL, "no setting was named");
	if (lease_ns < 0)
		return leat_err(EINVAL, "the time of the lease is negative");
	ret = leat_tune_unpack(schema, settings, len, mask, want);
	if (ret == 0)
		ret = leat_tune_check(schema, want, mask, false);
	if (ret == 0)
		ret = check_holder(o, s, mask);
	return ret;
}

void
tune_change_ask(struct tune_session *s, uint64_t hash, int64_t request, uint32_t object,
		uint64_t mask, int64_t lease_ns, const void *settings, size_t len)
{
	struct tune_change *c = NULL;
	struct tune_object *o;
	int ret;

	pthread_mutex_lock(&tune_lock);
	o = tune_object_find(object);
	if (o == NULL) {
		ret = leat_err(ENOENT, "object %u is not there any more", object);
	} else if (o->current == NULL) {
		ret = leat_err(EOPNOTSUPP, "%s.%s has no settings", o->conf.schema->name, o->name);
	} else {
		c = change_new(o, mask, o->current);
		ret = c == NULL ? leat_err(ENOMEM, "no memory")
				: check(o, s, hash, mask, lease_ns, settings, len, c->want);
	}
	pthread_mutex_unlock(&tune_lock);
	if (ret < 0 || c == NULL) {
		tune_session_answer(s, request, ret, NULL, mask, leat_err_msg());
		if (c != NULL)
			free(c->want);
		free(c);
		tune_session_resume(s);
		return;
	}
	c->session = s;
	c->request = request;
	c->lease_ns = lease_ns;
	c->deadline_ns = tune_now() + TUNE_APPLY_NS;
	snprintf(c->why, sizeof(c->why), "%s", lease_ns == 0 ? "set" : "set, lease");
	snprintf(c->who, sizeof(c->who), "%s", tune_session_who(s));
	TAILQ_INSERT_TAIL(&changes, c, next);
}

bool
tune_change_restore(const struct tune_object *o, unsigned int lease, uint64_t mask, const void *old,
		    const char *why, const char *who)
{
	struct tune_change *c = change_new(o, mask, old);

	if (c == NULL)
		return false;
	c->deadline_ns = UINT64_MAX;
	c->lease_ends = lease + 1;
	snprintf(c->why, sizeof(c->why), "%s", why);
	snprintf(c->who, sizeof(c->who), "%s", who);
	TAILQ_INSERT_TAIL(&changes, c, next);
	return true;
}

void
tune_change_forget(const struct tune_session *s)
{
	struct tune_change *c;

	TAILQ_FOREACH(c, &changes, next) {
		if (c->session == s)
			c->session = NULL;
	}
}

/* ---- from hand-over to answer; with tune_lock held ---- */

static void
change_hand_over(struct tune_change *c, struct tune_object *o)
{
	const struct leat_tune_schema *schema = o->conf.schema;

	memcpy(o->change_want, o->current, schema->settings_c_size);
	tune_fields_copy(schema, c->mask, o->change_want, c->want);
	o->change = c;
	o->change_mask = c->mask;
	tune_object_apply(o);
}

/*
 * Check again, right before the hand-over, that no other session holds these settings: since the
 * request, another session may have taken a lease on them. Then reserve a lease, if the request
 * asks for one. @return 0, or a negative errno with leat_err()
 */
static int
change_ready(struct tune_change *c, const struct tune_object *o)
{
	int ret = c->session != NULL ? check_holder(o, c->session, c->mask) : 0;

	if (ret < 0 || c->lease_ns == 0)
		return ret;
	if (c->session == NULL)
		return leat_err(ECANCELED, "its session has ended");
	c->lease_begins = tune_lease_reserve(o, c->session);
	return c->lease_begins != 0 ? 0
				    : leat_err(ENOSPC, "there are %u leases already", TUNE_LEASES);
}

static void
change_applied(struct tune_change *c, struct tune_object *o)
{
	void *old = o->current;

	/* This comes first, so that the history names the program as author of its own changes. */
	tune_report_program_changed(o);
	o->current = o->change_want;
	o->change_want = old;
	tune_report_settings(o, c->why, c->who);
	/* If the session has ended meanwhile, tune_lease_run() restores the values at once. */
	if (c->lease_begins != 0)
		tune_lease_take(c->lease_begins - 1, o, c->mask, old, c->lease_ns, tune_now());
	else if (c->session != NULL)
		tune_lease_keep(o->id, c->session, c->mask);
	c->lease_begins = 0;
	if (c->session != NULL)
		tune_session_answer(c->session, c->request, 0, o, c->mask, "");
}

static void
change_done(struct tune_change *c, struct tune_object *o)
{
	o->change = NULL;
	if (o->change_status < 0) {
		change_refuse(c, o, o->change_status, o->change_text);
		return;
	}
	change_applied(c, o);
	change_end(c);
}

/* Wait for the owner, or withdraw the change. @return time of the next check, ns */
static uint64_t
change_wait(struct tune_change *c, struct tune_object *o, uint64_t now)
{
	if (now < c->deadline_ns)
		return c->deadline_ns;
	/* The owner has begun the change, and wakes the control thread when it has made it. */
	if (!tune_object_withdraw(o))
		return now + AGAIN_NS;
	o->change = NULL;
	change_refuse(
		c, o, -ETIMEDOUT,
		"its loop did not apply it within 2 s: the loop hangs or does not run; withdrawn");
	return UINT64_MAX;
}

static uint64_t
change_step(struct tune_change *c, uint64_t now)
{
	struct tune_object *o = tune_object_find(c->object);

	if (o == NULL) {
		change_refuse(c, NULL, -ENOENT, "the object was removed meanwhile");
		return UINT64_MAX;
	}
	if (o->change == NULL) {
		int ret = change_ready(c, o);

		if (ret < 0) {
			change_refuse(c, o, ret, leat_err_msg());
			return UINT64_MAX;
		}
		change_hand_over(c, o);
	}
	if (o->change == c && tune_object_applied(o)) {
		change_done(c, o);
		/* The next change of the object may begin. */
		return now;
	}
	if (o->change == c)
		return change_wait(c, o, now);
	if (now < c->deadline_ns)
		return c->deadline_ns;
	change_refuse(c, o, -ETIMEDOUT, "an earlier change waits for the object's loop; withdrawn");
	return UINT64_MAX;
}

uint64_t
tune_change_run(uint64_t now)
{
	struct tune_change *c, *next;
	uint64_t due = UINT64_MAX;

	for (c = TAILQ_FIRST(&changes); c != NULL; c = next) {
		next = TAILQ_NEXT(c, next);
		pthread_mutex_lock(&tune_lock);
		due = RTE_MIN(due, change_step(c, now));
		pthread_mutex_unlock(&tune_lock);
	}
	return due;
}

void
tune_change_free_all(void)
{
	struct tune_change *c;

	while ((c = TAILQ_FIRST(&changes)) != NULL) {
		TAILQ_REMOVE(&changes, c, next);
		free(c->want);
		free(c);
	}
}
