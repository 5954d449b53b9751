/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXCHANGE_NAMES_H
#define EXCHANGE_NAMES_H

/*
 * Names of UNIX sockets: unix_addr.c what an address stands for, host_here.c which hosts are this
 * machine, unix_dir.c the directory, in which killed listeners leave their names.
 *
 *     "cache"            DIR/name-cache
 *     "127.0.0.1:7000"   DIR/port-7000
 *
 * A name is made, taken over and removed under the lock of the directory (flock), so that none is
 * taken away from a listener that has just made it. Whether a listener is behind a name tells a
 * datagram socket that is connected to it: ECONNREFUSED says that no socket is, and one that is,
 * being of another type, does not notice.
 */

#include "exchange_pvt.h"

/* ---- unix_addr.c ----------------------------------------------------------------------------- */

/* An address, taken apart. */
struct exchange_unix_addr {
	char name[EXCHANGE_NAME_MAX]; /* in the directory; with port 0: empty */
	char host[LEAT_EXCHANGE_ADDR_MAX];
	bool has_port;
};

/* 0, or a negative errno with leat_err_msg(). */
int exchange_unix_parse(const struct leat_exchange *x, const char *addr, bool passive,
			struct exchange_unix_addr *un);
/* Is its host this machine? 0, or -EHOSTUNREACH with leat_err_msg(). */
int exchange_unix_here(const struct leat_exchange *x, const struct exchange_unix_addr *un);
/* The name of a port. */
void exchange_unix_port(char name[EXCHANGE_NAME_MAX], unsigned int port);
/* The name's socket address; its length, or -ENAMETOOLONG with leat_err_msg(). */
int exchange_unix_sockaddr(const struct leat_exchange *x, const char *name,
			   struct sockaddr_un *sun);

static inline bool
exchange_names_abstract(const struct exchange_names *names)
{
	return names->dir[0] == '@';
}

/* ---- host_here.c ----------------------------------------------------------------------------- */

/* Is the host, given by name or number, this machine? Never blocks. */
bool exchange_host_here(const char *host);

/* ---- unix_dir.c ------------------------------------------------------------------------------ */

/* Makes and checks the directory. 0, or a negative errno with leat_err_msg(). */
int exchange_dir_check(const struct leat_exchange_conf *conf);
void exchange_names_init(struct exchange_names *names, const struct leat_exchange_conf *conf);
/*
 * Binds a socket to the name, or to that of a free port, and listens. 0, or a negative errno with
 * leat_err_msg().
 */
int exchange_names_listen(struct leat_exchange *x, int fd, struct exchange_unix_addr *un,
			  const char *addr);
/* Removes the listener's name. */
void exchange_names_unlisten(struct leat_exchange *x);
/* Removes names of killed listeners: a part of the directory, the next one in a while. */
void exchange_names_sweep(struct leat_exchange *x);
/* A process died: its name is to be looked for. */
void exchange_names_peer_died(struct leat_exchange *x);

#endif /* EXCHANGE_NAMES_H */
