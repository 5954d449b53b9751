/* SPDX-License-Identifier: BSD-3-Clause */

/* "10.0.0.1:7000", "[fe80::1%eth0]:7000", ":7000". Numeric: a look-up would block the loop. */

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verbs_pvt.h"

/* @return the port, or -1 */
static long
parse_port(const char *s)
{
	long v = 0;
	int i;

	for (i = 0; s[i] >= '0' && s[i] <= '9' && i < 5; i++)
		v = v * 10 + (s[i] - '0');
	return i == 0 || s[i] != '\0' || v > UINT16_MAX ? -1 : v;
}

static int
parse_host(const char *addr, const char *host, bool v6, uint16_t port, struct sockaddr_storage *ss)
{
	struct addrinfo hints = { .ai_family = v6 ? AF_INET6 : AF_INET,
				  .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
				  .ai_socktype = SOCK_STREAM };
	struct addrinfo *ai;
	char serv[8];

	snprintf(serv, sizeof(serv), "%u", port);
	if (getaddrinfo(host, serv, &hints, &ai) != 0)
		return leat_err(EINVAL,
				"address '%.80s': an IPv4 address or an IPv6 one in [] is needed; "
				"names are not looked up",
				addr);
	memcpy(ss, ai->ai_addr, ai->ai_addrlen);
	freeaddrinfo(ai);
	return 0;
}

int
vb_addr_parse(const char *addr, bool passive, struct sockaddr_storage *ss)
{
	const char *colon = strrchr(addr, ':'), *begin = addr, *end = colon;
	char host[INET6_ADDRSTRLEN + IF_NAMESIZE + 2];
	bool v6 = addr[0] == '[';
	long port;

	memset(ss, 0, sizeof(*ss));
	if (colon == NULL)
		return leat_err(EINVAL, "address '%.80s' has no port; write it as 10.0.0.1:7000",
				addr);
	if (v6) {
		begin++;
		end = strchr(addr, ']');
		if (end == NULL || end + 1 != colon || end == begin)
			return leat_err(EINVAL, "address '%.80s' is not of the form [v6]:port",
					addr);
	}
	port = parse_port(colon + 1);
	if (port < 0 || (port == 0 && !passive))
		return leat_err(EINVAL, "port of address '%.80s' is not a number %d..65535", addr,
				passive ? 0 : 1);
	if ((size_t)(end - begin) >= sizeof(host) || (end == begin && !passive))
		return leat_err(EINVAL, "address '%.80s' names no host", addr);
	if (end == begin) {
		struct sockaddr_in *in = (void *)ss;

		in->sin_family = AF_INET;
		in->sin_port = htons((uint16_t)port);
		return 0;
	}
	memcpy(host, begin, (size_t)(end - begin));
	host[end - begin] = '\0';
	return parse_host(addr, host, v6, (uint16_t)port, ss);
}

void
vb_addr_str(const struct sockaddr *sa, char *buf, size_t len)
{
	char host[INET6_ADDRSTRLEN + IF_NAMESIZE + 2] = "?";
	bool v6 = sa->sa_family == AF_INET6;
	uint16_t port = v6 ? ((const struct sockaddr_in6 *)(const void *)sa)->sin6_port
			   : ((const struct sockaddr_in *)(const void *)sa)->sin_port;

	(void)getnameinfo(sa, v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in), host,
			  sizeof(host), NULL, 0, NI_NUMERICHOST);
	snprintf(buf, len, v6 ? "[%s]:%u" : "%s:%u", host, ntohs(port));
}
