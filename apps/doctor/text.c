/* SPDX-License-Identifier: BSD-3-Clause */

/* The tables of findings and of checks. */

#include <string.h>

#include "doctor.h"

static void
one(const struct dr_finding *f)
{
	bool subject = f->subject[0] != '\0';

	printf("%-8s %-17s %s%s%s\n", dr_severity_name(f->severity), f->check->id, f->subject,
	       subject ? ": " : "", f->seen);
	if (f->means[0] != '\0')
		printf("%-26s %s\n", "", f->means);
	if (f->mend[0] != '\0')
		printf("%-26s mend: %s\n", "", f->mend);
}

static void
counted(unsigned int n, const char *what, bool plural)
{
	printf("%u %s%s", n, what, plural && n != 1 ? "s" : "");
}

static int
flushed(void)
{
	return fflush(stdout) != 0 || ferror(stdout) != 0 ? -EIO : 0;
}

int
dr_text(const struct dr *d)
{
	unsigned int i;

	for (i = 0; i < d->nb; i++) {
		if (d->verbose || d->findings[i].severity != DR_OK)
			one(&d->findings[i]);
	}
	printf(DR_NAME ": ");
	counted(d->count[DR_ERROR], "error", true);
	printf(", ");
	counted(d->count[DR_WARNING], "warning", true);
	printf(", %u info, %u ok", d->count[DR_INFO], d->count[DR_OK]);
	if (d->left_out > 0)
		printf(", %u of them not shown", d->left_out);
	printf("%s\n", d->count[DR_OK] > 0 && !d->verbose ? " (--verbose shows these, too)" : "");
	return flushed();
}

int
dr_text_list(void)
{
	const struct dr_check *c;
	const struct dr_group *g;

	for (g = dr_groups; g->name != NULL; g++) {
		printf("%-18s %s\n", g->name, g->about);
		for (c = g->checks; c->id != NULL; c++)
			printf("  %-16s %s\n", c->id, c->about);
	}
	return flushed();
}
