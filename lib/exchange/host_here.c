/* SPDX-License-Identifier: BSD-3-Clause */

/* Check whether a host is this machine, without asking a name service. */

#include <ifaddrs.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "exchange_names.h"

/* Get an address without its port; an IPv4 address as its IPv4-mapped IPv6 address. */
static bool
host_addr(const struct sockaddr *sa, struct in6_addr *addr)
{
	const struct sockaddr_in6 *in6 = (const void *)sa;
	const struct sockaddr_in *in = (const void *)sa;

	if (sa == NULL)
		return false;
	if (sa->sa_family == AF_INET6) {
		*addr = in6->sin6_addr;
		return true;
	}
	if (sa->sa_family != AF_INET)
		return false;
	memset(addr, 0, sizeof(*addr));
	addr->s6_addr[10] = 0xff;
	addr->s6_addr[11] = 0xff;
	memcpy(&addr->s6_addr[12], &in->sin_addr, sizeof(in->sin_addr));
	return true;
}

static bool
addr_here(const struct in6_addr *addr, const struct ifaddrs *interfaces)
{
	static const struct in6_addr any_v4 = { .s6_addr = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff,
							     0xff } };
	const struct ifaddrs *i;
	struct in6_addr own;

	if (IN6_IS_ADDR_UNSPECIFIED(addr) || IN6_IS_ADDR_LOOPBACK(addr) ||
	    IN6_ARE_ADDR_EQUAL(addr, &any_v4) ||
	    (IN6_IS_ADDR_V4MAPPED(addr) && addr->s6_addr[12] == IN_LOOPBACKNET))
		return true;
	for (i = interfaces; i != NULL; i = i->ifa_next)
		if (host_addr(i->ifa_addr, &own) && IN6_ARE_ADDR_EQUAL(addr, &own))
			return true;
	return false;
}

bool
exchange_host_here(const char *host)
{
	struct ifaddrs *interfaces = NULL;
	char own[HOST_NAME_MAX + 1];
	struct addrinfo *list, *ai;
	struct in6_addr addr;
	bool here = false;

	if (host[0] == '\0' || strcmp(host, "*") == 0 || strcasecmp(host, "localhost") == 0)
		return true;
	if (gethostname(own, sizeof(own)) == 0) {
		own[sizeof(own) - 1] = '\0';
		if (strcasecmp(host, own) == 0)
			return true;
	}
	if (leat_addr_numeric(host, "0", true, &list) != 0)
		return false;
	/* Without the list of interfaces, wildcards and loopback addresses still match. */
	if (getifaddrs(&interfaces) != 0)
		interfaces = NULL;
	for (ai = list; ai != NULL && !here; ai = ai->ai_next)
		here = host_addr(ai->ai_addr, &addr) && addr_here(&addr, interfaces);
	if (interfaces != NULL)
		freeifaddrs(interfaces);
	freeaddrinfo(list);
	return here;
}
