/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Objects of lib/tune that belong to the process and not to a reactor: levels of the log
 * (log.toml), and memory pools (memory.toml, mempool.toml). The control thread applies their
 * settings and reports their measurements.
 */

#include <stdio.h>

#include <rte_log.h>
#include <rte_mempool.h>

#include "fabric_pvt.h"
#include "log_tune.h"
#include "memory_tune.h"
#include "mempool_tune.h"

/* ---- log ---- */

static const struct {
	const int *type;
	size_t at;
} parts[LOG_TUNE_NB_SETTINGS] = {
#define PART(NAME, name)                                                                           \
	[LOG_TUNE_##NAME] = { &leat_logtype_##name, offsetof(struct log_tune_settings, name) }
	PART(BASE, base),	  PART(TUNE, tune),	PART(RENDEZVOUS, rendezvous),
	PART(EXCHANGE, exchange), PART(FABRIC, fabric), PART(TAGS, tags),
	PART(REACTOR, reactor),	  PART(TASK, task),	PART(MSG, msg),
	PART(RPC, rpc),		  PART(STREAM, stream), PART(DRIVER, driver),
	PART(APP, app),
#undef PART
};

static_assert(LOG_TUNE_BASE_EMERGENCY == (int)RTE_LOG_EMERG &&
		      LOG_TUNE_BASE_DEBUG == (int)RTE_LOG_DEBUG,
	      "log.toml names the levels in their order");

static uint32_t *
level_of(struct log_tune_settings *s, unsigned int part)
{
	return (uint32_t *)((char *)s + parts[part].at);
}

static int
levels_apply(void *arg, void *wanted, uint64_t changed)
{
	unsigned int i;

	RTE_SET_USED(arg);
	for (i = 0; i < RTE_DIM(parts); i++) {
		if ((changed & (UINT64_C(1) << i)) != 0)
			(void)rte_log_set_level((uint32_t)*parts[i].type, *level_of(wanted, i));
	}
	return 0;
}

/* ---- memory pools ---- */

/* State of a walk over all pools that counts them and reports one of them. */
struct pool_walk {
	uint32_t nb;   /* pools seen so far */
	uint32_t want; /* index of the pool that is reported */
	uint64_t size;
	struct leat_tune_row *row;
};

static void
visit_pool(struct rte_mempool *mp, void *arg)
{
	struct pool_walk *l = arg;
	struct mempool_tune_report *rep;

	l->size += (uint64_t)mp->size * mp->elt_size;
	if (l->nb++ != l->want || l->row == NULL)
		return;
	rep = l->row->report;
	snprintf(l->row->name, sizeof(l->row->name), "%s", mp->name);
	rep->objects = mp->size;
	rep->in_use = rte_mempool_in_use_count(mp);
	rep->object_size = mp->elt_size;
}

static void
memory_report(void *arg, void *report)
{
	struct memory_tune_report *rep = report;
	struct pool_walk l = { .nb = 0 };

	RTE_SET_USED(arg);
	rte_mempool_walk(visit_pool, &l);
	rep->pools = l.nb;
	rep->size = (int64_t)l.size;
}

static int
memory_row(void *arg, uint32_t i, struct leat_tune_row *row)
{
	struct pool_walk l = { .want = i, .row = row };

	RTE_SET_USED(arg);
	rte_mempool_walk(visit_pool, &l);
	return i < l.nb ? 1 : -1;
}

/* ---- start and end ---- */

static struct log_tune_settings levels;
static struct leat_tune_object *log_object, *memory_object;

int
leat_process_tune_add(void)
{
	const struct leat_tune_conf log = {
		.schema = &log_tune_schema,
		.name = "levels",
		.settings = &levels,
		.apply = levels_apply,
		.ownerless = true,
	};
	const struct leat_tune_conf memory = {
		.schema = &memory_tune_schema,
		.name = "mempools",
		.report = memory_report,
		.row = memory_row,
		.row_schema = &mempool_tune_schema,
		.ownerless = true,
	};
	unsigned int i;

	for (i = 0; i < RTE_DIM(parts); i++) {
		int level = rte_log_get_level((uint32_t)*parts[i].type);

		*level_of(&levels, i) = level > 0 ? (uint32_t)level : 0;
	}
	log_object = leat_tune_add(&log);
	if (log_object == NULL)
		return -rte_errno;
	memory_object = leat_tune_add(&memory);
	return memory_object != NULL ? 0 : -rte_errno;
}

void
leat_process_tune_del(void)
{
	leat_tune_del(memory_object);
	leat_tune_del(log_object);
	memory_object = log_object = NULL;
}
