/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_ADDR_H
#define LEAT_ADDR_H

/**
 * @file
 * For drivers: "host:port" addresses, and look-up of host names without blocking.
 *
 * Thread rules: any thread; one lookup belongs to one thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "leat_common.h"

#ifdef __cplusplus
extern "C" {
#endif

struct addrinfo;
struct leat_lookup;

/**
 * Split "host:port", "[v6]:port" or ":port".
 * @param addr the address
 * @param passive true: an address to listen at: the host may be empty, the port 0
 * @param[out] host the host, without brackets, terminated
 * @param host_len size of host, bytes
 * @param[out] port the port, decimal, terminated
 * @param port_len size of port, bytes
 * @return 0, or -EINVAL with leat_err_msg()
 */
LEAT_API int leat_addr_split(const char *addr, bool passive, char *host, size_t host_len,
			     char *port, size_t port_len);

/** Format an address: "127.0.0.1:80", "[::1]:80". */
LEAT_API void leat_addr_str(char *dst, size_t size, const struct sockaddr *sa, socklen_t len);

/**
 * Get the addresses of a numeric host; never blocks.
 * @param host numeric address, without brackets; "": with passive any address, else the loopback
 * @param port decimal port
 * @param passive true: for addresses to listen at
 * @param[out] ai to be freed with freeaddrinfo()
 * @return 0, or -ENOENT: host is not numeric
 */
LEAT_API int leat_addr_numeric(const char *host, const char *port, bool passive,
			       struct addrinfo **ai);

/** Get addresses to listen at, of a host name; may block. @return 0, or an EAI_ code */
LEAT_API int leat_addr_blocking(const char *host, const char *port, struct addrinfo **ai);

/**
 * Begin to look up a host name in the background.
 * @return the lookup, or NULL: too many lookups at this moment, try again later
 */
LEAT_API struct leat_lookup *leat_lookup_start(const char *host, const char *port);

/**
 * Get the outcome of a lookup.
 * @param l the lookup
 * @param[out] ai to be freed with freeaddrinfo()
 * @return -EINPROGRESS (which is no EAI_ code); else 0 or an EAI_ code, and the lookup is freed
 */
LEAT_API int leat_lookup_done(struct leat_lookup *l, struct addrinfo **ai);

/** Cancel and free a lookup, which may still be under way. */
LEAT_API void leat_lookup_drop(struct leat_lookup *l);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_ADDR_H */
