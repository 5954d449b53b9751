/* SPDX-License-Identifier: BSD-3-Clause */

/* The server: it sends back the bytes of each stream. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include <rte_errno.h>

#include <leat_app.h>
#include <leat_error.h>
#include <leat_reactor.h>

#include "echo.h"

static struct leat_stream_net *net;
static uint32_t ended;
static char addr[128];

static void
end_stream(struct leat_stream *s)
{
	if (leat_stream_error(s) != 0)
		fprintf(stderr, "echo: %s\n", leat_stream_why(s));
	leat_stream_close(s, 0);
	ended++;
	if (opt.once != 0 && ended >= opt.once)
		leat_app_stop(LEAT_APP_OK);
}

/* Send back borrowed bytes. @return len; -ENOBUFS: only a part had room; or another error */
static ssize_t
echo(struct leat_stream *s, const void *data, size_t len)
{
	ssize_t n = leat_stream_write(s, data, len);

	if (n > 0 && leat_stream_give_back(s, (size_t)n) < 0)
		return -EIO;
	if (n < 0 && n != -EAGAIN)
		return n;
	return n == (ssize_t)len ? n : -ENOBUFS;
}

/* Echo through a buffer; read no more than there is room to send. */
static ssize_t
echo_copy(struct leat_stream *s)
{
	static uint8_t buf[65536];
	struct leat_stream_info info;
	ssize_t n;

	leat_stream_info_get(s, &info);
	if (info.tx_room == 0)
		return -ENOBUFS;
	n = leat_stream_read(s, buf, info.tx_room < sizeof(buf) ? info.tx_room : sizeof(buf));
	if (n > 0 && leat_stream_write(s, buf, (size_t)n) != n)
		return -EIO;
	return n;
}

static void
on_ready(struct leat_stream *s, uint32_t ready, void *arg)
{
	const void *data;
	ssize_t n;

	(void)ready;
	(void)arg;
	if (opt.copy) {
		n = echo_copy(s);
	} else {
		n = leat_stream_borrow(s, &data);
		if (n > 0)
			n = echo(s, data, (size_t)n);
	}
	if (n == 0 || (n < 0 && n != -EAGAIN && n != -ENOBUFS))
		end_stream(s);
	else
		leat_stream_watch(s, n == -ENOBUFS ? LEAT_STREAM_WRITABLE : LEAT_STREAM_READABLE,
				  on_ready, NULL);
}

static void
on_accept(struct leat_stream *s, void *arg)
{
	(void)arg;
	leat_stream_watch(s, LEAT_STREAM_READABLE, on_ready, NULL);
}

int
server_start(void)
{
	const struct leat_stream_listener listener = { .accept = on_accept };
	int ret;

	net = leat_stream_net_open(leat_reactor_self(), &opt.net);
	if (net == NULL)
		return -rte_errno;
	ret = leat_stream_listen(net, opt.listen, &listener);
	if (ret == 0)
		ret = leat_stream_listen_addr(net, addr, sizeof(addr));
	if (ret < 0)
		return ret;
	printf("listening on %s\n", addr);
	(void)fflush(stdout);
	return 0;
}

const char *
server_addr(void)
{
	return addr;
}

bool
server_end(void)
{
	int ret;

	if (net == NULL)
		return true;
	report("server", net);
	ret = leat_stream_net_close(net);
	/*
	 * -ETIMEDOUT: a client did not read its last bytes in time, which is no failure of the
	 * server.
	 */
	if (ret == 0 || ret == -ETIMEDOUT)
		return true;
	fprintf(stderr, "echo: the net can't be closed: %s\n", leat_err_msg());
	return false;
}
