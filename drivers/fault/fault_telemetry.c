/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The telemetry command /leat/fault. For each endpoint, under its number, it reports counters of
 * the injected faults. The answers are built on telemetry's own thread.
 */

#include <pthread.h>

#include <rte_telemetry.h>

#include "fault_pvt.h"
#include "leat_compat.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, fault_ep) eps = LIST_HEAD_INITIALIZER(eps);

void
fault_telemetry_add(struct fault_ep *fe)
{
	pthread_mutex_lock(&lock);
	LIST_INSERT_HEAD(&eps, fe, link);
	pthread_mutex_unlock(&lock);
}

void
fault_telemetry_del(struct fault_ep *fe)
{
	pthread_mutex_lock(&lock);
	LIST_REMOVE(fe, link);
	pthread_mutex_unlock(&lock);
}

static int
add_ep(struct rte_tel_data *list, const struct fault_ep *fe)
{
	struct rte_tel_data *d = rte_tel_data_alloc();
	char key[16];
	int ret = 0;

	if (d == NULL)
		return -ENOMEM;
	rte_tel_data_start_dict(d);
#define ADD(f)                                                                                     \
	ret |= rte_tel_data_add_dict_uint(d, #f, __atomic_load_n(&fe->stats.f, __ATOMIC_RELAXED))
	ret |= rte_tel_data_add_dict_string(d, "device", leat_dev_name(fe->ep->dev));
	ret |= rte_tel_data_add_dict_uint(d, "seed", fe->conf.seed);
	ADD(delayed);
	ADD(reordered);
	ADD(refused);
	ADD(refused_recv);
	ADD(failed);
	ADD(stalls);
	ADD(stalled_ops);
	ADD(deaths);
	ADD(lost_acks);
	ADD(lost);
	ADD(doubled);
	ADD(overtaken);
#undef ADD
	snprintf(key, sizeof(key), "%u", leat_ep_id(fe->ep));
	if (ret == 0)
		ret = rte_tel_data_add_dict_container(list, key, d, 0);
	if (ret != 0)
		rte_tel_data_free(d);
	return ret;
}

static int
cmd_fault(const char *cmd, const char *params, struct rte_tel_data *d)
{
	const struct fault_ep *fe;

	RTE_SET_USED(cmd);
	RTE_SET_USED(params);
	rte_tel_data_start_dict(d);
	pthread_mutex_lock(&lock);
	/* Stop when the answer is full. */
	LIST_FOREACH(fe, &eps, link) {
		if (add_ep(d, fe) != 0)
			break;
	}
	pthread_mutex_unlock(&lock);
	return 0;
}

RTE_INIT(fault_telemetry_init)
{
	if (rte_telemetry_register_cmd("/leat/fault", cmd_fault,
				       "Faults done to endpoints. Takes no parameters") != 0)
		LEAT_LOG(WARNING, driver, "fault: the telemetry command can't be registered");
}
