/* SPDX-License-Identifier: BSD-3-Clause */

/* --self: sessions between all lcores of this process. */

#include "lead.h"

int
rb_self_run(struct rb_bench *b)
{
	int ret;

	if (leat_app_count() < 2)
		return rb_fail(b, EINVAL,
			       "one process needs two lcores at least: -l 0,1, or on one CPU "
			       "--lcores 0@0,1@0");
	if (b->o.bind == NULL)
		snprintf(b->host, sizeof(b->host), "127.0.0.1");
	else if (rb_host_choose(b, b->host, sizeof(b->host)) < 0)
		return rb_fail(b, EADDRNOTAVAIL, "no address to listen at");
	b->bind = b->host;
	ret = rb_lead_open(b);
	if (ret == 0)
		ret = rb_lead_run(b);
	if (ret == 0)
		ret = rb_lead_close(b);
	return ret;
}

int
rb_self(struct rb_bench *b)
{
	int ret;

	b->plan = b->o.plan;
	if (rb_world_init(&b->world, 0, 1, false) < 0)
		return rb_fail(b, ENOMEM, "out of memory");
	ret = rb_card_fill(b, &rb_world_self(&b->world)->card);
	return ret < 0 ? ret : rb_self_run(b);
}
