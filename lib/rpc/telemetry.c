/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * DPDK telemetry commands, for dpdk-telemetry.py:
 *
 *     /leat/rpcs             ids of the contexts, and their endpoints
 *     /leat/rpc,ID           one context: counters, its first sessions
 *     /leat/rpc,ID,FIRST     the same with the sessions from index FIRST of the table on
 */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_telemetry.h>

#include <leat_ask.h>
#include <leat_driver.h>

#include "leat_compat.h"
#include "rpc_counters.h"
#include "rpc_credit.h"
#include "rpc_reconnect.h"

/* Maximum number of sessions in one answer: an answer of telemetry has at most 16 KiB. */
#define SESSIONS_MAX 20

/*
 * The members of struct leat_rpc_stats, in its order, except violations. Add a line for each new
 * counter.
 */
#define COUNTERS(X)                                                                                \
	RPC_COUNTERS(X)                                                                            \
	X(memory)                                                                                  \
	X(sessions)                                                                                \
	X(max_sessions)                                                                            \
	X(credits)                                                                                 \
	X(slots)                                                                                   \
	X(tickets)                                                                                 \
	X(large)                                                                                   \
	X(transfers)                                                                               \
	X(tx_packets)

#define FIELD(name) (((const struct leat_rpc_stats *)NULL)->name)
#define COUNTER(name) { #name, offsetof(struct leat_rpc_stats, name), sizeof(FIELD(name)) },
#define PLUS_SIZE(name) +sizeof(FIELD(name))

static const struct {
	const char *name;
	size_t at, size;
} counters[] = { COUNTERS(COUNTER) };

static_assert(sizeof(FIELD(violations)) COUNTERS(PLUS_SIZE) == sizeof(struct leat_rpc_stats),
	      "COUNTERS lacks a member, or struct leat_rpc_stats has padding");

struct session_copy {
	uint32_t place;
	uint8_t state;
	bool accepted, lasts;
	uint32_t requests, handling, packets, credits;
	uint32_t tries;
	uint64_t wait_us; /* DOWN: until the next attempt, us */
	int status;
	char peer[LEAT_ADDR_MAX];
	char why[RTE_TEL_MAX_STRING_LEN];
};

struct rpc_copy {
	struct leat_question q;
	struct leat_rpc_stats stats;
	uint32_t nb_copied;
	struct session_copy session[SESSIONS_MAX];
};

static struct leat_ask_kind kind = LEAT_ASK_KIND_INIT;

/* ---- on the thread of the context ---- */

static void
copy_session(struct session_copy *to, const struct leat_rpc_session *s, uint32_t place)
{
	const struct rpc_reconnect *r = s->reconnect;
	const struct leat_ep *ep = s->rpc->ep;
	const uint64_t now = leat_now();
	const char *peer = "";

	if (r != NULL)
		peer = r->addr;
	else if (!s->peer_closed)
		peer = leat_peer_addr(ep, &ep->peers[s->peer]);
	snprintf(to->peer, sizeof(to->peer), "%s", peer);
	to->place = place;
	to->state = s->state;
	to->accepted = s->accepted;
	to->requests = s->nb_reqs;
	to->handling = s->nb_handling;
	to->packets = s->held;
	to->credits = s->state == RPC_OPEN ? rpc_credit_left(s) : 0;
	to->lasts = r != NULL;
	if (r != NULL) {
		to->tries = r->tries;
		if (s->state == RPC_DOWN && r->next > now)
			to->wait_us = leat_cycles_to_ns(r->next - now) / 1000;
	}
	if (s->state != RPC_OPEN) {
		to->status = s->status;
		snprintf(to->why, sizeof(to->why), "%.*s", (int)sizeof(to->why) - 1, s->text);
	}
}

static void
fill(struct leat_question *q, const void *arg)
{
	struct rpc_copy *to = container_of(q, struct rpc_copy, q);
	const struct leat_rpc *rpc = arg;
	uint32_t i;

	leat_rpc_stats_get(rpc, &to->stats);
	for (i = q->first; i < rpc->max_sessions && to->nb_copied < SESSIONS_MAX; i++) {
		if (rpc->sessions[i].state != RPC_FREE)
			copy_session(&to->session[to->nb_copied++], &rpc->sessions[i], i);
	}
}

void
rpc_telemetry_answer(struct leat_rpc *rpc)
{
	leat_ask_answer(&kind, &rpc->asked, fill, rpc);
}

void
rpc_telemetry_del(struct leat_rpc *rpc)
{
	leat_ask_del(&kind, &rpc->asked);
}

/* ---- on the thread of telemetry ---- */

static int
cmd_rpcs(const char *cmd, const char *params, struct rte_tel_data *d)
{
	RTE_SET_USED(cmd);
	RTE_SET_USED(params);
	return leat_ask_list(&kind, d);
}

static int
add_session(struct rte_tel_data *sessions, const void *copy, uint32_t i)
{
	const struct session_copy *c = &((const struct rpc_copy *)copy)->session[i];
	struct rte_tel_data *d = rte_tel_data_alloc();
	char place[16];
	int ret;

	if (d == NULL)
		return -ENOMEM;
	snprintf(place, sizeof(place), "%u", c->place);
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_string(d, "peer", c->peer);
	rte_tel_data_add_dict_string(d, "state", rpc_session_state_name(c->state));
	rte_tel_data_add_dict_string(d, "accepted", c->accepted ? "yes" : "no");
	rte_tel_data_add_dict_uint(d, "requests", c->requests);
	rte_tel_data_add_dict_uint(d, "handling", c->handling);
	rte_tel_data_add_dict_uint(d, "packets", c->packets);
	rte_tel_data_add_dict_uint(d, "credits", c->credits);
	if (c->lasts)
		rte_tel_data_add_dict_uint(d, "tries", c->tries);
	if (c->state == RPC_DOWN)
		rte_tel_data_add_dict_uint(d, "wait_us", c->wait_us);
	if (c->why[0] != '\0') {
		rte_tel_data_add_dict_int(d, "status", c->status);
		rte_tel_data_add_dict_string(d, "why", c->why);
	}
	ret = rte_tel_data_add_dict_container(sessions, place, d, 0);
	if (ret < 0)
		rte_tel_data_free(d);
	return ret;
}

/* Add the violations. Names in a dictionary must not contain blanks. */
static int
add_violations(struct rte_tel_data *d, const struct leat_rpc_stats *stats)
{
	struct rte_tel_data *v = rte_tel_data_alloc();
	unsigned int i;
	char name[32];
	size_t k;
	int ret;

	if (v == NULL)
		return -ENOMEM;
	rte_tel_data_start_dict(v);
	for (i = 1; i < LEAT_RPC_VIOLATIONS; i++) {
		snprintf(name, sizeof(name), "%s", leat_rpc_violation_name(i));
		for (k = 0; name[k] != '\0'; k++) {
			if (name[k] == ' ')
				name[k] = '_';
		}
		rte_tel_data_add_dict_uint(v, name, stats->violations[i]);
	}
	ret = rte_tel_data_add_dict_container(d, "violations", v, 0);
	if (ret < 0)
		rte_tel_data_free(v);
	return ret;
}

static int
show(struct rte_tel_data *d, unsigned int id, const struct rpc_copy *c)
{
	const uint8_t *stats = (const uint8_t *)&c->stats;
	uint64_t value;
	uint32_t half;
	size_t i;
	int ret;

	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_uint(d, "id", id);
	rte_tel_data_add_dict_string(d, "endpoint", c->q.name);
	rte_tel_data_add_dict_string(d, "driven", c->q.filled ? "yes" : "no");
	if (!c->q.filled)
		return 0;
	for (i = 0; i < RTE_DIM(counters); i++) {
		if (counters[i].size == sizeof(half)) {
			memcpy(&half, stats + counters[i].at, sizeof(half));
			value = half;
		} else {
			memcpy(&value, stats + counters[i].at, sizeof(value));
		}
		rte_tel_data_add_dict_uint(d, counters[i].name, value);
	}
	ret = add_violations(d, &c->stats);
	return ret < 0 ? ret : leat_ask_add_all(d, "places", c->nb_copied, add_session, c);
}

static int
cmd_rpc(const char *cmd, const char *params, struct rte_tel_data *d)
{
	struct rpc_copy *c = calloc(1, sizeof(*c));
	unsigned int id;
	int ret;

	RTE_SET_USED(cmd);
	if (c == NULL)
		return -ENOMEM;
	ret = leat_ask(&kind, params, &c->q, &id);
	if (ret == 0)
		ret = show(d, id, c);
	free(c);
	return ret;
}

static void
begin(void)
{
	int ret;

	ret = rte_telemetry_register_cmd("/leat/rpcs", cmd_rpcs,
					 "Ids of contexts of remote calls and their endpoints. "
					 "Takes no parameters");
	if (ret == 0)
		ret = rte_telemetry_register_cmd("/leat/rpc", cmd_rpc,
						 "A context of remote calls and its sessions. "
						 "Parameters: id[,slot of the first session]");
	if (ret < 0)
		LEAT_LOG(WARNING, rpc, "telemetry commands are missing: %s", rte_strerror(-ret));
}

void
rpc_telemetry_add(struct leat_rpc *rpc)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, begin);
	leat_ask_add(&kind, &rpc->asked, leat_ep_name(rpc->ep));
}
