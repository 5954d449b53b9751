/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A process that test_mpirun.py starts: rendezvous_node SCENARIO [DIRECTORY]. It prints its results
 * on stdout, a line each.
 */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <leat_error.h>
#include <leat_rendezvous.h>

/* The rank that never arrives, exits or is killed, depending on the scenario. */
#define VICTIM 2
/* Timeout of fences that wait for the victim, us: long enough for all other ranks to arrive. */
#define SHORT_US UINT64_C(3000000)

/* The rank comes from the launcher's environment, since the victim may not open at all. */
static bool
is_victim(void)
{
	const char *rank = getenv("PMIX_RANK");

	return rank != NULL && atoi(rank) == VICTIM;
}

/* One write for each line, since processes share the output. */
static void
say(uint32_t rank, const char *what, int ret)
{
	char line[512];
	int len = snprintf(line, sizeof(line), "%u %s %d%s%s\n", rank, what, ret,
			   ret < 0 ? " " : "", ret < 0 ? leat_err_msg() : "");

	if (len > 0 && write(STDOUT_FILENO, line, (size_t)len) != len)
		exit(3);
}

static size_t
value_of(uint32_t rank, uint32_t round, uint8_t *buf)
{
	size_t len = rank == 1 ? LEAT_RENDEZVOUS_VALUE_MAX : 10 * (size_t)rank, i;

	for (i = 0; i < len; i++)
		buf[i] = (uint8_t)(31 * rank + round + i);
	return len;
}

static int
check_values(struct leat_rendezvous *rv, uint32_t round)
{
	uint8_t want[LEAT_RENDEZVOUS_VALUE_MAX], got[LEAT_RENDEZVOUS_VALUE_MAX];
	size_t len;
	uint32_t r;
	int ret;

	for (r = 0; r < leat_rendezvous_size(rv); r++) {
		len = value_of(r, round, want);
		ret = leat_rendezvous_get(rv, r, "v", got, sizeof(got));
		if (ret != (int)len || memcmp(want, got, len) != 0)
			return ret < 0 ? ret : leat_err(EBADMSG, "rank %u, round %u", r, round);
	}
	return 0;
}

/* Put a value, fence, and get the values of all ranks. */
static int
one_round(struct leat_rendezvous *rv, uint32_t round, uint64_t timeout_us)
{
	uint8_t buf[LEAT_RENDEZVOUS_VALUE_MAX];
	int ret = leat_rendezvous_put(rv, "v", buf, value_of(leat_rendezvous_rank(rv), round, buf));

	if (ret == 0)
		ret = leat_rendezvous_fence(rv, timeout_us);
	return ret == 0 ? check_values(rv, round) : ret;
}

static void
victim_ends(const char *how)
{
	if (strcmp(how, "never") == 0) {
		for (;;)
			pause();
	}
	if (strcmp(how, "killed") == 0)
		(void)raise(SIGKILL);
	if (strcmp(how, "exits") == 0)
		exit(0);
}

int
main(int argc, char **argv)
{
	const char *scenario = argc > 1 ? argv[1] : "all";
	const struct leat_rendezvous_conf conf = { .dir = argc > 2 ? argv[2] : NULL };
	const bool early = strncmp(scenario, "early-", 6) == 0;
	const bool fails = strcmp(scenario, "all") != 0;
	struct leat_rendezvous *rv;
	uint32_t rank, round;

	/* A node must not outlive the launcher. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (early && is_victim())
		victim_ends(scenario + 6);
	rv = leat_rendezvous_open(&conf);
	if (rv == NULL) {
		say(0, "open", -rte_errno);
		return 1;
	}
	rank = leat_rendezvous_rank(rv);
	say(rank, leat_rendezvous_describe(rv), 0);
	if (!early)
		say(rank, "round-1", one_round(rv, 1, 0));
	if (fails && !early && rank == VICTIM)
		victim_ends(strchr(scenario, '-') + 1);
	for (round = 2; round <= (early ? 2U : 3U); round++)
		say(rank, round == 2 ? "round-2" : "round-3",
		    one_round(rv, round, fails ? SHORT_US : 0));
	leat_rendezvous_close(rv);
	say(rank, "end", 0);
	return 0;
}
