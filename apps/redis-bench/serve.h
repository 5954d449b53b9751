/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef REDB_SERVE_H
#define REDB_SERVE_H

/*
 * --respond: a trivial server. It knows PING, SET, GET, MSET, RPUSH, LRANGE, DEL, AUTH and SELECT,
 * and stores nothing: a value is computed from its key (value.h), so the reply to GET is the value
 * that a SET of this program sends for that key. With --verify the server checks values of SET and
 * MSET.
 */

#include "transport.h"
#include "value.h"

struct redb_server;

struct redb_server_conf {
	const struct redb_values *values;
	uint32_t clients; /* largest number of clients at a time */
	bool verify;
	const char *dev;
	uint64_t window;
};

/*
 * Listen at a, on the reactor's thread; write the actual address to addr. @return NULL with
 * rte_errno and leat_err_msg()
 */
struct redb_server *redb_server_open(struct leat_reactor *r, const struct redb_server_conf *conf,
				     const struct redb_addr *a, char *addr, size_t len);
/* Free the server, after the reactor has ended. s may be NULL. */
void redb_server_close(struct redb_server *s);

#endif /* REDB_SERVE_H */
