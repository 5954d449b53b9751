/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The process-wide table of listeners, by names of the form "host:port". Names are not resolved. A
 * name matches a listener if the ports are equal, and the hosts are the same string or the
 * listener's host is a wildcard ("", "*", "0.0.0.0", "[::]"). Control path only, under one mutex.
 */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ring_inside.h"

#define FIRST_FREE_PORT 49152
#define LAST_PORT 65535

struct ring_name {
	char host[LEAT_ADDR_MAX];
	uint16_t port;
};

struct ring_listener {
	TAILQ_ENTRY(ring_listener) link;
	struct ring_name name;
	struct ring_mbox *mbox; /* a reference */
};

static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;
static TAILQ_HEAD(, ring_listener) listeners = TAILQ_HEAD_INITIALIZER(listeners);
static uint16_t next_port = FIRST_FREE_PORT;

/* ---- mailboxes ---- */

struct ring_mbox *
ring_mbox_new(uint32_t max_peers)
{
	struct ring_mbox *mbox = aligned_alloc(128, sizeof(*mbox));

	if (mbox == NULL)
		return NULL;
	memset(mbox, 0, sizeof(*mbox));
	mbox->fd = -1;
	mbox->board = ring_board_new(max_peers);
	if (mbox->board == NULL || pthread_mutex_init(&mbox->lock, NULL) != 0) {
		free(mbox->board);
		free(mbox);
		return NULL;
	}
	mbox->refs = 1;
	STAILQ_INIT(&mbox->requests);
	return mbox;
}

void
ring_mbox_get(struct ring_mbox *mbox)
{
	/* relaxed: the caller reached the mailbox through a reference that exists already */
	__atomic_fetch_add(&mbox->refs, 1, __ATOMIC_RELAXED);
}

void
ring_mbox_put(struct ring_mbox *mbox)
{
	/* release: this owner's uses come before the free; acquire: so do other owners' uses */
	if (mbox == NULL || __atomic_sub_fetch(&mbox->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	pthread_mutex_destroy(&mbox->lock);
	if (mbox->fd >= 0)
		(void)close(mbox->fd);
	free(mbox->board);
	free(mbox);
}

struct ring_conn *
ring_mbox_take(struct ring_mbox *mbox)
{
	struct ring_conn *conn;

	pthread_mutex_lock(&mbox->lock);
	conn = STAILQ_FIRST(&mbox->requests);
	if (conn != NULL)
		STAILQ_REMOVE_HEAD(&mbox->requests, next);
	pthread_mutex_unlock(&mbox->lock);
	return conn;
}

void
ring_mbox_close(struct ring_mbox *mbox)
{
	struct ring_conn *conn;

	pthread_mutex_lock(&mbox->lock);
	mbox->closed = true;
	pthread_mutex_unlock(&mbox->lock);
	while ((conn = ring_mbox_take(mbox)) != NULL) {
		ring_conn_reject(conn);
		ring_conn_put(conn);
	}
}

/* Put a request and a reference to it into a mailbox. @return false: the mailbox is closed */
static bool
mbox_send(struct ring_mbox *mbox, struct ring_conn *conn)
{
	bool open;

	pthread_mutex_lock(&mbox->lock);
	open = !mbox->closed;
	if (open) {
		__atomic_fetch_add(&conn->refs, 1, __ATOMIC_RELAXED);
		conn->mbox[1] = mbox;
		STAILQ_INSERT_TAIL(&mbox->requests, conn, next);
	}
	pthread_mutex_unlock(&mbox->lock);
	if (open)
		ring_bell(mbox);
	return open;
}

/* ---- names ---- */

static int
name_parse(const char *addr, const char *what, struct ring_name *name)
{
	const char *colon = strrchr(addr, ':'), *p;
	unsigned int port = 0;
	size_t len = colon == NULL ? 0 : (size_t)(colon - addr);

	if (colon == NULL || colon[1] == '\0' || len >= sizeof(name->host))
		goto bad;
	for (p = colon + 1; *p != '\0'; p++) {
		if (*p < '0' || *p > '9')
			goto bad;
		port = port * 10 + (unsigned int)(*p - '0');
		if (port > LAST_PORT)
			goto bad;
	}
	/* a host with a colon must be in brackets, and brackets must enclose all of the host */
	if (len > 0 && addr[0] == '[') {
		if (len < 3 || memchr(addr, ']', len) != addr + len - 1)
			goto bad;
	} else if (memchr(addr, ':', len) != NULL || memchr(addr, ']', len) != NULL) {
		goto bad;
	}
	memcpy(name->host, addr, len);
	name->host[len] = '\0';
	name->port = (uint16_t)port;
	return 0;
bad:
	return leat_err(EINVAL,
			"ring: %s %s: host:port, [v6]:port or :port expected, port 0..65535", what,
			addr);
}

int
ring_name_check(const char *addr, const char *what)
{
	struct ring_name name;

	if (name_parse(addr, what, &name) < 0)
		return -EINVAL;
	if (name.port == 0)
		return leat_err(EINVAL, "ring: %s %s: no endpoint listens at port 0", what, addr);
	return 0;
}

static bool
is_wildcard(const struct ring_name *name)
{
	static const char *const any[] = { "", "*", "0.0.0.0", "[::]" };
	size_t i;

	for (i = 0; i < RTE_DIM(any); i++) {
		if (strcmp(name->host, any[i]) == 0)
			return true;
	}
	return false;
}

/* Find the listener that gets a request sent to a name. names_lock is held. */
static struct ring_listener *
find(const struct ring_name *to)
{
	struct ring_listener *l;

	TAILQ_FOREACH(l, &listeners, link) {
		if (l->name.port == to->port &&
		    (strcmp(l->name.host, to->host) == 0 || is_wildcard(&l->name)))
			return l;
	}
	return NULL;
}

/* Would a listener at this name overlap with one that exists? names_lock is held. */
static bool
in_use(const struct ring_name *name)
{
	struct ring_listener *l;

	if (find(name) != NULL)
		return true;
	if (!is_wildcard(name))
		return false;
	TAILQ_FOREACH(l, &listeners, link) {
		if (l->name.port == name->port)
			return true;
	}
	return false;
}

/* Choose a free port for a name's host. names_lock is held. @return 0: there is none */
static uint16_t
free_port(struct ring_name *name)
{
	unsigned int i;

	for (i = 0; i <= LAST_PORT - FIRST_FREE_PORT; i++) {
		name->port = next_port;
		next_port = next_port == LAST_PORT ? FIRST_FREE_PORT : (uint16_t)(next_port + 1);
		if (!in_use(name))
			return name->port;
	}
	return 0;
}

struct ring_listener *
ring_name_listen(const char *addr, struct ring_mbox *mbox)
{
	struct ring_listener *l = calloc(1, sizeof(*l));
	bool taken;

	if (l == NULL) {
		leat_err(ENOMEM, "ring: listen %s: out of memory", addr);
		return NULL;
	}
	if (name_parse(addr, "listen", &l->name) < 0) {
		free(l);
		return NULL;
	}
	l->mbox = mbox;
	pthread_mutex_lock(&names_lock);
	if (l->name.port == 0)
		taken = free_port(&l->name) == 0;
	else
		taken = in_use(&l->name);
	if (!taken) {
		ring_mbox_get(mbox);
		TAILQ_INSERT_TAIL(&listeners, l, link);
	}
	pthread_mutex_unlock(&names_lock);
	if (taken) {
		free(l);
		leat_err(EADDRINUSE,
			 "ring: listen %s: an endpoint of this process listens there already; "
			 "port 0 takes a free one",
			 addr);
		return NULL;
	}
	return l;
}

void
ring_name_unlisten(struct ring_listener *l)
{
	pthread_mutex_lock(&names_lock);
	TAILQ_REMOVE(&listeners, l, link);
	pthread_mutex_unlock(&names_lock);
	ring_mbox_put(l->mbox);
	free(l);
}

int
ring_name_get(const struct ring_listener *l, char *addr, size_t len)
{
	int n = snprintf(addr, len, "%s:%u", l->name.host, l->name.port);

	if (n < 0 || (size_t)n >= len)
		return leat_err(ENOSPC, "ring: the address takes %d bytes, the buffer has %zu",
				n + 1, len);
	return 0;
}

bool
ring_name_send(const char *addr, struct ring_conn *conn)
{
	struct ring_mbox *mbox = NULL;
	struct ring_listener *l;
	struct ring_name to = { .port = 0 };

	if (name_parse(addr, "connect", &to) < 0)
		return false;
	pthread_mutex_lock(&names_lock);
	l = find(&to);
	if (l != NULL) {
		mbox = l->mbox;
		ring_mbox_get(mbox);
	}
	pthread_mutex_unlock(&names_lock);
	if (mbox == NULL)
		return false;
	/* if mbox_send() succeeds, conn owns the reference to mbox from now on */
	if (mbox_send(mbox, conn))
		return true;
	ring_mbox_put(mbox);
	return false;
}
