/* SPDX-License-Identifier: BSD-3-Clause */

/* --list-devices as text. */

#include <string.h>

#include <leat_dev.h>
#include <leat_error.h>

#include "perf.h"

/* What a driver tells, a line each; values of a list one below the other. */
struct text_list {
	const char *key; /* of the list under way, or NULL */
};

static void
on_device(void *arg, const char *spec)
{
	struct text_list *t = arg;
	/* as a shell takes it */
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
	printf("  peers           %u; a dead one is noticed within %u ms\n", i->max_peers,
	       i->dead_peer_ms);
	printf("  send depth      %u, at most %u\n", i->tx_depth, i->tx_depth_max);
	printf("  receive depth   %u, at most %u\n", i->rx_depth, i->rx_depth_max);
	printf("  immediate       %u B%s\n", i->imm_size, i->send_imm ? ", with sends too" : "");
	printf("  properties     %s%s%s%s%s\n", i->mr_local ? " mr_local" : "",
	       i->directed_recv ? " directed_recv" : "", i->source ? " source" : "",
	       i->in_order ? " in_order" : "", i->cancel_send ? " cancel_send" : "");
}

static int
list_text(void)
{
	struct text_list t = { 0 };
	const struct leat_dev_sink to = { on_device, on_none, on_text, on_number, on_item, &t };
	struct leat_dev_info i;
	unsigned int n;
	int ret = 0;

	if (leat_dev_count() == 0)
		ret = leat_dev_candidates(&to);
	for (n = 0; n < leat_dev_count() && ret == 0; n++) {
		ret = leat_dev_info_get(leat_dev_get(n), &i);
		if (ret < 0)
			break;
		print_info(&i);
		ret = leat_dev_describe(leat_dev_get(n), &to);
	}
	return ret;
}

int
perf_list_devices(bool json)
{
	if ((json ? perf_json_devices() : list_text()) < 0) {
		perf_msg("%s", leat_err_msg());
		return PERF_EXIT_FAILED;
	}
	if (fflush(stdout) != 0) {
		perf_msg("stdout: can't write");
		return PERF_EXIT_FAILED;
	}
	return PERF_EXIT_OK;
}
