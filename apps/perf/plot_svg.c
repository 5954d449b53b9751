/* SPDX-License-Identifier: BSD-3-Clause */

/* A plot's axes, lines and text as SVG 1.1. */

#include <math.h>
#include <string.h>

#include "plot.h"

/*
 * Okabe and Ito's colors, which the color-blind tell apart, without yellow, and three more:
 * leat-perf has eight ops.
 */
static const char *const colors[] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00",
				      "#56b4e9", "#000000", "#8c564b", "#7a7a7a", "#5e3c99" };
#define COLORS (sizeof(colors) / sizeof(colors[0]))
#define GRID "#d8dde3"
/* Maximum number of lines of a grid. */
#define TICKS 10

double
plot_place(const struct plot_axis *a, double value)
{
	double share;

	if (a->log)
		share = log(value / a->min) / log(a->max / a->min);
	else
		share = (value - a->min) / (a->max - a->min);
	return a->start + share * (a->end - a->start);
}

void
plot_axis_round(struct plot_axis *a, double base)
{
	if (a->log) {
		/* 1e-9: log(1000) / log(10) is not exactly 3. */
		a->min = pow(base, floor(log(a->min) / log(base) + 1e-9));
		a->max = pow(base, ceil(log(a->max) / log(base) - 1e-9));
		if (a->max <= a->min)
			a->max = a->min * base;
		return;
	}
	a->min = 0;
	a->max = a->max > 0 ? a->max * 1.05 : 1;
}

static void
escape(FILE *f, const char *text)
{
	for (; *text != '\0'; text++) {
		switch (*text) {
		case '&':
			fputs("&amp;", f);
			break;
		case '<':
			fputs("&lt;", f);
			break;
		case '>':
			fputs("&gt;", f);
			break;
		default:
			/* Control characters are not allowed in XML. */
			fputc((unsigned char)*text < ' ' ? ' ' : *text, f);
		}
	}
}

void
plot_svg_begin(FILE *f, const char *title, unsigned int height)
{
	fprintf(f,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %u\" width=\"%d\" "
		"height=\"%u\" font-family=\"'DejaVu Sans', Verdana, Helvetica, sans-serif\" "
		"font-size=\"13\" fill=\"#1c212b\">\n<title>",
		PLOT_WIDTH, height, PLOT_WIDTH, height);
	escape(f, title);
	fprintf(f, "</title>\n<rect width=\"%d\" height=\"%u\" fill=\"#ffffff\"/>\n", PLOT_WIDTH,
		height);
	plot_svg_text(f, 16, 24, "start", title);
}

void
plot_svg_end(FILE *f)
{
	fputs("</svg>\n", f);
}

void
plot_svg_text(FILE *f, double x, double y, const char *anchor, const char *text)
{
	fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
	escape(f, text);
	fputs("</text>\n", f);
}

static void
grid_line(FILE *f, double x0, double y0, double x1, double y1)
{
	fprintf(f, "<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"" GRID "\"/>\n", x0, y0, x1, y1);
}

/* Write a value as text: sizes as 8, 4K, 1M; other values with up to six digits. */
static void
number_text(char *text, size_t size, double value, bool bytes)
{
	static const char units[] = " KMG";
	unsigned int unit = 0;

	while (bytes && value >= 1024 && unit < 3) {
		value /= 1024;
		unit++;
	}
	if (unit > 0)
		snprintf(text, size, "%.3g%c", value, units[unit]);
	else
		snprintf(text, size, "%.6g", value);
}

/*
 * Return the value of grid line n of a logarithmic axis: a power of base. If the axis has few
 * powers of 10, there are also lines at 2 and 5 times these powers.
 */
static double
log_tick(const struct plot_axis *a, unsigned int n, double base)
{
	static const double times[] = { 1, 2, 5 };
	const double first = floor(log(a->min) / log(base) + 1e-9);
	const double steps = log(a->max / a->min) / log(base);
	const unsigned int per = base == 10 && steps <= 3 ? 3 : 1;
	unsigned int i, power;
	double value;

	for (i = 0;; i++) {
		power = i / per;
		value = pow(base, first + power * ceil(steps / TICKS)) * times[i % per];
		if (value < a->min * 0.9999)
			continue;
		if (n-- == 0)
			return value;
	}
}

/*
 * Return the value of grid line n; NAN: n is past the last. A logarithmic axis of less than a
 * decade may have a single power of 10, or none: its grid lines have equal steps.
 */
static double
tick(const struct plot_axis *a, unsigned int n, double base)
{
	const double range = a->max - a->min;
	double step, value;

	if (a->log && (base < 10 || a->max / a->min >= 8)) {
		value = log_tick(a, n, base);
	} else {
		/* 1, 2 or 5 times a power of ten, so that the axis has 4 to 11 lines. */
		step = pow(10, floor(log10(range / 4)));
		step *= range / step >= 20 ? 5 : range / step >= 10 ? 2 : 1;
		value = (ceil(a->min / step - 1e-9) + n) * step;
	}
	return value > a->max * 1.0001 ? NAN : value;
}

void
plot_svg_x_axis(FILE *f, const struct plot_axis *x, const struct plot_axis *y, bool bytes,
		const char *text)
{
	char number[32];
	unsigned int n;
	double value;

	for (n = 0; !isnan(value = tick(x, n, bytes ? 2 : 10)); n++) {
		grid_line(f, plot_place(x, value), y->start, plot_place(x, value), y->end);
		number_text(number, sizeof(number), x->zero && n == 0 ? 0 : value, bytes);
		plot_svg_text(f, plot_place(x, value), y->start + 20, "middle", number);
	}
	plot_svg_text(f, (x->start + x->end) / 2, y->start + 42, "middle", text);
}

void
plot_svg_y_axis(FILE *f, const struct plot_axis *x, const struct plot_axis *y, const char *text)
{
	char number[32];
	unsigned int n;
	double value;

	for (n = 0; !isnan(value = tick(y, n, 10)); n++) {
		grid_line(f, x->start, plot_place(y, value), x->end, plot_place(y, value));
		number_text(number, sizeof(number), value, false);
		plot_svg_text(f, x->start - 8, plot_place(y, value) + 4, "end", number);
	}
	plot_svg_text(f, 16, y->end - 12, "start", text);
}

void
plot_svg_line_begin(FILE *f, unsigned int series, bool second, bool thin)
{
	fprintf(f,
		"<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%s\"%s%s "
		"stroke-linejoin=\"round\" points=\"",
		colors[series % COLORS], thin ? "1" : "2.2",
		second ? " stroke-dasharray=\"6 4\"" : "", thin ? " opacity=\"0.6\"" : "");
}

void
plot_svg_line_to(FILE *f, double x, double y)
{
	fprintf(f, "%.1f,%.1f ", x, y);
}

void
plot_svg_line_end(FILE *f)
{
	fputs("\"/>\n", f);
}

void
plot_svg_point(FILE *f, double x, double y, unsigned int series, bool second, bool thin)
{
	const char *color = colors[series % COLORS];

	fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%s\" fill=\"%s\" stroke=\"%s\"%s/>\n", x, y,
		thin ? "1.6" : "2.8", second ? "#ffffff" : color, color,
		thin ? " opacity=\"0.6\"" : "");
}

void
plot_svg_legend(FILE *f, double x, double y, unsigned int series, bool second, const char *text)
{
	plot_svg_line_begin(f, series, second, false);
	plot_svg_line_to(f, x, y);
	plot_svg_line_to(f, x + 28, y);
	plot_svg_line_end(f);
	plot_svg_text(f, x + 36, y + 4, "start", text);
}
