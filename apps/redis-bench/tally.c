/* SPDX-License-Identifier: BSD-3-Clause */

#include <string.h>

#include <rte_common.h>

#include "tally.h"

static void
keep_first(char *first, const char *text)
{
	if (first[0] == '\0')
		memcpy(first, text, REDB_TEXT);
}

void
redb_tally_add(struct redb_tally *sum, const struct redb_tally *t)
{
	sum->requests += t->requests;
	sum->errors += t->errors;
	sum->wrong += t->wrong;
	sum->nil += t->nil;
	sum->cut += t->cut;
	sum->lost += t->lost;
	sum->bytes_out += t->bytes_out;
	sum->bytes_in += t->bytes_in;
	sum->elapsed_ns = RTE_MAX(sum->elapsed_ns, t->elapsed_ns);
	sum->unsent += t->unsent;
	sum->delayed += t->delayed;
	sum->delayed_max_ns = RTE_MAX(sum->delayed_max_ns, t->delayed_max_ns);
	keep_first(sum->first_error, t->first_error);
	keep_first(sum->first_wrong, t->first_wrong);
}

double
redb_tally_rate(const struct redb_tally *t)
{
	return t->elapsed_ns == 0 ? 0 : (double)t->requests * 1e9 / (double)t->elapsed_ns;
}

bool
redb_tally_good(const struct redb_tally *t)
{
	return t->errors == 0 && t->wrong == 0 && t->cut == 0 && t->lost == 0;
}
