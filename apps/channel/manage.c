/* SPDX-License-Identifier: BSD-3-Clause */

/* The commands create, terminate and destroy. */

#include "channel.h"

int
ct_create(const struct ct_options *o)
{
	struct leat_channel *ch = leat_channel_create(o->name, &o->conf, &o->opts);

	if (ch == NULL)
		return ct_failed(o, errno);
	leat_channel_close(ch);
	return CT_EXIT_OK;
}

int
ct_terminate(const struct ct_options *o)
{
	struct leat_channel *ch = ct_open(o);
	int ret;

	if (ch == NULL)
		return CT_EXIT_FAILED;
	ret = leat_channel_terminate(ch);
	if (ret < 0)
		(void)ct_failed(o, -ret);
	leat_channel_close(ch);
	return ret < 0 ? CT_EXIT_FAILED : CT_EXIT_OK;
}

/* Memory of the given name can belong to another program: without --force remove only a channel. */
int
ct_destroy(const struct ct_options *o)
{
	struct leat_channel_info info;
	int ret = 0;

	if (!o->force)
		ret = leat_channel_inspect_name(o->name, &info);
	if (ret == -EPROTO || ret == -EAGAIN || ret == -EINVAL) {
		ct_msg("%s; destroy %s --force removes it nevertheless", leat_channel_error(),
		       o->name);
		return CT_EXIT_FAILED;
	}
	if (ret == 0)
		ret = leat_channel_unlink(o->name);
	return ret < 0 ? ct_failed(o, -ret) : CT_EXIT_OK;
}
