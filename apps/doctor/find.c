/* SPDX-License-Identifier: BSD-3-Clause */

/* Findings. All text is made printable ASCII here. */

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

static const char hex[] = "0123456789abcdef";

void
dr_printable(char *out, size_t len, const char *in)
{
	size_t n = 0;

	for (; *in != '\0'; in++) {
		unsigned char c = (unsigned char)*in;

		if (c >= 0x20 && c < 0x7f) {
			if (n + 1 >= len)
				break;
			out[n++] = (char)c;
		} else {
			if (n + 4 >= len)
				break;
			out[n++] = '\\';
			out[n++] = 'x';
			out[n++] = hex[c >> 4];
			out[n++] = hex[c & 15];
		}
	}
	out[n] = '\0';
}

static void __rte_format_printf(3, 0) set(char *out, size_t len, const char *fmt, va_list ap)
{
	char raw[2 * DR_TEXT];

	if (vsnprintf(raw, sizeof(raw), fmt, ap) < 0)
		raw[0] = '\0';
	dr_printable(out, len, raw);
}

struct dr_finding *
dr_found(struct dr *d, enum dr_severity severity, const char *subject, const char *fmt, ...)
{
	struct dr_finding *f;
	va_list ap;

	if (d->nb < DR_FINDINGS_MAX) {
		f = &d->findings[d->nb++];
	} else {
		f = &d->spare;
		d->left_out++;
	}
	d->count[severity]++;
	memset(f, 0, sizeof(*f));
	f->check = d->check;
	f->severity = severity;
	dr_printable(f->subject, sizeof(f->subject), subject);
	va_start(ap, fmt);
	set(f->seen, sizeof(f->seen), fmt, ap);
	va_end(ap);
	return f;
}

void
dr_means(struct dr_finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	set(f->means, sizeof(f->means), fmt, ap);
	va_end(ap);
}

void
dr_mend(struct dr_finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	set(f->mend, sizeof(f->mend), fmt, ap);
	va_end(ap);
}

void
dr_report_unknown(struct dr *d, const char *subject, const char *what, const char *path)
{
	struct dr_finding *f =
		dr_found(d, DR_INFO, subject, "%s: can't be told from %s", what, path);

	dr_means(f, "not checked: the file is missing, can't be read, or makes no sense");
}

const char *
dr_severity_name(enum dr_severity severity)
{
	static const char *const names[DR_SEVERITIES] = { "ok", "info", "warning", "error" };

	return names[severity];
}

void
dr_sort(struct dr *d)
{
	struct dr_finding *sorted = calloc(d->nb + 1, sizeof(*sorted));
	unsigned int i, s, n = 0;

	/* Out of memory: the findings stay in the order of the checks. */
	if (sorted == NULL)
		return;
	for (s = 0; s < DR_SEVERITIES; s++) {
		for (i = 0; i < d->nb; i++) {
			if ((unsigned int)d->findings[i].severity == s)
				sorted[n++] = d->findings[i];
		}
	}
	memcpy(d->findings, sorted, n * sizeof(*sorted));
	free(sorted);
}

int
dr_exit_code(const struct dr *d)
{
	if (d->count[DR_ERROR] > 0)
		return DR_EXIT_ERROR;
	return d->count[DR_WARNING] > 0 ? DR_EXIT_WARNING : DR_EXIT_OK;
}
