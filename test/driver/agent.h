/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef CT_AGENT_H
#define CT_AGENT_H

/*
 * An agent carries out requests on its endpoints, and drives them between requests. It has one
 * thread.
 */

#include "node.h"

struct ct_agent {
	struct leat_dev *dev;
	uint64_t role;	 /* part of its endpoints' names and seeds; differs between agents */
	uint32_t opened; /* endpoints opened in this test */
	uint64_t default_timeout_us;
	uint32_t ops; /* op types of an endpoint whose configuration names none */
	bool quit;
	struct ct_req req; /* the request whose answer is due, if waiting */
	bool waiting;
	uint64_t wait_until;
	struct ct_node node[CT_NODES];
};

/* @return whether rep is the answer; if not, a later ct_agent_step() fills it in */
bool ct_agent_exec(struct ct_agent *a, const struct ct_req *req, struct ct_rep *rep);
/*
 * Drive all endpoints once. @return whether anything happened; *answered: rep is the answer of the
 * request that waited
 */
bool ct_agent_step(struct ct_agent *a, struct ct_rep *rep, bool *answered);
/* @return the first fault of any of its endpoints, or NULL */
const char *ct_agent_fault(const struct ct_agent *a);
bool ct_agent_idle(const struct ct_agent *a);

/*
 * host.c: the loop of an agent that gets its requests through a socket, until CT_EXIT or until the
 * other end closes.
 */
int ct_agent_loop(struct ct_agent *a, int fd);

#endif /* CT_AGENT_H */
