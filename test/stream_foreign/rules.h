/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FOREIGN_RULES_H
#define FOREIGN_RULES_H

/* Correct actions of a client with an echo server, each on a connection of its own. */

#include "conn.h"

struct rule {
	const char *name;
	/* Returns 0, or -1 with c->why. */
	int (*run)(struct conn *c, bool soak);
	uint32_t windows[WINDOWS_MAX]; /* bytes, up to the first 0; no window: 1 MiB */
	bool asks, noisy;	       /* as in struct conn_conf */
};

extern const struct rule rules[];
extern const unsigned int rules_n;

void rule_conf(const struct rule *r, struct conn_conf *conf);

#endif /* FOREIGN_RULES_H */
