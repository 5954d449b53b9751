/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Objects, and the hand-over between the control thread and an object's owner:
 *
 *     control thread                        owner
 *     change_want, change_mask
 *     pending |= APPLY   (release)   -->    pending -> 0   (acquire)
 *                                           apply(), .settings, change_status
 *     change_done        (acquire)   <--    change_done = 1   (release), wake the control thread
 *
 * Reports go the same way, without a wake: the control thread looks for them at its next update.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tune_pvt.h"

pthread_mutex_t tune_lock = PTHREAD_MUTEX_INITIALIZER;
struct tune_objects tune_objects = {
	.fresh = TAILQ_HEAD_INITIALIZER(tune_objects.fresh),
};

static uint64_t
clock_ns(clockid_t clock)
{
	struct timespec ts;

	(void)clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t
tune_now(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t
tune_real(void)
{
	return clock_ns(CLOCK_REALTIME);
}

void
tune_fields_copy(const struct leat_tune_schema *schema, uint64_t mask, void *to, const void *from)
{
	uint32_t i;

	for (i = 0; i < schema->nb_settings; i++) {
		const struct leat_tune_field *f = &schema->settings[i];

		if ((mask & (UINT64_C(1) << i)) != 0)
			memcpy((uint8_t *)to + f->c_offset, (const uint8_t *)from + f->c_offset,
			       f->c_size);
	}
}

static void
object_free(struct tune_object *o)
{
	free(o->current);
	free(o->shown);
	free(o->change_want);
	free(o->report);
	free(o->rows);
	free(o);
}

/* ---- names and table entries; with tune_lock held ---- */

struct tune_object *
tune_object_find(uint32_t id)
{
	uint32_t i;

	for (i = 0; i < tune_objects.size; i++) {
		struct tune_object *o = tune_objects.table[i];

		if (o != NULL && o->id == id && o->live)
			return o;
	}
	return NULL;
}

void
tune_object_path(const struct tune_object *o, char *path, size_t len)
{
	snprintf(path, len, "%s.%s", o->conf.schema->name, o->name);
}

static bool
name_taken(const struct leat_tune_schema *schema, const char *name)
{
	uint32_t i;

	for (i = 0; i < tune_objects.size; i++) {
		const struct tune_object *o = tune_objects.table[i];

		if (o != NULL && o->conf.schema == schema && strcmp(o->name, name) == 0)
			return true;
	}
	return false;
}

/* Copy a name; characters with a meaning in settings files, globs or JSON become '_'. */
static void
name_copy(char *to, size_t size, const char *from)
{
	size_t i;

	for (i = 0; i < size - 1 && from[i] != '\0'; i++) {
		char c = from[i];

		to[i] = c <= ' ' || c > '~' || strchr("\"\\*?[]=#,", c) != NULL ? '_' : c;
	}
	to[i] = '\0';
}

static void
name_unique(struct tune_object *o, const char *name)
{
	char base[LEAT_TUNE_OBJECT_NAME_MAX - 12];
	unsigned int i;

	name_copy(o->name, sizeof(o->name), name);
	if (!name_taken(o->conf.schema, o->name))
		return;
	name_copy(base, sizeof(base), name);
	for (i = 2; i != 0; i++) {
		snprintf(o->name, sizeof(o->name), "%s+%u", base, i);
		if (!name_taken(o->conf.schema, o->name))
			return;
	}
}

static int
table_insert(struct tune_object *o)
{
	struct tune_objects *all = &tune_objects;
	uint32_t i, size = all->size == 0 ? 64 : all->size * 2;
	struct tune_object **table;

	for (i = all->hint; i < all->size && all->table[i] != NULL; i++)
		;
	if (i == all->size) {
		table = realloc(all->table, size * sizeof(*table));
		if (table == NULL)
			return -ENOMEM;
		memset(table + all->size, 0, (size - all->size) * sizeof(*table));
		all->table = table;
		all->size = size;
	}
	all->table[i] = o;
	all->hint = i + 1;
	o->place = i;
	/* Id 0 is not used. Ids wrap around after 2^32 objects. */
	do
		o->id = ++all->next_id;
	while (o->id == 0);
	return 0;
}

/* ---- add, remove and serve: on the owner's thread ---- */

static struct tune_object *
object_alloc(const struct leat_tune_conf *conf)
{
	const struct leat_tune_schema *schema = conf->schema;
	struct tune_object *o = calloc(1, sizeof(*o));
	size_t settings = schema->settings_c_size, report = schema->reports_c_size;

	if (o == NULL)
		return NULL;
	o->conf = *conf;
	o->conf.name = NULL;
	if (conf->settings != NULL && settings > 0) {
		o->current = malloc(settings);
		o->shown = malloc(settings);
		o->change_want = malloc(settings);
		if (o->current == NULL || o->shown == NULL || o->change_want == NULL)
			goto fail;
	}
	if (conf->report != NULL && report > 0) {
		o->report = calloc(1, report);
		if (o->report == NULL)
			goto fail;
	}
	return o;
fail:
	object_free(o);
	return NULL;
}

/* Replace settings of the program by those of the settings file. */
static int
apply_file(struct tune_object *o)
{
	const struct leat_tune_schema *schema = o->conf.schema;
	char why[LEAT_ERR_MSG_MAX + 1];
	uint64_t mask;
	int ret = 0;

	if (o->current == NULL)
		return 0;
	memcpy(o->current, o->conf.settings, schema->settings_c_size);
	mask = tune_file_apply(schema, o->name, o->current, &ret);
	if (ret < 0 || mask == 0)
		return ret;
	if (o->conf.apply != NULL) {
		ret = o->conf.apply(o->conf.arg, o->current, mask);
		if (ret < 0) {
			snprintf(why, sizeof(why), "%s", leat_err_msg());
			return leat_err(-ret, "settings file: %s.%s: %s", schema->name, o->name,
					why);
		}
	}
	memcpy(o->conf.settings, o->current, schema->settings_c_size);
	return 0;
}

struct leat_tune_object *
leat_tune_add(const struct leat_tune_conf *conf)
{
	struct tune_object *o;
	int ret;

	if (conf == NULL || conf->schema == NULL || conf->name == NULL || conf->name[0] == '\0' ||
	    (conf->row != NULL && conf->row_schema == NULL)) {
		leat_err(EINVAL, "tune: an object without a schema or a name");
		return NULL;
	}
	o = object_alloc(conf);
	if (o == NULL) {
		leat_err(ENOMEM, "tune: no memory for %s.%s", conf->schema->name, conf->name);
		return NULL;
	}
	pthread_mutex_lock(&tune_lock);
	name_unique(o, conf->name);
	ret = table_insert(o);
	pthread_mutex_unlock(&tune_lock);
	if (ret < 0) {
		leat_err(ENOMEM, "tune: no memory for %s.%s", conf->schema->name, conf->name);
		object_free(o);
		return NULL;
	}
	/* apply() runs without the lock: the control thread ignores objects that are not live. */
	ret = apply_file(o);
	pthread_mutex_lock(&tune_lock);
	if (ret < 0) {
		tune_objects.table[o->place] = NULL;
		tune_objects.hint = RTE_MIN(tune_objects.hint, o->place);
	} else {
		if (o->current != NULL)
			memcpy(o->shown, o->current, conf->schema->settings_c_size);
		TAILQ_INSERT_TAIL(&tune_objects.fresh, o, fresh);
		o->is_fresh = true;
		o->live = true;
	}
	pthread_mutex_unlock(&tune_lock);
	if (ret < 0) {
		object_free(o);
		return NULL;
	}
	tune_control_wake();
	return &o->pub;
}

/* Detach the records of an object. The control thread frees them, as it alone writes the block. */
static struct tune_removed *
records_detach(struct tune_object *o)
{
	struct tune_removed *g = o->record != 0 ? calloc(1, sizeof(*g)) : NULL;

	/* If there is no memory the record stays in the block, and is not updated any more. */
	if (g == NULL)
		return NULL;
	g->id = o->id;
	g->record = (struct tune_row){ .record = o->record, .slot = o->slot };
	g->rows = o->rows;
	g->nb_rows = o->nb_rows;
	o->rows = NULL;
	return g;
}

void
leat_tune_del(struct leat_tune_object *object)
{
	struct tune_object *o = container_of(object, struct tune_object, pub);
	struct tune_removed *g;

	if (object == NULL)
		return;
	pthread_mutex_lock(&tune_lock);
	tune_objects.table[o->place] = NULL;
	tune_objects.hint = RTE_MIN(tune_objects.hint, o->place);
	tune_objects.nb_removed++;
	if (o->is_fresh)
		TAILQ_REMOVE(&tune_objects.fresh, o, fresh);
	g = records_detach(o);
	if (g != NULL) {
		g->next = tune_objects.removed;
		tune_objects.removed = g;
	}
	pthread_mutex_unlock(&tune_lock);
	object_free(o);
	tune_control_wake();
}

uint32_t
leat_tune_id(const struct leat_tune_object *object)
{
	return container_of(object, const struct tune_object, pub)->id;
}

void
leat_tune_changed(struct leat_tune_object *object)
{
	struct tune_object *o = container_of(object, struct tune_object, pub);
	const size_t size = o->conf.schema->settings_c_size;

	if (o->conf.settings == NULL)
		return;
	pthread_mutex_lock(&tune_lock);
	if (memcmp(o->current, o->conf.settings, size) != 0) {
		memcpy(o->current, o->conf.settings, size);
		o->program_changed = true;
	}
	pthread_mutex_unlock(&tune_lock);
	tune_control_wake();
}

static void
apply_here(struct tune_object *o)
{
	int ret = 0;

	/* Other settings may have changed since the hand-over: see leat_tune_changed(). */
	tune_fields_copy(o->conf.schema, ~o->change_mask, o->change_want, o->conf.settings);
	if (o->conf.apply != NULL)
		ret = o->conf.apply(o->conf.arg, o->change_want, o->change_mask);
	if (ret < 0)
		snprintf(o->change_text, sizeof(o->change_text), "%s", leat_err_msg());
	else
		memcpy(o->conf.settings, o->change_want, o->conf.schema->settings_c_size);
	o->change_status = RTE_MIN(ret, 0);
	/* Pairs with tune_object_applied(). */
	__atomic_store_n(&o->change_done, 1, __ATOMIC_RELEASE);
}

static void
report_here(struct tune_object *o)
{
	memset(o->report, 0, o->conf.schema->reports_c_size);
	o->conf.report(o->conf.arg, o->report);
	o->reported_ns = tune_now();
	/* Pairs with tune_object_reported(). */
	__atomic_store_n(&o->report_done, 1, __ATOMIC_RELEASE);
}

void
leat_tune_serve_now(struct leat_tune_object *object)
{
	struct tune_object *o = container_of(object, struct tune_object, pub);
	/* Acquire: pairs with hand_over(). */
	uint32_t pending = __atomic_exchange_n(&o->pub.pending, 0, __ATOMIC_ACQUIRE);

	if (pending & TUNE_PENDING_APPLY) {
		apply_here(o);
		tune_control_wake();
	}
	if (pending & TUNE_PENDING_REPORT)
		report_here(o);
}

/* ---- hand-over: on the control thread, with tune_lock held ---- */

static void
hand_over(struct tune_object *o, uint32_t what)
{
	/* Release: pairs with leat_tune_serve_now(). */
	(void)__atomic_fetch_or(&o->pub.pending, what, __ATOMIC_RELEASE);
	if (o->conf.kick != NULL)
		o->conf.kick(o->conf.arg);
}

void
tune_object_apply(struct tune_object *o)
{
	__atomic_store_n(&o->change_done, 0, __ATOMIC_RELAXED);
	o->change_text[0] = '\0';
	if (o->conf.ownerless)
		apply_here(o);
	else
		hand_over(o, TUNE_PENDING_APPLY);
}

bool
tune_object_withdraw(struct tune_object *o)
{
	uint32_t was = __atomic_fetch_and(&o->pub.pending, ~TUNE_PENDING_APPLY, __ATOMIC_RELAXED);

	return (was & TUNE_PENDING_APPLY) != 0;
}

bool
tune_object_applied(const struct tune_object *o)
{
	return __atomic_load_n(&o->change_done, __ATOMIC_ACQUIRE) != 0;
}

void
tune_object_report_ask(struct tune_object *o)
{
	__atomic_store_n(&o->report_done, 0, __ATOMIC_RELAXED);
	if (!o->conf.report_on_owner) {
		report_here(o);
		return;
	}
	o->report_asked = true;
	/* No kick: a sleeping loop has no new measurements. */
	(void)__atomic_fetch_or(&o->pub.pending, TUNE_PENDING_REPORT, __ATOMIC_RELEASE);
}

bool
tune_object_reported(const struct tune_object *o)
{
	return __atomic_load_n(&o->report_done, __ATOMIC_ACQUIRE) != 0;
}
