/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The drivers of this process, which register themselves from their plugins' constructors, and the
 * values of their arguments.
 */

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "fabric_pvt.h"

#define DRIVERS_MAX 32
#define FAILED_MAX 32

static const struct leat_driver_arg no_args[] = { { NULL, NULL, NULL, NULL } };

/*
 * The loaded drivers, sorted by name so that lists and messages don't depend on the order of
 * loading; after them the plugins that could not be loaded. Constructors run one at a time (the
 * loader's lock), and no thread reads the table before all of them ended.
 */
static struct entry {
	struct leat_driver_info info;  /* must be first: leat_driver_next() casts it to entry */
	const struct leat_driver *drv; /* NULL: not loaded */
} drivers[DRIVERS_MAX + FAILED_MAX];
static int nb_drivers; /* loaded drivers */
static int nb_failed;

static struct entry *
insert(int at)
{
	int n = nb_drivers + nb_failed;

	memmove(&drivers[at + 1], &drivers[at], (size_t)(n - at) * sizeof(drivers[0]));
	memset(&drivers[at], 0, sizeof(drivers[0]));
	return &drivers[at];
}

void
LEAT_DRIVER_REGISTER_FN(const struct leat_driver *drv)
{
	struct entry *e;
	int i;

	for (i = 0; i < nb_drivers; i++) {
		if (strcmp(drivers[i].info.name, drv->name) == 0) {
			/* The plugin may be in the build tree and in the installed directory. */
			LEAT_LOG(DEBUG, fabric,
				 "driver %s is registered already: the first one stays", drv->name);
			return;
		}
	}
	if (nb_drivers == DRIVERS_MAX) {
		LEAT_LOG(ERR, fabric, "driver %s: more than %d drivers", drv->name, DRIVERS_MAX);
		return;
	}
	for (i = nb_drivers; i > 0 && strcmp(drivers[i - 1].info.name, drv->name) > 0; i--)
		;
	e = insert(i);
	e->drv = drv;
	e->info.name = drv->name;
	e->info.description = drv->description != NULL ? drv->description : "";
	e->info.args = drv->args != NULL ? drv->args : no_args;
	nb_drivers++;
}

void
leat_driver_failed(const char *plugin, const char *why)
{
	char *name, *error;
	struct entry *e;
	int i;

	for (i = nb_drivers; i < nb_drivers + nb_failed; i++) {
		if (strcmp(drivers[i].info.name, plugin) == 0)
			return;
	}
	/* Never freed: leat_driver_next() hands out these strings, as it does a loaded driver's. */
	name = strdup(plugin);
	error = strdup(why);
	if (name == NULL || error == NULL || nb_failed == FAILED_MAX) {
		free(name);
		free(error);
		return;
	}
	e = insert(nb_drivers + nb_failed);
	e->info.name = name;
	e->info.description = "";
	e->info.args = no_args;
	e->info.error = error;
	nb_failed++;
}

const struct leat_driver_info *
leat_driver_next(const struct leat_driver_info *prev)
{
	const struct entry *e = prev == NULL ? drivers : (const struct entry *)prev + 1;

	return e < drivers + nb_drivers + nb_failed ? &e->info : NULL;
}

int
leat_driver_count(void)
{
	return nb_drivers;
}

const struct leat_driver *
leat_driver_at(int i)
{
	return i < nb_drivers ? drivers[i].drv : NULL;
}

const struct leat_driver *
leat_driver_by_dev_name(const char *dev_name)
{
	size_t len = strcspn(dev_name, ",");
	int i;

	while (len > 0 && isdigit((unsigned char)dev_name[len - 1]))
		len--;
	for (i = 0; i < nb_drivers; i++) {
		if (strlen(drivers[i].info.name) == len &&
		    strncmp(drivers[i].info.name, dev_name, len) == 0)
			return drivers[i].drv;
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
		int n = snprintf(buf + pos, len - pos, "%s%s", i > 0 ? ", " : "",
				 drivers[i].info.name);

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

/* Write ", which fabric_x has" if driver fabric_x knows the key, or "" if no other driver does. */
static const char *
known_by_other(const char *key, char *buf, size_t len)
{
	int i;

	buf[0] = '\0';
	for (i = 0; i < nb_drivers; i++) {
		if (key_known(drivers[i].drv, key)) {
			snprintf(buf, len, ", which %s has", drivers[i].info.name);
			break;
		}
	}
	return buf;
}

struct rte_kvargs *
leat_driver_kvargs(const struct leat_driver *drv, const char *dev_name, const char *args)
{
	char known[160], owner[64];
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
			leat_err(EINVAL, "%s: unknown argument '%s'%s; %s knows: %s", dev_name, key,
				 known_by_other(key, owner, sizeof(owner)), drv->name,
				 key_list(drv, known, sizeof(known)));
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
leat_driver_arg_u32(const struct rte_kvargs *kv, const char *key, uint32_t min, uint32_t max,
		    uint32_t *out)
{
	const char *s = leat_driver_arg_str(kv, key);
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
