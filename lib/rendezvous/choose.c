/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Choose the way in which processes find one another, and find rank and size. If the configuration
 * and the launcher do not determine them, opening fails; nothing is guessed.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous_pvt.h"

static const struct rendezvous_way *const ways[] = {
	[LEAT_RENDEZVOUS_PMIX] = &rendezvous_pmix,
	[LEAT_RENDEZVOUS_FILE] = &rendezvous_file,
	[LEAT_RENDEZVOUS_LIST] = &rendezvous_list,
	[LEAT_RENDEZVOUS_ALONE] = &rendezvous_alone,
};

/* Return the way to use, never AUTO; or a negative errno. */
static int
find_how(struct leat_rendezvous *rv, const struct leat_rendezvous_conf *conf,
	 const struct rendezvous_launcher *l)
{
	if (conf->how != LEAT_RENDEZVOUS_AUTO) {
		snprintf(rv->why, sizeof(rv->why), "this way was asked for");
		return (int)conf->how;
	}
	if (conf->list != NULL && conf->dir != NULL)
		return leat_err(EINVAL, "rendezvous: only one of a list and a directory can be "
					"given");
	if (conf->list != NULL) {
		snprintf(rv->why, sizeof(rv->why), "a list was given");
		return LEAT_RENDEZVOUS_LIST;
	}
	if (conf->dir != NULL) {
		snprintf(rv->why, sizeof(rv->why), "a directory was given");
		return LEAT_RENDEZVOUS_FILE;
	}
	if (l->pmix) {
		snprintf(rv->why, sizeof(rv->why), "PMIX_NAMESPACE and PMIX_RANK are set");
		return LEAT_RENDEZVOUS_PMIX;
	}
	if (l->size > 1)
		return leat_err(ENOTSUP,
				"rendezvous: %s has started %" PRIu32 " processes, without "
				"PMIx (PMIX_NAMESPACE, PMIX_RANK): use \"srun --mpi=pmix\", Open "
				"MPI's mpirun or prterun, or give a directory that all see",
				l->name, l->size);
	if (conf->rank_given && conf->size != 1)
		return leat_err(EINVAL,
				"rendezvous: rank %" PRIu32 " needs a directory or a list "
				"to find the others",
				conf->rank);
	snprintf(rv->why, sizeof(rv->why), "no launcher, directory or list");
	return LEAT_RENDEZVOUS_ALONE;
}

/* Return the number of addresses in a list, or a negative errno. */
static int
count_list(const char *list)
{
	const char *at = list;
	uint32_t n = 0;
	size_t len, i;

	for (;; at += len + 1) {
		len = strcspn(at, ",");
		for (i = 0; i < len && at[i] > 0x20 && at[i] < 0x7f;)
			i++;
		if (len == 0 || len > LEAT_RENDEZVOUS_ADDR_MAX || i < len)
			return leat_err(EINVAL,
					"rendezvous: list: address %" PRIu32 " is empty, "
					"too long, or has a space in it",
					n);
		if (++n > LEAT_RENDEZVOUS_RANKS_MAX)
			return leat_err(EINVAL, "rendezvous: list: more than %d addresses",
					LEAT_RENDEZVOUS_RANKS_MAX);
		if (at[len] == '\0')
			return (int)n;
	}
}

/*
 * Set rank and size, from the configuration or the launcher. With PMIx these are the expected
 * values: PMIx must confirm them.
 */
static int
find_rank(struct leat_rendezvous *rv, const struct leat_rendezvous_conf *conf,
	  const struct rendezvous_launcher *l)
{
	bool given = conf->rank_given;
	int n;

	rv->size = conf->size;
	if (rv->how == LEAT_RENDEZVOUS_ALONE) {
		rv->size = 1;
	} else if (rv->how == LEAT_RENDEZVOUS_LIST) {
		n = count_list(rv->list);
		if (n < 0)
			return n;
		rv->size = (uint32_t)n;
	} else if (rv->how == LEAT_RENDEZVOUS_FILE && !given) {
		rv->size = l->size;
	}
	if (conf->size != 0 && rv->size != 0 && conf->size != rv->size)
		return leat_err(EINVAL,
				"rendezvous: %s: the size was given as %" PRIu32
				", but it is %" PRIu32,
				rv->way->name, conf->size, rv->size);

	if (rv->how == LEAT_RENDEZVOUS_PMIX) {
		rv->rank = l->pmix_rank;
		if (given && conf->rank != rv->rank)
			return leat_err(EINVAL,
					"rendezvous: pmix: the rank was given as %" PRIu32
					", but it is %" PRIu32,
					conf->rank, rv->rank);
		return 0;
	}
	if (given)
		rv->rank = conf->rank;
	else if (rv->how != LEAT_RENDEZVOUS_ALONE && l->name == NULL)
		return leat_err(EINVAL,
				"rendezvous: %s: no launcher says which rank this process "
				"is: give rank%s",
				rv->way->name, rv->how == LEAT_RENDEZVOUS_FILE ? " and size" : "");
	else if (rv->how != LEAT_RENDEZVOUS_ALONE)
		rv->rank = l->rank;
	if (!given && rv->how == LEAT_RENDEZVOUS_LIST && l->size != rv->size)
		return leat_err(EINVAL,
				"rendezvous: list: it has %" PRIu32 " addresses, but %s has "
				"started %" PRIu32 " processes",
				rv->size, l->name, l->size);
	if (rv->size == 0)
		return leat_err(EINVAL, "rendezvous: %s: rank %" PRIu32 " was given without a size",
				rv->way->name, rv->rank);
	if (rv->rank >= rv->size)
		return leat_err(EINVAL, "rendezvous: %s: no rank %" PRIu32 " of %" PRIu32,
				rv->way->name, rv->rank, rv->size);
	if (rv->how != LEAT_RENDEZVOUS_ALONE)
		snprintf(rv->why + strlen(rv->why), sizeof(rv->why) - strlen(rv->why),
			 ", rank by %s", given ? "configuration" : l->name);
	return 0;
}

static int
copy_names(struct leat_rendezvous *rv, const struct leat_rendezvous_conf *conf)
{
	const char *job = conf->job != NULL ? conf->job : "leat";

	/* The job must have no dot, since a dot separates it from the rest of a file's name. */
	if (!record_name_ok(job, sizeof(rv->job)) || strchr(job, '.') != NULL)
		return leat_err(EINVAL,
				"rendezvous: job '%.20s' is not 1 to %d letters, digits and any "
				"of \"_-\"",
				job, LEAT_RENDEZVOUS_JOB_MAX - 1);
	memcpy(rv->job, job, strlen(job) + 1);
	if (rv->how == LEAT_RENDEZVOUS_FILE) {
		if (conf->dir == NULL || conf->dir[0] == '\0')
			return leat_err(EINVAL, "rendezvous: file: no directory was given");
		rv->dir = strdup(conf->dir);
		if (rv->dir == NULL)
			return leat_err(ENOMEM, "rendezvous: no memory");
		snprintf(rv->where, sizeof(rv->where), "in %.80s, job %s", rv->dir, rv->job);
	}
	if (rv->how == LEAT_RENDEZVOUS_LIST) {
		if (conf->list == NULL)
			return leat_err(EINVAL, "rendezvous: list: no list was given");
		rv->list = strdup(conf->list);
		if (rv->list == NULL)
			return leat_err(ENOMEM, "rendezvous: no memory");
	}
	return 0;
}

int
rendezvous_choose(struct leat_rendezvous *rv, const struct leat_rendezvous_conf *conf)
{
	struct rendezvous_launcher l;
	int ret;

	if ((unsigned int)conf->how >= RTE_DIM(ways) || conf->size > LEAT_RENDEZVOUS_RANKS_MAX ||
	    (conf->rank_given && conf->rank >= LEAT_RENDEZVOUS_RANKS_MAX))
		return leat_err(EINVAL, "rendezvous: a value of its configuration is out of range");
	ret = rendezvous_launcher_get(&l);
	if (ret < 0)
		return ret;
	ret = find_how(rv, conf, &l);
	if (ret < 0)
		return ret;
	rv->how = (enum leat_rendezvous_how)ret;
	rv->way = ways[ret];
	if (rv->how == LEAT_RENDEZVOUS_PMIX && !l.pmix)
		return leat_err(
			ENOTSUP,
			"rendezvous: pmix: this process was not started with PMIx: "
			"PMIX_NAMESPACE and PMIX_RANK are not set (mpirun, prterun and \"srun "
			"--mpi=pmix\" set them)");
	ret = copy_names(rv, conf);
	if (ret < 0)
		return ret;
	return find_rank(rv, conf, &l);
}
