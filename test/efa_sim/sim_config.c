/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * EFA_SIM=KEY=VALUE[,KEY=VALUE]...: the properties of the devices, and the faults that they inject.
 */

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

struct sim_config sim_config;

/** A number in the configuration. */
struct key {
	const char *name;
	size_t at;
	uint64_t initial, min, max;
	const char *help;
};

#define KEY(field, name, initial, min, max, help)                                                  \
	{                                                                                          \
		name, offsetof(struct sim_config, field), initial, min, max, help                  \
	}

/* clang-format off */
static const struct key keys[] = {
	KEY(seed, "seed", 1, 0, UINT64_MAX, "of all that is random"),
	KEY(devices, "devices", 1, 1, SIM_DEVICES, "devices of each process"),
	KEY(mtu, "mtu", 8928, 1024, 65536, "bytes of the largest message"),
	KEY(sq_depth, "sq-depth", 1024, 16, 32768, "sends of a QP"),
	KEY(rq_depth, "rq-depth", 4096, 64, 65536, "receive buffers of a QP, 4 for each "
	    "receive of the provider"),
	KEY(max_qp, "max-qp", 256, 1, SIM_QPS, "QPs of a device"),
	KEY(max_cq, "max-cq", 1024, 1, 65536, "CQs of a process"),
	KEY(max_mr, "max-mr", SIM_MRS - 1, 1, SIM_MRS - 1, "memory regions of a process"),
	KEY(max_ah, "max-ah", 4096, 1, SIM_NO_AH, "address handles of a process"),
	KEY(part_id, "part-id", 0xefa1, 0xefa0, 0xefaf, "vendor_part_id; from 0xefa2 on the "
	    "provider of libfabric uses RDMA READ by itself"),
	KEY(reorder, "reorder", 1, 1, 65536,
	    "window: a message is overtaken by fewer than so many"),
	KEY(hold_us, "hold-us", 100, 1, 10000000, "time that reordering holds a message at most"),
	KEY(delay_us, "delay-us", 0, 0, 10000000, "delay of a message: a random time up to this; "
	    "messages keep to the window of reordering"),
	KEY(rnr_ppm, "rnr-ppm", 0, 0, 1000000, "messages of a million that fail with RNR"),
	KEY(rnr_us, "rnr-us", 100, 1, 10000000, "time between the device's own retries after RNR"),
	KEY(fail, "fail", SIM_REMOTE_ABORT, SIM_FLUSHED, SIM_NB_STATUS - 1,
	    "status of messages that are made to fail"),
	KEY(fail_ppm, "fail-ppm", 0, 0, 1000000, "messages of a million that fail with it"),
	KEY(deaf_after, "deaf-after", 0, 0, UINT64_MAX, "received messages after which the host's "
	    "network is cut off; 0: never"),
	KEY(unresp_ms, "unresp-ms", 200, 1, 600000, "time without an answer after which a "
	    "peer is unresponsive"),
	KEY(bad_device, "bad-device", 0, 0, SIM_DEVICES,
	    "device, counted from 1, that fails to open"),
	KEY(lose_ah_ppm, "lose-ah-ppm", 0, 0, 1000000, "received messages of a million whose "
	    "sender's address handle the device does not know"),
	KEY(read, "read", 1, 0, 1, "can the device do RDMA READ?"),
	KEY(leaks, "leaks", 0, 0, 1, "exit status 99 if an object is left at exit"),
};
/* clang-format on */

static uint64_t *
value_of(const struct key *key)
{
	return (uint64_t *)((char *)&sim_config + key->at);
}

/** Return one line for each key: name, default, minimum, maximum, help; for devtools/efa-sim. */
SIM_API const char *efa_sim_keys(void);

SIM_API const char *
efa_sim_keys(void)
{
	static char text[8192];
	size_t n = 0;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]) && n < sizeof(text); i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s\t%llu\t%llu\t%llu\t%s\n",
				      keys[i].name, (unsigned long long)keys[i].initial,
				      (unsigned long long)keys[i].min,
				      (unsigned long long)keys[i].max, keys[i].help);
	return text;
}

static void
fail(const char *words, const char *what)
{
	fprintf(stderr, "efa-sim: EFA_SIM: '%s': %s\n", what, words);
	_Exit(2);
}

static void
set(const char *name, const char *value)
{
	char *end;

	if (strcmp(name, "stats") == 0) {
		if (strlen(value) >= sizeof(sim_config.stats))
			fail("the path is too long", value);
		memcpy(sim_config.stats, value, strlen(value) + 1);
		return;
	}
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (strcmp(name, keys[i].name) != 0)
			continue;
		errno = 0;
		*value_of(&keys[i]) = strtoull(value, &end, 0);
		if (errno != 0 || end == value || *end != '\0' || *value == '-')
			fail("not a number", name);
		if (*value_of(&keys[i]) < keys[i].min || *value_of(&keys[i]) > keys[i].max)
			fail("out of range, see devtools/efa-sim --help", name);
		return;
	}
	fail("there is no such key, see devtools/efa-sim --help", name);
}

void
sim_config_read(void)
{
	const char *env = getenv("EFA_SIM");
	char *copy, *save, *word, *value;

	memset(&sim_config, 0, sizeof(sim_config));
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		*value_of(&keys[i]) = keys[i].initial;
	if (env == NULL)
		return;
	copy = strdup(env);
	if (copy == NULL)
		fail("out of memory", env);
	for (word = strtok_r(copy, ",", &save); word != NULL; word = strtok_r(NULL, ",", &save)) {
		value = strchr(word, '=');
		if (value == NULL)
			fail("KEY=VALUE is wanted", word);
		*value++ = '\0';
		set(word, value);
	}
	free(copy);
}
