/* SPDX-License-Identifier: BSD-3-Clause */

/* Addresses: "10.0.0.1:7000", "[fe80::1%eth0]:7000", ":7000", "host:7000". */

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <leat_addr.h>

#include "verbs_pvt.h"

struct name {
	char host[LEAT_ADDR_MAX];
	char port[8];
};

/*
 * Copy the first address of a family for which the device has a local address, and free the list.
 * If d is NULL, copy the first address of all.
 */
static int
take(struct vb_dev *d, struct addrinfo *list, struct sockaddr_storage *ss)
{
	struct addrinfo *ai;

	for (ai = list; ai != NULL; ai = ai->ai_next) {
		if (ai->ai_addrlen > sizeof(*ss) ||
		    (d != NULL && vb_src_for(d, ai->ai_family) == NULL))
			continue;
		memset(ss, 0, sizeof(*ss));
		memcpy(ss, ai->ai_addr, ai->ai_addrlen);
		break;
	}
	if (list != NULL)
		freeaddrinfo(list);
	return ai != NULL ? 0 : -EADDRNOTAVAIL;
}

/* Parse an address. @return 0: ss is set; -ENOENT: the host is a name; -EINVAL with leat_err() */
static int
parse(const char *addr, bool passive, struct name *n, struct sockaddr_storage *ss)
{
	struct addrinfo *list;

	if (leat_addr_split(addr, passive, n->host, sizeof(n->host), n->port, sizeof(n->port)) < 0)
		return -EINVAL;
	if (n->host[0] == '\0') {
		struct sockaddr_in *in = (void *)ss;

		memset(ss, 0, sizeof(*ss));
		in->sin_family = AF_INET;
		in->sin_port = htons((uint16_t)strtoul(n->port, NULL, 10));
		return 0;
	}
	if (leat_addr_numeric(n->host, n->port, passive, &list) < 0)
		return -ENOENT;
	if (take(NULL, list, ss) < 0 || (addr[0] == '[') != (ss->ss_family == AF_INET6))
		return leat_err(EINVAL, "address '%.80s': an IPv6 address goes in [], others don't",
				addr);
	return 0;
}

int
vb_addr_parse(const char *addr, bool passive, struct sockaddr_storage *ss)
{
	struct name n;
	int ret = parse(addr, passive, &n, ss);

	if (ret == -ENOENT)
		return leat_err(EINVAL,
				"address '%.80s': an IPv4 address or an IPv6 one in [] is needed",
				addr);
	return ret;
}

int
vb_addr_listen(struct vb_dev *d, const char *addr, struct sockaddr_storage *ss)
{
	struct addrinfo *list = NULL;
	struct name n;
	int ret = parse(addr, true, &n, ss);

	if (ret != -ENOENT)
		return ret;
	ret = leat_addr_blocking(n.host, n.port, &list);
	if (ret != 0)
		return leat_err(EHOSTUNREACH,
				"%s: listen %s: the host's name can't be resolved: %s", d->name,
				addr, gai_strerror(ret));
	if (take(d, list, ss) < 0)
		return leat_err(EADDRNOTAVAIL, "%s: listen %s: no address of a kind that %s has",
				d->name, addr, ibv_get_device_name(d->ibdev));
	return 0;
}

int
vb_addr_connect(const char *addr, struct sockaddr_storage *ss, struct leat_lookup **lookup)
{
	struct name n;
	int ret = parse(addr, false, &n, ss);

	*lookup = NULL;
	if (ret != -ENOENT)
		return ret;
	*lookup = leat_lookup_start(n.host, n.port);
	return *lookup != NULL ? 0 : -EAGAIN;
}

int
vb_addr_looked_up(struct vb_dev *d, struct leat_lookup **lookup, struct sockaddr_storage *ss,
		  const char **why)
{
	struct addrinfo *list = NULL;
	int ret = leat_lookup_done(*lookup, &list);

	if (ret == -EINPROGRESS)
		return ret;
	*lookup = NULL;
	if (ret == EAI_AGAIN || ret == EAI_MEMORY)
		return -EAGAIN; /* a later lookup may succeed */
	*why = ret != 0 ? gai_strerror(ret) : "it has no address of a kind that the device has";
	return ret == 0 && take(d, list, ss) == 0 ? 0 : -EHOSTUNREACH;
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
