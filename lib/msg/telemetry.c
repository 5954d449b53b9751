/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * DPDK telemetry commands, for dpdk-telemetry.py:
 *
 *     /leat/msgs             ids of the contexts, and their endpoints
 *     /leat/msg,ID           one context: its counters, and its first connections
 *     /leat/msg,ID,FIRST     the same, with the connections from slot FIRST on
 */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_telemetry.h>

#include <leat_ask.h>
#include <leat_log.h>

#include "leat_compat.h"
#include "msg_below.h"

/* Maximum number of connections in one answer: an answer of telemetry has at most 16 KiB. */
#define CONNS_MAX 24

struct conn_copy {
	unsigned int place;
	uint8_t state, mode;
	char peer[LEAT_ADDR_MAX];
	struct leat_msg_conn_stats stats;
};

struct msg_copy {
	struct leat_question q;
	struct leat_msg_stats stats;
	unsigned int max_conns, nb_copied;
	struct conn_copy conn[CONNS_MAX];
};

static struct leat_ask_kind kind = LEAT_ASK_KIND_INIT;

/* ---- on the thread of the context ---- */

static void
copy_conn(struct conn_copy *to, const struct leat_msg_conn *c, unsigned int place)
{
	to->place = place;
	to->state = c->state;
	to->mode = (uint8_t)leat_msg_conn_mode(c);
	snprintf(to->peer, sizeof(to->peer), "%s", msg_conn_addr(c));
	leat_msg_conn_stats_get(c, &to->stats);
}

static void
fill(struct leat_question *q, const void *arg)
{
	struct msg_copy *to = container_of(q, struct msg_copy, q);
	const struct leat_msg *m = arg;
	unsigned int i;

	leat_msg_stats_get(m, &to->stats);
	to->max_conns = m->max_conns;
	for (i = q->first; i < m->max_conns && to->nb_copied < CONNS_MAX; i++) {
		if (m->conns[i].state != MSG_FREE)
			copy_conn(&to->conn[to->nb_copied++], &m->conns[i], i);
	}
}

void
msg_telemetry_answer(struct leat_msg *m)
{
	leat_ask_answer(&kind, &m->asked, fill, m);
}

void
msg_telemetry_del(struct leat_msg *m)
{
	leat_ask_del(&kind, &m->asked);
}

/* ---- on the thread of telemetry ---- */

static int
cmd_msgs(const char *cmd, const char *params, struct rte_tel_data *d)
{
	RTE_SET_USED(cmd);
	RTE_SET_USED(params);
	return leat_ask_list(&kind, d);
}

static const char *
state_name(unsigned int state)
{
	static const char *const names[] = { "FREE", "CONNECTING", "OPEN", "ENDING", "OVER" };

	return state < RTE_DIM(names) ? names[state] : "?";
}

static const char *
mode_name(unsigned int mode)
{
	static const char *const names[] = { "auto", "plain", "leat" };

	return mode < RTE_DIM(names) ? names[mode] : "?";
}

static int
add_conn(struct rte_tel_data *conns, const void *copy, uint32_t i)
{
	const struct conn_copy *c = &((const struct msg_copy *)copy)->conn[i];
	struct rte_tel_data *d = rte_tel_data_alloc();
	const struct leat_msg_conn_stats *s = &c->stats;
	char place[16];
	int ret;

	if (d == NULL)
		return -ENOMEM;
	snprintf(place, sizeof(place), "%u", c->place);
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_string(d, "peer", c->peer);
	rte_tel_data_add_dict_string(d, "state", state_name(c->state));
	rte_tel_data_add_dict_string(d, "mode", mode_name(c->mode));
	rte_tel_data_add_dict_uint(d, "credits", s->credits);
	rte_tel_data_add_dict_uint(d, "sends", s->sends);
	rte_tel_data_add_dict_uint(d, "queued", s->queued);
	rte_tel_data_add_dict_uint(d, "recvs", s->recvs);
	rte_tel_data_add_dict_uint(d, "held", s->held);
	rte_tel_data_add_dict_uint(d, "held_max", s->held_max);
	rte_tel_data_add_dict_uint(d, "sent", s->sent);
	rte_tel_data_add_dict_uint(d, "received", s->received);
	rte_tel_data_add_dict_uint(d, "sent_bytes", s->sent_bytes);
	rte_tel_data_add_dict_uint(d, "recv_bytes", s->recv_bytes);
	rte_tel_data_add_dict_uint(d, "stalled", s->stalled);
	rte_tel_data_add_dict_uint(d, "refused", s->refused);
	ret = rte_tel_data_add_dict_container(conns, place, d, 0);
	if (ret < 0)
		rte_tel_data_free(d);
	return ret;
}

static int
show(struct rte_tel_data *d, unsigned int id, const struct msg_copy *c)
{
	const struct leat_msg_stats *s = &c->stats;

	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_uint(d, "id", id);
	rte_tel_data_add_dict_string(d, "endpoint", c->q.name);
	rte_tel_data_add_dict_string(d, "driven", c->q.filled ? "yes" : "no");
	if (!c->q.filled)
		return 0;
	rte_tel_data_add_dict_uint(d, "max_conns", c->max_conns);
	rte_tel_data_add_dict_uint(d, "conns", s->conns);
	rte_tel_data_add_dict_uint(d, "credits", s->credits);
	rte_tel_data_add_dict_uint(d, "sent", s->sent);
	rte_tel_data_add_dict_uint(d, "received", s->received);
	rte_tel_data_add_dict_uint(d, "sent_bytes", s->sent_bytes);
	rte_tel_data_add_dict_uint(d, "recv_bytes", s->recv_bytes);
	rte_tel_data_add_dict_uint(d, "eager", s->eager);
	rte_tel_data_add_dict_uint(d, "control", s->control);
	rte_tel_data_add_dict_uint(d, "stalled", s->stalled);
	rte_tel_data_add_dict_uint(d, "refused", s->refused);
	rte_tel_data_add_dict_uint(d, "ended_errors", s->ended_errors);
	rte_tel_data_add_dict_uint(d, "held", s->held);
	rte_tel_data_add_dict_uint(d, "held_max", s->held_max);
	rte_tel_data_add_dict_uint(d, "memory", s->memory);
	return leat_ask_add_all(d, "connections", c->nb_copied, add_conn, c);
}

static int
cmd_msg(const char *cmd, const char *params, struct rte_tel_data *d)
{
	struct msg_copy *c = calloc(1, sizeof(*c));
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
register_commands(void)
{
	int ret;

	ret = rte_telemetry_register_cmd("/leat/msgs", cmd_msgs,
					 "Ids of message contexts and their endpoints. Takes no "
					 "parameters");
	if (ret == 0)
		ret = rte_telemetry_register_cmd("/leat/msg", cmd_msg,
						 "A message context and its connections. "
						 "Parameters: id[,slot of the first connection]");
	if (ret < 0)
		LEAT_LOG(WARNING, msg, "telemetry commands are missing: %s", rte_strerror(-ret));
}

void
msg_telemetry_add(struct leat_msg *m)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, register_commands);
	leat_ask_add(&kind, &m->asked, leat_ep_name(m->ep));
}
