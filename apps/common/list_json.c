/* SPDX-License-Identifier: BSD-3-Clause */

/* Drivers and devices as JSON. */

#include <leat_dev.h>
#include <leat_error.h>

#include "json_add.h"
#include "list.h"

static int
print(struct json_object *o, bool ok)
{
	int ret = json_print(o, ok);

	return ret < 0 ? leat_err(-ret, "stdout: can't write") : 0;
}

/* ---- drivers ---- */

static struct json_object *
driver_arg(const struct leat_driver_arg *a)
{
	struct json_object *o = json_object_new_object();
	bool ok;

	ok = add_str(o, "name", a->name);
	ok &= add_str(o, "value", a->value);
	ok &= add_str(o, "default", a->def != NULL ? a->def : "");
	ok &= add_str(o, "help", a->help);
	if (ok)
		return o;
	(void)json_object_put(o);
	return NULL;
}

static struct json_object *
driver(const struct leat_driver_info *i)
{
	struct json_object *o = json_object_new_object(), *args = json_object_new_array();
	const struct leat_driver_arg *a;
	bool ok = true;

	for (a = i->args; a->name != NULL; a++)
		ok &= append(args, driver_arg(a));
	ok &= add_str(o, "name", i->name);
	ok &= add_str(o, "description", i->description);
	ok &= add(o, "args", args);
	if (i->error != NULL)
		ok &= add_str(o, "error", i->error);
	if (ok)
		return o;
	(void)json_object_put(o);
	return NULL;
}

int
list_drivers_json(void)
{
	struct json_object *list = json_object_new_array();
	const struct leat_driver_info *i;
	bool ok = true;

	for (i = NULL; (i = leat_driver_next(i)) != NULL;)
		ok &= append(list, driver(i));
	return print(list, ok);
}

/* ---- devices ---- */

static struct json_object *
device(const struct leat_dev_info *i)
{
	struct json_object *o = json_object_new_object(), *ops = json_object_new_array();
	bool ok = true;
	unsigned int t;

	ok &= add_str(o, "name", i->name);
	ok &= add_str(o, "driver", i->driver);
	ok &= add_str(o, "provider", i->provider);
	ok &= add_str(o, "interface", i->interface);
	for (t = 0; t < LEAT_OP_TYPES; t++) {
		if ((i->ops & LEAT_OP_BIT(t)) != 0)
			ok &= append(ops, json_object_new_string(leat_op_type_name(t)));
	}
	ok &= add(o, "ops", ops);
	ok &= add_u64(o, "max_msg", i->max_msg);
	ok &= add_u64(o, "inline_max", i->inline_max);
	ok &= add_u64(o, "max_peers", i->max_peers);
	ok &= add_u64(o, "tx_depth", i->tx_depth);
	ok &= add_u64(o, "tx_depth_max", i->tx_depth_max);
	ok &= add_u64(o, "rx_depth", i->rx_depth);
	ok &= add_u64(o, "rx_depth_max", i->rx_depth_max);
	ok &= add_u64(o, "dead_peer_ms", i->dead_peer_ms);
	ok &= add_bool(o, "mr_local", i->mr_local);
	ok &= add_bool(o, "directed_recv", i->directed_recv);
	ok &= add_bool(o, "source", i->source);
	ok &= add_bool(o, "send_imm", i->send_imm);
	ok &= add_u64(o, "imm_size", i->imm_size);
	ok &= add_bool(o, "in_order", i->in_order);
	ok &= add_bool(o, "write_order", i->write_order);
	ok &= add_bool(o, "cancel_send", i->cancel_send);
	if (ok)
		return o;
	(void)json_object_put(o);
	return NULL;
}

struct json_list {
	struct json_object *list;    /* devices */
	struct json_object *details; /* details of the last device in the list */
	bool ok;		     /* no allocation failed */
};

static void
new_entry(struct json_list *l, struct json_object *o)
{
	l->details = json_object_new_object();
	/*
	 * Out of memory: both objects are freed; details NULL lets later on_*() calls add nothing.
	 */
	if (add(o, "details", l->details) && append(l->list, o))
		return;
	l->details = NULL;
	l->ok = false;
}

static void
on_device(void *arg, const char *spec)
{
	struct json_object *o = json_object_new_object();
	struct json_list *l = arg;

	l->ok &= add_str(o, "vdev", spec);
	new_entry(l, o);
}

static void
on_none(void *arg, const char *name, const char *why)
{
	struct json_object *o = json_object_new_object();
	struct json_list *l = arg;

	l->ok &= add_str(o, "driver", name);
	l->ok &= add_str(o, "none", why);
	l->ok &= append(l->list, o);
}

static void
on_text(void *arg, const char *key, const char *value)
{
	struct json_list *l = arg;

	l->ok &= add_str(l->details, key, value);
}

static void
on_number(void *arg, const char *key, uint64_t value)
{
	struct json_list *l = arg;

	l->ok &= add_u64(l->details, key, value);
}

static void
on_item(void *arg, const char *key, const char *value)
{
	struct json_list *l = arg;
	struct json_object *items = NULL;

	if (!json_object_object_get_ex(l->details, key, &items)) {
		items = json_object_new_array();
		if (!add(l->details, key, items))
			items = NULL;
	}
	l->ok &= append(items, json_object_new_string(value));
}

int
list_devices_json(void)
{
	struct json_list l = { .list = json_object_new_array(), .ok = true };
	const struct leat_dev_sink to = { on_device, on_none, on_text, on_number, on_item, &l };
	struct leat_dev_info info;
	unsigned int i;
	int ret = 0;

	if (leat_dev_count() == 0)
		ret = leat_dev_list(&to);
	for (i = 0; i < leat_dev_count() && ret == 0; i++) {
		ret = leat_dev_info_get(leat_dev_get(i), &info);
		if (ret < 0)
			break;
		new_entry(&l, device(&info));
		ret = leat_dev_describe(leat_dev_get(i), &to);
	}
	if (ret < 0) {
		(void)json_object_put(l.list);
		return ret;
	}
	return print(l.list, l.ok);
}
