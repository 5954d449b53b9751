/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef REDB_TALLY_H
#define REDB_TALLY_H

/* Counters: of an lcore in a step, and their sum over all lcores. */

#include <leat_histogram.h>

#include "redb.h"

struct redb_tally {
	uint64_t requests; /* requests with a reply, also an error or a wrong one */
	uint64_t errors;   /* replies that are errors */
	uint64_t wrong;	   /* replies that differ from the expected one; errors are not counted */
	uint64_t nil;	   /* replies that are nil or hold a nil: no such key */
	uint64_t cut;	   /* requests whose client was lost before the reply */
	uint64_t lost;	   /* lost clients */
	uint64_t bytes_out, bytes_in;
	uint64_t elapsed_ns;
	/* open loop */
	uint64_t unsent;  /* requests that were due and never sent */
	uint64_t delayed; /* requests sent late by more than an interval */
	uint64_t delayed_max_ns;
	char first_error[REDB_TEXT]; /* text of the first error; "": none */
	char first_wrong[REDB_TEXT]; /* description of the first wrong reply; "": none */
};

/* The result of a test, all lcores together. */
struct redb_result {
	enum redb_kind kind;
	uint64_t request_bytes;
	struct redb_tally tally;
	struct leat_histogram *hist; /* latencies, ns */
};

/* Add t to sum; sum's elapsed_ns and delayed_max_ns are the larger of both. */
void redb_tally_add(struct redb_tally *sum, const struct redb_tally *t);
/* Return the number of requests per second. */
double redb_tally_rate(const struct redb_tally *t);
/* Tell whether there was no error, no wrong reply and no lost client. */
bool redb_tally_good(const struct redb_tally *t);

#endif /* REDB_TALLY_H */
