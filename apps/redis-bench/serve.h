/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef REDB_SERVE_H
#define REDB_SERVE_H

/*
 * --respond: what a server is at least. It knows PING, SET, GET, MSET, RPUSH, LRANGE, DEL, AUTH and
 * SELECT, and keeps nothing: values follow from keys (value.h), so a GET is answered with what a
 * SET of the same program has set, or would have; with --verify what is SET is checked.
 */

#include "transport.h"
#include "value.h"

struct redb_server;

struct redb_server_conf {
	const struct redb_values *values;
	uint32_t clients; /* at most */
	bool verify;
	const char *dev;
	uint64_t window;
};

/*
 * On the reactor's thread: listens at a. @return NULL with leat_err_msg(); addr: where it came to
 * listen
 */
struct redb_server *redb_server_open(struct leat_reactor *r, const struct redb_server_conf *conf,
				     const struct redb_addr *a, char *addr, size_t len);
/* When the reactor is gone; NULL: nothing. */
void redb_server_close(struct redb_server *s);

#endif /* REDB_SERVE_H */
