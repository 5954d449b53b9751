/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A stream whose peer does anything: control messages of any bytes and lengths, notices with any
 * immediates, between reads, writes and completions of this side. Positions must stay in order, and
 * no write may go beyond the memory that the peer registered.
 *
 *     byte 0     bit 0: mode WINDOWS, bit 1: accepted, bit 2: features were asked for
 *     then commands, each a byte (modulo 6) and its argument:
 *       0   len, len bytes    a control message of len bytes
 *       1   imm, 8 bytes      a notice with this immediate
 *       2   n, 2 bytes        read at most n bytes
 *       3   n, 2 bytes        write at most n bytes
 *       4                     all posted ops complete
 *       5                     this side ends its direction: it writes no more
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "stream_pvt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NB_TX 8
#define SIZE LEAT_STREAM_RX_MIN

static struct leat_op *posted[NB_TX + STREAM_CTRLS];
static unsigned int nb_posted;
static struct leat_stream s;
static struct leat_stream_net net;

static void
check(bool ok)
{
	if (!ok)
		abort();
}

/* ---- functions of the library's other files ---- */

int
leat_err(int err, const char *fmt, ...)
{
	(void)fmt;
	return -err;
}

void
stream_fail(struct leat_stream *stream, int error, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	check(error < 0);
	stream->error = error;
	stream->state = STREAM_ENDING;
}

void
stream_work(struct leat_stream *stream)
{
	(void)stream;
}

void
stream_starve(struct leat_stream *stream)
{
	(void)stream;
}

void
stream_ready_touch(struct leat_stream *stream)
{
	(void)stream;
}

/* ---- the device ---- */

static uint16_t
post(struct leat_ep *ep, struct leat_op **ops, uint16_t n)
{
	const struct leat_op *op = ops[0];

	(void)ep;
	check(n == 1);
	if (nb_posted == RTE_DIM(posted))
		return 0;
	check(op->size > 0);
	if (op->type == LEAT_OP_WRITE_IMM) {
		const struct stream_window *w = &s.windows[0];

		check(s.nb_windows > 0 && op->raddr >= w->addr && op->rkey == w->key);
		check(op->size <= w->len - (op->raddr - w->addr));
		check((uint8_t *)op->buf >= s.tx_mem &&
		      (uint8_t *)op->buf + op->size <= s.tx_mem + s.tx_size);
	}
	posted[nb_posted++] = ops[0];
	return 1;
}

static void
complete(void)
{
	unsigned int i, n = nb_posted;

	nb_posted = 0;
	for (i = 0; i < n; i++) {
		if (posted[i]->type == LEAT_OP_SEND)
			stream_ctrl_done(container_of(posted[i], struct stream_ctrl_op, op));
		else
			stream_tx_done(container_of(posted[i], struct stream_tx_op, op));
	}
}

/* ---- the stream ---- */

static void
start(uint8_t how)
{
	static struct stream_tx_op tx[NB_TX];
	static struct stream_reorder reorder;
	static struct leat_ep ep;
	static uint8_t rx_mem[SIZE], tx_mem[LEAT_STREAM_TX_MIN];
	static uint8_t msgs[STREAM_CTRLS][STREAM_CTRL_LEN];
	unsigned int i;

	memset(&s, 0, sizeof(s));
	memset(&net, 0, sizeof(net));
	memset(&reorder, 0, sizeof(reorder));
	nb_posted = 0;
	ep.post = post;
	net.ep = &ep;
	net.windows = net.wide = (how & 1) != 0;
	net.chunk = STREAM_CHUNK;
	s.rx_size = SIZE;
	s.tx_size = sizeof(tx_mem);
	net.conf.peer_window_max = 1u << 30;
	for (i = 0; i < NB_TX; i++) {
		tx[i].op.type = LEAT_OP_WRITE_IMM;
		tx[i].next = net.tx_free;
		net.tx_free = &tx[i];
	}
	net.nb_tx_free = NB_TX;
	s.net = &net;
	s.state = STREAM_UP;
	s.accepted = (how & 2) != 0;
	s.rx_mem = rx_mem;
	s.tx_mem = tx_mem;
	s.rx_end = UINT64_MAX;
	s.outs_end = &s.outs;
	s.reorder = &reorder;
	for (i = 0; i < STREAM_CTRLS; i++) {
		s.ctrl[i].s = &s;
		s.ctrl[i].op.type = LEAT_OP_SEND;
		s.ctrl[i].op.buf = msgs[i];
		s.ctrl[i].op.size = STREAM_CTRL_LEN;
	}
	stream_ctrl_up(&s);
	if ((how & 4) == 0)
		s.pending &= (uint8_t)~PENDING_GET;
}

static void
invariants(void)
{
	check(s.rx_taken <= s.rx_got && s.rx_got <= s.rx_limit);
	check(s.rx_limit - s.rx_taken <= SIZE);
	check(s.rx_off < SIZE);
	check(s.tx_done <= s.tx_posted && s.tx_posted <= s.tx_head);
	check(s.tx_head - s.tx_done <= s.tx_size);
	check(s.nb_windows <= STREAM_WINDOWS);
	check(s.nb_windows == 0 || s.window_off <= s.windows[0].len);
	check(s.nb_answers <= STREAM_ANSWERS);
}

/* Run one command of the input. @return bytes used */
static size_t
step(const uint8_t *data, size_t size)
{
	static uint8_t buf[UINT16_MAX];
	uint64_t imm;
	uint16_t n;

	switch (data[0] % 6) {
	case 0:
		if (size < 2 || data[1] > STREAM_RECV_LEN || size < 2u + data[1])
			return size;
		memset(buf, 0, STREAM_RECV_LEN);
		memcpy(buf, data + 2, data[1]);
		stream_ctrl_arrived(&s, buf, data[1]);
		return 2u + data[1];
	case 1:
		if (size < 9)
			return size;
		memcpy(&imm, data + 1, sizeof(imm));
		stream_rx_notice(&s, imm);
		return 9;
	case 2:
	case 3:
		if (size < 3)
			return size;
		memcpy(&n, data + 1, sizeof(n));
		if (data[0] % 6 == 2)
			(void)leat_stream_read(&s, buf, n);
		else
			(void)leat_stream_write(&s, buf, n);
		return 3;
	case 4:
		complete();
		return 1;
	default:
		s.pending |= PENDING_END;
		return 1;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t used;

	if (size == 0)
		return 0;
	start(data[0]);
	for (data++, size--; size > 0 && s.state == STREAM_UP; data += used, size -= used) {
		used = step(data, size);
		leat_stream_flush(&s);
		invariants();
	}
	complete();
	return 0;
}
