/* SPDX-License-Identifier: BSD-3-Clause */

/* What all ways (struct rendezvous_way) have in common: open, fence, close, error messages. */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous_pvt.h"

void
rendezvous_note(struct leat_rendezvous *rv, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(rv->fault, sizeof(rv->fault), fmt, ap);
	va_end(ap);
}

static void
host_name(struct leat_rendezvous *rv)
{
	size_t i;

	if (gethostname(rv->host, sizeof(rv->host) - 1) != 0)
		snprintf(rv->host, sizeof(rv->host), "?");
	rv->host[sizeof(rv->host) - 1] = '\0';
	for (i = 0; rv->host[i] != '\0'; i++) {
		if (rv->host[i] < 0x20 || rv->host[i] > 0x7e)
			rv->host[i] = '?';
	}
}

static int
open_way(struct leat_rendezvous *rv, const struct leat_rendezvous_conf *conf)
{
	int ret;

	rv->timeout_us = conf->timeout_us != 0 ? conf->timeout_us : LEAT_RENDEZVOUS_TIMEOUT_US;
	rv->cancel = conf->cancel;
	rv->limit = UINT64_MAX;
	leat_rendezvous_limit(rv, conf->limit_us);
	rv->pause_us = RENDEZVOUS_PAUSE_MIN_US;
	host_name(rv);
	rv->buf = malloc(RECORD_RANK_MAX);
	if (rv->buf == NULL)
		return leat_err(ENOMEM, "rendezvous: no memory");
	ret = rendezvous_choose(rv, conf);
	/* With PMIx the size is known only after its open. */
	if (ret == 0 && rv->how != LEAT_RENDEZVOUS_PMIX)
		ret = rendezvous_peers_create(rv);
	if (ret < 0) {
		rv->way = NULL;
		return ret;
	}
	return rv->way->open(rv, rendezvous_until(rv, rv->timeout_us));
}

struct leat_rendezvous *
leat_rendezvous_open(const struct leat_rendezvous_conf *conf)
{
	struct leat_rendezvous *rv = calloc(1, sizeof(*rv));
	int ret;

	if (rv == NULL) {
		leat_err(ENOMEM, "rendezvous: no memory");
		return NULL;
	}
	ret = open_way(rv, conf);
	if (ret < 0) {
		leat_rendezvous_close(rv);
		rte_errno = -ret;
		return NULL;
	}
	snprintf(rv->describe, sizeof(rv->describe), "%s: rank %" PRIu32 " of %" PRIu32 "%s%s (%s)",
		 rv->way->name, rv->rank, rv->size, rv->where[0] != '\0' ? " " : "", rv->where,
		 rv->why);
	if (rv->rank == 0)
		LEAT_LOG(INFO, rendezvous, "%s", rv->describe);
	else
		LEAT_LOG(DEBUG, rendezvous, "%s", rv->describe);
	return rv;
}

void
leat_rendezvous_close(struct leat_rendezvous *rv)
{
	if (rv == NULL)
		return;
	if (rv->way != NULL)
		rv->way->close(rv);
	rendezvous_values_free(rv);
	free(rv->buf);
	free(rv->dir);
	free(rv->list);
	free(rv);
}

uint32_t
leat_rendezvous_rank(const struct leat_rendezvous *rv)
{
	return rv->rank;
}

uint32_t
leat_rendezvous_size(const struct leat_rendezvous *rv)
{
	return rv->size;
}

enum leat_rendezvous_how
leat_rendezvous_how(const struct leat_rendezvous *rv)
{
	return rv->how;
}

const char *
leat_rendezvous_describe(const struct leat_rendezvous *rv)
{
	return rv->describe;
}

void
leat_rendezvous_limit(struct leat_rendezvous *rv, uint64_t us)
{
	/* Remove the old limit first: rendezvous_until() would cut the new one to it. */
	rv->limit = UINT64_MAX;
	if (us != 0)
		rv->limit = rendezvous_until(rv, us);
}

/* ---- the fence ----------------------------------------------------------------------------- */

static bool
is_missing(const void *arg, uint32_t rank)
{
	return !rendezvous_peer_arrived(arg, rank);
}

/* Tell whether all missing processes have left: then none of them can reach this round. */
static bool
all_left(const struct leat_rendezvous *rv)
{
	uint32_t r;

	for (r = 0; r < rv->size; r++) {
		if (!rendezvous_peer_arrived(rv, r) && !rv->peers[r].left)
			return false;
	}
	return true;
}

static int
report_missing(const struct leat_rendezvous *rv, int ret, uint64_t began)
{
	char ranks[RENDEZVOUS_MISSING_MAX];
	double s = (double)(rendezvous_now() - began) / 1e6;
	uint32_t n = rendezvous_ranks_text(ranks, sizeof(ranks), rv->size, is_missing, rv);

	if (ret == -ETIMEDOUT && all_left(rv))
		ret = -ECONNRESET;
	return leat_err(-ret,
			"rendezvous (%s): fence %" PRIu64 " %s after %.1f s: missing %s %s of "
			"%" PRIu32 "%s%s",
			rv->way->name, rv->round,
			ret == -ETIMEDOUT ? "timed out" : "can't be reached by all, found", s,
			n == 1 ? "is rank" : "are ranks", ranks, rv->size,
			rv->fault[0] != '\0' ? "; " : "", rv->fault);
}

int
leat_rendezvous_fence(struct leat_rendezvous *rv, uint64_t timeout_us)
{
	uint64_t began = rendezvous_now();
	uint64_t until = rendezvous_until(rv, timeout_us != 0 ? timeout_us : rv->timeout_us);
	int ret;

	rv->fault[0] = '\0';
	rv->pause_us = RENDEZVOUS_PAUSE_MIN_US;
	rv->round++;
	ret = rendezvous_values_pack(rv);
	if (ret == 0)
		ret = rv->way->fence(rv, until);
	if (ret == -ETIMEDOUT || ret == -ECONNRESET)
		ret = report_missing(rv, ret, began);
	else if (ret == -ECANCELED)
		ret = leat_err(ECANCELED, "rendezvous (%s): fence %" PRIu64 " was canceled",
			       rv->way->name, rv->round);
	return ret;
}
