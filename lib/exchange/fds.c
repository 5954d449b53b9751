/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Descriptors with HELLO and ACCEPT over UNIX sockets, as SCM_RIGHTS. They arrive with the first
 * byte of a side's first message; descriptors that arrive later end the connection.
 */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "exchange_pvt.h"
#include "leat_error.h"

/* The member hdr aligns buf, which begins with a header. */
union control {
	struct cmsghdr hdr;
	char buf[CMSG_SPACE(sizeof(int) * LEAT_EXCHANGE_FDS_MAX)];
};

int
exchange_fds_dup(struct exchange_fds *fds, const struct leat_exchange_data *data, const char *name)
{
	fds->nb = 0;
	while (fds->nb < data->nb_fds) {
		int fd = fcntl(data->fds[fds->nb], F_DUPFD_CLOEXEC, 0);

		if (fd < 0) {
			int err = errno;

			exchange_fds_close(fds);
			return leat_err(err, "%s: descriptor %d can't be duplicated: %s%s", name,
					data->fds[fds->nb], strerror(err),
					err == EMFILE ? "; raise the limit of open files "
							"(ulimit -n)"
						      : "");
		}
		fds->fd[fds->nb++] = fd;
	}
	return 0;
}

void
exchange_fds_close(struct exchange_fds *fds)
{
	while (fds->nb > 0)
		(void)close(fds->fd[--fds->nb]);
}

ssize_t
exchange_fds_send(struct exchange_conn *c)
{
	struct iovec iov = { .iov_base = c->tx + c->tx_off,
			     .iov_len = (size_t)(c->tx_len - c->tx_off) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	size_t len = sizeof(int) * c->tx_fds.nb;
	union control control;
	struct cmsghdr *cmsg;
	ssize_t n;

	if (c->tx_off == 0 && c->tx_fds.nb > 0) {
		memset(&control, 0, sizeof(control));
		msg.msg_control = control.buf;
		msg.msg_controllen = CMSG_SPACE(len);
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(len);
		memcpy(CMSG_DATA(cmsg), c->tx_fds.fd, len);
	}
	n = sendmsg(c->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	/* A connector keeps its descriptors: it may have to send its HELLO again. */
	if (n > 0 && !c->connector)
		exchange_fds_close(&c->tx_fds);
	return n;
}

/* Get the descriptors of a received message. */
static void
fds_take(struct msghdr *msg, struct exchange_fds *fds)
{
	struct cmsghdr *cmsg;

	fds->nb = 0;
	for (cmsg = CMSG_FIRSTHDR(msg); cmsg != NULL; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		size_t len = cmsg->cmsg_len - CMSG_LEN(0);

		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		/*
		 * The kernel puts all descriptors into one header, and control has room for one
		 * header only.
		 */
		memcpy(fds->fd, CMSG_DATA(cmsg), RTE_MIN(len, sizeof(fds->fd)));
		fds->nb = (uint8_t)RTE_MIN(len / sizeof(int), (size_t)LEAT_EXCHANGE_FDS_MAX);
	}
}

ssize_t
exchange_fds_recv(struct exchange_conn *c, const char **why)
{
	struct iovec iov = { .iov_base = c->rx + c->rx_len, .iov_len = sizeof(c->rx) - c->rx_len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	union control control;
	struct exchange_fds fds;
	ssize_t n;

	msg.msg_control = control.buf;
	msg.msg_controllen = CMSG_SPACE(sizeof(int) * c->x->max_fds);
	n = recvmsg(c->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return n;
	fds_take(&msg, &fds);
	if (fds.nb == 0 && (msg.msg_flags & MSG_CTRUNC) == 0)
		return n;
	/* CMSG_SPACE() rounds up, so there may be more than max_fds. */
	if (fds.nb > c->x->max_fds)
		msg.msg_flags |= MSG_CTRUNC;
	if (c->rx_len > 0 || (c->state != CONN_HELLO_WAIT && c->state != CONN_HELLO_SENT)) {
		*why = EXCHANGE_STRAY_FDS;
	} else if ((msg.msg_flags & MSG_CTRUNC) == 0) {
		c->rx_fds = fds;
		return n;
	} else if (fds.nb >= c->x->max_fds) {
		*why = "too many descriptors";
	} else {
		/*
		 * `control` had room for more: the kernel left descriptors out because this process
		 * has reached its limit of open files.
		 */
		errno = EMFILE;
		n = -1;
	}
	exchange_fds_close(&fds);
	return n;
}
