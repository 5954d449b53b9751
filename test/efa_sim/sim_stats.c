/* SPDX-License-Identifier: BSD-3-Clause */

/* Counters of all events. Each process prints its own, as a JSON object on one line. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim.h"

static _Atomic uint64_t stats[SIM_NB_STATS];
static _Atomic uint64_t objects[SIM_NB_OBJECTS];

static const char *const names[SIM_STAT_STATUS] = {
	"sends", "send_bytes", "recvs",	      "recv_bytes",
	"reads", "read_bytes", "datagrams",   "datagrams_lost",
	"held",	 "overtaken",  "rnr_retries", "injected",
	"qps",	 "cqs",	       "mrs",	      "ahs",
	"peers", "peers_lost", "recovered",   "refused",
};
static const char *const status_names[SIM_NB_STATUS] = {
	"ok",
	"flushed",
	"local_qp_internal",
	"local_invalid_op",
	"local_invalid_ah",
	"local_invalid_lkey",
	"local_bad_length",
	"remote_bad_address",
	"remote_abort",
	"remote_bad_dest_qpn",
	"remote_rnr",
	"remote_bad_length",
	"remote_bad_status",
	"local_unresp_remote",
};
static const char *const object_names[SIM_NB_OBJECTS] = { "qps", "cqs", "mrs", "ahs" };

void
sim_count(enum sim_stat stat, uint64_t nb)
{
	atomic_fetch_add_explicit(&stats[stat], nb, memory_order_relaxed);
}

bool
sim_object_add(enum sim_object object, uint64_t max)
{
	static const enum sim_stat made[SIM_NB_OBJECTS] = { SIM_STAT_QPS, SIM_STAT_CQS,
							    SIM_STAT_MRS, SIM_STAT_AHS };

	if (atomic_fetch_add_explicit(&objects[object], 1, memory_order_relaxed) >= max) {
		sim_object_del(object);
		sim_count(SIM_STAT_REFUSED, 1);
		return false;
	}
	sim_count(made[object], 1);
	return true;
}

void
sim_object_del(enum sim_object object)
{
	atomic_fetch_sub_explicit(&objects[object], 1, memory_order_relaxed);
}

uint64_t
sim_objects(enum sim_object object)
{
	return atomic_load_explicit(&objects[object], memory_order_relaxed);
}

void
sim_stats_reset(void)
{
	for (int i = 0; i < SIM_NB_STATS; i++)
		atomic_store(&stats[i], 0);
	for (int i = 0; i < SIM_NB_OBJECTS; i++)
		atomic_store(&objects[i], 0);
}

static int
format(char *text, size_t size)
{
	char program[64];
	int n;

	snprintf(program, sizeof(program), "%s", program_invocation_short_name);
	for (char *p = program; *p != '\0'; p++)
		if (*p < ' ' || *p == '"' || *p == '\\')
			*p = '_';
	n = snprintf(text, size, "{\"pid\": %d, \"program\": \"%s\"", (int)getpid(), program);
	for (int i = 0; i < SIM_STAT_STATUS; i++)
		n += snprintf(text + n, size - n, ", \"%s\": %llu", names[i],
			      (unsigned long long)stats[i]);
	n += snprintf(text + n, size - n, ", \"completions\": {");
	for (int i = 0; i < SIM_NB_STATUS; i++)
		n += snprintf(text + n, size - n, "%s\"%s\": %llu", i == 0 ? "" : ", ",
			      status_names[i], (unsigned long long)stats[SIM_STAT_STATUS + i]);
	n += snprintf(text + n, size - n, "}, \"left\": {");
	for (int i = 0; i < SIM_NB_OBJECTS; i++)
		n += snprintf(text + n, size - n, "%s\"%s\": %llu", i == 0 ? "" : ", ",
			      object_names[i], (unsigned long long)objects[i]);
	return n + snprintf(text + n, size - n, "}}\n");
}

uint64_t
sim_stats_report(void)
{
	uint64_t left = 0;
	char text[4096];
	int fd, n;

	for (int i = 0; i < SIM_NB_OBJECTS; i++)
		left += objects[i];
	if (sim_config.stats[0] == '\0')
		return left;
	n = format(text, sizeof(text));
	if (strcmp(sim_config.stats, "-") == 0)
		fd = STDERR_FILENO;
	else
		fd = open(sim_config.stats, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	/* Use one write(), so that the lines of several processes do not mix. */
	if (fd < 0 || write(fd, text, n) != n)
		fprintf(stderr, "efa-sim: %s: %s\n", sim_config.stats, strerror(errno));
	if (fd > STDERR_FILENO)
		close(fd);
	return left;
}

/**
 * Return a counter of this process, for tests that find it with dlsym(); UINT64_MAX: no such
 * counter.
 */
SIM_API uint64_t efa_sim_counter(const char *name);

SIM_API uint64_t
efa_sim_counter(const char *name)
{
	for (int i = 0; i < SIM_STAT_STATUS; i++)
		if (strcmp(name, names[i]) == 0)
			return stats[i];
	for (int i = 0; i < SIM_NB_STATUS; i++)
		if (strcmp(name, status_names[i]) == 0)
			return stats[SIM_STAT_STATUS + i];
	return UINT64_MAX;
}

uint64_t
sim_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014) */
static uint64_t
mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

uint64_t
sim_random(uint64_t a, uint64_t b)
{
	return mix(mix(mix(sim_config.seed) ^ a) ^ b);
}

bool
sim_chance(uint64_t random, uint64_t ppm)
{
	return ppm != 0 && random % 1000000 < ppm;
}
