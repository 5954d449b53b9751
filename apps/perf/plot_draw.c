/* SPDX-License-Identifier: BSD-3-Clause */

/* The picture of --plot: values over the size of messages, or the histogram of one size. */

#include <errno.h>
#include <math.h>
#include <string.h>

#include "plot.h"

#define LEFT 76
#define RIGHT 20
#define TOP 64
#define BOTTOM 62
/* Number of columns of a histogram. Both runs are drawn in the same columns. */
#define COLUMNS 120
/* Maximum number of entries in the legend, and of characters of an entry in two columns. */
#define LEGEND_MAX 32
#define LEGEND_TEXT 42
#define LEGEND_LINE 18

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

static bool
has_op(const struct plot_run *run, const char *op)
{
	size_t i;

	for (i = 0; i < run->nb_rows; i++) {
		if (strcmp(run->rows[i].op, op) == 0)
			return true;
	}
	return false;
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

/* Return the number of an op, which decides its color: both runs have the same for it. */
static unsigned int
series_of(const struct plot_run *runs, unsigned int nb_runs, const char *op)
{
	unsigned int r, series = 0;
	size_t i;

	for (r = 0; r < nb_runs; r++) {
		for (i = 0; i < runs[r].nb_rows; i++) {
			if (strcmp(runs[r].rows[i].op, op) == 0)
				return series;
			if (first_of_op(&runs[r], i) &&
			    (r == 0 || !has_op(&runs[0], runs[r].rows[i].op)))
				series++;
		}
	}
	return series;
}

/* ---- the legend ---- */

/* Lines of the legend below the picture: one per op of a run. */
struct legend {
	unsigned int nb, columns;
};

static void
legend_text(char *text, size_t size, const struct plot_run *run, const char *op)
{
	snprintf(text, size, "%s: %.120s", op, run->name);
}

/* Plan the legend: two columns, or one if a text is long. */
static struct legend
legend_plan(const struct plot_run *runs, unsigned int nb_runs)
{
	struct legend l = { .columns = 2 };
	char text[160];
	unsigned int r;
	size_t i;

	for (r = 0; r < nb_runs; r++) {
		for (i = 0; i < runs[r].nb_rows && l.nb < LEGEND_MAX; i++) {
			if (!first_of_op(&runs[r], i))
				continue;
			legend_text(text, sizeof(text), &runs[r], runs[r].rows[i].op);
			if (strlen(text) > LEGEND_TEXT)
				l.columns = 1;
			l.nb++;
		}
	}
	return l;
}

/* Return the height of the picture with its legend. */
static unsigned int
height_of(const struct legend *l)
{
	return PLOT_HEIGHT + LEGEND_LINE * ((l->nb + l->columns - 1) / l->columns);
}

/* Write entry n of the legend. */
static void
legend(FILE *f, const struct legend *l, unsigned int n, unsigned int series, bool second,
       const struct plot_run *run, const char *op)
{
	const double width = (double)(PLOT_WIDTH - LEFT - RIGHT) / l->columns;
	const unsigned int line = n / l->columns;
	char text[160];

	if (n >= l->nb)
		return;
	legend_text(text, sizeof(text), run, op);
	plot_svg_legend(f, LEFT + width * (n % l->columns), PLOT_HEIGHT - 6 + LEGEND_LINE * line,
			series, second, text);
}

/* ---- over the size ---- */

static double
place_size(const struct plot_axis *x, uint64_t size)
{
	return size == 0 ? x->start : plot_place(x, (double)size);
}

/* Draw the line of an op, and a point at each of its sizes: a line of one size is a point only. */
static void
draw_line(FILE *f, const struct plot_axis *x, const struct plot_axis *y, const struct plot_run *run,
	  const char *op, unsigned int series, bool second, bool upper)
{
	const struct plot_row *row, *end = run->rows + run->nb_rows;
	double value;

	plot_svg_line_begin(f, series, second, upper);
	for (row = run->rows; row < end; row++) {
		value = upper ? row->upper : row->value;
		if (strcmp(row->op, op) == 0 && value > 0)
			plot_svg_line_to(f, place_size(x, row->size), plot_place(y, value));
	}
	plot_svg_line_end(f);
	for (row = run->rows; row < end; row++) {
		value = upper ? row->upper : row->value;
		if (strcmp(row->op, op) == 0 && value > 0)
			plot_svg_point(f, place_size(x, row->size), plot_place(y, value), series,
				       second, upper);
	}
}

/* Give the axis of sizes a place for size 0, one step to the left of the others. */
static void
axis_add_zero(struct plot_axis *x)
{
	if (x->max == 0) {
		x->min = 1;
		x->max = 1;
	}
	plot_axis_round(x, 2);
	x->min /= 2;
	x->zero = true;
}

static int
draw_sizes(FILE *f, const struct plot_run *runs, unsigned int nb_runs, enum plot_unit unit,
	   const char *title)
{
	struct plot_axis x = axis_x(), y = axis_y(true);
	const struct legend l = legend_plan(runs, nb_runs);
	unsigned int r, series, line = 0;
	bool zero = false;
	size_t i;

	for (r = 0; r < nb_runs; r++) {
		for (i = 0; i < runs[r].nb_rows; i++) {
			axis_take(&x, (double)runs[r].rows[i].size);
			zero = zero || (runs[r].rows[i].size == 0 && runs[r].rows[i].value > 0);
			axis_take(&y, runs[r].rows[i].value);
			axis_take(&y, runs[r].rows[i].upper);
		}
	}
	if (y.max == 0)
		return -ENODATA;
	/* Put a single size in the middle of the axis. */
	if (!zero && x.min == x.max && x.min > 1) {
		x.min /= 2;
		x.max *= 2;
	}
	if (zero)
		axis_add_zero(&x);
	else
		plot_axis_round(&x, 2);
	plot_axis_round(&y, 10);
	plot_svg_begin(f, title, height_of(&l));
	plot_svg_x_axis(f, &x, &y, true, "bytes");
	plot_svg_y_axis(f, &x, &y, units[unit].axis);
	plot_svg_text(f, LEFT, y.end - 12, "start", units[unit].legend);
	for (r = 0; r < nb_runs; r++) {
		for (i = 0; i < runs[r].nb_rows; i++) {
			if (!first_of_op(&runs[r], i))
				continue;
			series = series_of(runs, nb_runs, runs[r].rows[i].op);
			draw_line(f, &x, &y, &runs[r], runs[r].rows[i].op, series, r > 0, false);
			if (unit == PLOT_US)
				draw_line(f, &x, &y, &runs[r], runs[r].rows[i].op, series, r > 0,
					  true);
			legend(f, &l, line++, series, r > 0, &runs[r], runs[r].rows[i].op);
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
	const struct legend l = legend_plan(runs, nb_runs);
	double columns[COLUMNS], most;
	unsigned int r, series, line = 0;
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
	plot_svg_begin(f, title, height_of(&l));
	plot_svg_x_axis(f, &x, &y, false, "us; the last column has all above");
	plot_svg_y_axis(f, &x, &y, "% of the samples");
	for (r = 0; r < nb_runs; r++) {
		for (i = 0; i < runs[r].nb_rows; i++) {
			(void)columns_of(&runs[r].rows[i], &x, columns);
			series = series_of(runs, nb_runs, runs[r].rows[i].op);
			draw_steps(f, &x, &y, columns, series, r > 0);
			if (first_of_op(&runs[r], i))
				legend(f, &l, line++, series, r > 0, &runs[r], runs[r].rows[i].op);
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
