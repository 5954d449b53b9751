/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The telemetry commands /leat/ring and /leat/shm. For each endpoint, under its number, they report
 * counters of events that completions do not report.
 *
 *     datagrams    messages that were lost: their senders get no error
 *     share=1      ops that were executed on shared memory, messages that were copied from it
 *
 * The answers are built on telemetry's own thread.
 */

#include <pthread.h>
#include <stdio.h>

#include <rte_telemetry.h>

#include "leat_compat.h"

#include "ring_pvt.h"

#define COMMAND (RING_FOREIGN ? "/leat/shm" : "/leat/ring")

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, ring_ep) eps = LIST_HEAD_INITIALIZER(eps);

/* Does this endpoint have counters that the commands report? */
static bool
has_counters(const struct ring_ep *rep)
{
	return rep->datagram || rep->share != NULL;
}

void
ring_telemetry_add(struct ring_ep *rep)
{
	if (!has_counters(rep))
		return;
	pthread_mutex_lock(&lock);
	LIST_INSERT_HEAD(&eps, rep, reported);
	pthread_mutex_unlock(&lock);
}

void
ring_telemetry_del(struct ring_ep *rep)
{
	if (!has_counters(rep))
		return;
	pthread_mutex_lock(&lock);
	LIST_REMOVE(rep, reported);
	pthread_mutex_unlock(&lock);
}

static int
add(struct rte_tel_data *d, const char *name, const uint64_t *counter)
{
	return rte_tel_data_add_dict_uint(d, name, __atomic_load_n(counter, __ATOMIC_RELAXED));
}

static int
add_datagram(struct rte_tel_data *d, const struct ring_ep *rep)
{
	int ret = rte_tel_data_add_dict_uint(d, "mtu", rep->mtu);

	ret |= add(d, "lost_full", &rep->lost.full);
	ret |= add(d, "lost_too_long", &rep->lost.too_long);
	ret |= add(d, "lost_unreceived", &rep->lost.unreceived);
	return ret;
}

static int
add_share(struct rte_tel_data *d, const struct ring_share *s)
{
	int ret = add(d, "shared_ops", &s->nb_ops);

	ret |= add(d, "shared_copies", &s->nb_copies);
	ret |= rte_tel_data_add_dict_uint(d, "share_ended",
					  __atomic_load_n(&s->stale, __ATOMIC_RELAXED));
	return ret;
}

static int
add_ep(struct rte_tel_data *list, const struct ring_ep *rep)
{
	struct rte_tel_data *d = rte_tel_data_alloc();
	char key[16];
	int ret;

	if (d == NULL)
		return -ENOMEM;
	rte_tel_data_start_dict(d);
	ret = rte_tel_data_add_dict_string(d, "device", leat_dev_name(rep->ep->dev));
	ret |= rep->datagram ? add_datagram(d, rep) : add_share(d, rep->share);
	snprintf(key, sizeof(key), "%u", leat_ep_id(rep->ep));
	if (ret == 0)
		ret = rte_tel_data_add_dict_container(list, key, d, 0);
	if (ret != 0)
		rte_tel_data_free(d);
	return ret;
}

static int
answer(const char *cmd, const char *params, struct rte_tel_data *d)
{
	const struct ring_ep *rep;

	RTE_SET_USED(cmd);
	RTE_SET_USED(params);
	rte_tel_data_start_dict(d);
	pthread_mutex_lock(&lock);
	/* Stop when the answer is full. */
	LIST_FOREACH(rep, &eps, reported) {
		if (add_ep(d, rep) != 0)
			break;
	}
	pthread_mutex_unlock(&lock);
	return 0;
}

RTE_INIT(ring_telemetry_init)
{
	if (rte_telemetry_register_cmd(COMMAND, answer,
				       RING_FOREIGN
					       ? "Datagrams that endpoints lost, ops on shared "
						 "memory. Takes no parameters"
					       : "Datagrams that endpoints lost. Takes no "
						 "parameters") != 0)
		LEAT_LOG(WARNING, driver, "%s: the telemetry command can't be registered", COMMAND);
}
