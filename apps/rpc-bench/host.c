/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The host at which other processes reach this one: that of --bind, which is a name, an address or
 * a network interface of this machine; else the address of the device's interface, if it has one;
 * else the machine's name.
 */

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

/* Can other machines use this address? fe80::/10 is valid on one interface only. */
static bool
global(const struct sockaddr *sa)
{
	return sa->sa_family == AF_INET ||
	       (sa->sa_family == AF_INET6 &&
		!IN6_IS_ADDR_LINKLOCAL(
			&((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr));
}

/* @return 0; -ENODEV: no such interface; -EADDRNOTAVAIL: it has no address */
static int
interface_addr(const char *name, char *host, size_t len)
{
	int ret = if_nametoindex(name) == 0 ? -ENODEV : -EADDRNOTAVAIL;
	char text[NI_MAXHOST];
	struct ifaddrs *list, *i;

	if (ret == -ENODEV || getifaddrs(&list) != 0)
		return ret;
	for (i = list; i != NULL; i = i->ifa_next) {
		const struct sockaddr *sa = i->ifa_addr;
		const bool v4 = sa != NULL && sa->sa_family == AF_INET;

		/* Prefer IPv4. */
		if (sa == NULL || strcmp(i->ifa_name, name) != 0 || !global(sa) ||
		    (ret == 0 && !v4) ||
		    getnameinfo(sa, v4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6),
				text, sizeof(text), NULL, 0, NI_NUMERICHOST) != 0)
			continue;
		snprintf(host, len, v4 ? "%s" : "[%s]", text);
		ret = 0;
		if (v4)
			break;
	}
	freeifaddrs(list);
	return ret;
}

int
rb_host_choose(const struct rb_bench *b, char *host, size_t len)
{
	struct leat_dev_info info;
	int ret;

	if (b->o.bind != NULL) {
		ret = interface_addr(b->o.bind, host, len);
		if (ret == -EADDRNOTAVAIL) {
			rb_msg("--bind %s: that interface has no address", b->o.bind);
			return ret;
		}
		if (ret < 0)
			snprintf(host, len, "%s", b->o.bind);
		return 0;
	}
	if (leat_dev_info_get(b->dev, &info) == 0 && interface_addr(info.interface, host, len) == 0)
		return 0;
	if (gethostname(host, len - 1) == 0)
		return 0;
	rb_msg("this machine has no name: --bind HOST");
	return -EADDRNOTAVAIL;
}

bool
rb_is_addr(const char *addr)
{
	const char *colon = strrchr(addr, ':'), *port = colon != NULL ? colon + 1 : "";
	size_t digits = strspn(port, "0123456789");

	return strlen(addr) < LEAT_ADDR_MAX && port[digits] == '\0' && digits >= 1 && digits <= 5 &&
	       atoi(port) <= UINT16_MAX;
}

void
rb_host_of(const char *addr, char *host, size_t len)
{
	snprintf(host, len, "%.*s", (int)(strrchr(addr, ':') - addr), addr);
}
