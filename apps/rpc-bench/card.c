/* SPDX-License-Identifier: BSD-3-Clause */

/* The card: this process's description of itself. */

#include <string.h>
#include <unistd.h>

#include <leat_error.h>
#include <leat_task_call.h>

#include "bench.h"

static int
where(void *arg)
{
	cpu_where_get(arg);
	return 0;
}

static int
lcores_fill(struct rb_bench *b, struct rb_card *card)
{
	struct cpu_where w;
	uint16_t i;
	int ret;

	card->nb_lcores = (uint16_t)leat_app_count();
	for (i = 0; i < card->nb_lcores; i++) {
		ret = leat_task_call(leat_app_reactor(i), where, &w, NULL);
		if (ret == -ECANCELED)
			return ret;
		if (ret < 0)
			return rb_fail(b, -ret, "lcore %u: %s", i, strerror(-ret));
		card->host = w.host;
		card->lcore[i].cpu = (uint16_t)w.cpu;
		card->lcore[i].nb_cpus = (uint16_t)RTE_MIN(w.nb_cpus, (uint32_t)UINT16_MAX);
	}
	return 0;
}

int
rb_card_fill(struct rb_bench *b, struct rb_card *card)
{
	struct leat_dev_info info;

	memset(card, 0, sizeof(*card));
	if (leat_dev_info_get(b->dev, &info) < 0)
		return rb_fail(b, EINVAL, "%s", leat_err_msg());
	card->pid = (uint32_t)getpid();
	if (gethostname(card->name, sizeof(card->name) - 1) != 0)
		snprintf(card->name, sizeof(card->name), "?");
	snprintf(card->dev, sizeof(card->dev), "%.31s", info.name);
	snprintf(card->driver, sizeof(card->driver), "%.31s", info.driver);
	snprintf(card->provider, sizeof(card->provider), "%.39s", info.provider);
	snprintf(card->interface, sizeof(card->interface), "%.39s", info.interface);
	return lcores_fill(b, card);
}
