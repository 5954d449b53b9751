/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PERF_CLIENT_H
#define PERF_CLIENT_H

/* What the files of the measuring side share: client.c, connect.c, plan.c. */

#include "side.h"

struct client {
	struct perf_side s;
	const struct perf_options *o;
	struct perf_report report;
	uint32_t window; /* before it is cut to memory */
	uint32_t burst;
	uint32_t next_id;
	uint64_t errors;
	char what[64];
};

/* ---- connect.c ---- */

/* Connects; tries again while nobody listens, until the timeout. @return 0, -EINTR, or negative with s.why */
int perf_client_connect(struct client *c);

/* ---- plan.c ---- */

/* How many messages, for how long. until is relative. */
void perf_plan(const struct client *c, const struct perf_run *r, struct perf_phase *warm,
	       struct perf_phase *main);
/* Takes out what a device can't do (--op all), or complains. */
int perf_plan_ops(struct client *c, struct perf_options *o, uint32_t ops, const char *dev,
		  const char *driver);
int perf_plan_sizes(struct client *c, const struct perf_options *o, uint64_t max);
/* Default sizes, as far as the device goes. */
int perf_plan_default_sizes(struct client *c, struct perf_options *o, uint64_t max);
int perf_plan_window(struct client *c, const struct leat_dev_info *info);
/* A ping-pong by WRITE waits for the last byte of a message. */
bool perf_needs_a_byte(const struct perf_options *o, unsigned int op);

#endif /* PERF_CLIENT_H */
