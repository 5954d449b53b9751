/* SPDX-License-Identifier: BSD-3-Clause */

/* The drivers of this process, which register from their plugins' constructors, and their arguments. */

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "fabric_pvt.h"

#define DRIVERS_MAX 32

/* Constructors run one at a time (the loader's lock), and nobody reads before they are through. */
static const struct leat_driver *drivers[DRIVERS_MAX];
static int nb_drivers;

void
LEAT_DRIVER_REGISTER_FN(const struct leat_driver *drv)
{
	int i;

	for (i = 0; i < nb_drivers; i++) {
		if (strcmp(drivers[i]->name, drv->name) == 0) {
			/* The same plugin from the build tree and from the installed directory, say. */
			LEAT_LOG(DEBUG, fabric, "driver %s is there already: the first one stays",
				 drv->name);
			return;
		}
	}
	if (nb_drivers == DRIVERS_MAX) {
		LEAT_LOG(ERR, fabric, "driver %s: more than %d drivers", drv->name, DRIVERS_MAX);
		return;
	}
	/* Sorted, so that lists and messages don't depend on the order of loading. */
	for (i = nb_drivers; i > 0 && strcmp(drivers[i - 1]->name, drv->name) > 0; i--)
		drivers[i] = drivers[i - 1];
	drivers[i] = drv;
	nb_drivers++;
}

int
leat_driver_count(void)
{
	return nb_drivers;
}

const struct leat_driver *
leat_driver_at(int i)
{
	return i < nb_drivers ? drivers[i] : NULL;
}

const struct leat_driver *
leat_driver_by_dev_name(const char *dev_name)
{
	size_t len = strcspn(dev_name, ",");
	int i;

	while (len > 0 && isdigit((unsigned char)dev_name[len - 1]))
		len--;
	for (i = 0; i < nb_drivers; i++) {
		if (strlen(drivers[i]->name) == len &&
		    strncmp(drivers[i]->name, dev_name, len) == 0)
			return drivers[i];
	}
	return NULL;
}

const char *
leat_driver_names(char *buf, size_t len)
{
	size_t pos = 0;
	int i;

	if (nb_drivers == 0)
		return "none";
	buf[0] = '\0';
	for (i = 0; i < nb_drivers && pos < len; i++) {
		int n = snprintf(buf + pos, len - pos, "%s%s", i > 0 ? ", " : "", drivers[i]->name);

		if (n < 0)
			break;
		pos += (size_t)n;
	}
	return buf;
}

static bool
key_known(const struct leat_driver *drv, const char *key)
{
	const struct leat_driver_arg *a;

	for (a = drv->args; a != NULL && a->name != NULL; a++) {
		if (strcmp(a->name, key) == 0)
			return true;
	}
	return false;
}

static const char *
key_list(const struct leat_driver *drv, char *buf, size_t len)
{
	const struct leat_driver_arg *a;
	size_t pos = 0;

	snprintf(buf, len, "none");
	for (a = drv->args; a != NULL && a->name != NULL && pos < len; a++) {
		int n = snprintf(buf + pos, len - pos, "%s%s", pos > 0 ? ", " : "", a->name);

		if (n < 0)
			break;
		pos += (size_t)n;
	}
	return buf;
}

struct rte_kvargs *
leat_driver_kvargs(const struct leat_driver *drv, const char *dev_name, const char *args)
{
	char known[160];
	struct rte_kvargs *kv;
	unsigned int i, j;

	kv = rte_kvargs_parse(args, NULL);
	if (kv == NULL) {
		leat_err(EINVAL, "%s: malformed arguments '%s': key=value,key=value,... expected",
			 dev_name, args);
		return NULL;
	}
	for (i = 0; i < kv->count; i++) {
		const char *key = kv->pairs[i].key;

		if (!key_known(drv, key)) {
			leat_err(EINVAL, "%s: unknown argument '%s'; %s knows: %s", dev_name, key,
				 drv->name, key_list(drv, known, sizeof(known)));
			goto bad;
		}
		if (kv->pairs[i].value == NULL || kv->pairs[i].value[0] == '\0') {
			leat_err(EINVAL, "%s: argument '%s' has no value", dev_name, key);
			goto bad;
		}
		for (j = 0; j < i; j++) {
			if (strcmp(kv->pairs[j].key, key) == 0) {
				leat_err(EINVAL, "%s: argument '%s' is given twice", dev_name, key);
				goto bad;
			}
		}
	}
	return kv;
bad:
	rte_kvargs_free(kv);
	return NULL;
}

int
leat_kv_u32(const struct rte_kvargs *kv, const char *key, uint32_t min, uint32_t max, uint32_t *out)
{
	const char *s = leat_kv_str(kv, key);
	unsigned long long v;
	char *end;

	if (s == NULL)
		return 0;
	errno = 0;
	v = strtoull(s, &end, 0);
	if (errno != 0 || end == s || *end != '\0' || s[0] == '-' || v < min || v > max)
		return leat_err(EINVAL, "argument %s=%s: a whole number from %u to %u expected",
				key, s, min, max);
	*out = (uint32_t)v;
	return 0;
}

static void
json_str(FILE *f, const char *s)
{
	fputc('"', f);
	for (; s != NULL && *s != '\0'; s++) {
		if (*s == '"' || *s == '\\')
			fputc('\\', f);
		fputc(*s, f);
	}
	fputc('"', f);
}

static void
list_json(FILE *f)
{
	const struct leat_driver_arg *a;
	int i;

	fputs("[", f);
	for (i = 0; i < nb_drivers; i++) {
		fprintf(f, "%s\n  {\"name\": ", i > 0 ? "," : "");
		json_str(f, drivers[i]->name);
		fputs(", \"description\": ", f);
		json_str(f, drivers[i]->description);
		fputs(", \"args\": [", f);
		for (a = drivers[i]->args; a != NULL && a->name != NULL; a++) {
			fprintf(f, "%s\n    {\"name\": ", a != drivers[i]->args ? "," : "");
			json_str(f, a->name);
			fputs(", \"value\": ", f);
			json_str(f, a->value);
			fputs(", \"default\": ", f);
			json_str(f, a->def);
			fputs(", \"help\": ", f);
			json_str(f, a->help);
			fputs("}", f);
		}
		fputs("]}", f);
	}
	fputs("\n]\n", f);
}

static void
list_text(FILE *f)
{
	const struct leat_driver_arg *a;
	char arg[64];
	int i;

	for (i = 0; i < nb_drivers; i++) {
		fprintf(f, "%s%s: %s\n", i > 0 ? "\n" : "", drivers[i]->name,
			drivers[i]->description);
		fprintf(f, "  --vdev=%sN[,key=value...]\n", drivers[i]->name);
		for (a = drivers[i]->args; a != NULL && a->name != NULL; a++) {
			snprintf(arg, sizeof(arg), "%s=%s", a->name, a->value);
			fprintf(f, "    %-24s %s", arg, a->help);
			if (a->def != NULL && a->def[0] != '\0')
				fprintf(f, " (default: %s)", a->def);
			fputc('\n', f);
		}
	}
}

int
leat_drivers_list(FILE *f, bool json)
{
	if (json)
		list_json(f);
	else if (nb_drivers == 0)
		fputs("no drivers: load plugins with -d FILE\n", f);
	else
		list_text(f);
	if (fflush(f) != 0 || ferror(f) != 0)
		return leat_err(EIO, "list of drivers: can't write");
	return 0;
}
