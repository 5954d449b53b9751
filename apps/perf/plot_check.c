/* SPDX-License-Identifier: BSD-3-Clause */

/* Check --plot and --beside, so that a mistake does not cost a measurement. */

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "perf.h"
#include "plot.h"

/* Refuse a name that promises a picture of another format. */
static int
check_suffix(const char *path)
{
	static const char *const others[] = { ".png", ".pdf", ".jpg",  ".jpeg", ".gif", ".webp",
					      ".ps",  ".eps", ".tiff", ".tif",	".bmp" };
	const char *suffix = strrchr(path, '.');
	size_t i;

	for (i = 0; suffix != NULL && i < RTE_DIM(others); i++) {
		if (strcasecmp(suffix, others[i]) == 0) {
			perf_msg("--plot %s: the picture is SVG: name it %.*s.svg", path,
				 (int)(suffix - path), path);
			return -EINVAL;
		}
	}
	return 0;
}

/* Check that the file can be written, without creating or changing it. */
static int
check_writable(const char *path)
{
	const char *slash = strrchr(path, '/');
	struct stat st;
	char *dir;
	int ret;

	if (stat(path, &st) == 0) {
		ret = S_ISDIR(st.st_mode) ? -EISDIR : access(path, W_OK) < 0 ? -errno : 0;
	} else if (slash != NULL) {
		dir = strndup(path, slash == path ? 1 : (size_t)(slash - path));
		if (dir == NULL)
			ret = -ENOMEM;
		else
			ret = access(dir, W_OK | X_OK) < 0 ? -errno : 0;
		free(dir);
	} else {
		ret = access(".", W_OK | X_OK) < 0 ? -errno : 0;
	}
	if (ret < 0)
		perf_msg("--plot %s: %s", path, strerror(-ret));
	return ret;
}

/* Does this run have a single size? If so, store it. */
static bool
single_size(const struct perf_options *o, uint64_t *size)
{
	uint32_t i;

	/* As perf_plan_default_sizes(). */
	if (o->nb_sizes == 0) {
		*size = 8;
		return (o->ops & ~PERF_OPS_ATOMIC) == 0;
	}
	*size = o->sizes[0];
	for (i = 1; i < o->nb_sizes; i++) {
		if (o->sizes[i] != o->sizes[0])
			return false;
	}
	return true;
}

/* If this run draws the histogram of a size, the earlier run must have histograms of it only. */
static int
check_earlier(const struct perf_options *o)
{
	const struct plot_run *run = o->earlier;
	uint64_t size, min = UINT64_MAX, max = 0;
	bool json = false;
	char has[64];
	size_t i;

	if (o->test != PERF_LAT || !single_size(o, &size))
		return 0;
	for (i = 0; i < run->nb_rows; i++) {
		min = RTE_MIN(min, run->rows[i].size);
		max = RTE_MAX(max, run->rows[i].size);
		json = json || run->rows[i].nb_buckets == 0;
	}
	if (!json && min == size && max == size)
		return 0;
	if (min == max)
		snprintf(has, sizeof(has), "%" PRIu64 " bytes", min);
	else
		snprintf(has, sizeof(has), "%" PRIu64 " to %" PRIu64 " bytes", min, max);
	perf_msg("--beside %s: it has %s of %s; this run's plot is the histogram of %" PRIu64
		 " bytes, and needs a file of --histogram --size %" PRIu64,
		 o->beside, json ? "the percentiles (--json)" : "histograms", has, size, size);
	return -EINVAL;
}

int
perf_plot_check(struct perf_options *o)
{
	if (strcmp(o->plot, "-") == 0) {
		perf_msg("--plot -: name a file; the results are on standard output");
		return -EINVAL;
	}
	if (check_suffix(o->plot) < 0 || check_writable(o->plot) < 0)
		return -EINVAL;
	if (o->beside == NULL)
		return 0;
	o->earlier = calloc(1, sizeof(*o->earlier));
	if (o->earlier == NULL) {
		perf_msg("--beside: out of memory");
		return -ENOMEM;
	}
	if (plot_read(o->earlier, o->beside, perf_test_name(o->test)) < 0)
		return -EINVAL;
	return check_earlier(o);
}

void
perf_plot_check_free(struct perf_options *o)
{
	if (o->earlier != NULL)
		plot_run_free(o->earlier);
	free(o->earlier);
	o->earlier = NULL;
}
