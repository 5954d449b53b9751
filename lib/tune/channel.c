/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <leat_channel.h>

#include "channel_tune.h"
#include "leat_tune_channel.h"
#include "tune_pvt.h"

struct leat_tune_channel {
	struct leat_tune_object *tune;
	char name[];
};

static const char *
state_name(int ret, bool ended)
{
	switch (ret) {
	case 0:
		return ended ? "ended" : "open";
	case -ENOENT:
		return "absent";
	case -EAGAIN:
		return "incomplete";
	case -EPROTO:
		return "corrupt";
	default:
		return "unreadable";
	}
}

static void
report(void *arg, void *to)
{
	const struct leat_tune_channel *c = arg;
	struct channel_tune_report *r = to;
	struct leat_channel_info info;
	int ret = leat_channel_inspect_name(c->name, &info);

	snprintf(r->state, sizeof(r->state), "%s", state_name(ret, ret == 0 && info.ended));
	if (ret < 0)
		return;
	r->sent = info.count[LEAT_CHANNEL_SENT];
	r->received = info.count[LEAT_CHANNEL_RECEIVED];
	r->full = info.count[LEAT_CHANNEL_FULL];
	r->overwritten = info.count[LEAT_CHANNEL_OVERWRITTEN];
	r->lost = info.count[LEAT_CHANNEL_LOST];
	r->waiting = (int64_t)info.committed + info.returned;
	r->used = (int64_t)(info.write - info.free);
	r->size = (int64_t)info.size;
	r->participants = info.participants;
}

struct leat_tune_channel *
leat_tune_channel_add(const char *name)
{
	struct leat_tune_conf conf = {
		.schema = &channel_tune_schema,
		.name = name,
		.report = report,
		.ownerless = true,
	};
	struct leat_tune_channel *c;

	if (name == NULL || name[0] == '\0') {
		leat_err(EINVAL, "tune: a channel without a name");
		return NULL;
	}
	c = malloc(sizeof(*c) + strlen(name) + 1);
	if (c == NULL) {
		leat_err(ENOMEM, "tune: no memory for channel %s", name);
		return NULL;
	}
	memcpy(c->name, name, strlen(name) + 1);
	conf.arg = c;
	c->tune = leat_tune_add(&conf);
	if (c->tune == NULL) {
		free(c);
		return NULL;
	}
	return c;
}

void
leat_tune_channel_del(struct leat_tune_channel *c)
{
	if (c == NULL)
		return;
	leat_tune_del(c->tune);
	free(c);
}
