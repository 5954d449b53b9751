/* SPDX-License-Identifier: BSD-3-Clause */

/* Addresses: "tcp:host:port", "unix:/path", or "host:port" of leat's devices. */

#include <netdb.h>
#include <string.h>

#include "transport.h"

static int
parse_unix(struct redb_addr *a, const char *opt)
{
	struct sockaddr_un *un = &a->addr[0].un;

	if (a->at[0] == '\0' || strlen(a->at) >= sizeof(un->sun_path)) {
		redb_msg("%s: '%s' is not the path of a socket, of up to %zu bytes", opt, a->text,
			 sizeof(un->sun_path) - 1);
		return -EINVAL;
	}
	un->sun_family = AF_UNIX;
	memcpy(un->sun_path, a->at, strlen(a->at) + 1);
	a->len[0] = sizeof(*un);
	a->nb_addrs = 1;
	return 0;
}

/* Split "host:port", "[v6]:port" or ":port". @return 0 or -EINVAL */
static int
split(const char *at, char *host, size_t len, const char **port)
{
	const char *colon = strrchr(at, ':'), *end = colon;

	if (colon == NULL || colon[1] == '\0')
		return -EINVAL;
	if (at[0] == '[') {
		at++;
		end--;
		if (end < at || *end != ']')
			return -EINVAL;
	} else if (memchr(at, ':', (size_t)(colon - at)) != NULL) {
		return -EINVAL;
	}
	if ((size_t)(end - at) >= len || strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
	    strlen(colon + 1) > 5)
		return -EINVAL;
	memcpy(host, at, (size_t)(end - at));
	host[end - at] = '\0';
	*port = colon + 1;
	return 0;
}

static int
look_up(struct redb_addr *a, const char *opt, const char *host, const char *port)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
					.ai_flags = AI_NUMERICSERV | AI_PASSIVE };
	struct addrinfo *list, *i;
	int ret = getaddrinfo(host[0] == '\0' ? NULL : host, port, &hints, &list);

	if (ret != 0) {
		redb_msg("%s: %s: %s", opt, a->text, gai_strerror(ret));
		return -EHOSTUNREACH;
	}
	for (i = list; i != NULL && a->nb_addrs < REDB_ADDRS; i = i->ai_next) {
		if (i->ai_addrlen > sizeof(a->addr[0]))
			continue;
		memcpy(&a->addr[a->nb_addrs], i->ai_addr, i->ai_addrlen);
		a->len[a->nb_addrs++] = i->ai_addrlen;
	}
	freeaddrinfo(list);
	return 0;
}

static int
parse_tcp(struct redb_addr *a, const char *opt)
{
	char host[REDB_TEXT];
	const char *port;

	if (split(a->at, host, sizeof(host), &port) < 0) {
		redb_msg("%s: '%s' is not tcp:host:port", opt, a->text);
		return -EINVAL;
	}
	return look_up(a, opt, host, port);
}

int
redb_addr_parse(struct redb_addr *a, const char *opt, const char *text)
{
	*a = (struct redb_addr){ .text = text, .at = text };
	if (strncmp(text, "unix:", 5) == 0) {
		a->transport = &redb_socket;
		a->via = "UNIX socket";
		a->at += 5;
		return parse_unix(a, opt);
	}
	if (strncmp(text, "tcp:", 4) == 0) {
		a->transport = &redb_socket;
		a->via = "TCP";
		a->at += 4;
		return parse_tcp(a, opt);
	}
	a->transport = &redb_stream;
	a->via = "stream";
	if (strrchr(text, ':') != NULL)
		return 0;
	redb_msg("%s: '%s' is not an address: host:port of a device, tcp:host:port or unix:/path",
		 opt, text);
	return -EINVAL;
}
