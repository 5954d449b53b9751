/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef REDB_TALLY_H
#define REDB_TALLY_H

/* What was counted: of an lcore in a step, and summed up. */

#include <leat_histogram.h>

#include "redb.h"

struct redb_tally {
	uint64_t requests; /* that have an answer, errors and wrong ones too */
	uint64_t errors;   /* answers that are errors */
	uint64_t wrong;	   /* answers that are not what they have to be */
	uint64_t nil;	   /* answers of a key that is not there */
	uint64_t cut;	   /* requests whose client was lost before the answer */
	uint64_t lost;	   /* clients */
	uint64_t bytes_out, bytes_in;
	uint64_t elapsed_ns;
	/* open loop */
	uint64_t unsent;  /* requests that were due and never sent */
	uint64_t delayed; /* sent late by more than an interval */
	uint64_t delayed_max_ns;
	char first_error[REDB_TEXT]; /* text of the first; "": none */
	char first_wrong[REDB_TEXT];
};

/* Of a test, of all lcores. */
struct redb_result {
	enum redb_kind kind;
	uint64_t request_bytes;
	struct redb_tally tally;
	struct leat_histogram *hist; /* ns */
};

/* Sums up; the longer of both times. */
void redb_tally_add(struct redb_tally *sum, const struct redb_tally *t);
/* Requests per second. */
double redb_tally_rate(const struct redb_tally *t);
/* Nothing went wrong. */
bool redb_tally_good(const struct redb_tally *t);

#endif /* REDB_TALLY_H */
