/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PERF_CLIENT_H
#define PERF_CLIENT_H

/* The measuring side: shared by client.c, connect.c and plan.c. */

#include "side.h"

struct client {
	struct perf_side s;
	const struct perf_options *o;
	struct perf_report report;
	uint32_t window; /* messages in flight, before perf_window_fit() cuts it for a size */
	uint32_t burst;
	uint32_t next_id; /* id of the last run */
	uint64_t errors;  /* errors that --check found, in all runs */
	char what[64];	  /* the current run, for progress: "lat send 8 B" */
};

/* ---- connect.c ---- */

/*
 * Connect and exchange HELLOs. A refused connection is tried again until --timeout has passed.
 * @return 0, -EINTR, or a negative errno with s.why
 */
int perf_client_connect(struct client *c);

/* ---- plan.c ---- */

/*
 * Set the number of messages or the duration of warm-up and measurement. Here perf_phase.until is a
 * duration in microseconds, from the start of the phase.
 */
void perf_plan(const struct client *c, const struct perf_run *r, struct perf_phase *warm,
	       struct perf_phase *main);
/*
 * Remove the ops that a device does not offer from o->ops, with a message. An op given by name must
 * be offered. @return 0, or -EOPNOTSUPP with s.why
 */
int perf_plan_ops(struct client *c, struct perf_options *o, uint32_t ops, const char *dev,
		  const char *driver);
/* Check that sizes are at most max, the device's limit, and possible for each op. */
int perf_plan_sizes(struct client *c, const struct perf_options *o, uint64_t max);
/* If no sizes were given, set the default ones, up to max, the device's limit. */
int perf_plan_default_sizes(struct client *c, struct perf_options *o, uint64_t max);
/* Set c->window and c->burst, within the device's limits. */
int perf_plan_window(struct client *c, const struct leat_dev_info *info);
/* Tell whether messages need at least a byte: a ping-pong by WRITE waits for the last byte. */
bool perf_needs_a_byte(const struct perf_options *o, unsigned int op);

#endif /* PERF_CLIENT_H */
