/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * An earlier run, for --beside: a file from --json or from --histogram. Any program may have
 * written these files, so every value is checked.
 */

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "perf.h"
#include "plot.h"

/*
 * Maximum number of bytes of a file. The file of a run over all sizes, with histograms, has less
 * than 1 MB.
 */
#define FILE_MAX (64u << 20)

static int
wrong(const char *path, const char *why)
{
	perf_msg("--beside %s: %s", path, why);
	return -EINVAL;
}

/* ---- a file of --json ---- */

static const char *
text_of(struct json_object *o, const char *key)
{
	struct json_object *v;

	if (!json_object_object_get_ex(o, key, &v) || !json_object_is_type(v, json_type_string))
		return "";
	return json_object_get_string(v);
}

/* Return a number of an object; 0: it is missing, or makes no sense. */
static double
number_of(struct json_object *o, const char *key)
{
	struct json_object *v;
	double number;

	if (!json_object_object_get_ex(o, key, &v) ||
	    !(json_object_is_type(v, json_type_double) || json_object_is_type(v, json_type_int)))
		return 0;
	number = json_object_get_double(v);
	return isfinite(number) && number > 0 && number < 1e18 ? number : 0;
}

static int
add_result(struct plot_run *run, struct json_object *o, const char *test)
{
	struct json_object *bytes;
	struct plot_row *row;

	if (!json_object_is_type(o, json_type_object))
		return -EINVAL;
	row = plot_run_add(run, text_of(o, "op"), (uint64_t)number_of(o, "bytes"));
	if (row == NULL)
		return -ENOMEM;
	/* number_of() also returns 0 if there is no valid size: accept it only if 0 was written. */
	if (row->size == 0 &&
	    (!json_object_object_get_ex(o, "bytes", &bytes) ||
	     !json_object_is_type(bytes, json_type_int) || json_object_get_int64(bytes) != 0))
		return -EINVAL;
	if (strcmp(test, "lat") == 0) {
		row->value = number_of(o, "p50_us");
		row->upper = number_of(o, "p99_us");
	} else {
		row->value = number_of(o, strcmp(test, "bw") == 0 ? "mb_per_s" : "mmsg_per_s");
	}
	/* The bandwidth of size 0 is 0. */
	return row->op[0] != '\0' && (row->value > 0 || row->size == 0) ? 0 : -EINVAL;
}

static int
read_json(struct plot_run *run, const char *path, const char *text, const char *test)
{
	struct json_object *o = json_tokener_parse(text), *results;
	int ret = 0;
	size_t i, n;

	if (o == NULL)
		return wrong(path, "it is not JSON");
	if (!json_object_is_type(o, json_type_object) ||
	    strcmp(text_of(o, "schema"), "leat-perf") != 0 ||
	    !json_object_object_get_ex(o, "results", &results) ||
	    !json_object_is_type(results, json_type_array)) {
		ret = wrong(path, "it is not from leat-perf --json");
	} else if (strcmp(text_of(o, "test"), test) != 0) {
		ret = wrong(path, "it is of another --test than this run");
	} else {
		n = json_object_array_length(results);
		for (i = 0; i < n && ret == 0; i++)
			ret = add_result(run, json_object_array_get_idx(results, i), test);
		if (ret < 0 || n == 0)
			ret = wrong(path, "its results are not those of leat-perf --json");
	}
	(void)json_object_put(o);
	return ret;
}

/* ---- a file of --histogram ---- */

/* Return the value, us, below which a share (0 to 1) of the samples lies. */
static double
percentile(const struct plot_row *row, double share)
{
	double all = 0, sum = 0;
	size_t i;

	for (i = 0; i < row->nb_buckets; i++)
		all += row->buckets[i].count;
	for (i = 0; i < row->nb_buckets; i++) {
		sum += row->buckets[i].count;
		if (sum >= share * all)
			return row->buckets[i].to / 1e3;
	}
	return 0;
}

static int
read_line(struct plot_run *run, const char *line)
{
	uint64_t from, to, count, size;
	char op[16];

	if (sscanf(line, "# op %15[a-z_], bytes %" SCNu64, op, &size) == 2)
		return plot_run_add(run, op, size) == NULL ? -ENOMEM : 0;
	if (line[0] == '#' || line[0] == '\0')
		return 0;
	if (run->nb_rows == 0 ||
	    sscanf(line, "%" SCNu64 " %" SCNu64 " %" SCNu64, &from, &to, &count) != 3 || to < from)
		return -EINVAL;
	return plot_row_add(&run->rows[run->nb_rows - 1], (double)from, (double)to, (double)count);
}

static int
read_histogram(struct plot_run *run, const char *path, char *text, const char *test)
{
	char *line, *rest = text;
	int ret = 0;
	size_t i;

	if (strcmp(test, "lat") != 0)
		return wrong(path, "it is a histogram, and this run has none (--test lat has)");
	while (ret == 0 && (line = strsep(&rest, "\n")) != NULL)
		ret = read_line(run, line);
	for (i = 0; i < run->nb_rows; i++) {
		run->rows[i].value = percentile(&run->rows[i], 0.5);
		run->rows[i].upper = percentile(&run->rows[i], 0.99);
		if (!(run->rows[i].value > 0))
			ret = -EINVAL;
	}
	if (ret < 0 || run->nb_rows == 0)
		return wrong(path, "it is not from leat-perf --histogram");
	return 0;
}

/* ---- files of either kind ---- */

/* Read a whole file, and append a 0. @return NULL after printing a message */
static char *
read_file(const char *path)
{
	FILE *f = fopen(path, "re");
	char *text = NULL;
	size_t size = 0;

	if (f == NULL) {
		perf_msg("--beside %s: %s", path, strerror(errno));
		return NULL;
	}
	text = malloc(FILE_MAX + 1);
	if (text == NULL)
		perf_msg("--beside: out of memory");
	else
		size = fread(text, 1, FILE_MAX + 1, f);
	if (text != NULL && (ferror(f) != 0 || size > FILE_MAX)) {
		perf_msg("--beside %s: %s", path, size > FILE_MAX ? "too long" : "can't read it");
		free(text);
		text = NULL;
	}
	(void)fclose(f);
	if (text != NULL)
		text[size] = '\0';
	return text;
}

int
plot_read(struct plot_run *run, const char *path, const char *test)
{
	char *text = read_file(path);
	const char *first = text, *name;
	int ret;

	if (text == NULL)
		return -EIO;
	while (isspace((unsigned char)*first))
		first++;
	if (*first == '\0')
		ret = wrong(path, "it is empty");
	else if (*first == '{')
		ret = read_json(run, path, text, test);
	else if (*first != '#')
		ret = wrong(path, "it is neither from leat-perf --json nor from --histogram");
	else
		ret = read_histogram(run, path, text, test);
	free(text);
	if (ret < 0)
		plot_run_free(run);
	name = strrchr(path, '/');
	snprintf(run->name, sizeof(run->name), "%.90s", name != NULL ? name + 1 : path);
	return ret;
}
