/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Receive windows of provider sockets, which can close for ever on a loopback interface.
 *
 * The provider peeks until a whole message header has arrived, and only then reads. The rest of the
 * last segment, perhaps a single byte, keeps all of that segment's memory in use: up to 128 KiB
 * where segments have 64 KiB, as on a loopback interface. In a receive buffer of the usual first
 * size (net.ipv4.tcp_rmem, 128 KiB) less than another segment is then free, so the kernel announces
 * a window of 0. The rest of the header never arrives, and the byte is never read. With room for
 * two segments that can't happen.
 *
 * No option changes the buffer: FI_SOCKETS_MAX_BUF_SZ is applied to listening sockets, not to
 * connecting ones. Hence the driver looks for the provider's sockets among those of the process. A
 * connection that has stopped already resumes with the kernel's next probe of the window.
 */

#include <dirent.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "ofi_pvt.h"

/*
 * Bytes: two segments with the kernel's overhead, doubled. The kernel grants less if
 * net.core.rmem_max is lower.
 */
#define WINDOW (512 << 10)
/* us. How often to look for new connections. */
#define LOOK_US 50000

union address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

static bool
same(const union address *a, const uint8_t *raw, uint16_t len)
{
	union address b;

	if (len > sizeof(b))
		return false;
	memset(&b, 0, sizeof(b));
	memcpy(&b, raw, len);
	if (a->sa.sa_family != b.sa.sa_family)
		return false;
	if (a->sa.sa_family == AF_INET)
		return a->in.sin_port == b.in.sin_port &&
		       a->in.sin_addr.s_addr == b.in.sin_addr.s_addr;
	return a->sa.sa_family == AF_INET6 && a->in6.sin6_port == b.in6.sin6_port &&
	       memcmp(&a->in6.sin6_addr, &b.in6.sin6_addr, sizeof(b.in6.sin6_addr)) == 0;
}

/*
 * Does the socket belong to this endpoint? It may listen, be accepted, or be connected to a peer.
 */
static bool
is_ours(const struct ofi_ep *e, int fd)
{
	union address here = { .sa = { 0 } }, there = { .sa = { 0 } };
	socklen_t len = sizeof(here);
	const struct ofi_addr *a;

	if (getsockname(fd, &here.sa, &len) != 0)
		return false;
	if (same(&here, e->raw, e->raw_len))
		return true;
	len = sizeof(there);
	if (getpeername(fd, &there.sa, &len) != 0)
		return false;
	for (a = e->addrs; a != NULL; a = a->next) {
		if (same(&there, a->raw, a->len))
			return true;
	}
	return false;
}

static void
widen(const struct ofi_ep *e, int fd)
{
	int size = 0, protocol = 0;
	socklen_t len = sizeof(protocol);

	if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) != 0 ||
	    protocol != IPPROTO_TCP || !is_ours(e, fd))
		return;
	len = sizeof(size);
	if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, &len) != 0 || size >= WINDOW)
		return;
	size = WINDOW;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)) != 0)
		LEAT_LOG(DEBUG, driver, "%s: SO_RCVBUF of the provider's socket can't be set",
			 e->dev->name);
}

void
ofi_window_step(struct ofi_ep *e, uint64_t now)
{
	const struct dirent *entry;
	DIR *fds;

	if (now < e->window_at)
		return;
	e->window_at = now + leat_us_to_cycles(LOOK_US);
	fds = opendir("/proc/self/fd");
	if (fds == NULL)
		return;
	/* cppcheck-suppress readdirCalled ; no other function has this directory open */
	while ((entry = readdir(fds)) != NULL) {
		char *end;
		long fd = strtol(entry->d_name, &end, 10);

		if (end != entry->d_name && *end == '\0')
			widen(e, (int)fd);
	}
	(void)closedir(fds);
}
