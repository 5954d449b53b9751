/* SPDX-License-Identifier: BSD-3-Clause */

/* Addresses of sockets, TCP and UNIX. */

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include <leat_addr.h>

#include "gw_pvt.h"

#define UNIX_PREFIX "unix:"

static int
parse_unix(const char *text, const char *path, struct gw_where *where)
{
	struct sockaddr_un *un = &where->addr[0].un;

	if (path[0] == '\0' || strlen(path) >= sizeof(un->sun_path))
		return leat_err(EINVAL, "'%s': a path of 1 to %zu characters is wanted", text,
				sizeof(un->sun_path) - 1);
	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	snprintf(un->sun_path, sizeof(un->sun_path), "%s", path);
	where->len[0] = sizeof(*un);
	where->n = 1;
	return 0;
}

int
gw_where_parse(const char *text, bool passive, struct gw_where *where)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
					.ai_flags = passive ? AI_PASSIVE : 0 };
	char host[LEAT_ADDR_MAX], port[16];
	struct addrinfo *ai, *a;
	int ret;

	where->n = 0;
	if (strncmp(text, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0)
		return parse_unix(text, text + strlen(UNIX_PREFIX), where);
	ret = leat_addr_split(text, passive, host, sizeof(host), port, sizeof(port));
	if (ret < 0)
		return ret;
	ret = getaddrinfo(host[0] != '\0' ? host : NULL, port, &hints, &ai);
	if (ret != 0)
		return leat_err(EINVAL, "'%s': %s", text,
				ret == EAI_SYSTEM ? strerror(errno) : gai_strerror(ret));
	for (a = ai; a != NULL && where->n < GW_WHERE_MAX; a = a->ai_next) {
		if (a->ai_addrlen > sizeof(where->addr[0]))
			continue;
		memcpy(&where->addr[where->n], a->ai_addr, a->ai_addrlen);
		where->len[where->n++] = a->ai_addrlen;
	}
	freeaddrinfo(ai);
	return where->n > 0 ? 0 : leat_err(EINVAL, "'%s': it has no address", text);
}

static bool
is_local(const struct sockaddr *sa)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)sa;
	const struct sockaddr_in *in = (const struct sockaddr_in *)sa;

	if (sa->sa_family == AF_UNIX)
		return true;
	if (sa->sa_family == AF_INET)
		return ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
		return in6->sin6_addr.s6_addr[12] == IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}

bool
gw_where_local(const struct gw_where *where)
{
	unsigned int i;

	for (i = 0; i < where->n; i++) {
		if (!is_local(&where->addr[i].sa))
			return false;
	}
	return true;
}

void
gw_where_str(char *text, size_t len, const struct sockaddr *sa, socklen_t sa_len)
{
	if (sa->sa_family == AF_UNIX)
		snprintf(text, len, "unix");
	else
		leat_addr_str(text, len, sa, sa_len);
}
