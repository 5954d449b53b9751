/* SPDX-License-Identifier: BSD-3-Clause */

/* Drivers and devices as text. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <leat_dev.h>
#include <leat_error.h>

#include "list.h"

/* A list's key is printed in front of its first item only; further items stand below that item. */
struct text_list {
	const char *key; /* key of the list being printed, or NULL */
};

static void
on_device(void *arg, const char *spec)
{
	struct text_list *t = arg;
	/* quoted where a shell needs it */
	const char *quote = strpbrk(spec, ";&|<>()$`\\\"' *?[#~") == NULL ? "" : "'";

	t->key = NULL;
	printf("--vdev=%s%s%s\n", quote, spec, quote);
}

static void
on_none(void *arg, const char *driver, const char *why)
{
	(void)arg;
	(void)driver;
	printf("%s\n", why);
}

static void
on_text(void *arg, const char *key, const char *value)
{
	struct text_list *t = arg;

	t->key = NULL;
	printf("  %-15s %s\n", key, value);
}

static void
on_number(void *arg, const char *key, uint64_t value)
{
	struct text_list *t = arg;

	t->key = NULL;
	printf("  %-15s %" PRIu64 "\n", key, value);
}

static void
on_item(void *arg, const char *key, const char *value)
{
	struct text_list *t = arg;

	printf("  %-15s %s\n", t->key != NULL && strcmp(t->key, key) == 0 ? "" : key, value);
	t->key = key;
}

static void
print_info(const struct leat_dev_info *i)
{
	unsigned int t;

	printf("%s: driver %s%s%s%s%s\n", i->name, i->driver,
	       i->provider[0] != '\0' ? ", provider " : "", i->provider,
	       i->interface[0] != '\0' ? ", interface " : "", i->interface);
	printf("  ops            ");
	for (t = 0; t < LEAT_OP_TYPES; t++) {
		if ((i->ops & LEAT_OP_BIT(t)) != 0)
			printf(" %s%s", leat_op_type_name(t),
			       (i->ops_software & LEAT_OP_BIT(t)) != 0 ? " (in software)" : "");
	}
	printf("\n  message up to   %" PRIu64 " B; copied when posted up to %u B\n", i->max_msg,
	       i->inline_max);
	printf("  peers           %u; ", i->max_peers);
	if (i->dead_peer_ms > 0)
		printf("a dead one is noticed within %u ms\n", i->dead_peer_ms);
	else
		puts("a dead one is not noticed");
	printf("  send depth      %u, at most %u\n", i->tx_depth, i->tx_depth_max);
	printf("  receive depth   %u, at most %u\n", i->rx_depth, i->rx_depth_max);
	printf("  immediate       %u B%s\n", i->imm_size, i->send_imm ? ", with sends too" : "");
	printf("  properties     %s%s%s%s%s%s\n", i->mr_local ? " mr_local" : "",
	       i->directed_recv ? " directed_recv" : "", i->source ? " source" : "",
	       i->in_order ? " in_order" : "", i->write_order ? " write_order" : "",
	       i->cancel_send ? " cancel_send" : "");
}

static int
devices_text(void)
{
	struct text_list t = { 0 };
	const struct leat_dev_sink to = { on_device, on_none, on_text, on_number, on_item, &t };
	struct leat_dev_info i;
	unsigned int n;
	int ret = 0;

	if (leat_dev_count() == 0)
		ret = leat_dev_list(&to);
	for (n = 0; n < leat_dev_count() && ret == 0; n++) {
		ret = leat_dev_info_get(leat_dev_get(n), &i);
		if (ret < 0)
			break;
		print_info(&i);
		ret = leat_dev_describe(leat_dev_get(n), &to);
	}
	return ret;
}

static void
print_driver(const struct leat_driver_info *i)
{
	const struct leat_driver_arg *a;
	char arg[64];

	if (i->error != NULL) {
		printf("%s: not loaded: %s\n", i->name, i->error);
		return;
	}
	printf("%s: %s\n", i->name, i->description);
	printf("  --vdev=%sN[,key=value...]\n", i->name);
	for (a = i->args; a->name != NULL; a++) {
		snprintf(arg, sizeof(arg), "%s=%s", a->name, a->value);
		printf("    %-24s %s", arg, a->help);
		if (a->def != NULL && a->def[0] != '\0')
			printf(" (default: %s)", a->def);
		printf("\n");
	}
}

static int
drivers_text(void)
{
	const struct leat_driver_info *i = leat_driver_next(NULL);

	if (i == NULL)
		printf("no drivers: load plugins with -d FILE\n");
	for (; i != NULL; i = leat_driver_next(i)) {
		print_driver(i);
		if (leat_driver_next(i) != NULL)
			printf("\n");
	}
	return 0;
}

static int
flushed(int ret)
{
	if (ret == 0 && (fflush(stdout) != 0 || ferror(stdout) != 0))
		return leat_err(EIO, "stdout: can't write");
	return ret;
}

int
list_drivers(bool json)
{
	return json ? list_drivers_json() : flushed(drivers_text());
}

int
list_devices(bool json)
{
	return json ? list_devices_json() : flushed(devices_text());
}
