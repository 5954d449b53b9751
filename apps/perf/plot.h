/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PERF_PLOT_H
#define PERF_PLOT_H

/*
 * --plot FILE.svg: the results of one run, or of two, as a picture.
 *
 *     plot.c        rows of this run, and when the file is written
 *     plot_check.c  --plot and --beside are checked before the measurement
 *     plot_read.c   the earlier run of --beside: a file of --json or of --histogram
 *     plot_draw.c   the picture: latency, bandwidth or rate over size, or the histogram of one size
 *     plot_svg.c    axes, lines and text as SVG
 *
 *     struct plot_run  name "leat-perf 0.1.0, fabric_ring0"
 *       rows           op, size, value, and the buckets of the histogram
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct perf_options;
struct perf_row;

/* Samples of one bucket of a histogram, ns. */
struct plot_bucket {
	double from, to;
	double count;
};

/* The result of one op at one size. */
struct plot_row {
	char op[16];
	uint64_t size; /* may be 0 */
	double value;  /* lat: median, us; bw: MB/s; rate: million messages/s */
	double upper;  /* lat: 99th percentile, us; else 0 */
	struct plot_bucket *buckets;
	size_t nb_buckets;
};

struct plot_run {
	char name[96]; /* name in the legend */
	struct plot_row *rows;
	size_t nb_rows;
};

/* Unit of the values, which decides the text at the axis. */
enum plot_unit { PLOT_US, PLOT_MBPS, PLOT_MMSGPS };

/* ---- plot.c ---- */

/* Append an empty row. @return NULL: out of memory, or the plot has the maximum number of rows */
struct plot_row *plot_run_add(struct plot_run *run, const char *op, uint64_t size);
/* @return 0, or -ENOMEM */
int plot_row_add(struct plot_row *row, double from, double to, double count);
void plot_run_free(struct plot_run *run);

/* ---- plot_read.c ---- */

/*
 * Read an earlier run. test: the name of this run's test; an earlier run of a different test is
 * refused. @return 0, or a negative errno after printing a message
 */
int plot_read(struct plot_run *run, const char *path, const char *test);

/* ---- plot_draw.c ---- */

/*
 * Draw one or two runs; the first is this run. If all rows have one size, and buckets, draw the
 * histograms, else the values over the size. @return 0, or -ENODATA: there is nothing to draw
 */
int plot_draw(FILE *f, const struct plot_run *runs, unsigned int nb_runs, enum plot_unit unit,
	      const char *title);

/* ---- plot_svg.c ---- */

/* Size of the picture without the legend, which is below. */
#define PLOT_WIDTH 860
#define PLOT_HEIGHT 480

/* An axis of the picture. */
struct plot_axis {
	double min, max;   /* range of the values; above 0 if the axis is logarithmic */
	bool log;	   /* logarithmic */
	bool zero;	   /* logarithmic, and min stands for the value 0 */
	double start, end; /* positions of min and max in the picture */
};

double plot_place(const struct plot_axis *a, double value);
/* Widen the axis to whole steps; the steps of a logarithmic axis are powers of base. */
void plot_axis_round(struct plot_axis *a, double base);
void plot_svg_begin(FILE *f, const char *title, unsigned int height);
void plot_svg_end(FILE *f);
/* anchor: "start", "middle", "end" */
void plot_svg_text(FILE *f, double x, double y, const char *anchor, const char *text);
/* Draw an axis: grid lines with their values, and text. bytes: the values are sizes in bytes. */
void plot_svg_x_axis(FILE *f, const struct plot_axis *x, const struct plot_axis *y, bool bytes,
		     const char *text);
void plot_svg_y_axis(FILE *f, const struct plot_axis *x, const struct plot_axis *y,
		     const char *text);
/*
 * series: decides the color; second: the line of the earlier run, which is dashed; thin: the line
 * of the 99th percentile
 */
void plot_svg_line_begin(FILE *f, unsigned int series, bool second, bool thin);
void plot_svg_line_to(FILE *f, double x, double y);
void plot_svg_line_end(FILE *f);
/* Draw a point of a line: a circle, which is hollow if it belongs to the earlier run. */
void plot_svg_point(FILE *f, double x, double y, unsigned int series, bool second, bool thin);
void plot_svg_legend(FILE *f, double x, double y, unsigned int series, bool second,
		     const char *text);

#endif /* PERF_PLOT_H */
