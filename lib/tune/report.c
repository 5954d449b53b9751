/* SPDX-License-Identifier: BSD-3-Clause */

/* Updates of records: reports of objects and rows; records of added and removed objects. */

#include <stdlib.h>
#include <string.h>

#include "tune_pvt.h"

/* Highest row number of an object, plus 1. */
#define ROW_PLACES_MAX 65536U
/*
 * Shortest interval between updates of rows: thousands of rows take milliseconds, during which an
 * owner may wait for the lock.
 */
#define ROWS_NS UINT64_C(50000000)

static uint64_t rows_due;

/* ---- rows; with tune_lock held ---- */

static struct tune_row *
row_at(struct tune_object *o, uint32_t i)
{
	uint32_t size = o->nb_rows == 0 ? 16 : o->nb_rows;
	struct tune_row *rows;

	if (i < o->nb_rows)
		return &o->rows[i];
	while (size <= i)
		size *= 2;
	rows = realloc(o->rows, size * sizeof(*rows));
	if (rows == NULL)
		return NULL;
	memset(rows + o->nb_rows, 0, (size - o->nb_rows) * sizeof(*rows));
	o->rows = rows;
	o->nb_rows = size;
	return &rows[i];
}

static void
row_write(struct tune_object *o, uint32_t i, const struct leat_tune_row *row, uint64_t now)
{
	const struct tune_record_conf conf = {
		.schema = o->conf.row_schema,
		.name = row->name,
		.id = i + 1,
		.parent = o->id,
		.flags = TUNE_RECORD_ROW,
		.report = true,
	};
	struct tune_row *place = row_at(o, i);

	if (place == NULL || (place->record == 0 && !tune_record_create(place, &conf)))
		return;
	tune_record_name(place->record, row->name);
	tune_record_report(place->record, o->conf.row_schema, row->report, now);
}

static void
rows_free_from(struct tune_object *o, uint32_t i)
{
	for (; i < o->nb_rows; i++)
		tune_record_destroy(&o->rows[i]);
}

static void
rows_write(struct tune_object *o, uint64_t now)
{
	struct leat_tune_row row = { .report = malloc(o->conf.row_schema->reports_c_size) };
	uint32_t i, nb = 0;
	int ret;

	for (i = 0; row.report != NULL && i < ROW_PLACES_MAX && nb < TUNE_ROWS_MAX; i++) {
		memset(row.report, 0, o->conf.row_schema->reports_c_size);
		row.name[0] = '\0';
		ret = o->conf.row(o->conf.arg, i, &row);
		if (ret < 0)
			break;
		if (ret > 0) {
			row_write(o, i, &row, now);
			nb++;
		} else if (i < o->nb_rows) {
			tune_record_destroy(&o->rows[i]);
		}
	}
	rows_free_from(o, i);
	free(row.report);
}

/* ---- objects ---- */

/* All changed settings go into the history, also those that only apply() has changed. */
void
tune_report_settings(struct tune_object *o, const char *why, const char *who)
{
	const struct leat_tune_schema *schema = o->conf.schema;
	struct tune_history h = {
		.o = o, .from = o->shown, .to = o->current, .why = why, .who = who
	};

	o->epoch++;
	if (o->record != 0)
		tune_record_settings(o->record, schema, o->current, o->epoch);
	for (h.setting = 0; h.setting < schema->nb_settings; h.setting++) {
		const struct leat_tune_field *f = &schema->settings[h.setting];

		if (memcmp((const uint8_t *)o->shown + f->c_offset,
			   (const uint8_t *)o->current + f->c_offset, f->c_size) != 0)
			tune_record_change(&h);
	}
	memcpy(o->shown, o->current, schema->settings_c_size);
}

void
tune_report_program_changed(struct tune_object *o)
{
	if (!o->program_changed)
		return;
	o->program_changed = false;
	tune_report_settings(o, "program", "program");
}

static void
fresh_create(struct tune_object *o)
{
	const struct tune_record_conf conf = {
		.schema = o->conf.schema,
		.name = o->name,
		.id = o->id,
		.flags = o->conf.report_on_owner ? TUNE_RECORD_OWNER : 0,
		.settings = o->current != NULL,
		.report = o->report != NULL,
	};
	struct tune_row place;

	if (!tune_record_create(&place, &conf))
		return;
	o->record = place.record;
	o->slot = place.slot;
	if (o->current == NULL)
		return;
	o->program_changed = false;
	memcpy(o->shown, o->current, o->conf.schema->settings_c_size);
	tune_record_settings(o->record, o->conf.schema, o->current, o->epoch);
}

static void
removed_free(struct tune_removed *g)
{
	uint32_t i;

	for (i = 0; i < g->nb_rows; i++)
		tune_record_destroy(&g->rows[i]);
	tune_record_destroy(&g->record);
	free(g->rows);
	free(g);
}

/* Take the lock anew for each object: many may have been added or removed at once. */
void
tune_report_registry(void)
{
	struct tune_object *o;
	struct tune_removed *g;

	do {
		pthread_mutex_lock(&tune_lock);
		g = tune_objects.removed;
		if (g != NULL)
			tune_objects.removed = g->next;
		pthread_mutex_unlock(&tune_lock);
		if (g != NULL)
			removed_free(g);
	} while (g != NULL);
	do {
		pthread_mutex_lock(&tune_lock);
		o = TAILQ_FIRST(&tune_objects.fresh);
		if (o != NULL) {
			TAILQ_REMOVE(&tune_objects.fresh, o, fresh);
			o->is_fresh = false;
			fresh_create(o);
		}
		pthread_mutex_unlock(&tune_lock);
	} while (o != NULL);
}

static void
write_report(struct tune_object *o)
{
	const struct leat_tune_schema *schema = o->conf.schema;
	const struct tune_block_record *r = tune_block_at(o->record);

	tune_record_report(o->record, schema, o->report, o->reported_ns);
	tune_session_sample(o, (const uint8_t *)r + r->report);
}

/* Update the record of an object and of its rows, with tune_lock held. */
static void
report_one(struct tune_object *o, const struct tune_watch *watch, uint64_t now)
{
	if (o->record == 0)
		return;
	tune_report_program_changed(o);
	if (o->report != NULL) {
		if (!o->report_asked) {
			tune_object_report_ask(o);
		}
		if (tune_object_reported(o)) {
			write_report(o);
			o->report_asked = false;
			if (o->conf.report_on_owner)
				tune_object_report_ask(o);
		}
	}
	if (!watch->rows && o->nb_rows > 0)
		rows_free_from(o, 0);
	else if (watch->rows && o->conf.row != NULL && now >= rows_due)
		rows_write(o, now);
}

void
tune_report_all(const struct tune_watch *watch, uint64_t now)
{
	uint32_t i, size;

	pthread_mutex_lock(&tune_lock);
	size = tune_objects.size;
	pthread_mutex_unlock(&tune_lock);
	for (i = 0; i < size; i++) {
		pthread_mutex_lock(&tune_lock);
		if (i < tune_objects.size && tune_objects.table[i] != NULL)
			report_one(tune_objects.table[i], watch, now);
		pthread_mutex_unlock(&tune_lock);
	}
	/* While no agent asks for rows they stay due: the first request is served at once. */
	if (!watch->rows)
		rows_due = now;
	else if (now >= rows_due)
		rows_due = now + ROWS_NS;
}
