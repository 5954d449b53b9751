/* SPDX-License-Identifier: BSD-3-Clause */

/* Code of doc/guide/tune-description.md, without an agent: settings as they are described. */

/* clang-format off */

#include <leat_tune.h>

#include "kv_tune.h"
#include "snippets.h"

struct table {
	struct kv_tune_settings set;            /* plain fields: the loop reads them as they are */
	struct leat_tune_object *tune;
	uint32_t used;
	uint64_t hits;
	struct leat_tune_histogram lookup;
};

/* Called on the loop's thread. All values are in range and keep the rules. */
static int
apply(void *arg, void *want, uint64_t changed)
{
	struct kv_tune_settings *set = (struct kv_tune_settings *)want;
	const struct table *t = (const struct table *)arg;

	if ((changed & (1u << KV_TUNE_EVICTION)) != 0 && set->eviction == KV_TUNE_EVICTION_NONE &&
	    t->used == t->set.entries)
		return leat_err(EBUSY, "the table is full: it must evict");
	if (set->batch > 16)
		set->batch &= ~15u;             /* the agent is told the effective value */
	return 0;
}

static void
report(void *arg, void *to)
{
	struct kv_tune_report *r = (struct kv_tune_report *)to;
	const struct table *t = (const struct table *)arg;

	r->hits = t->hits;
	r->used = t->used;
	r->lookup = t->lookup;
}

static int
table_start(struct table *t, const char *name)
{
	struct leat_tune_conf conf = { };

	memcpy(&t->set, kv_tune_schema.defaults, sizeof(t->set));
	conf.schema = &kv_tune_schema;
	conf.name = name;
	conf.settings = &t->set;
	conf.apply = apply;
	conf.report = report;
	conf.report_on_owner = true;
	conf.arg = t;
	t->tune = leat_tune_add(&conf);
	return t->tune == NULL ? -ENOMEM : 0;
}

int
main(void)
{
	struct leat_tune_start_conf start = { };
	struct table t = { };

	start.off = true;
	CHECK(leat_tune_start(&start) == 0);
	CHECK(table_start(&t, "users") == 0);
	leat_tune_serve(t.tune);
	CHECK(t.set.batch == 0 && t.set.eviction == KV_TUNE_EVICTION_LRU);
	CHECK(t.set.low_percent == 80.0 && t.set.entries == 65536);
	leat_tune_del(t.tune);
	leat_tune_stop();
	printf("done\n");
	return 0;
}
