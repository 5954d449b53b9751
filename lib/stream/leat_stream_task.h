/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_STREAM_TASK_H
#define LEAT_STREAM_TASK_H

/**
 * @file
 * Streams for tasks: calls that wait instead of returning -EAGAIN.
 *
 * @code
 *	static int
 *	client(void *arg)
 *	{
 *		struct leat_stream_net *net = leat_stream_net_open(leat_reactor_self(), NULL);
 *		struct leat_stream *s;
 *		char buf[64];
 *		ssize_t n;
 *		int ret;
 *
 *		ret = leat_stream_task_connect(net, "10.0.0.1:6379", 0, &s);
 *		if (ret < 0)
 *			return ret;
 *		n = leat_stream_task_write(s, "PING\r\n", 6);
 *		if (n > 0)
 *			n = leat_stream_task_read(s, buf, sizeof(buf));
 *		leat_stream_close(s, 0);
 *		return n < 0 ? (int)n : 0;
 *	}
 * @endcode
 *
 * Other tasks run while a call waits. The task's cancel and its deadline end each wait, with
 * -ECANCELED or -ETIMEDOUT; this does not change the stream. A stream can't be watched by
 * leat_stream_watch() and waited for by tasks at the same time. Several tasks may wait for one
 * stream. When a stream or its net is closed, the waits of other tasks for it end with -ECANCELED;
 * the stream's handle is invalid then.
 *
 * Thread rules: calls are made in tasks of the net's reactor. Otherwise all return -EPERM.
 */

#include <leat_stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Connect, and wait until the stream is up.
 * @param net
 *   The net.
 * @param addr
 *   Address of the server.
 * @param timeout_us
 *   Microseconds, as for leat_stream_connect().
 * @param[out] s
 *   The stream, on success only.
 * @return 0, or as leat_stream_connect() and leat_stream_error()
 */
LEAT_API int leat_stream_task_connect(struct leat_stream_net *net, const char *addr,
				      uint64_t timeout_us, struct leat_stream **s);

/**
 * Wait until a stream is in one of the states want, LEAT_STREAM_* or-ed.
 * @return those states of want that the stream is in, > 0; -EBUSY: a watch is set
 */
LEAT_API int leat_stream_task_wait(struct leat_stream *s, uint32_t want);

/** Read, waiting for the first byte. @return as leat_stream_read(), without -EAGAIN */
LEAT_API ssize_t leat_stream_task_read(struct leat_stream *s, void *buf, size_t len);

/**
 * Read exactly len bytes.
 * @return len; fewer: the end came first; a negative errno, even if some bytes were read before
 */
LEAT_API ssize_t leat_stream_task_read_all(struct leat_stream *s, void *buf, size_t len);

/**
 * Write all len bytes, waiting for room.
 * @return len, or a negative errno: then it is unknown how many bytes the peer has got
 */
LEAT_API ssize_t leat_stream_task_write(struct leat_stream *s, const void *buf, size_t len);

/**
 * Send without a copy, and wait until buf may be used again. A cancel does not end this wait.
 * @return 0 or a negative errno
 */
LEAT_API int leat_stream_task_send(struct leat_stream *s, const void *buf, size_t len,
				   struct leat_mr *mr);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_STREAM_TASK_H */
