/* SPDX-License-Identifier: BSD-3-Clause */

/* --plot: collects the rows of this run, and writes the picture when all are there. */

#include <stdlib.h>
#include <string.h>

#include <leat_histogram.h>
#include <leat_version.h>

#include "perf.h"
#include "plot.h"

/* Maximum number of rows and buckets of a run: a file of an earlier run may have any number. */
#define ROWS_MAX 65536
#define BUCKETS_MAX LEAT_HISTOGRAM_BUCKETS

struct perf_plot {
	const struct perf_options *o;
	FILE *f;
	struct plot_run runs[2]; /* this run, and the run of --beside, which o owns */
};

/* Double an array when its count is a power of two. @return false: out of memory */
static bool
grow(void **array, size_t count, size_t size)
{
	void *more;

	if ((count & (count - 1)) != 0)
		return true;
	more = realloc(*array, (count == 0 ? 1 : 2 * count) * size);
	if (more == NULL)
		return false;
	*array = more;
	return true;
}

struct plot_row *
plot_run_add(struct plot_run *run, const char *op, uint64_t size)
{
	struct plot_row *row;

	if (run->nb_rows == ROWS_MAX ||
	    !grow((void **)&run->rows, run->nb_rows, sizeof(run->rows[0])))
		return NULL;
	row = &run->rows[run->nb_rows++];
	memset(row, 0, sizeof(*row));
	snprintf(row->op, sizeof(row->op), "%s", op);
	row->size = size;
	return row;
}

int
plot_row_add(struct plot_row *row, double from, double to, double count)
{
	if (row->nb_buckets == BUCKETS_MAX ||
	    !grow((void **)&row->buckets, row->nb_buckets, sizeof(row->buckets[0])))
		return -ENOMEM;
	row->buckets[row->nb_buckets++] = (struct plot_bucket){ from, to, count };
	return 0;
}

void
plot_run_free(struct plot_run *run)
{
	size_t i;

	for (i = 0; i < run->nb_rows; i++)
		free(run->rows[i].buckets);
	free(run->rows);
	memset(run, 0, sizeof(*run));
}

struct perf_plot *
perf_plot_open(const struct perf_options *o)
{
	struct perf_plot *p = calloc(1, sizeof(*p));

	if (p == NULL) {
		perf_msg("--plot: out of memory");
		return NULL;
	}
	p->o = o;
	if (o->earlier != NULL)
		p->runs[1] = *o->earlier;
	p->f = fopen(o->plot, "we");
	if (p->f == NULL) {
		perf_msg("--plot %s: %s", o->plot, strerror(errno));
		free(p);
		return NULL;
	}
	return p;
}

static int
add_bucket(uint64_t low, uint64_t high, uint64_t count, void *row)
{
	return plot_row_add(row, (double)low, (double)high, (double)count);
}

int
perf_plot_row(struct perf_plot *p, const struct perf_row *row)
{
	struct plot_row *to = plot_run_add(&p->runs[0], perf_op_name(row->op), row->size);
	double ns = row->elapsed_ns == 0 ? 1 : (double)row->elapsed_ns;

	if (to == NULL)
		return -ENOMEM;
	if (row->hist != NULL) {
		to->value = (double)leat_histogram_percentile(row->hist, 50) / 1e3;
		to->upper = (double)leat_histogram_percentile(row->hist, 99) / 1e3;
		return leat_histogram_foreach(row->hist, add_bucket, to);
	}
	to->value = (double)row->iterations * 1e3 / ns;
	if (row->test == PERF_BW)
		to->value *= (double)row->size;
	return 0;
}

static enum plot_unit
unit_of(enum perf_test test)
{
	return test == PERF_LAT ? PLOT_US : test == PERF_BW ? PLOT_MBPS : PLOT_MMSGPS;
}

static void
write_title(const struct perf_plot *p, const struct perf_card *here, char *title, size_t size)
{
	static const char *const what[] = {
		[PERF_LAT] = "latency", [PERF_BW] = "bandwidth", [PERF_RATE] = "message rate"
	};
	const struct plot_run *run = &p->runs[0];

	if (p->o->test == PERF_LAT && run->nb_rows == 1)
		snprintf(title, size, "%s of %" PRIu64 " bytes, %s", what[p->o->test],
			 run->rows[0].size, here->dev);
	else
		snprintf(title, size, "%s, %s", what[p->o->test], here->dev);
}

static bool
has_size_0(const struct plot_run *run)
{
	size_t i;

	for (i = 0; i < run->nb_rows; i++) {
		if (run->rows[i].size == 0)
			return true;
	}
	return false;
}

int
perf_plot_close(struct perf_plot *p, const struct perf_card *here)
{
	char title[PERF_TEXT];
	int ret = 0;

	snprintf(p->runs[0].name, sizeof(p->runs[0].name), "%.32s%s%.40s", here->dev,
		 here->provider[0] != '\0' ? ", " : "", here->provider);
	write_title(p, here, title, sizeof(title));
	/* Without a result the file stays empty; a message that says why was printed before. */
	if (p->runs[0].nb_rows > 0)
		ret = plot_draw(p->f, p->runs, p->o->earlier != NULL ? 2 : 1, unit_of(p->o->test),
				title);
	if (ret == -ENODATA) {
		perf_msg("--plot %s: no value is above 0: there is nothing to draw", p->o->plot);
		ret = 0;
	} else if (p->o->test == PERF_BW && has_size_0(&p->runs[0])) {
		perf_msg("--plot %s: size 0 has no bandwidth, and is left out", p->o->plot);
	}
	if (ferror(p->f) != 0)
		ret = -EIO;
	if (fclose(p->f) != 0)
		ret = -EIO;
	if (ret < 0)
		perf_msg("--plot %s: can't write it: %s", p->o->plot, strerror(errno));
	plot_run_free(&p->runs[0]);
	free(p);
	return ret;
}
