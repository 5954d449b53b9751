/* SPDX-License-Identifier: BSD-3-Clause */

/* The picture of --plot: values over the size of messages, or the histogram of one size. */

#include <errno.h>
#include <math.h>
#include <string.h>

#include "plot.h"

#define LEFT 76
#define RIGHT 20
#define TOP 84
#define BOTTOM 62
/* Number of columns of a histogram. Both runs are drawn in the same columns. */
#define COLUMNS 120
#define LEGEND_MAX 8

static const struct {
	const char *axis;
	const char *legend;
} units[] = {
	[PLOT_US] = { "us", "p50; thin: p99" },
	[PLOT_MBPS] = { "MB/s", "" },
	[PLOT_MMSGPS] = { "million messages/s", "" },
};

static void
axis_take(struct plot_axis *a, double value)
{
	if (!(value > 0))
		return;
	a->min = a->min == 0 || value < a->min ? value : a->min;
	a->max = value > a->max ? value : a->max;
}

static struct plot_axis
axis_x(void)
{
	return (struct plot_axis){ .log = true, .start = LEFT, .end = PLOT_WIDTH - RIGHT };
}

static struct plot_axis
axis_y(bool log)
{
	return (struct plot_axis){ .log = log, .start = PLOT_HEIGHT - BOTTOM, .end = TOP };
}

/* Is row i the first of its op in the run? */
static bool
first_of_op(const struct plot_run *run, size_t i)
{
	size_t k;

	for (k = 0; k < i; k++) {
		if (strcmp(run->rows[k].op, run->rows[i].op) == 0)
			return false;
	}
	return true;
}

static void
legend(FILE *f, unsigned int line, unsigned int series, bool second, const struct plot_run *run,
       const char *op)
{
	char text[160];

	if (line >= LEGEND_MAX)
		return;
	snprintf(text, sizeof(text), "%s: %.120s", op, run->name);
	plot_svg_legend(f, line, series, second, text);
}

/* ---- over the size ---- */

static void
draw_line(FILE *f, const struct plot_axis *x, const struct plot_axis *y, const struct plot_run *run,
	  const char *op, unsigned int series, bool second, bool upper)
{
	size_t i;

	plot_svg_line_begin(f, series, second, upper);
	for (i = 0; i < run->nb_rows; i++) {
		const struct plot_row *row = &run->rows[i];
		double value = upper ? row->upper : row->value;

		if (strcmp(row->op, op) == 0 && row->size > 0 && value > 0)
			plot_svg_line_to(f, plot_place(x, (double)row->size), plot_place(y, value));
	}
	plot_svg_line_end(f);
}

static int
draw_sizes(FILE *f, const struct plot_run *runs, unsigned int nb_runs, enum plot_unit unit,
	   const char *title)
{
	struct plot_axis x = axis_x(), y = axis_y(true);
	unsigned int r, series, line = 0;
	size_t i;

	for (r = 0; r < nb_runs; r++) {
		for (i = 0; i < runs[r].nb_rows; i++) {
			axis_take(&x, (double)runs[r].rows[i].size);
			axis_take(&y, runs[r].rows[i].value);
			axis_take(&y, runs[r].rows[i].upper);
		}
	}
	if (x.max == 0 || y.max == 0)
		return -ENODATA;
	plot_axis_round(&x, 2);
	plot_axis_round(&y, 10);
	plot_svg_begin(f, title);
	plot_svg_x_axis(f, &x, &y, true, "bytes");
	plot_svg_y_axis(f, &x, &y, units[unit].axis);
	plot_svg_text(f, LEFT, y.end - 12, "start", units[unit].legend);
	for (r = 0; r < nb_runs; r++) {
		for (i = 0, series = 0; i < runs[r].nb_rows; i++) {
			if (!first_of_op(&runs[r], i))
				continue;
			draw_line(f, &x, &y, &runs[r], runs[r].rows[i].op, series, r > 0, false);
			if (unit == PLOT_US)
				draw_line(f, &x, &y, &runs[r], runs[r].rows[i].op, series, r > 0,
					  true);
			legend(f, line++, series++, r > 0, &runs[r], runs[r].rows[i].op);
		}
	}
	plot_svg_end(f);
	return 0;
}

/* ---- the histogram of one size ---- */

static double
bucket_middle(const struct plot_bucket *b)
{
	return sqrt(fmax(b->from, 1) * fmax(b->to, 1)) / 1e3;
}

/*
 * End the axis of a histogram at the 99.9th percentile: otherwise a few large latencies would
 * compress all others into a few columns. The last column has all samples beyond the end.
 */
static void
axis_take_buckets(struct plot_axis *x, const struct plot_row *row)
{
	double all = 0, sum = 0;
	size_t i;

	for (i = 0; i < row->nb_buckets; i++)
		all += row->buckets[i].count;
	for (i = 0; i < row->nb_buckets && sum <= 0.999 * all; i++) {
		axis_take(x, bucket_middle(&row->buckets[i]));
		sum += row->buckets[i].count;
	}
}

/* Compute the percentage of the row's samples in each column. @return the largest */
static double
columns_of(const struct plot_row *row, const struct plot_axis *x, double *columns)
{
	double all = 0, most = 0;
	size_t i;

	memset(columns, 0, COLUMNS * sizeof(columns[0]));
	for (i = 0; i < row->nb_buckets; i++)
		all += row->buckets[i].count;
	for (i = 0; i < row->nb_buckets; i++) {
		double share = (plot_place(x, bucket_middle(&row->buckets[i])) - x->start) /
			       (x->end - x->start);
		int at = (int)(share * COLUMNS);

		at = at < 0 ? 0 : at >= COLUMNS ? COLUMNS - 1 : at;
		columns[at] += 100 * row->buckets[i].count / all;
		most = columns[at] > most ? columns[at] : most;
	}
	return most;
}

static void
draw_steps(FILE *f, const struct plot_axis *x, const struct plot_axis *y, const double *columns,
	   unsigned int series, bool second)
{
	const double width = (x->end - x->start) / COLUMNS;
	unsigned int i;

	plot_svg_line_begin(f, series, second, false);
	for (i = 0; i < COLUMNS; i++) {
		plot_svg_line_to(f, x->start + i * width, plot_place(y, columns[i]));
		plot_svg_line_to(f, x->start + (i + 1) * width, plot_place(y, columns[i]));
	}
	plot_svg_line_end(f);
}

static int
draw_histogram(FILE *f, const struct plot_run *runs, unsigned int nb_runs, const char *title)
{
	struct plot_axis x = axis_x(), y = axis_y(false);
	double columns[COLUMNS], most;
	unsigned int r, line = 0;
	size_t i;

	for (r = 0; r < nb_runs; r++) {
		for (i = 0; i < runs[r].nb_rows; i++)
			axis_take_buckets(&x, &runs[r].rows[i]);
	}
	if (x.max == 0)
		return -ENODATA;
	x.min *= 0.8;
	x.max *= 1.25;
	for (r = 0; r < nb_runs; r++) {
		for (i = 0; i < runs[r].nb_rows; i++) {
			most = columns_of(&runs[r].rows[i], &x, columns);
			y.max = most > y.max ? most : y.max;
		}
	}
	plot_axis_round(&y, 10);
	plot_svg_begin(f, title);
	plot_svg_x_axis(f, &x, &y, false, "us; the last column has all above");
	plot_svg_y_axis(f, &x, &y, "% of the samples");
	for (r = 0; r < nb_runs; r++) {
		for (i = 0; i < runs[r].nb_rows; i++) {
			(void)columns_of(&runs[r].rows[i], &x, columns);
			draw_steps(f, &x, &y, columns, (unsigned int)i, r > 0);
			legend(f, line++, (unsigned int)i, r > 0, &runs[r], runs[r].rows[i].op);
		}
	}
	plot_svg_end(f);
	return 0;
}

/* Tell whether all rows of all runs have the same size, and a histogram. */
static bool
one_size(const struct plot_run *runs, unsigned int nb_runs)
{
	unsigned int r;
	size_t i;

	for (r = 0; r < nb_runs; r++) {
		for (i = 0; i < runs[r].nb_rows; i++) {
			if (runs[r].rows[i].size != runs[0].rows[0].size ||
			    runs[r].rows[i].nb_buckets == 0)
				return false;
		}
	}
	return true;
}

int
plot_draw(FILE *f, const struct plot_run *runs, unsigned int nb_runs, enum plot_unit unit,
	  const char *title)
{
	if (runs[0].nb_rows == 0)
		return -ENODATA;
	if (unit == PLOT_US && one_size(runs, nb_runs))
		return draw_histogram(f, runs, nb_runs, title);
	return draw_sizes(f, runs, nb_runs, unit, title);
}
