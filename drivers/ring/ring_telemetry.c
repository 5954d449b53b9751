/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * /leat/ring: the datagrams that each datagram endpoint lost, by its number. Their senders are not
 * told, so it is seen here only. Runs on telemetry's own thread.
 */

#include <stdio.h>

#include <rte_telemetry.h>

#include "leat_compat.h"

#include "ring_inside.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, ring_inside) eps = LIST_HEAD_INITIALIZER(eps);

void
ring_telemetry_add(struct ring_inside *in)
{
	pthread_mutex_lock(&lock);
	LIST_INSERT_HEAD(&eps, in, link);
	pthread_mutex_unlock(&lock);
}

void
ring_telemetry_del(struct ring_inside *in)
{
	pthread_mutex_lock(&lock);
	LIST_REMOVE(in, link);
	pthread_mutex_unlock(&lock);
}

static int
add_ep(struct rte_tel_data *list, const struct ring_ep *rep)
{
	struct rte_tel_data *d = rte_tel_data_alloc();
	char key[16];
	int ret = 0;

	if (d == NULL)
		return -ENOMEM;
	rte_tel_data_start_dict(d);
#define ADD(f)                                                                                     \
	ret |= rte_tel_data_add_dict_uint(d, "lost_" #f,                                           \
					  __atomic_load_n(&rep->lost.f, __ATOMIC_RELAXED))
	ret |= rte_tel_data_add_dict_string(d, "device", leat_dev_name(rep->ep->dev));
	ret |= rte_tel_data_add_dict_uint(d, "mtu", rep->mtu);
	ADD(full);
	ADD(too_long);
	ADD(unreceived);
#undef ADD
	snprintf(key, sizeof(key), "%u", leat_ep_id(rep->ep));
	if (ret == 0)
		ret = rte_tel_data_add_dict_container(list, key, d, 0);
	if (ret != 0)
		rte_tel_data_free(d);
	return ret;
}

static int
cmd_ring(const char *cmd, const char *params, struct rte_tel_data *d)
{
	const struct ring_inside *in;

	RTE_SET_USED(cmd);
	RTE_SET_USED(params);
	rte_tel_data_start_dict(d);
	pthread_mutex_lock(&lock);
	/* As many as an answer holds. */
	LIST_FOREACH(in, &eps, link) {
		if (add_ep(d, &in->ring) != 0)
			break;
	}
	pthread_mutex_unlock(&lock);
	return 0;
}

RTE_INIT(ring_telemetry_init)
{
	if (rte_telemetry_register_cmd("/leat/ring", cmd_ring,
				       "Datagrams that endpoints lost. Takes no parameters") != 0)
		LEAT_LOG(WARNING, driver, "ring: the telemetry command can't be registered");
}
