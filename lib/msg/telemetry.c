/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * DPDK telemetry commands, for dpdk-telemetry.py:
 *
 *     /leat/msgs             ids of the contexts, and their endpoints
 *     /leat/msg,ID           one context: counters, its first connections
 *     /leat/msg,ID,FIRST     the same with the connections from place FIRST on
 *
 * They run on telemetry's threads, and connections are their owner's: it fills in what was asked
 * for, in its next leat_msg_events().
 *
 *     telemetry                               owner
 *     asked = a copy, waits                   leat_msg_events(): asked? fills it in, wakes
 *     writes JSON, without a lock     <-----
 *
 * An owner that does not come by is not waited for longer than WAIT_MS. So the fast path has none
 * of this, and leat_msg_events() one load.
 */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <rte_telemetry.h>

#include <leat_log.h>

#include "leat_compat.h"
#include "msg_below.h"

/* Connections in one answer; telemetry's answers end at 16 KiB. */
#define CONNS_MAX 24
/* Longer than the longest interval of a reactor's events. */
#define WAIT_MS 1500

struct conn_copy {
	unsigned int place;
	uint8_t state, mode;
	char peer[LEAT_ADDR_MAX];
	struct leat_msg_conn_stats stats;
};

struct msg_copy {
	unsigned int first; /* asked for */
	bool filled, gone;
	char name[64];
	struct leat_msg_stats stats;
	unsigned int max_conns, nb_copied;
	struct conn_copy conn[CONNS_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* One question at a time. */
static pthread_mutex_t ask_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t answered = PTHREAD_COND_INITIALIZER;
static struct leat_msg *contexts;
static unsigned int next_id;

/* ---- the owner's side ---- */

static void
copy_conn(struct conn_copy *to, const struct leat_msg_conn *c, unsigned int place)
{
	to->place = place;
	to->state = c->state;
	to->mode = (uint8_t)leat_msg_conn_mode(c);
	snprintf(to->peer, sizeof(to->peer), "%s", msg_conn_addr(c));
	leat_msg_conn_stats_get(c, &to->stats);
}

void
msg_telemetry_answer(struct leat_msg *m)
{
	struct msg_copy *to;
	unsigned int i;

	(void)pthread_mutex_lock(&lock);
	to = m->asked;
	if (to != NULL) {
		leat_msg_stats_get(m, &to->stats);
		to->max_conns = m->max_conns;
		for (i = to->first; i < m->max_conns && to->nb_copied < CONNS_MAX; i++) {
			if (m->conns[i].state != MSG_FREE)
				copy_conn(&to->conn[to->nb_copied++], &m->conns[i], i);
		}
		to->filled = true;
		__atomic_store_n(&m->asked, NULL, __ATOMIC_RELAXED);
		(void)pthread_cond_broadcast(&answered);
	}
	(void)pthread_mutex_unlock(&lock);
}

void
msg_telemetry_del(struct leat_msg *m)
{
	struct leat_msg **p;

	(void)pthread_mutex_lock(&lock);
	for (p = &contexts; *p != NULL && *p != m; p = &(*p)->next)
		;
	if (*p != NULL)
		*p = (*p)->next;
	if (m->asked != NULL) {
		m->asked->gone = true;
		(void)pthread_cond_broadcast(&answered);
	}
	(void)pthread_mutex_unlock(&lock);
}

/* ---- telemetry's side ---- */

static int
cmd_msgs(const char *cmd, const char *params, struct rte_tel_data *d)
{
	const struct leat_msg *m;
	int ret = 0;

	RTE_SET_USED(cmd);
	RTE_SET_USED(params);
	rte_tel_data_start_dict(d);
	(void)pthread_mutex_lock(&lock);
	for (m = contexts; m != NULL && ret == 0; m = m->next) {
		char id[16];

		snprintf(id, sizeof(id), "%u", m->id);
		ret = rte_tel_data_add_dict_string(d, id, leat_ep_name(m->ep));
	}
	(void)pthread_mutex_unlock(&lock);
	return ret;
}

/* With the lock held. @return 0; -ENOENT: no such context */
static int
ask(unsigned int id, struct msg_copy *to)
{
	struct timespec until;
	struct leat_msg *m;
	int ret = 0;

	for (m = contexts; m != NULL && m->id != id; m = m->next)
		;
	if (m == NULL)
		return -ENOENT;
	snprintf(to->name, sizeof(to->name), "%s", leat_ep_name(m->ep));
	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WAIT_MS / 1000;
	until.tv_nsec += WAIT_MS % 1000 * 1000000L;
	if (until.tv_nsec >= 1000000000L) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000L;
	}
	__atomic_store_n(&m->asked, to, __ATOMIC_RELAXED);
	while (!to->filled && !to->gone && ret == 0)
		ret = pthread_cond_timedwait(&answered, &lock, &until);
	if (to->gone)
		return -ENOENT;
	if (!to->filled)
		__atomic_store_n(&m->asked, NULL, __ATOMIC_RELAXED);
	return 0;
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
add_conn(struct rte_tel_data *conns, const struct conn_copy *c)
{
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
add_conns(struct rte_tel_data *d, const struct msg_copy *c)
{
	struct rte_tel_data *conns;
	unsigned int i;
	int ret = 0;

	if (c->nb_copied == 0)
		return 0;
	conns = rte_tel_data_alloc();
	if (conns == NULL)
		return -ENOMEM;
	rte_tel_data_start_dict(conns);
	/* What there is no memory for is left out; conns tells. */
	for (i = 0; i < c->nb_copied && ret == 0; i++)
		ret = add_conn(conns, &c->conn[i]);
	ret = rte_tel_data_add_dict_container(d, "connections", conns, 0);
	if (ret < 0)
		rte_tel_data_free(conns);
	return ret;
}

static int
show(struct rte_tel_data *d, unsigned int id, const struct msg_copy *c)
{
	const struct leat_msg_stats *s = &c->stats;

	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_uint(d, "id", id);
	rte_tel_data_add_dict_string(d, "endpoint", c->name);
	rte_tel_data_add_dict_string(d, "driven", c->filled ? "yes" : "no");
	if (!c->filled)
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
	return add_conns(d, c);
}

/* "ID" or "ID,FIRST" */
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
	return errno == 0 && *end == '\0' && *first <= UINT16_MAX && *id <= UINT32_MAX ? 0
										       : -EINVAL;
}

static int
cmd_msg(const char *cmd, const char *params, struct rte_tel_data *d)
{
	unsigned long id, first;
	struct msg_copy *c;
	int ret;

	RTE_SET_USED(cmd);
	if (parse(params, &id, &first) < 0)
		return -EINVAL;
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return -ENOMEM;
	c->first = (unsigned int)first;
	(void)pthread_mutex_lock(&ask_lock);
	(void)pthread_mutex_lock(&lock);
	ret = ask((unsigned int)id, c);
	(void)pthread_mutex_unlock(&lock);
	(void)pthread_mutex_unlock(&ask_lock);
	if (ret == 0)
		ret = show(d, (unsigned int)id, c);
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
		ret = rte_telemetry_register_cmd(
			"/leat/msg", cmd_msg,
			"A message context and its connections. Parameters: id[,first place]");
	if (ret < 0)
		LEAT_LOG(WARNING, msg, "telemetry commands are missing: %s", rte_strerror(-ret));
}

void
msg_telemetry_add(struct leat_msg *m)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, register_commands);
	(void)pthread_mutex_lock(&lock);
	m->id = next_id++;
	m->next = contexts;
	contexts = m;
	(void)pthread_mutex_unlock(&lock);
}
