/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Windows and send buffers.
 *
 * Both are mapped for one stream and unmapped with it, never reused for another stream. Otherwise a
 * peer that announces bytes which it did not write could get another peer's bytes in the answer;
 * and the key that a peer was given must be invalid when the peer has ended. They are whole pages
 * of their own, so that MADV_DONTFORK on them hides no other memory from a forked child.
 */

#include <sys/mman.h>

#include "stream_pvt.h"

static uint8_t *
map(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	return p;
}

static uint64_t
mem_of(const struct leat_stream *s)
{
	return (uint64_t)s->rx_size + s->tx_size;
}

static int
mem_register(struct leat_stream *s)
{
	struct leat_stream_net *net = s->net;

	s->rx_mr = leat_mr_register(net->ep, s->rx_mem, s->rx_size,
				    LEAT_MR_LOCAL | LEAT_MR_REMOTE_WRITE);
	if (s->rx_mr == NULL)
		return -rte_errno;
	if (net->mr_local) {
		s->tx_mr = leat_mr_register(net->ep, s->tx_mem, s->tx_size, LEAT_MR_LOCAL);
		if (s->tx_mr == NULL)
			return -rte_errno;
	}
	return leat_mr_rkey(s->rx_mr, s->rx_mem, s->rx_size, &s->rx_key);
}

int
stream_mem_get(struct leat_stream *s)
{
	struct leat_stream_net *net = s->net;
	uint64_t need;
	int ret;

	/* The net's sizes and limit may change while the stream lives: keep its own sizes. */
	s->rx_size = net->conf.rx_size;
	s->tx_size = net->conf.tx_size;
	need = mem_of(s);
	if (net->stats.mem + need > net->conf.mem_max)
		return leat_err(ENOBUFS,
				"%s: window and send buffer of %s would be %" PRIu64
				" B beyond the limit of %" PRIu64
				" B: raise mem_max, or choose smaller ones",
				net->name, s->addr, net->stats.mem + need - net->conf.mem_max,
				net->conf.mem_max);
	STREAM_COUNT(net->stats.mem, need);
	s->rx_mem = map(s->rx_size);
	s->tx_mem = map(s->tx_size);
	if (s->rx_mem == NULL || s->tx_mem == NULL)
		ret = leat_err(ENOMEM, "%s: no memory for the buffers of %s", net->name, s->addr);
	else
		ret = mem_register(s);
	if (ret == 0)
		return 0;
	stream_mem_close(s);
	stream_mem_put(s);
	return ret;
}

static void
mr_put(struct leat_stream *s, struct leat_mr **mr)
{
	if (*mr == NULL)
		return;
	/* All ops have completed. If the device still uses the region, leat_ep_close() frees it. */
	if (leat_mr_deregister(*mr) < 0)
		LEAT_LOG(WARNING, stream, "%s: %s: %s", s->net->name, s->addr, leat_err_msg());
	*mr = NULL;
}

void
stream_mem_close(struct leat_stream *s)
{
	mr_put(s, &s->rx_mr);
	mr_put(s, &s->tx_mr);
}

void
stream_mem_put(struct leat_stream *s)
{
	struct leat_stream_net *net = s->net;

	if (s->rx_mem != NULL)
		(void)munmap(s->rx_mem, s->rx_size);
	if (s->tx_mem != NULL)
		(void)munmap(s->tx_mem, s->tx_size);
	s->rx_mem = s->tx_mem = NULL;
	STREAM_COUNT(net->stats.mem, -mem_of(s));
}
