/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef CT_AGENT_H
#define CT_AGENT_H

/* Carries out requests on its endpoints, and drives them between requests. One thread. */

#include "node.h"

struct ct_agent {
	struct leat_dev *dev;
	uint64_t role;	 /* of its endpoints' names and seeds */
	uint32_t opened; /* endpoints, in this test */
	uint64_t default_timeout_us;
	uint32_t ops; /* of endpoints that are opened without naming any */
	bool quit;
	struct ct_req req; /* the one that waits, if waiting */
	bool waiting;
	uint64_t wait_until;
	struct ct_node node[CT_NODES];
};

/* @return whether rep is the answer; if not, ct_agent_step() will have it. */
bool ct_agent_exec(struct ct_agent *a, const struct ct_req *req, struct ct_rep *rep);
/* One turn of all endpoints. @return whether anything happened; *answered: rep is the answer of the request that waited */
bool ct_agent_step(struct ct_agent *a, struct ct_rep *rep, bool *answered);
/* The first fault of any of its endpoints, or NULL. */
const char *ct_agent_fault(const struct ct_agent *a);
bool ct_agent_idle(const struct ct_agent *a);

/* host.c: the loop of an agent that gets its requests through a socket, until CT_EXIT or the other side is gone. */
int ct_agent_loop(struct ct_agent *a, int fd);

#endif /* CT_AGENT_H */
