/* SPDX-License-Identifier: BSD-3-Clause */

/* Channels in a memfd, passed over a UNIX socket: the memory, and the eventfds if it has them. */

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "map.h"

#define FDS 3

union control {
	struct cmsghdr align;
	char space[CMSG_SPACE(FDS * sizeof(int))];
};

struct leat_channel *
leat_channel_memfd(const struct leat_channel_conf *conf, const struct leat_channel_opts *opts)
{
	uint64_t bytes = leat_channel_bytes(conf);
	int fd, i, efd[2] = { -1, -1 };
	struct chan_map *map;

	if (bytes == 0) {
		(void)chan_err(EINVAL,
			       "channel memfd: size, participants, policies or start are out of "
			       "range");
		return NULL;
	}
	fd = memfd_create("leat-channel", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	/* It can't shrink: whoever maps it need not fear SIGBUS. */
	if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
		(void)chan_err(errno, "channel memfd: %llu bytes: %m", (unsigned long long)bytes);
		goto fail;
	}
	for (i = 0; conf != NULL && conf->notify == LEAT_CHANNEL_NOTIFY_EVENTFD && i < 2; i++) {
		efd[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
		if (efd[i] < 0) {
			(void)chan_err(errno, "channel memfd: eventfd: %m");
			goto fail;
		}
	}
	map = chan_map_new(NULL, bytes, fd, efd);
	if (map == NULL)
		return NULL;
	if (leat_channel_format(map->mem, bytes, conf) != 0) {
		chan_map_put(map);
		return NULL;
	}
	return chan_map_attach(map, map->mem, bytes, opts);
fail:
	i = errno;
	if (fd >= 0)
		close(fd);
	if (efd[0] >= 0)
		close(efd[0]);
	errno = i;
	return NULL;
}

int
leat_channel_pass(struct leat_channel *ch, int sock)
{
	int fds[FDS] = { ch->map->fd, ch->map->efd[0], ch->map->efd[1] };
	size_t n = (fds[1] >= 0 ? FDS : 1) * sizeof(int);
	char nb = (char)(n / sizeof(int));
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

	if (fds[0] < 0)
		return chan_err(EINVAL, "channel pass: it is not in a file");
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(n);
	memcpy(CMSG_DATA(h), fds, n);
	do
		ret = sendmsg(sock, &msg, MSG_NOSIGNAL);
	while (ret < 0 && errno == EINTR);
	return ret == 1 ? 0 : chan_err(errno, "channel pass: sendmsg: %m");
}

/* The descriptors that came. @return how many */
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
		/* Not CMSG_SPACE(), which has room for one more. */
		.msg_controllen = CMSG_LEN(FDS * sizeof(int)),
	};
	struct cmsghdr *h;
	ssize_t ret;
	int n;

	do
		ret = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	while (ret < 0 && errno == EINTR);
	if (ret <= 0)
		return chan_err(ret == 0 ? ECONNRESET : errno, "channel accept: recvmsg: %s",
				strerror(ret == 0 ? ECONNRESET : errno));
	h = CMSG_FIRSTHDR(&msg);
	if (h == NULL || h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
		return chan_err(EPROTO, "channel accept: a message without descriptors");
	n = (int)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(fds, CMSG_DATA(h), (size_t)n * sizeof(int));
	return n;
}

struct leat_channel *
leat_channel_accept(int sock, const struct leat_channel_opts *opts)
{
	int i, n, seals, fds[FDS] = { -1, -1, -1 };
	struct chan_map *map;
	struct stat st;

	n = receive(sock, fds);
	if (n < 0)
		return NULL;
	seals = fcntl(fds[0], F_GET_SEALS);
	if (n == 2 || seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fds[0], &st) != 0 ||
	    st.st_size < (off_t)sizeof(struct chan_block)) {
		for (i = 0; i < FDS; i++) {
			if (fds[i] >= 0)
				close(fds[i]);
		}
		(void)chan_err(EPROTO, "channel accept: not a file of a channel that can't shrink");
		return NULL;
	}
	map = chan_map_new(NULL, (uint64_t)st.st_size, fds[0], &fds[1]);
	return map != NULL ? chan_map_attach(map, map->mem, (uint64_t)st.st_size, opts) : NULL;
}
