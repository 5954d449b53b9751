/* SPDX-License-Identifier: BSD-3-Clause */

/* "host:port", and look-up of names on threads. */

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "leat_addr.h"
#include "leat_error.h"
#include "leat_thread.h"

int
leat_addr_split(const char *addr, bool passive, char *host, size_t host_len, char *port,
		size_t port_len)
{
	const char *colon, *begin = addr, *end, *p;
	unsigned long value = 0;

	if (addr == NULL || *addr == '\0')
		return leat_err(EINVAL, "an address is needed, like 10.0.0.1:7000 or [::1]:7000");

	colon = strrchr(addr, ':');
	if (colon == NULL)
		return leat_err(EINVAL, "address '%.80s' has no port, write %.80s:7000", addr,
				addr);
	end = colon;
	if (*addr == '[') {
		begin = addr + 1;
		end = strchr(addr, ']');
		if (end == NULL || end + 1 != colon || end == begin)
			return leat_err(EINVAL, "address '%.80s' is not of the form [v6]:port",
					addr);
	} else if (memchr(addr, ':', (size_t)(colon - addr)) != NULL) {
		return leat_err(EINVAL, "address '%.80s' is ambiguous, write [v6]:port", addr);
	}

	if (end == begin && !passive)
		return leat_err(EINVAL, "address '%.80s' names no host, write host%.80s", addr,
				colon);
	if ((size_t)(end - begin) >= host_len)
		return leat_err(EINVAL, "host of address '%.80s...' is too long", addr);

	for (p = colon + 1; *p != '\0'; p++) {
		if (*p < '0' || *p > '9' || p - colon > 5)
			break;
		value = value * 10 + (unsigned long)(*p - '0');
	}
	if (*p != '\0' || p == colon + 1 || value > UINT16_MAX || (value == 0 && !passive))
		return leat_err(EINVAL, "port of address '%.80s' is not a number %d..65535", addr,
				passive ? 0 : 1);

	memcpy(host, begin, (size_t)(end - begin));
	host[end - begin] = '\0';
	snprintf(port, port_len, "%lu", value);
	return 0;
}

void
leat_addr_str(char *dst, size_t size, const struct sockaddr *sa, socklen_t len)
{
	char host[NI_MAXHOST], port[NI_MAXSERV];

	if (getnameinfo(sa, len, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
		snprintf(dst, size, "address of family %d", sa->sa_family);
		return;
	}
	if (sa->sa_family == AF_INET6)
		snprintf(dst, size, "[%.60s]:%.5s", host, port);
	else
		snprintf(dst, size, "%.60s:%.5s", host, port);
}

static const struct addrinfo addr_hints = {
	.ai_family = AF_UNSPEC,
	.ai_socktype = SOCK_STREAM,
	.ai_protocol = IPPROTO_TCP,
};

int
leat_addr_numeric(const char *host, const char *port, bool passive, struct addrinfo **ai)
{
	struct addrinfo hints = addr_hints;

	hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
	return getaddrinfo(*host == '\0' ? NULL : host, port, &hints, ai) == 0 ? 0 : -ENOENT;
}

int
leat_addr_blocking(const char *host, const char *port, struct addrinfo **ai)
{
	struct addrinfo hints = addr_hints;

	hints.ai_flags = AI_NUMERICSERV | AI_PASSIVE;
	return getaddrinfo(host, port, &hints, ai);
}

/*
 * Each lookup runs on a thread of its own, because getaddrinfo() always blocks and can't be
 * cancelled. (The C library's getaddrinfo_a() does the same, but its threads are invisible to the
 * thread sanitizer, which crashes in them.) The thread and the lookup's owner share the lookup; the
 * last of the two to finish with it frees it.
 */
enum { LOOKUP_RUNNING, LOOKUP_DONE, LOOKUP_DROPPED };

struct leat_lookup {
	int state; /* LOOKUP_*; the release of LOOKUP_DONE publishes ret and ai */
	int ret;
	struct addrinfo *ai;
	char host[NI_MAXHOST];
	char port[8];
};

/* Maximum number of lookups at a time: a lookup that gets no answer keeps its thread for long. */
#define LOOKUPS_MAX 8
static unsigned int lookups; /* number of lookups running now, in the whole process */

static void
lookup_free(struct leat_lookup *l)
{
	if (l->ai != NULL)
		freeaddrinfo(l->ai);
	free(l);
}

static void *
lookup_main(void *arg)
{
	struct leat_lookup *l = arg;
	struct addrinfo hints = addr_hints;

	hints.ai_flags = AI_NUMERICSERV;
	l->ret = getaddrinfo(l->host, l->port, &hints, &l->ai);
	if (l->ret != 0)
		l->ai = NULL;
	/* Release: leat_lookup_done() sees ret and ai. Acquire: the owner's accesses are over. */
	if (__atomic_exchange_n(&l->state, LOOKUP_DONE, __ATOMIC_ACQ_REL) == LOOKUP_DROPPED)
		lookup_free(l);
	__atomic_sub_fetch(&lookups, 1, __ATOMIC_RELAXED);
	return NULL;
}

struct leat_lookup *
leat_lookup_start(const char *host, const char *port)
{
	struct leat_lookup *l;

	if (__atomic_add_fetch(&lookups, 1, __ATOMIC_RELAXED) > LOOKUPS_MAX)
		goto full;
	l = calloc(1, sizeof(*l));
	if (l == NULL)
		goto full;
	snprintf(l->host, sizeof(l->host), "%s", host);
	snprintf(l->port, sizeof(l->port), "%s", port);
	if (leat_thread_start(lookup_main, l) < 0) {
		free(l);
		goto full;
	}
	return l;

full:
	__atomic_sub_fetch(&lookups, 1, __ATOMIC_RELAXED);
	return NULL;
}

int
leat_lookup_done(struct leat_lookup *l, struct addrinfo **ai)
{
	int ret;

	/* Acquire: pairs with the release in lookup_main(). */
	if (__atomic_load_n(&l->state, __ATOMIC_ACQUIRE) != LOOKUP_DONE)
		return -EINPROGRESS;
	ret = l->ret;
	*ai = l->ai;
	l->ai = NULL;
	lookup_free(l);
	return ret;
}

void
leat_lookup_drop(struct leat_lookup *l)
{
	/* Release: the owner's accesses end here. Acquire: see ret and ai, to free them. */
	if (__atomic_exchange_n(&l->state, LOOKUP_DROPPED, __ATOMIC_ACQ_REL) == LOOKUP_DONE)
		lookup_free(l);
}
