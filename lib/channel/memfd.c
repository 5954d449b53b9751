/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Channels in a memfd, passed over a UNIX socket: the memory's descriptor, and the eventfds if
 * there are any.
 */

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "map.h"

/* Descriptors in a message, at most: the memory's, and with NOTIFY_EVENTFD each participant's. */
#define FDS (1 + LEAT_CHANNEL_PARTICIPANTS_MAX)

union control {
	struct cmsghdr align;
	char space[CMSG_SPACE(FDS * sizeof(int))];
};

/*
 * Create the eventfds. The handle gets duplicates of the descriptors, which are closed here in any
 * case. @return 0, -errno
 */
static int
create_eventfds(struct leat_channel *ch)
{
	int fds[LEAT_CHANNEL_PARTICIPANTS_MAX], ret = 0;
	uint32_t n;

	for (n = 0; n < ch->participants && ret == 0; n++) {
		fds[n] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (fds[n] < 0) {
			ret = chan_err(errno, "channel memfd: eventfd %u of %u: %m", n + 1,
				       ch->participants);
			break;
		}
	}
	if (ret == 0)
		ret = leat_channel_set_eventfds(ch, fds, n);
	while (n-- > 0)
		close(fds[n]);
	return ret;
}

struct leat_channel *
leat_channel_memfd(const struct leat_channel_conf *conf, const struct leat_channel_opts *opts)
{
	uint64_t bytes = leat_channel_bytes(conf);
	struct leat_channel *ch;
	struct chan_map *map;
	int fd, saved;

	if (bytes == 0) {
		(void)chan_err(EINVAL,
			       "channel memfd: size, participants, policies or start are out of "
			       "range");
		return NULL;
	}
	fd = memfd_create("leat-channel", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	/* Sealed against shrinking: no process that maps it can get SIGBUS. */
	if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
		(void)chan_err(errno, "channel memfd: %llu bytes: %m", (unsigned long long)bytes);
		saved = errno;
		if (fd >= 0)
			close(fd);
		errno = saved;
		return NULL;
	}
	map = chan_map_new(NULL, bytes, fd);
	if (map == NULL)
		return NULL;
	if (leat_channel_format(map->mem, bytes, conf) != 0) {
		chan_map_put(map);
		return NULL;
	}
	ch = chan_map_attach(map, map->mem, bytes, opts);
	if (ch == NULL || ch->notify != LEAT_CHANNEL_NOTIFY_EVENTFD || create_eventfds(ch) == 0)
		return ch;
	saved = errno;
	leat_channel_close(ch);
	errno = saved;
	return NULL;
}

int
leat_channel_pass(struct leat_channel *ch, int sock)
{
	uint32_t nb_efd = atomic_load_explicit(&ch->map->nb_efd, memory_order_acquire);
	size_t n = (1 + nb_efd) * sizeof(int);
	char nb = (char)(1 + nb_efd);
	struct iovec iov = { .iov_base = &nb, .iov_len = 1 };
	union control c = { 0 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = c.space,
		.msg_controllen = CMSG_SPACE(n),
	};
	struct cmsghdr *h = CMSG_FIRSTHDR(&msg);
	ssize_t ret;

	if (ch->map->fd < 0)
		return chan_err(EINVAL, "channel pass: it is not in a file");
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(n);
	memcpy(CMSG_DATA(h), &ch->map->fd, sizeof(int));
	memcpy(CMSG_DATA(h) + sizeof(int), ch->map->efd, nb_efd * sizeof(int));
	do
		ret = sendmsg(sock, &msg, MSG_NOSIGNAL);
	while (ret < 0 && errno == EINTR);
	return ret == 1 ? 0 : chan_err(errno, "channel pass: sendmsg: %m");
}

/*
 * Close the descriptors of a message from which the kernel left some out: there were more than any
 * channel has, or this process has reached its limit of open files. Sets errno.
 */
static void
refuse_truncated(const int *fds, int n)
{
	int i;

	for (i = 0; i < n; i++)
		close(fds[i]);
	if (n == FDS)
		(void)chan_err(EPROTO, "channel accept: more than %d descriptors", FDS);
	else
		(void)chan_err(EMFILE,
			       "channel accept: %s; raise the limit of open files (ulimit -n)",
			       strerror(EMFILE));
}

/* Receive the descriptors. @return number of descriptors, 0 with errno */
static int
receive(int sock, int *fds)
{
	char nb;
	struct iovec iov = { .iov_base = &nb, .iov_len = 1 };
	union control c = { 0 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = c.space,
		/* Not CMSG_SPACE(), whose padding has room for one more descriptor. */
		.msg_controllen = CMSG_LEN(FDS * sizeof(int)),
	};
	struct cmsghdr *h;
	ssize_t ret;
	int n;

	do
		ret = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	while (ret < 0 && errno == EINTR);
	if (ret <= 0) {
		(void)chan_err(ret == 0 ? ECONNRESET : errno, "channel accept: recvmsg: %s",
			       strerror(ret == 0 ? ECONNRESET : errno));
		return 0;
	}
	n = 0;
	h = CMSG_FIRSTHDR(&msg);
	if (h != NULL && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS)
		n = (int)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	if (n > 0)
		memcpy(fds, CMSG_DATA(h), (size_t)n * sizeof(int));
	if ((msg.msg_flags & MSG_CTRUNC) != 0) {
		refuse_truncated(fds, n);
		return 0;
	}
	if (n < 1) {
		(void)chan_err(EPROTO, "channel accept: a message without descriptors");
		return 0;
	}
	return n;
}

/* Attach to a channel in the first file, with the other descriptors as its eventfds, if any. */
static struct leat_channel *
attach_received(const int *fds, int n, const struct leat_channel_opts *opts)
{
	int seals = fcntl(fds[0], F_GET_SEALS), own, ret;
	struct leat_channel *ch;
	struct chan_map *map;
	struct stat st;

	if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fds[0], &st) != 0 ||
	    st.st_size < (off_t)sizeof(struct chan_block)) {
		(void)chan_err(EPROTO, "channel accept: not a file of a channel that can't shrink");
		return NULL;
	}
	own = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
	if (own < 0) {
		(void)chan_err(errno, "channel accept: dup: %m");
		return NULL;
	}
	map = chan_map_new(NULL, (uint64_t)st.st_size, own);
	ch = map != NULL ? chan_map_attach(map, map->mem, (uint64_t)st.st_size, opts) : NULL;
	if (ch == NULL)
		return NULL;
	if (n != (ch->notify == LEAT_CHANNEL_NOTIFY_EVENTFD ? 1 + (int)ch->participants : 1))
		ret = chan_err(EPROTO,
			       "channel accept: %d descriptors, which are not those of a channel "
			       "of %u participants",
			       n, ch->participants);
	else if (n > 1)
		ret = leat_channel_set_eventfds(ch, &fds[1], (unsigned int)n - 1);
	else
		ret = 0;
	if (ret == 0)
		return ch;
	leat_channel_close(ch);
	errno = -ret;
	return NULL;
}

struct leat_channel *
leat_channel_accept(int sock, const struct leat_channel_opts *opts)
{
	struct leat_channel *ch;
	int n, saved, fds[FDS];

	n = receive(sock, fds);
	if (n == 0)
		return NULL;
	ch = attach_received(fds, n, opts);
	saved = errno;
	while (n-- > 0)
		close(fds[n]);
	errno = saved;
	return ch;
}
