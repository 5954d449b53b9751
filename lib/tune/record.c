/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Contents of the file of measurements, the "block": records, history, leases. The control thread
 * is the only writer, so a sequence number per record is enough to make reads consistent. The
 * number is odd while the record is written:
 *
 *     seq odd; fence; fields; fence; seq even
 */

#include <stdio.h>
#include <string.h>

#include "tune_pvt.h"

#define LOG_PER_SECOND 20U

static void
begin(uint64_t *seq)
{
	__atomic_store_n(seq, *seq + 1, __ATOMIC_RELAXED);
	/* Pairs with the reader's second load of seq: no field is written before seq is odd. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

static void
end(uint64_t *seq)
{
	/* Release: all fields are written before seq is even. */
	__atomic_store_n(seq, *seq + 1, __ATOMIC_RELEASE);
}

static uint32_t
slot_take(void)
{
	static uint32_t next;
	struct tune_block_slot *slots = tune_block_at(tune_block_head()->slot_offset);
	uint32_t i;

	for (i = 0; i < TUNE_SLOTS; i++) {
		uint32_t slot = (next + i) % TUNE_SLOTS;

		if (slots[slot].offset == 0) {
			next = slot + 1;
			return slot;
		}
	}
	return UINT32_MAX;
}

static void
count_dropped(void)
{
	struct tune_block_head *h = tune_block_head();

	__atomic_store_n(&h->dropped, h->dropped + 1, __ATOMIC_RELAXED);
}

bool
tune_record_create(struct tune_row *place, const struct tune_record_conf *conf)
{
	const struct leat_tune_schema *schema = conf->schema;
	struct tune_block_slot *slots = tune_block_at(tune_block_head()->slot_offset);
	uint32_t settings = conf->settings ? schema->settings_size : 0;
	uint32_t report = conf->report ? schema->reports_size : 0;
	uint32_t size = (uint32_t)sizeof(struct tune_block_record) + settings + report;
	uint32_t text = tune_block_schema(schema), slot = slot_take();
	struct tune_block_record *r;

	place->record = text == 0 || slot == UINT32_MAX ? 0 : tune_block_alloc(size);
	if (place->record == 0) {
		count_dropped();
		return false;
	}
	place->slot = slot;
	r = tune_block_at(place->record);
	/*
	 * Begin with a sequence number that this memory never had: an agent may still be reading
	 * the record that was here before.
	 */
	r->seq = tune_now() * 2;
	begin(&r->seq);
	r->id = conf->id;
	r->parent = conf->parent;
	r->schema = text;
	r->flags = conf->flags;
	r->hash = schema->hash;
	r->created_ns = tune_now();
	r->settings = sizeof(*r);
	r->settings_size = settings;
	r->report = r->settings + settings;
	r->report_size = report;
	snprintf(r->name, sizeof(r->name), "%s", conf->name);
	end(&r->seq);
	slots[slot].size = size;
	slots[slot].id = conf->id;
	__atomic_store_n(&slots[slot].offset, place->record, __ATOMIC_RELEASE);
	return true;
}

void
tune_record_destroy(struct tune_row *place)
{
	struct tune_block_slot *slots = tune_block_at(tune_block_head()->slot_offset);
	struct tune_block_record *r;

	if (place->record == 0)
		return;
	r = tune_block_at(place->record);
	__atomic_store_n(&slots[place->slot].offset, 0, __ATOMIC_RELAXED);
	/* An agent that is reading the record sees seq change, or id 0. */
	begin(&r->seq);
	r->id = 0;
	end(&r->seq);
	tune_block_free(place->record, slots[place->slot].size);
	place->record = 0;
}

void
tune_record_settings(uint32_t record, const struct leat_tune_schema *schema, const void *settings,
		     uint64_t epoch)
{
	struct tune_block_record *r = tune_block_at(record);

	begin(&r->seq);
	leat_tune_pack(schema, true, settings, (uint8_t *)r + r->settings);
	r->epoch = epoch;
	end(&r->seq);
}

void
tune_record_report(uint32_t record, const struct leat_tune_schema *schema, const void *report,
		   uint64_t time_ns)
{
	struct tune_block_record *r = tune_block_at(record);

	begin(&r->seq);
	leat_tune_pack(schema, false, report, (uint8_t *)r + r->report);
	r->time_ns = time_ns;
	r->updates++;
	end(&r->seq);
}

void
tune_record_name(uint32_t record, const char *name)
{
	struct tune_block_record *r = tune_block_at(record);

	if (strncmp(r->name, name, sizeof(r->name)) == 0)
		return;
	begin(&r->seq);
	snprintf(r->name, sizeof(r->name), "%s", name);
	end(&r->seq);
}

/*
 * Log a change, up to LOG_PER_SECOND: an agent may make thousands of changes per second. The
 * history also has the changes that are not logged.
 */
static void
log_change(const struct tune_block_change *c)
{
	static uint64_t window_ns;
	static unsigned int lines, left_out;
	uint64_t now = tune_now();

	if (now - window_ns >= NS_PER_S) {
		if (left_out > 0)
			LEAT_LOG(INFO, tune, "%u more changes; see leat-tune history", left_out);
		window_ns = now;
		lines = 0;
		left_out = 0;
	}
	if (lines++ < LOG_PER_SECOND)
		LEAT_LOG(INFO, tune, "%s.%s: %s -> %s (%s, %s)", c->object, c->name, c->from, c->to,
			 c->why, c->who);
	else
		left_out++;
}

void
tune_record_change(const struct tune_history *h)
{
	const struct leat_tune_schema *schema = h->o->conf.schema;
	struct tune_block_head *head = tune_block_head();
	struct tune_block_change *all = tune_block_at(head->change_offset), *c;
	uint64_t number = head->nb_changes + 1;

	c = &all[(number - 1) % TUNE_HISTORY];
	begin(&c->seq);
	c->number = number;
	c->real_ns = tune_real();
	c->epoch = h->o->epoch;
	c->id = h->o->id;
	c->setting = h->setting;
	snprintf(c->why, sizeof(c->why), "%s", h->why);
	snprintf(c->who, sizeof(c->who), "%s", h->who);
	tune_object_path(h->o, c->object, sizeof(c->object));
	snprintf(c->name, sizeof(c->name), "%s", schema->settings[h->setting].name);
	(void)leat_tune_format(schema, h->setting, h->from, c->from, sizeof(c->from));
	(void)leat_tune_format(schema, h->setting, h->to, c->to, sizeof(c->to));
	end(&c->seq);
	__atomic_store_n(&head->nb_changes, number, __ATOMIC_RELEASE);
	log_change(c);
}

void
tune_record_lease(unsigned int place, uint32_t id, uint32_t session, uint64_t mask,
		  uint64_t expires_ns, const char *who)
{
	struct tune_block_lease *l = tune_block_at(tune_block_head()->lease_offset);

	l += place;
	begin(&l->seq);
	l->id = id;
	l->session = session;
	l->mask = mask;
	l->expires_ns = expires_ns;
	snprintf(l->who, sizeof(l->who), "%s", who);
	end(&l->seq);
}
