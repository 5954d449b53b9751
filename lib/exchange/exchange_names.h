/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXCHANGE_NAMES_H
#define EXCHANGE_NAMES_H

/*
 * Names of UNIX sockets. unix_addr.c: which socket an address names; host_here.c: which hosts are
 * this machine; unix_dir.c: the directory, where killed listeners leave their names behind.
 *
 *     "cache"            DIR/name-cache
 *     "127.0.0.1:7000"   DIR/port-7000
 *
 * A name is created, taken over and removed under the lock of the directory (flock), so that no
 * process removes the name of a listener that has just created it. Connecting a datagram socket to
 * a name tells whether a listener still has it: ECONNREFUSED means that no socket is bound to the
 * name. A listener does not notice this test, since its socket is of another type.
 */

#include "exchange_pvt.h"

/* ---- unix_addr.c ----------------------------------------------------------------------------- */

/* A parsed address. */
struct exchange_unix_addr {
	char name[EXCHANGE_NAME_MAX]; /* name in the directory; with port 0: empty */
	char host[LEAT_EXCHANGE_ADDR_MAX];
	bool has_port;
};

/* Parse an address. @return 0, or a negative errno with leat_err_msg(). */
int exchange_unix_parse(const struct leat_exchange *x, const char *addr, bool passive,
			struct exchange_unix_addr *un);
/* Check that an address's host is this machine. @return 0, or -EHOSTUNREACH with leat_err_msg(). */
int exchange_unix_here(const struct leat_exchange *x, const struct exchange_unix_addr *un);
/* Format the name of a port. */
void exchange_unix_port(char name[EXCHANGE_NAME_MAX], unsigned int port);
/* Get the name's socket address. @return its length, or -ENAMETOOLONG with leat_err_msg(). */
int exchange_unix_sockaddr(const struct leat_exchange *x, const char *name,
			   struct sockaddr_un *sun);

static inline bool
exchange_names_abstract(const struct exchange_names *names)
{
	return names->dir[0] == '@';
}

/* ---- host_here.c ----------------------------------------------------------------------------- */

/* Check whether a host, given by name or number, is this machine. Never blocks. */
bool exchange_host_here(const char *host);

/* ---- unix_dir.c ------------------------------------------------------------------------------ */

/* Create and check the directory. @return 0, or a negative errno with leat_err_msg(). */
int exchange_dir_check(const struct leat_exchange_conf *conf);
void exchange_names_init(struct exchange_names *names, const struct leat_exchange_conf *conf);
/*
 * Bind a socket to un->name, or if that is empty to a free port's name, and listen. @return 0, or a
 * negative errno with leat_err_msg().
 */
int exchange_names_listen(struct leat_exchange *x, int fd, struct exchange_unix_addr *un,
			  const char *addr);
/* Remove the listener's name. */
void exchange_names_unlisten(struct leat_exchange *x);
/* Remove names of killed listeners (sweep) in a part of the directory; a timer does the rest. */
void exchange_names_sweep(struct leat_exchange *x);
/* Start a sweep soon: a process died and may have left its name. */
void exchange_names_peer_died(struct leat_exchange *x);

#endif /* EXCHANGE_NAMES_H */
