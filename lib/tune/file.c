/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The settings file:
 *
 *     # block when idle
 *     reactor.*.idle_policy = block
 *     endpoint.ep0.latency_sample = 64
 *     msg.eager_max = 4096                 # all objects of msg
 *
 * Names of components and settings, and values, are checked when the file is read. Objects are
 * added later. If several lines match a setting of an object, the last line counts.
 */

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tune_pvt.h"
#include "tune_schema.h"

#define LINE_MAX_BYTES 1024
#define LINES_MAX 65536U

struct line {
	struct line *next;
	const struct leat_tune_schema *schema;
	unsigned int setting;
	unsigned int number;
	bool used;
	char *object; /* glob */
	char *value;
};

static char *file_path;
static struct line *lines;

static char *
trim(char *s)
{
	size_t len;

	s += strspn(s, " \t");
	for (len = strlen(s); len > 0 && strchr(" \t\r\n", s[len - 1]) != NULL; len--)
		;
	s[len] = '\0';
	return s;
}

/* Remove the quotes around a value, if any. @return false: the closing quote is missing */
static bool
unquote(char **value)
{
	char *v = *value;
	size_t len = strlen(v);

	if (v[0] != '"')
		return true;
	if (len < 2 || v[len - 1] != '"')
		return false;
	v[len - 1] = '\0';
	*value = v + 1;
	return true;
}

/* Split COMPONENT.OBJECT.SETTING or COMPONENT.SETTING; names of objects may have dots. */
static bool
split(char *name, const char **object, const char **setting)
{
	char *first = strchr(name, '.'), *last = strrchr(name, '.');

	if (first == NULL || last[1] == '\0')
		return false;
	*setting = last + 1;
	*last = '\0';
	*object = "*";
	if (first != last) {
		*first = '\0';
		*object = first + 1;
	}
	return (*object)[0] != '\0';
}

/* Check that text is a valid value of the setting. */
static int
check_value(const struct leat_tune_schema *schema, unsigned int setting, const char *text)
{
	void *scratch = malloc(schema->settings_c_size);
	int ret;

	if (scratch == NULL)
		return leat_err(ENOMEM, "no memory");
	memcpy(scratch, schema->defaults, schema->settings_c_size);
	ret = leat_tune_parse(schema, setting, text, scratch);
	free(scratch);
	return ret;
}

static int
line_add(struct line ***tail, const struct leat_tune_schema *schema, unsigned int setting,
	 const char *object, const char *value)
{
	struct line *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return leat_err(ENOMEM, "no memory");
	l->schema = schema;
	l->setting = setting;
	l->object = strdup(object);
	l->value = strdup(value);
	**tail = l;
	*tail = &l->next;
	return l->object != NULL && l->value != NULL ? 0 : leat_err(ENOMEM, "no memory");
}

static int
parse_line(struct line ***tail, char *text)
{
	const struct leat_tune_schema *schema;
	const char *object, *setting;
	char *equals, *name, *value;
	int ret, index;

	text = trim(text);
	if (text[0] == '\0' || text[0] == '#')
		return 0;
	equals = strchr(text, '=');
	if (equals == NULL)
		return leat_err(EINVAL, "'%s' is not COMPONENT.OBJECT.SETTING = VALUE", text);
	*equals = '\0';
	name = trim(text);
	value = equals + 1;
	if (strchr(value, '"') == NULL && strchr(value, '#') != NULL)
		*strchr(value, '#') = '\0';
	value = trim(value);
	if (!unquote(&value) || !split(name, &object, &setting))
		return leat_err(EINVAL, "'%s' is not COMPONENT.OBJECT.SETTING = VALUE", name);
	schema = tune_schema_find(name);
	if (schema == NULL)
		return -EINVAL;
	index = leat_tune_setting_find(schema, setting);
	if (index < 0)
		return index;
	ret = check_value(schema, (unsigned int)index, value);
	return ret < 0 ? ret : line_add(tail, schema, (unsigned int)index, object, value);
}

static int
parse_file(FILE *f, const char *path)
{
	struct line **tail = &lines;
	char why[LEAT_ERR_MSG_MAX + 1], text[LINE_MAX_BYTES];
	unsigned int number = 0;
	int ret = 0;

	while (ret == 0 && fgets(text, sizeof(text), f) != NULL) {
		number++;
		if (strchr(text, '\n') == NULL && strlen(text) == sizeof(text) - 1)
			ret = leat_err(EINVAL, "the line is longer than %d bytes",
				       LINE_MAX_BYTES - 2);
		else if (number > LINES_MAX)
			ret = leat_err(EINVAL, "there are more than %u lines", LINES_MAX);
		else
			ret = parse_line(&tail, text);
		if (ret == 0 && lines != NULL && container_of(tail, struct line, next)->number == 0)
			container_of(tail, struct line, next)->number = number;
	}
	if (ret == 0 && ferror(f))
		return leat_err(EIO, "settings file %s: it can't be read", path);
	if (ret < 0) {
		snprintf(why, sizeof(why), "%s", leat_err_msg());
		return leat_err(EINVAL, "settings file %s:%u: %s", path, number, why);
	}
	return 0;
}

int
tune_file_load(const char *path)
{
	FILE *f = fopen(path, "re");
	int ret;

	if (f == NULL)
		return leat_err(errno, "settings file %s: %s", path, strerror(errno));
	file_path = strdup(path);
	ret = file_path == NULL ? leat_err(ENOMEM, "settings file %s: no memory", path)
				: parse_file(f, path);
	(void)fclose(f);
	if (ret < 0)
		tune_file_free(false);
	return ret;
}

void
tune_file_free(bool log_unused)
{
	struct line *l;

	while ((l = lines) != NULL) {
		if (log_unused && !l->used)
			LEAT_LOG(WARNING, tune,
				 "settings file %s:%u: there was no object %s.%s: %s had no effect",
				 file_path, l->number, l->schema->name, l->object,
				 l->schema->settings[l->setting].name);
		lines = l->next;
		free(l->object);
		free(l->value);
		free(l);
	}
	free(file_path);
	file_path = NULL;
}

uint64_t
tune_file_apply(const struct leat_tune_schema *schema, const char *name, void *want, int *ret)
{
	char why[LEAT_ERR_MSG_MAX + 1];
	unsigned int number = 0;
	uint64_t mask = 0;
	struct line *l;

	*ret = 0;
	pthread_mutex_lock(&tune_lock);
	for (l = lines; l != NULL && *ret == 0; l = l->next) {
		if (l->schema != schema || fnmatch(l->object, name, 0) != 0)
			continue;
		l->used = true;
		number = l->number;
		mask |= UINT64_C(1) << l->setting;
		*ret = leat_tune_parse(schema, l->setting, l->value, want);
	}
	if (*ret == 0 && mask != 0)
		*ret = leat_tune_check(schema, want, mask, true);
	if (*ret < 0) {
		snprintf(why, sizeof(why), "%s", leat_err_msg());
		*ret = leat_err(-*ret, "settings file %s:%u: %s.%s: %s", file_path, number,
				schema->name, name, why);
	}
	pthread_mutex_unlock(&tune_lock);
	return mask;
}
