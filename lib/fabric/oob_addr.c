/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "leat_error.h"
#include "oob_pvt.h"

int
oob_addr_split(const char *addr, bool any, char *host, size_t host_len, char *port, size_t port_len)
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

	if (end == begin && !any)
		return leat_err(EINVAL, "address '%.80s' names no host, write host%.80s", addr,
				colon);
	if ((size_t)(end - begin) >= host_len)
		return leat_err(EINVAL, "host of address '%.80s...' is too long", addr);

	for (p = colon + 1; *p != '\0'; p++) {
		if (*p < '0' || *p > '9' || p - colon > 5)
			break;
		value = value * 10 + (unsigned long)(*p - '0');
	}
	if (*p != '\0' || p == colon + 1 || value > UINT16_MAX || (value == 0 && !any))
		return leat_err(EINVAL, "port of address '%.80s' is not a number %d..65535", addr,
				any ? 0 : 1);

	memcpy(host, begin, (size_t)(end - begin));
	host[end - begin] = '\0';
	snprintf(port, port_len, "%lu", value);
	return 0;
}

void
oob_addr_str(char *dst, size_t size, const struct sockaddr *sa, socklen_t len)
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

static const struct addrinfo oob_hints = {
	.ai_family = AF_UNSPEC,
	.ai_socktype = SOCK_STREAM,
	.ai_protocol = IPPROTO_TCP,
};

int
oob_addr_numeric(const char *host, const char *port, bool passive, struct addrinfo **ai)
{
	struct addrinfo hints = oob_hints;

	hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
	return getaddrinfo(*host == '\0' ? NULL : host, port, &hints, ai) == 0 ? 0 : -ENOENT;
}

int
oob_addr_blocking(const char *host, const char *port, struct addrinfo **ai)
{
	struct addrinfo hints = oob_hints;

	hints.ai_flags = AI_NUMERICSERV | AI_PASSIVE;
	return getaddrinfo(host, port, &hints, ai);
}

/*
 * Lookups run in threads of the C library. One that is under way can't be stopped: its memory must
 * stay until it ends. A dropped lookup goes to a list of the process, and is freed when somebody
 * passes by after its end.
 */
struct oob_lookup {
	struct gaicb cb;
	struct addrinfo hints;
	struct oob_lookup *next;
	char host[NI_MAXHOST];
	char port[8];
};

static pthread_mutex_t orphans_lock = PTHREAD_MUTEX_INITIALIZER;
static struct oob_lookup *orphans;

static void
lookup_free(struct oob_lookup *l)
{
	if (l->cb.ar_result != NULL)
		freeaddrinfo(l->cb.ar_result);
	free(l);
}

static void
orphans_sweep(void)
{
	struct oob_lookup **prev, *l;

	pthread_mutex_lock(&orphans_lock);
	for (prev = &orphans; (l = *prev) != NULL;) {
		if (gai_error(&l->cb) == EAI_INPROGRESS) {
			prev = &l->next;
		} else {
			*prev = l->next;
			lookup_free(l);
		}
	}
	pthread_mutex_unlock(&orphans_lock);
}

struct oob_lookup *
oob_lookup_start(const char *host, const char *port)
{
	struct oob_lookup *l;
	struct gaicb *list[1];
	struct sigevent none = { .sigev_notify = SIGEV_NONE };

	orphans_sweep();
	l = calloc(1, sizeof(*l));
	if (l == NULL)
		return NULL;
	snprintf(l->host, sizeof(l->host), "%s", host);
	snprintf(l->port, sizeof(l->port), "%s", port);
	l->hints = oob_hints;
	l->hints.ai_flags = AI_NUMERICSERV;
	l->cb.ar_name = l->host;
	l->cb.ar_service = l->port;
	l->cb.ar_request = &l->hints;
	list[0] = &l->cb;
	if (getaddrinfo_a(GAI_NOWAIT, list, 1, &none) != 0) {
		free(l);
		return NULL;
	}
	return l;
}

int
oob_lookup_done(struct oob_lookup *l, struct addrinfo **ai)
{
	int ret = gai_error(&l->cb);

	if (ret == EAI_INPROGRESS)
		return -EINPROGRESS;
	if (ret == 0) {
		*ai = l->cb.ar_result;
		l->cb.ar_result = NULL;
	}
	lookup_free(l);
	return ret;
}

void
oob_lookup_drop(struct oob_lookup *l)
{
	int ret = gai_cancel(&l->cb);

	if (ret == EAI_CANCELED || ret == EAI_ALLDONE) {
		lookup_free(l);
	} else {
		pthread_mutex_lock(&orphans_lock);
		l->next = orphans;
		orphans = l;
		pthread_mutex_unlock(&orphans_lock);
	}
	orphans_sweep();
}
