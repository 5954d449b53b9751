/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * DPDK telemetry commands, for dpdk-telemetry.py:
 *
 *     /leat/reactors             ids and names
 *     /leat/reactor,ID           one reactor: state, idle policy, counters, its first pollers
 *     /leat/reactor,ID,FIRST     the same with the pollers from number FIRST on
 *
 * The commands run on telemetry's threads. reactor_lock keeps reactors and pollers from being
 * freed. It is held only to copy: a reactor that adds or removes a poller must not wait while JSON
 * is written. Counters are read with relaxed loads while the owner keeps counting.
 */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_telemetry.h>

#include <leat_log.h>

#include "leat_compat.h"
#include "reactor_pvt.h"

/* Maximum number of pollers in one answer: telemetry limits an answer to 16 KiB. */
#define POLLERS_MAX 40

struct poller_copy {
	char name[LEAT_REACTOR_NAME_MAX];
	unsigned int number;
	enum leat_poller_state state;
	int error;
	bool is_ep;
	uint64_t period;
	struct leat_poller_stats stats;
};

struct reactor_copy {
	char name[LEAT_REACTOR_NAME_MAX];
	unsigned int id;
	unsigned int lcore;
	unsigned int nb_pollers; /* pollers of the reactor; nb_copied of them are below */
	unsigned int nb_copied;
	unsigned int timers_active;
	unsigned int waiting; /* messages */
	enum leat_reactor_state state;
	enum leat_idle_policy effective;
	struct leat_idle_conf idle;
	struct leat_reactor_stats stats;
	struct poller_copy poller[POLLERS_MAX];
};

static int
cmd_reactors(const char *cmd, const char *params, struct rte_tel_data *d)
{
	unsigned int i;
	int ret = 0;

	RTE_SET_USED(cmd);
	RTE_SET_USED(params);
	rte_tel_data_start_dict(d);
	reactor_lock();
	for (i = 0; i < LEAT_REACTOR_MAX && ret == 0; i++) {
		const struct leat_reactor *r = reactor_registry_get(i);
		char id[16];

		if (r == NULL)
			continue;
		snprintf(id, sizeof(id), "%u", i);
		ret = rte_tel_data_add_dict_string(d, id, r->name);
	}
	reactor_unlock();
	return ret;
}

static void
copy_poller(struct poller_copy *c, const struct leat_poller *p, unsigned int number)
{
	memcpy(c->name, p->name, sizeof(c->name));
	c->number = number;
	c->state = leat_poller_state(p);
	c->error = leat_poller_error(p);
	c->is_ep = reactor_poller_is_ep(p);
	c->period = p->period;
	leat_poller_stats_get(p, &c->stats);
}

/* Copy a reactor. The caller holds the lock. */
static void
copy_reactor(struct reactor_copy *c, const struct leat_reactor *r, unsigned int first)
{
	unsigned int i;

	memcpy(c->name, r->name, sizeof(c->name));
	c->id = r->id;
	c->lcore = RLX_LOAD(r->lcore);
	c->state = leat_reactor_state(r);
	c->effective = leat_reactor_idle_effective(r);
	c->timers_active = RLX_LOAD(r->nb_timers);
	c->waiting = reactor_messages_waiting(r);
	leat_reactor_idle_get(r, &c->idle);
	leat_reactor_stats_get(r, &c->stats);
	for (i = 0; i < r->max_pollers; i++) {
		const struct leat_poller *p = &r->pollers[i];

		if (!p->used)
			continue;
		c->nb_pollers++;
		if (i >= first && c->nb_copied < POLLERS_MAX)
			copy_poller(&c->poller[c->nb_copied++], p, i);
	}
}

static const char *
state_name(enum leat_reactor_state state)
{
	static const char *const names[] = { "READY", "RUNNING", "STOPPING", "STOPPED" };

	return (unsigned int)state < RTE_DIM(names) ? names[state] : "?";
}

static int
add_poller(struct rte_tel_data *pollers, const struct poller_copy *c)
{
	struct rte_tel_data *d = rte_tel_data_alloc();
	char number[16];
	int ret;

	if (d == NULL)
		return -ENOMEM;
	snprintf(number, sizeof(number), "%u", c->number);
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_string(d, "name", c->name);
	rte_tel_data_add_dict_string(d, "type", c->is_ep ? "endpoint" : "poller");
	rte_tel_data_add_dict_string(d, "state", leat_poller_state_name(c->state));
	if (c->error != 0)
		rte_tel_data_add_dict_int(d, "error", c->error);
	rte_tel_data_add_dict_uint(d, "period_us", leat_cycles_to_ns(c->period) / 1000);
	rte_tel_data_add_dict_uint(d, "runs", c->stats.runs);
	rte_tel_data_add_dict_uint(d, "busy_runs", c->stats.busy_runs);
	rte_tel_data_add_dict_uint(d, "busy_cycles", c->stats.busy_cycles);
	rte_tel_data_add_dict_uint(d, "idle_cycles", c->stats.idle_cycles);
	ret = rte_tel_data_add_dict_container(pollers, number, d, 0);
	if (ret < 0)
		rte_tel_data_free(d);
	return ret;
}

static int
add_pollers(struct rte_tel_data *d, const struct reactor_copy *c)
{
	struct rte_tel_data *pollers;
	unsigned int i;
	int ret = 0;

	rte_tel_data_add_dict_uint(d, "nb_pollers", c->nb_pollers);
	if (c->nb_copied == 0)
		return 0;
	pollers = rte_tel_data_alloc();
	if (pollers == NULL)
		return -ENOMEM;
	rte_tel_data_start_dict(pollers);
	/* If memory runs out, the other pollers are left out; nb_pollers counts them, too. */
	for (i = 0; i < c->nb_copied && ret == 0; i++)
		ret = add_poller(pollers, &c->poller[i]);
	ret = rte_tel_data_add_dict_container(d, "pollers", pollers, 0);
	if (ret < 0)
		rte_tel_data_free(pollers);
	return ret;
}

static int
show(struct rte_tel_data *d, const struct reactor_copy *c)
{
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_uint(d, "id", c->id);
	rte_tel_data_add_dict_string(d, "name", c->name);
	rte_tel_data_add_dict_int(d, "lcore", c->lcore == LCORE_ID_ANY ? -1 : (int)c->lcore);
	rte_tel_data_add_dict_string(d, "state", state_name(c->state));
	rte_tel_data_add_dict_string(d, "idle_policy", leat_idle_policy_name(c->idle.policy));
	rte_tel_data_add_dict_string(d, "idle_effective", leat_idle_policy_name(c->effective));
	rte_tel_data_add_dict_uint(d, "idle_spin_us", c->idle.spin_us);
	rte_tel_data_add_dict_uint(d, "idle_sleep_min_us", c->idle.sleep_min_us);
	rte_tel_data_add_dict_uint(d, "idle_sleep_max_us", c->idle.sleep_max_us);
	rte_tel_data_add_dict_uint(d, "hz", leat_hz());
	rte_tel_data_add_dict_uint(d, "turns", c->stats.turns);
	rte_tel_data_add_dict_uint(d, "busy_cycles", c->stats.busy_cycles);
	rte_tel_data_add_dict_uint(d, "idle_cycles", c->stats.idle_cycles);
	rte_tel_data_add_dict_uint(d, "sleep_cycles", c->stats.sleep_cycles);
	rte_tel_data_add_dict_uint(d, "housekeeping_cycles", c->stats.housekeeping_cycles);
	rte_tel_data_add_dict_uint(d, "turn_max_ns", leat_cycles_to_ns(c->stats.turn_max_cycles));
	rte_tel_data_add_dict_uint(d, "messages", c->stats.messages);
	rte_tel_data_add_dict_uint(d, "messages_waiting", c->waiting);
	rte_tel_data_add_dict_uint(d, "timers", c->stats.timers);
	rte_tel_data_add_dict_uint(d, "timers_active", c->timers_active);
	rte_tel_data_add_dict_uint(d, "sleeps", c->stats.sleeps);
	rte_tel_data_add_dict_uint(d, "yields", c->stats.yields);
	rte_tel_data_add_dict_uint(d, "blocks", c->stats.blocks);
	rte_tel_data_add_dict_uint(d, "wake_events", c->stats.wake_events);
	rte_tel_data_add_dict_uint(d, "wake_messages", c->stats.wake_messages);
	rte_tel_data_add_dict_uint(d, "wake_timeouts", c->stats.wake_timeouts);
	return add_pollers(d, c);
}

/* Parse "ID" or "ID,FIRST". */
static int
parse(const char *params, unsigned long *id, unsigned long *first)
{
	char *end;

	*first = 0;
	if (params == NULL || *params < '0' || *params > '9')
		return -EINVAL;
	errno = 0;
	*id = strtoul(params, &end, 10);
	if (*end == ',' && end[1] >= '0' && end[1] <= '9')
		*first = strtoul(end + 1, &end, 10);
	return errno == 0 && *end == '\0' && *first <= UINT16_MAX && *id < LEAT_REACTOR_MAX
		       ? 0
		       : -EINVAL;
}

static int
cmd_reactor(const char *cmd, const char *params, struct rte_tel_data *d)
{
	const struct leat_reactor *r;
	struct reactor_copy *c;
	unsigned long id, first;
	int ret;

	RTE_SET_USED(cmd);
	if (parse(params, &id, &first) < 0)
		return -EINVAL;
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return -ENOMEM;
	reactor_lock();
	r = reactor_registry_get((unsigned int)id);
	if (r != NULL)
		copy_reactor(c, r, (unsigned int)first);
	reactor_unlock();
	ret = r == NULL ? -ENOENT : show(d, c);
	free(c);
	return ret;
}

static void
register_commands(void)
{
	int ret;

	ret = rte_telemetry_register_cmd("/leat/reactors", cmd_reactors,
					 "Ids and names of the reactors. Takes no parameters");
	if (ret == 0)
		ret = rte_telemetry_register_cmd(
			"/leat/reactor", cmd_reactor,
			"A reactor and its pollers. Parameters: id[,number of the first poller]");
	if (ret < 0)
		LEAT_LOG(WARNING, reactor, "telemetry commands are missing: %s",
			 rte_strerror(-ret));
}

void
reactor_telemetry_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, register_commands);
}
