/* SPDX-License-Identifier: BSD-3-Clause */

/* The schemas of this process, and the check of settings that change together. */

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <leat_error.h>
#include <leat_log.h>

#include "tune_schema.h"

/* Filled by constructors; those of a driver plugin may run while the program runs. */
static const struct leat_tune_schema *schemas[TUNE_SCHEMAS_MAX];
static unsigned int nb_schemas;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void
leat_tune_schema_register(const struct leat_tune_schema *schema)
{
	bool full;

	pthread_mutex_lock(&lock);
	full = nb_schemas == TUNE_SCHEMAS_MAX;
	if (!full)
		schemas[nb_schemas++] = schema;
	pthread_mutex_unlock(&lock);
	if (full)
		LEAT_LOG(ERR, tune, "%s: more than %d schemas", schema->name, TUNE_SCHEMAS_MAX);
}

const struct leat_tune_schema *
tune_schema_at(unsigned int i)
{
	const struct leat_tune_schema *schema;

	pthread_mutex_lock(&lock);
	schema = i < nb_schemas ? schemas[i] : NULL;
	pthread_mutex_unlock(&lock);
	return schema;
}

const struct leat_tune_schema *
tune_schema_find(const char *component)
{
	const struct leat_tune_schema *schema;
	unsigned int i;

	for (i = 0; (schema = tune_schema_at(i)) != NULL; i++)
		if (strcmp(schema->name, component) == 0)
			break;
	return schema;
}

#define DISTANCE_LEN 64

unsigned int
tune_distance(const char *a, const char *b)
{
	size_t i, k, la = strnlen(a, DISTANCE_LEN), lb = strnlen(b, DISTANCE_LEN);
	unsigned int row[DISTANCE_LEN + 1], diagonal, above, least;

	/* row[k]: distance of the first i characters of a and the first k of b */
	for (k = 0; k <= lb; k++)
		row[k] = (unsigned int)k;
	for (i = 1; i <= la; i++) {
		diagonal = row[0];
		row[0] = (unsigned int)i;
		for (k = 1; k <= lb; k++) {
			above = row[k];
			least = above < row[k - 1] ? above : row[k - 1];
			least++;
			diagonal += a[i - 1] != b[k - 1];
			row[k] = least < diagonal ? least : diagonal;
			diagonal = above;
		}
	}
	return row[lb];
}

static bool
is_named(const struct leat_tune_field *f, const char *name)
{
	uint32_t i;

	if (strcmp(f->name, name) == 0)
		return true;
	for (i = 0; i < f->nb_aliases; i++)
		if (strcmp(f->aliases[i], name) == 0)
			return true;
	return false;
}

int
leat_tune_setting_find(const struct leat_tune_schema *schema, const char *name)
{
	unsigned int distance, least = UINT32_MAX;
	const char *nearest = NULL;
	uint32_t i;

	for (i = 0; i < schema->nb_settings; i++) {
		if (is_named(&schema->settings[i], name))
			return (int)i;
		/* A setting that begins with name is nearer than any other. */
		if (name[0] != '\0' && strncmp(schema->settings[i].name, name, strlen(name)) == 0)
			distance = 0;
		else
			distance = tune_distance(schema->settings[i].name, name);
		if (distance < least) {
			least = distance;
			nearest = schema->settings[i].name;
		}
	}
	if (nearest == NULL)
		return leat_err(ENOENT, "%s has no settings", schema->name);
	return leat_err(ENOENT, "%s has no setting '%.64s'; the nearest is '%s'", schema->name,
			name, nearest);
}

#define order_of(left, right) ((int)((left) > (right)) - (int)((left) < (right)))

/* Apply a comparison; order: < 0, 0 or > 0, as from memcmp(3) of left and right. */
static bool
compares(enum leat_tune_compare compare, int order)
{
	switch (compare) {
	case LEAT_TUNE_LT:
		return order < 0;
	case LEAT_TUNE_LE:
		return order <= 0;
	case LEAT_TUNE_GT:
		return order > 0;
	case LEAT_TUNE_GE:
		return order >= 0;
	case LEAT_TUNE_EQ:
		return order == 0;
	case LEAT_TUNE_NE:
		return order != 0;
	}
	return false;
}

static bool
rule_holds(const struct leat_tune_schema *schema, const struct leat_tune_group *g, const void *want)
{
	const struct leat_tune_field *left = &schema->settings[g->left];
	const struct leat_tune_field *right = &schema->settings[g->right];
	uint64_t l = tune_value_get(left, want), r = tune_value_get(right, want);

	if (tune_value_special(left, l) != NULL || tune_value_special(right, r) != NULL)
		return true;
	/* Reals are never NaN: leat_tune_unpack() and leat_tune_parse() refuse it. */
	if (left->type == LEAT_TUNE_REAL)
		return compares(g->compare, order_of(tune_bits_to_real(l), tune_bits_to_real(r)));
	return compares(g->compare, order_of((int64_t)l, (int64_t)r));
}

static int
check_group(const struct leat_tune_schema *schema, const struct leat_tune_group *g,
	    const void *want, uint64_t mask)
{
	char left[32], right[32];
	unsigned int missing;

	if ((mask & g->mask) == 0)
		return 0;
	if ((mask & g->mask) != g->mask) {
		missing = (unsigned int)__builtin_ctzll(g->mask & ~mask);
		return leat_err(EINVAL,
				"%s: '%s' is missing; settings of group '%s' change together",
				schema->name, schema->settings[missing].name, g->name);
	}
	if (g->rule == NULL || rule_holds(schema, g, want))
		return 0;
	leat_tune_format(schema, g->left, want, left, sizeof(left));
	leat_tune_format(schema, g->right, want, right, sizeof(right));
	return leat_err(EINVAL, "%s: %s does not hold for %s and %s", schema->name, g->rule, left,
			right);
}

int
leat_tune_check(const struct leat_tune_schema *schema, const void *want, uint64_t mask,
		bool starting)
{
	uint32_t i;
	int ret;

	for (i = 0; i < schema->nb_settings; i++)
		if ((mask >> i & 1) != 0 && schema->settings[i].when == LEAT_TUNE_START &&
		    !starting)
			return leat_err(
				EPERM,
				"%s.%s takes effect only at start: give it in a file to --settings",
				schema->name, schema->settings[i].name);
	for (i = 0; i < schema->nb_groups; i++) {
		ret = check_group(schema, &schema->groups[i], want, mask);
		if (ret < 0)
			return ret;
	}
	return 0;
}
