/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * One ping, as rping's authors defined it (librdmacm/examples/rping.c of rdma-core):
 *
 *     client                                      server
 *       SEND {address, key, size} of source  --->  RECV
 *                      source  <-------------------  READ
 *       RECV  <------------------------------------  SEND: go on
 *       SEND {address, key, size} of sink    --->  RECV
 *                      sink  <---------------------  WRITE: what was read
 *       RECV  <------------------------------------  SEND: go on
 *
 * Each message is struct info, 16 bytes in network byte order; in a "go on" the fields are unused.
 * The two sides take turns.
 *
 * Nothing that comes from the peer is trusted: neither its turn, nor the length of a message, nor
 * the sizes in it, nor that a ping is text.
 */

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <rte_errno.h>

#include "rping.h"

void
talk_disconnect(struct session *s, const char *fmt, ...)
{
	va_list ap;

	if (s->step == DISCONNECTING)
		return;
	s->step = DISCONNECTING;
	va_start(ap, fmt);
	vsnprintf(s->why, sizeof(s->why), fmt, ap);
	va_end(ap);
	/* ENOTCONN: the peer is disconnecting already. */
	if (leat_ep_disconnect(ep, (uint16_t)(s - sessions)) < 0 && rte_errno != ENOTCONN)
		report_error("%s", leat_err_msg());
}

/* ---- sends ---- */

static void
post(struct session *s, enum leat_op_type type, void *buf, uint32_t size, struct leat_mr *mr)
{
	struct leat_op *op = &s->op;

	op->type = (uint8_t)type;
	op->peer = (uint16_t)(s - sessions);
	op->buf = buf;
	op->size = size;
	op->mr = mr;
	/* READ and WRITE: the peer's address and key. If they are wrong, the op fails. */
	op->raddr = be64toh(s->in.addr);
	op->rkey = be32toh(s->in.key);
	/* The endpoint has room for an op per peer, and this is the peer's only one. */
	if (leat_ep_post(ep, &op, 1) == 1)
		s->in_flight++;
	else
		talk_disconnect(s, "%s could not be posted: %s", leat_op_type_name(type),
				rte_strerror(rte_errno));
}

/* Send the peer the address and key of buf, opt.size bytes; buf NULL: a "go on". */
static void
post_info(struct session *s, const struct leat_mr *mr, const char *buf)
{
	struct info *out = &mem.msg.out[s - sessions];
	struct leat_rkey k = { 0 };

	if (buf != NULL && leat_mr_rkey(mr, buf, opt.size, &k) < 0) {
		talk_disconnect(s, "%s", leat_err_msg());
		return;
	}
	if (k.key > UINT32_MAX) {
		talk_disconnect(s,
				"keys of this device are longer than 32 bits: rping has no room");
		return;
	}
	out->addr = htobe64(k.addr);
	out->key = htobe32((uint32_t)k.key);
	out->size = htobe32((uint32_t)k.len);
	post(s, LEAT_OP_SEND, out, sizeof(*out), mem.msg_mr);
}

/* ---- the steps of a ping ---- */

/* Print a peer's bytes: they may lack a terminating zero, and may be no text. */
static void
show(const char *what, const char *buf, uint32_t len)
{
	uint32_t i;

	if (!opt.verbose)
		return;
	fputs(what, stdout);
	for (i = 0; i < len && buf[i] != '\0'; i++)
		putchar(buf[i] >= ' ' && buf[i] <= '~' ? buf[i] : '?');
	putchar('\n');
	fflush(stdout);
}

static void
server_step(struct session *s)
{
	uint32_t size = be32toh(s->in.size);
	char *buf = mem.ping[s - sessions];

	switch (s->step) {
	case WAIT_SOURCE:
		if (size == 0 || size > SIZE_MOST) {
			talk_disconnect(s, "a ping of %u B: 1 to %d are possible", size, SIZE_MOST);
			return;
		}
		s->len = size;
		s->step = READING;
		post(s, LEAT_OP_READ, buf, size, mem.ping_mr);
		break;
	case READING:
		show("server ping data: ", buf, s->len);
		s->step = WAIT_SINK;
		post_info(s, NULL, NULL);
		break;
	case WAIT_SINK:
		if (size < s->len) {
			talk_disconnect(s, "a sink of %u B for a ping of %u B", size, s->len);
			return;
		}
		s->step = WRITING;
		post(s, LEAT_OP_WRITE, buf, s->len, mem.ping_mr);
		break;
	case WRITING:
		s->pings++;
		pings++;
		s->step = WAIT_SOURCE;
		post_info(s, NULL, NULL);
		break;
	default:
		break;
	}
}

void
talk_begin(struct session *s)
{
	char *buf = mem.ping[0], c = (char)('A' + s->pings % ('z' - 'A' + 1));
	uint32_t i;

	i = (uint32_t)snprintf(buf, opt.size, "rdma-ping-%u: ", (uint32_t)s->pings);
	for (; i < opt.size - 1; i++) {
		buf[i] = c;
		c = c == 'z' ? 'A' : (char)(c + 1);
	}
	buf[opt.size - 1] = '\0';
	s->step = WAIT_READ;
	post_info(s, mem.ping_mr, buf);
}

static void
client_step(struct session *s)
{
	if (s->step == WAIT_READ) {
		s->step = WAIT_WRITE;
		post_info(s, mem.sink_mr, mem.sink);
		return;
	}
	if (opt.validate && memcmp(mem.ping[0], mem.sink, opt.size) != 0) {
		talk_disconnect(s, "what came back is not what was sent");
		return;
	}
	show("ping data: ", mem.sink, opt.size);
	s->pings++;
	pings++;
	if (s->pings == opt.count)
		talk_disconnect(s, "done");
	else
		talk_begin(s);
}

void
talk_resume(struct session *s)
{
	bool wait = s->step != READING && s->step != WRITING;

	/* A reply may arrive before the completion of the op that it answers. */
	if (!s->up || s->in_flight > 0 || s->step == DISCONNECTING || (wait && !s->has_message))
		return;
	if (wait)
		s->has_message = false;
	if (opt.client)
		client_step(s);
	else
		server_step(s);
}

/* ---- receives ---- */

void
talk_message(const struct leat_op *op)
{
	struct session *s;

	if (op->src >= PEERS || sessions[op->src].step == FREE)
		return; /* its sender has disconnected */
	s = &sessions[op->src];
	if (s->step == DISCONNECTING)
		return;
	if (op->len != sizeof(struct info) || op->oflags != 0)
		talk_disconnect(s, "a message of %" PRIu64 " B is none of rping's", op->len);
	else if (s->has_message || s->step == READING || s->step == WRITING)
		talk_disconnect(s, "it spoke out of turn");
	else
		memcpy(&s->in, op->buf, sizeof(s->in));
	s->has_message = true;
	talk_resume(s);
}
